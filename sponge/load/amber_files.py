"""The text and NetCDF files of AMBER: sections of a prmtop, coordinates of an inpcrd or restart.

Formats: https://ambermd.org/FileFormats.php and https://ambermd.org/prmtop.pdf. Numbers stand in columns of fixed width
and may touch, so that columns are cut before they are read; whole sections at a time, since files have 10^6 numbers.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from triskele.core.extend import gunzip

from ..box import from_lengths_angles
from ..errors import FileFormatError

__all__ = ["Prmtop", "columns", "read_bytes", "read_restart"]

# AMBER's unit of time is 1/20.455 ps (its manual); lengths are in angstroms.
VELOCITY = 20.455 * 0.1

_POINTERS = (
    "NATOM NTYPES NBONH MBONA NTHETH MTHETA NPHIH MPHIA NHPARM NPARM NNB NRES NBONA NTHETA NPHIA NUMBND NUMANG "
    "NPTRA NATYP NPHB IFPERT NBPER NGPER NDPER MBPER MGPER MDPER IFBOX NMXRS IFCAP NUMEXTRA NCOPY"
).split()

# How many entries a section must hold, in terms of the pointers; a file that was cut off fails here.
_COUNTS = {
    "ATOM_NAME": "NATOM", "CHARGE": "NATOM", "MASS": "NATOM", "ATOMIC_NUMBER": "NATOM", "ATOM_TYPE_INDEX": "NATOM",
    "NUMBER_EXCLUDED_ATOMS": "NATOM", "RADII": "NATOM", "SCREEN": "NATOM", "NONBONDED_PARM_INDEX": "NTYPES * NTYPES",
    "RESIDUE_LABEL": "NRES", "RESIDUE_POINTER": "NRES", "BOND_FORCE_CONSTANT": "NUMBND", "BOND_EQUIL_VALUE": "NUMBND",
    "ANGLE_FORCE_CONSTANT": "NUMANG", "ANGLE_EQUIL_VALUE": "NUMANG", "DIHEDRAL_FORCE_CONSTANT": "NPTRA",
    "DIHEDRAL_PERIODICITY": "NPTRA", "DIHEDRAL_PHASE": "NPTRA", "SCEE_SCALE_FACTOR": "NPTRA",
    "SCNB_SCALE_FACTOR": "NPTRA", "LENNARD_JONES_ACOEF": "NTYPES * (NTYPES + 1) // 2",
    "LENNARD_JONES_BCOEF": "NTYPES * (NTYPES + 1) // 2", "LENNARD_JONES_14_ACOEF": "NTYPES * (NTYPES + 1) // 2",
    "LENNARD_JONES_14_BCOEF": "NTYPES * (NTYPES + 1) // 2", "BONDS_INC_HYDROGEN": "3 * NBONH",
    "BONDS_WITHOUT_HYDROGEN": "3 * NBONA", "ANGLES_INC_HYDROGEN": "4 * NTHETH", "ANGLES_WITHOUT_HYDROGEN": "4 * NTHETA",
    "DIHEDRALS_INC_HYDROGEN": "5 * NPHIH", "DIHEDRALS_WITHOUT_HYDROGEN": "5 * NPHIA", "EXCLUDED_ATOMS_LIST": "NNB",
    "HBOND_ACOEF": "NPHB", "HBOND_BCOEF": "NPHB",
}  # fmt: skip
_INTEGERS = re.compile(
    "POINTERS|ATOMIC_NUMBER|ATOM_TYPE_INDEX|NUMBER_EXCLUDED_ATOMS|NONBONDED_PARM_INDEX|RESIDUE_(POINTER|NUMBER)|"
    ".*_(INC|WITHOUT)_HYDROGEN|EXCLUDED_ATOMS_LIST|CHARMM_(UREY_BRADLEY|IMPROPERS)|(CHARMM_)?CMAP_(COUNT|INDEX|RESOLUTION)"
)
_FORMAT = re.compile(rb"\(\s*(\d*)\s*\(?\s*([aAiIeEfFgG])\s*(\d+)")  # such as (5E16.8), (20a4), (8(F9.5))


def read_bytes(path: str | Path) -> bytes:
    """The content of a file, unpacked when it is gzipped."""
    if isinstance(path, str) and path.lstrip()[:1] == "<":
        raise TypeError(f"load: must be given the path of a file, got its content, {path[:40]!r}...")
    data = Path(path).read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gunzip(data, path)
    return data if data.startswith(b"CDF") else data.replace(b"\r\n", b"\n")  # NetCDF is binary


def columns(block: bytes, width: int, per_line: int, dtype: Any, where: str) -> np.ndarray:
    """Return the numbers or texts of a block of lines with `per_line` columns of `width` characters."""
    rows = np.frombuffer(block, np.uint8)
    length = width * per_line + 1
    whole = len(block) // length
    if whole and np.all(rows[: whole * length].reshape(whole, length)[:, -1] == 10):
        cut = rows[: whole * length].reshape(whole, length)[:, :-1].reshape(-1, width)
        rest = block[whole * length :]
    else:  # lines of uneven length, as editors leave them when they take away blanks at the end
        cut, rest = np.empty((0, width), np.uint8), block
    lines = [line for line in rest.split(b"\n") if line.strip()]
    if lines:
        text = b"".join(_padded(line, width, per_line, dtype, where) for line in lines)
        cut = np.concatenate([cut, np.frombuffer(text, np.uint8).reshape(-1, width)])
    if dtype is str:
        return np.char.strip(np.char.decode(np.ascontiguousarray(cut).view(f"S{width}").ravel(), "latin-1"))
    spaced = np.full((len(cut), width + 1), ord(" "), np.uint8)
    spaced[:, :width] = cut
    return _numbers(spaced, dtype, where)


def _padded(line: bytes, width: int, per_line: int, dtype: Any, where: str) -> bytes:
    line = line[: width * per_line]
    if dtype is str:
        return line.ljust(-(-len(line) // width) * width)
    line = line.rstrip()
    if len(line) % width:  # numbers end at the right edge of their column, unless the file ends in the midst of one
        raise FileFormatError(
            f"{where}: must hold columns of {width} characters, got a line of {len(line)}: "
            f"{line[-40:].decode('latin-1')!r} (is the file truncated?)"
        )
    return line


def _numbers(spaced: np.ndarray, dtype: Any, where: str) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        try:
            values = np.fromstring(spaced.tobytes(), dtype, sep=" ")
            if len(values) == len(spaced):
                return values
        except (DeprecationWarning, ValueError):
            pass
    for k, field in enumerate(spaced):  # which one was it?
        text = field.tobytes().decode("latin-1").strip()
        try:
            float(text) if dtype is float else int(text)
        except ValueError:
            raise FileFormatError(f"{where}: must hold numbers, got {text!r} as entry {k + 1}") from None
    raise FileFormatError(f"{where}: must hold numbers in columns of {spaced.shape[1] - 1} characters")


class Prmtop:
    """The sections of a prmtop file of AMBER 7 or later, gzipped or not, each read when it is asked for."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        data = read_bytes(path)
        if not data.startswith(b"%VERSION") and b"%FLAG" not in data[:1000]:
            raise FileFormatError(
                f"{path}: must be an AMBER prmtop beginning with %VERSION or %FLAG, got "
                f"{data[:30]!r} (files of AMBER 6 and before must be converted)"
            )
        self._sections: dict[str, tuple[bytes, int, int, Any, int]] = {}
        for part in data.split(b"%FLAG")[1:]:
            flag, _, rest = part.partition(b"\n")
            self._add(flag.strip().decode("latin-1"), rest)
        self._values: dict[str, np.ndarray] = {}
        pointers = self.get("POINTERS")
        if len(pointers) < len(_POINTERS) - 2:  # the last two came with later versions
            raise FileFormatError(f"{path}: section POINTERS must hold {len(_POINTERS)} numbers, got {len(pointers)}")
        self.pointers = dict.fromkeys(_POINTERS, 0) | dict(zip(_POINTERS, (int(p) for p in pointers)))

    def _add(self, name: str, rest: bytes) -> None:
        start = 0
        form = None
        while rest[start : start + 1] == b"%":  # %FORMAT and any %COMMENT
            end = rest.find(b"\n", start)
            end = len(rest) if end < 0 else end
            if rest[start:end].startswith(b"%FORMAT"):
                form = _FORMAT.search(rest[start:end])
            start = end + 1
        if form is None:
            raise FileFormatError(
                f"{self.path}: section {name} must have a line such as %FORMAT(5E16.8), got none "
                "(is the file truncated?)"
            )
        if name in self._sections:
            raise FileFormatError(f"{self.path}: section {name} must occur once, got it again")
        kind = {"A": str, "I": int}.get(form[2].decode().upper(), float)
        self._sections[name] = (rest[start:], int(form[3]), int(form[1] or 1), kind, rest.count(b"\n"))

    def __iter__(self) -> Iterator[str]:
        return iter(self._sections)

    def __contains__(self, name: str) -> bool:
        return name in self._sections

    def get(self, name: str, count: int | None = None) -> np.ndarray:
        """Return a section as an array, which must have `count` entries, or as many as the pointers say."""
        if name in self._values:
            return self._values[name]
        if name not in self._sections:
            raise FileFormatError(
                f"{self.path}: must have a section {name} (is the file truncated, or of another kind?)"
            )
        block, width, per_line, dtype, _ = self._sections[name]
        values = columns(block, width, per_line, dtype, f"{self.path}: section {name}")
        if _INTEGERS.fullmatch(name) and dtype is not int:
            if len(values):
                raise FileFormatError(f"{self.path}: section {name} must hold integers, got a %FORMAT of other values")
            values = values.astype(int)
        reason = ""
        if count is None and name in _COUNTS:
            rule = _COUNTS[name]
            count, reason = eval(rule, {}, self.pointers), f" = {rule}"  # noqa: S307 - a rule of this file
        if count is not None:
            if dtype is str:  # names of blanks at the end are cut off by some editors
                values = np.concatenate([values, np.full(max(0, count - len(values)), "")])[: max(count, len(values))]
                values = values[:count] if not np.any(values[count:] != "") else values
            if len(values) != count:
                raise FileFormatError(
                    f"{self.path}: section {name} must hold {count}{reason} entries, got {len(values)} "
                    "(is the file truncated?)"
                )
        if dtype is float and not np.all(np.isfinite(values)):
            bad = int(np.argmin(np.isfinite(values)))
            raise FileFormatError(
                f"{self.path}: section {name} must hold finite numbers, got {values[bad]} as entry {bad + 1}"
            )
        self._values[name] = values
        return values

    def rows(self, name: str, width: int, count: int | None = None) -> np.ndarray:
        """A section of integers as an array [rows, width]."""
        values = self.get(name, None if count is None else width * count)
        if len(values) % width:
            raise FileFormatError(
                f"{self.path}: section {name} must hold rows of {width} entries, got {len(values)} entries"
            )
        return values.reshape(-1, width)


