"""Alanine dipeptide in vacuum: four ways to the same populations.

At 300 K the peptide (Amber ff96, bonds to hydrogen constant) goes from C7eq or C5 to C7ax, where phi is positive, less
than once in 100 ns. Integrated tempering (SITS), well-tempered metadynamics in phi and psi, umbrella sampling in phi,
and replica exchange all have to find the same shares of the three, and those that MBAR finds from 400 ns of plain runs
at up to 710 K (``REFERENCE``). The table says by how many standard errors the populations differ; the picture shows the
free energies with their errors. Where hardly any visit to a region decides about its share (C7ax by tempering and
exchange in a short run), an error bar would say nothing, and none is given.

    python examples/sponge/alanine_vacuum.py [--output alanine_vacuum.png] [--ns 16]
"""

import argparse
import itertools
import time
from dataclasses import replace

import numpy as np

from triskele import sponge
from triskele.sponge import analysis, cv, units

TEMPERATURE = 300.0
PHI, PSI = cv.torsion(4, 6, 8, 14), cv.torsion(6, 8, 14, 16)
REGIONS = {
    "C5": analysis.Rectangle(phi=np.radians((120, -112))),
    "C7eq": analysis.Rectangle(phi=np.radians((-112, 0))),
    "C7ax": analysis.Rectangle(phi=np.radians((0, 120))),
}
REFERENCE = {"C5": (0.5614, 0.003), "C7eq": (0.4293, 0.003), "C7ax": (0.0093, 0.0006)}
FEWEST = 8  # visits that must decide about a population, for its error to be known
UNSURE = 0.5 * units.GAS_CONSTANT * TEMPERATURE  # kJ/mol: what has a greater error is left out of the profile
EVERY = 200  # steps between records
BINS = 45


def load():
    return sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds")


def langevin():
    return sponge.LangevinMiddle(temperature=TEMPERATURE, friction=2.0, timestep=0.002)


def record(replicas, ps, every=EVERY):
    """Run each replica for `ps`; step numbers [m], phi and psi [m, replicas]."""
    records = {}

    def report(k):
        records[k] = sponge.Variables({"phi": PHI, "psi": PSI}, every=every)
        return records[k]

    replicas.run(time=ps, replica_report=report)
    return records[0].steps, *(np.stack([records[k][name] for k in range(replicas.n)], 1) for name in ("phi", "psi"))


def weighted(phi, psi, weights):
    """Surface, populations, visits and the profile along phi from weighted runs [m, runs]."""
    surface = analysis.free_energy(phi, psi, weights, temperature=TEMPERATURE, bins=BINS)
    found = analysis.populations(phi, psi, REGIONS, weights)
    seen = {name: visits(region(phi, psi), weights) for name, region in REGIONS.items()}
    return (
        surface,
        found,
        seen,
        analysis.profile(phi, weights, temperature=TEMPERATURE, bins=BINS, period=(-np.pi, np.pi)),
    )


def from_states(phi, psi, reduced, paths=None, parts=8):
    """The same from MBAR; the error of surface and profile is the scatter of MBAR of `parts` of the runs, that of the
    populations the larger of this and MBAR's own (which knows nothing of motions slower than what is recorded).

    phi, psi: [m, states]; reduced: [1 + states, states, m], the first row without bias at 300 K, where nothing was
    sampled; paths: takes [m, states] to [m, runs] along continuous paths; None where runs need not go from region to
    region (windows).
    """
    m, states = phi.shape
    counts = np.full(states, m)

    def solve(part):
        u = reduced[:, :, part]
        return analysis.mbar(u.reshape(len(u), -1), np.array([0, *counts * 0 + u.shape[2]]))

    def surface(part, weights):
        return analysis.free_energy(
            phi[part].T.ravel(), psi[part].T.ravel(), weights, temperature=TEMPERATURE, bins=BINS, blocks=2
        )

    everything = np.arange(m)
    result = solve(everything)
    pieces = [(part, solve(part).weights()) for part in np.array_split(everything, parts)]
    p = np.array([surface(part, weights).probability for part, weights in pieces])

    def error(p, whole):
        with np.errstate(divide="ignore", invalid="ignore"):
            found = units.GAS_CONSTANT * TEMPERATURE * p.std(0, ddof=1) / np.sqrt(parts) / whole
        found[(p > 0).sum(0) < 2] = np.inf
        return found

    shares = np.array(
        [[w @ region(phi[part], psi[part]).T.ravel() for region in REGIONS.values()] for part, w in pieces]
    )
    whole = surface(everything, result.weights())
    line = analysis.profile(
        phi.T.ravel(), result.weights(), temperature=TEMPERATURE, bins=BINS, period=(-np.pi, np.pi), blocks=2
    )
    found = [result.mean(region(phi, psi).T.ravel()) for region in REGIONS.values()]
    value, spread = np.array(found).T
    spread = np.maximum(spread, shares.std(0, ddof=1) / np.sqrt(parts))
    weights = result.weights().reshape(states, m).T
    seen = {
        name: visits(paths(region(phi, psi)), paths(weights)) if paths else np.inf for name, region in REGIONS.items()
    }
    return (
        replace(whole, error=error(p, whole.probability), blocks=parts),
        analysis.Populations(tuple(REGIONS), value, spread, np.full(len(found), np.nan)),
        seen,
        replace(line, error=error(p.sum(2), line.probability), blocks=parts),
    )


