"""Pauli sums as text: `0.5 Z0 Z1 - 1.2 X2`."""

from __future__ import annotations

import re

import numpy as np

from ..errors import OperatorError

__all__ = ["format_coefficient", "parse_number", "parse_string", "parse_sum", "string_of"]

_MAX_QUBIT = 1 << 20  # a typo such as X10000000000 must not ask for gigabytes
_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_SIGN = re.compile(r"\s*([+-])")
_COEFFICIENT = re.compile(rf"\s*(?:\(\s*([^()]*)\)|({_NUMBER}[jJ]?)(?=[XYZI]|[^\w.]|$))\s*\*?")
_FACTOR = re.compile(r"\s*\*?\s*([XYZI])(\d*)(?=[XYZI]|[^\w.]|$)")


def parse_number(text: str) -> complex | None:
    """A coefficient such as `"0.5"`, `"1j"`, `"(1+2j)"`, or `""` for 1, or None if the text is not a number."""
    if not text.strip():
        return 1 + 0j
    match = _COEFFICIENT.fullmatch(text.strip())
    try:
        return complex((match[2] if match[1] is None else match[1]).replace(" ", "")) if match else None
    except ValueError:
        return None


def parse_string(text: str) -> tuple[int, int]:
    """Bits x and z, as Python integers, of a Pauli string such as `"X0 Y2"`; identity is `""` or `"I"`."""
    x, z, place = _factors(text, 0)
    if text[place:].strip():
        raise _error(text, place, "a Pauli and its qubit such as X0 must stand here")
    return x, z


def parse_sum(text: str) -> list[tuple[int, int, complex]]:
    """Terms (x, z, coefficient) of a sum such as `"0.5 Z0 Z1 - 1.2 X2 + (1+2j) Y0 + 3"`."""
    terms: list[tuple[int, int, complex]] = []
    place, length = 0, len(text.rstrip())
    if not length:
        raise OperatorError(f"PauliSum: a sum must have a term, got {text!r} (PauliSum() is zero, '1' the identity)")
    while place < length:
        coefficient = 1.0 + 0j
        if match := _SIGN.match(text, place):
            coefficient, place = -coefficient if match[1] == "-" else coefficient, match.end()
        elif terms:
            raise _error(text, place, "+ or - must stand between terms")
        begin = place
        if match := _COEFFICIENT.match(text, place):
            number = parse_number(match[0].rstrip("* "))
            if number is None:
                raise _error(text, place, f"{match[1]!r} must be a number such as 1+2j")
            coefficient, place = coefficient * number, match.end()
        x, z, place = _factors(text, place)
        if place == begin:
            raise _error(text, place, "a term such as 0.5 X0 Z1 must stand here")
        terms.append((x, z, coefficient))
    return terms


def _factors(text: str, place: int) -> tuple[int, int, int]:
    x = z = seen = 0
    while match := _FACTOR.match(text, place):
        letter, digits = match.groups()
        if not digits and letter != "I":
            raise _error(text, match.start(1), f"{letter} must be followed by its qubit, as in {letter}0")
        if digits:
            if len(digits) > 7 or int(digits) >= _MAX_QUBIT:
                raise _error(text, match.start(1), f"qubits must be below {_MAX_QUBIT}")
            bit = 1 << int(digits)
            if seen & bit:
                raise _error(
                    text, match.start(1), f"qubit {digits} must occur once in a term (multiply sums for products)"
                )
            seen |= bit
            x |= bit if letter in "XY" else 0
            z |= bit if letter in "YZ" else 0
        place = match.end()
    return x, z, place


def _error(text: str, place: int, what: str) -> OperatorError:
    place += len(text[place:]) - len(text[place:].lstrip())
    shown = text if len(text) < 80 else f"...{text[max(place - 30, 0) : place + 30]}..."
    return OperatorError(f"PauliSum: {what}, got {text[place : place + 12]!r} at position {place} of {shown!r}")


def string_of(x: np.ndarray, z: np.ndarray) -> str:
    """Text of one string: `"X0 Z3"`, and `""` for the identity."""
    letters = []
    for word, (a, b) in enumerate(zip(x.tolist(), z.tolist(), strict=True)):
        rest = a | b
        while rest:
            low = rest & -rest
            letters.append(f"{'Y' if a & b & low else 'X' if a & low else 'Z'}{64 * word + low.bit_length() - 1}")
            rest ^= low
    return " ".join(letters)


def format_coefficient(c: complex, first: bool) -> str:
    """A coefficient with its sign and a blank, as it stands in a sum."""
    if c.imag == 0:
        negative, size = c.real < 0, f"{abs(c.real):.12g}"
    elif c.real == 0:
        negative, size = c.imag < 0, f"{abs(c.imag):.12g}j"
    else:
        negative, size = False, f"({c.real:.12g}{c.imag:+.12g}j)"
    return ("-" if first else " - ") + size if negative else ("" if first else " + ") + size
