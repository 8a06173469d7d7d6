"""`RadialFunctions`: the radial symmetry functions of Behler-Parrinello networks and their forces, compiled.

Gaussians on a regular grid follow from one another: in each block of eight, the one in the middle, and its ratios to
both neighbors, come from exponentials, the others from products. Rows of neighbors are kept by element, and hold both
directions of each pair, so that a chunk writes to its own atoms only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from triskele.core.extend import Task, kernel, simd, template

from ..engine.flags import ENERGY
from ..engine.plan import ROW
from ..engine.program import Phase
from ..neighbors.rows import eight, even, odd, shared_rows, zipped
from ..neighbors.state import aligned_zeros

if TYPE_CHECKING:
    from ..engine.engine import Engine
    from .behler_parrinello import BehlerParrinello

__all__ = ["RadialFunctions"]

_LIMIT, _PER_CUTOFF, _FIRST, _PER_SPACING, _HALF, _STEP = range(6)  # constants, see `RadialFunctions`
_NEAR = 0.02  # nm: neighbors beyond the cut-off by less than that are likely to come within
_SKIN = 0.14  # nm: wider than of other rows, as elements are sorted whenever these are made again
_STEEPEST = 80.0  # exponents of ratios of neighbors end here, where the Gaussians themselves are 0 in single precision


@kernel(nogil=True)
def by_element(
    _chunk, n, near, species, elements, own, atoms, sizes, counts, rows, xs, numbers, kinds, entries, partners, spans
):
    """Candidates of each atom by element: their entries, their numbers, and where the elements begin.

    own[atom] is the atom's number among those that count, or -1. Those that are now within `near` come first: groups
    of the others are within the cut-off seldom. Filled up to multiples of sixteen with the far entry.
    """
    limit, zero, one, width = near * near, simd.splat(np.int32(0), 8), simd.splat(np.int32(1), 8), rows.shape[1]
    kinds[sizes[0]] = 2 * elements
    for e in range(sizes[0]):
        numbers[e] = own[atoms[e]]
        kinds[e] = 2 * (species[numbers[e]] if numbers[e] >= 0 else elements)
    at, key = np.zeros(2 * elements + 2, np.int64), np.zeros(rows.shape[1], np.int32)
    for i in range(n):
        if numbers[i] < 0:
            continue
        at[:] = 0
        x, y, z = simd.splat(xs[4 * i], 8), simd.splat(xs[4 * i + 1], 8), simd.splat(xs[4 * i + 2], 8)
        for k in range(0, counts[i], 8):
            ex, ey, ez, _ = eight(xs, rows[i], k)
            dx, dy, dz = ex - x, ey - y, ez - z
            far = simd.select(dx * dx + dy * dy + dz * dz > limit, one, zero)
            simd.store(key, k, far + simd.gather(kinds, simd.load(rows, i * width + k, 8)))
        for k in range(counts[i]):
            at[np.int64(simd.load_scalar(key, k))] += 1
        spans[i, 0] = 0
        for s in range(elements):
            middle = spans[i, s] + at[2 * s]
            end = middle + at[2 * s + 1]
            at[2 * s], at[2 * s + 1] = spans[i, s], middle
            spans[i, s + 1] = (end + 15) & -16
            for k in range(end, spans[i, s + 1]):
                entries[i, k], partners[i, k] = sizes[0], numbers[i]
        for k in range(counts[i]):
            group = np.int64(simd.load_scalar(key, k))
            if group < 2 * elements:
                e, to = rows[i, k], at[group]
                entries[i, to], partners[i, to] = e, numbers[e]
                at[group] = to + 1


@kernel(nogil=True)
def round_off(chunk, chunks, sizes, xs, rounded):
    """Coordinates of the entries, and of the far one behind them, in single precision."""
    entries = sizes[0] + 1
    for k in range(chunk * entries // chunks, (chunk + 1) * entries // chunks):
        simd.store(rounded, 4 * k, simd.convert(simd.load(xs, 4 * k, 4), np.float32))


@template
def _every_fourth(xs, row, k):
    """Blocks x y z w of entries k, k + 4, k + 8 and k + 12 of a row."""
    a, b, c, d = (4 * np.int64(simd.load_scalar(row, k)), 4 * np.int64(simd.load_scalar(row, k + 4)),
                  4 * np.int64(simd.load_scalar(row, k + 8)), 4 * np.int64(simd.load_scalar(row, k + 12)))  # fmt: skip
    return simd.concat(
        simd.concat(simd.load(xs, a, 4), simd.load(xs, b, 4)), simd.concat(simd.load(xs, c, 4), simd.load(xs, d, 4))
    )


@template
def _low(v, w):
    """First halves of each quarter of two vectors, zipped: a shuffle within quarters, as the others."""
    return simd.shuffle2(v, w, (0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29))


@template
def _high(v, w):
    return simd.shuffle2(v, w, (2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31))


@template
def _sixteen(xs, row, k):
    """Coordinates of sixteen entries."""
    a, b = _every_fourth(xs, row, k), _every_fourth(xs, row, k + 1)
    c, d = _every_fourth(xs, row, k + 2), _every_fourth(xs, row, k + 3)
    xy, uv, zw, z = _low(a, b), _low(c, d), _high(a, b), _high(c, d)
    first = (0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)
    second = (2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)
    return simd.shuffle2(xy, uv, first), simd.shuffle2(xy, uv, second), simd.shuffle2(zw, z, first)


@template
def _radius(dx, dy, dz, c):
    """Distance, and whether it is within the cut-off."""
    square = dx * dx + dy * dy + dz * dz
    limit = simd.load_splat(c, _LIMIT, 16)
    inside = square < limit
    return simd.sqrt(simd.select(inside, square, limit)), inside


@template
def _gaussians(t, c, real):
    """Eight Gaussians about 0 to 7."""
    half, step = simd.load_splat(c, _HALF, 16), simd.load_splat(c, _STEP, 16)
    steep, one = simd.splat(real(_STEEPEST), 16), simd.splat(real(1), 16)
    d = t - simd.splat(real(3), 16)
    g3 = simd.exp(-(d * d) * half)
    up = simd.exp(simd.minimum(simd.maximum((d + d - one) * half, -steep), steep))
    down = step / up
    g4, up = g3 * up, up * step
    g2, down = g3 * down, down * step
    g5, up = g4 * up, up * step
    g1, down = g2 * down, down * step
    g6, up = g5 * up, up * step
    g0 = g1 * down
    return g0, g1, g2, g3, g4, g5, g6, g6 * up


@template
def _transposed(a, b, c, d, e, f, g, h):
    """Columns of eight rows of eight, of which neighbors in the arguments are 0 1, 2 3, 4 5 and 6 7."""
    a, b = zipped(a, b)
    c, d = zipped(c, d)
    e, f = zipped(e, f)
    g, h = zipped(g, h)
    a, b, c, d = even(a, c), even(b, d), odd(a, c), odd(b, d)
    e, f, g, h = even(e, g), even(f, h), odd(e, g), odd(f, h)
    return even(a, e), even(b, f), even(c, g), even(d, h), odd(a, e), odd(b, f), odd(c, g), odd(d, h)


@template
def _row(weights, numbers, k, width, at):
    return simd.load(weights, np.int64(simd.load_scalar(numbers, k)) * width + at, 8)


@template
def _rows(weights, numbers, k, width, at):
    """Weights of eight atoms: vectors over the atoms."""
    return _transposed(
        _row(weights, numbers, k, width, at),
        _row(weights, numbers, k + 1, width, at),
        _row(weights, numbers, k + 2, width, at),
        _row(weights, numbers, k + 3, width, at),
        _row(weights, numbers, k + 4, width, at),
        _row(weights, numbers, k + 5, width, at),
        _row(weights, numbers, k + 6, width, at),
        _row(weights, numbers, k + 7, width, at),
    )


@template
def _halved(v):
    return simd.low(v) + simd.high(v)


@kernel(nogil=True)
def sum_functions(chunk, chunks, n, blocks, elements, c, own, atoms, xs, entries, spans, functions):
    """functions[row, elements * 8 * blocks]: sums over the neighbors of each element."""
    real = functions.dtype.type
    zero, one, six = simd.splat(real(0), 16), simd.splat(real(1), 16), simd.splat(real(6), 16)
    ten, fifteen, eighth = simd.splat(real(10), 16), simd.splat(real(15), 16), real(8)
    per_cutoff, per_spacing = simd.load_splat(c, _PER_CUTOFF, 16), simd.load_splat(c, _PER_SPACING, 16)
    for i in range(chunk * n // chunks, (chunk + 1) * n // chunks):
        row = np.int64(own[atoms[i]])
        if row < 0:
            continue
        x, y, z = simd.splat(xs[4 * i], 16), simd.splat(xs[4 * i + 1], 16), simd.splat(xs[4 * i + 2], 16)
        for s in range(elements):
            for b in range(blocks):
                first = simd.load_splat(c, _FIRST, 16)
                shift = simd.splat(real(b) * eighth, 16)
                s0, s1, s2, s3, s4, s5, s6, s7 = zero, zero, zero, zero, zero, zero, zero, zero
                for k in range(spans[i, s], spans[i, s + 1], 16):
                    ex, ey, ez = _sixteen(xs, entries[i], k)
                    r, inside = _radius(ex - x, ey - y, ez - z, c)
                    if not simd.any(inside):
                        continue
                    u = r * per_cutoff
                    ends = simd.select(inside, one - u * u * u * (ten - u * (fifteen - six * u)), zero)
                    g0, g1, g2, g3, g4, g5, g6, g7 = _gaussians((r - first) * per_spacing - shift, c, real)
                    s0, s1 = simd.fma(g0, ends, s0), simd.fma(g1, ends, s1)
                    s2, s3 = simd.fma(g2, ends, s2), simd.fma(g3, ends, s3)
                    s4, s5 = simd.fma(g4, ends, s4), simd.fma(g5, ends, s5)
                    s6, s7 = simd.fma(g6, ends, s6), simd.fma(g7, ends, s7)
                s0, s1, s2, s3, s4, s5, s6, s7 = _transposed(
                    _halved(s0),
                    _halved(s1),
                    _halved(s2),
                    _halved(s3),
                    _halved(s4),
                    _halved(s5),
                    _halved(s6),
                    _halved(s7),
                )
                simd.store(
                    functions,
                    (row * elements + s) * 8 * blocks + 8 * b,
                    ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7)),
                )


@kernel(nogil=True)
def add_up_forces(
    chunk,
    chunks,
    n,
    flags,
    blocks,
    elements,
    c,
    species,
    own,
    atoms,
    xs,
    entries,
    partners,
    spans,
    weights,
    forces,
    rows,
):
    """Forces and virial of an energy whose derivatives by the functions are `weights`."""
    real, want, out = weights.dtype.type, flags[ENERGY] != 0, rows[chunk]
    out[:] = 0.0
    width = np.int64(weights.shape[1])
    per_cutoff, half = simd.load_splat(c, _PER_CUTOFF, 16), simd.load_splat(c, _HALF, 16)
    per_spacing = simd.load_splat(c, _PER_SPACING, 16)
    zero, one, six = simd.splat(real(0), 16), simd.splat(real(1), 16), simd.splat(real(6), 16)
    ten, fifteen, thirty = simd.splat(real(10), 16), simd.splat(real(15), 16), simd.splat(real(30), 16)
    two, three, four = simd.splat(real(2), 16), simd.splat(real(3), 16), simd.splat(real(4), 16)
    five, seven = simd.splat(real(5), 16), simd.splat(real(7), 16)
    first, eighth = simd.load_splat(c, _FIRST, 16), real(8)
    for i in range(chunk * n // chunks, (chunk + 1) * n // chunks):
        row = np.int64(own[atoms[i]])
        if row < 0:
            continue
        x, y, z = simd.splat(xs[4 * i], 16), simd.splat(xs[4 * i + 1], 16), simd.splat(xs[4 * i + 2], 16)
        fx, fy, fz, xx, yy, zz, xy, xz, yz = zero, zero, zero, zero, zero, zero, zero, zero, zero
        back, number = np.int64(species[row]) * 8 * blocks, partners[i]
        for s in range(elements):
            for b in range(blocks):
                at, there = row * width + (s * blocks + b) * 8, back + 8 * b
                shift = simd.splat(real(b) * eighth, 16)
                for k in range(spans[i, s], spans[i, s + 1], 16):
                    ex, ey, ez = _sixteen(xs, entries[i], k)
                    dx, dy, dz = ex - x, ey - y, ez - z
                    r, inside = _radius(dx, dy, dz, c)
                    if not simd.any(inside):
                        continue
                    t, u = (r - first) * per_spacing - shift, r * per_cutoff
                    g0, g1, g2, g3, g4, g5, g6, g7 = _gaussians(t, c, real)
                    v0, v1, v2, v3, v4, v5, v6, v7 = _rows(weights, number, k, width, there)
                    w0, w1, w2, w3, w4, w5, w6, w7 = _rows(weights, number, k + 8, width, there)
                    g0 = g0 * (simd.concat(v0, w0) + simd.load_splat(weights, at, 16))
                    g1 = g1 * (simd.concat(v1, w1) + simd.load_splat(weights, at + 1, 16))
                    g2 = g2 * (simd.concat(v2, w2) + simd.load_splat(weights, at + 2, 16))
                    g3 = g3 * (simd.concat(v3, w3) + simd.load_splat(weights, at + 3, 16))
                    g4 = g4 * (simd.concat(v4, w4) + simd.load_splat(weights, at + 4, 16))
                    g5 = g5 * (simd.concat(v5, w5) + simd.load_splat(weights, at + 5, 16))
                    g6 = g6 * (simd.concat(v6, w6) + simd.load_splat(weights, at + 6, 16))
                    g7 = g7 * (simd.concat(v7, w7) + simd.load_splat(weights, at + 7, 16))
                    total = ((g0 + g1) + (g2 + g3)) + ((g4 + g5) + (g6 + g7))
                    moment = ((g1 + two * g2) + (three * g3 + four * g4)) + ((five * g5 + six * g6) + seven * g7)
                    ends = one - u * u * u * (ten - u * (fifteen - six * u))
                    fall = -thirty * u * u * (one - u) * (one - u) * per_cutoff
                    slope = (half + half) * per_spacing * ends
                    along = (fall * total + slope * (moment - t * total)) / r
                    f = simd.select(inside, along, zero)
                    gx, gy, gz = f * dx, f * dy, f * dz
                    fx, fy, fz = fx + gx, fy + gy, fz + gz
                    if want:
                        xx, yy, zz = xx + gx * dx, yy + gy * dy, zz + gz * dz
                        xy, xz, yz = xy + gx * dy, xz + gx * dz, yz + gy * dz
        to = atoms[i]
        forces[to, 0], forces[to, 1], forces[to, 2] = simd.sum(fx), simd.sum(fy), simd.sum(fz)
        if want:  # each pair is met twice
            p, q, w = 0.5 * simd.sum(xy), 0.5 * simd.sum(xz), 0.5 * simd.sum(yz)
            out[1] -= 0.5 * simd.sum(xx)
            out[5] -= 0.5 * simd.sum(yy)
            out[9] -= 0.5 * simd.sum(zz)
            out[2], out[4] = out[2] - p, out[4] - p
            out[3], out[7] = out[3] - q, out[7] - q
            out[6], out[8] = out[6] - w, out[8] - w


class RadialFunctions:
    """The radial symmetry functions of a network, and the forces that follow from derivatives by them.

    The phases `before` set `values` (m, elements * places): the functions, for each element of the neighbors filled up
    to a multiple of eight, as `BehlerParrinello.radial_heads` takes them. With the derivatives of an energy by them in
    `weights`, of the same shape, the phases `after` set `forces` (n, 3) and virials, but no energies, in `rows`
    (chunks, 10).
    """

    def __init__(
        self,
        engine: Engine,
        network: BehlerParrinello,  # without angular functions
        atoms: np.ndarray,  # (m,) int
        species: np.ndarray,  # (m,) int32, their places in the network's elements
        real: Any,  # floating-point type of the functions
    ):
        listed, n, blocks, elements = (
            shared_rows(engine, network.cutoff, _SKIN),
            engine.n,
            -(-network.radial // 8),
            len(network.elements),
        )
        own = np.full(n, -1, np.int32)
        own[atoms] = np.arange(len(atoms))
        width, places = listed.rows.shape[1] + 16 * elements, len(listed.atoms) + 1
        entries, partners = aligned_zeros((n, width), np.int32), aligned_zeros((n, width), np.int32)
        spans, (numbers, kinds) = np.zeros((n, elements + 1), np.int64), np.zeros((2, places), np.int32)
        first, spacing, deviation = network.grid
        # square of the cut-off; 1/cut-off; the first center; 1/spacing; 1/(2 s^2), exp(-1/s^2) with s in spacings
        half = 0.5 * (spacing / deviation) ** 2
        constants = np.array([network.cutoff**2, 1 / network.cutoff, first, 1 / spacing, half, np.exp(-2 * half)], real)
        self.values, self.weights = (aligned_zeros((len(atoms), elements * 8 * blocks), real) for _ in range(2))
        self.forces, self.rows = np.zeros((n, 3)), np.zeros((listed.chunks, ROW))
        listed.after_sorting(
            Task(
                by_element,
                n,
                network.cutoff + _NEAR,
                species,
                elements,
                own,
                listed.atoms,
                listed.sizes,
                listed.counts,
                listed.rows,
                listed.xs,
                numbers,
                kinds,
                entries,
                partners,
                spans,
            )
        )
        xs = listed.xs
        rounded: list[Phase] = []
        if real == np.float32:
            xs = aligned_zeros(len(listed.xs), np.float32)
            rounded = [
                Phase(
                    [Task(round_off, listed.chunks, listed.sizes, listed.xs, xs, chunks=listed.chunks)],
                    name="coordinates in single precision",
                )
            ]
        self.before = [
            *listed.before,
            *rounded,
            Phase(
                [
                    Task(
                        sum_functions,
                        listed.chunks,
                        n,
                        blocks,
                        elements,
                        constants,
                        own,
                        listed.atoms,
                        xs,
                        entries,
                        spans,
                        self.values,
                        chunks=listed.chunks,
                    )
                ],
                name="radial functions",
            ),
        ]
        self.after = [
            Phase(
                [
                    Task(
                        add_up_forces,
                        listed.chunks,
                        n,
                        engine.flags,
                        blocks,
                        elements,
                        constants,
                        species,
                        own,
                        listed.atoms,
                        xs,
                        entries,
                        partners,
                        spans,
                        self.weights,
                        self.forces,
                        self.rows,
                        chunks=listed.chunks,
                    )
                ],
                name="forces of radial functions",
            )
        ]
