"""Constraints that hang together in any other way: CCMA's iteration with the coupling matrix solved exactly.

Each iteration solves A t = (lengths^2 - wanted^2) / 2, where A_kl = u_k . u_l (+-1/m of the atom that k and l share),
and u are the bonds before the step [1]_. Along a molecule A is nearly a band, and its factor L D L^T, in an order of
elimination found when the tables are made, has few more entries than A itself. So A is factored afresh in every step
and solved without truncation, as in [2]_, where CCMA keeps an approximate inverse; an iteration then reduces the error
by the square of the angle that bonds turn in a step, some hundredfold.

References
----------
.. [1] Eastman, Pande, "CCMA: a robust, parallelizable constraint method for molecular simulations", J. Chem. Theory
   Comput. 6 (2010) 434. doi:10.1021/ct900463w
.. [2] López-Villellas, Mikkelsen, Galano-Frutos, Marco-Sola, Alastruey-Benedé, Ibáñez, Echenique, Moretó, De Rosa,
   García-Risueño, "ILVES: accurate and efficient bond length and angle constraints in molecular dynamics", J. Chem.
   Theory Comput. 19 (2023). doi:10.1021/acs.jctc.3c00409
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from triskele.core.extend import device, kernel

from ..engine.flags import NOT_CONVERGED, STATUS, STATUS_INFO

__all__ = ["Tables", "coupled_positions", "coupled_velocities", "elimination"]

_MOST_ITERATIONS = 100


class Tables(NamedTuple):
    """Coupled constraints in the order of elimination, cluster after cluster."""

    pairs: np.ndarray  # (m, 2) int32
    squares: np.ndarray  # (m,) squares of the lengths
    starts: np.ndarray  # (clusters + 1,) int64, ranges of constraints
    columns: np.ndarray  # (m + 1,) int64, ranges of the entries below the diagonal of each column of A's factor
    rows: np.ndarray  # (entries,) int32, constraint of each entry
    couplings: np.ndarray  # (entries,) +-1/m of the shared atom, 0 for entries that elimination creates
    # int32; for each column, and each pair of its entries with the first not above the second, in order: the entry (or,
    # as -1 - row, the diagonal element) that their product reduces
    updates: np.ndarray
    update_starts: np.ndarray  # (m + 1,) int64


def elimination(
    clusters: list[np.ndarray], pairs: np.ndarray, lengths: np.ndarray, inverse_masses: np.ndarray
) -> Tables:
    """Order the constraints of each cluster by least degree, and lay out the factor."""
    order: list[int] = []
    rows: list[int] = []
    updates: list[int] = []
    starts, columns, couplings, update_starts = [0], [0], [], [0]
    for cluster in clusters:
        ends = pairs[cluster]
        of_atom: dict[int, list[int]] = {}
        for k, (i, j) in enumerate(ends.tolist()):
            of_atom.setdefault(i, []).append(k)
            of_atom.setdefault(j, []).append(k)
        coupling: dict[tuple[int, int], float] = {}
        neighbors: list[set[int]] = [set() for _ in cluster]
        for atom, meeting in of_atom.items():
            for k in meeting:
                for m in meeting:
                    if k != m:
                        sign = 1.0 if (ends[k, 0] == atom) == (ends[m, 0] == atom) else -1.0
                        coupling[k, m] = coupling.get((k, m), 0.0) + sign * inverse_masses[atom]
                        neighbors[k].add(m)
        base = starts[-1]
        eliminated, later = _least_degree(neighbors)
        place = {k: base + p for p, k in enumerate(eliminated)}
        entry: dict[tuple[int, int], int] = {}
        below = []
        for k in eliminated:
            column = sorted(later[k], key=place.__getitem__)
            below.append(column)
            for m in column:
                entry[m, k] = len(rows)
                rows.append(place[m])
                couplings.append(coupling.get((k, m), 0.0))
            columns.append(len(rows))
        for column in below:
            for a, m in enumerate(column):
                updates.extend(-1 - place[m] if q == m else entry[q, m] for q in column[a:])
            update_starts.append(len(updates))
        order.extend(cluster[eliminated])
        starts.append(len(order))
    chosen = np.array(order, np.int64)
    return Tables(
        np.ascontiguousarray(pairs[chosen], np.int32).reshape(-1, 2),
        lengths[chosen] ** 2,
        np.array(starts, np.int64),
        np.array(columns, np.int64),
        np.array(rows, np.int32),
        np.array(couplings, np.float64),
        np.array(updates, np.int32),
        np.array(update_starts, np.int64),
    )


def _least_degree(neighbors: list[set[int]]) -> tuple[list[int], list[list[int]]]:
    """An order of elimination, and for each unknown those that are coupled to it when it is eliminated."""
    import heapq

    graph = [set(s) for s in neighbors]
    heap = [(len(s), k) for k, s in enumerate(graph)]
    heapq.heapify(heap)
    done = [False] * len(graph)
    order: list[int] = []
    later: list[list[int]] = [[] for _ in graph]
    while heap:
        degree, k = heapq.heappop(heap)
        if done[k] or degree != len(graph[k]):
            continue
        done[k] = True
        order.append(k)
        later[k] = sorted(graph[k])
        for m in graph[k]:
            graph[m] |= graph[k]
            graph[m] -= {m, k}
            heapq.heappush(heap, (len(graph[m]), m))
    return order, later


@device
def _factor(first, last, tables, inverse_masses, u, diagonal, factor):
    """L D L^T of A from the bonds `u` [m, 3]: entries of L D (not divided by D), and 1/D."""
    pairs, _, _, columns, rows, couplings, updates, update_starts = tables
    for k in range(first, last):
        uu = u[k, 0] * u[k, 0] + u[k, 1] * u[k, 1] + u[k, 2] * u[k, 2]
        diagonal[k] = uu * (inverse_masses[pairs[k, 0]] + inverse_masses[pairs[k, 1]])
        for e in range(columns[k], columns[k + 1]):
            m = rows[e]
            factor[e] = couplings[e] * (u[k, 0] * u[m, 0] + u[k, 1] * u[m, 1] + u[k, 2] * u[m, 2])
    for k in range(first, last):
        inverse = 1.0 / diagonal[k]
        diagonal[k] = inverse
        at = update_starts[k]
        for e in range(columns[k], columns[k + 1]):
            scaled = factor[e] * inverse
            for g in range(e, columns[k + 1]):
                target = updates[at]
                at += 1
                if target < 0:
                    diagonal[-1 - target] -= scaled * factor[g]
                else:
                    factor[target] -= scaled * factor[g]


@device
def _solve(first, last, columns, rows, diagonal, factor, t):
    """A t = t, in place."""
    for k in range(first, last):
        scaled = t[k] * diagonal[k]
        for e in range(columns[k], columns[k + 1]):
            t[rows[e]] -= factor[e] * scaled
    for k in range(last - 1, first - 1, -1):
        total = t[k]
        for e in range(columns[k], columns[k + 1]):
            total -= factor[e] * t[rows[e]]
        t[k] = total * diagonal[k]


@kernel(nogil=True)
def coupled_positions(
    chunk,
    chunk_starts,
    tables,
    inverse_masses,
    u,
    t,
    diagonal,
    factor,
    tolerance,
    old,
    positions,
    velocities,
    inverse_dt,
    flags,
):
    # chunk_starts [chunks + 1] of clusters; u [m, 3], t, diagonal [m], factor [entries]: scratch
    (pairs, squares, starts, columns, rows, _, _, _), per_time = tables, inverse_dt[0]
    for cluster in range(chunk_starts[chunk], chunk_starts[chunk + 1]):
        first, last = starts[cluster], starts[cluster + 1]
        for k in range(first, last):
            i, j = pairs[k, 0], pairs[k, 1]
            for a in range(3):
                u[k, a] = old[i, a] - old[j, a]
        _factor(first, last, tables, inverse_masses, u, diagonal, factor)
        worst = -1
        for _ in range(_MOST_ITERATIONS):
            worst, largest = -1, 2.0 * tolerance[0]
            for k in range(first, last):
                i, j = pairs[k, 0], pairs[k, 1]
                x, y, z = (
                    positions[i, 0] - positions[j, 0],
                    positions[i, 1] - positions[j, 1],
                    positions[i, 2] - positions[j, 2],
                )
                off = x * x + y * y + z * z - squares[k]
                t[k] = 0.5 * off
                if not abs(off) <= largest * squares[k]:  # or NaN
                    worst, largest = k, abs(off) / squares[k]
            if worst < 0:
                break
            _solve(first, last, columns, rows, diagonal, factor, t)
            for k in range(first, last):
                i, j = pairs[k, 0], pairs[k, 1]
                wi, wj = -t[k] * inverse_masses[i], t[k] * inverse_masses[j]
                for a in range(3):
                    positions[i, a] += wi * u[k, a]
                    positions[j, a] += wj * u[k, a]
                    velocities[i, a] += wi * u[k, a] * per_time
                    velocities[j, a] += wj * u[k, a] * per_time
        if worst >= 0:
            flags[STATUS_INFO] = pairs[worst, 0]
            flags[STATUS] = NOT_CONVERGED


@kernel(nogil=True)
def coupled_velocities(chunk, chunk_starts, tables, inverse_masses, u, t, diagonal, factor, positions, velocities):
    pairs, _, starts, columns, rows, _, _, _ = tables
    for cluster in range(chunk_starts[chunk], chunk_starts[chunk + 1]):
        first, last = starts[cluster], starts[cluster + 1]
        for k in range(first, last):
            i, j = pairs[k, 0], pairs[k, 1]
            along = 0.0
            for a in range(3):
                u[k, a] = positions[i, a] - positions[j, a]
                along += u[k, a] * (velocities[i, a] - velocities[j, a])
            t[k] = along
        _factor(first, last, tables, inverse_masses, u, diagonal, factor)
        _solve(first, last, columns, rows, diagonal, factor, t)
        for k in range(first, last):
            i, j = pairs[k, 0], pairs[k, 1]
            for a in range(3):
                velocities[i, a] -= t[k] * inverse_masses[i] * u[k, a]
                velocities[j, a] += t[k] * inverse_masses[j] * u[k, a]
