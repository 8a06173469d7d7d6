"""Charges that a network gives, inside the nonbonded energy."""

import dataclasses

import numpy as np
import pytest

from triskele import core, sponge
from triskele.sponge import learn
from triskele.sponge.errors import BoxError
from triskele.sponge.learn.dataset import Batches
from triskele.sponge.learn.training_range import outside, with_range
from triskele.sponge.testing import check_potential

LEANING = np.array([[1.6, 0, 0], [0.3, 1.5, 0], [-0.2, 0.4, 1.7]])


def network(total=0.0, **options):
    made = learn.ChargeNetwork.init(
        core.random.key(1),
        ["H", "C", "N", "O"],
        total,
        cutoff=0.4,
        **{"features": 8, "layers": 1, "dtype": np.float64, **options},
    )
    return dataclasses.replace(made, network=dataclasses.replace(made.network, scale=0.3))


def fluid(method="pme", seed=0, **options):
    """64 atoms about a lattice, with exclusions and two 1-4 pairs."""
    rng = np.random.default_rng(seed)
    lattice = np.stack(np.meshgrid(*[np.arange(4)] * 3), axis=-1).reshape(-1, 3) / 4
    box = None if method == "none" else LEANING
    system = sponge.System(
        sponge.Topology.of_particles(64),
        np.full(64, 12.0),
        box=box,
        positions=lattice @ LEANING + rng.normal(scale=0.02, size=(64, 3)),
        exclusions=[[0, 1], [1, 2], [0, 2], [5, 7], [20, 21]],
    )
    lj = (None, None) if "mixing" in options else (rng.uniform(0.2, 0.3, 64), rng.uniform(0.1, 1, 64))
    system.add(
        sponge.Nonbonded(
            rng.normal(size=64), *lj, method=method, cutoff=0.7, switch=0.6, tolerance=1e-6, dielectric=1e9, **options
        )
    )
    system.add(sponge.pair14([[5, 7], [20, 21]], charge_product=0.1, sigma=0.2, epsilon=0.1))
    return system, rng.choice(["H", "C", "N", "O"], 64)


SYMMETRY = {"architecture": learn.BehlerParrinello, "angular": 1, "radial": 4}


@pytest.mark.parametrize(
    ("method", "some", "options"),
    [
        pytest.param("pme", True, {}, marks=pytest.mark.slow),
        ("reaction_field", False, SYMMETRY),
        ("none", True, {}),
        ("pme", True, {**SYMMETRY, "angular": 0, "radial": 12}),
        ("cutoff", False, {**SYMMETRY, "angular": 0}),
    ],
)
def test_energy_forces_and_derivatives_agree(method, some, options):
    system, elements = fluid(method)
    atoms = np.arange(60)[::-1] if some else None
    potential = system.add(
        sponge.NetworkCharges(
            network(0.5, **options), atoms=atoms, elements=elements[: 60 if some else 64], scale14=0.5
        )
    )
    check_potential(potential, system, order=2 if method == "none" else 1)
    charges = potential.charges(system.positions, system.box)
    assert charges.sum() == pytest.approx(0.5 + potential.params["charges"][60:].sum() * some)
    if some:
        np.testing.assert_array_equal(charges[60:], potential.params["charges"][60:])


def test_forces_with_a_table_of_lennard_jones_parameters():
    table = sponge.LJTable(np.arange(64) % 2, a=[[1e-6, 2e-6], [2e-6, 3e-6]], b=[[1e-3, 2e-3], [2e-3, 1e-3]])
    system, elements = fluid("cutoff", mixing=table)
    options = {**SYMMETRY, "angular": 0}
    check_potential(
        system.add(sponge.NetworkCharges(network(0.5, **options), elements=elements, scale14=0.5)), system, order=1
    )


def test_a_network_of_constant_charges_is_the_fixed_force_field():
    """In water and vacuum: a network that gives each element a charge, and a system with these charges."""
    for files, method in (("alanine-dipeptide-water", "pme"), ("alanine-dipeptide", "none")):
        system, fixed = (sponge.load(*sponge.example_files(files), method=method) for _ in range(2))
        z = system.topology.elements
        by_element = dict(zip([1, 6, 7, 8], [0.11, 0.23, -0.37, -0.19], strict=True))
        charges = np.array([by_element[int(e)] for e in z])
        plain = fixed.nonbonded
        pairs = fixed["pair14"]
        before = plain.params["charges"][pairs.atoms]
        pairs.params["charge_product"] *= charges[pairs.atoms].prod(1) / before.prod(1)
        plain.params["charges"] = charges
        made = network(charges.sum())
        constant = dataclasses.replace(made.network, scale=0.0, reference=tuple(by_element.values()))
        system.add(sponge.NetworkCharges(dataclasses.replace(made, network=constant)))
        found, expected = system.energy(), fixed.energy()
        assert found == pytest.approx(expected, rel=1e-12)
        np.testing.assert_allclose(system.forces(), fixed.forces(), rtol=0, atol=1e-7)
        np.testing.assert_allclose(system.virial(), fixed.virial(), rtol=1e-9, atol=1e-6)


