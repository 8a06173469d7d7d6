"""Inner products of states of two circuits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..circuit import Circuit
from ..errors import CircuitError, SimulatorError
from ..operators.pauli import PauliSum
from .expectation import Expectation

__all__ = ["InnerProduct", "inner_product"]


def inner_product(bra: Circuit, operator: PauliSum | str, ket: Circuit, *, dtype: Any = np.complex128) -> InnerProduct:
    """<phi|U^dagger A V|psi>, as a differentiable function of all parameters.

    Parameters
    ----------
    bra, ket : Circuit
        Circuits U and V of gates, on the same number of qubits. Parameters with the same name are shared.
    operator : PauliSum
        A; it need not be Hermitian.
    dtype : complex128 or complex64

    Returns
    -------
    InnerProduct
        Called with theta and data in the order of its `parameters` and `data`: those of `bra`, then those of `ket`.

    Raises
    ------
    CircuitError
        If the circuits have different numbers of qubits.
    OperatorError, SimulatorError
        As for `Expectation`.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core, quantum
    >>> bra, ket = quantum.Circuit(1).ry("a", 0), quantum.Circuit(1).ry("b", 0)
    >>> overlap = quantum.inner_product(bra, quantum.PauliSum(1), ket)
    >>> overlap.parameters, complex(overlap(np.array([0.3, 0.9]))).real
    (('a', 'b'), 0.9553364891256061)
    >>> core.grad(lambda t: np.real(overlap(t)))(np.array([0.3, 0.9])).round(6).tolist()
    [0.14776, -0.14776]
    """
    return InnerProduct(bra, PauliSum(operator), ket, dtype)


class InnerProduct:
    """The function that `inner_product` returns.

    With a qubit more, s = (|0>U|phi> + |1>V|psi>) / sqrt 2 has <s|X A|s> = Re <phi|U^dagger A V|psi> and <s|Y A|s> = Im
    for Hermitian A: an expectation value of circuits under control, each of which walks its own half of the amplitudes.
    So everything that `Expectation` can do (batches, second derivatives, initial states) holds here as well.
    """

    def __init__(self, bra: Circuit, operator: PauliSum, ket: Circuit, dtype: Any):
        n = bra.num_qubits
        if ket.num_qubits != n:
            raise CircuitError(
                f"inner_product: circuits must have the same number of qubits, got {n} and {ket.num_qubits}"
            )
        both = Circuit(n + 1).x(n) + bra.control(n)
        self._energy = Expectation(both.x(n) + ket.control(n), self._parts(operator, n), dtype=dtype)
        self.parameters, self.data = self._energy.parameters, self._energy.data
        self._start = np.zeros(2 << n, complex)
        self._start[[0, 1 << n]] = np.sqrt(0.5)

    @staticmethod
    def _parts(operator: PauliSum, n: int) -> list[PauliSum]:
        """X and Y on the additional qubit times the Hermitian part of the operator, and times the other, which is i
        times one.
        """
        x, y = PauliSum(f"X{n}"), PauliSum(f"Y{n}")
        hermitian, rest = 0.5 * (operator + operator.adjoint()), -0.5j * (operator - operator.adjoint())
        return [x * hermitian, y * hermitian, x * rest, y * rest]

    def __call__(self, theta: Any = None, data: Any = None, *, bra: Any = None, ket: Any = None) -> Any:
        """Return the inner product.

        Parameters
        ----------
        theta : (P,) or (B, P) array, or dict by name
        data : (D,) or (B, D) array, or dict by name, optional
        bra, ket : (2**n,) complex array, optional
            Initial states phi and psi. Default to |0...0>. They are not normalized.

        Returns
        -------
        complex128, of shape () or (B,)
        """
        start: Any = self._start
        if bra is not None or ket is not None:
            size = len(start) // 2
            halves = [start[:size] if s is None else np.sqrt(0.5) * (s + 0j) for s in (bra, ket)]
            if any(np.shape(h) != (size,) for h in halves):
                raise SimulatorError(
                    f"inner_product: states must have shape ({size},), got {[np.shape(h) for h in halves]}"
                )
            start = np.concatenate(halves)
        out = self._energy(theta, data, initial=start)
        return out[..., 0] - out[..., 3] + 1j * (out[..., 1] + out[..., 2])

    def __repr__(self) -> str:
        return f"InnerProduct({len(self.parameters)} parameters)"
