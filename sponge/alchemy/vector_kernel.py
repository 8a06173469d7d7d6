"""Forces between marked atoms and those around them, eight marked atoms at a time: Lennard-Jones with an Ewald sum."""

from __future__ import annotations

from triskele.core.extend import simd, template

from ..engine.flags import ENERGY
from ..potentials.bonded.term_kernels import add_virial, dot, image8, nothing8, open_box
from .kernels import CUTOFF, CUTOFF2, GEOMETRIC, STATES, SWITCH
from .soft_core import SCALE, SOFT

__all__ = ["LANES", "environment8"]

LANES = 8


@template
def environment8(
    chunk,
    chunks,
    positions,
    box,
    found,
    n_found,
    marked,
    courses,
    sizes,
    wells,
    packed,
    form,
    now,
    forces,
    own_forces,
    rows,
    flags,
    softened,
):
    """As `kernels.environment`, forces and energy alone; `softened` has the switch, if there is one.

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
    switch, cutoff = simd.splat(form[SWITCH], LANES), simd.splat(form[CUTOFF], LANES)
    geometric = form[GEOMETRIC] != 0.0
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
                x, y, z = image8(
                    simd.load(place, b, LANES) - positions[j, 0],
                    simd.load(place, m + b, LANES) - positions[j, 1],
                    simd.load(place, 2 * m + b, LANES) - positions[j, 2],
                    cell,
                )
                r2 = dot(x, y, z, x, y, z)
                size = simd.load(place, 3 * m + b, LANES)
                size = size * size_j if geometric else size + size_j
                u, rise = softened(r2, size * size, simd.splat(soft, LANES), switch, cutoff)
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
