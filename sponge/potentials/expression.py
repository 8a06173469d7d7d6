"""Potentials whose energy is an expression in text form, as OpenMM's custom forces have it.

The expression is compiled as it is: `core.elementwise` takes it from the parsed nodes, and the generated kernels of
bonds, angles, torsions and pairs from there. The text is kept, so that such a potential can be pickled and copied.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from triskele.core.extend import Elementwise, check

from ..box import displacement
from ..codegen.algebra import Algebra, Term
from ..codegen.expressions import FUNCTIONS, canonical, parse
from ..geometry import length
from ..potential import Potential
from ..topology import check_indices
from .pair_terms import PairPotential
from .terms import ANGLE, BOND, TORSION, TermPotential, indices

__all__ = ["ExpressionExternal", "ExpressionPair", "ExpressionTerm"]

_KINDS = {"bond": (BOND, "r"), "angle": (ANGLE, "theta"), "torsion": (TORSION, "theta")}


def _named(function: Any, names: Sequence[str], title: str) -> Elementwise:
    function.__name__ = function.__qualname__ = title
    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return Elementwise(function, names, inspect.Signature([inspect.Parameter(name, keyword) for name in names]))


@lru_cache(64)
def _term_function(expression: str, kind: str, names: tuple[str, ...]) -> Elementwise:
    coordinate = _KINDS[kind][1]
    parsed = parse(expression, f"{kind}_expression", (coordinate, *names))

    def energy(x, *params):
        return parsed({coordinate: x} | dict(zip(names, params))) + 0.0 * x  # a constant has the type of a coordinate

    # the coordinate's name must not be that of a parameter
    return _named(energy, ("x" if "x" not in names else "x_", *names), f"{kind}_expression")


class ExpressionTerm(TermPotential):
    """Bonds, angles or torsions with an energy given as an expression.

    Parameters
    ----------
    kind : {"bond", "angle", "torsion"}
    expression : str
        Energy of a term in kJ/mol, of ``r`` (nm) or ``theta`` (radians) and of the parameters, in OpenMM's syntax.
    atoms : (m, k) int
    params : mapping of str to float or (m,) array

    Examples
    --------
    >>> ExpressionTerm("bond", "k*max(0, r-r0)^2", [[0, 1]], {"k": 500.0, "r0": 0.3})
    <ExpressionTerm 'bond_expression': k (1,), r0 (1,)>
    """

    def __init__(self, kind: str, expression: str, atoms: Any, params: Mapping[str, Any]):
        self.of, self.expression, self.names = kind, expression, tuple(params)
        self.name = f"{kind}_expression"
        self.atoms = indices(self.name, atoms, self.kind.atoms)
        m = len(self.atoms)
        self.params = {name: np.array(np.broadcast_to(np.asarray(v, np.float64), (m,))) for name, v in params.items()}

    @property
    def function(self) -> Elementwise:  # type: ignore[override]
        """The energy of one term."""
        return _term_function(self.expression, self.of, self.names)

    @property
    def kind(self):  # type: ignore[override]
        """The kind of the terms: bonds, angles or torsions."""
        return _KINDS[self.of][0]

    __reduce__ = object.__reduce__  # unlike classes that a decorator makes, this one is found by its name


class ExpressionPair(PairPotential):
    """All pairs of atoms with an energy given as an expression.

    What does not depend on the distance becomes a table over the types of the two atoms.

    Parameters
    ----------
    expression : str
        Energy of a pair in kJ/mol, of ``r`` (nm) and of values of both atoms: those of ``a`` are ``a1`` and ``a2``.
    types : (n,) int
    values : mapping of str to (t,) array
        Values of the types of atoms.
    tables : mapping of str to (t1,) or (t1, t2) array, optional
        Tables that the expression calls like functions of whole numbers from 0 on.
    cutoff, switch : float, optional
        As for `PairPotential`.

    Raises
    ------
    ValueError
        If the energy is not the same when the two atoms change places.
    """

    def __init__(self, expression: str, types: Any, values: Mapping[str, Any],
                 tables: Mapping[str, np.ndarray] | None = None,
                 cutoff: float | None = None, switch: float | None = None):
        tables = dict(tables or {})
        self.expression, self.names, self.arity = expression, tuple(values), tuple(
            (k, v.ndim) for k, v in tables.items()
        )
        function, coefficients = _pair_function(expression, self.names, self.arity)
        known = pair_values(values)
        t = len(np.asarray(next(iter(values.values())))) if values else 1
        found = [np.array(np.broadcast_to(v, (t, t))) for v in coefficients(known, tables)]
        super().__init__(name="pair_expression", cutoff=cutoff, switch=switch, types=types,
                         **{name: c for name, c in zip(function.names[1:], found)})

    @property
    def function(self) -> Elementwise:  # type: ignore[override]
        """The energy of one pair, of the distance and the coefficients."""
        return _pair_function(self.expression, self.names, self.arity)[0]

    __reduce__ = object.__reduce__  # unlike classes that a decorator makes, this one is found by its name


def pair_values(values: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Values of both atoms of a pair by pair of types: ``a1`` [t, 1] and ``a2`` [1, t]."""
    return {f"{k}1": np.asarray(v, np.float64)[:, None] for k, v in values.items()} | {
        f"{k}2": np.asarray(v, np.float64)[None, :] for k, v in values.items()
    }


