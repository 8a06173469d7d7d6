"""The largest cut of the same graphs, by a quantum circuit (QAOA) and by tree search (MCTS).

Random cubic graphs of 14 nodes with random weights. QAOA with up to six layers starts from the uniform superposition
and is judged by the mean of its final state and by the best of its samples; the search assigns one node after the other
and is judged by its line of play. All 8,192 cuts are counted for comparison, and random assignments show what neither
has to be clever for.

    python examples/hybrid/maxcut_qaoa_mcts.py [--graphs 10] [--output maxcut_qaoa_mcts.png]
"""

import argparse

import numpy as np

from triskele import quantum
from triskele import reinforce as rl

NODES = 14
LAYERS, SAMPLES = 6, 100
SIMULATIONS = (100, 300, 1000, 3000, 10_000)


def cubic_graph(rng):
    """A symmetric matrix of weights between 0 and 1, three edges at each node."""
    while True:
        ends = rng.permutation(np.repeat(np.arange(NODES), 3)).reshape(-1, 2)  # the configuration model
        weights = np.zeros((NODES, NODES))
        weights[ends[:, 0], ends[:, 1]] = rng.uniform(0.1, 1.0, len(ends))
        weights += weights.T
        if np.all(np.count_nonzero(weights, axis=1) == 3) and not weights.diagonal().any():
            return weights


def cut(weights, bits):
    """Weight of the edges between the two sides; `bits` (..., n) of 0 and 1."""
    sign = 1.0 - 2.0 * bits
    return 0.25 * (weights.sum() - np.einsum("...i,ij,...j->...", sign, weights, sign))


class MaxCut(rl.Game):
    """Nodes are assigned to side 0 or 1 in turn; the return is the share of the weight of all edges that is cut."""

    num_players, num_actions, max_length, observation_shape = 1, 2, NODES, (NODES,)
    state = [("weights", np.float64, (NODES, NODES)), ("side", np.int8, NODES), ("assigned", np.int64)]

    @staticmethod
    def initial(state):
        state.side[:] = -1

    @staticmethod
    def player(state):
        return 0

    @staticmethod
    def legal_actions(state, mask):
        mask[0], mask[1] = True, state.assigned > 0  # the first node may stay where it is

    @staticmethod
    def step(state, action):
        state.side[state.assigned] = action
        state.assigned += 1

    @staticmethod
    def terminal(state):
        return state.assigned == NODES

    @staticmethod
    def returns(state, out):
        total, found = 0.0, 0.0
        for i in range(NODES):
            for j in range(i):
                total += state.weights[i, j]
                if state.side[i] != state.side[j]:
                    found += state.weights[i, j]
        out[0] = found / total if total > 0 else 0.0

    @staticmethod
    def observe(state, player, out):
        out[:] = state.side


def play(game, weights, simulations, seed):
    """The cut that a search finds, which decides for one node after the other."""
    policy = rl.UCT(c=0.6)  # returns of cuts differ by less than one
    search = rl.MCTS(game, simulations, policy=policy, evaluator=rl.RandomRollout(), seed=seed)
    state = game.initial_state()
    state.data["weights"] = weights
    while not state.terminal:
        state = state.play(search(state).action)
    return cut(weights, state.data[0]["side"].astype(float))


def main(graphs, output):
    rng = np.random.default_rng(1)
    game = MaxCut()
    every = (np.arange(2 ** (NODES - 1))[:, None] >> np.arange(NODES)) & 1
    layers, samples, searches, chance = [], [], [], []
    for k in range(graphs):
        weights = cubic_graph(rng)
        best = cut(weights, every).max()
        result = quantum.QAOA(quantum.maxcut(weights), layers=LAYERS, samples=SAMPLES, seed=k).run(progress=False)
        layers.append(-result.depths / best)
        samples.append(-result.cost / best)
        searches.append([play(game, weights, n, k) / best for n in SIMULATIONS])
        chance.append(cut(weights, rng.integers(0, 2, (1000, NODES))).mean() / best)
    layers, searches = np.array(layers), np.array(searches)

    print(f"{graphs} cubic graphs of {NODES} nodes; share of the largest cut, mean and worst:")
    print(f"  random assignment            {np.mean(chance):.3f}")
    for p in range(LAYERS):
        print(f"  QAOA, {p + 1} layers, mean cost   {layers[:, p].mean():.3f}  {layers[:, p].min():.3f}")
    print(f"  QAOA, best of {SAMPLES} samples    {np.mean(samples):.3f}  {np.min(samples):.3f}")
    for n, found in zip(SIMULATIONS, searches.T, strict=True):
        print(f"  MCTS, {n:6,} simulations     {found.mean():.3f}  {found.min():.3f}")

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained", sharey=True)
    error = {"capsize": 3, "fmt": "o-"}
    left.errorbar(np.arange(1, LAYERS + 1), layers.mean(0), layers.std(0), label="mean of the state", **error)
    left.axhline(np.mean(samples), color="tab:green", label=f"best of {SAMPLES} samples")
    left.set(xlabel="layers", ylabel="share of the largest cut", title="QAOA")
    right.errorbar(SIMULATIONS, searches.mean(0), searches.std(0), color="tab:red", label="MCTS", **error)
    right.set(xscale="log", xlabel="simulations for each node", title="MCTS")
    for axes in (left, right):
        axes.axhline(np.mean(chance), color="0.6", ls="--", label="random")
        axes.legend(frameon=False, loc="lower right")
    figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--graphs", type=int, default=10)
    parser.add_argument("--output", default="maxcut_qaoa_mcts.png", help="where the picture goes")
    main(**vars(parser.parse_args()))
