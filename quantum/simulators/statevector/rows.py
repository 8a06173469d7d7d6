"""Ops on rows of vectors that lie in cache: the inner loops of every pass.

A block is `rows` rows at pointer `p` (see `lanes`); row r holds amplitudes r W to r W + W - 1. Coefficients are vectors,
one number a lane, in which conditions and signs of bits inside a row are contained already (see `expand`). Each loop
walks the row numbers whose bits `fixed` are `value`. `s` is 1 where bits outside the block ask for the opposite sign,
`z` are the row bits that do.
"""

from __future__ import annotations

from triskele.core.kernels import simd
from triskele.core.kernels.njit import template
from triskele.quantum.simulators.statevector.lanes import fill, load, ones, parity, permute, store, width

__all__ = ["dense", "diagonal", "lanes_general", "lanes_half", "pair_general", "pair_half", "pair_mixed", "pair_swap"]

# A PAIR's vectors: a, d, then b, c, then -b, -c; real and imaginary part of each.
A, D, B = 0, 2, 4


@template
def pair_general(p, rows, c, x, fixed, value, s):
    """A PAIR of rows."""
    w = width(p)
    b = (4 + 4 * s) * w
    ar, ai, dr, di = load(c, 0), load(c, w), load(c, 2 * w), load(c, 3 * w)
    br, bi, cr, ci = load(c, b), load(c, b + w), load(c, b + 2 * w), load(c, b + 3 * w)
    j = value
    for _ in range(rows >> ones(fixed)):
        u, v = 2 * w * j, 2 * w * (j ^ x)
        ur, ui, vr, vi = load(p, u), load(p, u + w), load(p, v), load(p, v + w)
        store(p, u, ar * ur - ai * ui + br * vr - bi * vi)
        store(p, u + w, ar * ui + ai * ur + br * vi + bi * vr)
        store(p, v, dr * vr - di * vi + cr * ur - ci * ui)
        store(p, v + w, dr * vi + di * vr + cr * ui + ci * ur)
        j = (((j | fixed) + 1) & ~fixed) | value


@template
def pair_half(p, rows, c, x, fixed, value, s, imaginary):
    """A PAIR of rows with real a and d; b and c are real, or with `imaginary` = 1 imaginary."""
    w = width(p)
    b = (4 + 4 * s + imaginary) * w
    ar, dr, b, c = load(c, 0), load(c, 2 * w), load(c, b), load(c, b + 2 * w)
    j = value
    if imaginary:
        for _ in range(rows >> ones(fixed)):
            u, v = 2 * w * j, 2 * w * (j ^ x)
            ur, ui, vr, vi = load(p, u), load(p, u + w), load(p, v), load(p, v + w)
            store(p, u, ar * ur - b * vi)
            store(p, u + w, ar * ui + b * vr)
            store(p, v, dr * vr - c * ui)
            store(p, v + w, dr * vi + c * ur)
            j = (((j | fixed) + 1) & ~fixed) | value
    else:
        for _ in range(rows >> ones(fixed)):
            u, v = 2 * w * j, 2 * w * (j ^ x)
            ur, ui, vr, vi = load(p, u), load(p, u + w), load(p, v), load(p, v + w)
            store(p, u, ar * ur + b * vr)
            store(p, u + w, ar * ui + b * vi)
            store(p, v, dr * vr + c * ur)
            store(p, v + w, dr * vi + c * ui)
            j = (((j | fixed) + 1) & ~fixed) | value


@template
def pair_swap(p, rows, x, fixed, value):
    """Exchange of rows."""
    w = width(p)
    j = value
    for _ in range(rows >> ones(fixed)):
        u, v = 2 * w * j, 2 * w * (j ^ x)
        ur, ui, vr, vi = load(p, u), load(p, u + w), load(p, v), load(p, v + w)
        store(p, u, vr)
        store(p, u + w, vi)
        store(p, v, ur)
        store(p, v + w, ui)
        j = (((j | fixed) + 1) & ~fixed) | value


