"""argmax and argmin: the first of the largest (smallest) elements, the first NaN before all.

Floating-point numbers are compared as integers in the same order, with NaN at the end that wins.
"""

from __future__ import annotations

import numpy as np

from ...graph.graph import Equation
from ..emit import NATIVE, Unit
from ..row_function import RowFunction, sides
from ..scalars import I64, supported

__all__: list[str] = []


class _Arg:
    def __init__(self, op: str):
        self.op = op  # by which a later element replaces the best so far

    def accepts(self, eqn: Equation) -> bool:
        spec = eqn.inputs[0].spec
        return spec.size > 0 and supported(spec.dtype) and spec.dtype.kind != "c"

    def scratch(self, unit: Unit, eqn: Equation) -> dict:
        if sides(eqn.inputs[0].spec.shape, eqn.params["axis"])[2] == 1:
            return {}
        return {(eqn, "best"): eqn.outputs[0].spec.size * eqn.inputs[0].spec.dtype.itemsize}

    def emit(self, unit: Unit, eqn: Equation) -> None:
        spec = eqn.inputs[0].spec
        outer, n, inner = sides(spec.shape, eqn.params["axis"])
        (self._rows if inner == 1 else self._columns)(unit, eqn, outer, n, inner)

    def _key(self, b, pointer, dtype, place):
        return b.ordered(b.load(pointer, dtype, place), self.op == ">")

    def _rows(self, unit, eqn, outer, n, inner):
        """Twice over the row: for the best element, and for where it is first."""
        dtype = eqn.inputs[0].spec.dtype
        r = RowFunction(unit, "arg", [eqn.inputs[0], eqn.outputs[0]], outer)
        b, (source, target) = r.b, r.pointers
        kind = self._key(b, source, dtype, b.index(0)).dtype
        place = np.dtype(np.int32) if kind.itemsize <= 4 and n < 2**31 else I64
        choose = (
            ("smax" if kind.kind == "i" else "umax") if self.op == ">" else ("smin" if kind.kind == "i" else "umin")
        )
        with r.row() as row:
            start = b.mul(row, b.index(n))
            best, first = r.cell(kind), r.cell(place)
            best.set(self._key(b, source, dtype, start))
            with r.loop(n) as i:
                best.set(b._intrinsic(choose, best.get(), self._key(b, source, dtype, b.add(start, i))))
            top = best.get()
            first.set(b._plain(b.const(n, place)))
            with r.loop(n) as i:
                found = b.cmp("==", self._key(b, source, dtype, b.add(start, i)), top)
                at = b.select(found, b.cast(b._plain(i), place), b._plain(b.const(n, place)))
                first.set(b._intrinsic("smin", first.get(), at))
            b.store(target, row, b.cast(first.get(), I64))
        r.call(0.15 * outer * n * dtype.itemsize)

    def _columns(self, unit, eqn, outer, n, inner):
        dtype = eqn.inputs[0].spec.dtype
        r = RowFunction(unit, "arg", [eqn.inputs[0], eqn.outputs[0], (eqn, "best")], outer)
        b, (source, target, best) = r.b, r.pointers
        with r.row() as row:
            corner, line = b.mul(row, b.index(n * inner)), b.mul(row, b.index(inner))
            with r.loop(inner) as j:
                b.store(best, b.add(line, j), self._key(b, source, dtype, b.add(corner, j)))
                b.store(target, b.add(line, j), b._plain(b.index(0)))
            with r.loop(n, 1) as i, r.loop(inner) as j:
                here = b.add(line, j)
                key = self._key(b, source, dtype, b.add(b.add(corner, b.mul(i, b.index(inner))), j))
                old = b.load(best, key.dtype, here, movable=False)
                better = b.cmp(self.op, key, old)
                b.store(best, here, b.select(better, key, old))
                b.store(target, here, b.select(better, b._plain(i), b.load(target, I64, here, movable=False)))
        r.call(0.15 * outer * n * inner * dtype.itemsize)


NATIVE["argmax"], NATIVE["argmin"] = _Arg(">"), _Arg("<")
