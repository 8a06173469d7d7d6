"""ABF: known free energies in one and two variables, exact sums, restarts, bad use."""

import math

import numpy as np
import pytest

from triskele import sponge
from triskele.sponge import cv, units
from triskele.sponge.errors import CheckpointError
from triskele.sponge.testing import example_system

X, Y = (cv.function(lambda x, k=k: x[0, k], [0], name="xy"[k]) for k in range(2))
ANGLE = cv.function(lambda x: np.arctan2(x[0, 1], x[0, 0]), [0], name="angle", period=(-math.pi, math.pi))
RT = units.GAS_CONSTANT * 300.0


def particle(energy, abf, start, seed=1, integrator=None):
    system = sponge.System(sponge.Topology.of_particles(1), [10.0], positions=[start], remove_com_motion=False)
    system.add(sponge.FunctionPotential(energy))
    integrator = integrator or sponge.LangevinMiddle(300, 5.0, 0.005)
    return sponge.Simulation(system, integrator, seed=seed, sampling=[abf])


def well(x):
    return 15.0 * (x**2 - 1.0) ** 2 + 3.0 * x


def double_well(x):
    return well(x[0, 0]) + 50.0 * (x[0, 1] ** 2 + x[0, 2] ** 2)


def aligned(found, exact, weights):
    """Root of the weighted mean square difference, with the best constant."""
    seen = np.isfinite(found)
    difference, weights = (found - exact)[seen], weights[seen] / weights[seen].sum()
    difference -= weights @ difference
    return math.sqrt(weights @ difference**2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sigma", "integrator"), [(0.05, sponge.LangevinMiddle(300, 5.0, 0.005)), (0.2, sponge.Bussi(300, 0.1, 0.005))]
)
def test_a_double_well_of_six_rt(sigma, integrator):
    """With stiff and with soft springs, which smooth the force on the fictitious particle but not CZAR."""
    abf = sponge.ABF(X, (-1.6, 1.6, 64), sigma=sigma, friction=5.0)
    sim = particle(double_well, abf, [-1.0, 0, 0], integrator=integrator)
    sim.run(800_000)
    (x,) = abf.centers
    inside = np.abs(x) < 1.4
    error = aligned(abf.free_energy()[inside], well(x)[inside], np.ones(inside.sum()))
    assert error < 0.4 * RT
    left, right = (abf.values[20:, 0] < 0).mean(), (abf.values[20:, 0] > 0).mean()
    assert min(left, right) > 0.25  # it diffuses over a barrier of six RT


def ring(x):
    r, a = np.sqrt(x[0, 0] ** 2 + x[0, 1] ** 2), np.arctan2(x[0, 1], x[0, 0])
    return 400.0 * (r - 1.0) ** 2 + 50.0 * x[0, 2] ** 2 + 8.0 * np.cos(a) + 5.0 * np.cos(2 * a)


@pytest.mark.slow
def test_a_periodic_variable_closes():
    abf = sponge.ABF(ANGLE, 60, sigma=0.1, friction=5.0)
    particle(ring, abf, [0.0, 1.0, 0.0]).run(800_000)
    (a,) = abf.centers
    # in the ring, r is distributed alike at each angle
    assert aligned(abf.free_energy(), 8.0 * np.cos(a) + 5.0 * np.cos(2 * a), np.ones(60)) < 0.4 * RT


@pytest.mark.slow
def test_two_variables():
    abf = sponge.ABF([X, Y], [(-1.6, 1.6, 32), (-1.0, 1.0, 20)], sigma=[0.1, 0.1], friction=5.0, full_samples=200)
    sim = particle(
        lambda x: well(x[0, 0]) + 10.0 * (x[0, 1] - 0.3 * x[0, 0]) ** 2 + 50.0 * x[0, 2] ** 2, abf, [-1.0, -0.3, 0]
    )
    sim.run(2_000_000)
    x, y = np.meshgrid(*abf.centers, indexing="ij")
    exact = well(x) + 10.0 * (y - 0.3 * x) ** 2
    found = abf.free_energy(least=50)
    near = exact < exact.min() + 25
    assert np.isfinite(found[near]).mean() > 0.95
    assert aligned(found[near], exact[near], np.ones(near.sum())) < 0.4 * RT
    assert abf.counts.sum() <= 2_000_000


