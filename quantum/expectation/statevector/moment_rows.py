"""The inner loops of the backward sweep: collect an op's moments and undo it on lambda.

An op with coefficients c has dE = sum Re(G dc) with moments G = 2 sum conj(lambda) psi, where psi stands before the op
and lambda after it. Each loop here finds psi undone already, adds to vectors of moments `g`, lane by lane, and undoes
lambda. What a lane means is left to `reduce`. Arguments and ways of walking are those of `simulators.statevector.rows`;
`c` are the vectors of the inverse op.

Moments of a PAIR: of a, b, c, d, real and imaginary parts, those of b and c with the sign. Inside rows: of a and d,
then of b and c. Of a DIAG: the sum, and the sum with signs. Of a DENSE: in the order of its vectors.
"""

from __future__ import annotations

from triskele.core.extend import simd, template

from ...simulators.statevector import rows as loops

__all__ = ["dense", "diagonal", "lanes_general", "lanes_half", "pair_general", "pair_half", "pair_mixed"]


@template
def add(g, k, v):
    """Add a vector to moment vector k."""
    w = simd.lanes_of(g)
    simd.store_line(g, k * w, simd.load_line(g, k * w) + v)


@template
def pair_general(p, l, rows, c, x, fixed, value, s, g):
    """A PAIR of rows."""
    w = simd.lanes_of(p)
    b = (4 + 4 * s) * w
    ar, ai, dr, di = simd.load_line(c, 0), simd.load_line(c, w), simd.load_line(c, 2 * w), simd.load_line(c, 3 * w)
    br, bi, cr, ci = simd.load_line(c,
                                    b), simd.load_line(c,
                                                       b + w), simd.load_line(c, b + 2 * w), simd.load_line(c,
                                                                                                            b + 3 * w)
    m0 = m1 = m2 = m3 = m4 = m5 = m6 = m7 = simd.splat_line(p, 0)
    j = value
    for _ in range(rows >> simd.popcount(fixed)):
        u, v = 2 * w * j, 2 * w * (j ^ x)
        ur, ui, vr, vi = simd.load_line(l, u), simd.load_line(l, u + w), simd.load_line(l, v), simd.load_line(l, v + w)
        pr, pi = simd.load_line(p, u), simd.load_line(p, u + w)
        m0, m1 = m0 + ur * pr + ui * pi, m1 + ur * pi - ui * pr
        m4, m5 = m4 + vr * pr + vi * pi, m5 + vr * pi - vi * pr
        pr, pi = simd.load_line(p, v), simd.load_line(p, v + w)
        m2, m3 = m2 + ur * pr + ui * pi, m3 + ur * pi - ui * pr
        m6, m7 = m6 + vr * pr + vi * pi, m7 + vr * pi - vi * pr
        simd.store_line(l, u, ar * ur - ai * ui + br * vr - bi * vi)
        simd.store_line(l, u + w, ar * ui + ai * ur + br * vi + bi * vr)
        simd.store_line(l, v, dr * vr - di * vi + cr * ur - ci * ui)
        simd.store_line(l, v + w, dr * vi + di * vr + cr * ui + ci * ur)
        j = (((j | fixed) + 1) & ~fixed) | value
    sign = simd.splat_line(p, 1 - 2 * s)
    add(g, 0, m0)
    add(g, 1, m1)
    add(g, 2, sign * m2)
    add(g, 3, sign * m3)
    add(g, 4, sign * m4)
    add(g, 5, sign * m5)
    add(g, 6, m6)
    add(g, 7, m7)


