"""Merging of ops: single-qubit gates in a row become one, and one for each value of a condition among them.

CNOTs thereby cost nothing where a gate waits on their target: half of the state goes through U, the other half through X U.
Costs are those of the kernels, in multiply-adds for 8 amplitudes: 8 for a general PAIR, 4 for one with real diagonal and
real or imaginary rest, 4 for a DIAG.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from triskele.core.kernels.njit import kernel
from triskele.quantum.compile.ops import OP_COLUMNS, RECIPE_COLUMNS, RecipeColumn
from triskele.quantum.compile.program import Program

__all__ = ["fuse"]

MOST = 64  # ops that may wait on a qubit
LANES = 8  # lowest bits may be lanes of a vector, where a condition saves no work: one is used only from the next bit on


def fuse(program: Program) -> Program:
    """The program with ops merged where that saves work.

    Single-qubit gates wait until a gate comes that does not commute with them (diagonal ones pass conditions and signs),
    and are multiplied with what waits there already. Products are recipes, so that they can be differentiated.
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
    return replace(program, ops=ops, recipes=np.concatenate([program.recipes, recipes]), coefficients=coefficients, cache={})


@kernel
def _fuse(ops, real, size, n):
    """New ops, recipes to add, new length of coefficients. `real` [complex coefficients]: constants that are real."""
    k = len(ops)
    out = np.empty((2 * k, OP_COLUMNS), np.int64)
    recipes = np.empty((2 * k, RECIPE_COLUMNS), np.int64)
    waiting = np.empty((n + 1, MOST), np.int64)  # of each qubit: ops that wait
    count = np.zeros(n + 1, np.int64)
    condition = np.full(n + 1, -1)  # of each qubit: the one that what waits there may depend on
    done, made = 0, 0
    for i in range(k + 1):
        op = ops[min(i, k - 1)]
        touched, mixed, q, c = op[2] | op[3] | op[5], op[2], -1, -1
        if i == k:
            touched = mixed = (1 << n) - 1
        elif touched & (touched - 1) == 0 and op[0] < 2:
            q = _position(touched)
        elif op[0] == 0 and mixed & (mixed - 1) == 0 and op[5] == 0 and op[3] & (op[3] - 1) == 0 and op[3] == op[4] and op[3] > LANES:
            q, c = _position(mixed), _position(op[3])
        for t in range(n):
            if count[t] == 0 or t == q and not (c >= 0 and condition[t] >= 0 and condition[t] != c) and count[t] < MOST:
                continue
            own = (touched >> t) & 1
            if own == 0 and (condition[t] < 0 or (mixed >> condition[t]) & 1 == 0):
                continue
            last = 0  # how many must go: all up to the last that is not diagonal, if this op is diagonal here
            for w in range(count[t]):
                if ops[waiting[t, w], 0] == 0:
                    last = w + 1
            if own == 0 or (mixed >> t) & 1 or condition[t] >= 0 or count[t] == MOST or (last and _form(ops, waiting[t, :last], real) == 0):
                last = count[t]
            if last:
                done, made, size = _flush(ops, waiting[t, :last], t, condition[t], real, out, done, recipes, made, size)
                for w in range(last, count[t]):
                    waiting[t, w - last] = waiting[t, w]
                count[t] -= last
                condition[t] = -1
        if q >= 0:
            waiting[q, count[q]] = i
            count[q] += 1
            condition[q] = max(c, condition[q])
        elif i < k:
            out[done] = op
            done += 1
    return out[:done], recipes[:made], size


@kernel
def _position(bit):
    """Number of the only one in x; 0 for 0."""
    q = 0
    while bit >> (q + 1):
        q += 1
    return q


@kernel
def _cost(ops, which, c, real):
    """Cost of ops one after the other, those in a row without condition being one."""
    total, start = 0.0, 0
    for w in range(len(which) + 1):
        if w == len(which) or (c >= 0 and (ops[which[w], 3] >> c) & 1):
            if w > start:
                total += 8.0 if _form(ops, which[start:w], real) == 0 and _pairs(ops, which[start:w]) else 4.0
            start = w + 1
            if w < len(which):
                total += 4.0 if ops[which[w], 1] == 0 else 2.0 if ops[which[w], 1] < 3 else 1.5
    return total


