"""Readout errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele.core.extend import check

from ..errors import ChannelError

__all__ = ["ReadoutError"]


class ReadoutError:
    """Readout error: an instruction on a classical bit, placed after the measurement.

    Parameters
    ----------
    p01, p10 : float
        Probability of reading 0 where 1 was measured, and 1 where 0 was.

    Attributes
    ----------
    matrix : (2, 2) float64 array
        Assignment matrix: entry [read, measured] is a probability; columns sum to 1.

    Raises
    ------
    ChannelError
        If a probability is not in 0 to 1.

    Examples
    --------
    >>> from triskele.quantum.noise import ReadoutError
    >>> ReadoutError(0.1, 0.02).matrix.tolist()
    [[0.98, 0.1], [0.02, 0.9]]
    """

    name, label, num_qubits, num_params = "readout_error", "readout error", 0, 0

    def __init__(self, p01: float, p10: float):
        for what, p in (("p01", p01), ("p10", p10)):
            check.number(p, f"ReadoutError: {what}", 0, 1, error=ChannelError)
        self.matrix = np.array([[1.0 - p10, p01], [p10, 1.0 - p01]])
        self.matrix.flags.writeable = False

    def then(self, other: ReadoutError | None) -> ReadoutError:
        """Return the error of both, this one first; None is no error."""
        if other is None:
            return self
        matrix = np.clip(other.matrix @ self.matrix, 0.0, 1.0)
        return ReadoutError(matrix[0, 1], matrix[1, 0])

    def __eq__(self, other: Any) -> bool:
        return np.array_equal(self.matrix, other.matrix) if isinstance(other, ReadoutError) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.name, *self.matrix[1].tolist()))

    def __repr__(self) -> str:
        return f"ReadoutError(p01={self.matrix[0, 1]:g}, p10={self.matrix[1, 0]:g})"
