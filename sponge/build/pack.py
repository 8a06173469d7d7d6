"""Boxes of molecules of several kinds, on a lattice and turned so that none overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from triskele.core.extend import check

from .. import box as boxes
from .. import units
from ..load.structure import Structure
from ..load.terms import WEIGHTS
from ..system import System
from ..topology import Topology
from .water_box import lattice_points, random_rotations

__all__ = ["pack"]

_CLOSEST = 0.15  # nm between atoms of different molecules: a minimizer takes care of the rest
_TURNS = 40  # orientations to choose from


def pack(
    molecules: Sequence[tuple[Structure, int]], density: float | None = None, size: Any = None, seed: int = 0
) -> Structure:
    """A periodic box of molecules, as the start of a simulation of a liquid.

    The molecules are shuffled and stand on a lattice; each is turned to where it has the most room of forty random
    orientations. Long ones need a box that is less dense than the liquid, which a barostat brings to its density.

    Parameters
    ----------
    molecules : sequence of (Structure, int)
        Molecules and their numbers.
    density : float, g/cm^3, optional
        Density of a cubic box; from the standard weights of the elements.
    size : float, (3,) or (3, 3) array, nm, optional
        Box, in place of a density; see `box.as_box`.
    seed : int
        Seed of places and orientations.

    Returns
    -------
    Structure
        Molecules of a kind follow each other, in the order in which they were given.

    Raises
    ------
    ValueError
        If there is not exactly one of `density` and `size`, or molecules would overlap.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import sponge
    >>> argon = sponge.Structure(sponge.Topology.of_particles(1, "AR", 18), np.zeros((1, 3)))
    >>> box = sponge.build.pack([(argon, 27)], density=1.4)
    >>> box.topology.n, round(float(box.box[0, 0]), 2)
    (27, 1.09)
    """
    from scipy.spatial import cKDTree

    if (density is None) == (size is None):
        raise ValueError("pack: density or size must be given, and not both")
    for pair in molecules if isinstance(molecules, (list, tuple)) else [molecules]:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise TypeError(
                f"pack: molecules must be pairs of a Structure and a number, got {type(pair).__name__} "
                "(write [(structure, number)])"
            )
        check.kind(pair[0], (Structure, System), "pack: molecule", hint="read a file with sponge.read_pdb")
        check.integer(pair[1], "pack: number of molecules", 0)
    check.integer(seed, "pack: seed", 0)
    random, kinds = np.random.default_rng(seed), np.repeat(np.arange(len(molecules)), [n for _, n in molecules])
    if not len(kinds):
        raise ValueError("pack: there must be a molecule, got none")
    if density is not None:
        check.positive(density, "pack: density", "g/cm^3")
        mass = sum(n * sum(WEIGHTS.get(int(z), 0.0) for z in m.topology.elements) for m, n in molecules)
        size = (mass * units.DENSITY / density) ** (1 / 3)
        check.positive(size, "pack: mass of the molecules")
    box = boxes.as_box(size, "pack")
    centers = random.permutation(lattice_points(len(kinds), box, random)[0])
    placed: list[Any] = [None] * len(kinds)
    atoms, nearest = np.empty((0, 3)), np.inf
    images = np.array(list(np.ndindex(3, 3, 3))) - 1
    for k in random.permutation(len(kinds)):
        shape = molecules[kinds[k]][0].positions
        shape = shape - shape.mean(axis=0)
        turned = np.einsum("rab,kb->rka", random_rotations(_TURNS if len(shape) > 1 else 1, random), shape) + centers[k]
        room = np.full(len(turned), np.inf)
        if len(atoms):
            near = (atoms + (images @ box)[:, None]).reshape(-1, 3)
            reach = np.linalg.norm(near - centers[k], axis=1)
            near = near[reach < np.linalg.norm(shape, axis=1).max() + 0.6]
            if len(near):
                room = cKDTree(near).query(turned.reshape(-1, 3))[0].reshape(len(turned), -1).min(axis=1)
        best = int(np.argmax(room))
        placed[k], nearest = turned[best], min(nearest, float(room[best]))
        atoms = np.concatenate([atoms, placed[k]])
    if nearest < _CLOSEST:
        raise ValueError(
            f"pack: atoms of different molecules must be at least {_CLOSEST} nm apart, got {nearest:.3f} "
            "nm (a lower density or a larger box leaves room)"
        )
    return Structure(_together([molecules[kind][0].topology for kind in kinds.tolist()]), np.concatenate(placed), box)


def _together(topologies: Sequence[Topology]) -> Topology:
    """One topology of many, one after the other in a single chain, with renumbered residues."""
    atoms, residues = (
        np.cumsum([0, *counts])[:-1]
        for counts in ([t.n for t in topologies], [len(t.residue_names) for t in topologies])
    )
    names = np.concatenate([t.residue_names for t in topologies])
    return Topology(
        np.concatenate([t.names for t in topologies]),
        np.concatenate([t.elements for t in topologies]),
        np.concatenate([t.residue_index + first for t, first in zip(topologies, residues)]),
        names,
        (np.arange(len(names)) + 1).astype(str),
        np.zeros(len(names), int),
        ["A"],
        np.concatenate([t.bonds.reshape(-1, 2) + first for t, first in zip(topologies, atoms)]),
    )
