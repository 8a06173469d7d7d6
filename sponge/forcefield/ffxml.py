"""Force fields in OpenMM's XML format.

Source of the format: OpenMM user guide, chapter "Creating Force Fields". Read are atom types, residue templates, and
the terms listed in `TERMS`; whatever else would change energies is refused by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..elements import NUMBERS
from ..errors import FileFormatError
from ..load.structure import standard_residue
from .drude import DrudeType, read_drude
from .patches import Patches
from .sources import load_roots, shipped
from .tables import CustomTerms, TermTable
from .templates import Template, read_site

__all__ = ["AtomType", "ForceField"]

_ORDERINGS = ("default", "charmm", "amber", "smirnoff")
_REFUSED = {
    "Script": "it runs Python code, which is not done here (for implicit solvent: create_system(..., "
              "implicit_solvent=...))",
    "InitializationScript": "it runs Python code, which is not done here",
}
# the script by which CHARMM's files say their version
_VERSION = re.compile(
    r'\s*EXPECTED_VERSION = "(\w+)"\s*if hasattr\(self, "_charmm_ff_version"\):\s*'
    r"if self\._charmm_ff_version != EXPECTED_VERSION:\s*raise RuntimeError\([^\n]*\)\s*else:\s*"
    r"self\._charmm_ff_version = EXPECTED_VERSION\s*"
)
_OF_TEMPLATES = {
    "Bond": ("from", "to", "atomName#"), "ExternalBond": ("from", "atomName"), "Constraint": ("atomName#", "distance"),
    "VirtualSite": ("type", "index", "siteName", "atom#", "atomName#", "weight#", "weightCross", "excludeWith", "wo#",
                    "wx#", "wy#", "p#"),
}
_IGNORED = ("Info", "AtomTypes", "Residues", "Patches", "Include")


@dataclass(frozen=True)
class AtomType:
    """Name, class, mass (dalton) and atomic number of an atom type."""

    name: str
    cls: str
    mass: float
    element: int

    @property
    def keys(self) -> tuple:
        """The keys in a TermTable that mean this type; None stands for any."""
        return ("type", self.name), ("class", self.cls), None


@dataclass
class NonbondedTypes:
    """Charges and Lennard-Jones parameters of types, and the scales of 1-4 pairs."""

    coulomb14: float
    lj14: float
    from_residue: set = field(default_factory=set)  # of these, what residues give and not types
    by_key: dict = field(default_factory=dict)  # ("type", name) or ("class", name) -> {"charge", "sigma", "epsilon"}
    dispersion: bool | None = None


class ForceField:
    """Atom types, residue templates and parameters of one force field, read from one or several files.

    Parameters
    ----------
    sources : str or path
        Names of shipped force fields (see `shipped`), with or without ".xml", or paths of .xml files (also packed,
        .xml.gz).

    Attributes
    ----------
    types : dict of AtomType by name
    classes : set of str
        Names of all atom classes.
    templates : dict of Template by name
    bonds, angles, propers, impropers, rb_propers, rb_impropers, cmaps : TermTable
    maps : list of (size, size) float
        Energies of CMAP terms in kJ/mol, rows over the first angle, in the order of OpenMM's files.
    nonbonded : NonbondedTypes or None
    sections : set of str
        Names of the term sections that some file has.

    Raises
    ------
    FileFormatError
        If a file is not a force field, contradicts another, or needs an unsupported feature; the message names file and
        element.

    Examples
    --------
    >>> from triskele.sponge import ForceField
    >>> field = ForceField("amber14/tip3p")
    >>> field.templates["HOH"].names
    ('O', 'H1', 'H2')
    """

    def __init__(self, *sources: str | Path):
        if not sources:
            raise ValueError(
                f"forcefield: there must be a name or a file, got none; shipped are {', '.join(shipped())}"
            )
        self.types: dict[str, AtomType] = {}
        self.classes: set[str] = set()
        self.templates: dict[str, Template] = {}
        self.bonds, self.angles = TermTable(2, specific_first=False), TermTable(3, specific_first=False)
        self.propers, self.impropers = TermTable(4), TermTable(4)
        self.rb_propers, self.rb_impropers = TermTable(4), TermTable(4)
        self.cmaps = TermTable(5)
        self.maps: list[np.ndarray] = []
        self.nonbonded: NonbondedTypes | None = None
        self.lennard_jones: NonbondedTypes | None = None
        self.nbfix: list[tuple[tuple, tuple, float, float]] = []
        self.sections: set[str] = set()
        self.patches = Patches()
        self.urey_bradleys = TermTable(3, specific_first=False)
        self.custom: list[CustomTerms] = []
        self.drude: dict[tuple, DrudeType] = {}  # ("type", name) or ("class", name) of the particles
        self.version = ""
        self.names: list[str] = []
        roots = load_roots(sources)
        self.names = [name for name, _ in roots]
        for step in (self._read_types, self._read_residues, self._read_terms):
            for name, root in roots:
                try:
                    step(root)
                except FileFormatError as error:
                    raise FileFormatError(f"{name}: {error}") from None
                except (KeyError, ValueError) as error:
                    what = f"attribute {error} is missing" if isinstance(error, KeyError) else str(error)
                    raise FileFormatError(f"{name}: must be a valid force field, got an error: {what}") from error

    def __repr__(self) -> str:
        return f"<ForceField {', '.join(self.names)}: {len(self.types)} atom types, {len(self.templates)} residues>"

    def _read_types(self, root):
        for child in root:
            version = _VERSION.fullmatch(child.text or "") if child.tag == "InitializationScript" else None
            if version:
                if self.version not in ("", version[1]):
                    raise FileFormatError(f"files must be of one version of CHARMM, got {version[1]} after "
                                          f"{self.version}")
                self.version = version[1]
                continue
            if child.tag in _REFUSED:
                raise FileFormatError(f"element <{child.tag}> cannot be read: {_REFUSED[child.tag]}")
            if child.tag not in _IGNORED and child.tag not in TERMS:
                raise FileFormatError(
                    f"elements must be of {', '.join((*_IGNORED, *TERMS))}, got <{child.tag}>, a term that is not "
                    f"supported"
                )
        for e in root.iterfind("AtomTypes/Type"):
            _known(e, ("name", "class", "element", "mass"))
            symbol = e.get("element", "")
            if symbol and symbol.upper() not in NUMBERS:
                raise FileFormatError(f"elements must be known, got {symbol!r} for type {e.get('name')!r}")
            new = AtomType(e.attrib["name"], e.attrib["class"], float(e.attrib["mass"]), NUMBERS.get(symbol.upper(), 0))
            self.classes.add(new.cls)
            if self.types.setdefault(new.name, new) != new:
                raise FileFormatError(f"atom type {new.name!r} must be defined once, got another in a file read before")

    def _read_residues(self, root):
        for section in root.iterfind("Patches"):
            self.patches.read(section)
        for e in root.iterfind("Residues/Residue"):
            template = self._template(e)
            old = self.templates.get(template.name)
            if old is not None and old.override == template.override:
                raise FileFormatError(
                    f"residue template {template.name!r} must be defined once for each override level, got another at "
                    f"level {template.override} in a file read before"
                )
            if old is None or template.override > old.override:
                self.templates[template.name] = template

    def _template(self, e):
        _known(e, ("name", "override", "rigidWater"))
        residue = e.attrib["name"]
        if e.get("rigidWater", "true").lower() != "true":
            raise FileFormatError(f"residue template {residue!r}: rigidWater={e.get('rigidWater')!r} is not supported")
        atoms = e.findall("Atom")
        names = tuple(a.attrib["name"] for a in atoms)
        where = {n: k for k, n in enumerate(names)}
        if len(where) != len(names):
            raise FileFormatError(
                f"atoms of residue template {residue!r} must have different names, got {', '.join(names)}"
            )
        types = tuple(a.attrib["type"] for a in atoms)
        unknown = next((t for t in types if t not in self.types), None)
        if unknown is not None:
            raise FileFormatError(f"atom types of residue template {residue!r} must be defined, got {unknown!r}")
        for child in e:
            if child.tag == "AllowPatch":
                self.patches.allowed.setdefault(residue, []).append(child.attrib["name"])
                continue
            if child.tag not in ("Atom", "Bond", "ExternalBond", "VirtualSite", "Constraint"):
                raise FileFormatError(
                    f"residue template {residue!r} must hold atoms, bonds, virtual sites and constraints, got "
                    f"<{child.tag}>"
                )
            if child.tag != "Atom":  # whose further attributes act where a <UseAttributeFromResidue> names them
                _known(child, _OF_TEMPLATES[child.tag])

        def index(element, by_name, by_number):
            if by_name in element.attrib:
                if element.attrib[by_name] not in where:
                    raise FileFormatError(
                        f"residue template {residue!r} has no atom {element.attrib[by_name]!r}, which a "
                        f"<{element.tag}> names"
                    )
                return where[element.attrib[by_name]]
            k = int(element.attrib[by_number])
            if not 0 <= k < len(names):
                raise FileFormatError(
                    f"residue template {residue!r} has {len(names)} atoms, got atom {k} in a <{element.tag}>"
                )
            return k

        external = np.zeros(len(names), np.int64)
        for b in e.iterfind("ExternalBond"):
            external[index(b, "atomName", "from")] += 1
        return Template(
            name=residue,
            names=names,
            types=types,
            elements=np.array([self.types[t].element for t in types], np.int64),
            attributes=tuple({k: v for k, v in a.attrib.items() if k not in ("name", "type")} for a in atoms),
            bonds=np.array(
                [(index(b, "atomName1", "from"), index(b, "atomName2", "to")) for b in e.iterfind("Bond")], np.int64
            ).reshape(-1, 2),
            external=external,
            sites=tuple(read_site(s, index) for s in e.iterfind("VirtualSite")),
            constraints=tuple(
                (index(c, "atomName1", ""), index(c, "atomName2", ""), float(c.attrib["distance"]))
                for c in e.iterfind("Constraint")
            ),
            override=int(e.get("override", 0)),
        )

    def _read_terms(self, root):
        for child in root:
            if child.tag in TERMS:
                self.sections.add(child.tag)
                TERMS[child.tag](self, child)

    def keys(self, e, n: int) -> tuple | None:
        """Keys of an element's `n` atoms for a TermTable; None if a class or type is not defined (such terms can never
        act).
        """
        out: list[tuple] = []
        for k in range(n):
            suffix = str(k + 1) if n > 1 else ""
            cls, kind = e.get("class" + suffix), e.get("type" + suffix)
            if (cls is None) == (kind is None):
                raise FileFormatError(
                    f"<{e.tag}> must give class{suffix} or type{suffix} of each atom, got {dict(e.attrib)}"
                )
            if "" in (cls, kind):
                out.append(None)
            elif kind is not None:
                if kind not in self.types:
                    return None
                out.append(("type", kind))
            else:
                if cls not in self.classes:
                    return None
                out.append(("class", cls))
        return tuple(out)

    def components(self) -> dict[str, list[tuple[str, str]]]:
        """Bonds of the templates of residues that are not standard, by names; those that join amino acids included."""
        found = {}
        for name, t in self.templates.items():
            if standard_residue(name) is None and len(t.names) > 1:
                found[name] = [(t.names[i], t.names[j]) for i, j in t.bonds.tolist()]
                found[name] += [("-C", "N")] if "N" in t.names and t.external[t.names.index("N")] else []
        return found


def _known(element, attributes, children=()):
    """Raise if an element has attributes or children that are not read; # stands for a number."""
    for name in element.attrib:
        if re.sub(r"\d+$", "#", name) not in attributes and name not in attributes:
            raise FileFormatError(f"attribute {name}={element.attrib[name]!r} of <{element.tag}> is not supported")
    for child in element if children else ():
        if child.tag not in children:
            raise FileFormatError(
                f"<{element.tag}> must hold {', '.join(children)}, got <{child.tag}>, which is not supported"
            )


