"""Weights n_k of a ladder and reweighting, against systems whose partition functions are known.

The energies of n/2 harmonic degrees of freedom follow a gamma distribution, Z(beta) = beta^(-n/2); two states of
energies 0 and E with degeneracies 1 and g have Z = 1 + g exp(-beta E). Both can be drawn from exactly under any n_k.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triskele.sponge import units
from triskele.sponge.sampling.ladder_weights import (
    ESTIMATORS,
    MBAR,
    Approximation,
    Iteration,
    Reweighted,
    from_mean_energies,
    from_one_temperature,
)
from triskele.sponge.sampling.reweighting import (
    EnergyHistogram,
    LadderReweighting,
    PoorOverlapWarning,
    kish,
    log_mixture,
    mean_probabilities,
    solve,
)

T0 = 300.0
BETA0 = 1 / (units.GAS_CONSTANT * T0)
TEMPERATURES = units.ladder(280, 600, 24)
BETAS = 1 / (units.GAS_CONSTANT * TEMPERATURES)
KCAL_100 = 100 * units.kcal_per_mol


class Oscillators:
    """Harmonic degrees of freedom; energies are counted from `offset`."""

    def __init__(self, freedom=60, offset=0.0, seed=0, betas=BETAS):
        self.shape, self.offset, self.betas, self.rng = freedom / 2, offset, betas, np.random.default_rng(seed)
        self.log_z = -self.shape * np.log(betas) - betas * offset

    @property
    def exact(self):
        return self.log_z.mean() - self.log_z

    def draw(self, log_n, m):
        """Energies under ln n_k, or under plain dynamics at T0."""
        if log_n is None:
            return self.rng.gamma(self.shape, 1 / BETA0, m) + self.offset
        log_p = log_n + self.log_z
        p = np.exp(log_p - log_p.max())
        k = self.rng.choice(len(self.betas), m, p=p / p.sum())
        return self.rng.gamma(self.shape, 1 / self.betas[k]) + self.offset


def learn(name, system, blocks, size=500, start=None):
    """An estimator after so many blocks, each drawn with what was learned from those before."""
    estimator = ESTIMATORS[name](system.betas, BETA0)
    log_n = start
    for _ in range(blocks):
        energies = system.draw(log_n, size)
        if estimator.online and log_n is not None:
            for _ in range(size):
                estimator.learn(system.draw(estimator.log_n, 1)[0])
        else:
            estimator.add(energies, log_n)
            estimator.update()
        log_n = estimator.log_n.copy()
    return estimator


def error(log_n, system):
    return np.abs(log_n - log_n.mean() - system.exact).max()


# -- the three estimators
# -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, blocks", [("iteration", 60), ("mbar", 60), ("approximation", 8), ("opes", 20)])
def test_estimators_find_the_partition_functions_of_oscillators(name, blocks):
    system = Oscillators()
    learned = learn(name, system, blocks).log_n
    assert error(learned, system) < 0.15
    flat = mean_probabilities(system.draw(learned, 20_000), BETAS, learned) * len(BETAS)
    assert np.abs(flat - 1).max() < 0.2


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("offset", [KCAL_100, -KCAL_100, -3e5])
def test_no_estimator_sees_an_offset_of_the_energy(name, offset):
    blocks = 4
    here, there = (learn(name, Oscillators(offset=x), blocks).log_n for x in (0.0, offset))
    turned = there - BETAS * offset
    np.testing.assert_allclose(turned - turned.mean(), here, atol=1e-6 if abs(offset) > 1e4 else 1e-9)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_go_on_bit_for_bit(name):
    whole, first = Oscillators(seed=3), Oscillators(seed=3)
    estimator = learn(name, first, 5)
    other = ESTIMATORS[name](BETAS, BETA0)
    other.restore(estimator.state())
    reference = learn(name, whole, 5)
    for e, system in ((reference, whole), (other, first)):
        for _ in range(3):
            energies = system.draw(e.log_n, 200)
            if e.online:
                for x in energies:
                    e.learn(x)
            else:
                e.add(energies, e.log_n.copy())
                e.update()
    assert np.array_equal(reference.log_n, other.log_n)


def test_a_state_does_not_change_when_the_estimator_goes_on():
    for name in ESTIMATORS:
        system = Oscillators()
        estimator = learn(name, system, 3)
        state = estimator.state()
        before = {k: np.copy(v) for k, v in state.items()}
        estimator.add(system.draw(estimator.log_n, 500), estimator.log_n.copy() + 1e-3)
        estimator.update()
        if estimator.online:
            estimator.learn(100.0)
        assert not np.array_equal(estimator.state()["log_n"], before["log_n"])
        for k, v in state.items():
            assert np.array_equal(v, before[k]), (name, k)


# -- the iteration of ratios
# ----------------------------------------------------------------------------------------------


def test_iteration_of_one_block_is_the_ratio_of_shares():
    """m_k' = m_k P_k / P_{k+1}, whatever the order of the samples: the first one has no special place."""
    system, start = Oscillators(), Oscillators().exact + np.linspace(0, 1, len(BETAS))
    energies = system.draw(start, 300)
    share = mean_probabilities(energies, BETAS, start)
    wanted = np.diff(start) + np.log(share[:-1] / share[1:])
    for order in (energies, energies[::-1], np.roll(energies, 1)):
        estimator = Iteration(BETAS, BETA0)
        estimator.add(order, start)
        np.testing.assert_allclose(np.diff(estimator.log_n), wanted, atol=1e-12)


