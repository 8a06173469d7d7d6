"""`NeuralPotential`: a network as a term of the potential energy of a system."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from triskele import core
from triskele.core.extend import Task, kernel

from ..box import check_cutoff, displacement
from ..engine.jit_task import JitTask
from ..engine.plan import ROW, Plan, add_forces
from ..engine.program import Phase
from ..errors import BoxError
from ..neighbors.edges import FULL, Edges
from ..neighbors.pairs import find_pairs
from ..potential import Potential
from ..potentials.at_values import Part, at_values
from ..protocols import SystemLike
from ..topology import as_indices, check_indices
from .network import Network, neighbor_rows
from .training_range import outside

if TYPE_CHECKING:
    from ..engine.engine import Engine

__all__ = ["NeuralPotential", "different_atoms", "grow", "named_weights", "network_species", "scatter"]


class NeuralPotential(Potential):
    """A network's energy, of all atoms or of some, alone or on top of a force field.

    Exclusions of the system play no part: the network sees every neighbor within its cut-off. In mixed precision it
    computes as it was trained (float32 as a rule), in double precision in float64; energies are summed in float64.

    Parameters
    ----------
    network : Network
        Network such as `learn.PaiNN`, or one from `learn.train` or `learn.load`.
    params : mapping of str to array, optional
        Weights to use in place of the network's, named as in the attribute `params`.
    atoms : (m,) int, optional
        The atoms it acts on. Defaults to all.
    elements : sequence of str or int [m], optional
        Elements of these atoms, when they are not those of the topology.
    name : str

    Attributes
    ----------
    network : Network

    Raises
    ------
    ValueError
        When added to a system that has an element which the network does not know; the atom is named.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core
    >>> from triskele import sponge
    >>> from triskele.sponge import NeuralPotential
    >>> from triskele.sponge import learn
    >>> net = learn.PaiNN.init(core.random.key(0), ["Ar"], cutoff=0.6, features=8)
    >>> positions = [[0.0, 0.0, 0.0], [0.37, 0.0, 0.0]]
    >>> system = sponge.System(sponge.Topology.of_particles(2, "AR", element=18), [39.9, 39.9], positions=positions)
    >>> _ = system.add(NeuralPotential(net))
    >>> forces = system.forces()
    >>> bool(np.allclose(forces[0], -forces[1]))
    True
    """

    conserves_momentum = True

    def __init__(
        self, network: Network, params: Any = None, *, atoms: Any = None, elements: Any = None, name: str = "network"
    ):
        if not isinstance(network, Network):
            raise TypeError(
                f"neural potential: a network is wanted (learn.PaiNN, learn.load(...)), got {type(network).__name__}"
            )
        self.name, self.network = name, network
        self.params = {key: np.array(w, np.float64) for key, w in named_weights(network)}
        for key, value in dict(params or {}).items():
            if key not in self.params or np.shape(value) != np.shape(self.params[key]):
                raise ValueError(
                    "neural potential: params must be named and shaped as the network's weights, got "
                    f"{key!r} {np.shape(value)}"
                )
            self.params[key] = np.array(value, np.float64)
        self.atoms = different_atoms(atoms, "neural potential")
        self.elements = None if elements is None else list(elements)
        self._species: np.ndarray | None = None

    @property
    def together(self) -> slice | np.ndarray:  # type: ignore[override]
        """The atoms it acts on."""
        return slice(None) if self.atoms is None else self.atoms

    def check(self, system: SystemLike) -> None:
        self._species = network_species(
            self.network, system, self.atoms, self.elements, f"neural potential {self.name!r}"
        )

    def check_box(self, box: np.ndarray | None) -> None:
        """Raise BoxError if the network's cut-off is too long for the box."""
        if box is not None:
            check_cutoff(f"neural potential {self.name!r}", self.network.cutoff, box)

    def energy(self, params: dict[str, Any], positions: Any, box: Any) -> Any:
        leaves = [*params.values(), positions, *([] if box is None else [box])]
        return at_values(_Chosen(self, box is not None), *leaves)

    def outside_data(self, positions: np.ndarray, box: np.ndarray | None) -> tuple[int, str] | None:
        """Return the atom whose neighborhood is farthest outside the range of training data, and how far; or None."""
        assert self._species is not None
        return outside(self.network, self._species, self.atoms, positions, box)

    def plan(self, engine):
        return NeuralPlan(self, engine)

    def __repr__(self):
        who = "all atoms" if self.atoms is None else f"{len(self.atoms)} atoms"
        return (
            f"<NeuralPotential {self.name!r}: {type(self.network).__name__} of {who}, cut-off {self.network.cutoff} nm>"
        )


def different_atoms(atoms: Any, where: str) -> np.ndarray | None:
    """Numbers of atoms, int64 [m], or None for all of a system."""
    if atoms is None:
        return None
    found = as_indices(atoms, f"{where}: atoms").astype(np.int64)
    if found.ndim != 1 or len(np.unique(found)) != len(found):
        raise ValueError(f"{where}: atoms must be a list of different numbers, got shape {found.shape}")
    return found


def network_species(
    network: Network, system: SystemLike, atoms: np.ndarray | None, elements: Any, where: str
) -> np.ndarray:
    """Return the places of the elements of a system's atoms in those of the network.

    A box less than twice as wide as the network's cut-off raises BoxError.
    """
    if atoms is not None:
        check_indices(atoms, system.n, f"{where}: atoms")
    who = np.arange(system.n) if atoms is None else atoms
    if len(who) == 0:
        raise ValueError(f"{where}: there must be atoms, got none")
    elements = system.topology.elements[who] if elements is None else elements
    if len(elements) != len(who):
        raise ValueError(f"{where}: elements must be given for {len(who)} atoms, got {len(elements)}")
    species = network.species(elements, where, _Names(system.topology, who))
    if system.box is not None and 2 * network.cutoff > float(np.min(np.diag(system.box))):
        raise BoxError(
            f"{where}: the box must be at least twice the cut-off of {network.cutoff} nm wide, got "
            f"{np.diag(system.box).tolist()} nm"
        )
    return species


