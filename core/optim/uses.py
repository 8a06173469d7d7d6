"""Uses of parameters in a graph: which primitives consume each leaf, inside loops and checkpoints, too.

`find_uses` walks from the inputs of a graph that are parameters to the equations that consume them. `run` evaluates
the graph again, adds a zero to the result of each such equation (whose cotangent is the one of the result), and
returns what the parameter was combined with there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ..graph.graph import Const, Equation, Graph, Spec, Var
from ..graph.trace import bind, make_graph

__all__ = ["Layout", "Use", "Uses", "find_uses", "run", "zero_specs"]

_VIEWS = ("transpose", "reshape")


class Layout(NamedTuple):
    """The view of a parameter as a matrix of inputs and outputs: transpositions and reshapes, and the final shape."""

    steps: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...]  # primitive, its parameter, shape before
    shape: tuple[int, int]

    def to_matrix(self, x: Any) -> Any:
        """The parameter, or an array of its shape, as a matrix (inputs, outputs)."""
        for name, parameter, _ in self.steps:
            x = np.transpose(x, parameter) if name == "transpose" else np.reshape(x, parameter)
        return np.reshape(x, self.shape)

    def from_matrix(self, x: Any, shape: tuple[int, ...]) -> Any:
        """The inverse of `to_matrix` for a parameter of shape `shape`."""
        shapes = [*[before for _, _, before in self.steps], shape]
        if self.steps:
            name, parameter, before = self.steps[-1]
            shapes[-1] = tuple(before[d] for d in parameter) if name == "transpose" else parameter
        x = np.reshape(x, shapes[-1])
        for name, parameter, before in reversed(self.steps):
            x = np.transpose(x, np.argsort(parameter).tolist()) if name == "transpose" else np.reshape(x, before)
        return x


@dataclass(frozen=True)
class Use:
    """One equation that consumes a parameter.

    `kind` is "product", "convolution", "gather", "scale" or "shift"; `operand` is the parameter's position among the
    inputs, `bias` the leaf that is added to the result and to nothing else.
    """

    kind: str
    leaf: int
    operand: int
    layout: Layout | None
    equation: Equation
    bias: int | None = None
    lead: int = 0  # number of loops around the equation


@dataclass
class Uses:
    """Uses in one graph, by number of equation, and those in the bodies of its loops and checkpoints."""

    here: dict[int, Use] = field(default_factory=dict)
    inner: dict[int, Uses] = field(default_factory=dict)

    def ordered(self, graph: Graph) -> list[Use]:
        """All uses in the order of `run`."""
        found: list[Use] = []
        for i, equation in enumerate(graph.equations):
            if i in self.here:
                found.append(self.here[i])
            if i in self.inner:
                loop = equation.primitive.name == "scan"
                found += [replace(u, lead=u.lead + loop) for u in self.inner[i].ordered(_body(equation))]
        return found


class _Alias(NamedTuple):
    """A parameter, or a view of it."""

    leaf: int
    steps: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...] = ()


class _Merge(NamedTuple):
    """An addition of the leaf `bias` to the result of the product or convolution number `at`."""

    bias: int
    uses: Uses
    at: int
    shift: int


class _Search:
    """The walk through a graph and its bodies."""

    def __init__(self) -> None:
        self.others: set[int] = set()  # leaves that are consumed in other ways
        self.counts: dict[int, int] = {}  # leaf -> number of uses
        self.merges: list[_Merge] = []

    def walk(self, graph: Graph, aliases: dict[Any, _Alias]) -> Uses:
        uses = Uses()
        consumers: dict[Any, int] = {}
        for atom in [a for e in graph.equations for a in e.inputs] + graph.outputs:
            consumers[atom] = consumers.get(atom, 0) + 1
        products: dict[Var, int] = {}  # results of products and convolutions that nothing else has consumed
        for i, e in enumerate(graph.equations):
            mine = {k: aliases[a] for k, a in enumerate(e.inputs) if isinstance(a, Var) and a in aliases}
            name = e.primitive.name
            if name in ("reshape", "convert") and e.inputs[0] in products and consumers[e.inputs[0]] == 1:
                if e.outputs[0].spec.shape[-1:] == e.inputs[0].spec.shape[-1:]:
                    products[e.outputs[0]] = products[e.inputs[0]]
            if not mine or not e.primitive.differentiable:
                continue
            if name in _VIEWS:
                parameter = e.params["axes"] if name == "transpose" else e.params["shape"]
                ((leaf, steps),) = mine.values()
                step = (name, tuple(parameter), tuple(e.inputs[0].spec.shape))
                aliases[e.outputs[0]] = _Alias(leaf, (*steps, step))
            elif name == "convert":
                aliases[e.outputs[0]] = mine[0]
            elif name in ("scan", "checkpoint"):
                self._enter(uses, i, e, mine)
            elif len(mine) == 1 and (use := _use(e, *next(iter(mine.items())))) is not None:
                self.counts[use.leaf] = self.counts.get(use.leaf, 0) + 1
                uses.here[i] = use
                if use.kind in ("product", "convolution") and use.operand == 1:
                    products[e.outputs[0]] = i
                elif use.kind == "shift" and name == "add":
                    other = e.inputs[1 - use.operand]
                    if other in products and consumers[other] == 1 and _fits_bias(use, uses.here[products[other]]):
                        self.merges.append(_Merge(use.leaf, uses, products[other], i))
            else:
                self.others.update(alias.leaf for alias in mine.values())
        self.others.update(aliases[v].leaf for v in graph.outputs if isinstance(v, Var) and v in aliases)
        return uses

    def _enter(self, uses, i, e, mine):
        body = _body(e)
        inside = {}
        for k, alias in mine.items():
            if e.primitive.name == "scan" and k >= e.params["n_consts"]:
                self.others.add(alias.leaf)
            else:
                inside[body.inputs[k]] = alias
        uses.inner[i] = self.walk(body, inside)

    def merge(self) -> None:
        """Join a bias with its weight where neither is used without the other."""
        for bias in {m.bias for m in self.merges}:
            merges = [m for m in self.merges if m.bias == bias]
            weights = {m.uses.here[m.at].leaf for m in merges}
            if (
                len(weights) == 1
                and len(merges) == self.counts[bias] == self.counts[next(iter(weights))]
                and not {bias, *weights} & self.others
            ):
                for m in merges:
                    m.uses.here[m.at] = replace(m.uses.here[m.at], bias=bias)
                    del m.uses.here[m.shift]


def find_uses(graph: Graph, leaves: Sequence[int]) -> tuple[Uses, set[int]]:
    """Uses of the inputs number `leaves`, and those of these inputs that are consumed in other ways, too."""
    search = _Search()
    uses = search.walk(graph, {graph.inputs[k]: _Alias(k) for k in leaves})
    search.merge()
    return uses, search.others


def _body(e: Equation) -> Graph:
    return e.params["body" if e.primitive.name == "scan" else "graph"]


def _use(e: Equation, k: int, alias: _Alias) -> Use | None:
    """What an equation does with the parameter among its inputs; None if it is of no known kind."""
    name, spec, params = e.primitive.name, e.inputs[k].spec, e.params

    def use(kind, *columns):
        layout = None
        if columns:
            order, n_in = columns
            steps = alias.steps
            if order != tuple(range(spec.ndim)):
                steps = (*steps, ("transpose", order, tuple(spec.shape)))
            rows = math.prod(spec.shape[d] for d in order[:n_in])
            layout = Layout(steps, (rows, spec.size // max(rows, 1)))
        return Use(kind, alias.leaf, k, layout, e)

    whole = tuple(range(spec.ndim))
    if name == "dot_general" and params["batch"] == ((), ()):
        contract = params["contract"][k]
        return use("product", contract + tuple(d for d in whole if d not in contract), len(contract))
    if name == "conv" and k == 1 and params["groups"] == 1:
        return use("convolution", whole, spec.ndim - 1)
    if name == "conv_input" and k == 1 and params["groups"] == 1:  # the channels out of the kernel go in
        return use("convolution", (spec.ndim - 1, *whole[:-1]), 1)
    if name == "gather" and k == 0 and len(e.inputs) == 2:
        return use("gather", whole, 1)
    if name in ("multiply", "add", "subtract") and not alias.steps and spec.size:
        out = e.outputs[0].spec
        if spec.ndim and out.shape[out.ndim - spec.ndim :] == spec.shape and _gives_shape(e, k):
            return use("scale" if name == "multiply" else "shift")
    return None


def _gives_shape(e, k):
    """The other operand is what has the result's shape: the parameter is spread over it, not it over the parameter."""
    return e.inputs[1 - k].spec.shape == e.outputs[0].spec.shape


