"""Biases of a recorded run of alanine dipeptide against PLUMED's numbers, which `make_reference.py` wrote."""

from pathlib import Path

import numpy as np
import pytest

from tests.sponge.sampling.test_opes import replay
from triskele import sponge
from triskele.sponge import cv, units
from triskele.sponge.engine.flags import N_FLAGS, STATUS, STEP
from triskele.sponge.sampling import abf, metadynamics_kernels, steered
from triskele.sponge.sampling.ladder_weights import ESTIMATORS

with np.load(Path(__file__).parents[2] / "data" / "sponge" / "plumed" / "plumed.npz") as recorded:
    DATA = dict(recorded)
ANGLES = DATA["values"][:, :2]
CVS = [cv.torsion(4, 6, 8, 14, name="phi"), cv.torsion(6, 8, 14, 16, name="psi")]
T = 300.0 * 0.0083144621 / units.GAS_CONSTANT  # PLUMED's gas constant has fewer digits


def turn(x):
    return x - 2 * np.pi * np.round(x / (2 * np.pi))


def hills(values, sigma, height, every, damping, kernel):
    """Bias of metadynamics at each state, by the sum over hills as it is written; `kernel` of half a square."""
    centers, heights, found = [], [], []
    for step, s in enumerate(values):
        half = 0.5 * np.sum((turn(s - np.array(centers).reshape(-1, 2)) / sigma) ** 2, axis=1)
        found.append(np.dot(heights, kernel(half)) if heights else 0.0)
        if step and step % every == 0:
            centers.append(s)
            heights.append(height * np.exp(-damping * found[-1]))
    return np.array(found)


@pytest.mark.parametrize(("name", "factor"), [("metad", None), ("tempered", 8.0)])
def test_metadynamics(name, factor):
    """PLUMED stretches its Gaussians, to end at half a square of 6.25; ours are whole. The rest is the same."""
    sigma, height, every = [0.35, 0.3], 1.2, 4
    damping = 0.0 if factor is None else 1 / (units.GAS_CONSTANT * T * (factor - 1))

    def stretched(half):
        return np.where(half < 6.25, (np.exp(-half) - np.exp(-6.25)) / (1 - np.exp(-6.25)), 0.0)

    expected = hills(ANGLES, sigma, height, every, damping, stretched)
    np.testing.assert_allclose(expected, DATA[name][:, 0], rtol=1e-8, atol=1e-8)

    bias = sponge.Metadynamics(CVS, sigma, height, every, factor, temperature=T, grid=[720, 720])
    flags, value, slopes = np.zeros(N_FLAGS, np.int64), np.zeros(()), np.zeros(2)
    found = []
    for step, s in enumerate(ANGLES):
        flags[STEP] = step
        metadynamics_kernels.bias_of(
            0, flags, 1, bias._surface, s, np.zeros((3, 4), np.int64), np.zeros((3, 8)), slopes, value
        )
        metadynamics_kernels.deposit(
            0,
            flags,
            1,
            0,
            every,
            every,
            bias._active,
            s,
            value,
            bias._options,
            bias._surface,
            bias._now,
            bias._table,
            bias._counts,
            bias._scratch,
        )
        assert flags[STATUS] == 0
        found.append(float(value))
    whole = hills(ANGLES, sigma, height, every, damping, lambda half: np.exp(-half))
    np.testing.assert_allclose(found, whole, rtol=1e-8, atol=1e-7)  # they end at 6 widths: exp(-18) of each
    assert np.abs(found - DATA[name][:, 0]).max() < 0.01 * np.max(found)


OPES = {
    "opes": {"every": 3, "sigma": [0.3, 0.25]},
    "opes-measured": {"every": 5},
    "explore": {"every": 3, "sigma": [0.3, 0.25], "explore": True},
}


@pytest.mark.parametrize("name", OPES)
def test_opes(name):
    found, expected = replay(sponge.OPES(CVS, barrier=35.0, **OPES[name]), ANGLES, T), DATA[name]
    assert len(np.unique(expected[:, 4])) > 10
    np.testing.assert_array_equal(found[:, 4], expected[:, 4])
    np.testing.assert_allclose(found[:, :4], expected[:, :4], rtol=1e-8, atol=1e-8)


