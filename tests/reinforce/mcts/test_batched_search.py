"""Searches whose evaluator is a network or a Python function, called with leaves in batches."""

import functools
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.processor import equal_rows
from triskele import core
from triskele import reinforce as rl
from triskele.reinforce.mcts.tree import COUNTS

GAME = rl.games.TicTacToe()
NET = core.nn.MLP.init(core.random.key(0), [18, 32, 10])
FORK = GAME.initial_state().play(0, 3, 1, 4)  # x wins by 2; else o wins by 5


def apply(net, observations):
    out = net(observations.reshape(-1, 18))
    return out[:, :9], np.tanh(out[:, 9])


def ignorant(params, observations):
    batch = observations.shape[0]
    return np.zeros((batch, 9), np.float32), np.zeros(batch, np.float32)


NETWORK, IGNORANT = rl.Network(apply, NET), rl.Network(ignorant, ())


def in_python(observations):
    return apply(NET, observations)


def make(simulations=60, evaluator=NETWORK, policy=None, **kwargs):
    return rl.MCTS(GAME, simulations, policy=rl.PUCT() if policy is None else policy, evaluator=evaluator, **kwargs)


@functools.cache
def positions():
    """All positions of tic-tac-toe where somebody is to move, and for each [position, action] the value for who moves
    (NaN: illegal).
    """
    found = {GAME.new_states(1)[0].tobytes(): GAME.new_states(1)}
    layers = [GAME.new_states(1)]
    while len(layers[-1]):
        after = []
        for record, mask in zip(layers[-1], look(layers[-1])[1], strict=True):
            for a in np.flatnonzero(mask):
                child = np.array([record])
                GAME.kernels.play(child, np.array([a]))
                if child.tobytes() not in found:
                    found[child.tobytes()] = child
                    after.append(child[0])
        layers.append(np.array(after, GAME.dtype))
    value, rows, tables = {}, [], []
    for layer in reversed(layers[:-1]):
        over, masks = look(layer)
        returns = np.zeros((len(layer), 2))
        GAME.kernels.returns(layer, returns)
        players = np.array([s["player"] for s in layer])
        for record, done, mask, result, player in zip(layer, over, masks, returns, players, strict=True):
            if done:
                value[record.tobytes()] = result[player]
                continue
            table = np.full(9, np.nan)
            for a in np.flatnonzero(mask):
                child = np.array([record])
                GAME.kernels.play(child, np.array([a]))
                table[a] = -value[child.tobytes()]
            value[record.tobytes()] = np.nanmax(table)
            rows.append(record)
            tables.append(table)
    return np.array(rows, GAME.dtype), np.array(tables)


def look(records):
    n = len(records)
    players, over, masks = np.zeros(n, np.int64), np.zeros(n, bool), np.zeros((n, 9), bool)
    GAME.kernels.look(records, players, over, masks, np.zeros((n, 0)))
    return over, masks


def check_tree(tree, simulations):
    """What holds in any tree at rest: each visit is the node's own or one of a child."""
    assert tree.root.visits == simulations + 1
    for node in tree.root.walk():
        below = sum(c.visits for c in node.children.values())
        if node.terminal:
            assert below == 0
        else:
            assert node.visits == 1 + below
            total = node.evaluation + sum(c.visits * c.value for c in node.children.values())
            own = total if node.parent is None else -total  # a node's value is for who moved there
            assert node.value == pytest.approx(own / node.visits, abs=1e-5)


@pytest.mark.parametrize("leaves", [1, 3, 8])
@pytest.mark.parametrize("policy", [rl.PUCT(), rl.Gumbel(gumbel_scale=0.0)], ids=["puct", "gumbel"])
def test_many_leaves_of_one_tree_leave_it_whole(policy, leaves):
    search = make(80, policy=policy, parallel_leaves=leaves)
    for state in (GAME.initial_state(), FORK):
        found = search(state)
        assert found.simulations == found.visits.sum() == 80
        check_tree(found.tree, 80)
    assert found.action == 2 and found.values[2] == 1.0


