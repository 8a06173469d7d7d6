"""Barostats: volumes of ideal gases and fluids, the pressure of molecules, restarts, boxes that become too small."""

import numpy as np
import pytest
from scipy import stats

from tests.shipped import subclasses
from tests.twins.molecules import WATER, Formula, length_errors
from triskele import sponge
from triskele.sponge import box as boxes
from triskele.sponge import units
from triskele.sponge.barostats.barostat import Barostat, Snapshot
from triskele.sponge.barostats.molecules import Molecules, molecules
from triskele.sponge.barostats.monte_carlo import _energy as trial_energy
from triskele.sponge.constraints.choose import Constraints
from triskele.sponge.constraints.solver import solver_of
from triskele.sponge.engine.engine import Engine, Runner
from triskele.sponge.engine.flags import ENERGY
from triskele.sponge.errors import BoxError
from triskele.sponge.potentials.expressions.combined import ExpressionVolume
from triskele.sponge.system import System
from triskele.sponge.topology import Topology
from triskele.sponge.virtual_sites import OutOfPlane, ThreeParticleAverage

RT = units.GAS_CONSTANT * 300.0


def gas(n, volume, kind="atoms", rng=None):
    """`n` particles or four-site waters that do not feel each other."""
    rng = rng or np.random.default_rng(1)
    edge = volume ** (1 / 3)
    places = rng.uniform(0, edge, (n, 1, 3))
    if kind == "atoms":
        return System(
            Topology.of_particles(n), np.full(n, 40.0), box=edge, positions=places[:, 0], remove_com_motion=False
        )
    sites = np.concatenate([WATER, [0.7 * WATER[0] + 0.15 * (WATER[1] + WATER[2])]])
    first = 4 * np.arange(n)
    pairs = np.concatenate([first[:, None] + p for p in ((0, 1), (0, 2), (1, 2))])
    turned = np.concatenate([sites @ np.linalg.qr(rng.normal(size=(3, 3)))[0] + p for p in places])
    lengths = np.repeat([0.09572, 0.09572, np.linalg.norm(WATER[1] - WATER[2])], n)
    return System(
        Topology.of_particles(4 * n),
        np.tile([16.0, 1.0, 1.0, 0.0], n),
        box=edge,
        positions=turned,
        remove_com_motion=False,
        constraints=Constraints(pairs, lengths),
        virtual_sites=[ThreeParticleAverage(first + 3, first[:, None] + np.arange(3), (0.7, 0.15, 0.15))],
    )


def soft_fluid(n=24, edge=1.6):
    """Particles that repel each other softly within 0.6 nm."""
    rng = np.random.default_rng(2)
    grid = np.stack(np.meshgrid(*[np.arange(3)] * 3), -1).reshape(-1, 3)[:n] * edge / 3
    system = System(
        Topology.of_particles(n),
        np.full(n, 40.0),
        box=edge,
        positions=grid + rng.normal(0, 0.02, (n, 3)),
        remove_com_motion=False,
    )
    i, j = np.triu_indices(n, 1)

    def energy(p, x, box):
        d = boxes.displacement(x[i] - x[j], box)
        r = np.sqrt((d * d).sum(1))
        return (p["a"] * np.where(r < 0.6, 1 - r / 0.6, 0.0) ** 2).sum()

    system.add(Formula("soft", energy, a=20.0))
    return system


