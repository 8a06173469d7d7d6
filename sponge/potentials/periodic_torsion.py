"""Periodic torsions, proper and improper. Their kernel needs no trigonometric function.

All terms on the same four atoms are one Fourier series in phi, whose cosines and sines of n phi follow from cos(phi)
and sin(phi), which come from the positions by products alone.
"""

from __future__ import annotations

import math

import numpy as np

from triskele.core.extend import kernel, simd

from .term_kernels import (
    arms8,
    close_chunk,
    is_term,
    open_box,
    open_chunk,
    torsion8,
    torsion_forces8,
)
from .terms import TORSION, generated_kernel, plan_terms, torsion_potential

__all__ = ["periodic_torsion"]

_HIGHEST = 8  # periodicity in a series; force fields go to 6


@kernel(nogil=True)
def series_terms(chunk, positions, box, flags, layout, atoms, params, buffer, rows):
    """Terms u = a_0 + sum over n of a_n cos(n phi) + b_n sin(n phi); params of a term are a_0, a_1, b_1, a_2, ..."""
    first, terms, shift = open_chunk(chunk, layout, buffer)
    cell = open_box(box)
    n_params = params.size // (atoms.size // 4)
    zero = simd.splat(0.0, 8)
    energy = vxx = vxy = vxz = vyy = vyz = vzz = zero
    blocks = (terms + 7) // 8
    for block in range(blocks):
        at = (first + block) * 32
        ax, ay, az, bx, by, bz, cx, cy, cz = arms8(positions, cell, atoms, at)
        c1, s1, mx, my, mz, nx, ny, nz, inv_m2, inv_n2, b2, inv_b = torsion8(ax, ay, az, bx, by, bz, cx, cy, cz)
        p = (first + block) * 8 * n_params
        u, du, c, s = simd.load(params, p, 8), zero, simd.splat(1.0, 8), zero
        for n in range(1, (n_params + 1) // 2):
            c, s = c * c1 - s * s1, s * c1 + c * s1
            a, b = simd.load(params, p + 8 * (2 * n - 1), 8), simd.load(params, p + 16 * n, 8)
            u = simd.fma(a, c, simd.fma(b, s, u))
            du = simd.fma(float(n), b * c - a * s, du)
        inside = is_term(block, blocks, terms)
        energy += simd.select(inside, u, zero)
        du = simd.select(inside, du, zero)
        xx, xy, xz, yy, yz, zz = torsion_forces8(buffer, shift, atoms, at, du, ax, ay, az, bx, by, bz, cx, cy, cz,
                                                 mx, my, mz, nx, ny, nz, inv_m2, inv_n2, b2, inv_b)
        vxx, vxy, vxz, vyy, vyz, vzz = vxx + xx, vxy + xy, vxz + xz, vyy + yy, vyz + yz, vzz + zz
    close_chunk(chunk, flags, rows, energy, vxx, vxy, vxz, vyy, vyz, vzz)


def _series(potential):
    """The different chains of atoms [q, 4] and the coefficients of their series [q, 1 + 2 n]."""
    k, periodicity, phase = (potential.params[name] for name in ("k", "periodicity", "phase"))
    n = np.abs(periodicity).astype(np.int64)
    phase = np.where(periodicity < 0, -phase, phase)
    atoms = np.where(potential.atoms[:, :1] > potential.atoms[:, 3:], potential.atoms[:, ::-1], potential.atoms)
    acts = k != 0
    chains, chain = np.unique(atoms[acts], axis=0, return_inverse=True)
    k, n, phase, chain = k[acts], n[acts], phase[acts], chain.reshape(-1)
    coefficients = np.zeros((len(chains), 1 + 2 * int(n.max(initial=0))))
    np.add.at(coefficients, (chain, 0), k)
    np.add.at(coefficients, (chain, np.maximum(2 * n - 1, 0)), k * np.cos(phase))
    some = n > 0
    np.add.at(coefficients, (chain[some], 2 * n[some]), (k * np.sin(phase))[some])
    return chains, coefficients


def _plan(potential, engine):
    periodicity = potential.params["periodicity"]
    if np.any(periodicity != np.rint(periodicity)) or np.any(np.abs(periodicity) > _HIGHEST):
        params = np.stack(list(potential.params.values()), axis=1)
        return plan_terms(engine, generated_kernel(potential.function, TORSION), potential.atoms, params, TORSION.chunk,
                          images=potential.images)
    return plan_terms(engine, series_terms, *_series(potential), TORSION.chunk, images=potential.images)


@torsion_potential(name="torsion", compiled=_plan)
def periodic_torsion(phi, k, periodicity, phase):
    """Periodic torsion, u = k (1 + cos(n phi - phase)); several terms may act on the same atoms.

    Parameters
    ----------
    atoms : (m, 4) int
        Chains of four atoms; for improper torsions, the chain whose torsion angle is meant.
    k : float or (m,) array, kJ/mol
        Force constant.
    periodicity : int or (m,) array
        n.
    phase : float or (m,) array, radians
        Phase angle.
    name : str, optional

    Examples
    --------
    >>> periodic_torsion([[0, 1, 2, 3]], k=15.0, periodicity=2, phase=0.4)
    <periodic_torsion 'torsion': k (1,), periodicity (1,), phase (1,)>
    """
    return k * (1 + math.cos(periodicity * phi - phase))


def example():
    """Potentials for `testing`, with the options of `example_system` that each needs."""
    chains = np.arange(4) + np.arange(9)[:, None]
    chains = np.concatenate([chains, chains[:5], chains[:3, ::-1]])
    m = len(chains)
    torsions = [periodic_torsion(chains, k=np.linspace(-4.0, 15.0, m), periodicity=periodicity,
                                 phase=np.linspace(-1.0, 3.0, m))
                for periodicity in (1 + np.arange(m) % 6, np.full(m, 11.0))]  # the latter is no short Fourier series
    return [(torsions, {}), (torsions[:1], {"box": [[0.9, 0, 0], [0.2, 0.8, 0], [-0.1, 0.3, 0.9]]})]
