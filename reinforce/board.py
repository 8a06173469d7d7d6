"""Boards in notebooks: a position that a game draws as rows of x, o and dots becomes a picture."""

from __future__ import annotations

import re
from html import escape

from triskele.core.extend import plots

__all__ = ["board_html"]

_STONES = {".": None, "x": plots.COLORS[0], "X": plots.COLORS[0], "o": plots.COLORS[1], "O": plots.COLORS[1]}
_CELL = 26  # pixels


def board_html(title: str, text: str) -> str:
    """Return a position in HTML, readable on light and dark pages.

    `text` is what `Game.draw` returns. Cells of one character (x, o or a dot) with a space between them are drawn as a
    board, anything else as text.
    """
    tokens = _tokens(text)
    drawn = _svg(tokens) if tokens else f'<pre style="line-height:1.2;margin:0">{escape(text)}</pre>'
    return f'<div><div style="font-weight:600;padding:2px 0 4px 0">{escape(title)}</div>{drawn}</div>'


def _tokens(text: str) -> list[tuple[float, int, str, bool]]:
    """Column in cells, row, text and whether it is a cell, of every word of a board; none if it is no board."""
    found, cells = [], 0
    for row, line in enumerate(text.splitlines()):
        words = [(m.start(), m.group()) for m in re.finditer(r"\S+", line)]
        names = any(word.isalpha() and word not in _STONES for _, word in words)  # of columns
        places = [at for at, word in words if word in _STONES and not names]
        if any(b - a != 2 for a, b in zip(places, places[1:], strict=False)) or any(len(word) > 2 for _, word in words):
            return []
        cells += len(places)
        found += [((at + len(word) - 1) / 2, row, word, word in _STONES and not names) for at, word in words]
    return found if cells >= 4 and 2 * cells > len(found) else []


def _svg(tokens: list[tuple[float, int, str, bool]]) -> str:
    first = min(x for x, *_ in tokens)
    parts = []
    for x, y, word, cell in tokens:
        cx, cy = _CELL * (x - first + 0.5), _CELL * (y + 0.5)
        if not cell:
            parts.append(
                f'<text x="{cx:.1f}" y="{cy:.1f}" dy="0.35em" text-anchor="middle" font-size="12" '
                f'opacity="0.7" fill="currentColor">{escape(word)}</text>'
            )
            continue
        parts.append(
            f'<rect x="{cx - _CELL / 2:.1f}" y="{cy - _CELL / 2:.1f}" width="{_CELL}" height="{_CELL}" '
            f'fill="none" stroke="currentColor" stroke-opacity="0.25"/>'
        )
        if color := _STONES[word]:
            parts.append(
                f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="{0.38 * _CELL:.1f}" fill="{color}"/>'
                f'<text x="{cx:.1f}" y="{cy:.1f}" dy="0.33em" text-anchor="middle" font-size="13" '
                f'fill="white">{word}</text>'
            )
    width = _CELL * (max(x for x, *_ in tokens) - first + 1)
    height = _CELL * (max(y for _, y, *_ in tokens) + 1)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
        f'font-family="Helvetica, Arial, sans-serif">{"".join(parts)}</svg>'
    )
