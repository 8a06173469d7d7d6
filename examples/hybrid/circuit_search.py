"""Tree search designs a variational circuit.

A state-preparation circuit for the transverse-field Ising chain grows gate by gate from a pool of rotations. An
environment of Gymnasium tells what the circuit is worth: the share of the exact energy that it reaches after its angles
are optimized with exact gradients. MCTS searches over circuits, one decision after the other, and keeps the best that
it has seen. Random circuits of the same length and the greedy choice (ADAPT-VQE) use the same pool, for comparison.

    python examples/hybrid/circuit_search.py [--simulations 100] [--output circuit_search.png]
"""

import argparse

import gymnasium
import numpy as np

from triskele import quantum
from triskele import reinforce as rl

SPINS, LENGTH = 4, 6
HAMILTONIAN = quantum.tfim(SPINS, 1.0, 1.0)
EXACT = float(np.linalg.eigvalsh(HAMILTONIAN.matrix().toarray())[0])
POOL = (
    [("ry", (q,)) for q in range(SPINS)]
    + [("ryz", (i, i + 1)) for i in range(SPINS - 1)]
    + [("rzy", (i, i + 1)) for i in range(SPINS - 1)]
    + [("rzz", (i, i + 1)) for i in range(SPINS - 1)]
)


START = quantum.Circuit(SPINS)
for q in range(SPINS):
    START.h(q)


def circuit(gates):
    """All spins along the field, and then these members of the pool, each with an angle of its own."""
    built = START.copy()
    for k, gate in enumerate(gates):
        name, qubits = POOL[gate]
        getattr(built, name)(f"a{k}", *qubits)
    return built


class Design(gymnasium.Env):
    """An episode is a circuit: actions append gates, and the reward at the end is how good the circuit is."""

    action_space = gymnasium.spaces.Discrete(len(POOL))
    observation_space = gymnasium.spaces.Box(-1, len(POOL), (LENGTH,), np.int64)
    known = {}  # energies of circuits, shared by all copies

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.gates = ()
        return self.observation(), {}

    def observation(self):
        return np.array(self.gates + (-1,) * (LENGTH - len(self.gates)))

    def step(self, action):
        self.gates += (int(action),)
        done = len(self.gates) == LENGTH
        return self.observation(), self.worth(self.gates) if done else 0.0, done, False, {}

    @classmethod
    def worth(cls, gates):
        """Lowest energy of the circuit, as a share of the exact one."""
        if gates not in cls.known:
            start = np.full(len(gates), 0.1)
            result = quantum.VQE(HAMILTONIAN, circuit(gates), initial=start).run(progress=False)
            cls.known[gates] = result.energy / EXACT
        return cls.known[gates]


def best_so_far(values):
    return np.maximum.accumulate(values)


def main(simulations, output):
    game = rl.from_gymnasium(Design, horizon=LENGTH)
    search = rl.MCTS(game, simulations, policy=rl.UCT(c=0.1), seed=0)
    state = game.initial_state()
    while not state.terminal:
        state = state.play(search(state).action)
    searched = np.array(list(Design.known.values()))
    best = max(Design.known, key=Design.known.get)
    print(f"{len(searched)} circuits were optimized; the best: " + " ".join(f"{POOL[g][0]}{POOL[g][1]}" for g in best))

    rng = np.random.default_rng(0)
    choices = rng.integers(len(POOL), size=(len(searched), LENGTH))
    drawn = np.array([Design.worth(tuple(map(int, gates))) for gates in choices])
    pool = [getattr(quantum.Circuit(SPINS), name)("a", *qubits) for name, qubits in POOL]
    adapt = quantum.AdaptVQE(HAMILTONIAN, pool, START, max_elements=LENGTH).run(progress=False)
    print(
        f"energy, exact {EXACT:.4f}: tree search {searched.max() * EXACT:.4f}, random circuits "
        f"{drawn.max() * EXACT:.4f}, greedy {adapt.energy:.4f}"
    )

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
    for name, values in (("tree search", searched), ("random", drawn)):
        left.plot(np.arange(1, len(values) + 1), 1 - best_so_far(values), label=name)
    left.axhline(1 - adapt.energy / EXACT, color="0.5", ls="--", label="greedy (ADAPT-VQE)")
    left.set(xlabel="circuits optimized", ylabel="relative error of the energy", xscale="log", yscale="log")
    left.legend(frameon=False)
    circuit(best).draw("mpl", axes=right)
    figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--simulations", type=int, default=100)
    parser.add_argument("--output", default="circuit_search.png", help="where the picture goes")
    main(**vars(parser.parse_args()))