@template
def pair_half(p, l, rows, c, x, fixed, value, s, imaginary, g):
    """A PAIR of rows with real a and d; b and c are real, or with `imaginary` = 1 imaginary: only such parts are
    collected.
    """
    w = simd.lanes_of(p)
    at = (4 + 4 * s + imaginary) * w
    ar, dr, b, c = simd.load_line(c, 0), simd.load_line(c, 2 * w), simd.load_line(c, at), simd.load_line(c, at + 2 * w)
    m0 = m1 = m2 = m3 = simd.splat_line(p, 0)
    j = value
    if imaginary:
        for _ in range(rows >> simd.popcount(fixed)):
            u, v = 2 * w * j, 2 * w * (j ^ x)
            ur, ui, vr, vi = simd.load_line(l,
                                            u), simd.load_line(l, u + w), simd.load_line(l, v), simd.load_line(l, v + w)
            pr, pi = simd.load_line(p, u), simd.load_line(p, u + w)
            m0, m2 = m0 + ur * pr + ui * pi, m2 + vr * pi - vi * pr
            pr, pi = simd.load_line(p, v), simd.load_line(p, v + w)
            m1, m3 = m1 + ur * pi - ui * pr, m3 + vr * pr + vi * pi
            simd.store_line(l, u, ar * ur - b * vi)
            simd.store_line(l, u + w, ar * ui + b * vr)
            simd.store_line(l, v, dr * vr - c * ui)
            simd.store_line(l, v + w, dr * vi + c * ur)
            j = (((j | fixed) + 1) & ~fixed) | value
    else:
        for _ in range(rows >> simd.popcount(fixed)):
            u, v = 2 * w * j, 2 * w * (j ^ x)
            ur, ui, vr, vi = simd.load_line(l,
                                            u), simd.load_line(l, u + w), simd.load_line(l, v), simd.load_line(l, v + w)
            pr, pi = simd.load_line(p, u), simd.load_line(p, u + w)
            m0, m2 = m0 + ur * pr + ui * pi, m2 + vr * pr + vi * pi
            pr, pi = simd.load_line(p, v), simd.load_line(p, v + w)
            m1, m3 = m1 + ur * pr + ui * pi, m3 + vr * pr + vi * pi
            simd.store_line(l, u, ar * ur + b * vr)
            simd.store_line(l, u + w, ar * ui + b * vi)
            simd.store_line(l, v, dr * vr + c * ur)
            simd.store_line(l, v + w, dr * vi + c * ui)
            j = (((j | fixed) + 1) & ~fixed) | value
    sign = simd.splat_line(p, 1 - 2 * s)
    add(g, 0, m0)
    add(g, 2 + imaginary, sign * m1)
    add(g, 4 + imaginary, sign * m2)
    add(g, 6, m3)


