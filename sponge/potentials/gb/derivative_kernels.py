"""Kernels of derivatives of `GB` by its parameters, and of Hessian-vector products: double precision, eight partners of
an atom at a time.

Formulas of pairs give their value, its derivatives, and the derivatives of all of these along a move of everything that
they depend on; names that end in ``_t`` (tangent) are such derivatives. Compilers leave out what a kernel does not use.
Rows hold both directions of each pair, so that a chunk writes to its own atoms alone. They come from `NeighborRows`; or
they hold atoms in place of entries, of which the nearest images count (`search`); or, without cut-off, one row with all
atoms serves each of them.
"""

from __future__ import annotations

import numpy as np

from triskele.core.extend import device, kernel, simd, template

from ...neighbors.rows import eight
from ..pairs.dense import CHARGE, X, Y, Z, one
from .kernels import (
    BORN,
    BY_INTEGRAL,
    COULOMB,
    KAPPA,
    NECK,
    NECK_CUTOFF,
    RADIUS,
    RHO,
    SCREEN,
    SHIFT,
    SOLUTE,
    SOLVENT,
)

# Tables of necks at the radius of each atom [n, 8, N_KNOTS], by the other radius, with a 0 at both ends: d0, its
# derivative by the atom's radius, m0 and its derivative, for the atom's own integral; then the same for the other's
N_KNOTS = 23
# Rows of results [N_RESULTS, n]: the gradient's derivative along the move, in rows X, Y, Z; derivatives by charges, by
# Born radii, by rho, by screening radii and by radii through the tables of necks, each before its own along the move
CHARGE_SLOPE, BORN_SLOPE, RHO_SLOPE, SCREEN_SLOPE, RADIUS_SLOPE = range(3, 13, 2)
N_RESULTS = 13


# ---------------------------------------------------------------------------------------------------- formulas of pairs
@device(forceinline=True)
def _sphere(r, rinv, rho, s, r_t, rho_t, s_t):
    """`gb.descreening`; derivatives by r, rho and s; those of all three along the move.

    The derivatives by the bounds r + s and |r - s| cancel.
    """
    gap = simd.abs(r - s)
    lower, up = simd.maximum(gap, rho), simd.rcp_fast(r + s, 2)
    low, inverse, rinv2, ratio = simd.rcp_fast(lower, 2), simd.rcp_fast(rho, 2), rinv * rinv, s * rinv
    inside, outer, reached = s - r > rho, rho > gap, r + s > rho
    shell, log = up * up - low * low, simd.log(lower * up)
    value = 0.5 * (low - up) + 0.125 * (r - s * ratio) * shell + 0.25 * log * rinv
    value = value + simd.select(inside, inverse - low, 0.0)
    by_r = 0.125 * (1.0 + ratio * ratio) * shell - 0.25 * log * rinv2
    by_s = -0.25 * ratio * shell
    edge = 0.25 * rinv * inverse * inverse * inverse
    by_rho = simd.select(outer, ((r - rho) * (r - rho) - s * s) * edge, simd.select(inside, -inverse * inverse, 0.0))

    lower_t = simd.select(outer, rho_t, simd.select(r > s, r_t - s_t, s_t - r_t))
    up_t = r_t + s_t  # of r + s
    shell_t = 2.0 * (low * low * low * lower_t - up * up * up * up_t)
    log_t, ratio_t = lower_t * low - up_t * up, (s_t - ratio * r_t) * rinv
    by_r_t = (
        0.25 * ratio * ratio_t * shell
        + 0.125 * (1.0 + ratio * ratio) * shell_t
        - 0.25 * (log_t - 2.0 * log * rinv * r_t) * rinv2
    )
    by_s_t = -0.25 * (ratio_t * shell + ratio * shell_t)
    edge_t = 2.0 * ((r - rho) * (r_t - rho_t) - s * s_t) * edge - by_rho * (rinv * r_t + 3.0 * inverse * rho_t)
    by_rho_t = simd.select(outer, edge_t, simd.select(inside, 2.0 * inverse * inverse * inverse * rho_t, 0.0))
    return (
        simd.select(reached, value, 0.0),
        simd.select(reached, by_r, 0.0),
        simd.select(reached, by_rho, 0.0),
        simd.select(reached, by_s, 0.0),
        simd.select(reached, by_r_t, 0.0),
        simd.select(reached, by_rho_t, 0.0),
        simd.select(reached, by_s_t, 0.0),
    )


