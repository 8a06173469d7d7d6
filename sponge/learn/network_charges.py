"""`NetworkCharges`: the nonbonded energy of a system whose charges come from a network."""

from __future__ import annotations

import copy
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from triskele import core
from triskele.core.extend import check

from .. import box as boxes
from ..box import displacement
from ..engine.plan import Plan
from ..neighbors.pairs import find_pairs
from ..potential import Potential
from ..potentials.at_values import Part, at_values
from ..potentials.bonded.pair14 import pair14
from ..potentials.nonbonded.energy import terms
from ..potentials.nonbonded.moving_charges import factors14
from ..potentials.nonbonded.nonbonded import Nonbonded
from ..protocols import SystemLike
from ..topology import Topology, as_vectors
from ..units import COULOMB
from .charge_network import ChargeNetwork
from .network import neighbor_rows
from .network_charges_plan import plan
from .neural_potential import different_atoms, named_weights, network_species
from .training_range import outside

if TYPE_CHECKING:
    from ..engine.engine import Engine
    from ..system import System

__all__ = ["NetworkCharges"]

_COMPILED = ("pme", "reaction_field", "cutoff")  # methods with kernels


class NetworkCharges(Potential):
    r"""The nonbonded energy with charges that a network gives, of all atoms or beside fixed charges.

    :meth:`System.add` lets it take the place of the system's `Nonbonded`, with its options and parameters, under its
    name; in `pair14` terms the Coulomb energy of pairs of these atoms moves here, too. Forces are exact:

    .. math:: f = -\partial U/\partial x|_q - \sum_i (\partial U/\partial q_i)\, \partial q_i/\partial x

    With "pme", "reaction_field" and "cutoff" all of it is compiled. With the other methods of `Nonbonded`, and for
    second derivatives, the energy is that of NumPy code, which suits small systems.

    Parameters
    ----------
    network : ChargeNetwork
    atoms : (m,) int, optional
        The atoms whose charges it gives. Defaults to all. The others keep their charges and are not seen by the
        network.
    elements : sequence of str or int [m], optional
        Elements of these atoms, when they are not those of the topology.
    scale14 : float, optional
        Factor of the Coulomb energy of 1-4 pairs. By default it follows, for each pair, from the product of charges in
        `pair14` and the fixed charges.

    Attributes
    ----------
    params : dict
        Parameters of the `Nonbonded`, of whose charges those of `atoms` do not matter; the weights of the network.
    nonbonded : Nonbonded or None
        The potential whose place it has taken.
    species : (m,) int32 or None
        Places of the atoms' elements in those of the network.
    pairs14 : (p, 2) int64
    factors14 : (p,) float64
        1-4 pairs, and the factors of their Coulomb energy.

    Raises
    ------
    ValueError
        When the system has an element which the network does not know (the atom is named), another potential with
        charges of its own, such as `thole_screening`, a 1-4 pair whose factor is not known, or of one atom of `atoms`
        and another.
    AttributeError
        When the system has no `Nonbonded`.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core, sponge
    >>> from triskele.sponge import learn
    >>> net = learn.ChargeNetwork.init(core.random.key(0), ["Na", "Cl"], cutoff=0.6, features=8, layers=1)
    >>> cell = np.stack(np.meshgrid(*[np.arange(6)] * 3), axis=-1).reshape(-1, 3)
    >>> topology = sponge.Topology.of_particles(216)
    >>> salt = sponge.System(topology, [23.0] * 216, positions=0.28 * cell, box=1.68 * np.eye(3))
    >>> _ = salt.add(sponge.Nonbonded(np.zeros(216), [0.3] * 216, [0.2] * 216, cutoff=0.8))
    >>> charges = salt.add(sponge.NetworkCharges(net, elements=np.where(cell.sum(1) % 2, "Cl", "Na")))
    >>> forces = salt.forces()
    >>> found = charges.charges(salt.positions, salt.box)
    >>> bool(abs(found.sum()) < 1e-9)
    True
    """

    conserves_momentum = True
    moving_charges = True

    def __init__(
        self, network: ChargeNetwork, *, atoms: Any = None, elements: Any = None, scale14: float | None = None
    ):
        check.kind(network, ChargeNetwork, "network charges: network")
        self.name, self.network = "network_charges", network
        self.atoms = different_atoms(atoms, "network charges")
        self.elements = None if elements is None else list(elements)
        self.scale14 = None if scale14 is None else check.finite(scale14, "network charges: scale14")
        self.nonbonded: Nonbonded | None = None
        self.params = {key: np.array(w, np.float64) for key, w in named_weights(network)}
        self.pairs14, self.factors14 = np.zeros((0, 2), np.int64), np.zeros(0)
        self.species: np.ndarray | None = None
        self._periodic = False

    # -- the system ----------------------------------------------------------------------------------------------------

    def take_over(self, system: System) -> None:
        """Take the place of the system's `Nonbonded`."""
        where = "network charges"
        if self.nonbonded is not None:
            if any(isinstance(p, Nonbonded) for p in system.potentials):
                raise ValueError(f"{where}: they belong to another system already (make new ones)")
            return
        plain = system.nonbonded
        network_species(self.network.network, system, self.atoms, self.elements, where)
        marked = self._marked(system.n)
        found: list[Any] = [p for p in system.potentials if isinstance(p, pair14)]
        self._check_others([p for p in system.potentials if p is not plain and p not in found], marked)
        changed, pairs, factors = [], [self.pairs14], [self.factors14]
        for p in found:
            products, own = p.params["charge_product"], p.atoms.astype(np.int64)
            inside = marked[own].sum(1)
            if np.any((inside == 1) & (products != 0)):
                i, j = own[np.argmax((inside == 1) & (products != 0))]
                raise ValueError(
                    f"{where}: 1-4 pairs must have both atoms in `atoms` or none, got "
                    f"{system.topology.describe(i)} and {system.topology.describe(j)}"
                )
            inside = inside == 2
            pairs.append(own[inside])
            factors.append(
                np.full(inside.sum(), float(self.scale14))
                if self.scale14 is not None
                else factors14(own[inside], products[inside], plain.params["charges"], where)
            )
            changed.append((p, np.where(inside, 0.0, products)))
        for p, products in changed:
            p.params["charge_product"] = products
            p._reshaped()
        system.remove(plain.name)
        self.name, self.nonbonded = plain.name, copy.copy(plain)
        if system.box is not None:
            self.nonbonded.fix_mesh(system.box)  # for a derivative by the box
        self.pairs14, self.factors14 = np.concatenate(pairs), np.concatenate(factors)
        self.images = plain.images
        self.params = {**{key: values.copy() for key, values in plain.params.items()}, **self.params}

    def check(self, system: SystemLike) -> None:
        self.species = network_species(
            self.network.network, system, self.atoms, self.elements, f"network charges {self.name!r}"
        )
        self._check_others([p for p in system.potentials if p is not self], self._marked(system.n))
        self._periodic = system.box is not None
        plain = self._plain(self.params)
        plain.check(system)
        self._own.exclusions = plain.exclusions

    def _marked(self, n):
        return np.ones(n, bool) if self.atoms is None else np.isin(np.arange(n), self.atoms)

    def _check_others(self, potentials, marked):
        """Raise ValueError if one of the potentials has charges of its own."""
        for p in potentials:
            own = p.moving_charges or np.any(p.params.get("charges", 0.0))
            if "charge_product" in p.params:
                own |= np.any(marked[p.atoms].any(axis=1) & (p.params["charge_product"] != 0))
            if own:
                raise ValueError(f"network charges: {p.name!r} has charges of its own, which would stay as they are")

    @property
    def _own(self):
        if self.nonbonded is None:
            raise ValueError("network charges: must be added to a system with a Nonbonded before they are used")
        return self.nonbonded

    def _plain(self, params):
        """A `Nonbonded` with these parameters."""
        new = copy.copy(self._own)
        new.params = {key: params[key] for key in self._own.params}
        return new

    # -- what engines ask of a potential of pairs ----------------------------------------------------------------------

    @property
    def cutoff(self) -> float | None:
        """Cut-off radius in nm."""
        return None if self._own.method == "none" else self._own.cutoff

    @property
    def pair_scope(self):  # type: ignore[override]
        """Return "all" without a cut-off, "listed" with a neighbor list."""
        return self._own.pair_scope

    @property
    def invariant(self) -> bool:
        """True if translating all atoms leaves the energy exactly unchanged."""
        return self._own.invariant

    def at_cutoff(self) -> Any:
        """As of `Nonbonded`, with the fixed charges or half an elementary charge, whatever is more."""
        charges, *others = self._plain(self.params).at_cutoff()
        return (np.maximum(np.abs(charges), 0.5), *others)

    def check_box(self, box: np.ndarray | None) -> None:
        """Raise BoxError if the method, or the network, cannot be used with such a box."""
        self._own.check_box(box)
        if box is not None:
            boxes.check_cutoff(f"network charges {self.name!r}: network", self.network.cutoff, box)

    # -- energies ------------------------------------------------------------------------------------------------------

    def charges(self, positions: Any, box: Any = None) -> np.ndarray:
        """Charges of all atoms in e, float64 [n].

        Parameters
        ----------
        positions : (n, 3) array, nm
        box : float, (3,) or (3, 3) array, nm, optional
            Must be given if the system is periodic.

        Raises
        ------
        ValueError
            If `positions` has a wrong shape or a value that is not finite.
        BoxError
            If the box is missing, superfluous, or too small for the cut-offs.
        """
        topology = Topology.of_particles(len(self._own.params["charges"]))
        positions = as_vectors(positions, topology, "network charges: positions")
        box = boxes.given_box(box, self._periodic, f"network charges {self.name!r}")
        self.check_box(box)
        data, leaves = self._data(positions, box), [*self.params.values(), positions]
        function = _charges(*self._shape(), box is not None)
        return np.asarray(function(data, *leaves, *([] if box is None else [box])))

    def _shape(self):
        """Structure of the network, the numbers of parameters in front of its weights, and of weights."""
        k = len(self._own.params)
        return core.tree.structure(self.network), k, len(self.params) - k

    def _data(self, positions, box):
        own = positions if self.atoms is None else positions[self.atoms]
        pairs = find_pairs(np.ascontiguousarray(own), box, self.network.cutoff, np.zeros((0, 2), np.int64))
        i, j = np.concatenate([pairs, pairs[:, ::-1]]).T
        neighbors, which = neighbor_rows(i, j, len(own))
        source = np.arange(len(positions))
        source[slice(None) if self.atoms is None else self.atoms] = len(positions) + np.arange(len(own))
        return self.species, neighbors, which >= 0, self.atoms, source

    def energy(self, params: dict[str, Any], positions: Any, box: Any) -> Any:
        chosen = partial(self._parts, self._own, box is not None)
        return at_values(chosen, *(params[key] for key in self.params), positions, *([] if box is None else [box]))

    def _parts(self, own, periodic, *values):
        """The parts of the energy at given values: those of `Nonbonded`, with charges put in, and 1-4 pairs."""
        positions, box = (values[-2], values[-1]) if periodic else (values[-1], None)
        self.check_box(box)
        parts = terms(own.form(box), tuple(own.params), periodic, own.types, own.exclusions, positions, box)
        data, shape = self._data(positions, box), self._shape()
        found = [Part(_with_charges(q.function, *shape, periodic), (data, q.data), q.compile) for q in parts]
        if len(self.pairs14):
            function = _with_charges(_scaled(len(own.params), own.images and periodic), *shape, periodic)
            found.append(Part(function, (data, (self.pairs14, self.factors14))))
        return found

    def outside_data(self, positions: np.ndarray, box: np.ndarray | None) -> tuple[int, str] | None:
        """Return the atom whose neighborhood is farthest outside the range of training data, and how far; or None."""
        assert self.species is not None
        return outside(self.network.network, self.species, self.atoms, positions, box)

    def plan(self, engine: Engine) -> Plan:
        """The kernels of `Nonbonded`, between a network that gives their charges and its derivatives."""
        if engine.split is not None:
            raise ValueError(f"network charges {self.name!r}: their energy cannot be split by a sampling method")
        if self._own.method not in _COMPILED:
            return super().plan(engine)
        _, k, count = self._shape()
        # that there are charges decides which kernels there are; their values are set in every step
        plain = self._plain({**self.params, "charges": np.ones(engine.n)})
        return plan(self, engine, plain, list(self.params.values())[k : k + count])

    def __repr__(self):
        who = "all atoms" if self.atoms is None else f"{len(self.atoms)} atoms"
        return f"<NetworkCharges {self.name!r}: {type(self.network.network).__name__} of {who}>"


