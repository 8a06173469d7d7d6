"""Texts that grow and shrink with their axes; apart from the rest, so that drawings as text need no Matplotlib."""

from __future__ import annotations

from typing import Any

from matplotlib.text import Text

from .sketch import UNIT

__all__ = ["ScaledText"]


class ScaledText(Text):
    """Text whose size in points holds where a unit of the axes is `UNIT` inches, and follows the axes elsewhere."""

    def __init__(self, *args: Any, size: float, **options: Any):
        super().__init__(*args, size=size, **options)
        self._nominal = size
        self.set_in_layout(False)

    def draw(self, renderer: Any) -> None:
        """Draw the text in the size that fits the axes as they are now."""
        axes: Any = self.axes
        (x0, _), (x1, _) = axes.transData.transform([(0, 0), (1, 0)])
        self.set_fontsize(self._nominal * (x1 - x0) / axes.figure.dpi / UNIT)
        super().draw(renderer)
