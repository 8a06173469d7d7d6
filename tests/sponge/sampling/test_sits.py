"""SITS: what it samples, learns, records and hands out, against systems whose partition functions are known.

Atoms tied to places by springs have Z(T) ~ T^(3n/2), whatever the enhanced part; a torsion on springs has the potential
of mean force that was put in. The forces themselves, split and scaled, are tested elsewhere.
"""

import numpy as np
import pytest

from triskele import sponge
from triskele.core.extend import Task, kernel
from triskele.sponge import analysis, cv, units
from triskele.sponge.engine.flags import STATUS, STEP
from triskele.sponge.engine.program import Phase
from triskele.sponge.errors import CheckpointError
from triskele.sponge.run.sampling_method import Sampling

N = 10  # atoms, so 30 degrees of freedom
R = units.GAS_CONSTANT
T0 = 300.0
LADDER = units.ladder(280, 600, 20)
BETAS = 1 / (R * LADDER)
EXACT = 1.5 * N * np.log(BETAS)
EXACT -= EXACT.mean()
KCAL = units.kcal_per_mol


@sponge.bond_potential
def constant(r, c):
    """The same energy at any length."""
    return c


def springs(offset=0.0):
    """Atoms on springs."""
    x = np.random.default_rng(0).normal(0, 0.05, (N, 3))
    system = sponge.System(sponge.Topology.of_particles(N), [12.0] * N, positions=x, remove_com_motion=False)
    system.add(sponge.PositionRestraint(range(N), k=1000.0, reference=np.zeros((N, 3))))
    if offset:
        system.add(constant([[0, 1]], c=offset))
    return system


@kernel(nogil=True)
def fail_once(_chunk, flags, code, step, failed):
    if flags[STEP] == step and failed[0] == 0:
        failed[0] = 1
        flags[STATUS] = code


class FailsOnce(Sampling):
    """A method whose phase fails in one step, and succeeds when it is tried again."""

    name = "fails once"

    def plan(self, engine):
        return sponge.Plan()

    def after_step(self, engine, integrator):
        self._failed = np.zeros(1, np.int64)
        engine.on_status(777, lambda engine: False)
        return [Phase([Task(fail_once, engine.flags, 777, 30, self._failed)])]


def test_a_step_of_which_a_later_phase_fails_is_recorded_once():
    runs = []
    for others in ([], [FailsOnce()]):
        method = sponge.SITS(temperatures=LADDER, block=10, every=10, estimator="approximation")
        sim = sponge.Simulation(springs(), sponge.LangevinMiddle(T0, 1.0, 0.002), sampling=[method, *others], seed=1)
        sim.run(200)
        assert not others or others[0]._failed[0] == 1
        runs.append((method.steps, method.energies, method.log_n, sim.positions))
    assert np.array_equal(runs[0][0], np.arange(0, 200, 10))
    for one, other in zip(*runs):
        np.testing.assert_array_equal(one, other)


def energy_of(x):
    return 500.0 * np.sum(x**2)


def langevin(temperature=T0):
    return sponge.LangevinMiddle(temperature=temperature, friction=5.0, timestep=0.01)


def run_of(sits, steps=0, seed=1, integrator=None, offset=0.0):
    sim = sponge.Simulation(springs(offset), integrator or langevin(), sampling=[sits], seed=seed)
    sim.run(steps)
    return sim


def tempering(**options):
    return sponge.SITS(**{"temperatures": LADDER, "block": 100, **options})


# -- what it learns ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ["mbar", "iteration", "approximation", "opes"])
def test_weights_of_the_ladder_are_those_of_oscillators(estimator):
    sits = tempering(estimator=estimator)
    sim = run_of(sits, 500_000)
    assert np.abs(sits.log_n - EXACT).max() < 0.1
    frozen = sits.produce().log_n
    sim.run(500_000)
    assert np.array_equal(sits.log_n, frozen)
    assert sits.flatness() < 0.1 and sits.round_trips > 500
    assert sits.produced.sum() == 50_000 and not sits.produced[:50_000].any()
    temperatures = np.array([285.0, 400.0, 590.0])
    value, error = sits.free_energies(temperatures)
    assert np.all(np.abs(value + 1.5 * N * np.log(temperatures / T0)) < 4 * error + 1e-3)
    value, error = sits.heat_capacity(temperatures)
    assert np.all(np.abs(value - 1.5 * N * R) < 4 * error)
    assert np.all(error < 0.1 * 1.5 * N * R)
    for t in (T0, *temperatures):
        mean = analysis.mean(sits.energies, sits.weights(temperature=t))
        assert abs(mean.value - 1.5 * N * R * t) < 4 * mean.error + 1e-3 * mean.value


