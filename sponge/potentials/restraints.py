"""Restraints: springs that hold positions, distances, angles or torsion angles, with or without a flat bottom."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from triskele.core.extend import Task, check, kernel

from ..barostats.molecules import molecules
from ..box import displacement, minimum_image
from ..engine.flags import ENERGY
from ..engine.plan import ROW, Plan
from ..potential import Potential
from ..topology import as_indices, check_indices
from .bonded.terms import angle_potential, bond_potential, torsion_potential

__all__ = ["PositionRestraint", "angle_restraint", "distance_restraint", "torsion_restraint"]


@bond_potential
def distance_restraint(r, k, lower, upper):
    """Restraint of a distance, u = k/2 d^2 with the part d of r outside of [lower, upper].

    Parameters
    ----------
    atoms : (m, 2) int
    k : float or (m,) array, kJ/mol/nm^2
        Force constant.
    lower, upper : float or (m,) array, nm
        Bounds of the flat region; equal for a plain spring.
    name : str, optional

    Examples
    --------
    >>> from triskele.sponge import distance_restraint
    >>> distance_restraint([[0, 9]], k=500.0, lower=0.3, upper=0.5)
    <distance_restraint 'distance_restraint': k (1,), lower (1,), upper (1,)>
    """
    return 0.5 * k * (max(r - upper, 0.0) + max(lower - r, 0.0)) ** 2


@angle_potential
def angle_restraint(theta, k, lower, upper):
    """Restraint of an angle, u = k/2 d^2 with the part d of theta outside of [lower, upper].

    Parameters
    ----------
    atoms : (m, 3) int
        The middle atom is the second.
    k : float or (m,) array, kJ/mol/rad^2
        Force constant.
    lower, upper : float or (m,) array, radians
        Bounds of the flat region; equal for a plain spring.
    name : str, optional

    Examples
    --------
    >>> from triskele import sponge
    >>> sponge.angle_restraint([[0, 1, 2]], k=100.0, lower=1.7, upper=2.1).name
    'angle_restraint'
    """
    return 0.5 * k * (max(theta - upper, 0.0) + max(lower - theta, 0.0)) ** 2


@torsion_potential
def torsion_restraint(phi, k, phi0, width=0.0):
    """Restraint of a torsion angle, u = k/2 max(0, |phi - phi0| - width)^2, the difference taken into [-pi, pi].

    Parameters
    ----------
    atoms : (m, 4) int
    k : float or (m,) array, kJ/mol/rad^2
        Force constant.
    phi0 : float or (m,) array, radians
        Equilibrium dihedral angle.
    width : float or (m,) array
        Half the width of the flat bottom in radians.
    name : str, optional

    Examples
    --------
    >>> from triskele import sponge
    >>> sponge.torsion_restraint([[4, 6, 8, 14]], k=200.0, phi0=-1.0, width=0.3).name
    'torsion_restraint'
    """
    d = phi - phi0
    return 0.5 * k * max(abs(d - 2 * math.pi * np.rint(d / (2 * math.pi))) - width, 0.0) ** 2


torsion_restraint.enhanced = False  # it holds the atoms where they are


@kernel(nogil=True)
def restrain(chunk, positions, box, flags, first, atoms, params, rows, forces):
    """Add the forces on the restrained atoms `first[chunk]` to `first[chunk + 1]`; params [m, 10]: k by axis, width,
    reference, and where the reference is from what moves with the box.
    """
    periodic = box[0, 0] != 0.0
    energy = 0.0
    row = rows[chunk]
    row[:] = 0.0
    for i in range(first[chunk], first[chunk + 1]):
        a = atoms[i]
        x, y, z = positions[a, 0] - params[i, 4], positions[a, 1] - params[i, 5], positions[a, 2] - params[i, 6]
        if periodic:
            x, y, z = minimum_image(x, y, z, box)
        r = math.sqrt(x * x + y * y + z * z)
        out = r - params[i, 3]
        if out <= 0.0:
            continue
        part = out / r
        fx, fy, fz = -params[i, 0] * part * x, -params[i, 1] * part * y, -params[i, 2] * part * z
        forces[a, 0] += fx
        forces[a, 1] += fy
        forces[a, 2] += fz
        if flags[ENERGY]:
            energy -= 0.5 * part * (fx * x + fy * y + fz * z)
            for b in range(3):  # the positions that the box scales are the images next to the reference
                at = params[i, 7 + b] + (x if b == 0 else y if b == 1 else z)
                row[1 + b] += fx * at
                row[4 + b] += fy * at
                row[7 + b] += fz * at
    row[0] = energy


class PositionRestraint(Potential):
    """Restraint of positions, u = k/2 max(0, |r - reference| - width)^2, of the nearest image where there is a box.

    References belong to the box that the system has when the restraint is added. In another box, such as a barostat's,
    the references of each molecule move by what the change of the box moves their center by, and keep their places
    relative to it, as molecules do under a barostat. The pressure is that of such a change of the box. It does not
    depend on where the molecules are.

    Parameters
    ----------
    atoms : (m,) int
    k : float, (m,) or (m, 3) array, kJ/mol/nm^2
        Force constant, or one for each axis where no `width` is given: u = (kx dx^2 + ky dy^2 + kz dz^2)/2.
    reference : (m, 3) array, nm
        Reference positions.
    width : float or (m,) array
        Radius of the flat bottom in nm.
    name : str

    Attributes
    ----------
    box : (3, 3) float64, nm, or None
        The box that the references belong to.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import PositionRestraint
    >>> PositionRestraint([4, 6], k=1000.0, reference=np.zeros((2, 3)))
    <PositionRestraint 'position_restraint': k (2,), reference (2, 3), width (2,)>
    """

    invariant = False
    conserves_momentum = False
    box: np.ndarray | None = None

    def __init__(self, atoms: Any, k: Any, reference: Any, width: Any = 0.0, name: str = "position_restraint"):
        self.name = name
        self.atoms = as_indices(atoms, "position_restraint: atoms").reshape(-1)
        m = len(self.atoms)
        if np.shape(reference) != (m, 3):
            raise ValueError(f"position_restraint: reference must have shape {(m, 3)}, got {np.shape(reference)}")
        self.params = {
            "k": np.array(np.broadcast_to(np.asarray(k, np.float64), (m, 3) if np.ndim(k) == 2 else (m,))),
            "reference": np.array(reference, np.float64),
            "width": np.array(np.broadcast_to(np.asarray(width, np.float64), (m,))),
        }

    def centers(self, reference: Any) -> Any:
        """Return for each restrained atom the mean of its molecule's references, (m, 3), nm."""
        of = self._molecules
        return (
            np.stack(
                [np.bincount(of, reference[:, a], minlength=int(of.max(initial=-1)) + 1)[of] for a in range(3)], axis=1
            )
            / np.bincount(of)[of][:, None]
        )

    def reference_in(self, box: Any, reference: Any) -> Any:
        """Return the references, (m, 3), nm, in another box than that of `reference`."""
        if box is None or self.box is None:
            return reference
        return reference + self.centers(reference) @ (np.linalg.inv(self.box) @ box - np.eye(3))

    def energy(self, params: dict[str, Any], positions: Any, box: Any) -> Any:
        d = displacement(positions[self.atoms] - self.reference_in(box, params["reference"]), box)
        square, width = np.sum(d * d, axis=-1), params["width"]
        outside = square > width * width
        # where the width is 0 the square needs no root, whose derivatives do not exist at the reference
        root = np.sqrt(np.where(outside, square, 1.0))
        reached = np.where(width > 0, np.where(outside, (root - width) ** 2, 0.0), square - 2 * width * root)
        if params["k"].ndim == 2:
            return 0.5 * np.sum(params["k"] * d * d)
        return 0.5 * np.sum(params["k"] * reached)

    def check(self, system):
        where = f"position_restraint {self.name!r}"
        check_indices(self.atoms, system.n, f"{where}: atoms")
        for name, values in self.params.items():
            check.finite(values, f"{where}: parameter {name}")
        if np.any(self.params["width"] < 0):
            raise ValueError(f"{where}: width must be >= 0, got {self.params['width'].min()}")
        if self.params["k"].ndim == 2 and np.any(self.params["width"]):
            raise ValueError(
                f"{where}: width must be 0 where k has an entry for each axis, got {self.params['width'].max()} nm"
            )
        if system.box is not None:
            self._molecules = np.unique(molecules(system)[self.atoms], return_inverse=True)[1]
            self.box = system.box.copy() if self.box is None else self.box

    def plan(self, engine):
        order = np.argsort(self.atoms, kind="stable")
        atoms, params = self.atoms[order], np.empty((len(order), 10))

        def update():
            k, reference, width = (self.params[name] for name in ("k", "reference", "width"))
            places = reference - self.centers(reference) if engine.periodic else reference
            k = np.broadcast_to(k.reshape(len(k), -1), reference.shape)
            params[:] = np.column_stack([k, width, self.reference_in(engine.box, reference), places])[order]

        update()
        first = np.searchsorted(atoms, engine.atom_starts).astype(np.int64)
        rows = np.zeros((engine.atom_chunks, ROW))
        task = Task(
            restrain,
            engine.positions,
            engine.box,
            engine.flags,
            first,
            atoms,
            params,
            rows,
            engine.forces,
            chunks=engine.atom_chunks,
        )
        return Plan(
            reduce=[task],
            rows=rows,
            update_box=update if engine.periodic else None,
            updates=dict.fromkeys(self.params, update),
        )


def example():
    """Potentials for `testing`, with the options of `example_system` that each needs."""
    restraints = [
        distance_restraint([[0, 9], [1, 5], [2, 8]], k=500.0, lower=[0.1, 0.9, 0.2], upper=[0.15, 1.2, 0.21]),
        angle_restraint([[0, 4, 9], [1, 2, 3], [3, 4, 6]], k=80.0, lower=[0.5, 2.9, 1.0], upper=[0.6, 3.0, 2.5]),
        torsion_restraint(
            [[0, 1, 2, 3], [3, 4, 5, 6], [1, 4, 6, 9]], k=50.0, phi0=[3.0, -3.0, 0.5], width=[0.0, 0.3, 0.5]
        ),
        PositionRestraint([0, 3, 7, 3], k=900.0, reference=np.full((4, 3), 0.1), width=[0.0, 0.1, 0.05, 3.0]),
    ]
    by_axis = PositionRestraint([2, 5], k=[[0, 0, 700], [300, 20, 0]], reference=np.full((2, 3), 0.2), name="by_axis")
    return [([*restraints, by_axis], {}), ([restraints[3], by_axis], {"box": [0.9, 0.9, 0.9]})]