@template
def _at_knots(lines, at, knots):
    """A table at eight radii, from three entries each from `at` on, and its derivative by the radius."""
    u0, u1, u2, v0, v1, v2 = knots
    a, b, c = simd.gather(lines, at), simd.gather(lines, at + 1), simd.gather(lines, at + 2)
    return u0 * a + u1 * b + u2 * c, v0 * a + v1 * b + v2 * c


@device(forceinline=True)
def _neck(lines, at, knots, r, r_t, own_t, other_t):
    """`gb.neck_integral` from the tables from `at` on; derivatives by r, the atom's own radius and the other; those of
    the first two along the move.
    """
    d, d_other = _at_knots(lines, at, knots)
    d_own, d_both = _at_knots(lines, at + N_KNOTS, knots)
    m, m_other = _at_knots(lines, at + 2 * N_KNOTS, knots)
    m_own, m_both = _at_knots(lines, at + 3 * N_KNOTS, knots)
    x, x_t = (r - d) * 10.0, (r_t - d_own * own_t - d_other * other_t) * 10.0
    x2 = x * x
    y, slope = simd.rcp_fast(1.0 + x2 * (1.0 + 0.3 * x2 * x2), 2), x * (2.0 + 1.8 * x2 * x2)
    y_x = -y * y * slope
    y_xx = -y * (2.0 * y_x * slope + y * (2.0 + 9.0 * x2 * x2))
    by_r, by_r_t = 10.0 * m * y_x, 10.0 * ((m_own * own_t + m_other * other_t) * y_x + m * y_xx * x_t)
    by_own_t = m_both * other_t * y + m_own * y_x * x_t - d_both * other_t * by_r - d_own * by_r_t
    return m * y, by_r, m_own * y - d_own * by_r, m_other * y - d_other * by_r, by_r_t, by_own_t


@device(forceinline=True)
def _polarization(r2, product, r2_t, product_t, solute, solvent, kappa, shift):
    """Energies of unit charges, their derivatives by r^2 and the product of Born radii; those of all along the move."""
    inverse = simd.rcp_fast(product, 2)
    x = 0.25 * r2 * inverse
    spread = simd.exp(-x)
    f2 = r2 + product * spread
    finv = simd.rsqrt_fast(f2, 2)
    screened, screened_f = simd.splat(solute - solvent, 8), simd.splat(0.0, 8)
    if kappa != 0.0:
        outside = solvent * simd.exp(-kappa * f2 * finv)
        screened, screened_f = solute - outside, kappa * outside
    rest, finv2 = finv - shift, finv * finv
    # derivatives by f of the negative energy, then by f^2
    slope = screened_f * rest - screened * finv2
    curvature = 2.0 * (screened * finv - screened_f) * finv2 - kappa * screened_f * rest
    first, second = 0.5 * slope * finv, 0.25 * (curvature - slope * finv) * finv2
    f2_r, f2_p = 1.0 - 0.25 * spread, spread * (1.0 + x)
    f2_t, x_t = f2_r * r2_t + f2_p * product_t, (0.25 * r2_t - x * product_t) * inverse
    first_t = second * f2_t
    return (
        -screened * rest,
        -first * f2_r,
        -first * f2_p,
        -first * f2_t,
        -first_t * f2_r - first * 0.25 * spread * x_t,
        -first_t * f2_p + first * spread * x * x_t,
    )


# --------------------------------------------------------------------------------------------------------------- loops
@template
def _row(rows, i):
    return rows[i if len(rows) > 1 else 0]


