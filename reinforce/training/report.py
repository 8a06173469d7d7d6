"""Reports of a running training: to files, to TensorBoard, to the screen."""

from __future__ import annotations

import csv
import importlib
import io
import math
import os
from typing import TYPE_CHECKING, Any

from triskele.core.extend import atomic, progress_bar

from ..errors import ReinforceError

if TYPE_CHECKING:
    from .agent import Agent

__all__ = ["CSV", "Report", "TensorBoard"]


class Report:
    """Receives the numbers of every iteration as a dictionary. Any function of such a dictionary can replace it.

    A training calls `open` before its first iteration, the object itself after each, and `close` at the end, whatever
    the end is. A call that returns True stops the training after this iteration.
    """

    def open(self, agent: Agent) -> None:
        """Prepare; an error raised here stops the training before its first iteration."""

    def __call__(self, numbers: dict[str, float | None]) -> bool | None:
        """Take the numbers of one iteration."""
        raise NotImplementedError

    def close(self) -> None:
        """Release files; called once for each `open` that succeeded."""


class CSV(Report):
    """A table of comma-separated values, a line for each iteration; the first line names the columns.

    After a resume the same file is continued: lines written after the checkpoint are dropped first.

    Parameters
    ----------
    path : path-like

    Examples
    --------
    >>> agent.train(100_000, report=CSV("curve.csv"))  # doctest: +SKIP
    """

    def __init__(self, path: str | os.PathLike):
        self.path = os.fspath(path)

    def open(self, agent: Agent) -> None:
        """Open a new file for a fresh agent, else continue after the agent's last line."""
        self._columns: list[str] | None = None
        kept = self._lines_until(agent.steps) if agent.steps and os.path.exists(self.path) else ""
        try:
            with atomic(self.path) as file:
                file.write(kept.encode())
            self._file = open(self.path, "a", newline="", buffering=1)  # noqa: SIM115
        except OSError as error:
            raise ReinforceError(f"CSV {self.path!r}: cannot be written: {error.strerror or error}") from error

    def _lines_until(self, steps):
        with open(self.path, newline="") as file:
            rows = list(csv.reader(file))
        if not rows or rows[0][:1] != ["steps"]:
            raise ReinforceError(f"CSV {self.path!r}: must be the table of a training to continue it (move it away, "
                                 f"or choose another path)")
        self._columns = rows[0]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        # a line that a killed process has left half-written is dropped, too
        writer.writerows([rows[0], *(r for r in rows[1:] if len(r) == len(rows[0]) and int(r[0]) <= steps)])
        return out.getvalue()

    def __call__(self, numbers: dict[str, float | None]) -> None:
        """Write a line."""
        if self._columns is None:
            self._columns = list(numbers)
            self._file.write(",".join(self._columns) + "\n")
        if list(numbers) != self._columns:
            raise ReinforceError(f"CSV {self.path!r}: columns must be {', '.join(self._columns)}, got "
                                 f"{', '.join(numbers)} (choose another path)")
        self._file.write(",".join("" if x is None else repr(x) for x in numbers.values()) + "\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class TensorBoard(Report):
    """Curves for TensorBoard.

    Parameters
    ----------
    folder : path-like

    Examples
    --------
    >>> agent.train(100_000, report=TensorBoard("runs/ppo"))  # doctest: +SKIP
    """

    def __init__(self, folder: str | os.PathLike):
        self.folder = os.fspath(folder)

    def open(self, agent: Agent) -> None:
        """Begin an event file; what an earlier run wrote beyond the agent's step is hidden."""
        self._writer = _summary_writer()(self.folder, purge_step=agent.steps + 1 if agent.steps else None)

    def __call__(self, numbers: dict[str, float | None]) -> None:
        """Add a point to each curve."""
        for name, value in numbers.items():
            if name != "steps" and value is not None and math.isfinite(value):
                self._writer.add_scalar(name, value, numbers["steps"])

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()


def _summary_writer() -> Any:
    for module in ("tensorboardX", "torch.utils.tensorboard"):
        try:
            return importlib.import_module(module).SummaryWriter
        except ImportError as error:
            reason = error
    raise ImportError("TensorBoard: needs tensorboardX (pip install 'triskele[rl]')") from reason


class Bar(Report):
    """A progress bar, with the mean return of the last episodes."""

    def open(self, agent: Agent) -> None:
        """Show the bar."""
        self._bar = progress_bar(agent.name, "step", agent.target, done=agent.steps)

    def __call__(self, numbers: dict[str, float | None]) -> None:
        """Move it."""
        value = numbers["return"]
        if value is not None:
            self._bar.set_postfix_str(f"return {value:.1f}", refresh=False)
        self._bar.update(numbers["steps"] - self._bar.n)

    def close(self) -> None:
        """Leave the bar as it is."""
        self._bar.close()
