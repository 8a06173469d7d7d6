"""What users write is checked when it is first used, and what is compiled into something cannot be changed behind its
back.
"""

import numpy as np
import pytest
from numba.core.errors import NumbaError

from triskele import reinforce as rl
from triskele.core.kernels.njit import device, kernel
from triskele.reinforce import random as draws
from triskele.reinforce.rules.uncompilable import essence


class Matches(rl.Game):
    num_players, num_actions, max_length, observation_shape = 2, 2, 7, (1,)
    state = [("left", "i8"), ("player", "i8"), ("taken", "i8", 2)]

    @staticmethod
    def initial(state):
        state.left = 7

    @staticmethod
    def player(state):
        return state.player

    @staticmethod
    def legal_actions(state, mask):
        mask[0], mask[1] = True, state.left > 1

    @staticmethod
    def step(state, action):
        state.left -= action + 1
        state.taken[state.player] += 1
        state.player = 1 - state.player

    @staticmethod
    def terminal(state):
        return state.left == 0

    @staticmethod
    def returns(state, out):
        out[1 - state.player], out[state.player] = 1.0, -1.0

    @staticmethod
    def observe(state, player, out):
        out[0] = state.left


def changed(base, **changes):
    return type("Changed", (base,), {k: staticmethod(v) if callable(v) else v for k, v in changes.items()})


@device
def put(array, k, value):  # bounds are not checked in a user's helper
    array[k] = value


def test_errors_of_numba_are_told_in_one_line():
    @device
    def score(x):
        return x + undefined_word  # noqa: F821

    @kernel(cache=False)
    def search(x):
        return score(x)

    with pytest.raises(NumbaError) as told:
        search(1.0)
    line = essence(told.value)
    assert line.startswith("NameError: name 'undefined_word' is not defined") and "test_first_use.py" in line
    assert "\x1b" not in line and "\n" not in line and "Failed in" not in line


# -- games -------------------------------------------------------------------------------------------------------------
def beyond_the_mask(state, mask):
    mask[:] = True
    mask[2] = True


def beyond_the_record(state, action):
    put(state.taken, 2 + state.player, action)
    state.left -= action + 1


def misspelt(state, action):
    state.lefft -= action + 1


def forgets_one(state, out):
    out[0] = 1.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"legal_actions": beyond_the_mask}, "Changed: legal_actions raised IndexError"),
        ({"step": beyond_the_record}, "Changed: step of [01] writes outside of the state"),
        (
            {"step": misspelt},
            r"Changed: step cannot be compiled: the state has no field 'lefft' "
            r"\(did you mean 'left'\? known: left, player, taken\)",
        ),
        ({"returns": forgets_one}, r"Changed: returns must write every element of out, .* does not write \[1\]"),
        (
            {"state": [("used", np.bool_, 4), ("left", "i8")]},
            "Changed: a field of a state must be a number or an array of numbers, .* for 'used'",
        ),
        ({"num_actions": 0}, "Changed: num_actions must be an integer >= 1, got 0"),
    ],
)
@pytest.mark.parametrize("use", [lambda game: rl.MCTS(game), lambda game: game.initial_state()])
def test_games(changes, message, use):
    with pytest.raises(rl.GameError, match=message):
        use(changed(Matches, **changes)())


class Far(Matches):
    """Reads beyond an array after 70 moves, which no check at the first use reaches."""

    max_length, observation_shape = 80, (1,)
    state = [("n", "i8"), ("a", "i8", 8)]

    @staticmethod
    def initial(state):
        state.n = 0

    @staticmethod
    def player(state):
        return state.n % 2

    @staticmethod
    def legal_actions(state, mask):
        mask[:] = True

    @staticmethod
    def step(state, action):
        state.n += 1 + state.a[state.n // 9]

    @staticmethod
    def terminal(state):
        return state.n == 80

    @staticmethod
    def returns(state, out):
        out[0] = out[1] = 0.0

    @staticmethod
    def observe(state, player, out):
        out[0] = state.n


def test_indices_are_checked_in_every_move():
    with pytest.raises(IndexError, match="out of bounds"):
        Far().initial_state().play(*[0] * 73)


def gives_up(state, action):
    state.n += 1
    if state.n > 72:
        raise ValueError("too far")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, rl.EvaluatorError, r"Changed after \(.*or a rule of the game, raised an exception"),
        (
            {"policy": rl.PUCT(), "evaluator": lambda x: (np.zeros((len(x), 2)), np.zeros(len(x)))},
            rl.GameError,
            "MCTS: Changed: a rule raised ValueError: too far",
        ),
        (
            {"policy": rl.PUCT(), "evaluator": rl.Network(lambda p, x: (np.zeros((x.shape[0], 2)), x[:, 0]), ())},
            rl.GameError,
            "MCTS: Changed: a rule raised ValueError: too far",
        ),
    ],
    ids=["rollouts", "function", "network"],
)
def test_rules_that_raise_in_a_search(options, error, message):
    state = changed(Far, step=gives_up)().initial_state().play(*[0] * 71)
    with pytest.raises(error, match=message):
        rl.MCTS(state.game, 20, **options)(state)


