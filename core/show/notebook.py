"""Tables by which notebooks show results, readable on light and dark pages."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

__all__ = ["html_facts", "html_table"]

_MOST = 12  # rows that are shown
_LINE = "1px solid rgba(128,128,128,0.35)"
_TITLE = '<div style="font-weight:600;padding:2px 0 4px 0">{}</div>'
_STYLE = 'style="color:inherit;border-collapse:collapse;margin:0"'
_NOTE = '<div style="opacity:0.7;padding:4px 0 2px 0">{}</div>'


def html_table(title: str, columns: Mapping[str, Any], *, most: int = _MOST, note: str = "") -> str:
    """A table in HTML; its colors are those of the page.

    Parameters
    ----------
    title : str
    columns : dict of str to sequence
        Numbers and texts by the head of their column; all of the same length.
    most : int
        Rows to show; of more rows the first and the last ones are shown.
    note : str
        A line below the table.

    Returns
    -------
    str

    Examples
    --------
    >>> from triskele.core.extend import html_table
    >>> "text-align:right\\">0.25</td>" in html_table("Moves", {"name": ["<a>"], "value": [0.25]})
    True
    """
    rows = len(next(iter(columns.values()), ()))
    shown: list[int | None] = list(range(rows))
    if rows > most:
        shown = [*range((most + 1) // 2), None, *range(rows - most // 2, rows)]
    right = {name: any(isinstance(v, (int, float, np.number)) for v in values) for name, values in columns.items()}
    head = "".join(f'<th style="{_align(right[name])};border-bottom:{_LINE}">{escape(name)}</th>' for name in columns)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td style="{_align(right[name])}">{"…" if k is None else _cell(values[k])}</td>'
            for name, values in columns.items()
        )
        + "</tr>"
        for k in shown
    )
    return _box(title, f"<table {_STYLE}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>", note)


def html_facts(title: str, facts: Mapping[str, Any], *, note: str = "") -> str:
    """A table in HTML of two columns: names and what they are.

    Parameters
    ----------
    title : str
    facts : dict of str to object
    note : str
        A line below the table.

    Returns
    -------
    str

    Examples
    --------
    >>> from triskele.core.extend import html_facts
    >>> "<th" in html_facts("System", {"atoms": 22, "box": "not periodic"})
    True
    """
    rows = "".join(
        f'<tr><th style="padding:2px 8px;text-align:left;font-weight:normal;opacity:0.7">{escape(name)}</th>'
        f'<td style="{_align(False)}">{_cell(value)}</td></tr>'
        for name, value in facts.items()
    )
    return _box(title, f"<table {_STYLE}><tbody>{rows}</tbody></table>", note)


def _box(title: str, table: str, note: str) -> str:
    below = _NOTE.format(escape(note)) if note else ""
    return f'<div style="display:inline-block">{_TITLE.format(escape(title))}{table}{below}</div>'


def _align(right: bool) -> str:
    return f"padding:2px 8px;text-align:{'right' if right else 'left'}"


def _cell(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (int, np.integer)):
        return f"{value:,}"
    if isinstance(value, (float, np.floating)):
        return f"{value:.4g}" if np.isfinite(value) else "–"
    return escape(str(value))
