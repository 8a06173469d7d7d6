"""`Boresch`: the restraint that holds a decoupled ligand in its place, and the free energy of taking it off."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from scipy import integrate

from triskele.core.extend import check

from .. import cv, units
from ..analysis.trajectory import as_boxes, as_positions, opened
from ..box import displacement
from ..engine.energy_split import solute_mask
from ..geometry import angle, length, torsion
from ..potentials.bias import BiasPotential, umbrella
from ..system import System
from ..topology import as_indices

__all__ = ["Boresch"]

STANDARD_VOLUME = 1 / 0.602214076  # nm^3 of a molecule at 1 mol/l
_K = (8368.0, 83.68, 83.68)  # 20 kcal/mol/A^2, 20 kcal/mol/rad^2
_BACKBONE = ("N", "CA", "C")
_LEAST_SINE = 0.5  # of angles inside of a molecule
_BARRIER = 10.0  # RT that a restrained angle must be away from a line
_FRAMES, _PATHS = 40, 200  # looked at in the choice of atoms


class Boresch(BiasPotential):
    r"""Restraint of the position and orientation of a ligand: six springs between three atoms and three.

    The atoms are a, b, c of the receptor and A, B, C of the ligand. The springs hold the distance aA, the angles baA
    and aAB, and the torsions cbaA, baAB and aABC.

    Add the restraint to the complex, and name it in ``decouple(..., restraints=["boresch"])``. Its energy is then
    multiplied by the lambda "restraints", which must be 0 in the fully coupled state and 1 in the decoupled state. Let
    G_complex and G_water be the free energies of coupling the ligand in the complex and in water. The standard free
    energy of binding is G_complex - G_water - `standard_state_correction`.

    Parameters
    ----------
    receptor, ligand : (3,) int
        The atoms a, b, c and A, B, C.
    distance : float, nm
        Rest length of aA.
    angles : (2,) array, radians
        Rest angles of baA and aAB.
    torsions : (3,) array, radians
        Rest angles of cbaA, baAB and aABC.
    k_distance : float, kJ/mol/nm^2
        Force constant K of the energy K/2 d^2.
    k_angles : float or (2,) array, kJ/mol/rad^2
    k_torsions : float or (3,) array, kJ/mol/rad^2
    name : str
        Name under which the energy is reported.

    Attributes
    ----------
    atoms : (6,) int
        a, b, c, A, B, C.
    params : dict
        Rest values ``center`` (6,) and force constants ``k`` (6,) of distance, angles and torsions.

    Raises
    ------
    ValueError
        If atoms are named twice, the distance or a force constant is not positive, or an angle is not between 0 and pi.

    References
    ----------
    Boresch, Tettinger, Leitgeb, Karplus, "Absolute binding free energies: a quantitative approach for their
    calculation", J. Phys. Chem. B 107 (2003) 9535. doi:10.1021/jp0217839

    Examples
    --------
    >>> from triskele.sponge import alchemy
    >>> restraint = alchemy.Boresch([4, 6, 8], [30, 31, 35], distance=0.5, angles=[1.5, 1.7], torsions=[0.3, -2.0, 3.0])
    >>> round(restraint.standard_state_correction(298.15), 2)
    -33.83
    """

    def __init__(
        self,
        receptor: Any,
        ligand: Any,
        *,
        distance: float,
        angles: Any,
        torsions: Any,
        k_distance: float = _K[0],
        k_angles: Any = _K[1],
        k_torsions: Any = _K[2],
        name: str = "boresch",
    ):
        where = "Boresch"
        ends = as_indices(receptor, f"{where}: receptor"), as_indices(ligand, f"{where}: ligand")
        if any(len(end) != 3 for end in ends) or len(set(np.ravel(ends).tolist())) != 6 or np.min(ends) < 0:
            raise ValueError(
                f"{where}: receptor and ligand must be three different atoms each, got {receptor} and {ligand}"
            )
        check.positive(distance, f"{where}: distance", "nm")
        center = [np.array([distance], np.float64)]
        for what, values, count in (("angles", angles, 2), ("torsions", torsions, 3)):
            center.append(np.asarray(values, np.float64))
            if center[-1].shape != (count,):
                raise ValueError(f"{where}: {what} must be {count} numbers, got shape {center[-1].shape}")
        if not np.all((center[1] > 0) & (center[1] < math.pi)):
            raise ValueError(
                f"{where}: angles must be between 0 and pi, got {center[1].tolist()} (they are in radians)"
            )
        k = _constants(where, k_distance, k_angles, k_torsions)
        self.atoms = np.concatenate(ends)
        own = umbrella(_variables(self.atoms), center=np.concatenate(center), k=k, name=name)
        super().__init__(own.function, own.cvs, own.params, name)

    @classmethod
    def choose(
        cls,
        system: System,
        ligand: Any,
        receptor: Any = None,
        *,
        positions: Any = None,
        temperature: float = 298.15,
        k_distance: float = _K[0],
        k_angles: Any = _K[1],
        k_torsions: Any = _K[2],
        name: str = "boresch",
    ) -> Boresch:
        """Choose the atoms and rest values from a structure or a trajectory of the bound ligand.

        All chains of three bonded heavy atoms near the binding site are tried. Angles must stay away from a line, those
        of the springs by a barrier of 10 RT. Of the rest, the method takes the springs with the least mean energy in
        the given frames, with some preference for right angles.

        Parameters
        ----------
        system : System
        ligand : iterable of int, or (n,) bool
            Atoms of the ligand.
        receptor : iterable of int, or (n,) bool, optional
            Atoms to choose from. Defaults to the backbone (N, CA, C) of all other molecules, or to all of their atoms
            where there is none.
        positions : (frames, n, 3) array, nm, or trajectory, optional
            A trajectory is what `load_trajectory` gives or takes. Defaults to the system's positions.
        temperature : float, K
        k_distance, k_angles, k_torsions, name
            As for `Boresch`.

        Returns
        -------
        Boresch

        Raises
        ------
        ValueError
            If ligand or receptor have no chain of three heavy atoms, share atoms, or no choice keeps its angles away
            from a line.

        Examples
        --------
        >>> from triskele import sponge
        >>> from triskele.sponge import alchemy
        >>> pair = sponge.load(*sponge.example_files("alanine-dipeptide"))
        >>> halves = range(11), range(11, 22)  # of one molecule, for want of a complex
        >>> alchemy.Boresch.choose(pair, *halves)
        <Boresch 'boresch': center (6,), k (6,)>
        """
        where = "Boresch.choose"
        thermal = units.GAS_CONSTANT * check.positive(temperature, f"{where}: temperature", "K")
        k = _constants(where, k_distance, k_angles, k_torsions)
        own = solute_mask(system, ligand, f"{where}: ligand")
        others = _receptor(system, own) if receptor is None else solute_mask(system, receptor, f"{where}: receptor")
        if np.any(own & others):
            raise ValueError(
                f"{where}: ligand and receptor must have no atoms in common, got "
                f"{system.topology.describe(int(np.argmax(own & others)))} in both"
            )
        if positions is None and system.positions is None:
            raise ValueError(f"{where}: positions are needed; give them, or set system.positions")
        frames, boxes, *_ = opened(system.positions if positions is None else positions)
        frames = as_positions(where, frames)
        boxes = as_boxes(where, system.box if boxes is None else boxes, len(frames))
        if frames.shape[1] != system.n:
            raise ValueError(f"{where}: positions must be those of {system.n} atoms, got {frames.shape[1]}")
        few = np.unique(np.linspace(0, len(frames) - 1, _FRAMES).astype(int))
        x, cells = frames[few], None if boxes is None else boxes[few]
        inside = [_paths(system, mask, x, cells, what, where) for mask, what in ((others, "receptor"), (own, "ligand"))]
        gaps = length(
            displacement(x[0][inside[0][:, 0], None] - x[0][inside[1][:, 0]], None if cells is None else cells[0])
        )
        near = [paths[np.argsort(gaps.min(axis=1 - side), kind="stable")[:_PATHS]] for side, paths in enumerate(inside)]
        rows = np.concatenate([np.repeat(near[0], len(near[1]), axis=0), np.tile(near[1], (len(near[0]), 1))], axis=1)
        best: tuple[float, Any] = (math.inf, None)
        for some in np.array_split(rows, -(-len(rows) // 2000)):
            center, deviations = _statistics(_coordinates(some, x, cells))
            bent = np.minimum(center[:, 1:3], math.pi - center[:, 1:3])
            energy = 0.5 * (k * np.mean(deviations**2, axis=0)).sum(axis=1) / thermal
            energy += np.sum(np.cos(center[:, 1:3]) ** 2, axis=1)
            energy[(0.5 * k[1:3] * bent**2 < _BARRIER * thermal).any(axis=1)] = math.inf
            if energy.min() < best[0]:
                best = float(energy.min()), some[np.argmin(energy)]
        if best[1] is None:
            raise ValueError(
                f"{where}: no atoms keep their angles {_BARRIER:g} RT away from a line (give other atoms "
                f"of the receptor, or larger k_angles)"
            )
        center = _statistics(_coordinates(best[1][None], frames, boxes))[0][0]
        return cls(
            best[1][:3],
            best[1][3:],
            distance=center[0],
            angles=center[1:3],
            torsions=center[3:],
            k_distance=k[0],
            k_angles=k[1:3],
            k_torsions=k[3:],
            name=name,
        )

    def standard_state_correction(self, temperature: float, *, analytic: bool = False) -> float:
        r"""Free energy of letting the decoupled ligand go from the restraint into the standard volume.

        The integrals over the six coordinates are found by quadrature, or analytically in the limit of stiff springs,

        .. math::

            \Delta G = -RT \ln \frac{8 \pi^2 V_0 \sqrt{K_r K_{\theta_A} K_{\theta_B} K_{\phi_A} K_{\phi_B} K_{\phi_C}}}
            {r_0^2 \sin\theta_A \sin\theta_B (2 \pi R T)^3}.

        Parameters
        ----------
        temperature : float, K
        analytic : bool
            Use the formula; it warns where it is off by more than 0.1 kJ/mol.

        Returns
        -------
        float
            In kJ/mol; mostly negative. The standard volume is that of a molecule at 1 mol/l, 1.6605 nm^3. A
            symmetry number of the ligand is not part of it.

        References
        ----------
        Boresch et al. (2003), equations 31 and 32. doi:10.1021/jp0217839
        """
        where = "Boresch.standard_state_correction"
        thermal = units.GAS_CONSTANT * check.positive(temperature, f"{where}: temperature", "K")
        center, k = self.params["center"], self.params["k"]
        widths = np.sqrt(thermal / k)
        logs = np.log(math.sqrt(2 * math.pi) * widths)
        stiff = logs.sum() + np.log(center[0] ** 2 * np.sin(center[1]) * np.sin(center[2]))
        whole = logs[3:] + np.log([math.erf(math.pi / (math.sqrt(2) * w)) for w in widths[3:]])
        for c, jacobian, end in ((0, np.square, math.inf), (1, np.sin, math.pi), (2, np.sin, math.pi)):
            low, high = max(center[c] - 12 * widths[c], 0.0), min(center[c] + 12 * widths[c], end)
            value, _ = integrate.quad(
                lambda x, c=c, f=jacobian: f(x) * math.exp(-0.5 * ((x - center[c]) / widths[c]) ** 2),
                low,
                high,
                epsabs=0,
                epsrel=1e-11,
                points=[center[c]],
            )
            whole = np.append(whole, math.log(value))
        free = math.log(8 * math.pi**2 * STANDARD_VOLUME)
        exact, formula = (-thermal * (free - float(found)) for found in (whole.sum(), stiff))
        if analytic and abs(exact - formula) > 0.1:
            warnings.warn(
                f"{where}: the analytic formula is off by {formula - exact:+.2f} "
                f"kJ/mol, since the springs are not stiff or an angle is near a line",
                stacklevel=2,
            )
        return formula if analytic else exact

    def __repr__(self):
        return super().__repr__().replace("BiasPotential", "Boresch")


def _constants(where, distance, angles, torsions):
    """Force constants (6,) of the springs."""
    given = (("distance", distance, 1), ("angles", angles, 2), ("torsions", torsions, 3))
    for what, value, count in given:
        if np.shape(value) not in ((), (count,)):
            raise ValueError(
                f"{where}: k_{what} must be a number or one for each of {count}, got shape {np.shape(value)}"
            )
    k = np.concatenate([np.broadcast_to(np.asarray(value, np.float64), count) for _, value, count in given])
    if not (np.isfinite(k).all() and k.min() > 0):
        raise ValueError(f"{where}: force constants must be positive, got {k.tolist()}")
    return k


def _variables(atoms):
    """Collective variables of the six springs."""
    a, b, c, A, B, C = (int(i) for i in atoms)
    return [
        cv.distance(a, A),
        cv.angle(b, a, A),
        cv.angle(a, A, B),
        cv.torsion(c, b, a, A),
        cv.torsion(b, a, A, B),
        cv.torsion(a, A, B, C),
    ]


def _receptor(system, own):
    """Heavy atoms of all molecules but the ligand's; the backbone's if there is one."""
    molecules = system.topology.molecules
    mask = ~np.isin(molecules, np.unique(molecules[own]))
    backbone = mask & np.isin(system.topology.names, _BACKBONE)
    return backbone if np.count_nonzero(backbone) >= 3 else mask


def _paths(system, mask, frames, boxes, what, where):
    """Chains of three bonded heavy atoms (m, 3) that are never near a line."""
    elements = system.topology.elements
    heavy = mask & np.where(elements > 0, elements > 1, system.masses > 0)
    bonds = np.asarray(system.topology.bonds).reshape(-1, 2)
    bonds = bonds[heavy[bonds].all(axis=1)]
    bonds = np.concatenate([bonds, bonds[:, ::-1]])
    found = [(a, b, c) for a, b in bonds.tolist() for c in bonds[bonds[:, 0] == b, 1].tolist() if c != a]
    paths = np.array(found, np.int64).reshape(-1, 3)
    sines = np.sin(_bend(frames, boxes, paths))
    paths = paths[(sines > _LEAST_SINE).all(axis=0)]
    if not len(paths):
        raise ValueError(
            f"{where}: the {what} must have three heavy atoms, bonded one to the next and not on a line, "
            f"got {np.count_nonzero(heavy)} heavy atoms and {len(found)} chains of three"
        )
    return paths


def _vectors(frames, boxes, atoms, i, j):
    """Vectors [frames, m, 3] from the atoms of column i to those of column j."""
    found = frames[:, atoms[:, j]] - frames[:, atoms[:, i]]
    return found if boxes is None else np.stack([displacement(d, box) for d, box in zip(found, boxes)])


def _bend(frames, boxes, atoms):
    """Angles [frames, m] at the second of three atoms (m, 3)."""
    return angle(_vectors(frames, boxes, atoms, 1, 0), _vectors(frames, boxes, atoms, 1, 2))


def _coordinates(rows, frames, boxes):
    """The six coordinates [frames, m, 6] of rows (m, 6) of atoms a, b, c, A, B, C."""
    chain = [2, 1, 0, 3, 4, 5]
    steps = [_vectors(frames, boxes, rows, i, j) for i, j in zip(chain, chain[1:])]
    return np.stack(
        [
            length(steps[2]),
            angle(-steps[1], steps[2]),
            angle(-steps[2], steps[3]),
            *(torsion(*steps[s : s + 3]) for s in range(3)),
        ],
        axis=-1,
    )


def _statistics(values):
    """Means [m, 6], on the circle for torsions, and deviations from them [frames, m, 6]."""
    turns = np.exp(1j * values[..., 3:]).mean(axis=0)
    center = np.concatenate([values[..., :3].mean(axis=0), np.angle(turns)], axis=-1)
    deviations = values - center
    deviations[..., 3:] -= 2 * math.pi * np.rint(deviations[..., 3:] / (2 * math.pi))
    return center, deviations
