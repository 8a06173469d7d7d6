"""Quantities in SMIRNOFF files, compared with OpenMM's units."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openmm import unit

from triskele.sponge.errors import FileFormatError
from triskele.sponge.forcefield.smirnoff_units import BEND, ENERGY, LENGTH, NUMBER, STRETCH, plain_number, quantity

NUMBERS = st.floats(-1e6, 1e6).filter(lambda x: x == 0 or abs(x) > 1e-6)


@given(NUMBERS)
def test_quantities_are_those_of_openmm(value):
    stretch = value * unit.kilocalorie_per_mole / unit.angstrom**2
    for text in (
        f"{value!r} * kilocalories_per_mole/angstrom**2",
        f"{value!r}*kilocalorie_per_mole ** 1 * angstrom ** -2",
        f" {value!r} * angstrom**-2 * mole**-1 * kilocalorie",
    ):
        expected = stretch.value_in_unit(unit.kilojoule_per_mole / unit.nanometer**2)
        assert quantity(text, STRETCH, "k") == pytest.approx(expected, rel=1e-13)
    bend = (value * unit.kilojoule_per_mole / unit.degree**2).value_in_unit(unit.kilojoule_per_mole / unit.radian**2)
    assert quantity(f"{value} * kilojoule / mole / degrees ** 2", BEND, "k") == pytest.approx(bend, rel=1e-13)
    assert plain_number(repr(value), "scale14") == value


@pytest.mark.parametrize(
    "text, dimension, message",
    [
        ("1 * furlong", LENGTH, "product of numbers and of angstrom"),
        ("__import__('os')", NUMBER, "product of numbers"),
        ("1 + 1", NUMBER, "product of numbers"),
        ("", NUMBER, "product of numbers"),
        ("s", NUMBER, "product of numbers"),
        ("1 * * angstrom", LENGTH, "product of numbers"),
        ("1 angstrom", LENGTH, "product of numbers"),
        ("2.5", LENGTH, "must be a length, got '2.5'"),
        ("1 * kilocalorie", ENERGY, "an energy per mole, got"),
        ("9e999 * angstrom", LENGTH, "must be finite"),
        ("0 ** -1", NUMBER, "must be finite"),
        ("10 ** 999", NUMBER, "must be finite"),
        ("1" * 300, NUMBER, "product of numbers"),
    ],
)
def test_what_is_no_quantity(text, dimension, message):
    with pytest.raises(FileFormatError, match=message):
        quantity(text, dimension, "length")
