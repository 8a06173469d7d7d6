"""OpenMM's XML: a serialized `System` becomes ours; a serialized `State` gives positions, velocities and box."""

from __future__ import annotations

import warnings
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from triskele.core.extend import check

from ..box import largest_cutoff
from ..constraints.choose import Constraints
from ..errors import BoxError, FileFormatError
from ..potentials.bonded.harmonic_bond import harmonic_bond
from ..system import System
from ..topology import Topology
from ..virtual_sites import sites as virtual_sites
from . import openmm_compound, openmm_custom
from .amber_files import read_bytes
from .openmm_gb import read_generalized_born
from .openmm_pairs import read_pairs
from .openmm_terms import METHODS, OpenMMTerms
from .terms import guess_elements, molecules_as_residues

__all__ = ["load_openmm", "read_force", "read_state", "read_xml"]

# Parts of an OpenMM System that are settings of a run to us
_RUN = (
    "MonteCarloBarostat",
    "MonteCarloAnisotropicBarostat",
    "MonteCarloMembraneBarostat",
    "MonteCarloFlexibleBarostat",
    "AndersenThermostat",
)
# Attributes of all forces: groups choose what is computed together, all of them act here
_ALWAYS = {"type", "version", "name", "forceGroup"}
_CUT = {"method", "cutoff"}
_SWITCH = {"useSwitchingFunction", "switchingDistance"}
_ENTRIES = {"Bonds", "Angles", "Torsions", "Particles", "Donors", "Acceptors"}  # every version of OpenMM writes these
_GLOBAL = {"GlobalParameters", "EnergyParameterDerivatives"}  # derivatives are an output, they change no energy
# Attributes and sections that are read, by force; any other is refused
_KNOWN: dict[str, tuple[set[str], set[str]]] = {
    "HarmonicBondForce": ({"usesPeriodic"}, {"Bonds"}),
    "HarmonicAngleForce": ({"usesPeriodic"}, {"Angles"}),
    "PeriodicTorsionForce": ({"usesPeriodic"}, {"Torsions"}),
    "RBTorsionForce": ({"usesPeriodic"}, {"Torsions"}),
    "CMAPTorsionForce": ({"usesPeriodic"}, {"Maps", "Torsions"}),
    "NonbondedForce": (
        _CUT
        | _SWITCH
        | {
            "alpha",
            "nx",
            "ny",
            "nz",
            "ljAlpha",
            "ljnx",
            "ljny",
            "ljnz",
            "dispersionCorrection",
            "ewaldTolerance",
            "exceptionsUsePeriodic",
            "includeDirectSpace",
            "recipForceGroup",
            "rfDielectric",
        },
        {"GlobalParameters", "ParticleOffsets", "ExceptionOffsets", "Particles", "Exceptions"},
    ),
    "DrudeForce": ({"usesPeriodic"}, {"Particles", "ScreenedPairs"}),
    "GBSAOBCForce": (_CUT | {"soluteDielectric", "solventDielectric", "surfaceAreaEnergy"}, {"Particles"}),
    "CustomBondForce": ({"energy", "usesPeriodic"}, _GLOBAL | {"PerBondParameters", "Bonds"}),
    "CustomAngleForce": ({"energy", "usesPeriodic"}, _GLOBAL | {"PerAngleParameters", "Angles"}),
    "CustomTorsionForce": ({"energy", "usesPeriodic"}, _GLOBAL | {"PerTorsionParameters", "Torsions"}),
    "CustomExternalForce": ({"energy"}, _GLOBAL | {"PerParticleParameters", "Particles"}),
    "CustomNonbondedForce": (
        _CUT | _SWITCH | {"energy", "useLongRangeCorrection"},
        _GLOBAL
        | {"PerParticleParameters", "ComputedValues", "Particles", "Exclusions", "Functions", "InteractionGroups"},
    ),
    "CustomCompoundBondForce": (
        {"energy", "particles", "usesPeriodic"},
        _GLOBAL | {"PerBondParameters", "Bonds", "Functions"},
    ),
    "CustomCentroidBondForce": (
        {"energy", "groups", "usesPeriodic"},
        _GLOBAL | {"PerBondParameters", "Groups", "Bonds", "Functions"},
    ),
    "CustomHbondForce": (
        _CUT | {"energy"},
        _GLOBAL | {"PerDonorParameters", "PerAcceptorParameters", "Donors", "Acceptors", "Exclusions", "Functions"},
    ),
    "CustomManyParticleForce": (
        _CUT | {"energy", "particlesPerSet", "permutationMode"},
        _GLOBAL | {"PerParticleParameters", "Particles", "Exclusions", "TypeFilters", "Functions"},
    ),
    "CustomCVForce": ({"energy"}, _GLOBAL | {"CollectiveVariables", "Functions"}),
    "CustomVolumeForce": ({"energy"}, _GLOBAL),
    "CustomGBForce": (
        _CUT,
        _GLOBAL | {"PerParticleParameters", "ComputedValues", "EnergyTerms", "Particles", "Exclusions", "Functions"},
    ),
}


