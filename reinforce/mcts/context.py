"""Arguments of the tree kernels: one int64 array of numbers and addresses, so that the pool of threads can hand
it on.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import numpy as np
from numba import carray
from numba.core import types
from numba.extending import intrinsic

from triskele.core.extend import device, threads

from .tree import COUNTS, LINKS, PARENTS, STATS, STREAM, Tree

__all__ = [
    "FIRST_FREE",
    "NODE_CAPACITY",
    "STATES",
    "TREES",
    "CHUNKS",
    "at",
    "call",
    "context_of",
    "counts_at",
    "pointer",
    "run_chunks",
    "tree_at",
]

# places in the array; tree arrays follow from _ARRAYS on, and FIRST_FREE is the first place for a kernel's own
TREES, CHUNKS, NODE_CAPACITY, EDGE_CAPACITY, STATES, _ARRAYS, FIRST_FREE = 0, 1, 2, 3, 4, 5, 16


@intrinsic
def at(typingctx, address):
    """The address (int64) as a pointer for `numba.carray`."""
    return types.voidptr(types.int64), lambda context, builder, sig, args: builder.inttoptr(
        args[0], context.get_value_type(types.voidptr)
    )


@device
def tree_at(w, t):
    """Tree number `t` of the trees that a context was made of: a `Tree` of rows."""
    nodes, edges, a = w[NODE_CAPACITY], w[EDGE_CAPACITY], _ARRAYS
    return Tree(
        carray(at(w[a] + t * nodes * 8), (nodes,), STATS),
        carray(at(w[a] + t * nodes * 8), (nodes,), np.int64),
        carray(at(w[a + 1] + t * nodes * 8), (nodes,), np.float64),
        carray(at(w[a + 2] + t * nodes * 8), (nodes,), LINKS),
        carray(at(w[a + 3] + t * nodes * 8), (nodes,), PARENTS),
        carray(at(w[a + 4] + t * nodes * 4), (nodes,), np.float32),
        carray(at(w[a + 5] + t * nodes * 4), (nodes,), np.float32),
        carray(at(w[a + 6] + t * edges * 4), (edges,), np.int32),
        carray(at(w[a + 7] + t * edges * 4), (edges,), np.int32),
        carray(at(w[a + 8] + t * edges * 4), (edges,), np.float32),
        carray(at(w[a + 9] + t * COUNTS * 8), (COUNTS,), np.int64),
        carray(at(w[a + 10] + t * STREAM * 8), (STREAM,), np.uint64),
    )


@device
def counts_at(w, t):
    """`counts` of tree number `t`."""
    return carray(at(w[_ARRAYS + 9] + t * COUNTS * 8), (COUNTS,), np.int64)


def context_of(tree: Tree, states: np.ndarray, *own: int | np.ndarray) -> np.ndarray:
    """Context of a batch of trees and the (trees, nodes) states next to them; `own` numbers and arrays stand from
    FIRST_FREE on.

    The arrays must live as long as the context is used.
    """
    arrays = [a for name, a in zip(tree._fields, tree, strict=True) if name != "packed"]
    numbers = [*tree.totals.shape, tree.children.shape[1]]
    addresses = [pointer(x) if isinstance(x, np.ndarray) else int(x) for x in (*arrays, *own)]
    return np.array([numbers[0], 1, *numbers[1:], pointer(states), *addresses], np.int64)


def pointer(array: np.ndarray) -> int:
    """Address of an array's memory, in a third of the time that `array.ctypes.data` takes."""
    return array.__array_interface__["data"][0]


def call(kernel: Callable, address: int, number: int) -> None:
    """Call ``kernel(context, number)`` with the context at an address: what Numba's dispatch would take is saved."""
    _function(kernel)(address, number)


@cache
def _function(kernel):
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(threads.body(kernel))


def run_chunks(kernel: Callable, context: np.ndarray, chunks: int) -> None:
    """Call ``kernel(context, chunk)`` for each chunk, on all threads of the pool."""
    context[CHUNKS] = chunks
    if chunks == 1:
        call(kernel, pointer(context), 0)
    else:
        threads.parallel_for(threads.body(kernel), pointer(context), chunks)
