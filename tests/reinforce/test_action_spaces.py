"""Actions whose bounds are not about 0, that are integers, or that are numbered from elsewhere; and environments that
cannot be drawn.
"""

import numpy as np
import pytest

from triskele import core
from triskele import reinforce as rl
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


def test_symmetric_bounds_are_taken_as_they_are():
    head = rl.PPO("Pendulum-v1", num_steps=32, minibatches=2, hidden=(4,)).model.actor
    assert head.low == (-2.0,) and not head.scaled
    assert core.tree.leaves(Gaussian(head.network, head.log_std, head.low, head.high)) is not None


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

    for space, message in ((gymnasium.spaces.Box(-3, 3, (1,), np.int64), "must be a Box of floats"),
                           (gymnasium.spaces.Discrete(3, start=1), "must be numbered from 0")):
        with pytest.raises(rl.EnvError, match=message):
            rl.make(lambda space=space: Made(space))


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
