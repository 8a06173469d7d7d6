"""A tour in one page: circuits, simulation, samples, exact gradients, Hessians, batches, and a little training.

python examples/quantum/quickstart.py [--output quickstart.png]
"""

import argparse

import numpy as np

from triskele import core, quantum


def main(output):
    # circuits: parameters are names, or linear expressions of names; qubit 0 is the least significant bit
    circuit = quantum.Circuit(3).h(0).cx(0, 1).ry("a", 2).crx({"b": 2.0}, 1, 2).rzz("a - b/2", 0, 2)
    print(circuit.draw("text"))

    # the state, probabilities and samples of it
    theta = np.array([0.3, 1.2])  # in the order of circuit.parameters
    result = quantum.run(circuit, theta)
    print("probabilities of qubit 2:", np.round(result.probabilities([2]), 4))
    print("1,000 shots:", result.sample(1000, seed=1).counts())
    print(f"entropy of qubit 0: {result.entropy([0]):.4f}")

    # the mean of a Hermitian operator as a function of theta, with exact derivatives of any order
    h = quantum.PauliSum("0.5 Z0 Z1 - 1.2 X2 + 0.3 Y1 Y2")
    energy = quantum.Expectation(circuit, h)
    value, gradient = energy.value_and_grad(theta)
    print(f"energy {value:.6f}, gradient {np.round(gradient, 6)}")
    print("Hessian", np.round(core.hessian(energy)(theta), 4).tolist())
    print("quantum Fisher information", np.round(quantum.qfi(circuit, theta), 4).tolist())

    # batches, and any NumPy code around it: here the gradient of a free energy over 5 points
    batch = np.linspace(-1, 1, 5)[:, None] + theta
    print("energies of a batch", np.round(energy(batch), 4))

    def free_energy(shift, kt=0.5):
        return -kt * np.log(np.sum(np.exp(-energy(batch + shift) / kt)))

    print("d free energy / d shift", np.round(core.grad(free_energy)(np.zeros(2)), 6))

    # minimize it
    found = quantum.minimize(energy, theta, "adam")
    print(f"lowest energy of this circuit {found.value:.6f} after {found.evaluations} evaluations")

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    a, b = np.linspace(-np.pi, np.pi, 61), np.linspace(-1.5, 4.5, 61)
    surface = energy(np.stack(np.meshgrid(a, b), -1).reshape(-1, 2)).reshape(61, 61)
    figure, axes = plt.subplots(figsize=(6.4, 5), layout="constrained")
    picture = axes.contourf(a, b, surface, levels=30, cmap="viridis")
    figure.colorbar(picture, label="energy")
    axes.plot(*np.transpose(found.thetas), ".-", color="w", lw=1, ms=3, label="Adam")
    axes.plot(*found.theta, "*", color="w", mec="k", ms=15, label="minimum")
    axes.set(xlabel="a", ylabel="b", title="energy of a circuit with two angles", aspect="equal")
    axes.legend(loc="lower left", facecolor="0.4", labelcolor="w")
    figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default="quickstart.png", help="where the picture goes")
    main(parser.parse_args().output)
