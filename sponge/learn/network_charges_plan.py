"""The compiled form of `NetworkCharges`: a network on its neighborhoods, between the phases of a `Nonbonded`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from triskele import core
from triskele.core.extend import Task, kernel

from ..engine.jit_task import JitTask
from ..engine.plan import ROW, Plan, add_forces
from ..engine.program import Phase
from ..neighbors.edges import FULL, Edges
from ..potentials.nonbonded.moving_charges import MovingCharges
from .behler_parrinello import BehlerParrinello
from .charge_network import ChargeNetwork
from .neural_potential import grow, scatter
from .radial_functions import RadialFunctions

if TYPE_CHECKING:
    from ..engine.engine import Engine
    from ..potentials.nonbonded.nonbonded import Nonbonded
    from .network_charges import NetworkCharges

__all__ = ["plan"]


@kernel(nogil=True)
def move(chunk, to, target, at, source):
    """Copy source[at] to target[to]."""
    for k in range(len(to)):
        target[to[k]] = source[at[k]]


@kernel(nogil=True)
def chain(_chunk, atoms, slopes, derivatives, weights):
    """Derivatives of the energy by what charges are made of: those of each atom's share, times those by its charge less
    their mean, as the total does not change.
    """
    mean = 0.0
    for k in range(len(atoms)):
        mean += slopes[atoms[k]]
    mean /= len(atoms)
    for k in range(len(atoms)):
        factor = slopes[atoms[k]] - mean
        for f in range(derivatives.shape[1]):
            weights[k, f] = factor * derivatives[k, f]


class Networks:
    """Tasks of a charge network: charges of its atoms, and the forces that derivatives by them cause.

    The phases `before` set the charges `own` (m,) float64 in e; those `after` set `forces` (n, 3) and `rows` (chunks,
    10) from the derivatives of the energy by the charges of all atoms. `edges`, or None, are neighbors whose rows may
    have to grow.
    """

    def __init__(
        self,
        engine: Engine,
        network: ChargeNetwork,
        species: np.ndarray,
        atoms: np.ndarray | None,
        weights: list[np.ndarray],
        slopes: np.ndarray,
    ):
        real = np.dtype(np.float64) if engine.precision == "double" else network.dtype
        structure, arrays = core.tree.structure(network), [np.array(w, real) for w in weights]
        self.engine, self.species, self.slopes = engine, species, slopes
        who = np.arange(engine.n) if atoms is None else np.ascontiguousarray(atoms, np.int64)
        self.atoms, self.own = who, np.zeros(len(who))
        self.edges: Edges | None = None

        def of(weights) -> ChargeNetwork:
            return core.tree.unflatten(structure, weights)

        if isinstance(network.network, BehlerParrinello) and not network.network.angular:
            self._radial(network.network, of, arrays, real)
            return
        self.edges = edges = Edges(engine, network.cutoff, atoms, 0, real)
        self.forces, self.rows = np.zeros((engine.n, 3)), np.zeros((1, ROW))
        gradients = np.zeros_like(edges.vectors)
        self._sums = Task(
            scatter, who, edges.neighbors, edges.vectors, edges.counts, gradients, np.zeros(()), self.forces, self.rows
        )
        (self._local if network.network.local else self._passing)(edges, of, arrays, gradients)

    def _radial(self, network, of, arrays, real):
        """Radial functions by kernels of their own; what the core compiles turns them into charges."""
        order = np.argsort(self.species, kind="stable")
        self.atoms, species = self.atoms[order], self.species[order]
        counts = np.bincount(species, minlength=len(network.elements)).tolist()
        functions = RadialFunctions(self.engine, network, self.atoms, species, real)
        derivatives = np.zeros_like(functions.values)

        def evaluate(species, values, *weights):
            net = of(weights)
            return _with_derivatives(
                net, lambda v: net.network.in_units(species, net.network.radial_outputs(counts, v)), values
            )

        inputs = [species, functions.values, *arrays]
        self.before = [
            *functions.before,
            Phase([JitTask(evaluate, self.engine, inputs, [self.own, derivatives])], name="network charges"),
        ]
        self.after = [
            Phase([Task(chain, self.atoms, self.slopes, derivatives, functions.weights)], name="slopes"),
            *functions.after,
        ]
        self.forces, self.rows = functions.forces, functions.rows

    def _local(self, edges, of, arrays, gradients):
        """Each vector belongs to one atom's charge, so that its derivatives can be had with the charges."""
        derivatives = np.zeros_like(gradients)

        def evaluate(species, neighbors, vectors, *weights):
            net = of(weights)
            return _with_derivatives(net, lambda v: net.network.energies(species, neighbors, v), vectors)

        inputs = [self.species, edges.neighbors, edges.vectors, *arrays]
        self.before = [
            *edges.before,
            Phase([JitTask(evaluate, self.engine, inputs, [self.own, derivatives])], name="network charges"),
        ]
        flat = [a.reshape(len(a), -1) for a in (derivatives, gradients)]
        self.after = [
            Phase([Task(chain, self.atoms, self.slopes, *flat)], name="slopes"),
            Phase([self._sums], name="forces of charges"),
        ]

    def _passing(self, edges, of, arrays, gradients):
        """Charges first, then the pull of the energy's derivatives by them."""
        order, slopes = np.arange(len(self.atoms)), np.zeros(len(self.atoms))

        def charges(species, neighbors, vectors, *weights):
            return of(weights).charges(species, neighbors, vectors)

        def pull(species, neighbors, vectors, slopes, *weights):
            return core.vjp(lambda v: charges(species, neighbors, v, *weights), vectors)[1](slopes)[0]

        inputs = [self.species, edges.neighbors, edges.vectors]
        self.before = [
            *edges.before,
            Phase([JitTask(charges, self.engine, [*inputs, *arrays], [self.own])], name="network charges"),
        ]
        self.after = [
            Phase([Task(move, order, slopes, self.atoms, self.slopes)], name="slopes"),
            Phase(
                [JitTask(pull, self.engine, [*inputs, slopes, *arrays], [gradients])],
                name="network charges' derivatives",
            ),
            Phase([self._sums], name="forces of charges"),
        ]


