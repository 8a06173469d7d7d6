"""Induced dipoles: by hand, against sums written out, Drude oscillators and OpenMM; derivatives, runs and faults."""

import numpy as np
import pytest

from tests.twins import induced_dipoles as twin
from triskele import core, sponge
from triskele.core.extend import threads
from triskele.sponge import build
from triskele.sponge.errors import BoxError, BrokenSimulationError
from triskele.sponge.units import COULOMB

BOX = np.array([[1.5, 0, 0], [0.3, 1.4, 0], [-0.2, 0.4, 1.6]])
EXCLUSIONS = [[0, 1], [1, 2], [0, 2], [5, 8]]


def cluster(x, charges, polarizabilities, thole=None, **options):
    system = sponge.System(
        sponge.Topology.of_particles(len(x)), np.ones(len(x)), positions=x, exclusions=options.pop("exclusions", ())
    )
    return system, system.add(sponge.InducedDipoles(charges, polarizabilities, thole, method="none", **options))


def melt(seed=0, net=0.0, exclusions=EXCLUSIONS, grid=None, box=BOX, **options):
    """27 atoms about a lattice, some without polarizability; damping reaches far and differs from atom to atom."""
    rng = np.random.default_rng(seed)
    cell = np.stack(np.meshgrid(*[np.arange(3)] * 3), axis=-1).reshape(-1, 3)
    charges = rng.normal(scale=0.6, size=27)
    polarizabilities = np.where(np.arange(27) % 5 == 0, 0.0, rng.uniform(5e-4, 3e-3, 27))
    system = sponge.System(
        sponge.Topology.of_particles(27),
        np.full(27, 20.0),
        box=box,
        exclusions=exclusions,
        positions=cell / 3 @ BOX + rng.normal(scale=0.03, size=(27, 3)),
    )
    defaults = {
        "thole": rng.uniform(0.06, 0.12, 27),
        "cutoff": 0.65,
        "tolerance": 1e-4,
        "convergence": 1e-12,
        "method": "none" if box is None else "pme",
    }
    added = system.add(
        sponge.InducedDipoles(charges + (net - charges.sum()) / 27, polarizabilities, **{**defaults, **options})
    )
    added.grid = grid
    return system, added


def computed(system, added, **options):
    engine = sponge.Engine(system, "double", **options)
    engine.compute(system.positions, system.box)
    return sum(engine.energies().values()), engine.forces.copy(), engine.plans[added.name].dipoles.copy(), engine


# -------------------------------------------------------------------------------------------------------------- by hand
def test_an_atom_in_the_field_of_a_charge():
    """mu = alpha q / r^2 and E = -k alpha q^2 / (2 r^4), damped or not, as the charge has no polarizability."""
    for thole in (None, 0.39):
        system, added = cluster([[0, 0, 0], [0.3, 0, 0]], [2.0, 0.0], [0.0, 0.001], thole)
        energy, forces, dipoles, _ = computed(system, added)
        np.testing.assert_allclose(dipoles, [[0, 0, 0], [0.001 * 2 / 0.3**2, 0, 0]], rtol=1e-13, atol=1e-18)
        assert energy == pytest.approx(-COULOMB * 0.001 * 4 / (2 * 0.3**4), rel=1e-13)
        assert forces[1, 0] == pytest.approx(-2 * COULOMB * 0.001 * 4 / 0.3**5, rel=1e-12)


def test_the_polarizability_of_two_atoms_is_that_of_applequist():
    """Along their line and across, in the field of two charges that are far away."""
    a, b, r, far = 0.001, 0.0015, 0.25, 2000.0
    for direction, expected in (
        ([1, 0, 0], (a + b + 4 * a * b / r**3) / (1 - 4 * a * b / r**6)),
        ([0, 1, 0], (a + b - 2 * a * b / r**3) / (1 - a * b / r**6)),
    ):
        away = far * np.array(direction, float)
        system, added = cluster(
            [[0, 0, 0], [r, 0, 0], -away, away],
            [0.0, 0.0, 1e6, -1e6],
            [a, b, 0.0, 0.0],
            exclusions=[[2, 3]],
            convergence=1e-13,
        )
        moment = added.dipoles(system.positions).sum(0) @ direction
        assert moment / (2e6 / far**2) == pytest.approx(expected, rel=2e-7)


