"""Which bonds and angles become constraints, what `constraints="h-bonds"` does, and which atoms are water."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from triskele.core.extend import check, short_repr

from ..topology import Topology, as_indices

__all__ = ["CONSTRAINTS", "Constraints", "constrain", "water_atoms"]

CONSTRAINTS = (None, "h-bonds", "all-bonds", "h-angles")
_DRUDE_MASS = 1.0  # dalton; Drude particles have 0.4 or 0.8, and no element


@short_repr
@dataclass(eq=False)
class Constraints:
    """Distances that are kept fixed.

    Parameters
    ----------
    pairs : (m, 2) int
    distances : (m,) float, nm
        Constrained distances.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import sponge
    >>> constraints = sponge.Constraints(np.array([[0, 1]]), np.array([0.1]))
    >>> constraints.distances
    array([0.1])
    """

    pairs: np.ndarray = field(default_factory=lambda: np.empty((0, 2), np.int32))
    distances: np.ndarray = field(default_factory=lambda: np.empty(0))

    def __post_init__(self):
        self.pairs = as_indices(self.pairs, "constraints").reshape(-1, 2)
        self.distances = np.ascontiguousarray(self.distances, np.float64).reshape(-1)
        if len(self.pairs) != len(self.distances):
            raise ValueError(
                f"constraints: one distance for each pair, got {len(self.pairs)} pairs, {len(self.distances)} distances"
            )

    def __len__(self) -> int:
        return len(self.pairs)


def water_atoms(topology: Topology, masses: np.ndarray) -> np.ndarray:
    """Mask [n] of the atoms of waters: residues of one oxygen, two hydrogens, sites without mass and Drude particles,
    bound to no other.
    """
    t = topology
    residues = len(t.residue_names)
    oxygens, hydrogens = (np.bincount(t.residue_index, t.elements == z, residues) for z in (8, 1))
    heavy = np.asarray(masses) > np.where(t.elements == 0, _DRUDE_MASS, 0)
    others = np.bincount(t.residue_index, ~np.isin(t.elements, (1, 8)) & heavy, residues)
    water = (oxygens == 1) & (hydrogens == 2) & (others == 0)
    ends = t.residue_index[t.bonds]
    water[ends[ends[:, 0] != ends[:, 1]]] = False
    return water[t.residue_index]


def constrain(
    topology: Topology,
    masses: np.ndarray,  # (n,); bonds to sites without mass never become constraints
    bonds: np.ndarray,  # (b, 2) int
    lengths: np.ndarray,  # (b,) nm
    angles: np.ndarray,  # (a, 3) int
    values: np.ndarray,  # (a,) radians
    kind: str | None,  # "h-bonds", "all-bonds", or "h-angles": all bonds and the angles H-X-H and H-O-X
    rigid_water: bool,  # whatever `kind` says
) -> tuple[Constraints, np.ndarray, np.ndarray]:
    """Return constraints made from bonds and angles, and masks of the bonds and angles that keep their potential."""
    check.choice(kind, CONSTRAINTS, "constraints")
    elements, water = topology.elements, water_atoms(topology, masses)
    bonds, angles = np.asarray(bonds, np.int64).reshape(-1, 2), np.asarray(angles, np.int64).reshape(-1, 3)
    atoms = (np.asarray(masses)[bonds] > 0).all(1)
    of_water = water[bonds].all(1)
    with_hydrogen = (elements[bonds] == 1).any(1)
    fixed = of_water & np.full(len(bonds), rigid_water)
    if kind:
        fixed |= with_hydrogen | (kind != "h-bonds")
    fixed &= atoms
    ends = elements[angles[:, [0, 2]]] == 1
    fixed_angles = np.zeros(len(angles), bool)
    if kind == "h-angles":
        fixed_angles |= ends.all(1) | (ends.any(1) & (elements[angles[:, 1]] == 8))
    if rigid_water:
        fixed_angles |= water[angles].all(1) & ends.all(1)
    pairs = np.sort(bonds[fixed], axis=1)
    distances = np.asarray(lengths, np.float64)[fixed]
    if np.any(fixed_angles):  # the third side of the triangle
        n = topology.n
        known = pairs @ [n, 1]
        order = np.argsort(known)
        side = []
        for a, b in ((0, 1), (1, 2)):
            key = np.sort(angles[fixed_angles][:, [a, b]], axis=1) @ [n, 1]
            at = np.minimum(np.searchsorted(known, key, sorter=order), max(len(known) - 1, 0))
            if len(known) == 0 or np.any(known[order[at]] != key):
                raise ValueError(
                    "constraints: an angle can only be fixed if both its bonds are, got an angle without bonds"
                )
            side.append(distances[order[at]])
        third = np.sqrt(side[0] ** 2 + side[1] ** 2 - 2 * side[0] * side[1] * np.cos(np.asarray(values)[fixed_angles]))
        pairs = np.concatenate([pairs, np.sort(angles[fixed_angles][:, [0, 2]], axis=1)])
        distances = np.concatenate([distances, third])
    _, first = np.unique(pairs, axis=0, return_index=True)  # a bond between the hydrogens wins over the angle
    first.sort()
    return Constraints(pairs[first], distances[first]), ~fixed, ~fixed_angles
