"""The public functions and classes, as the reference of the documentation lists them, and their docstrings."""

import ast
import builtins
import doctest
import functools
import importlib
import inspect
import runpy
import sys
import types
from pathlib import Path

ROOT = Path(__file__).parents[2]
REFERENCE = runpy.run_path(str(ROOT / "docs" / "reference.py"), run_name="reference")


@functools.cache
def things():
    """Public functions and classes by name, `core.nn.Linear`: each once, by the first module that lists it."""
    found, seen = {}, set()
    for module, names in REFERENCE["public_modules"]().items():
        if module.startswith(REFERENCE["MIRRORS"]):
            continue
        for name in names:
            thing = getattr(importlib.import_module(module), name)
            thing = type(thing).__call__ if inspect.ismodule(thing) else thing  # a package that can be called
            absent = inspect.isclass(thing) and thing.__module__ not in sys.modules  # it needs another package
            if callable(thing) and id(thing) not in seen and not isinstance(thing, types.GenericAlias) and not absent:
                seen.add(id(thing))
                found[f"{module.removeprefix('triskele.')}.{name}"] = thing
    return found


@functools.cache
def examples():
    """Docstrings with examples, by name: of public things, and of the public members that a class itself defines."""
    found = {}
    for name, thing in things().items():
        found[name] = thing.__doc__
        for method, member in vars(thing).items() if inspect.isclass(thing) else ():
            if not method.startswith("_"):
                found[f"{name}.{method}"] = getattr(getattr(member, "__func__", member), "__doc__", None)
    return {name: text for name, text in found.items() if isinstance(text, str) and ">>> " in text}


def unbound(docstring):
    """Names that the examples of a docstring use and nowhere bind or import.

    >>> unbound(">>> import numpy as np\\n>>> np.sin(angle)")
    ['angle']
    """
    used, bound = {}, set(dir(builtins))
    for node in ast.walk(ast.parse("".join(e.source for e in doctest.DocTestParser().get_examples(docstring)))):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            used[node.id] = None
        elif isinstance(node, ast.Name):
            bound.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
    return [name for name in used if name not in bound]
