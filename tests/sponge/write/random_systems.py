"""Random systems of small molecules, some of which occur several times, and comparisons of systems."""

import numpy as np

from tests.sponge.differential.compare import spread
from tests.sponge.reference import load_reference, pure_energies
from triskele import sponge
from triskele.sponge.load.openmm_xml import load_openmm
from triskele.sponge.topology import graph_distances

MASSES = {1: 1.008, 6: 12.011, 7: 14.007, 8: 15.999, 16: 32.06}
TRICLINIC = np.array([[3.0, 0, 0], [0.7, 2.9, 0], [-0.5, 0.6, 3.1]])


def reference_system(name):
    """A system of tests/data/sponge."""
    reference = load_reference(name)
    return load_openmm(reference.xml, positions=reference.positions, box=reference.box)


def energies(system):
    """Energies by name, those of potentials of one kind together."""
    sums = {}
    for name, energy in pure_energies(system).items():
        name = name.partition(" ")[0]
        sums[name] = sums.get(name, 0.0) + energy
    return sums


def like(written, system):
    """Options under which a file is read as `system` was, and its positions to the last digit."""
    nonbonded = system.nonbonded
    names = "method", "cutoff", "switch", "tolerance", "dispersion_correction", "dielectric"
    options = {name: getattr(nonbonded, name) for name in names}
    if not len(system.constraints):  # which AMBER's files do not say
        options["rigid_water"] = False
    return sponge.load(*written[:2], **options)


def assert_same(again, system, *, rel=1e-12):
    """Energies of all terms, at the same positions, and everything else that the files hold."""
    again.positions, again.box = system.positions, system.box
    found, expected = energies(again), energies(system)
    assert found == {name: _close(expected[name], rel) for name in expected}
    assert again.exclusions.tolist() == system.exclusions.tolist()
    np.testing.assert_allclose(again.masses, system.masses, rtol=1e-15)
    pairs = [{tuple(sorted(p)) for p in s.constraints.pairs.tolist()} for s in (again, system)]
    assert pairs[0] == pairs[1]
    assert again.constraints.distances.sum() == _close(system.constraints.distances.sum(), 1e-12)


def _close(value, rel):
    import pytest

    return pytest.approx(value, rel=rel, abs=1e-9 * rel / 1e-12)


