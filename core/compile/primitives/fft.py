"""Fourier transforms of short lengths: Stockham's self-sorting algorithm with radices 4, 2 and odd primes.

A stage of radix r over data of length n and step s (T. Swarztrauber, FFT algorithms for vector computers, 1984)::

    y[q + s (r p + k)] = w(n)^(p k) sum_j w(r)^(j k) x[q + s (p + m j)],   m = n / r, p < m, q < s

Several lines are transformed side by side where there are, as if the first step were their number. Longer transforms,
and such with large prime factors, are the host's.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...graph.graph import Const, Equation
from ..emit import NATIVE, Unit
from ..row_function import RowFunction, sides
from ..scalars import real_of
from .linalg import local

__all__: list[str] = []

MOST = 4096  # numbers that are transformed at once, on the stack
BESIDE = 8  # lines side by side
LARGEST_PRIME = 13


def radices(n: int) -> list[int] | None:
    """Factors of `n`, None if there is a large prime among them."""
    out = []
    for r in (4, 2, 3, 5, 7, 11, LARGEST_PRIME):
        while n % r == 0:
            out.append(r)
            n //= r
    return out if n == 1 else None


class _Lines:
    """One pass: all lines along one axis.

    `kind` says what the lines are made from and what of the result is kept: "complex", "half" (a half spectrum is
    written) or "real" (a half spectrum is read, real numbers are written).
    """

    def __init__(
        self,
        unit: Unit,
        source: Any,
        source_dtype: np.dtype,
        target: Any,
        outer: int,
        n: int,
        inner: int,
        inverse: bool,
        scale: float,
        kind: str,
    ):
        self.dtype = real_of(np.dtype(np.result_type(source_dtype, np.complex64)))
        self.n, self.inner, self.kind, self.complex_input = n, inner, kind, source_dtype.kind == "c"
        self.lines = outer * inner
        self.beside = BESIDE if self.lines >= BESIDE and n * BESIDE <= MOST else 1
        self.factors = radices(n) or []
        self.sign = 1.0 if inverse else -1.0
        tables = [Const(t) for t in self._tables()]
        same = source is target
        buffers = [source, *([] if same else [target]), *tables]
        r = self.r = RowFunction(unit, "fft", buffers, -(-self.lines // self.beside))
        self.b = r.b
        self.source, self.target = r.pointers[0], r.pointers[0 if same else 1]
        self.tables = r.pointers[len(buffers) - len(tables) :]
        size = n * self.beside
        now, then = ([local(r, self.dtype, size) for _ in range(2)] for _ in range(2))
        with r.row() as group:
            self._read(group, now)
            step, m = self.beside, n
            for radix, table in zip(self.factors, self.tables, strict=True):
                m //= radix
                self._stage(now, then, radix, m, step, table)
                now, then, step = then, now, step * radix
            self._write(group, now, scale)
        r.call(self.lines * n * (2.0 + 0.5 * len(self.factors)))

    def _tables(self):
        """For every stage cosines and sines of the angles, [k - 1, part, p]."""
        n = self.n
        for radix in self.factors:
            m = n // radix
            turn = np.outer(np.arange(1, radix), np.arange(m)) % n * (2 * math.pi / n)
            yield np.ascontiguousarray(np.stack([np.cos(turn), self.sign * np.sin(turn)], axis=1), self.dtype)
            n = m

    def _places(self, group, lane, width):
        """Return the start of the lane's line in an array with `width` elements along the axis."""
        b = self.b
        line = b.add(b.mul(group, b.index(self.beside)), lane)
        if self.lines % self.beside:
            line = b.min(line, b.index(self.lines - 1))  # the last line several times
        return b.add(
            b.mul(b.floordiv(line, b.index(self.inner)), b.index(width * self.inner)), b.mod(line, b.index(self.inner))
        )

    def _each(self, n, body, start=0):
        """``body(lane, i)`` for every lane and start <= i < n, along memory."""
        r = self.r
        if self.inner == 1:
            with r.loop(self.beside) as lane, r.loop(n, start) as i:
                body(lane, i)
        else:
            with r.loop(n, start) as i, r.loop(self.beside) as lane:
                body(lane, i)

    def _at(self, lane, i):
        return self.b.add(self.b.mul(i, self.b.index(self.beside)), lane)

    def _read(self, group, now):
        b, n = self.b, self.n
        half = n // 2 + 1
        width = half if self.kind == "real" else n
        dtype = np.dtype(f"c{2 * self.dtype.itemsize}") if self.complex_input else self.dtype

        def read(lane, i):
            x = b.load(
                self.source,
                dtype,
                b.add(self._places(group, lane, width), b.mul(i, b.index(self.inner))),
                movable=False,
            )
            return x.parts or (x, b.const(0.0, self.dtype))

        def plain(lane, i):
            for pointer, part in zip(now, read(lane, i), strict=True):
                b.store(pointer, self._at(lane, i), part)

        def mirrored(lane, i):
            re, im = read(lane, i)
            other = b.sub(b.index(n), i)
            for place, part in ((i, im), (other, b.neg(im))):
                b.store(now[0], self._at(lane, place), re)
                b.store(now[1], self._at(lane, place), part)

        def alone(lane, i):  # the imaginary part of the zero and the Nyquist frequency does not count
            b.store(now[0], self._at(lane, i), read(lane, i)[0])
            b.store(now[1], self._at(lane, i), b.const(0.0, self.dtype))

        if self.kind != "real":
            self._each(n, plain)
            return
        self._each(1, alone)
        if n > 2:
            self._each((n + 1) // 2, mirrored, 1)
        if n % 2 == 0:
            self._each(half, alone, half - 1)

    def _write(self, group, now, scale):
        b = self.b
        width = self.n // 2 + 1 if self.kind == "half" else self.n

        def write(lane, i):
            place = b.add(self._places(group, lane, width), b.mul(i, b.index(self.inner)))
            parts = [
                b.load(p, self.dtype, self._at(lane, i), movable=False)
                for p in (now[:1] if self.kind == "real" else now)
            ]
            if scale != 1:
                parts = [b.mul(p, b.const(scale, self.dtype)) for p in parts]
            b.store(self.target, place, parts[0] if self.kind == "real" else b.complex(*parts))

        self._each(width, write)

    def _stage(self, now, then, radix, m, step, table):
        b, r = self.b, self.r

        def butterfly(p, q):
            places = [b.add(q, b.mul(b.add(p, b.index(m * k)), b.index(step))) for k in range(radix)]
            x = [tuple(b.load(pointer, self.dtype, place, movable=False) for pointer in now) for place in places]
            for k, (re, im) in enumerate(self._transform(x)):
                if k and m > 1:
                    c, s = (b.load(table, self.dtype, b.add(b.index(((k - 1) * 2 + part) * m), p)) for part in range(2))
                    re, im = b.sub(b.mul(re, c), b.mul(im, s)), b.add(b.mul(re, s), b.mul(im, c))
                place = b.add(q, b.mul(b.add(b.mul(p, b.index(radix)), b.index(k)), b.index(step)))
                b.store(then[0], place, re)
                b.store(then[1], place, im)

        if step == 1:
            with r.loop(m) as p:
                butterfly(p, b.index(0))
        else:
            with r.loop(m) as p, r.loop(step) as q:
                butterfly(p, q)

    def _transform(self, x):
        """The transform of a few numbers (pairs)."""
        b = self.b

        def plus(u, v):
            return b.add(u[0], v[0]), b.add(u[1], v[1])

        def minus(u, v):
            return b.sub(u[0], v[0]), b.sub(u[1], v[1])

        def turned(u):  # a quarter, in the direction of the transform
            return (b.neg(u[1]), u[0]) if self.sign > 0 else (u[1], b.neg(u[0]))

        if len(x) == 2:
            return [plus(*x), minus(*x)]
        if len(x) == 4:
            even, odd = (plus(x[0], x[2]), minus(x[0], x[2])), (plus(x[1], x[3]), turned(minus(x[1], x[3])))
            return [plus(even[0], odd[0]), plus(even[1], odd[1]), minus(even[0], odd[0]), minus(even[1], odd[1])]
        n = len(x)
        sums, differences = (
            [plus(x[k], x[n - k]) for k in range(1, n // 2 + 1)],
            [turned(minus(x[k], x[n - k])) for k in range(1, n // 2 + 1)],
        )
        total = x[0]
        for s in sums:
            total = plus(total, s)
        out = [total] + [None] * (n - 1)
        for k in range(1, n // 2 + 1):
            same, other = x[0], None
            for j, (s, d) in enumerate(zip(sums, differences, strict=True), 1):
                cos, sin = (b.const(f(2 * math.pi * (j * k % n) / n), self.dtype) for f in (math.cos, math.sin))
                same = plus(same, (b.mul(s[0], cos), b.mul(s[1], cos)))
                term = b.mul(d[0], sin), b.mul(d[1], sin)
                other = term if other is None else plus(other, term)
            out[k], out[n - k] = plus(same, other), minus(same, other)
        return out


class _Fft:
    def accepts(self, eqn: Equation) -> bool:
        spec, axes = eqn.inputs[0].spec, eqn.params["axes"]
        if not spec.size or not eqn.outputs[0].spec.size or spec.dtype.char not in "fdFD" or len(set(axes)) < len(axes):
            return False
        return all(n <= MOST and radices(n) is not None for n in self._lengths(eqn))

    def _lengths(self, eqn):
        shape, axes = eqn.inputs[0].spec.shape, eqn.params["axes"]
        lengths = [shape[a] for a in axes]
        return [*lengths[:-1], eqn.params.get("n", lengths[-1])]

    def scratch(self, unit: Unit, eqn: Equation) -> dict:
        between = eqn.primitive.name == "irfft" and len(eqn.params["axes"]) > 1
        return {(eqn, "between"): eqn.inputs[0].spec.nbytes} if between else {}

    def emit(self, unit: Unit, eqn: Equation) -> None:
        name, norm, axes = eqn.primitive.name, eqn.params["norm"], eqn.params["axes"]
        inverse = name == "irfft" or eqn.params.get("inverse", False)
        lengths = self._lengths(eqn)
        count = math.prod(lengths)
        scale = 1 / math.sqrt(count) if norm == "ortho" else 1 / count if (norm == "backward") == inverse else 1.0
        spec = eqn.inputs[0].spec
        # real numbers first, or last
        order = [len(axes) - 1, *range(len(axes) - 1)] if name == "rfft" else list(range(len(axes)))
        source, dtype, shape = eqn.inputs[0], spec.dtype, list(spec.shape)
        for k in order:
            last = k == order[-1]
            kind = (
                "half" if name == "rfft" and k == len(axes) - 1 else "real" if name == "irfft" and last else "complex"
            )
            target = (eqn, "between") if name == "irfft" and not last else eqn.outputs[0]
            outer, _, inner = sides(tuple(shape), axes[k])
            _Lines(unit, source, dtype, target, outer, lengths[k], inner, inverse, scale if last else 1.0, kind)
            if kind == "half":
                shape[axes[k]] = lengths[k] // 2 + 1
            source, dtype = target, np.dtype(np.result_type(dtype, np.complex64))


NATIVE["fft"] = NATIVE["rfft"] = NATIVE["irfft"] = _Fft()