@template
def pair_mixed(p, l, rows, c, x, fixed, value, s, z, lanes, half, g):
    """A PAIR of rows of which one has its lanes exchanged, with signs by row. `half` as in `rows.pair_mixed`."""
    w = simd.lanes_of(p)
    j = value
    ar, ai, dr, di = simd.load_line(c, 0), simd.load_line(c, w), simd.load_line(c, 2 * w), simd.load_line(c, 3 * w)
    m0 = m1 = m2 = m3 = m4 = m5 = m6 = m7 = simd.splat_line(p, 0)
    if half == 0:
        for _ in range(rows >> simd.popcount(fixed)):
            u, v = 2 * w * j, 2 * w * (j ^ x)
            odd = s ^ simd.parity(j & z)
            b = (4 + 4 * odd) * w
            br, bi, cr, ci = (
                simd.load_line(c, b),
                simd.load_line(c, b + w),
                simd.load_line(c, b + 2 * w),
                simd.load_line(c, b + 3 * w),
            )
            ur, ui, vr, vi = simd.load_line(l,
                                            u), simd.load_line(l, u + w), simd.load_line(l, v), simd.load_line(l, v + w)
            qr, qi, rr, ri = (
                simd.xor_lanes(vr, lanes),
                simd.xor_lanes(vi, lanes),
                simd.xor_lanes(ur, lanes),
                simd.xor_lanes(ui, lanes),
            )
            pr, pi = simd.load_line(p, u), simd.load_line(p, u + w)
            hr, hi = simd.xor_lanes(simd.load_line(p, v), lanes), simd.xor_lanes(simd.load_line(p, v + w), lanes)
            sign = simd.splat_line(p, 1 - 2 * odd)
            m0, m1 = m0 + ur * pr + ui * pi, m1 + ur * pi - ui * pr
            m2, m3 = m2 + sign * (ur * hr + ui * hi), m3 + sign * (ur * hi - ui * hr)
            m4, m5 = m4 + sign * (qr * pr + qi * pi), m5 + sign * (qr * pi - qi * pr)
            m6, m7 = m6 + qr * hr + qi * hi, m7 + qr * hi - qi * hr
            simd.store_line(l, u, ar * ur - ai * ui + br * qr - bi * qi)
            simd.store_line(l, u + w, ar * ui + ai * ur + br * qi + bi * qr)
            simd.store_line(l, v, dr * vr - di * vi + cr * rr - ci * ri)
            simd.store_line(l, v + w, dr * vi + di * vr + cr * ri + ci * rr)
            j = (((j | fixed) + 1) & ~fixed) | value
    else:
        turn = half - 1
        for _ in range(rows >> simd.popcount(fixed)):
            u, v = 2 * w * j, 2 * w * (j ^ x)
            odd = s ^ simd.parity(j & z)
            k = (4 + 4 * odd + turn) * w
            b, e = simd.load_line(c, k), simd.load_line(c, k + 2 * w)
            ur, ui, vr, vi = simd.load_line(l,
                                            u), simd.load_line(l, u + w), simd.load_line(l, v), simd.load_line(l, v + w)
            qr, qi, rr, ri = (
                simd.xor_lanes(vr, lanes),
                simd.xor_lanes(vi, lanes),
                simd.xor_lanes(ur, lanes),
                simd.xor_lanes(ui, lanes),
            )
            pr, pi = simd.load_line(p, u), simd.load_line(p, u + w)
            hr, hi = simd.xor_lanes(simd.load_line(p, v), lanes), simd.xor_lanes(simd.load_line(p, v + w), lanes)
            sign = simd.splat_line(p, 1 - 2 * odd)
            m0, m6 = m0 + ur * pr + ui * pi, m6 + qr * hr + qi * hi
            if turn:
                m3, m5 = m3 + sign * (ur * hi - ui * hr), m5 + sign * (qr * pi - qi * pr)
                qr, qi, rr, ri = -qi, qr, -ri, rr
            else:
                m2, m4 = m2 + sign * (ur * hr + ui * hi), m4 + sign * (qr * pr + qi * pi)
            simd.store_line(l, u, ar * ur + b * qr)
            simd.store_line(l, u + w, ar * ui + b * qi)
            simd.store_line(l, v, dr * vr + e * rr)
            simd.store_line(l, v + w, dr * vi + e * ri)
            j = (((j | fixed) + 1) & ~fixed) | value
    add(g, 0, m0)
    add(g, 1, m1)
    add(g, 2, m2)
    add(g, 3, m3)
    add(g, 4, m4)
    add(g, 5, m5)
    add(g, 6, m6)
    add(g, 7, m7)


@template
def lanes_general(p, l, rows, c, fixed, value, s, z, lanes, g):
    """A PAIR inside rows."""
    w = simd.lanes_of(p)
    ar, ai = simd.load_line(c, 0), simd.load_line(c, w)
    m0 = m1 = m2 = m3 = simd.splat_line(p, 0)
    j = value
    for _ in range(rows >> simd.popcount(fixed)):
        u = 2 * w * j
        odd = s ^ simd.parity(j & z)
        b = (4 + 4 * odd) * w
        br, bi = simd.load_line(c, b), simd.load_line(c, b + w)
        ur, ui = simd.load_line(l, u), simd.load_line(l, u + w)
        vr, vi = simd.xor_lanes(ur, lanes), simd.xor_lanes(ui, lanes)
        pr, pi = simd.load_line(p, u), simd.load_line(p, u + w)
        hr, hi = simd.xor_lanes(pr, lanes), simd.xor_lanes(pi, lanes)
        sign = simd.splat_line(p, 1 - 2 * odd)
        m0, m1 = m0 + ur * pr + ui * pi, m1 + ur * pi - ui * pr
        m2, m3 = m2 + sign * (ur * hr + ui * hi), m3 + sign * (ur * hi - ui * hr)
        simd.store_line(l, u, ar * ur - ai * ui + br * vr - bi * vi)
        simd.store_line(l, u + w, ar * ui + ai * ur + br * vi + bi * vr)
        j = (((j | fixed) + 1) & ~fixed) | value
    add(g, 0, m0)
    add(g, 1, m1)
    add(g, 2, m2)
    add(g, 3, m3)


