"""Variational eigensolvers against exact energies."""

import numpy as np
import pytest

from tests.reporting import stop_at
from triskele import quantum
from triskele.core import optim
from triskele.quantum.errors import CircuitError, OperatorError, OptimizerError, ParameterError
from triskele.quantum.optimizers import SPSA, NaturalGradient

CHEMICAL_ACCURACY = 1.6e-3  # hartree: 1 kcal/mol


def ising(n=4):
    return quantum.tfim(n, 1.0, 0.7)


def layered(n=4, layers=3):
    return quantum.hardware_efficient(n, layers, rotations=("ry",), entangler="cx")


def levels(h, n=None):
    return np.linalg.eigvalsh(h.matrix(n).toarray())


# -- VQE --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "optimizer",
    [
        "bfgs",
        "l-bfgs-b",
        "slsqp",
        pytest.param("cobyqa", marks=pytest.mark.slow),
        optim.LBFGS(),
        NaturalGradient(0.2),
        optim.Adam(0.1),
    ],
    ids=str,
)
def test_ground_state_of_the_ising_ring(optimizer):
    result = quantum.VQE(ising(), layered(), initial="random", optimizer=optimizer, seed=4).run(progress=False)
    assert result.energy == pytest.approx(levels(ising())[0], abs=5e-3)
    assert result.energy >= levels(ising())[0] - 1e-12, "no state is below the ground state"
    assert result.energy == pytest.approx(quantum.run(result.ansatz, result.theta).expectation(ising()), abs=1e-12)


@pytest.mark.parametrize("name", ["H2", "H4", "LiH", "BeH2", "H2O"])
def test_molecules_reach_chemical_accuracy(name):
    molecule = quantum.molecules.load(name)
    ansatz = quantum.uccsd(molecule.num_electrons, molecule.num_qubits)
    result = quantum.VQE(molecule.hamiltonian, ansatz).run(progress=False)
    assert result.history[0] == pytest.approx(molecule.hf_energy, abs=1e-6), "angles of zero are the Hartree-Fock state"
    assert -1e-8 < result.energy - molecule.fci_energy < CHEMICAL_ACCURACY
    assert result.converged and np.all(np.diff(result.history) <= 1e-12)


def test_the_subspace_gives_the_same():
    molecule = quantum.molecules.load("LiH")
    sizes = molecule.num_electrons, molecule.num_qubits
    whole, part = (
        quantum.VQE(molecule.hamiltonian, quantum.uccsd(*sizes), simulator=s).run(progress=False)
        for s in ("statevector", "subspace")
    )
    assert whole.energy == pytest.approx(part.energy, abs=1e-8) and part.converged
    grown = quantum.AdaptVQE(
        molecule.hamiltonian,
        quantum.fermionic_pool(*sizes),
        quantum.hartree_fock(*sizes),
        simulator="subspace",
        tolerance=1e-2,
    )
    assert grown.run(progress=False).energy - molecule.fci_energy < CHEMICAL_ACCURACY


def test_single_precision_is_good_to_a_microhartree():
    molecule = quantum.molecules.load("H4")
    ansatz = quantum.uccsd(4, 8)
    double = quantum.VQE(molecule.hamiltonian, ansatz).run(progress=False)
    single = quantum.VQE(molecule.hamiltonian, ansatz, dtype=np.complex64).run(progress=False)
    assert single.energy == pytest.approx(double.energy, abs=5e-6)


def test_results_follow_the_seed():
    energies = [
        quantum.VQE(ising(), layered(), initial="random", seed=s, max_steps=3).run(progress=False).theta
        for s in (4, 4, 5)
    ]
    np.testing.assert_array_equal(energies[0], energies[1])
    assert not np.array_equal(energies[0], energies[2])


def test_start_as_array_dict_and_going_on():
    ansatz = quantum.Circuit(2).ry("a", 0).ry("b", 1).cx(0, 1)
    h = quantum.PauliSum("Z0 Z1 + 0.5 X0 + 0.3 X1")
    by_name = quantum.VQE(h, ansatz, initial={"b": 0.4, "a": -0.2}).run(progress=False)
    by_order = quantum.VQE(h, ansatz, initial=[-0.2, 0.4]).run(progress=False)
    np.testing.assert_array_equal(by_name.theta, by_order.theta)
    assert quantum.VQE(h, ansatz, initial=by_name.theta).run(progress=False).history[0] == by_name.energy


def test_a_reporter_sees_the_steps_and_may_stop():
    seen = []
    result = quantum.VQE(ising(), layered(), initial="random").run(report=[seen.append, stop_at(4)])
    assert [r["step"] for r in seen] == [1, 2, 3, 4] and not result.converged and result.message == "step 4"
    assert result.energy == seen[-1]["energy"] == result.history[-1]


