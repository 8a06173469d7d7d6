"""PDB files: `read_pdb` and `write_pdb`.

Source of the format: Protein Data Bank Contents Guide 3.30, wwPDB, 2012. Numbers beyond the columns' width are written
and read as hybrid-36 (R. W. Grosse-Kunstleve, cci.lbl.gov/hybrid_36); those of VMD in base 16 are read.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TextIO

import numpy as np

from triskele.core.extend import atomic, check

from .. import box as boxes
from ..elements import NUMBERS, SYMBOLS
from ..errors import FileFormatError
from ..residues import standard_residue
from ..topology import Topology
from .structure import AtomRecords, Structure, assemble, open_text

__all__ = ["pdb_model", "read_pdb", "structure_of_lines", "write_pdb"]


def read_pdb(
    path: str | Path, *, model: int | None = None, altloc: str = "highest", components: dict | None = None
) -> Structure:
    """Atoms, bonds, positions and box of a PDB file.

    Chains end at TER and where the chain's letter changes. Bonds come from the standard residues, from disulfides (by
    distance) and from CONECT records; a bond between residues longer than 0.25 nm is a gap and left out. A CRYST1
    record of a unit cube of 1 Angstrom stands for "no box", as in files of NMR structures.

    Parameters
    ----------
    path : path
        Plain or packed (.gz).
    model : int, optional
        Number in the MODEL record; the first model by default.
    altloc : "highest", "first" or a letter
        Which of alternate locations is kept, one for each residue: of the highest total occupancy by default.
    components : dict, optional
        Bonds of residues that are not standard, by names: ``{"LIG": [("C1", "O1"), ...]}``; an atom "-C" is that of the
        residue before.

    Returns
    -------
    Structure

    Raises
    ------
    FileFormatError
        Names file and line: truncated or broken records, coordinates that are not finite numbers, unknown elements,
        atoms that occur twice in a residue, no atoms.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from triskele.sponge import read_pdb
    >>> text = "HETATM    1  O   HOH A   1       1.000   2.000   3.000  1.00  0.00           O"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "o.pdb")
    ...     _ = path.write_text(text)
    ...     structure = read_pdb(path)
    >>> structure.positions
    array([[0.1, 0.2, 0.3]])
    """
    return structure_of_lines(open_text(path).splitlines(), str(path), model, altloc, components)


def structure_of_lines(
    lines: list[str], where: str, model: int | None = None, altloc: str = "highest", components: dict | None = None
) -> Structure:
    """The structure of the lines of a PDB file; see `read_pdb`."""
    rows, segments, links, cell = _sort_lines(lines, model, where)
    if not rows:
        raise FileFormatError(f"{where}: must hold ATOM or HETATM records, got none in {len(lines)} lines")
    atoms = _atom_records(lines, rows, segments, where)
    structure = assemble(atoms, _box(cell, where), where, altloc, _conect(links, where), components)
    return replace(structure, space_group=cell and cell[1][55:66].strip() or None)


def _sort_lines(lines, model, where):
    """Rows of the atoms of one model, how many chains ended before each, CONECT lines, and the CRYST1 line."""
    rows, segments, links, cell = [], [], [], None
    segment, current, wanted, seen = 0, None, model, []
    for k, line in enumerate(lines):
        head = line[:6]
        if head in ("ATOM  ", "HETATM"):
            if current is None or current == wanted:
                rows.append(k)
                segments.append(segment)
        elif head.startswith("TER"):
            segment += 1
        elif head == "CONECT":
            links.append((k, line))
        elif head.startswith("MODEL "):
            try:
                current = int(line[6:].split()[0])
            except (ValueError, IndexError):
                raise FileFormatError(
                    f"{where}, line {k + 1}: MODEL must have a number, got {line[6:].strip()!r}"
                ) from None
            seen.append(current)
            wanted = current if wanted is None else wanted
        elif head == "ENDMDL":
            current = "between"
        elif head == "CRYST1":
            cell = (k, line) if cell is None or not rows else cell  # the last one before the model's atoms
        elif line[:4] in ("ATOM", "HETA"):
            raise FileFormatError(
                f"{where}, line {k + 1}: an atom's record must begin with 'ATOM  ' or 'HETATM', got {line[:6]!r}"
            )
    if model is not None and model not in seen and not (model == 1 and not seen):
        raise FileFormatError(
            f"{where}: there must be a model {model}, got {', '.join(map(str, seen)) or 'a file without models'}"
        )
    return rows, segments, links, cell


def _atom_records(lines, rows, segments, where):
    short = next((k for k in rows if len(lines[k]) < 54), None)
    if short is not None:
        raise FileFormatError(
            f"{where}, line {short + 1}: an atom's record must have coordinates up to column 54, got "
            f"{len(lines[short])} columns (is the file truncated?)"
        )
    table = np.array([lines[k][:80].ljust(80).encode("latin-1") for k in rows], "S80").view("S1").reshape(-1, 80)

    foreign = np.flatnonzero(np.any((table.view(np.uint8) > 126) | (table.view(np.uint8) < 32), axis=1))
    if len(foreign):
        raise FileFormatError(
            f"{where}, line {rows[foreign[0]] + 1}: an atom's record must be plain text (ASCII), got another character"
        )

    def column(lo, hi):
        return np.ascontiguousarray(table[:, lo:hi]).view(f"S{hi - lo}").ravel()

    def text(lo, hi):
        return np.char.strip(column(lo, hi).astype(str))

    positions = np.stack([_numbers(column(30 + 8 * d, 38 + 8 * d), "xyz"[d], rows, where) for d in range(3)], axis=1)
    occupancy = column(54, 60)
    occupancies = (
        np.ones(len(rows))
        if np.all(np.char.strip(occupancy) == b"")
        else _numbers(np.where(np.char.strip(occupancy) == b"", b"1.0", occupancy), "occupancy", rows, where)
    )
    names, residue_names = text(12, 16), text(17, 21)
    empty = np.flatnonzero(names == "")
    if len(empty):
        raise FileFormatError(
            f"{where}, line {rows[empty[0]] + 1}: an atom must have a name in columns 13 to 16, got none"
        )
    elements = _elements(text(76, 78), column(12, 16).astype(str), residue_names, rows, where)
    return AtomRecords(
        names=names,
        altlocs=text(16, 17),
        residue_names=residue_names,
        residue_ids=_residue_ids(text(22, 27)),
        chain_ids=text(21, 22),
        segments=np.array(segments),
        elements=elements,
        positions=positions / 10,
        occupancies=occupancies,
        lines=np.array(rows) + 1,
        serials=text(6, 11),
    )


def _residue_ids(ids):
    """Numbers beyond 9,999 as decimals."""
    wide = np.char.isalpha(ids.astype("U1"))
    if np.any(wide):
        fields, inverse = np.unique(ids[wide], return_inverse=True)
        decoded = [t if (number := _decode36(t[:4], 4)) is None else f"{number}{t[4:]}" for t in fields.tolist()]
        ids = ids.astype("U12")
        ids[wide] = np.array(decoded)[inverse]
    return ids


def _numbers(column, what, rows, where):
    try:
        values = column.astype(np.float64)
    except ValueError:
        values = np.array([_number_or_nan(v) for v in column])
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise FileFormatError(
            f"{where}, line {rows[bad[0]] + 1}: {what} must be a finite number, got "
            f"{column[bad[0]].decode('latin-1').strip()!r}"
        )
    return values


def _number_or_nan(text):
    try:
        return float(text)
    except ValueError:
        return np.nan


def _elements(symbols, padded, residue_names, rows, where):
    """Atomic numbers from columns 77-78, or from the name where these are empty."""
    found: dict = {}
    out = np.empty(len(rows), np.int32)
    for i, key in enumerate(zip(symbols.tolist(), padded.tolist(), residue_names.tolist())):
        if key not in found:
            found[key] = element_of(*key)
        if found[key] is None:
            raise FileFormatError(
                f"{where}, line {rows[i] + 1}: the element must be known, got {key[0] or 'none'} for atom "
                f"{key[1].strip()} of {key[2]} (columns 77 and 78)"
            )
        out[i] = found[key]
    return out


# Ions by the names of their residues: elements, and what CHARMM calls them
_IONS = NUMBERS | {"SOD": 11, "CLA": 17, "POT": 19, "CES": 55, "CAL": 20, "LIT": 3, "RUB": 37, "CAD": 48, "BAR": 56}


def element_of(symbol: str, name: str, residue: str) -> int | None:
    """Atomic number from columns 77-78, or from the name in its four columns; 0 for virtual sites, None if not
    known.
    """
    symbol = symbol.upper()
    if symbol in NUMBERS:
        return NUMBERS[symbol]
    if symbol == "D":
        return 1
    entry = standard_residue(residue)
    if (
        symbol in ("EP", "LP", "VS", "M")
        or not symbol
        and entry
        and entry[3] == "water"
        and name.strip()[:1].upper() not in "OHD123"
    ):
        return 0
    if symbol:
        return None
    letters = name.strip().upper().lstrip("0123456789")
    bare = letters.rstrip("0123456789+-")
    single = residue.upper().rstrip("0123456789+-")
    if bare == single and bare in _IONS:  # an ion: its residue is called like its atom
        return _IONS[bare]
    if entry is None and name[0] not in " 0123456789" and name[:2].upper().strip() in NUMBERS and letters[:1] != "H":
        return NUMBERS[name[:2].upper().strip()]
    return NUMBERS.get(letters[:1])


def _box(cell, where):
    if cell is None:
        return None
    k, line = cell
    try:
        values = [float(v) for v in (line[6:15], line[15:24], line[24:33], line[33:40], line[40:47], line[47:54])]
        if values[:3] == [1.0, 1.0, 1.0] or values[:3] == [0.0, 0.0, 0.0]:
            return None
        if not all(0 < angle < 180 for angle in values[3:]):
            raise ValueError("angles must lie between 0 and 180 degrees")
        return boxes.from_lengths_angles(np.array(values[:3]) / 10, np.radians(values[3:]))
    except ValueError as error:
        raise FileFormatError(
            f"{where}, line {k + 1}: CRYST1 must hold three lengths and three angles, got {line[6:54].strip()!r} "
            f"({error})"
        ) from None


def _conect(links, where):
    """Pairs of atom numbers (as text, the way atoms' records spell them)."""
    pairs = []
    for k, line in links:
        fields = [line[c : c + 5].strip() for c in range(6, min(len(line.rstrip()), 31), 5)]
        if not fields or any(f and _decode36(f, 5) is None for f in fields):
            raise FileFormatError(
                f"{where}, line {k + 1}: CONECT must hold atom numbers in columns of five, got {line[6:].strip()!r}"
            )
        pairs += [(fields[0], other) for other in fields[1:] if other and fields[0]]
    return pairs


# -- hybrid-36 ---------------------------------------------------------------------------------------------------------

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _decode36(text: str, width: int) -> int | None:
    """Number of a decimal, base-16 or hybrid-36 field of `width` columns; None if it is none of these."""
    try:
        if text.lstrip("-").isdigit():
            return int(text)
        if len(text) != width or not text.isalnum():
            return None
        if text[0].isdigit():
            return int(text, 16)
        above = int(text, 36) - 10 * 36 ** (width - 1) + 10**width
        if text == text.upper():
            return above
        return above + 26 * 36 ** (width - 1) if text == text.lower() else None
    except ValueError:
        return None


def _encode36(number: int, width: int) -> str:
    """A number in `width` columns: decimal while it fits, then hybrid-36 with capitals, then with small letters."""
    if number < 10**width:
        return str(number).rjust(width)
    number -= 10**width
    size = 26 * 36 ** (width - 1)
    if number >= 2 * size:
        raise ValueError(f"write_pdb: numbers must fit {width} columns of hybrid-36, got {number + 10**width}")
    digits, small = number % size + 10 * 36 ** (width - 1), number >= size
    text = ""
    for _ in range(width):
        digits, d = divmod(digits, 36)
        text = _DIGITS[d] + text
    return text.lower() if small else text


# -- writing -----------------------------------------------------------------------------------------------------------


def write_pdb(
    path: str | Path | TextIO,
    topology: Topology | Structure,
    positions: np.ndarray | None = None,
    box: np.ndarray | None = None,
) -> None:
    """Write a PDB file: one model, or one for each of several sets of positions.

    Water and residues that are not standard are HETATM; the latter have CONECT records, as have disulfides.
    Only the first letter of a chain's name is written, since the format has no room for more.

    Parameters
    ----------
    path : path or open text file
    topology : Topology or Structure
        A structure brings its positions and box.
    positions : (n, 3) or (models, n, 3) float, nm, optional
        Only optional with a structure. Finite and within the columns of the format (-999.9 to 9999.9 Angstrom).
    box : (3, 3) float, optional
        Vectors as rows, nm.

    Raises
    ------
    ValueError
        If positions have another shape, are not finite, or do not fit.

    Examples
    --------
    >>> import io
    >>> from triskele.sponge import Topology, write_pdb
    >>> text = io.StringIO()
    >>> write_pdb(text, Topology.of_particles(1, "AR", 18), [[0.1, 0.2, 0.3]])
    >>> text.getvalue()[:54]
    'HETATM    1 AR    AR A   1       1.000   2.000   3.000'
    """
    if isinstance(topology, Structure):
        positions = topology.positions if positions is None else positions
        topology, box = topology.topology, topology.box if box is None else box
    if positions is None:
        raise TypeError("write_pdb: positions must be given with a topology, got None (a Structure brings its own)")
    positions = np.asarray(positions, np.float64)
    frames = positions[None] if positions.ndim == 2 else positions
    check.shape(positions, [(topology.n, 3), ("frames", topology.n, 3)], "write_pdb: positions")
    parts = [] if box is None else [cryst1(box)]
    for k, frame in enumerate(frames):
        body = pdb_model(topology, frame)
        parts.append(f"MODEL     {k + 1:4d}\n{body}ENDMDL\n" if len(frames) > 1 else body)
    parts += [conect_lines(topology), "END\n"]
    if hasattr(path, "write"):
        path.write("".join(parts))
    else:
        with atomic(path) as file:
            file.write("".join(parts).encode())


def pdb_model(topology: Topology, positions: np.ndarray) -> str:
    """ATOM, HETATM and TER lines of one set of positions [n, 3] in nm."""
    angstrom = np.asarray(positions) * 10
    bad = ~np.all((angstrom > -999.9995) & (angstrom < 9999.9995), axis=1)
    if np.any(bad):
        atom = int(np.argmax(bad))
        raise ValueError(
            f"write_pdb: positions must be finite and fit the format's columns (-100 to 1000 nm), got "
            f"{positions[atom]} for {topology.describe(atom)}"
        )
    heads, tails = _fixed_columns(topology)
    coordinates = [f"{x:8.3f}{y:8.3f}{z:8.3f}" for x, y, z in angstrom.tolist()]
    return "".join(h + c + t for h, c, t in zip(heads, coordinates, tails))


@lru_cache(maxsize=2)
def _fixed_columns(topology):
    """Return the text before and after the coordinates of each atom; TER lines precede the next atom."""
    heads, tails = [], []
    residue = topology.residue_index.tolist()
    chain = topology.chain_index.tolist()
    names, elements = topology.names.tolist(), topology.elements.tolist()
    last = len(names) - 1
    serials = _serials(topology)
    column = [_residue_columns(topology, r) for r in range(len(topology.residue_names))]
    kinds = [standard_residue(str(n)) for n in topology.residue_names]
    record = ["ATOM  " if kind and kind[3] != "water" else "HETATM" for kind in kinds]
    for i, name in enumerate(names):
        r = residue[i]
        symbol = SYMBOLS[elements[i]] or "EP"
        field = (
            name[:4].ljust(4)
            if len(name) >= 4 or len(symbol) == 2 and name.upper().startswith(symbol.upper())
            else f" {name:<3}"
        )
        heads.append(f"{record[r]}{_encode36(serials[i], 5)} {field} {column[r]}   ")
        ends = i == last or chain[residue[i + 1]] != chain[r]
        ter = f"TER   {_encode36(serials[i] + 1, 5)}      {column[r]}\n" if ends else ""
        tails.append(f"  1.00  0.00          {symbol.upper():>2}\n{ter}")
    return heads, tails


def _serials(topology):
    """Atom numbers from 1; each TER takes one too."""
    return (np.arange(topology.n) + 1 + topology.chain_index[topology.residue_index]).tolist()


def _residue_columns(topology, r):
    """Columns 18 to 27: residue name, chain, number and insertion code."""
    name, chain = str(topology.residue_names[r]), str(topology.chain_ids[topology.chain_index[r]])
    text = str(topology.residue_ids[r])
    number, code = (
        (text[:-1], text[-1])
        if len(text) > 1 and text[-1].isalpha() and text[:-1].lstrip("-").isdigit()
        else (text, " ")
    )
    if number.lstrip("-").isdigit() and not -999 <= int(number) <= 9999:
        number = _encode36(int(number), 4) if int(number) > 0 else number
    if len(number) > 4 or len(name) > 4:
        raise ValueError(f"write_pdb: residue names and numbers must fit four columns, got {name} {text}")
    return f"{name[:3]:>3}{name[3:]:1}{chain[:1]:1}{number:>4}{code}"


def cryst1(box):
    lengths, angles = boxes.angles_and_lengths(box)
    a, b, c = lengths * 10
    alpha, beta, gamma = np.degrees(angles)
    return f"CRYST1{a:9.3f}{b:9.3f}{c:9.3f}{alpha:7.2f}{beta:7.2f}{gamma:7.2f} P 1           1 \n"


def conect_lines(topology):
    """CONECT records of the bonds that a reader cannot know from the residues' names."""
    table = {n: standard_residue(str(n)) for n in set(topology.residue_names.tolist())}
    kind = [table[n] for n in topology.residue_names.tolist()]
    serial = _serials(topology)
    links: dict[int, list[int]] = {}
    for i, j in topology.bonds.tolist():
        ri, rj = topology.residue_index[i], topology.residue_index[j]
        disulfide = topology.elements[i] == topology.elements[j] == 16
        if kind[ri] is None or kind[rj] is None or disulfide:
            links.setdefault(i, []).append(j)
            links.setdefault(j, []).append(i)
    lines = []
    for i in sorted(links):
        others = sorted(links[i])
        for k in range(0, len(others), 4):
            lines.append("CONECT" + "".join(_encode36(serial[a], 5) for a in [i, *others[k : k + 4]]) + "\n")
    return "".join(lines)
