"""Makes populations.json: shares of regions of phi of alanine dipeptide in vacuum at 300 K, from plain runs only.

Hot runs go often to phi > 0 and back, cold ones hardly ever. So the two sides are reweighted to 300 K apart, each by MBAR over
all runs at all temperatures (cold runs on the one side begin there), and are joined by their shares in the hot runs:

    ln(p / q) at 300 K = ln(p / q) at T + ln Z_p(300) / Z_p(T) - ln Z_q(300) / Z_q(T)

    python tests/data/sponge/ala2_vacuum/make_populations.py FOLDER [--ns 16]      some hours; FOLDER keeps the runs
"""  # noqa: E501

import argparse
import json
from pathlib import Path

import numpy as np

from triskele import sponge
from triskele.sponge import analysis, cv, units

HERE = Path(__file__).parent
TARGET, HOT = 300.0, (500.0, 600.0, 710.0)
#       temperature, seeds, whether the run begins at phi > 0
RUNS = [
    (300.0, (1,), False),
    (360.0, (1,), False),
    (420.0, (1, 2, 3), False),
    (450.0, (1, 2), False),
    (300.0, (5,), True),
    (360.0, (5,), True),
    (500.0, (1, 2, 3, 4), False),
    (600.0, range(6), False),
    (710.0, range(8), False),
]  # fmt: skip
EDGES = {"C5": (120, -112), "C7eq": (-112, 0), "C7ax": (0, 120)}
REGIONS = {name: analysis.Rectangle(phi=tuple(np.radians(ends))) for name, ends in EDGES.items()}
PIECE = 4.0  # ns: pieces of runs are what the bootstrap draws


def simulate(temperature, seed, right, ns, path):
    """A plain run: phi, psi and the potential energy every 0.4 ps."""
    phi, psi = cv.torsion(4, 6, 8, 14), cv.torsion(6, 8, 14, 16)

    def simulation(**options):
        system = sponge.load(HERE / "alanine-dipeptide.prmtop", HERE / "alanine-dipeptide.crd", constraints="h-bonds")
        for centre, variable in zip((1.07, -1.19), (phi, psi)) if options.pop("held", False) else ():
            system.add(sponge.umbrella(variable, centre, 200.0, name=f"held {centre}"))
        integrator = sponge.LangevinMiddle(temperature=temperature, friction=2.0, timestep=0.002)
        return sponge.Simulation(system, integrator, seed=seed, **options)

    start = simulation(held=right)
    start.minimize()
    start.run(time=20.0 if right else 100.0)
    sim, energies = simulation(positions=start.positions, velocities=start.velocities), []
    angles = sponge.Variables({"phi": phi, "psi": psi}, every=200)
    sim.run(
        time=1000 * ns, report=[angles, sponge.Callback(200, lambda sim: energies.append(sim.energies()["potential"]))]
    )
    np.savez(path, temperature=temperature, right=right, phi=angles["phi"], psi=angles["psi"], energy=energies)


def log_partition(parts):
    """ln Z(T) up to a constant, as a function of T, from energies [(T, energies), ...]; and weights of samples at 300 K."""  # noqa: E501
    temperatures = np.unique([t for t, _ in parts])
    counts = np.array([sum(len(e) for t, e in parts if t == k) for k in temperatures])
    temperatures, counts = temperatures[counts > 50], counts[counts > 50]
    energies = [np.concatenate([e for t, e in parts if t == k]) for k in temperatures]
    count, edges = np.histogram(np.concatenate(energies), 3000)
    energy, count = 0.5 * (edges[1:] + edges[:-1])[count > 0], count[count > 0]
    u = -energy / (units.GAS_CONSTANT * temperatures[:, None])
    f = np.zeros(len(counts))
    for _ in range(5000):  # MBAR, on narrow bins of the energy
        log_d = np.logaddexp.reduce(np.log(counts)[:, None] + f[:, None] + u, axis=0)
        new = -np.logaddexp.reduce(np.log(count) - log_d + u, axis=1)
        new -= new[0]
        if np.abs(new - f).max() < 1e-9:
            break
        f = new
    weight = lambda e: np.exp(-(e - energy[0]) / (units.GAS_CONSTANT * TARGET) - np.interp(e, energy, log_d))
    return lambda t: np.logaddexp.reduce(np.log(count) - log_d - energy / (units.GAS_CONSTANT * t)), weight


def populations(pieces):
    """C5, C7eq and C7ax from pieces of runs (temperature, began at phi > 0, phi, psi, energy)."""
    sides = [[], []]
    for temperature, _, phi, psi, energy in pieces:
        inside = REGIONS["C7ax"](phi, psi)
        for side, chosen in zip(sides, (inside, ~inside)):
            side.append((temperature, energy[chosen]))
    (z_right, _), (z_left, weight) = map(log_partition, sides)
    odds, visits = [], []
    for hot in HOT:
        inside = np.concatenate([REGIONS["C7ax"](p[2], p[3]) for p in pieces if p[0] == hot and not p[1]])
        if 0 < inside.sum() < len(inside):
            odds.append(
                np.log(inside.mean() / (1 - inside.mean()))
                + z_right(TARGET)
                - z_right(hot)
                - z_left(TARGET)
                + z_left(hot)
            )
            visits.append(np.count_nonzero(np.diff(inside.astype(int))))  # the more, the surer
    right = 1 / (1 + np.exp(-np.average(odds, weights=visits)))
    w = np.concatenate([weight(p[4]) * ~REGIONS["C7ax"](p[2], p[3]) for p in pieces])
    five = np.concatenate([REGIONS["C5"](p[2], p[3]) for p in pieces])
    share = w @ five / w.sum()
    return np.array([(1 - right) * share, (1 - right) * (1 - share), right])


def main(folder, ns):
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    groups = {}
    for temperature, seeds, right in RUNS:
        for seed in seeds:
            path = folder / f"{temperature:g}-{int(right)}-{seed}.npz"
            if not path.exists():
                simulate(temperature, seed, right, ns, path)
            run = np.load(path)
            for part in np.array_split(np.arange(len(run["energy"])), max(2, round(ns / PIECE))):
                groups.setdefault((temperature, right), []).append(
                    (temperature, right, *(run[key][part] for key in ("phi", "psi", "energy")))
                )
    value = populations([p for group in groups.values() for p in group])
    rng = np.random.default_rng(0)
    drawn = [
        populations([group[i] for group in groups.values() for i in rng.integers(0, len(group), len(group))])
        for _ in range(40)
    ]
    error = np.std(drawn, axis=0, ddof=1)
    print(", ".join(f"{name} {v:.4f} ± {e:.4f}" for name, v, e in zip(REGIONS, value, error)))
    kept = {
        "temperature_K": TARGET,
        "regions_phi_degrees": EDGES,
        "population": dict(zip(REGIONS, value.round(4))),
        "standard_error": dict(zip(REGIONS, error.round(4))),
    }
    (folder / "populations.json").write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--ns", type=float, default=16.0, help="of each run")
    main(**vars(parser.parse_args()))
