"""Mixed precision: parameters in one dtype, arithmetic in another, and the scale of losses in float16.

float16 and bfloat16 are storage types. Arrays take half the memory of float32; compiled code widens what it loads to
float32, computes in float32 and rounds where it stores (to nearest, ties to even) and where a program says
``astype``. Values that never leave a fused kernel are not rounded. Sums, means, products of matrices, normalization and
softmax accumulate in float32. Next to a bfloat16 array, traced Python numbers are bfloat16; outside of `core.jit`, the
rules of NumPy and ml_dtypes apply, by which the product of a bfloat16 array and a Python float is a float32 array.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from . import check, tree
from .dtypes import is_narrow, kind_of
from .imports import optional

__all__ = [
    "DynamicScale",
    "Policy",
    "ScaleState",
    "StaticScale",
    "at_least_float32",
    "float_dtype",
    "in_dtype_of",
    "policy_of",
]

_NAMES = ("float64", "float32", "bfloat16", "float16")


def float_dtype(name: Any, where: str) -> np.dtype:
    """Return a floating-point dtype by name: float64, float32, float16, or bfloat16, which needs the package ml_dtypes.

    >>> float_dtype("float16", "example")
    dtype('float16')
    """
    if isinstance(name, str) and name == "bfloat16":
        return np.dtype(optional.need("ml_dtypes", where, "precision").bfloat16)
    try:
        dtype = np.dtype(name)
    except TypeError:
        dtype = None
    if dtype is None or dtype.name not in _NAMES:
        raise ValueError(f"{where}: must be one of {', '.join(_NAMES)}, got {name!r}")
    return dtype


def at_least_float32(x: Any) -> Any:
    """Convert float16 and bfloat16 to float32; return anything else as it is.

    >>> at_least_float32(np.ones(2, np.float16)).dtype
    dtype('float32')
    """
    return np.astype(x, np.float32) if is_narrow(np.result_type(x)) else x


def in_dtype_of(x: Any, other: Any) -> Any:
    """Convert a floating-point `x` to the dtype of `other`, such as a layer's weights, if that is float16 or bfloat16.

    >>> in_dtype_of(np.ones(2, np.float32), np.ones(3, np.float16)).dtype
    dtype('float16')
    """
    dtype = np.result_type(other)
    own = np.result_type(x)
    return np.astype(x, dtype) if is_narrow(dtype) and own != dtype and kind_of(own) == "f" else x


class ScaleState(NamedTuple):
    """State of a `DynamicScale`, part of the training state.

    Attributes
    ----------
    factor : () float32
        The loss is multiplied by it.
    good : () int64
        Steps without overflow since the last change.

    Examples
    --------
    >>> from triskele.core import train
    >>> float(train.DynamicScale(initial=8.0).init().factor)
    8.0
    """

    factor: Any
    good: Any


@dataclass(frozen=True)
class StaticScale:
    """Multiply the loss by a fixed factor, and divide the gradient by it (Micikevicius et al. 2018, section 3.2).

    Parameters
    ----------
    factor : float

    Examples
    --------
    >>> from triskele.core import train
    >>> policy = train.Policy(computation="float16", scale=train.StaticScale(1024.0))
    """

    factor: float

    def __post_init__(self):
        check.positive(self.factor, "StaticScale: factor")

    def init(self) -> None:
        """Return the state: none."""
        return None

    def factor_of(self, state: None) -> Any:
        """Return the factor of the loss."""
        return np.float32(self.factor)


@dataclass(frozen=True)
class DynamicScale:
    """Scale the loss by the largest factor at which gradients do not overflow (Micikevicius et al. 2018, section 3.2).

    After a step whose gradient has an infinite or NaN element, the factor is halved (but not below 1), and parameters,
    statistics, averages and the state of the optimizer stay as they were. After `interval` steps in a row without one,
    the factor is multiplied by `growth`, up to 2**100.

    Parameters
    ----------
    initial : float, default 2**15
    growth : float, default 2
    interval : int, default 2000

    Examples
    --------
    >>> from triskele.core import train
    >>> scale = train.DynamicScale(initial=8.0, interval=2)
    >>> state = scale.init()
    >>> for finite in (True, True, False):
    ...     state = scale.update(state, finite)
    ...     print(float(state.factor), int(state.good))
    8.0 1
    16.0 0
    8.0 0
    """

    initial: float = 2.0**15
    growth: float = 2.0
    interval: int = 2000

    def __post_init__(self):
        check.number(self.initial, "DynamicScale: initial", 1.0)
        check.number(self.growth, "DynamicScale: growth", 1.0)
        check.integer(self.interval, "DynamicScale: interval", 1)

    def init(self) -> ScaleState:
        """Return the state before the first step."""
        return ScaleState(np.float32(self.initial), np.int64(0))

    def factor_of(self, state: ScaleState) -> Any:
        """Return the factor of the loss."""
        return state.factor

    def update(self, state: ScaleState, finite: Any) -> ScaleState:
        """Return the state after a step whose gradient was `finite` or not."""
        good = np.where(finite, state.good + 1, 0)
        grows = good >= self.interval
        larger = np.minimum(state.factor, np.float32(2.0**100 / self.growth)) * np.float32(self.growth)
        smaller = np.maximum(state.factor * np.float32(0.5), np.float32(1))
        factor = np.where(finite, np.where(grows, larger, state.factor), smaller)
        return ScaleState(factor[()], np.where(grows, 0, good)[()])


@dataclass(frozen=True)
class Policy:
    """Dtypes of a training step.

    Parameters
    ----------
    parameters : dtype, default "float32"
        Of the parameters that the optimizer updates (master weights) and of its state.
    computation : dtype, default "bfloat16"
        Parameters are converted to it for the forward and the backward pass. Layers of `core.nn` convert their inputs
        to the dtype of their parameters; a network of your own does so with ``np.astype``.
    output : dtype, default "float32"
        Of the loss, and of the predictions of `train.Model`.
    scale : StaticScale or DynamicScale, optional
        Scale of the loss. float16 needs one: its smallest number is 2**-24, and gradients below that vanish.

    Examples
    --------
    >>> from triskele.core import train
    >>> train.Policy(computation="float16", scale=train.DynamicScale())
    Policy(parameters=float32, computation=float16, output=float32, scale=DynamicScale(initial=32768.0, growth=2.0, \
interval=2000))
    """

    parameters: Any = "float32"
    computation: Any = "bfloat16"
    output: Any = "float32"
    scale: StaticScale | DynamicScale | None = None

    def __post_init__(self):
        for name in ("parameters", "computation", "output"):
            object.__setattr__(self, name, float_dtype(getattr(self, name), f"Policy: {name}"))
        check.kind(self.scale, (StaticScale, DynamicScale, None), "Policy: scale")

    def __repr__(self) -> str:
        return (
            f"Policy(parameters={self.parameters}, computation={self.computation}, output={self.output}, "
            f"scale={self.scale!r})"
        )

    def stored(self, values: Any) -> Any:
        """Convert the floating-point leaves of a tree to the dtype of parameters."""
        return _converted(values, self.parameters)

    def computed(self, values: Any) -> Any:
        """Convert the floating-point leaves of a tree to the dtype of computation."""
        return _converted(values, self.computation)

    def result(self, values: Any) -> Any:
        """Convert the floating-point leaves of a tree to the dtype of outputs."""
        return _converted(values, self.output)


def _converted(values, dtype):
    def convert(x):
        own = np.result_type(x)
        return (
            np.astype(np.asarray(x) if isinstance(x, (float, np.generic)) else x, dtype)
            if kind_of(own) == "f" and own != dtype
            else x
        )

    return tree.map(convert, values)


def policy_of(precision: Any, where: str) -> Policy | None:
    """Return the policy of an option: a `Policy`, or a dtype of the computation; None for float32 and None.

    float16 by name comes with a `DynamicScale`.

    >>> policy_of("float16", "example").scale
    DynamicScale(initial=32768.0, growth=2.0, interval=2000)
    """
    if precision is None or isinstance(precision, Policy):
        return precision
    dtype = float_dtype(precision, where)
    if not is_narrow(dtype):
        if dtype == np.float32:
            return None
        raise ValueError(
            f"{where}: must be float32, bfloat16, float16 or a Policy, got {precision!r} (make a network "
            f"of {dtype} with init(..., dtype=np.{dtype}))"
        )
    return Policy(computation=dtype, scale=DynamicScale() if dtype == np.float16 else None)
