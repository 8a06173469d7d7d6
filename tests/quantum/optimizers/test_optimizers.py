"""Optimizers find minima that are known, and refuse circuits on which they would not be exact."""

import numpy as np
import pytest

from tests.reporting import stop_at
from triskele import quantum
from triskele.core import optim
from triskele.quantum import optimizers
from triskele.quantum.errors import OptimizerError, ParameterError
from triskele.quantum.optimizers import SPSA, NaturalGradient, Rotosolve, SciPy, minimize

START = np.array([0.5, 1.0, -0.3])
WITH_GRADIENT = ["bfgs", "l-bfgs-b", "cg", "slsqp", "tnc", "trust-constr", "adam"]
WITHOUT = ["cobyla", "cobyqa", "nelder-mead", "powell"]


def bowl(theta):
    """Least value -3.6 where all angles are pi and differences vanish, or the like."""
    return np.sum(np.cos(theta)) - 0.3 * np.cos(theta[0] - theta[1]) - 0.3 * np.cos(theta[1] - theta[2])


def rotations():
    """A circuit of Pauli rotations, each with its own angle, and an observable."""
    circuit = (
        quantum.Circuit(3)
        .ry("a", 0)
        .ry({"b": 2.0}, 1)
        .cx(0, 1)
        .rz({"c": -0.5}, 1)
        .rx("d", 1)
        .rzz("e", 1, 2)
        .ry("f", 2)
        .p("g", 2)
        .rxx("h", 0, 2)
    )
    return quantum.Expectation(circuit, quantum.PauliSum("Z0 Z1 - 0.5 X0 + 0.7 X1 X2 + 0.3 Y0 X1 - 0.2 Z2"))


@pytest.mark.parametrize("name", WITH_GRADIENT + WITHOUT)
def test_named_optimizers_find_the_minimum(name):
    found = minimize(bowl, START, name)
    assert found.converged, found.message
    assert found.value == pytest.approx(-3.6, abs=1e-7)
    assert found.value == pytest.approx(bowl(found.theta), abs=1e-14)
    assert found.history[0] == bowl(START)
    assert np.min(found.history) == pytest.approx(found.value, abs=1e-7)


@pytest.mark.parametrize(
    "optimizer",
    [
        optim.Adam(0.05),
        optim.SGD(0.1, momentum=0.8),
        optim.RMSprop(optim.exponential_decay(0.05, 0.5, 40)),
        optim.LBFGS(),
    ],
)
def test_optimizers_of_the_core(optimizer):
    assert minimize(bowl, START, optimizer, max_steps=500).value == pytest.approx(-3.6, abs=1e-5)


def test_exact_gradients_save_evaluations():
    assert minimize(bowl, START, "bfgs").evaluations < 30 < minimize(bowl, START, "nelder-mead").evaluations


def test_steps_are_reported_and_a_reporter_may_stop():
    seen = []
    found = minimize(bowl, START, "bfgs", report=seen.append)
    assert seen == [{"step": k + 1, "value": v} for k, v in enumerate(found.history[1:].tolist())]
    np.testing.assert_array_equal(found.thetas[[0, -1]], [START, found.theta])
    for optimizer in ("bfgs", "cobyla", "tnc", "slsqp", "spsa", "adam"):
        stopped = minimize(bowl, START, optimizer, report=stop_at(3))
        assert len(stopped.history) == 4 and not stopped.converged and stopped.message == "step 3"


def test_the_limit_of_steps_is_kept_and_told():
    found = minimize(bowl, START, "adam", max_steps=5)
    assert len(found.history) == 6 and not found.converged and "5 steps" in found.message
    assert not minimize(bowl, START, "bfgs", max_steps=2).converged


def test_an_error_in_a_reporter_comes_through():
    def broken(*_):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        minimize(bowl, START, report=broken)


def test_start_is_not_changed_and_nothing_to_optimize_is_fine():
    start = START.copy()
    minimize(bowl, start, "adam", max_steps=3)
    np.testing.assert_array_equal(start, START)
    nothing = minimize(lambda t: 2.5, np.zeros(0))
    assert nothing.value == 2.5 and nothing.converged


