"""Integrators: what all of them promise, the ensembles they sample, and exact results for harmonic oscillators."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from tests.shipped import subclasses
from tests.sponge.reference import load_reference
from tests.twins.molecules import Formula, mixture, wells
from triskele import core, sponge
from triskele.core.random import numba as draws
from triskele.sponge import units
from triskele.sponge.engine.engine import Engine
from triskele.sponge.engine.flags import STEP
from triskele.sponge.integrators.integrator import Integrator
from triskele.sponge.integrators.kernels import NOISE
from triskele.sponge.integrators.temperature import (
    degrees_of_freedom,
    kinetic_energy,
    set_thermal_velocities,
    temperature,
)
from triskele.sponge.integrators.velocity_verlet import VelocityVerlet
from triskele.sponge.system import System
from triskele.sponge.testing import Springs, Trial, check_integrator, spring_system
from triskele.sponge.topology import Topology

TIGHT = {"constraint_tolerance": 1e-10}
RT = units.GAS_CONSTANT * 300.0

INTEGRATORS = {
    "velocity Verlet": (lambda dt: sponge.VelocityVerlet(dt, **TIGHT), 2),
    "Nosé-Hoover": (lambda dt: sponge.NoseHoover(300.0, 0.05, dt, **TIGHT), 2),
    "Bussi": (lambda dt: sponge.Bussi(300.0, 0.1, dt, **TIGHT), None),
    "RESPA": (lambda dt: sponge.RESPA(dt, 3, ["springs"], **TIGHT), 2),
    "Langevin": (lambda dt: sponge.LangevinMiddle(300.0, 1.0, dt, **TIGHT), None),
    "Langevin RESPA": (lambda dt: sponge.RESPA(dt, 3, ["springs"], 300.0, 1.0, **TIGHT), None),
    "Brownian": (lambda dt: sponge.Brownian(300.0, 300.0, dt, **TIGHT), None),
}
# Those with a bath, by what shows that they sample its ensemble: positions, or velocities.
CONFIGURATIONAL = [
    sponge.LangevinMiddle(300.0, 5.0, 0.005),
    sponge.RESPA(0.01, 3, ["extra"], 300.0, 5.0),
    sponge.Brownian(300.0, 100.0, 0.005),
]
KINETIC = {
    "Bussi": sponge.Bussi(300.0, 0.02, 0.004),
    "Nosé-Hoover": sponge.NoseHoover(300.0, 0.05, 0.004),
    "Langevin": sponge.LangevinMiddle(300.0, 10.0, 0.004),
}


@pytest.mark.parametrize("name", INTEGRATORS)
def test_promises(name):
    make, order = INTEGRATORS[name]
    check_integrator(make, order=order)


def test_every_integrator_makes_its_promises_and_samples_its_ensemble():
    """Found by existing. test_drude.py has those of `DrudeLangevin`, which needs Drude particles."""
    every = set(subclasses(Integrator, "triskele.sponge.integrators").values()) - {sponge.DrudeLangevin}
    assert every == {type(make(0.001)) for make, _ in INTEGRATORS.values()}
    with_bath = {c for c in every if "temperature" in {f.name for f in dataclasses.fields(c)}}
    assert with_bath == {type(i) for i in (*CONFIGURATIONAL, *KINETIC.values())}


class Euler(VelocityVerlet):
    """A scheme of first order: the second half kick is missing, the first is whole."""

    def plan(self, engine, forces):
        phases = super().plan(engine, forces)
        second = phases[-1]
        phases[-1] = dataclasses.replace(second, tasks=[t for t in second.tasks if t.kernel.__name__ != "kick"])
        for task in phases[-2 - len(forces) + 1].tasks + phases[-1 - len(forces)].tasks:
            if task.kernel.__name__ == "kick_drift":
                task.args[6][0] *= 2
        return phases


def test_the_check_finds_a_wrong_order():
    with pytest.raises(AssertionError, match="Euler: positions must converge with order 2, got"):
        check_integrator(lambda dt: Euler(dt, **TIGHT))


def oscillators(n, k=1000.0, mass=10.0):
    """Independent particles in wells k x^2/2 at the origin."""
    system = System(Topology.of_particles(n), np.full(n, mass), positions=np.zeros((n, 3)), remove_com_motion=False)
    system.add(wells(system, k))
    return system


# ---------------------------------------------------------------------------------------------------- equations of
# motion
def test_free_particles_move_straight():
    system = System(
        Topology.of_particles(3),
        [1.0, 2.0, 3.0],
        positions=np.zeros((3, 3)),
        velocities=np.arange(9.0).reshape(3, 3),
        remove_com_motion=False,
    )
    for make in (lambda: sponge.VelocityVerlet(0.5), lambda: sponge.RESPA(0.5, 2, [])):
        np.testing.assert_allclose(Trial(make(), system).run(4).engine.positions, 2 * system.velocities)


def test_velocity_verlet_is_reversible():
    system = spring_system(units=2)
    trial = Trial(sponge.VelocityVerlet(0.001, constraint_tolerance=1e-12), system).run(1)
    start = trial.state()
    trial.run(100)
    trial.engine.velocities *= -1
    trial.run(100)
    np.testing.assert_allclose(trial.engine.positions, start["positions"], atol=1e-10)
    np.testing.assert_allclose(-trial.engine.velocities, start["velocities"], atol=1e-8)


def test_nose_hoover_is_reversible():
    system = spring_system(units=1, constraints=False)
    trial = Trial(sponge.NoseHoover(300.0, 0.05, 0.001), system)
    start = trial.state()
    trial.run(200)
    trial.engine.velocities *= -1
    trial.engine.store["chain_velocities"] *= -1
    trial.run(200)
    np.testing.assert_allclose(trial.engine.positions, start["positions"], atol=1e-9)
    np.testing.assert_allclose(trial.engine.store["chain_positions"], 0, atol=1e-9)


def test_oscillator_turns_with_the_frequency_of_the_scheme():
    """Velocity Verlet's oscillator has sin(w' dt / 2) = w dt / 2."""
    system = oscillators(1)
    system.positions[0] = [0.1, 0, 0]
    system.potentials[0].params["at"][:] = 0
    system.velocities = np.zeros((1, 3))
    dt, omega = 0.02, 10.0
    shifted = 2 / dt * np.arcsin(omega * dt / 2)
    x = Trial(sponge.VelocityVerlet(dt), system).run(37).engine.positions[0, 0]
    assert np.isclose(x, 0.1 * np.cos(shifted * 37 * dt), atol=1e-12)


def test_langevin_without_friction_is_leapfrog():
    """With velocities half a step behind, positions are those of velocity Verlet."""
    system = spring_system(units=1, constraints=False)
    verlet = Trial(sponge.VelocityVerlet(0.001), system, seed=2)
    start = verlet.state()
    middle = Trial(sponge.LangevinMiddle(300.0, 1e-30, 0.001), system, seed=2)
    middle.engine.velocities[:] = start["velocities"] - 0.0005 * system.forces() / system.masses[:, None]
    np.testing.assert_allclose(middle.run(50).engine.positions, verlet.run(50).engine.positions, atol=1e-13)


def test_respa_without_slow_forces_is_velocity_verlet():
    system = spring_system(units=1)
    everything = [p.name for p in system.potentials]
    a = Trial(sponge.RESPA(0.004, 4, everything), system).run(10).engine
    b = Trial(sponge.VelocityVerlet(0.001), system).run(40).engine
    np.testing.assert_allclose(a.positions, b.positions, atol=1e-13)
    np.testing.assert_allclose(a.velocities, b.velocities, atol=1e-10)


def test_respa_computes_slow_forces_once_a_step():
    """The same error needs fewer slow forces: with stiff springs in four inner steps, the energy spreads as with a
    short step.
    """
    system = spring_system(units=1, constraints=False)
    system["wells"].params["wells"] *= 0.05
    system["springs"].params["springs"] *= 10

    def spread(integrator, stride):
        trial = Trial(integrator, system, seed=4)
        return np.std([trial.run(stride).energy() for _ in range(60)])

    short, long = spread(sponge.VelocityVerlet(0.0005), 4), spread(sponge.VelocityVerlet(0.002), 1)
    assert spread(sponge.RESPA(0.002, 4, ["springs"]), 1) < 2 * short < long / 4


@pytest.fixture(scope="module")
def flexible_water():
    """500 flexible waters with PME at 300 K, and the fast forces when the mesh is slow."""
    reference = load_reference("water_tip3p_flexible")
    system = sponge.load(reference.xml)
    system.positions = reference.positions
    sim = sponge.Simulation(system, sponge.LangevinMiddle(300.0, 10.0, 0.001), seed=3)
    sim.run(200)
    system.positions, system.velocities = sim.positions, sim.velocities
    return system, ["bond", "angle", "nonbonded/direct"]


@pytest.mark.parametrize("friction", [None, 1.0])
def test_respa_with_one_inner_step_is_the_plain_scheme(flexible_water, friction):
    """Direct and reciprocal sums apart make the forces of both."""
    system, fast = flexible_water
    bath = () if friction is None else (300.0, friction)
    plain = sponge.VelocityVerlet(0.001) if friction is None else sponge.LangevinMiddle(*bath, 0.001)
    one, other = (sponge.Simulation(system, scheme, seed=1) for scheme in (plain, sponge.RESPA(0.001, 1, fast, *bath)))
    one.run(20)
    other.run(20)
    np.testing.assert_allclose(other.positions, one.positions, rtol=0, atol=1e-12)
    np.testing.assert_allclose(other.velocities, one.velocities, rtol=0, atol=1e-9)


def test_respa_with_a_slow_mesh_keeps_the_energy(flexible_water):
    """Steps of 4 fs between evaluations of the mesh, and of 1 fs otherwise, are nearly as good as steps of 1 fs."""
    system, fast = flexible_water

    def spread(integrator):
        sim, energies = sponge.Simulation(system, integrator, seed=1), []
        for _ in range(15):
            sim.run(time=0.02)
            energies.append(sim.energies()["total"])
        return np.std(energies)

    short, long = spread(sponge.VelocityVerlet(0.001)), spread(sponge.VelocityVerlet(0.002))
    assert spread(sponge.RESPA(0.004, 4, fast)) < 2 * short < long / 2


def test_respa_computes_the_mesh_once_a_step_and_resumes(flexible_water, tmp_path):
    system, fast = flexible_water
    make = lambda: sponge.Simulation(system, sponge.RESPA(0.002, 2, fast, 300.0, 1.0), seed=1)
    sim, again = make(), make()
    assert (str(sim.plan()).count("spread ("), str(sim.plan()).count("list clock")) == (1, 2)
    sim.run(10)
    sim.save(tmp_path / "run.chk")
    again.load(tmp_path / "run.chk")
    for s in (sim, again):
        s.run(10)
    assert np.array_equal(sim.positions, again.positions) and np.array_equal(sim.velocities, again.velocities)


def test_time_between_pair_forces_and_names_of_parts(flexible_water):
    pairs = sponge.Nonbonded([0.0], [0.3], [1.0], method="pme")
    intervals = [
        sponge.RESPA(0.004, 2, fast).pair_interval([pairs]) for fast in ([], ["nonbonded"], ["nonbonded/direct"])
    ]
    with pytest.raises(ValueError, match="one of nonbonded, bond, angle, nonbonded/direct, .*, got 'nonbonded/mesh"):
        sponge.Simulation(flexible_water[0], sponge.RESPA(0.002, 2, ["nonbonded/mesh"])).plan()
    assert intervals == [0.004, 0.002, 0.002] and sponge.VelocityVerlet(0.001).pair_interval([pairs]) == 0.001


def test_energy_of_rigid_water_does_not_drift(rng):
    """Charged rigid waters in a wide well, 2 fs: no drift that a straight line through 6 ps could show."""
    system = mixture(["water"] * 8, rng, spread=0.01)
    system.positions += 0.31 * np.repeat(np.stack(np.meshgrid([0, 1], [0, 1], [0, 1]), -1).reshape(8, 3), 3, axis=0)
    charges = np.tile([-0.834, 0.417, 0.417], 8)
    i, j = np.triu_indices(24, 1)
    other = i // 3 != j // 3
    i, j = i[other], j[other]
    oxygens = (i % 3 == 0) & (j % 3 == 0)

    def energy(p, x, box):
        r2 = ((x[i] - x[j]) ** 2).sum(1)
        s6 = (p["sigma"] ** 2 / r2[oxygens]) ** 3
        inside = ((x - p["center"]) ** 2).sum(1)
        return (
            (units.COULOMB * charges[i] * charges[j] / np.sqrt(r2)).sum()
            + (4 * 0.6364 * (s6 * s6 - s6)).sum()
            + 50 * (inside**2).sum()
        )

    system.add(Formula("water", energy, sigma=0.31507, center=system.positions.mean(0)))
    trial = Trial(sponge.LangevinMiddle(300.0, 20.0, 0.002), system, seed=1).run(1000)
    system.positions, system.velocities = trial.engine.positions.copy(), trial.engine.velocities.copy()
    trial = Trial(sponge.VelocityVerlet(0.002, constraint_tolerance=1e-9), system)
    energies = np.array([trial.run(10).energy() for _ in range(300)])
    time = 0.02 * np.arange(300)
    fit = stats.linregress(time, energies)
    per_degree = fit.slope / RT / degrees_of_freedom(system)  # per ps
    assert abs(per_degree) < 2e-4 + 3 * fit.stderr / RT / degrees_of_freedom(system)
    assert np.std(energies) < 0.1 * RT


# --------------------------------------------------------------------------------------------------------------
# ensembles
def assert_within(samples, expected, sigmas=4.5, error=None):
    """Return True if the mean of independent samples is as expected."""
    error = np.std(samples) / np.sqrt(np.size(samples)) if error is None else error
    assert abs(np.mean(samples) - expected) < sigmas * error, f"{np.mean(samples)} +- {error}, expected {expected}"


@pytest.mark.parametrize("timestep", [0.02, 0.1])  # w dt = 0.2 and 1
def test_langevin_middle_is_exact_for_oscillators(timestep):
    """Zhang et al. 2019: both distributions, of positions and of half-step velocities, at any time step that is
    stable.
    """
    n, k, m = 2000, 1000.0, 10.0
    trial = Trial(sponge.LangevinMiddle(300.0, 5.0, timestep), oscillators(n, k, m), seed=11).run(400)
    x, v = [], []
    for _ in range(15):  # a friction time apart
        engine = trial.run(max(1, round(0.4 / timestep))).engine
        x.append(engine.positions.copy())
        v.append(engine.velocities.copy())
    x, v = np.concatenate(x).ravel(), np.concatenate(v).ravel()
    assert_within(0.5 * k * x**2, RT / 2)
    assert_within(0.5 * m * v**2, RT / 2)
    assert stats.kstest(x[::7] / np.sqrt(RT / k), "norm").pvalue > 1e-3
    assert stats.kstest(v[::7] / np.sqrt(RT / m), "norm").pvalue > 1e-3


def test_brownian_oscillators_have_the_variance_of_the_euler_scheme():
    n, k, m, friction, dt = 2000, 1000.0, 10.0, 50.0, 0.1
    theta = k * dt / (m * friction)  # 0.2
    trial = Trial(sponge.Brownian(300.0, friction, dt), oscillators(n, k, m), seed=3).run(60)
    x = np.concatenate([trial.run(20).engine.positions.copy() for _ in range(10)]).ravel()
    assert_within(x**2, RT / k / (1 - theta / 2))


@pytest.mark.parametrize("integrator", CONFIGURATIONAL)
def test_configurational_temperature(integrator):
    """<|grad U|^2> = RT <laplace U> (Rugh 1997), in quartic wells."""
    n, a, b = 2000, 500.0, 30000.0
    system = oscillators(n, 0.0)
    system.add(Formula("quartic", lambda p, x, box: (p["b"] * x**4).sum() / 4, b=b))
    system.add(Formula("extra", lambda p, x, box: (p["a"] * x**2).sum() / 2, a=a))
    trial = Trial(integrator, system, seed=8).run(600)
    x = np.concatenate([trial.run(100).engine.positions.copy() for _ in range(10)]).ravel()
    samples = (a * x + b * x**3) ** 2 - RT * (a + 3 * b * x**2)
    assert_within(samples, 0.0, error=np.std(samples) / np.sqrt(x.size / 3) + 0.004 * RT * np.mean(a + 3 * b * x**2))


@pytest.mark.parametrize("integrator", KINETIC.values(), ids=KINETIC)
def test_kinetic_energy_follows_chi_squared(integrator):
    """2 K / RT of a constrained, anharmonic system is chi-squared with as many degrees as are free."""
    system = spring_system(units=2)
    system.remove("springs")
    system["wells"].params.update(wells=np.array(100.0), springs=np.array(500.0))
    trial = Trial(integrator, system, seed=5).run(300)
    twice = []
    for _ in range(400):
        engine = trial.run(12).engine  # 0.05 ps
        twice.append(2 * kinetic_energy(engine.masses, engine.velocities) / RT)
    degrees = degrees_of_freedom(system)
    correlation = np.corrcoef(twice[1:], twice[:-1])[0, 1]
    independent = len(twice) * (1 - max(correlation, 0)) / (1 + max(correlation, 0))
    assert_within(np.array(twice), degrees, error=np.sqrt(2 * degrees / independent))
    assert 0.75 < np.var(twice) / (2 * degrees) < 1.3
    thinned = twice[:: max(1, round(len(twice) / independent))]
    assert stats.kstest(thinned, stats.chi2(degrees).cdf).pvalue > 1e-3


@pytest.mark.parametrize(
    "integrator",
    [sponge.Bussi(300.0, 0.05, 0.0005, 1e-9), sponge.NoseHoover(300.0, 0.05, 0.0005, constraint_tolerance=1e-9)],
)
def test_conserved_quantity(integrator):
    """What the thermostat took plus what is left stays, from a start at another temperature."""
    system = spring_system(units=2)
    trial = Trial(integrator, system, seed=6).run(200)  # hot from the potential energy at the start
    heat, energies = integrator.heat(trial.engine), []
    energies = [trial.run(25).energy() for _ in range(20)]
    assert abs(integrator.heat(trial.engine) - heat) > 50  # kJ/mol
    assert np.ptp(energies) < 0.1


# ------------------------------------------------------------------------------------------------- velocities and
# momentum
def test_thermal_velocities_belong_to_the_constrained_system(rng):
    system = mixture(["water", "XH2", "chain", "atom"] * 40, rng)
    engine = Engine(system)
    found = []
    for seed in range(40):
        set_thermal_velocities(engine, 300.0, seed)
        found.append(temperature(system, engine.velocities))
        i, j = system.constraints.pairs.T
        d = engine.positions[i] - engine.positions[j]
        along = (d * (engine.velocities[i] - engine.velocities[j])).sum(1)
        assert np.abs(along).max() < 1e-10
    degrees = degrees_of_freedom(system)
    assert degrees == 3 * system.n - len(system.constraints)
    assert_within(np.array(found), 300.0, error=300 * np.sqrt(2 / degrees / 40))
    assert 0.6 < np.std(found) / (300 * np.sqrt(2 / degrees)) < 1.5


def test_velocities_of_a_seed_are_those_of_the_seed(rng):
    engine = Engine(mixture(["water"] * 3, rng))
    drawn = [(set_thermal_velocities(engine, 300.0, seed), engine.velocities.copy())[1] for seed in (1, 1, 2)]
    assert np.array_equal(drawn[0], drawn[1]) and not np.array_equal(drawn[0], drawn[2])


def test_motion_of_the_center_of_mass_is_taken_out():
    for remove in (True, False):
        system = spring_system(units=2)
        system.remove_com_motion = remove
        system.velocities = np.ones_like(system.positions) * (system.masses > 0)[:, None]
        del system.potentials[0]  # the wells
        trial = Trial(sponge.VelocityVerlet(0.001), system).run(1)
        speed = system.masses @ trial.engine.velocities / system.masses.sum()
        np.testing.assert_allclose(speed, 0.0 if remove else 1.0, atol=1e-9)
        assert degrees_of_freedom(system) == 3 * 22 - 16 - 3 * remove


def test_a_single_atom_keeps_its_motion():
    system = System(Topology.of_particles(1), [2.0], positions=[[0, 0, 0]], velocities=[[1.0, 2, 3]])
    assert Trial(sponge.VelocityVerlet(0.1), system).run(10).engine.positions[0].tolist() == pytest.approx([1, 2, 3])
    assert degrees_of_freedom(system) == 3


# ------------------------------------------------------------------------------------------------------------------
# noise
def test_noise_is_a_function_of_step_and_atom():
    """The very numbers that Box and Muller make of Philox's words for (atom, step), whatever the number of atoms."""
    system = System(
        Topology.of_particles(21), np.full(21, 1.0), positions=np.zeros((21, 3)), velocities=np.zeros((21, 3))
    )
    trial = Trial(sponge.LangevinMiddle(300.0, 1e9, 1e-3), system, seed=12)  # velocities are noise alone
    trial.engine.flags[STEP] = 2**33 + 5
    v = trial.run(1).engine.velocities / np.sqrt(RT)
    key = np.asarray(core.random.key(12))
    expected = []
    for atom in range(21):
        w = np.array(draws.block(key[0], key[1], atom, 5, 2, NOISE), np.uint32)
        u, quarter, turn = (w + 0.5) / 2.0**32, w >> 31, (w << np.uint32(2)).view(np.int32) * (np.pi / 4 / 2.0**31)
        c, s = np.cos(turn), np.sin(turn)
        c, s = np.where(w & 0x40000000, s, c), np.where(w & 0x40000000, c, s)
        sign, r = np.where(quarter, -1.0, 1.0), np.sqrt(-2 * np.log(u))
        expected.append([r[0] * c[1] * sign[1], r[0] * s[1] * sign[1], r[2] * c[3] * sign[3]])
    np.testing.assert_allclose(v, expected, rtol=2e-5, atol=1e-6)