@pytest.mark.parametrize(
    "options",
    [
        {"optimizer": "rotosolve"},
        {"optimizer": "cobyla"},
        {"optimizer": "spsa"},
        {"optimizer": "spsa", "shots": 20},
        {"optimizer": "natural-gradient"},
    ],
)
def test_every_optimizer_resumes_bit_for_bit(options, tmp_path):
    def run(**keywords):
        return quantum.VQE(ising(), layered(), initial="random", max_steps=30, **options).run(**keywords)

    whole = run()
    run(checkpoint=tmp_path / "a.chk", report=stop_at(3))
    resumed = run(checkpoint=tmp_path / "a.chk")
    np.testing.assert_array_equal(resumed.history, whole.history)
    np.testing.assert_array_equal(resumed.theta, whole.theta)
    assert resumed.evaluations == whole.evaluations


def test_a_circuit_that_grows_later_does_not_matter():
    ansatz = quantum.Circuit(1).ry("a", 0)
    vqe = quantum.VQE("Z0 + X0", ansatz, initial=[0.3])
    ansatz.rx("b", 0)
    result = vqe.run(progress=False)
    assert result.energy == pytest.approx(-np.sqrt(2)) and result.ansatz.parameters == ("a",)


def test_progress_is_a_bar_with_the_energy(capsys):
    result = quantum.VQE(ising(), layered(), initial="random").run(progress=True)
    assert "VQE" in (shown := capsys.readouterr().err) and f"{result.energy:.5f}"[:-1] in shown
    assert "converged" in repr(result)


def test_shots_with_spsa():
    h = quantum.PauliSum("Z0 Z1 + 0.5 X0 + 0.5 X1")
    ansatz = quantum.Circuit(2).ry("a", 0).ry("b", 1).cx(0, 1).ry("c", 0)
    result = quantum.VQE(h, ansatz, initial="random", shots=500, optimizer=SPSA(max_steps=150), seed=1).run(
        progress=False
    )
    exact = quantum.Expectation(ansatz, h)(result.theta)
    assert exact < levels(h)[0] + 0.1
    assert result.energy != exact and result.energy == pytest.approx(exact, abs=0.2)
    again = quantum.VQE(h, ansatz, initial="random", shots=500, optimizer=SPSA(max_steps=150), seed=1).run(
        progress=False
    )
    np.testing.assert_array_equal(result.theta, again.theta)


def test_noise_raises_the_energy():
    h = quantum.PauliSum("Z0 Z1 + 0.5 X0 + 0.5 X1")
    clean = quantum.Circuit(2).ry("a", 0).ry("b", 1).cx(0, 1).ry("c", 0)
    noisy = quantum.Circuit(2).ry("a", 0).ry("b", 1).cx(0, 1).depolarizing(0.05, 0).depolarizing(0.05, 1).ry("c", 0)
    best = quantum.VQE(h, clean, initial="random").run(progress=False).energy
    result = quantum.VQE(h, noisy, initial="random", simulator="density_matrix").run(progress=False)
    assert result.converged and best + 0.05 < result.energy < best + 0.4


def test_a_stationary_start_is_told():
    """RY layers at zero leave |00...>, which is an eigenstate of this Hamiltonian."""
    with pytest.warns(UserWarning, match="stationary point.*random"):
        quantum.VQE(quantum.PauliSum("Z0 Z1 + 0.5 Z0"), quantum.Circuit(2).ry("a", 0).ry("b", 1)).run(progress=False)


def test_an_ansatz_without_parameters_has_an_energy():
    result = quantum.VQE(quantum.PauliSum("Z0 - Z1"), quantum.Circuit(2).x(0)).run(progress=False)
    assert result.energy == -2.0 and result.converged and len(result.history) == 1


@pytest.mark.parametrize(
    "hamiltonian, why",
    [
        (["Z0", "X0"], "PauliSum, got list"),
        (np.eye(2), "got ndarray"),
        (quantum.Circuit(1), "got Circuit"),
        ("1j Z0", "Hermitian"),
    ],
)
@pytest.mark.parametrize(
    "algorithm", [quantum.VQE, quantum.VQD, lambda h, a: quantum.AdaptVQE(h, [a], quantum.Circuit(1))]
)
def test_what_is_no_hamiltonian(algorithm, hamiltonian, why):
    with pytest.raises(OperatorError, match=f"the Hamiltonian must be .*{why}"):
        algorithm(hamiltonian, quantum.Circuit(1).ry("a", 0))