def read_xml(path: str | Path) -> ET.Element:
    """Return the root element of an XML file, gzipped or not."""
    try:
        return ET.fromstring(read_bytes(path))
    except ET.ParseError as error:
        raise FileFormatError(f"{path}: must be XML, got {error} (is the file truncated?)") from None


def table(parent: ET.Element | None, *keys: str) -> np.ndarray:
    """Attributes of all children as numbers [children, keys]."""
    if parent is None:
        return np.empty((0, len(keys)))
    try:
        return np.array([[child.attrib[k] for k in keys] for child in parent], np.float64).reshape(-1, len(keys))
    except (KeyError, ValueError) as error:
        raise FileFormatError(f"{parent.tag}: every entry must have numbers {', '.join(keys)}, got {error}") from None


def read_state(root: ET.Element) -> dict[str, Any]:
    """Positions (nm), velocities (nm/ps), box and time (ps) of a serialized State; None for what it lacks."""
    vectors = {
        name: table(root.find(tag), "x", "y", "z")
        for name, tag in (("positions", "Positions"), ("velocities", "Velocities"))
    }
    box = root.find("PeriodicBoxVectors")
    return {k: v if len(v) else None for k, v in vectors.items()} | {
        "box": None if box is None else table(box, "x", "y", "z"),
        "time": float(root.get("time", "nan")),
    }


def load_openmm(
    path: str | Path,
    topology: Topology | None = None,  # names and residues; None: each molecule is a residue
    positions: Any = None,  # (n, 3) nm
    velocities: Any = None,  # (n, 3) nm/ps
    box: Any = None,  # (3, 3) nm, in place of the file's; used if any force is periodic
    root: ET.Element | None = None,  # in place of the file
) -> System:
    """Read an OpenMM ``System`` as `XmlSerializer` writes it; a force of an unknown class raises FileFormatError.

    Harmonic bonds and angles, periodic and Ryckaert-Bellemans torsions, cross terms, NonbondedForce, DrudeForce,
    GBSAOBCForce, and CustomGBForce of the implicit solvents HCT, OBC, GBn and GBn2 are read as what they are. Other
    custom forces become the potential that their expression is, or are compiled from it.

    Global parameters, and those of NonbondedForce that depend on them, have their default values, and all force groups
    act. A barostat or thermostat is left out with a warning, since it belongs to a `Simulation`.
    """
    root = read_xml(path) if root is None else root
    if root.tag != "System":
        hint = {
            "ForceField": " (a force field: pass it as forcefield=, with a structure)",
            "State": " (a State: pass it second, after the System)",
        }.get(root.tag, "")
        raise FileFormatError(f"{path}: must hold a System, got {root.tag}{hint}")
    particles = root.find("Particles")
    if particles is None or root.find("Forces") is None:
        raise FileFormatError(f"{path}: a System must have Particles and Forces")
    with _as_written(str(path), "Particles and Constraints"):
        masses = np.array([float(p.attrib["mass"]) for p in particles])
        fixed = table(root.find("Constraints"), "p1", "p2", "d")
        sites = _virtual_sites(path, particles)
    n = len(masses)
    constraints = Constraints(fixed[:, :2].astype(int), fixed[:, 2])
    terms = OpenMMTerms(str(path), n, lambda terms, force: read_force(terms, force, path))
    periodic, remove = False, False  # a CMMotionRemover, which OpenMM adds unless told not to, asks for the default
    for force in root.iterfind("Forces/*"):
        kind = force.get("type", "")
        if kind == "CMMotionRemover":
            remove = True
        elif kind in _RUN:
            settings = ", ".join(f"{k} {v}" for k, v in force.attrib.items() if k not in _ALWAYS)
            warnings.warn(
                f"{path}: {kind} is a part of the run, not of the system, and left out: {settings} (see Simulation)",
                stacklevel=3,
            )
        else:
            periodic |= read_force(terms, force, path)
    terms.settle_exclusions()
    if periodic and box is None:
        box = table(root.find("PeriodicBoxVectors"), "x", "y", "z")
    if topology is None:
        of_sites = [np.stack([s.sites, s.parents[:, 0]], axis=1) for s in sites]
        bonds = np.concatenate([terms.bonded_pairs(), constraints.pairs, *of_sites])
        elements = guess_elements(masses)
        for kind in sites:
            elements[kind.sites] = 0
        topology = molecules_as_residues(elements, masses, np.unique(np.sort(bonds, axis=1), axis=0))
    for what, found in (("structure", topology.n), ("set of coordinates", n if positions is None else len(positions))):
        if found != n:
            raise FileFormatError(f"{path}: has {n} atoms, got a {what} of {found} (do the files belong together?)")
    # hydrogens are known by their masses, also when these have been made larger; other atoms are not, then
    light, hydrogen = guess_elements(masses) == 1, topology.elements == 1
    if np.any(light != hydrogen):
        i = int(np.argmax(light != hydrogen))
        raise FileFormatError(
            f"{path}: particle {i} has a mass of {masses[i]} dalton, got {topology.describe(i)} of the structure there "
            "(are the atoms in another order?)"
        )
    system = System(
        topology,
        masses,
        box if periodic else None,
        positions,
        velocities,
        constraints=constraints,
        virtual_sites=sites,
        exclusions=terms.exclusions,
        remove_com_motion=None if remove else False,
    )
    try:
        terms.add_to(system)
        system.check()
    except (BoxError, FileFormatError):
        raise
    except ValueError as error:
        raise FileFormatError(f"{path}: {error}") from error
    _warn_of_broken_molecules(path, system)
    return system


