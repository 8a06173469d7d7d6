"""The page of a run: one HTML file, made from the entries of its log, that loads nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from .log import Entry, number
from .style import STYLE
from .svg import area_chart, heat, landscape_chart, line_chart, mask, shown

__all__ = ["document", "facts", "page_of", "section", "table"]

_KINDS = {
    "loops": "fused loops",
    "native": "native kernels",
    "python": "Python",
    "control": "loops, branches",
    "copy": "copies",
}
_COLUMNS = 48  # histograms side by side
_ROWS = 16  # operations and arrays that are shown at once
_STEPS = 40  # of the network that are shown at once
_WORDS = 70  # letters of the parameters that a step reads


def page_of(entries: Sequence[Entry]) -> str:
    """The page as text."""

    def of(kind: str) -> list[tuple[int, Any]]:
        return [(e["epoch"], e[kind]) for e in entries if kind in e]

    (_, run), *_ = of("run") or [(0, {"name": "run", "settings": {}, "system": {}, "steps": []})]
    numbers, ends = of("numbers"), of("end")
    body = [
        _head(run, numbers, ends),
        _findings(of("finding")),
        _curves(numbers, [loss for _, loss in of("loss")]),
        _operations(of("operations")),
        _histograms(of("histograms")),
        _samples(of("samples"), run),
        _network(of("network"), run),
        _landscape(of("landscape")),
        _settings(run),
    ]
    return document(run["name"], "".join(body))


def document(title: str, body: str) -> str:
    """A whole HTML document."""
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="viewport" '
        f'content="width=device-width, initial-scale=1">\n<title>{escape(title)}</title>\n<style>{STYLE}</style>\n'
        f"</head>\n<body>\n{body}</body>\n</html>\n"
    )


def section(title: str, body: str, note: str = "") -> str:
    """A section with its heading; empty if there is nothing in it."""
    below = f'<p class="soft note">{note}</p>' if note else ""
    return f"<section>\n<h2>{escape(title)}</h2>\n{below}{body}\n</section>\n" if body else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = (), kind: str = "") -> str:
    """A table of cells that are HTML already; columns whose numbers are in `right` are aligned to the right."""

    def cells(tag, row):
        return "".join(f"<{tag}{' class=r' if k in right else ''}>{cell}</{tag}>" for k, cell in enumerate(row))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return (
        f'<div class="wide"><table class="{kind}"><thead><tr>{cells("th", [escape(h) for h in head])}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def facts(values: dict[str, Any]) -> str:
    """A table of names and what they are."""
    return (
        "<table><tbody>"
        + "".join(f"<tr><th>{escape(k)}</th><td>{escape(_text(v))}</td></tr>" for k, v in values.items())
        + "</tbody></table>"
    )


def chart(title: str, drawing: str) -> str:
    """A drawing with its title."""
    return f"<figure><figcaption>{escape(title)}</figcaption>{drawing}</figure>"


def _text(value):
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _head(run, numbers, ends):
    status = "running, or ended without a word"
    if ends:
        reason = ends[-1][1]["reason"]
        status = f"stopped: {reason}" if reason else "complete"
    last = numbers[-1][1]["record"] if numbers else {}
    tiles = [(name, shown(number(value))) for name, value in last.items() if name not in ("epoch", "step")][:6]
    seconds = sum(n.get("seconds", 0.0) for _, n in numbers)
    tiles += [
        ("epochs", f"{last.get('epoch', 0)} of {run['settings'].get('epochs', '?')}"),
        ("steps", shown(last.get("step", 0))),
        ("training time", _seconds(seconds)),
        ("parameters", shown(run["settings"].get("parameters", 0))),
    ]
    items = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in tiles)
    s = run["settings"]
    return (
        f'<header><p class="soft">{escape(run.get("began", ""))} · {escape(status)}</p>\n'
        f"<h1>{escape(run['name'])}</h1>\n<p>{escape(s.get('network', ''))}, {escape(s.get('loss', ''))}, "
        f"{escape(s.get('optimizer', '').partition('(')[0])}</p>\n<dl>{items}</dl></header>\n"
    )


def _findings(found):
    rows = [
        (
            str(f["epoch"]),
            escape(f["kind"]),
            f"<code>{escape(f['path'])}</code>",
            shown(number(f["value"])),
            escape(f["hint"]),
        )
        for _, f in found
    ]
    return section("Findings", table(["epoch", "what", "where", "number", "hint"], rows, (0, 3)) if rows else "")


def _curves(numbers, losses):
    """Charts of the numbers of epochs, and of the loss by steps where it has been recorded."""
    if not (numbers or losses):
        return ""
    epochs = [e for e, _ in numbers]
    names = dict.fromkeys(name.removeprefix("validation/") for _, n in numbers for name in n["record"])
    charts = []
    if losses:
        curves = {"training": ([x["step"] for x in losses], [number(x["mean"]) for x in losses])}
        records = [n["record"] for _, n in numbers if "validation/loss" in n["record"]]
        if records:
            curves["validation"] = [r["step"] for r in records], [number(r["validation/loss"]) for r in records]
        charts.append(chart("loss by steps", line_chart(curves, xlabel="step", label="loss by steps")))
    for name in names:
        if name in ("epoch", "step") or (name == "loss" and losses):
            continue
        curves = {
            shown_as: (epochs, [number(n["record"].get(key, "nan")) for _, n in numbers])
            for shown_as, key in (("training", name), ("validation", f"validation/{name}"))
            if any(key in n["record"] for _, n in numbers)
        }
        charts.append(chart(name, line_chart(curves, xlabel="epoch", label=name)))
    for name, title in (
        ("rate", "learning rate"),
        ("rate scale", "factor of learning rates"),
        ("steps per second", "steps per second"),
    ):
        values = [number(n.get(name, "nan")) for _, n in numbers]
        if np.isfinite(values).any() and (name != "rate scale" or not np.isfinite(number(numbers[-1][1].get("rate")))):
            drawing = line_chart({title: (epochs, values)}, xlabel="epoch", label=title, linear=True)
            charts.append(chart(title, drawing))
    return section("Curves", f'<div class="charts">{"".join(charts)}</div>')


def _operations(found):
    if not found:
        return ""
    found = found[0][1]
    rows, total = found["rows"], found["seconds"]
    kinds: dict[str, float] = {}
    for o in rows:
        kinds[o["kind"]] = kinds.get(o["kind"], 0.0) + o["seconds"]
    parts = [
        *sorted(((_KINDS[k], s) for k, s in kinds.items()), key=lambda p: -p[1]),
        ("overhead", max(found["overhead"], 0.0)),
    ]
    whole = sum(s for _, s in parts) or 1.0
    bar = "".join(f'<i class="c{k % 6}" style="width:{100 * s / whole:.2f}%"></i>' for k, (_, s) in enumerate(parts))
    legend = "".join(
        f'<span><i class="c{k % 6}"></i>{escape(name)} {s / whole:.0%}</span>' for k, (name, s) in enumerate(parts)
    )
    longest = max(o["seconds"] for o in rows)
    cells = [
        (
            _meter(o["seconds"] / longest),
            f"{1e6 * o['seconds']:.1f}",
            f"{o['seconds'] / total:.1%}",
            str(o["calls"]),
            escape(o["name"])
            + (f' <span class="soft">in {escape(o["inside"])}</span>' if o["inside"] else "")
            + (' <span class="soft">(Python)</span>' if o["kind"] == "python" else ""),
            f"<code>{escape(o['shape'])}</code>",
            (f"<code>{escape(o['layer'])}</code> " if o.get("layer") else "")
            + f'<code class="soft">{escape(o["place"])}</code>'
            + (f' <span class="soft">+ {o["lines"] - 1}</span>' if o["lines"] > 1 else ""),
        )
        for o in rows[:_ROWS]
    ]
    rest = rows[_ROWS:]
    if rest:
        spent = sum(o["seconds"] for o in rest)
        cells.append(("", f"{1e6 * spent:.1f}", f"{spent / total:.1%}", "", f"{len(rest)} others", "", ""))
    cells.append(("", f"{1e6 * found['overhead']:.1f}", f"{found['overhead'] / total:.1%}", "", "overhead", "", ""))
    main = sorted((o for o in rows if not o["inside"] and o["kind"] != "copy"), key=lambda o: o["order"])
    memory = area_chart(
        [o["memory"] / 1e6 for o in main],
        [f"{o['name']} ({o['place']})" for o in main],
        xlabel="operation in order",
        label="memory over the step",
        unit="MB",
    )
    head = ["", "µs", "share", "calls", "operation", "result", "layer and line"]
    body = (
        f'<div class="stack">{bar}</div><p class="legend">{legend}</p><div class="charts two">'
        + chart("time by layer, or by line outside of layers", _lines(rows, total))
        + chart("intermediate values over the step [MB]", memory)
        + f"</div>{table(head, cells, (1, 2, 3), 'operations')}"
    )
    note = (
        f"One training step takes {_seconds(total)}, and {_seconds(found['undisturbed'])} without clocks. Its "
        f"operations, forward and backward, are {1 - found['overhead'] / total:.1%} of it; the rest is overhead of "
        f"the call. A derivative has the line of what it is the derivative of; operations that read a parameter, or "
        f"serve a single one, have its path."
    )
    return section("Time and memory of a step", body, note)


def _lines(rows, total):
    """A table of the layers and lines that take most of the time."""
    spent: dict[str, list[float]] = {}
    for o in rows:
        layer = o.get("layer", "").partition(" + ")[0]
        spent.setdefault(layer.rpartition(".")[0] or layer or o["place"] or "copies", []).append(o["seconds"])
    first = sorted(spent.items(), key=lambda item: -sum(item[1]))[:8]
    cells = [
        (_meter(sum(s) / sum(first[0][1])), f"{sum(s) / total:.1%}", str(len(s)), f"<code>{escape(line)}</code>")
        for line, s in first
    ]
    return table(["", "share", "operations", "layer or line"], cells, (1, 2), "lines")


def _meter(share):
    return f'<span class="meter"><i style="width:{100 * share:.1f}%"></i></span>'


def _folded(parts, shown, what, join):
    """The first parts, and the others behind a line that opens."""
    rest = parts[shown:]
    if len(rest) < 4:
        return join(parts)
    return f"{join(parts[:shown])}<details><summary>{len(rest)} more {what}</summary>{join(rest)}</details>"


def _histograms(found):
    if not found:
        return ""
    places = np.linspace(0, len(found) - 1, min(len(found), _COLUMNS)).round().astype(int)
    chosen = [found[k] for k in np.unique(places)]
    epochs = [e for e, _ in chosen]
    rows = []
    for path in chosen[-1][1]["parameters"]:
        cells = []
        for kind in ("parameters", "gradients"):
            columns = [h[kind][path] for _, h in chosen]
            url, low, high = heat(columns)
            label = f"{kind} {path}, epochs {epochs[0]} to {epochs[-1]}, from {low:.3g} to {high:.3g}"
            cells.append(
                f'<div class="heat"><span><b>{high:.2g}</b><b>{low:.2g}</b></span>'
                f'<div class="shade {kind}" role="img" aria-label="{escape(label)}" '
                f'title="{escape(label)}" style="{mask(url)}"></div></div>'
            )
        rms = [number(chosen[-1][1][kind][path]["rms"]) for kind in ("parameters", "gradients")]
        rows.append((f"<code>{escape(path or 'network')}</code>", cells[0], f"{rms[0]:.3g}", cells[1], f"{rms[1]:.3g}"))
    return section(
        "Parameters and gradients",
        _folded(
            rows,
            _ROWS,
            "arrays",
            lambda some: table(["array", "parameters", "rms", "gradients", "rms"], some, (2, 4), "heats"),
        ),
        f"Histograms over time, each column one of {len(chosen)} looks from epoch {epochs[0]} to "
        f"{epochs[-1]}; the gradient is that of the first batch. The rms is that of the last look.",
    )


def _samples(found, run):
    if not found:
        return ""
    found = found[0][1]
    images = "".join(
        f'<figure><img alt="sample {k}" src="{url}">'
        + (f"<figcaption>{escape(str(found['labels'][k]))}</figcaption>" if found["labels"] else "")
        + "</figure>"
        for k, url in enumerate(found["images"])
    )
    arrays = table(
        ["array", "type", "lowest", "mean", "highest"],
        [
            (
                f"<code>{escape(name)}</code>",
                f"<code>{escape(a['type'])}</code>",
                shown(number(a["low"])),
                shown(number(a["mean"])),
                shown(number(a["high"])),
            )
            for name, a in found["arrays"].items()
        ],
        (2, 3, 4),
    )
    flow = '<span class="arrow">→</span>'.join(f"<code>{escape(step)}</code>" for step in run["steps"])
    return section(
        "Data",
        f'<p class="flow">{flow}</p>' + (f'<div class="images">{images}</div>' if images else "") + arrays,
        "The first batch, as the network saw it.",
    )


def _network(found, run):
    steps = found[0][1] if found else []
    if not steps:
        return ""
    height, lanes, arcs = 30, 0, []
    ends: list[int] = []  # by lane: the step at which its last arc ends
    for k, step in enumerate(steps):
        for j in step["after"]:
            if j == k - 1:
                arcs.append(f'<line class="edge" x1="60" x2="60" y1="{j * height + 20}" y2="{k * height + 9}"/>')
                continue
            lane = next((n for n, end in enumerate(ends) if end <= j), len(ends))
            ends[lane : lane + 1] = [k]
            lanes = max(lanes, lane + 1)
            x, a, b = 52 - 8 * min(lane, 5), j * height + 15, k * height + 15
            arcs.append(f'<path class="edge" d="M55 {a}H{x + 4}q-4 0 -4 4V{b - 4}q0 4 4 4H55"/>')
    sizes = run["settings"].get("arrays", {})
    nodes = []
    for k, s in enumerate(steps):
        y = k * height + 15
        held = ", ".join(
            f"{p} {sizes.get(p, '').lstrip('abcdefghijklmnopqrstuvwxyz0123456789')}".strip() for p in s["parameters"]
        )
        brief = held if len(held) <= _WORDS else held[:_WORDS].rpartition(", ")[0] + ", …"
        nodes.append(
            f'<circle class="node{" held" if s["parameters"] else ""}" cx="60" cy="{y}" r="5"/>'
            f'<text class="label" x="74" y="{y + 4}"><tspan class="strong">{escape(s["name"])}</tspan>'
            f'<tspan dx="8" class="soft">{escape(s["shape"])}</tspan>'
            f'<tspan dx="8">{escape(brief)}</tspan><title>{escape(s["line"])}: {escape(held)}</title></text>'
        )
    total = len(steps) * height
    drawing = (
        f'<div class="wide"><svg class="graph" style="height:{total}px" viewBox="0 0 900 {total}" role="img" '
        f'aria-label="steps of the network">{"".join(arcs)}{"".join(nodes)}</svg></div>'
    )
    if len(steps) > _STEPS:
        drawing = f"<details><summary>{len(steps)} steps</summary>{drawing}</details>"
    return section(
        "Network",
        drawing,
        "The steps of the compiled forward pass with their largest results and the "
        "parameters that they read. Layers that run as one loop are one step.",
    )


def _landscape(found):
    if not found:
        return ""
    found = found[-1][1]
    loss = [[number(v) for v in row] for row in found["loss"]]
    return section(
        "Loss landscape",
        landscape_chart(found["grid"], loss),
        "Loss of the first batch along two random directions whose filters have the norms of the network's "
        "filters (Li et al. 2018); contours are at equal ratios.",
    )


def _settings(run):
    settings = {k: v for k, v in run["settings"].items() if k != "arrays"}
    code = {f"code, {name}": digest for name, digest in run.get("code", {}).items()}
    return section(
        "Settings",
        facts({**settings, "hash of the data": run.get("data", "")})
        + f"<details><summary>Code</summary>{facts(code)}</details>" * bool(code),
    ) + section("System", facts(run["system"]))


def _seconds(s):
    return (
        f"{1e6 * s:.0f} µs"
        if s < 1e-3
        else f"{1e3 * s:.3g} ms"
        if s < 1
        else f"{s:.1f} s"
        if s < 100
        else f"{int(s) // 60} min {int(s) % 60:02d} s"
    )
