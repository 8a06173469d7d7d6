"""Adjoint gradients of circuits that keep the number of particles."""

from .engine import SubspaceEngine

__all__ = ["SubspaceEngine"]
