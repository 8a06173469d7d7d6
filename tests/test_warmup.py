"""Compiling ahead of time: every part runs, and a wheel with shipped kernels compiles nothing at first use."""

import os
import subprocess
import sys
from importlib import import_module
from inspect import isfunction
from pathlib import Path

import pytest

from triskele.command import PACKAGES
from triskele.command.warmup import warmup

ROOT = Path(__file__).parents[1]
WORK = [f for p in PACKAGES for f in import_module(f"triskele.{p}.warmup").WORK]


@pytest.mark.parametrize("part", WORK, ids=lambda f: f"{f.__module__.split('.')[1]}-{f.__name__}")
def test_every_part_runs(part, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    part()
    assert not list(tmp_path.iterdir())


def test_unknown_packages_are_refused():
    with pytest.raises(ValueError, match="among core, sponge, quantum, reinforce, got 'physics'"):
        warmup(["physics"])


def test_a_part_that_fails_is_named(monkeypatch):
    with pytest.raises(RuntimeError, match="stabilizer of quantum(?s:.*)TRISKELE_CPU"):
        monkeypatch.setattr(import_module("triskele.quantum.warmup"), "WORK", WORK[-1:])
        monkeypatch.setattr(WORK[-1], "__name__", "stabilizer")
        warmup(["quantum"], environment={"TRISKELE_CPU": "abacus"})


CONSTRUCTORS = """
from numba.core import event
from triskele import quantum, reinforce as rl
recorder = event.RecordingListener()
event.register("numba:compile", recorder)
quantum.Expectation(quantum.Circuit(2).h(0).cx(0, 1).rx("a", 0), "Z0 Z1")
rl.make("CartPole-v1", num_envs=4)
rl.MCTS(rl.games.ConnectFour())
rl.PPO("CartPole-v1"), rl.DQN("CartPole-v1"), rl.SAC("Pendulum-v1")
print(*{e.data["dispatcher"].py_func.__module__ for _, e in recorder.buffer})
"""


@pytest.mark.slow
def test_constructors_compile_only_what_draws_initial_weights(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", CONSTRUCTORS],
        env={**os.environ, "TRISKELE_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) <= {"triskele.core.kernels.philox_kernels", "triskele.core.kernels.philox"}


FIRST_STEPS = """
import numpy as np
from triskele import quantum, reinforce as rl, sponge

circuit = quantum.Circuit(4).h(0).cx(0, 1).rx("a", 2).ry({"b": 2.0}, 3).rzz("a - b/2", 1, 2)
quantum.run(circuit, [0.3, -0.7]).sample(1000, seed=1).counts()
quantum.Expectation(circuit, quantum.PauliSum("0.5 Z0 Z1 - 1.2 X2")).value_and_grad([0.3, -0.7])
game = rl.games.ConnectFour()
rl.MCTS(game, simulations=100, policy=rl.UCT(c=1.4), evaluator=rl.RandomRollout())(game.initial_state())
env = rl.make("CartPole-v1", num_envs=8, seed=0)
env.reset()
env.step(np.zeros(8, np.int64))
rl.PPO("CartPole-v1", seed=0).train(1024, progress=False)
system = sponge.load(*sponge.example_files("alanine-dipeptide-water"), method="pme", cutoff=0.9, constraints="h-bonds")
sim = sponge.Simulation(system, sponge.LangevinMiddle(300, 1.0, 0.002), seed=1)
sim.minimize(max_steps=3)
sim.run(10)
"""


@pytest.mark.slow
def test_a_wheel_with_shipped_kernels_compiles_nothing_at_first_use(tmp_path):
    """In an empty environment, from a copy of the sources."""
    subprocess.run(["git", "clone", "-q", str(ROOT), tmp_path / "copy"], check=True)
    subprocess.run(["make", "wheel", f"PYTHON={sys.executable}"], cwd=tmp_path / "copy", check=True)
    (wheel,) = (tmp_path / "copy" / "dist").glob("*.whl")
    assert wheel.stat().st_size < 60e6
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", wheel], check=True)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment["TRISKELE_CACHE_DIR"] = str(tmp_path / "cache")
    subprocess.run([python, "-c", FIRST_STEPS], cwd=tmp_path, check=True, env=environment)
    assert not list((tmp_path / "cache").rglob("*.bin"))


@pytest.mark.parametrize("package", PACKAGES)
def test_every_part_is_found(package):
    """A function that `WORK` forgets is never run, neither by ``triskele warmup`` nor by a test."""
    module = import_module(f"triskele.{package}.warmup")
    written = {
        f
        for name, f in vars(module).items()
        if isfunction(f) and f.__module__ == module.__name__ and not name.startswith("_")
    }
    assert set(module.WORK) == written
    assert len(module.WORK) == len(written)
