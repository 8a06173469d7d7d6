"""Noise: density matrices, and trajectories."""

from tests.benchmarks.quantum.bench import Bench, case
from tests.benchmarks.quantum.cases.circuits import qcbm

P = 0.01


def noisy(n, depth):
    """Each qubit of every gate is depolarized after it."""
    return [step for gate in qcbm(n, depth) for step in (gate, *(("noise", (q,), P) for q in gate[1]))]


for n in (6, 8, 10, 12):
    case(f"density_{n}")(
        lambda n=n: Bench(
            "density", n, noisy(n, 2), ("mindquantum", "aer", "qulacs") if n < 12 else ("aer", "mindquantum")
        )
    )
case("trajectories_10")(lambda: Bench("trajectories", 10, noisy(10, 2), ("qulacs", "aer"), shots=1000, tolerance=2.0))