@lru_cache(64)
def _pair_function(expression: str, names: tuple[str, ...],
                   arity: tuple[tuple[str, int], ...]) -> tuple[Elementwise, Any]:
    algebra = Algebra()
    variables = ("r", *(f"{name}{k}" for k in (1, 2) for name in names))
    term = canonical(parse(expression, "pair_expression", variables, dict(arity)), algebra)
    split = Split(algebra, "r")
    energy = split.function(term)

    def of_pair(r, *coefficients):
        return energy(r, coefficients) + 0.0 * r

    def coefficients(values, tables):
        return [split.value(c, values, tables) for c in split.coefficients]

    return _named(of_pair, ("r", *(f"c{k}" for k in range(len(split.coefficients)))), "pair_expression"), coefficients


class Split:
    """Terms of an algebra, split into what depends on some variables and the rest, which becomes coefficients.

    Attributes
    ----------
    coefficients : list of Term
        Coefficients that `function` has found.
    """

    def __init__(self, algebra: Algebra, *variables: str):
        self.algebra, self.variables = algebra, variables
        self.coefficients: list[Term] = []
        self._depends: dict[int, bool] = {}

    def depends(self, term: Term) -> bool:
        """Return True if the term depends on the variables."""
        return any(self.node_depends(node) for node, _ in term.factors)

    def node_depends(self, node: int) -> bool:
        """Return True if the node depends on the variables; all nodes before it are known."""
        for k in range(len(self._depends), node + 1):  # arguments have smaller numbers
            kind, *arguments = self.algebra.nodes[k]
            self._depends[k] = arguments[0] in self.variables if kind == "input" else any(
                self._depends[n] for t in arguments for n, _ in t.factors
            )
        return self._depends[node]

    def parts(self, term: Term) -> tuple[Term, list[tuple[int, int]]]:
        """The factors that do not depend on the variables as one term, and those that do."""
        free = tuple(f for f in term.factors if not self.node_depends(f[0]))
        return Term(term.number, free), [f for f in term.factors if self.node_depends(f[0])]

    def value(self, term: Term, values: Mapping[str, Any], tables: Mapping[str, np.ndarray] | None = None) -> Any:
        """The value of a term, for values of its inputs."""
        return _value(self.algebra, term, values, tables or {})

    def function(self, term: Term) -> Any:
        """A function ``f(x, coefficients)`` for the value of the term; of a single variable."""
        free, factors = self.parts(term)
        powers = [(self._node(node), n) for node, n in factors]
        plain = free == Term(1.0) and powers
        k = None if plain else self._coefficient(free)

        def evaluate(x, c):
            out = None if k is None else c[k]
            for f, n in powers:
                y = f(x, c) ** n if n != 1 else f(x, c)
                out = y if out is None else out * y
            return out

        return evaluate

    def _coefficient(self, term: Term) -> int:
        if term not in self.coefficients:
            self.coefficients.append(term)
        return self.coefficients.index(term)

    def _node(self, node: int) -> Any:
        kind, *arguments = self.algebra.nodes[node]
        if kind == "input":
            return lambda x, c: x
        if kind == "sum":
            moving = [t for t in arguments if self.depends(t)]
            rest = [t for t in arguments if not self.depends(t)]
            parts = [self.function(t) for t in [*moving, *([self.algebra.add(*rest)] if rest else [])]]

            def add(x, c):
                total = parts[0](x, c)
                for part in parts[1:]:
                    total = total + part(x, c)
                return total

            return add
        inner = [self.function(t) for t in arguments]
        return lambda x, c: _call(kind, {})(*[f(x, c) for f in inner])


def _call(kind: str, tables: Mapping[str, np.ndarray]) -> Any:
    if kind in tables:
        return lambda *at: _look_up(kind, tables[kind], at)
    return np.power if kind == "^" else (lambda x, y: x / y) if kind == "/" else FUNCTIONS[kind][1]


