"""Optimizers, learning-rate schedules and gradient clipping."""

from ..imports.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
