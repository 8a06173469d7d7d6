"""Potentials of metals and covalent crystals."""