# --------------------------------------------------------------------------------------------------- other calculations
@pytest.mark.parametrize("thole", ["atoms", None])
def test_clusters_are_those_of_one_matrix_written_out(thole):
    system, added = melt(box=None, **({} if thole else {"thole": None}))
    p = added.params
    matrix = twin.matrix_of(system.positions, p["polarizabilities"], p.get("thole"), EXCLUSIONS)
    energy, dipoles = twin.solve(p["charges"], p["polarizabilities"], matrix)
    found, _, mu, _ = computed(system, added)
    assert found == pytest.approx(energy, rel=1e-12)
    np.testing.assert_allclose(mu, dipoles, atol=1e-12)
    np.testing.assert_array_equal(added.dipoles(system.positions), mu)
    assert float(added.energy(p, system.positions, None)) == pytest.approx(energy, rel=1e-12)


def test_boxes_are_those_of_sums_over_images_and_waves():
    """With a net charge; excluded pairs beyond the cut-off, across the boundary, and of charges at one place."""
    x = np.random.default_rng(3).uniform(size=(9, 3)) @ BOX
    x[8] = x[7]
    charges = np.linspace(-0.7, 1.0, 9)
    polarizabilities = np.array([1, 0, 2, 1.5, 1, 2, 0.5, 0, 0]) * 1e-3
    distance = np.linalg.norm(sponge.box.displacement(x[:, None] - x, BOX), axis=-1)
    exclusions = [[7, 8], [0, 1], [2, 3], [5, 6], *np.argwhere(np.triu((distance > 0.6) & (distance < 0.7)))[:3]]
    assert len(exclusions) > 4
    system = sponge.System(sponge.Topology.of_particles(9), np.ones(9), box=BOX, exclusions=exclusions, positions=x)
    added = system.add(
        sponge.InducedDipoles(charges, polarizabilities, 0.39, cutoff=0.6, tolerance=1e-7, convergence=1e-12)
    )
    added.grid = (120, 120, 120)
    there = x + np.where(np.arange(9)[:, None] == 8, 1e-7, 0.0)  # one over the distance is taken off again
    matrix = twin.matrix_of(there, polarizabilities, np.full(9, 0.39), exclusions, BOX, 4.0, 2, 13)
    energy, dipoles = twin.solve(charges, polarizabilities, matrix)
    found, _, mu, _ = computed(system, added)
    assert found == pytest.approx(energy, rel=2e-7)  # the mesh's error, which falls with the fifth power of its spacing
    np.testing.assert_allclose(mu, dipoles, atol=2e-6 * np.abs(dipoles).max())


def test_without_polarizabilities_it_is_the_coulomb_energy():
    for box, method in ((BOX, "pme"), (None, "none")):
        system, added = melt(box=box, grid=None if box is None else (24, 24, 24))
        added.params["polarizabilities"][:] = 0.0
        plain = sponge.System(
            system.topology, system.masses, box=box, positions=system.positions, exclusions=EXCLUSIONS
        )
        plain.add(
            sponge.Nonbonded(
                added.params["charges"],
                np.ones(27),
                np.zeros(27),
                method=method,
                cutoff=0.65,
                alpha=added.alpha or None,
                grid=added.grid,
            )
        )
        energy, forces, dipoles, _ = computed(system, added)
        engine = sponge.Engine(plain, "double")
        engine.compute()
        assert energy == pytest.approx(sum(engine.energies().values()), rel=1e-13)
        np.testing.assert_allclose(forces, engine.forces, atol=1e-13 * np.abs(forces).max())
        np.testing.assert_array_equal(dipoles, 0.0)


