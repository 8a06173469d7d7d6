"""Checks that a derivative, or everything registered for a primitive, is right.

The test suite and users run the same ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import check, tree
from .compile.jit import jit
from .errors import MissingRuleError
from .graph.graph import spec_of
from .graph.primitive import Primitive
from .graph.trace import bind, traceable
from .transforms.forward import jvp
from .transforms.grad import check_inexact, vjp
from .transforms.tape import inexact
from .transforms.vmap import vmap

__all__ = ["check_grads", "check_op"]

# Relative tolerance of a result against the same in NumPy, and of a derivative against finite differences of fourth
# order
_VALUE = {"float32": 2e-5, "complex64": 2e-5, "float64": 1e-11, "complex128": 1e-11, "float16": 5e-3}
_SLOPE = {"float32": 2e-2, "complex64": 2e-2, "float64": 1e-6, "complex128": 1e-6}
_STEP = {"float32": 3e-2, "complex64": 3e-2, "float64": 1e-3, "complex128": 1e-3}


def _random_like(rng, x):
    x = np.asarray(x)
    v = rng.normal(size=x.shape)
    if x.dtype.kind == "c":
        v = v + 1j * rng.normal(size=x.shape)
    return np.asarray(v).astype(x.dtype)[()]


def _pairing(ws, ts):
    """The real number that cotangents make of tangents: cotangents are transposed, not conjugated."""
    total = 0.0
    for w, t in zip(ws, ts, strict=True):
        wide = np.complex128 if np.result_type(w, t).kind == "c" else np.float64
        total += float(np.real(np.sum(np.asarray(w, wide) * np.asarray(t, wide))))
    return total


def _difference(f, leaves, direction, step):
    """Directional derivative by central differences of fourth order."""

    def at(h):
        moved = [np.asarray(x + np.asarray(h * v, np.asarray(x).dtype)) for x, v in zip(leaves, direction, strict=True)]
        return [np.asarray(o, np.complex128 if np.result_type(o).kind == "c" else np.float64) for o in f(*moved)]

    near = [(a - b) / (2 * step) for a, b in zip(at(step), at(-step), strict=True)]
    far = [(a - b) / (4 * step) for a, b in zip(at(2 * step), at(-2 * step), strict=True)]
    return [(4 * n - w) / 3 for n, w in zip(near, far, strict=True)]


def _compare(found, expected, rtol, atol, what):
    for k, (a, b) in enumerate(zip(found, expected, strict=True)):
        a, b = np.asarray(a), np.asarray(b)
        check.shape(a, b.shape, f"{what}: output {k}", error=AssertionError)
        scale = np.max(np.abs(b[np.isfinite(b)]), initial=1.0)
        if not np.allclose(a, b, rtol=rtol, atol=atol * scale, equal_nan=True):
            worst = np.nanmax(np.abs(a - b))
            raise AssertionError(
                f"{what}: output {k} is wrong by {worst:.3g} (of {scale:.3g})\ngot      {a!r}\nexpected {b!r}"
            )


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    modes: Sequence[str] = ("vjp", "jvp"),
    eps: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
) -> None:
    """Compare the derivatives of `f` with finite differences in random directions, to any order.

    Parameters
    ----------
    f : callable
        Of trees of float or complex arrays; only its float and complex outputs are looked at. It must be smooth within
        ``2 * eps`` of `args`.
    args : sequence of trees
    order : int
        Derivatives up to this order: first ones by `modes`, then those of the derivatives so obtained.
    modes : sequence of {"vjp", "jvp"}
    eps : float, optional
        Step; 1e-3 for float64 (differences are of fourth order), 3e-2 for float32.
    rtol, atol : float, optional
        Default 1e-6 (float64) or 2e-2 (float32), `atol` relative to the largest element of an output.
    seed : int
        Seed of the random directions.

    Raises
    ------
    AssertionError
        If a derivative is wrong; the message names mode and order.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import check_grads
    >>> check_grads(lambda x: np.sum(np.sin(x) ** 2), (np.arange(3.0),), order=2)
    """
    unknown = set(modes) - {"vjp", "jvp"}
    if unknown or not modes:
        raise ValueError(f"check_grads: modes must be of 'vjp' and 'jvp', got {tuple(modes)!r}")
    leaves, structure = tree.flatten(tuple(args))
    check_inexact(leaves, "check_grads")

    def flat(*xs):
        return [o for o in tree.leaves(traceable(f)(*tree.unflatten(structure, xs))) if inexact(o)]

    names = [np.result_type(x).name for x in (*leaves, *flat(*leaves))]
    loose = next((n for n in names if n in ("float32", "complex64")), names[0])
    eps, rtol = eps or _STEP.get(loose, 1e-3), rtol or _SLOPE.get(loose, 1e-6)
    _check_order(
        flat,
        leaves,
        order,
        1,
        tuple(modes),
        eps,
        rtol,
        rtol if atol is None else atol,
        np.random.default_rng(seed),
        getattr(f, "__name__", "f"),
    )


def _check_order(f, leaves, order, level, modes, eps, rtol, atol, rng, name):
    if level > order:
        return
    direction = [_random_like(rng, x) for x in leaves]
    slope = _difference(f, leaves, direction, eps)
    found = {}
    if "jvp" in modes:
        out, found["jvp"] = jvp(f, leaves, direction)
        _compare(found["jvp"], slope, rtol, atol, f"check_grads of {name}: jvp, order {level}")
        _same_kind(found["jvp"], out, f"check_grads of {name}: jvp, order {level}")
    if "vjp" in modes:
        out, pullback = vjp(f, *leaves)
        ws = [_random_like(rng, o) for o in out]
        cts = pullback(ws)
        _same_kind(cts, leaves, f"check_grads of {name}: vjp, order {level}")
        _check_paired(
            cts,
            direction,
            ws,
            slope,
            rtol,
            atol,
            f"check_grads of {name}: vjp, order {level}: finite differences and cotangents",
        )
    if level < order:
        if "jvp" in modes:
            _check_order(
                lambda *xs: jvp(f, xs, direction)[1], leaves, order, level + 1, modes, eps, rtol, atol, rng, name
            )
        if "vjp" in modes:
            _check_order(
                lambda *xs: list(vjp(f, *xs)[1](ws)), leaves, order, level + 1, modes, eps, rtol, atol, rng, name
            )


def _check_paired(cts, direction, ws, slopes, rtol, atol, what):
    """Raise unless <cts, direction> = <ws, slopes>: the derivative of <ws, outputs> along `direction`."""
    got, expected = _pairing(cts, direction), _pairing(ws, slopes)
    size = sum(np.linalg.norm(np.ravel(w)) * np.linalg.norm(np.ravel(s)) for w, s in zip(ws, slopes, strict=True))
    if not abs(got - expected) <= rtol * abs(expected) + atol * max(size, 1.0):
        raise AssertionError(
            f"{what} must have the same derivative in a random direction, got {expected!r} and {got!r}"
        )


def _same_kind(found, like, what):
    for k, (a, b) in enumerate(zip(found, like, strict=True)):
        if np.shape(a) != np.shape(b) or np.result_type(a) != np.result_type(b):
            raise AssertionError(f"{what}: number {k} must be {spec_of(b)} as what it belongs to, got {spec_of(a)}")


# -- everything about a primitive
# -----------------------------------------------------------------------------------------------


def samples_of(primitive: Primitive, seed: int = 0) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Inputs for a primitive: its own `samples`, or drawn from its `domain` in several shapes and dtypes."""
    rng = np.random.default_rng(seed)
    if primitive.samples is not None:
        own = primitive.samples(rng)
        return own + [
            (tuple(_narrow(a) for a in args), _narrow_params(params))
            for args, params in own[:1]
            if any(_is_double(a) for a in args)
        ]
    if primitive.domain is None:
        raise ValueError(f"check_op: primitive {primitive.name} must have samples or a domain to be checked")
    shapes = [[(2, 3), (3,), (1, 3)][k % 3] for k in range(len(primitive.domain))]

    def draw(shape, low, high):
        return rng.uniform(low, high, shape)

    wide = tuple(draw(s, *d) for s, d in zip(shapes, primitive.domain, strict=True))
    scalars = tuple(np.float64(draw((), *d)) for d in primitive.domain)
    narrow = tuple(_narrow(a) for a in wide)
    empty = tuple(a[:0] if a.ndim == 1 else a[:, :0] for a in wide)
    out: list[tuple[Any, dict[str, Any]]] = [(wide, {}), (scalars, {}), (narrow, {}), (empty, {})]
    waving = tuple(a + 1j * draw(a.shape, -0.5, 0.5) for a in wide)
    try:
        primitive.spec(*[spec_of(a) for a in waving])
    except TypeError:
        return out
    return [*out, (waving, {})]


