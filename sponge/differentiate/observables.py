"""Observables of a frame as functions that the core differentiates: what `trajectory` records and `Ensemble`
averages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from triskele import core
from triskele.core.extend import check

from .. import box as boxes
from .. import units
from ..barostats.molecules import molecules
from ..potential import complete
from ..potentials.nonbonded.energy import jump_at_cutoff
from ..potentials.nonbonded.nonbonded import Nonbonded
from ..potentials.polarizable.equilibration import ChargeEquilibration
from ..potentials.polarizable.induced_dipoles import InducedDipoles
from .energy import explicit_energy

if TYPE_CHECKING:
    from ..system import System

__all__ = ["Observable", "density", "dielectric", "dipole", "energy", "function", "pressure", "rdf"]


@dataclass(frozen=True, eq=False)
class Observable:
    """A property of frames, ``observable(params, positions, box)``, and what becomes of its mean.

    Attributes
    ----------
    frame : callable
        ``frame(params, positions, box=None)`` returns a number or an array: pure code for the core.
    of_mean : callable, optional
        Takes the mean over frames to the quantity that is meant, such as a dielectric constant; the mean itself when
        left out.
    of_params : bool
        True if `frame` depends on the parameters, not on positions and box only.
    name : str

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge.differentiate import observables
    >>> height = observables.Observable(lambda params, positions, box=None: positions[0, 2])
    >>> float(height({}, np.ones((1, 3)), None))
    1.0
    """

    frame: Callable[..., Any]
    of_mean: Callable[[Any], Any] | None = None
    of_params: bool = True
    name: str = "observable"

    def __call__(self, params: Any, positions: Any, box: Any = None) -> Any:
        """The value in one frame."""
        return self.frame(params, positions, box)

    def final(self, mean: Any) -> Any:
        """The quantity from the mean over frames."""
        return mean if self.of_mean is None else self.of_mean(mean)


def function(f: Callable[..., Any], name: str | None = None) -> Observable:
    """Any function of the positions.

    Parameters
    ----------
    f : callable
        ``f(positions, box)`` -> number or array, in NumPy code for the core.
    name : str, optional

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge.differentiate.observables import function
    >>> extent = function(lambda positions, box: np.mean(np.sum(positions**2, axis=1)))
    >>> extent({}, np.ones((4, 3)))
    np.float64(3.0)
    """
    return Observable(
        lambda params, positions, box=None: f(positions, box),
        of_params=False,
        name=name or getattr(f, "__name__", "function"),
    )


def energy(system: System, energy: Callable[..., Any] | None = None) -> Observable:
    """The potential energy in kJ/mol.

    Parameters
    ----------
    system : System
    energy : callable, optional
        ``energy(params, positions, box)``; ``system.energy_function()`` when left out.

    Examples
    --------
    >>> from triskele import sponge
    >>> from triskele.sponge.differentiate import observables
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide-water"), method="pme", cutoff=0.9)
    >>> energy = observables.energy(system)
    >>> round(float(energy(system.params(), system.positions, system.box)), -2)
    -24700.0
    """
    return Observable(system.energy_function() if energy is None else energy, name="energy")


def rdf(
    r: Any, first: Any = None, second: Any = None, *, width: float | None = None, molecules: Any = None
) -> Observable:
    r"""The radial distribution function at distances `r`, with Gaussian bins.

    .. math:: g(r_k) = \frac{V}{N_{pairs}\, 4\pi (r_k^2 + w^2)}
              \sum_{i<j} \frac{e^{-(r_{ij} - r_k)^2 / 2 w^2}}{\sqrt{2\pi}\, w}

    An ideal gas has 1 at every r that is at least a few widths from 0 and from half the smallest edge. What it is
    compared with must be as smooth: g(r) of a histogram with bins of width w sqrt(12) is close to it.

    Parameters
    ----------
    r : (bins,) array, nm
    first, second : array of int, optional
        Atoms; all when left out, and `second` the same as `first`.
    width : float, optional
        Standard deviation w of a bin in nm. Defaults to half the mean distance of the `r`.
    molecules : (n,) int, optional
        Pairs within the same molecule are left out.

    References
    ----------
    Wang, Wu, Wang, Gómez-Bombarelli, "Learning pair potentials using differentiable simulations", J. Chem. Phys. 158
    (2023) 044113, equation 9. doi:10.1063/5.0126475

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import sponge
    >>> from triskele.sponge.differentiate import observables
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide-water"), method="pme", cutoff=0.9)
    >>> oxygens = np.flatnonzero(system.topology.elements == 8)
    >>> g = observables.rdf([0.28, 0.5], oxygens, oxygens, width=0.01)
    >>> g(system.params(), system.positions, system.box).shape
    (2,)
    """
    r = np.array(r, np.float64)
    if r.ndim != 1 or r.size == 0 or not np.all((r > 0) & np.isfinite(r)):
        raise ValueError(f"rdf: distances must be positive numbers [bins] in nm, got {r}")
    if width is None:
        width = 0.5 * float(np.ptp(r)) / max(len(r) - 1, 1)
    check.positive(width, "rdf: width", "nm")
    lists: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def g(params, positions, box=None):
        if box is None:
            raise ValueError("rdf: a box is needed, because g(r) is relative to the mean density")
        n = np.shape(positions)[0]
        if n not in lists:
            lists[n] = _pairs(n, first, second, molecules)
        i, j = lists[n]
        d = boxes.displacement(positions[i] - positions[j], box)
        distance = np.sqrt(np.sum(d * d, axis=-1))
        x = (distance[None, :] - r[:, None]) / width
        counts = np.sum(np.exp(-0.5 * x * x), axis=1) / (np.sqrt(2 * np.pi) * width)
        return counts * boxes.volume(box) / (len(i) * 4 * np.pi * (r * r + width * width))

    return Observable(g, of_params=False, name="rdf")


def _pairs(n, first, second, group):
    a = np.arange(n) if first is None else np.arange(n)[np.asarray(first)]
    b = a if second is None else np.arange(n)[np.asarray(second)]
    wanted = np.zeros((n, n), bool)
    wanted[np.ix_(a, b)] = True
    wanted = np.triu(wanted | wanted.T, 1)
    if group is not None:
        wanted &= np.not_equal.outer(np.asarray(group), np.asarray(group))
    i, j = np.nonzero(wanted)
    if len(i) == 0:
        raise ValueError(f"rdf: no pairs are left between {len(a)} and {len(b)} atoms")
    return i, j


def pressure(system: System, temperature: float, energy: Callable[..., Any] | None = None) -> Observable:
    r"""The pressure in bar, from the work against a change of volume and the mean kinetic energy at `temperature`.

    .. math:: P = \frac{1}{V}\left(N RT - \frac{1}{3} \frac{dU}{d\lambda}\right)

    where centers of N molecules and box are scaled by lambda, as in ``sim.energies()["pressure"]``; with the energy's
    tail, and what the step of Lennard-Jones energies at the cut-off adds where the tail is corrected for.

    Parameters
    ----------
    system : System
        Periodic.
    temperature : float, K
        Temperature of the samples.
    energy : callable, optional
        ``energy(params, positions, box)``. Defaults to `explicit_energy` of the system.

    Examples
    --------
    >>> from triskele import sponge
    >>> from triskele.sponge.differentiate import observables
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide-water"), method="pme", cutoff=0.9)
    >>> pressure = observables.pressure(system, temperature=300)
    >>> bool(abs(pressure(system.params(), system.positions, system.box)) < 20_000)
    True
    """
    if system.box is None:
        raise ValueError("pressure: the system must be periodic")
    energy = explicit_energy(system) if energy is None else energy
    of = molecules(system)
    mass = np.bincount(of, system.masses)
    count = int(np.count_nonzero(mass))
    weights = (system.masses / np.where(mass > 0, mass, 1.0)[of])[:, None]
    atomic = count == system.n
    steps = [(p.name, p.form(system.box), p.types) for p in system.potentials if isinstance(p, Nonbonded)]
    steps = [(name, form, types) for name, form, types in steps if form.dispersion]

    def value(params, positions, box=None):
        if atomic:
            centers = positions
        else:
            centers = core.index_add(np.zeros((len(mass), 3)), of, weights * positions)[of]
        slope = core.jvp(lambda x, b: energy(params, x, b), (positions, box), (centers, box))[1]
        volume = boxes.volume(box)
        p = (count * units.GAS_CONSTANT * temperature - slope / 3) / volume
        for name, form, types in steps:
            p = p + jump_at_cutoff(form, complete(system.params(), params, "pressure")[name], types) / volume**2
        return p * units.BAR_PER_PRESSURE

    return Observable(value, name="pressure")


def density(system: System) -> Observable:
    """The density in g/cm^3: of interest where the volume changes.

    Parameters
    ----------
    system : System

    Examples
    --------
    >>> from triskele import sponge
    >>> from triskele.sponge.differentiate import observables
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide-water"), method="pme", cutoff=0.9)
    >>> density = observables.density(system)
    >>> round(float(density(system.params(), system.positions, system.box)), 2)
    0.66
    """
    mass = float(np.sum(system.masses))
    return Observable(
        lambda params, positions, box=None: mass * units.DENSITY / boxes.volume(box), of_params=False, name="density"
    )


def _charges(system, params):
    """Charges of the `Nonbonded`, which must be all that the system has."""
    for p in system.potentials:
        if isinstance(p, (ChargeEquilibration, InducedDipoles)):
            raise ValueError(
                f"dipole: {type(p).__name__} {p.name!r} has charges or dipoles that are not counted (use "
                "its own, at recorded positions)"
            )
    return complete(system.params(), params, "dipole")[system.nonbonded.name]["charges"]


def dipole(system: System) -> Observable:
    """The dipole moment of a molecule, mean over the system's molecules, in e nm (1 debye = 0.0208194 e nm).

    Molecules must be whole, as they are in positions of a `Simulation`, and neutral.

    Parameters
    ----------
    system : System
        Must have a `Nonbonded` potential, whose charges are taken; no `InducedDipoles` or `ChargeEquilibration`.

    Examples
    --------
    >>> from triskele import sponge
    >>> from triskele.sponge.differentiate import observables
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"))
    >>> dipole = observables.dipole(system)
    >>> bool(dipole(system.params(), system.positions) > 0)
    True
    """
    of = molecules(system)

    def value(params, positions, box=None):
        charges = _charges(system, params)
        moments = core.index_add(np.zeros((int(of.max()) + 1, 3)), of, charges[:, None] * positions)
        return np.mean(np.sqrt(np.sum(moments * moments, axis=1)))

    return Observable(value, name="dipole")


def dielectric(system: System, temperature: float) -> Observable:
    r"""The static dielectric constant, for Ewald sums that end in a conductor.

    .. math:: \epsilon = 1 + \frac{4\pi k_e}{3 V RT} \left(\langle M^2 \rangle - \langle M \rangle^2\right)

    with the dipole moment M of the box. Molecules must be whole and neutral.

    Parameters
    ----------
    system : System
        Must have a `Nonbonded` potential.
    temperature : float, K
        Temperature of the samples.

    References
    ----------
    Neumann, "Dipole moment fluctuation formulas in computer simulations of polar systems", Mol. Phys. 50 (1983) 841.
    doi:10.1080/00268978300102721

    Examples
    --------
    >>> from triskele import sponge
    >>> from triskele.sponge.differentiate import observables
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide-water"), method="pme", cutoff=0.9)
    >>> dielectric = observables.dielectric(system, temperature=300)
    >>> dielectric.name
    'dielectric'
    """

    def frame(params, positions, box=None):
        m = _charges(system, params) @ positions
        return np.concatenate([m, np.stack([np.sum(m * m), boxes.volume(box)])])

    def of_mean(mean):
        fluctuation = mean[3] - np.sum(mean[:3] ** 2)
        return 1 + 4 * np.pi * units.COULOMB / (3 * units.GAS_CONSTANT * temperature) * fluctuation / mean[4]

    return Observable(frame, of_mean, name="dielectric")
