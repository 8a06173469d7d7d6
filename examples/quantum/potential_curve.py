"""Ground and excited states of the hydrogen molecule along its bond, by variational quantum deflation.

UCCSD keeps the number of electrons and their spin, so that states are those of two electrons with opposite spins: the
ground state, the triplet, and two singlets. Each is the lowest that is orthogonal to those found before (Higgott, Wang,
Brierley, Quantum 3, 156 (2019)), and is compared with the exact levels.

    python examples/quantum/potential_curve.py [--output potential_curve.png]
"""

import argparse
import time

import numpy as np
from scipy.interpolate import CubicSpline

from triskele import quantum

NAMES = ["ground state", "triplet", "excited singlet", "second excited singlet"]


def levels(h):
    """Exact energies of two electrons with opposite spins: one on an even qubit (up), one on an odd one (down)."""
    inside = [i for i in range(16) if (i & 0b0101).bit_count() == 1 and (i & 0b1010).bit_count() == 1]
    return np.linalg.eigvalsh(h.matrix(4).toarray()[np.ix_(inside, inside)])


def ansatz():
    """UCCSD twice, each time with angles of its own: reaches every real state of these electrons."""
    again = quantum.uccsd(2, 4, reference=False)
    return quantum.uccsd(2, 4) + again.rename({name: f"{name}_again" for name in again.parameters})


def main(output):
    lengths = quantum.molecules.lengths("H2")
    began = time.perf_counter()
    found, exact = [], []
    for length in lengths:
        molecule = quantum.molecules.load("H2", length)
        result = quantum.VQD(molecule.hamiltonian, ansatz(), states=4, seed=1).run(progress=False)
        found.append(result.energies)
        exact.append(levels(molecule.hamiltonian))
        print(
            f"{length:5.3f} angstrom: "
            + "  ".join(f"{e:9.6f}" for e in result.energies)
            + f"   largest error {np.abs(found[-1] - exact[-1]).max():.1e}"
        )
    found, exact = np.array(found), np.array(exact)
    print(
        f"{found.size} states in {time.perf_counter() - began:.1f} s; largest error "
        f"{np.abs(found - exact).max():.1e} hartree"
    )

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.5, 5), layout="constrained")
    fine = np.linspace(lengths[0], lengths[-1], 300)
    for k, name in enumerate(NAMES):
        axes.plot(fine, CubicSpline(lengths, exact[:, k])(fine), color=f"C{k}", lw=1.5)
        axes.plot(lengths, found[:, k], "o", color=f"C{k}", ms=5, label=name)
    axes.set(
        xlabel="bond length / Å",
        ylabel="energy / hartree",
        title="H$_2$: variational quantum deflation (dots) and exact levels (lines)",
    )
    axes.legend(frameon=False)
    figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default="potential_curve.png", help="where the picture goes")
    main(parser.parse_args().output)
