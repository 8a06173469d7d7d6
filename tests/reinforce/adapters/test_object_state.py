"""States of Python's environments: read as plain data, written back, refused where something is hidden."""

import json
from collections import deque

import numpy as np
import pytest

from tests.reporting import stop_at
from triskele import reinforce as rl
from triskele.reinforce import storage
from triskele.reinforce.vector.gymnasium_envs import GymnasiumVectorEnv
from triskele.reinforce.vector.object_state import UnknownState, read, write

gymnasium = pytest.importorskip("gymnasium")


def through_a_file(state):
    arrays = {}
    text = json.dumps(storage.pack(state, arrays))
    return storage.unpack(json.loads(text), arrays)


def short_cart_pole():
    return gymnasium.wrappers.TimeLimit(
        gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("CartPole-v1").unwrapped), 7
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: GymnasiumVectorEnv("CartPole-v1", 3, 0, None, {}),  # NumPy's vector
        lambda: GymnasiumVectorEnv("Acrobot-v1", 2, 0, None, {}),
        lambda: GymnasiumVectorEnv("Pendulum-v1", 2, 0, 20, {}),
        lambda: GymnasiumVectorEnv(short_cart_pole, 2, 0, None, {}),
        lambda: GymnasiumVectorEnv("FrozenLake-v1", 2, 0, 20, {}),
        lambda: GymnasiumVectorEnv("Blackjack-v1", 2, 0, None, {}),
    ],
    ids=["CartPole", "Acrobot", "Pendulum", "wrappers", "FrozenLake", "Blackjack"],
)
def test_a_state_that_went_through_a_file_is_gone_on_from_bit_for_bit(make):
    env = make()
    env.reset()
    actions = [env.action_space.sample(k, env.num_envs) for k in range(60)]
    for row in actions[:25]:
        env.step(row)
    state = through_a_file(env.state)
    expected = [env.step(row)[:4] for row in actions[25:]]
    for other in (make(), env):
        other.state = state
        for row, wanted in zip(actions[25:], expected, strict=True):
            for x, y in zip(other.step(row)[:4], wanted, strict=True):
                np.testing.assert_array_equal(x, y)


def test_an_agent_goes_on_bit_for_bit(tmp_path):
    settings = {"num_envs": 2, "num_steps": 16, "minibatches": 2, "epochs": 2, "hidden": (8,), "seed": 5}
    whole = rl.PPO(short_cart_pole, **settings).train(32 * 6, progress=False)
    path = tmp_path / "run.chk"
    rl.PPO(short_cart_pole, **settings).train(32 * 6, report=stop_at(96), checkpoint=path, progress=False)
    resumed = rl.PPO.load(path, env=short_cart_pole).train(progress=False)
    for a, b in zip(whole.weights, resumed.weights, strict=True):
        np.testing.assert_array_equal(a, b)
    assert whole.episodes.finished == resumed.episodes.finished > 20


class Hidden:
    __slots__ = ("secret",)


def test_what_is_hidden_is_told():
    class Simulated(gymnasium.Env):
        observation_space, action_space = gymnasium.spaces.Box(0, 1, (1,)), gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            self.simulator = Hidden()
            return np.zeros(1, np.float32), {}

    env = rl.make(Simulated, num_envs=2)
    with pytest.raises(rl.EnvError, match="call reset before"):
        env.state  # noqa: B018
    env.reset()
    with pytest.raises(
        rl.EnvError, match=r"Simulated: its state is not known, .* \(env\.envs\[0\]\.simulator is a Hidden\)"
    ):
        env.state  # noqa: B018
    with pytest.raises(rl.EnvError, match="state must be what `state` of such an environment gave, got 3"):
        env.state = 3


class Thing:
    def __init__(self):
        self.numbers, self.last, self.names = [1, 2.5, None], deque([1, 2], maxlen=2), {3: "c", "d": (1, np.arange(3))}
        self.rng, self.old = np.random.default_rng(1), np.random.RandomState(2)
        self.view = self.grid = np.zeros((2, 2))
        self.inner = None


def test_plain_objects():
    thing, other = Thing(), Thing()
    thing.rng.random(3), thing.old.rand(3), thing.last.append(9)
    thing.grid[1, 1], thing.names[4], thing.added = 7, "new", True
    write(through_a_file(read(thing)), other)
    assert other.last == deque([2, 9], maxlen=2) and other.last.maxlen == 2 and other.added and other.names[4] == "new"
    assert other.view is other.grid and other.grid[1, 1] == 7
    assert other.rng.random() == thing.rng.random() and other.old.rand() == thing.old.rand()


def test_an_object_that_is_not_there_cannot_be_written():
    thing = Thing()
    thing.inner = Thing()
    with pytest.raises(UnknownState, match="inner is an object that is not there now"):
        write(read(thing), Thing())


@pytest.mark.parametrize("hidden", [Hidden(), np.array([None]), iter([1]), {1, 2}])
def test_what_is_not_plain_is_refused(hidden):
    thing = Thing()
    thing.names["x"] = hidden
    with pytest.raises(UnknownState, match=r"names\['x'\] is an? "):
        read(thing)
