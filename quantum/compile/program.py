"""Programs: circuits as tables of integers and numbers, which compiled code runs without compiling anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import ParameterError
from ..parameters import LARGEST
from .ops import OP_COLUMNS, RECIPE_COLUMNS, Builder

__all__ = ["Program", "all_values"]


@dataclass(frozen=True, eq=False)
class Program:
    """A circuit of gates as tables. `quantum.compile.ops` describes their columns and recipes.

    ``values = concatenate(theta, data)``, ``angles[i] = angle_constants[i] + sum_k angle_coefficients[k] *
    values[angle_indices[k]]`` over k from ``angle_starts[i]`` to ``angle_starts[i + 1]``; then the recipes fill a copy
    of `coefficients`; then the ops run in order.
    """

    num_qubits: int
    parameters: tuple[str, ...]  # names, in the order of theta
    data: tuple[str, ...]  # names, in the order of data
    ops: np.ndarray  # (K, OP_COLUMNS) int64, an op in each row
    recipes: np.ndarray  # (R, RECIPE_COLUMNS) int64
    coefficients: np.ndarray  # (C,) float64, a template: constants, and room for what recipes fill
    angle_starts: np.ndarray  # (A + 1,) int64
    angle_indices: np.ndarray  # (T,) int64
    angle_coefficients: np.ndarray  # (T,) float64
    angle_constants: np.ndarray  # (A,) float64
    # gates that are Python functions: place of the matrix in the coefficients, gate, indices of its angles
    functions: tuple[tuple[int, Any, tuple[int, ...]], ...] = ()
    cache: dict[Any, Any] = field(default_factory=dict)  # what simulators derive from the program (schedules)

    @classmethod
    def from_builder(
        cls, num_qubits: int, parameters: tuple[str, ...], data: tuple[str, ...], builder: Builder
    ) -> Program:
        """The finished tables."""
        starts = np.zeros(len(builder.angle_terms) + 1, np.int64)
        np.cumsum([len(terms) for terms in builder.angle_terms], out=starts[1:])
        flat = [term for terms in builder.angle_terms for term in terms]
        coefficients, constants = np.array([c for _, c in flat], float), np.array(builder.angle_constants, float)
        for numbers in (coefficients, constants):
            if not (allowed := np.abs(numbers) <= LARGEST).all():
                raise ParameterError(
                    f"run: angles, and coefficients in them, must be at most {LARGEST:g}, got {numbers[~allowed][0]}"
                )
        return cls(
            num_qubits,
            parameters,
            data,
            np.array(builder.ops, np.int64).reshape(-1, OP_COLUMNS),
            np.array(builder.recipes, np.int64).reshape(-1, RECIPE_COLUMNS),
            np.array(builder.coefficients, float),
            starts,
            np.array([i for i, _ in flat], np.int64),
            coefficients,
            constants,
            tuple(builder.functions),
        )

    def values(self, theta: Any = None, data: Any = None) -> np.ndarray:
        """Return theta and data, each an array or a dict by name, as one checked (V,) float64 array."""
        if (
            type(theta) is np.ndarray
            and data is None
            and not self.data
            and theta.dtype == np.float64
            and theta.shape == (len(self.parameters),)
        ):
            values = theta  # the common case
        else:
            values = np.concatenate([_values(theta, self.parameters, "theta"), _values(data, self.data, "data")])
        return _finite(values, self.parameters + self.data)

    def fill_functions(self, coefficients: np.ndarray, values: np.ndarray) -> None:
        """Write the matrices of gates that are Python functions into a coefficient array."""
        for at, gate, angles in self.functions:
            matrix = np.asarray(gate.function(*[self.angle(i, values) for i in angles]), complex)
            coefficients[at : at + 2 * matrix.size] = np.ascontiguousarray(matrix).ravel().view(float)

    def angle(self, i: int, values: np.ndarray) -> float:
        """One angle."""
        terms = slice(*self.angle_starts[i : i + 2])
        return float(self.angle_constants[i] + self.angle_coefficients[terms] @ values[self.angle_indices[terms]])


def all_values(parameters: tuple[str, ...], names: tuple[str, ...], theta: Any = None, data: Any = None) -> np.ndarray:
    """Values of `parameters` and of the data `names`, as `Program.values` gives them."""
    return _finite(
        np.concatenate([_values(theta, parameters, "theta"), _values(data, names, "data")]), parameters + names
    )


def _finite(values: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
    # one comparison for all, which NaN fails, too
    if not values.dot(values) <= LARGEST**2 and not (allowed := np.abs(values) <= LARGEST).all():
        worst = int(np.argmin(allowed))
        raise ParameterError(
            f"run: values must be finite, got {values[worst]} for {names[worst]} (the largest is {LARGEST:g})"
        )
    return values


def _values(given: Any, names: tuple[str, ...], what: str) -> np.ndarray:
    if given is None:
        if names:
            raise ParameterError(
                f"run: {what} must have a value for {', '.join(names[:5])}{' ...' if len(names) > 5 else ''}, got none"
            )
        return np.zeros(0)
    if isinstance(given, Mapping):
        if unknown := [n for n in given if n not in names]:
            raise ParameterError(f"run: {what} has no {unknown[0]!r} (the circuit's are {', '.join(names) or 'none'})")
        if missing := [n for n in names if n not in given]:
            raise ParameterError(f"run: {what} must have a value for {missing[0]!r}")
        given = [given[n] for n in names]
    array = np.asarray(given, float)
    if array.shape != (len(names),):
        if not names:
            raise ParameterError(
                f"run: the circuit has no parameters for {what}, got the shape {array.shape} (trained "
                f"ones go into theta, an encoder's into data)"
            )
        raise ParameterError(
            f"run: {what} must be {len(names)} numbers "
            f"({', '.join(names[:5])}{' ...' if len(names) > 5 else ''}), got the shape {array.shape}"
        )
    return array
