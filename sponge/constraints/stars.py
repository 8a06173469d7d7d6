"""Stars of constraints, one atom with one to three leaves (XH, XH2, XH3): Newton's method in registers, eight at a
time.

A star's positions follow from one multiplier per leaf, with the bonds before the step as directions. One leaf is a
quadratic equation; for more, Newton's method converges quadratically, so that the tolerance is passed by far.

References
----------
.. [1] Kräutler, van Gunsteren, Hünenberger, "A fast SHAKE algorithm to solve distance constraint equations for small
   molecules in molecular dynamics simulations", J. Comput. Chem. 22 (2001) 501.
"""

from __future__ import annotations

import numpy as np

from triskele.core.extend import device, kernel, simd

from ..engine.flags import NOT_CONVERGED, STATUS, STATUS_INFO
from .vectors import LANES, load_vectors, store_vectors

__all__ = ["star_positions", "star_velocities"]

_MOST_ITERATIONS = 30


@device
def _solve(a, b, c, d, e, f, g, h, i, x, y, z):
    """Solution of the 3 x 3 system with rows abc, def, ghi and right side xyz, by cofactors."""
    p, q, r = e * i - f * h, f * g - d * i, d * h - e * g
    s = simd.rcp_fast(a * p + b * q + c * r, 2)
    return (
        (p * x + (c * h - b * i) * y + (b * f - c * e) * z) * s,
        (q * x + (a * i - c * g) * y + (c * d - a * f) * z) * s,
        (r * x + (b * g - a * h) * y + (a * e - b * d) * z) * s,
    )


@device
def _dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@device
def _minus(a, b):
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


@device
def _moved(a, f, r):
    """a + f r"""
    return a[0] + f * r[0], a[1] + f * r[1], a[2] + f * r[2]


@device
def _add(velocities, atoms, new, before, per_time):
    v = load_vectors(velocities, atoms)
    store_vectors(velocities, atoms, *_moved(v, per_time, _minus(new, before)))


@device
def _report(flags, atoms, group, broken):
    lane = 0
    while not (broken >> np.uint64(lane)) & np.uint64(1):
        lane += 1
    flags[STATUS_INFO] = atoms[group, 1, lane]
    flags[STATUS] = NOT_CONVERGED


@kernel(nogil=True)
def star_positions(
    chunk, starts, sizes, atoms, squares, weights, tolerance, old, positions, velocities, inverse_dt, flags
):
    # starts [chunks + 1] of groups; sizes [groups] leaves; atoms [groups, 4, 8] int32: center, leaves, the center again
    # where there is no leaf; squares [groups, 4, 8] of lengths; weights [groups, 4, 8] inverse masses, 0 without a
    # leaf; inverse_dt [1]: velocities gain the displacement times this
    per_time = simd.splat(inverse_dt[0], 8)
    zero, one = simd.splat(0.0, 8), simd.splat(1.0, 8)
    for group in range(starts[chunk], starts[chunk + 1]):
        at = 4 * LANES * group
        i0, i1 = simd.load(atoms, at, 8), simd.load(atoms, at + 8, 8)
        w0, w1 = simd.load(weights, at, 8), simd.load(weights, at + 8, 8)
        d1 = simd.load(squares, at + 8, 8)
        x0, x1 = load_vectors(positions, i0), load_vectors(positions, i1)
        o0 = load_vectors(old, i0)
        r1 = _minus(load_vectors(old, i1), o0)
        s1 = _minus(x1, x0)
        if sizes[group] == 1:
            # |s - t r| = d, with the root that is near 0, in the form without cancellation
            rr, sr, off = _dot(r1, r1), _dot(s1, r1), _dot(s1, s1) - d1
            square = sr * sr - rr * off
            t = off / (sr + simd.sqrt(square)) / (w0 + w1)
            broken = ~simd.bits((square >= 0.0) & (sr > 0.0)) & np.uint64(255)
            if broken != 0:
                _report(flags, atoms, group, broken)
                continue
            n0, n1 = _moved(x0, w0 * t, r1), _moved(x1, -(w1 * t), r1)
            if inverse_dt[0] != 0.0:
                _add(velocities, i1, n1, x1, per_time)
                _add(velocities, i0, n0, x0, per_time)
            store_vectors(positions, i1, *n1)
            store_vectors(positions, i0, *n0)
            continue
        i2, i3 = simd.load(atoms, at + 16, 8), simd.load(atoms, at + 24, 8)
        w2, w3 = simd.load(weights, at + 16, 8), simd.load(weights, at + 24, 8)
        d2, d3 = simd.load(squares, at + 16, 8), simd.load(squares, at + 24, 8)
        x2, x3 = load_vectors(positions, i2), load_vectors(positions, i3)
        r2, r3 = _minus(load_vectors(old, i2), o0), _minus(load_vectors(old, i3), o0)
        s2, s3 = _minus(x2, x0), _minus(x3, x0)
        empty = simd.select(w3 == 0.0, one, zero)
        t1, t2, t3 = zero, zero, zero
        limit = 2.0 * tolerance[0]
        broken = np.uint64(255)
        for _ in range(_MOST_ITERATIONS):
            g1, g2, g3 = _dot(s1, s1) - d1, _dot(s2, s2) - d2, _dot(s3, s3) - d3
            close = (simd.abs(g1) <= limit * d1) & (simd.abs(g2) <= limit * d2) & (simd.abs(g3) <= limit * d3)
            broken = ~simd.bits(close) & np.uint64(255)
            if broken == 0:
                break
            a, b, c = _dot(s1, r1), _dot(s1, r2), _dot(s1, r3)
            d, e, f = _dot(s2, r1), _dot(s2, r2), _dot(s2, r3)
            g, h, i = _dot(s3, r1), _dot(s3, r2), _dot(s3, r3)
            m1, m2, m3 = (w0 + w1) * a, (w0 + w2) * e, (w0 + w3) * i + empty
            u1, u2, u3 = _solve(
                m1, w0 * b, w0 * c, w0 * d, m2, w0 * f, w0 * g, w0 * h, m3, 0.5 * g1, 0.5 * g2, 0.5 * g3
            )
            t1, t2, t3 = t1 + u1, t2 + u2, t3 + u3
            back = _moved(_moved(_moved((zero, zero, zero), -(w0 * u1), r1), -(w0 * u2), r2), -(w0 * u3), r3)
            s1 = _moved(_moved(s1, -(w1 * u1), r1), one, back)
            s2 = _moved(_moved(s2, -(w2 * u2), r2), one, back)
            s3 = _moved(_moved(s3, -(w3 * u3), r3), one - empty, back)
        if broken != 0:
            _report(flags, atoms, group, broken)
            continue
        n0 = _moved(_moved(_moved(x0, w0 * t1, r1), w0 * t2, r2), w0 * t3, r3)
        n1, n2, n3 = _moved(x1, -(w1 * t1), r1), _moved(x2, -(w2 * t2), r2), _moved(x3, -(w3 * t3), r3)
        # the center last, as it stands for leaves that are not there
        if inverse_dt[0] != 0.0:
            _add(velocities, i3, n3, x3, per_time)
            _add(velocities, i2, n2, x2, per_time)
            _add(velocities, i1, n1, x1, per_time)
            _add(velocities, i0, n0, x0, per_time)
        store_vectors(positions, i3, *n3)
        store_vectors(positions, i2, *n2)
        store_vectors(positions, i1, *n1)
        store_vectors(positions, i0, *n0)