def _number(e, key):
    value = float(e.attrib[key])
    if not np.isfinite(value):
        raise FileFormatError(f"parameters must be finite, got {key}={e.attrib[key]!r} in <{e.tag}> {dict(e.attrib)}")
    return value


def _read_simple(tag, table, parameters):
    def read(forcefield, section):
        _known(section, (), (tag,))
        for e in section:
            _known(e, ("class#", "type#", *parameters))
            keys = forcefield.keys(e, getattr(forcefield, table).n)
            if keys is not None:
                getattr(forcefield, table).add(keys, tuple(_number(e, p) for p in parameters))

    return read


def _read_periodic(forcefield, section):
    ordering = _ordering(section)
    _known(section, ("ordering",), ("Proper", "Improper"))
    for e in section:
        _known(e, ("class#", "type#", "periodicity#", "phase#", "k#"))
        keys = forcefield.keys(e, 4)
        if keys is None:
            continue
        terms, k = [], 1
        while f"periodicity{k}" in e.attrib:
            terms.append((int(e.attrib[f"periodicity{k}"]), _number(e, f"phase{k}"), _number(e, f"k{k}")))
            k += 1
        lost = [name for name in e.attrib if name[0] in "pk" and int(re.sub(r"\D", "", name) or 0) not in range(1, k)]
        if lost:
            raise FileFormatError(f"<{e.tag}> must number its terms from 1 on without a gap, got {', '.join(lost)}")
        if e.tag == "Proper":
            forcefield.propers.add(keys, tuple(terms))
        else:
            forcefield.impropers.add(keys, (ordering, tuple(terms)))


