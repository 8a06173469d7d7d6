"""Programs as users type them, for type checkers: `mypy --strict` and pyright must accept every line.

Nothing here runs. The file holds the snippets of the READMEs, and what users write themselves: operators, potentials,
reporters, gates, games, environments and policies.
"""

import dataclasses
import math
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from triskele import core, quantum, sponge
from triskele import reinforce as rl
from triskele.core import nn, optim, random
from triskele.sponge import cv, fitting, learn, targets, units

Array = NDArray[np.float64]
Params = dict[str, Array]


# -- core --------------------------------------------------------------------------------------------------------------


def loss(params: Params, x: Array, y: Array) -> Any:
    """Mean squared error of a network with one hidden layer."""
    h = np.tanh(x @ params["w1"] + params["b1"])
    return np.mean((h @ params["w2"] - y) ** 2)


def training() -> Params:
    """The first snippet of the README."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((64, 3)), rng.standard_normal((64, 1))
    params = {"w1": rng.standard_normal((3, 8)), "b1": np.zeros(8), "w2": rng.standard_normal((8, 1))}
    value_and_grad = core.jit(core.value_and_grad(loss))
    for _ in range(200):
        value, grads = value_and_grad(params, x, y)
        params = {name: p - 0.1 * grads[name] for name, p in params.items()}
        print(f"{float(value):.3f}")
    return params


@core.elementwise
def morse(r: float, depth: float, width: float) -> float:
    """A scalar function of the user's."""
    return depth * (1 - math.exp(-width * (r - 1))) ** 2 if r > 0 else math.inf


def running_max() -> None:
    """An operator of the user's, from a Numba function."""

    @core.custom_op(out=lambda x: x)
    @numba.njit  # type: ignore[untyped-decorator, unused-ignore]
    def largest(x: Array, out: Array) -> None:
        best = x[0]
        for i in range(x.size):
            best = max(best, x[i])
            out[i] = best

    @largest.vjp
    def _(ct: Array, out: Array, x: Array) -> Any:
        holder = np.maximum.accumulate(np.where(x == out, np.arange(x.size), 0))
        return core.index_add(np.zeros_like(x), holder, ct)

    core.check_grads(lambda x: largest(x) ** 2, (np.array([1.0, 3.0, 2.0]),))


@core.jit
def root(a: float) -> float:
    """Square root of `a` by Newton's method."""
    x = a
    while abs(x * x - a) > 1e-12 * a:
        x = (x + a / x) / 2
    return x


def pendulum(stiffness: float, steps: int) -> Any:
    """Angle after some steps, through a loop that is differentiated."""

    def step(y: Array, _: None) -> tuple[Array, None]:
        return y + 0.01 * np.stack([y[1], -stiffness * np.sin(y[0])]), None

    return core.scan(step, np.array([1.0, 0.0]), length=steps, checkpoint=True)[0][0]


def transforms(x: Array, v: Array) -> float:
    """Transforms of functions and what they return."""
    slope = core.jit(core.grad(pendulum), static_argnames="steps")(1.0, steps=1000)
    curvature = core.hvp(lambda x: np.sum(x**3), (x,), (v,))
    matrix = core.hessian(lambda x: np.sum(x**3))(x)
    value, pull = core.vjp(np.sin, x)
    many = core.vmap(np.sin, 0)(x)
    print(root(2.0) + core.grad(root)(2.0), curvature, matrix.shape, value, pull(v), many.sum())
    return float(slope)


@dataclasses.dataclass(frozen=True)
class Head:
    """A layer of the user's, with a layer of ours inside."""

    linear: nn.Linear
    scale: Array

    def __call__(self, x: Array) -> Any:
        return nn.relu(self.linear(x)) * self.scale


def network(images: Array, labels: NDArray[np.int64], folder: Path) -> Head:
    """A network, its optimizer, and a file."""
    head = Head(nn.Linear.init(random.key(0), 64, 10), np.ones(10))
    optimizer = optim.Adam(optim.warmup(50, optim.cosine_decay(3e-3, 1000)))
    state = optimizer.init(head)

    @core.jit
    def step(head: Head, state: Any) -> tuple[Head, Any, Any]:
        value, grads = core.value_and_grad(lambda h: nn.cross_entropy(h(images), labels))(head)
        head, state = optimizer.step(head, optim.clip_by_global_norm(grads, 1.0), state)
        return head, state, value

    head, state, value = step(head, state)
    core.save(folder / "head.safetensors", head)
    return core.load(folder / "head.safetensors", head)


