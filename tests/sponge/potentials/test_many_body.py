"""Many-body potentials: against LAMMPS, slow twins and finite differences; files that must be refused; runs."""

import json
import pickle

import numpy as np
import pytest

from tests.sponge.reference import DATA
from tests.twins import many_body as twins
from triskele import core, sponge
from triskele.sponge.build import crystal
from triskele.sponge.errors import BoxError, FileFormatError
from triskele.sponge.units import GAS_CONSTANT, angstrom, eV

FILES = DATA / "many_body"
REFERENCE = json.loads((FILES / "reference.json").read_text())  # LAMMPS 2025.7.22: see make_reference.py
CLASSES = {
    "eam": sponge.EAM,
    "alloy": sponge.EAM,
    "fs": sponge.EAM,
    "sw": sponge.StillingerWeber,
    "tersoff": sponge.Tersoff,
    "edip": sponge.EDIP,
}


def system_of(potential, positions, box=None):
    n = len(positions)
    system = sponge.System(sponge.Topology.of_particles(n), np.full(n, 60.0), box=box, positions=positions)
    system.add(potential)
    return system


def read(file, elements):
    return CLASSES[file.rsplit(".", 1)[1]].read(FILES / file, elements)


@pytest.mark.parametrize("name", REFERENCE)
def test_energies_and_forces_of_lammps(name):
    case = REFERENCE[name]
    potential = read(case["file"], case["elements"])
    system = system_of(potential, angstrom * np.array(case["positions"]), angstrom * np.array(case["box"]))
    engine = sponge.Engine(system)
    engine.compute()
    forces = np.array(case["forces"]) * (eV / angstrom)
    assert sum(engine.energies().values()) == pytest.approx(case["energy"] * eV, rel=1e-10)
    assert np.max(np.abs(engine.forces - forces)) < 1e-9 * np.max(np.abs(forces))
    assert float(potential.energy(potential.params, system.positions, system.box)) == pytest.approx(
        case["energy"] * eV, rel=1e-10
    )


def cluster(n, seed, least=2.0):
    """Positions in Angstrom, none closer than `least`."""
    rng, found = np.random.default_rng(seed), []
    while len(found) < n:
        x = rng.uniform(0, 6.5, 3)
        if all(np.linalg.norm(x - y) > least for y in found):
            found.append(x)
    return np.array(found)


@pytest.mark.parametrize("file", ["alloy.eam.alloy", "alloy.eam.fs"])
@pytest.mark.parametrize("seed", [0, 1])
def test_eam_is_its_twin(file, seed):
    x, types = cluster(14, seed), np.random.default_rng(seed).integers(0, 2, 14)
    types[:2] = 0, 1
    potential = sponge.EAM.read(FILES / file, np.array(["Cu", "Ni"])[types])
    tables = {"embedding": 1 / eV, "density": 1.0, "pair": 1 / (eV * angstrom)}
    expected = twins.eam(
        types,
        **{k: potential.params[k] * unit for k, unit in tables.items()},
        drho=potential.drho,
        dr=potential.dr / angstrom,
        cutoff=potential.cutoff / angstrom,
        positions=x,
        box=None,
    )
    assert system_of(potential, x * angstrom).energy() == pytest.approx(expected * eV, rel=1e-11)


@pytest.mark.parametrize("file", ["compound.sw", "compound.tersoff", "compound.edip"])
@pytest.mark.parametrize("seed", [0, 1])
def test_environment_potentials_are_their_twins(file, seed):
    x, types = cluster(16, seed, 1.8), np.random.default_rng(seed).integers(0, 2, 16)
    types[:2] = 0, 1
    potential = read(file, np.array(["Ga", "N"] if file == "compound.sw" else ["Si", "C"])[types])
    p = {name: values / potential.units.get(name, 1.0) for name, values in potential.all_params().items()}
    twin = getattr(twins, potential.name.replace("-", "_"))
    expected = twin(types, p, potential.cutoff / angstrom, x, None)
    assert system_of(potential, x * angstrom).energy() == pytest.approx(expected * eV, rel=1e-11)


