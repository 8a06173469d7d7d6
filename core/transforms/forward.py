"""Forward mode: pairs of value and tangent, by each primitive's jvp rule.

A tangent of None is zero and costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import numpy as np

from .. import tree
from ..dtypes import kind_of
from ..errors import EscapedTensorError, MissingRuleError, TreeError
from ..foreign import flatten
from ..graph.graph import spec_of
from ..graph.trace import GraphTrace, Trace, bind, dead_code, describe, evaluate, traceable, user_source
from ..ops.elementwise import convert
from ..tensor import Tensor
from .grad import check_arrays, check_inexact, split_aux
from .results import own, own_tensors, own_tree
from .tape import inexact

__all__ = ["DualTensor", "DualTrace", "jvp", "linearize"]


class DualTensor(Tensor):
    """A value and its tangent (of the same shape and dtype)."""

    __slots__ = ("tangent",)
    _content = ("value", "tangent")

    def __init__(self, trace, value, tangent):
        self._trace = trace
        self.level = trace.level
        self.value = value
        self.tangent = tangent
        self._link = self._made = None

    @property
    def spec(self):  # type: ignore[override]
        return spec_of(self.value)

    def _take(self, other):
        self.value, self.tangent = other.value, other.tangent

    def _handle(self):
        return DualTensor(self._trace, self.value, self.tangent)

    def _identity(self):
        return (id(self._trace), id(self.value), id(self.tangent))

    def __repr__(self):
        return f"Tensor({self.value!r}, with tangent)"

    def _concrete(self, what):
        if what == "int()" and kind_of(self.dtype) in "fc":
            raise TypeError(
                f"int(): {self!r} is being differentiated (np.floor(x) or core.stop_gradient(x) give its value)"
            )
        return self.value


class DualTrace(Trace):
    """Carries tangents along."""

    __slots__ = ()

    def lift(self, value):
        return DualTensor(self, value, None)

    def process(self, primitive, args, params):
        if not self.alive:
            raise EscapedTensorError(
                f"{primitive.name}: a value with a tangent was used after its transform had ended (return it instead "
                f"of storing it), at {user_source()}"
            )
        values, tangents = [], []
        for a in args:
            if type(a) is DualTensor and a._trace is self:
                values.append(a.value)
                tangents.append(a.tangent)
            else:
                values.append(a)
                tangents.append(None)
        out = bind(primitive, *values, **params)
        if not primitive.differentiable:
            return out
        if all(t is None for t in tangents):  # stays traced, so that what began as zeros_like(x) can be assigned into
            if primitive.multiple:
                return tuple([DualTensor(self, o, None) if inexact(o) else o for o in out])
            return DualTensor(self, out, None) if inexact(out) else out
        t_out = tangent(primitive, tangents, out, values, params)
        if primitive.multiple:
            return tuple([DualTensor(self, o, t) if t is not None else o for o, t in zip(out, t_out, strict=True)])
        return DualTensor(self, out, t_out) if t_out is not None else out


def tangent(primitive, tangents: Sequence[Any], out: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Tangent(s) of the output(s); None is zero."""
    if primitive.jvp_all is not None:
        return primitive.jvp_all(tangents, out, args, **params)
    if primitive.jvps is None:
        raise MissingRuleError(
            f"{primitive.name}({describe(args)}): no jvp rule, so no forward-mode derivative (define one with .jvp)"
        )
    total = None
    for i, t in enumerate(tangents):
        rule = primitive.jvps[i] if t is not None else None
        if rule is None:
            continue
        if rule == "same":
            term = bind(primitive, *args[:i], t, *args[i + 1 :], **params)
        else:
            term = rule(t, out, *args, **params)
        total = term if total is None else total + term
    if total is None or not inexact(out):
        return None
    return match_tangent(total, out) if primitive.kind == "elementwise" else total


def match_tangent(t, out):
    """Bring the tangent of an elementwise operation to the shape and dtype of its output."""
    if np.shape(t) != np.shape(out):
        t = np.broadcast_to(t, np.shape(out))
    dtype = getattr(out, "dtype", None) or spec_of(out).dtype
    if np.result_type(t) != dtype:
        t = bind(convert, np.real(t) if dtype.kind != "c" and np.result_type(t).kind == "c" else t, dtype=dtype)
    return t


def zeros_like_value(x: Any) -> Any:
    """Concrete zeros for a value of any kind (an ndarray; the transforms lift it as needed)."""
    return np.zeros(np.shape(x), np.result_type(x))[()]


