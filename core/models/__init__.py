"""Network architectures, one file each: residual networks, U-Net, FCN, transformers."""

from ..imports.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
