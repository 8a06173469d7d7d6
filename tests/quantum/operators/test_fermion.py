"""Fermionic operators: anticommutation relations in every mapping, and the same spectra as matrices in Fock space and
other programs.
"""

import gzip
import itertools
import json
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triskele.quantum import FermionOperator, PauliSum
from triskele.quantum.errors import OperatorError
from triskele.quantum.operators.fermion import number_operator, spin_squared, spin_z
from triskele.quantum.operators.integrals import electronic_hamiltonian
from triskele.quantum.operators.mapping import MAPPINGS, encode, encoding, occupations, reduced_parity

DATA = Path(__file__).parents[2] / "data/quantum/hamiltonians"
examples = settings(max_examples=60, deadline=None, derandomize=True)


def annihilator(p, n):
    """The matrix of a_p on Fock states, mode 0 the lowest bit: it counts the modes below p for its sign."""
    out = np.zeros((1 << n, 1 << n))
    for j in range(1 << n):
        if j >> p & 1:
            out[j ^ (1 << p), j] = (-1) ** (j & ((1 << p) - 1)).bit_count()
    return out


def fock(operator, n):
    """The matrix of a FermionOperator in Fock space."""
    a = [annihilator(p, n) for p in range(n)]
    total = np.zeros((1 << n, 1 << n), complex)
    for term, c in operator.terms.items():
        total += c * reduce(np.matmul, (a[p].T if up else a[p] for p, up in term), np.eye(1 << n))
    return total


def encoded(matrix, mapping, n):
    """A matrix in Fock space between encoded basis states."""
    place = [sum(1 << q for q in occupations([p for p in range(n) if j >> p & 1], n, mapping)) for j in range(1 << n)]
    out = np.zeros_like(matrix)
    out[np.ix_(place, place)] = matrix
    return out


def operators(modes, longest=4, most=4):
    product = st.lists(st.tuples(st.integers(0, modes - 1), st.booleans()), max_size=longest)
    text = product.map(lambda ops: " ".join(f"{p}^" if up else str(p) for p, up in ops))
    return st.lists(st.tuples(text, st.sampled_from([1, -0.5, 2j, 1 - 1j])), max_size=most).map(FermionOperator)


# -- algebra -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mapping", MAPPINGS)
@examples
@given(st.integers(1, 70), st.data())
def test_anticommutation_relations(mapping, n, data):
    p, q = (data.draw(st.integers(0, n - 1)) for _ in range(2))
    a, b = (FermionOperator(f"{k}").to_qubits(mapping, n) for k in (p, q))
    assert a.anticommutator(b) == PauliSum()
    assert a.anticommutator(b.adjoint()) == PauliSum(int(p == q))
    assert FermionOperator(f"{p}^").to_qubits(mapping, n) == a.adjoint()


@pytest.mark.parametrize("mapping", MAPPINGS)
@examples
@given(operators(4))
def test_mappings_are_the_matrices_of_fock_space(mapping, f):
    np.testing.assert_allclose(f.to_qubits(mapping, 4).matrix(4).toarray(), encoded(fock(f, 4), mapping, 4), atol=1e-14)


@examples
@given(operators(4), operators(4))
def test_arithmetic_is_that_of_matrices(f, g):
    F, G = fock(f, 4), fock(g, 4)
    for operator, expected in (
        (f + g, F + G),
        (f * g, F @ G),
        (2 * f - 1, 2 * F - np.eye(16)),
        (1 - g / 2, np.eye(16) - G / 2),
        (f.adjoint(), F.conj().T),
        (f.normal_ordered(), F),
        (f.commutator(g), F @ G - G @ F),
    ):
        np.testing.assert_allclose(fock(operator, 4), expected, atol=1e-13)
    assert f.is_hermitian == np.allclose(F, F.conj().T)
    assert (f + f.adjoint()).is_hermitian


@examples
@given(operators(5, longest=6))
def test_normal_order_is_one_form(f):
    ordered = f.normal_ordered()
    for term in ordered.terms:
        modes = [p for p, up in term if up], [p for p, up in term if not up]
        assert [up for _, up in term] == sorted((up for _, up in term), reverse=True)
        assert all(list(m) == sorted(set(m), reverse=True) for m in modes)
    assert ordered.normal_ordered() == ordered
    assert ((f - ordered) * 1).normal_ordered() == 0


