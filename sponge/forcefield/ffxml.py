"""Force fields in OpenMM's XML format.

Source of the format: OpenMM user guide, chapter "Creating Force Fields". Read are atom types, residue templates, and
the terms listed in `TERMS`; whatever else would change energies is refused by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from triskele.core.extend import check

from ..elements import NUMBERS
from ..errors import FileFormatError
from ..residues import standard_residue
from .atom_values import AtomSection, NonbondedTypes, check_known, merge, number
from .drude import DrudeType, read_drude
from .named_terms import NamedAnisotropies, NamedImpropers
from .patches import Patches
from .scaled_pairs import ScaledPairs
from .scripts import Script, charmm_version, implicit_solvent, read_script
from .sources import Source, load_roots, shipped
from .tables import CustomTerms, TermTable
from .templates import Template, read_site

__all__ = ["AtomType", "ForceField"]

_ORDERINGS = ("default", "charmm", "amber", "smirnoff")
_REFUSED = {
    "Script": "its Python code is not run here, and it is none of the scripts that are known (those of OpenMM 8.6 for "
    "CHARMM36 2024, the Drude field of 2023, GLYCAM, Lipid21 and implicit solvents; for another solvent, use "
    "create_system(..., implicit_solvent=...))",
    "InitializationScript": "its Python code is not run here, and it is none of the scripts that are known (those of "
    "OpenMM 8.6 for CHARMM and GLYCAM)",
}
_OF_TEMPLATES = {
    "Bond": ("from", "to", "atomName#"),
    "ExternalBond": ("from", "atomName"),
    "Constraint": ("atomName#", "distance"),
    "VirtualSite": (
        "type",
        "index",
        "siteName",
        "atom#",
        "atomName#",
        "weight#",
        "weightCross",
        "excludeWith",
        "wo#",
        "wx#",
        "wy#",
        "p#",
    ),
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


class ForceField:
    """Atom types, residue templates and parameters of one force field, read from one or several files.

    Parameters
    ----------
    sources : str, path or Ligand
        Names of shipped force fields (see `shipped`), with or without ".xml", paths of .xml files (also packed,
        .xml.gz), names of files that an installed OpenMM has, such as "charmm36_2024.xml", or results of
        `build.ligand`.

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
    implicit_solvent : str
        Model that a file such as OpenMM's implicit/obc2.xml adds; "" without one.
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

    def __init__(self, *sources: str | Path | Source):
        if not sources:
            raise ValueError(
                f"forcefield: there must be a name or a file, got none; shipped are {', '.join(shipped())}"
            )
        self.types: dict[str, AtomType] = {}
        self.classes: set[str] = set()
        self.typed: set[str] = set()  # types with parameters by their own name
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
        self.sections_of_atoms: list[AtomSection] = []
        self.born: NonbondedTypes | None = None  # of a GBSAOBCForce
        self.drude: dict[tuple, DrudeType] = {}  # ("type", name) or ("class", name) of the particles
        self.version, self.implicit_solvent = "", ""
        self.named_first: set[str] = set()  # templates taken first by residues of their name, or of it without N or C
        self.scaled_pairs: list[ScaledPairs] = []
        self.named_impropers: list[NamedImpropers] = []
        self.named_anisotropies: list[NamedAnisotropies] = []
        self.names: list[str] = []
        roots = load_roots(sources)
        self.names = [name for name, _ in roots]
        for step in (self._read_types, self._read_residues, self._read_terms):
            for name, root in roots:
                try:
                    step(root)
                except FileFormatError as error:
                    raise FileFormatError(f"{name}: {error}") from None
                except (AttributeError, KeyError, TypeError, ValueError) as error:
                    what = f"attribute {error} is missing" if isinstance(error, KeyError) else str(error)
                    raise FileFormatError(f"{name}: must be a valid force field, got an error: {what}") from error

    def __repr__(self) -> str:
        return f"<ForceField {', '.join(self.names)}: {len(self.types)} atom types, {len(self.templates)} residues>"

    def _read_types(self, root):
        for child in root:
            if child.tag in _REFUSED:
                self._read_script(child, root)
            elif child.tag not in _IGNORED and child.tag not in TERMS:
                hint = (
                    " (AMOEBA and HIPPO are not supported: use a force field of fixed charges or Drude particles)"
                    if child.tag.startswith(("Amoeba", "Hippo"))
                    else ""
                )
                raise FileFormatError(
                    f"elements must be of {', '.join((*_IGNORED, *TERMS))}, got <{child.tag}>, a "
                    f"term that is not supported{hint}"
                )
        for e in root.iterfind("AtomTypes/Type"):
            check_known(e, ("name", "class", "element", "mass"))
            symbol = e.get("element", "")
            if symbol and symbol.upper() not in NUMBERS:
                raise FileFormatError(f"elements must be known, got {symbol!r} for type {e.get('name')!r}")
            new = AtomType(e.attrib["name"], e.attrib["class"], float(e.attrib["mass"]), NUMBERS.get(symbol.upper(), 0))
            self.classes.add(new.cls)
            if self.types.setdefault(new.name, new) != new:
                raise FileFormatError(f"atom type {new.name!r} must be defined once, got another in a file read before")

    def _read_script(self, e, root):
        text = e.text or ""
        if e.tag == "InitializationScript" and (version := charmm_version(text)):
            if self.version not in ("", version):
                raise FileFormatError(f"files must be of one version of CHARMM, got {version} after {self.version}")
            self.version = version
            return
        if e.tag == "Script" and (solvent := implicit_solvent(text)):
            if self.implicit_solvent not in ("", solvent):
                raise FileFormatError(
                    f"there must be one implicit solvent, got {solvent} after {self.implicit_solvent}"
                )
            self.implicit_solvent = solvent
            return
        script = read_script(e.tag, text) or Script("", {})
        match script.kind:
            case "names of GLYCAM":
                self.named_first |= {r.attrib["name"] for r in root.iterfind("Residues/Residue")}
            case "unscaled pairs":
                self.scaled_pairs.append(ScaledPairs.unscaled(script.tables["unscaled_types"]))
            case "scaled pairs":
                self.scaled_pairs.append(ScaledPairs(script.tables["scee_table"], script.tables["scnb_table"]))
            case "named impropers":
                self.named_impropers.append(NamedImpropers(script.tables))
            case "named anisotropies":
                self.named_anisotropies.append(NamedAnisotropies(script.tables))
            case _:
                raise FileFormatError(f"element <{e.tag}> cannot be read: {_REFUSED[e.tag]}")

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
        check_known(e, ("name", "override", "rigidWater"))
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
            check.choice(
                child.tag,
                ("Atom", "Bond", "ExternalBond", "VirtualSite", "Constraint"),
                f"residue template {residue!r}: an element",
                error=FileFormatError,
            )
            if child.tag != "Atom":  # whose further attributes act where a <UseAttributeFromResidue> names them
                check_known(child, _OF_TEMPLATES[child.tag])

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

    def keys(self, e, n: int, numbered: bool | None = None) -> tuple | None:
        """Keys of an element's `n` atoms for a TermTable; None if a class or type is not defined (such terms can never
        act). Attributes are `numbered`, class1, by default where there are several atoms.
        """
        out: list[tuple] = []
        for k in range(n):
            suffix = str(k + 1) if (n > 1 if numbered is None else numbered) else ""
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
                self.typed.add(kind)
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


