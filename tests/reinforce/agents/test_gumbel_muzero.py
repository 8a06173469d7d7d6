"""Gumbel MuZero: targets worked out by hand, gradients by finite differences, worlds learned to the optimum,
bit-for-bit resumption, clear errors.
"""

import subprocess
import sys
from operator import attrgetter
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.reporting import stop_at
from triskele import core
from triskele import reinforce as rl
from triskele.core import nn
from triskele.reinforce.agents.gumbel_muzero import targets, unrolled_loss
from triskele.reinforce.agents.muzero_network import MuZeroNetwork, Support, scaled
from triskele.reinforce.buffers.trajectory import Segments
from triskele.reinforce.environment import EnvRules
from triskele.reinforce.random import below

QUICK = {
    "num_envs": 8,
    "num_steps": 4,
    "simulations": 8,
    "updates": 4,
    "batch_size": 32,
    "learning_starts": 100,
    "embedding": 16,
    "hidden": (16,),
    "td_steps": 3,
    "unroll_steps": 3,
}


def targets_of(rewards, values, unroll, steps, discount, terminated=(), truncated=()):
    """Targets of one segment of these rewards, ended after the steps given; the policies are numbered."""
    count = len(rewards)
    assert count == unroll + steps and len(values) == count + 1
    ends = [np.isin(np.arange(count), list(x))[:, None] for x in (terminated, truncated)]
    policies = np.stack([np.arange(count) / 10, 1 - np.arange(count) / 10], axis=-1)[:, None]
    drawn = Segments(
        np.zeros((count + 1, 1, 3)),
        np.arange(count)[:, None] % 2,
        np.array(rewards, float)[:, None],
        *ends,
        None,
        {"policies": policies},
    )
    return targets(drawn, np.array(values, float)[:, None], unroll, steps, discount)


def test_values_are_rewards_and_the_value_some_steps_later():
    found = targets_of([1, 2, 3, 4, 5], [10, 20, 30, 40, 50, 60], 2, 3, 0.5)
    # r0 + r1 / 2 + r2 / 4 + v3 / 8, and so on
    assert_allclose(found["values"][:, 0], [1 + 1 + 0.75 + 5, 2 + 1.5 + 1 + 6.25, 3 + 2 + 1.25 + 7.5])
    assert_allclose(found["rewards"][:, 0], [1, 2])
    assert found["actions"][:, 0].tolist() == [0, 1]
    assert_allclose(found["policies"][:, 0, 0], [0, 0.1, 0.2])
    for name, count in (("value_weights", 3), ("policy_weights", 3), ("reward_weights", 2)):
        assert found[name][:, 0].tolist() == [1] * count


def test_after_a_terminated_step_nothing_is_worth_anything():
    """Step 1 ends the episode, row 2 is the restart: the model learns to stay at 0, and no policy there."""
    found = targets_of([1, 2, 7, 7, 7, 7], [9] * 7, 3, 3, 0.5, terminated=[1])
    assert_allclose(found["values"][:, 0], [1 + 0.5 * 2, 2, 0, 0])
    assert_allclose(found["rewards"][:, 0], [1, 2, 0])
    assert found["value_weights"][:, 0].tolist() == [1, 1, 1, 1] and found["reward_weights"][:, 0].tolist() == [1, 1, 1]
    assert found["policy_weights"][:, 0].tolist() == [1, 1, 0, 0]


def test_after_a_truncated_step_nothing_is_known():
    """Step 1 is cut off: the value of the observation then reached (row 2, where the environment restarts) stands for
    the rest.
    """
    found = targets_of([1, 2, 7, 7, 7, 7], [10, 20, 30, 40, 50, 60, 70], 3, 3, 0.5, truncated=[1])
    assert_allclose(found["values"][:2, 0], [1 + 0.5 * (2 + 0.5 * 30), 2 + 0.5 * 30])
    assert found["value_weights"][:, 0].tolist() == found["policy_weights"][:, 0].tolist() == [1, 1, 0, 0]
    assert found["reward_weights"][:, 0].tolist() == [1, 1, 0]


def test_an_end_beyond_the_unrolled_steps_still_ends_returns():
    assert_allclose(targets_of([1, 1, 1, 7, 7], [9] * 6, 1, 4, 1.0, terminated=[2])["values"][:, 0], [3, 2])
    assert_allclose(
        targets_of([1, 1, 1, 7, 7], [9] * 6, 1, 4, 1.0, terminated=[4])["values"][:, 0],
        [1 + 1 + 1 + 7 + 9, 1 + 1 + 7 + 7],
    )


