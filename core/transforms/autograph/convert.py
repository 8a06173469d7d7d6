"""`convert`: Python's own control flow on traced values becomes control flow of the graph.

The function's source is parsed, rewritten (`rewrite`) and compiled under its own file name and line numbers,
so that tracebacks and the lines noted in graphs are the user's. What the rewritten statements do is decided when they
run (`run`): with concrete values, what Python does.
"""

from __future__ import annotations

import ast
import builtins
import functools
import linecache
import sys
import sysconfig
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ...graph import trace
from . import assign, failures, loops, run
from .builtins import BUILTINS
from .library import library_function
from .pure import check_call, is_pure
from .rewrite import Control
from .syntax import RUN
from .variables import read

__all__ = ["call", "convert", "is_library", "named", "rewritten", "with_code"]

_LIBRARIES = {
    "numpy",
    "scipy",
    "triskele",
    "numba",
    "llvmlite",
    "matplotlib",
    "jax",
    "torch",
    "autograd",
    "builtins",
    "pytest",
    "hypothesis",
}
_FOLDERS = tuple({str(Path(sysconfig.get_paths()[k])) for k in ("stdlib", "platstdlib", "purelib", "platlib")})
_MARK = "__triskele_converted__"
# by identity: code objects of two files may be equal
_codes: dict[int, tuple[types.CodeType, types.CodeType | None]] = {}
_modules: dict[str, tuple[int, ast.Module | None]] = {}


