"""Convolutions with what follows them element by element: bias, normalization by constants, activation, residual sums.

It is done to each band of results while that is in the cache, in place, which saves a pass over memory. `lower` makes
these where the result is needed as an array anyway.
"""

from __future__ import annotations

from typing import Any

from ...graph.graph import Const, Equation, Graph, Spec, Var
from ...graph.primitive import Primitive
from ...graph.trace import dead_code
from ...ops.convolve_nd import conv_p
from ..emit import NATIVE, Unit, as_array
from ..formulas import emit_formula
from ..row_function import RowFunction
from .convolutions import Forward

__all__ = ["with_tails"]

SIMPLE = {"add", "subtract", "multiply", "divide", "maximum", "minimum", "negative"}
ARRAYS = ("conv", "contract", "call", "control")  # kinds of primitives that read arrays from memory
CHANNELS = 8  # least number: the inner loop is over channels


def with_tails(graph: Graph) -> Graph:
    """`graph` with its convolutions joined to what follows them."""
    if not any(e.primitive is conv_p for e in graph.equations):
        return graph
    readers: dict[Var, list[Equation]] = {}
    for e in graph.equations:
        for a in e.inputs:
            if isinstance(a, Var):
                readers.setdefault(a, []).append(e)
    results = {o for o in graph.outputs if isinstance(o, Var)}
    joined: dict[Equation, Equation] = {}  # the last equation of a tail, and what takes its place
    for e in graph.equations:
        if e.primitive is not conv_p or e.outputs[0].spec.shape[-1] < CHANNELS or not NATIVE["conv"].accepts(e):
            continue
        tail: list[Equation] = []
        out = e.outputs[0]
        while out not in results and len(readers[out]) == 1 and _fits(readers[out][0], e.outputs[0].spec):
            tail += readers[out]
            out = tail[-1].outputs[0]
        # what only formulas read need not be an array: the tail is part of their loop nests
        if tail and (out in results or all(r.primitive.kind in ARRAYS for r in readers[out])):
            joined[tail[-1]] = _joined(e, tail)
    if not joined:
        return graph
    return dead_code(Graph(graph.inputs, [joined.get(e, e) for e in graph.equations], graph.outputs, graph.name))


def _fits(eqn: Equation, spec: Spec) -> bool:
    """Return True for a simple operation that keeps shape and type, on operands of that shape or one per channel."""
    out = eqn.outputs[0].spec
    return (
        eqn.primitive.name in SIMPLE
        and (out.shape, out.dtype) == (spec.shape, spec.dtype)
        and all(
            a.spec.shape in ((), spec.shape) or a.spec.size == a.spec.shape[-1] == spec.shape[-1] for a in eqn.inputs
        )
        and all(a.spec.dtype == spec.dtype or type(a) is Const for a in eqn.inputs)
    )


def _joined(conv: Equation, tail: list[Equation]) -> Equation:
    """One equation; arrays that the tail reads become inputs of it, constants too."""
    own = {conv.outputs[0], *(e.outputs[0] for e in tail)}
    others: list[Any] = []
    inner: list[Var] = []
    equations = []
    for e in tail:
        operands = []
        for a in e.inputs:
            if a in own if isinstance(a, Var) else a.spec.shape == ():
                operands.append(a)
                continue
            if not any(a is o for o in others):
                others.append(a)
                inner.append(Var(a.spec))
            operands.append(next(v for o, v in zip(others, inner, strict=True) if o is a))
        equations.append(Equation(e.primitive, operands, e.params, e.outputs, e.source))
    graph = Graph([conv.outputs[0], *inner], equations, tail[-1].outputs, "tail")
    return Equation(conv_tail, [*conv.inputs, *others], {**conv.params, "tail": graph}, tail[-1].outputs, conv.source)


def _conv_tail(x, k, *others, tail, **params):
    values = dict(zip(tail.inputs, (conv_p.impl(x, k, **params), *others), strict=True))
    for e in tail.equations:
        values[e.outputs[0]] = e.primitive.impl(
            *[values[a] if isinstance(a, Var) else a.value for a in e.inputs], **e.params
        )
    return values[tail.outputs[0]]


def _flops(in_specs: Any, out_specs: Any, *, tail: Graph, **params: Any) -> float:
    assert callable(conv_p.flops)
    return conv_p.flops(in_specs, out_specs, **params) + len(tail.equations) * out_specs[0].size


conv_tail = Primitive(
    "conv_tail",
    _conv_tail,
    lambda *_, tail, **__: tail.outputs[0].spec,
    kind="conv",
    differentiable=False,
    flops=_flops,
)


class _ForwardWithTail(Forward):
    def accepts(self, eqn: Equation) -> bool:
        return eqn.primitive is conv_tail  # made only of convolutions that are accepted

    def scratch(self, unit: Unit, eqn: Equation) -> dict:
        params = {k: v for k, v in eqn.params.items() if k != "tail"}
        plain = unit.memo[eqn] = Equation(conv_p, eqn.inputs[:2], params, eqn.outputs, eqn.source)
        return super().scratch(unit, plain)

    def emit(self, unit: Unit, eqn: Equation) -> None:
        plain, tail = unit.memo[eqn], eqn.params["tail"]
        spec = eqn.outputs[0].spec
        r = RowFunction(unit, "tail", [eqn.outputs[0], *eqn.inputs[2:]], spec.size // spec.shape[-1])
        b = r.b
        with r.row() as row, r.loop(spec.shape[-1]) as channel:
            place = b.add(b.mul(row, b.index(spec.shape[-1])), channel)
            values = {tail.inputs[0]: b.load(r.pointers[0], spec.dtype, place, movable=False)}
            for a, pointer in zip(tail.inputs[1:], r.pointers[1:], strict=True):
                at = place if a.spec.shape == spec.shape else channel if a.spec.shape else b.index(0)
                values[a] = b.load(pointer, a.spec.dtype, at)
            for e in tail.equations:
                operands = [values[a] if isinstance(a, Var) else b.const(a.value, a.spec.dtype) for a in e.inputs]
                values[e.outputs[0]] = emit_formula(b, e, operands)
            b.store(r.pointers[0], place, values[tail.outputs[0]])
        work = unit.memo[plain]
        work.tail = r.define()
        work.tail_buffers = {f"tail{k}": unit.pointer(as_array(a)) for k, a in enumerate(eqn.inputs[2:])}
        super().emit(unit, plain)


NATIVE["conv_tail"] = _ForwardWithTail()
