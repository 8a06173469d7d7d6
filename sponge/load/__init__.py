"""Prepared systems from files: ``sponge.load("system.prmtop", "system.inpcrd")``.

The package can be called: `load` is what it does, and its modules hold the formats.
"""

from __future__ import annotations

import sys
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from triskele.core.extend import check

from ..errors import FileFormatError
from ..virtual_sites.sites import place_all
from .door import documented
from .whole import whole_positions

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..system import System
    from .structure import Structure

__all__ = ["load"]

# What a file's suffix says (a further .gz is looked through). A .top may also be an AMBER file, a .crd one of CHARMM:
# their content tells.
SUFFIXES = {
    ".prmtop": "AMBER topology", ".parm7": "AMBER topology", ".top": "GROMACS topology", ".psf": "CHARMM topology",
    ".xml": "OpenMM XML", ".pdb": "PDB", ".ent": "PDB", ".cif": "mmCIF", ".mmcif": "mmCIF", ".pdbx": "mmCIF",
    ".inpcrd": "AMBER coordinates", ".rst7": "AMBER coordinates", ".rst": "AMBER coordinates",
    ".restrt": "AMBER coordinates", ".ncrst": "AMBER coordinates", ".crd": "AMBER coordinates",
    ".gro": "GROMACS coordinates", ".g96": "GROMACS coordinates", ".prm": "CHARMM parameters",
    ".rtf": "CHARMM parameters", ".par": "CHARMM parameters", ".str": "CHARMM parameters",
}  # fmt: skip
_STRUCTURES = ("PDB", "mmCIF")
_COORDINATES = ("AMBER coordinates", "GROMACS coordinates", "CHARMM coordinates", *_STRUCTURES)


def load(*files: Any, forcefield: Any = None, **options: Any) -> System:
    """Read a system from its files; broken molecules are made whole in the box, and virtual sites put in place.

    Parameters
    ----------
    *files : str, Path or openmm.System
        A topology with coordinates: AMBER (.prmtop with .inpcrd or .rst7), OpenMM (a System as .xml, with a State or a
        .pdb), GROMACS (.top with .gro or .g96), CHARMM (.psf with parameter files and .crd or other coordinates); or
        one structure (.pdb, .cif) with `forcefield`. Files may be gzipped. An ``openmm.System`` in memory is taken like
        its XML, with the keywords `topology` (of ``openmm.app`` or a `Topology`), `positions`, `velocities` and `box`.
    forcefield : ForceField, str or sequence of str, optional
        Force field of a structure: names of shipped force fields or ffxml files, such as ``["amber14/protein.ff14SB",
        "amber14/tip3p"]``.
    **options
        constraints, rigid_water, hydrogen_mass, implicit_solvent, method, cutoff, switch, tolerance, ...: see
        `load.amber.load_amber`, `load.gromacs.load_gromacs`, `load.charmm.load_charmm` and `forcefield.create_system`.
        A structure also takes the `model` and `altloc` of `read_pdb`. An OpenMM System has its own and takes none.

    Returns
    -------
    System

    Raises
    ------
    FileNotFoundError
        If a file does not exist.
    FileFormatError
        If a file is truncated, broken, of another kind, or the files do not fit together.

    Examples
    --------
    >>> from triskele import sponge
    >>> files = sponge.example_files("alanine-dipeptide-water")  # a .prmtop and an .inpcrd
    >>> sponge.load(*files, method="pme", cutoff=0.9, constraints="h-bonds").n
    2269
    >>> system = sponge.load("1ubq.pdb", forcefield=["amber14/protein.ff14SB", "amber14/tip3p"])  # doctest: +SKIP
    """
    if len(files) == 1 and hasattr(files[0], "getNumForces"):
        from .openmm_objects import load_objects

        return _whole(load_objects(files[0], **options))
    paths = [Path(f) for f in files]
    if not paths:
        raise TypeError("load: a file is needed, got none")
    kinds = [_kind(path) for path in paths]
    by_kind: dict[str, list[Path]] = {}
    for path, kind in zip(paths, kinds):
        by_kind.setdefault(kind, []).append(path)
    if forcefield is not None and kinds[0] not in _STRUCTURES:
        raise TypeError(
            f"load: forcefield goes with a structure (.pdb, .cif), got {kinds[0]} {paths[0]}, which has its own "
            f"parameters"
        )
    for kind, found in by_kind.items():
        if len(found) > 1 and kind not in ("CHARMM parameters", "OpenMM XML"):
            raise TypeError(f"load: at most one file may be {kind}, got {', '.join(map(str, found))}")
    for topology, reader in _READERS.items():
        if topology in by_kind:
            with documented(*paths, options=bool(options)):
                return _whole(reader(by_kind, **options))
    if len(paths) > 1 or kinds[0] not in _STRUCTURES:
        raise TypeError(
            f"load: a topology or one structure is needed, got {', '.join(f'{p} ({k})' for p, k in zip(paths, kinds))}"
        )
    if forcefield is None:
        raise TypeError(
            f"load: {paths[0]} has no parameters: forcefield is needed (for example ['amber14/protein.ff14SB', "
            f"'amber14/tip3p'])"
        )
    with documented(*paths, options=bool(options)):
        return _structure(paths[0], kinds[0], forcefield, **options)


