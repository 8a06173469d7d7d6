"""Products with a matrix whose elements lie anywhere: the inner part of convolutions, as LLVM IR.

C[i, j] (+)= sum over p of A[i, p] B[p, j], where A[i, p] is found at ``a + row[i] + column[p]`` and row i of C at
``c + place[i]``. The patches of a convolution are such a matrix: `row` leads to a pixel and `column` to an element of
the window, or the other way round in the gradient of the kernel; nothing is gathered. Each element is one chain of
fused multiply-adds in the order of p within a block of p, so results depend on the sizes alone.
"""

from .gemm.tiles import Code, Tile

__all__ = ["DEPTH", "DEPTH_OF_PIXELS", "product"]

DEPTH = 256  # block of p: B's columns of a tile then take 48 kB at most
# ... where p counts pixels, whose lines must stay in a first-level cache with B: up to 1.3 times as fast as 256
DEPTH_OF_PIXELS = 96


def product(name: str, scalar: str, tile: Tile) -> str:
    """IR of ``@tsk.conv.{product,pack,pad,sum}.{name}`` for elements of type `scalar`.

    ``product(i64 m, i64 n, i64 k, i64 depth, ptr a, ptr row, ptr column, ptr b, i64 ldb, ptr c, ptr place, i1
    accumulate)``: sizes at least 1; `depth` the largest block of p; tables of i64 offsets in elements, `row` and
    `place` readable up to the next multiple of ``tile.rows``. B is `pack`'s result where ldb is 0, else a matrix with
    rows `ldb` apart, n a multiple of ``tile.lanes``.

    ``pack(i64 n, i64 k, ptr b, ptr start, i64 stride, ptr panels)``: panels of B[p, j] = b[start[p] + j stride], one
    after the other, each dense over p; together k times n, rounded up to lanes.

    ``pad(ptr from, ptr to, i64 first, i64 lines, i64 n, i64 line, i64 left, i64 begin, i64 length, i64 right)``: lines
    first ... first + lines - 1 of `from` (n lines of `line` elements, zeros before and after), each as `left` zeros,
    elements begin ... begin + length - 1, `right` zeros.

    ``sum(ptr out, ptr parts, i64 size, i64 count)``: the sum of `count` arrays of `size` elements, in order.
    """
    vector, suffix = f"<{tile.lanes} x {scalar}>", f"v{tile.lanes}{'f32' if scalar == 'float' else 'f64'}"
    parts = [
        f"declare {vector} @llvm.fmuladd.{suffix}({vector}, {vector}, {vector})",
        "declare i64 @llvm.smin.i64(i64, i64)",
        "declare i64 @llvm.smax.i64(i64, i64)",
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
        "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
        *[_kernel(name, scalar, tile, v) for v in range(1, tile.vectors + 1)],
        _product(name, scalar, tile),
        _pack(name, scalar, tile),
        _pad(name, scalar),
        _sum(name, scalar, tile),
    ]
    return "\n".join(parts)


