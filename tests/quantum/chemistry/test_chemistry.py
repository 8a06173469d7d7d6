"""Molecules: energies and Hamiltonians are those of PySCF and OpenFermion, whatever the mapping, stored or computed."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from triskele import quantum
from triskele.quantum import Molecule, PauliSum, molecules
from triskele.quantum.errors import OperatorError
from triskele.quantum.operators.fermion import number_operator, spin_squared
from triskele.quantum.operators.mapping import occupations

DATA = Path(__file__).parents[2] / "data/quantum/hamiltonians"
STORED = {"H2": "H2_0.735", "H4": "H4_chain_1.0", "LiH": "LiH_1.5", "BeH2": "BeH2_1.3", "H2O": "H2O_0.9584"}


def reference(name):
    return json.loads(gzip.decompress((DATA / f"{STORED[name]}.json.gz").read_bytes()))


# -- stored ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STORED)
def test_stored_molecules_have_the_reference_energies(name):
    m, expected = molecules.load(name), reference(name)
    assert (m.num_qubits, m.num_electrons) == (expected["n_qubits"], expected["n_electrons"])
    # HF is stationary in the orbitals and FCI independent of them; MP2 and CCSD are as exact as the iterations were
    # converged
    for method, error in (("hf", 1e-10), ("mp2", 1e-7), ("ccsd", 2e-6), ("fci", 1e-10)):
        assert abs(getattr(m, f"{method}_energy") - expected[f"{method}_energy"]) < error
    assert len(m.hamiltonian) == expected["n_terms"]
    ours, theirs = np.sort(abs(m.hamiltonian.coefficients)), np.sort(abs(PauliSum(expected["terms"]).coefficients))
    np.testing.assert_allclose(ours, theirs, atol=2e-6)  # signs of orbitals differ, and orbitals by convergence


@pytest.mark.parametrize("name", ["H2", "H4", "LiH"])
def test_energies_follow_from_the_hamiltonian(name):
    """HF is the determinant's expectation, MP2 and FCI come from integrals and determinants alone."""
    m = molecules.load(name)
    state = np.zeros(1 << m.num_qubits, complex)
    state[sum(1 << q for q in m.occupied)] = 1
    assert abs(m.hamiltonian.expectation(state) - m.hf_energy) < 1e-10
    bare = Molecule.from_integrals(m.one_body, m.two_body, m.constant, m.num_electrons)
    for method in ("hf", "mp2", "fci"):
        assert abs(getattr(bare, f"{method}_energy") - getattr(m, f"{method}_energy")) < 1e-9
    energies, states = m.eigenstates(2)
    assert m.fci_energy == pytest.approx(energies[0], abs=1e-10) and energies[1] > energies[0]
    np.testing.assert_allclose(m.hamiltonian @ states[:, 0], energies[0] * states[:, 0], atol=1e-7)
    for operator, value in ((number_operator(m.num_qubits), m.num_electrons), (spin_squared(m.num_qubits), 0)):
        assert abs(operator.to_qubits().expectation(states[:, 0]) - value) < 1e-9


def test_potential_curves_are_smooth_and_have_their_minimum():
    """H2 and LiH in STO-3G are bound at 0.73 and 1.55 angstrom; full CI lies below Hartree-Fock everywhere."""
    for name, lowest in (("H2", 0.735), ("LiH", 1.5)):
        lengths = molecules.lengths(name)
        assert len(lengths) >= 10
        curve = [molecules.load(name, r) for r in lengths]
        exact = np.array([m.fci_energy for m in curve])
        assert all(m.fci_energy < m.hf_energy for m in curve)
        assert lengths[int(exact.argmin())] == lowest
        assert (np.diff(exact)[: int(exact.argmin())] < 0).all() and (np.diff(exact)[int(exact.argmin()) :] > 0).all()


@pytest.mark.parametrize(
    "load", [lambda: molecules.load("He"), lambda: molecules.load("LiH", 1.55), lambda: molecules.lengths("CO")]
)
def test_what_is_not_stored_is_an_error(load):
    with pytest.raises(OperatorError, match="stored"):
        load()