@kernel(nogil=True)
def star_velocities(chunk, starts, sizes, atoms, weights, positions, velocities):
    # takes out of the velocities what would change the lengths
    for group in range(starts[chunk], starts[chunk + 1]):
        at = 4 * LANES * group
        i0, i1 = simd.load(atoms, at, 8), simd.load(atoms, at + 8, 8)
        w0, w1 = simd.load(weights, at, 8), simd.load(weights, at + 8, 8)
        x0 = load_vectors(positions, i0)
        r1 = _minus(load_vectors(positions, i1), x0)
        v0, v1 = load_vectors(velocities, i0), load_vectors(velocities, i1)
        if sizes[group] == 1:
            t = _dot(r1, _minus(v1, v0)) / (_dot(r1, r1) * (w0 + w1))
            store_vectors(velocities, i1, *_moved(v1, -(w1 * t), r1))
            store_vectors(velocities, i0, *_moved(v0, w0 * t, r1))
            continue
        i2, i3 = simd.load(atoms, at + 16, 8), simd.load(atoms, at + 24, 8)
        w2, w3 = simd.load(weights, at + 16, 8), simd.load(weights, at + 24, 8)
        r2, r3 = _minus(load_vectors(positions, i2), x0), _minus(load_vectors(positions, i3), x0)
        v2, v3 = load_vectors(velocities, i2), load_vectors(velocities, i3)
        empty = simd.select(w3 == 0.0, simd.splat(1.0, 8), simd.splat(0.0, 8))
        b, c, f = w0 * _dot(r1, r2), w0 * _dot(r1, r3), w0 * _dot(r2, r3)
        t1, t2, t3 = _solve(
            (w0 + w1) * _dot(r1, r1),
            b,
            c,
            b,
            (w0 + w2) * _dot(r2, r2),
            f,
            c,
            f,
            (w0 + w3) * _dot(r3, r3) + empty,
            _dot(r1, _minus(v1, v0)),
            _dot(r2, _minus(v2, v0)),
            _dot(r3, _minus(v3, v0)),
        )
        store_vectors(velocities, i3, *_moved(v3, -(w3 * t3), r3))
        store_vectors(velocities, i2, *_moved(v2, -(w2 * t2), r2))
        store_vectors(velocities, i1, *_moved(v1, -(w1 * t1), r1))
        store_vectors(velocities, i0, *_moved(_moved(_moved(v0, w0 * t1, r1), w0 * t2, r2), w0 * t3, r3))
