"""Row-major matrix products as LLVM IR, for the sizes and layouts where calling BLAS wastes time.

C[m, n] (+)= A[m, k] B[k, n] goes tile by tile: `rows` x `vectors` accumulators stay in registers over a block of k. B
is copied panel by panel (a tile's columns, contiguous over k), so that a transposed B costs only another copy; A is
read in place, one broadcast at a time, with any strides, unless its elements are far apart. Each element is one chain
of fused multiply-adds in the order of k, so that results depend neither on the tiling nor on the number of threads.
"""

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Code", "Tile", "kernel", "pack", "packed_size", "product", "transpose_pack"]

_DEPTH = 192  # block of k: a panel of B then takes 36 kB, most of a first-level cache
_HEIGHT = 192  # rows of A that are copied at a time, with _DEPTH of k
_GAP = 2  # of k between the slabs of a copied A: not all of them on the same cache sets
_FAR = 1024  # bytes between columns of A from which they are copied
_CHUNK_WORK = 1 << 19  # least multiply-adds of a chunk of a parallel product
_LARGE_CHUNK_WORK = 1 << 25  # ... and about the multiply-adds of one of many
_HIGHER = 2  # times as many rows for columns in a block whose A is read in place
_PARALLEL_WORK = 1 << 21  # least multiply-adds of a parallel product


class Tile(NamedTuple):
    """Registers of the inner loop: `rows` x `vectors` accumulators of `lanes` elements."""

    lanes: int
    rows: int
    vectors: int


class Code:
    """LLVM assembly, line by line."""

    def __init__(self):
        self.lines: list[str] = []
        self._count = 0

    def emit(self, line: str) -> None:
        self.lines.append("  " + line)

    def name(self, hint: str = "v") -> str:
        self._count += 1
        return f"%{hint}.{self._count}"

    def set(self, expression: str, hint: str = "v") -> str:
        name = self.name(hint)
        self.emit(f"{name} = {expression}")
        return name

    def at(self, scalar: str, base: str, offset: str) -> str:
        return self.set(f"getelementptr {scalar}, ptr {base}, i64 {offset}", "p")

    def int(self, operation: str, a: object, b: object) -> str:
        return self.set(f"{operation} i64 {a}, {b}")

    def label(self, name: str) -> None:
        self.lines.append(f"{name[1:]}:")

    @contextlib.contextmanager
    def loop(self, start: str, stop: str, step: str, carry: tuple[str, str] | None = None) -> Iterator["Step"]:
        """The body of ``for i in range(start, stop, step)``.

        The body may set `step`, and `Step.carried`: its type and first value are `carry`, and it outlives the loop.
        """
        before, head, body, latch, done = (self.name(x) for x in ("before", "head", "body", "latch", "done"))
        i, following = self.name("i"), self.name("next")
        self.emit(f"br label {before}")
        self.label(before)
        self.emit(f"br label {head}")
        self.label(head)
        self.emit(f"{i} = phi i64 [{start}, {before}], [{following}, {latch}]")
        holder, at = Step(i, step), len(self.lines)
        if carry is not None:
            holder.carried = value = self.name("carried")
            self.emit("")
        more = self.set(f"icmp slt i64 {i}, {stop}")
        self.emit(f"br i1 {more}, label {body}, label {done}")
        self.label(body)
        yield holder
        self.emit(f"br label {latch}")
        self.label(latch)
        self.emit(f"{following} = add nsw i64 {i}, {holder.step}")
        self.emit(f"br label {head}")
        self.label(done)
        if carry is not None:
            self.lines[at] = f"  {value} = phi {carry[0]} [{carry[1]}, {before}], [{holder.carried}, {latch}]"
            holder.carried = value

    @contextlib.contextmanager
    def when(self, condition: str) -> Iterator[None]:
        yes, after = self.name("yes"), self.name("after")
        self.emit(f"br i1 {condition}, label {yes}, label {after}")
        self.label(yes)
        yield
        self.emit(f"br label {after}")
        self.label(after)

    def minimum(self, a: str, b: str) -> str:
        return self.set(f"call i64 @llvm.smin.i64(i64 {a}, i64 {b})", "min")


