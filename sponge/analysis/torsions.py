"""Torsion angles, and the Ramachandran plot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core.extend import check, plots, short_repr

from ..box import displacement
from ..topology import Topology, check_indices
from .trajectory import as_boxes, as_positions, opened

__all__ = ["Ramachandran", "dihedrals", "phi_psi_atoms", "ramachandran"]


@short_repr
@dataclass(frozen=True)
class Ramachandran:
    """See `ramachandran`.

    Attributes
    ----------
    phi, psi : (frames, residues) array, radians
        -pi to pi.
    residues : (residues,) int
        Numbers of the residues in the topology.
    labels : list of str
        Their names, such as "ALA 2".
    """

    phi: np.ndarray
    psi: np.ndarray
    residues: np.ndarray
    labels: list[str]

    def plot(self, ax: Any = None, **points: Any) -> Any:
        """Draw psi against phi in degrees: points of each residue in one color."""
        points = {"s": 4, "linewidths": 0, "alpha": float(np.clip(300 / max(len(self.phi), 1), 0.2, 1.0)), **points}
        many = len(self.labels) > len(plots.COLORS)
        with plots.axes(
            ax,
            xlabel="φ [°]",
            ylabel="ψ [°]",
            xlim=(-180, 180),
            ylim=(-180, 180),
            aspect="equal",
            xticks=range(-180, 181, 90),
            yticks=range(-180, 181, 90),
        ) as ax:
            ax.axhline(0, color="0.8", linewidth=0.8, zorder=0)
            ax.axvline(0, color="0.8", linewidth=0.8, zorder=0)
            for k, label in enumerate(self.labels):
                ax.scatter(
                    np.degrees(self.phi[:, k]),
                    np.degrees(self.psi[:, k]),
                    label=label,
                    **({"color": "C0"} if many else {}),
                    **points,
                )
            if 1 < len(self.labels) and not many:
                for handle in ax.legend(markerscale=3, loc="center left", bbox_to_anchor=(1, 0.5)).legend_handles:
                    handle.set_alpha(1)
        return ax


def dihedrals(positions: Any, atoms: Any, *, boxes: Any = None) -> np.ndarray:
    """Torsion angles in radians, -pi to pi, positive when the far bond is turned clockwise (IUPAC).

    Parameters
    ----------
    positions : (frames, n, 3) array, nm, or trajectory
        A trajectory is what `load_trajectory` gives or takes.
    atoms : (m, 4) int
    boxes : optional
        When given, the differences between the atoms are taken as nearest images. Defaults to those of a trajectory.

    Returns
    -------
    (frames, m) array

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge.analysis import dihedrals
    >>> x = np.array([[1, 0, 0], [0, 0, 0], [0, 0, 1], [0, 1, 1.0]])
    >>> np.degrees(dihedrals(x, [[0, 1, 2, 3]])).round(6)
    array([[90.]])
    """
    where = "dihedrals"
    positions, boxes, _, _ = opened(positions, boxes)
    positions = as_positions(where, positions)
    frames, n = positions.shape[:2]
    atoms = check.shape(np.asarray(atoms, np.int64), ("m", 4), f"{where}: atoms")
    check_indices(atoms, n, f"{where}: atoms")
    boxes = as_boxes(where, boxes, frames)
    bonds = np.diff(positions[:, atoms], axis=2)  # [frames, m, 3, 3]
    if boxes is not None:
        bonds = np.stack([displacement(b, box) for b, box in zip(bonds, boxes)])
    b1, b2, b3 = np.moveaxis(bonds, 2, 0)
    n1, n2 = np.cross(b1, b2), np.cross(b2, b3)
    return np.arctan2((b1 * n2).sum(-1) * np.linalg.norm(b2, axis=-1), (n1 * n2).sum(-1))


def phi_psi_atoms(topology: Topology) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Atoms of phi (C N CA C) and psi (N CA C N) of every residue that has both, and the numbers of these residues.

    Neighbors are found by the peptide bonds of the topology, not by their numbers; caps such as ACE and NME count.

    Examples
    --------
    >>> from triskele import sponge
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds")
    >>> from triskele.sponge import analysis
    >>> phi, psi, residues = analysis.phi_psi_atoms(system.topology)
    >>> phi, psi, residues
    (array([[ 4,  6,  8, 14]]), array([[ 6,  8, 14, 16]]), array([1]))
    """
    t = topology
    backbone: dict[str, dict[int, int]] = {name: {} for name in ("N", "CA", "C")}
    for name, found in backbone.items():
        for atom in np.flatnonzero(t.names == name):
            found[int(t.residue_index[atom])] = int(atom)
    carbon, nitrogen = set(backbone["C"].values()), set(backbone["N"].values())
    before: dict[int, int] = {}  # N -> C of the residue before
    after: dict[int, int] = {}  # C -> N of the residue after
    for i, j in np.concatenate([t.bonds, t.bonds[:, ::-1]]).tolist():
        if i in carbon and j in nitrogen and t.residue_index[i] != t.residue_index[j]:
            before[j], after[i] = i, j
    phi, psi, residues = [], [], []
    for r in sorted(backbone["CA"]):
        n, ca, c = (backbone[name].get(r) for name in ("N", "CA", "C"))
        if n in before and c in after:
            phi.append([before[n], n, ca, c])
            psi.append([n, ca, c, after[c]])
            residues.append(r)
    return np.array(phi, int).reshape(-1, 4), np.array(psi, int).reshape(-1, 4), np.array(residues, int)


def ramachandran(positions: Any, topology: Topology | None = None, *, boxes: Any = None) -> Ramachandran:
    """Backbone angles phi and psi of every residue that has both.

    Parameters
    ----------
    positions : (frames, n, 3) array, nm, or trajectory
        A trajectory is what `load_trajectory` gives or takes.
    topology : Topology, optional
        Must have bonds. Defaults to that of a trajectory.
    boxes : optional
        As for `dihedrals`.

    Raises
    ------
    ValueError
        If no residue has both torsions.

    Examples
    --------
    >>> from triskele import sponge
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds")
    >>> from triskele.sponge import analysis
    >>> angles = analysis.ramachandran(system.positions[None], system.topology)
    >>> angles.labels, angles.phi.shape
    (['ALA 2'], (1, 1))
    """
    positions, boxes, _, trajectory = opened(positions, boxes)
    if topology is None:
        if trajectory is None or trajectory.topology is None:
            raise ValueError("ramachandran: a topology is needed, since the positions come without one")
        topology = trajectory.topology
    positions = as_positions("ramachandran", positions)
    if positions.shape[1] != topology.n:
        raise ValueError(
            f"ramachandran: positions must be of the {topology.n} atoms of the topology, got {positions.shape[1]}"
        )
    phi, psi, residues = phi_psi_atoms(topology)
    if not len(residues):
        raise ValueError(
            "ramachandran: no residue has N, CA and C bound to a residue before and one after "
            "(does the topology have bonds?)"
        )
    labels = [f"{topology.residue_names[r]} {topology.residue_ids[r]}" for r in residues]
    return Ramachandran(
        dihedrals(positions, phi, boxes=boxes), dihedrals(positions, psi, boxes=boxes), residues, labels
    )
