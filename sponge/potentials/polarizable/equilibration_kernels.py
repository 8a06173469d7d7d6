"""Kernels of `ChargeEquilibration` over pairs of clusters: the matrix of charges, its products, and forces.

The matrix is kept in the order of the list of cluster pairs, sixteen pairs of atoms at a time, in float64 and float32:
products with it need no indices of atoms. Sums of the atoms of a cluster stand in blocks of four; those of second
clusters are kept lane by lane until the end of the chunk, as in `pairs.loops`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from scipy.special import binom, ive

from triskele.core.extend import give_slot, kernel, simd, take_slot, template

from ...engine.flags import ENERGY
from ...engine.vectors import add_row
from ...neighbors.lanes import (
    add_quarters,
    clear_touched,
    close_touched,
    first,
    first_not_below,
    second,
    second_cluster,
    shifted,
    since,
)
from ...neighbors.state import CLUSTERS, END, MASK, PLAIN_END, SHIFT, START, I
from ...units import COULOMB

__all__ = [
    "Matrix",
    "add_forces",
    "collect",
    "coupling_tables",
    "fill_from_tables",
    "fill_matrix",
    "inverse_root",
    "multiply",
    "pair_forces",
    "place",
    "smeared",
    "smeared_table",
    "smooth_series",
    "times_diagonal",
]

_PER_UNIT: Final = 16.0  # intervals
_TERMS: Final = 6
_LINE: Final = 8  # numbers of an interval, a line of the cache; the last two are 0
_MOST: Final = 20.25  # from where on erf is taken as 1: 1 - erf(4.5) is 2e-10
_TABLES: Final = 1 << 18  # numbers in tables, two megabytes: more do not stay in a cache


def _smeared_terms(s):
    """Taylor coefficients of erf(x) / x as a function of s = x^2, [s, 8].

    As erf(x) / x = 2 / sqrt(pi) times the integral of exp(-s t^2) over t from 0 to 1, so are its derivatives integrals,
    of polynomials times a Gaussian; for large s it is 1 / sqrt(s).
    """
    nodes, weights = np.polynomial.legendre.leggauss(80)
    t2, w = (0.5 * (nodes + 1)) ** 2, weights / np.sqrt(np.pi)
    terms, term = np.zeros((len(s), _LINE)), w * np.exp(-s[:, None] * t2)
    for k in range(_TERMS):
        far = binom(-0.5, k) * np.maximum(s, 1.0) ** (-0.5 - k)
        terms[:, k] = np.where(s < 36, term.sum(1), far)
        term = term * -t2 / (k + 1)
    return terms


def smeared_table() -> np.ndarray:
    """Coefficients of `_smeared_terms` about the middle of each interval, in units of it: to 2e-13."""
    middle = (np.arange(int(_PER_UNIT * _MOST)) + 0.5) / _PER_UNIT
    return _smeared_terms(middle) / _PER_UNIT ** np.arange(_LINE)


def coupling_tables(
    widths: np.ndarray,  # (kinds,) nm
    alpha: float,
    cutoff: float,
) -> tuple[np.ndarray, np.ndarray] | None:  # 1/nm, nm
    """Return tables (kinds, kinds, intervals, 8) of the coupling of charges of each width with those of each other.

    The 8 are coefficients of powers of the place within an interval of r^2, from -1/2 to 1/2. The second array (2,)
    holds the intervals per nm^2, and -2 times that. The result is None if the tables would be too large.
    """
    gamma = 1 / np.sqrt(2 * (widths[:, None] ** 2 + widths**2))
    per_square = _PER_UNIT * gamma.max() ** 2
    count = int(per_square * cutoff**2) + 2
    if len(widths) ** 2 * count * _LINE > _TABLES:
        return None
    middle, power = (np.arange(count) + 0.5) / per_square, 2 * np.arange(_LINE) + 1
    smooth = alpha**power * _smeared_terms(alpha**2 * middle)
    tables = np.stack([[g**power * _smeared_terms(g**2 * middle) - smooth for g in row] for row in gamma])
    return COULOMB * tables / per_square ** np.arange(_LINE), np.array([per_square, -2 * per_square])


def smooth_series(alpha: float, cutoff: float) -> np.ndarray:
    """erf(alpha r) / r up to the cut-off as a polynomial of x = s r^2 - 1: the number s, and the coefficients.

    The function is a mean of exp(-h (1 + x)) over h up to (alpha cutoff)^2 / 2, whose Chebyshev series has scaled
    Bessel functions of h as coefficients. Powers of x need no more digits than the series.
    """
    if alpha == 0:
        return np.zeros(3)
    nodes, weights = np.polynomial.legendre.leggauss(80)
    half = 0.5 * (0.5 * (nodes + 1) * alpha * cutoff) ** 2
    order = np.arange(100)
    series = 2 * alpha / np.sqrt(np.pi) * (-1.0) ** order * (ive(order[:, None], half) @ weights)
    series[0] /= 2
    least = np.flatnonzero(np.abs(series) > 3e-15 * series[0])[-1]
    return np.concatenate([[2 / cutoff**2], chebyshev.cheb2poly(series[: least // 2 * 2 + 2])])


@template
def inverse_root(x):
    """1 / sqrt(x) of sixteen lanes in float64."""
    return simd.concat(simd.rsqrt_fast(simd.low(x), 2), simd.rsqrt_fast(simd.high(x), 2))


@template
def _horner(value, slope, f, table, at):
    return simd.fma(value, f, simd.gather(table, at)), simd.fma(slope, f, value)


@template
def taylor(table, at, f):
    """Value and slope of sixteen polynomials of f, with six coefficients each from table[at] on."""
    value, slope = simd.gather(simd.address(table, 5), at), simd.splat(0.0, 16)
    value, slope = _horner(value, slope, f, simd.address(table, 4), at)
    value, slope = _horner(value, slope, f, simd.address(table, 3), at)
    value, slope = _horner(value, slope, f, simd.address(table, 2), at)
    value, slope = _horner(value, slope, f, simd.address(table, 1), at)
    return _horner(value, slope, f, table, at)


@template
def smeared(s, table):
    """erf(x) / x and its derivative by s, of sixteen lanes s = x^2 >= 0."""
    inside = s < _MOST
    t = simd.select(inside, s, 0.0) * _PER_UNIT
    k = simd.convert(t, np.int32)
    value, slope = taylor(table, k * np.int32(_LINE), t - simd.convert(k, np.float64) - 0.5)
    slope = slope * _PER_UNIT
    if not simd.all(inside):
        root = inverse_root(simd.maximum(s, simd.splat(1.0, 16)))
        value = simd.select(inside, value, root)
        slope = simd.select(inside, slope, -0.5 * root * root * root)
    return value, slope


@template
def polynomial(r2, series):
    """Value and slope of the polynomial of `smooth_series`, its even and odd powers apart: two short chains."""
    zero, last = simd.splat(0.0, 16), series.shape[0] - 1
    x = simd.fma(r2, simd.load_splat(series, 0, 16), simd.splat(-1.0, 16))
    y = x * x
    even, odd, d_even, d_odd = simd.load_splat(series, last - 1, 16), simd.load_splat(series, last, 16), zero, zero
    for k in range(last - 3, 0, -2):
        d_even, d_odd = simd.fma(d_even, y, even), simd.fma(d_odd, y, odd)
        even = simd.fma(even, y, simd.load_splat(series, k, 16))
        odd = simd.fma(odd, y, simd.load_splat(series, k + 1, 16))
    slope = simd.fma(2.0 * x, simd.fma(d_odd, x, d_even), odd)
    return simd.fma(odd, x, even), slope * simd.load_splat(series, 0, 16)


# ----------------------------------------------------------------------------------------- sums over pairs of clusters
class Matrix(NamedTuple):
    """The coupling of pairs of atoms, in the order of a list of cluster pairs; rows belong to chunks.

    Cluster pairs with no pair of atoms within the cut-off are left out: those of entry e reach from ends[chunk, e] to
    ends[chunk, e + 1].
    """

    ends: np.ndarray
    kept: np.ndarray  # second clusters, counted from the chunk's window
    values: np.ndarray
    slopes: np.ndarray  # -(d/dr) / r
    rough: np.ndarray  # the values in float32


@kernel(nogil=True)
def place(chunk, chunks, padding, state, atoms, values, placed):
    """Copy the values of atoms into the order of the list's slots; slots without an atom get `padding`."""
    clusters = state[CLUSTERS]
    for slot in range(4 * (chunk * clusters // chunks), 4 * ((chunk + 1) * clusters // chunks)):
        atom = atoms[slot]
        placed[slot] = values[atom] if atom >= 0 else padding


@template
def _fill(couple, chunk, cutoff, series, pairs, of_first, of_second, table, charges, matrix, sums, blocks):
    clusters, origin, limit, xs = pairs.state[CLUSTERS], pairs.window[chunk], cutoff * cutoff, pairs.xs
    zero = simd.splat(0.0, 16)
    row = take_slot(sums)
    total, mine, pair, mask, to = (
        sums[row],
        pairs.entries[chunk],
        pairs.pairs[chunk],
        pairs.masks[chunk],
        matrix.kept[chunk],
    )
    start, n = chunk * matrix.values.shape[1], 0
    clear_touched(chunk, pairs, total, 1)
    for e in range(pairs.n_entries[chunk]):
        i, plain, bits = np.int64(mine[e, I]), mine[e, PLAIN_END], mine[e, MASK]
        ix, iy, iz = shifted(xs, i, pairs.shifts, np.int64(mine[e, SHIFT]))
        wi, qi, potential = first(of_first, 4 * i), first(charges, 4 * i), zero
        matrix.ends[chunk, e] = n
        for k in range(mine[e, START], mine[e, END]):
            j, at = second_cluster(pair, k, origin, clusters)
            dx, dy, dz = ix - second(xs, 16 * j), iy - second(xs, 16 * j + 4), iz - second(xs, 16 * j + 8)
            r2 = simd.fma(dx, dx, simd.fma(dy, dy, dz * dz))
            inside = r2 < limit
            if k >= plain:
                inside = inside & simd.from_bits(np.uint64(simd.load_scalar(mask, bits + k - plain)), 16)
            if not simd.any(inside):
                continue
            r2 = simd.select(inside, r2, limit)
            v, d = couple(r2, wi, second(of_second, 4 * j), series, table)
            v, d = simd.select(inside, v, zero), simd.select(inside, d, zero)
            simd.store(matrix.values, start + 16 * n, v)
            simd.store(matrix.slopes, start + 16 * n, d)
            simd.store(matrix.rough, start + 16 * n, simd.convert(v, np.float32))
            to[n] = at
            n += 1
            potential = simd.fma(v, second(charges, 4 * j), potential)
            simd.store(total, 16 * at, simd.fma(v, qi, simd.load(total, 16 * at, 16)))
        add_quarters(total, 16 * since(i, origin, clusters), potential)
    matrix.ends[chunk, pairs.n_entries[chunk]] = n
    close_touched(chunk, pairs, total, blocks[chunk], 1)
    give_slot(sums, row)


@template
def _couple_widths(r2, wi, wj, series, table):
    gamma = inverse_root(wi + wj)
    gamma2 = gamma * gamma
    whole, d_whole = smeared(gamma2 * r2, table)
    smooth, d_smooth = polynomial(r2, series)
    return COULOMB * (gamma * whole - smooth), (2.0 * COULOMB) * (d_smooth - gamma * gamma2 * d_whole)


@template
def _couple_kinds(r2, ki, kj, numbers, table):
    t = r2 * simd.load_splat(numbers, 0, 16)
    k = simd.convert(t, np.int32)
    f = t - simd.convert(k, np.float64) - 0.5
    value, slope = taylor(table, (k + simd.convert(ki + kj, np.int32)) * np.int32(_LINE), f)
    return value, slope * simd.load_splat(numbers, 1, 16)


@kernel(nogil=True)
def fill_matrix(chunk, cutoff, series, pairs, of_first, of_second, table, charges, matrix, sums, blocks):
    """Coupling of pairs, k_e (erf(gamma r) - erf(alpha r)) / r, its slope, and its product with `charges`.

    of_first and of_second [slots] are twice the squared widths.
    """
    _fill(_couple_widths, chunk, cutoff, series, pairs, of_first, of_second, table, charges, matrix, sums, blocks)


@kernel(nogil=True)
def fill_from_tables(chunk, cutoff, numbers, pairs, of_first, of_second, table, charges, matrix, sums, blocks):
    """The same from the tables of `coupling_tables`, whose numbers are the sums of of_first and of_second."""
    _fill(_couple_kinds, chunk, cutoff, numbers, pairs, of_first, of_second, table, charges, matrix, sums, blocks)


@kernel(nogil=True)
def multiply(chunk, pairs, charges, matrix, sums, blocks):
    """The matrix of pairs times `charges`, both float32."""
    clusters, origin, zero = pairs.state[CLUSTERS], pairs.window[chunk], simd.splat(np.float32(0), 16)
    row = take_slot(sums)
    total, mine, to = sums[row], pairs.entries[chunk], matrix.kept[chunk]
    start = chunk * matrix.rough.shape[1]
    clear_touched(chunk, pairs, total, 1)
    for e in range(pairs.n_entries[chunk]):
        i, potential = np.int64(mine[e, I]), zero
        qi = first(charges, 4 * i)
        for k in range(matrix.ends[chunk, e], matrix.ends[chunk, e + 1]):
            j, at = second_cluster(to, k, origin, clusters)
            v = simd.load(matrix.rough, start + 16 * k, 16)
            potential = simd.fma(v, second(charges, 4 * j), potential)
            simd.store(total, 16 * at, simd.fma(v, qi, simd.load(total, 16 * at, 16)))
        add_quarters(total, 16 * since(i, origin, clusters), potential)
    close_touched(chunk, pairs, total, blocks[chunk], 1)
    give_slot(sums, row)


@kernel(nogil=True)
def pair_forces(chunk, flags, pairs, charges, matrix, sums, blocks, rows):
    """Product of the matrix and `charges`, forces, and in rows[chunk] the energy and virial of pairs."""
    clusters, origin, want, xs = pairs.state[CLUSTERS], pairs.window[chunk], flags[ENERGY] != 0, pairs.xs
    row, out, zero = take_slot(sums), rows[chunk], simd.splat(0.0, 16)
    total, mine, to = sums[row], pairs.entries[chunk], matrix.kept[chunk]
    start = chunk * matrix.values.shape[1]
    out[:] = 0.0
    clear_touched(chunk, pairs, total, 4)
    for e in range(pairs.n_entries[chunk]):
        i = np.int64(mine[e, I])
        ix, iy, iz = shifted(xs, i, pairs.shifts, np.int64(mine[e, SHIFT]))
        qi = first(charges, 4 * i)
        potential, fx, fy, fz, energy = zero, zero, zero, zero, zero
        xx, yy, zz, xy, xz, yz = zero, zero, zero, zero, zero, zero
        for k in range(matrix.ends[chunk, e], matrix.ends[chunk, e + 1]):
            j, at = second_cluster(to, k, origin, clusters)
            dx, dy, dz = ix - second(xs, 16 * j), iy - second(xs, 16 * j + 4), iz - second(xs, 16 * j + 8)
            v, qj = simd.load(matrix.values, start + 16 * k, 16), second(charges, 4 * j)
            p = simd.address(total, 64 * at)
            f = qi * qj * simd.load(matrix.slopes, start + 16 * k, 16)
            gx, gy, gz = f * dx, f * dy, f * dz
            potential, fx, fy, fz = simd.fma(v, qj, potential), fx + gx, fy + gy, fz + gz
            simd.store(p, 0, simd.fma(v, qi, simd.load(p, 0, 16)))
            simd.store(p, 16, simd.load(p, 16, 16) - gx)
            simd.store(p, 32, simd.load(p, 32, 16) - gy)
            simd.store(p, 48, simd.load(p, 48, 16) - gz)
            if want:
                energy = simd.fma(qi * qj, v, energy)
                xx, yy, zz = simd.fma(gx, dx, xx), simd.fma(gy, dy, yy), simd.fma(gz, dz, zz)
                xy, xz, yz = simd.fma(gx, dy, xy), simd.fma(gx, dz, xz), simd.fma(gy, dz, yz)
        at = 64 * since(i, origin, clusters)
        add_quarters(total, at, potential)
        add_quarters(total, at + 16, fx)
        add_quarters(total, at + 32, fy)
        add_quarters(total, at + 48, fz)
        if want:
            add_row(out, energy, xx, yy, zz, xy, xz, yz)
    close_touched(chunk, pairs, total, blocks[chunk], 4)
    give_slot(sums, row)


@kernel(nogil=True)
def collect(chunk, chunks, lanes, pairs, blocks, collected):
    """Add up the chunks' blocks of each cluster, `lanes` times four numbers, in the order of the chunks."""
    clusters, zero, touched, window = pairs.state[CLUSTERS], simd.splat(0.0, 4), pairs.touched, pairs.window
    begin, end = chunk * clusters // chunks, (chunk + 1) * clusters // chunks
    for k in range(lanes * begin, lanes * end):
        simd.store(collected, 4 * k, zero)
    for c in range(chunks):
        n, low = pairs.n_touched[c], begin - window[c]
        low += clusters * (low < 0)
        for turn in range(2):  # the stretch may reach over the end of the row
            least = low - turn * clusters
            last = least + end - begin
            t = first_not_below(touched[c], n, max(least, 0))
            while t < n and touched[c, t] < last:
                at = lanes * (begin + touched[c, t] - least)
                for a in range(lanes):
                    simd.store(
                        collected,
                        4 * (at + a),
                        simd.load(collected, 4 * (at + a), 4) + simd.load(blocks[c], 4 * (lanes * t + a), 4),
                    )
                t += 1


# --------------------------------------------------------------------------------------------------------------- atoms
@kernel(nogil=True)
def times_diagonal(chunk, starts, lanes, slots, diagonal, charges, collected, product):
    """Derivatives of the energy of pairs and of charges with themselves by the charges."""
    for i in range(starts[chunk], starts[chunk + 1]):
        slot = np.int64(slots[i])
        product[i] = diagonal[i] * charges[i] + collected[4 * lanes * (slot >> 2) + (slot & 3)]


@kernel(nogil=True)
def add_forces(chunk, starts, slots, collected, forces):
    for i in range(starts[chunk], starts[chunk + 1]):
        slot = np.int64(slots[i])
        at = 16 * (slot >> 2) + (slot & 3)
        for a in range(3):
            forces[i, a] += collected[at + 4 * a + 4]
