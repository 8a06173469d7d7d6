"""Reverse mode: a tape of operations, run backwards by each primitive's vjp rule.

The rules are written in terms of other operations, so a backward pass under another transform is differentiated,
batched or recorded like any code: every order of derivative, and the graph form under `jit`, come from this one file.

Complex numbers follow JAX's convention: cotangents are transposed, not conjugated, so ``grad`` of a real function of
z = x + iy is df/dx - i df/dy, and for holomorphic f, ``vjp(f, z)[1](1)`` is f'(z).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, ParamSpec, TypeVar, overload

import numpy as np

from .. import tree
from ..errors import EscapedTensorError, MissingRuleError
from ..graph.graph import Spec, spec_of
from ..graph.trace import Trace, bind, describe, traceable, user_source
from ..ops.elementwise import convert, select
from ..ops.shape import sum_to
from ..ops.sparse import Sparse
from ..tensor import VALUES, Tensor
from .kept import check, keep
from .results import own, own_tree

__all__ = ["Node", "TapeTensor", "TapeTrace", "backward", "check_arrays", "check_inexact", "check_plain", "grad",
           "inexact", "replaced", "select_arguments", "split_aux", "value_and_grad", "vjp"]

P = ParamSpec("P")
R = TypeVar("R")


class Node:
    """One recorded operation: enough to run its vjp rule."""

    __slots__ = ("primitive", "args", "params", "out", "parents", "index", "marks")

    def __init__(self, primitive, args, params, out, parents, index, marks=None):
        self.primitive, self.args, self.params, self.out, self.parents, self.index = (
            primitive, args, params, out, parents, index,
        )
        self.marks = marks  # fingerprints of large plain operands, by position


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
        self._link = None

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
        if what == "int()" and self.dtype.kind in "fc":
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
    return dtype is not None and dtype.kind in "fc"


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
        node = Node(primitive, values, params, out, parents, len(nodes), marks)
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


def backward(nodes: Sequence[Node], outputs: Sequence[tuple[Node, int | None, Any]],
             inputs: Sequence[Node]) -> list[Any]:
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


def _name(f):
    return getattr(f, "__name__", type(f).__name__)


def check_plain(x: Any, where: str) -> None:
    """Refuse arrays whose operations mean something else than ndarray's: that meaning would be lost on the way."""
    if type(x) is not np.ndarray and isinstance(x, (np.matrix, np.ma.MaskedArray)):
        raise TypeError(
            f"{where}: expected ndarrays, got {type(x).__name__} of shape {x.shape} (np.asarray of it, its "
            ".filled(), or np.where with the mask)"
        )


def check_inexact(leaves: Sequence[Any], where: str) -> None:
    """Raise TypeError unless all leaves are float or complex."""
    for leaf in leaves:
        if isinstance(leaf, np.ndarray):
            check_plain(leaf, where)
        if not inexact(leaf):
            spec = spec_of(leaf) if not isinstance(leaf, str) else type(leaf).__name__
            if isinstance(leaf, int) and not isinstance(leaf, bool):
                hint = f"write {leaf}.0"
            else:
                hint = "convert with astype(float), or leave it out with argnums"
            raise TypeError(
                f"{where}: derivatives are taken with respect to float or complex values, got {spec} ({hint})"
            )


def check_arrays(leaves: Sequence[Any], must: str, hint: str = "nothing else can be traced") -> None:
    """Raise a TypeError unless all `leaves` are arrays, numbers or Tensors; `must` says where and who."""
    for x in leaves:
        if isinstance(x, np.ndarray):
            check_plain(x, must.split(":")[0])
        if not isinstance(x, VALUES) or (isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind not in "biufc"):
            got = f"an array of {x.dtype}" if isinstance(x, np.ndarray) else f"{type(x).__name__} {x!r:.60}"
            raise TypeError(f"{must} arrays and numbers, or trees of them, got {got} ({hint})")


