"""Errors of compiled programs: the primitive ``ensure``, whose results are its arguments unless something has failed.

The primitive takes ``(failed, *xs)``: an int32 scalar, 0 or the number of the error to raise, counted from 1 in the
parameter ``errors``. An error is an exception, or for those of Python ``(name, arguments, place)``, which programs on
disk can hold.
"""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from ...graph.primitive import Primitive
from ...graph.trace import bind
from ...ops.define import move_batch_axis

__all__ = ["ensure_p", "stored"]


def stored(error: BaseException, place: str) -> Any:
    """Return an exception in the form of the parameter ``errors``."""
    error.add_note(f"at {place}")
    plain = vars(builtins).get(type(error).__name__) is type(error) and all(type(a) is str for a in error.args)
    return (type(error).__name__, error.args, place) if plain else error


def _impl(failed, *xs, errors):
    if not failed:
        return xs
    error = errors[failed - 1]
    if isinstance(error, tuple):
        kind, args, place = error
        error = getattr(builtins, kind)(*args)
        error.add_note(f"at {place}")
    raise error.with_traceback(None)


ensure_p = Primitive("ensure", _impl, lambda failed, *specs, errors: specs, multiple=True, kind="control", flops=0)
ensure_p.depends = lambda hits, *, errors: hits[1:]


def _ensured(failed, xs, errors):
    """Return `xs`, in which None stands for zeros, once nothing has failed."""
    found = iter(bind(ensure_p, failed, *[x for x in xs if x is not None], errors=errors))
    return [None if x is None else next(found) for x in xs]


@ensure_p.defjvp_all
def _(tangents, out, args, *, errors):
    return tuple(_ensured(args[0], tangents[1:], errors))


@ensure_p.defvjp_all
def _(ct, out, args, needed, *, errors):
    return [None, *_ensured(args[0], ct, errors)]


@ensure_p.defbatch
def _(args, axes, size, *, errors):
    failed, *xs = args
    if axes[0] is not None:
        failed = np.max(move_batch_axis(failed, axes[0], size))
    return bind(ensure_p, failed, *xs, errors=errors), axes[1:]
