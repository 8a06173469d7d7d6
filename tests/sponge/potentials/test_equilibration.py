"""Charges that minimize the energy."""

import numpy as np
import pytest
from scipy.special import erf

from triskele import core, sponge
from triskele.sponge import alchemy, learn
from triskele.sponge.errors import BoxError
from triskele.sponge.neighbors.state import BUILDS
from triskele.sponge.potentials.polarizable import equilibration, induced_dipoles
from triskele.sponge.potentials.polarizable import equilibration_solver as solver
from triskele.sponge.testing import example_system
from triskele.sponge.units import COULOMB

BOX = np.array([[1.5, 0, 0], [0.3, 1.4, 0], [-0.2, 0.4, 1.6]])


def melt(seed=0, precision=1e-9, grid=None, **options):
    """27 atoms of two elements about a lattice, with charges that flow among all of them."""
    rng = np.random.default_rng(seed)
    cell = np.stack(np.meshgrid(*[np.arange(3)] * 3), axis=-1).reshape(-1, 3)
    kind = cell.sum(1) % 2
    system = sponge.System(
        sponge.Topology.of_particles(27),
        np.where(kind, 35.5, 23.0),
        box=BOX,
        positions=cell / 3 @ BOX + rng.normal(scale=0.02, size=(27, 3)),
    )
    system.add(
        sponge.Nonbonded(
            np.zeros(27),
            np.full(27, 0.32),
            np.full(27, 0.4),
            method="cutoff",
            cutoff=0.65,
            switch=0.5,
            dispersion_correction=False,
        )
    )
    added = sponge.ChargeEquilibration(
        np.where(kind, 500.0, 200.0) + rng.normal(scale=10, size=27),
        np.where(kind, 450.0, 300.0),
        np.where(kind, 0.07, 0.06),
        **{"cutoff": 0.65, "tolerance": 1e-3, "convergence": precision, **options},
    )
    added.grid = grid
    return system, system.add(added)


def gaussian_matrix(positions, box, widths):
    """The interaction of periodic Gaussian charges, each with itself too, as a sum over wave vectors alone.

    Without the wave vector 0, which belongs to the background that makes the box neutral.
    """
    inverse, volume = 2 * np.pi * np.linalg.inv(box), abs(np.linalg.det(box))
    counts = np.stack(np.meshgrid(*[np.arange(-36, 37)] * 3), axis=-1).reshape(-1, 3)
    k = counts[np.any(counts, axis=1)] @ inverse.T
    k2 = np.sum(k * k, axis=1)
    k, k2 = k[k2 < 40 / widths.min() ** 2], k2[k2 < 40 / widths.min() ** 2]
    waves = np.exp(1j * (positions @ k.T) - 0.5 * widths[:, None] ** 2 * k2) / np.sqrt(k2)
    return COULOMB * 4 * np.pi / volume * (waves @ waves.conj().T).real


def test_two_atoms_by_hand():
    chi, eta, widths, r = [300.0, 700.0], [500.0, 800.0], np.array([0.05, 0.07]), 0.2
    system = sponge.System(sponge.Topology.of_particles(2), [1.0, 1.0], positions=[[0, 0, 0], [0, r, 0]])
    added = system.add(sponge.ChargeEquilibration(chi, eta, widths, totals=0.4, convergence=1e-10))
    own = COULOMB / (np.sqrt(np.pi) * widths)
    coupling = COULOMB * erf(r / np.sqrt(2 * np.sum(widths**2))) / r
    a, b = eta[0] + own[0], eta[1] + own[1]
    q = (chi[1] - chi[0] + 0.4 * (b - coupling)) / (a + b - 2 * coupling)
    np.testing.assert_allclose(added.charges(system.positions), [q, 0.4 - q], rtol=1e-12)
    energy = chi[0] * q + chi[1] * (0.4 - q) + 0.5 * a * q * q + 0.5 * b * (0.4 - q) ** 2 + coupling * q * (0.4 - q)
    assert system.energy() == pytest.approx(energy, rel=1e-12)


