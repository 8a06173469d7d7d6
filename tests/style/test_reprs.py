"""What notebooks and terminals show of the suite's objects is short and says what they are."""

import inspect
import re

import numpy as np
import pytest

from tests.docs.public import things
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
    "sum tree": lambda: rl.SumTree(1000),
    "learned search": lambda: rl.MuZero(rl.LearnedModel(np.tanh, np.tanh, np.tanh, (), num_actions=2, discount=1.0)),
    "network of a search": lambda: rl.Network(core.nn.MLP.init(KEY, [4, 64, 3])),
    "match": lambda: rl.play_match(rl.games.TicTacToe(), [rl.Random(), rl.Random()], games=50),
    "engine": lambda: sponge.Engine(peptide()),
    "snapshot": lambda: sponge.State(0, 0.0, np.zeros((22, 3)), np.zeros((22, 3)), None),
    "constraints": lambda: peptide().constraints,
    "force field": lambda: sponge.ForceField("amber14/tip3p.xml"),
    "fitted parameters": lambda: sponge.fitting.Parameters(peptide(), ["nonbonded/epsilons"]),
    "ensemble": lambda: sponge.differentiate.Ensemble(lambda p, x, box: 0.0, 300),
    "kernel": lambda: quantum.FidelityKernel(quantum.Circuit(2).ry("x", 0).as_encoder()),
    "recursive QAOA": lambda: quantum.RecursiveQAOA(quantum.maxcut([(0, 1)])),
    "readout": lambda: quantum.shots.mitigation.Readout(np.tile(np.eye(2), (20, 1, 1))),
    "custom derivative": lambda: core.custom_vjp(np.tanh),
    "result of a minimization": lambda: core.optim.LBFGS().minimize(lambda x: np.sum(x * x), np.ones(50)),
    "work": lambda: core.report.Work("train"),
}


BASES = {"core.Tensor", "core.train.metrics.Metric", "sponge.learn.Network"}  # only their subclasses have instances


def test_every_public_class_says_what_it_is():
    without = {
        name
        for name, thing in things().items()
        if inspect.isclass(thing) and thing.__repr__ is object.__repr__ and not getattr(thing, "_is_protocol", False)
    }
    assert without == BASES, f"classes without a repr: {sorted(without - BASES)}"


@pytest.mark.parametrize("name", OBJECTS)
def test_repr_is_short(name):
    shown = repr(OBJECTS[name]())
    assert len(shown) < 400, shown
    assert not re.search(r"object at 0x|array\(", shown), shown


def test_repr_says_shapes_and_small_numbers():
    layer = core.nn.Linear(np.zeros((3, 2)), np.array([1.0, 2.5]))
    assert repr(layer) == "Linear(weight=float64[3, 2], bias=[1. , 2.5])"
    assert repr(sponge.DCD("run.dcd", every=500)) == "<DCD every 500 steps, 'run.dcd'>"
    assert repr(rl.SumTree(3)) == "<SumTree: 3 weights, total 0>"
    assert (
        repr(rl.returns.VTrace(*np.zeros((3, 5, 2))))
        == "VTrace(targets=float64[5, 2], advantages=float64[5, 2], q_values=float64[5, 2])"
    )
    assert repr(quantum.VQE("Z0", quantum.Circuit(1).ry("a", 0))) == "<VQE: 1 qubits, 1 parameters>"
