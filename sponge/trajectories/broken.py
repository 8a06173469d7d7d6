"""`BrokenMolecules`: a warning where a number would be wrong, as molecules are broken over the faces of the box."""

from __future__ import annotations

import warnings

import numpy as np

from ..load.whole import make_whole
from ..topology import Topology

__all__ = ["BrokenMolecules"]


class BrokenMolecules:
    """Called with frames, warns of the first molecule whose chosen atoms do not all stand at nearest images.

    Molecules of which one atom or none is chosen cannot be broken. A topology without bonds does not tell.
    """

    def __init__(self, where: str, topology: Topology, atoms: np.ndarray):
        self._where, self._topology = where, topology
        molecules = topology.molecules
        several = np.bincount(molecules[atoms], minlength=topology.n) > 1
        self._bonds = topology.bonds[several[molecules[topology.bonds[:, 0]]]]
        self._atoms = atoms[np.argsort(molecules[atoms], kind="stable")]
        self._same = np.diff(molecules[self._atoms]) == 0

    def __call__(self, positions: np.ndarray, box: np.ndarray | None, frame: str = "") -> None:
        """Look at a frame, which the warning calls `frame`."""
        whole = make_whole(positions, self._bonds, box)
        if whole is positions:
            return
        moves = (whole - positions)[self._atoms]
        apart = self._same & (np.abs(np.diff(moves, axis=0)).max(1) > 1e-6)
        if apart.any():
            self._bonds = self._bonds[:0]  # once is enough
            atom = self._topology.describe(int(self._atoms[np.argmax(apart)]))
            warnings.warn(
                f"{self._where}: molecules must be whole, but that of {atom} is broken over the faces of the box"
                f"{frame} (use make_whole() of the trajectory first)",
                stacklevel=4,
            )
