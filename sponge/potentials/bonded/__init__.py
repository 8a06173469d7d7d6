"""Potentials of bonds, angles, torsions and other terms of a few atoms."""
