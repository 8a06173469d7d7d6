"""Ensemble averages at other parameters and their gradients: analytic results, the fluctuation identity, and all three
ways.
"""

from dataclasses import replace

import numpy as np
import pytest

from tests.sponge.differentiate.test_differentiate import argon, spring
from triskele import core, sponge
from triskele.sponge.differentiate import Ensemble, PoorOverlapError, observables, trajectory

T = 300.0
RT = sponge.units.GAS_CONSTANT * T


def frames(k, count, seed=0):
    """Samples of a particle on a spring."""
    return np.random.default_rng(seed).normal(size=(count, 1, 3)) * np.sqrt(RT / k)


def square(x, box):
    return np.sum(x * x)


def error_of_mean(values):
    return np.std(values) / np.sqrt(len(values))


# ---------------------------------------------------------------------------------------------------- against the truth
@pytest.mark.parametrize("k", [90.0, 100.0, 115.0])
def test_spring(k):
    """<x^2> = 3 RT / k, and its derivative -3 RT / k^2, from samples at k = 100."""
    ensemble = Ensemble(spring, T).add(100.0, frames(100.0, 20_000))
    mean, slope = core.value_and_grad(lambda k: ensemble.average(square, k))(k)
    assert mean == pytest.approx(3 * RT / k, rel=0.04)
    assert slope == pytest.approx(-3 * RT / k**2, rel=0.15)


def test_gradient_is_the_fluctuation_formula():
    """d<O> = <dO> - beta (<O dU> - <O><dU>), with weights, to rounding."""
    x = frames(100.0, 300)
    ensemble = Ensemble(spring, T).add(100.0, x)
    o = observables.Observable(lambda k, x, box=None: np.sum(np.sin(x) * k))
    k = 104.0
    w, beta = ensemble.weights(k), 1 / RT
    u, s = 0.5 * np.sum(x * x, axis=(1, 2)), np.sum(np.sin(x), axis=(1, 2))
    expected = w @ s - beta * (w @ (k * s * u) - (w @ (k * s)) * (w @ u))
    assert core.grad(lambda k: ensemble.average(o, k))(k) == pytest.approx(expected, rel=1e-11)


def test_weights_are_those_of_boltzmann():
    x = frames(100.0, 50)
    w = Ensemble(spring, T).add(100.0, x).weights(120.0)
    expected = np.exp(-10 * np.sum(x * x, axis=(1, 2)) / RT)
    assert w == pytest.approx(expected / expected.sum(), rel=1e-12)


def test_offset_of_the_energy_changes_nothing():
    x = frames(100.0, 50)
    plain, shifted = (Ensemble(lambda k, x, box, c=c: spring(k, x, box) + c * k, T).add(100.0, x) for c in (0.0, 1e5))
    assert shifted.weights(101.0) == pytest.approx(plain.weights(101.0), rel=1e-5)


def test_several_references():
    """MBAR over springs of 80, 100 and 140: means between are better than from any alone, and free energies are
    exact.
    """
    ensemble = Ensemble(spring, T)
    for seed, k in enumerate((80.0, 100.0, 140.0)):
        ensemble.add(k, frames(k, 4000, seed))
    k = 120.0
    mean, slope = core.value_and_grad(lambda k: ensemble.average(square, k))(k)
    assert mean == pytest.approx(3 * RT / k, rel=0.03)
    assert slope == pytest.approx(-3 * RT / k**2, rel=0.08)
    assert ensemble.effective_samples(k) > 8000
    assert len(ensemble) == 12_000


def test_references_at_the_same_parameters_are_one():
    x = frames(100.0, 200)
    one = Ensemble(spring, T).add(100.0, x)
    two = Ensemble(spring, T).add(100.0, x[:50]).add(100.0, x[50:])
    assert two.weights(110.0) == pytest.approx(one.weights(110.0), rel=1e-9)


def test_vectors_trees_and_compilation():
    x = frames(100.0, 400)
    ensemble = Ensemble(lambda p, x, box: 0.5 * np.sum(p["k"] * x * x), T).add({"k": np.full(3, 100.0)}, x)
    mean = lambda p: ensemble.average(lambda x, box: x[0] ** 2, p)
    p = {"k": np.array([95.0, 100.0, 105.0])}
    jacobian = core.jacrev(mean)(p)["k"]
    for i in range(3):
        up, down = (mean({"k": p["k"] + s * 1e-3 * np.eye(3)[i]}) for s in (1, -1))
        assert jacobian[:, i] == pytest.approx((up - down) / 2e-3, rel=1e-6, abs=1e-12)
    assert core.jit(mean)(p) == pytest.approx(mean(p), rel=1e-12)
    both = ensemble.average([lambda x, box: x[0, 0], square], p)
    assert len(both) == 2


