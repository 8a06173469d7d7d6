"""`H5MD`: trajectories and energies in HDF5, in full precision."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from triskele.core.extend import optional

from ..errors import ReporterError
from ..protocols import SimulationLike
from .reporter import OfAtoms, Reporter, check_path
from .staged import StagedFile

__all__ = ["H5MD"]

_STEP, _TIME = "particles/all/position/step", "particles/all/position/time"


class H5MD(OfAtoms, Reporter):
    """Writes an H5MD 1.1 file (de Buyl, Colberg and Hofling, Comput. Phys. Commun. 185, 1546 (2014)); needs h5py.

    ``particles/all`` holds position (and velocity), box, mass and species (atomic numbers), ``observables`` all that
    `Simulation.energies` gives, of the whole system; each element with its ``step``, ``time`` and ``value``.

    Parameters
    ----------
    path : str or path
    every : int
        Number of steps between two records.
    atoms : list, mask or str, optional
        Atoms to write: indices, or a selection such as ``"protein or ligand"`` by the system's own positions (see
        `Topology.select`). All by default.
    velocities : bool
        Write velocities too.
    double : bool
        Write positions and velocities as float64, not as float32.

    Raises
    ------
    ImportError
        If h5py is not installed.

    Examples
    --------
    >>> import os, tempfile
    >>> from triskele import sponge
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds")
    >>> bath = sponge.LangevinMiddle(300, 1.0, 0.002)
    >>> simulation = sponge.Simulation(system, bath, seed=1)
    >>> path = os.path.join(tempfile.mkdtemp(), "run.h5")
    >>> simulation.run(20, report=sponge.H5MD(path, every=10))
    >>> os.path.getsize(path) > 0
    True
    """

    def __init__(
        self,
        path: str | os.PathLike,
        every: int,
        *,
        velocities: bool = False,
        double: bool = False,
        atoms: Any = None,
    ):
        super().__init__(every)
        self.atoms = atoms
        self.path, self.velocities, self.double = os.fspath(path), bool(velocities), bool(double)
        self._h5py = optional.need("h5py", "H5MD", "md")

    def open(self, sim: SimulationLike) -> None:
        """Open a new file, or continue after the frames that existed when the state was saved."""
        super().open(sim)
        exists = os.path.exists(self.path)
        known = sim.files.get(self.path) if exists else None
        if known is None and exists and sim.resumed_from is not None:
            raise self._error(
                f"exists, but was not being written when {sim.resumed_from!r} was saved "
                "(move it away, or choose another path)"
            )
        try:
            self._staged = StagedFile(self.path, known is None)
            self._file = self._h5py.File(self._staged, "w" if known is None else "r+")
            if known is None:
                self._begin(sim)
                known = 0
            else:
                self._go_on(sim, known)
            self._file.flush()
            self._staged.commit()
        # what h5py makes of a damaged file
        except (OSError, LookupError, RuntimeError, TypeError, ValueError) as error:
            self.close()
            if isinstance(error, ReporterError):
                raise
            raise self._error(f"cannot be opened: {error}") from error
        except BaseException:
            self.close()
            raise
        self._frames = sim.files[self.path] = known

    def report(self, sim: SimulationLike, step: int) -> None:
        """Append a frame; of one that does not fit on the disk the file has nothing."""
        values = {
            "particles/all/position": sim.positions[self._chosen],
            **({"particles/all/velocity": sim.velocities[self._chosen]} if self.velocities else {}),
            **({} if sim.box is None else {"particles/all/box/edges": sim.box}),
            **{f"observables/{name}": value for name, value in sim.energies().items()},
        }
        values = {f"{name}/value": value for name, value in values.items()}
        k = self._frames
        check_path(self._name, self.path, self._staged.fileno(), f"step {step} could not be written")
        try:
            for name, value in {_STEP: step, _TIME: sim.time, **values}.items():
                data = self._file[name]
                data.resize(k + 1, axis=0)
                data[k] = value
            self._file.flush()
            self._staged.commit()
        except OSError as error:
            raise self._error(f"step {step} could not be written: {error.strerror or error}") from error
        self._frames = sim.files[self.path] = k + 1

    def sync(self) -> None:
        """Wait until the disk has everything."""
        try:
            os.fsync(self._staged.fileno())
        except OSError as error:
            raise self._error(f"could not be brought to the disk: {error.strerror or error}") from error

    def close(self) -> None:
        """Close the file."""
        file, staged = self.__dict__.pop("_file", None), self.__dict__.pop("_staged", None)
        try:
            if file is not None:
                file.close()  # into memory: all frames are on the disk already
            if staged is not None:
                check_path(self._name, self.path, staged.fileno(), "was lost")
        finally:
            if staged is not None:
                staged.close()

    def _begin(self, sim):
        file, n = self._file, len(self._chosen)
        file.create_group("h5md").attrs["version"] = np.array([1, 1], np.int32)
        file.create_group("h5md/author").attrs["name"] = ""
        file.create_group("h5md/creator").attrs.update({"name": "triskele.sponge", "version": "1"})
        file.create_group("h5md/modules/units").attrs["version"] = np.array([1, 0], np.int32)
        real = np.float64 if self.double else np.float32
        self._element("particles/all/position", (n, 3), real, "nm")
        if self.velocities:
            self._element("particles/all/velocity", (n, 3), real, "nm ps-1")
        box = file.create_group("particles/all/box")
        box.attrs["dimension"] = 3
        box.attrs["boundary"] = np.array(["none" if sim.box is None else "periodic"] * 3, dtype="S8")
        if sim.box is not None:
            self._element("particles/all/box/edges", (3, 3), np.float64, "nm")
        file["particles/all/mass"] = sim.system.masses[self._chosen]
        file["particles/all/species"] = self._topology.elements
        if self.atoms is not None:
            file["particles/all/id"] = self._chosen
        units = {"temperature": "K", "pressure": "bar", "volume": "nm+3", "density": "g cm-3"}
        for name in sim.energies():
            self._element(f"observables/{name}", (), np.float64, units.get(name, "kJ mol-1"))

    def _element(self, name, shape, dtype, unit):
        group = self._file.create_group(name)
        if _STEP not in self._file:
            self._series(_STEP, np.int64)
            self._series(_TIME, np.float64).attrs["unit"] = "ps"
        else:  # elements that are written together share their steps and times
            group["step"], group["time"] = self._file[_STEP], self._file[_TIME]
        self._series(f"{name}/value", dtype, shape).attrs["unit"] = unit

    def _series(self, name, dtype, shape=()):
        # a chunk of a large value is one frame
        rows = max(1, min(1024, 65536 // max(1, int(np.prod(shape)))))
        return self._file.create_dataset(name, (0, *shape), dtype, maxshape=(None, *shape), chunks=(rows, *shape))

    def _go_on(self, sim, known):
        steps = self._file[_STEP]
        n = self._file["particles/all/position/value"].shape[1]
        if n != len(self._chosen):
            raise self._error(f"holds {n} atoms, this run has {len(self._chosen)} (choose another path)")
        if not np.array_equal(self._file.get("particles/all/id", np.arange(n)), self._chosen):
            raise self._error("was begun with other atoms than this run writes (choose another path)")
        if len(steps) < known:
            raise self._error(
                f"must hold the {known} frames it held when the state was saved, got {len(steps)} "
                "(frames are missing; move the file away to begin a new one)"
            )
        names = sorted(self._file["observables"])
        if names != sorted(sim.energies()) or ("particles/all/velocity" in self._file) != self.velocities:
            raise self._error("was begun with other columns than this run has (choose another path)")

        def cut(_, item):
            if isinstance(item, self._h5py.Dataset) and item.maxshape and item.maxshape[0] is None:
                item.resize(known, axis=0)

        self._file.visititems(cut)

    def _error(self, text):
        return ReporterError(f"{self._name}: {text}")

    @property
    def _name(self) -> str:
        return f"H5MD {self.path!r}"
