"""The public functions and classes, as the reference of the documentation lists them, and their docstrings."""

import ast
import builtins
import doctest
import functools
import importlib
import inspect
import re
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


def inner():
    """Lines of the docstrings with sections that no reference shows, by module and name.

    Bases of public classes are public, too, and so is what the docstring of a public name names, such as its result.
    """
    face = {(module, name) for module, names in REFERENCE["public_modules"]().items() for name in names}
    named = set()
    for thing in map(inspect.unwrap, things().values()):
        for kind in inspect.getmro(thing) if inspect.isclass(thing) else [thing]:
            face.add((getattr(kind, "__module__", None), getattr(kind, "__qualname__", None)))
            for part in [kind, *vars(kind).values()]:
                named.update(re.findall(r"\b(?:[A-Z]\w+|[a-z]+_\w+)", str(getattr(part, "__doc__", None))))
    found = {}

    def visit(node, name, module, public):
        """Look at the functions and classes that a node defines, and inside of them."""
        for part in node.body:
            if isinstance(part, ast.FunctionDef | ast.ClassDef):
                inside = f"{name}.{part.name}" if name else part.name
                shown = (
                    (module, inside) in face
                    or part.name in named
                    and not name
                    or (public and (not part.name.startswith("_") or part.name == "__call__"))
                )
                if not shown and re.search(r"^-{4,}$", ast.get_docstring(part) or "", re.M):
                    found[f"{module} {inside}"] = part.body[0].end_lineno - part.body[0].lineno
                visit(part, inside, module, shown)

    for package in ("core", "sponge", "quantum", "reinforce", "command"):
        for path in (ROOT / package).rglob("[!_]*.py"):
            module = ".".join(("triskele", *path.relative_to(ROOT).with_suffix("").parts))
            visit(ast.parse(path.read_text(encoding="utf-8")), "", module, False)
    return found


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
