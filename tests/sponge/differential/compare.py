"""The comparison of one of our systems with OpenMM's Reference platform.

A source of inputs is a module of this package with a function ``case(seed, folder)``: it writes a random input into
`folder` (a pathlib.Path to an empty folder), reads it with both programs and returns ``differences(ours, theirs,
positions)``, a list of sentences that is empty if both agree. It raises `Refused` where we refuse the input by name, as
we should.

- `evaluate(omm_system, positions, box)` gives OpenMM's energies by force, its forces and its positions with virtual
  sites placed.
- `differences(ours, theirs, positions, box=None, ...)` compares energies by group of terms, the total energy, forces,
  masses, virtual sites and constraints. Groups are named in `OURS` and `THEIRS`; a group is a sum, so that programs may
  split it differently (Urey-Bradley springs are bonds in OpenMM, 1-4 pairs are exceptions of its nonbonded force). The
  argument `groups` overrides the group of some terms or forces by name. Terms in no group are compared as one sum,
  "other".
- `refused(function, match)` calls a function that must raise FileFormatError or MissingParameterError with a message
  that contains `match`.
- `spread(rng, n, nearest)` draws positions of atoms that keep a distance.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from triskele import sponge
from triskele.sponge.errors import FileFormatError, MissingParameterError

__all__ = ["OURS", "THEIRS", "Evaluation", "Refused", "differences", "evaluate", "refused", "spread"]

OURS = {
    "bond": "bonds",
    "urey_bradley": "bonds",
    "angle": "angles",
    "torsion": "torsions",
    "improper": "torsions",
    "ryckaert_bellemans": "torsions",
    "cmap": "cmap",
    "nonbonded": "pairs",
    "pair14": "pairs",
    "gb": "gb",
}
THEIRS = {
    "HarmonicBondForce": "bonds",
    "HarmonicAngleForce": "angles",
    "PeriodicTorsionForce": "torsions",
    "CustomTorsionForce": "torsions",
    "RBTorsionForce": "torsions",
    "CMAPTorsionForce": "cmap",
    "NonbondedForce": "pairs",
    "CustomNonbondedForce": "pairs",
    "CustomBondForce": "pairs",
    "GBSAOBCForce": "gb",
    "CustomGBForce": "gb",
    "CMMotionRemover": "none",
}


class Refused(Exception):
    """We refuse the input with an error that names the reason: neither agreement nor difference."""


class Evaluation(NamedTuple):
    """OpenMM's numbers for one set of positions."""

    energies: dict[str, float]  # kJ/mol, by name of the force; forces of one name are added
    forces: np.ndarray  # [n, 3] kJ/mol/nm, those of virtual sites handed on
    positions: np.ndarray  # [n, 3] nm, virtual sites placed


def evaluate(theirs: Any, positions: Any, box: Any = None) -> Evaluation:
    """Energies and forces of an ``openmm.System``; in a box bonded terms use nearest images, as ours do."""
    import openmm as mm

    theirs = mm.XmlSerializer.clone(theirs)
    for k, force in enumerate(theirs.getForces()):
        force.setForceGroup(k)
        if box is not None and hasattr(force, "setUsesPeriodicBoundaryConditions"):
            force.setUsesPeriodicBoundaryConditions(True)
        if box is not None and isinstance(force, mm.NonbondedForce) and force.getNonbondedMethod() > 1:
            force.setExceptionsUsePeriodicBoundaryConditions(True)
    if box is not None:
        theirs.setDefaultPeriodicBoxVectors(*(mm.Vec3(*map(float, row)) for row in box))
    context = mm.Context(theirs, mm.VerletIntegrator(0.001), mm.Platform.getPlatformByName("Reference"))
    context.setPositions(np.asarray(positions, np.float64))
    context.computeVirtualSites()
    energies: dict[str, float] = defaultdict(float)
    for k, force in enumerate(theirs.getForces()):
        energies[force.getName()] += context.getState(getEnergy=True, groups=1 << k).getPotentialEnergy()._value
    state = context.getState(getForces=True, getPositions=True)
    return Evaluation(
        dict(energies),
        state.getForces(asNumpy=True)._value.copy(),
        state.getPositions(asNumpy=True)._value.copy(),
    )