@equal_rows
@pytest.mark.parametrize("policy", [rl.PUCT(dirichlet=(0.3, 0.25)), rl.Gumbel()], ids=["puct", "gumbel"])
def test_a_tree_does_not_depend_on_those_beside_it(policy):
    states = [GAME.initial_state(), FORK, GAME.initial_state().play(4)] * 50
    threads = core.get_threads()
    try:
        for leaves in (1, 4):
            search = make(24, policy=policy, parallel_leaves=leaves, seed=5)
            core.set_threads(1)
            many = search(states)
            core.set_threads(2)
            for n in (1, 2, 7, 150):  # 150 trees of four leaves are evaluated in several pieces
                few = search(states[:n])
                np.testing.assert_array_equal(few.visits, many.visits[:n])
                np.testing.assert_array_equal(few.action, many.action[:n])
                np.testing.assert_array_equal(few.values, many.values[:n])
    finally:
        core.set_threads(threads)


def test_priors_count_as_in_a_search_that_is_compiled_as_a_whole():
    """PUCT's N, and the visits of the parent that a score is given, do not depend on where values come from."""

    def compiled(state, values, priors):
        values[0] = values[1] = 0.0
        for a in range(9):
            priors[a] = a + 1

    def batches(observations):
        return np.tile(np.log(np.arange(1, 10)), (len(observations), 1)), np.zeros(len(observations))

    def score(mean, visits, prior, parent_visits):
        return mean + 2 * prior * np.sqrt(parent_visits) / (1 + visits)

    states = [GAME.initial_state(), FORK, GAME.initial_state().play(4)]
    for policy in (rl.PUCT(), score):
        whole, parts = (make(100, policy=policy, evaluator=f)(states) for f in (compiled, batches))
        np.testing.assert_array_equal(whole.visits, parts.visits)


def test_temperature_of_the_policies_of_muzero():
    """Actions of 200 searches are drawn in proportion to visits, or are the most visited one."""
    policy = rl.MuZeroPUCT(dirichlet=(0.3, 0.0))
    for search, drawn in ((make(policy=policy), True), (make(policy=policy, temperature=0.0), False)):
        found = search([FORK] * 200)
        assert (found.visits == found.visits[0]).all()
        shares = np.bincount(found.action, minlength=9) / 200
        p = found.visits[0] / 60 if drawn else np.eye(9)[found.visits[0].argmax()]
        assert (abs(shares - p) <= 4 * np.sqrt(p * (1 - p) / 200)).all()
    search.temperature = 1.0
    assert len(set(search([FORK] * 200).action)) > 1
    with pytest.raises(rl.SearchError, match="temperature must be 0 with Gumbel, which draws actions by its own rule"):
        make(policy=rl.Gumbel(), temperature=1.0)


@pytest.mark.parametrize("evaluator", [IGNORANT, rl.RandomRollout()], ids=["network", "rollouts"])
def test_scores_that_are_not_numbers(evaluator):
    def score(mean, visits, prior, parent_visits):
        return np.nan if visits == 2 else mean - visits

    with pytest.raises(rl.SearchError, match=r"TicTacToe after \(.*\), node \d+: policy score must give numbers, got"):
        make(policy=score, evaluator=evaluator)(GAME.initial_state())


def test_tensors_that_carry_gradients():
    torch = pytest.importorskip("torch")
    weights = torch.linspace(-1, 1, 180, requires_grad=True).reshape(18, 10)

    def tensors(observations):
        out = torch.from_numpy(observations).reshape(-1, 18) @ weights
        return out[:, :9], torch.tanh(out[:, 9])

    def arrays(observations):
        return tuple(x.detach().numpy() for x in tensors(observations))

    one, other = (make(evaluator=f)(FORK) for f in (tensors, arrays))
    np.testing.assert_array_equal(one.visits, other.visits)


