"""Kernels of `InducedDipoles`: charges and damped dipoles over rows of neighbors, and excluded pairs.

With d from an atom i to its neighbor j, B_0 = erfc(alpha r) / r and B_(n + 1) = -B_n' / r, less what damping takes off:
the energy of a pair is q_i q_j B_0 + (q_j m_i - q_i m_j) . d B_1 + m_i . m_j B_1 - (m_i . d) (m_j . d) B_2. Rows list
each pair in both directions. Units are kJ/mol, e and nm.
"""

from __future__ import annotations

import math

import numpy as np

from triskele.core.extend import device, kernel, simd, template

from ...box import minimum_image
from ...engine.flags import ENERGY
from ...neighbors.rows import eight
from ...units import COULOMB

__all__ = [
    "excluded_fields",
    "excluded_forces",
    "mark_excluded",
    "pair_fields",
    "pair_forces",
    "place_constants",
    "place_sources",
    "times_pairs",
]

_GAUSS = 2 / np.sqrt(np.pi)
_UNDAMPED = 1e29  # of the product of two damping factors: an atom has no polarizability
_MOST = 700.0  # exp(-700) is nothing
_SMALL = 0.5  # of (alpha r)^2 for the series


@kernel(nogil=True)
def mark_excluded(_chunk, n, starts, partners, atoms, counts, rows, seen):
    """Clear the bits of excluded neighbors in `seen` [n, width / 8], which are set for all others."""
    mine = np.zeros(n, np.uint8)
    for i in range(n):
        at = atoms[i]
        for k in range(seen.shape[1]):
            seen[i, k] = 255
        if starts[at] == starts[at + 1]:
            continue
        for k in range(starts[at], starts[at + 1]):
            mine[partners[k]] = 1
        for k in range(counts[i]):
            if mine[atoms[rows[i, k]]]:
                seen[i, k >> 3] &= np.uint8(255 - (1 << (k & 7)))
        for k in range(starts[at], starts[at + 1]):
            mine[partners[k]] = 0


@kernel(nogil=True)
def place_constants(_chunk, sizes, atoms, factors, thole, charges, constants):
    """Place the constants of each entry, in blocks: factor and parameter of the damping, charge."""
    for k in range(sizes[0]):
        i = atoms[k]
        constants[4 * k], constants[4 * k + 1], constants[4 * k + 2] = factors[i], thole[i], charges[i]


