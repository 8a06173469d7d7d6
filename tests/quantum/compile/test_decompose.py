"""Decomposition: exact with global phases, in the basis, few CNOTs; equality of circuits."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.quantum.gates.test_gates import CIRCUITS, circuit_of
from tests.twins import statevector as twin
from triskele import quantum
from triskele.quantum import gates
from triskele.quantum.compile.decompose import decompose
from triskele.quantum.compile.synthesis.kak import canonical, two_qubit
from triskele.quantum.compile.synthesis.shannon import shannon
from triskele.quantum.equality import equal
from triskele.quantum.errors import CircuitError, GateError
from triskele.quantum.gates.instruction import Instruction

BASES = [{"u", "cx"}, {"rz", "sx", "cx"}, {"rz", "ry", "cz"}, {"rz", "rx", "rzz"}, {"rx", "ry", "iswap"},
         {"rz", "h", "ecr"}, {"rz", "rx", "rxx"}]  # fmt: skip


def haar(n, seed):
    random = np.random.default_rng(seed)
    q, r = scipy.linalg.qr(random.normal(size=(n, n)) + 1j * random.normal(size=(n, n)))
    return q * (np.diag(r) / abs(np.diag(r)))


def columns(circuit, values=None):
    """What the circuit makes of two random states: its matrix would take too long."""
    random = np.random.default_rng(7)
    states = random.normal(size=(2, 1 << circuit.num_qubits)) + 1j * random.normal(size=(2, 1 << circuit.num_qubits))
    return np.stack([quantum.run(circuit, values, initial=s / np.linalg.norm(s)).statevector() for s in states])


@pytest.mark.parametrize("basis", BASES, ids=lambda b: "-".join(sorted(b)))
@pytest.mark.parametrize("name", ["all_1q_gates_3", "all_2q_gates_4", "all_3q_gates_5", "qv_6"])
def test_circuits_in_a_basis(name, basis):
    circuit = circuit_of(CIRCUITS[name])
    made = decompose(circuit, basis)
    assert set(made.counts()) <= basis | {"global_phase"}
    np.testing.assert_allclose(columns(made), columns(circuit), atol=1e-12)


@pytest.mark.parametrize("controls", [0, 1])
@pytest.mark.parametrize("name", gates.names())
def test_every_registered_gate(name, controls):
    gate = gates.find(name)
    n = gate.num_qubits + controls
    if n > 5:
        return
    random = np.random.default_rng(controls)
    wires = random.permutation(n).tolist()
    circuit = quantum.Circuit(n).append(
        gate, wires[controls:], random.uniform(-3, 3, gate.num_params).tolist(), controls=wires[:controls]
    )
    made = decompose(circuit)
    assert set(made.counts()) <= {"u", "cx", "global_phase"}
    np.testing.assert_allclose(columns(made), columns(circuit), atol=1e-12)


@pytest.mark.parametrize(
    "circuit, most",
    [
        (quantum.Circuit(2).cz(0, 1), 1),
        (quantum.Circuit(2).ecr(1, 0), 1),
        (quantum.Circuit(2).iswap(0, 1), 2),
        (quantum.Circuit(2).swap(0, 1), 3),
        (quantum.Circuit(2).crx(0.3, 0, 1), 2),
        (quantum.Circuit(2).rxx("a", 0, 1), 2),
        (quantum.Circuit(2).fsim(0.3, 0.2, 0, 1), 3),
        (quantum.Circuit(2).givens("a", 0, 1), 2),
        (quantum.Circuit(3).ccx(0, 1, 2), 6),
        (quantum.Circuit(4).c3x(0, 1, 2, 3), 14),
        (quantum.Circuit(3).cswap(0, 1, 2), 8),
        (quantum.Circuit(3).rccx(0, 1, 2), 3),
        (quantum.Circuit(3).unitary(haar(8, 0), [0, 1, 2]), 26),
        (quantum.Circuit(7).mcx([0, 1, 2, 3, 4], 5), 56),
    ],
)
def test_numbers_of_cnots(circuit, most):
    """The best known numbers, or near them (a Haar-random matrix on three qubits: 20)."""
    assert decompose(circuit).counts()["cx"] <= most


@pytest.mark.parametrize("extra", [0, 1, 4])
@pytest.mark.parametrize("k", [3, 4, 5, 6, 7])
def test_many_controls(k, extra):
    for name, params in (("x", []), ("rz", [0.7]), ("rx", ["a"]), ("p", ["a"]), ("h", [])):
        circuit = quantum.Circuit(k + 1 + extra).append(name, k, params, controls=range(k))
        theta = [0.4] if circuit.parameters else None
        np.testing.assert_allclose(columns(decompose(circuit), theta), columns(circuit, theta), atol=1e-12)


def test_parameters_stay_parameters():
    circuit = (
        quantum.Circuit(3)
        .rx("a", 0)
        .crz("b", 0, 1)
        .u("a", "b", {"c": 2.0}, 2)
        .rxyz("c", 0, 1, 2)
        .cp("a", 2, 0)
        .fsim("a", "b", 1, 2)
        .r("a", "c", 1)
    )
    for basis in BASES[:4]:
        made = decompose(circuit, basis)
        assert set(made.parameters) == {"a", "b", "c"} and set(made.counts()) <= basis | {"global_phase"}
        values = {"a": 0.3, "b": -1.2, "c": 2.2}
        np.testing.assert_allclose(columns(made, values), columns(circuit, values), atol=1e-12)


def test_data_stay_data():
    circuit = quantum.Circuit(1).rx("x", 0).as_encoder() + quantum.Circuit(1).ry("a", 0)
    made = decompose(circuit, {"rz", "sx"})
    assert made.data == ("x",) and made.parameters == ("a",)


def test_what_is_no_gate_stays():
    circuit = quantum.Circuit(2).rz(0.2, 0).measure(0, 0).barrier()
    with circuit.when(0):
        circuit.swap(0, 1).rx(0.3, 0)
    made = decompose(circuit.reset(1), {"rz", "sx", "cx"})
    assert set(made.counts()) <= {"rz", "sx", "cx", "global_phase", "measure", "barrier", "reset"}
    kinds = [i.gate.name for i in made if i.gate.name in ("measure", "barrier", "reset")]
    assert kinds == ["measure", "barrier", "reset"]
    assert all(i.condition is not None for i in made if i.gate.name in ("cx", "sx"))


def test_gates_of_the_basis_stay():
    circuit = quantum.Circuit(3).swap(0, 1).ccx(0, 1, 2).rzz("a", 0, 1)
    assert decompose(circuit, {"u", "cx", "swap", "ccx", "rzz"}) == circuit


def test_neighbors_are_merged():
    circuit = quantum.Circuit(1).h(0).t(0).h(0).s(0).rx(0.3, 0)
    assert len(decompose(circuit, {"u"})) <= 2
    assert len(decompose(quantum.Circuit(1).h(0).h(0), {"u"})) == 0


@pytest.mark.parametrize(
    "basis, circuit, message",
    [
        ({"rz", "cx"}, quantum.Circuit(1).h(0), "the basis must have all gates of one of"),
        ({"u"}, quantum.Circuit(2).swap(0, 1), "needs one of cx, cz"),
    ],
)
def test_bases_that_are_none(basis, circuit, message):
    with pytest.raises(CircuitError, match=message):
        decompose(circuit, basis)


def test_errors():
    with pytest.raises(GateError, match="unknown gate 'rzzz_'"):
        decompose(quantum.Circuit(1), {"rzzz_"})
    with pytest.raises(CircuitError, match="bind the circuit first"):
        decompose(quantum.Circuit(1).rv("a", "b", "c", 0))


# -- two qubits and more -----------------------------------------------------------------------------------------------

SPECIAL = [0.0, np.pi / 8, np.pi / 4, np.pi / 2, 1e-9, 1e-5, -np.pi / 4, 0.3, np.pi / 4 - 1e-11]


@given(st.integers(0, 2**32 - 1), st.tuples(*[st.sampled_from(SPECIAL)] * 3), st.booleans())
@settings(max_examples=150, deadline=None)
def test_canonical_form_of_special_and_random_matrices(seed, xyz, local):
    """Points on the edges of the Weyl chamber are where eigenvalues coincide."""
    middle = twin.unitary(quantum.Circuit(2).rxx(-2 * xyz[0], 0, 1).ryy(-2 * xyz[1], 0, 1).rzz(-2 * xyz[2], 0, 1))
    u = (
        np.kron(haar(2, seed), haar(2, seed + 1)) @ middle @ np.kron(haar(2, seed + 2), haar(2, seed + 3))
        if local
        else middle
    )
    k = canonical(u)
    np.testing.assert_allclose(k.matrix(), u, atol=1e-12)
    x, y, z = k.xyz
    assert np.pi / 4 + 1e-9 >= x >= y - 1e-9 and y >= abs(z) - 1e-9
    circuit = two_qubit(u)
    np.testing.assert_allclose(
        twin.unitary(circuit),
        u,
        atol=1e-8 if max(1e-12, min(abs(v) for v in xyz if v) if any(xyz) else 1) < 1e-8 else 1e-12,
    )
    assert circuit.counts().get("cx", 0) <= 3


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4])
def test_any_unitary_matrix(n):
    u = haar(1 << n, n)
    circuit = shannon(u)
    made = decompose(circuit)
    np.testing.assert_allclose(columns(made), columns(quantum.Circuit(n).unitary(u, range(n))), atol=1e-12)


def test_matrix_with_controls():
    circuit = quantum.Circuit(4).unitary(haar(4, 5), [3, 1], controls=[0])
    np.testing.assert_allclose(columns(decompose(circuit)), columns(circuit), atol=1e-12)


# -- equality ----------------------------------------------------------------------------------------------------------


def test_equality():
    a = quantum.Circuit(2).rz("a", 0).cx(0, 1)
    assert equal(a, decompose(a), up_to_phase=False)
    assert equal(a, a + quantum.Circuit(2).global_phase("a")) and not equal(
        a, a + quantum.Circuit(2).global_phase("a"), up_to_phase=False
    )
    assert (
        not equal(a, quantum.Circuit(2).rz("a", 0).cx(1, 0))
        and not equal(a, a.rename({"a": "b"}))
        and not equal(a, quantum.Circuit(3).rz("a", 0).cx(0, 1))
    )
    assert not equal(quantum.Circuit(1).rz(1e-6, 0), quantum.Circuit(1)) and equal(
        quantum.Circuit(1).rz(1e-6, 0), quantum.Circuit(1), atol=1e-5
    )
    with pytest.raises(CircuitError, match="gates alone"):
        equal(a, quantum.Circuit(2).measure_all())


def test_instruction_of_an_exact_angle_stays_itself():
    """A rotation by the angle 0 disappears, one by 2 pi is a phase."""
    assert len(decompose(quantum.Circuit(1).rx(0.0, 0), {"rz", "sx"})) == 0
    turned = decompose(quantum.Circuit(1).rx(2 * np.pi, 0), {"rz", "sx"})
    assert {i.gate.name for i in turned} <= {"global_phase", "rz"} and isinstance(turned.instructions[0], Instruction)
    assert equal(turned, quantum.Circuit(1).rx(2 * np.pi, 0), up_to_phase=False)
