"""`odeint`: solutions of ordinary differential equations, differentiable in both modes.

The steps are a `while_loop` between the times that are asked for, inside a `scan` over these: derivatives of any order,
`vmap` and `jit` follow. Step sizes count as constants, so that derivatives are those of the steps that were made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import check, tree
from ..dtypes import kind_of
from ..graph.graph import spec_of
from ..graph.trace import bind, traceable
from ..ops.define import as_value
from ..tensor import Tensor
from ..transforms.checkpoint import stop_gradient
from ..transforms.control.ensure import ensure_p, stored
from ..transforms.control.scan import scan
from ..transforms.control.while_loop import fori_loop, while_loop
from ..transforms.forward import jvp
from .dopri5 import dopri5
from .rodas5p import rodas5p
from .step import Step

__all__ = ["odeint"]

_METHODS = {"dopri5": dopri5, "rodas5p": rodas5p}
_ORDER = 5
_SAFETY, _SHRINK, _GROW = 0.9, 0.2, 10.0  # of step sizes: Hairer, Norsett, Wanner, Solving ODEs I, II.4
_TINY = 1e-15  # where a ratio would have no denominator
_HALVINGS = 52  # of a step, in which an event is looked for


class _State(NamedTuple):
    """Where the integration is: `s` is the time since the first one, in its direction."""

    s: Any
    y: Any
    slope: Any
    h: Any  # size of the next step
    before: Any  # s and y at the start of the last step, and what lies between
    start: Any
    dense: tuple[Any, ...]
    count: Any
    sign: Any  # of the event function
    done: Any


def odeint(
    f: Callable[..., Any],
    y0: Any,
    t: Any,
    args: tuple[Any, ...] = (),
    *,
    method: str = "dopri5",
    rtol: Any = 1e-6,
    atol: Any = 1e-9,
    event: Callable[..., Any] | None = None,
    max_steps: int = 100_000,
) -> Any:
    """Integrate ``dy/dt = f(y, t, *args)``, with steps that keep the error within tolerances.

    Parameters
    ----------
    f : callable
        ``f(y, t, *args)`` returns a tree like `y0`.
    y0 : tree of float or complex arrays
        Value at ``t[0]``. A list or tuple of numbers, here and from `f`, is one array, as for SciPy.
    t : (m,) float
        Times at which y is returned, rising or falling. Those between two steps are interpolated with an error like
        that of the steps, and cost little.
    args : tuple
        Further arguments of `f` and `event`; derivatives by them, by `y0` and by what `f` closes over are taken.
    method : {"dopri5", "rodas5p"}
        Runge-Kutta of order 5, or for stiff equations a Rosenbrock method of order 5, which makes the Jacobian of `f`
        at each step and takes real y only.
    rtol, atol : float or tree like `y0`
        The root mean square of error / (atol + rtol |y|) stays below 1 in each step.
    event : callable, optional
        ``event(y, t, *args)`` returns a number; the integration ends where it changes its sign.
    max_steps : int
        Greatest number of steps.

    Returns
    -------
    y : tree like `y0`
        With a first axis of length m. After an event, NaN.
    t_event, y_event
        With `event` only: the time at which it occurs and the value there, NaN if it does not.

    Raises
    ------
    RuntimeError
        If `max_steps` are not enough, or the solution cannot be continued.
    ValueError
        If times neither rise nor fall, a tolerance is negative, or `f` returns another structure or other shapes than
        `y0` has.

    Notes
    -----
    Derivatives are those of the steps made, with their sizes fixed: they agree with the solution's within the
    tolerances. Reverse mode keeps 64 states between two times and makes the steps again; see `while_loop`.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core
    >>> decay = lambda y, t, k: -k * y
    >>> core.odeint(decay, 1.0, np.array([0.0, 1.0, 2.0]), (0.5,)).round(4)
    array([1.    , 0.6065, 0.3679])
    >>> float(core.grad(lambda k: core.odeint(decay, 1.0, np.array([0.0, 2.0]), (k,))[-1])(0.5).round(4))
    -0.7358
    """
    check.choice(method, _METHODS, "odeint: method")
    check.kind(args, tuple, "odeint: args", hint="(k,) holds one argument")
    y0 = _as_array(y0)
    leaves, structure = tree.flatten(y0)
    leaves = [as_value(x) for x in leaves]
    dtype = np.result_type(*(spec_of(x).dtype for x in leaves))
    dtype = dtype if kind_of(dtype) in "fc" else np.dtype(np.float64)
    if method == "rodas5p" and kind_of(dtype) == "c":
        raise TypeError("odeint: rodas5p needs real y, got complex ones (integrate real and imaginary part)")
    vector, whole = _vectors([np.shape(x) for x in leaves], structure, dtype)
    times = (t if isinstance(t, Tensor) else np.asarray(t)).astype(np.float64)
    if np.ndim(times) != 1 or not len(times):
        raise ValueError(f"odeint: t must hold one or more times, got shape {np.shape(times)}")
    real = np.zeros((), dtype).real.dtype
    direction = np.where(times[-1] < times[0], -1.0, 1.0)
    ends = direction * (times - times[0])
    f, start = traceable(f), vector(y0)

    def slope(y, s):
        """dy/ds."""
        return direction.astype(real) * vector(f(whole(y), times[0] + direction * s, *args))

    def crossing(y, s):
        """The event function."""
        return traceable(event)(whole(y), times[0] + direction * s, *args)

    tolerances = [x if np.ndim(x) == 0 and not isinstance(x, dict | list | tuple) else vector(x) for x in (rtol, atol)]
    for name, x in zip(("rtol", "atol"), tolerances):
        if not isinstance(x, Tensor) and not np.all(np.asarray(x) >= 0):
            raise ValueError(f"odeint: {name} must be >= 0, got {x}")
    state, ys = _integrate(
        _METHODS[method], slope, start, ends, tolerances, crossing if event is not None else None, max_steps
    )
    unfinished = (state.s < ends[-1]) & ~state.done
    failed = np.where(unfinished, np.where(state.count < max_steps, 1, 2), 0)
    failed = np.where(np.all(ends[1:] >= ends[:-1]), failed, 3)
    errors = (
        RuntimeError(
            "odeint: the step became smaller than the time resolves: the solution grows without bounds, or f is not "
            "finite or jumps"
        ),
        RuntimeError(
            f"odeint: {max_steps:,} steps did not reach the last time (stiff equations need method='rodas5p'; "
            f"max_steps sets the limit)"
        ),
        ValueError("odeint: times must rise or fall"),
    )
    (ys,) = bind(ensure_p, failed.astype(np.int32), ys, errors=tuple(stored(e, "odeint") for e in errors))
    if event is None:
        return whole(ys)
    s, y = _located(state, crossing)
    ys = np.where((ends > s)[:, None], np.nan, ys)
    return whole(ys), times[0] + direction * s, whole(y)


def _as_array(y):
    """One array of a list or tuple of numbers; other trees as they are."""
    return np.stack(y) if type(y) in (list, tuple) and y and all(np.ndim(x) == 0 for x in y) else y


def _vectors(shapes, structure, dtype):
    """Functions that make one vector of a tree, and trees of vectors with any leading axes."""
    sizes = np.cumsum([0, *(int(np.prod(s)) for s in shapes)])

    def vector(y):
        leaves, got = tree.flatten(_as_array(y))
        if got != structure or [np.shape(x) for x in leaves] != shapes:
            raise ValueError(
                f"odeint: f must return a tree like y0, {structure} of shapes {shapes}, got {got} of "
                f"{[np.shape(x) for x in leaves]}"
            )
        if dtype.kind != "c" and any(spec_of(x).dtype.kind == "c" for x in map(as_value, leaves)):
            raise TypeError("odeint: f must return real numbers for real y0, got complex ones (give a complex y0)")
        parts = [np.reshape(as_value(x), -1).astype(dtype) for x in leaves]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def whole(v):
        lead = np.shape(v)[:-1]
        parts = [np.reshape(v[..., a:b], (*lead, *s)) for a, b, s in zip(sizes, sizes[1:], shapes, strict=False)]
        return tree.unflatten(structure, parts)

    return vector, whole


def _integrate(make_step, slope, y, ends, tolerances, crossing, max_steps):
    """The state at the last time, and y at all times, (m, n)."""
    rtol, atol = tolerances
    real, last = np.zeros((), y.dtype).real.dtype, stop_gradient(ends[-1])  # f is not asked beyond it

    def norm(error, size):
        return np.sqrt(np.mean(np.abs(error / (atol + rtol * size)) ** 2)).astype(np.float64)

    def step(state):
        left = last - state.s
        h = np.where(left > 0, np.minimum(state.h, left), state.h)  # none is left to finished examples of a batch
        new: Step = make_step(slope, state.y, state.s, h, state.slope, h.astype(real))
        error = stop_gradient(norm(new.error, np.maximum(np.abs(state.y), np.abs(new.y))))
        good = error <= 1
        factor = np.clip(_SAFETY * np.maximum(error, _TINY) ** (-1 / _ORDER), _SHRINK, _GROW)
        following = h * np.where(np.isfinite(error), factor, _SHRINK)
        after = np.where(h < left, state.s + h, last)
        made = _State(
            after, new.y, new.slope, following, state.s, state.y, new.dense, state.count, state.sign, state.done
        )
        if crossing is not None:
            sign = np.sign(stop_gradient(crossing(new.y, after)))
            # a zero at the end of a step is found in the next one, if there is one
            over = (sign * state.sign < 0) | ((sign == 0) & (state.sign != 0) & (after >= last))
            made = made._replace(sign=np.where(sign == 0, state.sign, sign), done=over)
        kept = tree.map(lambda a, b: np.where(good, a, b), made, state._replace(h=following))
        return kept._replace(count=state.count + 1)

    def to(state, end):
        def going(state):
            moves = state.s + state.h > state.s
            return (state.s < end) & moves & ~state.done & (state.count < max_steps)

        state = while_loop(going, step, state)
        return state, _between(
            state, (end - state.before) / np.where(state.s > state.before, state.s - state.before, 1)
        )

    first, zero = slope(y, ends[0]), np.zeros_like(y)
    sign = np.zeros((), real) if crossing is None else np.sign(stop_gradient(crossing(y, ends[0])))
    h = stop_gradient(_first_step(slope, y, first, ends, norm))
    state = _State(ends[0], y, first, h, ends[0], y, (zero,) * 4, np.int64(0), sign, np.bool_(False))
    state, ys = scan(to, state, ends[1:])
    return state, np.concatenate([y[None], ys])


def _between(state, u):
    """The value y at the fraction `u` of the last step."""
    u, value = u.astype(np.zeros((), state.y.dtype).real.dtype), 0.0
    for c in reversed(state.dense):
        value = u * (c + value)
    return state.start + value


def _first_step(slope, y, first, ends, norm):
    """A size of the first step, by Hairer, Norsett, Wanner, Solving ODEs I, II.4."""
    size = np.abs(y)
    d0, d1 = norm(y, size), norm(first, size)
    h0 = np.where((d0 < 1e-5) | (d1 < 1e-5), 1e-6, 0.01 * d0 / np.maximum(d1, _TINY))
    h0 = np.minimum(h0, ends[-1])
    there = slope(y + h0.astype(size.dtype) * first, h0)
    d2 = norm(there - first, size) / np.maximum(h0, _TINY)
    most = np.maximum(d1, d2)
    h1 = np.where(most <= _TINY, np.maximum(1e-6, h0 * 1e-3), (0.01 / np.maximum(most, _TINY)) ** (1 / _ORDER))
    return np.minimum(np.minimum(100 * h0, h1), np.maximum(ends[-1], _TINY))


def _located(state, crossing):
    """The time and the value of the event in the last step; NaN if there is none."""

    def at(u):
        return crossing(_between(state, u), state.before + u * (state.s - state.before))

    frozen = stop_gradient(state)

    def halved(_, ends):
        low, high = ends
        middle = (low + high) / 2
        value = crossing(_between(frozen, middle), frozen.before + middle * (frozen.s - frozen.before))
        over = np.sign(value) == frozen.sign
        return np.where(over, low, middle), np.where(over, middle, high)

    u = stop_gradient(fori_loop(0, _HALVINGS, halved, (np.float64(0), np.float64(1)))[1])
    for _ in range(2):  # each Newton step makes one more order of derivatives exact, and the second one two
        value, change = jvp(at, (u,), (np.float64(1),))
        u = u - np.where(state.done, value / change, 0)
    s = np.where(state.done, state.before + u * (state.s - state.before), np.nan)
    return s, np.where(state.done, _between(state, u), np.nan)
