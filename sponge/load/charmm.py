"""CHARMM systems: a .psf with parameter files, read by ParmEd and taken over term by term.

ParmEd keeps AMBER's units: angstrom, kcal/mol, degrees, force constants without the factor 1/2. Pairs of atoms three
bonds apart interact by the 1-4 parameters of their types, whether or not there is a torsion between them (CHARMM's
nbxmod 5).
"""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from triskele.core.extend import gunzip, optional

from .. import units
from ..constraints.choose import constrain
from ..errors import FileFormatError, MissingParameterError
from ..potentials.pairs.mixing import LJTable
from ..system import System
from ..topology import Topology, graph_distances
from .amber_files import read_bytes
from .terms import Terms, check_masses, guess_elements

__all__ = ["load_charmm"]

KCAL, A = units.kcal_per_mol, units.angstrom


def load_charmm(
    psf: str | Path,
    parameters: Sequence[str | Path],
    positions: Any = None,
    velocities: Any = None,
    box: Any = None,
    *,
    method: str | None = None,
    constraints: str | None = None,
    rigid_water: bool = True,
    hydrogen_mass: float | None = None,
    **options: Any,
) -> System:
    """Read a CHARMM .psf; `load` reads the coordinates along with it.

    Parameters
    ----------
    psf : str or Path
        Gzipped or not.
    parameters : sequence of str or Path
        CHARMM parameter files (.prm, .rtf, .str).
    positions, velocities : (n, 3) array, nm and nm/ps, optional
        Positions and velocities of the atoms.
    box : (3, 3) array, optional
        Without one the system is not periodic.
    method, constraints, rigid_water, hydrogen_mass
        As for `load_amber`.
    **options
        Options of `Nonbonded`.

    Raises
    ------
    ImportError
        If ParmEd is not installed.
    FileFormatError
        If a file is broken or holds terms that are not supported.
    MissingParameterError
        If terms have no parameters.
    """
    where = str(psf)
    if not parameters:
        raise TypeError(f"load: {psf} has no parameters: CHARMM parameter files (.prm, .rtf, .str) are needed")
    _check_psf(psf)
    scale = _scale14(parameters)
    s = _structure(psf, parameters)
    n = len(s.atoms)
    terms = Terms(where, n)
    terms.check_count(positions)
    names, masses = [a.name for a in s.atoms], np.array([a.mass for a in s.atoms], np.float64)
    check_masses(where, masses, names)
    topology = _topology(s, masses)
    bonds, (k_bond, r0) = _list(where, s.bonds, 2, "k", "req")
    angles, (k_angle, theta0) = _list(where, s.angles, 3, "k", "theteq")
    r0, theta0 = A * r0, np.radians(theta0)
    fixed, b, a = constrain(topology, masses, bonds, r0, angles, theta0, constraints, rigid_water)
    terms.bonds(bonds[b], 2 * KCAL / A**2 * k_bond[b], r0[b])
    terms.angles(angles[a], 2 * KCAL * k_angle[a], theta0[a])
    atoms, (k, value) = _list(where, s.urey_bradleys, 2, "k", "req")
    terms.urey_bradley(atoms[k != 0], 2 * KCAL / A**2 * k[k != 0], A * value[k != 0])
    _torsions(terms, s, where)
    _cmap(terms, s, where)
    one, two, three = graph_distances(bonds, n)
    terms.exclusions = np.concatenate([one, two, three]).astype(np.int64)
    _nonbonded(terms, s, {"method": method or ("none" if box is None else "pme")} | options)
    terms.pairs(*_pair14(s, three, scale))
    return terms.system(topology, masses, box, positions, velocities, hydrogen_mass, constraints=fixed)


def _check_psf(path: str | Path) -> None:
    """Raise an error for terms that ParmEd skips or that have no counterpart."""
    text = read_bytes(path).decode("latin-1")
    if "DRUDE" in text.partition("\n")[0].split():
        raise FileFormatError(f"{path}: polarizable systems (DRUDE) are not supported")
    for section, what in (
        ("NNB", "explicit exclusions"),
        ("NUMLP", "lone pairs"),
        ("NUMANISO", "anisotropic polarization"),
    ):
        found = re.search(rf"^[ \t]*(\d+)[^!\n]*!{section}", text, re.MULTILINE)
        if found and int(found[1]):
            raise FileFormatError(
                f"{path}: section !{section} ({what}) must be empty, got {found[1]} entries, which are not supported"
            )


def _scale14(parameters: Sequence[str | Path]) -> float:
    """The factor of 1-4 charges that the NONBONDED lines of the files give, 1 without one."""
    factors = {}
    for path in parameters:
        text = re.sub(r"!.*", "", read_bytes(path).decode("latin-1")).upper()
        for line in re.findall(r"^\s*NONB(?:.*-[ \t]*\n)*.*", text, re.MULTILINE):
            words = re.sub(r"-\s*\n", " ", line).split()
            options = {key: value for key, value in zip(words[:-1], words[1:]) if key in ("NBXMOD", "E14FAC")}
            try:
                mode, factor = int(options.get("NBXMOD", 5)), float(options.get("E14FAC", 1))
            except ValueError:
                raise FileFormatError(f"{path}: nbxmod and e14fac must be numbers, got {options}") from None
            if abs(mode) != 5:
                raise FileFormatError(f"{path}: nbxmod must be 5 (1-4 pairs have their own parameters), got {mode}")
            factors[factor] = path
    if len(factors) > 1:
        raise FileFormatError(
            f"{', '.join(map(str, factors.values()))}: e14fac must agree, got {', '.join(map(str, factors))}"
        )
    return next(iter(factors), 1.0)


