"""Agents under distributions: where fragments run changes no number, and what fails is replaced or told."""

import os
import signal
import threading
import time

import numpy as np
import pytest

from tests.reporting import stop_at
from triskele import reinforce as rl
from triskele.core import get_threads
from triskele.reinforce import storage
from triskele.reinforce.agents.ppo import PPO, _joined
from triskele.reinforce.distribution.actors import Port, check_ports

DISCRETE = (
    "CartPole-v1",
    {"num_envs": 4, "num_steps": 16, "minibatches": 2, "epochs": 2, "hidden": (8,), "normalize": True},
)
CONTINUOUS = ("Pendulum-v1", {"num_envs": 4, "num_steps": 32, "minibatches": 4, "epochs": 2, "hidden": (8,)})
ITERATION = {"CartPole-v1": 64, "Pendulum-v1": 128}  # steps
TWO = [rl.OneProcess(actors=2), rl.Threads(actors=2)]


def train(agent, iterations=6, **options):
    """The reports of a training."""
    curve = []
    steps = iterations * ITERATION.get(agent._given, 64)
    agent.train(steps, progress=False, report=[curve.append, *options.pop("reports", [])], **options)
    return curve


def assert_same(a, b):
    """Everything that two agents would keep in a checkpoint, but for lanes of no environment."""
    n = a.settings.num_envs
    for x in (a, b):
        x.env.arrays.data[..., n:] = 0
        for lanes in (x.env.arrays.steps, x.env.arrays.done, x.env.arrays.streams):
            lanes[n:] = 0
    kept: list[dict] = [{}, {}]
    assert storage.pack(a.state, kept[0]) == storage.pack(b.state, kept[1])
    assert len(kept[0]) > 20
    for name, array in kept[0].items():
        np.testing.assert_array_equal(array, kept[1][name])


def without_time(curve):
    return [{k: v for k, v in x.items() if k != "steps_per_second"} for x in curve]


class TestSameNumbers:
    @pytest.mark.parametrize(("env", "options"), [DISCRETE, CONTINUOUS], ids=["discrete", "continuous"])
    def test_threads_equal_one_process(self, env, options):
        one, threads = PPO(env, seed=3, **options), PPO(env, seed=3, **options)
        curves = [
            without_time(train(agent, distribution=policy)) for agent, policy in zip((one, threads), TWO, strict=True)
        ]
        assert curves[0] == curves[1]
        assert_same(one, threads)

    def test_nothing_said_is_one_actor_in_one_process(self):
        env, options = DISCRETE
        plain, said, thread = (PPO(env, **options) for _ in range(3))
        train(plain)
        train(said, distribution=rl.OneProcess())
        train(thread, distribution=rl.Threads(actors=1))
        assert_same(plain, said)
        assert_same(plain, thread)

    @pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
    def test_actors_together_play_what_one_plays_alone(self, env):
        """Up to rounding, which depends on how many rows a network gets at once."""
        made = [PPO(env, seed=1, num_envs=12, num_steps=16, minibatches=2, hidden=(8,)) for _ in range(2)]
        alone = made[0].actor(0, 1).collect(made[0].parameters)
        actors = [made[1].actor(k, 3) for k in range(3)]
        for actor, state in zip(actors, made[1].deal(3), strict=True):
            actor.state = state
        together = _joined([actor.collect(made[1].parameters) for actor in actors])
        assert alone.keys() == together.keys() == made[0].ports.keys()
        for name, x in alone.items():
            np.testing.assert_allclose(together[name], x, rtol=1e-4, atol=1e-4, err_msg=name)

    @pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "MinAtar/Breakout-v1", "GridWorld-v0"])
    def test_copies_of_an_environment_go_on_elsewhere_bit_for_bit(self, name, rng):
        whole, part, back = (rl.make(name, num_envs=n, seed=s) for n, s in ((13, 0), (6, 1), (13, 2)))
        for env in (whole, part, back):
            env.reset()

        def play(envs, steps=40):
            for _ in range(steps):
                discrete = hasattr(whole.action_space, "n")
                actions = (
                    rng.integers(whole.action_space.n, size=13)
                    if discrete
                    else rng.uniform(-1, 1, (13, *whole.action_space.shape))
                )
                out = [env.step(actions[begin : begin + env.num_envs])[:4] for env, begin in envs]
                for (env, begin), arrays in zip(envs[1:], out[1:], strict=True):
                    for x, y in zip(arrays, out[0], strict=True):
                        np.testing.assert_array_equal(x, y[begin : begin + env.num_envs])

        play([(whole, 0)])
        part.set_copies(0, whole.copies(5, 11))
        back.set_copies(0, whole.copies(0, 5))
        play([(whole, 0), (part, 5)])
        for begin, state in ((0, whole.copies(0, 5)), (5, part.copies(0, 6)), (11, whole.copies(11, 13))):
            back.set_copies(begin, state)
        play([(whole, 0), (part, 5), (back, 0)])

    def test_statistics_of_episodes_and_observations_are_those_of_all_actors(self):
        env, options = DISCRETE
        one, two = PPO(env, **options), PPO(env, **options)
        a, b = train(one), train(two, distribution=TWO[0])
        assert [x["episodes"] for x in a][:2] == [x["episodes"] for x in b][:2], "rounding has changed no action yet"
        assert two.observation_moments.count == one.observation_moments.count == 6 * 64
        np.testing.assert_allclose(two.observation_moments.mean, one.observation_moments.mean, rtol=0.2, atol=0.05)

    def test_from_one_training_to_the_next_with_other_actors(self):
        env, options = DISCRETE
        both = [PPO(env, **options) for _ in range(2)]
        for agent, first, second in zip(both, TWO, reversed(TWO), strict=True):
            train(agent, 3, distribution=first)
            train(agent, 3)
            train(agent, 3, distribution=second)
        assert_same(*both)

    def test_an_environment_of_gymnasium(self):
        gymnasium = pytest.importorskip("gymnasium")
        made = [
            PPO(lambda: gymnasium.make("CartPole-v1"), num_envs=2, num_steps=16, minibatches=2, hidden=(8,))
            for _ in range(2)
        ]
        curves = [without_time(train(agent, 3, distribution=policy)) for agent, policy in zip(made, TWO, strict=True)]
        assert curves[0] == curves[1]
        assert train(made[0], 1)[0]["episodes"] >= curves[0][-1]["episodes"]


