"""Functions with derivative rules of their own, in the flat form that every custom function takes, and how they meet
the transforms.

One rule serves both modes. A jvp rule is linear in the tangents, so its transpose is the vjp; a vjp rule is linear in
the cotangents, so its transpose is the jvp; both transposes are taken by running the rule on a tape.

Eagerly the functions run as they are, on concrete values one level down; while a graph is being recorded they become
graphs of their own inside one equation.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..dtypes import kind_of
from ..errors import MissingRuleError
from ..graph.graph import Var, spec_of
from ..graph.primitive import Primitive
from ..graph.trace import _state, bind, evaluate, make_graph
from ..ops.elementwise import convert
from ..tensor import Tensor
from .forward import DualTensor, DualTrace
from .grad import vjp
from .tape import TapeTensor, TapeTrace, inexact
from .vmap import BatchTensor, BatchTrace, vmap

__all__ = ["Rules", "apply", "zeros_like_value"]


class Rules:
    """A function of leaves with its derivative rules, any of which may be absent."""

    __slots__ = ("where", "count", "f", "fwd", "bwd", "jvp", "missing", "owner")

    def __init__(
        self,
        where: str,  # for messages: "custom_vjp of f"
        count: int,  # of arguments that are differentiated; those that follow are values the function closed over
        f: Callable,  # f(*leaves) -> list of outputs
        fwd: Callable | None = None,  # fwd(*leaves) -> (outputs, residuals), lists
        bwd: Callable | None = None,  # bwd(residuals, cotangents) -> list of `count` cotangents or None
        jvp: Callable | None = None,  # jvp(leaves, tangents) -> (outputs, their tangents); no tangent is None
        missing: str = "",  # end of the message about a missing rule
        # Whose rules these are, when they may close over traced values: they then become graphs as soon as the function
        # does. None: they depend on nothing but their arguments.
        owner: Any = None,
    ):
        self.where, self.count, self.f, self.fwd, self.bwd, self.jvp = where, count, f, fwd, bwd, jvp
        self.missing, self.owner = missing, owner

    def __repr__(self):
        return f"<rules of {self.where}>"

    def reverse(
        self, args: Sequence[Any], needed: Sequence[bool]
    ) -> tuple[list[Any], Callable[[Sequence[Any]], list[Any]]]:
        """Outputs, and the function that pulls cotangents (None: zero) back to the first `count` arguments, where
        `needed`.
        """
        if self.bwd is not None:
            outs, residuals = self.fwd(*args)  # type: ignore[misc]

            def pull(cts):
                return self._checked(self.bwd(residuals, _instantiate(cts, outs)), args)  # type: ignore[misc]

            return outs, pull
        if self.jvp is None:
            raise MissingRuleError(f"{self.where}: no derivative rule{self.missing}")
        live = [i for i in range(self.count) if needed[i]]

        def linear(*some):
            tangents = [zeros_like_value(a) for a in args[: self.count]]
            for i, t in zip(live, some, strict=True):
                tangents[i] = t
            outs, t_outs = self._forward_rule(args, tangents)
            return t_outs, outs

        t_outs, transpose, outs = vjp(linear, *[zeros_like_value(args[i]) for i in live], has_aux=True)

        def pull_back(cts):
            found: list[Any] = [None] * self.count
            for i, g in zip(live, transpose(_instantiate(cts, t_outs)), strict=True):
                found[i] = g
            return found

        return outs, pull_back

    def forward(self, args: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Outputs and their tangents (None where the output carries none); entries of `tangents` may be None."""
        if self.jvp is not None:
            outs, t_outs = self._forward_rule(args, _instantiate(tangents, args))
        elif self.bwd is not None:
            outs, residuals = self.fwd(*args)  # type: ignore[misc]
            used = [i for i, t in enumerate(tangents) if t is not None and inexact(args[i])]

            def transposed(cts):
                found = self._checked(self.bwd(residuals, cts), args)  # type: ignore[misc]
                return [zeros_like_value(args[i]) if found[i] is None else found[i] for i in used]

            (t_outs,) = vjp(transposed, [zeros_like_value(o) for o in outs])[1]([tangents[i] for i in used])
        else:
            raise MissingRuleError(f"{self.where}: no derivative rule{self.missing}")
        return outs, [t if inexact(o) else None for o, t in zip(outs, t_outs, strict=True)]

    def _forward_rule(self, args, tangents):
        outs, t_outs = self.jvp(args, tangents)  # type: ignore[misc]
        if len(outs) != len(t_outs):
            raise ValueError(
                f"{self.where}: the rule must return one tangent for each output, got {len(t_outs)} for {len(outs)}"
            )
        return outs, [
            _fit(t, o, self.where, "tangent", "output") if inexact(o) else zeros_like_value(o)
            for o, t in zip(outs, t_outs, strict=True)
        ]

    def _checked(self, cts, args):
        if len(cts) != self.count:
            raise ValueError(
                f"{self.where}: the rule must return {self.count} cotangents, one for each argument, got {len(cts)}"
            )
        return [
            None if g is None or not inexact(a) else _fit(g, a, self.where, "cotangent", f"argument {i}")
            for i, (g, a) in enumerate(zip(cts, args, strict=False))
        ]