def test_stored_data_is_small():
    folder = Path(quantum.__file__).parent / "data"
    assert sum(f.stat().st_size for f in folder.iterdir() if f.is_file()) < 100_000


# -- mappings and active spaces
# -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mapping", ["parity", "bravyi_kitaev"])
def test_mappings_have_one_spectrum(mapping):
    m = molecules.load("H4")
    ours, jw = (np.linalg.eigvalsh(h.matrix(8).toarray()) for h in (m.to_qubits(mapping), m.hamiltonian))
    np.testing.assert_allclose(ours, jw, atol=1e-10)
    state = np.zeros(256, complex)
    state[sum(1 << q for q in occupations(m.occupied, 8, mapping))] = 1
    assert abs(m.to_qubits(mapping).expectation(state) - m.hf_energy) < 1e-10
    assert (m.fermion_operator().to_qubits(mapping) - m.to_qubits(mapping)).isclose(0)


def test_reduced_parity_needs_two_qubits_less():
    for name, qubits in (("H2", 2), ("H4", 6), ("LiH", 10)):
        m = molecules.load(name)
        h = m.to_qubits("reduced_parity")
        assert h.num_qubits == qubits
        assert abs(h.ground_state()[0] - m.fci_energy) < 1e-9


def test_bravyi_kitaev_of_hydrogen_is_the_stored_one():
    expected = PauliSum(json.loads(gzip.decompress((DATA / "H2_0.735_bk.json.gz").read_bytes()))["terms"])
    assert molecules.load("H2").to_qubits("bravyi_kitaev").isclose(expected, 1e-6)


def test_active_spaces():
    lih = molecules.load("LiH")
    whole = lih.active_space(4, 6)
    assert whole.hamiltonian.isclose(lih.hamiltonian) and abs(whole.fci_energy - lih.fci_energy) < 1e-9
    frozen = lih.frozen_core()
    assert (frozen.num_electrons, frozen.num_orbitals) == (2, 5)
    assert abs(frozen.hf_energy - lih.hf_energy) < 1e-10
    assert lih.fci_energy < frozen.fci_energy < lih.fci_energy + 1e-3  # the core hardly correlates
    small = lih.active_space(2, [1, 2, 5])
    assert frozen.fci_energy < small.fci_energy < lih.hf_energy and small.num_qubits == 6
    assert (
        abs(small.hamiltonian.ground_state()[0] - small.fci_energy) < 1e-9
        or small.hamiltonian.ground_state()[0] < small.fci_energy
    )
    water = molecules.load("H2O").frozen_core()
    assert (water.num_electrons, water.num_orbitals) == (8, 6)


@pytest.mark.parametrize(
    "electrons, orbitals",
    [(3, 4), (6, 6), (-2, 2), (2, 0), (2, 9), (2, [1, 1]), (2, [7]), (4, 1), (2, [0, 1, 2, 3, 4, 5, 6])],
)
def test_active_spaces_that_are_none(electrons, orbitals):
    with pytest.raises(OperatorError, match="active_space"):
        molecules.load("LiH").active_space(electrons, orbitals)


@pytest.mark.parametrize("change", ["asymmetric", "nan", "shape", "physicists", "electrons", "spin"])
def test_integrals_that_are_none(change):
    m = molecules.load("H4")
    h, g, electrons, spin = m.one_body.copy(), m.two_body.copy(), 4, 0
    if change == "asymmetric":
        h[0, 1] += 1
    elif change == "nan":
        g[0, 0, 0, 0] = np.nan
    elif change == "shape":
        g = g[:3]
    elif change == "physicists":
        g = g.transpose(0, 2, 1, 3)
    elif change == "electrons":
        electrons = 9
    else:
        spin = 1
    with pytest.raises(OperatorError, match="Molecule"):
        Molecule.from_integrals(h, g, 0.0, electrons, spin)


