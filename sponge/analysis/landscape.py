"""Free energy as a function of two angles, from a histogram."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.sponge import units
from triskele.sponge.analysis.trajectory import axes

__all__ = ["FreeEnergy", "free_energy"]


@dataclass(frozen=True)
class FreeEnergy:
    """See `free_energy`.

    Attributes
    ----------
    phi, psi : array [bins]
        Middles of the bins, radians.
    value : array [bins, bins]
        In kJ/mol above the lowest bin, first index phi; infinite where nothing was sampled.
    """

    phi: np.ndarray
    psi: np.ndarray
    value: np.ndarray

    def plot(self, ax: Any = None, *, highest: float | None = None, **style: Any) -> Any:
        """Draw a map in degrees with contours; `highest` (kJ/mol) ends the scale of colours."""
        ax = axes(ax, xlabel="φ [°]", ylabel="ψ [°]", xlim=(-180, 180), ylim=(-180, 180), aspect="equal",
                  xticks=range(-180, 181, 60), yticks=range(-180, 181, 60))
        seen = np.where(np.isfinite(self.value), self.value, np.nan)
        highest = float(np.nanmax(seen)) or 1.0 if highest is None else highest
        edge = np.linspace(-180, 180, len(self.phi) + 1)
        mesh = ax.pcolormesh(edge, edge, seen.T, **{"vmin": 0, "vmax": highest, "cmap": "viridis", "rasterized": True, **style})
        ax.figure.colorbar(mesh, ax=ax, label="free energy [kJ/mol]")
        return ax


def free_energy(phi: Any, psi: Any, weights: Any = None, *, temperature: float, bins: int = 60) -> FreeEnergy:
    """Free energy -kT ln p(phi, psi) on a periodic grid of two angles.

    Parameters
    ----------
    phi, psi : array of any one shape
        In radians.
    weights : array of that shape (or broadcast to it), optional
        Of the samples, such as those that take a biased run back to `temperature`.
    temperature : float
        In K.
    bins : int
        In each direction.

    Examples
    --------
    >>> import numpy as np
    >>> result = free_energy([0.1, 0.1, 2.0], [0.1, 0.1, 2.0], temperature=300.0, bins=4)
    >>> round(float(result.value[3, 3] / (units.GAS_CONSTANT * 300.0)), 3)  # ln 2
    0.693
    """
    where = "free_energy"
    phi, psi = np.asarray(phi, np.float64), np.asarray(psi, np.float64)
    if phi.shape != psi.shape or not phi.size:
        raise ValueError(f"{where}: phi and psi must have the same shape and at least one sample, got {phi.shape} and {psi.shape}")
    if not (np.isfinite(phi).all() and np.isfinite(psi).all()):
        raise ValueError(f"{where}: phi and psi must be finite")
    if not temperature > 0 or bins < 1:
        raise ValueError(f"{where}: temperature must be > 0 K and bins >= 1, got {temperature} and {bins}")
    if weights is not None:
        weights = np.broadcast_to(np.asarray(weights, np.float64), phi.shape).ravel()
        if not (np.isfinite(weights).all() and np.all(weights >= 0) and weights.sum() > 0):
            raise ValueError(f"{where}: weights must be finite and >= 0, and not all 0")
    edge = np.linspace(-np.pi, np.pi, bins + 1)
    wrapped = [np.mod(x.ravel() + np.pi, 2 * np.pi) - np.pi for x in (phi, psi)]
    count = np.histogram2d(*wrapped, bins=[edge, edge], weights=weights)[0]
    value = np.full_like(count, np.inf)
    value[count > 0] = -units.GAS_CONSTANT * temperature * np.log(count[count > 0] / count.max())
    middle = 0.5 * (edge[1:] + edge[:-1])
    return FreeEnergy(middle, middle, value)
