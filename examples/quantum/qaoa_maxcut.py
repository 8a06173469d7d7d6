"""Largest cut of a weighted graph by QAOA, layer after layer, and by recursive QAOA.

Random three-regular graph with weights; the optimum is known by trying all cuts. QAOA's mean cut approaches it with
depth (angles for p layers start from those for p - 1), recursive QAOA with one layer fixes the bits one after the other
and finds it.

    python examples/quantum/qaoa_maxcut.py [--nodes 14] [--layers 6] [--output qaoa_maxcut.png]
"""

import argparse
import time

import numpy as np

from triskele import quantum


def regular_graph(nodes, degree, rng):
    """Edges of a random simple graph in which every node has `degree` neighbors."""
    while True:
        ends = rng.permutation(np.repeat(np.arange(nodes), degree)).reshape(-1, 2)
        edges = {tuple(sorted(pair)) for pair in ends.tolist()}
        if len(edges) == len(ends) and all(i != j for i, j in edges):
            return sorted(edges)


def places(edges, nodes):
    """Positions for drawing: springs along edges, repulsion between all (Fruchterman and Reingold 1991)."""
    angle = 2 * np.pi * np.arange(nodes) / nodes
    x = np.stack([np.cos(angle), np.sin(angle)], 1)
    joined = np.zeros((nodes, nodes))
    for i, j in edges:
        joined[i, j] = joined[j, i] = 1
    for step in np.linspace(0.2, 0.002, 600):
        d = x[:, None] - x[None]
        r = np.linalg.norm(d, axis=-1) + np.eye(nodes)
        force = np.sum(d / r[..., None] * (0.35 / r - joined * r**2 / 0.6)[..., None], axis=1)
        x = x + step * force / np.maximum(np.linalg.norm(force, axis=1, keepdims=True), 1.0)
    return x


def main(nodes, layers, output):
    rng = np.random.default_rng(7)
    edges = [(i, j, float(w)) for (i, j), w in zip(regular_graph(nodes, 3, rng), rng.uniform(0.2, 1.8, 3 * nodes // 2))]
    cost = quantum.maxcut(edges)

    every = (np.arange(1 << nodes)[:, None] >> np.arange(nodes)) & 1
    cuts = sum(w * (every[:, i] != every[:, j]) for i, j, w in edges)
    best = cuts.max()
    print(f"{nodes} nodes, {len(edges)} edges: the largest cut weighs {best:.4f}, a random one {cuts.mean():.4f}")

    began = time.perf_counter()
    result = quantum.QAOA(cost, layers, seed=1).run()
    took = time.perf_counter() - began
    for p, energy in enumerate(result.depths, 1):
        print(f"QAOA, p = {p}: mean cut {-energy:.4f}, {-energy / best:.4f} of the optimum")
    print(f"{result.evaluations} evaluations in {took:.1f} s; best of 1,000 samples {-result.cost:.4f}")
    recursive = quantum.RecursiveQAOA(cost).run()
    print(f"recursive QAOA with one layer: {-recursive.cost:.4f}, {-recursive.cost / best:.4f} of the optimum")

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
    x = places([edge[:2] for edge in edges], nodes)
    for i, j, w in edges:
        cut = recursive.bits[i] != recursive.bits[j]
        left.plot(*x[[i, j]].T, color="tab:red" if cut else "0.7", lw=0.5 + 2.2 * w, zorder=1, solid_capstyle="round")
    left.scatter(*x.T, c=np.where(recursive.bits, "tab:blue", "white"), edgecolors="tab:blue", s=170, lw=2, zorder=2)
    left.set_title(f"cut of weight {-recursive.cost:.2f} (recursive QAOA)")
    left.set_aspect("equal")
    left.axis("off")

    middle.plot(np.arange(1, layers + 1), -result.depths / best, "o-")
    middle.axhline(1.0, color="0.5", lw=1, ls="--")
    middle.axhline(cuts.mean() / best, color="0.5", lw=1, ls=":")
    middle.text(layers, cuts.mean() / best + 0.008, "random cuts", ha="right", color="0.4")
    middle.set(xlabel="layers p", ylabel="mean cut / largest cut", title="QAOA's depth", xticks=range(1, layers + 1))

    bins = np.linspace(0, best, 40)
    right.hist(cuts, bins, weights=np.full(len(cuts), 1 / len(cuts)), color="0.8", label="random cuts")
    probability = quantum.run(result.ansatz, result.theta).probabilities()
    right.hist(cuts, bins, weights=probability, color="tab:blue", alpha=0.75, label=f"QAOA, p = {layers}")
    right.set(xlabel="weight of the cut", ylabel="probability", title="what a sample gives")
    right.legend(frameon=False)
    figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=14, help="an even number")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--output", default="qaoa_maxcut.png", help="where the picture goes")
    args = parser.parse_args()
    main(args.nodes, args.layers, args.output)