def test_stiff_drude_oscillators_have_the_same_dipoles():
    """Undamped, with Drude particles of so large a charge that they hardly move."""
    rng, n = np.random.default_rng(5), 6
    x = 0.3 * np.stack(np.meshgrid(*[np.arange(2), np.arange(3), [0.0]]), -1).reshape(-1, 3)
    x += rng.normal(scale=0.03, size=x.shape)
    charges, alpha = rng.normal(scale=0.5, size=n), rng.uniform(5e-4, 1.5e-3, n)
    system, added = cluster(x, charges, alpha)
    pairs = np.stack([np.arange(n, 2 * n), np.arange(n)], 1)
    drude = sponge.System(
        sponge.Topology.of_particles(2 * n), np.ones(2 * n), positions=np.concatenate([x, x]), exclusions=pairs
    )
    drude.add(sponge.Nonbonded(np.zeros(2 * n), np.ones(2 * n), np.zeros(2 * n), method="none"))
    drude.add(sponge.drude_spring(pairs, charge=1.0, polarizability=alpha))
    near = []
    for big in (100.0, 1000.0):
        drude.nonbonded.params["charges"][:] = np.concatenate([charges - big, np.full(n, big)])
        drude["drude"].params["charge"][:] = big
        near.append(float(sponge.differentiate.self_consistent(drude)({}, drude.positions)))
    energy = system.energy()
    assert near[1] == pytest.approx(energy, rel=1e-5)
    assert near[1] + (near[1] - near[0]) / 9 == pytest.approx(energy, rel=2e-8)  # errors go as 1 / charge


# --------------------------------------------------------------------------------------------------------------- OpenMM
def openmm_values(system, added):
    """Energy, forces and dipoles of AmoebaMultipoleForce without fixed dipoles and quadrupoles."""
    mm = pytest.importorskip("openmm")
    omm = system.to_openmm()
    context = mm.Context(omm, mm.VerletIntegrator(0.001), mm.Platform.getPlatformByName("Reference"))
    context.setPositions(system.positions)
    state = context.getState(energy=True, forces=True)
    dipoles = np.array([list(d) for d in omm.getForce(0).getInducedDipoles(context)])
    return state.getPotentialEnergy()._value, np.array(state.getForces(asNumpy=True)._value), dipoles


def test_clusters_are_those_of_openmm():
    for options in ({"exclusions": ()}, {}, {"thole": None}):
        system, added = melt(box=None, **options)
        energy, forces, dipoles, _ = computed(system, added)
        expected, expected_forces, expected_dipoles = openmm_values(system, added)
        assert energy == pytest.approx(expected, rel=1e-11)
        np.testing.assert_allclose(forces, expected_forces, atol=1e-11 * np.abs(forces).max())
        np.testing.assert_allclose(dipoles, expected_dipoles, atol=1e-11 * np.abs(dipoles).max())


@pytest.mark.parametrize("net", [0.0, 1.0])
def test_boxes_are_those_of_openmm(net):
    """On a fine mesh, as its influence function differs from ours by as much as either is wrong."""
    system, added = melt(net=net, tolerance=1e-5, grid=(64, 64, 64))
    energy, forces, dipoles, _ = computed(system, added)
    expected, expected_forces, expected_dipoles = openmm_values(system, added)
    assert energy == pytest.approx(expected, rel=5e-7)
    np.testing.assert_allclose(forces, expected_forces, atol=5e-8 * np.abs(forces).max())
    np.testing.assert_allclose(dipoles, expected_dipoles, atol=2e-7 * np.abs(dipoles).max())


