"""Running totals: cumsum, cumprod, running maximum and minimum, first-order linear recurrences, differences."""

from __future__ import annotations

import operator

import numpy as np

from ..graph.graph import Spec, spec_of
from ..graph.primitive import Primitive
from ..graph.trace import bind
from ..tensor import Tensor, implements
from .define import as_value, batch_first, named, refuse_out
from .gather import gather_p, scatter_p
from .reduce import sum_dtype
from .shape import normal_axis, open_grid, part

__all__ = ["recurrence_p"]


def _scan_primitive(name, ufunc, differentiable=True):
    """A primitive that keeps every partial result of a ufunc along `axis`, from the end with `reverse`."""

    def impl(x, *, axis, reverse):
        if reverse:
            return np.flip(ufunc.accumulate(np.flip(x, axis), axis, x.dtype), axis)
        return ufunc.accumulate(x, axis, x.dtype)

    p = Primitive(
        name,
        impl,
        lambda x, *, axis, reverse: Spec(x.shape, x.dtype),
        kind="scan",
        differentiable=differentiable,
        samples=lambda rng: [
            ((rng.normal(size=(3, 4)),), {"axis": a, "reverse": r}) for a in (0, 1) for r in (False, True)
        ],
    )

    @p.defbatch
    def _(args, axes, size, *, axis, reverse):
        ax = axes[0]
        return bind(p, args[0], axis=axis + (axis >= ax), reverse=reverse), ax

    return p


cumsum_p = _scan_primitive("cumsum", np.add)
cumsum_p.defvjp(lambda ct, out, x, *, axis, reverse: bind(cumsum_p, ct, axis=axis, reverse=not reverse))
cumsum_p.defjvp("same")

# -- linear recurrence
# ------------------------------------------------------------------------------------------------------


def _recurrence(a, b, *, axis, reverse):
    a, b = np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0)
    out = np.empty_like(b)
    n = len(b)
    if n:
        order = range(n)[::-1] if reverse else range(n)
        s = out[order[0]] = b[order[0]]
        for i in order[1:]:
            s = out[i] = a[i] * s + b[i]
    return np.moveaxis(out, 0, axis)


recurrence_p = Primitive(
    "recurrence",
    _recurrence,
    lambda a, b, *, axis, reverse: Spec(b.shape, b.dtype),
    kind="scan",
    flops=2,
    samples=lambda rng: [
        ((rng.normal(size=(3, 4)), rng.normal(size=(3, 4))), {"axis": a, "reverse": r})
        for a in (0, 1)
        for r in (False, True)
    ],
)
recurrence_p.__doc__ = """s[i] = a[i] s[i-1] + b[i] along `axis`, with s[0] = b[0].

With `reverse`, the recurrence s[i] = a[i] s[i+1] + b[i] runs from the end. Its derivatives are
recurrences of the same kind, so that all orders cost the same."""


def _shifted(x, axis, by):
    """`x` moved `by` (1 or -1) places along `axis`, zeros coming in."""
    n = np.shape(x)[axis]
    if n == 0:
        return x
    zero = np.zeros_like(part(x, axis, 0, 1))
    return np.concatenate([zero, part(x, axis, 0, n - 1)] if by > 0 else [part(x, axis, 1, n), zero], axis=axis)


@recurrence_p.defvjp_all
def _(ct, out, args, needed, *, axis, reverse):
    a, b = args
    back = -1 if not reverse else 1
    # the cotangent obeys the recurrence backwards, each factor one place further on
    g = bind(recurrence_p, _shifted(a, axis, back), ct, axis=axis, reverse=not reverse)
    return [g * _shifted(out, axis, -back) if needed[0] else None, g]


@recurrence_p.defjvp_all
def _(tangents, out, args, *, axis, reverse):
    ta, tb = tangents
    drive = tb if ta is None else ta * _shifted(out, axis, 1 if not reverse else -1)
    if ta is not None and tb is not None:
        drive = drive + tb
    return bind(recurrence_p, args[0], drive, axis=axis, reverse=reverse)


