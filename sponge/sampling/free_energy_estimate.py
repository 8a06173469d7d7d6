"""`FreeEnergyEstimate`: a free energy on a grid of variables, with its error and pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core.extend import plots, short_repr

__all__ = ["FreeEnergyEstimate"]


@short_repr
@dataclass(frozen=True)
class FreeEnergyEstimate:
    """See `Metadynamics.free_energy`.

    Attributes
    ----------
    axes : list of array
        Values of each variable at the nodes of the grid.
    value : (n1, ...) array
        Free energy from the weights of the recorded states, in kJ/mol, 0 at the minimum; infinite where none is.
    error : (n1, ...) array
        Standard error of -RT ln p, in kJ/mol, of which the probability's normalization is a part; infinite where one of
        the blocks of the run has not been.
    from_bias : (n1, ...) array
        -gamma / (gamma - 1) V, or -V of plain metadynamics, 0 at the minimum.
    """

    axes: list[np.ndarray]
    value: np.ndarray
    error: np.ndarray
    from_bias: np.ndarray

    def plot(self, ax: Any = None, *, degrees: bool = False, highest: float | None = None, **line: Any) -> Any:
        """Draw the free energy of one variable with a band of one standard error to both sides, or of two as a map.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Defaults to new axes.
        degrees : bool
            The variables are angles, to be shown in degrees.
        highest : float, kJ/mol, optional
            End of the scale; higher free energies are drawn at it in maps, and lie outside of other pictures.
        **line
            Options of the line, or of ``pcolormesh``.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        ValueError
            If there are three variables.
        """
        if len(self.axes) == 1:
            with plots.axes(ax, xlabel="angle [°]" if degrees else "s", ylabel="free energy [kJ/mol]") as ax:
                plots.band(
                    ax,
                    self._shown(degrees)[0],
                    np.where(np.isfinite(self.error), self.value, np.nan),
                    self.error,
                    **line,
                )
                ax.set_ylim(top=highest)
            return ax
        return self._map(ax, self.value, "free energy [kJ/mol]", degrees, highest, line)

    def plot_error(self, ax: Any = None, *, degrees: bool = False, highest: float | None = None, **line: Any) -> Any:
        """Draw the standard errors; the options are those of `plot`."""
        if len(self.axes) == 1:
            with plots.axes(ax, xlabel="angle [°]" if degrees else "s", ylabel="standard error [kJ/mol]") as ax:
                ax.plot(self._shown(degrees)[0], np.where(np.isfinite(self.error), self.error, np.nan), **line)
                ax.set_ylim(0, highest)
            return ax
        return self._map(ax, self.error, "standard error [kJ/mol]", degrees, highest, {"cmap": "magma_r", **line})

    def _shown(self, degrees):
        return [np.degrees(axis) if degrees else axis for axis in self.axes]

    def _map(self, ax, values, label, degrees, highest, mesh):
        if len(self.axes) > 2:
            raise ValueError(
                f"FreeEnergyEstimate.plot: one or two variables can be drawn, got {len(self.axes)} (sum "
                f"exp(-F / RT) over some of them first)"
            )
        names = ("first angle [°]", "second angle [°]") if degrees else ("first variable", "second variable")
        values = np.where(np.isfinite(values), values if highest is None else np.minimum(values, highest), np.nan)
        with plots.axes(ax, xlabel=names[0], ylabel=names[1]) as ax:
            x, y = self._shown(degrees)
            plots.heatmap(ax, x, y, values, label, **{"vmin": 0, "vmax": highest, **mesh})
        return ax
