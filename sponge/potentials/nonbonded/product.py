"""Hessian-vector products of `Nonbonded`, by positions and by parameters, for all methods and mixing rules, from
compiled kernels.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from triskele import core
from triskele.core.extend import Task

from ... import box as boxes
from ...engine.flags import N_FLAGS
from ...engine.program import Phase, Program
from ...neighbors.pairs import find_pairs
from ...pme import energy as mesh_energy
from ...pme.product import reciprocal_product
from ...units import COULOMB
from ..pairs.mixing import root
from . import energy as nonbonded_energy
from . import product_kernels as kernels

if TYPE_CHECKING:
    from .nonbonded import Nonbonded

__all__ = ["hessian_product", "parameter_gradient", "parameter_product"]

_CHUNK_PAIRS = 1 << 15  # some 4 ms
_MOST_CHUNKS = 8  # each has an array of its own
_kept_pairs: WeakKeyDictionary[Nonbonded, Any] = WeakKeyDictionary()
_MIXING = {"lorentz_berthelot": 0, "geometric": 1, "table": 2}


def hessian_product(potential: Nonbonded, params: dict[str, np.ndarray],
                    positions: np.ndarray, box: Any,  # (n, 3) nm; (3, 3) nm or None
                    v: np.ndarray) -> np.ndarray:
    """Return the Hessian of ``potential.energy`` by positions times `v`: (n, 3), in kJ/mol/nm^2 times the unit of `v`.

    Only the form and the exclusions of `potential` are used.
    """
    potential.check_box(box)
    form = potential.form(box)
    out = _pairs(potential, form, params, positions, box, v, _near(potential, form, positions, box))
    if form.method == "ewald":
        out += _wave_vectors(form)(params, positions, box, v)
    elif form.alpha:
        for influence, charges, alpha, grid, order in _meshes(form, params):
            out += reciprocal_product(influence, charges, positions, v, box, alpha, grid, order)[0]
    if form.alpha and len(potential.exclusions):
        out += _excluded(form)(params, positions, box, potential.exclusions.astype(np.int64), v)
    return out


def parameter_product(potential: Nonbonded, params: dict[str, np.ndarray], positions: np.ndarray, box: Any,
                      moves: dict[str, np.ndarray],  # the vector's part of the parameters, in the shapes of `params`
                      v: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the Hessian of ``potential.energy`` by parameters and positions times `moves` and `v`.

    The result is a dict like `params`, and an array (n, 3) by positions.
    """
    return _products(potential, params, positions, box, moves, v)[1:]


def parameter_gradient(potential: Nonbonded, params: dict[str, np.ndarray], positions: np.ndarray,
                       box: Any) -> dict[str, np.ndarray]:
    """Return derivatives of ``potential.energy`` by all parameters, by one pass over explicit pairs."""
    still = {name: np.zeros_like(values) for name, values in params.items()}
    return _products(potential, params, positions, box, still, np.zeros_like(positions))[0]


def _meshes(form, params):
    """Influence function, charges, and options of each mesh."""
    found = [(mesh_energy.coulomb_influence, params["charges"], form.alpha, form.grid, form.order)]
    if form.lj_alpha:
        found.append((mesh_energy.dispersion_influence, _roots(params), form.lj_alpha, form.lj_grid, form.order))
    return found


def _products(potential, params, positions, box, moves, v):
    """Derivatives by parameters, and the derivatives of the gradient by parameters and positions along a move."""
    potential.check_box(box)
    form = potential.form(box)
    own, own_moves = _of_atoms(form, params, moves)
    out, by_atom, by_type = _parameter_pairs(potential, form, own, own_moves, params, moves, positions, box, v)
    if form.alpha and form.method != "ewald":
        columns = kernels.CHARGE, kernels.ROOT
        for column, (influence, charges, alpha, grid, order) in zip(columns, _meshes(form, params)):
            scale = np.sqrt(COULOMB) if column == kernels.CHARGE else 1.0  # of the column
            changes = own_moves[:, column] / scale
            more, by_charge = reciprocal_product(influence, charges, positions, v, box, alpha, grid, order, changes)
            out += more
            by_atom[:, column] += (by_charge + _constants(column, np.stack([charges, changes]), alpha, box)).T / scale
    slopes, along = _of_params(form, own, own_moves, by_atom, by_type)
    if form.alpha or form.dispersion:
        args = params, positions, box, potential.exclusions.astype(np.int64), potential.types, moves, v
        first, (by_param, by_position) = _rest(form)(*args)
        out += by_position
        for name in params:
            slopes[name] += first[name]
            along[name] += by_param[name]
    return slopes, along, out


def _of_atoms(form, params, moves):
    """The kernel's parameters of atoms (n, 4) and their moves."""
    charges = np.sqrt(COULOMB) * params["charges"], np.sqrt(COULOMB) * moves["charges"]
    own, own_moves = np.zeros((2, len(charges[0]), 4))
    own[:, kernels.CHARGE], own_moves[:, kernels.CHARGE] = charges
    if form.mixing != "table":
        size, move, e, depth = params["sigmas"], moves["sigmas"], moves["epsilons"], root(params["epsilons"])
        deep = np.where(depth > 0, e, 0.0) / (2 * np.where(depth > 0, depth, 1.0))
        own[:, kernels.SIZE], own_moves[:, kernels.SIZE] = size, move
        own[:, kernels.DEPTH], own_moves[:, kernels.DEPTH] = depth, deep
        own[:, kernels.ROOT] = 2 * depth * size**3
        own_moves[:, kernels.ROOT] = 2 * deep * size**3 + 6 * depth * size**2 * move
    return own, own_moves


