"""The native step loop: phases of tasks, run over and over without entering Python."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from triskele.core.extend import Task, check, native, threads

from .flags import ENERGY, FORCES_STALE, REBUILD, STATUS, STEP

__all__ = ["Phase", "Program", "StepPlan"]


@dataclass(eq=False)
class Phase:
    """The tasks that run between two barriers of all threads."""

    tasks: Sequence[Task] = ()
    # "parallel": threads take the chunks of all tasks in any order; "sequence": all tasks have the same number of
    # chunks, and chunk c runs through them one after the other, so that it stays in cache
    mode: Literal["parallel", "sequence"] = "parallel"
    every: int = 1  # only in steps whose number is a multiple
    flag: int | None = None  # only when this word of the flags is not zero
    call: Callable[[], None] | None = None  # a Python function in place of tasks
    name: str = ""  # in timings and errors
    # when a phase fails and the cause is fixed, the loop resumes at the nearest such phase at or before the failed one
    redo: bool = False
    # forces are computed from here on: after a plan is rebuilt, the loop resumes here to fill all of its arrays
    begins: bool = False

    def __post_init__(self):
        if self.mode == "sequence" and len({t.chunks for t in self.tasks}) > 1:
            raise ValueError(
                f"phase {self.name}: tasks in sequence must have the same number of chunks, got "
                f"{[(t.kernel.__name__, t.chunks) for t in self.tasks]}"
            )
        check.integer(self.every, f"phase {self.name}: every", 1)


_FLAG_NAMES = {ENERGY: "ENERGY", REBUILD: "REBUILD", FORCES_STALE: "FORCES_STALE"}


@dataclass(frozen=True)
class StepPlan:
    """The phases of a step, in the order in which they run; its text is one line for each."""

    phases: tuple[Phase, ...]

    def __repr__(self) -> str:
        lines = []
        for k, phase in enumerate(self.phases):
            work = ", ".join(f"{t.kernel.__name__} ({t.chunks})" for t in phase.tasks)
            when = f", every {phase.every} steps" if phase.every > 1 else ""
            when += "" if phase.flag is None else f", if {_FLAG_NAMES.get(phase.flag, phase.flag)} is set"
            mode = "Python" if phase.call is not None else phase.mode
            lines.append(f"{k}: {phase.name or 'unnamed'} [{mode}{when}]: {work or 'no tasks'}")
        return "\n".join(lines)


_WORDS = 8  # of a phase's record: mode, tasks, number of tasks, chunks, every, flag, is Python's, unused


class Program:
    """Phases made ready for the native loop.

    ``flags[STEP]`` (`flags` is int64) is the number of the step, counted up at its end; a phase that leaves
    ``flags[STATUS]`` other than 0 stops the loop.
    """

    def __init__(self, phases: Sequence[Phase], flags: np.ndarray):
        self.phases = list(phases)
        self.flags = flags
        self.is_current: Callable[[], bool] = lambda: True  # whether the phases still belong to the engine's plans
        self._records = np.zeros((len(self.phases), _WORDS), np.int64)
        self._tasks = []  # of each phase: entry, context, chunk at which it begins
        for record, phase in zip(self._records, self.phases):
            starts = np.cumsum([0, *[t.chunks for t in phase.tasks]])
            table = np.array(
                [(t.entry, t.context.ctypes.data, s) for t, s in zip(phase.tasks, starts)], np.int64
            ).reshape(-1, 3)
            self._tasks.append(table)
            sequence = phase.mode == "sequence"
            chunks = (phase.tasks[0].chunks if phase.tasks else 0) if sequence else starts[-1]
            record[:] = [
                sequence,
                table.ctypes.data,
                len(table),
                chunks,
                phase.every,
                -1 if phase.flag is None else phase.flag,
                phase.call is not None,
                0,
            ]
        self._addresses = self._records.ctypes.data, self.flags.ctypes.data  # which take a microsecond each to find
        self._next = 0  # the phase to resume with, after an interruption

    def run(self, steps: int) -> int:
        """Make steps until ``flags[STEP]`` has grown by `steps`, or a phase fails.

        Return -1, or the number of the phase after which ``flags[STATUS]`` is not 0. The next call resumes with that
        very phase, in the same step: clear the status, mend the cause, and call `run` for the rest. Return -2 when a
        call to Python has made the phases outdated: continue with a new program.
        """
        last = int(self.flags[STEP]) + steps
        loop, (records, flags), count = _loop(), self._addresses, len(self.phases)
        while True:
            at = loop(records, count, flags, self._next, last)
            if at < 0:
                self._next = 0
                return -1
            self._next = at
            if self.flags[STATUS]:
                return at
            self.phases[at].call()
            if self.flags[STATUS]:
                return at
            self._next = at + 1
            if not self.is_current():
                return -2

    def restart(self) -> None:
        """Forget an interruption: the next `run` begins with the first phase."""
        self._next = 0

    def time_phases(self, steps: int) -> dict[str, float]:
        """Seconds per step spent in each phase, by name, over `steps` steps (each phase is run by a loop of its
        own).
        """
        import time

        spent: dict[str, float] = {}
        for _ in range(steps):
            step = self.flags[STEP]
            for k, phase in enumerate(self.phases):
                start = time.perf_counter()
                if phase.call is not None:
                    if step % phase.every == 0 and (phase.flag is None or self.flags[phase.flag]):
                        phase.call()
                else:
                    self.flags[STEP] = step
                    _loop()(self._records[k:].ctypes.data, 1, self.flags.ctypes.data, 0, step + 1)
                    if self.flags[STATUS]:
                        raise RuntimeError(f"phase {phase.name}: status {self.flags[STATUS]} while timing")
                spent[phase.name] = spent.get(phase.name, 0.0) + time.perf_counter() - start
            self.flags[STEP] = step + 1
        return {name: t / steps for name, t in spent.items()}


@cache
def _loop():
    loaded = native.load(
        _LOOP.replace("$STEP", str(STEP)).replace("$STATUS", str(STATUS)),
        {"tsk_parallel_for": threads.address()},
        opt=2,
    )
    prototype = ctypes.CFUNCTYPE(
        ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
    )
    return prototype(loaded.address("tsk_md_loop"))


# i64 tsk_md_loop(records, n, flags, first, last): -1 when flags[STEP] == last, else the phase that failed or is
# Python's
_LOOP = """
declare void @tsk_parallel_for(ptr, ptr, i64)

