"""Configurations with energies and forces, to learn from: files of ASE, splits, reference energies, padded batches."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from triskele import core
from triskele.core.data import Source, arrays
from triskele.core.extend import check, optional, short_repr

from .. import units
from ..elements import SYMBOLS
from ..errors import FileFormatError
from ..neighbors.pairs import find_pairs
from .network import Network, atomic_numbers, neighbor_rows

__all__ = ["Batches", "Dataset", "read_dataset", "record"]

_KNOWN = "energies", "forces", "charges", "dipoles"
_ASE = {
    "energies": ("energy", units.eV),
    "forces": ("forces", units.eV / units.angstrom),
    "charges": ("charges", 1.0),
    "dipoles": ("dipole", units.angstrom),
}
_CLOSEST = 0.01  # nm: no two atoms of a sensible configuration are closer


@short_repr
@dataclass(frozen=True)
class Dataset:
    """Configurations with what is known of them: energies and forces, charges, dipole moments.

    Parameters
    ----------
    elements : sequence of (n,) int arrays
        Atomic numbers of each frame.
    positions : sequence of (n, 3) arrays, nm
        Positions of the atoms.
    energies : (frames,) array, kJ/mol, optional
        Potential energies.
    forces : sequence of (n, 3) arrays, kJ/mol/nm, optional
        Forces.
    boxes : sequence of (3, 3) array or None
        Periodic cells as rows in nm, of any shape and size; None for a frame without. All None when left out.
    charges : sequence of (n,) arrays, e, optional
        Partial charges of the atoms.
    dipoles : (frames, 3) array, e nm, optional
        Dipole moments, about the origin of the positions.

    Raises
    ------
    ValueError
        If lengths or shapes do not agree, or something is not finite: the frame and the atom are named.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge.learn import Dataset
    >>> positions = [[[0, 0, 0], [0.07 + 0.01 * k, 0, 0]] for k in range(4)]
    >>> data = Dataset([[1, 1]] * 4, positions, np.zeros(4), np.zeros((4, 2, 3)))
    >>> [len(part) for part in data.split(2, 1, 1, seed=1)]
    [2, 1, 1]
    """

    elements: Sequence[np.ndarray]
    positions: Sequence[np.ndarray]
    energies: Any = None
    forces: Any = None
    boxes: Sequence[np.ndarray | None] = field(default=())
    charges: Any = None
    dipoles: Any = None

    def __post_init__(self):
        frames = len(self.positions)
        boxes = list(self.boxes) if len(self.boxes) else [None] * frames
        values: dict[str, Any] = {
            "elements": [atomic_numbers(z, f"dataset: frame {k}") for k, z in enumerate(self.elements)],
            "boxes": [None if b is None else np.array(b, np.float64) for b in boxes],
        }
        for name in ("positions", *_KNOWN):
            given = getattr(self, name)
            values[name] = None if given is None else [np.array(x, np.float64) for x in given]
        for name, value in values.items():
            if value is not None and len(value) != frames:
                raise ValueError(f"dataset: {name} must be given for {frames} frames, got {len(value)}")
        for k, numbers in enumerate(values["elements"]):
            n = len(numbers)
            shapes = {"positions": (n, 3), "energies": (), "forces": (n, 3), "charges": (n,), "dipoles": (3,)}
            for name, shape in shapes.items():
                if values[name] is None:
                    continue
                array = check.shape(values[name][k], shape, f"dataset: frame {k}: {name}")
                if not np.all(np.isfinite(array)):
                    who = ""
                    if name not in ("energies", "dipoles"):
                        atom = int(np.argmin(np.isfinite(array.reshape(n, -1)).all(1)))
                        array, who = array[atom], f" for atom {atom} ({SYMBOLS[numbers[atom]]})"
                    raise ValueError(f"dataset: frame {k}: {name} must be finite, got {array.tolist()}{who}")
        for name in ("energies", "dipoles"):
            if values[name] is not None:
                values[name] = np.array(values[name])
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def need(self, where: str, *names: str) -> None:
        """Raise ValueError unless all these are known."""
        for name in names:
            if getattr(self, name) is None:
                raise ValueError(f"{where}: the data set must have {name}, got none")

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, which: Any) -> Dataset:
        """The frames of a slice, a mask or an array of numbers."""
        which = np.arange(len(self))[which].reshape(-1)
        known = {
            name: None if getattr(self, name) is None else [getattr(self, name)[k] for k in which] for name in _KNOWN
        }
        return Dataset(
            [self.elements[k] for k in which],
            [self.positions[k] for k in which],
            boxes=[self.boxes[k] for k in which],
            **known,
        )

    def split(self, *sizes: float, seed: int = 0) -> list[Dataset]:
        """Parts without common frames, drawn at random.

        Parameters
        ----------
        *sizes : int or float
            Frames in each part, such as for training, validation and test; fractions of all frames where below 1.
        seed : int

        Raises
        ------
        ValueError
            If there are not enough frames, or a part would be empty.
        """
        counts = [round(s * len(self)) if 0 < s < 1 else int(s) for s in sizes]
        if sum(counts) > len(self) or min(counts, default=0) < 1:
            raise ValueError(f"dataset: parts must have at least one frame each and {len(self)} together, got {counts}")
        order = np.random.default_rng(seed).permutation(len(self))
        ends = np.cumsum([0, *counts])
        return [self[np.sort(order[a:b])] for a, b in zip(ends, ends[1:], strict=False)]

    @property
    def force_rms(self) -> float:
        """Root mean square of the components of the forces, in kJ/mol/nm."""
        self.need("force_rms", "forces")
        return float(np.sqrt(np.mean(np.concatenate([f.ravel() for f in self.forces]) ** 2)))

    def known_elements(self) -> tuple[int, ...]:
        """Atomic numbers that occur, rising."""
        return tuple(int(z) for z in np.unique(np.concatenate(self.elements)))

    def reference_energies(self) -> dict[int, float]:
        """Energy of an atom of each element in kJ/mol, by least squares (of least norm where the data leave it open).

        Examples
        --------
        >>> import numpy as np
        >>> from triskele.sponge.learn import Dataset
        >>> positions = np.eye(2, 3)[None] * [[[0.1]], [[0.2]]]
        >>> Dataset([[1, 8]] * 2, positions, [-30.0, -34.0], np.zeros((2, 2, 3))).reference_energies()
        {1: -16.0, 8: -16.0}
        """
        self.need("reference_energies", "energies")
        known = self.known_elements()
        counts = np.array([[np.sum(z == e) for e in known] for z in self.elements], np.float64)
        found = np.linalg.lstsq(counts, self.energies, rcond=None)[0]
        return {e: round(float(v), 9) for e, v in zip(known, found, strict=True)}

    def write(self, path: str | os.PathLike) -> None:
        """Write an extended XYZ file (or what the ending says, of ASE's formats) in eV and Å.

        Raises
        ------
        ImportError
            Without ASE (extra `md`).
        """
        optional.need("ase", "dataset", "md")
        from ase import Atoms
        from ase.calculators.singlepoint import SinglePointCalculator
        from ase.io import write

        frames = []
        for k in range(len(self)):
            box = self.boxes[k]
            atoms = Atoms(
                self.elements[k],
                self.positions[k] / units.angstrom,
                pbc=box is not None,
                cell=None if box is None else box / units.angstrom,
            )
            results = {
                name: getattr(self, field)[k] / unit
                for field, (name, unit) in _ASE.items()
                if getattr(self, field) is not None
            }
            atoms.calc = SinglePointCalculator(atoms, **results)
            frames.append(atoms)
        path = os.fspath(path)
        write(path, frames, **({"format": "extxyz"} if path.endswith("xyz") else {}))


def read_dataset(
    path: str | os.PathLike, index: str = ":", energy: str | None = None, forces: str | None = None
) -> Dataset:
    """Read configurations from extended XYZ, a database of ASE, or another format of ASE; eV and Å become kJ/mol and
    nm. Charges and dipole moments are read where all frames have them.

    Parameters
    ----------
    path : path-like
    index : str
        Frames, as ASE writes slices: ``"::10"`` is every tenth.
    energy, forces : str, optional
        Names in the file, where they are not the usual ones.

    Raises
    ------
    FileFormatError
        If the file cannot be read, or a frame has no energy or forces.
    ValueError
        If something is not finite.
    ImportError
        Without ASE (extra `md`).

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from ase import Atoms
    >>> from ase.calculators.singlepoint import SinglePointCalculator
    >>> from ase.io import write
    >>> from triskele.sponge import learn
    >>> atoms = Atoms("N2", [[0, 0, 0], [0, 0, 1.1]])
    >>> atoms.calc = SinglePointCalculator(atoms, energy=-1.0, forces=np.zeros((2, 3)))
    >>> path = os.path.join(tempfile.mkdtemp(), "frames.extxyz")
    >>> write(path, [atoms, atoms])
    >>> len(learn.read_dataset(path))
    2
    """
    optional.need("ase", "read_dataset", "md")
    from ase.io import read

    where = os.fspath(path)
    if not os.path.exists(where):
        raise FileNotFoundError(f"read_dataset: there is no file {where!r}")
    try:
        frames = read(where, index)
    except Exception as error:  # readers of all formats raise what they like
        raise FileFormatError(f"read_dataset: {where!r} cannot be read: {type(error).__name__}: {error}") from error
    frames = frames if isinstance(frames, list) else [frames]
    parts: list[list[Any]] = [[], [], [], [], []]
    for k, atoms in enumerate(frames):
        if any(atoms.pbc) and not all(atoms.pbc):
            raise FileFormatError(
                f"read_dataset: {where!r}, frame {k}: must be periodic in all directions or in none, "
                f"got {atoms.pbc.tolist()}"
            )
        values = [
            atoms.numbers,
            atoms.positions * units.angstrom,
            _value(atoms, energy, "energy", where, k),
            _value(atoms, forces, "forces", where, k),
            np.array(atoms.cell) * units.angstrom if any(atoms.pbc) else None,
        ]
        for part, value in zip(parts, values, strict=True):
            part.append(value)
    numbers, positions, energies, all_forces, boxes = parts
    more = {}
    for known in ("charges", "dipoles"):
        name, unit = _ASE[known]
        found = [(getattr(atoms.calc, "results", None) or {}).get(name, atoms.arrays.get(name)) for atoms in frames]
        more[known] = None if any(x is None for x in found) else [np.array(x) * unit for x in found]
    return Dataset(
        numbers,
        positions,
        np.array(energies) * units.eV,
        [f * (units.eV / units.angstrom) for f in all_forces],
        boxes,
        **more,
    )


def _value(atoms, name, kind, where, frame):
    results = getattr(atoms.calc, "results", {}) or {}
    for place in (results, atoms.info if kind == "energy" else atoms.arrays, atoms.info.get("data") or {}):
        if (name or kind) in place:
            return place[name or kind]
    raise FileFormatError(
        f"read_dataset: {where!r}, frame {frame}: there must be {kind}, got "
        f"{', '.join([*results, *atoms.info, *atoms.arrays]) or 'nothing'} (name it with {kind}=...)"
    )


def record(sim: Any, frames: int, every: int) -> Dataset:
    """Run a simulation, and take configurations with its system's energies and forces, in double precision.

    Parameters
    ----------
    sim : Simulation
        Goes on from where it is.
    frames : int
    every : int
        Steps between two frames.

    Examples
    --------
    >>> from triskele import sponge
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds")
    >>> bath = sponge.LangevinMiddle(300, 1.0, 0.002)
    >>> simulation = sponge.Simulation(system, bath, seed=1)
    >>> from triskele.sponge import learn
    >>> len(learn.record(simulation, frames=3, every=10))
    3
    """
    system, found = sim.system, []
    for _ in range(frames):
        sim.run(every)
        x, box = sim.positions, sim.box
        forces = system.forces(x, box)
        found.append((x, system.energy(x, box), forces, box))
    positions, energies, forces, boxes = zip(*found, strict=True)
    return Dataset([system.topology.elements] * frames, positions, np.array(energies), forces, boxes)


class Batch(NamedTuple):
    """Frames in one shape: b frames of n atoms with k neighbors each, one frame after the other in flat arrays.

    `real` is 0 for atoms, and `frame` for frames, that only fill up. What the data set does not know is 0.
    """

    species: Any  # int32 [b * n]
    positions: Any  # [b * n, 3]
    neighbors: Any  # int32 [b * n, k]
    offsets: Any  # [b * n, k, 3]: to the image of the neighbor
    real: Any  # [b * n]
    energies: Any  # float64 [b]
    forces: Any  # [b * n, 3]
    charges: Any  # [b * n]
    dipoles: Any  # float64 [b, 3]: about the center of the positions, for a molecule of the data's total charge
    frame: Any  # float64 [b]


class Batches:
    """A data set as a network takes it, in batches of one shape.

    Parameters
    ----------
    data : Dataset
    network : Network
        Gives elements, cut-off and precision.
    size : int
        Most frames in a batch; the batches are as even as they can be.
    total : float, e
        Total charge, on which dipole moments about another origin depend.

    Raises
    ------
    ValueError
        If an element is not known to the network, or two atoms are in one place; frame and atom are named.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core
    >>> from triskele.sponge import learn
    >>> network = learn.PaiNN.init(core.random.key(0), ["H", "O"], cutoff=0.4, features=8, layers=1)
    >>> positions = [[[0, 0, 0], [0.1 + 0.01 * k, 0, 0]] for k in range(4)]
    >>> data = learn.Dataset([[8, 1]] * 4, positions, np.arange(4.0), np.ones((4, 2, 3)))
    >>> batches = learn.Batches(data, network, size=3)
    >>> [batch.energies for batch in batches.source()]
    [array([0., 1.]), array([2., 3.])]
    """

    def __init__(self, data: Dataset, network: Network, size: int, total: float = 0.0):
        if size < 1 or len(data) < 1:
            raise ValueError(f"batches: there must be frames, and at least one in a batch, got {len(data)} and {size}")
        number = -(-len(data) // size)
        self.size = -(-len(data) // number)
        frames, found = number * self.size, [_neighborhood(data, k, network) for k in range(len(data))]
        n, places = max(map(len, data.positions)), max(f[0].shape[1] for f in found)
        dtype = network.dtype
        neighbors = np.broadcast_to(np.arange(n, dtype=np.int32)[:, None], (frames, n, places)).copy()
        self.frames = all_ = Batch(
            np.zeros((frames, n), np.int32),
            np.zeros((frames, n, 3), dtype),
            neighbors,
            np.zeros((frames, n, places, 3), dtype),
            np.zeros((frames, n), dtype),
            np.zeros(frames),
            np.zeros((frames, n, 3), dtype),
            np.zeros((frames, n), dtype),
            np.zeros((frames, 3)),
            np.zeros(frames),
        )
        all_.offsets[..., 0] = 2 * network.cutoff
        all_.frame[: len(data)] = 1
        if data.energies is not None:
            all_.energies[: len(data)] = data.energies
        for k, (neighbors, offsets) in enumerate(found):
            m, own = neighbors.shape
            all_.species[k, :m] = network.species(data.elements[k], f"dataset: frame {k}")
            all_.real[k, :m] = 1
            center = data.positions[k].mean(0)
            all_.positions[k, :m] = data.positions[k] - center
            if data.forces is not None:
                all_.forces[k, :m] = data.forces[k]
            if data.charges is not None:
                all_.charges[k, :m] = data.charges[k]
            if data.dipoles is not None:
                all_.dipoles[k] = data.dipoles[k] - total * center
            all_.neighbors[k, :m, :own], all_.offsets[k, :m, :own] = neighbors, offsets

    def __repr__(self) -> str:
        return f"<Batches: {int(self.frames.frame.sum())} frames, {self.size} in a batch>"

    def __len__(self) -> int:
        return len(self.frames.frame) // self.size

    def source(self, seed: int | None = None) -> Source:
        """The batches as a source of `core.data`, shuffled each epoch if there is a seed."""
        frames = arrays(self.frames)
        return (frames if seed is None else frames.shuffle(seed)).batch(self.size).map(_flat)


@core.jit
def _flat(frames: Batch) -> Batch:
    """A batch from arrays with axes of frames and atoms."""
    size, n = np.shape(frames.species)

    def flat(x):
        return np.reshape(x, (-1, *np.shape(x)[2:]))

    first = np.repeat(np.arange(size, dtype=np.int32) * n, n)[:, None]
    return Batch(
        flat(frames.species),
        flat(frames.positions),
        flat(frames.neighbors) + first,
        flat(frames.offsets),
        flat(frames.real),
        frames.energies,
        flat(frames.forces),
        flat(frames.charges),
        frames.dipoles,
        frames.frame,
    )


def _neighborhood(data: Dataset, k: int, network: Network) -> tuple[np.ndarray, np.ndarray]:
    """Neighbors [n, places] and offsets [n, places, 3] of a frame; images of any number of cells away count."""
    x, box, cutoff = data.positions[k], data.boxes[k], network.cutoff
    n = len(x)
    if box is None:
        pairs = find_pairs(np.ascontiguousarray(x), None, cutoff, np.zeros((0, 2), np.int64))
        rows, others = np.concatenate([pairs, pairs[:, ::-1]]).T
        shifts = np.zeros((len(rows), 3))
    else:
        optional.need("ase", "dataset", "md")
        from ase.neighborlist import primitive_neighbor_list

        rows, others, shifts = primitive_neighbor_list("ijS", [True] * 3, box, x, cutoff)
        shifts = shifts @ box
    distance = np.linalg.norm(x[others] - x[rows] + shifts, axis=1)
    if len(distance) and distance.min() < _CLOSEST:
        e = int(np.argmin(distance))
        raise ValueError(
            f"dataset: frame {k}: atoms must not be in one place, got {distance[e]:.3g} nm between atoms "
            f"{rows[e]} and {others[e]}"
        )
    neighbors, which = neighbor_rows(rows, others, n)
    offsets = np.where((which >= 0)[..., None], shifts[which] if len(shifts) else 0.0, [2 * cutoff, 0.0, 0.0])
    return neighbors, offsets