def differences(
    ours: sponge.System,
    theirs: Any,
    positions: Any,
    box: Any = None,
    *,
    rtol: float = 1e-6,
    atol: float = 1e-4,
    groups: Mapping[str, str] | None = None,
) -> list[str]:
    """Sentences that say where our system and OpenMM's differ.

    Parameters
    ----------
    ours : System
    theirs : openmm.System
    positions : (n, 3) float64, nm
        Positions of virtual sites are placed by both.
    box : (3, 3) float64, nm, optional
        The box of both; our own box by default.
    rtol, atol : float
        Tolerances of energies (kJ/mol) and, relative to the root mean square, of forces.
    groups : dict, optional
        Group of a term of ours or of a force of OpenMM, by name, where it differs from `OURS` and `THEIRS`.

    Returns
    -------
    list of str
        Empty if both agree.
    """
    box = ours.box if box is None else box
    found = [*_masses(ours, theirs), *_constraints(ours, theirs)]
    if ours.n != theirs.getNumParticles():
        return found
    _same_mesh(ours, theirs, box)
    reference = evaluate(theirs, positions, box)
    sites = np.abs(_placed(ours, reference.positions) - reference.positions).max()
    if not sites < 1e-6:
        found.append(f"virtual sites stand {sites:.2g} nm apart")
    terms = ours.energy_terms(reference.positions, box if ours.box is not None else None)
    groups = groups or {}
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for side, (energies, table) in enumerate(((terms, OURS), (reference.energies, THEIRS))):
        for name, energy in energies.items():
            plain = re.sub(r" \d+$", "", name)  # "bond 2" is the second potential of the name
            sums[groups.get(name, groups.get(plain, table.get(plain, "other")))][side] += energy
    sums["total"] = [sum(terms.values()), sum(reference.energies.values())]
    sizes = {group: abs(other) for group, (_, other) in sums.items()} | {
        "total": sum(map(abs, reference.energies.values()))
    }
    for group, (mine, other) in sums.items():
        if not abs(mine - other) <= atol + rtol * sizes[group]:
            found.append(f"energy of {group}: {mine:.8g} kJ/mol here, {other:.8g} in OpenMM")
    forces = ours.forces(reference.positions, box if ours.box is not None else None)
    heavy = np.array([theirs.getParticleMass(i)._value > 0 for i in range(ours.n)])
    if heavy.any():
        size = np.sqrt(np.mean(reference.forces[heavy] ** 2))
        off = np.abs(forces - reference.forces)[heavy].max(initial=0)
        if not off <= 10 * (rtol * size + atol):
            found.append(f"forces differ by {off:.2g} kJ/mol/nm, their root mean square is {size:.3g}")
    return found


def _placed(ours: sponge.System, positions: np.ndarray) -> np.ndarray:
    from triskele.sponge.virtual_sites import place_all

    return np.asarray(place_all(ours.virtual_sites, positions))


def _masses(ours: sponge.System, theirs: Any) -> list[str]:
    if ours.n != theirs.getNumParticles():
        return [f"{ours.n} atoms here, {theirs.getNumParticles()} in OpenMM"]
    masses = np.array([theirs.getParticleMass(i)._value for i in range(ours.n)])
    off = np.abs(ours.masses - masses)
    i = int(off.argmax())
    return (
        [f"mass of {ours.topology.describe(i)}: {ours.masses[i]} here, {masses[i]} in OpenMM"] if off[i] > 1e-6 else []
    )


def _constraints(ours: sponge.System, theirs: Any) -> list[str]:
    mine = {tuple(sorted(p)): d for p, d in zip(ours.constraints.pairs.tolist(), ours.constraints.distances.tolist())}
    other = {}
    for k in range(theirs.getNumConstraints()):
        i, j, d = theirs.getConstraintParameters(k)
        other[min(i, j), max(i, j)] = d._value
    if mine.keys() != other.keys():
        return [
            f"{len(mine)} constraints here, {len(other)} in OpenMM; ours alone "
            f"{sorted(mine.keys() - other.keys())[:3]}, "
            f"theirs alone {sorted(other.keys() - mine.keys())[:3]}"
        ]
    return [
        f"constraint {pair}: {mine[pair]} nm here, {other[pair]} in OpenMM"
        for pair in mine
        if abs(mine[pair] - other[pair]) > 1e-6
    ][:3]


def _same_mesh(ours: sponge.System, theirs: Any, box: Any) -> None:
    """Give our PME the splitting and mesh that OpenMM chooses, which the file does not fix."""
    import openmm as mm

    for force in theirs.getForces():
        if (
            box is not None
            and isinstance(force, mm.NonbondedForce)
            and force.getNonbondedMethod() == mm.NonbondedForce.PME
        ):
            copy = mm.XmlSerializer.clone(theirs)
            copy.setDefaultPeriodicBoxVectors(*(mm.Vec3(*map(float, row)) for row in box))
            context = mm.Context(copy, mm.VerletIntegrator(0.001), mm.Platform.getPlatformByName("Reference"))
            place = [isinstance(f, mm.NonbondedForce) for f in copy.getForces()].index(True)
            alpha, *grid = copy.getForce(place).getPMEParametersInContext(context)
            ours.nonbonded.update(alpha=float(getattr(alpha, "_value", alpha)), grid=tuple(grid))


def refused(function: Callable[[], Any], match: str) -> None:
    """Call a function that must raise a documented error whose message contains `match`."""
    try:
        function()
    except (FileFormatError, MissingParameterError) as error:
        assert match in str(error), f"the error must name {match!r}, got {error}"
    else:
        raise AssertionError(f"an input with {match!r} must be refused, got a system")


def spread(rng: np.random.Generator, n: int, nearest: float = 0.12) -> np.ndarray:
    """Positions [n, 3] of a random walk with steps of about 0.15 nm whose points keep the distance `nearest`, in nm."""
    points = [np.zeros(3)]
    while len(points) < n:
        step = rng.normal(size=3)
        new = points[max(0, len(points) - int(rng.integers(1, 4)))] + rng.uniform(0.13, 0.17) * step / np.linalg.norm(
            step
        )
        if np.linalg.norm(np.array(points) - new, axis=1).min() > nearest:
            points.append(new)
    return np.array(points)
