"""Kernels of marked atoms: a short list of the atoms around them, and the pairs of both.

Energies in all states come from the same pass over the pairs. The first `n_states[0]` rows of `table` have the
coefficients of each state and course (see `soft_core`). `states` [chunks, ...] gets, of each chunk, the energies of the
k states,
their derivatives through each course of Lennard-Jones and by the lambda of electrostatics, and the linear and quadratic
part of the direct Coulomb sum in that lambda. An atom may have several entries, of different courses.

`environment` and `inside` take three formulas, each a value followed by derivatives: `softened` (by r^2, softening),
`fading` (the switch, by r^2) and `charged` (by r^2, softening); `generated` makes kernels of them.
"""

from __future__ import annotations

import math

import numpy as np

from triskele.core.extend import kernel, template

from ..box import minimum_image
from ..engine.flags import ENERGY
from ..neighbors.state import OUTER
from .soft_core import (
    COURSES,
    D_SCALE,
    D_SOFT,
    DQ_SCALE,
    DQ_SOFT,
    Q_LAMBDA,
    Q_SCALE,
    Q_SOFT,
    SCALE,
    SOFT,
)

__all__ = ["FORCED", "STATES", "add_forces", "around", "environment", "inside"]

STATES = 6  # word of `Engine.flags`: the energies in all states are wanted
FORCED = 2  # its value if they are wanted at any step

# Words of `form`, numbers of all pairs.
CUTOFF2, SWITCH, CUTOFF, ALPHA, K_RF, C_RF, COULOMB, GEOMETRIC = range(8)
N_FORM = 8
PAIRS, EWALD = 0.0, 1.0  # of COULOMB: pairs that are scaled here, or charges that are scaled elsewhere

# Bits of a pair inside of the molecule.
SOFTENED = 1  # Lennard-Jones with lambda
PLAIN = 2  # Lennard-Jones without
WITHIN = 4  # only within the cut-off, with the switch and the reaction field
SCALED = 8  # Coulomb with lambda
KEPT = 16  # Coulomb without
VACUUM = 32  # Coulomb times 1 - lambda^2: what scaled charges take away
DIRECT = 64  # the direct part of an Ewald sum, for the energies of other states
EXCLUDED = 128  # the correction of an excluded pair, for the same
IMAGES = 256  # the nearest image
QUADRATIC = 512  # Coulomb of two charges that are both linear in lambda


@kernel(nogil=True)
def around(_chunk, builds, seen, positions, box, periodic, geometry, is_marked, marked, found, n_found):
    """List the atoms within the radius of the neighbor list of any marked atom, whenever that list has been rebuilt."""
    if builds[0] == seen[0]:
        return
    seen[0] = builds[0]
    square = geometry[OUTER] ** 2
    n = 0
    for j in range(len(positions)):
        if is_marked[j]:
            continue
        for k in range(len(marked)):
            i = marked[k]
            x, y, z = (
                positions[j, 0] - positions[i, 0],
                positions[j, 1] - positions[i, 1],
                positions[j, 2] - positions[i, 2],
            )
            if periodic:
                x, y, z = minimum_image(x, y, z, box)
            if x * x + y * y + z * z < square:
                found[n] = j
                n += 1
                break
    n_found[0] = n


