"""The CL&P force field and its polarizable form against OpenMM and LAMMPS, charges from a network, and packed boxes."""

import gzip
import importlib
import json
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial import cKDTree

from tests.sponge.reference import DATA
from triskele import sponge
from triskele.sponge import learn
from triskele.sponge.errors import MissingParameterError
from triskele.sponge.units import kcal_per_mol

EXAMPLES = Path(__file__).parents[3] / "examples" / "sponge"
INCOMPLETE = {"benzc1im", "c2OHc1im", "c4fc1fsi"}  # il.ff lacks torsions of these


@pytest.fixture(scope="module")
def field():
    return sponge.ForceField("clp/il")


def ion(field, name):
    t = field.templates[name]
    n = len(t.names)
    return sponge.Topology(np.array(t.names), t.elements, np.zeros(n, int), [name], ["1"], [0], ["A"], t.bonds)


def crumpled(topology, rng):
    """Positions along the bonds of a molecule, each atom 0.15 nm from one before."""
    x = np.zeros((topology.n, 3))
    for i, j in topology.bonds[topology.bonds[:, 0] > topology.bonds[:, 1]]:
        step = rng.normal(size=3)
        x[i] = x[j] + 0.15 * step / np.linalg.norm(step)
    return x


def test_every_ion_has_the_energies_of_openmm(field, tmp_path, rng):
    app = pytest.importorskip("openmm.app")
    mm = pytest.importorskip("openmm")
    from triskele.sponge.build.modeller import to_openmm

    path = tmp_path / "il.xml"
    path.write_bytes(gzip.decompress((files("triskele.sponge") / "data/clp/il.xml.gz").read_bytes()))
    reference, seen = app.ForceField(str(path)), 0
    for name in sorted(set(field.templates) - INCOMPLETE):
        topology = ion(field, name)
        system = sponge.create_system(topology, crumpled(topology, rng), None, field, method="none")
        total = system.nonbonded.params["charges"].sum()
        assert abs(total) == pytest.approx(1.0, abs=1e-9), name
        if topology.n == 1:
            continue
        structure = sponge.Structure(topology, system.positions)
        omm = reference.createSystem(to_openmm(structure, app)[0], nonbondedMethod=app.NoCutoff)
        context = mm.Context(omm, mm.VerletIntegrator(0.001), mm.Platform.getPlatformByName("Reference"))
        context.setPositions(system.positions)
        energy = context.getState(energy=True).getPotentialEnergy()._value
        assert system.energy() == pytest.approx(energy, rel=1e-11), name
        seen += 1
    assert seen > 30


@pytest.mark.parametrize("name", sorted(INCOMPLETE))
def test_ions_without_parameters_are_named(field, name):
    with pytest.raises(MissingParameterError, match=f"parameters for every proper, got none for atom .*{name}"):
        topology = ion(field, name)
        sponge.create_system(topology, np.zeros((topology.n, 3)), None, field, method="none")


@pytest.mark.parametrize(("spread", "planes"), [("0.0", 1e-5), ("0.03", 2e-3)])
def test_a_pair_of_ions_has_the_energies_of_lammps(field, spread, planes):
    """Files of fftool, with numbers of six digits; improper torsions take the atoms in another order, which counts
    where rings are bent.
    """
    expected = json.loads((DATA / "clp" / "reference.json").read_text())[spread]
    cation, anion = ion(field, "c4c1im"), ion(field, "dca")
    together = sponge.Topology(
        np.concatenate([cation.names, anion.names]),
        np.concatenate([cation.elements, anion.elements]),
        np.repeat([0, 1], [cation.n, anion.n]),
        ["c4c1im", "dca"],
        ["1", "2"],
        [0, 0],
        ["A"],
        np.concatenate([cation.bonds, anion.bonds + cation.n]),
    )
    system = sponge.create_system(together, 0.1 * np.array(expected["positions"]), None, field, method="none")
    found = {name: energy / kcal_per_mol for name, energy in system.energy_terms().items()}
    assert found["bond"] == pytest.approx(expected["ebond"], abs=1e-7)
    assert found["angle"] == pytest.approx(expected["eangle"], abs=1e-7)
    assert found["torsion"] == pytest.approx(expected["edihed"], abs=planes)
    assert found["nonbonded"] + found["pair14"] == pytest.approx(expected["evdwl"] + expected["ecoul"], abs=1e-5)


