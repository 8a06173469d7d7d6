"""Say on standard error what is being compiled when that takes more than a second."""

from __future__ import annotations

import gc
import inspect
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..show.progress import say
from ..transforms.autograph.long import copies

__all__ = ["Waiting"]

PATIENCE = 1.0  # seconds


class Waiting:
    """The time that one function has taken to be traced and compiled, and the loops that were copied meanwhile."""

    def __init__(self, f: Callable[..., Any] | None, name: str):
        f = inspect.unwrap(f) if f is not None else f
        code = getattr(getattr(f, "__func__", f), "__code__", None)
        if code is not None and not str(getattr(f, "__module__", "")).startswith("triskele.core"):
            name = f"{name} at {code.co_filename}:{code.co_firstlineno}"
        self.what = name
        self.left, self.said = PATIENCE, False
        self.copied: dict[str, str] = {}

    @contextmanager
    def tracing(self) -> Iterator[None]:
        """Context in which the function is traced."""
        with copies() as self.copied, self.compiling():
            yield
        if self.said and self.copied:
            say(self._loops())

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Context that says what is being done once all such contexts together have taken a second.

        The garbage collector rests meanwhile: it would look at the growing graph again and again, and find nothing.
        """
        collects = gc.isenabled()
        gc.disable()
        timer, start = threading.Timer(max(self.left, 0.0), self._say), time.monotonic()
        timer.daemon = True
        if not self.said:
            timer.start()
        try:
            yield
        finally:
            timer.cancel()
            if collects:
                gc.enable()
            self.left -= time.monotonic() - start

    def _say(self):
        self.said = True
        say("; ".join([f"compiling {self.what}", *([self._loops()] if self.copied else [])]))

    def _loops(self):
        return "; ".join([f"the {place} is copied, as {why}" for place, why in list(self.copied.items())])
