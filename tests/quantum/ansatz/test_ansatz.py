"""Excitation gates against exponentials of fermionic operators; ansätze against the energies of another program."""

import gzip
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm
from scipy.optimize import minimize

from tests.twins.statevector import statevector, unitary
from triskele import quantum
from triskele.quantum import Circuit, FermionOperator
from triskele.quantum.ansatz.excitations import append_excitation, doubles, singles
from triskele.quantum.errors import CircuitError, GateError, OperatorError
from triskele.quantum.operators.fermion import number_operator, spin_z
from triskele.quantum.operators.mapping import MAPPINGS

DATA = Path(__file__).parents[2] / "data/quantum/hamiltonians"
STORED = {"H2": "H2_0.735", "H4": "H4_chain_1.0", "LiH": "LiH_1.5", "BeH2": "BeH2_1.3", "H2O": "H2O_0.9584"}
examples = settings(max_examples=40, deadline=None, derandomize=True)
distinct = st.integers(1, 2).flatmap(
    lambda k: st.permutations(range(6 if k == 2 else 4)).map(lambda p: (tuple(p[:k]), tuple(p[k : 2 * k])))
)


def generator(source, target, mapping="jordan_wigner", n=6):
    """T - T^dagger as a matrix, T = (t0^ t1^ ... s1 s0)."""
    product = FermionOperator(" ".join([*(f"{a}^" for a in target), *(str(i) for i in reversed(source))]))
    return (product - product.adjoint()).to_qubits(mapping, n).matrix(n).toarray()


# -- excitation gates --------------------------------------------------------------------------------------------------


@examples
@given(distinct, st.floats(-3, 3))
def test_excitations_are_exponentials(excitation, t):
    np.testing.assert_allclose(
        unitary(Circuit(6).excitation(t, *excitation)), expm(t * generator(*excitation)), atol=1e-13
    )


@settings(max_examples=15, deadline=None, derandomize=True)
@given(distinct, st.floats(-3, 3), st.sampled_from(list(MAPPINGS)))
def test_every_mapping_has_the_same_excitations(excitation, t, mapping):
    circuit = Circuit(6)
    append_excitation(circuit, t, excitation, mapping)
    start = np.exp(1j * np.arange(64) ** 1.5) / 8
    np.testing.assert_allclose(
        statevector(circuit, initial=start), expm(t * generator(*excitation, mapping)) @ start, atol=1e-12
    )


@examples
@given(distinct, st.floats(-3, 3))
def test_inverse_and_control(excitation, t):
    source, target = excitation
    circuit = Circuit(6).excitation("t", source, target)
    np.testing.assert_allclose(unitary(circuit + circuit.inverse(), {"t": t}), np.eye(64), atol=1e-13)
    controlled = unitary(circuit.control(6), {"t": t})
    np.testing.assert_allclose(controlled[:64, :64], np.eye(64), atol=1e-13)
    np.testing.assert_allclose(controlled[64:, 64:], unitary(circuit, {"t": t}), atol=1e-13)


def test_gates_between_neighbors_are_the_qubit_excitations():
    """[[c, -s], [s, c]] between |01> and |10>, |0011> and |1100>, nothing else."""
    c, s = np.cos(0.3), np.sin(0.3)
    single, double = (
        unitary(Circuit(2).single_excitation(0.3, 0, 1)),
        unitary(Circuit(4).double_excitation(0.3, 0, 1, 2, 3)),
    )
    np.testing.assert_allclose(single, [[1, 0, 0, 0], [0, c, -s, 0], [0, s, c, 0], [0, 0, 0, 1]], atol=1e-15)
    expected = np.eye(16)
    expected[np.ix_([3, 12], [3, 12])] = [[c, -s], [s, c]]
    np.testing.assert_allclose(double, expected, atol=1e-15)
    gate = quantum.gates.find("double_excitation_2")
    assert gate.num_qubits == 6 and gate is Circuit(6).excitation(0.1, (0, 2), (3, 5)).instructions[0].gate