def _look_up(name: str, table: np.ndarray, at: tuple) -> np.ndarray:
    index = tuple(np.rint(np.asarray(k, np.float64)).astype(np.int64) for k in at)
    for k, (i, x, n) in enumerate(zip(index, at, table.shape)):
        if np.any(i != x) or np.any(i < 0) or np.any(i >= n):
            raise ValueError(
                f"pair_expression: argument {k + 1} of the table {name} must be a whole number from 0 to {n - 1}"
            )
    return table[index]


def _value(algebra: Algebra, term: Term, values: Mapping[str, Any], tables: Mapping[str, np.ndarray]) -> Any:
    found: dict[int, Any] = {}

    def of(t):
        total = t.number
        for node, n in t.factors:
            total = total * found[node] ** float(n) if n != 1 else total * found[node]
        return total

    wanted = {node for node, _ in term.factors}
    for k in range(max(wanted, default=-1), -1, -1):
        if k in wanted and algebra.nodes[k][0] != "input":
            wanted |= {n for t in algebra.nodes[k][1:] for n, _ in t.factors}
    with np.errstate(all="ignore"):
        for k in sorted(wanted):
            kind, *arguments = algebra.nodes[k]
            if kind == "input":
                found[k] = np.asarray(values[arguments[0]], np.float64)
            elif kind == "sum":
                found[k] = sum(of(t) for t in arguments)
            else:
                found[k] = _call(kind, tables)(*[of(t) for t in arguments])
        return of(term)


class ExpressionExternal(Potential):
    """A field that acts on single atoms, with an energy given as an expression of their positions.

    Parameters
    ----------
    expression : str
        Energy of an atom in kJ/mol, of its ``x``, ``y`` and ``z`` (nm) and of the parameters, in OpenMM's syntax;
        ``periodicdistance(x, y, z, x0, y0, z0)`` is the distance of nearest images.
    atoms : (m,) int
    params : mapping of str to float or (m,) array

    Examples
    --------
    >>> ExpressionExternal("k*max(0, z-top)^2", [0, 1], {"k": 100.0, "top": 2.0})
    <ExpressionExternal 'external_expression': k (2,), top (2,)>
    """

    invariant = False

    def __init__(self, expression: str, atoms: Any, params: Mapping[str, Any]):
        self.name, self.expression = "external_expression", expression
        self.atoms = np.ascontiguousarray(atoms, np.int32).reshape(-1)
        m = len(self.atoms)
        self.params = {name: np.array(np.broadcast_to(np.asarray(v, np.float64), (m,))) for name, v in params.items()}

    def energy(self, params: dict[str, Any], positions: Any, box: Any) -> Any:
        parsed = _external(self.expression, tuple(self.params))
        x = positions[self.atoms]

        def distance(*ends):
            d = np.stack([a - b + np.zeros(len(self.atoms)) for a, b in zip(ends[:3], ends[3:])], axis=-1)
            return length(displacement(d, box))

        values = {"x": x[:, 0], "y": x[:, 1], "z": x[:, 2]} | dict(params)
        return np.sum(parsed(values, {"periodicdistance": distance}) + 0.0 * x[:, 0])

    def check(self, system):
        where = f"{type(self).__name__} {self.name!r}"
        check_indices(self.atoms, system.n, f"{where}: atoms")
        for name, values in self.params.items():
            check.finite(values, f"{where}: parameter {name}")


@lru_cache(64)
def _external(expression: str, names: tuple[str, ...]) -> Any:
    return parse(expression, "external_expression", ("x", "y", "z", *names), {"periodicdistance": 6})


def example():
    """Potentials for `testing`, with the options of `example_system` that each needs."""
    terms = [
        ExpressionTerm("bond", "k*max(0, r-r0)^2 + select(step(r-0.5), 3*r, 1.5)", [[0, 9], [1, 5]],
                       {"k": 500.0, "r0": [0.3, 0.2]}),
        ExpressionTerm("angle", "k*(cos(theta)-c)^2; c = cos(theta0)", [[0, 4, 9], [1, 2, 3]],
                       {"k": 80.0, "theta0": 1.9}),
        ExpressionTerm("torsion", "k*(1+cos(n*theta-phase))", [[0, 1, 2, 3]], {"k": 5.0, "n": 3.0, "phase": 0.2}),
        ExpressionExternal("k*max(0, sqrt(x^2+y^2+z^2)-0.1)^2", [0, 3, 7], {"k": 100.0}),
    ]
    pair = ExpressionPair("e*exp(-b*r); e = sqrt(e1*e2); b = 0.5*(b1+b2)", np.arange(12) % 3,
                          {"e": [1, 2, 3.0], "b": [20.0, 25, 30]})
    return [(terms, {}), ([pair], {}), (terms[:1], {"box": [0.9, 0.9, 0.9]})]
