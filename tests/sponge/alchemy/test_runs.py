"""Runs with lambdas: records, exchanges, walks through states, and checkpoints of all of them."""

import numpy as np
import pytest

from tests.data.sponge.alchemy import systems
from triskele import core, sponge
from triskele.sponge import alchemy, units

SCHEDULE = alchemy.Schedule(electrostatics=[1, 0.4, 0, 0], sterics=[1, 1, 1, 0.4])
BATH = sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.0005)
QUICK = sponge.LangevinMiddle(temperature=300, friction=8.0, timestep=0.02)
SPRINGS = alchemy.Schedule(restraints=[1.0, 0.6, 0.35, 0.2])


@pytest.fixture(scope="module")
def soft():
    return alchemy.decouple(systems.system("methanol"), range(6))


def spring():
    """Two atoms on a spring that scales with a lambda: the partition function goes as its power -3/2."""
    system = sponge.System(
        sponge.Topology.of_particles(2), [12.0, 12.0], positions=[[0, 0, 0], [0.1, 0, 0]], remove_com_motion=False
    )
    system.add(sponge.Nonbonded([0.0, 0.0], [0.3, 0.3], [0.0, 0.0], method="none"))
    system.add(sponge.distance_restraint([[0, 1]], k=500.0, lower=0.0, upper=0.0))
    return alchemy.decouple(system, [0], restraints=["distance_restraint"])


@pytest.mark.parametrize("integrator", [BATH, sponge.VelocityVerlet(0.0005)])
def test_records_are_the_energies_of_the_positions(soft, integrator):
    states = alchemy.States(SCHEDULE, state=1, record=3)
    sim = sponge.Simulation(soft, integrator, sampling=[states], seed=1, precision="double")
    positions = {0: sim.positions}
    for _ in range(9):
        sim.run(1)
        positions[sim.step] = sim.positions
    assert set(states.visited) == {1} and np.all(states.steps % 3 == 0) and len(states.steps) == 3
    for k, step in enumerate(states.steps):
        u = alchemy.energies(soft, SCHEDULE, positions[step])
        np.testing.assert_allclose(states.energies[k], u - u[1], atol=1e-8 * abs(u[1]))
        slopes = alchemy.derivatives(soft, SCHEDULE, positions[step])
        for name in SCHEDULE.names:
            assert states.derivatives[name][k] == pytest.approx(slopes[name][1], rel=1e-8, abs=1e-7)


def test_records_are_those_of_one_simulation(soft):
    states = alchemy.States(SCHEDULE, record=3)
    sponge.Simulation(soft, BATH, sampling=[states])
    with pytest.raises(ValueError, match="States 'states': belongs to one simulation"):
        sponge.Simulation(soft, BATH, sampling=[states])


def test_a_state_can_be_changed_between_runs(soft):
    states = alchemy.States(SCHEDULE)
    sim = sponge.Simulation(soft, BATH, sampling=[states], seed=1, precision="double")
    program = sim._runner.program
    for k in (3, 0, 2):
        states.current = k
        assert sim.energies()["potential"] == pytest.approx(
            alchemy.energies(soft, SCHEDULE, sim.positions)[k], rel=1e-10
        )
        sim.run(2)
        sim._engine.compute(sim.positions)
        there = soft.copy()
        alchemy.set_lambdas(there, **SCHEDULE[k])
        np.testing.assert_allclose(sim._engine.forces, there.forces(sim.positions), atol=1e-6)
    assert sim._runner.program is program
    with pytest.raises(ValueError, match="state must"):
        states.current = 4


def test_runs_in_mixed_precision_record_nearly_the_same(soft):
    energies = []
    for precision in ("mixed", "double"):
        states = alchemy.States(SCHEDULE, state=1, record=1)
        sponge.Simulation(soft, BATH, sampling=[states], seed=1, precision=precision).run(1)
        energies.append(states.energies[0])
    np.testing.assert_allclose(*energies, atol=2e-3)


def test_results_are_the_same_for_any_number_of_threads(soft):
    found, before = [], core.get_threads()
    for threads in (1, 2):
        core.set_threads(threads)
        try:
            states = alchemy.States(SCHEDULE, state=3, record=5)
            sim = sponge.Simulation(soft, BATH, sampling=[states], seed=1)
            sim.run(20)
        finally:
            core.set_threads(before)
        found.append((sim.positions, states.energies))
    assert all(np.array_equal(a, b) for a, b in zip(*found))


METHODS = {
    "states": lambda: alchemy.States(SCHEDULE, state=2, record=4),
    "sams": lambda: alchemy.ExpandedEnsemble(SCHEDULE, every=5),
    "wang_landau": lambda: alchemy.ExpandedEnsemble(SCHEDULE, every=5, weights="wang_landau"),
}


