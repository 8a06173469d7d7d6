"""Rigid three-atom waters, solved in closed form (SETTLE), eight waters at a time.

References
----------
.. [1] Miyamoto, Kollman, "SETTLE: an analytical version of the SHAKE and RATTLE algorithm for rigid water models",
   J. Comput. Chem. 13 (1992) 952. doi:10.1002/jcc.540130805
"""

from __future__ import annotations

import numpy as np

from triskele.core.extend import device, kernel, simd

from ..engine.flags import NOT_CONVERGED, STATUS, STATUS_INFO
from .vectors import LANES, load_triples, store_triples

__all__ = ["PARAMETERS", "settle_positions", "settle_velocities", "water_parameters"]

# What is known of a kind of water: share of mass of a leg, distances of apex and legs from the center of mass along the
# axis, half the distance of the legs, inverse of the second and of the last's double; four numbers of the inverse of
# the velocities' matrix, and the inverse masses.
PARAMETERS = 12


def water_parameters(apex_leg: float, leg_leg: float, mass: float, leg_mass: float) -> np.ndarray:
    """Return the parameters of a water model for the kernels, (PARAMETERS,)."""
    total = mass + 2 * leg_mass
    half = leg_leg / 2
    height = np.sqrt(apex_leg**2 - half**2)
    ra = 2 * leg_mass / total * height
    wa, wb = 1 / mass, 1 / leg_mass
    # u1 = b - a, u2 = c - a, u3 = c - b; their products are known
    u12, u13 = apex_leg**2 - leg_leg**2 / 2, -(leg_leg**2) / 2
    matrix = np.array([
        [(wa + wb) * apex_leg**2, wa * u12, -wb * u13],
        [wa * u12, (wa + wb) * apex_leg**2, wb * -u13],
        [-wb * u13, wb * -u13, 2 * wb * leg_leg**2],
    ])  # fmt: skip
    inverse = np.linalg.inv(matrix)
    return np.array(
        [
            leg_mass / total,
            ra,
            height - ra,
            half,
            1 / ra,
            1 / leg_leg,
            inverse[0, 0],
            inverse[0, 1],
            inverse[0, 2],
            inverse[2, 2],
            wa,
            wb,
        ]
    )


@device
def _inverse_root(x):
    return simd.rsqrt_fast(x, 2)


@device
def _root(x):
    """Square root, with 0 for 0."""
    return simd.select(x > 0.0, x * simd.rsqrt_fast(x, 2), simd.select(x < 0.0, np.nan, x * 0.0 + x))


@device
def _cross(ax, ay, az, bx, by, bz):
    return ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx


