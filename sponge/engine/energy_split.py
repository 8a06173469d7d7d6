"""`EnergySplit`: energies and forces of a solute apart from the rest, each computed once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from triskele.core.extend import Task

from ..protocols import SystemLike
from ..topology import check_indices
from .energy_split_kernels import add_energies, clear, scale
from .flags import ENERGY, N_FLAGS
from .plan import Plan, add_forces, zero_forces
from .program import Phase

if TYPE_CHECKING:
    from .engine import Engine

__all__ = [
    "EnergySplit",
    "EngineView",
    "REST",
    "SOLUTE",
    "TermSplit",
    "WITH_SOLVENT",
    "check_oscillators",
    "enhanced_terms",
    "solute_mask",
]

REST, WITH_SOLVENT, SOLUTE = 0, 1, 2  # classes: U_ww, U_pw, U_pp


def solute_mask(system: SystemLike, solute: Any, where: str = "solute") -> np.ndarray:
    """Return a mask (n,) of the atoms of the solute, given as indices, as a mask, or as None for all atoms."""
    n = system.n
    if solute is None:
        return np.ones(n, bool)
    given = np.asarray(list(solute) if isinstance(solute, Iterable) and not isinstance(solute, np.ndarray) else solute)
    if given.ndim != 1 or given.size and given.dtype.kind not in "iub":
        raise TypeError(f"{where}: must be a sequence of atom indices, or a mask of {n} booleans, got {solute!r:.60}")
    if given.dtype.kind == "b":
        if len(given) != n:
            raise ValueError(f"{where}: a mask must have one boolean for each of {n} atoms, got {len(given)}")
        mask = given.copy()
    else:
        mask = np.zeros(n, bool)
        if given.size:
            check_indices(given, n, f"{where}: atoms")
            mask[given] = True
            if mask.sum() != len(given):
                twice = int(np.argmax(np.bincount(given, minlength=n) > 1))
                raise ValueError(f"{where}: each atom can be named once, got {twice} twice")
    if not mask.any():
        raise ValueError(f"{where}: must have at least one atom, got none")
    return mask


def check_oscillators(system: SystemLike, solute: np.ndarray, where: str) -> None:
    """Raise ValueError if a mask (n,) bool has an atom without its Drude particle, or the reverse."""
    pairs = system.drude_pairs
    if np.any(cut := solute[pairs[:, 0]] != solute[pairs[:, 1]]):
        drude, atom = (system.topology.describe(int(i)) for i in pairs[np.argmax(cut)])
        raise ValueError(
            f"{where}: must have both an atom and its Drude particle or neither, got one of {atom} and {drude}"
        )


def enhanced_terms(system: SystemLike, terms: Sequence[str] | None, where: str = "terms") -> tuple[str, ...]:
    """Return the names of the potentials whose solute terms are enhanced besides the pair potentials.

    By default (None) these are torsions, proper or improper, 1-4 pairs and CMAP.
    """
    if terms is None:
        return tuple(p.name for p in system.potentials if p.enhanced)
    if isinstance(terms, str):
        raise TypeError(f"{where}: must be a sequence of names of potentials, got the string {terms!r}")
    names = [p.name for p in system.potentials]
    if unknown := [t for t in terms if t not in names]:
        raise ValueError(
            f"{where}: must name potentials of the system, got {unknown[0]!r} (there are {', '.join(names)})"
        )
    return tuple(dict.fromkeys(terms))


class EnergySplit:
    """The energy as U = U_pp + U_pw + U_ww, for a sampling method that scales parts of it.

    Forces are F = s_pp F_pp + s_pw F_pw + F_ww, with factors that the method sets at every evaluation.

    Pairs of atoms go by how many of both belong to the solute; this includes Lennard-Jones and Coulomb pairs within the
    cut-off, whatever potential they come from. Terms of the potentials `terms` go by their atoms: all in the solute,
    pp; some, pw. A potential in `terms` that has no terms to tell apart, such as GB or a FunctionPotential, is pp as a
    whole. Everything else is ww. Nothing is computed twice: the parts come from neighbor lists of their own.
    """

    def __init__(
        self,
        engine: Engine,  # whose potentials have no plans yet
        solute: np.ndarray,  # (n,) bool, from `solute_mask`; all atoms with "all"
        terms: Sequence[str] | Literal["all"],  # from `enhanced_terms`; "all": even reciprocal sums and tails are pp
        reciprocal: bool = False,  # split the reciprocal sums, too, with their correction of excluded pairs
    ):
        self.engine, self.solute = engine, np.asarray(solute, bool)
        if self.solute.shape != (engine.n,) or not self.solute.any():
            raise ValueError(
                f"energy split: solute must be a mask of {engine.n} atoms with at least one True, got "
                f"{self.solute.sum()} of {self.solute.shape}"
            )
        self.whole, self.everything = bool(self.solute.all()), terms == "all"
        if self.everything and not self.whole:
            raise ValueError("energy split: to split everything, the solute must be all atoms")
        self.terms = () if self.everything else tuple(terms)
        self.reciprocal = bool(reciprocal) or self.everything
        # U_pp and U_pw (kJ/mol) of each force evaluation; s_pp and s_pw, which the method sets at every evaluation once
        # `energies` are there and before forces are summed; s_pw must not be 0
        self.energies, self.scales = np.zeros(2), np.ones(2)
        self.flags = np.zeros(N_FLAGS, np.int64)  # ENERGY is always set, for tasks of classes 1 and 2
        self.flags[ENERGY] = 1
        engine.groups = None if self.whole else self.solute.astype(np.int8)

    # -- plans ---------------------------------------------------------------------------------------------------------
    def pair_class(self, kind: int) -> int:
        """Class of the pairs in a neighbor list of this kind."""
        return SOLUTE if kind < 0 else kind

    def plan(self, potential: Any) -> Plan:
        """The potential's plan with its parts told apart."""
        if potential.pair_scope is not None:
            if potential.pair_scope == "listed":
                return potential.plan(self.engine)
            if not self.whole:
                raise ValueError(
                    f"energy split: {potential.name} computes all pairs without cut-off, which can be "
                    "split only with all atoms in the solute (give it a cut-off)"
                )
            return self._as(SOLUTE, potential)
        if not self.everything and potential.name not in self.terms:
            return potential.plan(self.engine)
        if self.whole or not hasattr(potential, "subset"):
            return self._as(SOLUTE, potential)
        inside = self.solute[potential.atoms]
        classes = np.where(inside.all(1), SOLUTE, np.where(inside.any(1), WITH_SOLVENT, REST))
        parts = []
        for k in np.unique(classes):
            part = potential if np.all(classes == k) else potential.subset(classes == k)
            parts.append((part.plan(self.always if k else self.engine), int(k)))
        return JoinedPlan(parts) if parts else potential.plan(self.engine)

    @property
    def always(self) -> Any:
        """The engine for tasks of classes 1 and 2: ENERGY is set in its flags, and only the status of the flags is
        used.
        """
        return EngineView(self.engine, flags=self.flags)

    def _as(self, k, potential):
        """The potential's plan, all of which belongs to class k."""
        plan = potential.plan(self.always)
        if not plan.stages and plan.call is None:  # it computes energies along with the sum of forces: too late
            engine = self.engine
            forces = np.zeros((engine.n, 3))
            early = potential.plan(EngineView(engine, flags=self.flags, forces=forces))
            zero = Task(zero_forces, engine.atom_starts, forces, chunks=engine.atom_chunks)
            add = Task(add_forces, engine.atom_starts, forces, engine.forces, chunks=engine.atom_chunks)
            plan = Plan(stages=[[zero], early.reduce], reduce=[add], rows=early.rows)
        plan.classes, plan.enhanced = [k] * len(plan.reduce), [(k, plan.rows)]
        return plan

    # -- phases --------------------------------------------------------------------------------------------------------
    def gather(self, plans: Iterable[Plan]) -> Phase:
        """Sets `energies`."""
        tasks = [
            Task(add_energies, int(k == WITH_SOLVENT), rows, self.energies)
            for plan in plans
            for k, rows in plan.enhanced
        ]
        return Phase(
            [Task(clear, self.energies, self.flags, self.engine.flags), *tasks], "sequence", name="energy split"
        )

    def sums(self, plans: Iterable[Plan]) -> list[Task]:
        """Tasks that add up forces with their factors, most enhanced first: with factors of 1 that is the plain sum."""
        engine = self.engine
        by_class: dict[int, list[Task]] = {SOLUTE: [], WITH_SOLVENT: [], REST: []}
        for plan in plans:
            for k, task in zip(plan.classes or [REST] * len(plan.reduce), plan.reduce, strict=True):
                by_class[k].append(task)

        def times(above, below):
            return Task(scale, engine.atom_starts, self.scales, above, below, engine.forces, chunks=engine.atom_chunks)

        if not by_class[WITH_SOLVENT]:
            return [*by_class[SOLUTE], times(0, -1), *by_class[REST]]
        return [*by_class[SOLUTE], times(0, 1), *by_class[WITH_SOLVENT], times(1, -1), *by_class[REST]]

    def virial(self) -> np.ndarray:
        """Return the contribution of the force factors to the virial (9,), as last computed with the flag ENERGY."""
        total = np.zeros(9)
        for plan in self.engine.plans.values():
            for k, rows in plan.enhanced:
                total += (self.scales[int(k == WITH_SOLVENT)] - 1) * rows[:, 1:].sum(0)
        return total


