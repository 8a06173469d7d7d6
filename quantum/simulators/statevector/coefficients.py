"""From values of parameters to the numbers that kernels multiply with: angles, recipes, vectors."""

import math

import numpy as np

from triskele.core.extend import device, kernel, simd, template

from ...compile.bits import top

__all__ = ["FAR", "expand", "fill_coefficients", "reduced"]

FAR = 3e13  # beyond it the vector functions give no sine and cosine


@kernel(nogil=True)
def fill_coefficients(values, starts, indices, factors, constants, recipes, coefficients, half):
    """Angles from values, then recipes in order, into `coefficients`, which hold a program's template.

    `half` (2, A) takes cosine and sine of half of each angle. See `Program` for the other arrays.
    """
    largest = 0.0
    for i in range(constants.size):
        t = constants[i]
        for k in range(starts[i], starts[i + 1]):
            t += factors[k] * values[indices[k]]
        half[0, i] = 0.5 * t
        largest = max(largest, abs(half[0, i]))
    if largest > FAR:
        for i in range(constants.size):
            half[0, i] = reduced(half[0, i])
    whole = constants.size - constants.size % 8
    for i in range(0, whole, 8):
        t = simd.load(half, i, 8)
        simd.store(half, i, simd.cos(t))
        simd.store(half, constants.size + i, simd.sin(t))
    for i in range(whole, constants.size):
        t = half[0, i]
        half[0, i], half[1, i] = simd.cos(t), simd.sin(t)
    c = coefficients
    for i in range(len(recipes)):
        r = recipes[i]
        recipe, out, source, sign = r[0], r[1], r[2], r[3]
        if recipe <= 1:
            cosine, sine = half[0, source], sign * half[1, source]
            for k in range(8):
                c[out + k] = 0.0
            c[out] = c[out + 6] = cosine
            if recipe == 0:
                c[out + 2], c[out + 4] = -sine, sine
            else:
                c[out + 3] = c[out + 5] = -sine
        elif recipe == 2:
            c[out] = c[out + 2] = half[0, source]
            c[out + 1], c[out + 3] = -sign * half[1, source], sign * half[1, source]
        elif recipe == 3:
            cosine, sine = half[0, source], half[1, source]
            c[out] = c[out + 2] = (cosine - sine) * (cosine + sine)
            c[out + 1] = c[out + 3] = sign * 2.0 * cosine * sine
        elif recipe == 4 and r[5] == 1:
            _product2(c, r)
        elif recipe == 4:
            _product(c, r)
        elif recipe == 5:
            for k in range(r[5]):
                c[out + 2 * k], c[out + 2 * k + 1] = c[source + 2 * k], -c[source + 2 * k + 1]
        else:
            previous = r[4]
            for k in range(r[5]):
                ar, ai, br, bi = c[source + 2 * k], c[source + 2 * k + 1], c[previous + 2 * k], c[previous + 2 * k + 1]
                c[out + 2 * k], c[out + 2 * k + 1] = ar * br - ai * bi, ar * bi + ai * br


@device
def reduced(t):
    """The angle, or one in -pi to pi with the same sine and cosine where it is beyond `FAR`."""
    return math.atan2(math.sin(t), math.cos(t)) if abs(t) > FAR else t


@template
def _product2(c, r):
    """The recipe PRODUCT of 2x2 matrices."""
    out, source, previous = r[1], r[2], r[4]
    ar, ai, br, bi, cr, ci, dr, di = 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0
    if previous >= 0:
        ar, ai, br, bi = c[previous], c[previous + 1], c[previous + 2], c[previous + 3]
        cr, ci, dr, di = c[previous + 4], c[previous + 5], c[previous + 6], c[previous + 7]
    if r[6] == 0:
        er, ei, fr, fi = c[source], c[source + 1], c[source + 2], c[source + 3]
        gr, gi, hr, hi = c[source + 4], c[source + 5], c[source + 6], c[source + 7]
        c[out], c[out + 1] = er * ar - ei * ai + fr * cr - fi * ci, er * ai + ei * ar + fr * ci + fi * cr
        c[out + 2], c[out + 3] = er * br - ei * bi + fr * dr - fi * di, er * bi + ei * br + fr * di + fi * dr
        c[out + 4], c[out + 5] = gr * ar - gi * ai + hr * cr - hi * ci, gr * ai + gi * ar + hr * ci + hi * cr
        c[out + 6], c[out + 7] = gr * br - gi * bi + hr * dr - hi * di, gr * bi + gi * br + hr * di + hi * dr
    else:
        m, v, z = r[8], r[9], r[10]
        er, ei, hr, hi = 1.0, 0.0, 1.0, 0.0
        if v == 0:
            er, ei = c[source], c[source + 1]
        if v == m:
            hr, hi = c[source + 2 * z], c[source + 2 * z + 1]
        c[out], c[out + 1], c[out + 2], c[out + 3] = (
            er * ar - ei * ai,
            er * ai + ei * ar,
            er * br - ei * bi,
            er * bi + ei * br,
        )
        c[out + 4], c[out + 5], c[out + 6], c[out + 7] = (
            hr * cr - hi * ci,
            hr * ci + hi * cr,
            hr * dr - hi * di,
            hr * di + hi * dr,
        )