def _check_tangents(where, primals, tangents):
    for x, t in zip(primals, tangents, strict=True):
        if np.shape(x) != np.shape(t):
            raise ValueError(f"{where}: a tangent must have the shape of its primal, {np.shape(x)}, got {np.shape(t)}")
        if np.result_type(t).kind == "c" and np.result_type(x).kind != "c":
            raise TypeError(
                f"{where}: the tangent of a real value must be real, got {np.result_type(t)} for {np.result_type(x)}"
            )


@overload
def jvp(
    f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: Literal[False] = False
) -> tuple[Any, Any]: ...
@overload
def jvp(
    f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: Literal[True]
) -> tuple[Any, Any, Any]: ...
def jvp(
    f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> tuple[Any, ...]:
    """Value of `f` and its directional derivative (Jacobian-vector product), in one forward pass.

    Parameters
    ----------
    f : callable
    primals, tangents : sequences of trees
        Same structures and shapes; float or complex leaves.
    has_aux : bool
        If True, `f` returns ``(out, aux)``.

    Returns
    -------
    out, tangent_out : trees of one structure
    aux : tree
        Only with `has_aux`.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import jvp
    >>> value, slope = jvp(np.sin, (0.0,), (2.0,))
    >>> float(slope)
    2.0
    """
    where = f"jvp of {getattr(f, '__name__', f)}"
    leaves, structure = flatten(tuple(primals), where)
    t_leaves, t_structure = flatten(tuple(tangents), where)
    if structure != t_structure:
        raise TreeError(f"{where}: primals and tangents must have one structure, got {structure} and {t_structure}")
    check_inexact(leaves, where)
    _check_tangents(where, leaves, t_leaves)
    values, t_outs, out_structure, aux = _push_forward(f, where, leaves, t_leaves, structure, has_aux)
    value, t_out = tree.unflatten(out_structure, own(values)), tree.unflatten(out_structure, own(t_outs))
    return (value, t_out, own_tree(aux)) if has_aux else (value, t_out)


def _push_forward(f, where, leaves, tangents, structure, has_aux=False):
    """Values of `f`, their tangents, the structure of both, and the auxiliary output."""
    with DualTrace() as trace:
        inputs = [DualTensor(trace, *own_tensors(x, t)) for x, t in zip(leaves, tangents, strict=True)]
        out, aux = traceable(f)(*tree.unflatten(structure, inputs)), None
        if has_aux:
            out, aux = split_aux(out, f)
            aux = tree.map(lambda a: _primal(a, trace), aux)
        outs, out_structure = tree.flatten(out)
        check_arrays(outs, f"{where}: the function must return")
        return [_primal(o, trace) for o in outs], [_tangent(o, trace) for o in outs], out_structure, aux


def _primal(x, trace):
    return x.value if type(x) is DualTensor and x._trace is trace else x


def _tangent(x, trace):
    if type(x) is DualTensor and x._trace is trace and x.tangent is not None:
        return x.tangent
    return zeros_like_value(x)


def linearize(f: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """Value of `f` at `primals` and its derivative there as a linear function, computed once and cheap to apply.

    Returns
    -------
    out : tree
    f_jvp : callable
        ``f_jvp(*tangents) -> tangent of out``.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import linearize
    >>> value, f_jvp = linearize(np.exp, 0.0)
    >>> float(f_jvp(3.0))
    3.0
    """
    where = f"linearize of {getattr(f, '__name__', f)}"
    leaves, structure = flatten(primals, where)
    check_inexact(leaves, where)
    recorder = GraphTrace()
    with recorder:
        t_in = [recorder.input(spec_of(x)._replace(weak=False)) for x in leaves]
        values, t_outs, out_structure, _ = _push_forward(f, where, leaves, t_in, structure)
        graph = dead_code(recorder.finish(t_in, t_outs, "linear"))
    captured = list(recorder.captured)

    def f_jvp(*tangents):
        t_leaves, t_structure = flatten(tangents, where)
        if t_structure != structure:
            raise TreeError(f"{where}: tangents must have the structure of the primals, {structure}, got {t_structure}")
        _check_tangents(where, leaves, t_leaves)
        return tree.unflatten(out_structure, own(evaluate(graph, *t_leaves, *captured)))

    return tree.unflatten(out_structure, own(values)), f_jvp