def _vjp_flat(f: Callable[..., Any], leaves: Sequence[Any]):
    """Run ``f(*tensors) -> (flat outputs, rest)`` on a fresh tape.

    Returns outputs, rest and the pull-back of flat cotangents.
    """
    trace = TapeTrace()
    with trace:
        inputs = [trace.input(x) for x in leaves]
        outs, rest = f(*[t._handle() for t in inputs])
        ends = [(o.node, o.slot) if type(o) is TapeTensor and o._trace is trace else None for o in outs]
        values = [o.value if e is not None else o for o, e in zip(outs, ends, strict=True)]

        def strip(x):
            return x.value if type(x) is TapeTensor and x._trace is trace else x

        rest = rest if rest is None else tree.map(strip, rest)
    nodes = [t.node for t in inputs]

    def pull(cts):
        found = backward(trace.nodes, [(*e, ct) for e, ct in zip(ends, cts, strict=True) if e is not None], nodes)
        return [np.zeros(np.shape(x), np.result_type(x))[()] if g is None else g
                for g, x in zip(found, leaves, strict=True)]

    return values, rest, pull


@overload
def vjp(f: Callable[..., Any], *primals: Any,
        has_aux: Literal[False] = False) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]: ...
@overload
def vjp(f: Callable[..., Any], *primals: Any,
        has_aux: Literal[True]) -> tuple[Any, Callable[[Any], tuple[Any, ...]], Any]: ...
