"""Compiled programs of the core called from kernels by their address: one kernel on disk serves every network.

A `Batch` has arguments and results in fixed places; a kernel fills the arguments, calls `run_program` and reads
the results, without Python in between.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele.core import tree
from triskele.core.extend import Bound, Jitted, as_argument, device, kernel, run_program

__all__ = ["Batch", "run_all"]

MOST_ROWS = 128


def _in_place(value, spec):
    """The array whose memory a program reads: `value` itself, one of shape () too, where it has the right layout."""
    if type(value) is np.ndarray and value.dtype == spec.dtype and value.flags.c_contiguous and value.flags.aligned:
        return value
    return np.ascontiguousarray(as_argument(value, spec), spec.dtype)


@device
def run_all(calls):
    """`run_program` of each row, up to the first that fails."""
    for k in range(len(calls)):
        if run_program(calls[k]) != 0:
            return 1
    return 0


@kernel(nogil=True)
def _run(calls):
    return run_all(calls)


class Batch:
    """A function of `core.jit` that takes (params, rows, ...) and returns a tuple of arrays of as many rows, with all
    in fixed places. `inputs` are (shape, dtype) of one row of each input.

    The program reads `self.inputs` in place; each run overwrites `self.outputs`. Rows are computed in pieces of 2 to
    128: there, products of matrices give each row the same bits however many there are, and the pieces stay in the
    second cache.
    """

    def __init__(self, function: Jitted, params: Any, rows: int, *inputs: tuple[tuple[int, ...], Any]):
        pieces = -(-rows // MOST_ROWS)
        self._function, self.size = function, max(2, -(-rows // pieces))  # size: rows of a piece
        self.rows = rows
        self.inputs = [np.zeros((pieces * self.size, *shape), dtype) for shape, dtype in inputs]
        program = self._program(params)
        self.outputs = [np.zeros((pieces * self.size, *s.shape[1:]), s.dtype) for s in program.traced.out_specs]
        self.calls = np.zeros((pieces, 4), np.int64)  # for `run_program`, one after the other
        self.set_params(params)

    def _program(self, params):
        return self._function.program(params, *(a[: self.size] for a in self.inputs))

    def set_params(self, params: Any) -> None:
        """Use these from now on: read at each run where they have the right layout, copied where not."""
        program = self._program(params)
        read = [(x, _in_place(x, s)) for x, s in zip(tree.flatten(params)[0], program.traced.in_specs, strict=False)]
        scratch = Bound.scratch_for(program)
        pieces = [slice(k * self.size, (k + 1) * self.size) for k in range(len(self.calls))]
        held = [h for _, h in read]
        self._bound = [
            Bound(program, [*held, *(a[part] for a in self.inputs)], [a[part] for a in self.outputs], scratch)
            for part in pieces
        ]
        for call, bound in zip(self.calls, self._bound, strict=True):
            call[:] = bound.words
        self.params, self.program = params, program
        self._copied = [(x, h) for x, h in read if isinstance(x, np.ndarray) and not np.may_share_memory(x, h)]

    def refresh(self) -> None:
        """Read arrays of the parameters again that the program has as copies: they may have been changed in place."""
        for x, held in self._copied:
            held[...] = x

    def run(self) -> None:
        """Compute all rows."""
        self.refresh()
        if _run(self.calls) != 0:
            self.failed()

    def failed(self) -> None:
        """Raise what went wrong in the last run."""
        self.program.module.raise_pending()
