"""`create_system`: a topology and a force field become a system."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from triskele.core.extend import check

from ..constraints.choose import Constraints, constrain, water_atoms
from ..errors import MissingParameterError
from ..load.structure import Structure
from ..load.whole import make_whole
from ..potentials.gb.gb import add_solvent, pair_options
from ..system import System
from ..topology import Topology, graph_distances
from ..units import COULOMB
from ..virtual_sites import sites as virtual_sites
from .assign import Assignment, assign_templates
from .atom_sections import add_atom_sections
from .bonded import find_impropers, find_terms
from .custom import add_custom, add_urey_bradley
from .drude import Oscillators
from .ffxml import ForceField
from .named_terms import find_named_impropers
from .nonbonded import atom_parameters, build_nonbonded, columns
from .scaled_pairs import pair_divisors
from .sources import shipped
from .topology_terms import (
    bonded_angles,
    bonded_impropers,
    bonded_propers,
    five_chains,
    neighbor_lists,
)

__all__ = ["as_forcefield", "create_system"]

_COULOMB_OF_SCRIPTS = 138.935485  # kJ/mol nm/e^2, openmm.app.internal.customgbforces
_GB_OPTIONS = ("solvent_dielectric", "solute_dielectric", "kappa", "surface_tension")


def create_system(
    topology: Topology | Structure,
    positions: Any = None,
    box: Any = None,
    forcefield: Any = (),
    *,
    method: str | None = None,
    constraints: str | None = None,
    rigid_water: bool = True,
    hydrogen_mass: float | None = None,
    drude_mass: float = 0.4,
    implicit_solvent: str | None = None,
    **options: Any,
) -> System:
    """A system with the parameters of a force field.

    Each residue is matched with a template by its elements and bonds, so that disulfides, ends of chains and
    protonation states are found by themselves; names only decide between templates that fit alike.

    Parameters
    ----------
    topology : Topology or Structure
        Must have hydrogens, and the bonds of all residues. A structure brings its positions and box, and the force
        field may follow it: ``create_system(structure, "amber14/tip3p")``.
    positions : (n, 3) float, nm, optional
        Molecules broken at the faces of the box are made whole, and virtual sites are placed again.
    box : as for `System`, optional
    forcefield : ForceField, str, path, Ligand, or sequence of names, paths and ligands
        See `ForceField`; ``["amber14/protein.ff14SB", "amber14/tip3p"]``.
    method : str, optional
        Method of `Nonbonded`. Defaults to "pme" in a box and "none" without one.
    constraints : {None, "h-bonds", "all-bonds", "h-angles"}
        Bonds with hydrogen; all bonds; these and the angles H-X-H and H-O-X.
    rigid_water : bool
        Keep waters rigid, whatever `constraints` says.
    hydrogen_mass : float, optional
        Mass of hydrogens in dalton, taken from the atoms they are bound to; water keeps its own.
    drude_mass : float
        Mass of Drude particles in dalton, taken from their atoms.
    implicit_solvent : {"hct", "obc1", "obc2", "gbn", "gbn2"}, optional
        Generalized Born model, with the standard radii of the model. It has no box: the structure's is left out. With
        ``method="reaction_field"`` it has the cut-off of `Nonbonded`, whose `dielectric` is then 1. Defaults to that of
        the force field: a GBSAOBCForce, or a file such as OpenMM's ``implicit/obc2.xml``.
    **options
        Options of `Nonbonded` (cutoff, switch, tolerance, ...) and, with an implicit solvent, of `GB`
        (solvent_dielectric, kappa, ...).

    Returns
    -------
    System

    Warns
    -----
    UserWarning
        If the box is the cell of a crystal that needs further copies of the molecules to fill it, and `method` is left
        out.

    Raises
    ------
    MissingTemplateError
        A residue fits no template: the message names it, the nearest template, and what differs.
    MissingParameterError
        A bond, angle or torsion has no parameters: the message names atoms and types. A kind of term that the force
        field has no section for at all is left out.

    Examples
    --------
    >>> from triskele.sponge import create_system
    >>> from triskele.sponge import build
    >>> water = build.water_box("tip3p", n=27)
    >>> system = create_system(water, "amber14/tip3p", cutoff=0.4)
    >>> len(system.constraints)
    81
    """
    crystal = None
    if isinstance(topology, Structure):
        structure = topology
        if positions is not None and isinstance(forcefield, tuple) and not forcefield:
            positions, forcefield = None, positions
        topology = structure.topology
        positions = structure.positions if positions is None else positions
        if box is None:
            box, crystal = structure.box, structure.space_group
    _check_options(options)
    field = as_forcefield(forcefield)
    topology = _each_bond_once(topology)
    implicit_solvent = _solvent(field, implicit_solvent)
    if implicit_solvent:
        box, method = None, method or "none"
        options = pair_options(method, options, "create_system")
    elif (crystal or "P1").replace(" ", "") != "P1" and box is not None and method is None:
        warnings.warn(
            f"create_system: the box must be filled, got the cell of a crystal of space group {crystal} with "
            "one of its copies of the molecules: the rest is empty (solvate the structure, set its box to "
            "None, or give a method to keep the cell)",
            stacklevel=2,
        )
    assignment = assign_templates(topology, field)
    gb = {name: options.pop(name) for name in _GB_OPTIONS if implicit_solvent and name in options}
    for name in _GB_OPTIONS:
        if name in options:
            raise TypeError(f"create_system: no option {name!r} (it needs an implicit solvent)")
    masses = np.array([t.mass for t in assignment.types])[assignment.atom_type]
    oscillators = Oscillators(field, assignment, topology)
    oscillators.take_mass(masses, drude_mass)
    sites, shared = _sites(assignment)
    shared = np.concatenate([shared, oscillators.pairs])
    bonds, angles, fixed = _bonds_and_angles(topology, masses, field, assignment, constraints, rigid_water)
    graph = _exclusion_graph(topology.bonds, shared)
    one, two, three = graph_distances(graph, topology.n)
    system = System(
        topology,
        masses,
        box,
        positions,
        constraints=fixed,
        virtual_sites=sites,
        exclusions=np.concatenate([one, two, three]),
    )
    if system.positions is not None:
        system.positions = virtual_sites.place_all(
            sites, make_whole(system.positions, np.concatenate([topology.bonds, oscillators.pairs]), system.box)
        )
    if hydrogen_mass is not None:
        system.repartition_hydrogen_mass(hydrogen_mass)
    _add_bonded(system, topology, field, assignment, bonds, angles)
    if len(oscillators.pairs):
        oscillators.add_to(system, np.concatenate([one, two]))
    chosen = method or ("none" if box is None else "pme")
    cutoff = options.get("cutoff")
    if field.nonbonded is not None or field.lennard_jones is not None:
        parameters = atom_parameters(field, assignment)
        divisors = pair_divisors(field.scaled_pairs, topology, assignment)
        nonbonded, pairs = build_nonbonded(field, assignment, parameters, three, divisors, method=chosen, **options)
        system.add(nonbonded)
        cutoff = nonbonded.cutoff
        if pairs is not None:
            system.add(pairs)
        if implicit_solvent:
            _add_gb(system, field, assignment, implicit_solvent, gb)
    elif implicit_solvent or (options or method) and not (field.sections_of_atoms and {*options} <= {"cutoff"}):
        asked = [*options, *(["method"] if method else []), *(["implicit_solvent"] if implicit_solvent else [])]
        raise MissingParameterError(
            f"create_system: the force field ({', '.join(field.names)}) must have a NonbondedForce for these options, "
            f"got none: {', '.join(asked)}"
        )
    if field.sections_of_atoms:
        if chosen != "none" and cutoff is None:
            raise MissingParameterError(
                "create_system: cutoff must be given for the force field's custom forces in a box, got none"
            )
        add_atom_sections(system, field, assignment, graph, None if chosen == "none" else cutoff)
    system.check()
    return system


def _check_options(options):
    from ..potentials.nonbonded.nonbonded import OPTIONS

    known = ("mixing", *list(signature(create_system).parameters)[:-1], *OPTIONS, *_GB_OPTIONS)
    for name in options:
        check.choice(name, known, "create_system: an option", error=TypeError)


def as_forcefield(given: Any) -> ForceField:
    """A ForceField as it is; names and paths as a new one.

    Examples
    --------
    >>> from triskele.sponge import forcefield
    >>> type(forcefield.as_forcefield(['amber14/protein.ff14SB'])).__name__
    'ForceField'
    """
    if isinstance(given, ForceField):
        return given
    if given is None:
        raise ValueError(
            f"forcefield: must be names, paths or a ForceField, got None; shipped are {', '.join(shipped())}"
        )
    return ForceField(
        *([given] if isinstance(given, (str, Path)) else list(given) if isinstance(given, Sequence) else [given])
    )


def _each_bond_once(topology: Topology) -> Topology:
    bonds = np.unique(np.sort(topology.bonds, axis=1), axis=0)
    if np.any(bonds[:, 0] == bonds[:, 1]):
        atom = int(bonds[np.argmax(bonds[:, 0] == bonds[:, 1]), 0])
        raise ValueError(f"create_system: bonds must join two atoms, got one of {topology.describe(atom)} with itself")
    return topology if len(bonds) == len(topology.bonds) else replace(topology, bonds=bonds)


def _sites(assignment: Assignment):
    """Virtual sites, one object for each kind of site of a template, and pairs (site, atom whose exclusions it
    shares).
    """
    sites: list = []
    shared = []
    merged: dict = {}
    for template, atoms in assignment.groups:
        for site in template.sites:
            merged.setdefault((site.kind, site.weights, len(site.parents)), []).append(
                (atoms[:, site.index], atoms[:, list(site.parents)])
            )
            shared.append(np.column_stack([atoms[:, site.index], atoms[:, site.shares]]))
    for (kind, weights, n), members in merged.items():
        index = np.concatenate([m[0] for m in members])
        parents = np.concatenate([m[1] for m in members])
        w = np.array(weights)
        if kind == "average2":
            sites.append(virtual_sites.TwoParticleAverage(index, parents, w))
        elif kind == "average3":
            sites.append(virtual_sites.ThreeParticleAverage(index, parents, w))
        elif kind == "outOfPlane":
            sites.append(virtual_sites.OutOfPlane(index, parents, *w))
        else:
            sites.append(
                virtual_sites.LocalCoordinates(index, parents, w[:n], w[n : 2 * n], w[2 * n : 3 * n], w[3 * n :])
            )
    return sites, np.concatenate(shared) if shared else np.empty((0, 2), np.int64)


def _exclusion_graph(bonds, shared):
    """Bonds for counting separations: a virtual site has those of its atom, and one to it."""
    if not len(shared):
        return bonds
    children: dict[int, list[int]] = {}
    for site, atom in shared.tolist():
        children.setdefault(atom, []).append(site)
    touched = np.isin(bonds, shared[:, 1]).any(axis=1)
    extra = [
        (s, t) for i, j in bonds[touched].tolist() for s in [i, *children.get(i, ())] for t in [j, *children.get(j, ())]
    ]
    return np.concatenate([bonds, np.array(extra, np.int64).reshape(-1, 2), shared])


def _bonds_and_angles(topology, masses, field, assignment, constraints, rigid_water):
    """(atoms, k, length) of bonds and (atoms, k, angle) of angles that have a potential, and the constraints."""
    bonds = topology.bonds.astype(np.int64)
    rigid = water_atoms(topology, masses) & rigid_water
    index = find_terms("bond", bonds, field.bonds, assignment, topology, "HarmonicBondForce" in field.sections)
    # constraints need lengths even where the force field has no such term
    find_terms(
        "bond",
        bonds[(index < 0) & (rigid[bonds].all(1) | (constraints is not None))],
        field.bonds,
        assignment,
        topology,
    )
    bonds, parameters = bonds[index >= 0], np.array(field.bonds.values or [(0.0, 0.0)])[index[index >= 0]]
    starts, near = neighbor_lists(topology.bonds, topology.n)
    angles = bonded_angles(starts, near)
    index = find_terms("angle", angles, field.angles, assignment, topology, "HarmonicAngleForce" in field.sections)
    find_terms("angle", angles[(index < 0) & rigid[angles].all(1)], field.angles, assignment, topology)
    angles, bend = angles[index >= 0], np.array(field.angles.values or [(0.0, 0.0)])[index[index >= 0]]
    fixed, b, a = constrain(topology, masses, bonds, parameters[:, 0], angles, bend[:, 0], constraints, rigid_water)
    b, a = b & (parameters[:, 1] != 0), a & (bend[:, 1] != 0)
    asked = _template_constraints(assignment)
    if asked:  # these take the place of bonds, and of constraints with other lengths
        b &= np.array([tuple(sorted(pair)) not in asked for pair in bonds.tolist()], bool)
        known = {tuple(p): d for p, d in zip(fixed.pairs.tolist(), fixed.distances.tolist())} | asked
        fixed = Constraints(np.array(list(known)), np.array(list(known.values())))
    return (bonds[b], parameters[b, 1], parameters[b, 0]), (angles[a], bend[a, 1], bend[a, 0]), fixed


def _template_constraints(assignment):
    """Distances that templates ask for, by pair of atoms."""
    asked: dict[tuple[int, int], float] = {}
    for template, atoms in assignment.groups:
        for i, j, distance in template.constraints:
            asked |= {(min(p), max(p)): distance for p in atoms[:, [i, j]].tolist()}
    return asked


def _add_bonded(system, topology, field, assignment, bonds, angles):
    from ..potentials.bonded.cmap import CMAP
    from ..potentials.bonded.harmonic_angle import harmonic_angle
    from ..potentials.bonded.harmonic_bond import harmonic_bond
    from ..potentials.bonded.harmonic_improper import harmonic_improper
    from ..potentials.bonded.periodic_torsion import periodic_torsion
    from ..potentials.bonded.ryckaert_bellemans import ryckaert_bellemans

    if len(bonds[0]):
        system.add(harmonic_bond(bonds[0], k=bonds[1], r0=bonds[2]))
    if len(angles[0]):
        system.add(harmonic_angle(angles[0], k=angles[1], theta0=angles[2]))
    starts, near = neighbor_lists(topology.bonds, topology.n)
    propers, candidates = bonded_propers(topology.bonds, starts, near), bonded_impropers(starts, near)
    by_rb = find_terms("proper", propers, field.rb_propers, assignment, topology, needed=False)
    index = find_terms("proper", propers, field.propers, assignment, topology, needed=False)
    if len(field.propers) + len(field.rb_propers):  # each torsion must have terms of one kind at least
        find_terms("proper", propers[(index < 0) & (by_rb < 0)], field.propers, assignment, topology)
    atoms: list[np.ndarray] = []
    terms: list = []
    _collect(atoms, terms, propers[index >= 0], [field.propers.values[k] for k in index[index >= 0]])
    rows, index = find_impropers(candidates, field.impropers, assignment, topology)
    for row, order in _trefoils(rows, [field.impropers.values[k][0] for k in index]):
        _collect(atoms, terms, row, [field.impropers.values[k][1] for k in index[order]])
    periodic, harmonic = find_named_impropers(field.named_impropers, topology, assignment)
    _collect(atoms, terms, np.array([row for row, _ in periodic]), [[term] for _, term in periodic])
    if harmonic:
        k, angle = np.array([values for _, values in harmonic]).T
        system.add(harmonic_improper([row for row, _ in harmonic], k=2 * k, phi0=angle))
    if atoms:
        periodicity, phase, k = np.array(terms).T
        system.add(periodic_torsion(np.array(atoms), k=k, periodicity=periodicity, phase=phase))
    every = {"bond": topology.bonds.astype(np.int64), "angle": bonded_angles(starts, near), "torsion": propers}
    for terms_of in field.custom:
        add_custom(system, terms_of, every[terms_of.kind], candidates, assignment, topology)
    if len(field.urey_bradleys):
        add_urey_bradley(
            system, field.urey_bradleys, _bending(every["angle"], system.constraints), assignment, topology
        )
    rows, improper = find_impropers(candidates, field.rb_impropers, assignment, topology)
    values = [field.rb_propers.values[k] for k in by_rb[by_rb >= 0]] + [
        field.rb_impropers.values[k][1] for k in improper
    ]
    if values:
        coefficients = {f"c{n}": c for n, c in enumerate(np.array(values).T)}
        system.add(ryckaert_bellemans(np.concatenate([propers[by_rb >= 0], rows]), **coefficients))
    if len(field.cmaps):
        chains, maps, kinds = _cmap_terms(field, assignment, topology, propers, starts, near)
        if len(chains):
            system.add(CMAP(maps, chains[:, :4], chains[:, 1:], kinds))


def _bending(angles, constraints):
    """The angles that constraints leave free: those without a constraint between the outer atoms."""
    key = lambda pairs: np.min(pairs, axis=1) * 2**32 + np.max(pairs, axis=1)
    return angles[~np.isin(key(angles[:, [0, 2]].astype(np.int64)), key(constraints.pairs.astype(np.int64)))]


def _collect(atoms, terms, rows, series):
    for row, several in zip(rows.tolist(), series):
        for term in several:
            if term[2] != 0:
                atoms.append(row)
                terms.append(term)


def _trefoils(rows, orderings):
    """Impropers as they are, and those of ordering "smirnoff" as three with the bound atoms turned round."""
    around = np.array([o == "smirnoff" for o in orderings], bool)
    yield rows[~around], np.flatnonzero(~around)
    for turn in ([0, 1, 2, 3], [0, 2, 3, 1], [0, 3, 1, 2]):
        yield rows[around][:, turn], np.flatnonzero(around)


def _cmap_terms(field, assignment, topology, propers, starts, near):
    """Chains [m, 5] with a map, the maps in use [t, size, size] (first angle along the rows), and the map of each
    chain.
    """
    fits = np.zeros(len(assignment.types), bool)
    for pattern in field.cmaps.patterns:
        for key in pattern[1:4]:
            fits |= np.array([key in t.keys for t in assignment.types])
    middle = fits[assignment.atom_type[propers[:, 1:3]]].all(axis=1)
    chains = five_chains(propers[middle], starts, near)
    index = find_terms("CMAP torsion", chains, field.cmaps, assignment, topology, needed=False)
    chains, kinds = chains[index >= 0], np.array(field.cmaps.values)[index[index >= 0]]
    used, kinds = np.unique(kinds, return_inverse=True)
    backwards = [
        not field.cmaps.fits(k, [assignment.types[t] for t in assignment.atom_type[c]])
        for c, k in zip(chains, index[index >= 0].tolist())
    ]
    chains[backwards] = chains[backwards][:, ::-1]
    sizes = {field.maps[k].shape for k in used}
    if len(sizes) > 1:
        raise MissingParameterError(f"create_system: CMAP tables must be of one size, got {sizes}")
    # a file's values run over the first angle fastest
    return chains, np.array([field.maps[k].T for k in used]), kinds


def _solvent(field, asked):
    """The implicit solvent that is asked for, or that of the force field."""
    own = field.implicit_solvent or ("obc2" if field.born is not None else None)
    if own and asked not in (None, own) or field.born is not None and (asked or field.implicit_solvent):
        raise ValueError(
            f"create_system: there must be one implicit solvent, got the force field's {own!r} and "
            f"implicit_solvent={asked!r} (leave out one of them)"
        )
    return asked or own


def _add_gb(system, field, assignment, model, options):
    from ..potentials.gb.tables import MODELS, standard_parameters

    check.choice(model, MODELS, "create_system: implicit_solvent")
    if field.born is not None:  # whose dielectric constant is by default another one than that of the models
        own = columns(field.born, ("charge", "radius", "scale"), field, assignment)
        given = {"charges": own["charge"], "radii": own["radius"], "scales": own["scale"]}
        options = {"solvent_dielectric": 78.3} | options
    else:
        given = standard_parameters(system.topology, model)
        if field.implicit_solvent:  # whose script has another Coulomb constant: dielectric constants make up for it
            options = {
                name: options.get(name, default) * COULOMB / _COULOMB_OF_SCRIPTS
                for name, default in (("solvent_dielectric", 78.5), ("solute_dielectric", 1.0))
            } | {name: value for name, value in options.items() if "dielectric" not in name}
    add_solvent(system, model=model, **given, **options)
