"""Fourier transforms for compiled loops: 16 lines at once in the lanes of vectors, float32 or float64.

Lengths with no prime factor beyond 7 (`next_length`) are quick; another prime p takes p operations an element. Complex
vectors are two real vectors of 16 lanes; `transform` takes 16 lines whose elements lie at any stride. A real
three-dimensional array is transformed plane by plane:

- a plane x is `rows`: element (y, z) at ``z * row + y``, so that the lanes run over y;
- `plane_forward` transforms along z, transposes, transforms along y and writes the plane's half spectrum, in which the
  lanes run over kz: blocks of 16 frequencies, element (block, y, re or im, lane);
- lines along x are strided in the spectrum: load, `transform`, multiply, transform back in one go;
- `plane_backward` undoes `plane_forward`.

Nothing is normalized: forward and back multiply by the number of points. Planes and lines are independent of one
another, which is how the work is divided among chunks.

References
----------
C. Van Loan, Computational Frameworks for the Fast Fourier Transform, section 1.7.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.np.numpy_support import from_dtype

from . import simd
from .fft_passes import LANES, RADICES, compile_transform, constants, transform, transpose
from .njit import device

__all__ = [
    "LANES",
    "OUTER",
    "Layout",
    "aligned",
    "next_length",
    "passes",
    "plane_backward",
    "plane_forward",
    "transform",
    "zeros_like",
]

# Numba writes two wrappers for each function, a sixth of the time to compile it: kernels need not the one for C.
OUTER = {"nogil": True, "no_cfunc_wrapper": True}
_CONSTANTS = 16  # at the start of the twiddle factors


def next_length(n: int) -> int:
    """The smallest length >= n that is quick to transform: a product of 2, 3, 5 and 7."""
    n = max(int(n), 1)
    while max(_radices(n), default=1) > 8:
        n += 1
    return n


def _radices(n: int) -> list[int]:
    """Factors of n: primes, but 8 and 4 in place of twos; largest first."""
    primes, p = [], 2
    while n > 1:
        if n % p:
            p += 1
        else:
            primes.append(p)
            n //= p
    eights, left = divmod(primes.count(2), 3)
    if left == 1 and eights:
        eights, fours, twos = eights - 1, 2, 0
    else:
        fours, twos = left // 2, left % 2
    return sorted([8] * eights + [4] * fours + [2] * twos + [p for p in primes if p > 2], reverse=True)


def passes(n: int, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Passes of a transform of length `n`, int64 [passes, 4] (radix, blocks, stride, first twiddle), and its
    constants.
    """
    compile_transform(from_dtype(np.dtype(dtype)))
    table, twiddles = [], [np.zeros(_CONSTANTS)]
    twiddles[0][: len(constants())] = constants()
    rest, stride, at = n, 1, _CONSTANTS
    for radix in _radices(n):
        blocks = rest // radix
        table.append((radix, blocks, stride, at))
        angle = -2 * np.pi / rest * np.outer(np.arange(blocks), np.arange(1, radix)).ravel()
        if radix not in RADICES:  # followed by the roots of one
            angle = np.concatenate([angle, -2 * np.pi / radix * np.arange(radix)])
        twiddles.append(np.stack([np.cos(angle), np.sin(angle)], 1).ravel())
        at += twiddles[-1].size
        rest, stride = blocks, stride * radix
    return np.concatenate([[len(table)], np.ravel(table)]).astype(np.int64), np.concatenate(twiddles).astype(dtype)


def aligned(size: int, dtype: Any) -> np.ndarray:
    """Zeros [size] that begin at a cache line."""
    dtype = np.dtype(dtype)
    raw = np.zeros(size * dtype.itemsize + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size * dtype.itemsize].view(dtype)


