"""Estimators of free energies: analytic systems, pymbar, and alchemlyb on runs of GROMACS."""

import json
import math
import warnings
from pathlib import Path

import numpy as np
import pytest

from triskele.sponge import alchemy, analysis, units

DATA = Path(__file__).parents[2] / "data" / "sponge" / "alchemy"
THERMAL = units.GAS_CONSTANT * 300
SPRINGS, CENTERS = np.array([200.0, 350.0, 600.0, 1000.0, 1500.0]), np.array([0.0, 0.02, 0.04, 0.06, 0.08])
EXACT = 0.5 * THERMAL * math.log(SPRINGS[-1] / SPRINGS[0])


def oscillators(seed, m=400, persistence=0.0):
    """Positions of oscillators, which follow each other with a correlation, and their energies in all states."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(len(SPRINGS), m))
    for t in range(1, m):
        noise[:, t] = persistence * noise[:, t - 1] + math.sqrt(1 - persistence**2) * noise[:, t]
    x = CENTERS[:, None] + noise * np.sqrt(THERMAL / SPRINGS)[:, None]
    return x, [0.5 * SPRINGS * (r[:, None] - CENTERS) ** 2 for r in x]


def gaussian_works(rng, n, value=2.0, spread=1.5):
    """Works of both directions that obey Crooks' relation, in RT."""
    return rng.normal(value + spread**2 / 2, spread, n), rng.normal(-value + spread**2 / 2, spread, n)


@pytest.mark.parametrize("persistence", [0.0, 0.8])
def test_errors_are_those_of_many_repetitions(persistence):
    scores = {"mbar": [], "bar": []}
    for seed in range(60):
        found = alchemy.free_energy_difference(oscillators(seed, persistence=persistence)[1], 300)
        assert found.value == found.methods["mbar"][0] and found.units == "kJ/mol"
        for name in scores:
            value, error = found.methods[name]
            scores[name].append((value - EXACT) / error)
    for name, z in scores.items():
        assert abs(np.mean(z)) < 4 / math.sqrt(60) and 0.7 < np.std(z) < 1.45, name


def test_bar_of_gaussian_works_and_of_pymbar():
    pymbar = pytest.importorskip("pymbar")
    forward, reverse = gaussian_works(np.random.default_rng(0), 3000)
    reverse = reverse[:2000]
    value, error = alchemy.bar(forward * THERMAL, reverse * THERMAL, temperature=300)
    other = pymbar.bar(forward, reverse, uncertainty_method="BAR", relative_tolerance=1e-12)
    assert value / THERMAL == pytest.approx(other["Delta_f"], abs=1e-8)
    assert error / THERMAL == pytest.approx(other["dDelta_f"], rel=0.05)  # ours allows for chance correlation
    assert abs(value / THERMAL - 2) < 4 * error / THERMAL
    again, drawn = alchemy.bar(forward * THERMAL, reverse * THERMAL, temperature=300, bootstrap=100, seed=1)
    assert again == value and drawn == pytest.approx(error, rel=0.3)
    back = alchemy.bar(reverse * THERMAL, forward * THERMAL, temperature=300)
    assert back == (pytest.approx(-value), pytest.approx(error))


def test_bootstrap_sees_correlation():
    forward, reverse = gaussian_works(np.random.default_rng(3), 500)
    thin = alchemy.bar(forward * THERMAL, reverse * THERMAL, temperature=300, bootstrap=200)
    often = alchemy.bar(
        np.repeat(forward, 10) * THERMAL, np.repeat(reverse, 10) * THERMAL, temperature=300, bootstrap=200
    )
    assert often[0] == pytest.approx(thin[0]) and often[1] == pytest.approx(thin[1], rel=0.35)
    plain = alchemy.bar(np.repeat(forward, 10) * THERMAL, np.repeat(reverse, 10) * THERMAL, temperature=300)
    assert plain[1] == pytest.approx(thin[1], rel=0.35)


