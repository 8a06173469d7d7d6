"""Reductions: sum, prod, max, min, any, all, argmax, argmin, mean, var, std and relatives."""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ..dtypes import is_narrow, kind_of
from ..graph.graph import Spec, spec_of
from ..graph.primitive import Primitive
from ..graph.trace import bind
from ..tensor import Tensor, implements
from .define import as_value, elementwise, named, refuse_out, ufunc_loop
from .kinks import remember
from .shape import normal_axis

__all__ = ["norm_root", "normal_axes", "sum_dtype"]


def reduced(shape, axes):
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def expanded(x, shape, axes):
    """`x` with the reduced axes put back, stretched to `shape`."""
    return np.broadcast_to(np.reshape(x, tuple(1 if i in axes else n for i, n in enumerate(shape))), shape)


def normal_axes(axis, rank):
    """A sorted tuple of non-negative axes."""
    if axis is None:
        return tuple(range(rank))
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    if not rank and axes in ((0,), (-1,)):  # as NumPy's reductions have it
        return ()
    out = [normal_axis(a, rank) for a in axes]
    if len(set(out)) != len(out):
        raise ValueError("duplicate value in 'axis'")
    return tuple(sorted(out))


# -- primitives --------------------------------------------------------------------------------------------------------


def _reduction(
    name: str, ufunc: np.ufunc, dtype_of: Callable = lambda x, dtype: dtype or x, differentiable=True, empty=True
) -> Primitive:
    """A primitive that reduces over `axes` with a ufunc; `dtype` may be given for sum and prod."""

    def impl(x, *, axes, dtype=None):
        return ufunc.reduce(x, axis=axes, dtype=dtype) if dtype is not None else ufunc.reduce(x, axis=axes)

    def spec(x, *, axes, dtype=None):
        if not empty and builtins.any(x.shape[a] == 0 for a in axes):
            raise ValueError(f"zero-size array to reduction operation {ufunc.__name__} which has no identity")
        return Spec(reduced(x.shape, axes), dtype_of(x.dtype, dtype))

    def samples(rng):
        x = rng.normal(size=(2, 3, 4))
        return [((x > 0 if name in ("any", "all") else x,), {"axes": a, **extra}) for a in ((1,), (0, 2), (0, 1, 2))]

    extra = {"dtype": np.dtype(float)} if name in ("sum", "prod") else {}
    p = Primitive(name, impl, spec, kind="reduce", differentiable=differentiable, samples=samples)

    @p.defbatch
    def _(args, batch_axes, size, *, axes, **params):
        ax = batch_axes[0]
        moved = tuple(a + (a >= ax) for a in axes)
        return bind(p, args[0], axes=moved, **params), ax - builtins.sum(a < ax for a in moved)

    return p


def _to_bool(x, dtype):
    return np.dtype(bool)


sum_p = _reduction("sum", np.add)
sum_p.defvjp(lambda ct, out, x, *, axes, dtype: expanded(ct, np.shape(x), axes))
sum_p.defjvp("same")
prod_p = _reduction("prod", np.multiply)
max_p = _reduction("max", np.maximum, empty=False)
min_p = _reduction("min", np.minimum, empty=False)
any_p = _reduction("any", np.logical_or, _to_bool, differentiable=False)
all_p = _reduction("all", np.logical_and, _to_bool, differentiable=False)


def _share(out, x, axes):
    """Return a mask of the extreme value, divided by the number of its occurrences (as JAX)."""
    dtype = spec_of(x).dtype
    where = np.where(np.equal(x, expanded(out, np.shape(x), axes)), dtype.type(1), dtype.type(0))
    return where / expanded(bind(sum_p, where, axes=axes, dtype=dtype), np.shape(x), axes)


for _p in (max_p, min_p):
    _p.defvjp(lambda ct, out, x, *, axes: expanded(ct, np.shape(x), axes) * _share(out, x, axes))
    _p.defjvp(lambda t, out, x, *, axes: bind(sum_p, t * _share(out, x, axes), axes=axes, dtype=spec_of(x).dtype))


