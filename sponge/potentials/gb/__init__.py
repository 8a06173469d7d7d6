"""Generalised Born implicit solvent."""
