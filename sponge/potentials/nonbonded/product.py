"""Hessian-vector products of `Nonbonded`, by positions and by parameters, for all methods and mixing rules, from
compiled kernels.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from triskele import core
from triskele.core.extend import Elementwise, Task

from ... import box as boxes
from ...engine.flags import N_FLAGS
from ...engine.program import Phase, Program
from ...neighbors.pairs import find_pairs
from ...pme import energy as mesh_energy
from ...pme.product import reciprocal_product
from ...units import COULOMB
from ..pairs.mixing import root
from . import energy as nonbonded_energy
from .product_kernels import product_kernel

if TYPE_CHECKING:
    from .nonbonded import Nonbonded

__all__ = ["hessian_product", "parameter_gradient", "parameter_product"]

_CHUNK_PAIRS = 1 << 15  # some 4 ms
_MOST_CHUNKS = 8  # each has an array of its own
_kept_pairs: WeakKeyDictionary[Nonbonded, Any] = WeakKeyDictionary()
_NUMBERS = ("alpha", "k_rf", "c_rf", "switch", "cutoff", "lj_alpha")  # of a form; the kernels hold for all of them


def hessian_product(
    potential: Nonbonded,
    params: dict[str, np.ndarray],
    positions: np.ndarray,
    box: Any,  # (n, 3) nm; (3, 3) nm or None
    v: np.ndarray,
) -> np.ndarray:
    """Return the Hessian of ``potential.energy`` by positions times `v`: (n, 3), in kJ/mol/nm^2 times the unit of `v`.

    Only the form and the exclusions of `potential` are used.
    """
    potential.check_box(box)
    form = potential.form(box)
    columns = _columns(form.mixing == "table", bool(form.lj_alpha))(params)
    out, _ = _pairs(potential, form, columns, tuple(map(np.zeros_like, columns)), positions, box, v, False)
    if form.method == "ewald":
        out += _wave_vectors(form)(params, positions, box, v)
    elif form.alpha:
        for influence, charges, alpha, grid, order in _meshes(form, params):
            out += reciprocal_product(influence, charges, positions, v, box, alpha, grid, order)[0]
    if form.corrects and len(potential.exclusions):
        out += _excluded(form)(params, positions, box, potential.exclusions.astype(np.int64), v)
    return out


def parameter_product(
    potential: Nonbonded,
    params: dict[str, np.ndarray],
    positions: np.ndarray,
    box: Any,
    moves: dict[str, np.ndarray],  # the vector's part of the parameters, in the shapes of `params`
    v: np.ndarray,
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the Hessian of ``potential.energy`` by parameters and positions times `moves` and `v`.

    The result is a dict like `params`, and an array (n, 3) by positions.
    """
    return _products(potential, params, positions, box, moves, v)[1:]


def parameter_gradient(
    potential: Nonbonded, params: dict[str, np.ndarray], positions: np.ndarray, box: Any
) -> dict[str, np.ndarray]:
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
    columns, changes = core.jvp(_columns(form.mixing == "table", bool(form.lj_alpha)), (params,), (moves,))
    out, by = _pairs(potential, form, columns, changes, positions, box, v, True)
    by += [np.zeros((*x.shape, 2)) for x in columns[2:]]
    if form.alpha and form.method != "ewald":
        for k, (influence, charges, alpha, grid, order) in zip((0, 2), _meshes(form, params)):
            change = changes[k][:, 0]
            more, by_charge = reciprocal_product(influence, charges, positions, v, box, alpha, grid, order, change)
            out += more
            by[k][:, 0] += (by_charge + _constants(k, np.stack([charges, change]), alpha, box)).T
    slopes, along = _of_params(form.mixing == "table", bool(form.lj_alpha))(params, moves, by)
    if form.corrects or form.dispersion:
        args = params, positions, box, potential.exclusions.astype(np.int64), potential.types, moves, v
        first, (by_param, by_position) = _rest(form)(*args)
        out += by_position
        for name in params:
            slopes[name] += first[name]
            along[name] += by_param[name]
    return slopes, along, out


@cache
def _columns(table, mesh):
    """The function from parameters to columns of the pair kernels: charges of atoms; sigmas and roots of epsilons of
    atoms, or with a table a and b of pairs of types; and roots of C6 where a mesh sums dispersion.
    """

    def columns(params):
        """Columns of all rows."""
        if table:
            own = np.stack([np.reshape(params[key], (-1,)) for key in ("a", "b")], axis=1)
        else:
            own = np.stack([params["sigmas"], root(params["epsilons"])], axis=1)
        return (params["charges"][:, None], own, *((_roots(params)[:, None],) if mesh else ()))

    return columns


