"""WHAM and MBAR against exact distributions, against pymbar and each other; errors that mean something."""

import numpy as np
import pytest

from triskele.sponge import units
from triskele.sponge.analysis import mbar, wham
from triskele.sponge.analysis.wham import Wham

RT = units.GAS_CONSTANT * 300.0


def double_well(x):
    """In kJ/mol: two wells, 6 apart in depth, and a barrier of 20."""
    return 20 * (x**2 - 1) ** 2 + 3 * x


def draw(rng, energy, grid, m):
    """Samples of exp(-energy/RT) on a grid, spread over its cells."""
    p = np.exp(-(energy - energy.min()) / RT)
    return rng.choice(grid, m, p=p / p.sum()) + rng.uniform(-0.5, 0.5, m) * (grid[1] - grid[0])


GRID = np.linspace(-2, 2, 4001)
CENTERS = np.linspace(-1.5, 1.5, 13)


def windows(seed=0, m=800, k=100.0, potential=double_well, centers=CENTERS):
    rng = np.random.default_rng(seed)
    return [draw(rng, potential(GRID) + 0.5 * k * (GRID - c) ** 2, GRID, m) for c in centers]


def exact(edges, potential=double_well):
    """Free energies of bins, relative to their mean."""
    inside = [np.mean(np.exp(-potential(np.linspace(a, b, 101)) / RT)) for a, b in zip(edges, edges[1:], strict=False)]
    return -RT * np.log(inside)


def test_a_double_well_comes_out_within_its_errors():
    edges = np.linspace(-1.5, 1.5, 31)
    scaled = []
    for seed in range(5):
        result = wham(windows(seed), CENTERS, 100.0, temperature=300, bins=30, limits=(-1.5, 1.5), bootstrap=40)
        assert isinstance(result, Wham) and result.iterations < 20 and result.probability.sum() == pytest.approx(1)
        known = result.error < 1.0  # but for the ends, where hardly anything is sampled
        d = (result.value - exact(edges))[known]
        d -= np.average(d, weights=result.error[known] ** -2)
        assert known.sum() > 25 and np.abs(d).max() < 2.0
        scaled += (d / result.error[known]).tolist()
    assert 0.6 < np.std(scaled) < 1.5
    p, error = result.population(lambda x: x > 0)
    weight = np.exp(-double_well(GRID) / RT)
    inside = np.abs(GRID) < 1.5
    right = weight[inside & (GRID > 0)].sum() / weight[inside].sum()
    assert abs(p - right) < 4 * error < 0.2


def test_free_energies_of_windows_are_those_of_their_biases():
    result = wham(windows(3, m=3000), CENTERS, 100.0, temperature=300, bins=60)
    z = [np.exp(-(double_well(GRID) + 50 * (GRID - c) ** 2) / RT).sum() for c in CENTERS]
    d = result.offsets + RT * np.log(np.array(z) / z[0])  # A = -RT ln Z
    assert np.all(np.abs(d)[1:] < 4 * result.offset_errors[1:] + 0.05)
    assert np.allclose(result.overlap.sum(1), 1) and result.offsets[0] == 0


def test_periodic_variables_have_no_edge():
    def potential(x):
        return 8 * np.cos(x) + 4 * np.sin(2 * x)

    grid = np.linspace(-np.pi, np.pi, 2001)
    centers = np.linspace(-np.pi, np.pi, 12, endpoint=False)
    rng = np.random.default_rng(1)
    data = [draw(rng, potential(grid) + 15 * np.angle(np.exp(1j * (grid - c))) ** 2, grid, 1500) for c in centers]
    turned = [x + 2 * np.pi * rng.integers(-2, 3, len(x)) for x in data]  # as an angle that is not wrapped
    result = wham(turned, centers + 2 * np.pi, 30.0, temperature=300, bins=40, period=(-np.pi, np.pi), bootstrap=30)
    d = result.value - exact(np.linspace(-np.pi, np.pi, 41), potential)
    d -= d.mean()
    assert np.abs(d).max() < 0.8 and np.std(d / result.error) < 1.6
    assert result.offsets == pytest.approx(
        wham(data, centers, 30.0, temperature=300, bins=40, period=(-np.pi, np.pi), bootstrap=0).offsets, abs=1e-6
    )


