"""Circuits drawn with matplotlib."""

from __future__ import annotations

import functools
from typing import Any

from triskele.quantum.circuit import Circuit
from triskele.quantum.draw.figure import COLOURS, new_figure
from triskele.quantum.draw.layout import Item, Layout, layout
from triskele.quantum.optional import load

__all__ = ["draw_mpl"]

# Lengths in units of the distance between two wires, which is _UNIT inches.
_UNIT = 0.48
_BOX = 0.36  # half a box's height
_GAP = 0.28  # between columns
_PAD = 0.13  # between a box's text and its edge
_SIZE, _SMALL = 10.5, 7.5  # points
_WIRE, _BOXES, _MARKS = 1, 3, 4  # drawing order


def draw_mpl(circuit: Circuit, *, fold: float = 26.0, axes: Any = None) -> Any:
    """A circuit as a matplotlib figure, qubit 0 at the top.

    Parameters
    ----------
    circuit : Circuit
    fold : float
        Longest row, in units of the distance between wires; longer circuits go on below.
    axes : matplotlib Axes, optional
        Where to draw; a new figure when left out.

    Returns
    -------
    matplotlib Figure, or `axes` if given

    Raises
    ------
    ImportError
        If there is no matplotlib (`pip install 'triskele[plot]'`).

    Examples
    --------
    >>> from triskele import quantum
    >>> figure = draw_mpl(quantum.Circuit(2).h(0).cx(0, 1))
    >>> figure.savefig("bell.png")  # doctest: +SKIP
    """
    load("matplotlib", "plot", "draw")
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
    if plan.phase:
        _write(target, -margin + 0.1, 0.2, f"global phase: {plan.phase}", _SMALL + 1, ha="left")
    for number, row in enumerate(rows):
        y = -top - number * height
        _row(target, plan, columns, widths, row, y, names, longest, number + 1 < len(rows))
    return figure if axes is None else axes


def _row(axes: Any, plan: Layout, columns: list[list[Item]], widths: list[float], row: list[int], y: float, names: list[str], longest: float,
         goes_on: bool) -> None:  # fmt: skip
    """One folded row: wires and their names, then the items; y of qubit 0."""
    end = longest if goes_on else max(sum(widths[k] + _GAP for k in row) + 0.1, 0.6)
    for k, name in enumerate(names):
        _write(axes, -0.2, y - k, name, _SIZE, ha="right")
        if k < plan.num_qubits:
            axes.plot([-0.05, end], [y - k, y - k], color=COLOURS["ink"], lw=0.9, zorder=_WIRE, solid_capstyle="butt")
        else:
            for d in (-0.035, 0.035):
                axes.plot([-0.05, end], [y - k + d, y - k + d], color=COLOURS["measure"], lw=0.8, zorder=_WIRE, solid_capstyle="butt")
    if goes_on:
        for k in range(len(names)):
            _write(axes, end + 0.22, y - k, "…", _SIZE)
    x = 0.15
    for k in row:
        for item in columns[k]:
            _draw(axes, item, x + widths[k] / 2, y, plan.num_qubits)
        x += widths[k] + _GAP


