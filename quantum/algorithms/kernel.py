"""Quantum kernels: similarity of data as fidelity of the states that encode them."""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele.core.extend import check

from ..circuit import Circuit
from ..errors import CircuitError, ParameterError
from ..simulators.run import run
from .start import check_data

__all__ = ["FidelityKernel"]


class FidelityKernel:
    """The kernel ``|<phi(x)|phi(y)>|**2`` of an encoding circuit [1]_.

    Every state is computed once, and all overlaps are one matrix product. scikit-learn accepts it as a kernel function,
    ``SVC(kernel=FidelityKernel(encoder))``, and its result as a precomputed matrix.

    Parameters
    ----------
    encoder : Circuit
        Circuit whose parameters are all data (see `Circuit.as_encoder`). Columns of the data are in the order of
        `encoder.data`.
    dtype : complex128 or complex64

    Raises
    ------
    CircuitError, ParameterError
        If the encoder is not a circuit of gates only, has trainable parameters, or has no data parameters.

    References
    ----------
    .. [1] Havlicek et al., "Supervised learning with quantum-enhanced feature spaces", Nature 567, 209 (2019).
       doi:10.1038/s41586-019-0980-2

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import quantum
    >>> encoder = quantum.Circuit(2).ry("x0", 0).ry("x1", 1).as_encoder()
    >>> np.round(quantum.FidelityKernel(encoder)(np.array([[0.0, 0.0], [0.0, np.pi / 2]])), 6)
    array([[1. , 0.5],
           [0.5, 1. ]])
    """

    def __init__(self, encoder: Circuit, *, dtype: Any = np.complex128):
        check.kind(encoder, Circuit, "FidelityKernel: the encoder", error=CircuitError)
        if encoder.parameters:
            raise ParameterError(
                f"FidelityKernel: the encoder has trainable parameters {list(encoder.parameters)[:4]} "
                f"(as_encoder() makes them data, bind() fixes them)"
            )
        if not encoder.data:
            raise ParameterError("FidelityKernel: the encoder has no data parameters")
        if not encoder.is_unitary:
            raise CircuitError("FidelityKernel: the encoder must consist of gates alone")
        self.encoder, self.dtype = encoder.copy(), dtype

    def __repr__(self) -> str:
        return f"<FidelityKernel: {self.encoder.num_qubits} qubits, {len(self.encoder.data)} data parameters>"

    def __call__(self, x: Any, y: Any = None) -> np.ndarray:
        """The matrix of kernel values.

        Parameters
        ----------
        x : (B, D) array
        y : (C, D) array, optional
            Defaults to `x`; the matrix is then symmetric with ones on its diagonal.

        Returns
        -------
        (B, C) float64 array

        Raises
        ------
        ParameterError
            If the data do not have a column for each data parameter, or are not finite.
        """
        bra = self.states(x)
        overlap = bra.conj() @ (bra if y is None else self.states(y)).T
        kernel = (overlap.real**2 + overlap.imag**2).astype(np.float64)
        if y is None:
            kernel = 0.5 * (kernel + kernel.T)
            np.fill_diagonal(kernel, 1.0)
        return kernel

    def states(self, x: Any) -> np.ndarray:
        """The encoded states, (B, 2**n)."""
        x = check_data("FidelityKernel", x, self.encoder.data)
        states = [run(self.encoder, data=row, dtype=self.dtype).statevector() for row in x]
        return np.array(states, self.dtype).reshape(len(x), 1 << self.encoder.num_qubits)
