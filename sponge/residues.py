"""The standard residues, amino acids, nucleotides and water: their bonds and the other spellings of their names."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

__all__ = ["residue_table", "standard_residue"]


@cache
def residue_table() -> dict:
    """Bonds and other spellings of the standard residues: {name or alias: (name, bonds, aliases of atoms, kind)}."""
    raw = json.loads((files("triskele.sponge") / "data" / "residues.json").read_text())
    table = {}
    for name, entry in raw.items():
        bonds = [tuple(b.split(",")) for b in entry["bonds"].split()]
        names = dict(n.split("=") for n in entry["names"].split())
        for key in (name, *entry["aliases"]):
            table[key] = (name, bonds, names, entry["kind"])
    return table


def standard_residue(name: str) -> tuple | None:
    """Entry of `residue_table` for a residue's name, prefixes of AMBER's termini (NALA, CALA) included; None if
    unknown.
    """
    table = residue_table()
    if name in table:
        return table[name]
    if len(name) == 4 and name[0] in "NC" and table.get(name[1:], ("", "", "", ""))[3] == "protein":
        return table[name[1:]]
    return None