def test_an_excitation_is_one_operation_however_far(rng):
    """The engine does it in one pass where its matrix would have 2**16 rows."""
    circuit = (
        quantum.hartree_fock(2, 16).excitation("t", (0, 1), (14, 15)).excitation("u", 1, 11).excitation("v", 14, 0)
    )
    assert len(circuit) == 5
    state = quantum.run(circuit, [0.4, 0.5, 0.6]).statevector()
    product = np.zeros(1 << 16, complex)
    product[0b11] = 1
    for t, source, target in ((0.4, (0, 1), (14, 15)), (0.5, (1,), (11,)), (0.6, (14,), (0,))):
        text = " ".join([*(f"{a}^" for a in target), *(str(i) for i in reversed(source))])
        h = (FermionOperator(text) - FermionOperator(text).adjoint()).to_qubits()
        first = h @ product  # A^3 = -A: exp(t A) = 1 + sin(t) A + (1 - cos(t)) A^2
        product = product + np.sin(t) * first + (1 - np.cos(t)) * (h @ first)
    np.testing.assert_allclose(state, product, atol=1e-14)


@pytest.mark.parametrize(
    "source, target",
    [(0, 0), ((0, 1), 2), ((0, 1), (1, 2)), ((0, 1, 2), (3, 4, 5)), ((), ()), (-1, 2), (0.5, 1), ((0, 0), (1, 2))],
)
def test_excitations_that_are_none(source, target):
    with pytest.raises(GateError, match="excitation"):
        Circuit(6).excitation("t", source, target)


# -- UCCSD -------------------------------------------------------------------------------------------------------------


def test_parameters_are_named_by_modes():
    assert quantum.uccsd(2, 4).parameters == ("s_0_2", "s_1_3", "d_0_1_2_3")
    assert quantum.uccsd((2, 0), 8).parameters == ("s_0_4", "s_0_6", "s_2_4", "s_2_6", "d_0_2_4_6")
    assert quantum.uccsd(2, 4, singlet=True).parameters == ("s_0_1", "d_0_0_1_1")
    assert [
        len(quantum.uccsd(n, q, singlet=True).parameters) for n, q in ((2, 4), (4, 8), (4, 12), (6, 14), (10, 14))
    ] == [2, 14, 44, 90, 65]


@pytest.mark.parametrize("counts", [(1, 1), (2, 1), (2, 2), (3, 0), 3])
def test_excitations_are_all_that_keep_number_and_spin(counts):
    """Counted by hand: a determinant for each, and no other determinant one or two moves away."""
    alpha, beta = (2, 1) if counts == 3 else counts
    start = sum(1 << 2 * k for k in range(alpha)) + sum(2 << 2 * k for k in range(beta))
    reached = set()
    for source, target in (*singles(alpha, beta, 8), *doubles(alpha, beta, 8)):
        moved = start
        for i in source:
            assert moved >> i & 1
            moved ^= 1 << i
        for a in target:
            assert not moved >> a & 1
            moved ^= 1 << a
        assert [i % 2 for i in source] == [a % 2 for a in target] and moved not in reached
        reached.add(moved)
    expected = {
        j
        for j in range(256)
        if (j & 0x55).bit_count() == alpha and (j & 0xAA).bit_count() == beta and 0 < (j ^ start).bit_count() <= 4
    }
    assert reached == expected
    assert quantum.uccsd(counts, 8).parameters == quantum.uccsd((alpha, beta), 8).parameters


@pytest.mark.parametrize("options", [{}, {"singlet": True}, {"generalized": True}])
def test_number_and_spin_are_kept(rng, options):
    circuit = quantum.uccsd(2, 6, **options)
    state = statevector(circuit, dict(zip(circuit.parameters, rng.normal(size=len(circuit.parameters)), strict=True)))
    for operator, value in ((number_operator(6), 2), (spin_z(6), 0)):
        h = operator.to_qubits()
        np.testing.assert_allclose(h @ state, value * state, atol=1e-12)


