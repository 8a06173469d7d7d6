"""Minimizers: known minima, constraints, clashes, frozen atoms and virtual sites, bad input."""

import numpy as np
import pytest

from tests.twins.molecules import Formula, length_errors, mixture, wells
from triskele import sponge
from triskele.sponge.engine.engine import Engine
from triskele.sponge.errors import BrokenSimulationError, ConstraintError
from triskele.sponge.run.minimize import minimize
from triskele.sponge.system import System
from triskele.sponge.testing import spring_system
from triskele.sponge.topology import Topology
from triskele.sponge.virtual_sites import place_all

METHODS = ["lbfgs", "fire"]


def lennard_jones(n, rng, edge, shift=0.0):
    """`n` atoms in reduced units, at random in a cube."""
    i, j = np.triu_indices(n, 1)

    def energy(p, x, box):
        s6 = 1 / (((x[i] - x[j]) ** 2).sum(1) + shift) ** 3
        return (4 * (s6 * s6 - s6)).sum()

    system = System(Topology.of_particles(n), np.full(n, 10.0), positions=rng.uniform(0, edge, (n, 3)))
    system.add(Formula("lj", energy))
    return system


@pytest.mark.parametrize("method", METHODS)
def test_three_atoms_of_lennard_jones(method, rng):
    system = lennard_jones(3, rng, 1.5)
    engine = Engine(system, "double")
    found = minimize(engine, tolerance=1e-6, method=method)
    assert found.converged and found.rms_force <= 1e-6
    assert found.energy == pytest.approx(-3, abs=1e-9)
    assert found.energy == pytest.approx(system.energy(engine.positions))


@pytest.mark.parametrize("method", METHODS)
def test_a_quadratic_form_of_many_scales(method, rng):
    """Curvatures over three decades; what is reported on the way falls to the known minimum."""
    n = 40
    k = 10 ** rng.uniform(0, 3, (n, 3))
    at = rng.normal(size=(n, 3)) * 0.1
    system = System(Topology.of_particles(n), rng.uniform(1, 40, n), positions=np.zeros((n, 3)))
    system.add(Formula("form", lambda p, x, box: 0.5 * (k * (x - at) ** 2).sum()))
    engine, energies = Engine(system, "double"), []
    found = minimize(engine, 1e-5, method=method, report=lambda record: energies.append(record["energy"]))
    assert found.converged and found.steps == len(energies)
    np.testing.assert_allclose(engine.positions, at, atol=1e-3)
    if method == "lbfgs":
        assert np.diff(energies).max() <= 1e-9 and found.steps < 300


@pytest.mark.parametrize("method", METHODS)
def test_constraints_hold_and_the_force_left_is_theirs(method, rng):
    system = mixture(["water", "XH3", "chain", "atom", "XH"] * 3, rng, spread=0.5)
    goal = Formula(
        "goal",
        lambda p, x, box: 0.5 * (p["k"] * ((x - p["at"]) ** 2)).sum(),
        k=200.0,
        at=system.positions + rng.normal(0, 0.03, system.positions.shape),
    )
    system.add(goal)
    engine = Engine(system, "double")
    velocities = engine.velocities.copy()
    found = minimize(engine, 1e-4, method=method)
    assert found.converged
    assert np.abs(length_errors(system, engine.positions)).max() < 2e-8
    # the force is a combination of the constraints' directions
    force = system.forces(engine.positions).ravel()
    i, j = system.constraints.pairs.T
    d = engine.positions[i] - engine.positions[j]
    directions = np.zeros((len(i), system.n, 3))
    directions[np.arange(len(i)), i], directions[np.arange(len(i)), j] = d, -d
    directions = directions.reshape(len(i), -1).T
    rest = force - directions @ np.linalg.lstsq(directions, force, rcond=None)[0]
    assert np.sqrt(np.mean(rest**2)) < 1.1e-4
    assert np.abs(force).max() > 0.1  # which is not because there is none
    assert np.array_equal(engine.velocities, velocities)