@kernel
def _pairs(ops, which):
    """How many of these ops are PAIRs."""
    found = 0
    for i in which:
        found += ops[i, 0] == 0
    return found


@kernel
def _flush(ops, which, q, c, real, out, done, recipes, made, size):
    """Append what waits on qubit q: a product, or one for each value of the condition c, or the ops as they are."""
    if c < 0:
        return _product(ops, which, q, real, out, done, recipes, made, size)
    chain, n = np.empty(len(which), np.int64), 0
    for i in which:
        if (ops[i, 3] >> c) & 1 == 0:
            chain[n] = i
            n += 1
    merged = 0.5 * (_cost(ops, chain[:n], -1, real) + (8.0 if _form(ops, which, real) == 0 else 4.0))
    if merged < _cost(ops, which, c, real):
        for v in range(2):
            first = done
            if v or n:
                done, made, size = _product(ops, which if v else chain[:n], q, real, out, done, recipes, made, size)
            for row in range(first, done):
                out[row, 3] |= 1 << c
                out[row, 4] |= v << c
        return done, made, size
    start = 0
    for w in range(len(which) + 1):
        if w == len(which) or (ops[which[w], 3] >> c) & 1:
            if w > start:
                done, made, size = _product(ops, which[start:w], q, real, out, done, recipes, made, size)
            start = w + 1
            if w < len(which):
                out[done] = ops[which[w]]
                done += 1
    return done, made, size


@kernel
def _form(ops, which, real):
    """Form of the product of PAIRs and DIAGs."""
    form = -1
    for i in which:
        f = ops[i, 1]
        if ops[i, 0] == 1:
            at = ops[i, 6] // 2
            f = 1 if real[at] and real[at + 1] else 0
        elif f == 3:
            f = 1
        form = f if form in (-1, f) else 0
    return form


@kernel
def _product(ops, which, q, real, out, done, recipes, made, size):
    """Append the product of single-qubit ops on qubit q, first one first."""
    bit = 1 << q
    if _pairs(ops, which) == 0:  # diagonal ones: those with equal masks are multiplied
        for a in range(len(which)):
            first = ops[which[a]]
            if a > 0 and _same(ops, which[:a], first):
                continue
            at, previous = done, first[6]
            for b in range(a + 1, len(which)):
                other = ops[which[b]]
                if other[3] == first[3] and other[4] == first[4] and other[5] == first[5]:
                    r = recipes[made]
                    r[:] = 0
                    r[0], r[1], r[2], r[3], r[4], r[5] = 6, size, other[6], 1, previous, 2
                    previous = size
                    size += 4
                    made += 1
            out[at] = first
            out[at, 6] = previous
            done += 1
        return done, made, size
    if len(which) == 1:
        out[done] = ops[which[0]]
        return done + 1, made, size
    previous = -1
    for i in which:
        r = recipes[made]
        r[:] = 0
        r[0], r[1], r[2], r[3], r[4], r[5], r[6] = 4, size, ops[i, 6], 1, previous, 1, ops[i, 0]
        r[7], r[8], r[9], r[10] = (ops[i, 2] & bit) >> q, (ops[i, 3] & bit) >> q, (ops[i, 4] & bit) >> q, (ops[i, 5] & bit) >> q
        previous = size
        size += 8
        made += 1
    row = out[done]
    row[:] = 0
    row[1], row[2], row[6], row[7] = _form(ops, which, real), bit, previous, 1
    row[8:] = -1
    return done + 1, made, size


@kernel
def _same(ops, which, op):
    """Whether one of these ops has the masks of `op`."""
    for i in which:
        if ops[i, 3] == op[3] and ops[i, 4] == op[4] and ops[i, 5] == op[5]:
            return True
    return False
