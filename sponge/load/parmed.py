"""GROMACS and CHARMM topologies, read by ParmEd and taken over term by term.

ParmEd keeps AMBER's units: angstrom, kcal/mol, degrees, force constants without the factor 1/2.
"""

from __future__ import annotations

import gzip
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from triskele.sponge import units
from triskele.sponge.errors import FileFormatError, MissingParameterError
from triskele.sponge.load.terms import Terms, constrain
from triskele.sponge.potentials.mixing import LJTable
from triskele.sponge.report.optional import need
from triskele.sponge.system import System
from triskele.sponge.topology import Topology, graph_distances
from triskele.sponge.virtual_sites import OutOfPlane, ThreeParticleAverage, TwoParticleAverage, VirtualSite

__all__ = ["from_parmed", "load_parmed"]

KCAL, A = units.kcal_per_mol, units.angstrom


def load_parmed(
    topology: str | Path,
    parameters: Sequence[str | Path] = (),
    positions: Any = None,
    velocities: Any = None,
    box: Any = None,
    *,
    include: str | Path | None = None,
    defines: dict[str, str] | None = None,
    **options: Any,
) -> System:
    """Read a GROMACS .top or a CHARMM .psf; `load` reads the coordinates along with it.

    Parameters
    ----------
    topology : str or Path
        .top, with the files that it includes, or .psf; gzipped or not.
    parameters : sequence of str or Path
        CHARMM parameter files (.prm, .rtf, .str), for a .psf.
    positions, velocities : array [n, 3], optional
        In nm and nm/ps.
    box : array [3, 3], optional
        Without one the system is not periodic.
    include : str or Path, optional
        Folder of GROMACS's force fields, where the .top includes some.
    defines : dict, optional
        Macros for GROMACS's preprocessor; when left out FLEXIBLE, by which water has bonds and angles to make rigid or not.
    **options
        Those of `from_parmed`.

    Raises
    ------
    ImportError
        If ParmEd is not installed.
    FileFormatError
        If ParmEd cannot read a file.
    """
    parmed = need("parmed", "GROMACS and CHARMM topologies")
    charmm = Path(topology).name.removesuffix(".gz").lower().endswith(".psf")
    if charmm and not parameters:
        raise TypeError(f"load: {topology} has no parameters: CHARMM parameter files (.prm, .rtf, .str) are needed")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as remarks:
        warnings.simplefilter("always")
        try:
            if charmm:
                structure = parmed.charmm.CharmmPsfFile(_plain(topology, folder))
                structure.load_parameters(parmed.charmm.CharmmParameterSet(*(_plain(p, folder) for p in parameters)))
            else:
                structure = _gromacs(parmed, topology, _plain(topology, folder), include, defines)
        except (OSError, FileFormatError):
            raise
        except Exception as error:  # ParmEd raises many kinds
            kind = MissingParameterError if "arameter" in type(error).__name__ else FileFormatError
            raise kind(f"{topology}: cannot be read by ParmEd: {type(error).__name__}: {error}") from error
    for remark in remarks:  # of the others, that 1-4 pairs are set to zero or are none is as the file says
        if "not currently supported" in str(remark.message):
            raise FileFormatError(f"{topology}: ParmEd says {remark.message}")
    return from_parmed(structure, positions, velocities, box, where=str(topology), **options)


# Sections of a .top that ParmEd takes into account, or that define types which count only where they are used
_SECTIONS = set(
    "defaults atomtypes bondtypes angletypes dihedraltypes cmaptypes pairtypes nonbond_params constrainttypes "
    "implicit_genborn_params moleculetype atoms bonds pairs angles dihedrals cmap settles virtual_sites3 dummies3 exclusions "
    "system molecules".split()
)


def _gromacs(parmed: Any, topology: str | Path, path: str, include: Any, defines: dict[str, str] | None) -> Any:
    """ParmEd's structure of a .top, after a look at its sections: those that ParmEd does not know it passes over in silence."""
    need("parmed.gromacs", "GROMACS topologies")
    before = parmed.gromacs.GROMACS_TOPDIR
    defines = {"FLEXIBLE": "1"} if defines is None else defines  # water's bonds and angles, which become constraints
    try:
        if include is not None:
            parmed.gromacs.GROMACS_TOPDIR = str(include)
        reader = need("parmed.gromacs._gromacsfile", "GROMACS topologies").GromacsFile
        file = reader(path, includes=[parmed.gromacs.GROMACS_TOPDIR], defines=dict(defines))
        for line in file:
            name = line.strip().strip("[]").strip()
            if line.strip().startswith("[") and name not in _SECTIONS:
                raise FileFormatError(
                    f"{topology}: section [ {name} ] is not supported (known are {', '.join(sorted(_SECTIONS))})"
                )
        file.close()
        return parmed.gromacs.GromacsTopologyFile(path, defines=dict(defines))
    finally:
        parmed.gromacs.GROMACS_TOPDIR = before


