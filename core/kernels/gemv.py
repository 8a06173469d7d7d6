"""Products of a row-major matrix and a vector as LLVM IR: one pass over the matrix, in the order it lies in memory.

Each result is summed in an order that the sizes of the matrix fix, whatever block of results a thread gets.
"""

from triskele.core.kernels.gemm import Code

__all__ = ["product"]

_ROWS = 256  # rows that all blocks of columns go through before the next: they stay in the second-level cache
_PARALLEL_WORK = 1 << 19  # least elements of a matrix that is shared out
_CHUNK_WORK = 1 << 17
_ARGUMENTS = "i64 %r, i64 %c, ptr %a, i64 %lda, ptr %x, ptr %y, i1 %accumulate"


def product(name: str, scalar: str, lanes: int) -> str:
    """IR of ``@dots.{name}`` (y[r] (+)= A[r, c] x[c]) and ``@sums.{name}`` (y[c] (+)= A[r, c]' x[r]).

    Both take ``(i64 r, i64 c, ptr a, i64 lda, ptr x, ptr y, i1 accumulate)``, sizes at least 1. The text needs
    ``llvm.fmuladd`` of the vector type, ``llvm.smin.i64``, ``llvm.smax.i64`` and ``tsk_parallel_for`` declared.
    """
    vector = f"<{lanes} x {scalar}>"
    suffix = "f32" if scalar == "float" else "f64"
    return "\n".join(
        [
            f"declare {scalar} @llvm.vector.reduce.fadd.v{lanes}{suffix}({scalar}, {vector})",
            f"declare {scalar} @llvm.fmuladd.{suffix}({scalar}, {scalar}, {scalar})",
            _dots(name, scalar, lanes),
            _sums(name, scalar, lanes),
            _shared("dots", name, scalar, 8),
            _shared("sums", name, scalar, 8 * lanes),
        ]
    )


def _dots(name: str, scalar: str, lanes: int) -> str:
    code, vector, suffix = Code(), f"<{lanes} x {scalar}>", "f32" if scalar == "float" else "f64"
    whole = code.int("sub", "%c", code.int("urem", "%c", lanes))
    eights = code.int("sub", "%r", code.int("urem", "%r", 8))
    all_sums = [code.set(f"alloca {vector}, align 64") for _ in range(8)]
    all_tails = [code.set(f"alloca {scalar}") for _ in range(8)]
    for first, last, height in (("0", eights, 8), (eights, "%r", 1)):
        sums, tails = all_sums[:height], all_tails[:height]
        with code.loop(first, last, str(height)) as i:
            rows = [code.at(scalar, "%a", code.int("mul", code.int("add", i, h), "%lda")) for h in range(height)]
            for h in range(height):
                code.emit(f"store {vector} zeroinitializer, ptr {sums[h]}")
                code.emit(f"store {scalar} 0.0, ptr {tails[h]}")
            for kind, places, start, stop, step in (
                (vector, sums, "0", whole, lanes),
                (scalar, tails, whole, "%c", 1),
            ):
                of_type = f"v{lanes}{suffix}" if kind == vector else suffix
                align = 4 if scalar == "float" else 8
                with code.loop(start, stop, str(step)) as j:
                    x = code.set(f"load {kind}, ptr {code.at(scalar, '%x', j)}, align {align}")
                    for h in range(height):
                        value = code.set(f"load {kind}, ptr {code.at(scalar, rows[h], j)}, align {align}")
                        old = code.set(f"load {kind}, ptr {places[h]}")
                        call = f"call {kind} @llvm.fmuladd.{of_type}({kind} {value}, {kind} {x}, {kind} {old})"
                        code.emit(f"store {kind} {code.set(call)}, ptr {places[h]}")
            for h in range(height):
                lanes_sum = code.set(f"load {vector}, ptr {sums[h]}")
                tail = code.set(f"load {scalar}, ptr {tails[h]}")
                total = code.set(
                    f"call reassoc {scalar} @llvm.vector.reduce.fadd.v{lanes}{suffix}({scalar} {tail}, {vector} {lanes_sum})"
                )
                _put(code, scalar, scalar, code.at(scalar, "%y", code.int("add", i, h)), total, "%accumulate")
    code.emit("ret void")
    return "\n".join([f"define internal void @dots.one.{name}({_ARGUMENTS}) {{", *code.lines, "}"])


def _put(code: Code, kind: str, scalar: str, place: str, value: str, add: str) -> None:
    """Store `value`, on top of what is there if `add`."""
    align = 4 if scalar == "float" else 8
    old = code.set(f"load {kind}, ptr {place}, align {align}")
    total = code.set(f"fadd {kind} {old}, {value}")
    code.emit(
        f"store {kind} {code.set(f'select i1 {add}, {kind} {total}, {kind} {value}')}, ptr {place}, align {align}"
    )


