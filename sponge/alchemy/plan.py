"""`AlchemicalPlan`: the compiled form of `AlchemicalNonbonded`."""

from __future__ import annotations

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
from .soft_core import COLUMNS, Beutler, coefficients
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
    """The plan of the unmarked pairs, joined by the kernels of the marked ones.

    Parameters
    ----------
    potential : AlchemicalNonbonded
    engine : Engine
    """

    def __init__(self, potential: AlchemicalNonbonded, engine: Engine):
        if engine.split is not None:
            raise ValueError(f"{potential.name}: a sampling method that splits the energy cannot be used with marked "
                             f"atoms")
        self.potential, self.engine = potential, engine
        params, marked = potential.params, np.ascontiguousarray(potential.atoms, np.int64)
        environment, _ = potential.environment(params, 1.0)
        self._base: Any = environment.plan(engine)
        self.form = environment.form(engine.box if engine.periodic else None)
        self._lambdas = float(params["electrostatics"]), float(params["sterics"])
        n, m = engine.n, len(marked)
        form = self._numbers()
        self.now, self._table = np.zeros((1, COLUMNS)), np.zeros((MOST_STATES, COLUMNS))
        self._n_states = np.zeros(1, np.int64)
        self._kinds = _kinds_of_pairs(potential)
        self._tails, self._tail_slopes, self._tail = np.zeros(0), np.zeros(0), 0.0
        arithmetic = potential.nonbonded.mixing == "lorentz_berthelot"
        sizes = 0.5 * params["sigmas"] if arithmetic else np.sqrt(params["sigmas"])
        wells, charges = 2 * np.sqrt(params["epsilons"]), np.sqrt(COULOMB) * params["charges"]

        is_marked = potential.marked
        found = np.full(n, n, np.int64)
        found[: n - m] = np.flatnonzero(~is_marked)
        n_found = np.array([n - m])
        chunks = int(np.clip(m * min(n - m, 600) // _PAIRS_PER_CHUNK, 1, _MOST_CHUNKS))
        width = 3 * MOST_STATES + 2
        self._states = np.zeros((chunks + 1, width))
        filled = -(-m // LANES) * LANES
        forces, own, inner = np.zeros((n, 3)), np.zeros((chunks, 3 * filled)), np.zeros((m, 3))
        self._own_rows = np.zeros((chunks + 2, ROW))
        cut = self.form.cutoff is not None
        periodic = int(engine.periodic)
        periodic_pairs = int(periodic and cut)
        # with an Ewald sum only Lennard-Jones is left, which vectors do; other formulas are scalar
        vectors = potential.ewald and getattr(potential.soft_core, "c", 6.0) == 6.0
        at = engine.positions, engine.box
        outside = [Task(kernels.environment, chunks, *at, periodic_pairs, found, n_found, marked, charges, sizes, wells,
                        form, self.now, self._table, self._n_states, forces, own, self._own_rows, self._states,
                        int(vectors), engine.flags, chunks=chunks)]
        if vectors:
            packed = np.zeros((chunks, 5 * filled))
            packed[:, 3 * filled : 4 * filled] = sizes[marked[-1]]
            packed[:, 3 * filled : 3 * filled + m] = sizes[marked]
            packed[:, 4 * filled : 4 * filled + m] = wells[marked]
            outside.append(Task(environment8, chunks, *at, found, n_found, marked, sizes, wells, packed, form, self.now,
                                forces, own, self._own_rows, engine.flags, chunks=chunks))
        pairs, kinds = potential.inner_pairs()
        values = np.stack([*potential.inner_values(params)], axis=1)
        values[:, 2] *= 4
        place = np.zeros(n, np.int64)
        place[marked] = np.arange(m)
        inside = Task(kernels.inside, engine.positions, engine.box, periodic, marked, place[pairs], kinds, values, form,
                      self.now, self._table, self._n_states, inner, self._own_rows[chunks], self._states[chunks],
                      engine.flags)
        stages = [[*tasks] for tasks in self._base.stages] or [[]]
        stages[0] += [*outside, inside]
        add = Task(kernels.add_forces, engine.atom_starts, found, n_found, forces, marked, own, inner, engine.forces,
                   chunks=engine.atom_chunks)
        before = list(self._base.before)
        if cut:
            neighbors = shared_list(engine, self.form.cutoff)
            seen = np.full(1, -1, np.int64)
            before.append(Phase([Task(kernels.around, neighbors.state[BUILDS : BUILDS + 1], seen, engine.positions,
                                      engine.box, periodic, neighbors.geometry, is_marked.astype(np.int8), marked,
                                      found, n_found)], name="atoms around the marked"))
        after = list(self._base.after)
        self._mesh: PME | None = None
        if potential.ewald and self._base.coulomb is not None:
            flags = np.zeros(N_FLAGS, np.int64)
            flags[ENERGY] = 1
            alone = np.where(is_marked, params["charges"], 0.0)
            mesh = self._mesh = PME(EngineView(engine, flags=flags), alone, self.form.alpha, self.form.grid,
                                    self.form.order)
            after += [Phase(tasks, flag=kernels.STATES, name="mesh of the marked")
                      for tasks in (mesh.before, *mesh.stages[:3]) if tasks]
        super().__init__(stages=stages, reduce=[*self._base.reduce, add], rows=self._own_rows,
                         update_box=self._update_box, before=before, after=after)
        self.set_lambdas(*self._lambdas)

    def _numbers(self):
        """The array `form` of the kernels."""
        p, given = self.potential, self.form
        numbers = np.zeros(kernels.N_FORM)
        numbers[kernels.CUTOFF2] = np.inf if given.cutoff is None else given.cutoff**2
        if given.switch is not None and given.cutoff is not None:
            numbers[kernels.SWITCH], numbers[kernels.WIDTH] = given.switch, given.cutoff - given.switch
        numbers[kernels.ALPHA], numbers[kernels.K_RF], numbers[kernels.C_RF] = given.alpha, given.k_rf, given.c_rf
        if isinstance(p.soft_core, Beutler):
            numbers[kernels.CORE], numbers[kernels.POWER] = kernels.BEUTLER, p.soft_core.c
            numbers[kernels.Q_POWER] = p.soft_core.f if p.soft_core.beta else 0.0
        else:
            numbers[kernels.CORE] = kernels.GAPSYS
        numbers[kernels.COULOMB] = kernels.EWALD if p.ewald else kernels.PAIRS
        numbers[kernels.GEOMETRIC] = p.nonbonded.mixing == "geometric"
        return numbers

    # -- lambdas -------------------------------------------------------------------------------------------------------

    def set_lambdas(self, electrostatics: float, steric: float) -> None:
        """Go to other lambdas; forces are then to be computed anew."""
        p, engine = self.potential, self.engine
        changed = electrostatics != self._lambdas[0] or not self.now.any()
        self._lambdas = float(electrostatics), float(steric)
        self.now[:] = coefficients(p.soft_core, *self._lambdas)
        if self.form.dispersion:
            self._tail = float(self._beyond(tail, self._lambdas[1]))
            self.jump = self._base.jump + self._beyond(jump, self._lambdas[1])
        if p.ewald and changed:
            self._base.set_charges(p.environment(p.params, self._lambdas[0])[1]["charges"])
            engine.flags[REBUILD] = 1
        self._update_tail()

    def set_states(self, electrostatics: np.ndarray, sterics: np.ndarray) -> None:
        """Choose the states in which energies are computed along, by their lambdas (k,)."""
        p, k = self.potential, len(sterics)
        self._table[:k], self._n_states[0] = coefficients(p.soft_core, electrostatics, sterics), k
        if self.form.dispersion:
            tails = core.jit(core.value_and_grad(lambda lam: self._beyond(tail, lam)))
            different, which = np.unique(sterics, return_inverse=True)
            found = np.array([[float(x) for x in tails(lam)] for lam in different])
            self._tails, self._tail_slopes = found[which.ravel()].T

    def in_states(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what the last evaluation with the flag `kernels.STATES` found for each state.

        Returns
        -------
        energies : (k,) float64
            Differences to the energy at the present lambdas, kJ/mol.
        by_electrostatics, by_sterics : (k,) float64
            Derivatives by the lambdas, kJ/mol.
        """
        k, q, p = int(self._n_states[0]), self._lambdas[0], self.potential
        total = self._states.sum(axis=0)
        energies, by_steric, by_charge = total[:k], total[k : 2 * k], total[2 * k : 3 * k]
        here = self._own_rows[:-1, 0].sum()
        energies = energies - here
        if self._mesh is not None:
            among = float(self._mesh.rows[:, 0].sum())
            slope = float(p.params["charges"][p.atoms] @ self._base.coulomb.charge_gradient()[p.atoms])
            linear, square = slope - 2 * q * among + total[3 * k], among + total[3 * k + 1]
            there = self._table[:k, -1]
            energies += (there - q) * (linear + (there + q) * square)
            by_charge = by_charge + linear + 2 * there * square
        if self.form.dispersion:
            volume = boxes.volume(self.engine.box)
            energies += (self._tails - self._tail) / volume
            by_steric = by_steric + self._tail_slopes / volume
        return energies, by_charge, by_steric

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

    def _beyond(self, function, steric):
        """`tail` or `jump` of all pairs with marked atoms."""
        p, form = self.potential, self.form
        outer, inner = self._kinds
        options = p.soft_core, form.cutoff, form.switch, self.engine.n
        own = steric if "sterics" in p.annihilate else 1.0
        return function(*options, *outer[:2], steric, outer[2]) + function(*options, *inner[:2], own, inner[2])


def _kinds_of_pairs(potential):
    """Sigma, epsilon and number of the pairs of marked atoms with others, and with each other, alike ones together."""
    s, e, marked = potential.params["sigmas"], np.sqrt(potential.params["epsilons"]), potential.marked
    (own, n_own), (rest, n_rest) = (np.unique(np.stack([s[which], e[which]]), axis=1, return_counts=True)
                                    for which in (marked, ~marked))
    outer = (potential.size(own[0][:, None], rest[0]), own[1][:, None] * rest[1], n_own[:, None] * n_rest)
    count = 0.5 * (np.outer(n_own, n_own) + np.diag(n_own))  # each pair once, and an atom with itself
    return outer, (potential.size(own[0][:, None], own[0]), np.outer(own[1], own[1]), count)