# -------------------------------------------------------------------------------------------------------------- bad
# input
@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: sponge.VelocityVerlet(0.0), "VelocityVerlet: timestep must be a positive number, got 0.0"),
        (lambda: sponge.VelocityVerlet("2 fs"), "timestep must be a positive number, got '2 fs'"),
        (
            lambda: sponge.LangevinMiddle(temperature=-1, friction=1, timestep=0.001),
            "temperature must be a positive number, got -1",
        ),
        (lambda: sponge.LangevinMiddle(300, np.nan, 0.001), "friction must be a positive number, got nan"),
        (lambda: sponge.NoseHoover(300, 0.1, 0.001, chain=0), "chain must be an integer >= 1, got 0"),
        (lambda: sponge.Bussi(300, np.inf, 0.001), "relaxation_time must be a positive number, got inf"),
        (lambda: sponge.RESPA(0.004, 0, []), "inner must be an integer >= 1, got 0"),
        (lambda: sponge.RESPA(0.004, 2, ["bond"], temperature=300.0), "temperature and friction go together"),
    ],
)
def test_bad_options(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_respa_names_the_potentials_there_are():
    with pytest.raises(ValueError, match="names in fast must be 'wells' or 'springs', got 'bonds'"):
        Trial(sponge.RESPA(0.002, 2, ["bonds"]), spring_system())
    with pytest.raises(TypeError, match="must be a sequence of names"):
        sponge.RESPA(0.002, 2, "bond")


def test_springs_are_a_potential():
    assert Springs("springs", np.zeros((2, 3)), springs=1.0).energy(
        {"at": np.zeros((2, 3)), "wells": 0.0, "springs": 1.0}, np.array([[0.0, 0, 0], [0.2, 0, 0]]), None
    ) == pytest.approx(4e-4)