@template
def pair_mixed(p, rows, c, x, fixed, value, s, z, lanes, half):
    """A PAIR of rows of which one has its lanes exchanged by xor with `lanes`, and with signs by row.

    With `half` = 1 everything is real, with 2 b and c are imaginary and a and d real, with 0 it is complex.
    """
    w = width(p)
    ar, ai, dr, di = load(c, 0), load(c, w), load(c, 2 * w), load(c, 3 * w)
    j = value
    if half == 0:
        for _ in range(rows >> ones(fixed)):
            u, v = 2 * w * j, 2 * w * (j ^ x)
            b = (4 + 4 * (s ^ parity(j & z))) * w
            br, bi, cr, ci = load(c, b), load(c, b + w), load(c, b + 2 * w), load(c, b + 3 * w)
            ur, ui, vr, vi = load(p, u), load(p, u + w), load(p, v), load(p, v + w)
            qr, qi, rr, ri = permute(vr, lanes), permute(vi, lanes), permute(ur, lanes), permute(ui, lanes)
            store(p, u, ar * ur - ai * ui + br * qr - bi * qi)
            store(p, u + w, ar * ui + ai * ur + br * qi + bi * qr)
            store(p, v, dr * vr - di * vi + cr * rr - ci * ri)
            store(p, v + w, dr * vi + di * vr + cr * ri + ci * rr)
            j = (((j | fixed) + 1) & ~fixed) | value
    else:
        turn = half - 1
        for _ in range(rows >> ones(fixed)):
            u, v = 2 * w * j, 2 * w * (j ^ x)
            k = (4 + 4 * (s ^ parity(j & z)) + turn) * w
            b, e = load(c, k), load(c, k + 2 * w)
            ur, ui, vr, vi = load(p, u), load(p, u + w), load(p, v), load(p, v + w)
            qr, qi, rr, ri = permute(vr, lanes), permute(vi, lanes), permute(ur, lanes), permute(ui, lanes)
            if turn:
                qr, qi, rr, ri = -qi, qr, -ri, rr
            store(p, u, ar * ur + b * qr)
            store(p, u + w, ar * ui + b * qi)
            store(p, v, dr * vr + e * rr)
            store(p, v + w, dr * vi + e * ri)
            j = (((j | fixed) + 1) & ~fixed) | value


@template
def lanes_general(p, rows, c, fixed, value, s, z, lanes):
    """A PAIR inside rows: of lanes l and l ^ `lanes`. Vectors: a (d where the highest bit of x is 1), -, then b (or c), -, then -b, -."""
    w = width(p)
    ar, ai = load(c, 0), load(c, w)
    j = value
    for _ in range(rows >> ones(fixed)):
        u = 2 * w * j
        b = (4 + 4 * (s ^ parity(j & z))) * w
        br, bi = load(c, b), load(c, b + w)
        ur, ui = load(p, u), load(p, u + w)
        vr, vi = permute(ur, lanes), permute(ui, lanes)
        store(p, u, ar * ur - ai * ui + br * vr - bi * vi)
        store(p, u + w, ar * ui + ai * ur + br * vi + bi * vr)
        j = (((j | fixed) + 1) & ~fixed) | value


@template
def lanes_half(p, rows, c, fixed, value, s, z, lanes, imaginary):
    """The same with real a and d, and b and c real, or with `imaginary` = 1 imaginary."""
    w = width(p)
    ar = load(c, 0)
    j = value
    for _ in range(rows >> ones(fixed)):
        u = 2 * w * j
        b = load(c, (4 + 4 * (s ^ parity(j & z)) + imaginary) * w)
        ur, ui = load(p, u), load(p, u + w)
        vr, vi = permute(ur, lanes), permute(ui, lanes)
        if imaginary:
            store(p, u, ar * ur - b * vi)
            store(p, u + w, ar * ui + b * vr)
        else:
            store(p, u, ar * ur + b * vr)
            store(p, u + w, ar * ui + b * vi)
        j = (((j | fixed) + 1) & ~fixed) | value


