"""`Simulation`: a system in motion."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from triskele.core.extend import Reports, check

from .. import box as boxes
from ..barostats.barostat import Barostat
from ..engine.engine import Engine, Runner
from ..engine.flags import FORCES_STALE, REBUILD, STEP
from ..engine.plausibility import check_settings, check_units
from ..engine.program import Phase, StepPlan
from ..errors import CheckpointError
from ..integrators.center_of_mass import warn_of_leak
from ..integrators.integrator import Integrator
from ..integrators.temperature import freedom_of, set_thermal_velocities
from ..load.structure import Structure
from ..load.whole import whole_positions
from ..report.bar import Bar
from ..report.checkpoint import Checkpoint, as_checkpoint
from ..report.records import as_reporters
from ..system import System
from ..topology import as_vectors
from .arguments import drude_pairs, number_of_steps, sampling_methods
from .changes import Changes, Settings
from .checkpoint_file import below, check_belongs, damage, nested, read_checkpoint, write_checkpoint
from .equilibrate import equilibrate
from .guard import Guard
from .list_schedule import ListSchedule
from .loop import run
from .minimize import Minimum, minimize
from .observables import Observables
from .origin import ADVICE, MadeFrom
from .sampling_method import Sampling
from .snapshot import restore, snapshot
from .state import State, warn_of_box

__all__ = ["Simulation"]

_COLD = 100.0  # K; slower atoms may stem from a minimization
_HOT = 1.5  # times the temperature of the bath: more than a fluctuation


class Simulation(Observables):
    """Moves the atoms of a system.

    Parameters
    ----------
    system : System
        It is compiled into the run, and so are the integrator and all other settings. When one of them was changed
        afterwards, `run`, `minimize`, `energies` and `save` raise a StaleSimulationError that names it. The
        system's positions, velocities and box are where the simulation starts; they may be replaced by its present
        ones.
    integrator : Integrator
        Integrator such as ``sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.002)``.
    seed : int
        Seed of all random numbers; the same seed gives the same run, on any number of threads.
    barostat : Barostat, optional
        Keeps the pressure.
    sampling : sequence of Sampling
        Methods that change what is sampled, such as ``[sponge.SITS(...)]``; each belongs to one simulation.
    precision : {"mixed", "double"}
        Floating-point precision of the pair forces and the PME mesh. Positions, force sums and the integrator always
        use float64.
    positions : (n, 3) array, nm, or Structure, optional
        Defaults to the system's own.
    velocities : (n, 3) array, nm/ps, optional
        Initial velocities. Defaults to the velocities stored in `system`. If the system has none, velocities are drawn
        from the Maxwell-Boltzmann distribution at the integrator's temperature, or set to zero if the integrator has
        no temperature.
    state : State, optional
        Positions, velocities and box to start from, those of ``other.state()``, in place of the system's own.

    Attributes
    ----------
    files : dict of str to int
        Length of each reporter's file in bytes; saved in checkpoints.
    resumed_from : str or None
        The checkpoint from which the state comes.
    stopped : str or None
        Why a reporter ended the last run early.

    Examples
    --------
    >>> from triskele import sponge
    >>> system = sponge.System(sponge.Topology.of_particles(2), [12.0, 12.0], positions=[[0, 0, 0], [0.16, 0, 0]])
    >>> bond = system.add(sponge.harmonic_bond([[0, 1]], k=1000.0, r0=0.15))
    >>> sim = sponge.Simulation(system, sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.001), seed=1)
    >>> sim.run(100)
    >>> sim.step, round(sim.time, 3)
    (100, 0.1)
    """

    def __init__(
        self,
        system: System,
        integrator: Integrator,
        *,
        seed: int = 0,
        barostat: Any = None,
        sampling: Sequence[Sampling] = (),
        precision: Literal["mixed", "double"] = "mixed",
        positions: Any = None,
        velocities: Any = None,
        state: State | None = None,
    ):
        check.kind(system, System, "Simulation: system", hint="sponge.create_system(structure, forcefield) makes one")
        if isinstance(positions, Structure):
            positions = positions.positions
        if state is not None:
            if positions is not None or velocities is not None:
                raise TypeError("Simulation: state must be a State, without positions and velocities beside it")
            positions, velocities = check.kind(state, State, "Simulation: state").positions, state.velocities
        else:
            warn_of_box(positions, system.box)
        check.kind(integrator, Integrator, "Simulation: integrator")
        check.integer(seed, "Simulation: seed", 0, 2**64 - 1)
        check.kind(barostat, (Barostat, None), "Simulation: barostat")
        if positions is None and system.positions is None:
            raise ValueError("Simulation: positions are needed; give them, or set system.positions")
        self._drude = drude_pairs(system, integrator)
        self.system, self.integrator, self.barostat = system, integrator, barostat
        self.sampling = tuple(sampling_methods(sampling, system))
        for method in self.sampling:
            method.check(system, integrator)
        self.seed, self.precision = int(seed), precision
        self.files: dict[str, int] = {}
        self.resumed_from: str | None = None
        self.target = 0  # step at which the present run ends
        self.stopped: str | None = None
        self._written: set[str] = set()  # paths of checkpoints
        self._engine = Engine(system, precision, sampling=self.sampling)
        self._engine.seed = self.seed
        self._first_box = None if system.box is None else system.box.copy()
        start = (
            self._engine.positions
            if positions is None
            else as_vectors(positions, system.topology, "Simulation: positions")
        )
        check_units(system, start, system.box, "Simulation")
        check_settings(system, integrator, barostat)
        self._runner = Runner(self._engine, self._phases)
        self._guard = Guard(self)
        self._settings = Settings(self, self._engine, self._runner, lambda: self._made_from.accept())
        self._changes = Changes(self._settings)  # which the present run makes
        self._freedom = freedom_of(self._engine)
        warn_of_leak(system, self.sampling)
        self._drawn = False  # whether velocities were drawn, not given
        self._measured: dict[str, float] | None = None  # energies of the present state
        self._given: np.ndarray | None = None  # positions that were set since the last step
        self._rate, self._running = 0.0, False  # steps per second
        self._lists = ListSchedule(
            self._engine, lambda: integrator.pair_interval(system.potentials), lambda: self._temperature_expected
        )
        self.positions = start
        if state is not None and state.box is not None:
            self.box = state.box
        if velocities is not None:
            self.velocities = velocities
        elif system.velocities is None and self._temperature_wanted is not None:
            self.thermalize()
            self._drawn = True
        self._touched()  # no forces have been computed yet
        given = {"positions": positions, "velocities": velocities, "box": state}
        self._made_from = MadeFrom(self, [name for name, value in given.items() if value is not None])
        for method in self.sampling:
            method.claim(self._engine)

    _advice = ADVICE

    def _phases(self) -> list[Phase]:
        engine = self._engine
        phases = self.integrator.plan(engine, engine.force_phases())
        for method in self.sampling:
            phases += method.after_step(engine, self.integrator)
        if self.barostat is not None:
            phases = self.barostat.plan(engine, self.integrator, phases)
        return phases + self._guard.phases()

    def plan(self) -> StepPlan:
        """Return the phases of a step in order; printed, each with its tasks and their numbers of chunks.

        Examples
        --------
        >>> from triskele import sponge
        >>> system = sponge.System(sponge.Topology.of_particles(2), [12.0, 12.0], positions=[[0, 0, 0], [0.16, 0, 0]])
        >>> bond = system.add(sponge.harmonic_bond([[0, 1]], k=1000.0, r0=0.15))
        >>> sponge.Simulation(system, sponge.VelocityVerlet(timestep=0.001)).plan()
        0: forces 0 [parallel, if FORCES_STALE is set]: terms (1)
        1: sum of forces [sequence, if FORCES_STALE is set]: zero_forces (1), add_buffers (1)
        2: forces at the start [parallel, if FORCES_STALE is set]: _mark_fresh (1)
        3: center of mass [parallel, every 10 steps]: momentum (1)
        4: center of mass [parallel, every 10 steps]: remove_momentum (1)
        5: integrator [sequence]: kick_drift (1)
        6: forces 0 [parallel]: terms (1)
        7: sum of forces, integrator [sequence]: zero_forces (1), add_buffers (1), kick (1)
        8: guard [parallel, every 100 steps]: look_at_atoms (1)
        """
        return StepPlan(tuple(self._runner.program.phases))

    # -- state ---------------------------------------------------------------------------------------------------------

    @property
    def step(self) -> int:
        """Number of steps made."""
        return int(self._engine.flags[STEP])

    @property
    def timestep(self) -> float:
        """Time in ps."""
        return self.integrator.timestep

    @property
    def time(self) -> float:
        """Time in ps."""
        return self.step * self.timestep

    @property
    def positions(self) -> np.ndarray:
        """Positions [n, 3] in nm, not wrapped into the box: a copy that is read-only. Can be set as a whole; molecules
        that are broken at the faces of the box are put together.
        """
        return _read_only(self._engine.positions)

    @positions.setter
    def positions(self, values: Any) -> None:
        self._given = np.array(as_vectors(values, self.system.topology, "Simulation: positions"))
        self._gather()
        self._touched()

    def _gather(self):
        """Put molecules in one piece: positions that were given, in the present box."""
        if self._given is not None:
            self._engine.positions[:] = whole_positions(self.system, self._given, self.box)

    @property
    def velocities(self) -> np.ndarray:
        """Velocities [n, 3] in nm/ps: a copy that is read-only. Can be set as a whole."""
        return _read_only(self._engine.velocities)

    @velocities.setter
    def velocities(self, values: Any) -> None:
        self._engine.velocities[:] = as_vectors(values, self.system.topology, "Simulation: velocities", "nm/ps")
        self._touched()
        self._lists.state_changed()

    @property
    def box(self) -> np.ndarray | None:
        """Box [3, 3] in nm, or None: a copy that is read-only. Can be set as a whole."""
        return _read_only(self._engine.box) if self._engine.periodic else None

    @box.setter
    def box(self, value: Any) -> None:
        if not self._engine.periodic:
            raise ValueError("Simulation: a system that is not periodic cannot have a box (set system.box before)")
        self._engine.box[:] = boxes.as_box(value, "Simulation: box")
        self._engine.box_changed()
        self._gather()
        self._touched()
        self._lists.state_changed()

    def state(self) -> State:
        """Step, time, positions, velocities and box, as copies."""
        engine = self._engine
        return State(
            self.step,
            self.time,
            engine.positions.copy(),
            engine.velocities.copy(),
            engine.box.copy() if engine.periodic else None,
        )

    def thermalize(self, temperature: float | None = None, seed: int | None = None) -> None:
        """Draw velocities from the Maxwell-Boltzmann distribution, consistent with constraints and with zero total
        momentum.

        Parameters
        ----------
        temperature : float, K, optional
            Defaults to the integrator's temperature.
        seed : int, optional
            Defaults to the simulation's.
        """
        temperature = self._temperature_wanted if temperature is None else temperature
        if temperature is None:
            raise ValueError(f"thermalize: a temperature is needed, because {type(self.integrator).__name__} has none")
        set_thermal_velocities(self._engine, temperature, seed)
        self._touched()
        self._lists.state_changed()

    # -- motion --------------------------------------------------------------------------------------------------------

    def minimize(
        self,
        tolerance: float = 10.0,
        max_steps: int = 0,
        method: Literal["lbfgs", "fire"] = "lbfgs",
        *,
        report: Reports = None,
        progress: bool | None = None,
    ) -> Minimum:
        """Move the atoms to a local minimum of the potential energy; constraints are kept.

        Velocities stay, unless they were drawn for this simulation: these are drawn again.

        Parameters
        ----------
        tolerance : float
            Root mean square of the components of the force to stop at, in kJ/mol/nm.
        max_steps : int
            Steps to stop after; 0 for no limit.
        method : {"lbfgs", "fire"}
        report : function or list of functions, optional
            Called after every step with a dictionary of ``step``, ``energy`` in kJ/mol and ``rms_force`` in kJ/mol/nm;
            see `core.report`. A reporter that raises StopIteration ends the minimization there.
        progress : bool, optional
            Show a progress bar. By default only on terminals and in notebooks.

        Returns
        -------
        Minimum
            Energy, force, number of steps, and whether the tolerance was reached.
        """
        self.check_unchanged()
        self._given = None
        self._lists.strict()
        try:
            return minimize(self._engine, tolerance, max_steps, method, report, progress)
        finally:
            self._touched()
            if self._drawn:
                self.thermalize()

    def equilibrate(
        self,
        *,
        restrain: Any = None,
        k: float = 1000.0,
        start: float = 10.0,
        heat: str | float = "50 ps",
        release: str | float = "100 ps",
        report: Any = None,
        progress: bool | None = None,
        checkpoint: str | os.PathLike | None = None,
    ) -> None:
        """Minimize, heat with restrained solutes at constant volume, then release these, with the barostat if any.

        Steps are not counted: the next run begins where the simulation stood, with positions, velocities and box of the
        equilibrated system.

        Parameters
        ----------
        restrain : list, mask or str, optional
            Atoms to hold where they are: indices, or a selection such as "protein". Defaults to the heavy atoms of
            molecules that have more than one.
        k : float, kJ/mol/nm^2
            Force constant, which falls to 0 during the release.
        start : float, K
            Temperature at which heating begins.
        heat, release : str or float
            Times of the two runs: "50 ps", or a number of ps.
        report, progress
            As for `run`.
        checkpoint : path-like, optional
            Beginning of the paths of two files, ``.heat`` and ``.release``, from which a script that was killed goes on
            when it is run again.

        Examples
        --------
        >>> from triskele import sponge
        >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds")
        >>> sim = sponge.Simulation(system, sponge.LangevinMiddle(300, friction=1.0, timestep=0.002), seed=1)
        >>> sim.equilibrate(heat="1 ps", release="1 ps")
        >>> sim.step, bool(sim.temperature > 150)
        (0, True)
        """
        equilibrate(self, restrain, k, start, heat, release, checkpoint, report=report, progress=progress)

    def run(
        self,
        steps: int | None = None,
        *,
        time: str | float | None = None,
        report: Any = None,
        progress: bool | None = None,
        checkpoint: str | os.PathLike | Checkpoint | None = None,
        change: Mapping[str, Any] | None = None,
    ) -> None:
        """Make steps.

        The loop is compiled: Python is entered for reports, and a few times a second for progress bars and Ctrl-C,
        which ends the run after a whole step, with all files closed.

        Parameters
        ----------
        steps : int
        time : str or float
            Length of the run, in place of steps: "1 ns", or a number of ps.
        report : reporter, function, or list of these, optional
            Each reporter acts when the number of the step is a multiple of its `every`. A function, such as ``print``,
            ``wandb.log`` or the ``append`` of a list, is called after each hundredth of the run with a dictionary of
            ``step``, ``time`` in ps and all `energies`; `CSV`, `TensorBoard` and others have an `every` of their own.
            A reporter that raises StopIteration ends the run after this step; `stopped` keeps its reason.
        progress : bool, optional
            Show a progress bar. By default only on terminals and in notebooks.
        checkpoint : path-like or Checkpoint, optional
            File of the state, written at every twentieth of the run, or as often as a `Checkpoint` says, and at its
            end. If the file exists, the run resumes from it bit for bit, and makes the steps that are left: a script
            that was killed continues when it is run again. Use a path of its own for each run.
        change : dict, optional
            Settings that the run changes, by name: fields of the integrator and the barostat, such as "temperature" and
            "pressure", and parameters of potentials, such as "position_restraint/k" or the lambda
            "nonbonded/sterics" (see ``system.params()``). Each is a `ramp`, a function of the time in ps since the run
            began, a list of pairs (time, value) of steps, or a value. Parameters change every 10 steps where the
            compiled step can read them, everything else at least every 100 steps and at most 500 times. At the end of
            the run, settings, and parameters of the system, keep their last values.

        Raises
        ------
        StaleSimulationError
            If the system or a setting was changed after the simulation was made; says what. A change that a reporter
            makes is noticed within a second, and at the end of the run.
        BrokenSimulationError
            If positions, velocities or forces become non-finite; says where, when and why, and leaves the last good
            state on the disk.
        ReporterError
            If a reporter cannot write. Whatever a reporter raises, the state is saved, and other reporters are closed.
        CheckpointError
            If the checkpoint belongs to another simulation or run; the message names what differs.
        """
        steps = number_of_steps(steps, time, self.timestep)
        reporters = [*as_reporters(report, "run", steps), Bar(progress)]
        target, saver = self.step + steps, None
        changes = Changes(self._settings, change or {}, self.step, steps, self.timestep)
        if checkpoint is not None:
            saver = as_checkpoint(checkpoint, steps)
            self._resume(saver.path, target)
            reporters.append(saver)
        with changes.made():
            if change:
                self._lists.state_changed()
            run(self, target - self.step, reporters)
        if saver not in (None, checkpoint) and self.step == target and self.step % saver.every:
            self.save(saver.path)

    def _resume(self, path, target):
        """Load the checkpoint of a run that ends at step `target`, if there is one."""
        if not os.path.exists(path):
            return
        step = read_checkpoint(path)[1].get("step")
        if type(step) is not int or self.step <= step <= target:
            self.load(path)
        elif step > target or path not in self._written:
            raise CheckpointError(
                f"checkpoint {path!r}: must be of a run from step {self.step} to {target}, got step "
                f"{step} (choose another path, or delete the file)"
            )

    def _advance(self, steps: int) -> None:
        """Make steps without any reporting."""
        self._measured = self._given = None
        self._lists.begin()
        last = self.step + steps
        while self.step < last:
            self._changes.apply(self.step)
            self._runner.run(min(self._changes.next(self.step), last) - self.step)
        self._changes.apply(last)

    def _touched(self) -> None:
        """The state has been changed from outside."""
        self._engine.flags[REBUILD] = self._engine.flags[FORCES_STALE] = 1
        self._measured = None

    # -- checkpoints ---------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike) -> None:
        """Write a checkpoint: everything that a run needs to resume bit for bit.

        The file is replaced as a whole or not at all. Saving changes no step of the run, except with
        `ChargeEquilibration`, which forgets former charges.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        if not self._running:
            self.check_unchanged()
        arrays, meta = self._snapshot()
        meta.update(fingerprint=self._made_from.fingerprint, files=self.files)
        write_checkpoint(path, arrays, meta)
        self._written.add(os.fspath(path))
        if not self._lists.repeatable:
            self._touched()

    def load(self, path: str | os.PathLike) -> None:
        """Restore the saved state; the next run continues from it, and continues the files of its reporters.

        Raises
        ------
        CheckpointError
            If the file is damaged, or belongs to another system, integrator, barostat, seed or precision.

        Examples
        --------
        >>> import os, tempfile
        >>> from triskele import sponge
        >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"))
        >>> path = os.path.join(tempfile.mkdtemp(), "run.chk")
        >>> sim = sponge.Simulation(system, sponge.VelocityVerlet(timestep=0.001), seed=1)
        >>> sim.run(20)
        >>> sim.save(path)
        >>> again = sponge.Simulation(system, sponge.VelocityVerlet(timestep=0.001), seed=1)
        >>> again.load(path)
        >>> again.step
        20
        """
        path = os.fspath(path)
        arrays, meta = read_checkpoint(path)
        self.check_unchanged()
        with damage(path):
            files = check_belongs(path, meta, self._made_from.fingerprint)
            self._restore(arrays, meta)
        vars(self).update(files=files, resumed_from=path)

    def _snapshot(self):
        """The state in memory: arrays, and numbers."""
        arrays = snapshot(self._engine, self._lists, self.sampling) | nested("settings/", self._settings.present)
        return arrays, {"step": self.step, "time": self.time}

    def _restore(self, arrays, meta):
        self._measured = self._given = None
        self._settings.restore(below("settings/", arrays))
        if not restore(self._engine, self._runner, self._lists, self.sampling, arrays, meta["step"]):
            self._touched()

    @property
    def _temperature_wanted(self):
        return getattr(self.integrator, "temperature", None)

    @property
    def _temperature_expected(self):
        """That of the thermostat, or of velocities that are hotter.

        Without a thermostat, a run that begins nearly at rest may turn potential energy into heat.
        """
        now, bath = self.temperature, self._temperature_wanted
        if not bath:
            return now if now > _COLD else 300.0
        bath = max(bath, self._changes.highest())
        return now if now > _HOT * bath else bath

    def __repr__(self):
        kind = type(self.integrator).__name__
        return f"<Simulation: {self.system.n} atoms, {kind}, step {self.step}, {self.time:g} ps>"


def _read_only(values):
    values = values.copy()
    values.flags.writeable = False  # writing into a copy would not move atoms
    return values
