"""A graph that is compiled when it is called with arrays, and transformed when it is called with Tensors.

Under an outer jit the graph is written out; under an eager transform its derivative or batched form is itself a graph,
made once and compiled.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ..dtypes import kind_of
from ..graph.graph import Graph, Spec, Var
from ..graph.primitive import Primitive
from ..graph.trace import GraphTrace, dead_code, evaluate, make_graph
from ..tensor import Tensor
from ..transforms.forward import DualTensor, DualTrace, jvp
from ..transforms.tape import Node, TapeTensor, TapeTrace, backward, inexact
from ..transforms.vmap import BatchTensor, BatchTrace, vmap
from .program import Program
from .waiting import Waiting
from .wrapper import MISS, miss_after

__all__ = ["GraphFunction", "as_argument"]


def _only_recorded(*args, pull):
    raise TypeError("compiled call: it stands on a tape and is never applied")


_compiled = Primitive("compiled call", _only_recorded, _only_recorded, multiple=True)
_compiled.defvjp_all(lambda cts, out, args, needed, *, pull: pull(cts))


class GraphFunction:
    """A graph with its compiled form and its transformed forms, each made when first needed.

    Results of the compiled form take the memory of the arguments `donated`; transformed forms leave them alone.
    Without `contract`, products and sums round separately in all forms.
    """

    __slots__ = ("graph", "donated", "contract", "_program", "_forms", "_lock", "_waiting")

    def __init__(
        self, graph: Graph, donated: Collection[int] = (), contract: bool = True, waiting: Waiting | None = None
    ):
        self.graph, self.donated, self.contract = graph, donated, contract
        self._waiting = waiting or Waiting(None, graph.name)
        self._program: Program | None = None
        self._forms: dict[Any, Any] = {}
        self._lock = threading.RLock()

    @property
    def program(self) -> Program:
        if self._program is None:
            with self._lock:  # a second program would replace, and unload, one that another thread may be running
                if self._program is None:
                    with self._waiting.compiling():
                        self._program = Program(self.graph, donated=self.donated, contract=self.contract)
        return self._program

    def __call__(self, args: Sequence[Any]) -> Sequence[Any]:
        """Outputs for flat arguments (arrays, numbers, Tensors of any transform)."""
        top = max((a for a in args if isinstance(a, Tensor)), key=lambda a: a.level, default=None)
        if top is None:
            return self._run(args)
        trace = top._trace
        if isinstance(trace, GraphTrace):
            return evaluate(self.graph, *args)
        mine = [isinstance(a, Tensor) and a._trace is trace for a in args]
        values = [a.value if m else a for a, m in zip(args, mine, strict=True)]
        if isinstance(trace, TapeTrace):
            return self._on_tape(trace, args, mine, values)
        if isinstance(trace, DualTrace):
            return self._with_tangents(trace, args, mine, values)
        if isinstance(trace, BatchTrace):
            axes = tuple([a.axis if m else None for a, m in zip(args, mine, strict=True)])
            return [BatchTensor(trace, o, 0) for o in self._form("batch", self._batched, axes, trace.size)(values)]
        return evaluate(self.graph, *args)

    def _run(self, args):
        args = [as_argument(a, s) for a, s in zip(args, self.graph.in_specs, strict=True)]
        for i in self.program.donors.values():
            if not (args[i].flags.owndata and args[i].flags.writeable):
                args[i] = args[i].copy()
        out = self.program.caller(*args)
        if out is MISS and miss_after(self.program.caller, 0):
            out = self.program.caller(*args)
        if out is MISS:
            raise RuntimeError("jit: the compiled program must take its own arguments, got a miss")
        return (out,) if len(self.graph.outputs) == 1 else out

    def _form(self, name, make, *key):
        found = self._forms.get((name, *key))
        if found is None:
            found = self._forms[name, *key] = make(*key)
        return found

    # -- batching and forward mode
    # ---------------------------------------------------------------------------------------

    def _batched(self, axes, size):
        specs = [
            s if ax is None else Spec((*s.shape[:ax], size, *s.shape[ax:]), s.dtype)
            for s, ax in zip(self.graph.in_specs, axes, strict=True)
        ]
        graph, _ = make_graph(
            lambda *xs: vmap(lambda *ys: evaluate(self.graph, *ys), in_axes=axes)(*xs), specs, f"vmap {self.graph.name}"
        )
        return GraphFunction(graph, contract=self.contract)

    def _with_tangents(self, trace, args, mine, values):
        moving = tuple([m and a.tangent is not None for a, m in zip(args, mine, strict=True)])
        if not any(moving):
            return self(values)
        outs = self._form("jvp", self._tangents, moving)(
            [*values, *[a.tangent for a, m in zip(args, moving, strict=True) if m]]
        )
        n = len(self.graph.outputs)
        tangents = iter(outs[n:])
        return [
            DualTensor(trace, o, next(tangents)) if kind_of(s.dtype) in "fc" else o
            for o, s in zip(outs[:n], self.graph.out_specs, strict=True)
        ]

    def _tangents(self, moving):
        specs = self.graph.in_specs
        places = [k for k, m in enumerate(moving) if m]
        live = [k for k, s in enumerate(self.graph.out_specs) if kind_of(s.dtype) in "fc"]

        def both(*xs):
            values, tangents = xs[: len(specs)], xs[len(specs) :]

            def f(*some):
                full = list(values)
                for k, x in zip(places, some, strict=True):
                    full[k] = x
                outs = evaluate(self.graph, *full)
                return [outs[k] for k in live], outs

            _, t_outs, outs = jvp(f, [values[k] for k in places], list(tangents), has_aux=True)
            return [*outs, *t_outs]

        graph, _ = make_graph(
            both, [*specs, *[specs[k]._replace(weak=False) for k in places]], f"jvp {self.graph.name}"
        )
        return GraphFunction(graph, contract=self.contract)

    # -- reverse mode --------------------------------------------------------------------------------------------------

    def _on_tape(self, trace, args, mine, values):
        needed = tuple([m and inexact(v) for m, v in zip(mine, values, strict=True)])
        if not any(needed):
            return self(values)
        forward, pull_back, kept = self._form("vjp", self._reverse, needed)
        results = forward(values)
        n = len(self.graph.outputs)
        outs, rest = results[:n], iter(results[n:])
        residuals = [values[k] if k is not None else next(rest) for k in kept]
        specs = self.graph.out_specs

        def pull(cts):
            live = [
                np.zeros(s.shape, s.dtype) if ct is None else ct
                for ct, s in zip(cts, specs, strict=True)
                if kind_of(s.dtype) in "fc"
            ]
            return pull_back([*live, *residuals])

        parents = [(k, a.node, a.slot) for k, a in enumerate(args) if mine[k]]
        node = Node(_compiled, values, {"pull": pull}, tuple(outs), parents, len(trace.nodes))
        trace.nodes.append(node)
        return [
            TapeTensor(trace, o, node, k) if kind_of(s.dtype) in "fc" else o
            for k, (o, s) in enumerate(zip(outs, specs, strict=True))
        ]

    def _reverse(self, needed):
        """The graph that also returns what the backward pass keeps, the backward pass, and where each kept value comes
        from:
        the number of the argument it is, or None for a further result.
        """
        a, b = GraphTrace(), GraphTrace()
        with a:
            inputs = [a.input(s) for s in self.graph.in_specs]
            tape = TapeTrace()
            with tape:
                leaves = [tape.input(x) if n else x for x, n in zip(inputs, needed, strict=True)]
                outs = evaluate(self.graph, *leaves)
            ends = [o if isinstance(o, TapeTensor) and o._trace is tape else None for o in outs]
            values = [o if e is None else e.value for o, e in zip(outs, ends, strict=True)]
            with b:
                cts = [
                    b.input(s._replace(weak=False)) if kind_of(s.dtype) in "fc" else None for s in self.graph.out_specs
                ]
                seeds = [
                    (e.node, e.slot, ct) for e, ct in zip(ends, cts, strict=True) if e is not None and ct is not None
                ]
                grads = backward(tape.nodes, seeds, [x.node for x, n in zip(leaves, needed, strict=True) if n])
                graph = dead_code(
                    b.finish(
                        [c for c in cts if c is not None],
                        [g for g in grads if g is not None],
                        f"backward {self.graph.name}",
                    )
                )
            used = {v for e in graph.equations for v in e.inputs if isinstance(v, Var)} | {
                o for o in graph.outputs if isinstance(o, Var)
            }
            n_cts = sum(c is not None for c in cts)
            held = [(v, t) for v, t in zip(graph.inputs[n_cts:], b.captured, strict=True) if v in used]
            graph.inputs = graph.inputs[:n_cts] + [v for v, _ in held]
            places = {x.value: k for k, x in enumerate(inputs)}
            kept = [places.get(a.atom(t)) for _, t in held]
            forward = dead_code(
                a.finish(
                    inputs,
                    [*values, *[t for (_, t), k in zip(held, kept, strict=True) if k is None]],
                    f"forward {self.graph.name}",
                )
            )
        backward_graph = GraphFunction(graph, contract=self.contract)
        found = [g is not None for g in grads]

        def pull_back(args):
            results = iter(backward_graph(args))
            some = iter([next(results) if f else None for f in found])
            return [next(some) if n else None for n in needed]

        return GraphFunction(forward, contract=self.contract), pull_back, kept


def as_argument(value: Any, spec: Spec) -> Any:
    """`value` in the form in which a program compiled for `spec` takes it: numbers of shape () are scalars.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core
    >>> from triskele.core.extend import as_argument
    >>> as_argument(2, core.spec((), float))
    np.float64(2.0)
    """
    if spec.weak:
        # np.float64 is a float, too
        return value if type(value) in (bool, int, float, complex) else np.asarray(value).item()
    if spec.shape == ():
        return np.asarray(value, spec.dtype)[()]
    if type(value) is np.ndarray and value.dtype == spec.dtype:
        flags = value.flags
        if flags.c_contiguous and flags.aligned:
            return value if value.dtype is spec.dtype else value.view(spec.dtype)
    return np.array(value, spec.dtype, order="C", subok=False)
