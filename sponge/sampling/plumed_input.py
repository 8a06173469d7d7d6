"""Text of PLUMED: logical lines of its input, which actions have a memory, and the core of its error messages."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["action_of", "logical_lines", "message_of", "with_memory"]

# Actions whose results depend on the present state and its number alone. What is not listed here counts as one with a
# memory, such as those that PLUMED may get later.
_WITHOUT_MEMORY = set(
    """
    ALPHABETA ALPHARMSD ANGLE ANTIBETARMSD BETWEEN BIASVALUE CELL CENTER CENTER_FAST COM COMBINE CONSTANT CONTACTMAP
    COORDINATION COORDINATIONNUMBER CUSTOM DEBUG DIHCOR DIHEDRAL_CORRELATION DIPOLE DISTANCE DISTANCES DRMSD DUMPATOMS
    DUMPDERIVATIVES DUMPFORCES DUMPMASSCHARGE ENDPLUMED ERMSD EXTERNAL FIT_TO_TEMPLATE FIXEDATOM FLUSH FUNCPATHGENERAL
    FUNCPATHMSD GHOST GROUP GYRATION HIGHEST INPLANEDISTANCES LESS_THAN LOWER_WALLS LOWEST MASS MATHEVAL MEAN MOLINFO
    MOMENTS MORE_THAN MULTI_RMSD PARABETARMSD PATH PATHMSD PCARMSD PIECEWISE PLANE POSITION PRINT PRODUCT PROPERTYMAP
    PUCKERING RESTART RESTRAINT RMSD SORT SUM TIME TORSION TORSIONS UNITS UPPER_WALLS VOLUME WHOLEMOLECULES WRAPAROUND
""".split()
)
_REFUSED = {
    "ENERGY": "the energy of the system is not known before the bias",
    "EXTRACV": "the system has no variables of its own",
}
_REMEMBERING = re.compile(r"(NLIST|NL_|NEIGH_)")  # a resumed run rebuilds neighbor lists, and rounds differently


def logical_lines(where: str, given: Any) -> Iterator[str]:
    """Yield the lines of an input, or of a file, without comments, and with continued lines joined.

    Raise ValueError for a refused action, for an empty input, and for one that ends within a continued line.
    """
    if isinstance(given, str) and "\n" in given:
        raise ValueError(
            f"{where}: input must be a path or a sequence of lines, got a text of several (give text.splitlines())"
        )
    if isinstance(given, (str, os.PathLike)):
        with open(given, encoding="utf-8") as file:
            rows = file.read().splitlines()
    elif isinstance(given, Sequence) and all(isinstance(row, str) for row in given):
        rows = [part for row in given for part in row.splitlines()]
    else:
        raise TypeError(f"{where}: input must be a path or a sequence of lines, got {type(given).__name__}")
    lines = list(_joined(where, rows))
    if not lines:
        raise ValueError(f"{where}: input must have at least one action, got none")
    for line in lines:
        if (name := action_of(line)) in _REFUSED:
            raise ValueError(f"{where}: input must not use {name}, as {_REFUSED[name]}, got {line!r}")
        if name == "ENDPLUMED":
            return
        yield line


def _joined(where, rows):
    """Lines without comments; those from one that ends with "..." to one that begins with it are one."""
    parts: list[str] | None = None
    for row in rows:
        words = row.split("#")[0].split()
        if not words:
            continue
        if parts is None:
            if words[-1] != "...":
                yield " ".join(words)
            else:
                parts = words[:-1]
        elif words[0] == "...":
            name = next(iter(words[1:]), None)
            if name is not None and name not in (parts[0], parts[0].rstrip(":"), *parts[1:2]):
                raise ValueError(f"{where}: a continued line must end with '... {parts[0]}', got {' '.join(words)!r}")
            yield " ".join(parts)
            parts = None
        else:
            parts += words
    if parts is not None:
        raise ValueError(f"{where}: a continued line must end with '...', got {' '.join(parts)!r}")


def action_of(line: str) -> str:
    """Return the name of the action of a line, such as TORSION of "phi: TORSION ATOMS=1,2,3,4"."""
    words = line.split()
    return words[1] if words[0].endswith(":") and len(words) > 1 else words[0]


def with_memory(line: str) -> bool:
    """Return True unless the action of a line is known to depend only on the present state, as RESTRAINT does."""
    return action_of(line) not in _WITHOUT_MEMORY or any(map(_REMEMBERING.match, line.split()))


def message_of(error: BaseException) -> str:
    """Return what PLUMED says in an error, without the place in its source and without empty lines."""
    text = re.split(r"\+\+\+ message follows \+\+\+", str(error))[-1]
    rows = [row.strip() for row in text.splitlines()]
    return " ".join(row for row in rows if row and not row.startswith("+++") and set(row) != {"#"}) or repr(error)
