r"""A torsion with barriers of 35 kcal/mol, crossed by integrated tempering at 300 K.

Four atoms in a chain turn about their middle bond in V(phi) = 15 cos(2 phi - 0.4) + 5 cos(3 phi + 0.6) kcal/mol: two
minima, at -75.5 degrees and, 8.80 kcal/mol higher, at 88.7 degrees, between barriers of 34.8 and 37.8 kcal/mol. Plain
dynamics at 300 K would cross once in some 10^12 s. Integrated tempering of the torsion from 100 to 6000 K crosses all
the time, and its weights give back the potential of mean force at 300 K.

That potential must be V itself: bonds and angles are springs, and the volume element of bond lengths, angles and
torsion, prod r^2 prod sin(theta) dr dtheta dphi, does not contain phi, so that phi is independent of all else and
distributed as exp(-V / RT). With rigid bonds it would not be quite so: the metric of the constraints depends on phi.

    python examples/sponge/sits_torsion.py [--steps 10000000] [--output sits_torsion.png]
"""

import argparse

import numpy as np

from triskele import sponge
from triskele.sponge import analysis, cv, units

KCAL = units.kcal_per_mol
T0 = 300.0
HEIGHT = 15.0  # kcal/mol above the minimum, up to which the two are compared


def potential(phi):
    """V in kcal/mol."""
    return 15 * np.cos(2 * phi - 0.4) + 5 * np.cos(3 * phi + 0.6)


def chain():
    """The system, in its higher minimum."""
    angle, phi = np.deg2rad(111.0), np.deg2rad(88.7)
    bond = 0.15 * np.array(
        [[np.cos(angle), np.sin(angle), 0], [-np.cos(angle), np.sin(angle) * np.cos(phi), np.sin(angle) * np.sin(phi)]]
    )
    x = np.array([bond[0], [0, 0, 0], [0.15, 0, 0], [0.15, 0, 0] + bond[1]])
    system = sponge.System(sponge.Topology.of_particles(4), [12.0] * 4, positions=x)
    system.add(sponge.harmonic_bond([[0, 1], [1, 2], [2, 3]], k=3e5, r0=0.15))
    system.add(sponge.harmonic_angle([[0, 1, 2], [1, 2, 3]], k=500.0, theta0=angle))
    system.add(
        sponge.periodic_torsion([[0, 1, 2, 3]] * 2, k=[15 * KCAL, 5 * KCAL], periodicity=[2, 3], phase=[0.4, -0.6])
    )
    return system


def simulate(steps, sits=None, seed=1):
    """Angles phi and numbers of their states, and the simulation."""
    thermostat = sponge.LangevinMiddle(temperature=T0, friction=5.0, timestep=0.002)
    sim = sponge.Simulation(chain(), thermostat, seed=seed, sampling=[] if sits is None else [sits])
    if sits is not None:
        sim.run(steps // 4)  # n_k is learned
        sits.produce()
    torsion = sponge.Variables({"phi": cv.torsion(0, 1, 2, 3)}, every=100)
    sim.run(steps, report=torsion)
    return torsion["phi"], torsion.steps


def profile(phi, weights, bins=72):
    """Potential of mean force in kcal/mol (infinite where nothing was sampled), its error from ten pieces, and V, by
    bins.
    """
    edge = np.linspace(-np.pi, np.pi, bins + 1)
    rt = units.GAS_CONSTANT * T0 / KCAL
    fine = np.linspace(-np.pi, np.pi, 100 * bins + 1)[:-1] + np.pi / (100 * bins)
    # of the same bins
    exact = -rt * np.log(np.exp(-(potential(fine) - potential(fine).min()) / rt).reshape(bins, 100).mean(1))
    pieces = np.array(
        [np.histogram(p, edge, weights=w)[0] for p, w in zip(np.array_split(phi, 10), np.array_split(weights, 10))]
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        value = -rt * np.log(pieces.mean(0))
        error = rt * pieces.std(0, ddof=1) / np.sqrt(10) / pieces.mean(0)
    return 0.5 * (edge[1:] + edge[:-1]), value - np.min(value), error, exact - exact.min()


def crossings(phi):
    """Count the transitions of the angle between the wells."""
    well = np.where(np.abs(phi + 1.32) < 0.4, 1, np.where(np.abs(phi - 1.55) < 0.4, 2, 0))
    return np.count_nonzero(np.diff(well[well > 0]))


def main(steps, output):
    plain, _ = simulate(steps // 4)
    print(f"plain dynamics: {crossings(plain)} crossings in {steps // 4} steps")
    sits = sponge.SITS(temperatures=units.ladder(100, 6000, 80), terms=["torsion"])
    phi, states = simulate(steps, sits)
    print(sits.report())
    weights = sits.weights(states)
    print(
        f"integrated tempering: {crossings(phi)} crossings in {steps} steps, "
        f"{analysis.effective_samples(phi, weights, period=2 * np.pi):.0f} effective samples of phi at {T0:.0f} K"
    )
    at, value, error, exact = profile(phi, weights)
    low = exact < HEIGHT
    print(
        f"potential of mean force against V, up to {HEIGHT} kcal/mol: largest difference "
        f"{np.abs(value - exact)[low].max():.3f}, "
        f"rms {np.sqrt(np.mean((value - exact)[low] ** 2)):.3f} kcal/mol, largest standard error "
        f"{error[low].max():.3f}"
    )
    wells = [np.flatnonzero(low & (np.sign(at) == s)) for s in (-1, 1)]
    for well in wells:
        best = well[np.argmin(value[well])]
        print(f"minimum at {np.rad2deg(at[best]):6.1f} degrees: {value[best]:.2f} kcal/mol")

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", width_ratios=[2, 1])
    left.plot(np.rad2deg(at), exact, color="0.6", lw=4, label="V")
    left.errorbar(np.rad2deg(at), value, error, fmt=".", ms=4, capsize=2, label="integrated tempering")
    left.plot(np.rad2deg(plain[::10]), np.full(len(plain[::10]), -2.0), "|", color="C3", label="plain dynamics visits")
    left.set(xlabel="φ [°]", ylabel="potential of mean force [kcal/mol]", xlim=(-180, 180), xticks=range(-180, 181, 60))
    left.legend()
    right.plot(sits.temperatures, len(sits.temperatures) * sits.shares(), ".-")
    right.axhline(1, color="0.6")
    right.set(xlabel="temperature [K]", ylabel="N P$_k$", xscale="log", ylim=(0, 2))
    figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=10_000_000, help="of production")
    parser.add_argument("--output", default="sits_torsion.png", help="where the picture goes")
    main(**vars(parser.parse_args()))