def _plain(path: str | Path, folder: str) -> str:
    """The path of a file, unpacked into `folder` if it is gzipped."""
    path = Path(path)
    if path.suffix != ".gz":
        return str(path)
    target = Path(folder) / path.stem
    target.write_bytes(gzip.decompress(path.read_bytes()))
    return str(target)


def from_parmed(
    structure: Any,
    positions: Any = None,
    velocities: Any = None,
    box: Any = None,
    *,
    method: str | None = None,
    constraints: str | None = None,
    rigid_water: bool = True,
    hydrogen_mass: float | None = None,
    where: str = "parmed",
    **options: Any,
) -> System:
    """A system from a ParmEd ``Structure`` with parameters.

    Parameters
    ----------
    structure : parmed.Structure
    positions, velocities, box
        As for `System`.
    method, constraints, rigid_water, hydrogen_mass
        As for `load_amber`.
    where : str
        How errors call it.
    **options
        Others of `Nonbonded`.

    Raises
    ------
    MissingParameterError
        If terms have no parameters.
    FileFormatError
        If there are terms of a kind that we do not have.
    """
    s = structure
    n = len(s.atoms)
    if getattr(s, "unknown_functional", False):
        raise FileFormatError(f"{where}: contains functions that are not supported by ParmEd")
    for kind in (
        "trigonal_angles",
        "out_of_plane_bends",
        "pi_torsions",
        "stretch_bends",
        "torsion_torsions",
        "chiral_frames",
        "multipole_frames",
    ):
        if getattr(s, kind, None):
            raise FileFormatError(f"{where}: terms of kind {kind} are not supported")
    if positions is not None and len(positions) != n:
        raise FileFormatError(
            f"{where}: has {n} atoms, got coordinates of {len(positions)} (do the files belong together?)"
        )
    terms = Terms(where, n)
    topology = _topology(s)
    bonds, (k_bond, r0) = _list(where, s.bonds, 2, "k", "req")
    angles, (k_angle, theta0) = _list(where, s.angles, 3, "k", "theteq")
    r0, theta0 = A * r0, np.radians(theta0)
    fixed, b, a = constrain(topology, np.array([x.mass for x in s.atoms]), bonds, r0, angles, theta0, constraints, rigid_water)
    terms.bonds(bonds[b], 2 * KCAL / A**2 * k_bond[b], r0[b])
    terms.angles(angles[a], 2 * KCAL * k_angle[a], theta0[a])
    atoms, (k, value) = _list(where, s.urey_bradleys, 2, "k", "req")
    terms.urey_bradley(atoms[k != 0], 2 * KCAL / A**2 * k[k != 0], A * value[k != 0])
    # a dihedral may have a list of types, one for each periodicity
    series = [(d, t) for d in s.dihedrals for t in (d.type if isinstance(d.type, list) else [d.type])]
    _require(where, "dihedrals", [t for _, t in series])
    terms.torsions(
        np.array([_atoms(d, 4) for d, _ in series]).reshape(-1, 4),
        KCAL * np.array([t.phi_k for _, t in series]),
        np.array([t.per for _, t in series]),
        np.radians([t.phase for _, t in series]),
    )
    atoms, c = _list(where, s.rb_torsions, 4, "c0", "c1", "c2", "c3", "c4", "c5")
    terms.ryckaert_bellemans(atoms, KCAL * c.T)
    atoms, (k, value) = _list(where, s.impropers, 4, "psi_k", "psi_eq")
    terms.impropers(atoms, 2 * KCAL * k, np.radians(value))
    _cmap(terms, s)
    sites = _virtual_sites(s, where)
    terms.exclusions = _exclusions(s, topology)
    _nonbonded(terms, s, where, {"method": method or ("none" if box is None else "pme")} | options)
    terms.pairs(*_pair14(s, where))
    system = System(
        topology,
        [x.mass for x in s.atoms],
        box,
        positions,
        velocities,
        constraints=fixed,
        virtual_sites=sites,
        exclusions=terms.exclusions,
    )
    terms.add_to(system)
    if hydrogen_mass is not None:
        system.repartition_hydrogen_mass(hydrogen_mass)
    return system