# -- sponge ------------------------------------------------------------------------------------------------------------


def dynamics(replicas: Array) -> None:
    """The second snippet of the README, and derivatives of the energy."""
    system = sponge.load("peptide.prmtop", "peptide.inpcrd", method="pme", cutoff=0.9, constraints="h-bonds")
    sim = sponge.Simulation(
        system,
        sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.002),
        barostat=sponge.MonteCarloBarostat(pressure=1.0),
        seed=1,
    )
    sim.minimize()
    sim.run(
        time="1 ns",
        report=[sponge.Log(every=5000), sponge.DCD("run.dcd", every=1000), sponge.Checkpoint("run.chk", every=50_000)],
    )
    energy = system.energy_function()
    params, x, box = system.params(), sim.positions, sim.box
    slopes = core.grad(energy)(params, x, box)
    curvature = core.hvp(lambda x: energy(params, x, box), (x,), (np.ones_like(x),))
    many = core.vmap(energy, (None, 0, None))(params, replicas, box)
    print(sim.step, sim.energies()["potential"], slopes, curvature, many, system.n, np.sum(system.forces() ** 2))


@sponge.pair_potential
def buckingham(r: float, a: float, b: float, c: float) -> float:
    """Energy of a pair."""
    return a * math.exp(-b * r) - c / r**6


def potentials(system: sponge.System) -> None:
    """Potentials of the user's are added like ours."""
    system.add(buckingham(a=4.2e5, b=35.0, c=0.0062, cutoff=1.0))
    system.add(sponge.harmonic_bond([[0, 1]], k=1000.0, r0=0.15))
    system.add(sponge.umbrella([cv.torsion(4, 6, 8, 14)], center=[-1.2], k=[200.0]))
    system.nonbonded.update(tolerance=1e-4)


class Wall(sponge.Potential):
    """A potential of the user's, from its energy alone."""

    name = "wall"

    def __init__(self, k: float) -> None:
        self.params = {"k": np.array([k])}

    def energy(self, params: dict[str, Any], positions: Any, box: Any) -> Any:
        return params["k"][0] * np.sum(np.maximum(positions[:, 2] - 1.0, 0) ** 2)

    def check(self, system: sponge.System) -> None:
        if system.box is not None:
            raise ValueError("wall: the system must not be periodic")


class Mean(sponge.Reporter):
    """A reporter of the user's."""

    def __init__(self, every: int) -> None:
        super().__init__(every)
        self.values: list[float] = []

    def report(self, sim: sponge.Simulation, step: int) -> None:
        self.values.append(sim.energies()["potential"])


def sampling(system: sponge.System, integrator: sponge.LangevinMiddle) -> None:
    """Enhanced sampling and its analysis."""
    phi, psi = cv.torsion(4, 6, 8, 14), cv.torsion(6, 8, 14, 16)
    sits = sponge.SITS(solute=range(22), temperatures=units.ladder(280, 600, 60), cross=0.5)
    bias = sponge.Metadynamics([phi, psi], sigma=0.35, height=1.2, every=500, bias_factor=8, record=100)
    sim = sponge.Simulation(system, integrator, sampling=[bias, sits])
    angles = sponge.Variables({"phi": phi}, every=50)
    sim.run(time="1 ns", report=[angles, Mean(every=100), sponge.Callback(10, lambda sim: print(sim.step))])
    sits.produce()
    value, error = sits.free_energies()
    surface = bias.free_energy()
    print(sits.report(), sits.weights(angles.steps), value, error, surface.value, surface.error)
    rex = sponge.ReplicaExchange(system, integrator, units.ladder(300, 600, 8), every=500, seed=1)
    rex.run(time="10 ns")
    print(rex.acceptance, rex.round_trips)
    windows = sponge.UmbrellaSampling(system, phi, np.linspace(-3, 3, 24), k=150.0, integrator=integrator, record=25)
    windows.equilibrate(time="40 ps")
    windows.run(time="200 ps")
    print(windows.wham(bins=72))


