"""The charges of a water model from its dipole moment and density, by reweighting at constant pressure.

TIP3P with its charges 4 % too small is too light and too little polar. The targets are what TIP3P itself gives: the
dipole moment follows from the geometry, the density and the energy from a run. One number scales all charges, and every
frame of a run serves for all values of it that the fit looks at.

    python examples/sponge/fit_water_charge.py [--output fit_water_charge.png]
"""

import argparse
import time

import numpy as np

from triskele import sponge
from triskele.sponge import differentiate, fitting, targets

MOLECULES, TEMPERATURE = 125, 298.15
DEBYE = 0.0208194  # e nm
BATH = sponge.LangevinMiddle(temperature=TEMPERATURE, friction=2.0, timestep=0.002)
PRESSURE = sponge.MonteCarloBarostat(pressure=1.0, every=20)


def water(scale=1.0):
    """A box of TIP3P whose charges are scaled."""
    box = sponge.build.water_box("tip3p", n=MOLECULES)
    system = sponge.create_system(box, "amber14/tip3p", method="pme", cutoff=0.65)
    system.set_params({"nonbonded": {"charges": scale * system.nonbonded.params["charges"]}})
    return system


def main(output, rounds):
    start = time.perf_counter()
    true = water()
    charges = true.nonbonded.params["charges"]
    frames = fitting.sample(true, BATH, 20_000, every=100, equilibrate=4000, barostat=PRESSURE, seed=7)
    volume, dipole = np.linalg.det(frames.boxes), differentiate.observables.dipole(true)
    density = float(np.mean(true.masses.sum() * sponge.units.DENSITY / volume))
    moment = float(dipole(true.params(), frames.positions[0], frames.boxes[0]))
    energies = np.array([true.energy(x, box) for x, box in zip(frames.positions, frames.boxes)])
    print(
        f"TIP3P: {density:.4f} g/cm^3, {energies.mean() / MOLECULES:.2f} kJ/mol per molecule, {moment / DEBYE:.3f} D "
        f"  ({time.perf_counter() - start:.0f} s)"
    )

    one_number = (
        {"charge of O": 0.96 * charges[0]},
        lambda theta: {"nonbonded": {"charges": theta["charge of O"] / charges[0] * charges}},
    )
    found = {}
    for name, steps, wanted in (
        ("dipole moment", 4000, [targets.dipole(moment, error=1e-3 * DEBYE)]),
        (
            "density and energy",
            6000,
            [targets.density(density, error=0.01), targets.energy(float(energies.mean()), error=0.1 * MOLECULES)],
        ),
    ):
        by = fitting.Reweighting(BATH, steps=steps, every=100, equilibrate=1500, barostat=PRESSURE)
        start = time.perf_counter()
        found[name] = fit = sponge.fit(water(0.96), wanted, one_number, by=by, rounds=rounds)
        print(
            f"from {name:<19} charge of O {fit.parameters['charge of O']:.4f} ± {fit.errors['charge of O']:.4f} e "
            f"(TIP3P: {charges[0]:.4f})   "
            f"{len(fit.history)} rounds, {time.perf_counter() - start:.0f} s"
        )

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(5, 3.6), layout="constrained")
    for name, fit in found.items():
        ax.plot([0.96 * charges[0], *[r.parameters["charge of O"] for r in fit.history]], "o-", label=f"from {name}")
    ax.axhline(charges[0], color="0.5", ls=":", label="TIP3P")
    ax.set(xlabel="round", ylabel="charge of oxygen (e)")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.legend(frameon=False)
    figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", default="fit_water_charge.png", help="where the picture goes")
    parser.add_argument("--rounds", type=int, default=6, help="of each fit, at most")
    main(**vars(parser.parse_args()))
