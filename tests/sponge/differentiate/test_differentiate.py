"""Gradients through trajectories: exact where the motion is known, by differences, and the two ways against each
other.
"""

import tracemalloc

import numpy as np
import pytest

from triskele import core, sponge
from triskele.sponge.differentiate import explicit_energy, observables, trajectory
from triskele.sponge.differentiate.adjoint import Contraction
from triskele.sponge.errors import BrokenSimulationError

METHODS = ["checkpoint", "reversible"]
LANGEVIN = sponge.LangevinMiddle(temperature=100, friction=2.0, timestep=0.005)


def spring(k, x, box):
    return 0.5 * k * np.sum(x * x)


def argon(cells=2, **options):
    """A Lennard-Jones crystal, shaken."""
    n = 4 * cells**3
    edge = (n * 0.34**3 / 0.8) ** (1 / 3)
    basis = np.array([[0, 0, 0], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]])
    grid = np.stack(np.meshgrid(*[np.arange(cells)] * 3), -1).reshape(-1, 1, 3)
    x = (grid + basis).reshape(-1, 3) * edge / cells + np.random.default_rng(0).normal(size=(n, 3)) * 0.01
    system = sponge.System(
        sponge.Topology.of_particles(n, "AR", 18), np.full(n, 39.948), edge, x, remove_com_motion=False
    )
    options = {"method": "cutoff", "cutoff": 0.49 * edge, "switch": 0.4 * edge} | options
    system.add(sponge.Nonbonded(np.zeros(n), np.full(n, 0.34), np.full(n, 0.996), **options))
    return system


def tied(system):
    """The parameters of a system from one epsilon and one sigma."""
    return lambda t: {
        "nonbonded": {"epsilons": t["epsilon"] * np.ones(system.n), "sigmas": t["sigma"] * np.ones(system.n)}
    }


# ---------------------------------------------------------------------------------------------------------- the energy
@pytest.mark.parametrize("make", [lambda: argon(), lambda: argon(switch=None), lambda: argon(method="reaction_field")])
def test_explicit_energy_is_the_systems(make):
    system = make()
    energy = explicit_energy(system)
    value, force = core.value_and_grad(energy, 1)(system.params(), system.positions, system.box)
    assert value == pytest.approx(system.energy(), rel=1e-12)
    assert force == pytest.approx(-system.forces(), rel=1e-9, abs=1e-8)


@pytest.mark.parametrize(
    "make", [lambda: argon(), lambda: argon(switch=None), lambda: argon(dispersion_correction=False)]
)
def test_pressure_is_that_of_simulations(make):
    system = make()
    sim = sponge.Simulation(system, LANGEVIN, precision="double", velocities=np.zeros((system.n, 3)))
    found = observables.pressure(system, 100.0)(system.params(), system.positions, system.box)
    ideal = system.n * sponge.units.GAS_CONSTANT * 100 / np.linalg.det(system.box) * sponge.units.BAR_PER_PRESSURE
    assert found - ideal == pytest.approx(sim.energies()["pressure"], rel=1e-9)


# --------------------------------------------------------------------------------------------------------- trajectories
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("integrator", [LANGEVIN, sponge.VelocityVerlet(0.005)])
def test_steps_are_those_of_simulations(integrator, method):
    """The same noise, the same order of kicks and drifts."""
    system = argon()
    v = np.random.default_rng(1).normal(size=(system.n, 3)) * 0.1
    sim = sponge.Simulation(system, integrator, seed=7, precision="double", velocities=v)
    sim.run(30)
    path = trajectory(explicit_energy(system), system.masses, integrator, 30, method=method)(
        system.params(), system.positions, v, system.box, 7
    )
    assert path.positions == pytest.approx(sim.positions, abs=2e-12)
    assert path.velocities == pytest.approx(sim.velocities, abs=2e-12)


@pytest.mark.parametrize("method", METHODS)
def test_oscillator(method):
    """x(t) = cos(w t): the derivative by the spring is known, to the order of the integrator."""
    run = trajectory(spring, [1.0], sponge.VelocityVerlet(timestep=0.001), 1000, method=method)
    x0, v0 = np.array([[1.0, 0, 0]]), np.zeros((1, 3))
    slope = core.grad(lambda k: run(k, x0, v0).positions[0, 0])(4.0)
    w = np.arccos(1 - 4.0 * 0.001**2 / 2) / 0.001  # of velocity Verlet: cos(w dt) = 1 - k dt^2 / 2
    by_k = 0.001 / (2 * np.sin(w * 0.001))  # dw/dk
    assert slope == pytest.approx(-np.sin(w) * by_k, rel=1e-10)