def _read_rb(forcefield, section):
    ordering = _ordering(section) if "ordering" in section.attrib else "charmm"
    if ordering == "amber":
        raise FileFormatError(
            f"<{section.tag}> must have another ordering of impropers than 'amber', which is not supported there"
        )
    _known(section, ("ordering",), ("Proper", "Improper"))
    for e in section:
        _known(e, ("class#", "type#", "c#"))
        keys = forcefield.keys(e, 4)
        if keys is not None:
            c = tuple(_number(e, f"c{k}") for k in range(6))
            if e.tag == "Proper":
                forcefield.rb_propers.add(keys, c)
            else:
                forcefield.rb_impropers.add(keys, (ordering, c))


def _ordering(section):
    ordering = section.get("ordering", "default")
    if ordering not in _ORDERINGS:
        raise FileFormatError(f"the ordering of impropers must be {', '.join(_ORDERINGS)}, got {ordering!r}")
    return ordering


def _read_cmap(forcefield, section):
    offset = len(forcefield.maps)
    _known(section, (), ("Map", "Torsion"))
    for e in section.iterfind("Map"):
        _known(e, ())
        values = np.array((e.text or "").split(), np.float64)
        size = round(len(values) ** 0.5)
        if size * size != len(values) or not size:
            raise FileFormatError(f"a CMAP must be square, got {len(values)} values")
        forcefield.maps.append(values.reshape(size, size))
    for e in section.iterfind("Torsion"):
        _known(e, ("class#", "type#", "map"))
        k = offset + int(e.attrib["map"])
        if not offset <= k < len(forcefield.maps):
            raise FileFormatError(
                f"a CMAP torsion must name one of {len(forcefield.maps) - offset} maps, got {e.attrib['map']}"
            )
        keys = forcefield.keys(e, 5)
        if keys is not None:
            forcefield.cmaps.add(keys, k)