def test_pairs_without_bond_order_have_derivatives():
    """Where beta is 0, the power of zeta has no finite slope, but its factor is 0."""
    x, types = cluster(10, 0, 1.8) * angstrom, np.arange(10) % 2
    potential = read("compound.tersoff", np.array(["Si", "C"])[types])
    potential.params["beta"][0, 1, 1] = potential.params["beta"][1, 0, 0] = 0.0
    forces = -core.grad(lambda x: potential.energy(potential.params, x, None))(x)
    np.testing.assert_allclose(system_of(potential, x).forces(), forces, rtol=1e-9, atol=1e-9)


def copper(repeat=3, scatter=0.01, seed=0):
    system = crystal("Cu", "fcc", 0.3615, repeat)
    system.positions = system.positions + np.random.default_rng(seed).normal(0, scatter, (system.n, 3))
    system.add(sponge.EAM.read(FILES / "copper.eam", system.topology.elements))
    return system


def warm(system, temperature=900, timestep=0.002):
    """A simulation from Maxwell-Boltzmann velocities."""
    rng = np.random.default_rng(3)
    system.velocities = rng.normal(size=(system.n, 3)) * np.sqrt(GAS_CONSTANT * temperature / system.masses)[:, None]
    return sponge.Simulation(system, sponge.VelocityVerlet(timestep))


def test_a_run_conserves_energy_and_does_not_depend_on_threads():
    paths, before = [], core.get_threads()
    for n in (1, 2):
        core.set_threads(n)
        try:
            simulation = warm(copper(8))
            total = [simulation.energies()["total"] for _ in range(2) if simulation.run(150) is None]
        finally:
            core.set_threads(before)
        assert abs(total[1] - total[0]) < 1e-3 * simulation.kinetic_energy
        paths.append(np.array(simulation.positions))
    assert np.array_equal(*paths)


def test_rows_follow_atoms_that_move_far_and_boxes_that_change():
    system = copper(4)
    engine = sponge.Engine(system)
    engine.compute()
    rng = np.random.default_rng(1)
    for lean in (0.0, 0.1):
        x = system.positions + rng.normal(0, 0.02, (system.n, 3)) + rng.integers(-2, 3, (system.n, 3)) @ system.box
        box = system.box @ (1.02 * np.eye(3)) + np.array([[0, 0, 0], [lean, 0, 0], [0, -lean, 0]])
        fresh = sponge.Engine(system_of(sponge.EAM.read(FILES / "copper.eam", ["Cu"] * system.n), x, box))
        fresh.compute()
        engine.positions[:], engine.box[:] = x, box  # the list must notice for itself
        engine._runner.run(1)
        assert np.allclose(engine.forces, fresh.forces, rtol=0, atol=1e-9 * np.abs(fresh.forces).max())


def test_constant_pressure_vmap_and_pickle():
    system = copper()
    box = system.box.copy()
    simulation = sponge.Simulation(
        system,
        sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.002),
        seed=2,
        barostat=sponge.StochasticCellRescaling(pressure=1.0),
    )
    simulation.run(100)
    assert np.isfinite(simulation.kinetic_energy) and not np.array_equal(simulation.box, box)
    energy = system.energy_function()
    many = np.stack([system.positions, system.positions + 0.001 * np.arange(3)])
    found = core.vmap(lambda x: energy(system.params(), x, system.box))(many)
    assert np.allclose(found, system.energy(), rtol=1e-12)
    again = pickle.loads(pickle.dumps(system["eam"]))
    assert system_of(again, system.positions, system.box).energy() == system.energy()


