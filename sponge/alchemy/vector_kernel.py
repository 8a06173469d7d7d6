"""Forces between marked atoms and those around them, eight marked atoms at a time: Lennard-Jones with an Ewald sum."""

from __future__ import annotations

from triskele.core.extend import device, kernel, simd

from ..engine.flags import ENERGY
from ..potentials.bonded.term_kernels import add_virial, dot, image8, inverse_root, nothing8, open_box
from .kernels import BEUTLER, CORE, CUTOFF2, GEOMETRIC, STATES, SWITCH, WIDTH
from .soft_core import SCALE, SOFT

__all__ = ["LANES", "environment8"]

LANES = 8


@device
def _beutler(r2, size2, soft):
    """Energy over 4 epsilon and lambda^a, and its derivative by r^2, with an exponent of 6."""
    six, r4 = size2 * size2 * size2, r2 * r2
    d = simd.splat(1.0, LANES) / simd.fma(six, simd.splat(soft, LANES), r4 * r2)
    x = six * d
    return x * (x - 1.0), -3.0 * ((2.0 * x - 1.0) * (x * r4 * d))


@device
def _gapsys(r2, size2, soft):
    """Energy over 4 epsilon and lambda, and its derivative by r^2."""
    near = simd.maximum(r2, soft * soft * size2)
    inv_r, inv_near = inverse_root(r2), inverse_root(near)
    h = r2 * inv_r - near * inv_near
    ratio = size2 * inv_near * inv_near
    six = ratio * ratio * ratio
    slope = -6.0 * (six * (2.0 * six - 1.0)) * inv_near
    curvature = six * (156.0 * six - 42.0) * inv_near * inv_near
    return (simd.fma(h, simd.fma(0.5 * h, curvature, slope), six * (six - 1.0)),
            0.5 * (simd.fma(h, curvature, slope) * inv_r))


@device
def _switched(u, rise, r2, switch, width):
    r = r2 * inverse_root(r2)
    x = simd.maximum((r - switch) / simd.splat(width, LANES), simd.splat(0.0, LANES))
    factor = 1.0 - x * x * x * (10.0 - x * (15.0 - 6.0 * x))
    return factor * u, factor * rise - 15.0 / width * (x * x * ((1.0 - x) * (1.0 - x)) * inverse_root(r2)) * u


@kernel(nogil=True)
def environment8(chunk, chunks, positions, box, found, n_found, marked, courses, sizes, wells, packed, form, now,
                 forces, own_forces, rows, flags):
    """As `kernels.environment`, forces and energy alone.

    `packed` [chunks, 5 m] begins with room for the positions of the entries, followed by their sigmas and wells. All
    entries of a vector must be of one course; `own_forces` [chunks, 3 m] is laid out alike.
    """
    wanted = flags[ENERGY] != 0 or flags[STATES] != 0
    place, mine = packed[chunk], own_forces[chunk]
    m = len(mine) // 3
    mine[:] = 0.0
    for k in range(m):
        i = marked[k]
        place[k], place[m + k], place[2 * m + k] = positions[i, 0], positions[i, 1], positions[i, 2]
    cell = open_box(box)
    limit = simd.splat(form[CUTOFF2], LANES)
    switch, width = form[SWITCH], form[WIDTH]
    geometric, beutler = form[GEOMETRIC] != 0.0, form[CORE] == BEUTLER
    zero, energy, virial = nothing8()
    for e in range(chunk * n_found[0] // chunks, (chunk + 1) * n_found[0] // chunks):
        j = found[e]
        fx, fy, fz = zero, zero, zero
        if wells[j] != 0.0:
            size_j = sizes[j]
            for b in range(0, m, LANES):
                scale, soft = now[courses[b], SCALE], now[courses[b], SOFT]
                if scale == 0.0:
                    continue
                depth = scale * wells[j]
                x, y, z = image8(simd.load(place, b, LANES) - positions[j, 0],
                                 simd.load(place, m + b, LANES) - positions[j, 1],
                                 simd.load(place, 2 * m + b, LANES) - positions[j, 2], cell)
                r2 = dot(x, y, z, x, y, z)
                size = simd.load(place, 3 * m + b, LANES)
                size = size * size_j if geometric else size + size_j
                u, rise = _beutler(r2, size * size, soft) if beutler else _gapsys(r2, size * size, soft)
                if width != 0.0:
                    u, rise = _switched(u, rise, r2, switch, width)
                well = simd.select(r2 < limit, depth * simd.load(place, 4 * m + b, LANES), zero)
                f = -2.0 * (well * rise)
                gx, gy, gz = f * x, f * y, f * z
                simd.store(mine, b, simd.load(mine, b, LANES) + gx)
                simd.store(mine, m + b, simd.load(mine, m + b, LANES) + gy)
                simd.store(mine, 2 * m + b, simd.load(mine, 2 * m + b, LANES) + gz)
                fx, fy, fz = fx - gx, fy - gy, fz - gz
                if wanted:
                    energy = simd.fma(well, u, energy)
                    virial = add_virial(virial, gx, gy, gz, x, y, z)
        forces[e, 0], forces[e, 1], forces[e, 2] = simd.sum(fx), simd.sum(fy), simd.sum(fz)
    if wanted:
        xx, xy, xz, yy, yz, zz = virial
        for k, w in enumerate((energy, xx, xy, xz, xy, yy, yz, xz, yz, zz)):
            rows[chunk, k] = simd.sum(w)
