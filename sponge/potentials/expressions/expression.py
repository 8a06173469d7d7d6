"""Potentials whose energy is an expression in text form, as OpenMM's custom forces have it.

The expression is compiled as it is: `core.elementwise` takes it from the parsed nodes, and the generated kernels of
bonds, angles, torsions and pairs from there. The text is kept, so that such a potential can be pickled and copied.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import lru_cache, reduce
from operator import mul
from typing import Any

import numpy as np

from triskele.core.extend import Elementwise, check

from ...box import displacement
from ...codegen.algebra import Algebra, Term
from ...codegen.expressions import FUNCTIONS, canonical, parse
from ...codegen.tabulated import Tabulated
from ...geometry import length
from ...potential import Potential
from ...topology import check_indices
from ..bonded.terms import ANGLE, BOND, TORSION, TermPotential, indices
from ..pairs.terms import PairPotential, truncated
from .factors import Factors

__all__ = ["ExpressionExternal", "ExpressionPair", "ExpressionTerm", "pair"]

MOST_TYPES = 2000  # of atoms that differ in their parameters: tables of pairs grow with the square
_KINDS = {"bond": (BOND, "r"), "angle": (ANGLE, "theta"), "torsion": (TORSION, "theta")}


def _named(function: Any, names: Sequence[str], title: str) -> Elementwise:
    function.__name__ = function.__qualname__ = title
    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return Elementwise(function, names, inspect.Signature([inspect.Parameter(name, keyword) for name in names]))


def _per_term(where: str, params: Mapping[str, Any], m: int) -> dict[str, np.ndarray]:
    """Parameters as numbers, which hold for all terms, and arrays [m]."""
    found = {name: np.array(v, np.float64) for name, v in params.items()}
    for name, values in found.items():
        check.shape(values, [(), (m,)], f"{where}: parameter {name}", hint="a number or one for each term")
    return found


@lru_cache(64)
def _term_function(expression: str, kind: str, names: tuple[str, ...]) -> Elementwise:
    coordinate = _KINDS[kind][1]
    parsed = parse(expression, f"{kind}_expression", (coordinate, *names))

    def energy(x, *params):
        return parsed({coordinate: x} | dict(zip(names, params))) + 0.0 * x  # a constant has the type of a coordinate

    # the coordinate's name must not be that of a parameter
    return _named(energy, ("x" if "x" not in names else "x_", *names), f"{kind}_expression")


class ExpressionTerm(TermPotential):
    """Bonds, angles or torsions with an energy given as an expression."""

    def __init__(
        self,
        kind: str,  # "bond", "angle" or "torsion"
        expression: str,  # kJ/mol, of r (nm) or theta (radians) and the parameters, in OpenMM's syntax
        atoms: Any,
        params: Mapping[str, Any],
    ):  # (m, k); numbers for all terms, or (m,)
        self.of, self.expression, self.names = kind, expression, tuple(params)
        self.name = f"{kind}_expression"
        self.atoms = indices(self.name, atoms, self.kind.atoms)
        self.params = _per_term(self.name, params, len(self.atoms))

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
    """All pairs of atoms with an energy given as an expression, which must be symmetric in the two atoms.

    What does not depend on the distance becomes a coefficient: a number, or a table over the types of the two atoms.
    Where a square root in it is 0, such as that of the depths of atoms without Lennard-Jones, its derivative by the
    parameters is taken as 0, as by `Nonbonded`.

    >>> ExpressionPair("k*q1*q2*exp(-r)", [0, 1, 0], {"k": 2.0, "q": [0.3, -0.3]})
    <ExpressionPair 'pair_expression': k (), q (2,)>
    """

    default_name = "pair_expression"

    def __init__(
        self,
        expression: str,  # kJ/mol, of r (nm), numbers, and a1 and a2 for values a of the two atoms
        types: Any,
        params: Mapping[str, Any],  # (n,); numbers for all pairs, or values (t,) by type
        tables: Mapping[str, Tabulated] | None = None,  # functions of anything but the distance
        cutoff: float | None = None,
        switch: float | None = None,
        name: str | None = None,
    ):
        self.expression, self.tables = expression, dict(tables or {})
        own = {key: np.array(v, np.float64) for key, v in params.items()}
        self.numbers, self.values = (
            tuple(key for key, v in own.items() if (v.ndim == 0) == alike) for alike in (True, False)
        )
        self.params = own
        found = self.coefficients(own)
        super().__init__(name=name, cutoff=cutoff, switch=switch, types=types, **found)
        self.params = own

    @property
    def _pieces(self) -> tuple[Elementwise, list[Term], Split]:
        arity = tuple((key, f.arity) for key, f in self.tables.items())
        return _pair_function(self.expression, self.numbers, self.values, arity)

    @property
    def function(self) -> Elementwise:  # type: ignore[override]
        """The energy of one pair, of the distance and the coefficients."""
        return self._pieces[0]

    def coefficients(self, params: Mapping[str, Any]) -> dict[str, Any]:
        function, terms, split = self._pieces
        values = self._by_pair(params)
        found = [self._table(split.value(term, values, self.tables)) for term in terms]
        return dict(zip(function.names[1:], found))

    def _by_pair(self, params: Mapping[str, Any]) -> dict[str, Any]:
        numbers = {key: params[key] for key in self.numbers}
        return pair_values({key: params[key] for key in self.values}) | numbers

    def _table(self, values: Any) -> Any:
        t = max((len(self.params[key]) for key in self.values), default=1)
        return values if np.ndim(values) == 0 else values + np.zeros((t, t))

    def kernel_form(self):
        function, terms, split = self._pieces
        values, factors = self._by_pair(self.params), Factors()
        for term in terms:
            parts = [(split.value(Term(1.0, ((node, 1),)), values, self.tables), n) for node, n in term.factors]
            factors.add(self._table(split.value(term, values, self.tables)), parts)
        function = truncated(_factored(function, tuple(factors.products)), self.cutoff, self.switch, self.shift)
        names = function.names[1:]
        by_atom = ("product", "arithmetic")
        return (
            function,
            {name: factor.rule for name, factor in zip(names, factors.found)},
            {
                name: factor.values[self.types] if factor.rule in by_atom else factor.values
                for name, factor in zip(names, factors.found)
            },
        )

    def check(self, system):
        where = f"{type(self).__name__} {self.name!r}"
        for key, values in self.params.items():
            check.finite(values, f"{where}: parameter {key}")
        for key, values in self.coefficients(self.params).items():
            check.finite(values, f"{where}: coefficient {key} of {self.expression[:200]!r}")
        self.check_pairs(system)

    __reduce__ = object.__reduce__  # unlike classes that a decorator makes, this one is found by its name


def pair(
    expression: str,
    *,
    types: Any = None,
    functions: Mapping[str, Tabulated] | None = None,
    cutoff: float | None = None,
    switch: float | None = None,
    name: str = "pair",
    **params: Any,
) -> ExpressionPair:
    """Make a potential between all pairs of atoms from an expression in OpenMM's syntax.

    `pair_potential` makes one from a Python function.

    Parameters
    ----------
    expression : str
        Energy of a pair in kJ/mol, of the distance ``r`` (nm) and of the parameters. A number goes by its own name, and
        values of atoms by theirs with 1 and 2 for the two atoms: ``sigma`` gives ``sigma1`` and ``sigma2``. Definitions
        follow after semicolons and hold for the text to their left.
    types : (n,) int, optional
        Type of each atom, for parameters that are values of types. Defaults to making types of the atoms that have the
        same values.
    functions : mapping of str to Tabulated, optional
        Functions of anything but the distance that the expression may call.
    cutoff, switch : float, nm, optional
        As for `PairPotential`.
    name : str
        Name under which the energy is reported.
    **params : float, (n,) array or (t,) array
        Numbers for all pairs alike, and values of atoms or, with `types`, of types. The potential's parameters are
        those of types.

    Raises
    ------
    FileFormatError
        If the expression is not valid; the message gives the position and the known names.
    ValueError
        If lengths of arrays differ, or the energy is not the same when the two atoms change places.

    Examples
    --------
    >>> from triskele import sponge
    >>> mixed = "4*eps*((s/r)^12-(s/r)^6); s=0.5*(sigma1+sigma2); eps=sqrt(epsilon1*epsilon2)"
    >>> sponge.pair(mixed, sigma=[0.3, 0.3, 0.25], epsilon=[1.0, 1.0, 0.5], cutoff=1.0)
    <ExpressionPair 'pair': sigma (2,), epsilon (2,)>
    """
    values = {key: np.asarray(v, np.float64) for key, v in params.items()}
    arrays = {key: v for key, v in values.items() if v.ndim}
    if len({v.shape for v in arrays.values()}) > 1 or any(v.ndim > 1 for v in arrays.values()):
        shapes = ", ".join(f"{key} {v.shape}" for key, v in arrays.items())
        raise ValueError(f"pair: arrays of parameters must be of one length, got {shapes}")
    if types is None and arrays:
        kinds, types = np.unique(np.stack(list(arrays.values()), axis=1), axis=0, return_inverse=True)
        if len(kinds) > MOST_TYPES:
            raise ValueError(
                f"pair: atoms must be of at most {MOST_TYPES} kinds, got {len(kinds)} that differ in "
                "their parameters (pair_potential takes any number)"
            )
        values |= dict(zip(arrays, kinds.T))
    return ExpressionPair(expression, types, values, functions, cutoff, switch, name)


def pair_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of both atoms of a pair by pair of types: ``a1`` [t, 1] and ``a2`` [1, t]."""
    return {f"{k}1": v[:, None] for k, v in values.items()} | {f"{k}2": v[None, :] for k, v in values.items()}


