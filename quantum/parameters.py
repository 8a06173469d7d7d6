"""Angles of gates: numbers, names, or linear expressions of names."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, NoReturn, final

import numpy as np

from triskele.core.extend import check

from .errors import ParameterError

__all__ = ["LARGEST", "Linear", "Parameter", "angle", "linear_text", "named_values"]

# angle, coefficient in one, or value of a parameter in a simulation: all that is made of them is finite
LARGEST = 1e100


@final
@dataclass(frozen=True, slots=True)
class Linear:
    """A linear expression `constant + sum(coefficient * name)`; so are sums, and products with numbers.

    >>> a, b = Parameter("a"), Parameter("b")
    >>> 2 * a - b / 4 + 1.0
    Linear('2*a - 0.25*b + 1')
    """

    terms: tuple[tuple[str, float], ...]
    constant: float = 0.0

    def __add__(self, other: Linear | float) -> Linear:
        if isinstance(other, Real):
            return Linear(self.terms, self.constant + float(other))
        if not isinstance(other, Linear):
            return NotImplemented
        terms = dict(self.terms)
        for name, coefficient in other.terms:
            terms[name] = terms.get(name, 0.0) + coefficient
        return Linear(tuple((n, c) for n, c in terms.items() if c), self.constant + other.constant)

    def __mul__(self, factor: Linear | float) -> Linear:
        if isinstance(factor, Linear):
            raise ParameterError(
                f"an angle must be linear in its parameters, got ({self})*({factor}) (compute the "
                f"product before and bind it)"
            )
        if not isinstance(factor, Real):
            return NotImplemented
        return Linear(tuple((n, c * float(factor)) for n, c in self.terms if factor), self.constant * float(factor))

    def __truediv__(self, divisor: float) -> Linear:
        return self * (1.0 / divisor)

    def __neg__(self) -> Linear:
        return self * -1.0

    def __sub__(self, other: Linear | float) -> Linear:
        return self + -other

    def __rsub__(self, other: float) -> Linear:
        return -self + other

    __radd__, __rmul__ = __add__, __mul__

    def __call__(self, values: Mapping[str, float]) -> float:
        """The value where the names have these values."""
        return self.constant + sum(c * values[n] for n, c in self.terms)

    def bind(self, values: Mapping[str, float]) -> Linear | float:
        """Return the expression with some names replaced by numbers; a float when none is left."""
        left = tuple((n, c) for n, c in self.terms if n not in values)
        constant = self.constant + sum(c * float(values[n]) for n, c in self.terms if n in values)
        return Linear(left, constant) if left else constant

    def rename(self, names: Mapping[str, str]) -> Linear:
        """Return the expression with other names."""
        return sum((Linear(((names.get(n, n), c),)) for n, c in self.terms), Linear((), self.constant))

    def __str__(self) -> str:
        return linear_text(self, "{:.12g}".format, lambda c: "" if c == 1 else f"{c:.12g}*")

    def __repr__(self) -> str:
        return f"Linear({str(self)!r})"


def linear_text(
    value: Linear, number: Callable[[float], str], factor: Callable[[float], str], name: Callable[[str], str] = str
) -> str:
    """Return an expression as text; functions give that of its constant, coefficients (of 0 or more) and names."""
    parts = [(c, factor(abs(c)) + name(n)) for n, c in value.terms]
    if value.constant or not parts:
        parts.append((value.constant, number(abs(value.constant))))
    text = "".join((" - " if c < 0 else " + ") + part for c, part in parts)
    return text[3:] if text.startswith(" + ") else "-" + text[3:]


def Parameter(name: str) -> Linear:
    """The expression that is one named parameter.

    Raises
    ------
    ParameterError
        If `name` is not a name: letters, digits, `_`, `.`, `[`, `]`, not beginning with a digit.

    Examples
    --------
    >>> from triskele import quantum
    >>> a = quantum.Parameter('a')
    >>> quantum.Circuit(1).rx(2 * a + 0.1, 0).parameters
    ('a',)
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ParameterError(
            f"Parameter: a name is letters, digits, '_', '.', '[', ']', and begins with a letter, got {name!r}"
        )
    return Linear(((name, 1.0),))


def angle(value: Any, where: str = "angle") -> float | Linear:
    """Return a user's angle as a float or a `Linear`; errors begin with `where`.

    An angle is a number, a name or a linear expression such as `"2*a - (b + pi)/4"`, a dict of coefficients by name, or
    a `Linear`.
    """
    if type(value) is float and math.isfinite(value):  # the common case first: this is called for every gate
        return value
    if isinstance(value, str):
        return angle(_parse(value, where), where)
    if isinstance(value, Linear):
        if not value.terms:
            return angle(value.constant, where)
        if not (math.isfinite(value.constant) and all(math.isfinite(c) for _, c in value.terms)):
            raise ParameterError(f"{where}: coefficients of an angle must be finite, got {value}")
        return value
    if isinstance(value, Mapping):
        total = Linear(())
        for name, coefficient in value.items():
            total = total + Parameter(name) * angle(coefficient, where)
        return angle(total, where)
    try:
        number = math.nan if np.iscomplexobj(value) else float(value)
    except (TypeError, ValueError):
        raise ParameterError(
            f"{where}: an angle must be a number, a name, a dict of coefficients or an expression, got {value!r}"
        ) from None
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ParameterError(f"{where}: an angle must be real and finite, got {value!r:.50}")
    return number


