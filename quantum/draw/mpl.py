"""Circuits drawn with matplotlib."""

from __future__ import annotations

import functools
import math
from itertools import pairwise
from typing import Any

from triskele.core.extend import optional

from ..circuit import Circuit
from ..errors import CircuitError
from .figure import COLORS, new_figure
from .layout import Item, Layout, layout

__all__ = ["draw_mpl"]

# Lengths in units of the distance between two wires, which is _UNIT inches.
_UNIT = 0.48
_BOX = 0.36  # half a box's height
_GAP = 0.28  # between columns
_PAD = 0.13  # between a box's text and its edge
_SIZE, _SMALL = 10.5, 7.5  # points
_WIRE, _BOXES, _MARKS = 1, 3, 4  # drawing order


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
    if not fold > 0:
        raise CircuitError(f"draw: fold must be positive, got {fold!r}")
    plan = layout(circuit)
    columns = list(plan.columns())
    widths = [max((_width(i) for i in items), default=0.0) for items in columns]
    names = [f"q{q}" for q in range(plan.num_qubits)] + ([f"c ({plan.num_clbits})"] if plan.num_clbits else [])
    margin = max((_text(name, _SIZE) for name in names), default=0.0) + 0.35
    rows: list[list[int]] = [[]]
    used = 0.0
    for k, width in enumerate(widths):
        if rows[-1] and used + width + _GAP > fold:
            rows.append([])
            used = 0.0
        rows[-1].append(k)
        used += width + _GAP
    longest = max([sum(widths[k] + _GAP for k in row) for row in rows] + [1.0])
    height = len(names) + (0.75 if plan.num_clbits else 0.4)  # room for the text below the classical wire
    top = 0.55 if plan.phase else 0.0
    total = (margin + longest + 0.5, len(rows) * height + top + 0.15)
    target = axes
    if axes is None:
        figure = new_figure(total[0] * _UNIT, total[1] * _UNIT, "draw")
        target = figure.add_axes((0, 0, 1, 1))
    target.set_xlim(-margin, longest + 0.5)
    target.set_ylim(0.5 - total[1], 0.5)
    target.set_aspect("equal")
    target.axis("off")
    ink = _Ink(target)
    if plan.phase:
        ink.write(-margin + 0.1, 0.2, f"global phase: {plan.phase}", _SMALL + 1, ha="left")
    for number, row in enumerate(rows):
        y = -top - number * height
        _row(ink, plan, columns, widths, row, y, names, longest, number + 1 < len(rows))
    ink.finish()
    return figure if axes is None else axes


class _Ink:
    """Lines and shapes, gathered by how they look: a few collections are drawn faster than thousands of artists."""

    def __init__(self, axes: Any):
        self.axes = axes
        self._lines: dict[Any, list[Any]] = {}
        self._shapes: dict[Any, list[Any]] = {}

    def line(self, x: list[float], y: list[float], color: str, width: float, order: int, style: Any = "-",
             alpha: float = 1.0) -> None:
        self._lines.setdefault((color, width, order, style, alpha), []).append([(x[0], y[0]), (x[1], y[1])])

    def double(self, x: list[float], y: list[float], order: int) -> None:
        """A classical wire."""
        along = x[0] != x[1]
        for d in (-0.035, 0.035):
            self.line(x if along else [v + d for v in x], [v + d for v in y] if along else y, COLORS["measure"], 0.8,
                      order)

    def dot(self, x: float, y: float, radius: float, color: str, order: int = _BOXES) -> None:
        from matplotlib.patches import Circle

        self._shapes.setdefault((color, color, 0.0, "-", order), []).append(Circle((x, y), radius))

    def box(self, x: float, y: float, width: float, height: float, color: str, style: str) -> None:
        """A box with its lower left corner at (x, y)."""
        from matplotlib.colors import to_rgb
        from matplotlib.patches import FancyBboxPatch

        pale = tuple(1 - 0.16 * (1 - c) for c in to_rgb(color))
        shape = FancyBboxPatch((x, y), width, height, "round,pad=0,rounding_size=0.07")
        self._shapes.setdefault((pale, color, 1.1, style, _BOXES), []).append(shape)

    def write(self, x: float, y: float, text: str, size: float, color: str = COLORS["ink"],
              ha: str = "center") -> None:
        self.axes.text(x, y, text, size=size, color=color, ha=ha, va="center_baseline", zorder=_MARKS,
                       parse_math=False)

    def finish(self) -> None:
        """Put everything on the axes."""
        from matplotlib.collections import LineCollection, PatchCollection

        for (color, width, order, style, alpha), lines in self._lines.items():
            self.axes.add_collection(LineCollection(lines, colors=[color], linewidths=width, linestyles=[style],
                                                    alpha=alpha, zorder=order,
                                                    capstyle="butt"), autolim=False)
        for (face, edge, width, style, order), shapes in self._shapes.items():
            self.axes.add_collection(PatchCollection(shapes, facecolor=face, edgecolor=edge, linewidth=width,
                                                     linestyle=style, zorder=order),
                                     autolim=False)


