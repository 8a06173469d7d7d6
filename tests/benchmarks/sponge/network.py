"""Forces of a PaiNN network in water, against SchNetPack with the same weights.

The same network (128 features, 3 interactions, 20 radial functions, cut-off 0.5 nm, float32) is built in SchNetPack
from our weights; both must give the same forces before anything is timed. Each gets the pairs within the cut-off of the
same configuration: ours as rows filled up to one length, SchNetPack a list. The neighbor search is in neither time.

    python -m tests.benchmarks.sponge.network [--atoms 2000] [--threads 1] [--rounds 3]
"""

import argparse
import time
import warnings

import numpy as np

from triskele import core, sponge
from triskele.sponge import learn
from triskele.sponge.learn.network import neighbor_rows
from triskele.sponge.neighbors.pairs import find_pairs

CUTOFF, FEATURES, LAYERS, RADIAL = 0.5, 128, 3, 20


def water(atoms):
    """Elements, positions and box of water at 1 g/cm^3."""
    built = sponge.build.water_box("tip3p", n=atoms // 3)
    return built.topology.elements, np.array(built.positions), np.array(built.box)


def ours(net, elements, positions, pairs, displacements):
    """Forces by the core: a call without arguments."""
    neighbors, which = neighbor_rows(*np.concatenate([pairs, pairs[:, ::-1]]).T, len(positions))
    vectors = np.where(
        (which >= 0)[..., None], np.concatenate([displacements, -displacements])[which], [2 * CUTOFF, 0, 0]
    )
    species, vectors = net.species(elements), vectors.astype(np.float32)
    slope = core.jit(core.grad(lambda v, net, species, neighbors: np.sum(net.energies(species, neighbors, v))))

    def run():
        g = np.where((which >= 0)[..., None], slope(vectors, net, species, neighbors), 0).astype(np.float64)
        forces = g.sum(axis=1)
        for a in range(3):
            forces[:, a] -= np.bincount(neighbors.ravel(), g[..., a].ravel(), len(forces))
        return forces

    return run


def schnetpack(net, elements, positions, pairs, displacements):
    """Forces by SchNetPack: a call without arguments."""
    import schnetpack as spk
    import torch
    from schnetpack import properties as p

    class Envelope(torch.nn.Module):
        cutoff = CUTOFF

        def forward(self, r):
            x = r / CUTOFF
            return torch.where(x < 1, 1 + x**3 * (-10 + x * (15 - 6 * x)), torch.zeros_like(x))

    basis = spk.nn.BesselRBF(RADIAL, CUTOFF)
    # as ours, for smooth forces
    painn = spk.representation.PaiNN(FEATURES, LAYERS, basis, cutoff_fn=Envelope(), epsilon=1e-2)
    model = spk.model.NeuralNetworkPotential(
        painn,
        [spk.atomistic.PairwiseDistances()],
        [spk.atomistic.Atomwise(FEATURES, output_key="energy"), spk.atomistic.Forces()],
    ).eval()
    norm = float(np.sqrt(0.2 / CUTOFF) * 0.1)  # of our radial functions

    def put(layer, weight, bias=None):
        layer.weight.data = torch.tensor(np.array(weight.T))
        if bias is not None:
            layer.bias.data = torch.tensor(np.array(bias))

    with torch.no_grad():
        for k, z in enumerate(net.elements):
            painn.embedding.weight[z] = torch.tensor(net.embedding[k])
        filters, biases = [], []
        for layer, message, mixing in zip(net.interactions, painn.interactions, painn.mixing, strict=True):
            filters.append(np.zeros((RADIAL, 3 * FEATURES), np.float32))
            biases.append(np.zeros(3 * FEATURES, np.float32))
            n = layer.filters.weight.shape[1]
            filters[-1][:, :n], biases[-1][:n] = layer.filters.weight * norm, layer.filters.bias
            context = [np.zeros((FEATURES, 3 * FEATURES), np.float32), np.zeros(3 * FEATURES, np.float32)]
            context[0][:, :n], context[1][:n] = layer.context[1].weight, layer.context[1].bias
            put(message.interatomic_context_net[0], layer.context[0].weight, layer.context[0].bias)
            put(message.interatomic_context_net[1], *context)
            put(mixing.mu_channel_mix, np.concatenate([layer.mix[1].weight, layer.mix[0].weight], 1))
            put(mixing.intraatomic_context_net[0], layer.update[0].weight, layer.update[0].bias)
            order = np.concatenate(
                [
                    np.arange(FEATURES),
                    np.arange(2, 3).repeat(FEATURES) * FEATURES + np.arange(FEATURES),
                    FEATURES + np.arange(FEATURES),
                ]
            )  # theirs: scalars, vectors, products
            put(mixing.intraatomic_context_net[1], layer.update[1].weight[:, order], layer.update[1].bias[order])
        put(painn.filter_net, np.concatenate(filters, 1), np.concatenate(biases))
        for layer, own in zip(model.output_modules[0].outnet, net.readout, strict=True):
            put(layer, own.weight, own.bias)
    i, j = np.concatenate([pairs, pairs[:, ::-1]]).T
    d = np.concatenate([displacements, -displacements])
    order = np.argsort(i, kind="stable")
    i, j, d = i[order], j[order], d[order]
    offsets = d - (positions[j] - positions[i])
    fixed = {
        p.Z: torch.tensor(elements.astype(np.int64)),
        p.idx_i: torch.tensor(i),
        p.idx_j: torch.tensor(j),
        p.offsets: torch.tensor(offsets, dtype=torch.float32),
        p.idx_m: torch.zeros(len(positions), dtype=torch.long),
        p.n_atoms: torch.tensor([len(positions)]),
    }

    def run():
        return model({**fixed, p.R: torch.tensor(positions, dtype=torch.float32)})["forces"].detach().numpy()

    return run, torch.set_num_threads


def main(atoms, threads, rounds):
    warnings.filterwarnings("ignore")
    elements, positions, box = water(atoms)
    pairs = find_pairs(positions, box, CUTOFF, np.zeros((0, 2), np.int64))
    displacements = np.asarray(sponge.box.displacement(positions[pairs[:, 1]] - positions[pairs[:, 0]], box))
    net = learn.PaiNN.init(
        core.random.key(0), ["H", "O"], cutoff=CUTOFF, features=FEATURES, layers=LAYERS, radial=RADIAL
    )
    here = ours(net, elements, positions, pairs, displacements)
    there, set_threads = schnetpack(net, elements, positions, pairs, displacements)
    core.set_threads(threads)
    set_threads(threads)
    a, b = here(), there()
    error = np.abs(a - b).max() / np.abs(b).max()
    if not error < 1e-3:
        raise SystemExit(f"the two networks must agree, got forces that differ by {error:.2g}")
    best = {"triskele": np.inf, "schnetpack": np.inf}
    for _ in range(rounds):  # in turns, so that a busy machine disturbs both
        for name, run in (("triskele", here), ("schnetpack", there)):
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    print(
        f"{len(positions)} atoms, {2 * len(pairs)} edges, {threads} thread(s): triskele {1e3 * best['triskele']:.0f} "
        f"ms, SchNetPack "
        f"{1e3 * best['schnetpack']:.0f} ms, {best['schnetpack'] / best['triskele']:.1f}x; forces agree to "
        f"{error:.1e}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--atoms", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    main(**vars(parser.parse_args()))
