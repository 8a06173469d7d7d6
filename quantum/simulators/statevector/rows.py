"""Ops on rows of vectors that lie in cache: the inner loops of every pass.

A block is `rows` rows at pointer `p`. Row r holds amplitudes r W to r W + W - 1: one 64-byte vector of real parts, then
one of imaginary parts. Coefficients are vectors, one number a lane, in which conditions and signs of bits inside a row
are contained already (see `expand`). Each loop walks the row numbers whose bits `fixed` are `value`, two at a time:
scalar work would cost more than vector work. `s` is 1 where bits outside the block ask for the opposite sign, `z` are
the row bits that do.
"""

from __future__ import annotations

from triskele.core.extend import simd, template

__all__ = ["dense", "dense2", "diagonal", "lanes_general", "lanes_half", "pair_general", "pair_half", "pair_mixed",
           "pair_swap"]


@template
def free_bit(rows, fixed):
    """Lowest bit of a row number that is not fixed; 0 if there is none."""
    free = (rows - 1) & ~fixed
    return free & -free


@template
def pair_general(p, rows, c, x, fixed, value, s):
    """A PAIR of rows. Vectors of every PAIR: a, d, then b, c, then -b, -c; real and imaginary part of each."""
    w = simd.lanes_of(p)
    b = (4 + 4 * s) * w
    ar, ai, dr, di = simd.load_line(c, 0), simd.load_line(c, w), simd.load_line(c, 2 * w), simd.load_line(c, 3 * w)
    br, bi, cr, ci = simd.load_line(c,
                                    b), simd.load_line(c,
                                                       b + w), simd.load_line(c, b + 2 * w), simd.load_line(c,
                                                                                                            b + 3 * w)
    extra = free_bit(rows, fixed)
    fixed |= extra
    i = 0
    for _ in range(rows >> simd.popcount(fixed)):
        j = i | value
        _general(p, w, j, j ^ x, ar, ai, br, bi, cr, ci, dr, di)
        if extra:
            j |= extra
            _general(p, w, j, j ^ x, ar, ai, br, bi, cr, ci, dr, di)
        i = (i + fixed + 1) & ~fixed


@template
def _general(p, w, j, k, ar, ai, br, bi, cr, ci, dr, di):
    u, v = 2 * w * j, 2 * w * k
    ur, ui, vr, vi = simd.load_line(p, u), simd.load_line(p, u + w), simd.load_line(p, v), simd.load_line(p, v + w)
    simd.store_line(p, u, ar * ur - ai * ui + br * vr - bi * vi)
    simd.store_line(p, u + w, ar * ui + ai * ur + br * vi + bi * vr)
    simd.store_line(p, v, dr * vr - di * vi + cr * ur - ci * ui)
    simd.store_line(p, v + w, dr * vi + di * vr + cr * ui + ci * ur)


@template
def pair_half(p, rows, c, x, fixed, value, s, imaginary):
    """A PAIR of rows with real a and d; b and c are real, or with `imaginary` = 1 imaginary."""
    w = simd.lanes_of(p)
    b = (4 + 4 * s + imaginary) * w
    a, d, b, e = simd.load_line(c, 0), simd.load_line(c, 2 * w), simd.load_line(c, b), simd.load_line(c, b + 2 * w)
    extra = free_bit(rows, fixed)
    fixed |= extra
    i = 0
    if imaginary:
        for _ in range(rows >> simd.popcount(fixed)):
            j = i | value
            _imaginary(p, w, j, j ^ x, a, b, e, d)
            if extra:
                j |= extra
                _imaginary(p, w, j, j ^ x, a, b, e, d)
            i = (i + fixed + 1) & ~fixed
    else:
        for _ in range(rows >> simd.popcount(fixed)):
            j = i | value
            _real(p, w, j, j ^ x, a, b, e, d)
            if extra:
                j |= extra
                _real(p, w, j, j ^ x, a, b, e, d)
            i = (i + fixed + 1) & ~fixed


