"""One small piece of each kind of long work, behind one signature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["WORKS", "Work"]


@dataclass(frozen=True)
class Work:
    """A long function: ``run(seed=, report=, progress=[, checkpoint=])`` returns ``(numbers, reason)``.

    `numbers` is a tree of arrays that two runs can be compared by, and `reason` what the result says of an early end.
    """

    name: str
    run: Callable[..., Any]
    stop: int = 2  # step at which a reporter may end it
    checkpoint: bool = False
    seeded: bool = True


def _lbfgs(seed=0, **options):
    from triskele.core import optim

    begin = np.random.default_rng(seed).uniform(-1, 1, 4)
    found = optim.LBFGS().minimize(
        lambda x: np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2), begin, **options
    )
    return [found.params, found.value], found.message


def _model_fit(seed=0, **options):
    from triskele.core import nn, random, train

    x = np.linspace(-1, 1, 24).reshape(12, 2)
    net = nn.Sequential((nn.Linear.init(random.key(0), 2, 6, dtype=float), nn.Dropout(0.5), nn.Linear(np.ones((6, 1)))))
    model = train.Model(net, nn.mean_squared_error)
    history = model.fit([(x[:6], x[:6, :1]), (x[6:], x[6:, :1])], epochs=4, seed=seed, **options)
    return [model.net, history["loss"]], history.stopped


def _ppo(seed=0, **options):
    from triskele import reinforce as rl

    agent = rl.PPO("CartPole-v1", num_envs=2, num_steps=16, hidden=(8,), seed=seed).train(160, **options)
    return agent.model, agent.stopped


def _evaluate(seed=0, **options):
    from triskele import reinforce as rl

    agent = rl.PPO("CartPole-v1", num_envs=2, num_steps=16, hidden=(8,))
    return agent.evaluate(6, seed=seed, deterministic=False, **options).returns, None


def _match(seed=0, **options):
    from triskele import reinforce as rl

    return rl.play_match(rl.games.TicTacToe(), [rl.Random(), rl.Random()], 20, seed=seed, **options).returns, None


def _circuit(qubits=2, blocks=2):
    from triskele import quantum

    return quantum.hardware_efficient(qubits, layers=blocks)


def _minimize(seed=0, **options):
    from triskele import quantum

    energy = quantum.Expectation(_circuit(), "Z0 Z1 + 0.5 X0")
    begin = np.linspace(0.1, 1, len(energy.parameters))
    found = quantum.minimize(energy, begin, "spsa", max_steps=20, seed=seed, **options)
    return [found.theta, found.history], found.message


def _vqe(seed=0, **options):
    from triskele import quantum

    found = quantum.VQE("Z0 Z1 + 0.5 X0", _circuit(), initial="random", seed=seed).run(**options)
    return [found.theta, found.history], found.message


def _vqd(seed=0, **options):
    from triskele import quantum

    found = quantum.VQD("Z0 + 0.5 Z1 + 0.3 X0 X1", _circuit(), states=2, starts=2, initial="random", seed=seed).run(
        **options
    )
    return [found.theta, found.energies], found.message


def _qaoa(seed=0, **options):
    from triskele import quantum

    found = quantum.QAOA(quantum.maxcut([(0, 1, 2.0), (1, 2), (2, 0)]), layers=2, initial="random", seed=seed).run(
        **options
    )
    return [found.theta, found.history], found.message


def _adapt(seed=0, **options):
    from triskele import quantum

    pool = [quantum.Circuit(2).rxy("t", 0, 1), quantum.Circuit(2).ry("t", 0), quantum.Circuit(2).ry("t", 1)]
    found = quantum.AdaptVQE(
        "Z0 + Z1 + 0.5 X0 X1 + 0.2 X0", pool, quantum.Circuit(2).x(0).x(1), optimizer="spsa", max_elements=4, seed=seed
    ).run(**options)
    return [found.theta, found.history], found.message


def _recursive_qaoa(**options):
    from triskele import quantum

    found = quantum.RecursiveQAOA(quantum.maxcut([(k, (k + 1) % 6) for k in range(6)]), cutoff=2).run(**options)
    return [found.bits, found.cost, found.evaluations], None


def _classifier(seed=0, **options):
    from triskele import quantum

    x = np.linspace(-1, 1, 12)[:, None]
    circuit = quantum.Circuit(1).ry("x", 0).as_encoder() + quantum.Circuit(1).ry("a", 0)
    found = quantum.Classifier(circuit, epochs=5, seed=seed).fit(x, x[:, 0] > 0.2, **options)
    return [found.net_, found.history_.records], None


def _springs(k=900.0):
    from triskele import sponge

    x = np.array([[0, 0, 0], [0.16, 0, 0], [0.3, 0.05, 0], [0.4, 0.2, 0.1]])
    system = sponge.System(sponge.Topology.of_particles(4), np.full(4, 12.0), positions=x)
    system.add(sponge.harmonic_bond([[0, 1], [1, 2], [2, 3]], k=k, r0=0.15))
    return system


def _thermostat():
    from triskele import sponge

    return sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.002)


def _simulation(seed=0, **options):
    from triskele import sponge

    sim = sponge.Simulation(_springs(), _thermostat(), seed=seed)
    sim.run(200, **options)
    return [sim.positions, sim.velocities], sim.stopped


def _minimization(**options):
    from triskele import sponge

    sim = sponge.Simulation(_springs(), sponge.VelocityVerlet(timestep=0.001))
    found = sim.minimize(1e-6, **options)
    return [sim.positions], found.message


def _replicas(seed=0, **options):
    from triskele import sponge

    replicas = sponge.Replicas(lambda k: sponge.Simulation(_springs(), _thermostat(), seed=10 * seed + k), 2, every=20)
    replicas.run(200, **options)
    return replicas.each(lambda sim: sim.positions), replicas.stopped


def _umbrella(seed=0, **options):
    from triskele import sponge

    windows = sponge.UmbrellaSampling(
        _springs(), sponge.cv.distance(0, 3), [0.3, 0.4, 0.5], 1000.0, _thermostat(), record=5, every=20, seed=seed
    )
    windows.run(200, **options)
    return windows.samples, windows.stopped


def _exchange(seed=0, **options):
    from triskele import sponge

    rex = sponge.ReplicaExchange(_springs(), _thermostat(), temperatures=[300, 330, 360], every=20, seed=seed)
    rex.run(200, **options)
    return rex.each(lambda sim: sim.positions), rex.stopped


def _fit(**options):
    from triskele import sponge

    frames = _springs().positions + np.linspace(-0.02, 0.02, 6)[:, None, None] * np.arange(12).reshape(4, 3)
    energies = [_springs(2000.0).energy(x) for x in frames]
    found = sponge.fit(_springs(), [sponge.targets.energies_forces(frames, energies)], ["bond/k", "bond/r0"], **options)
    return [*found.parameters.values()], found.stopped


def _learn(seed=0, **options):
    from triskele import core
    from triskele.sponge import learn

    r = np.linspace(0.08, 0.2, 16)
    x = np.stack([np.zeros((16, 3)), np.stack([r, 0 * r, 0 * r], 1)], 1)
    f = -5e4 * (r - 0.12)[:, None, None] * np.array([[-1.0, 0, 0], [1, 0, 0]])
    data = learn.Dataset([["O", "O"]] * 16, x, 2.5e4 * (r - 0.12) ** 2, f)
    net = learn.PaiNN.init(core.random.key(0), ["O"], cutoff=0.3, features=8, layers=1, radial=6)
    found = learn.train(net, data, epochs=4, batch=4, seed=seed, **options)
    return found.last, found.stopped


WORKS = [
    Work("core.optim.LBFGS.minimize", _lbfgs),
    Work("core.train.Model.fit", _model_fit, 4),  # its checkpoints are folders
    Work("reinforce.PPO.train", _ppo, 64, checkpoint=True),
    Work("reinforce.Agent.evaluate", _evaluate),
    Work("reinforce.play_match", _match, 1),
    Work("quantum.minimize", _minimize, checkpoint=True),
    Work("quantum.VQE.run", _vqe, checkpoint=True),
    Work("quantum.VQD.run", _vqd, checkpoint=True),
    Work("quantum.QAOA.run", _qaoa, checkpoint=True),
    Work("quantum.AdaptVQE.run", _adapt, checkpoint=True),
    Work("quantum.RecursiveQAOA.run", _recursive_qaoa, checkpoint=True, seeded=False),
    Work("quantum.Classifier.fit", _classifier, checkpoint=True),
    Work("sponge.Simulation.run", _simulation, 100, checkpoint=True),
    Work("sponge.Simulation.minimize", _minimization, seeded=False),
    Work("sponge.Replicas.run", _replicas, 100, checkpoint=True),
    Work("sponge.UmbrellaSampling.run", _umbrella, 100, checkpoint=True),
    Work("sponge.ReplicaExchange.run", _exchange, 100, checkpoint=True),
    Work("sponge.fit", _fit, checkpoint=True, seeded=False),
    Work("sponge.learn.train", _learn, checkpoint=True),
]
