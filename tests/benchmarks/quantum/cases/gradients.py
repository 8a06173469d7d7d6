"""Values and gradients of expectation values."""

import numpy as np

from tests.benchmarks.quantum.bench import Bench, case

EVERYONE = ("mindquantum", "qulacs", "lightning")


def layers(n, depth, first=0):
    """Hardware-efficient layers: ry and rz on every qubit, then a chain of CNOTs. Angles count from `first`."""
    gates, k = [], first
    for _ in range(depth):
        for q in range(n):
            gates += [("ry", (q,), [(k, 1.0)]), ("rz", (q,), [(k + 1, 1.0)])]
            k += 2
        gates += [("cx", (q, q + 1), None) for q in range(n - 1)]
    return gates, k


def ising(n):
    """Transverse-field Ising ring."""
    return [(f"Z{q} Z{(q + 1) % n}", -1.0) for q in range(n)] + [(f"X{q}", -0.7) for q in range(n)]


def angles(count):
    return np.random.default_rng(count).uniform(-np.pi, np.pi, count)


def tfim(n):
    gates, count = layers(n, 5)
    return Bench("gradient", n, gates, EVERYONE if n < 20 else EVERYONE[::2], angles(count), hamiltonians=[ising(n)])


for n in (4, 8, 12, 16, 20):
    case(f"tfim_{n}")(lambda n=n: tfim(n))


def qaoa(n, p=4):
    """Alternating operators for MaxCut on a ring with chords across it."""
    edges = [(q, (q + 1) % n) for q in range(n)] + [(q, q + n // 2) for q in range(n // 2)]
    gates = [("h", (q,), None) for q in range(n)]
    for layer in range(p):
        gates += [("rzz", edge, [(2 * layer, 1.0)]) for edge in edges]
        gates += [("rx", (q,), [(2 * layer + 1, 2.0)]) for q in range(n)]
    return Bench(
        "gradient",
        n,
        gates,
        EVERYONE if n < 20 else EVERYONE[::2],
        angles(2 * p),
        hamiltonians=[[(f"Z{a} Z{b}", 0.5) for a, b in edges]],
    )


for n in (12, 16, 20):
    case(f"qaoa_{n}")(lambda n=n: qaoa(n))


@case("batch_8")
def _():
    """128 data points, two Hamiltonians."""
    n, points = 8, 128
    ansatz, count = layers(n, 3)
    encoder = [("ry", (q,), [(count + q, 1.0)]) for q in range(n)]
    data = np.random.default_rng(8).uniform(-1, 1, (points, n))
    return Bench(
        "gradient",
        n,
        encoder + ansatz,
        ("tensorcircuit", "mindquantum"),
        angles(count),
        data,
        [ising(n), [(f"Z{q}", 1.0) for q in range(n)]],
    )


@case("molecule_14")
def _():
    """Hardware-efficient layers with the Hamiltonian of H2O."""
    from triskele import quantum

    gates, count = layers(14, 2)
    water = quantum.molecules.load("H2O").hamiltonian
    return Bench("gradient", 14, gates, EVERYONE, angles(count), hamiltonians=[[(text, c.real) for text, c in water]])
