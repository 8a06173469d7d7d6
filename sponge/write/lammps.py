"""LAMMPS: a data file with the atoms and bonds, and an input script with the styles and coefficients (its manual)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..elements import SYMBOLS
from ..potentials.bonded.harmonic_angle import harmonic_angle
from ..potentials.bonded.harmonic_bond import harmonic_bond
from ..potentials.bonded.harmonic_improper import harmonic_improper
from ..potentials.bonded.pair14 import pair14
from ..potentials.bonded.periodic_torsion import periodic_torsion
from ..potentials.bonded.ryckaert_bellemans import ryckaert_bellemans
from ..potentials.bonded.urey_bradley import urey_bradley
from ..potentials.pairs.mixing import sigma_epsilon
from ..system import System
from ..units import angstrom, fs, kcal_per_mol
from .amber_pairs import refined_types, torsion_rows
from .lammps_pairs import WEIGHTED, Pairs, pair_style
from .parts import FIXED_BOND, Parts, number

__all__ = ["write_lammps"]

_KINDS = (
    harmonic_bond, harmonic_angle, urey_bradley, periodic_torsion, harmonic_improper, ryckaert_bellemans, pair14,
)  # fmt: skip


class _Style(NamedTuple):
    """Terms of one style of LAMMPS."""

    name: str
    atoms: np.ndarray  # (m, k)
    values: np.ndarray  # (m, p), coefficients in the style's order and units
    fixed: bool = False  # by fix shake


def write_lammps(
    system: System, path: str | Path, positions: Any = None, velocities: Any = None, box: Any = None
) -> tuple[Path, Path]:
    """Write a system as a LAMMPS data file, with an input script beside it that computes the energy.

    The script has units real, the nonbonded method of the system with its cut-off, switch, mesh and splitting
    parameter, special_bonds for the 1-4 pairs, all coefficients, and fix shake for constraints; it ends with
    ``run 0``. 1-4 pairs with parameters of their own, as in CHARMM's force fields, are those of ``dihedral_style
    charmm``, with zero factors in special_bonds. LAMMPS's particle mesh is weighted in another way, so that its
    reciprocal energy agrees within the mesh's error; constrained bonds have 553 kcal/mol/A^2, which fix shake replaces.

    Parameters
    ----------
    system : System
    path : str or Path
        The data file (.data or .lmp). The script has the suffix .in.
    positions, velocities : (n, 3) array, nm and nm/ps, optional
        In place of the system's.
    box : float, (3,) or (3, 3) array, nm, optional
        In place of the system's.

    Returns
    -------
    tuple of Path
        The data file and the script.

    Raises
    ------
    ValueError
        If a part of the system has no form in LAMMPS; the message names it.

    Examples
    --------
    >>> import os, tempfile
    >>> from triskele import sponge
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide-water"))
    >>> files = sponge.write_lammps(system, os.path.join(tempfile.mkdtemp(), "peptide.data"))
    >>> [line for line in files[1].read_text().split("\\n") if line.startswith("special_bonds")]
    ['special_bonds lj 0 0 0.5 coul 0 0 0.83333333333333']
    """
    parts = Parts("write_lammps", system, path, (".data", ".lmp"), _KINDS, positions, velocities, box)
    for site in (s for kind in system.virtual_sites for s in kind.sites[:1].tolist()):
        raise ValueError(
            f"write_lammps: atoms must have mass, got the virtual site {system.topology.describe(site)} (use a water "
            "model without sites)"
        )
    if len(parts.cmap_atoms):
        raise parts.refusal(next(p for p in system.potentials if hasattr(p, "phi")), "cross terms")
    bonds = _bonds(parts)
    pairs = Pairs(parts, np.concatenate([style.atoms for style in bonds]))
    terms = {"bond": bonds, "angle": _angles(parts), "dihedral": _dihedrals(parts, pairs.weights)}
    types, _ = parts.types(system.topology.elements, system.masses)
    own = None
    if pairs.weights is not None:
        types, *own = refined_types(parts, types, pairs.weights)
    first = np.unique(types, return_index=True)[1]
    script = "\n".join(_script(parts, pairs, first, own, terms)) + "\n"
    return parts.write(_data(parts, types, first, terms), script, ".in")


# -- terms -------------------------------------------------------------------------------------------------------------


def _bonds(parts: Parts) -> list[_Style]:
    """Springs; constrained bonds; bonds of the topology without energy, which exclude pairs all the same."""
    system, n = parts.system, parts.system.n
    atoms, values = parts.take(harmonic_bond)
    k, r0 = values[:, 0] / 2 / (kcal_per_mol / angstrom**2), values[:, 1] / angstrom
    fixed = parts.bonded(system.constraints.pairs)
    pairs, distances = system.constraints.pairs[fixed], system.constraints.distances[fixed]
    known = np.sort(np.concatenate([atoms, pairs]), axis=1).astype(np.int64) @ [n, 1]
    bare = parts.bonds[~np.isin(parts.bonds @ [n, 1], known)]
    held = np.stack([np.full(len(pairs), FIXED_BOND), distances / angstrom], axis=1)
    return [
        _Style("harmonic", atoms, np.stack([k, r0], axis=1)),
        _Style("harmonic", pairs, held, fixed=True),
        _Style("harmonic", bare, np.tile([0.0, 1.0], (len(bare), 1))),
    ]


def _angles(parts: Parts) -> list[_Style]:
    """Angles, with the springs between their ends as style charmm, and angles that fix shake holds."""
    atoms, values = parts.take(harmonic_angle)
    k, theta0 = values[:, 0] / 2 / kcal_per_mol, np.degrees(values[:, 1])
    row, held, constants = parts.springs_of_angles()
    if not held.all():
        potential = next(p for p in parts.system.potentials if type(p) is urey_bradley)
        raise parts.refusal(potential, "springs without an angle between their atoms")
    both = np.column_stack([k[row], theta0[row], constants / [2 * kcal_per_mol / angstrom**2, angstrom]])
    alone = np.delete(np.arange(len(atoms)), row)
    return [
        _Style("harmonic", atoms[alone], np.stack([k[alone], theta0[alone]], axis=1)),
        _Style("charmm", atoms[row], both),
        _fixed_angles(parts),
    ]


def _fixed_angles(parts: Parts) -> _Style:
    """Constraints that are no bonds, as angles between two constrained bonds."""
    constraints, describe = parts.system.constraints, parts.system.topology.describe
    bonded = parts.bonded(constraints.pairs)
    around: dict[int, dict[int, float]] = {}
    for (i, j), d in zip(constraints.pairs[bonded].tolist(), constraints.distances[bonded].tolist()):
        around.setdefault(i, {})[j] = d
        around.setdefault(j, {})[i] = d
    atoms, theta = [], []
    for (i, k), d in zip(constraints.pairs[~bonded].tolist(), constraints.distances[~bonded].tolist()):
        middle = set(around.get(i, ())) & set(around.get(k, ()))
        if len(middle) != 1:
            raise ValueError(
                "write_lammps: a constraint must be that of a bond, or of the ends of two constrained bonds, got "
                f"{describe(i)} and {describe(k)}"
            )
        (j,) = middle
        a, b = around[i][j], around[k][j]
        atoms.append((i, j, k))
        theta.append(np.degrees(np.arccos((a * a + b * b - d * d) / (2 * a * b))))
    values = np.stack([np.full(len(theta), 100.0), theta], axis=1) if theta else np.empty((0, 2))
    return _Style("harmonic", np.array(atoms, np.int64).reshape(-1, 3), values, fixed=True)


def _dihedrals(parts: Parts, weights: np.ndarray | None) -> list[_Style]:
    """Torsions, impropers, and torsions without energy that carry the 1-4 pairs of `weights`."""
    atoms, values = parts.torsions(periodic_torsion)
    k, n, phase = values.T
    periodic = np.stack([np.ones(len(k)), k / kcal_per_mol, n, np.degrees(phase)], axis=1)
    impropers, improper = parts.take(harmonic_improper)
    quadratic = np.stack([improper[:, 0] / 2 / kcal_per_mol, np.degrees(improper[:, 1])], axis=1)
    chains, c = parts.take(ryckaert_bellemans)
    series = np.column_stack([np.full(len(c), 6.0), c * (-1.0) ** np.arange(6) / kcal_per_mol])  # of cos(phi), not -cos
    return [
        _Style("fourier", atoms, periodic),
        _Style("quadratic", impropers, quadratic),
        _Style("nharmonic", chains, series),
        *([] if weights is None else [_carriers(parts, weights)]),
    ]


def _carriers(parts: Parts, weights: np.ndarray) -> _Style:
    chains = torsion_rows(parts, np.empty((0, 4), int), np.empty((0, 3)), np.empty(0, bool))[0]
    return _Style("charmm", chains, np.column_stack([np.tile([0.0, 1.0, 0.0], (len(weights), 1)), weights]))


# -- files -------------------------------------------------------------------------------------------------------------


def _numbered(styles: list[_Style]) -> tuple[list[str], np.ndarray, np.ndarray, list[str]]:
    """Coefficients of all types; type (m,) and atoms (m, k) of all terms; types that fix shake holds."""
    coefficients: list[str] = []
    types, held = [], []
    hybrid = len({s.name for s in styles if len(s.atoms)}) > 1
    for style in styles:
        if not len(style.atoms):
            continue
        different, which = np.unique(style.values, axis=0, return_inverse=True)
        types.append(which.ravel() + len(coefficients) + 1)
        held += [str(len(coefficients) + k + 1) for k in range(len(different)) if style.fixed]
        coefficients += [" ".join([style.name] * hybrid + [number(v) for v in row]) for row in different.tolist()]
    atoms = np.concatenate([s.atoms for s in styles])
    return coefficients, np.concatenate([np.empty(0, int), *types]), atoms, held


def _data(parts: Parts, types: np.ndarray, first: np.ndarray, terms: dict[str, list[_Style]]) -> str:
    system, topology = parts.system, parts.system.topology
    listed = {kind: _numbered(styles) for kind, styles in terms.items()}
    lines = [f"{parts.path.stem}", "", f"{system.n} atoms", f"{len(first)} atom types"]
    for name, (coefficients, rows, _, _) in listed.items():
        lines += [f"{len(rows)} {name}s", f"{len(coefficients)} {name} types"] if len(rows) else []
    x = parts.positions / angstrom
    if parts.box is None:
        low, high = x.min(0) - 1.0, x.max(0) + 1.0
        tilt = []
    else:
        low, high = np.zeros(3), np.diag(parts.box) / angstrom
        tilt = (parts.box[[1, 2, 2], [0, 0, 1]] / angstrom).tolist()
    lines += ["", *(f"{number(a)} {number(b)} {c}lo {c}hi" for a, b, c in zip(low, high, "xyz"))]
    lines += [" ".join(map(number, tilt)) + " xy xz yz"] if any(tilt) else []
    lines += ["", "Masses", ""]
    for t, i in enumerate(first.tolist()):
        lines.append(f"{t + 1} {number(system.masses[i])} # {SYMBOLS[topology.elements[i]] or 'X'}")
    lines += ["", "Atoms # full", ""]
    columns = topology.molecules + 1, types + 1, parts.nonbonded.params["charges"], x
    for i, (molecule, kind, charge, place) in enumerate(zip(*(column.tolist() for column in columns))):
        lines.append(f"{i + 1} {molecule} {kind} {number(charge)} {' '.join(map(number, place))}")
    if parts.velocities is not None:
        lines += ["", "Velocities", ""]
        fast = (parts.velocities / (angstrom / fs)).tolist()
        lines += [f"{i + 1} {' '.join(map(number, v))}" for i, v in enumerate(fast)]
    for name, (_, rows, atoms, _) in listed.items():
        if len(rows):
            lines += ["", f"{name.capitalize()}s", ""]
            table = np.column_stack([np.arange(1, len(rows) + 1), rows, atoms + 1]).tolist()
            lines += [" ".join(map(str, row)) for row in table]
    return "\n".join(lines) + "\n"


def _script(parts: Parts, pairs: Pairs, first: np.ndarray, own: Any, terms: dict[str, list[_Style]]) -> Iterator[str]:
    styles, commands = pair_style(parts, pairs.weights is not None)
    yield "units real\natom_style full"
    yield f"boundary {'s s s' if parts.box is None else 'p p p'}"
    yield f"pair_style {'hybrid/overlay ' * (len(styles) > 1)}{' '.join(styles.values())}"
    for kind, found in terms.items():
        names = list(dict.fromkeys(s.name for s in found if len(s.atoms)))
        if names:
            yield f"{kind}_style {'hybrid ' * (len(names) > 1)}{' '.join(names)}"
    yield f"special_bonds lj 0 0 {number(pairs.lj)} coul 0 0 {number(pairs.coulomb)}"
    yield f'read_data "{parts.path.name}"'
    yield from _pair_coefficients(parts, first, own, list(styles))
    yield from commands
    held = {}
    for kind, found in terms.items():
        coefficients, _, _, held[kind] = _numbered(found)
        yield from (f"{kind}_coeff {k + 1} {text}" for k, text in enumerate(coefficients))
    if len(parts.system.constraints):
        words = ["b", *held["bond"]] + (["a", *held["angle"]] if held["angle"] else [])
        yield f"fix constraints all shake 1e-8 500 0 {' '.join(words)}"
    yield "thermo_style custom step ebond eangle edihed evdwl etail ecoul elong pe"
    yield "thermo_modify format float %.12g"
    yield "run 0"


def _pair_coefficients(parts: Parts, first: np.ndarray, own: Any, styles: list[str]) -> Iterator[str]:
    """Depth and diameter of each pair of types, in kcal/mol and A; `own` are those of 1-4 pairs, (2, t, t)."""
    i, j = np.triu_indices(len(first))
    repulsion, attraction = parts.pair_parameters(first[i], first[j])
    if np.any((repulsion > 0) != (attraction > 0)):
        raise parts.refusal(parts.nonbonded, "a repulsion or an attraction alone")
    sigma, epsilon = sigma_epsilon(repulsion, attraction)
    hybrid = f"{styles[0]} " * (len(styles) > 1)
    for a, b, e, s in zip(i.tolist(), j.tolist(), epsilon.tolist(), sigma.tolist()):
        yield f"pair_coeff {a + 1} {b + 1} {hybrid}{number(e / kcal_per_mol)} {number(s / angstrom)}"
        if own is not None:
            s14, e14 = float(own[0][a, b]) / angstrom, float(own[1][a, b]) / kcal_per_mol
            yield f"pair_coeff {a + 1} {b + 1} {WEIGHTED} 0 1 {number(e14)} {number(s14)}"
    if parts.nonbonded.switch is not None and parts.nonbonded.method != "none":
        yield f"pair_coeff * * {styles[1]}"