@recurrence_p.defbatch
def _(args, axes, size, *, axis, reverse):
    return bind(recurrence_p, *batch_first(args, axes, size), axis=axis + 1, reverse=reverse), 0


# -- products ----------------------------------------------------------------------------------------------------------

cumprod_p = _scan_primitive("cumprod", np.multiply)


def _before(out, axis, reverse):
    """The product up to the previous element: 1 for the first."""
    n = np.shape(out)[axis]
    first = np.arange(n) == (n - 1 if reverse else 0)
    first = np.reshape(first, (-1,) + (1,) * (np.ndim(out) - axis - 1)).astype(spec_of(out).dtype)
    return _shifted(out, axis, -1 if reverse else 1) + first


@cumprod_p.defjvp
def _(t, out, x, *, axis, reverse):
    # P[i] = x[i] P[i-1], so that dP[i] = x[i] dP[i-1] + P[i-1] dx[i]: right with zeros as well
    return bind(recurrence_p, x, t * _before(out, axis, reverse), axis=axis, reverse=reverse)


@cumprod_p.defvjp
def _(ct, out, x, *, axis, reverse):
    if 0 in np.shape(x):
        return ct
    if not isinstance(x, Tensor) and not isinstance(out, Tensor) and np.all(out != 0) and np.all(np.isfinite(out)):
        return bind(cumsum_p, ct * out, axis=axis, reverse=not reverse) / x
    return _before(out, axis, reverse) * bind(
        recurrence_p, _shifted(x, axis, 1 if reverse else -1), ct, axis=axis, reverse=not reverse
    )


# -- running extremes --------------------------------------------------------------------------------------------------


def _holder(out, x, axis, reverse):
    """Along `axis`, the position of the element that each running extreme is: the latest of equal ones."""
    n = np.shape(x)[axis]
    place = np.reshape(np.arange(n), (-1,) + (1,) * (np.ndim(x) - axis - 1))
    if reverse:
        place = np.where(np.equal(x, out), place, n - 1)
        return bind(cummin_p, np.broadcast_to(place, np.shape(x)), axis=axis, reverse=True)
    return bind(cummax_p, np.broadcast_to(np.where(np.equal(x, out), place, 0), np.shape(x)), axis=axis, reverse=False)


def _along(x, axis, index, rule):
    """gather or scatter along one axis with an index array of the shape of `x`."""
    shape = np.shape(x)
    indices = open_grid(shape)
    indices[axis] = index
    known = tuple(a != axis or not isinstance(index, Tensor) for a in range(len(shape)))
    return rule(indices, known)


def _extreme(name, ufunc):
    p = _scan_primitive(name, ufunc)

    @p.defjvp
    def _(t, out, x, *, axis, reverse):
        return _along(
            t, axis, _holder(out, x, axis, reverse), lambda indices, known: bind(gather_p, t, *indices, in_range=known)
        )

    @p.defvjp
    def _(ct, out, x, *, axis, reverse):
        zero = np.zeros(np.shape(x), spec_of(ct).dtype)
        return _along(
            ct,
            axis,
            _holder(out, x, axis, reverse),
            lambda indices, known: bind(scatter_p, zero, ct, *indices, mode="add", unique=False, in_range=known),
        )

    return p


cummax_p = _extreme("cummax", np.maximum)
cummin_p = _extreme("cummin", np.minimum)

# -- NumPy's functions
# ------------------------------------------------------------------------------------------------------------