def _atoms(term: Any, k: int) -> list[int]:
    return [getattr(term, f"atom{j + 1}").idx for j in range(k)]


def _require(where: str, what: str, types: list) -> None:
    missing = sum(t is None for t in types)
    if missing:
        raise MissingParameterError(f"{where}: {what} must have parameters, {missing} of {len(types)} have none")


def _list(where: str, terms: list, k: int, *parameters: str) -> tuple[np.ndarray, np.ndarray]:
    """Atoms [m, k] and parameters [p, m]."""
    _require(where, type(terms[0]).__name__ if len(terms) else "", [t.type for t in terms])
    values = np.array([[getattr(t.type, p) for p in parameters] for t in terms], np.float64).reshape(
        -1, len(parameters)
    )
    return np.array([_atoms(t, k) for t in terms], np.int64).reshape(-1, k), values.T


def _topology(s: Any) -> Topology:
    import parmed

    chains = [r.chain or "A" for r in s.residues]
    change = np.array([i > 0 and chains[i] != chains[i - 1] for i in range(len(chains))], int)
    bonds = [(b.atom1.idx, b.atom2.idx) for b in s.bonds if not b.atom1.element == b.atom2.element == 1]
    elements = [0 if isinstance(a, parmed.ExtraPoint) else max(a.element, 0) for a in s.atoms]
    return Topology(
        [a.name for a in s.atoms],
        elements,
        [a.residue.idx for a in s.atoms],
        [r.name for r in s.residues],
        [f"{r.number}{r.insertion_code}" for r in s.residues],
        np.cumsum(change),
        [c for i, c in enumerate(chains) if i == 0 or change[i]],
        np.array(bonds).reshape(-1, 2),
    )


def _cmap(terms: Terms, s: Any) -> None:
    kinds = list({id(c.type): c.type for c in s.cmaps}.values())
    place = {id(t): k for k, t in enumerate(kinds)}
    atoms = np.array([_atoms(c, 5) for c in s.cmaps], np.int64).reshape(-1, 5)
    maps = [KCAL * np.array(list(t.grid.switch_range())).reshape(t.resolution, t.resolution) for t in kinds]
    terms.cmap(atoms[:, :4], atoms[:, 1:], np.array([place[id(c.type)] for c in s.cmaps], int), maps)


def _exclusions(s: Any, topology: Topology) -> np.ndarray:
    """Pairs up to three bonds apart and those that the file excludes; a virtual site shares those of its parent."""
    pairs = [*graph_distances(topology.bonds, topology.n)]
    pairs.append(np.array([(a.idx, b.idx) for a in s.atoms for b in a.exclusion_partners]).reshape(-1, 2))
    found = np.concatenate(pairs).astype(np.int64)
    parent = np.arange(topology.n)
    for a in s.atoms:
        if topology.elements[a.idx] == 0 and getattr(a, "parent", None) is not None:
            parent[a.idx] = a.parent.idx
    owned = np.flatnonzero(parent != np.arange(topology.n))
    if len(owned):
        near: dict[int, set[int]] = {}
        for i, j in found.tolist():
            near.setdefault(i, set()).add(j)
            near.setdefault(j, set()).add(i)
        children: dict[int, list[int]] = {}
        for c in owned.tolist():
            children.setdefault(int(parent[c]), []).append(c)
        more = []
        for c in owned.tolist():
            for j in {int(parent[c]), *near.get(int(parent[c]), ())}:
                more += [(c, j), *((c, d) for d in children.get(j, ()))]
        found = np.concatenate([found, np.array(more)])
    return found[found[:, 0] != found[:, 1]]


