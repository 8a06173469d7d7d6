"""Circuits without parameters to train: the state they end in, and samples of it."""

import numpy as np

from tests.benchmarks.quantum.bench import Bench, case

EVERYONE = ("mindquantum", "qulacs", "lightning")


def rotations(random, n, axes):
    return [(f"r{axis}", (q,), float(random.uniform(0, 2 * np.pi))) for axis in axes for q in range(n)]


def qcbm(n, depth=10):
    """Layers of rotations with a ring of CNOTs between them, as circuit Born machines use."""
    random = np.random.default_rng(n)
    gates = rotations(random, n, "xz")
    for layer in range(depth):
        gates += [("cx", (q, (q + 1) % n), None) for q in range(n)]
        gates += rotations(random, n, "zxz" if layer < depth - 1 else "zx")
    return gates


def qft(n):
    """Of a basis state with ones on every other qubit."""
    gates = [("x", (q,), None) for q in range(0, n, 2)]
    for q in reversed(range(n)):
        gates.append(("h", (q,), None))
        gates += [("cp", (k, q), np.pi / 2 ** (q - k)) for k in reversed(range(q))]
    return gates + [("swap", (q, n - 1 - q), None) for q in range(n // 2)]


def unitary(random):
    return np.linalg.qr(random.normal(size=(4, 4)) + 1j * random.normal(size=(4, 4)))[0]


def volume(n, layers):
    """Random unitaries on random pairs."""
    random = np.random.default_rng(n)
    gates = []
    for _ in range(layers):
        order = random.permutation(n).tolist()
        gates += [("u4", (a, b), unitary(random)) for a, b in zip(order[::2], order[1::2], strict=False)]
    return gates


for n in (4, 10, 16, 20):
    case(f"qcbm_{n}")(lambda n=n: Bench("state", n, qcbm(n), EVERYONE))
for n in (16, 20):
    case(f"qft_{n}")(lambda n=n: Bench("state", n, qft(n), EVERYONE))
    case(f"volume_{n}")(lambda n=n: Bench("state", n, volume(n, n), EVERYONE))
    case(f"qcbm_single_{n}")(
        lambda n=n: Bench("state", n, qcbm(n), ("qsim", "lightning"), dtype="complex64", tolerance=1e-3)
    )
case("volume_single_20")(
    lambda: Bench("state", 20, volume(20, 20), ("qsim", "lightning"), dtype="complex64", tolerance=1e-3)
)


@case("dense_24_layers")
def _():
    gates = volume(24, 2)
    return Bench("state", 24, gates, EVERYONE, share=len(gates))  # time of one gate among them, which may share passes


case("samples_20")(lambda: Bench("samples", 20, qcbm(20, 2), ("mindquantum", "qulacs"), shots=100_000, tolerance=0.05))
