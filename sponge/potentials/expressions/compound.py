"""Terms of several points with an energy given as an expression of their distances, angles and torsions.

A point is an atom or the center of a group of atoms. OpenMM's forces on compound bonds, centroids of groups, hydrogen
bonds, sets of particles and listed pairs are all of this kind: they differ in the terms and in whose the parameters
are. The energy is compiled by the core.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from triskele.core.extend import check

from ...box import check_cutoff, displacement
from ...codegen.expressions import Expression, parse
from ...codegen.tabulated import Tabulated
from ...errors import FileFormatError
from ...geometry import angle, length, torsion
from ...potential import Potential
from ...topology import as_indices, check_indices
from ..pairs.formulas import switch

__all__ = ["ExpressionCompound", "centers", "check_functions"]

_OF_POINTS = {"distance": 2, "angle": 3, "dihedral": 4}
_OF_COORDINATES = {"pointdistance": 6, "pointangle": 9, "pointdihedral": 12}
_AXES = "xyz"


class ExpressionCompound(Potential):
    """Terms of several points with an energy given as an expression.

    The expression, in kJ/mol and OpenMM's syntax, takes the parameters, the coordinates ``x1``, ``y1``, ``z1``, ``x2``,
    ... (nm) of the points, ``distance(p1, p2)``, ``angle(p1, p2, p3)``, ``dihedral(p1, p2, p3, p4)`` (nm and radians),
    and ``pointdistance``, ``pointangle`` and ``pointdihedral``, which take coordinates instead of points. With two
    points, ``r`` is their distance unless a parameter is called so.

    >>> ExpressionCompound("k*(distance(p1,p2)-distance(p1,p3))^2", [[0, 1, 2]], {"k": 500.0})
    <ExpressionCompound 'compound_expression': k ()>
    """

    invariant = False

    def __init__(
        self,
        expression: str,
        atoms: Any,  # (m, k) points of each term: atoms, or numbers of `groups`
        params: Mapping[str, Any],
        *,  # numbers for all terms, or (m,) unless `columns` says otherwise
        columns: Mapping[str, tuple[str, np.ndarray]] | None = None,  # variable: parameter, (m,) places in it
        functions: Mapping[str, Tabulated] | None = None,  # that the expression may call
        points: Sequence[str] | None = None,  # names in the expression, by default p1, p2, ...
        groups: Sequence[tuple[Any, Any]] | None = None,  # atoms and weights (g,), whose mean is a point
        cutoff: float | None = None,  # nm; terms with a longer distance in `near` are left out
        near: Sequence[tuple[int, int]] = (),  # pairs of points
        switch: float | None = None,  # nm; for two points, as for `PairPotential`
        name: str = "compound_expression",
    ):
        self.name, self.expression = name, expression
        given = np.asarray(atoms)
        if given.ndim != 2 or given.dtype.kind not in "iu":
            raise ValueError(
                f"{name}: atoms must be integers of shape [terms, points], got {given.dtype} of shape {given.shape}"
            )
        self.atoms = as_indices(given, name)
        m, k = self.atoms.shape
        self.points = tuple(points or (f"p{i + 1}" for i in range(k)))
        self.params = {key: np.array(value, np.float64) for key, value in params.items()}
        every = np.arange(m)
        self.columns = (
            dict(columns)
            if columns is not None
            else {key: (key, every) for key, value in self.params.items() if value.ndim}
        )
        for variable, (key, rows) in self.columns.items():
            if len(rows) != m or (m and np.max(rows) >= len(self.params[key])):
                raise ValueError(
                    f"{name}: {variable} must be one for each of {m} terms, got shape "
                    f"{self.params[key].shape} of parameter {key}"
                )
        self.functions = dict(functions or {})
        self.cutoff, self.near, self.switch = cutoff, tuple(near), switch
        if switch is not None and (cutoff is None or not 0 <= switch < cutoff):
            raise ValueError(f"{name}: switch must lie between 0 and the cut-off {cutoff} nm, got {switch}")
        self.groups = (
            None
            if groups is None
            else tuple(
                (as_indices(own, name), np.asarray(weights, np.float64) / np.sum(weights)) for own, weights in groups
            )
        )
        self._parsed()

    def _parsed(self) -> Expression:
        numbers = tuple(key for key, value in self.params.items() if value.ndim == 0)
        arity = tuple((key, f.arity) for key, f in self.functions.items())
        return _parse(self.expression, self.name, self.points, (*numbers, *self.columns), arity)

    def energy(self, params: dict[str, Any], positions: Any, box: Any) -> Any:
        box = box if self.images else None
        parsed = self._parsed()
        x = (positions if self.groups is None else centers(positions, self.groups))[self.atoms]
        values: dict[str, Any] = {key: params[key] for key, value in self.params.items() if value.ndim == 0}
        values |= {name: params[key][rows] for name, (key, rows) in self.columns.items()}
        for k, point in enumerate(self.points):
            values[point] = x[:, k]
            values |= {f"{axis}{k + 1}": x[:, k, a] for a, axis in enumerate(_AXES)}
        near = [length(displacement(x[:, i] - x[:, j], box)) for i, j in self.near]
        if "r" in parsed.variables and "r" not in values:
            values["r"] = near[0] if near else length(displacement(x[:, 0] - x[:, 1], box))
        found = parsed(values, _functions(box) | self.functions) + 0.0 * x[:, 0, 0]
        if self.switch is not None:
            assert self.cutoff is not None
            found = found * switch(near[0], self.switch, self.cutoff)
        if self.cutoff is not None:
            for r in near:
                found = np.where(r < self.cutoff, found, 0.0)
        return np.sum(found)

    def check(self, system):
        where = f"{type(self).__name__} {self.name!r}"
        if self.groups is None:
            check_indices(self.atoms, system.n, f"{where}: atoms")
        else:
            check_indices(self.atoms, len(self.groups), f"{where}: groups")
            for own, weights in self.groups:
                check_indices(own, system.n, f"{where}: atoms")
                check.finite(weights, f"{where}: weights of a group")
        for key, values in self.params.items():
            check.finite(values, f"{where}: parameter {key}")
        if system.box is not None and self.images and self.cutoff is not None:
            check_cutoff(self.name, self.cutoff, system.box)


def centers(positions: Any, groups: Sequence[tuple[np.ndarray, np.ndarray]]) -> Any:
    """Weighted means [groups, 3] of the positions of groups of atoms."""
    used = np.unique(np.concatenate([own for own, _ in groups]))
    weights = np.zeros((len(groups), len(used)))
    for g, (own, w) in enumerate(groups):
        np.add.at(weights[g], np.searchsorted(used, own), w)
    return weights @ positions[used]


def check_functions(parsed: Expression, points: Sequence[str], where: str) -> None:
    """Raise unless points occur as arguments of functions of points only, and these take nothing else."""
    for kind, *arguments in parsed.nodes:
        if kind in ("number", "variable"):
            continue
        of = [parsed.nodes[a][1] if parsed.nodes[a][0] == "variable" else None for a in arguments]
        wrong = [a for a in of if (a in points) != (kind in _OF_POINTS)]
        if wrong:
            raise FileFormatError(
                f"{where}: the points {', '.join(points)} must be arguments of "
                f"{', '.join(_OF_POINTS)} and these take no other, got {kind} of "
                f"{wrong[0] or 'an expression'}"
            )
    root = parsed.nodes[parsed.root]
    if root[0] == "variable" and root[1] in points:
        raise FileFormatError(f"{where}: the energy must be a number, got the point {root[1]}")


@lru_cache(64)
def _parse(
    expression: str, where: str, points: tuple[str, ...], names: tuple[str, ...], arity: tuple[tuple[str, int], ...]
) -> Expression:
    numbered = points[0][0] in "pg"  # donors and acceptors have no numbers to name coordinates by
    coordinates = [f"{axis}{k + 1}" for k in range(len(points)) for axis in _AXES if numbered]
    known = (*points, *coordinates, *(["r"] if len(points) == 2 and "r" not in names else []), *names)
    own, tables = _OF_POINTS | _OF_COORDINATES, dict(arity)
    if taken := sorted(own.keys() & tables):
        raise FileFormatError(
            f"{where}: a table must have a name of its own, got {taken[0]!r}, which is a function of points"
        )
    parsed = parse(expression, where, known, own | tables)
    check_functions(parsed, points, where)
    return parsed


def _functions(box: Any) -> dict[str, Any]:
    """Functions of points [m, 3], and of coordinates, between nearest images."""

    def distance(a, b):
        return length(displacement(a - b, box))

    def bend(a, b, c):
        return angle(displacement(a - b, box), displacement(c - b, box))

    def twist(a, b, c, d):
        return torsion(displacement(b - a, box), displacement(c - b, box), displacement(d - c, box))

    def of_coordinates(function):
        def call(*at):
            zero = sum(0.0 * x for x in at)
            return function(*(np.stack([x + zero for x in at[k : k + 3]], axis=-1) for k in range(0, len(at), 3)))

        return call

    own = {"distance": distance, "angle": bend, "dihedral": twist}
    return own | {f"point{name}": of_coordinates(function) for name, function in own.items()}


def example():
    """Potentials for `testing`, with the options of `example_system` that each needs."""
    table = Tabulated(np.sin(np.arange(9.0)), [(0.0, 2.0)])
    atoms = [[0, 1, 2, 5], [3, 4, 6, 8]]
    compound = ExpressionCompound(
        "k*(distance(p1,p4)-r0)^2 + g*t(distance(p2,p3))*cos(dihedral(p1,p2,p3,p4)) + angle(p1,p2,p4)*a; a = k/100",
        atoms,
        {"k": [500.0, 300.0], "r0": 0.2, "g": 3.0},
        functions={"t": table},
    )
    groups = [([0, 1, 2], [1.0, 1, 1]), ([3, 4], [1.0, 3]), ([7, 9, 10, 11], [1.0, 2, 3, 1])]
    centroids = ExpressionCompound(
        "k*pointdistance(x1,y1,z1,x2,y2,z2)^2 + angle(p1,p2,p3)",
        [[0, 1, 2]],
        {"k": [80.0]},
        groups=groups,
        name="centroid_expression",
    )
    field = ExpressionCompound("k*x1*y2 + z3^2", [[0, 4, 7]], {"k": 20.0}, name="field")
    box = [[1.2, 0, 0], [0.2, 1.1, 0], [-0.1, 0.3, 1.2]]
    return [([compound, centroids, field], {}), ([compound], {"box": box})]
