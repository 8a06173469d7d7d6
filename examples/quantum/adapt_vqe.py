"""ADAPT-VQE against UCCSD: how few excitations the ground state of lithium hydride needs.

Grimsley et al., Nat. Commun. 10, 3007 (2019): the ansatz grows by the excitation whose energy slope is the largest.
With the same accuracy it has fewer angles than UCCSD, which takes all single and double excitations at once.

    python examples/quantum/adapt_vqe.py [--molecule LiH] [--output adapt_vqe.png]
"""

import argparse
import time

import numpy as np

from triskele import quantum


def main(name, output):
    molecule = quantum.molecules.load(name)
    sizes = molecule.num_electrons, molecule.num_qubits
    fci = molecule.fci_energy
    print(f"{name}: {sizes[1]} qubits, Hartree-Fock {molecule.hf_energy:.6f}, FCI {fci:.6f} hartree")

    began = time.perf_counter()
    uccsd = quantum.VQE(molecule.hamiltonian, quantum.uccsd(*sizes), simulator="subspace").run()
    print(
        f"UCCSD: {len(uccsd.theta)} angles, {1e3 * (uccsd.energy - fci):.4f} mHa above FCI, "
        f"{time.perf_counter() - began:.1f} s"
    )

    runs = {}
    pools = {
        "fermionic pool": (quantum.fermionic_pool(*sizes), "subspace"),
        "qubit pool": (quantum.qubit_pool(*sizes), "statevector"),
    }
    for title, (pool, simulator) in pools.items():
        began = time.perf_counter()
        runs[title] = result = quantum.AdaptVQE(
            molecule.hamiltonian, pool, quantum.hartree_fock(*sizes), tolerance=3e-4, simulator=simulator
        ).run()
        enough = int(np.argmax(result.history - fci < 1.6e-3))
        print(
            f"ADAPT, {title} of {len(pool)}: chemical accuracy with {enough} angles; {len(result.theta)} angles "
            f"reach {1e3 * (result.energy - fci):.4f} mHa, "
            f"{time.perf_counter() - began:.1f} s"
        )

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for title, result in runs.items():
        left.semilogy(np.maximum(1e3 * (result.history - fci), 1e-6), "o-", ms=4, label=f"ADAPT, {title}")
        right.semilogy(result.slopes, "o-", ms=4, label=f"ADAPT, {title}")
    left.plot(len(uccsd.theta), 1e3 * (uccsd.energy - fci), "k*", ms=13, label="UCCSD")
    left.axhspan(left.get_ylim()[0], 1.6, color="tab:green", alpha=0.12, lw=0)
    left.text(len(uccsd.theta), 1.3, "chemical accuracy", va="top", ha="right", color="tab:green")
    left.set(xlabel="number of angles", ylabel="energy above FCI / millihartree", title=name)
    left.legend(frameon=False)
    right.set(
        xlabel="number of angles",
        ylabel="largest slope in the pool / hartree",
        title="what the next excitation promises",
    )
    figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--molecule", default="LiH", help="H2, H4, LiH, BeH2 or H2O")
    parser.add_argument("--output", default="adapt_vqe.png", help="where the picture goes")
    args = parser.parse_args()
    main(args.molecule, args.output)
