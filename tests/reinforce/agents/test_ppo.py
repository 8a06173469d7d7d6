"""PPO: its loss against formulas and other programs, its collection against a plain loop, that it learns, and what it
refuses.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.reporting import stop_at
from triskele import core
from triskele import reinforce as rl
from triskele.core import nn
from triskele.reinforce.agents.ppo import PPO, ActorCritic, ppo_loss
from triskele.reinforce.policy import Categorical, Gaussian

RLAX = json.loads((Path(__file__).parents[2] / "data" / "reinforce" / "rl_targets_rlax.json").read_text())

USUAL = SimpleNamespace(clip=0.2, clip_values=True, normalize_advantages=True, entropy=0.01, value_weight=0.5)


def small(**changes):
    """An agent that is quick to train."""
    return PPO(
        "CartPole-v1", **{"num_envs": 2, "num_steps": 16, "minibatches": 2, "epochs": 2, "hidden": (8,), **changes}
    )


def batch(rng, m, actions, **changes):
    """A made-up minibatch, in float64."""
    made = {
        "x": rng.standard_normal((m, 3)),
        "actions": actions,
        "log_probs": rng.uniform(-2, -0.5, m),
        "values": rng.standard_normal(m),
        "advantages": rng.standard_normal(m),
        "weights": np.ones(m),
        "mask": None,
    }
    return {**made, **changes}


def networks(rng, discrete=True):
    key = core.random.key(int(rng.integers(1000)))
    actor, critic = (
        nn.MLP.init(k, [3, 5, n], dtype=np.float64)
        for k, n in zip(core.random.split(key), (4 if discrete else 2, 1), strict=True)
    )
    head = Categorical(actor) if discrete else Gaussian(actor, np.array([0.1, -0.3]), (-1.0, -1.0), (1.0, 1.0))
    return ActorCritic(head, critic)


class TestLoss:
    def test_clipped_surrogate_of_rlax(self):
        """With the probability ratios and advantages of the reference."""
        want = RLAX["clipped_surrogate_pg_loss"]
        ratios, advantages = np.array(want["prob_ratios"]), np.array(want["adv"])
        m = len(ratios)
        model = ActorCritic(Categorical(nn.Linear(np.zeros((3, 2)))), nn.Linear(np.zeros((3, 1))))  # probabilities 1/2
        data = batch(
            np.random.default_rng(0), m, np.zeros(m, int), log_probs=np.log(0.5) - np.log(ratios), advantages=advantages
        )
        settings = SimpleNamespace(**{**vars(USUAL), "normalize_advantages": False, "clip": want["eps"]})
        assert ppo_loss(model, data, settings)[1]["policy_loss"] == pytest.approx(want["loss"], abs=1e-6)

    @pytest.mark.parametrize("discrete", [True, False])
    def test_against_the_formulas_written_out(self, rng, discrete):
        m = 9
        actions = rng.integers(0, 4, m) if discrete else rng.standard_normal((m, 2))
        model, data = networks(rng, discrete), batch(rng, m, actions)
        loss, parts = ppo_loss(model, data, USUAL)
        outputs = model.actor.network(data["x"])
        if discrete:
            p = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
            log_p, entropy = np.log(p[np.arange(m), actions]), np.mean(-(p * np.log(p)).sum(axis=1))
        else:
            std = np.exp(model.actor.log_std)
            log_p = np.sum(-((actions - outputs) ** 2) / (2 * std**2) - np.log(std * np.sqrt(2 * np.pi)), axis=1)
            entropy = np.sum(0.5 * np.log(2 * np.pi * np.e * std**2))
        ratio = np.exp(log_p - data["log_probs"])
        a = (data["advantages"] - data["advantages"].mean()) / (data["advantages"].std(ddof=1) + 1e-8)
        policy = np.mean(np.maximum(-a * ratio, -a * np.clip(ratio, 0.8, 1.2)))
        value, target = model.critic(data["x"])[:, 0], data["advantages"] + data["values"]
        near = data["values"] + np.clip(value - data["values"], -0.2, 0.2)
        error = 0.5 * np.mean(np.maximum((value - target) ** 2, (near - target) ** 2))
        assert parts["policy_loss"] == pytest.approx(policy)
        assert parts["value_loss"] == pytest.approx(error)
        assert parts["entropy"] == pytest.approx(entropy)
        assert loss == pytest.approx(policy + 0.5 * error - 0.01 * entropy)
        assert parts["clip_fraction"] == pytest.approx(np.mean(np.abs(ratio - 1) > 0.2))

    @pytest.mark.parametrize(("discrete", "masked"), [(True, False), (True, True), (False, False)])
    def test_gradient_against_finite_differences(self, rng, discrete, masked):
        m = 6
        actions = rng.integers(0, 4, m) if discrete else rng.standard_normal((m, 2))
        mask = None
        if masked:
            mask = rng.random((m, 4)) < 0.5
            mask[np.arange(m), actions] = True
        data = batch(rng, m, actions, mask=mask)
        core.check_grads(lambda model: ppo_loss(model, data, USUAL)[0], (networks(rng, discrete),), order=1, eps=1e-4)

    def test_steps_that_are_no_transitions_count_for_nothing(self, rng):
        model, actions = networks(rng), rng.integers(0, 4, 8)
        data = batch(rng, 8, actions, weights=np.array([1.0, 0, 1, 1, 0, 1, 1, 1]))
        kept = {k: None if v is None else v[data["weights"] > 0] for k, v in data.items()}
        loss = core.value_and_grad(lambda model, data: ppo_loss(model, data, USUAL)[0])
        for a, b in zip(core.tree.leaves(loss(model, data)), core.tree.leaves(loss(model, kept)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)

    def test_masked_actions_get_neither_probability_nor_entropy(self, rng):
        head, x = networks(rng).actor, rng.standard_normal((5, 3))
        mask = np.tile([True, False, True, False], (5, 1))
        log_p, entropy = head.log_prob_entropy(x, np.zeros(5, int), mask)
        two = head.network(x)[:, [0, 2]]
        np.testing.assert_allclose(log_p, nn.log_softmax(two)[:, 0])
        np.testing.assert_allclose(entropy, -np.sum(nn.softmax(two) * nn.log_softmax(two), axis=1))


class TestCollection:
    def test_machine_code_equals_the_loop_in_python(self):
        fast, slow = small(), small()
        slow._rollout._compiled = False
        for agent in (fast, slow):
            agent.train(32 * 6, progress=False)
        for name in ("observations", "actions", "log_probs", "values", "rewards", "terminated", "truncated"):
            np.testing.assert_array_equal(getattr(fast._rollout, name), getattr(slow._rollout, name), err_msg=name)

    def test_what_is_collected_is_what_the_networks_say(self):
        agent = small().train(32 * 4, report=(), progress=False)
        model, r = agent.model, agent._rollout
        noise = model.actor.noise(np.random.default_rng(3), (17, 2), 2)
        r.collect((agent.weights, None), noise)
        for t in range(16):
            action, _, log_prob = model.actor.sample(r.observations[t], noise[t])
            np.testing.assert_array_equal(action, r.actions[t])
            np.testing.assert_allclose(log_prob, r.log_probs[t], rtol=1e-5)
        np.testing.assert_allclose(
            model.critic(r.observations.reshape(-1, 4)).ravel(), r.values.ravel(), rtol=1e-4, atol=1e-6
        )

    def test_the_same_seed_gives_the_same_agent(self):
        a, b, c = (small(seed=s).train(96, progress=False) for s in (1, 1, 2))
        for x, y in zip(core.tree.leaves(a.model), core.tree.leaves(b.model), strict=True):
            np.testing.assert_array_equal(x, y)
        assert not np.array_equal(a.model.critic.layers[0].weight, c.model.critic.layers[0].weight)

    def test_the_learning_rate_falls_to_zero(self):
        rates = []
        small(learning_rate=1e-3).train(32 * 4, report=lambda x: rates.append(x["learning_rate"]), progress=False)
        np.testing.assert_allclose(rates, [1e-3, 0.75e-3, 0.5e-3, 0.25e-3])


class TestLearning:
    def test_cart_pole(self):
        agent = PPO("CartPole-v1", seed=3)
        before = agent.evaluate(50, deterministic=False).mean
        agent.train(50_000, progress=False)
        assert before < 60
        assert agent.episodes.mean_return > 150
        assert agent.evaluate(50).mean > 350

    def test_continuous_actions(self):
        """One step, the action has to be the observation: from an error of 1 to less than a tenth."""
        agent = PPO(
            Mirror,
            seed=0,
            num_envs=16,
            num_steps=32,
            minibatches=4,
            epochs=10,
            learning_rate=3e-3,
            normalize=False,
            discount=0.0,
            hidden=(16,),
        )
        agent.train(30_000, progress=False)
        x = np.linspace(-1, 1, 21, dtype=np.float32)[:, None]
        assert np.abs(agent.act(x) - x).mean() < 0.1

    def test_normalized_observations(self):
        agent = PPO(
            Far,
            seed=0,
            num_envs=8,
            num_steps=32,
            minibatches=4,
            epochs=8,
            learning_rate=3e-3,
            normalize=True,
            discount=0.0,
            hidden=(16,),
        )
        agent.train(20_000, progress=False)
        assert agent.evaluate(50).mean > 0.9, "the observations differ by 1 at a distance of 10,000"

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("env", "low", "high"), [("CartPole-v1", 488.75 - 18.40, 500), ("Acrobot-v1", -82.48 - 5.93, -82.48 + 5.93)]
    )
    def test_returns_of_cleanrl(self, env, low, high):
        """Mean return of the last episodes after 500,000 steps with the same hyper-parameters, as in CleanRL's
        docs/rl-algorithms/ppo.md.
        """
        found = []
        for seed in (1, 2, 3):
            curve = []
            PPO(env, seed=seed).train(500_000, report=curve.append, progress=False)
            found.append([x["return"] for x in curve[195::195]])  # every 100,000 steps
        curve = np.mean(found, axis=0)
        assert low <= curve[-1] <= high, f"mean returns were {curve}"


class Mirror(rl.Environment):
    """Pays minus the squared difference between observation and action."""

    state = [("x", np.float64)]
    observation_space, action_space, max_steps = rl.Box(-1, 1, (1,)), rl.Box(-2, 2, (1,)), 4

    @staticmethod
    def reset(state, stream):
        state.x = 2 * rl.random.uniform(stream) - 1

    @staticmethod
    def step(state, action, stream):
        reward = -((action[0] - state.x) ** 2)
        state.x = 2 * rl.random.uniform(stream) - 1
        return reward, False

    @staticmethod
    def observe(state, out):
        out[0] = state.x


class Far(rl.Environment):
    """Pays 1 for saying which of two observations is seen, both far away."""

    state = [("side", np.int64)]
    observation_space, action_space, max_steps = rl.Box(0, 20_000, (1,)), rl.Discrete(2), 1

    @staticmethod
    def reset(state, stream):
        state.side = rl.random.below(stream, 2)

    @staticmethod
    def step(state, action, stream):
        return 1.0 if action == state.side else 0.0, False

    @staticmethod
    def observe(state, out):
        out[0] = 10_000.0 + state.side


class Breaking(rl.Environment):
    """Shows NaN after forty steps."""

    state = [("age", np.int64)]
    observation_space, action_space, max_steps = rl.Box(0, 1, (1,)), rl.Discrete(2), 1000

    @staticmethod
    def reset(state, stream):
        state.age = 0

    @staticmethod
    def step(state, action, stream):
        state.age += 1
        return 1.0, False

    @staticmethod
    def observe(state, out):
        out[0] = 0.5 if state.age < 40 else np.nan


class TestMasks:
    """An environment of Gymnasium in which a random half of the actions is forbidden, and the allowed one of the
    highest number pays.
    """

    @pytest.fixture
    def forbidding(self):
        gymnasium = pytest.importorskip("gymnasium")

        class Forbidding(gymnasium.Env):
            observation_space, action_space = gymnasium.spaces.Box(0, 1, (6,), np.float32), gymnasium.spaces.Discrete(6)

            def show(self):
                self.mask = self.np_random.random(6) < 0.5
                self.mask[self.np_random.integers(6)] = True
                return self.np_random.random(6).astype(np.float32), {"action_mask": self.mask}

            def reset(self, *, seed=None, options=None):
                super().reset(seed=seed)
                self.left = 8
                return self.show()

            def step(self, action):
                assert self.mask[action], "a forbidden action was taken"
                reward = float(action == np.flatnonzero(self.mask)[-1])
                self.left -= 1
                observation, info = self.show()
                return observation, reward, self.left == 0, False, info

        return Forbidding

    def test_forbidden_actions_are_never_taken_and_the_rest_is_learned(self, forbidding):
        agent = PPO(forbidding, seed=0, num_envs=4, num_steps=32, learning_rate=5e-3, hidden=(16,))
        first = agent.evaluate(20, deterministic=False).mean
        agent.train(4_000, progress=False)
        r = agent._rollout
        allowed = np.take_along_axis(r.masks[:-1], r.actions[..., None], axis=-1)[..., 0]
        assert allowed.all()
        assert agent.evaluate(20).mean > first + 1

    def test_a_mask_that_allows_nothing_is_told(self, forbidding):
        class Closed(forbidding):
            def show(self):
                observation, info = super().show()
                return observation, {"action_mask": np.zeros(6, bool)}

        with pytest.raises(rl.EnvError, match="must allow at least one action, got none in environment 0"):
            PPO(Closed, num_envs=2)

    def test_goes_on_from_a_checkpoint_with_new_episodes(self, forbidding, tmp_path):
        agent = PPO(forbidding, num_envs=2, num_steps=8, hidden=(8,)).train(
            64, checkpoint=tmp_path / "run.chk", progress=False
        )
        resumed = PPO.load(tmp_path / "run.chk", env=forbidding)
        np.testing.assert_array_equal(resumed.model.critic.layers[0].weight, agent.model.critic.layers[0].weight)
        assert resumed.train(32, progress=False).steps == 96


class TestCheckpoints:
    @pytest.mark.parametrize("env", ["CartPole-v1", Mirror])
    def test_resumes_bit_for_bit(self, env, tmp_path):
        options = {
            "num_envs": 2,
            "num_steps": 16,
            "minibatches": 2,
            "epochs": 2,
            "hidden": (8,),
            "normalize": True,
            "seed": 5,
        }
        whole = PPO(env, **options).train(32 * 8, progress=False)
        path = tmp_path / "run.chk"
        PPO(env, **options).train(32 * 8, report=stop_at(96), checkpoint=path, progress=False)
        resumed = PPO.load(path, env=None if isinstance(env, str) else env).train(progress=False)
        assert resumed.steps == whole.steps == 256
        for a, b in zip(
            core.tree.leaves((whole.model, whole.moments)),
            core.tree.leaves((resumed.model, resumed.moments)),
            strict=True,
        ):
            np.testing.assert_array_equal(a, b)
        for k, v in whole.env.state.items():
            np.testing.assert_array_equal(resumed.env.state[k], v, err_msg=k)
        np.testing.assert_array_equal(whole.observation_moments.mean, resumed.observation_moments.mean)

    @pytest.mark.slow
    def test_a_process_that_is_killed_leaves_a_whole_checkpoint(self, tmp_path):
        path = tmp_path / "run.chk"
        code = (
            f"from triskele import reinforce as rl\nagent = rl.PPO('CartPole-v1', hidden=(8,), num_steps=16)\n"
            f"agent.train(10**9, checkpoint={str(path)!r}, every=64, progress=False, report=lambda x: "
            f"print(x['step'], flush=True))"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        with process:
            for line in process.stdout:
                if int(line) >= 64 * 20:
                    process.kill()
                    break
        agent = PPO.load(path)
        assert agent.steps >= 64 * 18 and agent.steps % 64 == 0
        assert agent.target == 10**9
        assert agent.evaluate(2).returns.min() > 0

    def test_networks_of_ones_own_and_activations_are_kept(self, tmp_path):
        agent = small(actor=nn.MLP.init(core.random.key(0), [4, 6, 2], activation=nn.relu), activation=nn.silu)
        agent.train(64, checkpoint=tmp_path / "run.chk", progress=False)
        resumed = PPO.load(tmp_path / "run.chk")
        assert resumed.model.actor.network.activation is nn.relu and resumed.model.critic.activation is nn.silu

    def test_a_nameless_activation_is_refused_before_the_first_step(self, tmp_path):
        agent = small(activation=lambda x: x)
        with pytest.raises(rl.CheckpointError, match="imported by name"):
            agent.train(64, checkpoint=tmp_path / "run.chk", progress=False)
        assert agent.steps == 0


class TestBadInput:
    def test_nan_from_the_environment_leaves_the_checkpoint(self, tmp_path):
        path = tmp_path / "run.chk"
        agent = PPO(Breaking, num_envs=2, num_steps=16, minibatches=2, hidden=(8,))
        with pytest.raises(
            rl.EnvError, match="PPO: observations must be finite, got nan from environment 0 .* after 40 steps"
        ):
            agent.train(1000, checkpoint=path, every=32, progress=False)
        assert PPO.load(path, env=Breaking).steps == 64
        assert all(np.isfinite(x).all() for x in core.tree.leaves(agent.model))

    def test_nan_in_a_network(self):
        agent = small()
        agent.model.actor.network.layers[0].weight[0, 0] = np.nan
        with pytest.raises(FloatingPointError, match="what the networks give must stay finite"):
            agent.train(32, progress=False)
        with pytest.raises(FloatingPointError, match="parameters must be finite"):
            agent.act(np.zeros(4))

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            (
                {"actor": nn.MLP.init(core.random.key(0), [4, 8, 3])},
                r"actor must make 2 numbers of each observation \(4,\), got shape \(2, 3\)",
            ),
            ({"critic": 7}, "critic must make 1 number of each observation .*, got int"),
        ],
    )
    def test_networks_that_do_not_fit_the_spaces(self, changes, message):
        with pytest.raises(rl.EnvError, match=message):
            small(**changes)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"minibatches": 3}, r"num_envs \* num_steps must be a multiple of minibatches, got 2 \* 16 and 3"),
            ({"learning_rate": -1.0}, "learning_rate must be a positive number, got -1.0"),
            ({"discount": 1.5}, "discount must be a number from 0 to 1, got 1.5"),
            ({"epochs": 0}, "epochs must be an integer >= 1, got 0"),
            ({"clip": float("nan")}, "clip must be a positive number"),
            ({"num_envs": 0}, "num_envs must be an integer >= 1, got 0"),
            ({"lam": None}, "lam must be a number from 0 to 1, got None"),
            ({"entropy": float("nan")}, "entropy must be a number >= 0, got nan"),
            ({"hidden": (8, 0)}, "each width in hidden must be an integer >= 1, got 0"),
            ({"activation": 3}, "activation must be a function, got int 3"),
            ({"seed": -1}, "seed"),
        ],
    )
    def test_hyper_parameters_out_of_range(self, changes, message):
        with pytest.raises(ValueError, match=message):
            small(**changes)

    def test_observations_of_a_wrong_shape(self):
        with pytest.raises(rl.EnvError, match=r"an observation must have shape \(4,\)"):
            small().act(np.zeros(5))
