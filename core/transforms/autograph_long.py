"""Long loops over a known ``range`` while a graph is recorded: a loop of the graph, where it surely means what n copies
of the body do.

The first and the last round are recorded as they are, so that what is wrong there (an index, a dtype) is found as NumPy
finds it, and Python numbers that the body leaves behind are numbers. The rounds between become a `scan` whose counter
is a traced Python integer. Copies are made instead if the body needs the number itself (``layers[i]``, ``x[:i]``),
keeps numbers or objects from round to round, computes integers that may not fit into 64 bits, or might do more than
compute (see `autograph_pure`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..graph.graph import Const, Graph, spec_of
from ..graph.trace import is_recording, make_graph
from ..tensor import Tensor
from .autograph_pure import OnlyCopies, rehearsed
from .autograph_variables import Undefined, Variables
from .control_body import concrete

__all__ = ["COPIES", "long_loop"]

COPIES = 100  # of a body at most, where a loop of the graph would do
_FITS = 2**62
_NESTED = 2**31  # what integers inside nested loops and branches are taken to be at most


def long_loop(numbers: range, loop: Callable, body: Callable, get: Callable, put: Callable, names: Sequence[str],
              fresh: Sequence[str]) -> None:
    """``for i in numbers: body(i)``; `fresh` are the variables that the body assigns before it reads them.

    ``loop(body, get, put, names, length)`` records a loop of `length` rounds.
    """
    body(numbers[0])
    rest = numbers[1:]
    values = get()
    if is_recording() and any(_traced(x) for v in values if not isinstance(v, Undefined) for x in tree.leaves(v)):
        try:
            _record(numbers[1:-1], loop, body, get, put, names, fresh)
            rest = numbers[-1:]
        except Exception:  # noqa: BLE001  of any class, as user code raises it where it needs a number and gets a traced value
            put(values)
    for i in rest:
        body(i)


def _traced(x):
    return isinstance(x, Tensor) and concrete(x) is None


def _record(numbers, loop, body, get, put, names, fresh):
    kept = [n not in fresh for n in names]
    values = []
    for v, keep in zip(get(), kept, strict=True):
        if keep and not (type(v) is float
                         or (not isinstance(v, Undefined) and all(_traced(x) for x in tree.leaves(v)))):
            raise OnlyCopies
        values.append(v if keep else Undefined("assigned before it is read"))
    k = 0

    def read():
        return [k, *get()]

    def write(state):
        nonlocal k
        k = state[0]
        put(state[1:])

    def step():
        nonlocal k
        body(numbers.start + k * numbers.step)
        k = k + 1
        put([v if keep else Undefined("assigned before it is read") for v, keep in zip(get(), kept, strict=True)])

    put(values)
    before = Variables(("its counter", *names), read())
    with rehearsed(body):
        graph = _trace(before, step, read, write)
        _check_integers(graph, {graph.inputs[0]: len(numbers)})
        write(before.values)
        loop(step, read, write, before.names, len(numbers))


def _trace(before, step, read, write):
    """The graph of one round."""
    def once(*arrays):
        write(before.rebuild(arrays))
        step()
        return Variables(before.names, read()).arrays

    return make_graph(once, [spec_of(x) for x in before.arrays], "for", stage=True, loop=True)[0]


_BOUNDS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a + b,
    "multiply": lambda a, b: a * b,
    "maximum": max,
    "minimum": max,
    "negative": lambda a: a,
    "absolute": lambda a: a,
    "convert": lambda a: a,
    "select": lambda _, a, b: max(a, b),
    "square": lambda a: a * a,
}
_DIVISIONS = ("floor_divide", "remainder")


def _check_integers(graph: Graph, bounds: dict[Any, int]) -> None:
    """Raise unless all Python integers computed from those in `bounds` fit into 64 bits and are divided by nonzero
    constants only.
    """
    def bound(atom):
        return abs(
            int(atom.value)
        ) if type(atom) is Const and atom.spec.weak and atom.spec.dtype.kind in "bi" else bounds.get(atom)

    for e in graph.equations:
        inner = [g for p in e.params.values() for g in (p if isinstance(p, tuple) else (p,)) if isinstance(g, Graph)]
        if not any(a in bounds for a in e.inputs if type(a) is not Const):
            continue
        for g in inner:
            _check_integers(g, {v: _NESTED for v in g.inputs if _is_integer(v.spec)})
        if e.primitive.name in _DIVISIONS and (type(e.inputs[1]) is not Const
                                               or not np.all(e.inputs[1].value)) and _is_integer(e.outputs[0].spec):
            raise OnlyCopies
        for out in e.outputs:
            if not _is_integer(out.spec):
                continue
            if inner:
                bounds[out] = _FITS - 1
                continue
            known = [bound(a) if _is_integer(a.spec) or a.spec.dtype.kind == "b" else 0 for a in e.inputs]
            if e.primitive.name in _DIVISIONS:
                most = None if None in known else max(known)
            elif e.primitive.name == "integer_power" and e.params["exponent"] >= 0:
                most = None if None in known else known[0] ** e.params["exponent"]
            elif e.primitive.name in _BOUNDS:
                known[:1] = [0] if e.primitive.name == "select" else known[:1]
                most = None if None in known else _BOUNDS[e.primitive.name](*known)
            else:
                raise OnlyCopies
            if most is not None and most >= _FITS:
                raise OnlyCopies
            if most is not None:
                bounds[out] = most


def _is_integer(spec):
    return spec.weak and spec.dtype.kind == "i"
