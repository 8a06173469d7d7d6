"""Ordinary differential equations against SciPy, closed forms and finite differences."""

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from triskele import core
from triskele.core import odeint
from triskele.core.ode.dopri5 import dopri5
from triskele.core.ode.rodas5p import rodas5p

METHODS = ("dopri5", "rodas5p")


def van_der_pol(y, t, mu):
    return np.stack([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]])


def robertson(y, t):
    slow, fast = -0.04 * y[0] + 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
    return np.stack([slow, -slow - fast, fast])


def kepler(y, t):
    r3 = (y[0] ** 2 + y[1] ** 2) ** 1.5
    return np.stack([y[2], y[3], -y[0] / r3, -y[1] / r3])


CASES = {  # equation, y0, times, arguments, method, scale of errors
    "van der Pol": (van_der_pol, [2.0, 0.0], np.linspace(0, 10, 40), (2.0,), "dopri5", 1e-2),
    "Kepler": (kepler, [0.5, 0.0, 0.0, 3**0.5], np.linspace(0, 20, 40), (), "dopri5", 1e-2),
    "stiff van der Pol": (van_der_pol, [2.0, 0.0], np.linspace(0, 1000, 40), (1000.0,), "rodas5p", 1e-2),
    "Robertson": (robertson, [1.0, 0.0, 0.0], np.r_[0, np.logspace(-5, 11, 40)], (), "rodas5p", 1e-7),
}


@pytest.mark.parametrize("case", CASES)
def test_errors_are_near_the_tolerance(case):
    """At most three times those of SciPy's RK45; for stiff equations, ten times the tolerance."""
    f, y0, t, args, method, scale = CASES[case]
    y0, rtol = np.array(y0), 1e-8

    def scipy_solution(method, rtol, atol):
        return solve_ivp(lambda t, y: f(y, t, *args), t[[0, -1]], y0, method, t, rtol=rtol, atol=atol).y.T

    def error(y):
        return np.abs((y - exact) / (scale + np.abs(exact))).max()

    exact = scipy_solution(*(("Radau", 1e-10, 1e-10 * scale) if method == "rodas5p" else ("DOP853", 1e-12, 1e-14)))
    ours = core.jit(lambda y0: odeint(f, y0, t, args, method=method, rtol=rtol, atol=rtol * scale))(y0)
    assert error(ours) < (10 * rtol if method == "rodas5p" else 3 * error(scipy_solution("RK45", rtol, rtol * scale)))


@pytest.mark.parametrize("make_step", [dopri5, rodas5p])
def test_steps_are_of_order_five(make_step):
    """The error of a step falls with the sixth power of its size, that of the interpolant with the fifth."""

    def f(y, t):
        return np.stack([np.cos(t) * y[0], -(y[1] ** 2)])

    def exact(t):
        return np.stack([np.exp(np.sin(t)), 1 / (1 + t)])

    errors = []
    for h in (0.1, 0.05):
        y = exact(0.5)
        step = make_step(f, y, np.float64(0.5), h, f(y, 0.5), h)
        between = y + np.polynomial.polynomial.polyval(0.4, [0 * y, *step.dense])
        errors.append([np.abs(step.y - exact(0.5 + h)).max(), np.abs(between - exact(0.5 + 0.4 * h)).max()])
    end, middle = np.log2(np.array(errors[0]) / errors[1])
    assert end > 5.6 and middle > 4.8


@pytest.mark.parametrize("method", METHODS)
def test_derivatives_of_all_modes(method):
    t, y0 = np.linspace(0, 3, 4), np.array([2.0, 0.0])

    def end(mu, y0):
        return np.sum(odeint(van_der_pol, y0, t, (mu,), method=method, rtol=1e-10, atol=1e-12)[-1] ** 2)

    fast, e = core.jit(end), 1e-4
    by_mu = (fast(2 + e, y0) - fast(2 - e, y0)) / (2 * e)
    by_y = [(fast(2.0, y0 + d) - fast(2.0, y0 - d)) / (2 * e) for d in e * np.eye(2)]
    gradient = core.jit(core.grad(end, argnums=(0, 1)))(2.0, y0)
    np.testing.assert_allclose(gradient[0], by_mu, rtol=1e-6)
    np.testing.assert_allclose(gradient[1], by_y, rtol=1e-6)
    np.testing.assert_allclose(core.jvp(end, (2.0, y0), (1.0, np.ones(2)))[1], by_mu + sum(by_y), rtol=1e-6)
    np.testing.assert_allclose(core.grad(end)(2.0, y0), gradient[0], rtol=1e-10)  # eagerly


