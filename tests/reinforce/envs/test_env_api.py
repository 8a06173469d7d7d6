"""Environments as users handle them: made, stepped, saved, written, checked, and refused what is wrong."""

import copy
import pickle
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triskele import reinforce as rl
from triskele.core.compile.source_modules import load_module
from triskele.core.kernels import threads
from triskele.reinforce import random
from triskele.reinforce.envs import registry


class Walk(rl.Environment):
    """A walk on 0 ... 8 from the middle; sometimes it does not move."""

    state = [("place", np.int64), ("visits", np.int32, 9)]
    observation_space, action_space = rl.Box(0, 8, (1,)), rl.Discrete(2)
    max_steps = 20

    @staticmethod
    def reset(state, stream):
        state.place = 3 + random.below(stream, 3)
        state.visits[:] = 0

    @staticmethod
    def step(state, action, stream):
        if random.uniform(stream) < 0.9:
            state.place += 2 * action - 1
        state.visits[state.place] += 1
        return state.place == 8, state.place == 0 or state.place == 8

    @staticmethod
    def observe(state, out):
        out[0] = state.place


def rollout(env, steps, seed=5):
    """All that some random steps give."""
    actions = env.action_space.sample(seed, steps * env.num_envs).reshape(steps, env.num_envs, *env.action_space.shape)
    return [env.step(a)[:4] for a in actions]


def assert_same(rows, others):
    for row, other in zip(rows, others, strict=True):
        for x, y in zip(row, other, strict=True):
            np.testing.assert_array_equal(x, y)


# ------------------------------------------------------------------------------------------------------------- episodes
def test_the_next_step_after_the_end_begins_an_episode():
    env = rl.make("MountainCar-v0", num_envs=3, seed=0, max_episode_steps=2)
    first, info = env.reset()
    assert info == {} and first.shape == (3, 2) and first.dtype == np.float32
    _, reward, terminated, truncated, _ = env.step([2, 2, 2])
    assert reward.tolist() == [-1, -1, -1] and not truncated.any()
    last, _, terminated, truncated, _ = env.step([2, 2, 2])
    assert truncated.all() and not terminated.any() and (last[:, 1] > 0).all()  # the last observation of the episode
    new, reward, terminated, truncated, _ = env.step([2, 2, 2])
    assert (
        not (reward.any() or terminated.any() or truncated.any())
        and (new[:, 1] == 0).all()
        and (new[:, 0] != first[:, 0]).all()
    )
    assert env.step([2, 2, 2])[1].tolist() == [-1, -1, -1]


def test_copies_end_each_on_its_own():
    env = rl.make("CartPole-v1", num_envs=2, seed=0)
    env.reset()
    env.arrays.data[0, 0], env.arrays.data[1, 0] = 2.39, 1.0  # the cart of copy 0 is about to leave
    obs, reward, terminated, *_ = env.step([1, 1])
    assert terminated.tolist() == [True, False] and reward.tolist() == [1, 1] and obs[0, 0] > 2.4
    obs, reward, terminated, *_ = env.step([1, 1])
    assert terminated.tolist() == [False, False] and reward.tolist() == [0, 1] and abs(obs[0, 0]) <= 0.05


def test_no_limit():
    env = rl.make("Pendulum-v1", max_episode_steps=0, seed=0)
    env.reset()
    assert env.max_episode_steps == 0 and not any(row[3].any() for row in rollout(env, 300))


# ------------------------------------------------------------------------------------------------------ reproducibility
@pytest.mark.parametrize("name", ["CartPole-v1", "MinAtar/Breakout-v1"])
def test_results_do_not_depend_on_threads(name):
    env, before = rl.make(name, num_envs=9001, seed=2), threads.get_threads()
    try:
        runs = []
        for n in (1, 2):
            threads.set_threads(n)
            env.reset(seed=2)
            runs.append(rollout(env, 15))
    finally:
        threads.set_threads(before)
    assert_same(*runs)


@pytest.mark.parametrize("name", ["CartPole-v1", "GridWorld-v0"])
def test_a_copy_does_not_depend_on_how_many_there_are(name):
    many, few = rl.make(name, num_envs=21, seed=4), rl.make(name, num_envs=21, seed=4).environment
    few = rl.VectorEnv(few, 6, 4)
    a, b = many.reset()[0], few.reset()[0]
    np.testing.assert_array_equal(a[:6], b)
    actions = many.action_space.sample(0, 100 * 21).reshape(100, 21)
    for row in actions:
        for x, y in zip(many.step(row)[:4], few.step(row[:6])[:4], strict=True):
            np.testing.assert_array_equal(x[:6], y)