define internal void @chunk(ptr %record, i64 %chunk) {
entry:
  %mode = load i64, ptr %record
  %p1 = getelementptr i64, ptr %record, i64 1
  %tasks = load ptr, ptr %p1
  %p2 = getelementptr i64, ptr %record, i64 2
  %n = load i64, ptr %p2
  %is.sequence = icmp ne i64 %mode, 0
  br i1 %is.sequence, label %each, label %find

each:
  %k = phi i64 [0, %entry], [%k1, %each.body]
  %more = icmp slt i64 %k, %n
  br i1 %more, label %each.body, label %done
each.body:
  %i = mul i64 %k, 3
  %q0 = getelementptr i64, ptr %tasks, i64 %i
  %f = load ptr, ptr %q0
  %q1 = getelementptr i64, ptr %q0, i64 1
  %c = load ptr, ptr %q1
  call void %f(ptr %c, i64 %chunk)
  %k1 = add i64 %k, 1
  br label %each

find:  ; the last task that begins at or before this chunk
  %j = phi i64 [%n, %entry], [%j1, %find]
  %j1 = sub i64 %j, 1
  %i2 = mul i64 %j1, 3
  %r0 = getelementptr i64, ptr %tasks, i64 %i2
  %r2 = getelementptr i64, ptr %r0, i64 2
  %start = load i64, ptr %r2
  %before = icmp sgt i64 %start, %chunk
  br i1 %before, label %find, label %found
found:
  %g = load ptr, ptr %r0
  %r1 = getelementptr i64, ptr %r0, i64 1
  %d = load ptr, ptr %r1
  %own = sub i64 %chunk, %start
  call void %g(ptr %d, i64 %own)
  ret void
done:
  ret void
}

define i64 @tsk_md_loop(ptr %records, i64 %n, ptr %flags, i64 %first, i64 %last) {
entry:
  %step.p = getelementptr i64, ptr %flags, i64 $STEP
  %status.p = getelementptr i64, ptr %flags, i64 $STATUS
  br label %steps
steps:
  %from = phi i64 [%first, %entry], [0, %next.step]
  %step = load i64, ptr %step.p
  %going = icmp slt i64 %step, %last
  br i1 %going, label %phases, label %finished
phases:
  %p = phi i64 [%from, %steps], [%p1, %next]
  %inside = icmp slt i64 %p, %n
  br i1 %inside, label %phase, label %next.step
phase:
  %o = mul i64 %p, 8
  %record = getelementptr i64, ptr %records, i64 %o
  %e.p = getelementptr i64, ptr %record, i64 4
  %every = load i64, ptr %e.p
  %always = icmp eq i64 %every, 1
  br i1 %always, label %due, label %divide
divide:
  %rest = srem i64 %step, %every
  %is.due = icmp eq i64 %rest, 0
  br i1 %is.due, label %due, label %next
due:
  %f.p = getelementptr i64, ptr %record, i64 5
  %flag = load i64, ptr %f.p
  %has.flag = icmp sge i64 %flag, 0
  br i1 %has.flag, label %look, label %go
look:
  %w.p = getelementptr i64, ptr %flags, i64 %flag
  %word = load i64, ptr %w.p
  %set = icmp ne i64 %word, 0
  br i1 %set, label %go, label %next
go:
  %y.p = getelementptr i64, ptr %record, i64 6
  %python = load i64, ptr %y.p
  %is.python = icmp ne i64 %python, 0
  br i1 %is.python, label %leave, label %compute
compute:
  %c.p = getelementptr i64, ptr %record, i64 3
  %chunks = load i64, ptr %c.p
  %one = icmp eq i64 %chunks, 1
  br i1 %one, label %alone, label %some
some:
  %none = icmp eq i64 %chunks, 0
  br i1 %none, label %next, label %many
alone:
  call void @chunk(ptr %record, i64 0)
  br label %check
many:
  call void @tsk_parallel_for(ptr @chunk, ptr %record, i64 %chunks)
  br label %check
check:
  %status = load i64, ptr %status.p
  %bad = icmp ne i64 %status, 0
  br i1 %bad, label %leave, label %next
next:
  %p1 = add i64 %p, 1
  br label %phases
next.step:
  %step1 = add i64 %step, 1
  store i64 %step1, ptr %step.p
  br label %steps
leave:
  ret i64 %p
finished:
  ret i64 -1
}
"""
