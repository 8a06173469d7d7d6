"""Counter-based random bits: Philox4x32-10.

Block `b` of the stream of a key is four 32-bit words, a bijection of the counter (b low, b high, 0, 0); word `i` is
word i % 4 of block i // 4. Any word can be computed directly, in any order, so the same numbers come out of NumPy, of
compiled loops, of SIMD vectors and of any number of threads. `numpy.random.Philox` is the 4x64 variant; that one
needs 64x64-bit products, which SIMD units lack, and runs about four times slower there.

References
----------
[1] Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11 (2011), section 4.3 and table 2.
    doi:10.1145/2063384.2063405. Known answers: file kat_vectors of the Random123 library.

Examples
--------
>>> from triskele.core.kernels import philox
>>> [hex(w) for w in philox.bits((0, 0), 0, 4)]
['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
>>> bool((philox.bits((1, 2), 5, 3) == philox.bits((1, 2), 0, 8)[5:]).all())
True
"""

from __future__ import annotations

import numpy as np

from .philox_ir import MULTIPLIERS, ROUNDS, WEYL

__all__ = ["MULTIPLIERS", "ROUNDS", "WEYL", "bits", "fold_in", "normal", "philox4x32", "split", "uniform"]

# The last counter word keeps derived keys apart from the stream itself.
FOLD, SPLIT = 1, 2
# Below this, NumPy is done before Numba is imported.
_KERNEL_WORDS = 1 << 16


def _as_key(key, where: str) -> tuple[int, int]:
    words = tuple(int(k) for k in np.asarray(key).ravel())
    if len(words) != 2 or not all(0 <= k < 2**32 for k in words):
        raise ValueError(f"{where}: key must be two integers in [0, 2**32), got {key!r}")
    return words


def _check_range(start, n, where: str) -> None:
    if n < 0 or start < 0 or start + n > 2**66:
        raise ValueError(f"{where}: words must lie in [0, 2**66) with n >= 0, got start {start}, n {n}")


def _whole_groups(blocks: int) -> int:
    return (blocks + 15) // 16 * 16  # the kernels write 16 blocks at a time


def philox4x32(counter, key) -> np.ndarray:
    """Apply the block function to `counter` (4, ...) and `key` (2, ...), both uint32; return (4, ...) uint32."""
    c0, c1, c2, c3 = (np.asarray(c, np.uint64) for c in counter)
    k0, k1 = (int(k) if np.ndim(k) == 0 else np.asarray(k, np.uint64) for k in key)
    low = np.uint64(0xFFFFFFFF)
    for r in range(ROUNDS):
        p0, p1 = c0 * np.uint64(MULTIPLIERS[0]), c2 * np.uint64(MULTIPLIERS[1])
        w0, w1 = (np.uint64((r * w) & 0xFFFFFFFF) for w in WEYL)
        c0, c1, c2, c3 = (
            (p1 >> np.uint64(32)) ^ c1 ^ ((np.uint64(k0) + w0) & low), p1 & low,
            (p0 >> np.uint64(32)) ^ c3 ^ ((np.uint64(k1) + w1) & low), p0 & low,
        )  # fmt: skip
    return np.stack(np.broadcast_arrays(c0, c1, c2, c3)).astype(np.uint32)


def bits(key, start: int, n: int) -> np.ndarray:
    """Return words `start` to `start + n` (<= 2**66) of the stream of a key of two 32-bit words, as (n,) uint32."""
    k0, k1 = _as_key(key, "philox.bits")
    _check_range(start, n, "philox.bits")
    first, skip = divmod(start, 4)
    blocks = (skip + n + 3) // 4
    if n >= _KERNEL_WORDS:
        from . import philox_kernels

        out = np.empty((_whole_groups(blocks), 4), np.uint32)
        philox_kernels.fill_bits(out, np.uint64(first), np.uint32(k0), np.uint32(k1))
    else:
        b = np.uint64(first) + np.arange(blocks, dtype=np.uint64)
        zero = np.zeros(blocks, np.uint64)
        out = philox4x32((b & np.uint64(0xFFFFFFFF), b >> np.uint64(32), zero, zero), (k0, k1)).T
    return np.ascontiguousarray(out).reshape(-1)[skip : skip + n]


def uniform(key, start: int, n: int, dtype=np.float64) -> np.ndarray:
    """Uniform numbers in [0, 1), all multiples of 2**-24 (float32, one word each) or 2**-53 (float64, two words each).

    `start` counts numbers, not words.
    """
    dtype = _float_type(dtype, "philox.uniform")
    if dtype == np.float32:
        return (bits(key, start, n) >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
    words = bits(key, 2 * start, 2 * n).astype(np.uint64).reshape(-1, 2)
    return ((words[:, 0] | words[:, 1] << np.uint64(32)) >> np.uint64(11)) * 2.0**-53


def normal(key, start: int, n: int, dtype=np.float64) -> np.ndarray:
    """Standard normal numbers by Box and Muller's method, with logarithm, sine and cosine of `vecmath`.

    A block gives four float32 numbers or two float64. `start` counts numbers, not words.
    """
    from . import philox_kernels

    k0, k1 = _as_key(key, "philox.normal")
    dtype = _float_type(dtype, "philox.normal")
    per_block = 4 if dtype == np.float32 else 2
    _check_range(start * (4 // per_block), n * (4 // per_block), "philox.normal")
    first, skip = divmod(start, per_block)
    out = np.empty((_whole_groups((skip + n + per_block - 1) // per_block), per_block), dtype)
    fill = philox_kernels.fill_normal32 if dtype == np.float32 else philox_kernels.fill_normal64
    fill(out, np.uint64(first), np.uint32(k0), np.uint32(k1))
    return out.reshape(-1)[skip : skip + n]


def _float_type(dtype, where: str) -> np.dtype:
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise TypeError(f"{where}: dtype must be float32 or float64, got {dtype}")
    return dtype


def fold_in(key, data: int) -> np.ndarray:
    """Return a new key, (2,) uint32, from a key and a 64-bit number."""
    key = _as_key(key, "philox.fold_in")
    if not 0 <= data < 2**64:
        raise ValueError(f"philox.fold_in: data must be in [0, 2**64), got {data}")
    return philox4x32((data & 0xFFFFFFFF, data >> 32, 0, FOLD), key)[:2]


def split(key, n: int = 2) -> np.ndarray:
    """Return `n` new keys, (n, 2) uint32, from one."""
    key = _as_key(key, "philox.split")
    if not 0 <= n <= 2**32:
        raise ValueError(f"philox.split: n must be in [0, 2**32], got {n}")
    i = np.arange(n, dtype=np.uint64)
    zero = np.zeros_like(i)
    return np.ascontiguousarray(philox4x32((i, zero, zero, zero + np.uint64(SPLIT)), key)[:2].T)
