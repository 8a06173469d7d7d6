"""What notebooks and terminals show of the suite's objects is short and says what they are."""

import re

import numpy as np
import pytest

from triskele import core, quantum, sponge
from triskele import reinforce as rl

KEY = core.random.key(0)
RNG = np.random.default_rng(0)


def peptide():
    return sponge.load(*sponge.example_files("alanine-dipeptide"))


OBJECTS = {
    "network": lambda: core.nn.MLP.init(KEY, [4, 64, 64, 2]),
    "convolution": lambda: core.nn.Conv.init(KEY, 2, 3, 8, 3),
    "recurrent layer": lambda: core.nn.LSTM.init(KEY, 3, 8),
    "optimizer": lambda: core.optim.Adam(1e-3),
    "compiled function": lambda: core.jit(np.sin),
    "potential network": lambda: sponge.learn.PaiNN.init(KEY, ["H", "C"], cutoff=0.5),
    "system": peptide,
    "topology": lambda: peptide().topology,
    "integrator": lambda: sponge.LangevinMiddle(300, 1.0, 0.002),
    "simulation": lambda: sponge.Simulation(peptide(), sponge.LangevinMiddle(300, 1.0, 0.002)),
    "reporter": lambda: sponge.DCD("run.dcd", every=500),
    "log": lambda: sponge.Log(every=500),
    "MBAR": lambda: sponge.analysis.mbar(RNG.normal(size=(2, 2, 50))),
    "profile": lambda: sponge.analysis.profile(RNG.normal(size=1000), temperature=300, bins=7),
    "circuit": lambda: quantum.Circuit(2).h(0),
    "expectation": lambda: quantum.Expectation(quantum.Circuit(2).ry("a", 0), "Z0"),
    "VQE": lambda: quantum.VQE("Z0", quantum.Circuit(1).ry("a", 0)),
    "VQD": lambda: quantum.VQD("Z0", quantum.Circuit(1).ry("a", 0)),
    "QAOA": lambda: quantum.QAOA(quantum.maxcut([(0, 1)])),
    "search": lambda: rl.MCTS(rl.games.TicTacToe(), simulations=10),
    "search result": lambda: rl.MCTS(rl.games.TicTacToe(), simulations=10)(rl.games.TicTacToe().initial_state()),
    "agent": lambda: rl.PPO("CartPole-v1"),
    "policy": lambda: rl.PPO("CartPole-v1").policy,
}


@pytest.mark.parametrize("name", OBJECTS)
def test_repr_is_short(name):
    shown = repr(OBJECTS[name]())
    assert len(shown) < 400, shown
    assert not re.search(r"object at 0x|array\(", shown), shown


def test_repr_says_shapes_and_small_numbers():
    layer = core.nn.Linear(np.zeros((3, 2)), np.array([1.0, 2.5]))
    assert repr(layer) == "Linear(weight=float64[3, 2], bias=[1. , 2.5])"
    assert repr(sponge.DCD("run.dcd", every=500)) == "<DCD every 500 steps, 'run.dcd'>"
    assert repr(quantum.VQE("Z0", quantum.Circuit(1).ry("a", 0))) == "<VQE: 1 qubits, 1 parameters>"