def peptide():
    system = sponge.load(*sponge.example_files("alanine-dipeptide"), method="cutoff", cutoff=1.5)
    system.add(sponge.NetworkCharges(network()))
    return system


def test_energy_is_conserved():
    sim = sponge.Simulation(peptide(), sponge.VelocityVerlet(0.0002), seed=1, precision="double")
    sim.minimize()
    sim.thermalize(300)
    energies = []
    sim.run(1000, report=sponge.Callback(50, lambda sim: energies.append(sim.energies()["total"])))
    assert np.ptp(energies) < 0.2 < np.ptp(sim.system["nonbonded"].charges(sim.positions))


@pytest.mark.slow
def test_a_run_resumes_bit_for_bit(tmp_path):
    def simulation():
        system, elements = fluid()
        system.add(sponge.NetworkCharges(network(), elements=elements, scale14=0.5))
        return sponge.Simulation(system, sponge.LangevinMiddle(300, 5.0, 0.0005), seed=2)

    whole, first, second = simulation(), simulation(), simulation()
    whole.run(120, report=[sponge.Checkpoint(tmp_path / "whole.chk", every=60)])
    first.run(60, report=[sponge.Checkpoint(tmp_path / "run.chk", every=60)])
    second.load(tmp_path / "run.chk")
    second.run(60)
    np.testing.assert_array_equal(second.positions, whole.positions)


def test_what_is_refused():
    system, elements = fluid()
    with pytest.raises(TypeError, match="network must be a ChargeNetwork, got PaiNN"):
        sponge.NetworkCharges(network().network)
    for function in (learn.train_charges, learn.evaluate_charges):
        with pytest.raises(TypeError, match="network must be a ChargeNetwork, got PaiNN"):
            function(network().network, waters(4), 2)
    with pytest.raises(ValueError, match="1-4 pairs must have both atoms in `atoms` or none"):
        system.add(sponge.NetworkCharges(network(), atoms=np.arange(6), elements=elements[:6]))
    with pytest.raises(ValueError, match="the network knows H, C, N, O, got .*, which is F"):
        system.add(sponge.NetworkCharges(network(), elements=["F", *elements[1:]]))
    assert isinstance(system["nonbonded"], sponge.Nonbonded), "a refusal leaves the system as it was"
    np.testing.assert_array_equal(system["pair14"].params["charge_product"], 0.1)
    system["nonbonded"].params["charges"][5] = 0.0
    with pytest.raises(ValueError, match="factor of 1-4 pairs must be given, as that of atoms 5 and 7"):
        system.add(sponge.NetworkCharges(network(), elements=elements))
    with pytest.raises(ValueError, match="must be added to a system with a Nonbonded"):
        sponge.NetworkCharges(network()).energy({}, system.positions, None)
    solvated = sponge.load(*sponge.example_files("alanine-dipeptide"), implicit_solvent="obc2")
    with pytest.raises(ValueError, match="has charges of its own, which would stay as they are"):
        solvated.add(sponge.NetworkCharges(network()))
    molecule = peptide()
    with pytest.raises(ValueError, match="belong to another system already"):
        solvated.add(molecule["nonbonded"])
    screened, elements = fluid()
    screened.add(sponge.thole_screening([[1, 2]], charge_product=1.0, damping=5.0))
    with pytest.raises(ValueError, match="'thole' has charges of its own, which would stay as they are"):
        screened.add(sponge.NetworkCharges(network(), elements=elements, scale14=0.5))
    later, elements = fluid()
    charges = later.add(sponge.NetworkCharges(network(), elements=elements, scale14=0.5))
    with pytest.raises(BoxError, match="a box must be given, as the system has one"):
        charges.charges(later.positions)
    charges.nonbonded.update(cutoff=0.3, switch=None)
    for function in (charges.charges, lambda x, box: charges.energy(charges.params, x, box)):
        with pytest.raises(BoxError, match="network: the cut-off must be at most half the smallest box edge 0.7 nm"):
            function(later.positions, 0.7 * np.eye(3))
    with pytest.raises(ValueError, match="positions must be finite, got .*nan"):
        charges.charges(np.nan * later.positions, later.box)
    later.add(sponge.pair14([[8, 9]], charge_product=0.1, sigma=0.2, epsilon=0.1))
    with pytest.raises(ValueError, match="'pair14 2' has charges of its own"):
        later.energy()
    with pytest.raises(ValueError, match="atoms: indices must be integers"):
        sponge.NetworkCharges(network(), atoms=[0.5, 1.5])
    sits = sponge.SITS(temperatures=np.linspace(290, 500, 8))
    with pytest.raises(ValueError, match="cannot be split by a sampling method"):
        sponge.Simulation(molecule, sponge.LangevinMiddle(300, 1.0, 0.001), sampling=[sits])
    with pytest.raises(ValueError, match="NetworkCharges 'nonbonded' has no counterpart in OpenMM"):
        molecule.to_openmm()
    with pytest.raises((ValueError, AttributeError), match="Nonbonded"):
        sponge.alchemy.decouple(molecule, np.arange(molecule.n))


