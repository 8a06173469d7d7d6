"""`Engine`: a system's state at fixed addresses, and the phases that compute its forces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from triskele.core.extend import Task, check

from ..protocols import PotentialLike, SamplingLike, SystemLike
from .flags import ENERGY, N_FLAGS, REBUILD, STATUS, STATUS_INFO, STEP
from .plan import Plan, zero_forces
from .program import Phase, Program

if TYPE_CHECKING:
    from .energy_split import EnergySplit
    from .jit_task import JitTask

__all__ = ["Engine", "Runner"]

_LONGER = 1.05  # edges of a box that a mesh still fits, over those that it was chosen for

# A chunk of per-atom work of this many atoms takes some 20 us, which is worth waking a thread for.
_ATOMS_PER_CHUNK = 512
_MOST_CHUNKS = 64


class Engine:
    """Compiled energies and forces of a system.

    Parameters
    ----------
    system : System
    precision : {"mixed", "double"}
        Floating-point precision of the pair forces and the PME mesh; everything else uses float64.
    groups : (n,) int8, optional
        Class of each atom (0 or 1), to compute pair forces within and between the classes separately.
    names : iterable of str, optional
        Names of the potentials to compute. Defaults to all.
    sampling : sequence of Sampling
        Methods that change the forces.
    share : Engine, optional
        Use the positions, velocities, box and flags of this one, and compute other potentials for it.

    Attributes
    ----------
    positions, velocities, forces : (n, 3) float64 arrays
    masses, inverse_masses : (n,) float64 arrays
        The inverse of a massless site is 0.
    box : (3, 3) float64
        Zeros when not periodic.
    flags : int64 array
        See `task`.
    atom_starts : (atom_chunks + 1,) int64
        Ranges of atoms for per-atom work; no constraint and no virtual site reaches across a boundary.
    neighbor_lists : dict
        The neighbor lists that the potentials share, by cut-off; see `neighbors.shared_list`.
    plans : dict of str to Plan
    split : EnergySplit or None
        Energies and forces that a sampling method needs separately.
    aside : bool
        True while `compute` or `measure` evaluates forces outside of a step.

    Examples
    --------
    >>> from triskele import sponge
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds")
    >>> import numpy as np
    >>> engine = sponge.Engine(system)
    >>> energies = engine.compute(system.positions)
    """

    def __init__(
        self,
        system: SystemLike,
        precision: Literal["mixed", "double"] = "mixed",
        *,
        groups: np.ndarray | None = None,
        names: Iterable[str] | None = None,
        sampling: Sequence[SamplingLike] = (),
        share: Engine | None = None,
    ):
        check.choice(precision, ("mixed", "double"), "engine: precision")
        system.check()
        self.system, self.precision, self.n = system, precision, system.n
        self.sampling = list(sampling)
        self.groups = None if groups is None else np.ascontiguousarray(groups, np.int8)
        wanted = [p.name for p in system.potentials] if names is None else list(names)
        self.potentials: list[PotentialLike] = [system[name] for name in wanted]
        if share is not None:
            for name in ("positions", "velocities", "box", "flags", "masses", "inverse_masses", "atom_starts"):
                setattr(self, name, getattr(share, name))
        else:
            self.positions = np.zeros((self.n, 3))
            self.velocities = np.zeros((self.n, 3))
            self.box = np.zeros((3, 3))
            self.flags = np.zeros(N_FLAGS, np.int64)
            self.masses = np.array(system.masses, np.float64)
            self.inverse_masses = np.divide(1.0, self.masses, out=np.zeros(self.n), where=self.masses > 0)
            self.atom_starts = _atom_starts(system)
            if system.positions is not None:
                self.positions[:] = system.positions
            if system.velocities is not None:
                self.velocities[:] = system.velocities
            if system.box is not None:
                self.box[:] = system.box
        # meshes are chosen by this box, until `fit_meshes` takes another
        self.first_box: np.ndarray = self.box.copy() if share is None else share.first_box
        self.forces = np.zeros((self.n, 3))
        self.removes_com_motion: bool | None = None  # set by `integrators.center_of_mass`
        self.seed = 0  # of all random numbers; set before integrators and barostats make their plans
        self.store: dict[str, np.ndarray] = {}  # arrays of integrators and barostats that outlive a new plan
        self.periodic = system.box is not None
        self.version = 0  # number of times the plans were rebuilt
        self.aside = False  # whether forces are computed outside of a step
        self.handlers: dict[int, Callable[[Engine], bool]] = {}
        self.jit_tasks: list[JitTask] = []
        self.neighbor_lists: dict[Any, Any] = {}
        self._site_rows = np.zeros((1, 10))  # virial that virtual sites add
        self.split: EnergySplit | None = None
        for method in self.sampling:
            split = method.split(self)
            if split is not None and self.split is not None:
                raise ValueError(
                    f"engine: only one sampling method can split the energy, got a second one, {method.name!r}"
                )
            self.split = split or self.split
        self._make_plans()
        self._runner = Runner(self, self.force_phases)

    def __repr__(self) -> str:
        return f"<Engine: {self.n} atoms, {self.precision} precision; {', '.join(p.name for p in self.potentials)}>"

    @property
    def atom_chunks(self) -> int:
        """Number of ranges of atoms."""
        return len(self.atom_starts) - 1

    @property
    def owner(self) -> Engine:
        """The engine itself; an engine whose arrays an `EnergySplit` has replaced gives the one that it stands for."""
        return self

    def on_status(self, code: int, handler: Callable[[Engine], bool]) -> None:
        """Let `handler(engine)` deal with a status that a kernel has set; it returns whether the plans must be made
        anew.
        """
        self.handlers[code] = handler

    def _make_plans(self):
        self.jit_tasks.clear()
        self.plans: dict[str, Plan] = {
            p.name: self.split.plan(p) if self.split else p.plan(self) for p in self.potentials
        }
        self.plans |= {method.name: method.plan(self) for method in self.sampling}
        self.flags[REBUILD] = 1

    def replan(self) -> None:
        """Rebuild all plans after arrays have grown."""
        self.version += 1
        self._make_plans()

    def param_changed(self, potential: str, key: str) -> None:
        """Take over the values of a parameter that have changed."""
        self.plans[potential].updates.get(key, self.replan)()

    def fit_meshes(self, box: np.ndarray | None) -> None:
        """Choose meshes again if edges of `box` are more than 5 % longer than those that they were chosen for."""
        if box is not None and np.any(np.diag(box) > _LONGER * np.diag(self.first_box)):
            self.first_box = np.array(box, np.float64)
            self.replan()

    def _part(self, name, part=None):
        return self.plans[name] if part is None else self.plans[name].split()[part]

    def force_phases(self, names: Iterable[str] | None = None) -> list[Phase]:
        """The phases that set `forces` (and rows of energies) from `positions` and `box`; of the potentials `names`, or
        all. A name such as "nonbonded/direct" stands for a part of a potential.
        """
        if names is not None and self.split is not None:
            raise ValueError(
                "engine: with a sampling method that splits the energy, forces must be computed all at once (not RESPA)"
            )
        chosen = self.plans if names is None else {name: self._part(*name.split("/")) for name in names}
        plans = list(chosen.values())
        place: list[Task] = []
        spread: list[Task] = []
        if self.system.virtual_sites:
            place, spread, self._site_rows = self.system.site_tasks(self)
        phases = [Phase(place, "sequence", name="virtual sites")] if place else []
        for plan in plans:
            phases += [p for p in plan.before if p not in phases]
        phases += [Phase(call=plan.call, name=name) for name, plan in chosen.items() if plan.call]
        for k in range(max((len(p.stages) for p in plans), default=0)):
            tasks = [t for p in plans if len(p.stages) > k for t in p.stages[k]]
            phases.append(Phase(tasks, name=f"forces {k}"))
        if self.split is not None:
            phases.append(self.split.gather(plans))
        phases += [phase for p in plans for phase in p.after]
        sums = [t for p in plans for t in p.reduce] if self.split is None else self.split.sums(plans)
        zero = Task(zero_forces, self.atom_starts, self.forces, chunks=self.atom_chunks)
        phases.append(Phase([zero, *sums, *spread], "sequence", name="sum of forces"))
        return [replace(phases[0], begins=True), *phases[1:]]

    def list_phases(self, neighbors: Any) -> list[Phase]:
        """Return the phases that build one neighbor list and what is made anew with it, from `positions` and `box`."""
        others = [p for one in self.neighbor_lists.values() if one is not neighbors for p in one.before]
        phases: list[Phase] = []
        for plan in self.plans.values():
            phases += [p for p in plan.before if p not in phases and p not in others and p.call is None]
        return [replace(phases[0], begins=True), *phases[1:]]

    def box_changed(self, rebuild: bool = True) -> None:
        """Tell the potentials that `box` has changed.

        Neighbor lists notice for themselves when atoms have gone too far: for a small change they need no `rebuild`.
        """
        for plan in self.plans.values():
            if plan.update_box is not None:
                plan.update_box()
        if rebuild:
            self.flags[REBUILD] = 1

    def compute(self, positions: Any = None, box: Any = None, energy: bool = True) -> None:
        """Set `forces`, and with `energy` the energies and virial, once, outside of any step.

        The neighbor list is rebuilt, so that the result depends on nothing but positions and box.
        """
        if positions is not None:
            self.positions[:] = positions
        if box is not None and not np.array_equal(box, self.box):
            self.box[:] = box
            self.box_changed()
        self.flags[REBUILD] = 1
        step, before = self.flags[STEP], self.flags[ENERGY]
        self.flags[ENERGY] = energy
        try:
            self._evaluate()
        finally:
            self.flags[STEP], self.flags[ENERGY] = step, before

    def measure(self, read: Callable[[], Any]) -> Any:
        """Return `read()` with energies, virial and forces of the present positions, between two steps.

        The steps that follow are bit for bit those without it: `forces` and `flags` are restored, a list that has to be
        rebuilt here is rebuilt by the next evaluation too, plans that start from their last evaluation `undo` this
        one, and whatever else an evaluation sets, the next one sets again.
        """
        sites = bool(self.system.virtual_sites)  # which are placed
        kept = [(array, array.copy()) for array in (self.flags, self.forces, *([self.positions] if sites else []))]
        version, lists = self.version, [(one, one.mark()) for one in self.neighbor_lists.values()]
        self.flags[ENERGY] = 1
        try:
            self._evaluate()
            return read()
        finally:
            for array, values in kept:
                array[:] = values
            for one, mark in lists:
                one.resume(mark)
            for plan in self.plans.values():
                if plan.undo is not None:
                    plan.undo()
            if self.version != version:  # arrays have grown: they are new
                self.flags[REBUILD] = 1

    def _evaluate(self):
        self.aside = True
        try:
            self._runner.run(1)
        except BaseException:  # of a phase in Python: the next evaluation begins at other positions, perhaps
            self._runner.program.restart()
            raise
        finally:
            self.aside = False

    def energies(self) -> dict[str, float]:
        """Energy of every term (kJ/mol), as last computed with the flag ENERGY."""
        return {name: float(plan.totals()[0]) for name, plan in self.plans.items()}

    def virial(self) -> np.ndarray:
        """Virial W_ab = sum f_a r_b (kJ/mol), as last computed with the flag ENERGY."""
        total = sum((plan.totals()[1:] for plan in self.plans.values()), self._site_rows[:, 1:].sum(0))
        if self.split is not None:
            total = total + self.split.virial()
        return total.reshape(3, 3)


class Runner:
    """Runs the phases that `make_phases()` returns, and makes them again when the engine had to grow its arrays."""

    def __init__(self, engine: Engine, make_phases: Callable[[], list[Phase]]):
        self.engine, self.make_phases = engine, make_phases
        self._program: Program | None = None
        self._version = -1

    @property
    def program(self) -> Program:
        """The program of the engine's present plans."""
        if self._program is None or self._version != self.engine.version:
            old = self._program
            self._program, self._version = Program(self.make_phases(), self.engine.flags), self.engine.version
            self._program.is_current = lambda: self._version == self.engine.version
            if old is not None:
                self._program._next = old._next
        return self._program

    def renew(self) -> None:
        """Make the phases again before the next step."""
        self._program = None

    def run(self, steps: int) -> None:
        """Make `steps` steps; a status without a handler raises RuntimeError, handlers raise errors of their own."""
        flags = self.engine.flags
        last = flags[STEP] + steps
        while (end := self.program.run(int(last - flags[STEP]))) != -1:
            if end == -2:  # a phase in Python, such as a barostat's, has rebuilt the plans
                continue
            program, code = self.program, int(flags[STATUS])
            flags[STATUS] = 0
            at = program._next
            handler = self.engine.handlers.get(code)
            if handler is None:
                program.restart()
                raise RuntimeError(
                    f"step {flags[STEP]}, phase {program.phases[at].name}: status {code} "
                    f"({flags[STATUS_INFO]}), which nothing handles"
                )
            try:
                grown = handler(self.engine)
            except Exception:
                program.restart()
                raise
            while at > 0 and not (program.phases[at].begins if grown else program.phases[at].redo):
                at -= 1
            program._next = at
            if grown:
                self.engine.replan()


def _atom_starts(system: SystemLike) -> np.ndarray:
    n = system.n
    chunks = int(np.clip(n // _ATOMS_PER_CHUNK, 1, _MOST_CHUNKS))
    if chunks == 1:
        return np.array([0, n], np.int64)
    _, cluster = np.unique(system.clusters(), return_inverse=True)
    first, last = np.full(cluster.max() + 1, n), np.zeros(cluster.max() + 1, np.int64)
    np.minimum.at(first, cluster, np.arange(n))
    np.maximum.at(last, cluster, np.arange(n))
    crossing = np.zeros(n + 1, np.int64)  # how many clusters reach across the boundary before atom i
    np.add.at(crossing, first + 1, 1)
    np.add.at(crossing, last + 1, -1)
    allowed = np.flatnonzero(np.cumsum(crossing) == 0)
    wanted = np.linspace(0, n, chunks + 1)
    return np.unique(np.r_[0, allowed[np.minimum(np.searchsorted(allowed, wanted), len(allowed) - 1)], n]).astype(
        np.int64
    )
