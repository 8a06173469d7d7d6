"""Least squares against NIST's certified values, SciPy, and analytic solutions.

The three NIST problems are from the Statistical Reference Datasets (https://www.itl.nist.gov/div898/strd, public
domain): data, starting values, certified parameters and residual sums of squares.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize

from triskele import core
from triskele.core import nn, optim, random

NIST = {
    "Misra1a": (
        lambda b, x: b[0] * (1 - np.exp(-b[1] * x)),
        [77.6, 114.9, 141.1, 190.8, 239.9, 289.0, 332.8, 378.4, 434.8, 477.3, 536.8, 593.1, 689.1, 760.0],
        [10.07, 14.73, 17.94, 23.93, 29.61, 35.18, 40.02, 44.82, 50.76, 55.05, 61.01, 66.40, 75.47, 81.78],
        ([500, 1e-4], [250, 5e-4]),
        [2.3894212918e02, 5.5015643181e-04],
        1.2455138894e-01,
    ),
    "MGH09": (
        lambda b, x: b[0] * (x**2 + x * b[1]) / (x**2 + x * b[2] + b[3]),
        [4, 2, 1, 0.5, 0.25, 0.167, 0.125, 0.1, 0.0833, 0.0714, 0.0625],
        [0.1957, 0.1947, 0.1735, 0.1600, 0.0844, 0.0627, 0.0456, 0.0342, 0.0323, 0.0235, 0.0246],
        ([25, 39, 41.5, 39], [0.25, 0.39, 0.415, 0.39]),
        [1.9280693458e-01, 1.9128232873e-01, 1.2305650693e-01, 1.3606233068e-01],
        3.0750560385e-04,
    ),
    "MGH10": (
        lambda b, x: b[0] * np.exp(b[1] / (x + b[2])),
        np.arange(50, 126, 5),
        [34780, 28610, 23650, 19630, 16370, 13720, 11540, 9744, 8261, 7030, 6005, 5147, 4427, 3820, 3307, 2872],
        ([2, 400000, 25000], [0.02, 4000, 250]),
        [5.6096364710e-03, 6.1813463463e03, 3.4522363462e02],
        8.7945855171e01,
    ),
}


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("name", NIST)
def test_certified_values_of_nist(name, start):
    f, x, y, starts, certified, squares = NIST[name]
    x, y = np.array(x, float), np.array(y, float)
    fit = optim.LevenbergMarquardt(max_steps=5000).minimize(
        lambda b, x, y: f(b, x) - y, np.array(starts[start], float), x, y
    )
    assert fit.converged, fit.message
    np.testing.assert_allclose(fit.params, certified, rtol=1e-6)
    assert 2 * fit.value == pytest.approx(squares, rel=1e-9)
    if start:  # SciPy fails to get there from the far starts of MGH09 and MGH10 in its default number of evaluations
        known = optimize.least_squares(lambda b: f(b, x) - y, starts[1], method="lm", xtol=1e-12, ftol=1e-12)
        assert fit.value <= known.cost * (1 + 1e-9)


@pytest.mark.parametrize("method", [optim.GaussNewton(), optim.LevenbergMarquardt()])
def test_trees_of_parameters_and_residuals(method):
    t = np.linspace(0, 3, 20)
    data = {"rise": 3 * (1 - np.exp(-2 * t)), "fall": 3 * np.exp(-2 * t) + 0.5}

    def residuals(p, data):
        fall = p["size"][0] * np.exp(-p["rate"] * t)
        return {"rise": p["size"][0] - fall - data["rise"], "fall": fall + p["size"][1] - data["fall"]}

    fit = method.minimize(residuals, {"size": np.ones(2), "rate": 1.0}, data)
    np.testing.assert_allclose(fit.params["size"], [3, 0.5], rtol=1e-9)
    np.testing.assert_allclose(fit.params["rate"], 2, rtol=1e-9)
    assert fit.converged and fit.value < 1e-20


def test_linear_problems_take_one_gauss_newton_step_also_where_rank_is_missing():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(8, 3)) @ np.ones((3, 4)), rng.normal(size=8)
    fit = optim.GaussNewton().minimize(lambda x: a @ x - b, np.zeros(4))
    np.testing.assert_allclose(fit.params, np.linalg.lstsq(a, b, rcond=None)[0], rtol=1e-10)
    assert fit.steps == 1
    damped = optim.LevenbergMarquardt().minimize(lambda x: a @ x - b, np.zeros(4))
    assert damped.value == pytest.approx(fit.value)


def test_network_with_more_parameters_than_residuals():
    net = nn.MLP.init(random.key(0), [1, 16, 1])
    x = np.linspace(-1, 1, 20, dtype=np.float32)[:, None]
    fit = optim.LevenbergMarquardt(max_steps=60).minimize(lambda net, x: net(x) - np.sin(3 * x), net, x)
    assert fit.value < 1e-3
    assert fit.params.layers[0].weight.dtype == np.float32


def test_residuals_that_leave_their_domain_are_stepped_back_from():
    """The full first step makes the logarithm's argument negative."""
    for method in (optim.GaussNewton(), optim.LevenbergMarquardt()):
        with np.errstate(invalid="ignore", divide="ignore"):
            fit = method.minimize(lambda x: np.log(x), np.array([5.0]))
        np.testing.assert_allclose(fit.params, 1, rtol=1e-9)