@pytest.mark.slow
def test_without_adaption_the_springs_are_undone():
    """CZAR of a run without any biasing force: counts and springs alone give the free energy of a harmonic well."""
    abf = sponge.ABF(X, (-0.5, 0.5, 50), sigma=0.1, friction=5.0).freeze()
    particle(lambda x: 20.0 * np.sum(x**2), abf, [0.0, 0, 0]).run(800_000)
    (x,) = abf.centers
    found, exact = abf.free_energy(least=200), 20.0 * x**2
    assert aligned(found, exact, np.where(np.isfinite(found), abf.counts, 0)) < 0.15


def test_a_surface_is_the_least_squares_one():
    """Differences that contradict each other around a square are shared among its sides."""
    abf = sponge.ABF([X, Y], [(0, 1, 2), (0, 1, 2)], temperature=300.0)
    particle(double_well, abf, [0.2, 0.2, 0])
    abf._visits[:] = 100
    abf._ways[:] = 0.0
    abf._ways[0, 0] = abf._ways[2, 0] = 100 * 0.4 / abf._k[0]  # slopes 0.4 by x for y in the first row only
    np.testing.assert_allclose(abf.free_energy(), [[0, 0.05], [0.15, 0.1]], atol=1e-12)
    abf._visits[1:3] = 0
    np.testing.assert_array_equal(abf.free_energy(), [[0, np.nan], [np.nan, 0]])  # two parts
    with pytest.raises(ValueError, match="a bin must have 101 states at least, got 100"):
        abf.free_energy(least=101)


def test_a_run_resumes_bit_for_bit(tmp_path):
    biases = [sponge.ABF(X, (-1.6, 1.6, 32), full_samples=20, record=7) for _ in range(3)]
    whole, first, second = (particle(double_well, b, [-1.0, 0, 0]) for b in biases)
    whole.run(4000)
    first.run(1777, report=[sponge.Checkpoint(tmp_path / "run.chk", every=1777)])
    second.load(tmp_path / "run.chk")
    second.run(4000 - 1777)
    np.testing.assert_array_equal(second.positions, whole.positions)
    for key in ("values", "extended", "counts", "steps"):
        np.testing.assert_array_equal(getattr(biases[2], key), getattr(biases[0], key))
    np.testing.assert_array_equal(biases[2].free_energy(), biases[0].free_energy())
    wider = particle(double_well, sponge.ABF(X, (-2.0, 2.0, 32), 0.1, full_samples=20, record=7), [-1.0, 0, 0])
    narrow = particle(double_well, sponge.ABF(X, (-1.6, 1.6, 32), 0.1, full_samples=20, record=7), [-1.0, 0, 0])
    narrow.save(tmp_path / "narrow.chk")
    with pytest.raises(CheckpointError, match="these differ: sampling abf: grid"):
        wider.load(tmp_path / "narrow.chk")


def test_fictitious_particles_stay_in_their_range_and_start_at_the_variables():
    abf = sponge.ABF([X, ANGLE], [(-0.2, 0.2, 4), 8], record=1)
    sim = particle(lambda x: 0.0 * np.sum(x), abf, [0.1, 0.1, 0])
    sim.run(1)
    np.testing.assert_allclose(abf.extended[0], abf.values[0], atol=1e-12)
    sim.run(3000)
    assert np.all(np.abs(abf.extended[:, 0]) <= 0.2) and np.all(np.abs(abf.extended[:, 1]) <= math.pi)
    assert np.ptp(abf.extended[:, 1]) > math.pi


