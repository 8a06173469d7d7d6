"""Parts shared by the optimizers: checks of settings, the update leaf by leaf, and learning rates."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import check, tree
from ..errors import TreeError
from ..tensor import Tensor
from ..transforms.tape import inexact

__all__ = [
    "Moments",
    "Momentum",
    "Optimizer",
    "Rate",
    "given",
    "in_precision",
    "norm",
    "rate_of",
    "squared",
    "update",
    "zeros",
]

Rate = float | Callable[[Any], Any]
_FRACTIONS = frozenset({"momentum", "decay", "b1", "b2"})


class Momentum(NamedTuple):
    """State of an optimizer with one array per parameter: step count and those arrays."""

    count: Any
    moment: Any


class Moments(NamedTuple):
    """State of an optimizer with two arrays per parameter: step count and both trees."""

    count: Any
    first: Any
    second: Any


class Optimizer:
    """Base of the optimizers: checks the settings. Values that are traced pass."""

    def __new__(cls, *_: Any, **kwargs: Any) -> Any:
        check.renamed(kwargs, cls.__name__, lr="learning_rate", betas="b1 and b2", eps="epsilon")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            value, where = getattr(self, field.name), f"{type(self).__name__}: {field.name}"
            if isinstance(value, Tensor) or (field.type == "Rate" and callable(value)):
                continue
            if field.type == "bool":
                check.kind(value, bool, where, error=ValueError)
            elif field.type in ("float", "Rate"):
                check.number(value, where, 0)
                if field.name in _FRACTIONS and value >= 1:
                    raise ValueError(f"{where} must be a number >= 0 and < 1, got {value!r}")


class _LeafByLeaf(Optimizer):
    """Base of optimizers whose step is a rule for each array of parameters."""

    learning_rate: Rate
    _magnitude = False  # the moment is real for complex parameters
    _real = False  # complex parameters are refused

    def init(self, params: Any) -> Any:
        """The state before the first step."""
        return Momentum(np.int64(0), zeros(type(self).__name__, params, magnitude=self._magnitude, real=self._real))

    def step(self, params: Any, grads: Any, state: Any) -> tuple[Any, Any]:
        """One update. Returns ``(params, state)``."""
        params, *moments = update(
            type(self).__name__, self._rule, params, grads, state[1:], self._numbers(state.count), real=self._real
        )
        return params, type(state)(state.count + 1, *moments)

    def _numbers(self, count):
        """Return the numbers of the step after `count` steps."""
        return [rate_of(self.learning_rate, count)]

    def _rule(self, p, g, *moments_and_numbers):
        """Return a new array of parameters, and its new moments."""
        raise NotImplementedError


def given(setting: Any) -> bool:
    """Return False if a setting is the number 0, so that what it multiplies can be left out."""
    return isinstance(setting, Tensor) or setting != 0


def rate_of(learning_rate: Rate, count: Any) -> Any:
    """The learning rate after `count` steps."""
    return learning_rate(count) if callable(learning_rate) else learning_rate


def zeros(where: str, params: Any, *, magnitude: bool = False, real: bool = False) -> Any:
    """A tree of zeros like `params`; `magnitude`: real ones for complex parameters; `real`: refuse those."""
    _check_leaves(where, params, real)
    dtype = lambda p: _real(np.result_type(p)) if magnitude else np.result_type(p)
    return tree.map(lambda p: np.zeros(np.shape(p), dtype(p)), params)


def update(
    where: str,
    rule: Callable[..., tuple[Any, ...]],
    params: Any,
    grads: Any,
    slots: Sequence[Any] = (),
    numbers: Sequence[Any] = (),
    *,
    real: bool = False,
) -> list[Any]:
    """Apply ``rule(p, g, *slots, *numbers) -> (p, *slots)`` leaf by leaf and return the new trees.

    Every result has the dtype of the leaf that it replaces. Numbers of the step come in the precision of the
    parameter. Gradients of complex parameters come conjugated, as the direction of steepest ascent: `core.grad`
    returns df/dx - i df/dy.
    """
    leaves, structure = tree.flatten(params)
    columns = [leaves]
    for t in (grads, *slots):
        other, s = tree.flatten(t)
        if s != structure:
            raise TreeError(
                f"{where}: parameters, gradients and state must have one structure, got {structure} and {s}"
            )
        columns.append(other)
    _check_leaves(where, params, real)
    for i, (p, *others) in enumerate(zip(*columns, strict=True)):
        for k, x in enumerate(others):
            if np.shape(p) != np.shape(x):
                what = "the state" if k else "a gradient"
                raise ValueError(
                    f"{where}: {what} must have the shape of its parameter, {np.shape(p)}, got "
                    f"{np.shape(x)}{_place(params, i)}"
                )
    rows = []
    for p, g, *xs in zip(*columns, strict=True):
        dtype = np.result_type(p)
        new = rule(p, np.conj(g) if dtype.kind == "c" else g, *xs, *[in_precision(x, dtype) for x in numbers])
        rows.append([_like(x, old) for x, old in zip(new, (p, *xs), strict=True)])
    return [tree.unflatten(structure, [row[k] for row in rows]) for k in range(1 + len(slots))]


def squared(g: Any) -> Any:
    """The square of the absolute value."""
    return np.real(g * np.conj(g)) if np.result_type(g).kind == "c" else g * g


def in_precision(x: Any, dtype: np.dtype) -> Any:
    """A number of the step in the precision of a dtype, real for complex ones."""
    return x.astype(_real(dtype)) if hasattr(x, "astype") else x


def norm(x: Any) -> Any:
    """Euclidean norm of one array."""
    return np.sqrt(np.sum(squared(x)))


def _check_leaves(where, params, real):
    for i, p in enumerate(tree.leaves(params)):
        if not inexact(p):
            raise TypeError(
                f"{where}: parameters must be float or complex, got {_kind(p)}{_place(params, i)} (convert "
                "it with astype(float), or leave it out of the parameters)"
            )
        if real and np.result_type(p).kind == "c":
            raise TypeError(
                f"{where}: parameters must be real, got {_kind(p)}{_place(params, i)} (optimize real and "
                "imaginary part)"
            )


def _kind(p):
    return getattr(p, "dtype", None) or type(p).__name__


def _place(params, i):
    path = tree.paths(params)[i][0]
    return f" at `{path}`" if path else ""


def _real(dtype):
    return np.finfo(dtype).dtype if dtype.kind == "c" else dtype


def _like(x, old):
    dtype = np.result_type(old)
    return x if np.result_type(x) == dtype else x.astype(dtype) if hasattr(x, "astype") else dtype.type(x)