def chloride():
    return sponge.Structure(sponge.Topology.of_particles(1, "CL", 17), np.zeros((1, 3)))


def cation(rng):
    x = np.array([[0, 0, 0], [0.13, 0, 0], [0.2, 0.11, 0], [0.1, 0.2, 0.05]])
    topology = sponge.Topology(
        np.array(["C1", "C2", "C3", "C4"]),
        np.full(4, 6),
        np.zeros(4, int),
        ["BUT"],
        ["1"],
        [0],
        ["A"],
        np.array([[0, 1], [1, 2], [2, 3]]),
    )
    return sponge.Structure(topology, x + rng.normal(0, 0.01, x.shape))


@pytest.mark.parametrize(
    "size", [2.2, [2.0, 2.4, 2.6], [[2.4, 0, 0], [0.6, 2.3, 0], [-0.7, 0.8, 2.2]]], ids=["cube", "edges", "triclinic"]
)
def test_packed_molecules_keep_their_shapes_and_do_not_overlap(size, rng):
    molecule = cation(rng)
    box = sponge.build.pack([(molecule, 30), (chloride(), 30)], size=size, seed=2)
    assert box.topology.n == 150 and len(box.topology.residue_names) == 60
    x = box.positions[:120].reshape(30, 4, 3)
    apart = np.linalg.norm(x[:, :, None] - x[:, None], axis=-1)
    own = np.linalg.norm(molecule.positions[:, None] - molecule.positions, axis=-1)
    np.testing.assert_allclose(apart, np.broadcast_to(own, apart.shape), atol=1e-12)
    np.testing.assert_array_equal(box.topology.bonds[:3], molecule.topology.bonds)
    np.testing.assert_array_equal(box.topology.bonds[-3:], molecule.topology.bonds + 116)
    images = (np.array(list(np.ndindex(3, 3, 3))) - 1) @ box.box
    every = (box.positions + images[:, None]).reshape(-1, 3)
    owner = np.tile(box.topology.residue_index, 27)
    first = np.arange(len(every)) // 150 == 13  # the box itself
    for i, j in cKDTree(every).query_pairs(0.15):
        assert owner[i] == owner[j] or not (first[i] or first[j])


