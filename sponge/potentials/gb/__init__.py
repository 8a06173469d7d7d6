"""Generalized Born implicit solvent."""
