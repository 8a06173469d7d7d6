"""Scaled dot-product attention in blocks of queries and keys, as LLVM IR: memory is linear in the lengths.

The forward pass keeps a running maximum and sum for each query (Milakov & Gimelshein 2018) and rescales what it has
summed so far (Dao et al. 2022, algorithm 1). The backward pass computes the blocks of weights again from the saved
logarithms of the sums (algorithm 4). Exponentials are powers of 2: queries are multiplied by scale / ln 2 first.

Keys and values are copied once per head, block by block, so that `gemm.kernel` reads them along its registers.
"""

from __future__ import annotations

import math

from ..gemm.tiles import Tile, kernel, pack, transpose_pack
from ..vector_code import VectorCode
from .backward import Backward
from .blocks import BACKWARD, COLUMNS, FORWARD, PITCH, ROWS, SLACK, Sizes, scratch_sizes, stack_bytes

__all__ = ["BACKWARD", "FORWARD", "Sizes", "attention", "scratch_sizes", "stack_bytes"]


class _Attention(Backward):
    """Makes the functions of both passes."""

    def pack_block(self, backward: bool) -> str:
        """One block of keys and values of a head."""
        code = self.code()
        self.enter(code, BACKWARD if backward else FORWARD)
        j = code.int("urem", "%chunk", "%blocks")
        which = code.int("udiv", "%chunk", "%blocks")
        b, head = code.int("udiv", which, "%key_heads"), code.int("urem", which, "%key_heads")
        j0 = code.int("mul", j, COLUMNS)
        there = code.minimum(code.int("sub", "%keys", j0), str(COLUMNS))
        self.pack_keys(
            code, "%k", there, b, head, j, self.depth, code.place("%keys_packed", ("%chunk", COLUMNS * self.depth))
        )
        k, v = (
            self.head_rows(code, x, "%keys", "%key_heads", b, j0, head, n)
            for x, n in (("%k", self.depth), ("%v", self.width))
        )
        if backward:
            self.pack_keys(
                code,
                "%v",
                there,
                b,
                head,
                j,
                self.width,
                code.place("%values_packed", ("%chunk", COLUMNS * self.width)),
            )
            self.pack_rows(
                code,
                k,
                there,
                self.depth,
                code.int("mul", "%key_heads", self.depth),
                code.place("%key_rows", ("%chunk", COLUMNS * self.padded_depth)),
            )
        else:
            self.pack_rows(
                code,
                v,
                there,
                self.width,
                code.int("mul", "%key_heads", self.width),
                code.place("%values_packed", ("%chunk", COLUMNS * self.padded_width)),
            )
        which = "back" if backward else "forth"
        return code.function(f"internal void @pack.{which}.{self.name}(ptr %table, i64 %chunk)")

    def forward(self) -> str:
        """One block of queries of a head against all blocks of keys."""
        code, lanes, width = self.code(), self.tile.lanes, self.padded_width
        queries, scores = code.buffer((ROWS + SLACK) * self.depth), code.buffer((ROWS + SLACK) * PITCH)
        out, sums, tops = code.buffer((ROWS + SLACK) * width), code.buffer(ROWS * lanes), code.buffer(ROWS)
        self.enter(code, FORWARD)
        # those that see the most keys first
        strip = code.int("sub", code.int("sub", "%strips", 1), code.int("urem", "%chunk", "%strips"))
        which = code.int("udiv", "%chunk", "%strips")
        b, head = code.int("udiv", which, "%heads"), code.int("urem", which, "%heads")
        key_head = code.int("add", code.int("mul", b, "%key_heads"), code.int("udiv", head, "%share"))
        i0 = code.int("mul", strip, ROWS)
        n = code.minimum(code.int("sub", "%queries", i0), str(ROWS))
        code.clear(code.place(queries, (n, self.depth)), SLACK * self.depth)
        lowest = code.scalar_number(-math.inf)
        code.clear(sums, ROWS * lanes)
        with code.loop("0", n, "1") as r:
            source = self.head_rows(code, "%q", "%queries", "%heads", b, code.int("add", i0, r), head, self.depth)
            code.scaled(code.place(queries, (r, self.depth)), source, self.depth, "%factor")
            code.put(lowest, tops, r)
        code.clear(out, (ROWS + SLACK) * width)
        last_row = code.int("add", i0, code.int("sub", n, 1))
        seen = self.limit(code, last_row, "0", "%keys")
        with code.loop("0", seen, str(COLUMNS)) as j0:
            j = code.int("udiv", j0, COLUMNS)
            there = code.minimum(code.int("sub", "%keys", j0), str(COLUMNS))
            columns = self.limit(code, last_row, j0, there)
            block = code.int("add", code.int("mul", key_head, "%blocks"), j)
            keys = code.place("%keys_packed", (block, COLUMNS * self.depth))
            self.scores(code, n, queries, self.depth, self.depth, there, columns, keys, scores)
            with code.loop("0", n, "1") as r:
                row = code.int("add", i0, r)
                line = code.place(scores, (r, PITCH))
                with code.when(code.set("icmp ne i64 %masked, 0")):
                    self.add_mask(code, line, b, head, row, j0, there)
                self.soften(
                    code,
                    line,
                    self.limit(code, row, j0, there),
                    columns,
                    code.at(self.scalar, tops, r),
                    code.place(sums, (r, lanes)),
                    code.place(out, (r, width)),
                )
            values = code.place("%values_packed", (block, COLUMNS * width))
            self.multiply(code, self.width_panels, n, columns, scores, (PITCH, 1), values, out, width, "true")
        with code.loop("0", n, "1") as r:
            total = code.total(code.load(sums, code.int("mul", r, lanes)))
            empty = code.set(f"fcmp oeq {self.scalar} {total}, 0.0")
            inverse = code.set(f"fdiv {self.scalar} 1.0, {total}")
            inverse = code.set(f"select i1 {empty}, {self.scalar} 0.0, {self.scalar} {inverse}")
            row = code.int("add", i0, r)
            target = self.head_rows(code, "%out", "%queries", "%heads", b, row, head, self.width)
            code.scaled(target, code.place(out, (r, width)), self.width, inverse)
            top, many = code.one(tops, r), total
            if self.name == "f32":
                top, many = (code.set(f"fpext float {x} to double") for x in (top, many))
            log = code.set(f"call double @llvm.log.f64(double {many})")
            log = code.set(f"fadd double {log}, {code.set(f'fmul double {top}, {math.log(2.0):.17e}')}")
            if self.name == "f32":
                log = code.set(f"fptrunc double {log} to float")
            log = code.set(f"select i1 {empty}, {self.scalar} {code.scalar_number(math.inf)}, {self.scalar} {log}")
            code.put(log, "%lse", code.int("add", code.int("mul", which, "%queries"), row))
        return code.function(f"internal void @forward.{self.name}(ptr %table, i64 %chunk)")

    def soften(self, code: VectorCode, line: str, limit: str, columns: str, top: str, sums: str, out: str) -> None:
        """Scores to weights: of the first `limit`, with the running maximum at `top`; zeros up to `columns`."""
        lanes, lowest = self.tile.lanes, code.number(-math.inf)
        whole = code.int("sub", limit, code.int("urem", limit, lanes))
        with code.vectors("0", whole, lowest) as i:
            i.carried = code.larger(code.load(line, i), i.carried)
        with code.vectors(whole, columns, i.carried) as i:
            x = code.select(code.below(i, limit), code.load(line, i), lowest)
            code.store(x, line, i)
            i.carried = code.larger(x, i.carried)
        old = code.one(top, "0")
        new = code.largest(i.carried)
        new = code.set(
            f"select i1 {code.set(f'fcmp ogt {self.scalar} {new}, {old}')}, {self.scalar} {new}, {self.scalar} {old}"
        )
        code.put(new, top, "0")
        none = code.set(f"fcmp oeq {self.scalar} {new}, {code.scalar_number(-math.inf)}")
        base = code.splat(code.set(f"select i1 {none}, {self.scalar} 0.0, {self.scalar} {new}"))
        shrink = code.exp2(code.binary("fsub", code.splat(old), base))
        first = code.binary("fmul", code.load(sums, "0"), shrink)
        with code.vectors("0", columns, first) as i:
            weights = code.exp2(code.binary("fsub", code.load(line, i), base))
            code.store(weights, line, i)
            i.carried = code.binary("fadd", i.carried, weights)
        code.store(i.carried, sums, "0")
        with code.loop("0", str(self.padded_width), str(lanes)) as i:
            code.store(code.binary("fmul", code.load(out, i), shrink), out, i)

    def text(self) -> str:
        heads = f"{self.name}.{self.depth}.{self.width}"
        tiles = {(self.tile.rows, v) for v in range(1, self.tile.vectors + 1)}
        tiles |= {(self.rows(v), v) for _, v in self.depth_panels + self.width_panels}
        table = ", ".join(f"ptr @tile.{self.name}.{self.tile.rows}.{v}" for v in range(1, self.tile.vectors + 1))
        parts = [
            f"@score.tiles.{self.name} = internal constant [{self.tile.vectors} x ptr] [{table}]",
            *[kernel(self.name, self.scalar, self.tile.lanes, *t, pitched=True) for t in sorted(tiles)],
            pack(self.name, self.scalar, self.tile),
            transpose_pack(self.name, self.scalar, self.tile),
            self.scaled(),
            self.pack_block(False),
            self.forward(),
            self.entry(
                f"tsk.attention.forward.{heads}",
                FORWARD,
                [("pack.forth", ("batch", "key_heads", "blocks")), ("forward", ("batch", "heads", "strips"))],
            ),
            self.pack_block(True),
            self.pack_strip(),
            self.backward(),
            self.add_parts(),
            self.entry(
                f"tsk.attention.backward.{heads}",
                BACKWARD,
                [
                    ("pack.back", ("batch", "key_heads", "blocks")),
                    ("strip", ("batch", "heads", "strips")),
                    ("backward", ("batch", "key_heads", "parts")),
                    ("parts", ("batch", "heads")),
                ],
            ),
        ]
        vector, suffix = f"<{self.tile.lanes} x {self.scalar}>", f"v{self.tile.lanes}{self.name}"
        self.declares |= {
            f"declare {vector} @llvm.fmuladd.{suffix}({vector}, {vector}, {vector})",
            "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)",
            "declare i64 @llvm.smin.i64(i64, i64)",
            "declare i64 @llvm.smax.i64(i64, i64)",
            "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
            "declare double @llvm.log.f64(double)",
            "declare void @tsk_parallel_for(ptr, ptr, i64)",
        }
        given = "\n".join(parts)
        return "\n".join([*sorted(d for d in self.declares if d not in given.splitlines()), given])


def attention(name: str, scalar: str, tile: Tile, depth: int, width: int) -> str:
    """IR of ``@tsk.attention.{forward,backward}.{name}.{depth}.{width}``, for heads of these sizes.

    Both take a table of pointers, in the order of `FORWARD` and `BACKWARD`: ``sizes`` are int64 in the order of
    `SIZES`, then the scale (float64). Arrays lie as `Sizes` says, out and ct as q with the width for the depth, lse as
    [batch, heads, queries]; ``mask_*`` are steps of the mask, in elements, whose rows have as many elements as there
    are keys. The buffers of `scratch_sizes` start at multiples of 64 bytes.
    """
    return _Attention(name, scalar, tile, depth, width).text()