@template
def _of(atoms, k, others):
    """Row `k` of a table of atoms, of eight atoms."""
    return simd.gather(atoms, others + np.int32(k * atoms.shape[1]))


@template
def _knots_of(starts, weights, others):
    """Return the first table entry that counts for each of eight radii, and the weights of three entries."""
    return simd.gather(starts, others), (
        _of(weights, 0, others),
        _of(weights, 1, others),
        _of(weights, 2, others),
        _of(weights, 3, others),
        _of(weights, 4, others),
        _of(weights, 5, others),
    )


@template
def _partners(xs, entries, count, row, k, i, limit, box, periodic):
    """Vectors from entry `i` to eight of its row, their squares, which of these count, and their atoms."""
    x, y, z, _ = eight(xs, row, k)
    x, y, z = x - xs[4 * i], y - xs[4 * i + 1], z - xs[4 * i + 2]
    if periodic:
        turns = simd.rint(z * (1 / box[2, 2]))
        x, y, z = x - turns * box[2, 0], y - turns * box[2, 1], z - turns * box[2, 2]
        turns = simd.rint(y * (1 / box[1, 1]))
        x, y = x - turns * box[1, 0], y - turns * box[1, 1]
        x = x - simd.rint(x * (1 / box[0, 0])) * box[0, 0]
    r2, others = x * x + y * y + z * z, simd.load(row, k, 8)
    near = (simd.iota(8) < np.int32(count - k)) & (others != np.int32(i)) & ~(r2 >= limit)  # a NaN counts
    return x, y, z, simd.select(near, r2, 1.0), near, simd.gather(entries, simd.select(near, others, 0))


@template
def _set(results, k, i, value, value_t):
    results[k, i], results[k + 1, i] = simd.sum(value), simd.sum(value_t)


