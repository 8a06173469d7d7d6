"""`Plan`: the compiled form of a potential, for one engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from triskele.core.extend import Task, kernel

from .program import Phase

__all__ = ["ROW", "Plan", "add_forces", "zero_forces"]

ROW = 10  # of `Plan.rows`: energy, then the nine components of the virial


@dataclass(eq=False)
class Plan:
    """The compiled form of a potential, for one engine.

    Parameters
    ----------
    stages : list of list of Task
        Stage k of all potentials runs as one parallel phase; stage k + 1 begins when all of stage k is done.
    reduce : list of Task
        Each has ``engine.atom_chunks`` chunks; chunk c adds this potential's forces on the atoms from
        ``engine.atom_starts[c]`` to ``engine.atom_starts[c + 1]`` to ``engine.forces``.
    rows : ndarray [m, 10]
        Filled when ``engine.flags[ENERGY]`` is set; the sum over rows is the energy (kJ/mol) and the virial
        W_ab = sum f_a r_b = -dE/d(strain_ab).
    update_box : callable, optional
        Called after ``engine.box`` has changed.
    before : list of Phase
        Run ahead of the stages, such as the check and rebuild of a neighbor list; one that several plans share runs
        once.
    jump : float
        What steps of the energy, such as at a cut-off, add to the pressure, times the volume squared (kJ/mol nm^3).
    call : callable, optional
        A Python function that runs ahead of the stages, for what cannot be compiled.
    classes : list of int
        With an `EnergySplit`: the class of each task of `reduce`; all are of class 0 when it is empty.
    enhanced : list of (int, ndarray [m, 10])
        Rows of the classes 1 and 2, whose energies the stages fill at every evaluation.
    after : list of Phase
        Run between the stages and the sum of forces.
    updates : dict of str to callable
        What to call after a value of the potential's `params` has changed, by its name; a change of another rebuilds
        all plans.
    undo : callable, optional
        For a plan that starts from what its last evaluation left, such as a solution: go back to what that started
        from. `Engine.measure` calls it.
    """

    stages: list[list[Task]] = field(default_factory=list)
    reduce: list[Task] = field(default_factory=list)
    rows: np.ndarray = field(default_factory=lambda: np.zeros((1, ROW)))
    update_box: Callable[[], None] | None = None
    before: list[Phase] = field(default_factory=list)
    call: Callable[[], None] | None = None
    jump: float = 0.0
    classes: list[int] = field(default_factory=list)
    enhanced: list[tuple[int, np.ndarray]] = field(default_factory=list)
    after: list[Phase] = field(default_factory=list)
    updates: dict[str, Callable[[], None]] = field(default_factory=dict)
    undo: Callable[[], None] | None = None

    def totals(self) -> np.ndarray:
        """Energy and virial [10], the sum over rows."""
        return self.rows.sum(axis=0)

    def split(self) -> dict[str, Plan]:
        """Parts by name whose forces add up to the plan's, which can be computed at different times."""
        return {}


@kernel(nogil=True)
def add_forces(chunk, starts, source, forces):  # source, forces [n, 3]
    for i in range(starts[chunk], starts[chunk + 1]):
        for a in range(3):
            forces[i, a] += source[i, a]


@kernel(nogil=True)
def zero_forces(chunk, starts, forces):
    for i in range(starts[chunk], starts[chunk + 1]):
        for a in range(3):
            forces[i, a] = 0.0
