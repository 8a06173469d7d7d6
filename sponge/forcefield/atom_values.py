"""Values of atoms by their types, as sections of a force-field file give them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from triskele.core.extend import check

from ..errors import FileFormatError

__all__ = ["AtomSection", "NonbondedTypes", "check_known", "merge", "number"]


@dataclass
class NonbondedTypes:
    """Charges and Lennard-Jones parameters of types, and the scales of 1-4 pairs."""

    coulomb14: float
    lj14: float
    from_residue: set = field(default_factory=set)  # of these, what residues give and not types
    by_key: dict = field(default_factory=dict)  # ("type", name) or ("class", name) -> {"charge", "sigma", "epsilon"}
    dispersion: bool | None = None


@dataclass(frozen=True)
class AtomSection:
    """A section whose terms are found among all atoms, such as CustomNonbondedForce."""

    element: Any  # xml.etree.ElementTree.Element
    parameters: list[str]  # names of the values of atoms
    atoms: NonbondedTypes


def check_known(element, attributes, children=()):
    """Raise if an element has attributes or children that are not read; # stands for a number."""
    for name in element.attrib:
        if name not in attributes and (name[-1] not in "0123456789" or re.sub(r"\d+$", "#", name) not in attributes):
            raise FileFormatError(f"attribute {name}={element.attrib[name]!r} of <{element.tag}> is not supported")
    for child in element if children else ():
        check.choice(child.tag, children, f"<{element.tag}>: an element", error=FileFormatError)


def number(e, key):
    """A finite number among the attributes of an element."""
    value = float(e.attrib[key])
    if not np.isfinite(value):
        raise FileFormatError(f"parameters must be finite, got {key}={e.attrib[key]!r} in <{e.tag}> {dict(e.attrib)}")
    return value


def merge(forcefield, section, old, new, wanted):
    """Read the values `wanted` of all <Atom> of a section into `new`, or into the `old` ones of files read before."""
    dispersion = section.get("useDispersionCorrection")
    new.dispersion = None if dispersion is None else dispersion.lower() in ("true", "1")
    if old is not None:
        # files round the factor 5/6 differently
        if abs(old.coulomb14 - new.coulomb14) > 1e-5 or abs(old.lj14 - new.lj14) > 1e-5:
            raise FileFormatError(
                f"scales of 1-4 pairs must agree with the files read before, got {new.coulomb14:g} and {new.lj14:g} "
                f"after {old.coulomb14:g} and {old.lj14:g}"
            )
        if None not in (old.dispersion, new.dispersion) and old.dispersion != new.dispersion:
            raise FileFormatError(
                f"useDispersionCorrection must agree with the files read before, got {new.dispersion}"
            )
        old.dispersion = new.dispersion if old.dispersion is None else old.dispersion
        new = old
    from_residue = {e.attrib["name"] for e in section.iterfind("UseAttributeFromResidue")}
    new.from_residue |= from_residue
    more = ("sigma14", "epsilon14") if section.tag == "LennardJonesForce" else ()
    for e in section.iterfind("Atom"):
        check_known(e, ("class", "type", *(w for w in wanted if w not in from_residue), *more))
        key = forcefield.keys(e, 1)
        if key is not None:
            missing = [w for w in wanted if w not in from_residue and w not in e.attrib]
            if missing:
                raise FileFormatError(
                    f"<{section.tag}> must give {', '.join(missing)} of each type, got {dict(e.attrib)}"
                )
            extra = [w for w in more if w in e.attrib]
            new.by_key.pop(key[0], None)  # the last entry for an atom's type or class is taken
            new.by_key[key[0]] = {w: number(e, w) for w in (*wanted, *extra) if w not in from_residue and w in e.attrib}
    return new