@template
def _imaginary(p, w, j, k, a, b, c, d):
    u, v = 2 * w * j, 2 * w * k
    ur, ui, vr, vi = simd.load_line(p, u), simd.load_line(p, u + w), simd.load_line(p, v), simd.load_line(p, v + w)
    simd.store_line(p, u, a * ur - b * vi)
    simd.store_line(p, u + w, a * ui + b * vr)
    simd.store_line(p, v, d * vr - c * ui)
    simd.store_line(p, v + w, d * vi + c * ur)


@template
def _real(p, w, j, k, a, b, c, d):
    u, v = 2 * w * j, 2 * w * k
    ur, ui, vr, vi = simd.load_line(p, u), simd.load_line(p, u + w), simd.load_line(p, v), simd.load_line(p, v + w)
    simd.store_line(p, u, a * ur + b * vr)
    simd.store_line(p, u + w, a * ui + b * vi)
    simd.store_line(p, v, d * vr + c * ur)
    simd.store_line(p, v + w, d * vi + c * ui)


@template
def pair_swap(p, rows, x, fixed, value):
    """Exchange of rows."""
    w = simd.lanes_of(p)
    i = 0
    for _ in range(rows >> simd.popcount(fixed)):
        j = i | value
        u, v = 2 * w * j, 2 * w * (j ^ x)
        ur, ui, vr, vi = simd.load_line(p, u), simd.load_line(p, u + w), simd.load_line(p, v), simd.load_line(p, v + w)
        simd.store_line(p, u, vr)
        simd.store_line(p, u + w, vi)
        simd.store_line(p, v, ur)
        simd.store_line(p, v + w, ui)
        i = (i + fixed + 1) & ~fixed


@template
def pair_mixed(p, rows, c, x, fixed, value, s, z, lanes, half):
    """A PAIR of rows of which one has its lanes exchanged by xor with `lanes`, and with signs by row.

    With `half` = 1 everything is real, with 2 b and c are imaginary and a and d real, with 0 it is complex.
    """
    w = simd.lanes_of(p)
    ar, ai, dr, di = simd.load_line(c, 0), simd.load_line(c, w), simd.load_line(c, 2 * w), simd.load_line(c, 3 * w)
    i = 0
    if half == 0:
        for _ in range(rows >> simd.popcount(fixed)):
            j = i | value
            u, v = 2 * w * j, 2 * w * (j ^ x)
            b = (4 + 4 * (s ^ simd.parity(j & z))) * w
            br, bi, cr, ci = (
                simd.load_line(c, b),
                simd.load_line(c, b + w),
                simd.load_line(c, b + 2 * w),
                simd.load_line(c, b + 3 * w),
            )
            ur, ui, vr, vi = simd.load_line(p,
                                            u), simd.load_line(p, u + w), simd.load_line(p, v), simd.load_line(p, v + w)
            qr, qi, rr, ri = (
                simd.xor_lanes(vr, lanes),
                simd.xor_lanes(vi, lanes),
                simd.xor_lanes(ur, lanes),
                simd.xor_lanes(ui, lanes),
            )
            simd.store_line(p, u, ar * ur - ai * ui + br * qr - bi * qi)
            simd.store_line(p, u + w, ar * ui + ai * ur + br * qi + bi * qr)
            simd.store_line(p, v, dr * vr - di * vi + cr * rr - ci * ri)
            simd.store_line(p, v + w, dr * vi + di * vr + cr * ri + ci * rr)
            i = (i + fixed + 1) & ~fixed
    else:
        turn = half - 1
        for _ in range(rows >> simd.popcount(fixed)):
            j = i | value
            u, v = 2 * w * j, 2 * w * (j ^ x)
            k = (4 + 4 * (s ^ simd.parity(j & z)) + turn) * w
            b, e = simd.load_line(c, k), simd.load_line(c, k + 2 * w)
            ur, ui, vr, vi = simd.load_line(p,
                                            u), simd.load_line(p, u + w), simd.load_line(p, v), simd.load_line(p, v + w)
            qr, qi, rr, ri = (
                simd.xor_lanes(vr, lanes),
                simd.xor_lanes(vi, lanes),
                simd.xor_lanes(ur, lanes),
                simd.xor_lanes(ui, lanes),
            )
            if turn:
                qr, qi, rr, ri = -qi, qr, -ri, rr
            simd.store_line(p, u, ar * ur + b * qr)
            simd.store_line(p, u + w, ar * ui + b * qi)
            simd.store_line(p, v, dr * vr + e * rr)
            simd.store_line(p, v + w, dr * vi + e * ri)
            i = (i + fixed + 1) & ~fixed