def _kernel(name: str, scalar: str, tile: Tile, vectors: int) -> str:
    """One tile: C[rows, vectors*lanes] (+)= A[rows, k] B[k, vectors*lanes]."""
    code, lanes, rows, vector = Code(), tile.lanes, tile.rows, f"<{tile.lanes} x {scalar}>"
    fma = f"@llvm.fmuladd.v{lanes}{'f32' if scalar == 'float' else 'f64'}"
    align = 4 if scalar == "float" else 8
    cells = [(r, v) for r in range(rows) for v in range(vectors)]

    def entry(table, r):
        return code.set(f"load i64, ptr {code.at('i64', table, str(r))}")

    starts = [code.at(scalar, "%a", entry("%row", r)) for r in range(rows)]
    code.emit("br label %head")
    code.label("%head")
    code.emit("%p = phi i64 [0, %entry], [%p1, %head]")
    code.emit("%b.row = phi ptr [%b, %entry], [%b.next, %head]")
    for r, v in cells:
        code.emit(f"%c{r}.{v} = phi {vector} [zeroinitializer, %entry], [%d{r}.{v}, %head]")
    column = entry("%column", "%p")
    b = [
        code.set(f"load {vector}, ptr {code.at(scalar, '%b.row', str(v * lanes))}, align {align}")
        for v in range(vectors)
    ]
    for r in range(rows):
        one = code.set(f"load {scalar}, ptr {code.at(scalar, starts[r], column)}, align {align}")
        first = code.set(f"insertelement {vector} poison, {scalar} {one}, i64 0")
        all_lanes = code.set(f"shufflevector {vector} {first}, {vector} poison, <{lanes} x i32> zeroinitializer")
        for v in range(vectors):
            code.emit(f"%d{r}.{v} = call {vector} {fma}({vector} {all_lanes}, {vector} {b[v]}, {vector} %c{r}.{v})")
    code.emit(f"%b.next = getelementptr {scalar}, ptr %b.row, i64 %ldb")
    code.emit("%p1 = add nuw nsw i64 %p, 1")
    code.emit("%more = icmp slt i64 %p1, %k")
    code.emit("br i1 %more, label %head, label %store")
    code.label("%store")
    lines = [code.at(scalar, "%c", entry("%place", r)) for r in range(rows)]
    places = [code.at(scalar, lines[r], str(v * lanes)) for r, v in cells]
    code.emit("br i1 %add, label %adding, label %writing")
    code.label("%adding")
    for (r, v), place in zip(cells, places, strict=True):
        old = code.set(f"load {vector}, ptr {place}, align {align}")
        code.emit(f"store {vector} {code.set(f'fadd {vector} {old}, %d{r}.{v}')}, ptr {place}, align {align}")
    code.emit("ret void")
    code.label("%writing")
    for (r, v), place in zip(cells, places, strict=True):
        code.emit(f"store {vector} %d{r}.{v}, ptr {place}, align {align}")
    code.emit("ret void")
    head = (
        f"define internal void @cell.{name}.{vectors}(i64 %k, ptr %a, ptr %row, ptr %column, ptr %b, i64 %ldb, ptr "
        f"noalias %c, "
        "ptr %place, i1 %add) {\nentry:"
    )
    return "\n".join([head, *code.lines, "}"])


def _panels(code: Code, tile: Tile) -> tuple[str, str]:
    n_vectors = code.int("udiv", code.int("add", "%n", tile.lanes - 1), tile.lanes)
    return n_vectors, code.int("udiv", code.int("add", n_vectors, tile.vectors - 1), tile.vectors)


def _panel(code: Code, tile: Tile, q: str, n_vectors: str, n_panels: str) -> tuple[str, str, str, str]:
    """Vectors of panel q, its first column, its width, and how many of its columns there are."""
    first = code.int("udiv", code.int("mul", q, n_vectors), n_panels)
    last = code.int("udiv", code.int("mul", code.int("add", q, "1"), n_vectors), n_panels)
    count = code.int("sub", last, first)
    j, wide = code.int("mul", first, tile.lanes), code.int("mul", count, tile.lanes)
    return count, j, wide, code.minimum(code.int("sub", "%n", j), wide)


