"""Explicit SIMD code from a scalar function: its value and derivatives in one body without common subexpressions.

A function made by `core.elementwise` becomes a scalar graph, as do its partial derivatives. All of them are simplified
together (`algebra`), and written as the source of one device function over vectors of `core.kernels.simd` or over
floats, for a module that `core.compile.source_modules` puts into the cache folder.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from triskele.core.extend import Const, Elementwise

from .algebra import Algebra, Term

__all__ = ["Output", "expressions"]

_COMPARISONS = {
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_LOGIC = {
    "logical_and": "&",
    "logical_or": "|",
    "logical_xor": "^",
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "^",
}
# functions that simd has, by the primitive's name
_CALLS = {
    "sqrt": "sqrt", "absolute": "abs", "fabs": "abs", "floor": "floor", "ceil": "ceil", "rint": "rint",
    "trunc": "trunc", "maximum": "maximum", "minimum": "minimum", "fmax": "maximum", "fmin": "minimum",
    "copysign": "copysign", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "sinh": "sinh", "cosh": "cosh",
    "tanh": "tanh", "expit": "sigmoid", "erf": "erf", "erfc": "erfc", "log": "log", "log2": "log2", "log10": "log10",
    "log1p": "log1p", "logaddexp": "logaddexp", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    "cbrt": "cbrt", "hypot": "hypot", "power": "pow", "sin": "sin", "cos": "cos", "tan": "tan", "arctan": "atan",
    "arctan2": "atan2", "arcsin": "asin", "arccos": "acos",
}  # fmt: skip
_OF_NUMPY = {"abs", "floor", "ceil", "rint", "trunc", "maximum", "minimum", "exp2", "logaddexp", "cbrt"}  # of floats
_IDENTITY = {"convert", "stop_gradient", "real", "conjugate"}


class Output(NamedTuple):
    """A number that the generated code computes: a partial derivative of the function times powers of its arguments."""

    partial: tuple[str, ...] = ()  # arguments to differentiate by, one after the other; () is the value
    times: tuple[tuple[str, int], ...] = ()  # factors, such as (("r", -1),) for u'(r)/r
    scale: float = 1.0  # one more factor


# ------------------------------------------------------------------------------------------------- graph -> expressions
class _Reader:
    """Expressions of the graphs of one function and its derivatives, over shared nodes."""

    def __init__(self, names: Sequence[str], where: str):
        self.algebra = Algebra()
        self.inputs = [self.algebra.node("input", name) for name in names]
        self.where = where

    def read(self, function: Elementwise) -> Term:
        graph = function.graph()
        known: dict[Any, Term] = dict(zip(graph.inputs, self.inputs, strict=True))

        def term(atom):
            return Term(float(atom.value)) if type(atom) is Const else known[atom]

        for equation in graph.equations:
            (out,) = equation.outputs
            known[out] = self._apply(equation, [term(a) for a in equation.inputs])
        return term(graph.outputs[0])

    def _apply(self, equation, x: list[Term]) -> Term:
        a, name = self.algebra, equation.primitive.name
        match name:
            case "add":
                return a.add(*x)
            case "subtract":
                return a.add(x[0], a.negative(x[1]))
            case "multiply":
                return self._scaled_truth(equation, a.multiply(*x))
            case "divide":
                return a.multiply(x[0], a.power(x[1], -1))
            case "negative":
                return a.negative(x[0])
            case "integer_power":
                return a.power(x[0], equation.params["exponent"])
            case "square":
                return a.power(x[0], 2)
            case "reciprocal":
                return a.power(x[0], -1)
            case "power" if not x[1].factors and (2 * x[1].number).is_integer() and abs(x[1].number) <= 32:
                n = math.floor(x[1].number)
                half = a.node("sqrt", x[0]) if x[1].number != n else Term(1.0)
                return a.multiply(a.power(x[0], n), half) if n else half
            case "select":
                return a.select(*x)
            case "sign":
                return a.select(
                    a.node(">", x[0], Term(0.0)), Term(1.0), a.select(a.node("<", x[0], Term(0.0)), Term(-1.0), x[0])
                )  # a NaN stays one
            case "heaviside":
                return a.select(
                    a.node(">", x[0], Term(0.0)), Term(1.0), a.select(a.node("<", x[0], Term(0.0)), Term(0.0), x[1])
                )
            case "remainder" | "floor_divide" | "fmod":
                quotient = a.multiply(x[0], a.power(x[1], -1))
                whole = a.node("trunc" if name == "fmod" else "floor", quotient)
                return whole if name == "floor_divide" else a.add(x[0], a.negative(a.multiply(whole, x[1])))
            case "deg2rad":
                return a.multiply(Term(math.pi / 180), x[0])
            case "rad2deg":
                return a.multiply(Term(180 / math.pi), x[0])
            case "exp10":
                return a.node("exp", a.multiply(Term(math.log(10)), x[0]))
            case "isnan":
                return a.node("!=", x[0], x[0])
            case "logical_not" | "invert":
                return a.node("not", x[0]) if x[0].factors else Term(float(not x[0].number))
        if name in _IDENTITY:
            if equation.inputs[0].spec.dtype == bool and equation.outputs[0].spec.dtype != bool:
                return a.select(x[0], Term(1.0), Term(0.0))
            return x[0]
        if name not in _CALLS and name not in _COMPARISONS and name not in _LOGIC:
            raise NotImplementedError(
                f"{self.where}: the function must consist of operations that have a vector form, got {name} (write it "
                "as a sponge.FunctionPotential, or from other functions)"
            )
        if all(not t.factors for t in x):
            return Term(float(getattr(np, name)(*[t.number for t in x])))
        if name in _LOGIC and not (x[0].factors and x[1].factors):
            return self._with_known_truth(_LOGIC[name], *sorted(x, key=lambda t: bool(t.factors)))
        return a.node(_COMPARISONS.get(name) or _LOGIC.get(name) or _CALLS[name], *x)

    def _with_known_truth(self, sign: str, known: Term, other: Term) -> Term:
        """A logical operation of a constant, which no vector holds, and a comparison."""
        if known.number:
            return other if sign == "&" else Term(1.0) if sign == "|" else self.algebra.node("not", other)
        return Term(0.0) if sign == "&" else other

    def _scaled_truth(self, equation, product: Term) -> Term:
        if any(v.spec.dtype == bool for v in equation.inputs):
            raise NotImplementedError(f"{self.where}: a comparison must not be multiplied, use `x if c else 0`")
        return product


# --------------------------------------------------------------------------------------------- expressions -> source
class _Writer:
    """Lines of Python in which every needed power, product and node has a name."""

    def __init__(
        self,
        algebra: Algebra,
        arguments: Mapping[str, str],
        known: Mapping[str, str],
        dtype: str,
        width: int,
        number: Callable[[float], str] | None,
        even: Collection[int] = (),
        root: str = "",
    ):
        self.even = even  # inputs whose squares and inverse squares are known and enough
        self.algebra, self.arguments, self.known, self.dtype, self.width = algebra, arguments, dict(known), dtype, width
        self.root = root
        self._given_number = number
        self.lines: list[str] = []
        self._names: dict[Any, str] = {}

    def value(self, term: Term) -> str:
        """The name or number of a term; a vector unless the term is a number."""
        if not term.factors:
            return self._number(term.number)
        product = self._product(term.factors)
        if term.number == 1:
            return product
        return self._name(f"-{product}" if term.number == -1 else f"{self._number(term.number)} * {product}")

    def vector(self, term: Term) -> str:
        if term.factors or self._given_number or self.width == 1:
            return self.value(term)
        return self._name(f"simd.splat(np.{self.dtype}({self._number(term.number)}), {self.width})")

    def _number(self, x: float) -> str:
        if self._given_number:
            return self._given_number(float(x))
        return repr(float(x)) if math.isfinite(x) else "np.nan" if x != x else "np.inf" if x > 0 else "-np.inf"

    def _name(self, text: str) -> str:
        if text not in self._names:
            self._names[text] = f"v{len(self._names)}"
            self.lines.append(f"{self._names[text]} = {text}")
        return self._names[text]

    def _product(self, factors) -> str:
        """The powers have one shared product taken out as often as they all allow: s**6 r**-8 is (s/r)**6 (1/r)**2."""
        left = dict(self._powers(factors))
        single = [name for name, n in left.items() if n == 1]
        powers = [functools.reduce(lambda a, b: self._name(f"{a} * {b}"), sorted(single))] if single else []
        left = {name: n for name, n in left.items() if n > 1}
        while left:
            least = min(left.values())
            base = ""
            for name in sorted(left):
                base = self._name(f"{base} * {name}") if base else name
            powers.append(self._power(base, least))
            left = {name: n - least for name, n in left.items() if n > least}
        return functools.reduce(lambda a, b: self._name(f"{a} * {b}"), powers)

    def _powers(self, factors) -> Iterator[tuple[str, int]]:
        """Bases and their powers; squares of all that allow it where an input comes as its square."""
        squares = any(node in self.even for node, _ in factors)
        for node, n in factors:
            if node in self.even:
                yield self.known[f"{'' if n > 0 else '1/'}{self._node(node)}**2"], abs(n) // 2
                continue
            base = self._base(node, n > 0)
            if squares and n % 2 == 0:
                yield self._name(f"{base} * {base}"), abs(n) // 2
            else:
                yield base, abs(n)

    def _power(self, base: str, n: int) -> str:
        if n == 1:
            return base
        if f"{base}**{n}" in self.known:
            return self.known[f"{base}**{n}"]
        half = self._power(base, n // 2)
        return self._name(f"{half} * {half if n % 2 == 0 else self._power(base, n - n // 2)}")

    def _base(self, node: int, positive: bool) -> str:
        name = self._node(node)
        if positive:
            return name
        return self.known[f"1/{name}"] if f"1/{name}" in self.known else self._name(f"1.0 / {name}")

    def _node(self, index: int) -> str:
        kind, *terms = self.algebra.nodes[index]
        if kind == "input":
            return self.arguments[terms[0]]
        if index not in self._names:
            self._names[index] = self._written(kind, terms)
        return self._names[index]

    def _written(self, kind: str, terms) -> str:
        if kind == "sum":
            total = ""
            for term in sorted(terms, key=lambda t: t.number < 0):  # what is added before what is subtracted
                text = self.value(term if not total else Term(abs(term.number), term.factors))
                total = self._name(f"{total} {'-' if term.number < 0 else '+'} {text}") if total else text
            return total
        if kind == "select":
            condition, x, y = self.value(terms[0]), self.vector(terms[1]), self.value(terms[2])
            return self._name(
                f"{x} if {condition} else {y}" if self.width == 1 else f"simd.select({condition}, {x}, {y})"
            )
        arguments = [self.value(t) for t in terms]
        if kind in ("&", "|", "^", *_COMPARISONS.values()):
            return self._name(f"{arguments[0]} {kind} {arguments[1]}")
        if kind == "not":
            return self._name(f"{'not ' if self.width == 1 else '~'}{arguments[0]}")
        if kind == "sqrt" and self.root:
            inverse = self._name(f"{self.root}({arguments[0]})")
            name = self._name(f"{arguments[0]} * {inverse}")
            self.known[f"1/{name}"] = inverse
            return name
        call = f"{kind}({', '.join(arguments)})"
        home = "simd" if self.width > 1 else "np" if kind in _OF_NUMPY else "math"
        return self.known[call] if call in self.known else self._name(f"{home}.{call}")


def _even(algebra: Algebra, terms: Sequence[Term], arguments: Mapping[str, str], known: Mapping[str, str]) -> set[int]:
    """Inputs that have even powers only, and whose square and inverse square are known."""
    inputs = {
        k
        for k, node in enumerate(algebra.nodes)
        if node[0] == "input" and {f"{arguments[node[1]]}**2", f"1/{arguments[node[1]]}**2"} <= known.keys()
    }
    seen: set[int] = set()
    left = list(terms) if inputs else []
    while left:
        for node, n in left.pop().factors:
            inputs -= {node} if n % 2 else set()
            if node not in seen and algebra.nodes[node][0] != "input":
                seen.add(node)
                left += algebra.nodes[node][1:]
    return inputs


def _terms(function: Elementwise, outputs: tuple[Output, ...], where: str) -> tuple[Algebra, tuple[Term, ...]]:
    if (key := ("terms", outputs, where)) in function.kept:
        return function.kept[key]
    reader = _Reader(function.names, where)
    terms = []
    for partial, times, scale in outputs:
        term = reader.algebra.multiply(Term(scale), reader.read(function.partial(*partial) if partial else function))
        for name, n in times:
            term = reader.algebra.multiply(term, reader.algebra.power(reader.inputs[function.names.index(name)], n))
        terms.append(term)
    function.kept[key] = reader.algebra, tuple(terms)
    return function.kept[key]


def expressions(
    function: Elementwise,
    outputs: Sequence[Output],
    *,
    arguments: Sequence[str] | None = None,  # names of the vectors; None: those of the function's arguments
    known: Mapping[str, str] | None = None,  # names of vectors that exist, by "1/r", "r**2", "1/r**2", "cos(phi)"
    dtype: str = "float64",  # of all vectors; or "float32"
    width: int = 8,  # their lanes; 1: all are floats
    number: Callable[[float], str] | None = None,  # returns the name of a vector that holds a number; None: literals
    where: str = "",
    root: str = "",  # name of a function that returns 1/sqrt(x), from which roots are made; "": simd's root
) -> tuple[list[str], list[str]]:
    """Return source lines that compute partial derivatives of a scalar function, and the names of the outputs.

    The lines assign to v0, v1, ... If the function uses an operation without a vector form, raise a NotImplementedError
    that begins with `where`.
    """
    algebra, terms = _terms(function, tuple(outputs), where or function.__name__)
    named = dict(zip(function.names, arguments or function.names, strict=True))
    known = known or {}
    writer = _Writer(algebra, named, known, dtype, width, number, _even(algebra, terms, named, known), root)
    names = [writer.vector(t) for t in terms]
    return writer.lines, names


# ----------------------------------------------------------------------------------------------------- source -> module
