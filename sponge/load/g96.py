"""GROMOS-96 coordinate files (.g96), which GROMACS writes with nine decimals: blocks from a name to END."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..box import as_box
from ..errors import FileFormatError
from .amber_files import read_bytes

__all__ = ["read_g96"]

_NAMES = 24  # columns of residue, atom and number before those of the coordinates
_WIDTH = 15


def read_g96(path: str | Path) -> dict[str, Any]:
    """Read the coordinates of a .g96 file; of several frames the first.

    The dictionary has ``positions`` (n, 3) nm; ``velocities`` (n, 3) nm/ps and ``box`` (3, 3) nm, or None.
    """
    blocks = _blocks(path)
    vectors = {}
    for name in ("POSITION", "VELOCITY"):
        for full, first in ((name, _NAMES), (f"{name}RED", 0)):
            if full in blocks:
                vectors[name] = np.array([_columns(path, k, line, first) for k, line in blocks[full]])
    positions, velocities = vectors.get("POSITION"), vectors.get("VELOCITY")
    if positions is None or not len(positions):
        raise FileFormatError(f"{path}: must have a block POSITION with atoms, got {', '.join(blocks) or 'no blocks'}")
    if velocities is not None and len(velocities) != len(positions):
        raise FileFormatError(
            f"{path}: must have as many velocities as positions, got {len(velocities)} and {len(positions)}"
        )
    return {"positions": positions, "velocities": velocities, "box": _box(path, blocks.get("BOX"))}


def _blocks(path: str | Path) -> dict[str, list[tuple[int, str]]]:
    """Numbered lines of each block; those of a second frame are left out."""
    blocks: dict[str, list[tuple[int, str]]] = {}
    name = ""
    rows: list[tuple[int, str]] = []
    for k, line in enumerate(read_bytes(path).decode("latin-1").split("\n"), 1):
        word = line.strip()
        if not name:
            name, rows = word, []
        elif word == "END":
            blocks.setdefault(name, rows)
            name = ""
        elif name == "TITLE" or not word.startswith("#"):
            rows.append((k, line))
    if name:
        raise FileFormatError(
            f"{path}: block {name[:20]} must end with END (is the file truncated, or of another kind?)"
        )
    return blocks


def _columns(path: str | Path, number: int, line: str, first: int) -> list[float]:
    try:
        values = [float(line[first + k * _WIDTH : first + (k + 1) * _WIDTH]) for k in range(3)]
    except ValueError:
        values = [np.nan]
    if not np.all(np.isfinite(values)):
        raise FileFormatError(
            f"{path}, line {number}: must hold three numbers in columns of {_WIDTH} characters from column {first + 1} "
            f"on, got {line[first:]!r}"
        )
    return values


def _box(path: str | Path, rows: list[tuple[int, str]] | None) -> np.ndarray | None:
    if not rows:
        return None
    try:
        edges = np.array(" ".join(line for _, line in rows).split(), np.float64)
    except ValueError:
        edges = np.empty(0)
    if len(edges) not in (3, 9):
        raise FileFormatError(f"{path}, line {rows[0][0]}: the box must be 3 or 9 numbers, got {rows[0][1].strip()!r}")
    if not np.any(edges):
        return None
    box = np.diag(edges[:3])
    if len(edges) == 9:  # v1y v1z v2x v2z v3x v3y
        box[[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]] = edges[3:]
    return as_box(box, str(path))