def visits(inside, weights):
    """Return the effective number of visits to a region: (sum w)^2 / sum w^2 over the weights w of whole visits.

    inside, weights: [m, runs], along continuous paths.
    """
    gap = np.zeros((1, inside.shape[1]), bool)
    path = np.concatenate([inside, gap]).T.ravel()  # runs one after the other, apart
    w = np.concatenate([weights, gap]).T.ravel() * path
    starts = np.flatnonzero(path & ~np.roll(path, 1))
    total = np.add.reduceat(w, starts) if len(starts) else np.zeros(1)
    return total.sum() ** 2 / max(np.sum(total**2), 1e-300)


# -- the methods -------------------------------------------------------------------------------------------------------


def tempering(ns):
    """Integrated tempering of everything, 290 to 1000 K: two walkers that learn n_k together."""
    methods = []

    def make(k):
        methods.append(sponge.SITS(temperatures=units.ladder(290, 1000, 50)))
        return sponge.Simulation(load(), langevin(), seed=k, sampling=methods[k])

    walkers = sponge.MultipleWalkers(make, 2, every=5000)
    walkers.run(time=100 * ns)  # learns n_k
    for method in methods:
        method.produce()
    steps, phi, psi = record(walkers, 400 * ns)
    print(f"  SITS: flatness {methods[0].flatness():.3f}, round trips {[m.round_trips for m in methods]}")
    return weighted(phi, psi, np.stack([m.weights(steps) for m in methods], 1))


def metadynamics(ns):
    """Well-tempered metadynamics in phi and psi: two walkers that fill the same bias."""
    methods = []

    def make(k):
        methods.append(sponge.Metadynamics([PHI, PSI], sigma=0.35, height=1.0, every=400, bias_factor=8, record=EVERY))
        return sponge.Simulation(load(), langevin(), seed=10 + k, sampling=methods[k])

    walkers = sponge.MultipleWalkers(make, 2, every=5000)
    walkers.run(time=500 * ns)
    first = len(methods[0].steps) // 5
    steps = methods[0].steps[first:]
    phi, psi = np.moveaxis(np.stack([m.values[first:] for m in methods], 1), 2, 0)
    return weighted(phi, psi, np.exp(np.stack([m.log_weights(steps) for m in methods], 1)))


def umbrella(ns, windows=23, k=120.0):
    """Harmonic windows along phi, put together by MBAR.

    They make an open chain from 15 degrees up over 180 to -15. At phi = 0 psi has two basins (near 65 and -85 degrees)
    and does not go from one to the other: windows there would keep the basin they came from, and tie the two ends of
    the chain together by a wrong free energy. Near phi = 130 psi crosses freely.
    """
    centers = np.radians(np.linspace(15, 345, windows))
    replicas = sponge.UmbrellaSampling(load(), PHI, centers, k, langevin(), record=EVERY, every=5000, seed=21)
    replicas.equilibrate(time=200 * ns / windows)
    _, phi, psi = record(replicas, 800 * ns / windows)
    apart = PHI.difference(phi.T, centers[:, None, None])  # [bias, window, m]
    bias = 0.5 * k * apart**2 / (units.GAS_CONSTANT * TEMPERATURE)
    return from_states(phi, psi, np.concatenate([np.zeros((1, *bias.shape[1:])), bias]))


def exchange(ns, every=EVERY):
    """Replica exchange of four temperatures up to 900 K, all of them reweighted to 300 K by MBAR.

    What comes to phi > 0 when hot must cool down before it leaves again: hence the frequent exchange, and twice the
    length of the other methods, as only a quarter of it is at 300 K.
    """
    rex = sponge.ReplicaExchange(load(), langevin(), units.ladder(TEMPERATURE, 900, 4), every=every, seed=30)
    rex.run(time=400 * ns / rex.n)  # all begin at phi < 0, which takes time to forget
    skip = len(rex.steps)
    steps, phi, psi = record(rex, 1600 * ns / rex.n, every)
    print(f"  replica exchange: acceptance {rex.acceptance.round(2)}, round trips {rex.round_trips}")
    energy = rex.energies[skip:].T
    beta = 1 / (units.GAS_CONSTANT * np.array([TEMPERATURE, *rex.temperatures]))
    return from_states(phi, psi, beta[:, None, None] * energy, lambda values: rex.demux(values.T, steps).T)


