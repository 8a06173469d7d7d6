"""Compiled environments that say which actions are allowed: masks in `info`, in collections, and in checks."""

import numpy as np
import pytest

from tests.reporting import stop_at
from triskele import core
from triskele import reinforce as rl
from triskele.reinforce import random
from triskele.reinforce.training.rollout import Rollout


class Cards(rl.Environment):
    """Play the cards of a hand; the last one that is held pays 1, one that is not held costs 10."""

    state = [("held", np.uint8, 6)]
    observation_space, action_space = rl.Box(0, 1, (6,)), rl.Discrete(6)
    max_steps = 20

    @staticmethod
    def reset(state, stream):
        for k in range(6):
            state.held[k] = random.uniform(stream) < 0.6
        state.held[random.below(stream, 6)] = True

    @staticmethod
    def step(state, action, stream):
        if not state.held[action]:
            return -10.0, False
        last = action
        for k in range(6):
            last = k if state.held[k] else last
        state.held[action] = False
        return 1.0 * (action == last), not state.held.any()

    @staticmethod
    def observe(state, out):
        out[:] = 0.5  # who does not look at the mask cannot know

    @staticmethod
    def action_mask(state, out):
        for k in range(6):
            out[k] = state.held[k] != 0


def test_the_mask_is_that_of_the_rule_and_allows_all_where_the_episode_is_over():
    env = rl.make(Cards, num_envs=19, seed=0)
    _, info = env.reset()
    over = np.zeros(19, bool)
    for _ in range(30):
        mask = info["action_mask"]
        assert mask.dtype == bool and mask.shape == (19, 6)
        np.testing.assert_array_equal(mask, (env.arrays.data["held"][:19] != 0) | over[:, None])
        assert mask[over].all()
        _, reward, terminated, truncated, info = env.step(mask.argmax(axis=1))
        over = terminated | truncated
        assert (reward >= 0).all()
    assert not rl.make("CartPole-v1").has_masks and rl.make("CartPole-v1").reset()[1] == {}


def test_threads_do_not_change_masks():
    before, found = core.get_threads(), []
    try:
        for n in (1, 2):
            core.set_threads(n)
            env = rl.make(Cards, num_envs=1500, seed=0)
            _, info = env.reset()
            found.append([info["action_mask"], *(env.step(np.zeros(1500, int))[4]["action_mask"] for _ in range(3))])
    finally:
        core.set_threads(before)
    np.testing.assert_array_equal(*found)


def test_collections_in_machine_code_and_in_python_are_the_same():
    def act(model, x, noise, mask):
        action = np.argmax(np.where(mask, noise, -1.0), axis=-1)
        return action, action, noise[:, 0], model[0] * np.sum(mask, axis=-1)

    noise = np.random.default_rng(0).random((41, 13, 6), np.float32)
    model = (np.float32(0.5),)
    machine, python = (Rollout(rl.make(Cards, num_envs=13, seed=3), act, 40) for _ in range(2))
    machine.collect(model, noise)
    python._compiled = False
    python.collect(model, noise)
    for name in ("masks", "observations", "actions", "rewards", "values", "log_probs", "terminated", "truncated"):
        np.testing.assert_array_equal(getattr(machine, name), getattr(python, name), err_msg=name)
    assert (machine.rewards >= 0).all() and machine.terminated.any()


def test_ppo_takes_no_forbidden_action_and_learns_and_goes_on_from_a_checkpoint(tmp_path):
    settings = {"seed": 0, "num_envs": 4, "num_steps": 32, "learning_rate": 5e-3, "hidden": (16,)}
    agent = rl.PPO(Cards, **settings)
    first = agent.evaluate(40, deterministic=False).mean
    path = tmp_path / "run.chk"
    agent.train(4096, progress=False, checkpoint=path, report=stop_at(2048))
    resumed = rl.PPO.load(path, env=Cards).train(progress=False)
    whole = rl.PPO(Cards, **settings).train(4096, progress=False)
    assert (resumed._rollout.rewards >= 0).all()
    for a, b in zip(resumed.weights, whole.weights, strict=True):
        np.testing.assert_array_equal(a, b)
    assert resumed.evaluate(40).mean > first + 1


def test_dqn_refuses_masks():
    with pytest.raises(
        rl.EnvError, match="DQN: the environment must allow all actions, got an action_mask from <VectorEnv of 1 Cards>"
    ):
        rl.DQN(Cards)


def test_check_env():
    rl.check_env(Cards, steps=100)

    class Partial(Cards):
        @staticmethod
        def action_mask(state, out):
            out[0] = True

    with pytest.raises(rl.EnvError, match="Partial: action_mask must write the whole of `out`"):
        rl.check_env(Partial, steps=20)


def test_masks_that_are_wrong():
    class Closed(Cards):
        @staticmethod
        def action_mask(state, out):
            out[:] = False

    env = rl.make(Closed, num_envs=2, seed=0)
    with pytest.raises(
        rl.EnvError, match="Closed: action_mask must allow at least one action, got none in environment 0"
    ):
        env.reset()
    with pytest.raises(rl.EnvError, match="call reset before step"):
        env.step([0, 0])

    class Continuous(Cards):
        action_space = rl.Box(-1, 1, (2,))

    with pytest.raises(rl.EnvError, match="action_mask belongs to Discrete actions"):
        rl.make(Continuous)

    class OnLanes(type(rl.make("CartPole-v1").environment)):
        @staticmethod
        def action_mask(state, out):
            out[:] = True

        def rules(self):
            return super().rules()._replace(action_mask=self.action_mask)

    with pytest.raises(rl.EnvError, match="rules on lanes have no action_mask"):
        rl.make(OnLanes)


def test_gymnasium_gets_the_mask():
    pytest.importorskip("gymnasium")
    from triskele.reinforce.vector import gymnasium_classes

    assert gymnasium_classes.ManyEnvs(Cards, 3).reset(seed=0)[1]["action_mask"].shape == (3, 6)
    one = gymnasium_classes.SingleEnv(Cards)
    observation, info = one.reset(seed=0)
    assert observation.shape == (6,) and info["action_mask"].shape == (6,)
    assert one.step(int(info["action_mask"].argmax()))[4]["action_mask"].shape == (6,)