class TestCheckpoints:
    @pytest.mark.parametrize("before", TWO, ids=repr)
    @pytest.mark.parametrize("after", TWO, ids=repr)
    def test_goes_on_bit_for_bit_under_either(self, before, after, tmp_path):
        env, options = DISCRETE
        whole = PPO(env, **options)
        train(whole, 8, distribution=before)
        train(PPO(env, **options), 8, distribution=before, checkpoint=tmp_path / "run.chk", reports=[stop_at(192)])
        resumed = PPO.load(tmp_path / "run.chk")
        assert resumed.steps == 192
        resumed.train(progress=False, distribution=after)
        assert_same(whole, resumed)

    def test_games_of_alphazero_go_on_under_either(self, tmp_path):
        def made():
            return rl.AlphaZero(
                rl.games.TicTacToe(), num_games=8, simulations=8, learning_starts=50, batch_size=16, updates=2
            )

        game, path = rl.games.TicTacToe(), tmp_path / "run.chk"
        whole = made().train(384, progress=False, distribution=TWO[0])
        for before, after in (TWO, TWO[::-1]):
            made().train(384, progress=False, distribution=before, checkpoint=path, report=stop_at(192))
            resumed = rl.AlphaZero.load(path, game).train(progress=False, distribution=after)
            kept: list[dict] = [{}, {}]
            assert storage.pack(whole.state, kept[0]) == storage.pack(resumed.state, kept[1])
            for name, array in kept[0].items():
                np.testing.assert_array_equal(array, kept[1][name])

    def test_control_c_waits_for_all_actors(self, tmp_path):
        env, options = DISCRETE
        path, agent = tmp_path / "run.chk", PPO(env, **options)
        with pytest.raises(KeyboardInterrupt):
            train(
                agent,
                50,
                distribution=rl.Threads(2),
                checkpoint=path,
                reports=[lambda x: os.kill(os.getpid(), signal.SIGINT) if x["step"] == 192 else None],
            )
        assert agent.steps == 192
        assert_same(agent, PPO.load(path))


