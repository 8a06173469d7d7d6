"""Alanine dipeptide in water: the same populations whatever is tempered, and how much sooner than by plain dynamics.

Runs `sits_peptide.py`'s simulation (2,269 atoms, 300 K) with the shares 0, 0.5 and 1 of the peptide-water energy
tempered, and without tempering, and compares populations at 300 K, flatness over the ladder, round trips, and effective
samples of phi per force evaluation. Plain dynamics hardly ever comes to phi > 0: how often, is found from how long it
stays there (`--lifetimes` runs that begin there): with populations p and 1 - p and the rate k of leaving, it is k p /
(1 - p), and both states together give (k + k p / (1 - p)) / 2 effective samples a unit of time (two-state process:
correlation time 1 / sum of rates).

Parts can be run one by one, and longer; running the same command again resumes. All available results are put
together:

    python examples/sponge/alanine_water.py [--ns 0.04] [--folder alanine_water]          everything, short
    python examples/sponge/alanine_water.py --ns 4 --cross 0.5 --seed 1 --threads 1       one run
    python examples/sponge/alanine_water.py --ns 4 --plain
    python examples/sponge/alanine_water.py --ns 2 --lifetimes 4
    python examples/sponge/alanine_water.py --combine
"""

import argparse
from pathlib import Path

import numpy as np
from sits_peptide import EVERY, PHI, PSI, REGIONS, T0, equilibrated, simulate, thermostat

from triskele import core, sponge
from triskele.sponge import analysis

STEPS_PER_NS = 500_000
RIGHT = analysis.Rectangle(phi=(0.0, 2.2))
LABELS = {"plain": "plain", "cross0": "α = 0", "cross0.5": "α = 0.5", "cross1": "α = 1"}


def tempered(ns, learn, cross, plain, seed, highest, folder):
    """One run, and what is left of it: a small file."""
    name = "plain" if plain else f"cross{cross:g}"
    sits, states, phi, psi = simulate(
        ns, 0.0 if plain else learn, 0.5 if plain else cross, plain, seed, highest, folder
    )
    weights = np.full(len(phi), 1 / len(phi)) if plain else sits.weights(states)
    shares = np.full(len(sits.temperatures), np.nan) if plain else len(sits.temperatures) * sits.shares()
    np.savez(
        folder / f"{name}-{seed}.npz",
        states=states,
        phi=phi,
        psi=psi,
        weights=weights,
        shares=shares,
        temperatures=sits.temperatures,
        round_trips=sits.round_trips,
    )
    print(f"{LABELS[name]}, seed {seed}: {sits.report()}")


def lifetimes(ns, runs, seed, folder):
    """Measure how long plain dynamics stays at phi > 0: runs that begin there, of `ns` at most."""
    for run in range(seed, seed + runs):
        path = folder / f"lifetime-{run}.npz"
        if path.exists() and (np.load(path)["left"] or np.load(path)["ns"] >= ns):
            continue
        held = equilibrated(folder / "equilibrated.npz")
        held.add(sponge.umbrella(PHI, 1.0, 300.0))
        sim = sponge.Simulation(held, thermostat(), seed=1000 + run)
        sim.run(10_000)
        free = sponge.Simulation(
            equilibrated(folder / "equilibrated.npz"), thermostat(), seed=2000 + run, state=sim.state()
        )
        record = sponge.Variables({"phi": PHI, "psi": PSI}, EVERY)
        left = False
        while not left and free.step < ns * STEPS_PER_NS:
            free.run(2500, report=record)
            gone = (record["phi"] > -2.6) & (record["phi"] < -0.5)
            left = bool(gone.any())
        stayed = record.steps[np.argmax(gone)] if left else free.step
        np.savez(path, left=left, ns=stayed / STEPS_PER_NS)
        print(f"phi > 0, run {run}: {'left after' if left else 'still there after'} {stayed / STEPS_PER_NS:.3f} ns")


# -- what the runs say together
# -------------------------------------------------------------------------------------------


