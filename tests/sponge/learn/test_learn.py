"""Networks as potentials: what energies may not depend on, forces as their derivatives, simulations, files, bad
input.
"""

import numpy as np
import pytest

from tests.processor import equal_rows
from triskele import core, sponge
from triskele.sponge import learn
from triskele.sponge.errors import BoxError
from triskele.sponge.learn.neural_potential import NeuralPlan
from triskele.sponge.testing import check_potential

BOX = np.array([[1.05, 0, 0], [0.3, 1.02, 0], [-0.2, 0.4, 1.1]])
OPTIONS = {
    "BehlerParrinello": {"features": 6, "radial": 4, "angular": 2},
    "PaiNN": {"features": 8, "layers": 2, "radial": 6},
}


def network(kind="PaiNN", cutoff=0.5, dtype=np.float64, elements="HCO"):
    return getattr(learn, kind).init(core.random.key(3), list(elements), cutoff=cutoff, dtype=dtype, **OPTIONS[kind])


def molecule(n=14, box=None, seed=0):
    """Atoms on a shaken lattice."""
    rng = np.random.default_rng(seed)
    places = np.stack(np.meshgrid(*[np.arange(4)] * 3, indexing="ij"), -1).reshape(-1, 3)[rng.permutation(64)[:n]]
    positions = 0.25 * (places + 0.3 * rng.random((n, 3)))
    return system_of(rng.choice([1, 6, 8], n), positions, box)


def system_of(elements, positions, box=None):
    n = len(elements)
    topology = sponge.Topology(np.array(["X"] * n), elements, np.zeros(n), ["MOL"], ["1"], [0], ["A"])
    return sponge.System(topology, np.full(n, 12.0), box=box, positions=positions)


def rotation(seed=0):
    q = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))[0]
    return q * np.linalg.det(q)


@pytest.mark.parametrize("kind", OPTIONS)
def test_energy_knows_neither_place_nor_direction_nor_order(kind):
    """And forces turn with the molecule."""
    system, q = molecule(), rotation()
    system.add(sponge.NeuralPotential(network(kind)))
    energy, forces, x = system.energy(), system.forces(), system.positions
    assert abs(energy) > 1e-3 and np.abs(forces).max() > 1e-2
    assert system.energy(x + [1.0, -2.0, 3.0]) == pytest.approx(energy, rel=1e-9)
    assert system.energy(x @ q) == pytest.approx(energy, rel=1e-9)
    np.testing.assert_allclose(system.forces(x @ q), forces @ q, atol=1e-9 * np.abs(forces).max())
    assert system.energy(-x) == pytest.approx(energy, rel=1e-9)  # mirror images
    order = np.random.default_rng(1).permutation(system.n)
    other = system_of(system.topology.elements[order], x[order])
    other.add(sponge.NeuralPotential(network(kind)))
    assert other.energy() == pytest.approx(energy, rel=1e-9)
    np.testing.assert_allclose(other.forces(), forces[order], atol=1e-9 * np.abs(forces).max())


def test_periodic_images_are_the_same_atoms():
    system = molecule(24, BOX)
    system.add(sponge.NeuralPotential(network()))
    shifted = system.positions + np.random.default_rng(2).integers(-3, 4, (24, 3)) @ system.box
    assert system.energy(shifted) == pytest.approx(system.energy(), rel=1e-9)
    np.testing.assert_allclose(system.forces(shifted), system.forces(), atol=1e-7)


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("box", [None, BOX], ids=["vacuum", "triclinic"])
def test_forces_virial_and_second_derivatives(kind, box):
    """Compiled forces and virial against the pure energy, that against finite differences, to second order."""
    system = molecule(8, box)
    check_potential(system.add(sponge.NeuralPotential(network(kind))), system)


