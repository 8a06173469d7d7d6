"""Merging of ops: single-qubit gates in a row become one, and one for each value of a condition among them.

CNOTs thereby cost nothing where a gate waits on their target: half of the state goes through U, the other half through
X U. Costs are those of the kernels, in multiply-adds for 8 amplitudes: 8 for a general PAIR, 4 for one with real
diagonal and real or imaginary rest, 4 for a DIAG.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from triskele.core.extend import device, kernel

from .ops import OP_COLUMNS, RECIPE_COLUMNS, RecipeColumn
from .program import Program

__all__ = ["fuse"]


MOST = 64  # ops that may wait on a qubit
# lowest bits may be lanes of a vector, where a condition saves no work: one is used only from the next bit on
LANES = 8


def fuse(program: Program) -> Program:
    """The program with ops merged where that saves work.

    Single-qubit gates wait until a gate comes that does not commute with them (diagonal ones pass conditions and
    signs), and are multiplied with what waits there already. Global phases commute with everything: they become one op.
    Products are recipes, so that they can be differentiated.
    """
    if len(program.ops) < 2:
        return program
    real = program.coefficients[1::2] == 0.0
    if len(program.recipes):
        at = program.recipes[:, RecipeColumn.OUT] // 2
        real[at] = real[at + 1] = False
    for place, gate, _ in program.functions:
        real[place // 2 : place // 2 + 4**gate.num_qubits] = False
    ops, recipes, size = _fuse(program.ops, real, len(program.coefficients), program.num_qubits)
    coefficients = np.concatenate([program.coefficients, np.zeros(size - len(program.coefficients))])
    return replace(
        program, ops=ops, recipes=np.concatenate([program.recipes, recipes]), coefficients=coefficients, cache={}
    )


@kernel
def _fuse(ops, real, size, n):
    """New ops, recipes to add, new length of coefficients. `real` [complex coefficients]: constants that are real."""
    k, zero = len(ops), np.int64(0)
    out = np.empty((2 * k, OP_COLUMNS), np.int64)
    recipes = np.zeros((2 * k, RECIPE_COLUMNS), np.int64)
    waiting = np.empty((n + 1, MOST), np.int64)  # of each qubit: ops that wait
    count = np.zeros(n + 1, np.int64)
    condition = np.empty(n + 1, np.int64)  # of each qubit: the one that what waits there may depend on, or -1
    for t in range(n + 1):
        condition[t] = -1
    which, chain = np.empty(MOST, np.int64), np.empty(MOST, np.int64)
    state = np.array([0, 0, size])  # ops and recipes made, length of coefficients
    phase = -1  # row of the op that takes all global phases
    for i in range(k + 1):
        op = min(i, k - 1)
        kind, x, m, v, z = ops[op, 0], ops[op, 2], ops[op, 3], ops[op, 4], ops[op, 5]
        touched, mixed, q, c = x | m | z, x, -1, -1
        if i == k:
            touched = mixed = (1 << n) - 1
        elif touched == 0:
            if phase < 0:
                phase = state[0]
                _copy(ops, i, out, state)
            else:
                out[phase, 6] = _multiply(recipes, state, ops[i, 6], out[phase, 6])
            continue
        elif touched & (touched - 1) == 0 and kind < 2:
            q = _position(touched)
        elif kind == 0 and x & (x - 1) == 0 and z == 0 and m & (m - 1) == 0 and m == v and m > LANES:
            q, c = _position(x), _position(m)
        for t in range(n):
            if count[t] == 0 or t == q and not (c >= 0 and condition[t] >= 0 and condition[t] != c) and count[t] < MOST:
                continue
            own = (touched >> t) & 1
            if own == 0 and (condition[t] < 0 or (mixed >> condition[t]) & 1 == 0):
                continue
            last = zero  # how many must go: all up to the last that is not diagonal, if this op is diagonal here
            for w in range(count[t]):
                which[w] = waiting[t, w]
                if ops[which[w], 0] == 0:
                    last = np.int64(w + 1)
            if (
                own == 0
                or (mixed >> t) & 1
                or condition[t] >= 0
                or count[t] == MOST
                or (last and _form(ops, which, zero, last, real) == 0)
            ):
                last = count[t]
            if last:
                _flush(ops, which, last, t, condition[t], real, chain, out, recipes, state)
                for w in range(last, count[t]):
                    waiting[t, w - last] = waiting[t, w]
                count[t] -= last
                condition[t] = -1
        if q >= 0:
            if count[q] == MOST:
                raise RuntimeError("fuse: a queue of single-qubit gates is full")
            waiting[q, count[q]] = i
            count[q] += 1
            condition[q] = max(c, condition[q])
        elif i < k:
            _copy(ops, i, out, state)
    return out[: state[0]], recipes[: state[1]], state[2]


@device
def _flush(ops, which, stop, q, c, real, chain, out, recipes, state):
    """Append what waits on qubit q: a product, or one for each value of the condition c, or the ops as they are."""
    n = zero = np.int64(0)  # literals would be types of their own, for which every callee is compiled again
    if c < 0:
        _product(ops, which, zero, stop, q, real, out, recipes, state)
        return
    for w in range(stop):
        if (ops[which[w], 3] >> c) & 1 == 0:
            chain[n] = which[w]
            n += 1
    merged = 0.5 * (_cost(ops, chain, n, c, real) + (8.0 if _form(ops, which, zero, stop, real) == 0 else 4.0))
    if merged < _cost(ops, which, stop, c, real):
        for v in range(2):
            first = state[0]
            if v:
                _product(ops, which, zero, stop, q, real, out, recipes, state)
            elif n:
                _product(ops, chain, zero, n, q, real, out, recipes, state)
            for row in range(first, state[0]):
                out[row, 3] |= 1 << c
                out[row, 4] |= v << c
        return
    start = zero
    for w in range(stop + 1):
        if w == stop or (ops[which[w], 3] >> c) & 1:
            if w > start:
                _product(ops, which, start, w, q, real, out, recipes, state)
            start = np.int64(w + 1)
            if w < stop:
                _copy(ops, which[w], out, state)


@device
def _product(ops, which, start, stop, q, real, out, recipes, state):
    """Append the product of ops on qubit q, first one first; what they depend on besides is left out."""
    diagonal = True
    for w in range(start, stop):
        diagonal = diagonal and ops[which[w], 0] == 1
    if diagonal:  # those with equal masks are multiplied
        for a in range(start, stop):
            one = which[a]
            seen = False
            for b in range(start, a):
                seen = seen or _same(ops, one, which[b])
            if seen:
                continue
            previous = ops[one, 6]
            for b in range(a + 1, stop):
                if _same(ops, one, which[b]):
                    previous = _multiply(recipes, state, ops[which[b], 6], previous)
            _copy(ops, one, out, state)
            out[state[0] - 1, 6] = previous
        return
    if stop - start == 1:
        _copy(ops, which[start], out, state)
        return
    previous = np.int64(-1)
    for w in range(start, stop):
        i = which[w]
        r = state[1]
        previous = _recipe(recipes, state, ops[i, 6], previous, 8)
        recipes[r, 0], recipes[r, 5], recipes[r, 6] = 4, 1, ops[i, 0]
        for column in range(4):
            recipes[r, 7 + column] = (ops[i, 2 + column] >> q) & 1
    _copy(ops, which[start], out, state)
    row = state[0] - 1
    out[row, 0], out[row, 1], out[row, 2], out[row, 6], out[row, 7] = (
        0,
        _form(ops, which, start, stop, real),
        1 << q,
        previous,
        1,
    )
    out[row, 3] = out[row, 4] = out[row, 5] = 0


@device
def _multiply(recipes, state, source, previous):
    """Append the product of the coefficients of two DIAGs; where it is."""
    r = state[1]
    at = _recipe(recipes, state, source, previous, 4)
    recipes[r, 0], recipes[r, 5] = 6, 2
    return at


@device
def _recipe(recipes, state, source, previous, floats):
    """Append a recipe for that many floats; return the place of its result."""
    r, at = state[1], state[2]
    recipes[r, 1], recipes[r, 2], recipes[r, 3], recipes[r, 4] = at, source, 1, previous
    state[1] += 1
    state[2] += floats
    return at


@device
def _copy(ops, i, out, state):
    """Append an op as it is."""
    for column in range(OP_COLUMNS):
        out[state[0], column] = ops[i, column]
    state[0] += 1


@device
def _form(ops, which, start, stop, real):
    """Form of the product of PAIRs and DIAGs."""
    form = -1
    for w in range(start, stop):
        i = which[w]
        f = ops[i, 1]
        if ops[i, 0] == 1:
            at = ops[i, 6] // 2
            f = 1 if real[at] and real[at + 1] else 0
        elif f == 3:
            f = 1
        form = f if form == -1 or form == f else 0
    return form


@device
def _cost(ops, which, stop, c, real):
    """Cost of ops one after the other, those in a row without condition being one."""
    total, start = 0.0, np.int64(0)
    for w in range(stop + 1):
        if w == stop or (c >= 0 and (ops[which[w], 3] >> c) & 1):
            pairs = 0
            for b in range(start, w):
                pairs += ops[which[b], 0] == 0
            if w > start:
                total += 8.0 if pairs and _form(ops, which, start, w, real) == 0 else 4.0
            start = np.int64(w + 1)
            if w < stop:
                total += 4.0 if ops[which[w], 1] == 0 else 2.0 if ops[which[w], 1] < 3 else 1.5
    return total


@device
def _same(ops, a, b):
    """Return True if two ops have the same masks."""
    return ops[a, 3] == ops[b, 3] and ops[a, 4] == ops[b, 4] and ops[a, 5] == ops[b, 5]


@device
def _position(x):
    """Number of the highest one in x; 0 for 0."""
    q = 0
    while x >> (q + 1):
        q += 1
    return q
