"""A graph run operation by operation, watching for the first value that is not finite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dtypes import kind_of
from ..graph.graph import Const, Graph, Var
from ..graph.trace import bind, describe

__all__ = ["run_checked"]


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


def _not_finite(x):
    """Index of the first element that is not finite, or None."""
    x = np.asarray(x)
    if kind_of(x.dtype) not in "fc" or np.isfinite(x).all():
        return None
    return tuple(int(i[0]) for i in np.nonzero(~np.isfinite(np.atleast_1d(x))))
