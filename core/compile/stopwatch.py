"""Time per step of a compiled program: the program reads the processor's clock after every step."""

from __future__ import annotations

import ctypes
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from ..kernels import native

if TYPE_CHECKING:
    from .emit import Unit
    from .engine import NativeModule

__all__ = ["CLOCK", "Stopwatch"]

CLOCK = "llvm.readcyclecounter" if native.host_target().triple.startswith("x86") else "llvm.readsteadycounter"


class Stopwatch:
    """Slots for the time between two readings of the clock, which belongs to the step in between.

    Since each reading ends one interval and begins the next, the slots add up to the time of the whole program. The
    body of a loop reads the clock itself, so that the slot of the loop has only what the body's steps leave.
    """

    def __init__(self) -> None:
        # What each slot times: a step, or None for the beginning of a function: in `main` the time since the last
        # call, in a body what its loop did since the last reading.
        self.slots: list[tuple[Unit, Any]] = []

    def read(self, unit: Unit, step: Any = None) -> None:
        """Emit a reading of the clock after a step, or at the beginning of a function."""
        unit.module.declares.add(f"declare i64 @{CLOCK}()")
        unit.line(f"call void @tsk_lap(i64 {len(self.slots)})")
        self.slots.append((unit, step))

    def definitions(self) -> list[str]:
        """LLVM IR of what the readings call."""
        return [
            f"@tsk_laps = global [{2 * len(self.slots)} x i64] zeroinitializer",
            "@tsk_last = internal global i64 0",
            "define i64 @tsk_now() {",
            f"  %t = call i64 @{CLOCK}()",
            "  ret i64 %t",
            "}",
            "define internal void @tsk_lap(i64 %slot) alwaysinline {",
            f"  %now = call i64 @{CLOCK}()",
            "  %last = load i64, ptr @tsk_last",
            "  store i64 %now, ptr @tsk_last",
            "  %passed = sub i64 %now, %last",
            "  %k = shl i64 %slot, 1",
            "  %sum = getelementptr i64, ptr @tsk_laps, i64 %k",
            "  %old = load i64, ptr %sum",
            "  %new = add i64 %old, %passed",
            "  store i64 %new, ptr %sum",
            "  %k1 = or i64 %k, 1",
            "  %count = getelementptr i64, ptr @tsk_laps, i64 %k1",
            "  %c = load i64, ptr %count",
            "  %c1 = add i64 %c, 1",
            "  store i64 %c1, ptr %count",
            "  ret void",
            "}",
        ]

    def laps(self, module: NativeModule) -> np.ndarray:
        """The slots of a loaded program, which go on counting: an (n, 2) int64 array of ticks and readings."""
        found = (ctypes.c_int64 * (2 * len(self.slots))).from_address(module.address("tsk_laps"))
        return np.ctypeslib.as_array(found).reshape(-1, 2)

    def ticks(self, module: NativeModule) -> tuple[int, float]:
        """The processor's clock and Python's, read together: two such pairs give the length of a tick."""
        return ctypes.CFUNCTYPE(ctypes.c_int64)(module.address("tsk_now"))(), time.perf_counter()
