"""Coordinate files of CHARMM (.crd; its documentation, "io", "CHARMM cards"): numbers in columns of fixed width."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..errors import FileFormatError
from .amber_files import read_bytes

__all__ = ["is_charmm_crd", "read_crd"]


def is_charmm_crd(path: str | Path) -> bool:
    """Return True if a .crd file begins with a title of CHARMM, lines with an asterisk, and lists atoms by name."""
    lines = read_bytes(path).decode("latin-1").split("\n")
    start = _title(lines)
    return start > 0 and len(lines) > start + 1 and any(c.isalpha() for c in lines[start + 1])


def read_crd(path: str | Path) -> dict[str, Any]:
    """Return the positions (n, 3) in nm of a CHARMM coordinate file, and None for what it does not hold."""
    lines = read_bytes(path).decode("latin-1").split("\n")
    start = _title(lines)
    words = lines[start].split() if start < len(lines) else []
    if not words or not words[0].isdecimal() or int(words[0]) < 1:
        raise FileFormatError(f"{path}, line {start + 1}: must hold the number of atoms, got {' '.join(words)!r}")
    n = int(words[0])
    rows = lines[start + 1 : start + 1 + n]
    if len(rows) < n or len(lines) < start + 2 + n:
        raise FileFormatError(f"{path}: must have {n} lines of atoms, got {len(rows)} (is the file truncated?)")
    first, width = (40, 20) if "EXT" in words or n >= 100_000 else (20, 10)
    positions = np.empty((n, 3))
    for i, row in enumerate(rows):
        try:
            positions[i] = [float(row[first + k * width : first + (k + 1) * width]) for k in range(3)]
        except ValueError:
            positions[i] = np.nan
        if not np.all(np.isfinite(positions[i])):
            raise FileFormatError(
                f"{path}, line {start + i + 2}: must hold three numbers in columns of {width} characters from column "
                f"{first + 1} on, got {row[first : first + 3 * width]!r}"
            )
    return {"positions": 0.1 * positions, "velocities": None, "box": None}


def _title(lines: list[str]) -> int:
    """The number of lines of the title."""
    return next((k for k, line in enumerate(lines) if not line.startswith("*")), len(lines))
