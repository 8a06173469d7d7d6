"""The backward pass of attention: chunks of keys of a head against all queries that see them."""

from __future__ import annotations

import math

from ..vector_code import VectorCode
from .blocks import BACKWARD, COLUMNS, PITCH, ROWS, SLACK, Blocks

__all__ = ["Backward"]


class Backward(Blocks):
    """Makes the functions of the backward pass (Dao et al. 2022, algorithm 4)."""

    def pack_strip(self) -> str:
        """Queries of a head, cotangents, and what is subtracted from their products, padded to whole blocks."""
        code, depth, width = self.code(), self.padded_depth, self.padded_width
        self.enter(code, BACKWARD)
        strip, which = code.int("urem", "%chunk", "%strips"), code.int("udiv", "%chunk", "%strips")
        b, head = code.int("udiv", which, "%heads"), code.int("urem", which, "%heads")
        i0 = code.int("mul", strip, ROWS)
        n = code.minimum(code.int("sub", "%queries", i0), str(ROWS))
        q, ct = (code.place(x, ("%chunk", ROWS * size)) for x, size in (("%query_rows", depth), ("%ct_rows", width)))
        offsets = code.place("%offsets", ("%chunk", 2 * ROWS))
        code.clear(q, ROWS * depth)
        code.clear(ct, ROWS * width)
        with code.loop("0", n, "1") as r:
            row = code.int("add", i0, r)
            there = [
                self.head_rows(code, x, "%queries", "%heads", b, row, head, size)
                for x, size in (("%q", self.depth), ("%ct", self.width), ("%out", self.width))
            ]
            code.scaled(code.place(q, (r, depth)), there[0], self.depth, "%factor")
            code.scaled(code.place(ct, (r, width)), there[1], self.width, code.scalar_number(1.0))
            total = self.dot(code, there[1], there[2], self.width)
            code.put(total, offsets, r)
            lse = code.one("%lse", code.int("add", code.int("mul", which, "%queries"), row))
            log = code.set(f"fmul {self.scalar} {lse}, {code.scalar_number(1 / math.log(2.0))}")
            code.put(log, offsets, code.int("add", r, ROWS))
        return code.function(f"internal void @strip.{self.name}(ptr %table, i64 %chunk)")

    def dot(self, code: VectorCode, x: str, y: str, n: int) -> str:
        """The product of two rows."""
        whole = n - n % code.lanes
        with code.vectors("0", str(whole), code.number(0.0)) as i:
            i.carried = code.call("fmuladd", code.load(x, i), code.load(y, i), i.carried)
        total = code.total(i.carried)
        for k in range(whole, n):
            product = code.set(f"fmul {self.scalar} {code.one(x, str(k))}, {code.one(y, str(k))}")
            total = code.set(f"fadd {self.scalar} {total}, {product}")
        return total

    def backward(self) -> str:
        """Every `parts`-th block of keys of a head against the queries that see it."""
        code, depth, width = self.code(), self.padded_depth, self.padded_width
        weights, slopes = (code.buffer((ROWS + SLACK) * PITCH) for _ in range(2))
        dk, dv = code.buffer((COLUMNS + SLACK) * depth), code.buffer((COLUMNS + SLACK) * width)
        self.enter(code, BACKWARD)
        part, which = code.int("urem", "%chunk", "%parts"), code.int("udiv", "%chunk", "%parts")
        b, key_head = code.int("udiv", which, "%key_heads"), code.int("urem", which, "%key_heads")
        first_head = code.int("mul", key_head, "%share")
        last_head = code.int("add", first_head, "%share")
        strip_rows = code.int("mul", "%strips", ROWS)

        def parts_of(head):
            at = code.int("add", code.int("mul", b, "%heads"), head)
            at = code.int("add", code.int("mul", at, "%parts"), part)
            return code.place("%dq_parts", (code.int("mul", at, strip_rows), depth))

        with code.loop(first_head, last_head, "1") as head:
            code.clear(parts_of(head), code.int("mul", strip_rows, depth))
        with code.loop(part, "%blocks", "%parts") as j:
            j0 = code.int("mul", j, COLUMNS)
            there = code.minimum(code.int("sub", "%keys", j0), str(COLUMNS))
            block = code.int("add", code.int("mul", which, "%blocks"), j)
            keys, values, rows = (
                code.place(x, (block, COLUMNS * size))
                for x, size in (("%keys_packed", self.depth), ("%values_packed", self.width), ("%key_rows", depth))
            )
            code.clear(dk, COLUMNS * depth)
            code.clear(dv, COLUMNS * width)
            # the first query that sees the block's first key
            start = code.set(f"call i64 @llvm.smax.i64(i64 {code.int('sub', j0, '%diagonal')}, i64 0)")
            start = code.set(f"select i1 {code.set('icmp ne i64 %causal, 0')}, i64 {start}, i64 0")
            with (
                code.loop(first_head, last_head, "1") as head,
                code.loop(code.int("udiv", start, ROWS), "%strips", "1") as strip,
            ):
                i0 = code.int("mul", strip, ROWS)
                n = code.minimum(code.int("sub", "%queries", i0), str(ROWS))
                columns = self.limit(code, code.int("add", i0, code.int("sub", n, 1)), j0, there)
                at = code.int(
                    "add", code.int("mul", code.int("add", code.int("mul", b, "%heads"), head), "%strips"), strip
                )
                q, ct, offsets = (
                    code.place(x, (at, ROWS * size))
                    for x, size in (("%query_rows", depth), ("%ct_rows", width), ("%offsets", 2))
                )
                self.scores(code, n, q, depth, self.depth, there, columns, keys, weights)
                self.scores(code, n, ct, width, self.width, there, columns, values, slopes)
                with code.loop("0", n, "1") as r:
                    row = code.int("add", i0, r)
                    line, slope = code.place(weights, (r, PITCH)), code.place(slopes, (r, PITCH))
                    with code.when(code.set("icmp ne i64 %masked, 0")):
                        self.add_mask(code, line, b, head, row, j0, there)
                    self.weigh(
                        code,
                        line,
                        slope,
                        self.limit(code, row, j0, there),
                        columns,
                        code.splat(code.one(offsets, r)),
                        code.splat(code.one(offsets, code.int("add", r, ROWS))),
                    )
                self.multiply(code, self.width_panels, columns, n, weights, (1, PITCH), ct, dv, width, "true")
                self.multiply(code, self.depth_panels, columns, n, slopes, (1, PITCH), q, dk, depth, "true")
                dq = code.place(parts_of(head), (i0, depth))
                self.multiply(code, self.depth_panels, n, columns, slopes, (PITCH, 1), rows, dq, depth, "true")
            with code.loop("0", there, "1") as r:
                row = code.int("add", j0, r)
                for target, total, size, padded, factor in (
                    ("%dk", dk, self.depth, depth, math.log(2.0)),
                    ("%dv", dv, self.width, width, 1.0),
                ):
                    code.scaled(
                        self.head_rows(code, target, "%keys", "%key_heads", b, row, key_head, size),
                        code.place(total, (r, padded)),
                        size,
                        code.scalar_number(factor),
                    )
        return code.function(f"internal void @backward.{self.name}(ptr %table, i64 %chunk)")

    def weigh(self, code: VectorCode, line: str, slope: str, limit: str, columns: str, offset: str, log: str) -> None:
        """Scores to weights and their cotangents to those of the scores; zeros from `limit` to whole tiles."""
        lanes = self.tile.lanes
        whole = code.int("sub", limit, code.int("urem", limit, lanes))
        end = columns
        heights = {self.rows(v) for _, v in self.depth_panels + self.width_panels}
        for step in (*sorted(heights - {n for n in heights if lanes % n == 0}), lanes):
            end = code.int("mul", code.int("udiv", code.int("add", end, step - 1), step), step)
        for start, stop in (("0", whole), (whole, end)):
            with code.loop(start, stop, str(lanes)) as i:
                p = code.exp2(code.binary("fsub", code.load(line, i), log))
                ds = code.binary("fmul", p, code.binary("fsub", code.load(slope, i), offset))
                if start != "0":
                    inside = code.below(i, limit)
                    p, ds = (code.select(inside, x, "zeroinitializer") for x in (p, ds))
                code.store(p, line, i)
                code.store(ds, slope, i)

    def add_parts(self) -> str:
        """Gradients of a head's queries: the sums of the parts, in order."""
        code = self.code()
        self.enter(code, BACKWARD)
        b, head = code.int("udiv", "%chunk", "%heads"), code.int("urem", "%chunk", "%heads")
        rows = code.int("mul", "%strips", ROWS)
        with code.loop("0", "%parts", "1") as part:
            at = code.int("mul", code.int("add", code.int("mul", "%chunk", "%parts"), part), rows)
            add = code.set(f"icmp ne i64 {part}, 0")
            with code.loop("0", "%queries", "1") as row:
                source = code.place("%dq_parts", (code.int("add", at, row), self.padded_depth))
                target = self.head_rows(code, "%dq", "%queries", "%heads", b, row, head, self.depth)
                code.scaled(target, source, self.depth, "%scale", add)
        return code.function(f"internal void @parts.{self.name}(ptr %table, i64 %chunk)")