def read_restart(path: str | Path) -> dict[str, Any]:
    """Read the coordinates of an inpcrd or restart file, ASCII (gzipped or not) or NetCDF.

    The dictionary has ``positions`` (n, 3) nm; ``velocities`` (n, 3) nm/ps, ``box`` (3, 3) nm and ``time`` ps, or None.
    """
    data = read_bytes(path)
    return _netcdf(path, data) if data[:3] == b"CDF" else _ascii(path, data)


def _ascii(path: str | Path, data: bytes) -> dict[str, Any]:
    lines = data.rstrip().split(b"\n")
    words = lines[1].split() if len(lines) > 1 else []
    try:
        n = int(words[0])
        time = float(words[1]) if len(words) > 1 else None
    except (IndexError, ValueError):
        got = lines[1][:40] if len(lines) > 1 else b""
        raise FileFormatError(
            f"{path}: line 2 must hold the number of atoms, got {got.decode('latin-1')!r} "
            "(is it an AMBER inpcrd or restart file?)"
        ) from None
    per, rest = (n + 1) // 2, len(lines) - 2
    # Coordinates take `per` lines, velocities as many again, the box one; only a file of one or two atoms can be
    # unclear.
    if n <= 2 and rest == 2:
        last = columns(lines[3], 12, 6, float, f"{path}: line 4")
        box = len(last) == 6 and (n == 1 or np.any(last >= 60))  # velocities are never that large, angles are
        velocities = not box
    elif rest in (per, per + 1, 2 * per, 2 * per + 1):
        velocities, box = rest >= 2 * per, rest in (per + 1, 2 * per + 1)
    else:
        raise FileFormatError(
            f"{path}: {n} atoms must have {per} lines of coordinates, and may have {per} of velocities "
            f"and 1 of the box, got {rest} lines (is the file truncated?)"
        )
    blocks = []
    for k in range(1 + velocities):
        block = b"\n".join(lines[2 + k * per : 2 + (k + 1) * per]) + b"\n"
        what = ("coordinates", "velocities")[k]
        values = columns(block, 12, 6, float, f"{path}: {what}")
        if len(values) != 3 * n:
            raise FileFormatError(
                f"{path}: {what} must hold {3 * n} numbers, got {len(values)} (is the file truncated?)"
            )
        blocks.append(values.reshape(n, 3))
    cell = None
    if box:
        edge = columns(lines[-1], 12, 6, float, f"{path}: box (last line)")
        if len(edge) != 6:
            raise FileFormatError(
                f"{path}: box (last line) must hold 3 lengths and 3 angles, got {len(edge)} numbers (is the file "
                f"truncated?)"
            )
        cell = _cell(path, edge[:3], edge[3:])
    return {
        "positions": blocks[0] * 0.1,
        "velocities": blocks[1] * VELOCITY if velocities else None,
        "box": cell,
        "time": time,
    }


