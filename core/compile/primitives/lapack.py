"""Calls of LAPACK from compiled programs, and the decompositions that are nothing else: eigh, eigvalsh."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...graph.graph import Equation
from ...kernels import lapack
from ..builder import Builder
from ..emit import NATIVE, Unit
from ..row_function import RowFunction
from ..scalars import BOOL, Value, literal, llvm_type, real_of

__all__ = ["Lapack", "copy_matrix", "host_where"]

BLOCK = 64  # columns that LAPACK works on together, for workspaces


def host_where(unit: Unit, eqn: Equation, failed: str) -> None:
    """Let the host do it, and raise its error, where the i64 `failed` is not 0."""
    bad, go = unit.label("bad"), unit.label("go")
    condition = unit.ins(f"icmp ne i64 {failed}, 0")
    unit.lines += [f"  br i1 {condition}, label %{bad}, label %{go}", f"{bad}:"]
    unit.call_host(eqn)
    unit.lines += [f"  br label %{go}", f"{go}:"]


def copy_matrix(
    r: RowFunction,
    dtype: np.dtype,
    source: str,
    start: Any,
    target: str,
    first: Any,
    m: int,
    n: int,
    transpose: bool = False,
) -> None:
    """target[i, j] = source[i, j] of an m x n matrix, or target[j, i]."""
    b = r.b
    with r.loop(m) as i, r.loop(n) as j:
        x = b.load(source, dtype, b.add(start, b.add(b.mul(i, b.index(n)), j)), movable=False)
        to = b.add(b.mul(j, b.index(m)), i) if transpose else b.add(b.mul(i, b.index(n)), j)
        b.store(target, b.add(first, to), x)


class Lapack:
    """Calls of the routines for one dtype within a `RowFunction`; arguments are made before its loop over rows."""

    def __init__(self, r: RowFunction, dtype: np.dtype):
        self.r, self.dtype = r, dtype
        self.letter = dtype.char.lower() if dtype.kind == "f" else {8: "c", 16: "z"}[dtype.itemsize]
        self.letter = {"f": "s", "d": "d", "c": "c", "z": "z"}[self.letter]
        self.whole = np.dtype(f"i{lapack.integer_bytes()}")

    def _slot(self, type_: str, *values: str) -> str:
        b: Builder = self.r.b
        name = b.alloca(f"{type_}, i64 {len(values)}")
        for k, v in enumerate(values):
            at = name if k == 0 else b.here(f"getelementptr {type_}, ptr {name}, i64 {k}")
            b.line(f"store {type_} {v}, ptr {at}")
        return name

    def char(self, letter: str) -> str:
        return self._slot("i8", str(ord(letter)))

    def integer(self, n: int) -> str:
        return self._slot("i64", str(n))

    def scalar(self, x: float) -> str:
        real = real_of(self.dtype) if self.dtype.kind == "c" else self.dtype
        return self._slot(llvm_type(real), *[literal(v, real) for v in ((x, 0.0) if self.dtype.kind == "c" else (x,))])

    def place(self, pointer: str, offset: Value, dtype: np.dtype | None = None) -> str:
        """Pointer to the element `offset`."""
        return self.r.b.address(pointer, dtype or self.dtype, offset)[0]

    def call(self, routine: str, *arguments: str) -> None:
        b = self.r.b
        name = f"@{lapack.PREFIX}{self.letter}{routine}"
        b.declares.add(f"declare void {name}({', '.join(['ptr'] * len(arguments))})")
        b.line(f"call void {name}({', '.join(f'ptr {a}' for a in arguments)})")

    def failed(self, info: str) -> Value:
        b = self.r.b
        return Value(b.here(f"icmp ne i64 {b.here(f'load i64, ptr {info}')}, 0"), BOOL, len(b.scopes) - 1)


class _Eigh:
    """Eigenvalues, and with a second output eigenvectors, of Hermitian matrices: as `numpy.linalg`."""

    def accepts(self, eqn: Equation) -> bool:
        return all(a.spec.size > 0 and a.spec.dtype.char in "fdFD" for a in (*eqn.inputs, *eqn.outputs))

    def _sizes(self, eqn):
        """Elements of the workspaces of dtype, of reals and of integers."""
        n, vectors = eqn.inputs[0].spec.shape[-1], len(eqn.outputs) == 2
        if eqn.inputs[0].spec.dtype.kind == "c":
            return max(2 * n + n * n, (BLOCK + 1) * n) + 1, (1 + 5 * n + 2 * n * n) if vectors else n + 1, 3 + 5 * n
        return max(1 + 6 * n + 2 * n * n, (BLOCK + 2) * n), 0, 3 + 5 * n

    def scratch(self, unit: Unit, eqn: Equation) -> dict:
        spec = eqn.inputs[0].spec
        n, size = spec.shape[-1], spec.dtype.itemsize
        work, reals, integers = self._sizes(eqn)
        return {(eqn, 0): n * n * size, (eqn, 1): work * size, (eqn, 2): max(1, reals) * size, (eqn, 3): 8 * integers}

    def emit(self, unit: Unit, eqn: Equation) -> None:
        spec = eqn.inputs[0].spec
        n, dtype, vectors = spec.shape[-1], spec.dtype, len(eqn.outputs) == 2
        r = RowFunction(unit, "eigh", [*eqn.inputs, *eqn.outputs, *[(eqn, k) for k in range(4)]], spec.size // (n * n))
        b, (source, values, *rest) = r.b, r.pointers
        matrix, work, reals, integers = rest[-4:]
        f = Lapack(r, dtype)
        job, triangle = f.char("V" if vectors else "N"), f.char("L" if eqn.params["lower"] else "U")
        size, info = f.integer(n), f.integer(0)
        lengths = [f.integer(k) for k in self._sizes(eqn)]
        with r.row() as row:
            start = b.mul(row, b.index(n * n))
            copy_matrix(r, dtype, source, start, matrix, b.index(0), n, n, transpose=True)
            real = real_of(dtype) if dtype.kind == "c" else dtype
            common = [
                job,
                triangle,
                size,
                matrix,
                size,
                f.place(values, b.mul(row, b.index(n)), real),
                work,
                lengths[0],
            ]
            if dtype.kind == "c":
                f.call("heevd", *common, reals, lengths[1], integers, lengths[2], info)
            else:
                f.call("syevd", *common, integers, lengths[2], info)
            r.fail_if(f.failed(info))
            if vectors:
                copy_matrix(r, dtype, matrix, b.index(0), rest[0], start, n, n, transpose=True)
        unit.module.flops += 10.0 * spec.size * n
        host_where(unit, eqn, r.call(0.0) or "0")


NATIVE["eigh"] = NATIVE["eigvalsh"] = _Eigh()
