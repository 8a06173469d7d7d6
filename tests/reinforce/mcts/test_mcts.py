"""Tree search: against a plain twin, known values, and input that cannot be right."""

import time

import numpy as np
import pytest

from tests.twins import mcts as twin
from triskele import reinforce as rl
from triskele.core.kernels import threads
from triskele.reinforce.mcts import memory as memory_module


class ThreeWay(rl.Game):
    """Three players and chance in turn; what one gets is no other's loss. Action 2 only while the total is even."""

    num_players, num_actions, num_outcomes, max_length, observation_shape = 3, 3, 3, 8, (2,)
    state = [("total", "i8"), ("turn", "i8")]

    @staticmethod
    def initial(state):
        state.total, state.turn = 0, 0

    @staticmethod
    def player(state):
        return -1 if state.turn % 4 == 3 else state.turn % 4

    @staticmethod
    def legal_actions(state, mask):
        mask[:] = True
        mask[2] = state.total % 2 == 0

    @staticmethod
    def chance(state, probabilities):
        probabilities[0], probabilities[1], probabilities[2] = 0.5, 0.25, 0.25

    @staticmethod
    def step(state, action):
        state.total += (action + 1) * (state.turn + 1)
        state.turn += 1

    @staticmethod
    def terminal(state):
        return state.turn == 8 or state.total > 50

    @staticmethod
    def returns(state, out):
        for p in range(3):
            out[p] = ((state.total * (7 + 4 * p)) % 23) / 23.0

    @staticmethod
    def observe(state, player, out):
        out[0], out[1] = state.total, state.turn


def guess(state, values):
    for p in range(3):
        values[p] = ((state.total * (5 + p) + 3 * state.turn) % 17) / 17.0


def guess_with_priors(state, values, priors):
    for p in range(3):
        values[p] = ((state.total * (5 + p) + 3 * state.turn) % 17) / 17.0
    for a in range(3):
        priors[a] = 1.0 + (state.total + a) % 3


GAME = ThreeWay()
SEARCH = rl.MCTS(GAME, simulations=300, seed=5)


def same(root, result):
    """Return True if a twin's tree equals the search's, node by node."""
    waiting = [(root, result.tree.root)]
    while waiting:
        old, new = waiting.pop()
        assert (old.visits, old.state.terminal) == (new.visits, new.terminal)
        assert np.isclose(old.total / max(old.visits, 1), new.value if new.visits else 0.0, atol=1e-9)
        children = {e[0]: e[2] for e in old.edges if e[2] is not None}
        assert sorted(children) == sorted(new.children)
        for action, prior, _ in old.edges:
            assert new.priors[action] == pytest.approx(prior, abs=1e-6)
        waiting += [(children[a], new.children[a]) for a in children]
    return True


