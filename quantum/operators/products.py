"""All products of the terms of two Pauli sums, merged while they are made: a kernel with a hash table."""

from __future__ import annotations

import numpy as np

from triskele.core.kernels.njit import device, kernel

__all__ = ["merged_products"]


def merged_products(x1, z1, c1, x2, z2, c2, which) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Products of every term of one sum (x1, z1: (terms, words); c1: (terms,)) with every one of another: x, z, c without repeats, unordered.

    `which`: all (-1), or those of terms that commute (0) or anticommute (1) alone.
    """
    size = len(c1) * len(c2)
    room = 1 << max(10, (4 * (len(c1) + len(c2))).bit_length())
    rows = np.empty((2, min(room, size), x1.shape[1]), np.uint64)
    factors = (x1, z1, np.ascontiguousarray(c1), x2, z2, np.ascontiguousarray(c2), which)
    c, table = np.empty(rows.shape[1], complex), np.full(2 * room, -1)
    used, i, j = _products(*factors, rows, c, table, 0, 0, 0)
    while i < len(c1):  # full: room for four times as many
        room *= 4
        grown = np.empty((2, min(room, size), x1.shape[1]), np.uint64)
        grown[:, :used] = rows[:, :used]
        rows, c, table = grown, np.concatenate([c, np.empty(grown.shape[1] - len(c), complex)]), np.full(2 * room, -1)
        _rehash(rows, table, used)
        used, i, j = _products(*factors, rows, c, table, used, i, j)
    return rows[0, :used], rows[1, :used], c[:used]


@device
def _ones(v):
    v = v - ((v >> np.uint64(1)) & np.uint64(0x5555555555555555))
    v = (v & np.uint64(0x3333333333333333)) + ((v >> np.uint64(2)) & np.uint64(0x3333333333333333))
    v = (v + (v >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((v * np.uint64(0x0101010101010101)) >> np.uint64(56))


@device
def _mix(h, word):  # the finaliser of SplitMix64 (Steele, Lea, Flood 2014, figure 12): spreads every bit over all
    h = (h ^ word) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@device
def _hash(rows, k):
    h = np.uint64(0x9E3779B97F4A7C15)
    for w in range(rows.shape[2]):
        h = _mix(_mix(h, rows[0, k, w]), rows[1, k, w])
    return h


@kernel
def _products(x1, z1, c1, x2, z2, c2, which, rows, c, table, used, i0, j0):
    """Add products from pair (i0, j0) on to `rows`; returns how many rows there are, and the pair at which they were full."""
    words, mask = rows.shape[2], table.size - 1
    for i in range(i0, c1.size):
        for j in range(j0 if i == i0 else 0, c2.size):
            if used == c.size:  # the next product may need a row
                return used, i, j
            power = 0
            h = np.uint64(0x9E3779B97F4A7C15)
            for w in range(words):  # the product is written where it would stand if it were new
                x, z = x1[i, w] ^ x2[j, w], z1[i, w] ^ z2[j, w]
                power += _ones(x1[i, w] & z1[i, w]) + _ones(x2[j, w] & z2[j, w]) + 2 * _ones(z1[i, w] & x2[j, w]) - _ones(x & z)
                rows[0, used, w], rows[1, used, w] = x, z
                h = _mix(_mix(h, x), z)
            if which >= 0 and power & 1 != which:  # i or -i: they anticommute
                continue
            re, im = c1[i].real * c2[j].real - c1[i].imag * c2[j].imag, c1[i].real * c2[j].imag + c1[i].imag * c2[j].real
            if power & 2:
                re, im = -re, -im
            if power & 1:
                re, im = -im, re
            tag = np.int64(h >> np.uint64(32)) << 32  # upper half of an entry: a part of the hash; lower half: its row
            place = np.int64(h) & mask
            while True:
                entry = table[place]
                if entry == -1:
                    table[place] = tag | used
                    c[used] = complex(re, im)
                    used += 1
                    break
                k = entry & 0xFFFFFFFF
                same = (entry ^ tag) >> 32 == 0
                for w in range(words):
                    same = same and rows[0, k, w] == rows[0, used, w] and rows[1, k, w] == rows[1, used, w]
                if same:
                    c[k] += complex(re, im)
                    break
                place = (place + 1) & mask
    return used, c1.size, 0


@kernel
def _rehash(rows, table, used):
    for k in range(used):
        h = _hash(rows, k)
        place = np.int64(h) & (table.size - 1)
        while table[place] != -1:
            place = (place + 1) & (table.size - 1)
        table[place] = (np.int64(h >> np.uint64(32)) << 32) | k
