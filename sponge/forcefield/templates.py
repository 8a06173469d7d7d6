"""`Template`: a residue of a force field, and whether the atoms of a residue are the same molecular graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import FileFormatError

__all__ = ["Graph", "SiteTemplate", "Template", "match", "read_site"]


@dataclass(frozen=True)
class SiteTemplate:
    """A virtual site of a template; atoms by their place in it."""

    kind: str  # "average2", "average3", "outOfPlane", "localCoords"
    index: int
    parents: tuple[int, ...]
    weights: tuple[float, ...]
    shares: int  # the atom whose exclusions it takes over


def read_site(s: Any, index: Any) -> SiteTemplate:
    """The virtual site of an element; ``index(element, key of a name, key of a number)`` finds its atoms."""
    kind = s.attrib["type"]
    if kind == "localCoords":
        n = sum(1 for k in s.attrib if k[:2] == "wo")
        weights = tuple(float(s.attrib[f"{w}{k + 1}"]) for w in ("wo", "wx", "wy") for k in range(n)) + tuple(
            float(s.attrib[f"p{k}"]) for k in (1, 2, 3)
        )
    elif kind in ("average2", "average3", "outOfPlane"):
        n = 2 if kind == "average2" else 3
        weights = tuple(
            float(s.attrib[w])
            for w in (
                ("weight12", "weight13", "weightCross")
                if kind == "outOfPlane"
                else [f"weight{k + 1}" for k in range(n)]
            )
        )
    else:
        raise FileFormatError(
            f"virtual sites must be of type average2, average3, outOfPlane or localCoords, got {kind!r}"
        )
    parents = tuple(index(s, f"atomName{k + 1}", f"atom{k + 1}") for k in range(n))
    shares = int(s.attrib["excludeWith"]) if "excludeWith" in s.attrib else parents[0]
    return SiteTemplate(kind, index(s, "siteName", "index"), parents, weights, shares)


@dataclass(frozen=True, eq=False)
class Graph:
    """Atoms of a residue, the bonds among them, and how many bonds lead out of each."""

    name: str
    names: tuple[str, ...]  # [n]
    elements: np.ndarray  # int [n], 0 for virtual sites
    bonds: np.ndarray  # int [m, 2]
    external: np.ndarray  # int [n]

    @cached_property
    def neighbors(self) -> list[list[int]]:
        """Atoms bound to each atom."""
        out: list[list[int]] = [[] for _ in self.names]
        for i, j in self.bonds.tolist():
            out[i].append(j)
            out[j].append(i)
        return out

    @cached_property
    def signature(self) -> tuple:
        """Return invariants of the graph; equal graphs have equal invariants."""
        return tuple(sorted(self.elements.tolist())), len(self.bonds), int(self.external.sum())


@dataclass(frozen=True, eq=False)
class Template(Graph):
    """A residue of a force field: a graph, and what its atoms are."""

    types: tuple[str, ...] = ()
    attributes: tuple[dict[str, str], ...] = ()
    sites: tuple[SiteTemplate, ...] = ()
    constraints: tuple[tuple[int, int, float], ...] = ()  # pairs of atoms, distance in nm
    override: int = 0
    patches: tuple[str, ...] = ()  # those that made it; "name:part" for one of several residues


def match(template: Template, graph: Graph) -> np.ndarray | None:
    """Atom of the template for each atom of the residue, or None if the two graphs differ.

    Elements, bonds and the number of bonds that lead out are the same for matched atoms. Among equal atoms, those of
    the same name go together; particles without an element must have the same name, unless all are virtual sites.
    """
    if template.signature != graph.signature:
        return None
    by_name = _match_names(template, graph)
    if by_name is not None:
        return by_name
    colors = _refine(template, graph, np.count_nonzero(template.elements == 0) > len(template.sites))
    return None if colors is None else _search(template, graph, *colors)


def _match_names(template, graph):
    where = {name: k for k, name in enumerate(template.names)}
    if len(set(graph.names)) != len(graph.names) or not all(name in where for name in graph.names):
        return None
    found = np.array([where[name] for name in graph.names], np.int64)
    if np.any(template.elements[found] != graph.elements) or np.any(template.external[found] != graph.external):
        return None
    return found if _edges(found[graph.bonds]) == _edges(template.bonds) else None


def _edges(bonds):
    return {(min(b), max(b)) for b in bonds.tolist()}


def _refine(template, graph, by_name):
    """Colors of the atoms of both graphs such that only atoms of one color can match; None if the colors differ."""
    graphs = (template, graph)
    colors = [
        [
            (int(e), name if by_name and e == 0 else "", len(near), int(x))
            for e, name, near, x in zip(g.elements, g.names, g.neighbors, g.external)
        ]
        for g in graphs
    ]
    count = 0
    while True:
        palette = {c: k for k, c in enumerate(sorted({c for side in colors for c in side}))}
        plain = [[palette[c] for c in side] for side in colors]
        if sorted(plain[0]) != sorted(plain[1]):
            return None
        if len(palette) == count:
            return plain
        count = len(palette)
        colors = [
            [(side[i], *sorted(side[j] for j in g.neighbors[i])) for i in range(len(side))]
            for g, side in zip(graphs, plain)
        ]


def _search(template, graph, template_colors, graph_colors):
    order = _bonded_order(graph, graph_colors)
    names = set(graph.names)
    found = np.full(len(order), -1)
    used = [False] * len(order)

    def fits(i, k):
        return all(found[j] < 0 or int(found[j]) in template.neighbors[k] for j in graph.neighbors[i])

    def options(i):
        near = next((int(found[j]) for j in graph.neighbors[i] if found[j] >= 0), None)
        free = [k for k in (range(len(order)) if near is None else template.neighbors[near]) if not used[k]]
        free = [k for k in free if template_colors[k] == graph_colors[i] and fits(i, k)]
        return iter(sorted(free, key=lambda k: (template.names[k] != graph.names[i], template.names[k] in names, k)))

    open_options = [options(order[0])]  # for each atom placed, and the next
    while open_options:
        i = order[len(open_options) - 1]
        if found[i] >= 0:  # back from further down: this place does not work out
            used[found[i]], found[i] = False, -1
        k = next(open_options[-1], None)
        if k is None:
            open_options.pop()
            continue
        found[i], used[k] = k, True
        if len(open_options) == len(order):
            return found
        open_options.append(options(order[len(open_options)]))
    return None


def _bonded_order(graph, colors):
    """Atoms in an order in which each, where possible, is bound to one before it; rare ones first."""
    rarity = [colors.count(c) for c in colors]
    left, order = set(range(len(colors))), []
    edge: list[int] = []
    while left:
        if not edge:
            edge = [min(left, key=lambda i: (rarity[i], i))]
        i = edge.pop(0)
        if i in left:
            left.remove(i)
            order.append(i)
            edge += sorted(graph.neighbors[i], key=lambda j: (rarity[j], j))
    return order
