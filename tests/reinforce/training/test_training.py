"""What all agents share, on an agent that only counts: loop, reports, checkpoints, policies, statistics."""

import csv
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reporting import stop_at
from triskele import core
from triskele import reinforce as rl
from triskele.core import nn
from triskele.core.show.report import Report
from triskele.reinforce import storage
from triskele.reinforce.policy import Categorical, Flat, Gaussian, Greedy, Policy, SquashedGaussian
from triskele.reinforce.training.agent import Agent
from triskele.reinforce.training.episodes import Episodes
from triskele.reinforce.training.normalize import ReturnScale, RunningMoments


def rows_of(path):
    with open(path) as file:
        return list(csv.DictReader(file))


def network(*sizes, seed=0):
    return nn.MLP.init(core.random.key(seed), list(sizes))


class Counter(Agent):
    """Takes ten steps at a time and learns nothing."""

    kept = ("seen",)

    def __init__(self, env, *, seed=0, num_envs=2, fail_at=None):
        super().__init__(env, {"seed": seed, "num_envs": num_envs, "fail_at": fail_at})
        self.env.reset()
        self.seen = np.zeros(1)

    def iterate(self):
        if self.settings.fail_at is not None and self.steps >= self.settings.fail_at:
            raise RuntimeError("the environment broke")
        n = self.env.num_envs
        for _ in range(5):
            observation, reward, terminated, truncated, _ = self.env.step(np.arange(n) % 2)
            self.episodes.add(reward[None], terminated[None], truncated[None])
            self.seen = self.seen + observation.sum()
        self.steps += 5 * n
        return {"seen": float(self.seen[0])}

    @property
    def policy(self):
        return Policy(Categorical(network(4, 2)), (4,), None, 2)


@pytest.fixture
def agent():
    return Counter("CartPole-v1")


class TestLoop:
    def test_takes_as_many_steps_as_asked_and_goes_on_from_there(self, agent):
        assert agent.train(40, progress=False) is agent
        assert agent.steps == 40
        assert agent.train(20, progress=False).steps == 60
        assert (agent.start, agent.target) == (40, 60)

    def test_reports_get_the_numbers_of_every_iteration(self, agent):
        curve = []
        agent.train(30, report=curve.append, progress=False)
        assert [x["step"] for x in curve] == [10, 20, 30]
        assert {"episodes", "return", "length", "seen", "steps_per_second"} < set(curve[0])
        assert curve[0]["return"] is None, "no episode has ended yet"

    def test_a_report_may_stop_the_training(self, agent):
        agent.train(1000, report=[stop_at(30), lambda x: None], progress=False)
        assert agent.steps == 30
        assert agent.train(progress=False).steps == 1000, "what was left"

    @pytest.mark.parametrize("wrong", [0, -5, 2.5, True, "many"])
    def test_refuses_steps_that_are_no_positive_number(self, agent, wrong):
        with pytest.raises(ValueError, match="Counter.train: total_steps must be an integer >= 1"):
            agent.train(wrong, progress=False)

    def test_nothing_left_to_do(self, agent):
        with pytest.raises(ValueError, match="because no training is unfinished"):
            agent.train(progress=False)

    def test_a_report_that_is_no_function_is_refused_before_the_first_step(self, agent):
        with pytest.raises(TypeError, match="report must be a function"):
            agent.train(10, report=["curve.csv"], progress=False)
        assert agent.steps == 0

    def test_reports_are_closed_whatever_happens(self):
        events = []

        class Watch(Report):
            def open(self, step):
                events.append("open")

            def __call__(self, numbers):
                events.append(numbers["step"])

            def close(self):
                events.append("close")

        with pytest.raises(RuntimeError, match="broke"):
            Counter("CartPole-v1", fail_at=20).train(100, report=Watch(), progress=False)
        assert events == ["open", 10, 20, "close"]

    def test_the_bar_shows_steps(self, agent, capsys):
        agent.train(40, progress=True)
        assert "40.0/40.0" in capsys.readouterr().err

    def test_settings_are_checked(self):
        with pytest.raises(ValueError, match="Counter: num_envs must be an integer >= 1, got 0"):
            Counter("CartPole-v1", num_envs=0)
        with pytest.raises(ValueError, match="seed must be an integer"):
            Counter("CartPole-v1", seed=-1)


