"""Training: the step, the loop, callbacks, metrics and reports."""

from ..imports.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