def test_too_many_qubits_are_told_before_anything_is_allocated():
    with pytest.raises(ValueError, match="40 qubits need 1.64e.04 GiB"):
        quantum.VQE(quantum.tfim(40), layered(40, 1))


def test_a_molecule_is_no_hamiltonian_but_has_one():
    with pytest.raises(OperatorError, match="got Molecule.* .a molecule has a .hamiltonian"):
        quantum.VQE(quantum.molecules.load("H2"), quantum.uccsd(2, 4))


@pytest.mark.parametrize(
    "arguments, options, error, why",
    [
        (("Z0 + 1j X0", quantum.Circuit(1).ry("a", 0)), {}, OperatorError, "Hermitian"),
        (("Z0 Z3", quantum.Circuit(1).ry("a", 0)), {}, OperatorError, "qubit"),
        (("Z0", "ry"), {}, CircuitError, "ansatz must be a Circuit, got str"),
        (
            ("Z0", quantum.Circuit(1).ry("x", 0).as_encoder().rz("a", 0)),
            {},
            ParameterError,
            "unbound data parameters .'x'.*Classifier",
        ),
        (
            ("Z0", quantum.Circuit(1).ry("a", 0)),
            {"initial": [0.1, 0.2]},
            ParameterError,
            r"initial must have shape \(1,\), got \(2,\) \(an angle for each parameter",
        ),
        (("Z0", quantum.Circuit(1).ry("a", 0)), {"initial": {"b": 0.1}}, ParameterError, "no value for .'a'"),
        (
            ("Z0", quantum.Circuit(1).ry("a", 0)),
            {"initial": {"a": 0.1, "b": 0.1}},
            ParameterError,
            "no parameters .'b'",
        ),
        (
            ("Z0", quantum.Circuit(1).ry("a", 0)),
            {"initial": [np.nan]},
            ParameterError,
            "must be finite, got nan for 'a'",
        ),
        (("Z0", quantum.Circuit(1).ry("a", 0)), {"initial": "zeros"}, ParameterError, "'random' or None"),
        (("Z0", quantum.Circuit(1).ry("a", 0)), {"optimizer": "sgdd"}, OptimizerError, "of bfgs, .* got 'sgdd'.*'sgd'"),
        (("Z0", quantum.Circuit(1).ry("a", 0)), {"shots": 0}, ValueError, "shots"),
        (("Z0", quantum.Circuit(1).ry("a", 0)), {"max_steps": 0}, OptimizerError, "max_steps"),
        (("Z0", quantum.Circuit(1).ry("a", 0).measure(0)), {}, ValueError, "measure"),
        (("Z0", quantum.Circuit(1).ry("a", 0)), {"simulator": "qubit"}, ValueError, "statevector"),
    ],
)
def test_mistakes_are_told_before_any_work(arguments, options, error, why):
    with pytest.raises(error, match=why):
        quantum.VQE(quantum.PauliSum(arguments[0]), arguments[1], **options)


# -- VQD --------------------------------------------------------------------------------------------------------------


def two_layers():
    """UCCSD of H2 twice: reaches all real states of two electrons with opposite spins."""
    second = quantum.uccsd(2, 4, reference=False)
    return quantum.uccsd(2, 4) + second.rename({name: f"{name}_again" for name in second.parameters})


@pytest.mark.parametrize("length", [0.735, 1.6])
def test_excited_states_of_hydrogen(length):
    h = quantum.molecules.load("H2", length).hamiltonian
    sector = [i for i in range(16) if (i & 0b0101).bit_count() == (i & 0b1010).bit_count() == 1]
    exact = np.linalg.eigvalsh(h.matrix(4).toarray()[np.ix_(sector, sector)])
    result = quantum.VQD(h, two_layers(), states=4).run(progress=False)
    np.testing.assert_allclose(result.energies, exact, atol=1e-6)
    np.testing.assert_allclose(result.overlaps, np.eye(4), atol=1e-5)
    assert result.converged and result.theta.shape == (4, 6) and len(result.histories) == 4


def test_all_levels_of_a_spin_chain():
    """Degenerate ones among them."""
    h = quantum.heisenberg(3)
    ansatz = quantum.hardware_efficient(3, 4, rotations=("ry",), entangler="cx")
    result = quantum.VQD(h, ansatz, states=8, initial="random").run(progress=False)
    np.testing.assert_allclose(result.energies, levels(h), atol=1e-5)


def test_overlaps_are_those_of_the_states():
    ansatz = layered(3, 1)
    result = quantum.VQD(ising(3), ansatz, states=3, initial="random", starts=1, max_steps=2).run(progress=False)
    states = [quantum.run(ansatz, t) for t in result.theta]
    for i in range(3):
        for j in range(3):
            assert result.overlaps[i, j] == pytest.approx(states[i].fidelity(states[j]), abs=1e-12)
    assert not result.converged