def _nonbonded(terms: Terms, s: Any, where: str, options: dict[str, Any]) -> None:
    charges = np.array([a.charge for a in s.atoms])
    sigma, epsilon = A * np.array([a.sigma for a in s.atoms]), KCAL * np.abs([a.epsilon for a in s.atoms])
    rule = {"lorentz": "lorentz_berthelot", "geometric": "geometric"}[s.combining_rule]
    if not s.has_NBFIX():
        terms.nonbonded(charges, sigma, epsilon, {"mixing": rule} | options)
        return
    kinds = list({id(a.atom_type): a.atom_type for a in s.atoms}.values())
    place = {id(t): k for k, t in enumerate(kinds)}
    sig, eps = A * np.array([t.sigma for t in kinds]), KCAL * np.abs([t.epsilon for t in kinds])
    mixed = (sig[:, None] + sig) / 2 if rule == "lorentz_berthelot" else np.sqrt(sig[:, None] * sig)
    depth = np.sqrt(eps[:, None] * eps)
    names = {t.name: k for k, t in enumerate(kinds)}
    for i, t in enumerate(kinds):
        for other, (rmin, well, *_) in t.nbfix.items():
            if other in names:
                j = names[other]
                mixed[i, j] = mixed[j, i] = A * rmin * 2 ** (-1 / 6)
                depth[i, j] = depth[j, i] = KCAL * abs(well)
    table = LJTable.from_sigma_epsilon([place[id(a.atom_type)] for a in s.atoms], mixed, depth)
    terms.nonbonded(charges, None, None, options)
    terms.lennard_jones_table(table, {})


def _pair14(s: Any, where: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Pairs that the file lists (GROMACS), else the ends of proper torsions (CHARMM)."""
    pairs: dict[tuple[int, int], tuple[float, float, float]] = {}
    for p in s.adjusts:
        charge = p.atom1.charge * p.atom2.charge * p.type.chgscale
        pairs[tuple(sorted((p.atom1.idx, p.atom2.idx)))] = (charge, A * p.type.sigma, KCAL * p.type.epsilon)
    for d in () if s.adjusts else [*s.dihedrals, *s.rb_torsions]:
        if d.improper if hasattr(d, "improper") else False:
            continue
        if d.ignore_end:
            continue
        first = next((t for t in d.type if t.scee and t.scnb), d.type[0]) if isinstance(d.type, list) else d.type
        if not first.scee or not first.scnb:
            raise FileFormatError(f"{where}: torsions with 1-4 pairs must have scaling factors, got {first}")
        i, j = d.atom1, d.atom4
        fixed = getattr(i.atom_type, "nbfix", {}).get(str(j.atom_type))
        if fixed is not None:
            sigma, epsilon = fixed[2] * 2 ** (-1 / 6), abs(fixed[3])
        else:
            sigma = (i.sigma_14 + j.sigma_14) / 2 if s.combining_rule == "lorentz" else (i.sigma_14 * j.sigma_14) ** 0.5
            epsilon = abs(i.epsilon_14 * j.epsilon_14) ** 0.5
        pairs[tuple(sorted((i.idx, j.idx)))] = (
            i.charge * j.charge / first.scee,
            A * sigma,
            KCAL * epsilon / first.scnb,
        )
    values = np.array(list(pairs.values())).reshape(-1, 3)
    return np.array(list(pairs), np.int64).reshape(-1, 2), values[:, 0], values[:, 1], values[:, 2]


def _virtual_sites(s: Any, where: str) -> list[VirtualSite]:
    import parmed

    kinds: dict[type, list] = {}
    for atom in s.atoms:
        if isinstance(atom, parmed.ExtraPoint):
            frame = atom.frame_type
            kind = {
                "TwoParticleExtraPointFrame": TwoParticleAverage,
                "ThreeParticleExtraPointFrame": ThreeParticleAverage,
                "OutOfPlaneExtraPointFrame": OutOfPlane,
            }.get(type(frame).__name__)
            if kind is None:
                raise FileFormatError(
                    f"{where}: virtual site {atom.name} of residue {atom.residue.name} is of a kind that is not supported"
                )
            kinds.setdefault(kind, []).append((atom.idx, [a.idx for a in frame.get_atoms()], frame.get_weights()))
    found: list[VirtualSite] = []
    for kind, entries in kinds.items():
        sites, parents, weights = (np.array(x) for x in zip(*entries))
        if kind is OutOfPlane:
            found.append(OutOfPlane(sites, parents, weights[:, 0], weights[:, 1], weights[:, 2] / A))
        else:
            found.append(kind(sites, parents, weights))
    return found
