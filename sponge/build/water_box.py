"""Boxes of water on a lattice, at random orientations."""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele.core.extend import check

from .. import box as boxes
from .. import units
from ..forcefield.ffxml import ForceField
from ..load.structure import Structure
from ..topology import Topology

__all__ = ["lattice_points", "random_rotations", "water_box", "water_molecule"]

_NONPOLARIZABLE = ("tip3p", "tip3pfb", "spce", "tip4pew", "opc", "opc3")
WATER_MODELS = {name: f"amber14/{name}" for name in _NONPOLARIZABLE} | {"swm4ndp": "drude/swm4ndp"}


def water_box(
    model: str = "tip3p", n: int | None = None, size: Any = None, density: float = 0.997, seed: int = 0
) -> Structure:
    """A periodic box of rigid water.

    Molecules stand on a cubic lattice, turned at random; neighbors are about 0.3 nm apart at the density of water, so
    that nothing overlaps and a minimizer has little to do.

    Parameters
    ----------
    model : {"tip3p", "tip3pfb", "spce", "tip4pew", "opc", "opc3", "swm4ndp"}
        Geometry, virtual sites and Drude particles are those of the force field ``"amber14/" + model``, or
        ``"drude/swm4ndp"``.
    n : int, optional
        Number of molecules. Defaults to from `size` and `density`.
    size : float, (3,) or (3, 3) array, optional
        Box in nm, see `box.as_box`. Defaults to a cube of the right density.
    density : float, g/cm^3
        Not used if both `n` and `size` are given.
    seed : int
        Seed of the random orientations.

    Returns
    -------
    Structure

    Raises
    ------
    ValueError
        If the model is not known, neither `n` nor `size` is given, or molecules would overlap.

    Examples
    --------
    >>> from triskele.sponge.build import water_box
    >>> water = water_box("opc", n=64)
    >>> water.topology.n, round(float(water.box[0, 0]), 3)
    (256, 1.243)
    """
    check.choice(model, WATER_MODELS, "water_box: model")
    check.positive(density, "water_box: density", "g/cm^3")
    check.integer(seed, "water_box: seed", 0)
    if n is not None:
        check.integer(n, "water_box: n", 1)
    field = ForceField(WATER_MODELS[model])
    template = field.templates["HOH"]
    mass = sum(field.types[t].mass for t in template.types)
    if size is None:
        if n is None:
            raise ValueError("water_box: a number of molecules n or a size must be given, got neither")
        size = (n * mass / (density / units.DENSITY)) ** (1 / 3)
    box = boxes.as_box(size, "water_box")
    if n is None:
        n = round(boxes.volume(box) * density / units.DENSITY / mass)
    if n < 1:
        raise ValueError(
            f"water_box: the box must hold a molecule, got a volume of {boxes.volume(box):.4f} nm^3 at {density} g/cm^3"
        )
    random_numbers = np.random.default_rng(seed)
    centers, distance = lattice_points(n, box, random_numbers)
    if distance < _CLOSEST:
        raise ValueError(
            f"water_box: molecules must have room, got {n} in {boxes.volume(box):.3f} nm^3 (neighbors would be "
            f"{distance:.3f} nm apart)"
        )
    positions = centers[:, None] + np.einsum(
        "mab,kb->mka", random_rotations(n, random_numbers), water_molecule(field, template)
    )
    size_of = len(template.names)
    index = np.arange(n)
    bonds = (template.bonds + size_of * index[:, None, None]).reshape(-1, 2)
    topology = Topology(
        np.tile(template.names, n),
        np.tile(template.elements, n),
        np.repeat(index, size_of),
        np.full(n, "HOH"),
        (index + 1).astype(str),
        np.zeros(n, int),
        ["A"],
        bonds,
    )
    return Structure(topology, positions.reshape(-1, 3), box)


def oxygen_and_hydrogens(template):
    """Numbers of the oxygen and the two hydrogens of a template of water."""
    return [*np.flatnonzero(template.elements == 8), *np.flatnonzero(template.elements == 1)]


def water_molecule(field, template):
    """Positions of the atoms and sites of a water molecule, the oxygen in the origin."""
    types = [field.types[t] for t in template.types]
    o, h1, h2 = oxygen_and_hydrogens(template)
    length = field.bonds.values[field.bonds.find((types[o], types[h1]))][0]
    angle = field.angles.values[field.angles.find((types[h1], types[o], types[h2]))][0]
    positions = np.zeros((len(types), 3))
    positions[h1], positions[h2] = ([length * np.cos(angle / 2), s * length * np.sin(angle / 2), 0] for s in (1, -1))
    for site in (s for s in template.sites if s.kind == "average3"):  # others are placed by `create_system`
        positions[site.index] = np.array(site.weights) @ positions[list(site.parents)]
    return positions


# Cubic lattices, as the points of their cell: simple, body-centered, face-centered
_CELLS = [
    np.array(cell)
    for cell in ([[0, 0, 0]], [[0, 0, 0], [0.5, 0.5, 0.5]], [[0, 0, 0], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]])
]
_CLOSEST = 0.24  # nm; oxygens in liquid water come no closer


def lattice_points(n: int, box: np.ndarray, random_numbers: np.random.Generator) -> tuple[np.ndarray, float]:
    """`n` points [n, 3] of the lattice that has the most room among those that fit the box, and the distance of
    neighbors; surplus points are taken out at random.
    """
    edges = np.linalg.norm(box, axis=1)
    around = np.array(list(np.ndindex(3, 3, 3))) - 1
    best: tuple[float, Any, Any] = (0.0, None, None)
    for cell in _CELLS:
        low = np.maximum(np.floor(edges / (len(cell) * boxes.volume(box) / n) ** (1 / 3)).astype(int), 1)
        for more in np.ndindex(3, 3, 3):
            cells = low + more
            if len(cell) * cells.prod() >= n:
                steps = ((cell[:, None] + around) / cells).reshape(-1, 3) @ box
                length = np.linalg.norm(steps, axis=1)
                distance = length[length > 1e-9].min()
                if distance > best[0] + 1e-12:
                    best = distance, cells, cell
    distance, cells, cell = best
    corners = np.array(list(np.ndindex(*cells)))[:, None]
    points = ((corners + cell + 0.25) / cells).reshape(-1, 3)
    keep = np.sort(random_numbers.choice(len(points), n, replace=False))
    return points[keep] @ box, distance


def random_rotations(n: int, random_numbers: np.random.Generator) -> np.ndarray:
    """Uniform random rotations [n, 3, 3], from quaternions."""
    q = random_numbers.normal(size=(n, 4))
    w, x, y, z = (q / np.linalg.norm(q, axis=1, keepdims=True)).T
    return np.stack(
        [
            1 - 2 * (y * y + z * z),
            2 * (x * y - z * w),
            2 * (x * z + y * w),
            2 * (x * y + z * w),
            1 - 2 * (x * x + z * z),
            2 * (y * z - x * w),
            2 * (x * z - y * w),
            2 * (y * z + x * w),
            1 - 2 * (x * x + y * y),
        ],
        axis=-1,
    ).reshape(n, 3, 3)
