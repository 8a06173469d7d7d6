"""Molecules that a file has broken at the faces of the box are put together again."""

from __future__ import annotations

import numpy as np

from .. import box as boxes
from ..protocols import SystemLike

__all__ = ["make_whole", "whole_positions"]


def make_whole(positions: np.ndarray, bonds: np.ndarray, box: np.ndarray | None) -> np.ndarray:
    """Return positions (n, 3) in nm with each molecule in one piece: bound atoms stand at their nearest images.

    The first atom of each molecule stays; molecules that are whole, or have no ends as their bonds go around the box,
    stay bit for bit.
    """
    if box is None or not len(bonds):
        return positions
    bonds = np.asarray(bonds, np.int64)
    torn = _torn(positions, bonds, box)
    if not np.any(torn):
        return positions
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n = len(positions)
    molecule = connected_components(coo_array((np.ones(len(bonds)), bonds.T), (n, n)), directed=False)[1]
    broken = np.unique(molecule[bonds[torn, 0]])
    ways = bonds[np.isin(molecule[bonds[:, 0]], broken)]
    ways = np.concatenate([ways, ways[:, ::-1]])
    out = positions.copy()
    placed = np.zeros(n, bool)
    placed[np.unique(molecule, return_index=True)[1]] = True
    while len(ways):  # outwards from the first atoms, one bond at a time
        ways = ways[~placed[ways[:, 1]]]
        edge, first = np.unique(ways[placed[ways[:, 0]], 1], return_index=True)
        near = out[ways[placed[ways[:, 0]], 0][first]]
        out[edge] = near + boxes.displacement(positions[edge] - near, box)
        placed[edge] = True
    endless = np.isin(molecule, molecule[bonds[_torn(out, bonds, box), 0]])
    out[endless] = positions[endless]
    return out


def whole_positions(system: SystemLike, positions: np.ndarray, box: np.ndarray | None) -> np.ndarray:
    """Return positions (n, 3) in nm with all that bonds, constraints and Drude springs hold together in one piece.

    >>> pair = sponge.Topology.of_particles(2, bonds=[[0, 1]])
    >>> system = sponge.System(pair, [1.0, 1.0], box=[2.0, 2.0, 2.0])
    >>> whole_positions(system, np.array([[0.1, 0, 0], [1.95, 0, 0]]), system.box)[1]
    array([-0.05,  0.  ,  0.  ])
    """
    if box is None:
        return positions
    return make_whole(
        positions,
        np.concatenate(
            [
                np.reshape(pairs, (-1, 2))
                for pairs in (system.topology.bonds, system.constraints.pairs, system.drude_pairs)
            ]
        ),
        box,
    )


def _torn(positions, bonds, box):
    """Mask of the bonds whose nearest images are others than the atoms as they stand."""
    step = positions[bonds[:, 1]] - positions[bonds[:, 0]]
    return np.any(np.abs(boxes.displacement(step, box) - step) > 1e-6, axis=1)