@template
def lanes_half(p, l, rows, c, fixed, value, s, z, lanes, imaginary, g):
    """The same with real a and d, and b and c real, or with `imaginary` = 1 imaginary."""
    w = simd.lanes_of(p)
    ar = simd.load_line(c, 0)
    m0 = m1 = simd.splat_line(p, 0)
    j = value
    for _ in range(rows >> simd.popcount(fixed)):
        u = 2 * w * j
        odd = s ^ simd.parity(j & z)
        b = simd.load_line(c, (4 + 4 * odd + imaginary) * w)
        ur, ui = simd.load_line(l, u), simd.load_line(l, u + w)
        vr, vi = simd.xor_lanes(ur, lanes), simd.xor_lanes(ui, lanes)
        pr, pi = simd.load_line(p, u), simd.load_line(p, u + w)
        hr, hi = simd.xor_lanes(pr, lanes), simd.xor_lanes(pi, lanes)
        sign = simd.splat_line(p, 1 - 2 * odd)
        m0 = m0 + ur * pr + ui * pi
        if imaginary:
            m1 = m1 + sign * (ur * hi - ui * hr)
            simd.store_line(l, u, ar * ur - b * vi)
            simd.store_line(l, u + w, ar * ui + b * vr)
        else:
            m1 = m1 + sign * (ur * hr + ui * hi)
            simd.store_line(l, u, ar * ur + b * vr)
            simd.store_line(l, u + w, ar * ui + b * vi)
        j = (((j | fixed) + 1) & ~fixed) | value
    add(g, 0, m0)
    add(g, 2 + imaginary, m1)


@template
def diagonal(p, l, rows, c, fixed, value, s, z, g):
    """A DIAG."""
    w = simd.lanes_of(p)
    m0 = m1 = m2 = m3 = simd.splat_line(p, 0)
    j = value
    for _ in range(rows >> simd.popcount(fixed)):
        u = 2 * w * j
        odd = s ^ simd.parity(j & z)
        d = 2 * odd * w
        dr, di = simd.load_line(c, d), simd.load_line(c, d + w)
        ur, ui = simd.load_line(l, u), simd.load_line(l, u + w)
        pr, pi = simd.load_line(p, u), simd.load_line(p, u + w)
        sign = simd.splat_line(p, 1 - 2 * odd)
        tr, ti = ur * pr + ui * pi, ur * pi - ui * pr
        m0, m1 = m0 + tr, m1 + ti
        m2, m3 = m2 + sign * tr, m3 + sign * ti
        simd.store_line(l, u, dr * ur - di * ui)
        simd.store_line(l, u + w, dr * ui + di * ur)
        j = (((j | fixed) + 1) & ~fixed) | value
    add(g, 0, m0)
    add(g, 1, m1)
    add(g, 2, m2)
    add(g, 3, m3)


@template
def dense(p, l, rows, c, fixed, value, x, lanes, scratch, g):
    """A DENSE; arguments as in `rows.dense`."""
    w = simd.lanes_of(p)
    R, L = 1 << simd.popcount(x), 1 << simd.popcount(lanes)
    terms = R * L
    j = value
    for _ in range(rows >> simd.popcount(fixed)):
        k, t = 0, 0
        for _ in range(R):
            u = 2 * w * (j ^ k)
            pr, pi = simd.load_line(p, u), simd.load_line(p, u + w)
            q = 0
            for _ in range(L):
                simd.store_line(scratch, 2 * w * t, simd.xor_lanes(pr, q))
                simd.store_line(scratch, 2 * w * t + w, simd.xor_lanes(pi, q))
                t += 1
                q = ((q | ~lanes) + 1) & lanes
            k = ((k | ~x) + 1) & x
        k, a = 0, 0
        for _ in range(R):
            ur, ui = simd.load_line(l, 2 * w * (j ^ k)), simd.load_line(l, 2 * w * (j ^ k) + w)
            for t in range(terms):
                pr, pi = simd.load_line(scratch, 2 * w * t), simd.load_line(scratch, 2 * w * t + w)
                simd.store_line(g, a, simd.load_line(g, a) + ur * pr + ui * pi)
                simd.store_line(g, a + w, simd.load_line(g, a + w) + ur * pi - ui * pr)
                a += 2 * w
            k = ((k | ~x) + 1) & x
        j = (((j | fixed) + 1) & ~fixed) | value
    loops.dense(l, rows, c, fixed, value, x, lanes, scratch)