def _kind(path: Path) -> str:
    if str(path).lstrip()[:1] == "<":
        raise TypeError(f"load: must be given paths of files, got the content of one, {str(path)[:40]!r}...")
    name = path.name.removesuffix(".gz")
    suffix = check.choice(
        Path(name).suffix.lower(),
        SUFFIXES,
        f"{path}: the suffix",
        error=FileFormatError,
        hint="or one of these with .gz",
    )
    if not path.is_file():
        raise FileNotFoundError(
            f"load: {path} must be a file, found {'a folder' if path.is_dir() else 'none'} (working folder "
            f"{Path.cwd()})"
        )
    kind = SUFFIXES[suffix]
    if suffix == ".top":
        from .amber_files import read_bytes

        kind = "AMBER topology" if read_bytes(path).startswith((b"%VERSION", b"%FLAG")) else kind
    if suffix == ".crd":
        from .charmm_crd import is_charmm_crd

        kind = "CHARMM coordinates" if is_charmm_crd(path) else kind
    return kind


def _coordinates(by_kind: dict[str, list[Path]], used: str) -> dict[str, Any]:
    """positions, velocities, box and topology (None where a file lacks them) of the coordinate file among the files."""
    found = [path for kind in _COORDINATES for path in by_kind.get(kind, ())]
    foreign = [
        path
        for kind, paths in by_kind.items()
        if kind not in (*_COORDINATES, used, "CHARMM parameters")
        for path in paths
    ]
    if len(found) > 1 or foreign:
        raise TypeError(
            f"load: {used} goes with one file of coordinates, got {', '.join(map(str, [*found, *foreign]))}"
        )
    if not found:
        return {"positions": None, "velocities": None, "box": None, "topology": None}
    path = found[0]
    match _kind(path):
        case "AMBER coordinates":
            from .amber_files import read_restart

            return read_restart(path) | {"topology": None}
        case "GROMACS coordinates":
            from .g96 import read_g96
            from .gro import read_gro

            read = read_g96 if path.name.removesuffix(".gz").lower().endswith(".g96") else read_gro
            return read(path) | {"topology": None}
        case "CHARMM coordinates":
            from .charmm_crd import read_crd

            return read_crd(path) | {"topology": None}
        case kind:
            structure = _reader(kind)(path)
    return {"positions": structure.positions, "velocities": None, "box": structure.box, "topology": structure.topology}


def _reader(kind: str) -> Callable[..., Structure]:
    """The function that reads a structure."""
    if kind == "PDB":
        from .pdb import read_pdb

        return read_pdb
    from .mmcif import read_mmcif

    return read_mmcif


