"""Actions whose bounds are not about 0, that are integers, or that are numbered from elsewhere; and environments that
cannot be drawn.
"""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from triskele import reinforce as rl
from triskele.core import nn
from triskele.reinforce import random
from triskele.reinforce.policy import Gaussian


class Target(rl.Environment):
    """Pays the more, the nearer an action is to 17 of 10 ... 20."""

    state = [("t", "i8")]
    observation_space, action_space = rl.Box(-1, 1, (1,)), rl.Box(10, 20, (1,))
    max_steps = 8

    @staticmethod
    def reset(state, stream):
        state.t = 0

    @staticmethod
    def step(state, action, stream):
        state.t += 1
        return -abs(action[0] - 17.0), False

    @staticmethod
    def observe(state, out):
        out[0] = 0.5


def test_ppo_scales_bounds_that_are_not_about_0(tmp_path):
    agent = rl.PPO(Target, seed=0, num_steps=256, minibatches=4, normalize=False, hidden=(16,), learning_rate=3e-3)
    assert agent.act(np.zeros(1)) == pytest.approx(15.0, abs=0.2), "it begins in the middle"
    agent.train(8192, progress=False)
    assert agent.act(np.full(1, 0.5)) == pytest.approx(17.0, abs=0.7)
    agent.policy.save(tmp_path / "policy")
    assert rl.Policy.load(tmp_path / "policy")(np.full(1, 0.5)) == agent.act(np.full(1, 0.5))


def test_finite_bounds_are_scaled_one_by_one():
    large = np.finfo(np.float32).max  # a bound as good as infinite
    head = Gaussian(
        nn.Linear(np.zeros((1, 4), np.float32), np.array([0.5, 0.5, 0.5, -2], np.float32)),
        np.zeros(4, np.float32),
        (-100.0, -np.inf, -large, 0.0),
        (100.0, 3.0, large, 1.0),
        scaled=True,
    )
    assert_array_equal(head.mode(np.zeros((1, 1), np.float32)), [[50.0, 0.5, 0.5, 0.0]])


def task(of_rewards, of_actions):
    """Five steps, in each of which the action has to be where the observation is, in units that are powers of 2."""

    class Task(rl.Environment):
        state = [("x", np.float64), ("n", np.int64)]
        observation_space, action_space = rl.Box(0, 1, (1,)), rl.Box(-of_actions, of_actions, (1,))

        @staticmethod
        def reset(state, stream):
            state.x = random.uniform(stream)

        @staticmethod
        def step(state, action, stream):
            reward = -((state.x - action[0] / of_actions) ** 2) * of_rewards
            state.x, state.n = random.uniform(stream), state.n + 1
            return reward, state.n == 5

        @staticmethod
        def observe(state, out):
            out[0] = state.x

    return Task


def assert_same_policy(make, of_rewards, of_actions):
    """The policies that are learned in these units, and in units of 1, are equal to the last bit."""
    one, other = (
        make(task(*units)).train(700, progress=False).policy for units in ((1.0, 1.0), (of_rewards, of_actions))
    )
    x = np.linspace(0, 1, 100, dtype=np.float32)[:, None]
    assert one(x).std() > 1e-3, "something was learned"
    assert_array_equal(one(x), other(x) / np.float32(of_actions))


def test_ppo_learns_the_same_in_any_units_of_rewards_and_actions():
    assert_same_policy(lambda env: rl.PPO(env, seed=0, num_steps=64, minibatches=2, hidden=(8,)), 2.0**-24, 2.0**-7)


def test_sac_learns_the_same_in_any_unit_of_actions():
    assert_same_policy(lambda env: rl.SAC(env, seed=0, learning_starts=500, hidden=(8,), batch_size=32), 1.0, 2.0**-7)


def test_half_open_bounds():
    class Above(Target):
        action_space = rl.Box(3, np.inf, (1,))

    with pytest.raises(rl.EnvError, match="PPO: actions must have finite bounds or allow 0, where the policy begins"):
        rl.PPO(Above)


def test_spaces_of_gymnasium_that_would_be_misread():
    gymnasium = pytest.importorskip("gymnasium")

    class Made(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (1,))

        def __init__(self, space):
            self.action_space = space

    with pytest.raises(rl.EnvError, match="must be Discrete, .* or a Box of floats, got Box.*int64"):
        rl.make(lambda: Made(gymnasium.spaces.Box(-3, 3, (1,), np.int64)))


def test_render_modes_are_refused_as_gymnasiums_environments_do():
    """Stable-Baselines3's make_vec_env asks for "rgb_array", and upon a TypeError asks again without it."""
    gymnasium = pytest.importorskip("gymnasium")
    rl.register_gymnasium()
    with (
        pytest.raises(TypeError, match="CartPole-v1: it cannot be drawn, got render_mode='rgb_array'") as found,
        pytest.warns(UserWarning),
    ):
        gymnasium.make("triskele/CartPole-v1", render_mode="rgb_array")
    assert isinstance(found.value, rl.EnvError)
    env = gymnasium.make("triskele/CartPole-v1")
    env.action_space.seed(3)
    assert env.reset(seed=3)[0].shape == (4,) and env.render_mode is None
    env.close()
