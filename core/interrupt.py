"""Ctrl-C that waits: loops end where what they have is whole."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

__all__ = ["patient_interrupts"]


@contextlib.contextmanager
def patient_interrupts() -> Iterator[list[int]]:
    """Ctrl-C inside only makes the list, which is yielded, no longer empty; a second one interrupts at once.

    Where somebody else looks after Ctrl-C, and outside the main thread, nothing changes and the list stays empty.

    Examples
    --------
    >>> from triskele.core.extend import patient_interrupts
    >>> with patient_interrupts() as wanted:
    ...     for step in range(3):
    ...         if wanted:
    ...             break
    >>> step
    2
    """
    seen: list[int] = []
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield seen
        return

    def note(number, frame):
        if seen:
            raise KeyboardInterrupt
        seen.append(number)

    signal.signal(signal.SIGINT, note)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
