"""Scripts of OpenMM's force-field files: recognized by their text where we do the same, and never run.

Texts are compared without their layout, by a digest, as those of OpenMM 8.6.
"""

from __future__ import annotations

import re
from hashlib import sha256

__all__ = ["charmm_version", "implicit_solvent"]

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
