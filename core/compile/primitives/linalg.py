"""Linear systems, inverses, determinants, Cholesky factors: loops for small matrices, LAPACK for others.

Where a matrix is singular, or not positive definite, NumPy's function is run on the same arrays and raises its error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...graph.graph import Equation
from ..emit import NATIVE, Unit
from ..row_function import RowFunction
from ..scalars import BOOL, I64, llvm_type, real_of
from .lapack import Lapack, copy_matrix, host_where

__all__ = ["local"]

SMALL = 16  # rows up to which loops are faster than a call of LAPACK


def real_part_type(dtype: np.dtype) -> np.dtype:
    return real_of(dtype) if dtype.kind == "c" else dtype


def local(r: RowFunction, dtype: np.dtype, size: int) -> str:
    """An array on the stack."""
    parts = 2 * size if dtype.kind == "c" else size
    return r.b.alloca(f"[{parts} x {llvm_type(real_part_type(dtype))}], align 64")


class _OfMatrices:
    """A routine whose first operand is a stack of matrices."""

    def accepts(self, eqn: Equation) -> bool:
        return all(a.spec.size > 0 and a.spec.dtype.char in "fdFD" for a in (*eqn.inputs, *eqn.outputs))

    def small(self, eqn: Equation) -> bool:
        return eqn.inputs[0].spec.shape[-1] <= SMALL

    def scratch(self, unit: Unit, eqn: Equation) -> dict:
        return {} if self.small(eqn) else {(eqn, k): size for k, size in enumerate(self.buffers(eqn))}

    def emit(self, unit: Unit, eqn: Equation) -> None:
        spec = eqn.inputs[0].spec
        n = spec.shape[-1]
        count = spec.size // (spec.shape[-2] * n)
        extra = [] if self.small(eqn) else [(eqn, k) for k in range(len(self.buffers(eqn)))]
        r = RowFunction(unit, eqn.primitive.name, [*eqn.inputs, *eqn.outputs, *extra], count)
        work = eqn.primitive.flops([a.spec for a in eqn.inputs], [o.spec for o in eqn.outputs], **eqn.params)
        if self.small(eqn):
            self.loops(r, eqn, n)
            failed = r.call(0.7 * work + 20 * count * n)
        else:
            self.library(r, eqn, n)
            unit.module.flops += work
            failed = r.call(0.0)
        if failed is not None:
            host_where(unit, eqn, failed)

    def buffers(self, eqn: Equation) -> list[int]:
        """Bytes of the scratch memory of `library`, which works on one matrix after the other."""
        raise NotImplementedError

    def loops(self, r: RowFunction, eqn: Equation, n: int) -> None:
        raise NotImplementedError

    def library(self, r: RowFunction, eqn: Equation, n: int) -> None:
        raise NotImplementedError


def at(b: Any, start: Any, i: Any, j: Any, width: int) -> Any:
    """The place of element (i, j) of a matrix with rows of `width`."""
    return b.add(b.add(start, b.mul(i, b.index(width))), j)


class _Cholesky(_OfMatrices):
    def loops(self, r, eqn, n):
        b, (source, target), dtype = r.b, r.pointers, eqn.outputs[0].spec.dtype
        real = real_part_type(dtype)
        total = r.cell(dtype)
        with r.row() as row:
            start = b.mul(row, b.index(n * n))
            with r.loop(n) as j:
                total.set(b.load(source, dtype, at(b, start, j, j, n)))
                with r.loop(j, high=n - 1) as k:
                    x = b.load(target, dtype, at(b, start, j, k, n), movable=False)
                    total.set(b.sub(total.get(), b.mul(x, b.conj(x))))
                square = b.real(total.get())
                r.fail_if(b.logical_not(b.cmp(">", square, b.const(0.0, real))))
                pivot = b.sqrt(square)
                b.store(target, at(b, start, j, j, n), b.cast(pivot, dtype))
                scale = b.div(b.const(1.0, real), pivot)
                with r.loop(n, b.add(j, b.index(1)), n - 1) as i:
                    total.set(b.load(source, dtype, at(b, start, i, j, n)))
                    with r.loop(j, high=n - 1) as k:
                        x, y = (b.load(target, dtype, at(b, start, p, k, n), movable=False) for p in (i, j))
                        total.set(b.sub(total.get(), b.mul(x, b.conj(y))))
                    v = total.get()
                    v = b.complex(*[b.mul(p, scale) for p in v.parts]) if v.parts else b.mul(v, scale)
                    b.store(target, at(b, start, i, j, n), v)
                    b.store(target, at(b, start, j, i, n), b.const(0, dtype))

    def buffers(self, eqn):
        return []

    def library(self, r, eqn, n):
        b, (source, target), dtype = r.b, r.pointers, eqn.outputs[0].spec.dtype
        f = Lapack(r, dtype)
        upper, size, info = f.char("U"), f.integer(n), f.integer(0)
        with r.row() as row:
            start = b.mul(row, b.index(n * n))
            # the rows of the lower factor are the columns of the upper one
            copy_matrix(r, dtype, source, start, target, start, n, n)
            f.call("potrf", upper, size, f.place(target, start), size, info)
            r.fail_if(f.failed(info))
            with r.loop(n) as i, r.loop(n, b.add(i, b.index(1)), n - 1) as j:
                b.store(target, at(b, start, i, j, n), b.const(0, dtype))


class _TriangularSolve(_OfMatrices):
    def loops(self, r, eqn, n):
        b, (matrix, source, target), dtype = r.b, r.pointers, eqn.outputs[0].spec.dtype
        p, k = eqn.params, eqn.outputs[0].spec.shape[-1]
        forward = p["lower"] != p["transpose"]
        with r.row() as row:
            start, first = b.mul(row, b.index(n * n)), b.mul(row, b.index(n * k))
            copy_matrix(r, dtype, source, first, target, first, n, k)
            with r.loop(n) as step:
                i = step if forward else b.sub(b.index(n - 1), step)
                with r.loop(step, high=n - 1) as t:
                    j = t if forward else b.sub(b.index(n - 1), t)
                    x = b.load(matrix, dtype, at(b, start, *((j, i) if p["transpose"] else (i, j)), n))
                    with r.loop(k) as c:
                        here = at(b, first, i, c, k)
                        y = b.load(target, dtype, at(b, first, j, c, k), movable=False)
                        b.store(target, here, b.sub(b.load(target, dtype, here, movable=False), b.mul(x, y)))
                if not p["unit"]:
                    x = b.load(matrix, dtype, at(b, start, i, i, n))
                    r.fail_if(b.cmp("==", x, b.const(0, dtype)))
                    with r.loop(k) as c:
                        here = at(b, first, i, c, k)
                        b.store(target, here, b.div(b.load(target, dtype, here, movable=False), x))

    def buffers(self, eqn):
        return []

    def library(self, r, eqn, n):
        b, (matrix, source, target), dtype = r.b, r.pointers, eqn.outputs[0].spec.dtype
        p, k = eqn.params, eqn.outputs[0].spec.shape[-1]
        f = Lapack(r, dtype)
        # row-major X = op(A)^-1 B is column-major X' op(A)' = B'
        right, triangle, operation = (
            f.char("R"),
            f.char("U" if p["lower"] else "L"),
            f.char("T" if p["transpose"] else "N"),
        )
        unit, one, size, width = f.char("U" if p["unit"] else "N"), f.scalar(1.0), f.integer(n), f.integer(k)
        with r.row() as row:
            start, first = b.mul(row, b.index(n * n)), b.mul(row, b.index(n * k))
            copy_matrix(r, dtype, source, first, target, first, n, k)
            if not p["unit"]:
                with r.loop(n) as i:
                    r.fail_if(b.cmp("==", b.load(matrix, dtype, at(b, start, i, i, n)), b.const(0, dtype)))
            f.call(
                "trsm",
                right,
                triangle,
                operation,
                unit,
                width,
                size,
                one,
                f.place(matrix, start),
                size,
                f.place(target, first),
                width,
            )


class _Elimination(_OfMatrices):
    """Gaussian elimination with row pivoting."""

    def eliminate(self, r, dtype, a, n, rest, k, first):
        """Triangularise the n x n array `a`, doing the same to the rows of `rest` (k wide, from `first` on).

        Returns the cells of: whether the matrix is singular, whether the number of exchanges is odd.
        """
        b = r.b
        singular, odd = r.cell(BOOL), r.cell(BOOL)
        singular.set(b.const(False, BOOL))
        odd.set(b.const(False, BOOL))
        real = real_part_type(dtype)
        best, chosen = r.cell(real), r.cell(I64)
        read = lambda pointer, place: b.load(pointer, dtype, place, movable=False)
        zero = b.index(0)

        def size(x):
            return b.add(b.abs(x.parts[0]), b.abs(x.parts[1])) if x.parts else b.abs(x)

        with r.loop(n) as c:
            best.set(size(read(a, at(b, zero, c, c, n))))
            chosen.set(b._plain(c))
            below = b.add(c, b.index(1))
            with r.loop(n, below, n - 1) as i:
                s, old = size(read(a, at(b, zero, i, c, n))), best.get()
                better = b.cmp(">", s, old)
                chosen.set(b.select(better, b._plain(i), chosen.get()))
                best.set(b.select(better, s, old))
            p = chosen.get()
            odd.set(b.xor(odd.get(), b.cmp("!=", p, b._plain(c))))
            p = b._as_affine(p)
            for pointer, width, origin in ((a, n, zero), (rest, k, first)):
                if pointer is not None:
                    with r.loop(width) as j:
                        one, other = at(b, origin, c, j, width), at(b, origin, p, j, width)
                        x, y = read(pointer, one), read(pointer, other)
                        b.store(pointer, one, y)
                        b.store(pointer, other, x)
            pivot = read(a, at(b, zero, c, c, n))
            none = b.cmp("==", pivot, b.const(0, dtype))
            singular.set(b.or_(singular.get(), none))
            pivot = b.select(none, b.const(1, dtype), pivot)
            with r.loop(n, below, n - 1) as i:
                factor = b.div(read(a, at(b, zero, i, c, n)), pivot)
                with r.loop(n, below, n - 1) as j:
                    here = at(b, zero, i, j, n)
                    b.store(a, here, b.sub(read(a, here), b.mul(factor, read(a, at(b, zero, c, j, n)))))
                if rest is not None:
                    with r.loop(k) as j:
                        here = at(b, first, i, j, k)
                        b.store(rest, here, b.sub(read(rest, here), b.mul(factor, read(rest, at(b, first, c, j, k)))))
        return singular, odd

    def back(self, r, dtype, a, n, rest, k, first):
        """Solve with the upper triangle of `a`, in place."""
        b = r.b
        read = lambda pointer, place: b.load(pointer, dtype, place, movable=False)
        zero = b.index(0)
        with r.loop(n) as step:
            i = b.sub(b.index(n - 1), step)
            with r.loop(n, b.add(i, b.index(1)), n - 1) as j:
                x = read(a, at(b, zero, i, j, n))
                with r.loop(k) as c:
                    here = at(b, first, i, c, k)
                    b.store(rest, here, b.sub(read(rest, here), b.mul(x, read(rest, at(b, first, j, c, k)))))
            pivot = read(a, at(b, zero, i, i, n))
            with r.loop(k) as c:
                here = at(b, first, i, c, k)
                b.store(rest, here, b.div(read(rest, here), pivot))


class _Solve(_Elimination):
    """Also of the identity: inverses."""

    def loops(self, r, eqn, n):
        b, (matrix, *source, target), dtype = r.b, r.pointers, eqn.outputs[0].spec.dtype
        k = eqn.outputs[0].spec.shape[-1]
        work = local(r, dtype, n * n)
        with r.row() as row:
            start, first = b.mul(row, b.index(n * n)), b.mul(row, b.index(n * k))
            copy_matrix(r, dtype, matrix, start, work, b.index(0), n, n)
            if source:
                copy_matrix(r, dtype, source[0], first, target, first, n, k)
            else:
                identity(r, dtype, target, first, n)
            singular, _ = self.eliminate(r, dtype, work, n, target, k, first)
            r.fail_if(singular.get())
            self.back(r, dtype, work, n, target, k, first)

    def buffers(self, eqn):
        n, k = eqn.inputs[0].spec.shape[-1], eqn.outputs[0].spec.shape[-1]
        size = eqn.outputs[0].spec.dtype.itemsize
        return [n * n * size, n * k * size, 8 * n]

    def library(self, r, eqn, n):
        b, (matrix, *source, target, work, columns, pivots), dtype = r.b, r.pointers, eqn.outputs[0].spec.dtype
        k, zero = eqn.outputs[0].spec.shape[-1], r.b.index(0)
        f = Lapack(r, dtype)
        size, width, info = f.integer(n), f.integer(k), f.integer(0)
        with r.row() as row:
            start, first = b.mul(row, b.index(n * n)), b.mul(row, b.index(n * k))
            copy_matrix(r, dtype, matrix, start, work, zero, n, n, transpose=True)
            if source:
                copy_matrix(r, dtype, source[0], first, columns, zero, n, k, transpose=True)
            else:
                identity(r, dtype, columns, zero, n)
            f.call("gesv", size, width, work, size, pivots, columns, size, info)
            r.fail_if(f.failed(info))
            copy_matrix(r, dtype, columns, zero, target, first, k, n, transpose=True)


def identity(r: RowFunction, dtype: np.dtype, target: str, start: Any, n: int) -> None:
    b = r.b
    with r.loop(n) as i, r.loop(n) as j:
        same = b.cmp("==", b._plain(i), b._plain(j))
        b.store(target, at(b, start, i, j, n), b.select(same, b.const(1, dtype), b.const(0, dtype)))


class _Det(_Elimination):
    """Determinants; of `slogdet`, sign and logarithm."""

    def loops(self, r, eqn, n):
        b, (matrix, *targets), dtype = r.b, r.pointers, eqn.inputs[0].spec.dtype
        work = local(r, dtype, n * n)
        with r.row() as row:
            copy_matrix(r, dtype, matrix, b.mul(row, b.index(n * n)), work, b.index(0), n, n)
            singular, odd = self.eliminate(r, dtype, work, n, None, 0, None)
            self._store(r, dtype, work, n, singular.get(), odd.get(), targets, row)

    def _store(self, r, dtype, work, n, singular, odd, targets, row):
        """The product of the diagonal, or of its signs and the sum of its logarithms."""
        b, real = r.b, real_part_type(dtype)
        one = b.const(1, dtype)
        sign, size = r.cell(dtype), r.cell(real)
        sign.set(b.select(odd, b.neg(one), one))
        size.set(b.const(0.0, real))
        with r.loop(n) as i:
            d = b.load(work, dtype, at(b, b.index(0), i, i, n), movable=False)
            if len(targets) == 2:
                s = b.abs(d)
                size.set(b.add(size.get(), b.call("log", s)))
                d = (
                    b.complex(*[b.div(p, s) for p in d.parts])
                    if d.parts
                    else b.select(b.cmp("==", d, d), b.copysign(one, d), d)
                )
            sign.set(b.mul(sign.get(), d))
        b.store(targets[0], row, b.select(singular, b.const(0, dtype), sign.get()))
        if len(targets) == 2:
            b.store(targets[1], row, b.select(singular, b.const(-np.inf, real), size.get()))

    def buffers(self, eqn):
        n = eqn.inputs[0].spec.shape[-1]
        return [n * n * eqn.inputs[0].spec.dtype.itemsize, 8 * n]

    def library(self, r, eqn, n):
        b, (matrix, *targets, work, pivots), dtype = r.b, r.pointers, eqn.inputs[0].spec.dtype
        f = Lapack(r, dtype)
        size, info = f.integer(n), f.integer(0)
        odd = r.cell(BOOL)
        with r.row() as row:
            copy_matrix(r, dtype, matrix, b.mul(row, b.index(n * n)), work, b.index(0), n, n, transpose=True)
            f.call("getrf", size, size, work, size, pivots, info)
            odd.set(b.const(False, BOOL))
            with r.loop(n) as i:
                p = b.cast(b.load(pivots, f.whole, i, movable=False), I64)
                odd.set(b.xor(odd.get(), b.cmp("!=", p, b._plain(b.add(i, b.index(1))))))
            self._store(r, dtype, work, n, f.failed(info), odd.get(), targets, row)


NATIVE["cholesky"], NATIVE["triangular_solve"] = _Cholesky(), _TriangularSolve()
NATIVE["solve"] = NATIVE["inv"] = _Solve()
NATIVE["det"] = NATIVE["slogdet"] = _Det()
