"""SAC: targets by hand, a bandit whose best policy is known, entropy, bit-for-bit resumption, clear errors."""

from operator import attrgetter

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.reporting import stop_at
from triskele import core
from triskele import reinforce as rl
from triskele.reinforce import random
from triskele.reinforce.agents.sac import targets
from triskele.reinforce.buffers.n_step import Transitions

SMALL = {"hidden": (32, 32), "batch_size": 64, "learning_starts": 200, "buffer_size": 5000}


class Follow(rl.Environment):
    """One step: the action has to be where the observation is, -(x - action)**2."""

    state = [("x", np.float64)]
    observation_space, action_space = rl.Box(-1, 1, (1,)), rl.Box(-2, 2, (1,))

    @staticmethod
    def reset(state, stream):
        state.x = 2 * random.uniform(stream) - 1

    @staticmethod
    def step(state, action, stream):
        return -((state.x - action[0]) ** 2), True

    @staticmethod
    def observe(state, out):
        out[0] = state.x


def test_targets_by_hand(rng):
    """r + discount (min of the target critics - alpha log pi), at an action drawn from the policy."""
    agent = rl.SAC("Pendulum-v1", alpha=0.3, **SMALL)
    x, noise = rng.standard_normal((5, 3)).astype(np.float32), rng.standard_normal((5, 1)).astype(np.float32)
    rewards, discounts = rng.standard_normal(5).astype(np.float32), np.array([0.99, 0, 0.99, 0.98, 0], np.float32)
    found = targets(agent.model, Transitions(None, None, rewards, x, discounts, None, None), noise)
    out = agent.model.actor.network(x).astype(float)
    mean, log_std = out[:, 0], np.tanh(out[:, 1]) * 3.5 - 1.5
    u = mean + np.exp(log_std) * noise[:, 0]
    action = np.tanh(u)  # torques of 2 are 1
    log_prob = -0.5 * noise[:, 0] ** 2 - log_std - 0.5 * np.log(2 * np.pi) - np.log(1 - action**2)
    values = [c.network(np.column_stack([x, action]).astype(np.float32))[:, 0] for c in agent.model.targets]
    assert_allclose(found, rewards + discounts * (np.minimum(*values) - 0.3 * log_prob), rtol=1e-4, atol=1e-5)


def test_losses_and_their_gradients_by_hand(rng):
    """The mean squares of both critics, each with weight one. Of the biases of their last layers the gradient is the
    mean of 2 (q - target).
    """
    agent = rl.SAC("Pendulum-v1", alpha=None, **SMALL)
    n, model = 64, agent.model
    x, later = rng.standard_normal((2, n, 3)).astype(np.float32)
    actions = rng.uniform(-2, 2, (n, 1)).astype(np.float32)
    rewards, discounts = rng.standard_normal(n).astype(np.float32), np.full(n, 0.99, np.float32)
    batch = Transitions(x, actions, rewards, later, discounts, None, None)
    key = core.random.key(3)
    noise = agent._noise(key, 5)
    wanted = targets(model, batch, noise)
    _, _, moments, loss = agent._updated_critics(model, agent.moments.critics, batch, key, 5)
    misses = [critic(x, actions).astype(float) - wanted for critic in model.critics]
    assert_allclose(loss, np.mean(misses[0] ** 2) + np.mean(misses[1] ** 2), rtol=1e-5)
    for miss, critic in zip(misses, moments.first, strict=True):  # a tenth of the gradient after one step of Adam
        assert_allclose(critic.network.layers[-1].bias, 0.1 * 2 * np.mean(miss), rtol=1e-4, atol=1e-6)


def test_updates_begin_with_the_first_whole_batch():
    agent = rl.SAC("Pendulum-v1", **SMALL | {"learning_starts": 0, "batch_size": 64})
    assert [agent.train(n, progress=False).updates for n in (63, 1, 1)] == [0, 1, 2]


def test_learns_the_best_action():
    agent = rl.SAC(Follow(), seed=0, actor_rate=3e-3, critic_rate=3e-3, train_every=2, **SMALL).train(
        2200, progress=False
    )
    assert agent.evaluate(100).mean > -0.05  # at random: -5/3


def test_the_temperature_is_the_one_that_gives_the_entropy_wanted():
    """The best policy for -(2 a - x)**2, with a from -1 to 1, is normal of variance alpha / 8, of entropy
    log(pi e alpha / 4) / 2: zero at alpha = 4 / (pi e).
    """
    agent = rl.SAC(Follow(), seed=0, actor_rate=5e-3, critic_rate=1e-2, entropy=0.0, **SMALL)
    seen = []
    agent.train(1600, progress=False, report=seen.append)
    assert abs(np.mean([n["entropy"] for n in seen[-4:]])) < 0.15
    assert_allclose(np.mean([n["alpha"] for n in seen[-4:]]), 4 / (np.pi * np.e), rtol=0.3)