def test_charges_and_energy_are_those_of_a_dense_solve_over_wave_vectors():
    """Also in groups, of which two have charges that cancel, with one fixed charge, and with a net charge."""
    groups = np.array([0] * 12 + [1] * 14 + [2])
    for options in ({}, {"groups": groups, "totals": [0.5, -0.8, 0.3]}, {"groups": groups, "totals": [1.5, 0, 0.3]}):
        system, added = melt(tolerance=1e-9, grid=(108, 108, 108), **options)
        matrix = gaussian_matrix(system.positions, system.box, added.widths) + np.diag(added.params["hardnesses"])
        member = (added.groups == np.arange(len(added.totals))[:, None]).astype(float)
        border = np.block([[matrix, member.T], [member, np.zeros((len(member), len(member)))]])
        chi = added.params["electronegativities"]
        q = np.linalg.solve(border, np.concatenate([-chi, added.totals]))[:27]
        engine = sponge.Engine(system, "double")
        engine.compute()
        found = engine.plans[added.name].charges
        np.testing.assert_allclose(found, q, rtol=0, atol=1e-8)
        assert np.ptp(q) > 0.2
        assert engine.energies()[added.name] == pytest.approx(chi @ q + 0.5 * q @ matrix @ q, rel=1e-7)
        np.testing.assert_allclose(np.bincount(added.groups, found), added.totals, atol=1e-12)
        if options:
            assert found[26] == pytest.approx(0.3, abs=1e-12)


def test_forces_and_derivatives_by_parameters_are_those_of_differences():
    system, added = melt()
    engine = sponge.Engine(system, "double")
    engine.compute()
    forces, slopes = engine.forces.copy(), added.param_gradients(engine)
    step = 1e-5
    for atom, axis in ((0, 0), (13, 1), (26, 2)):
        energies = []
        for side in (1, -1):
            x = system.positions.copy()
            x[atom, axis] += side * step
            engine.compute(x)
            energies.append(sum(engine.energies().values()))
        assert forces[atom, axis] == pytest.approx((energies[1] - energies[0]) / (2 * step), rel=1e-7, abs=2e-5)
    np.testing.assert_allclose(added.charges(system.positions, system.box), slopes["electronegativities"], atol=1e-11)
    by_hand = core.grad(lambda params: added.energy(params, system.positions, system.box))(added.params)
    for name, slope in slopes.items():
        np.testing.assert_allclose(slope, by_hand[name], rtol=0, atol=1e-9)


def test_the_response_of_charges_to_electronegativities():
    """Second derivatives, through the charges: of a cluster, by columns that add up to 0, and against differences."""
    rng, n = np.random.default_rng(1), 8
    system = sponge.System(sponge.Topology.of_particles(n), np.ones(n), positions=rng.uniform(0, 0.5, (n, 3)))
    added = system.add(sponge.ChargeEquilibration(rng.normal(scale=200, size=n), np.full(n, 600.0), 0.05))
    second = core.jacfwd(
        core.grad(lambda chi: added.energy({**added.params, "electronegativities": chi}, system.positions, None))
    )
    response = second(added.params["electronegativities"])  # of charges to electronegativities
    np.testing.assert_allclose(response, response.T, atol=1e-12)
    np.testing.assert_allclose(response.sum(0), 0.0, atol=1e-12)
    assert np.all(np.linalg.eigvalsh(response) < 1e-12)
    charges = []
    for side in (1, -1):
        added.params["electronegativities"][2] += side
        charges.append(added.charges(system.positions))
        added.params["electronegativities"][2] -= side
    np.testing.assert_allclose(response[2], (charges[0] - charges[1]) / 2, atol=1e-10)


def test_energy_is_conserved_and_charges_flow():
    system, added = melt(precision=1e-6, tolerance=1e-4)
    sim = sponge.Simulation(system, sponge.VelocityVerlet(0.001), seed=1, precision="double")
    sim.minimize(tolerance=50)
    sim.thermalize(600)
    energies, charges = [], []
    record = sponge.Callback(20, lambda sim: energies.append(sim.energies()["total"]))
    flow = sponge.Callback(20, lambda sim: charges.append(added.charges(sim.positions, sim.box)))
    sim.run(400, report=[record, flow])
    assert np.ptp(energies) < 0.05 * 1.5 * 26 * sponge.units.GAS_CONSTANT * 600
    assert np.ptp(charges, axis=0).max() > 0.02


def test_a_run_resumes_bit_for_bit(tmp_path):
    def simulation():
        system, _ = melt(precision=1e-4)
        return sponge.Simulation(system, sponge.LangevinMiddle(500, 5.0, 0.001), seed=2)

    whole, first, second = simulation(), simulation(), simulation()
    whole.run(60, report=[sponge.Checkpoint(tmp_path / "whole.chk", every=30)])
    first.run(30, report=[sponge.Checkpoint(tmp_path / "run.chk", every=30)])
    second.load(tmp_path / "run.chk")
    second.run(30)
    np.testing.assert_array_equal(second.positions, whole.positions)


