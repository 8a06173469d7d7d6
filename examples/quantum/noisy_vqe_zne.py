"""A variational eigensolver on a noisy machine, and its energy extrapolated to zero noise.

Depolarizing noise after every gate of a four-spin Ising ring's ansatz raises the energy. It is trained under that noise
(exact adjoint gradients of the density matrix); then the noise is amplified three and five times by doing each gate G
as G G^-1 G and so on (folding), and the energy extrapolated to none (Temme, Bravyi, Gambetta, Phys. Rev. Lett. 119,
180509 (2017)).

    python examples/quantum/noisy_vqe_zne.py [--error 0.005] [--output noisy_vqe_zne.png]
"""

import argparse

import numpy as np

from triskele import quantum
from triskele.quantum import mitigation, noise

SCALES = (1, 3, 5)  # how many times the noise


def model(error):
    """Depolarizing noise: after two-qubit gates with that probability, after single-qubit gates with a tenth of it."""
    return noise.NoiseModel().add(noise.depolarizing(error / 10)).add(noise.depolarizing(error, 2))


def measured(circuit, h, error):
    """The energy under noise."""
    return quantum.run(circuit.with_noise(model(error)), simulator="density_matrix").expectation(h)


def main(error, output):
    h = quantum.tfim(4, 1.0, 0.7)
    exact = np.linalg.eigvalsh(h.matrix().toarray())[0]
    ansatz = quantum.hardware_efficient(4, 2, rotations=("ry",), entangler="cx")

    ideal = quantum.VQE(h, ansatz, initial="random", seed=3).run()
    noisy = quantum.VQE(h, ansatz.with_noise(model(error)), initial="random", seed=3, simulator="density_matrix").run()
    circuit = ansatz.bind(noisy.theta)
    clean = quantum.run(circuit).expectation(h)
    energies = [measured(mitigation.fold(circuit, scale), h, error) for scale in SCALES]
    zero = mitigation.richardson(SCALES, energies)
    print(f"ground state {exact:.6f}, VQE without noise {ideal.energy:.6f}")
    print(
        f"trained under noise ({error:g} per two-qubit gate): measured {noisy.energy:.6f}, without noise that state "
        f"has {clean:.6f}"
    )
    print(
        f"noise times 1, 3, 5: {np.round(energies, 4)}; extrapolated to zero {zero:.6f}: "
        f"{abs(noisy.energy - clean) / abs(zero - clean):.0f} times closer"
    )

    errors = np.geomspace(3e-4, 3e-2, 9)
    raw = np.array([measured(circuit, h, p) for p in errors])
    mitigated = np.array([mitigation.zero_noise(circuit, lambda c, p=p: measured(c, h, p), SCALES) for p in errors])

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    left.plot(ideal.history, label="without noise")
    left.plot(noisy.history, label="with noise")
    left.axhline(exact, color="0.4", lw=1, ls="--", label="ground state")
    left.set(xlabel="step", ylabel="energy", title="training")
    left.legend(frameon=False)

    factor = np.linspace(0, 5.3, 50)
    middle.plot(factor, np.polyval(np.polyfit(SCALES, energies, 2), factor), color="C1", lw=1)
    middle.plot(SCALES, energies, "o", color="C1", label="measured")
    middle.plot(0, zero, "*", color="C2", ms=14, label="extrapolated")
    middle.axhline(clean, color="0.4", lw=1, ls="--", label="this state without noise")
    middle.set(
        xlabel="noise amplified by", ylabel="energy", title=f"error {error:g} per two-qubit gate", xticks=range(6)
    )
    middle.legend(frameon=False)

    right.loglog(errors, np.abs(raw - clean), "o-", color="C1", label="measured")
    right.loglog(errors, np.abs(mitigated - clean), "o-", color="C2", label="extrapolated")
    right.set(xlabel="error of a two-qubit gate", ylabel="error of the energy", title="what extrapolation gains")
    right.legend(frameon=False)
    right.grid(alpha=0.3, which="both")
    figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--error", type=float, default=0.005, help="probability of depolarization after a two-qubit gate"
    )
    parser.add_argument("--output", default="noisy_vqe_zne.png", help="where the picture goes")
    args = parser.parse_args()
    main(args.error, args.output)
