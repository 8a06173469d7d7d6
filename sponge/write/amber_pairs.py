"""1-4 pairs of AMBER's topologies, which are the ends of torsions: their scaling, and CHARMM's own parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..potentials.bonded.pair14 import pair14
from .parts import Parts

__all__ = ["EXACT", "charge_scaling", "depth_scaling", "refined_types", "torsion_rows"]

EXACT = 1e-6  # nine digits of a prmtop, of which sigma and epsilon came, to the twelfth power


def _refuse(parts: Parts, rows: np.ndarray, what: str) -> None:
    """Raise if any of the 1-4 pairs is one that the format cannot have."""
    if rows.any():
        atoms = parts.take(pair14)[0][np.argmax(rows)]
        potential = next(p for p in parts.system.potentials if type(p) is pair14)
        raise parts.refusal(potential, f"{what} of {' and '.join(map(parts.system.topology.describe, atoms))}")


def charge_scaling(parts: Parts) -> np.ndarray:
    """Return the divisor of the product of charges of each 1-4 pair (SCEE)."""
    atoms, values = parts.take(pair14)
    plain = parts.nonbonded.params["charges"][atoms].prod(1)
    _refuse(parts, (plain == 0) != (values[:, 0] == 0), "a product of charges other than that of the atoms,")
    return np.divide(plain, values[:, 0], out=np.ones(len(atoms)), where=plain != 0).round(14)


def depth_scaling(parts: Parts) -> np.ndarray | None:
    """Return the divisor of the depth of each 1-4 pair (SCNB), or None if a pair has parameters of its own."""
    atoms, values = parts.take(pair14)
    a, b = parts.pair_parameters(*atoms.T)
    _, sigma, epsilon = values.T
    own_a, own_b = 4 * epsilon * sigma**12, 4 * epsilon * sigma**6
    ratio = np.divide(b, own_b, out=np.ones(len(atoms)), where=own_b > 0)
    if not (np.allclose(ratio * own_b, b, EXACT, 0) and np.allclose(ratio * own_a, a, EXACT, 0)):
        return None
    return np.where(np.abs(ratio - ratio.round(6)) < 1e-7, ratio.round(6), ratio.round(14))


def refined_types(parts: Parts, types: np.ndarray, weights: Any = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Types (n,) such that 1-4 pairs of the same types are alike, but for `weights`; sigma and epsilon (t, t) of
    these.
    """
    pairs, values = parts.take(pair14)
    sigma, epsilon = values[:, 1], values[:, 2] / weights
    _, kind = np.unique(np.stack([sigma, epsilon], axis=1), axis=0, return_inverse=True)
    kind = kind.ravel()
    for _ in range(len(pairs) + 1):
        of_pairs: dict[tuple, set[int]] = {}
        ends = np.sort(types[pairs], axis=1)
        for key, value in zip(map(tuple, ends.tolist()), kind.tolist()):
            of_pairs.setdefault(key, set()).add(value)
        clashes = {key for key, found in of_pairs.items() if len(found) > 1}
        if not clashes:
            break
        seen: dict[int, set[tuple]] = {}  # what an atom meets in the types that clash
        for (i, j), key, value in zip(pairs.tolist(), map(tuple, ends.tolist()), kind.tolist()):
            if key in clashes:
                for atom, other in ((i, types[j]), (j, types[i])):
                    seen.setdefault(atom, set()).add((int(other), value))
        types, before = _split(types, seen), types.max()
        if types.max() == before:
            bad = np.array([tuple(key) in clashes for key in ends.tolist()])
            _refuse(parts, bad, "parameters that atoms of the same kinds have not,")
    count = int(types.max(initial=-1)) + 1
    sigmas, epsilons = np.ones((count, count)), np.zeros((count, count))
    for i, j in (types[pairs].T, types[pairs].T[::-1]):
        sigmas[i, j], epsilons[i, j] = sigma, epsilon
    return types, sigmas, epsilons


def _split(types: np.ndarray, seen: dict[int, set[tuple]]) -> np.ndarray:
    """New types for atoms that meet others than the first atom of their type does; who meets none stays."""
    types, number = types.copy(), int(types.max()) + 1
    groups: dict[tuple[int, frozenset], int] = {}
    known = set()
    for atom, met in seen.items():
        key = int(types[atom]), frozenset(met)
        if key not in groups:
            groups[key] = key[0] if key[0] not in known else number
            number += key[0] in known
            known.add(key[0])
    for atom, met in seen.items():
        types[atom] = groups[int(types[atom]), frozenset(met)]
    return types


def torsion_rows(parts: Parts, atoms: np.ndarray, values: np.ndarray, proper: np.ndarray) -> tuple[Any, Any, Any, Any]:
    """Torsions with the 1-4 pair that each carries, -1 for none; pairs without a torsion get one without energy."""
    pairs = parts.take(pair14)[0]
    around: list[list[int]] = [[] for _ in range(parts.system.n)]
    for i, j in parts.bonds.tolist():
        around[i].append(j)
        around[j].append(i)
    free: dict[tuple[int, int], list[int]] = {}
    for row in np.flatnonzero(proper)[::-1].tolist():
        i, l = int(atoms[row, 0]), int(atoms[row, 3])
        free.setdefault((min(i, l), max(i, l)), []).append(row)
    carried = np.full(len(atoms), -1)
    added = []
    for p, (i, l) in enumerate(pairs.tolist()):
        rows = free.get((min(i, l), max(i, l)), [])
        if rows:
            carried[rows.pop()] = p
            continue
        chains = ([i, j, k, l] for j in around[i] for k in around[j] if l in around[k] and len({i, j, k, l}) == 4)
        added.append((next(chains, None), p))
    missing = np.isin(np.arange(len(pairs)), [p for chain, p in added if chain is None])
    _refuse(parts, missing, "pairs that are not three bonds apart,")
    atoms = np.concatenate([atoms, np.array([chain for chain, _ in added], np.int64).reshape(-1, 4)])
    values = np.concatenate([values, np.tile([0.0, 1.0, 0.0], (len(added), 1))])
    proper = np.concatenate([proper, np.ones(len(added), bool)])
    return atoms, values, proper, np.concatenate([carried, [p for _, p in added]]).astype(np.int64)
