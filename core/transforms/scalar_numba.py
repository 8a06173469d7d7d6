"""Elementwise functions inside the user's own Numba code: Python source written from the scalar graph."""

from __future__ import annotations

import linecache
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..graph.graph import Const, Graph
from ..kernels.njit import FASTMATH

__all__ = ["device_function", "source"]

_INFIX = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "floor_divide": "//", "remainder": "%", "power": "**",
    "equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=",
    "logical_and": "and", "logical_or": "or", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
}  # fmt: skip
_PREFIX = {"negative": "-", "logical_not": "not ", "invert": "~"}
# what Numba has in math and is not a ufunc of the same name
_CALL = {"erf": "math.erf", "erfc": "math.erfc", "gammaln": "math.lgamma", "gamma": "math.gamma", "sqrt": "math.sqrt"}


def source(graph: Graph, name: str, arguments: tuple[str, ...]) -> str:
    """Return the graph as the text of a Python function that Numba compiles to the same numbers.

    Raise NotImplementedError if an operation has no such form.
    """
    names: dict[Any, str] = dict(zip(graph.inputs, arguments, strict=True))
    lines = [f"def {name}({', '.join(arguments)}):"]

    def read(atom, dtype):
        dtype = np.dtype(dtype)
        if type(atom) is Const:
            return _constant(atom.value, dtype)
        return names[atom] if atom.spec.dtype == dtype or dtype.kind == "b" else f"np.{dtype.name}({names[atom]})"

    for i, eqn in enumerate(graph.equations):
        p = eqn.primitive
        if p.kind != "elementwise":
            raise NotImplementedError(f"elementwise {name}: {p.name} has no form inside Numba code (call it outside)")
        dtypes = p.loop(*[a.spec for a in eqn.inputs], **eqn.params)  # of the inputs, then of the output
        text = _expression(
            p.name,
            [read(a, d) for a, d in zip(eqn.inputs, dtypes, strict=False)],
            eqn.params,
            np.dtype(dtypes[-1]),
            name,
        )
        (out,) = eqn.outputs
        names[out] = f"v{i}_"
        lines.append(f"    v{i}_ = {text}")
    out = graph.outputs[0]
    lines.append(f"    return {read(out, out.spec.dtype)}")
    return "\n".join(lines) + "\n"


def _constant(value, dtype):
    value = dtype.type(value).item()
    if dtype.kind == "f" and not np.isfinite(value):
        text = "np.nan" if np.isnan(value) else "np.inf" if value > 0 else "-np.inf"
    else:
        text = repr(value)
    return text if dtype.name in ("float64", "int64", "bool", "complex128") else f"np.{dtype.name}({text})"


def _expression(primitive, args, params, dtype, name):
    if primitive in _INFIX:
        return f"({args[0]} {_INFIX[primitive]} {args[1]})"
    if primitive in _PREFIX:
        return f"({_PREFIX[primitive]}{args[0]})"
    if primitive == "select":
        return f"({args[1]} if {args[0]} else {args[2]})"
    if primitive == "convert":
        return f"np.{dtype.name}({args[0]})"
    if primitive == "integer_power":
        n = params["exponent"]
        return f"{args[0]} ** {n}" if n >= 0 else f"{_constant(1, dtype)} / {args[0]} ** {-n}"
    if primitive in _CALL:
        return f"{_CALL[primitive]}({', '.join(args)})"
    if isinstance(getattr(np, primitive, None), np.ufunc):
        return f"np.{primitive}({', '.join(args)})"
    raise NotImplementedError(f"elementwise {name}: {primitive} has no form inside Numba code")


def device_function(function: Any) -> Callable:
    """The njit function of an `Elementwise`; the types of its arguments decide the precision it computes in."""
    import numba
    from numba.extending import overload
    from numba.np.numpy_support import as_dtype

    names = function.names
    call = ", ".join(names)
    stub = _compile(
        f"def stub({call}):\n    raise NotImplementedError('for compiled code')\n",
        "stub",
        f"<stub of {function.__name__}>",
    )

    def specialize(*types):
        graph = function.graph([as_dtype(numba.types.unliteral(t)) for t in types])
        file = f"<elementwise {function.__name__} of {', '.join(map(str, types))}>"
        return _compile(source(graph, "specialized", names), "specialized", file)

    scope = {"specialize": specialize}
    text = f"def typed({call}):\n    return specialize({call})\n"
    # overload wants the same argument names
    exec(compile(text, f"<types of {function.__name__}>", "exec"), scope)  # noqa: S102
    overload(stub, jit_options={"error_model": "numpy", "fastmath": set(FASTMATH)}, strict=False)(scope["typed"])
    device = _compile(
        f"def device({call}):\n    return stub({call})\n", "device", f"<numba form of {function.__name__}>", stub=stub
    )
    device.__name__ = device.__qualname__ = function.__name__
    device.__doc__ = function.__doc__
    return numba.njit(error_model="numpy", fastmath=set(FASTMATH))(device)


def _compile(text, name, file, **scope):
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)  # for tracebacks and inspect.getsource
    namespace = {"math": math, "np": np, **scope}
    exec(compile(text, file, "exec"), namespace)  # noqa: S102  the text is ours
    return namespace[name]