def _cumulative(p, name, functions, method=None, widens=True):
    def function(a, axis=None, dtype=None, out=None):
        refuse_out(name, out[0] if isinstance(out, tuple) else out)
        a = as_value(a)
        own = np.result_type(a)
        dtype = np.dtype(dtype) if dtype is not None else sum_dtype(own) if widens else own
        if dtype != own:
            a = a.astype(dtype)
        if axis is None:
            a, axis = np.ravel(a), 0
        elif widens and not np.ndim(a):  # as NumPy's sums and products
            a = np.reshape(a, (1,))
        return bind(p, a, axis=normal_axis(axis, np.ndim(a)), reverse=False)

    return implements(*functions, method=method)(named(function, name))


cumsum = _cumulative(cumsum_p, "cumsum", (np.cumsum,), "cumsum")
cumprod = _cumulative(cumprod_p, "cumprod", (np.cumprod,), "cumprod")


def _accumulate(ufunc, p, widens):
    f = _cumulative(p, f"{ufunc.__name__}.accumulate", (), widens=widens)
    implements((ufunc, "accumulate"))(lambda array, axis=0, dtype=None, out=None: f(array, axis, dtype, out))


for _ufunc, _p, _widens in (
    (np.add, cumsum_p, True),
    (np.multiply, cumprod_p, True),
    (np.maximum, cummax_p, False),
    (np.minimum, cummin_p, False),
):
    _accumulate(_ufunc, _p, _widens)


def _cumulative_array_api(name, f, neutral):
    def function(x, /, *, axis=None, dtype=None, out=None, include_initial=False):
        x = as_value(x)
        if axis is None:
            if np.ndim(x) != 1:
                raise ValueError(
                    "For arrays which have more than one dimension ``axis`` argument is required, got shape "
                    f"{np.shape(x)}"
                )
            axis = 0
        y = f(x, axis, dtype, out)
        if include_initial:
            shape = list(np.shape(y))
            shape[axis] = 1
            y = np.concatenate([np.full(shape, neutral, np.result_type(y)), y], axis=axis)
        return y

    return implements(getattr(np, name))(named(function, name))


cumulative_sum = _cumulative_array_api("cumulative_sum", cumsum, 0)
cumulative_prod = _cumulative_array_api("cumulative_prod", cumprod, 1)


def _nan_cumulative(name, f, fill):
    function = lambda a, axis=None, dtype=None, out=None: f(
        np.where(np.isnan(a), np.result_type(a).type(fill), a), axis, dtype, out
    )
    return implements(getattr(np, name))(named(function, name))


nancumsum = _nan_cumulative("nancumsum", cumsum, 0)
nancumprod = _nan_cumulative("nancumprod", cumprod, 1)


@implements(np.diff, view=True)
def diff(a, n=1, axis=-1, prepend=np._NoValue, append=np._NoValue):
    """``numpy.diff``."""
    n = operator.index(n)
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n!r}")
    a = as_value(a)
    if np.ndim(a) == 0:
        raise ValueError("diff requires input that is at least one dimensional")
    axis = normal_axis(axis, np.ndim(a))
    parts = []
    for x in (prepend, a, append):
        if x is np._NoValue:
            continue
        if x is not a and np.ndim(x) == 0:
            shape = list(np.shape(a))
            shape[axis] = 1
            x = np.broadcast_to(x, tuple(shape))
        parts.append(x)
    if n == 0:
        return a
    a = np.concatenate(parts, axis) if len(parts) > 1 else a
    for _ in range(n):
        size = np.shape(a)[axis]
        later, earlier = part(a, axis, 1, size), part(a, axis, 0, max(size - 1, 0))
        a = np.not_equal(later, earlier) if np.result_type(a).kind == "b" else later - earlier
    return a


@implements(np.ediff1d)
def ediff1d(ary, to_end=None, to_begin=None):
    """``numpy.ediff1d``."""
    steps = np.diff(np.ravel(ary))
    first, last = ([] if x is None else [np.ravel(as_value(x)).astype(steps.dtype)] for x in (to_begin, to_end))
    parts = [*first, steps, *last]
    return np.concatenate(parts) if len(parts) > 1 else steps
