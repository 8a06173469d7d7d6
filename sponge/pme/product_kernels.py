"""Kernels of the Hessian-vector product of a mesh energy: charges and their tangents to the mesh, and back."""

from __future__ import annotations

import numpy as np

from triskele.core.extend import device, kernel

__all__ = ["gather_product", "spread_with_tangent"]


@device
def _splines(f, table, order, w):
    """Values, slopes and curvatures w [3, order] of the splines at the fraction `f`; table [order, 8] by power."""
    for k in range(order):
        value, slope, curvature = 0.0, 0.0, 0.0
        for power in range(order - 1, -1, -1):
            curvature = curvature * f + 2 * slope
            slope = slope * f + value
            value = value * f + table[k, power]
        w[0, k], w[1, k], w[2, k] = value, slope, curvature


@device
def _place(u, n):
    """Grid point and fraction of the fractional coordinate `u`."""
    u = (u - np.floor(u)) * n
    first = min(int(u), n - 1)
    return first, u - first


@device
def _weights(fractional, i, table, shape, first, w):
    for d in range(3):
        first[d], f = _place(fractional[i, d], shape[d])
        _splines(f, table, len(table), w[d])


@kernel(nogil=True)
def spread_with_tangent(fractional, moves, charges, changes, table, mesh, tangent):
    """Spread charges to `mesh`, and its derivative along `moves` (n, 3), in grid units, and `changes` of the charges
    to `tangent`.
    """
    shape, order = np.array(mesh.shape), len(table)
    first, w = np.zeros(3, np.int64), np.zeros((3, 3, order))
    for i in range(len(fractional)):
        if charges[i] == 0.0 and changes[i] == 0.0:
            continue
        _weights(fractional, i, table, shape, first, w)
        for kx in range(order):
            ix = (first[0] + kx) % shape[0]
            px = charges[i] * w[0, 0, kx]
            tx = charges[i] * w[0, 1, kx] * moves[i, 0] + changes[i] * w[0, 0, kx]
            for ky in range(order):
                iy = (first[1] + ky) % shape[1]
                p, t = px * w[1, 0, ky], tx * w[1, 0, ky] + px * w[1, 1, ky] * moves[i, 1]
                tz = p * moves[i, 2]
                for kz in range(order):
                    iz = (first[2] + kz) % shape[2]
                    mesh[ix, iy, iz] += p * w[2, 0, kz]
                    tangent[ix, iy, iz] += t * w[2, 0, kz] + tz * w[2, 1, kz]


@kernel(nogil=True)
def gather_product(fractional, moves, charges, changes, table, field, tangent, out, potentials):
    """Derivatives along `moves` and `changes` of the gradient by grid coordinates, from the potential on the mesh and
    its derivative; in `potentials` (2, n), if there is room, those at the atoms.
    """
    shape, order = np.array(field.shape), len(table)
    first, w = np.zeros(3, np.int64), np.zeros((3, 3, order))
    for i in range(len(fractional)):
        if charges[i] == 0.0 and potentials.shape[1] == 0:
            continue
        _weights(fractional, i, table, shape, first, w)
        gx, gy, gz = 0.0, 0.0, 0.0
        fx, fy, fz, value, change = 0.0, 0.0, 0.0, 0.0, 0.0  # slopes and value of the potential, derivative of it
        mx, my, mz = moves[i, 0], moves[i, 1], moves[i, 2]
        for kx in range(order):
            ix = (first[0] + kx) % shape[0]
            x0, x1, x2 = w[0, 0, kx], w[0, 1, kx], w[0, 2, kx]
            for ky in range(order):
                iy = (first[1] + ky) % shape[1]
                y0, y1, y2 = w[1, 0, ky], w[1, 1, ky], w[1, 2, ky]
                p, q, s = 0.0, 0.0, 0.0  # sums along z of field times value, slope, curvature
                t, u = 0.0, 0.0  # of the tangent times value and slope
                for kz in range(order):
                    iz = (first[2] + kz) % shape[2]
                    phi, d = field[ix, iy, iz], tangent[ix, iy, iz]
                    z0, z1 = w[2, 0, kz], w[2, 1, kz]
                    p, q, s = p + phi * z0, q + phi * z1, s + phi * w[2, 2, kz]
                    t, u = t + d * z0, u + d * z1
                gx += x1 * y0 * t + x2 * y0 * p * mx + x1 * y1 * p * my + x1 * y0 * q * mz
                gy += x0 * y1 * t + x1 * y1 * p * mx + x0 * y2 * p * my + x0 * y1 * q * mz
                gz += x0 * y0 * u + x1 * y0 * q * mx + x0 * y1 * q * my + x0 * y0 * s * mz
                fx, fy, fz = fx + x1 * y0 * p, fy + x0 * y1 * p, fz + x0 * y0 * q
                value, change = value + x0 * y0 * p, change + x0 * y0 * t
        out[i, 0] = charges[i] * gx + changes[i] * fx
        out[i, 1] = charges[i] * gy + changes[i] * fy
        out[i, 2] = charges[i] * gz + changes[i] * fz
        if potentials.shape[1]:
            potentials[0, i], potentials[1, i] = value, change + fx * mx + fy * my + fz * mz
