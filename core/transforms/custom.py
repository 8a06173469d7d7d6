"""`custom_vjp` and `custom_jvp`: functions whose derivative is given by hand, for trees of arrays.

See `rules` for how it is used.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any

from .. import tree
from ..by_name import ByName
from ..graph.trace import traceable
from .rules import Rules, apply, zeros_like_value

__all__ = ["custom_jvp", "custom_vjp"]


class _Custom(ByName):
    """A function with its own derivative: arguments flattened, rules called with trees."""

    kind = ""

    def __init__(self, f: Callable, nondiff_argnums: Sequence[int] = ()):
        if not callable(f):
            raise TypeError(f"{self.kind}: expected a function, got {type(f).__name__}")
        self.f = f
        self.nondiff_argnums = (nondiff_argnums,) if isinstance(nondiff_argnums, int) else tuple(nondiff_argnums)
        update_wrapper(self, f)

    def __repr__(self) -> str:
        return f"<{self._where}>"

    @property
    def _where(self):
        return f"{self.kind} of {getattr(self.f, '__name__', type(self.f).__name__)}"

    def _positional(self, args, kwargs):
        try:
            bound = inspect.signature(self.f).bind(*args, **kwargs)
        except ValueError:  # a builtin without a signature
            if kwargs:
                raise TypeError(f"{self._where}: arguments must be positional, got keywords {sorted(kwargs)}") from None
            return args
        bound.apply_defaults()
        if bound.kwargs:
            raise TypeError(f"{self._where}: keyword-only arguments are not supported, got {sorted(bound.kwargs)}")
        return bound.args

    def __call__(self, *args, **kwargs):
        args = self._positional(args, kwargs)
        fixed = {n % len(args): args[n] for n in self.nondiff_argnums}
        active = [a for i, a in enumerate(args) if i not in fixed]
        leaves, structure = tree.flatten(active)
        ends: list[Any] = [None]  # the structure of the output, known once anything has run

        def full(xs):
            rest = iter(tree.unflatten(structure, xs))
            return [fixed[i] if i in fixed else next(rest) for i in range(len(args))]

        def flat(out):
            outs, ends[0] = tree.flatten(out)
            return outs

        rules = self._rules(list(fixed.values()), active, structure, full, flat, ends)
        rules.count, rules.owner = len(leaves), self
        outs = apply(rules, leaves)
        return tree.unflatten(ends[0], outs)

    def _rules(self, fixed, active, structure, full, flat, ends) -> Rules:
        raise NotImplementedError


class custom_vjp(_Custom):
    """A function whose reverse-mode derivative is given by hand; forward mode follows by transposition.

    Parameters
    ----------
    f : callable
        Trees in, tree out.
    nondiff_argnums : sequence of int
        Arguments other than arrays (functions, options): passed through to the rules, never differentiated.

    Raises
    ------
    MissingRuleError
        When it is differentiated before `defvjp` was called.

    Notes
    -----
    The rules are differentiated in their turn for higher orders. The function must not close over a value that is being
    differentiated: its rule could not know of it.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import custom_vjp
    >>> @custom_vjp
    ... def clip_gradient(x):
    ...     return x
    >>> clip_gradient.defvjp(lambda x: (x, None), lambda residuals, ct: (np.clip(ct, -1.0, 1.0),))
    >>> from triskele.core.transforms.grad import grad
    >>> float(grad(lambda x: 5.0 * clip_gradient(x))(2.0))
    1.0
    """

    kind = "custom_vjp"

    def __init__(self, f: Callable, nondiff_argnums: Sequence[int] = ()):
        super().__init__(f, nondiff_argnums)
        self.fwd: Callable | None = None
        self.bwd: Callable | None = None

    def defvjp(self, fwd: Callable, bwd: Callable) -> None:
        """Set the rule.

        Parameters
        ----------
        fwd : callable
            Same arguments as the function; returns ``(out, residuals)``.
        bwd : callable
            ``bwd(*nondiff_args, residuals, ct) -> tuple`` with one cotangent for each differentiable argument: a tree
            like the argument, or None for zero.
        """
        self.fwd, self.bwd = fwd, bwd

    def _rules(self, fixed, active, structure, full, flat, ends):
        res_structure: list[Any] = [None]
        where = self._where

        def fwd(*xs):
            pair = traceable(self.fwd)(*full(xs))
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise TypeError(f"{where}: fwd must return a pair (out, residuals), got {type(pair).__name__}")
            residuals, res_structure[0] = tree.flatten(pair[1])
            return flat(pair[0]), residuals

        def bwd(residuals, cts):
            found = traceable(self.bwd)(
                *fixed, tree.unflatten(res_structure[0], residuals), tree.unflatten(ends[0], cts)
            )
            if not isinstance(found, (tuple, list)) or len(found) != len(active):
                got = f"{len(found)} values" if isinstance(found, (tuple, list)) else type(found).__name__
                raise TypeError(
                    f"{where}: bwd must return a tuple of {len(active)} cotangents, one for each differentiable "
                    f"argument, got {got}"
                )
            return tree.broadcast_prefix(list(found), active, f"{where}: the cotangents")

        missing = " (define one with .defvjp(fwd, bwd))"
        defined = self.bwd is not None
        return Rules(
            where,
            0,
            lambda *xs: flat(traceable(self.f)(*full(xs))),
            fwd if defined else None,
            bwd if defined else None,
            missing=missing,
        )


class custom_jvp(_Custom):
    """A function whose forward-mode derivative is given by hand; reverse mode follows by transposition.

    Parameters
    ----------
    f : callable
        Trees in, tree out.
    nondiff_argnums : sequence of int
        Arguments other than arrays (functions, options): passed through to the rule, never differentiated.

    Raises
    ------
    MissingRuleError
        When it is differentiated before a rule was given.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import custom_jvp
    >>> @custom_jvp
    ... def log1pexp(x):
    ...     return np.log1p(np.exp(x))
    >>> log1pexp.defjvps(lambda t, out, x: t / (1 + np.exp(-x)))
    >>> from triskele.core.transforms.grad import grad
    >>> float(grad(log1pexp)(0.0))
    0.5
    """

    kind = "custom_jvp"

    def __init__(self, f: Callable, nondiff_argnums: Sequence[int] = ()):
        super().__init__(f, nondiff_argnums)
        self.rule: Callable | None = None

    def defjvp(self, rule: Callable) -> Callable:
        """Set the rule (also as a decorator).

        Parameters
        ----------
        rule : callable
            ``rule(*nondiff_args, primals, tangents) -> (out, tangent of out)``, linear in the tangents, which are
            tuples of trees like the arguments (zeros for integers).
        """
        self.rule = rule
        return rule

    def defjvps(self, *rules: Callable | None) -> None:
        """Set one rule per differentiable argument: ``rule(t, out, *args) -> tangent of out``; they are summed.

        None: zero.
        """

        def rule(*given):
            *fixed, primals, tangents = given
            if len(rules) != len(primals):
                raise TypeError(
                    f"{self._where}: defjvps must give one rule for each argument, got {len(rules)} for {len(primals)}"
                )
            args = list(primals)
            for n, value in sorted(zip(self.nondiff_argnums, fixed, strict=True)):
                args.insert(n, value)
            out = self(*args)
            total = None
            for r, t in zip(rules, tangents, strict=True):
                if r is not None:
                    term = traceable(r)(t, out, *args)
                    total = term if total is None else tree.map(lambda a, b: a + b, total, term)
            return out, tree.map(zeros_like_value, out) if total is None else total

        self.rule = rule

    def _rules(self, fixed, active, structure, full, flat, ends):
        where = self._where

        def jvp(xs, tangents):
            pair = traceable(self.rule)(
                *fixed, tuple(tree.unflatten(structure, xs)), tuple(tree.unflatten(structure, tangents))
            )
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise TypeError(f"{where}: the rule must return a pair (out, tangent), got {type(pair).__name__}")
            outs = flat(pair[0])
            t_outs, t_structure = tree.flatten(pair[1])
            if t_structure != ends[0]:
                raise ValueError(
                    f"{where}: the tangent must have the structure of the output, {ends[0]}, got {t_structure}"
                )
            return outs, t_outs

        missing = " (define one with .defjvp(rule) or .defjvps(*rules))"
        return Rules(
            where,
            0,
            lambda *xs: flat(traceable(self.f)(*full(xs))),
            jvp=jvp if self.rule is not None else None,
            missing=missing,
        )
