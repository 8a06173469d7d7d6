"""The environments that come with the package do what the originals do, step by step."""

from pathlib import Path

import numpy as np
import pytest

from triskele import reinforce as rl

DATA = Path(__file__).parents[2] / "data" / "reinforce"
GYM = ["CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0"]
# Largest differences, in units of the last place of float64 (of the larger of 1 and the number): other sines and
# cosines, and products added without being rounded. The last one computes in float32, where neither is seen.
ULP = {"CartPole-v1": 2, "Pendulum-v1": 2, "Acrobot-v1": 8, "MountainCar-v0": 1, "MountainCarContinuous-v0": 0}


@pytest.fixture(scope="module")
def trajectories():
    with np.load(DATA / "gym_trajectories.npz") as file:
        return {
            name: {
                k.removeprefix(f"{name.replace('-', '_')}_"): file[k]
                for k in file
                if k.startswith(name.replace("-", "_"))
            }
            for name in GYM
        }


def age(episode):
    """Number of each step in its episode."""
    starts = np.flatnonzero(np.r_[True, np.diff(episode) != 0])
    return np.arange(len(episode)) - np.repeat(starts, np.diff(np.r_[starts, len(episode)]))


@pytest.mark.parametrize("name", GYM)
def test_every_recorded_step(name, trajectories):
    t = trajectories[name]
    n = len(t["action"])
    # recorded so
    env = rl.make(name, num_envs=n, seed=0, **({"max_episode_steps": 0} if name == "MountainCarContinuous-v0" else {}))
    env.reset()
    env.arrays.data[:, :n], env.arrays.steps[:n] = t["state"].T, age(t["episode"])
    obs, reward, terminated, truncated, _ = env.step(t["action"])
    new = env.arrays.data[:, :n].T
    assert (np.abs(new - t["next_state"]) <= ULP[name] * np.spacing(np.maximum(1.0, np.abs(t["next_state"])))).all()
    np.testing.assert_array_equal(terminated, t["terminated"])
    np.testing.assert_array_equal(truncated, t["truncated"])
    np.testing.assert_allclose(reward, t["reward"], rtol=0, atol=4e-15)
    np.testing.assert_allclose(obs, t["obs"], rtol=1.2e-7, atol=1.2e-7)  # one unit of the last place of float32
    assert (obs == t["obs"]).mean() > 0.999


@pytest.mark.parametrize("name", GYM)
def test_recorded_episodes_from_their_first_state(name, trajectories):
    t = trajectories[name]
    env = rl.make(name, seed=0, max_episode_steps=10_000)
    env.reset()
    for episode in np.unique(t["episode"])[:3]:
        rows = np.flatnonzero(t["episode"] == episode)
        env.reset()
        env.arrays.data[:, 0] = t["state"][rows[0]]
        for i in rows:
            obs, _, terminated, *_ = env.step(t["action"][i : i + 1])
            assert bool(terminated[0]) == t["terminated"][i]
            if i - rows[0] < 150:  # unstable: a difference grows e-fold in a dozen steps of CartPole
                np.testing.assert_allclose(obs[0], t["obs"][i], rtol=1e-6, atol=1e-6)


def test_every_recorded_step_of_breakout():
    with np.load(DATA / "minatar_breakout.npz") as file:
        t = dict(file)
    n = len(t["action"])
    before, after = (
        dict(zip(t["fields"].tolist(), t[k].T.astype(np.int64), strict=True)) for k in ("state", "next_state")
    )
    env = rl.make("MinAtar/Breakout-v0", num_envs=n, seed=0, sticky_action_prob=0)
    env.reset()
    data = env.arrays.data[:n]
    ours = {
        "ball_y": "ball_y",
        "ball_x": "ball_x",
        "ball_dir": "direction",
        "pos": "paddle",
        "strike": "strike",
        "last_x": "last_x",
        "last_y": "last_y",
    }
    for theirs, field in ours.items():
        data[field] = before[theirs]
    data["bricks"] = t["bricks"][:, 10:40].astype(np.int64) @ (1 << np.arange(30))
    obs, reward, terminated, truncated, _ = env.step(t["action"].astype(np.int64))
    for theirs, field in ours.items():
        np.testing.assert_array_equal(data[field], after[theirs], field)
    np.testing.assert_array_equal(obs[..., 3].reshape(n, 100), t["next_bricks"])
    np.testing.assert_array_equal(obs.sum(axis=(1, 2)), t["channel_sums"])
    np.testing.assert_array_equal(reward, t["reward"])
    np.testing.assert_array_equal(terminated, t["terminated"])
    assert not truncated.any()


def test_bricks_come_back_when_all_are_broken():
    env = rl.make("MinAtar/Breakout-v1", seed=0, sticky_action_prob=0)
    env.reset()
    state = env.arrays.data
    state["bricks"], state["ball_y"], state["ball_x"], state["direction"], state["paddle"] = 0, 8, 3, 2, 3
    obs, *_ = env.step([0])
    assert obs[0, :, :, 3].sum() == 30 and state["direction"][0] == 1