@pytest.mark.parametrize(
    "options",
    [
        {"evaluator": in_python},
        {},
        {"policy": rl.Gumbel()},
        {"evaluator": rl.RandomRollout()},
    ],
    ids=["function", "network", "gumbel", "rollouts"],
)
def test_one_search_called_from_several_threads(options):
    """Each call gives what it gives alone."""
    search = make(**options)
    states = [GAME.initial_state().play(*moves) for moves in ((), (0,), (4,), (0, 3), (0, 3, 1, 4), (8, 4))] * 20
    alone = [search(state) for state in states]
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(search, states))
    for one, other in zip(alone, together, strict=True):
        assert one.action == other.action
        np.testing.assert_array_equal(one.visits, other.visits)
        np.testing.assert_array_equal(one.values, other.values)


def test_virtual_visits_leave_strength_unharmed():
    """Of all 4,520 positions, how many searches find a move that keeps the value: as many with 8 leaves under way as
    with one.
    """
    records, values = positions()
    assert len(records) == 4520
    kept = {}
    for leaves in (1, 8):
        action = make(100, IGNORANT, parallel_leaves=leaves)(records).action
        kept[leaves] = np.mean(values[np.arange(len(records)), action] == np.nanmax(values, axis=1))
    assert kept[1] > 0.95 and kept[8] > kept[1] - 0.01, kept


def test_gumbel_keeps_values_too():
    records, values = positions()
    action = make(100, IGNORANT, rl.Gumbel(gumbel_scale=0.0), parallel_leaves=4)(records).action
    assert np.mean(values[np.arange(len(records)), action] == np.nanmax(values, axis=1)) > 0.95


def test_a_python_function_is_called_with_batches_and_gives_the_same_search():
    sizes = []

    def evaluator(observations):
        sizes.append(len(observations))
        assert observations.dtype == np.float32 and observations.shape[1:] == (2, 3, 3)
        return apply(NET, observations)

    states = [GAME.initial_state(), FORK]
    ours = make(evaluator=evaluator, parallel_leaves=4)(states)
    theirs = make(parallel_leaves=4)(states)
    np.testing.assert_array_equal(ours.visits, theirs.visits)
    np.testing.assert_allclose(ours.values, theirs.values, atol=1e-5)
    assert sizes[0] == 2 < max(sizes) <= 8  # the roots, then up to four leaves of each


def test_values_may_be_given_for_each_player():
    def both(observations):
        logits, value = apply(NET, observations)
        first = (observations.sum((1, 2, 3)) % 2 == 0)[:, None]  # x is to move
        return logits, np.where(first, np.stack([value, -value], 1), np.stack([-value, value], 1))

    np.testing.assert_array_equal(make(evaluator=both)(FORK).visits, make(evaluator=in_python)(FORK).visits)


def test_logits_of_illegal_actions_are_not_looked_at():
    def mad(observations):
        taken = observations.sum(1).reshape(-1, 9) > 0
        return np.where(taken, np.inf, 0.0), np.zeros(len(observations))

    found = make(evaluator=mad)(FORK)
    assert found.visits[[0, 1, 3, 4]].sum() == 0 and found.priors[[0, 1, 3, 4]].sum() == 0
    np.testing.assert_allclose(found.priors[[2, 5, 6, 7, 8]], 0.2, atol=1e-6)


def failing(after, result):
    """An evaluator whose call number `after` goes wrong."""
    calls = iter(range(1000))

    def evaluator(observations):
        return result(observations) if next(calls) == after else apply(NET, observations)

    return evaluator


