"""Progress bars in one style, shown where a person can see them."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any

__all__ = ["is_watched", "print_line", "progress_bar"]

DELAY = 0.5  # seconds before an automatic bar appears: shorter work passes in silence


def is_watched() -> bool:
    """Return True if a person can see standard error: on a terminal or in a notebook, unless ``TRISKELE_QUIET=1``."""
    if os.environ.get("TRISKELE_QUIET", "0") not in ("", "0"):
        return False
    with suppress(AttributeError, ValueError):  # no stream, one of the user's making, or a closed one
        return _in_notebook() or sys.stderr.isatty()
    return False


def _in_notebook() -> bool:
    """Return True inside a running Jupyter kernel. Test runners and tools import ipykernel without being one."""
    kernel = sys.modules.get("ipykernel.kernelapp")
    return kernel is not None and kernel.IPKernelApp.initialized()


def progress_bar(title: str | None, unit: str, total: int | None = None, *, done: int = 0,
                 show: bool | None = None) -> Any:
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

    return tqdm(desc=title, unit=f" {unit}", total=total, initial=done, unit_scale=True, dynamic_ncols=True,
                delay=DELAY if show is None else 0)


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
