"""AlphaZero: its loss against the formula, its targets against a game played by hand, that it learns, resumes bit for
bit, and refuses.
"""

import json
import os
import signal
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.reporting import stop_at
from triskele import core
from triskele import reinforce as rl
from triskele.core import nn
from triskele.core.kernels import threads
from triskele.reinforce.agents.alphazero import alphazero_loss
from triskele.reinforce.agents.networks import PolicyValue
from triskele.reinforce.agents.self_play import PositionBuffer

GAME = rl.games.TicTacToe()
MINIMAX = json.loads((Path(__file__).parents[2] / "data" / "reinforce" / "tic_tac_toe_minimax.json").read_text())[
    "positions"
]


def turned(observations, policies):
    """Tic-tac-toe's board by a quarter."""
    boards = policies.reshape(-1, 3, 3)
    return np.rot90(observations, axes=(-2, -1)), np.rot90(boards, axes=(-2, -1)).reshape(-1, 9)


def mirrored(observations, policies):
    """Tic-tac-toe's board from behind."""
    return observations[..., ::-1], policies.reshape(-1, 3, 3)[..., ::-1].reshape(-1, 9)


def linear(game=GAME, hidden=(32,), seed=0):
    return PolicyValue.perceptron(core.random.key(seed), game.observation_shape, game.num_actions, hidden)


def small(game=GAME, net=None, **changes):
    """An agent that is quick to train."""
    given = {
        "num_games": 8,
        "moves": 4,
        "simulations": 8,
        "updates": 2,
        "batch_size": 32,
        "learning_starts": 64,
        "buffer_size": 500,
        **changes,
    }
    return rl.AlphaZero(game, linear(game) if net is None else net, **given)


def bits(agent):
    return [w.tobytes() for w in agent.weights]


def text(state):
    """A position as the table of minimax values has it."""
    x, o = state.observation(0).reshape(2, 9).astype(int)
    return "".join(".xo"[a + 2 * b] for a, b in zip(x, o, strict=True))


class TestLoss:
    @pytest.fixture
    def batch(self, rng):
        mask = rng.random((6, 4)) < 0.7
        mask[:, 0] = True
        policy = rng.random((6, 4)) * mask
        return {
            "x": rng.standard_normal((6, 3)),
            "mask": mask,
            "policy": policy / policy.sum(axis=1, keepdims=True),
            "value": rng.uniform(-1, 1, 6),
        }

    @pytest.fixture
    def net(self):
        keys = core.random.split(core.random.key(3), 3)
        return PolicyValue(
            *(nn.MLP.init(k, sizes, dtype=np.float64) for k, sizes in zip(keys, ([3, 5], [5, 4], [5, 1]), strict=True))
        )

    def test_against_the_formula_written_out(self, net, batch):
        loss, parts = alphazero_loss(net, batch, 0.5)
        logits, values = net(batch["x"])
        p = np.where(batch["mask"], np.exp(logits), 0)
        p /= p.sum(axis=1, keepdims=True)
        policy = -np.mean(
            [(t[m] * np.log(q[m])).sum() for t, q, m in zip(batch["policy"], p, batch["mask"], strict=True)]
        )
        assert parts["policy_loss"] == pytest.approx(policy)
        assert parts["value_loss"] == pytest.approx(np.mean((values - batch["value"]) ** 2))
        assert loss == pytest.approx(policy + 0.5 * parts["value_loss"])

    def test_gradient_against_finite_differences(self, net, batch):
        core.check_grads(lambda net: alphazero_loss(net, batch)[0], (net,), order=1, eps=1e-4)


class Scripted:
    """In place of a search: what each game is to find, move by move, over and over."""

    def __init__(self, *games, num_actions=9):
        self.games, self.move, self.num_actions = games, 0, num_actions

    def __call__(self, states, seed):
        actions = np.array([game[self.move % len(game)] for game in self.games])
        policy = np.full((len(actions), self.num_actions), 0.05)
        policy[np.arange(len(actions)), actions] += 1 - policy.sum(axis=1)
        self.move += 1
        return SimpleNamespace(action=actions, policy=policy, root_value=np.full(len(actions), 0.1 * self.move))


