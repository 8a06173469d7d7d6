"""OpenMM's custom forces on several points: compound bonds, centroids, hydrogen bonds, sets of particles, volume."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import combinations

import numpy as np

from ..errors import FileFormatError
from ..potentials.expressions.combined import ExpressionCombination, ExpressionVolume
from ..potentials.expressions.compound import ExpressionCompound
from ..system import System
from ..topology import check_indices
from .openmm_custom import children, exclusions, flag, global_parameters, parameters, tables
from .openmm_terms import OpenMMTerms

__all__ = ["READERS", "cutoff_of"]

_MOST_TERMS = 3_000_000  # of donors and acceptors, or of sets of particles


def cutoff_of(terms: OpenMMTerms, force: ET.Element, where: str) -> float | None:
    """The cut-off of a force, None without one."""
    method = int(force.attrib["method"])
    terms.pair_method(where, method)
    return float(force.attrib["cutoff"]) if method else None


def _compound(terms: OpenMMTerms, force: ET.Element, where: str) -> None:
    k = int(force.attrib["particles"])
    atoms, values = parameters(force, "PerBondParameters", "Bonds", tuple(f"p{i + 1}" for i in range(k)), where)
    if len(atoms):
        potential = ExpressionCompound(force.attrib["energy"], atoms, values, functions=tables(force, where))
        terms.potential(lambda: potential)


def _centroid(terms: OpenMMTerms, force: ET.Element, where: str) -> None:
    k = int(force.attrib["groups"])
    atoms, values = parameters(force, "PerBondParameters", "Bonds", tuple(f"g{i + 1}" for i in range(k)), where)
    if not len(atoms):
        return
    found = [[(int(p.attrib["p"]), p.get("weight")) for p in group] for group in children(force, "Groups")]
    check_indices(
        np.array([p for group in found for p, _ in group], int),
        terms.n,
        f"{where}: particles of groups",
        FileFormatError,
    )
    points, energy = tuple(f"g{i + 1}" for i in range(k)), force.attrib["energy"]

    def make():
        masses = terms.system.masses
        groups = [
            (np.array([p for p, _ in group]), np.array([masses[p] if w is None else float(w) for p, w in group]))
            for group in found
        ]
        return ExpressionCompound(
            energy,
            atoms,
            values,
            functions=tables(force, where),
            groups=groups,
            points=points,
            name="centroid_expression",
        )

    terms.potential(make)


def _hydrogen_bonds(terms: OpenMMTerms, force: ET.Element, where: str) -> bool:
    """Every donor with every acceptor that is not excluded."""
    donors, of_donors = parameters(force, "PerDonorParameters", "Donors", ("p1", "p2", "p3"), where)
    acceptors, of_acceptors = parameters(force, "PerAcceptorParameters", "Acceptors", ("p1", "p2", "p3"), where)
    if len(donors) * len(acceptors) > _MOST_TERMS:
        raise FileFormatError(
            f"{where}: there must be at most {_MOST_TERMS} pairs of a donor and an acceptor, got "
            f"{len(donors)} x {len(acceptors)}"
        )
    apart = np.ones((len(donors), len(acceptors)), bool)
    excluded = [
        np.array([int(e.attrib[of]) for e in children(force, "Exclusions")], int) for of in ("donor", "acceptor")
    ]
    for of, entries, n in zip(("donors", "acceptors"), excluded, apart.shape):
        check_indices(entries, n, f"{where}: excluded {of}", FileFormatError)
    apart[tuple(excluded)] = False
    d, a = np.nonzero(apart)
    if len(d):
        # atoms that a donor lacks are marked -1: the points that all have are those that the energy may name
        given = np.concatenate([donors[d], acceptors[a]], axis=1)
        whole = np.all(given >= 0, axis=0)
        points = np.array(["d1", "d2", "d3", "a1", "a2", "a3"])
        names, others = (
            {p.attrib["name"] for p in children(force, f"Per{of}Parameters")} for of in ("Donor", "Acceptor")
        )
        if names & others:
            raise FileFormatError(
                f"{where}: parameters of donors and acceptors must have different names, got "
                f"{min(names & others)!r} of both"
            )
        columns = {k: (k, d if k in names else a) for k, v in (of_donors | of_acceptors).items() if np.ndim(v)}
        kept = points[whole].tolist()
        potential = ExpressionCompound(
            force.attrib["energy"],
            np.ascontiguousarray(given[:, whole]),
            of_donors | of_acceptors,
            columns=columns,
            functions=tables(force, where),
            points=kept,
            cutoff=cutoff_of(terms, force, where),
            near=[(kept.index("d1"), kept.index("a1"))],
            name="hbond_expression",
        )
        terms.potential(lambda: potential)
    return force.attrib["method"] == "2"


def _many_particles(terms: OpenMMTerms, force: ET.Element, where: str) -> bool:
    """Every set of particles that filters and exclusions allow, in the order that the filters want."""
    _, values = parameters(force, "PerParticleParameters", "Particles", (), where)
    k, central = int(force.attrib["particlesPerSet"]), flag(force, "permutationMode", where, "")
    types = np.array([int(p.attrib["type"]) for p in children(force, "Particles")])
    allowed: list[set[int]] = [set(types.tolist()) for _ in range(k)]
    for entry in children(force, "TypeFilters"):
        chosen = {int(t) for t in entry.attrib["types"].split(",") if t.strip()}
        place = int(entry.attrib["index"])
        if not 0 <= place < k:
            raise FileFormatError(f"{where}: type filters must be of particles 0 to {k - 1} of a set, got {place}")
        if chosen:
            allowed[place] = chosen
    sets = _sets(len(types), k, central, where)
    excluded = np.zeros((len(types), len(types)), bool)
    i, j = exclusions(force, len(types), where).T
    excluded[i, j] = excluded[j, i] = True
    for i, j in combinations(range(k), 2):
        sets = sets[~excluded[sets[:, i], sets[:, j]]]
    ordered = np.full(len(sets), -1)
    orders = _orders(list(range(k)), int(central))
    for n, order in reversed(list(enumerate(orders))):
        fits = np.all([np.isin(types[sets[:, order[i]]], list(allowed[i])) for i in range(k)], axis=0)
        ordered[fits] = n
    sets = np.take_along_axis(sets, np.array(orders)[ordered], axis=1)[ordered >= 0]
    if len(sets):
        per = [p.attrib["name"] for p in children(force, "PerParticleParameters")]
        columns = {f"{name}{i + 1}": (name, sets[:, i]) for name in per for i in range(k)}
        near = [(0, i) for i in range(1, k)] if central else list(combinations(range(k), 2))
        potential = ExpressionCompound(
            force.attrib["energy"],
            sets,
            values,
            columns=columns,
            functions=tables(force, where),
            cutoff=cutoff_of(terms, force, where),
            near=near,
            name="many_particle_expression",
        )
        terms.potential(lambda: potential)
    return force.attrib["method"] == "2"


def _sets(n: int, k: int, central: bool, where: str) -> np.ndarray:
    """Sets of `k` of `n` particles: in rising order or, of all but the first, after any first one."""
    rest = k - 1 if central else k
    count = float(n if central else 1)
    for i in range(rest):
        count *= (n - int(central) - i) / (i + 1)
    if count > _MOST_TERMS:
        raise FileFormatError(
            f"{where}: there must be at most {_MOST_TERMS} sets of particles, got {count:.3g} (fewer particles)"
        )
    found = np.array(list(combinations(range(n), rest)), int).reshape(-1, rest)
    if not central:
        return found
    first = np.repeat(np.arange(n), len(found))
    found = np.concatenate([first[:, None], np.tile(found, (n, 1))], axis=1)
    return found[~np.any(found[:, 1:] == first[:, None], axis=1)]


def _orders(values: list[int], fixed: int) -> list[list[int]]:
    """Orders of the particles of a set, in OpenMM's sequence: the first that fits the filters is taken."""
    if fixed == len(values):
        return [values]
    found = []
    for i in range(fixed, len(values)):
        swapped = list(values)
        swapped[fixed], swapped[i] = swapped[i], swapped[fixed]
        found += _orders(swapped, fixed + 1)
    return found