def test_two_variables():
    def potential(x, y):
        return 10 * (x**2 - 1) ** 2 + 8 * (y - 0.5 * x) ** 2

    x = np.linspace(-1.6, 1.6, 81)
    grid = np.stack(np.meshgrid(x, x, indexing="ij"), -1).reshape(-1, 2)
    centers = np.stack(np.meshgrid([-1.2, -0.6, 0, 0.6, 1.2], [-0.8, 0, 0.8], indexing="ij"), -1).reshape(-1, 2)
    rng, data = np.random.default_rng(2), []
    for c in centers:
        energy = potential(*grid.T) + 0.5 * 30.0 * ((grid - c) ** 2).sum(1)
        p = np.exp(-(energy - energy.min()) / RT)
        data.append(
            grid[rng.choice(len(grid), 2000, p=p / p.sum())] + rng.uniform(-0.5, 0.5, (2000, 2)) * (x[1] - x[0])
        )
    result = wham(
        data, centers, [30.0, 30.0], temperature=300, bins=(16, 16), limits=[(-1.6, 1.6), (-1.6, 1.6)], bootstrap=10
    )
    fine = (np.linspace(-1.6, 1.6, 161)[1:] + np.linspace(-1.6, 1.6, 161)[:-1]) / 2  # ten points a bin
    density = np.exp(-potential(*np.meshgrid(fine, fine, indexing="ij")) / RT).reshape(16, 10, 16, 10).mean((1, 3))
    well = (result.value < 10) & (result.error < 1.0)
    d = (result.value + RT * np.log(density))[well]
    assert result.value.shape == (16, 16) and well.sum() > 30
    assert np.std(d) < 0.5 and np.std((d - d.mean()) / result.error[well]) < 1.5
    by_function = wham(
        data,
        bias=[lambda x, y, c=c: 15.0 * ((x - c[0]) ** 2 + (y - c[1]) ** 2) for c in centers],
        temperature=300,
        bins=(16, 16),
        limits=[(-1.6, 1.6), (-1.6, 1.6)],
        bootstrap=0,
    )
    assert by_function.offsets == pytest.approx(result.offsets, abs=1e-6)


def test_wham_agrees_with_mbar():
    data = windows(7)
    narrow = wham(data, CENTERS, 100.0, temperature=300, bins=400, bootstrap=0)
    x = np.concatenate(data)
    bias = 50 * (x - CENTERS[:, None]) ** 2 / RT
    result = mbar(np.concatenate([np.zeros((1, x.size)), bias]), [0, *map(len, data)])
    assert narrow.offsets / RT == pytest.approx(result.free_energies[1:] - result.free_energies[1], abs=0.05)
    p, error = result.mean(x > 0)
    assert abs(p - narrow.population(lambda x: x > 0)[0]) < 0.01 and 0 < error < 0.2


def test_correlated_samples_count_less():
    data = windows(5, m=500)
    repeated = [np.repeat(np.sort(x), 4) for x in data]
    honest = wham(data, CENTERS, 100.0, temperature=300, bins=20, bootstrap=30)
    slow = wham(repeated, CENTERS, 100.0, temperature=300, bins=20, bootstrap=30)
    assert np.all(slow.samples < 0.2 * honest.samples)
    assert np.nanmedian(slow.error) > 2 * np.nanmedian(honest.error)


def test_windows_without_overlap_are_told_about():
    far = [-1.5, -1.4, 1.4, 1.5]
    with pytest.warns(
        UserWarning,
        match=r"wham: windows 0, 1 do not overlap with 2, 3: the free energy between them "
        r"is not determined",
    ):
        wham(windows(k=2000.0, centers=far), far, 2000.0, temperature=300, bins=50, bootstrap=0)
    x = np.concatenate(windows(k=2000.0, centers=far))
    with pytest.warns(UserWarning, match="mbar: states 0, 1 do not overlap with 2, 3"):
        mbar(1000 * (x - np.array(far)[:, None]) ** 2 / RT, [800] * 4)


