"""`Replicas`: several simulations that advance together, on threads of one process or spread over MPI ranks."""

from __future__ import annotations

import builtins
import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import numpy as np

from triskele.core import get_threads, random, set_threads
from triskele.core.extend import Reports, Work, check, patient_interrupts, said_without_bar

from .. import errors
from ..errors import CheckpointError
from ..report.checkpoint import Checkpoint, as_checkpoint
from ..report.records import as_reporters
from ..report.reporter import Reporter
from ..run.arguments import number_of_steps
from ..run.checkpoint_file import differences, read_checkpoint, write_checkpoint
from ..run.loop import _close, _report
from ..run.simulation import Simulation
from ..sealed import Fixed
from .ranks import Ranks

__all__ = ["Replicas", "replica_seed"]


def replica_seed(seed: int, k: int) -> int:
    """A seed for replica `k`, of 64 bits, apart from those of all other replicas and seeds."""
    low, high = (int(word) for word in random.fold_in(random.key(seed), k))
    return low | high << 32


class Replicas(Fixed):
    """Simulations that make their steps together.

    In one process they run on threads. Under ``mpiexec -n 4 python script.py`` the same script spreads them over the
    ranks: each rank makes those of its block, and results are the same, bit for bit. Whatever a script prints should
    stand behind ``if replicas.root:``. If a script may fail on one rank alone, outside of the methods here, start it
    with ``python -m mpi4py script.py``, which then ends all ranks.

    Parameters
    ----------
    make : callable
        ``make(k)`` returns the Simulation of replica k; called for those of this rank. Give each a seed of its own.
    n : int
        Number of replicas.
    every : int
        Steps after which they wait for each other.
    comm : mpi4py communicator, optional
        ``COMM_WORLD`` when left out, if there is more than one rank.

    Attributes
    ----------
    n, every : int
    own : range
        Numbers of the replicas that this process has.
    root : bool
        True in the process that should print and draw.
    stopped : str or None
        Why a reporter ended the last run early.

    Examples
    --------
    >>> from triskele import sponge
    >>> system = sponge.System(sponge.Topology.of_particles(2), [12.0, 12.0], positions=[[0, 0, 0], [0.16, 0, 0]])
    >>> bond = system.add(sponge.harmonic_bond([[0, 1]], k=1000.0, r0=0.15))
    >>> integrator = sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.001)
    >>> replicas = sponge.Replicas(lambda k: sponge.Simulation(system, integrator, seed=k), 3)
    >>> replicas.run(100)
    >>> replicas.each(lambda sim: sim.step)
    [100, 100, 100]
    """

    def __init__(self, make: Callable[[int], Simulation], n: int, *, every: int = 1000, comm: Any = None):
        where = type(self).__name__
        for name, value in (("n", n), ("every", every)):
            check.integer(value, f"{where}: {name}", 1)
        check.kind(make, Callable, f"{where}: make", "a function that makes the simulation of replica k")
        self.n, self.every = int(n), int(every)
        self._ranks = Ranks(self.n, comm)
        self.own, self.root = self._ranks.own, self._ranks.rank == 0
        self._simulations: dict[int, Simulation] = {}
        self._step = 0
        self.stopped: str | None = None
        self._written: set[str] = set()  # paths of checkpoints
        self._saved_every = 1  # checkpoints are written at multiples of this number of steps

        def build(k):
            sim = check.kind(make(k), Simulation, f"{where}: what make returns")
            if any(sim is other for other in self._simulations.values()):
                raise ValueError(f"{where}: make must return a new Simulation for each replica")
            self._simulations[k] = sim
            return self._describe(k, sim)

        self._described = self._all(build)

    def __getitem__(self, k: int) -> Simulation:
        """The simulation of replica `k`, which must be one of this process."""
        if k not in self._simulations:
            raise IndexError(
                f"{type(self).__name__}: replica {k} must be one of {self.own.start} to "
                f"{self.own.stop - 1}, those of this process (each(...) reaches all)"
            )
        return self._simulations[k]

    def __len__(self) -> int:
        return self.n

    @property
    def step(self) -> int:
        """Number of steps made."""
        return self._step

    def each(self, function: Callable[[Simulation], Any]) -> list[Any]:
        """Call ``function(sim)`` for every replica, on threads, such as ``each(lambda sim: sim.minimize())``.

        Parameters
        ----------
        function : callable
            Called with each replica. With several ranks, its result must be picklable.

        Returns
        -------
        list
            Results for all n replicas, on all ranks.
        """
        with self._workers() as workers:
            return self._all(lambda k: function(self._simulations[k]), workers)

    def gather(self, values: Mapping[int, Any]) -> list[Any]:
        """Bring together what the ranks have of their replicas, such as the records of reporters.

        Parameters
        ----------
        values : dict
            By the numbers of this process's replicas, ``replicas.own``.

        Returns
        -------
        list
            Values of all n replicas, on all ranks.

        Examples
        --------
        >>> from triskele import sponge
        >>> from triskele.sponge import cv
        >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds")
        >>> bath = sponge.LangevinMiddle(300, 1.0, 0.002)
        >>> replicas = sponge.ReplicaExchange(system, bath, [300, 320, 340], every=50, seed=1)
        >>> records = {k: sponge.Variables({"phi": cv.torsion(4, 6, 8, 14)}, every=50) for k in replicas.own}
        >>> replicas.run(200, replica_report=lambda k: records[k])
        >>> [len(phi) for phi in replicas.gather({k: record["phi"] for k, record in records.items()})]
        [4, 4, 4]
        """
        return self._all(lambda k: values[k])

    # -- motion --------------------------------------------------------------------------------------------------------

    def run(
        self,
        steps: int | None = None,
        *,
        time: str | float | None = None,
        report: Reports = None,
        replica_report: Callable[[int], Any] | None = None,
        progress: bool | None = None,
        checkpoint: str | os.PathLike | Checkpoint | None = None,
    ) -> None:
        """Make steps with all replicas.

        Ctrl-C ends the run when all have made the steps up to their next meeting; a second one ends it at once, after
        which can be resumed only from a checkpoint.

        Parameters
        ----------
        steps : int
        time : str or float
            Length of the run, in place of steps: "1 ns", or a number of ps.
        report : function or list of functions, optional
            Called on the first rank, after each meeting, with a dictionary of numbers: ``step``, ``time`` in ps, and
            the energies and temperature as means of all replicas. A reporter that raises StopIteration ends the run;
            `stopped` keeps its reason. Give it on all ranks.
        replica_report : callable, optional
            ``replica_report(k)`` returns the reporters of replica k, with files of their own, such as
            ``lambda k: sponge.DCD(f"replica{k}.dcd", every=500)``. They are called from threads. One that raises
            StopIteration ends the run of all replicas when they next wait for each other.
        progress : bool, optional
            Show a progress bar on the first rank. By default only on terminals and in notebooks.
        checkpoint : path-like or Checkpoint, optional
            File of the state of all replicas, see `save`; written at every twentieth of the run, or as often as a
            `Checkpoint` says, and at its end. If it exists, the run resumes from it bit for bit, and makes the steps
            that are left.

        Raises
        ------
        CheckpointError
            If the checkpoint belongs to other replicas or another run.
        BrokenSimulationError, ReporterError, ...
            What a replica's run raises, with the number of the replica, on all ranks.
        """
        if len(set(self._all(lambda k: self._simulations[k].step) + [self._step])) > 1:
            raise RuntimeError(
                f"{type(self).__name__}: replicas must have made the same number of steps, got "
                f"{sorted(set(self._all(lambda k: self._simulations[k].step)))} (a run was cut off; "
                f"load a checkpoint)"
            )
        steps = self._steps(steps, time)
        target = self._step + steps
        saver = None if checkpoint is None else as_checkpoint(checkpoint, steps, self._saved_every)
        if saver is not None:
            self._resume(saver.path, target)
        self._begin()
        work = Work(
            f"{type(self).__name__}.run",
            report if self.root else None,
            progress if self.root else False,
            title="run",
            total=target,
            done=self._step,
        )
        reporters: dict[int, list[Reporter]] = {k: [] for k in self.own}
        interrupted: list[int] = []
        vars(self)["stopped"] = None
        try:
            self._open(reporters, replica_report, saver, target)
            line = f"{type(self).__name__}.run: {self.n} replicas, from step {self._step:,} to {target:,}"
            said = said_without_bar(line, progress if self.root else False)
            with work, said, patient_interrupts() as interrupted, self._workers() as workers:
                self._all(self._prepare)
                while self._step < target and not interrupted and self.stopped is None:
                    self._segment(target, reporters, saver, workers, interrupted)
                    self._report(work, report)
                    if saver is not None and self._step % saver.every == 0:
                        self._save(reporters, work, saver.path)
                if saver not in (None, checkpoint) and self._step == target and self._step % saver.every:
                    self._save(reporters, work, saver.path)
        except BaseException as error:
            for opened in reporters.values():
                _close(opened, error)
            raise
        finally:
            for sim in self._simulations.values():
                sim._running = False
        self._all(lambda k: _close(reporters[k], None))
        if interrupted:
            raise KeyboardInterrupt(f"run: stopped after step {self._step}")

    def _resume(self, path, target):
        """Load the checkpoint of a run that ends at step `target`, if there is one."""
        if not self._root(lambda: os.path.exists(path)):
            return
        step = self._root(lambda: read_checkpoint(path)[1].get("step"))
        if type(step) is int and (step > target or step < self._step and path not in self._written):
            raise CheckpointError(
                f"checkpoint {path!r}: must be of a run from step {self._step} to {target}, got step "
                f"{step} (choose another path, or delete the file)"
            )
        if type(step) is not int or step >= self._step:
            self.load(path)

    def _report(self, work, report):
        """Report the step that was reached: on the first rank, which decides for all whether to go on."""
        record = {"step": self._step}
        if report is not None:
            each = self._all(lambda k: {"time": self._simulations[k].time, **self._simulations[k].energies()})
            record |= {name: float(np.mean([e[name] for e in each])) for name in each[0]}
        if self._step > work.step:
            work(record)
        if report is not None:
            vars(self)["stopped"] = self._root(lambda: work.stopped) or self.stopped

    def _save(self, reporters, work, path):
        self._all(lambda k: [r.sync() for r in reporters[k]])
        work.sync()
        self.save(path)

    def _steps(self, steps, time):
        timesteps = {d["timestep"] for d in self._described}
        if time is not None and len(timesteps) > 1:
            raise ValueError(f"run: a time needs replicas of one time step, got {sorted(timesteps)} ps (give steps)")
        return number_of_steps(steps, time, self._simulations[self.own[0]].timestep)

    def _open(self, reporters, report, checkpoint, target):
        check.kind(
            report, (Callable, None), "run: replica_report", "a function of the replica's number that returns reporters"
        )

        def make(k):
            made = as_reporters(None if report is None else report(k), "run: replica_report", target - self._step)
            if any(isinstance(r, Checkpoint) for r in made):
                raise TypeError(
                    "run: replica_report must return reporters, got Checkpoint (use run(..., checkpoint=...))"
                )
            return made, [os.path.abspath(r.path) for r in made if hasattr(r, "path")]

        made = {}

        def names(k):
            made[k], paths = make(k)
            return paths

        paths = [path for own in self._all(names) for path in own]
        if len(set(paths)) < len(paths):
            raise ValueError(f"run: reporters must write to different files, got {max(paths, key=paths.count)!r} twice")
        stem, ending = os.path.splitext(checkpoint.path) if checkpoint is not None else ("run", ".chk")

        def open_all(k):
            sim = self._simulations[k]
            vars(sim).update(target=target, stopped=None, _running=True)
            sim._guard.path = f"{stem}.replica{k}.last_good{ending or '.chk'}"
            for r in made[k]:
                r.open(sim)
                reporters[k].append(r)

        self._all(open_all)

    def _prepare(self, k):
        """Compile what the loop needs: in one thread, as several would only wait for each other."""
        sim = self._simulations[k]
        sim.check_unchanged()
        sim._lists.begin()
        _ = sim._runner.program

    def _segment(self, target, reporters, checkpoint, workers, interrupted):
        """Steps up to the next meeting, which follows the reports of its step."""
        intervals = [self.every] + ([checkpoint.every] if checkpoint is not None else [])
        due = min([target, *((self._step // i + 1) * i for i in intervals)])
        meet = due % self.every == 0

        def work(k):
            sim = self._simulations[k]
            _advance(sim, reporters[k], due)
            return sim.stopped, self._news(k, sim) if meet else None

        reasons, news = zip(*self._all(work, workers, interrupted), strict=True)
        self._step = due
        vars(self)["stopped"] = next((f"replica {k}: {why}" for k, why in enumerate(reasons) if why), None)
        if meet:
            self._meet(list(news))

    # -- for subclasses ------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Prepare for a run, after a checkpoint was loaded."""

    def _describe(self, k: int, sim: Simulation) -> dict[str, Any]:
        """Return what all ranks need to know of a replica."""
        return {"timestep": sim.timestep}

    def _news(self, k: int, sim: Simulation) -> Any:
        """Return the data that a replica, in its thread, contributes to a meeting."""

    def _meet(self, news: list[Any]) -> None:
        """Act on the data of a meeting, identically on all ranks."""

    def _options(self) -> dict[str, Any]:
        """Return the options that a checkpoint must match, besides the simulations."""
        return {"kind": type(self).__name__, "number of replicas": self.n, "every": self.every}

    def _arrays(self) -> dict[str, np.ndarray]:
        """Return the records of the ensemble."""
        return {}

    def _take(self, arrays: dict[str, np.ndarray]) -> None:
        """Go back to that."""

    # -- checkpoints ---------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike) -> None:
        """Write the state of all replicas: a file for each, and, when these are complete, the one of `path`, which
        names them.

        At any moment `path` belongs to a complete set, the old one or the new one. With several ranks all must see the
        same folder.
        """
        path = os.fspath(path)
        before = self._tag(path)
        tag = f"{self._step}b" if before == f"{self._step}" else f"{self._step}"
        self._all(lambda k: self._simulations[k].save(_member(path, tag, k)))
        meta = {"step": self._step, "tag": tag, "options": self._options()}
        self._root(lambda: write_checkpoint(path, self._arrays(), meta))
        self._written.add(path)
        if before is not None:
            for k in self.own:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(_member(path, before, k))

    def _tag(self, path):
        """Return the tag of the existing set of files; all ranks agree on it before any of them writes."""

        def read():
            with contextlib.suppress(FileNotFoundError, CheckpointError):
                return _checked_tag(path, read_checkpoint(path)[1])

        return self._root(read)

    def load(self, path: str | os.PathLike) -> None:
        """Go back to the state that was saved; the number of ranks may be another one.

        Raises
        ------
        CheckpointError
            If files are damaged or missing, or belong to another system, number of replicas, seed, and so on.
        """
        path = os.fspath(path)
        arrays, meta = read_checkpoint(path)
        tag = _checked_tag(path, meta)
        if found := differences(meta.get("options", {}), self._options()):
            raise CheckpointError(
                f"checkpoint {path!r}: must belong to the same replicas, but these differ: {', '.join(found)}"
            )

        def load(k):
            name = _member(path, tag, k)
            try:
                self._simulations[k].load(name)
            except FileNotFoundError:
                raise CheckpointError(f"checkpoint {path!r}: the file {name!r} that belongs to it is missing") from None
            if self._simulations[k].step != meta.get("step"):
                raise CheckpointError(
                    f"checkpoint {path!r}: must be of one step, got {meta.get('step')}, "
                    f"and {self._simulations[k].step} in {name!r}"
                )

        self._all(load)
        self._step = meta["step"]
        try:
            self._take(arrays)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"checkpoint {path!r}: does not hold the state of these replicas: {type(error).__name__} {error}"
            ) from error

    # -- threads, ranks and failures -----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _workers(self) -> Iterator[ThreadPoolExecutor]:
        """Threads for the replicas of this process; with as many replicas as processors each computes on its own."""
        before, here = get_threads(), self._ranks.threads
        set_threads(1 if len(self.own) >= here else here)
        try:
            with ThreadPoolExecutor(min(len(self.own), here), "replica") as workers:
                yield workers
        finally:
            set_threads(before)

    def _all(self, function, workers=None, interrupted=None) -> list[Any]:
        """``function(k)`` of all replicas, gathered from all ranks; raises everywhere if it fails anywhere."""
        results: dict[int, Any] = {}
        failed: dict[int, BaseException] = {}

        def guarded(k):
            try:
                results[k] = function(k)
            except Exception as error:  # noqa: BLE001  raised, or sent to the other ranks, below
                failed[k] = error

        if workers is None:
            for k in self.own:
                guarded(k)
        else:
            tasks = [workers.submit(guarded, k) for k in self.own]
            try:
                wait(tasks)
            except BaseException:  # a second Ctrl-C
                for task in tasks:
                    task.cancel()
                raise
        told = {k: (type(error).__name__, str(error)) for k, error in failed.items()}
        gathered = self._ranks.gather((results, told, bool(interrupted)))
        if interrupted is not None and not interrupted and any(stop for *_, stop in gathered):
            interrupted.append(0)
        for rank, (_, others, _) in enumerate(gathered):
            for k, (kind, text) in others.items():
                at = f"replica {k}" if self._ranks.size == 1 else f"replica {k} (rank {rank})"
                raise _error(kind, f"{at}: {text}") from failed.get(k)
        merged = {k: value for own, *_ in gathered for k, value in own.items()}
        return [merged[k] for k in range(self.n)]

    def _root(self, function):
        """``function()`` on the first rank; its result, or its failure, on all."""
        result = told = None
        if self.root:
            try:
                result = function()
            except Exception as error:  # noqa: BLE001  raised, or sent to the other ranks, below
                told = type(error).__name__, str(error)
        result, told = self._ranks.gather((result, told))[0]
        if told is not None:
            raise _error(*told)
        return result

    def __repr__(self):
        spread = f" on {self._ranks.size} ranks" if self._ranks.size > 1 else ""
        return f"<{type(self).__name__}: {self.n} replicas{spread}, step {self._step}>"


def _advance(sim: Simulation, reporters: list[Reporter], until: int) -> None:
    """Steps and reports of one replica, up to step `until`."""
    sim._guard.remember()
    while sim.step < until:
        due = min([until, *((sim.step // r.every + 1) * r.every for r in reporters)])
        sim._guard.advance(due - sim.step)
        _report(sim, reporters)


def _checked_tag(path, meta):
    """Return the suffix of the replicas' files: a number, so that no checkpoint points to files elsewhere."""
    tag = meta.get("tag") if isinstance(meta, dict) else None
    if not isinstance(tag, str) or not re.fullmatch(r"\d+b?", tag):
        raise CheckpointError(
            f"checkpoint {path!r}: must be that of several replicas, got that of a single simulation, or a damaged one"
        )
    return tag


def _member(path: str, tag: str, k: int) -> str:
    stem, ending = os.path.splitext(path)
    return f"{stem}.{tag}.{k}{ending}"


def _error(kind: str, text: str) -> Exception:
    """The error of another rank: of its class, where that takes a text."""
    found = getattr(errors, kind, None) or getattr(builtins, kind, None)
    if found is KeyError or not (isinstance(found, type) and issubclass(found, Exception)):
        return RuntimeError(f"{text} ({kind})")
    try:
        return found(text)
    except TypeError:
        return RuntimeError(f"{text} ({kind})")
