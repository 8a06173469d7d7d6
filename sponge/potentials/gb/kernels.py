"""Kernels of `GB` without cut-off: double precision, eight partners at a time, every atom with every other.

In stages: coordinates as rows (`pairs.dense`, which says how pairs are dealt out); Born radii, and what each atom
contributes alone (`born_radii`); energies of pairs, direct forces and derivatives by the radii (`pair_terms`);
derivatives by the integrals (`chain_radii`); forces through the integrals (`descreening_forces`). Padding has no charge
and no screening. The formulas of pairs and atoms are functions that `cut_kernels` uses too.
"""

from __future__ import annotations

import math

import numpy as np

from triskele.core.extend import device, kernel, simd

from ...engine.flags import ENERGY
from ..pairs.dense import CHARGE, X, Y, Z, add_one, clear_sums, eight, one, subtract_eight

# Rows of the table of atoms [ATOM_ROWS, padded] after X, Y, Z, CHARGE: parameters, results
RHO, SCREEN, RADIUS, ALPHA, BETA, GAMMA, INTEGRAL, BORN, BORN_BY_INTEGRAL, BY_BORN, BY_INTEGRAL = range(4, 15)
ATOM_ROWS = 15
# Constants: 1/dielectric inside and outside, ..., whether radii are rescaled, ..., 1/cut-off
SOLUTE, SOLVENT, KAPPA, TENSION, PROBE, NECK, NECK_CUTOFF, RESCALED, COULOMB, SHIFT = range(10)
N_CONSTANTS = 10
# Rows of a chunk's sums [chunks, SUM_ROWS, padded]: forces, derivatives by Born radii
BY = 3
SUM_ROWS = 4


@device(forceinline=True)
def _integral(r, rinv, rho, s):  # `gb.descreening`
    lower, up = simd.maximum(simd.abs(r - s), rho), simd.rcp_fast(r + s, 2)
    low = simd.rcp_fast(lower, 2)
    value = 0.5 * (low - up) + 0.125 * (r - s * s * rinv) * (up * up - low * low) + 0.25 * simd.log(lower * up) * rinv
    value = value + simd.select(s - r > rho, simd.rcp_fast(rho, 2) - low, 0.0)
    return simd.select(r + s > rho, value, 0.0)


@device(forceinline=True)
def _integral_slope(r, rinv, rho, s):  # by r; what comes through the bounds r + s and |r - s| cancels
    lower, up = simd.maximum(simd.abs(r - s), rho), simd.rcp_fast(r + s, 2)
    low = simd.rcp_fast(lower, 2)
    rinv2 = rinv * rinv
    slope = 0.125 * (1.0 + s * s * rinv2) * (up * up - low * low) - 0.25 * simd.log(lower * up) * rinv2
    return simd.select(r + s > rho, slope, 0.0)


@device(forceinline=True)
def _neck(r, d0, m0):
    x = (r - d0) * 10.0
    x2 = x * x
    return m0 * simd.rcp_fast(1.0 + x2 * (1.0 + 0.3 * x2 * x2), 2)


@device(forceinline=True)
def _neck_slope(r, d0, m0):
    x = (r - d0) * 10.0
    x2 = x * x
    inverse = simd.rcp_fast(1.0 + x2 * (1.0 + 0.3 * x2 * x2), 2)
    return -10.0 * m0 * x * (2.0 + 1.8 * x2 * x2) * inverse * inverse


@device(forceinline=True)
def integrals(r, rinv, rho, screen, reach, at, d0, m0, neck):
    """Integrals over spheres at distances `r`; those over necks (entries `at` of their tables) within `reach` too."""
    value = _integral(r, rinv, rho, screen)
    if neck != 0.0:
        near = r < reach
        if simd.any(near):
            value = value + simd.select(near, neck * _neck(r, simd.gather(d0, at), simd.gather(m0, at)), 0.0)
    return value


@device(forceinline=True)
def integral_slopes(r, rinv, by, rho, screen, by_j, rho_j, screen_j, reach, at, turned, d0, m0, neck):
    """Derivatives by `r` of the two integrals of pairs, by which the energy has the derivatives `by` and `by_j`."""
    slope = by * _integral_slope(r, rinv, rho, screen_j) + by_j * _integral_slope(r, rinv, rho_j, screen)
    if neck != 0.0:
        near = r < reach
        if simd.any(near):
            own = by * _neck_slope(r, simd.gather(d0, at), simd.gather(m0, at))
            other = by_j * _neck_slope(r, simd.gather(d0, turned), simd.gather(m0, turned))
            slope = slope + simd.select(near, neck * (own + other), 0.0)
    return slope


