"""The parameters that the operations of a training step belong to, by their paths in the network."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ... import tree
from ...compile.formulas import cost_of
from ...compile.profile import equations_of
from ...graph.graph import Graph, Var

__all__ = ["layer_names"]


def layer_names(slots: list[Any], state: Any) -> list[str]:
    """Name the parameter of each step of the program, by its place: that of most of its work, "" where there is none.

    `state` is the first argument, and the first result, of the function. An operation belongs to the parameter that it
    reads, or else to the only one whose new value depends on it.
    """
    graph = slots[0][0].graph
    owner = _owner(graph, [path for path, _ in tree.paths(state)])
    found = []
    for unit, step in slots:
        work: Counter[str] = Counter()
        for e in equations_of(step) if unit.graph is graph else ():
            if name := owner.get(e):
                work[name] += cost_of(e) * max(v.spec.size for v in (*e.inputs, *e.outputs)) + 1  # type: ignore[assignment]
        found.append(work.most_common(1)[0][0] + (f" + {len(work) - 1}" if len(work) > 1 else "") if work else "")
    return found


def _owner(graph: Graph, paths: list[str]) -> dict[Any, str]:
    """The path of a parameter by equation; `paths` are those of the first inputs and outputs."""
    arrays = [p.removeprefix("params").removeprefix(".") for p in paths if p.startswith("params")]
    of = [max((a for a in arrays if p == a or p.endswith((f".{a}", f"params{a}"))), key=len, default="") for p in paths]
    reads = {v: a for v, p, a in zip(graph.inputs, paths, of) if p.startswith("params")}
    owner = {}
    for e in graph.equations:
        names = [reads.get(v, "") for v in e.inputs if type(v) is Var]
        if name := next(filter(None, names), ""):
            owner[e] = name
            if len({*names}) == 1:  # a parameter in another form
                reads |= dict.fromkeys(e.outputs, name)
    bit = {a: 1 << k for k, a in enumerate(arrays)}
    serves: dict[Any, int] = {}  # the parameters whose new values need a value
    for v, a in zip(graph.outputs, of):
        serves[v] = serves.get(v, 0) | bit.get(a, 0)
    for e in reversed(graph.equations):
        mask = 0
        for o in e.outputs:
            mask |= serves.get(o, 0)
        for v in e.inputs:
            if type(v) is Var:
                serves[v] = serves.get(v, 0) | mask
        if e not in owner and mask.bit_count() == 1 < len(arrays):
            owner[e] = arrays[mask.bit_length() - 1]
    return owner
