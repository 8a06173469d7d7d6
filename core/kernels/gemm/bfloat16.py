"""Products of bfloat16 matrices as LLVM IR, by the dot products of AVX512-BF16 (`vdpbf16ps`).

C[m, n] = A[m, k] B[k, n]: both operands are copied into panels of pairs, two neighbors of k side by side, whatever
their layout is. A tile of 8 x 48 float32 sums stays in registers over all of k; it is stored as float32, or rounded
once to bfloat16. Chunks depend on the sizes alone, and so do the results.

The instruction adds two products to a sum, each step rounded to nearest, and takes subnormal numbers for 0 (Intel
Architecture Instruction Set Extensions, VDPBF16PS). With u = 2**-24 the error of an element is therefore at most
``k u / (1 - k u)`` times the sum of the products' absolute values, plus k 2**-126, plus the absolute values of the
products with a subnormal factor.
"""

from __future__ import annotations

from .tiles import Code

__all__ = ["product", "scratch_bytes"]

ROWS, LANES, VECTORS = 8, 16, 3
_WIDE = LANES * VECTORS
_GROUP = 16  # tiles of rows in a chunk, which share a panel of B in the second-level cache

_DOT = "@llvm.x86.avx512bf16.dpbf16ps.512"
_CONTEXT = ("m", "n", "k", "a", "lda", "ta", "b", "ldb", "tb", "c", "ldc", "wide", "pa", "pb")
_POINTERS = frozenset(["a", "b", "c", "pa", "pb"])
_PACK = "(ptr %x, i64 %ld, i1 %along, i64 %lines, i64 %k, i64 %wide, ptr %out)"


