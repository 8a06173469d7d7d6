"""A network with a circuit in the middle, trained end to end in float64: three spiral arms.

Linear layer, tanh, a circuit of four qubits (a layer of `core.nn` style: its inputs are the rotation angles of the
encoder, its outputs <Z> of each qubit), linear layer, softmax. One gradient goes through all of it, and is checked
against finite differences.

    python examples/quantum/hybrid_network.py [--epochs 150] [--output hybrid_network.png]
"""

import argparse
import dataclasses
import time
from typing import Any

import numpy as np

from triskele import core, quantum
from triskele.core import nn, optim, random


@dataclasses.dataclass(frozen=True)
class Hybrid:
    before: nn.Linear
    circuit: Any  # quantum.nn.Layer
    after: nn.Linear

    @classmethod
    def init(cls, key, qubits, classes):
        first, second, third = random.split(key, 3)
        encoder = quantum.Circuit(qubits)
        for q in range(qubits):
            encoder.ry(f"x{q}", q)
        circuit = encoder.as_encoder() + quantum.hardware_efficient(qubits, 2, rotations=("ry", "rz"), entangler="cx")
        observables = [quantum.PauliSum(f"Z{q}") for q in range(qubits)]
        return cls(
            nn.Linear.init(first, 2, qubits, dtype=np.float64),
            quantum.nn.Layer.init(second, circuit, observables),
            nn.Linear.init(third, qubits, classes, dtype=np.float64),
        )

    def __call__(self, x):
        return self.after(self.circuit(np.pi * np.tanh(self.before(x))))


def spirals(number, rng):
    """Points (number, 2) on three arms with noise, and labels."""
    y = np.arange(number) % 3
    radius = np.sqrt(rng.random(number))
    angle = 3.0 * radius + 2 * np.pi / 3 * y + 0.18 * rng.standard_normal(number)
    return 2 * radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1), y


def loss(network, x, y):
    return nn.cross_entropy(network(x), y)


def main(epochs, output):
    rng = np.random.default_rng(0)
    (x, y), (unseen, answers) = spirals(300, rng), spirals(600, rng)
    network = Hybrid.init(random.key(1), 4, 3)
    core.check_grads(lambda network: loss(network, x[:5], y[:5]), (network,), order=1)

    rule = optim.Adam(0.03)
    state, history, both = rule.init(network), [], core.value_and_grad(loss)
    began = time.perf_counter()
    for epoch in range(epochs):
        order, total = rng.permutation(len(x)), 0.0
        for chosen in np.split(order, len(x) // 50):
            value, slopes = both(network, x[chosen], y[chosen])
            network, state = rule.step(network, slopes, state)
            total += float(value)
        history.append(total * 50 / len(x))
        if (epoch + 1) % max(1, epochs // 5) == 0:
            print(f"epoch {epoch + 1}: cross entropy {history[-1]:.4f}")
    took = time.perf_counter() - began
    right = np.mean(np.argmax(network(unseen), 1) == answers)
    print(f"{epochs} epochs in {took:.1f} s; {right:.3f} of unseen points right")

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.colors import to_rgb

    side = np.linspace(-2.4, 2.4, 80)
    probability = nn.softmax(network(np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)))
    colors = np.array([to_rgb(c) for c in ("tab:blue", "tab:orange", "tab:green")])
    figure, (left, middle) = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained")
    left.imshow(
        (1 - 0.55 * (1 - probability @ colors)).reshape(80, 80, 3),
        extent=(-2.4, 2.4, -2.4, 2.4),
        origin="lower",
        interpolation="bilinear",
    )
    left.scatter(*x.T, c=colors[y], edgecolors="k", linewidths=0.5, s=18)
    left.set(title=f"decisions ({right:.1%} right on unseen points)", xlabel="$x_0$", ylabel="$x_1$", aspect="equal")
    middle.semilogy(np.arange(1, epochs + 1), history)
    middle.set(title="training", xlabel="epoch", ylabel="cross entropy")
    middle.grid(alpha=0.3, which="both")
    figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=150)
    parser.add_argument("--output", default="hybrid_network.png", help="where the picture goes")
    args = parser.parse_args()
    main(args.epochs, args.output)