def test_iteration_carries_the_weight_of_earlier_blocks():
    """Long after the start, one small block must hardly move n_k; without W it would throw it about by its own
    error.
    """
    system = Oscillators(seed=5)
    estimator = learn("iteration", system, 80, 200)
    learned = estimator.log_n.copy()
    alone = Iteration(BETAS, BETA0)
    block = system.draw(learned, 200)
    alone.add(block, learned)
    estimator.add(block, learned)
    moved, thrown = np.abs(estimator.log_n - learned).max(), np.abs(alone.log_n - learned).max()
    assert thrown > 0.05 and moved < thrown / 20


def test_iteration_weighs_blocks_by_what_they_have_seen():
    """A block near the lowest temperature knows nothing about the highest, and must not be heard about it."""
    system = Oscillators(freedom=400, seed=6)
    estimator = Iteration(BETAS, BETA0)
    estimator.add(system.draw(system.exact, 20_000), system.exact)
    before = np.diff(estimator.log_n)
    cold = system.exact - 3 * np.arange(len(BETAS))
    estimator.add(system.draw(cold, 20_000), cold)
    moved = np.abs(np.diff(estimator.log_n) - before)
    assert moved[-5:].max() < 1e-6 and 1e-6 < moved[0] < 0.1


# -- all blocks at once
# ---------------------------------------------------------------------------------------------------


def test_mbar_agrees_with_the_equations_of_mbar():
    """ln Z from pooled epochs solves the self-consistent equations in their textbook form, state by state, sample by
    sample.
    """
    system = Oscillators(freedom=20)
    rows = np.array(
        [
            system.exact,
            system.exact + 2 * np.linspace(-1, 1, len(BETAS)) ** 2,
            np.linspace(0, 3, len(BETAS)) + system.exact,
        ]
    )
    samples = np.array([400.0, 300, 200])
    energies = np.concatenate([system.draw(row, int(m)) for row, m in zip(rows, samples)])
    log_z, _ = solve(energies, np.ones(len(energies)), samples, rows, BETAS, tolerance=1e-11)
    bias = np.array([log_mixture(energies, BETAS, row) for row in rows])  # ln of each epoch's density, but for Omega(E)
    f = np.zeros(3)
    for _ in range(3000):
        f = -np.log(np.exp(bias - np.log((samples[:, None] * np.exp(f[:, None] + bias)).sum(0))).sum(1))
        f -= f[0]
    direct = np.log(
        np.exp(-np.outer(BETAS, energies) - np.log((samples[:, None] * np.exp(f[:, None] + bias)).sum(0))).sum(1)
    )
    np.testing.assert_allclose(log_z - log_z[0], direct - direct[0], atol=1e-8)


def test_mbar_finds_its_way_between_epochs_that_hardly_overlap():
    system = Oscillators(freedom=200, seed=2)
    rows = system.exact + np.outer([-2.0, 0, 2.0], np.arange(len(BETAS)))
    samples = np.array([3000.0, 3000, 3000])
    energies = np.concatenate([system.draw(row, 3000) for row in rows])
    log_z, _ = solve(energies, np.ones(len(energies)), samples, rows, BETAS)
    assert error(-log_z, system) < 0.3


