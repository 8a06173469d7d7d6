"""From a Python function of scalars to a straight-line graph of scalars.

``math`` is replaced by functions that also take traced values. Branches are found by running the function once for
every way through it, and joined by a selection: ``if``, ``and``, ``or``, ``not``, ``a < x < b``, ``min``, ``max`` and
early ``return`` need no source code and no rewriting. Loops may not depend on traced values (``core.while_loop`` may).
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from functools import cache
from types import CellType, FunctionType
from typing import Any

import numpy as np

from ..errors import TracerError
from ..graph.graph import Const, Graph, Spec
from ..graph.trace import GraphTensor, GraphTrace, bind, dead_code, evaluate
from ..ops.elementwise import select
from ..tensor import Tensor

__all__ = ["over_numpy", "scalar_graph"]

MOST_PATHS, MOST_DECISIONS = 512, 64  # of a function, and on one way through it

_NUMPY = {
    "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan", "atan2": "arctan2",
    "atanh": "arctanh", "ceil": "ceil", "copysign": "copysign", "cos": "cos", "cosh": "cosh", "degrees": "degrees",
    "exp": "exp",
    "exp2": "exp2", "expm1": "expm1", "fabs": "abs", "floor": "floor", "fmod": "fmod", "hypot": "hypot",
    "isfinite": "isfinite",
    "isinf": "isinf", "isnan": "isnan", "log": "log", "log10": "log10", "log1p": "log1p", "log2": "log2",
    "pow": "power",
    "radians": "radians", "sin": "sin", "sinh": "sinh", "sqrt": "sqrt", "tan": "tan", "tanh": "tanh", "trunc": "trunc",
    "cbrt": "cbrt",
}  # fmt: skip
_SCIPY = {"erf": "erf", "erfc": "erfc", "gamma": "gamma", "lgamma": "gammaln"}


@cache
def _math_function(name: str) -> Callable:
    """A function of ``math`` that takes traced values; Python numbers stay with ``math``, so that they stay weak."""
    original = getattr(math, name)
    if name in _NUMPY:
        other = getattr(np, _NUMPY[name])
    elif name in _SCIPY:
        import scipy.special

        other = getattr(scipy.special, _SCIPY[name])
    else:
        raise TypeError(f"math.{name}: no elementwise form (use NumPy's functions, or core.custom_op)")

    def function(*args):
        if not any(isinstance(a, (Tensor, np.ndarray, np.generic)) for a in args):
            return original(*args)
        if name == "log" and len(args) == 2:
            return np.log(args[0]) / function(args[1])
        return other(*args)

    function.__name__ = name
    return function


class _Math:
    """Stands for the module ``math``."""

    def __getattr__(self, name):
        value = getattr(math, name)
        return _math_function(name) if callable(value) else value


_math = _Math()


def _import(name, *args):
    """For functions that import ``math`` in their body."""
    module = builtins.__import__(name, *args)
    return _math if module is math else module


_builtins = {**vars(builtins), "__import__": _import}
_by_original = {getattr(math, n): n for n in (*_NUMPY, *_SCIPY) if hasattr(math, n)}


def over_numpy(function: Callable) -> Callable:
    """`function` with ``math`` replaced, in its globals, its closure and the plain Python functions it calls.

    Globals are read now: later changes to them are not seen.
    """
    return _replaced(function, {})


def _replaced(value: Any, known: dict[int, Any]) -> Any:
    if value is math:
        return _math
    if id(value) in known:
        return known[id(value)]
    if type(value).__name__ == "builtin_function_or_method":
        return _math_function(_by_original[value]) if value in _by_original else value
    inner = getattr(value, "py_func", None)  # a function compiled by Numba
    if type(value) is not FunctionType and type(inner) is not FunctionType:
        return value
    function = inner if type(inner) is FunctionType else value
    if known and (function.__module__ or "").startswith(("numpy", "scipy", "triskele.core")):
        return value  # called by the user's function: takes arrays as it is
    code = function.__code__
    namespace: dict[str, Any] = {"__builtins__": _builtins, "__name__": function.__module__}
    cells = tuple([CellType() for _ in code.co_freevars])
    new = FunctionType(code, namespace, function.__name__, function.__defaults__, cells or None)
    new.__kwdefaults__ = function.__kwdefaults__
    known[id(value)] = new
    for name in _names(code):
        if name in function.__globals__:
            namespace[name] = _replaced(function.__globals__[name], known)
    for cell, old in zip(cells, function.__closure__ or (), strict=True):
        try:
            cell.cell_contents = _replaced(old.cell_contents, known)
        except ValueError:  # not assigned yet
            pass
    return new


def _names(code):
    yield from code.co_names
    for const in code.co_consts:
        if hasattr(const, "co_names"):
            yield from _names(const)


class _ScalarTensor(GraphTensor):
    """A scalar whose truth is asked for: the trace answers, and will try the other answer later."""

    __slots__ = ()

    def _concrete(self, what):
        return self._trace.decide(self.value) if what == "bool()" else super()._concrete(what)

    def _handle(self):
        return _ScalarTensor(self._trace, self.value)


class _ScalarTrace(GraphTrace):
    """Records equations, each only once, and answers the questions of branches from a list of decisions."""

    __slots__ = ("where", "known", "decisions", "asked", "answers", "inline", "runs")

    def __init__(self, where: str, inline: bool):
        super().__init__()
        self.where = where
        self.known: dict[Any, tuple] = {}
        self.decisions: list[bool] = []
        self.asked: list[Any] = []
        self.answers: dict[int, bool] = {}
        self.inline = inline
        self.runs = 0

    def input(self, spec):
        return _ScalarTensor(self, super().input(spec).value)

    def lift(self, value):
        return _ScalarTensor(self, self.atom(value))

    def atom(self, value):
        atom = super().atom(value)
        if type(atom) is Const and atom.spec.shape == ():
            key = ("const", atom.spec, repr(atom.value))
            atom = self.known.setdefault(key, (atom,))[0]
        return atom

    def process(self, primitive, args, params):
        if self.inline and "graph" in params and isinstance(params["graph"], Graph):
            return tuple(evaluate(params["graph"], *args))
        if self.inline and hasattr(primitive, "scalar"):
            return primitive.scalar(*args)
        try:
            key = (primitive, *[id(self.atom(a)) for a in args], *sorted(params.items()))
            hash(key)
        except TypeError:
            key = None
        if key not in self.known or key is None:
            out = super().process(primitive, args, params)
            self.known[key] = tuple([t.value for t in (out if primitive.multiple else (out,))])
        tensors = tuple([_ScalarTensor(self, v) for v in self.known[key]])
        return tensors if primitive.multiple else tensors[0]

    def decide(self, atom):
        if type(atom) is Const:
            return bool(atom.value)
        if id(atom) not in self.answers:
            if len(self.asked) == len(self.decisions):
                self._limit(len(self.asked), MOST_DECISIONS)
                self.decisions.append(True)
            self.answers[id(atom)] = self.decisions[len(self.asked)]
            self.asked.append(atom)
        return self.answers[id(atom)]

    def _limit(self, number, most):
        if number >= most:
            raise TracerError(
                f"{self.where}: there must be at most {MOST_PATHS} ways through the function, with {MOST_DECISIONS} "
                "branches on each "
                "(does a loop depend on a traced value? use core.while_loop, or core.custom_op on a compiled function)"
            )

    def explore(self, f, args, decisions):
        """The value of `f` on all paths that begin with `decisions`."""
        where = self.where
        self._limit(self.runs, MOST_PATHS)
        self.runs += 1
        self.decisions, self.asked, self.answers = list(decisions), [], {}
        out = f(*[a._handle() for a in args])
        if out is None or isinstance(out, (tuple, list, dict, str)) or np.shape(out) != ():
            got = f"shape {np.shape(out)}" if hasattr(out, "shape") else type(out).__name__
            raise TypeError(f"{where}: the function must return one scalar, got {got}")
        taken, asked = list(self.decisions), list(self.asked)
        for i in range(len(asked) - 1, len(decisions) - 1, -1):
            other = self.explore(f, args, [*taken[:i], False])
            out = bind(select, _ScalarTensor(self, asked[i]), out, other)
        return out


def scalar_graph(f: Callable, specs: Sequence[Spec], where: str, inline: bool = False) -> Graph:
    """Record a function of scalars as a graph without branches; `inline` also opens the elementwise functions it
    calls.
    """
    trace = _ScalarTrace(where, inline)
    with trace:
        inputs = [trace.input(s) for s in specs]
        out = trace.explore(f, inputs, [])
        graph = trace.finish(inputs, [out], where)
    if trace.captured:
        raise TypeError(f"{where}: the function must not close over a traced value (pass it as an argument)")
    return dead_code(graph)
