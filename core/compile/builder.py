"""Scalar code as LLVM IR text: instructions, loops, memory.

Instructions go to the outermost loop in which all their operands exist, and equal ones are emitted once: hoisting and
common subexpressions come with construction. Index arithmetic is kept as affine forms with known ranges, so that
reshapes and paddings fold to constants where they can.

Values of float16 and bfloat16 are float32 in registers (`narrow`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..dtypes import FLOAT32, is_narrow
from .arithmetic import Arithmetic
from .functions.basic import Functions
from .narrow import Narrow
from .scalars import I64, Value, literal, llvm_type, real_of

__all__ = ["Builder", "CALLING_LOOP", "LONG_LOOP", "number_loops"]

LOOP, LONG_LOOP, CALLING_LOOP = (f", !llvm.loop !LOOP{k}" for k in range(3))
"""Marks of a loop's branch, which `number_loops` replaces by a metadata node of its own.

A long body is not interleaved. A body of many calls, each of which waits for the one before, is interleaved, so that
the processor overlaps calls of several rounds."""


LONG = 60  # lines of a body

_CHECK_INSIDE = """define internal void @tsk_check_inside(i64 %i, i64 %n) {
  %inside = icmp ult i64 %i, %n
  br i1 %inside, label %go, label %stop
stop:
  call void @llvm.trap()
  unreachable
go:
  ret void
}
declare void @llvm.trap()"""


def number_loops(text: str) -> str:
    """Give every loop its metadata: not unrolled beyond what vectorizing does, which halves the time LLVM takes."""
    pieces = text.split("!LOOP")
    out, nodes = [pieces[0]], []
    for k, piece in enumerate(pieces[1:], 3):
        out += [f"!{k}", piece[1:]]
        nodes.append(f"!{k} = distinct !{{!{k}, !0{f', !{piece[0]}' if piece[0] != '0' else ''}}}")
    if nodes:
        out += [
            '!0 = !{!"llvm.loop.unroll.disable"}\n!1 = !{!"llvm.loop.interleave.count", i32 1}\n',
            '!2 = !{!"llvm.loop.interleave.count", i32 4}\n',
            "\n".join(nodes),
            "\n",
        ]
    return "".join(out)


class Loop:
    """A counted loop; `items` are instructions and inner loops in order."""

    __slots__ = ("var", "start", "stop", "items", "guarded")

    def __init__(self, var, start, stop):
        self.var, self.start, self.stop = var, start, stop
        self.items: list[Any] = []
        self.guarded = False  # it may run zero times


class Builder(Arithmetic, Functions, Narrow):
    """Builds the body of one function."""

    def __init__(self):
        self.scopes: list[Loop] = [Loop("", "0", "0")]
        self.allocas: list[str] = []
        self.declares: set[str] = set()
        self.symbols: set[Any] = set()  # vector math functions in use
        self.cse: dict[str, str] = {}
        self.atoms: dict[str, tuple[int | None, int | None, int]] = {}  # ranges (inclusive) and levels of index atoms
        self.count = 0
        self.known = {}
        self.breaks: dict[str, set[int]] = {}  # loop variable -> places where a comparison changes its result
        self.sizes: dict[str, int] = {}  # bytes behind a pointer: its accesses are checked
        self.check: Callable[[Value], None] | None = None  # notes a condition that must hold
        self.far: Callable[[Value, float], None] | None = None  # notes an argument beyond which a function gives NaN
        # notes an argument at which a formula fails if it is infinite or NaN
        self.special: Callable[[Value], None] | None = None

    # -- text ----------------------------------------------------------------------------------------------------------

    def fresh(self, stem: str = "v") -> str:
        self.count += 1
        return f"%{stem}{self.count}"

    def line(self, text: str) -> None:
        """An instruction with an effect, at the current place."""
        self.scopes[-1].items.append(text)

    def ins(self, text: str, level: int) -> str:
        """A pure instruction, once, in the loop at depth `level`; its name."""
        name = self.cse.get(text)
        if name is None:
            name = self.cse[text] = self.fresh()
            self.scopes[level].items.append(f"{name} = {text}")
        return name

    def here(self, text: str) -> str:
        """An instruction that must stay where it is; its name."""
        name = self.fresh()
        self.line(f"{name} = {text}")
        return name

    def name(self, v: Value) -> str:
        """The SSA name of a value; affine forms are computed here."""
        if v.name is None:
            v.name = self._affine_text(v)
        return v.name

    def _affine_text(self, v):
        if not v.terms:
            return str(v.offset)
        # outer terms first: their sum is hoisted
        terms = sorted(v.terms.items(), key=lambda t: self.atoms[t[0]][2])
        text, level = None, 0
        flag = "nsw " if v.low is not None else ""
        for atom, c in terms:
            at = self.atoms[atom][2]
            term = atom if c == 1 else self.ins(f"mul {flag}i64 {atom}, {c}", at)
            level = max(level, at)
            text = term if text is None else self.ins(f"add {flag}i64 {text}, {term}", level)
        if v.offset:
            text = self.ins(f"add {flag}i64 {text}, {v.offset}", level)
        return text

    def alloca(self, type_: str) -> str:
        name = self.fresh("a")
        self.allocas.append(f"{name} = alloca {type_}")
        return name

    # -- loops ---------------------------------------------------------------------------------------------------------

    def open(self, start: int | str, stop: int | str, low: int, high: int) -> Value:
        """Open a loop whose variable lies in [low, high]; values made from it stay inside until `close`."""
        var = self.fresh("i")
        self.scopes.append(Loop(var, str(start), str(stop)))
        level = len(self.scopes) - 1
        self.atoms[var] = (low, high, level)
        return self._affine({var: 1}, 0)

    def close(self) -> None:
        loop = self.scopes.pop()
        self.scopes[-1].items.append(loop)

    def render(self) -> list[str]:
        """The instructions of the body as lines (without the final return)."""
        lines = [f"  {a}" for a in self.allocas]
        self._label = "entry"
        self._render(self.scopes[0].items, lines)
        return lines

    def _render(self, items, lines):
        for item in items:
            if type(item) is str:
                lines.append(item if item.endswith(":") else "  " + item)
                if item.endswith(":"):
                    self._label = item[:-1]
                continue
            n = item.var[1:]
            before = self._label
            if item.guarded:
                lines += [
                    f"  {item.var}.g = icmp slt i64 {item.start}, {item.stop}",
                    f"  br i1 {item.var}.g, label %{n}.body, label %{n}.exit",
                ]
            else:
                lines.append(f"  br label %{n}.body")
            lines += [f"{n}.body:", ""]
            slot = len(lines) - 1
            self._label = f"{n}.body"
            self._render(item.items, lines)
            mark = LONG_LOOP if len(lines) - slot > LONG else LOOP
            lines[slot] = f"  {item.var} = phi i64 [ {item.start}, %{before} ], [ {item.var}.n, %{self._label} ]"
            lines += [
                f"  {item.var}.n = add nuw nsw i64 {item.var}, 1",
                f"  {item.var}.c = icmp eq i64 {item.var}.n, {item.stop}",
                f"  br i1 {item.var}.c, label %{n}.exit, label %{n}.body{mark}",
                f"{n}.exit:",
            ]
            self._label = f"{n}.exit"

    # -- constants and index values
    # --------------------------------------------------------------------------------------

    def const(self, value: Any, dtype: Any) -> Value:
        dtype = np.dtype(dtype)
        if is_narrow(dtype):
            with np.errstate(over="ignore"):
                value, dtype = float(dtype.type(value)), FLOAT32
        if dtype.kind == "c":
            r = real_of(dtype)
            z = complex(value)
            return Value(None, dtype, 0, (self.const(z.real, r), self.const(z.imag, r)), z)
        if dtype == I64:
            return self.index(int(value))
        return Value(literal(value, dtype), dtype, 0, None, value)

    def const_like(self, value: Any, v: Value) -> Value:
        return self.const(value, v.dtype)

    def index(self, i: Any) -> Value:
        """An integer constant as an index value (an index value passes)."""
        return i if isinstance(i, Value) else self._affine({}, int(i))

    def atom(self, name: str, level: int, low: int | None = None, high: int | None = None) -> Value:
        """An index value of its own, of known range."""
        self.atoms.setdefault(name, (low, high, level))
        return self._affine({name: 1}, 0)

    def _affine(self, terms, offset):
        v = Value(None, I64)
        v.terms, v.offset = terms, offset
        low = high = offset
        for a, c in terms.items():
            lo, hi, level = self.atoms[a]
            v.level = max(v.level, level)
            if low is None or lo is None or hi is None:
                low = high = None
                continue
            low, high = (low + c * lo, high + c * hi) if c >= 0 else (low + c * hi, high + c * lo)
        v.low, v.high = low, high
        if not terms:
            v.const = offset
        return v

    def _as_affine(self, v: Value) -> Value:
        if v.terms is not None:
            return v
        return self.atom(v.name, v.level)

    # -- memory --------------------------------------------------------------------------------------------------------

    def address(self, pointer: str, dtype: np.dtype, offset: Value) -> tuple[str, int]:
        if dtype.kind == "c":
            offset = self.mul(offset, self.index(2))
            dtype = real_of(dtype)
        t = "i8" if dtype.kind == "b" else "i16" if is_narrow(dtype) else llvm_type(dtype)
        level = offset.level
        if pointer in self.sizes:
            self.declares.add(_CHECK_INSIDE)
            self.scopes[level].items.append(
                f"call void @tsk_check_inside(i64 {self.name(offset)}, i64 {self.sizes[pointer] // dtype.itemsize})"
            )
        if offset.const == 0:
            return pointer, 0
        return self.ins(f"getelementptr inbounds {t}, ptr {pointer}, i64 {self.name(offset)}", level), level

    def load(self, pointer: str, dtype: np.dtype, offset: Value, movable: bool = True) -> Value:
        """The element `offset` of a buffer; `movable` unless the function writes to it."""
        if dtype.kind == "c":
            at = self.mul(offset, self.index(2))
            r = real_of(dtype)
            re, im = self.load(pointer, r, at, movable), self.load(pointer, r, self.add(at, self.index(1)), movable)
            return Value(None, dtype, max(re.level, im.level), (re, im))
        p, level = self.address(pointer, dtype, offset)
        t = "i8" if dtype.kind == "b" else "i16" if is_narrow(dtype) else llvm_type(dtype)
        text = f"load {t}, ptr {p}, align {dtype.itemsize}"
        level = level if movable else len(self.scopes) - 1
        name = self.ins(text, level) if movable else self.here(text)
        if dtype.kind == "b":
            name = self.ins(f"icmp ne i8 {name}, 0", level)
        if is_narrow(dtype):
            return self.from_narrow_bits(Value(name, np.dtype(np.uint16), level), dtype)
        return Value(name, dtype, level)

    def store(self, pointer: str, offset: Value, v: Value, dtype: np.dtype | None = None) -> None:
        """Write an element; `dtype` is that of the buffer where it may be narrower than the value's (float16)."""
        if dtype is not None and is_narrow(dtype) and v.dtype == FLOAT32:
            p, _ = self.address(pointer, dtype, offset)
            self.line(f"store i16 {self.narrow_bits(v, dtype).name}, ptr {p}, align 2")
            return
        dtype = v.dtype
        if dtype.kind == "c":
            at = self.mul(offset, self.index(2))
            self.store(pointer, at, v.parts[0])
            self.store(pointer, self.add(at, self.index(1)), v.parts[1])
            return
        p, _ = self.address(pointer, dtype, offset)
        name, t = self.name(v), "i8" if dtype.kind == "b" else llvm_type(dtype)
        if dtype.kind == "b":
            name = self.ins(f"zext i1 {name} to i8", v.level)
        self.line(f"store {t} {name}, ptr {p}, align {dtype.itemsize}")
