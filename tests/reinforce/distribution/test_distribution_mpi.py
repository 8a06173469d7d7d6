"""Agents on MPI ranks: the numbers of one process, and no rank that waits for ever."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.reporting import stop_at
from triskele import reinforce as rl
from triskele.reinforce import storage
from triskele.reinforce.agents.ppo import PPO

ROOT = Path(__file__).resolve().parents[3]
MPIEXEC = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
DISCRETE = (
    "CartPole-v1",
    {"num_envs": 4, "num_steps": 16, "minibatches": 2, "epochs": 2, "hidden": (8,), "normalize": True},
)
CONTINUOUS = ("Pendulum-v1", {"num_envs": 4, "num_steps": 32, "minibatches": 4, "epochs": 2, "hidden": (8,)})
STEPS = 64 * 6
TWO = rl.OneProcess(actors=2)

pytestmark = pytest.mark.skipif(MPIEXEC is None, reason="no mpiexec")


# -- what ranks do: functions of this module, called by name
# --------------------------------------------------------------


def self_play():
    return rl.AlphaZero(rl.games.TicTacToe(), num_games=8, simulations=8, learning_starts=50, batch_size=16, updates=2)


def same_numbers():
    """Trainings from the beginning, and from a checkpoint of one process; each rank keeps what it has in the end."""
    distribution = rl.MPI()
    for name, (env, options) in {"discrete": DISCRETE, "continuous": CONTINUOUS}.items():
        agent, curve = PPO(env, seed=3, **options), []
        agent.train(STEPS, progress=False, distribution=distribution, report=curve.append, checkpoint=f"{name}.chk")
        storage.write(
            f"{name}{distribution.rank}", "agent", {"state": agent.state, "curve": [x["approx_kl"] for x in curve]}
        )
    resumed = PPO.load("before.chk").train(progress=False, distribution=distribution)
    storage.write(f"resumed{distribution.rank}", "agent", {"state": resumed.state, "curve": []})
    agent.train(STEPS, progress=False)  # a training of each rank's own, afterwards
    storage.write(f"alone{distribution.rank}", "agent", {"state": agent.state, "curve": []})


def same_games():
    """AlphaZero from the beginning."""
    distribution = rl.MPI()
    agent = self_play().train(STEPS, progress=False, distribution=distribution)
    storage.write(f"games{distribution.rank}", "agent", agent.state)


class Accident:
    """Actor 1, to which something happens in a collection."""

    def __init__(self, actor, what):
        self.actor, self.what = actor, what

    state = property(lambda self: self.actor.state, lambda self, state: setattr(self.actor, "state", state))

    def collect(self, parameters):
        if self.actor.collections == 3:
            self.what()
        return self.actor.collect(parameters)


def train_prone(what=lambda: None, path="run.chk", synchronous=True, timeout=100.0, seed=0, steps=STEPS, **options):
    class Prone(PPO):
        def actor(self, k, actors):
            actor = super().actor(k, actors)
            return Accident(actor, what) if k == 1 else actor

    env, settings = DISCRETE
    distribution = rl.MPI(synchronous=synchronous, timeout=timeout)
    return Prone(env, seed=seed, **settings).train(
        steps, progress=False, distribution=distribution, checkpoint=path, every=64, **options
    )


def full_disk():
    raise OSError("the disk is full")


def troubles():
    """Trainings that go wrong, one after the other, and what each rank is told of them."""
    rank = rl.MPI().rank
    accidents = [full_disk]
    agent = train_prone(lambda: accidents.pop()() if accidents else None)
    if rank == 0:
        storage.write("failed_once", "agent", agent.state)

    def report(numbers):
        if numbers["step"] == 128:
            raise LookupError("no such curve")

    told = {}
    for name, options in {
        "failing": {"what": full_disk},
        # long, as the other actor might else do all the steps before this one has failed twice
        "failing asynchronously": {"what": full_disk, "synchronous": False, "steps": 10**9},
        "report": {"report": report},
        "seeds": {"seed": rank},
        "place": {"path": "nowhere/run.chk"},
        "kind": {"report": ["curve.csv"]},
        "hanging": {"what": lambda: time.sleep(600), "timeout": 10.0},
    }.items():
        try:
            train_prone(**{"path": f"{name}.chk", **options})
        except Exception as error:  # noqa: BLE001  compared with the other outcome
            told[name] = f"{type(error).__name__}: {error}"
        Path(f"told{rank}.json").write_text(json.dumps(told))


def killed():
    train_prone(lambda: os.kill(os.getpid(), signal.SIGKILL))


def leaving():
    train_prone(lambda: os._exit(0))


def hanging_asynchronously():
    train_prone(path="first.chk", synchronous=False)  # what is to be compiled
    train_prone(lambda: time.sleep(600), synchronous=False, timeout=10.0, steps=10**9)


def asynchronous():
    distribution = rl.MPI(synchronous=False)
    agent, curve = PPO("CartPole-v1", num_envs=8, num_steps=64, seed=1, learning_rate=1e-3), []
    agent.train(60_000, progress=False, distribution=distribution, report=curve.append, checkpoint="async.chk")
    if distribution.root:
        np.savez(
            "async.npz",
            staleness=[x["staleness"] for x in curve],
            returns=[x["return"] or 0.0 for x in curve],
            steps=agent.steps,
        )


def endless(synchronous):
    env, options = DISCRETE

    def report(numbers):
        if numbers["step"] == 64:
            Path("running").touch()

    try:
        PPO(env, **options).train(
            10**9,
            progress=False,
            distribution=rl.MPI(synchronous=synchronous),
            report=report,
            checkpoint="run.chk",
            every=10**9,
        )
    except KeyboardInterrupt:
        print("stopped", flush=True)


# -- what is said of it
# ---------------------------------------------------------------------------------------------------


def start(folder, function, ranks=3):
    pytest.importorskip("mpi4py")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT / ".src", ROOT, Path(__file__).parent)))}
    command = [
        MPIEXEC,
        "-n",
        str(ranks),
        sys.executable,
        "-c",
        f"import test_distribution_mpi as t; t.{function}; print('ended well')",
    ]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def launch(folder, function, ranks=3):
    """(return code, what was printed)."""
    with start(folder, function, ranks) as process:
        out, err = process.communicate(timeout=300)
    return process.returncode, out + err


def assert_same(a, b):
    kept: list[dict] = [{}, {}]
    assert storage.pack(a, kept[0]) == storage.pack(b, kept[1])
    for name, array in kept[0].items():
        np.testing.assert_array_equal(array, kept[1][name])


def lanes_of_environments(state, n=4):
    """A state without lanes of no environment."""
    env = state["environment"]
    return {
        **state,
        "environment": {**env, "data": env["data"][..., :n], **{k: env[k][:n] for k in ("steps", "done", "streams")}},
    }


def resumed(path, agent="PPO"):
    # its class was made in a test
    storage.write(path, "checkpoint", {**storage.read(path, "checkpoint"), "agent": agent})
    return PPO.load(path)


@pytest.mark.slow
def test_numbers_are_those_of_one_process(tmp_path):
    PPO(DISCRETE[0], **DISCRETE[1]).train(
        STEPS, progress=False, distribution=TWO, report=stop_at(192), checkpoint=tmp_path / "before.chk"
    )
    code, printed = launch(tmp_path, "same_numbers()")
    assert code == 0 and printed.count("ended well") == 3, printed
    found = {
        name: storage.read(tmp_path / name, "agent")
        for name in ("discrete0", "discrete1", "continuous0", "continuous2", "resumed0", "alone0", "alone2")
    }
    for name, (env, options) in {"discrete": DISCRETE, "continuous": CONTINUOUS}.items():
        agent, curve = PPO(env, seed=3, **options), []
        agent.train(STEPS, progress=False, distribution=TWO, report=curve.append)
        assert_same(lanes_of_environments(agent.state), lanes_of_environments(found[f"{name}0"]["state"]))
        assert found[f"{name}0"]["curve"] == [x["approx_kl"] for x in curve]
        assert_same(lanes_of_environments(agent.state), lanes_of_environments(PPO.load(tmp_path / f"{name}.chk").state))
    for other in ("discrete1", "continuous2", "alone2"):
        assert_same(found[f"{other[:-1]}0"]["state"], found[other]["state"])
        assert other.startswith("alone") or not found[other]["curve"], "reports are the first rank's"
    whole = PPO(DISCRETE[0], **DISCRETE[1]).train(STEPS, progress=False, distribution=TWO)
    assert_same(lanes_of_environments(whole.state), lanes_of_environments(found["resumed0"]["state"]))


@pytest.mark.slow
def test_games_of_alphazero_are_those_of_one_process(tmp_path):
    games = self_play().train(STEPS, progress=False, distribution=TWO)
    code, printed = launch(tmp_path, "same_games()")
    assert code == 0, printed
    for rank in range(3):
        assert_same(games.state, storage.read(tmp_path / f"games{rank}", "agent"))


def test_troubles_are_told_to_all_ranks_and_end_no_more_than_the_training(tmp_path):
    code, printed = launch(tmp_path, "troubles()")
    assert code != 0, "the last training leaves a rank that hangs"
    healthy = PPO(DISCRETE[0], **DISCRETE[1]).train(STEPS, progress=False, distribution=TWO)
    assert_same(
        lanes_of_environments(healthy.state), lanes_of_environments(storage.read(tmp_path / "failed_once", "agent"))
    )
    assert (
        "Prone: actor 1 of 2 (rank 2 on" in printed
        and "failed in iteration 4 and is replaced from its last state: OSError: the disk is full" in printed
    )
    told = [json.loads((tmp_path / f"told{rank}.json").read_text()) for rank in range(3)]
    for name, most in (("failing", 3 * 64), ("failing asynchronously", 10**9)):  # the other actor continues alone
        assert len({t[name] for t in told}) == 1
        assert re.fullmatch(
            r"DistributionError: Prone: actor 1 of 2 \(rank 2 on \S+\) failed in iteration 4 again "
            r"after it was replaced: OSError: the disk is full",
            told[0][name],
        )
        agent = resumed(tmp_path / f"{name}.chk")
        assert 64 <= agent.steps <= most and agent.train(64, progress=False)
    assert {t["report"] for t in told} == {"LookupError: no such curve"}
    assert resumed(tmp_path / "report.chk").steps == 64
    assert all(
        "all ranks must have made the same agent, but ranks 0 and" in t["seeds"]
        and "differ in seed (0 and" in t["seeds"]
        for t in told
    )
    assert all(
        t["place"].startswith("CheckpointError: Prone.train: checkpoint 'nowhere/run.chk' cannot be written")
        for t in told
    )
    assert all(t["kind"].startswith("TypeError: Prone.train: report must be a function") for t in told)
    assert re.fullmatch(
        r"DistributionError: Prone: actor 1 of 2 \(rank 2 on \S+\): nothing was heard for 10 s .*", told[0]["hanging"]
    )
    assert resumed(tmp_path / "hanging.chk").steps == 3 * 64


@pytest.mark.slow
@pytest.mark.parametrize("function", ["killed", "leaving"])
def test_a_rank_that_dies_ends_the_others(tmp_path, function):
    """The launcher sees that, or else the learner, which hears nothing; what one returns that has left with 0 is up to
    the launcher.
    """
    code, printed = launch(tmp_path, f"{function}()")
    assert "ended well" not in printed
    assert code != 0 or function == "leaving"
    assert resumed(tmp_path / "run.chk").steps == 3 * 64


@pytest.mark.slow
def test_one_that_hangs_while_others_go_on_is_noticed(tmp_path):
    code, printed = launch(tmp_path, "hanging_asynchronously()")
    assert code != 0
    assert re.search(r"DistributionError: Prone: actor 1 of 2 \(rank 2 on \S+\): nothing was heard for 10", printed), (
        printed
    )
    assert resumed(tmp_path / "run.chk").steps > STEPS


@pytest.mark.slow
def test_asynchronous_actors_learn(tmp_path):
    code, printed = launch(tmp_path, "asynchronous()")
    assert code == 0, printed
    with np.load(tmp_path / "async.npz") as found:
        assert found["returns"][-1] > 120 > found["returns"][2]
        assert 0 <= found["staleness"].min() and 0 < found["staleness"].mean() < 4
        steps = found["steps"]
    agent = PPO.load(tmp_path / "async.chk")
    assert agent.steps == steps >= 60_000 and agent.evaluate(20).mean > 150
    agent.train(1024, progress=False)


@pytest.mark.slow
@pytest.mark.parametrize("synchronous", [True, False])
def test_control_c_ends_all_ranks_with_a_checkpoint(tmp_path, synchronous):
    with start(tmp_path, f"endless({synchronous})") as process:
        while not (tmp_path / "running").exists() and process.poll() is None:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=100)
    if "Ctrl-C" not in out + err:
        pytest.skip("this mpiexec does not hand Ctrl-C on")
    assert out.count("stopped") == 3, out + err
    assert PPO.load(tmp_path / "run.chk").steps >= 64


def test_two_processes_that_do_not_see_each_other(monkeypatch):
    """Started by an mpiexec of another MPI than mpi4py's, each would do all the work."""
    pytest.importorskip("mpi4py")
    code = "from triskele import reinforce as rl; rl.MPI()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / ".src"), "OMPI_COMM_WORLD_SIZE": "2"}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=100)
    assert "RuntimeError: MPI: 2 processes were started, but mpi4py sees one" in run.stderr
