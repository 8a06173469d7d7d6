"""`VariableBias`: base class of sampling methods with a bias on collective variables."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..cv.variable import CollectiveVariable
from ..run.sampling_method import Sampling

__all__ = ["VariableBias", "per_variable"]


def per_variable(where: str, name: str, given: Any, m: int, positive: bool = False) -> list[float]:
    """Return one finite number for each of m variables, from a number for all or one for each."""
    try:
        values = np.asarray(given, np.float64)
    except (TypeError, ValueError):  # a word
        values = np.array(np.nan)
    if values.shape not in ((), (m,)) or not np.all(np.isfinite(values) & ((values > 0) | (not positive))):
        raise ValueError(
            f"{where}: {name} must be a {'positive' if positive else 'finite'} number, or one for each of "
            f"{m} variables, got {given!r}"
        )
    return np.broadcast_to(values, (m,)).tolist()


class VariableBias(Sampling):
    """A sampling method that biases collective variables and records them.

    Attributes
    ----------
    cvs : list of CollectiveVariable
    """

    cvs: list[CollectiveVariable]
    conserves_momentum = None

    def check(self, system: Any, integrator: Any) -> None:
        """Raise if another simulation has the method, or a variable or the integrator does not fit."""
        super().check(system, integrator)
        where = f"{type(self).__name__} {self.name!r}"
        for variable in self.cvs:
            variable.check(system, where)
        if integrator.forces_at is None:
            raise ValueError(
                f"{where}: the integrator must compute all forces once a step, which "
                f"{type(integrator).__name__} does not"
            )

    def _bath(self, given: float | None, known: float | None, integrator: Any) -> float | None:
        """Return the temperature `given`, that of the integrator, or the `known` one that the bias was learned at."""
        found = getattr(integrator, "temperature", None) if given is None else given
        if self._engine is None or known is None:
            return found
        if found is not None and found != known:
            raise ValueError(
                f"{type(self).__name__} {self.name!r}: temperature must be that of the frozen bias, "
                f"{known:g} K, got {found:g} K"
            )
        return known

    def _records(self) -> np.ndarray:
        """Rows of the recorded states: number, variables, and what the method adds."""
        raise NotImplementedError

    @property
    def steps(self) -> np.ndarray:
        """Numbers of the recorded states [m]."""
        return self._records()[:, 0].astype(np.int64)

    @property
    def values(self) -> np.ndarray:
        """The variables in the recorded states [m, d]."""
        return self._records()[:, 1 : 1 + len(self.cvs)]