def _variables(terms: OpenMMTerms, force: ET.Element, where: str) -> bool:
    """An expression of the energies of other forces, each read as if it stood alone."""
    values = global_parameters(force, where)
    inner, periodic = {}, False
    for entry in children(force, "CollectiveVariables"):
        if (name := entry.attrib["name"]) in inner:
            raise FileFormatError(f"{where}: variables must have different names, got {name!r} twice")
        inner[name] = own = OpenMMTerms(terms.where, terms.n, terms.read)
        for one in entry:
            periodic |= terms.read(own, one)
    energy, found = force.attrib["energy"], tables(force, where)

    def make():
        system, variables = terms.system, {}
        for name, own in inner.items():
            alone = System(system.topology, system.masses, system.box, exclusions=system.exclusions)
            if own.excludes_others(system.exclusions):
                raise FileFormatError(f"{where}: excluded pairs of {name} must be those of the other forces")
            own.add_to(alone)
            variables[name] = alone.potentials
        return ExpressionCombination(energy, variables, values, found)

    terms.potential(make)
    return periodic


def _volume(terms: OpenMMTerms, force: ET.Element, where: str) -> bool:
    energy, values = force.attrib["energy"], global_parameters(force, where)
    terms.potential(lambda: ExpressionVolume(energy, values))
    return True


READERS = {
    "CustomCompoundBondForce": _compound,
    "CustomCentroidBondForce": _centroid,
    "CustomHbondForce": _hydrogen_bonds,
    "CustomManyParticleForce": _many_particles,
    "CustomVolumeForce": _volume,
    "CustomCVForce": _variables,
}