def test_singlet_is_uccsd_with_equal_parameters(rng):
    """t(ij -> ab) of opposite spins, t(ij -> ab) - t(ij -> ba) of equal ones."""
    tied, free = quantum.uccsd(4, 8, singlet=True), quantum.uccsd(4, 8)
    values = dict(zip(tied.parameters, rng.normal(size=14), strict=True))

    def amplitude(i, j, a, b):
        (i, a), (j, b) = sorted([(i, a), (j, b)])
        return values[f"d_{i}_{j}_{a}_{b}"]

    full = {}
    for name in free.parameters:
        kind, *modes = name.split("_")
        places, spins = [int(p) // 2 for p in modes], [int(p) % 2 for p in modes]
        if kind == "s":
            full[name] = values["s_{}_{}".format(*places)]
        else:
            i, j, a, b = places
            assert spins[0] == spins[2] and spins[1] == spins[3]
            full[name] = amplitude(i, j, a, b) - (amplitude(i, j, b, a) if spins[0] == spins[1] else 0)
    np.testing.assert_allclose(statevector(tied, values), statevector(free, full), atol=1e-13)


@pytest.mark.parametrize("mapping", ["parity", "bravyi_kitaev"])
def test_energy_does_not_depend_on_the_mapping(rng, mapping):
    molecule = quantum.molecules.load("H2")
    theta = rng.normal(size=3)
    energies = [
        quantum.run(quantum.uccsd(2, 4, mapping=m), theta).expectation(molecule.to_qubits(m))
        for m in ("jordan_wigner", mapping)
    ]
    assert abs(energies[0] - energies[1]) < 1e-12
    assert (
        abs(
            quantum.run(quantum.hartree_fock(2, 4, mapping)).expectation(molecule.to_qubits(mapping))
            - molecule.hf_energy
        )
        < 1e-10
    )


@pytest.mark.parametrize("name", STORED)
def test_energies_of_another_program(name):
    """UCCSD's minimum: MindQuantum's ansatz has the same excitations one after another in nearly the same order (it is
    stored as far as it was minimized).
    """
    molecule = quantum.molecules.load(name)
    stored = json.loads(gzip.decompress((DATA / f"{STORED[name]}.json.gz").read_bytes()))["uccsd"]
    circuit = quantum.uccsd(molecule.num_electrons, molecule.num_qubits, singlet=True)
    assert len(circuit.parameters) == stored["n_params"]
    energy = quantum.Expectation(circuit, molecule.hamiltonian)
    zero = np.zeros(len(circuit.parameters))
    assert abs(energy(zero) - molecule.hf_energy) < 1e-10 and abs(energy(zero) - stored["energy_at_zero"]) < 1e-9
    found = minimize(energy.value_and_grad, zero, jac=True, method="BFGS", options={"gtol": 3e-6})
    assert abs(found.fun - stored["vqe_energy"]) < 1e-6
    assert molecule.fci_energy - 1e-10 < found.fun < molecule.fci_energy + 1.6e-3


def test_start_from_perturbation_theory():
    """MP2 amplitudes as doubles: lower than Hartree-Fock, near the minimum."""
    molecule = quantum.molecules.load("LiH")
    circuit = quantum.uccsd(4, 12, singlet=True)
    t = molecule.mp2_amplitudes()
    theta = [
        0.0 if name[0] == "s" else t[tuple(int(p) - (2 if k > 1 else 0) for k, p in enumerate(name.split("_")[1:]))]
        for name in circuit.parameters
    ]
    energy = quantum.run(circuit, theta).expectation(molecule.hamiltonian)
    assert molecule.fci_energy < energy < 0.4 * molecule.hf_energy + 0.6 * molecule.fci_energy


@pytest.mark.parametrize(
    "arguments, options",
    [
        ((2, 5), {}),
        ((2, 0), {}),
        ((9, 8), {}),
        (((5, 1), 8), {}),
        ((-1, 4), {}),
        ((2.0, 4), {}),
        (((1, 1, 1), 4), {}),
        ((2, 4), {"mapping": "jw"}),
        ((3, 8), {"singlet": True}),
        ((2, 4), {"singlet": True, "generalized": True}),
    ],
)
def test_ansatz_that_is_none(arguments, options):
    with pytest.raises((CircuitError, OperatorError)):
        quantum.uccsd(*arguments, **options)


# -- pools -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("generalized", [False, True])
def test_pools_are_generators(generalized):
    """Each element is the identity at zero; the fermionic ones are the ansatz's gates, the qubit ones strings with an
    odd number of Ys.
    """
    ansatz = quantum.uccsd(2, 6, generalized=generalized, reference=False)
    pool = quantum.fermionic_pool(2, 6, generalized=generalized)
    assert tuple(itertools.chain.from_iterable(c.parameters for c in pool)) == ansatz.parameters
    strings = set()
    for element in quantum.qubit_pool(2, 6, generalized=generalized):
        (instruction,) = element.instructions
        name = instruction.gate.name
        assert name.count("y") % 2 == 1 and "z" not in name
        strings.add((name, instruction.qubits))
        np.testing.assert_allclose(
            instruction.matrix({element.parameters[0]: 0.0}), np.eye(1 << len(instruction.qubits)), atol=1e-15
        )
    assert len(strings) == len(quantum.qubit_pool(2, 6, generalized=generalized))


# -- hardware-efficient
# -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entanglement, pairs", [("linear", 3), ("ring", 4), ("full", 6)])
def test_layers(entanglement, pairs):
    circuit = quantum.hardware_efficient(4, 2, ("ry", "rz"), "cz", entanglement=entanglement)
    assert circuit.counts() == {"ry": 12, "rz": 12, "cz": 2 * pairs} and len(circuit.parameters) == 24
    assert len(quantum.hardware_efficient(4, 2, "rx", "rzz", entanglement=entanglement, last=False).parameters) == 2 * (
        4 + pairs
    )
    np.testing.assert_allclose(unitary(circuit, dict.fromkeys(circuit.parameters, 0.0)).diagonal() ** 2, 1)


def test_prefixes_keep_the_angles_of_blocks_apart():
    block = quantum.hardware_efficient(3, 1)
    assert len((block + block).parameters) == len(block.parameters)
    apart = quantum.hardware_efficient(3, 1, prefix="a_") + quantum.hardware_efficient(3, 1, prefix="b_")
    assert len(apart.parameters) == 2 * len(block.parameters) and apart.parameters[0] == "a_ry_0_0"


def test_hardware_efficient_finds_a_ground_state(rng):
    h = quantum.tfim(4)
    energy = quantum.Expectation(quantum.hardware_efficient(4, 3, ("ry",)), h)
    found = minimize(energy.value_and_grad, 0.1 * rng.normal(size=16), jac=True, method="BFGS")
    assert found.fun == pytest.approx(h.ground_state()[0], abs=1e-5)


@pytest.mark.parametrize(
    "arguments",
    [
        (0, 1),
        (2, -1),
        (2, 1.5),
        (2, 1, ("cx",)),
        (2, 1, ("u",)),
        (2, 1, ("nonsense",)),
        (2, 1, ("ry",), "ccx"),
        (2, 1, ("ry",), "fsim"),
    ],
)
def test_layers_that_are_none(arguments):
    with pytest.raises((CircuitError, GateError)):
        quantum.hardware_efficient(*arguments)
    with pytest.raises(CircuitError, match="'linear', 'ring' or 'full'"):
        quantum.hardware_efficient(2, 1, entanglement="star")