@pytest.mark.parametrize("estimator", ["mbar", "iteration", "approximation", "opes"])
@pytest.mark.parametrize("offset", [100 * KCAL, -100 * KCAL])
def test_an_offset_of_the_energy_changes_nothing(estimator, offset):
    """Neither where the atoms go, nor n_k but for the turn by beta_k, nor any weight."""
    here, there = tempering(estimator=estimator), tempering(estimator=estimator)
    one, other = run_of(here, 15_000), run_of(there, 15_000, offset=offset)
    np.testing.assert_allclose(one.positions, other.positions, atol=1e-9)
    turned = there.log_n - BETAS * offset
    np.testing.assert_allclose(turned - turned.mean(), here.log_n, atol=1e-9)
    np.testing.assert_allclose(there.energies - here.energies, offset, atol=1e-9)
    assert there.flatness() == pytest.approx(here.flatness(), abs=1e-9)
    here.produce(), there.produce()
    one.run(3000), other.run(3000)
    steps = here.steps[here.produced]
    np.testing.assert_allclose(here.weights(steps), there.weights(steps), rtol=1e-6)


def test_initialize_gives_flat_shares_at_once():
    sits = tempering()
    sim = run_of(sits)
    sits.initialize(sim, 10_000, temperatures=4)
    assert sim.step == 40_000 and sits.mode == "iterate"
    assert np.abs(sits.log_n - EXACT).max() < 0.3
    sits.produce()
    sim.run(30_000)
    assert sits.flatness() < 0.35
    mean = analysis.mean(sits.energies, sits.weights())  # runs at one temperature count with their own weights
    assert abs(mean.value - 1.5 * N * R * T0) < 4 * mean.error


def test_walkers_agree_and_learn_from_each_other():
    walkers = sponge.MultipleWalkers(
        lambda k: sponge.Simulation(springs(), langevin(), seed=k, sampling=[tempering()]), 3, every=500
    )
    walkers.run(12_000)
    shared = walkers.each(lambda sim: sim.sampling[0])
    assert all(np.array_equal(s.log_n, shared[0].log_n) for s in shared)
    assert not np.array_equal(shared[0].energies, shared[1].energies)
    assert np.abs(shared[0].log_n - EXACT).max() < 0.5


@pytest.mark.parametrize("estimator", ["approximation", "opes"])
def test_walkers_share_what_they_learn_in_the_step_loop(estimator):
    walkers = sponge.MultipleWalkers(
        lambda k: sponge.Simulation(springs(), langevin(), seed=k, sampling=[tempering(estimator=estimator)]),
        3,
        every=500,
    )
    walkers.run(30_000)
    shared = walkers.each(lambda sim: sim.sampling[0])
    assert all(np.array_equal(s.log_n, shared[0].log_n) for s in shared)
    assert np.abs(shared[0].log_n - EXACT).max() < 0.5
    if estimator == "approximation":  # energies of all three, but for the start
        assert shared[0]._learner.numbers[0] == pytest.approx(3 * 2950, rel=0.05)


# -- a torsion that plain dynamics never turns
# ------------------------------------------------------------------------------


def torsion():
    """V(phi) = 15 cos(2 phi - 0.4) + 5 cos(3 phi + 0.6) kcal/mol on a chain of springs, in its higher minimum."""
    x = np.array([[-0.05, 0.14, 0], [0, 0, 0], [0.15, 0, 0], [0.2, 0.003, 0.14]])
    system = sponge.System(sponge.Topology.of_particles(4), [12.0] * 4, positions=x)
    system.add(sponge.harmonic_bond([[0, 1], [1, 2], [2, 3]], k=1e5, r0=0.15))
    system.add(sponge.harmonic_angle([[0, 1, 2], [1, 2, 3]], k=500.0, theta0=1.9))
    system.add(
        sponge.periodic_torsion([[0, 1, 2, 3]] * 2, k=[15 * KCAL, 5 * KCAL], periodicity=[2, 3], phase=[0.4, -0.6])
    )
    return system


