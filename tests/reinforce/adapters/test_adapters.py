"""Games of other libraries: rules and searches agree with ours, or with what is known of them."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from triskele import reinforce as rl

os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # PettingZoo's classic games import pygame


@pytest.fixture(scope="module")
def theirs():
    pytest.importorskip("pyspiel")
    return rl.from_openspiel("tic_tac_toe")


def test_positions_that_are_made_again_and_dropped_stay_known(theirs):
    state = theirs.initial_state().play(0, 3, 1, 4)
    for _ in range(3):
        theirs.initial_state().play(0, 3, 1, 4)
    tree = rl.MCTS(theirs, 5)(state).tree  # outlives its search, and the positions that it kept
    assert [node.state.moves for node in tree.root.walk()] == [node.moves for node in tree.root.walk()]


def minimax(state):
    if state.terminal:
        return state.returns[0]
    return (max if state.player == 0 else min)(minimax(state.play(a)) for a in state.legal_actions)


# ---------------------------------------------------------------------------------------------------------- OpenSpiel


def test_openspiel_plays_as_we_do(theirs):
    state, ours = theirs.initial_state(), rl.games.TicTacToe().initial_state()
    for action in (4, 0, 8, 2, 1, 7):
        assert (state.player, state.legal_actions, state.terminal) == (ours.player, ours.legal_actions, False)
        np.testing.assert_array_equal(state.legal_mask, ours.legal_mask)
        before, state, ours = state, state.play(action), ours.play(action)
        assert (
            before.legal_actions != state.legal_actions and state.moves == ours.moves and state == before.play(action)
        )
    assert minimax(state) == minimax(ours) == 0.0
    over = state.play(3, 5, 6)
    assert (
        over.terminal and over.returns.tolist() == [0.0, 0.0] and over.legal_actions == [] and not over.legal_mask.any()
    )


def test_searches_of_openspiel_find_the_minimax_action(theirs):
    """x wins by 2, as o would by 5; one move later o has to block."""
    state = theirs.initial_state().play(0, 3, 1, 4)
    assert rl.MCTS(theirs, 300, seed=1)(state).action == 2
    assert (
        rl.MCTS(theirs, 300, policy=rl.PUCT(dirichlet=(0.3, 0.1)), seed=1)(theirs.initial_state().play(0, 3, 1)).action
        == 2
    )
    proven = rl.MCTS(theirs, 300, solver=True)(state)
    best = theirs.game.new_initial_state().action_to_string(0, 2)
    assert f"{best}: " in proven.tree.draw() and f">{best}</td>" in proven._repr_html_()
    assert proven.proven and proven.root_value == minimax(state) == 1.0


def test_games_in_which_chance_decides_more_often_than_openspiel_says():
    pytest.importorskip("pyspiel")
    game = rl.from_openspiel("laser_tag(horizon=20)")  # of 64 moves, where at most 40 + 20 were announced
    state = game.initial_state()
    while state.player == -1:
        state = state.play(state.legal_actions[0])
    assert rl.MCTS(game, 5, seed=0)(state).simulations == 5


def test_one_search_called_from_several_threads(theirs):
    search, start = rl.MCTS(theirs, 40, seed=5), theirs.initial_state()
    states = [start.play(*moves) for moves in ((), (0,), (4,), (0, 3))] * 5
    alone = [search(state).visits.tolist() for state in states]
    with ThreadPoolExecutor(4) as threads:
        assert [found.visits.tolist() for found in threads.map(search, states)] == alone


def test_the_value_of_tic_tac_toe_is_near_that_of_our_search(theirs):
    """Rollouts are not the same, means of 2,000 are close; the center is visited most by both."""
    ours = rl.games.TicTacToe()
    a, b = (rl.MCTS(g, 2000, seed=3)(g.initial_state()) for g in (theirs, ours))
    assert a.action == b.action == 4
    assert a.root_value == pytest.approx(b.root_value, abs=0.1)


def test_the_same_seed_gives_the_same_search_beside_others(theirs):
    start = theirs.initial_state()
    search = rl.MCTS(theirs, 100, seed=5)
    alone, batch = search(start.play(4)), search([start.play(4), start.play(0)])
    np.testing.assert_array_equal(alone.visits, batch.visits[0])
    assert search(start.play(4), seed=6).visits.tolist() != alone.visits.tolist()


def test_trees_grow_and_are_kept(theirs):
    """`advance` keeps what lies below the move."""
    search = rl.MCTS(theirs, 400, seed=0)
    result = search(theirs.initial_state())
    assert result.visits.sum() == 400 and result.tree.root.children[4].state.moves == (4,)
    search.advance(result.action)
    after = search(theirs.initial_state().play(result.action))
    assert after.visits.sum() > 400 + 30
    assert str(after.tree.root.state) == str(theirs.initial_state().play(result.action))


def test_full_memory_ends_a_search_and_leaves_it_whole(theirs):
    start = theirs.initial_state()
    result = rl.MCTS(theirs, 2000, memory=30_000, seed=0)(start)
    assert 50 < result.simulations < 2000 and result.visits.sum() == result.simulations
    same = rl.MCTS(theirs, result.simulations, seed=0)(start)
    np.testing.assert_array_equal(same.visits, result.visits)


def test_evaluators_in_python(theirs):
    """A function of states, a function of batches, and a network: all are told the position, and steer the search by
    priors.
    """
    start = theirs.initial_state()

    def corner(state, values, priors):
        assert state.legal_mask.any() and not state.terminal
        values[0] = values[1] = 0.0
        priors[:] = 0.0
        priors[8] = 1.0

    def batch(observations):
        assert observations.shape == (1, 3, 3, 3)
        return np.where(np.arange(9) == 8, 5.0, 0.0)[None], np.zeros(1)

    def network(params, observations):
        return observations.reshape(-1, 27) @ params, 0.0 * observations.reshape(-1, 27)[:, 0]

    weights = np.zeros((27, 9), np.float32)
    weights[:9, 8] = 1.0  # the first plane marks the nine empty cells of the start
    for evaluator in (corner, batch, rl.Network(network, weights)):
        result = rl.MCTS(theirs, 40, policy=rl.PUCT(), evaluator=evaluator)(start)
        assert result.action == 8 and result.priors[8] > 0.9


@pytest.mark.peer
def test_chance_of_openspiel():
    pytest.importorskip("pyspiel")
    theirs, ours = rl.from_openspiel("pig", winscore=10), rl.games.Pig(goal=10)
    state, same = theirs.initial_state(), ours.initial_state()
    for action in (0, 3, 0, 0, 0, 5):
        np.testing.assert_allclose(state.chance, same.chance)
        assert state.player == same.player and state.legal_actions == same.legal_actions
        state, same = state.play(action), same.play(action)
    a, b = (rl.MCTS(s.game, 1500, policy=rl.UCT(c=1.0), seed=0)(s) for s in (state, same))
    assert a.root_value == pytest.approx(b.root_value, abs=0.1)


@pytest.mark.peer
def test_simultaneous_moves_come_one_after_the_other():
    pytest.importorskip("pyspiel")
    game = rl.from_openspiel("matrix_rps")
    over = game.initial_state().play(0, 1)
    assert over.returns.tolist() == [-1.0, 1.0]


@pytest.mark.peer
def test_games_that_cannot_be_adapted():
    pyspiel = pytest.importorskip("pyspiel")
    with pytest.raises(rl.GameError, match="from_openspiel: OpenSpiel cannot load 'no_such_game'"):
        rl.from_openspiel("no_such_game")
    with pytest.raises(rl.GameError, match="game must be a name"):
        rl.from_openspiel(3)
    with pytest.raises(rl.GameError, match="mean-field|MEAN_FIELD"):
        rl.from_openspiel(pyspiel.load_game("mfg_crowd_modelling"))


# --------------------------------------------------------------------------------------------------------- PettingZoo


@pytest.fixture(scope="module")
def zoo():
    pytest.importorskip("pygame")
    classic = pytest.importorskip("pettingzoo.classic.connect_four_v3")
    return rl.from_pettingzoo(classic.env)


def test_connect_four_of_pettingzoo_plays_as_ours(zoo):
    state, ours = zoo.initial_state(), rl.games.ConnectFour().initial_state()
    rng = np.random.default_rng(0)
    while not ours.terminal:
        assert (state.player, state.legal_actions, state.terminal) == (ours.player, ours.legal_actions, False)
        np.testing.assert_array_equal(np.moveaxis(state.observation(), 2, 0), ours.observation())
        action = int(rng.choice(ours.legal_actions))
        state, ours = state.play(action), ours.play(action)
    assert state.terminal and state.returns.tolist() == ours.returns.tolist()


def test_a_search_of_pettingzoo_wins(zoo):
    assert rl.MCTS(zoo, 60, seed=0)(zoo.initial_state().play(3, 0, 3, 0, 3, 1)).action == 3


@pytest.mark.peer
def test_observations_that_are_no_arrays_become_vectors(zoo):
    rps = pytest.importorskip("pettingzoo.classic.rps_v2")
    game = rl.from_pettingzoo(rps.env)  # draws with pygame, whose pictures cannot be copied
    # of rock, paper, scissors, nothing
    assert game.initial_state().play(0, 1).observation().tolist() == [0.0, 1.0, 0.0, 0.0]


@pytest.mark.peer
def test_what_is_no_aec_environment():
    pytest.importorskip("pettingzoo")
    with pytest.raises(rl.GameError, match="from_pettingzoo: what env_fn makes must be an AECEnv, got object"):
        rl.from_pettingzoo(object)


# ---------------------------------------------------------------------------------------------------------- Gymnasium


def lake(**kwargs):
    gymnasium = pytest.importorskip("gymnasium")
    return rl.from_gymnasium(
        lambda: gymnasium.make("FrozenLake-v1", map_name="4x4", is_slippery=kwargs.get("samples", 1) > 1), **kwargs
    )


def test_a_search_crosses_the_frozen_lake():
    game = lake(samples=1)
    state, search = game.initial_state(), rl.MCTS(game, 300, policy=rl.UCT(c=1.0), seed=0)
    state = state.play(1, 1)
    while not state.terminal and len(state.moves) < 10:
        state = state.play(search(state).action)
    assert state.returns.tolist() == [1.0] and len(state.moves) == 6


def test_slippery_ice_has_three_outcomes():
    """Each of three directions has a third: their shares among 600 samples are 200 within 5 standard deviations."""
    state = lake(samples=600).initial_state().play(1)
    assert state.player == rl.CHANCE and state.chance.tolist() == [1 / 600] * 600
    places = [int(np.argmax(state.play(k).observation())) for k in range(600)]
    counts = np.bincount(places, minlength=16)
    assert set(np.flatnonzero(counts)) == {0, 1, 4} and (abs(counts[[0, 1, 4]] - 200) < 5 * (600 * 2 / 9) ** 0.5).all()
    assert places == [int(np.argmax(state.play(k).observation())) for k in range(600)]


def test_masks_of_gymnasium():
    gymnasium = pytest.importorskip("gymnasium")
    if "Taxi-v4" not in gymnasium.registry:
        pytest.skip("another Gymnasium has another version of it")
    state = rl.from_gymnasium("Taxi-v4", samples=1).initial_state(seed=1)
    assert 4 not in state.legal_actions and 5 not in state.legal_actions  # nobody to pick up here, nobody to drop
    assert state.observation().shape == (500,) and state.observation().sum() == 1


def test_random_steps_need_samples():
    gymnasium = pytest.importorskip("gymnasium")
    game = rl.from_gymnasium(lambda: gymnasium.make("FrozenLake-v1"))
    with pytest.raises(rl.GameError, match="FrozenLake-v1: a step draws random numbers .give samples"):
        game.initial_state().play(0)
    with pytest.raises(
        rl.GameError,
        match=r"MCTS: FrozenLake-v1 after .*: a step draws random numbers|FrozenLake-v1: "
        r"a step draws random numbers",
    ):
        rl.MCTS(game, 5)(game.initial_state())


def test_a_search_balances_the_pole():
    pytest.importorskip("gymnasium")
    game = rl.from_gymnasium("CartPole-v1", horizon=30)
    state, search = game.initial_state(seed=2), rl.MCTS(game, 30, policy=rl.UCT(c=10.0), seed=0)
    while not state.terminal:
        state = state.play(search(state).action)
    assert state.returns.tolist() == [30.0]  # random play falls after 22 steps on average
    same = game.initial_state(seed=2).play(*state.moves)
    np.testing.assert_array_equal(same.observation(), state.observation())


def test_environments_that_cannot_be_games():
    gymnasium = pytest.importorskip("gymnasium")
    with pytest.raises(rl.GameError, match="from_gymnasium: actions of Pendulum-v1 must be discrete, got Box"):
        rl.from_gymnasium("Pendulum-v1")
    with pytest.raises(rl.GameError, match="CartPoleEnv has no time limit .give a horizon"):
        rl.from_gymnasium(lambda: gymnasium.make("CartPole-v1").unwrapped.__class__())
    with pytest.raises(rl.GameError, match="horizon must be an integer >= 1, got 0"):
        rl.from_gymnasium("CartPole-v1", horizon=0)


def test_copies_of_environments_that_pickle_by_their_arguments():
    """`copy.deepcopy` would restart such an environment."""
    gymnasium = pytest.importorskip("gymnasium")

    class Counter(gymnasium.Env, gymnasium.utils.EzPickle):
        observation_space, action_space = gymnasium.spaces.Box(0, 99, (1,)), gymnasium.spaces.Discrete(2)

        def __init__(self):
            gymnasium.utils.EzPickle.__init__(self)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.count = 0
            return np.zeros(1, np.float32), {}

        def step(self, action):
            self.count += action
            return np.float32([self.count]), float(self.count), False, False, {}

    state = rl.from_gymnasium(Counter, horizon=4).initial_state()
    assert state.play(1, 1, 1, 0).returns.tolist() == [1 + 2 + 3 + 3] and state.play(0).observation().tolist() == [0]


# ------------------------------------------------------------------------------------------------------------- errors


def test_errors_name_the_game_and_its_moves(theirs):
    def broken(state, values):
        raise ZeroDivisionError("no value here")

    with pytest.raises(
        rl.EvaluatorError,
        match=r"MCTS: tic_tac_toe after \(4, \d\): the game, or evaluator broken, "
        r"raised ZeroDivisionError: no value here",
    ):
        rl.MCTS(theirs, 5, evaluator=broken)(theirs.initial_state().play(4))

    def nothing(state, values):
        values[0] = np.nan

    with pytest.raises(rl.EvaluatorError, match=r"MCTS: tic_tac_toe after \(\d,\), node 1: values must be finite"):
        rl.MCTS(theirs, 5, evaluator=nothing)(theirs.initial_state())


@pytest.mark.parametrize("arguments", [{"parallel_leaves": 4}, {"policy": rl.Gumbel()}])
def test_what_needs_compiled_rules(theirs, arguments):
    with pytest.raises(rl.SearchError, match="is for games with compiled rules, tic_tac_toe is played by Python"):
        rl.MCTS(theirs, 5, evaluator=lambda observations: (np.zeros((1, 9)), np.zeros(1)), **arguments)


def test_terminal_roots_and_illegal_moves(theirs):
    over = theirs.initial_state().play(0, 3, 1, 4, 2)
    with pytest.raises(rl.SearchError, match=r"MCTS: tic_tac_toe after \(0, 3, 1, 4, 2\): the game is over"):
        rl.MCTS(theirs, 5)(over)
    with pytest.raises(rl.IllegalActionError, match=r"tic_tac_toe: action 0 is not legal after \(0,\) \(legal: \[1, 2"):
        theirs.initial_state().play(0, 0)
    with pytest.raises(rl.GameError, match="MCTS: states must be positions of tic_tac_toe"):
        rl.MCTS(theirs, 5)(rl.games.TicTacToe().initial_state())


def test_seeds_make_first_positions():
    """Of CartPole; the same seed is the same position, and no other."""
    pytest.importorskip("gymnasium")
    game = rl.from_gymnasium("CartPole-v1")
    assert game.initial_state(3) == game.initial_state(3) != game.initial_state(4)
    assert game.initial_state(3).observation().tolist() != game.initial_state(4).observation().tolist()


@pytest.mark.peer
@pytest.mark.parametrize(
    "name", ["tic_tac_toe", "pig(winscore=6)", "leduc_poker", "goofspiel(num_cards=4)", "liars_dice", "backgammon"]
)
def test_adapted_games_keep_the_contract(name):
    pytest.importorskip("pyspiel")
    rl.check_game(rl.from_openspiel(name), games=2)


def test_adapted_environments_keep_the_contract(zoo):
    rl.check_game(zoo, games=1)
    rl.check_game(lake(samples=3), games=3)
