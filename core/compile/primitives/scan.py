"""Running totals and extremes, linear recurrences: one pass over the data.

Along the last axis a few rows go side by side, since each waits for its own last result; along others the loop runs
over the elements behind the axis, in blocks that stay in the first-level cache.
"""

from __future__ import annotations

import numpy as np

from ...dtypes import is_narrow
from ...graph.graph import Equation
from ..emit import NATIVE, Unit
from ..row_function import RowFunction, sides
from ..scalars import supported

__all__: list[str] = []

_COMBINE = {"cumsum": "add", "cumprod": "mul", "cummax": "max", "cummin": "min"}
BESIDE = 4  # rows whose chains of operations run side by side
BLOCK = 512  # elements behind the axis that are carried along together


class _Scan:
    def accepts(self, eqn: Equation) -> bool:
        spec = eqn.outputs[0].spec
        return (
            spec.size > 0
            and supported(spec.dtype)
            and not is_narrow(spec.dtype)
            and all(a.spec.shape == spec.shape and a.spec.dtype == spec.dtype for a in eqn.inputs)
        )

    def scratch(self, unit: Unit, eqn: Equation) -> dict:
        return {}

    def emit(self, unit: Unit, eqn: Equation) -> None:
        out = eqn.outputs[0]
        outer, n, inner = sides(out.spec.shape, eqn.params["axis"])
        if inner == 1:
            self._rows(unit, eqn, outer, n)
        else:
            self._columns(unit, eqn, outer, n, inner)

    @staticmethod
    def _step(b, name, before, elements):
        if name == "recurrence":
            return b.add(b.mul(elements[0], before), elements[1])
        return getattr(b, _COMBINE[name])(before, elements[0])

    def _rows(self, unit, eqn, outer, n):
        dtype, reverse, name = eqn.outputs[0].spec.dtype, eqn.params["reverse"], eqn.primitive.name
        beside = min(BESIDE, outer)
        r = RowFunction(unit, "scan", [*eqn.inputs, eqn.outputs[0]], -(-outer // beside))
        b, (*sources, target) = r.b, r.pointers

        with r.row() as group:
            # the last group begins early enough to be whole: some rows are then computed twice
            first = (
                b.mul(group, b.index(beside))
                if outer % beside == 0
                else b.min(b.mul(group, b.index(beside)), b.index(outer - beside))
            )
            totals = [r.cell(dtype) for _ in range(beside)]
            starts = [b.mul(b.add(first, b.index(k)), b.index(n)) for k in range(beside)]

            def at(start, i):
                return b.add(start, b.sub(b.index(n - 1), i) if reverse else i)

            for start, total in zip(starts, totals, strict=True):
                place = at(start, b.index(0))
                x = b.load(sources[-1], dtype, place)
                total.set(x)
                b.store(target, place, x)
            with r.loop(n, 1) as i:
                for start, total in zip(starts, totals, strict=True):
                    place = at(start, i)
                    y = self._step(b, name, total.get(), [b.load(s, dtype, place) for s in sources])
                    total.set(y)
                    b.store(target, place, y)
        r.call((0.4 + 1.5 / beside) * outer * n)

    def _columns(self, unit, eqn, outer, n, inner):
        dtype, reverse, name = eqn.outputs[0].spec.dtype, eqn.params["reverse"], eqn.primitive.name
        block = inner if inner <= 2 * BLOCK else BLOCK
        blocks = -(-inner // block)
        r = RowFunction(unit, "scan", [*eqn.inputs, eqn.outputs[0]], outer * blocks)
        b, (*sources, target) = r.b, r.pointers
        with r.row() as row:
            o, left = b.floordiv(row, b.index(blocks)), b.mul(b.mod(row, b.index(blocks)), b.index(block))
            width = block if inner % block == 0 else b.min(b.sub(b.index(inner), left), b.index(block))
            corner = b.add(b.mul(o, b.index(n * inner)), left)

            def at(i, j):
                return b.add(b.add(corner, b.mul(b.sub(b.index(n - 1), i) if reverse else i, b.index(inner))), j)

            with r.loop(width, high=block - 1) as j:
                place = at(b.index(0), j)
                b.store(target, place, b.load(sources[-1], dtype, place))
            with r.loop(n, 1) as i, r.loop(width, high=block - 1) as j:
                before = b.load(target, dtype, at(b.sub(i, b.index(1)), j), movable=False)
                place = at(i, j)
                b.store(target, place, self._step(b, name, before, [b.load(s, dtype, place) for s in sources]))
        unit.module.bytes += 2 * eqn.outputs[0].spec.nbytes
        r.call(0.1 * outer * n * inner * np.dtype(dtype).itemsize)


for _name in (*_COMBINE, "recurrence"):
    NATIVE[_name] = _Scan()
