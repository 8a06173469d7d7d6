"""Coordinates of eight atoms at a time as vectors x, y, z."""

from __future__ import annotations

import numpy as np

from triskele.core.extend import device, simd

__all__ = ["LANES", "load_triples", "load_vectors", "store_triples", "store_vectors"]

LANES = 8


@device
def load_vectors(array, atoms):
    """x, y, z of the atoms in a vector of numbers (int32); `array` [n, 3]."""
    at = atoms * np.int32(3)
    return simd.gather(array, at), simd.gather(array, at + np.int32(1)), simd.gather(array, at + np.int32(2))


@device
def store_vectors(array, atoms, x, y, z):
    """The opposite of `load_vectors`; of equal atoms the last lane wins."""
    at = atoms * np.int32(3)
    simd.scatter(array, at, x)
    simd.scatter(array, at + np.int32(1), y)
    simd.scatter(array, at + np.int32(2), z)


@device
def load_triples(array, first):
    """The nine coordinates of three consecutive atoms; `first` holds the indices of the first ones."""
    one = np.int32(1)
    return (*load_vectors(array, first), *load_vectors(array, first + one), *load_vectors(array, first + one + one))


@device
def store_triples(array, first, c):
    """The opposite of `load_triples`."""
    one = np.int32(1)
    store_vectors(array, first, c[0], c[1], c[2])
    store_vectors(array, first + one, c[3], c[4], c[5])
    store_vectors(array, first + one + one, c[6], c[7], c[8])
