"""Base class of energy networks: elements, cut-off, reference energies and files."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from triskele import core
from triskele.core.extend import check, make_graph

from .. import units
from ..elements import NUMBERS, SYMBOLS
from ..errors import FileFormatError

if TYPE_CHECKING:
    from .charge_network import ChargeNetwork
    from .dataset import Batch

__all__ = ["Network", "load", "neighbor_rows", "save"]

_NETWORKS = {"BehlerParrinello": "behler_parrinello", "PaiNN": "painn"}
_CHARGES = "ChargeNetwork"
_Self = TypeVar("_Self", bound="Network")


class Network:
    """Sum of atomic energies, each a function of the neighbors within a cut-off.

    Networks are frozen dataclasses: trees of weights, that transforms and optimizers of the core take whole. What is
    not trained stands in fields of the structure, the same for all networks:

    Attributes
    ----------
    elements : tuple of int
        Atomic numbers that the network knows.
    cutoff : float, nm
        Cut-off radius.
    reference : tuple of float
        Energy of an atom of each element (kJ/mol), added to what the network says.
    scale : float
        Energy (kJ/mol) that stands for 1 in the network's output.
    seen : tuple of (float, float, float)
        Range of the training data, set by `train` and `train_charges`: for each element, and each element of its
        neighbors, the closest distance (nm), and the fewest and the most neighbors, counted with the envelope.
    local : bool
        True if the output for an atom depends on the vectors to its own neighbors only.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core
    >>> from triskele.sponge import learn
    >>> network = learn.PaiNN.init(core.random.key(0), ["H", "O"], cutoff=0.4, features=8, layers=1)
    >>> isinstance(network, learn.Network), network.elements
    (True, (1, 8))
    """

    elements: tuple[int, ...]
    cutoff: float
    reference: tuple[float, ...]
    scale: float
    seen: tuple[tuple[float, float, float], ...]
    local: ClassVar[bool] = False

    def outputs(self, species: Any, neighbors: Any, vectors: Any) -> Any:
        """Energy of each atom [n], without unit and reference, in the precision of the weights."""
        raise NotImplementedError

    def options(self) -> dict[str, int | float]:
        """Return the numeric options of `init` other than elements and cut-off."""
        raise NotImplementedError

    def energies(self, species: Any, neighbors: Any, vectors: Any) -> Any:
        """Energy of each atom in kJ/mol, float64 [n].

        Parameters
        ----------
        species : (n,) int
            Places in `elements`.
        neighbors : (n, k) int
            Neighbors of each atom: each pair stands in the rows of both. Free places repeat any atom.
        vectors : (n, k, 3) array
            Vectors from the atom to its neighbors, in nm; at free places longer than the cut-off.
        """
        return self.in_units(species, self.outputs(species, neighbors, vectors))

    def in_units(self, species: Any, outputs: Any) -> Any:
        """Energies in kJ/mol, float64 [n], from `outputs`."""
        return outputs.astype(np.float64) * self.scale + core.numpy.take(
            np.array(self.reference, np.float64), species, axis=0
        )

    def __call__(self, batch: Batch) -> tuple[Any, Any]:
        """Return the energies of frames, (frames,) float64 in kJ/mol, and forces on atoms, (atoms, 3) in kJ/mol/nm."""
        frames = len(batch.frame)

        def energy(x):
            vectors = x[batch.neighbors] - x[:, None] + batch.offsets
            atoms = self.energies(batch.species, batch.neighbors, vectors) * batch.real
            each = np.sum(np.reshape(atoms, (frames, -1)), axis=1)
            return np.sum(each), each

        (_, each), gradient = core.value_and_grad(energy, has_aux=True)(batch.positions)
        return each, -gradient

    def species(self, numbers: Any, where: str = "network", names: Sequence[str] | None = None) -> np.ndarray:
        """Places in `elements` of atomic numbers or symbols, int32 [n].

        Parameters
        ----------
        numbers : sequence of int or str
        where : str
            Name of the caller, for error messages.
        names : sequence of str, optional
            Name of the atoms in error messages.

        Raises
        ------
        ValueError
            If an atom's element is not one that the network knows; it is named.
        """
        numbers = atomic_numbers(numbers, where)
        known = np.array(self.elements)
        found = numbers[:, None] == known
        if not np.all(found.any(1)):
            k = int(np.argmin(found.any(1)))
            symbol = SYMBOLS[numbers[k]] or "no element"
            raise ValueError(
                f"{where}: the network knows {', '.join(SYMBOLS[z] for z in self.elements)}, got "
                f"{names[k] if names is not None else f'atom {k}'}, which is {symbol}"
            )
        return np.argmax(found, axis=1).astype(np.int32)

    @property
    def dtype(self) -> np.dtype:
        """Floating-point type of the weights."""
        return np.result_type(*core.tree.leaves(self))

    def astype(self: _Self, dtype: Any) -> _Self:
        """The same network with weights of another dtype."""
        return core.tree.map(lambda w: np.asarray(w, dtype), self)


def atomic_numbers(elements: Any, where: str = "network") -> np.ndarray:
    """Atomic numbers, int64 [n], of numbers or symbols."""
    out = []
    for k, e in enumerate(elements):
        if isinstance(e, str):
            if e.upper() not in NUMBERS:
                raise ValueError(f"{where}: elements must be atomic numbers or symbols, got {e!r} for atom {k}")
            e = NUMBERS[e.upper()]
        if not 0 <= int(e) < len(SYMBOLS):
            raise ValueError(f"{where}: atomic numbers must be 0 to {len(SYMBOLS) - 1}, got {e} for atom {k}")
        out.append(int(e))
    return np.array(out, np.int64)


def known_elements(elements: Any, where: str) -> tuple[int, ...]:
    """The elements of a new network, by rising atomic number."""
    numbers = sorted({int(z) for z in atomic_numbers(elements, where)})
    if not numbers or numbers[0] == 0:
        raise ValueError(f"{where}: elements must be chemical elements, at least one, got {list(elements)}")
    return tuple(numbers)


def positive(where: str, **values: Any) -> None:
    """Raise unless all values are positive and finite."""
    for name, value in values.items():
        check.positive(value, f"{where}: {name}")


def neighbor_rows(atoms: np.ndarray, others: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of neighbors of `n` atoms from both directions of each pair, `atoms` and `others` (m,).

    Rows (n, k) int32 hold the neighbors of each atom, rising, and its own number at free places; there is at least one
    place. A second array (n, k) int64 holds the pair in each place, -1 at free places.
    """
    order = np.lexsort((others, atoms))
    count = np.bincount(atoms, minlength=n)
    column = np.arange(len(atoms)) - np.repeat(np.cumsum(count) - count, count)
    k = max(int(count.max(initial=0)), 1)
    neighbors, which = np.repeat(np.arange(n, dtype=np.int32)[:, None], k, 1), np.full((n, k), -1)
    neighbors[atoms[order], column], which[atoms[order], column] = others[order], order
    return neighbors, which


