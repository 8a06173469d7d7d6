"""Circuits drawn with matplotlib."""

from __future__ import annotations

import functools
from typing import Any

from triskele.core.extend import optional

from ..circuit import Circuit
from .colors import COLORS
from .figure import new_figure
from .sketch import UNIT, Ink, Sketch

__all__ = ["draw_mpl"]


def draw_mpl(circuit: Circuit, *, fold: float = 26.0, axes: Any = None) -> Any:
    """Draw a circuit as a matplotlib figure, qubit 0 at the top.

    Parameters
    ----------
    circuit : Circuit
    fold : float
        Longest row, in units of the distance between wires; longer circuits continue below.
    axes : matplotlib Axes, optional
        Axes to draw on. Defaults to a new figure.

    Returns
    -------
    matplotlib Figure, or `axes` if given
        Notebooks show it, scripts save it with `savefig`; pyplot does not know it.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    CircuitError
        If `fold` is not positive.

    Examples
    --------
    >>> from triskele.quantum.draw import draw_mpl
    >>> from triskele import quantum
    >>> figure = draw_mpl(quantum.Circuit(2).h(0).cx(0, 1))
    >>> figure.savefig("bell.png")  # doctest: +SKIP
    """
    optional.need("matplotlib", "draw", "plot")
    sketch = Sketch(circuit, fold, _width_of)
    target = axes
    if axes is None:
        figure = new_figure((sketch.right - sketch.left) * UNIT, (sketch.top - sketch.bottom) * UNIT, "draw")
        target = figure.add_axes((0, 0, 1, 1))
    target.set_xlim(sketch.left, sketch.right)
    target.set_ylim(sketch.bottom, sketch.top)
    target.set_aspect("equal")
    target.axis("off")
    ink = _Ink(target)
    sketch.put(ink)
    ink.finish()
    return figure if axes is None else axes


@functools.lru_cache(4096)
def _width_of(text: str, size: float) -> float:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    return (
        TextPath((0, 0), text, prop=FontProperties(size=size)).get_extents().width / 72 / UNIT if text.strip() else 0.0
    )


class _Ink(Ink):
    """Lines and shapes, gathered by how they look: a few collections are drawn faster than thousands of artists."""

    def __init__(self, axes: Any):
        self.axes = axes
        self._lines: dict[Any, list[Any]] = {}
        self._shapes: dict[Any, list[Any]] = {}

    def line(
        self, x: list[float], y: list[float], color: str, width: float, order: int, style: Any = "-", alpha: float = 1.0
    ) -> None:
        self._lines.setdefault((color, width, order, style, alpha), []).append([(x[0], y[0]), (x[1], y[1])])

    def dot(self, x: float, y: float, radius: float, color: str, order: int = 3) -> None:
        from matplotlib.patches import Circle

        self._shapes.setdefault((color, color, 0.0, "-", order), []).append(Circle((x, y), radius))

    def box(self, x: float, y: float, width: float, height: float, color: str, style: str) -> None:
        from matplotlib.colors import to_rgb
        from matplotlib.patches import FancyBboxPatch

        pale = tuple(1 - 0.16 * (1 - c) for c in to_rgb(color))
        shape = FancyBboxPatch((x, y), width, height, "round,pad=0,rounding_size=0.07")
        self._shapes.setdefault((pale, color, 1.1, style, 3), []).append(shape)

    def write(self, x: float, y: float, text: str, size: float, color: str = COLORS["ink"], ha: str = "center") -> None:
        from .scaled_text import ScaledText

        self.axes.add_artist(
            ScaledText(x, y, text, size=size, color=color, ha=ha, va="center_baseline", zorder=4, parse_math=False)
        )

    def finish(self) -> None:
        """Put everything on the axes."""
        from matplotlib.collections import LineCollection, PatchCollection

        for (color, width, order, style, alpha), lines in self._lines.items():
            self.axes.add_collection(
                LineCollection(
                    lines,
                    colors=[color],
                    linewidths=width,
                    linestyles=[style],
                    alpha=alpha,
                    zorder=order,
                    capstyle="butt",
                ),
                autolim=False,
            )
        for (face, edge, width, style, order), shapes in self._shapes.items():
            self.axes.add_collection(
                PatchCollection(shapes, facecolor=face, edgecolor=edge, linewidth=width, linestyle=style, zorder=order),
                autolim=False,
            )