class TestSelfPlay:
    def test_targets_of_games_played_by_hand(self):
        """x wins in five moves, o in six; the rest of the first game's second play is unfinished, and kept."""
        actor = small(num_games=2, moves=6, value_mix=0.25, policy=rl.PUCT(), temperature_moves=0).actor(0, 1)
        actor.search = Scripted([0, 3, 1, 4, 2, 8], [0, 3, 1, 4, 8, 5])
        found = actor.collect(actor.network.params)
        assert found["lengths"].tolist() == [5, 6]
        assert found["outcomes"].tolist() == [1, -1]
        searched = 0.1 * np.arange(1, 7)
        outcomes = [1, -1, 1, -1, 1], [-1, 1, -1, 1, -1, 1]
        want = [0.75 * z + 0.25 * q for game in outcomes for z, q in zip(game, searched, strict=False)]
        assert np.allclose(found["values"], want)
        positions = found["positions"].view(GAME.dtype)[:, 0]
        for first, moves in ((0, [0, 3, 1, 4, 2]), (5, [0, 3, 1, 4, 8, 5])):
            state = GAME.initial_state()
            for k, action in enumerate(moves):
                assert GAME.at(positions[first + k : first + k + 1]) == state
                assert found["policies"][first + k].argmax() == action
                state = state.play(action)
        assert actor.plies.tolist() == [1, 0]

    def test_openings_are_drawn_from_the_searched_policy(self):
        actor = small(num_games=200, moves=1, policy=rl.PUCT(), temperature_moves=1).actor(0, 1)
        actor.search = Scripted(*[[4]] * 200)
        actor.collect(actor.network.params)
        central = np.mean([text(GAME.at(actor.states[k : k + 1]))[4] == "x" for k in range(200)])
        assert 0.45 < central < 0.75  # 0.6 wanted

    def test_games_with_chance(self):
        """Pig: roll, roll, hold."""
        game = rl.games.Pig(goal=10)
        actor = small(game, num_games=16, moves=60, policy=rl.Gumbel()).actor(0, 1)
        actor.search = Scripted(*[[0, 0, 1]] * 16, num_actions=game.num_actions)
        found = actor.collect(actor.network.params)
        assert len(found["lengths"]) > 5
        players, over = np.zeros(len(found["values"]), np.int64), np.zeros(len(found["values"]), bool)
        masks, chance = np.zeros((len(over), game.num_actions), bool), np.zeros((len(over), game.num_outcomes))
        game.kernels.look(found["positions"].view(game.dtype)[:, 0], players, over, masks, chance)
        assert not over.any()
        assert (players >= 0).all()

    def test_actors_play_other_games_and_threads_the_same(self):
        agent = small(num_games=4, moves=12)
        one, two = agent.actor(0, 2), agent.actor(1, 2)
        first, second = one.collect(agent.weights), two.collect(agent.weights)
        assert not np.array_equal(first["positions"], second["positions"])
        before = threads.get_threads()
        try:
            for n in (1, 2):
                threads.set_threads(n)
                again = agent.actor(0, 2).collect(agent.weights)
                assert all(np.array_equal(again[k], first[k]) for k in first)
        finally:
            threads.set_threads(before)

    def test_state_brings_games_back(self):
        agent = small(moves=3)
        actor, other = agent.actor(0, 1), agent.actor(0, 1)
        actor.collect(agent.weights)
        other.state = actor.state
        first, second = actor.collect(agent.weights), other.collect(agent.weights)
        assert all(np.array_equal(first[k], second[k]) for k in first)

    def test_returns_that_do_not_sum_to_zero(self):
        class Generous(rl.games.TicTacToe):
            @staticmethod
            def returns(state, out):
                out[0] = out[1] = 0.5

        actor = small(Generous(), num_games=1, moves=6).actor(0, 1)
        actor.search = Scripted([0, 3, 1, 4, 2])
        with pytest.raises(
            rl.GameError, match=r"returns of Generous must be from -1 to 1 and sum to 0, got \[0.5, 0.5\]"
        ):
            actor.collect(actor.network.params)