def changed(tmp_path, file, change):
    path = tmp_path / file
    path.write_text(change((FILES / file).read_text()))
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.replace("UNITS: metal", "UNITS: real"), "units 'metal'"),
        (lambda t: t[: len(t) // 2], "ends too early|truncated"),
        (lambda t: t.replace("e+00", "e+nan", 1), "must be a number"),
        (lambda t: t + "1.0 2.0\n", "must end after its tables"),
        (lambda t: "\n".join(t.split("\n")[2:]), "must"),
        (lambda t: t.replace(" 5.0\n", " 9.0\n"), "evenly spaced"),
        (lambda t: "", "0 lines"),
    ],
)
@pytest.mark.parametrize("file", ["copper.eam", "alloy.eam.alloy", "alloy.eam.fs"])
def test_damaged_tables(tmp_path, file, change, message):
    with pytest.raises(FileFormatError, match=message):
        sponge.EAM.read(changed(tmp_path, file, change), ["Cu"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.replace("UNITS: metal", "UNITS: real"), "units 'metal'"),
        (lambda t: t[: len(t) // 2], "truncated|three elements"),
        (lambda t: t.replace(" 1", " one", 1), "must be a number|three elements"),
        (lambda t: t + t, "one entry"),
        (lambda t: "# nothing\n", "got none"),
        (lambda t: "".join(t.splitlines(True)[:4]), "must have parameters for"),
    ],
)
@pytest.mark.parametrize("file", ["compound.sw", "compound.tersoff", "compound.edip"])
def test_damaged_parameters(tmp_path, file, change, message):
    elements = ["Ga", "N"] if file == "compound.sw" else ["Si", "C"]
    with pytest.raises(ValueError, match=message):  # of which FileFormatError is one
        CLASSES[file[9:]].read(changed(tmp_path, file, change), elements)


def test_silicon_in_a_run():
    for kind in ("sw", "tersoff", "edip"):
        system = crystal("Si", "diamond", 0.5431, 2)
        path = FILES / f"compound.{kind}"
        system.add(CLASSES[kind].read(path, ["Ga" if kind == "sw" else "Si"] * system.n))
        simulation = warm(system, 600, 0.001)
        simulation.run(20)  # the first step takes away the motion of the center
        start = simulation.energies()["total"]
        simulation.run(200)
        assert abs(simulation.energies()["total"] - start) < 2e-3 * simulation.kinetic_energy


def test_wrong_elements_and_boxes():
    with pytest.raises(ValueError, match="parameters for Fe, got Cu, Ni"):
        sponge.EAM.read(FILES / "alloy.eam.fs", ["Cu", "Fe"])
    with pytest.raises(ValueError, match="symbols or atomic numbers"):
        sponge.EAM.read(FILES / "copper.eam", [29, 0])
    with pytest.raises(ValueError, match="each of 3 atoms, got 2"):
        system_of(sponge.EAM.read(FILES / "copper.eam", ["Cu", "Cu"]), np.zeros((3, 3)))
    engine = sponge.Engine(copper(3))
    with pytest.raises(BoxError, match="at least twice the cut-off"):
        engine.compute(box=0.9 * np.eye(3))
    with pytest.raises(BoxError, match="half the smallest box edge"):
        system_of(sponge.EAM.read(FILES / "copper.eam", ["Cu"]), np.zeros((1, 3)), 0.9)


def test_crystals():
    salt = crystal(("Na", "Cl"), "rocksalt", 0.564, (2, 3, 4))
    d = np.linalg.norm(sponge.box.displacement(salt.positions[0] - salt.positions[1:], salt.box), axis=1)
    assert salt.n == 8 * 24 and np.sum(np.isclose(d, 0.282)) == 6
    assert set(salt.topology.names[1:][np.isclose(d, 0.282)]) == {"Cl"}
    with pytest.raises(ValueError, match="lattice must be"):
        crystal("Cu", "hcp", 0.3)
    with pytest.raises(ValueError, match="2 element"):
        crystal("Cu", "rocksalt", 0.3)
    with pytest.raises(ValueError, match="masses must be given for W"):
        crystal("W", "bcc", 0.3165)
