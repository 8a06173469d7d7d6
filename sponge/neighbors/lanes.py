"""Sixteen lanes over a pair of clusters: lane 4a + b is atom a of the first and atom b of the second."""

from __future__ import annotations

from triskele.core.extend import device, simd, template

__all__ = ["add_quarters", "first", "first_not_below", "second"]


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
