"""Sets of up to 64 cells as the bits of a uint64, for the rules of games."""

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from triskele.core.extend import device

__all__ = ["count", "lowest", "nth"]


def _bit_function(name, *constants):
    def codegen(context, builder, signature, args):
        function = builder.module.declare_intrinsic(
            name, [args[0].type], ir.FunctionType(args[0].type, [args[0].type] + [c.type for c in constants])
        )
        return builder.call(function, [args[0], *constants])

    return types.int64(types.uint64), codegen


@intrinsic
def count(typingctx, cells):
    """Return the number of cells in a set (int64)."""
    return _bit_function("llvm.ctpop")


@intrinsic
def lowest(typingctx, cells):
    """The lowest cell of a set (int64); 64 for the empty set."""
    return _bit_function("llvm.cttz", ir.Constant(ir.IntType(1), 0))


@device
def nth(cells, n):
    """The cell of a set that has `n` cells below it; n < count(cells)."""
    for _ in range(n):
        cells &= cells - np.uint64(1)
    return lowest(cells)
