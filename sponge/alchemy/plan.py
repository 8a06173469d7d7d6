"""`AlchemicalPlan`: the compiled form of `AlchemicalNonbonded`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from triskele import core
from triskele.core.extend import Task

from .. import box as boxes
from ..engine.energy_split import EngineView
from ..engine.flags import ENERGY, N_FLAGS, REBUILD
from ..engine.plan import ROW, Plan
from ..engine.program import Phase
from ..neighbors import shared_list
from ..neighbors.state import BUILDS
from ..pme.mesh import PME
from ..units import COULOMB
from . import kernels
from .generated import generated
from .soft_core import COLUMNS, COURSES
from .tail import jump, tail
from .vector_kernel import LANES, environment8

if TYPE_CHECKING:
    from ..engine.engine import Engine
    from .nonbonded import AlchemicalNonbonded

__all__ = ["MOST_STATES", "AlchemicalPlan"]

MOST_STATES = 256
_PAIRS_PER_CHUNK = 3000  # some 20 us
_MOST_CHUNKS = 16


class AlchemicalPlan(Plan):
    """The plan of the unmarked pairs, joined by the kernels of the marked ones."""

    def __init__(self, potential: AlchemicalNonbonded, engine: Engine):
        if engine.split is not None:
            raise ValueError(
                f"{potential.name}: a sampling method that splits the energy cannot be used with marked atoms"
            )
        self.potential, self.engine = potential, engine
        params, marked = potential.params, np.ascontiguousarray(potential.atoms, np.int64)
        environment, _ = potential.environment(params, 1.0)
        self._base: Any = environment.plan(engine)
        self.form = environment.form(engine.first_box if engine.periodic else None)
        self._lambdas: dict[str, float] = {}
        n, m = engine.n, len(marked)
        form = self._numbers()
        self.now, self._table = np.zeros((COURSES, COLUMNS)), np.zeros((MOST_STATES, COURSES, COLUMNS))
        self._n_states = np.zeros(1, np.int64)
        self._tails, self._tail = np.zeros(0), 0.0
        self._tail_slopes: dict[str, np.ndarray] = {}
        is_marked = potential.marked
        rest = ~is_marked
        sizes, wells = _sizes(potential, params["sigmas"]), 2 * np.sqrt(params["epsilons"])
        charges = np.sqrt(COULOMB) * params["charges"]
        atoms, courses, own_charges, sigmas, depths = _filled(potential.entries(params))
        own = atoms, courses, np.sqrt(COULOMB) * own_charges, _sizes(potential, sigmas), 2 * np.sqrt(depths)
        self._kinds = _kinds_of_pairs(potential, params["sigmas"][rest], params["epsilons"][rest])

        found = np.full(n, n, np.int64)
        found[: n - m] = np.flatnonzero(rest)
        n_found = np.array([n - m])
        chunks = int(np.clip(m * min(n - m, 600) // _PAIRS_PER_CHUNK, 1, _MOST_CHUNKS))
        self._states = np.zeros((chunks + 1, (2 + COURSES) * MOST_STATES + 2))
        forces, own_forces, inner = np.zeros((n, 3)), np.zeros((chunks, 3 * len(atoms))), np.zeros((m, 3))
        self._own_rows = np.zeros((chunks + 2, ROW))
        cut = self.form.cutoff is not None
        periodic = int(engine.periodic)
        # with an Ewald sum only Lennard-Jones is left, which vectors do; other formulas are scalar
        vectors = potential.ewald and getattr(potential.soft_core, "c", 6.0) == 6.0
        at = engine.positions, engine.box
        kernel = partial(generated, potential.soft_core, cut and self.form.switch is not None)
        outside = [
            Task(
                kernel(kernels.environment),
                chunks,
                *at,
                int(periodic and cut),
                found,
                n_found,
                *own,
                charges,
                sizes,
                wells,
                form,
                self.now,
                self._table,
                self._n_states,
                forces,
                own_forces,
                self._own_rows,
                self._states,
                int(vectors),
                engine.flags,
                chunks=chunks,
            )
        ]
        if vectors:
            packed = np.tile(np.concatenate([np.zeros(3 * len(atoms)), own[3], own[4]]), (chunks, 1))
            outside.append(
                Task(
                    kernel(environment8),
                    chunks,
                    *at,
                    found,
                    n_found,
                    atoms,
                    courses,
                    sizes,
                    wells,
                    packed,
                    form,
                    self.now,
                    forces,
                    own_forces,
                    self._own_rows,
                    engine.flags,
                    chunks=chunks,
                )
            )
        pairs, kinds, of_course = potential.inner_pairs()
        values = np.stack([*potential.inner_values(params)], axis=1)
        values[:, 2] *= 4
        place = np.zeros(n, np.int64)
        place[marked] = np.arange(m)
        inside = Task(
            kernel(kernels.inside),
            *at,
            periodic,
            marked,
            place[pairs],
            kinds,
            of_course,
            values,
            form,
            self.now,
            self._table,
            self._n_states,
            inner,
            self._own_rows[chunks],
            self._states[chunks],
            engine.flags,
        )
        stages = [[*tasks] for tasks in self._base.stages] or [[]]
        stages[0] += [*outside, inside]
        add = Task(
            kernels.add_forces,
            engine.atom_starts,
            found,
            n_found,
            forces,
            atoms,
            own_forces,
            marked,
            inner,
            engine.forces,
            chunks=engine.atom_chunks,
        )
        before = list(self._base.before)
        if cut:
            neighbors = shared_list(engine, self.form.cutoff)
            seen = np.full(1, -1, np.int64)
            before.append(
                Phase(
                    [
                        Task(
                            kernels.around,
                            neighbors.state[BUILDS : BUILDS + 1],
                            seen,
                            engine.positions,
                            engine.box,
                            periodic,
                            neighbors.geometry,
                            is_marked.astype(np.int8),
                            marked,
                            found,
                            n_found,
                        )
                    ],
                    name="atoms around the marked",
                )
            )
        after = list(self._base.after)
        self._mesh: PME | None = None
        if potential.ewald and self._base.coulomb is not None:
            flags = np.zeros(N_FLAGS, np.int64)
            flags[ENERGY] = 1
            alone = potential.charge_change(params)
            mesh = self._mesh = PME(
                EngineView(engine, flags=flags), alone, self.form.alpha, self.form.grid, self.form.order
            )
            after += [
                Phase(tasks, flag=kernels.STATES, name="mesh of the marked")
                for tasks in (mesh.before, *mesh.stages[:3])
                if tasks
            ]
        super().__init__(
            stages=stages,
            reduce=[*self._base.reduce, add],
            rows=self._own_rows,
            update_box=self._update_box,
            before=before,
            after=after,
            updates=dict.fromkeys(potential.names, self._take_lambdas),
        )
        self._take_lambdas()

    def _numbers(self):
        """The array `form` of the kernels."""
        p, given = self.potential, self.form
        numbers = np.zeros(kernels.N_FORM)
        numbers[kernels.CUTOFF2] = np.inf if given.cutoff is None else given.cutoff**2
        if given.switch is not None and given.cutoff is not None:
            numbers[kernels.SWITCH], numbers[kernels.CUTOFF] = given.switch, given.cutoff
        numbers[kernels.ALPHA], numbers[kernels.K_RF], numbers[kernels.C_RF] = given.alpha, given.k_rf, given.c_rf
        numbers[kernels.COULOMB] = kernels.EWALD if p.ewald else kernels.PAIRS
        numbers[kernels.GEOMETRIC] = p.nonbonded.mixing == "geometric"
        return numbers

    # -- lambdas -------------------------------------------------------------------------------------------------------

    def _take_lambdas(self):
        """Go to the lambdas of the potential."""
        self.set_lambdas({name: float(self.potential.params[name]) for name in self.potential.names})

    def set_lambdas(self, lambdas: dict[str, float]) -> None:
        """Go to other lambdas; the caller has to compute the forces again."""
        p, engine = self.potential, self.engine
        changed = lambdas["electrostatics"] != self._lambdas.get("electrostatics")
        self._lambdas = {name: float(lambdas[name]) for name in p.names}
        self.now[:] = p.coefficients(self._lambdas)[0]
        if self.form.dispersion:
            self._tail = float(self._beyond(tail, self._lambdas))
            self.jump = self._base.jump + self._beyond(jump, self._lambdas)
        if p.ewald and changed:
            self._base.set_charges(p.charges(p.params, self._lambdas["electrostatics"]))
            engine.flags[REBUILD] = 1
        self._update_tail()

    def set_states(self, lambdas: dict[str, np.ndarray]) -> None:
        """Choose the states in which energies are computed along, by their lambdas (k,)."""
        p, k = self.potential, len(lambdas["electrostatics"])
        self._table[:k], self._n_states[0] = p.coefficients(lambdas), k
        if self.form.dispersion:
            names = [name for name in p.names if name != "electrostatics"]
            tails = core.jit(
                core.value_and_grad(lambda *x: self._beyond(tail, dict(zip(names, x))), tuple(range(len(names))))
            )
            different, which = np.unique(np.stack([lambdas[name] for name in names], 1), axis=0, return_inverse=True)
            found = [tails(*row) for row in different]
            self._tails = np.array([float(value) for value, _ in found])[which.ravel()]
            self._tail_slopes = {
                name: np.array([float(slopes[i]) for _, slopes in found])[which.ravel()] for i, name in enumerate(names)
            }

    def in_states(self) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return energies (k,) of all states relative to the present one, and derivatives (k,) by each lambda, both in
        kJ/mol, from the last evaluation with the flag `kernels.STATES`.
        """
        k, q, p = int(self._n_states[0]), self._lambdas["electrostatics"], self.potential
        total = self._states.sum(axis=0)
        energies = total[:k] - self._own_rows[:-1, 0].sum()
        slopes = {name: sum(total[(1 + c) * k : (2 + c) * k] for c in courses) for name, courses in p.steric.items()}
        by_charge = total[(1 + COURSES) * k : (2 + COURSES) * k]
        if self._mesh is not None:
            among, direct = float(self._mesh.rows[:, 0].sum()), total[(2 + COURSES) * k :]
            slope = float(p.charge_change(p.params)[p.atoms] @ self._base.coulomb.charge_gradient()[p.atoms])
            linear, square = slope - 2 * q * among + direct[0], among + direct[1]
            there = self._table[:k, 0, -1]
            energies += (there - q) * (linear + (there + q) * square)
            by_charge = by_charge + linear + 2 * there * square
        if self.form.dispersion:
            volume = boxes.volume(self.engine.box)
            energies += (self._tails - self._tail) / volume
            slopes = {name: slope + self._tail_slopes[name] / volume for name, slope in slopes.items()}
        return energies, {"electrostatics": by_charge, **slopes}

    # -- box -----------------------------------------------------------------------------------------------------------

    def totals(self) -> np.ndarray:
        return self._base.totals() + self._own_rows.sum(axis=0)

    def _update_box(self):
        if self._base.update_box is not None:
            self._base.update_box()
        if self._mesh is not None:
            self._mesh.update_box()
        self._update_tail()

    def _update_tail(self):
        if self.form.dispersion:
            self._own_rows[-1, [0, 1, 5, 9]] = self._tail / boxes.volume(self.engine.box)

    def _beyond(self, function, lambdas):
        """`tail` or `jump` of all pairs with marked atoms."""
        return sum(
            self.potential.of_course(function, self.form, self.engine.n, course, lambdas, *pairs)
            for course, pairs in self._kinds
        )