@device
def _product(c, r):
    """The recipe PRODUCT: copy the previous matrix, then apply the op to its columns."""
    out, source, previous, width, kind, x, m, v, z, local = r[1], r[2], r[4], r[5], r[6], r[7], r[8], r[9], r[10], r[11]
    size = 1 << width
    step = 2 * size  # floats from one row to the next
    if previous >= 0:
        for k in range(size * step):
            c[out + k] = c[previous + k]
    else:
        for k in range(size * step):
            c[out + k] = 0.0
        for k in range(size):
            c[out + k * step + 2 * k] = 1.0
    if kind == 1:
        for j in range(size):
            if j & m == v:
                d = source + 2 * (simd.parity(j & z))
                dr, di = c[d], c[d + 1]
                for k in range(out + j * step, out + (j + 1) * step, 2):
                    re, im = c[k], c[k + 1]
                    c[k], c[k + 1] = dr * re - di * im, dr * im + di * re
    elif kind == 0:
        pivot = top(x)
        for j in range(size):
            if j & m == v and j & pivot == 0:
                s = 1.0 - 2.0 * simd.parity(j & z)
                ar, ai, br, bi = c[source], c[source + 1], s * c[source + 2], s * c[source + 3]
                cr, ci, dr, di = s * c[source + 4], s * c[source + 5], c[source + 6], c[source + 7]
                there = ((j ^ x) - j) * step
                for k in range(out + j * step, out + (j + 1) * step, 2):
                    ur, ui, vr, vi = c[k], c[k + 1], c[k + there], c[k + there + 1]
                    c[k], c[k + 1] = ar * ur - ai * ui + br * vr - bi * vi, ar * ui + ai * ur + br * vi + bi * vr
                    c[k + there], c[k + there + 1] = (
                        cr * ur - ci * ui + dr * vr - di * vi,
                        cr * ui + ci * ur + dr * vi + di * vr,
                    )
    else:
        _dense_product(c, out, source, size, x, m, v, local)


@device
def _dense_product(c, out, source, size, x, m, v, local):
    """Rows that differ in the bits x are read from where they are, since `out` holds the previous matrix: column by
    column.
    """
    k = 0
    while x >> k:
        k += 1
    for b in range(k):
        k -= 1 - ((x >> b) & 1)
    dim, old = 1 << k, np.empty(2 << k)
    for j in range(size):
        if j & m != v or j & x:
            continue
        for column in range(size):
            for i in range(dim):
                at = out + 2 * ((j | _place(i, local)) * size + column)
                old[2 * i], old[2 * i + 1] = c[at], c[at + 1]
            for i in range(dim):
                re, im = 0.0, 0.0
                for l in range(dim):
                    at = source + 2 * (i * dim + l)
                    re += c[at] * old[2 * l] - c[at + 1] * old[2 * l + 1]
                    im += c[at] * old[2 * l + 1] + c[at + 1] * old[2 * l]
                at = out + 2 * ((j | _place(i, local)) * size + column)
                c[at], c[at + 1] = re, im


@device
def _place(i, local):
    """Index of a DENSE to bits of the matrix."""
    place, b = 0, 0
    while i >> b:
        place |= ((i >> b) & 1) << ((local >> (4 * b)) & 15)
        b += 1
    return place