@pytest.mark.parametrize("ends", [{"truncated": [2]}, {"terminated": [0, 2]}, {"truncated": [0]}])
def test_what_ends_later_in_a_segment_changes_nothing(ends):
    one = targets_of([1, 2, 7, 7, 7, 7], [9] * 7, 3, 3, 0.5, terminated=[0])
    two = targets_of([1, 2, 7, 7, 7, 7], [9] * 7, 3, 3, 0.5, **{"terminated": [0], **ends})
    for name in one:
        assert_array_equal(one[name], two[name])


@pytest.mark.parametrize("bins", [61, 2, 1])
def test_values_go_through_a_support_and_back(bins):
    """A network that says exactly what the loss asks for says the value, where its logits can; and no other has a lower
    loss.
    """
    support, values = Support(-20.0, 20.0, bins), np.array([-150.0, -1.0, 0.0, 0.3, 7.0, 250.0])
    if bins == 1:
        outputs = rl.value_transforms.signed_hyperbolic(values)[:, None]
    else:
        outputs = np.log(
            rl.value_transforms.two_hot(rl.value_transforms.signed_hyperbolic(values), -20.0, 20.0, bins) + 1e-300
        )
    assert_allclose(support.mean(outputs), values, rtol=1e-9, atol=1e-9)
    best = support.loss(outputs, values)
    rng = np.random.default_rng(0)
    for _ in range(5):
        assert (support.loss(outputs + 0.1 * rng.standard_normal(outputs.shape), values) >= best).all()


def network(dtype=np.float64, **changes):
    settings = SimpleNamespace(
        support=Support(-5.0, 5.0, 7),
        embedding=6,
        hidden=(8,),
        activation=np.tanh,
        representation=None,
        dynamics=None,
        prediction=None,
    )
    vars(settings).update(changes)
    made = MuZeroNetwork.init(core.random.key(3), rl.Box(-1, 1, (3,)), 2, settings)
    rng = np.random.default_rng(1)  # heads begin at 0, where gradients of what is before them vanish
    return core.tree.map(lambda x: x.astype(dtype) + 0.3 * rng.standard_normal(x.shape).astype(dtype), made)


def some_batch(rows=4, unroll=3):
    rng = np.random.default_rng(2)
    shape = (unroll + 5, rows)
    ends = rng.random(shape) < 0.15, rng.random(shape) < 0.15
    observations, values = rng.standard_normal((unroll + 6, rows, 3)), 3 * rng.standard_normal((unroll + 6, rows))
    drawn = Segments(
        observations,
        rng.integers(0, 2, shape),
        rng.standard_normal(shape),
        *ends,
        None,
        {"policies": rng.dirichlet([1, 1], shape)},
    )
    return targets(drawn, values, unroll, 5, 0.9)


@pytest.mark.parametrize("bins", [7, 1])
def test_gradient_of_the_unrolled_loss(bins):
    made, batch = network(support=Support(-5.0, 5.0, bins)), some_batch()
    # smooth but where the least or greatest number changes
    core.check_grads(lambda n: unrolled_loss(n, batch, 0.7, gradient_scale=1.0)[0], (made,), order=1, eps=1e-5)


def test_unrolled_loss_by_hand():
    """Place by place and row by row; places after the first weigh one part in three."""
    made, batch, rows = network(), some_batch(rows=4, unroll=3), 4
    wanted = dict.fromkeys(("policy_loss", "value_loss", "reward_loss"), 0.0)
    embedding = made.represent(batch["observations"])
    for k, share in enumerate((1, 1 / 3, 1 / 3, 1 / 3)):
        logits, values = made.predict(embedding)
        for row in range(rows):
            log_p = logits[row] - np.log(np.sum(np.exp(logits[row])))
            cross = -np.sum(batch["policies"][k, row] * log_p)
            wanted["policy_loss"] += share * batch["policy_weights"][k, row] * cross / rows
            error = made.support.loss(values[[row]], batch["values"][k, [row]])[0]
            wanted["value_loss"] += share * batch["value_weights"][k, row] * error / rows
        if k < 3:
            embedding, rewards = made.step(embedding, batch["actions"][k])
            errors = made.support.loss(rewards, batch["rewards"][k])
            wanted["reward_loss"] += np.sum(errors * batch["reward_weights"][k]) / 3 / rows
    loss, parts = unrolled_loss(made, batch, 0.7)
    assert parts == pytest.approx(wanted) and min(wanted.values()) > 0.1
    assert loss == pytest.approx(wanted["policy_loss"] + 0.7 * wanted["value_loss"] + wanted["reward_loss"])
    assert 0 < np.mean(batch["value_weights"]) and np.mean(batch["policy_weights"]) < 1  # of some that do not count


