"""Shared parts of control flow: user functions become graphs with checked, matching types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ... import tree
from ...dtypes import kind_of
from ...errors import TracerError, TreeError
from ...graph import trace as tracing
from ...graph.graph import Const, Graph, Spec, Var, spec_of
from ...graph.trace import bind, evaluate, make_graph, traceable, user_source
from ...ops.elementwise import convert
from ...tensor import Tensor

__all__ = [
    "carry_body",
    "carry_error",
    "cast",
    "check_structure",
    "common_inputs",
    "concrete",
    "eager",
    "function_name",
    "leaf_names",
    "promote",
    "runner",
    "trace_body",
    "with_outputs",
]


class Body(NamedTuple):
    """A user function as a graph: its captured Tensors are its last inputs, its outputs the leaves of a tree."""

    graph: Graph
    captured: list[Any]
    structure: tree.Structure
    names: list[str]


def function_name(f: Callable[..., Any]) -> str:
    """Return the name of a function, or of the class of a callable object."""
    return getattr(f, "__name__", type(f).__name__)


def eager(leaves: Sequence[Any]) -> bool:
    """Return True if plain Python can run: no transform is active and nothing is traced."""
    return tracing._state.depth == 0 and not any(isinstance(x, Tensor) for x in leaves)


def concrete(x: Any) -> Any:
    """The plain value beneath `x`, or None where there is none yet (or one per example)."""
    while isinstance(x, Tensor):
        try:
            x = x._concrete("value")
        except TracerError:
            return None
    return x


def leaf_names(t: Any, prefix: str = "") -> list[str]:
    """Return the path of each leaf of a tree as source text, in the order of `tree.flatten`."""
    node = None if t is None else tree.inner(t)
    if node is None:
        return [] if t is None else [prefix]
    kind, names, children = node
    keys = [f"[{name!r}]" if issubclass(kind, dict) or isinstance(name, int) else f".{name}" for name in names]
    return [name for k, c in zip(keys, children, strict=True) for name in leaf_names(c, prefix + k)]


def trace_body(
    f: Callable[..., Any], args: tree.Structure, specs: Sequence[Spec], name: str, stage: bool = False
) -> Body:
    """Record ``f(*args)``, where `args` is the structure of a tuple of trees whose leaves have `specs` (`stage`: see
    `make_graph`).
    """
    structure, names = None, []

    def flat(*leaves):
        nonlocal structure, names
        out = traceable(f)(*tree.unflatten(args, leaves))
        outs, structure = tree.flatten(out)
        names = leaf_names(out)
        for o, n in zip(outs, names, strict=True):
            if not isinstance(o, (Tensor, np.ndarray, np.generic, bool, int, float, complex)):
                raise TypeError(
                    f"{name}: {function_name(f)} must return arrays and numbers (or trees of them), "
                    f"got {type(o).__name__} {o!r}{' at ' + n if n else ''}, at {user_source()}"
                )
        return outs

    graph, captured = make_graph(flat, specs, name, stage, loop=not stage)
    return Body(graph, captured, structure, names)


def common_inputs(bodies: Sequence[Body], n_args: int) -> tuple[list[Graph], list[Any]]:
    """Give all graphs the same captured inputs: (graphs, captured Tensors)."""
    captured: dict[Any, Any] = {}
    for b in bodies:
        for t in b.captured:
            captured.setdefault(t._identity(), t)
    graphs = []
    for b in bodies:
        own = {t._identity(): v for t, v in zip(b.captured, b.graph.inputs[n_args:], strict=True)}
        inputs = b.graph.inputs[:n_args] + [own.get(k) or Var(spec_of(t)) for k, t in captured.items()]
        graphs.append(Graph(inputs, b.graph.equations, b.graph.outputs, b.graph.name))
    return graphs, list(captured.values())


def cast(value: Any, spec: Spec) -> Any:
    """`value` with the dtype of `spec` (Python numbers stay so when the spec is weak)."""
    have = spec_of(value)
    if have.dtype == spec.dtype and (have.weak == spec.weak or not have.weak):
        return value
    if not isinstance(value, Tensor):
        return spec.dtype.type(value).item() if spec.weak else np.asarray(value, spec.dtype)[()]
    return value + spec.dtype.type(0).item() if spec.weak else bind(convert, value, dtype=spec.dtype)


def with_outputs(graph: Graph, specs: Sequence[Spec]) -> Graph:
    """The graph with its outputs converted to `specs` where they differ."""
    if all((a.dtype, a.weak) == (b.dtype, b.weak) for a, b in zip(graph.out_specs, specs, strict=True)):
        return graph
    return make_graph(
        lambda *a: [cast(o, s) for o, s in zip(evaluate(graph, *a), specs, strict=True)], graph.in_specs, graph.name
    )[0]


_KINDS = {"b": False, "i": 0, "f": 0.0, "c": 0j}


def promote(specs: Sequence[Spec]) -> Spec | None:
    """The type that holds all of `specs`, which only weak ones may change to; None where there is none."""
    first = specs[0]
    if any(s.shape != first.shape for s in specs):
        return None
    strong = {s.dtype for s in specs if not s.weak}
    if len(strong) > 1:
        return None
    dtype = np.result_type(*[_KINDS[kind_of(s.dtype)] if s.weak else s.dtype for s in specs])
    if strong and dtype not in strong:
        return None
    return Spec(first.shape, np.dtype(dtype), not strong)


def check_structure(where: str, what: str, expected: tree.Structure, got: tree.Structure) -> None:
    """Raise TreeError unless two trees have the same structure."""
    if expected != got:
        raise TreeError(f"{where}: {what} must have the structure {expected}, got {got}, at {user_source()}")


def carry_body(
    where: str,  # name of the loop, for messages
    make: Callable[[list[Spec]], Body],  # traces the body for specs of the carry; its first outputs are the new carry
    specs: list[Spec],  # of the initial carry
    names: list[str],  # of the leaves, for messages
    n_carry: int,  # number of leaves of the carry
) -> tuple[Body, list[Spec]]:
    """Trace a loop body until its carry keeps its types, and return it with the promoted specs of the carry.

    Only Python numbers in the initial carry may change their types.
    """
    while True:
        body = make(specs)
        wanted = []
        for k, (before, after) in enumerate(zip(specs, body.graph.out_specs[:n_carry], strict=True)):
            both = promote([before, after])
            if both is None and before.weak:
                both = (
                    after
                    if before.shape == after.shape and np.can_cast(before.dtype, after.dtype, "same_kind")
                    else None
                )
            if both is None:
                raise carry_error(where, names[k], before, after)
            wanted.append(both)
        if all((a.dtype, a.weak) == (b.dtype, b.weak) for a, b in zip(specs, wanted, strict=True)):
            graph = with_outputs(body.graph, wanted + body.graph.out_specs[n_carry:])
            return body._replace(graph=graph), specs
        specs = wanted


def runner(graph: Graph) -> Callable[..., list[Any]]:
    """The graph as a Python function on plain arrays: for loops that run it many times."""
    scope: dict[str, Any] = {}
    names = {v: f"v{k}" for k, v in enumerate(graph.inputs)}

    def read(atom):
        if type(atom) is Const:
            scope[f"c{len(scope)}"] = atom.value
            return f"c{len(scope) - 1}"
        return names[atom]

    lines = [f"def run({', '.join(names.values())}):"]
    for k, eqn in enumerate(graph.equations):
        impl, params = f"c{len(scope)}", f"c{len(scope) + 1}"
        scope[impl], scope[params] = eqn.primitive.impl, eqn.params
        call = f"{impl}({', '.join([read(a) for a in eqn.inputs] + [f'**{params}'] * bool(eqn.params))})"
        names.update((o, f"e{k}_{i}") for i, o in enumerate(eqn.outputs))
        outs = [names[o] for o in eqn.outputs]
        lines.append(f"  {', '.join(outs)}{',' * eqn.primitive.multiple} = {call}")
    lines.append(f"  return [{', '.join(read(o) for o in graph.outputs)}]")
    exec("\n".join(lines), scope)  # noqa: S102  the text is ours
    return scope["run"]


def carry_error(where: str, name: str, before: Spec, after: Spec) -> TypeError:
    """Return the error for a carry whose shape or dtype changes from step to step."""
    if before.shape != after.shape:
        hint = "every step must return arrays of the shape it was given"
    else:
        hint = f"convert with astype, or start from {after.dtype.name}"
    return TypeError(
        f"{where}: the carry must keep its type from step to step; {'leaf ' + name if name else 'it'} was {before} "
        f"and became {after} ({hint}), at {user_source()}"
    )
