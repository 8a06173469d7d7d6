"""Gumbel search: its schedule, and that it improves a policy with any number of simulations."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triskele import reinforce as rl
from triskele.reinforce.mcts.policies.gumbel import considered_visits


def test_schedule_halves_the_actions():
    table = considered_visits(8, 24)  # three phases of 8 simulations: 8, 4 and 2 actions
    assert table[8].tolist() == [0] * 8 + [1] * 4 + [2] * 4 + [3] * 2 + [4] * 2 + [5] * 2 + [6] * 2
    assert table[1].tolist() == table[0].tolist() == list(range(24))


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 20), st.integers(1, 200))
def test_schedule_can_be_kept(m, simulations):
    """There always is an action that has had as many visits as the schedule asks for."""
    visits = np.zeros(m, int)
    for considered in considered_visits(m, simulations)[m]:
        assert considered in visits
        visits[np.flatnonzero(visits == considered)[0]] += 1


def bandit(rewards, logits):
    """A model in which the first action decides everything."""
    params = {"rewards": np.array(rewards, np.float32), "logits": np.array(logits, np.float32)}

    def dynamics(p, s, a):
        batch = s.shape[0]
        return s, p["rewards"][a], np.zeros(batch, np.float32)

    def prediction(p, s):
        batch = s.shape[0]
        value = np.sum(np.exp(p["logits"]) / np.sum(np.exp(p["logits"])) * p["rewards"])
        return np.zeros((batch, len(rewards))) + p["logits"], np.zeros(batch) + value

    return rl.LearnedModel(lambda p, s: s, dynamics, prediction, params, num_actions=len(rewards))


REWARDS, LOGITS = [0.1, 0.9, 0.4, 0.3, 0.6], [2.0, -1.0, 0.5, 0.0, 0.3]
PRIOR = np.exp(LOGITS) / np.exp(LOGITS).sum()


def test_with_one_action_considered_it_is_drawn_from_the_prior():
    found = rl.MuZero(bandit(REWARDS, LOGITS), 1, rl.Gumbel(max_considered_actions=1), seed=1)(np.zeros(4000, np.int64))
    share = np.bincount(found.action, minlength=5) / 4000
    assert abs(share - PRIOR).max() < 5 * np.sqrt(0.25 / 4000)


@pytest.mark.parametrize("simulations", [2, 4, 16])
def test_the_policy_is_improved_by_few_simulations(simulations):
    """Danihelka et al. 2022, section 3: where values are exact, the action chosen is worth more on average than the
    prior's.
    """
    found = rl.MuZero(bandit(REWARDS, LOGITS), simulations, rl.Gumbel(max_considered_actions=4), seed=2)(
        np.zeros(2000, np.int64)
    )
    before = PRIOR @ REWARDS
    assert np.mean(np.array(REWARDS)[found.action]) > before + 0.05
    assert (found.policy @ REWARDS > before - 1e-6).all()
    assert (found.visits.sum(1) == simulations).all()


def test_without_noise_the_best_action_is_found():
    found = rl.MuZero(bandit(REWARDS, LOGITS), 32, rl.Gumbel(gumbel_scale=0.0))(np.zeros(1, np.int64))
    assert found.action[0] == 1 and found.policy[0].argmax() == 1
    np.testing.assert_allclose(found.values[0], REWARDS, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_considered_actions": 0}, "max_considered_actions must be an integer >= 1, got 0"),
        ({"gumbel_scale": -1.0}, "gumbel_scale must be a number >= 0, got -1.0"),
        ({"value_scale": float("nan")}, "value_scale must be"),
    ],
)
def test_bad_parameters_are_named(arguments, message):
    with pytest.raises(rl.SearchError, match=message):
        rl.Gumbel(**arguments)