@lru_cache(64)
def _pair_function(
    expression: str, numbers: tuple[str, ...], names: tuple[str, ...], arity: tuple[tuple[str, int], ...]
) -> tuple[Elementwise, list[Term], Split]:
    algebra = Algebra()
    variables = ("r", *numbers, *(f"{name}{k}" for k in (1, 2) for name in names))
    term = canonical(parse(expression, "pair_expression", variables, dict(arity)), algebra)
    split = Split(algebra, "r")
    energy = split.function(term)

    def of_pair(r, *coefficients):
        return energy(r, coefficients) + 0.0 * r

    names = ("r", *(f"c{k}" for k in range(len(split.coefficients))))
    return _named(of_pair, names, "pair_expression"), split.coefficients, split


def _factored(function: Elementwise, products: tuple[tuple[tuple[int, int], ...], ...]) -> Elementwise:
    """The energy of one pair as a function of the factors of its coefficients."""
    if (key := ("factored", products)) in function.kept:
        return function.kept[key]

    def of_pair(r, *factors):
        return function(r, *(reduce(mul, [factors[k] ** n for k, n in powers]) for powers in products))

    count = 1 + max((k for powers in products for k, _ in powers), default=-1)
    function.kept[key] = _named(of_pair, ("r", *(f"f{k}" for k in range(count))), function.__name__)
    return function.kept[key]