def test_a_penalty_that_is_too_small_shows_in_the_overlaps():
    h = quantum.PauliSum("-1.0 Z0 - 1.0 Z1")
    result = quantum.VQD(h, layered(2, 1), states=2, penalty=0.1, initial="random").run(progress=False)
    assert result.overlaps[0, 1] > 0.9


@pytest.mark.parametrize(
    "options, why",
    [
        ({"states": 0}, "states must be"),
        ({"states": 5}, "2 qubits have 4 states"),
        ({"penalty": 0.0}, "penalty"),
        ({"starts": 0}, "starts"),
        ({"initial": [1.0]}, "an angle for each parameter"),
    ],
)
def test_deflation_that_makes_no_sense(options, why):
    with pytest.raises(ParameterError, match=why):
        quantum.VQD(quantum.PauliSum("Z0"), layered(2, 1), **options)


# -- ADAPT-VQE --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pool", ["fermionic", "qubit"])
def test_adapt_reaches_the_ground_state_with_few_elements(pool):
    molecule = quantum.molecules.load("H4")
    elements = getattr(quantum, f"{pool}_pool")(molecule.num_electrons, molecule.num_qubits)
    result = quantum.AdaptVQE(
        molecule.hamiltonian,
        elements,
        quantum.hartree_fock(molecule.num_electrons, molecule.num_qubits),
        tolerance=1e-3,
    ).run(progress=False)
    assert result.converged and abs(result.energy - molecule.fci_energy) < CHEMICAL_ACCURACY
    assert len(result.chosen) == len(result.theta) == len(result.history) - 1
    assert result.history[0] == pytest.approx(molecule.hf_energy, abs=1e-6)
    assert np.all(np.diff(result.history) < 0) and result.slopes[-1] <= 1e-3
    assert quantum.run(result.ansatz, result.theta).expectation(molecule.hamiltonian) == pytest.approx(
        result.energy, abs=1e-10
    )


def test_adapt_takes_the_element_with_the_largest_commutator():
    h = quantum.PauliSum("Z0 + Z1 + 0.5 X0 X1 + 0.1 X0")
    reference = quantum.Circuit(2).x(0).x(1)
    generators = ["Y0", "Y1", "X0 Y1"]
    pool = [quantum.Circuit(2).ry("t", 0), quantum.Circuit(2).ry("t", 1), quantum.Circuit(2).rxy("t", 0, 1)]
    state = quantum.run(reference)
    # d/dt of exp(i t P/2) H exp(-i t P/2) at 0 is i/2 [P, H]
    slopes = [state.expectation(0.5j * (quantum.PauliSum(p) * h - h * quantum.PauliSum(p))) for p in generators]
    result = quantum.AdaptVQE(h, pool, reference, max_elements=1).run(progress=False)
    assert result.slopes[0] == pytest.approx(np.max(np.abs(slopes)), abs=1e-12)
    assert result.chosen == (int(np.argmax(np.abs(slopes))),)
    assert not result.converged and "limit of 1 elements" in result.message


def test_adapt_at_the_end_from_the_start():
    result = quantum.AdaptVQE(quantum.PauliSum("Z0"), [quantum.Circuit(1).ry("t", 0)], quantum.Circuit(1).x(0)).run(
        progress=False
    )
    assert result.converged and result.chosen == () and result.energy == -1.0


@pytest.mark.parametrize(
    "pool, reference, why",
    [
        ([], quantum.Circuit(2), "at least one element"),
        ([quantum.Circuit(2).x(0)], quantum.Circuit(2), "one parameter, pool.0. has 0"),
        ([quantum.Circuit(2).ry("a", 0).ry("b", 1)], quantum.Circuit(2), "one parameter, pool.0. has 2"),
        ([quantum.Circuit(3).ry("a", 0)], quantum.Circuit(2), "on 3 qubits, the reference on 2"),
        ([quantum.Circuit(2).ry("a", 0)], quantum.Circuit(2).ry("b", 0), "reference must have no parameters"),
        (["ry"], quantum.Circuit(2), "pool.0. must be a Circuit, got str"),
        (quantum.Circuit(2).ry("a", 0), quantum.Circuit(2), "sequence of Circuits"),
    ],
)
def test_pools_that_are_none(pool, reference, why):
    with pytest.raises((CircuitError, ParameterError), match=why):
        quantum.AdaptVQE(quantum.PauliSum("Z0"), pool, reference)
