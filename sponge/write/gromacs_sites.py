"""Virtual sites in the forms of GROMACS (its manual, "Virtual interaction sites")."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..virtual_sites import sites as kinds
from .parts import Parts

__all__ = ["site_sections"]


def site_sections(parts: Parts) -> Iterator[tuple[str, str, np.ndarray, np.ndarray]]:
    """Section, function type, atoms (site first) and values of all virtual sites."""
    for kind in parts.system.virtual_sites:
        atoms = np.concatenate([kind.sites[:, None], kind.parents], axis=1)
        if isinstance(kind, kinds.TwoParticleAverage):
            yield "virtual_sites2", "1", atoms, kind.weights[:, 1:]
        elif isinstance(kind, kinds.ThreeParticleAverage):
            yield "virtual_sites3", "1", atoms, kind.weights[:, 1:]
        elif isinstance(kind, kinds.WeightedAverage):
            _check(parts, kind, np.all(kind.weights >= 0, axis=1), "negative weights")
            yield "virtual_sitesn", "3", atoms, kind.weights
        elif isinstance(kind, kinds.OutOfPlane):
            values = np.stack([kind.weight12, kind.weight13, kind.weight_cross], axis=1)
            yield "virtual_sites3", "4", atoms, values
        else:
            yield from _frames(parts, kind, atoms)


def _check(parts: Parts, kind: kinds.VirtualSite, good: np.ndarray, what: str) -> None:
    if not good.all():
        site = parts.system.topology.describe(int(kind.sites[np.argmin(good)]))
        raise ValueError(
            f"{parts.where}: the format must have a form for every virtual site, and has none for {what} of "
            f"{type(kind).__name__}, got {site}"
        )


def _frames(
    parts: Parts, kind: kinds.VirtualSite, atoms: np.ndarray
) -> Iterator[tuple[str, str, np.ndarray, np.ndarray]]:
    """Points of frames that GROMACS has: on a line (3fd), in a plane (3fad), on a normal (4fdn)."""
    assert isinstance(kind, kinds.LocalCoordinates)
    k = kind.parents.shape[1]
    x, y, p = kind.x_weights, kind.y_weights, kind.local
    origin = np.all(kind.origin_weights == np.eye(k)[0], axis=1)
    if k == 3:
        line = origin & (x[:, 0] == -1) & np.all(p[:, 1:] == 0, axis=1)
        yield "virtual_sites3", "2", atoms[line], np.stack([x[:, 2], p[:, 0]], axis=1)[line]
        plane = ~line & origin & np.all(x == [-1, 1, 0], axis=1) & np.all(y == [0, -1, 1], axis=1) & (p[:, 2] == 0)
        angle, distance = np.degrees(np.arctan2(p[:, 1], p[:, 0])), np.hypot(p[:, 0], p[:, 1])
        yield "virtual_sites3", "3", atoms[plane], np.stack([angle, distance], axis=1)[plane]
        known = line | plane
    elif k == 4:
        known = origin & (x[:, 1] == -1) & (y[:, 1] == -1) & (x[:, 3] == 0) & (y[:, 2] == 0)
        known &= np.all(p[:, :2] == 0, axis=1)
        yield "virtual_sites4", "2", atoms[known], np.stack([x[:, 2], y[:, 3], p[:, 2]], axis=1)[known]
    else:
        known = np.zeros(len(atoms), bool)
    _check(parts, kind, known, "this frame")