def _read_simple(tag, table, parameters):
    def read(forcefield, section):
        check_known(section, (), (tag,))
        for e in section:
            check_known(e, ("class#", "type#", *parameters))
            keys = forcefield.keys(e, getattr(forcefield, table).n)
            if keys is not None:
                getattr(forcefield, table).add(keys, tuple(number(e, p) for p in parameters))

    return read


def _read_periodic(forcefield, section):
    ordering = _ordering(section)
    check_known(section, ("ordering",), ("Proper", "Improper"))
    for e in section:
        check_known(e, ("class#", "type#", "periodicity#", "phase#", "k#"))
        keys = forcefield.keys(e, 4)
        if keys is None:
            continue
        terms, k = [], 1
        while f"periodicity{k}" in e.attrib:
            terms.append((int(e.attrib[f"periodicity{k}"]), number(e, f"phase{k}"), number(e, f"k{k}")))
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
    check_known(section, ("ordering",), ("Proper", "Improper"))
    for e in section:
        check_known(e, ("class#", "type#", "c#"))
        keys = forcefield.keys(e, 4)
        if keys is not None:
            c = tuple(number(e, f"c{k}") for k in range(6))
            if e.tag == "Proper":
                forcefield.rb_propers.add(keys, c)
            else:
                forcefield.rb_impropers.add(keys, (ordering, c))


def _ordering(section):
    ordering = section.get("ordering", "default")
    return check.choice(ordering, _ORDERINGS, "the ordering of impropers", error=FileFormatError)


def _read_cmap(forcefield, section):
    offset = len(forcefield.maps)
    check_known(section, (), ("Map", "Torsion"))
    for e in section.iterfind("Map"):
        check_known(e, ())
        values = np.array((e.text or "").split(), np.float64)
        size = round(len(values) ** 0.5)
        if size * size != len(values) or not size:
            raise FileFormatError(f"a CMAP must be square, got {len(values)} values")
        forcefield.maps.append(values.reshape(size, size))
    for e in section.iterfind("Torsion"):
        check_known(e, ("class#", "type#", "map"))
        k = offset + int(e.attrib["map"])
        if not offset <= k < len(forcefield.maps):
            raise FileFormatError(
                f"a CMAP torsion must name one of {len(forcefield.maps) - offset} maps, got {e.attrib['map']}"
            )
        keys = forcefield.keys(e, 5)
        if keys is not None:
            forcefield.cmaps.add(keys, k)