class Accident:
    """An actor that does something else in some collections."""

    def __init__(self, actor, do, seen):
        self.actor, self.do, self.seen = actor, do, seen

    @property
    def state(self):
        return self.actor.state

    @state.setter
    def state(self, state):
        self.actor.state = state

    def collect(self, parameters):
        self.seen.append(threading.current_thread().name)
        experience = self.actor.collect(parameters)  # what was played before the accident is played again
        return self.do(len(self.seen), experience)


def accident_prone(do, **changes):
    """A PPO whose actor 1 does that with (number of its collections, experience)."""
    seen = []

    class Prone(PPO):
        def actor(self, k, actors):
            actor = super().actor(k, actors)
            return Accident(actor, do, seen) if k == 1 else actor

    env, options = DISCRETE
    return Prone(env, **{**options, **changes})


def failing(*when):
    def do(n, experience):
        if n in when:
            raise OSError("the disk is full")
        return experience

    return do


def altered(**changes):
    return lambda n, experience: (
        {name: changes.get(name, x) for name, x in experience.items()} if n == 2 else experience
    )


class TestAccidents:
    @pytest.mark.parametrize("policy", TWO, ids=repr)
    def test_an_actor_that_fails_once_is_replaced_and_no_number_changes(self, policy):
        agent, healthy = accident_prone(failing(3)), accident_prone(failing())
        with pytest.warns(
            RuntimeWarning,
            match=r"Prone: actor 1 of 2 \(.* on .*\) failed in iteration 3 and is "
            r"replaced from its last state: OSError: the disk is full",
        ):
            curve = train(agent, distribution=policy)
        assert without_time(curve) == without_time(train(healthy, distribution=policy))
        assert_same(agent, healthy)

    @pytest.mark.parametrize(("policy", "place"), [(TWO[0], "this process"), (TWO[1], "thread 1")])
    def test_one_that_fails_again_ends_the_training_and_the_checkpoint_is_whole(self, policy, place, tmp_path):
        agent, path = accident_prone(failing(4, 5)), tmp_path / "run.chk"
        message = (
            rf"Prone: actor 1 of 2 \({place} on \S+\) failed in iteration 4 again after it was replaced: OSError: the "
            rf"disk is full"
        )
        with (
            pytest.warns(RuntimeWarning, match="replaced"),
            pytest.raises(rl.DistributionError, match=message) as raised,
        ):
            train(agent, distribution=policy, checkpoint=path, every=64)
        assert isinstance(raised.value.__cause__, OSError)
        resumed, whole = PPO.load(_renamed(path, agent)), accident_prone(failing())
        assert resumed.steps == 3 * 64
        resumed.train(progress=False, distribution=policy)
        train(whole, distribution=policy)
        assert_same(resumed, whole)

    @pytest.mark.parametrize("policy", TWO, ids=repr)
    def test_what_would_come_again_is_raised_as_it_is(self, policy):
        def do(n, experience):
            raise rl.EnvError("the door is closed")

        agent = accident_prone(do)
        with pytest.raises(rl.EnvError, match="the door is closed") as raised:
            train(agent, distribution=policy)
        assert "actor 1 of 2" in raised.value.__notes__[0] and "iteration 1" in raised.value.__notes__[0]

    def test_an_actor_that_hangs_is_given_up(self, tmp_path):
        def do(n, experience):
            if n == 3:
                time.sleep(3)
            return experience

        agent, path, before = accident_prone(do), tmp_path / "run.chk", get_threads()
        train(agent, 1, distribution=rl.Threads(2))  # what is to be compiled
        with pytest.raises(
            rl.DistributionError, match=r"actor 1 of 2 \(thread 1 on \S+\) must answer within 0.5 s, got nothing"
        ):
            train(agent, distribution=rl.Threads(2, timeout=0.5), checkpoint=path, every=64)
        assert PPO.load(_renamed(path, agent)).steps == 2 * 64
        assert get_threads() == before

    def test_environments_that_cannot_tell_their_state_are_not_replaced(self):
        gymnasium = pytest.importorskip("gymnasium")

        class Breaking(gymnasium.Wrapper):
            steps = 0

            def step(self, action):
                self.steps += 1
                if self.steps == 40:
                    raise OSError("the cable is cut")
                return super().step(action)

        agent = PPO(
            lambda: Breaking(gymnasium.make("CartPole-v1")), num_envs=2, num_steps=16, minibatches=2, hidden=(8,)
        )
        with pytest.raises(
            rl.DistributionError,
            match="actor 0 of 1 .* iteration 3 and cannot be replaced, .* OSError: the cable is cut",
        ):
            train(agent)