def test_buffer_keeps_the_last():
    buffer = PositionBuffer(GAME, 5)
    states = np.zeros(7, GAME.dtype)
    for part in (slice(0, 3), slice(3, 3), slice(3, 7)):
        rows = states[part]
        buffer.extend(
            rows.view(np.uint8).reshape(len(rows), GAME.dtype.itemsize),
            np.zeros((len(rows), 9), np.float32),
            np.arange(7, dtype=np.float32)[part],
        )
    assert len(buffer) == 5
    assert sorted(buffer.values) == [2, 3, 4, 5, 6]
    assert sorted(set(buffer.sample(np.random.default_rng(0), 200)["value"])) == [2, 3, 4, 5, 6]


def test_symmetries_move_observations_masks_and_policies_together():
    agent = small(num_games=8, moves=12, updates=1, batch_size=400, symmetries=[turned, mirrored])
    found = agent.actor(0, 1).collect(agent.weights)
    agent._buffer.extend(found["positions"], found["policies"], found["values"])
    batch = {k: a[0] for k, a in agent._batches().items()}
    free = batch["x"].reshape(400, -1, 9).sum(axis=1) == 0
    assert np.array_equal(batch["mask"], free)
    assert (batch["policy"][~free] == 0).all()
    buffer = PositionBuffer(GAME, 1000)
    buffer.extend(found["positions"], found["policies"], found["values"])
    plain = {a.tobytes() for a in buffer.sample(np.random.default_rng(0), 2000)["x"]}
    assert any(a.tobytes() not in plain for a in batch["x"])


@pytest.fixture(scope="module")
def trained():
    """Of sixteen thousand moves, in some seconds."""
    agent = rl.AlphaZero(
        GAME,
        linear(hidden=(64, 64)),
        num_games=64,
        moves=4,
        simulations=16,
        updates=8,
        batch_size=128,
        learning_starts=500,
        learning_rate=3e-3,
        buffer_size=8000,
        temperature_moves=5,
        symmetries=[turned, mirrored],
        seed=1,
    )
    return agent.train(16_000, progress=False)


class TestTraining:
    def test_keeps_the_minimax_value_everywhere(self, trained):
        """In all positions that can be reached, with hardly more simulations than there are actions."""
        states, frontier = {}, [GAME.initial_state()]
        while frontier:
            state = frontier.pop()
            if not state.terminal and text(state) not in states:
                states[text(state)] = state
                frontier += [state.child(a) for a in state.legal_actions]
        assert len(states) == 4520
        actions = trained.search(16)(list(states.values())).action
        assert np.mean([a in MINIMAX[k][1] for k, a in zip(states, actions, strict=True)]) >= 0.95

    def test_never_loses_against_perfect_play(self, trained):
        rng = np.random.default_rng(0)

        def perfect(state):
            return rng.choice(MINIMAX[text(state)][1])

        result = rl.play_match(GAME, [trained.search(100), perfect], 60, progress=False)
        assert result.losses[0] == 0

    def test_evaluation_is_a_match(self, trained):
        result = trained.evaluate(20, rl.Random(), simulations=16)
        assert result.names == ("AlphaZero", "opponent")
        assert result.losses[0] <= 1

    def test_a_saved_policy_plays(self, trained, tmp_path):
        trained.policy.save(tmp_path / "policy.safetensors")
        policy = rl.Policy.load(tmp_path / "policy.safetensors")
        state = GAME.initial_state().play(4)
        assert policy(state.observation(), mask=state.legal_mask) == trained.act(
            state.observation(), mask=state.legal_mask
        )
        result = rl.play_match(GAME, [policy, rl.Random()], 20, progress=False)
        assert result.score[0] > 0.7


def behind(observations, policies):
    """Connect four's board from behind."""
    return observations[..., ::-1], policies[..., ::-1]


