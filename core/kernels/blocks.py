"""Products that BLAS does, in blocks so small that it does not use threads of its own."""

from .gemm.tiles import Code

__all__ = ["product"]


def product(name: str, element: str, sizes: tuple[int, int, int]) -> str:
    """IR of ``@blocks.{name}``: the product as blocks of at most `sizes` by ``@blas.{name}``, rows and columns shared
    out.

    It has the arguments of the products of `kernels.blas`. BLAS then has nothing that it would share out itself.
    """
    arguments = (
        "i64 %m, i64 %n, i64 %k, ptr %a, i64 %lda, i1 %ta, ptr %b, i64 %ldb, i1 %tb, ptr %c, i64 %ldc, i1 %accumulate"
    )
    fields = ("m", "n", "k", "a", "lda", "ta", "b", "ldb", "tb", "c", "ldc", "accumulate")
    bits = ("ta", "tb", "accumulate")
    rows, columns, depth = sizes
    code = Code()
    context = code.set(f"alloca [{len(fields)} x i64], align 16")
    for index, field in enumerate(fields):
        value = code.set(f"zext i1 %{field} to i64") if field in bits else f"%{field}"
        code.emit(f"store {'ptr' if field in 'abc' else 'i64'} {value}, ptr {code.at('i64', context, str(index))}")
    count = code.int(
        "mul",
        *[code.int("udiv", code.int("add", size, step - 1), step) for size, step in (("%m", rows), ("%n", columns))],
    )
    code.emit(f"call void @tsk_parallel_for(ptr @block.{name}, ptr {context}, i64 {count})")
    code.emit("ret void")
    outer = [f"define internal void @blocks.{name}({arguments}) {{", *code.lines, "}"]

    code = Code()
    for index, field in enumerate(fields):
        kind = "ptr" if field in "abc" else "i64"
        code.emit(
            f"%{field}{'.word' if field in bits else ''} = load {kind}, ptr {code.at('i64', '%context', str(index))}"
        )
    for field in bits:
        code.emit(f"%{field} = icmp ne i64 %{field}.word, 0")
    across = code.int("udiv", code.int("add", "%n", columns - 1), columns)
    i, j = (
        code.int("mul", code.int("udiv", "%chunk", across), rows),
        code.int("mul", code.int("urem", "%chunk", across), columns),
    )
    height, width = (
        code.minimum(code.int("sub", "%m", i), str(rows)),
        code.minimum(code.int("sub", "%n", j), str(columns)),
    )
    with code.loop("0", "%k", str(depth)) as p:
        places = []
        for base, transposed, ld, first, second in (
            ("%a", "%ta", "%lda", i, p),
            ("%b", "%tb", "%ldb", p, j),
            ("%c", "false", "%ldc", i, j),
        ):
            line, at = (
                code.set(f"select i1 {transposed}, i64 {x}, i64 {y}") for x, y in ((second, first), (first, second))
            )
            places.append(code.at(element, base, code.int("add", code.int("mul", line, ld), at)))
        add = code.set(f"or i1 %accumulate, {code.set(f'icmp ne i64 {p}, 0')}")
        k = code.minimum(code.int("sub", "%k", p), str(depth))
        code.emit(
            f"call void @blas.{name}(i64 {height}, i64 {width}, i64 {k}, ptr {places[0]}, i64 %lda, i1 %ta, ptr "
            f"{places[1]}, i64 %ldb, i1 %tb, "
            f"ptr {places[2]}, i64 %ldc, i1 {add})"
        )
    code.emit("ret void")
    return "\n".join([f"define internal void @block.{name}(ptr %context, i64 %chunk) {{", *code.lines, "}", *outer])