@template
def lanes_general(p, rows, c, fixed, value, s, z, lanes):
    """A PAIR inside rows: of lanes l and l ^ `lanes`.

    Vectors: a (d where the highest bit of x is 1), -, then b (or c), -, then -b, -.
    """
    w = simd.lanes_of(p)
    ar, ai = simd.load_line(c, 0), simd.load_line(c, w)
    extra = z & -z if z else free_bit(rows, fixed)
    fixed |= extra
    i = 0
    for _ in range(rows >> simd.popcount(fixed)):
        j = i | value
        b = (4 + 4 * (s ^ simd.parity(j & z))) * w
        _inside(p, w, j, ar, ai, simd.load_line(c, b), simd.load_line(c, b + w), lanes)
        if extra:
            b = 12 * w - b if z else b
            _inside(p, w, j | extra, ar, ai, simd.load_line(c, b), simd.load_line(c, b + w), lanes)
        i = (i + fixed + 1) & ~fixed


@template
def _inside(p, w, j, ar, ai, br, bi, lanes):
    u = 2 * w * j
    ur, ui = simd.load_line(p, u), simd.load_line(p, u + w)
    vr, vi = simd.xor_lanes(ur, lanes), simd.xor_lanes(ui, lanes)
    simd.store_line(p, u, ar * ur - ai * ui + br * vr - bi * vi)
    simd.store_line(p, u + w, ar * ui + ai * ur + br * vi + bi * vr)


@template
def lanes_half(p, rows, c, fixed, value, s, z, lanes, imaginary):
    """The same with real a and d, and b and c real, or with `imaginary` = 1 imaginary."""
    w = simd.lanes_of(p)
    a = simd.load_line(c, 0)
    extra = z & -z if z else free_bit(rows, fixed)
    fixed |= extra
    i = 0
    for _ in range(rows >> simd.popcount(fixed)):
        j = i | value
        k = 4 + 4 * (s ^ simd.parity(j & z))
        b = simd.load_line(c, (k + imaginary) * w)
        _inside_half(p, w, j, a, b, lanes, imaginary)
        if extra:
            b = simd.load_line(c, (12 - k + imaginary) * w) if z else b
            _inside_half(p, w, j | extra, a, b, lanes, imaginary)
        i = (i + fixed + 1) & ~fixed


@template
def _inside_half(p, w, j, a, b, lanes, imaginary):
    u = 2 * w * j
    ur, ui = simd.load_line(p, u), simd.load_line(p, u + w)
    vr, vi = simd.xor_lanes(ur, lanes), simd.xor_lanes(ui, lanes)
    if imaginary:
        simd.store_line(p, u, a * ur - b * vi)
        simd.store_line(p, u + w, a * ui + b * vr)
    else:
        simd.store_line(p, u, a * ur + b * vr)
        simd.store_line(p, u + w, a * ui + b * vi)


@template
def diagonal(p, rows, c, fixed, value, s, z):
    """A DIAG. Vectors: factors of rows with an even number of ones in `z`, then of those with an odd number."""
    w = simd.lanes_of(p)
    i = 0
    if z:
        extra = z & -z
        fixed |= extra
        for _ in range(rows >> simd.popcount(fixed)):
            j = i | value
            d = 2 * (s ^ simd.parity(j & z)) * w
            _times(p, w, j, simd.load_line(c, d), simd.load_line(c, d + w))
            d = 2 * w - d
            _times(p, w, j | extra, simd.load_line(c, d), simd.load_line(c, d + w))
            i = (i + fixed + 1) & ~fixed
    else:
        d = 2 * s * w
        dr, di = simd.load_line(c, d), simd.load_line(c, d + w)
        extra = free_bit(rows, fixed)
        fixed |= extra
        for _ in range(rows >> simd.popcount(fixed)):
            j = i | value
            _times(p, w, j, dr, di)
            if extra:
                _times(p, w, j | extra, dr, di)
            i = (i + fixed + 1) & ~fixed