@pytest.mark.slow
def test_learns_connect_four():
    """Positions where some move gives something away, solved exhaustively, and those of another solver (where most do
    not).
    """
    game = rl.games.ConnectFour()
    net = PolicyValue.residual(core.random.key(0), game.observation_shape, game.num_actions, channels=16)
    agent = rl.AlphaZero(game, net, simulations=32, symmetries=[behind], seed=0)

    def read(path, first):
        lines = [line.split() for line in path.read_text().splitlines() if not line.startswith("#")]
        lines = [line for line in lines if len(line) == first + 7]
        states = [game.initial_state().play(*(int(c) - 1 for c in line[0])) for line in lines]
        return states, np.array([line[first:] for line in lines], int)

    def kept(states, outcomes):
        actions = agent.search(200)(states).action
        return np.mean(np.sign(outcomes[np.arange(len(states)), actions]) == np.sign(outcomes.max(axis=1)))

    root = Path(__file__).parents[3]
    hard = read(root / "examples" / "reinforce" / "data" / "connect_four.txt", 1)
    before = kept(*hard)
    agent.train(30_000, progress=False)
    assert kept(*hard) > before + 0.05
    assert kept(*read(root / "tests" / "data" / "reinforce" / "connect4_scores.txt", 2)) >= 0.95
    assert agent.evaluate(40, rl.Random(), simulations=50).losses[0] == 0


class TestCheckpoints:
    @pytest.mark.parametrize("policy", [rl.Gumbel(), rl.PUCT(dirichlet=(1.0, 0.25))])
    def test_resumes_bit_for_bit(self, tmp_path, policy):
        whole, lines = small(policy=policy), []
        whole.train(320, progress=False, report=lines.append)
        small(policy=policy).train(320, progress=False, checkpoint=tmp_path / "run.chk", report=stop_at(160))
        agent = rl.AlphaZero.load(tmp_path / "run.chk", GAME)
        rest = []
        agent.train(progress=False, report=rest.append)
        assert bits(agent) == bits(whole)
        assert [n["policy_loss"] for n in lines[-len(rest) :]] == [n["policy_loss"] for n in rest]
        assert agent.episodes.finished == whole.episodes.finished

    def test_interrupted_it_leaves_a_checkpoint_that_goes_on(self, tmp_path):
        whole = small().train(320, progress=False)

        def interrupt(numbers):
            if numbers["step"] == 96:
                os.kill(os.getpid(), signal.SIGINT)

        with pytest.raises(KeyboardInterrupt):
            small().train(320, progress=False, checkpoint=tmp_path / "run.chk", report=interrupt)
        assert bits(rl.AlphaZero.load(tmp_path / "run.chk", GAME).train(progress=False)) == bits(whole)

    def test_interrupted_within_an_iteration_it_gives_that_up(self, tmp_path):
        whole = small().train(320, progress=False)

        def interrupt(numbers):
            if numbers["step"] == 96:
                threading.Timer(0.002, os.kill, (os.getpid(), signal.SIGINT)).start()

        with pytest.raises(KeyboardInterrupt):
            small().train(320_000, progress=False, checkpoint=tmp_path / "run.chk", report=interrupt)
        agent = rl.AlphaZero.load(tmp_path / "run.chk", GAME)
        assert bits(agent.train(max(320 - agent.steps, 32), progress=False)) == bits(whole) or agent.steps > 320

        endless = small(moves=10**7)
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            endless.train(1, progress=False)
        assert endless.steps == 0 and endless.iteration == 0

    def test_a_failure_leaves_the_last_checkpoint(self, tmp_path):
        def fail(numbers):
            if numbers["step"] == 192:
                raise RuntimeError("disk of the report is full")

        with pytest.raises(RuntimeError, match="disk of the report"):
            small().train(320, progress=False, checkpoint=tmp_path / "run.chk", every=32, report=fail)
        assert rl.AlphaZero.load(tmp_path / "run.chk", GAME).steps == 160

    def test_of_another_game(self, tmp_path):
        small().train(32, progress=False, checkpoint=tmp_path / "run.chk")
        with pytest.raises(rl.GameError, match=r"net must take observations \(2, 6, 7\) of ConnectFour, but raised"):
            rl.AlphaZero.load(tmp_path / "run.chk", rl.games.ConnectFour())


