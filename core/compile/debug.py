"""A graph run operation by operation, to find the first value that is not finite or index that is out of bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dtypes import kind_of
from ..errors import IndexOutOfBoundsError
from ..graph.graph import Const, Graph, Var
from ..graph.trace import bind, describe

__all__ = ["located", "run_checked"]


def run_checked(graph: Graph, args: Sequence[Any], name: str) -> list[Any]:
    """Compute the outputs of `graph` with NumPy, and watch for the first value that is not finite.

    Raise FloatingPointError at the first operation that makes a NaN or an infinity from finite values. The message
    names the operation, the shapes, the index in the result and the line that asked for it.
    """
    env: dict[Var, Any] = dict(zip(graph.inputs, args, strict=True))
    for eqn in graph.equations:
        values = [a.value if type(a) is Const else env[a] for a in eqn.inputs]
        inner = eqn.params.get("graph") or eqn.params.get("body")
        with np.errstate(all="ignore"):
            out = bind(eqn.primitive, *values, **eqn.params)
        outs = out if eqn.primitive.multiple else (out,)
        for o in outs:
            bad = _not_finite(o)
            if bad is not None and all(_not_finite(v) is None for v in values):
                what = "NaN" if np.any(np.isnan(o)) else "infinity"
                hint = f" (inside {inner.name})" if isinstance(inner, Graph) else ""
                raise FloatingPointError(
                    f"{name}: {eqn.primitive.name}({describe(values)}) gave {what} at index {bad}{hint}, at "
                    f"{eqn.source}"
                )
        env.update(zip(eqn.outputs, outs, strict=True))
    return [o.value if type(o) is Const else env[o] for o in graph.outputs]


def located(error: IndexOutOfBoundsError, graph: Graph, args: Sequence[Any]) -> IndexOutOfBoundsError:
    """Return the error of a program with the index that it met, and its place among the indices.

    NumPy finds it; what only loops and branches compute would take too long.
    """
    env: dict[Var, Any] = dict(zip(graph.inputs, args, strict=True))
    for eqn in graph.equations:
        values = [a.value if type(a) is Const else env.get(a) for a in eqn.inputs]
        if eqn.primitive.kind == "control" or any(v is None for v in values):
            continue
        in_range = eqn.params.get("in_range", ())
        for axis, index in enumerate(values[len(values) - len(in_range) :]):
            n = np.shape(values[0])[axis]
            wrong = np.argwhere((np.asarray(index) < -n) | (np.asarray(index) >= n))
            if len(wrong):
                place, own = tuple(map(int, wrong[0])), np.shape(index)
                labels = next((k for k in range(len(own), 0, -1) if own[k - 1] > 1), 0)  # labels become a column
                at = f" at {place[:labels]}" if labels else ""
                said = (
                    eqn.source
                    and eqn.source.indices
                    or (f"index {np.asarray(index)[place]} is out of bounds for axis {axis} with size {n}")
                )
                return IndexOutOfBoundsError(f"{said}{at} (at {eqn.source})")
        with np.errstate(all="ignore"):
            out = bind(eqn.primitive, *values, **eqn.params)
        env.update(zip(eqn.outputs, out if eqn.primitive.multiple else (out,), strict=True))
    return error


def _not_finite(x):
    """Index of the first element that is not finite, or None."""
    x = np.asarray(x)
    if kind_of(x.dtype) not in "fc" or np.isfinite(x).all():
        return None
    return tuple(int(i[0]) for i in np.nonzero(~np.isfinite(np.atleast_1d(x))))
