"""Energies over explicit lists of all pairs: what the core compiles whole, second derivatives included."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from triskele import core

from .. import box as boxes
from ..potential import complete
from ..potentials.nonbonded import energy as nonbonded_energy
from ..potentials.nonbonded.nonbonded import Nonbonded
from ..potentials.pairs.terms import PairPotential, _mixed

if TYPE_CHECKING:
    from ..system import System

__all__ = ["explicit_energy"]

_MOST_ATOMS = 3000  # 4.5 million pairs, half a GB for each second derivative


def explicit_energy(system: System) -> Callable[..., Any]:
    """The potential energy of a small system as one pure function that the core compiles, to any order of derivative.

    Pairs are those of all atoms, each with its nearest image and without a neighbor list: for up to a thousand atoms
    or so this is what to differentiate twice. ``system.energy_function()`` is faster for values and first derivatives
    of larger systems.

    Parameters
    ----------
    system : System
        Its options, exclusions and grids (those for its box) are copied; later changes have no effect.

    Returns
    -------
    callable
        ``energy(params, positions, box=None)`` in kJ/mol; `params` as from ``system.params()``, where what is left out
        keeps its value.

    Raises
    ------
    ValueError
        If the system has virtual sites, or too many atoms.

    Examples
    --------
    >>> from triskele.sponge.differentiate import explicit_energy
    >>> from triskele import core, sponge
    >>> system = sponge.System(sponge.Topology.of_particles(2), [12.0, 12.0], positions=[[0, 0, 0], [0.16, 0, 0]])
    >>> _ = system.add(sponge.harmonic_bond([[0, 1]], k=1000.0, r0=0.15))
    >>> energy = core.jit(explicit_energy(system))
    >>> core.hessian(energy, 1)(system.params(), system.positions)[0, 0, 1, 0].round(6)
    np.float64(-1000.0)
    """
    where = "explicit energy"
    system.check()
    if system.virtual_sites:
        raise ValueError(
            f"{where}: the system must have no virtual sites, got {len(system.virtual_sites)} (use "
            f"system.energy_function())"
        )
    system = system.copy()
    pairs = _all_pairs(system)
    if pairs is not None and system.n > _MOST_ATOMS:
        raise ValueError(
            f"{where}: pairs of all atoms are kept, for at most {_MOST_ATOMS} atoms, got {system.n} (use "
            f"system.energy_function())"
        )
    terms = {p.name: _term(p, system.box, pairs) for p in system.potentials}

    def energy(params, positions, box=None):
        if box is None and system.box is not None:
            box = system.box
        if box is not None and not isinstance(box, core.Tensor):
            for p in system.potentials:
                if hasattr(p, "check_box"):
                    p.check_box(box)
        params = complete(system.params(), params, where)
        total = 0.0
        for name, term in terms.items():
            total = total + term(params[name], positions, box)
        return total

    return energy


def _all_pairs(system):
    """All pairs (i, j) of atoms that are not excluded, for potentials that need them."""
    if not any(isinstance(p, (Nonbonded, PairPotential)) for p in system.potentials):
        return None
    wanted = np.triu(np.ones((system.n, system.n), bool), 1)
    wanted[system.exclusions[:, 0], system.exclusions[:, 1]] = False
    return np.nonzero(wanted)


def _term(potential, box, pairs):
    if isinstance(potential, Nonbonded):
        return _nonbonded(potential, box, *pairs)
    if isinstance(potential, PairPotential):
        return _pair_potential(potential, *pairs)
    return potential.energy


def _squares(positions, i, j, box, cutoff):
    """Squared distances, and which of them count; those that do not are 1."""
    d = boxes.displacement(positions[i] - positions[j], None if cutoff is None else box)
    r2 = np.sum(d * d, axis=-1)
    if cutoff is None:
        return r2, None
    near = r2 < cutoff * cutoff
    return np.where(near, r2, 1.0), near


def _sum(energies, near):
    return np.sum(energies if near is None else np.where(near, energies, 0.0))


def _nonbonded(potential, box, i, j):
    form = potential.form(box)
    types = None if potential.types is None else (potential.types[i], potential.types[j])
    exclusions = potential.exclusions.astype(np.int64)

    def energy(params, positions, box):
        r2, near = _squares(positions, i, j, box, form.cutoff)
        total = _sum(nonbonded_energy.pair_energies(form, params, i, j, types, r2), near)
        if form.corrects:
            total = total + nonbonded_energy.excluded(form, params, positions, box, exclusions)
        if form.alpha:
            total = total + nonbonded_energy.reciprocal(form, params, positions, box)
        if form.dispersion:
            total = total + nonbonded_energy.long_range_dispersion(form, params, potential.types) / boxes.volume(box)
        return total

    return energy


def _pair_potential(potential, i, j):
    function, types = potential.pair_function(), potential.types
    types = None if types is None else (types[i], types[j])

    def energy(params, positions, box):
        r2, near = _squares(positions, i, j, box, potential.cutoff)
        given = potential.coefficients(params)
        values = [_mixed(rule, given[name], i, j, types) for name, rule in potential.rules.items()]
        return _sum(function(np.sqrt(r2), *values), near)

    return energy
