"""Quantities in SMIRNOFF files, such as "1.5 * angstrom ** 1", in the units of sponge."""

from __future__ import annotations

import math
import re

from ..errors import FileFormatError

__all__ = ["ANGLE", "BEND", "CHARGE", "ENERGY", "LENGTH", "NUMBER", "STRETCH", "Powers", "plain_number", "quantity"]

# Powers of length, energy, amount, angle and charge
Powers = tuple[int, int, int, int, int]
NUMBER, LENGTH, ANGLE, CHARGE = (0, 0, 0, 0, 0), (1, 0, 0, 0, 0), (0, 0, 0, 1, 0), (0, 0, 0, 0, 1)
ENERGY, STRETCH, BEND = (0, 1, -1, 0, 0), (-2, 1, -1, 0, 0), (0, 1, -1, -2, 0)
_UNITS: dict[str, tuple[float, Powers]] = {
    "angstrom": (0.1, LENGTH),
    "nanometer": (1.0, LENGTH),
    "kilocalorie": (4.184, (0, 1, 0, 0, 0)),
    "kilojoule": (1.0, (0, 1, 0, 0, 0)),
    "mole": (1.0, (0, 0, 1, 0, 0)),
    "kilocalorie_per_mole": (4.184, ENERGY),
    "kilojoule_per_mole": (1.0, ENERGY),
    "degree": (math.pi / 180, ANGLE),
    "radian": (1.0, ANGLE),
    "elementary_charge": (1.0, CHARGE),
}
_NAMES = {
    NUMBER: "a number",
    LENGTH: "a length",
    ANGLE: "an angle",
    CHARGE: "a charge",
    ENERGY: "an energy per mole",
} | {
    STRETCH: "an energy per mole and squared length",
    BEND: "an energy per mole and squared angle",
}
_FACTOR = re.compile(
    r"\s*(?P<sign>[*/]?)\s*(?:(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<unit>[A-Za-z_]+))"
    r"\s*(?:\*\*\s*(?P<power>[+-]?\d{1,3})\s*)?(?![A-Za-z_\d.])",
    re.ASCII,
)
_PLURAL = re.compile("s(?=_|$)")


def quantity(text: str, dimension: Powers, what: str) -> float:
    """Return the value of a product of numbers and units of a dimension, in nm, kJ/mol, rad and e.

    Errors call it `what`.

    >>> round(quantity("2.0 * kilocalories_per_mole / angstrom**2", STRETCH, "k"), 9)
    836.8
    """
    value, powers, place = 1.0, [0] * 5, 0
    while place < len(text) or not place:
        factor = _FACTOR.match(text, place)
        unit = "" if factor is None else _PLURAL.sub("", factor["unit"] or "")
        if (
            factor is None
            or bool(factor["sign"]) != bool(place)
            or len(text) > 200
            or not (factor["number"] or unit in _UNITS)
        ):
            raise FileFormatError(f"{what} must be a product of numbers and of {', '.join(_UNITS)}, got {text[:80]!r}")
        place = factor.end()
        size, own = (float(factor["number"]), NUMBER) if factor["number"] else _UNITS[unit]
        power = int(factor["power"] or 1) * (-1 if factor["sign"] == "/" else 1)
        try:
            value *= size**power
        except (OverflowError, ZeroDivisionError):
            value = math.nan
        powers = [p + power * q for p, q in zip(powers, own)]
    if tuple(powers) != dimension:
        raise FileFormatError(f"{what} must be {_NAMES[dimension]}, got {text[:80]!r}")
    if not math.isfinite(value):
        raise FileFormatError(f"{what} must be finite, got {text[:80]!r}")
    return value


def plain_number(text: str, what: str) -> float:
    """Return a number without a unit; errors call it `what`."""
    return quantity(text, NUMBER, what)