class Step(str):
    """A loop's counter, which also has the loop's step and the value that it carries."""

    step: str
    carried: str

    def __new__(cls, counter: str, step: str):
        self = super().__new__(cls, counter)
        self.step = step
        return self


def product(name: str, scalar: str, tile: Tile) -> str:
    """IR of ``@serial.{name}`` and ``@parallel.{name}``, products of `scalar`s.

    Both take ``(i64 m, i64 n, i64 k, ptr a, i64 row_stride_a, i64 column_stride_a, ptr b, i64 ldb, i1 transB, ptr c,
    i64 ldc, i1 accumulate)``, sizes at least 1. Where ldb is negative, b is what ``@tsk.pack.{name}(i64 n, i64 k, ptr
    b, i64 ldb, i1 transB, ptr out)`` has written, with -ldb columns (`packed_size`). The text needs ``llvm.smin.i64``,
    ``llvm.smax.i64``, ``llvm.sqrt.f64``, ``llvm.memcpy.p0.p0.i64`` and ``tsk_parallel_for`` declared.
    """
    heights = [tile.rows >> i for i in range(tile.rows.bit_length())]
    parts = [kernel(name, scalar, tile.lanes, r, v) for r in heights for v in range(1, tile.vectors + 1)]
    parts += [
        pack(name, scalar, tile),
        transpose_pack(name, scalar, tile),
        _packed(name, scalar, tile),
        _serial(name, scalar, tile, heights),
        _parallel(name, scalar, tile),
    ]
    vector = f"<{tile.lanes} x {scalar}>"
    suffix = f"v{tile.lanes}{'f32' if scalar == 'float' else 'f64'}"
    return (
        f"declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\ndeclare {vector} @llvm.fmuladd.{suffix}({vector}, "
        f"{vector}, {vector})\n" + "\n".join(parts)
    )


def kernel(name: str, scalar: str, lanes: int, rows: int, vectors: int, *, pitched: bool = False) -> str:
    """One tile: C[rows, vectors*lanes] (+)= A[rows, k] panel[k, vectors*lanes]; `pitched`: panel rows %ldb apart."""
    code, vector = Code(), f"<{lanes} x {scalar}>"
    fma = f"@llvm.fmuladd.v{lanes}{'f32' if scalar == 'float' else 'f64'}"
    align = 4 if scalar == "float" else 8
    tile = [(r, v) for r in range(rows) for v in range(vectors)]
    starts = ["%a"] + [code.at(scalar, "%a", code.int("mul", "%rs", r)) for r in range(1, rows)]
    code.emit("br label %head")
    code.label("%head")
    code.emit("%p = phi i64 [0, %entry], [%p1, %head]")
    code.emit("%pa = phi i64 [0, %entry], [%pa1, %head]")
    for r, v in tile:
        code.emit(f"%c{r}.{v} = phi {vector} [zeroinitializer, %entry], [%d{r}.{v}, %head]")
    row = code.at(scalar, "%b", code.int("mul", "%p", "%ldb" if pitched else vectors * lanes))
    # two steps further in a slab, two tiles further where columns are read in place: 8 to 12 % there, nothing elsewhere
    ahead = code.at(scalar, code.at(scalar, "%a", "%pa"), str(2 * rows))
    code.emit(f"call void @llvm.prefetch.p0(ptr {ahead}, i32 0, i32 3, i32 1)")
    panel = [
        code.set(f"load {vector}, ptr {code.at(scalar, row, str(v * lanes))}, align {align * lanes}")
        for v in range(vectors)
    ]
    for r in range(rows):
        one = code.set(f"load {scalar}, ptr {code.at(scalar, starts[r], '%pa')}, align {align}")
        first = code.set(f"insertelement {vector} poison, {scalar} {one}, i64 0")
        all_lanes = code.set(f"shufflevector {vector} {first}, {vector} poison, <{lanes} x i32> zeroinitializer")
        for v in range(vectors):
            code.emit(f"%d{r}.{v} = call {vector} {fma}({vector} {all_lanes}, {vector} {panel[v]}, {vector} %c{r}.{v})")
    code.emit("%p1 = add nuw nsw i64 %p, 1")
    code.emit("%pa1 = add i64 %pa, %cs")
    code.emit("%more = icmp slt i64 %p1, %k")
    code.emit("br i1 %more, label %head, label %store")
    code.label("%store")
    places = [code.at(scalar, code.at(scalar, "%c", code.int("mul", "%ldc", r)), str(v * lanes)) for r, v in tile]
    code.emit("br i1 %add, label %adding, label %writing")
    code.label("%adding")
    for (r, v), place in zip(tile, places, strict=True):
        old = code.set(f"load {vector}, ptr {place}, align {align}")
        code.emit(f"store {vector} {code.set(f'fadd {vector} {old}, %d{r}.{v}')}, ptr {place}, align {align}")
    code.emit("ret void")
    code.label("%writing")
    for (r, v), place in zip(tile, places, strict=True):
        code.emit(f"store {vector} %d{r}.{v}, ptr {place}, align {align}")
    code.emit("ret void")
    head = (
        f"define internal void @tile.{name}.{rows}.{vectors}(i64 %k, ptr noalias %a, i64 %rs, i64 %cs, ptr noalias "
        f"%b, {'i64 %ldb, ' if pitched else ''}ptr noalias %c, i64 %ldc, i1 %add) {{\nentry:"
    )
    return "\n".join([head, *code.lines, "}"])