def _is_double(a):
    return isinstance(a, (np.ndarray, np.generic)) and a.dtype in (np.float64, np.complex128)


def _narrow(a):
    return a.astype(np.float32 if a.dtype == np.float64 else np.complex64)[()] if _is_double(a) else a


def _narrow_params(params):
    return {k: np.dtype(np.float32) if isinstance(v, np.dtype) and v == np.float64 else v for k, v in params.items()}


def _outs(primitive, out):
    return list(out) if primitive.multiple else [out]


def check_op(primitive: Primitive, order: int = 2, seed: int = 0) -> None:
    """Check all rules of a primitive on its samples.

    Specification against implementation; jvp and vjp against finite differences, to `order`, and, in float32 too,
    against each other; batching against a loop; compiled against eager code.

    Parameters
    ----------
    primitive : Primitive
    order : int
    seed : int

    Raises
    ------
    ValueError
        If the primitive has neither samples nor a domain.
    AssertionError
        If a rule is wrong.
    MissingRuleError
        If one is missing.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core
    >>> from triskele.core import check_op
    >>> from triskele.core.extend import make_graph
    >>> sine = make_graph(lambda x: [np.sin(x)], [core.spec((), float)])[0].equations[0].primitive
    >>> check_op(sine)
    """
    samples = samples_of(primitive, seed)
    values = []
    for k, (args, params) in enumerate(samples):
        what = f"check_op of {primitive.name}, sample {k} ({', '.join(str(spec_of(a)) for a in args)} {params or ''})"
        outs = _check_spec(primitive, args, params, what)
        values.append(outs)
        _check_batch(primitive, args, params, outs, what)
        if primitive.differentiable and any(inexact(o) for o in outs):
            _check_derivatives(primitive, args, params, what, order, compiled=k == 0)
    _check_compiled(primitive, samples, values)


