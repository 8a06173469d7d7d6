"""`convert_calls`: what eager transforms rewrite in a function, so that they take the programs that `jit` takes.

Python's control flow works on concrete values as it is. Three things do not: functions that NumPy cannot redirect
(``np.array([x, y])``, ``math.sin``, SciPy's functions), writes of traced values into a plain array made in the function
(``out = np.zeros(3); out[0] = x``), and calls of functions that contain such things. Functions without them, which are
nearly all, run unchanged.
"""

from __future__ import annotations

import ast
import builtins
import functools
import types
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from ...graph import trace
from . import assign, convert
from .builtins import BUILTINS
from .library import ARRAY_METHODS, library_function
from .rewrite import Control
from .syntax import assigned, walk

__all__: list[str] = []

_CREATORS = {"zeros", "ones", "empty", "full", "array", "asarray", "arange", "linspace", "eye", "identity", "tri",
             "copy", "astype",
             "zeros_like", "ones_like", "empty_like", "full_like", "reshape", "repeat", "tile"}  # fmt: skip
_METHODS = {n for kind in (np.ndarray, list, dict, set, str, tuple, np.random.Generator) for n in dir(kind)}
_METHODS -= ARRAY_METHODS  # NumPy cannot redirect A.dot(x) of a plain array and a traced `x`
_BUILTINS = {f: BUILTINS[f] for f in (float, int, builtins.max, builtins.min)}
_KEPT = "__triskele_calls__"
_codes: dict[int, tuple[types.CodeType, types.CodeType | None]] = {}


class Calls(Control):
    """Rewrite calls, and assignments into arrays that the function has made; leave control flow to Python."""

    def __init__(self, plain_call, stood_in):
        super().__init__(plain_call, stood_in)
        self.made: set[str] = set()

    def scope(self, node):
        outer = self.variables, self.made
        outside = {n for s in walk(node.body) if isinstance(s, (ast.Global, ast.Nonlocal)) for n in s.names}
        self.variables = (
            assigned(node.body) | {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}
        ) - outside
        self.made = {
            name
            for s in walk(node.body)
            if isinstance(s, (ast.Assign, ast.AnnAssign)) and s.value
            for t in (s.targets if isinstance(s, ast.Assign) else [s.target])
            for name in _made(t, s.value)
        }
        node.body = self.block(node.body)
        self.variables, self.made = outer
        return node

    def owned(self, target):
        return isinstance(target, ast.Name) and target.id in self.variables and target.id in self.made

    def store(self, target, value):
        if self.owned(target.value):
            return super().store(target, value)
        place = cast(ast.expr, self.generic_visit(target))
        return ast.copy_location(ast.Assign([place], value), target)

    def visit_AugAssign(self, node):
        at = node.target
        if self.owned(at) or (isinstance(at, ast.Subscript) and self.owned(at.value)):
            return super().visit_AugAssign(node)
        return self.generic_visit(node)

    def visit_FunctionDef(self, node):
        node.args = self.generic_visit(node.args)
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        return self.scope(node)

    def visit_Call(self, node):
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            return node
        return super().visit_Call(node)

    visit_Lambda = visit_If = visit_While = visit_For = visit_AnnAssign = visit_Assert = (
        ast.NodeTransformer.generic_visit
    )
    visit_BoolOp = visit_UnaryOp = visit_IfExp = visit_Compare = visit_Subscript = ast.NodeTransformer.generic_visit


def _made(target, value):
    """The names in `target` that get an array of their own from `value`."""
    if isinstance(target, ast.Name):
        return {target.id} if _creates(value) else set()
    if (
        isinstance(target, (ast.Tuple, ast.List))
        and isinstance(value, (ast.Tuple, ast.List))
        and (len(target.elts) == len(value.elts))
    ):
        return set().union(*[_made(t, v) for t, v in zip(target.elts, value.elts, strict=True)])
    return set()


def _creates(value):
    if isinstance(value, ast.BinOp):
        return True
    f = value.func if isinstance(value, ast.Call) else None
    return isinstance(f, (ast.Name, ast.Attribute)) and (f.id if isinstance(f, ast.Name) else f.attr) in _CREATORS


def _is_plain_call(look_up, node):
    """Return True if what is called surely needs no conversion."""
    value, module = convert.named(look_up, node)
    if module is None and isinstance(node, ast.Attribute):
        return node.attr in _METHODS
    if value is None or library_function(value) is not None:
        return False
    return (
        isinstance(value, (np.ufunc, types.BuiltinFunctionType, type)) or convert.is_library(value)
    ) and value not in _BUILTINS


def convert_calls(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f` with the rewritten calls and assignments; `f` itself where there is nothing to rewrite."""
    if isinstance(f, types.FunctionType):
        code = _code_of(f)
        if code is None:
            return f if id(f.__code__) in _codes else library_function(f) or f
        kept = f.__dict__.get(_KEPT)
        if kept is None or kept[:2] != (f.__code__, f.__closure__):  # functools.wraps copies it to another function
            kept = f.__dict__[_KEPT] = f.__code__, f.__closure__, convert.with_code(f, code, _RUNTIME)
        return kept[2]
    if isinstance(f, types.MethodType):
        inner = convert_calls(f.__func__)
        return f if inner is f.__func__ else types.MethodType(inner, f.__self__)
    if isinstance(f, functools.partial):
        inner = convert_calls(f.func)
        return f if inner is f.func else functools.partial(inner, *f.args, **f.keywords)
    call = type(f).__dict__.get("__call__") if not isinstance(f, type) else None
    if isinstance(call, types.FunctionType):
        inner = convert_calls(call)
        return f if inner is call else types.MethodType(inner, f)
    return f


def _code_of(f):
    """The rewritten code of a function; None where nothing is to be rewritten."""
    code = f.__code__
    found = _codes.get(id(code))
    if found is not None:
        return found[1]
    if convert.is_library(f):  # not noted: functions of one decorator share their code
        return None
    _codes[id(code)] = code, None
    new = convert.rewritten(
        f, lambda plain_call, stood_in: Calls(functools.partial(_is_plain_call, *plain_call.args), stood_in)
    )
    if new is not None:
        _codes[id(code)] = code, new
        _keep(new)
    return new


def _keep(code):
    """Code objects that have been rewritten with the one around them."""
    _codes[id(code)] = code, None
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            _keep(c)


def call(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that a rewritten function calls, or passes on, where its source says `f`."""
    if trace.is_recording():
        return convert.call(f)
    if type(f) is types.FunctionType and (found := _codes.get(id(f.__code__))) is not None and found[1] is None:
        return f
    library = library_function(f)
    if library is not None:
        return library
    try:
        found = _BUILTINS.get(f)
    except TypeError:
        found = None
    return found or convert_calls(f)


_RUNTIME = types.SimpleNamespace(
    call=call, slice=slice, **{n: getattr(assign, n) for n in ("assign", "update", "update_at", "put", "put_update")}
)
trace._converters.append(convert_calls)
