"""Replica exchange of alanine dipeptide in vacuum: eight temperatures, one script for one process or many.

At 300 K the dipeptide crosses from phi < 0 (C7eq, C5) to C7ax (phi near 60 degrees) about once in many nanoseconds; at
600 K it does so often, and exchanges carry what was found there down the ladder. MBAR then takes all temperatures
together.

    python examples/sponge/replica_exchange.py [--output replica_exchange.png] [--time "2 ns"]
    mpiexec -n 4 python examples/sponge/replica_exchange.py

prints the same numbers, bit for bit.
"""

import argparse

import numpy as np

from triskele import sponge
from triskele.sponge import cv, units

EVERY = 500  # steps between attempts to exchange, 1 ps


def main(output, time):
    system = sponge.load(*sponge.example_files("alanine-dipeptide"), method="none", constraints="h-bonds")
    temperatures = units.ladder(300, 600, 8)
    rex = sponge.ReplicaExchange(
        system, sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.002), temperatures, every=EVERY, seed=1
    )
    rex.each(lambda sim: sim.minimize())
    rex.run(time="20 ps")
    discard = len(rex.steps)

    angles = {"phi": cv.torsion(4, 6, 8, 14), "psi": cv.torsion(6, 8, 14, 16)}
    records = {k: sponge.Variables(angles, every=EVERY) for k in rex.own}
    rex.run(time=time, replica_report=lambda k: records[k])
    phi, psi = (np.array(rex.gather({k: record[name] for k, record in records.items()})) for name in angles)
    if not rex.root:
        return

    print(
        f"{len(rex.steps) - discard} attempts; accepted between neighbors: "
        + " ".join(f"{a:.2f}" for a in rex.acceptance)
    )
    print(f"round trips of the walkers: {rex.round_trips.tolist()}, {rex.round_trips.sum()} in all")
    result = rex.mbar(discard)
    print(f"at 300 K all samples are worth {result.effective_samples():.0f} of {phi.shape[1]} at that temperature")
    for name, inside in (("phi < 0 (C7eq, C5)", (phi < 0) | (phi > 2.3)), ("phi > 0 (C7ax)", (phi > 0) & (phi < 2.3))):
        value, error = result.mean(inside)
        print(
            f"{name}: {inside[0].mean():.4f} of the frames at 300 K, {inside[-1].mean():.4f} at 600 K; MBAR at 300 "
            f"K: {value:.4f}" + (f" ± {error:.4f}" if np.isfinite(error) else " (error unknown: all frames are alike)")
        )

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    at = rex.demux(np.broadcast_to(temperatures[:, None], (rex.n, len(rex.steps))), rex.steps)
    for walker in (0, 7):
        left.plot(rex.steps * 0.002, at[walker], ".-", linewidth=0.5, markersize=2, label=f"walker {walker}")
    left.set(
        xlabel="time [ps]", ylabel="temperature [K]", title="Two walkers on the ladder", xlim=(0, 400), ylim=(285, 640)
    )
    left.legend(loc="upper center", ncols=2, frameon=False)
    landscape = sponge.analysis.free_energy(phi.ravel(), psi.ravel(), result.weights(), temperature=300, bins=60)
    landscape.plot(right, highest=40)
    right.set_title("Free energy at 300 K from all temperatures")
    figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", default="replica_exchange.png", help="where the picture goes")
    parser.add_argument("--time", default="2 ns", help="length of the run")
    main(**vars(parser.parse_args()))
