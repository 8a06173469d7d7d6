"""GROMACS .gro files: positions, velocities and box (format: manual of GROMACS, "gro").

Lines are residue number and name, atom name and number in five columns each, then positions and velocities in columns
whose width follows from the distance between the decimal points.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..box import as_box
from ..errors import FileFormatError
from .amber_files import read_bytes

__all__ = ["read_gro"]


def read_gro(path: str | Path) -> dict[str, Any]:
    """Read the coordinates of a .gro file; of several frames the first.

    The dictionary has ``positions`` (n, 3) nm; ``velocities`` (n, 3) nm/ps and ``box`` (3, 3) nm, or None.
    """
    lines = read_bytes(path).decode("latin-1").split("\n")
    try:
        n = int(lines[1])
    except (IndexError, ValueError):
        raise FileFormatError(
            f"{path}: line 2 must hold the number of atoms, got {lines[1][:40]!r}"
            if len(lines) > 1
            else f"{path}: must have a title and a number of atoms, got {len(lines)} line"
        ) from None
    rows = lines[2 : n + 2]
    if len(lines) < n + 3 or not lines[n + 2].strip():
        raise FileFormatError(
            f"{path}: must have {n} lines of atoms and one of the box, got {max(0, len(lines) - 3)} (is it truncated?)"
        )
    if not n:
        raise FileFormatError(f"{path}: there must be atoms, got none")
    first = rows[0].find(".", 20)
    width = rows[0].find(".", first + 1) - first
    with_velocities = len(rows[0].rstrip()) >= 20 + 3 * width + 3 * (width + 1) - 3
    values = np.empty((n, 6 if with_velocities else 3))
    ends = [20 + width * k for k in range(4)] + (
        [20 + 3 * width + (width) * k for k in (1, 2, 3)] if with_velocities else []
    )
    for i, row in enumerate(rows):
        try:
            values[i] = [float(row[a:b]) for a, b in zip(ends[:-1], ends[1:])]
        except ValueError:
            raise FileFormatError(
                f"{path}, line {i + 3}: must hold numbers in columns of {width} characters from column 21 on, "
                f"got {row[20:].rstrip()!r}"
            ) from None
    try:
        edges = np.array(lines[n + 2].split(), np.float64)
    except ValueError:
        edges = np.empty(0)
    decimals = {len(word.partition(".")[2]) for word in lines[n + 2].split()}
    if len(edges) not in (3, 9) or (
        len(lines) == n + 3 and len(decimals) > 1
    ):  # without an end of line, and a shorter number
        raise FileFormatError(
            f"{path}, line {n + 3}: the box must be 3 or 9 numbers, got {lines[n + 2].strip()!r} (is the file "
            f"truncated?)"
        )
    box = np.diag(edges[:3])
    if len(edges) == 9:  # v1y v1z v2x v2z v3x v3y
        box[[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]] = edges[3:]
    return {
        "positions": values[:, :3].copy(),
        "velocities": values[:, 3:].copy() if with_velocities else None,
        "box": as_box(box, str(path)) if np.any(edges) else None,
    }
