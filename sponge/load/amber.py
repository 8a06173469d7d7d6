"""AMBER topologies: a prmtop with its inpcrd or restart becomes a `System`.

Units of the file (manual of AMBER, "prmtop file format"): angstrom, kcal/mol, charges in e times 18.2223, indices of
atoms times three, force constants without the factor 1/2.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from triskele.core.extend import check

from .. import units
from ..box import from_lengths_angles
from ..constraints.choose import constrain, water_atoms
from ..errors import FileFormatError
from ..potentials.gb.gb import add_solvent, pair_options
from ..potentials.pairs.ion_dipole import ion_dipole
from ..potentials.pairs.mixing import LJTable, sigma_epsilon
from ..system import System
from ..topology import Topology
from ..virtual_sites.sites import OutOfPlane, ThreeParticleAverage, VirtualSite
from .amber_files import Prmtop
from .terms import Terms, check_masses, guess_elements

__all__ = ["load_amber"]

CHARGE = 18.2223  # the file's unit of charge, in 1/e; its square is AMBER's Coulomb constant in kcal/mol A
OUT_OF_PLANE = np.radians(54.735)  # half the angle between the lone pairs of five-site water, AMBER's constant
KCAL = units.kcal_per_mol
A12, B6, C4 = KCAL * 1e-12, KCAL * 1e-6, KCAL * 1e-4  # kcal/mol A^12, A^6 and A^4 in our units

# Sections of unsupported terms, and sections that do not affect the energy (CHAMBER's titles and
# lists of types among them). Whatever is in neither of these nor read is refused: leaving a term out gives a wrong
# number silently.
_UNKNOWN = {
    "LENNARD_JONES_DCOEF": "12-6-4 Lennard-Jones with a fifth power",
    "POLARIZABILITY": "polarizable atoms",
    "DIPOLE_DAMP_FACTOR": "polarizable atoms",
    "AMOEBA_FORCEFIELD": "AMOEBA",
    "LES_NTYP": "locally enhanced sampling",
    "LES_TYPE": "locally enhanced sampling",
    "PERT_BOND_ATOMS": "perturbed atoms",
}
_IGNORED = set(
    "TITLE CTITLE POINTERS SOLTY AMBER_ATOM_TYPE TREE_CHAIN_CLASSIFICATION JOIN_ARRAY IROTAT SOLVENT_POINTERS "
    "ATOMS_PER_MOLECULE HBCUT RADIUS_SET FORCE_FIELD_TYPE RESIDUE_ICODE RESIDUE_NUMBER RESIDUE_CHAINID ATOM_NUMBER "
    "ATOM_ELEMENT ATOM_OCCUPANCY ATOM_BFACTOR CAP_INFO CAP_INFO2 CHARMM_NUM_IMPROPERS CHARMM_NUM_IMPR_TYPES "
    "CHARMM_UREY_BRADLEY_COUNT IPOL".split()
)
_READ = re.compile(
    "ATOM_NAME|CHARGE|ATOMIC_NUMBER|MASS|ATOM_TYPE_INDEX|NUMBER_EXCLUDED_ATOMS|NONBONDED_PARM_INDEX|RESIDUE_(LABEL|POINTER)|"
    "BOND_(FORCE_CONSTANT|EQUIL_VALUE)|ANGLE_(FORCE_CONSTANT|EQUIL_VALUE)|DIHEDRAL_(FORCE_CONSTANT|PERIODICITY|PHASE)|"
    "SC(EE|NB)_SCALE_FACTOR|LENNARD_JONES_((14_)?[AB]|C)COEF|(BONDS|ANGLES|DIHEDRALS)_(INC|WITHOUT)_HYDROGEN|EXCLUDED_ATOMS_LIST|"
    "HBOND_[AB]COEF|BOX_DIMENSIONS|RADII|SCREEN|CHARMM_UREY_BRADLEY(_FORCE_CONSTANT|_EQUIL_VALUE)?|"
    r"CHARMM_IMPROPER(S|_FORCE_CONSTANT|_PHASE)|(CHARMM_)?CMAP_(COUNT|RESOLUTION|INDEX|PARAMETER_\d+)"
)

GB_OPTIONS = ("salt", "temperature", "kappa", "solvent_dielectric", "solute_dielectric", "surface_tension")


def _check_supported(top: Prmtop) -> None:
    for section in top:
        if section in _UNKNOWN:
            raise FileFormatError(f"{top.path}: section {section} ({_UNKNOWN[section]}) is not supported")
        if section not in _IGNORED and not _READ.fullmatch(section):
            raise FileFormatError(
                f"{top.path}: section {section} is not known (take it out if it has no influence on the energy)"
            )
    if "IPOL" in top and np.any(top.get("IPOL")):
        raise FileFormatError(
            f"{top.path}: section IPOL must be 0, got {top.get('IPOL')[0]}: polarizable atoms are not supported"
        )
    refused = {"IFPERT": "perturbed atoms", "IFCAP": "a water cap", "NPARM": "locally enhanced sampling"}
    for pointer, what in (refused | {"NCOPY": "copies of a ring polymer or of parts"}).items():
        if top.pointers[pointer] > (pointer == "NCOPY"):
            raise FileFormatError(f"{top.path}: {what} ({pointer} = {top.pointers[pointer]}) is not supported")
    for section in ("HBOND_ACOEF", "HBOND_BCOEF"):
        if top.pointers["NPHB"] and np.any(top.get(section)):
            raise FileFormatError(f"{top.path}: section {section} must be zero, 10-12 hydrogen bonds are not supported")


def _topology(top: Prmtop, bonds: np.ndarray) -> Topology:
    names, masses = top.get("ATOM_NAME"), top.get("MASS")
    n, residues = len(names), top.pointers["NRES"]
    check_masses(str(top.path), masses, names)
    elements = guess_elements(masses, names)
    if "ATOMIC_NUMBER" in top:  # -1 or 0: LEaP did not know the element
        elements = np.where(top.get("ATOMIC_NUMBER") > 0, top.get("ATOMIC_NUMBER"), elements)
    elements = np.where(masses > 0, elements, 0)
    start = top.get("RESIDUE_POINTER") - 1
    if start[0] != 0 or np.any(np.diff(start) <= 0) or start[-1] >= n:
        raise FileFormatError(f"{top.path}: section RESIDUE_POINTER must rise from 1 to at most {n}, got {start + 1}")
    residue = np.repeat(np.arange(residues), np.diff(np.r_[start, n]))
    ids = (
        top.get("RESIDUE_NUMBER", residues).astype(str)
        if "RESIDUE_NUMBER" in top
        else np.arange(1, residues + 1).astype(str)
    )
    chains, chain = ["A"], np.zeros(residues, int)
    if "RESIDUE_CHAINID" in top:
        labels = top.get("RESIDUE_CHAINID", residues)
        chain = np.cumsum(np.r_[False, labels[1:] != labels[:-1]])
        chains = labels[np.r_[True, labels[1:] != labels[:-1]]]
    topology = Topology(names, elements, residue, top.get("RESIDUE_LABEL"), ids, chain, chains, bonds)
    # AMBER lists a bond between the hydrogens of water, which is there to hold the angle
    no_bond = (elements[bonds] == 1).all(1) & water_atoms(topology, masses)[bonds].all(1)
    return replace(topology, bonds=bonds[~no_bond])


def _indices(top: Prmtop, kind: str, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Atoms as the file has them [m, k] (times three, with signs) and types [m] of BONDS, ANGLES or DIHEDRALS."""
    rows = np.concatenate([top.get(f"{kind}_INC_HYDROGEN"), top.get(f"{kind}_WITHOUT_HYDROGEN")]).reshape(-1, k + 1)
    atoms, types = rows[:, :k], rows[:, k] - 1
    known = top.pointers[{"BONDS": "NUMBND", "ANGLES": "NUMANG", "DIHEDRALS": "NPTRA"}[kind]]
    # the signs of torsions' third and fourth atom are marks
    _check_range(top, kind, (np.abs(atoms) if kind == "DIHEDRALS" else atoms) // 3, types, known)
    return atoms, types


def _check_range(top: Prmtop, kind: str, atoms: np.ndarray, types: np.ndarray, known: int) -> None:
    n = top.pointers["NATOM"]
    if atoms.size and (atoms.min() < 0 or atoms.max() >= n):
        raise FileFormatError(
            f"{top.path}: {kind} must name atoms 1 to {n}, got {atoms.min() + 1} to {atoms.max() + 1}"
        )
    if types.size and (types.min() < 0 or types.max() >= known):
        raise FileFormatError(
            f"{top.path}: {kind} must name types 1 to {known}, got {types.min() + 1} to {types.max() + 1}"
        )


def _charmm(top: Prmtop, name: str, k: int, value: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Atoms [m, k], force constants (kcal/mol) and equilibrium values of terms that CHAMBER adds; indices begin at
    1.
    """
    section = f"CHARMM_{name}S" if name == "IMPROPER" else f"CHARMM_{name}"
    if section not in top:
        return np.empty((0, k), int), np.empty(0), np.empty(0)
    rows = top.rows(section, k + 1)
    constants = top.get(f"CHARMM_{name}_FORCE_CONSTANT")
    values = top.get(f"CHARMM_{name}_{value}", len(constants))
    atoms, types = np.abs(rows[:, :k]) - 1, rows[:, k] - 1
    _check_range(top, section, atoms, types, len(constants))
    return atoms, constants[types], values[types]


def _cmap(top: Prmtop) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[np.ndarray]]:
    """Atoms of the two torsions [m, 4] and map [m] of each cross term, and the maps in kJ/mol."""
    prefix = "CHARMM_CMAP" if "CHARMM_CMAP_COUNT" in top else "CMAP"
    if f"{prefix}_COUNT" not in top:
        return np.empty((0, 4), int), np.empty((0, 4), int), np.empty(0, int), []
    terms, count = (int(x) for x in top.get(f"{prefix}_COUNT")[:2])
    maps = []
    for k, size in enumerate(top.get(f"{prefix}_RESOLUTION", count)):
        grid = KCAL * top.get(f"{prefix}_PARAMETER_{k + 1:02d}", int(size) ** 2).reshape(size, size)
        maps.append(np.roll(grid, (-(size // 2), -(size // 2)), (0, 1)))  # the file begins at -180 degrees
    rows = top.rows(f"{prefix}_INDEX", 6, terms)
    atoms, types = rows[:, :5] - 1, rows[:, 5] - 1
    _check_range(top, f"{prefix}_INDEX", atoms, types, count)
    return atoms[:, :4], atoms[:, 1:], types, maps


def _exclusions(top: Prmtop) -> np.ndarray:
    count = top.get("NUMBER_EXCLUDED_ATOMS")
    partner = top.get("EXCLUDED_ATOMS_LIST") - 1  # -1 stands for "none"
    if count.sum() != len(partner) or np.any(count < 0):
        raise FileFormatError(
            f"{top.path}: section EXCLUDED_ATOMS_LIST must hold {count.sum()} entries, got {len(partner)}"
        )
    pairs = np.stack([np.repeat(np.arange(len(count)), count), partner], axis=1)[partner >= 0]
    _check_range(top, "EXCLUDED_ATOMS_LIST", pairs, np.empty(0), 0)
    return pairs


def _coefficients(top: Prmtop, **units: float) -> list[np.ndarray]:
    """Coefficients by pair of types [t, t], of sections LENNARD_JONES_...COEF, each in the unit given."""
    t = top.pointers["NTYPES"]
    index = top.get("NONBONDED_PARM_INDEX").reshape(t, t)
    columns = [top.get(f"LENNARD_JONES_{kind}COEF") * unit for kind, unit in units.items()]
    count = min(map(len, columns))
    if index.max() > count:
        raise FileFormatError(
            f"{top.path}: section NONBONDED_PARM_INDEX must name coefficients 1 to {count}, got {index.max()}"
        )
    if np.any(index != index.T):
        raise FileFormatError(f"{top.path}: section NONBONDED_PARM_INDEX must be symmetric in the types")
    used = index > 0  # a negative index is a 10-12 pair; these are all zero
    return [np.where(used, column[np.maximum(index, 1) - 1], 0.0) for column in columns]


def _lennard_jones(top: Prmtop, terms: Terms, charges: np.ndarray, options: dict[str, Any]) -> None:
    """Sigmas and epsilons of atoms when those of pairs follow from them, else a table."""
    types = top.get("ATOM_TYPE_INDEX") - 1
    if types.min() < 0 or types.max() >= top.pointers["NTYPES"]:
        raise FileFormatError(
            f"{top.path}: section ATOM_TYPE_INDEX must lie in 1 to {top.pointers['NTYPES']}, "
            f"got {types.min() + 1} to {types.max() + 1}"
        )
    a, b = _coefficients(top, A=A12, B=B6)
    sigma, epsilon = sigma_epsilon(np.diag(a), np.diag(b))
    mixed_sigma = (sigma[:, None] + sigma) / 2
    depth = 4 * np.sqrt(epsilon[:, None] * epsilon)
    # nine digits are printed: the file's rounding, raised to the twelfth power, stays below this
    if np.allclose(a, depth * mixed_sigma**12, rtol=1e-6, atol=0) and np.allclose(
        b, depth * mixed_sigma**6, rtol=1e-6, atol=0
    ):
        terms.nonbonded(charges, sigma[types], epsilon[types], options)
    else:
        terms.nonbonded(charges, None, None, options)
        terms.lennard_jones_table(LJTable(types, a, b), {})


def _pair14(top: Prmtop, terms: Terms, quads: np.ndarray, types: np.ndarray) -> None:
    """Interactions of the ends of proper torsions that are marked for it."""
    chamber = "CTITLE" in top
    marked = (quads[:, 2] > 0) & (quads[:, 3] > 0)
    pairs, types = quads[marked][:, [0, 3]] // 3, types[marked]
    # factors of files that have none: those of the AMBER force fields up to 2011, and of CHARMM
    scee = (
        top.get("SCEE_SCALE_FACTOR")[types]
        if "SCEE_SCALE_FACTOR" in top
        else np.full(len(types), 1.0 if chamber else 1.2)
    )
    scnb = (
        top.get("SCNB_SCALE_FACTOR")[types]
        if "SCNB_SCALE_FACTOR" in top
        else np.full(len(types), 1.0 if chamber else 2.0)
    )
    if np.any(scee == 0) or np.any(scnb == 0):
        raise FileFormatError(
            f"{top.path}: SCEE_SCALE_FACTOR and SCNB_SCALE_FACTOR of torsions with 1-4 pairs must not be 0"
        )
    charges = top.get("CHARGE") / CHARGE
    i, j = (top.get("ATOM_TYPE_INDEX") - 1)[pairs.T]
    kind = "14_" if chamber else ""
    a, b = (table[i, j] for table in _coefficients(top, **{f"{kind}A": A12, f"{kind}B": B6}))
    sigma, epsilon = sigma_epsilon(a, b)
    terms.pairs(pairs, charges[pairs].prod(1) / scee, sigma, epsilon / scnb)
    alone = (a != 0) != (b != 0)  # no sigma and epsilon give the repulsion or the attraction alone
    if alone.any():
        from ..potentials.bonded.gromacs import lennard_jones_pair

        c6, c12 = (b / scnb)[alone], (a / scnb)[alone]
        terms.potential(lambda: lennard_jones_pair(pairs[alone], c6=c6, c12=c12))


def _box(top: Prmtop) -> np.ndarray:
    beta, *lengths = top.get("BOX_DIMENSIONS", 4)
    return from_lengths_angles(0.1 * np.array(lengths), np.radians([beta] * 3))


def _virtual_sites(top: Prmtop, topology: Topology, bonds: np.ndarray, lengths: np.ndarray) -> list[VirtualSite]:
    """The extra points of four- and five-site water, placed by the lengths of the file's bonds."""
    n, elements, residue = topology.n, topology.elements, topology.residue_index
    site = top.get("MASS") == 0
    points = np.flatnonzero(site)
    water = water_atoms(topology, top.get("MASS"))
    if not np.all(water[points]):
        bad = points[~water[points]][0]
        raise FileFormatError(f"{top.path}: extra points must belong to water, got {topology.describe(bad)}")
    keys = np.sort(bonds, axis=1) @ [n, 1]
    order = np.argsort(keys)

    def length(i, j):
        wanted = np.minimum(i, j) * n + np.maximum(i, j)
        at = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)] if len(keys) else 0
        if not len(keys) or np.any(keys[at] != wanted):
            bad = residue[i[np.argmax(keys[at] != wanted) if len(keys) else 0]]
            raise FileFormatError(
                f"{top.path}: water with extra points must have bonds O-H, H-H and O-EP, not so in residue "
                f"{topology.residue_names[bad]} {topology.residue_ids[bad]}"
            )
        return lengths[at]

    found: list[VirtualSite] = []
    owners, count = np.unique(residue[points], return_counts=True)
    for k in np.unique(count):
        own = np.isin(residue, owners[count == k]) & water
        o, h = np.flatnonzero(own & (elements == 8)), np.flatnonzero(own & (elements == 1)).reshape(-1, 2)
        sites = np.flatnonzero(own & site).reshape(-1, k)
        oe, hh = length(o, sites[:, 0]), length(h[:, 0], h[:, 1])
        height = np.sqrt(length(o, h[:, 0]) ** 2 - (hh / 2) ** 2)  # from the oxygen to the line between the hydrogens
        parents = np.stack([o, h[:, 0], h[:, 1]], axis=1)
        if k == 1:
            w = oe / height
            found.append(ThreeParticleAverage(sites[:, 0], parents, np.stack([1 - w, w / 2, w / 2], axis=1)))
        elif k == 2:
            w = np.cos(OUT_OF_PLANE) * oe / height
            cross = np.sin(OUT_OF_PLANE) * oe / (height * hh)  # |r12 x r13| is twice the triangle's area
            for side in (0, 1):
                found.append(OutOfPlane(sites[:, side], parents, w / 2, w / 2, cross * (1 - 2 * side)))
        else:
            raise FileFormatError(
                f"{top.path}: water must have one or two extra points, got {k} in residue "
                f"{topology.residue_ids[owners[count == k][0]]}"
            )
    return found