def _row(ink: _Ink, plan: Layout, columns: list[list[Item]], widths: list[float], row: list[int], y: float,
         names: list[str], longest: float,
         goes_on: bool) -> None:
    """One folded row: wires and their names, then the items; y of qubit 0."""
    end = longest if goes_on else max(sum(widths[k] + _GAP for k in row) + 0.1, 0.6)
    for k, name in enumerate(names):
        ink.write(-0.2, y - k, name, _SIZE, ha="right")
        if k < plan.num_qubits:
            ink.line([-0.05, end], [y - k, y - k], COLORS["ink"], 0.9, _WIRE)
        else:
            ink.double([-0.05, end], [y - k, y - k], _WIRE)
        if goes_on:
            ink.write(end + 0.22, y - k, "…", _SIZE)
    x = 0.15
    for k in row:
        for item in columns[k]:
            _draw(ink, item, x + widths[k] / 2, y, plan.num_qubits)
        x += widths[k] + _GAP


@functools.lru_cache(4096)
def _text(text: str, size: float) -> float:
    """Width of a text in our units."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    return TextPath((0, 0), text,
                    prop=FontProperties(size=size)).get_extents().width / 72 / _UNIT if text.strip() else 0.0


def _width(item: Item) -> float:
    link = _text(item.link, _SMALL)
    if item.kind != "box" or item.style == "measure":
        return max(link, 0.2 if item.kind == "barrier" else 0.5 if item.kind != "box" else 0.72)
    index = 0.22 if item.box[0] != item.box[1] else 0.0
    return max(_text(item.label, _SIZE) + 2 * _PAD + index, _text(item.params, _SMALL) + 2 * _PAD + index, link, 0.72)


def _draw(ink: _Ink, item: Item, x: float, y: float, n: int) -> None:
    color = COLORS[item.style]
    first, last = item.span
    if item.kind == "barrier":
        for q in item.qubits:
            reach = 0.5 if q + 1 in item.qubits else 0.45
            ink.line([x, x], [y - q + 0.45, y - q - reach], "#8a949e", 1.1, _WIRE + 1, (0, (2.5, 2)))
        return
    if item.link:
        ink.double([x, x], [y - last, y - n], _WIRE + 1)
        if item.style == "measure":
            for side in (-0.1, 0.1):
                ink.line([x + side, x], [y - n + 0.2, y - n + 0.03], COLORS["measure"], 1.6, _MARKS)
        else:
            ink.dot(x, y - n, 0.09, COLORS["measure"])
        ink.write(x, y - n - 0.38, item.link, _SMALL, COLORS["measure"])
    if first != last:
        ink.line([x, x], [y - first, y - last], color, 1.3, _WIRE + 1)
    if item.kind == "box":
        _box(ink, item, x, y, color)
    for q in item.qubits:
        if item.kind == "target":
            ink.dot(x, y - q, 0.2, color)
            ink.line([x - 0.2, x + 0.2], [y - q] * 2, "white", 1.3, _MARKS)
            ink.line([x] * 2, [y - q - 0.2, y - q + 0.2], "white", 1.3, _MARKS)
        elif item.kind == "cross":
            for s in (-0.13, 0.13):
                ink.line([x - 0.13, x + 0.13], [y - q - s, y - q + s], color, 1.6, _MARKS)
        elif item.kind == "dot":
            ink.dot(x, y - q, 0.1, color)
    for q in item.controls:
        if not (item.kind == "box" and item.box[0] < q < item.box[1]):
            ink.dot(x, y - q, 0.1, color)


def _box(ink: _Ink, item: Item, x: float, y: float, color: str) -> None:
    first, last = item.box
    width = _width(item)
    ink.box(x - width / 2, y - last - _BOX, width, last - first + 2 * _BOX, color,
            "--" if item.style == "channel" else "-")
    middle = y - (first + last) / 2
    if item.style == "measure":
        _meter(ink, x, middle)
        return
    if first != last:
        for q in range(first, last + 1):
            if q in item.qubits or q in item.controls:
                mark = "●" if q in item.controls else str(item.qubits.index(q))
                ink.write(x - width / 2 + 0.16, y - q, mark, _SMALL, color)
            else:  # a wire that passes through
                ink.line([x - width / 2, x + width / 2], [y - q, y - q], COLORS["ink"], 0.9, _MARKS, (0, (1, 1.5)),
                         0.6)
        x += 0.11
        if (first + last) % 2 == 0 and (first + last) // 2 not in item.qubits:
            middle += 0.5  # off the wire
    if item.params:
        ink.write(x, middle + 0.12, item.label, _SIZE, color)
        ink.write(x, middle - 0.19, item.params, _SMALL, color)
    else:
        ink.write(x, middle, item.label, _SIZE, color)


def _meter(ink: _Ink, x: float, y: float) -> None:
    bow = [math.radians(20 + 140 * k / 12) for k in range(13)]
    points = [(x + 0.22 * math.cos(a), y - 0.14 + 0.22 * math.sin(a)) for a in bow]
    for (x0, y0), (x1, y1) in pairwise(points):
        ink.line([x0, x1], [y0, y1], COLORS["measure"], 1.2, _MARKS)
    ink.line([x, x + 0.19], [y - 0.14, y + 0.21], COLORS["measure"], 1.2, _MARKS)
    ink.dot(x, y - 0.14, 0.035, COLORS["measure"], _MARKS)
