"""Sorting.

It is stable: blocks of 16 elements are sorted by counting, for each element, those that go before it; then runs of
doubling length are merged, a pair of equal length from both ends at once, without branches that depend on the data.
"""

from __future__ import annotations

from ...dtypes import is_narrow
from ...graph.graph import Equation
from ..emit import NATIVE, Unit
from ..row_function import RowFunction
from ..scalars import I64, Value, supported

__all__: list[str] = []

BLOCK = 16


class _Sort:
    def accepts(self, eqn: Equation) -> bool:
        shape = eqn.inputs[0].spec.shape
        return len(shape) > 0 and all(
            a.spec.shape == shape
            and a.spec.size > 0
            and supported(a.spec.dtype)
            and not is_narrow(a.spec.dtype)
            and a.spec.dtype.kind != "c"
            for a in eqn.inputs
        )

    def scratch(self, unit: Unit, eqn: Equation) -> dict:
        """The other buffer of runs, next to the result."""
        return (
            {(eqn, k): o.spec.nbytes for k, o in enumerate(eqn.outputs)} if eqn.inputs[0].spec.shape[-1] > BLOCK else {}
        )

    def emit(self, unit: Unit, eqn: Equation) -> None:
        shape = eqn.inputs[0].spec.shape
        n, keys = shape[-1], len(eqn.inputs)
        rows = eqn.inputs[0].spec.size // n
        extra = [(eqn, k) for k in range(len(eqn.outputs))] if n > BLOCK else []
        r = RowFunction(unit, "sort", [*eqn.inputs, *eqn.outputs, *extra], rows)
        dtypes = [o.spec.dtype for o in eqn.outputs]
        sources, targets, others = r.pointers[:keys], r.pointers[keys : 2 * keys + 1], r.pointers[2 * keys + 1 :]
        passes = 0
        while BLOCK << passes < n:
            passes += 1
        now, then = (targets, others) if passes % 2 == 0 else (others, targets)
        with r.row() as row:
            start = r.b.mul(row, r.b.index(n))
            whole = n // BLOCK
            if whole:
                with r.loop(whole) as block:
                    self._count(r, sources, now, dtypes, start, r.b.mul(block, r.b.index(BLOCK)), BLOCK)
            if n % BLOCK:
                self._count(r, sources, now, dtypes, start, r.b.index(whole * BLOCK), n % BLOCK)
            width = BLOCK
            while width < n:
                pairs = n // (2 * width)
                if pairs:
                    with r.loop(pairs) as pair:
                        self._merge_equal(
                            r, now, then, dtypes, r.b.add(start, r.b.mul(pair, r.b.index(2 * width))), width
                        )
                left = n - 2 * width * pairs
                if left:
                    self._merge_rest(
                        r, now, then, dtypes, r.b.add(start, r.b.index(2 * width * pairs)), min(width, left), left
                    )
                now, then, width = then, now, 2 * width
        r.call(rows * n * (4.0 + 3.0 * passes))

    @staticmethod
    def _before(b, x, y, or_equal: bool):
        """Return True where the keys `x` sort before the keys `y` (or are equal to them)."""
        out = b.cmp("<=" if or_equal else "<", x[-1], y[-1])
        for u, v in zip(x[-2::-1], y[-2::-1], strict=True):
            out = b.or_(b.cmp("<", u, v), b.and_(b.cmp("==", u, v), out))
        return out

    def _keys(self, b, pointers, dtypes, place, movable=True):
        return [b.ordered(b.load(p, d, place, movable)) for p, d in zip(pointers, dtypes[:-1], strict=False)]

    def _count(self, r, sources, targets, dtypes, start, first, n):
        """Sort the elements first ... first + n - 1 of the row."""
        b = r.b
        count = r.cell(I64)
        with r.loop(n) as i:
            at = b.add(start, b.add(first, i))
            mine = self._keys(b, sources, dtypes, at)
            count.set(b._plain(b.index(0)))
            with r.loop(n) as j:
                other = self._keys(b, sources, dtypes, b.add(start, b.add(first, j)))
                # of equal ones the earlier goes first
                earlier = b.or_(
                    self._before(b, other, mine, False),
                    b.and_(b.cmp("<", b._plain(j), b._plain(i)), self._before(b, other, mine, True)),
                )
                count.set(b._binary("", "add", count.get(), b.cast(earlier, I64)))
            to = b.add(b.add(start, first), count.get())
            for s, t, d in zip(sources, targets, dtypes, strict=False):
                b.store(t, to, b.load(s, d, at))
            b.store(targets[-1], to, b._plain(b.add(first, i)))

    def _move(self, b, now, then, dtypes, place, to):
        for p, q, d in zip(now, then, dtypes, strict=True):
            b.store(q, to, b.load(p, d, place, movable=False))

    def _pick(self, b, condition, x, y):
        """A choice that LLVM must not make a branch, which would be mispredicted half of the time."""
        level = max(condition.level, x.level, y.level)
        return Value(
            b.ins(f"select i1 {condition.name}, i64 {b.name(x)}, i64 {b.name(y)}, !unpredictable !{{}}", level),
            I64,
            level,
        )

    def _merge_equal(self, r, now, then, dtypes, start, width):
        """Two runs of `width` elements from `start` on: the smaller half from the front, the larger from the back."""
        b = r.b
        left, right, high_left, high_right = (r.cell(I64) for _ in range(4))
        for cell, at in ((left, 0), (right, width), (high_left, width - 1), (high_right, 2 * width - 1)):
            cell.set(b._plain(b.add(start, b.index(at))))
        with r.loop(width) as k:
            i, j = left.get(), right.get()
            x, y = (self._keys(b, now, dtypes, b._as_affine(p), False) for p in (i, j))
            first = self._before(b, x, y, True)
            self._move(b, now, then, dtypes, self._pick(b, first, i, j), b.add(start, k))
            step = b.cast(first, I64)
            left.set(b._binary("", "add", i, step))
            right.set(b._binary("", "add", j, b._binary("", "sub", b._plain(b.index(1)), step)))
            i, j = high_left.get(), high_right.get()
            x, y = (self._keys(b, now, dtypes, b._as_affine(p), False) for p in (i, j))
            last = self._before(b, x, y, True)  # then the right one is the larger
            self._move(b, now, then, dtypes, self._pick(b, last, j, i), b.sub(b.add(start, b.index(2 * width - 1)), k))
            step = b.cast(last, I64)
            high_right.set(b._binary("", "sub", j, step))
            high_left.set(b._binary("", "sub", i, b._binary("", "sub", b._plain(b.index(1)), step)))

    def _merge_rest(self, r, now, then, dtypes, start, width, n):
        """The last two runs, `width` and n - `width` elements (possibly none)."""
        b = r.b
        left, right = r.cell(I64), r.cell(I64)
        zero, middle, end = (b._plain(b.index(v)) for v in (0, width, n))
        left.set(zero)
        right.set(middle)
        with r.loop(n) as k:
            i, j = left.get(), right.get()
            inside = b.select(b.cmp("<", i, middle), i, zero), b.select(b.cmp("<", j, end), j, zero)
            places = [b._as_affine(p) for p in inside]
            x, y = (self._keys(b, now, dtypes, b.add(start, p), False) for p in places)
            first = b.and_(b.cmp("<", i, middle), b.or_(b.cmp(">=", j, end), self._before(b, x, y, True)))
            self._move(b, now, then, dtypes, b.add(start, b._as_affine(self._pick(b, first, *inside))), b.add(start, k))
            step = b.cast(first, I64)
            left.set(b._binary("", "add", i, step))
            right.set(b._binary("", "add", j, b._binary("", "sub", b._plain(b.index(1)), step)))


NATIVE["sort"] = _Sort()