class TestAgainstTheTwin:
    def test_uct_with_random_games_three_players_and_chance(self):
        for first in ((), (1,), (1, 0, 2, 1)):
            state = GAME.initial_state().play(*first)
            root = twin.search(state, 300, twin.uct(2**0.5), twin.random_rollout, twin.stream_of(state, 5))
            assert same(root, SEARCH(state))

    @pytest.mark.parametrize("fpu", [0.0, 0.4])
    def test_puct_with_priors(self, fpu):
        def evaluate(state, stream):
            values, priors = np.zeros(3), np.zeros(3)
            guess_with_priors(state.data.view(np.recarray)[0], values, priors)
            return values, priors

        search = rl.MCTS(GAME, simulations=200, policy=rl.PUCT(c=2.0, fpu=fpu), evaluator=guess_with_priors)
        root = twin.search(
            GAME.initial_state(),
            200,
            twin.puct(2.0, 19652.0, fpu),
            evaluate,
            twin.stream_of(GAME.initial_state(), 0),
            in_random_order=False,
        )
        assert same(root, search(GAME.initial_state()))

    def test_functions_of_the_user(self):
        def score(mean, visits, prior, parent_visits):
            return 10.0 if visits == 0 else mean + 0.7 * np.sqrt(parent_visits) / visits

        def leaning_to_the_best(mean, visits, value):
            return value if visits == 1 else mean + (value - mean) / (visits if value < mean else 2.0)

        def evaluate(state, stream):
            values = np.zeros(3)
            guess(state.data.view(np.recarray)[0], values)
            return values, None

        search = rl.MCTS(GAME, simulations=200, policy=score, evaluator=guess, backup=leaning_to_the_best)
        root = twin.search(
            GAME.initial_state(),
            200,
            lambda parent, child, prior: score(
                child.mean() if child else 0.0, child.visits if child else 0, prior, parent.visits
            ),
            evaluate,
            twin.stream_of(GAME.initial_state(), 0),
            backup=leaning_to_the_best,
        )
        assert same(root, search(GAME.initial_state()))

    def test_mean_of_several_rollouts(self):
        search = rl.MCTS(GAME, simulations=200, evaluator=rl.RandomRollout(n=8))
        one, eight = SEARCH(GAME.initial_state()), search(GAME.initial_state())
        assert np.allclose(one.values, eight.values, atol=0.15)
        leaves = [n.evaluation for n in eight.tree.root.walk() if n.visits == 1 and not n.terminal]
        assert len({round(v * 23 * 8) for v in leaves}) > 15  # sums of eight returns, which are multiples of 1 / 23
        assert np.allclose(np.array(leaves) * 23 * 8, np.round(np.array(leaves) * 23 * 8), atol=1e-4)


class TestReproducible:
    def test_same_search_in_any_batch_on_any_number_of_threads(self):
        states = [GAME.initial_state().play(a) for a in (0, 1, 2, 0, 1)]
        before = threads.get_threads()
        try:
            threads.set_threads(1)
            one = SEARCH(states)
            threads.set_threads(2)
            two = SEARCH(states)
        finally:
            threads.set_threads(before)
        few = SEARCH(states[:2])
        assert np.array_equal(one.visits, two.visits) and np.array_equal(one.values, two.values, equal_nan=True)
        assert np.array_equal(one.visits[:2], few.visits) and np.array_equal(SEARCH(states[0]).visits, few.visits[0])
        assert not np.array_equal(one.visits[0], one.visits[3])  # the same position, but another number of the seed
        assert not np.array_equal(SEARCH(states[0], seed=6).visits, few.visits[0])

    def test_room_made_on_the_way_changes_nothing(self, monkeypatch):
        expected = SEARCH(GAME.initial_state())
        monkeypatch.setattr(memory_module, "_FIRST_NODES", 4)
        found = SEARCH(GAME.initial_state())
        assert np.array_equal(found.visits, expected.visits) and found.root_value == expected.root_value

    def test_records_are_searched_as_states_are(self):
        states = [GAME.initial_state().play(a) for a in (0, 1)]
        assert np.array_equal(SEARCH(np.concatenate([s.data for s in states])).visits, SEARCH(states).visits)


