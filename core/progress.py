"""Progress bars in one style."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tqdm import tqdm

__all__ = ["progress_bar"]


def progress_bar(title: str | None, unit: str, total: int | None = None, *, done: int = 0,
                 show: bool | None = True) -> tqdm[Any]:
    """Return a progress bar of tqdm on stderr.

    Parameters
    ----------
    title : str, optional
    unit : str
        Name of what is counted, in the singular.
    total : int, optional
        Count at the end, if it is known.
    done : int, default 0
        Count at the beginning: of a run that resumes, for example.
    show : bool, optional
        Default True. With None, the bar is shown only on a terminal.

    Returns
    -------
    tqdm
        Use it as a context manager, or call `close`.
    """
    from tqdm import tqdm  # late: it takes 30 ms

    return tqdm(desc=title, unit=f" {unit}", total=total, initial=done, unit_scale=True, dynamic_ncols=True,
                disable=None if show is None else not show)
