"""Functions of NumPy, SciPy and math that cannot be redirected for traced arguments, and what converted functions call
instead.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import math
import sys
from collections.abc import Callable
from types import BuiltinMethodType
from typing import Any

import numpy as np

from ... import numpy as core_numpy
from ... import tree
from ...ops.create import as_contiguous, as_fortran
from ...tensor import Tensor

__all__ = ["ARRAY_METHODS", "library_function"]

ARRAY_METHODS = {"clip", "dot", "searchsorted", "take"}
"""Methods of ndarray whose arguments may be traced: NumPy's function of the same name is called then."""

_NO_EFFECT = {"overwrite_a", "overwrite_b", "overwrite_x", "overwrite_ab", "check_finite", "workers"}  # on the values
_table: dict[Callable, Callable] = {
    np.array: core_numpy.array,
    np.asarray: core_numpy.asarray,
    np.full: core_numpy.full,
    np.asanyarray: core_numpy.asarray,
    np.ascontiguousarray: as_contiguous,
    np.asfortranarray: as_fortran,
}
_known: set[str] = set()
_SAME_IN_MATH = """acos acosh asin asinh atan atan2 atanh cbrt copysign cos cosh degrees exp exp2 expm1 fabs fmod hypot
isfinite isinf isnan log log10 log1p log2 pow radians sin sinh sqrt tan tanh""".split()
_math = {getattr(math, n): getattr(np, n) for n in _SAME_IN_MATH if hasattr(math, n)}


def library_function(f: Any) -> Callable[..., Any] | None:
    """A function that takes traced and plain arguments in place of `f`; None where `f` needs none."""
    if type(f) is BuiltinMethodType and f.__name__ in ARRAY_METHODS and isinstance(f.__self__, np.ndarray):
        return _of_array(f)
    for module in ("special", "linalg", "fft"):
        theirs = sys.modules.get(f"scipy.{module}")
        if theirs is not None and module not in _known:
            _known.add(module)
            ours = importlib.import_module(f"triskele.core.scipy.{module}")
            pairs = [(getattr(theirs, n, None), getattr(ours, n)) for n in ours.__all__]
            _table.update((g, h) for g, h in pairs if g is not None and not isinstance(g, np.ufunc))
    try:
        if f in _math:
            return _of_numbers(f, _math[f])
        ours = _table.get(f)
    except TypeError:
        return None
    return None if ours is None else _either(f, ours)


def _of_array(method):
    """The method of a plain array, for plain and traced arguments."""

    def function(*args, **kwargs):
        """What the method returns."""
        if not any(isinstance(x, Tensor) for x in (*args, *kwargs.values())):
            return method(*args, **kwargs)
        return getattr(core_numpy, method.__name__)(method.__self__, *args, **kwargs)

    return function


@functools.cache
def _of_numbers(theirs, ours):
    def function(*args):
        if not any(isinstance(x, Tensor) for x in args):
            return theirs(*args)
        return np.log(args[0]) / np.log(args[1]) if theirs is math.log and len(args) == 2 else ours(*args)

    return function


@functools.cache
def _either(theirs, ours):
    names = list(inspect.signature(ours).parameters)
    if theirs.__module__.startswith("scipy."):
        signature = inspect.signature(theirs)
        first = next(iter(signature.parameters))

    @functools.wraps(theirs)
    def function(*args, **kwargs):
        if not any(isinstance(x, Tensor) for x in tree.leaves((args, tuple(kwargs.values())))):
            return theirs(*args, **kwargs)
        if not theirs.__module__.startswith("scipy."):
            # like= can be redirected
            return ours(*args, **kwargs) if set(kwargs) <= set(names) else theirs(*args, **kwargs)
        if signature.parameters[first].kind is inspect.Parameter.VAR_POSITIONAL:
            return ours(*args, **kwargs)
        given = dict(signature.bind(*args, **kwargs).arguments)
        value = given.pop(first)  # which may have another name
        given = {
            k: v
            for k, v in given.items()
            if k in names or (k not in _NO_EFFECT and v is not signature.parameters[k].default)
        }
        for k in given:
            if k not in names:
                raise TypeError(f"{theirs.__module__}.{theirs.__name__}: {k}= is not supported for traced values")
        return ours(value, **given)

    return function
