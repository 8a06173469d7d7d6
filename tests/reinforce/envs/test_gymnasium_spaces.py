"""Observations and actions of every space of Gymnasium, as agents see and give them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from tests.reporting import stop_at
from triskele import reinforce as rl
from triskele.core import nn, random
from triskele.reinforce.policy import Categorical, MultiCategorical

gymnasium = pytest.importorskip("gymnasium")
spaces = gymnasium.spaces
TWO = spaces.Discrete(2)

leaves = st.one_of(
    st.builds(spaces.Discrete, st.integers(1, 4), start=st.integers(-2, 2)),
    st.builds(
        lambda rows, start: spaces.MultiDiscrete(
            np.reshape([2, 3, 1, 2][: 2 * rows], (rows, 2)), start=[[start] * 2] * rows
        ),
        st.integers(1, 2),
        st.integers(-1, 1),
    ),
    st.builds(spaces.MultiBinary, st.sampled_from([3, (2, 2)])),
    st.builds(
        lambda shape, dtype: spaces.Box(0, 9, shape, dtype),
        st.sampled_from([(), (2,), (2, 3)]),
        st.sampled_from([np.float32, np.float64, np.int64, np.uint8]),
    ),
)
trees = st.recursive(
    leaves,
    lambda parts: st.one_of(
        st.lists(parts, min_size=1, max_size=3).map(spaces.Tuple),
        st.dictionaries(st.sampled_from("zyxw"), parts, min_size=1, max_size=3).map(spaces.Dict),
    ),
    max_leaves=4,
)


class Drawn(gymnasium.Env):
    """Draws what it shows, and remembers it; episodes of four steps."""

    def __init__(self, observation_space, action_space=TWO):
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.count, self.seen = 0, self.observation_space.sample()
        return self.seen, {}

    def step(self, action):
        assert self.action_space.contains(action), action
        reward = self.reward(action)
        self.count, self.seen = self.count + 1, self.observation_space.sample()
        return self.seen, reward, self.count == 4, False, {}

    def reward(self, action):
        return 0.0


@given(trees)
@settings(max_examples=60, deadline=None)
def test_observations_are_those_of_gymnasiums_flatten(space):
    env = rl.make(lambda: Drawn(space), num_envs=3, seed=0)
    observation, _ = env.reset()
    for _ in range(6):
        kept = isinstance(space, spaces.Box) and space.shape
        for copy, x in zip(env.env.envs, observation, strict=True):
            flat = copy.seen if kept else spaces.utils.flatten(space, copy.seen)
            assert_array_equal(x, np.asarray(flat, x.dtype))
            assert env.observation_space.contains(x)
        assert observation.dtype == (np.uint8 if kept and space.dtype == np.uint8 else np.float32)
        observation = env.step([0, 1, 0])[0]


@given(trees, st.integers(2, 4))
@settings(max_examples=60, deadline=None)
def test_raw_observations_are_flattened_one_by_one_and_in_batches(space, n):
    env = rl.make(lambda: Drawn(space), num_envs=n, seed=0)
    batch, _ = env.env.reset(seed=0)
    expected = env._observed(batch)
    seen = lambda flat: np.asarray(flat, expected.dtype)  # which networks make of a Box of another dtype themselves
    assert_array_equal(seen(env.flat(batch)), expected)
    assert_array_equal(seen([env.flat(copy.seen) for copy in env.env.envs]), expected)
    assert_array_equal(env.flat(expected), expected)
    if expected.dtype == np.float32:  # (3,) integers are observations of Discrete(3), (3,) floats are one, flattened
        assert_array_equal(env.flat(expected[0]), expected[0])


def test_actions_for_raw_observations_are_those_for_flattened_ones():
    def seen(space):
        return rl.PPO(lambda: Drawn(space), seed=1, num_envs=1, num_steps=8, minibatches=1, hidden=(8,))

    agent = seen(spaces.Discrete(4))
    each = [agent.act(k) for k in range(4)]
    assert len(set(each)) == 2  # an untrained network tells them apart
    assert_array_equal(agent.act(np.arange(4)), each)
    for dtype in (float, bool, int):
        assert_array_equal(agent.act(np.eye(4, dtype=dtype)), each)
    assert agent.act(np.eye(4, dtype=bool)[2]) == each[2]
    assert agent.act(np.eye(4)[2]) == each[2]
    with pytest.raises(rl.EnvError, match=r"must lie in Discrete\(4\), got \[4, -1\] \(possible: 0 to 3\)"):
        agent.act([0, 4, -1, 2])
    with pytest.raises(rl.EnvError, match=r"must have integers of shape \(\), got float64 of shape \(\)"):
        agent.act(3.0)
    agent = seen(spaces.Box(-1, 1, ()))
    assert_array_equal(agent.act(np.array([0.5, -0.5])), [agent.act(0.5), agent.act(np.float32(-0.5))])
    agent = seen(spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Discrete(2)}))
    a = np.array([[0.1, 1.5], [-0.3, 0.2]])  # float64, and out of bounds
    flat = np.concatenate([a, [[0, 1], [1, 0]]], axis=1)
    assert_array_equal(agent.act({"a": a, "b": np.array([1, 0])}), agent.act(flat))
    assert agent.act({"a": list(a[0]), "b": 1}) == agent.act(flat[0])
    for wrong, told in (
        ({"a": a[0]}, r"must have the parts of Dict\("),
        ({"a": a, "b": 1}, r"integers of shape \(2,\) at \['b'\], got int64 of shape \(\)"),
        ({"a": a[0], "b": 1.0}, r"integers of shape \(\) at \['b'\], got float64"),
        ({"a": a[0], "b": 2}, "possible: 0 to 1"),
    ):
        with pytest.raises(rl.EnvError, match=told):
            agent.act(wrong)


@pytest.mark.parametrize(
    "space",
    [
        spaces.OneOf([spaces.Discrete(2)]),
        spaces.Graph(spaces.Box(0, 1, (2,)), None),
        spaces.Sequence(spaces.Discrete(2)),
        spaces.Text(5),
    ],
    ids=lambda space: type(space).__name__,
)
def test_spaces_of_no_fixed_size_are_refused_by_name(space):
    name = type(space).__name__
    with pytest.raises(rl.EnvError, match=rf"arrays of one size, got the space {name}.*TransformObservation"):
        rl.PPO(lambda: Drawn(space))
    nested = spaces.Dict({"a": spaces.Tuple([spaces.Discrete(2), space])})
    with pytest.raises(rl.EnvError, match=rf"got the space {name}.* at \['a', 1\]"):
        rl.make(lambda: Drawn(nested))
    with pytest.raises(rl.GameError, match=f"arrays of one size, got the space {name}"):
        rl.from_gymnasium(lambda: Drawn(nested), horizon=4)
    with pytest.raises(rl.EnvError, match=f"actions must be Discrete, .* got {name}"):
        rl.make(lambda: Drawn(spaces.Discrete(2), space))


def test_observations_outside_of_their_space_are_told():
    class Outside(Drawn):
        def step(self, action):
            return 7, 0.0, False, False, {}

    env = rl.make(lambda: Outside(spaces.Discrete(3)))
    env.reset()
    with pytest.raises(rl.EnvError, match=r"observations must lie in Discrete\(3\), got \[7\]"):
        env.step([0])


class Copy(Drawn):
    """Pays 1 if each part of the action is its least value plus what is seen, as far as it goes."""

    def __init__(self, action_space):
        super().__init__(spaces.Discrete(3, start=5), action_space)

    def reward(self, action):
        seen = self.seen - 5
        space = self.action_space
        if isinstance(space, spaces.Box):
            return -float(np.square(action - (seen - 1)).sum())
        counts = space.n if isinstance(space, spaces.Discrete) else getattr(space, "nvec", 2)
        return float(np.all(action == np.minimum(seen, counts - 1) + getattr(space, "start", 0)))


def small_ppo(env, seed=0):
    return rl.PPO(
        env,
        seed=seed,
        num_envs=8,
        num_steps=32,
        minibatches=4,
        epochs=4,
        learning_rate=1e-2,
        hidden=(16,),
        normalize=False,
    )


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-0.1, 0.3, (2,), np.float64),  # the nearest float32 numbers are -0.10000000149 and 0.30000001192
        spaces.Box(-0.1, 0.3, (2,), np.float16),
        spaces.Discrete(3, start=-1, dtype=np.int32),
        spaces.MultiDiscrete([2, 3], dtype=np.int8),
    ],
    ids=str,
)
def test_actions_reach_the_environment_in_its_dtype_and_bounds(space):
    given = []

    class Checked(Drawn):
        def step(self, action):
            given.append(action)
            return super().step(action)  # asserts that the space contains it

    env = rl.make(lambda: Checked(spaces.Discrete(2), space), num_envs=2, seed=0)
    env.reset()
    box = isinstance(space, spaces.Box)
    least = space.low if box else np.broadcast_to(space.start, space.shape)
    most = space.high if box else least + getattr(space, "nvec", 3) - 1
    env.step(np.array([least, most], env.action_space.dtype))
    assert given[0].dtype == given[1].dtype == space.dtype
    assert_array_equal(given, np.array([least, most]))


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(3, start=-1),
        spaces.MultiDiscrete([3, 2], start=[0, 4]),
        spaces.MultiDiscrete([[2, 3], [1, 2]]),
        spaces.MultiBinary(3),
    ],
    ids=str,
)
def test_ppo_finds_the_best_of_discrete_actions(space, tmp_path):
    agent = small_ppo(lambda: Copy(space)).train(8192, progress=False)
    assert_array_equal(agent.evaluate(8).returns, 4.0)
    action = agent.act(6)
    assert space.contains(np.asarray(action, space.dtype))
    agent.policy.save(tmp_path / "policy")
    loaded = rl.Policy.load(tmp_path / "policy")
    assert_array_equal(loaded([0, 1, 0]), action)
    drawn = loaded(np.eye(3), rng=np.random.default_rng(0))
    assert all(space.contains(np.asarray(x, space.dtype)) for x in drawn)


def test_boxes_of_two_axes_are_actions_of_ppo_and_sac():
    agent = small_ppo(lambda: Copy(spaces.Box(-np.inf, np.inf, (2, 2)))).train(16384, progress=False)
    assert agent.act(7).shape == (2, 2)
    assert_allclose([agent.act(s).mean() for s in (5, 6, 7)], [-1, 0, 1], atol=0.1)
    other = rl.SAC(lambda: Copy(spaces.Box(-2, 2, (2, 2))), seed=0, learning_starts=200, batch_size=32, hidden=(16,))
    assert other.train(300, progress=False).act(7).shape == (2, 2)


def test_dqn_and_muzero_count_from_the_start_of_discrete_actions():
    space = spaces.Discrete(2, start=3)
    for agent in (
        rl.DQN(lambda: Copy(space), seed=0, learning_starts=100, batch_size=32, hidden=(16,)),
        rl.GumbelMuZero(lambda: Copy(space), seed=0, learning_starts=100, batch_size=32, hidden=(8,), simulations=4),
    ):
        assert agent.train(256, progress=False).act(5) in (3, 4)
    assert agent.planner()(np.eye(3, dtype=np.float32)[0]) in (3, 4)


def test_agents_say_which_actions_they_cannot_take():
    def env():
        return Copy(spaces.MultiDiscrete([2, 2]))

    with pytest.raises(rl.EnvError, match=r"DQN: actions must be Discrete, got MultiDiscrete.*PPO takes all others"):
        rl.DQN(env)
    with pytest.raises(
        rl.EnvError, match="SAC: actions must be a bounded Box, got MultiDiscrete.*PPO takes all others"
    ):
        rl.SAC(env)
    with pytest.raises(rl.EnvError, match="GumbelMuZero: actions must be Discrete, got MultiDiscrete"):
        rl.GumbelMuZero(env)
    made = rl.make(env)
    made.reset()
    with pytest.raises(rl.EnvError, match=r"actions must be \[0 0\] to \[1 1\], got \[0, 2\] for environment 0"):
        made.step([[0, 2]])


def test_independent_actions_are_a_product_of_categorical_ones():
    counts, n = (3, 1, 2), 20_000
    x = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    network = nn.Linear.init(random.key(1), 4, sum(counts))
    head = MultiCategorical(network, counts, (0, 7, -1), (3,))
    logits = np.split(network(x), np.cumsum(counts)[:-1], axis=1)
    parts = [Categorical(lambda x, k=k: logits[k]) for k in range(3)]
    action = np.stack([np.arange(5) % c for c in counts], axis=1)
    each = [part.log_prob_entropy(x, action[:, k]) for k, part in enumerate(parts)]
    assert_allclose(head.log_prob_entropy(x, action), np.sum(each, axis=0), rtol=1e-5, atol=1e-6)
    assert_array_equal(head.mode(x), np.stack([p.mode(x) for p in parts], 1) + [0, 7, -1])
    noise = head.noise(np.random.default_rng(2), (n,), sum(counts))
    drawn, played, log_p = head.sample(np.repeat(x[:1], n, axis=0), noise)
    assert_array_equal(played, drawn + [0, 7, -1])
    codes = drawn @ [2, 0, 1]
    probabilities = np.exp(np.array([log_p[codes == k][0] for k in range(6)], np.float64))
    assert_allclose(probabilities.sum(), 1, rtol=1e-5)
    frequencies = np.bincount(codes, minlength=6) / n
    assert np.all(np.abs(frequencies - probabilities) < 5 * np.sqrt(probabilities / n))


@pytest.mark.parametrize("actions", [spaces.Discrete(2), spaces.MultiDiscrete([3, 2])], ids=str)
def test_resumed_trainings_equal_whole_ones(actions, tmp_path):
    def create():
        return gymnasium.wrappers.TransformAction(gymnasium.make("FrozenLake-v1"), lambda a: int(np.sum(a)), actions)

    options = {"num_envs": 2, "num_steps": 16, "minibatches": 2, "epochs": 2, "hidden": (8,), "seed": 5}
    whole = rl.PPO(create, **options).train(32 * 6, progress=False)
    rl.PPO(create, **options).train(32 * 6, report=stop_at(96), checkpoint=tmp_path / "run", progress=False)
    resumed = rl.PPO.load(tmp_path / "run", env=create).train(progress=False)
    for a, b in zip(whole.weights, resumed.weights, strict=True):
        assert_array_equal(a, b)
    assert whole.episodes.finished == resumed.episodes.finished > 5


@given(st.integers(1, 5), st.integers(-3, 3), st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_our_spaces_are_gymnasiums(n, start, seed):
    for space in (rl.Discrete(n, start), rl.MultiDiscrete([[n, 2]], [[start, 0]])):
        theirs = space.to_gymnasium()
        drawn = space.sample(seed, 30)
        assert drawn.shape == (30, *space.shape) and all(space.contains(x) for x in drawn)
        assert all(theirs.contains(x) for x in np.asarray(drawn, theirs.dtype))
        assert space == type(space)(getattr(space, "n", getattr(space, "nvec", 0)), space.start)
        assert hash(space) == hash(type(space)(getattr(space, "n", getattr(space, "nvec", 0)), space.start))
        assert not space.contains(np.asarray(space.sample(seed)) + n + 2)
    for wrong in (lambda: rl.MultiDiscrete([2, 0]), lambda: rl.MultiDiscrete(3), lambda: rl.MultiDiscrete([2], [0.5])):
        with pytest.raises(rl.EnvError, match="MultiDiscrete: nvec must hold integers >= 1"):
            wrong()
