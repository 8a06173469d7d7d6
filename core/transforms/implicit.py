"""Implicit differentiation: roots of equations and solutions of linear systems, found by any solver.

The solver is never differentiated. For ``f(x, theta) = 0`` the tangents obey ``df/dx dx = -df/dtheta dtheta``, a linear
system at the root; its transpose gives the reverse mode; and since that system is solved by differentiable code, all
orders follow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import tree
from ..errors import MissingRuleError, TreeError
from ..graph.graph import Spec, spec_of
from ..graph.trace import evaluate, make_graph
from ..ops.define import as_value
from ..tensor import Tensor
from .custom_op import custom_op
from .forward import jvp
from .grad import replaced, vjp
from .jacobian import jacfwd
from .rules import Rules, apply
from .tape import inexact

__all__ = ["custom_linear_solve", "root"]


def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Callable[[Callable, Any], Any],
    transpose_solve: Callable[[Callable, Any], Any] | None = None,
    symmetric: bool = False,
) -> Any:
    """Solution x of ``matvec(x) = b`` by a solver of your own, differentiable in `b` and in all that `matvec` closes
    over.

    Parameters
    ----------
    matvec : callable
        A linear function of a tree like `b`.
    b : tree of arrays
    solve : callable
        ``solve(matvec, b) -> x``. Any code eagerly; NumPy and core functions under `jit` and `vmap`.
    transpose_solve : callable, optional
        ``transpose_solve(vecmat, ct)`` solves the transposed system, which reverse mode needs.
    symmetric : bool
        `matvec` is its own transpose: `solve` serves both.

    Returns
    -------
    tree like `b`

    Raises
    ------
    MissingRuleError
        In reverse mode, if `transpose_solve` is missing and `symmetric` is False.

    Examples
    --------
    >>> from triskele.core import custom_linear_solve, grad
    >>> dense = lambda matvec, b: b / matvec(1.0)
    >>> float(grad(lambda a: custom_linear_solve(lambda x: a * x, 6.0, dense, symmetric=True))(2.0))
    -1.5
    """
    if symmetric and transpose_solve is None:
        transpose_solve = solve
    leaves, structure = tree.flatten(b)
    leaves = [as_value(x) for x in leaves]
    specs = [spec_of(x)._replace(weak=False) for x in leaves]

    def flat(*xs):
        outs, out_structure = tree.flatten(matvec(tree.unflatten(structure, xs)))
        if out_structure != structure:
            raise TreeError(f"custom_linear_solve: matvec must return a tree like b, {structure}, got {out_structure}")
        for o, s in zip(outs, specs, strict=True):
            if np.shape(o) != s.shape:
                raise ValueError(
                    f"custom_linear_solve: matvec must return the shapes of b, {s.shape}, got {np.shape(o)}"
                )
        return outs

    # what matvec closes over becomes arguments of the system
    graph, captured = make_graph(flat, specs, "matvec")
    rules = _linear_rules(
        lambda xs, consts: evaluate(graph, *xs, *consts), len(captured), specs, structure, solve, transpose_solve
    )
    return tree.unflatten(structure, apply(rules, [*captured, *leaves]))


def _linear_rules(matvec, n, specs: list[Spec], structure, solve, transpose_solve) -> Rules:
    """Rules of the solution as a function of ``(*consts, *b)``; `matvec` takes lists of leaves and of `n` constants."""
    where = "custom_linear_solve"

    def run(*args):
        consts, b = args[:n], args[n:]

        def given(x):
            return tree.unflatten(structure, matvec(tree.leaves(x), consts))

        x, x_structure = tree.flatten(solve(given, tree.unflatten(structure, b)))
        if x_structure != structure or any(np.shape(v) != s.shape for v, s in zip(x, specs, strict=True)):
            raise ValueError(
                f"{where}: solve must return a tree like b, {structure} of shapes {[s.shape for s in specs]}, got "
                f"{x_structure} of {[np.shape(v) for v in x]}"
            )
        return x

    def rule(args, tangents):
        consts = args[:n]
        x = apply(rules, args)
        moving = [i for i in range(n) if inexact(consts[i])]
        right = list(tangents[n:])
        if moving:
            _, change = jvp(
                _of(lambda consts: matvec(x, consts), consts, moving),
                [consts[i] for i in moving],
                [tangents[i] for i in moving],
            )
            right = [t - c for t, c in zip(right, change, strict=True)]
        return x, apply(rules, [*consts, *right])

    def fwd(*args):
        x = apply(rules, args)
        return x, [*args[:n], *x]

    def bwd(residuals, cts):
        if transpose_solve is None:
            raise MissingRuleError(f"{where}: reverse mode needs transpose_solve (or symmetric=True)")
        consts, x = residuals[:n], residuals[n:]
        zeros = [np.zeros(s.shape, s.dtype)[()] for s in specs]

        def vecmat(w, consts):
            return list(vjp(lambda *xs: matvec(xs, consts), *zeros)[1](list(w)))

        transposed = _linear_rules(vecmat, n, specs, structure, transpose_solve, solve)
        w = apply(transposed, [*consts, *cts])
        moving = [i for i in range(n) if inexact(consts[i])]
        found: list[Any] = [None] * n
        if moving:
            _, pull = vjp(_of(lambda consts: matvec(x, consts), consts, moving), *[consts[i] for i in moving])
            for i, g in zip(moving, pull(w), strict=True):
                found[i] = -g
        return [*found, *w]

    rules = Rules(where, n + len(specs), run, fwd, bwd, rule)
    return rules


def _of(f, values, moving):
    """``f(values)`` as a function of those at the positions `moving`, one argument each."""
    return lambda *some: f(replaced(values, moving, some))


# -- roots -------------------------------------------------------------------------------------------------------------


def root(
    f: Callable[..., Any],
    solver: Callable[[Callable, Any], Any],
    mode: str | None = None,
    linear_solve: Callable[[Callable, Any], Any] | None = None,
) -> Callable[..., Any]:
    """Function ``(x0, *args) -> x`` with ``f(x, *args) = 0``, differentiable in `args` whatever the solver.

    Parameters
    ----------
    f : callable
        ``f(x, *args)`` returns a tree like x, zero at the root; plain NumPy. It must not close over differentiated
        values.
    solver : callable
        ``solver(g, x0) -> x`` finds the root of ``g(x)`` from the guess `x0`.
    mode : {None, "python"}
        None: the solver is made of NumPy and core functions (`while_loop` …) and is compiled along. ``"python"``: any
        code, SciPy's for instance; it sees ndarrays, compiled programs call it back, and under `vmap` it runs for one
        example after another. A SciPy result with ``success=False`` is an error.
    linear_solve : callable, optional
        ``linear_solve(matvec, b) -> x`` for the linear system of the derivative and for its transpose. By default the
        Jacobian is formed and factorized.

    Returns
    -------
    callable
        The guess gets no derivative.

    Raises
    ------
    RuntimeError
        When a SciPy solver reports failure.

    Examples
    --------
    >>> import scipy.optimize
    >>> from triskele.core import root
    >>> from triskele.core.transforms.grad import grad
    >>> cube_root = root(lambda x, a: x**3 - a, scipy.optimize.root, mode="python")
    >>> round(float(grad(cube_root, argnums=1)(1.0, 8.0)), 10)
    0.0833333333
    """
    if mode not in (None, "python"):
        raise ValueError(f"root: mode must be None or 'python', got {mode!r}")
    name = getattr(f, "__name__", type(f).__name__)
    where = f"root of {name}"
    op = _solver_in_python(f, solver, where)

    def solution(x0, *args):
        leaves, structure = tree.flatten((x0, args))
        leaves = [as_value(v) for v in leaves]
        n = structure.children[0].size
        for v in leaves[:n]:
            if not inexact(v):
                raise TypeError(f"{where}: the guess must be of float or complex dtype, got {spec_of(v)}")
        leaves[:n] = [v if isinstance(v, (Tensor, np.ndarray, np.generic)) else np.asarray(v)[()] for v in leaves[:n]]

        def residual(x, theta):
            x, arguments = tree.unflatten(structure, [*x, *theta])
            out, got = tree.flatten(f(x, *arguments))
            if got != structure.children[0] or any(
                np.shape(o) != np.shape(v) for o, v in zip(out, tree.leaves(x), strict=True)
            ):
                raise ValueError(
                    f"{where}: f must return a tree like x, got {got} of shapes {[np.shape(o) for o in out]}"
                )
            return out

        def run(*xs):
            if mode == "python":
                return list(op(*xs, structure=structure))
            x0, arguments = tree.unflatten(structure, xs)
            x, got = tree.flatten(solver(lambda x: f(x, *arguments), x0))
            if got != structure.children[0]:
                raise TreeError(
                    f"{where}: the solver must return a tree like the guess, {structure.children[0]}, got {got}"
                )
            return x

        def rule(xs, tangents):
            x, theta = apply(rules, xs), xs[n:]
            moving = [i for i, v in enumerate(theta) if inexact(v)]
            if not moving:
                return x, [np.zeros(np.shape(v), np.result_type(v)) for v in x]
            _, change = jvp(
                _of(lambda theta: residual(x, theta), theta, moving),
                [theta[i] for i in moving],
                [tangents[n + i] for i in moving],
            )
            right = [-c for c in change]
            if linear_solve is None:
                return x, _dense(lambda v: residual(v, theta), x, right)
            matvec = lambda v: jvp(lambda *v: residual(v, theta), x, v)[1]
            return x, custom_linear_solve(matvec, right, linear_solve, linear_solve)

        rules = Rules(where, len(leaves), run, jvp=rule)
        return tree.unflatten(structure.children[0], apply(rules, leaves))

    solution.__name__ = f"root({name})"
    return solution


def _solver_in_python(f, solver, where):
    """The operator that runs a solver of any code on ndarrays: leaves of (guess, arguments) in, leaves of the root
    out.
    """

    def on_arrays(*leaves, structure):
        x0, args = tree.unflatten(structure, leaves)
        found = solver(lambda x: f(x, *args), x0)
        if hasattr(found, "x") and hasattr(found, "success"):
            if not found.success:
                raise RuntimeError(
                    f"{where}: the solver must converge, got {getattr(found, 'message', 'success=False')!r} (try "
                    "another guess)"
                )
            found = found.x
        x, got = tree.flatten(found)
        guess, want = tree.flatten(x0)
        if got != want:
            raise TreeError(f"{where}: the solver must return a tree like the guess, {want}, got {got}")
        # SciPy makes vectors of scalars
        return tuple(
            [
                np.reshape(v, np.shape(g)).astype(np.result_type(g)) if np.size(v) == np.size(g) else v
                for v, g in zip(x, guess, strict=True)
            ]
        )

    return custom_op(
        on_arrays,
        mode="python",
        batch="sequential",
        name=where,
        out=lambda *specs, structure: specs[: structure.children[0].size],
    )


def _dense(residual, x, right):
    """Solve ``(d residual / dx) t = right`` with the Jacobian as one matrix."""
    sizes = [np.size(v) for v in x]
    ends = np.cumsum([0, *sizes])

    def split(flat):
        return [np.reshape(flat[a:b], np.shape(v)) for a, b, v in zip(ends[:-1], ends[1:], x, strict=True)]

    def join(parts):
        return np.concatenate([np.reshape(p, (-1,)) for p in parts])

    jacobian = jacfwd(lambda flat: join(residual(split(flat))))(join(x))
    return split(np.linalg.solve(jacobian, join(right)))