def test_text():
    f = FermionOperator("0.5 [2^ 0] - (1+2j) [3^ 1^ 1 0] + 2 [] - [4]")
    assert dict(f) == {"2^ 0": 0.5, "3^ 1^ 1 0": -1 - 2j, "": 2, "4": -1}
    assert f == FermionOperator(str(f)) == FermionOperator(dict(f)) == FermionOperator(list(f))
    assert f["2^ 0"] == 0.5 and f["0^ 2"] == 0 and f.num_modes == 5 and len(f) == 4
    assert (
        FermionOperator("1^ 0") == FermionOperator({"1^ 0": 1}) and FermionOperator() == 0 and FermionOperator("") == 1
    )


@pytest.mark.parametrize(
    "text",
    [
        "2^ x",
        "[2^",
        "0.5 [0] [1]",
        "0.5 0",
        "3 [0] + x [1]",
        "1 [0] +",
        "1 [0]]",
        [("0", "a")],
        [("0", np.inf)],
        ["0"],
        object(),
    ],
)
def test_what_cannot_be_read_is_an_error(text):
    with pytest.raises(OperatorError):
        FermionOperator(text)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.text("0129.e+-*()j []^", max_size=12))
def test_any_text_is_an_operator_or_an_error(text):
    try:
        f = FermionOperator(text)
    except OperatorError:
        return
    assert (
        FermionOperator(str(f)) == f
        or not f.terms
        or max(abs(c) for c in (FermionOperator(str(f)) - f).terms.values()) < 1e-9
    )


def test_misuse_is_an_error():
    with pytest.raises(OperatorError, match="must be 'jordan_wigner', 'parity' or 'bravyi_kitaev', got 'jw'"):
        FermionOperator("0").to_qubits("jw")
    with pytest.raises(OperatorError, match="acts on 5 modes"):
        FermionOperator("4").to_qubits("parity", 3)
    with pytest.raises(OperatorError, match="keep the parities"):
        reduced_parity(FermionOperator("1^ 0").ladders(), 4, (1, 1))
    with pytest.raises(OperatorError, match="arrays"):
        FermionOperator.from_integrals(np.eye(2), np.zeros((2, 2, 2)))
    with pytest.raises(OperatorError, match="invertible"):
        encode([], np.ones((2, 2), np.uint8))


# -- known operators ---------------------------------------------------------------------------------------------------


def test_number_and_spin():
    """On determinants, and on the singlet and triplet of two electrons in two orbitals."""
    n, sz, s2 = (f(4) for f in (number_operator, spin_z, spin_squared))
    for j in range(16):
        up, down = j & 0b0101, j & 0b1010
        assert fock(n, 4)[j, j] == j.bit_count() and fock(sz, 4)[j, j] == (up.bit_count() - down.bit_count()) / 2
    open_shell = FermionOperator({"2^ 1^": 1, "3^ 0^": -1}), FermionOperator({"2^ 1^": 1, "3^ 0^": 1})
    vacuum = np.eye(16)[0]
    for state, total in zip((fock(o, 4) @ vacuum for o in open_shell), (0, 2), strict=True):
        applied = fock(s2, 4) @ state
        np.testing.assert_allclose(applied, total * state, atol=1e-14) if total else np.testing.assert_allclose(
            abs(applied), 0, atol=1e-14
        )
    for name in MAPPINGS:
        eigenvalues = np.linalg.eigvalsh(s2.to_qubits(name).matrix(4).toarray())
        np.testing.assert_allclose(np.unique(eigenvalues.round(9)), [0, 0.75, 2])


def test_hubbard_dimer():
    """Half filling: E = (U - sqrt(U^2 + 16 t^2)) / 2 (any textbook)."""
    t, u = 1.0, 4.0
    one = np.array([[0, -t], [-t, 0]])
    two = np.zeros((2, 2, 2, 2))
    two[0, 0, 0, 0] = two[1, 1, 1, 1] = u
    f = FermionOperator.from_integrals(one, two)
    expected = (u - np.sqrt(u**2 + 16 * t**2)) / 2
    penalty = 10 * (number_operator(4) - 2) * (number_operator(4) - 2)
    for mapping in MAPPINGS:
        assert abs((f + penalty).to_qubits(mapping).ground_state()[0] - expected) < 1e-12
    assert abs(reduced_parity((f + penalty).ladders(), 4, (1, 1)).ground_state()[0] - expected) < 1e-12


