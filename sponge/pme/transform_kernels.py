"""From the mesh of charges to the mesh of potentials: planes, lines along x with the influence function, planes."""

from __future__ import annotations

from collections import namedtuple
from typing import Final

import numpy as np

from triskele.core.extend import device, fft, give_slot, kernel, simd, take_slot

from ..engine.flags import ENERGY
from .mesh_kernels import BRICKS_Y, BRICKS_Z, NX, NY, NZ, PLANE, POINTS

__all__ = ["Planes", "backward", "forward", "influence", "solve"]

# words of a `Layout`'s sizes
_BLOCKS: Final = 3
_TILES: Final = 4
_SPECTRUM: Final = 5
_ROW: Final = 6

_NEGLIGIBLE: Final = 46.0  # exp(-46) = 1e-20

_LOW_HALVES = (0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29)
_HIGH_HALVES = (2, 6, 10, 14, 18, 22, 26, 30, 3, 7, 11, 15, 19, 23, 27, 31)
_FIRST = (0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
_SECOND = (8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31)


@device
def _four_rows(a, b, c, d):
    """Four bricks side by side in y, lanes (y, z), as four rows: lanes y, one for each z."""
    p, q, r, s = (
        simd.shuffle2(a, b, _LOW_HALVES),
        simd.shuffle2(a, b, _HIGH_HALVES),
        simd.shuffle2(c, d, _LOW_HALVES),
        simd.shuffle2(c, d, _HIGH_HALVES),
    )
    return (
        simd.shuffle2(p, r, _FIRST),
        simd.shuffle2(p, r, _SECOND),
        simd.shuffle2(q, s, _FIRST),
        simd.shuffle2(q, s, _SECOND),
    )


@device
def _four_bricks(a, b, c, d):
    """The opposite of `_four_rows`."""
    p, q, r, s = (
        simd.shuffle2(a, b, (0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)),
        simd.shuffle2(a, b, (8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)),
        simd.shuffle2(c, d, (0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)),
        simd.shuffle2(c, d, (8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)),
    )
    return (
        simd.shuffle2(p, r, (0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23)),
        simd.shuffle2(p, r, (8, 9, 24, 25, 10, 11, 26, 27, 12, 13, 28, 29, 14, 15, 30, 31)),
        simd.shuffle2(q, s, (0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23)),
        simd.shuffle2(q, s, (8, 9, 24, 25, 10, 11, 26, 27, 12, 13, 28, 29, 14, 15, 30, 31)),
    )


# sizes of a `Layout`; the half spectrum; rows and scratch memory [slots, ...], the latter with locks; tables of y and z
Planes = namedtuple("Planes", "layout spectrum rows scratch y_table y_twiddles z_table z_twiddles")


@kernel(**fft.OUTER)
def forward(chunk, chunks, positions, charges, mesh, pieces, piece_starts, planes):
    """Transform the chunk's planes along z and y.

    pieces[piece_starts[x] : piece_starts[x + 1]] are the planes of the mesh, of several chunks of `spread`, whose sum
    is plane x.
    """
    sizes, geometry, values, _, _, _, starts, bricks, _, _, _, strays, n_strays = mesh
    layout, spectrum, rows, scratch, y_table, y_twiddles, z_table, z_twiddles = planes
    ny, nz, plane, line, row = sizes[NY], sizes[NZ], sizes[PLANE], fft.LANES * sizes[BRICKS_Z], layout[_ROW]
    slot = take_slot(scratch)
    r, s, m = (
        simd.address(rows, slot * rows.shape[1]),
        simd.address(scratch, slot * scratch.shape[1]),
        simd.address(bricks, 0),
    )
    for x in range(chunk * sizes[NX] // chunks, (chunk + 1) * sizes[NX] // chunks):
        for y in range(0, sizes[BRICKS_Y], 4):
            for z in range(sizes[BRICKS_Z]):
                at = y * line + z * fft.LANES
                p = simd.address(m, pieces[piece_starts[x]] * plane + at)
                a, b, c, d = (
                    simd.load(p, 0, 16),
                    simd.load(p, line, 16),
                    simd.load(p, 2 * line, 16),
                    simd.load(p, 3 * line, 16),
                )
                for k in range(piece_starts[x] + 1, piece_starts[x + 1]):
                    p = simd.address(m, pieces[k] * plane + at)
                    a, b, c, d = (
                        a + simd.load(p, 0, 16),
                        b + simd.load(p, line, 16),
                        c + simd.load(p, 2 * line, 16),
                        d + simd.load(p, 3 * line, 16),
                    )
                a, b, c, d = _four_rows(a, b, c, d)
                to = 4 * z * row + 4 * y
                simd.store(r, to, a)
                simd.store(r, to + row, b)
                simd.store(r, to + 2 * row, c)
                simd.store(r, to + 3 * row, d)
        _fold(r, ny, nz, row, sizes[POINTS] - 1, layout[_TILES])
        for k in range(n_strays.shape[0]):
            for i in range(starts[k], starts[k] + n_strays[k]):
                atom = strays[i]
                _add_stray(
                    x,
                    simd.address(positions, 3 * atom),
                    charges[atom],
                    simd.address(geometry, 0),
                    simd.address(values, 0),
                    simd.address(sizes, 0),
                    row,
                    r,
                )
        fft.plane_forward(
            r,
            s,
            simd.address(spectrum, x * layout[_SPECTRUM]),
            simd.address(layout, 0),
            simd.address(y_table, 0),
            simd.address(y_twiddles, 0),
            simd.address(z_table, 0),
            simd.address(z_twiddles, 0),
        )
    give_slot(scratch, slot)


@device
def _fold(r, ny, nz, row, beyond, tiles):
    """Add the `beyond` points after the period of the rows at `r` to the first ones, and clear what is after the
    period.
    """
    lane, zero = simd.iota(16), fft.zeros_like(r)
    for z in range(nz + beyond):
        after = simd.select(simd.low(lane) < beyond, simd.load(r, z * row + ny, 8), 0.0)
        simd.store(r, z * row, simd.load(r, z * row, 8) + after)
    for z in range(beyond):
        for y in range(0, ny, 16):
            simd.store(r, z * row + y, simd.load(r, z * row + y, 16) + simd.load(r, (z + nz) * row + y, 16))
    full = ny & -16
    for z in range(nz):
        if full < ny:
            simd.store(r, z * row + full, simd.select(lane < ny - full, simd.load(r, z * row + full, 16), 0.0))
        for y in range((ny + 15) & -16, 2 * fft.LANES * tiles, 16):
            simd.store(r, z * row + y, zero)


@device
def _add_stray(plane, position, charge, geometry, values, sizes, row, rows):
    """Spread one atom over one plane; arrays are pointers."""
    points, nx = simd.load_scalar(sizes, POINTS), simd.load_scalar(sizes, NX)
    x, y, z = simd.load_scalar(position, 0), simd.load_scalar(position, 1), simd.load_scalar(position, 2)
    g = geometry
    ix, fx = _place(x * simd.load_scalar(g, 0) + y * simd.load_scalar(g, 1) + z * simd.load_scalar(g, 2), nx)
    k = plane - ix
    if k < 0:
        k += nx
    if k >= points:
        return
    ny, nz = simd.load_scalar(sizes, NY), simd.load_scalar(sizes, NZ)
    iy, fy = _place(y * simd.load_scalar(g, 3) + z * simd.load_scalar(g, 4), ny)
    iz, fz = _place(z * simd.load_scalar(g, 5), nz)
    wx = charge * _weight(values, points, k, fx)
    for j in range(points):
        wy = wx * _weight(values, points, j, fy)
        to = simd.address(rows, iy + j - (ny if iy + j >= ny else 0))
        for i in range(points):
            at = (iz + i - (nz if iz + i >= nz else 0)) * row
            v = simd.load(to, at, 1)
            simd.store(to, at, v + wy * _weight(values, points, i, fz))


@device
def _place(s, n):
    """Grid point and fraction of a fractional coordinate."""
    u = (s - np.floor(s)) * n
    i = max(min(np.int64(u), n - 1), 0)  # NaN gives the lowest integer
    return i, u - i


@device
def _weight(values, points, k, fraction):
    w = np.float64(simd.load_scalar(values, 8 * k + points - 1))
    for j in range(points - 2, -1, -1):
        w = w * fraction + simd.load_scalar(values, 8 * k + j)
    return w


@kernel(**fft.OUTER)
def solve(chunk, chunks, layout, spectrum, scratch, green, virial, inverse, twice, table, twiddles, rows, flags):
    """Along x: fft.transform, multiply by the influence function, fft.transform back; energy and virial into
    rows[chunk].

    green, virial [lines, nx, 16]: influence function (half of it) and its part of the virial; twice [blocks * 16]:
    how often a frequency along z stands in the whole spectrum.
    """
    nx, ny, step = layout[NX], layout[NY], layout[_SPECTRUM]
    lines, size = ny * layout[_BLOCKS], nx * fft.LANES
    slot = take_slot(scratch)
    s = simd.address(scratch, slot * scratch.shape[1])
    line, work = s, simd.address(s, 2 * size)
    wide = layout[7]  # 2 * fft.LANES
    t, w = simd.address(table, 0), simd.address(twiddles, 0)
    if flags[ENERGY]:
        rows[chunk, :] = 0.0
    for k in range(chunk * lines // chunks, (chunk + 1) * lines // chunks):
        of = simd.address(spectrum, k * wide)
        fft.transform(of, simd.address(of, fft.LANES), step, work, line, simd.address(line, fft.LANES), wide, t, w)
        if flags[ENERGY]:
            _energy(line, k, nx, ny, green, virial, inverse, twice, chunk, rows)
        g = simd.address(green, k * size)
        for x in range(nx):
            f = simd.load(g, x * fft.LANES, 16)
            simd.store(line, x * wide, f * simd.load(line, x * wide, 16))
            simd.store(line, x * wide + fft.LANES, f * simd.load(line, x * wide + fft.LANES, 16))
        fft.transform(simd.address(line, fft.LANES), line, wide, work, simd.address(of, fft.LANES), of, step, t, w)
    give_slot(scratch, slot)


@device
def _vector(kx, ky, kz, inverse):
    """Reciprocal vector of frequencies, kz a vector."""
    return (
        inverse[0, 0] * kx + inverse[0, 1] * ky + inverse[0, 2] * kz,
        inverse[1, 0] * kx + inverse[1, 1] * ky + inverse[1, 2] * kz,
        inverse[2, 0] * kx + inverse[2, 1] * ky + inverse[2, 2] * kz,
    )


@device
def _signed(k, n):
    return np.float64(k if k < (n + 1) // 2 else k - n)


@device
def _energy(line, k, nx, ny, green, virial, inverse, twice, chunk, rows):
    """Add energy and virial of a line of the spectrum to rows[chunk]; `line` holds twice its values."""
    block, ky = k // ny, _signed(k % ny, ny)
    kz = simd.convert(simd.iota(16), np.float64) + fft.LANES * block
    zero = simd.splat(0.0, 16)
    energy, xx, xy, xz, yy, yz, zz = zero, zero, zero, zero, zero, zero, zero
    weight = simd.load(twice, block * fft.LANES, 16) * 0.25
    for x in range(nx):
        at = (k * nx + x) * fft.LANES
        re = simd.convert(simd.load(line, x * 2 * fft.LANES, 16), np.float64)
        im = simd.convert(simd.load(line, x * 2 * fft.LANES + fft.LANES, 16), np.float64)
        power = weight * (re * re + im * im)
        energy = energy + power * simd.convert(simd.load(green, at, 16), np.float64)
        v = power * simd.convert(simd.load(virial, at, 16), np.float64)
        mx, my, mz = _vector(_signed(x, nx), ky, kz, inverse)
        xx, xy, xz = xx + v * mx * mx, xy + v * mx * my, xz + v * mx * mz
        yy, yz, zz = yy + v * my * my, yz + v * my * mz, zz + v * mz * mz
    e, vxy, vxz, vyz = simd.sum(energy), simd.sum(xy), simd.sum(xz), simd.sum(yz)
    rows[chunk, 0] += e
    rows[chunk, 1] += e + simd.sum(xx)
    rows[chunk, 5] += e + simd.sum(yy)
    rows[chunk, 9] += e + simd.sum(zz)
    for a, b, v in ((2, 4, vxy), (3, 7, vxz), (6, 8, vyz)):
        rows[chunk, a] += v
        rows[chunk, b] += v


@kernel(**fft.OUTER)
def backward(chunk, chunks, mesh, planes):
    """Transform the chunk's planes back along y and z into bricks, with copies of what lies beyond the period."""
    layout, spectrum, rows, scratch, y_table, y_twiddles, z_table, z_twiddles = planes
    sizes, bricks = mesh.sizes, mesh.bricks
    nx, ny, nz, plane = sizes[NX], sizes[NY], sizes[NZ], sizes[PLANE]
    line, row = fft.LANES * sizes[BRICKS_Z], layout[_ROW]
    slot = take_slot(scratch)
    r, s = simd.address(rows, slot * rows.shape[1]), simd.address(scratch, slot * scratch.shape[1])
    for x in range(chunk * nx // chunks, (chunk + 1) * nx // chunks):
        fft.plane_backward(
            simd.address(spectrum, x * layout[_SPECTRUM]),
            s,
            r,
            simd.address(layout, 0),
            simd.address(y_table, 0),
            simd.address(y_twiddles, 0),
            simd.address(z_table, 0),
            simd.address(z_twiddles, 0),
        )
        for z in range(nz):
            simd.store(r, z * row + ny, simd.load(r, z * row, 8))
            simd.store(r, z * row + ny + 8, simd.load(r, z * row + 8, 4))
        for z in range(nz, 4 * sizes[BRICKS_Z]):
            for y in range(0, row, 16):
                simd.store(r, z * row + y, simd.load(r, (z - nz) * row + y, 16))
        for y in range(0, sizes[BRICKS_Y], 4):
            for z in range(sizes[BRICKS_Z]):
                of = 4 * z * row + 4 * y
                a, b, c, d = _four_bricks(
                    simd.load(r, of, 16),
                    simd.load(r, of + row, 16),
                    simd.load(r, of + 2 * row, 16),
                    simd.load(r, of + 3 * row, 16),
                )
                for copy in range(x, nx + sizes[POINTS] - 1, nx):
                    p = simd.address(bricks, copy * plane + y * line + z * fft.LANES)
                    simd.store(p, 0, a)
                    simd.store(p, line, b)
                    simd.store(p, 2 * line, c)
                    simd.store(p, 3 * line, d)
    give_slot(scratch, slot)


@kernel(**fft.OUTER)
def influence(chunk, chunks, dispersion, alpha, scale, layout, inverse, moduli_x, moduli_y, moduli_z, green, virial):
    """Half the influence function over the moduli [n] (their inverses; 0 where there is no such frequency), and its
    virial.

    The virial of a frequency is energy (1 + v m m), m its vector and v = d ln f / d ln m / m^2 for the function f(m).
    """
    nx, ny = layout[NX], layout[NY]
    lines = ny * layout[_BLOCKS]
    b_per_m, zero = np.pi / alpha, simd.splat(0.0, 16)
    for k in range(chunk * lines // chunks, (chunk + 1) * lines // chunks):
        block, ky = k // ny, _signed(k % ny, ny)
        kz = simd.convert(simd.iota(16), np.float64) + fft.LANES * block
        by = simd.load(moduli_z, block * fft.LANES, 16) * (0.5 * scale * moduli_y[k % ny])
        for x in range(nx):
            mx, my, mz = _vector(_signed(x, nx), ky, kz, inverse)
            square = mx * mx + my * my + mz * mz
            origin = square == 0.0
            safe = simd.select(origin, 1.0, square)
            b2 = safe * (b_per_m * b_per_m)
            decay = simd.exp(-b2)
            if dispersion:
                b = simd.sqrt(b2)
                tail = simd.erfc(b) * b2 * np.sqrt(np.pi)
                f, slope = 2.0 * tail * b + (1.0 - 2.0 * b2) * decay, b * (6.0 * tail - 6.0 * b * decay) / safe
                f, slope = simd.select(origin, 1.0, f), simd.select(origin, zero, slope)
            else:
                f = simd.select(origin, zero, decay / safe)
                slope = f * (-2.0 - 2.0 * b2) / safe
            # what does not count in float64 is zero: in float32 it would be subnormal, and all that it meets slow
            f, slope = simd.select(b2 > _NEGLIGIBLE, zero, f), simd.select(b2 > _NEGLIGIBLE, zero, slope)
            factor = by * moduli_x[x]
            at = (k * nx + x) * fft.LANES
            simd.store(green, at, simd.convert(f * factor, green.dtype))
            simd.store(virial, at, simd.convert(slope * factor, green.dtype))
