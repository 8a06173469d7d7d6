"""Graphs made from graphs: derivative, split and batched forms of the bodies of control flow and of compiled functions.

All of them run the graph under the transform while recording what happens, so each primitive's rules are the only
source of derivatives. None of these graphs unrolls anything: control flow inside stays control flow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..dtypes import kind_of
from ..graph.graph import Const, Equation, Graph, Spec, Var, spec_of
from ..graph.trace import GraphTrace, bind, dead_code, evaluate, make_graph
from ..ops.constant import zeros_of
from ..ops.define import move_batch_axis
from ..ops.elementwise import convert
from .forward import DualTensor, DualTrace
from .tape import TapeTensor, TapeTrace, backward
from .vmap import BatchTensor, BatchTrace

__all__ = [
    "batch_graph",
    "depends",
    "forward_backward",
    "jvp_graph",
    "split_invariant",
    "tangent_spec",
    "tape_of",
    "vjp_graph",
    "zeros",
]


def tangent_spec(spec: Spec) -> Spec:
    """Spec of the tangents and cotangents of a value."""
    return spec._replace(weak=False)


def depends(graph: Graph, marked: Sequence[bool]) -> list[bool]:
    """Return which outputs may carry a derivative with respect to the `marked` inputs."""
    reached = {v for v, m in zip(graph.inputs, marked, strict=True) if m and kind_of(v.spec.dtype) in "fc"}
    for eqn in graph.equations:
        if not eqn.primitive.differentiable:
            continue
        hits = [a in reached for a in eqn.inputs]
        if any(hits):
            rule = eqn.primitive.depends
            outs = rule(hits, **eqn.params) if rule else [True] * len(eqn.outputs)
            reached.update(o for o, hit in zip(eqn.outputs, outs, strict=True) if hit and kind_of(o.spec.dtype) in "fc")
    return [o in reached for o in graph.outputs]


# -- forward mode -----------------------------------------------------------------------------------------------------


def jvp_graph(graph: Graph, moving: Sequence[bool], wanted: Sequence[bool]) -> Graph:
    """Return the graph ``(*inputs, *tangents of the moving ones) -> (*outputs, *wanted tangents)``.

    `moving` says which inputs have a tangent (the others' are zero), `wanted` which outputs' tangents to return.
    """
    n = len(graph.inputs)

    def f(*args):
        tangents = iter(args[n:])
        trace = DualTrace()
        with trace:
            duals = [DualTensor(trace, x, next(tangents)) if m else x for x, m in zip(args[:n], moving, strict=True)]
            outs = evaluate(graph, *duals)
        ours = [type(o) is DualTensor and o._trace is trace for o in outs]
        values = [o.value if mine else o for o, mine in zip(outs, ours, strict=True)]
        t_outs = []
        for o, mine, w in zip(outs, ours, wanted, strict=True):
            if w:
                t_outs.append(o.tangent if mine and o.tangent is not None else zeros_of(o.value if mine else o))
        return [*values, *t_outs]

    specs = graph.in_specs
    return make_graph(
        f, specs + [tangent_spec(s) for s, m in zip(specs, moving, strict=True) if m], f"{graph.name} jvp"
    )[0]


# -- reverse mode -----------------------------------------------------------------------------------------------------


class Halves(NamedTuple):
    """A graph's forward pass, which also returns what the backward pass needs, and that backward pass."""

    forward: Graph  # (*inputs) -> (*outputs, *residuals)
    # (*residuals, *[inputs[i] for i in kept], *[ct of outputs[k] for k in cts], *running sums)
    # -> cotangents of inputs[i] for i in pulled
    backward: Graph
    kept: tuple[int, ...]  # inputs that the backward pass reads again, which are not among the residuals
    cts: tuple[int, ...]  # outputs whose cotangents it takes
    pulled: tuple[int, ...]  # inputs whose cotangents it returns: those needed whose cotangent is not zero
    n_outputs: int  # of the graph itself

    @property
    def n_residuals(self) -> int:
        return len(self.forward.outputs) - self.n_outputs


def forward_backward(
    graph: Graph,
    needed: Sequence[bool],  # inputs whose cotangents are asked for; those of integer or bool dtype have none
    # Outputs that have a cotangent, by default all; those of others count as zero. Outputs that do not depend on the
    # needed inputs are left out: see `Halves.cts`.
    with_ct: Sequence[bool] | None = None,
    # Inputs whose cotangents are added to a running sum, a further last input of the backward graph for each that is
    # pulled. Loops sum the cotangents of their constants so: adding few elements to a large array then stays cheap.
    summed: Sequence[bool] | None = None,
    # (n_consts, n_carry) of the body of a scan: leading inputs equal in every step, and carries after them. The
    # backward graph then computes again what is cheap, so that fewer values need be kept for each step.
    loop: tuple[int, int] | None = None,
) -> Halves:
    """Split the derivative of `graph`, which must have no captured Tensors, into two graphs.

    What does not depend on cotangents is recorded into the forward graph, the rest into the backward graph, which is
    linear. Values of the former that the latter refers to are the residuals.
    """
    with_ct = [True] * len(graph.outputs) if with_ct is None else with_ct
    first = GraphTrace()
    with first:
        inputs = [first.input(s) for s in graph.in_specs]
        tape = TapeTrace()
        with tape:
            taped = [
                tape.input(x) if n and kind_of(x.spec.dtype) in "fc" else x for x, n in zip(inputs, needed, strict=True)
            ]
            outs = evaluate(graph, *taped)
        ours = [type(o) is TapeTensor and o._trace is tape for o in outs]
        # a loop in the graph is one node: all its outputs are on the tape, also those that depend on no needed input
        moving = depends(graph, list(needed))
        cts = tuple(k for k, mine in enumerate(ours) if mine and moving[k] and with_ct[k])
        second = GraphTrace()
        with second:
            ct_in = [second.input(tangent_spec(outs[k].spec)) for k in cts]
            starts = [(i, x.node) for i, x in enumerate(taped) if type(x) is TapeTensor]
            ends = [(outs[k].node, outs[k].slot, ct._handle()) for k, ct in zip(cts, ct_in, strict=True)]
            sums = {
                i: second.input(tangent_spec(graph.inputs[i].spec))
                for i, _ in starts
                if summed is not None and summed[i]
            }
            ends = [(node, None, sums[i]) for i, node in starts if i in sums] + ends
            found = [
                None if g is sums.get(i) else g
                for (i, _), g in zip(starts, backward(tape.nodes, ends, [n for _, n in starts]), strict=True)
            ]
            pulled = tuple(i for (i, _), g in zip(starts, found, strict=True) if g is not None)
            summands = [sums[i] for i in pulled if i in sums]
            back = second.finish(ct_in + summands, [g for g in found if g is not None], f"{graph.name} backward")
        values = [o.value if mine else o for o, mine in zip(outs, ours, strict=True)]
        # what the backward graph captured, in its own variables and in the forward graph's
        inner = dict(zip([t.value for t in second.captured], back.inputs[len(ct_in) + len(summands) :], strict=True))
        dead_code(back)
        used = _used(back)
        position = {t.value: i for i, t in enumerate(inputs)}
        kept = [v for v, w in inner.items() if v in position and w in used]
        residuals = [v for v, w in inner.items() if v not in position and w in used]
        if loop is not None:
            residuals, kept = compute_again(first.equations, list(position), loop, residuals, kept, inner, back)
        kept = tuple(sorted(position[v] for v in kept))
        forward = first.finish(inputs, values, f"{graph.name} forward")
    forward.outputs += residuals
    back.inputs = (
        [inner[v] for v in residuals] + [inner[inputs[i].value] for i in kept] + [t.value for t in ct_in + summands]
    )
    return Halves(dead_code(forward), back, kept, cts, pulled, len(graph.outputs))


def _is_cheap(eqn):
    p = eqn.primitive
    few = isinstance(p.flops, (int, float)) and p.flops <= 2
    return few and p.kind in ("elementwise", "pull", "reshape") and len(eqn.outputs) == 1


def compute_again(
    equations: Sequence[Equation],  # like `inputs`, of the forward body
    inputs: Sequence[Var],
    loop: tuple[int, int],  # (n_consts, n_carry); constants, what follows from them, and slices cost nothing to keep
    residuals: list[Var],
    kept: list[Var],
    inner: dict[Var, Var],  # from variables of the forward to those of the backward body; extended here
    back: Graph,
) -> tuple[list[Var], list[Var]]:
    """Move cheap computations of a loop's forward body to the head of its backward body `back`, to save memory.

    Return the residuals (computed values) and inputs that the backward body then reads.
    """
    producer = {o: eqn for eqn in equations for o in eqn.outputs}
    same, carries = set(inputs[: loop[0]]), set(inputs[loop[0] : sum(loop)])
    for eqn in equations:
        if all(type(a) is Const or a in same for a in eqn.inputs):
            same.update(eqn.outputs)
    order = {v: k for k, v in enumerate(producer)}

    def reachable(v, available, seen):
        if type(v) is Const or v in available or v in seen or v in same:
            return True
        eqn = producer.get(v)
        if eqn is None or not _is_cheap(eqn) or len(seen) > 16:
            return False
        seen.add(v)
        return all(reachable(a, available, seen) for a in eqn.inputs)

    def reduced(available):
        """The residuals that must be kept when the inputs `available` are."""
        left = [v for v in residuals if v not in same]
        for v in sorted(left, key=order.__getitem__, reverse=True):
            if reachable(v, available | (set(left) - {v}), set()):
                left.remove(v)
        return left

    few, all_inputs = set(kept) | (set(inputs) - carries), set(inputs)
    left, base = reduced(few), few
    more = reduced(all_inputs)
    if sum(v.spec.nbytes for v in [*more, *(carries - few)]) < sum(v.spec.nbytes for v in left):
        left, base = more, all_inputs
    head: list[Equation] = []
    stay = [v for v in residuals if v in same or v in left]

    def make(v):
        """The variable of the backward body that stands for `v`."""
        if type(v) is Const or v in made:
            return v if type(v) is Const else made[v]
        if v in base or v in same:
            inner.setdefault(v, Var(v.spec))
            (kept if v in all_inputs else stay).append(v)
            made[v] = inner[v]
        else:
            eqn = producer[v]
            arguments = [make(a) for a in eqn.inputs]
            made[v] = inner.get(v) or Var(v.spec)
            head.append(Equation(eqn.primitive, arguments, eqn.params, [made[v]], eqn.source))
        return made[v]

    kept = list(kept)
    made = {v: inner[v] for v in (*stay, *kept)}
    for v in residuals:
        make(v)
    back.equations = head + back.equations
    return stay, kept


def _used(graph):
    used = {a for eqn in graph.equations for a in eqn.inputs}
    used.update(graph.outputs)
    return used


def vjp_graph(
    graph: Graph, needed: Sequence[bool], with_ct: Sequence[bool] | None = None, summed: Sequence[bool] | None = None
) -> tuple[Graph, Halves]:
    """One graph ``(*inputs, *cts, *running sums) -> cotangents of inputs[i] for i in pulled`` that runs forward and
    backward.

    The parameters are those of `forward_backward`; the `Halves` next to the graph say what `cts` and `pulled` are.
    """
    halves = forward_backward(graph, needed, with_ct, summed)
    n, n_out = len(graph.inputs), len(graph.outputs)

    def f(*args):
        residuals = evaluate(halves.forward, *args[:n])[n_out:]
        return evaluate(halves.backward, *residuals, *[args[i] for i in halves.kept], *args[n:])

    specs = [*graph.in_specs, *halves.backward.in_specs[halves.n_residuals + len(halves.kept) :]]
    return make_graph(f, specs, f"{graph.name} vjp")[0], halves


def split_invariant(graph: Graph, n_fixed: int, first_output: int) -> tuple[Graph, list[int], Graph]:
    """Take out of a loop body the outputs from `first_output` on that depend on its first `n_fixed` inputs only.

    Those inputs are the same in every iteration. Return the graph ``(*fixed inputs) -> invariant outputs``, which of
    the outputs from `first_output` on these are, and the body without them.
    """
    fixed = set(graph.inputs[:n_fixed])
    equations = []
    for eqn in graph.equations:
        if all(type(a) is Const or a in fixed for a in eqn.inputs):
            fixed.update(eqn.outputs)
            equations.append(eqn)
    extra = graph.outputs[first_output:]
    invariant = [k for k, v in enumerate(extra) if type(v) is Const or v in fixed]
    if not invariant:
        return Graph(graph.inputs[:n_fixed], [], [], graph.name), [], graph
    outside = dead_code(
        Graph(graph.inputs[:n_fixed], equations, [extra[k] for k in invariant], f"{graph.name} invariant")
    )
    rest = [v for k, v in enumerate(extra) if k not in invariant]
    inside = dead_code(Graph(graph.inputs, graph.equations, graph.outputs[:first_output] + rest, graph.name))
    return outside, invariant, inside


def tape_of(
    f: Callable[..., Sequence[Any]], args: Sequence[Any], needed: Sequence[bool]
) -> tuple[tuple[Any, ...], Callable]:
    """``f(*args)`` on a tape of its own: its results and the pull-back, in the form that `Primitive.deftaped` asks
    for.
    """
    tape = TapeTrace()
    with tape:
        inputs = [
            tape.input(x) if n and kind_of(spec_of(x).dtype) in "fc" else x for x, n in zip(args, needed, strict=True)
        ]
        outs = f(*inputs)
    ours = [type(o) is TapeTensor and o._trace is tape for o in outs]
    nodes = [(i, x.node) for i, x in enumerate(inputs) if type(x) is TapeTensor and x._trace is tape]

    def pull(cts):
        ends = [(o.node, o.slot, ct) for o, ct, mine in zip(outs, cts, ours, strict=True) if mine]
        result = [None] * len(args)
        for (i, _), g in zip(nodes, backward(tape.nodes, ends, [n for _, n in nodes]), strict=True):
            result[i] = g
        return result

    return tuple([o.value if mine else o for o, mine in zip(outs, ours, strict=True)]), pull


# -- batches ----------------------------------------------------------------------------------------------------------


def batch_graph(
    graph: Graph, batched: Sequence[bool], size: int, wanted: Sequence[bool] | None = None
) -> tuple[Graph, list[bool]]:
    """Return the graph of a batch, with batch axes in front, and which of its outputs have one.

    `batched` says which inputs have a batch axis, `wanted` which outputs must (stretched if independent of the batch).
    """
    out_batched = []

    def f(*args):
        trace = BatchTrace(size)
        with trace:
            outs = evaluate(graph, *[BatchTensor(trace, x, 0) if b else x for x, b in zip(args, batched, strict=True)])
        results = []
        for k, (o, spec) in enumerate(zip(outs, graph.out_specs, strict=True)):
            value, axis = (o.value, o.axis) if type(o) is BatchTensor and o._trace is trace else (o, None)
            # a Python number that became an array takes part in promotion as one
            if spec_of(value).dtype != spec.dtype:
                value = bind(convert, value, dtype=spec.dtype)
            out_batched.append(axis is not None or bool(wanted and wanted[k]))
            results.append(move_batch_axis(value, axis, size) if out_batched[-1] else value)
        return results

    specs = [Spec((size, *s.shape), s.dtype) if b else s for s, b in zip(graph.in_specs, batched, strict=True)]
    return make_graph(f, specs, f"{graph.name} batched")[0], out_batched


def zeros(spec: Spec) -> np.ndarray:
    """Concrete zeros of a spec."""
    return np.zeros(spec.shape, spec.dtype)
