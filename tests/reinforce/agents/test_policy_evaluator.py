"""A trained policy as the evaluator of a search."""

import numpy as np
import pytest

from triskele import reinforce as rl
from triskele.core import nn, random
from triskele.reinforce.policy import Categorical, Flat, Greedy, Normalizer, Policy


def uniform(game, **options):
    size = int(np.prod(game.observation_shape))

    weight = np.zeros((size, game.num_actions), np.float32)

    head = Categorical(Flat(nn.Linear(weight), len(game.observation_shape)))
    return Policy(head, tuple(game.observation_shape), num_actions=game.num_actions, **options)


def test_the_policy_of_alphazero_searches_as_its_own_search_does():
    agent = rl.AlphaZero(rl.games.TicTacToe(), simulations=8, seed=0)
    state = agent.game.initial_state().play(4)
    ours = rl.MCTS(agent.game, 64, evaluator=agent.policy)(state)  # PUCT is the default here
    np.testing.assert_array_equal(ours.visits, agent.search(64)(state).visits)


def test_a_saved_policy(tmp_path):
    agent = rl.AlphaZero(rl.games.TicTacToe(), simulations=8, seed=0)
    agent.policy.save(tmp_path / "policy.safetensors")
    state = agent.game.initial_state()
    searches = [
        rl.MCTS(agent.game, 32, policy=rl.PUCT(), evaluator=policy)
        for policy in (agent.policy, rl.Policy.load(tmp_path / "policy.safetensors"))
    ]
    np.testing.assert_array_equal(*[search(state).visits for search in searches])


def test_a_policy_without_values_counts_unfinished_positions_as_zero():
    game = rl.games.TicTacToe()
    plain = rl.Network(
        lambda params, x: (np.zeros((len(x), 9), np.float32) * params, np.zeros(len(x), np.float32)), np.float32(1)
    )
    state = game.initial_state().play(0, 3, 1, 4)  # x wins by 2
    results = [rl.MCTS(game, 200, policy=rl.PUCT(), evaluator=e)(state) for e in (uniform(game), plain)]
    assert results[0].action == 2
    np.testing.assert_array_equal(results[0].visits, results[1].visits)


def test_observations_are_normalized():
    game = rl.games.TicTacToe()
    shape = tuple(game.observation_shape)
    weight = np.asarray(random.normal(random.key(0), (int(np.prod(shape)), 9)))

    network = Flat(nn.Linear(weight), len(shape))
    normalizer = Normalizer(np.full(shape, 0.5, np.float32), np.full(shape, 2.0, np.float32), 10.0)
    policy = Policy(Categorical(network), shape, normalizer, 9)
    by_hand = rl.Network(lambda params, x: (params((x - 0.5) * 2), np.zeros(len(x), np.float32)), network)
    results = [rl.MCTS(game, 50, policy=rl.PUCT(), evaluator=e)(game.initial_state()) for e in (policy, by_hand)]
    np.testing.assert_array_equal(results[0].visits, results[1].visits)


def test_policies_of_something_else_are_refused():
    game = rl.games.TicTacToe()
    with pytest.raises(rl.EvaluatorError, match="the policy is for observations .* and 7 actions, got TicTacToe"):
        rl.MCTS(game, 10, policy=rl.PUCT(), evaluator=uniform(rl.games.ConnectFour()))(game.initial_state())
    head = Greedy(nn.Linear(np.zeros((18, 9), np.float32)))
    with pytest.raises(rl.EvaluatorError, match="head .* must be a Categorical, got Greedy.*probabilities of discrete"):
        rl.MCTS(game, 10, evaluator=Policy(head, (18,), num_actions=9))
