"""DQN: targets equal to rlax's, values of a known world, learning with every option, bit-for-bit resumption, clear
errors.
"""

import json
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.reporting import stop_at
from triskele import core
from triskele import reinforce as rl
from triskele.core import nn
from triskele.reinforce.agents.dqn import targets
from triskele.reinforce.buffers.n_step import Transitions

REFERENCE = json.loads((Path(__file__).parents[2] / "data/reinforce/rl_targets_rlax.json").read_text())
# 4 x 3 world, slip 0.2, -0.04 a step, no discount: Russell and Norvig, Artificial Intelligence, 3rd ed. (2010), figure
# 17.3
UTILITIES = {0: 0.812, 1: 0.868, 2: 0.918, 4: 0.762, 6: 0.660, 8: 0.705, 9: 0.655, 10: 0.611, 11: 0.388}
QUICK = {
    "learning_starts": 500,
    "learning_rate": 1e-3,
    "target_every": 200,
    "train_every": 4,
    "buffer_size": 5000,
    "batch_size": 64,
}


@pytest.mark.parametrize("name", ["q_learning", "double_q_learning"])
def test_targets_are_rlaxs(name):
    case = REFERENCE[name]
    double = name == "double_q_learning"
    values = {"network": case["q_t_selector" if double else "q_t"], "target": case["q_t_value" if double else "q_t"]}
    batch = Transitions(None, None, np.array([case["r"]]), np.zeros((1, 1)), np.array([case["discount"]]), None, None)
    found = targets(*(lambda x, v=v: np.array([v]) for v in values.values()), batch, double)
    assert_allclose(found - case["q_tm1"][case["a"]], [case["td"]], rtol=1e-5)


def test_one_update_by_hand(rng):
    """The weighted mean square, the gradient of the last biases, and the target's step towards the network."""
    agent, n = rl.DQN("CartPole-v1", **QUICK), 32
    x, later = rng.standard_normal((2, n, 4)).astype(np.float32)
    rewards, weights = rng.standard_normal(n).astype(np.float32), rng.uniform(0.2, 1.0, n).astype(np.float32)
    batch = Transitions(x, np.arange(n) % 2, rewards, later, np.full(n, 0.9, np.float32), None, weights)
    target = core.tree.map(lambda p: p + np.float32(0.1), agent.network)
    found = agent._updated(agent.network, agent.moments, target, batch, np.float32(0.25))
    network, moments, moved, loss, errors = found
    wanted = rewards + 0.9 * target(later).max(axis=1)
    misses = wanted - agent.network(x)[np.arange(n), np.arange(n) % 2]
    assert_allclose(errors, misses, rtol=1e-4, atol=1e-5)
    assert_allclose(loss, np.mean(weights * misses**2), rtol=1e-4)
    slopes = [np.sum((-2 * weights * misses)[a::2]) / n for a in (0, 1)]
    assert_allclose(moments.first.layers[-1].bias, 0.1 * np.array(slopes), rtol=1e-3)  # after one step of Adam
    for t, p, found in zip(*map(core.tree.leaves, (target, network, moved)), strict=True):
        assert_allclose(found, 0.75 * t + 0.25 * p, rtol=1e-5, atol=1e-7)


def test_updates_begin_with_the_first_whole_batch():
    agent = rl.DQN("Acrobot-v1", **QUICK | {"learning_starts": 0, "batch_size": 64})  # of long episodes
    assert [agent.train(n, progress=False).updates for n in (60, 4, 4)] == [0, 1, 2]


def test_values_of_a_world_that_is_known():
    """A table (one weight for each cell and action), fed by a random walk, learns what policy iteration gives."""
    agent = rl.DQN(
        "GridWorld-v0",
        num_envs=8,
        hidden=(),
        double=True,
        discount=1.0,
        epsilon=(1.0, 1.0),
        learning_rate=3e-3,
        learning_starts=1000,
        train_every=16,
        target_every=320,
        buffer_size=40_000,
        batch_size=512,
    )
    agent.train(40_000, progress=False)
    values = agent.network(np.eye(12, dtype=np.float32)).max(axis=1)
    errors = [values[c] - u for c, u in UTILITIES.items()]
    assert np.mean(np.abs(errors)) < 0.03 and np.max(np.abs(errors)) < 0.1, errors


@pytest.mark.parametrize(
    "options", [{}, {"double": True, "dueling": True, "prioritized": True, "n_step": 3}], ids=["plain", "all options"]
)
def test_learns_to_balance(options):
    agent = rl.DQN("CartPole-v1", seed=1, **QUICK, **options).train(10_000, progress=False)
    assert agent.evaluate(20).mean > 100  # at random: 22


