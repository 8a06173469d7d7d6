"""Definition of elementwise primitives: a ufunc, its partial derivatives and the code of one element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..dtypes import FLOAT32, is_bfloat16
from ..foreign import as_plain
from ..graph.graph import Spec
from ..graph.primitive import Primitive
from ..graph.trace import bind
from ..tensor import VALUES, Tensor, implements

__all__ = [
    "MINUS_ONE",
    "ONE",
    "as_value",
    "batch_elementwise",
    "batch_first",
    "broadcast_shapes",
    "elementwise",
    "bfloat16_among",
    "has_tensor",
    "move_batch_axis",
    "named",
    "promoted",
    "refuse_out",
    "scalar_or_array",
    "ufunc_loop",
]

_PYTHON = {"b": bool, "i": int, "f": float, "c": complex}
ONE, MINUS_ONE = "one", "minus one"


def as_value(x: Any) -> Any:
    """Arrays, numbers and Tensors as they are; sequences, of Tensors too, become arrays."""
    if isinstance(x, VALUES):
        return x
    if has_tensor(x):  # a Python number in an array has the dtype that it has alone
        return np.stack([np.asarray(i) if isinstance(i, (bool, int, float, complex)) else as_value(i) for i in x])
    a = np.asarray(as_plain(x, "core"))
    if a.dtype == object:
        raise TypeError(f"expected arrays and numbers, got {type(x).__name__} {x!r}")
    return a


def scalar_or_array(x: Any) -> Any:
    """`x`, as a scalar if it has no dimensions: what ``x[()]`` is for NumPy."""
    return x if np.ndim(x) else x[()]


def has_tensor(x: Any) -> bool:
    """Return True if nested lists and tuples contain a Tensor."""
    if isinstance(x, (list, tuple)):
        return any(has_tensor(i) for i in x)
    return isinstance(x, Tensor)


def refuse_out(name: str, out: Any) -> None:
    """Raise TypeError if a result is to be written into an array that is given."""
    if out is not None:
        raise TypeError(f"{name}: out= is not supported for traced values (use the result)")


def named(f: Callable, name: str, doc: str = "") -> Callable:
    """A function that was made by another, with its public name and its docstring (by default, NumPy's name)."""
    f.__name__ = f.__qualname__ = name
    f.__doc__ = doc or f"``numpy.{name}``."
    return f


@lru_cache(maxsize=4096)
def _resolve(ufunc, keys):
    return ufunc.resolve_dtypes((*[_PYTHON[k] if len(k) == 1 else np.dtype(k) for k in keys], *[None] * ufunc.nout))


def ufunc_loop(ufunc: np.ufunc) -> Callable[..., tuple[np.dtype, ...]]:
    """The dtypes NumPy computes with, by its own promotion."""

    def loop(*specs: Spec) -> tuple[np.dtype, ...]:
        keys = []
        for s in specs:
            # ufuncs without a bool loop refuse the Python type bool but take the dtype
            keys.append(s.dtype.kind if s.weak and s.dtype.kind != "b" else s.dtype.str)
        narrow = bfloat16_among(specs)
        if narrow is None:
            return _resolve(ufunc, tuple(keys))
        found = _resolve(ufunc, tuple(["<f4" if is_bfloat16(s.dtype) else k for s, k in zip(specs, keys, strict=True)]))
        own = all(s.weak or is_bfloat16(s.dtype) for s in specs)
        return tuple([narrow if own and d == FLOAT32 else d for d in found])

    return loop


def bfloat16_among(specs: Sequence[Spec]) -> np.dtype | None:
    """The dtype bfloat16 if one of `specs` has it. Python numbers next to it are bfloat16, too."""
    return next((s.dtype for s in specs if is_bfloat16(s.dtype)), None)


def promoted(*specs: Spec) -> np.dtype:
    """``np.result_type`` of `specs`, in which weak ones are Python numbers."""
    narrow = bfloat16_among(specs)
    return np.result_type(
        *[
            (narrow if narrow is not None and s.dtype.kind in "if" else s.dtype.type(0).item()) if s.weak else s.dtype
            for s in specs
        ]
    )


def broadcast_shapes(name: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that `shapes` broadcast to. The error names the operation `name`."""
    if all(s == shapes[0] for s in shapes[1:]):
        return shapes[0]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(
            f"{name}: operands could not be broadcast together with shapes {' '.join(map(str, shapes))}"
        ) from None


def elementwise(
    name: str,
    ufunc: np.ufunc | None = None,  # defines implementation and promotion, and is redirected here for Tensors
    *,
    impl: Callable | None = None,  # implementation in NumPy; default: `ufunc`
    loop: Callable | None = None,  # loop(*specs) -> dtypes of the inputs and the output; default: those of `ufunc`
    # a partial derivative per argument: factor(out, *args), NumPy code on arrays or Tensors, or ONE, MINUS_ONE, None
    d: Sequence[Any] | None = None,
    emit: Any = None,  # emit(b, *values) with a scalar builder, or the name of the builder's function
    domain: Any = None,  # (low, high) for each argument, the inputs of the conformance tests
    flops: float = 1.0,  # per element
    keeps_weak: bool = False,  # Python numbers in, Python number out (arithmetic operators)
    also: tuple = (),  # further NumPy functions that are redirected here
    method: str | None = None,  # name of the method of Tensor that calls the function
    operators: tuple[str, ...] = (),  # names of the special methods of Tensor that call it
    doc: str | None = None,
    before: Callable | None = None,  # before(*args) -> the result where a better form is known, else None
    after: Callable | None = None,  # after(out, name, args) -> the result
) -> Callable:
    """Define an elementwise primitive and return its public function."""
    impl = impl or ufunc
    loop = loop or ufunc_loop(ufunc)

    def spec(*specs):
        dtype = loop(*specs)[-1]
        weak = keeps_weak and all(s.weak for s in specs)
        return Spec(broadcast_shapes(name, *[s.shape for s in specs]), dtype, weak)

    p = Primitive(
        name, impl, spec, kind="elementwise", emit=emit, flops=flops, domain=domain, differentiable=d is not None
    )
    p.loop = loop
    if d is not None:
        p.defvjp(*[_times(f) for f in d])
        p.defjvp(*[_times(f) for f in d])
    p.defbatch(lambda args, axes, size, **params: batch_elementwise(p, args, axes, params))

    def function(*args, **kwargs):
        if kwargs:
            return _with_keywords(name, function, args, kwargs)
        for a in args:
            if not isinstance(a, VALUES):
                args = [as_value(a) for a in args]
                break
        if before is not None and (found := before(*args)) is not None:
            return found
        return bind(p, *args) if after is None else after(bind(p, *args), name, args)

    function.primitive = p  # type: ignore[attr-defined]
    named(function, name, doc or f"Elementwise {name}, as ``numpy.{name}``.")
    return implements(*([ufunc] if ufunc is not None else []), *also, method=method, operators=operators)(function)


def _with_keywords(name, function, args, kwargs):
    """dtype= and where= of ufuncs; the rest does not change values (order, subok) or is refused."""
    dtype, where, casting = kwargs.pop("dtype", None), kwargs.pop("where", True), kwargs.pop("casting", "same_kind")
    for k in ("order", "subok"):
        kwargs.pop(k, None)
    if kwargs or casting != "same_kind":
        raise TypeError(f"{name}: keyword(s) {sorted(kwargs) or ['casting']} are not supported for traced values")
    if where is not True:
        raise TypeError(
            f"{name}: where= leaves elements undefined without out= (use np.where(condition, {name}(x), other))"
        )
    result = function(*args)
    return result if dtype is None else result.astype(dtype)


def _times(f):
    """Rule of one argument, for cotangents and tangents alike: times the partial derivative."""
    if f is None:
        return None
    if f is ONE:
        return lambda t, out, *args: t
    if f is MINUS_ONE:
        return lambda t, out, *args: -t
    return lambda t, out, *args: t * f(out, *args)


def move_batch_axis(x: Any, axis: int | None, size: int, to: int = 0) -> Any:
    """`x` with its batch axis at `to`, made by stretching where there is none."""
    if axis is None:
        shape = np.shape(x)
        if to:
            x = np.reshape(x, (*shape[:to], 1, *shape[to:]))
        return np.broadcast_to(x, (*shape[:to], size, *shape[to:]))
    return np.moveaxis(x, axis, to) if axis != to else x


def batch_first(args: Sequence[Any], axes: Sequence[int | None], size: int) -> list[Any]:
    """All arguments with a batch axis in front (for batching rules)."""
    return [move_batch_axis(x, axis, size) for x, axis in zip(args, axes, strict=True)]


def batch_elementwise(
    p: Primitive, args: Sequence[Any], axes: Sequence[int | None], params: dict[str, Any]
) -> tuple[Any, int]:
    """Batching rule of everything elementwise: batch axes to the front, ranks aligned behind them."""
    rank = max(np.ndim(a) - (ax is not None) for a, ax in zip(args, axes, strict=True))
    moved = []
    for a, ax in zip(args, axes, strict=True):
        if ax is not None:
            if ax:
                a = np.moveaxis(a, ax, 0)
            missing = rank - (np.ndim(a) - 1)
            if missing:
                a = np.reshape(a, (np.shape(a)[0], *(1,) * missing, *np.shape(a)[1:]))
        moved.append(a)
    return bind(p, *moved, **params), 0