def _check_spec(primitive, args, params, what):
    outs = _outs(primitive, primitive.impl(*args, **params))
    specs = primitive.spec(*[spec_of(a) for a in args], **params)
    for o, s in zip(outs, specs if primitive.multiple else [specs], strict=True):
        if np.shape(o) != tuple(s.shape) or np.result_type(o) != s.dtype and not s.weak:
            raise AssertionError(f"{what}: spec promises {s}, impl returns {spec_of(o)}")
    return outs


def _tolerance(outs):
    return max((_VALUE.get(np.result_type(o).name, 0.0) for o in outs), default=0.0)


def _check_batch(primitive, args, params, outs, what):
    arrays = [i for i, a in enumerate(args) if isinstance(a, (np.ndarray, np.generic))]
    choices = [[i] for i in arrays] + ([arrays] if len(arrays) > 1 else [])
    for chosen, where in itertools.product(choices, (0, -1)):
        # the second example is a little smaller, which keeps orders and domains
        second = [a * np.asarray(0.9, a.dtype) if i in chosen and inexact(a) else a for i, a in enumerate(args)]
        expected = [
            np.stack(pair) for pair in zip(outs, _outs(primitive, primitive.impl(*second, **params)), strict=True)
        ]
        batch = [
            np.stack([a, b], axis=where) if i in chosen else a
            for i, (a, b) in enumerate(zip(args, second, strict=True))
        ]
        in_axes = tuple(where if i in chosen else None for i in range(len(args)))
        found = vmap(lambda *xs: bind(primitive, *xs, **params), in_axes)(*batch)
        found = _outs(primitive, found)
        _compare(
            found, expected, _tolerance(outs), _tolerance(outs), f"{what}: batch over arguments {chosen}, axis {where}"
        )


