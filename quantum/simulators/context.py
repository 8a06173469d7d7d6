"""Contexts of parallel loops: what the caller and the chunks of a loop share, as a record of int64 words.

The thread pool hands one pointer to every chunk. Arrays go as addresses, so the caller must keep them alive until the
loop has ended.
"""

from __future__ import annotations

import numpy as np
from numba import carray

from triskele.core.extend import simd, template

__all__ = ["context_type", "read_context"]


def context_type(*names: str) -> np.dtype:
    """Return the type of a record with an int64 word of each name."""
    return np.dtype([(name, np.int64) for name in names])


@template
def read_context(pointer, dtype):
    """Return the record behind the pointer that a chunk got."""
    return carray(simd.pointer_to(simd.address_of(pointer), dtype), 1)[0]
