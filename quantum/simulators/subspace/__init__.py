"""Circuits that keep the number of particles, in the space of the basis states that they reach."""

from .simulator import simulate

__all__ = ["simulate"]
