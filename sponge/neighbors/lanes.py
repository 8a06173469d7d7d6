"""Sixteen lanes over a pair of clusters: lane 4a + b is atom a of the first and atom b of the second."""

from __future__ import annotations

import numpy as np

from triskele.core.extend import device, simd, template

__all__ = [
    "add_quarters",
    "clear_touched",
    "close_touched",
    "first",
    "first_not_below",
    "second",
    "second_cluster",
    "shifted",
    "since",
]


@device
def first(array, offset):
    """Four numbers of the first cluster: each fills a quarter of the vector."""
    return simd.shuffle(simd.load(array, offset, 4), (0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3))


@device
def second(array, offset):
    """Four numbers of the second cluster, in every quarter of the vector."""
    return simd.shuffle(simd.load(array, offset, 4), (0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3))


@template
def add_quarters(total, at, v):
    """Add the sum of each quarter of `v`, which belongs to an atom of the first cluster, to that atom's lane."""
    h = simd.shuffle(v, (0, 2, 4, 6, 8, 10, 12, 14)) + simd.shuffle(v, (1, 3, 5, 7, 9, 11, 13, 15))
    q = simd.shuffle(h, (0, 2, 4, 6)) + simd.shuffle(h, (1, 3, 5, 7))
    simd.store(total, at, simd.load(total, at, 4) + q)


@template
def clear_touched(chunk, pairs, total, lanes):
    """Clear the sums of the clusters that get something: `lanes` vectors each."""
    zero = simd.splat(total.dtype.type(0), 16)
    for t in range(pairs.n_touched[chunk]):
        at = 16 * lanes * np.int64(pairs.touched[chunk, t])
        for a in range(lanes):
            simd.store(total, at + 16 * a, zero)


@template
def close_touched(chunk, pairs, total, block, lanes):
    """Sum the lanes of these clusters, one after the other, to blocks of four."""
    for t in range(pairs.n_touched[chunk]):
        at = 16 * lanes * np.int64(pairs.touched[chunk, t])
        for a in range(lanes):
            v = simd.load(total, at + 16 * a, 16)
            h = simd.low(v) + simd.high(v)
            simd.store(block, 4 * (lanes * t + a), simd.convert(simd.low(h) + simd.high(h), block.dtype))


@template
def second_cluster(pair, k, origin, clusters):
    """Return a second cluster, and its number from the start of the chunk's window, which may run over the end."""
    at = np.int64(simd.load_scalar(pair, k))
    j = at + origin
    return j - clusters * (j >= clusters), at


@template
def since(cluster, origin, clusters):
    """Return the number of a cluster counted from the start of the window."""
    at = cluster - origin
    return at + clusters * (at < 0)


@template
def shifted(xs, i, shifts, s):
    """Coordinates of a first cluster, shifted by a vector of the lattice."""
    real = xs.dtype.type
    return (
        first(xs, 16 * i) + real(shifts[3 * s]),
        first(xs, 16 * i + 4) + real(shifts[3 * s + 1]),
        first(xs, 16 * i + 8) + real(shifts[3 * s + 2]),
    )


@device
def first_not_below(values, n, least):
    """The first of `n` sorted values that is not below `least`."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if values[middle] < least:
            low = middle + 1
        else:
            high = middle
    return low