def test_gradients_through_the_model_are_halved_at_each_step():
    """Of a model unrolled once, representation and dynamics get the whole gradient of the first place, and half of what
    comes through the step.
    """
    made, batch = network(), some_batch(unroll=1)

    def gradient(scale):
        return core.grad(lambda n: unrolled_loss(n, batch, 0.7, gradient_scale=scale)[0])(made)

    none, half, whole = (core.tree.leaves(gradient(s).representation) for s in (0.0, 0.5, 1.0))
    for a, b, c in zip(none, half, whole, strict=True):
        assert_allclose(b, (a + c) / 2, rtol=1e-9, atol=1e-12)
        assert abs(a - c).max() > 1e-6
    for a, b in zip(core.tree.leaves(gradient(0.5).dynamics), core.tree.leaves(gradient(1.0).dynamics), strict=True):
        assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_updates_begin_with_the_first_whole_batch():
    for size, updates in ((32, 4), (33, 0)):  # an iteration has 32 places, each with the two steps that follow
        agent = rl.GumbelMuZero(
            "CartPole-v1", **QUICK | {"learning_starts": 0, "batch_size": size, "unroll_steps": 1, "td_steps": 1}
        )
        assert agent.train(32, progress=False).updates == updates


def test_networks_begin_without_opinions():
    made = rl.GumbelMuZero("CartPole-v1").network
    x = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    embedding = made.represent(x)
    assert_allclose(embedding.min(axis=1), 0)
    assert_allclose(embedding.max(axis=1), 1, rtol=1e-4)
    following, rewards = made.step(embedding, np.array([0, 1, 0, 1, 0]))
    assert abs(following[0] - made.step(embedding[:1], np.array([1]))[0][0]).max() > 1e-3  # actions make a difference
    logits, values = made.predict(embedding)
    assert_array_equal(logits, 0)
    assert_allclose([made.support.mean(rewards), made.support.mean(values)], 0, atol=1e-5)


class Line(rl.Environment):
    """Five places in a row; the last pays 1 and the first 0.2, and both end the episode."""

    state = [("place", np.int64)]
    observation_space, action_space, max_steps = rl.Box(0, 1, (5,)), rl.Discrete(2), 30

    @staticmethod
    def reset(state, stream):
        state.place = 1 + below(stream, 3)

    @staticmethod
    def step(state, action, stream):
        state.place += 2 * action - 1
        last, first = state.place == 4, state.place == 0
        return 1.0 * last + 0.2 * first, last or first

    @staticmethod
    def observe(state, out):
        out[:] = 0.0
        out[state.place] = 1.0


LINE = {
    **QUICK,
    "discount": 0.9,
    "td_steps": 2,
    "buffer_size": 2000,
    "learning_rate": 5e-3,
    "num_steps": 8,
    "updates": 8,
    "batch_size": 64,
}


@pytest.mark.parametrize(
    "options",
    [{"support": Support(-2.0, 2.0, 21)}, {"support": Support(bins=1)}, {"search": rl.MuZeroPUCT()}],
    ids=["two-hot", "plain numbers", "PUCT"],
)
def test_a_line_is_learned_to_the_optimum(options):
    """The policy alone, the search, the values and the model know that the far end is worth more."""
    agent = rl.GumbelMuZero(Line(), seed=1, **LINE, **options).train(5000, progress=False)
    assert agent.evaluate(10).returns.tolist() == [1.0] * 10
    assert agent.evaluate(10, simulations=16).returns.tolist() == [1.0] * 10
    made = agent.network
    places = made.represent(np.eye(5, dtype=np.float32)[1:4])
    values = made.support.mean(made.predict(places)[1])
    assert_allclose(values, [0.81, 0.9, 1.0], atol=0.2)  # those of the search, which still tries others
    rewards = made.support.mean(made.step(places, np.ones(3, int))[1])
    assert_allclose(rewards, [0, 0, 1], atol=0.2)  # of a step to the right


