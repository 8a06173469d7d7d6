"""Reverse mode through a loop whose number of steps is known only when it runs, in memory fixed beforehand.

States are kept in a fixed number of slots; those between are computed again from the nearest kept one. Where to put the
next state is the optimal binomial schedule of Griewank and Walther (ACM Trans. Math. Softw. 26, 19, 2000): with S
slots, and no step run more than r times, C(S + r, r) steps can be reversed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...dtypes import kind_of
from ...graph.graph import Graph, spec_of
from ...graph.trace import bind, evaluate, make_graph
from ...ops.constant import zeros_of
from ...ops.gather import gather_p
from ..partial import tangent_spec, vjp_graph, zeros
from .body import cast
from .cond import cond
from .scan import moving_carry

__all__ = ["advance", "backward_loop", "reversible_steps"]

_REPEATS = 40


def reversible_steps(slots: int) -> np.ndarray:
    """Table (slots + 1, 40): how many steps S slots can reverse when no step is run more than r times, C(S + r, r)."""
    return np.array([[min(math.comb(s + r, r), 2**62) for r in range(_REPEATS)] for s in range(slots + 1)])


def advance(table: np.ndarray, slots: Any, steps: Any) -> Any:
    """Return the number of steps before the next state is kept, to reverse `steps` with `slots` (the one at hand
    included).
    """

    def reversible(s, r):
        return bind(gather_p, table, np.clip(s, 0, len(table) - 1), np.clip(r, 0, _REPEATS - 1), in_range=(True, True))

    row = bind(gather_p, table, slots, in_range=(True,))
    repeats = np.sum(np.less(row, steps))
    low = np.where(repeats > 1, reversible(slots, repeats - 2), 0)
    low = np.maximum(low, steps - reversible(slots - 1, repeats))
    return np.clip(low, 1, np.maximum(steps - 1, 1))


def backward_loop(
    step: Graph,
    steps: Any,
    consts: Sequence[Any],
    init: Sequence[Any],
    needed_consts: Sequence[bool],
    needed_init: Sequence[bool],
    cts: Sequence[Any],
    slots: int,
) -> list[Any]:
    """Return cotangents of `consts` and `init` for ``repeat steps times: carry = step(*consts, *carry)``.

    `steps` is an int64 Tensor, `cts` are the cotangents of the last carry (None for zero), and `slots` states are kept.
    """
    from .while_loop import fori_loop, while_loop

    n, n_carry = len(consts), len(init)
    specs = [tangent_spec(s) for s in step.in_specs]
    one = make_graph(
        lambda *a: [cast(o, s) for o, s in zip(evaluate(step, *a), specs[n:], strict=True)], specs, step.name
    )[0]
    inexact = [kind_of(s.dtype) in "fc" for s in specs]
    needed_consts = [a and b for a, b in zip(needed_consts, inexact, strict=False)]
    moving = moving_carry(one, needed_consts, [a and b for a, b in zip(needed_init, inexact[n:], strict=True)], [])
    back, halves = vjp_graph(one, [*needed_consts, *moving], moving, summed=[True] * n + [False] * n_carry)
    table = reversible_steps(slots)
    summed = [i for i in halves.pulled if i < n]

    def pull(state, ct, totals):
        found = evaluate(back, *consts, *state, *[ct[k] for k in halves.cts], *totals)
        found = dict(zip(halves.pulled, found, strict=True))
        return ({k: found.get(n + k, zeros(specs[n + k])) for k in ct}, [found[i] for i in summed])

    def go(machine):
        return np.greater_equal(machine["last"], 0)

    def turn(machine):
        top, last, ct, totals = machine["top"], machine["last"], machine["ct"], machine["totals"]
        begin, state = machine["at"][top], [s[top] for s in machine["states"]]
        free = slots - 1 - top
        target = np.where(
            np.equal(free, 0) | np.equal(begin, last), last, begin + advance(table, free + 1, last - begin + 1)
        )
        state = fori_loop(begin, target, lambda _, s: evaluate(one, *consts, *s), state)
        arrived = np.equal(target, last)
        ct, totals = cond(arrived, lambda s: pull(s, ct, totals), lambda s: (ct, totals), state)
        # the last slot is never read: it takes what need not be kept
        place = np.where(arrived, slots, top + 1)
        states, at = machine["states"], machine["at"]
        for s, value in zip(states, state, strict=True):
            s[place] = value
        at[place] = target
        top = np.where(arrived, np.where(np.equal(begin, last), top - 1, top), top + 1)
        return {
            "top": top,
            "last": np.where(arrived, last - 1, last),
            "at": at,
            "states": states,
            "ct": ct,
            "totals": totals,
        }

    states = []
    for x, s in zip(init, specs[n:], strict=True):
        buffer = np.zeros((slots + 1, *s.shape), s.dtype)
        states.append(_first(buffer, x))
    ct = {k: zeros_of(init[k]) if cts[k] is None else cts[k] for k in range(n_carry) if moving[k]}
    machine = {
        "top": np.int64(0),
        "last": steps - 1,
        "at": np.zeros(slots + 1, np.int64),
        "states": states,
        "ct": ct,
        "totals": [zeros_of(consts[i]) for i in summed],
    }
    done = while_loop(go, turn, machine)
    result = [None] * (n + n_carry)
    for i, g in zip(summed, done["totals"], strict=True):
        result[i] = g
    for k, g in done["ct"].items():
        result[n + k] = g
    return result


def _first(buffer, x):
    """`buffer` with `x` in its first place."""
    return np.concatenate([np.reshape(x, (1, *np.shape(x))), buffer[1:]]) if spec_of(x).size else buffer
