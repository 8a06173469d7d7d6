"""Say that kernels are being compiled: the first call of a function may take a while."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

from ..show.progress import is_watched, progress_bar, say

__all__ = ["compiling"]

PATIENCE = 1.0  # seconds of compilation before anything is said, and of silence before the bar is closed

_log = logging.getLogger(__name__)


class _Notice:
    """A bar that counts kernels, shown from the second on that compilation takes, and closed when it pauses."""

    def __init__(self):
        self._lock = threading.RLock()
        self._seconds, self._started = 0.0, 0.0
        self._timer: threading.Timer | None = None
        self._bar: Any = None
        self._said = False  # in a log, once for a process: each pause would bring another line

    def start(self) -> None:
        with self._lock:
            self._started = time.monotonic()
            self._after(max(0.0, PATIENCE - self._seconds), self._open)

    def end(self, name: str) -> None:
        seconds = time.monotonic() - self._started
        _log.info("compiled %s in %.2f s", name, seconds)
        with self._lock:
            self._seconds += seconds
            if self._bar is not None:
                self._bar.update()
            self._after(PATIENCE, self._close)

    def _after(self, seconds, function):
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(seconds, function)
        self._timer.daemon = True
        self._timer.start()

    def _open(self):
        with self._lock:
            if self._bar is None and is_watched():
                self._bar = progress_bar("triskele: compiling, once on this machine", "kernel", show=True)
            elif self._bar is None and not self._said:
                self._said = True
                say("compiling, once on this machine")

    def _close(self):
        with self._lock:
            if self._bar is not None:
                self._bar.close()
            self._bar, self._seconds = None, 0.0


_notice = _Notice()


@contextlib.contextmanager
def compiling(name: str) -> Iterator[None]:
    """Count the block as the compilation of one kernel, and log its name at level INFO.

    After one second of such blocks a bar appears on the standard error stream. Where that is no terminal or notebook,
    the process prints one line instead. TRISKELE_QUIET=1 silences both.
    """
    _notice.start()
    try:
        yield
    finally:
        _notice.end(name)