def volumes(system, barostat, integrator, steps, every, settle=0, seed=1, box=False):
    engine = Engine(system, "double")
    engine.seed = seed
    runner = Runner(engine, lambda: barostat.plan(engine, integrator, integrator.plan(engine, engine.force_phases())))
    rng = np.random.default_rng(seed)
    engine.velocities[:] = rng.normal(size=(engine.n, 3)) * np.sqrt(RT * engine.inverse_masses)[:, None]
    integrator.prepare(engine)
    runner.run(settle)
    found = []
    for _ in range(steps // every):
        runner.run(every)
        found.append(engine.box.copy() if box else boxes.volume(engine.box))
    return np.array(found), engine


BAROSTATS = subclasses(Barostat, "triskele.sponge.barostats")  # found by existing
# Options for two systems: an ideal gas of some pressure, and `soft_fluid`.
GAS = {"StochasticCellRescaling": lambda pressure: {"compressibility": 1 / pressure, "relaxation_time": 0.02}}
FLUID = {"StochasticCellRescaling": {"relaxation_time": 0.1, "compressibility": 0.004}}


@pytest.mark.parametrize("coupling", ["isotropic", "semi-isotropic", "anisotropic"])
@pytest.mark.parametrize("kind", ["atoms", "waters"])
@pytest.mark.parametrize("which", BAROSTATS)
def test_volume_of_an_ideal_gas(which, kind, coupling):
    """V follows V^N exp(-P V / RT): the gamma distribution with N + 1, for N molecules."""
    n, pressure = 12, 50.0
    expected = stats.gamma(n + 1, scale=RT / (pressure * units.bar))
    system = gas(n, expected.mean(), kind)
    barostat = BAROSTATS[which](pressure, coupling=coupling, every=1, **GAS.get(which, lambda _: {})(pressure))
    found, engine = volumes(system, barostat, sponge.LangevinMiddle(300.0, 20.0, 0.002, 1e-8), 2400, 3, settle=200)
    correlated = np.corrcoef(found[1:], found[:-1])[0, 1]
    independent = len(found) * (1 - correlated) / (1 + correlated)
    assert independent > 15
    assert abs(found.mean() - expected.mean()) < 4 * expected.std() / np.sqrt(independent)
    assert abs(found.std() / expected.std() - 1) < 4 / np.sqrt(2 * independent)
    assert np.abs(length_errors(system, engine.positions)).max(initial=0) < 1e-7
    edges = np.diag(engine.box)
    assert len(np.unique(edges.round(9))) == {"isotropic": 1, "semi-isotropic": 2, "anisotropic": 3}[coupling]


@pytest.mark.parametrize("which", BAROSTATS)
def test_two_pressures_have_the_ratio_of_their_boltzmann_factors(which):
    """ln(p1(V) / p2(V)) = const - (P1 - P2) V / RT (Shirts 2013): the slope by logistic regression."""
    pressures, found = (100.0, 160.0), []
    for seed, pressure in enumerate(pressures):
        barostat = BAROSTATS[which](pressure, every=2, **FLUID.get(which, {}))
        found.append(
            volumes(
                soft_fluid(edge=2.1),
                barostat,
                sponge.LangevinMiddle(300.0, 10.0, 0.005),
                2400,
                6,
                settle=500,
                seed=seed,
            )[0]
        )
    a, b = found
    assert np.mean(a) > np.mean(b)
    both, label = np.concatenate(found), np.repeat([0.0, 1.0], [len(a), len(b)])
    middle, scale = both.mean(), both.std()
    x, weights = np.stack([np.ones_like(both), (both - middle) / scale], 1), np.zeros(2)
    for _ in range(30):  # Newton's method for the likelihood
        p = 1 / (1 + np.exp(-x @ weights))
        information = x.T @ (x * (p * (1 - p))[:, None])
        weights += np.linalg.solve(information, x.T @ (label - p))
    correlated = np.mean([np.corrcoef(v[1:], v[:-1])[0, 1] for v in found])
    error = np.sqrt(np.linalg.inv(information)[1, 1] * (1 + correlated) / (1 - correlated)) / scale
    expected = -(pressures[1] - pressures[0]) * units.bar / RT
    assert abs(weights[1] / scale - expected) < 4 * error
    assert error < 0.35 * abs(expected)


def test_pressure_is_the_derivative_along_scaled_centers(rng):
    """Rigid waters with sites of both kinds and a potential that feels positions and box."""
    system = gas(6, 8.0, "waters", rng)
    first = 4 * np.arange(6)
    system.virtual_sites = [
        ThreeParticleAverage(first[:3] + 3, first[:3, None] + np.arange(3), (0.7, 0.15, 0.15)),
        OutOfPlane(first[3:] + 3, first[3:, None] + np.arange(3), 0.1, 0.1, 6.0),
    ]
    c = rng.normal(size=(system.n, 3))
    system.add(
        Formula(
            "pull",
            lambda p, x, box: (
                c * np.sin(2 * np.pi * x / np.stack([box[0, 0], box[1, 1], box[2, 2]])) * np.cos(3 * x[:, ::-1])
            ).sum(),
        )
    )
    engine = Engine(system, "double")
    whole = Molecules(engine)
    engine.compute()
    pressure, volume = whole.pressure(), boxes.volume(engine.box)
    place, box = engine.positions.copy(), engine.box.copy()
    for axis in range(3):
        energies = []
        for h in (1e-5, -1e-5):
            engine.positions[:], engine.box[:] = place, box
            factors = np.ones(3)
            factors[axis] += h
            whole.scale(factors, "test")
            engine.compute()
            energies.append(sum(engine.energies().values()))
        assert pressure[axis] == pytest.approx(-(energies[0] - energies[1]) / 2e-5 / volume, rel=1e-5, abs=1e-6)
    engine.positions[:], engine.box[:] = place, box
    engine.velocities[:] = np.repeat(np.arange(18.0).reshape(6, 3), 4, axis=0)
    engine.compute()
    np.testing.assert_allclose((whole.pressure() - pressure) * volume, 18 * (np.arange(18.0).reshape(6, 3) ** 2).sum(0))


@pytest.mark.parametrize(
    "integrator",
    [
        sponge.LangevinMiddle(300.0, 1.0, 0.002),
        sponge.VelocityVerlet(0.002),
        sponge.Brownian(300.0, 99.0, 0.002),
        sponge.Bussi(300.0, 1.0, 0.002),
        sponge.NoseHoover(300.0, 1.0, 0.002),
    ],
    ids=lambda i: type(i).__name__,
)
def test_forces_at_the_end_of_a_step_belong_where_the_integrator_says(integrator):
    """So that the virial, the forces and the positions of a pressure are those of one moment."""
    engine = Engine(soft_fluid(), "double")
    Runner(engine, lambda: integrator.plan(engine, engine.force_phases())).run(0)
    integrator.prepare(engine)
    engine.flags[ENERGY] = 1
    Runner(engine, lambda: integrator.plan(engine, engine.force_phases())).run(3)
    positions = solver_of(engine).old if integrator.forces_at == "old" else engine.positions
    measured = Molecules(engine).pressure(positions)
    fresh = Engine(soft_fluid(), "double")
    fresh.velocities[:] = engine.velocities
    fresh.compute(positions)
    np.testing.assert_allclose(measured, Molecules(fresh).pressure(), rtol=1e-12)


def test_rescaling_under_respa_computes_all_forces():
    """Its groups are never in one array: whichever is slow, the pressure is the same."""
    system = soft_fluid()
    system.add(Formula("none", lambda p, x, box: 0.0 * (x**2).sum()))
    barostat = sponge.StochasticCellRescaling(100.0, every=1, relaxation_time=0.5)
    a = volumes(system, barostat, sponge.RESPA(0.002, 1, ["none"], 300.0, 1.0), 10, 1)[0]
    b = volumes(system, barostat, sponge.RESPA(0.002, 1, ["soft"], 300.0, 1.0), 10, 1)[0]
    np.testing.assert_allclose(a, b, rtol=1e-12)


def test_molecules_are_held_together_by_bonds_constraints_and_sites():
    system = gas(3, 8.0, "waters")
    assert molecules(system).tolist() == [0] * 4 + [1] * 4 + [2] * 4
    bonded = System(Topology.of_particles(5, bonds=[(0, 3), (3, 4)]), np.ones(5))
    assert molecules(bonded).tolist() == [0, 1, 2, 0, 0]


def test_scaling_keeps_triclinic_boxes_reduced_and_molecules_whole(rng):
    system = gas(5, 27.0, "waters", rng)
    system.box = boxes.as_box([[3, 0, 0], [1, 2.8, 0], [-1, 1, 2.5]])
    engine = Engine(system)
    whole, before = Molecules(engine), engine.positions.copy()
    centers = whole.centers(before)
    whole.scale(np.array([1.1, 0.9, 1.2]), "test")
    np.testing.assert_allclose(boxes.as_box(engine.box), engine.box)
    np.testing.assert_allclose(whole.centers(engine.positions), centers * [1.1, 0.9, 1.2])
    inner = lambda x, c: x - c[whole.of]
    np.testing.assert_allclose(
        inner(engine.positions, whole.centers(engine.positions)), inner(before, centers), atol=1e-14
    )


@pytest.mark.parametrize(
    "barostat",
    [sponge.MonteCarloBarostat(100.0, every=5), sponge.StochasticCellRescaling(100.0, every=5)],
    ids=["Monte Carlo", "rescaling"],
)
@pytest.mark.parametrize(
    "integrator", [sponge.LangevinMiddle(300.0, 1.0, 0.002), sponge.Bussi(300.0, 0.1, 0.002)], ids=["Langevin", "Bussi"]
)
def test_a_resumed_run_is_the_uninterrupted_one(barostat, integrator, tmp_path):
    def new():
        return sponge.Simulation(soft_fluid(), integrator, seed=4, barostat=barostat, precision="double")

    one = new()
    one.run(20)
    one.save(tmp_path / "half.chk")
    one.run(23)
    two = new()
    two.load(tmp_path / "half.chk")
    two.run(23)
    assert np.array_equal(one.box, two.box) and not np.array_equal(one.box, soft_fluid().box)
    assert np.array_equal(one.positions, two.positions) and np.array_equal(one.velocities, two.velocities)


def water():
    box = sponge.build.water_box("tip3p", n=216, seed=1)
    return sponge.create_system(
        box, forcefield=["amber14/tip3p"], method="pme", cutoff=0.7, grid=(24, 24, 24), constraints="h-bonds"
    )


@pytest.mark.parametrize(
    "integrator", [sponge.LangevinMiddle(300.0, 1.0, 0.002), sponge.Bussi(300.0, 0.1, 0.002)], ids=["Langevin", "Bussi"]
)
def test_a_rejected_move_leaves_the_run_as_it_is(integrator):
    """Lists, forces and mesh too: every move raises an energy that grows steeply with any change of the volume."""
    ends = []
    for every in (3, 10**6):
        system = water()
        system.add(ExpressionVolume("1e12*(v-v0)^2", {"v0": float(np.linalg.det(system.box))}))
        engine, barostat = Engine(system, "double"), sponge.MonteCarloBarostat(1.0, 300.0, every=every)
        Runner(engine, lambda e=engine, b=barostat: b.plan(e, integrator, integrator.plan(e, e.force_phases()))).run(60)
        ends.append((engine.positions, engine.velocities, engine.box, engine.store["barostat_counts"]))
    for one, other in zip(*[end[:3] for end in ends]):  # a trial may hasten a list, and so change the order of sums
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)
    assert ends[0][3][0, 2] == 19 and not ends[0][3][0, 1]