@kernel(nogil=True)
def place_sources(chunk, chunks, sizes, atoms, charges, dipoles, sources):
    """Dipole and charge of each entry, in blocks x y z q; those of the far entry are 0."""
    entries = sizes[0]
    for k in range(chunk * entries // chunks, (chunk + 1) * entries // chunks):
        i = atoms[k]
        for a in range(3):
            sources[4 * k + a] = dipoles[i, a]
        sources[4 * k + 3] = charges[i]
    if chunk == chunks - 1:
        for a in range(4):
            sources[4 * entries + a] = 0.0


@template
def _damping(r2, r, inverse, v, thole):
    """Reductions of B_1, B_2 and B_3 by damping; v is the product of both atoms' factors, `inverse` 1 / r2."""
    w = simd.minimum(thole * v * r2 * r, simd.splat(_MOST, 8))
    rest = simd.exp(-w) * (r * inverse * inverse)
    return rest, 3.0 * (1.0 + w) * rest * inverse, 15.0 * (1.0 + w * (1.0 + 0.6 * w)) * rest * (inverse * inverse)


@kernel(nogil=True)
def pair_fields(
    chunk, chunks, n, cutoff, alpha, constants, xs, atoms, counts, rows, seen, first, second, field, extremes
):
    """B_1 and B_2 of the pairs of dipoles in `first` and `second`, and the fields [n, 3] of the charges in pairs.

    extremes [chunks, 4]: the smallest squared distance of two polarizable atoms, and one of them; the largest excess
    of their coupling along the line over 1 / sqrt(alpha alpha'), and one of them. When it is positive, the two
    polarize each other without limit.
    """
    limit, width, zero = cutoff * cutoff, rows.shape[1], simd.splat(0.0, 8)
    extremes[chunk, 0], extremes[chunk, 2] = np.inf, -np.inf
    for i in range(chunk * n // chunks, (chunk + 1) * n // chunks):
        x, y, z = simd.splat(xs[4 * i], 8), simd.splat(xs[4 * i + 1], 8), simd.splat(xs[4 * i + 2], 8)
        at, fx, fy, fz, near, excess = atoms[i], zero, zero, zero, simd.splat(np.inf, 8), simd.splat(-np.inf, 8)
        own, of_own = simd.splat(constants[4 * i], 8), simd.splat(constants[4 * i + 1], 8)
        for k in range(0, counts[i], 8):
            ex, ey, ez, _ = eight(xs, rows[i], k)
            v, t, q, _ = eight(constants, rows[i], k)
            dx, dy, dz = ex - x, ey - y, ez - z
            r2 = dx * dx + dy * dy + dz * dz
            visible = simd.from_bits(np.uint64(seen[i, k >> 3]), 8)
            inside = (r2 < limit) & (visible | (r2 > 0.0))
            v = own * v
            near = simd.minimum(near, simd.select((r2 < limit) & (v < _UNDAMPED), r2, np.inf))
            r2 = simd.select(inside, r2, limit)
            r, inverse = simd.sqrt(r2), 1.0 / r2
            gauss = _GAUSS * alpha * simd.exp(-(alpha * alpha) * r2)
            one, two, _ = _damping(r2, r, inverse, v, simd.minimum(of_own, t))
            both = 2.0 * r * inverse * inverse - (two * r2 - one) - v
            excess = simd.maximum(excess, simd.select(inside, both, -np.inf))
            b1 = (simd.erfc(alpha * r) * (r * inverse) + gauss) * inverse
            b2 = (3.0 * b1 + 2.0 * alpha * alpha * gauss) * inverse - two
            b1 = simd.select(inside, b1 - one, 0.0)
            simd.store(first, i * width + k, b1)
            simd.store(second, i * width + k, simd.select(inside, b2, 0.0))
            b1 = simd.select(visible, q * b1, 0.0)
            fx, fy, fz = fx - b1 * dx, fy - b1 * dy, fz - b1 * dz
        field[at, 0], field[at, 1], field[at, 2] = (
            COULOMB * simd.sum(fx),
            COULOMB * simd.sum(fy),
            COULOMB * simd.sum(fz),
        )
        least = simd.min(near)
        if least < extremes[chunk, 0]:
            extremes[chunk, 0], extremes[chunk, 1] = least, at
        most = simd.max(excess)
        if most > extremes[chunk, 2]:
            extremes[chunk, 2], extremes[chunk, 3] = most, at


@kernel(nogil=True)
def times_pairs(chunk, chunks, n, polarizabilities, xs, atoms, counts, rows, first, second, sources, field):
    """Fields [n, 3] of the dipoles in `sources` at the polarizable atoms, in pairs."""
    width, zero = rows.shape[1], simd.splat(0.0, 8)
    for i in range(chunk * n // chunks, (chunk + 1) * n // chunks):
        at = atoms[i]
        fx, fy, fz = zero, zero, zero
        if polarizabilities[at] > 0:
            x, y, z = simd.splat(xs[4 * i], 8), simd.splat(xs[4 * i + 1], 8), simd.splat(xs[4 * i + 2], 8)
            for k in range(0, counts[i], 8):
                ex, ey, ez, _ = eight(xs, rows[i], k)
                mx, my, mz, _ = eight(sources, rows[i], k)
                dx, dy, dz = ex - x, ey - y, ez - z
                b1 = simd.load(first, i * width + k, 8)
                along = simd.load(second, i * width + k, 8) * (mx * dx + my * dy + mz * dz)
                fx, fy, fz = fx + (along * dx - b1 * mx), fy + (along * dy - b1 * my), fz + (along * dz - b1 * mz)
        field[at, 0], field[at, 1], field[at, 2] = (
            COULOMB * simd.sum(fx),
            COULOMB * simd.sum(fy),
            COULOMB * simd.sum(fz),
        )


@template
def _pair(d, r2, b1, b2, m, q, other, p, alpha, v, thole):
    """Energy of a pair, and the force on the first atom; m, q and other, p: dipoles and charges of both."""
    (dx, dy, dz), (mx, my, mz), (ox, oy, oz) = d, m, other
    r, inverse = simd.sqrt(r2), 1.0 / r2
    gauss, a2 = _GAUSS * alpha * simd.exp(-(alpha * alpha) * r2), 2.0 * alpha * alpha
    one, two, three = _damping(r2, r, inverse, v, thole)
    c1 = b1 + one  # of charges, which are not damped
    b0 = c1 * r2 - gauss
    b3 = (5.0 * (b2 + two) + a2 * a2 * gauss) * inverse - three
    a, b = mx * dx + my * dy + mz * dz, ox * dx + oy * dy + oz * dz
    product = mx * ox + my * oy + mz * oz
    mixed = p * a - q * b
    energy = q * p * b0 + mixed * b1 + product * b1 - a * b * b2
    along = a * b * b3 - q * p * c1 - (mixed + product) * b2
    to_m, to_o = p * b1 - b * b2, q * b1 + a * b2
    return energy, (
        along * dx + to_m * mx - to_o * ox,
        along * dy + to_m * my - to_o * oy,
        along * dz + to_m * mz - to_o * oz,
    )


@kernel(nogil=True)
def pair_forces(
    chunk,
    chunks,
    n,
    flags,
    cutoff,
    alpha,
    constants,
    polarizabilities,
    dipoles,
    xs,
    atoms,
    counts,
    rows,
    seen,
    first,
    second,
    sources,
    forces,
    sums,
):
    """Forces [n, 3] in pairs, after `pair_fields`; their energy and virial, and the energy of polarization."""
    limit, width, want, out = cutoff * cutoff, rows.shape[1], flags[ENERGY] != 0, sums[chunk]
    zero, own_field = simd.splat(0.0, 8), 2 * _GAUSS / 3 * alpha**3  # of a dipole at its place, in the reciprocal sum
    if want:
        out[:] = 0.0
    for i in range(chunk * n // chunks, (chunk + 1) * n // chunks):
        x, y, z = simd.splat(xs[4 * i], 8), simd.splat(xs[4 * i + 1], 8), simd.splat(xs[4 * i + 2], 8)
        at = atoms[i]
        m = simd.splat(dipoles[at, 0], 8), simd.splat(dipoles[at, 1], 8), simd.splat(dipoles[at, 2], 8)
        own, of_own = simd.splat(constants[4 * i], 8), simd.splat(constants[4 * i + 1], 8)
        charge = simd.splat(constants[4 * i + 2], 8)
        fx, fy, fz, energy = zero, zero, zero, zero
        xx, xy, xz, yx, yy, yz, zx, zy, zz = zero, zero, zero, zero, zero, zero, zero, zero, zero
        for k in range(0, counts[i], 8):
            ex, ey, ez, _ = eight(xs, rows[i], k)
            ox, oy, oz, p = eight(sources, rows[i], k)
            dx, dy, dz = ex - x, ey - y, ez - z
            r2 = dx * dx + dy * dy + dz * dz
            visible = simd.from_bits(np.uint64(seen[i, k >> 3]), 8)
            inside = (r2 < limit) & (visible | (r2 > 0.0))
            v, t, _, _ = eight(constants, rows[i], k)
            e, (gx, gy, gz) = _pair(
                (dx, dy, dz),
                simd.select(inside, r2, limit),
                simd.load(first, i * width + k, 8),
                simd.load(second, i * width + k, 8),
                m,
                simd.select(visible, charge, 0.0),
                (ox, oy, oz),
                simd.select(visible, p, 0.0),
                alpha,
                own * v,
                simd.minimum(of_own, t),
            )
            gx, gy, gz = simd.select(inside, gx, 0.0), simd.select(inside, gy, 0.0), simd.select(inside, gz, 0.0)
            fx, fy, fz = fx + gx, fy + gy, fz + gz
            if want:
                energy = energy + simd.select(inside, e, 0.0)
                dx, dy, dz = simd.select(inside, dx, 0.0), simd.select(inside, dy, 0.0), simd.select(inside, dz, 0.0)
                xx, xy, xz = xx + gx * dx, xy + gx * dy, xz + gx * dz
                yx, yy, yz = yx + gy * dx, yy + gy * dy, yz + gy * dz
                zx, zy, zz = zx + gz * dx, zy + gz * dy, zz + gz * dz
        sx, sy, sz = simd.sum(fx), simd.sum(fy), simd.sum(fz)
        forces[at, 0], forces[at, 1], forces[at, 2] = COULOMB * sx, COULOMB * sy, COULOMB * sz
        if want:  # each pair is met twice; d points away from the atom whose force it is
            half = 0.5 * COULOMB
            out[0] += half * simd.sum(energy)
            if polarizabilities[at] > 0:
                m2 = dipoles[at, 0] ** 2 + dipoles[at, 1] ** 2 + dipoles[at, 2] ** 2
                out[0] += half * m2 * (1 / polarizabilities[at] - own_field)
            out[1] -= half * simd.sum(xx)
            out[2] -= half * simd.sum(xy)
            out[3] -= half * simd.sum(xz)
            out[4] -= half * simd.sum(yx)
            out[5] -= half * simd.sum(yy)
            out[6] -= half * simd.sum(yz)
            out[7] -= half * simd.sum(zx)
            out[8] -= half * simd.sum(zy)
            out[9] -= half * simd.sum(zz)


# --------------------------------------------------------------------------------------------------- excluded pairs
@device
def _smooth(alpha, r2):
    """S_0 = erf(alpha r) / r, S_1 and S_2 with S_(n + 1) = -S_n' / r: what the reciprocal sum holds."""
    x = alpha * alpha * r2
    decay = math.exp(-x)
    if x < _SMALL:  # integrals f_n of t^(2 n) exp(-x t^2) from 0 to 1, downwards from a series of positive terms
        term = total = 0.2
        for k in range(1, 16):
            term *= 2 * x / (2 * k + 5)
            total += term
        f2 = decay * total
        f1 = (2 * x * f2 + decay) / 3
        f0 = 2 * x * f1 + decay
    else:
        f0 = 0.5 * math.sqrt(math.pi / x) * math.erf(math.sqrt(x))
        f1 = (f0 - decay) / (2 * x)
        f2 = (3 * f1 - decay) / (2 * x)
    a2 = 2 * alpha * alpha
    scale = _GAUSS * alpha * COULOMB
    return scale * f0, scale * a2 * f1, scale * a2 * a2 * f2


@kernel(nogil=True)
def excluded_fields(chunk, ranges, starts, partners, positions, box, alpha, charges, field):
    """Take the fields of excluded charges out of those of the reciprocal sum."""
    for i in range(ranges[chunk], ranges[chunk + 1]):
        for k in range(starts[i], starts[i + 1]):
            j = partners[k]
            d = minimum_image(
                positions[j, 0] - positions[i, 0],
                positions[j, 1] - positions[i, 1],
                positions[j, 2] - positions[i, 2],
                box,
            )
            s1 = _smooth(alpha, d[0] * d[0] + d[1] * d[1] + d[2] * d[2])[1]
            for a in range(3):
                field[i, a] += charges[j] * s1 * d[a]
                field[j, a] -= charges[i] * s1 * d[a]


@kernel(nogil=True)
def excluded_forces(chunk, ranges, starts, partners, positions, box, alpha, charges, dipoles, forces, sums, flags):
    """Forces [n, 3] of what is taken out of the reciprocal sum for excluded pairs, energy and virial."""
    want, out = flags[ENERGY] != 0, sums[chunk]
    if want:
        out[:] = 0.0
    for i in range(ranges[chunk], ranges[chunk + 1]):
        forces[i, 0], forces[i, 1], forces[i, 2] = 0.0, 0.0, 0.0
    for i in range(ranges[chunk], ranges[chunk + 1]):
        for k in range(starts[i], starts[i + 1]):
            j = partners[k]
            d = minimum_image(
                positions[j, 0] - positions[i, 0],
                positions[j, 1] - positions[i, 1],
                positions[j, 2] - positions[i, 2],
                box,
            )
            s0, s1, s2 = _smooth(alpha, d[0] * d[0] + d[1] * d[1] + d[2] * d[2])
            q, p, a, b = charges[i], charges[j], 0.0, 0.0
            for c in range(3):
                a, b = a + dipoles[i, c] * d[c], b + dipoles[j, c] * d[c]
            mixed = p * a - q * b
            if want:
                out[0] -= q * p * s0 + mixed * s1
            for c in range(3):
                force = (q * p * s1 + mixed * s2) * d[c] - s1 * (p * dipoles[i, c] - q * dipoles[j, c])
                forces[i, c] += force
                forces[j, c] -= force
                if want:
                    for e in range(3):
                        out[1 + 3 * c + e] -= force * d[e]