def test_bins_that_nobody_saw_are_infinite():
    result = wham(windows(), CENTERS, 100.0, temperature=300, bins=40, limits=(-4, 4), bootstrap=5)
    unseen = np.abs(result.middles[0]) > 2
    assert (
        np.isinf(result.value[unseen]).all()
        and np.isnan(result.error[unseen]).all()
        and np.all(result.probability[unseen] == 0)
    )


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"samples": []}, "at least one window"),
        ({"samples": [np.zeros(3), np.zeros(0)]}, "got none in window 1"),
        ({"samples": [np.zeros(3), np.array([0.0, np.nan])]}, "samples must be finite, got .*nan.* in window 1"),
        ({"samples": [np.zeros((3, 3)), np.zeros((3, 3))]}, r"must have shape \[m\] or \[m, 2\]"),
        ({"temperature": 0}, "temperature must be a positive number"),
        ({"centers": [0.0]}, r"centers must have shape \(2, 1\), got \(1, 1\)"),
        ({"k": None}, "give either centers and k, or bias"),
        ({"k": -1.0}, "k finite and >= 0"),
        ({"bins": 0}, "bins must be integers >= 1"),
        ({"limits": (1, 0)}, "low < high"),
        ({"limits": (5.0, 6.0)}, "within the limits, got none in window 0"),
        ({"bootstrap": 1}, "bootstrap must be 0 or at least 2"),
        ({"samples": [np.zeros(3), np.zeros(3)]}, "samples must differ"),
        ({"period": (-1.0, 1.0), "limits": (0.0, 2.0)}, "limits must lie within the period"),
    ],
)
def test_bad_input_of_wham(arguments, message):
    given = {
        "samples": [np.array([0.0, 0.1]), np.array([0.1, 0.2])],
        "centers": [0.0, 0.2],
        "k": 10.0,
        "temperature": 300.0,
        **arguments,
    }
    with pytest.raises(ValueError, match=message):
        wham(**given)


# -- MBAR --------------------------------------------------------------------------------------------------------------

K = np.array([1.0, 2.0, 4.0])  # of harmonic oscillators in units of RT


def oscillators(seed, m=300):
    return np.random.default_rng(seed).normal(size=(3, m)) / np.sqrt(K)[:, None]


def test_mbar_of_harmonic_oscillators_has_the_exact_values_within_its_errors():
    scaled = []
    for seed in range(40):
        x = oscillators(seed)
        result = mbar(0.5 * K[:, None, None] * x**2)
        target = 0.5 * 3.0 * x**2  # a state that was not sampled
        (mean, mean_error), (f, f_error) = result.mean(x**2, target), result.free_energy(target)
        scaled.append(
            [
                (result.free_energies[2] - 0.5 * np.log(4)) / result.errors[2],
                (mean - 1 / 3) / mean_error,
                (f - 0.5 * np.log(3)) / f_error,
            ]
        )
    scaled = np.array(scaled)
    assert np.all(np.abs(scaled.mean(0)) < 0.7) and np.all((0.7 < scaled.std(0)) & (scaled.std(0) < 1.35))
    assert result.weights(target).sum() == pytest.approx(1) and 300 < result.effective_samples(target) < 900
    never = result.mean(np.zeros(x.size))
    assert never[0] == 0 and np.isnan(never[1])


def test_mbar_of_states_that_do_not_allow_each_others_samples(rng):
    """Uniform on [0, 1], [0, 2] and, never sampled, [0, 1/2]: free energies are -ln of the lengths."""
    lengths, counts = np.array([1.0, 2.0, 0.5]), [2000, 3000, 0]
    x = np.concatenate([rng.uniform(0, length, n) for length, n in zip(lengths, counts)])
    reduced = np.where(x < lengths[:, None], 0.0, np.inf)
    found = mbar(reduced, counts)
    assert np.all(np.abs(found.free_energies + np.log(lengths)) <= 4 * found.errors + 1e-12)
    assert np.all((found.errors[1:] > 0) & (found.errors[1:] < 0.1))
    value, error = found.mean(x, np.where(x < 1.5, 0.0, np.inf))
    assert abs(value - 0.75) < 4 * error and error < 0.05
    with pytest.raises(ValueError, match="must be finite, got inf for state 0 at sample 3 .it may be inf at"):
        mbar(np.where(np.arange(5000) == 3, np.inf, reduced), counts)
    with pytest.raises(ValueError, match="some sample must have a finite energy in each state, got inf for all in sta"):
        mbar(np.concatenate([reduced[:2], np.full((1, 5000), np.inf)]), counts)


