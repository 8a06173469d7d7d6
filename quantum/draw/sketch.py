"""Geometry of circuit drawings: rows, boxes, marks and wires, drawn with an `Ink` of Matplotlib or of SVG.

Lengths are in units of the distance between two wires, which is `UNIT` inches; y grows upwards.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from ..circuit import Circuit
from ..errors import CircuitError
from .colors import COLORS
from .layout import Item, layout

__all__ = ["UNIT", "Ink", "Sketch"]

UNIT = 0.48
_BOX = 0.36  # half a box's height
_GAP = 0.28  # between columns
_PAD = 0.13  # between a box's text and its edge
_SIZE, _SMALL = 10.5, 7.5  # points
_WIRE, _BOXES, _MARKS = 1, 3, 4  # drawing order


class Ink(ABC):
    """Lines, shapes and texts; those of a higher `order` hide others."""

    @abstractmethod
    def line(
        self, x: list[float], y: list[float], color: str, width: float, order: int, style: Any = "-", alpha: float = 1.0
    ) -> None:
        """A straight line of some width in points."""

    @abstractmethod
    def dot(self, x: float, y: float, radius: float, color: str, order: int = _BOXES) -> None:
        """A disc."""

    @abstractmethod
    def box(self, x: float, y: float, width: float, height: float, color: str, style: str) -> None:
        """A box with its lower left corner at (x, y)."""

    @abstractmethod
    def write(self, x: float, y: float, text: str, size: float, color: str = COLORS["ink"], ha: str = "center") -> None:
        """A text of some size in points, in the middle of (x, y) or, with ha="right", before it."""

    def double(self, x: list[float], y: list[float], order: int) -> None:
        """A classical wire."""
        along = x[0] != x[1]
        for d in (-0.035, 0.035):
            self.line(
                x if along else [v + d for v in x], [v + d for v in y] if along else y, COLORS["measure"], 0.8, order
            )


class Sketch:
    """The drawing of a circuit, folded into rows no longer than `fold` where possible; `left`, `right`, `bottom` and
    `top` are its edges. ``width_of(text, size in points)`` measures texts.
    """

    def __init__(self, circuit: Circuit, fold: float, width_of: Callable[[str, float], float]):
        if not fold > 0:
            raise CircuitError(f"draw: fold must be positive, got {fold!r}")
        self.plan = plan = layout(circuit)
        self._width_of = width_of
        self.columns = list(plan.columns())
        self.widths = [max((self._width(i) for i in items), default=0.0) for items in self.columns]
        self.names = [f"q{q}" for q in range(plan.num_qubits)] + ([f"c ({plan.num_clbits})"] if plan.num_clbits else [])
        self.rows: list[list[int]] = [[]]
        used = 0.0
        for k, width in enumerate(self.widths):
            if self.rows[-1] and used + width + _GAP > fold:
                self.rows.append([])
                used = 0.0
            self.rows[-1].append(k)
            used += width + _GAP
        self.longest = max([sum(self.widths[k] + _GAP for k in row) for row in self.rows] + [1.0])
        self.height = len(self.names) + (0.75 if plan.num_clbits else 0.4)  # room for texts below the classical wire
        self.head = 0.55 if plan.phase else 0.0
        self.left = -max((width_of(name, _SIZE) for name in self.names), default=0.0) - 0.35
        self.right, self.top = self.longest + 0.5, 0.5
        self.bottom = self.top - len(self.rows) * self.height - self.head - 0.15

    def put(self, ink: Ink) -> None:
        """Draw it."""
        if self.plan.phase:
            ink.write(self.left + 0.1, 0.2, f"global phase: {self.plan.phase}", _SMALL + 1, ha="left")
        for number, row in enumerate(self.rows):
            self._row(ink, row, -self.head - number * self.height, number + 1 < len(self.rows))

    def _row(self, ink: Ink, row: list[int], y: float, continued: bool) -> None:
        """Wires and their names, then the items; y of qubit 0."""
        end = self.longest if continued else max(sum(self.widths[k] + _GAP for k in row) + 0.1, 0.6)
        for k, name in enumerate(self.names):
            ink.write(-0.2, y - k, name, _SIZE, ha="right")
            if k < self.plan.num_qubits:
                ink.line([-0.05, end], [y - k, y - k], COLORS["ink"], 0.9, _WIRE)
            else:
                ink.double([-0.05, end], [y - k, y - k], _WIRE)
            if continued:
                ink.write(end + 0.22, y - k, "…", _SIZE)
        x = 0.15
        for k in row:
            for item in self.columns[k]:
                self._draw(ink, item, x + self.widths[k] / 2, y)
            x += self.widths[k] + _GAP

    def _width(self, item: Item) -> float:
        link = self._width_of(item.link, _SMALL)
        if item.kind != "box" or item.style == "measure":
            return max(link, 0.2 if item.kind == "barrier" else 0.5 if item.kind != "box" else 0.72)
        more = 2 * _PAD + (0.22 if item.box[0] != item.box[1] else 0.0)
        return max(self._width_of(item.label, _SIZE) + more, self._width_of(item.params, _SMALL) + more, link, 0.72)

    def _draw(self, ink: Ink, item: Item, x: float, y: float) -> None:
        color, n = COLORS[item.style], self.plan.num_qubits
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
            self._box(ink, item, x, y, color)
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

    def _box(self, ink: Ink, item: Item, x: float, y: float, color: str) -> None:
        first, last = item.box
        width = self._width(item)
        ink.box(
            x - width / 2,
            y - last - _BOX,
            width,
            last - first + 2 * _BOX,
            color,
            "--" if item.style == "channel" else "-",
        )
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
                    ink.line([x - width / 2, x + width / 2], [y - q, y - q], color, 0.9, _MARKS, (0, (1, 1.5)), 0.6)
            x += 0.11
            if (first + last) % 2 == 0 and (first + last) // 2 not in item.qubits:
                middle += 0.5  # off the wire
        if item.params:
            ink.write(x, middle + 0.12, item.label, _SIZE, color)
            ink.write(x, middle - 0.19, item.params, _SMALL, color)
        else:
            ink.write(x, middle, item.label, _SIZE, color)


def _meter(ink: Ink, x: float, y: float) -> None:
    bow = [math.radians(20 + 140 * k / 12) for k in range(13)]
    points = [(x + 0.22 * math.cos(a), y - 0.14 + 0.22 * math.sin(a)) for a in bow]
    for (x0, y0), (x1, y1) in pairwise(points):
        ink.line([x0, x1], [y0, y1], COLORS["measure"], 1.2, _MARKS)
    ink.line([x, x + 0.19], [y - 0.14, y + 0.21], COLORS["measure"], 1.2, _MARKS)
    ink.dot(x, y - 0.14, 0.035, COLORS["measure"], _MARKS)