def test_mbar_learns_from_more_energies_the_longer_it_runs():
    estimator = MBAR(BETAS, BETA0)
    for blocks in range(1, 200):
        estimator.add(np.full(10, 50.0), np.zeros(len(BETAS)))
        kept = (estimator._old.size + estimator._new.size) / (10 * blocks)
        assert kept >= 1 / 3 and (blocks < 30 or kept < 0.6)
    system = Oscillators()
    assert error(learn("mbar", system, 400).log_n, system) < 0.05


def test_mbar_forgets_what_it_learned_before_the_deepest_states_were_found():
    """20 blocks in a high-lying well, and then another 60 kJ/mol lower: a factor of 10^11 in Z at the lowest
    temperature.
    """
    upper, lower = Oscillators(seed=1), Oscillators(seed=2, offset=-60.0)
    estimator, log_n = MBAR(BETAS, BETA0), None
    for block in range(60):
        estimator.add((upper if block < 20 else lower).draw(log_n, 200), log_n)
        estimator.update()
        log_n = estimator.log_n.copy()
        if block == 19:
            assert error(log_n, upper) < 0.15
    assert error(log_n, lower) < 0.15


def test_bins_of_energies_change_nothing():
    system = Oscillators()
    energies = system.draw(system.exact, 5000)
    histogram = EnergyHistogram(BETAS)
    for part in np.array_split(energies, 7):
        histogram.add(part)
    assert histogram.count.sum() == 5000 and len(histogram.count) < 2500
    binned = solve(histogram.energy, histogram.count, np.array([5000.0]), system.exact[None], BETAS)[0]
    one_by_one = solve(energies, np.ones(5000), np.array([5000.0]), system.exact[None], BETAS)[0]
    np.testing.assert_allclose(binned, one_by_one, atol=0.05**2 / 8)


# -- stochastic approximation, and starts
# ---------------------------------------------------------------------------------


def test_approximation_keeps_its_gain_until_all_is_flat_and_then_falls_like_one_over_t():
    system = Oscillators(freedom=20)
    estimator = Approximation(BETAS, BETA0)
    estimator.add(system.draw(None, 500), None)
    estimator.learn(system.draw(None, 1)[0])
    assert estimator.numbers[1] == 1 / len(BETAS)
    for _ in range(4000):
        estimator.learn(system.draw(estimator.log_n, 1)[0])
    seen, gain, _, falls = estimator.numbers
    assert seen == 4001 and falls == 1 and gain == 1 / seen
    assert abs(estimator.log_n.sum()) < 1e-9  # each step only moves weight from one temperature to others


def test_opes_by_the_sums_over_all_energies():
    """ln n_k from weights exp(V / RT), V being the bias at the time, written as in the paper; plain energies first."""
    system, t0 = Oscillators(freedom=20), 12
    beta = BETAS[t0]  # on the ladder, where n = 1
    estimator = Reweighted(BETAS, beta)
    plain = system.draw(None, 50)
    estimator.add(plain, None)
    weights, energies = [1.0] * 50, list(plain)
    for _ in range(60):
        free = estimator.log_n - estimator.log_n[t0]
        e = system.draw(estimator.log_n, 1)[0]
        weights.append(1 / np.mean(np.exp(-(BETAS - beta) * e + free)))
        energies.append(e)
        estimator.learn(e)
        w, x = np.array(weights), np.array(energies)
        expected = -np.log(np.sum(w * np.exp(-(BETAS - beta)[:, None] * x), 1) / w.sum())
        np.testing.assert_allclose(estimator.log_n, expected - expected.mean(), atol=1e-9)


def test_opes_begins_with_weights_that_were_given():
    system = Oscillators(freedom=20)
    estimator = Reweighted(BETAS, BETA0)
    estimator.log_n[:] = system.exact
    for _ in range(50):
        estimator.learn(system.draw(estimator.log_n, 1)[0])
        assert error(estimator.log_n, system) < 1.0