# -- environments ------------------------------------------------------------------------------------------------------
class Walk(rl.Environment):
    state = [("place", "i8"), ("seen", "i8", 3)]
    observation_space, action_space = rl.Box(-100, 100, (1,)), rl.Discrete(2)
    max_steps = 20

    @staticmethod
    def reset(state, stream):
        state.place = 4
        state.seen[:] = 0

    @staticmethod
    def step(state, action, stream):
        state.place += 2 * action - 1
        return 1.0, False

    @staticmethod
    def observe(state, out):
        out[0] = state.place


def marks_beyond(state, action, stream):
    put(state.seen, 3 + action, 1)
    return 0.0, False


def marks(state, action, stream):
    state.seen[3] = 1
    return 0.0, False


def shows_too_much(state, out):
    out[0] = state.place
    out[1] = 0.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"step": marks_beyond}, "Changed: a rule writes outside of the state"),
        ({"step": marks}, "Changed: step must stay within its arrays"),
        ({"observe": shows_too_much}, "Changed: observe must stay within its arrays"),
        ({"observe": lambda state, out: None}, "Changed: observe must write the whole of `out`"),
    ],
)
def test_environments(changes, message):
    with pytest.raises(rl.EnvError, match=message):
        rl.make(changed(Walk, **changes))


def sometimes_raises(state, action, stream):
    if draws.uniform(stream) < 0.01:
        raise ValueError("motor burnt")
    return 1.0, False


@pytest.mark.parametrize(
    ("agent", "changes", "options"),
    [
        (rl.PPO, {}, {"num_envs": 2, "num_steps": 64, "minibatches": 2, "hidden": (8,)}),
        (rl.DQN, {}, {"learning_starts": 500, "batch_size": 32, "hidden": (8,)}),
        (rl.SAC, {"action_space": rl.Box(-1, 1, (1,))}, {"learning_starts": 100, "batch_size": 32, "hidden": (8,)}),
    ],
)
def test_a_rule_that_raises_ends_a_training_by_its_name(agent, changes, options):
    made = agent(changed(Walk, step=sometimes_raises, **changes), seed=0, **options)
    with pytest.raises(
        rl.EnvError,
        match=r"Changed: step raised ValueError: motor burnt, in environment \d at step "
        r"\d+ of its episode",
    ) as found:
        made.train(4000, progress=False)
    assert isinstance(found.value.__cause__, ValueError)
    with pytest.raises(rl.EnvError, match="a rule of the environment has raised, the training cannot continue"):
        made.train(4000, progress=False)


# -- evaluators --------------------------------------------------------------------------------------------------------
def writes_beyond(state, values):
    values[:] = 0.0
    values[2] = 1.0


def writes_beyond_in_a_helper(state, values):
    values[:] = 0.0
    put(values, 2, 1.0)


def one_value(state, values):
    values[0] = 0.5


def one_value_for_who_moves(state, values):
    values[state.player] = 0.5


def one_prior(state, values, priors):
    values[:] = 0.0
    priors[0] = 1.0