def scratch_bytes(m: int, n: int, k: int) -> int:
    """Bytes of the two copies that a product makes."""
    pairs = (k + 1) // 2
    return 4 * pairs * (-(-m // (2 * ROWS)) * 2 * ROWS + -(-n // LANES) * LANES)


def product() -> str:
    """IR of ``void @tsk.bfloat16.product(i64 m, i64 n, i64 k, ptr a, i64 lda, i1 ta, ptr b, i64 ldb, i1 tb, ptr c,
    i64 ldc, i1 wide, ptr scratch)``.

    Matrices are row-major, or transposed where `ta`, `tb` say so; `wide`: C is float32, otherwise bfloat16. `scratch`
    has `scratch_bytes`, aligned to 64. ``tsk_parallel_for`` is imported.
    """
    parts = [
        "declare void @tsk_parallel_for(ptr, ptr, i64)\ndeclare i64 @llvm.smin.i64(i64, i64)",
        f"declare <16 x float> {_DOT}(<16 x float>, <32 x bfloat>, <32 x bfloat>)",
        _PAIR,
    ]
    parts += [_pack(ROWS), _pack(LANES), *map(_tile, range(1, VECTORS + 1)), _store_row(), _pack_chunk(), _tile_chunk()]
    return "\n".join([*parts, _outer()])


# the pair number p of a line, with zeros beyond the matrix
_PAIR = """
define internal i32 @pair(ptr %x, i64 %line.step, i64 %step, i64 %lines, i64 %k, i64 %line, i64 %p) {
  %in = icmp slt i64 %line, %lines
  br i1 %in, label %first, label %none
first:
  %i = shl i64 %p, 1
  %j = mul i64 %line, %line.step
  %i1 = mul i64 %i, %step
  %at = add i64 %i1, %j
  %q = getelementptr i16, ptr %x, i64 %at
  %low = load i16, ptr %q, align 2
  %low32 = zext i16 %low to i32
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %k
  br i1 %more, label %second, label %one
second:
  %at2 = add i64 %at, %step
  %q2 = getelementptr i16, ptr %x, i64 %at2
  %high = load i16, ptr %q2, align 2
  %high32 = zext i16 %high to i32
  %shifted = shl i32 %high32, 16
  %both = or i32 %low32, %shifted
  ret i32 %both
one:
  ret i32 %low32
none:
  ret i32 0
}"""


def _pack(size: int) -> str:
    """out[pair, wide] from `lines` lines of k elements, zero beyond; `along`: the elements of a line are neighbors.

    Blocks of `size` lines are copied by vectors: squares of pairs are transposed in registers.
    """
    code, pairs_type, half = Code(), f"<{size} x i32>", f"<{size} x i16>"
    full_lines = code.int("sub", "%lines", code.int("urem", "%lines", size))
    whole = code.int("lshr", "%k", 1)  # pairs without the zero of an odd k
    pairs = code.int("lshr", code.int("add", "%k", 1), 1)
    squares = code.int("sub", whole, code.int("urem", whole, size))
    by_squares = code.set(f"select i1 %along, i64 {squares}, i64 0")
    by_rows = code.set(f"select i1 %along, i64 0, i64 {whole}")
    done = code.set(f"select i1 %along, i64 {squares}, i64 {whole}")
    line_step = code.set("select i1 %along, i64 %ld, i64 1")
    step = code.set("select i1 %along, i64 1, i64 %ld")

    def one_by_one(line, p):
        value = code.set(
            f"call i32 @pair(ptr %x, i64 {line_step}, i64 {step}, i64 %lines, i64 %k, i64 {line}, i64 {p})"
        )
        place = code.int("add", code.int("mul", p, "%wide"), line)
        code.emit(f"store i32 {value}, ptr {code.at('i32', '%out', place)}")

    with code.loop("0", full_lines, str(size)) as line:
        with code.loop("0", by_squares, str(size)) as p:
            start = code.at("i16", "%x", code.int("add", code.int("mul", line, "%ld"), code.int("shl", p, 1)))
            starts = [code.at("i16", start, code.int("mul", "%ld", i)) for i in range(size)]
            rows = [code.set(f"load {pairs_type}, ptr {source}, align 2") for source in starts]
            order = [x for i in range(size) for x in (i, size + i)]
            low, high = (", ".join(f"i32 {x}" for x in part) for part in (order[:size], order[size:]))
            for _ in range(size.bit_length() - 1):
                rows = [
                    code.set(f"shufflevector {pairs_type} {a}, {pairs_type} {b}, <{size} x i32> <{part}>")
                    for a, b in zip(rows[: size // 2], rows[size // 2 :], strict=True)
                    for part in (low, high)
                ]
            for i, row in enumerate(rows):
                place = code.int("add", code.int("mul", code.int("add", p, i), "%wide"), line)
                code.emit(f"store {pairs_type} {row}, ptr {code.at('i32', '%out', place)}, align 32")
        with code.loop("0", by_rows, "1") as p:
            source = code.at("i16", "%x", code.int("add", code.int("mul", code.int("shl", p, 1), "%ld"), line))
            first = code.set(f"load {half}, ptr {source}, align 2")
            second = code.set(f"load {half}, ptr {code.at('i16', source, '%ld')}, align 2")
            order = ", ".join(f"i32 {x}" for i in range(size) for x in (i, size + i))
            both = code.set(f"shufflevector {half} {first}, {half} {second}, <{2 * size} x i32> <{order}>")
            place = code.int("add", code.int("mul", p, "%wide"), line)
            code.emit(f"store <{2 * size} x i16> {both}, ptr {code.at('i32', '%out', place)}, align 32")
        with code.loop(done, pairs, "1") as p, code.loop("0", str(size), "1") as i:
            one_by_one(code.int("add", line, i), p)
    with code.loop("0", pairs, "1") as p, code.loop(full_lines, "%wide", "1") as line:
        one_by_one(line, p)
    code.emit("ret void")
    return "\n".join([f"define internal void @pack.{size}{_PACK} {{", *code.lines, "}"])


def _tile(vectors: int) -> str:
    """The first 16 `vectors` columns of out[8, 48], from the panels %a[k, 8] and %b[k, 16 vectors] of pairs."""
    code, sums = Code(), "<16 x float>"
    tile = [(r, v) for r in range(ROWS) for v in range(vectors)]
    code.emit("br label %head")
    code.label("%head")
    code.emit("%p = phi i64 [0, %entry], [%next, %head]")
    for r, v in tile:
        code.emit(f"%c{r}.{v} = phi {sums} [zeroinitializer, %entry], [%d{r}.{v}, %head]")
    b = code.at("i32", "%b", code.int("mul", "%p", LANES * vectors))
    a = code.at("i32", "%a", code.int("mul", "%p", ROWS))
    panel = [code.set(f"load <32 x bfloat>, ptr {code.at('i32', b, str(LANES * v))}, align 64") for v in range(vectors)]
    for r in range(ROWS):
        one = code.set(f"load i32, ptr {code.at('i32', a, str(r))}, align 4")
        first = code.set(f"insertelement <16 x i32> poison, i32 {one}, i64 0")
        lanes = code.set(f"shufflevector <16 x i32> {first}, <16 x i32> poison, <16 x i32> zeroinitializer")
        pair = code.set(f"bitcast <16 x i32> {lanes} to <32 x bfloat>")
        for v in range(vectors):
            code.emit(
                f"%d{r}.{v} = call {sums} {_DOT}({sums} %c{r}.{v}, <32 x bfloat> {pair}, <32 x bfloat> {panel[v]})"
            )
    code.emit("%next = add nuw nsw i64 %p, 1")
    code.emit("%more = icmp slt i64 %next, %pairs")
    code.emit("br i1 %more, label %head, label %done")
    code.label("%done")
    for r, v in tile:
        code.emit(f"store {sums} %d{r}.{v}, ptr {code.at('float', '%out', str(r * _WIDE + v * LANES))}, align 64")
    code.emit("ret void")
    head = f"define internal void @tile.{vectors}(i64 %pairs, ptr noalias %a, ptr noalias %b, ptr noalias %out) {{"
    return "\n".join([head, "entry:", *code.lines, "}"])


def _bits(code: Code, x: str, n: int) -> str:
    """<n x float> rounded to the bits of bfloat16, ties to even, in integers: the instruction flushes subnormals."""

    def every(value):
        return "<" + ", ".join([f"i32 {value}"] * n) + ">"

    wide, narrow = f"<{n} x i32>", f"<{n} x i16>"
    word = code.set(f"bitcast <{n} x float> {x} to {wide}")
    high = code.set(f"lshr {wide} {word}, {every(16)}")
    odd = code.set(f"and {wide} {high}, {every(1)}")
    sum_ = code.set(f"add {wide} {code.set(f'add {wide} {word}, {every(0x7FFF)}')}, {odd}")
    near = code.set(f"lshr {wide} {sum_}, {every(16)}")
    nan = code.set(f"or {wide} {code.set(f'and {wide} {high}, {every(0x8000)}')}, {every(0x7FC0)}")
    number = code.set(f"fcmp ord <{n} x float> {x}, {x}")
    chosen = code.set(f"select <{n} x i1> {number}, {wide} {near}, {wide} {nan}")
    return code.set(f"trunc {wide} {chosen} to {narrow}")


def _store_row() -> str:
    """c[:columns] = row[:columns], float32 where `wide`, otherwise bfloat16."""
    code = Code()
    full = code.int("sub", "%columns", code.int("urem", "%columns", LANES))
    for wide, condition in ((True, "%wide"), (False, code.set("xor i1 %wide, true"))):
        with code.when(condition):
            for n, start, stop in ((LANES, "0", full), (1, full, "%columns")):
                with code.loop(start, stop, str(n)) as j:
                    x = code.set(f"load <{n} x float>, ptr {code.at('float', '%row', j)}, align 4")
                    if wide:
                        code.emit(f"store <{n} x float> {x}, ptr {code.at('float', '%c', j)}, align 4")
                    else:
                        code.emit(f"store <{n} x i16> {_bits(code, x, n)}, ptr {code.at('i16', '%c', j)}, align 2")
    code.emit("ret void")
    return "\n".join(["define internal void @store.row(ptr %row, ptr %c, i64 %columns, i1 %wide) {", *code.lines, "}"])


def _read_context(code: Code) -> None:
    for index, field in enumerate(_CONTEXT):
        kind = "ptr" if field in _POINTERS else "i64"
        code.emit(f"%{field} = load {kind}, ptr {code.at('i64', '%context', str(index))}")


def _panels(code: Code) -> str:
    return code.int("udiv", code.int("add", "%n", _WIDE - 1), _WIDE)


def _groups(code: Code) -> str:
    return code.int("udiv", code.int("add", "%m", ROWS * _GROUP - 1), ROWS * _GROUP)


def _panel(code: Code, q: str, pairs: str) -> tuple[str, str, str, str]:
    """Column, columns, columns with the zeros, and place of the panel `q` of B."""
    j = code.int("mul", q, _WIDE)
    columns = code.minimum(code.int("sub", "%n", j), str(_WIDE))
    padded = code.int("and", code.int("add", columns, LANES - 1), -LANES)
    return j, columns, padded, code.at("i32", "%pb", code.int("mul", j, pairs))


def _pack_chunk() -> str:
    """A panel of B, or a group of tiles of A."""
    code = Code()
    _read_context(code)
    pairs, panels = code.int("lshr", code.int("add", "%k", 1), 1), _panels(code)
    is_b = code.set(f"icmp slt i64 %chunk, {panels}")
    with code.when(is_b):
        j, columns, padded, place = _panel(code, "%chunk", pairs)
        along = code.set("icmp ne i64 %tb, 0")
        step = code.set(f"select i1 {along}, i64 %ldb, i64 1")
        source = code.at("i16", "%b", code.int("mul", j, step))
        code.emit(
            f"call void @pack.{LANES}(ptr {source}, i64 %ldb, i1 {along}, i64 {columns}, i64 %k, i64 {padded}, "
            f"ptr {place})"
        )
    with code.when(code.set(f"xor i1 {is_b}, true")):
        first = code.int("mul", code.int("sub", "%chunk", panels), ROWS * _GROUP)
        stop = code.minimum(code.int("add", first, ROWS * _GROUP), "%m")
        along = code.set("icmp eq i64 %ta, 0")
        step = code.set(f"select i1 {along}, i64 %lda, i64 1")
        with code.loop(first, stop, str(ROWS)) as i:
            rows = code.minimum(code.int("sub", "%m", i), str(ROWS))
            source = code.at("i16", "%a", code.int("mul", i, step))
            place = code.at("i32", "%pa", code.int("mul", i, pairs))
            code.emit(
                f"call void @pack.{ROWS}(ptr {source}, i64 %lda, i1 {along}, i64 {rows}, i64 %k, i64 {ROWS}, "
                f"ptr {place})"
            )
    code.emit("ret void")
    return "\n".join(["define internal void @pack.chunk(ptr %context, i64 %chunk) {", *code.lines, "}"])


def _tile_chunk() -> str:
    """The tiles of a group of rows and a panel of columns."""
    code = Code()
    _read_context(code)
    tile = code.set(f"alloca [{ROWS * _WIDE} x float], align 64")
    pairs, groups = code.int("lshr", code.int("add", "%k", 1), 1), _groups(code)
    wide = code.set("icmp ne i64 %wide, 0")
    size = code.set(f"select i1 {wide}, i64 4, i64 2")
    j, columns, padded, panel = _panel(code, code.int("udiv", "%chunk", groups), pairs)
    first = code.int("mul", code.int("urem", "%chunk", groups), ROWS * _GROUP)
    stop = code.minimum(code.int("add", first, ROWS * _GROUP), "%m")
    kernel = code.set(f"load ptr, ptr {code.at('ptr', '@tiles', code.int('sub', code.int('lshr', padded, 4), 1))}")
    with code.loop(first, stop, str(ROWS)) as i:
        a = code.at("i32", "%pa", code.int("mul", i, pairs))
        code.emit(f"call void {kernel}(i64 {pairs}, ptr {a}, ptr {panel}, ptr {tile})")
        rows = code.minimum(code.int("sub", "%m", i), str(ROWS))
        with code.loop("0", rows, "1") as r:
            at = code.int("add", code.int("mul", code.int("add", i, r), "%ldc"), j)
            c = code.at("i8", "%c", code.int("mul", at, size))
            row = code.at("float", tile, code.int("mul", r, _WIDE))
            code.emit(f"call void @store.row(ptr {row}, ptr {c}, i64 {columns}, i1 {wide})")
    code.emit("ret void")
    table = f"@tiles = internal constant [{VECTORS} x ptr] [{', '.join(f'ptr @tile.{v + 1}' for v in range(VECTORS))}]"
    return "\n".join([table, "define internal void @tile.chunk(ptr %context, i64 %chunk) {", *code.lines, "}"])


def _outer() -> str:
    code = Code()
    pairs = code.int("lshr", code.int("add", "%k", 1), 1)
    code.emit("%pa = getelementptr i8, ptr %scratch, i64 0")
    padded = code.int("and", code.int("add", "%m", 2 * ROWS - 1), -2 * ROWS)
    code.emit(f"%pb = getelementptr i32, ptr %scratch, i64 {code.int('mul', padded, pairs)}")
    context = code.set(f"alloca [{len(_CONTEXT)} x i64], align 16")
    for index, field in enumerate(_CONTEXT):
        value = code.set(f"zext i1 %{field} to i64") if field in ("ta", "tb", "wide") else f"%{field}"
        kind = "ptr" if field in _POINTERS else "i64"
        code.emit(f"store {kind} {value}, ptr {code.at('i64', context, str(index))}")
    panels, groups = _panels(code), _groups(code)
    for function, chunks in (("pack", code.int("add", panels, groups)), ("tile", code.int("mul", panels, groups))):
        code.emit(f"call void @tsk_parallel_for(ptr @{function}.chunk, ptr {context}, i64 {chunks})")
    code.emit("ret void")
    head = (
        "define void @tsk.bfloat16.product(i64 %m, i64 %n, i64 %k, ptr %a, i64 %lda, i1 %ta, ptr %b, i64 %ldb, "
        "i1 %tb, ptr %c, i64 %ldc, i1 %wide, ptr %scratch) {"
    )
    return "\n".join([head, *code.lines, "}"])