@functools.lru_cache(4096)
def _text(text: str, size: float) -> float:
    """Width of a text in our units."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    return TextPath((0, 0), text, prop=FontProperties(size=size)).get_extents().width / 72 / _UNIT if text.strip() else 0.0


def _width(item: Item) -> float:
    link = _text(item.link, _SMALL)
    if item.kind != "box" or item.style == "measure":
        return max(link, 0.2 if item.kind == "barrier" else 0.5 if item.kind != "box" else 0.72)
    index = 0.22 if item.box[0] != item.box[1] else 0.0
    return max(_text(item.label, _SIZE) + 2 * _PAD + index, _text(item.params, _SMALL) + 2 * _PAD + index, link, 0.72)


def _write(axes: Any, x: float, y: float, text: str, size: float, colour: str = COLOURS["ink"], ha: str = "center") -> None:
    axes.text(x, y, text, size=size, color=colour, ha=ha, va="center_baseline", zorder=_MARKS, parse_math=False)


def _draw(axes: Any, item: Item, x: float, y: float, n: int) -> None:
    colour = COLOURS[item.style]
    first, last = item.span
    if item.kind == "barrier":
        runs = [q for q in sorted(item.qubits) if q - 1 not in item.qubits]
        for q in runs:
            end = q
            while end + 1 in item.qubits:
                end += 1
            axes.plot([x, x], [y - q + 0.45, y - end - 0.45], color="#8a949e", lw=1.1, ls=(0, (2.5, 2)), zorder=_WIRE + 1)
        return
    if item.link:
        for d in (-0.035, 0.035):
            axes.plot([x + d, x + d], [y - last, y - n], color=COLOURS["measure"], lw=0.8, zorder=_WIRE + 1)
        if item.style == "measure" and "if" not in item.link:
            axes.fill([x - 0.1, x + 0.1, x], [y - n + 0.2, y - n + 0.2, y - n + 0.03], color=COLOURS["measure"], lw=0, zorder=_MARKS)
        else:
            axes.plot([x], [y - n], "o", ms=4.5, color=COLOURS["measure"], zorder=_MARKS)
        _write(axes, x, y - n - 0.38, item.link, _SMALL, COLOURS["measure"])
    if first != last:
        axes.plot([x, x], [y - first, y - last], color=colour, lw=1.3, zorder=_WIRE + 1)
    if item.kind == "box":
        _box(axes, item, x, y, colour)
    for q in item.qubits:
        if item.kind == "target":
            _circle(axes, x, y - q, 0.2, colour)
            axes.plot([x - 0.2, x + 0.2], [y - q] * 2, color="white", lw=1.3, zorder=_MARKS)
            axes.plot([x] * 2, [y - q - 0.2, y - q + 0.2], color="white", lw=1.3, zorder=_MARKS)
        elif item.kind == "cross":
            for s in (-0.13, 0.13):
                axes.plot([x - 0.13, x + 0.13], [y - q - s, y - q + s], color=colour, lw=1.6, zorder=_MARKS)
        elif item.kind == "dot":
            _circle(axes, x, y - q, 0.1, colour)
    for q in item.controls:
        if not (item.kind == "box" and item.box[0] < q < item.box[1]):
            _circle(axes, x, y - q, 0.1, colour)


def _circle(axes: Any, x: float, y: float, radius: float, colour: str) -> None:
    from matplotlib.patches import Circle

    axes.add_patch(Circle((x, y), radius, facecolor=colour, edgecolor=colour, lw=0, zorder=_BOXES))


def _box(axes: Any, item: Item, x: float, y: float, colour: str) -> None:
    from matplotlib.colors import to_rgb
    from matplotlib.patches import FancyBboxPatch

    first, last = item.box
    width = _width(item)
    pale = tuple(1 - 0.16 * (1 - c) for c in to_rgb(colour))
    shape = f"round,pad=0,rounding_size={0.07}"
    axes.add_patch(FancyBboxPatch((x - width / 2, y - last - _BOX), width, last - first + 2 * _BOX, shape, facecolor=pale, edgecolor=colour, lw=1.1,
                                  ls="--" if item.style == "channel" else "-", zorder=_BOXES))  # fmt: skip
    middle = y - (first + last) / 2
    if item.style == "measure":
        _meter(axes, x, middle)
        return
    if first != last:
        for q in range(first, last + 1):
            if q in item.qubits or q in item.controls:
                mark = "●" if q in item.controls else str(item.qubits.index(q))
                _write(axes, x - width / 2 + 0.16, y - q, mark, _SMALL, colour)
            else:  # a wire that passes through
                axes.plot([x - width / 2, x + width / 2], [y - q, y - q], color=COLOURS["ink"], lw=0.9, ls=(0, (1, 1.5)), alpha=0.6, zorder=_BOXES)
        x += 0.11
        if (first + last) % 2 == 0 and (first + last) // 2 not in item.qubits:
            middle += 0.5  # off the wire
    if item.params:
        _write(axes, x, middle + 0.12, item.label, _SIZE, colour)
        _write(axes, x, middle - 0.19, item.params, _SMALL, colour)
    else:
        _write(axes, x, middle, item.label, _SIZE, colour)


def _meter(axes: Any, x: float, y: float) -> None:
    from matplotlib.patches import Arc

    axes.add_patch(Arc((x, y - 0.14), 0.44, 0.44, theta1=20, theta2=160, color=COLOURS["measure"], lw=1.2, zorder=_MARKS))
    axes.annotate("", (x + 0.2, y + 0.22), (x, y - 0.14), zorder=_MARKS,
                  arrowprops=dict(arrowstyle="-|>,head_length=0.22,head_width=0.12", color=COLOURS["measure"], lw=1.1, shrinkA=0, shrinkB=0))  # fmt: skip
