"""The inner loops of the backward sweep: collect an op's moments and undo it on lambda.

An op with coefficients c has dE = sum Re(G dc) with moments G = 2 sum conj(lambda) psi, where psi stands before the op
and lambda after it. Each loop here finds psi undone already, adds to vectors of moments `g`, lane by lane, and undoes
lambda. What a lane means is left to `reduce`. Arguments and ways of walking are those of `simulators.statevector.rows`;
`c` are the vectors of the inverse op.

Moments of a PAIR: of a, b, c, d, real and imaginary parts, those of b and c with the sign. Inside rows: of a and d,
then of b and c. Of a DIAG: the sum, and the sum with signs. Of a DENSE: in the order of its vectors.
"""

from triskele.core.extend import simd, template

from ...simulators.statevector import rows as loops
from ...simulators.statevector.rows import exchanged, load, store

__all__ = ["dense", "diagonal", "lanes_general", "lanes_half", "pair_general", "pair_half", "pair_mixed"]


@template
def add(g, k, v):
    """Add a vector to moment vector k."""
    w = simd.lanes_of(g)
    simd.store_line(g, k * w, simd.load_line(g, k * w) + v)


@template
def add_complex(g, k, re, im):
    """Add vectors to moment vectors k and k + 1."""
    add(g, k, re)
    add(g, k + 1, im)


@template
def pair_general(p, l, rows, c, x, fixed, value, s, g):
    """A PAIR of rows."""
    w = simd.lanes_of(p)
    b = (4 + 4 * s) * w
    numbers = load(c, 0) + load(c, b) + load(c, b + 2 * w) + load(c, 2 * w)
    m0 = m1 = m2 = m3 = m4 = m5 = m6 = m7 = simd.splat_line(p, 0)
    j = value
    for _ in range(rows >> simd.popcount(fixed)):
        u, v = 2 * w * j, 2 * w * (j ^ x)
        ur, ui = load(l, u)
        vr, vi = load(l, v)
        pr, pi = load(p, u)
        m0, m1 = m0 + ur * pr + ui * pi, m1 + ur * pi - ui * pr
        m4, m5 = m4 + vr * pr + vi * pi, m5 + vr * pi - vi * pr
        pr, pi = load(p, v)
        m2, m3 = m2 + ur * pr + ui * pi, m3 + ur * pi - ui * pr
        m6, m7 = m6 + vr * pr + vi * pi, m7 + vr * pi - vi * pr
        loops.mix_general(l, u, v, *numbers)
        j = (((j | fixed) + 1) & ~fixed) | value
    sign = simd.splat_line(p, 1 - 2 * s)
    add_complex(g, 0, m0, m1)
    add_complex(g, 2, sign * m2, sign * m3)
    add_complex(g, 4, sign * m4, sign * m5)
    add_complex(g, 6, m6, m7)


@template
def pair_half(p, l, rows, c, x, fixed, value, s, imaginary, g):
    """A PAIR of rows with real a and d; b and c are real, or with `imaginary` = 1 imaginary: only such parts are
    collected.
    """
    w = simd.lanes_of(p)
    b = (4 + 4 * s + imaginary) * w
    numbers = simd.load_line(c, 0), simd.load_line(c, b), simd.load_line(c, b + 2 * w), simd.load_line(c, 2 * w)
    m0 = m1 = m2 = m3 = simd.splat_line(p, 0)
    j = value
    if imaginary:
        for _ in range(rows >> simd.popcount(fixed)):
            u, v = 2 * w * j, 2 * w * (j ^ x)
            ur, ui = load(l, u)
            vr, vi = load(l, v)
            pr, pi = load(p, u)
            m0, m2 = m0 + ur * pr + ui * pi, m2 + vr * pi - vi * pr
            pr, pi = load(p, v)
            m1, m3 = m1 + ur * pi - ui * pr, m3 + vr * pr + vi * pi
            loops.mix_imaginary(l, u, v, *numbers)
            j = (((j | fixed) + 1) & ~fixed) | value
    else:
        for _ in range(rows >> simd.popcount(fixed)):
            u, v = 2 * w * j, 2 * w * (j ^ x)
            ur, ui = load(l, u)
            vr, vi = load(l, v)
            pr, pi = load(p, u)
            m0, m2 = m0 + ur * pr + ui * pi, m2 + vr * pr + vi * pi
            pr, pi = load(p, v)
            m1, m3 = m1 + ur * pr + ui * pi, m3 + vr * pr + vi * pi
            loops.mix_real(l, u, v, *numbers)
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
    corners = load(c, 0) + load(c, 2 * w)
    m0 = m1 = m2 = m3 = m4 = m5 = m6 = m7 = simd.splat_line(p, 0)
    j = value
    for _ in range(rows >> simd.popcount(fixed)):
        u, v = 2 * w * j, 2 * w * (j ^ x)
        odd = s ^ simd.parity(j & z)
        ur, ui = load(l, u)
        qr, qi = exchanged(*load(l, v), lanes)
        pr, pi = load(p, u)
        hr, hi = exchanged(*load(p, v), lanes)
        sign = simd.splat_line(p, 1 - 2 * odd)
        m0, m6 = m0 + ur * pr + ui * pi, m6 + qr * hr + qi * hi
        if half == 0:
            m1, m7 = m1 + ur * pi - ui * pr, m7 + qr * hi - qi * hr
        if half != 1:
            m3, m5 = m3 + sign * (ur * hi - ui * hr), m5 + sign * (qr * pi - qi * pr)
        if half != 2:
            m2, m4 = m2 + sign * (ur * hr + ui * hi), m4 + sign * (qr * pr + qi * pi)
        loops.mix_exchanged(l, u, v, *corners, c, odd, lanes, half)
        j = (((j | fixed) + 1) & ~fixed) | value
    add_complex(g, 0, m0, m1)
    add_complex(g, 2, m2, m3)
    add_complex(g, 4, m4, m5)
    add_complex(g, 6, m6, m7)


