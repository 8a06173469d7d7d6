"""Merging of ops: single-qubit gates in a row become one.

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
    out = np.empty((k, OP_COLUMNS), np.int64)
    recipes = np.empty((k, RECIPE_COLUMNS), np.int64)
    waiting = np.empty((n + 1, 64), np.int64)  # of each qubit: ops that wait, at most 64
    count = np.zeros(n + 1, np.int64)
    done, made = 0, 0
    for i in range(k + 1):
        if i < k:
            op = ops[i]
            touched = op[2] | op[3] | op[5]
            single = touched & (touched - 1) == 0 and op[0] < 2
            if single:
                q = 0
                while touched >> (q + 1):
                    q += 1
                if count[q] == 64:
                    done, made, size = _flush(ops, waiting[q, :64], q, real, out, done, recipes, made, size)
                    count[q] = 0
                waiting[q, count[q]] = i
                count[q] += 1
                continue
            mixed = op[2]
        else:
            touched = mixed = (1 << n) - 1
        for q in range(n):
            if not (touched >> q) & 1 or count[q] == 0:
                continue
            pairs = 0  # how many must go: all up to the last PAIR, if this op is diagonal on q
            for w in range(count[q]):
                if ops[waiting[q, w], 0] == 0:
                    pairs = w + 1
            if (mixed >> q) & 1 or (pairs and _form(ops, waiting[q, :pairs], real) == 0):
                pairs = count[q]
            if pairs:
                done, made, size = _flush(ops, waiting[q, :pairs], q, real, out, done, recipes, made, size)
                for w in range(pairs, count[q]):
                    waiting[q, w - pairs] = waiting[q, w]
                count[q] -= pairs
        if i < k:
            out[done] = op
            done += 1
    return out[:done], recipes[:made], size


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
def _flush(ops, which, q, real, out, done, recipes, made, size):
    """Append the product of single-qubit ops on qubit q, first one first."""
    bit = 1 << q
    pairs = 0
    for i in which:
        pairs += ops[i, 0] == 0
    if pairs == 0:  # diagonal ones: those with equal masks are multiplied
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
