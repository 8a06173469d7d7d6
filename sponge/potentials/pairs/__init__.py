"""Sums over pairs of atoms: loops, kernels and mixing rules."""