def _structure(
    path: Path, kind: str, forcefield: Any, *, model: int | None = None, altloc: str = "highest", **options: Any
) -> System:
    """A system from a structure and a force field, whose templates tell the bonds of residues that are not standard."""
    from ..forcefield import as_forcefield, create_system

    field = as_forcefield(forcefield)
    structure = _reader(kind)(path, model=model, altloc=altloc, components=field.components())
    return create_system(structure, field, **options)


def _amber(by_kind, **options):
    from .amber import GB_OPTIONS, load_amber

    _check_options(load_amber, options, GB_OPTIONS)
    return _with_coordinates(load_amber, by_kind, "AMBER topology", **options)


def _openmm(by_kind, **options):
    from .openmm_xml import load_openmm, read_state, read_xml

    if options:
        raise TypeError(
            f"load: an OpenMM System has its own settings, got {', '.join(options)} (use system.nonbonded.update)"
        )
    states = {path: root for path in by_kind["OpenMM XML"] if (root := read_xml(path)).tag == "State"}
    systems = [path for path in by_kind["OpenMM XML"] if path not in states]
    if len(systems) != 1 or len(states) > 1:
        raise TypeError(
            f"load: one OpenMM System and at most one State, got {', '.join(map(str, by_kind['OpenMM XML']))}"
        )
    start = _coordinates(by_kind, "OpenMM XML")
    start.pop("time", None)
    for root in states.values():
        start |= {k: v for k, v in read_state(root).items() if k != "time" and v is not None}
    return load_openmm(systems[0], **start)


def _gromacs(by_kind, **options):
    from .gromacs import load_gromacs

    _check_options(load_gromacs, options)
    return _with_coordinates(load_gromacs, by_kind, "GROMACS topology", **options)


def _charmm(by_kind, **options):
    from .charmm import load_charmm

    _check_options(load_charmm, options)
    return _with_coordinates(load_charmm, by_kind, "CHARMM topology", by_kind.get("CHARMM parameters", []), **options)


def _whole(system: System) -> System:
    """The system with its molecules in one piece and its virtual sites in place, wherever a file has them."""
    if system.positions is not None:
        system.positions = place_all(system.virtual_sites, whole_positions(system, system.positions, system.box))
    return system


def _check_options(reader, options, more=()):
    from ..potentials.nonbonded.nonbonded import OPTIONS

    own = (name for name, p in signature(reader).parameters.items() if p.kind is p.KEYWORD_ONLY)
    known = tuple(dict.fromkeys((*own, *more, "mixing", *OPTIONS)))
    for name in options:
        check.choice(name, known, "load: an option", error=TypeError)


def _with_coordinates(reader, by_kind, kind, *files, **options):
    path, start = by_kind[kind][0], _coordinates(by_kind, kind)
    system = reader(path, *files, start["positions"], start["velocities"], start["box"], **options)
    return _same_atoms(path, system, start["topology"])


def _same_atoms(path: Path, system: System, structure: Any) -> System:
    """The system, if its atoms are of the elements that the structure has in their place."""
    if structure is not None:
        ours, theirs = system.topology.elements, structure.elements
        wrong = (ours != theirs) & (ours > 0) & (theirs > 0)
        if wrong.any():
            i = int(wrong.argmax())
            raise FileFormatError(
                f"{path}: {system.topology.describe(i)} must be the same atom in the structure, got "
                f"{structure.describe(i)} there (are the atoms in another order?)"
            )
    return system


_READERS = {"AMBER topology": _amber, "GROMACS topology": _gromacs, "CHARMM topology": _charmm, "OpenMM XML": _openmm}


class _Callable(ModuleType):
    """The package itself answers to ``sponge.load(...)``: an import of one of its modules puts the package in place of
    a function of that name.
    """

    __call__ = staticmethod(load)


sys.modules[__name__].__class__ = _Callable
vars(sys.modules[__name__])["load"] = sys.modules[__name__]
