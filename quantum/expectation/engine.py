"""Base class of engines, which compute expectation values and their derivatives with one simulator."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import SimulatorError
from ..operators.pauli import PauliSum

__all__ = ["Engine", "examples", "find"]


class Engine(ABC):
    """Values and derivatives for values (B, V) of parameters and data, and initial states `start` of shape (B or 1, N)
    or (0, ...).

    Engines of simulators are constructed from (circuit, hamiltonians, single, initial), and override the methods that
    they support.
    """

    hamiltonians: Sequence[PauliSum]
    takes_start = True  # the engine uses `start`

    @abstractmethod
    def values(self, values: np.ndarray, start: np.ndarray) -> np.ndarray:
        """(B, m) values."""

    @abstractmethod
    def jacobian(self, values: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(B, m) values and (B, m, V) gradients."""

    @abstractmethod
    def pull(self, values: np.ndarray, ct: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(B, m) values, and of their sums with weights (B, m): gradients for values (B, V) and initial states (B, N or
        0).
        """

    def observing(self, hamiltonians: Sequence[PauliSum]) -> Engine:
        """The same circuit with other operators."""
        raise _missing("coefficients as arguments")

    def terms(self, values: np.ndarray, start: np.ndarray) -> list[np.ndarray]:
        """Expectation value of every string of each operator, at values (V,)."""
        raise _missing("coefficients as arguments")

    def second(
        self,
        values: np.ndarray,
        d_values: np.ndarray,
        start: np.ndarray,
        d_start: np.ndarray,
        changes: Sequence[PauliSum] | None,
        weights: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Along tangents of values (V,), initial state (1, N) and operators (None: they do not change): tangents of the
        values (m,), and of the gradients of weights @ values for values (V,), all coefficients (T,; with `changes`) and
        the
        initial state.
        """
        raise _missing("second derivatives")

    def hessian(self, values: np.ndarray, start: np.ndarray) -> np.ndarray | None:
        """(m, P, P) second derivatives for parameters, at values (V,); None where `second` is the better way to
        them.
        """
        return None


def find(simulator: str) -> type[Any] | None:
    """Return the engine with adjoint gradients of a simulator, or None if it has none.

    The engine is the class that the package `quantum.expectation.NAME` offers.
    """
    if simulator not in _folders():
        return None
    package = importlib.import_module(f"{__package__}.{simulator}")
    (name,) = package.__all__
    return getattr(package, name)


@functools.cache
def _folders() -> frozenset[str]:
    here = importlib.import_module(str(__package__)).__path__
    return frozenset(m.name for m in pkgutil.iter_modules(here) if m.ispkg)


def examples(*inputs: np.ndarray) -> Iterator[list[np.ndarray]]:
    """One example of a batch after the other, with its axis; inputs with one row or none serve all."""
    for k in range(max(len(i) for i in inputs)):
        yield [i[k : k + 1] if len(i) > 1 else i for i in inputs]


def _missing(what: str) -> SimulatorError:
    return SimulatorError(f"Expectation: {what} need gradient='adjoint' and no shots")
