"""Ops on rows of vectors that lie in cache: the inner loops of every pass.

A block is `rows` rows at pointer `p`. Row r holds amplitudes r W to r W + W - 1: one 64-byte vector of real parts, then
one of imaginary parts. Coefficients are vectors, one number a lane, in which conditions and signs of bits inside a row
are contained already (see `expand`). Each loop walks the row numbers whose bits `fixed` are `value`, two at a time:
scalar work would cost more than vector work. `s` is 1 where bits outside the block ask for the opposite sign, `z` are
the row bits that do.
"""

from triskele.core.extend import simd, template

__all__ = [
    "dense",
    "dense2",
    "diagonal",
    "exchanged",
    "lanes_general",
    "lanes_half",
    "load",
    "mix_exchanged",
    "mix_general",
    "mix_imaginary",
    "mix_inside",
    "mix_inside_half",
    "mix_real",
    "pair_general",
    "pair_half",
    "pair_mixed",
    "pair_swap",
    "scale",
    "store",
]


@template
def load(p, u):
    """Real and imaginary parts of the row at `p[u]`."""
    return simd.load_line(p, u), simd.load_line(p, u + simd.lanes_of(p))


@template
def store(p, u, re, im):
    """Write real and imaginary parts to the row at `p[u]`."""
    simd.store_line(p, u, re)
    simd.store_line(p, u + simd.lanes_of(p), im)


@template
def exchanged(re, im, lanes):
    """A row with lane l ^ `lanes` in lane l."""
    return simd.xor_lanes(re, lanes), simd.xor_lanes(im, lanes)


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
    numbers = load(c, 0) + load(c, b) + load(c, b + 2 * w) + load(c, 2 * w)
    _each_pair(p, rows, x, fixed, value, mix_general, numbers)


@template
def pair_half(p, rows, c, x, fixed, value, s, imaginary):
    """A PAIR of rows with real a and d; b and c are real, or with `imaginary` = 1 imaginary."""
    w = simd.lanes_of(p)
    b = (4 + 4 * s + imaginary) * w
    numbers = simd.load_line(c, 0), simd.load_line(c, b), simd.load_line(c, b + 2 * w), simd.load_line(c, 2 * w)
    if imaginary:
        _each_pair(p, rows, x, fixed, value, mix_imaginary, numbers)
    else:
        _each_pair(p, rows, x, fixed, value, mix_real, numbers)


@template
def _each_pair(p, rows, x, fixed, value, mix, numbers):
    w = simd.lanes_of(p)
    extra = free_bit(rows, fixed)
    fixed |= extra
    i = 0
    for _ in range(rows >> simd.popcount(fixed)):
        j = i | value
        mix(p, 2 * w * j, 2 * w * (j ^ x), *numbers)
        if extra:
            j |= extra
            mix(p, 2 * w * j, 2 * w * (j ^ x), *numbers)
        i = (i + fixed + 1) & ~fixed


@template
def mix_general(p, u, v, ar, ai, br, bi, cr, ci, dr, di):
    """[[a, b], [c, d]] on the rows at `p[u]` and `p[v]`."""
    ur, ui = load(p, u)
    vr, vi = load(p, v)
    store(p, u, ar * ur - ai * ui + br * vr - bi * vi, ar * ui + ai * ur + br * vi + bi * vr)
    store(p, v, dr * vr - di * vi + cr * ur - ci * ui, dr * vi + di * vr + cr * ui + ci * ur)


@template
def mix_imaginary(p, u, v, a, b, c, d):
    """[[a, i b], [i c, d]] on the rows at `p[u]` and `p[v]`."""
    ur, ui = load(p, u)
    vr, vi = load(p, v)
    store(p, u, a * ur - b * vi, a * ui + b * vr)
    store(p, v, d * vr - c * ui, d * vi + c * ur)


@template
def mix_real(p, u, v, a, b, c, d):
    """[[a, b], [c, d]] on the rows at `p[u]` and `p[v]`."""
    ur, ui = load(p, u)
    vr, vi = load(p, v)
    store(p, u, a * ur + b * vr, a * ui + b * vi)
    store(p, v, d * vr + c * ur, d * vi + c * ui)


@template
def pair_swap(p, rows, x, fixed, value):
    """Exchange of rows."""
    w = simd.lanes_of(p)
    i = 0
    for _ in range(rows >> simd.popcount(fixed)):
        j = i | value
        u, v = 2 * w * j, 2 * w * (j ^ x)
        ur, ui = load(p, u)
        vr, vi = load(p, v)
        store(p, u, vr, vi)
        store(p, v, ur, ui)
        i = (i + fixed + 1) & ~fixed


