"""Per-atom work of the integrators: kicks, drifts, noise, sums over atoms. Eight or sixteen atoms at a time.

Coordinates are taken as they lie, x y z x y z ..., so that three vectors hold eight atoms and numbers per atom are
spread over them. The last vectors of a chunk are masked.
"""

from __future__ import annotations

import math

import numpy as np

from triskele.core.extend import device, kernel, simd
from triskele.core.random import Counter

from ..engine.flags import STATUS, STATUS_INFO, STEP
from .normals import normals

__all__ = [
    "brownian",
    "copy_forces",
    "drude_langevin",
    "kick",
    "kick_drift",
    "kinetic",
    "langevin",
    "momentum",
    "remove_momentum",
    "scale",
]

NOISE = int(Counter.NOISE)  # + the number of the inner step
_SPREAD = ((0, 0, 0, 1, 1, 1, 2, 2), (2, 3, 3, 3, 4, 4, 4, 5), (5, 5, 6, 6, 6, 7, 7, 7))
_S0, _S1, _S2 = _SPREAD
DRUDE_RAN_AWAY = 110  # status: a Drude particle is far beyond the wall


@device
def _masks(atoms):
    """Return a mask of the 24 coordinates of eight atoms: True for those of the first `atoms`."""
    lane, last = simd.iota(8), np.int32(3 * atoms)
    return lane < last, lane < np.int32(last - np.int32(8)), lane < np.int32(last - np.int32(16))


@device
def _load(array, i, masks):
    zero = simd.splat(0.0, 8)
    return (
        simd.load_masked(array, 3 * i, masks[0], zero),
        simd.load_masked(array, 3 * i + 8, masks[1], zero),
        simd.load_masked(array, 3 * i + 16, masks[2], zero),
    )


@device
def _store(array, i, masks, v):
    simd.store_masked(array, 3 * i, v[0], masks[0])
    simd.store_masked(array, 3 * i + 8, v[1], masks[1])
    simd.store_masked(array, 3 * i + 16, v[2], masks[2])


@device
def _per_atom(array, i, atoms):
    """A number of each of eight atoms, [n], spread over their coordinates."""
    w = simd.load_masked(array, i, simd.iota(8) < np.int32(atoms), simd.splat(0.0, 8))
    return simd.shuffle(w, _S0), simd.shuffle(w, _S1), simd.shuffle(w, _S2)


@device
def _combine(a, x, b, y):
    """a x + b y, for numbers a and b."""
    return simd.fma(x[0], a, y[0] * b), simd.fma(x[1], a, y[1] * b), simd.fma(x[2], a, y[2] * b)


@device
def _add(x, w, y):
    """x + w y, for coordinates w."""
    return simd.fma(w[0], y[0], x[0]), simd.fma(w[1], y[1], x[1]), simd.fma(w[2], y[2], x[2])


@kernel(nogil=True)
def kick(chunk, starts, velocities, forces, inverse_masses, time):  # time [1]
    last = starts[chunk + 1]
    for i in range(starts[chunk], last, 8):
        atoms = min(last - i, 8)
        masks = _masks(atoms)
        w, v, f = _per_atom(inverse_masses, i, atoms), _load(velocities, i, masks), _load(forces, i, masks)
        t = time[0]
        _store(velocities, i, masks, _add(v, (w[0] * t, w[1] * t, w[2] * t), f))


@kernel(nogil=True)
def kick_drift(chunk, starts, positions, old, velocities, forces, inverse_masses, kick_time, time, factor):
    # v = factor v + kick_time f/m; x += time v
    last = starts[chunk + 1]
    for i in range(starts[chunk], last, 8):
        atoms = min(last - i, 8)
        masks = _masks(atoms)
        w, v, f = _per_atom(inverse_masses, i, atoms), _load(velocities, i, masks), _load(forces, i, masks)
        t, s = kick_time[0], factor[0]
        v = _add((v[0] * s, v[1] * s, v[2] * s), (w[0] * t, w[1] * t, w[2] * t), f)
        x = _load(positions, i, masks)
        _store(old, i, masks, x)
        _store(velocities, i, masks, v)
        _store(positions, i, masks, _combine(1.0, x, time[0], v))


@kernel(nogil=True)
def copy_forces(chunk, starts, source, target):  # [n, 3]
    for i in range(starts[chunk], starts[chunk + 1]):
        for a in range(3):
            target[i, a] = source[i, a]


@kernel(nogil=True)
def scale(chunk, starts, velocities, factor):  # factor [1]
    for i in range(starts[chunk], starts[chunk + 1]):
        for a in range(3):
            velocities[i, a] *= factor[0]


@device
def _langevin(i, last, positions, old, velocities, noise, decay, half, normals):
    atoms = min(last - i, 8)
    masks = _masks(atoms)
    w, v, x = _per_atom(noise, i, atoms), _load(velocities, i, masks), _load(positions, i, masks)
    new = _add((v[0] * decay, v[1] * decay, v[2] * decay), w, normals)
    _store(old, i, masks, x)
    _store(velocities, i, masks, new)
    _store(positions, i, masks, _combine(1.0, x, half, (v[0] + new[0], v[1] + new[1], v[2] + new[2])))


@kernel(nogil=True)
def langevin(chunk, starts, positions, old, velocities, noise, decay, half, key, kind, flags):
    # x += half v; v = decay v + noise R; x += half v. noise [n]; decay, half [1]
    last, k0, k1, step = starts[chunk + 1], key[0], key[1], np.uint64(flags[STEP])
    for i in range(starts[chunk], last, 16):
        lower, upper = normals(i, k0, k1, step, kind)
        _langevin(i, last, positions, old, velocities, noise, decay[0], half[0], lower)
        if i + 8 < last:
            _langevin(i + 8, last, positions, old, velocities, noise, decay[0], half[0], upper)


