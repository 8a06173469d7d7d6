"""`Edges`: the neighbors of each atom within a cut-off, with vectors to them, from the cluster-pair list.

This is the form in which networks take a neighborhood: rows of fixed length, both directions of each pair, free places
filled with vectors that end beyond the cut-off. Excluded pairs of the system are neighbors like others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from triskele.core.extend import Task, device, kernel

from ..box import minimum_image
from ..engine.flags import STATUS, STATUS_INFO
from ..engine.program import Phase
from .neighbor_list import NeighborList
from .pairs import find_pairs
from .state import END, SHIFT, START, I

if TYPE_CHECKING:
    from ..engine.engine import Engine

__all__ = ["FULL", "Edges"]

FULL = 24  # status: an atom has more neighbors than a row has places; the information is the atom
_SPARE = 1.15  # places in a row, over the most neighbors that an atom has when the rows are made


@device
def _add(i, j, dx, dy, dz, counts, neighbors, vectors):
    """Note that (dx, dy, dz) leads from i to j; places beyond the row's end are counted only."""
    n = counts[i]
    if n < neighbors.shape[1]:
        neighbors[i, n] = j
        vectors[i, n, 0], vectors[i, n, 1], vectors[i, n, 2] = dx, dy, dz
    counts[i] = n + 1


@kernel(nogil=True)
def clear(chunk, counts):
    counts[:] = 0


