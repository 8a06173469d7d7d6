"""Indexing by traced values and assignment of them into plain arrays, in converted functions.

``out = np.zeros(n)`` is an ndarray, which cannot hold traced values. ``out[i] = v`` with a traced `v` or `i` therefore
makes a traced array of it and binds the name `out` to that. Nobody can tell the difference as long as this name is all
that refers to the array; if anything else does (another name, a view, the caller, a default argument), it would keep
the old values, and the assignment is an error.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import TracerError
from ...graph.trace import user_source
from ...ops.define import has_tensor
from ...ops.index import getitem, is_mask, setitem
from ...tensor import Tensor
from ...views import hide, own_array, sharing
from .pure import check_target

__all__ = ["AssignedInto"]

_OPERATORS = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mult": operator.mul,
    "Div": operator.truediv,
    "FloorDiv": operator.floordiv,
    "Mod": operator.mod,
    "Pow": operator.pow,
    "MatMult": operator.matmul,
    "BitAnd": operator.and_,
    "BitOr": operator.or_,
    "BitXor": operator.xor,
    "LShift": operator.lshift,
    "RShift": operator.rshift,
}
_IN_PLACE = {k: getattr(operator, f"__i{f.__name__.strip('_')}__") for k, f in _OPERATORS.items()}


def item(x: Any, index: Any) -> Any:
    """``x[index]``"""
    return getitem(x, index) if type(x) is np.ndarray and has_tensor(index) else x[index]


def assign(value: Any, get: Callable[[], Any], index: Any) -> Any:
    """Return the new value of the variable read by `get` after ``x[index] = value``."""
    if type(get()) is np.ndarray and (has_tensor(value) or has_tensor(index)):
        _check_alone(get, "x[i] = v")
        return _own(setitem(get(), index, value))
    check_target(get())
    x = get()
    x[index] = value
    return x


def update_at(kind: str, get: Callable[[], Any], index: Any, value: Callable[[], Any]) -> Any:
    """Return the new value of the variable after ``x[index] += value()`` (or another operator)."""
    if isinstance(index, Tensor) and is_mask(index) and isinstance(get(), Tensor):
        x = get()
        x[...] = _where_masked(kind, x, index, value())
        return x
    if type(get()) is not np.ndarray:
        check_target(get())
        x = get()
        x[index] = _IN_PLACE[kind](x[index], value())
        return x
    v = value()
    if has_tensor(index) or has_tensor(v):
        _check_alone(get, "x[i] += v")
        x = get()
        return _own(setitem(x, index, _fitting(_OPERATORS[kind](getitem(x, index), v), x)))
    x = get()
    x[index] = _IN_PLACE[kind](x[index], v)
    return x


def update(kind: str, get: Callable[[], Any], value: Callable[[], Any]) -> Any:
    """Return the new value of the variable after ``x += value()`` (or another operator)."""
    if type(get()) is not np.ndarray:
        check_target(get())
        return _IN_PLACE[kind](get(), value())
    v = value()
    if not isinstance(v, Tensor):
        return _IN_PLACE[kind](get(), v)
    _check_alone(get, "x += v")
    x = get()
    return _own(setitem(x, ..., _fitting(_OPERATORS[kind](x, v), x)))


def _own(x):
    """An array of its own; no traced one where a derivative ends, as in integers."""
    return own_array(x) if isinstance(x, Tensor) else np.array(x)


def _where_masked(kind, x, mask, v):
    """Apply the operator to ``x`` where the mask, whose number of elements is not yet known, is true."""
    inner = np.ndim(x) - np.ndim(mask)
    if np.shape(x)[: np.ndim(mask)] != np.shape(mask):
        raise IndexError(
            f"boolean index did not match indexed array: shape {np.shape(x)} but mask of shape {np.shape(mask)}"
        )
    if np.ndim(v) > inner:
        raise TracerError(
            f"x[mask] += v: with a traced mask, v must be a scalar or have the shape of one element x[i], got "
            f"{np.shape(v)} "
            "(use np.where(mask, x + values, x) with values of x's shape)"
        )
    return np.where(np.reshape(mask, np.shape(mask) + (1,) * inner), _OPERATORS[kind](x, v), x)


def _fitting(new, x):
    """The result of an in-place operator, if it can be held by an array like `x`."""
    if not np.can_cast(new.dtype, x.dtype, "same_kind"):
        raise np.exceptions.DTypePromotionError(
            f"in-place operation: cannot cast the result from {new.dtype} to {x.dtype} with rule 'same_kind'"
        )
    return new


def put(value: Any, x: Any, index: Any) -> None:
    """``x[index] = value`` where `x` is not a variable of the function that could be rebound."""
    check_target(x, owned=False)
    if type(x) is np.ndarray and (has_tensor(value) or has_tensor(index)):
        raise _refusal("x[i] = v")
    x[index] = value


def put_update(kind: str, x: Any, index: Any, value: Callable[[], Any]) -> None:
    """``x[index] += value()`` where `x` is not a variable of the function."""
    check_target(x, owned=False)
    old, v = x[index], value()
    if type(x) is np.ndarray and has_tensor(v):
        raise _refusal("x[i] += v")
    x[index] = _IN_PLACE[kind](old, v)


# -- assignment inside traced statements
# ----------------------------------------------------------------------------------


_SHARED = (
    "x[i] = v: an if statement or loop on traced values assigns into an array, and reads another one that shares its "
    "memory, "
    "whose new values it cannot see (use one name for the array there, and make views of it inside)"
)


class AssignedInto:
    """Return which variables of a branch or loop are assigned into, not rebound: other names of their arrays must see
    that.

    Under tracing the variables stand for other Tensors, and get new values when the statement is done. `settle` puts
    these into the Tensors that were there before.
    """

    def __init__(self, get: Callable[[], Any]):
        self.before, self.shared = _values_and_shared(get)
        self.changed: set[int] = set()
        self.bound_anew: set[int] = set()

    def run(self, body: Callable[[], Any], get: Callable[[], Any]) -> Any:
        """``body()``, once the variables have their traced values."""
        given = [(v, v._identity()) if isinstance(v, Tensor) else None for v in get()]
        hidden: list[Callable[[], None]] = []
        try:
            self._watch([g and g[0] for g in given], hidden)
            out = body()
        finally:
            for show in hidden:
                show()
        for k, (old, new) in enumerate(zip(given, get(), strict=True)):
            if old is not None and new is not old[0]:
                self.bound_anew.add(k)
            elif old is not None and new._identity() != old[1]:
                self.changed.add(k)
        return out

    def _watch(self, given, hidden):
        """Let a write into one of the traced values hide what shares memory with the array that the value stands
        for.
        """
        for k, inner in enumerate(given):
            old = self.before[k]
            others = sharing(old) if isinstance(inner, Tensor) and isinstance(old, Tensor) and inner is not old else []
            if not others:
                continue
            rivals = [
                given[j]
                for j, o in enumerate(self.before)
                if any(o is other for other in others) and isinstance(given[j], Tensor)
            ]
            for t in (inner, *rivals):
                if t._link is None:
                    own_array(t)

            def write(others=others, rivals=rivals):
                for other in others:
                    if not (other._link.stale or other._link.torn):
                        hidden.append(hide(other, _SHARED))
                for rival in rivals:
                    hide(rival, _SHARED)

            inner._link.family.on_write = write

    def during(self, test: Callable[[], Any]) -> Any:
        """``test()`` of a loop, while what shares memory with variables that the loop assigns into cannot be read."""
        others = [
            o
            for k in self.changed - self.bound_anew
            for o in sharing(self.before[k])
            if not (o._link.stale or o._link.torn)
        ]
        hidden = [hide(o, _SHARED) for o in others]
        try:
            return test()
        finally:
            for show in hidden:
                show()

    def settle(self, values: Any, place: str) -> list[Any]:
        """The values that the variables have after the statement."""
        values = list(values)
        for k in self.changed - self.bound_anew:
            if k in self.shared:
                raise _refusal(f"x[i] = v in the {place}")
            if any(
                j != k and other is self.before[k] and j not in self.bound_anew for j, other in enumerate(self.before)
            ):
                raise TracerError(
                    f"x[i] = v in the {place}: one array is assigned into by two names there (use one of them)"
                )
        for k in self.changed - self.bound_anew:
            old, new = self.before[k], values[k]
            if isinstance(old, Tensor) and isinstance(new, Tensor) and old.level == new.level:
                old._become(new)
                values[k] = old
        return values


def _values_and_shared(get):
    values = get()
    shared = set()
    for k in range(len(values)):
        if type(values[k]) is np.ndarray and (sys.getrefcount(values[k]) > _LISTED or not _base_is_alone(values[k])):
            shared.add(k)
    return values, shared


def _listed():
    array = np.zeros(2)

    def get():
        return [array]

    values = get()
    return sys.getrefcount(values[0])


# -- whether a variable is all that refers to an array
# --------------------------------------------------------------------


def _references(get):
    x = get()
    return sys.getrefcount(x), sys.getrefcount(x.base)


def _least(array):
    return _references(lambda: array)


_ALONE, _BASE_ALONE = _least(np.zeros(2))[0], _least(np.zeros(2).reshape(1, 2))[1]
_LISTED = _listed()


def _base_is_alone(x):
    return x.base is None or (type(x.base) is np.ndarray and sys.getrefcount(x.base) <= _BASE_ALONE)


def _check_alone(get, what):
    if _references(get)[0] > _ALONE or not _base_is_alone(get()):
        raise _refusal(what)


def _refusal(what):
    return TracerError(
        f"{what}: a traced value cannot be put into a plain array unless a local variable is all that refers to it, "
        f"here another name, a view, "
        f"an argument, an attribute or a function around would keep the old values, at {user_source()} "
        "(make it with np.zeros_like(x) of a traced x, or assign into a copy)"
    )
