"""Adjoint gradients of circuits of gates."""

from .engine import StatevectorEngine

__all__ = ["StatevectorEngine"]
