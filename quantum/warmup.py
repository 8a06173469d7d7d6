"""Small runs of all simulators and gradients, whose kernels ``triskele warmup`` compiles ahead of time."""

from __future__ import annotations

import numpy as np

import triskele.quantum as quantum

__all__ = ["WORK"]


def _circuit(n: int = 4) -> quantum.Circuit:
    return quantum.hardware_efficient(n, layers=1).rzz("t", 0, 1).h(2).swap(1, 3).ccx(0, 1, 2)


def _theta(circuit) -> np.ndarray:
    return np.linspace(0.1, 0.9, len(circuit.parameters))


def statevector() -> None:
    """Amplitudes, probabilities, samples and expectations of state vectors, small and larger than a cache block."""
    for n in (4, 16):
        circuit = _circuit(n)
        result = quantum.run(circuit, _theta(circuit))
        result.statevector(), result.probabilities([0, 2]), result.sample(10, seed=1).counts()
    many = _circuit()
    single = quantum.run(many, _theta(many), dtype=np.complex64)
    single.statevector(), single.sample(10, seed=1)


def gradients() -> None:
    """Values and adjoint gradients of one circuit, of a batch, and second derivatives."""
    from triskele import core

    for n in (4, 16):
        circuit = _circuit(n)
        energy = quantum.Expectation(circuit, quantum.tfim(n, 1.0, 0.7))
        energy(_theta(circuit)), energy.value_and_grad(_theta(circuit))
    circuit = _circuit()
    energy = quantum.Expectation(circuit, quantum.tfim(4, 1.0, 0.7))
    energy.value_and_grad(np.stack([_theta(circuit)] * 3))
    core.hessian(energy)(_theta(circuit))
    quantum.qfi(circuit, _theta(circuit))


def chemistry() -> None:
    """Ground states of a molecule among all states and among those with its number of electrons."""
    h2 = quantum.molecules.load("H2")
    ansatz = quantum.uccsd(h2.num_electrons, h2.num_qubits)
    for simulator in ("statevector", "subspace"):
        quantum.VQE(h2.hamiltonian, ansatz, simulator=simulator).run(progress=False)


def optimization() -> None:
    """A cut of a graph by QAOA."""
    quantum.QAOA(quantum.maxcut([(0, 1, 2.0), (1, 2), (2, 3), (3, 0)]), layers=1).run(progress=False)


def noise() -> None:
    """Density matrices, their gradients, and trajectories."""
    model = quantum.NoiseModel().add(quantum.noise.depolarizing(0.01))
    circuit = _circuit().with_noise(model)
    theta = _theta(circuit)
    quantum.run(circuit, theta, simulator="density_matrix").probabilities()
    quantum.Expectation(circuit, quantum.tfim(4, 1.0, 0.7), simulator="density_matrix").value_and_grad(theta)
    quantum.run(circuit, theta, simulator="trajectories", shots=10, seed=1).probabilities()


def stabilizer() -> None:
    """Samples of a Clifford circuit."""
    quantum.run(quantum.ghz(5), simulator="stabilizer").sample(10, seed=1)


WORK = (gradients, statevector, noise, chemistry, optimization, stabilizer)
