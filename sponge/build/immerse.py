"""`immerse`: water around a molecule that already has its parameters."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from triskele.core.extend import check

from ..box import displacement
from ..constraints.choose import Constraints
from ..forcefield.create import create_system
from ..load.structure import Structure
from ..potentials.nonbonded.nonbonded import OPTIONS, Nonbonded
from ..potentials.pairs.mixing import RULES
from ..system import System
from ..topology import Topology
from .join import joined
from .water_box import water_box

__all__ = ["immerse"]

_MODELS = ("tip3p", "tip3pfb", "spce", "opc3")
_ROOM = 0.26  # nm between the water's oxygen and atoms of the solute


def immerse(system: System, model: str = "tip3p", *, padding: float = 1.0, seed: int = 0, **nonbonded: Any) -> System:
    """Put a system without a box into a cube of rigid water, and keep its parameters.

    Its atoms come first. Waters that would touch it are left out. Pairs of solute and water follow the rule of the
    solute: that of Lorentz and Berthelot, or geometric means, as in OPLS.

    Parameters
    ----------
    system : System
        Molecules without virtual sites, such as a ligand from AMBER's files.
    model : {"tip3p", "tip3pfb", "spce", "opc3"}
        Water of the force field ``"amber14/" + model``.
    padding : float, nm
        Least distance of the solute to the faces of the box.
    seed : int
        Seed of the random orientations.
    **nonbonded
        Options of the `Nonbonded` of all atoms, such as ``cutoff=1.0``, except `mixing`. By default PME.

    Returns
    -------
    System

    Raises
    ------
    TypeError
        If an option is not known.
    ValueError
        If the solute has no positions, has virtual sites, a table of Lennard-Jones pairs, or a potential without terms
        between given atoms.

    Examples
    --------
    >>> from triskele import sponge
    >>> from triskele.sponge.build import immerse
    >>> peptide = sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds")
    >>> full = immerse(peptide, padding=0.8)
    >>> bool(full.n > 1000), full.nonbonded.method
    (True, 'pme')
    """
    where = "immerse"
    check.kind(system, System, f"{where}: system", hint="make it with load or create_system")
    check.positive(padding, f"{where}: padding", "nm")
    check.integer(seed, f"{where}: seed", 0)
    for name in nonbonded:
        check.choice(name, ("model", "padding", "seed", *OPTIONS), f"{where}: an option", error=TypeError)
    check.choice(model, _MODELS, f"{where}: model")
    if system.positions is None:
        raise ValueError(f"{where}: the solute must have positions")
    if system.virtual_sites:
        raise ValueError(f"{where}: the solute must not have virtual sites, got {len(system.virtual_sites)}")
    own = [p for p in system.potentials if isinstance(p, Nonbonded)]
    if len(own) != 1 or own[0].mixing not in RULES:
        raise ValueError(
            f"{where}: the solute must have one Nonbonded with a rule of {', '.join(RULES)}, got "
            f"{', '.join(p.mixing for p in own) or 'none'}"
        )
    for p in system.potentials:
        if p is not own[0] and not hasattr(p, "subset"):
            raise ValueError(f"{where}: {type(p).__name__} {p.name!r} has no terms between given atoms")
    low, high = system.positions.min(axis=0), system.positions.max(axis=0)
    edge = float((high - low).max()) + 2 * padding
    solute = system.positions - 0.5 * (low + high) + 0.5 * edge
    around = water_box(model, size=edge, seed=seed)
    molecules = around.positions.reshape(-1, 3, 3)  # oxygen first, as in the force fields
    oxygen = molecules[:, int(np.argmax(around.topology.elements[:3] == 8))]
    gaps = np.stack([np.linalg.norm(displacement(oxygen - atom, around.box), axis=1) for atom in solute])
    kept = molecules[gaps.min(axis=0) > _ROOM].reshape(-1, 3)
    water = create_system(
        _first(around, len(kept)), forcefield=[f"amber14/{model}"], method="pme", cutoff=min(0.9, 0.49 * edge)
    )
    n, options = system.n, {"method": "pme", **nonbonded}
    result = System(
        joined([system.topology, water.topology]),
        np.concatenate([system.masses, water.masses]),
        box=around.box,
        positions=np.concatenate([solute, kept]),
        constraints=Constraints(
            np.concatenate([system.constraints.pairs, n + water.constraints.pairs]),
            np.concatenate([system.constraints.distances, water.constraints.distances]),
        ),
        exclusions=np.concatenate([system.exclusions, n + water.exclusions]),
    )
    both = [{name: np.concatenate([own[0].params[name], water.nonbonded.params[name]]) for name in own[0].params}]
    # of water, only oxygens have Lennard-Jones parameters, so that either rule leaves it as it is
    result.add(Nonbonded(**both[0], mixing=own[0].mixing, **options))
    for p in system.potentials:
        if p is not own[0]:
            result.add(copy.deepcopy(p))
    result.check()
    return result


def _first(structure, atoms):
    """The first atoms of a structure of waters."""
    t, residues = structure.topology, atoms // 3
    topology = Topology(
        t.names[:atoms],
        t.elements[:atoms],
        t.residue_index[:atoms],
        t.residue_names[:residues],
        t.residue_ids[:residues],
        t.chain_index[:residues],
        t.chain_ids,
        t.bonds[(t.bonds < atoms).all(axis=1)],
    )
    return Structure(topology, structure.positions[:atoms], structure.box)