def others(x: Any) -> Any:
    """The product of all other elements along the last axis: by products alone, so that zeros do no harm.

    Pairs are multiplied up a tree, and what stands next to each node is multiplied down it: 3 n products.
    """
    levels = [x]
    while np.shape(x)[-1] > 1:
        n = np.shape(x)[-1]
        if n % 2:
            x = levels[-1] = np.concatenate([x, np.ones_like(x[..., :1])], axis=-1)
        x = x[..., 0::2] * x[..., 1::2]
        levels.append(x)
    beside = np.ones_like(levels.pop())
    while levels:
        x = levels.pop()
        n = np.shape(beside)[-1]
        pair = np.stack([x[..., 1::2] * beside, x[..., 0::2] * beside], axis=-1)
        beside = np.reshape(pair, (*np.shape(x)[:-1], 2 * n))
        if levels and np.shape(beside)[-1] > np.shape(levels[-1])[-1] // 2:
            beside = beside[..., : np.shape(levels[-1])[-1] // 2]
    return beside


def _other_factors(out, x, axes):
    if not isinstance(x, Tensor) and not isinstance(out, Tensor) and np.all(out != 0) and np.all(np.isfinite(out)):
        return expanded(out, np.shape(x), axes) / x
    rest = [i for i in range(np.ndim(x)) if i not in axes]
    order = (*rest, *axes)
    flat = np.reshape(
        np.transpose(x, order), (*[np.shape(x)[i] for i in rest], math.prod(np.shape(x)[i] for i in axes))
    )
    found = others(flat)[..., : np.shape(flat)[-1]] if 0 not in np.shape(flat) else flat
    return np.transpose(np.reshape(found, tuple(np.shape(x)[i] for i in order)), np.argsort(order).tolist())


@prod_p.defvjp
def _(ct, out, x, *, axes, dtype):
    return expanded(ct, np.shape(x), axes) * _other_factors(out, x, axes)


@prod_p.defjvp
def _(t, out, x, *, axes, dtype):
    return bind(sum_p, t * _other_factors(out, x, axes), axes=axes, dtype=dtype)


def _arg(name, function):
    def spec(x, *, axis):
        if x.shape[axis] == 0:
            raise ValueError(f"attempt to get {name} of an empty sequence")
        return Spec(reduced(x.shape, (axis,)), np.dtype(np.intp))

    p = Primitive(
        name,
        lambda x, *, axis: function(x, axis),
        spec,
        kind="reduce",
        differentiable=False,
        samples=lambda rng: [((rng.normal(size=(3, 4)),), {"axis": a}) for a in (0, 1)],
    )

    @p.defbatch
    def _(args, axes, size, *, axis):
        ax = axes[0]
        moved = axis + (axis >= ax)
        return bind(p, args[0], axis=moved), ax - (moved < ax)

    @implements(function, method=name)
    def public(a, axis=None, out=None, *, keepdims=False):
        refuse_out(name, out)
        a = as_value(a)
        if np.result_type(a).kind == "c":
            raise TypeError(f"{name}: complex numbers have no order, got {spec_of(a)}")
        shape = np.shape(a)
        if axis is None or not normal_axes(operator.index(axis), len(shape)):
            found = bind(p, np.reshape(a, (-1,)), axis=0)
            return np.reshape(found, (1,) * len(shape)) if keepdims else found
        axes = normal_axes(operator.index(axis), len(shape))
        return _kept(bind(p, a, axis=axes[0]), shape, axes, keepdims)

    return named(public, name, f"``numpy.{name}``: the first of equal ones.")


# -- NumPy's functions
# ----------------------------------------------------------------------------------------------------


def _kept(y, shape, axes, keepdims):
    return np.reshape(y, tuple(1 if i in axes else n for i, n in enumerate(shape))) if keepdims else y


argmax = _arg("argmax", np.argmax)
argmin = _arg("argmin", np.argmin)


@lru_cache
def sum_dtype(dtype):
    """NumPy sums small integers and booleans in the platform's."""
    return np.sum(np.empty(0, dtype)).dtype


@implements(np.sum, method="sum")
def sum(a, axis=None, dtype=None, out=None, keepdims=False, initial=0, where=True):
    """``numpy.sum``."""
    return _sum_like(sum_p, a, axis, dtype, out, keepdims, initial, where, 0)


@implements(np.prod, method="prod")
def prod(a, axis=None, dtype=None, out=None, keepdims=False, initial=1, where=True):
    """``numpy.prod``. Its derivative is right where factors are zero, to any order."""
    return _sum_like(prod_p, a, axis, dtype, out, keepdims, initial, where, 1)


def _sum_like(p, x, axis, dtype, out, keepdims, initial, where, neutral):
    refuse_out(p.name, out)
    x = as_value(x)
    own = np.result_type(x)
    if where is not True:
        x = np.where(where, x, own.type(neutral))
    shape = np.shape(x)
    axes = normal_axes(axis, len(shape))
    dtype = sum_dtype(own) if dtype is None else np.dtype(dtype)
    if dtype != own and own.kind not in "b":
        x = x.astype(dtype) if hasattr(x, "astype") else dtype.type(x)
    y = _kept(bind(p, x, axes=axes, dtype=dtype), shape, axes, keepdims)
    if initial is None or (not isinstance(initial, Tensor) and np.ndim(initial) == 0 and initial == neutral):
        return y
    initial = _initial(p.name, initial, dtype)
    return y + initial if p is sum_p else y * initial


def _initial(name, initial, dtype):
    """`initial` in the dtype of the reduction, as NumPy converts it."""
    if np.result_type(initial).kind == "c" and dtype.kind != "c":
        raise TypeError(f"{name}: initial must be real for {dtype}, got {initial!r}")
    return initial.astype(dtype) if isinstance(initial, Tensor) else dtype.type(initial)


def _extreme(p, combine, names):
    def function(a, axis=None, out=None, keepdims=False, initial=None, where=True):
        refuse_out(p.name, out)
        a = as_value(a)
        if np.result_type(a).kind == "c":
            raise TypeError(f"{p.name}: complex numbers have no order, got {spec_of(a)}")
        if initial is not None:
            initial = _initial(p.name, initial, np.result_type(a))
        if where is not True:
            if initial is None:
                raise ValueError(
                    f"reduction operation '{combine.__name__}' does not have an identity, so to use a where mask one "
                    "has to specify 'initial'"
                )
            a = np.where(where, a, initial)
        shape = np.shape(a)
        axes = normal_axes(axis, len(shape))
        if initial is not None and builtins.any(shape[i] == 0 for i in axes):
            y = combine(
                initial,
                np.full(reduced(shape, axes), initial, np.result_type(a))
                if not isinstance(initial, Tensor)
                else initial,
            )
            return _kept(np.broadcast_to(y, reduced(shape, axes)), shape, axes, keepdims)
        y = _kept(bind(p, a, axes=axes), shape, axes, keepdims)
        return y if initial is None else combine(y, initial)

    doc = f"``numpy.{p.name}``; ties share the derivative equally."
    return implements(*names, method=p.name)(named(function, p.name, doc))


max = _extreme(max_p, np.maximum, (np.max, np.amax))
min = _extreme(min_p, np.minimum, (np.min, np.amin))


def _truth(p, f):
    def function(a, axis=None, out=None, keepdims=False, *, where=True):
        refuse_out(p.name, out)
        a = as_value(a)
        if where is not True:
            a = np.where(where, np.not_equal(a, 0), p is all_p)
        shape = np.shape(a)
        axes = normal_axes(axis, len(shape))
        return _kept(bind(p, a, axes=axes), shape, axes, keepdims)

    return implements(f, method=p.name)(named(function, p.name))


any = _truth(any_p, np.any)
all = _truth(all_p, np.all)


def count(shape, axis, where):
    """Return the number of elements that each result of a reduction combines."""
    axes = normal_axes(axis, len(shape))
    if where is True:
        n = 1
        for i in axes:
            n *= shape[i]
        return n
    return np.sum(np.broadcast_to(where, shape), axis=axes)


@implements(np.mean, method="mean")
def mean(a, axis=None, dtype=None, out=None, keepdims=False, *, where=True):
    """``numpy.mean``."""
    a = as_value(a)
    own = np.result_type(a)
    if dtype is None and own.kind in "iub":
        dtype = np.dtype(float)
    n = count(np.shape(a), axis, where)
    if dtype is None and is_narrow(own):  # its sum may overflow, and has few digits
        return np.mean(a, axis, np.float32, out, keepdims, where=where).astype(own)
    return _divided(np.sum(a, axis=axis, dtype=dtype, out=out, keepdims=keepdims, where=where), n)


def _divided(total, n):
    """``total / n`` in the dtype of `total`, as NumPy's means."""
    if isinstance(n, (int, float)) and kind_of(np.result_type(total)) in "fc":
        return total / n
    return (total / (n if isinstance(n, (int, float)) else np.reshape(n, np.shape(total)))).astype(
        np.result_type(total)
    )


@implements(np.var, method="var")
def var(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=True, mean=None, correction=None):
    """``numpy.var``; real for complex arrays."""
    a = as_value(a)
    if correction is not None:
        ddof = correction
    if dtype is None and np.result_type(a).kind in "iub":
        dtype = np.dtype(float)
    own = np.result_type(a)
    if dtype is None and is_narrow(own):
        return var(np.astype(a, np.float32), axis, None, out, ddof, keepdims, where=where, mean=mean).astype(own)
    middle = np.mean(a, axis=axis, dtype=dtype, keepdims=True, where=where) if mean is None else mean
    away = a - middle
    squares = np.real(away) ** 2 + np.imag(away) ** 2 if np.result_type(away).kind == "c" else away * away
    n = count(np.shape(a), axis, where) - ddof
    n = builtins.max(n, 0) if isinstance(n, (int, float)) else np.maximum(n, 0)
    return _divided(np.sum(squares, axis=axis, dtype=dtype, out=out, keepdims=keepdims, where=where), n)


def _root_slope(out, s):
    zero = np.equal(out, 0)
    return np.where(zero, 0, 0.5 / np.where(zero, 1, out))


norm_root = elementwise(
    "norm_root",
    impl=np.sqrt,
    loop=ufunc_loop(np.sqrt),
    d=(_root_slope,),
    emit="sqrt",
    domain=((0.3, 3.0),),
    after=remember,
    doc="The square root of a sum of squares; its derivative at 0 is 0, the norm's subgradient of least length.",
)


@implements(np.std, method="std")
def std(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=True, mean=None, correction=None):
    """``numpy.std``. Where all elements are equal its derivative is 0."""
    squared = var(a, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction)
    found, dtype = norm_root(squared), np.result_type(squared)
    return found if found.dtype == dtype else found.astype(dtype)


@implements(np.ptp)
def ptp(a, axis=None, out=None, keepdims=False):
    """``numpy.ptp``: maximum minus minimum."""
    return np.max(a, axis=axis, out=out, keepdims=keepdims) - np.min(a, axis=axis, out=out, keepdims=keepdims)


@implements(np.count_nonzero)
def count_nonzero(a, axis=None, *, keepdims=False):
    """``numpy.count_nonzero``."""
    return np.sum(as_value(a).astype(bool), axis=axis, keepdims=keepdims)


@implements(np.average)
def average(a, axis=None, weights=None, returned=False, *, keepdims=False):
    """``numpy.average``."""
    a = as_value(a)
    if weights is None:
        value = np.mean(a, axis=axis, keepdims=keepdims)
        total = np.broadcast_to(np.result_type(value).type(count(np.shape(a), axis, True)), np.shape(value))
        return (value, total) if returned else value
    weights = as_value(weights)
    if np.shape(weights) != np.shape(a):
        if axis is None:
            raise TypeError(
                f"Axis must be specified when shapes of a and weights differ, got {np.shape(a)} and {np.shape(weights)}"
            )
        axes = normal_axes(axis, np.ndim(a))
        if np.shape(weights) != tuple(np.shape(a)[i] for i in axes):
            raise ValueError(
                f"Shape of weights must be consistent with shape of a along specified axis, got {np.shape(weights)} "
                f"for {np.shape(a)}"
            )
        weights = np.reshape(weights, tuple(n if i in axes else 1 for i, n in enumerate(np.shape(a))))
    dtype = np.result_type(a, weights, *[float] * (np.result_type(a).kind in "iub"))
    weights = weights.astype(dtype)
    total = np.sum(np.broadcast_to(weights, np.shape(a)), axis=axis, keepdims=keepdims)
    value = np.sum(a * weights, axis=axis, keepdims=keepdims) / total
    return (value, np.broadcast_to(total, np.shape(value))) if returned else value


# -- with NaN left out
# ------------------------------------------------------------------------------------------------------


def _without_nan(name, f, fill):
    def function(a, axis=None, *args, **kwargs):
        a = as_value(a)
        dtype = np.result_type(a)
        if dtype.kind in "fc":
            a = np.where(np.isnan(a), dtype.type(fill), a)
        return f(a, axis, *args, **kwargs)

    return implements(getattr(np, name))(named(function, name))


nansum = _without_nan("nansum", sum, 0)
nanprod = _without_nan("nanprod", prod, 1)
nanargmax = _without_nan("nanargmax", argmax, -np.inf)
nanargmin = _without_nan("nanargmin", argmin, np.inf)


def _nan_extreme(name, f, fill):
    def function(a, axis=None, out=None, keepdims=False, initial=None, where=True):
        a = as_value(a)
        if kind_of(np.result_type(a)) != "f":
            return f(a, axis, out, keepdims, initial, where)
        missing = np.isnan(a)
        found = f(np.where(missing, np.result_type(a).type(fill), a), axis, out, keepdims, initial, where)
        return np.where(np.all(missing, axis=axis, keepdims=keepdims), np.nan, found).astype(np.result_type(a))

    return implements(getattr(np, name))(named(function, name))


nanmax = _nan_extreme("nanmax", max, -np.inf)
nanmin = _nan_extreme("nanmin", min, np.inf)


def _nan_moment(name, f):
    def function(a, axis=None, dtype=None, out=None, *args, where=True, **kwargs):
        present = ~np.isnan(a)
        safe = np.where(present, a, np.result_type(a).type(0))
        return f(safe, axis, dtype, out, *args, where=present if where is True else present & where, **kwargs)

    return implements(getattr(np, name))(named(function, name))


nanmean = _nan_moment("nanmean", mean)
nanvar = _nan_moment("nanvar", var)
nanstd = _nan_moment("nanstd", std)

# -- reductions as methods of ufuncs
# ----------------------------------------------------------------------------------------


def _as_method(ufunc, f):
    @implements((ufunc, "reduce"))
    def reduce(array, axis=0, dtype=None, out=None, keepdims=False, **kwargs):
        if f in (sum, prod):
            kwargs["dtype"] = dtype
        return f(array, axis=axis, out=None if out == (None,) else out, keepdims=keepdims, **kwargs)


for _ufunc, _f in (
    (np.add, sum),
    (np.multiply, prod),
    (np.maximum, max),
    (np.minimum, min),
    (np.logical_or, any),
    (np.logical_and, all),
):
    _as_method(_ufunc, _f)