def learning(sim: sponge.Simulation, argon: sponge.System, r: Array, g: Array) -> None:
    """A learned potential, and parameters fitted to experiment."""
    data = learn.record(sim, 1000, every=100)
    train, validation, test = data.split(800, 100, 100, seed=1)
    net = learn.PaiNN.init(random.key(0), ["H", "C", "N", "O"], cutoff=0.5, features=64, layers=3)
    found = learn.train(net, train, epochs=50, validation=validation, checkpoint="train.chk")
    print(learn.evaluate(found.network, test))
    learn.save("amide.safetensors", found.network)
    sim.system.add(sponge.NeuralPotential(found.network))
    bath = sponge.LangevinMiddle(temperature=120, friction=2.0, timestep=0.01)
    fit = sponge.fit(
        argon,
        [targets.rdf(r, g), targets.pressure(160.0)],
        ["nonbonded/epsilons", "nonbonded/sigmas"],
        by=fitting.Reweighting(bath, steps=20_000, every=100),
    )
    print(fit, fit.system, fit.reached, fit.history)


def water(folder: Path) -> sponge.System:
    """A structure, a force field, and a box of water."""
    structure = sponge.read_pdb(folder / "protein.pdb")
    system = sponge.load(folder / "protein.pdb", forcefield=["amber14-all.xml", "amber14/tip3p.xml"], method="pme")
    sponge.write_pdb(folder / "out.pdb", structure.topology, structure.positions)
    return system


# -- quantum -----------------------------------------------------------------------------------------------------------


def circuits() -> None:
    """Circuits, runs and gradients."""
    circuit = quantum.Circuit(4).h(0).cx(0, 1).rx("a", 2).ry({"b": 2.0}, 3).rzz("a - b/2", 1, 2)
    theta = np.array([0.3, -0.7])
    result = quantum.run(circuit, theta)
    print(result.statevector(), result.probabilities([0, 2]), result.sample(1000, seed=1).counts())
    energy = quantum.Expectation(circuit, quantum.PauliSum("0.5 Z0 Z1 - 1.2 X2"))
    value, gradient = energy.value_and_grad(theta)
    print(energy(theta), value, gradient, core.hessian(energy)(theta), core.jit(core.grad(energy))(theta))
    encoder = quantum.Circuit(2).ry("x0", 0).ry("x1", 1).as_encoder()
    print(encoder + quantum.hardware_efficient(2, layers=2) + encoder, circuit.num_qubits, circuit.parameters)
    circuit.draw("mpl").savefig("circuit.png")


def kick() -> tuple[str, ...]:
    """A gate of the user's."""
    x = np.array([[0, 1], [1, 0]])
    gate = quantum.gate(lambda t: np.cos(t**2) * np.eye(2) - 1j * np.sin(t**2) * x, 1, 1, "kick")
    return quantum.Circuit(1).append(gate, 0, ["a"]).parameters


def chemistry(model: quantum.NoiseModel) -> float:
    """Variational algorithms."""
    lih = quantum.molecules.load("LiH", 1.5)
    ansatz = quantum.uccsd(lih.num_electrons, lih.num_qubits)
    result = quantum.VQE(lih.hamiltonian, ansatz, simulator="subspace").run()
    pool = quantum.fermionic_pool(lih.num_electrons, lih.num_qubits)
    start = quantum.hartree_fock(lih.num_electrons, lih.num_qubits)
    print(quantum.AdaptVQE(lih.hamiltonian, pool, start).run().energy)
    h = quantum.tfim(4, 1.0, 0.7)
    layers = quantum.hardware_efficient(4, layers=3)
    print(quantum.VQD(h, layers, states=3, initial="random").run().energies)
    print(quantum.VQE(h, layers, initial="random", shots=1000, optimizer="spsa").run())
    print(quantum.VQE(h, layers.with_noise(model), initial="random", simulator="density_matrix").run())
    curvature = core.hessian(quantum.Expectation(ansatz, lih.hamiltonian))(result.theta)
    return float(result.energy - lih.fci_energy + curvature[0, 0])


