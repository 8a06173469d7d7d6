"""`Reporter`, what a run calls at chosen steps, and `FileReporter`, which appends records to one file."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from triskele.core.extend import check

from ..errors import ReporterError
from ..protocols import SimulationLike
from ..sealed import Sealed
from ..selection import chosen_atoms

if TYPE_CHECKING:
    from ..run.simulation import Simulation

__all__ = ["FileReporter", "OfAtoms", "Reporter", "TrajectoryFile", "check_path"]


def check_path(name: str, path: str, descriptor: int, lost: str) -> None:
    """Raise a ReporterError that begins with `name` and `lost` unless `path` still names the open file `descriptor`."""
    try:
        there = os.path.samestat(os.stat(path), os.fstat(descriptor))
    except OSError as error:
        raise ReporterError(f"{name}: {lost}: {error.strerror or error} (was it deleted during the run?)") from error
    if not there:
        raise ReporterError(f"{name}: {lost}: another file has taken its place during the run")


class Reporter(Sealed):
    """Base class: observes a simulation every `every` steps.

    A run calls `open` before its first step, `report` after each step whose number is a multiple of `every`, `tick` a
    few times a second, `sync` before a checkpoint is written, and `close` at the end, whatever the end is.

    Parameters
    ----------
    every : int
        Number of steps between two calls.

    Raises
    ------
    ValueError
        If `every` is not a positive whole number.

    Examples
    --------
    >>> from triskele import sponge
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds")
    >>> class Energies(sponge.Reporter):
    ...     def __init__(self, every):
    ...         super().__init__(every)
    ...         self.values = []
    ...     def report(self, simulation, step):
    ...         self.values.append(simulation.energies()["potential"])
    >>> energies = Energies(every=5)
    >>> sponge.Simulation(system, sponge.LangevinMiddle(300, 1.0, 0.002), seed=1).run(20, report=energies)
    >>> len(energies.values)
    4
    """

    def __init__(self, every: int):
        self.every = every

    @property
    def every(self) -> int:
        """Steps between reports. Can be set, for the next run."""
        return self._every

    @every.setter
    def every(self, value: int) -> None:
        self._every = check.integer(value, f"{type(self).__name__}: every", 1)

    def __repr__(self) -> str:
        path = getattr(self, "path", None)
        return f"<{type(self).__name__} every {self.every} steps{f', {str(path)!r}' if path is not None else ''}>"

    def open(self, sim: Simulation) -> None:
        """Get ready; raising here stops the run before its first step."""

    def report(self, sim: Simulation, step: int) -> None:
        """Record the state of `sim`, which has made `step` steps."""
        raise NotImplementedError

    def tick(self, sim: Simulation) -> None:
        """Called several times a second; for progress bars."""

    def sync(self) -> None:
        """Bring to the disk what has been reported."""

    def close(self) -> None:
        """Let go of files; called once for each `open` that succeeded."""


class OfAtoms(Reporter):
    """A reporter of positions that has `atoms`: indices, a selection, or None for all; comes first among bases.

    A selection is made by the positions that the system itself has, so that a resumed run finds the same atoms.
    """

    atoms: Any

    def open(self, sim: SimulationLike) -> None:
        """Find the atoms and their topology."""
        topology = sim.system.topology
        self._chosen = chosen_atoms(type(self).__name__, sim.system, self.atoms)
        self._topology = topology if self.atoms is None else topology.take(self._chosen)
        super().open(sim)


class FileReporter(Reporter):
    """A reporter that appends records to a file, and continues the file after a resume.

    `Simulation.files` knows how long the file was at the last checkpoint (or at the end of the run before in the same
    process). When a later run opens the same path, what came after is cut off, so that no record is missing or there
    twice; a path that the simulation has not written to is overwritten.

    Parameters
    ----------
    path : str or path
    every : int
        Number of steps between two calls.
    """

    def __init__(self, path: str | os.PathLike, every: int):
        super().__init__(every)
        self.path = os.fspath(path)

    def header(self, sim: SimulationLike) -> bytes:
        """Return the beginning of a new file: nothing, where every record carries all that belongs to it."""
        return b""

    def record(self, sim: SimulationLike, step: int) -> bytes:
        """Return the bytes that one report appends to the file."""
        raise NotImplementedError

    def footer(self) -> bytes:
        """Return the bytes that end a finished file; a later run that continues the file removes them first."""
        return b""

    def go_on(self, sim: SimulationLike, header: bytes) -> None:
        """Raise ReporterError if a file that begins with `header` cannot be continued by this run."""
        if header != self.header(sim):
            raise ReporterError(
                f"{self._name}: was begun with other columns or atoms than this run has (choose another path)"
            )

    @property
    def _name(self) -> str:
        return f"{type(self).__name__} {self.path!r}"

    def open(self, sim: SimulationLike) -> None:
        """Open a new file, or continue where the checkpoint was written."""
        self._sim = sim
        known = sim.files.get(self.path)
        try:
            header = self.header(sim)
            self._begin = len(header)
            if known is None or not os.path.exists(self.path):
                if sim.resumed_from is not None and os.path.exists(self.path):
                    raise ReporterError(
                        f"{self._name}: exists, but was not being written when {sim.resumed_from!r} "
                        "was saved (move it away, or choose another path)"
                    )
                self._file = open(self.path, "w+b", buffering=0)  # noqa: SIM115
                self._end = 0
                self._append(header)
            else:
                size = os.path.getsize(self.path)
                if size < known:
                    raise ReporterError(
                        f"{self._name}: must hold the {known} bytes it held when the state was saved, "
                        f"got {size} (records are missing; move the file away to begin a new one)"
                    )
                self._file = open(self.path, "r+b", buffering=0)  # noqa: SIM115
                self._end = known
                self._cut()
                self._file.seek(0)
                self.go_on(sim, self._file.read(self._begin))
                self._file.seek(known)
            self.appended()
        except OSError as error:
            self._release()
            raise ReporterError(f"{self._name}: cannot be written: {error.strerror or error}") from error
        except BaseException:
            self._release()
            raise
        sim.files[self.path] = self._end

    def report(self, sim: SimulationLike, step: int) -> None:
        """Append a record; one that does not fit on the disk is taken back whole."""
        failed, end = f"step {step} could not be written", self._end
        check_path(self._name, self.path, self._file.fileno(), failed)
        try:
            self._append(self.record(sim, step))
            self.appended()
        except OSError as error:
            self._end = end
            with suppress(OSError):
                self._cut()
            raise ReporterError(f"{self._name}: {failed}: {error.strerror or error}") from error
        sim.files[self.path] = self._end

    def appended(self) -> None:
        """Called when the file was opened and after each record; what the header says of them can be changed here."""

    def sync(self) -> None:
        """Wait until the disk has everything."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise ReporterError(f"{self._name}: could not be brought to the disk: {error.strerror or error}") from error

    def close(self) -> None:
        """Write the footer and close the file."""
        try:
            end = self._end
            try:
                self._append(self.footer())
            except OSError:  # the disk is full: records matter, the footer does not
                self._end = end
                self._cut()
            check_path(self._name, self.path, self._file.fileno(), "was lost")
            self._release()
        except OSError as error:
            raise ReporterError(f"{self._name}: could not be closed: {error.strerror or error}") from error
        finally:
            self._release()

    def overwrite(self, at: int, data: bytes) -> None:
        """Replace bytes of the header from `at` on."""
        self._file.seek(at)
        self._file.write(data)
        self._file.seek(self._end)

    def _append(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]
        self._end += len(data)

    def _cut(self) -> None:
        self._file.truncate(self._end)
        self._file.seek(self._end)

    def _release(self) -> None:
        file = self.__dict__.pop("_file", None)
        if file is not None:
            file.close()


class TrajectoryFile(OfAtoms, FileReporter):
    """A file of positions, of all atoms or some."""

    def __init__(self, path: str | os.PathLike, every: int, *, atoms: Any = None):
        super().__init__(path, every)
        self.atoms = atoms
