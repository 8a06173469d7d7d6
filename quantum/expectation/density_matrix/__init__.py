"""Adjoint gradients of noisy circuits."""

from .engine import DensityEngine

__all__ = ["DensityEngine"]