_NAME = re.compile(r"[^\W\d][\w.\[\]]*")
_TOKEN = re.compile(r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[^\W\d][\w.\[\]]*)|[-+*/()])")
_CONSTANTS = {"pi": math.pi, "π": math.pi}
_DEPTH = 50  # of parentheses and signs in each other


class _Expression:
    """Reads an expression: sums, products with numbers, and parentheses."""

    def __init__(self, text: str, where: str):
        self._text, self._where, self._place = text, where, 0

    def read(self) -> Linear:
        if not self._text.strip():
            raise ParameterError(f"{self._where}: an angle is missing, got {self._text!r}")
        value = self._sum(0)
        if self._text[self._place :].strip():
            self._fail()
        return value

    def _fail(self, hint: str = "a linear expression such as '2*a - (b + pi)/4'") -> NoReturn:
        raise ParameterError(f"{self._where}: cannot read {self._text!r} at {self._text[self._place :]!r} ({hint})")

    def _accept(self, symbols: str) -> str | None:
        match = _TOKEN.match(self._text, self._place)
        if match is None or (symbol := match[0].lstrip()) not in symbols:
            return None
        self._place = match.end()
        return symbol

    def _sum(self, depth: int) -> Linear:
        total = self._product(depth)
        while sign := self._accept("+-"):
            term = self._product(depth)
            total = total + term if sign == "+" else total - term
        return total

    def _product(self, depth: int) -> Linear:
        value = self._factor(depth)
        while True:
            place = self._place
            if not (symbol := self._accept("*/")):
                return value
            other = self._factor(depth)
            if other.terms and (symbol == "/" or value.terms):
                self._place = place
                self._fail("an angle is linear in its parameters")
            if symbol == "/" and not other.constant:
                raise ParameterError(f"{self._where}: an angle must not be divided by 0, got {self._text!r}")
            value = (
                value / other.constant
                if symbol == "/"
                else other * value.constant
                if other.terms
                else (value * other.constant)
            )

    def _factor(self, depth: int) -> Linear:
        if depth > _DEPTH:
            self._fail("parentheses are nested too deeply")
        if sign := self._accept("+-"):
            value = self._factor(depth + 1)
            return value if sign == "+" else -value
        if self._accept("("):
            value = self._sum(depth + 1)
            if not self._accept(")"):
                self._fail("a parenthesis is not closed")
            return value
        match = _TOKEN.match(self._text, self._place)
        if match is None or match["number"] is None and match["name"] is None:
            self._fail()
        self._place = match.end()
        if match["number"] is None:
            return _named(match["name"])
        after = _TOKEN.match(self._text, self._place)
        if after is None or after["name"] is None:
            return Linear((), float(match["number"]))
        self._place = after.end()  # 2a
        return _named(after["name"]) * float(match["number"])


def _named(name: str) -> Linear:
    return Linear((), _CONSTANTS[name]) if name in _CONSTANTS else Linear(((name, 1.0),))


def _parse(text: str, where: str) -> Linear:
    """The expression, whose coefficients `angle` has to check yet."""
    if _NAME.fullmatch(text) and text not in _CONSTANTS:
        return Linear(((text, 1.0),))
    return _Expression(text, where).read()


def named_values(
    values: Mapping[str, float] | Sequence[float] | np.ndarray, parameters: tuple[str, ...], names: tuple[str, ...]
) -> dict[str, float]:
    """Values by name, checked: a dict of some of `names`, or a sequence with one for each of `parameters`."""
    if isinstance(values, Mapping):
        if unknown := set(values) - set(names):
            raise ParameterError(f"bind: no parameters {sorted(unknown)} (this circuit has {list(names)})")
        found = {n: float(v) for n, v in values.items()}
    else:
        array = check.shape(
            np.asarray(values, float),
            (len(parameters),),
            "bind: values",
            error=ParameterError,
            hint="one for each parameter",
        )
        found = dict(zip(parameters, array.tolist(), strict=True))
    if bad := [n for n, v in found.items() if not abs(v) <= LARGEST]:
        raise ParameterError(f"bind: {bad[0]} is {found[bad[0]]}: values must be finite (the largest is {LARGEST:g})")
    return found
