"""`finite_size`: what a periodic box changes in the free energy of a change of its net charge."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core.extend import check

from .. import box as boxes
from ..constraints.choose import water_atoms
from ..pme import ewald_energy
from ..potentials.nonbonded.nonbonded import Nonbonded
from ..system import System
from ..units import COULOMB
from .nonbonded import AlchemicalNonbonded

__all__ = ["FiniteSize", "check_charges", "finite_size"]

# Static dielectric constants of the models: Hochtl et al., J. Chem. Phys. 109 (1998) 4927 (tip3p); Wang et al.,
# J. Phys. Chem. Lett. 5 (2014) 1885 (tip3pfb); Reddy, Berkowitz, Chem. Phys. Lett. 155 (1989) 173 (spce); Izadi,
# Onufriev, J. Chem. Phys. 145 (2016) 074501 (opc3).
PERMITTIVITIES = {"tip3p": 97.0, "tip3pfb": 81.3, "spce": 70.7, "opc3": 78.4}
WHOLE = 0.01  # e that sums of charges, which files round, may be away from an integer
_WAVES, _NARROW = 16, 6.5  # of the Ewald sum of one charge: erfc(6.5) is 4e-20, exp(-(16 pi / 6.5 / 2)^2) is 1e-26


@dataclass(frozen=True)
class FiniteSize:
    """See `finite_size`.

    Attributes
    ----------
    terms : dict of str to float, kJ/mol
        To be added to the free energy that was computed in the box.
    """

    terms: dict[str, float]

    @property
    def value(self) -> float:
        """Sum of all terms, in kJ/mol."""
        return sum(self.terms.values())


def finite_size(
    system: System, before: float, after: float, *, permittivity: float, radius: float | None = None, box: Any = None
) -> FiniteSize:
    r"""Terms that take the free energy of changing a box's net charge to that in a box without end.

    They are those of Rocklin et al. [1]_ in their analytic form, with Q for the net charge of the box, V for its
    volume, :math:`\epsilon` for the permittivity, and :math:`k = 1/4\pi\epsilon_0`. Each is the difference of its
    values with both net charges.

    - "net_charge": :math:`-Q^2 w`, where :math:`w` is the energy of a unit charge with its periodic images and the
      neutralizing background: :math:`-2.837297\,k/2L` in a cube [2]_. It is computed for the shape of the box.
    - "undersolvation": :math:`(1 - 1/\epsilon) Q^2 w`, the solvent's response to the same.
    - "cavity" and "cavity_higher_order", if a radius R is given: :math:`k (1 - 1/\epsilon) \frac{2\pi}{3} Q^2 R^2 / V`
      and :math:`-k (1 - 1/\epsilon) \frac{8\pi^2}{45} Q^2 R^5 / V^2`, for the volume that a spherical ion takes from
      the solvent. They are the residual integrated potential and the empirical term [1]_ of such an ion.
    - "discrete_solvent", if there are waters: :math:`-k \frac{2\pi}{3} \gamma N Q / V`, where :math:`\gamma` is the
      trace of the quadrupole moment of each of N waters about its oxygen. It does not vanish in large boxes, and
      replaces the zero of an average over all of the box's potential by that of the space between molecules.

    Residual potentials of molecules of any other shape, such as proteins, need a solution of Poisson's equation, and
    are not among them. Neither is the potential of the surface of a real drop of water.

    Parameters
    ----------
    system : System
        The system in its box, with positions.
    before, after : float, e
        Net charge of the box in the first and in the last state.
    permittivity : float
        Relative permittivity of the solvent; 1 without solvent.
    radius : float, nm, optional
        Effective radius of the charged molecule.
    box : float, (3,) or (3, 3) array, nm, optional
        Box of the run, such as its mean. Defaults to that of the system, to which the positions belong.

    Returns
    -------
    FiniteSize

    Raises
    ------
    ValueError
        If the system has no box or no positions, if a charge is not finite, if the permittivity is less than 1, if the
        radius is not positive, or if a system with waters does not have exactly one `Nonbonded`.

    References
    ----------
    .. [1] Rocklin, Mobley, Dill, Hunenberger, "Calculating the binding free energies of charged species based on
       explicit-solvent simulations employing lattice-sum methods: An accurate correction scheme for electrostatic
       finite-size effects", J. Chem. Phys. 139 (2013) 184103. doi:10.1063/1.4826261
    .. [2] Hummer, Pratt, Garcia, "Free energy of ionic hydration", J. Phys. Chem. 100 (1996) 1206.
       doi:10.1021/jp951011v

    Examples
    --------
    >>> from triskele import sponge
    >>> from triskele.sponge import alchemy
    >>> ion = sponge.System(sponge.Topology.of_particles(1), [23.0], box=2.0, positions=[[0, 0, 0]])
    >>> _ = ion.add(sponge.Nonbonded([1.0], [0.2], [0.1], cutoff=0.9))
    >>> found = alchemy.finite_size(ion, 0.0, 1.0, permittivity=1.0)
    >>> round(found.value, 3), bool(abs(ion.energy() + found.value) < 1e-3)
    (98.55, True)
    """
    where = "finite_size"
    if not isinstance(system, System):
        raise TypeError(f"{where}: system must be a System, got {type(system).__name__}")
    box = system.box if box is None else boxes.as_box(box, f"{where}: box")
    if box is None or system.positions is None:
        raise ValueError(f"{where}: the system must have a box and positions")
    before, after = (
        check.number(value, f"{where}: {name}", unit="e") for name, value in (("before", before), ("after", after))
    )
    check.number(permittivity, f"{where}: permittivity", 1)
    shortest = float(np.linalg.norm(box, axis=1).min())
    wigner = float(
        ewald_energy(
            np.ones(1),
            np.zeros((1, 3)),
            box,
            _NARROW / shortest,
            tuple(int(_WAVES * n / shortest) for n in np.linalg.norm(box, axis=1)),
        )
    )
    volume, squares, response = boxes.volume(box), after**2 - before**2, 1 - 1 / permittivity
    terms = {"net_charge": -squares * wigner, "undersolvation": response * squares * wigner}
    if radius is not None:
        check.positive(radius, f"{where}: radius", "nm")
        scale = COULOMB * response * squares / volume
        terms["cavity"] = scale * 2 * math.pi / 3 * radius**2
        terms["cavity_higher_order"] = -scale * 8 * math.pi**2 / 45 * radius**5 / volume
    if moment := _quadrupole(system, box if system.box is None else system.box, where):
        terms["discrete_solvent"] = -COULOMB * 2 * math.pi / 3 * moment * (after - before) / volume
    return FiniteSize({name: float(value) for name, value in terms.items()})


def _quadrupole(system, box, where):
    """Sum of the traces of the waters' quadrupole moments about their oxygens, e nm^2; in the box of the positions."""
    t = system.topology
    water = water_atoms(t, system.masses)
    if not water.any():
        return 0.0
    charged = [p for p in system.potentials if isinstance(p, Nonbonded | AlchemicalNonbonded)]
    if len(charged) != 1:
        raise ValueError(
            f"{where}: the system must have one Nonbonded, with the charges of its waters, got {len(charged)}"
        )
    center = np.zeros((len(t.residue_names), 3))
    oxygens = np.flatnonzero(water & (t.elements == 8))
    center[t.residue_index[oxygens]] = system.positions[oxygens]
    apart = boxes.displacement(system.positions[water] - center[t.residue_index[water]], box)
    return float(charged[0].params["charges"][water] @ np.sum(apart**2, axis=1))


def check_charges(
    where: str,
    before: float,
    after: float,  # e
    periodic: bool,  # charges interact by an Ewald sum
    charged: bool,
) -> None:
    """Warn if two net charges do not differ by an integer; raise if they differ in a periodic box unless `charged`."""
    change = after - before
    if abs(change - round(change)) > WHOLE:
        warnings.warn(
            f"{where}: charges that change must sum to an integer, got {change:+.4f} e (is a part of a "
            f"molecule marked, or a charge missing?)",
            stacklevel=4,
        )
    elif round(change) and periodic and not charged:
        raise ValueError(
            f"{where}: the net charge of the box changes by {change:+.0f} e, and its free energy depends "
            f"on the size of the box (change an ion along, or pass charged=True and add finite_size(...))"
        )
