"""The environments that come with Gymnasium and need no other package, trained by PPO."""

import numpy as np
import pytest

from triskele import reinforce as rl

gymnasium = pytest.importorskip("gymnasium")

STOCK = {
    "gymnasium.envs.classic_control:CartPole-v1": {},
    "gymnasium.envs.classic_control:MountainCar-v0": {},
    "gymnasium.envs.classic_control:MountainCarContinuous-v0": {},
    "gymnasium.envs.classic_control:Pendulum-v1": {},
    "gymnasium.envs.classic_control:Acrobot-v1": {},
    "Blackjack-v1": {},
    "CliffWalking-v1": {"max_episode_steps": 100},  # these two have no limit of their own
    "CliffWalkingSlippery-v1": {"max_episode_steps": 100},
    "FrozenLake-v1": {},
    "FrozenLake8x8-v1": {},
    "Taxi-v4": {},
    "gymnasium.envs.toy_text:Taxi-v4": {"is_rainy": True},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", STOCK)
def test_each_trains_and_evaluates(name):
    env = rl.make(name, **STOCK[name])
    assert env.step_kernel is None, "Gymnasium's, not ours of the same name"
    agent = rl.PPO(env, num_envs=2, num_steps=128, minibatches=4, epochs=4, seed=0).train(3000, progress=False)
    found = agent.evaluate(2)
    assert agent.steps >= 3000 and np.isfinite(found.returns).all() and found.lengths.min() >= 1


def trained(name, steps, options, **settings):
    settings = {"num_envs": 8, "num_steps": 64, "learning_rate": 3e-3, "hidden": (64,), "seed": 0, **settings}
    return rl.PPO(rl.make(name, **options), **settings).train(steps, progress=False)


@pytest.mark.slow
def test_the_frozen_lake_is_crossed_in_six_steps():
    agent = trained("FrozenLake-v1", 40_000, {"is_slippery": False}, learning_rate=1e-3, entropy=0.03)
    found = agent.evaluate(8)
    assert found.mean == 1.0 and found.lengths.max() == 6


@pytest.mark.slow
def test_the_walk_along_the_cliff_is_the_shortest():
    options = {"max_episode_steps": 200}
    agent = trained("CliffWalking-v1", 80_000, options, discount=1.0, normalize=True)
    assert agent.evaluate(8).mean == -13.0


def best_return_of_blackjack():
    """Expected return of the best play with an infinite deck, where one may only hit or stick, and a natural pays 1.

    Sutton and Barto, Reinforcement Learning, 2nd ed., example 5.1.
    """
    cards = {k: 1 / 13 for k in range(1, 10)} | {10: 4 / 13}

    def drawn(total, ace, card):
        """(sum, usable ace) after one more card."""
        total, ace = (total + 11, True) if card == 1 and total + 11 <= 21 else (total + card, ace)
        return (total - 10, False) if total > 21 and ace else (total, ace)

    def memo(f, known):
        return lambda *key: known[key] if key in known else known.setdefault(key, f(*key))

    def dealer(total, ace):
        """Probabilities of the dealer's final sums, 22 for all above 21."""
        if total >= 17:
            return {min(total, 22): 1.0}
        out = {}
        for card, p in cards.items():
            for last, q in dealer(*drawn(total, ace, card)).items():
                out[last] = out.get(last, 0) + p * q
        return out

    def value(total, ace, shown):
        """Expected return of the best play from here."""
        if total > 21:
            return -1.0
        last = dealer(*drawn(0, False, shown))
        stick = sum(p * (1 if d == 22 else np.sign(total - d)) for d, p in last.items())
        return max(stick, sum(p * value(*drawn(total, ace, c), shown) for c, p in cards.items()))

    dealer, value = memo(dealer, {}), memo(value, {})
    deals = [(a, b, c) for a in cards for b in cards for c in cards]
    return sum(cards[a] * cards[b] * cards[c] * value(*drawn(*drawn(0, False, a), b), c) for a, b, c in deals)


@pytest.mark.slow
def test_blackjack_is_played_nearly_as_well_as_it_can_be():
    best = best_return_of_blackjack()
    assert best == pytest.approx(-0.0466, abs=0.002)
    agent = trained(
        "Blackjack-v1", 100_000, {"natural": False, "sab": False}, discount=1.0, lam=1.0, learning_rate=1e-3
    )
    found = agent.evaluate(20_000)
    assert abs(found.mean - best) < 0.02 + 3 * found.std / np.sqrt(20_000)
    assert agent.act((20, 10, 0)) == 0 and agent.act((8, 10, 0)) == 1