@template
def pair_mixed(p, rows, c, x, fixed, value, s, z, lanes, half):
    """A PAIR of rows of which one has its lanes exchanged by xor with `lanes`, and with signs by row.

    With `half` = 1 everything is real, with 2 b and c are imaginary and a and d real, with 0 it is complex.
    """
    w = simd.lanes_of(p)
    corners = load(c, 0) + load(c, 2 * w)
    i = 0
    for _ in range(rows >> simd.popcount(fixed)):
        j = i | value
        mix_exchanged(p, 2 * w * j, 2 * w * (j ^ x), *corners, c, s ^ simd.parity(j & z), lanes, half)
        i = (i + fixed + 1) & ~fixed


@template
def mix_exchanged(p, u, v, ar, ai, dr, di, c, odd, lanes, half):
    """`pair_mixed` on the rows at `p[u]` and `p[v]`, with the opposite sign if `odd`."""
    w = simd.lanes_of(p)
    ur, ui = load(p, u)
    vr, vi = load(p, v)
    qr, qi = exchanged(vr, vi, lanes)
    rr, ri = exchanged(ur, ui, lanes)
    b = (4 + 4 * odd) * w
    if half == 0:
        br, bi = load(c, b)
        cr, ci = load(c, b + 2 * w)
        store(p, u, ar * ur - ai * ui + br * qr - bi * qi, ar * ui + ai * ur + br * qi + bi * qr)
        store(p, v, dr * vr - di * vi + cr * rr - ci * ri, dr * vi + di * vr + cr * ri + ci * rr)
    else:
        b += (half - 1) * w
        br, cr = simd.load_line(c, b), simd.load_line(c, b + 2 * w)
        if half == 2:
            qr, qi, rr, ri = -qi, qr, -ri, rr
        store(p, u, ar * ur + br * qr, ar * ui + br * qi)
        store(p, v, dr * vr + cr * rr, dr * vi + cr * ri)


@template
def lanes_general(p, rows, c, fixed, value, s, z, lanes):
    """A PAIR inside rows: of lanes l and l ^ `lanes`.

    Vectors: a (d where the highest bit of x is 1), -, then b (or c), -, then -b, -.
    """
    w = simd.lanes_of(p)
    ar, ai = load(c, 0)
    extra = z & -z if z else free_bit(rows, fixed)
    fixed |= extra
    i = 0
    for _ in range(rows >> simd.popcount(fixed)):
        j = i | value
        b = (4 + 4 * (s ^ simd.parity(j & z))) * w
        mix_inside(p, 2 * w * j, ar, ai, *load(c, b), lanes)
        if extra:
            b = 12 * w - b if z else b
            mix_inside(p, 2 * w * (j | extra), ar, ai, *load(c, b), lanes)
        i = (i + fixed + 1) & ~fixed


@template
def mix_inside(p, u, ar, ai, br, bi, lanes):
    """`lanes_general` on the row at `p[u]`."""
    ur, ui = load(p, u)
    vr, vi = exchanged(ur, ui, lanes)
    store(p, u, ar * ur - ai * ui + br * vr - bi * vi, ar * ui + ai * ur + br * vi + bi * vr)


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
        mix_inside_half(p, 2 * w * j, a, b, lanes, imaginary)
        if extra:
            b = simd.load_line(c, (12 - k + imaginary) * w) if z else b
            mix_inside_half(p, 2 * w * (j | extra), a, b, lanes, imaginary)
        i = (i + fixed + 1) & ~fixed


@template
def mix_inside_half(p, u, a, b, lanes, imaginary):
    """`lanes_half` on the row at `p[u]`."""
    ur, ui = load(p, u)
    vr, vi = exchanged(ur, ui, lanes)
    if imaginary:
        store(p, u, a * ur - b * vi, a * ui + b * vr)
    else:
        store(p, u, a * ur + b * vr, a * ui + b * vi)


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
            scale(p, 2 * w * j, *load(c, d))
            d = 2 * w - d
            scale(p, 2 * w * (j | extra), *load(c, d))
            i = (i + fixed + 1) & ~fixed
    else:
        d = 2 * s * w
        dr, di = load(c, d)
        extra = free_bit(rows, fixed)
        fixed |= extra
        for _ in range(rows >> simd.popcount(fixed)):
            j = i | value
            scale(p, 2 * w * j, dr, di)
            if extra:
                scale(p, 2 * w * (j | extra), dr, di)
            i = (i + fixed + 1) & ~fixed


