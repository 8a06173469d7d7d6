"""The tape of reverse mode: recorded operations, and the pass that runs them backwards."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from ..dtypes import kind_of
from ..errors import EscapedTensorError, MissingRuleError
from ..graph.graph import Spec, spec_of
from ..graph.trace import Trace, asked_by, bind, describe, user_source
from ..ops.elementwise import convert, select
from ..ops.shape import sum_to
from ..ops.sparse import Sparse
from ..tensor import Tensor
from .kept import check, keep

__all__ = ["Node", "TapeTensor", "TapeTrace", "backward", "inexact"]


class Node:
    """One recorded operation: enough to run its vjp rule."""

    __slots__ = ("primitive", "args", "params", "out", "parents", "index", "marks", "source")

    def __init__(self, primitive, args, params, out, parents, index, marks=None, source=None):
        self.primitive, self.args, self.params, self.out, self.parents, self.index = (
            primitive,
            args,
            params,
            out,
            parents,
            index,
        )
        self.marks = marks  # fingerprints of large plain operands, by position
        self.source = source  # where a graph is recorded, the line behind the operation and its derivative


class TapeTensor(Tensor):
    """A value whose history is on a tape. `slot` is None, or which of several outputs of the node it is."""

    __slots__ = ("node", "slot")
    _content = ("value", "node", "slot")

    def __init__(self, trace, value, node, slot=None):
        self._trace = trace
        self.level = trace.level
        self.value = value
        self.node = node
        self.slot = slot
        self._link = self._made = None

    @property
    def spec(self) -> Spec:  # type: ignore[override]
        return spec_of(self.value)

    @property
    def shape(self):
        return np.shape(self.value)

    @property
    def dtype(self):
        v = self.value
        return v.dtype if hasattr(v, "dtype") else spec_of(v).dtype

    @property
    def ndim(self):
        return np.ndim(self.value)

    def _take(self, other):
        self.value, self.node, self.slot = other.value, other.node, other.slot

    def _handle(self):
        return TapeTensor(self._trace, self.value, self.node, self.slot)

    def _identity(self):
        return (id(self.node), self.slot)

    def __repr__(self):
        return f"Tensor({self.value!r}, differentiated)"

    def _concrete(self, what):
        if what == "int()" and kind_of(self.dtype) in "fc":
            raise TypeError(
                f"int(): {self!r} is being differentiated (np.floor(x) or core.stop_gradient(x) give its value)"
            )
        return self.value


def inexact(x: Any) -> bool:
    """Return True if `x` can carry a derivative (floating point or complex)."""
    t = type(x)
    if t is float or t is complex:
        return True
    dtype = getattr(x, "dtype", None)
    return dtype is not None and kind_of(dtype) in "fc"


class TapeTrace(Trace):
    """Records the operations on values that depend on the inputs, in order."""

    __slots__ = ("nodes",)

    def __init__(self):
        super().__init__()
        self.nodes: list[Node] = []

    def input(self, value):
        if isinstance(value, Tensor):
            value = value._handle()
        node = Node(None, (), None, None, (), len(self.nodes))
        self.nodes.append(node)
        return TapeTensor(self, value, node)

    def lift(self, value):
        return self.input(value)

    def process(self, primitive, args, params):
        if not self.alive:
            raise EscapedTensorError(
                f"{primitive.name}: a value being differentiated was used after its transform had ended "
                f"(return it from the function instead of storing it), at {user_source()}"
            )
        values = []
        parents = []
        plain = True
        marks = None
        for i, a in enumerate(args):
            if type(a) is TapeTensor and a._trace is self:
                parents.append((i, a.node, a.slot))
                a = a.value
            elif type(a) is np.ndarray:
                a, mark = keep(a)
                if mark is not None:
                    marks = {**(marks or {}), i: mark}
            elif isinstance(a, Tensor):
                a = a._handle()  # its owner may assign into it before the backward pass
            if plain and isinstance(a, Tensor):
                plain = False
            values.append(a)
        if primitive.taped is not None:
            needed = [False] * len(args)
            for i, _, _ in parents:
                needed[i] = True
            out, params = primitive.taped(values, needed, **params)  # from here on the node's params are its pull-back
        elif plain:  # nearly always nothing is left to trace: spare bind's search
            out = primitive.impl(*values, **params)
        else:
            out = bind(primitive, *values, **params)
        if not primitive.differentiable:
            return out
        nodes = self.nodes
        node = Node(primitive, values, params, out, parents, len(nodes), marks, None if plain else user_source())
        nodes.append(node)
        if primitive.multiple:
            return tuple([TapeTensor(self, o, node, k) if inexact(o) else o for k, o in enumerate(out)])
        return TapeTensor(self, out, node) if inexact(out) else out


def _add(old, owned, g):
    """Return the sum, and True if it is an array made here, which may be added to in place."""
    if type(g) is Sparse:
        total = g.add_to(old, owned)
        return total, type(total) is np.ndarray
    return (g, False) if old is None else (old + g, False)


def _match(g, arg):
    """Bring the cotangent of an elementwise operation to the shape and dtype of the argument."""
    if type(arg) is float:
        kind = type(g)
        if kind is float or kind is np.float64:
            return g
    dtype = getattr(arg, "dtype", None)
    if dtype is None:  # a Python number
        g = sum_to(g, ())
        if (np.result_type(g).kind == "c") != (type(arg) is complex):
            g = np.real(g) if type(arg) is float else g + 0j
        return g
    shape = arg.shape
    if (g.shape if hasattr(g, "shape") else ()) != shape:
        g = sum_to(g, shape) if len(shape) <= np.ndim(g) else np.broadcast_to(g, shape)
    have = g.dtype if hasattr(g, "dtype") else np.dtype(type(g))
    if have != dtype:
        if have.kind == "c" and dtype.kind != "c":
            g = np.real(g)
        g = bind(convert, g, dtype=dtype)
    return g


def backward(
    nodes: Sequence[Node], outputs: Sequence[tuple[Node, int | None, Any]], inputs: Sequence[Node]
) -> list[Any]:
    """Cotangents of the nodes `inputs`, given (node, slot, cotangent) of the outputs. None stands for zero.

    A cotangent that came through a `where` is zero in places, and may meet an infinite factor further up (the branch
    not taken): from there on zero times anything is zero, so that no NaN appears.
    """
    cts: list[Any] = [None] * len(nodes)
    owned = bytearray(len(nodes))
    masked = bytearray(len(nodes))

    def reach(node, slot, g):
        i = node.index
        if slot is None:
            cts[i], owned[i] = _add(cts[i], owned[i], g)
        else:
            if cts[i] is None:
                cts[i] = [None] * len(node.out)
            cts[i][slot] = _add(cts[i][slot], False, g)[0]

    last = -1
    for node, slot, ct in outputs:
        if ct is not None:
            reach(node, slot, ct)
            last = max(last, node.index)
    for index in range(last, -1, -1):
        ct = cts[index]
        if ct is None:
            continue
        node = nodes[index]
        p = node.primitive
        if p is None:
            continue
        cts[index] = None
        mask = masked[index]
        with nullcontext() if node.source is None else asked_by(node.source):
            for (_, parent, slot), g in zip(node.parents, _pull_back(node, ct, mask), strict=True):
                if g is not None:
                    reach(parent, slot, g)
                    if mask or p is select:
                        masked[parent.index] = 1
    return [cts[n.index] for n in inputs]


def _pull_back(node, ct, masked):
    """Cotangents for the recorded parents of a node."""
    p, args = node.primitive, node.args
    if node.marks is not None:
        for i, mark in node.marks.items():
            check(p.name, args[i], mark)
    if p.taped is not None:
        found = node.params(ct)
        return [found[i] for i, _, _ in node.parents]
    if p.vjp_all is not None:
        needed = [False] * len(args)
        for i, _, _ in node.parents:
            needed[i] = True
        found = p.vjp_all(ct, node.out, args, needed, **node.params)
        return [found[i] for i, _, _ in node.parents]
    if p.vjps is None:
        raise MissingRuleError(
            f"{p.name}({describe(args)}): no vjp rule, so no reverse-mode derivative (define one with .vjp, or .jvp "
            "which serves both modes)"
        )
    out: list[Any] = []
    elementwise = p.kind == "elementwise"
    for i, _, _ in node.parents:
        rule = p.vjps[i]
        if rule is None:
            out.append(None)
            continue
        if not masked:
            g = rule(ct, node.out, *args, **node.params)
        else:
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # of elements that will be dropped
                g = rule(ct, node.out, *args, **node.params)
        if elementwise:
            if masked and p is not select:
                # only where the factor was not finite: elsewhere a zero cotangent may still have derivatives of its own
                g = bind(select, np.logical_and(np.equal(ct, 0), np.logical_not(np.isfinite(g))), 0.0, g)
            g = _match(g, args[i])
        out.append(g)
    return out


# -- the public transforms
# ----------------------------------------------------------------------------------------------