@pytest.mark.parametrize("method", ["dopri5", pytest.param("rodas5p", marks=pytest.mark.slow)])
def test_second_derivatives(method):
    def end(mu):
        y0 = np.array([2.0, 0.0])
        return np.sum(odeint(van_der_pol, y0, [0, 3.0], (mu,), method=method, rtol=1e-10, atol=1e-12)[-1] ** 2)

    second = (end(2 + 1e-3) - 2 * end(2.0) + end(2 - 1e-3)) / 1e-6
    np.testing.assert_allclose(core.jacfwd(core.jacfwd(end))(2.0), second, rtol=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_examples_of_a_batch_are_those_alone(method):
    t, y0, mus = np.linspace(0, 3, 4), np.array([2.0, 0.0]), np.array([0.5, 1.0, 3.0])

    def solve(mu):
        return odeint(van_der_pol, y0, t, (mu,), method=method)

    np.testing.assert_allclose(core.vmap(solve)(mus), [solve(mu) for mu in mus], rtol=1e-12)


def test_derivatives_by_times():
    def end(start, stop):
        return odeint(lambda y, t: -y * t, 1.0, np.stack([start, stop]), rtol=1e-10, atol=1e-12)[-1]

    exact = np.exp((0.25 - 2.25) / 2)
    np.testing.assert_allclose(core.grad(end, argnums=(0, 1))(0.5, 1.5), [0.5 * exact, -1.5 * exact], rtol=1e-6)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([-2.0, 0.5, 3.0]))
def test_linear_equations_are_matrix_exponentials_in_both_directions(seed, end):
    rng = np.random.default_rng(seed)
    a, y0 = rng.normal(size=(3, 3)), rng.normal(size=3)
    y = odeint(lambda y, t: a @ y, y0, [0.0, end / 3, end], rtol=1e-9, atol=1e-11)
    for row, t in zip(y, (0.0, end / 3, end), strict=True):
        np.testing.assert_allclose(row, scipy.linalg.expm(a * t) @ y0, rtol=1e-6, atol=1e-7 * np.abs(y).max())


def test_trees_and_complex_values():
    y = odeint(lambda y, t: {"a": -y["b"], "b": y["a"]}, {"a": np.ones((2, 2)), "b": np.zeros((2, 2))}, [0, np.pi])
    np.testing.assert_allclose(y["a"][-1], -np.ones((2, 2)), atol=1e-5)
    h = np.array([[1.0, 0.5], [0.5, -1.0]])
    psi = odeint(lambda psi, t: -1j * h @ psi, np.array([1.0, 0.0j]), [0, 1.0], rtol=1e-9)[-1]
    np.testing.assert_allclose(psi, scipy.linalg.expm(-1j * h)[:, 0], atol=1e-7)
    with pytest.raises(TypeError, match="rodas5p needs real y"):
        odeint(lambda psi, t: -1j * h @ psi, np.array([1.0, 0.0j]), [0, 1.0], method="rodas5p")


