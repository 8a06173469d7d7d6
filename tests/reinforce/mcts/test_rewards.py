"""Games with rewards on the way: accounts of states, and searches against value iteration."""

import numpy as np
import pytest

from triskele import reinforce as rl
from triskele.reinforce.errors import EvaluatorError, GameError, SearchError

GAMMA = 0.9
SLIP = 0.25


class Track(rl.Game):
    """Seven places; each visit of an end pays, and leads back to the middle."""

    num_players, num_actions, max_length, observation_shape = 1, 2, 12, (1,)
    state = [("place", np.int64), ("time", np.int64)]
    discount = GAMMA

    @staticmethod
    def initial(state):
        state.place = 3

    @staticmethod
    def player(state):
        return 0

    @staticmethod
    def legal_actions(state, mask):
        mask[:] = True

    @staticmethod
    def step(state, action):
        state.place = (3 if state.place in (0, 6) else state.place) + 2 * action - 1
        state.time += 1

    @staticmethod
    def reward(state, out):
        out[0] = 100.0 if state.place == 6 else 20.0 if state.place == 0 else -1.0

    @staticmethod
    def terminal(state):
        return state.time == 10

    @staticmethod
    def returns(state, out):
        out[0] = 0.0

    @staticmethod
    def observe(state, player, out):
        out[0] = state.place


class Slippery(Track):
    """The same, where a move fails with a chance of 1/4, which `chance` decides."""

    num_outcomes, max_length = 2, 14
    state = [*Track.state, ("move", np.int64)]

    @staticmethod
    def initial(state):
        state.place, state.move = 3, -1

    @staticmethod
    def player(state):
        return 0 if state.move < 0 else -1

    @staticmethod
    def chance(state, probabilities):
        probabilities[0], probabilities[1] = 1 - SLIP, SLIP

    @staticmethod
    def step(state, action):
        if state.move < 0:
            state.move = action
            return
        way = 2 * state.move - 1 if action == 0 else 0
        state.place = (3 if state.place in (0, 6) else state.place) + way
        state.move, state.time = -1, state.time + 1

    @staticmethod
    def reward(state, out):
        out[0] = 0.0 if state.move >= 0 else 100.0 if state.place == 6 else 20.0 if state.place == 0 else -1.0

    @staticmethod
    def terminal(state):
        return state.time == 6


def iterate(steps, slip=0.0):
    """Values of both actions in each place, by value iteration."""
    ahead, table = np.zeros(7), np.zeros((7, 2))
    for _ in range(steps):
        for place in range(7):
            start = 3 if place in (0, 6) else place
            for action in (0, 1):
                ends = (start + 2 * action - 1, 1 - slip), (start, slip)
                table[place, action] = sum(p * (pay(end) + GAMMA * ahead[end]) for end, p in ends)
        ahead = table.max(axis=1)
    return table


def pay(place):
    return 100.0 if place == 6 else 20.0 if place == 0 else -1.0


TABLES = np.array([iterate(10 - t).max(axis=1) for t in range(10)] + [np.zeros(7)] * 2)


def value_ahead(state, values, table=TABLES):
    values[0] = table[state.time, state.place]


def test_returns_are_discounted_sums():
    state, total = Track().initial_state(), 0.0
    for t, action in enumerate([1, 1, 1, 0, 0, 0, 1, 1, 1, 0]):
        state = state.play(action)
        total += GAMMA**t * pay(int(state.data["place"][0]))
    assert state.terminal
    np.testing.assert_allclose(state.returns, [total], rtol=1e-14)


def test_chance_takes_no_time():
    """A decision and the outcome of chance behind it are one step."""
    state, total = Slippery().initial_state(), 0.0
    for t, (action, outcome) in enumerate([(1, 0), (1, 1), (1, 0), (1, 0), (0, 0), (0, 1)]):
        state = state.play(action, outcome)
        total += GAMMA**t * pay(int(state.data["place"][0]))
    np.testing.assert_allclose(state.returns, [total], rtol=1e-14)


@pytest.mark.parametrize("moves", [(), (1, 1, 0), (1, 1, 1, 1)])
def test_a_solved_problem_equals_value_iteration(moves):
    """From the first position and from others: what was earned before the root does not count."""
    state = Track().initial_state().play(*moves)
    found = rl.MCTS(Track(), simulations=20_000, solver=True, seed=0)(state)
    assert found.proven
    np.testing.assert_allclose(found.values, iterate(10 - len(moves))[int(state.data["place"][0])], rtol=1e-6)


def test_a_solved_problem_with_chance_equals_value_iteration():
    state = Slippery().initial_state().play(1, 0, 1, 1)
    found = rl.MCTS(Slippery(), simulations=200_000, solver=True, seed=0)(state)
    assert found.proven
    np.testing.assert_allclose(found.values, iterate(4, SLIP)[4], rtol=1e-6)