@device(forceinline=True)
def set_radius(atoms, i, integral, constants):
    """Set the Born radius of an atom and the derivatives that follow from it; returns the energy of the atom alone."""
    solute, outside, kappa = constants[SOLUTE], constants[SOLVENT], constants[KAPPA]
    rho = atoms[RHO, i]
    psi = integral * rho
    if constants[RESCALED] != 0.0:
        alpha, beta, gamma = atoms[ALPHA, i], atoms[BETA, i], atoms[GAMMA, i]
        tanh = math.tanh(psi * (alpha - psi * (beta - psi * gamma)))
        born = 1 / (1 / rho - tanh / atoms[RADIUS, i])
        by = born * born * (1 - tanh * tanh) / atoms[RADIUS, i] * rho * (alpha - psi * (2 * beta - 3 * psi * gamma))
    else:
        born = rho / (1 - psi)
        by = born * born
    atoms[INTEGRAL, i], atoms[BORN, i], atoms[BORN_BY_INTEGRAL, i] = integral, born, by
    if kappa != 0.0:
        outside *= math.exp(-kappa * born)
    own = -0.5 * constants[COULOMB] * atoms[CHARGE, i] ** 2 / born
    surface = atoms[RADIUS, i] / born
    surface = constants[TENSION] * (atoms[RADIUS, i] + constants[PROBE]) ** 2 * (surface * surface * surface) ** 2
    atoms[BY_BORN, i] = -own * ((solute - outside) / born - kappa * outside) - 6 * surface / born
    return own * (solute - outside) + surface


@device(forceinline=True)
def polarization(r2, qq, born, born_j, solute, solvent, kappa, shift):
    """Energies of pairs, their derivatives by r, over r, and by the two Born radii."""
    inverse, inverse_j, product = simd.rcp_fast(born, 2), simd.rcp_fast(born_j, 2), born * born_j
    spread = simd.exp(-(r2 * (0.25 * inverse * inverse_j)))
    finv = simd.rsqrt_fast(r2 + product * spread, 2)
    e = qq * (finv - shift)
    if kappa != 0.0:
        outside = solvent * simd.exp(-kappa * (r2 + product * spread) * finv)
        slope = qq * finv * (solute - outside) * finv - e * kappa * outside
        e = e * (outside - solute)
    else:
        slope = qq * finv * (solute - solvent) * finv
        e = e * (solvent - solute)
    slope = slope * finv  # dE/df / f
    through, reach = 0.5 * slope * spread, r2 * 0.25
    return e, slope * (1.0 - 0.25 * spread), through * (born_j + reach * inverse), through * (born + reach * inverse_j)


@kernel(nogil=True)
def born_radii(chunk, chunks, n, atoms, kinds, d0, m0, constants, rows, flags):  # kinds int64 [padded]; d0, m0 [t, t]
    energy = 0.0
    t, neck = len(d0), constants[NECK]
    for i in range(chunk, n, chunks):
        x, y, z = one(atoms, X, i), one(atoms, Y, i), one(atoms, Z, i)
        rho, radius = one(atoms, RHO, i), one(atoms, RADIUS, i)
        total = simd.splat(0.0, 8)
        for j in range(0, atoms.shape[1], 8):
            dx, dy, dz = x - eight(atoms, X, j), y - eight(atoms, Y, j), z - eight(atoms, Z, j)
            other = simd.iota(8) != np.int32(i - j)
            r2 = simd.select(other, dx * dx + dy * dy + dz * dz, 1.0)
            rinv = simd.rsqrt_fast(r2, 2)
            reach = radius + eight(atoms, RADIUS, j) + constants[NECK_CUTOFF]
            value = integrals(
                r2 * rinv,
                rinv,
                rho,
                eight(atoms, SCREEN, j),
                reach,
                simd.load(kinds, j, 8) + kinds[i] * t,
                d0,
                m0,
                neck,
            )
            total = total + simd.select(other, value, 0.0)
        energy += set_radius(atoms, i, simd.sum(total), constants)
    if flags[ENERGY] != 0:
        rows[chunk, 0] = energy


