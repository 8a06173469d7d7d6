"""Pauli sums: arithmetic is that of matrices, text and other programs' objects give the same operator back."""

import gzip
import itertools
import json
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triskele.quantum import PauliSum
from triskele.quantum.errors import OperatorError
from triskele.quantum.operators import models

DATA = Path(__file__).parents[2] / "data/quantum/hamiltonians"
MATRICES = {"I": np.eye(2), "X": np.array([[0, 1], [1, 0]]), "Y": np.array([[0, -1j], [1j, 0]]), "Z": np.diag([1, -1])}
examples = settings(max_examples=60, deadline=None, derandomize=True)


def reference(name):
    return json.loads(gzip.decompress((DATA / f"{name}.json.gz").read_bytes()))


def dense(operator, n):
    """The matrix from Kronecker products, qubit 0 being the last factor."""
    total = np.zeros((1 << n, 1 << n), complex)
    for string, c in operator:
        letters = {int(f[1:]): f[0] for f in string.split()}
        total += c * reduce(lambda low, q: np.kron(MATRICES[letters.get(q, "I")], low), range(n), np.eye(1))
    return total


def strings(qubits):
    """Pauli strings on qubits chosen from a list."""
    letters = st.lists(st.sampled_from("IXYZ"), min_size=len(qubits), max_size=len(qubits))
    return letters.map(lambda ls: " ".join(f"{p}{q}" for p, q in zip(ls, qubits, strict=True) if p != "I"))


def sums(qubits, coefficients=(1, -2, 0.5, 1j, 1 - 1j), most=6):
    terms = st.tuples(strings(qubits), st.sampled_from(coefficients))
    return st.lists(terms, max_size=most).map(PauliSum)


small = sums(range(4))
wide = sums([0, 31, 32, 63, 64, 130])  # words of 64 bits, and keys of 32, have their edges here


# -- text --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, terms",
    [
        ("0.5 Z0 Z1 - 1.2 X2", {"Z0 Z1": 0.5, "X2": -1.2}),
        ("-X0 + Y3", {"X0": -1, "Y3": 1}),
        ("3 - (1+2j) Y0 + 1e-3*Z10 * X2", {"": 3, "Y0": -1 - 2j, "X2 Z10": 1e-3}),
        ("2j X0Z1 + .5I", {"X0 Z1": 2j, "": 0.5}),
        ("X0 + X0", {"X0": 2}),
    ],
)
def test_text_is_read(text, terms):
    assert dict(PauliSum(text)) == terms


@pytest.mark.parametrize(
    "text, place, message",
    [
        ("X0 X0", 3, "occur once"),
        ("0.5 Q0", 4, "between terms"),
        ("X", 0, "its qubit"),
        ("X0 Z1 Y", 6, "its qubit"),
        ("X0 0.5 Z1", 3, "between terms"),
        ("X0 +", 4, "a term"),
        ("X0 -- Z1", 4, "a term"),
        ("(1+) X0", 0, "a number"),
        ("1.2.3 X0", 0, "a term"),
        ("X99999999", 0, "below"),
    ],
)
def test_text_that_cannot_be_read_names_the_place(text, place, message):
    with pytest.raises(OperatorError, match=f"{message}.*position {place} of"):
        PauliSum(text)


@pytest.mark.parametrize(
    "terms",
    [
        "",
        "   ",
        [("X0", "one")],
        [("X0", np.nan)],
        [("X0", 1j * np.inf)],
        ["X0"],
        [(1, "X0")],
        object(),
        [("X0", None)],
    ],
)
def test_terms_that_are_none_are_errors(terms):
    with pytest.raises(OperatorError):
        PauliSum(terms)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.text("XYZIJ0129.eE+-*()j []^", max_size=12))
def test_any_text_is_a_sum_or_an_error(text):
    try:
        a = PauliSum(text)
    except OperatorError as error:
        assert "position" in str(error) or not text.strip() or "finite" in str(error)
    else:
        assert PauliSum(str(a)).isclose(a, 1e-9 * np.max(abs(a.coefficients), initial=0))


@examples
@given(wide)
def test_text_gives_the_sum_back(a):
    assert PauliSum(str(a)) == a if len(a) else str(a) == "0"
    assert PauliSum(dict(a)) == PauliSum(list(a)) == PauliSum(a) == a


# -- algebra -----------------------------------------------------------------------------------------------------------


@examples
@given(small, small)
def test_arithmetic_is_that_of_matrices(a, b):
    A, B = dense(a, 4), dense(b, 4)
    np.testing.assert_allclose(a.matrix(4).toarray(), A, atol=1e-14)
    for operator, expected in (
        (a + b, A + B),
        (a - b, A - B),
        (a * b, A @ B),
        (2 * a - 1, 2 * A - np.eye(16)),
        (1 - a / 2j, np.eye(16) - A / 2j),
        (a**3, A @ A @ A),
        (a.adjoint(), A.conj().T),
        (a.commutator(b), A @ B - B @ A),
        (a.anticommutator(b), A @ B + B @ A),
    ):
        np.testing.assert_allclose(dense(operator, 4), expected, atol=1e-12)
    assert a.is_hermitian == np.array_equal(A, A.conj().T)
    assert a.commutes_with(b) == np.allclose(A @ B, B @ A)