def test_scripts_for_scipy_run():
    """With lists of numbers as y0 and as derivatives."""

    def oscillator(y, t, k):
        x, v = y
        return [v, -k * x]

    t = np.linspace(0, 2, 5)
    theirs = scipy.integrate.odeint(oscillator, [1.0, 0.0], t, (4.0,), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(odeint(oscillator, [1.0, 0.0], t, (4.0,), rtol=1e-10, atol=1e-10), theirs, atol=1e-8)
    slope = core.grad(lambda x: odeint(oscillator, [x, 0.0], t, (4.0,), rtol=1e-9)[-1, 0])(1.0)
    np.testing.assert_allclose(slope, np.cos(4), rtol=1e-6)


def test_float32_stays_float32():
    seen = []

    def f(y, t):
        seen.append((y.dtype, t.dtype))
        return -y

    y = odeint(f, np.ones(2, np.float32), np.array([0.0, 1.0]))
    assert y.dtype == np.float32 and set(seen) == {(np.dtype(np.float32), np.dtype(np.float64))}
    np.testing.assert_allclose(y[-1], np.exp(-1), rtol=3e-6)


def test_times_keep_their_digits():
    """Whatever the dtype of y: seconds since 1970 need 64 bits."""
    start = 1.7e9
    y = odeint(lambda y, t: np.cos(t - start), np.float32(0), start + np.array([0.0, 1.5, 3.0]))
    np.testing.assert_allclose(y, np.sin([0.0, 1.5, 3.0]), atol=1e-5)


@pytest.mark.parametrize("last", [0.3, 1.0, 3.0])
def test_an_event_at_the_last_time_counts(last):
    ys, time, y = odeint(lambda y, t: np.ones(()), 0.0, [0.0, last], event=lambda y, t: t - last)
    np.testing.assert_allclose([ys[-1], time, y], last, rtol=1e-12)


def test_an_event_ends_the_solution():
    def ball(y, t, g):
        return np.stack([y[1], -g])

    def fall(g):
        return odeint(ball, np.array([1.0, 0.0]), np.linspace(0, 1, 5), (g,), event=lambda y, t, g: y[0])

    y, t, at = fall(9.81)
    np.testing.assert_allclose(t, np.sqrt(2 / 9.81), rtol=1e-12)
    np.testing.assert_allclose(at, [0, -np.sqrt(2 * 9.81)], atol=1e-12)
    assert np.isnan(y[2:]).all() and np.isfinite(y[:2]).all()
    time = lambda g: fall(g)[1]
    np.testing.assert_allclose(core.grad(time)(9.81), -np.sqrt(0.5) * 9.81**-1.5, rtol=1e-10)
    np.testing.assert_allclose(core.jacfwd(core.grad(time))(9.81), 1.5 * np.sqrt(0.5) * 9.81**-2.5, rtol=1e-9)
    y, t, at = fall(0.5)
    assert np.isnan(t) and np.isnan(at).all() and np.isfinite(y).all()


@pytest.mark.parametrize("wrap", [lambda f: f, core.jit], ids=["eager", "jit"])
@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"f": lambda y, t: y**2, "t": [0, 2.0]}, RuntimeError, "smaller than the time resolves"),
        ({"f": lambda y, t: y * np.nan}, RuntimeError, "smaller than the time resolves"),
        ({"max_steps": 3, "t": [0, 100.0]}, RuntimeError, "3 steps did not reach"),
        ({"t": [0, 2.0, 1.0]}, ValueError, "times must rise or fall"),
        ({"t": [0, np.nan]}, ValueError, "times must rise or fall"),
        ({"t": []}, ValueError, r"one or more times, got shape \(0,\)"),
        ({"f": lambda y, t: np.stack([y, y])}, ValueError, "f must return a tree like y0"),
        ({"args": 0.5}, TypeError, r"args must be a tuple, got .*0.5.*\(k,\) holds one"),
        ({"f": lambda y, t: 1j * y}, TypeError, "must return real numbers for real y0"),
        ({"rtol": -1e-6}, ValueError, "rtol must be >= 0, got -1e-06"),
        ({"method": "rk45"}, ValueError, "method must be 'dopri5' or 'rodas5p', got 'rk45'"),
    ],
)
def test_bad_input(wrap, options, error, message):
    given = {"f": lambda y, t: y, "t": [0, 1.0], **options}
    with np.errstate(all="ignore"), pytest.raises(error, match=message):
        wrap(lambda y0: odeint(given.pop("f"), y0, given.pop("t"), **given))(1.0)


def test_f_is_not_asked_beyond_the_last_time():
    seen = []
    odeint(lambda y, t: seen.append(float(t)) or -y, 1.0, [0, 0.7, 1.3])
    assert max(seen) <= 1.3


def test_few_and_equal_times():
    assert odeint(lambda y, t: y, 1.0, [0.0]).tolist() == [1.0]
    np.testing.assert_allclose(odeint(lambda y, t: y, 1.0, [0, 0, 1, 1]), [1, 1, np.e, np.e], rtol=1e-6)
    assert odeint(lambda y, t: 0 * y, 1, [0, 5]).tolist() == [1.0, 1.0]
