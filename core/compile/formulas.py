"""Formulas of single elements: what an element of a result costs, and how it is emitted from elements of the inputs."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from ..dtypes import is_narrow, widened
from ..graph.graph import Equation
from ..graph.primitive import Primitive
from .builder import Builder
from .scalars import NotEmittable, Value, real_of

__all__ = [
    "REDUCERS",
    "align",
    "cost_of",
    "emit_formula",
    "has_native_form",
    "index_key",
    "linear",
    "pull_element",
    "reshape_index",
]

REDUCERS = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or_", "all": "and_"}
_CHOOSES = frozenset(["absolute", "maximum", "minimum", "negative", "select"])  # one of the operands, or its opposite
_STEPS = frozenset(["nextafter", "spacing"])  # from a number to the next one, which wider registers do not know
_COSTS = {"divide": 4.0, "sqrt": 5.0, "power": 40.0, "remainder": 20.0, "floor_divide": 20.0, "reciprocal": 4.0}


def cost_of(eqn: Equation) -> float:
    """Operations per element."""
    p = eqn.primitive
    if p.name in _COSTS:
        return _COSTS[p.name]
    if isinstance(p.flops, (int, float)):
        return float(p.flops)
    if p.kind != "pull":
        return 1.0
    outs = [o.spec for o in eqn.outputs]
    return p.flops([a.spec for a in eqn.inputs], outs, **eqn.params) / outs[0].size


def index_key(index) -> tuple:
    """Return a hashable form of an index expression."""
    return tuple([(frozenset(i.terms.items()), i.offset) if i.terms is not None else i.name for i in index])


def align(b, index, shape, own):
    """Index into an operand of shape `own` that is broadcast to `shape`."""
    if own == shape:
        return index
    return [
        b.index(0) if n == 1 and m != 1 else i
        for i, n, m in zip(index[len(index) - len(own) :], own, shape[len(shape) - len(own) :], strict=True)
    ]


def linear(b: Builder, index: list[Value], shape: tuple[int, ...]) -> Value:
    """Offset of the element at `index` of a C-contiguous array."""
    offset, stride = b.index(0), 1
    for i, n in zip(index[::-1], shape[::-1], strict=True):
        if n != 1:
            offset = b.add(offset, b.mul(i, b.index(stride)))
        stride *= n
    return offset


def reshape_index(b, index, shape, own):
    """Index into an operand of shape `own` that is read with `shape`, both in C order."""
    position = b.index(0)
    for i, n in zip(index, shape, strict=True):
        position = b.add(b.mul(position, b.index(n)), i) if n != 1 else position
    out: list[Any] = []
    for n in own[::-1]:
        if len(out) == len(own) - 1:
            out.append(position)
            break
        out.append(b.mod(position, b.index(n)))
        position = b.floordiv(position, b.index(n))
    return out[::-1]


_emittable: weakref.WeakKeyDictionary[Primitive, dict[Any, bool]] = weakref.WeakKeyDictionary()


def has_native_form(eqn) -> bool:
    """Return True if the primitive can be emitted as native code for these dtypes. The result is cached."""
    p = eqn.primitive
    known = _emittable.setdefault(p, {}) if p.kind == "elementwise" else {}
    key: Any = (tuple([(a.spec.dtype, a.spec.weak) for a in eqn.inputs]), tuple(eqn.params.items()))
    try:
        if key in known:
            return known[key]
    except TypeError:  # parameters that are not hashable
        known, key = {}, None
    b = Builder()
    try:
        if p.kind == "elementwise":
            emit_formula(b, eqn, [_dummy(b, a.spec.dtype, k) for k, a in enumerate(eqn.inputs)])
        else:
            index = [b.atom(f"%t{k}", 0, 0, max(n - 1, 0)) for k, n in enumerate(eqn.outputs[0].spec.shape)]
            out = pull_element(b, eqn, index, lambda k, i: _dummy(b, eqn.inputs[k].spec.dtype, k))
            if out.dtype != widened(eqn.outputs[0].spec.dtype):
                raise NotEmittable(p.name)
        ok = True
    except (NotEmittable, NotImplementedError):
        ok = False
    known[key] = ok
    return ok


def _dummy(b, dtype, k) -> Value:
    if dtype.kind == "c":
        r = real_of(dtype)
        return Value(None, dtype, 0, (Value(f"%x{k}", r), Value(f"%y{k}", r)))
    return Value(f"%x{k}", widened(dtype))


def emit_formula(b: Builder, eqn: Equation, values: list[Value]) -> Value:
    """One element of an elementwise equation."""
    p = eqn.primitive
    if p.emit is None or p.loop is None:
        raise NotEmittable(p.name)
    dtypes = p.loop(*[a.spec for a in eqn.inputs], **eqn.params)
    if p.name in _STEPS and is_narrow(dtypes[0]):
        raise NotEmittable(p.name)
    values = [b.cast(v, d) for v, d in zip(values, dtypes, strict=False)]
    emit = getattr(b, p.emit) if isinstance(p.emit, str) else None
    out = emit(*values) if emit is not None else p.emit(b, *values, **eqn.params)
    dtype = eqn.outputs[0].spec.dtype
    return b.keep(out, dtype) if is_narrow(dtype) and p.name in _CHOOSES and out.const is None else b.cast(out, dtype)


def pull_element(b: Builder, eqn: Equation, index: list[Value], load) -> Value:
    """One element of an equation that reads through index expressions; ``load(k, index)`` reads input k."""
    p = eqn.primitive
    own = [a.spec.shape for a in eqn.inputs]
    out = eqn.outputs[0].spec
    if p.kind == "reshape":
        return load(0, reshape_index(b, index, out.shape, own[0]))
    if p.name == "broadcast_to":
        return load(0, align(b, index, out.shape, own[0]))
    if p.kind == "reduce":
        return _small_reduction(b, eqn, index, load)
    loads = [lambda i, k=k: load(k, list(i)) for k in range(len(own))]
    return p.pull(b, index, loads, [a.spec for a in eqn.inputs], out, **eqn.params)


def _small_reduction(b, eqn, index, load):
    axes, shape = eqn.params["axes"], eqn.inputs[0].spec.shape
    combine = getattr(b, REDUCERS[eqn.primitive.name])
    total = None
    for place in np.ndindex(*[shape[a] for a in axes]):
        rest = iter(index)
        at = [b.index(place[axes.index(a)]) if a in axes else next(rest) for a in range(len(shape))]
        x = b.cast(load(0, at), eqn.outputs[0].spec.dtype)
        total = x if total is None else combine(total, x)
    return total