def test_a_subset_on_top_of_others_sees_only_itself():
    system, atoms = molecule(16), np.array([3, 9, 1, 12, 7])
    system.exclusions = np.array([[1, 3], [0, 1]])  # of no concern to networks
    system.add(sponge.harmonic_bond([[0, 1]], k=1000.0, r0=0.1))
    system.add(sponge.NeuralPotential(network(), atoms=atoms))
    alone = system_of(system.topology.elements[atoms], system.positions[atoms])
    alone.add(sponge.NeuralPotential(network()))
    assert system.energy_terms()["network"] == pytest.approx(alone.energy(), rel=1e-12)
    rest = np.setdiff1d(np.arange(16), [0, 1, *atoms])
    assert np.all(system.forces()[rest] == 0)
    system.remove("bond")
    np.testing.assert_allclose(system.forces()[atoms], alone.forces(), atol=1e-10)


def test_a_lone_atom_has_an_energy_and_no_force():
    system = system_of([6], np.zeros((1, 3)))
    system.add(sponge.NeuralPotential(network()))
    assert np.isfinite(system.energy()) and np.all(system.forces() == 0)


@equal_rows
@pytest.mark.parametrize("precision", ["mixed", "double"])
def test_free_places_change_no_bit(precision):
    system = molecule(12)
    potential = system.add(sponge.NeuralPotential(network(dtype=np.float32)))
    found = []
    for places in (11, 12, 17, 32):
        engine = sponge.Engine(system, precision)
        engine.plans["network"] = NeuralPlan(potential, engine, places)
        engine.version += 1
        engine.compute()
        found.append((engine.energies()["network"], *engine.forces.ravel(), *engine.virial().ravel()))
    assert all(f == found[0] for f in found)


def test_float32_is_near_float64():
    system = molecule(20, BOX)
    system.add(sponge.NeuralPotential(network(dtype=np.float32)))
    mixed, double = (system.forces(precision=p) for p in ("mixed", "double"))
    assert np.abs(mixed - double).max() < 2e-5 * np.abs(double).max()


def test_rows_grow_while_a_simulation_runs():
    """Atoms fly together: no row is long enough at first, and energy is conserved through all that follows."""
    ring = np.array([[np.cos(a), np.sin(a), 0.3 * np.sin(3 * a)] for a in np.linspace(0, 2 * np.pi, 13)[:-1]])
    system = system_of([6] * 12, 1.2 * ring)
    system.velocities = -4.0 * ring
    system.add(sponge.NeuralPotential(network(cutoff=0.7)))
    sim = sponge.Simulation(system, sponge.VelocityVerlet(timestep=0.001), precision="double")
    plan = sim._engine.plans["network"]
    before, start = plan.edges.neighbors.shape[1], sim.energies()["total"]
    sim.run(260)
    grown = sim._engine.plans["network"]
    assert grown.edges.neighbors.shape[1] > before and grown.edges.most[0] > before
    assert sim.energies()["total"] == pytest.approx(start, rel=1e-4)


def test_tempering_sees_the_energy_of_the_network():
    """SITS of everything: the network is part of what is tempered, also after its rows have grown."""
    ring = np.array([[np.cos(a), np.sin(a), 0.3 * np.sin(3 * a)] for a in np.linspace(0, 2 * np.pi, 13)[:-1]])
    system = system_of([6] * 12, 1.2 * ring)
    system.velocities = -4.0 * ring
    system.add(sponge.NeuralPotential(network(cutoff=0.7)))
    sits = sponge.SITS(temperatures=[280, 300, 330])
    sim = sponge.Simulation(system, sponge.LangevinMiddle(300, 0.01, 0.001), sampling=[sits], precision="double")
    before = sim._engine.plans["network"].edges.neighbors.shape[1]
    for _ in range(13):
        sim.run(20)
        expected = system.energy(sim.positions)
        assert sim.energies()["network"] == pytest.approx(expected, rel=1e-9)
        assert sim._engine.split.energies[0] == pytest.approx(expected, rel=0.05)  # half a step ago
    assert sim._engine.plans["network"].edges.neighbors.shape[1] > before


def test_a_run_that_is_resumed_is_the_same_bit_for_bit(tmp_path):
    def simulation():
        system = molecule(20, BOX)
        system.add(sponge.NeuralPotential(network(dtype=np.float32)))
        return sponge.Simulation(system, sponge.LangevinMiddle(300, 1.0, 0.001), seed=4)

    one, two = simulation(), simulation()
    one.run(30)
    one.save(tmp_path / "run.chk")
    one.run(30)
    two.load(tmp_path / "run.chk")
    two.run(30)
    assert np.array_equal(one.positions, two.positions)


