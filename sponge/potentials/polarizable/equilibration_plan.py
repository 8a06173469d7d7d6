"""The compiled form of `ChargeEquilibration`: pairs of clusters, a mesh, conjugate gradients, and forces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from triskele.core.extend import Task, kernel

from ...box import volume
from ...engine.flags import ENERGY, N_FLAGS, STATUS, STEP
from ...engine.plan import ROW, Plan
from ...engine.program import Phase, Program
from ...neighbors.neighbor_list import NeighborList
from ...neighbors.rows import EVERYWHERE, check_extent
from ...neighbors.state import BUILDS, aligned_zeros, sparse_zeros
from ...pme.mesh import PME
from ...units import COULOMB
from . import equilibration_kernels as kernels
from . import equilibration_solver as solver

if TYPE_CHECKING:
    from ...engine.engine import Engine
    from .equilibration import ChargeEquilibration

__all__ = ["EquilibrationPlan"]

_MOST = 200  # iterations
_ROUGH = 1e-5  # by how much products in float32 may lower the residual
_ENOUGH = 0.8  # of the convergence, at which to look at the residual in float64
_HIGHEST = 4  # order of the extrapolation
_NEAR = 0.5  # nm: atoms whose couplings the preconditioner inverts
_RENEWED = 3  # builds of the list after which it is made again


@kernel(nogil=True)
def note_wish(_chunk, need, flags, fresh, age, renew):
    """Forget former charges and the preconditioner if a new list is wanted before it is known how far atoms have gone.

    So it is after the state has been set or saved, but not for a list that is due: a run that resumes has the same.
    """
    if flags[need]:
        fresh[0], age[0] = 1, _RENEWED
    renew[0] = 0


@kernel(nogil=True)
def renew_near(_chunk, age, renew):
    """After each build."""
    age[0] += 1
    if age[0] >= _RENEWED:
        age[0], renew[0] = 0, 1


@kernel(nogil=True)
def own_energy(_chunk, flags, linear, background, diagonal, charges, row):
    """Energy of the charges with themselves and with the background, which falls with the volume; virial of that."""
    if flags[ENERGY]:
        row[:] = 0.0
        for i in range(charges.shape[0]):
            row[0] += charges[i] * (linear[i] + 0.5 * diagonal[i] * charges[i])
            for k in (1, 5, 9):
                row[k] += charges[i] * background[i]


def _own_list(engine, name, cutoff):
    """The list of pairs of the potential, which no other shares: it tells whose wish a new list is."""
    key = "charges", name, cutoff
    if key not in engine.neighbor_lists:
        engine.neighbor_lists[key] = NeighborList(engine, cutoff, complete=True)
    return engine.neighbor_lists[key]


class EquilibrationPlan(Plan):
    """Pairs of clusters and their matrix; the charges, by conjugate gradients; forces.

    `charges` (n,), in e, and `iterations` are those of the last evaluation; after `Engine.measure`, the charges are
    those that it started from.
    """

    def __init__(self, potential: ChargeEquilibration, engine: Engine):
        n, periodic = engine.n, engine.periodic
        self.potential, self.engine, self.iterations = potential, engine, 0
        self.charges, self._fresh = np.zeros(n), np.ones(1, np.int64)
        # charges found last and their backward differences, of which the first `known` are right
        self._history, self._known = np.zeros((_HIGHEST + 2, n)), 0
        self._former = self._history, 0, 1
        self._result, self._flags = np.zeros(solver.N_WORDS), np.zeros(N_FLAGS, np.int64)
        self._linear, self._background, self._widths = np.zeros(n), np.zeros(n), 2 * potential.widths**2
        self._diagonal = potential.params["hardnesses"] + COULOMB / (np.sqrt(np.pi) * potential.widths)
        self._cutoff, self._alpha = (potential.cutoff, potential.alpha) if periodic else (EVERYWHERE, 0.0)
        self._table = kernels.smeared_table()
        self._sizes = np.bincount(potential.groups).astype(np.float64)
        self._means = np.zeros(len(self._sizes))
        self._direction, self._product, self._residual, self._rest = (np.zeros(n + k) for k in (0, 0, 0, 1))
        self._listed = listed = _own_list(engine.owner, potential.name, self._cutoff)
        self._part = part = listed.lists[0]
        chunks, pairs, wide, slots = listed.chunks, part.pairs.shape, part.touched.shape[1], len(listed.atoms)
        self._matrix = kernels.Matrix(
            np.zeros((chunks, part.entries.shape[1] + 1), np.int32),
            sparse_zeros(pairs, np.int32),
            *(aligned_zeros((chunks, 16 * pairs[1]), dtype) for dtype in (np.float64, np.float64, np.float32)),
        )
        # a row for each thread, with a line more for its lock
        self._sums = [
            aligned_zeros((chunks, lanes * wide + 16), dtype) for lanes, dtype in ((64, np.float64), (16, np.float32))
        ]
        self._blocks = sparse_zeros((chunks, 16 * wide), np.float64)
        self._collected = aligned_zeros(4 * slots, np.float64)
        self._placed, self._placed_rough = aligned_zeros(slots, np.float64), aligned_zeros(slots, np.float32)
        self._coupling = self._choose_coupling()
        rows = np.zeros((chunks + 1, ROW))
        self._meshes: list[PME] = []  # in float64 and float32
        if periodic:
            grid, builds = potential.mesh(engine.first_box), listed.state[BUILDS : BUILDS + 1]
            self._meshes = [
                PME(engine, self.charges, self._alpha, grid, precision=precision, builds=builds)
                for precision in ("double", "mixed")
            ]
        before = [*self._preparation(), Phase(call=self._solve, name="charges")]
        reduce = [
            Task(
                kernels.add_forces,
                engine.atom_starts,
                listed.slots,
                self._collected,
                engine.forces,
                chunks=engine.atom_chunks,
            ),
            *(self._meshes[0].reduce if periodic else []),
        ]
        self._first = Program(self._evaluation(self._fill(), 1, []), self._flags)
        self._check = Program(
            self._evaluation(
                self._forces(rows),
                4,
                [
                    Task(
                        own_energy, engine.flags, self._linear, self._background, self._diagonal, self.charges, rows[-1]
                    )
                ],
            ),
            self._flags,
        )
        self._descent = Program(self._iteration(), self._flags)
        self._update_linear()
        super().__init__(
            before=before, reduce=reduce, rows=rows, update_box=self._update_box if periodic else None, undo=self._undo
        )

    # ----------------------------------------------------------------------------------------------------------- phases
    def _preparation(self):
        """The list, and the preconditioner."""
        engine, listed, part, n = self.engine, self._listed, self._part, self.engine.n
        age, renew, table = np.zeros(1, np.int64), np.zeros(1, np.int64), self._table
        count, starts = np.zeros(n, np.int32), np.zeros(n + 1, np.int64)
        near, places = aligned_zeros((n, solver.NEAR), np.int32), np.zeros(n * (solver.NEAR + 7), np.int32)
        apart = aligned_zeros((n, 3, solver.NEAR), np.float64)
        factors = aligned_zeros((n + 1, solver.NEAR), np.float64)
        chunks, where = engine.atom_chunks, engine.atom_starts
        work = aligned_zeros((chunks, solver.NEAR**2), np.float64)
        half, self._preconditioned = np.zeros(n), np.zeros(n)
        listed.after_sorting(Task(renew_near, age, renew))
        self._precondition = [
            Phase([Task(solver.lower, where, near, factors, self._rest, half, chunks=chunks)]),
            Phase(
                [
                    Task(
                        solver.upper,
                        where,
                        starts,
                        places,
                        factors,
                        self._rest,
                        half,
                        self._preconditioned,
                        chunks=chunks,
                    )
                ]
            ),
        ]
        clock, *others = listed.before
        return [
            clock,
            Phase([Task(note_wish, listed.word, engine.flags, self._fresh, age, renew)]),
            *others,
            Phase(
                [
                    Task(
                        solver.choose_near,
                        min(_NEAR, self._cutoff),
                        renew,
                        part,
                        listed.atoms,
                        count,
                        near,
                        apart,
                        starts,
                        places,
                    )
                ],
                name="near atoms",
            ),
            Phase(
                [
                    Task(
                        solver.invert_near,
                        where,
                        renew,
                        self._widths,
                        self._diagonal,
                        table,
                        count,
                        near,
                        apart,
                        work,
                        factors,
                        chunks=chunks,
                    )
                ],
                name="preconditioner",
            ),
        ]

    def _fill(self):
        kernel, numbers, first, second, table = self._coupling
        return Task(
            kernel,
            self._cutoff,
            numbers,
            self._part,
            first,
            second,
            table,
            self._placed,
            self._matrix,
            self._sums[0],
            self._blocks,
            chunks=self._listed.chunks,
        )

    def _choose_coupling(self):
        """The kernel of the matrix, and what it takes: tables for each pair of widths, if these are few."""
        listed, (widths, kind) = self._listed, np.unique(self.potential.widths, return_inverse=True)
        found = kernels.coupling_tables(widths, self._alpha, self._cutoff) if self.engine.periodic else None
        if found is None:
            kernel, table = kernels.fill_matrix, self._table
            numbers, first, second = kernels.smooth_series(self._alpha, self._cutoff), self._widths, self._widths
        else:
            kernel, (table, numbers) = kernels.fill_from_tables, found
            first, second = (float(k * table.shape[2]) * kind for k in (len(widths), 1))
        placed = [aligned_zeros(len(listed.atoms), np.float64) for _ in range(2)]
        for values, to in zip((first, second), placed):
            listed.after_sorting(Task(kernels.place, 1, 1.0, listed.state, listed.atoms, values, to))
        return kernel, numbers, *placed, table

    def _forces(self, rows):
        return Task(
            kernels.pair_forces,
            self.engine.flags,
            self._part,
            self._placed,
            self._matrix,
            self._sums[0],
            self._blocks,
            rows,
            chunks=self._listed.chunks,
        )

    def _multiply(self):
        return Task(
            kernels.multiply,
            self._part,
            self._placed_rough,
            self._matrix,
            self._sums[1],
            self._blocks,
            chunks=self._listed.chunks,
        )

    def _product_phases(self, pairs, lanes, which, charges, placed):
        """Phases that set `_product` to the matrix times `charges`, with the task `pairs` and a mesh of `_meshes`."""
        listed, engine, chunks = self._listed, self.engine, self._listed.chunks
        place = Task(kernels.place, chunks, 0.0, listed.state, listed.atoms, charges, placed, chunks=chunks)
        collect = Task(kernels.collect, chunks, lanes, self._part, self._blocks, self._collected, chunks=chunks)
        add = Task(
            kernels.times_diagonal,
            engine.atom_starts,
            lanes,
            listed.slots,
            self._diagonal,
            charges,
            self._collected,
            self._product,
            chunks=engine.atom_chunks,
        )
        if not self._meshes:
            return [Phase([place]), Phase([pairs]), Phase([collect]), Phase([add])]
        mesh = self._meshes[which]
        first, second, third, *others = mesh.stages
        sort = [Phase(mesh.before)] if mesh.before else []
        return [
            Phase([place, mesh.follow(charges)]),
            *sort,
            Phase([pairs, *first]),
            Phase([collect, *second]),
            Phase([add, *third]),
            *(Phase(tasks) for tasks in others),
            Phase([mesh.slope_task(charges, self._product)]),
        ]

    def _evaluation(self, pairs, lanes, tasks):
        """Phases that evaluate the derivatives by the charges in float64."""
        of = self.potential.groups, self._sizes, self._means
        look = Task(solver.residual, self._linear, self._product, *of, self._residual, self._rest, self._result)
        return [*self._product_phases(pairs, lanes, 0, self.charges, self._placed), Phase([look, *tasks])]

    def _iteration(self):
        """Phases of an iteration of conjugate gradients."""
        of = self.potential.groups, self._sizes, self._means
        ahead = Task(solver.ahead, *of, self._diagonal, self._rest, self._preconditioned, self._direction, self._result)
        descend = Task(
            solver.descend,
            *of,
            self._direction,
            self._product,
            self.charges,
            self._residual,
            self._rest,
            self._result,
            self._flags,
        )
        return [
            *self._precondition,
            Phase([ahead]),
            *self._product_phases(self._multiply(), 1, 1, self._direction, self._placed_rough),
            Phase([descend]),
        ]

    # ---------------------------------------------------------------------------------------------------------- charges
    def totals(self) -> np.ndarray:
        """Energy and virial [10] of pairs and mesh; `rows` are those of the pairs."""
        return sum((mesh.rows.sum(axis=0) for mesh in self._meshes[:1]), self.rows.sum(axis=0))

    def _update_box(self):
        for mesh in self._meshes:
            mesh.update_box()
        self._update_linear()

    def _update_linear(self):
        """Derivatives of the energy by the charges at charges 0."""
        if self.engine.periodic:
            self._background[:] = self.potential.background(volume(self.engine.box))
        self._linear[:] = self.potential.params["electronegativities"] + self._background

    def _solve(self):
        """Find the charges among those whose sums in the groups are the totals, and what forces are made of."""
        check_extent(self.engine, f"charge equilibration {self.potential.name!r}")
        self._former = self._history, self._known, int(self._fresh[0])  # arrays that are never written again
        self._predict()
        self.iterations, goal, result = 0, self.potential.convergence, self._result
        worst = self._evaluate(self._first)
        while True:
            before, curvature = worst, 1.0
            if worst > goal:
                result[solver.GOAL], result[solver.STEPS] = max(_ENOUGH * goal, _ROUGH * worst), 0
                curvature = self._descend()
            worst = self._evaluate(self._check)
            if worst <= goal:
                break
            if np.isnan(worst):  # as energies and forces are, which is reported as for any potential
                self._fresh[0] = 1
                return
            if not (curvature > 0 and worst <= 0.5 * before) or self.iterations >= _MOST:
                self._fresh[0] = 1
                raise RuntimeError(
                    f"charge equilibration {self.potential.name!r}: at step {self.engine.flags[STEP]}, derivatives by "
                    f"the charges must agree to {goal:g} kJ/mol/e, got {worst:.3g} on "
                    f"{self.engine.system.topology.describe(int(result[solver.AT]))} after {self.iterations} "
                    "iterations (are atoms too close, or is `convergence` below rounding errors?)"
                )
        self._remember()

    def _evaluate(self, program):
        """Run the phases of `_evaluation` and return the largest of the residual."""
        program.run(1)
        return float(self._result[solver.WORST])

    def _descend(self):
        """Follow conjugate directions to the goal, and return the curvature of the last one."""
        self._flags[STEP] = 0
        self._descent.restart()
        self._descent.run(_MOST - self.iterations)
        self._flags[STATUS] = 0
        self.iterations += int(self._result[solver.STEPS])
        return self._result[solver.CURVATURE]

    def _predict(self):
        """Extrapolate the charges of former evaluations, to the order that would have been best at the last one."""
        q, groups = self.charges, self.potential.groups
        if self._fresh[0]:  # so that a run resumes, and energies come out, without memory of former charges
            self._fresh[0], self._known = 0, 0
        misses = np.einsum("ki,ki->k", self._history[1 : self._known], self._history[1 : self._known])
        order = int(np.argmin(misses)) if len(misses) else 0
        q[:] = self._history[: min(order + 1, self._known)].sum(axis=0)
        q += ((self.potential.totals - np.bincount(groups, q)) / self._sizes)[groups]

    def _remember(self):
        differences = np.zeros_like(self._history)
        differences[0] = self.charges
        for k in range(min(self._known, len(differences) - 1)):
            differences[k + 1] = differences[k] - self._history[k]
        self._history, self._known = differences, min(self._known + 1, len(differences))

    def _undo(self):
        """Go back to the charges that the last solution started from."""
        self._history, self._known, self._fresh[0] = self._former
        self.charges[:] = self._history[0]