def _sizes(potential, sigmas):
    return np.sqrt(sigmas) if potential.nonbonded.mixing == "geometric" else 0.5 * sigmas


def _filled(entries):
    """Entries sorted by course, each filled up to whole vectors by entries without interactions."""
    columns = []
    for course in np.unique(entries[1]):
        own = [column[entries[1] == course] for column in entries]
        more = -len(own[0]) % LANES
        rest = [own[0][-1:], own[1][-1:], np.zeros(1), own[3][-1:], np.zeros(1)]
        columns.append([np.concatenate([a, np.repeat(b, more)]) for a, b in zip(own, rest)])
    return [np.ascontiguousarray(np.concatenate(column)) for column in zip(*columns)]


def _kinds_of_pairs(potential, sigmas, epsilons):
    """Course, and (sigma, epsilon, number) of the pairs of marked atoms with others, and with each other, alike ones
    together.
    """
    kinds, count = np.unique(np.stack([sigmas, np.sqrt(epsilons)]), axis=1, return_counts=True)
    _, courses, _, own_sigmas, own_epsilons = potential.entries(potential.params)
    found = []
    for course in np.unique(courses):
        own, number = np.unique(
            np.stack([own_sigmas, np.sqrt(own_epsilons)])[:, courses == course], axis=1, return_counts=True
        )
        found.append(
            (course, (potential.size(own[0][:, None], kinds[0]), own[1][:, None] * kinds[1], number[:, None] * count))
        )
    return found + potential.inner_tail(potential.params)