def read(folder, name):
    """Runs of one kind with different seeds, as columns; None if there are none."""
    found = [dict(np.load(path)) for path in sorted(folder.glob(f"{name}-*.npz"))]
    if not found:
        return None
    m = min(len(run["phi"]) for run in found)
    result = {
        key: np.stack([run[key][:m] / (run[key][:m].mean() if key == "weights" else 1) for run in found], 1)
        for key in ("phi", "psi", "weights")
    }
    result["evaluations"] = m * EVERY * len(found)
    result["round_trips"] = sum(int(run["round_trips"]) for run in found)
    result["shares"], result["temperatures"] = np.mean([run["shares"] for run in found], 0), found[0]["temperatures"]
    return result


def rate_of_leaving(folder):
    """Rate of leaving phi > 0 and its error, 1/ns: exits by time spent there, of a Poisson process."""
    found = [np.load(path) for path in folder.glob("lifetime-*.npz")]
    exits, time = sum(bool(run["left"]) for run in found), sum(float(run["ns"]) for run in found)
    return (exits / time, np.sqrt(exits) / time) if exits else (np.nan, np.nan)


def combine(folder, output):
    kinds = {name: run for name in LABELS if (run := read(folder, name)) is not None}
    if not kinds:
        raise SystemExit(f"no results in {folder}")
    rate, rate_error = rate_of_leaving(folder)
    print(
        f"\n{'populations at 300 K':22s}"
        + "".join(f"{region:>18s}" for region in REGIONS)
        + f"{'ns':>8s}{'flatness':>10s}{'trips':>7s}"
    )
    surfaces, shares = {}, {}
    for name, run in kinds.items():
        weights = None if name == "plain" else run["weights"]
        surfaces[name] = analysis.free_energy(run["phi"], run["psi"], weights, temperature=T0, bins=45)
        shares[name] = analysis.populations(run["phi"], run["psi"], REGIONS, weights)
        flat = "" if name == "plain" else f"{np.abs(run['shares'] - 1).max():10.3f}{run['round_trips']:7d}"
        print(
            f"{LABELS[name]:22s}"
            + "".join(f"{v:10.4f} ± {e:.4f}" for v, e in zip(shares[name].value, shares[name].error))
            + f"{run['evaluations'] / STEPS_PER_NS:8.2f}"
            + flat
        )
    tempered_kinds = [name for name in kinds if name != "plain"]
    z = [
        abs(a[region].value - b[region].value) / np.hypot(a[region].error, b[region].error)
        for k, one in enumerate(tempered_kinds)
        for other in tempered_kinds[k + 1 :]
        for a, b in [(shares[one], shares[other])]
        for region in REGIONS
    ]
    if z:
        print(
            f"largest difference between the tempered runs: {np.nanmax([0.0, *z]):.1f} standard errors "
            f"({np.isnan(z).sum()} not known)"
        )
    effective = samples(kinds, rate, rate_error)
    draw(kinds, surfaces, shares, effective, output)


def samples(kinds, rate, rate_error):
    """Effective samples per million force evaluations: of phi as far as it was seen, and of phi > 0."""
    print(f"\n{'effective samples per million force evaluations':50s}{'phi':>10s}{'phi > 0':>10s}")
    effective = {}
    for name, run in kinds.items():
        weights = None if name == "plain" else run["weights"]
        right = RIGHT(run["phi"], run["psi"])
        visits = np.count_nonzero(np.diff(right.astype(int), axis=0) > 0)
        found = [
            analysis.effective_samples(run["phi"], weights, period=2 * np.pi),
            # a few visits do not tell their own error
            analysis.effective_samples(right, weights) if visits >= 10 else np.nan,
        ]
        effective[name] = np.array(found) / run["evaluations"] * 1e6
        print(f"{LABELS[name]:50s}{effective[name][0]:10.2f}{effective[name][1]:10.2f}")
    right = [
        np.average(RIGHT(run["phi"], run["psi"]), weights=run["weights"])
        for name, run in kinds.items()
        if name != "plain"
    ]
    if right and rate > 0:
        p = float(np.mean(right))
        both = 0.5 * (rate + rate * p / (1 - p)) / STEPS_PER_NS * 1e6
        print(f"{f'plain, from {rate:.2f} ± {rate_error:.2f} exits a ns of phi > 0':50s}{'':10s}{both:10.3f}")
        for name in effective:
            if name != "plain":
                print(f"  {LABELS[name]}: {effective[name][1] / both:.1f} times plain")
        effective["rate"] = np.array([np.nan, both])
    return effective


