"""Reports of long work: one grammar of records, files, bars and early ends for all packages.

Every function that may take long has the keywords ``report``, ``progress``, and ``checkpoint`` where its work can be
resumed. A reporter is a function of a dictionary of numbers; the key ``step`` counts the work done.
"""

from __future__ import annotations

import contextlib
import csv
import importlib
import io
import math
import os
from collections.abc import Callable, Iterable
from typing import Any, Self, TypeAlias

from .. import check
from ..disk.files import atomic
from ..errors import ReporterError
from ..imports.optional import need
from .progress import print_line, progress_bar

__all__ = ["CSV", "Log", "Record", "Report", "Reports", "TensorBoard", "Work", "as_reporters"]

Record: TypeAlias = dict[str, Any]
Reports: TypeAlias = Callable[[Record], Any] | Iterable[Callable[[Record], Any]] | None


class Report:
    """Base of reporters that hold something open. Any function of a dictionary of numbers can be used in its place.

    The work calls `open` before its first record, the reporter itself with the records, `sync` before a checkpoint is
    written, and `close` at the end, whatever the end is. A reporter that raises StopIteration ends the work in good
    order.

    Parameters
    ----------
    every : int, default 1
        Steps between two records. Of work that makes many steps at once, each record is used that reaches or passes a
        multiple of `every`.

    Examples
    --------
    >>> from triskele.core.show.report import Report
    >>> class Best(Report):
    ...     value = float("inf")
    ...     def __call__(self, record):
    ...         self.value = min(self.value, record["loss"])
    >>> best = Best()
    >>> best({"loss": 0.3})
    >>> best.value
    0.3
    """

    def __init__(self, every: int = 1):
        self.every = check.integer(every, f"{type(self).__name__}: every", 1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(every={self.every})"

    def open(self, step: int) -> None:
        """Prepare for the records after `step`, which is 0 unless the work resumes; an error ends the work."""

    def __call__(self, record: Record) -> None:
        """Take a record."""
        raise NotImplementedError

    def sync(self) -> None:
        """Bring what was reported to the disk."""

    def close(self) -> None:
        """Release files; called once for each `open` that succeeded."""


class CSV(Report):
    """A table of comma-separated values, a line for each record; the first line names the columns.

    When work resumes, the file is continued: lines of steps after the checkpoint are dropped first, so that no step
    is missing or there twice.

    Parameters
    ----------
    path : path-like
    every : int, default 1
        Steps between two lines.

    Raises
    ------
    ReporterError
        If the file cannot be written, or is not the table of this work.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from triskele.core.show.report import CSV, Work
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "loss.csv")
    ...     with Work("example", CSV(path)) as work:
    ...         work({"step": 1, "loss": 0.5})
    ...     path.read_text().split()
    ['step,loss', '1,0.5']
    """

    def __init__(self, path: str | os.PathLike, every: int = 1):
        super().__init__(every)
        self.path = os.fspath(path)

    def __repr__(self) -> str:
        return f"CSV({self.path!r}, every={self.every})"

    def open(self, step: int) -> None:
        """Open a new file for fresh work, else continue after the line of `step`."""
        self._columns: list[str] | None = None
        try:
            kept = self._lines_until(step) if step and os.path.exists(self.path) else ""
            with atomic(self.path) as file:
                file.write(kept.encode())
            self._file = open(self.path, "a", newline="", buffering=1)  # noqa: SIM115
        except OSError as error:
            raise ReporterError(f"CSV {self.path!r}: cannot be written: {error.strerror or error}") from error

    def _lines_until(self, step):
        with open(self.path, newline="") as file:
            rows = list(csv.reader(file))
        if not rows or "step" not in rows[0]:
            raise ReporterError(
                f"CSV {self.path!r}: must have a column named step to be continued (move it away, or "
                f"choose another path)"
            )
        self._columns, at = rows[0], rows[0].index("step")
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(rows[0])
        for row in rows[1:]:  # a line that a killed process has left half-written is dropped, too
            with contextlib.suppress(ValueError, IndexError):
                if len(row) == len(rows[0]) and int(row[at]) <= step:
                    writer.writerow(row)
        return out.getvalue()

    def __call__(self, record: Record) -> None:
        """Write a line."""
        try:
            if self._columns is None:
                self._columns = list(record)
                csv.writer(self._file, lineterminator="\n").writerow(self._columns)
            if list(record) != self._columns:
                raise ReporterError(
                    f"CSV {self.path!r}: columns must be {', '.join(self._columns)}, got "
                    f"{', '.join(record)} (choose another path)"
                )
            self._file.write(",".join("" if x is None else _digits(x) for x in record.values()) + "\n")
        except OSError as error:
            raise ReporterError(f"CSV {self.path!r}: cannot be written: {error.strerror or error}") from error

    def sync(self) -> None:
        """Wait until the disk has everything."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _digits(x):
    return repr(x.item() if hasattr(x, "item") else x)


class TensorBoard(Report):
    """Curves for TensorBoard; needs tensorboardX or PyTorch.

    Parameters
    ----------
    folder : path-like
    every : int, default 1
        Steps between two points.

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> rl.PPO("CartPole-v1").train(100_000, report=rl.TensorBoard("runs/ppo"))  # doctest: +SKIP
    """

    def __init__(self, folder: str | os.PathLike, every: int = 1):
        super().__init__(every)
        self.folder = os.fspath(folder)

    def __repr__(self) -> str:
        return f"TensorBoard({self.folder!r}, every={self.every})"

    def open(self, step: int) -> None:
        """Begin an event file; what an earlier run wrote beyond `step` is hidden."""
        self._writer = _summary_writer()(self.folder, purge_step=step + 1 if step else None)

    def __call__(self, record: Record) -> None:
        """Add a point to each curve."""
        for name, value in record.items():
            if name != "step" and value is not None and math.isfinite(value):
                self._writer.add_scalar(name, value, record["step"])

    def sync(self) -> None:
        """Write what is buffered."""
        self._writer.flush()

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()


def _summary_writer() -> Any:
    try:
        return need("tensorboardX", "TensorBoard", "rl").SummaryWriter
    except ImportError:
        with contextlib.suppress(ImportError):
            return importlib.import_module("torch.utils.tensorboard").SummaryWriter
        raise


class Log(Report):
    """Prints records as the lines of a table.

    Parameters
    ----------
    every : int, default 1
        Steps between two lines.

    Examples
    --------
    >>> from triskele.core.show.report import Log, Work
    >>> with Work("example", Log(every=10)) as work:
    ...     for step in range(1, 21):
    ...         work({"step": step, "loss": 1 / step})
          step       loss
            10        0.1
            20       0.05
    """

    def __repr__(self) -> str:
        return f"Log(every={self.every})"

    def open(self, _step: int) -> None:
        """Begin a new table."""
        self._columns: list[str] | None = None

    def __call__(self, record: Record) -> None:
        """Print a line, and the names of the columns above the first one."""
        if self._columns != list(record):
            self._columns = list(record)
            print_line(" ".join(f"{name:>10}" for name in record))
        print_line(" ".join(f"{_short(value):>{max(10, len(name))}}" for name, value in record.items()))


def _short(value):
    return "-" if value is None else f"{value:d}" if isinstance(value, int) else f"{value:.6g}"


def as_reporters(report: Reports, where: str) -> list[Callable[[Record], Any]]:
    """Return the reporters as a list.

    Parameters
    ----------
    report : None, function, or iterable of functions
    where : str
        The function that got them, as errors begin.

    Raises
    ------
    TypeError
        If one cannot be called with a dictionary.

    Examples
    --------
    >>> from triskele.core.show.report import as_reporters
    >>> history = []
    >>> len(as_reporters([history.append, print], 'train'))
    2
    """
    if report is None:
        return []
    given = [report] if callable(report) or not isinstance(report, Iterable) or isinstance(report, str) else [*report]
    for r in given:
        if isinstance(r, type) and issubclass(r, Report):
            raise TypeError(
                f"{where}: report must be a function of a dictionary of numbers, got the class "
                f"{r.__name__} (make one: {r.__name__}(...))"
            )
        check.kind(r, Callable, f"{where}: report", "a function of a dictionary of numbers, or a list of such")
    return given


class Work:
    """Long work under way: hands its records to reporters, and moves its progress bar.

    Parameters
    ----------
    where : str
        The function that works, as errors begin.
    report : None, function, or iterable of functions
        Reporters, each called with a dictionary of numbers.
    progress : bool, optional
        Whether a bar is shown; see `progress_bar`.
    title : str, optional
        Title of the bar. Defaults to `where`.
    unit : str, default "step"
        Unit of the bar.
    total : int, optional
        Steps at the end.
    done : int, default 0
        Steps at the beginning: those of the checkpoint from which the work resumes.

    Attributes
    ----------
    stopped : str or None
        The reason that a reporter gave, once one has raised StopIteration. The work has to end then.

    Examples
    --------
    >>> from triskele.core.show.report import Work
    >>> def enough(record):
    ...     if record["loss"] < 0.3:
    ...         raise StopIteration("loss below 0.3")
    >>> with Work("example", enough) as work:
    ...     for step in range(1, 10):
    ...         work({"step": step, "loss": 1 / step})
    ...         if work.stopped:
    ...             break
    >>> step, work.stopped
    (4, 'loss below 0.3')
    """

    def __init__(
        self,
        where: str,
        report: Reports = None,
        progress: bool | None = None,
        *,
        title: str | None = None,
        unit: str = "step",
        total: int | None = None,
        done: int = 0,
    ):
        self.where, self.stopped, self.step, self._shown = where, None, done, done
        self._reporters = [(r, getattr(r, "every", 1)) for r in as_reporters(report, where)]
        self._bar_of = lambda: progress_bar(title or where, unit, total, done=done, show=progress)

    stopped: str | None

    def __repr__(self) -> str:
        return f"<Work {self.where!r}: step {self.step}>"

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            for r, _ in self._reporters:
                if isinstance(r, Report):
                    r.open(self.step)
                    stack.callback(r.close)
            self._bar = stack.enter_context(self._bar_of())
            self._opened = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._opened.__exit__(*error)

    def __call__(self, record: Record, text: str = "") -> None:
        """Report a record of numbers, "step" among them, and move the bar there; `text` stands behind the count."""
        before, self.step = self.step, record["step"]
        if text:
            self._bar.set_postfix_str(text, refresh=False)
        self.move(self.step)
        for r, every in self._reporters:
            if self.step // every > before // every:
                try:
                    r(record)
                except StopIteration as stop:
                    self.stopped = str(stop) or "stopped by a reporter"

    def move(self, step: int) -> None:
        """Move the bar between two records."""
        self._bar.update(step - self._shown)
        self._shown = step

    def sync(self) -> None:
        """Bring to the disk what was reported, before a checkpoint is written."""
        for r, _ in self._reporters:
            if isinstance(r, Report):
                r.sync()