@pytest.mark.parametrize("name", ["Acrobot-v1", "MinAtar/Breakout-v1"])
def test_a_saved_state_is_gone_on_from_bit_for_bit(name, tmp_path):
    from triskele import core

    env = rl.make(name, num_envs=13, seed=1)
    env.reset()
    rollout(env, 30)
    core.save(tmp_path / "env.safetensors", env.state)
    expected = rollout(env, 60)
    other = rl.make(name, num_envs=13, seed=999)
    other.state = core.load(tmp_path / "env.safetensors")
    assert_same(expected, rollout(other, 60))


def test_a_copied_environment_goes_its_own_way():
    env = rl.make("CartPole-v1", num_envs=5, seed=1, max_episode_steps=30)
    env.reset()
    rollout(env, 10)
    for copied in (copy.deepcopy(env), pickle.loads(pickle.dumps(env)), copy.copy(env)):
        held = env.state
        rows = rollout(copied, 40)
        assert all(np.array_equal(v, held[k]) for k, v in env.state.items())
        assert_same(rows, rollout(env, 40))
        env.state = held


def test_seeds():
    a, b, c = (rl.make("CartPole-v1", num_envs=4, seed=s).reset()[0] for s in (0, 0, 1))
    assert np.array_equal(a, b) and not np.array_equal(a, c)
    env = rl.make("CartPole-v1", num_envs=4)
    first, second = env.reset(seed=0)[0], env.reset()[0]
    assert np.array_equal(first, a) and not np.array_equal(second, a)
    assert np.array_equal(env.reset(seed=0)[0], a)
    assert len(np.unique(a)) == a.size  # every copy has numbers of its own


# -------------------------------------------------------------------------------------------------- inside other
# kernels
def test_step_kernel_inside_a_kernel():
    env, twin = (rl.make("CartPole-v1", num_envs=11, seed=3) for _ in range(2))
    env.reset(), twin.reset()
    source = f'''"""Repeated steps. {env.key}"""
from triskele.core.kernels.njit import kernel


@kernel
def play(state, actions, obs, reward, terminated, truncated):
    for t in range(len(actions)):
        env_step(state, actions[t], obs[t], reward[t], terminated[t], truncated[t])
'''
    play = load_module(source, "test", {"env_step": env.step_kernel}).play
    actions = env.action_space.sample(0, 50 * 11).reshape(50, 11)
    obs, reward = np.zeros((50, 11, 4), np.float32), np.zeros((50, 11), np.float32)
    terminated, truncated = np.zeros((50, 11), bool), np.zeros((50, 11), bool)
    play(env.arrays, actions, obs, reward, terminated, truncated)
    assert_same([twin.step(a)[:4] for a in actions], zip(obs, reward, terminated, truncated, strict=True))
    assert terminated.any()


# --------------------------------------------------------------------------------------------------- own environments
def test_another_number_of_copies_of_the_same():
    env = rl.make(Walk, num_envs=2, seed=0, max_episode_steps=7)
    other = rl.make(env, num_envs=3, seed=1)
    assert other.environment is env.environment and other.num_envs == 3 and other.max_episode_steps == 7


def test_an_environment_of_ones_own():
    rl.check_env(Walk, steps=200)
    env = rl.make(Walk, num_envs=500, seed=0)
    env.reset()
    total = sum(env.step(np.ones(500, int))[1].sum() for _ in range(12))
    assert total > 500


@pytest.mark.parametrize("name", sorted(registry()))
def test_ours_pass_the_check(name):
    rl.check_env(name, steps=120)


def broken(**changes):
    return type("Broken", (Walk,), {k: staticmethod(v) if callable(v) else v for k, v in changes.items()})


def forgets_a_field(state, stream):
    state.place = 4


def writes_outside(state, out):
    out[state.place] = 0.0


class Late(rl.Environment):
    """Reads beyond an array in the 2,000th step of an episode, which no check at the first use reaches."""

    state = [("n", np.int64), ("a", np.float64, 8)]
    observation_space, action_space, max_steps = rl.Box(-9, 9, (1,)), rl.Discrete(2), 3000

    @staticmethod
    def reset(state, stream):
        state.n = 0

    @staticmethod
    def step(state, action, stream):
        state.n += 1
        return state.a[8 if state.n == 2000 else 7], False

    @staticmethod
    def observe(state, out):
        out[0] = 0.0