def load_amber(
    prmtop: str | Path,
    positions: Any = None,
    velocities: Any = None,
    box: Any = None,
    *,
    method: str | None = None,
    constraints: str | None = None,
    rigid_water: bool = True,
    hydrogen_mass: float | None = None,
    implicit_solvent: str | None = None,
    **options: Any,
) -> System:
    """Read an AMBER system; `load` reads its coordinates along with it.

    Parameters
    ----------
    prmtop : str or Path
        Topology and parameters (.prmtop, .parm7), gzipped or not; CHAMBER's files of CHARMM force fields too.
    positions, velocities : (n, 3) array, nm and nm/ps, optional
        Coordinates and velocities, such as those from `amber_files.read_restart`.
    box : (3, 3) array, optional
        Replaces the file's box, if the topology is periodic.
    method : str, optional
        Method of `Nonbonded`. Defaults to "pme" in a box and "none" without one.
    constraints : {None, "h-bonds", "all-bonds", "h-angles"}
        Bonds with hydrogen; all bonds; these and the angles H-X-H and H-O-X.
    rigid_water : bool
        Keep waters rigid, whatever `constraints` says.
    hydrogen_mass : float, optional
        Mass of hydrogens in dalton, taken from the atoms they are bound to; water keeps its own.
    implicit_solvent : {"hct", "obc1", "obc2", "gbn", "gbn2"}, optional
        Generalized Born model, with the radii of the file. It has no box: the files' is left out, as by OpenMM. With
        ``method="reaction_field"`` it has the cut-off of `Nonbonded`, whose `dielectric` is then 1.
    **options
        Options of `Nonbonded` (cutoff, switch, tolerance, ...) and, with an implicit solvent, of `GB` (salt, ...).

    Returns
    -------
    System

    Raises
    ------
    FileFormatError
        If a file is truncated, of another kind, or holds terms that are not supported.

    Examples
    --------
    >>> from triskele import sponge
    >>> system = sponge.load("dhfr.prmtop", "dhfr.inpcrd", constraints="h-bonds")  # doctest: +SKIP
    """
    top = Prmtop(prmtop)
    _check_supported(top)
    n = top.pointers["NATOM"]
    terms = Terms(str(prmtop), n)
    terms.check_count(positions)
    if not top.pointers["IFBOX"] or implicit_solvent is not None:
        box = None
    elif box is None:
        box = _box(top)
    gb = {name: options.pop(name) for name in GB_OPTIONS if name in options}
    if implicit_solvent is None and gb:
        raise TypeError(f"load: {', '.join(gb)} belong to an implicit solvent, got none (pass implicit_solvent='obc2')")

    bonds, types = _indices(top, "BONDS", 2)
    bonds, r0 = bonds // 3, 0.1 * top.get("BOND_EQUIL_VALUE")[types]
    k_bond = 2 * KCAL * 100 * top.get("BOND_FORCE_CONSTANT")[types]
    angles, types = _indices(top, "ANGLES", 3)
    angles, theta0 = angles // 3, top.get("ANGLE_EQUIL_VALUE")[types]
    k_angle = 2 * KCAL * top.get("ANGLE_FORCE_CONSTANT")[types]
    topology = _topology(top, bonds)
    masses = top.get("MASS")
    fixed, free_bonds, free_angles = constrain(topology, masses, bonds, r0, angles, theta0, constraints, rigid_water)
    free_bonds &= (masses[bonds] > 0).all(1)  # a bond to an extra point says where the point is
    terms.bonds(bonds[free_bonds], k_bond[free_bonds], r0[free_bonds])
    terms.angles(angles[free_angles], k_angle[free_angles], theta0[free_angles])
    atoms, k, value = _charmm(top, "UREY_BRADLEY", 2, "EQUIL_VALUE")
    terms.urey_bradley(atoms, 2 * KCAL * 100 * k, 0.1 * value)
    quads, types = _indices(top, "DIHEDRALS", 4)
    periodicity = top.get("DIHEDRAL_PERIODICITY")
    wrong = (np.abs(periodicity - np.rint(periodicity)) > 1e-6) | (periodicity < 0)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise FileFormatError(
            f"{prmtop}: section DIHEDRAL_PERIODICITY must hold integers >= 0, got {periodicity[k]} as entry {k + 1}"
        )
    terms.torsions(
        np.abs(quads) // 3,
        KCAL * top.get("DIHEDRAL_FORCE_CONSTANT")[types],
        np.rint(periodicity)[types],
        top.get("DIHEDRAL_PHASE")[types],
    )
    atoms, k, value = _charmm(top, "IMPROPER", 4, "PHASE")
    terms.impropers(atoms, 2 * KCAL * k, value)
    terms.cmap(*_cmap(top))

    charges = top.get("CHARGE") / CHARGE
    method = method or ("none" if box is None else "pme")
    if implicit_solvent is not None:
        options = pair_options(method, options, "load")
    _lennard_jones(top, terms, charges, {"method": method} | options)
    terms.exclusions = _exclusions(top)
    _pair14(top, terms, quads, types)
    system = terms.system(
        topology,
        masses,
        box,
        positions,
        velocities,
        hydrogen_mass,
        constraints=fixed,
        virtual_sites=_virtual_sites(top, topology, bonds, r0),
    )
    if "LENNARD_JONES_CCOEF" in top:  # with the cut-off of the others
        (c,) = _coefficients(top, C=C4)
        cutoff = None if system.nonbonded.method == "none" else system.nonbonded.cutoff
        system.add(ion_dipole(c=c, types=top.get("ATOM_TYPE_INDEX") - 1, cutoff=cutoff))
    if implicit_solvent is not None:
        add_solvent(system, **_implicit_solvent(top, topology, implicit_solvent, **gb))
    return system


def _implicit_solvent(
    top: Prmtop, topology: Topology, model: str, salt: float = 0.0, temperature: float = 298.15, **options: Any
) -> dict[str, Any]:
    """Arguments of `GB`: radii of the file; screening factors of the file too, but for the GBn models, which bring
    their own.
    """
    from ..potentials.gb.gb import debye_kappa
    from ..potentials.gb.tables import MODELS, standard_parameters

    check.choice(model, MODELS, "load: implicit_solvent")
    parameters = standard_parameters(topology, model)
    parameters["radii"] = 0.1 * top.get("RADII")
    if not MODELS[model].neck:
        parameters["scales"] = top.get("SCREEN")
    if "kappa" not in options:
        options["kappa"] = debye_kappa(salt, temperature, options.get("solvent_dielectric", 78.5))
    return parameters | {"model": model} | options
