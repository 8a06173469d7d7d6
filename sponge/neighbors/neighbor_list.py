"""`NeighborList`: cluster pairs within a cut-off, kept up to date inside the step loop.

Atoms are sorted into clusters of four; a pair of clusters is 16 pairs of atoms, one vector of sixteen lanes (S. Pall
and B. Hess, Comput. Phys. Commun. 184, 2641 (2013), eq. 4-7, https://doi.org/10.1016/j.cpc.2013.06.003). There are two
lists: an outer one, built rarely with a wide buffer, and an inner one that is pruned from it every few steps.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from triskele.core.extend import Task

from ..engine.flags import STATUS_INFO
from ..engine.program import Phase
from ..errors import BoxError
from ..units import GAS_CONSTANT
from . import buffer, grid, search
from .arrays import Clusters, PairList, empty_lists
from .moments import Moment
from .state import (
    AGE,
    BUILDS,
    CLUSTERS,
    CUTOFF,
    END,
    EVERY,
    FULL_ENTRIES,
    FULL_MASKS,
    FULL_PAIRS,
    FULL_SCRATCH,
    FULL_TOUCHED,
    INNER,
    MASK,
    N_GEOMETRY,
    N_STATE,
    OUTER,
    OVERFLOW,
    PLAIN_END,
    PRUNE_EVERY,
    SHIFT,
    SMALL_BOX,
    START,
    STEP_TIME,
    I,
    aligned_zeros,
    sparse_zeros,
)

if TYPE_CHECKING:
    from ..engine.engine import Engine

__all__ = ["NeighborList", "shared_list"]

FIRST_WORD, LAST_WORD = 8, 16  # of Engine.flags: two for each list
_PART = 0.1  # of the buffer of a scheduled list, that a move may take up
# Image vectors of which half are visited: a reduced box leans by up to half an edge per vector, so that a brick of
# atoms meets images up to three edges away along x.
_IMAGES = [(0, 0, 0)] + [n for n in itertools.product(range(-3, 4), range(-2, 3), (-1, 0, 1)) if n < (0, 0, 0)]


class NeighborList:
    """Pairs of atoms within a cut-off, as pairs of clusters of four.

    Without a schedule the list is strict: it is rebuilt before any atom has moved by half the buffer, and holds every
    pair within the cut-off at every step. `schedule` trades this for speed within a tolerance of energy drift. The
    phases `before` run before the pair kernels.
    """

    def __init__(
        self,
        engine: Engine,
        cutoff: float,  # nm
        *,
        complete: bool = False,  # list excluded pairs and those of all groups, too, in float64 and always strictly
    ):
        self.engine, self.cutoff, self._complete = engine, float(cutoff), complete
        if not 0 < self.cutoff < np.inf:
            raise ValueError(f"neighbor list: cut-off must be positive and finite, got {cutoff}")
        n = engine.n
        self.real = np.dtype(np.float32 if engine.precision == "mixed" and not complete else np.float64)
        # of lists and force buffers; must depend only on the number of atoms
        self.chunks = max(1, min(n // 500, 16) if n < 32_000 else min(n // 2000, 64))
        self.word = first_word(engine)  # of the two of `Engine.flags` that are this list's
        self._sort_chunks = int(np.clip(n // 4096, 1, 32))
        groups = None if complete else engine.groups
        self._groups = np.zeros(1, np.int8) if groups is None else groups
        self._n_groups = 1 if groups is None else 2
        self._most_columns = _most_columns(engine, n)
        most_clusters = (n + 3) // 4 + self._most_columns * self._n_groups
        self.geometry, self.state = np.zeros(N_GEOMETRY), np.zeros(N_STATE, np.int64)
        self.geometry[CUTOFF] = self.cutoff
        self._heights = np.zeros(n, self.real)
        self._extent = np.zeros((self._sort_chunks, 6))
        self._keys = np.zeros(n, np.int32)
        self._counts = np.zeros((self._sort_chunks, self._most_columns * self._n_groups), np.int32)
        self._atom_start = np.zeros(self._most_columns * self._n_groups + 1, np.int64)
        self._order, self._before = np.zeros(n, np.int32), np.arange(n, dtype=np.int32)
        xs, built_xs = (aligned_zeros(16 * most_clusters, self.real) for _ in range(2))
        low, high = (np.zeros((3, most_clusters + 16), self.real) for _ in range(2))
        self.clusters = Clusters(
            self.state,
            np.zeros(self._most_columns * self._n_groups + 1, np.int64),
            np.full(4 * most_clusters, -1, np.int32),
            np.zeros(n, np.int32),
            xs,
            built_xs,
            aligned_zeros(12 * most_clusters, np.int32),
            low,
            high,
            np.zeros(most_clusters, np.uint8),
        )
        self.atoms, self.slots, self.xs = self.clusters.atoms, self.clusters.slots, self.clusters.xs
        self.has_lj = np.ones(n, np.uint8)  # atoms with Lennard-Jones parameters; a potential may clear it
        self._thermal = np.zeros(n, self.real)
        self.images = np.array(_IMAGES if engine.periodic else _IMAGES[:1], np.float64)
        self.shifts = np.zeros(3 * len(self.images))  # image vectors, added to the first cluster of an entry
        self._excluded_start, self._excluded = _by_atom([] if complete else engine.system.exclusions, n)
        # a row for each thread; pages never used cost nothing, and a line more than the marks take holds the lock
        self._marks = sparse_zeros((self.chunks, most_clusters + 16), np.int32)
        self._scratch_size = 4096
        # the first guess of sizes: a liquid of 100 atoms/nm^3; they grow when that is not enough
        half_shell = 0.5 * min(100 * 4.19 * (self.cutoff + buffer.STRICT) ** 3, n)
        per_chunk = most_clusters // self.chunks + 1
        # forces go to the rows of columns within reach to both sides, where columns are 0.34 nm wide
        span = (2 * (self.cutoff + 3.5 * buffer.STRICT) / 0.34 + 3) * n / 4 / (0.63 * np.cbrt(n))
        self._sizes = {
            "pairs": int(per_chunk * half_shell) + 512,
            "entries": per_chunk * 3 + 500,
            "masks": 8 * per_chunk + 512,
            "touched": min(most_clusters, int(span) + per_chunk),
        }
        self._scheduled: tuple[float, float, float] | None = (0.0, 0.0, 0.0)  # temperature, time step, tolerance
        self._plans_version = -1
        self.moments = {"built": Moment(engine), "pruned": Moment(engine)}
        self.strict()
        self._allocate()
        engine.on_status(OVERFLOW, _grow)
        engine.on_status(SMALL_BOX, box_too_small)

    # ------------------------------------------------------------------------------------------------------ radii
    def strict(self) -> None:
        """Never miss a pair: rebuild before an atom has moved by half the buffer."""
        if self._scheduled is None:
            return
        self._scheduled = None
        self._set(self.cutoff + buffer.STRICT, self.cutoff + buffer.STRICT, 0, 0, 0.0)

    def schedule(
        self,
        temperature: float,  # K, the highest that the run is meant to have
        timestep: float,  # ps between two evaluations of pair forces
        tolerance: float = buffer.TOLERANCE,  # drift in kJ/mol/ps per atom; 0 is `strict`
    ) -> None:
        """Choose radii and intervals for a run, from the energy drift that pairs missed meanwhile may cause.

        In water, a drift of 1e-3 kT/ns per degree of freedom is 5e-6 kJ/mol/ps per atom. At a tolerance of 0.005 a run
        of TIP3P drifts by 0.09 kT/ns per degree of freedom, at 3e-4 by 0.006, and at 3e-5 by 0.002, which costs hardly
        more.
        """
        if tolerance <= 0 or temperature <= 0 or timestep <= 0 or self._complete:
            self.strict()
            return
        if self._scheduled == (temperature, timestep, tolerance):
            return
        self._scheduled = temperature, timestep, tolerance
        chosen = buffer.schedule(self.engine, self.cutoff, temperature, timestep, tolerance)
        self._set(chosen.outer, chosen.inner, chosen.every, chosen.prune_every, timestep)
        masses = self.engine.masses
        lightest = min(masses[masses > 0], default=1.0)
        # seven standard deviations, squared: of 10^6 atoms in 10^5 builds none goes farther by thermal motion
        self._thermal[:] = 49 * GAS_CONSTANT * temperature / np.where(masses > 0, masses, lightest)

    def _set(self, outer, inner, every, prune_every, timestep):
        if self.engine.periodic:
            # image vectors reach up to nearly an edge
            outer = max(self.cutoff, min(outer, 0.95 * float(np.min(np.diag(self.engine.box))) or outer))
        self.geometry[OUTER], self.geometry[INNER] = outer, min(inner, outer)
        self.geometry[EVERY], self.geometry[PRUNE_EVERY], self.geometry[STEP_TIME] = every, prune_every, timestep
        for word in range(FIRST_WORD, LAST_WORD, 2):
            self.engine.flags[word] = 1

    # ------------------------------------------------------------------------------------------------------ arrays
    def _allocate(self):
        kinds = [-1] if self._n_groups == 1 else [0, 1, 2]  # one, or pairs with 0, 1 and 2 clusters of group 1
        both = [empty_lists(kind, self.chunks, self._sizes, self.clusters, self.shifts) for kind in kinds]
        self._outer, self.lists = [outer for outer, _ in both], [inner for _, inner in both]
        self._scratch = np.zeros((self.chunks, 6, self._scratch_size), np.int32)
        self._unplaced = sparse_zeros((self.chunks, self._sizes["pairs"]), np.int32)  # a row for each thread
        self.before = self._phases()

    def _phases(self) -> list[Phase]:
        e, need, pruning = self.engine, self.word, self.word + 1
        tick = Task(
            search.clock,
            need,
            pruning,
            FIRST_WORD,
            LAST_WORD,
            e.flags,
            e.box,
            int(e.periodic),
            self.images,
            self.shifts,
            self.geometry,
            self.state,
        )
        move = Task(
            search.refresh,
            self.chunks,
            need,
            e.flags,
            e.positions,
            e.box,
            int(e.periodic),
            self.geometry,
            self.clusters,
            chunks=self.chunks,
        )
        prunes = [
            Task(search.prune, self.geometry, outer, inner, chunks=self.chunks)
            for outer, inner in zip(self._outer, self.lists)
        ]
        finish = Task(search.finish, need, pruning, e.flags, self.geometry, self.state)
        self._sorting = Phase([], flag=need, name="list parameters")
        return [
            Phase([tick], name="list clock"),
            Phase([move], name="sorted coordinates"),
            *(
                Phase(tasks, flag=need, redo=k == 0, name=f"list {tasks[0].kernel.__name__}")
                for k, tasks in enumerate(self._sort_stages())
            ),
            # searches share marks and scratch, so each kind is a phase
            *(Phase([self._search(outer)], flag=need, name="list search") for outer in self._outer),
            self._sorting,
            Phase([*prunes, self.moments["pruned"].task], flag=pruning, name="list prune"),
            Phase([finish], flag=pruning, name="list finish"),
        ]

    def _sort_stages(self) -> list[list[Task]]:
        """The tasks that sort the atoms into clusters, in the order of `grid`."""
        e, c, periodic, groups = self.engine, self._sort_chunks, int(self.engine.periodic), self._n_groups
        wrap = Task(grid.wrap, c, e.positions, e.box, periodic, self._heights, self._extent, chunks=c)
        columns = Task(grid.columns, e.n, e.box, periodic, self._extent, self._most_columns, self.geometry, self.state)
        count = Task(
            grid.count,
            c,
            e.positions,
            e.box,
            periodic,
            self._groups,
            groups,
            self.geometry,
            self.state,
            self._before,
            self._keys,
            self._counts,
            chunks=c,
        )
        start = Task(
            grid.start,
            c,
            groups,
            self.state,
            self._counts,
            self._atom_start,
            self.clusters.start,
            self.word + 1,
            e.flags,
        )
        place = Task(grid.place, c, self._before, self._keys, self._counts, self._order, chunks=c)
        fill = Task(
            grid.fill,
            self.chunks,
            groups,
            self._atom_start,
            self._order,
            self._before,
            self._heights,
            e.positions,
            e.box,
            periodic,
            self.has_lj,
            self._thermal,
            self.clusters,
            chunks=self.chunks,
        )
        return [[wrap, self.moments["built"].task], [columns], [count], [start], [place], [fill]]

    def _search(self, outer: PairList) -> Task:
        return Task(
            search.search,
            self.chunks,
            self._n_groups,
            self._groups,
            self.engine.flags,
            self.images,
            self.geometry,
            self.clusters,
            self._excluded_start,
            self._excluded,
            self._marks,
            self._unplaced,
            self._scratch,
            outer,
            chunks=self.chunks,
        )

    def mark(self) -> tuple[int, int]:
        """Return the state that `resume` takes."""
        return int(self.state[AGE]), int(self.state[BUILDS])

    def resume(self, mark: tuple[int, int]) -> None:
        """Continue as if there had been no evaluations since `mark`: a list built since, which then was due, is built
        again at the next one. (A strict list that was due has been built for the same positions.)
        """
        age, builds = mark
        self.state[AGE] = age if self.state[BUILDS] == builds else max(age, int(self.geometry[EVERY]))

    def ask(self, moment: str) -> None:
        """Let the next evaluation build ("built") or prune ("pruned") the list, or if "", neither."""
        every, prune_every = int(self.geometry[EVERY]), int(self.geometry[PRUNE_EVERY])
        age = max(every - 1, 1)  # of the next evaluation: the oldest, whose atoms may have gone far
        self.state[AGE] = age - 1 - (prune_every > 1 and age % prune_every == 0)
        self.engine.flags[self.word], self.engine.flags[self.word + 1] = moment == "built", moment == "pruned"

    def allow(self, moved: float) -> None:
        """Let the next evaluation find all pairs after a move that no schedule knows of.

        Atoms of a pair may have come closer by `moved` nm. This prunes the outer list, or builds another one if the
        move takes up a good part of the buffer.
        """
        if self._scheduled is None:  # a strict list sees for itself
            return
        far = moved > _PART * (self.geometry[OUTER] - self.geometry[CUTOFF])
        self.engine.flags[self.word if far else self.word + 1] = 1

    def after_sorting(self, task: Task) -> None:
        """Run `task` whenever the atoms have been sorted again; every plan of the engine must register it."""
        if self._plans_version != self.engine.version:
            self._plans_version, self._sorting.tasks = self.engine.version, []
        self._sorting.tasks = [*self._sorting.tasks, task]

    # ------------------------------------------------------------------------------------------------------- looking
    def listed_pairs(self, kind: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the pairs that the kernels now look at, within the cut-off or in the buffer: i, j (m,), shift (m, 3).

        positions[i] - positions[j] + shift is the difference of the pair's positions; `kind` is the number in `lists`.
        """
        part, found, clusters = self.lists[kind], [], self.state[CLUSTERS]
        for c in range(self.chunks):
            for entry in part.entries[c, : part.n_entries[c]]:
                k = np.arange(entry[START], entry[END])
                masks = np.full(len(k), 0xFFFF)
                masked = entry[END] - entry[PLAIN_END]
                masks[len(k) - masked :] = part.masks[c, entry[MASK] : entry[MASK] + masked]
                row, lane = np.nonzero(masks[:, None] >> np.arange(16) & 1)
                second = (part.pairs[c, k[row]] + part.window[c]) % clusters
                found.append(
                    np.stack([4 * entry[I] + lane // 4, 4 * second + lane % 4, np.full(len(row), entry[SHIFT])], 1)
                )
        slots, others, image = np.concatenate([np.zeros((0, 3), np.int64), *found]).T
        real = (self.atoms[slots] >= 0) & (self.atoms[others] >= 0)
        slots, others, image = slots[real], others[real], image[real]
        own = self.clusters.turns.reshape(-1, 3, 4).swapaxes(1, 2).reshape(-1, 3)
        turns = self.images[image] - own[slots] + own[others]
        return self.atoms[slots], self.atoms[others], turns @ self.engine.box


def _most_columns(engine: Engine, n: int) -> int:
    """The number of columns of the grid that arrays have place for; a box that grows flat gets wider columns."""
    most = max(1, n // 8)
    if not engine.periodic:
        return most
    x, y, z = np.diag(engine.box)
    return min(most, int(1.5 * x * y / np.cbrt(4 * x * y * z / n) ** 2) + 64)


def first_word(engine: Engine) -> int:
    """Return the first of two words of ``engine.flags`` for one more list; too many lists raise ValueError."""
    word = FIRST_WORD + 2 * len(engine.neighbor_lists)
    if word >= LAST_WORD:
        raise ValueError(
            f"neighbor list: at most {(LAST_WORD - FIRST_WORD) // 2} different cut-offs can be used at once"
        )
    return word


def _by_atom(pairs: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Partners of each atom: where they start [n + 1], and the partners."""
    pairs = np.asarray(pairs, np.int64).reshape(-1, 2)
    both = np.r_[pairs[:, 0] * n + pairs[:, 1], pairs[:, 1] * n + pairs[:, 0]]
    both.sort()
    counts = np.bincount(pairs.ravel(), minlength=n)
    return np.r_[0, np.cumsum(counts)].astype(np.int32), (both % n).astype(np.int32)


def _grow(engine: Engine) -> bool:
    """Enlarge the arrays of all lists of the kind of which one is full; the plans are rebuilt with them."""
    full = engine.flags[STATUS_INFO]
    for neighbors in engine.neighbor_lists.values():
        if not isinstance(neighbors, NeighborList):
            continue
        if full == FULL_SCRATCH:
            neighbors._scratch_size *= 2
        else:
            key = {FULL_PAIRS: "pairs", FULL_ENTRIES: "entries", FULL_TOUCHED: "touched", FULL_MASKS: "masks"}[full]
            neighbors._sizes[key] = int(1.5 * neighbors._sizes[key])
        neighbors._sizes["touched"] = min(neighbors._sizes["touched"], len(neighbors.atoms) // 4)
        neighbors._allocate()
    return True


def box_too_small(engine: Engine) -> bool:
    """Raise BoxError."""
    cutoff = max(neighbors.cutoff for neighbors in engine.neighbor_lists.values())
    raise BoxError(
        f"neighbor list: the box must be at least twice the cut-off of {cutoff} nm wide, got a box of "
        f"{engine.box.tolist()} (a smaller cut-off, or a larger system)"
    )


def shared_list(engine: Engine, cutoff: float) -> NeighborList:
    """The neighbor list that all potentials of this cut-off share."""
    if cutoff not in engine.neighbor_lists:
        engine.neighbor_lists[cutoff] = NeighborList(engine, cutoff)
    return engine.neighbor_lists[cutoff]