def test_indices_are_checked_in_every_step():
    env = rl.make(Late, num_envs=2)
    env.reset()
    for _ in range(1999):
        env.step([0, 0])
    with pytest.raises(rl.EnvError, match=r"IndexError: .*, in environment 0 at step 2000 of its episode, with seed 0"):
        env.step([0, 0])


def writes_half(state, out):
    out[0] = state.place


def pays_nan(state, action, stream):
    return np.nan, False


def leaves_the_space(state, action, stream):
    state.place += 1
    return 0.0, False


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (broken(reset=forgets_a_field), "reset must not depend on the episodes before, but 'data'"),
        (
            broken(observe=writes_outside),
            "Broken: observe must stay within its arrays, but raised index is out of bounds",
        ),
        (
            broken(observe=writes_half, observation_space=rl.Box(0, 8, (2,))),
            r"observe must write the whole of `out` \(after 0 steps\)",
        ),
        (broken(step=pays_nan), "rewards must be finite, got nan"),
        (broken(step=leaves_the_space, max_steps=5), "observations must lie in Box"),
    ],
)
def test_what_the_check_finds(env, message):
    with pytest.raises(rl.EnvError, match=message):
        rl.check_env(env, steps=100)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"state": None}, "Broken: state must be"),
        ({"state": [("x", object)]}, "Broken: state must be a record of numbers"),
        ({"observation_space": rl.Box(0, 1, (2,), np.float64)}, "observation_space must be a Box of float32"),
        ({"action_space": 3}, "action_space must be Discrete, or a Box of float32 with one axis, got 3"),
        ({"step": None}, r"Broken: an environment needs the function step"),
        (
            {"step": lambda state, action, stream: 0.0},
            "Broken: the rules do not compile, or do not return what they must",
        ),
        ({"reset": lambda state: None}, "Broken: the rules do not compile"),
    ],
)
def test_a_description_that_cannot_be_right(changes, message):
    with pytest.raises(rl.EnvError, match=message):
        rl.make(broken(**changes))


def test_rules_on_lanes_that_return_too_much():
    class Extra(type(rl.make("CartPole-v1").environment)):
        @staticmethod
        def observe(state):
            return (*state, state[0])

    with pytest.raises(rl.EnvError, match="Extra: the rules do not compile, or do not return what they must"):
        rl.make(Extra)


