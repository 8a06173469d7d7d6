"""Fits with errors against NIST's certified values, SciPy's curve_fit, lmfit, and formulas for linear models."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize, stats

from triskele import core
from triskele.core import optim

NIST = json.loads((Path(__file__).parents[2] / "data" / "core" / "nist_nonlinear.json").read_text())
X = np.linspace(0.0, 4.0, 30)
SIGMA = 0.05 + 0.02 * X
Y = 2.5 * np.exp(-1.3 * X) + SIGMA * np.random.default_rng(0).normal(size=30)
TIGHT = {"ftol": 1e-15, "xtol": 1e-15, "gtol": 1e-15}


def decay(p, x):
    return p["a"] * np.exp(-p["k"] * x)


def line(p, x):
    return p["slope"] * x + p["start"]


def saturation(b, x):
    return b[0] * (1 - np.exp(-b[1] * x))


def chwirut(b, x):
    return np.exp(-b[0] * x) / (b[1] + b[2] * x)


def peaks(b, x):
    first, second = (b[i] * np.exp(-(((x - b[i + 1]) / b[i + 2]) ** 2)) for i in (2, 5))
    return b[0] * np.exp(-b[1] * x) + first + second


def cubics(b, x):
    return (b[0] + b[1] * x + b[2] * x**2 + b[3] * x**3) / (1 + b[4] * x + b[5] * x**2 + b[6] * x**3)


def decays(b, x):
    return sum(b[i] * np.exp(-b[i + 1] * x) for i in (0, 2, 4))


def cycles(b, x):
    periods = [(12, 1, 2), (b[3], 4, 5), (b[6], 7, 8)]
    return b[0] + sum(b[i] * np.cos(2 * np.pi * x / t) + b[j] * np.sin(2 * np.pi * x / t) for t, i, j in periods)


MODELS = {
    "Bennett5": lambda b, x: b[0] * (b[1] + x) ** (-1 / b[2]),
    "BoxBOD": saturation,
    "Chwirut1": chwirut,
    "Chwirut2": chwirut,
    "DanWood": lambda b, x: b[0] * x ** b[1],
    "ENSO": cycles,
    "Eckerle4": lambda b, x: b[0] / b[1] * np.exp(-0.5 * ((x - b[2]) / b[1]) ** 2),
    "Gauss1": peaks,
    "Gauss2": peaks,
    "Gauss3": peaks,
    "Hahn1": cubics,
    "Kirby2": lambda b, x: (b[0] + b[1] * x + b[2] * x**2) / (1 + b[3] * x + b[4] * x**2),
    "Lanczos1": decays,
    "Lanczos2": decays,
    "Lanczos3": decays,
    "MGH09": lambda b, x: b[0] * (x**2 + x * b[1]) / (x**2 + x * b[2] + b[3]),
    "MGH10": lambda b, x: b[0] * np.exp(b[1] / (x + b[2])),
    "MGH17": lambda b, x: b[0] + b[1] * np.exp(-x * b[3]) + b[2] * np.exp(-x * b[4]),
    "Misra1a": saturation,
    "Misra1b": lambda b, x: b[0] * (1 - (1 + b[1] * x / 2) ** -2),
    "Misra1c": lambda b, x: b[0] * (1 - (1 + 2 * b[1] * x) ** -0.5),
    "Misra1d": lambda b, x: b[0] * b[1] * x / (1 + b[1] * x),
    "Nelson": lambda b, x: b[0] - b[1] * x[0] * np.exp(-b[2] * x[1]),
    "Rat42": lambda b, x: b[0] / (1 + np.exp(b[1] - b[2] * x)),
    "Rat43": lambda b, x: b[0] / (1 + np.exp(b[1] - b[2] * x)) ** (1 / b[3]),
    "Roszman1": lambda b, x: b[0] - b[1] * x - np.arctan(b[2] / (x - b[3])) / np.pi,
    "Thurber": cubics,
}


def nist(name, start):
    """The fit of a problem of NIST from one of its starts."""
    data = NIST[name]
    y = np.log(data["y"]) if name == "Nelson" else data["y"]
    with np.errstate(all="ignore"):
        return core.fit(
            MODELS[name],
            np.array(data["x"]),
            y,
            np.array(data["starts"][start]),
            method=optim.LevenbergMarquardt(max_steps=5000),
        )


@pytest.mark.parametrize("name", NIST)
def test_certified_parameters_and_standard_deviations_of_nist(name):
    data = NIST[name]
    for start in (1,) if name == "BoxBOD" else (0, 1):
        found = nist(name, start)
        np.testing.assert_allclose(found.params, data["certified"], rtol=1e-6)
        # of Lanczos1, the residuals are the rounding of its data: 1e-13
        loose = name == "Lanczos1"
        np.testing.assert_allclose(found.errors, data["deviations"], rtol=2e-3 if loose else 1e-6)
        assert found.chi2 == pytest.approx(data["chi2"], rel=4e-3 if loose else 1e-9)


def test_a_plateau_that_a_far_start_ends_on_is_not_taken_for_a_fit():
    with pytest.warns(RuntimeWarning, match=r"the data do not determine '\[1\]'"):
        found = nist("BoxBOD", 0)
    assert found.params[0] == pytest.approx(np.mean(NIST["BoxBOD"]["y"])) and np.isinf(found.errors[1])


COVARIANCE = np.diag(SIGMA**2) + 0.5 * np.outer(SIGMA, SIGMA) * np.exp(-np.abs(X[:, None] - X) * 3)


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("sigma", [None, 0.3, SIGMA, COVARIANCE], ids=["none", "number", "array", "covariance"])
def test_parameters_and_covariance_of_curve_fit(sigma, absolute):
    found = core.fit(decay, X, Y, {"a": 1, "k": 1}, sigma, absolute_sigma=absolute)
    theirs = np.full(30, sigma) if np.ndim(sigma) == 0 and sigma else sigma
    best, covariance = optimize.curve_fit(
        lambda x, a, k: a * np.exp(-k * x), X, Y, [1, 1], theirs, absolute_sigma=absolute, **TIGHT
    )
    np.testing.assert_allclose([found.params["a"], found.params["k"]], best, rtol=1e-7)
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-6, atol=1e-10)
    np.testing.assert_allclose([found.errors["a"], found.errors["k"]], np.sqrt(np.diag(covariance)), rtol=1e-6)
    np.testing.assert_allclose(found.residuals, Y - best[0] * np.exp(-best[1] * X), atol=1e-7)
    assert found.dof == 28


def test_complex_and_vector_valued_data_are_those_of_their_parts():
    z = np.exp((-0.4 + 2j) * X) * 2 + 0.05 * np.random.default_rng(1).normal(size=(2, 30)).T @ [1, 1j]

    def parts(x, a, damping, frequency):
        value = a * np.exp((-damping + 1j * frequency) * x)
        return np.concatenate([value.real, value.imag])

    best, covariance = optimize.curve_fit(parts, X, np.concatenate([z.real, z.imag]), [1.5, 0.5, 1.8], **TIGHT)

    def wave(p, x):
        return p["a"] * np.exp((-p["rates"][0] + 1j * p["rates"][1]) * x)

    start = {"a": 1.5, "rates": np.array([0.5, 1.8])}
    found = core.fit(wave, X, z, start)
    assert found.names == ["a", "rates[0]", "rates[1]"] and found.dof == 57
    np.testing.assert_allclose(found.params["rates"], best[1:], rtol=1e-7)
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-6, atol=1e-10)
    pairs = core.fit(
        lambda p, x: np.stack([wave(p, x).real, wave(p, x).imag], 1), X, np.stack([z.real, z.imag], 1), start
    )
    np.testing.assert_allclose(pairs.covariance, covariance, rtol=1e-6, atol=1e-10)
    value, error = found.predict(X[:5])
    both, errors = pairs.predict(X[:5])
    np.testing.assert_allclose(np.stack([value.real, value.imag, error.real, error.imag], 1), np.hstack([both, errors]))


def test_intervals_and_bands_of_a_line_are_those_of_linear_regression():
    y = 2 * X + 1 + np.random.default_rng(2).normal(size=30)
    found = core.fit(line, X, y, {"slope": 0.0, "start": 0.0})
    known = stats.linregress(X, y)
    np.testing.assert_allclose(
        [found.errors["slope"], found.errors["start"]], [known.stderr, known.intercept_stderr], rtol=1e-8
    )
    t = stats.t.ppf(0.95, 28)
    for profile in (False, True):  # chi2 is a parabola here
        low, high = found.confidence(0.9, profile=profile)
        np.testing.assert_allclose(low["slope"], known.slope - t * known.stderr, rtol=1e-7)
        np.testing.assert_allclose(high["start"], known.intercept + t * known.intercept_stderr, rtol=1e-7)
    value, error = found.predict(np.array([[10.0], [20.0]]))
    rows = np.array([[10.0, 1.0], [20.0, 1.0]])
    np.testing.assert_allclose(error[:, 0] ** 2, np.einsum("ni,ij,nj->n", rows, found.covariance, rows))
    assert value[0, 0] == pytest.approx(10 * known.slope + known.intercept)
    assert core.fit(line, X, y, {"slope": 0.0, "start": 0.0}, 2, absolute_sigma=True).confidence(0.9)[1][
        "slope"
    ] == pytest.approx(known.slope + stats.norm.ppf(0.95) * 2 / np.sqrt(np.sum((X - X.mean()) ** 2)))


def test_profiles_end_where_the_lowest_chi2_has_risen_by_the_quantile():
    """The lowest chi2 for a rate has a formula, as the amplitude is a linear parameter."""
    found = core.fit(decay, X, Y, {"a": 1.0, "k": 1.0}, SIGMA, absolute_sigma=True)

    def lowest(k):
        basis, data = np.exp(-k * X) / SIGMA, Y / SIGMA
        return data @ data - (data @ basis) ** 2 / (basis @ basis)

    low, high = found.confidence(0.997, profile=True)
    for end in (low["k"], high["k"]):
        assert lowest(end) - found.chi2 == pytest.approx(stats.chi2.ppf(0.997, 1), rel=1e-6)
    assert high["k"] - found.params["k"] > found.params["k"] - low["k"]


@pytest.mark.peer
def test_profiles_of_lmfit():
    lmfit = pytest.importorskip("lmfit")
    model = lmfit.Model(lambda x, a, k, c: a * np.exp(-k * x) + c)
    theirs = model.fit(Y, x=X, a=1.0, k=1.0, c=0.1, weights=1 / SIGMA, fit_kws=TIGHT)
    ends = lmfit.conf_interval(theirs, theirs, sigmas=[0.95])
    found = core.fit(lambda p, x: decay(p, x) + p["c"], X, Y, {"a": 1.0, "k": 1.0, "c": 0.1}, SIGMA)
    low, high = found.confidence(0.95, profile=True)
    for name in "akc":
        np.testing.assert_allclose([low[name], high[name]], [ends[name][0][1], ends[name][-1][1]], rtol=1e-4)


@pytest.mark.parametrize("first", [0.97, 1.02])
def test_an_end_that_does_not_exist_is_infinite(first):
    """Any fast rate fits; with 1.02, the best is so fast that the rate has an error of 1e8 and more."""
    x, y = np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.0, first, 1.0, 1.01])
    found = core.fit(saturation, x, y, np.array([1.0, 3.0]), 0.03, absolute_sigma=True)
    low, high = found.confidence(0.95, profile=True)
    held = optimize.minimize_scalar(lambda a: np.sum((a * (1 - np.exp(-low[1] * x)) - y) ** 2) / 0.03**2)
    assert held.fun - found.chi2 == pytest.approx(stats.chi2.ppf(0.95, 1), rel=1e-5)
    assert 2 < low[1] < 4 and high[1] == np.inf and high[0] < 1.1


def test_parameters_that_the_data_do_not_determine_are_named():
    def model(p, x):
        return (p["first"] + p["second"]) * x + p["start"] + 0 * p["unused"]

    start = {"first": 1.0, "second": 1.0, "start": 0.0, "unused": 1.0}
    with pytest.warns(RuntimeWarning, match="do not determine 'first', 'second', 'unused': infinite errors"):
        found = core.fit(model, X, 2 * X + 1 + 0.1 * np.sin(9 * X), start)
    known = core.fit(line, X, 2 * X + 1 + 0.1 * np.sin(9 * X), {"slope": 1.0, "start": 1.0})
    assert found.errors["start"] == pytest.approx(known.errors["start"] * np.sqrt(28 / 26)) and np.isinf(
        found.errors["first"]
    )
    assert np.isinf(found.covariance[0, 2]) and np.isfinite(found.covariance[2, 2])
    np.testing.assert_allclose(found.predict(X)[0], known.predict(X)[0])
    np.testing.assert_allclose(found.predict(X)[1], known.predict(X)[1] * np.sqrt(28 / 26))  # the sum of both is known
    low, high = found.confidence(profile=True)
    assert (low["first"], high["unused"]) == (-np.inf, np.inf)
    assert high["start"] == pytest.approx(found.confidence()[1]["start"])


def test_as_many_parameters_as_data_leave_errors_to_known_sigma_only():
    with pytest.warns(RuntimeWarning, match="as many parameters as data leave no error for 'slope', 'start'"):
        found = core.fit(line, [0.0, 1.0], [1.0, 3.0], {"slope": 1.0, "start": 0.0})
    assert np.all(np.isinf(found.covariance)) and np.isinf(found.predict([0.5])[1])
    known = core.fit(line, [0.0, 1.0], [1.0, 3.0], {"slope": 1.0, "start": 0.0}, 0.1, absolute_sigma=True)
    assert known.errors["slope"] == pytest.approx(0.1 * np.sqrt(2))


def test_another_data_set_is_traced_once_only_until_something_that_the_model_reads_changes():
    traced, offset, table = [object()], 1.0, np.array([0.0, 0.0])

    def model(p, x):
        traced.append(object())
        return p * x + offset + table[0]

    def slope():
        found = core.fit(model, X, 3 * X + 1, 1.0)
        np.testing.assert_allclose(found.predict(X)[0], 3 * X + 1 - found.residuals)
        return float(found.params)

    assert slope() == pytest.approx(3)
    count = len(traced)
    core.fit(model, X + 1, X**2, 1.0).predict(X)
    core.fit(model, X, X**2, 2.0, report=[].append)
    assert len(traced) == count
    offset = 1 + X.size  # a variable of a function around it
    assert slope() != pytest.approx(3) and len(traced) > count
    offset = 1.0
    assert slope() == pytest.approx(3)
    table[0] = 5.0  # in place
    assert slope() != pytest.approx(3)


def test_rates_of_a_differential_equation():
    times = np.linspace(0, 3, 12)

    def reaction(y, t, rates):
        return np.stack([-rates[0] * y[0], rates[0] * y[0] - rates[1] * y[1]])

    def model(p, t):
        return core.odeint(reaction, np.array([1.0, 0.0]), t, (p["rates"],), rtol=1e-9)

    def closed(t, k, m):
        return np.stack([np.exp(-k * t), k / (m - k) * (np.exp(-k * t) - np.exp(-m * t))], 1).ravel()

    y = closed(times, 2.0, 0.7).reshape(-1, 2) + 0.01 * np.random.default_rng(3).normal(size=(12, 2))
    found = core.fit(model, times, y, {"rates": np.array([1.0, 1.5])})
    best, covariance = optimize.curve_fit(closed, times, y.ravel(), [1.0, 1.5], **TIGHT)
    np.testing.assert_allclose(found.params["rates"], best, rtol=1e-6)
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-5)


def test_a_fit_can_be_printed_and_pickled():
    found = core.fit(decay, X, Y, {"a": 1.0, "k": 1.0})
    loaded = pickle.loads(pickle.dumps(found))
    np.testing.assert_allclose(loaded.predict(X), found.predict(X))
    assert repr(loaded) == repr(found)
    assert repr(found).splitlines()[0].endswith("28 degrees of freedom")
    assert repr(found).splitlines()[2] == f"  k  {found.params['k']:.3f} ± {found.errors['k']:.3f}"
    with pytest.warns(RuntimeWarning):
        many = core.fit(lambda p, x: p["w"] * x, np.ones(50), np.ones(50), {"w": np.ones(50)})
    assert "w[19]  1 ± inf\n  ... 30 more" in repr(many)


def test_bad_data_are_located():
    start, broken = {"slope": 1.0, "start": 0.0}, np.where(np.arange(30) == 7, np.nan, Y)
    for arguments, error, text in [
        ((X, broken), ValueError, "fit: y must be finite, got nan at 7"),
        ((broken, Y), ValueError, "fit: the model at p0 must be finite, got nan at 7"),
        ((X, Y[:, None]), ValueError, r"must return the shape of y, \(30, 1\), got \(30,\)"),
        ((X, Y, start, np.zeros(30)), ValueError, "sigma must be positive, got 0.0 at 0"),
        ((X[:1], Y[:1]), ValueError, "as many data as parameters, got 1 data for 2 parameters"),
        ((1j * X, Y), TypeError, "must return real numbers for real y"),
    ]:
        with pytest.raises(error, match=text):
            core.fit(line, *arguments[:2], *(arguments[2:] or [start]))
    with pytest.raises(RuntimeError, match="did not converge: max_steps=2 reached; chi2 = "):
        core.fit(decay, X, Y, {"a": 1.0, "k": 9.0}, method=optim.LevenbergMarquardt(max_steps=2))
    with pytest.raises(TypeError, match="fit: method must be a GaussNewton"):
        core.fit(line, X, Y, start, method="lm")
    two = core.fit(lambda p, x: np.cos(p * x), X, np.cos(3 * X) + 0.1 * np.cos(5 * X), 5.0)  # a second minimum
    with pytest.raises(RuntimeError, match="chi2 must not be lower anywhere"):
        two.confidence(0.9999999, profile=True)


@pytest.mark.slow
@pytest.mark.parametrize("absolute", [False, True])
def test_intervals_hold_the_truth_as_often_as_they_say(absolute):
    """500 data sets of 8 points; four standard deviations of the share are 0.04."""
    x, rng, held = np.linspace(0, 3, 8), np.random.default_rng(4), []
    for _ in range(500):
        y = 2.0 * np.exp(-0.8 * x) + 0.05 * rng.normal(size=8)
        found = core.fit(decay, x, y, {"a": 1.5, "k": 1.0}, 0.05, absolute_sigma=absolute)
        for profile in (False, True):
            low, high = found.confidence(0.95, profile=profile)
            held.append([low["a"] < 2.0 < high["a"], low["k"] < 0.8 < high["k"]])
    shares = np.mean(np.reshape(held, (500, 2, 2)), axis=0)
    np.testing.assert_allclose(shares, 0.95, atol=0.04)


@pytest.mark.parametrize("unit", [1e-14, 1e-13, 1e-6, 1e10, 1e15])
def test_the_unit_of_data_does_not_matter(unit):
    """From a start in another unit, too."""
    x = np.linspace(0, 4, 30)
    y = 2.5 * np.exp(-x) + 0.01 * np.random.default_rng(0).normal(size=30)
    wanted = core.fit(lambda p, x: p[0] * np.exp(-p[1] * x), x, y, np.array([1.0, 1.5]))
    found = core.fit(lambda p, x: p[0] * np.exp(-p[1] * x), x, y * unit, np.array([1.0, 1.5]))
    scale = np.array([unit, 1.0])
    np.testing.assert_allclose(found.params, wanted.params * scale, rtol=1e-5)
    np.testing.assert_allclose(found.errors, wanted.errors * scale, rtol=1e-3)


def test_a_start_near_zero_is_no_lack_of_data():
    x = np.linspace(0, 4, 30)
    y = 3 * x + 1 + 0.1 * np.random.default_rng(0).normal(size=30)
    line = lambda p, x: p["a"] * x + p["b"]
    wanted, found = (core.fit(line, x, y, {"a": a, "b": 1.0}) for a in (1.0, 1e-20))
    np.testing.assert_allclose(found.errors["a"], wanted.errors["a"], rtol=1e-6)


def test_as_many_data_as_parameters_say_nothing_of_errors():
    with pytest.warns(RuntimeWarning, match="leave no error"):
        found = core.fit(lambda p, x: p[0] * x + p[1], np.array([0.0, 1.0]), np.array([1.0, 3.0]), np.array([1.0, 0.0]))
    for profile in (False, True):
        low, high = found.confidence(profile=profile)
        assert np.all(low == -np.inf) and np.all(high == np.inf)
