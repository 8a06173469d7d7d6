"""Quantities of `openmm.unit` where numbers in the units of sponge are expected."""

from __future__ import annotations

from typing import Any

__all__ = ["number_in"]

# how OpenMM writes the units of `sponge.units`
_UNITS = {
    "nm": lambda u: u.nanometer,
    "ps": lambda u: u.picosecond,
    "1/ps": lambda u: u.picosecond**-1,
    "nm/ps": lambda u: u.nanometer / u.picosecond,
    "K": lambda u: u.kelvin,
    "bar": lambda u: u.bar,
    "1/bar": lambda u: u.bar**-1,
    "dalton": lambda u: u.dalton,
    "mol/l": lambda u: u.molar,
    "kJ/mol/nm": lambda u: u.kilojoule_per_mole / u.nanometer,
}


def number_in(unit: str, value: Any, where: str) -> Any:
    """Return a quantity of `openmm.unit`, or a list of them, as numbers in a unit; anything else is returned as it is.

    The unit is one of nm, ps, 1/ps, nm/ps, K, bar, 1/bar, dalton, mol/l, kJ/mol/nm. A quantity of another dimension
    raises a TypeError that begins with `where`.

    >>> from openmm import unit
    >>> number_in("ps", 2 * unit.femtoseconds, "timestep")
    0.002
    """
    if isinstance(value, (list, tuple)) and value and hasattr(value[0], "value_in_unit"):
        return [number_in(unit, v, where) for v in value]
    if not hasattr(value, "value_in_unit"):
        return value
    from openmm import unit as openmm_unit

    try:
        return value.value_in_unit(_UNITS[unit](openmm_unit))
    except TypeError:
        raise TypeError(f"{where} must be a quantity in {unit} or a number, got one in {value.unit}") from None
