"""Sorting of constraints by how they are solved: rigid waters, stars around one atom, and the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ConstraintError
from .clusters import connected

__all__ = ["Partition", "partition"]

_MOST_LEAVES = 3  # of a star: XH, XH2, XH3
_SAME = 1e-9  # relative difference of lengths or masses of a symmetric water


@dataclass(frozen=True, eq=False)
class Partition:
    """Constraints by kind."""

    waters: np.ndarray  # (w,) int, first atom of each rigid water; apex and legs are three atoms in a row
    water_lengths: np.ndarray  # (w, 2) nm, apex to leg, leg to leg
    stars: np.ndarray  # (s, 4) int, central atom and up to three leaves; -1 where there is none
    star_lengths: np.ndarray  # (s, 3) nm
    rest: list[np.ndarray]  # int, numbers of the constraints of each other cluster
    pairs: np.ndarray  # (m, 2) int, all constraints, each pair once
    lengths: np.ndarray  # (m,) nm


def partition(system: Any, masses: np.ndarray | None = None) -> Partition:
    """Sort the constraints of `system` by kind, for atoms of `masses` (n,) if given, or else of its own masses.

    A constraint that ties an atom to itself, whose length is not positive or contradicts others, or that touches an
    atom without mass raises ConstraintError.
    """
    masses = system.masses if masses is None else masses
    pairs, lengths = _checked(system, masses)
    n = system.n
    component = connected(pairs, n)
    of = component[pairs[:, 0]] if len(pairs) else np.empty(0, int)
    order = np.argsort(of, kind="stable")
    ids, first, count = np.unique(of[order], return_index=True, return_counts=True)
    atoms = np.bincount(component, minlength=n)[ids]
    first_atom = np.full(component.max() + 1 if n else 0, n)
    np.minimum.at(first_atom, component, np.arange(n))

    triangles = np.flatnonzero((atoms == 3) & (count == 3))
    members = order[first[triangles, None] + np.arange(3)]
    start = first_atom[ids[triangles]]
    water, water_lengths = _symmetric(pairs[members] - start[:, None, None], lengths[members], start, masses)

    stars, star_lengths, star = [], [], np.zeros(len(ids), bool)
    for k in range(1, _MOST_LEAVES + 1):
        which = np.flatnonzero((atoms == k + 1) & (count == k))
        members = order[first[which, None] + np.arange(k)]
        ends = pairs[members]  # [s, k, 2]
        for_first = np.all((ends == ends[:, :1, :1]).any(2), 1)  # the first end of the first constraint is in all
        center = np.where(for_first, ends[:, 0, 0], ends[:, 0, 1])
        is_star = np.all((ends == center[:, None, None]).any(2), 1)
        ends, center, members = ends[is_star], center[is_star], members[is_star]
        found = np.full((len(ends), _MOST_LEAVES + 1), -1)
        found[:, 0] = center
        found[:, 1 : k + 1] = ends.sum(2) - center[:, None]
        stars.append(found)
        star_lengths.append(np.pad(lengths[members], ((0, 0), (0, _MOST_LEAVES - k))))
        star[which[is_star]] = True

    taken = star.copy()
    taken[triangles[water]] = True
    rest = [np.sort(order[first[c] : first[c] + count[c]]) for c in np.flatnonzero(~taken)]
    return Partition(
        start[water], water_lengths[water], np.concatenate(stars), np.concatenate(star_lengths), rest, pairs, lengths
    )


def _symmetric(pairs, lengths, start, masses):
    """Find the triangles that are waters, and their two lengths; `pairs` (t, 3, 2) count from the first atom."""
    low, high = pairs.min(2), pairs.max(2)
    key = 3 * low + high  # 0-1: 1, 0-2: 2, 1-2: 5
    in_a_row = np.all(np.sort(key, 1) == (1, 2, 5), 1) if len(key) else np.zeros(0, bool)
    lengths = np.take_along_axis(lengths, np.argsort(key, 1), 1)
    safe = np.where(in_a_row, start, 0)
    m1, m2 = (masses[safe + 1], masses[safe + 2]) if len(start) else (np.empty(0), np.empty(0))
    same = (np.abs(lengths[:, 0] - lengths[:, 1]) <= _SAME * lengths[:, 0]) & (np.abs(m1 - m2) <= _SAME * m1)
    return in_a_row & same & (lengths[:, 2] < 2 * lengths[:, 0]), lengths[:, [0, 2]]


def _checked(system, masses):
    """Pairs and lengths, each pair once."""
    pairs, lengths = np.asarray(system.constraints.pairs, np.int64), np.asarray(system.constraints.distances)
    describe = system.topology.describe

    def fail(k, must, got):
        i, j = pairs[k]
        raise ConstraintError(f"constraint {k} of {describe(i)} and {describe(j)}: {must}, got {got}")

    if len(pairs) == 0:
        return pairs.reshape(0, 2), lengths
    for k in np.flatnonzero(pairs[:, 0] == pairs[:, 1])[:1]:
        fail(k, "must tie two atoms", "one")
    for k in np.flatnonzero(~(lengths > 0) | ~np.isfinite(lengths))[:1]:
        fail(k, "length must be positive and finite", lengths[k])
    for k in np.flatnonzero((masses[pairs] <= 0).any(1))[:1]:
        fail(k, "both atoms must have mass", f"masses {masses[pairs[k]].tolist()}")
    _, keep, same = np.unique(np.sort(pairs, 1), axis=0, return_index=True, return_inverse=True)
    same = same.reshape(-1)
    for k in np.flatnonzero(np.abs(lengths - lengths[keep][same]) > _SAME * lengths)[:1]:
        fail(k, f"length must be that of constraint {keep[same[k]]}, {lengths[keep[same[k]]]:g}", lengths[k])
    keep = np.sort(keep)
    for k, others in _impossible(pairs[keep], lengths[keep])[:1]:
        fail(
            keep[k],
            f"length must be at most that of constraints {keep[others[0]]} and {keep[others[1]]} together, "
            f"which close a triangle with it, {lengths[keep[others]].sum():g}",
            lengths[keep[k]],
        )
    return pairs[keep], lengths[keep]


def _impossible(pairs, lengths):
    """Constraints that are longer than the two others of a triangle together, with these others."""
    shortest = np.full(pairs.max(initial=-1) + 1, np.inf)
    for end in pairs.T:
        np.minimum.at(shortest, end, lengths)
    found: list[tuple[int, list[int]]] = []
    suspects = np.flatnonzero(lengths > (1 + _SAME) * shortest[pairs].sum(1)).tolist()
    if not suspects:
        return found
    links: dict[int, dict[int, int]] = {}
    for k, (i, j) in enumerate(pairs.tolist()):
        links.setdefault(i, {})[j] = links.setdefault(j, {})[i] = k
    for k in suspects:
        i, j = pairs[k].tolist()
        for third in links[i].keys() & links[j].keys():
            others = [links[i][third], links[j][third]]
            if lengths[k] > (1 + _SAME) * lengths[others].sum():
                found.append((k, others))
    return found