# -- computed ----------------------------------------------------------------------------------------------------------


@pytest.mark.peer
@pytest.mark.parametrize("name", ["H2", "LiH"])
def test_computed_molecules_are_the_stored_ones(name):
    pytest.importorskip("pyscf")
    stored = molecules.load(name)
    m = Molecule(stored.geometry)
    assert m.hamiltonian.isclose(stored.hamiltonian, 1e-6)
    for method in ("hf", "mp2", "ccsd", "fci"):
        assert abs(getattr(m, f"{method}_energy") - getattr(stored, f"{method}_energy")) < 1e-7
    length = 1 / 0.529177210903
    text = "; ".join(f"{s} {x * length!r} {y * length!r} {z * length!r}" for s, (x, y, z) in stored.geometry)
    assert abs(Molecule(text, unit="bohr").hf_energy - m.hf_energy) < 1e-8


@pytest.mark.peer
@pytest.mark.parametrize(
    "geometry, charge, spin",
    [("N 0 0 0; H 0 0 1.04", 0, 2), ("O 0 0 0; H 0 0 0.97", 0, 1), ("He 0 0 0; H 0 0 0.77", 1, 0)],
)
def test_open_shells_and_ions(geometry, charge, spin):
    """Energies of PySCF's own ROHF and full CI."""
    pyscf = pytest.importorskip("pyscf")
    from pyscf import fci, gto, scf

    m = Molecule(geometry, charge=charge, spin=spin)
    there = gto.M(atom=geometry, basis="sto-3g", charge=charge, spin=spin, verbose=0)
    mean_field = scf.ROHF(there).run(conv_tol=1e-12)
    assert abs(m.hf_energy - mean_field.e_tot) < 1e-9, pyscf.__version__
    assert abs(m.fci_energy - fci.FCI(mean_field).kernel()[0]) < 1e-8
    assert m.num_alpha - m.num_beta == spin
    if spin:
        with pytest.raises(OperatorError, match="closed shell"):
            _ = m.mp2_energy


@pytest.mark.peer
def test_active_space_is_casci():
    pytest.importorskip("pyscf")
    from pyscf import gto, mcscf, scf

    m = Molecule("O 0 0 0; H 0.76 0 0.59; H -0.76 0 0.59", basis="6-31g").active_space(4, 4)
    mean_field = scf.RHF(gto.M(atom="O 0 0 0; H 0.76 0 0.59; H -0.76 0 0.59", basis="6-31g", verbose=0)).run(
        conv_tol=1e-12
    )
    assert abs(m.fci_energy - mcscf.CASCI(mean_field, 4, 4).run(verbose=0).e_tot) < 1e-8


@pytest.mark.peer
@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"geometry": "Xx 0 0 0"}, "PySCF cannot"),
        ({"geometry": "H 0 0 0; H 0 0 0.7", "basis": "nonsense"}, "PySCF cannot"),
        ({"geometry": "H 0 0"}, "an atom must be"),
        ({"geometry": "H 0 0 0; H 0 0 0.7", "spin": 1}, "PySCF cannot"),
        ({"geometry": []}, "at least one atom"),
        ({"geometry": "H 0 0 0; H 0 0 0"}, "apart"),
        ({"geometry": [("H", (0, 0, np.nan))]}, "finite"),
        ({"geometry": "H 0 0 0; H 0 0 0.7", "unit": "nm"}, "angstrom"),
    ],
)
def test_geometries_that_are_none(arguments, message):
    pytest.importorskip("pyscf")
    with pytest.raises(OperatorError, match=message):
        Molecule(**arguments)


@pytest.mark.peer
def test_openfermion_makes_the_same_hamiltonian(rng):
    openfermion = pytest.importorskip("openfermion")
    m = molecules.load("LiH")
    there = openfermion.jordan_wigner(m.fermion_operator().to_openfermion())
    assert PauliSum.from_openfermion(there).isclose(m.hamiltonian, 1e-12)
