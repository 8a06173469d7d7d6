"""All products of the terms of two Pauli sums, merged while they are made.

Terms of a sum come in groups of one x. Pairs of groups whose products have the same x are done one after another, so
that only z has to be looked up, in a hash table that is as small as their products are few and stays in the cache.
"""

from __future__ import annotations

import numpy as np

from triskele.core.extend import kernel, simd

from . import bits

__all__ = ["merged_products"]

_MOST_PAIRS = 1 << 24  # of terms, at a time
_I_POWERS = np.array([1, 1j, -1, -1j])


def merged_products(x1, z1, c1, x2, z2, c2, which) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Products of every term of one sum (x1, z1: (terms, words), in order of x; c1: (terms,)) with every one of
    another: x, z, c, few repeats.

    `which`: all (-1), or those of terms that commute (0) or anticommute (1) alone.
    """
    # of X^x Z^z, without Ys
    c1, c2 = (c * _I_POWERS[bits.count(x & z) & 3] for x, z, c in ((x1, z1, c1), (x2, z2, c2)))
    step = max(1, _MOST_PAIRS // len(c2))
    parts = [
        _block(x1[i : i + step], z1[i : i + step], c1[i : i + step], x2, z2, c2, which) for i in range(0, len(c1), step)
    ]
    x, z, c = (np.concatenate(p) if len(p) > 1 else p[0] for p in zip(*parts, strict=True))
    return x, z, c * _I_POWERS[-bits.count(x & z).astype(np.int64) & 3]


def _block(x1, z1, c1, x2, z2, c2, which):
    starts1, starts2 = _starts(x1), _starts(x2)
    groups2 = len(starts2) - 1
    x = (x1[starts1[:-1], None] ^ x2[starts2[:-1]]).reshape(-1, x1.shape[1])
    order, first = bits.order([*x.T[::-1]])
    segments = np.append(np.flatnonzero(first), len(x))
    sizes = (np.diff(starts1)[:, None] * np.diff(starts2)).reshape(-1)[order]
    products = np.add.reduceat(sizes, segments[:-1])  # at most so many different strings have the x of a segment
    table = np.empty(1 << int(2 * products.max()).bit_length(), np.int64)
    z, c = np.empty((len(c1) * len(c2), x1.shape[1]), np.uint64), np.empty(len(c1) * len(c2), complex)
    used = np.empty(len(products), np.int64)
    first1, first2 = order // groups2, order % groups2
    _products(x1, z1, c1, x2, z2, c2, which, starts1, starts2, first1, first2, segments, products, table, z, c, used)
    total = used.sum()
    return np.repeat(x[order[segments[:-1]]], used, axis=0), z[:total], c[:total]


def _starts(x: np.ndarray) -> np.ndarray:
    new = np.flatnonzero((x[1:] != x[:-1]).any(1)) + 1
    return np.concatenate([[0], new, [len(x)]])


@kernel
def _products(x1, z1, c1, x2, z2, c2, which, starts1, starts2, groups1, groups2, segments, products, table, z, c, used):
    """Products into `z` and `c`, segment after segment; how many different ones each has into `used`."""
    words, free = z.shape[1], 0
    for s in range(products.size):
        begin = free
        size = 1
        while size < 2 * products[s]:
            size *= 2
        table[:size] = -1
        for g in range(segments[s], segments[s + 1]):
            for i in range(starts1[groups1[g]], starts1[groups1[g] + 1]):
                for j in range(starts2[groups2[g]], starts2[groups2[g] + 1]):
                    crossed, other, h = np.uint64(0), np.uint64(0), np.uint64(0)
                    for w in range(words):
                        crossed ^= z1[i, w] & x2[j, w]
                        other ^= x1[i, w] & z2[j, w]
                        z[free, w] = z1[i, w] ^ z2[j, w]  # where it would stand if it were new
                        # Fibonacci hashing: Knuth, TAOCP vol. 3, section 6.4
                        h = (h ^ z[free, w]) * np.uint64(0x9E3779B97F4A7C15)
                        h ^= h >> np.uint64(32)
                    sign = simd.parity(np.int64(crossed))
                    if which >= 0 and (sign ^ simd.parity(np.int64(other))) != which:
                        continue
                    re, im = (
                        c1[i].real * c2[j].real - c1[i].imag * c2[j].imag,
                        c1[i].real * c2[j].imag + c1[i].imag * c2[j].real,
                    )
                    flip = 1.0 - 2.0 * np.float64(sign)
                    place = np.int64(h) & (size - 1)
                    while True:
                        k = table[place]
                        if k < 0:
                            table[place] = free
                            c[free] = complex(flip * re, flip * im)
                            free += 1
                            break
                        same = True
                        for w in range(words):
                            same = same and z[k, w] == z[free, w]
                        if same:
                            c[k] += complex(flip * re, flip * im)
                            break
                        place = (place + 1) & (size - 1)
        used[s] = free - begin
