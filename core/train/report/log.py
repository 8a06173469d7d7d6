"""The log of a run: one JSON object a line, appended as the run proceeds."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from ...disk.files import atomic
from ...errors import ReporterError

__all__ = ["RunLog", "log_path", "read_log"]

Entry = dict[str, Any]


class RunLog:
    """A file of JSON lines that is whole after every line; `epoch` is the number of epochs that the run has done.

    A new run (0 epochs) replaces the file. Otherwise the file is continued: the entry of its end, entries of later
    epochs, and half a line that a killed process has left are dropped first.
    """

    def __init__(self, path: Path, epoch: int):
        self.path = path
        before = read_log(path) if epoch and path.exists() else []
        # each with "epoch" and one kind of content, under the kind's name
        self.entries = [e for e in before if e["epoch"] <= epoch and "end" not in e]
        try:
            with atomic(path) as file:
                file.writelines(_line(e) for e in self.entries)
            self._file = open(path, "ab", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> ReporterError:
        return ReporterError(f"Report {os.fspath(self.path)!r}: cannot be written: {error.strerror or error}")

    def write(self, kind: str, epoch: int, content: Any) -> None:
        """Append an entry."""
        entry = {"epoch": epoch, kind: plain(content)}
        try:
            self._file.write(_line(entry))
        except OSError as error:
            raise self._failed(error) from error
        self.entries.append(entry)

    def found(self, kind: str) -> list[Any]:
        """Contents of one kind."""
        return [e[kind] for e in self.entries if kind in e]

    def close(self) -> None:
        """Release the file."""
        self._file.close()


def read_log(path: str | os.PathLike) -> list[Entry]:
    """Return the entries of a log, without half a line at its end, which a killed process may leave."""
    found = []
    lines = Path(path).read_bytes().split(b"\n")
    for k, line in enumerate(lines):
        if not line:
            continue
        try:
            entry = json.loads(line)
            if "epoch" not in entry:
                raise ValueError("no epoch")
        except (ValueError, TypeError) as error:
            if k == len(lines) - 1:
                break
            raise ReporterError(
                f"Report {os.fspath(path)!r}: must be the log of a run, got line {k + 1} "
                f"{line[:40]!r} (move it away, or choose another path)"
            ) from error
        found.append(entry)
    return found


def log_path(run: str | os.PathLike) -> Path:
    """The log of a run that is named by its page, its log, or what both are called without their endings."""
    path = Path(run)
    return (
        path
        if path.suffix == ".jsonl"
        else path.with_suffix(".jsonl")
        if path.suffix == ".html"
        else path.with_name(path.name + ".jsonl")
    )


def plain(value: Any) -> Any:
    """`value` as JSON has it: numbers of Python, with NaN and infinity as text."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such numbers
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def number(value: Any) -> float:
    """The number that `plain` wrote."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def _line(entry: Entry) -> bytes:
    return json.dumps(entry, allow_nan=False, separators=(",", ":")).encode() + b"\n"
