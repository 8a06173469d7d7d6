"""Environments of Gymnasium in several processes: the numbers of one, and clear errors."""

import contextlib
import io
import os
import signal

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from tests.reporting import stop_at
from triskele import reinforce as rl

gymnasium = pytest.importorskip("gymnasium")


class Masked(gymnasium.Env):
    """Shows a random number, and forbids an action now and then; the tenth copy's third step fails."""

    observation_space, action_space = gymnasium.spaces.Discrete(4), gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed_given, self.count = seed, 0
        return int(self.np_random.integers(4)), self._info()

    def _info(self):
        return {"action_mask": self.np_random.random(3) < 0.5 + np.array([1, 0, 0])}

    def step(self, action):
        self.count += 1
        if self.seed_given == 109 and self.count == 3:
            raise ArithmeticError("no third step")
        print("what an environment prints is in nobody's way")
        return int(self.np_random.integers(4)), float(action), self.count == 5, False, self._info()


class Talks(gymnasium.Env):
    """Asks for a line, as debuggers do; tells what it is, if it is the third copy."""

    observation_space, action_space = gymnasium.spaces.Discrete(4), gymnasium.spaces.Discrete(3)

    def __init__(self, fault=None, told="third"):
        if fault is not None:
            raise fault
        self.told = told

    def reset(self, *, seed=None, options=None):
        self.seed_given = seed
        with contextlib.suppress(EOFError):
            input()
        return 0, {}

    def step(self, action):
        info = {"name": self.told, "count": 3, "array": np.ones(2)} if self.seed_given == 2 else {}
        return 0, 0.0, False, False, info


@pytest.fixture
def made():
    """Makes environments that are closed in the end."""
    all_of_them = []

    def make(*args, **options):
        all_of_them.append(rl.make(*args, **options))
        return all_of_them[-1]

    yield make
    for env in all_of_them:
        env.close()


@pytest.mark.parametrize(("env", "workers"), [(Masked, 2), pytest.param("Blackjack-v1", 3, marks=pytest.mark.slow)])
def test_workers_give_the_numbers_of_one_process(made, env, workers):
    one, many = made(env, 5, 3), made(env, 5, 3, workers=workers)
    assert many.action_space == one.action_space and many.observation_space == one.observation_space
    played = np.random.default_rng(0).integers(0, one.action_space.n, (40, 5))
    steps = [(one.reset(), many.reset()), *((one.step(a), many.step(a)) for a in played)]
    held = many.state
    steps += [(one.step(a), many.step(a)) for a in played]
    many.state = held
    steps += [(expected, many.step(a)) for a, (expected, _) in zip(played, steps[-40:], strict=True)]
    for expected, found in steps:
        for x, y in zip(expected[:-1], found[:-1], strict=True):
            assert_array_equal(x, y)
            assert x.dtype == y.dtype
        assert expected[-1].keys() == found[-1].keys()
        for name, x in expected[-1].items():
            assert_array_equal(x, found[-1][name])


@pytest.mark.slow
def test_a_training_with_workers_is_that_of_one_process_and_resumes(tmp_path):
    options = {"num_envs": 3, "num_steps": 16, "minibatches": 2, "epochs": 2, "hidden": (8,), "seed": 5}
    whole = rl.PPO(Masked, **options).train(48 * 6, progress=False)
    env = rl.make(Masked, workers=2)
    rl.PPO(env, **options).train(48 * 6, report=stop_at(144), checkpoint=tmp_path / "run", progress=False)
    resumed = rl.PPO.load(tmp_path / "run", env=env).train(progress=False)
    assert len(resumed.env._processes) == 2 and resumed.steps == whole.steps
    for a, b in zip(whole.weights, resumed.weights, strict=True):
        assert_array_equal(a, b)


def test_a_killed_worker_is_told(made):
    env = made(Masked, 3, workers=2)
    env.reset()
    os.kill(env._processes[1].pid, signal.SIGKILL)
    for _ in range(2):  # and it stays told
        with pytest.raises(
            rl.EnvError, match=r"worker 1, process \d+ with environments 2 to 2, ended with exit code -9"
        ):
            env.reset()
    with pytest.raises(rl.EnvError, match="call reset before step"):
        env.step([0, 0, 0])


def test_an_exception_names_the_environment_among_all(made):
    env = made(Masked, 12, 100, workers=2)
    env.reset()
    with pytest.raises(
        rl.EnvError, match=r"ArithmeticError: no third step, in environment 9 \(seed 109\) after 2 steps"
    ):
        for _ in range(3):
            env.step(np.zeros(12, int))
    with pytest.raises(rl.EnvError, match="actions must be 0 to 2, got 7 for environment 11"):
        env.reset()
        env.step([0] * 11 + [7])
    with pytest.raises(rl.EnvError, match="workers must be an integer from 1 to .*, got 0"):
        made(Masked, 2, workers=0)
    with pytest.raises(rl.EnvError, match="`state` of 2 workers"):
        env.state = {"workers": [1]}


def test_infos_that_some_workers_lack_are_those_of_one_process(made, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    one, many = made(Talks, 4, 0), made(Talks, 4, 0, workers=2)
    infos = []
    for env in (one, many):
        env.reset()
        infos.append(env.step([0] * 4)[-1])
    assert infos[0].keys() == infos[1].keys() and infos[1]["name"].tolist() == [None, None, "third", None]
    for name, x in infos[0].items():
        assert_array_equal(infos[1][name], x)
        assert infos[1][name].dtype == x.dtype


def test_what_a_worker_raises_is_told_in_its_words(made):
    with pytest.raises(rl.EnvError, match=r"<lambda>: a worker raised ValueError: no such level 'x'"):
        made(lambda: Talks(ValueError("no such level 'x'")), 2, workers=2)
    env = made(lambda: Talks(told=lambda: 0), 4, 0, workers=2)
    for _ in range(2):  # the workers live on
        env.reset(seed=0)
        with pytest.raises(rl.EnvError, match=r"a worker raised \w+: .*pickle.*lambda"):
            env.step([0] * 4)
    with pytest.raises(rl.EnvError, match="call reset before step"):
        env.step([0] * 4)


@pytest.mark.parametrize("env", ["CartPole-v1", rl.make("CartPole-v1").environment], ids=["name", "object"])
def test_our_environments_need_no_workers(env):
    with pytest.raises(rl.EnvError, match="leave out workers, which are for environments of Gymnasium"):
        rl.make(env, workers=2)
