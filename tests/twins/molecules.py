"""Small systems with constraints of every kind, and potentials as plain formulas."""

import numpy as np

from triskele.sponge.constraints.choose import Constraints
from triskele.sponge.load.structure import Structure
from triskele.sponge.potential import Potential
from triskele.sponge.system import System
from triskele.sponge.topology import Topology

WATER = np.array([[0, 0, 0], [0.09572, 0, 0], [0.09572 * np.cos(1.82421813), 0.09572 * np.sin(1.82421813), 0]])
TETRAHEDRON = 0.109 / np.sqrt(3) * np.array([[0, 0, 0], [1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
ZIGZAG = 0.15 * np.array([[0, 0, 0], [0.8, 0.55, 0], [1.6, 0, 0.1], [2.4, 0.5, 0.3], [3.2, 0, 0], [4, 0.6, 0.2]])

# name: positions, constrained pairs, masses
MOLECULES = {
    "water": (WATER, [(0, 1), (0, 2), (1, 2)], [15.999, 1.008, 1.008]),
    "water from a leg": (WATER[[1, 0, 2]], [(0, 1), (0, 2), (1, 2)], [1.008, 15.999, 1.008]),
    "XH": (TETRAHEDRON[:2], [(1, 0)], [12.011, 1.008]),
    "XH2": (TETRAHEDRON[:3], [(0, 1), (2, 0)], [14.007, 1.008, 1.008]),
    "XH3": (TETRAHEDRON[:4], [(0, 1), (0, 2), (3, 0)], [12.011, 1.008, 1.008, 1.008]),
    "XH4": (TETRAHEDRON, [(0, 1), (0, 2), (0, 3), (0, 4)], [12.011, 1.008, 1.008, 1.008, 1.008]),
    "chain": (ZIGZAG, [(i, i + 1) for i in range(5)] + [(0, 2), (3, 5)], [12.0, 14.0, 1.0, 12.0, 16.0, 3.0]),
    "ring": (
        0.139 * np.array([[np.cos(t), np.sin(t), 0] for t in np.arange(6) * np.pi / 3]),
        [(i, (i + 1) % 6) for i in range(6)],
        [12.0, 12.0, 14.0, 12.0, 12.0, 14.0],
    ),
    "atom": (np.zeros((1, 3)), [], [39.948]),
}


def pair(r=0.3, **options):
    """Two particles at a distance, without potentials."""
    return System(
        Topology.of_particles(2), [10.0, 10.0], positions=[[0, 0, 0], [r, 0, 0]], remove_com_motion=False, **options
    )


def mixture(names, rng, spread=3.0, bonds=True):
    """A system of these molecules at random places and turns; velocities are those of 300 K, without regard to
    constraints.
    """
    positions, pairs, lengths, masses = [], [], [], []
    for name in names:
        x, tied, m = MOLECULES[name]
        turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        start = len(masses)
        positions.append(x @ turn + rng.uniform(0, spread, 3))
        pairs += [(start + i, start + j) for i, j in tied]
        lengths += [np.linalg.norm(x[i] - x[j]) for i, j in tied]
        masses += m
    topology = Topology.of_particles(len(masses), bonds=np.array(pairs).reshape(-1, 2) if bonds else ())
    velocities = rng.normal(size=(len(masses), 3)) * np.sqrt(2.494 / np.array(masses))[:, None]
    return System(
        topology,
        masses,
        positions=np.concatenate(positions),
        velocities=velocities,
        constraints=Constraints(pairs, lengths),
        remove_com_motion=False,
    )


class Formula(Potential):
    """A potential of a name, parameters and a function ``energy(params, positions, box)``."""

    def __init__(self, name, function, **params):
        self.name, self.function = name, function
        self.params = {k: np.array(v, np.float64) for k, v in params.items()}

    def energy(self, params, positions, box):
        return self.function(params, positions, box)


def wells(system, k):
    """Harmonic wells, one for each atom, at its present position."""
    return Formula("wells", lambda p, x, box: 0.5 * p["k"] * ((x - p["at"]) ** 2).sum(), k=k, at=system.positions)


def length_errors(system, positions):
    """Relative errors of the constrained lengths."""
    i, j = system.constraints.pairs.T
    return np.linalg.norm(positions[i] - positions[j], axis=1) / system.constraints.distances - 1


def without(structure, drop):
    """A structure without the atoms of a mask."""
    t, keep = structure.topology, ~drop
    new = np.cumsum(keep) - 1
    return Structure(
        Topology(
            t.names[keep],
            t.elements[keep],
            t.residue_index[keep],
            t.residue_names,
            t.residue_ids,
            t.chain_index,
            t.chain_ids,
            new[t.bonds[keep[t.bonds].all(1)]],
        ),
        structure.positions[keep],
        structure.box,
    )
