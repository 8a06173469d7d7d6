"""Vector-math functions that are called rather than written out: where there are many, LLVM's time grows with the code.

The loop vectorizer knows their vector forms through the attribute ``vector-function-abi-variant`` of the call.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..kernels import native, vecmath

__all__ = ["call_out_of_line", "definitions"]

_CALL = re.compile(r"call (?:double|float) (@tsk\.(\w+)\.(f32|f64))\(")
_SYMBOL = re.compile(r"@tsk\.scalar\.(\w+)\.(f32|f64)")


def call_out_of_line(line: str) -> str:
    """The line with its call of ``@tsk.f.t`` made one of ``@tsk.scalar.f.t``, which `definitions` defines."""
    found = _CALL.search(line)
    if found is None:
        return line
    function, dtype = found.group(2), found.group(3)
    return (
        line.replace(found.group(1), f"@tsk.scalar.{function}.{dtype}")
        + f' "vector-function-abi-variant"="{_variants(function, dtype)}"'
    )


def _widths(dtype: str) -> tuple[int, ...]:
    """Lanes of a register, and of two."""
    lanes = (64 if native.has_feature("avx512f") else 32) // (4 if dtype == "f32" else 8)
    return (lanes, 2 * lanes) if dtype == "f64" else (lanes // 2, lanes)


def _variants(function, dtype):
    scalar = f"tsk.scalar.{function}.{dtype}"
    arguments = "v" * vecmath.FUNCTIONS[function].arity
    return ",".join(f"_ZGV_LLVM_N{w}{arguments}_{scalar}(tsk.wide.{function}.v{w}{dtype})" for w in _widths(dtype))


def definitions(symbols: Iterable[str]) -> tuple[dict[str, str], set[str]]:
    """Texts and declarations of ``@tsk.scalar.*`` functions and their vector forms (see `vecmath.definitions`)."""
    out: dict[str, str] = {}
    declares: set[str] = set()
    kept: list[str] = []
    for symbol in sorted(symbols):
        function, dtype = _SYMBOL.fullmatch(symbol).groups()  # type: ignore[union-attr]
        forms = [(f"tsk.{function}.{dtype}", symbol[1:])]
        forms += [(f"tsk.{function}.v{w}{dtype}", f"tsk.wide.{function}.v{w}{dtype}") for w in _widths(dtype)]
        for inner, name in forms:
            bodies, used = vecmath.definitions([f"@{inner}"])
            declares |= used
            head, body = bodies.pop(f"@{inner}").split("{", 1)
            out |= bodies  # what it calls
            out[f"@{name}"] = f"{head.replace(f'@{inner}(', f'@{name}(').replace('alwaysinline', 'noinline')}{{{body}"
        kept += [f"ptr @{name}" for _, name in forms]
    # Nothing refers to the vector forms until the vectorizer does, and the scalar one must keep its signature: were an
    # argument that is the same constant in every call removed, the calls of the vector forms would be malformed.
    if kept:
        out["@llvm.compiler.used"] = (
            f'@llvm.compiler.used = appending global [{len(kept)} x ptr] [{", ".join(kept)}], section "llvm.metadata"'
        )
    return out, declares