class Split:
    """Terms of an algebra, split into what depends on some variables and the rest, which becomes coefficients."""

    def __init__(self, algebra: Algebra, *variables: str):
        self.algebra, self.variables = algebra, variables
        self.coefficients: list[Term] = []  # that `function` has found
        self._depends: dict[int, bool] = {}

    def depends(self, term: Term) -> bool:
        """Return True if the term depends on the variables."""
        return any(self.node_depends(node) for node, _ in term.factors)

    def node_depends(self, node: int) -> bool:
        """Return True if the node depends on the variables; all nodes before it are known."""
        for k in range(len(self._depends), node + 1):  # arguments have smaller numbers
            kind, *arguments = self.algebra.nodes[k]
            self._depends[k] = (
                arguments[0] in self.variables
                if kind == "input"
                else any(self._depends[n] for t in arguments for n, _ in t.factors)
            )
        return self._depends[node]

    def parts(self, term: Term) -> tuple[Term, list[tuple[int, int]]]:
        """The factors that do not depend on the variables as one term, and those that do."""
        free = tuple(f for f in term.factors if not self.node_depends(f[0]))
        return Term(term.number, free), [f for f in term.factors if self.node_depends(f[0])]

    def value(self, term: Term, values: Mapping[str, Any], tables: Mapping[str, Tabulated] | None = None) -> Any:
        """The value of a term, for values of its inputs."""
        return _value(self.algebra, term, values, tables or {})

    def function(self, term: Term) -> Any:
        """A function ``f(x, coefficients)`` for the value of the term; of a single variable."""
        free, factors = self.parts(term)
        powers = [(self._node(node), n) for node, n in factors]
        number = free.number  # not part of a coefficient: it meets those of derivatives
        k = self._coefficient(Term(1.0, free.factors)) if free.factors else None

        def evaluate(x, c):
            values = [f(x, c) ** n if n != 1 else f(x, c) for f, n in powers]
            values += [] if k is None else [c[k]]
            return reduce(mul, values, number) if number != 1 or not values else reduce(mul, values)

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


