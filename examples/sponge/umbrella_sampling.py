"""Umbrella sampling of alanine dipeptide in vacuum: the free energy along phi, with errors.

Windows hold phi at values from 15 degrees up over 180 to -15 (345), WHAM joins their histograms, and MBAR gives the
same from the samples themselves. The chain of windows is left open at phi = 0, where psi has two basins and does not go
from one to the other in such a time: windows there would keep the one they came from, and tie the ends of the chain
together wrongly. The three minima along phi are those of C5 and C7eq (near -150 and -75 degrees) and of C7ax (near 60
degrees).

    python examples/sponge/umbrella_sampling.py [--output umbrella_sampling.png] [--time "200 ps"]
"""

import argparse

import numpy as np

from triskele import sponge
from triskele.sponge import cv

WINDOWS, K = 23, 150.0  # kJ/mol/rad^2: 7 degrees wide at 300 K, 15 degrees apart


def main(output, time):
    system = sponge.load(*sponge.example_files("alanine-dipeptide"), method="none", constraints="h-bonds")
    phi = cv.torsion(4, 6, 8, 14)
    centers = np.radians(np.linspace(15, 345, WINDOWS))
    windows = sponge.UmbrellaSampling(
        system, phi, centers, K, sponge.LangevinMiddle(temperature=300, friction=5.0, timestep=0.002), record=25, seed=1
    )
    windows.equilibrate(time="40 ps")  # pulls them to their centers
    windows.run(time=time)
    if not windows.root:
        return

    result = windows.wham(bins=72)
    print(
        f"WHAM: {result.iterations} iterations; windows hold {result.samples.min():.0f} to "
        f"{result.samples.max():.0f} independent samples, "
        f"neighbors share at least {100 * np.diagonal(result.overlap, 1).min():.0f} %"
    )
    weighed, s = windows.mbar(), np.concatenate(windows.samples)[:, 0]
    for name, low, high in (("C5, C7eq: phi -180 to 0", -180, 0), ("C7ax: phi 0 to 130", 0, 130)):
        low, high = np.radians([low, high])
        p, error = result.population(lambda x, low=low, high=high: (x > low) & (x < high))
        q, other = weighed.mean((s > low) & (s < high))
        print(f"{name}: population {p:.4f} ± {error:.4f} by WHAM, {q:.4f} ± {other:.4f} by MBAR")
    x, value = np.degrees(result.middles[0]), result.value
    for k in np.flatnonzero((value < np.roll(value, 1)) & (value < np.roll(value, -1)) & (value < 15)):
        print(f"minimum at {x[k]:.0f} degrees: {value[k]:.1f} ± {result.error[k]:.1f} kJ/mol")

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (top, bottom) = plt.subplots(2, 1, figsize=(7, 6), sharex=True, layout="constrained", height_ratios=[2, 1])
    result.plot(top, degrees=True)
    top.set(xlabel="", title="Alanine dipeptide in vacuum (ff96), 300 K; band: standard error")
    for samples in windows.samples:
        bottom.hist(np.degrees(samples[:, 0]), bins=np.linspace(-180, 180, 181), histtype="step")
    bottom.set(xlabel="φ [°]", ylabel="samples", xlim=(-180, 180), xticks=range(-180, 181, 60))
    figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", default="umbrella_sampling.png", help="where the picture goes")
    parser.add_argument("--time", default="200 ps", help="length of each window")
    main(**vars(parser.parse_args()))