@template
def lanes_general(p, l, rows, c, fixed, value, s, z, lanes, g):
    """A PAIR inside rows."""
    w = simd.lanes_of(p)
    ar, ai = load(c, 0)
    m0 = m1 = m2 = m3 = simd.splat_line(p, 0)
    j = value
    for _ in range(rows >> simd.popcount(fixed)):
        u = 2 * w * j
        odd = s ^ simd.parity(j & z)
        ur, ui = load(l, u)
        pr, pi = load(p, u)
        hr, hi = exchanged(pr, pi, lanes)
        sign = simd.splat_line(p, 1 - 2 * odd)
        m0, m1 = m0 + ur * pr + ui * pi, m1 + ur * pi - ui * pr
        m2, m3 = m2 + sign * (ur * hr + ui * hi), m3 + sign * (ur * hi - ui * hr)
        loops.mix_inside(l, u, ar, ai, *load(c, (4 + 4 * odd) * w), lanes)
        j = (((j | fixed) + 1) & ~fixed) | value
    add_complex(g, 0, m0, m1)
    add_complex(g, 2, m2, m3)


@template
def lanes_half(p, l, rows, c, fixed, value, s, z, lanes, imaginary, g):
    """The same with real a and d, and b and c real, or with `imaginary` = 1 imaginary."""
    w = simd.lanes_of(p)
    a = simd.load_line(c, 0)
    m0 = m1 = simd.splat_line(p, 0)
    j = value
    for _ in range(rows >> simd.popcount(fixed)):
        u = 2 * w * j
        odd = s ^ simd.parity(j & z)
        ur, ui = load(l, u)
        pr, pi = load(p, u)
        hr, hi = exchanged(pr, pi, lanes)
        sign = simd.splat_line(p, 1 - 2 * odd)
        m0 = m0 + ur * pr + ui * pi
        if imaginary:
            m1 = m1 + sign * (ur * hi - ui * hr)
        else:
            m1 = m1 + sign * (ur * hr + ui * hi)
        loops.mix_inside_half(l, u, a, simd.load_line(c, (4 + 4 * odd + imaginary) * w), lanes, imaginary)
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
        ur, ui = load(l, u)
        pr, pi = load(p, u)
        sign = simd.splat_line(p, 1 - 2 * odd)
        tr, ti = ur * pr + ui * pi, ur * pi - ui * pr
        m0, m1 = m0 + tr, m1 + ti
        m2, m3 = m2 + sign * tr, m3 + sign * ti
        loops.scale(l, u, *load(c, 2 * odd * w))
        j = (((j | fixed) + 1) & ~fixed) | value
    add_complex(g, 0, m0, m1)
    add_complex(g, 2, m2, m3)


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
            pr, pi = load(p, u)
            q = 0
            for _ in range(L):
                store(scratch, 2 * w * t, simd.xor_lanes(pr, q), simd.xor_lanes(pi, q))
                t += 1
                q = ((q | ~lanes) + 1) & lanes
            k = ((k | ~x) + 1) & x
        k, a = 0, 0
        for _ in range(R):
            ur, ui = load(l, 2 * w * (j ^ k))
            for t in range(terms):
                pr, pi = load(scratch, 2 * w * t)
                store(g, a, simd.load_line(g, a) + ur * pr + ui * pi, simd.load_line(g, a + w) + ur * pi - ui * pr)
                a += 2 * w
            k = ((k | ~x) + 1) & x
        j = (((j | fixed) + 1) & ~fixed) | value
    loops.dense(l, rows, c, fixed, value, x, lanes, scratch)
