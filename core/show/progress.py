"""Progress bars in one style, shown where a person can see them, and lines about long work elsewhere."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

__all__ = ["PATIENCE", "is_watched", "print_line", "progress_bar", "said", "said_without_bar", "say"]

PATIENCE = 2.0  # seconds of silence in logs and pipes
DELAY = 0.5  # seconds before an automatic bar appears: shorter work passes in silence


def is_watched() -> bool:
    """Return True if a person can see standard error: on a terminal or in a notebook, unless ``TRISKELE_QUIET=1``.

    Examples
    --------
    >>> from triskele.core.extend import is_watched
    >>> is_watched() in (True, False)
    True
    """
    if os.environ.get("TRISKELE_QUIET", "0") not in ("", "0"):
        return False
    with suppress(AttributeError, ValueError):  # no stream, one of the user's making, or a closed one
        return _in_notebook() or sys.stderr.isatty()
    return False


def _in_notebook() -> bool:
    """Return True inside a running Jupyter kernel. Test runners and tools import ipykernel without being one."""
    kernel = sys.modules.get("ipykernel.kernelapp")
    return kernel is not None and kernel.IPKernelApp.initialized()


def progress_bar(
    title: str | None, unit: str, total: int | None = None, *, done: int = 0, show: bool | None = None
) -> Any:
    """Return a progress bar: tqdm's widget in notebooks, and text on standard error elsewhere.

    Parameters
    ----------
    title : str, optional
    unit : str
        Name of what is counted, in the singular.
    total : int, optional
        Count at the end, if it is known.
    done : int, default 0
        Count at the beginning, such as that of a run that resumes.
    show : bool, optional
        By default the bar appears on terminals and in notebooks, after half a second; there is none in pipes and
        files, nor with ``TRISKELE_QUIET=1``. True and False decide in all cases.

    Returns
    -------
    tqdm
        A context manager with `update`, `set_postfix_str` and `close`; one that does nothing if no bar is shown.

    Examples
    --------
    >>> from triskele.core.extend import progress_bar
    >>> with progress_bar("training", "epoch", 10, show=False) as bar:
    ...     bar.update()
    """
    if not (is_watched() if show is None else show):
        return _NoBar()
    from tqdm.auto import tqdm  # late: it takes 30 ms

    return tqdm(
        desc=title,
        unit=f" {unit}",
        total=total,
        initial=done,
        unit_scale=True,
        dynamic_ncols=True,
        delay=DELAY if show is None else 0,
    )


def print_line(line: str) -> None:
    """Print a line on standard output, above the bars that are shown.

    Examples
    --------
    >>> from triskele.core.extend import print_line
    >>> print_line('step 100')
    step 100
    """
    if "tqdm" in sys.modules:
        sys.modules["tqdm"].tqdm.write(line, file=sys.stdout)
        sys.stdout.flush()
    else:
        print(line, flush=True)


class _NoBar:
    """The bar that is not shown."""

    def __enter__(self) -> _NoBar:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, _n: float = 1) -> None:
        pass

    def set_postfix_str(self, _text: str = "", **_: object) -> None:
        pass

    def close(self) -> None:
        pass


def say(line: str) -> None:
    """Print a line on standard error, unless ``TRISKELE_QUIET=1``.

    Examples
    --------
    >>> from triskele.core.extend import say
    >>> say("compiling")  # triskele: compiling
    """
    if os.environ.get("TRISKELE_QUIET", "0") in ("", "0"):
        with suppress(AttributeError, OSError, ValueError):  # no stream, or a closed one
            print(f"triskele: {line}", file=sys.stderr, flush=True)


@contextmanager
def said(line: str) -> Iterator[None]:
    """Say `line` if the block takes more than two seconds.

    Examples
    --------
    >>> from triskele.core.extend import said
    >>> with said("placing water"):
    ...     pass
    """
    timer = threading.Timer(PATIENCE, say, [line])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def said_without_bar(line: str, progress: bool | None) -> AbstractContextManager[None]:
    """Return `said` for work whose progress bar is not shown, as in logs, unless the user does not want one.

    Examples
    --------
    >>> from triskele.core.extend import said_without_bar
    >>> with said_without_bar("minimizing", progress=False):  # the user wants to see nothing
    ...     pass
    """
    return said(line) if progress is None and not is_watched() else nullcontext()