def read_force(terms: OpenMMTerms, force: ET.Element, path: str | Path) -> bool:
    """Add a force, as a System has it, to the terms; return True if it needs the box."""
    readers = (
        _READERS
        | openmm_custom.READERS
        | openmm_compound.READERS
        | {"CustomNonbondedForce": read_pairs, "CustomGBForce": read_generalized_born}
    )
    kind, name = force.get("type", ""), force.get("name", "")
    check.choice(kind, readers, f"{path}: the kind of force {name!r}", error=FileFormatError)
    where = f"{path}: {kind}" + (f" {name!r}" if name not in ("", kind) else "")
    _check_known(force, kind, where)
    uses_box = openmm_custom.flag(force, "usesPeriodic", where)
    images = (
        uses_box or _periodic_exceptions(force, where) or (kind.startswith("Custom") and force.get("method") == "2")
    )
    with _as_written(where, "what OpenMM writes for it"), terms.images(images):
        periodic = bool(readers[kind](terms, force, where))
    return periodic or uses_box


def _warn_of_broken_molecules(path: str | Path, system: System) -> None:
    """Warn if a bond that takes no nearest image is longer than half the box: there is a face of the box between its
    atoms.
    """
    for p in system.potentials:
        if isinstance(p, harmonic_bond) and not p.images and system.positions is not None and system.box is not None:
            lengths = p.coordinates(system.positions)
            if np.any(lengths > largest_cutoff(system.box)):
                i, j = p.atoms[int(np.argmax(lengths))]
                warnings.warn(
                    f"{path}: bonded atoms {i} and {j} are {lengths.max():.3g} nm apart, and bonds of the file take no "
                    "nearest images (are molecules of the positions broken at the faces of the box?)",
                    stacklevel=4,
                )


def _check_known(force: ET.Element, kind: str, where: str) -> None:
    """Raise if the force has an attribute or a section that is not read, or lacks its entries."""
    attributes, sections = _KNOWN[kind]
    for name in force.attrib:
        if name not in attributes | _ALWAYS:
            raise FileFormatError(f"{where}: attribute {name}={force.attrib[name]!r} is not supported")
    for child in force:
        check.choice(child.tag, sections, f"{where}: a section", error=FileFormatError)
    for name in sorted(sections & _ENTRIES):
        if force.find(name) is None:
            raise FileFormatError(f"{where}: must have a section {name}, got none")