@pytest.mark.parametrize(
    ("evaluator", "message"),
    [
        (
            writes_beyond,
            r"Matches after \(\): evaluator writes_beyond must stay within its arrays, but raised index is out of",
        ),
        (
            writes_beyond_in_a_helper,
            "evaluator writes_beyond_in_a_helper writes outside of values, which has 2 elements",
        ),
        (one_value, r"values must be finite numbers, evaluator one_value left \[1\] unwritten"),
        (
            one_value_for_who_moves,
            r"values must be finite numbers, evaluator one_value_for_who_moves left \[[01]\] unwritten",
        ),
        (one_prior, r"priors must be finite numbers of at least 0, evaluator one_prior left \[1\] unwritten"),
    ],
)
def test_evaluators(evaluator, message):
    game = Matches()
    with pytest.raises(rl.EvaluatorError, match=message):
        rl.MCTS(game, 100, evaluator=evaluator)(game.initial_state())


def closed_over(scale):
    def evaluate(state, values):
        values[0], values[1] = scale, -scale

    return evaluate


def test_defaults_of_evaluators_are_captured_values():
    game = Matches()
    state = game.initial_state()
    for scale in (0.25, -0.5):
        batched = rl.MCTS(
            game, 20, policy=rl.PUCT(), evaluator=lambda x, scale=scale: (np.zeros((len(x), 2)), np.full(len(x), scale))
        )
        assert batched(state).tree.root.evaluation == pytest.approx(scale)

        def compiled(state, values, scale=scale):
            values[0], values[1] = scale, -scale

        for evaluator in (compiled, closed_over(scale)):
            found = rl.MCTS(game, 1, evaluator=evaluator)(state).tree.root
            assert [c.evaluation for c in found.children.values()] == [-scale]


# -- classes for objects, and what a tree cannot hold
# -------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda: rl.MCTS(Matches), rl.SearchError, r"game must be a Game, got the class Matches \(make one"),
        (lambda: rl.MCTS(Matches(), policy=rl.PUCT), rl.SearchError, "policy must be an object, got the class PUCT"),
        (
            lambda: rl.MCTS(Matches(), evaluator=rl.RandomRollout),
            rl.EvaluatorError,
            "evaluator must be an object, got the class RandomRollout",
        ),
        (
            lambda: rl.play_match(Matches, [rl.Random(), rl.Random()]),
            rl.GameError,
            "play_match: game must be an object, got the class Matches",
        ),
        (
            lambda: rl.play_match(Matches(), [rl.Random, rl.Random]),
            rl.GameError,
            r"a player must be a search, .* \(a class: call it\)",
        ),
        (
            lambda: rl.AlphaZero(Matches),
            rl.GameError,
            "must be a Game with compiled rules, got the class Matches .make",
        ),
        (lambda: rl.check_game(Matches), rl.GameError, "game must be a Game, got .*Matches.* .an object of it, not"),
        (
            lambda: rl.MCTS(changed(Matches, num_actions=40_000)()),
            rl.SearchError,
            "a search tree holds at most 32767 actions of a position, Changed has 40000",
        ),
        (
            lambda: rl.MCTS(changed(Matches, num_players=200)()),
            rl.SearchError,
            "a search tree holds at most 127 players of a position, Changed has 200",
        ),
        (
            lambda: rl.make(changed(Walk, action_space=rl.Discrete(2, start=1))),
            rl.EnvError,
            r"actions are numbered from 0, got Discrete\(2, start=1\)",
        ),
    ],
)
def test_classes_and_limits(use, error, message):
    with pytest.raises(error, match=message):
        use()


def test_as_many_actions_as_a_tree_holds():
    class Wide(Matches):
        num_actions = 32_767

        @staticmethod
        def legal_actions(state, mask):
            mask[:] = True

        @staticmethod
        def step(state, action):
            state.left, state.player = action * 0, action % 2

    game = Wide()
    result = rl.MCTS(game, 40_000, seed=0)(game.initial_state())
    assert result.visits.min() >= 1 and set(result.values[:4]) == {1.0, -1.0} and result.action % 2 == 1


class Rare(Matches):
    """The third player is not met by the check of 2 random games of up to 60 moves: he moves after one line of many."""

    num_actions, max_length = 40, 40

    @staticmethod
    def legal_actions(state, mask):
        mask[:] = True

    @staticmethod
    def step(state, action):
        state.left -= 1
        state.taken[0] = state.taken[0] * 2 + (action == 0)
        state.player = 1 - state.player

    @staticmethod
    def player(state):
        return 5 if state.taken[0] == 3 else state.player


