"""The sections of SMIRNOFF files, with the elements and attributes that each may have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import FileFormatError
from .smirnoff_units import ANGLE, BEND, CHARGE, ENERGY, LENGTH, NUMBER, STRETCH, Powers

__all__ = ["SECTIONS", "Section"]


def _need(*names: str) -> Callable[[Any], None]:
    """Check that a parameter has values of these names."""

    def check(parameter):
        """Raise for a name that is missing."""
        for name in names:
            if name not in parameter.values:
                raise FileFormatError(f"{name} must be given")

    return check


def _size_of_atom(parameter):
    if ("sigma" in parameter.values) == ("rmin_half" in parameter.values):
        raise FileFormatError("sigma or rmin_half must be given, and not both")
    _need("epsilon")(parameter)


def _terms(parameter):
    n = len(parameter.series("k"))
    for name in ("periodicity", "phase"):
        if len(parameter.series(name)) != n:
            raise FileFormatError(f"{name} must be given for each of {n} terms, got {len(parameter.series(name))}")
    known = {f"{name}{k + 1}" for name in ("k", "periodicity", "phase", "idivf") for k in range(n)}
    if not n or not set(parameter.values) <= known:
        raise FileFormatError(f"terms must be numbered from 1 on without a gap, got {', '.join(parameter.values)}")
    if any(p % 1 or p < 1 for p in parameter.series("periodicity")):
        raise FileFormatError(f"periodicity must be a positive integer, got {parameter.series('periodicity')}")
    if any(value == 0 for name, value in parameter.values.items() if name.startswith("idivf")):
        raise FileFormatError("idivf must not be 0")


def _as_many(name: str, fewer: int) -> Callable[[Any], None]:
    """Check that there is a value for each tagged atom, or for `fewer` atoms less."""

    def check(parameter):
        """Raise for another number of values."""
        n, tags = len(parameter.series(name)), len(parameter.tagged)
        if n != len(parameter.values) or not tags - fewer <= n <= tags:
            raise FileFormatError(
                f"{name} must be given for each of {tags} tagged atoms, got {', '.join(parameter.values)}"
            )

    return check


@dataclass(frozen=True)
class Section:
    """Element, number of tagged atoms (0: any), dimensions of its values, versions and attributes of a section.

    An attribute may have one of the values listed, or any if None stands there. A section without an element has
    attributes only.
    """

    element: str | None = None
    tags: int = 0
    values: Mapping[str, Powers] = field(default_factory=dict)
    versions: Sequence[str] = ("0.3",)
    header: Mapping[str, Sequence[Any] | None] = field(default_factory=dict)
    check: Callable[[Any], None] | None = None


# Bond orders are refused where a parameter depends on them (k_bondorder1, length_bondorder1)
_ORDERS = {"fractional_bondorder_method": None, "fractional_bondorder_interpolation": None}
_TORSIONS = {"potential": ("k*(1+cos(periodicity*theta-phase))",), "default_idivf": None}
_SERIES = {"periodicity#": NUMBER, "phase#": ANGLE, "k#": ENERGY, "idivf#": NUMBER}
_SCALES = {"scale12": (0.0,), "scale13": (0.0,), "scale14": None, "scale15": (1.0,)}
_CUTOFFS = {"cutoff": None, "switch_width": None}  # the options of create_system decide

SECTIONS = {
    "Constraints": Section("Constraint", 2, {"distance": LENGTH}),
    "Bonds": Section(
        "Bond",
        2,
        {"length": LENGTH, "k": STRETCH},
        ("0.3", "0.4"),
        {"potential": ("harmonic", "(k/2)*(r-length)^2"), **_ORDERS},
        _need("length", "k"),
    ),
    "Angles": Section(
        "Angle", 3, {"angle": ANGLE, "k": BEND}, header={"potential": ("harmonic",)}, check=_need("angle", "k")
    ),
    "ProperTorsions": Section("Proper", 4, _SERIES, ("0.3", "0.4"), {**_TORSIONS, **_ORDERS}, _terms),
    "ImproperTorsions": Section("Improper", 4, _SERIES, ("0.3",), _TORSIONS, _terms),
    "vdW": Section(
        "Atom",
        1,
        {"epsilon": ENERGY, "sigma": LENGTH, "rmin_half": LENGTH},
        ("0.3", "0.4", "0.5"),
        {
            "potential": ("Lennard-Jones-12-6",),
            "combining_rules": ("Lorentz-Berthelot",),
            "method": ("cutoff",),
            "periodic_method": ("cutoff",),
            "nonperiodic_method": ("no-cutoff",),
            **_SCALES,
            **_CUTOFFS,
        },
        _size_of_atom,
    ),
    "Electrostatics": Section(
        versions=("0.3", "0.4"),
        header={
            "method": ("PME",),
            "periodic_potential": ("Ewald3D-ConductingBoundary", "PME"),
            "nonperiodic_potential": ("Coulomb",),
            "exception_potential": ("Coulomb",),
            **_SCALES,
            **_CUTOFFS,
        },
    ),
    "LibraryCharges": Section("LibraryCharge", 0, {"charge#": CHARGE}, check=_as_many("charge", 0)),
    "NAGLCharges": Section(header={"model_file": None, "model_file_hash": None, "digital_object_identifier": None}),
    "ChargeIncrementModel": Section(
        "ChargeIncrement",
        0,
        {"charge_increment#": CHARGE},
        ("0.3", "0.4"),
        {"number_of_conformers": ("1",), "partial_charge_method": None},
        _as_many("charge_increment", 1),
    ),
    "ToolkitAM1BCC": Section(),
}