@template
def environment(
    chunk,
    chunks,
    positions,
    box,
    periodic,
    found,
    n_found,
    marked,
    courses,
    own_charges,
    own_sigmas,
    own_wells,
    charges,
    sigmas,
    wells,
    form,
    now,
    table,
    n_states,
    forces,
    own_forces,
    rows,
    states,
    states_only,
    flags,
    softened,
    fading,
    charged,
):
    """Pairs of marked atoms with the atoms `found` around them.

    `marked` to `own_wells` [m] are those of the entries, the others [n] of all atoms: charges in sqrt(kJ/mol nm), those
    of entries at lambda 1 less those at 0; sigmas are halves with arithmetic mixing, roots with geometric; wells are
    2 sqrt(epsilon). `forces` [capacity, 3] on the atoms found, `own_forces` [chunks, 3 m]. With `states_only`, forces
    and energies stay as they are.
    """
    all_states = flags[STATES] != 0
    wanted = all_states or flags[ENERGY] != 0
    energy = wxx = wxy = wxz = wyy = wyz = wzz = 0.0
    if states_only and not all_states:
        return
    k_states, stride = n_states[0], own_forces.shape[1] // 3
    mine, totals = own_forces[chunk], states[chunk]
    if not states_only:
        mine[:] = 0.0
    if all_states:
        totals[:] = 0.0
    q_scale, q_soft = now[0, Q_SCALE], now[0, Q_SOFT]
    pairwise, ewald, geometric = form[COULOMB] == PAIRS, form[COULOMB] == EWALD, form[GEOMETRIC] != 0.0
    for e in range(chunk * n_found[0] // chunks, (chunk + 1) * n_found[0] // chunks):
        j = found[e]
        fx = fy = fz = 0.0
        for k in range(len(marked)):
            i = marked[k]
            x, y, z = (
                positions[i, 0] - positions[j, 0],
                positions[i, 1] - positions[j, 1],
                positions[i, 2] - positions[j, 2],
            )
            if periodic:
                x, y, z = minimum_image(x, y, z, box)
            r2 = x * x + y * y + z * z
            if r2 >= form[CUTOFF2]:
                continue
            sigma = own_sigmas[k] * sigmas[j] if geometric else own_sigmas[k] + sigmas[j]
            well, qq, course = own_wells[k] * wells[j], own_charges[k] * charges[j], courses[k]
            scale, soft = now[course, SCALE], now[course, SOFT]
            slope = 0.0
            if well != 0.0:
                factor, d_factor = fading(r2, form[SWITCH], form[CUTOFF])
                if scale != 0.0 and not states_only:
                    u, rise, _ = softened(r2, sigma * sigma, soft)
                    slope += well * scale * (factor * rise + d_factor * u)
                    energy += well * scale * factor * u
                if all_states:
                    well *= factor
                    for s in range(k_states):
                        own = table[s, course]
                        u, _, by_soft = softened(r2, sigma * sigma, own[SOFT])
                        totals[s] += well * own[SCALE] * u
                        totals[(1 + course) * k_states + s] += well * (
                            own[D_SCALE] * u + own[D_SOFT] * own[SCALE] * by_soft
                        )
            if pairwise and qq != 0.0:
                u, rise, _ = charged(r2, sigma, q_soft, form[K_RF], form[C_RF])
                slope += qq * q_scale * rise
                energy += qq * q_scale * u
                if all_states:
                    for s in range(k_states):
                        own = table[s, 0]
                        u, _, by_soft = charged(r2, sigma, own[Q_SOFT], form[K_RF], form[C_RF])
                        totals[s] += qq * own[Q_SCALE] * u
                        totals[(1 + COURSES) * k_states + s] += qq * (
                            own[DQ_SCALE] * u + own[DQ_SOFT] * own[Q_SCALE] * by_soft
                        )
            if all_states and ewald and qq != 0.0:
                r = math.sqrt(r2)
                totals[(2 + COURSES) * k_states] += qq * math.erfc(form[ALPHA] * r) / r
            if states_only:
                continue
            slope *= -2.0
            gx, gy, gz = slope * x, slope * y, slope * z
            fx += gx
            fy += gy
            fz += gz
            mine[k] += gx
            mine[stride + k] += gy
            mine[2 * stride + k] += gz
            if wanted:
                wxx += gx * x
                wxy += gx * y
                wxz += gx * z
                wyy += gy * y
                wyz += gy * z
                wzz += gz * z
        if not states_only:
            forces[e, 0], forces[e, 1], forces[e, 2] = -fx, -fy, -fz
    if wanted and not states_only:
        for k, w in enumerate((energy, wxx, wxy, wxz, wxy, wyy, wyz, wxz, wyz, wzz)):
            rows[chunk, k] = w


@template
def inside(
    _chunk,
    positions,
    box,
    periodic,
    marked,
    pairs,
    kinds,
    courses,
    values,
    form,
    now,
    table,
    n_states,
    forces,
    rows,
    states,
    flags,
    softened,
    fading,
    charged,
):
    """Pairs of marked atoms with each other: `pairs` [p, 2] are numbers in `marked`, `kinds` their bits, `values`
    [p, 5] the product of the charges, sigma, 4 epsilon, and with charges that change, what is linear in lambda of the
    product and what is constant.
    """
    all_states = flags[STATES] != 0
    energy = wxx = wxy = wxz = wyy = wyz = wzz = 0.0
    k_states = n_states[0]
    forces[:] = 0.0
    if all_states:
        states[:] = 0.0
    lam = now[0, Q_LAMBDA]
    for p in range(len(pairs)):
        a, b, kind, course = pairs[p, 0], pairs[p, 1], kinds[p], courses[p]
        i, j = marked[a], marked[b]
        x, y, z = (
            positions[i, 0] - positions[j, 0],
            positions[i, 1] - positions[j, 1],
            positions[i, 2] - positions[j, 2],
        )
        if periodic and kind & IMAGES:
            x, y, z = minimum_image(x, y, z, box)
        r2 = x * x + y * y + z * z
        qq, sigma, well = values[p, 0], values[p, 1], values[p, 2]
        near = not kind & WITHIN or r2 < form[CUTOFF2]
        slope = 0.0
        if near and kind & (SOFTENED | PLAIN):
            factor, d_factor = fading(r2, form[SWITCH], form[CUTOFF]) if kind & WITHIN else (1.0, 0.0)
            full, none = (1.0, 0.0) if kind & PLAIN else (now[course, SCALE], now[course, SOFT])
            if full != 0.0:
                u, rise, _ = softened(r2, sigma * sigma, none)
                slope += well * full * (factor * rise + d_factor * u)
                energy += well * full * factor * u
            if all_states:
                for s in range(k_states):
                    full, none = (1.0, 0.0) if kind & PLAIN else (table[s, course, SCALE], table[s, course, SOFT])
                    u, _, by_soft = softened(r2, sigma * sigma, none)
                    states[s] += well * full * factor * u
                    if kind & SOFTENED:
                        states[(1 + course) * k_states + s] += (
                            well * factor * (table[s, course, D_SCALE] * u + table[s, course, D_SOFT] * full * by_soft)
                        )
        if near and kind & SCALED:
            k_rf, c_rf = (form[K_RF], form[C_RF]) if kind & WITHIN else (0.0, 0.0)
            u, rise, _ = charged(r2, sigma, now[0, Q_SOFT], k_rf, c_rf)
            slope += qq * now[0, Q_SCALE] * rise
            energy += qq * now[0, Q_SCALE] * u
            if all_states:
                for s in range(k_states):
                    own = table[s, 0]
                    u, _, by_soft = charged(r2, sigma, own[Q_SOFT], k_rf, c_rf)
                    states[s] += qq * own[Q_SCALE] * u
                    states[(1 + COURSES) * k_states + s] += qq * (
                        own[DQ_SCALE] * u + own[DQ_SOFT] * own[Q_SCALE] * by_soft
                    )
        r = math.sqrt(r2)
        if near and kind & KEPT:
            field = 1.0 if kind & WITHIN else 0.0
            u = qq * (1.0 / r + field * (form[K_RF] * r2 - form[C_RF]))
            slope += qq * (-0.5 / (r * r2) + field * form[K_RF])
            energy += u
            if all_states:
                for s in range(k_states):
                    states[s] += u
        if kind & VACUUM:
            slope += (1.0 - lam * lam) * qq * -0.5 / (r * r2)
            energy += (1.0 - lam * lam) * qq / r
            if all_states:
                for s in range(k_states):
                    states[s] += (1.0 - table[s, 0, Q_LAMBDA] ** 2) * qq / r
                    states[(1 + COURSES) * k_states + s] -= 2.0 * table[s, 0, Q_LAMBDA] * qq / r
        if kind & QUADRATIC:
            product = values[p, 4] + lam * (values[p, 3] + lam * qq)
            slope += product * -0.5 / (r * r2)
            energy += product / r
            if all_states:
                for s in range(k_states):
                    there = table[s, 0, Q_LAMBDA]
                    states[s] += (values[p, 4] + there * (values[p, 3] + there * qq)) / r
                    states[(1 + COURSES) * k_states + s] += (values[p, 3] + 2.0 * there * qq) / r
        if all_states and kind & DIRECT and r2 < form[CUTOFF2]:
            states[(2 + COURSES) * k_states] += values[p, 3] * math.erfc(form[ALPHA] * r) / r
            states[(2 + COURSES) * k_states + 1] += qq * math.erfc(form[ALPHA] * r) / r
        if all_states and kind & EXCLUDED and r > 0.0:
            states[(2 + COURSES) * k_states] -= values[p, 3] * math.erf(form[ALPHA] * r) / r
            states[(2 + COURSES) * k_states + 1] -= qq * math.erf(form[ALPHA] * r) / r
        slope *= -2.0
        gx, gy, gz = slope * x, slope * y, slope * z
        forces[a, 0] += gx
        forces[a, 1] += gy
        forces[a, 2] += gz
        forces[b, 0] -= gx
        forces[b, 1] -= gy
        forces[b, 2] -= gz
        wxx += gx * x
        wxy += gx * y
        wxz += gx * z
        wyy += gy * y
        wyz += gy * z
        wzz += gz * z
    if all_states or flags[ENERGY] != 0:
        for k, w in enumerate((energy, wxx, wxy, wxz, wxy, wyy, wyz, wxz, wyz, wzz)):
            rows[k] = w


@kernel(nogil=True)
def add_forces(chunk, starts, found, n_found, found_forces, entries, own_forces, marked, inside_forces, forces):
    """Add the forces of the pairs on the atoms from `starts[chunk]` to `starts[chunk + 1]`."""
    first, last = starts[chunk], starts[chunk + 1]
    at = np.searchsorted(found[: n_found[0]], first)
    while at < n_found[0] and found[at] < last:
        for a in range(3):
            forces[found[at], a] += found_forces[at, a]
        at += 1
    m = own_forces.shape[1] // 3
    for k in range(len(entries)):
        i = entries[k]
        if first <= i < last:
            for c in range(len(own_forces)):
                for a in range(3):
                    forces[i, a] += own_forces[c, a * m + k]
    for k in range(len(marked)):
        i = marked[k]
        if first <= i < last:
            for a in range(3):
                forces[i, a] += inside_forces[k, a]