def raising(observations):
    raise ZeroDivisionError("no weights")


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (
            raising,
            r"TicTacToe: evaluator, called with 1 position, the first of which is \(\d,\) from the root: raised "
            r"ZeroDivisionError: no weights",
        ),
        (
            lambda o: (np.zeros((len(o), 8)), np.zeros(len(o))),
            r"TicTacToe: .* logits must have shape \(1, 9\), got \(1, 8\)",
        ),
        (
            lambda o: (np.zeros((len(o), 9)), np.zeros((len(o), 3))),
            r"TicTacToe: .* values must have shape \(1,\) or \(1, 1\) or \(1, 2\), got \(1, 3\)",
        ),
        (lambda o: np.zeros((len(o), 9)), r"TicTacToe: .* must return \(logits, values\), got ndarray"),
        (lambda o: (np.zeros((len(o), 9)), ["a"]), r"TicTacToe: .* must be arrays of numbers"),
        (
            lambda o: (np.zeros((len(o), 9)), np.full(len(o), np.nan)),
            r"TicTacToe after \(0, 3, 1, 4, \d\), node 1: values must be finite",
        ),
        (
            lambda o: (np.full((len(o), 9), np.nan), np.zeros(len(o))),
            r"TicTacToe after \(0, 3, 1, 4, \d\), node 1: priors must be finite",
        ),
    ],
)
def test_an_evaluator_that_fails_is_named_and_the_search_stays_usable(result, message):
    bad = failing(1, result)
    state = GAME.initial_state().play(0, 3, 1, 4) if "after" in message else GAME.initial_state()
    search = make(evaluator=bad)
    with pytest.raises(rl.EvaluatorError, match=message) as caught:
        search(state)
    if result is raising:
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
    np.testing.assert_array_equal(search(FORK).visits, make(evaluator=in_python)(FORK).visits)


def test_a_network_that_gives_no_numbers_is_named():
    search = make()
    before = search(FORK)
    good, layers = NET.layers[0].weight, NET.layers
    nan = type(NET)((type(layers[0])(np.full_like(good, np.nan), layers[0].bias), *layers[1:]), NET.activation)
    search.evaluator.params = nan
    try:
        with pytest.raises(rl.EvaluatorError, match=re.escape("TicTacToe after (0, 3, 1, 4), node 0: ")):
            search(FORK)
    finally:
        search.evaluator.params = NET
    np.testing.assert_array_equal(search(FORK).visits, before.visits)


def test_a_network_of_the_wrong_size_is_named():
    with pytest.raises(
        rl.EvaluatorError, match=r"Network for TicTacToe: logits must have shape \(2, 9\), got \(2, 10\)"
    ):
        make(evaluator=rl.Network(lambda net, o: (net(o.reshape(-1, 18)), np.zeros(2)), NET))(FORK)


def test_new_parameters_are_used_at_once():
    other = core.nn.MLP.init(core.random.key(1), [18, 32, 10])
    search = make(evaluator=rl.Network(apply, NET))
    before = search(FORK)
    search.evaluator.params = other
    assert search(FORK).values.tolist() != before.values.tolist()
    np.testing.assert_array_equal(search(FORK).values, make(evaluator=rl.Network(apply, other))(FORK).values)


def test_trees_grow_and_are_kept_between_moves():
    search = make(300, parallel_leaves=4)
    found = search(GAME.initial_state())
    search.advance(found.action)
    again = search(GAME.initial_state().play(found.action))
    assert again.tree.root.visits > 301  # what was known is kept


def test_sequential_halving_restarts_after_a_move():
    """Visits that were kept would disturb how it shares out its own."""
    search, fresh = (make(64, policy=rl.Gumbel(max_considered_actions=4, gumbel_scale=0.0)) for _ in range(2))
    action = search(GAME.initial_state()).action
    search.advance(action)
    state = GAME.initial_state().play(action)
    assert search(state).visits.tolist() == fresh(state).visits.tolist()


def test_a_tree_that_grows_finds_the_same():
    """Go's 26 actions are more than room is made for at first: a tree finds the same when one beside it has it grow
    earlier.
    """
    go = rl.games.Go(size=5)

    def net(params, observations):
        batch = observations.shape[0]
        return np.zeros((batch, 26), np.float32), np.zeros(batch, np.float32)

    search = rl.MCTS(go, 400, policy=rl.PUCT(), evaluator=rl.Network(net, ()), parallel_leaves=5)
    late = go.initial_state()
    for a in range(0, 20, 2):
        late = late.play(a)
    many = search([late, go.initial_state()])
    for k, state in enumerate([late, go.initial_state()]):
        alone = rl.MCTS(go, 400, policy=rl.PUCT(), evaluator=rl.Network(net, ()), parallel_leaves=5)([state, state])
        np.testing.assert_array_equal(alone.visits[0], many.visits[k])