# ---------------------------------------------------------------------------------------------------------- derivatives
@pytest.mark.parametrize("box", [BOX, None])
def test_forces_and_derivatives_by_parameters_are_those_of_differences(box):
    """By a polarizability of 0, too."""
    system, added = melt(box=box)
    _, forces, _, engine = computed(system, added)
    slopes, step = added.param_gradients(engine), 1e-5

    def difference(array, index, step):
        energies, value = [], array[index]
        for side in (1, -1):
            array[index] = value + side * step
            energies.append(computed(system, added)[0])
        array[index] = value
        return (energies[0] - energies[1]) / (2 * step)

    for index in ((0, 0), (13, 1), (26, 2)):
        assert -forces[index] == pytest.approx(difference(system.positions, index, step), rel=1e-6, abs=2e-5)
    for name, k, step in (
        ("charges", 3, 1e-4),
        ("charges", 5, 1e-4),
        ("polarizabilities", 4, 1e-7),
        *(("thole", k, 1e-5) for k in np.argsort(-np.abs(slopes["thole"]))[:2]),
    ):
        assert abs(slopes[name][k]) > 1e-2
        assert slopes[name][k] == pytest.approx(difference(added.params[name], k, step), rel=1e-6, abs=1e-6), name
    slope = difference(added.params, "thole", 1e-5)  # of all at once
    assert slopes["thole"].sum() == pytest.approx(slope, rel=1e-6)
    at_zero = computed(system, added)[0]
    added.params["polarizabilities"][5] = 1e-9
    assert slopes["polarizabilities"][5] == pytest.approx((computed(system, added)[0] - at_zero) / 1e-9, rel=1e-4)


def test_the_response_of_dipoles_is_symmetric():
    """Second derivatives through the dipoles: of a cluster, by its charges."""
    system, added = melt(box=None)
    few = np.arange(8)
    system, added = cluster(system.positions[few], added.params["charges"][few], np.full(8, 1e-3), 0.39)
    slope = core.grad(lambda q: added.energy({**added.params, "charges": q}, system.positions, None))
    q = added.params["charges"]
    second = core.jacfwd(slope)(q)
    np.testing.assert_allclose(second, second.T, atol=1e-10 * np.abs(second).max())
    moved = q + 1e-3 * (np.arange(8) == 2)
    np.testing.assert_allclose(second @ (moved - q), slope(moved) - slope(q), atol=1e-9)  # the energy is quadratic


# ----------------------------------------------------------------------------------------------------------------- runs
def water(n=64, cutoff=0.6, tolerance=1e-4, **options):
    """Rigid waters with charges and polarizabilities like those of AMOEBA."""
    system = sponge.create_system(
        build.water_box("tip3p", n=n), ["amber14/tip3p"], constraints="h-bonds", method="cutoff", cutoff=cutoff
    )
    system.nonbonded.params["charges"][:] = 0.0
    return system, system.add(
        sponge.InducedDipoles(
            np.tile([-0.52, 0.26, 0.26], n),
            np.tile([8.37e-4, 4.96e-4, 4.96e-4], n),
            cutoff=cutoff,
            tolerance=tolerance,
            **options,
        )
    )


def test_energy_is_conserved():
    system, _ = water(cutoff=0.62)
    system.nonbonded.update(switch=0.5)
    sim = sponge.Simulation(system, sponge.VelocityVerlet(0.001), seed=1, precision="double")
    sim.minimize(max_steps=50)
    sim.thermalize(250)
    energies = []
    sim.run(120, report=sponge.Callback(5, lambda sim: energies.append(sim.energies()["total"])))
    assert np.ptp(energies) < 0.02 * 0.5 * 6 * 64 * sponge.units.GAS_CONSTANT * 250


