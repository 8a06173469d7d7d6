"""Ctrl-C that waits: loops end where what they have is whole."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

__all__ = ["interruption", "patient_interrupts"]


@contextlib.contextmanager
def patient_interrupts(terminate: bool = False) -> Iterator[list[int]]:
    """Ctrl-C inside only makes the list, which is yielded, no longer empty; a second one interrupts at once.

    Where somebody else looks after Ctrl-C, and outside the main thread, nothing changes and the list stays empty.

    Parameters
    ----------
    terminate : bool, default False
        True to wait at SIGTERM, too; the list holds the number of the signal that came.

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
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    ours = [
        s
        for s, handler in usual.items()
        if threading.current_thread() is threading.main_thread()
        and signal.getsignal(s) is handler
        and (terminate or s == signal.SIGINT)
    ]

    def note(number, frame):
        if seen:
            raise KeyboardInterrupt
        seen.append(number)

    for s in ours:
        signal.signal(s, note)
    try:
        yield seen
    finally:
        for s in ours:
            signal.signal(s, usual[s])


def interruption(number: int, where: str) -> BaseException:
    """Return what a loop raises that a signal has ended: KeyboardInterrupt, or SystemExit with the signal's status.

    Parameters
    ----------
    number : int
        Signal that came.
    where : str
        Message of the KeyboardInterrupt.

    Examples
    --------
    >>> import signal
    >>> from triskele.core.extend import interruption
    >>> interruption(signal.SIGTERM, "train: stopped after step 3")
    SystemExit(143)
    """
    return KeyboardInterrupt(where) if number == signal.SIGINT else SystemExit(128 + number)
