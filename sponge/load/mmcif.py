"""mmCIF files, through gemmi: `read_mmcif`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from triskele.core.extend import optional

from .. import box as boxes
from ..errors import FileFormatError
from .pdb import element_of
from .structure import AtomRecords, Structure, assemble

if TYPE_CHECKING:
    pass

__all__ = ["read_mmcif"]


def read_mmcif(
    path: str | Path, *, model: int | None = None, altloc: str = "highest", components: dict | None = None
) -> Structure:
    """Atoms, bonds, positions and box of an mmCIF file, under the authors' chain names and residue numbers.

    Bonds come from the standard residues, from disulfides (by distance), from covalent ``_struct_conn`` records, and
    from ``_chem_comp_bond`` where the file describes its residues. Models and alternate locations as in `pdb.read_pdb`.

    Parameters
    ----------
    path : path
        Plain or packed (.gz).
    model : int, optional
        Number of the model; the first by default.
    altloc : "highest", "first" or a letter
    components : dict, optional
        Bonds of residues that neither are standard nor described by the file; see `pdb.read_pdb`.

    Returns
    -------
    Structure

    Raises
    ------
    ImportError
        If gemmi is not installed.
    FileFormatError
        If the file is broken; the message names the line or the atom.

    Examples
    --------
    >>> from triskele import sponge
    >>> structure = sponge.read_mmcif("protein.cif")  # doctest: +SKIP
    """
    gemmi = optional.need("gemmi", "read_mmcif", "md")
    where = str(path)
    if not Path(path).is_file():
        raise FileNotFoundError(f"{where}: the file does not exist")
    try:
        block = gemmi.cif.read(where)[0]
        structure = gemmi.make_structure_from_block(block)
    except (ValueError, RuntimeError, IndexError) as error:
        raise FileFormatError(f"{where}: must be a valid mmCIF file, got an error: {error}") from None
    if not len(structure):
        raise FileFormatError(f"{where}: there must be atoms (_atom_site), got none")
    chosen = next((m for m in structure if model is None or m.num == model), None)
    if chosen is None:
        raise FileFormatError(f"{where}: there must be a model {model}, got {', '.join(str(m.num) for m in structure)}")
    atoms = _records(chosen, where)
    links = [
        _serials(c, chosen)
        for c in structure.connections
        if c.type in (gemmi.ConnectionType.Covale, gemmi.ConnectionType.Disulf) and c.asu != gemmi.Asu.Different
    ]
    cell = structure.cell
    lengths = np.array([cell.a, cell.b, cell.c]) / 10
    box = (
        boxes.from_lengths_angles(lengths, np.radians([cell.alpha, cell.beta, cell.gamma]))
        if np.all(lengths > 0.1)
        else None
    )
    found = assemble(
        atoms,
        box,
        where,
        altloc,
        np.array([pair for pair in links if pair is not None]).reshape(-1, 2),
        (components or {}) | _components(block),
    )
    return replace(found, space_group=structure.spacegroup_hm or None)


def _records(model, where):
    rows: list[tuple] = []
    segment, before = -1, None
    for chain in model:
        for residue in chain:
            if (chain.name, residue.subchain) != before:
                segment, before = segment + 1, (chain.name, residue.subchain)
            number = f"{residue.seqid.num}{residue.seqid.icode.strip()}"
            for atom in residue:
                rows.append(
                    (
                        atom.name,
                        "" if atom.altloc == "\0" else atom.altloc,
                        residue.name,
                        number,
                        chain.name,
                        segment,
                        atom.element.atomic_number,
                        atom.pos.tolist(),
                        atom.occ,
                        atom.serial,
                    )
                )
    if not rows:
        raise FileFormatError(f"{where}: there must be atoms (_atom_site), got none")
    columns = list(zip(*rows))
    positions = np.array(columns[7]) / 10
    # files without elements, and virtual sites, have X
    elements = [
        e or element_of("", name if len(name) > 3 else f" {name:<3}", residue)
        for e, name, residue in zip(columns[6], columns[0], columns[2])
    ]
    for bad, what in (
        (~np.isfinite(positions).all(axis=1), "finite coordinates"),
        ([e is None for e in elements], "a known element"),
    ):
        if np.any(bad):
            k = int(np.argmax(bad))
            raise FileFormatError(
                f"{where}: every atom must have {what}, got another for atom {columns[9][k]} ({columns[2][k]} "
                f"{columns[3][k]} {columns[0][k]})"
            )
    return AtomRecords(
        names=np.array(columns[0]),
        altlocs=np.array(columns[1]),
        residue_names=np.array(columns[2]),
        residue_ids=np.array(columns[3]),
        chain_ids=np.array(columns[4]),
        segments=np.array(columns[5]),
        elements=np.array(elements),
        positions=positions,
        occupancies=np.array(columns[8]),
        lines=np.array(columns[9]),
        serials=np.array(columns[9]),
    )


def _serials(connection, model):
    """Numbers of the two atoms of a connection; None if the model has not got them."""
    ends = [model.find_cra(p).atom for p in (connection.partner1, connection.partner2)]
    return None if None in ends else tuple(end.serial for end in ends)


def _components(block):
    """Bonds of the residues that the file describes, by name."""
    found: dict[str, list] = {}
    for name, first, second in block.find("_chem_comp_bond.", ["comp_id", "atom_id_1", "atom_id_2"]):
        found.setdefault(_text(name), []).append((_text(first), _text(second)))
    return found


def _text(value):
    import gemmi

    return gemmi.cif.as_string(value)
