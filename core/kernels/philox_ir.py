"""The Philox4x32-10 block function as LLVM IR, with the constants that define it."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["MULTIPLIERS", "ROUNDS", "WEYL", "definitions", "symbol"]

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)  # golden ratio and sqrt(3) - 1
ROUNDS = 10


def symbol(width: int = 1) -> str:
    """The LLVM symbol of the block function over `width` counters: "@tsk.philox4x32.v16"."""
    if width < 1:
        raise ValueError(f"philox: width must be >= 1, got {width}")
    return "@tsk.philox4x32" + ("" if width == 1 else f".v{width}")


def _define(width: int, linkage: str) -> str:
    def constant(t, c):
        return str(c) if width == 1 else f"splat ({t} {c})"

    def vector(t):
        return t if width == 1 else f"<{width} x {t}>"

    i32, i64 = vector("i32"), vector("i64")
    lines: list[str] = []

    def emit(text):
        lines.append(f"  %v{len(lines)} = {text}")
        return f"%v{len(lines) - 1}"

    c, k = ["%c0", "%c1", "%c2", "%c3"], ["%k0", "%k1"]
    for r in range(ROUNDS):
        high, low = [], []
        for x, m in zip((c[0], c[2]), MULTIPLIERS, strict=True):
            product = emit(f"mul nuw {i64} {emit(f'zext {i32} {x} to {i64}')}, {constant('i64', m)}")
            low.append(emit(f"trunc {i64} {product} to {i32}"))
            upper = emit(f"lshr {i64} {product}, {constant('i64', 32)}")
            high.append(emit(f"trunc {i64} {upper} to {i32}"))
        if r:
            k = [emit(f"add {i32} {x}, {constant('i32', w)}") for x, w in zip(k, WEYL, strict=True)]
        a = emit(f"xor {i32} {emit(f'xor {i32} {high[1]}, {c[1]}')}, {k[0]}")
        b = emit(f"xor {i32} {emit(f'xor {i32} {high[0]}, {c[3]}')}, {k[1]}")
        c = [a, low[1], b, low[0]]
    result = "{ " + ", ".join([i32] * 4) + " }"
    packed = "poison"
    for i, x in enumerate(c):
        packed = emit(f"insertvalue {result} {packed}, {i32} {x}, {i}")
    arguments = ", ".join(f"{i32} {a}" for a in ("%c0", "%c1", "%c2", "%c3", "%k0", "%k1"))
    head = f"define {linkage} {result} {symbol(width)}({arguments}) alwaysinline nounwind willreturn memory(none) {{"
    return "\n".join([head, *lines, f"  ret {result} {packed}", "}"])


def definitions(symbols: Iterable[str], *, linkage: str = "internal") -> tuple[dict[str, str], set[str]]:
    """IR text of `symbols`, in the form of `vecmath.definitions`.

    A function takes four counter words and two key words, i32 or <n x i32>, and returns a struct of four.
    """
    out = {}
    for s in symbols:
        head, _, width = s.partition(".v")
        if head != symbol() or not (width == "" or width.isdecimal()):
            raise ValueError(f"philox: symbol must look like '@tsk.philox4x32' or '@tsk.philox4x32.v8', got {s!r}")
        out[s] = _define(int(width or 1), linkage)
    return out, set()