def test_opes_of_walkers_is_that_of_all_energies():
    """With n_k held, so that all of them are drawn with the same bias."""
    system = Oscillators(freedom=20)
    common = Reweighted(BETAS, BETA0)
    common.add(system.draw(None, 100), None)
    start, energies = common.state(), [system.draw(common.log_n, 40) for _ in range(3)]
    walkers = []
    for own in energies:
        walkers.append(Reweighted(BETAS, BETA0))
        walkers[-1].restore(start)
        for e in own:
            walkers[-1].log_n[:] = start["log_n"]
            walkers[-1].learn(e)
    merged = common.merge(start, [w.state() for w in walkers])
    for e in np.concatenate(energies):
        common.log_n[:] = start["log_n"]
        common.learn(e)
    np.testing.assert_allclose(merged["log_n"], common.log_n, atol=1e-10)
    np.testing.assert_allclose(merged["log_sums"], common.log_sums, atol=1e-10)


def test_mean_energies_give_the_weights_of_oscillators():
    system = Oscillators()
    mean = system.shape / BETAS
    fine = from_mean_energies(BETAS, mean)
    assert error(fine, system) < 0.01  # the trapezoid's
    np.testing.assert_allclose(
        from_mean_energies(BETAS, mean + KCAL_100) - from_mean_energies(BETAS, mean),
        (BETAS - BETAS.mean()) * KCAL_100,
        atol=1e-9,
    )
    with pytest.raises(ValueError, match="one for each of the 24 temperatures"):
        from_mean_energies(BETAS, mean[:3])


def test_one_temperature_gives_the_weights_of_oscillators():
    system = Oscillators()
    assert error(from_one_temperature(BETAS, system.draw(None, 400_000), BETA0), system) < 0.05


# -- reweighting -------------------------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(
    gap=st.floats(2.0, 40.0),
    degeneracy=st.floats(0.1, 1e3),
    offset=st.sampled_from([0.0, KCAL_100, -KCAL_100]),
    seed=st.integers(0, 99),
)
def test_two_states_at_any_temperature(gap, degeneracy, offset, seed):
    """Populations, free energy and heat capacity of a two-state system from one run over a ladder."""
    rng = np.random.default_rng(seed)
    z = 1 + degeneracy * np.exp(-BETAS * gap)
    log_n = -np.log(z) + BETAS * offset
    upper = np.mean(1 - 1 / z)
    m = 4000
    state = rng.random(m) < upper
    result = LadderReweighting(gap * state + offset, log_n, TEMPERATURES, T0)
    temperatures = np.array([280.0, 350.0, 600.0])
    beta = 1 / (units.GAS_CONSTANT * temperatures)
    p = degeneracy * np.exp(-beta * gap) / (1 + degeneracy * np.exp(-beta * gap))
    got = np.array([(result.weights(t) * state).sum() for t in temperatures])
    noise = p * (1 - p) / np.sqrt(m * upper * (1 - upper)) if 0 < upper < 1 else 0
    assert np.all(np.abs(got - p) < 5 * noise + 1e-9)
    wanted = (
        np.log((1 + degeneracy * np.exp(-beta * gap)) / (1 + degeneracy * np.exp(-BETA0 * gap)))
        - (beta - BETA0) * offset
    )
    assert np.all(
        np.abs(result.log_partition(temperatures)[0] - wanted)
        < 5 * np.abs(p - p.mean()).max() / np.sqrt(m * upper * (1 - upper)) + 0.05
    )


def test_free_energies_and_heat_capacities_have_honest_errors():
    """Errors over their estimates in 20 independent runs: the mean square is 1 within its own error."""
    temperatures = np.array([285.0, 400.0, 590.0])
    beta = 1 / (units.GAS_CONSTANT * temperatures)
    pulls = []
    for seed in range(20):
        system = Oscillators(freedom=20, seed=seed)
        plain = np.full(len(BETAS), np.nan)
        rows = np.array([plain, system.exact, system.exact + np.linspace(0, 0.5, len(BETAS))])
        energies = np.concatenate([system.draw(None, 200), system.draw(rows[1], 1000), system.draw(rows[2], 1000)])
        result = LadderReweighting(energies, rows, TEMPERATURES, T0, np.repeat([0, 1, 2], [200, 1000, 1000]))
        for (value, error), exact in [
            (result.log_partition(temperatures), -10 * np.log(beta / BETA0)),
            (result.mean_energy(temperatures), 10 / beta),
            (result.heat_capacity(temperatures), np.full(3, 10 * units.GAS_CONSTANT)),
        ]:
            pulls.append((value - exact) / error)
    squares = (np.array(pulls) ** 2).reshape(20, 3, 3).mean(0)
    assert np.all((squares > 0.3) & (squares < 2.5)), squares


