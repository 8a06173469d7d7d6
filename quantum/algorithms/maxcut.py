"""MaxCut as a cost Hamiltonian."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np

from ..errors import OperatorError
from ..operators.pauli import PauliSum

__all__ = ["maxcut"]


def maxcut(graph: Any) -> PauliSum:
    """The cost whose minimum is the largest cut of a graph: ``sum w (Z_i Z_j - 1) / 2``, minus the weight of the cut.

    Parameters
    ----------
    graph : list of (i, j) or (i, j, weight), (n, n) symmetric array of weights, or networkx.Graph
        Nodes are numbered from 0 and become qubits; those of an array or a graph of networkx do without an edge, too.
        An edge given twice counts twice. In a graph of networkx, nodes may have any names: qubit k is the node
        ``list(graph)[k]``; the edge attribute ``"weight"`` defaults to 1.

    Returns
    -------
    PauliSum

    Raises
    ------
    OperatorError
        If an edge joins a node to itself, a weight is not finite, or the matrix is not symmetric.

    Examples
    --------
    >>> from triskele.quantum import maxcut
    >>> cost = maxcut([(0, 1), (1, 2, 2.0)])
    >>> float(cost.matrix().diagonal().real.min())
    -3.0
    """
    nodes = 0
    if isinstance(graph, np.ndarray):
        nodes = len(graph) if graph.ndim else 0
        if (
            graph.ndim != 2
            or graph.shape[0] != graph.shape[1]
            or not np.array_equal(graph, graph.T)
            or np.any(np.diagonal(graph))
        ):
            raise OperatorError(
                f"maxcut: an array is a matrix of weights: square, symmetric and zero on its diagonal, "
                f"got shape {graph.shape} (edges are a list)"
            )
        edges = [(int(i), int(j), graph[i, j]) for i, j in zip(*np.nonzero(np.triu(graph)), strict=True)]
    elif hasattr(graph, "nodes") and hasattr(graph, "edges"):
        nodes, qubit = len(graph), {node: k for k, node in enumerate(graph)}
        edges = [(qubit[a], qubit[b], weight) for a, b, weight in graph.edges(data="weight", default=1.0)]
    else:
        try:
            edges = [tuple(edge) for edge in graph]
        except TypeError:
            raise OperatorError(
                f"maxcut: a graph is a list of edges (i, j) or (i, j, weight), or a matrix of weights, got {graph!r}"
            ) from None
    terms = []
    for edge in edges:
        i, j, weight = _edge(edge)
        terms += [(f"Z{i} Z{j}", 0.5 * weight), ("", -0.5 * weight)]
    if not terms:
        raise OperatorError("maxcut: the graph has no edges")
    cost = PauliSum(terms)
    cost.num_qubits = max(cost.num_qubits, nodes)  # nodes without edges are qubits, too
    return cost


def _edge(edge: tuple[Any, ...]) -> tuple[int, int, float]:
    """Nodes and weight of an edge, checked."""
    nodes, weight = edge[:2], edge[2] if len(edge) == 3 else 1.0
    if (
        len(edge) not in (2, 3)
        or any(isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 0 for k in nodes)
        or nodes[0] == nodes[1]
    ):
        raise OperatorError(
            f"maxcut: an edge is (i, j) or (i, j, weight) with two different nodes, numbered from 0, got {edge}"
        )
    if isinstance(weight, bool) or not isinstance(weight, Real) or not math.isfinite(weight):
        raise OperatorError(f"maxcut: the weight of an edge must be a finite number, got {edge}")
    return int(nodes[0]), int(nodes[1]), float(weight)
