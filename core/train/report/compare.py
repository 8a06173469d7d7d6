"""Comparison of runs: the settings and results that differ."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from ... import check
from ...disk.files import atomic
from ...errors import ReporterError
from ...foreign import dataframe
from ...show import plots
from ...show.notebook import html_table
from .log import Entry, log_path, number, read_log
from .page import chart, document, section, table
from .svg import line_chart, shown

__all__ = ["Comparison", "compare"]


class Comparison:
    """Settings and results that differ between runs.

    Parameters
    ----------
    first, second : list of dict
        Entries of the logs.
    names : tuple of str
        One for each run; equal ones are numbered.
    *others : list of dict
        Entries of the logs of more runs.

    Attributes
    ----------
    differences : dict of str to tuple
        Settings, data, code and versions that are not the same, one entry for each run; None where a run has none.
    curves : dict of str to tuple of (epochs, values)
        Numbers of the epochs that all runs have, one pair for each run.
    losses : tuple of (steps, losses)
        The loss by steps, one pair for each run; empty where it has not been recorded.

    Examples
    --------
    >>> from triskele.core.train import Comparison
    >>> entries = lambda rate, loss: [{"epoch": 0, "run": {"settings": {"optimizer": f"SGD({rate})"}}},
    ...                               {"epoch": 1, "numbers": {"record": {"epoch": 1, "loss": loss}}}]
    >>> found = Comparison(entries(0.1, 0.5), entries(0.2, 0.4), ("a", "b"))
    >>> found.differences
    {'optimizer': ('SGD(0.1)', 'SGD(0.2)')}
    >>> found.final("loss")
    (0.5, 0.4)
    """

    def __init__(
        self, first: Sequence[Entry], second: Sequence[Entry], names: tuple[str, ...], *others: Sequence[Entry]
    ):
        self.names, runs = _numbered(names), (first, second, *others)
        facts, curves = [_facts(r) for r in runs], [_curves(r) for r in runs]
        every = dict.fromkeys(k for f in facts for k in f)
        values = {k: tuple(f.get(k) for f in facts) for k in every}
        self.differences = {k: v for k, v in values.items() if any(x != v[0] for x in v)}
        self.same = len(every) - len(self.differences)
        self.curves = {k: tuple(c[k] for c in curves) for k in curves[0] if all(k in c for c in curves)}

        self.losses = tuple(_losses(r) for r in runs)

    def __repr__(self) -> str:
        what = ", ".join(self.differences) or "nothing"
        what = what if len(what) < 120 else f"{len(self.differences)} things"
        name = next((n for n in ("validation/loss", "loss") if n in self.curves), None)
        came = "" if name is None else f"; {name} {_listed(map(shown, self.final(name)))}"
        return f"<Comparison of {_listed(self.names)}: {what} differed{came}>"

    def final(self, name: str) -> tuple[float, ...]:
        """The number in the last epoch of each run."""
        return tuple(float(values[-1]) for _, values in self._curve(name))

    def lowest(self, name: str) -> tuple[float, ...]:
        """The lowest number of each run; NaN if none is finite."""
        return tuple(_extreme(np.min, values) for _, values in self._curve(name))

    def highest(self, name: str) -> tuple[float, ...]:
        """The highest number of each run; NaN if none is finite."""
        return tuple(_extreme(np.max, values) for _, values in self._curve(name))

    def _curve(self, name):
        return self.curves[check.choice(name, self.curves, "Comparison: a number of all runs", error=KeyError)]

    def to_dataframe(self) -> Any:
        """Return final, lowest and highest numbers as a pandas DataFrame, a row for each number."""
        columns = {
            f"{how} {run}": [getattr(self, how)(name)[k] for name in self.curves]
            for how in ("final", "lowest", "highest")
            for k, run in enumerate(self.names)
        }
        return dataframe(columns, "number", list(self.curves))

    def plot(self, ax: Any = None, *, names: Sequence[str] = ("loss",), **line: Any) -> Any:
        """Draw numbers of all runs over the epochs.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; new ones by default.
        names : sequence of str
        **line
            Options of the lines.

        Returns
        -------
        matplotlib.axes.Axes
        """
        with plots.axes(ax, xlabel="epoch", ylabel=names[0] if len(names) == 1 else "value") as ax:
            for name in names:
                for run, (epochs, values) in zip(self.names, self._curve(name), strict=True):
                    label = run if len(names) == 1 else f"{run}, {name}"
                    plots.curves(ax, epochs, {label: values}, **line)
            ax.legend()
        return ax

    def _results(self):
        """Columns of a table with a row for each number of each run."""
        numbers = [(name, how(name)) for name in self.curves for how in (self.final, self.lowest, self.highest)]
        return {
            "number": [name for name in self.curves for _ in self.names],
            "run": [run for _ in self.curves for run in self.names],
            **{
                how: [x for _, values in numbers[k::3] for x in values]
                for k, how in enumerate(("final", "lowest", "highest"))
            },
        }

    def _repr_html_(self) -> str:
        different = {
            "what": list(self.differences),
            **{run: [str(v[k]) for v in self.differences.values()] for k, run in enumerate(self.names)},
        }
        return html_table("What differed", different, most=40) + html_table(
            "What came of it", self._results() if self.curves else {}, most=40
        )

    def save(self, path: str | os.PathLike) -> None:
        """Write the comparison as a page that loads nothing.

        Parameters
        ----------
        path : path-like
        """

        def cell(value):
            return "<span class=soft>none</span>" if value is None else escape(str(value))

        title = _listed(self.names)
        rows = [(escape(k), *map(cell, values)) for k, values in self.differences.items()]
        found = self._results()
        results = [
            (escape(name) if k % len(self.names) == 0 else "", escape(run), *map(shown, values))
            for k, (name, run, *values) in enumerate(zip(*found.values(), strict=True))
        ]
        by_step = dict(zip(self.names, self.losses, strict=True))
        charts = ""
        if any(len(steps) for steps, _ in self.losses):
            charts = chart("loss by steps", line_chart(by_step, xlabel="step", label="loss by steps"))
        charts += "".join(
            chart(name, line_chart(dict(zip(self.names, runs, strict=True)), xlabel="epoch", label=name))
            for name, runs in self.curves.items()
        )
        body = (
            f'<header><p class="soft">{self.same} settings, versions and hashes are the same</p>'
            f"<h1>{escape(title)}</h1></header>\n"
            + section("What differed", table(["what", *self.names], rows, kind="runs") if rows else "<p>Nothing.</p>")
            + section("What came of it", table(list(found), results, (2, 3, 4)) if results else "")
            + section("Curves", f'<div class="charts">{charts}</div>' if charts else "")
        )
        with atomic(path) as file:
            file.write(document(title, body).encode())


def compare(first: str | os.PathLike, second: str | os.PathLike, *others: str | os.PathLike) -> Comparison:
    """Compare two or more runs that `Report` has logged.

    Parameters
    ----------
    first, second, *others : path-like
        The page or the log of a run, or its name without ``.html`` or ``.jsonl``.

    Returns
    -------
    Comparison

    Raises
    ------
    FileNotFoundError
        If a run has no log.
    ReporterError
        If a file is not the log of a run.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from triskele.core import nn, optim, train
    >>> batch = np.ones((4, 1)), np.zeros((4, 1))
    >>> def fit(page, rate):
    ...     model = train.Model(nn.Linear(np.ones((1, 1))), nn.mean_squared_error, optim.SGD(rate))
    ...     return model.fit([batch], epochs=3, callbacks=[train.Report(page, profile=False)])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name, rate in (("slow", 0.01), ("fast", 0.1)):
    ...         _ = fit(pathlib.Path(folder, f"{name}.html"), rate)
    ...     found = train.compare(f"{folder}/slow", f"{folder}/fast")
    >>> found.differences["optimizer"][1]
    'SGD(learning_rate=0.1, momentum=0.0, nesterov=False, l2=0.0)'
    """
    found = []
    for run in (first, second, *others):
        path = log_path(run)
        if not path.exists():
            raise FileNotFoundError(f"train.compare: the log of the run must exist, got {os.fspath(path)!r}")
        entries = read_log(path)
        if not any("run" in e for e in entries):
            raise ReporterError(
                f"train.compare: {os.fspath(path)!r} must be the log of a run, got {len(entries)} "
                f"entries without settings"
            )
        found.append((path, entries))
    (_, one), (_, two), *rest = found
    return Comparison(one, two, _short_names([path for path, _ in found]), *[entries for _, entries in rest])


def _short_names(paths):
    """Names of files with as many folders as it takes to tell them apart."""
    files = [Path(os.path.abspath(path)).with_suffix("").parts for path in paths]  # links keep their names
    names = []
    for file in files:
        others = {f for f in files if f != file}
        count = next(k for k in range(1, len(file) + 1) if all(f[-k:] != file[-k:] for f in others))
        names.append(os.path.join(*file[-count:]))
    return tuple(names)


def _numbered(names):
    """Names, of which a second ``a`` becomes ``a (2)``."""
    out: list[str] = []
    for name in names:
        more = (f"{name} ({k})" for k in itertools.count(2))
        out.append(name if name not in out else next(n for n in more if n not in out and n not in names))
    return tuple(out)


def _listed(texts):
    """Join texts as ``a, b and c``."""
    *most, last = texts
    return f"{', '.join(most)} and {last}" if most else last


def _facts(entries: Sequence[Entry]) -> dict[str, Any]:
    """Everything that may differ, by name. The names of the runs' own files do not count."""
    run: Mapping[str, Any] = next((e["run"] for e in entries if "run" in e), {})
    found = {**run.get("settings", {}), **run.get("system", {})}
    found |= {f"array {name}": value for name, value in found.pop("arrays", {}).items()}
    found |= {f"code of {name}": value for name, value in run.get("code", {}).items()}
    if "data" in run:
        found["hash of the data"] = run["data"]
    if "callbacks" in found:
        found["callbacks"] = [c for c in found["callbacks"] if not c.startswith(("Report(", "Checkpoint("))]
    return found


def _curves(entries):
    records = [(e["epoch"], e["numbers"]["record"]) for e in entries if "numbers" in e]
    names = dict.fromkeys(name for _, record in records for name in record if name not in ("epoch", "step"))
    return {
        name: (
            np.array([epoch for epoch, r in records if name in r]),
            np.array([number(r[name]) for _, r in records if name in r]),
        )
        for name in names
    }


def _losses(entries):
    found = [e["loss"] for e in entries if "loss" in e]
    return np.array([x["step"] for x in found]), np.array([number(x["mean"]) for x in found])


def _extreme(function, values):
    finite = values[np.isfinite(values)]
    return float(function(finite)) if len(finite) else np.nan
