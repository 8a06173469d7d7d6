"""NumPy's functions as a namespace that also takes lists with traced values in them: the Python array API and what else
is redirected.

NumPy's own functions already work on traced arrays; what they cannot see is a traced value inside a list, as in
``np.array([x, y])``. The functions here can::

    from triskele.core import numpy as cnp

    cnp.asarray([x, [y, 1.0]]), cnp.sum([x, y]), cnp.full(3, x)

Outside of transforms they are NumPy's: ndarrays in, ndarrays out.
"""

from __future__ import annotations

from typing import Any

import numpy as _np
from numpy import (  # noqa: F401  names of this module
    abs,
    absolute,
    acos,
    acosh,
    add,
    all,
    allclose,
    angle,
    any,
    append,
    apply_along_axis,
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    argmax,
    argmin,
    argpartition,
    argwhere,
    array_equal,
    array_equiv,
    array_split,
    asin,
    asinh,
    astype,
    atan,
    atan2,
    atanh,
    atleast_1d,
    atleast_2d,
    atleast_3d,
    average,
    bincount,
    bitwise_and,
    bitwise_count,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_not,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    block,
    bool,
    bool_,
    broadcast_arrays,
    broadcast_shapes,
    broadcast_to,
    can_cast,
    cbrt,
    ceil,
    choose,
    clip,
    column_stack,
    complex64,
    complex128,
    complexfloating,
    compress,
    concat,
    concatenate,
    conj,
    conjugate,
    convolve,
    copy,
    copysign,
    copyto,
    corrcoef,
    correlate,
    cos,
    cosh,
    count_nonzero,
    cov,
    cross,
    cumprod,
    cumsum,
    cumulative_prod,
    cumulative_sum,
    deg2rad,
    degrees,
    delete,
    diag,
    diag_indices,
    diag_indices_from,
    diagflat,
    diagonal,
    diff,
    digitize,
    divide,
    divmod,
    dot,
    dsplit,
    dstack,
    dtype,
    e,
    ediff1d,
    einsum,
    empty_like,
    equal,
    errstate,
    euler_gamma,
    exp,
    exp2,
    expand_dims,
    expm1,
    extract,
    fabs,
    fft,
    fill_diagonal,
    finfo,
    fix,
    flatnonzero,
    flip,
    fliplr,
    flipud,
    float16,
    float32,
    float64,
    float_power,
    floating,
    floor,
    floor_divide,
    fmax,
    fmin,
    fmod,
    frexp,
    from_dlpack,
    full_like,
    gcd,
    generic,
    geomspace,
    gradient,
    greater,
    greater_equal,
    heaviside,
    histogram,
    hsplit,
    hstack,
    hypot,
    i0,
    iinfo,
    imag,
    indices,
    inexact,
    inf,
    inner,
    insert,
    int8,
    int16,
    int32,
    int64,
    integer,
    interp,
    intp,
    invert,
    isclose,
    iscomplex,
    iscomplexobj,
    isdtype,
    isfinite,
    isin,
    isinf,
    isnan,
    isneginf,
    isposinf,
    isreal,
    isrealobj,
    isscalar,
    kron,
    lcm,
    ldexp,
    left_shift,
    less,
    less_equal,
    lexsort,
    linalg,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    logaddexp2,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    logspace,
    matmul,
    matrix_transpose,
    matvec,
    max,
    maximum,
    mean,
    median,
    meshgrid,
    mgrid,
    min,
    minimum,
    mod,
    modf,
    moveaxis,
    multiply,
    nan,
    nan_to_num,
    nanargmax,
    nanargmin,
    nancumprod,
    nancumsum,
    nanmax,
    nanmean,
    nanmedian,
    nanmin,
    nanpercentile,
    nanprod,
    nanquantile,
    nanstd,
    nansum,
    nanvar,
    ndarray,
    ndim,
    ndindex,
    negative,
    newaxis,
    nextafter,
    nonzero,
    not_equal,
    number,
    ogrid,
    ones_like,
    outer,
    pad,
    partition,
    percentile,
    permute_dims,
    pi,
    piecewise,
    poly,
    polyadd,
    polyder,
    polyfit,
    polyint,
    polymul,
    polysub,
    polyval,
    positive,
    pow,
    power,
    prod,
    promote_types,
    ptp,
    put,
    put_along_axis,
    putmask,
    quantile,
    rad2deg,
    radians,
    ravel,
    ravel_multi_index,
    real,
    reciprocal,
    remainder,
    repeat,
    reshape,
    resize,
    result_type,
    right_shift,
    rint,
    roll,
    rollaxis,
    roots,
    rot90,
    round,
    s_,
    searchsorted,
    select,
    shape,
    sign,
    signbit,
    sin,
    sinc,
    sinh,
    size,
    sort_complex,
    spacing,
    split,
    sqrt,
    square,
    squeeze,
    stack,
    std,
    subtract,
    sum,
    swapaxes,
    take,
    take_along_axis,
    tan,
    tanh,
    tensordot,
    tile,
    trace,
    transpose,
    trapezoid,
    tril,
    tril_indices,
    tril_indices_from,
    trim_zeros,
    triu,
    triu_indices,
    triu_indices_from,
    true_divide,
    trunc,
    ufunc,
    uint8,
    uint16,
    uint32,
    uint64,
    unique,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
    unravel_index,
    unstack,
    unwrap,
    vander,
    var,
    vdot,
    vecdot,
    vecmat,
    vectorize,
    vsplit,
    vstack,
    where,
    zeros_like,
)