@pytest.mark.parametrize("actors", [1, 2])
def test_where_actors_run_does_not_matter(actors):
    one = small().train(200, progress=False, distribution=rl.OneProcess(actors=actors))
    other = small().train(200, progress=False, distribution=rl.Threads(actors=actors))
    assert bits(one) == bits(other)
    assert one.episodes.finished == other.episodes.finished


class TestErrors:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"num_games": 0}, "num_games must be an integer >= 1, got 0"),
            ({"simulations": 2.5}, "simulations must be an integer >= 1, got 2.5"),
            ({"learning_rate": -1.0}, "learning_rate must be a positive number"),
            ({"value_mix": 1.5}, "value_mix must be a number from 0 to 1, got 1.5"),
            ({"buffer_size": 50}, "buffer_size must hold learning_starts = 64 positions, got 50"),
            ({"policy": rl.UCT()}, r"policy must be Gumbel\(...\) or PUCT\(...\), got UCT"),
            ({"seed": -1}, "seed must be an integer from 0 to 2"),
            (
                {"buffer_size": 10**13},
                "buffer_size and num_games must fit into memory, got 10000000000000 positions and 8 games of up to 9 ",
            ),
            ({"num_games": 10**11}, "buffer_size and num_games must fit into memory"),
            ({"symmetries": mirrored}, "symmetries must be a sequence of functions, got <function mirrored"),
            ({"batch_size": "64"}, "batch_size must be an integer >= 1, got '64'"),
        ],
    )
    def test_hyper_parameters(self, settings, message):
        with pytest.raises(ValueError, match=message):
            small(**settings)

    def test_games_that_do_not_fit(self):
        with pytest.raises(rl.GameError, match="games have two players whose returns sum to 0, TwentyFortyEight has 1"):
            rl.AlphaZero(rl.games.TwentyFortyEight())
        with pytest.raises(rl.GameError, match="game must be a Game with compiled rules, got str 'CartPole-v1'"):
            rl.AlphaZero("CartPole-v1")

    def test_networks_that_do_not_fit(self):
        with pytest.raises(
            rl.GameError,
            match=r"net must give logits \(2, 9\) and values \(2,\) for two observations "
            r"\(2, 3, 3\) of TicTacToe, got \(\(2, 7\), \(2,\)\)",
        ):
            rl.AlphaZero(GAME, PolicyValue.perceptron(core.random.key(0), GAME.observation_shape, 7))
        with pytest.raises(rl.GameError, match="net must be a network"):
            rl.AlphaZero(GAME, {"weights": np.zeros(3)})
        with pytest.raises(
            rl.GameError, match="net must be a tree of arrays that can be called, such as rl.PolicyValue"
        ):
            rl.AlphaZero(GAME, lambda x: (np.zeros((len(x), 9), np.float32), np.zeros(len(x), np.float32)))

    def test_symmetries_that_do_not_fit(self):
        def doubled(observations, policies):
            return 2 * observations, policies

        with pytest.raises(rl.GameError, match="symmetry doubled must only move entries of observations"):
            small(symmetries=[doubled])

    def test_a_network_that_is_not_finite(self, tmp_path):
        net = core.tree.map(lambda a: np.full_like(a, np.nan), linear())
        with pytest.raises(rl.EvaluatorError, match="TicTacToe"):
            small(net=net).train(100, progress=False)

    def test_a_loss_that_explodes(self, tmp_path):
        agent = small(learning_rate=1e30)
        with pytest.raises((FloatingPointError, rl.EvaluatorError)):
            agent.train(2000, progress=False, checkpoint=tmp_path / "run.chk", every=32)
        assert np.isfinite(rl.AlphaZero.load(tmp_path / "run.chk", GAME).weights[0]).all()
