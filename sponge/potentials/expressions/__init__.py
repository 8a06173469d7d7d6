"""Potentials written as expressions."""