def _read_nonbonded(forcefield, section):
    _known(section, ("coulomb14scale", "lj14scale", "useDispersionCorrection"), ("Atom", "UseAttributeFromResidue"))
    new = NonbondedTypes(_number(section, "coulomb14scale"), _number(section, "lj14scale"))
    forcefield.nonbonded = _merge(forcefield, section, forcefield.nonbonded, new, ("charge", "sigma", "epsilon"))


def _read_lennard_jones(forcefield, section):
    _known(section, ("lj14scale", "useDispersionCorrection"), ("Atom", "NBFixPair"))
    new = NonbondedTypes(1.0, _number(section, "lj14scale"))
    forcefield.lennard_jones = _merge(forcefield, section, forcefield.lennard_jones, new, ("sigma", "epsilon"))
    for e in section.iterfind("NBFixPair"):
        _known(e, ("class#", "type#", "sigma", "epsilon"))
        keys = forcefield.keys(e, 2)
        if keys is not None:
            forcefield.nbfix.append((*keys, _number(e, "sigma"), _number(e, "epsilon")))


def _merge(forcefield, section, old, new, wanted):
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
        _known(e, ("class", "type", *(w for w in wanted if w not in from_residue), *more))
        key = forcefield.keys(e, 1)
        if key is not None:
            missing = [w for w in wanted if w not in from_residue and w not in e.attrib]
            if missing:
                raise FileFormatError(
                    f"<{section.tag}> must give {', '.join(missing)} of each type, got {dict(e.attrib)}"
                )
            extra = [w for w in more if w in e.attrib]
            new.by_key.pop(key[0], None)  # the last entry for an atom's type or class is taken
            new.by_key[key[0]] = {w: _number(e,
                                             w) for w in (*wanted, *extra) if w not in from_residue and w in e.attrib}
    return new


