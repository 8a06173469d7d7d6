"""Records of a training run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import check
from ..foreign import dataframe
from ..show import plots
from ..show.notebook import html_table

__all__ = ["History"]


class History:
    """Numbers of a training run, one record an epoch.

    ``history["loss"]`` is the array of a number over the epochs; NaN stands where an epoch has no such number.

    Parameters
    ----------
    records : list of dict, optional

    Attributes
    ----------
    records : list of dict
        With ``epoch``, ``step``, ``loss``, the metrics, and the same with ``validation/`` before the name.
    stopped : str or None
        Why the run ended before its last epoch.

    Examples
    --------
    >>> from triskele.core.train import History
    >>> history = History([{"epoch": 1, "step": 10, "loss": 0.5}, {"epoch": 2, "step": 20, "loss": 0.25}])
    >>> history["loss"], history
    (array([0.5 , 0.25]), <History: 2 epochs, loss 0.25>)
    """

    def __init__(self, records: list[dict[str, Any]] | None = None):
        self.records = [] if records is None else records
        self.stopped: str | None = None

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        last = {k: v for k, v in (self.records[-1] if self.records else {}).items() if k not in ("epoch", "step")}
        shown = "".join(f", {name} {value:.4g}" for name, value in last.items() if isinstance(value, (int, float)))
        ended = f", stopped: {self.stopped}" if self.stopped else ""
        return f"<History: {len(self)} epoch{'s' * (len(self) != 1)}{shown}{ended}>"

    def _repr_html_(self) -> str:
        return html_table("History", {name: self[name].tolist() for name in self.names}, most=10)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the numbers, in the order of their first appearance."""
        return tuple(dict.fromkeys(name for record in self.records for name in record))

    def __getitem__(self, name: str) -> np.ndarray:
        check.choice(name, self.names, "History: name", error=KeyError)
        return np.array([np.nan if r.get(name) is None else r[name] for r in self.records])

    def to_dataframe(self) -> Any:
        """Return the history as a pandas DataFrame with a row for each epoch."""
        return dataframe(
            {name: self[name] for name in self.names if name != "epoch"}, "epoch", self["epoch"].astype(int)
        )

    def plot(self, ax: Any = None, *, names: Sequence[str] = ("loss",), **line: Any) -> Any:
        """Draw numbers of training and validation over the epochs.

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
        shown = [n for name in names for n in (name, f"validation/{name}") if n in self.names]
        label = names[0] if len(names) == 1 else "value"
        with plots.axes(ax, xlabel="epoch", ylabel=label) as ax:
            plots.curves(ax, self["epoch"], {name: self[name] for name in shown}, **line)
        return ax