def test_plain_samples_have_equal_weights_at_their_own_temperature():
    energies = Oscillators().draw(None, 500)
    result = LadderReweighting(energies, np.full(len(BETAS), np.nan), TEMPERATURES, T0)
    np.testing.assert_allclose(result.weights(T0), 1 / 500, rtol=1e-12)


def test_some_of_the_samples_are_reweighted_from_what_they_were_drawn_with():
    """Production alone, after a start that was drawn otherwise: its weights are those of production alone."""
    system = Oscillators()
    rows = np.array([np.full(len(BETAS), np.nan), system.exact])
    energies = np.concatenate([system.draw(None, 3000), system.draw(system.exact, 1000)])
    both = LadderReweighting(energies, rows, TEMPERATURES, T0, np.repeat([0, 1], [3000, 1000]))
    alone = LadderReweighting(energies[3000:], system.exact, TEMPERATURES, T0)
    np.testing.assert_allclose(both.weights(T0, np.arange(3000, 4000)), alone.weights(T0), rtol=1e-10)


def test_poor_overlap_is_said():
    energies = Oscillators(freedom=400).draw(None, 5000)
    result = LadderReweighting(energies, np.full(len(BETAS), np.nan), TEMPERATURES, T0)
    with pytest.warns(PoorOverlapWarning, match=r"at 600 K, 5000 samples are worth \d\.\d independent ones"):
        result.weights(600.0)


def test_effective_samples():
    assert kish(np.ones(50)) == 50
    assert kish(np.r_[1.0, np.zeros(99)]) == pytest.approx(1, abs=0.1)
    slow = np.repeat(np.random.default_rng(0).random(300), 20)  # each value twenty times: 300 samples
    assert kish(slow) < 450
    for bad in ([], [-1.0, 2.0], [np.nan, 1.0], [0.0, 0.0], [[1.0]]):
        with pytest.raises(ValueError, match="finite numbers >= 0"):
            kish(bad)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"energies": [1.0, np.nan]}, "energies must be finite, got nan at 1"),
        ({"energies": [1.0]}, "at least 2 samples are needed, got 1"),
        ({"log_n": [0.0, np.inf]}, "log_n must be finite"),
        ({"log_n": [0.0, 0.0, 0.0]}, r"must be \[m\], temperatures \[N\] and log_n"),
        ({"temperatures": [300.0, -5.0]}, "positive and finite"),
        ({"epochs": [0, 1]}, "a row of log_n for each of the 2 energies"),
    ],
)
def test_bad_input(change, message):
    good = {"energies": [1.0, 2.0], "log_n": [0.0, 0.0], "temperatures": [300.0, 400.0], "temperature": 300.0}
    with pytest.raises(ValueError, match=message):
        LadderReweighting(**{**good, **change})


def test_few_samples_have_no_errors():
    with pytest.raises(ValueError, match="at least 40 samples are needed for errors, got 10"):
        LadderReweighting(np.arange(10.0), np.zeros(24), TEMPERATURES, T0).log_partition([300.0])


@pytest.mark.parametrize("spacing, wanted", [("geometric", [200, 400, 800]), ("linear", [200, 500, 800])])
def test_ladder(spacing, wanted):
    np.testing.assert_allclose(units.ladder(200, 800, 3, spacing), wanted)
    assert units.ladder(300, 300, 1) == [300]


@pytest.mark.parametrize(
    "arguments",
    [
        (0, 300, 3),
        (400, 300, 3),
        (300, np.inf, 3),
        (np.nan, 300, 3),
        (300, 400, 1),
        (300, 300, 2),
        (300, 400, 2.5),
        (300, 400, 3, "cubic"),
    ],
)
def test_ladder_refuses(arguments):
    with pytest.raises(ValueError, match="^ladder: "):
        units.ladder(*arguments)
