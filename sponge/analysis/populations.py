"""Populations of regions of two angles, with errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core.extend import check, plots, short_repr

from .statistics import Mean, as_weighted, mean

__all__ = ["Populations", "Rectangle", "populations"]


@dataclass(frozen=True)
class Rectangle:
    """A region of two angles: those between two values each, on the way up from the first to the second.

    Parameters
    ----------
    phi, psi : tuple of float, radians
        (2.6, -2.1) goes across pi. All angles when left out.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge.analysis import Rectangle
    >>> region = Rectangle(phi=(-np.pi, 0), psi=(1.5, -2.6))
    >>> region([-1.0, -1.0, 1.0], [3.1, 0.0, 3.1])
    array([ True, False, False])
    """

    phi: tuple[float, float] = (-np.pi, np.pi)
    psi: tuple[float, float] = (-np.pi, np.pi)

    def __call__(self, phi: Any, psi: Any) -> np.ndarray:
        """Return a mask that is True for points inside the region."""
        return _between(phi, self.phi) & _between(psi, self.psi)


def _between(x, ends):
    low, high = ends
    width = (high - low) % (2 * np.pi) or 2 * np.pi  # equal ends are a whole turn
    return np.mod(np.asarray(x, np.float64) - low, 2 * np.pi) < width


@short_repr
@dataclass(frozen=True)
class Populations:
    """See `populations`.

    Attributes
    ----------
    names : tuple of str
    value, error : (regions,) array
        Fractions and their standard errors; the errors are those of `mean`: infinite where a region
        was visited once, NaN where all or none of the samples were inside.
    inefficiency : (regions,) array
        Number of samples that count as one independent sample.
    """

    names: tuple[str, ...]
    value: np.ndarray
    error: np.ndarray
    inefficiency: np.ndarray

    def __getitem__(self, name: str) -> Mean:
        k = self.names.index(name)
        return Mean(float(self.value[k]), float(self.error[k]), float(self.inefficiency[k]))

    def __str__(self):
        errors = (f" ± {e:.4f}" if np.isfinite(e) else " (error unknown)" for e in self.error)
        return ", ".join(f"{n} {v:.4f}{e}" for n, v, e in zip(self.names, self.value, errors))

    def plot(self, ax: Any = None, **line: Any) -> Any:
        """Draw the fractions as points with error bars."""
        place = np.arange(len(self.names))
        with plots.axes(ax, xlabel="region", ylabel="population") as ax:
            ax.errorbar(place, self.value, self.error, **{"linestyle": "none", "marker": "o", **line})
            ax.set_xticks(place, self.names)
            ax.margins(x=0.15)
        return ax


def populations(
    phi: Any, psi: Any, regions: Mapping[str, Callable[[np.ndarray, np.ndarray], np.ndarray]], weights: Any = None
) -> Populations:
    """Fractions of samples in named regions, with standard errors that know of weights and correlation (see `mean`).

    Parameters
    ----------
    phi, psi : (samples,) or (samples, series) array, radians
        Series are independent runs, such as walkers; time goes along the first axis.
    regions : mapping of str to Rectangle
        Or to any function (phi, psi) -> array of bool. They may overlap, and need not fill the plane.
    weights : array of that shape (or broadcast to it), optional
        Weights of the samples, such as those that reweight a biased run to its target.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge.analysis import populations, Rectangle
    >>> phi, psi = np.random.default_rng(0).uniform(-np.pi, np.pi, (2, 10_000))
    >>> result = populations(phi, psi, {"left": Rectangle(phi=(-np.pi, 0)), "corner": Rectangle((0, 1.5), (0, 1.5))})
    >>> bool(abs(result["left"].value - 0.5) < 0.02)
    True
    """
    where = "populations"
    check.shape(psi, np.shape(phi), f"{where}: psi", hint="the shape of phi")
    if not regions:
        raise ValueError(f"{where}: at least one region is needed")
    phi, w = as_weighted(where, phi, weights)
    psi = as_weighted(where, psi, None)[0]
    found = []
    for name, region in regions.items():
        inside = np.asarray(region(phi, psi))
        if inside.dtype != bool or inside.shape != phi.shape:
            raise ValueError(
                f"{where}: region {name!r} must give an array of bool of shape {phi.shape}, got "
                f"{inside.dtype} {inside.shape}"
            )
        found.append(mean(inside, w))
    return Populations(
        tuple(regions), *(np.array([getattr(m, field) for m in found]) for field in ("value", "error", "inefficiency"))
    )