@template
def diagonal(p, rows, c, fixed, value, s, z):
    """A DIAG. Vectors: factors of rows with an even number of ones in `z`, then of those with an odd number."""
    w = width(p)
    j = value
    for _ in range(rows >> ones(fixed)):
        u = 2 * w * j
        d = 2 * (s ^ parity(j & z)) * w
        dr, di = load(c, d), load(c, d + w)
        ur, ui = load(p, u), load(p, u + w)
        store(p, u, dr * ur - di * ui)
        store(p, u + w, dr * ui + di * ur)
        j = (((j | fixed) + 1) & ~fixed) | value


@template
def dense(p, rows, c, fixed, value, x, lanes, scratch):
    """A DENSE on the row bits `x` and lane bits `lanes`; `fixed` contains `x`.

    With R values of the row bits and L of the lane bits, output row r is the sum over t = (input row, lane bits) of vector
    [r, t] times input row with its lanes exchanged; `scratch` has room for R L rows.
    """
    w = width(p)
    R, L = 1 << ones(x), 1 << ones(lanes)
    terms = R * L
    j = value
    for _ in range(rows >> ones(fixed)):
        k, t = 0, 0
        for _ in range(R):
            u = 2 * w * (j ^ k)
            ur, ui = load(p, u), load(p, u + w)
            q = 0
            for _ in range(L):
                store(scratch, 2 * w * t, permute(ur, q))
                store(scratch, 2 * w * t + w, permute(ui, q))
                t += 1
                q = ((q | ~lanes) + 1) & lanes
            k = ((k | ~x) + 1) & x
        k, a = 0, 0
        if R >= 4:
            step = 2 * w * terms
            for _ in range(R >> 2):
                r0 = i0 = r1 = i1 = r2 = i2 = r3 = i3 = fill(p, 0)
                for t in range(terms):
                    ur, ui = load(scratch, 2 * w * t), load(scratch, 2 * w * t + w)
                    mr, mi = load(c, a), load(c, a + w)
                    r0, i0 = r0 + mr * ur - mi * ui, i0 + mr * ui + mi * ur
                    mr, mi = load(c, a + step), load(c, a + step + w)
                    r1, i1 = r1 + mr * ur - mi * ui, i1 + mr * ui + mi * ur
                    mr, mi = load(c, a + 2 * step), load(c, a + 2 * step + w)
                    r2, i2 = r2 + mr * ur - mi * ui, i2 + mr * ui + mi * ur
                    mr, mi = load(c, a + 3 * step), load(c, a + 3 * step + w)
                    r3, i3 = r3 + mr * ur - mi * ui, i3 + mr * ui + mi * ur
                    a += 2 * w
                a += 3 * step
                store(p, 2 * w * (j ^ k), r0)
                store(p, 2 * w * (j ^ k) + w, i0)
                k = ((k | ~x) + 1) & x
                store(p, 2 * w * (j ^ k), r1)
                store(p, 2 * w * (j ^ k) + w, i1)
                k = ((k | ~x) + 1) & x
                store(p, 2 * w * (j ^ k), r2)
                store(p, 2 * w * (j ^ k) + w, i2)
                k = ((k | ~x) + 1) & x
                store(p, 2 * w * (j ^ k), r3)
                store(p, 2 * w * (j ^ k) + w, i3)
                k = ((k | ~x) + 1) & x
        else:
            for _ in range(R):
                r0 = i0 = r1 = i1 = fill(p, 0)
                for t in range(0, terms, 2):  # R L is even: a DENSE has at least one bit
                    ur, ui = load(scratch, 2 * w * t), load(scratch, 2 * w * t + w)
                    mr, mi = load(c, a), load(c, a + w)
                    r0, i0 = r0 + mr * ur - mi * ui, i0 + mr * ui + mi * ur
                    ur, ui = load(scratch, 2 * w * t + 2 * w), load(scratch, 2 * w * t + 3 * w)
                    mr, mi = load(c, a + 2 * w), load(c, a + 3 * w)
                    r1, i1 = r1 + mr * ur - mi * ui, i1 + mr * ui + mi * ur
                    a += 4 * w
                store(p, 2 * w * (j ^ k), r0 + r1)
                store(p, 2 * w * (j ^ k) + w, i0 + i1)
                k = ((k | ~x) + 1) & x
        j = (((j | fixed) + 1) & ~fixed) | value
