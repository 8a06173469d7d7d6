"""Weights and images by a formula of their number, so that any program can make the same ones."""

import math

import numpy as np


def numbers(shape, seed):
    """Uniform on (-1, 1): a hash of the element's number in C order."""
    mask = np.uint64(0xFFFFFFFF)
    u = (np.arange(math.prod(shape), dtype=np.uint64) * np.uint64(2654435761) + np.uint64(97 * seed + 1)) & mask
    for shift, factor in ((15, 2246822519), (13, 3266489917)):
        u = ((u ^ (u >> np.uint64(shift))) * np.uint64(factor)) & mask
    return ((u ^ (u >> np.uint64(16))).astype(float) / 2**31 - 1).reshape(shape)


def weight(shape, seed):
    """A kernel (*window, n in, n out) that keeps the scale, or an array of channels around 1."""
    return numbers(shape, seed) * (math.sqrt(6 / math.prod(shape[:-1])) if len(shape) > 1 else 0.3) + (len(shape) == 1)
