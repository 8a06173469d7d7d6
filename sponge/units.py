"""Units of everything in sponge: nm, ps, dalton, kJ/mol, K, e, radian, and the constants that tie them together.

In these units an acceleration is force / mass (1 kJ/mol = 1 dalton nm^2 / ps^2). Values are multiplied by a unit to
come in and divided by it to go out: ``5 * units.kcal_per_mol``, ``energy / units.kcal_per_mol``.

Examples
--------
>>> from triskele.sponge import units
>>> round(10 * units.kcal_per_mol, 2)  # in kJ/mol
41.84
>>> units.parse_time("1.5 ns")  # in ps
1500.0
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from triskele.core.extend import check

from .quantities import number_in

# CODATA 2018 exact constants (SI redefinition of 2019) and the vacuum permittivity of CODATA 2018.
_AVOGADRO = 6.02214076e23
_BOLTZMANN = 1.380649e-23  # J/K
_CHARGE = 1.602176634e-19  # C
_PERMITTIVITY = 8.8541878128e-12  # F/m

GAS_CONSTANT = _BOLTZMANN * _AVOGADRO / 1000  # kJ/mol/K: Boltzmann's constant per mole
COULOMB = _CHARGE**2 * _AVOGADRO / (4 * np.pi * _PERMITTIVITY) * 1e9 / 1000  # kJ/mol nm/e^2
BAR_PER_PRESSURE = 1e3 / _AVOGADRO * 1e27 / 1e5  # bar in 1 kJ/mol/nm^3
DENSITY = 1e21 / _AVOGADRO  # g/cm^3 in 1 dalton/nm^3

nm, angstrom, bohr = 1.0, 0.1, 0.0529177210903
ps, fs, ns, us = 1.0, 1e-3, 1e3, 1e6
kJ_per_mol, kcal_per_mol = 1.0, 4.184
eV = _CHARGE * _AVOGADRO / 1000
hartree = 2625.4996394799
dalton, e, kelvin, radian = 1.0, 1.0, 1.0, 1.0
degree = np.pi / 180
bar = 1 / BAR_PER_PRESSURE
atm = 1.01325 * bar

_TIMES = {"fs": fs, "ps": ps, "ns": ns, "us": us, "µs": us}


def parse_time(text: Any) -> float:
    """A time such as ``"1 ns"``, or a quantity of `openmm.unit`, in ps; numbers are taken as ps.

    Raises
    ------
    ValueError
        If the text is not a number followed by fs, ps, ns or us.

    Examples
    --------
    >>> from triskele.sponge import units
    >>> units.parse_time('2 ns'), units.parse_time(0.5)
    (2000.0, 0.5)
    """
    text = number_in("ps", text, "time")
    if isinstance(text, (int, float)):
        return float(text)
    number = text.strip().rstrip("fpnuµs").strip()
    unit = text.strip()[len(number) :].strip()
    try:
        return float(number) * _TIMES[unit]
    except (ValueError, KeyError):
        raise ValueError(
            f"time: must be a number with one of {', '.join(_TIMES)}, got {text!r} (for example '1 ns')"
        ) from None


def ladder(lowest: float, highest: float, n: int, spacing: Literal["geometric", "linear"] = "geometric") -> np.ndarray:
    """Temperatures from `lowest` to `highest`, both included.

    Parameters
    ----------
    lowest, highest : float, K
        Ends of the range.
    n : int
        Number of temperatures.
    spacing : {"geometric", "linear"}
        Neighbors with equal ratios, between which a system of constant heat capacity overlaps equally well everywhere,
        or with equal differences.

    Returns
    -------
    (n,) float64
        In K, ascending.

    Raises
    ------
    ValueError
        If the temperatures are not positive, finite and in order, or n is less than 2 (1 if both are the same).

    Examples
    --------
    >>> from triskele.sponge import units
    >>> units.ladder(300, 600, 3, "linear")
    array([300., 450., 600.])
    """
    lowest, highest = (number_in("K", t, "ladder: temperatures") for t in (lowest, highest))
    if not (0 < lowest <= highest < np.inf):
        raise ValueError(f"ladder: temperatures must be positive, finite and ascending, got {lowest} to {highest} K")
    least = 1 if lowest == highest else 2
    if isinstance(n, bool) or not hasattr(n, "__index__") or n < least or (n > 1 and lowest == highest):
        raise ValueError(
            f"ladder: n must be an integer >= {least} (and 1 if both temperatures are the same), got {n!r}"
        )
    check.choice(spacing, ("geometric", "linear"), "ladder: spacing")
    return np.geomspace(lowest, highest, int(n)) if spacing == "geometric" else np.linspace(lowest, highest, int(n))