def _renamed(path, agent):
    """The checkpoint as one of PPO: its class was made in a test."""
    storage.write(path, "checkpoint", {**storage.read(path, "checkpoint"), "agent": "PPO"})
    return path


class TestPorts:
    @pytest.mark.parametrize("policy", TWO, ids=repr)
    @pytest.mark.parametrize(
        ("do", "message"),
        [
            (
                altered(rewards=np.zeros((16, 2), np.float32)),
                r"actor 1 of 2 \(.*\): port 'rewards' must be float64 \(16, envs = 2\), got float32 \(16, 2\)",
            ),
            (
                altered(values=np.zeros((17, 3), np.float32)),
                r"port 'values' must be float32 \(17, envs = 2\), got float32 \(17, 3\)",
            ),
            (altered(actions=[0, 1]), r"port 'actions' must be int64 \(16, envs = 2\), got list"),
            (
                lambda n, x: {"rewards": x["rewards"]},
                "experience must have the ports first, observations, .*, got rewards",
            ),
            (lambda n, x: None, "experience must have the ports .*, got NoneType"),
        ],
    )
    def test_what_does_not_fit_is_told_before_it_is_learned_from(self, policy, do, message):
        agent = accident_prone(do)
        with pytest.raises(rl.DistributionError, match=message):
            train(agent, distribution=policy)
        assert agent.steps <= 64

    def test_a_name_stands_for_one_size(self):
        ports = {"x": Port(np.float32, "n", 3), "y": Port(bool, "n")}
        for n in (0, 1, 5):
            check_ports("here", ports, {"x": np.zeros((n, 3), np.float32), "y": np.zeros(n, bool)})
        with pytest.raises(rl.DistributionError, match=r"here: port 'y' must be bool \(n = 4\), got bool \(5\)"):
            check_ports("here", ports, {"x": np.zeros((4, 3), np.float32), "y": np.zeros(5, bool)})


class TestBadInput:
    def test_agents_in_one_piece_say_so(self):
        agent = rl.DQN("CartPole-v1", learning_starts=100)
        for policy in TWO:
            with pytest.raises(
                ValueError,
                match=r"DQN.train: distribution must be OneProcess\(\), got .*actors=2.* "
                r"\(DQN is one piece",
            ):
                agent.train(1000, progress=False, distribution=policy)
        assert agent.train(1000, progress=False, distribution=rl.OneProcess()).steps >= 1000

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: rl.OneProcess(0), "OneProcess: actors must be an integer >= 1, got 0"),
            (lambda: rl.Threads(2.5), "Threads: actors must be an integer >= 1, got 2.5"),
            (lambda: rl.Threads(2, timeout=0), r"Threads: timeout must be a positive number \(s\), got 0"),
            (lambda: rl.MPI(timeout="long"), "MPI: timeout must be a positive number"),
        ],
    )
    def test_policies_out_of_range(self, make, message):
        with pytest.raises(ValueError, match=message):
            make()

    def test_what_is_no_policy(self):
        env, options = DISCRETE
        with pytest.raises(
            TypeError,
            match=r"PPO.train: distribution must be OneProcess\(...\), Threads\(...\) or "
            r"MPI\(...\), got str 'threads'",
        ):
            train(PPO(env, **options), distribution="threads")
        with pytest.raises(TypeError, match="synchronous must be True or False"):
            rl.MPI(2)

    @pytest.mark.parametrize("policy", [rl.OneProcess(3), rl.Threads(3)], ids=repr)
    def test_environments_that_cannot_be_shared_out(self, policy):
        env, options = DISCRETE
        agent = PPO(env, **options)
        with pytest.raises(ValueError, match="num_envs must be a multiple of the number of actors, got 4 and 3"):
            train(agent, distribution=policy)
        assert agent.steps == 0
