"""Lennard-Jones and Coulomb between all pairs of atoms that are not excluded."""