def _structure(psf: str | Path, parameters: Sequence[str | Path]) -> Any:
    """ParmEd's structure with parameters."""
    parmed = optional.need("parmed", "CHARMM topologies", "md")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that 1-4 parameters are zero is as the files say
        try:
            structure = parmed.charmm.CharmmPsfFile(_plain(psf, folder))
            structure.load_parameters(parmed.charmm.CharmmParameterSet(*(_plain(p, folder) for p in parameters)))
        except OSError:
            raise
        except Exception as error:  # ParmEd raises many kinds
            kind = MissingParameterError if "arameter" in type(error).__name__ else FileFormatError
            raise kind(f"{psf}: cannot be read by ParmEd: {type(error).__name__}: {error}") from error
    for atom in structure.atoms:
        if isinstance(atom, parmed.ExtraPoint):
            raise FileFormatError(f"{psf}: virtual sites are not supported, got atom {atom.idx + 1} ({atom.name})")
        if getattr(atom.atom_type, "nbthole", None):
            raise FileFormatError(f"{psf}: Thole screening (NBTHOLE) is not supported, got some for type {atom.type}")
    return structure


def _plain(path: str | Path, folder: str) -> str:
    """The path of a file, unpacked into `folder` if it is gzipped."""
    path = Path(path)
    if path.suffix != ".gz":
        return str(path)
    target = Path(folder) / path.stem
    target.write_bytes(gunzip(path.read_bytes(), path))
    return str(target)


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


def _topology(s: Any, masses: np.ndarray) -> Topology:
    names = [a.name for a in s.atoms]
    listed = np.array([max(a.element, 0) for a in s.atoms])
    elements = np.where(masses > 0, np.where(listed > 0, listed, guess_elements(masses, np.array(names))), 0)
    chains = [r.chain or "A" for r in s.residues]
    change = np.array([i > 0 and chains[i] != chains[i - 1] for i in range(len(chains))], int)
    residues = [a.residue.idx for a in s.atoms]
    bonds = [
        (b.atom1.idx, b.atom2.idx)  # the hydrogens of water are joined to hold the angle
        for b in s.bonds
        if not (b.atom1.element == b.atom2.element == 1 and len(b.atom1.residue.atoms) == 3)
    ]
    return Topology(
        names,
        elements,
        residues,
        [r.name for r in s.residues],
        [f"{r.number}{r.insertion_code}" for r in s.residues],
        np.cumsum(change),
        [c for i, c in enumerate(chains) if i == 0 or change[i]],
        np.array(bonds, np.int64).reshape(-1, 2),
    )


def _torsions(terms: Terms, s: Any, where: str) -> None:
    """Proper torsions, which may be sums of several, and impropers: harmonic, or cosines where a periodicity is
    given.
    """
    _require(where, "dihedrals", [d.type for d in s.dihedrals])
    _require(where, "impropers", [d.type for d in s.impropers])
    harmonic = [d for d in s.impropers if hasattr(d.type, "psi_k")]
    cosines = [d for d in [*s.dihedrals, *s.impropers] if not hasattr(d.type, "psi_k")]
    series = [(d, t) for d in cosines for t in (d.type if isinstance(d.type, list) else [d.type])]
    for d, t in series:
        if t.per < 1 or t.per % 1:
            raise FileFormatError(
                f"{where}: the periodicity of a torsion must be 1, 2, 3, ..., got {t.per} for atoms "
                f"{', '.join(str(i + 1) for i in _atoms(d, 4))} (harmonic dihedrals are not supported)"
            )
    terms.torsions(
        np.array([_atoms(d, 4) for d, _ in series]).reshape(-1, 4),
        KCAL * np.array([t.phi_k for _, t in series]),
        np.array([t.per for _, t in series]),
        np.radians([t.phase for _, t in series]),
    )
    atoms, (k, value) = _list(where, harmonic, 4, "psi_k", "psi_eq")
    terms.impropers(atoms, 2 * KCAL * k, np.radians(value))


def _cmap(terms: Terms, s: Any, where: str) -> None:
    _require(where, "cross terms", [c.type for c in s.cmaps])
    kinds = list({id(c.type): c.type for c in s.cmaps}.values())
    place = {id(t): k for k, t in enumerate(kinds)}
    atoms = np.array([_atoms(c, 5) for c in s.cmaps], np.int64).reshape(-1, 5)
    maps = [KCAL * np.array(list(t.grid.switch_range())).reshape(t.resolution, t.resolution) for t in kinds]
    terms.cmap(atoms[:, :4], atoms[:, 1:], np.array([place[id(c.type)] for c in s.cmaps], int), maps)


def _nonbonded(terms: Terms, s: Any, options: dict[str, Any]) -> None:
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


def _pair14(s: Any, pairs: np.ndarray, scale: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Charge products, sigmas and epsilons of pairs three bonds apart."""
    values = np.empty((len(pairs), 3))
    for row, (first, last) in enumerate(pairs.tolist()):
        i, j = s.atoms[first], s.atoms[last]
        fixed = i.atom_type.nbfix.get(j.atom_type.name)
        if fixed is not None:
            sigma, epsilon = fixed[2] * 2 ** (-1 / 6), abs(fixed[3])
        else:
            sigma = (i.sigma_14 + j.sigma_14) / 2 if s.combining_rule == "lorentz" else (i.sigma_14 * j.sigma_14) ** 0.5
            epsilon = abs(i.epsilon_14 * j.epsilon_14) ** 0.5
        values[row] = scale * i.charge * j.charge, A * sigma, KCAL * epsilon
    return pairs, values[:, 0], values[:, 1], values[:, 2]