class TestCheckpoints:
    def test_a_resumed_agent_goes_on_bit_for_bit(self, agent, tmp_path):
        path = tmp_path / "run.chk"
        whole = Counter("CartPole-v1").train(200, progress=False)
        agent.train(200, report=stop_at(90), checkpoint=path, progress=False)
        resumed = Counter.load(path).train(progress=False)
        assert resumed.steps == 200
        assert resumed.seen == whole.seen
        assert resumed.episodes.finished == whole.episodes.finished > 0
        np.testing.assert_array_equal(resumed.episodes.returns, whole.episodes.returns)
        for k, v in whole.env.state.items():
            np.testing.assert_array_equal(resumed.env.state[k], v)

    def test_written_as_often_as_asked(self, tmp_path):
        path, sizes = tmp_path / "run.chk", []
        Counter("CartPole-v1").train(
            60, checkpoint=path, every=20, report=lambda x: sizes.append(path.exists()), progress=False
        )
        assert sizes == [False, False, True, True, True, True]

    def test_an_error_leaves_the_last_checkpoint_whole(self, tmp_path):
        path = tmp_path / "run.chk"
        with pytest.raises(RuntimeError, match="broke"):
            Counter("CartPole-v1", fail_at=50).train(100, checkpoint=path, every=20, progress=False)
        assert Counter.load(path).steps == 40
        assert os.listdir(tmp_path) == ["run.chk"]

    def test_a_full_disk_leaves_the_last_checkpoint_whole(self, agent, tmp_path, monkeypatch):
        path = tmp_path / "run.chk"
        agent.train(20, checkpoint=path, progress=False)
        before = path.read_bytes()

        def full(*args):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "replace", full)
        with pytest.raises(OSError, match="No space left"):
            agent.train(20, checkpoint=path, progress=False)
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == ["run.chk"]

    @pytest.mark.parametrize("number, error", [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
    def test_signals_wait_for_the_iteration_and_save(self, agent, tmp_path, number, error):
        path = tmp_path / "run.chk"
        with pytest.raises(error):
            agent.train(
                1000,
                checkpoint=path,
                report=lambda x: os.kill(os.getpid(), number) if x["step"] == 50 else None,
                progress=False,
            )
        assert agent.steps == 50
        assert Counter.load(path).steps == 50
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def test_a_damaged_file_is_told(self, agent, tmp_path):
        path = tmp_path / "run.chk"
        agent.train(20, checkpoint=path, progress=False)
        good = path.read_bytes()
        for bad in (b"", good[:200], good[:-8], good[:-20] + bytes([good[-20] ^ 1]) + good[-19:], b"hello"):
            path.write_bytes(bad)
            with pytest.raises(rl.CheckpointError, match="run.chk"):
                Counter.load(path)
        with pytest.raises(FileNotFoundError):
            Counter.load(tmp_path / "none.chk")

    def test_of_networks_that_take_actions_in_another_unit(self, tmp_path):
        path, agent = tmp_path / "run.chk", rl.PPO("Pendulum-v1", num_steps=32, minibatches=2, hidden=(4,))
        agent.save(path)
        rl.PPO.load(path)
        found = storage.read(path, "checkpoint", [np.tanh])
        storage.write(path, "checkpoint", {k: v for k, v in found.items() if k != "units"})  # as version 0.12 did
        with pytest.raises(rl.CheckpointError, match=r"was written before version 0.13, whose networks take"):
            rl.PPO.load(path)

    def test_of_another_agent_or_environment(self, agent, tmp_path):
        class Other(Counter):
            pass

        path = tmp_path / "run.chk"
        agent.train(20, checkpoint=path, progress=False)
        with pytest.raises(rl.CheckpointError, match="must be of the agent Other, got Counter"):
            Other.load(path)
        with pytest.raises(rl.CheckpointError, match="observations and actions must be"):
            Counter.load(path, env=Wide)
        with pytest.raises(rl.CheckpointError, match="must be a policy, got a checkpoint"):
            rl.Policy.load(path)

    def test_a_place_that_is_not_there_is_told_before_the_first_step(self, agent, tmp_path):
        with pytest.raises(rl.CheckpointError, match="cannot be written"):
            agent.train(20, checkpoint=tmp_path / "none" / "run.chk", progress=False)
        assert agent.steps == 0

    def test_an_environment_object_has_to_be_given_again(self, tmp_path):
        path = tmp_path / "run.chk"
        Counter(Wide).train(20, checkpoint=path, progress=False)
        with pytest.raises(rl.CheckpointError, match="the environment was an object"):
            Counter.load(path)
        assert Counter.load(path, env=Wide).steps == 20


class Wide(rl.Environment):
    """A walk with observations of another shape."""

    state = [("place", np.int64)]
    observation_space, action_space, max_steps = rl.Box(-9, 9, (7,)), rl.Discrete(2), 9

    @staticmethod
    def reset(state, stream):
        state.place = 0

    @staticmethod
    def step(state, action, stream):
        state.place += 2 * action - 1
        return 1.0, False

    @staticmethod
    def observe(state, out):
        out[:] = state.place


class TestReports:
    def test_csv_has_a_line_for_each_iteration(self, agent, tmp_path):
        agent.train(30, report=rl.CSV(tmp_path / "curve.csv"), progress=False)
        rows = rows_of(tmp_path / "curve.csv")
        assert [int(r["step"]) for r in rows] == [10, 20, 30]
        assert float(rows[2]["seen"]) == agent.seen[0]

    def test_csv_of_a_resumed_run_has_no_line_twice(self, agent, tmp_path):
        table, path = tmp_path / "curve.csv", tmp_path / "run.chk"
        with pytest.raises(KeyError):  # after step 50, when 40 were saved
            agent.train(
                100,
                report=[rl.CSV(table), lambda x: {}[0] if x["step"] == 50 else None],
                checkpoint=path,
                every=20,
                progress=False,
            )
        with open(table, "a") as file:
            file.write("60,1.5")  # a process killed while it wrote
        Counter.load(path).train(report=rl.CSV(table), progress=False)
        whole = tmp_path / "whole.csv"
        Counter("CartPole-v1").train(100, report=rl.CSV(whole), progress=False)
        same = ["step", "episodes", "return", "length", "seen"]
        a, b = ([[r[k] for k in same] for r in rows_of(p)] for p in (table, whole))
        assert a == b

    def test_csv_does_not_go_on_with_something_else(self, agent, tmp_path):
        path = tmp_path / "curve.csv"
        agent.train(10, progress=False)
        path.write_text("my notes\n")
        with pytest.raises(rl.ReporterError, match="must have a column named step"):
            agent.train(10, report=rl.CSV(path), progress=False)
        assert path.read_text() == "my notes\n"

    @pytest.mark.peer
    def test_tensorboard_gets_every_number(self, agent, tmp_path):
        pytest.importorskip("tensorboardX")
        agent.train(200, report=rl.TensorBoard(tmp_path), progress=False)
        data = b"".join(p.read_bytes() for p in tmp_path.iterdir())
        assert data.count(b"seen") >= 20 and b"return" in data

    def test_without_tensorboard_the_extra_is_named(self, agent, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "tensorboardX", None)
        monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
        with pytest.raises(ImportError, match=r"triskele\[rl\]"):
            agent.train(20, report=rl.TensorBoard(tmp_path), progress=False)
        assert agent.steps == 0


class TestEvaluation:
    def test_plays_as_many_episodes_as_asked(self, agent):
        for episodes in (1, 7, 130):
            found = agent.evaluate(episodes)
            assert len(found.returns) == len(found.lengths) == episodes
            np.testing.assert_array_equal(found.returns, found.lengths)  # CartPole pays 1 a step

    def test_does_not_play_the_episodes_of_a_training(self):
        gymnasium = pytest.importorskip("gymnasium")
        seeds = []

        class Seeded(gymnasium.Env):
            observation_space, action_space = gymnasium.spaces.Box(-1, 1, (1,)), gymnasium.spaces.Discrete(2)

            def reset(self, *, seed=None, options=None):
                super().reset(seed=seed)
                seeds.extend([] if seed is None else [seed])
                return np.zeros(1, np.float32), {}

            def step(self, action):
                return np.zeros(1, np.float32), 1.0, True, False, {}

        agent = rl.PPO(Seeded, seed=0, num_envs=8, num_steps=8, minibatches=1, hidden=(4,)).train(64, progress=False)
        agent.evaluate(8), agent.evaluate(8, seed=1)
        assert seeds[:8] == list(range(8)) and len(set(seeds)) == len(seeds) == 24

    def test_is_repeatable_and_leaves_the_training_alone(self, agent):
        before = agent.env.state
        a, b = agent.evaluate(5, seed=3, deterministic=False), agent.evaluate(5, seed=3, deterministic=False)
        np.testing.assert_array_equal(a.returns, b.returns)
        np.testing.assert_array_equal(agent.env.state["data"], before["data"])
        assert "over 5 episodes" in repr(a)
        assert a.mean == a.returns.mean() and a.std == a.returns.std()

    def test_refuses_no_episodes(self, agent):
        with pytest.raises(ValueError, match="episodes must be an integer >= 1, got 0"):
            agent.evaluate(0)


POLICIES = {
    "categorical": Policy(Categorical(network(3, 8, 4)), (3,), None, 4),
    "greedy, two axes": Policy(Greedy(Flat(network(6, 8, 4), 2)), (2, 3), None, 4),
    "gaussian, normalized": Policy(
        Gaussian(network(3, 8, 2), np.zeros(2, np.float32), (-1.0, -np.inf), (1.0, 2.0)),
        (3,),
        RunningMoments.start((3,)).normalizer(),
    ),
    "squashed": Policy(SquashedGaussian(network(3, 8, 4), (-2.0, 0.0), (2.0, 1.0)), (3,)),
}


class TestPolicies:
    @pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
    def test_a_saved_policy_gives_the_same_actions(self, policy, tmp_path, rng):
        policy.save(tmp_path / "policy.safetensors")
        loaded = rl.Policy.load(tmp_path / "policy.safetensors")
        x = rng.standard_normal((5, *policy.observation_shape)).astype(np.float32)
        np.testing.assert_array_equal(loaded(x), policy(x))
        np.testing.assert_array_equal(loaded(x, rng=np.random.default_rng(1)), policy(x, rng=np.random.default_rng(1)))
        np.testing.assert_allclose(loaded(x[2]), policy(x)[2], rtol=1e-6, atol=1e-6)

    def test_loads_in_a_fresh_process_without_the_training_code(self, agent, tmp_path):
        path = tmp_path / "policy.safetensors"
        agent.policy.save(path)
        code = (
            f"import sys; from triskele import reinforce as rl; policy = rl.Policy.load({str(path)!r}); "
            f"print(int(policy([0.1, 0, 0.2, 0])))\n"
            "assert not [m for m in sys.modules if '.training' in m or '.agents' in m or '.optim' in m or 'numba' "
            "in m]"
        )
        out = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert out.returncode == 0, out.stderr
        assert int(out.stdout) == agent.act([0.1, 0, 0.2, 0])

    def test_masked_actions_are_never_taken(self, rng):
        policy = POLICIES["categorical"]
        x, mask = rng.standard_normal((400, 3)), rng.random((400, 4)) < 0.4
        mask[np.arange(400), rng.integers(0, 4, 400)] = True
        for generator in (None, rng):
            assert mask[np.arange(400), policy(x, rng=generator, mask=mask)].all()

    def test_draws_with_the_probabilities_of_the_network(self, rng):
        logits = np.array([1.0, 0.0, -1.0, 2.0], np.float32)
        policy = Policy(Categorical(nn.Linear(np.zeros((1, 4), np.float32), logits)), (1,), None, 4)
        drawn = np.bincount(policy(np.zeros((20_000, 1)), rng=rng), minlength=4) / 20_000
        np.testing.assert_allclose(drawn, nn.softmax(logits), atol=0.015)

    def test_actions_stay_within_bounds(self, rng):
        for name in ("gaussian, normalized", "squashed"):
            policy = POLICIES[name]
            actions = policy(10 * rng.standard_normal((500, 3)), rng=rng)
            assert (actions >= np.array(policy.head.low)).all() and (actions <= np.array(policy.head.high)).all()

    def test_squashed_density_is_normalized(self):
        head = SquashedGaussian(
            nn.Linear(np.zeros((1, 2), np.float32), np.array([0.3, 0.2], np.float32)), (-2.0,), (1.0,)
        )
        noise = np.linspace(-7, 7, 200_001)[:, None]
        action, played, log_p = head.sample(np.zeros((1, 1), np.float32), noise)
        assert np.trapezoid(np.exp(log_p), action[:, 0]) == pytest.approx(1, abs=1e-4)
        np.testing.assert_allclose(played, 1.5 * action - 0.5, rtol=1e-6)

    @pytest.mark.parametrize(
        ("observation", "mask", "message"),
        [
            (np.zeros(4), None, r"must have shape \(3,\)"),
            (np.full(3, np.nan), None, "must be finite"),
            (np.zeros(3), np.zeros(4, bool), "allow at least one action"),
            (np.zeros(3), np.ones(3, bool), "mask must say of 4 actions"),
        ],
    )
    def test_bad_input(self, observation, mask, message):
        with pytest.raises(rl.EnvError, match=message):
            POLICIES["categorical"](observation, mask=mask)

    def test_a_network_with_nan_is_refused(self):
        broken = nn.Linear(np.full((3, 4), np.nan, np.float32))
        with pytest.raises(FloatingPointError, match="parameters must be finite"):
            Policy(Categorical(broken), (3,), None, 4)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.lists(st.integers(0, 255), max_size=5).map(lambda x: np.array(x, np.uint8)),
    lambda inner: (
        st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


class TestFiles:
    @given(value=values)
    @settings(max_examples=50, deadline=None)
    def test_trees_come_back_as_they_were(self, value):
        arrays = {}
        found = storage.unpack(storage.pack(value, arrays), arrays)
        assert repr(found) == repr(value)

    def test_records_networks_and_functions(self, tmp_path):
        records = np.zeros(3, np.dtype([("a", np.int8), ("b", np.float64, 2)], align=True))
        records["b"] = np.arange(6).reshape(3, 2)
        path = tmp_path / "file"
        storage.write(
            path, "test", {"records": records, "net": network(2, 3), "f": np.tanh, "g": nn.relu, "x": np.float32(0.1)}
        )
        found = storage.read(path, "test")
        assert found["records"].dtype == records.dtype
        np.testing.assert_array_equal(found["records"], records)
        assert found["f"] is np.tanh and found["g"] is nn.relu and found["x"] == np.float32(0.1)
        np.testing.assert_array_equal(found["net"].layers[0].weight, network(2, 3).layers[0].weight)

    def test_what_has_no_name_cannot_be_kept(self, tmp_path):
        with pytest.raises(TypeError, match="must be a function or class that can be imported by name"):
            storage.write(tmp_path / "file", "test", lambda x: x)


class TestStatistics:
    def test_moments_are_those_of_everything_seen(self, rng):
        x = 5 + 3 * rng.standard_normal((1000, 2))
        moments = RunningMoments.start((2,))
        for part in np.split(x, [1, 10, 10, 600]):
            moments.add(part)
        np.testing.assert_allclose(moments.mean, x.mean(axis=0))
        np.testing.assert_allclose(moments.variance, x.var(axis=0))
        y = moments.normalizer()(x.astype(np.float32))
        np.testing.assert_allclose([y.mean(), y.std()], [0, 1], atol=1e-5)

    def test_normalized_numbers_do_not_depend_on_the_unit(self, rng):
        x = (5 + 3 * rng.standard_normal((100, 2))).astype(np.float32)
        x[:, 1] = 4  # constant
        moments, tiny, unit = RunningMoments.start((2,)), RunningMoments.start((2,)), np.float32(2.0**-40)
        moments.add(x), tiny.add(x * unit)
        np.testing.assert_array_equal(moments.normalizer()(x), tiny.normalizer()(x * unit))
        assert (moments.normalizer()(x)[:, 1] == 0).all()

    def test_rewards_are_scaled_by_the_size_of_returns(self, rng):
        rewards, never = 100 * rng.standard_normal((5000, 2)), np.zeros((5000, 2), bool)
        scaled = ReturnScale.start(2).scaled(rewards, never, never, 0.9)
        # the variance of a discounted sum of independent numbers is 1 / (1 - discount^2) of theirs
        assert scaled.std() == pytest.approx(np.sqrt(1 - 0.9**2), rel=0.05)

    def test_episodes_against_a_plain_loop(self, rng):
        rewards, ends, cuts = rng.standard_normal((300, 3)), rng.random((300, 3)) < 0.06, rng.random((300, 3)) < 0.03
        episodes = Episodes.start(3)
        valid = np.concatenate(
            [
                episodes.add(*part)
                for part in zip(*(np.split(x, [7, 8, 200]) for x in (rewards, ends, cuts)), strict=True)
            ]
        )
        found, lengths = [], []
        for n in range(3):
            total, length, over = 0.0, 0, False
            for t in range(300):
                assert valid[t, n] == (not over)
                if over:
                    total, length, over = 0.0, 0, False
                    continue
                total, length = total + rewards[t, n], length + 1
                if ends[t, n] or cuts[t, n]:
                    found.append(total)
                    lengths.append(length)
                    over = True
        assert episodes.finished == len(found) < 100
        assert episodes.mean_return == pytest.approx(np.mean(found))
        assert episodes.mean_length == pytest.approx(np.mean(lengths))