@pytest.mark.slow
def test_torsion_is_turned_and_its_potential_comes_back():
    thermostat = sponge.LangevinMiddle(temperature=T0, friction=5.0, timestep=0.003)
    phi = sponge.Variables({"phi": cv.torsion(0, 1, 2, 3)}, every=100)
    sponge.Simulation(torsion(), thermostat, seed=1).run(100_000, report=phi)
    assert np.all(np.abs(phi["phi"] - np.radians(88.7)) < 0.7)  # plain dynamics stays where it began

    sits = sponge.SITS(temperatures=units.ladder(100, 6000, 60), terms=["torsion"])
    sim = sponge.Simulation(torsion(), thermostat, seed=1, sampling=[sits])
    sim.run(300_000)
    sits.produce()
    phi = sponge.Variables({"phi": cv.torsion(0, 1, 2, 3)}, every=100)
    sim.run(2_000_000, report=phi)
    assert phi["phi"].min() < -2.5 and phi["phi"].max() > 2.5
    edge = np.linspace(-np.pi, np.pi, 37)
    density = np.histogram(phi["phi"], edge, weights=sits.weights(phi.steps))[0]
    fine = np.linspace(-np.pi, np.pi, 3601)[:-1] + np.pi / 3600
    v = 15 * np.cos(2 * fine - 0.4) + 5 * np.cos(3 * fine + 0.6)
    rt = R * T0 / KCAL
    exact = -rt * np.log(np.exp(-v / rt).reshape(36, 100).mean(1))
    low = exact - exact.min() < 15
    found = -rt * np.log(density[low])
    difference = found - exact[low]
    difference -= difference.mean()
    assert np.sqrt(np.mean(difference**2)) < 0.2 and np.abs(difference).max() < 0.5  # kcal/mol
    # the two wells against each other: 8.4 kcal/mol, the upper one being wider
    middle = 0.5 * (edge[1:] + edge[:-1])[low]
    wells = [-rt * np.log(np.sum(density[low][side])) for side in (middle > 0, middle < 0)]
    wanted = [-rt * np.log(np.sum(np.exp(-exact[low][side] / rt))) for side in (middle > 0, middle < 0)]
    assert wells[0] - wells[1] == pytest.approx(wanted[0] - wanted[1], abs=0.3)


# -- modes and records
# ----------------------------------------------------------------------------------------------------


def test_observing_is_plain_dynamics():
    sits = tempering().observe()
    observed = run_of(sits, 3000)
    plain = sponge.Simulation(springs(), langevin(), seed=1)
    plain.run(3000)
    assert np.array_equal(observed.positions, plain.positions)
    assert sits.energies.mean() == pytest.approx(1.5 * N * R * T0, rel=0.2)
    np.testing.assert_allclose(sits.weights(), 1 / len(sits.steps))


def test_energies_follow_a_change_of_the_mode():
    sits = tempering(temperature=T0)
    sits.log_n = EXACT
    sim = run_of(sits, 10, integrator=sponge.VelocityVerlet(timestep=0.005))
    assert sim.energies()["sits"] != 0
    sits.observe()
    assert sim.energies()["sits"] == 0


@pytest.mark.parametrize(
    "integrator",
    [
        langevin(),
        sponge.VelocityVerlet(timestep=0.005),
        sponge.Bussi(temperature=T0, relaxation_time=0.1, timestep=0.005),
    ],
)
def test_records_belong_to_the_states_that_reporters_see(integrator):
    sits = tempering(every=5, temperature=T0)
    seen = {}
    sim = sponge.Simulation(
        springs(), integrator, sampling=[sits], seed=2, velocities=np.random.default_rng(1).normal(0, 0.3, (N, 3))
    )
    sim.run(2000, report=sponge.Callback(5, lambda sim: seen.update({sim.step: energy_of(sim.positions)})))
    recorded = dict(zip(sits.steps, sits.energies))
    common = sorted(set(recorded) & set(seen))
    assert common[-1] >= 1995 and len(common) >= 399
    np.testing.assert_allclose([recorded[s] for s in common], [seen[s] for s in common], rtol=1e-9)
    # the last state may not be among the records yet, but has a weight all the same, and asking leaves no trace
    before, weights = len(sits.steps), sits.weights(np.array(sorted(seen)))
    assert len(weights) == 400 and weights.sum() == pytest.approx(1) and len(sits.steps) == before


def test_the_weight_of_the_present_state_is_the_one_it_has_once_recorded():
    sits = tempering()
    sim = run_of(sits, 20_000)
    sits.produce()
    sim.run(5000)
    steps = np.arange(20_010, 25_001, 10)
    ahead = sits.weights(steps)
    sim.run(1)
    np.testing.assert_allclose(sits.weights(steps), ahead, rtol=1e-3)  # a sample more: other c_k
    assert np.array_equal(sits.steps[-1:], [25_000])