def test_moves_are_judged_by_energies_of_all_pairs():
    """Small moves and large ones, between which the run's neighbor lists have aged: against lists from scratch."""
    sim = sponge.Simulation(water(), sponge.LangevinMiddle(300.0, 1.0, 0.002), seed=3, precision="double")
    sim.minimize(tolerance=100)
    engine, whole = sim._engine, Molecules(sim._engine)
    fresh = Engine(sim.system, "double")
    for stretch in (0.003, -0.003, 0.05, -0.05):
        sim.run(23)
        before = Snapshot(engine)
        for factor in (0.0, stretch):
            whole.scale(np.full(3, 1 + factor), "test")
            found = trial_energy(engine, abs(factor), whole.radius())
            fresh.compute(engine.positions, engine.box)
            assert found == pytest.approx(sum(fresh.energies().values()), rel=1e-10)
        before.restore()


@pytest.mark.parametrize(
    "barostat",
    [sponge.MonteCarloBarostat(1e6, 300.0, every=2), sponge.StochasticCellRescaling(1e5, every=2)],
    ids=["Monte Carlo", "rescaling"],
)
def test_a_box_that_becomes_too_small_is_an_error_with_the_last_good_state(barostat):
    system = soft_fluid()

    def check_box(box):
        if boxes.largest_cutoff(box) < 0.79:
            raise BoxError(f"soft: the cut-off must be at most half the smallest box edge, got {box[0, 0]:.4f}")

    system["soft"].check_box = check_box
    with pytest.raises(BoxError, match=r"step \d+: the box has become too small; soft: the cut-off"):
        volumes(system, barostat, sponge.LangevinMiddle(300.0, 1.0, 0.002), 2000, 1)
    engine = Engine(system, "double")
    integrator = sponge.LangevinMiddle(300.0, 1.0, 0.002)
    runner = Runner(engine, lambda: barostat.plan(engine, integrator, integrator.plan(engine, engine.force_phases())))
    with pytest.raises(BoxError):
        runner.run(2000)
    assert boxes.largest_cutoff(engine.box) >= 0.79
    assert np.isfinite(engine.positions).all()