def zeros_like_value(x):
    """Zeros like `x`; for integers, whose derivatives are nothing, zeros of the default float."""
    return np.zeros(np.shape(x), np.result_type(x) if inexact(x) else float)[()]


def _instantiate(some, like):
    return [zeros_like_value(x) if s is None else s for s, x in zip(some, like, strict=False)]


def _fit(g, x, where, what, of):
    """`g` checked for the shape, and brought to the dtype, of `x`."""
    if np.shape(g) != np.shape(x):
        raise ValueError(f"{where}: the {what} of {of} must have its shape {np.shape(x)}, got {np.shape(g)}")
    want, have = np.result_type(x), np.result_type(g)
    if want == have:
        return g
    if kind_of(have) not in "fc" or (kind_of(have) == "c" and want.kind != "c"):
        raise TypeError(f"{where}: the {what} of {of} must have its dtype {want}, got {have}")
    return bind(convert, g, dtype=want)


# -- meeting the transforms
# ---------------------------------------------------------------------------------------------


def apply(rules: Rules, args: Sequence[Any]) -> list[Any]:
    """Call the function of `rules` on arrays and Tensors; returns the list of outputs."""
    top = max((a for a in args if isinstance(a, Tensor)), key=lambda a: a.level, default=None)
    if top is None:
        return rules.f(*args)
    trace = top._trace
    if top.level < _state.floor:
        return _record(rules, args)
    if isinstance(trace, TapeTrace):
        return _on_tape(rules, args, trace)
    if isinstance(trace, DualTrace):
        return _with_tangents(rules, args, trace)
    if isinstance(trace, BatchTrace):
        values, axes = _strip(args, trace, BatchTensor), [a.axis if _of(a, trace, BatchTensor) else None for a in args]
        if all(ax is None for ax in axes):
            return apply(rules, values)
        outs = apply(batched(rules, axes), values)
        _closed(outs, trace, rules, "batched")
        return [BatchTensor(trace, o, 0) for o in outs]
    return _record(rules, args)


def _of(a, trace, cls):
    return type(a) is cls and a._trace is trace


def _strip(args, trace, cls):
    return [a.value if _of(a, trace, cls) else a for a in args]


def _closed(values, trace, rules, how):
    if any(isinstance(v, Tensor) and v.level >= trace.level for v in values):
        raise TypeError(
            f"{rules.where}: the function must not close over a value that is being {how} (pass it as an argument; "
            "core.stop_gradient drops a derivative)"
        )


def _on_tape(rules, args, trace):
    mine = [_of(a, trace, TapeTensor) for a in args]
    if not any(m and inexact(a) for m, a in zip(mine[: rules.count], args, strict=False)):
        _closed([a for a, m in zip(args, mine, strict=True) if m and inexact(a)], trace, rules, "differentiated")
        return apply(rules, _strip(args, trace, TapeTensor))
    outs = bind(custom_call, *args, graph=None, rules=rules)
    _closed(_strip(outs, trace, TapeTensor), trace, rules, "differentiated")
    return list(outs)