@pytest.mark.parametrize("method", ["spline", "trapezoid"])
def test_integration_rules(method):
    from scipy.interpolate import CubicSpline

    grid, rng = np.array([0.0, 0.1, 0.35, 0.6, 1.0]), np.random.default_rng(0)
    y = rng.normal(size=5)
    exact = np.trapezoid(y, grid) if method == "trapezoid" else CubicSpline(grid, y, bc_type="natural").integrate(0, 1)
    flat = [np.full(2, value) for value in y]
    assert alchemy.thermodynamic_integration(grid, flat, method=method) == (pytest.approx(exact), 0.0)
    back = alchemy.thermodynamic_integration(grid[::-1], flat[::-1], method=method)
    assert back[0] == pytest.approx(-exact)
    # two lambdas, one after the other: a stretch in which a lambda rests adds nothing
    path = {"a": [1, 0.5, 0, 0, 0], "b": [1, 1, 1, 0.2, 0]}
    both = {
        "a": [np.full(2, v) for v in (1.0, 2.0, 3.0, 99.0, 98.0)],
        "b": [np.full(2, v) for v in (97.0, 96.0, 5.0, 4.0, 1.0)],
    }
    first = alchemy.thermodynamic_integration(path["a"][:3], both["a"][:3], method=method)[0]
    second = alchemy.thermodynamic_integration(path["b"][2:], both["b"][2:], method=method)[0]
    assert alchemy.thermodynamic_integration(path, both, method=method)[0] == pytest.approx(first + second)


def test_error_of_integration_is_that_of_many_repetitions():
    lambdas, z = np.linspace(0, 1, 6), []
    for seed in range(80):
        rng = np.random.default_rng(seed)
        slopes = [np.repeat(rng.normal(2 * x, 1.0, 100), 3) for x in lambdas]
        value, error = alchemy.thermodynamic_integration(lambdas, slopes)
        z.append((value - 1) / error)
    assert abs(np.mean(z)) < 0.45 and 0.75 < np.std(z) < 1.35


@pytest.mark.parametrize("leg", ["Coulomb", "VDW"])
def test_benzene_as_alchemlyb_has_it(leg):
    stored = np.load(DATA / "benzene.npz")
    theirs, thermal = json.loads((DATA / "benzene.json").read_text())[leg], units.GAS_CONSTANT * 300
    schedule = alchemy.Schedule(sterics=stored[f"{leg}/lambdas"])
    slopes = [{"sterics": s} for s in stored[f"{leg}/slopes"]]
    found = alchemy.free_energy_difference(stored[f"{leg}/energies"], 300, schedule=schedule, slopes=slopes)
    for name in ("mbar", "bar", "trapezoid"):
        value, error = found.methods[name]
        # float32 energies; their errors leave correlation out, and BAR has none of all states
        assert value / thermal == pytest.approx(theirs[name][0], abs=2e-4)
        assert name == "bar" or 0.95 < error / thermal / theirs[name][1] < 1.6
    np.testing.assert_allclose(found.overlap.diagonal(1), theirs["overlap"], atol=2e-4)
    assert found.methods["spline"][0] == pytest.approx(found.value, abs=4 * found.methods["spline"][1])


def test_both_directions_agree_and_a_drift_shows():
    samples = oscillators(1, 800)[1]
    found = alchemy.convergence(samples, 300, fractions=4)
    assert found.forward[-1] == found.backward[-1] == pytest.approx(alchemy.free_energy_difference(samples, 300).value)
    assert np.all(np.abs(found.forward - EXACT) < 4 * found.forward_errors)
    assert np.all(np.abs(found.backward - EXACT) < 4 * found.backward_errors)
    assert np.all(np.diff(found.forward_errors) < 0)
    drift = [s + np.linspace(0, 10, len(s))[:, None] * (np.arange(5) == 4) for s in samples]
    found = alchemy.convergence(drift, 300, fractions=4)
    assert found.backward[0] - found.forward[0] > 4


def test_records_of_a_walk_are_sorted_by_their_states():
    samples = oscillators(2)[1]
    order = np.random.default_rng(0).permutation(5 * 400)
    visited = np.repeat(np.arange(5), 400)[order]
    walked = alchemy.free_energy_difference(np.concatenate(samples)[order], 300, visited=visited)
    assert walked.value == pytest.approx(alchemy.free_energy_difference(samples, 300).value, abs=1e-7)
    assert walked.counts.tolist() == [400] * 5


