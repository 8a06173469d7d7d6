"""The loop around the compiled loop: blocks of steps, reports between them, Ctrl-C, and what happens when something
fails.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from triskele.core.extend import patient_interrupts

from ..engine.flags import FORCES_STALE
from ..report.checkpoint import Checkpoint
from ..report.reporter import Reporter
from .guard import last_good_path, save_last_good

if TYPE_CHECKING:
    from .simulation import Simulation

__all__ = ["run"]

_BLOCK = 0.2  # seconds between looks at Ctrl-C and moves of the progress bar
_LOOK = 1.0  # seconds between looks at whether a reporter has changed the system
_RAMP = 8  # a block is at most this many times the one before, because the first ones compile


def run(sim: Simulation, steps: int, reporters: Sequence[Reporter]) -> None:
    """Make `steps` steps of `sim` with reports; see `Simulation.run`."""
    if sim._running:
        raise RuntimeError("run: must not be called by a reporter of a running simulation")
    paths = [os.path.abspath(r.path) for r in reporters if hasattr(r, "path")]
    if len(set(paths)) < len(paths):
        raise ValueError(f"run: reporters must write to different files, got {max(paths, key=paths.count)!r} twice")
    # a checkpoint records how long the other files are, so it comes last
    reporters = sorted(reporters, key=lambda r: isinstance(r, Checkpoint))
    sim.check_unchanged()
    vars(sim).update(target=sim.step + steps, stopped=None)
    sim._guard.path = last_good_path(reporters)
    opened: list[Reporter] = []
    sim._running = True
    try:
        for r in reporters:
            r.open(sim)
            opened.append(r)
        with patient_interrupts() as interrupted:
            _loop(sim, opened, interrupted)
        if opened:
            sim.check_unchanged()
    except BaseException as error:
        _close(opened, error)
        raise
    finally:
        sim._running = False
    _close(opened, None)
    if interrupted:
        raise KeyboardInterrupt(f"run: stopped after step {sim.step}")


def _loop(sim, reporters, interrupted):
    sim._guard.remember()
    block, looked = 1, time.perf_counter()
    while sim.step < sim.target and not interrupted and sim.stopped is None:
        step = sim.step
        due = min([sim.target, *((step // r.every + 1) * r.every for r in reporters)])
        wanted = max(1, int(sim._rate * _BLOCK)) if sim._rate else 1
        block = max(1, min(wanted, block * _RAMP))
        began = time.perf_counter()
        made = min(block, due - step)
        sim._guard.advance(made)
        took = time.perf_counter() - began
        # a first block holds compilation, which says nothing about speed
        sim._rate = made / max(took, 1e-7)
        for r in reporters:
            r.tick(sim)
        if sim.step == due:
            _report(sim, reporters)
            if time.perf_counter() - looked > _LOOK:
                sim.check_unchanged()
                looked = time.perf_counter()
            if sim._engine.flags[FORCES_STALE]:  # a callback may have changed the state
                sim._guard.remember()


def _report(sim, reporters):
    step = sim.step
    for r in reporters:
        if step % r.every:
            continue
        try:
            if isinstance(r, Checkpoint):
                for other in reporters:
                    other.sync()
            r.report(sim, step)
        except StopIteration as stop:
            vars(sim)["stopped"] = str(stop) or "stopped by a reporter"
        except Exception as error:
            error.add_note(f"{type(r).__name__}: raised this at step {step}; {save_last_good(sim, sim._guard.path)}")
            raise


def _close(reporters, error):
    """Close all reporters, even if some fail."""
    failed = []
    for r in reporters:
        try:
            r.close()
        except Exception as problem:  # noqa: BLE001  every reporter is closed before the first error is raised
            failed.append((r, problem))
    for r, fault in failed:
        if error is not None:
            error.add_note(f"{type(r).__name__}: could not be closed: {fault}")
        else:
            error = fault
    if failed and error is failed[0][1]:
        raise error