def pack(name: str, scalar: str, tile: Tile) -> str:
    """panel[k, wide] = B[k, columns], zero beyond `columns`; `wide` is the next multiple of the lanes."""
    code, lanes, vector, truths = Code(), tile.lanes, f"<{tile.lanes} x {scalar}>", f"<{tile.lanes} x i1>"
    align = 4 if scalar == "float" else 8
    has_masks = lanes * align >= 32  # AVX on: elsewhere a masked load is a row of branches
    load = f"@llvm.masked.load.v{lanes}{'f32' if scalar == 'float' else 'f64'}.p0"
    rest = code.int("srem", "%columns", lanes)
    full = code.int("sub", "%columns", rest)
    partial = code.set(f"icmp ne i64 {rest}, 0")
    first = code.set(f"insertelement <{lanes} x i64> poison, i64 {rest}, i64 0")
    bounds = code.set(f"shufflevector <{lanes} x i64> {first}, <{lanes} x i64> poison, <{lanes} x i32> zeroinitializer")
    numbers = ", ".join(f"i64 {i}" for i in range(lanes))
    mask = code.set(f"icmp sgt <{lanes} x i64> {bounds}, <{numbers}>")
    with code.loop("0", "%k", "1") as p:
        source = code.at(scalar, "%b", code.int("mul", p, "%ldb"))
        target = code.at(scalar, "%panel", code.int("mul", p, "%wide"))
        with code.loop("0", full, str(lanes)) as j:
            value = code.set(f"load {vector}, ptr {code.at(scalar, source, j)}, align {align}")
            code.emit(f"store {vector} {value}, ptr {code.at(scalar, target, j)}, align {align * lanes}")
        if has_masks:
            with code.when(partial):
                spot = code.at(scalar, source, full)
                value = code.set(
                    f"call {vector} {load}(ptr {spot}, i32 {align}, {truths} {mask}, {vector} zeroinitializer)"
                )
                code.emit(f"store {vector} {value}, ptr {code.at(scalar, target, full)}, align {align * lanes}")
        else:
            with code.loop(full, "%columns", "1") as j:
                value = code.set(f"load {scalar}, ptr {code.at(scalar, source, j)}")
                code.emit(f"store {scalar} {value}, ptr {code.at(scalar, target, j)}")
            with code.loop("%columns", "%wide", "1") as j:
                code.emit(f"store {scalar} 0.0, ptr {code.at(scalar, target, j)}")
    code.emit("ret void")
    declare = f"declare {vector} {load}(ptr, i32, {truths}, {vector})"
    head = (
        f"define internal void @pack.{name}(i64 %k, i64 %columns, i64 %wide, ptr noalias %b, i64 %ldb, ptr noalias "
        f"%panel) {{"
    )
    return "\n".join([declare, head, *code.lines, "}"])