@pytest.mark.parametrize("integrator", [LANGEVIN, sponge.VelocityVerlet(0.005)])
def test_both_ways_agree_with_differences(integrator):
    """A Lennard-Jones fluid: by parameters, starting positions, velocities and box."""
    system = argon()
    energy, to_params = explicit_energy(system), tied(system)
    g = observables.rdf(np.linspace(0.3, 0.45, 4))
    v = np.random.default_rng(1).normal(size=(system.n, 3)) * 0.1
    theta = {"epsilon": np.float64(0.9), "sigma": np.float64(0.335)}
    weights = np.array([1.0, -0.5, 0.3, 0.8])
    losses = {}
    for method in METHODS:
        run = trajectory(
            lambda t, x, box: energy(to_params(t), x, box),
            system.masses,
            integrator,
            60,
            observe=g,
            every=20,
            method=method,
        )

        def loss(t, x, v, box, run=run):
            path = run(t, x, v, box, 5)
            return (
                np.sum(np.mean(path.observed, axis=0) * weights)
                + np.sum(path.positions[:3])
                + np.sum(path.velocities[0] ** 2)
            )

        losses[method] = core.jit(core.value_and_grad(loss, (0, 1, 2, 3)))
    args = theta, system.positions, v, system.box
    (value, found), (other_value, other) = losses["checkpoint"](*args), losses["reversible"](*args)
    assert value == pytest.approx(float(other_value), rel=1e-10)
    for a, b in zip(core.tree.leaves(found), core.tree.leaves(other), strict=True):
        assert a == pytest.approx(b, rel=1e-8, abs=1e-9 * np.abs(b).max())
    for name, h in (("epsilon", 1e-5), ("sigma", 1e-6)):  # with the same random numbers
        up, down = (float(losses["checkpoint"](theta | {name: theta[name] + s * h}, *args[1:])[0]) for s in (1, -1))
        assert found[0][name] == pytest.approx((up - down) / (2 * h), rel=1e-5)


def test_replicas_by_vmap():
    """Starts and seeds differ; every replica is as if it were alone."""
    x0 = np.random.default_rng(0).normal(size=(3, 2, 3))
    found = {}
    for method in METHODS:
        run = trajectory(
            spring, [1.0, 2.0], LANGEVIN, 20, observe=lambda k, x, box: np.sum(x * x), every=5, method=method
        )
        mean = lambda k, x, seed, run=run: np.mean(run(k, x, 0 * x, seed=seed).observed)
        found[method] = core.vmap(core.grad(mean), (None, 0, 0))(50.0, x0, np.arange(3))
        assert found[method][1] == pytest.approx(float(core.grad(mean)(50.0, x0[1], 1)), rel=1e-10)
    assert found["checkpoint"] == pytest.approx(found["reversible"], rel=1e-9)


def test_compiled_energy_function_of_a_system():
    """`system.energy_function()` is another energy, slower in second order, that needs no list of all pairs."""
    system = argon()
    slopes = []
    for energy in (system.energy_function(), explicit_energy(system)):
        run = trajectory(energy, system.masses, sponge.VelocityVerlet(0.005), 5, method="reversible")
        slopes.append(
            core.grad(
                lambda p, run=run: np.sum(run(p, system.positions, np.zeros((system.n, 3)), system.box).positions[0])
            )(system.params())
        )
    for key in ("sigmas", "epsilons"):
        assert slopes[0]["nonbonded"][key] == pytest.approx(slopes[1]["nonbonded"][key], rel=1e-6, abs=1e-9)


# ----------------------------------------------------------------------------------------------------------
# reversibility
@pytest.mark.parametrize("decay", [0.9999, 0.99, 0.9, 0.6, 0.501])
def test_contraction_is_undone_bit_for_bit(decay):
    rng = np.random.default_rng(2)
    v = np.rint(rng.normal(size=(50, 3)) * 1e3)
    start, steps = v.copy(), 700
    contraction = Contraction(decay, steps, v.shape)
    stack, used, added = (
        np.zeros(contraction.shape, np.int64),
        np.zeros(v.shape, np.int64),
        np.rint(rng.normal(size=(steps, 50, 3)) * 300),
    )
    for k in range(steps):
        v = contraction.forward(v, stack, used, k) + added[k]
    for k in reversed(range(steps)):
        v = contraction.backward(v - added[k], stack, k)
    assert np.array_equal(v, start)