class TestResult:
    def test_of_one_position(self):
        result = SEARCH(GAME.initial_state())
        assert result.visits.sum() == result.simulations == 300
        assert result.action == result.line[0] and result.visits[result.action] == result.visits.max()
        assert np.allclose(result.policy, result.visits / 300)
        assert result.root_value == pytest.approx((result.visits * result.values).sum() / 300)
        node = result.tree.root
        for action in result.line:
            assert node.children[action].visits == max(c.visits for c in node.children.values())
            node = node.children[action]
        assert node.moves == tuple(result.line) and node.state.moves == node.moves
        assert sum(1 for _ in result.tree.root.walk()) == len(result.tree)

    def test_trees_of_several_threads_are_added_up(self):
        result = rl.MCTS(GAME, simulations=301, threads=3, seed=5)(GAME.initial_state())
        assert result.visits.sum() == result.simulations == 301
        assert result.tree.root.visits == 101

    def test_temperature(self):
        states = [GAME.initial_state()] * 400
        warm, cold = (
            rl.MCTS(GAME, simulations=50, temperature=1.0, seed=1)(states),
            rl.MCTS(GAME, simulations=50, temperature=1e-3, seed=1)(states),
        )
        share = np.bincount(warm.action, minlength=3) / 400
        assert np.allclose(share, warm.policy.mean(axis=0), atol=0.08)
        assert all(cold.visits[np.arange(400), cold.action] == cold.visits.max(axis=1))

    def test_dirichlet_noise_is_in_the_priors_of_the_root_alone(self):
        plain, noisy = (
            rl.MCTS(GAME, simulations=50, policy=rl.PUCT(dirichlet=d), evaluator=guess_with_priors)
            for d in (None, (0.3, 0.25))
        )
        states = [GAME.initial_state()] * 500
        clean, result = plain(states), noisy(states)
        assert np.allclose(result.priors.sum(axis=1), 1, atol=1e-5)
        noise = (result.priors - 0.75 * clean.priors) / 0.25
        assert (noise > -1e-5).all() and np.allclose(noise.mean(axis=0), 1 / 3, atol=0.06)
        # of Dirichlet(0.3)
        assert noise.var(axis=0).mean() == pytest.approx((1 / 3) * (2 / 3) / (3 * 0.3 + 1), rel=0.2)
        below, root = result.tree[0].root.children[0], clean.tree[0].root.children[0]
        assert below.priors == root.priors


class TestReuse:
    def test_the_tree_below_an_action_is_kept(self):
        search = rl.MCTS(GAME, simulations=300, seed=5)
        first = search(GAME.initial_state())
        kept = first.tree.root.children[first.action]
        search.advance(first.action)
        state = GAME.initial_state().play(first.action)
        second = search(state)
        assert second.tree.root.visits == kept.visits + 300 and second.simulations == 300
        again = second.tree.root
        for old in kept.walk():  # every node is there, with at least the visits that it had
            node = again
            for action in old.moves[1:]:
                node = node.children[action]
            assert node.visits >= old.visits and node.terminal == old.terminal
            assert old.state == node.state
        assert second.root_value == pytest.approx(
            np.nansum(second.visits * second.values) / second.visits.sum(), abs=0.02
        )

    def test_another_position_starts_from_scratch(self):
        search = rl.MCTS(GAME, simulations=300, seed=5)
        search(GAME.initial_state())
        search.advance(1)
        other = GAME.initial_state().play(0)
        assert np.array_equal(search(other).visits, SEARCH(other).visits)

    def test_batches_and_chance(self):
        search = rl.MCTS(GAME, simulations=100)
        states = [GAME.initial_state().play(0, 0), GAME.initial_state().play(1, 1)]
        result = search(states)
        search.advance(result.action)
        search.advance([0, 2])  # outcomes of chance
        after = [s.play(int(a), o) for s, a, o in zip(states, result.action, (0, 2), strict=True)]
        again = search(after)
        for old, new, o in zip(result.trees, again.trees, (0, 2), strict=True):
            chance = old.root.children[old.line()[0]]
            assert new.root.visits == 100 + (chance.children[o].visits if o in chance.children else 0)

    def test_what_cannot_be_kept(self):
        search = rl.MCTS(GAME, simulations=10)
        with pytest.raises(rl.SearchError, match="no search"):
            search.advance(0)
        search(GAME.initial_state())
        with pytest.raises(rl.SearchError, match="1 integers"):
            search.advance([0, 1])
        with pytest.raises(rl.SearchError, match="-1 is not in position of"):
            search.advance(-1)

    def test_what_was_never_visited_is_begun_anew_however_often_one_goes_on(self):
        game = rl.games.ConnectFour()
        search = rl.MCTS(game, simulations=3)
        search(game.initial_state())
        for _ in range(3):
            search.advance(6)  # with three simulations the first is visited at most once
        state = game.initial_state().play(6, 6, 6)
        assert search(state).simulations == 3
        search(game.initial_state().play(*[0] * 6))
        with pytest.raises(rl.SearchError, match="0 is not in position of ConnectFour"):
            search.advance(0)  # the column is full


