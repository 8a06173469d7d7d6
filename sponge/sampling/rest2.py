"""`rest2`: a system whose solute is as if at another temperature."""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele.core.extend import check

from ..engine.energy_split import check_oscillators, solute_mask
from ..potential import Potential
from ..potentials.bonded.cmap import CMAP
from ..potentials.gb.gb import GB
from ..potentials.nonbonded.nonbonded import Nonbonded
from ..potentials.pairs.mixing import LJTable
from ..system import System

__all__ = ["rest2"]

# Parameters by term that the energy is linear in: torsions, and pairs three bonds apart.
_LINEAR = {
    "periodic_torsion": ("k",),
    "ryckaert_bellemans": ("c0", "c1", "c2", "c3", "c4", "c5"),
    "pair14": ("charge_product", "epsilon"),
    "thole_screening": ("charge_product",),
}
# Pair potentials that take off a part of the Coulomb energy, and the parameter that it is linear in.
_DAMPING = {"thole_damping": "dipole", "tang_toennies": "product"}


def rest2(system: System, solute: Any, temperature: float, reference: float) -> System:
    r"""A copy of `system` for replica exchange with solute tempering [1]_.

    With lambda = reference / temperature, all of them simulated at the temperature `reference`, its energy is

    .. math:: U = \lambda U_{pp} + \sqrt{\lambda} U_{pw} + U_{ww}

    in the nonbonded, 1-4, torsion and CMAP terms, by scaling parameters [2]_: charges of the solute by sqrt(lambda),
    its Lennard-Jones well depths by lambda, and torsions, 1-4 pairs and maps by lambda if all of their atoms are the
    solute's, by sqrt(lambda) if some are. Bonds, angles, harmonic impropers, restraints and potentials of the user's
    own stay as they are; in implicit solvent the charges of the solute are scaled, too, so that its polarization goes
    with lambda. So are charges of Drude particles, with `thole_screening`, `thole_damping` and `tang_toennies`, while
    springs stay.

    Parameters
    ----------
    system : System
    solute : int array
        Atoms, or a boolean array [n].
    temperature : float
        Temperature of the solute, in K.
    reference : float
        Temperature of the simulation, in K.

    Returns
    -------
    System
        With parameters of its own.

    Raises
    ------
    ValueError
        If the solute is empty, names atoms that there are not, or has an atom without its Drude particle; or if a
        potential has charges whose energy is not a sum over pairs: `InducedDipoles`, `ChargeEquilibration` or
        `NetworkCharges`.

    References
    ----------
    .. [1] Wang, Friesner, Berne, "Replica exchange with solute scaling: a more efficient version of replica exchange
       with solute tempering (REST2)", J. Phys. Chem. B 115 (2011) 9431. doi:10.1021/jp204407d
    .. [2] Bussi, "Hamiltonian replica exchange in GROMACS: a flexible implementation", Mol. Phys. 112 (2014) 379.
       doi:10.1080/00268976.2013.824126

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import sponge
    >>> system = sponge.System(sponge.Topology.of_particles(2), [12.0, 12.0], positions=[[0, 0, 0], [0.5, 0, 0]])
    >>> pair = system.add(sponge.Nonbonded([1.0, 1.0], [0.3, 0.3], [0.0, 0.0], method="none"))
    >>> hot = sponge.rest2(system, [0], temperature=400.0, reference=300.0)
    >>> round(hot.energy() / system.energy(), 6)  # sqrt(3/4)
    0.866025
    """
    inside = solute_mask(system, solute, "rest2: solute")
    check_oscillators(system, inside, "rest2: solute")
    for name, value in (("temperature", temperature), ("reference", reference)):
        check.positive(value, f"rest2: {name}", "K")
    factor = reference / temperature
    root = np.sqrt(factor)
    scaled = system.copy()
    for potential in scaled.potentials:
        _scale(potential, inside, factor, root)
        potential._reshaped()
    return scaled


def _scale(potential: Potential, inside: np.ndarray, factor: float, root: float) -> None:
    params, name = potential.params, type(potential).__name__
    if potential.moving_charges or ("charges" in params and not isinstance(potential, (Nonbonded, GB))):
        raise ValueError(f"rest2: the charges of the solute cannot be scaled in {name} {potential.name!r}")
    if isinstance(potential, (Nonbonded, GB)):
        params["charges"] = np.where(inside, params["charges"] * root, params["charges"])
    if isinstance(potential, Nonbonded) and potential.mixing == "table":
        _scale_table(potential, inside, root)
    elif isinstance(potential, Nonbonded):
        params["epsilons"] = np.where(inside, params["epsilons"] * factor, params["epsilons"])
    elif name in _LINEAR:
        by_term = _of_terms(inside[potential.atoms], factor, root)  # type: ignore[attr-defined]
        params.update({key: params[key] * by_term for key in _LINEAR[name]})
    elif name in _DAMPING:
        _scale_damping(potential, _DAMPING[name], inside, root)
    elif isinstance(potential, CMAP):
        by_term = _of_terms(inside[np.concatenate([potential.phi, potential.psi], axis=1)], factor, root)
        kinds, potential.types = np.unique(np.stack([potential.types, by_term]), axis=1, return_inverse=True)
        potential.types = potential.types.reshape(-1).astype(np.int32)
        params["maps"] = params["maps"][kinds[0].astype(np.int64)] * kinds[1][:, None, None]


def _of_terms(inside, factor, root):
    """By how much each term is scaled, from whether its atoms are the solute's [m, atoms]."""
    return np.where(inside.all(1), factor, np.where(inside.any(1), root, 1.0))


def _scale_table(potential, inside, root):
    """A type of its own for each type of the solute's atoms, with coefficients scaled by root for each such atom of a
    pair.
    """
    types, rows, scales = _split_types(potential.types, inside, root)
    table = LJTable(types, *(potential.params[x][rows] * scales for x in ("a", "b")))
    potential.types = table.types
    potential.params.update(a=table.a, b=table.b)


def _split_types(types, inside, root):
    """Types that tell atoms of the solute from others; the rows and columns of tables that they have; factors."""
    kinds, split = np.unique(np.stack([types, inside]), axis=1, return_inverse=True)
    scale = np.where(kinds[1], root, 1.0)
    return split.reshape(-1).astype(np.int32), np.ix_(kinds[0], kinds[0]), np.outer(scale, scale)


def _scale_damping(potential, key, inside, root):
    """The same for pair potentials with a parameter of atoms that is multiplied, or with tables."""
    params, rule = potential.params, potential.rules[key]
    if rule == "product":
        params[key] = np.where(inside, params[key] * root, params[key])
    elif rule == "table":
        potential.types, rows, scales = _split_types(potential.types, inside, root)
        params.update({name: params[name][rows] for name, of in potential.rules.items() if of == "table"})
        params[key] = params[key] * scales
    else:
        raise ValueError(
            f"rest2: {key!r} of {potential.name!r} must be a table, or one for each atom with "
            f"mixing='product', got the rule {rule!r}"
        )
