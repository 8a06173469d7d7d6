"""LLVM assembly of loops over vectors of one type, with the formulas of `vecmath`."""

from __future__ import annotations

import contextlib
import math

from .gemm.tiles import Code, Step, Tile
from .vecmath.builder import Builder, Value
from .vecmath.exponential import expm1_polynomial

__all__ = ["VectorCode"]


class VectorCode(Code):
    """Assembly that also takes the formulas of `vecmath`, for elements of one type."""

    def __init__(self, name: str, scalar: str, tile: Tile):
        super().__init__()
        self.declares: set[str] = set()
        self.dtype, self.scalar, self.tile, self.lanes = name, scalar, tile, tile.lanes
        self.bytes = 4 if scalar == "float" else 8
        self.vector = f"<{tile.lanes} x {scalar}>"
        self.truths = f"<{tile.lanes} x i1>"
        self.suffix = f"v{tile.lanes}{name}"

    def place(self, base: str, *terms: tuple[object, object]) -> str:
        """``base + sum(a * b)``, in elements."""
        for a, b in terms:
            base = self.at(self.scalar, base, self.int("mul", a, b))
        return base

    def load(self, base: str, i: str) -> str:
        return self.set(f"load {self.vector}, ptr {self.at(self.scalar, base, i)}, align {self.bytes}")

    def store(self, value: str, base: str, i: str) -> None:
        self.emit(f"store {self.vector} {value}, ptr {self.at(self.scalar, base, i)}, align {self.bytes}")

    def one(self, base: str, i: str) -> str:
        return self.set(f"load {self.scalar}, ptr {self.at(self.scalar, base, i)}")

    def put(self, value: str, base: str, i: str) -> None:
        self.emit(f"store {self.scalar} {value}, ptr {self.at(self.scalar, base, i)}")

    def buffer(self, elements: int) -> str:
        return self.set(f"alloca [{elements} x {self.scalar}], align 64")

    def splat(self, value: str, kind: str = "") -> str:
        kind = kind or self.scalar
        vector = f"<{self.lanes} x {kind}>"
        first = self.set(f"insertelement {vector} poison, {kind} {value}, i64 0")
        return self.set(f"shufflevector {vector} {first}, {vector} poison, <{self.lanes} x i32> zeroinitializer")

    def below(self, first: str, limit: str) -> str:
        """Mask of the lanes l with first + l < limit."""
        left = self.splat(self.int("sub", limit, first), "i64")
        numbers = ", ".join(f"i64 {i}" for i in range(self.lanes))
        return self.set(f"icmp sgt <{self.lanes} x i64> {left}, <{numbers}>")

    def binary(self, operation: str, x: str, y: str) -> str:
        return self.set(f"{operation} {self.vector} {x}, {y}")

    def select(self, mask: str, x: str, y: str) -> str:
        return self.set(f"select {self.truths} {mask}, {self.vector} {x}, {self.vector} {y}")

    def call(self, intrinsic: str, *arguments: str) -> str:
        return Builder.call(self.formulas, intrinsic, *(Value(self.formulas, a, "f") for a in arguments)).name

    @property
    def formulas(self) -> Builder:
        return Builder(self.dtype, self.lanes, parent=self)  # type: ignore[arg-type]

    def number(self, x: float) -> str:
        return self.formulas.value(x).name

    def scalar_number(self, x: float) -> str:
        return Builder(self.dtype).value(x).name

    def exp2(self, x: str) -> str:
        """2^x for x at most about 0; 0 below the least normal number, NaN for NaN."""
        b = self.formulas
        power = b.clamp(Value(b, x, "f"), -float(b.bias))
        n, i = b.round_magic(power, 1.0)
        y = expm1_polynomial(b, (power - n) * math.log(2.0)) + 1.0
        return (y * b.float_of((i + b.bias) << b.mantissa)).name

    def larger(self, x: str, y: str) -> str:
        """The larger of each pair of lanes; where x is NaN, y."""
        return self.select(self.set(f"fcmp ogt {self.vector} {x}, {y}"), x, y)

    def largest(self, x: str) -> str:
        """The largest lane."""
        step = self.lanes // 2
        while step:
            order = ", ".join(f"i32 {i ^ step}" for i in range(self.lanes))
            x = self.larger(
                x, self.set(f"shufflevector {self.vector} {x}, {self.vector} poison, <{self.lanes} x i32> <{order}>")
            )
            step //= 2
        return self.set(f"extractelement {self.vector} {x}, i64 0")

    def total(self, x: str) -> str:
        """The sum of the lanes."""
        symbol = f"@llvm.vector.reduce.fadd.{self.suffix}"
        self.declares.add(f"declare {self.scalar} {symbol}({self.scalar}, {self.vector})")
        return self.set(f"call reassoc {self.scalar} {symbol}({self.scalar} -0.0, {self.vector} {x})")

    def scaled(self, target: str, source: str, n: object, factor: str, add: str = "false") -> None:
        self.emit(
            f"call void @scaled.{self.dtype}(ptr {target}, ptr {source}, i64 {n}, {self.scalar} {factor}, i1 {add})"
        )

    def clear(self, target: str, elements: object) -> None:
        size = self.int("mul", elements, self.bytes)
        self.emit(f"call void @llvm.memset.p0.i64(ptr {target}, i8 0, i64 {size}, i1 false)")

    def vectors(self, start: str, stop: str, first: str) -> contextlib.AbstractContextManager[Step]:
        """A loop over vectors that carries a vector."""
        return self.loop(start, stop, str(self.lanes), (self.vector, first))

    def function(self, head: str) -> str:
        self.emit("ret void")
        return "\n".join([f"define {head} {{", *self.lines, "}"])
