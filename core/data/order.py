"""Permutations of any length that are computed position by position, without an array of indices.

The n positions are numbered (l, r) on a rectangle of a x b >= n cells. Each half round adds a keyed hash of one
coordinate to the other, which is a bijection (a generalized Feistel network); a result outside 0 ... n - 1 is permuted
again until it lies inside (cycle walking).

References
----------
[1] Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002, methods 2 and 3.
    doi:10.1007/3-540-45760-7_9. The hash is the finalizer of MurmurHash3 (Appleby, public domain).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from .. import random
from ..compile.jit import jit
from ..kernels import philox

__all__ = ["permuted"]

_ROUNDS = 6  # pairs of half rounds
_CHUNK = 4096  # positions that are computed and kept together
_LOW, _HALF = np.uint64(33), np.uint64(32)
_MULTIPLIERS = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)


def permuted(positions: np.ndarray, n: int, seed: int, epoch: int) -> np.ndarray:
    """Images of `positions` under the permutation of 0 ... n - 1 that belongs to a seed and an epoch."""
    if not positions.size:
        return positions
    first, last = int(positions.min()) // _CHUNK, int(positions.max()) // _CHUNK
    if last - first > 1:
        return _walk(positions, n, _round_keys(seed, epoch))
    whole = [_chunk(n, seed, epoch, k) for k in range(first, last + 1)]
    return np.concatenate(whole)[positions - first * _CHUNK]


@lru_cache(maxsize=32)
def _chunk(n, seed, epoch, k):
    return _walk(np.arange(k * _CHUNK, min(n, (k + 1) * _CHUNK)), n, _round_keys(seed, epoch))


def _round_keys(seed, epoch):
    words = philox.bits(random.fold_in(_order_key(seed), epoch), 0, 4 * _ROUNDS).astype(np.uint64)
    return words.reshape(-1, 2) @ np.array([1, 1 << 32], np.uint64)


@lru_cache(maxsize=32)
def _order_key(seed):
    return random.fold_in(random.key(seed), random.Fold.DATA_ORDER)


def _walk(positions, n, keys):
    a = math.isqrt(n - 1) + 1
    b = -(-n // a)
    rounds = _rounds if positions.size < _CHUNK else _rounds_by_chunk
    out = rounds(positions.astype(np.uint64), np.uint64(a), np.uint64(b), keys)
    while (outside := np.flatnonzero(out >= n)).size:
        out[outside] = rounds(out[outside], np.uint64(a), np.uint64(b), keys)
    return out.astype(np.int64)


def _rounds(m, a, b, keys):
    left = (m / b).astype(np.uint64)  # exact below 2**52
    right = m - left * b
    for k in range(0, 2 * _ROUNDS, 2):
        left = _added(left, _hash(right, keys[k]), a)
        right = _added(right, _hash(left, keys[k + 1]), b)
    return left * b + right


_compiled_rounds = jit(_rounds)


def _rounds_by_chunk(m, a, b, keys):
    """`_rounds` by one compiled program for arrays of all lengths."""
    padded = np.zeros((-(-m.size // _CHUNK), _CHUNK), np.uint64)
    out = padded.reshape(-1)[: m.size]
    out[:] = m
    for row in padded:
        row[:] = _compiled_rounds(row, a, b, keys)
    return out


def _added(x, hashed, limit):
    """Add a hash to x, modulo `limit`; its upper half times the limit takes the place of a division (a, b < 2**32)."""
    x = x + ((hashed >> _HALF) * limit >> _HALF)
    return x - (x >= limit) * limit


def _hash(x, key):
    x = x ^ key
    for multiplier in _MULTIPLIERS:
        x = (x ^ x >> _LOW) * multiplier
    return x ^ x >> _LOW
