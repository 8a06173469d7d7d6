"""Mistakes that people make, and what they are told; nothing has been changed by then."""

import numpy as np
import pytest

from triskele import reinforce as rl


@pytest.mark.parametrize(
    ("agent", "env", "options", "message"),
    [
        (rl.DQN, "CartPole-v1", {"learning_rate": "3e-4"}, "DQN: learning_rate must be a positive number, got '3e-4'"),
        (rl.DQN, "CartPole-v1", {"discount": "a"}, "DQN: discount must be a number from 0 to 1, got 'a'"),
        (rl.DQN, "CartPole-v1", {"hidden": 64}, "DQN: hidden must be widths of layers, got int 64"),
        (rl.DQN, "CartPole-v1", {"hidden": (0,)}, "DQN: each width in hidden must be an integer >= 1, got 0"),
        (rl.DQN, "CartPole-v1", {"activation": "relu"}, "DQN: activation must be a function, got str 'relu'"),
        (
            rl.DQN,
            "CartPole-v1",
            {"epsilon": 0.1},
            "DQN: epsilon must be two numbers between 0 and 1, the initial and the final one, got 0.1",
        ),
        (rl.DQN, "CartPole-v1", {"learning_starts": -5}, "DQN: learning_starts must be a number >= 0, got -5"),
        (rl.SAC, "Pendulum-v1", {"hidden": "64"}, "SAC: each width in hidden must be an integer >= 1, got '6'"),
        (rl.SAC, "Pendulum-v1", {"activation": "relu"}, "SAC: activation must be a function"),
        (rl.SAC, "Pendulum-v1", {"alpha": "auto"}, "SAC: alpha must be positive or None, got 'auto'"),
        (rl.SAC, "Pendulum-v1", {"entropy": "auto"}, "SAC: entropy must be a finite number, or None"),
        (rl.PPO, "CartPole-v1", {"hidden": 64}, "PPO: hidden must be widths of layers, got int 64"),
    ],
)
def test_hyper_parameters(agent, env, options, message):
    with pytest.raises(ValueError, match=message):
        agent(env, **options)


def test_a_training_does_not_begin_with_more_random_steps_than_asked_for():
    agent = rl.SAC("Pendulum-v1", num_envs=4, train_every=4, learning_starts=3, hidden=(8,), batch_size=8).train(
        40, progress=False
    )
    assert agent.steps == 40


def test_a_training_is_called_train():
    agent = rl.PPO("CartPole-v1", num_steps=8, minibatches=1, hidden=(4,))
    with pytest.raises(AttributeError, match=r"no attribute 'learn' \(train\(total_steps\) trains an agent\)"):
        agent.learn(1000)


def faulty(fault):
    """Environments of Gymnasium; in the third step of the last one something is wrong."""
    gymnasium = pytest.importorskip("gymnasium")
    made = []

    class Faulty(gymnasium.Env):
        observation_space, action_space = gymnasium.spaces.Box(-9, 9, (2,)), gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.t = 0
            return np.zeros(2, np.float32), {}

        def step(self, action):
            self.t += 1
            wrong = self.t == 3 and self is made[-1]
            if wrong and fault == "error":
                raise RuntimeError("the motor broke")
            observation = np.array([0, np.nan if wrong and fault == "observation" else 0], np.float32)
            return observation, np.nan if wrong and fault == "reward" else 1.0, False, False, {}

    def make():
        made.append(Faulty())
        return made[-1]

    return make


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("observation", r"PPO: observations must be finite, got nan from environment 1 of .* after 3 steps"),
        ("reward", r"PPO: rewards must be finite, got nan from environment 1 of .* after 2 steps"),
        (
            "error",
            r"step raised RuntimeError: the motor broke, in environment 1 \(seed 8\) after 2 steps \(call reset\)",
        ),
    ],
)
def test_faults_of_environments_are_not_those_of_a_network(fault, message):
    agent = rl.PPO(faulty(fault), seed=7, num_envs=2, num_steps=8, minibatches=1, hidden=(4,))
    with pytest.raises(rl.EnvError, match=message):
        agent.train(16, progress=False)


class Unfinished(rl.Environment):
    state = [("x", np.float64)]


class Booleans(Unfinished):
    state = [("flags", np.bool_, 3)]
    observation_space, action_space = rl.Box(0, 1, (1,)), rl.Discrete(2)


class Uncompilable(Booleans):
    state = [("x", np.float64)]

    @staticmethod
    def reset(state, stream):
        state.x = len(b"abc")

    @staticmethod
    def step(state, action, stream):
        return 0.0, action.is_the_end

    @staticmethod
    def observe(state, out):
        out[0] = state.x


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: rl.make(rl.Environment),
            "Environment: observation_space must be a Box of float32 with at least one axis, got None",
        ),
        (lambda: rl.make(Unfinished), "Unfinished: observation_space must be a Box"),
        (lambda: rl.make(Booleans), "Booleans: an environment needs the functions reset, step, observe"),
        (lambda: rl.check_env("CartPole-v1", steps=0), "check_env: steps must be an integer from 1 "),
        (lambda: rl.check_env("CartPole-v1", steps=-3), "check_env: steps must be an integer from 1 "),
    ],
)
def test_environments(make, message):
    with pytest.raises(rl.EnvError, match=message):
        make()


def test_rules_that_do_not_compile_are_told_in_a_line():
    with pytest.raises(rl.EnvError, match="Uncompilable: the rules do not compile") as found:
        rl.make(Uncompilable)
    assert (
        len(str(found.value)) < 700 and "test_mistakes.py, line " in str(found.value) and "\n" not in str(found.value)
    )


def test_arrays_of_booleans_in_a_state():
    class Flags(Uncompilable):
        state = [("flags", np.bool_, 3)]

    with pytest.raises(
        rl.EnvError,
        match="Flags: a field of a state must be a number or an array of numbers, .* for "
        "'flags' .arrays of bool: take np.uint8",
    ):
        rl.make(Flags)


def test_an_environment_of_gymnasium_where_a_function_belongs():
    gymnasium = pytest.importorskip("gymnasium")
    made = gymnasium.make("CartPole-v1")
    for make in (rl.make, rl.DQN):
        with pytest.raises(
            rl.EnvError, match=r"env must be a function that makes environments \(lambda: gymnasium.make"
        ):
            make(made)
    made.close()


def test_a_state_of_another_number_of_copies():
    two, three = rl.make("CartPole-v1", 2, seed=0), rl.make("CartPole-v1", 3, seed=0)
    three.reset()
    with pytest.raises(rl.EnvError, match="CartPole: state must be of 2 copies, got 3"):
        two.state = three.state


def test_buffers():
    buffer = rl.ReplayBuffer(100, rl.Box(-1, 1, (3,)), rl.Discrete(2))
    x, zeros, never = np.zeros((6, 1, 3), np.float32), np.zeros((5, 1)), np.zeros((5, 1), bool)
    for bad in (-1, 2):
        with pytest.raises(rl.BufferError, match=f"ReplayBuffer.extend: actions must be 0 to 1, got {bad}"):
            buffer.extend(x, np.array([[0], [1], [bad], [0], [0]]), zeros, never, never)
    assert len(buffer) == 0
    for bad in (None, {}, {"steps": 3}):
        with pytest.raises(rl.BufferError, match="state: must be what `state` of such a buffer gave"):
            buffer.state = bad