@kernel(nogil=True)
def search(chunk, chunks, n, limit, xs, entries, counts, rows, box, periodic, found, near_rows):
    """Count the partners of each atom (`found`), and list them in `near_rows` [n, width] as far as there is room."""
    for i in range(chunk * n // chunks, (chunk + 1) * n // chunks):
        row, total = _row(rows, i), 0
        for k in range(0, counts[i], 8):
            _, _, _, _, near, _ = _partners(xs, entries, counts[i], row, k, i, limit, box, periodic)
            bits = np.int64(simd.bits(near))
            if total + 8 > near_rows.shape[1]:
                total += simd.popcount(np.uint64(bits))
            elif bits != 0:
                for m in range(8):
                    near_rows[i, total] = k + m
                    total += bits >> m & 1
        found[i] = total


@kernel(nogil=True)
def slopes(
    chunk, chunks, n, limit, xs, entries, counts, rows, box, periodic, atoms, lines, starts, weights, constants, results
):
    """Set the results that are not along a move."""
    solute, solvent, kappa, shift = constants[SOLUTE], constants[SOLVENT], constants[KAPPA], constants[SHIFT]
    neck, coulomb, none = constants[NECK], constants[COULOMB], simd.splat(0.0, 8)
    for i in range(chunk * n // chunks, (chunk + 1) * n // chunks):
        row, atom, count = _row(rows, i), entries[i], counts[i]
        rho, screen, radius = one(atoms, RHO, atom), one(atoms, SCREEN, atom), one(atoms, RADIUS, atom)
        born, by = one(atoms, BORN, atom), one(atoms, BY_INTEGRAL, atom)
        charge = one(atoms, CHARGE, atom) * coulomb
        by_charge, by_born, by_rho, by_screen, by_radius = none, none, none, none, none
        for k in range(0, count, 8):
            _, _, _, r2, near, others = _partners(xs, entries, count, row, k, i, limit, box, periodic)
            if simd.any(near):
                rinv = simd.rsqrt_fast(r2, 2)
                r, born_j, charge_j = r2 * rinv, _of(atoms, BORN, others), _of(atoms, CHARGE, others)
                energy, _, by_product, _, _, _ = _polarization(
                    r2, born * born_j, none, none, solute, solvent, kappa, shift
                )
                by_charge = by_charge + simd.select(near, coulomb * charge_j * energy, 0.0)
                by_born = by_born + simd.select(near, charge * charge_j * by_product * born_j, 0.0)
                by_j = _of(atoms, BY_INTEGRAL, others)
                _, _, own, _, _, _, _ = _sphere(r, rinv, rho, _of(atoms, SCREEN, others), none, none, none)
                _, _, _, other, _, _, _ = _sphere(r, rinv, _of(atoms, RHO, others), screen, none, none, none)
                by_rho = by_rho + simd.select(near, by * own, 0.0)
                by_screen = by_screen + simd.select(near, by_j * other, 0.0)
                near = near & (r < radius + _of(atoms, RADIUS, others) + constants[NECK_CUTOFF])
                if neck != 0.0 and simd.any(near):
                    start, knots = _knots_of(starts, weights, others)
                    at = start + np.int64(atom) * 8 * N_KNOTS
                    _, _, own, _, _, _ = _neck(lines, at, knots, r, none, none, none)
                    _, _, other, _, _, _ = _neck(lines, at + 4 * N_KNOTS, knots, r, none, none, none)
                    by_radius = by_radius + simd.select(near, neck * (by * own + by_j * other), 0.0)
        results[CHARGE_SLOPE, atom], results[BORN_SLOPE, atom] = simd.sum(by_charge), simd.sum(by_born)
        results[RHO_SLOPE, atom], results[SCREEN_SLOPE, atom] = simd.sum(by_rho), simd.sum(by_screen)
        results[RADIUS_SLOPE, atom] = simd.sum(by_radius)


@kernel(nogil=True)
def integral_moves(
    chunk,
    chunks,
    n,
    limit,
    xs,
    entries,
    counts,
    rows,
    box,
    periodic,
    atoms,
    moves,
    lines,
    starts,
    weights,
    constants,
    results,
):
    """Set the sums of integrals of each atom, and their derivatives along the move, in two rows of results.

    moves: like `atoms`, with tangents; those of positions in the first rows.
    """
    neck = constants[NECK]
    for i in range(chunk * n // chunks, (chunk + 1) * n // chunks):
        row, atom, count = _row(rows, i), entries[i], counts[i]
        vx, vy, vz = one(moves, X, atom), one(moves, Y, atom), one(moves, Z, atom)
        rho, rho_t = one(atoms, RHO, atom), one(moves, RHO, atom)
        radius, radius_t = one(atoms, RADIUS, atom), one(moves, RADIUS, atom)
        total, total_t = simd.splat(0.0, 8), simd.splat(0.0, 8)
        for k in range(0, count, 8):
            dx, dy, dz, r2, near, others = _partners(xs, entries, count, row, k, i, limit, box, periodic)
            if simd.any(near):
                rinv = simd.rsqrt_fast(r2, 2)
                r, s, s_t = r2 * rinv, _of(atoms, SCREEN, others), _of(moves, SCREEN, others)
                r_t = rinv * (
                    dx * (_of(moves, X, others) - vx)
                    + dy * (_of(moves, Y, others) - vy)
                    + dz * (_of(moves, Z, others) - vz)
                )
                value, by_r, by_rho, by_s, _, _, _ = _sphere(r, rinv, rho, s, r_t, rho_t, s_t)
                total = total + simd.select(near, value, 0.0)
                total_t = total_t + simd.select(near, by_r * r_t + by_rho * rho_t + by_s * s_t, 0.0)
                near = near & (r < radius + _of(atoms, RADIUS, others) + constants[NECK_CUTOFF])
                if neck != 0.0 and simd.any(near):
                    start, knots = _knots_of(starts, weights, others)
                    at, other_t = start + np.int64(atom) * 8 * N_KNOTS, _of(moves, RADIUS, others)
                    value, by_r, own, other, _, _ = _neck(lines, at, knots, r, r_t, radius_t, other_t)
                    total = total + simd.select(near, neck * value, 0.0)
                    total_t = total_t + simd.select(near, neck * (by_r * r_t + own * radius_t + other * other_t), 0.0)
        results[0, atom], results[1, atom] = simd.sum(total), simd.sum(total_t)


@kernel(nogil=True)
def pair_products(chunk, chunks, n, limit, xs, entries, counts, rows, box, periodic, atoms, moves, constants, results):
    """Set the results of pairs at given Born radii: of the gradient, by charges and by Born radii."""
    solute, solvent, kappa, shift = constants[SOLUTE], constants[SOLVENT], constants[KAPPA], constants[SHIFT]
    for i in range(chunk * n // chunks, (chunk + 1) * n // chunks):
        row, atom, count = _row(rows, i), entries[i], counts[i]
        vx, vy, vz = one(moves, X, atom), one(moves, Y, atom), one(moves, Z, atom)
        born, born_t = one(atoms, BORN, atom), one(moves, BORN, atom)
        charge, charge_t = one(atoms, CHARGE, atom), one(moves, CHARGE, atom)
        none = simd.splat(0.0, 8)
        fx, fy, fz, by_charge, by_charge_t, by_born, by_born_t = none, none, none, none, none, none, none
        for k in range(0, count, 8):
            dx, dy, dz, r2, near, others = _partners(xs, entries, count, row, k, i, limit, box, periodic)
            if simd.any(near):
                wx, wy, wz = _of(moves, X, others) - vx, _of(moves, Y, others) - vy, _of(moves, Z, others) - vz
                born_j, born_j_t = _of(atoms, BORN, others), _of(moves, BORN, others)
                energy, by_r2, by_product, energy_t, by_r2_t, by_product_t = _polarization(
                    r2,
                    born * born_j,
                    2.0 * (dx * wx + dy * wy + dz * wz),
                    born * born_j_t + born_t * born_j,
                    solute,
                    solvent,
                    kappa,
                    shift,
                )
                q = simd.select(near, constants[COULOMB] * _of(atoms, CHARGE, others), 0.0)
                q_t = simd.select(near, constants[COULOMB] * _of(moves, CHARGE, others), 0.0)
                qq, qq_t = charge * q, charge_t * q + charge * q_t
                by_charge, by_charge_t = by_charge + q * energy, by_charge_t + q_t * energy + q * energy_t
                by_product, by_product_t = qq * by_product, qq_t * by_product + qq * by_product_t
                by_born = by_born + by_product * born_j
                by_born_t = by_born_t + by_product_t * born_j + by_product * born_j_t
                slope, slope_t = -2.0 * qq * by_r2, -2.0 * (qq_t * by_r2 + qq * by_r2_t)
                fx, fy = fx + slope_t * dx + slope * wx, fy + slope_t * dy + slope * wy
                fz = fz + slope_t * dz + slope * wz
        results[X, atom], results[Y, atom], results[Z, atom] = simd.sum(fx), simd.sum(fy), simd.sum(fz)
        _set(results, CHARGE_SLOPE, atom, by_charge, by_charge_t)
        _set(results, BORN_SLOPE, atom, by_born, by_born_t)


@kernel(nogil=True)
def integral_products(
    chunk,
    chunks,
    n,
    limit,
    xs,
    entries,
    counts,
    rows,
    box,
    periodic,
    atoms,
    moves,
    lines,
    starts,
    weights,
    constants,
    results,
):
    """Add what comes through the integrals: to the gradient's, by rho, screening radii, and radii of necks."""
    neck, none = constants[NECK], simd.splat(0.0, 8)
    for i in range(chunk * n // chunks, (chunk + 1) * n // chunks):
        row, atom, count = _row(rows, i), entries[i], counts[i]
        vx, vy, vz = one(moves, X, atom), one(moves, Y, atom), one(moves, Z, atom)
        rho, rho_t = one(atoms, RHO, atom), one(moves, RHO, atom)
        s, s_t = one(atoms, SCREEN, atom), one(moves, SCREEN, atom)
        by, by_t = one(atoms, BY_INTEGRAL, atom), one(moves, BY_INTEGRAL, atom)
        radius, radius_t = one(atoms, RADIUS, atom), one(moves, RADIUS, atom)
        fx, fy, fz, by_rho, by_rho_t, by_screen, by_screen_t = none, none, none, none, none, none, none
        by_radius, by_radius_t = none, none
        for k in range(0, count, 8):
            dx, dy, dz, r2, near, others = _partners(xs, entries, count, row, k, i, limit, box, periodic)
            if simd.any(near):
                wx, wy, wz = _of(moves, X, others) - vx, _of(moves, Y, others) - vy, _of(moves, Z, others) - vz
                rinv = simd.rsqrt_fast(r2, 2)
                r, r_t = r2 * rinv, rinv * (dx * wx + dy * wy + dz * wz)
                by_j, by_j_t = _of(atoms, BY_INTEGRAL, others), _of(moves, BY_INTEGRAL, others)
                _, by_r, first, _, by_r_t, first_t, _ = _sphere(
                    r, rinv, rho, _of(atoms, SCREEN, others), r_t, rho_t, _of(moves, SCREEN, others)
                )
                slope, slope_t = by * by_r, by_t * by_r + by * by_r_t
                by_rho = by_rho + simd.select(near, by * first, 0.0)
                by_rho_t = by_rho_t + simd.select(near, by_t * first + by * first_t, 0.0)
                _, by_r, _, second, by_r_t, _, second_t = _sphere(
                    r, rinv, _of(atoms, RHO, others), s, r_t, _of(moves, RHO, others), s_t
                )
                slope, slope_t = slope + by_j * by_r, slope_t + by_j_t * by_r + by_j * by_r_t
                by_screen = by_screen + simd.select(near, by_j * second, 0.0)
                by_screen_t = by_screen_t + simd.select(near, by_j_t * second + by_j * second_t, 0.0)
                close = near & (r < radius + _of(atoms, RADIUS, others) + constants[NECK_CUTOFF])
                if neck != 0.0 and simd.any(close):
                    start, knots = _knots_of(starts, weights, others)
                    at, other_t = start + np.int64(atom) * 8 * N_KNOTS, _of(moves, RADIUS, others)
                    own, own_t = simd.select(close, neck * by, 0.0), simd.select(close, neck * by_t, 0.0)
                    _, by_r, first, _, by_r_t, first_t = _neck(lines, at, knots, r, r_t, radius_t, other_t)
                    slope, slope_t = slope + own * by_r, slope_t + own_t * by_r + own * by_r_t
                    by_radius, by_radius_t = by_radius + own * first, by_radius_t + own_t * first + own * first_t
                    own, own_t = simd.select(close, neck * by_j, 0.0), simd.select(close, neck * by_j_t, 0.0)
                    _, by_r, first, _, by_r_t, first_t = _neck(
                        lines, at + 4 * N_KNOTS, knots, r, r_t, radius_t, other_t
                    )
                    slope, slope_t = slope + own * by_r, slope_t + own_t * by_r + own * by_r_t
                    by_radius, by_radius_t = by_radius + own * first, by_radius_t + own_t * first + own * first_t
                # the derivative by this atom's position is -slope d/r
                slope = simd.select(near, -slope * rinv, 0.0)
                slope_t = simd.select(near, -slope_t * rinv, 0.0) - slope * r_t * rinv
                fx, fy = fx + slope_t * dx + slope * wx, fy + slope_t * dy + slope * wy
                fz = fz + slope_t * dz + slope * wz
        results[X, atom] += simd.sum(fx)
        results[Y, atom] += simd.sum(fy)
        results[Z, atom] += simd.sum(fz)
        _set(results, RHO_SLOPE, atom, by_rho, by_rho_t)
        _set(results, SCREEN_SLOPE, atom, by_screen, by_screen_t)
        _set(results, RADIUS_SLOPE, atom, by_radius, by_radius_t)