def transpose_pack(name: str, scalar: str, tile: Tile) -> str:
    """panel[k, wide] = B[columns, k] transposed, zero beyond `columns`; squares of lanes x lanes in registers."""
    code, lanes, vector = Code(), tile.lanes, f"<{tile.lanes} x {scalar}>"
    align = 4 if scalar == "float" else 8
    full_k = code.int("sub", "%k", code.int("srem", "%k", lanes))
    full_j = code.int("sub", "%columns", code.int("srem", "%columns", lanes))

    def one_by_one(j, p):
        source = code.at(scalar, "%b", code.int("add", code.int("mul", j, "%ldb"), p))
        value = code.set(f"load {scalar}, ptr {source}")
        place = code.at(scalar, "%panel", code.int("add", code.int("mul", p, "%wide"), j))
        code.emit(f"store {scalar} {value}, ptr {place}")

    with code.loop("0", full_j, str(lanes)) as j:
        with code.loop("0", full_k, str(lanes)) as p:
            start = code.at(scalar, code.at(scalar, "%b", code.int("mul", j, "%ldb")), p)
            starts = [code.at(scalar, start, code.int("mul", "%ldb", i)) for i in range(lanes)]
            rows = [code.set(f"load {vector}, ptr {source}, align {align}") for source in starts]
            order = [x for i in range(lanes) for x in (i, lanes + i)]
            low, high = (", ".join(f"i32 {x}" for x in half) for half in (order[:lanes], order[lanes:]))
            for _ in range(lanes.bit_length() - 1):
                pairs = [(rows[i], rows[i + lanes // 2]) for i in range(lanes // 2)]
                rows = [
                    code.set(f"shufflevector {vector} {a}, {vector} {b}, <{lanes} x i32> <{half}>")
                    for a, b in pairs
                    for half in (low, high)
                ]
            for i, row in enumerate(rows):
                at_k = code.int("mul", code.int("add", p, i), "%wide")
                place = code.at(scalar, "%panel", code.int("add", at_k, j))
                code.emit(f"store {vector} {row}, ptr {place}, align {align * lanes}")
        with code.loop(full_k, "%k", "1") as p, code.loop("0", str(lanes), "1") as i:
            one_by_one(code.int("add", j, i), p)
    with code.loop(full_j, "%columns", "1") as j, code.loop("0", "%k", "1") as p:
        one_by_one(j, p)
    with code.loop("0", "%k", "1") as p, code.loop("%columns", "%wide", "1") as j:
        place = code.at(scalar, "%panel", code.int("add", code.int("mul", p, "%wide"), j))
        code.emit(f"store {scalar} 0.0, ptr {place}")
    code.emit("ret void")
    head = (
        f"define internal void @transpose.{name}(i64 %k, i64 %columns, i64 %wide, ptr noalias %b, i64 %ldb, ptr "
        f"noalias %panel) {{"
    )
    return "\n".join([head, *code.lines, "}"])


_ARGUMENTS = (
    "i64 %m, i64 %n, i64 %k, ptr %a, i64 %rs, i64 %cs, ptr %b, i64 %ldb, i1 %tb, ptr %c, i64 %ldc, i1 %accumulate"
)


def _copy(code: Code, scalar: str, rows: int, source: str, depth: str, height: str, near: str) -> None:
    """A block of A that is stored by columns, copied as slabs of `rows` neighbors, each dense over k."""
    size, vector = 4 if scalar == "float" else 8, f"<{rows} x {scalar}>"
    whole = code.int("sub", height, code.int("urem", height, rows))
    slab = code.int("add", depth, _GAP)
    rest = code.int("mul", code.int("sub", height, whole), size)
    with code.loop("0", depth, "1") as p:
        line = code.at(scalar, source, code.int("mul", p, "%cs"))
        target = code.at(scalar, near, code.int("mul", p, rows))
        with code.loop("0", whole, str(rows)) as i:
            value = code.set(f"load {vector}, ptr {code.at(scalar, line, i)}, align {size}")
            code.emit(f"store {vector} {value}, ptr {code.at(scalar, target, code.int('mul', i, slab))}, align {size}")
        there = code.at(scalar, target, code.int("mul", whole, slab))
        code.emit(
            f"call void @llvm.memcpy.p0.p0.i64(ptr {there}, ptr {code.at(scalar, line, whole)}, i64 {rest}, i1 false)"
        )


def _even(code: Code) -> str:
    """Depth of a block: k dealt out evenly, by its own size alone."""
    n_blocks = code.int("udiv", code.int("add", "%k", _DEPTH - 1), _DEPTH)
    return code.int("udiv", code.int("add", "%k", code.int("sub", n_blocks, 1)), n_blocks)


def _panel(code: Code, q: str, n_vectors: str, n_panels: str) -> tuple[str, str]:
    """First and last vector of a panel: they are dealt out evenly, so that 4 become 2 + 2, not 3 + 1."""
    first = code.int("udiv", code.int("mul", q, n_vectors), n_panels)
    return first, code.int("udiv", code.int("mul", code.int("add", q, "1"), n_vectors), n_panels)


def _fill(code: Code, name: str, scalar: str, p: str, depth: str, j: str, columns: str, wide: str, panel: str) -> None:
    """Copy a panel of B."""
    b_row = code.set(f"select i1 %tb, i64 {j}, i64 {p}")
    b_column = code.set(f"select i1 %tb, i64 {p}, i64 {j}")
    source = code.at(scalar, code.at(scalar, "%b", code.int("mul", b_row, "%ldb")), b_column)
    packer = code.set(f"select i1 %tb, ptr @transpose.{name}, ptr @pack.{name}")
    code.emit(f"call void {packer}(i64 {depth}, i64 {columns}, i64 {wide}, ptr {source}, i64 %ldb, ptr {panel})")


def packed_size(n: int, k: int, tile: Tile) -> tuple[int, int]:
    """(columns, elements) of what ``@tsk.pack.{name}`` writes."""
    n_blocks = -(-k // _DEPTH)
    columns = -(-n // tile.lanes) * tile.lanes
    return columns, columns * n_blocks * -(-k // n_blocks)


def _packed(name: str, scalar: str, tile: Tile) -> str:
    """All panels of B, block after block of k, one after the other."""
    code, (lanes, _, vectors) = Code(), tile
    n_vectors = code.int("udiv", code.int("add", "%n", lanes - 1), lanes)
    n_panels = code.int("udiv", code.int("add", n_vectors, vectors - 1), vectors)
    even, n_packed = _even(code), code.int("mul", n_vectors, lanes)
    with code.loop("0", "%k", even) as p, code.loop("0", n_panels, "1") as q:
        depth = code.minimum(code.int("sub", "%k", p), even)
        first, last = _panel(code, q, n_vectors, n_panels)
        wide, j = code.int("mul", code.int("sub", last, first), lanes), code.int("mul", first, lanes)
        columns = code.minimum(code.int("sub", "%n", j), wide)
        target = code.at(scalar, "%out", code.int("add", code.int("mul", p, n_packed), code.int("mul", even, j)))
        _fill(code, name, scalar, p, depth, j, columns, wide, target)
    code.emit("ret void")
    return "\n".join(
        [f"define void @tsk.pack.{name}(i64 %n, i64 %k, ptr %b, i64 %ldb, i1 %tb, ptr %out) {{", *code.lines, "}"]
    )


def _serial(name: str, scalar: str, tile: Tile, heights: list[int]) -> str:
    code, (lanes, rows, vectors) = Code(), tile
    bytes_aligned, size = 64, 4 if scalar == "float" else 8
    tiles = [f"ptr @tile.{name}.{r}.{v}" for r in heights for v in range(1, vectors + 1)]
    table = f"@tiles.{name} = internal constant [{len(tiles)} x ptr] [{', '.join(tiles)}]"
    panel = code.set(f"alloca [{_DEPTH * lanes * vectors} x {scalar}], align {bytes_aligned}")
    edge = code.set(f"alloca [{rows * lanes * vectors} x {scalar}], align {bytes_aligned}")
    near = code.set(f"alloca [{_HEIGHT * (_DEPTH + _GAP)} x {scalar}], align {bytes_aligned}")
    n_vectors = code.int("udiv", code.int("add", "%n", lanes - 1), lanes)
    n_panels = code.int("udiv", code.int("add", n_vectors, vectors - 1), vectors)
    # columns of A far apart fall on the same few cache sets: such blocks are copied before several panels use them.
    # Rows are as quick in place: 135 to 158 GFLOP/s for k from 320 to 2048, 119 to 149 copied.
    by_columns = code.set("icmp eq i64 %rs, 1")
    far = code.set(f"icmp sge i64 {code.int('mul', '%cs', size)}, {_FAR}")
    several = code.set(f"icmp sgt i64 {n_panels}, 1")
    copied = code.set(f"and i1 {code.set(f'and i1 {by_columns}, {far}')}, {several}")
    block = code.set(f"select i1 {copied}, i64 {_HEIGHT}, i64 %m")
    even = _even(code)
    ready = code.set("icmp slt i64 %ldb, 0")
    n_packed = code.int("sub", 0, "%ldb")
    with code.loop("0", "%k", even) as p, code.loop("0", "%m", block) as top:
        depth = code.minimum(code.int("sub", "%k", p), even)
        height_left = code.minimum(code.int("sub", "%m", top), block)
        add = code.set(f"or i1 %accumulate, {code.set(f'icmp ne i64 {p}, 0')}")
        a_there = code.at(scalar, code.at(scalar, "%a", code.int("mul", top, "%rs")), code.int("mul", p, "%cs"))
        c_there = code.at(scalar, "%c", code.int("mul", top, "%ldc"))
        with code.when(copied):
            _copy(code, scalar, rows, a_there, depth, height_left, near)
        a_block = code.set(f"select i1 {copied}, ptr {near}, ptr {a_there}")
        cs = code.set(f"select i1 {copied}, i64 {rows}, i64 %cs")
        # from one tile to the next, `rows` rows further
        slab = code.int("mul", code.int("add", depth, _GAP), rows)
        tile_step = code.set(f"select i1 {copied}, i64 {slab}, i64 {code.int('mul', '%rs', rows)}")
        with code.loop("0", n_panels, "1") as q:
            first, last = _panel(code, q, n_vectors, n_panels)
            count = code.int("sub", last, first)
            wide = code.int("mul", count, lanes)
            j = code.int("mul", first, lanes)
            columns = code.minimum(code.int("sub", "%n", j), wide)
            with code.when(code.set(f"xor i1 {ready}, true")):
                _fill(code, name, scalar, p, depth, j, columns, wide, panel)
            made = code.at(scalar, "%b", code.int("add", code.int("mul", p, n_packed), code.int("mul", even, j)))
            panel_here = code.set(f"select i1 {ready}, ptr {made}, ptr {panel}")
            partial = code.set(f"icmp slt i64 {columns}, {wide}")
            whole = code.set(f"xor i1 {partial}, true")
            with code.loop("0", height_left, "") as i:
                left = code.int("sub", height_left, i)
                height, place = str(heights[-1]), str(len(heights) - 1)
                for index, h in reversed(list(enumerate(heights[:-1]))):
                    fits = code.set(f"icmp sge i64 {left}, {h}")
                    height = code.set(f"select i1 {fits}, i64 {h}, i64 {height}")
                    place = code.set(f"select i1 {fits}, i64 {index}, i64 {place}")
                i.step = height
                entry = code.int("add", code.int("mul", place, vectors), code.int("sub", count, 1))
                kernel = code.set(f"load ptr, ptr {code.at('ptr', f'@tiles.{name}', entry)}")
                start = code.int("mul", code.int("udiv", i, rows), tile_step)
                within = code.int("mul", code.int("urem", i, rows), "%rs")
                a_tile = code.at(scalar, a_block, code.int("add", start, within))
                c_tile = code.at(scalar, code.at(scalar, c_there, code.int("mul", i, "%ldc")), j)
                target = code.set(f"select i1 {partial}, ptr {edge}, ptr {c_tile}")
                step = code.set(f"select i1 {partial}, i64 {wide}, i64 %ldc")
                adds = code.set(f"and i1 {add}, {whole}")
                code.emit(
                    f"call void {kernel}(i64 {depth}, ptr {a_tile}, i64 %rs, i64 {cs}, ptr {panel_here}, ptr {target}, "
                    f"i64 {step}, i1 {adds})"
                )
                with code.when(partial), code.loop("0", height, "1") as r:
                    source = code.at(scalar, edge, code.int("mul", r, wide))
                    target = code.at(scalar, c_tile, code.int("mul", r, "%ldc"))
                    with code.loop("0", columns, "1") as s:
                        new = code.set(f"load {scalar}, ptr {code.at(scalar, source, s)}")
                        spot = code.at(scalar, target, s)
                        # frozen: what C holds is not looked at, but loaded all the same
                        old = code.set(f"load {scalar}, ptr {spot}")
                        total = code.set(
                            f"select i1 {add}, {scalar} {code.set(f'fadd {scalar} {old}, {new}')}, {scalar} {new}"
                        )
                        code.emit(f"store {scalar} {total}, ptr {spot}")
    code.emit("ret void")
    return "\n".join([table, f"define internal void @serial.{name}({_ARGUMENTS}) {{", *code.lines, "}"])


_FIELDS = ("m", "n", "k", "a", "rs", "cs", "b", "ldb", "tb", "c", "ldc", "accumulate")


def _parallel(name: str, scalar: str, tile: Tile) -> str:
    """Rows and columns cut into blocks, whose number depends on the sizes alone."""
    # at least four tiles high: each block copies its panels of B for itself
    units = {"m": 4 * tile.rows, "n": tile.lanes * tile.vectors}
    code = Code()
    work = code.int("mul", code.set("mul i64 %m, %n"), "%k")
    small = code.set(f"icmp slt i64 {work}, {_PARALLEL_WORK}")
    code.emit(f"br i1 {small}, label %small, label %large")
    code.label("%small")
    code.emit(f"call void @serial.{name}({_ARGUMENTS})")
    code.emit("ret void")
    code.label("%large")
    # enough chunks to share out, but no more: small ones copy B for few rows
    most = code.int("add", code.int("udiv", work, _LARGE_CHUNK_WORK), 8)
    wanted = code.minimum(code.minimum(code.int("udiv", work, _CHUNK_WORK), most), "256")
    # Blocks as square as may be: each reads its rows of A and its columns of B once. Where A is read in place and only
    # B is copied, twice as high: 128 x 1024 x 1024 then runs at 139 GFLOP/s instead of 121, 141 (126) with B transposed
    ratio = code.set(f"fdiv double {code.set('uitofp i64 %m to double')}, {code.set('uitofp i64 %n to double')}")
    square = code.set(f"fmul double {code.set(f'uitofp i64 {wanted} to double')}, {ratio}")
    higher = code.set(f"select i1 {code.set('icmp eq i64 %rs, 1')}, double 1.0, double {1 / _HIGHER**2}")
    root = code.set(f"call double @llvm.sqrt.f64(double {code.set(f'fmul double {square}, {higher}')})")
    ready = code.set("icmp slt i64 %ldb, 0")  # panels of B are there: blocks of rows can be low, but not cut panels
    height = code.set(f"select i1 {ready}, i64 {tile.rows}, i64 {units['m']}")
    most_m = code.int("udiv", code.int("add", "%m", code.int("sub", height, 1)), height)
    most_n = code.int("udiv", code.int("add", "%n", units["n"] - 1), units["n"])
    best_m = code.set(
        f"select i1 {ready}, i64 {wanted}, i64 {code.int('add', code.set(f'fptosi double {root} to i64'), 1)}"
    )
    cuts_m = code.minimum(best_m, most_m)
    rest = code.int("udiv", code.int("add", wanted, code.int("sub", cuts_m, 1)), cuts_m)
    cuts_n = code.set(f"select i1 {ready}, i64 1, i64 {code.minimum(rest, most_n)}")
    context = code.set(f"alloca [{len(_FIELDS) + 2} x i64], align 16")
    for index, field in enumerate(_FIELDS):
        value = code.set(f"zext i1 %{field} to i64") if field in ("tb", "accumulate") else f"%{field}"
        kind = "ptr" if field in "abc" else "i64"
        code.emit(f"store {kind} {value}, ptr {code.at('i64', context, str(index))}")
    code.emit(f"store i64 {cuts_m}, ptr {code.at('i64', context, str(len(_FIELDS)))}")
    code.emit(f"store i64 {cuts_n}, ptr {code.at('i64', context, str(len(_FIELDS) + 1))}")
    n_chunks = code.int("mul", cuts_m, cuts_n)
    code.emit(f"call void @tsk_parallel_for(ptr @chunk.{name}, ptr {context}, i64 {n_chunks})")
    code.emit("ret void")
    outer = "\n".join([f"define internal void @parallel.{name}({_ARGUMENTS}) {{", *code.lines, "}"])

    code = Code()
    for index, field in enumerate((*_FIELDS, "cuts_m", "cuts_n")):
        kind = "ptr" if field in "abc" else "i64"
        code.emit(f"%{field} = load {kind}, ptr {code.at('i64', '%context', str(index))}")
    bounds = {}
    for size, place in (("m", "udiv i64 %chunk, %cuts_n"), ("n", "urem i64 %chunk, %cuts_n")):
        index, unit = code.set(place), str(units[size])
        if size == "m":
            unit = code.set(f"select i1 {code.set('icmp slt i64 %ldb, 0')}, i64 {tile.rows}, i64 {unit}")
        n_units = code.int("udiv", code.int("add", f"%{size}", code.int("sub", unit, 1)), unit)
        ends = []
        for at in (index, code.int("add", index, "1")):
            whole = code.int("udiv", code.int("mul", at, n_units), f"%cuts_{size}")
            ends.append(code.minimum(code.int("mul", whole, unit), f"%{size}"))
        bounds[size] = ends[0], code.int("sub", ends[1], ends[0])
    (i, rows), (j, columns) = bounds["m"], bounds["n"]
    transposed, adds = code.set("icmp ne i64 %tb, 0"), code.set("icmp ne i64 %accumulate, 0")
    a = code.at(scalar, "%a", code.int("mul", i, "%rs"))
    b = code.at(scalar, "%b", code.set(f"mul i64 {j}, {code.set(f'select i1 {transposed}, i64 %ldb, i64 1')}"))
    c = code.at(scalar, code.at(scalar, "%c", code.int("mul", i, "%ldc")), j)
    code.emit(
        f"call void @serial.{name}(i64 {rows}, i64 {columns}, i64 %k, ptr {a}, i64 %rs, i64 %cs, ptr {b}, i64 %ldb, "
        f"i1 {transposed}, ptr {c}, i64 %ldc, i1 {adds})"
    )
    code.emit("ret void")
    inner = "\n".join([f"define internal void @chunk.{name}(ptr %context, i64 %chunk) {{", *code.lines, "}"])
    return inner + "\n" + outer
