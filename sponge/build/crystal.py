"""Crystals of cubic lattices."""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele.core.extend import check

from ..elements import NUMBERS, SYMBOLS
from ..load.terms import WEIGHTS
from ..system import System
from ..topology import Topology

__all__ = ["crystal"]

_FACES = [[0, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]]
_QUARTERS = [[0.25 + x for x in point] for point in _FACES]
# Atoms of the cubic cell, in units of its edge: those of the first element, those of the second.
_LATTICES = {
    "sc": ([[0, 0, 0]], []),
    "bcc": ([[0, 0, 0], [0.5, 0.5, 0.5]], []),
    "fcc": (_FACES, []),
    "diamond": (_FACES + _QUARTERS, []),
    "zincblende": (_FACES, _QUARTERS),
    "rocksalt": (_FACES, [[(0.5 + x) % 1 for x in point] for point in _FACES]),
    "cscl": ([[0, 0, 0]], [[0.5, 0.5, 0.5]]),
}


def crystal(elements: Any, lattice: str, constant: float, repeat: Any = 1, masses: Any = None) -> System:
    """A periodic crystal without potentials; each atom is a residue of its own.

    Parameters
    ----------
    elements : str or (str, str)
        Symbol of the element, or of both elements of a compound.
    lattice : {"sc", "bcc", "fcc", "diamond", "zincblende", "rocksalt", "cscl"}
        The last three are compounds.
    constant : float, nm
        Edge of the cubic cell.
    repeat : int or (3,) int
        Cells along each axis.
    masses : float or sequence of float, dalton, optional
        Mass of each element. Defaults to standard atomic weights.

    Returns
    -------
    System

    Raises
    ------
    ValueError
        If the lattice or an element is not known, or the number of elements does not fit the lattice.

    Examples
    --------
    >>> from triskele.sponge.build import crystal
    >>> copper = crystal("Cu", "fcc", 0.3615, repeat=4)
    >>> copper.n, round(float(copper.box[0, 0]), 4)
    (256, 1.446)
    """
    check.choice(lattice, _LATTICES, "crystal: lattice")
    parts = [points for points in _LATTICES[lattice] if points]
    symbols = list(elements) if isinstance(elements, (list, tuple, np.ndarray)) else [elements]
    if len(symbols) != len(parts):
        raise ValueError(f"crystal: {lattice} must have {len(parts)} element(s), got {', '.join(map(str, symbols))}")
    if unknown := [s for s in symbols if s not in SYMBOLS[1:]]:
        raise ValueError(f"crystal: elements must be symbols such as 'Cu', got {unknown[0]!r}")
    numbers = [NUMBERS[s.upper()] for s in symbols]
    if masses is None:
        if missing := [s for s, number in zip(symbols, numbers) if number not in WEIGHTS]:
            raise ValueError(f"crystal: masses must be given for {missing[0]}")
        masses = [WEIGHTS[number] for number in numbers]
    masses = list(masses) if np.ndim(masses) else [masses] * len(symbols)
    if len(masses) != len(symbols):
        raise ValueError(
            f"crystal: masses must be one number, or one for each of {len(symbols)} elements, got {len(masses)}"
        )
    masses = np.array([check.number(m, "crystal: masses", 0, unit="dalton") for m in masses])
    constant = check.positive(constant, "crystal: constant", "nm")
    cells = list(repeat) if np.ndim(repeat) else [repeat] * 3
    if len(cells) != 3:
        raise ValueError(f"crystal: repeat must be one number of cells, or three, got {len(cells)}")
    cells = [check.integer(k, "crystal: repeat", 1) for k in cells]
    corners = np.stack(np.meshgrid(*map(np.arange, cells), indexing="ij"), -1).reshape(-1, 1, 3)
    kind = np.tile(np.repeat(np.arange(len(parts)), [len(points) for points in parts]), len(corners))
    n, names = len(kind), np.array(symbols)[kind]
    topology = Topology(
        names,
        np.array(numbers)[kind],
        np.arange(n),
        names,
        np.arange(1, n + 1).astype(str),
        np.zeros(n, int),
        np.array(["A"]),
    )
    positions = (corners + np.concatenate(parts)).reshape(-1, 3) * constant
    return System(topology, masses[kind], box=constant * np.array(cells, float), positions=positions)
