"""The test systems of openmmtools, one for each seed, read from OpenMM's System XML; where openmmtools is installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tests.sponge.differential.compare import Refused
from tests.sponge.differential.openmm_systems import exact_differences
from triskele import sponge
from triskele.sponge.errors import FileFormatError

__all__ = ["available", "case"]

available = find_spec("openmmtools") is not None
_SLOW = ("AMOEBAProteinBox", "GiantFlexibleDischargedWaterBox", "GiantFlexibleWaterBox")  # for the Reference platform
_REFUSED = ("Amoeba",)


def _every(cls: type) -> list[type]:
    return [one for sub in cls.__subclasses__() for one in (sub, *_every(sub))]


def case(seed: int, folder: Path) -> list[str]:
    """One of the systems, in the order of their names, as XML and itself."""
    import openmm as mm
    from openmmtools import testsystems

    found: dict[str, Any] = {c.__name__: c for c in _every(testsystems.TestSystem) if c.__name__ not in _SLOW}
    name = sorted(found)[seed % len(found)]
    made = found[name]()
    path = folder / f"{name}.xml"
    path.write_text(mm.XmlSerializer.serialize(made.system))
    try:
        ours = sponge.load(path)
    except FileFormatError as error:
        if any(word in str(error) for word in _REFUSED):
            raise Refused(str(error)) from None
        raise
    positions = np.array(made.positions.value_in_unit(mm.unit.nanometer), np.float64)
    # OpenMM integrates the tail of an expression to five digits; sums of Ewald cancel self energies of 1e4 kJ/mol
    rtol = 1e-8 if any(p.name == "pair_tail" for p in ours.potentials) or "Mixture" in name else 1e-9
    atol = 1e-6 if "Dipolar" in name else 1e-9  # kJ/mol; there, self energies of some 5e3 kJ/mol cancel
    return [f"{name}: {text}" for text in exact_differences(ours, made.system, positions, rtol, atol)]
