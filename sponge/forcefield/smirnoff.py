"""SMIRNOFF force fields: parameters by SMARTS patterns, in the .offxml files of the Open Force Field Initiative.

Source of the format: the SMIRNOFF specification, https://openforcefield.github.io/standards/standards/smirnoff/.
"""

from __future__ import annotations

import gzip
import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from triskele.core.extend import check, gunzip, optional

from ..errors import FileFormatError
from .atom_values import check_known
from .smirnoff_sections import SECTIONS
from .smirnoff_units import plain_number, quantity

__all__ = ["Parameter", "Smirnoff"]

_IGNORED = ("Author", "Date")
_ALL = 2**32 - 1  # matches; RDKit stops at 1,000 by default


@dataclass(frozen=True)
class Parameter:
    """A parameter of a section: a SMARTS pattern, and values in the units of sponge."""

    smirks: str
    query: Any  # of RDKit
    tagged: tuple[int, ...]  # atoms of the query in the order of their tags
    values: dict[str, float]

    def series(self, name: str) -> list[float]:
        """Values ``name1``, ``name2`` and so on."""
        found: list[float] = []
        while f"{name}{len(found) + 1}" in self.values:
            found.append(self.values[f"{name}{len(found) + 1}"])
        return found


class Smirnoff:
    """The sections of a SMIRNOFF force field.

    Parameters
    ----------
    source : str or path
        Path of an .offxml file, also packed (.offxml.gz), or a name such as "openff-2.2.1": of a file that comes with
        the package, or of an installed ``openforcefields``.

    Attributes
    ----------
    name : str
    sections : dict of lists of Parameter
        By section, in the order of the file: a later parameter goes before an earlier one.
    headers : dict of dict
        Attributes of the sections.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    FileFormatError
        If the file is not a SMIRNOFF force field or needs a feature that is not supported; the message names the
        section, the pattern and the attribute.

    Examples
    --------
    >>> field = Smirnoff("openff-2.2.1")  # doctest: +SKIP
    >>> field.headers["Electrostatics"]["scale14"]  # doctest: +SKIP
    '0.8333333333'
    """

    def __init__(self, source: str | os.PathLike):
        self.name, data = _open(source)
        self.sections: dict[str, list[Parameter]] = {}
        self.headers: dict[str, dict[str, str]] = {}
        try:
            root = ElementTree.fromstring(data)
            if root.tag != "SMIRNOFF":
                raise FileFormatError(
                    f"the outermost element must be <SMIRNOFF>, got <{root.tag}>"
                    + (" (OpenMM's format: give the file to create_system)" if root.tag == "ForceField" else "")
                )
            check_known(root, ("version", "aromaticity_model"))
            check.choice(root.get("version"), ("0.3",), "the version of <SMIRNOFF>", error=FileFormatError)
            model = root.get("aromaticity_model")
            check.choice(model, ("OEAroModel_MDL",), "the aromaticity model", error=FileFormatError)
            for section in root:
                if section.tag not in _IGNORED:
                    self._read(section)
        except ElementTree.ParseError as error:
            raise FileFormatError(f"{self.name}: must be XML, got an error: {error}") from None
        except FileFormatError as error:
            raise FileFormatError(f"{self.name}: {error}") from None

    def __repr__(self) -> str:
        return f"<Smirnoff {self.name}: {sum(map(len, self.sections.values()))} parameters>"

    def _read(self, section):
        tag = section.tag
        known = SECTIONS[check.choice(tag, SECTIONS, "a section of <SMIRNOFF>", error=FileFormatError)]
        check_known(section, ("version", *known.header), () if known.element is None else (known.element,))
        if "version" not in section.attrib:
            raise FileFormatError(f"<{tag}> must have a version")
        for name, value in section.attrib.items():
            allowed = known.versions if name == "version" else known.header[name]
            if name == "scale14" or name == "default_idivf" and value != "auto":
                plain_number(value, f"{name} of <{tag}>")
            if allowed is not None:
                given = plain_number(value, name) if isinstance(allowed[0], float) else value
                check.choice(given, allowed, f"{name} of <{tag}>", error=FileFormatError)
        self.headers.setdefault(tag, {}).update(section.attrib)
        parameters = self.sections.setdefault(tag, [])
        for element in section if known.element is not None else ():
            try:
                parameters.append(_parameter(element, known))
            except FileFormatError as error:
                raise FileFormatError(f"<{tag}>, {element.get('smirks')!r}: {error}") from None

    def scale14(self, section: str, default: float) -> float:
        """Return the factor of pairs three bonds apart of "vdW" or "Electrostatics"."""
        return plain_number(self.headers.get(section, {}).get("scale14", str(default)), "scale14")

    def match(self, section: str, molecule: Any, key: Callable[[tuple], tuple] = tuple) -> dict[tuple, Parameter]:
        """Return the last parameter of a section that fits each group of atoms.

        `molecule` is one of RDKit, from `perceive`; `key` makes one of the orders in which the same atoms can be found.
        """
        found: dict[tuple, Parameter] = {}
        for p in self.sections.get(section, ()):
            for atoms in molecule.GetSubstructMatches(p.query, uniquify=False, useChirality=True, maxMatches=_ALL):
                found[key(tuple(atoms[k] for k in p.tagged))] = p
        return found


def _parameter(element, known):
    check_known(element, ("smirks", "id", "parent_id", "name", *known.values))
    smirks = element.get("smirks")
    if not smirks:
        raise FileFormatError(f"<{element.tag}> must have a pattern smirks, got {dict(element.attrib)}")
    query = optional.need("rdkit.Chem", "Smirnoff", "ligand").MolFromSmarts(smirks)
    if query is None:
        raise FileFormatError("smirks must be a SMARTS pattern, RDKit cannot read it")
    tags = {a.GetAtomMapNum(): a.GetIdx() for a in query.GetAtoms() if a.GetAtomMapNum()}
    if sorted(tags) != list(range(1, (known.tags or len(tags)) + 1)) or not tags:
        raise FileFormatError(f"smirks must tag atoms from 1 to {known.tags or 'their number'}, got {sorted(tags)}")
    values = {}
    for name, text in element.attrib.items():
        dimension = known.values.get(name, known.values.get(name.rstrip("0123456789") + "#"))
        if dimension is not None:
            values[name] = quantity(text, dimension, name)
    new = Parameter(smirks, query, tuple(tags[k] for k in sorted(tags)), values)
    if known.check is not None:
        known.check(new)
    return new


def _open(source):
    """Name and text of a file."""
    check.kind(source, (str, os.PathLike), "smirnoff: forcefield", "a name or a path")
    text = os.fspath(source)
    name = Path(text).name.removesuffix(".gz").removesuffix(".offxml")
    path = Path(text)
    if path.is_file():
        data = path.read_bytes()
        return text, gunzip(data, path) if path.suffix == ".gz" else data
    own = files("triskele.sponge") / "data" / "openff"
    known = sorted(f.name.removesuffix(".offxml.gz") for f in own.iterdir())
    if name in known:
        return name, gzip.decompress((own / f"{name}.offxml.gz").read_bytes())
    package = find_spec("openforcefields")
    if package is not None and package.origin is not None:
        path = Path(package.origin).parent / "offxml" / f"{name}.offxml"
        if path.is_file():
            return name, path.read_bytes()
    raise FileNotFoundError(
        f"smirnoff: the force field must be a file, one of an installed openforcefields, or one of {', '.join(known)}, "
        f"got {text!r} (the files of all force fields of OpenFF are at github.com/openforcefield/openff-forcefields)"
    )
