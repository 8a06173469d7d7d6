"""Free energies, populations and effective samples: against exact distributions and processes, errors by their
coverage.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from triskele.sponge import analysis, units

KT = units.GAS_CONSTANT * 300


def autoregressive(rng, rho, shape):
    """x_{t+1} = rho x_t + sqrt(1 - rho^2) noise along the first axis, standard normal at all times."""
    from scipy.signal import lfilter

    start, noise = rng.normal(size=(1, *shape[1:])), rng.normal(size=shape)
    return lfilter([np.sqrt(1 - rho**2)], [1, -rho], noise, axis=0, zi=rho * start)[0]


def two_states(rng, enter, leave, n):
    """A Markov chain of 0 and 1: exact probability of 1 is enter / (enter + leave)."""
    u, x = rng.uniform(size=n), np.empty(n, int)
    x[0] = u[0] < enter / (enter + leave)
    for t in range(1, n):
        x[t] = u[t] < enter if x[t - 1] == 0 else u[t] >= leave
    return x


def coverage(z):
    """Shares of |z| below 1 and below 2: 0.683 and 0.954 for honest errors."""
    z = np.abs(np.ravel(z))
    return np.mean(z < 1), np.mean(z < 2)


# -- means of weighted series
# -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", [0.0, 0.9])
@pytest.mark.parametrize("tilt", [0.0, 0.8])
@pytest.mark.parametrize("series", [1, 4])
def test_error_bars_of_weighted_correlated_means_hold_what_they_promise(rng, rho, tilt, series):
    # weights exp(a x) turn the standard normal into one of mean a
    z = []
    for _ in range(200):
        x = autoregressive(rng, rho, (20_000 // series, series))
        result = analysis.mean(x, np.exp(tilt * x))
        z.append((result.value - tilt) / result.error)
    one, two = coverage(z)
    assert 0.58 < one < 0.78 and two > 0.90


@pytest.mark.parametrize("rho", [0.0, 0.8, 0.95])
def test_effective_samples_of_an_autoregressive_process(rng, rho):
    x = autoregressive(rng, rho, (200_000,))
    assert analysis.effective_samples(x) == pytest.approx(len(x) * (1 - rho) / (1 + rho), rel=0.12)


def test_effective_samples_are_the_scatter_of_many_runs(rng):
    # by definition: variance of x in the target over the variance of the estimate, which here is measured
    rho, tilt, n = 0.9, 0.7, 5000
    runs = autoregressive(rng, rho, (n, 400))
    w = np.exp(tilt * runs)
    estimates = np.sum(w * runs, 0) / np.sum(w, 0)
    true = 1.0 / np.mean((estimates - tilt) ** 2)
    found = np.median([analysis.effective_samples(x, v) for x, v in zip(runs.T[:100], w.T[:100])])
    assert found == pytest.approx(true, rel=0.2)


def test_effective_samples_are_not_those_of_kish_over_the_inefficiency_of_x(rng):
    # quick weights (Kish: a third) average out while a slow x stands still: y = w x has g_y <y^2> = <w^2> + <w>^2 (g_x
    # - 1)
    x, w = autoregressive(rng, 0.95, (200_000,)), rng.gamma(0.5, 2.0, 200_000)
    assert analysis.effective_samples(x, w) == pytest.approx(len(x) / (3 + 38), rel=0.12)


def test_effective_samples_with_weights_that_have_nothing_to_do_with_x_are_those_of_kish(rng):
    x, w = rng.normal(size=100_000), rng.gamma(0.5, size=100_000)
    assert analysis.effective_samples(x, w) == pytest.approx(w.sum() ** 2 / np.sum(w**2), rel=0.05)


def test_effective_samples_of_an_angle_do_not_care_where_it_is_cut(rng):
    # diffuses around the circle: <cos cos> falls off as exp(-0.9^2 0.3^2 t / 2)
    x = 0.9 * np.cumsum(rng.normal(0, 0.3, 50_000))
    wrapped = np.mod(x, 2 * np.pi)
    found = analysis.effective_samples(wrapped, period=2 * np.pi)
    decay = np.exp(-(0.27**2) / 2)
    assert found == pytest.approx(50_000 * (1 - decay) / (1 + decay), rel=0.25)
    assert found == pytest.approx(analysis.effective_samples(x, period=2 * np.pi), rel=1e-9)


def test_series_that_stay_apart_are_few_samples(rng):
    stuck = np.array([0.0, 0.0, 1.0, 1.0]) + rng.normal(0, 0.1, (1000, 4))
    assert analysis.effective_samples(stuck) < 10
    assert analysis.mean(stuck).error > 0.15  # sqrt(0.25 / 4) = 0.25


@settings(max_examples=30, deadline=None)
@given(st.floats(1e-200, 1e200), st.integers(0, 2**32 - 1))
def test_weights_count_only_in_proportion(factor, seed):
    rng = np.random.default_rng(seed)
    x, w = rng.normal(size=200), rng.uniform(0.1, 1, 200)
    a, b = analysis.mean(x, w), analysis.mean(x, factor * w)
    assert a.value == pytest.approx(b.value, rel=1e-12, abs=1e-14) and a.error == pytest.approx(b.error, rel=1e-9)
    assert analysis.mean(x, np.full(200, factor)).error == pytest.approx(analysis.mean(x).error, rel=1e-9)


@pytest.mark.parametrize("first", [0, 20_000, 24_999, 49_997])
@pytest.mark.parametrize("weight", [1e-9, 1.0, 1e3])
def test_a_region_visited_once_has_no_error_bar(first, weight):
    inside, w = np.zeros(50_000, bool), np.ones(50_000)
    inside[first : first + 3], w[first : first + 3] = True, weight
    found = analysis.mean(inside, w)
    assert found.value == pytest.approx(3 * weight / (49_997 + 3 * weight), rel=1e-9) and found.error == np.inf
    assert analysis.effective_samples(inside, w) == 0


def test_a_region_visited_often_has_one():
    """Twenty visits of ten samples, far apart: a Poisson number of mean 20, of which each counts ten times."""
    inside = (np.arange(40_000) % 2000) < 10
    assert analysis.mean(inside).error == pytest.approx(inside.mean() / np.sqrt(20), rel=0.1)


def test_the_error_of_a_fraction_of_none_or_all_is_unknown():
    for all_alike in (np.zeros(100, bool), np.ones(100, bool)):
        assert np.isnan(analysis.mean(all_alike).error)
    assert analysis.mean(np.ones(100)).error == 0.0


# -- populations -------------------------------------------------------------------------------------------------------


def test_populations_of_a_two_state_chain(rng):
    enter, leave, n = 0.01, 0.03, 20_000
    z = []
    for _ in range(60):
        phi = np.where(two_states(rng, enter, leave, n), 1.0, -1.0)
        result = analysis.populations(phi, np.zeros(n), {"right": analysis.Rectangle(phi=(0, np.pi))})
        z.append((result["right"].value - 0.25) / result["right"].error)
    one, two = coverage(z)
    assert 0.5 < one < 0.85 and two > 0.85
    # exactly g = (1 + decay) / (1 - decay) with decay = 1 - enter - leave
    assert result["right"].inefficiency == pytest.approx(1.96 / 0.04, rel=0.5)


def test_rectangles_wrap_and_divide_the_plane(rng):
    phi, psi = rng.uniform(-10, 10, (2, 1000))
    right = analysis.Rectangle(phi=(2.5, -2.5))
    assert np.array_equal(right(phi, psi), np.abs(np.mod(phi + np.pi, 2 * np.pi) - np.pi) >= 2.5)
    parts = [
        analysis.Rectangle((a, a + np.pi / 2), (b, b + np.pi))
        for a in np.arange(4) * np.pi / 2
        for b in (-1.0, np.pi - 1.0)
    ]
    assert np.array_equal(np.sum([p(phi, psi) for p in parts], axis=0), np.ones(1000))
    assert analysis.Rectangle()(phi, psi).all()


def test_populations_never_seen_have_no_error_bar():
    result = analysis.populations(
        [0.1, 0.2, 0.3], [0, 0, 0], {"in": analysis.Rectangle((0, 1)), "out": analysis.Rectangle((1, 2))}
    )
    assert result.value.tolist() == [1, 0] and np.isnan(result.error).all()
    assert str(result).endswith(" 0.0000 (error unknown)")
    assert "out 0.0000" in str(result)


# -- surfaces and profiles
# ----------------------------------------------------------------------------------------------


def test_error_bars_of_a_surface_hold_what_they_promise(rng):
    # uniform angles that move slowly, weighted by exp(cos phi + cos(psi) / 2)
    bins, z = 6, []
    edge = np.linspace(-np.pi, np.pi, bins + 1)
    fine = (np.arange(bins * 400) + 0.5) * 2 * np.pi / (bins * 400) - np.pi
    density = [np.exp(a * np.cos(fine)).reshape(bins, 400).sum(1) for a in (1.0, 0.5)]
    exact = np.outer(density[0] / density[0].sum(), density[1] / density[1].sum())
    for _ in range(40):
        phi, psi = (2 * np.pi * special.ndtr(autoregressive(rng, 0.95, (20_000,))) - np.pi for _ in range(2))
        result = analysis.free_energy(phi, psi, np.exp(np.cos(phi) + 0.5 * np.cos(psi)), temperature=300, bins=bins)
        z.append(-KT * np.log(result.probability / exact) / result.error)
    one, two = coverage(z)
    assert 0.60 < one < 0.76 and 0.91 < two < 0.98
    assert result.phi == pytest.approx(0.5 * (edge[1:] + edge[:-1]))


def test_error_bars_of_a_profile_hold_what_they_promise(rng):
    z = []
    edges = np.linspace(-2, 2, 9)
    exact = np.diff(special.ndtr(edges)) / (special.ndtr(2) - special.ndtr(-2))
    for _ in range(60):
        x = autoregressive(rng, 0.9, (2500, 4))
        result = analysis.profile(x, temperature=300, bins=8, limits=(-2, 2))
        z.append(-KT * np.log(result.probability / exact) / result.error)
    one, two = coverage(z)
    assert 0.60 < one < 0.76 and 0.91 < two < 0.98


def test_a_periodic_profile_is_that_of_von_mises(rng):
    x = rng.vonmises(2.0, 1.5, 200_000) + 2 * np.pi * rng.integers(-3, 4, 200_000)
    result = analysis.profile(x, temperature=300, bins=24, period=(0, 2 * np.pi))
    expected = KT * 1.5 * (1 - np.cos(result.x - 2.0))
    assert result.x[0] == pytest.approx(np.pi / 24)
    assert result.value - result.value.mean() == pytest.approx(expected - expected.mean(), abs=0.15)


def test_minima_of_a_mixture_are_found_and_noise_is_not(rng):
    centers = np.radians([[-75, 75], [-150, 165], [60, -60]])
    which = rng.choice(3, 200_000, p=[0.55, 0.40, 0.05])
    phi, psi = rng.vonmises(centers[which].T, 12.0)
    found = analysis.free_energy(phi, psi, temperature=300, bins=60, blocks=40).minima()
    assert len(found) == 3
    for minimum, center, share in zip(found, centers, [0.55, 0.40, 0.05]):
        assert (minimum.phi, minimum.psi) == pytest.approx(tuple(center), abs=np.radians(4))
        expected = KT * np.log(0.55 / share)
        assert abs(minimum.value - expected) < 4 * minimum.error + 0.1 * KT
    assert found[0].depth == np.inf and found[0].value == 0


def test_one_broad_minimum_stays_one(rng):
    phi, psi = rng.vonmises(np.pi, 0.8, (2, 50_000))  # across the edge of the map
    (minimum,) = analysis.free_energy(phi, psi, temperature=300, bins=36).minima()
    assert np.abs(np.abs([minimum.phi, minimum.psi]) - np.pi).max() < 0.3


def test_more_samples_make_less_error(rng):
    x = autoregressive(rng, 0.9, (40_000, 2))
    long, short = (analysis.free_energy(*x[:n].T, temperature=300, bins=4).error.min() for n in (40_000, 2500))
    assert short / long == pytest.approx(4, rel=0.6)


def test_a_single_sample_has_no_error_bar():
    result = analysis.free_energy([0.1], [0.1], temperature=300, bins=4)
    assert np.isinf(result.error).all()
    assert np.isinf(analysis.profile([0.1], temperature=300, bins=4, limits=(0, 1)).error).all()


def test_bad_input_is_named():
    x = np.linspace(0, 1, 10)
    with pytest.raises(ValueError, match=r"mean: samples must be finite, got nan at 1"):
        analysis.mean([1.0, np.nan])
    with pytest.raises(ValueError, match=r"profile: weights must have the shape of the samples, \(10,\), got \(9,\)"):
        analysis.profile(x, np.ones(9), temperature=300)
    with pytest.raises(ValueError, match="weights must be finite and >= 0"):
        analysis.mean(x, -x)
    with pytest.raises(ValueError, match="x must vary"):
        analysis.effective_samples(np.ones(10))
    with pytest.raises(ValueError, match="no sample lies within the limits 2 to 3"):
        analysis.profile(x, temperature=300, limits=(2, 3))
    with pytest.raises(ValueError, match="profile: bins must be an integer >= 1, got 2.5"):
        analysis.profile(x, temperature=300, bins=2.5)
    with pytest.raises(ValueError, match=r"profile: limits must be \(lowest, highest\), got \(0, 1, 2\)"):
        analysis.profile(x, temperature=300, limits=(0, 1, 2))
    with pytest.raises(ValueError, match="either period or limits"):
        analysis.profile(x, temperature=300, limits=(2, 3), period=(0, 1))
    with pytest.raises(ValueError, match="blocks must be an integer >= 2"):
        analysis.free_energy(x, x, temperature=300, blocks=1)
    with pytest.raises(ValueError, match="region 'all' must give an array of bool"):
        analysis.populations(x, x, {"all": lambda phi, psi: phi})
    with pytest.raises(ValueError, match="at least one region"):
        analysis.populations(x, x, {})


def test_pictures(rng):
    pytest.importorskip("matplotlib").use("agg")
    from matplotlib import pyplot

    phi, psi = rng.vonmises(0, 3, (2, 5000))
    surface = analysis.free_energy(phi, psi, temperature=300, bins=20)
    line = analysis.profile(phi, temperature=300, period=(-np.pi, np.pi))
    shares = analysis.populations(
        phi, psi, {"left": analysis.Rectangle(phi=(-np.pi, 0)), "none": analysis.Rectangle((3, 3.1), (3, 3.1))}
    )
    for draw in (surface.plot, surface.plot_error, line.plot, shares.plot):
        ax = draw()
        ax.figure.canvas.draw()
        assert ax.get_xlabel() and ax.get_ylabel()
        pyplot.close(ax.figure)


def test_minima_do_not_depend_on_where_the_map_is_cut(rng):
    width, centers = 2 * np.pi / 12, np.array([[0.3, 0.1], [2.4, 1.5]])
    angles = rng.vonmises(centers[rng.choice(2, 5000, p=[0.7, 0.3])].T, 40.0)  # nothing between
    plain = analysis.free_energy(*angles, temperature=300, bins=12, blocks=20).minima()
    assert len(plain) == 2
    for shift in np.ndindex(12, 12):  # every bin is the first one once
        moved = angles + width * np.array(shift)[:, None]
        found = analysis.free_energy(*moved, temperature=300, bins=12, blocks=20).minima()
        assert [m.value for m in found] == pytest.approx([m.value for m in plain], abs=1e-9)
        for a, b in zip(found, plain, strict=True):
            turn = np.array([a.phi - b.phi, a.psi - b.psi]) - width * np.array(shift)
            np.testing.assert_allclose(np.exp(1j * turn), 1, atol=1e-9)