def test_reports_stop_and_the_limit_of_steps_is_told():
    seen = []

    def stop(record):
        seen.append(record)
        if record["step"] == 2:
            raise StopIteration("enough")

    rosenbrock = lambda x: np.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]])
    fit = optim.LevenbergMarquardt().minimize(rosenbrock, np.array([-1.2, 1.0]), report=stop)
    assert (fit.steps, fit.converged, fit.message) == (2, False, "enough")
    assert seen[0]["loss"] > seen[1]["loss"] == fit.value
    fit = optim.LevenbergMarquardt(max_steps=3).minimize(rosenbrock, np.array([-1.2, 1.0]))
    assert not fit.converged and fit.message == "max_steps=3 reached"


@pytest.mark.parametrize("method", [optim.GaussNewton, optim.LevenbergMarquardt])
def test_iterations_stop_at_the_first_step_that_meets_a_rule(method):
    """Each rule alone, by its definition, along the iterates that no rule ends."""
    t, never = np.linspace(0, 4, 40), {"gradient_tolerance": 0, "step_tolerance": 0, "value_tolerance": 0}
    data = 2.5 * np.exp(-1.3 * t) + 0.05 * np.random.default_rng(0).normal(size=40)
    residuals = lambda p: p[0] * np.exp(-p[1] * t) - data
    x = [method(**{**never, "max_steps": k}).minimize(residuals, np.ones(2)).params for k in range(7)]
    r = [residuals(p) for p in x]
    jacobians = [np.stack([np.exp(-p[1] * t), -t * p[0] * np.exp(-p[1] * t)], 1) for p in x]
    norms = [np.linalg.norm(j, axis=0) for j in jacobians]
    # both methods take the full step; Levenberg-Marquardt measures its length by the largest norms so far
    scale = np.maximum.accumulate(norms) if method is optim.LevenbergMarquardt else np.ones((7, 2))
    costs = [0.5 * v @ v for v in r]
    predicted = [0.5 * np.sum((j @ np.linalg.lstsq(j, v)[0]) ** 2) for j, v in zip(jacobians, r, strict=True)]
    measures = {
        "gradient": [
            np.max(np.abs(j.T @ v) / n) / np.linalg.norm(v) for j, v, n in zip(jacobians, r, norms, strict=True)
        ],
        "step": [np.inf, *[np.linalg.norm(s * (b - a)) / np.linalg.norm(s * a) for a, b, s in zip(x, x[1:], scale)]],
        "value": [np.inf, *[max(a - b, p) / a for a, b, p in zip(costs, costs[1:], predicted)]],
    }
    for rule, measure in measures.items():
        assert np.all(np.diff(measure[1:]) < 0)
        for k in range(2, 6):
            for factor, steps in ((1.01, k), (0.99, k + 1)):
                fit = method(**{**never, f"{rule}_tolerance": measure[k] * factor}).minimize(residuals, np.ones(2))
                assert (fit.steps, fit.converged) == (steps, True), (rule, k, fit.message)
                assert f"within {rule}_tolerance" in fit.message


@pytest.mark.parametrize("method", [optim.GaussNewton(), optim.LevenbergMarquardt()])
def test_no_step_that_helps_is_convergence_only_where_none_was_predicted(method):
    never = {"gradient_tolerance": 0, "step_tolerance": 0, "value_tolerance": 0}
    at_rest = replace(method, **never).minimize(lambda x: np.stack([x[0] - 1, x[0] - 2]), np.zeros(1))
    assert at_rest.converged and at_rest.params == pytest.approx(1.5, rel=1e-8)
    uphill = method.minimize(lambda x: 2 * core.stop_gradient(x) - x, np.ones(1))  # the derivative has the wrong sign
    assert not uphill.converged and uphill.params == 1 and "no step reduces the value" in uphill.message


def test_residuals_are_zero_within_rounding_of_the_first_ones():
    for dtype in (np.float32, np.float64):
        a = np.array([[3, 1], [1, 2]], dtype)
        fit = optim.GaussNewton().minimize(lambda x: a @ x - a @ np.array([7, -5], a.dtype), np.zeros(2, dtype))  # noqa: B023
        assert fit.converged and fit.steps <= 2  # the second one finds that nothing is left
        np.testing.assert_allclose(fit.params, [7, -5], rtol=100 * np.finfo(dtype).eps)


def test_bad_input_is_refused():
    opt = optim.LevenbergMarquardt()
    with pytest.raises(TypeError, match="parameters must be real"):
        opt.minimize(lambda x: np.abs(x), np.ones(2) + 1j)
    with pytest.raises(TypeError, match="residuals must be real"):
        opt.minimize(lambda x: x + 1j, np.ones(2))
    with pytest.raises(ValueError, match="finite at the start, got 1 of 2"):
        opt.minimize(lambda x: x * np.array([1.0, np.inf]), np.ones(2))
    with pytest.raises(ValueError, match="radius must be a positive"):
        optim.LevenbergMarquardt(radius=0.0)