@contextmanager
def _as_written(where: str, what: str) -> Iterator[None]:
    """Errors of a file that lacks attributes, or has letters for numbers, name the place."""
    try:
        yield
    except FileFormatError:
        raise
    except (KeyError, ValueError, IndexError, TypeError, AttributeError) as error:
        raise FileFormatError(f"{where}: must have {what}, got {type(error).__name__} {error}") from error


def _virtual_sites(path: str | Path, particles: ET.Element) -> list[virtual_sites.VirtualSite]:
    found: dict[tuple, list] = {}
    for i, particle in enumerate(particles):
        for site in particle:
            found.setdefault((site.tag, sum(k[0] == "p" and k[1:].isdigit() for k in site.attrib)), []).append(
                (i, site.attrib)
            )
    kinds: list[virtual_sites.VirtualSite] = []
    for (tag, k), entries in found.items():
        numbers = lambda *keys, entries=entries: np.array([[float(a[key]) for key in keys] for _, a in entries])
        each = lambda name, k=k: [f"{name}{j + 1}" for j in range(k)]
        atoms, parents = np.array([i for i, _ in entries]), numbers(*each("p")).astype(int)
        match tag:
            case "TwoParticleAverageSite":
                kinds.append(virtual_sites.TwoParticleAverage(atoms, parents, numbers("w1", "w2")))
            case "ThreeParticleAverageSite":
                kinds.append(virtual_sites.ThreeParticleAverage(atoms, parents, numbers("w1", "w2", "w3")))
            case "OutOfPlaneSite":
                kinds.append(virtual_sites.OutOfPlane(atoms, parents, *numbers("w12", "w13", "wc").T))
            case "LocalCoordinatesSite":
                kinds.append(
                    virtual_sites.LocalCoordinates(
                        atoms,
                        parents,
                        numbers(*each("wo")),
                        numbers(*each("wx")),
                        numbers(*each("wy")),
                        numbers("pos1", "pos2", "pos3"),
                    )
                )
            case _:
                raise FileFormatError(f"{path}: virtual site {tag} of particle {atoms[0]} is not supported")
    return kinds


# -- forces: each reader adds to the terms; those of pairs and fields return whether the force is periodic -------------


def _simple(add: Callable, section: str, atoms: int, *parameters: str) -> Callable:
    """A reader of terms of a number of atoms, which hands the attributes `parameters` to a method of the terms."""

    def read(terms: OpenMMTerms, force: ET.Element, where: str) -> None:
        t = table(force.find(section), *(f"p{k + 1}" for k in range(atoms)), *parameters)
        add(terms, t[:, :atoms], *t[:, atoms:].T)

    return read


def _cmap(terms: OpenMMTerms, force: ET.Element, where: str) -> None:
    maps: list[np.ndarray] = []
    for entry in force.iterfind("Maps/*"):
        size = int(entry.get("size"))
        energies = table(entry, "e")
        if energies.size != size * size:
            raise FileFormatError(f"{where}: map {len(maps)} must hold {size * size} energies, got {energies.size}")
        maps.append(energies.reshape(size, size).T)  # the first angle runs fastest in the file
    t = table(force.find("Torsions"), "map", "a1", "a2", "a3", "a4", "b1", "b2", "b3", "b4").astype(int)
    terms.cmap(t[:, 1:5], t[:, 5:], t[:, 0], maps)


