"""Functions that native steps are made of: loops over rows, shared out among threads where there is much to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .builder import Builder
from .emit import Unit, as_array
from .scalars import Value, llvm_type, real_of

__all__ = ["RowFunction", "sides"]

CHUNK = 25e3  # ns of work per chunk
PARALLEL = 60e3  # ns of work from which on the rows are cut into chunks
MAX_CHUNKS = 64


class Cell:
    """A scalar that changes: a place on the stack, which LLVM turns into registers."""

    def __init__(self, b: Builder, dtype: Any):
        self.b, self.dtype = b, dtype
        self.real = real_of(dtype) if dtype.kind == "c" else dtype
        self.slots = [b.alloca(llvm_type(self.real)) for _ in range(2 if dtype.kind == "c" else 1)]

    def get(self) -> Value:
        b, level = self.b, len(self.b.scopes) - 1
        parts = tuple(Value(b.here(f"load {llvm_type(self.real)}, ptr {s}"), self.real, level) for s in self.slots)
        return parts[0] if len(parts) == 1 else Value(None, self.dtype, level, parts)

    def set(self, v: Value) -> None:
        for slot, part in zip(self.slots, v.parts or (v,), strict=True):
            self.b.line(f"store {llvm_type(self.real)} {self.b.name(part)}, ptr {slot}")


class RowFunction:
    """``i64 name(ptr q0, ptr q1, ..., i64 lo, i64 hi)``: the rows lo ... hi - 1 of `rows`; 0, or 1 after `fail_if`."""

    def __init__(self, unit: Unit, stem: str, buffers: Sequence[Any], rows: int):
        self.unit, self.rows = unit, rows
        self.b = Builder()
        self.name = f"{unit.name}.{stem}{len(unit.module.functions)}"
        self.buffers = [as_array(a) for a in buffers]  # values, constants, or keys of scratch memory
        self.pointers = [f"%q{k}" for k in range(len(buffers))]  # the parameters that point to them
        self.flag: str | None = None

    @contextmanager
    def row(self) -> Iterator[Value]:
        """The loop over rows; yields the row's number."""
        i = self.b.open("%lo", "%hi", 0, self.rows - 1)
        yield i
        self.b.close()

    @contextmanager
    def loop(self, n: int | Value, start: int | Value = 0, high: int | None = None) -> Iterator[Value]:
        """start ... n - 1, possibly none; bounds may be values, then `high` is the largest index."""
        b = self.b
        dynamic = isinstance(n, Value) or isinstance(start, Value)
        first, stop = (b.name(x) if isinstance(x, Value) else x for x in (start, n))
        i = b.open(first, stop, 0, high if high is not None else int(n) - 1)  # type: ignore[arg-type]
        b.scopes[-1].guarded = dynamic or int(first) >= int(stop)
        yield i
        b.close()

    def cell(self, dtype: Any) -> Cell:
        return Cell(self.b, dtype)

    def fail_if(self, bad: Value) -> None:
        """Note that the i1 `bad` held somewhere."""
        b = self.b
        if self.flag is None:
            self.flag = b.alloca("i64")
            b.scopes[0].items.insert(0, f"store i64 0, ptr {self.flag}")
        wide = b.here(f"zext i1 {b.name(bad)} to i64")
        old = b.here(f"load i64, ptr {self.flag}")
        b.line(f"store i64 {b.here(f'or i64 {old}, {wide}')}, ptr {self.flag}")

    def define(self) -> str:
        """Add the function to the program; its name."""
        b, module = self.b, self.unit.module
        module.declares |= b.declares
        module.symbols |= b.symbols
        tail = [f"  %failed = load i64, ptr {self.flag}", "  ret i64 %failed"] if self.flag else ["  ret i64 0"]
        parameters = ", ".join([*(f"ptr noalias {p}" for p in self.pointers), "i64 %lo", "i64 %hi"])
        module.functions += [f"define internal i64 @{self.name}({parameters}) #0 {{", "entry:", *b.render(), *tail, "}"]
        return self.name

    def call(self, work: float) -> str | None:
        """Define the function and call it, in parallel if it takes `work` ns; where failures are to be seen, their
        i64.
        """
        self.define()
        unit = self.unit
        unit.module.flops += work
        pointers = [unit.pointer(a) for a in self.buffers]
        chunks = min(MAX_CHUNKS, self.rows, int(work / CHUNK)) if work > PARALLEL else 1
        if chunks <= 1:
            failed = unit.ins(
                f"call i64 @{self.name}({', '.join([*(f'ptr {p}' for p in pointers), 'i64 0', f'i64 {self.rows}'])})"
            )
            return failed if self.flag else None
        return self._in_chunks(pointers, -(-self.rows // chunks))

    def _in_chunks(self, pointers, step):
        unit, flag = self.unit, self.unit.fresh("flag")
        unit.head.append(f"  {flag} = alloca i64")
        unit.line(f"store i64 0, ptr {flag}")
        lines = [
            f"define internal void @{self.name}.chunk(ptr %context, i64 %chunk) {{",
            f"  %lo = mul nsw i64 %chunk, {step}",
            f"  %end = add nsw i64 %lo, {step}",
            f"  %over = icmp sgt i64 %end, {self.rows}",
            f"  %hi = select i1 %over, i64 {self.rows}, i64 %end",
        ]
        for k in range(len(pointers) + 1):
            lines += [f"  %a{k} = getelementptr ptr, ptr %context, i64 {k}", f"  %p{k} = load ptr, ptr %a{k}"]
        arguments = ", ".join([*(f"ptr %p{k}" for k in range(len(pointers))), "i64 %lo", "i64 %hi"])
        lines += [
            f"  %failed = call i64 @{self.name}({arguments})",
            f"  %old = atomicrmw or ptr %p{len(pointers)}, i64 %failed monotonic",
            "  ret void",
            "}",
        ]
        unit.module.functions += lines
        unit.module.parallel = True
        unit.line(
            f"call void @tsk_parallel_for(ptr @{self.name}.chunk, ptr {unit.table([*pointers, flag])}, i64 "
            f"{-(-self.rows // step)})"
        )
        return unit.ins(f"load i64, ptr {flag}") if self.flag else None


def sides(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """Return the numbers of elements before, along and behind an axis."""
    outer = inner = 1
    for n in shape[:axis]:
        outer *= n
    for n in shape[axis + 1 :]:
        inner *= n
    return outer, shape[axis], inner
