"""Trees to flat arguments and back at the speed of a hand-written function: code generated for one structure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from .. import tree

__all__ = ["flattener", "unflattener"]


class _Unknown(Exception):
    """A kind of node without generated code."""


def flattener(structure: tree.Structure) -> Callable[[tuple], tuple | None] | None:
    """``flatten(args) -> flat`` for argument tuples of this structure, None from it for any other.

    What stands for a leaf is not looked at. None where the structure holds a kind of node it cannot be written for.
    """
    names: dict[str, Any] = {}
    lines: list[str] = []
    leaves: list[str] = []
    count = 0

    def name(value):
        names[f"g{len(names)}"] = value
        return f"g{len(names) - 1}"

    def visit(s, x):
        nonlocal count
        if s.kind is None:
            leaves.append(x)
            return
        if s.kind is type(None):
            lines.append(f" if {x} is not None: return None")
            return
        if s.kind in tree._REGISTERED:
            raise _Unknown
        own = f"x{count}"
        count += 1
        lines.append(f" {own} = {x}")
        lines.append(f" if type({own}) is not {name(s.kind)}: return None")
        if issubclass(s.kind, (tuple, list)):
            lines.append(f" if len({own}) != {len(s.children)}: return None")
            if s.children:
                parts = [f"{own}_{k}" for k in range(len(s.children))]
                lines.append(f" {', '.join(parts)}, = {own}")
                for c, p in zip(s.children, parts, strict=True):
                    visit(c, p)
        elif s.kind is dict:
            lines.append(f" if len({own}) != {len(s.data)}: return None")
            for k, c in zip(s.data, s.children, strict=True):
                visit(c, f"{own}[{name(k)}]")
        elif dataclasses.is_dataclass(s.kind):
            fields, static = s.data
            for f, value in static:
                lines.append(f" if {own}.{f} != {name(value)}: return None")
            for f, c in zip(fields, s.children, strict=True):
                visit(c, f"{own}.{f}")
        else:
            raise _Unknown

    try:
        visit(structure, "args")
    except _Unknown:
        return None
    body = "\n".join(" " + line for line in lines)
    text = (
        f"def flatten(args):\n try:\n{body}\n  return ({', '.join(leaves)}{',' if leaves else ''})\n except KeyError: "
        f"return None\n"
    )
    exec(text, names)  # noqa: S102  the text is ours
    return names["flatten"]


def unflattener(structure: tree.Structure) -> Callable[[Any], Any] | None:
    """``build(results) -> tree`` from what a caller returns (the one result, or a tuple); None where that is the
    tree.
    """
    n = structure.size
    if structure.kind is None or (
        structure.kind is tuple
        and n == len(structure.children)
        and n != 1
        and all(c.kind is None for c in structure.children)
    ):
        return None
    names: dict[str, Any] = {}
    count = iter(range(n))

    def name(value):
        names[f"k{len(names)}"] = value
        return f"k{len(names) - 1}"

    def visit(s):
        if s.kind is None:
            k = next(count)
            return f"r[{k}]" if n != 1 else "r"
        if s.kind is type(None):
            return "None"
        parts = [visit(c) for c in s.children]
        if s.kind is list:
            return f"[{', '.join(parts)}]"
        if s.kind is tuple:
            return f"({', '.join(parts)}{',' if parts else ''})"
        if s.kind is dict:
            keys = [name(k) for k in s.data]
            return "{" + ", ".join(f"{k}: {p}" for k, p in zip(keys, parts, strict=True)) + "}"
        if s.kind in tree._REGISTERED:
            raise _Unknown
        if issubclass(s.kind, tuple):
            return f"{name(s.kind)}({', '.join(parts)})"
        if dataclasses.is_dataclass(s.kind):
            fields, static = s.data
            given = [*zip(fields, parts, strict=True), *[(f, name(value)) for f, value in static]]
            if _is_plain(s.kind):
                names["fill"] = _fill
                return f"fill({name(s.kind)}, {{{', '.join(f'{f!r}: {x}' for f, x in given)}}})"
            return f"{name(s.kind)}({', '.join(f'{f}={x}' for f, x in given)})"
        raise _Unknown

    try:
        exec(f"def build(r): return {visit(structure)}", names)  # noqa: S102
    except _Unknown:
        if n == 1:
            return lambda r: tree.unflatten(structure, [r])
        return lambda r: tree.unflatten(structure, r)
    return names["build"]


def _is_plain(kind):
    """Return True if a dataclass's constructor does nothing but set the fields: it is the generated one."""
    names = tuple([f.name for f in dataclasses.fields(kind) if f.init])
    code = getattr(kind.__init__, "__code__", None)
    return (
        code is not None
        and code.co_filename == "<string>"
        and code.co_varnames[1 : code.co_argcount] == names
        and len(names) == len(dataclasses.fields(kind))
        and not hasattr(kind, "__post_init__")
        and not hasattr(kind, "__slots__")
        and kind.__new__ is object.__new__
    )


def _fill(kind, values, new=object.__new__):
    """An instance of a plain dataclass, three times as fast as by the constructor of a frozen one."""
    instance = new(kind)
    instance.__dict__.update(values)
    return instance