@cache
def _of_params(table, mesh):
    """From derivatives by columns, and these along a move, to those by parameters."""

    def pulled(params, by):
        """Derivatives by parameters."""
        return core.vjp(_columns(table, mesh), params)[1](by)[0]

    return core.jit(
        lambda params, moves, by: core.jvp(
            pulled, (params, tuple(x[..., 0] for x in by)), (moves, tuple(x[..., 1] for x in by))
        )
    )


def _constants(k, charges, alpha, box):
    """Derivatives of self energies and background by the charges of mesh `k`, which are linear: of the rows of
    `charges`.
    """
    if k:  # dispersion
        return alpha**6 / 6 * charges
    background = np.pi / (alpha**2 * np.linalg.det(box)) * charges.sum(axis=1, keepdims=True)
    return -COULOMB * (2 * alpha / np.sqrt(np.pi) * charges + background)


@cache
def _rest(form):
    """Derivatives of what excluded pairs, the tail and wave vectors contribute, by parameters, and along a move."""

    def both(params, positions, box, exclusions, types, moves, v):
        def energy(params, x):
            e = 0.0 * params["charges"][0]
            if form.corrects:
                e = e + nonbonded_energy.excluded(form, params, x, box, exclusions)
            if form.method == "ewald":
                e = e + nonbonded_energy.reciprocal(form, params, x, box)
            if form.dispersion:
                e = e + nonbonded_energy.long_range_dispersion(form, params, types) / boxes.volume(box)
            return e

        (first, _), second = core.jvp(core.grad(energy, (0, 1)), (params, positions), (moves, v))
        return first, second

    return both


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
    return 2 * root(params["epsilons"]) * params["sigmas"] ** 3


@cache
def _kernel(form, moving):
    """The kernel for all forms that differ in numbers alone."""

    def formula(function, *columns):
        """The function of numbers, too."""

        def energy(r2, *args):
            """Energy of a pair."""
            split = 2 * len(columns)
            return function(form, SimpleNamespace(**dict(zip(_NUMBERS, args[split:]))), r2, *args[:split])

        energy.__name__ = energy.__qualname__ = function.__name__
        return Elementwise(energy, ("r2", *(f"{name}_{atom}" for atom in "ij" for name in columns), *_NUMBERS))

    return product_kernel(
        formula(nonbonded_energy.coulomb, "charge"),
        formula(nonbonded_energy.lennard_jones, "first", "second"),
        len(_NUMBERS),
        moving,
    )


def _pairs(potential, form, columns, changes, positions, box, v, moving):
    """The gradient's derivative along a move (n, 3) and, if parameters move too, derivatives by columns (rows, columns,
    2), of explicit pairs.
    """
    pairs, n = _near(potential, form, positions, box), len(positions)
    periodic = box is not None and form.cutoff is not None
    chunks = int(np.clip(len(pairs) // _CHUNK_PAIRS, 1, _MOST_CHUNKS))
    numbers = np.array([getattr(form, key) or 0.0 for key in _NUMBERS])
    kernel = _kernel(
        replace(
            form, **{key: 1.0 for key in _NUMBERS if getattr(form, key)}, grid=None, lj_grid=None, wave_vectors=None
        ),
        moving,
    )
    kinds, stride = np.arange(n), 0
    if form.mixing == "table":
        kinds, stride = potential.types.astype(np.int64), math.isqrt(len(columns[1]))
    params, moves = (
        np.concatenate([np.pad(charges, ((0, 0), (0, 1))), own]) for charges, own, *_ in (columns, changes)
    )
    outs, by = np.zeros((chunks, n, 3)), np.zeros((chunks, len(params) * moving, 2, 2))
    task = Task(
        kernel,
        pairs,
        positions,
        v,
        box if periodic else np.eye(3),
        periodic,
        kinds,
        stride,
        params,
        moves,
        numbers,
        outs,
        by,
        chunks=chunks,
    )
    Program([Phase([task], name="Hessian of pairs")], np.zeros(N_FLAGS, np.int64)).run(1)
    total = by.sum(axis=0)
    return outs.sum(axis=0), [total[:n, :1], total[n:]]


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