def test_approximation_gives_no_weight_to_what_was_drawn_while_n_k_moved():
    sits = tempering(estimator="approximation", block=400)
    sim = run_of(sits, 4001)  # the first block is plain, the second has begun
    sim.run(4000)
    weights = sits.weights()
    assert np.all(weights[:400] > 0) and np.all(weights[402:800] == 0)


def test_round_trips_are_counted():
    sits = tempering(block=10)
    sim = run_of(sits)
    low, high = 10.0, 100.0
    series = np.tile([low, 20.0, high, 20.0], 60)
    sits._history.records.append(np.column_stack([10 * np.arange(240), series, np.zeros(240)]))
    sits.log_n = EXACT
    assert sits.round_trips == 59  # the last one has not come back
    assert sim.step == 0


def test_visits_of_a_region_are_counted():
    sits = tempering()
    run_of(sits, 2000)
    inside = np.zeros(len(sits.steps), bool)
    inside[[0, 1, 5, 6, 7, 20]] = True
    assert sits.visits(inside) == 3
    sits.log_n = EXACT
    sits.produce()
    assert sits.visits(inside[[0, 2, 5]], sits.steps[[0, 2, 5]]) == 2  # as long as there are no others
    with pytest.raises(ValueError, match="one bool for each of"):
        sits.visits(inside[:-1])


def test_report_says_what_matters():
    sits = tempering()
    run_of(sits, 30_000)
    assert sits.report().startswith("sits: iterate, 3000 energies, flatness 0.") and sits.report().endswith(
        " round trips"
    )


# -- restarts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ["mbar", "iteration", "approximation"])
@pytest.mark.parametrize("at", [700, 1500, 2345])  # before the first n_k, between two, and off all intervals
def test_a_run_goes_on_bit_for_bit(tmp_path, estimator, at):
    whole, first, second = (tempering(estimator=estimator) for _ in range(3))
    one = run_of(whole, 4000)
    one.run(1000)
    sim = run_of(first, at)
    sim.save(tmp_path / "run.chk")
    other = sponge.Simulation(springs(), langevin(), sampling=[second], seed=1)
    other.load(tmp_path / "run.chk")
    other.run(5000 - at)
    assert np.array_equal(one.positions, other.positions)
    assert np.array_equal(whole.log_n, second.log_n) and np.array_equal(whole.steps, second.steps)
    assert np.array_equal(whole.energies, second.energies) and np.array_equal(whole.weights(), second.weights())
    assert second.mode == "iterate"


def test_mode_and_frozen_weights_are_part_of_a_checkpoint(tmp_path):
    sits = tempering()
    sim = run_of(sits, 5000)
    sits.produce()
    sim.run(1000)
    sim.save(tmp_path / "run.chk")
    other = tempering()
    again = sponge.Simulation(springs(), langevin(), sampling=[other], seed=1)
    again.load(tmp_path / "run.chk")
    again.run(4000)
    assert other.mode == "produce" and np.array_equal(other.log_n, sits.log_n) and other.produced.sum() == 500


def test_walkers_go_on_bit_for_bit():
    def make(k):
        return sponge.Simulation(springs(), langevin(), seed=k, sampling=[tempering()])

    whole, parts = sponge.MultipleWalkers(make, 2, every=300), sponge.MultipleWalkers(make, 2, every=300)
    whole.run(4200)
    parts.run(2100)
    saved = parts.each(lambda sim: sim.sampling[0].state())
    for method, state in zip(parts.each(lambda sim: sim.sampling[0]), saved):
        method.restore(state)
    parts.run(2100)
    assert np.array_equal(*(walkers.each(lambda sim: sim.sampling[0].log_n)[1] for walkers in (whole, parts)))


def test_a_state_is_cheap_and_stays_as_it_was():
    sits = tempering()
    sim = run_of(sits, 20_000)
    state = sits.state()
    assert state["records"].base is not None  # a view, not a copy
    before = {k: np.copy(v) for k, v in state.items()}
    sim.run(20_000)
    sits.restore(state)
    sim.run(5000)
    for k, v in state.items():
        assert np.array_equal(v, before[k], equal_nan=True), k