class Layout:
    """Sizes and tables of the transform of a float32 or float64 array; a plane has `margin` spare rows and columns."""

    def __init__(self, shape: tuple[int, int, int], dtype: Any, margin: int = 0):
        nx, ny, nz = (int(n) for n in shape)
        self.shape, self.dtype = (nx, ny, nz), np.dtype(dtype)
        self.blocks = (nz // 2) // LANES + 1
        tiles = -(-ny // (2 * LANES))
        self.row = max(2 * LANES * tiles, -(-(ny + margin) // LANES) * LANES)
        # an odd number of cache lines: lines along x fall in all sets
        self.plane = self.blocks * ny * 2 * LANES + LANES
        tables = [passes(n, dtype) for n in shape]
        self.passes, self.twiddles = [t[0] for t in tables], [t[1] for t in tables]  # by axis
        # For plane_forward and plane_backward: nx, ny, nz, blocks of frequencies, tiles of 32 rows, and elements of a
        # plane of the spectrum, of a row and of a complex vector.
        self.sizes = np.array([nx, ny, nz, self.blocks, tiles, self.plane, self.row, 2 * LANES], np.int64)
        # elements of the rows of one plane, of the whole spectrum, and of the scratch for transforming one plane
        self.rows = self.row * (nz + margin)
        self.spectrum = self.plane * nx
        self.scratch = (6 * max(ny, nz) + 4 * LANES * self.blocks + 4 * LANES * self.blocks * tiles) * LANES


@device
def _regions(scratch, sizes):
    """One line, the work space of `transform`, the parted lines and the plane's lines, all in the scratch."""
    longest = max(simd.load_scalar(sizes, 1), simd.load_scalar(sizes, 2)) * 2 * LANES
    parted = 3 * longest + 4 * simd.load_scalar(sizes, 3) * LANES * LANES
    return scratch, simd.address(scratch, longest), simd.address(scratch, 3 * longest), simd.address(scratch, parted)


@device
def plane_forward(rows, scratch, spectrum, sizes, y_table, y_twiddles, z_table, z_twiddles):
    """Transform the plane `rows` along z and y into a plane of the `spectrum`. All arguments are pointers."""
    ny, nz, blocks = simd.load_scalar(sizes, 1), simd.load_scalar(sizes, 2), simd.load_scalar(sizes, 3)
    tiles, row, wide = simd.load_scalar(sizes, 4), simd.load_scalar(sizes, 6), simd.load_scalar(sizes, 7)
    line, work, parts, lines = _regions(scratch, sizes)
    for tile in range(tiles):
        # two real lines at once as real and imaginary part; the symmetry of real spectra parts them
        of = simd.address(rows, tile * wide)
        transform(of, simd.address(of, LANES), row, work, line, simd.address(line, LANES), wide, z_table, z_twiddles)
        for k in range(nz // 2 + 1):
            _part(
                simd.address(line, wide * k),
                simd.address(line, wide * ((nz - k) % nz)),
                simd.address(parts, k * LANES),
                blocks * LANES * LANES,
            )
        for q in range(4):
            _clear(simd.address(parts, q * blocks * LANES * LANES), nz // 2 + 1, blocks * LANES)
            for block in range(blocks):
                to = ((block * tiles + tile) * 2 + q // 2) * 2 * LANES * LANES + (q % 2) * LANES
                transpose(
                    simd.address(parts, (q * blocks + block) * LANES * LANES), wide // 2, simd.address(lines, to), wide
                )
    for block in range(blocks):
        of = simd.address(lines, block * tiles * 4 * LANES * LANES)
        to = simd.address(spectrum, block * ny * wide)
        transform(of, simd.address(of, LANES), wide, work, to, simd.address(to, LANES), wide, y_table, y_twiddles)


@device
def plane_backward(spectrum, scratch, rows, sizes, y_table, y_twiddles, z_table, z_twiddles):
    """Transform a plane of the `spectrum` back into `rows`. All arguments are pointers."""
    ny, nz, blocks = simd.load_scalar(sizes, 1), simd.load_scalar(sizes, 2), simd.load_scalar(sizes, 3)
    tiles, row, wide = simd.load_scalar(sizes, 4), simd.load_scalar(sizes, 6), simd.load_scalar(sizes, 7)
    line, work, parts, lines = _regions(scratch, sizes)
    for block in range(blocks):
        of = simd.address(spectrum, block * ny * wide)
        to = simd.address(lines, block * tiles * 4 * LANES * LANES)
        transform(simd.address(of, LANES), of, wide, work, simd.address(to, LANES), to, wide, y_table, y_twiddles)
        _clear(to, 2 * ny, 2 * tiles * wide)
    for tile in range(tiles):
        for q in range(4):
            for block in range(blocks):
                of = ((block * tiles + tile) * 2 + q // 2) * 2 * LANES * LANES + (q % 2) * LANES
                transpose(
                    simd.address(lines, of), wide, simd.address(parts, (q * blocks + block) * LANES * LANES), wide // 2
                )
        for k in range(nz // 2 + 1):
            _join(
                simd.address(parts, k * LANES),
                blocks * LANES * LANES,
                simd.address(line, wide * k),
                simd.address(line, wide * ((nz - k) % nz)),
                k == (nz - k) % nz,
            )
        to = simd.address(rows, tile * wide)
        transform(simd.address(line, LANES), line, wide, work, simd.address(to, LANES), to, row, z_table, z_twiddles)


@device
def zeros_like(a):
    """A vector of zeros for the array that the pointer `a` goes to."""
    return simd.select(simd.from_bits(np.uint64(0), 16), simd.load(a, 0, 16), 0.0)


@device
def _clear(a, first, end):
    """Vectors `first` ... `end` - 1."""
    for k in range(first, end):
        simd.store(a, k * LANES, zeros_like(a))


@device
def _part(here, there, to, step):
    """From the transform of x + i y at k (`here`) and -k (`there`) twice the transforms of x and y at k."""
    re, im = simd.load(here, 0, 16), simd.load(here, LANES, 16)
    other_re, other_im = simd.load(there, 0, 16), simd.load(there, LANES, 16)
    simd.store(to, 0, re + other_re)
    simd.store(to, step, im - other_im)
    simd.store(to, 2 * step, im + other_im)
    simd.store(to, 3 * step, other_re - re)


@device
def _join(of, step, here, there, same):
    """The opposite of `_part`. Imaginary parts that a real line's spectrum cannot have (at 0 and n/2) drop out."""
    x_re, x_im = simd.load(of, 0, 16), simd.load(of, step, 16)
    y_re, y_im = simd.load(of, 2 * step, 16), simd.load(of, 3 * step, 16)
    if same:
        simd.store(here, 0, x_re)
        simd.store(here, LANES, y_re)
    else:
        simd.store(here, 0, x_re - y_im)
        simd.store(here, LANES, x_im + y_re)
        simd.store(there, 0, x_re + y_im)
        simd.store(there, LANES, y_re - x_im)