def graphs(x: Array, y: NDArray[np.int64]) -> None:
    """QAOA and a classifier."""
    cost = quantum.maxcut([(0, 1, 2.0), (1, 2), (2, 3), (3, 0)])
    print(quantum.QAOA(cost, layers=4).run().bits, quantum.RecursiveQAOA(cost).run().bits)
    encoder = quantum.Circuit(2).ry("x0", 0).ry("x1", 1).as_encoder()
    trained = quantum.Classifier(encoder + quantum.hardware_efficient(2, layers=2), epochs=50).fit(x, y)
    print(trained.predict(x), trained.predict_proba(x), trained.score(x, y), quantum.FidelityKernel(encoder)(x, y))


# -- reinforce ---------------------------------------------------------------------------------------------------------


class Matches(rl.Game):
    """Whoever takes the last of seven matches wins."""

    num_players, num_actions, max_length, observation_shape = 2, 2, 7, (1,)
    state = [("left", np.int64), ("player", np.int64)]

    @staticmethod
    def initial(state: Any) -> None:
        state.left = 7

    @staticmethod
    def player(state: Any) -> int:
        return int(state.player)

    @staticmethod
    def legal_actions(state: Any, mask: NDArray[np.bool_]) -> None:
        mask[0], mask[1] = True, state.left > 1

    @staticmethod
    def step(state: Any, action: int) -> None:
        state.left -= action + 1
        state.player = 1 - state.player

    @staticmethod
    def terminal(state: Any) -> bool:
        return bool(state.left == 0)

    @staticmethod
    def returns(state: Any, out: Array) -> None:
        out[1 - state.player], out[state.player] = 1.0, -1.0

    @staticmethod
    def observe(state: Any, player: int, out: Array) -> None:
        out[0] = state.left


class Walk(rl.Environment):
    """An environment of the user's: places 0 ... 8, a reward at the right end."""

    state = [("place", np.int64)]
    observation_space, action_space = rl.Box(0, 8, (1,)), rl.Discrete(2)
    max_steps = 100

    @staticmethod
    def reset(state: Any, stream: Any) -> None:
        state.place = 4

    @staticmethod
    def step(state: Any, action: int, stream: Any) -> tuple[float, bool]:
        state.place += 2 * action - 1
        return float(state.place == 8), bool(state.place in (0, 8))

    @staticmethod
    def observe(state: Any, out: NDArray[np.float32]) -> None:
        out[0] = state.place


def searches() -> None:
    """Searches, matches and a player of the user's."""
    game = Matches()
    rl.check_game(game)
    search = rl.MCTS(game, simulations=1000, policy=rl.UCT(c=1.4), evaluator=rl.RandomRollout(), seed=0)
    state = game.initial_state().play(1)
    result = search(state)
    print(state.play(result.action), result.visits.sum(), result.values, result.root_value, result.line)

    def first(state: rl.State) -> int:
        return int(state.legal_actions[0])

    print(rl.play_match(game, {"search": search, "first": first}, games=100))
    print(rl.play_match(game, [search, rl.Random()], games=100, progress=False))
    zero = rl.AlphaZero(rl.games.TicTacToe(), num_games=64, simulations=16, updates=8, seed=0)
    zero.train(5_000)
    print(zero.evaluate(20, rl.Random()), zero.search(200)(rl.games.TicTacToe().initial_state()).action)


def agents(folder: Path) -> int:
    """Agents, vectors of environments, and policies from files."""
    agent = rl.PPO("CartPole-v1", num_envs=16, seed=0).train(100_000)
    agent.train(8192, distribution=rl.Threads(actors=2))
    print(agent.evaluate(episodes=20))
    agent.policy.save(folder / "cartpole.safetensors")
    policy = rl.Policy.load(folder / "cartpole.safetensors")
    rl.check_env(Walk)
    print(rl.PPO(Walk, seed=0).train(10_000).evaluate(episodes=5))
    envs = rl.make("CartPole-v1", num_envs=64, seed=0)
    observation, info = envs.reset()
    observation, reward, terminated, truncated, info = envs.step(policy(observation))
    buffer = rl.ReplayBuffer(10_000, envs.observation_space, envs.action_space, seed=0)
    print(reward.sum(), terminated.any(), truncated.any(), info, len(buffer))
    return envs.num_envs