class Molecule:
    """Atoms on a random walk, bonds between neighbors, and terms with random parameters; atoms are counted from 0."""

    def __init__(self, rng, charmm):
        n = int(rng.integers(1, 9))
        self.positions = spread(rng, n)
        self.elements = rng.choice([*MASSES], n)
        self.names = [f"{chr(65 + int(z) % 26)}{'x' * int(rng.integers(0, 4))}{i}" for i, z in enumerate(self.elements)]
        self.charges = rng.normal(0, 0.3, n)
        self.sigmas, self.epsilons = rng.choice([0.25, 0.31, 0.34], n), rng.choice([0.0, 0.3, 0.45], n)
        near = [int(np.argmin(np.linalg.norm(self.positions[:i] - self.positions[i], axis=1))) for i in range(1, n)]
        self.bonds = np.array([(j, i + 1) for i, j in enumerate(near)], int).reshape(-1, 2)
        around = [{*self.bonds[self.bonds[:, 0] == i, 1], *self.bonds[self.bonds[:, 1] == i, 0]} for i in range(n)]
        self.angles = _rows([(i, j, k) for j in range(n) for i in around[j] for k in around[j] if i < k], 3)
        chains = [(i, j, k, l) for j, k in self.bonds for i in around[j] - {k} for l in around[k] - {j} if i != l]
        self.torsions = _rows(chains, 4)
        self.third = graph_distances(self.bonds, n)[2]
        self.excluded = np.concatenate(graph_distances(self.bonds, n))
        self.charmm = charmm

    def terms(self, rng):
        """Potentials by name, as atoms and parameters."""
        k, scale = len(self.torsions), rng.uniform(0.4, 0.9)
        found = {
            "harmonic_bond": (
                self.bonds,
                {"k": _some(rng, 2e5, len(self.bonds)), "r0": _some(rng, 0.14, len(self.bonds))},
            ),
            "harmonic_angle": (
                self.angles,
                {"k": _some(rng, 400.0, len(self.angles)), "theta0": _some(rng, 1.9, len(self.angles))},
            ),
            "periodic_torsion": (
                np.concatenate([self.torsions, self.torsions[:, ::-1]]),
                {
                    "k": rng.normal(0, 5, 2 * k),
                    "periodicity": rng.integers(1, 7, 2 * k),
                    "phase": rng.choice([0.0, np.pi, 0.7], 2 * k),
                },
            ),
        }
        i, j = self.third.T
        sigma, epsilon = (self.sigmas[i] + self.sigmas[j]) / 2, np.sqrt(self.epsilons[i] * self.epsilons[j])
        if self.charmm:
            found["urey_bradley"] = (
                self.angles[::2][:, [0, 2]],
                {"k": _some(rng, 1e4, len(self.angles[::2])), "r0": _some(rng, 0.25, len(self.angles[::2]))},
            )
            found["harmonic_improper"] = (
                self.torsions[::2],
                {"k": _some(rng, 40.0, len(self.torsions[::2])), "phi0": rng.uniform(-3, 3, len(self.torsions[::2]))},
            )
            sigma, epsilon = sigma * np.where(self.epsilons[i] == 0.3, 0.9, 1.0), 0.8 * epsilon
        found["pair14"] = (
            self.third,
            {
                "charge_product": scale * self.charges[i] * self.charges[j],
                "sigma": sigma,
                "epsilon": epsilon if self.charmm else 0.5 * epsilon,
            },
        )
        return found


def _rows(rows, k):
    return np.array(rows, int).reshape(-1, k)


def _some(rng, mean, m):
    return mean * rng.uniform(0.8, 1.2, m)


def random_system(rng, *, charmm=False, box=None, most=4):
    """A few molecules of one to three kinds in random order."""
    kinds = [Molecule(rng, charmm) for _ in range(int(rng.integers(1, 4)))]
    terms = [kind.terms(rng) for kind in kinds]
    order = rng.integers(0, len(kinds), int(rng.integers(1, most + 1))).tolist()
    starts = np.cumsum([0, *(len(kinds[m].names) for m in order)])

    def joined(name):
        """Values of all atoms."""
        return np.concatenate([getattr(kinds[m], name) for m in order])

    def shifted(rows):
        """Atoms of all molecules."""
        return np.concatenate([r + start for r, start in zip(rows, starts)])

    residues = np.repeat(np.arange(len(order)), np.diff(starts))
    topology = sponge.Topology(
        joined("names"), joined("elements"), residues, [f"RES{m}LONG"[: 4 + m] for m in order],
        np.arange(1, len(order) + 1).astype(str), np.arange(len(order)) // 2, ["A", "B"],
        shifted([kinds[m].bonds for m in order]),
    )  # fmt: skip
    spots = np.concatenate([kinds[m].positions + [0.0, 0.0, 1.2 * i] for i, m in enumerate(order)])
    system = sponge.System(
        topology, [MASSES[z] for z in joined("elements")], box, spots, rng.normal(size=spots.shape),
        exclusions=shifted([kinds[m].excluded for m in order]),
    )  # fmt: skip
    options = {"method": "none"} if box is None else {"method": "pme", "cutoff": 1.0}
    system.add(sponge.Nonbonded(joined("charges"), joined("sigmas"), joined("epsilons"), **options))
    for name in terms[0]:
        atoms = shifted([terms[m][name][0] for m in order])
        if len(atoms):
            columns = [{k: np.concatenate([terms[m][name][1][k] for m in order])} for k in terms[0][name][1]]
            system.add(getattr(sponge, name)(atoms, **{k: v for c in columns for k, v in c.items()}))
    return system