def test_runs_resume_bit_for_bit_whatever_is_reported(tmp_path):
    """At constant pressure, on one and two threads."""
    before, found = threads.get_threads(), []

    def simulation():
        system, _ = water()
        return sponge.Simulation(
            system,
            sponge.LangevinMiddle(300, 5.0, 0.002),
            seed=2,
            barostat=sponge.MonteCarloBarostat(pressure=1.0, every=7),
        )

    try:
        for n, report in ((1, []), (2, [sponge.Callback(3, lambda sim: sim.energies())])):
            threads.set_threads(n)
            sim = simulation()
            sim.run(40, report=[sponge.Checkpoint(tmp_path / "run.chk", every=20), *report])
            found.append(sim.positions)
    finally:
        threads.set_threads(before)
    np.testing.assert_array_equal(found[0], found[1])
    first, second = simulation(), simulation()
    first.run(20, report=[sponge.Checkpoint(tmp_path / "half.chk", every=20)])
    second.load(tmp_path / "half.chk")
    second.run(20)
    np.testing.assert_array_equal(second.positions, found[0])


def test_many_copies_of_a_box_have_the_energy_and_dipoles_of_one():
    """So many atoms that several chunks share the work."""
    system, added = water(216, cutoff=0.8, convergence=1e-11)
    added.grid = (24, 24, 24)
    system.remove("nonbonded")
    energy, forces, dipoles, _ = computed(system, added)
    shifts = np.array(np.meshgrid(*[range(3)] * 3)).reshape(3, -1).T @ system.box
    whole = sponge.System(
        sponge.Topology.of_particles(27 * 648),
        np.ones(27 * 648),
        box=3 * system.box,
        positions=np.concatenate([system.positions + s for s in shifts]),
        exclusions=np.concatenate([system.exclusions + 648 * k for k in range(27)]),
    )
    p = added.params
    many = whole.add(
        sponge.InducedDipoles(
            np.tile(p["charges"], 27), np.tile(p["polarizabilities"], 27), cutoff=0.8, tolerance=1e-4, convergence=1e-11
        )
    )
    many.grid = (72, 72, 72)
    found, many_forces, many_dipoles, engine = computed(whole, many)
    assert engine.plans[many.name].rows.shape[0] > 1
    assert found == pytest.approx(27 * energy, rel=1e-10)
    np.testing.assert_allclose(many_forces, np.tile(forces, (27, 1)), atol=1e-7)
    np.testing.assert_allclose(many_dipoles, np.tile(dipoles, (27, 1)), atol=1e-10)