def _sums(name: str, scalar: str, lanes: int) -> str:
    code, vector, suffix = Code(), f"<{lanes} x {scalar}>", "f32" if scalar == "float" else "f64"
    align = 4 if scalar == "float" else 8
    held = {1: [code.set(f"alloca {scalar}")], lanes: [code.set(f"alloca {vector}, align 64") for _ in range(8)]}
    with code.loop("0", "%r", str(_ROWS)) as top:
        bottom = code.minimum(code.int("add", top, _ROWS), "%r")
        add = code.set(f"or i1 %accumulate, {code.set(f'icmp ne i64 {top}, 0')}")
        start = "0"
        for width, count in ((lanes, 8), (lanes, 2), (lanes, 1), (1, 1)):
            kind, of_type = (vector, f"v{lanes}{suffix}") if width > 1 else (scalar, suffix)
            size, places = width * count, held[width][:count]
            stop = code.int("sub", "%c", code.int("urem", code.int("sub", "%c", start), size))
            with code.loop(start, stop, str(size)) as j:
                for place in places:
                    code.emit(f"store {kind} zeroinitializer, ptr {place}")
                with code.loop(top, bottom, "1") as i:
                    x = code.set(f"load {scalar}, ptr {code.at(scalar, '%x', i)}, align {align}")
                    if width > 1:
                        x = code.set(f"insertelement {vector} poison, {scalar} {x}, i64 0")
                        x = code.set(f"shufflevector {vector} {x}, {vector} poison, <{lanes} x i32> zeroinitializer")
                    row = code.at(scalar, code.at(scalar, "%a", code.int("mul", i, "%lda")), j)
                    for index, place in enumerate(places):
                        value = code.set(f"load {kind}, ptr {code.at(scalar, row, str(index * width))}, align {align}")
                        old = code.set(f"load {kind}, ptr {place}")
                        call = f"call {kind} @llvm.fmuladd.{of_type}({kind} {value}, {kind} {x}, {kind} {old})"
                        code.emit(f"store {kind} {code.set(call)}, ptr {place}")
                for index, place in enumerate(places):
                    target = code.at(scalar, code.at(scalar, "%y", j), str(index * width))
                    _put(code, kind, scalar, target, code.set(f"load {kind}, ptr {place}"), add)
            start = stop
    code.emit("ret void")
    return "\n".join([f"define internal void @sums.one.{name}({_ARGUMENTS}) {{", *code.lines, "}"])


def _shared(form: str, name: str, scalar: str, unit: int) -> str:
    """The same, with blocks of results shared out in units of `unit`; how many depends on the sizes alone."""
    fields = ("r", "c", "a", "lda", "x", "y", "accumulate")
    size = "r" if form == "dots" else "c"
    code = Code()
    work = code.int("mul", "%r", "%c")
    small = code.set(f"icmp slt i64 {work}, {_PARALLEL_WORK}")
    code.emit(f"br i1 {small}, label %small, label %large")
    code.label("%small")
    code.emit(f"call void @{form}.one.{name}({_ARGUMENTS})")
    code.emit("ret void")
    code.label("%large")
    units = code.int("udiv", code.int("add", f"%{size}", unit - 1), unit)
    cuts = code.minimum(code.minimum(code.int("udiv", work, _CHUNK_WORK), "64"), units)
    context = code.set(f"alloca [{len(fields) + 1} x i64], align 16")
    for index, field in enumerate(fields):
        value = code.set("zext i1 %accumulate to i64") if field == "accumulate" else f"%{field}"
        kind = "ptr" if field in "axy" else "i64"
        code.emit(f"store {kind} {value}, ptr {code.at('i64', context, str(index))}")
    code.emit(f"store i64 {cuts}, ptr {code.at('i64', context, str(len(fields)))}")
    code.emit(f"call void @tsk_parallel_for(ptr @{form}.chunk.{name}, ptr {context}, i64 {cuts})")
    code.emit("ret void")
    outer = [f"define internal void @{form}.{name}({_ARGUMENTS}) {{", *code.lines, "}"]

    code = Code()
    for index, field in enumerate((*fields, "cuts")):
        code.emit(f"%{field} = load {'ptr' if field in 'axy' else 'i64'}, ptr {code.at('i64', '%context', str(index))}")
    units = code.int("udiv", code.int("add", f"%{size}", unit - 1), unit)
    ends = []
    for at in ("%chunk", code.int("add", "%chunk", 1)):
        whole = code.int("udiv", code.int("mul", at, units), "%cuts")
        ends.append(code.minimum(code.int("mul", whole, unit), f"%{size}"))
    count = code.int("sub", ends[1], ends[0])
    adds = code.set("icmp ne i64 %accumulate, 0")
    a = code.at(scalar, "%a", code.int("mul", ends[0], "%lda") if form == "dots" else ends[0])
    sizes = f"i64 {count}, i64 %c" if form == "dots" else f"i64 %r, i64 {count}"
    y = code.at(scalar, "%y", ends[0])
    code.emit(f"call void @{form}.one.{name}({sizes}, ptr {a}, i64 %lda, ptr %x, ptr {y}, i1 {adds})")
    code.emit("ret void")
    return "\n".join(
        [f"define internal void @{form}.chunk.{name}(ptr %context, i64 %chunk) {{", *code.lines, "}", *outer]
    )
