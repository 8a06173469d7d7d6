"""Fields and forces of the mesh on point dipoles: second derivatives of B-splines in the bricks of `mesh_kernels`.

Places and fractions of atoms are those that `spread` has left for the charges at the same positions; the order is 5.
"""

from __future__ import annotations

import numpy as np

from triskele.core.extend import device, fft, kernel

from ..engine.flags import ENERGY
from .mesh_kernels import BRICKS_Z, PLANE

__all__ = ["add_field", "dipole_forces"]

_POINTS = 5
_PER_PLACE = 80  # in `places`, of a place within a brick


@device
def _weights(values, f, axis, w):
    """Weights of the points along an axis, their slopes and curvatures: w[axis, 0:3, point]."""
    for k in range(_POINTS):
        value, slope, half = values[8 * k + _POINTS - 1], 0.0, 0.0
        for j in range(_POINTS - 2, -1, -1):
            half = half * f + slope
            slope = slope * f + value
            value = value * f + values[8 * k + j]
        w[axis, 0, k], w[axis, 1, k], w[axis, 2, k] = value, slope, 2 * half


@device
def _points(shape, line, y, z):
    """Offsets of the points along y and z within the bricks, from where the place in the first brick."""
    low_y, low_z = shape // _PER_PLACE >> 2, shape // _PER_PLACE & 3
    for k in range(_POINTS):
        y[k] = ((low_y + k) >> 2) * line + ((low_y + k) & 3) * 4
        z[k] = ((low_z + k) >> 2) * 16 + ((low_z + k) & 3)


@kernel(**fft.OUTER)
def dipole_forces(chunk, chunks, charges, dipoles, mesh, forces, sums, flags):
    """Forces [n, 3] on the charges and dipoles of a chunk of slots; the virial that turns with the dipoles."""
    sizes, g, values, _, _, order, _, bricks, _, fractions, places, _, _ = mesh
    plane, line, n = sizes[PLANE], 16 * sizes[BRICKS_Z], charges.shape[0]
    out = sums[chunk]
    if flags[ENERGY]:
        out[:] = 0.0
    w, y, z = np.empty((3, 3, _POINTS)), np.empty(_POINTS, np.int64), np.empty(_POINTS, np.int64)
    for at in range(chunk * n // chunks, (chunk + 1) * n // chunks):
        i = order[at]
        for a in range(3):
            _weights(values, fractions[a, at], a, w)
        _points(places[1, at], line, y, z)
        px = py = pz = xx = xy = xz = yy = yz = zz = 0.0
        for k in range(_POINTS):
            of = places[0, at] + k * plane
            s0 = sy = sz = syy = syz = szz = 0.0
            for j in range(_POINTS):
                r0 = r1 = r2 = 0.0
                for m in range(_POINTS):
                    v = bricks[of + y[j] + z[m]]
                    r0, r1, r2 = r0 + w[2, 0, m] * v, r1 + w[2, 1, m] * v, r2 + w[2, 2, m] * v
                s0, sy, syy = s0 + w[1, 0, j] * r0, sy + w[1, 1, j] * r0, syy + w[1, 2, j] * r0
                sz, syz, szz = sz + w[1, 0, j] * r1, syz + w[1, 1, j] * r1, szz + w[1, 0, j] * r2
            px, py, pz = px + w[0, 1, k] * s0, py + w[0, 0, k] * sy, pz + w[0, 0, k] * sz
            xx, xy, xz = xx + w[0, 2, k] * s0, xy + w[0, 1, k] * sy, xz + w[0, 1, k] * sz
            yy, yz, zz = yy + w[0, 0, k] * syy, yz + w[0, 0, k] * syz, zz + w[0, 0, k] * szz
        q, mx, my, mz = charges[i], dipoles[i, 0], dipoles[i, 1], dipoles[i, 2]
        u = (mx * g[0] + my * g[1] + mz * g[2]) * g[6]
        v, t = (my * g[3] + mz * g[4]) * g[7], mz * g[5] * g[8]
        forces[i, 0], forces[i, 1], forces[i, 2] = _turned(
            -(q * px + u * xx + v * xy + t * xz),
            -(q * py + u * xy + v * yy + t * yz),
            -(q * pz + u * xz + v * yz + t * zz),
            g,
        )
        if flags[ENERGY]:
            slope = _turned(px, py, pz, g)
            for a in range(3):
                for b in range(3):
                    out[1 + 3 * a + b] += slope[a] * dipoles[i, b]


@device
def _turned(x, y, z, g):
    """Derivatives by the position from those by mesh coordinates."""
    x, y, z = x * g[6], y * g[7], z * g[8]
    return x * g[0], x * g[1] + y * g[3], x * g[2] + y * g[4] + z * g[5]


@kernel(nogil=True)
def add_field(chunk, starts, slots, field, dipoles, own, total):
    """Add the field that `gather` has found for unit charges, and a dipole's own one, to `total` [n, 3]."""
    for i in range(starts[chunk], starts[chunk + 1]):
        at = 4 * np.int64(slots[i])
        for a in range(3):
            total[i, a] += field[at + a] + own * dipoles[i, a]