def test_packing_follows_seed_and_density(rng):
    molecule = cation(rng)
    a, b, c = (sponge.build.pack([(molecule, 20)], density=0.4, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(a.positions, b.positions)
    assert not np.array_equal(a.positions, c.positions)
    mass = 20 * 4 * 12.011
    assert mass * sponge.units.DENSITY / np.linalg.det(a.box) == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("molecules", "options", "message"),
    [
        ([(chloride(), 5)], {}, "density or size must be given"),
        ([(chloride(), 0)], {"size": 2.0}, "there must be a molecule"),
        ([(chloride(), -1)], {"size": 2.0}, "number of molecules"),
        ([(chloride(), 5)], {"density": -1.0}, "density"),
        ([(chloride(), 500)], {"size": 1.0}, "at least 0.15 nm apart, got 0.1"),
    ],
)
def test_boxes_that_cannot_be_packed(molecules, options, message):
    with pytest.raises(ValueError, match=message):
        sponge.build.pack(molecules, **options)


@pytest.fixture
def example(monkeypatch):
    """Examples as modules, by name."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module


@pytest.mark.parametrize("kind", ["fixed", "drude"])
def test_a_liquid_has_the_energies_and_forces_of_lammps(example, kind):
    """Term by term, in a box of 24 pairs with Ewald sums; LAMMPS has one kind of springs for bonds and oscillators."""
    reference = np.load(DATA / "clp" / "liquid.npz")
    made = example("ionic_liquid")
    system = made.liquid(24, constraints=None, cutoff=0.8, dispersion_correction=False)
    system.box = np.diag(reference["box"])
    system = made.polarizable(system) if kind == "drude" else system
    system.nonbonded.update(method="ewald", tolerance=1e-8, dispersion_correction=False)
    x = reference[f"{kind}_positions"].astype(np.float64)
    found, (bonds, angles, torsions, *pairs) = system.energy_terms(x), reference[f"{kind}_energies"]
    springs = found.pop("bond") + found.pop("drude", 0.0)
    assert (springs, found.pop("angle"), found.pop("torsion")) == pytest.approx((bonds, angles, torsions), rel=1e-11)
    assert sum(found.values()) == pytest.approx(sum(pairs), rel=3e-7)
    np.testing.assert_allclose(system.forces(x), reference[f"{kind}_forces"], rtol=0, atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("kind, ps", [("fixed", 300), ("drude", 60)])
def test_a_liquid_has_the_density_and_structure_of_lammps(example, monkeypatch, kind, ps):
    """Densities of some 100 ps vary by a percent; errors from blocks of such runs are too small."""
    monkeypatch.syspath_prepend(str(DATA / "clp"))
    made, shared = example("ionic_liquid"), example("make_density")
    system = made.compressed(shared.PAIRS, shared.TEMPERATURE)
    record = made.run(
        "Drude" if kind == "drude" else kind,
        made.polarizable(system) if kind == "drude" else system,
        ps,
        shared.TEMPERATURE,
        system.n,
    )
    edges = np.array([np.diag(box) for box in record.boxes])
    expected = json.loads((DATA / "clp" / "density.json").read_text())[kind]
    found = shared.summary(system, np.array(record.frames), edges)
    assert found.pop("density")[0] == pytest.approx(expected.pop("density")[0], rel=0.015)
    for name, (g, _) in expected.items():
        assert np.sqrt(np.mean((np.array(found[name][0]) - g) ** 2)) < 0.08, name


def test_the_network_of_the_example_knows_clusters_that_it_has_not_seen(example):
    """Charges within 0.02 e, dipole moments within 5 %; and a warning, with its distance, where there were no data."""
    made = example("ionic_liquid_charges")
    clusters, neutral, held_out = made.read()
    network = learn.load(EXAMPLES / "data" / "c1mim_chloride.safetensors")
    errors = learn.evaluate_charges(network, clusters[neutral & held_out])
    assert errors.charge_rmse < 0.02 and errors.relative < 0.05, errors
    system = sponge.System(sponge.Topology.of_particles(2), [1.0, 35.5], positions=[[0, 0, 0], [0.15, 0, 0]])
    system.add(sponge.Nonbonded(np.zeros(2), np.ones(2), np.zeros(2), method="none"))
    system.add(sponge.NetworkCharges(network, elements=["H", "Cl"]))
    with pytest.warns(sponge.errors.TrainingRangeWarning, match=r"is 0.15 nm from an atom .*, 0.0\d+ nm less than any"):
        sponge.Simulation(system, sponge.VelocityVerlet(1e-6), seed=1).run(1)


def test_forces_of_a_liquid_with_charges_of_a_network(example):
    """Against differences of energies over random displacements of all atoms, in double precision."""
    rng = np.random.default_rng(4)
    system = example("ionic_liquid").liquid(24, cutoff=0.9, switch=0.8, alpha=6.5, grid=(40, 40, 40))
    system.positions += rng.normal(scale=0.002, size=(system.n, 3))
    system.add(sponge.NetworkCharges(learn.load(EXAMPLES / "data" / "c1mim_chloride.safetensors")))
    forces, h = system.forces(), 1e-5
    for _ in range(2):
        d = rng.normal(size=(system.n, 3))
        e = [system.energy(system.positions + k * h * d) for k in (-2, -1, 1, 2)]
        slope = (e[0] - 8 * e[1] + 8 * e[2] - e[3]) / (12 * h)
        assert -np.sum(forces * d) == pytest.approx(slope, abs=1e-7 * np.linalg.norm(forces))