def test_one_line_with_both_units():
    found = alchemy.free_energy_difference(oscillators(0)[1], 300)
    assert repr(found).startswith("<FreeEnergyDifference: 2.") and "kcal/mol), 5 states, 2000 samples>" in repr(found)
    assert str(found).count("±") == 2 and f"({found.value / 4.184:.3f} ±" in str(found)


def test_neighbors_without_overlap_are_named_with_the_place_of_a_new_state():
    rng = np.random.default_rng(0)
    centers = np.array([0.0, 0.05, 0.9, 0.95])
    samples = [300 * (rng.normal(c, 0.07, 200)[:, None] - centers) ** 2 for c in centers]
    schedule = alchemy.Schedule(electrostatics=[1, 0, 0, 0], sterics=[1, 1, 0.4, 0])
    with pytest.warns(UserWarning, match=r"states 1 and 2 overlap by .*add a state at electrostatics=0, sterics=0.7\)"):
        alchemy.free_energy_difference(samples, 300, schedule=schedule)
    far = np.random.default_rng(0).normal(80, 1.0, (2, 50)) * THERMAL
    with pytest.warns(UserWarning, match="the two states do not overlap"):
        assert alchemy.bar(far[0], far[1], temperature=300)[1] == math.inf
    with pytest.warns(UserWarning, match="the two states do not overlap"):
        assert alchemy.bar(far[0], far[1], temperature=300, bootstrap=5)[1] == math.inf


def test_errors_are_infinite_beyond_a_gap():
    barrier = 1000 * (np.arange(5) > 2)
    samples = [s + np.abs(barrier - barrier[k]) for k, s in enumerate(oscillators(4)[1])]
    with pytest.warns(UserWarning, match="states 2 and 3 overlap by .*, less"):
        found = alchemy.free_energy_difference(samples, 300)
    for name in ("mbar", "bar"):
        errors = found.profiles[name][1]
        assert np.all(errors[:3] < 1) and np.all(errors[3:] == math.inf), name
    assert found.error == math.inf and str(found).startswith(f"{found.value:.6g} ± inf")
    reduced, counts = np.concatenate(samples).T / THERMAL, np.array([400, 400, 400, 0, 400])
    with pytest.warns(UserWarning, match="do not overlap"):
        mixed = analysis.mbar(np.delete(reduced, np.s_[1200:1600], axis=1), counts)
    assert np.all(np.isinf(mixed.errors) == [False, False, False, True, True])


@pytest.mark.parametrize("size", [1e30, 1e200])
def test_works_of_any_size_converge(size):
    forward, reverse = gaussian_works(np.random.default_rng(5), 400)
    some = alchemy.bar(np.append(forward, 1e4) * THERMAL, reverse * THERMAL, temperature=300)
    huge = alchemy.bar(np.append(forward, size) * THERMAL, reverse * THERMAL, temperature=300)
    assert huge == pytest.approx(some, rel=1e-9)