@pytest.mark.parametrize("kind", OPTIONS)
def test_one_file_holds_all(kind, tmp_path):
    net = network(kind, dtype=np.float32)
    data = learn.Dataset([[1, 6]] * 2, np.array([[[0, 0, 0], [0.1, 0, 0]]] * 2), [-50.0, -52.0], np.ones((2, 2, 3)))
    net = learn.fitted(net, data)
    learn.save(tmp_path / "net.safetensors", net)
    back = learn.load(tmp_path / "net.safetensors")
    assert (back.elements, back.cutoff, back.reference, back.scale) == (
        net.elements,
        net.cutoff,
        net.reference,
        net.scale,
    )
    system, again = molecule(), molecule()
    system.add(sponge.NeuralPotential(net))
    again.add(sponge.NeuralPotential(back))
    assert system.energy() == again.energy()


def test_bad_input_is_named(tmp_path):
    argon = system_of([6, 18], [[0, 0, 0], [0.3, 0, 0]])
    with pytest.raises(ValueError, match=r"knows H, C, O, got atom 1 \(MOL 1 X\), which is Ar"):
        argon.add(sponge.NeuralPotential(network()))
    with pytest.raises(ValueError, match="atoms must be 0 to 1, got 0 to 2"):
        argon.add(sponge.NeuralPotential(network(), atoms=[0, 2]))
    with pytest.raises(BoxError, match="twice the cut-off of 0.8 nm"):
        molecule(8, BOX).add(sponge.NeuralPotential(network(cutoff=0.8)))
    fitting = (system := molecule(8, BOX)).add(sponge.NeuralPotential(network()))
    with pytest.raises(BoxError, match="cut-off must be at most half the smallest box edge 0.4 nm"):
        fitting.energy(fitting.params, system.positions, 0.4 * np.eye(3))
    with pytest.raises(TypeError, match="a network is wanted"):
        sponge.NeuralPotential("net.safetensors")
    with pytest.raises(ValueError, match="params must be named and shaped"):
        sponge.NeuralPotential(network(), {"embedding": np.zeros(3)})
    with pytest.raises(ValueError, match="got 'Xx' for atom 1"):
        network(elements=["H", "Xx"])
    core.save(tmp_path / "other.safetensors", {"a": np.zeros(2)})
    with pytest.raises(ValueError, match="must hold a network"):
        learn.load(tmp_path / "other.safetensors")


def test_edges_of_a_box_follow_a_barostat():
    """The pressure that a barostat sees is the exact one: energy by volume, from finite differences."""
    system = molecule(30, BOX)
    system.add(sponge.NeuralPotential(network()))
    h, x, box = 1e-5, system.positions, system.box
    slope = (system.energy(x * (1 + h), box * (1 + h)) - system.energy(x * (1 - h), box * (1 - h))) / (2 * h)
    assert np.trace(system.virial()) == pytest.approx(-slope, rel=1e-6)


def test_calculators_of_others_go_on_top():
    """EMT of ASE on a few atoms, next to a network on the others."""
    emt = pytest.importorskip("ase.calculators.emt").EMT()
    from ase import Atoms

    copper = np.array([[0, 0, 0], [0.25, 0, 0], [0.125, 0.22, 0]])
    system = system_of([29] * 3 + [6, 8], np.concatenate([copper, [[2, 0, 0], [2.12, 0, 0]]]))
    system.add(sponge.ASEPotential(emt, Atoms("Cu3", 10 * copper), indices=[0, 1, 2]))
    system.add(sponge.NeuralPotential(network(), atoms=[3, 4]))
    sim = sponge.Simulation(system, sponge.VelocityVerlet(timestep=0.0001), precision="double")
    start = sim.energies()["total"]
    sim.run(200)
    # copper far from its place: 0.04 with steps of 0.5 fs, as their square
    assert sim.energies()["total"] == pytest.approx(start, abs=0.005)
