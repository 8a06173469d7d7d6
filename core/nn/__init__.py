"""Neural networks: layers as dataclass trees, activations, losses, initializers."""

from ..imports.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