def test_multithermal_opes():
    """The estimator of SITS that OPES_EXPANDED is, with the first 100 energies observed without a bias."""
    energies, beta = DATA["values"][:, 2], 1 / (units.GAS_CONSTANT * T)
    betas = beta * 300.0 / np.array([280, 300, 340, 400, 480, 600])
    learner, found = ESTIMATORS["opes"](betas, beta), np.zeros(len(energies))
    learner.add(energies[1:101], None)
    learner.log_sums -= np.log(100)  # which PLUMED counts as one
    for k in range(101, len(energies)):
        log_n = learner.log_n - learner.log_n[1]
        found[k] = -np.log(np.mean(np.exp(log_n - (betas - beta) * energies[k]))) / beta
        learner.learn(energies[k])
    np.testing.assert_allclose(found[101:], DATA["expanded"][101:, 0], rtol=1e-8, atol=1e-8)


def test_restraint():
    bias = sponge.umbrella(CVS, [-1.2, 3.0], [100.0, 40.0])
    found = [float(bias.function(*s, **bias.params)) for s in ANGLES]
    np.testing.assert_allclose(found, DATA["restraint"][:, 0], rtol=1e-10)


def test_moving_restraint():
    """The bias is PLUMED's. The work is that of moves between states, as Jarzynski's theorem for steps has it.

    PLUMED takes the mean of the forces before and after a step, which is the same for a variable at rest, and periodic
    variables the shortest way.
    """
    k, start, end, duration = 80.0, -2.5, 0.5, 300
    pull = sponge.SteeredMD(CVS[0], start, end, k, duration, record=1)
    flags, slopes, bias, found = np.zeros(N_FLAGS, np.int64), np.zeros(1), np.zeros(()), []
    for step, s in enumerate(ANGLES[:, :1]):
        flags[STEP] = step
        steered.pull(0, s, pull._center, pull._k, pull._period, slopes, bias)
        found.append(float(bias))
        springs = steered.Springs(pull._k, pull._period, pull._center, pull._before)
        steered.advance(
            0,
            flags,
            0,
            1,
            pull._marks,
            duration,
            pull._start,
            pull._way,
            s,
            springs,
            pull._work,
            np.zeros((1, 4)),
            np.zeros(1, np.int64),
        )
    np.testing.assert_allclose(found, DATA["steered"][:, 0], rtol=1e-8, atol=1e-8)
    center = start + (end - start) * np.clip(np.arange(len(ANGLES)) / duration, 0, 1)
    force, move = -k * turn(ANGLES[:, 0] - center), np.diff(center)
    np.testing.assert_allclose(
        np.cumsum(0.5 * (force[1:] + force[:-1]) * move), DATA["steered"][1:, 1], rtol=1e-8, atol=1e-8
    )
    before, after = turn(ANGLES[1:, 0] - center[:-1]), turn(ANGLES[1:, 0] - center[1:])
    assert pull.work == pytest.approx(np.sum(0.5 * k * (after**2 - before**2)), rel=1e-10)


def test_adaptive_biasing_force():
    """The mean force of the bin, with this state's, without the ramps of few samples, which differ."""
    method = sponge.ABF(CVS, 12, full_samples=1, temperature=T)
    bins, flags, found = np.array(method.bins), np.zeros(N_FLAGS, np.int64), []
    method._marks[0] = 1  # they have begun somewhere
    for step, (s, force) in enumerate(zip(ANGLES, DATA["springs"], strict=True)):
        flags[STEP] = step
        # springs of constant 1 put any force on a particle at s, when the variable is this far from it
        grid = abf.Grid(method._low, method._width, bins, np.zeros(2))
        extended = abf.Extended(np.ones(2), np.ones(2), 0.0, 1.0, 0.0, s.copy(), np.zeros(2))
        sums = abf.Sums(1, method._active, method._counts, method._forces, method._visits, method._ways)
        abf.advance(
            0,
            flags,
            1,
            0,
            len(ANGLES),
            method._marks,
            s + force,
            grid,
            extended,
            np.zeros(2, np.uint32),
            np.zeros(8),
            sums,
            np.zeros((1, 5)),
            np.zeros(1, np.int64),
        )
        place = np.ravel_multi_index(((s - method._low) / method._width).astype(int), method.bins)
        found.append(-method._forces[place] / method._counts[place])
    assert method._counts.max() > 20
    np.testing.assert_allclose(found, DATA["abf"], rtol=1e-8, atol=1e-8)


def test_path_of_structures():
    s, z = cv.path(range(22), DATA["structures"], lambda_=2000.0)
    found = [(float(s(x)), float(z(x))) for x in DATA["positions"]]
    np.testing.assert_allclose(found, DATA["path"], rtol=1e-8, atol=1e-8)


def test_path_of_variables():
    s, z = cv.variable_path(CVS, DATA["nodes"], lambda_=1.5)
    found = [(float(s(x)), float(z(x))) for x in DATA["positions"]]
    np.testing.assert_allclose(found, DATA["variable-path"], rtol=1e-8, atol=1e-8)