def test_a_fixed_temperature_stays():
    agent = rl.SAC("Pendulum-v1", alpha=0.2, **SMALL).train(250, progress=False)
    assert_allclose(np.exp(agent.model.log_alpha), 0.2, rtol=1e-6)
    assert agent.updates == 50


def test_the_first_steps_are_random_and_within_bounds():
    agent = rl.SAC("Pendulum-v1", seed=0, num_envs=2, learning_starts=2000, train_every=2, buffer_size=5000).train(
        2000, progress=False
    )
    actions = agent._buffer.state["arrays"]["actions"][:-1]
    assert actions.min() >= -1 and actions.max() <= 1
    assert_allclose([actions.mean(), actions.std()], [0, 2 / np.sqrt(12)], atol=0.05)
    assert agent.updates == 0


def test_a_resumed_training_is_the_one_that_was_not_interrupted(tmp_path):
    def make():
        return rl.SAC("Pendulum-v1", seed=3, n_step=2, **SMALL)

    whole = make().train(500, progress=False)
    for stop in (100, 300):  # before and after the first update
        make().train(500, progress=False, checkpoint=tmp_path / "run.chk", report=stop_at(stop))
        resumed = rl.SAC.load(tmp_path / "run.chk")
        assert resumed.steps == stop
        resumed.train(progress=False)
        for name in ("model", "moments", "_buffer.state"):
            for a, b in zip(
                core.tree.leaves(attrgetter(name)(whole)), core.tree.leaves(attrgetter(name)(resumed)), strict=True
            ):
                assert_array_equal(a, b)


def test_threads_do_not_change_the_result():
    before = core.get_threads()
    found = []
    try:
        for n in (1, 2):
            core.set_threads(n)
            found.append(core.tree.leaves(rl.SAC("Pendulum-v1", seed=1, **SMALL).train(230, progress=False).model))
    finally:
        core.set_threads(before)
    for a, b in zip(*found, strict=True):
        assert_array_equal(a, b)


def test_the_policy_is_saved_without_the_agent(tmp_path):
    agent = rl.SAC("Pendulum-v1", seed=0)
    agent.policy.save(tmp_path / "policy.safetensors")
    x = np.random.default_rng(0).standard_normal((16, 3)).astype(np.float32)
    assert_allclose(
        rl.Policy.load(tmp_path / "policy.safetensors")(x), 2 * np.tanh(agent.model.actor.network(x)[:, :1]), rtol=1e-6
    )


@pytest.mark.parametrize(
    ("env", "options", "error", "message"),
    [
        ("CartPole-v1", {}, rl.EnvError, r"SAC: actions must be a bounded Box, got Discrete\(2\)"),
        (
            "Pendulum-v1",
            {"train_every": 3, "num_envs": 2},
            ValueError,
            "train_every must be a multiple of num_envs = 2, got 3",
        ),
        ("Pendulum-v1", {"batch_size": 1.5}, ValueError, "batch_size must be an integer >= 1, got 1.5"),
        ("Pendulum-v1", {"tau": -0.1}, ValueError, "tau must be a number from 0 to 1"),
        ("Pendulum-v1", {"alpha": 0.0}, ValueError, "alpha must be positive or None, got 0.0"),
        ("Pendulum-v1", {"actor_rate": np.inf}, ValueError, "actor_rate must be a positive number"),
        ("Pendulum-v1", {"learning_starts": -1}, ValueError, "learning_starts must be an integer >= 0"),
        ("Pendulum-v1", {"buffer_size": 50}, ValueError, "buffer_size must hold batch_size = 256"),
    ],
)
def test_bad_settings(env, options, error, message):
    with pytest.raises(error, match=message):
        rl.SAC(env, **options)


def test_swings_the_pendulum_up():
    """-200 on Pendulum-v1, where a random policy has -1200, after some 1,000 updates of small networks at high
    rates.
    """
    agent = rl.SAC(
        "Pendulum-v1",
        seed=0,
        hidden=(64, 64),
        learning_starts=2000,
        actor_rate=2e-3,
        critic_rate=4e-3,
        tau=0.04,
        discount=0.97,
    )
    assert agent.train(3500, progress=False).evaluate(50).mean > -200


@pytest.mark.slow
def test_learning_curve():
    """CleanRL's settings, which are the defaults: -200 on Pendulum-v1 (a random policy has -1200) within 10,000
    steps.
    """
    agent = rl.SAC("Pendulum-v1", seed=1).train(10_000, progress=False)
    assert agent.evaluate(100).mean > -200
