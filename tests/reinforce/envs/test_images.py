"""Images: kept as bytes wherever they are kept, and scaled where networks see them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from triskele import reinforce as rl
from triskele.core import nn, random
from triskele.reinforce.agents.networks import eyes_of
from triskele.reinforce.policy import Flat

gymnasium = pytest.importorskip("gymnasium")
Box, Discrete = gymnasium.spaces.Box, gymnasium.spaces.Discrete


class Sides(gymnasium.Env):
    """A bright half, left or right, of a noisy image; pays 1 for the action that says which. Episodes of four steps."""

    action_space = Discrete(2)

    def __init__(self, shape=(36, 36, 1)):
        self.observation_space = Box(0, 255, shape, np.uint8)

    def _show(self):
        self.side = int(self.np_random.integers(2))
        image = self.np_random.integers(0, 100, self.observation_space.shape, np.uint8)
        half = image.shape[1] // 2
        image[:, half:] += np.uint8(150 * self.side)
        image[:, :half] += np.uint8(150 * (1 - self.side))
        return image

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self._show(), {}

    def step(self, action):
        reward, self.count = float(action == self.side), self.count + 1
        return self._show(), reward, self.count == 4, False, {}


def bytes_of(*owners):
    """Memory of all arrays that these objects hold."""
    arrays = {id(x): x for o in owners for x in vars(o).values() if isinstance(x, np.ndarray)}
    return sum(x.nbytes for x in arrays.values())


ATARI = (84, 84, 4)


@pytest.mark.parametrize("options", [{}, {"n_step": 3}, {"prioritized": True}], ids=str)
def test_a_transition_of_dqn_takes_the_bytes_of_one_image(options):
    agent = rl.DQN(lambda: Sides(ATARI), seed=0, buffer_size=200, learning_starts=200, batch_size=8, **options)
    agent.train(150, progress=False)
    buffer, size = agent._buffer, int(np.prod(ATARI))
    held = bytes_of(buffer, *([buffer._tree] if options.get("prioritized") else []))
    assert held <= buffer.nbytes * 1.001 + 2000 and held / 200 <= 1.1 * size
    batch = buffer.sample(8)
    assert batch.observations.dtype == batch.next_observations.dtype == np.uint8
    assert_array_equal(batch.observations, buffer.observations[batch.indices, 0])
    assert bytes_of(agent._rollout) <= 1.1 * 11 * size, "ten steps, and what follows them"


def test_a_step_of_ppo_and_of_muzero_takes_the_bytes_of_one_image():
    size = int(np.prod(ATARI))
    agent = rl.PPO(lambda: Sides(ATARI), seed=0, num_envs=1, num_steps=32)
    assert bytes_of(agent._rollout) / 32 <= 1.1 * size
    other = rl.GumbelMuZero(lambda: Sides((84, 84, 1)), num_envs=1, num_steps=32, buffer_size=512, hidden=(8,))
    assert bytes_of(other._buffer) / 512 <= 1.1 * 84 * 84
    assert bytes_of(other._player) / 32 <= 1.1 * 84 * 84


def test_networks_see_bytes_scaled_to_one():
    space = rl.Box(0, 255, ATARI, np.uint8)
    eyes, size = eyes_of(random.key(0), space)
    x = space.sample(0, 2)
    assert size == 7 * 7 * 64, "of Mnih et al. 2015"
    expected = x / np.float32(255)
    for layer in eyes.layers:
        expected = nn.relu(layer(expected))
    assert_allclose(eyes(x), expected.reshape(2, size), rtol=1e-4, atol=1e-5)
    assert_array_equal(eyes(x), eyes(x.astype(np.float32)))
    first, same = eyes_of(random.key(0), rl.Box(0, 255, (4, 84, 84), np.uint8))
    assert same == size and first.channels_first
    assert_array_equal(first(np.moveaxis(x, -1, 1)), eyes(x))
    small, size = eyes_of(random.key(0), rl.Box(0, 255, (8, 8, 3), np.uint8))
    assert size == 192 and small.layers == ()


def test_bytes_that_are_no_image_and_networks_of_ones_own_see_numbers():
    class Memory(Sides):
        def __init__(self):
            self.observation_space = Box(0, 255, (4, 6), np.uint8)

    network = Flat(nn.Linear.init(random.key(0), 24, 2), 3)
    for agent in (
        rl.PPO(Memory, num_steps=32, hidden=(8,)),
        rl.DQN(Memory, learning_starts=32, batch_size=8, hidden=(8,)),
        rl.DQN(lambda: Sides((2, 12, 1)), network=network, learning_starts=32, batch_size=8),
    ):
        x = agent.env.observation_space.sample(1, 3)
        network = agent.policy.head.network
        assert_array_equal(network(x), network.network(x.astype(np.float32)))
        assert agent.train(128, progress=False).steps >= 128


def test_ppo_learns_from_images(tmp_path):
    agent = rl.PPO(Sides, seed=0, num_envs=8, num_steps=32, minibatches=4, learning_rate=1e-3, hidden=(32,))
    agent.train(2048, progress=False)
    assert agent.evaluate(16).mean > 3.9
    agent.policy.save(tmp_path / "policy")
    x = agent.env.reset()[0]
    assert_array_equal(rl.Policy.load(tmp_path / "policy")(x), agent.policy(x))


def test_sac_and_continuous_ppo_take_images():
    class Steering(Sides):
        action_space = Box(-1, 1, (1,))

        def step(self, action):
            return super().step(int(action[0] > 0))

    agent = rl.SAC(Steering, seed=0, learning_starts=100, batch_size=16, hidden=(16,)).train(104, progress=False)
    assert agent._buffer.observations.dtype == np.uint8 and agent.act(agent.env.reset()[0][0]).shape == (1,)
    other = rl.PPO(Steering, seed=0, num_steps=32, minibatches=2, epochs=2, hidden=(16,)).train(64, progress=False)
    assert other.policy.normalizer is None, "convolutions scale the bytes, and rewards alone are normalized"
    assert other.return_scale.moments.count > 0
