"""Circuits drawn as SVG, which needs no other package."""

from __future__ import annotations

from html import escape
from typing import Any

from ..circuit import Circuit
from .colors import COLORS
from .sketch import UNIT, Ink, Sketch

__all__ = ["draw_svg"]

_SCALE = 40.0  # pixels between two wires
_POINT = _SCALE / (72 * UNIT)  # pixels
_NARROW, _WIDE = frozenset("fijlrtI1.,:;!|'()[]-/ "), frozenset("mwMW@%…●⊗")
_COLORS = {COLORS["ink"]: "currentColor", COLORS["measure"]: "#77828d"}  # on dark pages, too


def draw_svg(circuit: Circuit, *, fold: float = 22.0, background: str | None = "white") -> str:
    """Draw a circuit as SVG, qubit 0 at the top.

    Parameters
    ----------
    circuit : Circuit
    fold : float
        Longest row, in units of the distance between wires; longer circuits continue below.
    background : str or None
        Color behind the circuit. None leaves it open, and wires and names get the color of the text around.

    Returns
    -------
    str
        The whole text of an SVG file.

    Raises
    ------
    CircuitError
        If `fold` is not positive.

    Examples
    --------
    >>> from triskele.quantum.draw import draw_svg
    >>> from triskele import quantum
    >>> picture = draw_svg(quantum.Circuit(2).h(0).cx(0, 1))
    >>> picture.startswith("<svg"), ">H</text>" in picture
    (True, True)
    """
    sketch = Sketch(circuit, fold, _width_of)
    ink = _Ink(sketch.left, sketch.top)
    sketch.put(ink)
    width, height = _SCALE * (sketch.right - sketch.left), _SCALE * (sketch.top - sketch.bottom)
    behind = f'<rect width="100%" height="100%" fill="{escape(background)}"/>' if background else ""
    color = f' color="{COLORS["ink"]}"' if background else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.1f} {height:.1f}" font-family="Helvetica, Arial, sans-serif"{color}>'
        f"{behind}{ink.text()}</svg>"
    )


def _width_of(text: str, size: float) -> float:
    """Width of a text in the units of a sketch, as Helvetica has it."""
    ems = sum(0.33 if c in _NARROW else 0.9 if c in _WIDE else 0.7 if c.isupper() else 0.57 for c in text)
    return ems * size / 72 / UNIT


class _Ink(Ink):
    """Elements of SVG by their order."""

    def __init__(self, left: float, top: float):
        self.left, self.top = left, top
        self._elements: list[tuple[int, str]] = []

    def text(self) -> str:
        """All elements; later ones hide earlier ones."""
        return "".join(text for _, text in sorted(self._elements, key=lambda e: e[0]))

    def _add(self, order: int, tag: str, color: str, content: str = "", **attributes: Any) -> None:
        given = "".join(
            f' {name.replace("_", "-")}="{v:.1f}"' if isinstance(v, float) else f' {name.replace("_", "-")}="{v}"'
            for name, v in attributes.items()
        )
        color = _COLORS.get(color, color)
        paint = f'stroke="{color}"' if tag == "line" else f'fill="{color}"'
        self._elements.append((order, f"<{tag} {paint}{given}" + (f">{content}</{tag}>" if content else "/>")))

    def _at(self, x: float, y: float) -> tuple[float, float]:
        return _SCALE * (x - self.left), _SCALE * (self.top - y)

    def line(
        self, x: list[float], y: list[float], color: str, width: float, order: int, style: Any = "-", alpha: float = 1.0
    ) -> None:
        (x1, y1), (x2, y2) = self._at(x[0], y[0]), self._at(x[1], y[1])
        more: dict[str, Any] = {"opacity": alpha} if alpha < 1 else {}
        if style != "-":
            more["stroke_dasharray"] = " ".join(f"{width * _POINT * v:.1f}" for v in style[1])
        self._add(order, "line", color, x1=x1, y1=y1, x2=x2, y2=y2, stroke_width=width * _POINT, **more)

    def dot(self, x: float, y: float, radius: float, color: str, order: int = 3) -> None:
        cx, cy = self._at(x, y)
        self._add(order, "circle", color, cx=cx, cy=cy, r=_SCALE * radius)

    def box(self, x: float, y: float, width: float, height: float, color: str, style: str) -> None:
        left, top = self._at(x, y + height)
        pale = "#" + "".join(f"{round(255 - 0.16 * (255 - int(color[k : k + 2], 16))):02x}" for k in (1, 3, 5))
        more = {"stroke_dasharray": "4 2"} if style == "--" else {}
        self._add(
            3,
            "rect",
            pale,
            x=left,
            y=top,
            width=_SCALE * width,
            height=_SCALE * height,
            rx=3,
            stroke=color,
            stroke_width=1.1 * _POINT,
            **more,
        )

    def write(self, x: float, y: float, text: str, size: float, color: str = COLORS["ink"], ha: str = "center") -> None:
        left, top = self._at(x, y)
        anchor = {"center": "middle", "right": "end", "left": "start"}[ha]
        self._add(
            4, "text", color, escape(text), x=left, y=top, dy="0.35em", font_size=size * _POINT, text_anchor=anchor
        )