@pytest.mark.parametrize("method", METHODS)
def test_runs_resume_bit_for_bit(soft, tmp_path, method):
    def simulation():
        made = METHODS[method]()
        barostat = sponge.MonteCarloBarostat(pressure=1.0, every=7) if method == "sams" else None
        return made, sponge.Simulation(soft, BATH, sampling=[made], seed=3, barostat=barostat)

    whole, sim = simulation()
    sim.run(17)
    sim.save(tmp_path / "a.chk")
    sim.run(23)
    other, again = simulation()
    again.load(tmp_path / "a.chk")
    again.run(23)
    assert np.array_equal(sim.positions, again.positions) and np.array_equal(whole.energies, other.energies)
    assert np.array_equal(whole.visited, other.visited) and len(whole.steps) > 5
    for name, values in whole.state().items():
        assert np.array_equal(values, other.state()[name]), name


def test_walks_draw_after_multiples_of_every_in_pieces_too(soft):
    walks = []
    for pieces in ((40,), (4, 1, 5, 13, 17)):
        walk = alchemy.ExpandedEnsemble(SCHEDULE, every=5)
        sim = sponge.Simulation(soft, BATH, sampling=[walk], seed=6, precision="double")
        for steps in pieces:
            sim.run(steps)
        walks.append((walk, sim.positions))
    (walk, positions), (other, again) = walks
    assert walk.steps.tolist() == other.steps.tolist() == list(range(5, 41, 5))
    assert np.array_equal(positions, again) and np.array_equal(walk.energies, other.energies)
    assert np.array_equal(walk.weights, other.weights) and np.array_equal(walk.visited, other.visited)
    u = alchemy.energies(soft, SCHEDULE, positions)
    np.testing.assert_allclose(walk.energies[-1], u - u[walk.visited[-1]], atol=1e-8 * np.abs(u).max())


def test_exchange_resumes_bit_for_bit_and_decides_by_the_energies(soft, tmp_path):
    def replicas():
        return alchemy.LambdaExchange(soft, SCHEDULE, BATH, every=6, record=3, seed=2)

    rex = replicas()
    rex.run(12)
    rex.save(tmp_path / "a.chk")
    rex.run(12)
    again = replicas()
    again.load(tmp_path / "a.chk")
    again.run(12)
    for k in range(4):
        assert np.array_equal(rex[k].positions, again[k].positions)
        assert np.array_equal(rex.samples[k], again.samples[k]) and rex.samples[k].shape == (8, 4)
    # the energy of a state at the configuration of its neighbor, as `ReplicaExchange` finds it with whole systems
    there = [soft.copy() for _ in range(4)]
    for k, system in enumerate(there):
        alchemy.set_lambdas(system, **SCHEDULE[k])
    plain = sponge.ReplicaExchange(there, BATH, every=6, seed=2)
    rex = replicas()
    rex.run(6)
    plain.run(6)
    np.testing.assert_allclose(rex.cross_energies, plain.cross_energies, rtol=1e-5)
    assert np.array_equal(rex.walkers, plain.walkers)


def test_exchange_keeps_the_distribution_of_each_state():
    rex = alchemy.LambdaExchange(spring(), SPRINGS, QUICK, every=60, record=15, seed=4)
    rex.run(24_000)
    thermal = units.GAS_CONSTANT * 300
    for k, slopes in enumerate(rex.derivatives):  # lambda dU/dlambda is the energy: 3/2 RT
        mean = SPRINGS.lambdas[k, 0] * slopes["restraints"].mean() / thermal
        assert mean == pytest.approx(1.5, abs=0.15)
    assert rex.acceptance.min() > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["sams", "wang_landau", "exact"])
def test_a_walk_visits_all_states_alike_and_finds_their_free_energies(weights):
    exact = 1.5 * np.log(SPRINGS.lambdas[:, 0])
    walk = alchemy.ExpandedEnsemble(SPRINGS, every=10, weights=exact if weights == "exact" else weights)
    sim = sponge.Simulation(spring(), QUICK, sampling=[walk], seed=5)
    sim.run(30_000)
    share = np.bincount(walk.visited[500:], minlength=4) / len(walk.visited[500:])
    np.testing.assert_allclose(share, 0.25, atol=0.05)
    np.testing.assert_allclose(walk.weights, exact - exact.mean(), atol=0.2)
    assert walk.fixed == (weights != "sams")


def test_bad_arguments_are_refused(soft):
    for make, message in [
        (lambda: alchemy.States(SCHEDULE, state=4), "an integer from 0 to 3"),
        (lambda: alchemy.ExpandedEnsemble(SCHEDULE, weights="tmmc"), "'sams', 'wang_landau' or numbers"),
        (lambda: alchemy.ExpandedEnsemble(SCHEDULE, weights=[0.0, 1.0]), "4 finite numbers"),
        (lambda: sponge.Simulation(soft, BATH, sampling=[alchemy.States(SPRINGS)]), "scales with the lambda"),
        (
            lambda: sponge.Simulation(soft, BATH, sampling=[alchemy.States(alchemy.Schedule(sterics=[1, 0.5, 0]))]),
            "state 2 has charges without Lennard-Jones",
        ),
        (
            lambda: sponge.Simulation(systems.system("methanol"), BATH, sampling=[alchemy.States(SCHEDULE)]),
            "must have marked atoms",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            make()
    with pytest.raises(TypeError, match="temperature"):
        sponge.Simulation(soft, sponge.VelocityVerlet(0.001), sampling=[alchemy.ExpandedEnsemble(SCHEDULE)])