@pytest.mark.parametrize(
    "change", [{"temperatures": units.ladder(280, 500, 20)}, {"every": 5}, {"estimator": "iteration"}, {"cross": 1.0}]
)
def test_checkpoints_of_other_settings_are_refused(tmp_path, change):
    run_of(tempering(), 100).save(tmp_path / "run.chk")
    other = sponge.Simulation(springs(), langevin(), sampling=[tempering(**change)], seed=1)
    with pytest.raises(CheckpointError, match=f"sampling sits: {next(iter(change))}"):
        other.load(tmp_path / "run.chk")


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, message",
    [
        ({"temperatures": []}, "temperatures must be positive numbers, at least one"),
        ({"temperatures": ["300 K"]}, "temperatures must be numbers in K, got"),
        ({"temperatures": [300, np.nan]}, "temperatures must be positive"),
        ({"temperatures": [-300.0, 400.0]}, "temperatures must be positive"),
        ({"cross": 1.5}, "cross must be a number from 0 to 1"),
        ({"temperature": -1.0}, "temperature must be a positive number"),
        ({"estimator": "guess"}, "estimator must be one of iteration, mbar, approximation, opes, got 'guess'"),
        ({"every": 0}, "every must be an integer >= 1"),
        ({"every": 2.5}, "every must be an integer >= 1"),
        ({"block": 3}, "block must be an integer >= 10"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises((TypeError, ValueError), match=f"SITS: {message}"):
        tempering(**options)


@pytest.mark.parametrize(
    "options, message",
    [
        (
            {"temperatures": units.ladder(310, 600, 10)},
            r"the ladder must contain the temperature of 300.0 K, got 310.0 to 600.0 K",
        ),
        ({"temperature": 700.0}, "the ladder must contain the temperature of 700.0 K"),
        ({"solute": []}, "must have at least one atom"),
        ({"solute": "ALA"}, "must be a sequence of atom indices, or a mask of 10 booleans"),
        ({"solute": [0, 10]}, "atoms must be 0 to 9, got 0 to 10"),
        ({"terms": ["torsion"]}, "must name potentials of the system, got 'torsion'"),
    ],
)
def test_options_that_do_not_fit_the_system(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        run_of(tempering(**options))


def test_weights_need_a_simulation():
    with pytest.raises(ValueError, match="SITS: must belong to a simulation that has run"):
        tempering().weights()


def test_a_temperature_is_needed():
    with pytest.raises(ValueError, match="temperature must be given, as VelocityVerlet has none"):
        run_of(tempering(), integrator=sponge.VelocityVerlet(timestep=0.001))


def test_weights_of_the_ladder_must_be_finite_and_there():
    sits = tempering()
    for bad in ([0.0], np.full(20, np.nan), np.r_[np.inf, np.zeros(19)]):
        with pytest.raises(ValueError, match=r"must (have shape \(20,\), got \(1,\)|be finite, got (nan|inf) at 0)"):
            sits.log_n = bad
    with pytest.raises(ValueError, match="n_k must have been learned or set before produce"):
        sits.produce()
    sits.log_n = EXACT
    assert sits.produce().mode == "produce"


def test_one_method_belongs_to_one_simulation():
    sits = tempering()
    run_of(sits)
    with pytest.raises(ValueError, match="belongs to one simulation, and has one already"):
        run_of(sits)
    with pytest.raises(ValueError, match="must be given the simulation that this method belongs to"):
        tempering().initialize(run_of(tempering()), 1000)


def test_states_and_temperatures_that_cannot_be_reweighted():
    sits = tempering()
    run_of(sits, 5000)
    with pytest.raises(
        ValueError, match=r"steps must be among those recorded \(multiples of 10, from 0 to 4990\), got 15"
    ):
        sits.weights(np.array([10, 15]))
    with pytest.raises(ValueError, match="steps must be whole numbers"):
        sits.weights(np.array([1.5]))
    for temperature in (200.0, 700.0, np.nan):
        with pytest.raises(ValueError, match="temperature must be within the ladder, 280 to 600 K"):
            sits.weights(temperature=temperature)
    few = tempering()
    run_of(few, 100)
    with pytest.raises(ValueError, match="at least 40 samples are needed for errors"):
        few.free_energies()


def test_a_part_of_the_energy_says_nothing_about_other_temperatures_of_the_whole():
    system = springs()
    system.add(constant([[0, 1]], c=1.0))
    sits = tempering(
        terms=["position_restraint"]
        if "position_restraint" in [p.name for p in system.potentials]
        else [system.potentials[0].name]
    )
    sim = sponge.Simulation(system, langevin(), sampling=[sits])
    sim.run(3000)
    assert sits.weights().sum() == pytest.approx(1)
    with pytest.raises(ValueError, match="only if the enhanced energy is all of the potential energy"):
        sits.weights(temperature=400.0)


def test_energies_that_are_not_finite_are_refused():
    sits = tempering()
    run_of(sits, 3000)
    sits._history.records.append(np.array([[3000, np.nan, 0.0]]))
    with pytest.raises(FloatingPointError, match="the enhanced energy must be finite, got nan at state 3000"):
        sits.weights()