def _of_params(form, own, own_moves, by_atom, by_type):
    """From derivatives by the kernel's parameters those by the potential's own, and their derivatives along a move."""
    found = {"charges": np.sqrt(COULOMB) * by_atom[:, kernels.CHARGE]}
    if form.mixing == "table":
        found["a"], found["b"] = by_type
    else:
        size, depth = own[:, kernels.SIZE], own[:, kernels.DEPTH]
        move, deep = own_moves[:, kernels.SIZE], own_moves[:, kernels.DEPTH]
        by_size, by_depth, by_root = (by_atom[:, k] for k in (kernels.SIZE, kernels.DEPTH, kernels.ROOT))
        # roots are 2 depth size^3
        by_depth = by_depth + 2 * size[:, None] ** 3 * by_root
        by_depth[:, 1] += 6 * size**2 * move * by_root[:, 0]
        by_size = by_size + 6 * (depth * size**2)[:, None] * by_root
        by_size[:, 1] += (6 * deep * size**2 + 12 * depth * size * move) * by_root[:, 0]
        # depths are roots of epsilons
        some = depth > 0
        safe = np.where(some, depth, 1.0)
        by_epsilon = by_depth / (2 * safe[:, None])
        by_epsilon[:, 1] -= by_depth[:, 0] * deep / (2 * safe**2)
        found["sigmas"], found["epsilons"] = by_size, np.where(some[:, None], by_epsilon, 0.0)
    return tuple({name: np.ascontiguousarray(values[..., k]) for name, values in found.items()} for k in (0, 1))


def _constants(column, charges, alpha, box):
    """Derivatives of self energies and background by charges, which are linear: of the rows of `charges`."""
    if column == kernels.ROOT:
        return alpha**6 / 6 * charges
    background = np.pi / (alpha**2 * np.linalg.det(box)) * charges.sum(axis=1, keepdims=True)
    return -COULOMB * (2 * alpha / np.sqrt(np.pi) * charges + background)


@cache
def _rest(form):
    """Derivatives of what excluded pairs, the tail and wave vectors contribute, by parameters, and along a move."""

    def both(params, positions, box, exclusions, types, moves, v):
        def energy(params, x):
            e = 0.0 * params["charges"][0]
            if form.alpha:
                e = e + nonbonded_energy.excluded(form, params, x, box, exclusions)
            if form.method == "ewald":
                e = e + nonbonded_energy.reciprocal(form, params, x, box)
            if form.dispersion:
                e = e + nonbonded_energy.long_range_dispersion(form, params, types) / boxes.volume(box)
            return e

        (first, _), second = core.jvp(core.grad(energy, (0, 1)), (params, positions), (moves, v))
        return first, second

    return both


def _numbers(form):
    numbers = np.zeros(kernels.N_NUMBERS)
    numbers[[kernels.ALPHA, kernels.K_RF, kernels.SWITCH, kernels.CUTOFF, kernels.LJ_ALPHA, kernels.C_RF]] = [
        form.alpha, form.k_rf, form.switch or 0.0, form.cutoff or 0.0, form.lj_alpha, form.c_rf]
    return numbers


def _chunks(pairs):
    return int(np.clip(len(pairs) // _CHUNK_PAIRS, 1, _MOST_CHUNKS))


def _parameter_pairs(potential, form, own, own_moves, params, moves, positions, box, v):
    pairs = _near(potential, form, positions, box)
    types, tables, table_moves = np.zeros(0, np.int64), np.zeros((2, 0, 0)), np.zeros((2, 0, 0))
    if form.mixing == "table":
        types = potential.types.astype(np.int64)
        tables, table_moves = (np.stack([values["a"], values["b"]]) for values in (params, moves))
    periodic, chunks = box is not None and form.cutoff is not None, _chunks(pairs)
    outs, by_atom = np.zeros((chunks, *positions.shape)), np.zeros((chunks, *own.shape, 2))
    by_type = np.zeros((chunks, *tables.shape, 2))
    task = Task(kernels.parameter_product, pairs, positions, v, box if periodic else np.eye(3), periodic, own,
                own_moves, _MIXING[form.mixing], types, tables, table_moves, _numbers(form), outs, by_atom, by_type,
                chunks=chunks)
    Program([Phase([task], name="Hessian of pairs")], np.zeros(N_FLAGS, np.int64)).run(1)
    return outs.sum(axis=0), by_atom.sum(axis=0), by_type.sum(axis=0)


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
    nothing, table = np.zeros(0), np.zeros((0, 0))
    size, depth, types, a, b = nothing, nothing, np.zeros(0, np.int64), table, table
    if form.mixing == "table":
        types, a, b = potential.types.astype(np.int64), params["a"], params["b"]
    else:
        size, depth = params["sigmas"], np.sqrt(params["epsilons"])
    periodic = box is not None and form.cutoff is not None
    chunks = _chunks(pairs)
    outs = np.zeros((chunks, *positions.shape))
    task = Task(kernels.pair_product, pairs, positions, v, box if periodic else np.eye(3), periodic,
                np.sqrt(COULOMB) * params["charges"], size, depth, _roots(params) if form.lj_alpha else nothing,
                _MIXING[form.mixing], types, a, b, _numbers(form), outs, chunks=chunks)
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