def _product(name: str, scalar: str, tile: Tile) -> str:
    code, (lanes, rows, vectors) = Code(), tile
    kernels = (
        f"@cells.{name} = internal constant [{vectors} x ptr] "
        f"[{', '.join(f'ptr @cell.{name}.{v}' for v in range(1, vectors + 1))}]"
    )
    widths = [
        f"@edge.{name}.{v} = internal constant [{rows} x i64] "
        f"[{', '.join(f'i64 {r * v * lanes}' for r in range(rows))}]"
        for v in range(1, vectors + 1)
    ]
    edges = (
        f"@edges.{name} = internal constant [{vectors} x ptr] "
        f"[{', '.join(f'ptr @edge.{name}.{v}' for v in range(1, vectors + 1))}]"
    )
    edge = code.set(f"alloca [{rows * lanes * vectors} x {scalar}], align 64")
    n_vectors, n_panels = _panels(code, tile)
    packed = code.set("icmp eq i64 %ldb, 0")
    n_blocks = code.int("udiv", code.int("add", "%k", code.int("sub", "%depth", 1)), "%depth")
    even = code.int("udiv", code.int("add", "%k", code.int("sub", n_blocks, 1)), n_blocks)
    with code.loop("0", "%k", even) as p, code.loop("0", n_panels, "1") as q:
        depth = code.minimum(code.int("sub", "%k", p), even)
        add = code.set(f"or i1 %accumulate, {code.set(f'icmp ne i64 {p}, 0')}")
        count, j, wide, columns = _panel(code, tile, q, n_vectors, n_panels)
        in_panels = code.int("add", code.int("mul", j, "%k"), code.int("mul", p, wide))
        in_matrix = code.int("add", code.int("mul", p, "%ldb"), j)
        b = code.at(scalar, "%b", code.set(f"select i1 {packed}, i64 {in_panels}, i64 {in_matrix}"))
        ldb = code.set(f"select i1 {packed}, i64 {wide}, i64 %ldb")
        which = code.int("sub", count, 1)
        kernel = code.set(f"load ptr, ptr {code.at('ptr', f'@cells.{name}', which)}")
        edge_places = code.set(f"load ptr, ptr {code.at('ptr', f'@edges.{name}', which)}")
        column = code.at("i64", "%column", p)
        c_here = code.at(scalar, "%c", j)
        thin = code.set(f"icmp slt i64 {columns}, {wide}")
        with code.loop("0", "%m", str(rows)) as i:
            height = code.minimum(code.int("sub", "%m", i), str(rows))
            partial = code.set(f"or i1 {thin}, {code.set(f'icmp slt i64 {height}, {rows}')}")
            places = code.at("i64", "%place", i)
            target = code.set(f"select i1 {partial}, ptr {edge}, ptr {c_here}")
            target_places = code.set(f"select i1 {partial}, ptr {edge_places}, ptr {places}")
            adds = code.set(f"and i1 {add}, {code.set(f'xor i1 {partial}, true')}")
            code.emit(
                f"call void {kernel}(i64 {depth}, ptr %a, ptr {code.at('i64', '%row', i)}, ptr {column}, ptr "
                f"{b}, i64 {ldb}, "
                f"ptr {target}, ptr {target_places}, i1 {adds})"
            )
            with code.when(partial), code.loop("0", height, "1") as r:
                source = code.at(scalar, edge, code.int("mul", r, wide))
                line = code.at(scalar, c_here, code.set(f"load i64, ptr {code.at('i64', places, r)}"))
                with code.loop("0", columns, "1") as s:
                    new, spot = code.set(f"load {scalar}, ptr {code.at(scalar, source, s)}"), code.at(scalar, line, s)
                    # what C holds is not looked at, but loaded all the same
                    old = code.set(f"load {scalar}, ptr {spot}")
                    total = code.set(
                        f"select i1 {add}, {scalar} {code.set(f'fadd {scalar} {old}, {new}')}, {scalar} {new}"
                    )
                    code.emit(f"store {scalar} {total}, ptr {spot}")
    code.emit("ret void")
    head = (
        f"define void @tsk.conv.product.{name}(i64 %m, i64 %n, i64 %k, i64 %depth, ptr %a, ptr %row, ptr %column, "
        "ptr %b, i64 %ldb, ptr %c, ptr %place, i1 %accumulate) {"
    )
    return "\n".join([kernels, *widths, edges, head, *code.lines, "}"])


def _pack(name: str, scalar: str, tile: Tile) -> str:
    code = Code()
    n_vectors, n_panels = _panels(code, tile)
    with code.loop("0", n_panels, "1") as q:
        _, j, wide, columns = _panel(code, tile, q, n_vectors, n_panels)
        panel = code.at(scalar, "%panels", code.int("mul", j, "%k"))
        with code.loop("0", "%k", "1") as p:
            start = code.set(f"load i64, ptr {code.at('i64', '%start', p)}")
            source = code.at(scalar, "%b", code.int("add", start, code.int("mul", j, "%stride")))
            target = code.at(scalar, panel, code.int("mul", p, wide))
            with code.loop("0", columns, "1") as s:
                value = code.set(f"load {scalar}, ptr {code.at(scalar, source, code.int('mul', s, '%stride'))}")
                code.emit(f"store {scalar} {value}, ptr {code.at(scalar, target, s)}")
            with code.loop(columns, wide, "1") as s:
                code.emit(f"store {scalar} 0.0, ptr {code.at(scalar, target, s)}")
    code.emit("ret void")
    head = (
        f"define void @tsk.conv.pack.{name}(i64 %n, i64 %k, ptr noalias %b, ptr noalias %start, i64 %stride, ptr "
        f"noalias %panels) {{"
    )
    return "\n".join([head, *code.lines, "}"])


