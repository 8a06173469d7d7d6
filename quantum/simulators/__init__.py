"""Simulators: ways of running a circuit."""
