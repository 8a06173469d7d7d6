"""Targets of `sponge.fit`: measured or computed properties with their errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core.extend import check, short_repr

from ..differentiate import observables
from ..differentiate.observables import Observable

__all__ = [
    "EnergiesForces",
    "Target",
    "density",
    "dielectric",
    "dipole",
    "energies_forces",
    "energy",
    "observable",
    "pressure",
    "rdf",
]


@short_repr
@dataclass(frozen=True, eq=False)
class Target:
    """The value that the mean of an observable should have.

    Attributes
    ----------
    name : str
    value, error : arrays of one shape
        Deviations count in units of the error.
    make : callable
        ``make(system, temperature, energy)`` returns the `Observable`, where `energy` is a pure energy of the system.

    Examples
    --------
    >>> from triskele.sponge import targets
    >>> target = targets.density(0.997)
    >>> type(target).__name__, target.name
    ('Target', 'density')
    """

    name: str
    value: np.ndarray
    error: np.ndarray
    make: Callable[..., Observable]


def _target(name, value, error, make):
    value = check.finite(np.array(value, np.float64), f"target {name}: values")
    error = np.array(np.broadcast_to(np.asarray(error, np.float64), value.shape))
    if not np.all((error > 0) & np.isfinite(error)):
        raise ValueError(f"target {name}: errors must be positive, got {error}")
    return Target(name, value, error, make)


def observable(f: Any, value: Any, error: Any = None, name: str | None = None) -> Target:
    """The ensemble average of any observable.

    Parameters
    ----------
    f : Observable or callable
        A callable is a function of positions and box, ``f(positions, box)``.
    value : number or array
    error : number or array, optional
        Standard error of the value. Defaults to a hundredth of the value.
    name : str, optional

    Examples
    --------
    >>> from triskele.sponge import targets
    >>> extension = targets.observable(lambda positions, box: positions[1, 0] - positions[0, 0], 0.15)
    >>> float(extension.value)
    0.15
    """
    if not isinstance(f, Observable):
        check.kind(f, Callable, "target: the observable")
        f = observables.function(f)
    if error is None:
        error = 0.01 * np.abs(np.asarray(value, np.float64))
    return _target(name or f.name, value, error, lambda system, temperature, energy: f)


def rdf(
    r: Any,
    g: Any,
    first: Any = None,
    second: Any = None,
    *,
    width: float | None = None,
    molecules: Any = None,
    error: Any = 0.05,
) -> Target:
    """A radial distribution function; see `observables.rdf` for its arguments.

    Parameters
    ----------
    r, g : (bins,) arrays
        Distances in nm, and the values there, as smooth as Gaussian bins of `width` make them.
    first, second : array of int, optional
    width : float, optional
    molecules : (n,) int, optional
    error : number or (bins,) array

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import targets
    >>> r = np.linspace(0.3, 1.0, 20)
    >>> targets.rdf(r, np.ones(20)).value.shape
    (20,)
    """
    check.shape(g, np.shape(r), "target rdf: g", hint="the shape of r")
    found = observables.rdf(r, first, second, width=width, molecules=molecules)
    return _target("rdf", g, error, lambda system, temperature, energy: found)


def pressure(value: float, error: float = 50.0) -> Target:
    """The pressure in bar, at constant volume.

    Parameters
    ----------
    value, error : float, bar
        Deviations count in units of the error.

    Examples
    --------
    >>> from triskele.sponge import targets
    >>> target = targets.pressure(1.0)
    >>> target.name, float(target.value)
    ('pressure', 1.0)
    """
    return _target(
        "pressure", value, error, lambda system, temperature, energy: observables.pressure(system, temperature, energy)
    )


def density(value: float, error: float = 0.005) -> Target:
    """The density in g/cm^3, at constant pressure.

    Parameters
    ----------
    value, error : float, g/cm^3

    Examples
    --------
    >>> from triskele.sponge import targets
    >>> target = targets.density(0.997, error=0.005)
    >>> target.name, float(target.value)
    ('density', 0.997)
    """
    return _target("density", value, error, lambda system, temperature, energy: observables.density(system))


def dipole(value: float, error: float = 1e-4) -> Target:
    """The mean dipole moment of molecules in e nm.

    Parameters
    ----------
    value, error : float
        Dipole in e nm (1 debye = 0.0208194 e nm).

    Examples
    --------
    >>> from triskele.sponge import targets
    >>> target = targets.dipole(0.049)
    >>> target.name, float(target.value)
    ('dipole', 0.049)
    """
    return _target("dipole", value, error, lambda system, temperature, energy: observables.dipole(system))


def dielectric(value: float, error: float = 2.0) -> Target:
    """The static dielectric constant.

    Parameters
    ----------
    value, error : float

    Examples
    --------
    >>> from triskele.sponge import targets
    >>> target = targets.dielectric(78.4)
    >>> target.name, float(target.value)
    ('dielectric', 78.4)
    """
    return _target(
        "dielectric", value, error, lambda system, temperature, energy: observables.dielectric(system, temperature)
    )


def energy(value: float, error: float) -> Target:
    """The mean potential energy in kJ/mol of the whole system.

    Parameters
    ----------
    value, error : float, kJ/mol

    Examples
    --------
    >>> from triskele.sponge import targets
    >>> target = targets.energy(-41.0, error=0.5)
    >>> target.name, float(target.value)
    ('energy', -41.0)
    """
    return _target("energy", value, error, lambda system, temperature, energy: observables.energy(system, energy))


@short_repr
@dataclass(frozen=True, eq=False)
class EnergiesForces:
    """Energies and forces of given configurations, see `energies_forces`.

    Parameters
    ----------
    positions : (frames, n, 3) array, nm
    boxes : (frames, 3, 3) array or None, nm
    energies : (frames,) array or None, kJ/mol
    forces : (frames, n, 3) array or None, kJ/mol/nm
    energy_error, force_error : float
        Deviations count in units of these errors.
    offset : bool
        True if a constant is added to the energies.
    name : str, default "energies and forces"

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import targets
    >>> type(targets.energies_forces(np.zeros((4, 2, 3)), energies=np.zeros(4))).__name__
    'EnergiesForces'
    """

    positions: np.ndarray
    boxes: np.ndarray | None
    energies: np.ndarray | None
    forces: np.ndarray | None
    energy_error: float
    force_error: float
    offset: bool
    name: str = "energies and forces"


def energies_forces(
    positions: Any,
    energies: Any = None,
    forces: Any = None,
    boxes: Any = None,
    *,
    energy_error: float = 1.0,
    force_error: float = 10.0,
    offset: bool = True,
) -> EnergiesForces:
    """Energies and forces of configurations, as from quantum chemistry; nothing is sampled.

    Parameters
    ----------
    positions : (frames, n, 3) array, nm
        Positions of the atoms.
    energies : (frames,) array, kJ/mol, optional
        Potential energies.
    forces : (frames, n, 3) array, kJ/mol/nm, optional
        Forces.
    boxes : (frames, 3, 3) or (3, 3) array, optional
    energy_error, force_error : float
        Deviations count in these units, those of forces per component.
    offset : bool
        Energies are compared up to a constant.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import targets
    >>> targets.energies_forces(np.zeros((4, 2, 3)), energies=np.zeros(4)).name
    'energies and forces'
    """
    where = "target energies and forces"
    positions = np.array(positions, np.float64)
    if positions.ndim != 3 or positions.shape[2] != 3 or not len(positions):
        raise ValueError(f"{where}: positions must have shape [frames, n, 3], got {positions.shape}")
    if energies is None and forces is None:
        raise ValueError(f"{where}: energies, forces or both must be given")
    shapes = {"energies": (energies, positions.shape[:1]), "forces": (forces, positions.shape)}
    found = {}
    for name, (values, shape) in shapes.items():
        found[name] = array = None if values is None else np.array(values, np.float64)
        if array is not None and (array.shape != shape or not np.isfinite(array).all()):
            raise ValueError(f"{where}: {name} must be finite and have shape {shape}, got shape {array.shape}")
    for name, error in (("energy_error", energy_error), ("force_error", force_error)):
        check.positive(error, f"{where}: {name}")
    boxes = None if boxes is None else np.array(np.broadcast_to(np.asarray(boxes, np.float64), (len(positions), 3, 3)))
    return EnergiesForces(
        positions, boxes, found["energies"], found["forces"], float(energy_error), float(force_error), bool(offset)
    )
