"""Every atom with every other, eight partners at a time, in double precision: what all such potentials share, and
`all_pairs`.

A pair is taken once; rows of atoms are dealt out to the chunks in turn, each of which has sums of its own [rows,
padded] that are added up in fixed order. Arrays are padded to a multiple of 8 atoms; padding lies far away and has no
charge.
"""

from __future__ import annotations

import numpy as np

from triskele.core.extend import device, kernel, simd

from ...engine.flags import ENERGY

# Rows of the table of atoms [rows, padded]. Of `all_pairs` the two Lennard-Jones rows are half of sigma and 2
# sqrt(epsilon) (Lorentz-Berthelot: sum, product) or sqrt(sigma) and 2 sqrt(epsilon) (geometric: products); unused with
# a table.
X, Y, Z, CHARGE, SIZE, DEPTH = range(6)
PAIR_ROWS = 6
ARITHMETIC, GEOMETRIC, TABLE = range(3)
_FAR = 1e4  # nm


@kernel(nogil=True)
def pack_atoms(chunk, positions, atoms):  # positions [n, 3]
    n = len(positions)
    for i in range(n):
        atoms[X, i], atoms[Y, i], atoms[Z, i] = positions[i, 0], positions[i, 1], positions[i, 2]
    for i in range(n, atoms.shape[1]):
        atoms[X, i] = _FAR * (1 + i - n)


@kernel(nogil=True)
def add_forces(chunk, starts, sums, positions, forces, rows, first_row, flags):  # sums [chunks, >= 3, padded]
    virial = flags[ENERGY] != 0
    if virial:
        for k in range(1, 10):
            rows[first_row + chunk, k] = 0.0
    for i in range(starts[chunk], starts[chunk + 1]):
        for a in range(3):
            f = 0.0
            for c in range(len(sums)):
                f += sums[c, a, i]
            forces[i, a] += f
            if virial:  # without images, f_i r_i summed over atoms is f_ij r_ij summed over pairs
                for b in range(3):
                    rows[first_row + chunk, 1 + 3 * a + b] += f * positions[i, b]


@device(forceinline=True)
def eight(atoms, k, j):
    """Row `k` of eight atoms."""
    return simd.load(atoms, k * atoms.shape[1] + j, 8)


@device(forceinline=True)
def one(atoms, k, i):
    """Row `k` of one atom, in all lanes."""
    return simd.load_splat(atoms, k * atoms.shape[1] + i, 8)


@device(forceinline=True)
def clear_sums(sums, chunk):
    """Set the sums of a chunk to zero; returns where they begin."""
    size = sums.shape[1] * sums.shape[2]
    for k in range(chunk * size, (chunk + 1) * size, 8):
        simd.store(sums, k, simd.splat(0.0, 8))
    return chunk * size


@device(forceinline=True)
def subtract_eight(sums, at, padded, x, y, z):
    """Take vectors off the first three rows of sums of eight atoms, which begin at `at`."""
    simd.store(sums, at, simd.load(sums, at, 8) - x)
    simd.store(sums, at + padded, simd.load(sums, at + padded, 8) - y)
    simd.store(sums, at + 2 * padded, simd.load(sums, at + 2 * padded, 8) - z)


@device(forceinline=True)
def add_one(sums, chunk, i, x, y, z):
    """Add the sums over lanes of vectors to the first three rows of one atom."""
    sums[chunk, 0, i] += simd.sum(x)
    sums[chunk, 1, i] += simd.sum(y)
    sums[chunk, 2, i] += simd.sum(z)


@kernel(nogil=True)
def all_pairs(chunk, chunks, n, atoms, mixing, kinds, a, b, masked, blocks, bits, sums, rows, flags):
    """Lennard-Jones and Coulomb without cut-off.

    `masked` [n + 1]: for atom i, entries masked[i] ... masked[i + 1] of `blocks` (first atom of a group of 8) and
    `bits` (which of them it does not interact with).
    """
    padded, start = atoms.shape[1], clear_sums(sums, chunk)
    energy = simd.splat(0.0, 8)
    t = len(a)
    for i in range(chunk, n, chunks):
        x, y, z = one(atoms, X, i), one(atoms, Y, i), one(atoms, Z, i)
        charge, size, depth = one(atoms, CHARGE, i), one(atoms, SIZE, i), one(atoms, DEPTH, i)
        fx = simd.splat(0.0, 8)
        fy, fz = fx, fx
        entry, last = masked[i], masked[i + 1]
        for j in range(i & -8, padded, 8):
            dx, dy, dz = x - eight(atoms, X, j), y - eight(atoms, Y, j), z - eight(atoms, Z, j)
            real = simd.iota(8) > np.int32(i - j)
            if entry < last and blocks[entry] == j:
                real = real & ~simd.from_bits(bits[entry], 8)
                entry += 1
            r2 = simd.select(real, dx * dx + dy * dy + dz * dz, 1.0)
            rinv = simd.rsqrt_fast(r2, 2)
            rinv2 = rinv * rinv
            coulomb = charge * eight(atoms, CHARGE, j) * rinv
            rinv6 = rinv2 * rinv2 * rinv2
            if mixing == TABLE:
                at = simd.load(kinds, j, 8) + kinds[i] * t
                repulsion, attraction = simd.gather(a, at) * rinv6 * rinv6, simd.gather(b, at) * rinv6
            else:
                sigma = size + eight(atoms, SIZE, j) if mixing == ARITHMETIC else size * eight(atoms, SIZE, j)
                sigma2 = sigma * sigma
                ratio = sigma2 * sigma2 * sigma2 * rinv6
                attraction = depth * eight(atoms, DEPTH, j) * ratio
                repulsion = attraction * ratio
            energy = energy + simd.select(real, coulomb + repulsion - attraction, 0.0)
            force = simd.select(real, (coulomb + 12.0 * repulsion - 6.0 * attraction) * rinv2, 0.0)
            gx, gy, gz = force * dx, force * dy, force * dz
            fx, fy, fz = fx + gx, fy + gy, fz + gz
            subtract_eight(sums, start + j, padded, gx, gy, gz)
        add_one(sums, chunk, i, fx, fy, fz)
    if flags[ENERGY] != 0:
        rows[chunk, 0] = simd.sum(energy)


def masks(exclusions, n):
    """Excluded partners j > i of each atom as bits of groups of 8: starts [n + 1], first atom of the group, bits."""
    i, j = np.sort(exclusions, axis=1).astype(np.int64).reshape(-1, 2).T
    groups, at = np.unique(i * n + (j & -8), return_inverse=True)
    bits = np.zeros(len(groups), np.int64)
    np.bitwise_or.at(bits, at, 1 << (j & 7))
    starts = np.searchsorted(groups, np.arange(n + 1) * n).astype(np.int64)
    return starts, groups % n, bits.astype(np.uint64)
