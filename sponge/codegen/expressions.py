"""Expressions of OpenMM's custom forces: parsed exactly, evaluated on arrays, and brought into a canonical form.

The grammar is that of OpenMM's Lepton. A parsed `Expression` is a list of nodes in which equal ones occur once, so that
nothing that follows recurses. `canonical` turns it into a `Term` of the algebra of `algebra`, whose equality is that of
expressions up to the laws of sums, products and whole powers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from scipy.special import erf, erfc

from triskele.core.extend import check

from ..errors import FileFormatError
from .algebra import Algebra, Term

__all__ = ["FUNCTIONS", "Expression", "canonical", "parse"]

_DEEPEST, _LONGEST = 60, 5000  # levels of parentheses, nodes
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|(?P<name>[A-Za-z_][\w.']*)|(?P<sign>[-+*/^(),]))"
)
_LARGEST_POWER = 64  # as products; larger exponents are left to pow

# name: number of arguments, and the function of NumPy arrays that the core can trace too
FUNCTIONS: dict[str, tuple[int, Callable]] = {
    "sqrt": (1, np.sqrt),
    "exp": (1, np.exp),
    "log": (1, np.log),
    "sin": (1, np.sin),
    "cos": (1, np.cos),
    "sec": (1, lambda x: 1 / np.cos(x)),
    "csc": (1, lambda x: 1 / np.sin(x)),
    "tan": (1, np.tan),
    "cot": (1, lambda x: 1 / np.tan(x)),
    "asin": (1, np.arcsin),
    "acos": (1, np.arccos),
    "atan": (1, np.arctan),
    "atan2": (2, np.arctan2),
    "sinh": (1, np.sinh),
    "cosh": (1, np.cosh),
    "tanh": (1, np.tanh),
    "erf": (1, erf),
    "erfc": (1, erfc),
    "step": (1, lambda x: np.where(x >= 0, 1.0, 0.0)),
    "delta": (1, lambda x: np.where(x == 0, 1.0, 0.0)),
    "square": (1, lambda x: x * x),
    "cube": (1, lambda x: x * x * x),
    "recip": (1, lambda x: 1 / x),
    "min": (2, np.minimum),
    "max": (2, np.maximum),
    "abs": (1, np.abs),
    "floor": (1, np.floor),
    "ceil": (1, np.ceil),
    "select": (3, lambda c, x, y: np.where(c != 0, x, y)),
}


def _power(x: Any, n: Any) -> Any:
    if isinstance(n, float):
        if n.is_integer() and abs(n) <= _LARGEST_POWER:
            return x ** int(n)
        if n == 0.5:
            return np.sqrt(x)
    return np.power(x, n)


_OPERATORS: dict[str, Callable] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x / y,
    "^": _power,
    "negative": lambda x: -x,
}
_BINDING = {"+": 0, "-": 0, "*": 1, "/": 1, "^": 3}
_TAKEN = {*FUNCTIONS, "negative", "number", "variable", "input", "sum"}  # kinds of nodes, here and of the algebra


class Expression:
    """A parsed expression."""

    def __init__(self, nodes: list[tuple], root: int):
        # ("number", value), ("variable", name) or (function or operator, indices of arguments...); arguments come first
        self.nodes, self.root = nodes, root
        # names without a definition, in the order of their occurrence
        self.variables = tuple(n[1] for n in nodes if n[0] == "variable")

    def __call__(self, values: Mapping[str, Any], tables: Mapping[str, Callable] | None = None) -> Any:
        """The value for numbers, arrays or traced values of the variables, and functions for the names of tables."""
        found: list[Any] = []
        for kind, *arguments in self.nodes:
            if kind == "number":
                found.append(arguments[0])
            elif kind == "variable":
                found.append(values[arguments[0]])
            else:
                found.append(_function(kind, tables or {})(*[found[k] for k in arguments]))
        return found[self.root]


def _function(kind: str, tables: Mapping[str, Callable]) -> Callable:
    return tables[kind] if kind in tables else _OPERATORS[kind] if kind in _OPERATORS else FUNCTIONS[kind][1]


class _Parser:
    def __init__(self, where: str, functions: Mapping[str, int]):
        self.where, self.functions = where, functions
        self.nodes: list[tuple] = []
        self.index: dict[tuple, int] = {}
        self.definitions: dict[str, int] = {}
        self.variables: dict[str, int] = {}  # by name, where they first stand
        self.tokens: list[tuple[str | None, str, int]] = []
        self.at = 0

    def error(self, what: str, place: int | None = None) -> FileFormatError:
        """An error that names a place in the text: by default that of the token read last."""
        if place is None:
            place = self.tokens[max(self.at - 1, 0)][2] if self.tokens else 0
        shown = self.text if len(self.text) <= 200 else f"{self.text[max(0, place - 60) : place + 60]} ..."
        return FileFormatError(
            f"{self.where}: {what}, at position {place} ({self.text[place : place + 12].strip()!r}) "
            f"in the expression {shown!r}"
        )

    def expression(self, start: int, stop: int) -> int:
        """The root of the part of the text from `start` to `stop`."""
        self.tokens, self.at, self.depth = [], 0, 0
        while self.text[start:stop].strip():
            found = _TOKEN.match(self.text, start, stop)
            if found is None:
                rest = self.text[start:stop]
                place = start + len(rest) - len(rest.lstrip())
                raise self.error(f"{self.text[place]!r} is not known", place)
            self.tokens.append((found.lastgroup, found[found.lastgroup or 0], found.start(found.lastgroup or 0)))
            start = found.end()
        root = self.operand(-1)
        if self.at < len(self.tokens):
            self.at += 1
            raise self.error(f"{self.tokens[self.at - 1][1]!r} must not stand where it does")
        return root

    def next(self, sign: str = "") -> tuple[str | None, str]:
        if self.at == len(self.tokens):
            raise self.error(f"{sign!r} is missing at the end" if sign else "an operand is missing at the end")
        self.at += 1
        if sign and self.tokens[self.at - 1][1] != sign:
            raise self.error(f"{sign!r} must stand where {self.tokens[self.at - 1][1]!r} does")
        return self.tokens[self.at - 1][:2]

    def operand(self, least: int) -> int:
        """An operand and the operators after it that bind more tightly than `least`."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.error(f"operations must be nested less than {_DEEPEST} deep")
        kind, token = self.next()
        if kind == "number":
            if not np.isfinite(float(token)):
                raise self.error(f"numbers must be finite, got {token}")
            left = self.node("number", float(token))
        elif token == "(":
            left = self.operand(-1)
            self.next(")")
        elif token == "-":
            left = self.node("negative", self.operand(2))
        elif kind == "name" and self.at < len(self.tokens) and self.tokens[self.at][1] == "(":
            left = self.call(token)
        elif kind == "name":
            self.variables.setdefault(token, self.tokens[self.at - 1][2])
            left = self.definitions[token] if token in self.definitions else self.node("variable", token)
        else:
            raise self.error(f"{token!r} must not stand where it does")
        while self.at < len(self.tokens):
            operator = self.tokens[self.at][1]
            if _BINDING.get(operator, -1) <= least:
                break
            self.at += 1
            # powers associate to the right, 2^3^2 = 2^9
            left = self.node(operator, left, self.operand(2 if operator == "^" else _BINDING[operator]))
        self.depth -= 1
        return left

    def call(self, name: str) -> int:
        place = self.tokens[self.at - 1][2]
        self.next("(")
        arguments = [self.operand(-1)]
        while self.at < len(self.tokens) and self.tokens[self.at][1] == ",":
            self.at += 1
            arguments.append(self.operand(-1))
        self.next(")")
        known = {k: n for k, (n, _) in FUNCTIONS.items()} | dict(self.functions)
        if name not in known:
            raise self.error(f"the function {name!r} is not supported{check.near(name, known, listing=True)}", place)
        if len(arguments) != known[name]:
            raise self.error(f"{name} must have {known[name]} arguments, got {len(arguments)}", place)
        return self.node(name, *arguments)

    def node(self, kind: str, *arguments: Any) -> int:
        if kind not in ("number", "variable", *self.functions) and all(self.nodes[k][0] == "number" for k in arguments):
            with np.errstate(all="ignore"):
                try:
                    value = float(_function(kind, {})(*[self.nodes[k][1] for k in arguments]))
                except (ArithmeticError, TypeError):  # a number too large, a division by zero, a complex root
                    value = np.nan
            if not np.isfinite(value):
                raise self.error(f"numbers must be finite, got {value} from {kind!r}")
            kind, arguments = "number", (value,)
        key = (kind, *arguments)
        if key not in self.index:
            if len(self.nodes) == _LONGEST:
                raise self.error(f"there must be at most {_LONGEST} operations")
            self.index[key] = len(self.nodes)
            self.nodes.append(key)
        return self.index[key]


