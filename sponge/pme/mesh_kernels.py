"""Charges to the mesh and potentials from it, with B-splines.

The mesh is kept in bricks: 4 x 4 points in y and z make one vector of 16 lanes (a cache line in float32). The 5 x 5
points of a spline of order 5 always lie in 2 x 2 bricks, so that an atom touches 4 aligned vectors in each of 5 planes.
A plane has points beyond its period, which `transform_kernels` folds back (charges) or fills (potentials).

Atoms are handled 16 at a time up to their weights, then one by one. Each chunk of `spread` owns some planes, and the
planes about them that its atoms reach, in memory of its own; which atoms it has is decided by `sort` now and then. One
that has since gone farther than a plane is left to the transform (`strays`), so that the result is right at any time.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from triskele.core.kernels import simd
from triskele.core.kernels.fft_passes import transpose
from triskele.core.kernels.njit import device, kernel, template

__all__ = ["add_forces", "gather", "sort", "spread"]

# words of `sizes` (int64)
NX: Final = 0
NY: Final = 1
NZ: Final = 2
ORDER: Final = 3
BRICKS_Y: Final = 4
BRICKS_Z: Final = 5
PLANE: Final = 6  # elements of a plane of bricks
N_SIZES: Final = 8

# words of `slabs` (int64), four for each chunk of `spread`
FIRST: Final = 0  # plane that its memory begins with
WIDTH: Final = 1  # planes in its memory
AT: Final = 2  # where its memory begins in the mesh, in planes
OWN: Final = 3  # planes whose atoms it has
N_SLAB: Final = 4

# elements of the scratch of a chunk
_X: Final = 256  # after 16 rows to be transposed: weights along x, [order, 16]
_DX: Final = 352  # their derivatives
_YZ: Final = 464  # for each atom 32 elements: at 0 the weights along y, at 9 those along z, with zeros about them
_DYZ: Final = 992  # their derivatives
SCRATCH: Final = 1536

_ROWS4 = (0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3)
_COLUMNS_LOW = (0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3)
_COLUMNS_HIGH = (4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7)
_EVEN = (0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30)
_ODD = (1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31)
_PAIRS_EVEN = (0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)
_PAIRS_ODD = (2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)


@device
def _wrapped(s, n):
    """Mesh coordinate in [0, n] of the fractional coordinate `s`, and its floor in 0 ... n - 1; for NaN n - 1."""
    u = (s - simd.floor(s)) * n
    return u, simd.maximum(simd.minimum(simd.floor(u), n - 1.0), simd.splat(0.0, 16))


@device
def coordinates(positions, geometry, atoms):
    """Mesh coordinates of 16 atoms, with their floors, each three float64 vectors; arrays are pointers."""
    i, g = atoms * 3, geometry
    x, y, z = simd.gather(positions, i), simd.gather(positions, i + 1), simd.gather(positions, i + 2)
    ux, bx = _wrapped(x * simd.load_splat(g, 0, 16) + y * simd.load_splat(g, 1, 16) + z * simd.load_splat(g, 2, 16),
                      simd.load_splat(g, 6, 16))
    uy, by = _wrapped(y * simd.load_splat(g, 3, 16) + z * simd.load_splat(g, 4, 16), simd.load_splat(g, 7, 16))
    uz, bz = _wrapped(z * simd.load_splat(g, 5, 16), simd.load_splat(g, 8, 16))
    return ux, uy, uz, bx, by, bz


@device
def _weights(fx, fy, fz, splines, order, x, rows):
    """Weights along x at `x`; those along y and z into rows 0 ... and 9 ... of the 16 rows. All arrays are pointers."""
    for k in range(order):
        top = simd.load_splat(splines, 8 * k + order - 1, 16)
        ax, ay, az = top, top, top
        for j in range(order - 1):
            c = simd.load_splat(splines, 8 * k + order - 2 - j, 16)
            ax, ay, az = simd.fma(ax, fx, c), simd.fma(ay, fy, c), simd.fma(az, fz, c)
        simd.store(x, 16 * k, ax)
        simd.store(rows, 16 * k, ay)
        simd.store(rows, 16 * (k + 9), az)


@kernel(nogil=True)
def sort(chunk, positions, geometry, sizes, slabs, builds, seen, keys, counts, order, starts):
    """Order the atoms by plane and column of bricks, and share them among the chunks of `spread`, after each rebuild.

    `builds` [1] counts the rebuilds of the neighbour list; `seen` [1] is its value at the last sorting.
    """
    if seen[0] == builds[0]:
        return
    seen[0] = builds[0]
    n, nx, columns = positions.shape[0], sizes[NX], sizes[BRICKS_Y]
    g0, g1, g2, g3, g4 = geometry[0], geometry[1], geometry[2], geometry[3], geometry[4]
    counts[:] = 0
    for i in range(n):
        x, y, z = positions[i, 0], positions[i, 1], positions[i, 2]
        u, v = x * g0 + y * g1 + z * g2, y * g3 + z * g4
        u, v = (u - np.floor(u)) * geometry[6], (v - np.floor(v)) * geometry[7]
        if not (u < nx and v < sizes[NY]):  # NaN, or rounded up
            u, v = 0.0, 0.0
        key = np.int64(u) * columns + (np.int64(v) >> 2)
        keys[i] = key
        counts[key + 1] += 1
    for k in range(nx * columns):
        counts[k + 1] += counts[k]
    plane = 0
    for c in range(slabs.shape[0]):  # the planes that a chunk owns end where the next one's begin
        starts[c] = counts[plane * columns]
        plane += slabs[c, OWN]
    starts[slabs.shape[0]] = n
    for i in range(n):
        at = counts[keys[i]]
        counts[keys[i]] = at + 1
        order[at] = i


@kernel(nogil=True)
def spread(chunk, positions, charges, geometry, splines, sizes, slabs, order, starts, mesh, scratch, marks, strays, n_strays):
    """Spread the charges of the chunk's atoms over its planes.

    charges and mesh have the mesh's dtype; marks int32 [chunks, 48] is scratch; strays int64 [n] receives from
    starts[chunk] on the atoms out of reach, n_strays their number.
    """
    points, plane, line, wide = sizes[ORDER], sizes[PLANE], 16 * sizes[BRICKS_Z], slabs[chunk, WIDTH]
    bricks = simd.address(mesh, slabs[chunk, AT] * plane)
    zero = simd.splat(mesh.dtype.type(0), 16)
    for k in range(0, wide * plane, 16):
        simd.store(bricks, k, zero)
    s, mark = simd.address(scratch, chunk * SCRATCH), simd.address(marks, 48 * chunk)
    x, yz = simd.address(s, _X), simd.address(s, _YZ)
    q, r, table, g, sorted_atoms = (simd.address(charges, 0), simd.address(positions, 0), simd.address(splines, 0),
                                    simd.address(geometry, 0), simd.address(order, 0))
    low, last, nx = np.int32(slabs[chunk, FIRST]), np.int32(wide - points), np.int32(sizes[NX])
    first, count, end = starts[chunk], np.int64(0), starts[chunk + 1]
    for at in range(first, end, 16):
        ux, uy, uz, bx, by, bz = coordinates(r, g, simd.load(sorted_atoms, at, 16))
        _weights(simd.convert(ux - bx, mesh.dtype), simd.convert(uy - by, mesh.dtype), simd.convert(uz - bz, mesh.dtype),
                 table, points, x, s)
        transpose(s, 16 + 0 * at, yz, 32 + 0 * at)
        ix, iy, iz = simd.convert(bx, np.int32) - low, simd.convert(by, np.int32), simd.convert(bz, np.int32)
        ix = simd.select(ix < 0, ix + nx, ix)
        base = ix * np.int32(plane) + (iy >> 2) * np.int32(line) + (iz >> 2) * 16
        simd.store(mark, 0, simd.select(ix > last, -1, base))
        simd.store(mark, 16, iy & 3)
        simd.store(mark, 32, iz & 3)
        for a in range(min(16, end - at)):
            atom, to = np.int64(simd.load_scalar(sorted_atoms, at + a)), np.int64(simd.load_scalar(mark, a))
            if to < 0:
                strays[first + count] = atom
                count += 1
            else:
                _add_atom(simd.address(bricks, to), plane, line, simd.address(x, a), simd.load_scalar(q, atom),
                          simd.address(yz, 32 * a - simd.load_scalar(mark, a + 16)),
                          simd.address(yz, 32 * a + 9 - simd.load_scalar(mark, a + 32)), points)
    n_strays[chunk] = count


@template
def _add_atom(bricks, plane, line, x, charge, y, z, points):
    """Add charge * x[k] * y * z to the bricks of `points` planes."""
    y8 = simd.load(y, 0, 8)
    y0, y1 = simd.shuffle(y8, _COLUMNS_LOW) * charge, simd.shuffle(y8, _COLUMNS_HIGH) * charge
    z0, z1 = simd.shuffle(simd.load(z, 0, 4), _ROWS4), simd.shuffle(simd.load(z, 4, 4), _ROWS4)
    w00, w01, w10, w11 = y0 * z0, y0 * z1, y1 * z0, y1 * z1
    for k in range(points):
        w, p = simd.load_splat(x, 16 * k, 16), simd.address(bricks, k * plane)
        simd.store(p, 0, simd.fma(w, w00, simd.load(p, 0, 16)))
        simd.store(p, 16, simd.fma(w, w01, simd.load(p, 16, 16)))
        simd.store(p, line, simd.fma(w, w10, simd.load(p, line, 16)))
        simd.store(p, line + 16, simd.fma(w, w11, simd.load(p, line + 16, 16)))


@kernel(nogil=True)
def gather(chunk, chunks, positions, charges, geometry, splines, slopes, sizes, order, mesh, scratch, marks, field):
    """Force and potential at the chunk's share of the atoms: field [n, 4] of the mesh's dtype, in kJ/mol/nm and kJ/mol/e."""
    points, plane, line = sizes[ORDER], sizes[PLANE], 16 * sizes[BRICKS_Z]
    s, mark = simd.address(scratch, chunk * SCRATCH), simd.address(marks, 48 * chunk)
    x, dx, yz, dyz = simd.address(s, _X), simd.address(s, _DX), simd.address(s, _YZ), simd.address(s, _DYZ)
    q, r, table, d_table, g, sorted_atoms, bricks, out = (
        simd.address(charges, 0), simd.address(positions, 0), simd.address(splines, 0), simd.address(slopes, 0),
        simd.address(geometry, 0), simd.address(order, 0), simd.address(mesh, 0), simd.address(field, 0))
    # rows that take (dE/du_x, dE/du_y, dE/du_z) to (force, 0)
    to_x, to_y, to_z = (simd.convert(simd.load(g, 12, 4), mesh.dtype), simd.convert(simd.load(g, 16, 4), mesh.dtype),
                        simd.convert(simd.load(g, 20, 4), mesh.dtype))
    n = positions.shape[0]
    first, end = 16 * (chunk * ((n + 15) // 16) // chunks), min(n, 16 * ((chunk + 1) * ((n + 15) // 16) // chunks))
    for at in range(first, end, 16):
        ux, uy, uz, bx, by, bz = coordinates(r, g, simd.load(sorted_atoms, at, 16))
        fx, fy, fz = (simd.convert(ux - bx, mesh.dtype), simd.convert(uy - by, mesh.dtype), simd.convert(uz - bz, mesh.dtype))
        _weights(fx, fy, fz, table, points, x, s)
        transpose(s, 16 + 0 * at, yz, 32 + 0 * at)
        _weights(fx, fy, fz, d_table, points, dx, s)
        transpose(s, 16 + 0 * at, dyz, 32 + 0 * at)
        ix, iy, iz = simd.convert(bx, np.int32), simd.convert(by, np.int32), simd.convert(bz, np.int32)
        simd.store(mark, 0, ix * np.int32(plane) + (iy >> 2) * np.int32(line) + (iz >> 2) * 16)
        simd.store(mark, 16, iy & 3)
        simd.store(mark, 32, iz & 3)
        for a in range(min(16, end - at)):
            atom = np.int64(simd.load_scalar(sorted_atoms, at + a))
            y, z = 32 * a - simd.load_scalar(mark, a + 16), 32 * a + 9 - simd.load_scalar(mark, a + 32)
            v = _at_atom(simd.address(bricks, np.int64(simd.load_scalar(mark, a))), plane, line, simd.address(x, a),
                         simd.address(dx, a), simd.address(yz, y), simd.address(dyz, y), simd.address(yz, z),
                         simd.address(dyz, z), points)
            force = (simd.shuffle(v, (0, 0, 0, 0)) * to_x + simd.shuffle(v, (1, 1, 1, 1)) * to_y
                     + simd.shuffle(v, (2, 2, 2, 2)) * to_z)
            force = force * simd.load_scalar(q, atom)
            simd.store(out, 4 * atom, simd.shuffle2(force, v, (0, 1, 2, 7)))


@template
def _at_atom(bricks, plane, line, x, dx, y, dy, z, dz, points):
    """The three derivatives of the potential, and the potential."""
    zero = simd.load(bricks, 0, 16)
    zero = zero - zero
    a00, a01, a10, a11, d00, d01, d10, d11 = zero, zero, zero, zero, zero, zero, zero, zero
    for k in range(points):
        w, dw, p = simd.load_splat(x, 16 * k, 16), simd.load_splat(dx, 16 * k, 16), simd.address(bricks, k * plane)
        b00, b01, b10, b11 = simd.load(p, 0, 16), simd.load(p, 16, 16), simd.load(p, line, 16), simd.load(p, line + 16, 16)
        a00, a01, a10, a11 = simd.fma(w, b00, a00), simd.fma(w, b01, a01), simd.fma(w, b10, a10), simd.fma(w, b11, a11)
        d00, d01, d10, d11 = simd.fma(dw, b00, d00), simd.fma(dw, b01, d01), simd.fma(dw, b10, d10), simd.fma(dw, b11, d11)
    z0, z1 = simd.shuffle(simd.load(z, 0, 4), _ROWS4), simd.shuffle(simd.load(z, 4, 4), _ROWS4)
    s0, s1 = simd.shuffle(simd.load(dz, 0, 4), _ROWS4), simd.shuffle(simd.load(dz, 4, 4), _ROWS4)
    y8, t8 = simd.load(y, 0, 8), simd.load(dy, 0, 8)
    y0, y1 = simd.shuffle(y8, _COLUMNS_LOW), simd.shuffle(y8, _COLUMNS_HIGH)
    t0, t1 = simd.shuffle(t8, _COLUMNS_LOW), simd.shuffle(t8, _COLUMNS_HIGH)
    low, high = a00 * z0 + a01 * z1, a10 * z0 + a11 * z1
    value, along_y = y0 * low + y1 * high, t0 * low + t1 * high
    along_z = y0 * (a00 * s0 + a01 * s1) + y1 * (a10 * s0 + a11 * s1)
    along_x = y0 * (d00 * z0 + d01 * z1) + y1 * (d10 * z0 + d11 * z1)
    # the sums of four vectors' lanes
    u = simd.shuffle2(along_x, along_y, _EVEN) + simd.shuffle2(along_x, along_y, _ODD)
    v = simd.shuffle2(along_z, value, _EVEN) + simd.shuffle2(along_z, value, _ODD)
    w = simd.shuffle2(u, v, _PAIRS_EVEN) + simd.shuffle2(u, v, _PAIRS_ODD)
    w = simd.low(w) + simd.high(w)
    return simd.low(w) + simd.high(w)


@kernel(nogil=True)
def add_forces(chunk, starts, field, forces):
    for i in range(starts[chunk], starts[chunk + 1]):
        for a in range(3):
            forces[i, a] += np.float64(field[4 * i + a])
