"""Kernels of `GB` with a cut-off: double precision, eight neighbors at a time from `NeighborRows`.

Rows hold both directions of each pair, so that a chunk writes to its own atoms alone. In stages: Born radii, and what
each atom contributes alone; energies of pairs, direct forces and derivatives by the integrals; forces through the
integrals.
"""

from __future__ import annotations

import numpy as np

from triskele.core.extend import kernel, simd, template

from ...engine.flags import ENERGY
from ...neighbors.rows import add_virial, eight
from ..pairs.dense import CHARGE, one
from .kernels import (
    BORN,
    BORN_BY_INTEGRAL,
    BY_BORN,
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
    integral_slopes,
    integrals,
    polarization,
    set_radius,
)


@template
def _differences(xs, row, k, i):
    """Vectors from entry `i` to eight of its row, and their squares."""
    x, y, z, _ = eight(xs, row, k)
    dx, dy, dz = x - xs[4 * i], y - xs[4 * i + 1], z - xs[4 * i + 2]
    return dx, dy, dz, dx * dx + dy * dy + dz * dz


@template
def _others(entries, row, k, near):
    """Atoms of eight entries of a row; that of entry 0 for those that are not near."""
    return simd.gather(entries, simd.select(near, simd.load(row, k, 8), 0))


@template
def _of(atoms, k, others):
    """Row `k` of the table of atoms, of eight atoms."""
    return simd.gather(atoms, others + np.int32(k * atoms.shape[1]))


@kernel(nogil=True)
def born_radii(chunk, chunks, n, cutoff, xs, entries, counts, rows, atoms, kinds, d0, m0, constants, sums, flags):
    energy, limit = 0.0, cutoff * cutoff
    t, neck = len(d0), constants[NECK]
    for i in range(chunk * n // chunks, (chunk + 1) * n // chunks):
        row, atom = rows[i], entries[i]
        rho, radius = one(atoms, RHO, atom), one(atoms, RADIUS, atom)
        total = simd.splat(0.0, 8)
        for k in range(0, counts[i], 8):
            _, _, _, r2 = _differences(xs, row, k, i)
            near = r2 < limit
            if simd.any(near):
                others, r2 = _others(entries, row, k, near), simd.select(near, r2, 1.0)
                rinv = simd.rsqrt_fast(r2, 2)
                reach = radius + _of(atoms, RADIUS, others) + constants[NECK_CUTOFF]
                value = integrals(
                    r2 * rinv,
                    rinv,
                    rho,
                    _of(atoms, SCREEN, others),
                    reach,
                    simd.gather(kinds, others) + kinds[atom] * t,
                    d0,
                    m0,
                    neck,
                )
                total = total + simd.select(near, value, 0.0)
        energy += set_radius(atoms, atom, simd.sum(total), constants)
    if flags[ENERGY] != 0:
        sums[chunk, 0] = energy


@kernel(nogil=True)
def pair_terms(chunk, chunks, n, cutoff, xs, entries, counts, rows, atoms, constants, forces, sums, flags):
    want, limit, out = flags[ENERGY] != 0, cutoff * cutoff, sums[chunks + chunk]
    out[:] = 0.0
    energy = simd.splat(0.0, 8)
    solute, solvent, kappa, shift = constants[SOLUTE], constants[SOLVENT], constants[KAPPA], constants[SHIFT]
    for i in range(chunk * n // chunks, (chunk + 1) * n // chunks):
        row, atom = rows[i], entries[i]
        charge, born = one(atoms, CHARGE, atom) * constants[COULOMB], one(atoms, BORN, atom)
        fx = simd.splat(0.0, 8)
        fy, fz, by = fx, fx, fx
        for k in range(0, counts[i], 8):
            dx, dy, dz, r2 = _differences(xs, row, k, i)
            near = r2 < limit
            if simd.any(near):
                others, r2 = _others(entries, row, k, near), simd.select(near, r2, 1.0)
                qq = charge * simd.select(near, _of(atoms, CHARGE, others), 0.0)
                e, slope, own, _ = polarization(r2, qq, born, _of(atoms, BORN, others), solute, solvent, kappa, shift)
                fx, fy, fz, by = fx + slope * dx, fy + slope * dy, fz + slope * dz, by + own
                if want:
                    energy = energy + 0.5 * e
                    add_virial(out, slope, dx, dy, dz)
        forces[atom, 0], forces[atom, 1], forces[atom, 2] = simd.sum(fx), simd.sum(fy), simd.sum(fz)
        atoms[BY_INTEGRAL, atom] = (atoms[BY_BORN, atom] + simd.sum(by)) * atoms[BORN_BY_INTEGRAL, atom]
    out[0] = simd.sum(energy)


@kernel(nogil=True)
def descreening_forces(
    chunk, chunks, n, cutoff, xs, entries, counts, rows, atoms, kinds, d0, m0, constants, forces, sums, flags
):
    want, limit, out = flags[ENERGY] != 0, cutoff * cutoff, sums[2 * chunks + chunk]
    out[:] = 0.0
    t, neck = len(d0), constants[NECK]
    for i in range(chunk * n // chunks, (chunk + 1) * n // chunks):
        row, atom = rows[i], entries[i]
        rho, screen, radius = one(atoms, RHO, atom), one(atoms, SCREEN, atom), one(atoms, RADIUS, atom)
        by = one(atoms, BY_INTEGRAL, atom)
        fx = simd.splat(0.0, 8)
        fy, fz = fx, fx
        for k in range(0, counts[i], 8):
            dx, dy, dz, r2 = _differences(xs, row, k, i)
            near = r2 < limit
            if simd.any(near):
                others, r2 = _others(entries, row, k, near), simd.select(near, r2, 1.0)
                rinv, kind = simd.rsqrt_fast(r2, 2), simd.gather(kinds, others)
                slope = integral_slopes(
                    r2 * rinv,
                    rinv,
                    by,
                    rho,
                    screen,
                    _of(atoms, BY_INTEGRAL, others),
                    _of(atoms, RHO, others),
                    _of(atoms, SCREEN, others),
                    radius + _of(atoms, RADIUS, others) + constants[NECK_CUTOFF],
                    kind + kinds[atom] * t,
                    kind * t + kinds[atom],
                    d0,
                    m0,
                    neck,
                )
                slope = simd.select(near, slope * rinv, 0.0)
                fx, fy, fz = fx + slope * dx, fy + slope * dy, fz + slope * dz
                if want:
                    add_virial(out, slope, dx, dy, dz)
        forces[atom, 0] += simd.sum(fx)
        forces[atom, 1] += simd.sum(fy)
        forces[atom, 2] += simd.sum(fz)
