"""Compile the kernels that a script will need next in other processes.

Numba compiles in one thread. Each package lists in ``kernels.txt`` the kernels that its usual runs compile, in order.
When one of them is missing from the cache, helpers on idle processors compile later ones, which this process then loads
from the cache. A list that is incomplete or out of date costs time alone. ``TRISKELE_COMPILE_JOBS`` is the number of
processes, 1 for no helpers.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from ..disk.disk_cache import has_shipped

__all__ = ["Job", "compiled_ahead", "jobs_of", "serve", "text_of"]

_SUITE = Path(__file__).parents[2]  # .../triskele
_VARIABLE = "TRISKELE_COMPILE_JOBS"
_MOST = 4  # processes by default: more find nothing to do
_WORTH = 3.0  # seconds of listed work; the start of a helper takes more than one
_LOOK_AHEAD = 12  # jobs, of which the longest is done first: the nearest would be needed before it is ready
_PATIENCE = 60.0  # seconds to wait for a helper, which may have been stopped


class Job(NamedTuple):
    """A kernel below triskele and types of its arguments, as `text_of` writes them."""

    module: str
    name: str
    types: str | None


def text_of(types: tuple[Any, ...]) -> str | None:
    """Return Numba types as words, such as ``"i8 f4[2] *f8"`` for a number, a matrix and a pointer; None for others.

    A named tuple is written as its class below triskele, with its parts: ``"sponge.pme.mesh.Mesh(i8[1],f4[2])"``.
    """
    from numba.core import types as nb
    from numba.np.numpy_support import as_dtype

    words = []
    for kind in types:
        if home := getattr(kind, "instance_class", None):
            parts = text_of(tuple(kind))
            if parts is None or "(" in parts or not home.__module__.startswith("triskele."):
                return None
            words.append(f"{home.__module__.removeprefix('triskele.')}.{home.__qualname__}({parts.replace(' ', ',')})")
            continue
        number = getattr(kind, "dtype", kind)
        if not isinstance(number, nb.Number | nb.Boolean):
            return None
        code = as_dtype(number).str[1:]
        words.append(f"{code}[{kind.ndim}]" if isinstance(kind, nb.Array) else "*" * (kind != number) + code)
    text = " ".join(words)
    return text if _types_of(text) == tuple(types) else None


def _types_of(text: str) -> tuple[Any, ...]:
    import numpy as np
    from numba.core import types as nb
    from numba.core.types.containers import BaseTuple
    from numba.np.numpy_support import from_dtype

    found: list[Any] = []
    for word in text.split():
        home, inner, parts = word.partition("(")
        if inner:
            module, _, name = home.rpartition(".")
            kind = getattr(import_module(f"triskele.{module}"), name)
            found.append(BaseTuple.from_types(_types_of(parts[:-1].replace(",", " ")), kind))
            continue
        code, _, ndim = word.strip("*]").partition("[")
        number = from_dtype(np.dtype(code))
        found.append(nb.Array(number, int(ndim), "C") if ndim else nb.CPointer(number) if word[0] == "*" else number)
    return tuple(found)


@cache
def jobs_of(package: str) -> list[dict[Job, float]]:
    """Return for each run that the list of a package describes its jobs, with the seconds that they took once."""
    runs: list[dict[Job, float]] = []
    path = _SUITE / package / "kernels.txt"
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        if line.endswith(":"):
            runs.append({})
        elif line and not line.startswith("#"):
            milliseconds, module, name, types = line.split(maxsplit=3)
            runs[-1][Job(module, name, types)] = int(milliseconds) / 1000
    return runs


class _Team:
    """Helpers that compile the jobs of one run."""

    def __init__(self, jobs: dict[Job, float], helpers: int):
        self.lock = threading.Lock()
        self.seconds, self.waiting = jobs, list(jobs)
        self.ends: dict[Job, threading.Event] = {}  # of jobs that a helper has begun
        self.busy = time.monotonic() + 1.0  # until when this process probably compiles
        self.processes: list[subprocess.Popen] = []
        self.threads = [threading.Thread(target=self._feed, daemon=True) for _ in range(helpers)]
        for thread in self.threads:
            thread.start()

    def take(self, job: Job) -> bool:
        """Return True when a helper has compiled the job, False if the caller is to do it."""
        with self.lock:
            # twice as long as listed: others may be using the processors
            self.busy = time.monotonic() + 1.0 + 2.0 * self.seconds.get(job, 2.0)
            if job in self.waiting:
                self.waiting.remove(job)
            end = self.ends.get(job)
        return end is not None and end.wait(_PATIENCE)

    def _next(self) -> Job | None:
        with self.lock:
            if not self.waiting or time.monotonic() > self.busy:
                return None
            job = max(self.waiting[:_LOOK_AHEAD], key=lambda job: self.seconds[job])
            self.waiting.remove(job)
            self.ends[job] = threading.Event()
            return job

    def _feed(self) -> None:
        variables = {_VARIABLE: "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        code = "from triskele.core.kernels.ahead import serve; serve()"
        with suppress(OSError):  # no process, or a broken pipe
            process: Any = subprocess.Popen(
                [sys.executable, "-P", "-c", code],
                env=os.environ | variables,
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            self.processes.append(process)
            with process:
                self._hand_out(process)

    def _hand_out(self, process: Any) -> None:
        while (job := self._next()) is not None:
            try:
                process.stdin.write(f"{job.module} {job.name} {job.types}\n")
                process.stdin.flush()
                process.stdout.readline()
            finally:
                self.ends[job].set()


_team: _Team | None = None


def compiled_ahead(function: Any, types: tuple[Any, ...]) -> bool:
    """Return True if a helper has meanwhile compiled this kernel for these Numba types; start helpers if that pays."""
    global _team
    if _helpers() == 0:
        return False
    job = Job(function.__module__.removeprefix("triskele."), function.__qualname__, text_of(types))
    if _team is None or not any(thread.is_alive() for thread in _team.threads):
        others = _others(job)
        if sum(others.values()) < _WORTH:
            return False
        _team = _Team(others, _helpers())
    return _team.take(job)


def _others(job: Job) -> dict[Job, float]:
    """Return the other jobs of the run that meets a job soonest, beginning with those that follow it."""
    runs = [run for run in jobs_of(job.module.split(".")[0]) if job in run]
    if not runs:
        return {}
    run = min(runs, key=lambda run: list(run).index(job))
    jobs, at = list(run), list(run).index(job)
    return {other: run[other] for other in jobs[at + 1 :] + jobs[:at]}


def _helpers() -> int:
    """Return how many helpers there may be: none where kernels are shipped, or no processor is idle."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    jobs = os.environ.get(_VARIABLE) or str(min(_MOST, cores))
    if not jobs.isdecimal():
        raise ValueError(f"{_VARIABLE}: must be a whole number of processes, got {jobs!r}")
    busy = hasattr(os, "getloadavg") and os.getloadavg()[0] >= cores
    python = Path(sys.executable or "").name.startswith("python")  # else Python is embedded in a program
    return max(0, int(jobs) - 1) if python and not busy and not has_shipped() else 0


def _forget() -> None:
    """Drop the helpers, which belong to the parent of a forked process."""
    global _team
    _team = None


def _end() -> None:
    for process in _team.processes if _team is not None else ():
        process.kill()


atexit.register(_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def serve() -> None:
    """Compile the jobs that arrive on standard input, and answer each with a line."""
    answers, sys.stdout = sys.stdout, sys.stderr  # what an import prints is no answer
    for line in sys.stdin:
        module, name, types = line.split(maxsplit=2)
        with suppress(Exception):  # the caller compiles it, and shows what is wrong
            getattr(import_module(f"triskele.{module}"), name).dispatcher.compile(_types_of(types))
        print(file=answers, flush=True)
