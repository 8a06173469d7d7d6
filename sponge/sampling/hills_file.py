"""Hills and recorded variables from files: PLUMED's HILLS and COLVAR, and tables of `Variables`."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..cv.variable import CollectiveVariable
from ..errors import FileFormatError

__all__ = ["HillsFile", "as_paths", "field_of", "heading", "read_hills", "read_table"]

_ENDS = {math.pi: "pi", -math.pi: "-pi"}  # of periods: PLUMED compares their texts


def as_paths(given: Any) -> list[str]:
    """Paths as text, from one or several."""
    return [os.fspath(path) for path in ([given] if isinstance(given, (str, os.PathLike)) else given)]


def field_of(variable: CollectiveVariable) -> str:
    """Return the name of the field of a variable, in which blanks would separate fields."""
    return "_".join(variable.name.split())


def heading(cvs: Sequence[CollectiveVariable]) -> bytes:
    """The first lines of a file of hills."""
    names = [field_of(variable) for variable in cvs]
    lines = [
        f"FIELDS time {' '.join(names)} {' '.join(f'sigma_{name}' for name in names)} height biasf",
        "SET multivariate false",
        "SET kerneltype gaussian",
    ]
    for variable, name in zip(cvs, names):
        for key, end in zip(("min", "max"), variable.period or ()):
            lines.append(f"SET {key}_{name} {_ENDS.get(end, repr(float(end)))}")
    return "".join(f"#! {line}\n" for line in lines).encode()


@dataclass
class Table:
    """Columns of numbers with the names of the fields, constants, and the number of the line of each row."""

    path: str
    fields: list[str]
    constants: dict[str, str]
    lines: list[int]
    values: np.ndarray

    def columns(self, names: Sequence[str]) -> np.ndarray:
        """Return columns (m, names) of finite numbers."""
        if missing := [name for name in names if name not in self.fields]:
            raise FileFormatError(
                f"{self.path}: must have the fields {', '.join(names)}, got {', '.join(self.fields)[:200]} (without "
                f"{missing[0]})"
            )
        found = self.values[:, [self.fields.index(name) for name in names]]
        self.refuse(~np.isfinite(found).all(axis=1), "must hold finite numbers", found)
        return found

    def refuse(self, wrong: Any, requirement: str, values: np.ndarray) -> None:
        """Raise a FileFormatError that names the line of the first row that is wrong, and its values."""
        if wrong.any():
            k = int(np.argmax(wrong))
            raise FileFormatError(f"{self.path}, line {self.lines[k]}: {requirement}, got {values[k].tolist()}")

    def check_values(
        self, name: str, values: np.ndarray, variable: CollectiveVariable, low: float, high: float
    ) -> None:
        """Raise FileFormatError unless values are on the grid; of a periodic variable, up to half a period beyond."""
        margin = 0.0 if variable.period is None else 0.5 * (high - low)
        requirement = f"{name} must be on the grid from {low:g} to {high:g} (widen `grid`; angles are in radians)"
        self.refuse((values < low - margin) | (values > high + margin), requirement, values)

    def times(self) -> np.ndarray:
        """Times in ps, which do not decrease."""
        times = self.columns(["time"])[:, 0]
        back = np.diff(times, prepend=times[:1]) < 0
        self.refuse(back, "times must not decrease (give the parts of a run whose clock was reset as `past`)", times)
        return times


def read_table(path: str | os.PathLike) -> Table:
    """Read a file of PLUMED's, or one of comma-separated values; raise FileFormatError if it is neither."""
    fields: list[str] = []
    constants: dict[str, str] = {}
    lines, rows, separator = [], [], None
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            words, where = line.split(), f"{os.fspath(path)}, line {number}"
            if number == 1 and not line.startswith("#"):
                fields, separator = [name.split(" [")[0] for name in line.strip().split(",")], ","
            elif words[:2] == ["#!", "FIELDS"]:  # again after each restart
                if fields and fields != words[2:]:
                    raise FileFormatError(f"{where}: fields must stay {' '.join(fields)!r:.200}, got {line[10:100]!r}")
                fields = words[2:]
            elif words[:2] == ["#!", "SET"] and len(words) == 4:
                if constants.setdefault(words[2], words[3]) != words[3]:
                    raise FileFormatError(f"{where}: {words[2]} must stay {constants[words[2]]}, got {words[3]}")
            elif words and not line.startswith("#"):
                try:
                    row = [float(word) for word in line.split(separator)]
                except ValueError:
                    row = []
                if not row or len(row) != len(fields):
                    raise FileFormatError(f"{where}: must hold {len(fields)} numbers, got {line.strip()!r:.100}")
                lines.append(number)
                rows.append(row)
    if not rows or len(set(fields)) < len(fields):
        raise FileFormatError(
            f"{os.fspath(path)}: must hold fields with different names and at least one row of numbers, got "
            f"{len(rows)} rows of {', '.join(fields)[:200] or 'no fields'}"
        )
    return Table(os.fspath(path), fields, constants, lines, np.array(rows))


