"""Closure of cycles: free energies of nodes from differences along edges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core.extend import short_repr

__all__ = ["CycleClosure", "cycle_closure"]


@short_repr
@dataclass(frozen=True, eq=False)
class CycleClosure:
    """See `cycle_closure`.

    Attributes
    ----------
    values, errors : dict of str to float, kJ/mol
        Free energies of the nodes relative to the first, and their standard errors.
    edges : dict of (str, str) to float, kJ/mol
        Differences along the edges, all consistent.
    cycles : list of (tuple of str, float, float)
        Nodes of each independent cycle, the sum of the given differences around it, which should be 0, and its error.
    chi_squared : float
        Sum of squares of the corrections over the errors; about `len(cycles)` if the errors are right.
    """

    values: dict[str, float]
    errors: dict[str, float]
    edges: dict[tuple[str, str], float]
    cycles: list[tuple[tuple[str, ...], float, float]]
    chi_squared: float


def cycle_closure(edges: Mapping[tuple[str, str], Any]) -> CycleClosure:
    """Free energies of nodes from differences along edges, and what is left over around cycles.

    The values are those of weighted least squares, which for Gaussian errors are the most likely ones.

    Parameters
    ----------
    edges : dict of (str, str) to FreeEnergyDifference, RelativeFreeEnergy or (float, float)
        Free energy of the second node less that of the first, and its standard error, in kJ/mol.

    Returns
    -------
    CycleClosure

    Raises
    ------
    ValueError
        If `edges` is empty, if an edge joins a node to itself, is given twice or has no positive error, or if the nodes
        are not connected.

    References
    ----------
    Xu, "Optimal measurement network of pairwise differences", J. Chem. Inf. Model. 59 (2019) 4720.
    doi:10.1021/acs.jcim.9b00528

    Examples
    --------
    >>> from triskele.sponge import alchemy
    >>> found = alchemy.cycle_closure({("a", "b"): (1.0, 0.1), ("b", "c"): (2.0, 0.1), ("a", "c"): (3.3, 0.1)})
    >>> [(nodes, round(gap, 6), round(error, 3)) for nodes, gap, error in found.cycles]
    [(('a', 'b', 'c'), -0.3, 0.173)]
    >>> round(found.edges["a", "b"], 6)
    1.1
    """
    where = "cycle_closure"
    if not edges:
        raise ValueError(f"{where}: there must be at least one edge, got none")
    nodes = list(dict.fromkeys(node for edge in edges for node in edge))
    place = {node: i for i, node in enumerate(nodes)}
    measured = np.zeros((len(edges), 2))
    design = np.zeros((len(edges), len(nodes)))
    for row, ((a, b), given) in enumerate(edges.items()):
        measured[row] = (given.value, given.error) if hasattr(given, "value") else given
        if a == b or (b, a) in edges:
            raise ValueError(f"{where}: an edge must join two nodes, and be given once, got {(a, b)!r}")
        if not (np.isfinite(measured[row]).all() and measured[row, 1] > 0):
            raise ValueError(
                f"{where}: edges must be finite numbers with positive errors, got {tuple(measured[row])} for {(a, b)!r}"
            )
        design[row, place[a]], design[row, place[b]] = -1, 1
    tree, cycles = _cycles(list(edges), nodes, measured)
    if missing := [node for node in nodes if node not in tree]:
        raise ValueError(f"{where}: all nodes must be connected, got no path from {nodes[0]!r} to {missing[0]!r}")
    weighted = design[:, 1:] / measured[:, 1:]
    inverse = np.linalg.inv(weighted.T @ weighted)
    values = np.concatenate([[0.0], inverse @ (weighted.T @ (measured[:, 0] / measured[:, 1]))])
    errors = np.sqrt(np.concatenate([[0.0], np.diag(inverse)]))
    fitted = design @ values
    return CycleClosure(
        dict(zip(nodes, values.tolist())),
        dict(zip(nodes, errors.tolist())),
        dict(zip(edges, fitted.tolist())),
        cycles,
        float(np.sum(((fitted - measured[:, 0]) / measured[:, 1]) ** 2)),
    )


def _cycles(edges, nodes, measured):
    """Path from the first node to each, along a tree of shortest paths, and the cycle that every other edge closes."""
    links: dict[str, dict[str, tuple[float, float]]] = {node: {} for node in nodes}
    for (a, b), (value, error) in zip(edges, measured):
        links[a][b], links[b][a] = (value, error), (-value, error)
    paths, waiting = {nodes[0]: (nodes[0],)}, [nodes[0]]
    for node in waiting:
        for other in links[node]:
            if other not in paths:
                paths[other] = (*paths[node], other)
                waiting.append(other)
    cycles = []
    for a, b in edges:
        if a not in paths or paths[b][-2:-1] == (a,) or paths[a][-2:-1] == (b,):
            continue
        shared = sum(1 for x, y in zip(paths[a], paths[b]) if x == y)
        around = (*paths[a][shared - 1 :], *reversed(paths[b][shared:]))
        around = around[::-1] if nodes.index(around[1]) > nodes.index(around[-1]) else around
        steps = np.array([links[x][y] for x, y in zip(around, (*around[1:], around[0]))])
        cycles.append((around, float(steps[:, 0].sum()), float(np.sqrt(np.sum(steps[:, 1] ** 2)))))
    return paths, cycles