@kernel(nogil=True)
def drude_langevin(
    chunk, starts, positions, old, velocities, partner, share, noise, decay, half, wall, numbers, key, kind, flags
):
    # x += half v; v = decay v + noise R; x += half v, for atoms and, as center and displacement, for pairs
    first, last = starts[chunk], starts[chunk + 1]
    k0, k1, step = key[0], key[1], np.uint64(flags[STEP])
    for i in range(first, last, 16):
        lower, upper = normals(i, k0, k1, step, kind)
        _store(numbers, i, _masks(min(last - i, 8)), lower)
        if i + 8 < last:
            _store(numbers, i + 8, _masks(min(last - i - 8, 8)), upper)
    for i in range(first, last):
        p = partner[i]
        if p == -1:
            for a in range(3):
                v, x = velocities[i, a], positions[i, a]
                new = decay[0] * v + noise[i] * numbers[i, a]
                old[i, a], velocities[i, a], positions[i, a] = x, new, x + half * (v + new)
        elif p >= 0:
            square, along = 0.0, 0.0
            for a in range(3):
                center = share[i] * velocities[i, a] + share[p] * velocities[p, a]
                apart = velocities[i, a] - velocities[p, a]
                new_center = decay[0] * center + noise[p] * numbers[p, a]
                new_apart = decay[1] * apart + noise[i] * numbers[i, a]
                old[i, a], old[p, a] = positions[i, a], positions[p, a]
                x = half * (center + new_center)
                positions[i, a] += x + share[p] * half * (apart + new_apart)
                positions[p, a] += x - share[i] * half * (apart + new_apart)
                velocities[i, a] = new_center + share[p] * new_apart
                velocities[p, a] = new_center - share[i] * new_apart
                d = positions[i, a] - positions[p, a]
                square += d * d
                along += d * new_apart
            if square > wall * wall:
                r = math.sqrt(square)
                if not r < 2 * wall:
                    flags[STATUS], flags[STATUS_INFO] = DRUDE_RAN_AWAY, i
                shift, turn = 2 * (wall / r - 1), -2 * max(along, 0.0) / square
                for a in range(3):
                    d = positions[i, a] - positions[p, a]
                    positions[i, a] += share[p] * shift * d
                    positions[p, a] -= share[i] * shift * d
                    velocities[i, a] += share[p] * turn * d
                    velocities[p, a] -= share[i] * turn * d


@device
def _brownian(i, last, positions, old, velocities, forces, mobility, noise, per_time, normals):
    atoms = min(last - i, 8)
    masks = _masks(atoms)
    x = _load(positions, i, masks)
    d = _add(
        _add((x[0] * 0.0, x[1] * 0.0, x[2] * 0.0), _per_atom(mobility, i, atoms), _load(forces, i, masks)),
        _per_atom(noise, i, atoms),
        normals,
    )
    _store(old, i, masks, x)
    _store(velocities, i, masks, (d[0] * per_time, d[1] * per_time, d[2] * per_time))
    _store(positions, i, masks, _combine(1.0, x, 1.0, d))


@kernel(nogil=True)
def brownian(chunk, starts, positions, old, velocities, forces, mobility, noise, per_time, key, kind, flags):
    # x += mobility f + noise R; velocities get the displacement times per_time [1]; mobility, noise [n]
    last, k0, k1, step = starts[chunk + 1], key[0], key[1], np.uint64(flags[STEP])
    for i in range(starts[chunk], last, 16):
        lower, upper = normals(i, k0, k1, step, kind)
        _brownian(i, last, positions, old, velocities, forces, mobility, noise, per_time[0], lower)
        if i + 8 < last:
            _brownian(i + 8, last, positions, old, velocities, forces, mobility, noise, per_time[0], upper)


@kernel(nogil=True)
def kinetic(chunk, starts, velocities, masses, sums):  # sums [chunks]: m v^2 of each chunk
    last = starts[chunk + 1]
    total = simd.splat(0.0, 8)
    for i in range(starts[chunk], last, 8):
        atoms = min(last - i, 8)
        w, v = _per_atom(masses, i, atoms), _load(velocities, i, _masks(atoms))
        total = simd.fma(w[0] * v[0], v[0], simd.fma(w[1] * v[1], v[1], simd.fma(w[2] * v[2], v[2], total)))
    sums[chunk] = simd.sum(total)


@kernel(nogil=True)
def momentum(chunk, starts, velocities, masses, sums):  # sums [chunks, 4]: momentum and mass of each chunk
    px, py, pz, m = 0.0, 0.0, 0.0, 0.0
    for i in range(starts[chunk], starts[chunk + 1]):
        px += masses[i] * velocities[i, 0]
        py += masses[i] * velocities[i, 1]
        pz += masses[i] * velocities[i, 2]
        m += masses[i]
    sums[chunk, 0], sums[chunk, 1], sums[chunk, 2], sums[chunk, 3] = px, py, pz, m


@kernel(nogil=True)
def remove_momentum(chunk, starts, velocities, masses, sums):
    px, py, pz, m = 0.0, 0.0, 0.0, 0.0
    for c in range(sums.shape[0]):
        px += sums[c, 0]
        py += sums[c, 1]
        pz += sums[c, 2]
        m += sums[c, 3]
    px, py, pz = px / m, py / m, pz / m
    for i in range(starts[chunk], starts[chunk + 1]):
        if masses[i] > 0:
            velocities[i, 0] -= px
            velocities[i, 1] -= py
            velocities[i, 2] -= pz
