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
from ..dtypes import kind_of
from ..foreign import flatten
from ..graph.graph import spec_of
from ..graph.trace import traceable
from ..tensor import VALUES, Tensor
from .results import own, own_tree
from .tape import TapeTensor, TapeTrace, backward, inexact

__all__ = [
    "check_arrays",
    "check_inexact",
    "check_plain",
    "grad",
    "replaced",
    "select_arguments",
    "split_aux",
    "value_and_grad",
    "vjp",
]

P = ParamSpec("P")
R = TypeVar("R")


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
        if not isinstance(x, VALUES) or (isinstance(x, (np.ndarray, np.generic)) and kind_of(x.dtype) not in "biufc"):
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
        return [
            np.zeros(np.shape(x), np.result_type(x))[()] if g is None else g for g, x in zip(found, leaves, strict=True)
        ]

    return values, rest, pull


@overload
def vjp(
    f: Callable[..., Any], *primals: Any, has_aux: Literal[False] = False
) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]: ...
@overload
def vjp(
    f: Callable[..., Any], *primals: Any, has_aux: Literal[True]
) -> tuple[Any, Callable[[Any], tuple[Any, ...]], Any]: ...
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
    >>> import numpy as np
    >>> from triskele.core import vjp
    >>> out, pullback = vjp(np.sin, 0.0)
    >>> float(pullback(2.0)[0])
    2.0
    """
    leaves, structure = flatten(primals, f"vjp of {_name(f)}")
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
        cts, ct_structure = flatten(ct, f"vjp of {_name(f)}")
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
    nums = (
        (argnums,)
        if isinstance(argnums, (int, np.integer))
        else tuple(argnums)
        if isinstance(argnums, Sequence)
        else (argnums,)
    )
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


def value_and_grad(
    f: Callable[P, R], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[P, tuple[R, Any]]:
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
    >>> from triskele.core import value_and_grad
    >>> value, slope = value_and_grad(lambda x: x**2)(3.0)
    >>> float(value), float(slope)
    (9.0, 6.0)
    """

    def value_and_grad_f(*args, **kwargs):
        where = f"grad of {_name(f)}"
        nums = select_arguments(args, argnums, where)
        leaves, structure = flatten([args[n] for n in nums], where)
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
            kind = kind_of(np.result_type(out))
            if kind != "f":
                hint = "it has no derivative; return the float it was made from"
                if kind == "c":
                    hint = "take np.real or np.abs, or use vjp"
                raise TypeError(f"{where}: the function must return a real scalar, got {np.result_type(out)} ({hint})")
            return [out], aux

        (value,), aux, pull = _vjp_flat(flat, leaves)
        kind = type(value)
        one = (
            1.0
            if kind is float
            else kind(1)
            if issubclass(kind, np.generic)
            else np.ones((), np.result_type(value))[()]
        )
        grads = tree.unflatten(structure, own(pull([one])))
        grads = grads[0] if isinstance(argnums, (int, np.integer)) else tuple(grads)
        (value,) = own([value])
        return ((value, own_tree(aux)), grads) if has_aux else (value, grads)

    value_and_grad_f.__name__ = f"value_and_grad({_name(f)})"
    value_and_grad_f.__wrapped__ = f  # type: ignore[attr-defined]
    return value_and_grad_f


def grad(f: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[P, Any]:
    """Function that returns the gradient of the scalar function `f` (see `value_and_grad` for the arguments).

    Parameters
    ----------
    f : callable
        Function of trees of arrays that returns a scalar.
    argnums : int or sequence of int, default 0
        Position or positions of the arguments to differentiate with respect to.
    has_aux : bool, default False
        True if `f` returns ``(value, aux)``, of which only the value is differentiated.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import grad
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
