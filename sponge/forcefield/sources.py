"""Files of force fields: those that come with the package, those that a path names, and those of OpenMM."""

from __future__ import annotations

import gzip
import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from triskele.core.extend import check, gunzip

from ..errors import FileFormatError

__all__ = ["Source", "load_roots", "read_source", "shipped"]

# The water models of the amber19 family are the files of amber14.
_SAME = {f"amber19/{name}": f"amber14/{name}" for name in ("tip3p", "tip3pfb", "spce", "tip4pew", "opc", "opc3")}


@dataclass(frozen=True, eq=False)
class Source:
    """A force field in memory, in place of a file: its name in errors, and its XML."""

    name: str
    xml: bytes


def shipped() -> list[str]:
    """Names of the force fields that come with the package.

    Examples
    --------
    >>> from triskele.sponge.forcefield import shipped
    >>> "amber14/protein.ff14SB" in shipped()
    True
    """
    data = files("triskele.sponge") / "data"
    found = [
        f"{folder.name}/{f.name[:-7]}"
        for folder in data.iterdir()
        if folder.is_dir()
        for f in folder.iterdir()
        if f.name.endswith(".xml.gz")
    ]
    return sorted([*found, *_SAME])


def load_roots(sources: Sequence[str | Path | Source]) -> list[tuple[str, ElementTree.Element]]:
    """(name, root element) of each file, included ones after those that include them."""
    queue: list[Any] = list(sources)
    done, roots = set(), []
    while queue:
        source = queue.pop(0)
        name, data, folder = _open(source)
        if (name, data) in done:  # two ligands may have one name
            continue
        done.add((name, data))
        try:
            root = ElementTree.fromstring(data)
        except ElementTree.ParseError as error:
            raise FileFormatError(f"{name}: must be XML, got an error: {error}") from None
        if root.tag != "ForceField":
            raise FileFormatError(
                f"{name}: the outermost element of a force field must be <ForceField>, got <{root.tag}>"
                + (" (an OpenMM System: use sponge.load on it alone)" if root.tag == "System" else "")
            )
        roots.append((name, root))
        for e in root.iterfind("Include"):
            beside = None if folder is None else folder / e.attrib["file"]
            queue.append(beside if beside is not None and beside.is_file() else e.attrib["file"])
    return roots


def read_source(source: str | Path | Source) -> bytes:
    """XML of a shipped force field, a file (unpacked) or a source in memory."""
    return _open(source)[1]


def _open(source):
    check.kind(source, (str, os.PathLike, Source), "forcefield", "names, paths or a ForceField")
    if isinstance(source, Source):
        return source.name, source.xml, None
    text = str(source)
    bare = text[:-4] if text.endswith(".xml") else text
    known = shipped()
    if bare in known:
        bare = _SAME.get(bare, bare)
        folder, file = bare.split("/")
        return bare, gzip.decompress((files("triskele.sponge") / "data" / folder / f"{file}.xml.gz").read_bytes()), None
    path = Path(source)
    if not path.is_file():
        path = _of_openmm(source) or path
    if not path.is_file():
        hint = (
            " (for implicit solvent: create_system(..., implicit_solvent='obc2'))"
            if bare.startswith("implicit/")
            else ""
        )
        raise FileNotFoundError(
            f"forcefield: must be a file, a force field of an installed OpenMM, or one of "
            f"{', '.join(known)}, got {text!r}{hint}"
        )
    data = path.read_bytes()
    return text, gunzip(data, path) if path.suffix == ".gz" else data, path.parent


def _of_openmm(name):
    """Path of a force field that OpenMM, if it is installed, has under this name."""
    found = find_spec("openmm")
    return None if found is None or found.origin is None else Path(found.origin).parent / "app" / "data" / name
