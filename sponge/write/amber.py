"""AMBER topologies: a .prmtop, and its coordinates as an .inpcrd (formats: AMBER's manual, "prmtop file format")."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..box import angles_and_lengths
from ..constraints.choose import water_atoms
from ..load.amber import A12, B6, CHARGE, KCAL
from ..load.amber_files import VELOCITY
from ..potentials.bonded.harmonic_angle import harmonic_angle
from ..potentials.bonded.harmonic_bond import harmonic_bond
from ..potentials.bonded.harmonic_improper import harmonic_improper
from ..potentials.bonded.pair14 import pair14
from ..potentials.bonded.periodic_torsion import periodic_torsion
from ..potentials.bonded.urey_bradley import urey_bradley
from ..system import System
from ..virtual_sites.sites import ThreeParticleAverage
from .amber_pairs import charge_scaling, depth_scaling, refined_types, torsion_rows
from .parts import FIXED_BOND, Parts

__all__ = ["write_amber"]

_KINDS = (harmonic_bond, harmonic_angle, harmonic_improper, urey_bradley, periodic_torsion, pair14)


def write_amber(
    system: System, path: str | Path, positions: Any = None, velocities: Any = None, box: Any = None
) -> tuple[Path, Path]:
    """Write a system as an AMBER topology, with its coordinates in an .inpcrd file beside it.

    Parameters are written with 17 digits, in columns that the file declares; coordinates with the seven decimals (in
    angstrom) of the format. Urey-Bradley terms, harmonic impropers and 1-4 pairs with Lennard-Jones parameters of their
    own make it a CHAMBER file, which AMBER reads as one of a CHARMM force field. The run's settings are not written:
    AMBER takes cut-off, PME and constraints (ntc, ntf) from its own input. Constrained bonds, which have lost their
    force constant, are written with 553 kcal/mol/A^2. Names are cut to four characters.

    Parameters
    ----------
    system : System
    path : str or Path
        The topology (.prmtop or .parm7). The .inpcrd file has the same name otherwise.
    positions, velocities : (n, 3) array, nm and nm/ps, optional
        In place of the system's.
    box : float, (3,) or (3, 3) array, nm, optional
        In place of the system's.

    Returns
    -------
    tuple of Path
        The topology and the coordinates, for `load`.

    Raises
    ------
    ValueError
        If a part of the system has no form in an AMBER topology; the message names it.

    Examples
    --------
    >>> import os, tempfile
    >>> from triskele import sponge
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"))
    >>> files = sponge.write_amber(system, os.path.join(tempfile.mkdtemp(), "peptide.prmtop"))
    >>> sponge.load(*files).n
    22
    """
    parts = Parts("write_amber", system, path, (".prmtop", ".parm7"), _KINDS, positions, velocities, box)
    top = "%VERSION  VERSION_STAMP = V0001.000\n" + "".join(_sections(parts))
    return parts.write(top, _inpcrd(parts), ".inpcrd")


def _section(name: str, values: Any, width: int = 4) -> str:
    """A section of integers, numbers or words, in columns."""
    values = np.asarray(values).ravel()
    if values.dtype.kind == "f":
        form, texts, per = "3E24.16", [f"{v:24.16E}" for v in values.tolist()], 3
    elif values.dtype.kind == "U":
        form, texts, per = f"20a{width}", [f"{v[:width]:<{width}s}" for v in values.tolist()], 20
    else:
        form, texts, per = "10I8", [f"{v:8d}" for v in values.tolist()], 10
    lines = ["".join(texts[at : at + per]) for at in range(0, len(texts), per)] or [""]
    return "\n".join([f"%FLAG {name}", f"%FORMAT({form})", *lines]) + "\n"


def _kinds(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Different rows of parameters, and which of them each row is."""
    if not len(values):
        return values, np.empty(0, np.int64)
    different, which = np.unique(values, axis=0, return_inverse=True)
    return different, which.ravel()


class _Listed:
    """Terms of a kind, as lines of atoms (times three, with signs) and type, with and without hydrogen."""

    def __init__(self, parts: Parts, atoms: np.ndarray, values: np.ndarray, signs: Any = 1):
        self.types, which = _kinds(values)
        hydrogen = (parts.system.topology.elements[atoms] == 1).any(1)
        rows = np.column_stack([3 * atoms.astype(np.int64) * signs, which + 1])
        self.with_hydrogen, self.without = rows[hydrogen], rows[~hydrogen]

    def sections(self, name: str, *columns: str) -> Iterator[str]:
        singular = name.removesuffix("S")
        for column, values in zip(columns, self.types.T):
            yield _section(column if column[0] == "S" else f"{singular}_{column}", values)
        yield _section(f"{name}_INC_HYDROGEN", self.with_hydrogen)
        yield _section(f"{name}_WITHOUT_HYDROGEN", self.without)


