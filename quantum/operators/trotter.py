"""Time evolution by product formulas."""

from __future__ import annotations

from typing import Any

from triskele.core.extend import check

from ..circuit import Circuit
from ..errors import OperatorError
from ..parameters import angle
from .pauli import PauliSum

__all__ = ["append_exponentials", "trotter"]


def trotter(hamiltonian: PauliSum, time: Any, steps: int = 1, order: int = 1, num_qubits: int | None = None) -> Circuit:
    """exp(-i H time) as a circuit of Pauli rotations, by a product formula of order 1, 2 or 4.

    Order 1 is the product of the terms' exponentials in their order in the sum, order 2 that product and its mirror
    image at half the time, order 4 Suzuki's composition of five of order 2 [1]_. The error falls as steps**-order, and
    is zero where all terms commute.

    Parameters
    ----------
    hamiltonian : PauliSum
        Hermitian operator; the identity gives a global phase.
    time : angle
        A number, a parameter's name, or an expression.
    steps : int
        Number of repetitions of the formula, each with time / steps.
    order : int
        1, 2 or 4.
    num_qubits : int, optional
        Number of qubits of the circuit. Defaults to the number that the sum acts on.

    Raises
    ------
    OperatorError
        If the sum is not Hermitian, acts on more qubits, or steps or order is invalid.

    References
    ----------
    .. [1] M. Suzuki, Fractal decomposition of exponential operators with applications to many-body theories and Monte
       Carlo simulations, Phys. Lett. A 146, 319 (1990). doi:10.1016/0375-9601(90)90962-N

    Examples
    --------
    >>> from triskele.quantum import PauliSum, trotter
    >>> trotter(PauliSum("X0 X1 + 0.5 Z0"), "t", steps=2, order=2)
    Circuit(2 qubits, 5 instructions, 1 parameters)
    """
    n = hamiltonian.num_qubits if num_qubits is None else num_qubits
    if n < hamiltonian.num_qubits:
        raise OperatorError(f"trotter: the sum acts on {hamiltonian.num_qubits} qubits, got num_qubits={n}")
    if not hamiltonian.is_hermitian:
        raise OperatorError("trotter: the sum must be Hermitian, got coefficients that are not real")
    check.integer(steps, "trotter: steps", 1, error=OperatorError)
    check.choice(order, (1, 2, 4), "trotter: order", error=OperatorError)
    t = angle(time, "trotter")
    terms = list(hamiltonian)
    fractions = _schedule(len(terms), order) * steps  # terms and the part of a step that each evolves for
    merged: list[tuple[int, float]] = []
    for k, fraction in fractions:  # a term that follows itself is one rotation
        if merged and merged[-1][0] == k:
            merged[-1] = (k, merged[-1][1] + fraction)
        else:
            merged.append((k, fraction))
    circuit = Circuit(n)
    append_exponentials(circuit, [(terms[k][0], terms[k][1].real * fraction / steps) for k, fraction in merged], t)
    return circuit


def append_exponentials(circuit: Circuit, terms: list[tuple[str, float]], t: Any) -> None:
    """Add exp(-i c t P) for each pair of a Pauli string P and number c, in order."""
    for string, c in terms:
        factors = string.split()
        circuit.pauli_rotation("".join(f[0] for f in factors), t * (2.0 * c), [int(f[1:]) for f in factors])


def _schedule(terms: int, order: int) -> list[tuple[int, float]]:
    forward = [(k, 1.0) for k in range(terms)]
    if order == 1:
        return forward
    second = [(k, 0.5) for k, _ in forward] + [(k, 0.5) for k, _ in reversed(forward)]
    if order == 2:
        return second
    outer = 1.0 / (4.0 - 4.0 ** (1.0 / 3.0))
    return [(k, part * weight) for weight in (outer, outer, 1.0 - 4.0 * outer, outer, outer) for k, part in second]
