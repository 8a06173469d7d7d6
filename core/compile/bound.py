"""Compiled programs bound to arrays, called by machine code without Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

__all__ = ["Bound", "call_program", "run_program"]


class Bound:
    """A compiled program with the arrays that it reads and fills.

    Parameters
    ----------
    program : Program
        Obtained from ``Jitted.program``.
    inputs, outputs : sequence of ndarray
        C-contiguous arrays with the shapes and dtypes of the program's flat arguments and results. They are held by
        address and never copied.
    scratch : ndarray, optional
        Scratch memory from `scratch_for`, which programs that never run at the same time may share.

    Attributes
    ----------
    words : (4,) int64 array
        Addresses of the program's entry, of the tables of inputs and outputs, and of the scratch memory. Pass them to
        `run_program`. They are valid as long as this object lives.
    """

    def __init__(
        self,
        program: Any,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        scratch: np.ndarray | None = None,
    ):
        scratch = Bound.scratch_for(program) if scratch is None else scratch
        addresses = [_address(a) for a in (*inputs, *outputs)]
        table = np.array([*addresses, 0], np.int64)  # never empty
        at = _address(table)
        self.program = program
        self.words = np.array(
            [program.module.address("main"), at, at + 8 * len(inputs), -(-_address(scratch) // 64) * 64], np.int64
        )
        self._arrays = inputs, outputs, scratch, table

    def __repr__(self) -> str:
        return f"<Bound: {len(self._arrays[0])} inputs, {len(self._arrays[1])} outputs>"

    @staticmethod
    def scratch_for(program: Any) -> np.ndarray:
        """Allocate scratch memory for a program."""
        return np.zeros(program.scratch + 64, np.uint8)


def _address(array):
    return array.__array_interface__["data"][0]  # a third of the time that array.ctypes.data takes


def call_program(builder: ir.IRBuilder, words: Sequence[ir.Value]) -> ir.Value:
    """Emit a call of a program's entry with the four i64 `words` of a `Bound`; return its i32 status, 0 on success."""
    byte = ir.IntType(8).as_pointer()
    function = builder.inttoptr(words[0], ir.FunctionType(ir.IntType(32), [byte] * 3).as_pointer())
    return builder.call(function, [builder.inttoptr(w, byte) for w in words[1:]])


@intrinsic
def run_program(typing_context, words):
    """Run the program that `Bound.words` describes.

    Returns zero if it succeeded. Otherwise ``program.module.raise_pending()`` raises the error.
    """
    if not isinstance(words, types.Array) or words.dtype != types.int64:
        return None

    def codegen(context, builder, signature, args):
        made = context.make_array(signature.args[0])(context, builder, args[0])
        data = builder.bitcast(made.data, ir.IntType(64).as_pointer())
        return call_program(builder, [builder.load(cgutils.gep_inbounds(builder, data, k)) for k in range(4)])

    return types.int32(words), codegen