def _with_tangents(rules, args, trace):
    tangents = [a.tangent if _of(a, trace, DualTensor) else None for a in args]
    values = _strip(args, trace, DualTensor)
    if all(t is None for t in tangents):
        return apply(rules, values)
    _closed(
        [a for a, t in zip(args[rules.count :], tangents[rules.count :], strict=True) if t is not None],
        trace,
        rules,
        "differentiated",
    )
    outs, t_outs = rules.forward(values, tangents[: rules.count])
    _closed(outs, trace, rules, "differentiated")
    return [DualTensor(trace, o, t) if t is not None else o for o, t in zip(outs, t_outs, strict=True)]


def batched(rules: Rules, axes: Sequence[int | None]) -> Rules:
    """The rules of the function over a batch; outputs have the batch axis first."""
    axes = list(axes)
    out = Rules(rules.where, rules.count, vmap(rules.f, in_axes=axes), missing=rules.missing, owner=rules.owner)
    if rules.bwd is not None:

        def bwd(residuals, cts):
            found = vmap(rules.bwd, in_axes=([None if _static(r) else 0 for r in residuals], 0))(residuals, cts)
            # a shared argument gets its cotangent from all examples
            return [
                None if g is None else np.sum(g, axis=0) if ax is None else np.moveaxis(g, 0, ax)
                for g, ax in zip(found, axes, strict=False)
            ]

        out.fwd, out.bwd = _batched_fwd(rules.fwd, axes), bwd
    if rules.jvp is not None:
        out.jvp = vmap(rules.jvp, in_axes=(axes, axes[: rules.count]))
    return out


def _batched_fwd(fwd, axes):
    def batched_fwd(*args):
        kept: list[Any] = []

        def some(*xs):
            outs, residuals = fwd(*xs)
            kept[:] = residuals
            return outs, [r for r in residuals if not _static(r)]

        outs, arrays = vmap(some, in_axes=axes)(*args)
        rest = iter(arrays)
        return outs, [r if _static(r) else next(rest) for r in kept]

    return batched_fwd


def _static(x):
    return not isinstance(x, (Tensor, np.ndarray, np.generic))


# -- in graphs ---------------------------------------------------------------------------------------------------------

# `graph` is None only on the way to a tape, which takes `rules` alone
custom_call = Primitive(
    "custom_call",
    lambda *args, graph, rules: tuple(evaluate(graph, *args)),
    lambda *specs, graph, rules: tuple(graph.out_specs),
    multiple=True,
    kind="call",
)


@custom_call.deftaped
def _(args, needed, *, graph, rules):
    needed = [n and inexact(a) for n, a in zip(needed, args, strict=True)]
    _no_derivative(rules, needed)
    outs, pull = rules.reverse(args, needed)
    rest = [None] * (len(args) - rules.count)
    return tuple(outs), lambda cts: pull(cts) + rest


@custom_call.defjvp_all
def _(tangents, out, args, *, graph, rules):
    _no_derivative(rules, [t is not None for t in tangents])
    return tuple(rules.forward(args, tangents[: rules.count])[1])


@custom_call.defbatch
def _(args, axes, size, *, graph, rules):
    outs = apply(batched(rules, axes), args)
    return tuple(outs), (0,) * len(outs)


def _no_derivative(rules, wanted):
    if any(wanted[rules.count :]):
        raise TypeError(
            f"{rules.where}: the function must not close over a value that is being differentiated (pass it as an "
            "argument; "
            "core.stop_gradient drops a derivative)"
        )


class _Traced:
    """A list-valued function recorded as a graph; an error while recording is kept for the moment it matters."""

    def __init__(self, f, specs):
        self.rest: list[Any] = []
        self.error = None
        try:
            self.graph, self.captured = make_graph(lambda *xs: self._arrays(f(*xs)), specs)
        except RecursionError:
            raise
        except Exception as error:  # noqa: BLE001  of a rule that may never be asked for
            self.error, self.graph, self.captured = error, None, []

    def _arrays(self, outs):
        self.rest = [None if isinstance(o, Tensor) or not _static(o) else o for o in outs]
        self.fixed = [not isinstance(o, Tensor) and _static(o) for o in outs]
        return [o for o, fixed in zip(outs, self.fixed, strict=True) if not fixed]

    def __call__(self, *args):
        if self.error is not None:
            raise self.error
        found = iter(evaluate(self.graph, *args))
        return [r if fixed else next(found) for r, fixed in zip(self.rest, self.fixed, strict=True)]


