"""Potentials of polarizable molecules: Drude particles, induced dipoles and moving charges."""