from .ops.create import collect, full_of, over_lists
from .ops.define import has_tensor
from .tensor import Tensor

__array_api_version__ = "2024.12"
# these take sequences of arrays: NumPy looks for traced values in them by itself
_SEQUENCES = {
    "block", "broadcast_arrays", "choose", "column_stack", "concat", "concatenate", "dstack", "einsum", "hstack",
    "lexsort", "meshgrid", "piecewise", "select", "stack", "vstack",
}


for _name, _f in list(globals().items()):
    if isinstance(_f, (_np.ufunc, type(_np.sum))) and _name not in _SEQUENCES:
        globals()[_name] = over_lists(_f)
del _name, _f


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Any:  # noqa: F811
    """An array of `obj`: a number, an array, a traced array, or nested sequences of them."""
    if isinstance(obj, Tensor) or has_tensor(obj):
        return collect(obj, dtype, copy)
    return _np.asarray(obj, dtype=dtype, device=device, copy=copy)


def array(obj: Any, dtype: Any = None, *, copy: bool | None = True, ndmin: int = 0) -> Any:  # noqa: F811
    """``numpy.array``, also of nested sequences of traced arrays."""
    if isinstance(obj, Tensor) or has_tensor(obj):
        out = collect(obj, dtype, copy)
        return reshape(out, (1,) * (ndmin - out.ndim) + out.shape) if out.ndim < ndmin else out
    return _np.array(obj, dtype=dtype, copy=copy, ndmin=ndmin)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:  # noqa: F811
    """``numpy.full``; the value may be traced."""
    if isinstance(fill_value, Tensor):
        return full_of(shape, fill_value, dtype)
    return _np.full(shape, fill_value, dtype=dtype, device=device)


def sort(x: Any, /, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Any:
    """``numpy.sort``, also from large to small; `stable` keeps equal elements in their order either way."""
    x = asarray(x)
    if not descending:
        return _np.sort(x, axis, stable=stable)
    return flip(_np.sort(flip(x, axis), axis, stable=stable), axis)


def argsort(x: Any, /, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Any:
    """``numpy.argsort``, also from large to small."""
    x = asarray(x)
    if not descending:
        return _np.argsort(x, axis, stable=stable)
    return x.shape[axis] - 1 - flip(_np.argsort(flip(x, axis), axis, stable=stable), axis)


zeros, ones, empty, eye, identity, arange, linspace, tri = (
    _np.zeros, _np.ones, _np.empty, _np.eye, _np.identity, _np.arange, _np.linspace, _np.tri,
)


def __array_namespace_info__() -> Any:
    """NumPy's own: dtypes, devices, capabilities."""
    return _np.__array_namespace_info__()


__all__ = sorted(name for name in globals() if not name.startswith("_") and name not in ("Any", "annotations"))
