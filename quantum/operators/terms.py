"""The arrays of Pauli sums, as a protocol."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

__all__ = ["Terms"]


class Terms(Protocol):
    """Pauli strings as masks, with coefficients: a `PauliSum`."""

    x: np.ndarray
    z: np.ndarray
    coefficients: np.ndarray

    @property
    def num_qubits(self) -> int:
        """One more than the last qubit that a string acts on."""

    @property
    def is_hermitian(self) -> bool:
        """True if all coefficients are real."""

    def __len__(self) -> int: ...

    def __getitem__(self, key: Any) -> Any: ...

    def __iter__(self) -> Iterator[tuple[str, complex]]: ...