def test_cycles_close():
    rng, nodes = np.random.default_rng(0), {"a": 0.0, "b": 2.0, "c": -1.0, "d": 4.0}
    edges = {
        (x, y): (nodes[y] - nodes[x], 0.1) for x, y in (("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("b", "d"))
    }
    exact = alchemy.cycle_closure(edges)
    assert exact.values == pytest.approx(nodes) and exact.chi_squared == pytest.approx(0, abs=1e-20)
    assert len(exact.cycles) == 2 and all(abs(gap) < 1e-12 for _, gap, _ in exact.cycles)
    scores = []
    for _ in range(200):
        noisy = alchemy.cycle_closure({edge: (value + rng.normal(0, 0.1), 0.1) for edge, (value, _) in edges.items()})
        scores.append([noisy.chi_squared, *((noisy.values[n] - nodes[n]) / noisy.errors[n] for n in "bcd")])
    scores = np.array(scores)
    assert scores[:, 0].mean() == pytest.approx(2, abs=0.5) and np.allclose(scores[:, 1:].std(0), 1, atol=0.2)
    found = alchemy.free_energy_difference(oscillators(0)[1], 300)
    assert alchemy.cycle_closure({("x", "y"): found}).values["y"] == pytest.approx(found.value)


GOOD = oscillators(0, 20)[1]
PATH = alchemy.Schedule(sterics=np.linspace(0, 1, 5))


@pytest.mark.parametrize(
    "slopes, visited, error, message",
    [
        (None, np.repeat(np.arange(1, 6), 20), ValueError, "states from 0 to 4, got 5 at record 80"),
        (None, np.repeat(np.arange(5.0), 20), ValueError, "visited must be integers, .* got float64"),
        ({"sterics": np.zeros(99)}, np.repeat(np.arange(5), 20), ValueError, r"each of 100 samples, got \(99,\)"),
        ([np.zeros(100)], np.repeat(np.arange(5), 20), TypeError, "slopes must be a dict of arrays .* got list"),
        ([{"sterics": np.zeros(20)}] * 4 + [{"bonded": np.zeros(20)}], None, ValueError, "state 4 must have the names"),
        ([{"sterics": np.zeros(5)}] * 5, None, ValueError, r"state 0 must have one number for each of 20 samples"),
        ([{"sterics": np.zeros(20)}] * 4, None, ValueError, "slopes must be of 5 states, got 4"),
        ([np.zeros(20)] * 5, None, TypeError, "slopes of state 0 must be a dict of arrays"),
        ({"sterics": np.zeros(20)}, None, TypeError, "slopes must be a list of 5 dicts, one of each state, got dict"),
    ],
)
def test_records_and_slopes_that_do_not_fit_are_refused(slopes, visited, error, message):
    with pytest.raises(error, match=message):
        alchemy.free_energy_difference(
            GOOD if visited is None else np.concatenate(GOOD), 300, schedule=PATH, slopes=slopes, visited=visited
        )


def test_bad_input_is_refused():
    bad = [s.copy() for s in GOOD]
    bad[3][7, 1] = np.nan
    with pytest.raises(ValueError, match="got nan in state 1 at sample 7 of state 3"):
        alchemy.free_energy_difference(bad, 300)
    with pytest.raises(ValueError, match=r"samples of state 0 must have shape \[samples, 4 states\], got \(20, 5\)"):
        alchemy.free_energy_difference(GOOD[:4], 300)
    with pytest.raises(ValueError, match="at least 10 independent samples .* got 1 of state 2"):
        alchemy.free_energy_difference([*GOOD[:2], GOOD[2][:1], *GOOD[3:]], 300)
    with pytest.raises(ValueError, match="the 2 of the schedule"):
        alchemy.free_energy_difference(GOOD, 300, schedule=alchemy.Schedule(sterics=[0, 1]))
    with pytest.raises(ValueError, match="temperature must be a positive"):
        alchemy.free_energy_difference(GOOD, 0.0)
    with pytest.raises(ValueError, match=r"bar: reverse must have shape \[samples\], at least 2, got \(1,\)"):
        alchemy.bar([1.0, 2.0], [1.0], temperature=300)
    with pytest.raises(ValueError, match="bar: forward must be finite, got nan at 1"):
        alchemy.bar([1.0, np.nan], [1.0, 2.0], temperature=300)
    with pytest.raises(ValueError, match=r"slopes of state 1 \(lambda\), sample must be finite, got inf at 0"):
        alchemy.thermodynamic_integration([0, 1], [[1.0, 2.0], [np.inf, 1.0]])
    with pytest.raises(ValueError, match="as many states as slopes"):
        alchemy.thermodynamic_integration([0, 0.5, 1], [[1.0, 2.0], [1.0, 2.0]])
    with pytest.raises(ValueError, match="no path from 'a' to 'c'"):
        alchemy.cycle_closure({("a", "b"): (1.0, 0.1), ("c", "d"): (1.0, 0.1)})
    with pytest.raises(ValueError, match="at least one lambda, got none"):
        alchemy.thermodynamic_integration({}, {})
    with pytest.raises(ValueError, match="slopes need the schedule"):
        alchemy.free_energy_difference([GOOD[0], GOOD[1][:0], *GOOD[2:]], 300, slopes=[{"sterics": np.zeros(20)}] * 5)
    with pytest.raises(ValueError, match="at least one edge, got none"):
        alchemy.cycle_closure({})
    with pytest.raises(ValueError, match="positive errors"):
        alchemy.cycle_closure({("a", "b"): (1.0, 0.0)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alchemy.free_energy_difference(GOOD, 300)
