"""`Edges`: the neighbors of each atom within a cut-off, with vectors to them, from `NeighborRows`.

This is the form in which networks take a neighborhood: rows of fixed length, both directions of each pair, free places
filled with vectors that end beyond the cut-off. Excluded pairs of the system are neighbors like others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from triskele.core.extend import Task, kernel, simd

from ..engine.flags import STATUS, STATUS_INFO
from ..engine.program import Phase
from .pairs import find_pairs
from .rows import eight, shared_rows

if TYPE_CHECKING:
    from ..engine.engine import Engine

__all__ = ["FULL", "Edges"]

FULL = 24  # status: an atom has more neighbors than a row has places; the information is the atom
_SPARE = 1.15  # places in a row, over the most neighbors that an atom has when the rows are made


@kernel(nogil=True)
def fill(chunk, chunks, n, cutoff, xs, entries, sizes, listed, own, counts, neighbors, vectors):
    """Rows of the atoms of a chunk; own[atom] is the atom's row, or -1. Neighbors beyond a row are counted only."""
    places, limit = neighbors.shape[1], cutoff * cutoff
    for i in range(chunk * n // chunks, (chunk + 1) * n // chunks):
        row, entry = own[entries[i]], listed[i]
        if row < 0:
            continue
        px, py, pz = xs[4 * i], xs[4 * i + 1], xs[4 * i + 2]
        x, y, z = simd.splat(px, 8), simd.splat(py, 8), simd.splat(pz, 8)
        m = 0
        for k in range(0, sizes[i], 8):
            ex, ey, ez, _ = eight(xs, entry, k)
            dx, dy, dz = ex - x, ey - y, ez - z
            bits = np.int64(simd.bits(dx * dx + dy * dy + dz * dz < limit))
            while bits:
                e = np.int64(entry[k + np.int64(simd.popcount(np.uint64((bits & -bits) - 1)))])
                bits &= bits - 1
                other = own[entries[e]]
                if other < 0:
                    continue
                if m < places:
                    neighbors[row, m] = other
                    vectors[row, m, 0] = xs[4 * e] - px
                    vectors[row, m, 1] = xs[4 * e + 1] - py
                    vectors[row, m, 2] = xs[4 * e + 2] - pz
                m += 1
        counts[row] = m
        for k in range(m, places):
            neighbors[row, k] = row
            vectors[row, k, 0], vectors[row, k, 1], vectors[row, k, 2] = 2.0 * cutoff, 0.0, 0.0


@kernel(nogil=True)
def check_rows(chunk, flags, places, most, counts):
    """Report full rows."""
    fullest = np.argmax(counts)
    most[0] = counts[fullest]
    if most[0] > places:
        flags[STATUS], flags[STATUS_INFO] = FULL, fullest


class Edges:
    """Neighbors of each atom, kept up to date inside the step loop."""

    def __init__(
        self,
        engine: Engine,
        cutoff: float,  # nm
        atoms: Any = None,  # (m,) int; None: all. Row k, and the number k in rows, belong to atoms[k]
        places: int = 0,  # neighbors that a row has room for; 0: as many as are there now, and some to spare
        real: Any = np.float64,  # floating-point type of the vectors
    ):
        engine = engine.owner  # whose flags say when lists are built
        self.engine, self.cutoff = engine, float(cutoff)
        self.atoms = np.arange(engine.n) if atoms is None else np.asarray(atoms, np.int64)
        self._rows = np.full(engine.n, -1, np.int32)
        self._rows[self.atoms] = np.arange(len(self.atoms))
        if not places:
            pairs = find_pairs(
                engine.positions[self.atoms],
                engine.box if engine.periodic else None,
                self.cutoff,
                np.zeros((0, 2), int),
            )
            most = np.bincount(pairs.ravel(), minlength=1).max()
            places = min(int(most * _SPARE) + 2, max(len(self.atoms) - 1, 1))
        m = len(self.atoms)
        self.neighbors = np.zeros((m, places), np.int32)  # free places hold the row's own number
        self.vectors = np.zeros((m, places, 3), real)  # to the neighbor, nm; of length 2 * cutoff at free places
        self.counts, self.most = np.zeros(m, np.int64), np.zeros(1, np.int64)  # neighbors of each atom; the largest

    @property
    def before(self) -> list[Phase]:
        """Phases that build the rows of neighbors, and then the edges.

        When a row is too short, the status is `FULL`: make new edges of at least ``most[0]`` places.
        """
        engine, listed = self.engine, shared_rows(self.engine, self.cutoff)
        tasks = [
            Task(
                fill,
                listed.chunks,
                engine.n,
                self.cutoff,
                listed.xs,
                listed.atoms,
                listed.counts,
                listed.rows,
                self._rows,
                self.counts,
                self.neighbors,
                self.vectors,
                chunks=listed.chunks,
            )
        ]
        check = Task(check_rows, engine.flags, self.neighbors.shape[1], self.most, self.counts)
        return [*listed.before, Phase(tasks, name="edges", redo=True), Phase([check], name="full edges")]

    def now(self) -> None:
        """Fill the rows from the engine's positions, outside of any step; a row that is too short raises ValueError."""
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