def parse(
    text: str,  # in OpenMM's syntax: definitions after semicolons hold for the text to their left
    where: str,
    variables: Collection[str] | None = None,  # names that may occur; None: any
    functions: Mapping[str, int] | None = None,  # tables, which are called like functions: numbers of arguments by name
) -> Expression:
    """Parse an expression; raise a FileFormatError that begins with `where` if it is not valid, or too long or deep.

    >>> parse("0.5*k*(r-r0)^2; r0=0.5", "bond")({"k": 8.0, "r": 1.0})
    1.0
    """
    _check_names(where, list(variables or ()), functions or {})
    parser = _Parser(where, functions or {})
    parser.text, ends = text, [k for k, sign in enumerate(text) if sign == ";"]
    first, *definitions = zip([0, *(k + 1 for k in ends)], [*ends, len(text)])
    for start, stop in reversed(definitions):  # those on the right may be used by those on the left
        if text[start:stop].strip():
            name, equals, _ = text[start:stop].partition("=")
            if not equals or not name.strip():
                raise parser.error(f"{text[start:stop].strip()!r} must be a definition, name = value,", start)
            parser.definitions[name.strip()] = parser.expression(start + len(name) + 1, stop)
    root = parser.expression(*first)
    used = sorted(_reached(parser.nodes, root))
    new = {k: n for n, k in enumerate(used)}
    nodes = [
        node if node[0] in ("number", "variable") else (node[0], *(new[k] for k in node[1:]))
        for node in (parser.nodes[k] for k in used)
    ]
    found = Expression(nodes, new[root])
    for name in found.variables:
        if variables is not None and name not in variables:
            raise parser.error(
                f"{name!r} is not known{check.near(name, variables, listing=True)}", parser.variables[name]
            )
    return found


