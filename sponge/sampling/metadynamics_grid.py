"""Grids of `Metadynamics`: from what users say of them, and hills of any widths on them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral
from typing import Any

import numpy as np

from triskele.core.extend import check

from ..cv.variable import CollectiveVariable
from . import metadynamics_kernels as kernels

__all__ = ["add_hills", "intervals_of", "scratch_of"]

_MOST_NODES = 10_000_000
# of grids of that many variables; interpolation is right to 1e-5 and 1e-4 of a hill's height
_NODES_PER_SIGMA = (5, 5, 3)


def intervals_of(
    where: str, cvs: list[CollectiveVariable], sigma: list[float], given: Any
) -> list[tuple[float, float, int]]:
    """Lowest value, highest value and number of intervals of each variable."""
    d = len(cvs)
    check.kind(given, (Integral, Iterable, None), f"{where}: grid", "a sequence with an entry for each variable")
    entries = [None] * d if given is None else [given] if isinstance(given, Integral) else list(given)
    if d == 1 and len(entries) in (2, 3) and all(np.isscalar(e) for e in entries):
        entries = [tuple(entries)]
    if len(entries) != d:
        raise ValueError(f"{where}: grid must have an entry for each of {d} variables, got {given!r}")
    found = []
    for variable, width, entry in zip(cvs, sigma, entries):
        entry = (entry,) if entry is None or np.isscalar(entry) else tuple(entry)
        if len(entry) == 1:
            if variable.period is None:
                raise ValueError(f"{where}: grid must say from where to where {variable.name} goes, got {entry[0]!r}")
            entry = (*variable.period, *(e for e in entry if e is not None))
        low, high = float(entry[0]), float(entry[1])
        if not (-np.inf < low < high < np.inf) or len(entry) > 3:
            raise ValueError(
                f"{where}: grid of {variable.name} must be (lowest, highest) or (lowest, highest, "
                f"intervals), got {entry!r}"
            )
        if variable.period is not None and not np.allclose((low, high), variable.period, rtol=1e-12):
            raise ValueError(
                f"{where}: grid of {variable.name}, which is periodic, must be its period "
                f"{variable.period}, got {(low, high)}"
            )
        if width > 0.5 * (high - low):
            raise ValueError(
                f"{where}: sigma must be at most half of the range of {variable.name}, {low:.3g} to "
                f"{high:.3g}, got {width:g} (angles are in radians, lengths in nm)"
            )
        n = entry[2] if len(entry) == 3 else math.ceil((high - low) / width * _NODES_PER_SIGMA[d - 1])
        check.integer(n, f"{where}: intervals of the grid of {variable.name}", 2)
        if (high - low) / n > 0.5 * width * (1 + 1e-12):
            raise ValueError(
                f"{where}: intervals of the grid of {variable.name} must be at most half of sigma = "
                f"{width:g}, got "
                f"{(high - low) / n:.3g} (at least {math.ceil(2 * (high - low) / width)} intervals)"
            )
        found.append((low, high, int(n)))
    nodes = [n if v.period else n + 1 for v, (_, _, n) in zip(cvs, found)]
    if math.prod(nodes) > _MOST_NODES:
        raise ValueError(
            f"{where}: the grid must have at most {_MOST_NODES} nodes, got "
            f"{' x '.join(map(str, nodes))} (fewer intervals)"
        )
    return found


def scratch_of(range_: np.ndarray) -> kernels.Scratch:
    """Return memory for hills of the widths in `range_` [d, 3]."""
    reach = int(max(np.ceil(kernels.REACH * range_[:, 2] / range_[:, 1]))) * 2 + 3
    return kernels.Scratch(np.zeros((3, reach), np.int64), np.zeros((3, 2, reach)))


def add_hills(hills: np.ndarray, surface: kernels.Grid) -> None:
    """Add hills [m, 2 d + 2], which are centers, widths, the part of the height where they end, and heights."""
    d = len(surface.range)
    changes = np.flatnonzero(np.diff(hills[:, d:-1], axis=0).any(axis=1)) + 1
    for part in filter(len, np.split(hills, changes)):
        own = surface._replace(range=np.column_stack([surface.range[:, :2], part[0, d : 2 * d]]))
        kernels.add_hills(part[:, :d].copy(), part[:, -1].copy(), own, scratch_of(own.range), float(part[0, -2]))
