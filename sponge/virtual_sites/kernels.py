"""Compiled forms of `virtual_sites`: placing sites, and handing their forces on to the parents."""

from __future__ import annotations

import math

from triskele.core.extend import device, kernel

__all__ = ["AVERAGE", "FRAME", "OUT_OF_PLANE", "place_sites", "spread_forces"]

AVERAGE, OUT_OF_PLANE, FRAME = 0, 1, 2


@device
def _cross(a, b):
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@device
def _difference(positions, i, j):
    return positions[i, 0] - positions[j, 0], positions[i, 1] - positions[j, 1], positions[i, 2] - positions[j, 2]


@device
def _dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@device
def _weighted(positions, parents, weights, column, first, last):
    x, y, z = 0.0, 0.0, 0.0
    for k in range(first, last):
        w, i = weights[k, column], parents[k]
        x += w * positions[i, 0]
        y += w * positions[i, 1]
        z += w * positions[i, 2]
    return x, y, z


@device
def _frame(positions, parents, weights, first, last):
    """The two directions of a frame before and after normalization, and the third axis with the length of X x Y."""
    u, v = (
        _weighted(positions, parents, weights, 1, first, last),
        _weighted(positions, parents, weights, 2, first, last),
    )
    w = _cross(u, v)
    a, b = 1 / math.sqrt(_dot(u, u)), 1 / math.sqrt(_dot(w, w))
    return u, v, (u[0] * a, u[1] * a, u[2] * a), (w[0] * b, w[1] * b, w[2] * b), a, b


@kernel(nogil=True)
def place_sites(chunk, starts, kinds, sites, ranges, parents, weights, local, positions):
    # starts [chunks + 1] of sites; kinds int8 [m]; sites int32 [m]; ranges [m + 1] of parents; parents int32, weights
    # [., 3] (origin, x, y); local [m, 3]: coordinates in the frame, or w12, w13, wc
    for s in range(starts[chunk], starts[chunk + 1]):
        first, last, site, p = ranges[s], ranges[s + 1], sites[s], local[s]
        if kinds[s] == OUT_OF_PLANE:
            i, j, k = parents[first], parents[first + 1], parents[first + 2]
            d12, d13 = _difference(positions, j, i), _difference(positions, k, i)
            c = _cross(d12, d13)
            for a in range(3):
                positions[site, a] = positions[i, a] + p[0] * d12[a] + p[1] * d13[a] + p[2] * c[a]
            continue
        o = _weighted(positions, parents, weights, 0, first, last)
        if kinds[s] == FRAME:
            _, _, x, z, _, _ = _frame(positions, parents, weights, first, last)
            y = _cross(z, x)
            o = (
                o[0] + p[0] * x[0] + p[1] * y[0] + p[2] * z[0],
                o[1] + p[0] * x[1] + p[1] * y[1] + p[2] * z[1],
                o[2] + p[0] * x[2] + p[1] * y[2] + p[2] * z[2],
            )
        for a in range(3):
            positions[site, a] = o[a]


@device
def _give(forces, positions, rows, chunk, i, f):
    for a in range(3):
        forces[i, a] += f[a]
        for b in range(3):
            rows[chunk, 1 + 3 * a + b] += f[a] * positions[i, b]


@kernel(nogil=True)
def spread_forces(chunk, starts, kinds, sites, ranges, parents, weights, local, positions, forces, rows):
    # rows [chunks, 10]: what the virial gains when forces act on the parents instead of the sites
    for a in range(10):
        rows[chunk, a] = 0.0
    for s in range(starts[chunk], starts[chunk + 1]):
        first, last, site, p = ranges[s], ranges[s + 1], sites[s], local[s]
        f = (forces[site, 0], forces[site, 1], forces[site, 2])
        if kinds[s] == AVERAGE:
            for k in range(first, last):
                w, i = weights[k, 0], parents[k]
                for a in range(3):
                    forces[i, a] += w * f[a]
        else:
            for a in range(3):
                for b in range(3):
                    rows[chunk, 1 + 3 * a + b] -= f[a] * positions[site, b]
            if kinds[s] == OUT_OF_PLANE:
                i, j, k = parents[first], parents[first + 1], parents[first + 2]
                d12, d13 = _difference(positions, j, i), _difference(positions, k, i)
                c2, c3 = _cross(d13, f), _cross(f, d12)
                f2 = (p[0] * f[0] + p[2] * c2[0], p[0] * f[1] + p[2] * c2[1], p[0] * f[2] + p[2] * c2[2])
                f3 = (p[1] * f[0] + p[2] * c3[0], p[1] * f[1] + p[2] * c3[1], p[1] * f[2] + p[2] * c3[2])
                _give(forces, positions, rows, chunk, j, f2)
                _give(forces, positions, rows, chunk, k, f3)
                _give(
                    forces,
                    positions,
                    rows,
                    chunk,
                    i,
                    (f[0] - f2[0] - f3[0], f[1] - f2[1] - f3[1], f[2] - f2[2] - f3[2]),
                )
            else:
                # reverse mode through r = o + p1 x + p2 z x x + p3 z, x = u/|u|, z = w/|w|, w = u x v
                u, v, x, z, a1, b1 = _frame(positions, parents, weights, first, last)
                fz, xf = _cross(f, z), _cross(x, f)
                gx = (p[0] * f[0] + p[1] * fz[0], p[0] * f[1] + p[1] * fz[1], p[0] * f[2] + p[1] * fz[2])
                gz = (p[2] * f[0] + p[1] * xf[0], p[2] * f[1] + p[1] * xf[1], p[2] * f[2] + p[1] * xf[2])
                xx, zz = _dot(x, gx), _dot(z, gz)
                gw = ((gz[0] - z[0] * zz) * b1, (gz[1] - z[1] * zz) * b1, (gz[2] - z[2] * zz) * b1)
                vg, gv = _cross(v, gw), _cross(gw, u)
                gu = (
                    (gx[0] - x[0] * xx) * a1 + vg[0],
                    (gx[1] - x[1] * xx) * a1 + vg[1],
                    (gx[2] - x[2] * xx) * a1 + vg[2],
                )
                for k in range(first, last):
                    o, wx, wy = weights[k, 0], weights[k, 1], weights[k, 2]
                    _give(
                        forces,
                        positions,
                        rows,
                        chunk,
                        parents[k],
                        (
                            o * f[0] + wx * gu[0] + wy * gv[0],
                            o * f[1] + wx * gu[1] + wy * gv[1],
                            o * f[2] + wx * gu[2] + wy * gv[2],
                        ),
                    )
        for a in range(3):
            forces[site, a] = 0.0
