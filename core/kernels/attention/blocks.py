"""Code that both passes of attention share: array layouts, packed blocks, scores and products."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..gemm.tiles import Tile
from ..vector_code import VectorCode

__all__ = [
    "BACKWARD",
    "COLUMNS",
    "FORWARD",
    "PARTS",
    "PITCH",
    "ROWS",
    "SIZES",
    "SLACK",
    "Blocks",
    "Sizes",
    "scratch_sizes",
    "stack_bytes",
]

ROWS, COLUMNS = 48, 192  # queries and keys of a block; scores of a block take 36 kB of float32
PARTS = 8  # sums of gradients of queries are cut into so many, at most
PITCH = COLUMNS + 16  # of the scores: columns do not fall on the same cache sets
SLACK = 8  # rows behind a block that its last tile may touch

FORWARD = ("sizes", "q", "k", "v", "mask", "out", "lse", "keys_packed", "values_packed")
BACKWARD = (
    "sizes", "q", "k", "v", "mask", "out", "lse", "ct", "dq", "dk", "dv", "keys_packed", "values_packed", "key_rows",
    "query_rows", "ct_rows", "offsets", "dq_parts",
)  # fmt: skip
SIZES = (
    "batch",
    "queries",
    "heads",
    "keys",
    "key_heads",
    "masked",
    "mask_batch",
    "mask_head",
    "mask_row",
    "causal",
    "parts",
)


class Sizes(NamedTuple):
    """Sizes of the arrays q [batch, queries, heads, depth], k and v [batch, keys, key heads, depth or width]."""

    batch: int
    queries: int
    heads: int
    keys: int
    key_heads: int
    depth: int
    width: int

    @property
    def parts(self) -> int:
        """Sums that the gradient of a head's queries is cut into, so that there are chunks enough to share out."""
        blocks = -(-self.keys // COLUMNS)
        return max(1, min(PARTS, blocks, 2 * PARTS // (self.batch * self.key_heads)))


def scratch_sizes(s: Sizes, lanes: int) -> dict[str, int]:
    """Elements of the buffers by name, those of the forward pass first."""
    blocks, rows = -(-s.keys // COLUMNS) * COLUMNS, -(-s.queries // ROWS) * ROWS
    depth, width = (-(-n // lanes) * lanes for n in (s.depth, s.width))
    keys, queries = s.batch * s.key_heads * blocks, s.batch * s.heads * rows
    return {
        "keys_packed": keys * s.depth,
        "values_packed": keys * max(width, s.width),
        "key_rows": keys * depth,
        "query_rows": queries * depth,
        "ct_rows": queries * width,
        "offsets": 2 * queries,
        "dq_parts": queries * depth * s.parts,
    }


def stack_bytes(s: Sizes, itemsize: int) -> int:
    """Bytes that a chunk of the backward pass, which needs the most, has on the stack of its thread."""
    return itemsize * (2 * (ROWS + SLACK) * PITCH + (COLUMNS + SLACK) * (s.depth + s.width + 32))


def _split(n_vectors: int, most: int) -> list[tuple[int, int]]:
    """(first, count) of panels of at most `most` vectors, dealt out evenly."""
    n = -(-n_vectors // most)
    ends = [q * n_vectors // n for q in range(n + 1)]
    return [(a, b - a) for a, b in zip(ends, ends[1:], strict=False)]


class Blocks:
    """Makes functions for one type and one pair of head sizes."""

    def __init__(self, name: str, scalar: str, tile: Tile, depth: int, width: int):
        self.name, self.scalar, self.tile, self.depth, self.width = name, scalar, tile, depth, width
        lanes = tile.lanes
        wide = 4 if tile.rows == 8 else tile.vectors  # with 32 registers: 6 x 4 accumulators
        self.depth_panels = _split(-(-depth // lanes), wide)
        self.width_panels = _split(-(-width // lanes), wide)
        self.padded_depth, self.padded_width = -(-depth // lanes) * lanes, -(-width // lanes) * lanes
        self.declares: set[str] = set()

    def rows(self, vectors: int) -> int:
        return 6 if vectors == 4 else self.tile.rows

    def code(self) -> VectorCode:
        code = VectorCode(self.name, self.scalar, self.tile)
        code.declares = self.declares
        return code

    # -- parts ---------------------------------------------------------------------------------------------------------

    def enter(self, code: VectorCode, fields: tuple[str, ...]) -> None:
        """Load the table's pointers and the sizes, under their names."""
        for k, field in enumerate(fields):
            code.emit(f"%{field} = load ptr, ptr {code.at('ptr', '%table', str(k))}")
        for k, field in enumerate((*SIZES, "scale")):
            kind = "double" if field == "scale" else "i64"
            code.emit(
                f"%{field}{'.f64' if kind == 'double' else ''} = load {kind}, ptr {code.at('i64', '%sizes', str(k))}"
            )
        if self.name == "f32":
            code.emit("%scale = fptrunc double %scale.f64 to float")
        else:
            code.emit("%scale = fadd double %scale.f64, 0.0")
        code.emit(f"%factor = fmul {self.scalar} %scale, {code.scalar_number(1 / math.log(2.0))}")
        code.emit("%diagonal = sub i64 %keys, %queries")
        code.emit("%share = udiv i64 %heads, %key_heads")
        for what, of, size in (("blocks", "keys", COLUMNS), ("strips", "queries", ROWS)):
            code.emit(f"%{what}.up = add i64 %{of}, {size - 1}")
            code.emit(f"%{what} = udiv i64 %{what}.up, {size}")

    def head_rows(
        self, code: VectorCode, base: str, length: str, heads: str, b: str, row: str, head: str, size: int
    ) -> str:
        """Place of ``base[b, row, head]``."""
        at = code.int("add", code.int("mul", b, length), row)
        return code.place(base, (code.int("add", code.int("mul", at, heads), head), size))

    def pack_keys(
        self, code: VectorCode, base: str, there: str, b: str, head: str, j: str, size: int, target: str
    ) -> None:
        """A block of rows of `base`, transposed into panels of keys."""
        lanes = self.tile.lanes
        ld = code.int("mul", "%key_heads", size)
        count, panels = self.panels(code, there)
        with code.loop("0", panels, "1") as q:
            first, last = self.panel(code, q, count, panels)
            at, wide = code.int("mul", first, lanes), code.int("mul", code.int("sub", last, first), lanes)
            columns = code.minimum(code.int("sub", there, at), wide)
            row = code.int("add", code.int("mul", j, COLUMNS), at)
            source = self.head_rows(code, base, "%keys", "%key_heads", b, row, head, size)
            code.emit(
                f"call void @transpose.{self.name}(i64 {size}, i64 {columns}, i64 {wide}, ptr {source}, "
                f"i64 {ld}, ptr {code.place(target, (at, size))})"
            )

    def panels(self, code: VectorCode, there: str) -> tuple[str, str]:
        """Vectors and panels of a block of `there` keys."""
        lanes, vectors = self.tile.lanes, self.tile.vectors
        count = code.int("udiv", code.int("add", there, lanes - 1), lanes)
        return count, code.int("udiv", code.int("add", count, vectors - 1), vectors)

    def panel(self, code: VectorCode, q: str, count: str, panels: str) -> tuple[str, str]:
        return (
            code.int("udiv", code.int("mul", q, count), panels),
            code.int("udiv", code.int("mul", code.int("add", q, "1"), count), panels),
        )

    def pack_rows(self, code: VectorCode, source: str, rows: str, size: int, ld: str, target: str) -> None:
        padded = -(-size // self.tile.lanes) * self.tile.lanes
        code.emit(
            f"call void @pack.{self.name}(i64 {rows}, i64 {size}, i64 {padded}, ptr {source}, i64 {ld}, ptr {target})"
        )

    def scores(
        self,
        code: VectorCode,
        rows: str,
        a: str,
        pitch: int,
        depth: int,
        there: str,
        columns: str,
        packed: str,
        target: str,
    ) -> None:
        """target[rows, columns] = A[rows, depth] times a packed block of keys."""
        lanes = self.tile.lanes
        count, panels = self.panels(code, there)
        with code.loop("0", panels, "1") as q:
            first, last = self.panel(code, q, count, panels)
            at = code.int("mul", first, lanes)
            with code.when(code.set(f"icmp slt i64 {at}, {columns}")):
                n = code.int("sub", last, first)
                tile = code.set(f"load ptr, ptr {code.at('ptr', f'@score.tiles.{self.name}', code.int('sub', n, 1))}")
                b, wide = code.place(packed, (at, depth)), code.int("mul", n, lanes)
                with code.loop("0", rows, str(self.tile.rows)) as r:
                    code.emit(
                        f"call void {tile}(i64 {depth}, ptr {code.place(a, (r, pitch))}, i64 {pitch}, i64 1, "
                        f"ptr {b}, i64 {wide}, ptr {code.at(self.scalar, code.place(target, (r, PITCH)), at)}, "
                        f"i64 {PITCH}, i1 false)"
                    )

    def multiply(
        self,
        code: VectorCode,
        panels: list[tuple[int, int]],
        rows: str,
        k: str,
        a: str,
        strides: tuple[int, int],
        b: str,
        c: str,
        pitch: int,
        add: str,
    ) -> None:
        """C[rows, pitch] (+)= A[rows, k] B[k, pitch]."""
        for first, vectors in panels:
            at, height = str(first * self.tile.lanes), self.rows(vectors)
            b_here, c_here = code.at(self.scalar, b, at), code.at(self.scalar, c, at)
            with code.loop("0", rows, str(height)) as r:
                code.emit(
                    f"call void @tile.{self.name}.{height}.{vectors}(i64 {k}, ptr "
                    f"{code.place(a, (r, strides[0]))}, i64 {strides[0]}, i64 {strides[1]}, ptr {b_here}, "
                    f"i64 {pitch}, ptr {code.place(c_here, (r, pitch))}, i64 {pitch}, i1 {add})"
                )

    def limit(self, code: VectorCode, row: str, j0: str, there: str) -> str:
        """Number of keys of the block from `j0` on that query `row` sees."""
        seen = code.int("add", code.int("sub", code.int("add", row, "%diagonal"), j0), 1)
        seen = code.set(f"call i64 @llvm.smax.i64(i64 {code.minimum(seen, there)}, i64 0)")
        causal = code.set("icmp ne i64 %causal, 0")
        return code.set(f"select i1 {causal}, i64 {seen}, i64 {there}")

    def add_mask(self, code: VectorCode, line: str, b: str, head: str, row: str, j0: str, there: str) -> None:
        """Add the mask, over ln 2, to a line of scores; where it is -inf, so is the score."""
        at = code.int("add", code.int("mul", b, "%mask_batch"), code.int("mul", head, "%mask_head"))
        at = code.int("add", code.int("add", at, code.int("mul", row, "%mask_row")), j0)
        source = code.at(self.scalar, "%mask", at)
        symbol = f"@llvm.masked.load.{code.suffix}.p0"
        code.declares.add(f"declare {code.vector} {symbol}(ptr, i32, {code.truths}, {code.vector})")
        with code.loop("0", there, str(code.lanes)) as i:
            mask = code.set(
                f"call {code.vector} {symbol}(ptr {code.at(self.scalar, source, i)}, i32 {code.bytes}, "
                f"{code.truths} {code.below(i, there)}, {code.vector} zeroinitializer)"
            )
            total = code.call("fmuladd", mask, code.number(1 / math.log(2.0)), code.load(line, i))
            hidden = code.set(f"fcmp oeq {code.vector} {mask}, {code.number(-math.inf)}")
            code.store(code.select(hidden, mask, total), line, i)

    def scaled(self) -> str:
        """``target[i] = factor * source[i]``, plus what is there with `add`."""
        code = self.code()
        whole = code.int("sub", "%n", code.int("urem", "%n", code.lanes))
        many = code.splat("%factor")
        for kind, start, stop, step, factor in (
            (code.vector, "0", whole, code.lanes, many),
            (self.scalar, whole, "%n", 1, "%factor"),
        ):
            with code.loop(start, stop, str(step)) as i:
                source, target = (code.at(self.scalar, x, i) for x in ("%source", "%target"))
                new = code.set(f"fmul {kind} {code.set(f'load {kind}, ptr {source}, align {code.bytes}')}, {factor}")
                old = code.set(f"load {kind}, ptr {target}, align {code.bytes}")
                total = code.set(f"select i1 %add, {kind} {code.set(f'fadd {kind} {old}, {new}')}, {kind} {new}")
                code.emit(f"store {kind} {total}, ptr {target}, align {code.bytes}")
        return code.function(
            f"internal void @scaled.{self.name}(ptr %target, ptr %source, i64 %n, {self.scalar} %factor, i1 %add)"
        )

    def entry(self, symbol: str, fields: tuple[str, ...], steps: list[tuple[str, tuple[str, ...]]]) -> str:
        """The steps one after the other, each shared out among the threads."""
        code = self.code()
        self.enter(code, fields)
        for function, counts in steps:
            chunks = "1"
            for count in counts:
                chunks = code.int("mul", chunks, f"%{count}")
            code.emit(f"call void @tsk_parallel_for(ptr @{function}.{self.name}, ptr %table, i64 {chunks})")
        return code.function(f"void @{symbol}(ptr %table)")