# ------------------------------------------------------------------------------------------------------------ all three
@pytest.mark.slow
def test_three_ways_agree_for_bonds_in_a_bath():
    """d<x^2>/dk of 64 springs in a Langevin bath: two ways through the trajectory and reweighting, within error of the
    truth.

    Through the trajectory the mean is taken after 20 friction times, when the start is forgotten.
    """
    n, k = 64, 100.0
    rng = np.random.default_rng(3)
    start = rng.normal(size=(n, 3)) * np.sqrt(RT / k)
    velocities = rng.normal(size=(n, 3)) * np.sqrt(RT)
    bath = sponge.LangevinMiddle(T, friction=10.0, timestep=0.02)
    truth = -RT / k**2

    def mean_square(x):
        return np.mean(x * x)

    found = {}
    for method in ("checkpoint", "reversible"):
        run = trajectory(
            spring, np.ones(n), bath, 1000, observe=lambda k, x, box: mean_square(x), every=10, method=method
        )
        slopes = [
            core.grad(lambda k, run=run, s=s: np.mean(run(k, start, velocities, seed=s).observed[10:]))(k)
            for s in range(4)
        ]
        found[method] = np.mean(slopes)
        error = np.std(slopes, ddof=1) / 2
        assert abs(found[method] - truth) < max(4 * error, 0.1 * abs(truth))
    assert found["checkpoint"] == pytest.approx(found["reversible"], rel=1e-9)
    x = rng.normal(size=(4000, n, 3)) * np.sqrt(RT / k)
    ensemble = Ensemble(spring, T).add(k, x)
    blocks = [Ensemble(spring, T).add(k, x[b::8]) for b in range(8)]
    slope = core.grad(lambda k: ensemble.average(lambda x, box: mean_square(x), k))(k)
    error = error_of_mean(
        [float(core.grad(lambda k, e=e: e.average(lambda x, box: mean_square(x), k))(k)) for e in blocks]
    )
    assert abs(slope - truth) < 4 * error
    assert error < 0.3 * abs(truth)


# ---------------------------------------------------------------------------------------------------------- observables
def test_rdf_of_an_ideal_gas_is_one():
    box = np.diag([3.0, 3.0, 3.0])
    x = np.random.default_rng(0).uniform(0, 3, (400, 3))
    g = observables.rdf(np.linspace(0.4, 1.2, 9), width=0.08)({}, x, box)
    assert g == pytest.approx(np.ones(9), abs=0.06)


def test_rdf_counts_pairs():
    """The integral of g(r) 4 pi (r^2 + w^2) is the number of pairs over their mean density."""
    x, box = np.array([[0.0, 0, 0], [0.35, 0, 0], [1.9, 0, 0]]), np.diag([2.0, 2.0, 2.0])
    r = np.linspace(0.01, 1.0, 400)
    g = observables.rdf(r, width=0.01)({}, x, box)
    # 0.35, 0.1, 0.45
    assert np.sum(g * 4 * np.pi * (r**2 + 0.01**2)) * (r[1] - r[0]) * 3 / 8 == pytest.approx(3, rel=1e-6)


def test_rdf_between_groups_and_molecules():
    x, box = np.array([[0.0, 0, 0], [0.1, 0, 0], [0.4, 0, 0]]), np.diag([2.0, 2.0, 2.0])
    peak = lambda **options: observables.rdf([0.1], width=0.01, **options)({}, x, box)[0]
    assert peak() == pytest.approx(peak(first=[0], second=[1]) / 3)
    assert peak(molecules=[0, 0, 1]) == pytest.approx(0, abs=1e-12)


def test_dipole_and_dielectric_of_dumbbells():
    """Randomly turned dipoles: <M^2> = n mu^2."""
    n, charge, length = 40, 0.5, 0.1
    rng = np.random.default_rng(1)
    topology = replace(sponge.Topology.of_particles(2 * n), bonds=np.arange(2 * n).reshape(n, 2))
    system = sponge.System(topology, np.ones(2 * n), 4.0)
    system.add(sponge.Nonbonded(np.tile([charge, -charge], n), np.full(2 * n, 0.3), np.zeros(2 * n), method="cutoff"))

    def frame():
        d = rng.normal(size=(n, 1, 3))
        d /= np.linalg.norm(d, axis=-1, keepdims=True)
        return (rng.uniform(0, 4, (n, 1, 3)) + d * np.array([[0.5], [-0.5]]) * length).reshape(-1, 3)

    mu = observables.dipole(system)
    assert mu(system.params(), frame(), system.box) == pytest.approx(charge * length)
    by_charge = core.grad(mu.frame)(system.params(), frame(), system.box)["nonbonded"]["charges"]
    assert by_charge @ np.tile([1.0, -1.0], n) == pytest.approx(length)
    epsilon = observables.dielectric(system, T)
    mean = np.mean([epsilon(system.params(), frame(), system.box) for _ in range(3000)], axis=0)
    expected = 1 + 4 * np.pi * sponge.units.COULOMB * n * (charge * length) ** 2 / (3 * 64 * RT)
    assert epsilon.final(mean) == pytest.approx(expected, rel=0.06)


def test_density():
    system = argon()
    assert observables.density(system)({}, system.positions, system.box) == pytest.approx(system.density, rel=1e-12)


# ------------------------------------------------------------------------------------------------------------- bad
# input
def test_too_few_effective_frames():
    ensemble = Ensemble(spring, T, least=0.2).add(100.0, frames(100.0, 500))
    with pytest.raises(PoorOverlapError, match="effective number of frames must be at least 0.2 of all 500"):
        ensemble.average(square, 2000.0)
    with pytest.raises(PoorOverlapError, match="effective number"):
        core.jit(core.grad(lambda k: ensemble.average(square, k)))(2000.0)


def test_bad_frames():
    with pytest.raises(ValueError, match="no frames"):
        Ensemble(spring, T).weights(1.0)
    with pytest.raises(ValueError, match=r"shape \[frames, n, 3\]"):
        Ensemble(spring, T).add(1.0, np.zeros((3, 3)))
    with pytest.raises(ValueError, match="must be finite"):
        Ensemble(spring, T).add(1.0, np.full((2, 1, 3), np.nan))
    with pytest.raises(ValueError, match="same atoms"):
        Ensemble(spring, T).add(1.0, np.zeros((2, 1, 3))).add(1.0, np.zeros((2, 2, 3)))
    with pytest.raises(ValueError, match="positive numbers"):
        observables.rdf([0.0, 0.1])
    with pytest.raises(ValueError, match="temperature must be a positive number"):
        Ensemble(spring, 0.0)