def _pad(name: str, scalar: str) -> str:
    code, size = Code(), 4 if scalar == "float" else 8
    width = code.int("add", code.int("add", "%left", "%length"), "%right")
    left, inner, right, whole = (code.int("mul", x, size) for x in ("%left", "%length", "%right", width))
    # whole lines are copied all at once
    dense = code.set(f"and i1 {code.set(f'icmp eq i64 {width}, %line')}, {code.set('icmp eq i64 %length, %line')}")
    with code.when(dense):
        last = code.int("add", "%first", "%lines")
        lo = code.minimum(code.set("call i64 @llvm.smax.i64(i64 %first, i64 0)"), last)
        hi = code.set(f"call i64 @llvm.smax.i64(i64 {code.minimum(last, '%n')}, i64 {lo})")
        before, there, behind = (
            code.int("mul", code.int("sub", x, y), whole) for x, y in ((lo, "%first"), (hi, lo), (last, hi))
        )
        middle = code.at("i8", "%to", before)
        code.emit(f"call void @llvm.memset.p0.i64(ptr %to, i8 0, i64 {before}, i1 false)")
        code.emit(
            f"call void @llvm.memcpy.p0.p0.i64(ptr {middle}, ptr "
            f"{code.at(scalar, '%from', code.int('mul', lo, '%line'))}, i64 {there}, i1 false)"
        )
        code.emit(f"call void @llvm.memset.p0.i64(ptr {code.at('i8', middle, there)}, i8 0, i64 {behind}, i1 false)")
    one_by_one = code.set(f"select i1 {dense}, i64 0, i64 %lines")
    with code.loop("0", one_by_one, "1") as i:
        at = code.int("add", "%first", i)
        target = code.at(scalar, "%to", code.int("mul", i, width))
        there = code.set(f"icmp ult i64 {at}, %n")  # unsigned: false before the first line, too
        with code.when(there):
            source = code.at(scalar, "%from", code.int("add", code.int("mul", at, "%line"), "%begin"))
            middle = code.at(scalar, target, "%left")
            code.emit(f"call void @llvm.memset.p0.i64(ptr {target}, i8 0, i64 {left}, i1 false)")
            code.emit(f"call void @llvm.memcpy.p0.p0.i64(ptr {middle}, ptr {source}, i64 {inner}, i1 false)")
            code.emit(
                f"call void @llvm.memset.p0.i64(ptr {code.at(scalar, middle, '%length')}, i8 0, i64 {right}, i1 false)"
            )
        with code.when(code.set(f"xor i1 {there}, true")):
            code.emit(f"call void @llvm.memset.p0.i64(ptr {target}, i8 0, i64 {whole}, i1 false)")
    code.emit("ret void")
    head = (
        f"define void @tsk.conv.pad.{name}(ptr noalias %from, ptr noalias %to, i64 %first, i64 %lines, i64 %n, i64 "
        f"%line, i64 %left, "
        "i64 %begin, i64 %length, i64 %right) {"
    )
    return "\n".join([head, *code.lines, "}"])


def _sum(name: str, scalar: str, tile: Tile) -> str:
    code, lanes = Code(), tile.lanes
    size = 4 if scalar == "float" else 8
    code.emit(f"call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr %parts, i64 {code.int('mul', '%size', size)}, i1 false)")
    whole = code.int("sub", "%size", code.int("urem", "%size", lanes))
    with code.loop("1", "%count", "1") as c:
        part = code.at(scalar, "%parts", code.int("mul", c, "%size"))
        for kind, start, stop, step in (
            (f"<{lanes} x {scalar}>", "0", whole, str(lanes)),
            (scalar, whole, "%size", "1"),
        ):
            with code.loop(start, stop, step) as i:
                spot = code.at(scalar, "%out", i)
                old, new = (code.set(f"load {kind}, ptr {at}, align {size}") for at in (spot, code.at(scalar, part, i)))
                code.emit(f"store {kind} {code.set(f'fadd {kind} {old}, {new}')}, ptr {spot}, align {size}")
    code.emit("ret void")
    head = f"define void @tsk.conv.sum.{name}(ptr noalias %out, ptr noalias %parts, i64 %size, i64 %count) {{"
    return "\n".join([head, *code.lines, "}"])