def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Value of `f` and a function that pulls cotangents back (vector-Jacobian product).

    Parameters
    ----------
    f : callable
    *primals : trees of float or complex arrays
    has_aux : bool
        If True, `f` returns ``(out, aux)``, and `aux` is passed through.

    Returns
    -------
    out : tree
    pullback : callable
        ``pullback(ct) -> tuple`` of cotangents, one tree per primal; may be called many times.
    aux : tree
        Only with `has_aux`.

    Examples
    --------
    >>> out, pullback = vjp(np.sin, 0.0)
    >>> float(pullback(2.0)[0])
    2.0
    """
    leaves, structure = tree.flatten(primals)
    check_inexact(leaves, f"vjp of {_name(f)}")
    # the caller may change them before pulling back
    leaves = [x.copy() if type(x) is np.ndarray else x for x in leaves]
    out_structure = None

    def flat(*tensors):
        nonlocal out_structure
        out = traceable(f)(*tree.unflatten(structure, tensors))
        aux = None
        if has_aux:
            out, aux = split_aux(out, f)
        out_leaves, out_structure = tree.flatten(out)
        check_arrays(out_leaves, f"vjp of {_name(f)}: the function must return")
        return out_leaves, aux

    values, aux, pull = _vjp_flat(flat, leaves)

    def pullback(ct):
        cts, ct_structure = tree.flatten(ct)
        if ct_structure != out_structure:
            raise ValueError(
                f"vjp of {_name(f)}: the cotangent must have the structure of the output, {out_structure}, got "
                f"{ct_structure}"
            )
        for c, v in zip(cts, values, strict=True):
            if np.shape(c) != np.shape(v):
                raise ValueError(
                    f"vjp of {_name(f)}: a cotangent must have the shape of its output, {np.shape(v)}, got "
                    f"{np.shape(c)}"
                )
            if np.result_type(c).kind == "c" and np.result_type(v).kind != "c":
                raise TypeError(
                    f"vjp of {_name(f)}: the cotangent of a real output must be real, got {np.result_type(c)} for "
                    f"{np.result_type(v)}"
                )
        return tree.unflatten(structure, own(pull(cts)))

    out = tree.unflatten(out_structure, own(values))
    return (out, pullback, own_tree(aux)) if has_aux else (out, pullback)


def split_aux(out: Any, f: Callable[..., Any]) -> tuple[Any, Any]:
    """Return the pair (value, aux) that a function with has_aux=True returns, or raise TypeError."""
    if not isinstance(out, tuple) or len(out) != 2:
        raise TypeError(
            f"{_name(f)}: with has_aux=True it must return a pair (value, aux), got "
            f"{'one array' if isinstance(out, Tensor) else type(out).__name__}"
        )
    return out


def select_arguments(args: Sequence[Any], argnums: int | Sequence[int], where: str) -> tuple[int, ...]:
    """`argnums` as a tuple of valid positions."""
    nums = (argnums,) if isinstance(
        argnums, (int, np.integer)
    ) else tuple(argnums) if isinstance(argnums, Sequence) else (argnums,)
    for n in nums:
        if not isinstance(n, (int, np.integer)):
            raise TypeError(f"{where}: argnums must be an integer or a sequence of them, got {argnums!r}")
        if not -len(args) <= n < len(args):
            raise ValueError(f"{where}: argnums must name positional arguments, got {n} for {len(args)} argument(s)")
    return tuple(n % len(args) for n in nums)


def replaced(args: Sequence[Any], positions: Sequence[int], values: Sequence[Any]) -> list[Any]:
    """`args` with those at `positions` exchanged for `values`."""
    full = list(args)
    for n, a in zip(positions, values, strict=True):
        full[n] = a
    return full


def value_and_grad(f: Callable[P, R], argnums: int | Sequence[int] = 0,
                   has_aux: bool = False) -> Callable[P, tuple[R, Any]]:
    """Function that returns the value of the scalar function `f` and its gradient.

    Parameters
    ----------
    f : callable
        Returns a real scalar (or ``(scalar, aux)`` with `has_aux`).
    argnums : int or sequence of int
        The arguments to differentiate with respect to; each a tree of float or complex arrays.
    has_aux : bool

    Returns
    -------
    callable
        ``(*args, **kwargs) -> (value, grad)`` or ``((value, aux), grad)``; `grad` is a tree like the argument, a tuple
        of them when `argnums` is a sequence.

    Raises
    ------
    TypeError
        If the output is not a real scalar or an argument is not floating-point.

    Examples
    --------
    >>> value, slope = value_and_grad(lambda x: x**2)(3.0)
    >>> float(value), float(slope)
    (9.0, 6.0)
    """

    def value_and_grad_f(*args, **kwargs):
        where = f"grad of {_name(f)}"
        nums = select_arguments(args, argnums, where)
        leaves, structure = tree.flatten([args[n] for n in nums])
        check_inexact(leaves, where)

        def flat(*tensors):
            out = traceable(f)(*replaced(args, nums, tree.unflatten(structure, tensors)), **kwargs)
            aux = None
            if has_aux:
                out, aux = split_aux(out, f)
            if not isinstance(out, (Tensor, np.ndarray, np.generic, float, int)) or np.shape(out) != ():
                got = type(out).__name__ if not hasattr(out, "shape") else f"shape {np.shape(out)}"
                raise TypeError(
                    f"{where}: the function must return one real scalar, got {got} (use jacrev for arrays, "
                    "has_aux=True for more results)"
                )
            kind = np.result_type(out).kind
            if kind != "f":
                hint = "it has no derivative; return the float it was made from"
                if kind == "c":
                    hint = "take np.real or np.abs, or use vjp"
                raise TypeError(f"{where}: the function must return a real scalar, got {np.result_type(out)} ({hint})")
            return [out], aux

        (value,), aux, pull = _vjp_flat(flat, leaves)
        kind = type(value)
        one = 1.0 if kind is float else kind(1) if issubclass(kind, np.generic) else np.ones(
            (), np.result_type(value)
        )[()]
        grads = tree.unflatten(structure, own(pull([one])))
        grads = grads[0] if isinstance(argnums, (int, np.integer)) else tuple(grads)
        (value,) = own([value])
        return ((value, own_tree(aux)), grads) if has_aux else (value, grads)

    value_and_grad_f.__name__ = f"value_and_grad({_name(f)})"
    value_and_grad_f.__wrapped__ = f  # type: ignore[attr-defined]
    return value_and_grad_f


def grad(f: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[P, Any]:
    """Function that returns the gradient of the scalar function `f` (see `value_and_grad` for the arguments).

    Examples
    --------
    >>> float(grad(np.tanh)(0.0))
    1.0
    """
    both = value_and_grad(f, argnums, has_aux)

    def grad_f(*args, **kwargs):
        value, grads = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    grad_f.__name__ = f"grad({_name(f)})"
    grad_f.__wrapped__ = f  # type: ignore[attr-defined]
    return grad_f