def _call(kind: str, tables: Mapping[str, Tabulated]) -> Any:
    if kind in tables:
        return tables[kind]
    return np.power if kind == "^" else (lambda x, y: x / y) if kind == "/" else FUNCTIONS[kind][1]


def _value(algebra: Algebra, term: Term, values: Mapping[str, Any], tables: Mapping[str, Tabulated]) -> Any:
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
                found[k] = values[arguments[0]]
            elif kind == "sum":
                found[k] = sum(of(t) for t in arguments)
            else:
                function = _root if kind == "sqrt" else _call(kind, tables)
                found[k] = function(*[of(t) for t in arguments])
        return of(term)


def _root(x: Any) -> Any:
    """Square roots, which have no derivative where they are 0: that of a depth of 0, as `Nonbonded` has it."""
    some = x != 0
    return np.where(some, np.sqrt(np.where(some, x, 1.0)), 0.0)


class ExpressionExternal(Potential):
    """A field that acts on single atoms, with an energy given as an expression of their positions.

    ``periodicdistance(x, y, z, x0, y0, z0)`` is the distance of nearest images.
    """

    invariant = False
    conserves_momentum = False

    def __init__(
        self,
        expression: str,  # kJ/mol, of x, y and z (nm) and the parameters, in OpenMM's syntax
        atoms: Any,
        params: Mapping[str, Any],
    ):  # (m,); numbers for all atoms, or (m,)
        self.name, self.expression = "external_expression", expression
        self.atoms = np.ascontiguousarray(atoms, np.int32).reshape(-1)
        self.params = _per_term(self.name, params, len(self.atoms))

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
        ExpressionTerm(
            "bond", "k*max(0, r-r0)^2 + select(step(r-0.5), 3*r, 1.5)", [[0, 9], [1, 5]], {"k": 500.0, "r0": [0.3, 0.2]}
        ),
        ExpressionTerm(
            "angle", "k*(cos(theta)-c)^2; c = cos(theta0)", [[0, 4, 9], [1, 2, 3]], {"k": 80.0, "theta0": 1.9}
        ),
        ExpressionTerm("torsion", "k*(1+cos(n*theta-phase))", [[0, 1, 2, 3]], {"k": 5.0, "n": 3.0, "phase": 0.2}),
        ExpressionExternal("k*max(0, sqrt(x^2+y^2+z^2)-0.1)^2", [0, 3, 7], {"k": 100.0}),
    ]
    pair = ExpressionPair(
        "g*e*exp(-b*r)*t(k1, k2); e = sqrt(e1*e2); b = 0.5*(b1+b2)",
        np.arange(12) % 3,
        {"e": [1, 2, 3.0], "b": [20.0, 25, 30], "k": [0.0, 1, 0], "g": 1.5},
        {"t": Tabulated([[1.0, 2.0], [2.0, 3.0]])},
        cutoff=0.44,
        switch=0.3,
    )
    return [(terms, {}), ([pair], {}), ([terms[0], pair], {"box": [0.9, 0.9, 0.9]})]
