"""Matrix products by `kernels.blas`, on operands as they lie in memory."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...dtypes import is_bfloat16
from ...graph.graph import Equation, Spec
from ...graph.primitive import Primitive
from ...kernels import blas, native
from ...kernels.gemm import bfloat16
from ..emit import NATIVE, Unit, as_array

__all__ = ["Matrices", "NAMES", "has_product", "product", "product_add"]

PARALLEL = 1 << 20  # multiply-adds of a stack of products from which it is shared out
ALONE = 1 << 23  # ... of one product from which that one is shared out instead
CHUNKS = 32

NAMES = {"f4": "f32", "f8": "f64", "c8": "c64", "c16": "c128"}


class Matrices(NamedTuple):
    """A stack of matrices inside an array: where the first begins, the steps along the axes of the stack, the distance
    of
    two rows, and whether they are stored transposed; in elements.
    """

    offset: int
    steps: tuple[int, ...]
    ld: int
    transposed: bool

    def of(self, x: np.ndarray, batch: tuple[int, ...], rows: int, columns: int) -> np.ndarray:
        flat = np.ascontiguousarray(x).reshape(-1)[self.offset :]
        strides = (*self.steps, *((1, self.ld) if self.transposed else (self.ld, 1)))
        return np.lib.stride_tricks.as_strided(flat, (*batch, rows, columns), [s * x.itemsize for s in strides])


def _product(l, r, *added, batch, sizes, left, right, result, shape, dtype=None):
    m, n, k = sizes
    out = np.array(added[0]) if added else np.zeros(shape, dtype or l.dtype)
    view = result.of(out, batch, m, n)
    view += np.matmul(left.of(l, batch, m, k), right.of(r, batch, k, n)).astype(view.dtype)
    return out


def _spec(l, r, *added, shape, dtype=None, **params):
    return Spec(shape, dtype or l.dtype)


product = Primitive("product", _product, _spec, kind="contract", differentiable=False)
"""C = A B for stacks of matrices that lie anywhere in their arrays (`Matrices`), for the types in `has_product`.

C is not stored transposed, and fills its array of `shape`. `lower` makes these products. Those of bfloat16 may have
the `dtype` float32."""

product_add = Primitive("product_add", _product, _spec, kind="contract", differentiable=False)
"""The same, added to a third operand that lies in memory as the result does."""


def has_product(dtype: np.dtype) -> bool:
    """Return True if there are products of this type. Other products of float16 and bfloat16 are made in float32."""
    return native.has_feature("avx512bf16") if is_bfloat16(dtype) else f"{dtype.kind}{dtype.itemsize}" in NAMES


class Product:
    fails = False

    def __init__(self, updates: int | None):
        self.updates = updates

    def accepts(self, eqn: Equation) -> bool:
        return True

    def scratch(self, unit: Unit, eqn: Equation) -> dict:
        if not is_bfloat16(eqn.inputs[0].spec.dtype):
            return {}
        return {(eqn, "panels"): bfloat16.scratch_bytes(*eqn.params["sizes"])}

    def emit(self, unit: Unit, eqn: Equation) -> None:
        l, r, *added = (as_array(a) for a in eqn.inputs)
        out = eqn.outputs[0]
        if added and unit.pointer(added[0]) != unit.pointer(out):
            unit.copy(unit.pointer(out), unit.pointer(added[0]), out.spec.nbytes)
        dtype, p = l.spec.dtype, eqn.params
        batch, (m, n, k) = p["batch"], p["sizes"]
        matrices = [p["left"], p["right"], p["result"]]
        unit.module.declares.update(
            [blas.bfloat16_definition()] if is_bfloat16(dtype) else blas.definitions().splitlines()
        )
        unit.module.flops += (8 if dtype.kind == "c" else 2) * m * n * k * math.prod(batch)
        pointers = [
            unit.offset(unit.pointer(a), q.offset * a.spec.dtype.itemsize)
            for a, q in zip((l, r, out), matrices, strict=True)
        ]
        axes, steps = _merge(batch, [q.steps for q in matrices])

        def call(a, b, c):
            a, b = (
                (f"ptr {x}, i64 {q.ld}, i1 {'true' if q.transposed else 'false'}")
                for x, q in ((a, p["left"]), (b, p["right"]))
            )
            if is_bfloat16(dtype):
                wide = "false" if is_bfloat16(out.spec.dtype) else "true"
                return (
                    f"call void @{blas.BFLOAT16}(i64 {m}, i64 {n}, i64 {k}, {a}, {b}, ptr {c}, i64 "
                    f"{p['result'].ld}, i1 {wide}, ptr {unit.pointer((eqn, 'panels'))})"
                )
            return (
                f"call void @tsk.gemm.{NAMES[f'{dtype.kind}{dtype.itemsize}']}(i64 {m}, i64 {n}, i64 {k}, {a}, "
                f"{b}, ptr {c}, "
                f"i64 {p['result'].ld}, i1 {'true' if added else 'false'})"
            )

        count = math.prod(axes)
        if count == 1:
            unit.line(call(*pointers))
            return
        name = f"{unit.name}.products{unit.count}"
        chunks = min(CHUNKS, count) if m * n * k * count >= PARALLEL and m * n * k < ALONE else 1
        unit.module.functions += _stack(
            name, count, chunks, axes, [[s * dtype.itemsize for s in steps_] for steps_ in steps], call
        )
        table = unit.table(pointers)
        if chunks == 1:
            unit.line(f"call void @{name}(ptr {table}, i64 0)")
        else:
            unit.module.parallel = True
            unit.line(f"call void @tsk_parallel_for(ptr @{name}, ptr {table}, i64 {chunks})")


def _merge(batch: tuple[int, ...], steps: list[tuple[int, ...]]) -> tuple[list[int], list[list[int]]]:
    """The axes of the stack, as few as will do, and each operand's steps along them."""
    axes: list[int] = []
    merged: list[list[int]] = [[] for _ in steps]
    for d in reversed(range(len(batch))):
        if batch[d] == 1:
            continue
        if axes and all(s[d] == axes[0] * m[0] for s, m in zip(steps, merged, strict=True)):
            axes[0] *= batch[d]
            continue
        axes.insert(0, batch[d])
        for s, m in zip(steps, merged, strict=True):
            m.insert(0, s[d])
    return axes, merged


