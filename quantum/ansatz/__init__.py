"""Parameterised circuits for variational algorithms."""
