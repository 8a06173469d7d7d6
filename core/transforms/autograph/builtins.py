"""Python's builtin functions on traced values, in converted functions."""

from __future__ import annotations

import builtins
import functools
import operator

import numpy as np

from ...dtypes import kind_of
from ...graph.graph import Spec, spec_of
from ...graph.trace import user_source
from ...tensor import Tensor
from ..control.body import cast, concrete
from .loops import Range
from .variables import known, truth, user_line

__all__ = ["BUILTINS"]


def _range(*args):
    known_args = [concrete(a) if isinstance(a, Tensor) else a for a in args]
    if not any(a is None for a in known_args):
        return range(*[operator.index(a) for a in known_args])
    for a in args:
        if spec_of(a).dtype.kind not in "iu":
            raise TypeError(f"range: bounds must be integers, got {spec_of(a)}, at {user_source()}")
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1) if len(args) == 2 else args
    return Range(start, stop, step)


def _extreme(plain, function, reduce):
    def either(*args, **kwargs):
        if kwargs or not any(isinstance(a, Tensor) for a in args):
            return plain(*args, **kwargs)
        return functools.reduce(function, args) if len(args) > 1 else reduce(args[0])

    return either


def _convert(plain, dtype):
    def number(x=0, *args):
        if not isinstance(x, Tensor) or (
            plain is not float and concrete(x) is not None and kind_of(x.dtype) not in "fc"
        ):
            return plain(x, *args)
        return cast(np.reshape(x, ()) if x.shape else x, Spec((), np.dtype(dtype)))

    return number


BUILTINS = {
    range: _range,
    builtins.max: _extreme(builtins.max, np.maximum, lambda x: np.max(x, axis=0)),
    builtins.min: _extreme(builtins.min, np.minimum, lambda x: np.min(x, axis=0)),
    builtins.any: lambda x: np.any(x, axis=0) if isinstance(x, Tensor) else any(x),
    builtins.all: lambda x: np.all(x, axis=0) if isinstance(x, Tensor) else all(x),
    int: _convert(int, np.int64),
    float: _convert(float, np.float64),
    bool: lambda *x: bool(*x) if not x or known(x[0])[0] else truth(x[0], "bool", user_line()),
}
