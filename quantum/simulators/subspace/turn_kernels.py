"""Rotations of a real vector, and expectation values with their derivatives: each a single compiled call.

Arguments are the arrays of `turns.Turns`, those of its program (`starts`, `indices`, `factors`, `constants`: the
angles), and of `observable.Sparse`.
"""

import numpy as np

from triskele.core.extend import kernel, simd, template

from ..statevector.coefficients import reduced

__all__ = ["evaluate", "run", "second"]


@template
def _angles(values, starts, indices, factors, constants, angles):
    for i in range(constants.size):
        t = constants[i]
        for k in range(starts[i], starts[i + 1]):
            t += factors[k] * values[indices[k]]
        angles[i] = t


@template
def _sines(rows, numbers, angles, cs):
    """Cosines cs[0] and sines cs[1] of all rotations."""
    count = rows.shape[0]
    for r in range(count):
        if rows[r, 0] >= 0:
            cs[0, r] = reduced(numbers[r, 0] * angles[rows[r, 0]])
    whole = count - count % 8
    for r in range(0, whole, 8):
        t = simd.load(cs, r, 8)
        simd.store(cs, r, simd.cos(t))
        simd.store(cs, count + r, simd.sin(t))
    for r in range(whole, count):
        t = cs[0, r]
        cs[0, r], cs[1, r] = simd.cos(t), simd.sin(t)
    for r in range(count):
        if rows[r, 0] < 0:
            cs[0, r], cs[1, r] = numbers[r, 1], numbers[r, 2]


@template
def _forward(rows, pairs, cs, psi):
    for r in range(rows.shape[0]):
        c, s = cs[0, r], cs[1, r]
        for i in range(np.uint64(rows[r, 1]), np.uint64(rows[r, 2])):
            x, y = np.uint64(pairs[i, 0]), np.uint64(pairs[i, 1])
            p, q = psi[x], psi[y]
            psi[x] = c * p - s * q
            psi[y] = s * p + c * q


@template
def _apply(blocks, columns, entries, psi, out):
    """out = H psi; returns psi H psi. `blocks` is where each eight rows begin."""
    total = simd.splat(0.0, 8)
    for b in range(blocks.size - 1):
        row = simd.splat(0.0, 8)
        other = simd.splat(0.0, 8)
        i, end = blocks[b], blocks[b + 1]
        while i + 16 <= end:
            row = simd.fma(simd.load(entries, i, 8), simd.gather(psi, simd.load(columns, i, 8)), row)
            other = simd.fma(simd.load(entries, i + 8, 8), simd.gather(psi, simd.load(columns, i + 8, 8)), other)
            i += 16
        if i < end:
            row = simd.fma(simd.load(entries, i, 8), simd.gather(psi, simd.load(columns, i, 8)), row)
        row += other
        simd.store(out, 8 * b, row)
        total = simd.fma(row, simd.load(psi, 8 * b, 8), total)
    return simd.sum(total)


@kernel(nogil=True)
def run(values, starts, indices, factors, constants, rows, numbers, pairs, psi):
    """The circuit on psi (N,), in place."""
    angles, cs = np.empty(constants.size), np.zeros((2, rows.shape[0]))
    _angles(values, starts, indices, factors, constants, angles)
    _sines(rows, numbers, angles, cs)
    _forward(rows, pairs, cs, psi)


@kernel(nogil=True)
def evaluate(
    values,
    starts,
    indices,
    factors,
    constants,
    rows,
    numbers,
    pairs,
    start,
    blocks,
    columns,
    entries,
    weights,
    energies,
    gradients,
):
    """Energies (B, m), and gradients (B, k, V) of the sums of energies with weights (B or 1, k, m).

    Observable i has the blocks ``blocks[i]``, (m, N / 8 + 1).
    """
    size, count, total = start.size, rows.shape[0], energies.shape[1]
    angles, cs, slopes = np.empty(constants.size), np.zeros((2, count)), np.empty(constants.size)
    psi, images, both = np.empty(size), np.empty((total, size)), np.empty(2 * size)
    for e in range(values.shape[0]):
        _angles(values[e], starts, indices, factors, constants, angles)
        _sines(rows, numbers, angles, cs)
        for j in range(size):
            psi[j] = start[j]
        _forward(rows, pairs, cs, psi)
        for i in range(total):
            energies[e, i] = _apply(blocks[i], columns, entries, psi, images[i])
        w = weights[e if weights.shape[0] > 1 else 0]
        for k in range(w.shape[0]):
            for j in range(size):  # psi and lambda side by side
                lam = 0.0
                for i in range(total):
                    lam += w[k, i] * images[i, j]
                both[2 * j], both[2 * j + 1] = psi[j], lam
            slopes[:] = 0.0
            for r in range(count - 1, -1, -1):
                c, s = cs[0, r], cs[1, r]
                slope = 0.0
                for i in range(np.uint64(rows[r, 1]), np.uint64(rows[r, 2])):
                    x, y = np.uint64(2 * np.uint64(pairs[i, 0])), np.uint64(2 * np.uint64(pairs[i, 1]))
                    p, q, lp, lq = both[x], both[y], both[x + np.uint64(1)], both[y + np.uint64(1)]
                    slope += lq * p - lp * q
                    both[x], both[x + np.uint64(1)] = c * p + s * q, c * lp + s * lq
                    both[y], both[y + np.uint64(1)] = c * q - s * p, c * lq - s * lp
                if rows[r, 0] >= 0:
                    slopes[rows[r, 0]] += 2.0 * numbers[r, 0] * slope
            g = gradients[e, k]
            g[:] = 0.0
            for i in range(constants.size):
                for t in range(starts[i], starts[i + 1]):
                    g[indices[t]] += factors[t] * slopes[i]