@template
def expand(code, c, out):
    """Write the vectors of one op for the loops in `rows`, from its row `code` of `Schedule.code` and the coefficients
    `c` (C,) of the program. All vectors begin at the pointer `out`, whose type is theirs.
    """
    w = simd.lanes_of(out)
    at = code[2]
    o = simd.address(out, code[3] * w)
    kernel_, lx, lm, lv, lz = code[0], code[11], code[12], code[13], code[14]
    lanes = simd.iota_line(out)
    if kernel_ == 11:
        _expand_dense(code, c, at, o)
    elif lm | lz | lx == 0:
        if kernel_ == 10:
            for i in range(4):
                simd.store_line(o, i * w, simd.splat_line(o, c[at + i]))
        else:
            for i in range(2):
                simd.store_line(o, i * w, simd.splat_line(o, c[at + i]))
                simd.store_line(o, (2 + i) * w, simd.splat_line(o, c[at + 6 + i]))
            for i in range(4):
                simd.store_line(o, (4 + i) * w, simd.splat_line(o, c[at + 2 + i]))
                simd.store_line(o, (8 + i) * w, simd.splat_line(o, -c[at + 2 + i]))
    elif kernel_ == 10:
        chosen = (lanes & lm) == lv
        odd = _odd(lanes, lz)
        for s in range(2):
            for i in range(2):
                one = simd.splat_line(o, 1.0 - i)
                even_, odd_ = simd.splat_line(o, c[at + 2 * s + i]), simd.splat_line(o, c[at + 2 - 2 * s + i])
                simd.store_line(o, (2 * s + i) * w, simd.select(chosen, simd.select(odd, odd_, even_), one))
    else:
        # lane l holds j (PAIR of rows: first row), its partner is lane l ^ lx; conditions and signs are those of j
        partner = lanes ^ lx
        if kernel_ >= 7:
            pivot = top(lx)
            second = (lanes & pivot) != 0
            j = simd.select(second, partner, lanes)
            chosen = (j & lm) == lv
            odd = _odd(j, lz)
            for i in range(2):
                own = simd.select(second, simd.splat_line(o, c[at + 6 + i]), simd.splat_line(o, c[at + i]))
                simd.store_line(o, i * w, simd.select(chosen, own, simd.splat_line(o, 1.0 - i)))
                other = simd.select(second, simd.splat_line(o, c[at + 4 + i]), simd.splat_line(o, c[at + 2 + i]))
                other = simd.select(chosen, simd.select(odd, -other, other), simd.splat_line(o, 0.0))
                simd.store_line(o, (4 + i) * w, other)
                simd.store_line(o, (8 + i) * w, -other)
        else:
            chosen = (lanes & lm) == lv
            odd = _odd(lanes, lz)
            chosen2 = (partner & lm) == lv
            odd2 = _odd(partner, lz)
            for i in range(2):
                simd.store_line(
                    o, i * w, simd.select(chosen, simd.splat_line(o, c[at + i]), simd.splat_line(o, 1.0 - i))
                )
                simd.store_line(
                    o, (2 + i) * w, simd.select(chosen2, simd.splat_line(o, c[at + 6 + i]), simd.splat_line(o, 1.0 - i))
                )
                b, d = simd.splat_line(o, c[at + 2 + i]), simd.splat_line(o, c[at + 4 + i])
                b = simd.select(chosen, simd.select(odd, -b, b), simd.splat_line(o, 0.0))
                d = simd.select(chosen2, simd.select(odd2, -d, d), simd.splat_line(o, 0.0))
                simd.store_line(o, (4 + i) * w, b)
                simd.store_line(o, (6 + i) * w, d)
                simd.store_line(o, (8 + i) * w, -b)
                simd.store_line(o, (10 + i) * w, -d)


@template
def _odd(lanes, z):
    t = lanes & z
    t ^= t >> 2
    t ^= t >> 1
    return (t & 1) != 0


@template
def _expand_dense(code, c, source, o):
    w = simd.lanes_of(o)
    k, x, lx, lm, lv = code[15], code[7], code[11], code[12], code[13]
    lane_bits = 3 if w == 8 else 4
    dim = 1 << k
    at, row = 0, 0
    # rows of output, rows of input, exchanges of lanes: all in the order of their masks
    for _ in range(1 << simd.popcount(x)):
        column_row = 0
        for _ in range(1 << simd.popcount(x)):
            q = 0
            for _ in range(1 << simd.popcount(lx)):
                for lane in range(w):
                    r, s = 0, 0
                    for i in range(k):
                        bit = code[16 + i]
                        if bit < lane_bits:
                            r |= ((lane >> bit) & 1) << i
                            s |= (((lane ^ q) >> bit) & 1) << i
                        else:
                            r |= ((row >> (bit - lane_bits)) & 1) << i
                            s |= ((column_row >> (bit - lane_bits)) & 1) << i
                    if lane & lm == lv:
                        simd.store_scalar(o, at + lane, c[source + 2 * (r * dim + s)])
                        simd.store_scalar(o, at + w + lane, c[source + 2 * (r * dim + s) + 1])
                    else:
                        simd.store_scalar(o, at + lane, 1.0 if r == s else 0.0)
                        simd.store_scalar(o, at + w + lane, 0.0)
                at += 2 * w
                q = ((q | ~lx) + 1) & lx
            column_row = ((column_row | ~x) + 1) & x
        row = ((row | ~x) + 1) & x
    return at