@pytest.mark.parametrize(
    "make, message",
    [
        (
            lambda: sponge.MonteCarloBarostat(1.0, coupling="cubic"),
            "coupling must be 'isotropic', 'semi-isotropic' or 'anisotropic', got 'cubic'",
        ),
        (lambda: sponge.MonteCarloBarostat((1.0, 2.0)), "pressure must be one number in bar, or 1, got"),
        (lambda: sponge.StochasticCellRescaling(np.nan), "pressure must be one number"),
        (lambda: sponge.MonteCarloBarostat(1.0, temperature=-3), "temperature must be a positive number, got -3"),
        (lambda: sponge.MonteCarloBarostat(1.0, every=0), "every must be an integer >= 1, got 0"),
        (
            lambda: sponge.StochasticCellRescaling(1.0, relaxation_time=0),
            "relaxation_time must be a positive number, got 0",
        ),
    ],
)
def test_bad_options(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_what_a_barostat_needs():
    system = gas(2, 8.0)
    engine, integrator = Engine(system), sponge.VelocityVerlet(0.001)
    with pytest.raises(ValueError, match="temperature must be given, as VelocityVerlet has none"):
        sponge.MonteCarloBarostat(1.0).plan(engine, integrator, [])
    system.box = None
    with pytest.raises(BoxError, match="the system must have a periodic box, got none"):
        sponge.StochasticCellRescaling(1.0).plan(Engine(system), integrator, [])


# -- position restraints -----------------------------------------------------------------------------------------------
def held_dimers(shift=0.0):
    """Dimers in a box, the first three held at all of their atoms; none feels another."""
    rng = np.random.default_rng(4)
    pairs = np.arange(24).reshape(-1, 2)
    x = np.repeat(rng.uniform(0, 2, (12, 3)), 2, axis=0)
    x[1::2] += [0.16, 0, 0]
    system = System(Topology.of_particles(24, "C", 6, pairs), np.full(24, 12.0), 2.0, x + shift)
    system.add(sponge.harmonic_bond(pairs, k=1e4, r0=0.15))
    system.add(sponge.PositionRestraint(np.arange(6), k=1000.0, reference=system.positions[:6] + [0.01, -0.02, 0.03]))
    return system


def test_the_virial_of_a_restraint_has_the_displacements_of_single_atoms():
    """W = -k sum d d, wherever the atoms are: the references move with the box."""
    d = np.array([[0.02, -0.01, 0.05], [-0.03, 0.02, 0.01]])
    for shift in (0.0, 100.0):
        system = System(Topology.of_particles(2), [12.0] * 2, 2.0, d + shift)
        system.add(sponge.PositionRestraint([0, 1], k=1000.0, reference=np.full((2, 3), shift)))
        np.testing.assert_allclose(system.virial(), -1000.0 * d.T @ d, atol=1e-9)


def test_references_move_with_the_center_of_their_molecule():
    system = held_dimers(shift=50.0)
    box = np.array([[2.1, 0, 0], [0.3, 2.2, 0], [-0.2, 0.1, 1.9]])
    ends = system["position_restraint"].params["reference"]
    middles = ends.reshape(3, 2, 3).mean(axis=1)
    moved = ends + np.repeat(middles @ (np.linalg.inv(system.box) @ box) - middles, 2, axis=0)
    d = boxes.displacement(system.positions[:6] - moved, box)
    expected = 500.0 * np.sum(d * d)
    assert system.energy_terms(box=box)["position_restraint"] == pytest.approx(expected, rel=1e-9)
    energy = system.energy_function(["position_restraint"])({}, system.positions, box)
    assert float(energy) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    "barostat",
    [
        sponge.MonteCarloBarostat(pressure=30.0, every=5),
        sponge.StochasticCellRescaling(pressure=30.0, relaxation_time=0.1, every=5, compressibility=1e-3),
    ],
    ids=["Monte Carlo", "cell rescaling"],
)
def test_a_restrained_run_far_from_the_origin_is_the_same_run(barostat):
    runs = []
    for shift in (0.0, 100.0):
        sim = sponge.Simulation(held_dimers(shift), sponge.LangevinMiddle(300.0, 1.0, 0.002), barostat=barostat, seed=3)
        sim.run(400)
        center = sim.positions[:6].mean(axis=0) - shift * np.diag(sim.box) / 2.0  # the box has scaled the origin
        runs.append([np.diag(sim.box), center])
    assert abs(runs[0][0][0] - 2.0) > 0.01  # the box has changed
    np.testing.assert_allclose(runs[1], runs[0], rtol=1e-6)
