"""Lennard-Jones parameters of pairs from those of atoms: mixing rules and tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core.extend import short_repr

from ...topology import as_indices, check_indices

__all__ = ["RULES", "LJTable", "check_size", "root"]

RULES = ("lorentz_berthelot", "geometric")
_MOST_TYPES = 4096  # kernels number pairs of types in single precision, which counts to the square of this


@short_repr
@dataclass(frozen=True, eq=False)
class LJTable:
    """Lennard-Jones coefficients by pair of types, a / r^12 - b / r^6 (AMBER's and CHARMM's NBFIX).

    Parameters
    ----------
    types : (n,) int
        Type of each atom, 0 ... t - 1.
    a, b : (t, t) array
        Symmetric, in kJ/mol nm^12 and kJ/mol nm^6.

    Examples
    --------
    >>> from triskele.sponge import LJTable
    >>> table = LJTable.from_sigma_epsilon([0, 0, 1], [[0.3, 0.32], [0.32, 0.35]], [[0.6, 0.7], [0.7, 0.8]])
    >>> table.a.shape
    (2, 2)
    """

    types: np.ndarray
    a: np.ndarray
    b: np.ndarray

    def __post_init__(self):
        types = as_indices(self.types, "LJTable: types")
        a, b = np.array(self.a, np.float64), np.array(self.b, np.float64)
        if types.ndim != 1:
            raise ValueError(f"LJTable: types must have shape [n], got {types.shape}")
        if a.ndim != 2 or a.shape[0] != a.shape[1] or b.shape != a.shape:
            raise ValueError(f"LJTable: a and b must be square and of one size, got {a.shape} and {b.shape}")
        check_size("LJTable: a", a)
        check_indices(types, len(a), "LJTable: types")
        for name, x in (("a", a), ("b", b)):
            if not np.all(np.isfinite(x)) or not np.allclose(x, x.T, rtol=1e-12, atol=0):
                raise ValueError(f"LJTable: {name} must be finite and symmetric")
        for name, x in (("types", types), ("a", a), ("b", b)):
            object.__setattr__(self, name, x)

    @staticmethod
    def from_sigma_epsilon(types: Any, sigma: Any, epsilon: Any) -> LJTable:
        """The table of sigma (nm) and epsilon (kJ/mol) [t, t]: a = 4 epsilon sigma^12, b = 4 epsilon sigma^6."""
        sigma, epsilon = np.asarray(sigma, np.float64), np.asarray(epsilon, np.float64)
        return LJTable(types, 4 * epsilon * sigma**12, 4 * epsilon * sigma**6)


def check_size(where: str, table: np.ndarray) -> None:
    """Raise ValueError if a table has so many types that kernels would read wrong places of it."""
    if len(table) > _MOST_TYPES:
        raise ValueError(f"{where} must be a table of at most {_MOST_TYPES} types, got {len(table)}")


def root(epsilons: Any) -> Any:
    """Square roots of well depths; where the depth is zero (an atom without Lennard-Jones) so is the derivative."""
    some = epsilons > 0
    return np.where(some, np.sqrt(np.where(some, epsilons, 1.0)), 0.0)


def sigma_epsilon(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """sigma and epsilon of a / r^12 - b / r^6; no interaction has sigma 0.1 nm and epsilon 0."""
    some = (a > 0) & (b > 0)
    a, b = np.where(some, a, 1.0), np.where(some, b, 1.0)
    return np.where(some, (a / b) ** (1 / 6), 0.1), np.where(some, b * b / (4 * a), 0.0)