@dataclass
class HillsFile:
    """Hills of one file.

    Attributes
    ----------
    names : list of str
        Fields of the d variables.
    periods : list of (float, float) or None
    hills : (m, 2 d + 2) array
        Centers, widths, the part of the height at which a hill ends, and the height of the bias in kJ/mol.
    factors : (m,) array
        Bias factors, infinite without one.
    """

    table: Table
    names: list[str]
    periods: list[tuple[float, float] | None]
    hills: np.ndarray
    factors: np.ndarray

    def ordered(self, names: Sequence[str]) -> np.ndarray:
        """Return the hills in the order of `names`; raise FileFormatError if the file has other variables."""
        if sorted(names) != sorted(self.names):
            raise FileFormatError(
                f"{self.table.path}: hills must be of the variables {', '.join(names)}, got "
                f"{', '.join(self.names)[:200]} (name the variables as the file does: cv.torsion(..., name='phi'))"
            )
        order = [self.names.index(name) for name in names]
        return self.hills[:, [*order, *(len(order) + k for k in order), -2, -1]]

    def on(self, cvs: Sequence[CollectiveVariable], grid: Sequence[tuple[float, float, int]]) -> np.ndarray:
        """Return the hills in the order of `cvs`; raise FileFormatError if they do not fit these or the grid."""
        names = [field_of(variable) for variable in cvs]
        hills = self.ordered(names)
        for k, (variable, name, (low, high, n)) in enumerate(zip(cvs, names, grid)):
            period = self.periods[self.names.index(name)]
            if (period is None) != (variable.period is None) or not np.allclose(period or 0, variable.period or 0):
                raise FileFormatError(
                    f"{self.table.path}: the period of {name} must be {variable.period}, got {period}"
                )
            self.table.check_values(name, hills[:, k], variable, low, high)
            sigma, least, most = hills[:, len(names) + k], 2 * (high - low) / n, 0.5 * (high - low)
            self.table.refuse(
                (sigma < least * (1 - 1e-9)) | (sigma > most),
                f"sigma_{name} must be from two intervals of the grid, {least:.3g}, to half of its range, {most:.3g}",
                sigma,
            )
        return hills


def _end(text: str) -> float:
    """A number, or a multiple of pi such as -pi and 2pi."""
    factor = text.lower().removesuffix("pi")
    if len(factor) == len(text):
        return float(text)
    return math.pi * float(f"{factor}1" if factor in ("", "+", "-") else factor.removesuffix("*"))


def read_hills(path: str | os.PathLike) -> HillsFile:
    """Read a file of hills along each variable; raise FileFormatError if it holds something else."""
    table = read_table(path)
    path, constants = table.path, dict(table.constants)
    multivariate, kernel = constants.pop("multivariate", "false"), constants.pop("kerneltype", "gaussian")
    if multivariate != "false" or kernel not in ("gaussian", "stretched-gaussian"):
        raise FileFormatError(
            f"{path}: hills must be Gaussians with a width for each variable, got multivariate {multivariate}, "
            f"kerneltype {kernel}"
        )
    d = next((k for k, name in enumerate(table.fields[1:]) if name.startswith("sigma_")), 0)
    names = table.fields[1 : 1 + d]
    expected = ["time", *names, *(f"sigma_{name}" for name in names), "height", "biasf"]
    if not d or table.fields not in (expected, [*expected, "clock"]):
        raise FileFormatError(
            f"{path}: fields must be time, variables, sigma_ of each, height and biasf, got "
            f"{', '.join(table.fields)[:200]}"
        )
    values = table.columns(expected)
    try:
        ends = {key: _end(text) for key, text in constants.items()}
    except ValueError as error:
        raise FileFormatError(f"{path}: ends of periods must be numbers or pi, got {constants} ({error})") from None
    periods = [
        (ends.pop(f"min_{name}"), ends.pop(f"max_{name}")) if {f"min_{name}", f"max_{name}"} <= set(ends) else None
        for name in names
    ]
    if ends or not all(-math.inf < low < high < math.inf for low, high in filter(None, periods)):
        raise FileFormatError(f"{path}: must set the ends of periods of {', '.join(names)} alone, got {constants}")
    table.refuse((values[:, 1 + d : -2] <= 0).any(axis=1), "widths must be positive", values[:, 1 + d : -2])
    table.refuse(values[:, -2] < 0, "heights must not be negative", values[:, -2])
    # PLUMED multiplies heights of well-tempered runs by gamma / (gamma - 1), so that their sum is the free energy
    factors = np.where(values[:, -1] > 1, values[:, -1], np.inf)
    floors = np.full(len(values), math.exp(-6.25) if kernel == "stretched-gaussian" else 0.0)  # PLUMED's DP2CUTOFF
    hills = np.column_stack([values[:, 1:-2], floors, values[:, -2] * (1 - 1 / factors)])
    return HillsFile(table, names, periods, hills, factors)