@pytest.mark.parametrize("method", METHODS)
def test_clashes(method, rng):
    """Sixty atoms in a space for six: forces of 1e14 at first."""
    system = lennard_jones(60, rng, 1.6)
    system.add(Formula("holds", lambda p, x, box: 0.5 * (x**2).sum()))
    assert np.abs(system.forces()).max() > 1e13
    engine = Engine(system, "double")
    found = minimize(engine, 0.05, max_steps=3000, method=method)
    distances = np.linalg.norm(engine.positions[:, None] - engine.positions, axis=2)[np.triu_indices(60, 1)]
    assert distances.min() > 0.9
    assert found.energy < 0 or found.rms_force < 5


def test_atoms_on_top_of_each_other_are_moved_apart(rng):
    system = lennard_jones(3, rng, 1.5)
    system.positions[1] = system.positions[0]
    engine = Engine(system, "double")
    with np.errstate(all="ignore"):
        assert minimize(engine, 1e-4).energy == pytest.approx(-3, abs=1e-6)


def test_energies_that_stay_infinite_name_the_atoms():
    system = System(Topology.of_particles(3), np.ones(3), positions=np.zeros((3, 3)))
    system.add(Formula("broken", lambda p, x, box: (p["k"] * x**2).sum(), k=np.array([[1.0], [np.nan], [1.0]])))
    with pytest.raises(BrokenSimulationError, match="must be finite, got nan with forces on atom 1"):
        minimize(Engine(system, "double"))


def test_massless_atoms_stay_and_sites_follow():
    system = spring_system(units=1)
    frozen = system.copy()
    frozen.masses[11] = 0
    frozen.positions[11] += 0.05
    engine = Engine(frozen, "double")
    minimize(engine, 1e-3)
    assert np.array_equal(engine.positions[11], frozen.positions[11])
    np.testing.assert_allclose(engine.positions, place_all(frozen.virtual_sites, engine.positions), atol=1e-12)


def test_first_positions_are_brought_to_the_constraints(rng):
    system = mixture(["water", "XH2", "ring"] * 2, rng)
    system.add(wells(system, 10.0))
    system.positions = system.positions + rng.normal(0, 0.004, system.positions.shape)
    engine = Engine(system, "double")
    minimize(engine, max_steps=1)
    assert np.abs(length_errors(system, engine.positions)).max() < 2e-8
    engine.positions[:] = 0.0
    with pytest.raises(ConstraintError, match="no solution"):
        minimize(engine)


def test_limit_of_steps_and_no_step_at_a_minimum(rng):
    system = lennard_jones(4, rng, 1.5)
    engine = Engine(system, "double")
    assert minimize(engine, 1e-8, max_steps=3).steps == 3
    assert minimize(engine, 1e-6).converged
    assert minimize(engine, 1e-5).steps == 0


def test_a_simulation_goes_on_from_the_minimum(rng):
    system = mixture(["water", "chain"] * 2, rng)
    system.add(wells(system, 500.0))
    system.positions = system.positions + rng.normal(0, 0.002, system.positions.shape)
    sim = sponge.Simulation(system, sponge.LangevinMiddle(300.0, 1.0, 0.001), seed=1)
    before = sim.energies()["potential"]
    sim.minimize()
    assert sim.energies()["potential"] < before
    sim.run(10)
    assert np.abs(length_errors(system, sim.positions)).max() < 2e-6


@pytest.mark.parametrize(
    "options, message",
    [
        ({"tolerance": 0}, "tolerance must be a positive number, got 0"),
        ({"method": "newton"}, "method must be 'lbfgs' or 'fire', got 'newton'"),
    ],
)
def test_bad_options(options, message, rng):
    with pytest.raises(ValueError, match=message):
        minimize(Engine(lennard_jones(2, rng, 1.0)), **options)