def save(path: str | os.PathLike, network: Network | ChargeNetwork) -> None:
    """Write a network with its elements, cut-off, units and reference energies into one file.

    Parameters
    ----------
    path : path-like
        File, by convention ending in ``.safetensors``.
    network : Network or ChargeNetwork

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from triskele import core
    >>> from triskele.sponge import learn
    >>> network = learn.PaiNN.init(core.random.key(0), ["H", "O"], cutoff=0.4, features=8, layers=1)
    >>> path = os.path.join(tempfile.mkdtemp(), "network.safetensors")
    >>> learn.save(path, network)
    >>> learn.load(path).cutoff
    0.4
    """
    if isinstance(network, Network):
        core.save(path, _described(network))
    else:
        core.save(path, {_CHARGES: {"total": network.total, "network": _described(network.network)}})


def _described(network):
    weights = core.tree.leaves(network)
    return {
        type(network).__name__: {
            "elements": np.array(network.elements, np.int64),
            "cutoff": network.cutoff,
            "scale": network.scale,
            "reference": np.array(network.reference, np.float64),
            "options": dict(network.options()),
            "bits": 8 * network.dtype.itemsize,
            "units": {"nm": units.nm, "kJ_per_mol": units.kJ_per_mol},
            "seen": np.array(network.seen, np.float64).reshape(-1, 3),
            "weights": {str(k): w for k, w in enumerate(weights)},
        }
    }


