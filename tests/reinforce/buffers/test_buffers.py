"""Buffers: no transition across the end of an episode, the right frequencies, exact states, errors that change
nothing.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from tests.twins.replay import Episodes, Weights
from triskele import core
from triskele import reinforce as rl

SPACE, ACTION = ((2,), np.float32), ((), np.int64)


def stream(rng, steps, envs, ends=0.15):
    """What `envs` environments give in `steps` steps, restarting in the step after an end: everything differs from
    everything.
    """
    observations = rng.standard_normal((steps + 1, envs, 2)).astype(np.float32)
    kind = rng.uniform(size=(steps, envs))
    terminated, truncated = kind < ends, (kind >= ends) & (kind < 2 * ends)
    for t in range(1, steps):
        over = terminated[t - 1] | truncated[t - 1]
        terminated[t] &= ~over
        truncated[t] &= ~over
    return (
        observations,
        rng.integers(0, 9, (steps, envs)),
        rng.standard_normal((steps, envs)).astype(np.float32),
        terminated,
        truncated,
    )


def fill(buffer, data, twin=None, first=0):
    observations, actions, rewards, terminated, truncated = data
    for t in range(len(rewards)):
        step = observations[t], actions[t], rewards[t], terminated[t], truncated[t], observations[t + 1]
        buffer.add(*step)
        if twin is not None:
            twin.add(first + t, *step)


# -- transitions -------------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(1, 4), st.booleans(), st.booleans())
def test_transitions_are_those_of_the_episodes(seed, envs, n, wraps, prioritized):
    """Every transition drawn is one of the twin's, which has written out whole episodes; none is stale, none crosses an
    end.
    """
    rng = np.random.default_rng(seed)
    make = rl.PrioritizedReplayBuffer if prioritized else rl.ReplayBuffer
    buffer = make(20 * envs if wraps else 200, SPACE, ACTION, num_envs=envs, n_step=n, discount=0.9, seed=seed)
    twin = Episodes(envs)
    fill(buffer, stream(rng, 37, envs), twin)
    batch = buffer.sample(len(buffer))
    steps, environments = batch.indices // envs, batch.indices % envs
    assert (steps >= 37 - 20 * wraps if wraps else steps >= 0).all()
    for i, (t, e) in enumerate(zip(steps.tolist(), environments.tolist(), strict=True)):
        observation, action, total, reached, discount = twin.n_step(t, e, n, 0.9)
        assert_array_equal(batch.observations[i], observation)
        assert batch.actions[i] == action
        assert_allclose(batch.rewards[i], total, rtol=1e-5, atol=1e-6)
        assert_array_equal(batch.next_observations[i], reached)
        assert_allclose(batch.discounts[i], discount, rtol=1e-6)
    assert len(buffer) == sum(t >= 37 - (20 if wraps else 37) for t, e in twin.transitions)


def test_several_steps_at_once_are_the_same(rng):
    data = stream(rng, 30, 2)
    one, many = (rl.PrioritizedReplayBuffer(26, SPACE, ACTION, num_envs=2) for _ in range(2))
    fill(one, data)
    observations, *rest = data
    for a, b in ((0, 1), (1, 9), (9, 22), (22, 30)):
        many.extend(observations[a : b + 1], *[x[a:b] for x in rest])
    assert len(one) == len(many)
    for x, y in zip(core.tree.leaves(one.state), core.tree.leaves(many.state), strict=True):
        assert_array_equal(x, y)


def test_uniform_draws_are_uniform(rng):
    buffer = rl.ReplayBuffer(40, SPACE, ACTION, num_envs=2, seed=3)
    fill(buffer, stream(rng, 50, 2))
    counts = np.bincount(np.concatenate([buffer.sample(len(buffer)).indices for _ in range(600)]))
    drawn = counts[counts > 0]
    assert len(drawn) == len(buffer)
    assert stats.chisquare(drawn).pvalue > 1e-3


def test_any_dtype_is_kept_as_it_is(rng):
    buffer = rl.ReplayBuffer(10, ((4, 3), np.uint8), ((2,), np.float64), num_envs=1)
    frames, actions = rng.integers(0, 256, (6, 1, 4, 3)).astype(np.uint8), rng.standard_normal((5, 1, 2))
    for t in range(5):
        buffer.add(frames[t], actions[t], [0.0], [False], [False], frames[t + 1])
    batch = buffer.sample(5)
    assert batch.observations.dtype == np.uint8 and batch.actions.dtype == np.float64
    assert_array_equal(batch.observations, frames[batch.indices, 0])
    assert_array_equal(batch.next_observations, frames[batch.indices + 1, 0])
    assert_array_equal(batch.actions, actions[batch.indices, 0])


def test_memory_is_told_and_taken_at_once():
    buffer = rl.ReplayBuffer(1000, ((84, 84), np.uint8), ACTION)
    assert buffer.nbytes == 1001 * (84 * 84 + 8 + 4 + 1)
    assert "6.7 MiB" in repr(buffer)


# -- priorities --------------------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 700), st.integers(0, 2**32))
def test_sum_tree_is_its_slow_twin(size, seed):
    rng = np.random.default_rng(seed)
    tree, twin = rl.SumTree(size), Weights(size)
    for _ in range(3):
        leaves = rng.integers(0, size, 50)
        weights = rng.integers(0, 5, 50).astype(float)  # small integers: sums are exact
        tree.set(leaves, weights)
        for leaf, weight in zip(leaves, weights, strict=True):
            twin.weights[leaf] = weight
    assert tree.total == twin.weights.sum()
    assert_array_equal(tree.weights, twin.weights)
    if tree.total:
        us = rng.uniform(0, tree.total, 50)
        assert_array_equal(tree.find(us), [twin.find(u) for u in us])


def test_sum_tree_depends_on_its_weights_alone(rng):
    """In whatever order they came: no sum drifts."""
    a, b, weights = rl.SumTree(1000), rl.SumTree(1000), rng.uniform(size=1000)
    for _ in range(20):
        a.set(rng.integers(0, 1000, 300), rng.uniform(size=300) * 1e6)
    a.set(np.arange(1000), weights)
    b.weights[:] = weights
    b.update()
    assert_array_equal(a.nodes, b.nodes)


def test_the_end_of_the_range_finds_a_leaf_that_can_be_drawn():
    tree = rl.SumTree(20)
    tree.set(np.array([3, 11]), np.array([0.1, 0.2]))
    assert_array_equal(tree.find(np.array([0.0, tree.total, np.nextafter(tree.total, 0)])), [3, 11, 11])


def test_frequencies_are_proportional_to_priorities(rng):
    """|error| ** alpha over its sum; importance weights are the powers of what they make up for (Schaul et al., eq.

    1 and 3.4).
    """
    buffer = rl.PrioritizedReplayBuffer(64, SPACE, ACTION, num_envs=2, alpha=0.7, epsilon=1e-9, seed=5)
    fill(buffer, stream(rng, 80, 2))
    everything = np.unique(np.concatenate([buffer.sample(len(buffer)).indices for _ in range(40)]))
    assert len(everything) == len(buffer)
    errors = rng.standard_normal(len(everything))
    buffer.update_priorities(everything, errors)
    wanted = np.abs(errors) ** 0.7 / np.sum(np.abs(errors) ** 0.7)
    drawn = []
    for _ in range(len(everything) * 25):
        batch = buffer.sample(1, beta=0.5)  # strata of a larger batch make frequencies better than random
        drawn.append(batch.indices[0])
    counts = np.array([np.sum(np.array(drawn) == i) for i in everything])
    enough = wanted * len(drawn) > 5
    observed, expected = (
        np.append(counts[enough], counts[~enough].sum()),
        np.append(wanted[enough], wanted[~enough].sum()) * len(drawn),
    )
    assert stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > 1e-3
    batch = buffer.sample(32, beta=0.5)
    p = wanted[np.searchsorted(everything, batch.indices)]
    assert_allclose(batch.weights, (p.min() / p) ** 0.5, rtol=1e-5)


def test_new_transitions_have_the_largest_priority_and_stale_ones_are_passed_over(rng):
    buffer = rl.PrioritizedReplayBuffer(4, SPACE, ACTION, alpha=1.0, epsilon=1e-6)
    data = stream(rng, 12, 1, ends=0.0)
    fill(buffer, [x[:5] if k == 0 else x[:4] for k, x in enumerate(data)])
    old = buffer.sample(4).indices
    buffer.update_priorities(old, np.full(4, 7.0))
    fill(buffer, [x[4:10] if k == 0 else x[4:9] for k, x in enumerate(data)])
    assert_allclose(np.sort(buffer.priorities.ravel()), [0, 7, 7, 7, 7], rtol=1e-6)
    buffer.update_priorities(old, np.zeros(4))  # they are gone
    assert_allclose(np.sort(buffer.priorities.ravel()), [0, 7, 7, 7, 7], rtol=1e-6)


# -- trajectories ------------------------------------------------------------------------------------------------------


def test_segments_follow_the_episodes(rng):
    buffer = rl.TrajectoryBuffer(60, SPACE, ACTION, num_envs=2, extras={"log_probs": ((), np.float32)}, seed=1)
    observations, actions, rewards, terminated, truncated = stream(rng, 50, 2)
    log_probs = rng.standard_normal((50, 2)).astype(np.float32)
    for t in range(50):
        buffer.add(
            observations[t],
            actions[t],
            rewards[t],
            terminated[t],
            truncated[t],
            observations[t + 1],
            log_probs=log_probs[t],
        )
    found = buffer.sample(40, 5)
    assert found.observations.shape == (6, 40, 2) and found.valid[0].all()
    for b in range(40):
        t, e = np.argwhere((observations == found.observations[0, b]).all(-1))[0]
        assert t >= 20  # the last 30 steps of both
        assert_array_equal(found.observations[:, b], observations[t : t + 6, e])
        assert_array_equal(found.actions[:, b], actions[t : t + 5, e])
        assert_array_equal(found.terminated[:, b], terminated[t : t + 5, e])
        assert_array_equal(found.extras["log_probs"][:, b], log_probs[t : t + 5, e])
        ended = terminated[t : t + 4, e] | truncated[t : t + 4, e]
        assert_array_equal(found.valid[1:, b], ~ended)


def test_rollouts_one_after_the_other_are_the_whole(rng):
    """`clear` continues from the present environments, restarts included."""
    data = observations, actions, rewards, terminated, truncated = stream(rng, 24, 3, ends=0.3)
    whole, parts = (
        rl.TrajectoryBuffer(72, SPACE, ACTION, num_envs=3),
        rl.TrajectoryBuffer(24, SPACE, ACTION, num_envs=3),
    )
    fill(whole, data)
    found = []
    for t in range(0, 24, 8):
        fill(parts, [x[t : t + 9] if k == 0 else x[t : t + 8] for k, x in enumerate(data)])
        found.append(parts.rollout())
        parts.clear()
    wanted = whole.rollout()
    assert_array_equal(wanted.observations, observations)
    for name in ("actions", "rewards", "terminated", "truncated", "valid"):
        assert_array_equal(np.concatenate([getattr(f, name) for f in found]), getattr(wanted, name))


def test_interrupt_cuts_episodes_off(rng):
    buffer = rl.ReplayBuffer(50, SPACE, ACTION, num_envs=2, n_step=3, discount=0.9)
    twin = Episodes(2)
    first, second = stream(rng, 6, 2, ends=0.1), stream(rng, 6, 2, ends=0.1)
    fill(buffer, first, twin)
    buffer.interrupt()
    twin.open, twin.over = [[], []], [False, False]
    fill(buffer, second, twin, first=7)
    assert len(buffer) == len(twin.transitions)
    batch = buffer.sample(len(buffer))
    for i, k in enumerate(batch.indices.tolist()):
        assert_array_equal(batch.next_observations[i], twin.n_step(k // 2, k % 2, 3, 0.9)[3])


# -- state -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ReplayBuffer", "PrioritizedReplayBuffer", "TrajectoryBuffer"])
@pytest.mark.parametrize("steps", [0, 7, 33])
def test_a_restored_buffer_goes_on_bit_for_bit(kind, steps, rng, tmp_path):
    def make(seed):
        return getattr(rl, kind)(40, SPACE, ACTION, num_envs=2, seed=seed)

    def use(buffer):
        fill(buffer, after)
        drawn = [buffer.sample(8, 3) if kind == "TrajectoryBuffer" else buffer.sample(8)]
        if kind == "PrioritizedReplayBuffer":
            buffer.update_priorities(drawn[0].indices, np.arange(8.0))
            drawn.append(buffer.sample(8))
        return core.tree.leaves(drawn)

    data = stream(rng, steps + 12, 2)
    before = [x[: steps + 1] if k == 0 else x[:steps] for k, x in enumerate(data)]
    after = [x[steps:] for x in data]
    original, restored = make(11), make(0)
    fill(original, before)
    if steps:
        original.sample(4, 2) if kind == "TrajectoryBuffer" else original.sample(4)
    core.save(tmp_path / "buffer.safetensors", original.state)
    restored.state = core.load(tmp_path / "buffer.safetensors")
    for a, b in zip(use(original), use(restored), strict=True):
        assert_array_equal(a, b)


def test_state_is_a_copy(rng):
    buffer = rl.ReplayBuffer(10, SPACE, ACTION)
    data = stream(rng, 8, 1)
    fill(buffer, [x[:5] if k == 0 else x[:4] for k, x in enumerate(data)])
    state = buffer.state
    kept = core.tree.map(np.array, state)
    fill(buffer, [x[4:] for x in data])
    for a, b in zip(core.tree.leaves(state), core.tree.leaves(kept), strict=True):
        assert_array_equal(a, b)


def test_the_same_seed_draws_the_same(rng):
    data = stream(rng, 20, 2)
    draws = []
    for seed in (1, 1, 2):
        buffer = rl.ReplayBuffer(100, SPACE, ACTION, num_envs=2, seed=seed)
        fill(buffer, data)
        draws.append(np.concatenate([buffer.sample(16).indices for _ in range(3)]))
    assert_array_equal(draws[0], draws[1])
    assert (draws[0] != draws[2]).any()
    assert (draws[0][:16] != draws[0][16:32]).any()


# -- bad input ---------------------------------------------------------------------------------------------------------


def good(**changed):
    step = {
        "observations": np.zeros((2, 2), np.float32),
        "actions": np.zeros(2, np.int64),
        "rewards": np.zeros(2),
        "terminated": np.zeros(2, bool),
        "truncated": np.zeros(2, bool),
        "next_observations": np.ones((2, 2), np.float32),
    }
    return {**step, **changed}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"observations": np.zeros((2, 3))}, r"add: observations must have shape \(2, 2\), got \(2, 3\)"),
        ({"observations": np.zeros((2, 2), complex)}, "observations must be float32, got complex128"),
        ({"actions": np.zeros((2, 1), np.int64)}, r"actions must have shape \(2,\), got \(2, 1\)"),
        ({"actions": np.zeros(2)}, "actions must be int64, got float64"),
        ({"rewards": np.array([0.0, np.nan])}, "rewards must be finite, got nan in environment 1 at step 0"),
        ({"rewards": np.zeros(3)}, r"rewards must have shape \(2,\), got \(3,\)"),
        ({"terminated": np.zeros(2)}, "terminated must be bool, got float64"),
        (
            {"next_observations": np.array([[0, 0], [0, np.inf]])},
            "observations must be finite, got inf in environment 1 at step 1",
        ),
        ({"values": np.zeros(2)}, r"extras must be \[\], got \['values'\]"),
    ],
)
def test_bad_steps_change_nothing(changed, message):
    buffer = rl.ReplayBuffer(10, SPACE, ACTION, num_envs=2)
    before = buffer.state
    with pytest.raises(rl.BufferError, match=message):
        buffer.add(**good(**changed))
    for a, b in zip(core.tree.leaves(buffer.state), core.tree.leaves(before), strict=True):
        assert_array_equal(a, b)


def test_steps_that_do_not_follow_each_other_are_refused():
    """Such as those of environments that restart in the step that ends an episode."""
    buffer = rl.ReplayBuffer(10, SPACE, ACTION, num_envs=2)
    buffer.add(**good(terminated=np.array([False, True])))
    other = np.ones((2, 2), np.float32)
    other[1] = 0
    with pytest.raises(rl.BufferError, match="got others in environment 1 .*NEXT_STEP"):
        buffer.add(**good(observations=other))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rl.ReplayBuffer(0, SPACE, ACTION), "ReplayBuffer: capacity must be an integer >= 1, got 0"),
        (lambda: rl.ReplayBuffer(1.5, SPACE, ACTION), "capacity must be an integer >= 1, got 1.5"),
        (lambda: rl.ReplayBuffer(10, "box", ACTION), "observation_space must be a space"),
        (lambda: rl.ReplayBuffer(10, SPACE, ((), object)), "dtype of fixed size"),
        (lambda: rl.ReplayBuffer(10**12, SPACE, ACTION), "capacity must fit into memory"),
        (lambda: rl.ReplayBuffer(10, SPACE, ACTION, discount=1.2), "discount must be a number from 0 to 1"),
        (lambda: rl.ReplayBuffer(10, SPACE, ACTION, n_step=0), "n_step must be an integer >= 1"),
        (lambda: rl.PrioritizedReplayBuffer(10, SPACE, ACTION, alpha=2.0), "alpha must be a number from 0 to 1"),
    ],
)
def test_bad_buffers(make, message):
    with pytest.raises(rl.BufferError, match=message):
        make()


def test_too_few_data(rng):
    buffer = rl.ReplayBuffer(10, SPACE, ACTION)
    with pytest.raises(rl.BufferError, match="must hold at least batch_size = 1 transitions, got 0"):
        buffer.sample(1)
    fill(buffer, stream(rng, 3, 1, ends=0.0))
    with pytest.raises(rl.BufferError, match="batch_size = 4 transitions, got 3"):
        buffer.sample(4)
    segments = rl.TrajectoryBuffer(10, SPACE, ACTION)
    with pytest.raises(rl.BufferError, match="must hold a step"):
        segments.rollout()
    fill(segments, stream(rng, 3, 1, ends=0.0))
    with pytest.raises(rl.BufferError, match="a segment of 4 steps that begins with a transition, got 3 steps"):
        segments.sample(1, 4)


def test_bad_priorities(rng):
    buffer = rl.PrioritizedReplayBuffer(10, SPACE, ACTION)
    fill(buffer, stream(rng, 5, 1, ends=0.0))
    before = buffer.priorities
    for indices, errors, message in [
        (np.array([0, 1]), np.array([0.1, np.nan]), "errors must be finite, got nan for index 1"),
        (np.array([0, 5]), np.zeros(2), "indices must be between 0 and 4, got 0 to 5"),
        (np.array([0.0]), np.zeros(1), "indices must be int64"),
        (np.array([0]), np.zeros(2), "errors as many"),
    ]:
        with pytest.raises(rl.BufferError, match=message):
            buffer.update_priorities(indices, errors)
    with pytest.raises(rl.BufferError, match="beta must be a number from 0 to 1, got 2"):
        buffer.sample(2, beta=2)
    assert_array_equal(buffer.priorities, before)


def test_a_state_of_another_buffer_is_refused(rng):
    small, large = rl.ReplayBuffer(10, SPACE, ACTION), rl.ReplayBuffer(20, SPACE, ACTION)
    with pytest.raises(rl.BufferError, match=r"rows and environments must be \(21, 1\), got \(11, 1\)"):
        large.state = small.state
    other = rl.ReplayBuffer(10, ((3,), np.float32), ACTION)
    with pytest.raises(rl.BufferError, match="observations must be float32 of shape"):
        other.state = small.state