@examples
@given(wide, wide, wide)
def test_ring(a, b, c):
    assert a * (b + c) == a * b + a * c
    assert (a * b) * c == a * (b * c)
    assert a + b - b == a
    assert (a * b).adjoint() == b.adjoint() * a.adjoint()
    jacobi = a.commutator(b.commutator(c)) + b.commutator(c.commutator(a)) + c.commutator(a.commutator(b))
    assert jacobi == PauliSum()


@pytest.mark.parametrize("words", [1, 2, 3])
@pytest.mark.parametrize("which", ["product", "commutator", "anticommutator"])
def test_large_products_are_those_of_their_parts(rng, words, which):
    """The hash table's kernel against small products that numpy does; few qubits, so that it meets repeats and
    grows.
    """
    x, z = (np.zeros((2, 150, words), np.uint64) for _ in range(2))
    for a in (x, z):
        a[..., 0], a[..., -1] = rng.integers(0, 64, (2, 150)), rng.integers(0, 32, (2, 150)) << 59
    a, b = (PauliSum.from_arrays(x[k], z[k], rng.normal(size=150) + 1j * rng.normal(size=150)) for k in range(2))
    multiply = {
        "product": PauliSum.__mul__,
        "commutator": PauliSum.commutator,
        "anticommutator": PauliSum.anticommutator,
    }[which]
    parts = [multiply(a[i : i + 20], b[j : j + 20]) for i in range(0, len(a), 20) for j in range(0, len(b), 20)]
    assert multiply(a, b).isclose(reduce(PauliSum.__add__, parts), 1e-11)


def test_terms_are_merged_sorted_and_frozen():
    a = PauliSum([("X0", 1), ("Z3", 2), ("X0", 1), ("Y1", 5), ("Y1", -5)])
    assert dict(a) == {"X0": 2, "Z3": 2} and a["X0"] == 2 and a["Y70"] == 0 and "Y1" not in a
    assert a == PauliSum([("Z3", 2), ("X0", 2)]) and a != PauliSum("X0") and PauliSum("2") == 2
    assert a[0] == ("Z3", 2) and a[1:] == PauliSum("2 X0") and a[a.weights == 1] == a
    assert a.num_qubits == 4 and PauliSum().num_qubits == 0 and a.constant == 0
    with pytest.raises(ValueError, match="read-only"):
        a.coefficients[0] = 1
    with pytest.raises(TypeError, match="unhashable"):
        hash(a)
    assert PauliSum("X100").x.shape == (1, 2) and (PauliSum("X100") - PauliSum("X100") + PauliSum("X1")).x.shape == (
        1,
        1,
    )
    assert PauliSum([("X0", 1 + 1e-14j), ("Z0", 1e-15)]).simplify() == PauliSum("X0")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda h: h + "X0",
        lambda h: h * [1],
        lambda h: h @ np.ones(3),
        lambda h: h / 0,
        lambda h: h**-1,
        lambda h: h**0.5,
        lambda h: h.commutator(2),
        lambda h: h.matrix(1),
        lambda h: h @ np.ones(2),
        lambda h: h.matrix(40),
        lambda h: h.remap([0]),
        lambda h: h.remap([0, 0]),
        lambda h: h.tensor(h, 1),
        lambda h: h.project({0: 2}),
        lambda h: (1j * h).ground_state(),
        lambda h: h.eigenstates(5),
        lambda h: PauliSum.from_arrays([1, 2], [1], [1]),
        lambda h: h * np.nan,
    ],
)
def test_misuse_is_an_error(wrong):
    with pytest.raises((OperatorError, TypeError)):
        wrong(PauliSum("X0 + Z1"))


# -- qubits ------------------------------------------------------------------------------------------------------------


@examples
@given(small, st.permutations(range(4)))
def test_remap_and_tensor(a, order):
    moved = dense(a, 4).reshape((2,) * 8)
    axes = [3 - list(order).index(3 - k) for k in range(4)]  # qubit q is axis 3 - q
    np.testing.assert_allclose(
        dense(a.remap(order), 4), moved.transpose(*axes, *(4 + k for k in axes)).reshape(16, 16), atol=1e-14
    )
    far = [5, 64, 0, 129]
    assert a.remap(far).remap([far.index(q) if q in far else 4 + q for q in range(130)]) == a
    np.testing.assert_allclose(
        dense(a.tensor(PauliSum("X0 + Y1"), 4), 6), np.kron(dense(PauliSum("X0 + Y1"), 2), dense(a, 4)), atol=1e-13
    )


@examples
@given(small, st.sampled_from([0, 1]), st.sampled_from([0, 1]))
def test_projection_is_a_block_of_the_matrix(a, low, high):
    rows = [j for j in range(16) if j & 1 == low and j >> 3 == high]
    expected = dense(a, 4)[np.ix_(rows, rows)]
    np.testing.assert_allclose(dense(a.project({0: low, 3: high}).remap([2, 0, 1, 3]), 2), expected, atol=1e-13)
    assert a.project({200: 1}) == a