# -- comparison --------------------------------------------------------------------------------------------------------


def report(results):
    """The table, and by how many standard errors populations differ, where at least `FEWEST` visits decide about
    them.
    """
    rows = {
        name: {region: (p[region].value, p[region].error if seen[region] >= FEWEST else np.nan) for region in REGIONS}
        for name, (_, p, seen, _) in results.items()
    }
    rows["hot runs + MBAR"] = REFERENCE
    print(f"\n{'populations at 300 K':22s}" + "".join(f"{region:>20s}" for region in REGIONS))
    for name, row in rows.items():
        print(
            f"{name:22s}"
            + "".join(
                f"{value:12.4f}{f' ± {error:.4f}' if np.isfinite(error) else '':9s}" for value, error in row.values()
            )
        )
    worst = 0.0
    for (one, a), (other, b) in itertools.combinations(rows.items(), 2):
        for region in REGIONS:
            z = abs(a[region][0] - b[region][0]) / np.hypot(a[region][1], b[region][1])
            if z >= 2:
                print(f"  {one} and {other} differ in {region} by {z:.1f} standard errors")
            worst = max(worst, z if np.isfinite(z) else 0.0)
    for name, (_, _, seen, _) in results.items():
        for region in REGIONS:
            if seen[region] < FEWEST:
                print(
                    f"  {name}: {seen[region]:.1f} visits decide about {region}, too few for an error bar (a longer "
                    f"run: --ns)"
                )
    print(f"largest difference: {worst:.1f} standard errors")


def draw(results, output):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    n = len(results)
    figure, ax = plt.subplots(3, n, figsize=(4 * n, 10), layout="constrained", height_ratios=[1, 1, 0.8])
    for k, (name, (surface, *_)) in enumerate(results.items()):
        surface.plot(ax[0, k], highest=45.0)
        surface.plot_error(ax[1, k])
        ax[0, k].set_title(name)
        for row in (0, 1):
            ax[row, k].set_xticks(range(-180, 181, 90))
        for minimum in surface.minima()[:3]:
            ax[0, k].plot(*np.degrees([minimum.phi, minimum.psi]), "r+")
    for k, region in enumerate(REGIONS):
        for j, (_, found, seen, _) in enumerate(results.values()):
            ax[2, k].errorbar(
                j, found[region].value, found[region].error if seen[region] >= FEWEST else None, fmt="o", capsize=3
            )
        value, error = REFERENCE[region]
        ax[2, k].axhspan(value - error, value + error, color="0.8", zorder=0)
        ax[2, k].set_xticks(range(n), list(results), rotation=20, ha="right")
        ax[2, k].set(title=f"{region}; band: hot runs + MBAR", ylabel="population")
    for name, (*_, line) in results.items():
        value = np.where(line.error < UNSURE, line.value, np.nan)
        ax[2, 3].errorbar(
            np.degrees(line.x), value, line.error, fmt=".-", markersize=3, linewidth=1, capsize=2, label=name
        )
    ax[2, 3].set(xlabel="φ [°]", ylabel="free energy [kJ/mol]", ylim=(-2, 55), title="along φ, error below kT / 2")
    ax[2, 3].legend(fontsize="x-small", loc="upper left")
    figure.suptitle("Alanine dipeptide (ff96) in vacuum at 300 K: hatched where the error is above kT / 2")
    figure.savefig(output, dpi=130)
    print(f"picture: {output}")


def main(output, ns):
    results = {}
    for name, method in {
        "SITS": tempering,
        "metadynamics": metadynamics,
        "umbrella sampling": umbrella,
        "replica exchange": exchange,
    }.items():
        began = time.perf_counter()
        results[name] = method(ns)
        print(
            f"{name}: {time.perf_counter() - began:.0f} s; minima " + "; ".join(map(str, results[name][0].minima()[:3]))
        )
    report(results)
    draw(results, output)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", default="alanine_vacuum.png", help="where the picture goes")
    parser.add_argument(
        "--ns",
        type=float,
        default=16.0,
        help="of each method, all replicas together; replica exchange takes twice as long",
    )
    main(**vars(parser.parse_args()))