def load(path: str | os.PathLike) -> Any:
    """Read a network written by `save`.

    Raises
    ------
    FileNotFoundError
    FileFormatError
        If the file is damaged or holds something else.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from triskele import core
    >>> from triskele.sponge import learn
    >>> network = learn.PaiNN.init(core.random.key(0), ["H", "O"], cutoff=0.4, features=8, layers=1)
    >>> path = os.path.join(tempfile.mkdtemp(), "network.safetensors")
    >>> learn.save(path, network)
    >>> learn.load(path).cutoff
    0.4
    """
    found = core.load(path)
    where = f"load: {os.fspath(path)}"
    if isinstance(found, dict) and _CHARGES in found:
        from .charge_network import ChargeNetwork

        parts = found[_CHARGES]
        if not (
            isinstance(parts, dict) and isinstance(parts.get("total"), (int, float)) and np.isfinite(parts["total"])
        ):
            raise FileFormatError(f"{where}: a charge network must have a finite total")
        return ChargeNetwork(_loaded(parts.get("network"), where), float(parts["total"]))
    return _loaded(found, where)


def _loaded(found, where):
    name = next(iter(found), "") if isinstance(found, dict) else ""
    if name not in _NETWORKS or not isinstance(found[name], dict) or "weights" not in found[name]:
        raise FileFormatError(f"{where} must hold a network ({', '.join(_NETWORKS)}), got {name or 'something else'}")
    try:
        return _network(getattr(import_module(f"triskele.sponge.learn.{_NETWORKS[name]}"), name), found[name])
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise FileFormatError(f"{where} does not hold a {name}: {type(error).__name__} {error}") from error


def _network(cls, parts):
    """A network of class `cls` from what `save` wrote; its sizes are compared with the weights before any memory is
    taken.
    """
    dtype = {32: np.float32, 64: np.float64}[int(parts["bits"])]
    given, options = parts["weights"], parts["options"]
    most = {"layers": len(given)}
    largest = max((side for w in given.values() for side in np.shape(w)), default=0)
    if not all(isinstance(value, int) and value <= most.get(key, largest) for key, value in options.items()):
        raise ValueError(f"the options {options} must fit its weights")
    found = []

    def shapes(key):
        network = cls.init(
            key, [int(z) for z in parts["elements"]], cutoff=float(parts["cutoff"]), dtype=dtype, **options
        )
        found.append(core.tree.flatten(network))
        return found[0][0]

    make_graph(shapes, [core.Spec((2,), np.dtype(np.uint32))])
    leaves, structure = found[0]
    weights = [given.get(str(k)) for k in range(len(leaves))]
    if len(weights) != len(given) or any(
        (w.shape, w.dtype) != (x.shape, x.dtype) for w, x in zip(weights, leaves, strict=True)
    ):
        raise ValueError(f"its weights must be those of a network with {options}")
    reference, scale = tuple(float(e) for e in parts["reference"]), float(parts["scale"])
    if len(reference) != len(parts["elements"]) or not np.all(np.isfinite([*reference, scale, float(parts["cutoff"])])):
        raise ValueError("scale, cut-off and one reference energy for each element must be finite")
    seen = tuple((float(a), float(b), float(c)) for a, b, c in parts.get("seen", ()))
    if len(seen) not in (0, len(reference) ** 2) or np.any(np.isnan(seen)) or np.any(np.isinf(seen)[..., ::2]):
        raise ValueError("the range of the training data must be finite and for each pair of elements")
    return dataclasses.replace(core.tree.unflatten(structure, weights), scale=scale, reference=reference, seen=seen)
