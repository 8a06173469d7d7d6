"""Functions compiled by the core as tasks: they run inside the native step loop, without Python."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from triskele import core
from triskele.core.extend import Bound, Task, native

from .flags import STATUS

if TYPE_CHECKING:
    from .engine import Engine

__all__ = ["JitTask"]

_FAILED = 70  # status: a compiled function has failed


class JitTask(Task):
    """A function that the core compiles, bound to arrays that it reads and arrays that it fills.

    It is one chunk, to be put into a phase of its own when it is large, so that its own loops get all threads. What the
    core cannot compile runs as a call to Python, with the same results.

    >>> engine = sponge.Engine(sponge.System(sponge.Topology.of_particles(1), [1.0], positions=[[3.0, 4.0, 0.0]]))
    >>> out = np.zeros(())
    >>> JitTask(lambda x: np.sum(x * x), engine, [engine.positions], [out]).run()
    >>> out
    array(25.)
    """

    def __init__(
        self,
        function: Callable,  # NumPy code or a `core.jit` of the inputs; returns a tree of as many leaves as `outputs`
        engine: Engine,  # whose runner raises errors inside the function
        inputs: Sequence[np.ndarray],  # C-contiguous, like the outputs; held by address, never copied
        outputs: Sequence[np.ndarray],  # with the shapes and dtypes of the results
    ):
        jitted = function if hasattr(function, "program") else core.jit(function)
        self.kernel, self.chunks = self, 1  # a kernel has a name, which errors show
        self.__name__ = getattr(function, "__name__", "function")
        self.args = arrays = (*inputs, *outputs)
        if not all(isinstance(a, np.ndarray) and a.flags.c_contiguous and a.flags.aligned for a in arrays):
            raise TypeError(f"task {self.__name__}: inputs and outputs must be C-contiguous arrays")
        program = jitted.program(*inputs)
        wanted = [(s.shape, s.dtype) for s in program.traced.out_specs]
        given = [(a.shape, a.dtype) for a in outputs]
        if wanted != given:
            raise TypeError(f"task {self.__name__}: the function gives {wanted}, but outputs are {given}")
        self._engine_status = engine.flags[STATUS:]
        self._bound = Bound(program, inputs, outputs)
        self.context = np.array([*self._bound.words, self._engine_status.ctypes.data, 0], np.int64)
        engine.on_status(_FAILED, _raise)
        engine.jit_tasks.append(self)

    @property
    def entry(self) -> int:
        """Address of ``void entry(ptr context, i64 chunk)``."""
        return _entry()

    def run(self) -> None:
        """Run here and now."""
        self._engine_status[0] = 0
        _PROTOTYPE(self.entry)(self.context.ctypes.data, 0)
        self._engine_status[0] = 0
        self.check()

    def check(self) -> None:
        """Raise what went wrong in the last run."""
        if self.context[5]:
            self.context[5] = 0
            self._bound.program.module.raise_pending()

    def __repr__(self):
        return f"<task {self.__name__}, compiled by the core>"


def _raise(engine) -> bool:
    for task in engine.jit_tasks:
        task.check()
    raise RuntimeError("a compiled function failed without saying why")


_PROTOTYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


@cache
def _entry() -> int:
    return native.load(_CALL.replace("$FAILED", str(_FAILED)), {}, opt=1).address("entry")


_CALL = """
define void @entry(ptr %context, i64 %chunk) {
  %main = load ptr, ptr %context
  %inputs.p = getelementptr i64, ptr %context, i64 1
  %inputs = load ptr, ptr %inputs.p
  %outputs.p = getelementptr i64, ptr %context, i64 2
  %outputs = load ptr, ptr %outputs.p
  %scratch.p = getelementptr i64, ptr %context, i64 3
  %scratch = load ptr, ptr %scratch.p
  %result = call i32 %main(ptr %inputs, ptr %outputs, ptr %scratch)
  %failed = icmp ne i32 %result, 0
  br i1 %failed, label %bad, label %good
bad:
  %status.p = getelementptr i64, ptr %context, i64 4
  %status = load ptr, ptr %status.p
  store i64 $FAILED, ptr %status
  %mark.p = getelementptr i64, ptr %context, i64 5
  store i64 1, ptr %mark.p
  ret void
good:
  ret void
}
"""
