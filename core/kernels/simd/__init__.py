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

from .. import vecmath
from . import math as _math
from .lanes import (
    all_ as all,
)
from .lanes import (
    any_ as any,
)
from .lanes import (
    bitcast,
    bits,
    concat,
    convert,
    extract,
    from_bits,
    high,
    insert,
    iota,
    low,
    parity,
    popcount,
    select,
    shuffle,
    shuffle2,
    splat,
    unzip_lanes,
    xor_lanes,
    zip_lanes,
)
from .lanes import (
    max_ as max,
)
from .lanes import (
    min_ as min,
)
from .lanes import (
    sum_ as sum,
)
from .lines import (
    address_of,
    iota_line,
    lanes_of,
    load_line,
    load_line_unaligned,
    pointer_like,
    pointer_to,
    prefetch,
    splat_line,
    stack,
    store_line,
    store_scalar,
)
from .math import abs_ as abs
from .math import (
    ceil,
    copysign,
    floor,
    fma,
    maximum,
    minimum,
    rcp_fast,
    rint,
    rsqrt_fast,
    sqrt,
    trunc,
)
from .memory import (
    address,
    gather,
    gather_masked,
    load,
    load_masked,
    load_scalar,
    load_splat,
    scatter,
    scatter_masked,
    store,
    store_masked,
)
from .random import philox4x32
from .vector import Vec

# exp, log, sin, ...: every function of vecmath, under its name
globals().update({name: getattr(_math, name) for name in vecmath.names()})
if TYPE_CHECKING:
    def __getattr__(name: str) -> Any: ...

__all__ = [
    "Vec", "abs", "address", "address_of", "all", "any", "bitcast", "bits", "ceil", "concat", "convert", "copysign",
    "extract", "floor", "fma", "from_bits", "gather", "gather_masked", "high", "insert", "iota", "iota_line",
    "lanes_of", "load", "load_line", "load_line_unaligned", "load_masked", "load_scalar", "load_splat", "low",
    "max", "maximum", "min", "minimum", "parity", "philox4x32", "pointer_like", "pointer_to", "popcount",
    "prefetch", "rcp_fast", "rint", "rsqrt_fast", "scatter", "scatter_masked", "select", "shuffle", "shuffle2",
    "splat", "splat_line", "sqrt", "stack", "store", "store_line", "store_masked", "store_scalar", "sum", "trunc",
    "unzip_lanes", "xor_lanes", "zip_lanes", *vecmath.names(),
]