@pytest.mark.parametrize("env", ["CartPole-v1", "MinAtar/Breakout-v1"])
def test_a_resumed_training_is_the_one_that_was_not_interrupted(env, tmp_path):
    def make():
        return rl.GumbelMuZero(env, seed=3, **QUICK)

    whole = make().train(640, progress=False)
    make().train(640, progress=False, checkpoint=tmp_path / "run.chk", report=stop_at(320))
    resumed = rl.GumbelMuZero.load(tmp_path / "run.chk")
    assert resumed.steps == 320 and resumed.updates > 0
    resumed.train(progress=False)
    for name in ("network", "moments", "_buffer.state"):
        for a, b in zip(
            core.tree.leaves(attrgetter(name)(whole)), core.tree.leaves(attrgetter(name)(resumed)), strict=True
        ):
            assert_array_equal(a, b)


def test_the_same_seed_gives_the_same_numbers_with_any_number_of_threads():
    found, before = [], core.get_threads()
    try:
        for threads, seed in ((1, 5), (2, 5), (2, 6)):
            core.set_threads(threads)
            found.append(
                core.tree.leaves(
                    rl.GumbelMuZero("CartPole-v1", seed=seed, **{**QUICK, "num_envs": 16})
                    .train(640, progress=False)
                    .network
                )
            )
    finally:
        core.set_threads(before)
    for a, b in zip(*found[:2], strict=True):
        assert_array_equal(a, b)
    assert any((a != b).any() for a, b in zip(found[0], found[2], strict=True))


def test_the_policy_is_loaded_without_the_agent(tmp_path):
    agent = rl.GumbelMuZero("CartPole-v1", seed=0, **QUICK).train(300, progress=False)
    agent.policy.save(tmp_path / "policy.safetensors")
    x = np.random.default_rng(0).standard_normal((16, 4)).astype(np.float32)
    wanted = np.argmax(agent.network.predict(agent.network.represent(x))[0], axis=1)
    assert_array_equal(rl.Policy.load(tmp_path / "policy.safetensors")(x), wanted)
    code = (
        f"import sys; from triskele import reinforce as rl; rl.Policy.load({str(tmp_path / 'policy.safetensors')!r}); "
        f"print(any('training' in m or 'mcts' in m for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() == [
        "False"
    ]


def test_networks_of_ones_own():
    given = nn.MLP.init(core.random.key(0), [4, 24])
    agent = rl.GumbelMuZero("CartPole-v1", representation=given, **QUICK).train(200, progress=False)
    assert agent.updates > 0 and np.shape(agent.network.represent(np.zeros((3, 4), np.float32))) == (3, 24)


def test_embeddings_are_scaled_even_when_flat():
    assert_allclose(scaled(np.array([[2.0, 2.0], [1.0, 3.0]])), [[0, 0], [0, 1]], atol=1e-5)


