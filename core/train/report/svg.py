"""Charts as SVG whose colors are those of the page, so that one picture serves light and dark."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from .probe import png

__all__ = ["area_chart", "heat", "landscape_chart", "line_chart", "shown"]

_WIDTH, _HEIGHT = 360, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 10, 12, 30
_MOST_DOTS, _MOST_POINTS = 60, 800
_FARTHEST = 8e307  # numbers beyond are drawn there on a linear axis, whose length with margins is then a float64


def line_chart(curves: Mapping[str, tuple[Any, Any]], *, xlabel: str, label: str, linear: bool = False) -> str:
    """Draw curves, (x, y) by the name in the legend, with axes; numbers that are not finite are left out.

    The y axis is logarithmic if all numbers are positive and far apart, unless `linear`. `label` describes the chart to
    readers that cannot see it.
    """
    data = {name: _thinned(*_finite(x, y)) for name, (x, y) in curves.items()}
    every_x = np.concatenate([x for x, _ in data.values()] or [[]])
    every_y = np.concatenate([y for _, y in data.values()] or [[]])
    if not len(every_y):
        return _frame('<text class="tick" x="180" y="105" text-anchor="middle">no finite numbers</text>', label)
    log = not linear and every_y.min() > 0 and every_y.max() / 20 > every_y.min()
    fx = _scale(every_x.min(), every_x.max(), _LEFT, _WIDTH - _RIGHT)
    low, high = _range(every_y, log)
    to = np.log10 if log else _near
    fy = _scale(low, high, _HEIGHT - _BOTTOM, _TOP)
    parts = [_y_axis(fy, low, high, log), _x_axis(fx, every_x.min(), every_x.max(), xlabel)]
    for k, (name, (x, y)) in enumerate(data.items()):
        points = [(fx(a), fy(float(to(b)))) for a, b in zip(x, y, strict=True)]
        parts.append(f'<polyline class="line c{k % 6} d{k // 6 % 3}" points="{_points(points)}"/>')
        dots = range(0, len(points), max(1, len(points) // _MOST_DOTS))
        visible = " dot" if len(points) < 40 else ""
        parts += [
            f'<circle class="hit c{k % 6}{visible}" cx="{points[j][0]:.1f}" cy="{points[j][1]:.1f}" r="2"><title>'
            f"{escape(name)}, {escape(xlabel)} {shown(x[j])}: {shown(y[j])}</title></circle>"
            for j in dots
        ]
    return _frame("".join(parts), label) + (_legend(list(data)) if len(data) > 1 else "")


def area_chart(values: Sequence[float], names: Sequence[str], *, xlabel: str, label: str, unit: str) -> str:
    """Steps filled down to zero, one for each value; its name appears under the pointer."""
    top = max([*values, 1e-9])
    fx = _scale(0, max(len(values), 1), _LEFT, _WIDTH - _RIGHT)
    fy = _scale(0, 1.05 * top, _HEIGHT - _BOTTOM, _TOP)
    corners = [
        (fx(0), fy(0)),
        *[(fx(k + e), fy(v)) for k, v in enumerate(values) for e in (0, 1)],
        (fx(len(values)), fy(0)),
    ]
    hits = [
        f'<rect class="band" x="{fx(k):.1f}" y="{_TOP}" width="{fx(1) - fx(0):.2f}" '
        f'height="{_HEIGHT - _TOP - _BOTTOM}"><title>{escape(name)}: {shown(v)} {unit}</title></rect>'
        for k, (v, name) in enumerate(zip(values, names, strict=True))
    ]
    return _frame(
        _y_axis(fy, 0, 1.05 * top, False)
        + _x_axis(fx, 0, len(values), xlabel)
        + f'<polygon class="area" points="{_points(corners)}"/>'
        + "".join(hits),
        label,
    )


def heat(columns: Sequence[Mapping[str, Any]], *, rows: int = 32) -> tuple[str, float, float]:
    """Draw histograms, each with "low", "high" and "counts", side by side, as a picture to be used as a mask.

    Return its data URL, and the lowest and the highest number.
    """
    low, high = min(c["low"] for c in columns), max(c["high"] for c in columns)
    if not low < high:
        half = max(0.5, 1e-6 * abs(low))
        low, high = low - half, high + half
    edges = np.linspace(low, high, rows + 1)
    alpha = np.zeros((rows, len(columns)))
    for j, column in enumerate(columns):
        counts = np.asarray(column["counts"], np.float64)
        a, b = (column["low"], column["high"]) if column["low"] < column["high"] else (low, high)
        total = np.concatenate([[0.0], np.cumsum(counts)])
        if column["low"] < column["high"]:
            alpha[::-1, j] = np.diff(np.interp(edges, np.linspace(a, b, len(counts) + 1), total))
        else:
            alpha[rows - 1 - min(int((column["low"] - low) / (high - low) * rows), rows - 1), j] = total[-1]
    peak = alpha.max(axis=0, keepdims=True)
    shade = np.round(255 * np.sqrt(alpha / np.where(peak > 0, peak, 1))).astype(np.uint8)
    picture = np.zeros((rows, len(columns), 4), np.uint8)
    picture[..., 3] = shade
    return png(picture), low, high


def landscape_chart(grid: Any, loss: Any) -> str:
    """Contours of a loss over a square, with the parameters in the middle."""
    grid, loss = np.asarray(grid, np.float64), np.asarray(loss, np.float64)
    finite = loss[np.isfinite(loss)]
    positive = finite.size and finite.min() > 0
    z = np.log(loss) if positive else loss
    side, edge = 300, 30
    f = _scale(grid[0], grid[-1], edge, side + edge)
    seen = z[np.isfinite(z)]
    if not seen.size or seen.min() == seen.max():
        return ""
    shade = np.nan_to_num((z - seen.min()) / (seen.max() - seen.min()), nan=1.0, posinf=1.0)
    picture = np.zeros((*z.shape, 4), np.uint8)
    picture[..., 3] = np.round(230 * (1 - shade.T[::-1])).astype(np.uint8)
    url = png(picture)
    levels = np.linspace(seen.min(), seen.max(), 11)[1:-1]
    lines = "".join(
        f'<path class="contour" d="{path}"><title>loss {shown(np.exp(v) if positive else v)}</title></path>'
        for v in levels
        if (path := _contour(z, v, grid, f, side + 2 * edge))
    )
    ticks = "".join(
        f'<text class="tick" x="{f(v):.0f}" y="{side + edge + 16}" text-anchor="middle">{v:g}</text>'
        f'<text class="tick" x="{edge - 5}" y="{side + 2 * edge - f(v) + 4:.0f}" text-anchor="end">{v:g}'
        "</text>"
        for v in (grid[0], 0, grid[-1])
    )
    middle = side / 2 + edge
    whole = side + 2 * edge
    return (
        f'<svg class="landscape" viewBox="0 0 {whole} {whole}" role="img" aria-label="loss landscape">'
        f'<foreignObject x="{edge}" y="{edge}" width="{side}" height="{side}">'
        f'<div class="land" style="{mask(url)}"></div></foreignObject>'
        f'{lines}{ticks}<circle class="here" cx="{middle}" cy="{middle}" r="4"><title>the parameters</title>'
        f"</circle></svg>"
    )


def mask(url: str) -> str:
    """Style of an element that is shaded by a picture."""
    return f"-webkit-mask:url({url}) 0 0/100% 100%;mask:url({url}) 0 0/100% 100%"


def shown(value: Any) -> str:
    """A number in four digits."""
    value = float(value)
    return f"{value:,.0f}" if abs(value) < 1e7 and value == round(value) else f"{value:.4g}"


def _finite(x, y):
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    keep = np.isfinite(x) & np.isfinite(y)
    return x[keep], y[keep]


def _thinned(x, y):
    """The lowest and the highest of neighboring points, where there are more than can be seen."""
    if len(x) <= _MOST_POINTS:
        return x, y
    parts = np.array_split(np.arange(len(x)), _MOST_POINTS // 2)
    ends = {int(k) for part in parts for k in (part[np.argmin(y[part])], part[np.argmax(y[part])])}
    keep = sorted(ends | {len(x) - 1})
    return x[keep], y[keep]


def _scale(low, high, start, stop):
    if low == high:
        return lambda v: (start + stop) / 2 + 0.0 * v
    return lambda v: start + (v - low) / (high - low) * (stop - start)


def _near(y):
    return np.clip(y, -_FARTHEST, _FARTHEST)


def _range(y, log):
    low, high = (float(f(np.log10(y) if log else _near(y))) for f in (np.min, np.max))
    margin = 0.05 * (high - low) or 0.5 * abs(high) or 0.5
    return low - margin, high + margin


def _ticks(low, high, most=5):
    """Round numbers between two numbers."""
    raw = (high - low) / most
    size = 10.0 ** math.floor(math.log10(raw)) if raw > 1e-300 else 1.0
    step = next(m * size for m in (1, 2, 5, 10) if m * size >= raw * (1 - 1e-9))
    return [k * step for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _y_axis(f, low, high, log):
    ticks = [(v, v) for v in _ticks(low, high)]
    if log:
        decades = range(max(math.floor(low), -323), min(math.ceil(high), 308) + 1)  # those of float64
        first = (1, 2, 5) if high - low < 2 else (1,)
        every = max(1, len(decades) // 5)
        ticks = [
            (math.log10(m * 10.0**d), m * 10.0**d)
            for d in decades[::every]
            for m in first
            if low <= math.log10(m * 10.0**d) <= high
        ]
    return "".join(
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{f(v):.1f}" y2="{f(v):.1f}"/>'
        f'<text class="tick" x="{_LEFT - 6}" y="{f(v) + 3.5:.1f}" text-anchor="end">{_short(t)}</text>'
        for v, t in ticks
    )


def _x_axis(f, low, high, label):
    ticks = [v for v in _ticks(low, high) if v == round(v)]
    y = _HEIGHT - _BOTTOM
    return (
        f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>'
        + "".join(
            f'<text class="tick" x="{f(v):.1f}" y="{y + 14}" text-anchor="middle">{_short(v)}</text>' for v in ticks
        )
        + f'<text class="tick" x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 3}" text-anchor="middle">'
        f"{escape(label)}</text>"
    )


def _short(v):
    return f"{v:.3g}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")


def _points(points):
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _frame(inner, label):
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(label)}">{inner}</svg>'


def _legend(names):
    items = "".join(
        f'<span><i class="c{k % 6} d{k // 6 % 3}"></i>{escape(name)}</span>' for k, name in enumerate(names)
    )
    return f'<p class="legend">{items}</p>'


def _contour(z, level, grid, f, whole):
    """Segments where a bilinear surface crosses a level (marching squares)."""
    parts = []
    for i in range(len(grid) - 1):
        for j in range(len(grid) - 1):
            corners = [(i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1)]
            values = [z[c] for c in corners]
            if not all(map(math.isfinite, values)):
                continue
            cuts = []
            for k in range(4):
                (a, u), (b, v) = (corners[k], values[k]), (corners[(k + 1) % 4], values[(k + 1) % 4])
                if (u < level) != (v < level):
                    t = (level - u) / (v - u)
                    cuts.append(
                        (
                            f(grid[a[0]] + t * (grid[b[0]] - grid[a[0]])),
                            whole - f(grid[a[1]] + t * (grid[b[1]] - grid[a[1]])),
                        )
                    )
            parts += [f"M{x:.1f} {y:.1f}L{u:.1f} {v:.1f}" for (x, y), (u, v) in zip(cuts[::2], cuts[1::2], strict=True)]
    return "".join(parts)
