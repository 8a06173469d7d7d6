"""Samples follow their probabilities, and what is made of them is right."""

import numpy as np
import pytest
from scipy import stats

from triskele.core.kernels import threads
from triskele.quantum.errors import OperatorError, SimulatorError, StateError
from triskele.quantum.operators.pauli import PauliSum
from triskele.quantum.shots.sampling import Estimate, Samples, sample


def chi_square(indices, p):
    """P-value of the counts, outcomes of less than five expected pooled."""
    expected = p * len(indices)
    counts = np.bincount(indices, minlength=len(p)).astype(float)
    rare = expected < 5
    if rare.any() and expected[rare].sum() >= 5:
        expected = np.append(expected[~rare], expected[rare].sum())
        counts = np.append(counts[~rare], counts[rare].sum())
    else:
        expected, counts = expected[~rare], counts[~rare]
    return stats.chi2.sf(np.sum((counts - expected) ** 2 / expected), len(expected) - 1) if len(expected) > 1 else 1.0


@pytest.mark.parametrize("size", [2, 4, 8, 16, 1024, 1 << 14])
@pytest.mark.parametrize("shape", ["flat", "exponential", "steep", "sparse"])
def test_samples_follow_the_probabilities(size, shape, rng):
    p = {
        "flat": np.ones(size),
        "exponential": rng.exponential(size=size),
        "steep": 0.9 ** np.arange(size)[::-1],
        "sparse": (rng.random(size) < 0.2) + (np.arange(size) == size - 1.0),
    }[shape]
    p = p / p.sum()
    drawn = sample(p, 200_000, seed=11)
    assert chi_square(drawn, p) > 1e-4
    assert not np.any(p[drawn] == 0)
    phases = np.exp(2j * np.pi * rng.random(size))
    assert chi_square(sample(np.sqrt(p) * phases, 200_000, seed=12), p) > 1e-4
    assert chi_square(sample((np.sqrt(p) * phases).astype(np.complex64), 200_000, seed=13), p) > 1e-4


def test_samples_are_independent_of_each_other(rng):
    p = rng.dirichlet(np.ones(4))
    drawn = sample(p, 400_000, seed=5)
    assert chi_square(drawn[:-1] * 4 + drawn[1:], np.outer(p, p).ravel()) > 1e-4


def test_outcomes_of_probability_zero_never_come():
    for place in range(40):
        p = np.zeros(40)
        p[place] = 1.0
        assert set(sample(p, 1000, seed=place)) == set(sample(p.astype(int), 1000, seed=place)) == {place}


def test_a_seed_fixes_the_samples_and_their_number_only_cuts_them(rng):
    p = rng.dirichlet(np.ones(64))
    first = sample(p, 1000, seed=3)
    np.testing.assert_array_equal(first[:10], sample(p, 10, seed=3))
    assert np.any(first != sample(p, 1000, seed=4))
    assert np.any(sample(p, 1000) != sample(p, 1000))
    before = threads.get_threads()
    try:
        threads.set_threads(1)
        np.testing.assert_array_equal(first, sample(p, 1000, seed=3))
    finally:
        threads.set_threads(before)


def test_bad_probabilities_and_shots(rng):
    good = np.array([0.5, 0.5])
    for shots in (0, -1, 1.5, True):
        with pytest.raises(SimulatorError, match="shots must be an integer >= 1"):
            sample(good, shots)
    with pytest.raises(SimulatorError, match="seed must be an integer"):
        sample(good, 1, seed=-1)
    for bad in ([0.5, 0.4], [1.5, -0.5], [np.nan, 1.0], [0.0, 0.0]):
        with pytest.raises(StateError, match="sum to 1"):
            sample(np.array(bad), 1)


def test_counts_bits_and_indices_say_the_same(rng):
    indices = rng.integers(0, 32, 500)
    samples = Samples(indices, 5)
    np.testing.assert_array_equal(samples.array, indices[:, None] >> np.arange(5) & 1)
    again = Samples(samples.array)
    np.testing.assert_array_equal(again.indices, indices)
    counts = samples.counts()
    assert counts == again.counts()
    assert list(counts) == sorted(counts)
    assert all(counts[bits] == np.sum(indices == int(bits, 2)) for bits in counts)
    assert sum(samples.frequencies().values()) == pytest.approx(1)
    assert len(samples) == len(again) == 500


def test_more_bits_than_an_index_has(rng):
    array = rng.integers(0, 2, (50, 3)).repeat(25, axis=1)  # 75 bits, 8 different rows
    samples = Samples(array)
    counts = samples.counts()
    assert list(counts) == sorted(counts)
    assert counts == {b[0] * 25 + b[1] * 25 + b[2] * 25: c for b, c in Samples(array[:, ::25]).counts().items()}
    assert samples.expectation("Z0 Z70").value == pytest.approx(np.mean((-1.0) ** (array[:, 0] + array[:, 70])))
    with pytest.raises(SimulatorError, match="at most 63 bits"):
        _ = samples.indices


def test_expectation_of_z_strings_and_its_error(rng):
    samples = Samples(rng.integers(0, 8, 400), 3)
    z = 1.0 - 2.0 * samples.array
    values = 0.5 * z[:, 0] * z[:, 2] - 1.5 * z[:, 1] + 2
    found = samples.expectation(PauliSum("0.5 Z0 Z2 - 1.5 Z1 + 2"))
    assert found.value == pytest.approx(values.mean(), abs=1e-13)
    assert found.error == pytest.approx(values.std(ddof=1) / 20, abs=1e-13)
    assert str(Estimate(-4.567321, 0.0213)) == "-4.567 ± 0.021" and str(Estimate(1234.5, 27.0)) == "1234 ± 27"
    assert str(Samples(np.array([2, 2, 2]), 2).expectation("Z0 - Z1")) == "2 ± 0"
    with pytest.raises(OperatorError, match="products of Z only, got X1"):
        samples.expectation("Z0 X1")
    with pytest.raises(OperatorError, match="qubits 0 to 2"):
        samples.expectation("Z3")
    with pytest.raises(OperatorError, match="Hermitian"):
        samples.expectation("1j Z0")


def test_single_precision_may_drift_further_from_norm_1(rng):
    psi = np.full(16, 0.25) * np.sqrt(1.0002)
    assert len(sample(psi.astype(np.complex64), 10, seed=1)) == 10
    with pytest.raises(StateError, match="got a sum of 1.0002"):
        sample(psi.astype(complex), 10, seed=1)
    with pytest.raises(StateError, match="sum to 1"):
        sample((2 * psi).astype(np.complex64), 10, seed=1)