def _check_compiled(primitive, samples, values):
    """All samples in one program: compiling costs more than running."""
    found = jit(
        lambda inputs: [
            _outs(primitive, bind(primitive, *args, **params))
            for args, (_, params) in zip(inputs, samples, strict=True)
        ]
    )([args for args, _ in samples])
    for k, (outs, expected) in enumerate(zip(found, values, strict=True)):
        what = f"check_op of {primitive.name}, sample {k} compiled"
        for a, b in zip(outs, expected, strict=True):
            if np.result_type(a) != np.result_type(b):
                raise AssertionError(f"{what}: dtype must be that of eager code, {spec_of(b)}, got {spec_of(a)}")
        _compare(outs, expected, _tolerance(expected), _tolerance(expected), what)


def _check_compiled_gradient(f, inputs, what):
    rng = np.random.default_rng(3)
    ws = [_random_like(rng, o) for o in f(*inputs)]
    expected = vjp(f, *inputs)[1](ws)
    found = jit(lambda xs, ws: vjp(f, *xs)[1](ws))(list(inputs), ws)
    _compare(found, expected, 10 * _tolerance(inputs), 10 * _tolerance(inputs), f"{what}: compiled vjp")


def _check_derivatives(primitive, args, params, what, order, compiled):
    if not (primitive.has_vjp and primitive.has_jvp):
        raise MissingRuleError(f"{what}: a differentiable primitive must have rules for both modes")
    moving = [i for i, a in enumerate(args) if inexact(a) and not isinstance(a, (float, complex))]

    def f(*xs):
        full = list(args)
        for i, x in zip(moving, xs, strict=True):
            full[i] = x
        return [o for o in _outs(primitive, bind(primitive, *full, **params)) if inexact(o)]

    f.__name__ = what
    moving = [i for i in moving if not _refuses(f, moving, i, args)]
    inputs = [args[i] for i in moving]
    if not inputs:
        return
    if compiled:
        _check_compiled_gradient(f, inputs, what)
    if all(np.result_type(x).name in ("float64", "complex128") for x in inputs):
        try:
            check_grads(f, inputs, order)
        except MissingRuleError:  # first derivatives only, by intention
            check_grads(f, inputs, 1)
    _check_adjoint(f, inputs, what)


def _refuses(f, moving, i, args):
    """Return True if the derivative with respect to argument `i` is missing by intention."""
    kept = list(moving)
    moving[:] = [i]
    try:
        jvp(f, [args[i]], [np.ones_like(args[i])])
    except MissingRuleError:
        return True
    finally:
        moving[:] = kept
    return False


def _check_adjoint(f, inputs, what):
    """<w, J v> by forward mode and by reverse mode are one number, and both modes keep shapes and dtypes."""
    rng = np.random.default_rng(2)
    direction = [_random_like(rng, x) for x in inputs]
    out, t = jvp(f, inputs, direction)
    _same_kind(t, out, f"{what}: jvp")
    out, pullback = vjp(f, *inputs)
    ws = [_random_like(rng, o) for o in out]
    cts = pullback(ws)
    _same_kind(cts, inputs, f"{what}: vjp")
    tolerance = 1e-10 if _tolerance([*inputs, *out]) < 1e-6 else 1e-4
    _check_paired(cts, direction, ws, t, 0.0, tolerance, f"{what}: jvp and vjp")