@pytest.mark.parametrize("evaluator", [rl.RandomRollout(), lambda x: (np.zeros((len(x), 40)), np.zeros(len(x)))])
def test_players_who_do_not_exist_are_named_below_the_root(evaluator):
    game = Rare()
    with pytest.raises(rl.GameError, match=r"player must be 0 to 1, got another one \(5, after \(0, 0\)\)"):
        rl.MCTS(game, 20_000, evaluator=evaluator)(game.initial_state())


# -- large values ------------------------------------------------------------------------------------------------------
def bandit(offset, scale):
    class Bandit(rl.Game):
        num_players, num_actions, max_length, observation_shape = 1, 5, 1, (1,)
        state = [("taken", "i8")]

        def rules(self):
            values = offset + scale * np.array([0.0, 1.0, 0.5, 2.0, -1.0])

            def initial(state):
                state.taken = -1

            def player(state):
                return 0

            def legal_actions(state, mask):
                mask[:] = True

            def step(state, action):
                state.taken = action

            def terminal(state):
                return state.taken >= 0

            def returns(state, out):
                out[0] = values[state.taken]

            def observe(state, player, out):
                out[0] = state.taken

            from triskele.reinforce.game import Rules

            return Rules(initial, player, legal_actions, step, terminal, returns, observe)

    return Bandit()


def test_values_that_float32_cannot_tell_apart():
    large, steep = bandit(1e8, 1.0), bandit(1e8, 1e7)
    with pytest.raises(
        rl.SearchError,
        match=r"values of about 1e\+08 in Bandit differ by hardly more than their "
        r"float32 means are rounded by",
    ):
        rl.MCTS(large, 2000, policy=rl.UCT(c=1.0))(large.initial_state())
    assert (
        rl.MCTS(large, 2000, policy=lambda mean, visits, prior, n: mean if visits else 1e30)(
            large.initial_state()
        ).action
        == 3
    ), "float64"
    assert rl.MCTS(steep, 2000, policy=rl.UCT(c=1e6))(steep.initial_state()).action == 3
    assert rl.MCTS(large, 2000, policy=rl.UCT(c=1e6))(large.initial_state()).visits.min() > 300, (
        "all alike beside such exploration"
    )


# -- what is compiled in is not changed
# -----------------------------------------------------------------------------------------
def test_games_and_environments_are_not_changed_once_they_are_compiled():
    game = Matches()
    game.max_length = 9  # before
    state = game.initial_state()
    with pytest.raises(rl.GameError, match="Matches: max_length cannot be changed once the rules are compiled"):
        game.max_length = 7
    search = rl.MCTS(game, 10)
    for name in ("game", "policy", "evaluator", "backup", "solver", "threads"):
        with pytest.raises(rl.SearchError, match=f"{name} is compiled into the search and cannot be changed"):
            setattr(search, name, getattr(search, name))
    search.simulations = 25
    assert search(state).simulations == 25
    with pytest.raises(rl.SearchError, match="simulations must be an integer"):
        search.simulations = 0
    env = rl.make(Walk, 2, seed=0)
    with pytest.raises(rl.EnvError, match="Walk: max_steps cannot be changed once the rules are compiled"):
        env.environment.max_steps = 5
    env.max_episode_steps = 3
    env.reset()
    assert [env.step([1, 1])[3].all() for _ in range(3)] == [False, False, True] and env.max_episode_steps == 3
    with pytest.raises(AttributeError, match="settings: clip cannot be changed"):
        rl.PPO("CartPole-v1", num_envs=2, num_steps=16, minibatches=2, hidden=(4,)).settings.clip = 0.5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_networks_whose_arrays_are_changed_are_seen_as_they_are(dtype):
    game = Matches()
    transposed = {"w": np.zeros((3, 1), dtype).T, "b": np.zeros(3, dtype)}  # not in C order: a program reads a copy

    def apply(params, x):
        out = x @ params["w"] + params["b"]
        return out[:, :2], out[:, 2]

    search = rl.MCTS(game, 8, policy=rl.PUCT(), evaluator=rl.Network(apply, transposed))
    state = game.initial_state()
    assert search(state).tree.root.evaluation == 0.0
    transposed["w"][0, 2] = 0.5
    assert search(state).tree.root.evaluation == pytest.approx(3.5)