@pytest.mark.slow
def test_returns_of_cleanrl():
    """Mean return of the last episodes after 500,000 steps with the same hyper-parameters: CleanRL's
    docs/rl-algorithms/dqn.md has 488.69 ± 16.11.
    """
    found = [rl.DQN("CartPole-v1", seed=seed).train(500_000, progress=False).episodes.mean_return for seed in (1, 2, 3)]
    assert np.mean(found) > 488.69 - 3 * 16.11, f"mean returns were {found}"


@pytest.mark.parametrize(
    "options", [{}, {"prioritized": True, "n_step": 2, "num_envs": 2}], ids=["uniform", "prioritized"]
)
def test_a_resumed_training_is_the_one_that_was_not_interrupted(options, tmp_path):
    def make():
        return rl.DQN("CartPole-v1", seed=3, **QUICK, **options)

    whole = make().train(2000, progress=False)
    make().train(2000, progress=False, checkpoint=tmp_path / "run.chk", report=stop_at(1000))
    resumed = rl.DQN.load(tmp_path / "run.chk")
    assert resumed.steps == 1000
    resumed.train(progress=False)
    for name in ("network", "target_network", "moments", "_buffer.state"):
        for a, b in zip(
            core.tree.leaves(attrgetter(name)(whole)), core.tree.leaves(attrgetter(name)(resumed)), strict=True
        ):
            assert_array_equal(a, b)


def test_the_policy_is_saved_without_the_agent(tmp_path):
    agent = rl.DQN("CartPole-v1", seed=0, dueling=True)
    agent.policy.save(tmp_path / "policy.safetensors")
    x = np.random.default_rng(0).standard_normal((16, 4)).astype(np.float32)
    assert_array_equal(rl.Policy.load(tmp_path / "policy.safetensors")(x), np.argmax(agent.network(x), axis=1))


def test_exploration_and_what_is_reported():
    numbers = []
    rl.DQN("CartPole-v1", exploration=0.5, **QUICK).train(2000, progress=False, report=numbers.append)
    assert [n["step"] for n in numbers] == [500, 1000, 1500, 2000]
    assert_allclose([n["epsilon"] for n in numbers], [0.525, 0.05, 0.05, 0.05])
    assert numbers[-1]["updates"] == 1 + 1500 // 4 and np.isfinite(numbers[-1]["loss"])
    assert numbers[0]["length"] < 40  # a random policy falls soon


def test_images_and_networks_of_ones_own():
    agent = rl.DQN("MinAtar/Breakout-v1", learning_starts=100, hidden=(16,), buffer_size=500, batch_size=32).train(
        200, progress=False
    )
    assert agent.updates > 0
    network = nn.MLP.init(core.random.key(0), [4, 8, 2])
    assert rl.DQN("CartPole-v1", network=network).network is network


class Broken(rl.Environment):
    """Pays NaN in its tenth step."""

    state = [("count", np.int64)]
    observation_space, action_space = rl.Box(0, 100, (1,)), rl.Discrete(2)

    @staticmethod
    def reset(state, stream):
        state.count = 0

    @staticmethod
    def step(state, action, stream):
        state.count += 1
        return np.nan if state.count == 10 else 0.0, False

    @staticmethod
    def observe(state, out):
        out[0] = state.count


def test_a_reward_that_is_no_number():
    with pytest.raises(rl.BufferError, match="rewards must be finite, got nan in environment 0 at step 9"):
        rl.DQN(Broken()).train(100, progress=False)


@pytest.mark.parametrize(
    ("env", "options", "error", "message"),
    [
        ("Pendulum-v1", {}, rl.EnvError, "DQN: actions must be Discrete, got Box"),
        (
            "CartPole-v1",
            {"train_every": 10, "num_envs": 4},
            ValueError,
            "train_every must be a multiple of num_envs = 4, got 10",
        ),
        ("CartPole-v1", {"batch_size": 0}, ValueError, "batch_size must be an integer >= 1, got 0"),
        ("CartPole-v1", {"tau": 2.0}, ValueError, "tau must be a number from 0 to 1, got 2.0"),
        ("CartPole-v1", {"epsilon": (1.0,)}, ValueError, "epsilon must be two numbers"),
        ("CartPole-v1", {"learning_rate": -1.0}, ValueError, "learning_rate must be a positive number"),
        ("CartPole-v1", {"buffer_size": 50}, ValueError, "buffer_size must hold batch_size = 128"),
        (
            "CartPole-v1",
            {"network": nn.MLP.init(core.random.key(0), [4, 3])},
            rl.EnvError,
            r"network must give 2 values for each observation \(4,\), got shape \(2, 3\)",
        ),
    ],
)
def test_bad_settings(env, options, error, message):
    with pytest.raises(error, match=message):
        rl.DQN(env, **options)


@pytest.mark.slow
def test_learning_curve():
    """CleanRL's settings, which are the defaults, for as long as its dqn.py runs: the pole stays up for most of the 500
    steps.
    """
    agent = rl.DQN("CartPole-v1", seed=1).train(500_000, progress=False)
    assert agent.evaluate(100).mean > 400
