"""Unitary coupled cluster: as gates on state vectors, and in the space of determinants."""

import numpy as np

from tests.benchmarks.quantum.bench import Bench, case


def pauli_rotations(source, target, n, angle):
    """exp(t (T - T^dagger)) as rotations about Pauli strings, which commute."""
    from triskele.quantum.operators.fermion import FermionOperator
    from triskele.quantum.operators.mapping import encode, encoding

    product = FermionOperator(" ".join([*(f"{a}^" for a in target), *(str(i) for i in reversed(source))]))
    gates = []
    for string, c in encode((product - product.adjoint()).ladders(), encoding("jordan_wigner", n)):
        letters = {int(s[1:]): s[0] for s in string.split()}
        gates.append(("pauli", tuple(letters), ("".join(letters.values()), [(k, -2 * c.imag * f) for k, f in angle])))
    return gates


def uccsd(name, kind):
    from triskele import quantum
    from triskele.quantum.ansatz.excitations import doubles, singles

    molecule = quantum.molecules.load(name)
    n, electrons = molecule.num_qubits, molecule.num_electrons
    start = [("x", (q,), None) for q in range(electrons)]
    gates, simple = list(start), list(start)
    for k, (source, target) in enumerate(
        [*singles(electrons // 2, electrons // 2, n), *doubles(electrons // 2, electrons // 2, n)]
    ):
        gates.append(("excite", (source, target), [(k, 1.0)]))
        simple += pauli_rotations(source, target, n, [(k, 1.0)])
    h = [(text, c.real) for text, c in molecule.hamiltonian]
    fermions = [(text, c.real) for text, c in molecule.fermion_operator()] if kind == "subspace" else []
    peers = ("mindquantum", "lightning", "qulacs") if kind == "gradient" else ("mindquantum",)
    theta = np.random.default_rng(n).normal(size=k + 1) * 0.1
    return Bench(
        kind,
        n,
        gates,
        peers,
        theta,
        hamiltonians=[h],
        electrons=electrons,
        fermions=fermions,
        simple=simple,
        tolerance=1e-8,
    )


for name in ("H4", "LiH", "H2O"):
    case(f"uccsd_{name}")(lambda name=name: uccsd(name, "gradient"))
    case(f"subspace_{name}")(lambda name=name: uccsd(name, "subspace"))