@pytest.mark.parametrize("moves", [(), (1, 1, 0)])
def test_rewards_of_any_size_in_ten_thousand_simulations(moves):
    state = Track().initial_state().play(*moves)
    found = rl.MCTS(Track(), simulations=10_000, policy=rl.UCT(c=0.6, normalize=True), seed=0)(state)
    wanted = iterate(10 - len(moves))[int(state.data["place"][0])]
    assert found.action == np.argmax(wanted)
    assert abs(found.values.max() / wanted.max() - 1) < 1e-2


def test_values_of_evaluators_are_those_ahead():
    """With exact values each action is worth what value iteration says after one visit, from any position on."""
    state = Track().initial_state().play(1, 0, 1)
    found = rl.MCTS(Track(), simulations=2, evaluator=value_ahead, seed=0)(state)
    np.testing.assert_allclose(found.values, iterate(7)[4], rtol=1e-6)


def test_rollouts_to_a_horizon():
    state = Track().initial_state().play(1, 1)
    at_once = rl.MCTS(Track(), simulations=200, evaluator=rl.RandomRollout(depth=0, value=value_ahead), seed=0)(state)
    valued = rl.MCTS(Track(), simulations=200, evaluator=value_ahead, seed=0)(state)
    np.testing.assert_array_equal(at_once.values, valued.values)
    game = rl.games.TicTacToe()
    to_the_end = [
        rl.MCTS(game, simulations=300, evaluator=evaluator, seed=5)(game.initial_state()).visits
        for evaluator in (rl.RandomRollout(), rl.RandomRollout(depth=9))
    ]
    np.testing.assert_array_equal(*to_the_end)
    short = rl.MCTS(game, simulations=300, evaluator=rl.RandomRollout(depth=1), seed=0)(
        game.initial_state().play(0, 3, 1, 4)
    )
    assert short.action == 2  # wins at once; all else counts as 0


@pytest.mark.parametrize("policy", [rl.UCT, rl.PUCT])
def test_the_unit_of_rewards_does_not_matter(policy):
    class Cents(Track):
        @staticmethod
        def reward(state, out):
            out[0] = 1024.0 * (100.0 if state.place == 6 else 20.0 if state.place == 0 else -1.0)

    a, b = (
        rl.MCTS(game, simulations=2000, policy=policy(normalize=True), seed=1)(game.initial_state())
        for game in (Track(), Cents())
    )
    np.testing.assert_array_equal(a.visits, b.visits)
    np.testing.assert_allclose(b.values, 1024 * a.values, rtol=1e-6)


def test_rewards_of_several_players():
    class Shares(Track):
        num_players = 2

        @staticmethod
        def player(state):
            return state.time % 2

        @staticmethod
        def reward(state, out):
            out[0], out[1] = state.place, 10.0 - state.place

        @staticmethod
        def returns(state, out):
            out[0], out[1] = 1.0, 2.0

    state, totals = Shares().initial_state(), np.zeros(2)
    for t, action in enumerate([1, 0, 1, 1, 1, 0, 0, 1, 1, 1]):
        state = state.play(action)
        place = int(state.data["place"][0])
        totals += GAMMA**t * np.array([place, 10.0 - place])
    np.testing.assert_allclose(state.returns, totals + GAMMA**9 * np.array([1.0, 2.0]), rtol=1e-14)


def test_outcomes_are_drawn_by_their_probabilities():
    rolled = rl.games.Pig().initial_state().play(0)
    assert rolled.player == rl.CHANCE
    drawn = [rolled.play_chance(seed).moves[-1] for seed in range(1200)]
    counts = np.bincount(drawn, minlength=6)
    assert np.all(np.abs(counts - 200) < 5 * np.sqrt(1200 * 5 / 36))
    assert rolled.play_chance(3) == rolled.play_chance(3)
    still = rl.games.Pig().initial_state()
    assert still.play_chance(0) is still


def test_bad_input():
    class Taken(Track):
        state = [*Track.state, ("weight", np.float64)]

    class Growing(Track):
        discount = 1.5

    with pytest.raises(GameError, match="a state with rewards has a field 'weight' already"):
        Taken().initial_state()
    with pytest.raises(GameError, match=r"discount must be .* 1.5"):
        Growing().initial_state()
    with pytest.raises(EvaluatorError, match="give a depth"):
        rl.RandomRollout(value=value_ahead)
    with pytest.raises(SearchError, match="Track has rewards, for which evaluators are rollouts or compiled functions"):
        rl.MCTS(Track(), evaluator=lambda observations: (np.zeros((len(observations), 2)), np.zeros(len(observations))))
    game = rl.games.TicTacToe()
    with pytest.raises(SearchError, match="normalize is not for networks"):
        rl.MCTS(game, policy=rl.UCT(normalize=True), evaluator=lambda x: (np.zeros((len(x), 9)), np.zeros(len(x))))