# --------------------------------------------------------------------------------------------------------------- faults
def test_what_is_refused():
    made = sponge.InducedDipoles
    with pytest.raises(ValueError, match=r"must be given for each atom, got shapes \(2,\) and \(3,\)"):
        made([1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"thole must be a number, or one for each of 2 atoms, got shape \(3,\)"):
        made([1.0, 2.0], [1.0, 2.0], [0.39] * 3)
    with pytest.raises(ValueError, match="method must be one of pme, none, got 'reaction_field'"):
        made([1.0, 2.0], [1.0, 2.0], method="reaction_field")
    with pytest.raises(BoxError, match="'pme' must be used with a periodic box, got none"):
        sponge.System(sponge.Topology.of_particles(2), [1, 1], positions=np.eye(3)[:2]).add(made([1, 2], [0, 0]))
    for name, value, message in (
        ("polarizabilities", -1e-3, "must be finite and >= 0, got -0.001 for"),
        ("thole", 0.0, "must be finite and > 0, got 0.0 for"),
        ("charges", np.nan, "must be finite, got nan for"),
    ):
        system, added = melt()
        added.params[name][3] = value
        with pytest.raises(ValueError, match=f"{name} {message}"):
            system.energy()
    system, added = water()
    system.nonbonded.params["charges"][2] = 0.5
    with pytest.raises(ValueError, match="'nonbonded' must have no charges of its own"):
        system.energy()
    with pytest.raises(BoxError, match="without a periodic box"):
        melt(method="none")
    system, added = melt()
    with pytest.raises(ValueError, match="'induced_dipoles': their energy cannot be split by a sampling method"):
        sponge.Simulation(
            system, sponge.LangevinMiddle(300, 1.0, 0.001), sampling=[sponge.SITS(range(5), [300.0, 330.0])]
        )
    with pytest.raises(ValueError, match="has charges or dipoles that are not counted"):
        sponge.differentiate.observables.dipole(system)(system.params(), system.positions)


def test_dipoles_that_do_not_converge_are_reported():
    system, added = melt(convergence=1e-30)
    sim = sponge.Simulation(system, sponge.VelocityVerlet(0.001), seed=1)
    with pytest.raises(
        RuntimeError,
        match=r"at step \d+, dipoles must agree with their fields to 1e-30 e nm, got .* "
        r"on .* after \d+ iterations",
    ):
        sim.run(1)


def test_energies_that_are_not_finite_are_reported_as_those_of_any_potential():
    """Two charges at one place are reported as for any potential; fields that are NaN raise no error in the solver."""
    system, added = melt()
    x = system.positions.copy()
    x[5] = x[10]
    with pytest.raises(BrokenSimulationError, match="induced_dipoles"):
        system.energy(x)
    engine = sponge.Engine(system, "double")
    engine.positions[4, 1] = np.nan
    engine.compute()
    assert np.isnan(engine.energies()["induced_dipoles"])


def test_a_polarization_catastrophe_is_reported():
    """Named for two undamped atoms closer than (4 alpha^2)^(1/6), for three farther apart, and for two at one place."""
    x = np.array([[0, 0, 0], [0, 0, 0.125], [0.7, 0, 0.0625]])  # the field is orthogonal to what grows without limit
    system, added = cluster(x, [0.0, 0.0, 1.0], [0.001, 0.001, 0.0])
    with pytest.raises(
        RuntimeError,
        match=r"at step 0, no dipoles minimize the energy \(polarization catastrophe\): "
        r"atom 0 .* and atom 1 .*, 0.125 nm apart, are too close",
    ):
        system.energy()
    with pytest.raises(RuntimeError, match=r"falls without limit with that of atom [01] \(polarization catastrophe"):
        added.energy(added.params, x, None)
    apart = x + np.array([[0, 0, 0], [0, 0, 0.002], [0, 0, 0]])
    assert system.energy(apart) == pytest.approx(float(added.energy(added.params, apart, None)), rel=1e-10)
    lattice = np.stack(np.meshgrid(*[np.arange(4)] * 3), -1).reshape(-1, 3)  # where no atom feels a field
    for spacing, stable in ((0.2, False), (0.3, True)):
        crystal = sponge.System(
            sponge.Topology.of_particles(64), np.ones(64), box=4 * spacing * np.eye(3), positions=spacing * lattice
        )
        crystal.add(sponge.InducedDipoles((-1.0) ** lattice.sum(1), np.full(64, 2e-3), None, cutoff=0.39))
        if stable:
            np.testing.assert_allclose(crystal["induced_dipoles"].dipoles(crystal.positions, crystal.box), 0, atol=1e-7)
            continue
        with pytest.raises(RuntimeError, match=r"at step 0, no dipoles minimize the energy \(polarization catastrophe"):
            crystal.energy()
    x[1] = x[0]
    with pytest.raises(
        RuntimeError,
        match=r"at step 0, polarizable atoms must not be at the same place, got atom 0 .* "
        r"and atom 1",
    ):
        system.energy(x)
    with pytest.raises(RuntimeError, match="must not be at the same place, got atoms 0 and 1"):
        added.energy(added.params, x, None)
    line = np.array([[0, 0, 0], [0, 0, 0.135], [0, 0, 0.27], [0, 0, 2.0]])
    system, added = cluster(line, [0.0, 0.0, 0.0, 1.0], [0.001, 0.001, 0.001, 0.0])
    with pytest.raises(
        RuntimeError,
        match=r"at step 0, no dipoles minimize the energy \(polarization catastrophe\), "
        r"residual in e nm: got .* on atom [012] .* after \d+ iterations",
    ):
        system.energy()