# -- terms -------------------------------------------------------------------------------------------------------------


def _bonds(parts: Parts) -> _Listed:
    """Bonds in kcal/mol/A^2 and A; constraints and the sites of four-site water are among them."""
    atoms, values = parts.take(harmonic_bond)
    fixed, distances = parts.system.constraints.pairs, parts.system.constraints.distances
    water = water_atoms(parts.system.topology, parts.system.masses)
    known = parts.bonded(fixed) | water[fixed].all(1)
    if not known.all():
        pair = " and ".join(map(parts.system.topology.describe, fixed[np.argmin(known)]))
        raise ValueError(
            f"write_amber: constraints must be those of bonds and of rigid water, got one of {pair} (load the system "
            "with constraints='all-bonds' at most)"
        )
    sites, reach = _site_bonds(parts, water)
    k = values[:, 0] / (2 * KCAL * 100)
    rows = [
        np.stack([k, values[:, 1] * 10], axis=1),
        np.stack([np.full(len(fixed), FIXED_BOND), distances * 10], axis=1),
        np.stack([np.full(len(sites), FIXED_BOND), reach * 10], axis=1),
    ]
    return _Listed(parts, np.concatenate([atoms, fixed, sites]), np.concatenate(rows))


def _site_bonds(parts: Parts, water: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Oxygen and site of four-site waters, and the distance between them: the file has no other sites."""
    n, topology = parts.system.n, parts.system.topology
    bonds, values = parts.take(harmonic_bond)
    pairs = np.sort(np.concatenate([bonds, parts.system.constraints.pairs]), axis=1).astype(np.int64) @ [n, 1]
    lengths = dict(zip(pairs.tolist(), [*values[:, 1].tolist(), *parts.system.constraints.distances.tolist()]))
    rows, reach = [], []
    for kind in parts.system.virtual_sites:
        for m, (site, parents) in enumerate(zip(kind.sites.tolist(), kind.parents.tolist())):
            o, *h = parents
            w = kind.weights[m] if isinstance(kind, ThreeParticleAverage) else [0.0, 0.0, 1.0]
            sides = [lengths.get(min(i, j) * n + max(i, j), 0.0) for i, j in ((o, h[0]), (h[0], h[-1]))]
            if not (
                water[[site, *parents]].all() and topology.elements[o] == 8 and abs(w[1] - w[2]) < 1e-9 and all(sides)
            ):
                raise ValueError(
                    "write_amber: virtual sites must be those of four-site water, on the line from the oxygen to the "
                    f"middle of the hydrogens, all of whose distances are bonds, got {topology.describe(site)}"
                )
            rows.append((o, site))
            reach.append((w[1] + w[2]) * np.sqrt(sides[0] ** 2 - sides[1] ** 2 / 4))
    return np.array(rows, np.int64).reshape(-1, 2), np.array(reach)


def _dihedrals(parts: Parts, scnb: np.ndarray) -> _Listed:
    """Torsions, of which some carry the 1-4 pair of their ends; the signs of atoms three and four say which."""
    atoms, values = parts.torsions(periodic_torsion)
    proper = np.all([parts.bonded(atoms[:, k : k + 2]) for k in range(3)], axis=0)
    atoms, values, proper, pair = torsion_rows(parts, atoms, values, proper)
    atoms = np.where((atoms[:, 2:] == 0).any(1)[:, None], atoms[:, ::-1], atoms)  # the first atom can have no sign
    carries = pair >= 0
    scales = np.stack([charge_scaling(parts), scnb], axis=1)
    scaling = np.where(carries[:, None], scales[pair] if len(scales) else 0.0, 0.0)
    signs = np.stack(
        [np.ones(len(atoms)), np.ones(len(atoms)), np.where(carries, 1, -1), np.where(proper, 1, -1)], axis=1
    )
    columns = np.concatenate([values / [KCAL, 1.0, 1.0], scaling], axis=1)
    return _Listed(parts, atoms, columns, signs.astype(np.int64))


def _cmap(parts: Parts, prefix: str) -> Iterator[str]:
    if not len(parts.cmap_atoms):
        return
    yield _section(f"{prefix}_COUNT", [len(parts.cmap_atoms), len(parts.maps)])
    yield _section(f"{prefix}_RESOLUTION", [len(grid) for grid in parts.maps])
    for k, grid in enumerate(parts.maps):
        half = len(grid) // 2  # the file begins at -180 degrees
        yield _section(f"{prefix}_PARAMETER_{k + 1:02d}", np.roll(grid, (half, half), (0, 1)) / KCAL)
    yield _section(f"{prefix}_INDEX", np.column_stack([parts.cmap_atoms + 1, parts.cmap_types + 1]))


def _charmm(parts: Parts) -> Iterator[str]:
    """Urey-Bradley terms and harmonic impropers."""
    atoms, values = parts.take(urey_bradley)
    different, which = _kinds(values / [2 * KCAL * 100, 0.1])
    yield _section("CHARMM_UREY_BRADLEY_COUNT", [len(atoms), len(different)])
    yield _section("CHARMM_UREY_BRADLEY", np.column_stack([atoms + 1, which + 1]))
    yield _section("CHARMM_UREY_BRADLEY_FORCE_CONSTANT", different[:, 0])
    yield _section("CHARMM_UREY_BRADLEY_EQUIL_VALUE", different[:, 1])
    atoms, values = parts.take(harmonic_improper)
    different, which = _kinds(values / [2 * KCAL, 1.0])
    yield _section("CHARMM_NUM_IMPROPERS", [len(atoms)])
    yield _section("CHARMM_IMPROPERS", np.column_stack([atoms + 1, which + 1]))
    yield _section("CHARMM_NUM_IMPR_TYPES", [len(different)])
    yield _section("CHARMM_IMPROPER_FORCE_CONSTANT", different[:, 0])
    yield _section("CHARMM_IMPROPER_PHASE", different[:, 1])


# -- the file ----------------------------------------------------------------------------------------------------------


def _excluded(parts: Parts) -> tuple[np.ndarray, np.ndarray]:
    """How many later atoms each excludes, and which; an atom that excludes none has a 0."""
    n, pairs = parts.system.n, parts.system.exclusions
    counts = np.bincount(pairs[:, 0], minlength=n)
    none = np.flatnonzero(counts == 0)
    rows = np.concatenate([pairs + [0, 1], np.column_stack([none, np.zeros_like(none)])])
    return np.maximum(counts, 1), rows[np.lexsort(rows.T[::-1]), 1]


def _sections(parts: Parts) -> Iterator[str]:
    system, topology = parts.system, parts.system.topology
    scnb = depth_scaling(parts)
    chamber = scnb is None or bool({urey_bradley, harmonic_improper} & set(parts.terms))
    types, _ = parts.types()
    if chamber:
        scnb = np.ones(len(parts.take(pair14)[0]))
        types, sigma, epsilon = refined_types(parts, types)
    count = int(types.max()) + 1
    first = np.unique(types, return_index=True)[1]
    bonds, dihedrals = _bonds(parts), _dihedrals(parts, scnb)
    atoms, values = parts.take(harmonic_angle)
    angles = _Listed(parts, atoms, values / [2 * KCAL, 1.0])
    excluded, partners = _excluded(parts)
    if np.any(np.diff(topology.residue_index) < 0):
        raise ValueError("write_amber: the atoms of a residue must follow each other, got residues in another order")
    start = np.searchsorted(topology.residue_index, np.arange(len(topology.residue_names)))
    largest = int(np.diff([*start, system.n]).max())
    title = "CTITLE" if chamber else "TITLE"
    yield _section(title, np.array([f"{parts.path.stem:<80.80s}"]), 80)
    if chamber:
        yield _section("FORCE_FIELD_TYPE", np.array([" 1 CHARMM"]), 80)
    yield _section("POINTERS", _pointers(parts, count, bonds, angles, dihedrals, len(partners), largest))
    yield _section("ATOM_NAME", topology.names)
    yield _section("CHARGE", parts.nonbonded.params["charges"] * CHARGE)
    yield _section("ATOMIC_NUMBER", topology.elements)
    yield _section("MASS", system.masses)
    yield _section("ATOM_TYPE_INDEX", types + 1)
    yield _section("NUMBER_EXCLUDED_ATOMS", excluded)
    i, j = np.indices((count, count))
    low, high = np.minimum(i, j), np.maximum(i, j)
    yield _section("NONBONDED_PARM_INDEX", high * (high + 1) // 2 + low + 1)
    yield _section("RESIDUE_LABEL", topology.residue_names)
    yield _section("RESIDUE_POINTER", start + 1)
    yield from bonds.sections("BONDS", "FORCE_CONSTANT", "EQUIL_VALUE")
    yield from angles.sections("ANGLES", "FORCE_CONSTANT", "EQUIL_VALUE")
    scales = "SCEE_SCALE_FACTOR", "SCNB_SCALE_FACTOR"
    yield from dihedrals.sections("DIHEDRALS", "FORCE_CONSTANT", "PERIODICITY", "PHASE", *scales)
    if chamber:
        yield from _charmm(parts)
    yield from _cmap(parts, "CHARMM_CMAP" if chamber else "CMAP")
    lower = np.tril_indices(count)
    a, b = parts.pair_parameters(first[lower[0]], first[lower[1]])
    yield _section("LENNARD_JONES_ACOEF", a / A12)
    yield _section("LENNARD_JONES_BCOEF", b / B6)
    if chamber:
        yield _section("LENNARD_JONES_14_ACOEF", (4 * epsilon * sigma**12)[lower] / A12)
        yield _section("LENNARD_JONES_14_BCOEF", (4 * epsilon * sigma**6)[lower] / B6)
    yield _section("SOLTY", [0.0])
    yield _section("EXCLUDED_ATOMS_LIST", partners)
    yield from (_section(name, np.empty(0)) for name in ("HBOND_ACOEF", "HBOND_BCOEF", "HBCUT"))
    names = [f"T{np.base_repr(t, 36)}" if m > 0 else "EP" for t, m in zip(types.tolist(), system.masses.tolist())]
    yield _section("AMBER_ATOM_TYPE", np.array(names))
    yield _section("TREE_CHAIN_CLASSIFICATION", np.full(system.n, "BLA"))
    yield from (_section(name, np.zeros(system.n, int)) for name in ("JOIN_ARRAY", "IROTAT"))
    yield from _residues(parts)
    yield from _box(parts, start)


def _residues(parts: Parts) -> Iterator[str]:
    """Numbers and chains of residues, where the numbers are integers."""
    topology = parts.system.topology
    if all(text.lstrip("-").isdecimal() for text in topology.residue_ids.tolist()):
        yield _section("RESIDUE_NUMBER", topology.residue_ids.astype(int))
        yield _section("RESIDUE_CHAINID", topology.chain_ids[topology.chain_index])


def _pointers(
    parts: Parts, types: int, bonds: _Listed, angles: _Listed, dihedrals: _Listed, excluded: int, largest: int
):
    box = 0
    if parts.box is not None:
        right = np.allclose(angles_and_lengths(parts.box)[1], np.pi / 2, rtol=0, atol=1e-9)
        box = 1 if right else 3
    kinds = bonds, angles, dihedrals
    counts = [len(rows) for k in kinds for rows in (k.with_hydrogen, k.without)]
    heavy = counts[1::2]
    lists = [len(k.types) for k in kinds]
    residues = len(parts.system.topology.residue_names)
    sites = int(np.count_nonzero(parts.system.masses == 0)) if parts.system.virtual_sites else 0
    start = [parts.system.n, types, *counts, 0, 0, excluded, residues, *heavy, *lists]
    return [*start, 1, 0, 0, 0, 0, 0, 0, 0, 0, box, largest, 0, sites, 0]


def _box(parts: Parts, start: np.ndarray) -> Iterator[str]:
    """Molecules and the box."""
    if parts.box is None:
        return
    topology = parts.system.topology
    blocks = parts.blocks()
    sizes = np.diff([*blocks, parts.system.n])
    water = water_atoms(topology, parts.system.masses)[blocks]
    solvent = int(np.argmax(water)) if water.any() else len(blocks)
    end = blocks[solvent] if solvent < len(blocks) else parts.system.n
    yield _section("SOLVENT_POINTERS", [int(np.searchsorted(start, end)), len(blocks), solvent + 1])
    yield _section("ATOMS_PER_MOLECULE", sizes)
    lengths, angles = angles_and_lengths(parts.box)
    yield _section("BOX_DIMENSIONS", [np.degrees(angles[1]), *(lengths * 10)])


def _inpcrd(parts: Parts) -> str:
    """Coordinates in columns of twelve, seven decimals."""
    blocks = [parts.positions * 10] + ([] if parts.velocities is None else [parts.velocities / VELOCITY])
    if parts.box is not None:
        lengths, angles = angles_and_lengths(parts.box)
        blocks.append(np.stack([lengths * 10, np.degrees(angles)]))
    for block in blocks:
        if np.any((block <= -1000) | (block >= 10000)):
            raise ValueError(
                "write_amber: coordinates must lie between -1000 and 10000 A and velocities likewise, got "
                f"{block.ravel()[np.argmax(np.abs(block))]:g}"
            )
    lines = [parts.path.stem, f"{parts.system.n:5d}"]
    for block in blocks:
        flat = block.ravel().tolist()
        lines += ["".join(f"{x:12.7f}" for x in flat[at : at + 6]) for at in range(0, len(flat), 6)]
    return "\n".join(lines) + "\n"
