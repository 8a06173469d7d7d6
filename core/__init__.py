"""Differentiable tensor core: plain NumPy code goes in; derivatives and compiled kernels come out.

Layers, each knowing only those before it: `tree`, `errors`, `tensor`; `kernels` (machine code by hand, knows nothing of
ours); `graph` (the representation); `ops` (one primitive, one definition); `transforms`; `compile`; `nn`, `optim`.
"""

if __name__ != "triskele.core":
    raise ImportError(f"import this package as triskele.core, not as {__name__!r}")

from . import ops as _operations  # noqa: F401  they register themselves
from .imports.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
