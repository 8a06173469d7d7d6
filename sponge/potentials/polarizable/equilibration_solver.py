"""Kernels that find the charges of `ChargeEquilibration`: preconditioned conjugate gradients in groups of fixed charge.

The preconditioner is a sparse approximate inverse: row i of X is that of the inverse of the Coulomb matrix of atom i
and its nearest neighbors, in their nearest images, and the mean of X and its transpose is symmetric. Where it shows
not to be positive, the inverse diagonal takes its place.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from triskele.core.extend import device, kernel, simd

from ...engine.flags import STATUS
from ...neighbors.lanes import second, second_cluster, shifted
from ...neighbors.state import CLUSTERS, END, MASK, PLAIN_END, SHIFT, START, I
from ...units import COULOMB
from .equilibration_kernels import inverse_root, smeared

__all__ = [
    "AT",
    "CURVATURE",
    "GOAL",
    "NEAR",
    "N_WORDS",
    "STEPS",
    "WORST",
    "ahead",
    "choose_near",
    "descend",
    "invert_near",
    "lower",
    "residual",
    "upper",
]

_LEAST: Final = 1e-6  # of the diagonal: pivots that atoms at one place would make 0
NEAR: Final = 16  # atoms of a row, itself included

# words of `result` (float64)
WORST: Final = 0  # largest part of the residual that is not the same for all atoms of a group
AT: Final = 1  # its atom
GOAL: Final = 2  # the `WORST` to stop at
BEFORE: Final = 3  # product of the residual and the preconditioned one in the last step
CURVATURE: Final = 4  # of the energy along the last direction
STEPS: Final = 5
N_WORDS: Final = 8
DONE: Final = 1  # the status that ends the program


@kernel(nogil=True)
def choose_near(_chunk, radius, renew, listed, atoms, count, near, apart, starts, places):
    """The nearest atoms within `radius` of each one, near [n, 16], and where they are, apart [n, 3, 16].

    The last of count[i] + 1 is the atom itself. places[starts[i] : starts[i + 1]] are the places of atom i in `near`,
    filled up to a multiple of eight.
    """
    if not renew[0]:
        return
    n, limit, clusters, xs, entries = count.shape[0], radius * radius, listed.state[CLUSTERS], listed.xs, listed.entries
    shifts = listed.shifts
    count[:] = 0
    for c in range(entries.shape[0]):
        for e in range(listed.n_entries[c]):
            i, s, plain = np.int64(entries[c, e, I]), np.int64(entries[c, e, SHIFT]), entries[c, e, PLAIN_END]
            ix, iy, iz = shifted(xs, i, shifts, s)
            for k in range(entries[c, e, START], entries[c, e, END]):
                j, _ = second_cluster(listed.pairs[c], k, listed.window[c], clusters)
                dx, dy, dz = ix - second(xs, 16 * j), iy - second(xs, 16 * j + 4), iz - second(xs, 16 * j + 8)
                inside = dx * dx + dy * dy + dz * dz < limit
                if k >= plain:
                    inside = inside & simd.from_bits(np.uint64(listed.masks[c, entries[c, e, MASK] + k - plain]), 16)
                if not simd.any(inside):
                    continue
                bits = np.int64(simd.bits(inside))
                for lane in range(16):
                    if bits >> lane & 1:
                        a, b = atoms[4 * i + (lane >> 2)], atoms[4 * j + (lane & 3)]
                        if a >= 0 and b >= 0:
                            at_a, at_b = 16 * i + (lane >> 2), 16 * j + (lane & 3)
                            x, y = xs[at_b] - xs[at_a] - shifts[3 * s], xs[at_b + 4] - xs[at_a + 4] - shifts[3 * s + 1]
                            z = xs[at_b + 8] - xs[at_a + 8] - shifts[3 * s + 2]
                            _note(a, b, x, y, z, count, near, apart)
                            _note(b, a, -x, -y, -z, count, near, apart)
    starts[:] = 0
    for i in range(n):
        c = count[i]
        for k in range(c, NEAR):
            near[i, k] = i
            for a in range(3):
                apart[i, a, k] = 0.0
        for k in range(c + 1):
            starts[near[i, k] + 1] += 1
    for i in range(n):
        starts[i + 1] = (starts[i] + starts[i + 1] + 7) & -8
    places[:] = NEAR * n
    for i in range(n):
        for k in range(count[i] + 1):
            j = near[i, k]
            places[starts[j]] = NEAR * i + k
            starts[j] += 1
    for i in range(n, 0, -1):
        starts[i] = (starts[i - 1] + 7) & -8
    starts[0] = 0


@device
def _note(a, b, x, y, z, count, near, apart):
    """Atom b is (x, y, z) from atom a: note it, if it is among the nearest."""
    k = count[a]
    if k == NEAR - 1:
        far, k = x * x + y * y + z * z, -1
        for m in range(NEAR - 1):
            r2 = apart[a, 0, m] ** 2 + apart[a, 1, m] ** 2 + apart[a, 2, m] ** 2
            if r2 > far:
                far, k = r2, m
        if k < 0:
            return
    else:
        count[a] = k + 1
    near[a, k] = b
    apart[a, 0, k], apart[a, 1, k], apart[a, 2, k] = x, y, z


@kernel(nogil=True)
def invert_near(chunk, atom_starts, renew, widths, diagonal, table, count, near, apart, work, factors):
    """Rows of X [n, 16]; widths [n] are twice the squared ones, work [chunks, 256] is scratch."""
    if not renew[0]:
        return
    lane, u = simd.iota(16), work[chunk]
    for i in range(atom_starts[chunk], atom_starts[chunk + 1]):
        m, row = count[i] + 1, NEAR * i
        x, y, z = simd.load(apart, 3 * row, 16), simd.load(apart, 3 * row + 16, 16), simd.load(apart, 3 * row + 32, 16)
        others = simd.load(near, row, 16)
        w = simd.gather(widths, others)
        for a in range(m):
            dx, dy, dz = x - apart[i, 0, a], y - apart[i, 1, a], z - apart[i, 2, a]
            gamma = inverse_root(w + widths[near[i, a]])
            value, _ = smeared(gamma * gamma * (dx * dx + dy * dy + dz * dz), table)
            simd.store(u, 16 * a, simd.select(lane == np.int32(a), diagonal[near[i, a]], COULOMB * gamma * value))
        for k in range(m):  # Cholesky: the row k of U, and what it takes from those below
            least = _LEAST * diagonal[near[i, k]]  # atoms at one place
            v = simd.load(u, 16 * k, 16) * (1.0 / np.sqrt(max(u[17 * k], least)))
            simd.store(u, 16 * k, v)
            for a in range(k + 1, m):
                simd.store(u, 16 * a, simd.load(u, 16 * a, 16) - v * u[16 * k + a])
        # the last column of the inverse: that of the identity, divided by the transposed U, is its own last one
        g = simd.select(lane == np.int32(m - 1), 1.0 / u[17 * (m - 1)] ** 2, simd.splat(0.0, 16))
        for k in range(m - 2, -1, -1):
            g = simd.select(lane == np.int32(k), -simd.sum(g * simd.load(u, 16 * k, 16)) / u[17 * k], g)
        simd.store(factors, row, g)


@kernel(nogil=True)
def lower(chunk, starts, near, factors, rest, half):
    """X times the residual."""
    for i in range(starts[chunk], starts[chunk + 1]):
        half[i] = simd.sum(simd.load(factors, NEAR * i, 16) * simd.gather(rest, simd.load(near, NEAR * i, 16)))


@kernel(nogil=True)
def upper(chunk, starts, place_starts, places, factors, rest, half, out):
    """The mean of that and the transposed X times the residual; factors and residual have zeros behind the last."""
    for i in range(starts[chunk], starts[chunk + 1]):
        total = simd.splat(0.0, 8)
        for k in range(place_starts[i], place_starts[i + 1], 8):
            at = simd.load(places, k, 8)
            total = simd.fma(simd.gather(factors, at), simd.gather(rest, at >> 4), total)
        out[i] = 0.5 * (half[i] + simd.sum(total))


@device
def _center(values, groups, sizes, means, out):
    """Values without their mean in each group."""
    means[:] = 0.0
    n = groups.shape[0]
    for i in range(n):
        means[groups[i]] += values[i]
    for k in range(means.shape[0]):
        means[k] /= sizes[k]
    for i in range(n):
        out[i] = values[i] - means[groups[i]]


@device
def _look(rest, result):
    """Note the largest of the residual; NaN counts as such."""
    worst, at = 0.0, 0
    for i in range(rest.shape[0] - 1):
        if not abs(rest[i]) <= worst:
            worst, at = abs(rest[i]), i
            if worst != worst:
                break
    result[WORST], result[AT] = worst, at


@kernel(nogil=True)
def residual(_chunk, linear, product, groups, sizes, means, r, rest, result):
    """Minus the derivatives of the energy by the charges, `r`, and what of it is not the same within a group."""
    for i in range(r.shape[0]):
        r[i] = -linear[i] - product[i]
    _center(r, groups, sizes, means, rest)
    _look(rest, result)


@kernel(nogil=True)
def ahead(_chunk, groups, sizes, means, diagonal, rest, z, p, result):
    """The next direction, from the preconditioned residual z."""
    now = _product(groups, sizes, means, rest, z)
    turn = now / result[BEFORE] if result[STEPS] > 0 else 0.0
    if not now > 0.0:
        for i in range(z.shape[0]):
            z[i] = rest[i] / diagonal[i]
        now, turn = _product(groups, sizes, means, rest, z), 0.0
    for i in range(z.shape[0]):
        p[i] = z[i] + turn * p[i]
    result[BEFORE] = now


@device
def _product(groups, sizes, means, rest, z):
    """Center z, and multiply it by the residual."""
    _center(z, groups, sizes, means, z)
    total = 0.0
    for i in range(z.shape[0]):
        total += rest[i] * z[i]
    return total


@kernel(nogil=True)
def descend(_chunk, groups, sizes, means, p, product, charges, r, rest, result, flags):
    """Go to the minimum along the direction p; the end of the program where it is reached, or there is none."""
    curvature = 0.0
    for i in range(p.shape[0]):
        curvature += p[i] * product[i]
    result[CURVATURE] = curvature
    result[STEPS] += 1
    if not curvature > 0.0:
        flags[STATUS] = DONE
        return
    step = result[BEFORE] / curvature
    for i in range(p.shape[0]):
        charges[i] += step * p[i]
        r[i] -= step * product[i]
    _center(r, groups, sizes, means, rest)
    _look(rest, result)
    if not result[WORST] > result[GOAL]:
        flags[STATUS] = DONE