@kernel(nogil=True)
def settle_positions(chunk, starts, first, kinds, parameters, old, positions, velocities, inverse_dt, flags):
    # starts [chunks + 1] of groups; first [groups, 8] int32; kinds [groups]; parameters [kinds, PARAMETERS];
    # inverse_dt [1]: velocities gain the displacement times this
    per_time = simd.splat(inverse_dt[0], 8)
    for group in range(starts[chunk], starts[chunk + 1]):
        atoms = simd.load(first, group * LANES, 8)
        p = kinds[group] * PARAMETERS
        share, ra, rb, rc, per_ra, per_width = (
            simd.load_splat(parameters, p, 8),
            simd.load_splat(parameters, p + 1, 8),
            simd.load_splat(parameters, p + 2, 8),
            simd.load_splat(parameters, p + 3, 8),
            simd.load_splat(parameters, p + 4, 8),
            simd.load_splat(parameters, p + 5, 8),
        )
        o = load_triples(old, atoms)
        n = load_triples(positions, atoms)
        # relative to the apex: legs before and after; the center of mass after
        b0x, b0y, b0z, c0x, c0y, c0z = o[3] - o[0], o[4] - o[1], o[5] - o[2], o[6] - o[0], o[7] - o[1], o[8] - o[2]
        bx, by, bz, cx, cy, cz = n[3] - n[0], n[4] - n[1], n[5] - n[2], n[6] - n[0], n[7] - n[1], n[8] - n[2]
        gx, gy, gz = (bx + cx) * share, (by + cy) * share, (bz + cz) * share
        # axes: z normal to the plane before, x normal to it and to the apex, y = z x x
        zx, zy, zz = _cross(b0x, b0y, b0z, c0x, c0y, c0z)
        xx, xy, xz = _cross(zx, zy, zz, gx, gy, gz)  # the apex is at -g
        s = _inverse_root(zx * zx + zy * zy + zz * zz)
        zx, zy, zz = zx * s, zy * s, zz * s
        s = _inverse_root(xx * xx + xy * xy + xz * xz)
        xx, xy, xz = xx * s, xy * s, xz * s
        yx, yy, yz = _cross(zx, zy, zz, xx, xy, xz)
        b0u, b0v = xx * b0x + xy * b0y + xz * b0z, yx * b0x + yy * b0y + yz * b0z
        c0u, c0v = xx * c0x + xy * c0y + xz * c0z, yx * c0x + yy * c0y + yz * c0z
        bx, by, bz, cx, cy, cz = bx - gx, by - gy, bz - gz, cx - gx, cy - gy, cz - gz
        a1w = -(zx * gx + zy * gy + zz * gz)
        b1u, b1v, b1w = xx * bx + xy * by + xz * bz, yx * bx + yy * by + yz * bz, zx * bx + zy * by + zz * bz
        c1u, c1v, c1w = xx * cx + xy * cy + xz * cz, yx * cx + yy * cy + yz * cz, zx * cx + zy * cy + zz * cz
        # tilts phi and psi of the plane [1, equations A8 to A10]
        sin_phi = a1w * per_ra
        cos2 = 1.0 - sin_phi * sin_phi
        inverse_cos = _inverse_root(cos2)
        cos_phi = cos2 * inverse_cos
        sin_psi = (b1w - c1w) * inverse_cos * per_width
        cos_psi = _root(1.0 - sin_psi * sin_psi)
        a2v = ra * cos_phi
        b2u = -(rc * cos_psi)
        middle, skew = -(rb * cos_phi), rc * sin_psi * sin_phi
        b2v, c2v = middle - skew, middle + skew
        # rotation theta in the plane [1, A11 to A15]
        alpha = b2u * (b0u - c0u) + b0v * b2v + c0v * c2v
        beta = b2u * (c0v - b0v) + b0u * b2v + c0u * c2v
        gamma = b0u * b1v - b1u * b0v + c0u * c1v - c1u * c0v
        square = alpha * alpha + beta * beta
        sin_theta = (alpha * gamma - beta * _root(square - gamma * gamma)) * simd.rcp_fast(square, 2)
        cos_theta = _root(1.0 - sin_theta * sin_theta)
        a3u, a3v = -(a2v * sin_theta), a2v * cos_theta
        b3u, b3v = b2u * cos_theta - b2v * sin_theta, b2u * sin_theta + b2v * cos_theta
        c3u, c3v = -(b2u * cos_theta) - c2v * sin_theta, c2v * cos_theta - b2u * sin_theta
        gx, gy, gz = gx + n[0], gy + n[1], gz + n[2]
        new = (
            gx + xx * a3u + yx * a3v + zx * a1w,
            gy + xy * a3u + yy * a3v + zy * a1w,
            gz + xz * a3u + yz * a3v + zz * a1w,
            gx + xx * b3u + yx * b3v + zx * b1w,
            gy + xy * b3u + yy * b3v + zy * b1w,
            gz + xz * b3u + yz * b3v + zz * b1w,
            gx + xx * c3u + yx * c3v + zx * c1w,
            gy + xy * c3u + yy * c3v + zy * c1w,
            gz + xz * c3u + yz * c3v + zz * c1w,
        )  # fmt: skip
        broken = simd.bits(cos_theta * cos_psi * cos_phi != cos_theta * cos_psi * cos_phi)
        if broken:
            lane = 0
            while not (broken >> np.uint64(lane)) & np.uint64(1):
                lane += 1
            flags[STATUS_INFO] = first[group, lane]
            flags[STATUS] = NOT_CONVERGED
            continue  # what is finite stays so
        if inverse_dt[0] != 0.0:
            v = load_triples(velocities, atoms)
            store_triples(
                velocities,
                atoms,
                (
                    v[0] + (new[0] - n[0]) * per_time,
                    v[1] + (new[1] - n[1]) * per_time,
                    v[2] + (new[2] - n[2]) * per_time,
                    v[3] + (new[3] - n[3]) * per_time,
                    v[4] + (new[4] - n[4]) * per_time,
                    v[5] + (new[5] - n[5]) * per_time,
                    v[6] + (new[6] - n[6]) * per_time,
                    v[7] + (new[7] - n[7]) * per_time,
                    v[8] + (new[8] - n[8]) * per_time,
                ),
            )
        store_triples(positions, atoms, new)


@kernel(nogil=True)
def settle_velocities(chunk, starts, first, kinds, parameters, positions, velocities):
    # takes out of the velocities what would change the lengths at `positions`, which fulfill the constraints
    for group in range(starts[chunk], starts[chunk + 1]):
        atoms = simd.load(first, group * LANES, 8)
        p = kinds[group] * PARAMETERS
        i00, i01, i02, i22 = (
            simd.load_splat(parameters, p + 6, 8),
            simd.load_splat(parameters, p + 7, 8),
            simd.load_splat(parameters, p + 8, 8),
            simd.load_splat(parameters, p + 9, 8),
        )
        wa, wb = simd.load_splat(parameters, p + 10, 8), simd.load_splat(parameters, p + 11, 8)
        r = load_triples(positions, atoms)
        v = load_triples(velocities, atoms)
        ux, uy, uz = r[3] - r[0], r[4] - r[1], r[5] - r[2]
        wx, wy, wz = r[6] - r[0], r[7] - r[1], r[8] - r[2]
        tx, ty, tz = r[6] - r[3], r[7] - r[4], r[8] - r[5]
        g1 = ux * (v[3] - v[0]) + uy * (v[4] - v[1]) + uz * (v[5] - v[2])
        g2 = wx * (v[6] - v[0]) + wy * (v[7] - v[1]) + wz * (v[8] - v[2])
        g3 = tx * (v[6] - v[3]) + ty * (v[7] - v[4]) + tz * (v[8] - v[5])
        # the matrix stays the same when the legs are exchanged
        l1 = i00 * g1 + i01 * g2 + i02 * g3
        l2 = i01 * g1 + i00 * g2 + i02 * g3
        l3 = i02 * (g1 + g2) + i22 * g3
        m1, m2, m3 = l1 * wb, l2 * wb, l3 * wb
        l1, l2 = l1 * wa, l2 * wa
        store_triples(
            velocities,
            atoms,
            (
                v[0] + l1 * ux + l2 * wx,
                v[1] + l1 * uy + l2 * wy,
                v[2] + l1 * uz + l2 * wz,
                v[3] - m1 * ux + m3 * tx,
                v[4] - m1 * uy + m3 * ty,
                v[5] - m1 * uz + m3 * tz,
                v[6] - m2 * wx - m3 * tx,
                v[7] - m2 * wy - m3 * ty,
                v[8] - m2 * wz - m3 * tz,
            ),
        )