@pytest.mark.parametrize("integrator", [sponge.LangevinMiddle(300, 5.0, 0.005), sponge.Bussi(300, 0.1, 0.005)])
def test_they_start_with_the_run_not_with_a_look_at_energies(integrator):
    found = []
    for look in (False, True):
        abf = sponge.ABF(X, (-1.6, 1.6, 32), record=1)
        sim = particle(double_well, abf, [-1.0, 0, 0], integrator=integrator)
        assert not look or sim.energies()["abf"] == 0.0
        sim.positions = [[-0.8, 0, 0]]
        sim.run(10)
        found.append(abf.extended)
    assert abs(found[0][0, 0] + 0.8) < 0.05
    np.testing.assert_array_equal(*found)


def test_a_start_outside_of_the_grid_is_an_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sim = particle(double_well, sponge.ABF(X, (-0.5, 0.5, 10)), [-0.7, 0, 0])
    with pytest.raises(cv.VariableError, match="x must begin on the grid from -0.5 to 0.5, got -0.7 at step 0"):
        sim.run(10)


def test_any_image_of_a_periodic_variable_counts():
    abf = sponge.ABF(cv.function(lambda x: x[0, 0], [0], period=(0.0, 1.0)), 20, record=1)
    particle(lambda x: 10.0 * np.cos(2 * np.pi * x[0, 0]), abf, [3.45, 0, 0]).run(1000)
    assert abf.counts.sum() == 1000 and np.all((abf.extended[1:] >= 0) & (abf.extended[1:] <= 1))
    numbers = np.floor(abf.values[:, 0] % 1.0 * 20).astype(int)
    np.testing.assert_array_equal(abf.counts, np.bincount(numbers, minlength=20))


def test_two_methods_have_noise_of_their_own():
    pair = [sponge.ABF(X, (-1.6, 1.6, 32), name="one"), sponge.ABF(Y, (-1.6, 1.6, 32), name="two")]
    system = example_system(sponge.harmonic_bond([[i, i + 1] for i in range(11)], k=1e5, r0=0.15))
    sponge.Simulation(system, sponge.LangevinMiddle(300, 5.0, 0.001), sampling=pair).run(2000)
    assert abs(np.corrcoef(np.diff(pair[0].extended[:, 0]), np.diff(pair[1].extended[:, 0]))[0, 1]) < 0.9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grid": 20}, "grid must say from where to where x goes"),
        ({"grid": (1.0, -1.0, 20)}, r"must be \(lowest, highest, bins\)"),
        ({"grid": (-1.0, 1.0, 1)}, "bins of x"),
        ({"cvs": ANGLE, "grid": (0.0, 1.0, 20)}, "must be its period"),
        ({"cvs": [X, Y], "grid": [(0, 1, 5)]}, "an entry for each of 2 variables"),
        ({"cvs": [X, Y], "grid": [(0, 1, 5000), (0, 1, 5000)]}, "at most 1000000 bins"),
        ({"cvs": [X, Y, ANGLE]}, "one or two collective variables, got 3"),
        ({"sigma": -1.0}, "sigma must be a positive number"),
        ({"period": 0.0}, "period must be"),
        ({"full_samples": 0}, "full_samples must be"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        sponge.ABF(**{"cvs": X, "grid": (-1.0, 1.0, 10), **options})


def test_bad_use_is_named():
    abf = sponge.ABF(X, (-1.0, 1.0, 10), period=0.02)
    with pytest.raises(ValueError, match="period must be above ten time steps"):
        particle(double_well, abf, [0, 0, 0])
    assert sponge.ABF([ANGLE, ANGLE], np.int64(36)).bins == (36, 36)
    with pytest.raises(TypeError, match="grid must be a number of bins or have an entry for each variable, got 3.0"):
        sponge.ABF(ANGLE, 3.0)
    taken = sponge.ABF(X, (-1.0, 1.0, 10)).freeze()
    particle(double_well, taken, [0, 0, 0])
    with pytest.raises(ValueError, match=r"has one already \(make another one\)"):
        particle(double_well, taken, [0, 0, 0])
    with pytest.raises(ValueError, match="temperature must be given, as VelocityVerlet has none"):
        particle(double_well, sponge.ABF(X, (-1.0, 1.0, 10)), [0, 0, 0], integrator=sponge.VelocityVerlet(0.005))
