"""Compiled programs inside the user's own Numba code."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["numba_form"]


def numba_form(entry: Any, name: str) -> Any:
    """Return a function for njit code that runs a compiled program.

    It takes the program's flat arguments (C-contiguous arrays, whose shapes it checks, or scalars) and returns the
    result, or a tuple of results; scalars for shape (). It raises RuntimeError where the program raises (an index out
    of bounds, a host call).
    """
    import numba
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    from .bound import call_program

    program = entry.function.program
    address = program.module.address("main")
    in_specs, out_specs = program.traced.in_specs, program.traced.out_specs
    if not in_specs:
        raise TypeError(f"numba of {name}: the program must take arguments, got none")
    scratch_size, word = program.scratch + 64, ir.IntType(64)

    def pointer_table(context, builder, signature, args):
        """Data pointers of arrays, or addresses of scalars put on the stack."""
        byte = ir.IntType(8).as_pointer()
        table = cgutils.alloca_once(builder, byte, size=len(signature.args))
        for k, (kind, value) in enumerate(zip(signature.args, args, strict=True)):
            if isinstance(kind, types.Array):
                data = context.make_array(kind)(context, builder, value).data
            else:
                data = cgutils.alloca_once_value(builder, value)
            builder.store(builder.bitcast(data, byte), builder.gep(table, [ir.IntType(32)(k)]))
        return builder.bitcast(table, byte)

    @intrinsic
    def run(typing_context, inputs, outputs, scratch):
        signature = types.int32(inputs, outputs, scratch)

        def codegen(context, builder, sig, args):
            tables = []
            for kind, value in zip(sig.args[:2], args[:2], strict=True):
                parts = [builder.extract_value(value, k) for k in range(len(kind.types))]
                inner = types.void(*kind.types)
                tables.append(builder.ptrtoint(pointer_table(context, builder, inner, parts), word))
            arena = context.make_array(sig.args[2])(context, builder, args[2]).data
            at = builder.and_(builder.add(builder.ptrtoint(arena, word), word(63)), word(-64))
            return call_program(builder, [word(address), *tables, at])

        return signature, codegen

    names: dict[str, Any] = {"np": np, "run": run}
    lines = [f"def compiled({', '.join(f'a{k}' for k in range(len(in_specs)))}):"]
    arguments = []
    for k, s in enumerate(in_specs):
        names[f"t{k}"] = s.dtype.type
        if s.shape:
            lines.append(
                f"    if a{k}.shape != {s.shape!r}: raise ValueError('{name}: argument {k} must have shape {s.shape}')"
            )
            arguments.append(f"a{k}")
        else:
            arguments.append(f"t{k}(a{k})")
    results = []
    for k, s in enumerate(out_specs):
        names[f"u{k}"] = s.dtype.type
        lines.append(f"    r{k} = np.empty({s.shape or (1,)!r}, u{k})")
        results.append(f"r{k}" if s.shape else f"r{k}[0]")
    lines.append(f"    scratch = np.empty({scratch_size}, np.uint8)")
    outs = ", ".join(f"r{k}" for k in range(len(out_specs)))
    lines.append(
        f"    if run(({', '.join(arguments)},), ({outs},), scratch) != 0: raise RuntimeError('{name}: the "
        f"compiled program failed')"
    )
    lines.append(f"    return {results[0] if len(results) == 1 else '(' + ', '.join(results) + ')'}")
    exec("\n".join(lines), names)  # noqa: S102  the text is ours
    compiled = numba.njit(names["compiled"])
    compiled.program = program  # what its address points into must live as long
    return compiled