class _Names:
    """Atoms as errors name them, when they do."""

    def __init__(self, topology, atoms):
        self._topology, self._atoms = topology, atoms

    def __getitem__(self, k):
        return self._topology.describe(int(self._atoms[k]))


def named_weights(network: Network) -> list[tuple[str, np.ndarray]]:
    """The weights of a network with their paths in the tree, in the order of its leaves."""
    found: list[tuple[str, np.ndarray]] = []

    def walk(value, path):
        inner = core.tree.inner(value)
        if value is None:
            return
        if inner is None:
            found.append((path, np.asarray(value)))
            return
        for name, child in zip(inner[1], inner[2], strict=True):
            walk(child, f"{path}.{name}" if path else str(name))

    walk(network, "")
    return found


class _Chosen:
    """Return the pairs of atoms, for the energy at given values."""

    def __init__(self, potential, periodic):
        self._potential, self._periodic = potential, periodic
        self._atoms = potential.atoms
        self._count = len(potential.params)
        self._function = _pure(core.tree.structure(potential.network), self._count, periodic)

    def __call__(self, *values):
        positions, box = values[self._count], values[-1] if self._periodic else None
        self._potential.check_box(box)
        own = positions if self._atoms is None else positions[self._atoms]
        pairs = find_pairs(np.ascontiguousarray(own), box, self._potential.network.cutoff, np.zeros((0, 2), np.int64))
        i, j = np.concatenate([pairs, pairs[:, ::-1]]).T
        neighbors, which = neighbor_rows(i, j, len(own))
        return [Part(self._function, (self._potential._species, neighbors, which >= 0, self._atoms))]


@cache
def _pure(structure, count, periodic):
    def energy(data, *leaves):
        species, neighbors, real, atoms = data
        network = core.tree.unflatten(structure, leaves[:count])
        positions = leaves[count] if atoms is None else leaves[count][atoms]
        vectors = displacement(positions[neighbors] - positions[:, None], leaves[-1] if periodic else None)
        away = np.array([2.0 * network.cutoff, 0.0, 0.0])
        vectors = np.where(real[..., None], vectors, away)
        return np.sum(network.energies(species, neighbors, vectors))

    return energy


@kernel(nogil=True)
def scatter(chunk, atoms, neighbors, vectors, counts, gradients, energy, forces, rows):
    """Forces and virial from derivatives by the vectors of the edges."""
    for i in range(atoms.shape[0]):
        for a in range(3):
            forces[atoms[i], a] = 0.0
    for k in range(rows.shape[1]):
        rows[0, k] = 0.0
    rows[0, 0] = energy[()]
    for i in range(neighbors.shape[0]):
        own = atoms[i]
        for k in range(counts[i]):
            other = atoms[neighbors[i, k]]
            for a in range(3):
                g = np.float64(gradients[i, k, a])
                forces[own, a] += g
                forces[other, a] -= g
                for b in range(3):
                    rows[0, 1 + 3 * a + b] -= g * vectors[i, k, b]


class NeuralPlan(Plan):
    """Edges, the network on them with derivatives by their vectors, and what this means for the atoms."""

    def __init__(self, potential: NeuralPotential, engine: Engine, places: int = 0):
        network = potential.network
        dtype = np.dtype(np.float64) if engine.precision == "double" else network.dtype
        self.potential, self.engine = potential, engine
        self.edges = edges = Edges(engine, network.cutoff, potential.atoms, places, dtype)
        structure = core.tree.structure(network)
        weights = [np.array(w, dtype) for w in potential.params.values()]
        energy, gradients, forces = np.zeros(()), np.zeros_like(edges.vectors), np.zeros((engine.n, 3))
        rows = np.zeros((1, ROW))

        def evaluate(species, neighbors, vectors, *weights):
            network = core.tree.unflatten(structure, weights)
            return core.value_and_grad(lambda v: np.sum(network.energies(species, neighbors, v)))(vectors)

        evaluate.__name__ = potential.name
        assert potential._species is not None
        compute = JitTask(
            evaluate, engine, [potential._species, edges.neighbors, edges.vectors, *weights], [energy, gradients]
        )
        atoms = np.ascontiguousarray(edges.atoms, np.int64)
        sums = Task(scatter, atoms, edges.neighbors, edges.vectors, edges.counts, gradients, energy, forces, rows)
        # a phase of its own: the network's loops get all threads
        super().__init__(
            before=[*edges.before, Phase([compute], name=potential.name)],
            stages=[[sums]],
            rows=rows,
            reduce=[Task(add_forces, engine.atom_starts, forces, engine.forces, chunks=engine.atom_chunks)],
        )
        engine.on_status(FULL, grow)


def grow(engine: Engine) -> bool:
    """Lengthen rows where needed. Of energy networks only the plans are rebuilt; others keep what they have
    prepared.
    """
    whole = False
    for name, plan in engine.plans.items():
        edges = getattr(plan, "edges", None)
        if edges is None or edges.most[0] <= edges.neighbors.shape[1]:
            continue
        if not isinstance(plan, NeuralPlan):
            whole = True
            continue
        longer = NeuralPlan(plan.potential, plan.engine, int(edges.most[0] * 1.15) + 2)
        longer.classes, longer.enhanced = plan.classes, [(k, longer.rows) for k, _ in plan.enhanced]
        engine.plans[name] = longer
    engine.version += 1
    return whole
