"""Explicit SIMD vectors inside Numba functions.

A vector is a Numba type whose value is an LLVM vector: it lives in registers, and LLVM splits it where the processor
has narrower ones, so one source runs everywhere. Widths are literal integers, a scalar operand is broadcast and takes
the vector's dtype, comparisons give mask vectors, and `+ - * / & | ^ ~ << >>` act lane by lane.

Memory is addressed by a flat element offset into a C-contiguous array; nothing checks bounds.

Examples
--------
>>> import numpy as np
>>> from triskele.core.kernels import simd
>>> from triskele.core.kernels.njit import kernel
>>> @kernel(cache=False)
... def squared_distance(x, y):
...     total = simd.splat(np.float32(0), 8)
...     for i in range(0, x.size, 8):
...         d = simd.load(x, i, 8) - simd.load(y, i, 8)
...         total = simd.fma(d, d, total)
...     return simd.sum(total)
>>> squared_distance(np.arange(16, dtype=np.float32), np.ones(16, np.float32))
1016.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import lanes, lines, math, memory, random
from .vector import Vec

# functions named like one of Python's have an underscore at the end where they are defined
_functions = {
    name.removesuffix("_"): getattr(module, name)
    for module in (lanes, lines, math, memory, random)
    for name in module.__all__
}
globals().update(_functions)
if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


__all__ = ["Vec", *_functions]
