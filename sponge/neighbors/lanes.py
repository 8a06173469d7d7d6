"""Sixteen lanes over a pair of clusters: lane 4a + b is atom a of the first and atom b of the second."""

from __future__ import annotations

from triskele.core.extend import device, simd

__all__ = ["first", "second"]


@device
def first(array, offset):
    """Four numbers of the first cluster: each fills a quarter of the vector."""
    return simd.shuffle(simd.load(array, offset, 4), (0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3))


@device
def second(array, offset):
    """Four numbers of the second cluster, in every quarter of the vector."""
    return simd.shuffle(simd.load(array, offset, 4), (0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3))