def _nonbonded(terms: OpenMMTerms, force: ET.Element, where: str) -> bool:
    if not openmm_custom.flag(force, "includeDirectSpace", where, "1"):
        raise FileFormatError(f"{where}: must include direct space")
    number = int(force.attrib["method"])
    check.integer(number, f"{where}: method", 0, len(METHODS) - 1, error=FileFormatError)
    terms.one_nonbonded(where, number)
    terms.exclusion_images = _periodic_exceptions(force, where)
    options: dict[str, Any] = {
        "method": METHODS[number],
        "tolerance": float(force.attrib["ewaldTolerance"]),
        "dispersion_correction": openmm_custom.flag(force, "dispersionCorrection", where),
        "dielectric": float(force.attrib["rfDielectric"]),
    }
    if number:  # without a method the file's cut-off means nothing, and may be 0
        options["cutoff"] = float(force.attrib["cutoff"])
    if openmm_custom.flag(force, "useSwitchingFunction", where) and number:
        options["switch"] = float(force.attrib["switchingDistance"])
    for alpha, grid, name in (("alpha", ("nx", "ny", "nz"), ""), ("ljAlpha", ("ljnx", "ljny", "ljnz"), "lj_")):
        if float(force.get(alpha, "0")) != 0:
            options[f"{name}alpha"] = float(force.attrib[alpha])
            options[f"{name}grid"] = tuple(int(force.attrib[k]) for k in grid)
    p = table(force.find("Particles"), "q", "sig", "eps")
    _offset(force, "ParticleOffsets", "particle", p, where)
    if len(p) != terms.n:
        raise FileFormatError(f"{where}: must have parameters of each of {terms.n} particles, got {len(p)}")
    terms.nonbonded(p[:, 0], p[:, 1], p[:, 2], options)
    e = table(force.find("Exceptions"), "p1", "p2", "q", "sig", "eps")
    _offset(force, "ExceptionOffsets", "exception", e[:, 2:], where)
    for what, values in (("particle", p), ("exception", e[:, 2:])):
        if np.any(values[:, 1:] < 0) or not np.all(np.isfinite(values)):
            i = int(np.argmax(np.any(values[:, 1:] < 0, axis=1) | ~np.all(np.isfinite(values), axis=1)))
            raise FileFormatError(
                f"{where}: sigma and epsilon must be >= 0 and all parameters finite, got q={values[i, 0]}, "
                f"sig={values[i, 1]}, eps={values[i, 2]} of {what} {i}"
            )
    terms.exclude(where, e[:, :2])
    terms.exceptions(e[:, :2], e[:, 2], e[:, 3], e[:, 4])
    return number >= 2


def _periodic_exceptions(force: ET.Element, where: str) -> bool:
    return openmm_custom.flag(force, "exceptionsUsePeriodic", where) and int(force.attrib["method"]) >= 2


def _offset(force: ET.Element, section: str, key: str, values: np.ndarray, where: str) -> None:
    """Add what global parameters, at their defaults, add to charge, sigma and epsilon [m, 3]."""
    defaults = {p.attrib["name"]: float(p.attrib["default"]) for p in openmm_custom.children(force, "GlobalParameters")}
    for offset in openmm_custom.children(force, section):
        name, row = offset.attrib["parameter"], int(offset.attrib[key])
        if name not in defaults or not 0 <= row < len(values):
            raise FileFormatError(
                f"{where}: {section} must name global parameters and an {key} there is, got {name!r}, {row}"
            )
        values[row] += [defaults[name] * float(offset.attrib[k]) for k in ("q", "sig", "eps")]


def _drude(terms: OpenMMTerms, force: ET.Element, where: str) -> None:
    p = table(force.find("Particles"), "p", *(f"p{k}" for k in range(1, 5)), "charge", "polarizability", "a12", "a34")
    s = table(force.find("ScreenedPairs"), "p1", "p2", "thole")
    terms.drude(where, p[:, :5], p[:, 5], p[:, 6], p[:, 7:], s[:, :2], s[:, 2])


def _gbsa_obc(terms: OpenMMTerms, force: ET.Element, where: str) -> bool:
    p = table(force.find("Particles"), "q", "r", "scale")
    method = int(force.attrib["method"])
    terms.pair_method(where, method)
    terms.generalized_born(
        model="obc2",
        cutoff=float(force.attrib["cutoff"]) if method else None,
        charges=p[:, 0],
        radii=p[:, 1],
        scales=p[:, 2],
        solute_dielectric=float(force.attrib["soluteDielectric"]),
        solvent_dielectric=float(force.attrib["solventDielectric"]),
        surface_tension=4 * np.pi * float(force.get("surfaceAreaEnergy", "2.25936")),
    )
    return method == 2


_READERS = {
    "HarmonicBondForce": _simple(OpenMMTerms.bonds, "Bonds", 2, "k", "d"),
    "HarmonicAngleForce": _simple(OpenMMTerms.angles, "Angles", 3, "k", "a"),
    "PeriodicTorsionForce": _simple(OpenMMTerms.torsions, "Torsions", 4, "k", "periodicity", "phase"),
    "RBTorsionForce": _simple(OpenMMTerms.ryckaert_bellemans, "Torsions", 4, *(f"c{k}" for k in range(6))),
    "CMAPTorsionForce": _cmap,
    "NonbondedForce": _nonbonded,
    "DrudeForce": _drude,
    "GBSAOBCForce": _gbsa_obc,
}