# -- SPSA -------------------------------------------------------------------------------------------------------------


def test_spsa_costs_two_values_a_step_and_follows_its_seed():
    runs = [minimize(bowl, START, SPSA(max_steps=150, seed=seed)) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(runs[0].theta, runs[1].theta)
    assert not np.array_equal(runs[0].theta, runs[2].theta)
    assert runs[0].evaluations == 1 + 2 * 10 + 2 * 150 + 1
    assert all(r.value < -3.5 for r in runs)
    assert not runs[0].converged and "no criterion" in runs[0].message


def test_spsa_makes_steps_of_the_published_length():
    slope = np.array([2.0])
    found = minimize(lambda t: slope @ t, np.zeros(1), SPSA(max_steps=10, learning_rate=0.3, perturbation=0.1))
    k = np.arange(10)
    # a / (k + 1 + A)**alpha, A = 1, times the exact slope of a line
    expected = -np.cumsum(0.3 / (k + 2) ** 0.602 * 2.0)
    np.testing.assert_allclose(found.thetas[1:, 0], expected, rtol=1e-12)


def test_spsa_stands_noise():
    rng = np.random.default_rng(0)
    found = minimize(lambda t: bowl(t) + 0.05 * rng.standard_normal(), START, SPSA(max_steps=300, seed=3))
    assert bowl(found.theta) < -3.4


# -- Rotosolve --------------------------------------------------------------------------------------------------------


def test_rotosolve_goes_to_the_least_value_along_an_angle():
    energy = rotations()
    rng = np.random.default_rng(1)
    for k, frequency in ((0, 1.0), (1, 2.0), (2, 0.5), (6, 1.0), (7, 1.0)):
        theta = rng.uniform(-3, 3, 8)
        circuit = energy.circuit.bind(
            {n: v for j, (n, v) in enumerate(zip(energy.circuit.parameters, theta, strict=True)) if j != k}
        )
        along = quantum.Expectation(circuit, "Z0 Z1 - 0.5 X0 + 0.7 X1 X2 + 0.3 Y0 X1 - 0.2 Z2")
        least = min(along(np.array([t])) for t in np.linspace(0, 2 * np.pi / frequency, 2001))
        found = minimize(along, theta[k : k + 1], Rotosolve(max_steps=1))
        assert least - 1e-5 < found.value <= least + 1e-12
        assert found.evaluations <= 5 and abs(found.theta[0]) <= np.pi / frequency + 1e-12


def test_rotosolve_lowers_the_energy_in_every_sweep():
    energy = rotations()
    found = minimize(energy, np.linspace(-1, 1, 8), Rotosolve(tolerance=1e-6))
    assert found.converged and np.all(np.diff(found.history) < 1e-12)
    gradient = energy.value_and_grad(found.theta)[1]
    assert np.max(np.abs(gradient)) < 1e-2


@pytest.mark.parametrize(
    "circuit, why",
    [
        (quantum.Circuit(2).ry("a", 0).ry("a", 1), "several gates"),
        (quantum.Circuit(2).crx("a", 0, 1), "more than two"),
        (quantum.Circuit(2).givens("a", 0, 1), "more than two"),
    ],
)
def test_rotosolve_refuses_what_is_no_sinusoid(circuit, why):
    with pytest.raises(OptimizerError, match=why):
        minimize(quantum.Expectation(circuit, "Z0"), np.zeros(1), "rotosolve")


@pytest.mark.parametrize("name", ["rotosolve", "natural-gradient"])
def test_optimizers_that_need_a_circuit_say_so(name):
    with pytest.raises(OptimizerError, match="must have a circuit"):
        minimize(bowl, START, name)


# -- natural gradient -------------------------------------------------------------------------------------------------


def test_natural_gradient_does_not_care_how_angles_are_scaled():
    """Steepest descent in the metric of states goes through the same states for theta and 5 theta."""
    h = quantum.PauliSum("Z0 + 0.4 X0 X1 - 0.3 Z1")
    rule = NaturalGradient(learning_rate=0.2, regularization=1e-12, max_steps=10)
    plain = quantum.Expectation(quantum.Circuit(2).ry("a", 0).cx(0, 1).ry("b", 1), h)
    scaled = quantum.Expectation(quantum.Circuit(2).ry({"a": 5.0}, 0).cx(0, 1).ry({"b": 0.2}, 1), h)
    theta = np.array([0.7, -0.4])
    np.testing.assert_allclose(
        minimize(plain, theta, rule).history, minimize(scaled, theta * [0.2, 5.0], rule).history, rtol=0, atol=1e-8
    )


def test_natural_gradient_needs_fewer_steps_than_gradient_descent():
    energy = rotations()
    theta = np.linspace(-1, 1, 8)
    natural = minimize(energy, theta, NaturalGradient(0.1, max_steps=60))
    plain = minimize(energy, theta, optim.SGD(0.1), max_steps=60)
    assert natural.value < plain.value


def test_natural_gradient_needs_a_state_vector():
    noisy = quantum.Expectation(quantum.Circuit(1).ry("a", 0).depolarizing(0.1, 0), "Z0", simulator="density_matrix")
    with pytest.raises(OptimizerError, match="gates alone"):
        minimize(noisy, np.ones(1), "natural-gradient")


# -- mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", ["bfsg", "", 3, None, optim.Adam, SPSA, np.zeros(2)])
def test_what_is_no_optimizer(optimizer):
    with pytest.raises(OptimizerError, match=r"optimizer: (a name must be one of bfgs.*spsa|a name, an optimizer)"):
        minimize(bowl, START, optimizer)


@pytest.mark.parametrize(
    "make",
    [
        lambda: SciPy("newton"),
        lambda: SPSA(perturbation=0),
        lambda: SPSA(learning_rate=-1.0),
        lambda: NaturalGradient(learning_rate=0),
    ],
)
def test_options_that_make_no_sense(make):
    with pytest.raises(OptimizerError, match="SciPy: method must be one of bfgs, |must be a positive number"):
        make()


@pytest.mark.parametrize("max_steps", [0, -1, 2.5, True])
def test_max_steps_is_a_positive_integer(max_steps):
    with pytest.raises(OptimizerError, match="max_steps must be an integer"):
        minimize(bowl, START, max_steps=max_steps)


@pytest.mark.parametrize("theta", [np.zeros((2, 2)), 1.0, [np.nan, 1.0], ["a"], None, [1j]])
def test_theta_is_a_finite_vector(theta):
    with pytest.raises(ParameterError, match="theta must be a"):
        minimize(bowl, theta)


def test_values_that_are_not_finite_end_the_run():
    with pytest.raises(FloatingPointError, match="must be finite, got nan at theta"):
        minimize(lambda t: float("nan") * np.sum(t), START, "cobyla")


@pytest.mark.parametrize("optimizer", ["bfgs", "cobyla"])
@pytest.mark.parametrize("observables", [["Z0"], ["Z0", "X0"]])
def test_a_vector_is_not_minimized(observables, optimizer):
    energies = quantum.Expectation(quantum.Circuit(1).ry("a", 0), observables)
    with pytest.raises(TypeError, match=f"one number, got an array of shape .{len(observables)},"):
        minimize(energies, np.zeros(1), optimizer)


def test_what_is_no_function():
    with pytest.raises(TypeError, match="one number, got None"):
        minimize(lambda t: None, START, "cobyla")
    with pytest.raises(TypeError, match="function must be a function of theta, got int"):
        minimize(3, START)
    with pytest.raises(TypeError, match="report must be a function"):
        minimize(bowl, START, report=3)


def test_public_names():
    assert {"SPSA", "Rotosolve", "NaturalGradient", "SciPy", "FirstOrder", "minimize"} <= set(optimizers.__all__)