@kernel(nogil=True)
def second(
    values,
    d_values,
    starts,
    indices,
    factors,
    constants,
    rows,
    numbers,
    pairs,
    start,
    blocks,
    columns,
    entries,
    changes,
    d_blocks,
    d_columns,
    d_entries,
    weights,
    d_energies,
    gradient,
    psi,
    d_psi,
):
    """Tangents along d_values (and with `changes` along other observables): of energies (m,), of the gradient (V,) of
    weights @ energies.

    psi and d_psi (N,) take the vector at the end, and its tangent.
    """
    size, count = start.size, rows.shape[0]
    angles, d_angles, slopes = np.empty(constants.size), np.zeros(constants.size), np.zeros(constants.size)
    for i in range(constants.size):
        for k in range(starts[i], starts[i + 1]):
            d_angles[i] += factors[k] * d_values[indices[k]]
    cs = np.zeros((2, count))
    _angles(values, starts, indices, factors, constants, angles)
    _sines(rows, numbers, angles, cs)
    psi[:], d_psi[:] = start, 0.0
    for r in range(count):
        c, s = cs[0, r], cs[1, r]
        d = numbers[r, 0] * d_angles[rows[r, 0]] if rows[r, 0] >= 0 else 0.0
        for i in range(rows[r, 1], rows[r, 2]):
            x, y = pairs[i, 0], pairs[i, 1]
            p, q = c * psi[x] - s * psi[y], s * psi[x] + c * psi[y]
            d_psi[x], d_psi[y] = c * d_psi[x] - s * d_psi[y] - d * q, s * d_psi[x] + c * d_psi[y] + d * p
            psi[x], psi[y] = p, q
    image, lam, d_lam = np.empty(size), np.zeros(size), np.zeros(size)
    for i in range(weights.size):
        _apply(blocks[i], columns, entries, psi, image)
        slope = 0.0
        for j in range(size):
            lam[j] += weights[i] * image[j]
            slope += 2.0 * image[j] * d_psi[j]
        _apply(blocks[i], columns, entries, d_psi, image)
        for j in range(size):
            d_lam[j] += weights[i] * image[j]
        if changes:
            slope += _apply(d_blocks[i], d_columns, d_entries, psi, image)
            for j in range(size):
                d_lam[j] += weights[i] * image[j]
        d_energies[i] = slope
    a, d_a = psi.copy(), d_psi.copy()
    for r in range(count - 1, -1, -1):
        c, s = cs[0, r], cs[1, r]
        d = numbers[r, 0] * d_angles[rows[r, 0]] if rows[r, 0] >= 0 else 0.0
        slope = 0.0
        for i in range(rows[r, 1], rows[r, 2]):
            x, y = pairs[i, 0], pairs[i, 1]
            slope += d_lam[y] * a[x] - d_lam[x] * a[y] + lam[y] * d_a[x] - lam[x] * d_a[y]
            for v, dv in ((a, d_a), (lam, d_lam)):
                p, q = v[x], v[y]
                dp, dq = dv[x] + d * q, dv[y] - d * p
                v[x], v[y] = c * p + s * q, c * q - s * p
                dv[x], dv[y] = c * dp + s * dq, c * dq - s * dp
        if rows[r, 0] >= 0:
            slopes[rows[r, 0]] += 2.0 * numbers[r, 0] * slope
    gradient[:] = 0.0
    for i in range(constants.size):
        for k in range(starts[i], starts[i + 1]):
            gradient[indices[k]] += factors[k] * slopes[i]