def test_charges_are_extrapolated_until_the_state_is_set_or_saved(tmp_path):
    """Former charges save iterations, also over rebuilds of the list, and what resumes a run forgets them."""
    system, added = melt(precision=1e-4)
    sim = sponge.Simulation(system, sponge.LangevinMiddle(500, 5.0, 0.001), seed=2)
    plan, counts, builds = sim._engine.plans[added.name], [], []
    for _ in range(60):
        sim.run(1)
        counts.append(plan.iterations)
        builds.append(int(plan._listed.state[BUILDS]))
    warm = np.array(counts[10:])
    assert builds[-1] > builds[10]
    assert np.max(warm) < counts[0]
    assert np.mean(warm) < 0.75 * counts[0]
    for forget in (lambda: sim.save(tmp_path / "run.chk"), lambda: setattr(sim, "positions", sim.positions)):
        forget()
        sim.run(1)
        sim.run(1)
        assert plan._known == 2
    x = sim.positions
    plan.engine.compute(x)
    fresh = sponge.Engine(system)
    fresh.compute(x)
    np.testing.assert_array_equal(plan.charges, fresh.plans[added.name].charges)
    np.testing.assert_array_equal(plan.engine.forces, fresh.forces)


def test_a_killed_run_continues_bit_for_bit(tmp_path):
    """Between rebuilds of the list, with charges extrapolated on both sides of the checkpoint."""

    def simulation():
        system, _ = melt(precision=1e-4)
        return sponge.Simulation(system, sponge.VelocityVerlet(0.001), seed=2)

    def kill(sim):
        if sim.step == 47:
            raise KeyboardInterrupt

    whole, killed, again = simulation(), simulation(), simulation()
    for sim in (whole, killed, again):
        sim.thermalize(600)
    whole.run(80, checkpoint=sponge.Checkpoint(tmp_path / "whole.chk", every=20))
    path = tmp_path / "killed.chk"
    with pytest.raises(KeyboardInterrupt):
        killed.run(80, checkpoint=sponge.Checkpoint(path, every=20), report=sponge.Callback(1, kill))
    again.run(80, checkpoint=sponge.Checkpoint(path, every=20))
    np.testing.assert_array_equal(again.positions, whole.positions)


@pytest.mark.parametrize("kinds", [2, 1215])
def test_copies_of_a_cell_have_its_charges(kinds):
    """A box of 1,215 atoms has several chunks, with or without tables of couplings, on one thread or two."""
    small, one = melt(tolerance=1e-3, grid=(15, 15, 15))  # odd: without a Nyquist frequency
    copies = np.stack(np.meshgrid(*map(np.arange, (3, 3, 5)), indexing="ij"), axis=-1).reshape(-1, 3)
    x = (copies[:, None] @ small.box + small.positions).reshape(-1, 3)
    system = sponge.System(
        sponge.Topology.of_particles(len(x)),
        np.tile(small.masses, 45),
        positions=x,
        box=small.box * np.array([3, 3, 5])[:, None],
    )
    widths = np.tile(one.widths, 45)
    if kinds > 2:
        widths *= 1 + 1e-13 * np.arange(len(x))
    added = system.add(
        sponge.ChargeEquilibration(
            *(np.tile(v, 45) for v in one.params.values()),
            widths,
            groups=np.repeat(np.arange(45), 27),
            cutoff=0.65,
            tolerance=1e-3,
            convergence=1e-9,
        )
    )
    added.grid = 45, 45, 75
    single = sponge.Engine(small, "double", names=[one.name])
    single.compute()
    found, before = [], core.get_threads()
    try:
        for threads in (1, 2):
            core.set_threads(threads)
            engine = sponge.Engine(system, "double")
            engine.compute()
            found.append((engine.plans[added.name].charges.copy(), engine.forces.copy()))
    finally:
        core.set_threads(before)
    assert engine.plans[added.name]._listed.chunks > 1
    np.testing.assert_allclose(found[0][0], np.tile(single.plans[one.name].charges, 45), rtol=0, atol=1e-9)
    np.testing.assert_allclose(found[0][1], np.tile(single.forces, (45, 1)), rtol=0, atol=1e-5)
    for mine, other in zip(*found):
        np.testing.assert_array_equal(mine, other)


