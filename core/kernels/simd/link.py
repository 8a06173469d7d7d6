"""LLVM IR text into the Numba function that is being compiled, and what its processor can do."""

from __future__ import annotations

from functools import cache

import llvmlite.binding as llvm

from .. import vecmath

__all__ = ["has_avx512", "link", "link_vecmath"]

_libraries: dict = {}


def link(context, name: str, text: str) -> None:
    """Make the functions defined by `text` callable (and inlined) in the function under compilation."""
    codegen = context.codegen()
    key = codegen, name
    if key not in _libraries:
        library = codegen.create_library(f"tsk.{name}")
        library.add_llvm_module(llvm.parse_assembly(text))
        library.finalize()
        _libraries[key] = library
    context.active_code_library.add_linking_library(_libraries[key])


@cache
def _assembly(triple: str, cpu: str, features: str) -> str:
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, features=features)
    module = llvm.parse_assembly(
        "declare double @llvm.fma.f64(double, double, double)\n"
        "define double @f(double %x, double %y, double %z) {\n"
        "  %r = call double @llvm.fma.f64(double %x, double %y, double %z)\n  ret double %r\n}"
    )
    return machine.emit_assembly(module)


def has_fma(context) -> bool:
    """Return True if the target has fused multiply-add, according to LLVM."""
    return "fmadd" in _assembly(*context.codegen().magic_tuple())


def has_avx512(context) -> bool:
    """Return True if the target is known to have AVX-512F."""
    return "+avx512f" in context.codegen().magic_tuple()[2].split(",")


def link_vecmath(context, name: str, dtype: str, width: int) -> str:
    """Link a function of `vecmath`; returns its name without the sigil."""
    symbol = vecmath.symbol(name, dtype, width)
    bodies, declares = vecmath.definitions([symbol], fma=has_fma(context), linkage="external")
    link(context, symbol, "\n".join([*bodies.values(), *sorted(declares)]))
    return symbol[1:]
