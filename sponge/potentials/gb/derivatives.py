"""Derivatives of `GB` by its parameters, and Hessian-vector products by positions and parameters, from kernels.

Kernels do the sums over pairs: integrals, energies at given Born radii, and their derivatives. What follows for an atom
from its own sums comes from compiled derivatives of the pure form.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from triskele import core
from triskele.core.extend import Task

from ...box import check_cutoff
from ...engine.flags import N_FLAGS
from ...engine.program import Phase, Program
from ...neighbors.rows import shared_rows
from ...units import COULOMB
from . import derivative_kernels as derived
from . import kernels
from .gb import PROBE, neck_weights, rescaled
from .plan import GBPlan, atom_table, constants_of
from .tables import Model, neck_tables

if TYPE_CHECKING:
    from ...engine.engine import Engine
    from .gb import GB

__all__ = ["gradients", "parameter_product"]

_CHUNK_PAIRS = 8000  # some 200 us
_MOST_CHUNKS = 32
_USUAL_DENSITY = 130  # atoms in a nm^3, a guess that grows where it is not enough


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
    """Return derivatives of the energy by all parameters, like ``potential.params``.

    They are those of the last evaluation of `engine`, which must have the plan of `potential`.
    """
    plan: GBPlan = engine.plans[potential.name]
    params, n = potential.params, engine.n
    if potential.cutoff is None:
        rows = _every_pair(engine.positions)
    else:
        listed = shared_rows(engine, potential.cutoff)
        rows = _Rows(potential.cutoff**2, listed.xs, listed.atoms, listed.counts, listed.rows, np.eye(3), False)
    model, constants, results = potential.constants, constants_of(potential), np.zeros((derived.N_RESULTS, n))
    _run(derived.slopes, rows, plan.atoms, *_necks(model, params["radii"]), constants, results)
    still, nothing = {name: np.zeros_like(values) for name, values in params.items()}, np.zeros(n)
    integrals, by_born = plan.atoms[kernels.INTEGRAL, :n], results[derived.BORN_SLOPE]
    (alone, _), _ = _alone(model)(params, integrals, by_born, constants, still, nothing, nothing)
    return _by_params(params, model, alone, results)


def parameter_product(
    potential: GB,
    params: dict[str, np.ndarray],
    positions: np.ndarray,
    box: Any,  # (n, 3) nm; (3, 3) nm or None
    moves: dict[str, np.ndarray],  # the vector's part of the parameters, in the shapes of `params`
    v: np.ndarray,
) -> tuple[dict[str, np.ndarray], np.ndarray]:  # (n, 3) nm: of the positions
    """Return the Hessian of ``potential.energy`` by parameters and positions times `moves` and `v`.

    The result is a dict like `params`, and an array (n, 3) by positions.
    """
    n, model, constants = len(positions), potential.constants, constants_of(potential)
    rows = _rows(potential.cutoff, positions, box)
    atoms, tangents = atom_table(model, params), np.zeros((kernels.ATOM_ROWS, -(-n // 8) * 8))
    rho, rho_t = params["radii"] - model.offset, moves["radii"]
    tangents[:3, :n] = v.T
    tangents[[kernels.CHARGE, kernels.RHO, kernels.SCREEN, kernels.RADIUS], :n] = [
        moves["charges"],
        rho_t,
        moves["scales"] * rho + params["scales"] * rho_t,
        rho_t,
    ]
    necks = _necks(model, params["radii"])
    integrals = np.zeros((2, n))
    _run(derived.integral_moves, rows, atoms, tangents, *necks, constants, integrals)
    atoms[kernels.BORN, :n], tangents[kernels.BORN, :n] = _born(model)(params, integrals[0], moves, integrals[1])
    results = np.zeros((derived.N_RESULTS, n))
    _run(derived.pair_products, rows, atoms, tangents, constants, results)
    by_born, by_born_t = results[derived.BORN_SLOPE : derived.BORN_SLOPE + 2]
    first, second = _alone(model)(params, integrals[0], by_born, constants, moves, integrals[1], by_born_t)
    atoms[kernels.BY_INTEGRAL, :n], tangents[kernels.BY_INTEGRAL, :n] = first[1], second[1]
    _run(derived.integral_products, rows, atoms, tangents, *necks, constants, results)
    by_screen = results[derived.SCREEN_SLOPE]
    found = _by_params(params, model, second[0], results[1:])  # each row's derivative along the move follows it
    found["radii"] += moves["scales"] * by_screen
    found["scales"] += rho_t * by_screen
    return found, results[:3].T.copy()


def _by_params(params, model, alone, results):
    """Derivatives by parameters from those of atoms alone and rows of results."""
    found = {name: np.array(values) for name, values in alone.items()}
    found["charges"] += results[derived.CHARGE_SLOPE]
    found["radii"] += (
        results[derived.RHO_SLOPE] + params["scales"] * results[derived.SCREEN_SLOPE] + results[derived.RADIUS_SLOPE]
    )
    found["scales"] += (params["radii"] - model.offset) * results[derived.SCREEN_SLOPE]
    return found


# ------------------------------------------------------------------------------------------------------- atoms alone
@cache
def _born(model: Model):
    """Born radii and their tangents, from the sums of integrals."""

    def both(params, integrals, moves, tangents):
        return core.jvp(
            lambda params, integrals: rescaled(model, params, integrals), (params, integrals), (moves, tangents)
        )

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

    def both(params, integrals, by_born, constants, moves, integrals_t, by_born_t):
        def slopes(params, integrals, by_born):
            return core.grad(energy, (0, 1))(params, integrals, by_born, constants)

        return core.jvp(slopes, (params, integrals, by_born), (moves, integrals_t, by_born_t))

    return core.jit(both)


# --------------------------------------------------------------------------------------------------------------- pairs
def _run(kernel, rows, *arguments):
    n = len(rows.counts)
    chunks = int(np.clip(int(rows.counts.sum()) // _CHUNK_PAIRS, 1, _MOST_CHUNKS))
    task = Task(kernel, chunks, n, *rows, *arguments, chunks=chunks)
    Program([Phase([task], name="derivatives of GB")], np.zeros(N_FLAGS, np.int64)).run(1)


def _rows(cutoff, positions, box):
    every = _every_pair(positions)
    if cutoff is None:
        return every
    if box is not None:
        check_cutoff("GB", cutoff, box)
        every = every._replace(box=box, periodic=True)
    n, needed = len(positions), int(_USUAL_DENSITY * 4.19 * cutoff**3)
    every, counts, width = every._replace(limit=cutoff**2), np.zeros(n, np.int64), 0
    while needed + 8 > width:
        width = min(needed, n) // 8 * 8 + 16
        near = np.zeros((n, width), np.int32)
        _run(derived.search, every, counts, near)
        needed = int(counts.max(initial=0))
    return every._replace(counts=counts, rows=near)


def _every_pair(positions):
    """One row for all atoms."""
    n = len(positions)
    row = np.zeros((1, -(-n // 8) * 8), np.int32)
    row[0, :n] = entries = np.arange(n, dtype=np.int32)
    xs = np.zeros((row.shape[1], 4))  # of padding too, whose numbers `search` may leave behind the end of a row
    xs[:n, :3] = positions
    return _Rows(np.inf, xs.reshape(-1), entries, np.full(n, n), row, np.eye(3), False)


def _necks(model, radii):
    """The kernels' tables of necks at the radius of each atom, and the entries and weights that others take of them."""
    n = len(radii) if model.neck else 1
    lines, starts, knots = np.zeros((n, 8, derived.N_KNOTS)), np.zeros(n, np.int64), np.zeros((6, n))
    if model.neck:
        weights, slopes = core.jvp(neck_weights, (radii,), (np.ones_like(radii),))  # at knots too as the pure form's
        d0, m0 = neck_tables()
        for k, (table, side) in enumerate(itertools.product((d0, m0), (weights, slopes))):
            lines[:, k, 1:-1], lines[:, 4 + k, 1:-1] = side @ table, side @ table.T
        # the knot below, that of the radius, or the two around it, and the next; one more to both sides of the tables
        starts[:] = np.minimum(np.searchsorted(np.arange(21.0), (radii - 0.1) / 0.005), 20)
        at = starts[:, None] + np.arange(3)
        both = np.pad([weights, slopes], ((0, 0), (0, 0), (1, 1)))
        knots[:] = np.take_along_axis(both, at[None], 2).swapaxes(1, 2).reshape(6, n)
    return lines, starts, knots
