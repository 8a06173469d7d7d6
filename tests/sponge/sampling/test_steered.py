"""Steered dynamics: works against a known free energy, in both directions; records and restarts."""

import numpy as np
import pytest

from triskele import sponge
from triskele.sponge import analysis, cv, units
from triskele.sponge.testing import example_system

X = cv.function(lambda x: x[0, 0], [0], name="x")
STIFFNESS, K = 400.0, 2000.0  # of the well, of the bias (kJ/mol/nm^2)


def particle(pull, integrator=None, seed=1):
    """A particle of 10 dalton in a harmonic well."""
    system = sponge.System(
        sponge.Topology.of_particles(1), [10.0], positions=[[0.0, 0.0, 0.0]], remove_com_motion=False
    )
    system.add(sponge.FunctionPotential(lambda x: 0.5 * STIFFNESS * np.sum(x**2)))
    return sponge.Simulation(system, integrator or sponge.LangevinMiddle(300, 20.0, 0.002), seed=seed, sampling=[pull])


def works(start, end, runs, seed, steps=1000):
    """Works of runs from equilibrium."""
    pull = sponge.SteeredMD(X, start, end, K, steps)
    sim, found = particle(pull, seed=seed), []
    joint, rng = STIFFNESS + K, np.random.default_rng(seed)
    for _ in range(runs):
        spread = np.sqrt(units.GAS_CONSTANT * 300 / np.array([joint, STIFFNESS, STIFFNESS]))
        sim.positions = [rng.normal([K * start / joint, 0, 0], spread)]
        sim.thermalize(300)
        pull.restart()
        sim.run(steps)
        found.append(pull.work)
    return np.array(found)


@pytest.mark.slow
def test_works_give_the_free_energy_in_both_directions():
    """F(c) = 1/2 c^2 k K / (k + K) of a spring that holds a particle in a well."""
    exact = 0.5 * 0.3**2 * STIFFNESS * K / (STIFFNESS + K)
    forward, back = works(0.0, 0.3, 150, 1), works(0.3, 0.0, 150, 2)
    assert forward.mean() > exact + 0.3 and back.mean() > 0.3 - exact, "work is lost on the way"
    for found, expected in ((forward, exact), (back, -exact)):
        value, error = analysis.jarzynski(found, temperature=300.0)
        assert abs(value - expected) < 4 * error < 4.0
    value, error = sponge.alchemy.bar(forward, back, temperature=300.0)
    assert abs(value - exact) < 4 * error < 2.0


@pytest.mark.parametrize("integrator", [sponge.VelocityVerlet(0.002), sponge.LangevinMiddle(300, 20.0, 0.002)])
def test_slow_work_is_what_the_energy_gains(integrator):
    """At constant energy the work is the change of the energy, and slow work is the free energy."""
    pull = sponge.SteeredMD(X, 0.0, 0.2, K, 5000, record=50)
    sim = particle(pull, integrator)
    before = sim.energies()["total"]
    sim.run(5000)
    assert pull.centers[-1, 0] == pytest.approx(0.2, abs=0.0021)
    assert len(pull.works) == len(pull.steps) == pytest.approx(100, abs=1)
    if integrator.forces_at == "new":
        assert pull.work == pytest.approx(sim.energies()["total"] - before, abs=0.02)
    assert pull.work == pytest.approx(0.5 * 0.2**2 * STIFFNESS * K / (STIFFNESS + K), abs=4.0)
    done = pull.work
    sim.run(100)
    assert pull.work == pytest.approx(done, abs=0.05), "the center stays where it is"


@pytest.mark.parametrize("integrator", [sponge.VelocityVerlet(0.002), sponge.LangevinMiddle(300, 20.0, 0.002)])
def test_the_last_move_counts(integrator):
    """The work of a jump is the difference of energies where it happens, as soon as it has happened."""
    pull = sponge.SteeredMD(X, 0.0, 0.3, K, 1)
    sim = particle(pull, integrator)
    sim.run(1)
    done = pull.work
    assert done == pytest.approx(0.5 * K * (0.3**2 - 0.6 * sim.positions[0, 0]), rel=1e-12)
    sim.run(10)
    assert pull.work == done == pull.works[-1]


@pytest.mark.parametrize("integrator", [sponge.VelocityVerlet(0.002), sponge.LangevinMiddle(300, 20.0, 0.002)])
def test_energies_follow_a_restart(integrator):
    pull = sponge.SteeredMD(X, 0.0, 0.3, K, 100)
    sim = particle(pull, integrator)
    sim.run(100)
    assert sim.energies()["steered"] == pytest.approx(0.5 * K * (sim.positions[0, 0] - 0.3) ** 2)
    pull.restart()
    assert sim.energies()["steered"] == pytest.approx(0.5 * K * sim.positions[0, 0] ** 2)


def test_a_torsion_goes_the_way_that_is_asked_for():
    pull = sponge.SteeredMD(cv.torsion(0, 1, 2, 3), np.radians(170), np.radians(190), 500.0, 400)
    system = example_system(sponge.harmonic_bond([[i, i + 1] for i in range(11)], k=1e5, r0=0.15))
    sim = sponge.Simulation(system, sponge.LangevinMiddle(300, 50.0, 0.001), seed=1, sampling=[pull])
    sim.run(2000)
    angle = np.degrees(pull.values[-20:, 0])
    assert np.all(np.abs((angle - 190 + 180) % 360 - 180) < 30)


def test_a_run_resumes_bit_for_bit(tmp_path):
    pulls = [sponge.SteeredMD(X, 0.0, 0.3, K, 4000, record=5) for _ in range(3)]
    whole, first, second = (particle(p) for p in pulls)
    whole.run(4000)
    first.run(1777, report=[sponge.Checkpoint(tmp_path / "run.chk", every=1777)])
    second.load(tmp_path / "run.chk")
    second.run(4000 - 1777)
    np.testing.assert_array_equal(second.positions, whole.positions)
    np.testing.assert_array_equal(pulls[2].works, pulls[0].works)
    assert pulls[2].work == pulls[0].work


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0.0}, "k must be a positive number"),
        ({"k": "stiff"}, "k must be a positive number, or one for each of 1 variables, got 'stiff'"),
        ({"start": [0.0, 1.0]}, "start must be a finite number, or one for each of 1 variables"),
        ({"end": np.nan}, "end must be a finite number"),
        ({"cvs": cv.torsion(0, 1, 2, 3), "end": 190.0}, "got 190 .angles are in radians"),
        ({"duration": 0}, "duration must be"),
        ({"record": 0}, "record must be"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        sponge.SteeredMD(**{"cvs": X, "start": 0.0, "end": 1.0, "k": 10.0, "duration": 10, **options})


def test_bad_use_is_named():
    pull = sponge.SteeredMD(X, 0.0, 1.0, K, 10)
    particle(pull)
    with pytest.raises(ValueError, match="belongs to one simulation, and has one already"):
        particle(pull)
    with pytest.raises(ValueError, match="works must be at least two finite numbers"):
        analysis.jarzynski([1.0, np.inf], temperature=300.0)


def test_one_work_may_outweigh_all_others():
    """The sum without the largest term is that of the others, not a difference that has lost them."""
    value, error = analysis.jarzynski([0.0, 200.0, 201.0], temperature=300.0)
    assert np.isfinite([value, error]).all() and error > 100