def convert(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f` with if, while, for, and, or, not, conditional expressions, early return, break and continue made ready for
    traced values.

    Functions of libraries, functions without source and functions with nothing to convert are returned as they are;
    SciPy's become those of `core.scipy`.
    Functions called by `f` are converted when they are called.
    """
    if isinstance(f, types.MethodType):
        inner = convert(f.__func__)
        return f if inner is f.__func__ else types.MethodType(inner, f.__self__)
    if isinstance(f, functools.partial):
        inner = convert(f.func)
        return f if inner is f.func else functools.partial(inner, *f.args, **f.keywords)
    if not isinstance(f, types.FunctionType):
        call = type(f).__dict__.get("__call__") if not isinstance(f, type) else None
        if isinstance(call, types.FunctionType) and not is_library(call):
            inner = convert(call)
            return f if inner is call else types.MethodType(inner, f)
        return f
    if _MARK in f.__dict__:
        return f
    if is_library(f):
        return library_function(f) or f
    code = f.__code__
    if id(code) not in _codes:
        _codes[id(code)] = code, rewritten(f, Control)
    new = _codes[id(code)][1]
    if new is None:
        return f
    converted = with_code(f, new, _RUNTIME)
    converted.__dict__[_MARK] = True
    return converted


def with_code(f: types.FunctionType, new: types.CodeType, runtime: Any) -> types.FunctionType:
    """A function like `f` that runs its rewritten code."""
    code = f.__code__
    cells = dict(zip(code.co_freevars, f.__closure__ or (), strict=True))
    cells[RUN] = types.CellType(runtime)
    for n in new.co_freevars:  # the name of a class around the function is a global in the original
        if n not in cells:
            cells[n] = types.CellType(f.__globals__.get(n))
    converted = types.FunctionType(
        new, f.__globals__, f.__name__, f.__defaults__, tuple(cells[n] for n in new.co_freevars)
    )
    functools.update_wrapper(converted, f)
    del converted.__wrapped__
    converted.__kwdefaults__ = f.__kwdefaults__
    return converted


def is_library(f: Any) -> bool:
    """Return True if `f` belongs to a library, whose functions are called as they are."""
    module = (getattr(f, "__module__", None) or "").split(".")[0]
    if module in _LIBRARIES or module in sys.stdlib_module_names:
        return True
    return f.__code__.co_filename.startswith(_FOLDERS) if isinstance(f, types.FunctionType) else False


def converted(f: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function defined inside a converted one, whose body has been rewritten with it."""
    f.__dict__[_MARK] = True
    return f


def call(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that a converted function calls where its source calls `f`."""
    library = library_function(f)
    if library is not None:
        return library
    if not isinstance(f, types.FunctionType):
        try:
            builtin = BUILTINS.get(f)
        except TypeError:
            builtin = None
        if builtin is not None:
            return builtin
    elif _MARK in f.__dict__:
        check_call(f, f)
        return f
    found = convert(f)
    check_call(f, found)
    return found


_RUNTIME = types.SimpleNamespace(
    **{
        k: v
        for module in (run, loops, assign, failures)
        for k, v in vars(module).items()
        if isinstance(v, types.FunctionType) and v.__module__ == module.__name__
    },
    read=read,
    converted=converted,
    call=call,
    slice=slice,
)


# -- from a function to its syntax tree and back
# ------------------------------------------------------------------------


def rewritten(f: types.FunctionType, rewriter: Callable[..., Any]) -> types.CodeType | None:
    """The code object that a `Control` makes of a function; None where there is no source or nothing to rewrite."""
    node, inside_class = _find(f.__code__)
    if node is None:
        return None
    node = _copy(node)  # the parsed file is shared
    if isinstance(node, ast.Lambda):
        function = ast.copy_location(
            ast.FunctionDef("ag__lambda", node.args, [ast.copy_location(ast.Return(node.body), node.body)], [], None),
            node,
        )
        if hasattr(ast, "TypeAlias"):
            function.type_params = []
    else:
        function = node
        function.name = "ag__function"  # not its own name, which it may call itself by
        function.decorator_list = []
        function.returns = None
    for a in ast.walk(function.args):
        if isinstance(a, ast.arg):
            a.annotation = None
    function.args.defaults = [ast.copy_location(ast.Constant(None), d) for d in function.args.defaults]
    function.args.kw_defaults = [d and ast.copy_location(ast.Constant(None), d) for d in function.args.kw_defaults]
    nodes = list(ast.walk(function))
    look_up = _names_of(f, nodes)
    control = rewriter(functools.partial(_is_plain_call, look_up), functools.partial(_is_stood_in, look_up))
    function = control.scope(function)
    if not control.changed:
        return None
    inner: ast.stmt = function
    private = inside_class and any(n.startswith("__") and not n.endswith("__") for n in map(_name_in, nodes))
    if private:  # private names are mangled with the name of the class
        inner = ast.ClassDef(inside_class, [], [], [function], [])
        if hasattr(ast, "TypeAlias"):
            inner.type_params = []
    arguments = ast.arguments(
        posonlyargs=[],
        args=[ast.arg(n) for n in (*[n for n in f.__code__.co_freevars if n != RUN], RUN)],
        vararg=None,
        kwonlyargs=[],
        kw_defaults=[],
        kwarg=None,
        defaults=[],
    )
    factory = ast.FunctionDef("ag__factory", arguments, [inner], [], None)
    if hasattr(ast, "TypeAlias"):
        factory.type_params = []
    module = ast.Module([factory], [])
    ast.copy_location(factory, function)
    ast.copy_location(inner, function)
    ast.fix_missing_locations(module)
    code = compile(module, f.__code__.co_filename, "exec", flags=f.__code__.co_flags & _FUTURE, dont_inherit=True)
    code = _inner_code(code, function.name)
    return _renamed(code, f.__code__.co_name, f.__code__.co_qualname if hasattr(f.__code__, "co_qualname") else None)


_FUTURE = 0x1000000  # annotations; the only future statement that is left


def _name_in(node):
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _inner_code(code, wanted):
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            if c.co_name == wanted:
                return c
            found = _inner_code(c, wanted)
            if found is not None:
                return found
    return None


def _renamed(code, function_name, qualname):
    """Code objects of generated functions under the name of the function they come from: for tracebacks."""
    consts = tuple(
        [
            _renamed(c, function_name, qualname)
            if isinstance(c, types.CodeType) and (c.co_name.startswith("ag__") or c.co_name == "<lambda>")
            else c
            for c in code.co_consts
        ]
    )
    names = {"co_name": function_name, "co_qualname": qualname} if qualname else {"co_name": function_name}
    return code.replace(co_consts=consts, **names)


def _names_of(f, nodes):
    """Return what a name in `f`, whose syntax has these `nodes`, refers to in all functions with this code: None for
    most free variables.
    """
    cells = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
    local = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    local |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    local |= {n.name for n in nodes if isinstance(n, (ast.FunctionDef, ast.ClassDef))}

    def look_up(name):
        if name in local:
            return None
        if name in cells:
            try:
                value = cells[name].cell_contents
            except ValueError:
                return None
            return value if isinstance(value, types.ModuleType) else None
        return f.__globals__.get(name, getattr(builtins, name, None))

    return look_up


def named(look_up: Callable[[str], Any], node: ast.expr) -> tuple[Any, types.ModuleType | None]:
    """(what a name or an attribute of a module refers to, that module); None where it is not known."""
    attributes = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    first = value = look_up(node.id) if isinstance(node, ast.Name) else None
    if attributes and not isinstance(first, types.ModuleType):
        return None, None
    for a in reversed(attributes):
        value = getattr(value, a, None)
    return value, first if attributes else None


def _is_stood_in(look_up, node):
    return library_function(named(look_up, node)[0]) is not None


def _is_plain_call(look_up, node):
    """Return True if the callee needs no conversion: a function of a library, by its name or as an attribute of a
    module.
    """
    value, module = named(look_up, node)
    if module is not None:
        return module.__name__.split(".")[0] in _LIBRARIES and library_function(value) is None and is_pure(value)
    if value is None or library_function(value) is not None:
        return False
    if isinstance(value, types.FunctionType):
        return is_library(value)
    return isinstance(value, (np.ufunc, types.BuiltinFunctionType)) and value not in BUILTINS and is_pure(value)


def _copy(node):
    """A deep copy of a syntax tree; the nodes that say Load or Store stay shared."""
    kind = node.__class__
    if issubclass(kind, ast.expr_context):
        return node
    new = kind.__new__(kind)
    new.__dict__.update(
        {
            k: _copy(v)
            if isinstance(v, ast.AST)
            else [_copy(x) if isinstance(x, ast.AST) else x for x in v]
            if v.__class__ is list
            else v
            for k, v in node.__dict__.items()
        }
    )
    return new


def _find(code):
    """(syntax node of a function's code, name of the class it is in)."""
    module = _parsed(code.co_filename)
    if module is None:
        return None, None
    found = []

    def search(node, owner):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef):
                first = min([child.lineno, *[d.lineno for d in child.decorator_list]])
                if code.co_name == child.name and code.co_firstlineno == first:
                    found.append((child, owner))
                if first <= code.co_firstlineno <= child.end_lineno:
                    search(child, None)
            elif isinstance(child, ast.Lambda):
                if code.co_name == "<lambda>" and code.co_firstlineno == child.lineno and _covers(child.body, code):
                    found.append((child, owner))
                search(child, None)
            elif isinstance(child, ast.stmt) and not child.lineno <= code.co_firstlineno <= child.end_lineno:
                continue
            elif isinstance(child, ast.ClassDef):
                search(child, child.name)
            else:
                search(child, owner)

    search(module, None)
    found = [
        (n, c)
        for n, c in found
        if _argument_names(n.args) == code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    ]
    return found[-1] if found and (len(found) == 1 or not isinstance(found[-1][0], ast.Lambda)) else (None, None)


def _argument_names(args):
    return tuple(a.arg for a in [*args.posonlyargs, *args.args, *args.kwonlyargs])


def _covers(body, code):
    """Return True if the instructions of `code` lie within the expression `body`."""
    if not hasattr(code, "co_positions"):
        return True
    places = [
        (line, column)
        for line, _, column, _ in code.co_positions()
        if line is not None and column is not None and (line, column) != (code.co_firstlineno, 0)
    ]
    return all((body.lineno, body.col_offset) <= p <= (body.end_lineno, body.end_col_offset) for p in places)


def _parsed(filename):
    lines = linecache.getlines(filename)
    if not lines:
        return None
    text = "".join(lines)
    key = hash(text)
    if _modules.get(filename, (None, None))[0] != key:
        try:
            _modules[filename] = key, ast.parse(text)
        except SyntaxError:
            _modules[filename] = key, None
    return _modules[filename][1]


trace._converters.append(convert)
