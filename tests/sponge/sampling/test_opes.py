"""OPES: the bias of recorded trajectories against PLUMED's, known free energies, restarts."""

import math
from pathlib import Path

import numpy as np
import pytest

from triskele import sponge
from triskele.sponge import cv, units
from triskele.sponge.engine.flags import N_FLAGS, STATUS, STEP
from triskele.sponge.errors import StaleSimulationError
from triskele.sponge.sampling import opes_kernels as kernels
from triskele.sponge.testing import example_system

X, Y = (cv.function(lambda x, k=k: x[0, k], [0], name="xy"[k]) for k in range(2))
PHI = cv.torsion(0, 1, 2, 3, name="phi")
RT = units.GAS_CONSTANT * 300.0


def well(x):
    return 12.0 * (x**2 - 1.0) ** 2 + 3.0 * x


def double_well(x):
    return well(x[0, 0]) + 50.0 * (x[0, 1] ** 2 + x[0, 2] ** 2)


def simulation(opes, seed=1):
    """One particle of 10 dalton in the double well, at the left one of its minima."""
    system = sponge.System(sponge.Topology.of_particles(1), [10.0], positions=[[-1.0, 0, 0]], remove_com_motion=False)
    system.add(sponge.FunctionPotential(double_well))
    return sponge.Simulation(system, sponge.LangevinMiddle(300, 5.0, 0.005), seed=seed, sampling=[opes])


DATA = Path(__file__).parents[2] / "data" / "sponge" / "opes"


def replay(opes, values, temperature=300.0):
    """Bias of given states, and what OPES says of itself after each."""
    opes._set_temperature(temperature)
    d = len(opes.cvs)
    flags, slopes, bias = np.zeros(N_FLAGS, np.int64), np.zeros(d), np.zeros(())
    scratch = kernels.Scratch(np.zeros((kernels.CHANGES, 1 + 2 * d)), np.zeros(1 + 2 * d), np.zeros(d), np.zeros(d))
    found = []
    for step, s in enumerate(values):
        flags[STEP] = step
        kernels.bias_of(0, opes._gaussians, opes._state, opes._options, s, slopes, bias)
        kernels.learn(
            0,
            flags,
            np.array([1, 2, 3]),
            0,
            opes.record,
            opes.every,
            opes._active,
            s,
            bias,
            opes._gaussians,
            opes._state,
            opes._options,
            scratch,
            opes._kept.buffer,
            opes._kept.count,
        )
        if flags[STATUS] == 1:
            opes._kept.take_over()
            flags[STATUS] = 0
        assert flags[STATUS] == 0
        found.append([float(bias), opes.offset, opes.normalization, opes.effective_samples, len(opes.heights)])
    return np.array(found)


