"""Drift of the total energy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core.extend import plots, short_repr

from .. import units
from .statistics import statistical_inefficiency
from .trajectory import as_series

__all__ = ["EnergyDrift", "energy_drift"]


@short_repr
@dataclass(frozen=True)
class EnergyDrift:
    """See `energy_drift`.

    Attributes
    ----------
    value, error : float
        Slope and its standard error, in kT per nanosecond and degree of freedom.
    time, energy : (samples,) array
        As given: ps, kJ/mol.
    slope : float, kJ/mol/ps
        Slope of the fitted line.
    """

    value: float
    error: float
    time: np.ndarray
    energy: np.ndarray
    slope: float

    def plot(self, ax: Any = None, **line: Any) -> Any:
        """Draw the change of the energy and the line through it."""
        t = self.time - self.time.mean()
        with plots.axes(ax, xlabel="t [ps]", ylabel="total energy − mean [kJ/mol]") as ax:
            ax.plot(self.time, self.energy - self.energy.mean(), **{"linewidth": 0.8, **line})
            ax.plot(
                self.time,
                self.slope * t,
                "--",
                color="black",
                label=f"({self.value:.2g} ± {self.error:.1g}) kT/ns per degree of freedom",
            )
            ax.legend()
        return ax


def energy_drift(time: Any, energy: Any, degrees_of_freedom: int, temperature: float) -> EnergyDrift:
    """Slope of a straight line through the total energy, in kT per nanosecond and degree of freedom.

    Parameters
    ----------
    time : (samples,) array, ps
        Time.
    energy : (samples,) array
        Total energy, kJ/mol.
    degrees_of_freedom : int
        ``sim.degrees_of_freedom``.
    temperature : float, K
        Temperature that gives kT.

    Returns
    -------
    EnergyDrift
        The error allows for correlation of the residuals of the line.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge.analysis import energy_drift
    >>> t = np.linspace(0, 1000, 50)
    >>> round(energy_drift(t, 1e-3 * t, 100, 300.0).value, 5)  # 1 kJ/mol in 1 ns on 100 degrees of freedom
    0.00401
    """
    where = "energy_drift"
    time = as_series(where, "time", time)
    energy = as_series(where, "energy", energy, len(time))
    if len(time) < 3 or np.ptp(time) == 0:
        raise ValueError(f"{where}: at least 3 samples at different times are needed, got {len(time)}")
    if degrees_of_freedom < 1 or not temperature > 0:
        raise ValueError(
            f"{where}: degrees_of_freedom must be >= 1 and temperature > 0, got {degrees_of_freedom}, {temperature}"
        )
    t, e = time - time.mean(), energy - energy.mean()
    slope = float(t @ e / (t @ t))
    rest = e - slope * t
    error = np.sqrt(statistical_inefficiency(rest) * (rest @ rest) / (len(t) - 2) / (t @ t))
    scale = 1000 / degrees_of_freedom / (units.GAS_CONSTANT * temperature)
    return EnergyDrift(slope * scale, float(error * scale), time, energy, slope)