def _check_names(where: str, variables: list[str], functions: Mapping[str, int]) -> None:
    """Raise if a name means two things: which of them counts differs between the forces of OpenMM."""
    if len(set(variables)) < len(variables):
        name = next(name for name in variables if variables.count(name) > 1)
        raise FileFormatError(
            f"{where}: variables must have different names, got {name!r} twice (give the parameter another name)"
        )
    for name in functions:
        if name in _TAKEN:
            raise FileFormatError(
                f"{where}: a table must have a name of its own, got {name!r}, which expressions have "
                "already (give the table another name)"
            )


def _reached(nodes: list[tuple], root: int) -> set[int]:
    """Nodes that the root depends on."""
    used = {root}
    for k in range(len(nodes) - 1, -1, -1):
        if k in used and nodes[k][0] not in ("number", "variable"):
            used.update(nodes[k][1:])
    return used


def canonical(expression: Expression, algebra: Algebra, values: Mapping[str, Term] | None = None) -> Term:
    """Return the expression in canonical form: equal terms of one algebra are equal expressions.

    `values` replaces variables by terms; other variables become inputs of their names.
    """
    found: list[Term] = []
    for kind, *arguments in expression.nodes:
        if kind == "number":
            found.append(Term(arguments[0]))
        elif kind == "variable":
            name = arguments[0]
            found.append((values or {}).get(name) or algebra.node("input", name))
        else:
            found.append(_apply(algebra, kind, [found[k] for k in arguments]))
    return found[expression.root]


def _moderate(term: Term) -> bool:
    """Return True if whole powers of the term's number neither overflow nor vanish."""
    return 1e-4 < abs(term.number) < 1e4


def _apply(a: Algebra, kind: str, x: list[Term]) -> Term:
    match kind:
        case "+":
            return a.add(*x)
        case "-":
            return a.add(x[0], a.negative(x[1]))
        case "negative":
            return a.negative(x[0])
        case "*":
            return a.multiply(*x)
        case "/" if _moderate(x[1]):
            return a.multiply(x[0], a.power(x[1], -1))
        case "recip" if _moderate(x[0]):
            return a.power(x[0], -1)
        case "square" if _moderate(x[0]):
            return a.power(x[0], 2)
        case "cube" if _moderate(x[0]):
            return a.power(x[0], 3)
        case "^" if _moderate(x[0]) and not x[1].factors and x[1].number in range(-_LARGEST_POWER, _LARGEST_POWER + 1):
            return a.power(x[0], int(x[1].number)) if x[1].number else Term(1.0)
        case "^" if x[0].factors and x[1] == Term(0.5):
            return a.node("sqrt", x[0])
        case "abs" if x[0].factors:
            return a.multiply(Term(abs(x[0].number)), a.node("abs", Term(1.0, x[0].factors)))
        case "min" | "max":
            return a.node(kind, *sorted(x, key=lambda t: (t.factors, t.number)))
    if kind in FUNCTIONS and all(not t.factors for t in x):
        return Term(float(FUNCTIONS[kind][1](*[t.number for t in x])))
    return a.node(kind, *x)