CASES = {
    "given": ((PHI, X), {"barrier": 30.0, "every": 3, "sigma": [0.3, 0.2]}),
    "measured": ((PHI, X), {"barrier": 40.0, "every": 4, "bias_factor": 8.0, "smallest_sigma": [0.08, 0.05]}),
    "flat": ((X,), {"barrier": 25.0, "every": 2, "sigma": 0.15, "bias_factor": math.inf, "threshold": 0.7}),
    "explore": ((PHI, X), {"barrier": 30.0, "every": 3, "sigma": [0.3, 0.2], "explore": True}),
    "explore-measured": ((PHI, X, Y), {"barrier": 35.0, "every": 5, "explore": True}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_recorded_trajectory_gets_the_bias_of_plumed(name):
    """All of the bias, c(t), Z, effective samples and number of Gaussians, at each of 600 states."""
    cvs, options = CASES[name]
    with np.load(DATA / "plumed.npz") as recorded:
        values, expected = recorded[f"{name}/values"], recorded[f"{name}/expected"]
    found = replay(sponge.OPES(list(cvs), **options), values, 300.0 * 0.0083144621 / units.GAS_CONSTANT)
    np.testing.assert_array_equal(found[:, 4], expected[:, 4])
    np.testing.assert_allclose(found[:, :4], expected[:, :4], rtol=1e-8, atol=1e-8)


def test_forces_are_slopes_and_statistics_are_sums():
    """The running sums equal those over all Gaussians, however often these were merged and removed."""
    rng = np.random.default_rng(0)
    opes = sponge.OPES([PHI, X], 30.0, 2, sigma=[0.4, 0.3])
    replay(opes, np.cumsum(rng.normal(scale=[0.5, 0.2], size=(4000, 2)), axis=0) * [1.0, 0.05])
    h, c, w = opes.heights, opes.centers, opes.sigmas
    away = c[:, None] - c
    away[..., 0] -= 2 * np.pi * np.round(away[..., 0] / (2 * np.pi))
    square = np.sum((away / w) ** 2, axis=2)
    cutoff2 = opes._options[kernels.CUTOFF2]
    density = np.where(square < cutoff2, h * (np.exp(-square / 2) - math.exp(-cutoff2 / 2)), 0.0).sum()
    assert len(h) > 30
    assert opes.normalization == pytest.approx(density / opes._state[kernels.NORM] / len(h), rel=1e-9)
    s, step = np.array([0.3, 0.1]), 1e-5
    slopes = np.zeros(2)
    kernels.bias_of(0, opes._gaussians, opes._state, opes._options, s, slopes, np.zeros(()))
    numeric = [(opes.bias(*(s + e)) - opes.bias(*(s - e))) / (2 * step) for e in step * np.eye(2)]
    np.testing.assert_allclose(slopes, numeric, rtol=1e-6)


@pytest.mark.parametrize("options", [{"sigma": 0.15}, {}, {"explore": True}])
def test_a_double_well_is_learned(options):
    opes = sponge.OPES(X, barrier=22.0, every=100, **options)
    sim = simulation(opes, seed=3)
    sim.run(600_000)
    x = np.linspace(-1.35, 1.25, 14)
    difference = opes.free_energy(x) - well(x)
    assert np.abs(difference - np.median(difference)).max() < 2.5
    fine = np.linspace(-3, 3, 6001)
    p = np.exp(-well(fine) / RT)
    skip = len(opes.steps) // 5
    blocks = np.array_split(np.stack([opes.weights()[skip:], opes.values[skip:, 0] > 0], 1), 8)
    left, right = (np.array([np.sum(w[inside == side]) for w, inside in (b.T for b in blocks)]) for side in (0, 1))
    without = np.log((right.sum() - right) / (left.sum() - left))  # the jackknife
    error = np.sqrt(7 / 8 * np.sum((without - without.mean()) ** 2))
    assert abs(np.log(right.sum() / left.sum()) - np.log(p[fine > 0].sum() / p[fine < 0].sum())) < 3.5 * error < 2.0


def test_a_torsion_has_one_bias_on_both_sides_of_its_seam():
    rng = np.random.default_rng(1)
    opes = sponge.OPES(PHI, 25.0, 5, sigma=0.3)
    replay(opes, np.pi + rng.normal(scale=0.5, size=(500, 1)) + 2 * np.pi * rng.integers(-1, 2, (500, 1)))
    np.testing.assert_allclose(opes.bias(np.pi + 0.1), opes.bias(0.1 - np.pi), rtol=1e-12)
    assert np.all(np.abs(opes.centers) <= np.pi) and opes.bias(np.pi) > opes.bias(0.0) + 20


def test_forces_reach_the_atoms():
    opes = sponge.OPES([cv.distance(0, 9), cv.torsion(0, 1, 2, 3)], 30.0, 10, sigma=[0.05, 0.3], temperature=300.0)
    system = example_system()
    values = np.array([[float(v(system.positions, None)) for v in opes.cvs]])
    replay(opes, values + 0.01 * np.arange(21)[:, None])

    sim = sponge.Simulation(system, sponge.LangevinMiddle(300, 1.0, 0.001), sampling=[opes])
    x, h = system.positions, 1e-5
    sim._engine.compute(x)
    found = sim._engine.forces[9]
    for a in range(3):
        shifted = []
        for sign in (1, -1):
            moved = x.copy()
            moved[9, a] += sign * h
            shifted.append(float(opes.bias(*(float(v(moved, None)) for v in opes.cvs))))
        assert found[a] == pytest.approx(-(shifted[0] - shifted[1]) / (2 * h), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("options", [{"sigma": 0.2}, {"explore": True}])
def test_a_run_resumes_bit_for_bit(tmp_path, options):
    learned, lost, resumed = (sponge.OPES(X, barrier=20.0, every=10, record=5, **options) for _ in range(3))
    whole, first, second = simulation(learned), simulation(lost), simulation(resumed)
    whole.run(12_000)
    first.run(5_555, report=[sponge.Checkpoint(tmp_path / "run.chk", every=5_555)])
    second.load(tmp_path / "run.chk")
    second.run(12_000 - 5_555)
    np.testing.assert_array_equal(second.positions, whole.positions)
    for name in ("steps", "values", "biases", "heights", "centers", "sigmas", "normalization"):
        np.testing.assert_array_equal(getattr(resumed, name), getattr(learned, name))


def test_a_frozen_bias_stays():
    opes = sponge.OPES(X, 20.0, 10, sigma=0.2)
    sim = simulation(opes)
    sim.run(500)
    opes.freeze()
    before = opes.bias(np.linspace(-1, 1, 5))
    sim.run(500)
    np.testing.assert_array_equal(opes.bias(np.linspace(-1, 1, 5)), before)
    assert len(opes.steps) == 99


@pytest.mark.parametrize(
    "make",
    [
        lambda: sponge.OPES(X, 20.0, 10, sigma=0.2),
        lambda: sponge.Metadynamics(X, 0.2, 1.0, 10, bias_factor=8, grid=(-3, 3)),
    ],
)
def test_a_frozen_bias_that_moves_has_the_records_of_its_simulation(make):
    bias = make()
    first = simulation(bias)
    first.run(500)
    bias.freeze()
    hot = sponge.LangevinMiddle(600, 5.0, 0.005)
    with pytest.raises(ValueError, match="temperature must be that of the frozen bias, 300 K, got 600 K"):
        sponge.Simulation(first.system, hot, sampling=[bias])
    assert len(bias.steps) == 49
    learned, second = bias.bias(np.linspace(-1, 1, 5)), simulation(bias, seed=2)
    record = sponge.Variables({"x": X}, every=10)
    second.run(600, report=record)
    np.testing.assert_array_equal(bias.bias(np.linspace(-1, 1, 5)), learned)
    assert bias.steps.tolist() == list(range(10, 600, 10))
    np.testing.assert_allclose(bias.values[:, 0], record["x"][:-1], rtol=1e-12)
    with pytest.raises(StaleSimulationError, match="belongs to another simulation now"):
        first.run(10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"barrier": -1.0}, "barrier must be a positive number"),
        ({"every": 0}, "every must be"),
        ({"sigma": [0.1, 0.2]}, "sigma must be a positive number, or one for each of 1 variables"),
        ({"sigma": "adaptive"}, "sigma must be a positive number"),
        ({"sigma": 0.1, "smallest_sigma": 0.2}, "smallest_sigma must be at most sigma"),
        ({"sigma": 0.1, "measure": 100}, "measure must be left out where sigma is given"),
        ({"measure": 5}, "measure must be"),
        ({"bias_factor": 1.0}, "bias_factor must be > 1"),
        ({"bias_factor": math.inf}, "bias_factor must be finite with explore, and where sigma is measured"),
        ({"bias_factor": math.inf, "sigma": 0.1, "explore": True}, "bias_factor must be finite with explore"),
        ({"barrier": 1.0, "temperature": 300.0}, "barrier must be above RT"),
        ({"barrier": 1e5, "bias_factor": 5.0, "temperature": 300.0}, "barrier must be from"),
        ({"threshold": -1.0}, "threshold must be finite and >= 0"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        sponge.OPES(X, **{"barrier": 20.0, "every": 10, **options})


def test_trouble_in_a_run_is_named():
    opes = sponge.OPES(cv.function(lambda x: 0.0 * x[0, 0] + 1.0, [0]), 20.0, 10)
    with pytest.raises(cv.VariableError, match="a variable has not moved"):
        simulation(opes).run(1000)
    with pytest.raises(ValueError, match="needs a temperature"):
        sponge.OPES(X, 20.0, 10).bias(0.0)
    with pytest.raises(ValueError, match="nothing was recorded yet"):
        sponge.OPES(X, 20.0, 10, temperature=300.0).weights()
    with pytest.raises(ValueError, match="temperature must be given, as VelocityVerlet has none"):
        sponge.Simulation(
            simulation(sponge.OPES(X, 20.0, 10)).system,
            sponge.VelocityVerlet(0.001),
            sampling=[sponge.OPES(X, 20.0, 10)],
        )
    taken = sponge.OPES(X, 20.0, 10)
    simulation(taken)
    with pytest.raises(ValueError, match="belongs to one simulation, and has one already"):
        simulation(taken)