def waters(frames, seed=0, charges=True, dipoles=True, offset=0.0):
    """Distorted water molecules whose charges follow from their shape: q_H = 0.4 + 2 (r - 0.0957) + 0.1 cos(angle)."""
    rng = np.random.default_rng(seed)
    angle = np.radians(104.5) / 2
    first = 0.0957 * np.array([[0, 0, 0], [np.sin(angle), np.cos(angle), 0], [-np.sin(angle), np.cos(angle), 0]])
    x = first + rng.normal(scale=0.006, size=(frames, 3, 3))
    legs = x[:, 1:] - x[:, :1]
    r = np.linalg.norm(legs, axis=2)
    hydrogens = 0.4 + 2 * (r - 0.0957) + 0.1 * (np.sum(legs[:, 0] * legs[:, 1], axis=1) / r.prod(1))[:, None]
    q = np.concatenate([-hydrogens.sum(1, keepdims=True), hydrogens], axis=1)
    x = x + offset
    moments = np.einsum("fa,fac->fc", q, x)
    return learn.Dataset(
        [["O", "H", "H"]] * frames, x, charges=q if charges else None, dipoles=moments if dipoles else None
    )


@pytest.mark.parametrize(("charges", "dipoles"), [(True, True), (False, True)])
def test_charges_are_learned_from_charges_and_from_dipole_moments(charges, dipoles, tmp_path):
    """Held-out molecules: charges within 0.02 e, dipole moments within 5 %, wherever the origin is."""
    made = learn.ChargeNetwork.init(core.random.key(2), ["O", "H"], cutoff=0.3, features=12, layers=2, radial=8)
    found = learn.train_charges(made, waters(160, charges=charges, dipoles=dipoles), 60, batch=16, rate=1e-2)
    errors = learn.evaluate_charges(found.network, waters(40, seed=1, offset=3.0))
    assert errors.charge_rmse < 0.02 and errors.relative < 0.05, errors
    assert all(abs(q.sum()) < 1e-6 for q in errors.charges)
    learn.save(tmp_path / "charges.safetensors", found.network)
    again = learn.evaluate_charges(learn.load(tmp_path / "charges.safetensors"), waters(40, seed=1, offset=3.0))
    np.testing.assert_array_equal(again.dipoles, errors.dipoles)


def test_dipole_moments_of_ions_follow_the_origin():
    rng, made = np.random.default_rng(3), network(total=1.0)
    x = rng.normal(scale=0.1, size=(5, 3)) + np.array([2.0, -1.0, 0.5])
    elements = ["C", "N", "H", "H", "O"]
    data = learn.Dataset([elements], [x], dipoles=np.zeros((1, 3)))
    errors = learn.evaluate_charges(made, data)
    np.testing.assert_allclose(errors.dipoles[0], errors.charges[0] @ x, atol=1e-12)
    assert errors.charges[0].sum() == pytest.approx(1.0)
    system = sponge.System(sponge.Topology.of_particles(5), np.ones(5), positions=x)
    system.add(sponge.Nonbonded(np.zeros(5), np.ones(5), np.zeros(5), method="none"))
    added = system.add(sponge.NetworkCharges(made, elements=elements))
    np.testing.assert_allclose(added.charges(x), errors.charges[0], atol=1e-12)


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ({"energies": [0.0]}, {}, "must have charges or dipoles, got neither"),
        ({"charges": [[0.5, 0.1]]}, {}, "frame 0: charges must add up to the network's total of 0 e, got 0.6 e"),
        ({"dipoles": [[0.0, 0, 1]], "boxes": [np.eye(3)]}, {}, "frame 0: a periodic frame has no dipole moment"),
        ({"charges": [[0.1, -0.1]]}, {"charge_weight": 0.0}, "weights must be >= 0, and one positive of"),
        ({"charges": [[0.1, np.nan]]}, {}, r"frame 0: charges must be finite, got nan for atom 1 \(H\)"),
        ({"charges": [[0.1, -0.1, 0.0]]}, {}, r"frame 0: charges must have shape \(2,\), got \(3,\)"),
    ],
)
def test_data_that_charges_cannot_be_learned_from(data, options, message):
    made = learn.ChargeNetwork.init(core.random.key(0), ["C", "H"], features=4, layers=1)
    with pytest.raises(ValueError, match=message):
        frames = learn.Dataset([["C", "H"]], [[[0, 0, 0], [0.1, 0, 0]]], **data)
        learn.train_charges(made, frames, 1, validation=frames, **options)