@kernel(nogil=True)
def add_listed(chunk, positions, box, periodic, cutoff, rows, images, turns, atoms, entries, n_entries, pairs, masks,
               counts,
               neighbors, vectors):
    """Pairs of one list of cluster pairs; rows[atom] is the atom's row, or -1."""
    cutoff2 = cutoff * cutoff
    for c in range(entries.shape[0]):
        for e in range(n_entries[c]):
            entry = entries[c, e]
            first, image = 4 * entry[I], entry[SHIFT]
            for k in range(entry[START], entry[END]):
                second, mask = 4 * pairs[c, k], masks[c, k]
                for lane in range(16):
                    if not mask >> lane & 1:
                        continue
                    a, b = atoms[first + lane // 4], atoms[second + lane % 4]
                    if a < 0 or b < 0 or rows[a] < 0 or rows[b] < 0:
                        continue
                    dx = positions[b, 0] - positions[a, 0]
                    dy = positions[b, 1] - positions[a, 1]
                    dz = positions[b, 2] - positions[a, 2]
                    if periodic:
                        na = turns[a, 0] - turns[b, 0] - images[image, 0]
                        nb = turns[a, 1] - turns[b, 1] - images[image, 1]
                        nc = turns[a, 2] - turns[b, 2] - images[image, 2]
                        dx += na * box[0, 0] + nb * box[1, 0] + nc * box[2, 0]
                        dy += nb * box[1, 1] + nc * box[2, 1]
                        dz += nc * box[2, 2]
                    if dx * dx + dy * dy + dz * dz < cutoff2:
                        _add(rows[a], rows[b], dx, dy, dz, counts, neighbors, vectors)
                        _add(rows[b], rows[a], -dx, -dy, -dz, counts, neighbors, vectors)


@kernel(nogil=True)
def add_excluded(chunk, positions, box, periodic, cutoff, rows, pairs, counts, neighbors, vectors):
    """Pairs that the list leaves out."""
    for k in range(pairs.shape[0]):
        a, b = pairs[k, 0], pairs[k, 1]
        if rows[a] < 0 or rows[b] < 0:
            continue
        dx = positions[b, 0] - positions[a, 0]
        dy = positions[b, 1] - positions[a, 1]
        dz = positions[b, 2] - positions[a, 2]
        if periodic:
            dx, dy, dz = minimum_image(dx, dy, dz, box)
        if dx * dx + dy * dy + dz * dz < cutoff * cutoff:
            _add(rows[a], rows[b], dx, dy, dz, counts, neighbors, vectors)
            _add(rows[b], rows[a], -dx, -dy, -dz, counts, neighbors, vectors)


@kernel(nogil=True)
def fill_up(chunk, cutoff, flags, most, counts, neighbors, vectors):
    """Fill the free places with non-neighbors, and report full rows."""
    places, fullest = neighbors.shape[1], 0
    for i in range(counts.shape[0]):
        if counts[i] > counts[fullest]:
            fullest = i
        for k in range(counts[i], places):
            neighbors[i, k] = i
            vectors[i, k, 0], vectors[i, k, 1], vectors[i, k, 2] = 2.0 * cutoff, 0.0, 0.0
    most[0] = counts[fullest]
    if most[0] > places:
        flags[STATUS], flags[STATUS_INFO] = FULL, fullest


class _StrictList(NeighborList):
    """A list that misses no pair, whatever the run is: what a network's pairs cost is not known."""

    def schedule(self, temperature, timestep, tolerance=0.0):
        self.strict()


class Edges:
    """Neighbors of each atom, kept up to date inside the step loop.

    Parameters
    ----------
    engine : Engine
    cutoff : float, nm
        Cut-off radius.
    atoms : (m,) int, optional
        The atoms to consider. Defaults to all. Row k, and the number k in rows, belong to ``atoms[k]``.
    places : int
        Neighbors that a row has room for; 0 for as many as are there now, and some to spare.
    real : dtype
        Floating-point type of the vectors.

    Attributes
    ----------
    neighbors : (m, places) int32
        Free places hold the row's own number.
    vectors : real [m, places, 3]
        From the atom to its neighbor, in nm; of length 2 * cutoff at free places.
    counts : (m,) int64
        Neighbors of each atom.
    most : (1,) int64
        The largest of them.
    before : list of Phase
        What fills all this: the neighbor list, then the rows. When a row is too short, the status is `FULL`: make new
        edges of at least ``most[0]`` places.

    Examples
    --------
    >>> system = sponge.System(sponge.Topology.of_particles(2), [1, 1], positions=[[0, 0, 0], [0.3, 0, 0]])
    >>> engine = sponge.Engine(system)
    >>> edges = Edges(engine, 0.5)
    >>> edges.now()
    >>> edges.neighbors[:, 0].tolist(), edges.vectors[:, 0, 0].round(6).tolist()
    ([1, 0], [0.3, -0.3])
    """

    def __init__(self, engine: Engine, cutoff: float, atoms: Any = None, places: int = 0, real: Any = np.float64):
        engine = engine.owner  # whose flags say when lists are built
        self.engine, self.cutoff = engine, float(cutoff)
        self.atoms = np.arange(engine.n) if atoms is None else np.asarray(atoms, np.int64)
        self._rows = np.full(engine.n, -1, np.int32)
        self._rows[self.atoms] = np.arange(len(self.atoms))
        key = "strict", self.cutoff
        if key not in engine.neighbor_lists:
            engine.neighbor_lists[key] = _StrictList(engine, self.cutoff)
        self._list = engine.neighbor_lists[key]
        if not places:
            pairs = find_pairs(engine.positions[self.atoms], engine.box if engine.periodic else None, self.cutoff,
                               np.zeros((0, 2), int))
            most = np.bincount(pairs.ravel(), minlength=1).max()
            places = min(int(most * _SPARE) + 2, max(len(self.atoms) - 1, 1))
        m = len(self.atoms)
        self.neighbors = np.zeros((m, places), np.int32)
        self.vectors = np.zeros((m, places, 3), real)
        self.counts, self.most = np.zeros(m, np.int64), np.zeros(1, np.int64)
        self._excluded = np.ascontiguousarray(engine.system.exclusions, np.int32).reshape(-1, 2)
        tasks = self._tasks()
        self.before = [*self._list.before, Phase(tasks, "sequence", name="edges", redo=True)]

    def _tasks(self):
        e, own = self.engine, self._list
        common = e.positions, e.box, int(e.periodic), self.cutoff, self._rows
        out = self.counts, self.neighbors, self.vectors
        listed = [Task(add_listed, *common, own.images, own._turns, own.atoms, p.entries, p.n_entries, p.pairs, p.masks,
                       *out)
                  for p in own.lists]
        return [Task(clear, self.counts), *listed, Task(add_excluded, *common, self._excluded, *out),
                Task(fill_up, self.cutoff, e.flags, self.most, *out)]

    def now(self) -> None:
        """Fill the rows from the engine's positions, outside of any step.

        Raises
        ------
        ValueError
            If a row is too short.
        """
        from ..engine.engine import Runner
        from ..engine.flags import REBUILD, STEP

        flags = self.engine.flags
        step, flags[REBUILD] = flags[STEP], 1
        self.engine.handlers.setdefault(FULL, _too_short)
        try:
            Runner(self.engine, lambda: self.before).run(1)
        finally:
            flags[STEP] = step


def _too_short(engine):
    raise ValueError(f"edges: atom {engine.flags[STATUS_INFO]} has more neighbors than there are places")
