"""Energies, gradients, Hessians and quantum Fisher information of stored circuits, made with other programs."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from triskele import core, quantum

CASES = json.loads(
    gzip.decompress((Path(__file__).parents[2] / "data/quantum/gradients/gradients.json.gz").read_bytes())
)["cases"]


def load(name):
    """Circuit, Hamiltonian, theta, and for each of the circuit's parameters its place in the stored arrays."""
    case = CASES[name]
    circuit = quantum.Circuit(case["n"])
    for gate, qubits, angles in case["gates"]:
        getattr(circuit, gate)(*([{f"t{k}": c for k, c in angles}] if angles else []), *qubits)
    order = [int(p[1:]) for p in circuit.parameters]
    return case, circuit, quantum.PauliSum([(s, c) for c, s in case["terms"]]), np.array(case["theta"])[order], order


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradient(name):
    case, circuit, h, theta, order = load(name)
    energy = quantum.Expectation(circuit, h)
    value, gradient = energy.value_and_grad(theta)
    assert energy(theta) == pytest.approx(case["value"], abs=1e-12)
    assert value == energy(theta)
    np.testing.assert_allclose(gradient, np.array(case["grad"])[order], rtol=0, atol=1e-10)
    np.testing.assert_allclose(core.grad(energy)(theta), gradient, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", CASES)
def test_parameter_shift(name):
    case, circuit, h, theta, order = load(name)
    if len(theta) > 30:
        pytest.skip("hundreds of runs")
    gradient = quantum.Expectation(circuit, h, gradient="parameter_shift").gradient(theta)
    np.testing.assert_allclose(gradient, np.array(case["grad"])[order], rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_single_precision(name):
    case, circuit, h, theta, order = load(name)
    value, gradient = quantum.Expectation(circuit, h, dtype=np.complex64).value_and_grad(theta)
    assert value == pytest.approx(case["value"], abs=5e-6)
    np.testing.assert_allclose(gradient, np.array(case["grad"])[order], rtol=2e-6, atol=2e-5)


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if "hessian" in c])
def test_second_order(name):
    case, circuit, h, theta, order = load(name)
    place = np.ix_(order, order)
    energy = quantum.Expectation(circuit, h)
    # by parameter shift
    np.testing.assert_allclose(energy.hessian(theta), np.array(case["hessian"])[place], rtol=0, atol=1e-10)
    # by sweeps with tangents
    np.testing.assert_allclose(core.hessian(energy)(theta), np.array(case["hessian"])[place], rtol=0, atol=1e-10)
    np.testing.assert_allclose(quantum.qfi(circuit, theta), np.array(case["qfi"])[place], rtol=0, atol=1e-10)
