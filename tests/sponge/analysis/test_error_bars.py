"""Error bars of all estimators that have some, by their coverage: of exactly known answers, over repeats."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import ndtr as _phi

from triskele.sponge import analysis, units

KT = units.GAS_CONSTANT * 300.0
REPEATS = 40


def correlated(rng, shape, rho=0.8):
    """A stationary autoregressive process of mean 0 and variance 1; time goes along the first axis."""
    x = rng.normal(size=shape)
    for t in range(1, len(x)):
        x[t] = rho * x[t - 1] + np.sqrt(1 - rho * rho) * x[t]
    return x


def _mean(rng):
    found = analysis.mean(3.0 + correlated(rng, 4000))
    return (found.value - 3.0) / found.error


def _blocks(rng):
    found = analysis.block_average(correlated(rng, 8192))
    return found.mean / np.median(found.error[len(found.error) // 2 : -3])


def _density(rng):
    volume = 8.0 + 0.1 * correlated(rng, 4000)
    found = analysis.density([100.0], np.cbrt(volume)[:, None, None] * np.eye(3)).mean
    exact = 100.0 * units.DENSITY / 8.0 * (1 + (0.1 / 8.0) ** 2)  # the mean of 1/volume, to fourth order
    return (found.value - exact) / found.error


def _drift(rng):
    t = np.arange(4000) * 0.1
    found = analysis.energy_drift(t, 1e-3 * t + correlated(rng, 4000), 100, 300.0)
    return (found.value - 1e-3 * 1000 / 100 / KT) / found.error


def _diffusion(rng):
    x = np.cumsum(rng.normal(scale=np.sqrt(2 * 0.3 * 0.5), size=(1000, 20, 3)), axis=0)
    found = analysis.diffusion_coefficient(x, 0.5)
    return (found.value - 0.3) / found.error


def _populations(rng):
    x = correlated(rng, 8000)
    found = analysis.populations(x, x, {"right": analysis.Rectangle(phi=(0.0, np.pi))})["right"]
    inside = 0.5 * (np.sum([_phi(np.pi * (2 * k + 1)) - _phi(2 * np.pi * k) for k in range(-2, 3)]) * 2)
    return (found.value - inside) / found.error


def _gauss(found):
    """Of a profile between -2 and 2: deviations from -kT ln p of the bins' standard normal density, in standard
    errors.
    """
    h = found.x[1] - found.x[0]
    p = _phi(found.x + h / 2) - _phi(found.x - h / 2)
    z = (found.value + KT * np.log(p)) / found.error
    w = 1 / found.error**2
    return z - np.sum(w * z * found.error) / np.sum(w) / found.error  # a constant is of no concern


def _profile(rng):
    return _gauss(analysis.profile(correlated(rng, 20_000), temperature=300.0, bins=10, limits=(-2.0, 2.0)))


def _weighted_profile(rng):
    x = 1.3 * correlated(rng, 20_000)
    weights = np.exp(-0.5 * x**2 + 0.5 * (x / 1.3) ** 2)
    return _gauss(analysis.profile(x, weights, temperature=300.0, bins=10, limits=(-2.0, 2.0)))


def _windows(rng, m=800):
    """Samples of a harmonic potential of 1 kT in harmonic windows of 4 kT."""
    centers = np.linspace(-2.5, 2.5, 8)
    return centers, [4 / 5 * c + correlated(rng, m) / np.sqrt(5.0) for c in centers]


def _wham(rng):
    centers, samples = _windows(rng)
    found = analysis.wham(samples, centers, 4 * KT, temperature=300.0, bins=12, limits=(-2.0, 2.0), bootstrap=60)
    return _gauss(SimpleNamespace(x=found.middles[0], value=found.value, error=found.error))


def _reduced(rng):
    centers, samples = _windows(rng, 400)
    x = np.stack(samples)
    return x, np.concatenate([[0.5 * x**2 + 2 * (x - c) ** 2] for c in centers])


def _mbar_free_energies(rng):
    _, u = _reduced(rng)
    found = analysis.mbar(u, inefficiency=9.0)
    exact = 0.5 * 4 / 5 * np.linspace(-2.5, 2.5, 8) ** 2
    return ((found.free_energies - exact + exact[0]) / np.where(found.errors > 0, found.errors, np.inf))[1:]


def _mbar_mean(rng):
    x, u = _reduced(rng)
    found = analysis.mbar(u)
    value, error = found.mean(x**2, 0.5 * x**2)
    return (value - 1.0) / error


def _mbar_free_energy(rng):
    x, u = _reduced(rng)
    value, error = analysis.mbar(u).free_energy(0.5 * x**2)
    exact = 0.5 * np.log(1 / 5) - 0.5 * 4 / 5 * 2.5**2
    return (value - exact) / error


@pytest.mark.parametrize(
    "estimator",
    [
        _mean,
        _blocks,
        pytest.param(_density, marks=pytest.mark.slow),
        _drift,
        _diffusion,
        _populations,
        _profile,
        _weighted_profile,
        _wham,
        _mbar_free_energies,
        _mbar_mean,
        _mbar_free_energy,
    ],
)
def test_errors_are_as_large_as_they_say(estimator):
    z = np.array([estimator(np.random.default_rng([7, k])) for k in range(REPEATS)])
    assert np.isfinite(z).all()
    assert 0.6 < z.std() < 1.6, f"deviations are {z.std():.2f} standard errors"
    assert abs(z.mean()) < 4 / np.sqrt(REPEATS), f"deviations are {z.mean():.2f} standard errors in the mean"


# ---------------------------------------------------------------------------------------------------------- edges


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 7, 12, 61])
def test_the_inefficiency_of_short_series_is_that_of_its_definition(rng, n):
    """Term by term in time, to the last pair of lags that there is."""
    for rho in (0.0, 0.9, 0.999):
        x = correlated(rng, n, rho)
        d, g = x - x.mean(), 1.0
        c = [np.sum(d[: n - t] * d[t:]) / (n - t) / max(np.mean(d * d), 1e-300) for t in range(n)]
        for t in range(1, n - 1, 2):
            if n < 4 or c[t] + c[t + 1] <= 0:
                break
            g += 2 * ((1 - t / n) * c[t] + (1 - (t + 1) / n) * c[t + 1])
        assert analysis.statistical_inefficiency(x) == pytest.approx(max(g, 1.0), rel=1e-9)
        found = analysis.mean(x)
        assert found.error == pytest.approx(np.sqrt(found.inefficiency / n) * x.std(ddof=1), rel=1e-9)


@pytest.mark.parametrize(
    "visits, known",
    [([5, 5], True), ([5, 6], False), ([4, 1, 1], True), ([5, 1, 1], False), ([7, 0, 0], False), ([3, 3, 3, 0], True)],
)
def test_a_bin_that_fewer_than_two_blocks_decide_has_no_error(visits, known):
    """By hand, from the visits of a bin in each block of 20: (sum of n)^2 must be at least twice the sum of n^2."""
    x = np.concatenate([np.repeat([0.75, 0.25], [n, 20 - n]) for n in visits])
    found = analysis.profile(x, temperature=300.0, bins=2, limits=(0.0, 1.0), blocks=len(visits))
    n, b = np.array(visits), len(visits)
    p = n.sum() / (20 * b)
    error = np.sqrt(b / (b - 1) * np.sum((n - 20 * p) ** 2)) / (20 * b) / p * KT
    assert found.probability == pytest.approx([1 - p, p])
    assert found.error[1] == (pytest.approx(error, abs=1e-12) if known else np.inf)


def test_means_of_fewer_than_ten_samples_that_count_are_warned_about(rng):
    found = analysis.mbar(np.zeros((1, 1, 20)))
    for n in (9, 10):
        elsewhere = np.where(np.arange(20) < n, 0.0, 1000.0)  # a state that only n samples belong to
        with pytest.warns(UserWarning, match="only 9.0 samples count") if n == 9 else nullcontext():
            found.mean(rng.normal(size=20), elsewhere)