@pytest.mark.parametrize(
    ("env", "options", "error", "message"),
    [
        ("Pendulum-v1", {}, rl.EnvError, "GumbelMuZero: actions must be Discrete, got Box"),
        ("CartPole-v1", {"simulations": 0}, ValueError, "simulations must be an integer >= 1, got 0"),
        ("CartPole-v1", {"unroll_steps": 2.5}, ValueError, "unroll_steps must be an integer >= 1, got 2.5"),
        ("CartPole-v1", {"discount": 1.5}, ValueError, "discount must be a number from 0 to 1, got 1.5"),
        ("CartPole-v1", {"learning_rate": -1.0}, ValueError, "learning_rate must be a positive number"),
        (
            rl.games.TicTacToe(),
            {},
            rl.EnvError,
            r"env must be an environment, got the game TicTacToe\(\) \(AlphaZero learns games\)",
        ),
        ("CartPole-v1", {"hidden": 64}, ValueError, "hidden must be widths of layers"),
        ("CartPole-v1", {"activation": "relu"}, ValueError, "activation must be a function, got str 'relu'"),
        (
            "CartPole-v1",
            {"representation": lambda x: x},
            rl.EnvError,
            "representation must be a tree of arrays that can be called, .* got function",
        ),
        (
            "CartPole-v1",
            {"dynamics": nn.Linear(np.full((66, 125), np.nan, np.float32))},
            rl.EnvError,
            "parameters of dynamics must be finite",
        ),
        ("CartPole-v1", {"hidden": "64"}, ValueError, "each width in hidden must be an integer >= 1, got '6'"),
        (
            "CartPole-v1",
            {"buffer_size": 200},
            ValueError,
            r"buffer_size must hold num_envs \* \(num_steps \+ unroll_steps \+ td_steps\) = 368 steps",
        ),
        (
            "CartPole-v1",
            {"search": rl.PUCT()},
            ValueError,
            r"search must be Gumbel\(...\) or MuZeroPUCT\(...\), got PUCT",
        ),
        (
            "CartPole-v1",
            {"support": (-10, 10, 21)},
            ValueError,
            r"support must be Support\(low, high, bins\), got tuple \(-10, 10, 21\)",
        ),
        (
            "CartPole-v1",
            {"representation": nn.MLP.init(core.random.key(0), [3, 8])},
            rl.EnvError,
            r"representation must take arrays of shape \(N, 4\), but raised ValueError",
        ),
        (
            "CartPole-v1",
            {"dynamics": nn.MLP.init(core.random.key(0), [66, 8])},
            rl.EnvError,
            r"dynamics must give \(N, 125\) for \(N, 66\), got shape \(2, 8\)",
        ),
        (
            "CartPole-v1",
            {"prediction": nn.MLP.init(core.random.key(0), [64, 62])},
            rl.EnvError,
            r"prediction must give \(N, 63\) for \(N, 64\), got shape \(2, 62\)",
        ),
        ("CartPole-v1", {"prediction": "mlp"}, rl.EnvError, "prediction must be a network .* got str"),
    ],
)
def test_bad_settings(env, options, error, message):
    with pytest.raises(error, match=message):
        rl.GumbelMuZero(env, **options)


class Broken(rl.Environment):
    """Something is NaN in the tenth step."""

    state = [("count", np.int64)]
    observation_space, action_space = rl.Box(-np.inf, np.inf, (1,)), rl.Discrete(2)

    def __init__(self, which):
        self._which = which

    def rules(self):
        which = self._which

        def reset(state, stream):
            state.count = 0

        def step(state, action, stream):
            state.count += 1
            return np.nan if which == 0 and state.count == 10 else 0.0, False

        def observe(state, out):
            out[0] = (
                np.nan
                if which == 1 and state.count == 10
                else 3e38
                if which == 2 and state.count == 10
                else state.count
            )

        return EnvRules(reset, step, observe)


@pytest.mark.parametrize(
    ("which", "error", "message"),
    [
        (0, rl.BufferError, "rewards must be finite, got nan in environment 0 at step 9"),
        (1, rl.EnvError, "observations must be finite, got NaN or infinity in environment 0"),
        (2, rl.EvaluatorError, "MuZero: the model must give finite numbers, got NaN or infinity at node 0"),
    ],
)
def test_what_is_no_number_is_named(which, error, message):
    with pytest.raises(error, match=message):
        rl.GumbelMuZero(Broken(which), representation=nn.Linear(np.full((1, 16), 10, np.float32)), **QUICK).train(
            200, progress=False
        )


def test_planners_check_what_they_are_given():
    plan = rl.GumbelMuZero("CartPole-v1", **QUICK).planner(4)
    assert np.shape(plan(np.zeros(4))) == () and plan(np.zeros((3, 4))).shape == (3,)
    assert plan(np.zeros(4), mask=[False, True]) == 1
    for observation, message in (
        (
            np.zeros(5),
            r"an observation must have shape \(4,\), or \(N, 4\) for several, got "
            r"\(5,\)",
        ),
        (np.full(4, np.nan), "must be finite"),
    ):
        with pytest.raises(rl.EnvError, match=message):
            plan(observation)
    with pytest.raises(rl.SearchError, match="simulations must be an integer >= 1, got -3"):
        rl.GumbelMuZero("CartPole-v1", **QUICK).evaluate(4, simulations=-3)


def test_bad_supports():
    for arguments in ((1, 1, 5), (-1, 1, 0), (-1, np.inf, 5)):
        with pytest.raises(ValueError, match="Support: there must be at least one bin, and low < high"):
            Support(*arguments)


@pytest.mark.slow
def test_learning_curve():
    """The defaults balance a pole."""
    agent = rl.GumbelMuZero("CartPole-v1", seed=0).train(64_000, progress=False)
    assert agent.evaluate(100).mean > 450 and agent.evaluate(16, simulations=16).mean > 450