class _Recording(threading.local):
    def __init__(self):
        self.owners: set[int] = set()


_recording = _Recording()


def _record(rules, args):
    """One equation for the function; its rules become graphs too, unless this is inside one of them."""
    graph, captured = make_graph(rules.f, [spec_of(a) for a in args], rules.where)
    if rules.owner is not None and id(rules.owner) not in _recording.owners:
        _recording.owners.add(id(rules.owner))
        try:
            return _record_rules(rules, args, graph, captured)
        finally:
            _recording.owners.remove(id(rules.owner))
    n = len(args)
    new = Rules(rules.where, rules.count, lambda *xs: evaluate(graph, *xs), missing=rules.missing, owner=rules.owner)
    if rules.bwd is not None:
        new.fwd, new.bwd = lambda *xs: rules.fwd(*xs[:n]), rules.bwd
    if rules.jvp is not None:
        new.jvp = lambda xs, tangents: rules.jvp(xs[:n], tangents)
    return list(bind(custom_call, *args, *captured, graph=graph, rules=new))


def _record_rules(rules, args, graph, captured):
    specs = [spec_of(a) for a in args]
    inputs = list(args) + captured
    n, taken = len(args), len(args) + len(captured)

    def trace(f, f_specs):
        nonlocal taken
        traced = _Traced(f, f_specs)
        inputs.extend(traced.captured)
        graph.inputs.extend(Var(spec_of(c)) for c in traced.captured)
        where = slice(taken, taken + len(traced.captured))
        taken = where.stop
        return traced, where

    def floating(all_specs):
        return [
            s._replace(weak=False, dtype=s.dtype if kind_of(s.dtype) in "fc" else np.dtype(float)) for s in all_specs
        ]

    new = Rules(rules.where, rules.count, lambda *xs: evaluate(graph, *xs), missing=rules.missing, owner=rules.owner)
    m = len(graph.outputs)
    if rules.bwd is not None:

        def flat_fwd(*xs):
            outs, residuals = rules.fwd(*xs)
            return [*outs, *residuals]

        forward, f_where = trace(flat_fwd, specs)
        if forward.error is None:
            kept = forward.rest[m:]
            res_specs = [v.spec for v in forward.graph.outputs[m - sum(forward.fixed[:m]) :]]

            def flat_bwd(*xs):
                arrays = iter(xs[: len(res_specs)])
                residuals = [r if fixed else next(arrays) for r, fixed in zip(kept, forward.fixed[m:], strict=True)]
                return rules.bwd(residuals, list(xs[len(res_specs) :]))

            backward, b_where = trace(flat_bwd, res_specs + floating(graph.out_specs))
        else:
            backward, b_where = forward, f_where

        def fwd(*xs):
            found = forward(*xs[:n], *xs[f_where])
            residuals = [r for r, fixed in zip(found[m:], forward.fixed[m:], strict=True) if not fixed]
            return found[:m], residuals + list(xs[b_where])

        def bwd(residuals, cts):
            k = len(residuals) - (b_where.stop - b_where.start)
            return backward(*residuals[:k], *cts, *residuals[k:])

        new.fwd, new.bwd = fwd, bwd
    if rules.jvp is not None:

        def flat_jvp(*xs):
            outs, t_outs = rules.jvp(xs[:n], xs[n:])
            return [*outs, *t_outs]

        both, j_where = trace(flat_jvp, specs + floating(specs[: rules.count]))

        def jvp(xs, tangents):
            found = both(*xs[:n], *tangents, *xs[j_where])
            return found[: len(found) // 2], found[len(found) // 2 :]

        new.jvp = jvp
    return list(bind(custom_call, *inputs, graph=graph, rules=new))
