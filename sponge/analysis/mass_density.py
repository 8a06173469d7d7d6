"""Mass density of a periodic system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core.extend import plots, short_repr

from .. import units
from ..trajectories.trajectory import is_trajectory, load_trajectory
from .statistics import Mean, mean
from .trajectory import as_boxes

__all__ = ["Density", "density"]


@short_repr
@dataclass(frozen=True)
class Density:
    """See `density`.

    Attributes
    ----------
    value : (frames,) array, g/cm^3
    mean : Mean
    """

    value: np.ndarray
    mean: Mean

    def plot(self, ax: Any = None, *, interval: float | None = None, **line: Any) -> Any:
        """Draw the density against frames, or time when the `interval` between frames (ps) is given, and its mean."""
        with plots.axes(ax, xlabel="frame" if interval is None else "t [ps]", ylabel="density [g/cm³]") as ax:
            ax.plot(np.arange(len(self.value)) * (interval or 1), self.value, **{"linewidth": 0.8, **line})
            ax.axhline(self.mean.value, linestyle="--", color="black", label=f"{self.mean} g/cm³")
            ax.legend()
        return ax


def density(masses: Any, boxes: Any) -> Density:
    """Density of each frame, and its mean with an error that allows for correlation.

    Parameters
    ----------
    masses : (n,) array, dalton
        Masses of the atoms, such as ``system.masses``.
    boxes : (frames, 3, 3) array, nm, or trajectory
        Box vectors, one in each row; of a trajectory, see `load_trajectory`, its boxes are used.

    Examples
    --------
    >>> from triskele.sponge.analysis import density
    >>> round(float(density([18.015] * 895, [[[3, 0, 0], [0, 3, 0], [0, 0, 3]]]).value[0]), 3)  # water
    0.992
    """
    if is_trajectory(boxes):
        boxes = load_trajectory(boxes).boxes
    boxes = np.asarray(boxes, np.float64)
    if boxes.ndim != 3 or not len(boxes):
        raise ValueError(f"density: boxes must have shape [frames, 3, 3], got {boxes.shape}")
    volumes = np.linalg.det(as_boxes("density", boxes, len(boxes)))
    values = np.sum(masses) / volumes * units.DENSITY
    return Density(values, mean(values))
