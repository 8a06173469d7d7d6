"""Patches of residue templates, CHARMM's way of termini and links."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from triskele.core.extend import check

from ..errors import FileFormatError
from .templates import Graph, SiteTemplate, Template, read_site

__all__ = ["Patches"]

_MOST = 3  # patches of one residue
_BONDS = ("AddBond", "RemoveBond", "AddExternalBond", "RemoveExternalBond")
_ALTERING = ("AddAtom", "ChangeAtom", "RemoveAtom")
_TAGS = ("AddAtom", "ChangeAtom", "RemoveAtom", *_BONDS, "VirtualSite", "ApplyToResidue")


def _formula(elements: Iterable[int]) -> int:
    """The number of atoms of each element, 0 left out, packed into one number: sums and differences stay meaningful."""
    return sum(1 << 16 * element for element in elements if element)


class Patches:
    """The patches of a force field, and the residues that each may be applied to.

    A patch of several residues is one patch for each of them, whose bonds to the others lead out of the residue.
    """

    def __init__(self):
        self.steps: dict[str, list[tuple[str, tuple[str, ...], dict[str, str]]]] = {}
        self.allowed: dict[str, list[str]] = {}  # by residue

    def read(self, section: Any) -> None:
        """Read a section <Patches>."""
        for patch in section:
            if patch.tag != "Patch":
                raise FileFormatError(f"<Patches> must hold <Patch>, got <{patch.tag}>")
            name, several = patch.attrib["name"], int(patch.get("residues", "1"))
            for part in range(1, several + 1):
                self._read_part(patch, f"{name}:{part}" if several > 1 else name, str(part), several > 1)

    def _read_part(self, patch: Any, name: str, part: str, several: bool) -> None:
        if name in self.steps:
            raise FileFormatError(f"patch {name!r} must be defined once, got another in a file read before")
        steps = self.steps[name] = []
        for e in patch:
            check.choice(e.tag, _TAGS, f"patch {name!r}: elements", error=FileFormatError)
            atoms = [e.attrib[k] for k in ("name", "atomName", "atomName1", "atomName2") if k in e.attrib]
            if e.tag == "VirtualSite":
                atoms = [v for k, v in e.attrib.items() if k == "siteName" or k.startswith("atomName")]
            here = [a.partition(":")[2] if several else a for a in atoms if not several or a.split(":")[0] == part]
            if not here:
                continue
            if e.tag == "VirtualSite":
                if len(here) < len(atoms) or "excludeWith" in e.attrib:
                    raise FileFormatError(
                        f"patch {name!r}: a virtual site must have the atoms of one residue and no "
                        f"excludeWith, got {dict(e.attrib)}"
                    )
                steps.append(
                    (
                        e.tag,
                        tuple(here),
                        {k: v.partition(":")[2] if several and v in atoms else v for k, v in e.attrib.items()},
                    )
                )
            elif e.tag == "ApplyToResidue":
                self.allowed.setdefault(here[0], []).append(name)
            elif len(here) < len(atoms):
                steps.append((f"{e.tag[:-4]}ExternalBond", tuple(here), {}))
            else:
                more = {k: v for k, v in e.attrib.items() if k not in ("name", "type")}
                steps.append((e.tag, tuple(here), {**more, "type": e.get("type", "")}))

    def templates(self, field: Any, graph: Graph) -> Iterator[Template]:
        """Patched templates that may fit a residue, by its elements: those of fewer patches first."""
        wanted = _formula(graph.elements.tolist())
        order = {name: k for k, name in enumerate(self.steps)}
        for count in range(1, _MOST + 1):
            for template in field.templates.values():
                known = sorted(
                    (p for p in self.allowed.get(template.name, ()) if p in order), key=lambda p: (":" in p, order[p])
                )
                if not known:
                    continue
                missing = wanted - _formula(template.elements.tolist())
                changes = {p: self._change(field.types, template, p) for p in known}
                for chosen in combinations(known, count):
                    if sum(changes[p] for p in chosen) == missing and self._apart(chosen):
                        made = self._apply(field.types, template, chosen)
                        if made is not None:
                            yield made

    def _change(self, types: Mapping[str, Any], template: Template, patch: str) -> int:
        """Return the change that a patch makes to the `_formula` of a template."""
        own = dict(zip(template.names, template.elements.tolist()))
        added = [values["type"] for tag, _, values in self.steps[patch] if tag == "AddAtom"]
        removed = [names[0] for tag, names, _ in self.steps[patch] if tag == "RemoveAtom"]
        return _formula(types[name].element for name in added if name in types) - _formula(
            own[name] for name in removed if name in own
        )

    def _apart(self, chosen: tuple[str, ...]) -> bool:
        """Return True if patches of one residue alter different atoms and at most one is of several residues."""
        single = [{names[0] for tag, names, _ in self.steps[p] if tag in _ALTERING} for p in chosen if ":" not in p]
        return len(chosen) - len(single) <= 1 and sum(map(len, single)) == len(set().union(*single))

    def _apply(self, types: Mapping[str, Any], template: Template, chosen: tuple[str, ...]) -> Template | None:
        """The template with patches applied one after the other; None if one does not fit it."""
        atoms = {
            n: (t, a, int(x))
            for n, t, a, x in zip(template.names, template.types, template.attributes, template.external)
        }
        sites = {
            template.names[s.index]: (
                s.kind,
                tuple(template.names[p] for p in s.parents),
                s.weights,
                template.names[s.shares],
            )
            for s in template.sites
        }
        bonds = {frozenset((template.names[i], template.names[j])) for i, j in template.bonds.tolist()}
        for tag, names, values in (step for patch in chosen for step in self.steps[patch]):
            attributes = {k: v for k, v in values.items() if k != "type"}
            bond = frozenset(names)
            if tag not in ("AddAtom", "RemoveAtom", "RemoveBond") and any(name not in atoms for name in names):
                return None
            match tag:
                case "AddAtom" if names[0] not in atoms:
                    atoms[names[0]] = (values["type"], attributes, 0)
                case "VirtualSite":
                    made: Any = read_site(Element("VirtualSite", values), lambda s, key, _: s.attrib[key])
                    sites[made.index] = made.kind, made.parents, made.weights, made.shares
                case "ChangeAtom":
                    atoms[names[0]] = (values["type"], attributes, atoms[names[0]][2])
                case "RemoveAtom":
                    if atoms.pop(names[0], ("", {}, 0))[2]:
                        return None  # it has a bond that leads out
                    bonds = {b for b in bonds if names[0] not in b}
                case "AddBond" if bond not in bonds:
                    bonds.add(bond)
                case "RemoveBond":
                    bonds.discard(bond)
                case "AddExternalBond" | "RemoveExternalBond":
                    kind, own, external = atoms[names[0]]
                    atoms[names[0]] = (kind, own, external + 1 if tag[0] == "A" else 0)
                case _:
                    return None
        if any(kind not in types for kind, _, _ in atoms.values()):
            return None
        place = {name: k for k, name in enumerate(atoms)}
        pairs = sorted(tuple(sorted(place[n] for n in b)) for b in bonds)
        kinds, attributes_of, external_of = zip(*atoms.values())
        return Template(
            name=template.name,
            names=tuple(atoms),
            types=kinds,
            attributes=attributes_of,
            elements=np.array([types[t].element for t in kinds], np.int64),
            bonds=np.array(pairs, np.int64).reshape(-1, 2),
            external=np.array(external_of, np.int64),
            sites=tuple(
                SiteTemplate(kind, place[name], tuple(place[p] for p in parents), weights, place[shares])
                for name, (kind, parents, weights, shares) in sites.items()
                if all(atom in place for atom in (name, *parents, shares))
            ),
            override=template.override,
            patches=chosen,
        )