@template
def _times(p, w, j, dr, di):
    u = 2 * w * j
    ur, ui = simd.load_line(p, u), simd.load_line(p, u + w)
    simd.store_line(p, u, dr * ur - di * ui)
    simd.store_line(p, u + w, dr * ui + di * ur)


@template
def dense2(p, rows, c, fixed, value, x, lanes):
    """A DENSE on two bits; see `dense` for the arguments."""
    w = simd.lanes_of(p)
    low, high = x & -x, x & (x - 1)
    i = 0
    if high:
        for _ in range(rows >> simd.popcount(fixed)):
            j = i | value
            r, s, t, u = 2 * w * j, 2 * w * (j | low), 2 * w * (j | high), 2 * w * (j | x)
            ar, ai, br, bi = simd.load_line(p,
                                            r), simd.load_line(p, r + w), simd.load_line(p, s), simd.load_line(p, s + w)
            cr, ci, dr, di = simd.load_line(p,
                                            t), simd.load_line(p, t + w), simd.load_line(p, u), simd.load_line(p, u + w)
            _four(p, w, r, c, 0, ar, ai, br, bi, cr, ci, dr, di)
            _four(p, w, s, c, 8 * w, ar, ai, br, bi, cr, ci, dr, di)
            _four(p, w, t, c, 16 * w, ar, ai, br, bi, cr, ci, dr, di)
            _four(p, w, u, c, 24 * w, ar, ai, br, bi, cr, ci, dr, di)
            i = (i + fixed + 1) & ~fixed
    elif low:
        for _ in range(rows >> simd.popcount(fixed)):
            j = i | value
            r, s = 2 * w * j, 2 * w * (j | low)
            ar, ai, cr, ci = simd.load_line(p,
                                            r), simd.load_line(p, r + w), simd.load_line(p, s), simd.load_line(p, s + w)
            br, bi, dr, di = (
                simd.xor_lanes(ar, lanes),
                simd.xor_lanes(ai, lanes),
                simd.xor_lanes(cr, lanes),
                simd.xor_lanes(ci, lanes),
            )
            _four(p, w, r, c, 0, ar, ai, br, bi, cr, ci, dr, di)
            _four(p, w, s, c, 8 * w, ar, ai, br, bi, cr, ci, dr, di)
            i = (i + fixed + 1) & ~fixed
    else:
        first = lanes & -lanes
        for _ in range(rows >> simd.popcount(fixed)):
            r = 2 * w * (i | value)
            ar, ai = simd.load_line(p, r), simd.load_line(p, r + w)
            br, bi, cr, ci = (
                simd.xor_lanes(ar, first),
                simd.xor_lanes(ai, first),
                simd.xor_lanes(ar, lanes ^ first),
                simd.xor_lanes(ai, lanes ^ first),
            )
            dr, di = simd.xor_lanes(ar, lanes), simd.xor_lanes(ai, lanes)
            _four(p, w, r, c, 0, ar, ai, br, bi, cr, ci, dr, di)
            i = (i + fixed + 1) & ~fixed


@template
def _four(p, w, u, c, at, ar, ai, br, bi, cr, ci, dr, di):
    """Write row of a 4x4 matrix times vector, its vectors being at `c[at]`."""
    er, ei, fr, fi = simd.load_line(c, at), simd.load_line(c, at + w), simd.load_line(
        c, at + 2 * w
    ), simd.load_line(c, at + 3 * w)
    re, im = er * ar - ei * ai + fr * br - fi * bi, er * ai + ei * ar + fr * bi + fi * br
    er, ei, fr, fi = simd.load_line(
        c, at + 4 * w
    ), simd.load_line(c, at + 5 * w), simd.load_line(c, at + 6 * w), simd.load_line(c, at + 7 * w)
    simd.store_line(p, u, re + er * cr - ei * ci + fr * dr - fi * di)
    simd.store_line(p, u + w, im + er * ci + ei * cr + fr * di + fi * dr)