# -- groups ------------------------------------------------------------------------------------------------------------


@examples
@given(sums([0, 3, 64, 65], most=12))
def test_groups_are_parts_that_commute(a):
    for qubit_wise in (True, False):
        parts = a.groups(qubit_wise)
        assert reduce(PauliSum.__add__, parts, PauliSum()) == a
        for part in parts:
            for (p, _), (q, _) in itertools.combinations(part, 2):
                assert PauliSum(p or "1").commutes_with(PauliSum(q or "1"))
                if qubit_wise:
                    letters = dict((f[1:], f[0]) for f in p.split())
                    assert all(letters.get(f[1:], f[0]) == f[0] for f in q.split())


def test_groups_of_a_molecule_are_few():
    h = PauliSum(reference("LiH_1.5")["terms"])
    assert len(h.groups(qubit_wise=False)) < 0.1 * len(h) < len(h.groups()) < 0.3 * len(h)


# -- states ------------------------------------------------------------------------------------------------------------


@examples
@given(sums([0, 2, 9, 11]))
def test_states_larger_than_a_block(a):
    """12 qubits are several blocks of the kernels' rows."""
    psi = np.exp(1j * np.arange(1 << 12) ** 1.5) / 64
    expected = sum((c * _act(p, psi) for p, c in a), np.zeros(1 << 12, complex))
    np.testing.assert_allclose(a @ psi, expected, atol=1e-13)
    np.testing.assert_allclose(a.matrix(12) @ psi, expected, atol=1e-13)
    value = a.expectation(psi)
    assert isinstance(value, float) == a.is_hermitian and abs(value - np.vdot(psi, expected)) < 1e-12


def _act(string, psi):
    """One string on a state, qubit by qubit."""
    psi = psi.reshape((2,) * 12)
    for factor in string.split():
        axis = 11 - int(factor[1:])
        psi = np.moveaxis(np.tensordot(MATRICES[factor[0]], psi, (1, axis)), 0, axis)
    return psi.reshape(-1)


@pytest.mark.parametrize(
    "name", ["tfim_ring_8_h0.7", "tfim_ring_12_h0.7", "heisenberg_open_8", "heisenberg_open_10", "xxz_open_8_d0.5"]
)
def test_spin_models(name):
    """Models are the stored sums; their lowest eigenvalues, degenerate ones among them, are scipy's and the
    free-fermion formula's.
    """
    stored = reference("spin_models")[name]
    kind, _, n, *rest = name.split("_")
    n = int(n)
    model = models.tfim(n, h=0.7) if kind == "tfim" else models.heisenberg(n, 1, 1, 0.5 if kind == "xxz" else 1)
    assert model.isclose(PauliSum(stored["terms"]))
    energies, states = model.eigenstates(4)
    np.testing.assert_allclose(energies, stored["lowest4"], atol=1e-10)
    if "free_fermion" in stored:
        assert abs(energies[0] - stored["free_fermion"]) < 1e-10
    np.testing.assert_allclose(model @ states[:, 0], energies[0] * states[:, 0], atol=1e-9)


@pytest.mark.parametrize("name", ["H2_0.735", "H2_0.735_bk", "H4_chain_1.0", "LiH_1.5"])
def test_ground_states_of_molecules(name):
    stored = reference(name)
    energy, state = PauliSum(stored["terms"]).ground_state()
    assert abs(energy - stored["fci_energy"]) < 1e-9
    assert abs(np.linalg.norm(state) - 1) < 1e-12


# -- other programs ----------------------------------------------------------------------------------------------------


@pytest.mark.peer
@examples
@given(sums([0, 2, 64]))
def test_openfermion(a):
    openfermion = pytest.importorskip("openfermion")
    there = a.to_openfermion()
    assert PauliSum.from_openfermion(there) == a
    b = PauliSum("X0 Y2 - 2 Z0 + 1j Y64")
    assert PauliSum.from_openfermion(there * b.to_openfermion()).isclose(a * b)
    with pytest.raises(OperatorError, match="QubitOperator"):
        PauliSum.from_openfermion(openfermion.FermionOperator("1^ 0"))


@pytest.mark.peer
@examples
@given(sums([0, 2, 64]))
def test_qiskit(a):
    info = pytest.importorskip("qiskit.quantum_info")
    assert PauliSum.from_qiskit(a.to_qiskit()) == PauliSum.from_qiskit(a.to_qiskit(70)) == a
    assert PauliSum.from_qiskit(info.SparsePauliOp(["XYZ", "-IIZ"], [1, 2j])) == PauliSum("Z0 Y1 X2 - 2j Z0")
    small = a.project({64: 0})
    np.testing.assert_allclose(small.to_qiskit(3).to_matrix(), dense(small, 3), atol=1e-13)
    with pytest.raises(OperatorError, match="SparsePauliOp"):
        PauliSum.from_qiskit("XYZ")
