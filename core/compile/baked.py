"""Values that a compiled function keeps from the time it was traced: random numbers, the time, arrays of its
closure.
"""

from __future__ import annotations

import hashlib
import math
import pickle
import random
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..dtypes import kind_of
from ..errors import BakedValueWarning
from ..graph.graph import Const, Graph
from ..transforms.autograph.pure import codes
from .rebound import Reading, changed, readings
from .wrapper import MISS

__all__ = ["ClosedOver", "closed_over", "warn_of_baked"]

_CLOCKS = {
    id(getattr(time, n))
    for n in ("time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time")
}
SAMPLED = 1 << 16  # bytes of an array that its fingerprint reads
_SHARE = 100  # times longer than a look at what a function closes over until the next one
_LEAST = 2e-3  # seconds until then, at least


def _outside(f: Callable[..., Any]) -> dict[str, Any]:
    """The globals and closure variables that the code of `f` names."""
    f = getattr(f, "__func__", f)
    code = getattr(f, "__code__", None)
    if code is None:
        return {}
    names = {n for c in codes(code) for n in c.co_names}
    found = {n: f.__globals__[n] for n in names if n in f.__globals__}
    for n, cell in zip(code.co_freevars, f.__closure__ or (), strict=True):
        try:
            found[n] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found


def _states(outside: dict[str, Any]) -> dict[str, bytes]:
    """Return the state of each source of random numbers."""
    # the first is the generator that legacy code shares
    found = {"np.random": np.random.get_state(legacy=False), "random": random.getstate()}  # noqa: NPY002
    found.update({n: v.bit_generator.state for n, v in outside.items() if isinstance(v, np.random.Generator)})
    return {n: pickle.dumps(s) for n, s in found.items()}


def _reads_clock(f: Callable[..., Any], outside: dict[str, Any]) -> bool:
    if any(id(v) in _CLOCKS for v in outside.values()):
        return True
    code = getattr(getattr(f, "__func__", f), "__code__", None)
    if code is None or not any(v is time for v in outside.values()):
        return False
    attributes = {n for c in codes(code) for n in c.co_names}
    return any(id(getattr(time, n, None)) in _CLOCKS for n in attributes)


@contextmanager
def warn_of_baked(f: Callable[..., Any], name: str) -> Iterator[None]:
    """Warn when tracing `f` inside draws random numbers of NumPy or Python, or when `f` reads a clock."""
    outside = _outside(f)
    before = _states(outside)
    yield
    after = _states(outside)
    for source in before:
        if before[source] != after[source]:
            _warn(
                f"jit of {name}: it draws from {source} while it is traced, so that every call sees the same numbers "
                "(use core.random with a key that is an argument, or draw outside)",
                7,
            )
    if _reads_clock(f, outside):
        _warn(f"jit of {name}: it reads a clock, which happens once, when it is traced (read it outside)", 7)


def _warn(text: str, level: int) -> None:
    warnings.warn(text, BakedValueWarning, stacklevel=level)


def _fingerprint(x: np.ndarray) -> bytes:
    flat = x.reshape(-1) if x.flags.c_contiguous else x.ravel()
    step = max(1, flat.nbytes // SAMPLED)
    return hashlib.blake2b(np.ascontiguousarray(flat[::step]).view(np.uint8), digest_size=16).digest()


class ClosedOver:
    """What a function's programs keep from outside: arrays that are constants of them and what was in these, and values
    that were read by name.
    """

    def __init__(self, arrays: dict[int, tuple[weakref.ref[np.ndarray], bytes]], read: list[Reading]):
        self._arrays, self._read = arrays, read
        self._next = 0.0

    def check(self, name: str, level: int = 4) -> None:
        """Warn of what has changed; looks as often as takes a hundredth of the time."""
        now = time.perf_counter()
        if now < self._next:
            return
        found = []
        for key, (ref, known) in list(self._arrays.items()):
            x = ref()
            if x is None:
                self._arrays.pop(key, None)
            elif _fingerprint(x) != known:
                self._arrays.pop(key, None)
                found.append(f"an array {x.dtype}{x.shape} that it closes over")
        gone = [r for r in self._read if changed(r)]
        if gone:
            found += [r.what for r in gone]
            self._read = [r for r in self._read if all(r is not g for g in gone)]
        end = time.perf_counter()
        self._next = end + max(_LEAST, _SHARE * (end - now)) if self._arrays or self._read else math.inf
        for what in found:
            _warn(
                f"jit of {name}: {what} has changed since it was compiled, which its programs do not see (pass it as "
                "an argument, or compile again with core.jit)",
                level,
            )

    def ask(self, caller: Callable[..., Any], *flat: Any) -> Any:
        """Call `caller`, which has no clock of its own; a `MISS` where it is time to look."""
        return MISS if time.perf_counter() >= self._next else caller(*flat)

    def pause(self) -> float:
        """Seconds until the next look; 0 if there is none."""
        return 0.0 if self._next == math.inf else max(1e-9, self._next - time.perf_counter())


def closed_over(
    f: Callable[..., Any], graph: Graph, before: ClosedOver | None, fixed: dict[str, Any]
) -> ClosedOver | None:
    """What `f` reads from outside: arrays that are constants of `graph`, its trace, and those known `before`; values of
    names; and attributes of its static arguments `fixed`.
    """
    constants = {
        _fingerprint(a.value)
        for e in graph.equations
        for a in e.inputs
        if type(a) is Const and isinstance(a.value, np.ndarray)
    }
    arrays = {} if before is None else before._arrays
    for v in _outside(f).values() if constants else ():
        for x in v if type(v) in (list, tuple) else v.values() if type(v) is dict else [v]:
            if type(x) is np.ndarray and kind_of(x.dtype) in "biufc" and (known := _fingerprint(x)) in constants:
                arrays[id(x)] = weakref.ref(x), known
    read = readings(f, fixed)
    return ClosedOver(arrays, read) if arrays or read else None