def test_pymbar_finds_the_same():
    pytest.importorskip("pymbar")
    x = oscillators(1)
    u = (0.5 * K[:, None, None] * x**2).reshape(3, -1)
    ours, theirs = (mbar(u[:, :700], [300, 300, 100], solver=s) for s in ("newton", "pymbar"))
    assert ours.free_energies == pytest.approx(theirs.free_energies, abs=1e-9)
    import warnings

    import pymbar

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = pymbar.MBAR(u[:, :700], [300, 300, 100], relative_tolerance=1e-12)
        errors = other.compute_free_energy_differences()["dDelta_f"][0]
        means = other.compute_expectations(x.ravel()[:700], u_kn=u[1, :700])
        overlap = other.compute_overlap()["matrix"]
    # of independent samples; ours allow for the correlation that they estimate
    ratio = ours.errors[1:] / errors[1:]
    assert np.all((ratio > 0.999) & (ratio < 1.3))
    value, error = ours.mean(x.ravel()[:700], u[1, :700])
    assert value == pytest.approx(means["mu"][0], abs=1e-8) and 0.999 < error / means["sigma"][0] < 1.3
    assert ours.overlap == pytest.approx(np.asarray(overlap), abs=1e-8)


def test_an_offset_of_samples_or_states_changes_nothing_else():
    x = oscillators(2)
    u = (0.5 * K[:, None, None] * x**2).reshape(3, -1)
    counts = [300] * 3
    first = mbar(u, counts)
    moved = mbar(u + 4e4 + np.linspace(0, 900, u.shape[1]) + np.array([0, 500.0, -700])[:, None], counts)
    assert moved.free_energies - [0, 500, -700] == pytest.approx(first.free_energies, abs=1e-7)
    assert moved.errors == pytest.approx(first.errors, abs=1e-6)


def test_errors_allow_for_correlation_and_thinning_takes_it_out():
    x = np.repeat(oscillators(4, 200), 5, axis=1)
    u = 0.5 * K[:, None, None] * x**2
    plain = mbar(0.5 * K[:, None, None] * x[:, ::5] ** 2)
    assert mbar(u).errors[1:] == pytest.approx(plain.errors[1:], rel=0.3)
    thin = mbar(u.reshape(3, -1), [1000] * 3, inefficiency=5.0)
    assert thin.counts.tolist() == [200] * 3 and thin.used.sum() == 600
    assert thin.free_energies == pytest.approx(plain.free_energies, abs=1e-9)
    assert thin.mean(x)[0] == pytest.approx(plain.mean(x[:, ::5])[0], abs=1e-9)
    assert np.count_nonzero(thin.weights()) == 600


def test_a_state_that_is_far_away_is_told_about():
    x = oscillators(5, 50)
    with pytest.warns(UserWarning, match="samples count in this state"):
        mbar(0.5 * K[:, None, None] * x**2).mean(x, 50 * (x - 4) ** 2)


@pytest.mark.parametrize(
    "reduced, counts, message",
    [
        (np.zeros((2, 30)), None, "with counts, or"),
        (np.zeros((2, 30)), [10, 10], "with the sum 30"),
        (np.zeros((2, 30)), [25, 5], "at least 10 independent samples .* got 5 of state 1"),
        (np.zeros((2, 0)), [0, 0], "at least 10"),
        (np.full((2, 30), np.nan), [15, 15], "must be finite, got nan for state 0 at sample 0"),
    ],
)
def test_bad_input_of_mbar(reduced, counts, message):
    with pytest.raises(ValueError, match=message):
        mbar(reduced, counts)
