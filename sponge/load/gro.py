"""GROMACS .gro files: names, positions, velocities and box (format: manual of GROMACS, "gro").

Lines are residue number and name, atom name and number in five columns each, then positions and velocities in columns
whose width follows from the distance between the decimal points. Frames follow each other.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from triskele.core.extend import atomic, check

from ..box import as_box
from ..errors import FileFormatError
from ..topology import Topology
from .amber_files import read_bytes
from .structure import Structure

__all__ = ["gro_frame", "number_of_atoms", "read_gro", "read_gro_lines", "write_gro"]

_NAMES = 20  # columns before those of the coordinates
_LARGEST = 100_000  # numbers of residues and atoms begin again at 0


def read_gro(path: str | Path) -> dict[str, Any]:
    """Read the coordinates of a .gro file; of several frames the first.

    The dictionary has ``positions`` (n, 3) nm; ``velocities`` (n, 3) nm/ps and ``box`` (3, 3) nm, or None.
    """
    return read_gro_lines(read_bytes(path).decode("latin-1").split("\n"), str(path))


def number_of_atoms(lines: list[str], where: str, first: int = 0) -> int:
    """The number in the second line of a frame whose first line is number `first` of the file, from 0."""
    try:
        n = int(lines[1])
    except (IndexError, ValueError):
        raise FileFormatError(
            f"{where}: line {first + 2} must hold the number of atoms, got {lines[1][:40]!r}"
            if len(lines) > 1
            else f"{where}: must have a title and a number of atoms, got {len(lines)} line"
        ) from None
    if n < 1:
        raise FileFormatError(f"{where}: there must be atoms, got {n or 'none'}")
    return n


def read_gro_lines(lines: list[str], where: str, first: int = 0, velocities: bool = True) -> dict[str, Any]:
    """See `read_gro`: the frame that begins with `lines`, which is line `first` of the file, from 0."""
    n = number_of_atoms(lines, where, first)
    rows = lines[2 : n + 2]
    if len(lines) < n + 3 or not lines[n + 2].strip():
        raise FileFormatError(
            f"{where}: must have {n} lines of atoms and one of the box, got {max(0, len(lines) - 3)} (is it truncated?)"
        )
    point = rows[0].find(".", _NAMES)
    width = rows[0].find(".", point + 1) - point
    velocities = velocities and len(rows[0].rstrip()) >= _NAMES + 6 * width
    ends = [_NAMES + width * k for k in range(7 if velocities else 4)]
    values = np.empty((n, len(ends) - 1))
    for i, row in enumerate(rows):
        try:
            values[i] = [float(row[a:b]) for a, b in zip(ends[:-1], ends[1:])]
        except ValueError:
            values[i] = np.nan
    if not np.isfinite(values).all():
        i = int(np.argmin(np.isfinite(values).all(1)))
        raise FileFormatError(
            f"{where}, line {first + i + 3}: must hold numbers in columns of {width} characters from column 21 on, "
            f"got {rows[i][_NAMES:].rstrip()!r}"
        )
    return {
        "positions": values[:, :3].copy(),
        "velocities": values[:, 3:].copy() if velocities else None,
        "box": _box(lines[n + 2], f"{where}, line {first + n + 3}", len(lines) == n + 3),
    }


def _box(line, where, last):
    """The box of a line, or None for zeros; where the line is the `last` of the text, its end may be missing."""
    words = line.split()
    if len(words) < 3:  # numbers of more than ten columns touch
        words = re.findall(rf"-?\d+\.\d{{{len(line.rstrip().rpartition('.')[2])}}}", line)
    try:
        edges = np.array(words, np.float64)
    except ValueError:
        edges = np.empty(0)
    decimals = {len(word.partition(".")[2]) for word in words}
    if len(edges) not in (3, 9) or (last and len(decimals) > 1):
        raise FileFormatError(f"{where}: the box must be 3 or 9 numbers, got {line.strip()!r} (is the file truncated?)")
    box = np.diag(edges[:3])
    if len(edges) == 9:  # v1y v1z v2x v2z v3x v3y
        box[[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]] = edges[3:]
    return as_box(box, where) if np.any(edges) else None


# -- writing -----------------------------------------------------------------------------------------------------------


def write_gro(
    path: str | Path,
    topology: Topology | Structure,
    positions: Any = None,
    box: np.ndarray | None = None,
    velocities: Any = None,
) -> None:
    """Write a GRO file: one frame, or one for each of several sets of positions.

    Positions have three decimals and velocities four. The format has no elements, chains or bonds.

    Parameters
    ----------
    path : path
    topology : Topology or Structure
        A structure brings its positions and box.
    positions : (n, 3) or (frames, n, 3) float, nm, optional
        Only optional with a structure.
    box : (3, 3) float, nm, optional
        Vectors as rows.
    velocities : array of the shape of `positions`, nm/ps, optional

    Raises
    ------
    ValueError
        If shapes differ, or numbers or names do not fit the columns of the format.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from triskele import sponge
    >>> path = pathlib.Path(tempfile.mkdtemp(), "argon.gro")
    >>> sponge.write_gro(path, sponge.Topology.of_particles(1, "AR", 18), [[0.1, 0.2, 0.3]])
    >>> print(path.read_text().splitlines()[2])
        1AR      AR    1   0.100   0.200   0.300
    """
    if isinstance(topology, Structure):
        positions = topology.positions if positions is None else positions
        box = topology.box if box is None else box
        topology = topology.topology
    if positions is None:
        raise TypeError("write_gro: positions must be given with a topology, got None (a Structure brings its own)")
    x = np.asarray(positions, np.float64)
    check.shape(x, [(topology.n, 3), ("frames", topology.n, 3)], "write_gro: positions")
    v = (
        None
        if velocities is None
        else check.shape(np.asarray(velocities, np.float64), x.shape, "write_gro: velocities")
    )
    frames = [(x, v)] if x.ndim == 2 else [(x[k], None if v is None else v[k]) for k in range(len(x))]
    with atomic(path) as file:
        for xs, vs in frames:
            file.write(gro_frame("written by triskele.sponge", topology, xs, box, vs).encode())


def gro_frame(
    title: str,
    topology: Topology,
    positions: np.ndarray,  # (n, 3), nm
    box: np.ndarray | None,  # (3, 3), nm
    velocities: np.ndarray | None = None,  # (n, 3), nm/ps
    decimals: int = 3,  # of positions; velocities have one more
) -> str:
    """Return the lines of one frame."""
    width = decimals + 5
    columns = [_columns("positions", "nm", topology, positions, width, decimals)]
    if velocities is not None:
        columns.append(_columns("velocities", "nm/ps", topology, velocities, width, decimals + 1))
    edges = np.zeros(9) if box is None else np.array(box)[[0, 1, 2, 0, 0, 1, 1, 2, 2], [0, 1, 2, 1, 2, 0, 2, 0, 1]]
    rows = "\n".join(map("".join, zip(_names(topology), *columns)))
    end = "".join(f" {edge:{width + 1}.{decimals + 2}f}" for edge in (edges if edges[3:].any() else edges[:3]))
    return f"{title}\n{topology.n:5d}\n{rows}\n{end}\n"


def _columns(what, unit, topology, values, width, decimals):
    """Three columns of `width` characters for each atom."""
    least, most = -(10.0 ** (width - decimals - 2)), 10.0 ** (width - decimals - 1)
    margin = 0.5 * 10.0**-decimals
    fits = np.all((values > least + margin) & (values < most - margin), axis=1)
    if not fits.all():
        atom = int(np.argmin(fits))
        raise ValueError(
            f"GRO: {what} must be finite and fit the format's columns ({least:.0f} to {most:.0f} {unit}), got "
            f"{values[atom]} for {topology.describe(atom)}"
        )
    form = f"{{:{width}.{decimals}f}}" * 3
    return [form.format(*row) for row in values.tolist()]


@lru_cache(maxsize=2)
def _names(topology):
    """The first twenty columns of each atom."""
    heads = []
    for text, name in zip(topology.residue_ids.tolist(), topology.residue_names.tolist()):
        number = re.match(r"-?\d+", text)
        if number is None or len(name) > 5:
            raise ValueError(f"GRO: residues must have numbers, and names of up to five letters, got {name} {text}")
        heads.append(f"{int(number[0]) % _LARGEST:5d}{name:<5}")
    long = next((i for i, name in enumerate(topology.names.tolist()) if len(name) > 5), None)
    if long is not None:
        raise ValueError(f"GRO: atoms must have names of up to five letters, got {topology.describe(long)}")
    return [
        f"{heads[r]}{name:>5}{i % _LARGEST:5d}"
        for i, (r, name) in enumerate(zip(topology.residue_index.tolist(), topology.names.tolist()), 1)
    ]
