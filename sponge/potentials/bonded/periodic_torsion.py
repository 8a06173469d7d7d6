"""Periodic torsions, proper and improper. Their kernel needs no trigonometric function.

All terms on the same four atoms are one Fourier series in phi, whose cosines and sines of n phi follow from cos(phi)
and sin(phi), which come from the positions by products alone.
"""

from __future__ import annotations

import math

import numpy as np

from triskele.core.extend import device, kernel, simd

from .term_kernels import torsion_loop
from .terms import TORSION, generated_kernel, plan_terms, torsion_potential

__all__ = ["periodic_torsion"]

_HIGHEST = 8  # periodicity in a series; force fields go to 6


@device
def _series_value(phi, c1, s1, params, at, n_params):
    u, du, c, s = simd.load(params, at, 8), simd.splat(0.0, 8), simd.splat(1.0, 8), simd.splat(0.0, 8)
    for n in range(1, (n_params + 1) // 2):
        c, s = c * c1 - s * s1, s * c1 + c * s1
        a, b = simd.load(params, at + 8 * (2 * n - 1), 8), simd.load(params, at + 16 * n, 8)
        u = simd.fma(a, c, simd.fma(b, s, u))
        du = simd.fma(float(n), b * c - a * s, du)
    return u, du


@kernel(nogil=True)
def series_terms(chunk, positions, box, flags, layout, atoms, params, buffer, rows):
    """Terms u = a_0 + sum over n of a_n cos(n phi) + b_n sin(n phi); params of a term are a_0, a_1, b_1, a_2, ..."""
    torsion_loop(
        _series_value,
        params.size // (atoms.size // 4),
        chunk,
        positions,
        box,
        flags,
        layout,
        atoms,
        params,
        buffer,
        rows,
    )


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
        return plan_terms(
            engine,
            generated_kernel(potential.function, TORSION),
            potential.atoms,
            params,
            TORSION.chunk,
            images=potential.images,
        )
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
    >>> from triskele.sponge import periodic_torsion
    >>> periodic_torsion([[0, 1, 2, 3]], k=15.0, periodicity=2, phase=0.4)
    <periodic_torsion 'torsion': k (1,), periodicity (1,), phase (1,)>
    """
    return k * (1 + math.cos(periodicity * phi - phase))


def example():
    """Potentials for `testing`, with the options of `example_system` that each needs."""
    chains = np.arange(4) + np.arange(9)[:, None]
    chains = np.concatenate([chains, chains[:5], chains[:3, ::-1]])
    m = len(chains)
    torsions = [
        periodic_torsion(chains, k=np.linspace(-4.0, 15.0, m), periodicity=periodicity, phase=np.linspace(-1.0, 3.0, m))
        for periodicity in (1 + np.arange(m) % 6, np.full(m, 11.0))
    ]  # the latter is no short Fourier series
    return [(torsions, {}), (torsions[:1], {"box": [[0.9, 0, 0], [0.2, 0.8, 0], [-0.1, 0.3, 0.9]]})]
