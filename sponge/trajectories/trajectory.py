"""`load_trajectory`: trajectories of files and of other programs, whose frames are read when they are used."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from triskele.core.extend import check

from ..errors import FileFormatError
from ..geometry import superposed
from ..load.mmcif import read_mmcif
from ..load.pdb import read_pdb
from ..load.whole import make_whole
from ..topology import Topology, as_atoms
from .broken import BrokenMolecules
from .changed import Changed, Unwrapped
from .dcd import DCDReader
from .foreign import MDAnalysisReader, MDTrajReader, open_with_mdanalysis
from .gro import GROReader
from .h5md import H5MDReader
from .netcdf import NetCDFReader
from .pdb import PDBReader
from .reader import Reader
from .trr import TRRReader
from .xtc import XTCReader

__all__ = ["Frame", "Trajectory", "is_trajectory", "load_trajectory"]

_READERS = {
    ".dcd": DCDReader,
    ".xtc": XTCReader,
    ".trr": TRRReader,
    ".gro": GROReader,
    ".nc": NetCDFReader,
    ".ncdf": NetCDFReader,
    ".h5md": H5MDReader,
    ".h5": H5MDReader,
    ".pdb": PDBReader,
    ".ent": PDBReader,
}
_TOPOLOGIES: dict[str, Any] = {
    ".pdb": read_pdb,
    ".ent": read_pdb,
    ".gro": GROReader,
    ".cif": read_mmcif,
    ".mmcif": read_mmcif,
    ".pdbx": read_mmcif,
}
_GZIPPED = (GROReader, PDBReader)


class Frame(NamedTuple):
    """One frame of a trajectory.

    Attributes
    ----------
    positions : (n, 3) float64, nm
    box : (3, 3) float64, nm, or None
    time : float, ps, or None
        None where the source has no times.
    """

    positions: np.ndarray
    box: np.ndarray | None
    time: Any


class Trajectory:
    """A sequence of frames, each read when it is used.

    ``len(trajectory)`` is the number of frames, ``trajectory[k]`` a `Frame`, ``trajectory[a:b:c]`` a trajectory of
    fewer frames that reads nothing yet; iteration gives the frames one by one. Make one with `load_trajectory`.

    Parameters
    ----------
    reader : Reader
    topology : Topology, optional
        Defaults to that of the source.
    chosen : range, optional
        Frames of the source. All by default.

    Attributes
    ----------
    topology : Topology or None
    n : int
        Number of atoms.

    Examples
    --------
    >>> import os, tempfile
    >>> from triskele import sponge
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds")
    >>> bath = sponge.LangevinMiddle(300, 1.0, 0.002)
    >>> simulation = sponge.Simulation(system, bath, seed=1)
    >>> path = os.path.join(tempfile.mkdtemp(), "run.dcd")
    >>> simulation.run(20, report=sponge.DCD(path, every=10))
    >>> trajectory = sponge.load_trajectory(path, system.topology)
    >>> len(trajectory), trajectory[-1].positions.shape
    (2, (22, 3))
    """

    def __init__(self, reader: Reader, topology: Topology | None = None, chosen: range | None = None):
        self._reader = reader
        self._chosen = range(reader.frames) if chosen is None else chosen
        self.n = reader.n
        self.topology = reader.topology if topology is None else topology

    def __len__(self) -> int:
        return len(self._chosen)

    def __iter__(self) -> Iterator[Frame]:
        return (Frame(*self._reader.read(k)) for k in self._chosen)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return Trajectory(self._reader, self.topology, self._chosen[key])
        try:
            return Frame(*self._reader.read(self._chosen[operator.index(key)]))
        except TypeError:
            raise TypeError(f"trajectory: a frame is chosen by an integer, frames by a slice, got {key!r}") from None
        except IndexError:
            raise IndexError(f"trajectory: there are {len(self)} frames, got frame {key}") from None

    # -- changed frames ------------------------------------------------------------------------------------------------

    def take(self, atoms: Any) -> Trajectory:
        """Return the trajectory of some of the atoms.

        Parameters
        ----------
        atoms : list, mask or str
            Indices, or a selection by the positions of the first frame (see `Topology.select`).

        Examples
        --------
        >>> from triskele import sponge
        >>> trajectory = sponge.load_trajectory(sponge.example_files("chignolin")[0])
        >>> trajectory.take("name CA")
        Trajectory(1 frames, 10 atoms)
        """
        chosen = self._atoms("take", atoms)
        topology = None if self.topology is None else self.topology.take(chosen)
        return self._changed(lambda x, box: (x[chosen], box), len(chosen), topology)

    def make_whole(self) -> Trajectory:
        """Return the trajectory with each molecule in one piece: bound atoms stand at their nearest images.

        The first atom of each molecule stays. Needs a topology with bonds.

        Examples
        --------
        >>> from triskele import sponge
        >>> trajectory = sponge.load_trajectory(sponge.example_files("chignolin")[0])
        >>> trajectory.make_whole()[0].positions.shape
        (93, 3)
        """
        bonds = self._known("make_whole").bonds
        return self._changed(lambda x, box: (make_whole(x, bonds, box), box))

    def center(self, atoms: Any = None) -> Trajectory:
        """Return the trajectory with the center of some atoms in the middle of the box, or at 0 if there is none.

        Positions are moved, not wrapped; the center is the mean of positions, so that molecules must be whole: a
        UserWarning names one that is broken in a frame that is read.

        Parameters
        ----------
        atoms : list, mask or str, optional
            Indices, or a selection by the positions of the first frame. All by default.

        Examples
        --------
        >>> from triskele import sponge
        >>> trajectory = sponge.load_trajectory(sponge.example_files("chignolin")[0])
        >>> bool((abs(trajectory.center("name CA").take("name CA")[0].positions.mean(0)) < 1e-12).all())
        True
        """
        chosen = self._atoms("center", atoms)
        look = self._look("center", chosen)

        def moved(x, box):
            """Move the center of the chosen atoms."""
            look(x, box)
            middle = 0.0 if box is None else 0.5 * box.sum(0)
            return x - x[chosen].mean(0) + middle, box

        return self._changed(moved)

    def superpose(self, reference: Any = None, atoms: Any = None) -> Trajectory:
        """Return the trajectory with each frame rotated and moved onto a reference.

        Molecules must be whole: a UserWarning names one that is broken in a frame that is read. The box does not turn
        with the positions, so that the frames have none.

        Parameters
        ----------
        reference : (n, 3) array, nm, optional
            Positions of all atoms. Defaults to the first frame.
        atoms : list, mask or str, optional
            Atoms whose deviation is least: indices, or a selection by the positions of the first frame. All by default.

        Examples
        --------
        >>> from triskele import sponge
        >>> trajectory = sponge.load_trajectory(sponge.example_files("chignolin")[0])
        >>> turned = trajectory[0].positions[:, [1, 2, 0]]
        >>> bool(abs(trajectory.superpose(turned, "backbone")[0].positions - turned).max() < 1e-12)
        True
        """
        chosen = self._atoms("superpose", atoms)
        target = np.asarray(self[0].positions if reference is None else reference, np.float64)
        check.shape(target, (self.n, 3), "superpose: reference")
        look, weights = self._look("superpose", chosen), np.ones(len(chosen))

        def fitted(x, box):
            """Superpose the chosen atoms."""
            look(x, box)
            return superposed(x[None], target, chosen, weights)[0], None

        return self._changed(fitted)

    def unwrap(self) -> Trajectory:
        """Return the trajectory without jumps across the faces of the box, as `analysis.unwrap` does.

        The first frame stays. A frame follows from all before it: read frames in their order.

        Examples
        --------
        >>> from triskele import sponge
        >>> trajectory = sponge.load_trajectory(sponge.example_files("chignolin")[0])
        >>> trajectory.unwrap()
        Trajectory(1 frames, 93 atoms)
        """
        return Trajectory(Unwrapped(self), self.topology)

    def _changed(self, function, n=None, topology=None):
        changed = Changed(self, function, self.n if n is None else n)
        return Trajectory(changed, self.topology if n is None else topology)

    def _look(self, where, atoms):
        """Return a function of a frame that warns of broken molecules."""
        return BrokenMolecules(where, self.topology or Topology.of_particles(self.n), atoms)

    def _known(self, where):
        if self.topology is None:
            raise ValueError(f"{where}: a topology is needed (give load_trajectory top=)")
        return self.topology

    def _atoms(self, where, atoms):
        if isinstance(atoms, str):
            first = self[0]
            atoms = self._known(where).select(atoms, first.positions, first.box)
        return as_atoms(where, atoms, self.n)

    def __repr__(self) -> str:
        return f"Trajectory({len(self)} frames, {self.n} atoms)"

    def read(self) -> Frame:
        """Read all frames at once.

        Returns
        -------
        Frame
            Of arrays: positions (frames, n, 3), boxes (frames, 3, 3) or None if a frame has none, times (frames,) or
            None if the source has none.
        """
        positions, boxes, times = np.empty((len(self), self.n, 3)), [], []
        for k, frame in enumerate(self):
            positions[k] = frame.positions
            boxes.append(frame.box)
            times.append(frame.time)
        return Frame(
            positions,
            None if not boxes or any(b is None for b in boxes) else np.stack(boxes),
            None if any(t is None for t in times) else np.array(times, np.float64),
        )

    @property
    def positions(self) -> np.ndarray:
        """Positions of all frames, (frames, n, 3) float64, nm; read anew each time, see `read`."""
        return self.read().positions

    @property
    def boxes(self) -> np.ndarray | None:
        """Boxes of all frames, (frames, 3, 3) float64, nm; None if a frame has none."""
        return self.read().box

    @property
    def times(self) -> np.ndarray | None:
        """Times of all frames, (frames,) float64, ps; None if the source has none."""
        return self.read().time


def is_trajectory(source: Any) -> bool:
    """Return True if `load_trajectory` takes `source`, as far as its type tells."""
    return isinstance(source, (str, os.PathLike, Trajectory)) or _program(source) is not None


def _program(source):
    """The reader of an object of MDTraj or MDAnalysis; None for anything else."""
    for cls in type(source).__mro__:
        if cls.__module__.startswith("mdtraj.") and cls.__name__ == "Trajectory":
            return MDTrajReader
        if cls.__module__.startswith("MDAnalysis.") and cls.__name__ in ("Universe", "AtomGroup"):
            return MDAnalysisReader
    return None


def load_trajectory(path: Any, top: Any = None) -> Trajectory:
    """Open a trajectory without reading its frames.

    Parameters
    ----------
    path : path, mdtraj.Trajectory, MDAnalysis.Universe or MDAnalysis.AtomGroup
        A DCD, XTC, TRR, AMBER NetCDF, GRO, H5MD or PDB file, by the end of its name: ``.dcd .xtc .trr .nc .ncdf .gro
        .h5md .h5 .pdb .ent``, and ``.gro.gz .pdb.gz``. H5MD needs h5py. MDAnalysis, where it is installed, opens all
        other files that it knows. Whatever their units are, they become nm and ps.
    top : System, Structure, Topology or path of a PDB, GRO or mmCIF file, optional
        The topology, where the file has none or another one. For a file of some atoms, that of these:
        ``system.topology.take(atoms)``.

    Returns
    -------
    Trajectory

    Raises
    ------
    FileFormatError
        If the file is damaged, empty or of another format, or the numbers of atoms differ.
    ModuleNotFoundError
        If the format needs a package that is not installed.

    Notes
    -----
    DCD files have no times where the program that wrote them knew none; PDB files never have any. Where a DCD, XTC, TRR
    or GRO file ends inside a frame, as one does that is being written, the frames before count. Frames of TRR files
    without positions are left out. Topologies of GRO files have the elements that names suggest, and the bonds of
    standard residues.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from triskele import sponge
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"))
    >>> sim = sponge.Simulation(system, sponge.LangevinMiddle(300, 1.0, 0.002), seed=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "run.dcd")
    ...     sim.run(steps=30, report=sponge.DCD(file, every=10))
    ...     trajectory = sponge.load_trajectory(file, top=system)
    ...     print(trajectory, trajectory.times.round(3), trajectory[-1].positions.shape)
    Trajectory(3 frames, 22 atoms) [0.02 0.04 0.06] (22, 3)
    """
    if isinstance(path, Trajectory) and top is None:
        return path
    topology, chosen = None if top is None else _topology(top), None
    if isinstance(path, Trajectory):
        reader, chosen = path._reader, path._chosen
    elif (program := _program(path)) is not None:
        reader = program(path)
    elif isinstance(path, (str, os.PathLike)):
        reader = _opened(path, topology)
        if not reader.frames:
            raise FileFormatError(f"{path}: must hold at least one frame, got none")
    else:
        raise TypeError(
            f"load_trajectory: expected a path, or an object of MDTraj or MDAnalysis, got {type(path).__name__}"
        )
    if topology is not None and topology.n != reader.n:
        raise FileFormatError(
            f"load_trajectory: top must have the {reader.n} atoms of the trajectory, got {topology.n}"
        )
    return Trajectory(reader, topology, chosen)


def _opened(path: str | os.PathLike, topology: Topology | None) -> Reader:
    """The reader of a file, by the end of its name."""
    name = Path(path).name.removesuffix(".gz")
    found = _READERS.get(Path(name).suffix.lower())
    if found is None or (found not in _GZIPPED and name != Path(path).name):
        return open_with_mdanalysis(path, None if topology is None else topology.n)
    return found(path)


def _topology(top: Any) -> Topology:
    """The topology of `top`."""
    if isinstance(top, (str, os.PathLike)):
        read = _TOPOLOGIES.get(Path(str(top).removesuffix(".gz")).suffix.lower())
        if read is None:
            raise FileFormatError(
                f"{top}: top must be a PDB, GRO or mmCIF file, a System, a Structure or a Topology (for "
                "others, top=sponge.load(...))"
            )
        top = read(top)
    return check.kind(
        top if isinstance(top, Topology) else getattr(top, "topology", top),
        Topology,
        "load_trajectory: top",
        "a System, a Structure, a Topology or a path",
    )