def draw(kinds, surfaces, shares, effective, output):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    n = max(len(kinds), 3)
    figure, ax = plt.subplots(3, n, figsize=(4.2 * n, 11), layout="constrained", squeeze=False)
    for k, name in enumerate(kinds):
        surfaces[name].plot(ax[0, k], highest=30.0).set_title(LABELS[name])
        surfaces[name].plot_error(ax[1, k])
    for unused in ax[:2, len(kinds) :].ravel():
        unused.set_axis_off()
    for k, name in enumerate(kinds):
        place = np.arange(len(REGIONS)) + 0.12 * (k - 1.5)
        ax[2, 0].errorbar(place, shares[name].value, shares[name].error, fmt="o", capsize=3, label=LABELS[name])
        if name != "plain":
            ax[2, 1].plot(kinds[name]["temperatures"], kinds[name]["shares"], color=f"C{k}")
    ax[2, 0].set(yscale="log", ylim=(1e-4, 2), ylabel="population", title="300 K")
    ax[2, 0].set_xticks(range(len(REGIONS)), list(REGIONS))
    ax[2, 0].legend(fontsize="small")
    ax[2, 1].axhspan(0.8, 1.2, color="0.9")
    ax[2, 1].set(xlabel="temperature [K]", ylabel=r"N P$_k$", title="flatness", ylim=(0, 2))
    ax[2, 2].bar(range(len(effective)), [e[1] for e in effective.values()])
    ax[2, 2].set_xticks(range(len(effective)), [LABELS.get(name, "plain,\nfrom lifetimes") for name in effective])
    ax[2, 2].set(ylabel="per million force evaluations", title="effective samples of φ > 0")
    if any(e[1] > 0 for e in effective.values()):
        ax[2, 2].set_yscale("log")
    for unused in ax[2, 3:]:
        unused.set_axis_off()
    figure.suptitle("Alanine dipeptide (ff96) in TIP3P at 300 K: hatched where the error is above kT / 2")
    figure.savefig(output, dpi=130)
    print(f"picture: {output}")


def main(ns, learn, cross, plain, lifetime_runs, only_combine, highest, seed, threads, folder, output):
    core.set_threads(threads)
    folder = Path(folder) if folder else Path(output).with_suffix("") if output else Path("alanine_water")
    folder.mkdir(exist_ok=True)
    learn = max(ns / 4, 0.025) if learn is None else learn
    everything = cross is None and not plain and not lifetime_runs
    if not only_combine:
        for share in (0.0, 0.5, 1.0) if everything else () if cross is None else (cross,):
            tempered(ns, learn, share, False, seed, highest, folder)
        if plain or everything:
            tempered(ns, learn, None, True, seed, highest, folder)
        if lifetime_runs or everything:
            lifetimes(ns, lifetime_runs or 2, seed, folder)
    if only_combine or everything:
        combine(folder, output or folder / "alanine_water.png")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ns", type=float, default=0.04, help="of production in each run")
    parser.add_argument(
        "--learn",
        type=float,
        help="ns before production in which n_k is learned; defaults to a quarter of --ns, at least 0.025",
    )
    parser.add_argument("--cross", type=float, choices=(0.0, 0.5, 1.0), help="only the tempered run with this share")
    parser.add_argument("--plain", action="store_true", help="only the run without tempering")
    parser.add_argument(
        "--lifetimes", type=int, default=0, dest="lifetime_runs", help="number of runs that begin at phi > 0"
    )
    parser.add_argument("--combine", action="store_true", dest="only_combine", help="only put together what there is")
    parser.add_argument(
        "--highest", type=float, default=2000.0, help="end of the ladder in K (another folder for another ladder)"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--folder", help="for checkpoints and results; that of --output, or alanine_water, when left out"
    )
    parser.add_argument("--output", help="where the picture goes; into the folder when left out")
    main(**vars(parser.parse_args()))