def test_sticky_actions_repeat_the_last_one():
    n = 20_000
    env = rl.make("MinAtar/Breakout-v1", num_envs=n, seed=3, sticky_action_prob=0.25)
    env.reset()
    env.step(np.zeros(n, int))
    env.step(np.ones(n, int))
    moved = (env.arrays.data["paddle"][:n] == 3).mean()
    assert abs(moved - 0.75) < 4 * np.sqrt(0.75 * 0.25 / n)


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("CartPole-v1", [-0.05] * 4, [0.05] * 4),
        ("Pendulum-v1", [-np.pi, -1], [np.pi, 1]),
        ("Acrobot-v1", [-0.1] * 4, [0.1] * 4),
        ("MountainCar-v0", [-0.6, 0], [-0.4, 0]),
        ("MountainCarContinuous-v0", [-0.6, 0], [-0.4, 0]),
    ],
)
def test_first_states_are_uniform(name, low, high):
    n = 8192
    env = rl.make(name, num_envs=n, seed=1)
    env.reset()
    for x, a, b in zip(env.arrays.data, low, high, strict=True):
        assert (a <= x).all() and (x <= b).all()
        if a < b:
            u = np.sort((x - a) / (b - a))
            assert np.abs(u - (np.arange(n) + 0.5) / n).max() < 1.95 / np.sqrt(n)  # Kolmogorov and Smirnov, 1 in 1000
    assert (
        np.abs(np.corrcoef(env.arrays.data)[~np.eye(len(low), dtype=bool)]).max(initial=0) < 0.05
        if 0 not in high
        else True
    )


def test_the_ball_of_breakout_starts_on_either_side():
    env = rl.make("MinAtar/Breakout-v1", num_envs=4096, seed=0)
    env.reset()
    x, direction = env.arrays.data["ball_x"], env.arrays.data["direction"]
    assert (
        abs((x == 9).mean() - 0.5) < 0.04
        and np.array_equal(direction, np.where(x == 9, 3, 2))
        and set(x.tolist()) == {0, 9}
    )


def test_grid_world_has_the_values_of_the_book():
    """Utilities of Russell and Norvig's figure 17.3, by value iteration on probabilities that are measured."""
    n = 40_000
    env = rl.make("GridWorld-v0", num_envs=n, seed=0)
    env.reset()
    pays, moves = np.zeros((12, 4)), np.zeros((12, 4, 12))
    for cell in (0, 1, 2, 4, 6, 8, 9, 10, 11):
        for action in range(4):
            env.arrays.data["cell"][:n], env.arrays.steps[:], env.arrays.done[:] = cell, 0, 0
            obs, reward, terminated, *_ = env.step(np.full(n, action))
            pays[cell, action] = reward.mean()
            moves[cell, action] = (obs * ~terminated[:, None]).mean(axis=0)
    values = np.zeros(12)
    for _ in range(200):
        values = (pays + moves @ values).max(axis=1)
    book = [0.812, 0.868, 0.918, 0.762, 0.660, 0.705, 0.655, 0.611, 0.388]
    assert np.abs(values[[0, 1, 2, 4, 6, 8, 9, 10, 11]] - book).max() < 0.01


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layout": ["S.", "."]}, "layout must be rows of the same length"),
        ({"layout": ["..G"]}, "must have a start S"),
        ({"layout": ["S?"]}, "of the cells . S # G X"),
        ({"slip": 2}, "slip must be in"),
    ],
)
def test_a_grid_world_that_is_none(options, message):
    with pytest.raises(rl.EnvError, match=message):
        rl.make("GridWorld-v0", **options)


WIDE = {  # states and actions that episodes seldom see; each pair of bounds is one field
    "CartPole-v1": ([(-2.5, 2.5), (-5, 5), (-0.25, 0.25), (-6, 6)], {"sutton_barto_reward": True}),
    "Pendulum-v1": ([(-60, 60), (-8, 8)], {"g": 9.81}),
    "Acrobot-v1": ([(-np.pi, np.pi), (-np.pi, np.pi), (-4 * np.pi, 4 * np.pi), (-9 * np.pi, 9 * np.pi)], {}),
    "MountainCar-v0": ([(-1.2, 0.6), (-0.07, 0.07)], {"goal_velocity": 0.02}),
    "MountainCarContinuous-v0": ([(-1.2, 0.6), (-0.07, 0.07)], {"goal_velocity": 0.02}),
}


@pytest.mark.parametrize("name", GYM)
@pytest.mark.parametrize("in_float32", [False, True])
def test_steps_from_anywhere_are_gymnasium_s(name, in_float32):
    gymnasium = pytest.importorskip("gymnasium")
    bounds, options = WIDE[name]
    n, rng = 400, np.random.default_rng(5)
    states = np.array([rng.uniform(low, high, n) for low, high in bounds]).T
    states[::7] = [[b[k % 2] for b in bounds] for k in range(len(states[::7]))]  # corners
    if in_float32:
        states = states.astype(np.float32).astype(np.float64)
    env, original = rl.make(name, num_envs=n, seed=0, **options), gymnasium.make(name, **options).unwrapped
    original.reset(seed=0)
    env.reset()
    env.arrays.data[:, :n] = states.T
    actions = env.action_space.sample(0, n)
    if actions.dtype == np.float32:
        actions *= np.float32(1.5)  # beyond the bounds
    obs, reward, terminated, *_ = env.step(actions)
    for k in range(n):
        original.state = states[k].astype(
            np.float32 if in_float32 and name == "MountainCarContinuous-v0" else np.float64
        )
        if name == "CartPole-v1":
            original.steps_beyond_terminated = None
        expected, pay, over, *_ = original.step(actions[k])
        np.testing.assert_allclose(obs[k], expected, rtol=1.2e-7, atol=1.2e-7)
        # Acrobot at full speed moves by several turns in one step of the integrator, which enlarges what is lost to
        # rounding
        np.testing.assert_allclose(
            env.arrays.data[:, k], original.state, rtol=0, atol=1e-11 if name == "Acrobot-v1" else 1e-13
        )
        assert abs(reward[k] - pay) < 1e-12 and terminated[k] == over