@pytest.mark.parametrize("width", [1, 5])
def test_rules_on_lanes_with_several_actions(width):
    class Drift(rl.LaneEnvironment):
        state = ("x", "y")
        observation_space, action_space = rl.Box(-np.inf, np.inf, (width,)), rl.Box(-1, 1, (3,))

        @staticmethod
        def reset(stream):
            return random.uniform(stream), 2.0

        @staticmethod
        def step(state, action):
            a, b, c = action
            x = state[0] + a - 2.0 * b
            return (x, c), a + b, x > 3.0

        @staticmethod
        def observe(state):
            return (state[0], state[1], state[0] - state[1], 2.0 * state[0], -state[1])[:width]

    env = rl.make(Drift, num_envs=11, seed=0)
    env.reset()
    for k in range(12):
        a = env.action_space.sample(k, 11)
        held = env.arrays.done[:11] == 1
        begun = env.arrays.data[0, :11].copy()
        obs, reward, terminated, truncated, _ = env.step(a)
        x = begun + a[:, 0].astype(np.float64) - 2.0 * a[:, 1]
        x[held] = env.arrays.data[0, :11][held]
        y = np.where(held, 2.0, a[:, 2])
        np.testing.assert_allclose(obs, np.stack([x, y, x - y, 2 * x, -y], axis=1)[:, :width], rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(reward, np.where(held, 0.0, a[:, 0].astype(np.float64) + a[:, 1]))
        np.testing.assert_array_equal(terminated, ~held & (x > 3.0))
        assert not truncated.any()


# ------------------------------------------------------------------------------------------------------------ bad input
@pytest.mark.parametrize(
    ("name", "actions", "message"),
    [
        ("CartPole-v1", [0, 1], r"CartPole: actions must have shape \(3,\), got \(2,\)"),
        ("CartPole-v1", 1, r"shape \(3,\), got \(\)"),
        ("CartPole-v1", [0, 1, 2], "CartPole: actions must be 0 to 1, got 2 for environment 2"),
        ("CartPole-v1", [0, -1, 0], "got -1 for environment 1"),
        ("CartPole-v1", [0.0, 1.0, 1.0], "must be integers, got dtype float64"),
        ("CartPole-v1", [True, False, True], "must be integers, got dtype bool"),
        ("CartPole-v1", [[0, 1], [1]], "actions must have shape"),
        ("Pendulum-v1", [0.0, 1.0, 1.0], r"Pendulum: actions must have shape \(3, 1\), got \(3,\)"),
        ("Pendulum-v1", [[0.0], [np.nan], [1.0]], r"Pendulum: actions must be finite, got \[nan\] for environment 1"),
        ("Pendulum-v1", [["a"], ["b"], ["c"]], "must be numbers"),
    ],
)
def test_actions_that_are_none_change_nothing(name, actions, message):
    env = rl.make(name, num_envs=3, seed=0)
    env.reset()
    before = env.state
    with pytest.raises(rl.EnvError, match=message):
        env.step(actions)
    assert all(np.array_equal(v, before[k]) for k, v in env.state.items())


def test_a_step_before_reset():
    with pytest.raises(rl.EnvError, match="CartPole: call reset before step"):
        rl.make("CartPole-v1").step([0])


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("cartpole-v1",), {}, "there is no environment 'cartpole-v1'.*did you mean 'CartPole-v1'"),
        (
            ("CartPole-v1",),
            {"gravity": 1},
            r"CartPole does not take these options.*gravity.*\(it has: sutton_barto_reward\)",
        ),
        (("CartPole-v1", 0), {}, "num_envs must be an integer from 1"),
        (("CartPole-v1", 2.5), {}, "num_envs must be an integer"),
        (("CartPole-v1", 1, -1), {}, "seed must be an integer from 0"),
        (("CartPole-v1",), {"max_episode_steps": -3}, "max_episode_steps must be an integer from 0"),
        ((7,), {}, "env must be a name, an Environment or a function"),
        (("MinAtar/Breakout-v1",), {"sticky_action_prob": 2}, "sticky_action_prob must be in"),
    ],
)
def test_environments_that_cannot_be_made(arguments, options, message):
    with pytest.raises(rl.EnvError, match=message):
        rl.make(*arguments, **options)


def test_a_rule_that_raises():
    def step(state, action, stream):
        state.place += 1
        if state.place > 6:
            raise ValueError("too far")
        return 0.0, False

    env = rl.make(broken(step=step), num_envs=3000, seed=0)
    env.reset()
    with pytest.raises(
        rl.EnvError, match=r"Broken: step raised ValueError: too far, in environment \d+ at step \d of its episode"
    ):
        for _ in range(9):
            env.step(np.zeros(3000, int))
    with pytest.raises(rl.EnvError, match="call reset before step"):
        env.step(np.zeros(3000, int))
    assert env.reset()[0].shape == (3000, 1)


def test_a_state_of_something_else():
    env, other = rl.make("CartPole-v1", num_envs=3, seed=0), rl.make("CartPole-v1", num_envs=9, seed=0)
    env.reset()
    before = env.state
    for wrong, message in (
        (other.state, "must be of 3 copies, got 9"),
        ({"data": 1}, "state must be what"),
        ({**before, "steps": before["steps"] * 1.0}, "must be int64"),
    ):
        with pytest.raises(rl.EnvError, match=message):
            env.state = wrong
    assert all(np.array_equal(v, before[k]) for k, v in env.state.items())