@pytest.mark.parametrize("integrator", [sponge.LangevinMiddle(500, 5.0, 0.001), sponge.VelocityVerlet(0.001)])
def test_looking_at_energies_changes_no_step(integrator):
    """Even between steps, where charges are solved for once more, and where lists are rebuilt for a look."""

    def run(report):
        system, _ = melt(precision=1e-4)
        sim = sponge.Simulation(system, integrator, seed=2)
        sim.run(60, report=report)
        return sim.positions

    energies = []
    looked = run(sponge.Callback(7, lambda sim: energies.append(sim.energies())))
    np.testing.assert_array_equal(looked, run(None))
    assert len(energies) == 8


@pytest.mark.parametrize("module", [equilibration, induced_dipoles])
def test_atoms_of_clusters_that_are_far_apart(module):
    """They count at any distance that a cluster can have, and wider ones are refused."""
    (potential, *_), options = module.example()[0]
    system = example_system(potential, **options)
    engine, x = sponge.Engine(system, "double"), system.positions
    for where, apart in ((0.0, 5e3), (1e6, 0.0)):
        far = x + where + np.where(np.arange(len(x)) < 6, 0.0, apart)[:, None] * [1.0, 0, 0]
        engine.compute(far)
        expected = float(potential.energy(potential.params, far, None))
        assert engine.energies()[potential.name] == pytest.approx(expected, rel=1e-9)
    x = x + np.where(np.arange(len(x)) < 6, 0.0, 2e5)[:, None]
    with pytest.raises(RuntimeError, match=r"at step 0, atoms must be at most 100000 nm apart .* got 3.46e\+05 nm"):
        engine.compute(x)


def test_decoupling_and_splits_are_refused():
    system, added = melt()
    with pytest.raises(ValueError, match="'charge_equilibration': its energy cannot be split by a sampling method"):
        sponge.Simulation(
            system, sponge.LangevinMiddle(300, 1.0, 0.001), sampling=[sponge.SITS(range(5), [300.0, 330.0])]
        )
    with pytest.raises(ValueError, match="ChargeEquilibration 'charge_equilibration' acts on all pairs of atoms"):
        alchemy.decouple(system, range(5))


def test_pairs_that_others_exclude_count():
    system, added = melt(precision=1e-10)
    system.exclusions = np.stack(np.triu_indices(9, 1), axis=1)
    engine = sponge.Engine(system, "double")
    engine.compute()
    expected = float(added.energy(added.params, system.positions, system.box))
    assert engine.energies()[added.name] == pytest.approx(expected, rel=1e-9)