@pytest.mark.parametrize("missing", ["charges", "dipoles"])
def test_validation_data_know_what_the_others_do(missing):
    with pytest.raises(ValueError, match=f"the validation data must have {missing}, as the training data have"):
        learn.train_charges(network(), waters(4), 1, validation=waters(2, seed=1, **{missing: False}))


@pytest.mark.slow
def test_a_run_warns_once_outside_the_range_of_the_training_data(tmp_path):
    """Distances and numbers of neighbors against those of the data, and the range through a file and more training."""
    data = waters(20)
    made = learn.ChargeNetwork.init(core.random.key(2), ["O", "H"], cutoff=0.3, features=4, layers=1, radial=4)
    found = learn.train_charges(made, data, 1, validation=data).network
    learn.save(tmp_path / "charges.safetensors", found)
    found = learn.load(tmp_path / "charges.safetensors")
    legs = np.linalg.norm(np.array(data.positions)[:, 1:] - np.array(data.positions)[:, :1], axis=2)
    oxygen = np.array(found.network.seen).reshape(2, 2, 3)[1]
    assert oxygen[0, 0] == pytest.approx(legs.min(), rel=1e-6) and tuple(oxygen[1]) == (0.3, 0.0, 0.0)
    assert 1 < oxygen[0, 1] < oxygen[0, 2] < 2

    def simulation(positions):
        n = len(positions)
        system = sponge.System(sponge.Topology.of_particles(n), [16.0, *[1.0] * (n - 1)], positions=positions)
        system.add(sponge.Nonbonded(np.zeros(n), np.ones(n), np.zeros(n), method="none"))
        system.add(sponge.NetworkCharges(found, elements=["O", *["H"] * (n - 1)]))
        return sponge.Simulation(system, sponge.VelocityVerlet(1e-6), seed=1, velocities=np.zeros((n, 3)))

    first = np.array(data.positions[0])
    simulation(first).run(2)  # as the data: warnings are errors here
    close = first + np.array([[0.0, 0, 0], 0.4 * (first[0] - first[1]), [0.0, 0, 0]])
    run, apart = simulation(close), np.linalg.norm(close[1] - close[0])
    with pytest.warns(
        sponge.errors.TrainingRangeWarning,
        match=rf"step 1: 'nonbonded' is used outside .*: .* is "
        rf"{apart:.3g} nm from an atom [OH], {legs.min() - apart:.2g} nm less than any",
    ):
        run.run(2)
    run.run(400)
    third = first[0] + 0.6 * ((first[0] - first[1]) + (first[0] - first[2]))  # no closer than the other two
    with pytest.warns(sponge.errors.TrainingRangeWarning, match=r"has [\d.]+ neighbors H, counted with the envelope"):
        simulation(np.concatenate([first, third[None]])).run(1)
    more = learn.train_charges(
        found, learn.Dataset([["O", "H", "H"]], [close], charges=[[-0.8, 0.4, 0.4]]), 1, validation=data
    ).network
    assert np.array(more.network.seen)[2, 0] < oxygen[0, 0], "further training widens the range"


def test_the_range_of_elements_without_data(tmp_path):
    """Any of their atoms is outside, through a file too; data that come later count from scratch."""
    made = learn.ChargeNetwork.init(core.random.key(2), ["O", "H", "C"], cutoff=0.3, features=4, layers=1, radial=4)

    def after(network, data):
        return dataclasses.replace(network, network=with_range(network.network, Batches(data, network.network, 4)))

    learn.save(tmp_path / "charges.safetensors", after(made, waters(4)))
    found = learn.load(tmp_path / "charges.safetensors")
    elements = found.network.elements
    hydrogen, carbon = (np.array([elements.index(z)], np.int32) for z in (1, 6))
    assert outside(found.network, carbon, None, np.zeros((1, 3)), None) == (
        0,
        "is of an element that the training data do not have",
    )
    assert "neighbors O" in outside(found.network, hydrogen, None, np.zeros((1, 3)), None)[1]
    legs = 0.06 * np.array([[0, 0, 0], [1, 1, 1], [-1, -1, 1], [-1, 1, -1], [1, -1, -1]])
    methane = learn.Dataset([["C", "H", "H", "H", "H"]], [legs], charges=[[-0.4, 0.1, 0.1, 0.1, 0.1]])
    _, fewest, most = np.array(after(found, methane).network.seen).reshape(3, 3, 3)[carbon[0], hydrogen[0]]
    assert 0 < fewest == most