def _stack(name: str, count: int, chunks: int, axes: list[int], steps: list[list[int]], call: Any) -> list[str]:
    """``void name(ptr pointers, i64 chunk)``: the products number chunk * count / chunks and on."""
    lines = [f"define internal void @{name}(ptr %table, i64 %chunk) {{", "entry:"]
    for k in range(3):
        lines += [f"  %q{k} = getelementptr ptr, ptr %table, i64 {k}", f"  %p{k} = load ptr, ptr %q{k}"]
    lines += [
        f"  %w0 = mul nsw i64 %chunk, {count}",
        f"  %first = sdiv i64 %w0, {chunks}",
        f"  %w1 = add nsw i64 %w0, {count}",
        f"  %last = sdiv i64 %w1, {chunks}",
        "  br label %body",
        "body:",
        "  %i = phi i64 [ %first, %entry ], [ %next, %body ]",
    ]
    rest = "%i"
    places: list[str] = []
    for d in reversed(range(len(axes))):
        if d:
            lines += [f"  %at{d} = srem i64 {rest}, {axes[d]}", f"  %rest{d} = sdiv i64 {rest}, {axes[d]}"]
            places.insert(0, f"%at{d}")
            rest = f"%rest{d}"
        else:
            places.insert(0, rest)
    operands = []
    for k, by_axis in enumerate(steps):
        pointer = f"%p{k}"
        for d, step in enumerate(by_axis):
            lines += [
                f"  %o{k}.{d} = mul nsw i64 {places[d]}, {step}",
                f"  %a{k}.{d} = getelementptr i8, ptr {pointer}, i64 %o{k}.{d}",
            ]
            pointer = f"%a{k}.{d}"
        operands.append(pointer)
    return [
        *lines,
        f"  {call(*operands)}",
        "  %next = add nsw i64 %i, 1",
        "  %more = icmp slt i64 %next, %last",
        "  br i1 %more, label %body, label %done",
        "done:",
        "  ret void",
        "}",
    ]


NATIVE["product"], NATIVE["product_add"] = Product(None), Product(2)
