"""Derivatives of `GB` by its parameters, and Hessian-vector products by positions and parameters, from compiled kernels.

The energy is a function of atoms alone at given Born radii, plus sums over pairs. What is a sum over pairs comes from
kernels; what each atom does with its own sums, from compiled derivatives of the pure form.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from triskele import core
from triskele.core.extend import Task

from ...box import check_cutoff
from ...engine.flags import N_FLAGS
from ...engine.program import Phase, Program
from ...neighbors.pairs import find_pairs
from ...neighbors.rows import shared_rows
from ...units import COULOMB
from . import derivative_kernels, kernels
from .gb import PROBE, neck_weights, rescaled
from .plan import GBPlan, atom_table, constants_of
from .tables import Model, neck_tables

if TYPE_CHECKING:
    from ...engine.engine import Engine
    from .gb import GB

__all__ = ["gradients", "parameter_product"]

_CHUNK_PAIRS = 8000  # some 200 us
_MOST_CHUNKS = 32


class _Rows(NamedTuple):
    """Arguments of the kernels that say which pairs there are."""

    limit: float  # square of the cut-off
    xs: np.ndarray
    entries: np.ndarray
    counts: np.ndarray
    rows: np.ndarray
    box: np.ndarray
    periodic: bool


def gradients(potential: GB, engine: Engine) -> dict[str, np.ndarray]:
    """Derivatives of the energy by all parameters at what `engine` has last computed.

    Parameters
    ----------
    potential : GB
    engine : Engine
        One that has the plan of `potential`.

    Returns
    -------
    dict of arrays
        Like ``potential.params``.
    """
    plan, params, n = engine.plans[potential.name], potential.params, engine.n
    assert isinstance(plan, GBPlan)
    if potential.cutoff is None:
        rows = _every_pair(engine.positions)
    else:
        listed = shared_rows(engine, potential.cutoff)
        rows = _Rows(potential.cutoff**2, listed.xs, listed.atoms, listed.counts, listed.rows, np.eye(3), False)
    constants, results = constants_of(potential), np.zeros((5, n))
    _run(derivative_kernels.slopes, rows, plan.atoms, *_necks(potential.constants, params["radii"]), constants, results)
    by_charge, by_born, *slopes = results
    still, nothing = {name: np.zeros_like(values) for name, values in params.items()}, np.zeros(n)
    integrals = plan.atoms[kernels.INTEGRAL, :n].copy()
    (found, _), _ = _alone(potential.constants)(params, integrals, by_born, constants, still, nothing, nothing)
    return _by_params(params, potential.constants, found, by_charge, *slopes)


def parameter_product(potential: GB, params: dict[str, np.ndarray], positions: np.ndarray, box: Any,
                      moves: dict[str, np.ndarray],
                      v: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The Hessian of ``potential.energy`` by parameters and positions times `moves` and `v`.

    Parameters
    ----------
    potential : GB
        Its form.
    params : dict of arrays
        As ``potential.params``.
    positions, v : (n, 3) float64, nm
        Positions, and the vector's part of them.
    box : (3, 3) float64, nm, or None
        Box vectors in rows.
    moves : dict of arrays
        The vector's part of the parameters, of the shapes of `params`.

    Returns
    -------
    by_param : dict of arrays
        Like `params`.
    by_position : (n, 3) float64
    """
    n, model, constants = len(positions), potential.constants, constants_of(potential)
    rows = _rows(potential.cutoff, positions, box)
    atoms, tangents = atom_table(model, params), np.zeros((kernels.ATOM_ROWS, -(-n // 8) * 8))
    rho, rho_t = params["radii"] - model.offset, moves["radii"]
    tangents[:3, :n] = v.T
    tangents[[kernels.CHARGE, kernels.RHO, kernels.SCREEN, kernels.RADIUS], :n] = [
        moves["charges"], rho_t, moves["scales"] * rho + params["scales"] * rho_t, rho_t]
    necks = _necks(model, params["radii"])
    integrals = np.zeros((2, n))
    _run(derivative_kernels.integral_moves, rows, atoms, tangents, *necks, constants, integrals)
    atoms[kernels.BORN, :n], tangents[kernels.BORN, :n] = _born(model)(params, integrals[0], moves, integrals[1])
    results = np.zeros((derivative_kernels.N_RESULTS, n))
    _run(derivative_kernels.pair_products, rows, atoms, tangents, constants, results)
    by_born, by_born_t = results[5:7].copy()
    first, second = _alone(model)(params, integrals[0], by_born, constants, moves, integrals[1], by_born_t)
    atoms[kernels.BY_INTEGRAL, :n], tangents[kernels.BY_INTEGRAL, :n] = first[1], second[1]
    _run(derivative_kernels.integral_products, rows, atoms, tangents, *necks, constants, results)
    by_charge_t, by_rho_t, by_screen, by_screen_t, by_radius_t = results[[4, 8, 9, 10, 12]]
    found = _by_params(params, model, second[0], by_charge_t, by_rho_t, by_screen_t, by_radius_t)
    found["radii"] += moves["scales"] * by_screen
    found["scales"] += rho_t * by_screen
    return found, results[:3].T.copy()


def _by_params(params, model, alone, by_charge, by_rho, by_screen, by_radius):
    """Derivatives by parameters from those of atoms alone and by the kernels' quantities."""
    found = {name: np.array(values) for name, values in alone.items()}
    found["charges"] += by_charge
    found["radii"] += by_rho + params["scales"] * by_screen + by_radius
    found["scales"] += (params["radii"] - model.offset) * by_screen
    return found


# ------------------------------------------------------------------------------------------------------- atoms alone
@cache
def _born(model: Model):
    """Born radii and their tangents, from the sums of integrals."""

    def both(params, integrals, moves, tangents):
        return core.jvp(lambda params, integrals: rescaled(model, params, integrals), (params, integrals),
                        (moves, tangents))

    return core.jit(both)


@cache
def _alone(model: Model):
    """Derivatives by parameters and sums of integrals of what atoms contribute alone and through their Born radii, by
    which pairs have the derivatives `by_born`; and those derivatives along a move.
    """

    def energy(params, integrals, by_born, constants):
        born = rescaled(model, params, integrals)
        q, radii = params["charges"], params["radii"]
        screened = constants[kernels.SOLUTE] - np.exp(-constants[kernels.KAPPA] * born) * constants[kernels.SOLVENT]
        surface = constants[kernels.TENSION] * (radii + PROBE) ** 2 * (radii / born) ** 6
        return np.sum(by_born * born - 0.5 * COULOMB * q * q * screened / born + surface)

    def both(params, integrals, by_born, constants, moves, *tangents):
        return core.jvp(lambda *x: core.grad(energy, (0, 1))(*x, constants), (params, integrals, by_born),
                        (moves, *tangents))

    return core.jit(both)


# --------------------------------------------------------------------------------------------------------------- pairs
def _run(kernel, rows, *arguments):
    n = arguments[-1].shape[1]
    chunks = int(np.clip(int(rows.counts[:n].sum()) // _CHUNK_PAIRS, 1, _MOST_CHUNKS))
    task = Task(kernel, chunks, n, *rows, *arguments, chunks=chunks)
    Program([Phase([task], name="derivatives of GB")], np.zeros(N_FLAGS, np.int64)).run(1)


def _rows(cutoff, positions, box):
    if cutoff is None:
        return _every_pair(positions)
    if box is not None:
        check_cutoff("GB", cutoff, box)
    pairs = find_pairs(positions, box, cutoff, np.zeros((0, 2), np.int64))
    n = len(positions)
    width = int(np.bincount(pairs.reshape(-1), minlength=1).max())
    counts, rows = np.zeros(n, np.int64), np.zeros((n, width // 8 * 8 + 8), np.int32)
    derivative_kernels.fill_rows(pairs, counts, rows)
    return _Rows(cutoff**2, _blocks(positions), np.arange(n, dtype=np.int32), counts, rows,
                 np.eye(3) if box is None else box, box is not None)


def _every_pair(positions):
    """One row for all atoms."""
    n = len(positions)
    row = np.zeros((1, -(-n // 8) * 8), np.int32)
    row[0, :n] = entries = np.arange(n, dtype=np.int32)
    return _Rows(np.inf, _blocks(positions), entries, np.full(n, n), row, np.eye(3), False)


def _blocks(positions):
    """Coordinates in blocks x y z 0."""
    return np.pad(positions, ((0, 0), (0, 1))).reshape(-1)


def _necks(model, radii):
    """The kind of each atom, and the tables of necks between kinds [t, t, 8] as `derivative_kernels` numbers them."""
    padded = np.zeros(-(-len(radii) // 8) * 8, np.int64)
    if not model.neck:
        return padded, np.zeros((1, 1, 8))
    kinds, padded[: len(radii)] = np.unique(radii, return_inverse=True)
    weights, slopes = core.jvp(neck_weights, (kinds,), (np.ones_like(kinds),))
    return padded, np.stack([a @ table @ b.T for table in neck_tables() for a, b in (
        (weights, weights), (slopes, weights), (weights, slopes), (slopes, slopes))], axis=-1)
