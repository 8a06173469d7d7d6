"""The compiled form of `Nonbonded`: which kernels its method needs, and their arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from triskele.sponge import units
from triskele.sponge.engine.task import Task
from triskele.sponge.potential import ROW, Plan
from triskele.sponge.potentials import dense_kernels as dense

if TYPE_CHECKING:
    from triskele.sponge.engine.engine import Engine
    from triskele.sponge.potentials.nonbonded import Nonbonded

__all__ = ["plan"]

_CHUNK_PAIRS = 16000  # of all pairs: some 30 us
_MOST_CHUNKS = 32


def plan(potential: Nonbonded, engine: Engine) -> Plan:
    """Tasks and arrays for `engine`."""
    if potential.method == "none":
        return _all_pairs(potential, engine)
    raise NotImplementedError


def _all_pairs(potential, engine):
    params, n = potential.params, engine.n
    chunks = int(np.clip(n * n // 2 // _CHUNK_PAIRS, 1, _MOST_CHUNKS))
    padded = -(-n // 8) * 8
    atoms = np.zeros((dense.PAIR_ROWS, padded))
    atoms[dense.CHARGE, :n] = np.sqrt(units.COULOMB) * params["charges"]
    kinds, a, b = np.zeros(padded, np.int64), np.zeros((1, 1)), np.zeros((1, 1))
    if potential.mixing == "table":
        mixing = dense.TABLE
        kinds[:n] = potential.types
        a, b = 0.5 * (params["a"] + params["a"].T), 0.5 * (params["b"] + params["b"].T)
    else:
        arithmetic = potential.mixing == "lorentz_berthelot"
        mixing = dense.ARITHMETIC if arithmetic else dense.GEOMETRIC
        atoms[dense.SIZE, :n] = 0.5 * params["sigmas"] if arithmetic else np.sqrt(params["sigmas"])
        atoms[dense.DEPTH, :n] = 2 * np.sqrt(params["epsilons"])
    masked, blocks, bits = _masks(potential.exclusions, n)
    sums = np.zeros((chunks, 3, padded))
    rows = np.zeros((chunks + engine.atom_chunks, ROW))
    return Plan(
        stages=[
            [Task(dense.pack_atoms, engine.positions, atoms)],
            [Task(dense.all_pairs, chunks, n, atoms, mixing, kinds, a, b, masked, blocks, bits, sums, rows, engine.flags, chunks=chunks)],
        ],
        reduce=[Task(dense.add_forces, engine.atom_starts, sums, engine.positions, engine.forces, rows, chunks, engine.flags,
                     chunks=engine.atom_chunks)],
        rows=rows,
    )


def _masks(exclusions, n):
    """Excluded partners j > i of each atom as bits of groups of 8: starts [n + 1], first atom of the group, bits."""
    i, j = np.sort(exclusions, axis=1).astype(np.int64).reshape(-1, 2).T
    groups, at = np.unique(i * n + (j & -8), return_inverse=True)
    bits = np.zeros(len(groups), np.int64)
    np.bitwise_or.at(bits, at, 1 << (j & 7))
    starts = np.searchsorted(groups, np.arange(n + 1) * n).astype(np.int64)
    return starts, groups % n, bits.astype(np.uint64)
