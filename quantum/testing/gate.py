"""Conformance kit for gates. The test suite runs it over everything registered."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from triskele.core.extend import check

from ..circuit import Circuit
from ..errors import GateError
from ..gates.base import Gate
from ..gates.families import unitarity
from ..gates.instruction import Instruction
from ..gates.inverse import inverse
from ..gates.primitives import embed

__all__ = ["check_gate"]


def check_gate(gate: Gate, *, seed: int = 0, atol: float = 1e-12) -> None:
    """Check that the definition of a gate is consistent.

    At random parameters: the matrix is unitary and is the product of exp(-i t G) of its factors; generators are
    Hermitian and have the spectrum that the shift rules assume; the inverse undoes it; derivatives are those of finite
    differences; the controlled form is the product of the controlled factors.

    Parameters
    ----------
    gate : Gate
    seed : int
        Seed of the random parameters.
    atol : float
        Tolerance of matrix elements.

    Raises
    ------
    GateError
        If a check fails; the message says which and by how much.

    Examples
    --------
    >>> from triskele.quantum import check_gate
    >>> from triskele import quantum
    >>> check_gate(quantum.gates.find("fsim"))
    """
    params = np.random.default_rng(seed).uniform(-4, 4, gate.num_params).tolist()
    if sum(x is not None for x in (gate.constant, gate.factors, gate.function)) != 1:
        raise GateError(f"gate {gate.name}: exactly one of constant, factors and function must be given")
    for factor in gate.factors or ():
        if len(factor.primitive.generator) != 1 << len(factor.qubits) or len(factor.coefficients) != gate.num_params:
            raise GateError(
                f"gate {gate.name}: {factor} does not fit on its qubits or the gate's {gate.num_params} parameters"
            )
    d = 1 << gate.num_qubits
    matrix = check.shape(
        gate.matrix(*params), (d, d), f"gate {gate.name}: the matrix of {gate.num_qubits} qubits", error=GateError
    )
    _equal(gate, "U†U and 1", matrix.conj().T @ matrix, np.eye(d), atol)
    _factors(gate, params, matrix, atol)
    _inverse(gate, params, matrix, atol)
    _derivative(gate, params)
    _controlled(gate, params, matrix, atol)


def _equal(gate: Gate, what: str, a: np.ndarray, b: np.ndarray, atol: float) -> None:
    if not (difference := float(np.max(np.abs(a - b), initial=0.0))) <= atol:
        raise GateError(f"gate {gate.name}: {what} must be equal, they differ by {difference:.3g}")


def _factors(gate: Gate, params: list[float], matrix: np.ndarray, atol: float) -> None:
    if gate.factors is None:
        return
    product = np.eye(len(matrix), dtype=complex)
    for factor in gate.factors:
        g = factor.primitive.generator
        _equal(gate, f"the generator of {factor.primitive} and its adjoint", g, g.conj().T, 0.0)
        spectrum = np.unique(np.round(np.linalg.eigvalsh(g), 12)).tolist()
        if not set(spectrum) <= {-0.5, 0.0, 0.5} and not set(spectrum) <= {-1.0, 0.0}:
            raise GateError(
                f"gate {gate.name}: generators of {factor.primitive} need eigenvalues 0, ±1/2 or 0, -1, got {spectrum}"
            )
        product = embed(scipy.linalg.expm(-1j * factor.angle(params) * g), factor.qubits, gate.num_qubits) @ product
    _equal(gate, "the matrix and the product of exp(-i t G)", matrix, product, atol)


def _inverse(gate: Gate, params: list[float], matrix: np.ndarray, atol: float) -> None:
    instruction = Instruction(gate, tuple(range(gate.num_qubits)), tuple(params))
    undo = inverse(instruction)
    _equal(gate, "inverse times matrix and 1", undo.matrix() @ matrix, np.eye(len(matrix)), atol)
    _equal(gate, "the inverse of the inverse and the matrix", inverse(undo).matrix(), matrix, atol)


def _derivative(gate: Gate, params: list[float]) -> None:
    # fourth-order differences with h = 1e-3: h^4/30 times the fifth derivative, which is at most (number of factors)
    # for angles
    h = 1e-3
    derivative = gate.derivative(*params)
    for k in range(gate.num_params):
        at = [gate.matrix(*[p + s * h * (j == k) for j, p in enumerate(params)]) for s in (-2, -1, 1, 2)]
        numeric = (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * h)
        _equal(
            gate,
            f"the derivative with respect to parameter {k} and differences",
            derivative[k],
            numeric,
            1e-8 * (1 + np.abs(derivative[k]).max()),
        )


def _controlled(gate: Gate, params: list[float], matrix: np.ndarray, atol: float) -> None:
    # controls are outermost: bit q is the control
    q, d = gate.num_qubits, len(matrix)
    controlled = Instruction(gate, tuple(range(q)), tuple(params), (q,)).matrix()
    expected = scipy.linalg.block_diag(np.eye(d), matrix)
    _equal(gate, "the controlled matrix and diag(1, U)", controlled, expected, atol)
    circuit = Circuit(q).append(gate, tuple(range(q)), params).control(q)
    (instruction,) = circuit
    _equal(gate, "Circuit.control and diag(1, U)", instruction.matrix(), expected, atol)
    if gate.factors is not None:
        product = np.eye(2 * d, dtype=complex)
        for factor in gate.factors:
            u = scipy.linalg.expm(-1j * factor.angle(params) * factor.primitive.generator)
            product = embed(scipy.linalg.block_diag(np.eye(len(u)), u), (*factor.qubits, q), q + 1) @ product
        _equal(gate, "the product of controlled factors and diag(1, U)", product, expected, atol)
    if not unitarity(controlled) <= atol:
        raise GateError(f"gate {gate.name}: the controlled matrix is not unitary")