@template
def scale(p, u, dr, di):
    """The row at `p[u]` times d."""
    ur, ui = load(p, u)
    store(p, u, dr * ur - di * ui, dr * ui + di * ur)


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
            ar, ai = load(p, r)
            br, bi = load(p, s)
            cr, ci = load(p, t)
            dr, di = load(p, u)
            _four(p, w, r, c, 0, ar, ai, br, bi, cr, ci, dr, di)
            _four(p, w, s, c, 8 * w, ar, ai, br, bi, cr, ci, dr, di)
            _four(p, w, t, c, 16 * w, ar, ai, br, bi, cr, ci, dr, di)
            _four(p, w, u, c, 24 * w, ar, ai, br, bi, cr, ci, dr, di)
            i = (i + fixed + 1) & ~fixed
    elif low:
        for _ in range(rows >> simd.popcount(fixed)):
            j = i | value
            r, s = 2 * w * j, 2 * w * (j | low)
            ar, ai = load(p, r)
            cr, ci = load(p, s)
            br, bi = exchanged(ar, ai, lanes)
            dr, di = exchanged(cr, ci, lanes)
            _four(p, w, r, c, 0, ar, ai, br, bi, cr, ci, dr, di)
            _four(p, w, s, c, 8 * w, ar, ai, br, bi, cr, ci, dr, di)
            i = (i + fixed + 1) & ~fixed
    else:
        first = lanes & -lanes
        for _ in range(rows >> simd.popcount(fixed)):
            r = 2 * w * (i | value)
            ar, ai = load(p, r)
            br, bi = exchanged(ar, ai, first)
            cr, ci = exchanged(ar, ai, lanes ^ first)
            dr, di = exchanged(ar, ai, lanes)
            _four(p, w, r, c, 0, ar, ai, br, bi, cr, ci, dr, di)
            i = (i + fixed + 1) & ~fixed


@template
def _four(p, w, u, c, at, ar, ai, br, bi, cr, ci, dr, di):
    """Write row of a 4x4 matrix times vector, its vectors being at `c[at]`."""
    er, ei = load(c, at)
    fr, fi = load(c, at + 2 * w)
    re, im = er * ar - ei * ai + fr * br - fi * bi, er * ai + ei * ar + fr * bi + fi * br
    er, ei = load(c, at + 4 * w)
    fr, fi = load(c, at + 6 * w)
    store(p, u, re + er * cr - ei * ci + fr * dr - fi * di, im + er * ci + ei * cr + fr * di + fi * dr)


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
            ur, ui = load(p, u)
            q = 0
            for _ in range(L):
                store(scratch, 2 * w * t, simd.xor_lanes(ur, q), simd.xor_lanes(ui, q))
                t += 1
                q = ((q | ~lanes) + 1) & lanes
            k = ((k | ~x) + 1) & x
        k, a, step = 0, 0, 2 * w * terms
        if R > 1:
            for _ in range(R >> 1):
                r0 = i0 = r1 = i1 = r2 = i2 = r3 = i3 = simd.splat_line(p, 0)
                for t in range(0, terms, 2):  # R L is even
                    ur, ui = load(scratch, 2 * w * t)
                    vr, vi = load(scratch, 2 * w * t + 2 * w)
                    mr, mi = load(c, a)
                    r0, i0 = r0 + mr * ur - mi * ui, i0 + mr * ui + mi * ur
                    mr, mi = load(c, a + step)
                    r1, i1 = r1 + mr * ur - mi * ui, i1 + mr * ui + mi * ur
                    mr, mi = load(c, a + 2 * w)
                    r2, i2 = r2 + mr * vr - mi * vi, i2 + mr * vi + mi * vr
                    mr, mi = load(c, a + step + 2 * w)
                    r3, i3 = r3 + mr * vr - mi * vi, i3 + mr * vi + mi * vr
                    a += 4 * w
                a += step
                store(p, 2 * w * (j ^ k), r0 + r2, i0 + i2)
                k = ((k | ~x) + 1) & x
                store(p, 2 * w * (j ^ k), r1 + r3, i1 + i3)
                k = ((k | ~x) + 1) & x
        else:
            r0 = i0 = r1 = i1 = simd.splat_line(p, 0)
            for t in range(0, terms, 2):
                ur, ui = load(scratch, 2 * w * t)
                mr, mi = load(c, a)
                r0, i0 = r0 + mr * ur - mi * ui, i0 + mr * ui + mi * ur
                ur, ui = load(scratch, 2 * w * t + 2 * w)
                mr, mi = load(c, a + 2 * w)
                r1, i1 = r1 + mr * ur - mi * ui, i1 + mr * ui + mi * ur
                a += 4 * w
            store(p, 2 * w * j, r0 + r1, i0 + i1)
        i = (i + fixed + 1) & ~fixed