def test_a_search_ends_in_time():
    found = make(None, seconds=0.02, parallel_leaves=4)(GAME.initial_state())
    assert found.simulations > 0
    check_tree(found.tree, found.simulations)


def curious(mean, visits, prior, parent_visits):
    return mean + prior * np.sqrt(parent_visits) / (1 + visits)


@pytest.mark.parametrize("leaves", [1, 6])
def test_outcomes_of_chance_are_drawn_by_probability_and_a_policy_may_be_ones_own(leaves):
    def net(params, observations):
        batch = observations.shape[0]
        return np.zeros((batch, 2), np.float32), np.zeros(batch, np.float32)

    pig = rl.games.Pig(goal=30, sides=3)
    found = rl.MCTS(pig, 2000, policy=curious, evaluator=rl.Network(net, ()), parallel_leaves=leaves)(
        pig.initial_state().play(0, 2)
    )
    assert found.visits.sum() == 2000
    for node in found.tree.root.walk():
        below = sum(c.visits for c in node.children.values())
        assert node.visits == below + (node.player != rl.CHANCE and not node.terminal) or node.terminal
        if node.player == rl.CHANCE and node.visits > 300:
            shares = [node.children[k].visits / node.visits for k in range(3)]
            assert max(abs(np.array(shares) - 1 / 3)) < 5 * np.sqrt(0.25 / node.visits)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"evaluator": rl.RandomRollout(), "parallel_leaves": 4},
            "parallel_leaves=4 needs a Network or a function of batches",
        ),
        (
            {"evaluator": rl.RandomRollout(), "policy": rl.Gumbel()},
            "policy Gumbel.* needs a Network or a function of batches",
        ),
        ({"parallel_leaves": 0}, "parallel_leaves must be an integer from 1 to .*, got 0"),
        ({"solver": True}, "solver needs an evaluator that is compiled"),
        ({"policy": rl.Gumbel(), "seconds": 1.0}, "Gumbel divides a number of simulations"),
        ({"policy": rl.Gumbel(), "threads": 2}, "Gumbel grows one tree for each root, got threads=2"),
    ],
)
def test_searches_that_cannot_be_run_are_named(arguments, message):
    with pytest.raises(rl.SearchError, match=message):
        make(**arguments)


def test_trees_are_drawn_saved_and_loaded(tmp_path):
    tree = make()(FORK).tree
    text = tree.draw(depth=2, most=2).splitlines()
    assert text[0].startswith("TicTacToe after [0, 3, 1, 4]: 61 visits, value ")
    assert re.match(r"├─ c1: \d+ visits, value \+1.000, prior 0\.\d+, end$", text[1])
    assert text[-1] == "└─ and 3 more"
    tree.save(tmp_path / "tree")
    again = rl.SearchTree.load(tmp_path / "tree", GAME)
    assert again.draw(depth=9, most=9) == tree.draw(depth=9, most=9) and again.moves == (0, 3, 1, 4)
    assert [n.state for n in again.root.walk()] == [n.state for n in tree.root.walk()]
    assert len(again.arrays.counts) == COUNTS
    with pytest.raises(rl.SearchError, match=r"holds a tree of TicTacToe .*, got ConnectFour"):
        rl.SearchTree.load(tmp_path / "tree", rl.games.ConnectFour())
    (tmp_path / "tree").write_bytes((tmp_path / "tree").read_bytes()[:300])
    with pytest.raises(rl.SearchError, match="must be a file written by SearchTree.save"):
        rl.SearchTree.load(tmp_path / "tree", GAME)