def _read_custom(tag, n):
    def read(forcefield, section):
        _known(section, ("energy", "ordering"), ("GlobalParameter", "PerBondParameter", "PerAngleParameter",
                                                 "PerTorsionParameter", tag, *(("Improper",) if n == 4 else ())))
        per = [e.attrib["name"] for e in section if e.tag.startswith("Per")]
        new = CustomTerms({2: "bond", 3: "angle", 4: "torsion"}[n], section.attrib["energy"], per,
                          {e.attrib["name"]: _number(e, "defaultValue") for e in section.iterfind("GlobalParameter")})
        ordering = _ordering(section) if "ordering" in section.attrib else "charmm"
        for e in section:
            if e.tag in (tag, "Improper"):
                _known(e, ("class#", "type#", *per))
                keys = forcefield.keys(e, n)
                values = tuple(_number(e, name) for name in per)
                if keys is not None and e.tag == "Improper":
                    new.impropers.add(keys, (ordering, values))
                elif keys is not None:
                    new.table.add(keys, values)
        forcefield.custom.append(new)

    return read


TERMS: dict[str, Any] = {
    "AmoebaUreyBradleyForce": _read_simple("UreyBradley", "urey_bradleys", ("d", "k")),
    "CustomBondForce": _read_custom("Bond", 2),
    "CustomAngleForce": _read_custom("Angle", 3),
    "CustomTorsionForce": _read_custom("Proper", 4),
    "HarmonicBondForce": _read_simple("Bond", "bonds", ("length", "k")),
    "HarmonicAngleForce": _read_simple("Angle", "angles", ("angle", "k")),
    "PeriodicTorsionForce": _read_periodic,
    "RBTorsionForce": _read_rb,
    "CMAPTorsionForce": _read_cmap,
    "NonbondedForce": _read_nonbonded,
    "LennardJonesForce": _read_lennard_jones,
    "DrudeForce": read_drude,
}
