"""Graphs as text for people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .graph import Const, Graph

__all__ = ["show"]


def show(graph: Graph, sources: bool = True, indent: str = "") -> str:
    """Return a listing of `graph`: one equation a line, values numbered from the top, the user's line at the end.

    >>> from triskele.core.graph.graph import Spec
    >>> from triskele.core.graph.trace import make_graph
    >>> print(show(make_graph(lambda x: [np.sin(x) * 2], [Spec((3,), np.dtype(float))])[0], sources=False))
    graph(a: float64[3])
      b: float64[3] = sin a
      c: float64[3] = multiply b 2
      return c
    """
    names: dict[Any, str] = {}

    def name(atom):
        if type(atom) is Const:
            value = np.asarray(atom.value)
            return repr(value.item()) if value.size == 1 else f"const {atom.spec}"
        return names.setdefault(atom, _letters(len(names)))

    lines = [f"{indent}{graph.name}({', '.join(f'{name(v)}: {v.spec}' for v in graph.inputs)})"]
    for eqn in graph.equations:
        inner = [
            (k, g) for k, v in eqn.params.items() for g in (v if isinstance(v, tuple) else (v,)) if isinstance(g, Graph)
        ]
        params = " ".join(f"{k}={_short(v)}" for k, v in eqn.params.items() if not any(k == i for i, _ in inner))
        arguments = " ".join(name(a) for a in eqn.inputs)
        outs = ", ".join(f"{name(o)}: {o.spec}" for o in eqn.outputs)
        where = f"    # {Path(eqn.source.file).name}:{eqn.source.line}" if sources and eqn.source else ""
        lines.append(f"{indent}  {outs} = {eqn.primitive.name}{f'[{params}]' if params else ''} {arguments}{where}")
        lines += [show(g, sources, indent + "    ") for _, g in inner]
    lines.append(f"{indent}  return {', '.join(name(o) for o in graph.outputs)}")
    return "\n".join(lines)


def _letters(n: int) -> str:
    """a, b … z, aa, ab …"""
    out = ""
    n += 1
    while n:
        n, r = divmod(n - 1, 26)
        out = chr(97 + r) + out
    return out


def _short(value: Any) -> str:
    text = value.name if isinstance(value, np.dtype) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