@pytest.mark.parametrize("size", [1e3, 1e13, 1e15])
def test_bits_of_a_contraction_are_few(size):
    """2 (1 - c) of them a step, also where products have few bits behind the point: a word lasts for 15 / friction."""
    rng = np.random.default_rng(0)
    contraction = Contraction(0.998, 5000, (100, 3))
    stack, used = np.zeros(contraction.shape, np.int64), np.zeros((100, 3), np.int64)
    v = np.zeros((100, 3))
    for k in range(2000):
        v = contraction.forward(v, stack, used, k) + np.rint(rng.normal(size=v.shape) * size / 16)
    assert used.mean() == pytest.approx(2 * 0.002 * 2000, rel=0.1)


def test_trajectory_is_retraced_bit_for_bit_where_it_is_chaotic():
    """2,000 steps of a hot Lennard-Jones gas: going back in float64 would miss the start by far.

    `retrace` itself raises when it does not arrive where the trajectory began.
    """
    system = argon()
    for integrator in (sponge.LangevinMiddle(300, 0.5, 0.004), sponge.VelocityVerlet(0.004)):
        run = trajectory(explicit_energy(system), system.masses, integrator, 2000, method="reversible")
        v = np.random.default_rng(1).normal(size=(system.n, 3)) * 0.3
        slope = core.grad(lambda x, run=run, v=v: np.sum(run(system.params(), x, v, system.box).positions[0]))
        # a rounding error at one end is as many times larger at the other
        assert np.abs(slope(system.positions)).max() > 1e5


def memory(method, steps):
    """Peak memory of a gradient that NumPy allocates, in bytes."""
    x0 = np.random.default_rng(0).normal(size=(200, 3))
    run = trajectory(spring, np.ones(200), sponge.LangevinMiddle(100, 0.2, 0.005), steps, method=method)
    slope = core.grad(lambda k: np.sum(run(k, x0, 0 * x0).positions ** 2))
    slope(1.0)
    tracemalloc.start()
    try:
        slope(1.0)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_of_the_reversible_way_is_flat():
    few, many = memory("reversible", 100), memory("reversible", 1600)
    assert many < few + 200_000  # 1,500 more states would take 14 MB; what Python holds varies by some 100 kB


# ----------------------------------------------------------------------------------------------------------- bad input
@pytest.mark.parametrize("method", METHODS)
def test_exploding_trajectory_names_the_step(method):
    run = trajectory(lambda k, x, box: k * np.sum(x**4), [1.0], sponge.VelocityVerlet(0.1), 100, method=method)
    with pytest.raises(BrokenSimulationError, match=r"after step \d+ "):
        run(1e3, np.ones((1, 3)), np.zeros((1, 3)))
    with pytest.raises(BrokenSimulationError, match=r"after step \d+ "):
        core.jit(core.grad(lambda k: np.sum(run(k, np.ones((1, 3)), np.zeros((1, 3))).positions)))(1e3)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(integrator=sponge.Brownian(300, 1.0, 0.001)), "must be VelocityVerlet or LangevinMiddle"),
        (dict(masses=[0.0]), "masses must be positive"),
        (dict(steps=10, every=3), "multiple of every, got 10 and 3"),
        (dict(steps=0), "steps must be an integer"),
        (dict(method="forward"), "'checkpoint' or 'reversible', got 'forward'"),
        (dict(method="reversible", integrator=sponge.LangevinMiddle(300, 1000.0, 0.001)), "below ln 2"),
    ],
)
def test_bad_arguments(arguments, message):
    arguments = dict(energy=spring, masses=[1.0], integrator=sponge.VelocityVerlet(0.001), steps=10) | arguments
    with pytest.raises((TypeError, ValueError), match=message):
        trajectory(**arguments)(1.0, np.zeros((1, 3)), np.zeros((1, 3)))


def test_unknown_parameters_are_named():
    system = argon()
    with pytest.raises(KeyError, match=r"no parameter 'nonbonded/epsilon' \(did you mean 'nonbonded/epsilons'"):
        explicit_energy(system)({"nonbonded": {"epsilon": np.ones(system.n)}}, system.positions, system.box)
    with pytest.raises(ValueError, match="positions must have shape"):
        trajectory(spring, [1.0], sponge.VelocityVerlet(0.001), 10)(1.0, np.zeros((2, 3)), np.zeros((1, 3)))
