"""The Hessian-vector product of `Nonbonded` by positions, for all methods and mixing rules, from compiled kernels."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from triskele import core
from triskele.core.extend import Task

from ...engine.flags import N_FLAGS
from ...engine.program import Phase, Program
from ...neighbors.pairs import find_pairs
from ...pme import energy as mesh_energy
from ...pme.product import reciprocal_product
from ...units import COULOMB
from . import energy as nonbonded_energy
from . import product_kernels as kernels

if TYPE_CHECKING:
    from .nonbonded import Nonbonded

__all__ = ["hessian_product"]

_CHUNK_PAIRS = 1 << 15  # some 4 ms
_MOST_CHUNKS = 8  # each has an array of its own
_kept_pairs: WeakKeyDictionary[Nonbonded, Any] = WeakKeyDictionary()
_MIXING = {"lorentz_berthelot": 0, "geometric": 1, "table": 2}


def hessian_product(potential: Nonbonded, params: dict[str, np.ndarray], positions: np.ndarray, box: Any,
                    v: np.ndarray) -> np.ndarray:
    """The Hessian of ``potential.energy`` by positions times `v`.

    Parameters
    ----------
    potential : Nonbonded
        Its form and its exclusions.
    params : dict of arrays
        As `potential.params`.
    positions, v : (n, 3) float64, nm
        Positions, and the vector.
    box : (3, 3) float64, nm, or None
        Box vectors in rows.

    Returns
    -------
    (n, 3) float64
        In kJ/mol/nm^2 times the unit of `v`.
    """
    potential.check_box(box)
    form = potential.form(box)
    out = _pairs(potential, form, params, positions, box, v, _near(potential, form, positions, box))
    if form.method == "ewald":
        out += _wave_vectors(form)(params, positions, box, v)
    elif form.alpha:
        assert form.grid is not None
        mesh = positions, v, box
        out += reciprocal_product(mesh_energy.coulomb_influence, params["charges"], *mesh, form.alpha, form.grid,
                                  form.order)
        if form.lj_alpha:
            assert form.lj_grid is not None
            out += reciprocal_product(mesh_energy.dispersion_influence, _roots(params), *mesh, form.lj_alpha,
                                      form.lj_grid, form.order)
    if form.alpha and len(potential.exclusions):
        out += _excluded(form)(params, positions, box, potential.exclusions.astype(np.int64), v)
    return out


def _near(potential, form, positions, box):
    """The pairs that count; kept for the next vector at the same positions."""
    images = None if form.cutoff is None else box
    key = [positions, images, potential.exclusions]
    kept = _kept_pairs.get(potential)
    if kept is None or kept[0] != form.cutoff or not all(map(np.array_equal, kept[1], key)):
        pairs = find_pairs(positions, images, form.cutoff, potential.exclusions)
        kept = _kept_pairs[potential] = form.cutoff, [None if x is None else x.copy() for x in key], pairs
    return kept[2]


def _roots(params):
    return 2 * np.sqrt(params["epsilons"]) * params["sigmas"] ** 3


def _pairs(potential, form, params, positions, box, v, pairs):
    numbers = np.zeros(kernels.N_NUMBERS)
    numbers[[kernels.ALPHA, kernels.K_RF, kernels.SWITCH, kernels.CUTOFF, kernels.LJ_ALPHA]] = [
        form.alpha, form.k_rf, form.switch or 0.0, form.cutoff or 0.0, form.lj_alpha]
    nothing, table = np.zeros(0), np.zeros((0, 0))
    size, depth, types, a, b = nothing, nothing, np.zeros(0, np.int64), table, table
    if form.mixing == "table":
        types, a, b = potential.types.astype(np.int64), params["a"], params["b"]
    else:
        size, depth = params["sigmas"], np.sqrt(params["epsilons"])
    periodic = box is not None and form.cutoff is not None
    chunks = int(np.clip(len(pairs) // _CHUNK_PAIRS, 1, _MOST_CHUNKS))
    outs = np.zeros((chunks, *positions.shape))
    task = Task(kernels.pair_product, pairs, positions, v, box if periodic else np.eye(3), periodic,
                np.sqrt(COULOMB) * params["charges"], size, depth, _roots(params) if form.lj_alpha else nothing,
                _MIXING[form.mixing], types, a, b, numbers, outs, chunks=chunks)
    Program([Phase([task], name="Hessian of pairs")], np.zeros(N_FLAGS, np.int64)).run(1)
    return outs.sum(axis=0)


@cache
def _excluded(form):
    def product(params, positions, box, exclusions, v):
        def energy(x):
            return nonbonded_energy.excluded(form, params, x, box, exclusions)

        return core.hvp(energy, (positions,), (v,))

    return core.jit(product)


@cache
def _wave_vectors(form):
    def product(params, positions, box, v):
        return core.hvp(lambda x: nonbonded_energy.reciprocal(form, params, x, box), (positions,), (v,))

    return core.jit(product)
