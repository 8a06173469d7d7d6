"""Reading of potential files in the formats of LAMMPS: units, elements, numbers; and the elements of atoms."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...box import check_cutoff
from ...elements import NUMBERS, SYMBOLS
from ...errors import FileFormatError
from ...topology import as_indices, check_indices

if TYPE_CHECKING:
    from ...protocols import SystemLike

__all__ = ["assign", "check_fit", "lines_of", "numbers_in", "symbols", "typed"]


def lines_of(path: Any, where: str) -> list[str]:
    """Return the lines of a file in "metal" units (eV, Angstrom); raise FileFormatError for others."""
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="strict").splitlines()
    except UnicodeDecodeError:
        raise FileFormatError(f"{where}: {path} must be a text file") from None
    units = re.search(r"\bUNITS:\s*(\S+)", lines[0]) if lines else None
    if units and units[1] != "metal":
        raise FileFormatError(f"{where}: {path} must be in units 'metal' (eV, Angstrom), got {units[1]!r}")
    return lines


def numbers_in(text: str, where: str) -> list[float]:
    """Finite numbers in a line; Fortran's exponents with D are read."""
    found = []
    for word in text.split():
        try:
            value = float(word.replace("D", "E").replace("d", "e"))
        except ValueError:
            raise FileFormatError(f"{where}: must be a number, got {word!r}") from None
        if not np.isfinite(value):
            raise FileFormatError(f"{where}: must be a finite number, got {word!r}")
        found.append(value)
    return found


def symbols(elements: Any, where: str) -> np.ndarray:
    """Return the symbols of elements given by symbol or atomic number."""
    given = np.asarray(elements)
    if given.dtype.kind in "iu":
        if given.size and not 0 < given.min() <= given.max() < len(SYMBOLS):
            raise ValueError(
                f"{where}: elements must be symbols or atomic numbers 1 to {len(SYMBOLS) - 1}, got "
                f"{given.min()} to {given.max()}"
            )
        given = np.array(SYMBOLS)[given]
    if given.dtype.kind != "U" or given.ndim != 1 or not given.size:
        raise ValueError(f"{where}: elements must be one symbol or atomic number for each atom, got {elements!r}")
    return given


def assign(atoms: np.ndarray, known: Iterable[str], where: str) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the elements that occur among the atoms, in the order of the file, and the index of each atom's.

    Raise ValueError if `known`, the elements in the file, lack one.
    """
    known, present = list(known), set(atoms.tolist())
    if missing := sorted(present - set(known)):
        raise ValueError(
            f"{where}: the file must have parameters for {missing[0]}, got {', '.join(known)}"
            f"{'' if missing[0].upper() in NUMBERS else ' (not an element)'}"
        )
    used = tuple(e for e in known if e in present)
    numbers = {e: k for k, e in enumerate(used)}
    return used, np.array([numbers[e] for e in atoms.tolist()], np.int32)


def typed(elements: Iterable[str], types: Any, where: str) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the symbols of the elements, and the index of each atom's among them, (n,) int."""
    names, numbers = tuple(map(str, elements)), as_indices(types, f"{where}: types").reshape(-1)
    check_indices(numbers, len(names), f"{where}: types")
    return names, numbers


def check_fit(potential: Any, system: SystemLike) -> None:
    """Raise ValueError unless there is a type for each atom, or BoxError if the cut-off is too large for the box."""
    if len(potential.types) != system.n:
        raise ValueError(
            f"{type(potential).__name__}: there must be an element for each of {system.n} atoms, got "
            f"{len(potential.types)}"
        )
    if system.box is not None:
        check_cutoff(potential.name, potential.cutoff, system.box)
