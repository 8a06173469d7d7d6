"""NumPy's functions as a namespace that also takes lists with traced values in them: the Python array API and what else
is redirected.

NumPy's own functions already work on traced arrays; what they cannot see is a traced value inside a list, as in
``np.array([x, y])``. The functions here can::

    from triskele.core import numpy as cnp

    cnp.asarray([x, [y, 1.0]]), cnp.sum([x, y]), cnp.full(3, x)

Outside of transforms they are NumPy's: ndarrays in, ndarrays out.
"""

from __future__ import annotations

import builtins as _builtins
from typing import TYPE_CHECKING, Any

import numpy as _np

from .ops.create import collect as _collect
from .ops.create import full_of as _full_of
from .ops.create import over_lists as _over_lists
from .ops.define import has_tensor as _has_tensor
from .tensor import FUNCTIONS as _FUNCTIONS
from .tensor import UFUNCS as _UFUNCS
from .tensor import Tensor as _Tensor

__array_api_version__ = "2024.12"
# dtypes, constants, and functions of shapes and dtypes: NumPy's own
_UNCHANGED = """
    __array_namespace_info__
    arange bool bool_ broadcast_shapes complex128 complex64 complexfloating diag_indices dtype e empty errstate
    euler_gamma eye fft finfo float16 float32 float64 floating from_dlpack generic identity iinfo indices
    inexact inf int16 int32 int64 int8 integer intp isdtype isscalar linalg linspace mgrid nan ndarray ndindex
    newaxis number ogrid ones pi promote_types roots s_ tri tril_indices triu_indices ufunc uint16 uint32 uint64
    uint8 vectorize zeros
""".split()
# these take sequences of arrays: NumPy looks for traced values in them by itself
_SEQUENCES = {
    "block",
    "broadcast_arrays",
    "choose",
    "column_stack",
    "concat",
    "concatenate",
    "dstack",
    "einsum",
    "hstack",
    "lexsort",
    "meshgrid",
    "piecewise",
    "select",
    "stack",
    "vstack",
}

if TYPE_CHECKING:
    from numpy import *  # noqa: F403
else:
    for _name, _f in vars(_np).items():
        if _name in _UNCHANGED or _name in _SEQUENCES:
            globals()[_name] = _f
        elif callable(_f) and (_f in _FUNCTIONS or _f in _UFUNCS):
            globals()[_name] = _over_lists(_f)


def asarray(obj: Any, /, dtype: Any = None, *, device: Any = None, copy: _builtins.bool | None = None) -> Any:  # type: ignore[no-redef]
    """An array of `obj`: a number, an array, a traced array, or nested sequences of them."""
    if isinstance(obj, _Tensor) or _has_tensor(obj):
        return _collect(obj, dtype, copy)
    return _np.asarray(obj, dtype=dtype, device=device, copy=copy)


def array(obj: Any, dtype: Any = None, *, copy: _builtins.bool | None = True, ndmin: int = 0) -> Any:  # type: ignore[no-redef]
    """``numpy.array``, also of nested sequences of traced arrays."""
    if isinstance(obj, _Tensor) or _has_tensor(obj):
        out = _collect(obj, dtype, copy)
        return _np.reshape(out, (1,) * (ndmin - out.ndim) + out.shape) if out.ndim < ndmin else out
    return _np.array(obj, dtype=dtype, copy=copy, ndmin=ndmin)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:  # type: ignore[no-redef]
    """``numpy.full``; the value may be traced."""
    if isinstance(fill_value, _Tensor):
        return _full_of(shape, fill_value, dtype)
    return _np.full(shape, fill_value, dtype=dtype, device=device)


def sort(x: Any, /, axis: int = -1, *, descending: _builtins.bool = False, stable: _builtins.bool = True) -> Any:  # type: ignore[no-redef]
    """``numpy.sort``, also from large to small; `stable` keeps equal elements in their order either way."""
    x = asarray(x)
    if not descending:
        return _np.sort(x, axis, stable=stable)
    return _np.flip(_np.sort(_np.flip(x, axis), axis, stable=stable), axis)


def argsort(x: Any, /, axis: int = -1, *, descending: _builtins.bool = False, stable: _builtins.bool = True) -> Any:  # type: ignore[no-redef]
    """``numpy.argsort``, also from large to small."""
    x = asarray(x)
    if not descending:
        return _np.argsort(x, axis, stable=stable)
    return x.shape[axis] - 1 - _np.flip(_np.argsort(_np.flip(x, axis), axis, stable=stable), axis)


__all__ = [name for name in sorted(globals()) if not name.startswith("_") and hasattr(_np, name)]
