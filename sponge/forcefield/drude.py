"""Drude oscillators of a force field: the section <DrudeForce>, and the potentials that follow from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import FileFormatError, MissingParameterError
from .named_terms import NamedResidues

if TYPE_CHECKING:
    from ..topology import Topology
    from .assign import Assignment

__all__ = ["DrudeType", "Oscillators", "drude_particles", "read_drude"]

_NUMBERS = ("charge", "polarizability", "thole", "aniso12", "aniso34")


class DrudeType(NamedTuple):
    """What makes an atom of some type a Drude particle: keys of its atom and of those that give directions."""

    atoms: tuple[Any, ...]  # four keys of a TermTable, the first that of its atom; None where there is none
    charge: float
    polarizability: float
    thole: float
    aniso12: float = 1.0
    aniso34: float = 1.0


def read_drude(forcefield: Any, section: Any) -> None:
    """Read a section <DrudeForce>."""
    known = {*_NUMBERS, *(f"{of}{k}" for of in ("type", "class") for k in range(1, 6))}
    for e in section:
        wrong = [name for name in e.attrib if name not in known]
        if e.tag != "Particle" or wrong:
            raise FileFormatError(
                f"<DrudeForce> must hold <Particle> with {', '.join(sorted(known))}, got <{e.tag}> "
                f"with {', '.join(wrong) or 'these'}"
            )
        keys = [
            ("type", e.attrib[f"type{k}"])
            if f"type{k}" in e.attrib
            else ("class", e.attrib[f"class{k}"])
            if f"class{k}" in e.attrib
            else None
            for k in range(1, 6)
        ]
        if keys[0] is None or keys[1] is None:
            raise FileFormatError(
                f"<Particle> of a <DrudeForce> must give its own type and that of its atom, got {dict(e.attrib)}"
            )
        if missing := [name for name in _NUMBERS[:3] if name not in e.attrib]:
            raise FileFormatError(
                "<Particle> of a <DrudeForce> must give charge, polarizability and thole, got no "
                f"{', '.join(missing)} for {keys[0][1]}"
            )
        numbers = {name: float(e.attrib[name]) for name in _NUMBERS if name in e.attrib}
        forcefield.typed |= {key[1] for key in keys if key is not None and key[0] == "type"}
        forcefield.drude[keys[0]] = DrudeType(tuple(keys[1:]), **numbers)


def drude_particles(forcefield: Any, template: Any) -> list[tuple[int, tuple[int, ...], DrudeType]]:
    """Return the Drude particles of a residue template: place, places of four other atoms (-1 for none), and type."""
    found = []
    for k, name in enumerate(template.types if forcefield.drude else ()):
        kind = next((forcefield.drude[key] for key in forcefield.types[name].keys if key in forcefield.drude), None)
        if kind is None:
            continue
        others: list[int] = []
        for key in kind.atoms:
            places = [] if key is None else [i for i, t in enumerate(template.types) if key in forcefield.types[t].keys]
            if len(places) > 1 or (not places and not others):
                names = ", ".join(template.names[i] for i in places) or "none"
                raise MissingParameterError(
                    f"create_system: Drude particle {template.names[k]} of residue template {template.name} must "
                    f"find one atom of {key[0]} {key[1]!r}, got {names}"
                )
            others.append(places[0] if places else -1)
        found.append((k, tuple(others), kind))
    return found


class Oscillators:
    """The Drude oscillators of all atoms."""

    def __init__(self, forcefield: Any, assignment: Assignment, topology: Topology):
        rows, kinds = [np.empty((0, 5), np.int64)], []
        for template, atoms in assignment.groups:
            padded = np.column_stack([atoms, np.full(len(atoms), -1)])
            for place, others, kind in drude_particles(forcefield, template):
                rows.append(padded[:, [place, *others]])
                kinds += [kind[1:]] * len(atoms)
        self.particles = np.concatenate(rows)  # (m, 5) int, as for `drude_oscillators`
        self._values = np.array(kinds, np.float64).reshape(-1, 5)
        residues = NamedResidues(assignment, topology) if forcefield.named_anisotropies else None
        for rule in forcefield.named_anisotropies:
            named = rule.find(residues)
            for row, atom in enumerate(self.particles[:, 1].tolist()):
                if atom in named:
                    self.particles[row, 2:], self._values[row, 3:] = named[atom]

    @property
    def pairs(self) -> np.ndarray:
        """Drude particles and their atoms, (m, 2)."""
        return self.particles[:, :2]

    def take_mass(self, masses: np.ndarray, mass: float) -> None:
        """Give all Drude particles `mass` dalton, at the cost of their atoms."""
        drude, atom = self.pairs.T
        masses[atom] += masses[drude] - mass
        masses[drude] = mass
        if np.any(masses[atom] <= 0):
            raise ValueError(f"create_system: drude_mass must be below the masses of atoms, got {mass} dalton")

    def add_to(self, system: Any, excluded: np.ndarray) -> None:
        """Add the potentials; dipoles of the pairs `excluded` [m, 2] are screened."""
        from ..potentials.polarizable.drude import drude_oscillators

        row = np.full(system.n, -1)
        row[self.particles[:, 0]] = np.arange(len(self.particles))
        screened = row[excluded]
        screened = screened[(screened >= 0).all(1)]
        charge, alpha, thole, *_ = self._values.T
        for potential in drude_oscillators(
            self.particles, charge, alpha, self._values[:, 3:], screened, thole[screened].sum(1)
        ):
            system.add(potential)