@template
def dense(p, rows, c, fixed, value, x, lanes, scratch):
    """A DENSE on the row bits `x` and lane bits `lanes`; `fixed` contains `x`.

    With R values of the row bits and L of the lane bits, output row r is the sum over t = (input row, lane bits) of
    vector
    [r, t] times input row with its lanes exchanged; `scratch` has room for R L rows.
    """
    w = simd.lanes_of(p)
    R, L = 1 << simd.popcount(x), 1 << simd.popcount(lanes)
    terms = R * L
    i = 0
    for _ in range(rows >> simd.popcount(fixed)):
        j = i | value
        k, t = 0, 0
        for _ in range(R):
            u = 2 * w * (j ^ k)
            ur, ui = simd.load_line(p, u), simd.load_line(p, u + w)
            q = 0
            for _ in range(L):
                simd.store_line(scratch, 2 * w * t, simd.xor_lanes(ur, q))
                simd.store_line(scratch, 2 * w * t + w, simd.xor_lanes(ui, q))
                t += 1
                q = ((q | ~lanes) + 1) & lanes
            k = ((k | ~x) + 1) & x
        k, a, step = 0, 0, 2 * w * terms
        if R > 1:
            for _ in range(R >> 1):
                r0 = i0 = r1 = i1 = r2 = i2 = r3 = i3 = simd.splat_line(p, 0)
                for t in range(0, terms, 2):  # R L is even
                    ur, ui = simd.load_line(scratch, 2 * w * t), simd.load_line(scratch, 2 * w * t + w)
                    vr, vi = simd.load_line(scratch, 2 * w * t + 2 * w), simd.load_line(scratch, 2 * w * t + 3 * w)
                    mr, mi = simd.load_line(c, a), simd.load_line(c, a + w)
                    r0, i0 = r0 + mr * ur - mi * ui, i0 + mr * ui + mi * ur
                    mr, mi = simd.load_line(c, a + step), simd.load_line(c, a + step + w)
                    r1, i1 = r1 + mr * ur - mi * ui, i1 + mr * ui + mi * ur
                    mr, mi = simd.load_line(c, a + 2 * w), simd.load_line(c, a + 3 * w)
                    r2, i2 = r2 + mr * vr - mi * vi, i2 + mr * vi + mi * vr
                    mr, mi = simd.load_line(c, a + step + 2 * w), simd.load_line(c, a + step + 3 * w)
                    r3, i3 = r3 + mr * vr - mi * vi, i3 + mr * vi + mi * vr
                    a += 4 * w
                a += step
                simd.store_line(p, 2 * w * (j ^ k), r0 + r2)
                simd.store_line(p, 2 * w * (j ^ k) + w, i0 + i2)
                k = ((k | ~x) + 1) & x
                simd.store_line(p, 2 * w * (j ^ k), r1 + r3)
                simd.store_line(p, 2 * w * (j ^ k) + w, i1 + i3)
                k = ((k | ~x) + 1) & x
        else:
            r0 = i0 = r1 = i1 = simd.splat_line(p, 0)
            for t in range(0, terms, 2):
                ur, ui = simd.load_line(scratch, 2 * w * t), simd.load_line(scratch, 2 * w * t + w)
                mr, mi = simd.load_line(c, a), simd.load_line(c, a + w)
                r0, i0 = r0 + mr * ur - mi * ui, i0 + mr * ui + mi * ur
                ur, ui = simd.load_line(scratch, 2 * w * t + 2 * w), simd.load_line(scratch, 2 * w * t + 3 * w)
                mr, mi = simd.load_line(c, a + 2 * w), simd.load_line(c, a + 3 * w)
                r1, i1 = r1 + mr * ur - mi * ui, i1 + mr * ui + mi * ur
                a += 4 * w
            simd.store_line(p, 2 * w * j, r0 + r1)
            simd.store_line(p, 2 * w * j + w, i0 + i1)
        i = (i + fixed + 1) & ~fixed