class TermSplit(EnergySplit):
    """The energy as U = U_rest + U_terms: some potentials apart from all others.

    `energies` and `scales` (2,) are U_rest and U_terms in kJ/mol, and the factors of their forces, of which the second
    must not be 0. Without `rest`, U_rest stays 0 and its forces as they are, which is faster.
    """

    def __init__(self, engine: Engine, terms: Sequence[str], rest: bool):
        super().__init__(engine, np.ones(engine.n, bool), "all" if rest else ())
        self.terms = tuple(terms)

    def pair_class(self, kind: int) -> int:
        """Class of all pairs."""
        return super().pair_class(kind) if self.everything else REST

    def plan(self, potential: Any) -> Plan:
        """The potential's plan, of one class."""
        if potential.name in self.terms:
            return self._as(WITH_SOLVENT, potential)
        return super().plan(potential) if self.everything else potential.plan(self.engine)


class JoinedPlan(Plan):
    """Plans of parts of a potential, with the class of each."""

    def __init__(self, parts: list[tuple[Plan, int]]):
        plans = [plan for plan, _ in parts]
        deepest = max(len(plan.stages) for plan in plans)
        super().__init__(
            stages=[[t for plan in plans if k < len(plan.stages) for t in plan.stages[k]] for k in range(deepest)],
            reduce=[t for plan in plans for t in plan.reduce],
            rows=plans[0].rows,
            classes=[k for plan, k in parts for _ in plan.reduce],
            enhanced=[(k, plan.rows) for plan, k in parts if k],
        )
        self._all_rows = [plan.rows for plan in plans]

    def totals(self) -> np.ndarray:
        return np.sum([rows.sum(axis=0) for rows in self._all_rows], axis=0)


class EngineView:
    """An engine with some of its arrays replaced."""

    def __init__(self, engine, **arrays):
        self.__dict__.update(arrays, owner=engine)

    def __getattr__(self, name):
        return getattr(self.__dict__["owner"], name)