def test_spin_orbital_integrals_are_spatial_ones_with_spins(rng):
    one, two = rng.normal(size=(3, 3)), rng.normal(size=(3, 3, 3, 3))
    spins = np.eye(2)
    wide = FermionOperator.from_integrals(
        np.kron(one, spins),
        np.einsum("pqrs,ab,cd->paqbrcsd", two, spins, spins).reshape(6, 6, 6, 6),
        0.5,
        spin_orbitals=True,
    )
    narrow = FermionOperator.from_integrals(one, two, 0.5)
    assert (wide - narrow).normal_ordered() == 0
    assert electronic_hamiltonian(one, two, 0.5).isclose(narrow.to_qubits())


@pytest.mark.parametrize("alpha, beta", [(1, 1), (2, 1), (0, 2), (2, 2)])
def test_reduced_parity_has_the_spectrum_of_its_sector(rng, alpha, beta):
    one, two = rng.normal(size=(3, 3)), rng.normal(size=(3, 3, 3, 3))
    one, two = one + one.T, two + two.transpose(1, 0, 2, 3)
    two = two + two.transpose(0, 1, 3, 2)
    two = two + two.transpose(2, 3, 0, 1)
    f = FermionOperator.from_integrals(one, two)
    sector = [
        j
        for j in range(64)
        if (j & 0b010101).bit_count() % 2 == alpha % 2 and (j & 0b101010).bit_count() % 2 == beta % 2
    ]
    reduced = reduced_parity(f.ladders(), 6, (alpha, beta))
    assert reduced.num_qubits <= 4
    np.testing.assert_allclose(
        np.linalg.eigvalsh(reduced.matrix(4).toarray()),
        np.linalg.eigvalsh(fock(f, 6)[np.ix_(sector, sector)]),
        atol=1e-11,
    )


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 13])
def test_encodings_store_what_they_say(n):
    """Parity: running sums.

    Bravyi-Kitaev: bit i of a tree holds the sum over the 2**k modes that end with i, k trailing ones of i.
    """
    for occupation in itertools.islice(itertools.product((0, 1), repeat=n), 64):
        parity, tree = (encoding(m, n) @ np.array(occupation) % 2 for m in ("parity", "bravyi_kitaev"))
        assert parity.tolist() == [sum(occupation[: i + 1]) % 2 for i in range(n)]
        assert tree.tolist() == [sum(occupation[i + 1 - ((i + 1) & -(i + 1)) : i + 1]) % 2 for i in range(n)]


# -- other programs ----------------------------------------------------------------------------------------------------


def test_stored_bravyi_kitaev_hamiltonian():
    """H2 in openfermion's Bravyi-Kitaev has the spectrum of its Jordan-Wigner form."""
    jw, bk = (json.loads(gzip.decompress((DATA / f"H2_0.735{k}.json.gz").read_bytes())) for k in ("", "_bk"))
    a, b = (np.linalg.eigvalsh(PauliSum(d["terms"]).matrix(4).toarray()) for d in (jw, bk))
    np.testing.assert_allclose(a, b, atol=1e-12)


@pytest.mark.peer
@examples
@given(operators(5), st.integers(5, 9))
def test_openfermion(f, n):
    openfermion = pytest.importorskip("openfermion")
    there = f.to_openfermion()
    assert FermionOperator.from_openfermion(there) == f
    assert FermionOperator.from_openfermion(openfermion.normal_ordered(there)).normal_ordered() == f.normal_ordered()
    assert PauliSum.from_openfermion(openfermion.jordan_wigner(there)).isclose(f.to_qubits())
    assert PauliSum.from_openfermion(openfermion.bravyi_kitaev(there, n)).isclose(f.to_qubits("bravyi_kitaev", n))
    parity = (
        openfermion.binary_code_transform(there, openfermion.parity_code(n)) if f.terms else openfermion.QubitOperator()
    )
    assert PauliSum.from_openfermion(parity).isclose(f.to_qubits("parity", n))
    with pytest.raises(OperatorError, match="FermionOperator is needed"):
        FermionOperator.from_openfermion(openfermion.QubitOperator("X0"))