def _fits_bias(shift: Use, weight: Use) -> bool:
    """The shift is a vector with one entry for each output of the weight."""
    spec = shift.equation.inputs[shift.operand].spec
    return weight.layout is not None and weight.bias is None and spec.shape == weight.layout.shape[1:]


# -- evaluation --------------------------------------------------------------------------------------------------------


def zero_specs(graph: Graph, uses: Uses) -> list[Spec]:
    """Specs of the zeros that `run` adds to the results of the uses, in its order."""
    found: list[Spec] = []
    for i, e in enumerate(graph.equations):
        if i in uses.here:
            found.append(e.outputs[0].spec)
        if i in uses.inner:
            lead = (e.params["length"],) if e.primitive.name == "scan" else ()
            found += [Spec((*lead, *s.shape), s.dtype) for s in zero_specs(_body(e), uses.inner[i])]
    return found


def run(
    graph: Graph,
    uses: Uses,
    args: Sequence[Any],
    zeros: Iterator[Any],
    rest: Sequence[Any] = (),
    wanted: Sequence[Var] = (),
    shifts: dict[Var, Any] | None = None,
) -> tuple[list[Any], list[Any], list[Any]]:
    """Outputs of the graph, the other operand of each use, and the values of `wanted`.

    `shifts` are added to the values of variables. Operands inside of loops have the loop's length in front.
    """
    env: dict[Any, Any] = dict(zip(graph.inputs, [*args, *rest], strict=True))
    operands: list[Any] = []

    def read(atom):
        return atom.value if type(atom) is Const else env[atom]

    for i, e in enumerate(graph.equations):
        values = [read(a) for a in e.inputs]
        if i in uses.inner:
            outs, inner = _run_inside(e, uses.inner[i], values, zeros)
            operands += inner
        else:
            out = bind(e.primitive, *values, **e.params)
            outs = out if e.primitive.multiple else (out,)
        if i in uses.here:
            use = uses.here[i]
            operands.append(values[1 - use.operand] if use.kind != "shift" else None)
            outs = (outs[0] + next(zeros),)
        for v, value in zip(e.outputs, outs, strict=True):
            env[v] = value + shifts[v] if shifts and v in shifts else value
    return [read(o) for o in graph.outputs], operands, [env[v] for v in wanted]


def _run_inside(e, uses, values, zeros):
    """A loop or a checkpoint, with the zeros as further inputs and the operands as further results."""
    body = _body(e)
    specs = zero_specs(body, uses)
    n_args, n_out = len(body.inputs), len(body.outputs)
    kept: list[bool] = []

    def inside(*args):
        outs, operands, _ = run(body, uses, args[:n_args], iter(args[n_args:]))
        kept[:] = [o is not None for o in operands]
        return [*outs, *[o for o in operands if o is not None]]

    graph, captured = make_graph(inside, [*body.in_specs, *specs], body.name)
    if captured:
        raise AssertionError(f"a body must be closed, got {len(captured)} captured values")
    params = {**e.params, "body" if e.primitive.name == "scan" else "graph": graph}
    found = bind(e.primitive, *values, *[next(zeros) for _ in specs], **params)
    rest = iter(found[n_out:])
    return found[:n_out], [next(rest) if k else None for k in kept]
