"""Matrix products by BLAS, on operands as they lie in memory."""

from __future__ import annotations

import math

from triskele.core.compile.emit import NATIVE, Unit, as_array
from triskele.core.graph.graph import Equation
from triskele.core.graph.primitive import PRIMITIVES, Primitive
from triskele.core.kernels import blas

_NAMES = {"f4": "f32", "f8": "f64", "c8": "c64", "c16": "c128"}


dot_add = Primitive("dot_general_add", lambda l, r, x, **params: PRIMITIVES["dot_general"].impl(l, r, **params) + x,
                    lambda l, r, x, **params: x, kind="contract")
"""``dot_general(l, r) + x``, made by `lower` only."""


def accepts(eqn: Equation) -> bool:
    """Whether BLAS reads the operands as they lie: axes (batch, free, contracted) or (batch, contracted, free)."""
    dtype = eqn.outputs[0].spec.dtype
    contract, (bl, br) = eqn.params["contract"], eqn.params["batch"]
    batch = tuple(range(len(bl)))
    if f"{dtype.kind}{dtype.itemsize}" not in _NAMES or bl != batch or br != batch or not eqn.outputs[0].spec.size or not eqn.inputs[0].spec.size:
        return False
    return all(_side(a.spec.shape, c, len(bl)) is not None for a, c in zip(eqn.inputs, contract, strict=False))


class Product:
    """Products as `lower` leaves them; with a third operand, added to it."""

    def __init__(self, updates: int | None):
        self.updates = updates

    def accepts(self, eqn: Equation) -> bool:
        return accepts(eqn)

    def scratch(self, unit: Unit, eqn: Equation) -> dict:
        return {}

    def emit(self, unit: Unit, eqn: Equation) -> None:
        l, r, *added = (as_array(a) for a in eqn.inputs)
        out = eqn.outputs[0]
        if added and unit.pointer(added[0]) != unit.pointer(out):
            unit.copy(unit.pointer(out), unit.pointer(added[0]), out.spec.nbytes)
        (cl, cr), (bl, _) = eqn.params["contract"], eqn.params["batch"]
        nb = len(bl)
        count = math.prod(out.spec.shape[:nb])
        k = math.prod(l.spec.shape[d] for d in cl)
        m, n = l.spec.size // count // k, r.spec.size // count // k
        last_l, last_r = _side(l.spec.shape, cl, nb), _side(r.spec.shape, cr, nb)
        dtype = out.spec.dtype
        name = _NAMES[f"{dtype.kind}{dtype.itemsize}"]
        unit.module.declares.update(blas.definitions().splitlines())
        pointers = [unit.pointer(l), unit.pointer(r), unit.pointer(out)]
        unit.module.flops += (8 if dtype.kind == "c" else 2) * m * n * k * count
        sizes = [s * dtype.itemsize for s in (m * k, k * n, m * n)]

        def call(a, b, c):
            unit.line(f"call void @tsk.gemm.{name}(i64 {m}, i64 {n}, i64 {k}, ptr {a}, i64 {k if last_l else m}, i1 {'false' if last_l else 'true'}, "
                      f"ptr {b}, i64 {k if last_r else n}, i1 {'true' if last_r else 'false'}, ptr {c}, i64 {n}, i1 {'true' if added else 'false'})")

        if count == 1:
            call(*pointers)
            return
        with unit.loop(count) as (i, _):
            call(*[unit.offset(p, unit.ins(f"mul nsw i64 {i}, {s}")) for p, s in zip(pointers, sizes, strict=True)])


def _side(shape, contracted, batch):
    """Whether the contracted axes are the last ones; None where they lie in between."""
    rank, k = len(shape), len(contracted)
    if contracted == tuple(range(rank - k, rank)):
        return True
    if contracted == tuple(range(batch, batch + k)):
        return False
    return None


NATIVE["dot_general"], NATIVE["dot_general_add"] = Product(None), Product(2)