# --------------------------------------------------------------------------------------------------------------- spaces
@given(st.integers(1, 50), st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_samples_lie_in_their_space(n, seed):
    space = rl.Box(np.array([-1.0, -np.inf, 0.0, -np.inf]), np.array([n, 3.0, np.inf, np.inf]))
    assert all(space.contains(x) for x in space.sample(seed, 5))
    assert all(rl.Discrete(n).contains(x) for x in rl.Discrete(n).sample(seed, 20))
    assert space.sample(seed).shape == (4,) and np.array_equal(space.sample(seed, 3), space.sample(seed, 3))


def test_spaces():
    assert (
        rl.Discrete(3) == rl.Discrete(3) != rl.Discrete(4)
        and not rl.Discrete(3).contains(True)
        and not rl.Discrete(3).contains(1.0)
    )
    assert rl.Box(0, 1, (2,)) == rl.Box([0, 0], [1, 1]) and not rl.Box(0, 1, (2,)).contains([0.0, np.nan])
    for wrong in (
        lambda: rl.Discrete(0),
        lambda: rl.Discrete(2.0),
        lambda: rl.Box(1, 0, (2,)),
        lambda: rl.Box(np.nan, 1, (1,)),
        lambda: rl.Box([0, 1], 2, (3,)),
    ):
        with pytest.raises(rl.EnvError):
            wrong()


# ------------------------------------------------------------------------------------------------------------ Gymnasium
@pytest.fixture(scope="module")
def gymnasium():
    module = pytest.importorskip("gymnasium")
    rl.register_gymnasium()
    return module


@pytest.mark.parametrize(
    "name",
    [
        "CartPole-v1",
        "Pendulum-v1",
        "Acrobot-v1",
        "MountainCar-v0",
        "MountainCarContinuous-v0",
        "Breakout-v1",
        "GridWorld-v0",
    ],
)
@pytest.mark.filterwarnings("ignore:.*(action space|observation space|Box|render|spec).*:UserWarning")
def test_gymnasium_s_own_checker(gymnasium, name):
    from gymnasium.utils.env_checker import check_env

    check_env(gymnasium.make(f"triskele/{name}").unwrapped, skip_render_check=True)


def test_one_environment_through_gymnasium(gymnasium):
    env = gymnasium.make("triskele/MountainCar-v0")
    a, _ = env.reset(seed=7)
    assert (
        env.observation_space.contains(a)
        and np.array_equal(a, env.reset(seed=7)[0])
        and not np.array_equal(a, env.reset()[0])
    )
    steps = [env.step(0)[3] for _ in range(200)]
    assert steps == [False] * 199 + [True]  # its time limit


def test_a_single_environment_does_not_restart_by_itself(gymnasium):
    env = gymnasium.make("triskele/CartPole-v1").unwrapped
    env.reset(seed=0)
    while not env.step(1)[2]:
        pass
    with pytest.raises(rl.EnvError, match="the episode is over; call reset"):
        env.step(1)


def test_many_environments_through_gymnasium(gymnasium):
    env, ours = gymnasium.make_vec("triskele/CartPole-v1", num_envs=5), rl.make("CartPole-v1", num_envs=5)
    assert env.metadata["autoreset_mode"] == gymnasium.vector.AutoresetMode.NEXT_STEP and env.action_space.shape == (5,)
    np.testing.assert_array_equal(env.reset(seed=3)[0], ours.reset(seed=3)[0])
    for a in ours.action_space.sample(0, 300).reshape(60, 5):
        assert_same([env.step(a)[:4]], [ours.step(a)[:4]])
    assert (
        gymnasium.make_vec("triskele/CartPole-v1", num_envs=2, max_episode_steps=9).unwrapped._env.max_episode_steps
        == 9
    )


def test_an_environment_of_gymnasium_in_place_of_ours(gymnasium):
    def create():
        return gymnasium.make("CartPole-v1")

    rl.check_env(create, steps=50)
    env = rl.make("gymnasium.envs.classic_control:CartPole-v1", num_envs=3, seed=1, vectorization_mode="sync")
    obs, _ = env.reset()
    assert obs.shape == (3, 4) and env.action_space == rl.Discrete(2)
    assert np.array_equal(obs, rl.make(create, 3, 1).reset()[0])
    with pytest.raises(rl.EnvError, match="actions must be 0 to 1, got 5"):
        env.step([0, 1, 5])
    assert env.step_kernel is None and "object" in env.state


def test_spaces_of_gymnasium_that_do_not_fit(gymnasium):
    with pytest.raises(rl.EnvError, match="the function makes must be an environment of Gymnasium, got int 3"):
        rl.make(lambda: 3)
    with pytest.raises(rl.EnvError, match="options go with a name"):
        rl.make(lambda: gymnasium.make("CartPole-v1"), max_episode_steps=3)


def test_without_gymnasium(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(
        ImportError,
        match=r"'LunarLander-v3', which is none of ours: needs gymnasium \(pip install "
        r'"triskele\[rl\]"',
    ):
        rl.make("LunarLander-v3")
    with pytest.raises(rl.EnvError, match="did you mean 'Acrobot-v1'"):
        rl.make("Acrobat-v1")
    with pytest.raises(ImportError, match="register_gymnasium: needs gymnasium"):
        rl.register_gymnasium()
