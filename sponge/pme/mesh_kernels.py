"""Charges to the mesh and potentials from it, with B-splines.

The mesh is kept in bricks: 4 x 4 points in y and z make one vector of 16 lanes (a cache line in float32). The 5 x 5
points of a spline of order 5 always lie in 2 x 2 bricks, so that an atom touches 4 aligned vectors in each of 5 planes.
Those of order 6 lie in 3 x 3 bricks; order 4 is treated as order 5 with a weight of zero. A plane has points beyond its
period, which `transform_kernels` folds back (charges) or fills (potentials).

Weights are polynomials of an atom's place between grid points. Along x they are evaluated for 16 atoms at once; along y
and z for one atom in the lanes of a vector, from coefficients that are shifted to its place within the brick.

Each chunk of `spread` owns some planes, and the planes about them that its atoms reach, in memory of its own; which
atoms it has is decided by `sort` now and then. One that has since gone farther than a plane is left to the transform
(`strays`), so that the result is right at any time.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Final

import numpy as np

from triskele.core.extend import device, fft, kernel, simd, template

from ..units import COULOMB

__all__ = [
    "Mesh",
    "add_forces",
    "add_slopes",
    "gather",
    "gather_wide",
    "sort",
    "spread",
    "spread_dipoles",
    "spread_wide",
    "take_charges",
]

# words of `sizes` (int64)
NX: Final = 0
NY: Final = 1
NZ: Final = 2
POINTS: Final = 3  # that an atom reaches along each axis
BRICKS_Y: Final = 4
BRICKS_Z: Final = 5
PLANE: Final = 6  # elements of a plane of bricks

# words of `slabs` (int64 [chunks, N_SLAB])
FIRST: Final = 0  # plane that a chunk's memory begins with
WIDTH: Final = 1  # planes in its memory
AT: Final = 2  # where its memory begins in the mesh, in planes
OWN: Final = 3  # planes whose atoms it has
N_SLAB: Final = 4

TABLE: Final = 48  # in arrays of coefficients: [6, 8] by point and power, then rows of 16 lanes
SCRATCH: Final = 512  # elements for each chunk: weights along x [6, 16], their slopes, results [16, 16]
_SLOPES: Final = 96
_RESULTS: Final = 192

# What the kernels of a mesh take together: words above; from positions to the mesh and back; coefficients of the
# splines; slabs; atom of each slot (int32), and the first slot of each chunk; bricks, of charges or of potentials, and
# scratch memory, of the same dtype; by slot fractions [3, n + 16] of that dtype and places int32 [2, n + 16], where
# `spread` finds the atoms, for `gather`; strays int32 [n], from the first slot of a chunk on the atoms out of its
# reach, and their number
Mesh = namedtuple("Mesh", ["sizes", "geometry", "values", "slopes", "slabs", "order", "starts", "bricks", "scratch",
                           "fractions", "places", "strays", "n_strays"])  # fmt: skip

_LOW_Y = (0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3)
_HIGH_Y = (4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7)
_TOP_Y = (8, 8, 8, 8, 9, 9, 9, 9, 10, 10, 10, 10, 11, 11, 11, 11)
_LOW_Z = (0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3)
_HIGH_Z = (4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7)
_TOP_Z = (8, 9, 10, 11, 8, 9, 10, 11, 8, 9, 10, 11, 8, 9, 10, 11)
_PAST_Z = (12, 13, 14, 15, 12, 13, 14, 15, 12, 13, 14, 15, 12, 13, 14, 15)
_EVEN = (0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30)
_ODD = (1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31)
_PAIRS_EVEN = (0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)
_PAIRS_ODD = (2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)
_FOURS_EVEN = (0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27)
_FOURS_ODD = (4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31)
_EIGHTS_EVEN = (0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
_EIGHTS_ODD = (8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31)


@kernel(**fft.OUTER)
def sort(chunk, positions, mesh, owners, builds, seen, keys, counts, slots):
    """Order the atoms by chunk of `spread`, row of bricks and plane, after each rebuild: what a row needs fits in L1.

    owners [nx, 2]: first plane and number of planes of the chunk that has a plane. `builds` [1] counts the rebuilds of
    the neighbor list; `seen` [1] is its value at the last sorting. slots [n] int32 is the
    opposite of the mesh's order.
    """
    if seen[0] == builds[0] and builds[0] >= 0:
        return
    seen[0] = builds[0]
    geometry, sizes, slabs, order, starts = mesh.geometry, mesh.sizes, mesh.slabs, mesh.order, mesh.starts
    n, nx, columns = positions.shape[0], sizes[NX], sizes[BRICKS_Y]
    g0, g1, g2, g3, g4 = geometry[0], geometry[1], geometry[2], geometry[3], geometry[4]
    counts[:] = 0
    for i in range(n):
        x, y, z = positions[i, 0], positions[i, 1], positions[i, 2]
        u, v = x * g0 + y * g1 + z * g2, y * g3 + z * g4
        u, v = (u - np.floor(u)) * geometry[6], (v - np.floor(v)) * geometry[7]
        if not (u < nx and v < sizes[NY]):  # NaN, or rounded up
            u, v = 0.0, 0.0
        plane = np.int64(u)
        first, own = owners[plane, 0], owners[plane, 1]
        key = first * columns + (np.int64(v) >> 2) * own + plane - first
        keys[i] = key
        counts[key + 1] += 1
    for k in range(nx * columns):
        counts[k + 1] += counts[k]
    plane = 0
    for c in range(slabs.shape[0]):
        starts[c] = counts[plane * columns]
        plane += slabs[c, OWN]
    starts[slabs.shape[0]] = n
    for i in range(n):
        at = counts[keys[i]]
        counts[keys[i]] = at + 1
        order[at] = i
        slots[i] = at


@device
def _wrapped(s, n):
    """Mesh coordinate in [0, n] of the fractional coordinate `s`, and its floor in 0 ... n - 1; for NaN n - 1."""
    u = (s - simd.floor(s)) * n
    return u, simd.maximum(simd.minimum(simd.floor(u), n - 1.0), simd.splat(0.0, 16))


@template
def _along_x(f, coefficients, points, powers, x):
    """Weights (or slopes) of 16 atoms along x, [points, 16] at `x`; arrays are pointers."""
    for k in range(points):
        w = simd.load_splat(coefficients, 8 * k + powers - 1, 16)
        for j in range(powers - 1):
            w = simd.fma(w, f, simd.load_splat(coefficients, 8 * k + powers - 2 - j, 16))
        simd.store(x, 16 * k, w)


@template
def _polynomial(f, coefficients, powers):
    """Polynomials with rows of coefficients, the highest power first."""
    w = simd.load(coefficients, 0, 16)
    for j in range(1, powers):
        w = simd.fma(w, f, simd.load(coefficients, 16 * j, 16))
    return w


# --------------------------------------------------------------------------------------------------------------- spread
@template
def _spread(add_atom, points, per_place, chunk, positions, charges, mesh):
    sizes, geometry, values, _, slabs, order, starts, elements, scratch, fractions, places, strays, n_strays = mesh
    plane, line, wide, dtype = sizes[PLANE], 16 * sizes[BRICKS_Z], slabs[chunk, WIDTH], elements.dtype
    shift = slabs[chunk, FIRST] * plane
    bricks, rows, cleared = simd.address(elements, slabs[chunk, AT] * plane), sizes[BRICKS_Y], np.int64(0)
    zero = simd.splat(dtype.type(0), 16)
    q, r, table, g, atoms = (
        simd.address(charges, 0),
        simd.address(positions, 0),
        simd.address(values, 0),
        simd.address(geometry, 0),
        simd.address(order, 0),
    )
    x, n = simd.address(scratch, chunk * SCRATCH), fractions.shape[1]
    fy, fz = simd.address(fractions, n), simd.address(fractions, 2 * n)
    to, shape, reach = simd.address(places, 0), simd.address(places, n), (wide - points) * plane
    first, count, end = starts[chunk], np.int64(0), starts[chunk + 1]
    for at in range(first, end, 16):
        i = simd.load(atoms, at, 16)
        rx, ry, rz = simd.gather(r, i * 3), simd.gather(r, i * 3 + 1), simd.gather(r, i * 3 + 2)
        ux, bx = _wrapped(
            rx * simd.load_splat(g, 0, 16) + ry * simd.load_splat(g, 1, 16) + rz * simd.load_splat(g, 2, 16),
            simd.load_splat(g, 6, 16),
        )
        uy, by = _wrapped(ry * simd.load_splat(g, 3, 16) + rz * simd.load_splat(g, 4, 16), simd.load_splat(g, 7, 16))
        uz, bz = _wrapped(rz * simd.load_splat(g, 5, 16), simd.load_splat(g, 8, 16))
        fx = simd.convert(ux - bx, dtype)
        simd.store(fractions, at, fx)
        simd.store(fy, at, simd.convert(uy - by, dtype))
        simd.store(fz, at, simd.convert(uz - bz, dtype))
        ix, iy, iz = simd.convert(bx, np.int32), simd.convert(by, np.int32), simd.convert(bz, np.int32)
        # rows of bricks are cleared when they are first reached, and so are in the cache
        cleared = _clear(
            bricks, cleared, min(rows, (np.int64(simd.max(iy)) >> 2) + (points + 6) // 4), wide, plane, line, zero
        )
        # atoms beyond `end` are the next chunk's, which writes the same
        simd.store(to, at, ix * np.int32(plane) + (iy >> 2) * np.int32(line) + (iz >> 2) * 16)
        simd.store(shape, at, (((iy & 3) << 2) + (iz & 3)) * np.int32(per_place))
        _along_x(fx, table, points, points, x)
        charge = simd.gather(q, i)
        for k in range(points):
            simd.store(x, 16 * k, simd.load(x, 16 * k, 16) * charge)
        for a in range(min(16, end - at)):
            place = np.int64(simd.load_scalar(to, at + a)) - shift
            if place < 0:
                place += sizes[NX] * plane
            if place >= reach + plane:
                strays[first + count] = simd.load_scalar(atoms, at + a)
                count += 1
            else:
                add_atom(
                    simd.address(bricks, place),
                    plane,
                    line,
                    simd.address(x, a),
                    simd.load_splat(fy, at + a, 16),
                    simd.load_splat(fz, at + a, 16),
                    table,
                    np.int64(simd.load_scalar(shape, at + a)),
                )
    _clear(bricks, cleared, rows, wide, plane, line, zero)
    n_strays[chunk] = count


@device
def _clear(bricks, first, end, planes, plane, line, zero):
    """Clear the rows of bricks from `first` up to `end`, which is returned if it is greater."""
    if end <= first:
        return first
    for k in range(planes):
        for at in range(k * plane + first * line, k * plane + end * line, 16):
            simd.store(bricks, at, zero)
    return end


@template
def _add_narrow(bricks, plane, line, x, fy, fz, table, shape):
    """Add the products of the weights to 2 x 2 bricks of 5 planes; lanes 0-7 of a row are y, 8-15 z."""
    f = simd.select(simd.from_bits(np.uint64(0xFF), 16), fy, fz)
    w = _polynomial(f, simd.address(table, TABLE + shape), 5)
    y0, y1, z0, z1 = (
        simd.shuffle(w, _LOW_Y),
        simd.shuffle(w, _HIGH_Y),
        simd.shuffle(w, _TOP_Z),
        simd.shuffle(w, _PAST_Z),
    )
    w00, w01, w10, w11 = y0 * z0, y0 * z1, y1 * z0, y1 * z1
    for k in range(5):
        w, p = simd.load_splat(x, 16 * k, 16), simd.address(bricks, k * plane)
        simd.store(p, 0, simd.fma(w, w00, simd.load(p, 0, 16)))
        simd.store(p, 16, simd.fma(w, w01, simd.load(p, 16, 16)))
        simd.store(p, line, simd.fma(w, w10, simd.load(p, line, 16)))
        simd.store(p, line + 16, simd.fma(w, w11, simd.load(p, line + 16, 16)))


@template
def _add_wide(bricks, plane, line, x, fy, fz, table, shape):
    """The same for 3 x 3 bricks of 6 planes; a row has 12 lanes for one axis."""
    y = _polynomial(fy, simd.address(table, TABLE + (shape >> 2) * 96), 6)
    z = _polynomial(fz, simd.address(table, TABLE + (shape & 3) * 96), 6)
    z0, z1, z2 = simd.shuffle(z, _LOW_Z), simd.shuffle(z, _HIGH_Z), simd.shuffle(z, _TOP_Z)
    for k in range(6):
        w = simd.load_splat(x, 16 * k, 16)
        for b, v in enumerate((simd.shuffle(y, _LOW_Y), simd.shuffle(y, _HIGH_Y), simd.shuffle(y, _TOP_Y))):
            p = simd.address(bricks, k * plane + b * line)
            v = v * w
            simd.store(p, 0, simd.fma(v, z0, simd.load(p, 0, 16)))
            simd.store(p, 16, simd.fma(v, z1, simd.load(p, 16, 16)))
            simd.store(p, 32, simd.fma(v, z2, simd.load(p, 32, 16)))


@kernel(**fft.OUTER)
def spread(chunk, positions, charges, mesh):
    """Spread the charges of the chunk's atoms, in the mesh's dtype, over its planes, order up to 5."""
    _spread(_add_narrow, 5, 80, chunk, positions, charges, mesh)


@kernel(**fft.OUTER)
def spread_wide(chunk, positions, charges, mesh):
    """The same for order 6."""
    _spread(_add_wide, 6, 1, chunk, positions, charges, mesh)


@kernel(**fft.OUTER)
def spread_dipoles(chunk, charges, dipoles, mesh):
    """Spread charges and point dipoles [n, 3] of the chunk's atoms, at the positions for which `spread` ran before.

    All in float64, for order 5.
    """
    sizes, g, values, slopes, slabs, order, starts, elements, _, fractions, places, _, _ = mesh
    plane, line, wide = sizes[PLANE], 16 * sizes[BRICKS_Z], slabs[chunk, WIDTH]
    shift, reach, n = slabs[chunk, FIRST] * plane, (wide - 5) * plane, fractions.shape[1]
    bricks = simd.address(elements, slabs[chunk, AT] * plane)
    _clear(bricks, np.int64(0), np.int64(sizes[BRICKS_Y]), wide, plane, line, simd.splat(0.0, 16))
    fy, fz = simd.address(fractions, n), simd.address(fractions, 2 * n)
    table, d_table = simd.address(values, 0), simd.address(slopes, 0)
    for at in range(starts[chunk], starts[chunk + 1]):
        place, shape, i, f = np.int64(places[0, at]) - shift, np.int64(places[1, at]), order[at], fractions[0, at]
        if place < 0:
            place += sizes[NX] * plane
        if place >= reach + plane:  # where no atom is, but one whose position is NaN
            continue
        q, mx, my, mz = charges[i], dipoles[i, 0], dipoles[i, 1], dipoles[i, 2]
        u = (mx * g[0] + my * g[1] + mz * g[2]) * g[6]
        v, t = simd.splat((my * g[3] + mz * g[4]) * g[7], 16), simd.splat(mz * g[5] * g[8], 16)
        across = simd.select(
            simd.from_bits(np.uint64(0xFF), 16), simd.load_splat(fy, at, 16), simd.load_splat(fz, at, 16)
        )
        w = _polynomial(across, simd.address(table, TABLE + shape), 5)
        y0, y1 = simd.shuffle(w, _LOW_Y), simd.shuffle(w, _HIGH_Y)
        z0, z1 = simd.shuffle(w, _TOP_Z), simd.shuffle(w, _PAST_Z)
        w = _polynomial(across, simd.address(d_table, TABLE + shape), 4)
        t0, t1 = v * simd.shuffle(w, _LOW_Y), v * simd.shuffle(w, _HIGH_Y)
        s0, s1 = t * simd.shuffle(w, _TOP_Z), t * simd.shuffle(w, _PAST_Z)
        w00, w01, w10, w11 = y0 * z0, y0 * z1, y1 * z0, y1 * z1
        d00, d01, d10, d11 = t0 * z0 + y0 * s0, t0 * z1 + y0 * s1, t1 * z0 + y1 * s0, t1 * z1 + y1 * s1
        for k in range(5):
            weight, slope = values[8 * k + 4], slopes[8 * k + 3]
            for j in range(3, -1, -1):
                weight = weight * f + values[8 * k + j]
            for j in range(2, -1, -1):
                slope = slope * f + slopes[8 * k + j]
            a, b = simd.splat(q * weight + u * slope, 16), simd.splat(weight, 16)
            p = simd.address(bricks, place + k * plane)
            simd.store(p, 0, simd.load(p, 0, 16) + (a * w00 + b * d00))
            simd.store(p, 16, simd.load(p, 16, 16) + (a * w01 + b * d01))
            simd.store(p, line, simd.load(p, line, 16) + (a * w10 + b * d10))
            simd.store(p, line + 16, simd.load(p, line + 16, 16) + (a * w11 + b * d11))


# --------------------------------------------------------------------------------------------------------------- gather
@template
def _gather(at_atom, points, chunk, chunks, charges, mesh, field):
    sizes, geometry, values, slopes, _, order, _, elements, scratch, fractions, places, _, _ = mesh
    plane, line, dtype = sizes[PLANE], 16 * sizes[BRICKS_Z], elements.dtype
    q, g, bricks, atoms = (
        simd.address(charges, 0),
        simd.address(geometry, 0),
        simd.address(elements, 0),
        simd.address(order, 0),
    )
    table, d_table, x = simd.address(values, 0), simd.address(slopes, 0), simd.address(scratch, chunk * SCRATCH)
    dx, results, n = simd.address(x, _SLOPES), simd.address(x, _RESULTS), fractions.shape[1]
    fy, fz = simd.address(fractions, n), simd.address(fractions, 2 * n)
    of, shape = simd.address(places, 0), simd.address(places, n)
    # rows that take (dE/du_x, dE/du_y, dE/du_z, potential) to (force / charge, 0)
    to_x, to_y, to_z = (
        simd.convert(simd.load(g, 16, 16), dtype),
        simd.convert(simd.load(g, 32, 16), dtype),
        simd.convert(simd.load(g, 48, 16), dtype),
    )
    is_force = simd.from_bits(np.uint64(0x7777), 16)
    blocks = (n - 1) // 16
    for block in range(chunk * blocks // chunks, (chunk + 1) * blocks // chunks):
        at = 16 * block
        fx = simd.load(fractions, at, 16)
        _along_x(fx, table, points, points, x)
        _along_x(fx, d_table, points, points - 1, dx)
        for a in range(16):
            p = simd.address(bricks, np.int64(simd.load_scalar(of, at + a)))
            v = at_atom(
                p,
                plane,
                line,
                simd.address(x, a),
                simd.address(dx, a),
                simd.load_splat(fy, at + a, 16),
                simd.load_splat(fz, at + a, 16),
                table,
                d_table,
                np.int64(simd.load_scalar(shape, at + a)),
            )
            simd.store(results, 16 * a, v)
        charge = simd.gather(q, simd.load(atoms, at, 16))
        simd.store(x, 0, charge)
        for a in range(0, 16, 4):
            p = simd.address(results, 16 * a)
            u, v = simd.load(p, 0, 16), simd.load(p, 16, 16)
            u = simd.shuffle2(u, v, _FOURS_EVEN) + simd.shuffle2(u, v, _FOURS_ODD)
            v, w = simd.load(p, 32, 16), simd.load(p, 48, 16)
            v = simd.shuffle2(v, w, _FOURS_EVEN) + simd.shuffle2(v, w, _FOURS_ODD)
            v = simd.shuffle2(u, v, _EIGHTS_EVEN) + simd.shuffle2(u, v, _EIGHTS_ODD)
            force = (
                simd.shuffle(v, (0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12)) * to_x
                + simd.shuffle(v, (1, 1, 1, 1, 5, 5, 5, 5, 9, 9, 9, 9, 13, 13, 13, 13)) * to_y
                + simd.shuffle(v, (2, 2, 2, 2, 6, 6, 6, 6, 10, 10, 10, 10, 14, 14, 14, 14)) * to_z
            )
            force = force * simd.shuffle(simd.load(x, a, 4), _LOW_Y)
            simd.store(field, 4 * (at + a), simd.select(is_force, force, v))


@template
def _sums(along_x, along_y, along_z, value):
    """Lanes 4 k ... 4 k + 3 of the result are partial sums of the four vectors, to be summed over k."""
    u = simd.shuffle2(along_x, along_y, _EVEN) + simd.shuffle2(along_x, along_y, _ODD)
    v = simd.shuffle2(along_z, value, _EVEN) + simd.shuffle2(along_z, value, _ODD)
    return simd.shuffle2(u, v, _PAIRS_EVEN) + simd.shuffle2(u, v, _PAIRS_ODD)


@template
def _at_narrow(bricks, plane, line, x, dx, fy, fz, table, d_table, shape):
    """Partial sums of the three derivatives of the potential by mesh coordinates, and of the potential."""
    w, dw = simd.load_splat(x, 0, 16), simd.load_splat(dx, 0, 16)
    b00, b01, b10, b11 = (
        simd.load(bricks, 0, 16),
        simd.load(bricks, 16, 16),
        simd.load(bricks, line, 16),
        simd.load(bricks, line + 16, 16),
    )
    a00, a01, a10, a11, d00, d01, d10, d11 = w * b00, w * b01, w * b10, w * b11, dw * b00, dw * b01, dw * b10, dw * b11
    for k in range(1, 5):
        w, dw, p = simd.load_splat(x, 16 * k, 16), simd.load_splat(dx, 16 * k, 16), simd.address(bricks, k * plane)
        b00, b01, b10, b11 = (
            simd.load(p, 0, 16),
            simd.load(p, 16, 16),
            simd.load(p, line, 16),
            simd.load(p, line + 16, 16),
        )
        a00, a01, a10, a11 = simd.fma(w, b00, a00), simd.fma(w, b01, a01), simd.fma(w, b10, a10), simd.fma(w, b11, a11)
        d00, d01, d10, d11 = (
            simd.fma(dw, b00, d00),
            simd.fma(dw, b01, d01),
            simd.fma(dw, b10, d10),
            simd.fma(dw, b11, d11),
        )
    f = simd.select(simd.from_bits(np.uint64(0xFF), 16), fy, fz)
    w = _polynomial(f, simd.address(table, TABLE + shape), 5)
    y0, y1, z0, z1 = (
        simd.shuffle(w, _LOW_Y),
        simd.shuffle(w, _HIGH_Y),
        simd.shuffle(w, _TOP_Z),
        simd.shuffle(w, _PAST_Z),
    )
    low, high, d_low, d_high = a00 * z0 + a01 * z1, a10 * z0 + a11 * z1, d00 * z0 + d01 * z1, d10 * z0 + d11 * z1
    w = _polynomial(f, simd.address(d_table, TABLE + shape), 4)
    t0, t1, s0, s1 = (
        simd.shuffle(w, _LOW_Y),
        simd.shuffle(w, _HIGH_Y),
        simd.shuffle(w, _TOP_Z),
        simd.shuffle(w, _PAST_Z),
    )
    return _sums(
        y0 * d_low + y1 * d_high,
        t0 * low + t1 * high,
        y0 * (a00 * s0 + a01 * s1) + y1 * (a10 * s0 + a11 * s1),
        y0 * low + y1 * high,
    )


@template
def _at_wide(bricks, plane, line, x, dx, fy, fz, table, d_table, shape):
    of_y, of_z = TABLE + (shape >> 2) * 96, TABLE + (shape & 3) * 96
    y, z = _polynomial(fy, simd.address(table, of_y), 6), _polynomial(fz, simd.address(table, of_z), 6)
    t, s = _polynomial(fy, simd.address(d_table, of_y), 5), _polynomial(fz, simd.address(d_table, of_z), 5)
    ys = simd.shuffle(y, _LOW_Y), simd.shuffle(y, _HIGH_Y), simd.shuffle(y, _TOP_Y)
    ts = simd.shuffle(t, _LOW_Y), simd.shuffle(t, _HIGH_Y), simd.shuffle(t, _TOP_Y)
    zs = simd.shuffle(z, _LOW_Z), simd.shuffle(z, _HIGH_Z), simd.shuffle(z, _TOP_Z)
    ss = simd.shuffle(s, _LOW_Z), simd.shuffle(s, _HIGH_Z), simd.shuffle(s, _TOP_Z)
    zero = y - y
    along_x, along_y, along_z, value = zero, zero, zero, zero
    for b in range(3):
        for c in range(3):
            sum_x, slope_x = zero, zero
            for k in range(6):
                v = simd.load(bricks, k * plane + b * line + 16 * c, 16)
                sum_x = simd.fma(simd.load_splat(x, 16 * k, 16), v, sum_x)
                slope_x = simd.fma(simd.load_splat(dx, 16 * k, 16), v, slope_x)
            along_x, along_z = simd.fma(ys[b] * zs[c], slope_x, along_x), simd.fma(ys[b] * ss[c], sum_x, along_z)
            along_y, value = simd.fma(ts[b] * zs[c], sum_x, along_y), simd.fma(ys[b] * zs[c], sum_x, value)
    return _sums(along_x, along_y, along_z, value)


@kernel(**fft.OUTER)
def gather(chunk, chunks, charges, mesh, field):
    """Force and potential at the chunk's share of the slots: field [(n + 16) * 4], kJ/mol/nm and kJ/mol/e; order up to
    5.
    """
    _gather(_at_narrow, 5, chunk, chunks, charges, mesh, field)


@kernel(**fft.OUTER)
def gather_wide(chunk, chunks, charges, mesh, field):
    """The same for order 6."""
    _gather(_at_wide, 6, chunk, chunks, charges, mesh, field)


@kernel(**fft.OUTER)
def add_forces(chunk, starts, slots, field, forces):
    for i in range(starts[chunk], starts[chunk + 1]):
        at = 4 * np.int64(slots[i])
        for a in range(3):
            forces[i, a] += np.float64(field[at + a])


# ------------------------------------------------------------------------------------------------------- moving charges
@kernel(nogil=True)
def take_charges(chunk, source, charges, exact, box, alpha, rows):
    """Take charges from `source`, and set their self energy and that of the neutralizing background: the last row."""
    total, squares = 0.0, 0.0
    for i in range(source.shape[0]):
        q = source[i]
        charges[i] = q
        exact[i] = q
        total += q
        squares += q * q
    volume = box[0, 0] * box[1, 1] * box[2, 2]
    background = -COULOMB * np.pi / (2 * alpha * alpha * volume) * total * total
    last = rows.shape[0] - 1
    rows[last, 0] = background - COULOMB * alpha / np.sqrt(np.pi) * squares
    for a in range(3):
        rows[last, 1 + 4 * a] = background


@kernel(nogil=True)
def add_slopes(chunk, starts, slots, field, charges, box, alpha, slopes):
    """Add the derivatives of the energy by the charges: the potential, and what self energy and background give."""
    total = 0.0
    for i in range(charges.shape[0]):
        total += charges[i]
    background = -np.pi / (alpha * alpha) * total / (box[0, 0] * box[1, 1] * box[2, 2])
    for i in range(starts[chunk], starts[chunk + 1]):
        slopes[i] += field[4 * slots[i] + 3] + COULOMB * (background - 2 * alpha / np.sqrt(np.pi) * charges[i])
