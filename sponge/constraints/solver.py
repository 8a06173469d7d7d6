"""The tasks that keep an engine's constraints, made from the kinds that its system has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from triskele.core.extend import Task

from ..engine.flags import NOT_CONVERGED, STATUS_INFO, STEP
from ..errors import ConstraintError
from .coupled import coupled_positions, coupled_velocities, elimination
from .partition import partition
from .settle import settle_positions, settle_velocities, water_parameters
from .stars import star_positions, star_velocities
from .vectors import LANES

if TYPE_CHECKING:
    from ..engine.engine import Engine

__all__ = ["Solver", "solver_of"]

_solvers: WeakKeyDictionary[Any, Solver] = WeakKeyDictionary()


def solver_of(engine: Engine) -> Solver:
    """The engine's solver; made once."""
    if engine not in _solvers:
        _solvers[engine] = Solver(engine)
    return _solvers[engine]


class Solver:
    """Keeps the constraints of an engine's system.

    `masses` (n,), by default the engine's, decide how far constraint forces move each atom.
    """

    def __init__(self, engine: Engine, masses: np.ndarray | None = None):
        self.chunks, self.flags = engine.atom_chunks, engine.flags
        # positions that fulfill the constraints, from which the tasks of `positions` take the directions of constraint
        # forces; whoever moves atoms puts their previous positions here
        self.old = np.zeros((engine.n, 3))
        self._positions, self._velocities = engine.positions, engine.velocities
        self._masses = engine.masses if masses is None else masses
        self._weights = engine.inverse_masses
        if masses is not None:
            self._weights = np.divide(1.0, masses, out=np.zeros(engine.n), where=masses > 0)
        parts = partition(engine.system, self._masses)
        self.count = len(parts.pairs)
        chunk_of = lambda atom: np.searchsorted(engine.atom_starts, atom, side="right") - 1
        self._waters = self._make_waters(parts, chunk_of) if len(parts.waters) else None
        self._stars = self._make_stars(parts, chunk_of) if len(parts.stars) else None
        self._rest = self._make_rest(parts, chunk_of) if parts.rest else None
        engine.on_status(NOT_CONVERGED, _raise_not_converged)

    def positions(self, inverse_dt: np.ndarray, tolerance: float) -> list[Task]:
        """Return tasks that restore the lengths in ``engine.positions`` after a move from `old`.

        `tolerance` is the relative error of the lengths. Velocities gain the displacement times `inverse_dt` (1,), in
        1/ps; 0 leaves them.
        """
        limit, tasks = np.array([tolerance]), []
        moving = (self.old, self._positions, self._velocities, inverse_dt, self.flags)
        if self._waters:
            tasks.append(Task(settle_positions, *self._waters, *moving, chunks=self.chunks))
        if self._stars:
            starts, sizes, atoms, squares, weights = self._stars
            tasks.append(
                Task(star_positions, starts, sizes, atoms, squares, weights, limit, *moving, chunks=self.chunks)
            )
        if self._rest:
            starts, tables, scratch = self._rest
            tasks.append(
                Task(coupled_positions, starts, tables, self._weights, *scratch, limit, *moving, chunks=self.chunks)
            )
        return tasks

    def velocities(self) -> list[Task]:
        """Tasks that take out of ``engine.velocities`` what would change the lengths at ``engine.positions``."""
        tasks, state = [], (self._positions, self._velocities)
        if self._waters:
            tasks.append(Task(settle_velocities, *self._waters, *state, chunks=self.chunks))
        if self._stars:
            starts, sizes, atoms, _, weights = self._stars
            tasks.append(Task(star_velocities, starts, sizes, atoms, weights, *state, chunks=self.chunks))
        if self._rest:
            starts, tables, scratch = self._rest
            tasks.append(Task(coupled_velocities, starts, tables, self._weights, *scratch, *state, chunks=self.chunks))
        return tasks

    def _make_waters(self, parts, chunk_of):
        masses = self._masses
        known, kinds = np.unique(
            np.column_stack([parts.water_lengths, masses[parts.waters], masses[parts.waters + 1]]),
            axis=0,
            return_inverse=True,
        )
        starts, groups, kinds = _groups(chunk_of(parts.waters), kinds.reshape(-1), self.chunks)
        return starts, parts.waters[groups].astype(np.int32), kinds, np.array([water_parameters(*k) for k in known])

    def _make_stars(self, parts, chunk_of):
        stars = parts.stars
        starts, groups, sizes = _groups(chunk_of(stars[:, 0]), (stars[:, 1:] >= 0).sum(1), self.chunks)
        atoms = stars[groups].transpose(0, 2, 1)  # [groups, 4, 8]
        missing = atoms < 0
        atoms = np.where(missing, atoms[:, :1], atoms)
        weights = np.where(missing, 0.0, self._weights[atoms])
        squares = np.zeros(atoms.shape)
        squares[:, 1:] = parts.star_lengths[groups].transpose(0, 2, 1) ** 2
        return starts, sizes, np.ascontiguousarray(atoms, np.int32), squares, np.ascontiguousarray(weights)

    def _make_rest(self, parts, chunk_of):
        chunk = chunk_of(np.array([parts.pairs[c[0], 0] for c in parts.rest]))
        order = np.argsort(chunk, kind="stable")
        tables = elimination([parts.rest[c] for c in order], parts.pairs, parts.lengths, self._weights)
        starts = np.searchsorted(chunk[order], np.arange(self.chunks + 1)).astype(np.int64)
        m = len(tables.pairs)
        return starts, tables, (np.zeros((m, 3)), np.zeros(m), np.zeros(m), np.zeros(len(tables.rows)))


def _groups(chunk, kinds, chunks):
    """Items of the same chunk and kind in groups of `LANES`, the last filled up by repeating an item.

    Returns the range of groups of each chunk [chunks + 1], items [groups, LANES], and kinds [groups].
    """
    order = np.lexsort((kinds, chunk))
    chunk, kinds = chunk[order], kinds[order]
    new = np.r_[True, (np.diff(chunk) != 0) | (np.diff(kinds) != 0)]
    first = np.flatnonzero(new)
    length = np.diff(np.r_[first, len(order)])
    per_run = -(-length // LANES)
    run = np.repeat(np.arange(len(first)), per_run)
    number = np.arange(len(run)) - np.repeat(np.cumsum(per_run) - per_run, per_run)
    item = np.minimum(number[:, None] * LANES + np.arange(LANES), length[run, None] - 1) + first[run, None]
    starts = np.searchsorted(chunk[first][run], np.arange(chunks + 1)).astype(np.int64)
    return starts, order[item], kinds[first][run].astype(np.int64)


def _raise_not_converged(engine: Engine) -> bool:
    atom = int(engine.flags[STATUS_INFO])
    pairs = engine.system.constraints.pairs
    mine = pairs[(pairs == atom).any(1)]
    others = np.unique(mine[mine != atom])
    describe = engine.system.topology.describe
    raise ConstraintError(
        f"step {engine.flags[STEP]}: constraints of {describe(atom)} with {', '.join(describe(a) for a in others)} "
        f"must be "
        "fulfilled, got no solution (forces or the time step are too large: minimize first, or take a smaller step)"
    )