def _cell(path: str | Path, lengths: np.ndarray, angles: np.ndarray) -> np.ndarray | None:
    if not np.any(lengths):  # what programs write for "no box"
        return None
    # no angle of a cell that is used is sharper; the line may be one of velocities in a file that was cut off
    if np.all((angles > 15) & (angles < 165)) and np.all(lengths > 0):
        try:
            return from_lengths_angles(0.1 * lengths, np.radians(angles))
        except ValueError:
            pass
    raise FileFormatError(
        f"{path}: the box must have positive lengths and possible angles, got {lengths} A and {angles} degrees "
        "(is the file truncated?)"
    )


def _netcdf(path: str | Path, data: bytes) -> dict[str, Any]:
    from io import BytesIO

    from scipy.io import netcdf_file

    try:
        file = netcdf_file(BytesIO(data), "r", mmap=False)
        variables = file.variables
        convention = getattr(file, "Conventions", b"").decode()
        shape = variables["coordinates"].shape if "coordinates" in variables else None
        if shape is None or len(shape) != 2 or "AMBERRESTART" not in convention:
            raise FileFormatError(
                f"{path}: must be an AMBER restart in NetCDF with coordinates [atoms, 3], got conventions "
                f"{convention!r} and coordinates {shape} (trajectories have one more dimension)"
            )
        positions = np.array(variables["coordinates"][:], np.float64)
        velocities = cell = time = None
        if "velocities" in variables:
            scale = getattr(variables["velocities"], "scale_factor", 20.455)
            velocities = np.array(variables["velocities"][:], np.float64) * (float(scale) * 0.1)
        if "cell_lengths" in variables and "cell_angles" in variables:
            cell = _cell(
                path, np.array(variables["cell_lengths"][:], float), np.array(variables["cell_angles"][:], float)
            )
        if "time" in variables:
            time = float(np.ravel(variables["time"][()])[0])
        file.close()
    except FileFormatError:
        raise
    except Exception as error:  # scipy raises whatever the broken header leads to
        raise FileFormatError(f"{path}: must be a NetCDF file of version 3, got {error} (is it truncated?)") from error
    return {"positions": positions * 0.1, "velocities": velocities, "box": cell, "time": time}