@kernel(nogil=True)
def pair_terms(chunk, chunks, n, atoms, constants, sums, rows, flags):
    padded, start = atoms.shape[1], clear_sums(sums, chunk)
    energy = simd.splat(0.0, 8)
    solute, solvent, kappa = constants[SOLUTE], constants[SOLVENT], constants[KAPPA]
    for i in range(chunk, n, chunks):
        x, y, z = one(atoms, X, i), one(atoms, Y, i), one(atoms, Z, i)
        charge, born = one(atoms, CHARGE, i) * constants[COULOMB], one(atoms, BORN, i)
        fx = simd.splat(0.0, 8)
        fy, fz, by = fx, fx, fx
        for j in range(i & -8, padded, 8):
            dx, dy, dz = x - eight(atoms, X, j), y - eight(atoms, Y, j), z - eight(atoms, Z, j)
            r2 = dx * dx + dy * dy + dz * dz
            qq = charge * simd.select(simd.iota(8) > np.int32(i - j), eight(atoms, CHARGE, j), 0.0)
            e, slope, own, other = polarization(r2, qq, born, eight(atoms, BORN, j), solute, solvent, kappa, 0.0)
            energy = energy + e
            gx, gy, gz = -slope * dx, -slope * dy, -slope * dz
            fx, fy, fz, by = fx + gx, fy + gy, fz + gz, by + own
            subtract_eight(sums, start + j, padded, gx, gy, gz)
            at = start + j + BY * padded
            simd.store(sums, at, simd.load(sums, at, 8) + other)
        add_one(sums, chunk, i, fx, fy, fz)
        sums[chunk, BY, i] += simd.sum(by)
    if flags[ENERGY] != 0:
        rows[chunk + chunks, 0] = simd.sum(energy)


@kernel(nogil=True)
def chain_radii(chunk, chunks, n, atoms, sums):
    padded = atoms.shape[1]
    first, last = padded * chunk // chunks, padded * (chunk + 1) // chunks
    for i in range(first, min(last, n)):
        by = atoms[BY_BORN, i]
        for c in range(len(sums)):
            by += sums[c, BY, i]
        atoms[BY_INTEGRAL, i] = by * atoms[BORN_BY_INTEGRAL, i]


@kernel(nogil=True)
def descreening_forces(chunk, chunks, n, atoms, kinds, d0, m0, constants, sums):
    padded = atoms.shape[1]
    t, neck = len(d0), constants[NECK]
    for i in range(chunk, n, chunks):
        x, y, z = one(atoms, X, i), one(atoms, Y, i), one(atoms, Z, i)
        rho, screen, radius, by = (
            one(atoms, RHO, i),
            one(atoms, SCREEN, i),
            one(atoms, RADIUS, i),
            one(atoms, BY_INTEGRAL, i),
        )
        fx = simd.splat(0.0, 8)
        fy, fz = fx, fx
        for j in range(i & -8, padded, 8):
            dx, dy, dz = x - eight(atoms, X, j), y - eight(atoms, Y, j), z - eight(atoms, Z, j)
            later = simd.iota(8) > np.int32(i - j)
            r2 = simd.select(later, dx * dx + dy * dy + dz * dz, 1.0)
            rinv, kind = simd.rsqrt_fast(r2, 2), simd.load(kinds, j, 8)
            slope = integral_slopes(
                r2 * rinv,
                rinv,
                by,
                rho,
                screen,
                eight(atoms, BY_INTEGRAL, j),
                eight(atoms, RHO, j),
                eight(atoms, SCREEN, j),
                radius + eight(atoms, RADIUS, j) + constants[NECK_CUTOFF],
                kind + kinds[i] * t,
                kind * t + kinds[i],
                d0,
                m0,
                neck,
            )
            slope = simd.select(later, -slope * rinv, 0.0)
            gx, gy, gz = slope * dx, slope * dy, slope * dz
            fx, fy, fz = fx + gx, fy + gy, fz + gz
            subtract_eight(sums, chunk * SUM_ROWS * padded + j, padded, gx, gy, gz)
        add_one(sums, chunk, i, fx, fy, fz)
