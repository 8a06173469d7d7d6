"""Figures of Matplotlib that are drawn and saved in the style they were made in; imported where a figure is made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import matplotlib
from matplotlib.figure import Figure

__all__ = ["StyledFigure", "rc"]


@contextmanager
def rc(options: Mapping[str, Any]) -> Iterator[None]:
    """Set options of Matplotlib, and take back these only.

    Matplotlib's own context takes back all of them, "interactive" too, which backends set when the first figure loads
    them.
    """
    before = {name: matplotlib.rcParams[name] for name in options}
    try:
        matplotlib.rcParams.update(options)
        yield
    finally:
        matplotlib.rcParams.update(before)


class StyledFigure(Figure):
    """A figure that remembers the options of Matplotlib under which it was made: ticks are made when it is drawn."""

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        self._style = {name: matplotlib.rcParams[name] for name in _kept()}

    def style(self) -> AbstractContextManager[None]:
        """The context of the figure's own style."""
        return rc(self._style)

    def draw(self, renderer: Any) -> None:
        """Draw in the figure's own style."""
        with self.style():
            super().draw(renderer)

    def savefig(self, *args: Any, **options: Any) -> None:
        """Save in the figure's own style."""
        with self.style():
            super().savefig(*args, **options)


def _kept() -> list[str]:
    """Options that belong to pictures, not to windows and files of the machine."""
    kinds = ("axes.", "errorbar.", "font.", "grid.", "hatch.", "legend.", "lines.", "mathtext.", "patch.", "pdf.",
             "ps.", "savefig.dpi", "svg.", "text.", "xtick.", "ytick.")  # fmt: skip
    return [name for name in matplotlib.rcParams if name.startswith(kinds)]