@cache
def _charges(structure, k, count, periodic):
    """Charges of all atoms from the leaves of the energy."""

    def charges(data, *leaves):
        species, neighbors, real, atoms, source = data
        network, x = core.tree.unflatten(structure, leaves[k : k + count]), leaves[k + count]
        own = x if atoms is None else x[atoms]
        vectors = displacement(own[neighbors] - own[:, None], leaves[-1] if periodic else None)
        vectors = np.where(real[..., None], vectors, np.array([2.0 * network.cutoff, 0.0, 0.0]))
        return np.concatenate([leaves[0], network.charges(species, neighbors, vectors)])[source]

    return charges


@cache
def _with_charges(function, structure, k, count, periodic):
    """A part of the energy of `Nonbonded` as a function of the weights, too."""
    charges = _charges(structure, k, count, periodic)

    def energy(data, *leaves):
        network, own = data
        return function(own, charges(network, *leaves), *leaves[1:k], *leaves[k + count :])

    return energy


@cache
def _scaled(k, images):
    def energy(data, charges, *leaves):
        (i, j), factors, positions = data[0].T, data[1], leaves[k - 1]
        d = displacement(positions[i] - positions[j], leaves[-1] if images else None)
        return COULOMB * np.sum(factors * charges[i] * charges[j] / np.sqrt(np.sum(d * d, axis=-1)))

    return energy
