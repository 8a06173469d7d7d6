"""`said`: one line about work that takes more than two seconds, in logs and pipes too."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

from triskele.core.extend import is_watched

__all__ = ["PATIENCE", "said", "said_without_bar", "say"]

PATIENCE = 2.0  # seconds of silence


def say(line: str) -> None:
    """Print a line on standard error, unless ``TRISKELE_QUIET=1``."""
    if os.environ.get("TRISKELE_QUIET", "0") in ("", "0"):
        with suppress(AttributeError, OSError, ValueError):  # no stream, or a closed one
            print(f"triskele: {line}", file=sys.stderr, flush=True)


@contextmanager
def said(line: str) -> Iterator[None]:
    """Say `line` if the block takes more than two seconds."""
    timer = threading.Timer(PATIENCE, say, [line])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def said_without_bar(line: str, progress: bool | None) -> AbstractContextManager[None]:
    """Return `said` for work whose progress bar is not shown, as in logs, unless the user does not want one."""
    return said(line) if progress is None and not is_watched() else nullcontext()
