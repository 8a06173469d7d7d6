"""Two interleaved half moons, told apart by a trained circuit and by a quantum kernel.

The circuit takes the two coordinates in four times with rotations between (data re-uploading, Perez-Salinas et al.,
Quantum 4, 226 (2020)) and is trained by Adam on exact gradients of batches. The kernel is the fidelity of encoded
states, with ridge regression on the labels.

    python examples/quantum/classifier.py [--epochs 60] [--output classifier.png]
"""

import argparse
import time

import numpy as np

from triskele import quantum


def moons(number, noise, rng):
    """Points (number, 2) on two half circles with normal noise, and labels."""
    y = np.arange(number) % 2
    angle = np.pi * rng.random(number)
    x = np.where(
        y[:, None], np.stack([1 - np.cos(angle), 0.5 - np.sin(angle)], 1), np.stack([np.cos(angle), np.sin(angle)], 1)
    )
    return x + noise * rng.standard_normal(x.shape) - [0.5, 0.25], y


def uploading_circuit(layers):
    """Both coordinates on two qubits, then trained rotations and a CZ; `layers` times."""
    circuit = quantum.Circuit(2)
    for layer in range(layers):
        circuit += quantum.Circuit(2).ry("x0", 0).ry("x1", 1).as_encoder()
        trained = quantum.Circuit(2)
        for q in range(2):
            trained.rz(f"z{layer}{q}", q).ry(f"y{layer}{q}", q)
        circuit += trained.cz(0, 1)
    return circuit


def kernel_circuit():
    """Both coordinates, once before and once after a CZ."""
    return quantum.Circuit(2).ry({"x0": 2.0}, 0).ry({"x1": 2.0}, 1).cz(0, 1).rx("x1", 0).rx("x0", 1).as_encoder()


def main(epochs, output):
    rng = np.random.default_rng(3)
    x, y = moons(200, 0.12, rng)
    unseen, answers = moons(400, 0.12, rng)

    began = time.perf_counter()
    trained = quantum.Classifier(uploading_circuit(4), epochs=epochs, seed=2).fit(x, y)
    took = time.perf_counter() - began
    print(
        f"circuit: {len(trained.circuit.parameters)} angles, {epochs} epochs in {took:.1f} s, accuracy "
        f"{trained.score(x, y):.3f} in training, "
        f"{trained.score(unseen, answers):.3f} on unseen points"
    )

    kernel = quantum.FidelityKernel(kernel_circuit())
    weights = np.linalg.solve(kernel(x) + 0.1 * np.eye(len(x)), 2.0 * y - 1.0)
    print(
        f"kernel: accuracy {np.mean((kernel(x, x) @ weights > 0) == y):.3f} in training, "
        f"{np.mean((kernel(unseen, x) @ weights > 0) == answers):.3f} on unseen points"
    )

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    side = np.linspace(-2, 2, 60), np.linspace(-1.4, 1.4, 50)
    grid = np.stack(np.meshgrid(*side), -1).reshape(-1, 2)
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.9), layout="constrained")
    score = kernel(grid, x) @ weights
    for ax, title, values in (
        (axes[0], "trained circuit", trained.predict_proba(grid)[:, 1]),
        (axes[1], "quantum kernel", 0.5 + 0.5 * score),
    ):
        surface = values.reshape(50, 60)
        picture = ax.contourf(*side, np.clip(surface, 0, 1), levels=np.linspace(0, 1, 21), cmap="RdBu_r", alpha=0.8)
        ax.contour(*side, surface, levels=[0.5], colors="k", linewidths=1)
        ax.scatter(*x.T, c=y, cmap="RdBu_r", edgecolors="k", linewidths=0.6, s=22)
        ax.set(title=title, xlabel="$x_0$", ylabel="$x_1$")
    figure.colorbar(picture, ax=axes[:2], label="probability of the red moon", ticks=[0, 0.5, 1])
    axes[2].plot(trained.history_["epoch"], trained.history_["loss"])
    axes[2].set(title="training", xlabel="epoch", ylabel="cross entropy", ylim=(0, None))
    figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--output", default="classifier.png", help="where the picture goes")
    args = parser.parse_args()
    main(args.epochs, args.output)
