"""Free energies of hydration of small molecules in GAFF, beside the published values of the same force field.

Each molecule appears in water through states of an alchemical path, which exchange configurations; MBAR, BAR and
thermodynamic integration estimate the free energy from the same samples. Published values are those of FreeSolv
(version 0.52, doi:10.1021/acs.jced.7b00104), from 5 ns of each of 20 states. The default run shows the path, but is
too short for water to relax around the molecules, and off by some kcal/mol. Runs with ``--time 500 --states 16`` are
meant for comparisons.

    python examples/sponge/hydration.py [--molecules methanol toluene] [--time 5] [--states 8] [--output hydration.png]

FreeSolv has the files of 642 molecules. Others run in the same way: with the files of butan-1-ol from its `amber`
folder, ``alchemy.Solvation("mobley_1019269.prmtop", "mobley_1019269.inpcrd").run(time="1 ns")``.
"""

import argparse
from pathlib import Path

import numpy as np

from triskele.sponge import alchemy, units

FILES = Path(__file__).parent / "data" / "hydration"
PUBLISHED = {"methanol": (-3.49, 0.02), "neopentane": (2.51, 0.02), "toluene": (-0.79, 0.03)}  # kcal/mol


def main(molecules, time, states, output):
    found = {}
    for name in molecules:
        run = alchemy.Solvation(FILES / f"{name}.prmtop", FILES / f"{name}.inpcrd", lambdas=states, seed=1)
        print(run)
        found[name] = run.run(time=time, equilibration=max(5.0, 0.1 * time), every=100, record=50)
    print(f"\n{'':12s}{'this run':>16s}{'published':>16s}   kcal/mol, {time:g} ps of each of {states} states")
    for name, result in found.items():
        value, error = np.array([result.value, result.error]) / units.kcal_per_mol
        theirs = PUBLISHED[name]
        print(
            f"{name:12s}{value:8.2f} ± {error:.2f}{theirs[0]:12.2f} ± {theirs[1]:.2f}   "
            f"{abs(value - theirs[0]) / np.hypot(error, theirs[1]):.1f} joint errors apart"
        )
    if output:
        picture(output, found)
    return found


def picture(output, found):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, len(found), figsize=(4.2 * len(found), 7.5), layout="constrained", squeeze=False)
    for (name, result), (top, bottom) in zip(found.items(), axes.T):
        result.plot(top)
        top.axhline(PUBLISHED[name][0] * units.kcal_per_mol, color="gray", ls=":", lw=1)
        top.set(title=f"{name}: {result.value:.1f} ± {result.error:.1f} kJ/mol")
        result.plot_overlap(bottom)
    figure.savefig(output, dpi=120)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--molecules", nargs="+", choices=PUBLISHED, default=["methanol", "neopentane", "toluene"])
    parser.add_argument("--time", type=float, default=5.0, help="ps of each state that count")
    parser.add_argument("--states", type=int, default=8)
    parser.add_argument("--output", default="hydration.png", help="where the picture goes")
    options = parser.parse_args()
    main(options.molecules, options.time, options.states, options.output)