def _read_nonbonded(forcefield, section):
    check_known(
        section, ("coulomb14scale", "lj14scale", "useDispersionCorrection"), ("Atom", "UseAttributeFromResidue")
    )
    new = NonbondedTypes(number(section, "coulomb14scale"), number(section, "lj14scale"))
    forcefield.nonbonded = merge(forcefield, section, forcefield.nonbonded, new, ("charge", "sigma", "epsilon"))


def _read_lennard_jones(forcefield, section):
    check_known(section, ("lj14scale", "useDispersionCorrection"), ("Atom", "NBFixPair"))
    new = NonbondedTypes(1.0, number(section, "lj14scale"))
    forcefield.lennard_jones = merge(forcefield, section, forcefield.lennard_jones, new, ("sigma", "epsilon"))
    for e in section.iterfind("NBFixPair"):
        check_known(e, ("class#", "type#", "sigma", "epsilon"))
        keys = forcefield.keys(e, 2)
        if keys is not None:
            forcefield.nbfix.append((*keys, number(e, "sigma"), number(e, "epsilon")))


def _read_custom(tag, n):
    def read(forcefield, section):
        check_known(
            section,
            ("energy", "ordering"),
            (
                "GlobalParameter",
                "PerBondParameter",
                "PerAngleParameter",
                "PerTorsionParameter",
                tag,
                *(("Improper",) if n == 4 else ()),
            ),
        )
        per = [e.attrib["name"] for e in section if e.tag.startswith("Per")]
        new = CustomTerms(
            {2: "bond", 3: "angle", 4: "torsion"}[n],
            section.attrib["energy"],
            per,
            {e.attrib["name"]: number(e, "defaultValue") for e in section.iterfind("GlobalParameter")},
        )
        ordering = _ordering(section) if "ordering" in section.attrib else "charmm"
        for e in section:
            if e.tag in (tag, "Improper"):
                check_known(e, ("class#", "type#", *per))
                keys = forcefield.keys(e, n)
                values = tuple(number(e, name) for name in per)
                if keys is not None and e.tag == "Improper":
                    new.impropers.add(keys, (ordering, values))
                elif keys is not None:
                    new.table.add(keys, values)
        forcefield.custom.append(new)

    return read


def _read_born(forcefield, section):
    check_known(section, (), ("Atom", "UseAttributeFromResidue"))
    forcefield.born = merge(
        forcefield, section, forcefield.born, NonbondedTypes(1.0, 1.0), ("charge", "radius", "scale")
    )


_FUNCTIONS = (
    "name",
    "type",
    "periodic",
    *(f"{axis}{of}" for axis in ("", "x", "y", "z") for of in ("size", "min", "max")),
)
_OF_ATOMS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # attributes and children
    "CustomNonbondedForce": (
        ("energy", "bondCutoff"),
        ("PerParticleParameter", "ComputedValue", "Atom", "UseAttributeFromResidue"),
    ),
    "CustomGBForce": ((), ("PerParticleParameter", "ComputedValue", "EnergyTerm", "Atom", "UseAttributeFromResidue")),
    "CustomHbondForce": (
        ("energy", "bondCutoff", "particlesPerDonor", "particlesPerAcceptor"),
        ("PerDonorParameter", "PerAcceptorParameter", "Donor", "Acceptor"),
    ),
    "CustomManyParticleForce": (
        ("energy", "bondCutoff", "particlesPerSet", "permutationMode"),
        ("PerParticleParameter", "TypeFilter", "Atom", "UseAttributeFromResidue"),
    ),
}


def _read_of_atoms(forcefield, section):
    attributes, children = _OF_ATOMS[section.tag]
    check_known(section, attributes, (*children, "GlobalParameter", "Function"))
    missing = [name for name in attributes if name not in section.attrib]
    if missing:
        raise FileFormatError(f"<{section.tag}> must give {', '.join(missing)}, got {dict(section.attrib)}")
    for e in section.iterfind("Function"):
        check_known(e, _FUNCTIONS)
    names = [e.attrib["name"] for e in section.iterfind("PerParticleParameter")]
    names += ["filterType"] * (section.tag == "CustomManyParticleForce")
    atoms = merge(forcefield, section, None, NonbondedTypes(1.0, 1.0), names)
    forcefield.sections_of_atoms.append(AtomSection(section, names, atoms))


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
    "GBSAOBCForce": _read_born,
    **dict.fromkeys(_OF_ATOMS, _read_of_atoms),
}
