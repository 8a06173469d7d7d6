"""Primitives: one name with all its rules each. `PRIMITIVES` is the registry."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

__all__ = ["PRIMITIVES", "Primitive"]

# Weak: the primitives of a user's functions go with the functions.
PRIMITIVES: weakref.WeakValueDictionary[str, Primitive] = weakref.WeakValueDictionary()


class Primitive:
    """An operation of the graph with its rules. Arrays are positional, everything else (static) is a keyword.

    Parameters
    ----------
    name : str
        Unique; taken twice is an error.
    impl : callable
        ``impl(*arrays, **params) -> array`` in NumPy: the definition of right.
    spec : callable
        ``spec(*specs, **params) -> Spec`` (a tuple of Specs when `multiple`); raises the errors for wrong shapes.
    multiple : bool
        True if the primitive returns a tuple.
    kind : str
        How the compiler treats it: ``"elementwise"`` (broadcasting, `emit`), ``"pull"`` (each output element is one
        expression of loads of the inputs, `pull`), ``"reduce"``, ``"scan"`` …, or ``"opaque"`` (`impl` is called
        from the compiled program).
    emit : callable, optional
        For elementwise ones: ``emit(b, *values) -> value`` with a scalar builder `b` of the compiler.
    pull : callable, optional
        ``pull(b, index, loads, in_specs, out_spec, **params) -> value``: the element at `index` (a list of integer
        values of the builder) in terms of ``loads[i](index_of_input_i)``. It raises NotImplementedError where there is
        no such formula of acceptable length; then `impl` is called.
    flops : callable or float
        Floating-point operations: per output element, or ``flops(in_specs, out_specs, **params)``.
    samples : callable, optional
        ``samples(rng) -> list of (args, params)``: inputs for the conformance tests.
    differentiable : bool
        False for primitives whose derivative is zero everywhere (comparisons, floor, argmax). They need no derivative
        rules.
    domain : sequence of (low, high), optional
        Range of each argument in the conformance tests of an elementwise primitive, in place of `samples`.

    Notes
    -----
    Derivative rules are attached with `defvjp`, `defjvp` (one rule per argument), `defvjp_all`, `defjvp_all`, or
    `linear`; the batching rule with `defbatch`. All are written in terms of other primitives, so that every order of
    derivative follows.
    """

    def __init__(
        self,
        name: str,
        impl: Callable,
        spec: Callable,
        *,
        multiple: bool = False,
        kind: str = "opaque",
        emit: Callable | None = None,
        pull: Callable | None = None,
        flops: Any = 1.0,
        differentiable: bool = True,
        samples: Callable | None = None,
        domain: Any = None,
    ):
        if name in PRIMITIVES:
            raise ValueError(f"Primitive: name {name!r} is taken by {PRIMITIVES[name].impl!r}")
        self.impl: Callable = impl
        self.name, self.spec, self.multiple, self.kind = name, spec, multiple, kind
        self.emit, self.pull, self.flops, self.differentiable = emit, pull, flops, differentiable
        self.samples, self.domain = samples, domain
        # elementwise: loop(*specs) -> dtypes of the inputs and of the output inside the loop
        self.loop: Callable | None = None
        self.vjps: tuple[Callable | None, ...] | None = None
        self.vjp_all: Callable | None = None
        self.jvps: tuple[Any, ...] | None = None
        self.jvp_all: Callable | None = None
        self.batch: Callable | None = None
        self.taped: Callable | None = None
        self.view = self.may_copy = False  # see defview
        self.write_back: Callable | None = None
        # control flow: depends(which inputs have derivatives, **params) -> which outputs may
        self.depends: Callable | None = None
        PRIMITIVES[name] = self

    def __repr__(self):
        return f"<primitive {self.name}>"

    def defvjp(self, *rules: Callable | None) -> None:
        """One rule per argument: ``rule(ct, out, *args, **params) -> cotangent of that argument`` (None: no
        derivative).

        For elementwise primitives the cotangent may have the broadcast shape: it is summed back to the argument's.
        A rule may return `Sparse` (see transforms.grad) for a cotangent that touches few elements.
        """
        self.vjps = rules

    def defjvp(self, *rules: Any) -> None:
        """One rule per argument: ``rule(t, out, *args, **params) -> tangent of the output``, linear in `t`; they are
        summed.

        None: no derivative. The string ``"same"``: linear in that argument, the primitive itself applied to `t`.
        """
        self.jvps = rules

    def defvjp_all(self, rule: Callable) -> Callable:
        """``rule(ct, out, args, needed, **params) -> list`` with one cotangent per argument (None where not `needed`).

        With `multiple`, `ct` and `out` are tuples and entries of `ct` may be None (zero).
        """
        self.vjp_all = rule
        return rule

    def deftaped(self, rule: Callable) -> Callable:
        """``rule(args, needed, **params) -> (out, pullback)``: for operations whose forward pass is to keep values for
        the backward pass.

        It takes the place of a vjp rule. ``pullback(ct) -> list`` with one cotangent per argument (None where not
        `needed`); with `multiple`, entries of `ct` may be None (zero). The pull-back may be called many times.
        """
        self.taped = rule
        return rule

    def defjvp_all(self, rule: Callable) -> Callable:
        """``rule(tangents, out, args, **params) -> tangent(s) of out``; entries of `tangents` may be None (zero)."""
        self.jvp_all = rule
        return rule

    def defbatch(self, rule: Callable) -> Callable:
        """``rule(args, axes, size, **params) -> (out, axis)``; `axes[i]` is None for an unbatched argument.

        With `multiple`, returns a tuple of outs and a tuple of axes.
        """
        self.batch = rule
        return rule

    def defview(self, write_back: Callable | None = None, *, may_copy: bool = False) -> None:
        """NumPy's result is a view of the argument: ``write_back(x, new, **params)`` is `x` once the view has become
        `new`.

        Without `write_back` the view is read-only. With `may_copy`, NumPy copies where strides cannot say it.
        """
        self.view, self.write_back, self.may_copy = True, write_back, may_copy

    @property
    def has_vjp(self) -> bool:
        return self.vjps is not None or self.vjp_all is not None or self.taped is not None

    @property
    def has_jvp(self) -> bool:
        return self.jvps is not None or self.jvp_all is not None
