"""Figures outside pyplot's registry, which notebooks show all the same."""

from __future__ import annotations

import io
from typing import Any

from triskele.core.extend import optional

__all__ = ["new_axes", "new_figure"]


def new_figure(width: float, height: float, where: str) -> Any:
    """A matplotlib figure of this size in inches; `where` begins the error if there is no matplotlib."""
    optional.need("matplotlib", where, "plot")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    class _Figure(Figure):
        def _repr_png_(self) -> bytes:
            data = io.BytesIO()
            self.savefig(data, format="png", bbox_inches="tight")
            return data.getvalue()

    figure = _Figure(figsize=(width, height), dpi=150)
    FigureCanvasAgg(figure)
    return figure


def new_axes(width: float, height: float, where: str) -> Any:
    """Axes of a new figure, without the frame's upper and right lines."""
    figure = new_figure(width, height, where)
    from matplotlib.axes import Axes

    class _Axes(Axes):
        def _repr_png_(self) -> bytes:
            return figure._repr_png_()

    axes = figure.add_subplot(axes_class=_Axes)
    axes.spines[["top", "right"]].set_visible(False)
    return axes