class TestBudgets:
    def test_seconds(self):
        search = rl.MCTS(GAME, seconds=0.05)
        search(GAME.initial_state())
        start = time.perf_counter()
        result = search(GAME.initial_state())
        assert result.simulations > 100 and time.perf_counter() - start < 2.0

    def test_memory(self):
        search = rl.MCTS(rl.games.TicTacToe(), memory=200_000)
        result = search(rl.games.TicTacToe().initial_state())
        arrays, states = search._last.tree, search._last.states
        assert 500 < result.simulations < 10_000
        assert (
            sum(a.nbytes for name, a in zip(arrays._fields, arrays, strict=True) if name != "packed") + states.nbytes
            < 201_000
        )

    def test_nodes_take_at_most_64_bytes_and_12_an_action(self):
        game = rl.games.TicTacToe()
        search = rl.MCTS(game, simulations=2000)
        search(game.initial_state())
        arrays = search._last.tree
        size = sum(a.nbytes for name, a in zip(arrays._fields, arrays, strict=True) if name != "packed")
        assert size <= len(search(game.initial_state()).tree) * (64 + 12 * game.num_actions)


class TestBadInput:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (dict(simulations=0), "simulations must be an integer from 1 to .*, got 0"),
            (dict(simulations=2.5), "got 2.5"),
            (dict(seconds=-1), "seconds"),
            (dict(threads=0), "threads"),
            (dict(temperature=float("nan")), "temperature"),
            (dict(solver=True), "one or two players"),
            (dict(policy="uct"), r"policy must be .* or a function, got 'uct'$"),
            (dict(policy=lambda mean: mean), "parent_visits"),
            (dict(backup=lambda mean: mean), "backup is a function"),
            (dict(memory=100), "memory must be at least"),
        ],
    )
    def test_options(self, options, message):
        with pytest.raises(rl.SearchError, match=message):
            rl.MCTS(GAME, **options)(GAME.initial_state())

    @pytest.mark.parametrize(
        "make",
        [
            lambda: rl.UCT(c=-1),
            lambda: rl.PUCT(fpu="mean"),
            lambda: rl.PUCT(dirichlet=0.3),
            lambda: rl.PUCT(dirichlet=(0.3, 2)),
        ],
    )
    def test_policies(self, make):
        with pytest.raises(rl.SearchError):
            make()

    @pytest.mark.parametrize("evaluator", ["rollout", lambda a, b, c, d: None])
    def test_evaluators(self, evaluator):
        with pytest.raises(rl.EvaluatorError, match="evaluator"):
            rl.MCTS(GAME, evaluator=evaluator)
        with pytest.raises(rl.EvaluatorError, match="n must be"):
            rl.RandomRollout(n=0)

    def test_roots(self):
        over = GAME.initial_state().play(2, 1, 1, 2, 1, 0, 0, 0)
        for state, message in (
            (over, r"after \(2, 1, 1, 2, 1, 0, 0, 0\): the game is over"),
            (GAME.initial_state().play(0, 0, 0), "chance is to move"),
            ([GAME.initial_state(), over], r"position 1\): the game is over"),
            ([], "at least one"),
        ):
            with pytest.raises(rl.SearchError, match=message):
                SEARCH(state)
        with pytest.raises(rl.GameError, match="must be positions of ThreeWay"):
            SEARCH(rl.games.TicTacToe().initial_state())

    def test_a_backup_that_gives_no_number(self):
        def backup(mean, visits, value):
            return np.nan if visits == 3 else mean + (value - mean) / visits

        with pytest.raises(rl.SearchError, match=r"node \d+: backup backup must give finite numbers"):
            rl.MCTS(GAME, simulations=100, backup=backup)(GAME.initial_state())

    def test_an_evaluator_that_fails_names_game_moves_and_node(self):
        def not_a_number(state, values):
            values[:] = np.nan if state.turn == 3 else 0.5

        def negative_priors(state, values, priors):
            values[:] = 0.0
            priors[:] = -1.0

        def raises(state, values):
            if state.turn == 2:
                raise ValueError("two is too many")
            values[:] = 0.0

        # turn 3 is chance, where no evaluator is asked: the first game that it spoils is one that begins there
        for evaluator, message in (
            (negative_priors, r"ThreeWay after \(\), node 0: priors must be .* negative_priors"),
            (
                raises,
                r"ThreeWay after \(\d, \d\), node \d+: evaluator raises.* raised an exception: ValueError\('two "
                r"is too many'\)",
            ),
        ):
            with pytest.raises(rl.EvaluatorError, match=message):
                rl.MCTS(GAME, evaluator=evaluator)(GAME.initial_state())
        assert rl.MCTS(GAME, evaluator=not_a_number)(GAME.initial_state()).simulations == 1000

        def infinite(state, values):
            values[:] = np.inf if state.turn == 4 else 0.5

        with pytest.raises(
            rl.EvaluatorError, match=r"ThreeWay after \(\d, \d, \d, \d\), node \d+: values must be finite"
        ):
            rl.MCTS(GAME, evaluator=infinite)(GAME.initial_state())

    @pytest.mark.slow
    def test_functions_that_cannot_be_compiled_are_named(self):
        def misspelt(state, values):
            values[:] = state.tottal

        def text(mean, visits, prior, parent_visits):
            return "high"

        for options, name in ((dict(evaluator=misspelt), "misspelt"), (dict(policy=text), "text")):
            with pytest.raises(rl.SearchError, match=f"search of ThreeWay with .*{name}.* cannot be compiled"):
                rl.MCTS(GAME, **options)(GAME.initial_state())

    def test_what_is_no_position(self):
        with pytest.raises(rl.SearchError, match="states must be a State"):
            SEARCH(3)
        with pytest.raises(rl.SearchError, match="seed must be an integer"):
            rl.MCTS(GAME, seed=2**70)

    def test_games_that_break_their_word(self):
        class Stuck(ThreeWay):
            @staticmethod
            def legal_actions(state, mask):
                mask[:] = state.turn < 2

        class Endless(ThreeWay):
            @staticmethod
            def terminal(state):
                return False

        with pytest.raises(
            rl.GameError, match=r"Stuck: legal_actions allows nothing, though the game is not over, after \(\d, \d\)"
        ):
            rl.MCTS(Stuck())
        with pytest.raises(rl.GameError, match="Endless: terminal must be True after at most max_length = 8 moves"):
            rl.MCTS(Endless())

    def test_games_that_seldom_break_their_word(self):
        """The check of a few random games does not meet what they do after two zeros of forty actions."""

        class Stuck(rl.Game):
            num_players, num_actions, max_length, observation_shape = 2, 40, 4, (1,)
            state = [("moves", "i8"), ("zeros", "i8")]

            @staticmethod
            def initial(state):
                state.moves = 0

            @staticmethod
            def player(state):
                return state.moves % 2

            @staticmethod
            def legal_actions(state, mask):
                mask[:] = state.zeros < 2

            @staticmethod
            def step(state, action):
                state.moves += 1
                state.zeros += action == 0

            @staticmethod
            def terminal(state):
                return state.moves == 4

            @staticmethod
            def returns(state, out):
                out[:] = 0.0

            @staticmethod
            def observe(state, player, out):
                out[0] = state.moves

        class Endless(Stuck):
            @staticmethod
            def legal_actions(state, mask):
                mask[:] = True

            @staticmethod
            def terminal(state):
                return state.moves >= 4 and state.zeros < 2

        with pytest.raises(rl.GameError, match=r"Stuck after \(.*\), node \d+: .*no action is legal"):
            rl.MCTS(Stuck(), 20_000)(Stuck().initial_state())
        with pytest.raises(rl.GameError, match="more than max_length = 4 moves"):
            rl.MCTS(Endless(), 20_000)(Endless().initial_state())
