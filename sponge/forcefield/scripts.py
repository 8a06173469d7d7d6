"""Scripts of OpenMM's force-field files: recognized by their code where we do the same, and never run.

A script is parsed, not executed. Its tables, assignments of literals such as ``scee_table = {...}``, are read as data;
the code that is left is compared by a digest with the scripts of OpenMM 8.6.
"""

from __future__ import annotations

import ast
import re
from hashlib import sha256
from itertools import accumulate
from typing import Any, NamedTuple

__all__ = ["Script", "charmm_version", "implicit_solvent", "read_script"]

# the script by which CHARMM's files say their version
_VERSION = re.compile(
    r'\s*EXPECTED_VERSION = "(\w+)"\s*if hasattr\(self, "_charmm_ff_version"\):\s*'
    r"if self\._charmm_ff_version != EXPECTED_VERSION:\s*raise RuntimeError\([^\n]*\)\s*else:\s*"
    r"self\._charmm_ff_version = EXPECTED_VERSION\s*"
)
# the scripts of implicit/*.xml, with FORCE for the class that makes the CustomGBForce
_CLASS = re.compile(r"\bGBSA(HCT|OBC1|OBC2|GBn2|GBn)Force\b")
_SOLVENTS = {
    "0945e8b4e4f9dfcc": ("hct", "obc1", "obc2", "gbn"),
    "a76fb024ab162823": ("gbn2",),
}
# what scripts do, by the tag and the digest of their code; tables have the names below
_KNOWN = {
    ("InitializationScript", "fbfebc35514b588e"): "names of GLYCAM",
    ("Script", "a5ce858f22f5fbb7"): "unscaled pairs",
    ("Script", "fdc1d99065a096a0"): "scaled pairs",
    ("Script", "905857847310c352"): "named impropers",
    ("Script", "8eccac95301a2306"): "named impropers",
    ("Script", "97d90c4a80854691"): "named anisotropies",
}
_TABLES = (
    "unscaled_types",
    "scee_table",
    "scnb_table",
    "residue_order",
    "patch_order",
    "periodic_improper_types",
    "harmonic_improper_types",
    *(f"{of}_{what}" for of in ("residue", "patch", "delete") for what in ("impropers", "anisotropies")),
)


class Script(NamedTuple):
    """A script that we know: what it does, and its tables by name."""

    kind: str
    tables: dict[str, Any]


def charmm_version(script: str) -> str | None:
    """The version that a script of CHARMM's files asks for; None if it is another script."""
    found = _VERSION.fullmatch(script)
    return found[1] if found else None


def implicit_solvent(script: str) -> str | None:
    """The model of the implicit solvent that a script adds; None if it is another script."""
    models = {name.lower() for name in _CLASS.findall(script)}
    text = " ".join(_CLASS.sub("FORCE", script).split())
    known = _SOLVENTS.get(sha256(text.encode()).hexdigest()[:16], ())
    return models.pop() if len(models) == 1 and models <= set(known) else None


def read_script(tag: str, text: str) -> Script | None:
    """Return the script of an element <Script> or <InitializationScript>, or None if we do not know it.

    >>> read_script("Script", "import os") is None
    True
    """
    try:
        nodes = ast.parse(text).body
    except (SyntaxError, ValueError):
        return None
    lines = text.encode().splitlines(keepends=True)  # the parser counts columns in bytes
    starts = [0, *accumulate(map(len, lines))]
    source, code, tables, end = b"".join(lines), b"", {}, 0
    for node in nodes:
        found = _table(node)
        if found is not None:
            name, value, tables[name] = found
            code += source[end : starts[value.lineno - 1] + value.col_offset]
            end = starts[value.end_lineno - 1] + value.end_col_offset
    plain = "\n".join(line.rstrip() for line in (code + source[end:]).decode().splitlines() if line.strip())
    kind = _KNOWN.get((tag, sha256(plain.encode()).hexdigest()[:16]))
    return None if kind is None else Script(kind, tables)


def _table(node: ast.stmt) -> tuple[str, Any, Any] | None:
    """Name, place and content of a table that a statement such as ``name = {...}`` or ``name = set([...])`` defines."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in _TABLES:
            if isinstance(value, ast.Call) and getattr(value.func, "id", "") == "set" and len(value.args) == 1:
                value = value.args[0]
            try:
                return name, value, ast.literal_eval(value)
            except ValueError:
                return None
    return None
