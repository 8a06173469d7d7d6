"""Drude oscillators: charges on springs that make atoms polarizable, and Thole's screening of near dipoles.

An atom of charge q has a Drude particle of charge q_D bound to it by a spring of force constant q_D^2/alpha, and itself
carries q - q_D: in a field the pair becomes the induced dipole alpha E. `Nonbonded` sees two charges like any others;
the pair is among the system's exclusions. `drude_oscillators` makes all potentials of a force field at once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from triskele.core.extend import check

from ...box import displacement
from ...geometry import length
from ...potential import Potential
from ...topology import as_indices, check_indices
from ...units import COULOMB
from ..bonded.terms import TermPotential, bond_potential, indices, of_each

__all__ = ["DrudeAnisotropy", "drude_oscillators", "drude_spring", "thole_screening"]


@bond_potential(name="drude")
def drude_spring(r, charge, polarizability):
    """Spring between a Drude particle and its atom, u = C q^2/(2 alpha) r^2 [1]_.

    Parameters
    ----------
    atoms : (m, 2) int
        Drude particle and atom. Integrators, barostats and temperatures know the Drude particles of a system by this
        potential.
    charge : float or (m,) array, e
        Charge of the Drude particle.
    polarizability : float or (m,) array, nm^3
        Polarizability volume; with `DrudeAnisotropy`, that of the axis for which there is no further term.
    name : str, optional

    References
    ----------
    .. [1] Lamoureux, Roux, "Modeling induced polarization with classical Drude oscillators: Theory and molecular
       dynamics simulation algorithm", J. Chem. Phys. 119 (2003) 3025, equations 1 and 2. doi:10.1063/1.1589749

    Examples
    --------
    >>> from triskele.sponge import drude_spring
    >>> drude_spring([[4, 0]], charge=-1.71636, polarizability=0.000978253)
    <drude_spring 'drude': charge (1,), polarizability (1,)>
    """
    return 0.5 * COULOMB * charge * charge / polarizability * (r * r)


def _check_springs(self, system):
    TermPotential.check(self, system)
    where = f"drude_spring {self.name!r}"
    others = [p.atoms for p in system.potentials if p.of_drude_particles and p is not self]
    atoms, counts = np.unique(np.concatenate([self.atoms, *others]), return_counts=True)
    if counts.max(initial=0) > 1:
        raise ValueError(
            f"{where}: each atom must have one Drude particle at most, and this one atom, got "
            f"{system.topology.describe(int(atoms[np.argmax(counts)]))} in {counts.max()} pairs"
        )
    if np.any(unbound := self.params["charge"] == 0):
        raise ValueError(
            f"{where}: charge must not be 0, which leaves a spring without strength, for "
            f"{system.topology.describe(int(self.atoms[np.argmax(unbound), 0]))}"
        )
    bad = self.params["polarizability"] <= 0
    if np.any(bad):
        k = int(np.argmax(bad))
        raise ValueError(
            f"{where}: polarizability must be > 0 nm^3, got {self.params['polarizability'][k]:g} for "
            f"{system.topology.describe(int(self.atoms[k, 0]))}"
        )


def _spring_energy(self, params, positions, box):
    """The same from squares of distances, whose second derivatives are right where a particle is on its atom."""
    drude, atom = self.atoms.T
    d = displacement(positions[drude] - positions[atom], box if self.images else None)
    q = params["charge"]
    return 0.5 * COULOMB * np.sum(q * q / params["polarizability"] * np.sum(d * d, axis=-1))


drude_spring.check = _check_springs
drude_spring.energy = _spring_energy
drude_spring.of_drude_particles = True


@bond_potential(name="thole")
def thole_screening(r, charge_product, damping):
    """Screened interaction of two charges of near dipoles, u = C qq/r (1 - (1 + a r/2) exp(-a r)) [1]_.

    Dipoles of atoms that are one or two bonds apart, which are among the system's exclusions, interact in this way
    only: four terms for each pair of dipoles, between Drude particles and atoms, which here carry the opposite charge
    of their Drude particles.

    Parameters
    ----------
    atoms : (m, 2) int
    charge_product : float or (m,) array, e^2
        Product of the charges of the dipoles, not of the atoms.
    damping : float or (m,) array, 1/nm
        a = t/(alpha_1 alpha_2)^(1/6), for t the sum of the Thole parameters of both atoms.
    name : str, optional

    References
    ----------
    .. [1] Thole, "Molecular polarizabilities calculated with a modified dipole interaction", Chem. Phys. 59 (1981) 341;
       in the form of Noskov, Lamoureux, Roux, J. Phys. Chem. B 109 (2005) 6705, equation 3. doi:10.1021/jp045438q

    Examples
    --------
    >>> from triskele.sponge import thole_screening
    >>> thole_screening([[1, 3]], charge_product=2.9, damping=26.0)
    <thole_screening 'thole': charge_product (1,), damping (1,)>
    """
    x = damping * r
    return COULOMB * charge_product / r * (1 - (1 + 0.5 * x) * math.exp(-x))


def _check_screening(self, system):
    TermPotential.check(self, system)
    if np.any(self.params["damping"] < 0):
        k = int(np.argmin(self.params["damping"]))
        raise ValueError(
            f"thole_screening {self.name!r}: damping must be >= 0 1/nm, got {self.params['damping'][k]:g} in term {k}"
        )


thole_screening.check = _check_screening


class DrudeAnisotropy(Potential):
    """Springs of Drude particles along directions in their molecules, u = k/2 (d . n)^2 [1]_.

    d is the displacement of a Drude particle from its atom, and n the unit vector between two atoms.

    Parameters
    ----------
    atoms : (m, 4) int
        Drude particle, its atom, and the two atoms whose difference is the direction; the second may be one of these.
    k : float or (m,) array, kJ/mol/nm^2
        Force constant beyond that of the isotropic spring; may be negative.
    name : str, optional

    References
    ----------
    .. [1] Harder, Anisimov, Vorobyov, Lopes, Noskov, MacKerell, Roux, "Atomic level anisotropy in the electrostatic
       modeling of lone pairs for a polarizable force field based on the classical Drude oscillator", J. Chem. Theory
       Comput. 2 (2006) 1587, equation 5. doi:10.1021/ct600180x

    Examples
    --------
    >>> from triskele.sponge import DrudeAnisotropy
    >>> DrudeAnisotropy([[3, 0, 0, 1]], k=8e4)
    <DrudeAnisotropy 'drude_anisotropy': k (1,)>
    """

    conserves_momentum = True

    def __init__(self, atoms: Any, k: Any, name: str = "drude_anisotropy"):
        self.name = name
        given = np.asarray(atoms)
        where = f"DrudeAnisotropy {name!r}"
        if given.ndim != 2 or given.shape[1:] != (4,):
            raise ValueError(f"{where}: atoms must have shape [m, 4], got {given.shape}")
        self.atoms = np.concatenate([indices(where, given[:, :2], 2), indices(where, given[:, 2:], 2)], axis=1)
        self.params = {"k": of_each(f"{where}: k", k, len(given), "terms")}

    def energy(self, params: dict[str, Any], positions: Any, box: Any) -> Any:
        box = box if self.images else None
        drude, atom, one, other = (positions[column] for column in self.atoms.T)
        direction = displacement(one - other, box)
        along = np.sum(displacement(drude - atom, box) * direction, axis=-1) / length(direction)
        return 0.5 * np.sum(params["k"] * along * along)

    def check(self, system):
        where = f"DrudeAnisotropy {self.name!r}"
        check_indices(self.atoms, system.n, f"{where}: atoms")
        check.finite(self.params["k"], f"{where}: k")


def drude_oscillators(
    particles: Any, charges: Any, polarizabilities: Any, anisotropies: Any = None, screened: Any = (), thole: Any = ()
) -> list[Potential]:
    """The potentials of polarizable atoms, in the terms of OpenMM's ``DrudeForce``.

    Parameters
    ----------
    particles : (m, 5) int
        Drude particle, its atom, and the atoms that give directions: the first axis leads from the third atom to the
        second, the second axis from the fifth to the fourth; -1 where there is none.
    charges : (m,) array, e
        Charges of the Drude particles.
    polarizabilities : (m,) array, nm^3
        Polarizability volumes.
    anisotropies : (m, 2) array, optional
        Polarizability along both axes relative to the mean; along the third axis it is 3 less these two.
    screened : (s, 2) int
        Pairs of rows of `particles` whose dipoles interact by `thole_screening`.
    thole : (s,) array
        Sum of the Thole parameters of each such pair.

    Returns
    -------
    list of Potential
        `drude_spring`, and `DrudeAnisotropy` and `thole_screening` if there are such terms.

    Raises
    ------
    ValueError
        If a polarizability is not positive along each axis.

    Examples
    --------
    >>> from triskele.sponge import drude_oscillators
    >>> particles = [[1, 0, -1, -1, -1], [3, 2, -1, -1, -1]]
    >>> made = drude_oscillators(particles, [-1.5, -1.5], [0.001, 0.001], screened=[[0, 1]], thole=[2.6])
    >>> made[1]
    <thole_screening 'thole': charge_product (4,), damping (4,)>
    """
    where = "drude_oscillators"
    rows = _index_rows(f"{where}: particles", particles, 5)
    pairs = _index_rows(f"{where}: screened", screened, 2)
    check_indices(pairs, len(rows), f"{where}: screened")
    q, alpha = (
        of_each(f"{where}: {name}", values, len(rows), "particles")
        for name, values in (("charges", charges), ("polarizabilities", polarizabilities))
    )
    drude, atom = rows[:, 0], rows[:, 1]
    axes = np.array(np.ones((len(rows), 2)) if anisotropies is None else anisotropies, np.float64)
    if len(rows) and axes.shape != (len(rows), 2):
        raise ValueError(f"{where}: anisotropies must have shape {(len(rows), 2)}, got {axes.shape}")
    axes = axes.reshape(-1, 2)
    ends = np.stack([np.stack([atom, rows[:, 2]], 1), rows[:, 3:5]], 1)  # two axes of two atoms
    axes[(ends < 0).any(-1)] = 1.0
    third = 3.0 - axes.sum(1)
    if len(rows) and not np.all(np.c_[axes, third] * alpha[:, None] > 0):
        bad = int(np.argmin((np.c_[axes, third] * alpha[:, None] > 0).all(1)))
        raise ValueError(
            f"{where}: polarizabilities must be > 0 along each axis, got {alpha[bad]:g} nm^3 "
            f"times {axes[bad, 0]:g}, {axes[bad, 1]:g} and {third[bad]:g} for particle {drude[bad]}"
        )
    made: list[Potential] = [drude_spring(rows[:, :2], charge=q, polarizability=alpha * third)]
    k = COULOMB * (q * q / alpha)[:, None] * (1 / axes - 1 / third[:, None])
    acts = (ends >= 0).all(-1)
    if acts.any():
        atoms = np.concatenate([np.broadcast_to(rows[:, None, :2], (len(rows), 2, 2)), ends], -1)
        made.append(DrudeAnisotropy(atoms[acts], k[acts]))
    if len(pairs):
        one, other = pairs.T
        sums = of_each(f"{where}: thole", thole, len(pairs), "screened pairs")
        damping = sums / (alpha[one] * alpha[other]) ** (1 / 6)
        product = q[one] * q[other]
        combined = [
            (a, b, s * product)
            for a, b, s in (
                (drude[one], drude[other], 1),
                (drude[one], atom[other], -1),
                (atom[one], drude[other], -1),
                (atom[one], atom[other], 1),
            )
        ]
        made.append(
            thole_screening(
                np.concatenate([np.stack([a, b], 1) for a, b, _ in combined]),
                charge_product=np.concatenate([c for _, _, c in combined]),
                damping=np.tile(damping, 4),
            )
        )
    return made


def _index_rows(where, values, width):
    given = as_indices(values, where)
    if given.size and (given.ndim != 2 or given.shape[1] != width):
        raise ValueError(f"{where} must have shape [m, {width}], got {given.shape}")
    return given.reshape(-1, width).astype(np.int64)


def example():
    """Potentials for `testing`, with the options of `example_system` that each needs."""
    pairs = np.stack([np.arange(0, 12, 2), np.arange(1, 12, 2)], 1)
    springs = drude_spring(pairs, charge=np.linspace(-2, -1, 6), polarizability=np.linspace(5e-4, 2e-3, 6))
    thole = thole_screening(pairs, charge_product=np.linspace(-2, 2, 6), damping=np.linspace(5, 30, 6))
    bent = DrudeAnisotropy([[0, 1, 1, 2], [3, 4, 5, 6], [3, 4, 4, 8]], k=[4e4, -2e4, 1e4])
    boxes = None, [[1.2, 0, 0], [0.2, 1.1, 0], [-0.1, 0.3, 1.2]]
    return [([springs, thole, bent], {"box": box}) for box in boxes]