def _with_derivatives(network, shares, x):
    """Charges, and the derivatives of the sum of all shares by x."""

    def total(x):
        own = shares(x)
        return np.sum(own), own

    (_, own), slope = core.value_and_grad(total, has_aux=True)(x)
    return network.conserved(own), slope


class NetworkChargesPlan(Plan):
    """The network; the plan of a `Nonbonded`; and what its derivatives by the charges mean for the atoms.

    `charges` (n,), in e, are those of the last evaluation.
    """

    def __init__(self, networks: Networks, inner: Any, moving: MovingCharges, rows14: bool):
        self._nonbonded, self._rows14, self.charges = inner, moving.rows, moving.charges
        self.edges, engine = networks.edges, networks.engine
        atoms, added = networks.atoms, [networks.forces, moving.forces] if rows14 else [networks.forces]
        super().__init__(
            before=[
                *networks.before,
                Phase([Task(move, atoms, self.charges, np.arange(len(atoms)), networks.own)], name="charges of atoms"),
                *inner.before,
                *moving.before,
            ],
            stages=inner.stages,
            rows=networks.rows,
            update_box=inner.update_box,
            jump=inner.jump,
            reduce=[
                *inner.reduce,
                *(Task(add_forces, engine.atom_starts, f, engine.forces, chunks=engine.atom_chunks) for f in added),
            ],
            after=[*inner.after, *moving.after, *networks.after],
        )
        engine.on_status(FULL, grow)

    def totals(self) -> np.ndarray:
        """Energy and virial [10] of all parts; `rows` are those of the network's derivatives."""
        return self._nonbonded.totals() + self.rows.sum(axis=0) + self._rows14.sum(axis=0)


def plan(potential: NetworkCharges, engine: Engine, plain: Nonbonded, weights: list[np.ndarray]) -> Plan:
    """The plan of network charges, from a `Nonbonded` with any charges and the network's weights."""
    assert potential.species is not None
    inner: Any = plain.plan(engine)
    moving = MovingCharges(inner, engine, plain, potential.pairs14, potential.factors14)
    moving.charges[:] = potential.params["charges"]
    networks = Networks(engine, potential.network, potential.species, potential.atoms, weights, moving.slopes)
    return NetworkChargesPlan(networks, inner, moving, len(potential.pairs14) > 0)