def test_only_one_potential_may_find_charges():
    """Others would count twice, or not see them."""
    system, added = melt()
    for other, message in (
        (sponge.ChargeEquilibration(*added.params.values(), 0.06), "no charges of its own"),
        (
            sponge.InducedDipoles(np.zeros(27), np.full(27, 1e-3), cutoff=0.65),
            "charges must be fixed, got those of ChargeEquilibration",
        ),
        (
            sponge.NetworkCharges(
                learn.ChargeNetwork.init(core.random.key(0), ["Na"], cutoff=0.3), elements=["Na"] * 27
            ),
            "'charge_equilibration' has charges of its",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            system.add(other)


@pytest.mark.parametrize("module", [equilibration, induced_dipoles])
def test_the_mesh_is_that_of_the_present_box(module):
    """A box that changes after energies were computed gives the energy of a system made in that box."""
    (potential, *_), options = module.example()[-1]
    system = example_system(potential, **options)
    wide = np.diag([1.2, 1.2, 6.0])
    here = system.energy()
    system.box = wide
    fresh = sponge.System(system.topology, system.masses, wide, system.positions, exclusions=system.exclusions)
    ((new, *_), _) = module.example()[-1]
    fresh.add(new)
    assert system.energy() == pytest.approx(fresh.energy(), rel=1e-12) != here


def test_positions_that_are_nan_give_energies_that_are():
    """Which the guard of a run reports with step, term and atom, as for any potential; the next state is right."""
    system, added = melt()
    engine = sponge.Engine(system, "double")
    engine.positions[4, 1] = np.nan
    engine.compute()
    assert np.isnan(engine.energies()[added.name]) and np.isnan(engine.forces).any()
    engine.compute(system.positions)
    assert engine.energies()[added.name] == pytest.approx(system.energy_terms()[added.name], rel=1e-12)


def test_charges_at_one_place():
    """Their coupling is finite, and has derivatives."""
    system = sponge.System(sponge.Topology.of_particles(3), np.ones(3), positions=[[0, 0, 0], [0, 0, 0], [0.2, 0, 0]])
    added = system.add(sponge.ChargeEquilibration([200.0, 100.0, 300.0], [500.0] * 3, 0.05, convergence=1e-9))
    energy = core.value_and_grad(lambda x: added.energy(added.params, x, None))
    value, slope = energy(system.positions)
    assert float(value) == pytest.approx(system.energy(), rel=1e-9)
    np.testing.assert_allclose(slope, -system.forces(), atol=1e-6)


def test_a_preconditioner_that_is_not_positive_gives_way_to_the_diagonal():
    groups, sizes, diagonal = np.array([0, 0, 1, 1]), np.array([2.0, 2.0]), np.array([1.0, 2.0, 4.0, 4.0])
    rest, p, result = np.array([1.0, -1.0, 2.0, -2.0, 0.0]), np.full(4, 7.0), np.zeros(solver.N_WORDS)
    result[solver.STEPS] = 3
    solver.ahead(0, groups, sizes, np.zeros(2), diagonal, rest, -rest[:4], p, result)
    np.testing.assert_allclose(p, [0.75, -0.75, 0.5, -0.5])


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"must be given for each atom, got shapes \(2,\) and \(3,\)"):
        sponge.ChargeEquilibration([1.0, 2.0], [1.0, 2.0, 3.0], 0.05)
    with pytest.raises(ValueError, match=r"groups must number the groups of all 2 atoms from 0 on, got \[0, 2\]"):
        sponge.ChargeEquilibration([1.0, 2.0], [1.0, 2.0], 0.05, groups=[0, 2])
    with pytest.raises(ValueError, match="at most a ninth of the cut-off of 0.9 nm, got 0.05 to 0.2 nm"):
        sponge.ChargeEquilibration([1.0, 2.0], [1.0, 2.0], [0.05, 0.2])
    system, added = melt()
    added.params["hardnesses"][3] = -1.0
    with pytest.raises(ValueError, match="hardnesses must be finite and >= 0, got -1.0 for"):
        system.energy()
    for options, message in (
        ({"groups": [0.0, 1.7]}, "indices must be integers"),
        ({"widths": [0.05] * 3}, r"one for each of 2 atoms, got shape \(3,\)"),
        ({"totals": [0, 1]}, r"one for each of 1 groups, got shape \(2,\)"),
        ({"tolerance": 0.6}, "tolerance must lie between 0 and 0.5, got 0.6"),
    ):
        with pytest.raises(ValueError, match=message):
            sponge.ChargeEquilibration([1.0, 2.0], [1.0, 2.0], **{"widths": 0.05, **options})
    system, added = melt()
    with pytest.raises(BoxError, match="a box must be given, as the system has one"):
        added.charges(system.positions)
    for function in (added.charges, lambda x, box: added.energy(added.params, x, box)):
        with pytest.raises(BoxError, match="cut-off must be at most half the smallest box edge 1.2 nm, got 0.65"):
            function(system.positions, 1.2 * np.eye(3))
    with pytest.raises(ValueError, match="positions must be finite, got .*nan"):
        added.charges(np.nan * system.positions, system.box)
    cluster = sponge.System(sponge.Topology.of_particles(2), np.ones(2), positions=np.eye(2, 3))
    alone = cluster.add(sponge.ChargeEquilibration([1.0, 2.0], [9.0, 9.0], 0.05))
    with pytest.raises(BoxError, match="a box was given, but the system is not periodic"):
        alone.charges(cluster.positions, 3.0)
    system, _ = melt()
    system["nonbonded"].params["charges"][2] = 0.5
    with pytest.raises(ValueError, match="'nonbonded' must have no charges of its own"):
        system.energy()
    system, _ = melt(precision=1e-30)
    sim = sponge.Simulation(system, sponge.VelocityVerlet(0.001), seed=1)
    with pytest.raises(
        RuntimeError,
        match=r"at step \d+, derivatives by the charges must agree to 1e-30 kJ/mol/e, got "
        r".* on .* after \d+ iterations",
    ):
        sim.run(1)
