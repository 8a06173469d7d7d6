"""Free energy as a function of two angles, with errors, and its minima."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core.extend import check, plots, short_repr

from .. import units
from .statistics import as_weighted
from .weighted_histogram import angular, check_bins, free_energies

__all__ = ["FreeEnergy", "LocalMinimum", "free_energy"]


@short_repr
@dataclass(frozen=True)
class LocalMinimum:
    """See `FreeEnergy.minima`.

    Attributes
    ----------
    phi, psi : float
        Mean over the bins around it that are within kT, radians.
    value, error : float
        Free energy of its lowest bin above the lowest of all, and the standard error of that bin, kJ/mol.
    depth : float
        Height of the barrier to the next minimum that is deeper, kJ/mol; infinite for the deepest, and where bins that
        were never visited lie in between.
    """

    phi: float
    psi: float
    value: float
    error: float
    depth: float

    def __str__(self):
        error = f"± {self.error:.2f} kJ/mol" if np.isfinite(self.error) else "kJ/mol (error unknown)"
        return f"({np.degrees(self.phi):.0f}°, {np.degrees(self.psi):.0f}°): {self.value:.2f} {error}"


_MAP = {
    "xlabel": "φ [°]",
    "ylabel": "ψ [°]",
    "xlim": (-180, 180),
    "ylim": (-180, 180),
    "aspect": "equal",
    "xticks": range(-180, 181, 90),
    "yticks": range(-180, 181, 90),
}


@short_repr
@dataclass(frozen=True)
class FreeEnergy:
    """See `free_energy`.

    Attributes
    ----------
    phi, psi : (bins,) array
        Middles of the bins, radians.
    value : (bins, bins) array
        Free energy in kJ/mol above the lowest bin, first index phi; infinite where nothing was sampled.
    error : (bins, bins) array
        Standard error of -kT ln p, kJ/mol; infinite where a bin was never visited, or in effect in one block only.
    probability : (bins, bins) array
        Probability of each bin; their sum is 1.
    temperature : float, K
        Temperature of the samples.
    blocks : int
        Number of blocks from whose scatter the errors were found.
    """

    phi: np.ndarray
    psi: np.ndarray
    value: np.ndarray
    error: np.ndarray
    probability: np.ndarray
    temperature: float
    blocks: int

    def plot(self, ax: Any = None, *, highest: float | None = None, unsure: float | None = None, **mesh: Any) -> Any:
        """Draw a map in degrees; bins whose error is above `unsure` are hatched.

        Parameters
        ----------
        ax : matplotlib axes, optional
        highest : float, optional
            End of the scale of colors, kJ/mol.
        unsure : float, kJ/mol, optional
            Defaults to kT / 2.
        **mesh : optional
            Options of matplotlib's ``pcolormesh``.
        """
        seen = np.where(np.isfinite(self.value), self.value, np.nan)
        highest = float(np.nanmax(seen)) or 1.0 if highest is None else highest
        unsure = 0.5 * units.GAS_CONSTANT * self.temperature if unsure is None else unsure
        with plots.axes(ax, **_MAP) as ax:
            self._map(ax, seen, "free energy [kJ/mol]", {"vmin": 0, "vmax": highest, **mesh})
            doubtful = np.isfinite(self.value) & (self.error > unsure)
            if doubtful.any() and min(doubtful.shape) > 1:
                hatched = ax.contourf(
                    np.degrees(self.phi),
                    np.degrees(self.psi),
                    doubtful.T.astype(float),
                    levels=[0.5, 1.5],
                    colors="none",
                    hatches=["//////"],
                )
                hatched.set(edgecolor="0.75", linewidth=0)
        return ax

    def plot_error(self, ax: Any = None, *, highest: float | None = None, **mesh: Any) -> Any:
        """Draw a map of the errors in degrees; `highest` (kJ/mol, else kT) ends the scale of colors."""
        highest = units.GAS_CONSTANT * self.temperature if highest is None else highest
        with plots.axes(ax, **_MAP) as ax:
            self._map(
                ax,
                np.where(np.isfinite(self.value), np.minimum(self.error, highest), np.nan),
                "standard error [kJ/mol]",
                {"vmin": 0, "vmax": highest, "cmap": "magma_r", **mesh},
            )
        return ax

    def _map(self, ax, values, label, mesh):
        edge = np.linspace(-180, 180, len(self.phi) + 1)
        plots.heatmap(ax, edge, edge, values, label, **mesh)

    def minima(self, depth: float | None = None) -> list[LocalMinimum]:
        """Local minima, from the deepest up.

        Bins are filled from the lowest up, as if with water: a minimum counts when its error is finite and the saddle
        over which its lake runs into one with a deeper bottom lies at least `depth` above its own, and more than twice
        the errors of both (persistence: Edelsbrunner, Letscher and Zomorodian, Discrete Comput. Geom. 28, 511 (2002)).

        Parameters
        ----------
        depth : float, kJ/mol, optional
            Defaults to kT / 2.

        Examples
        --------
        >>> import numpy as np
        >>> from triskele.sponge.analysis import free_energy
        >>> rng = np.random.default_rng(0)
        >>> where = rng.choice([-1.0, 1.0], 20_000, p=[0.75, 0.25])
        >>> phi, psi = rng.vonmises(where, 20), rng.vonmises(where, 20)
        >>> for minimum in free_energy(phi, psi, temperature=300, bins=18, blocks=20).minima():
        ...     print(minimum)
        (-59°, -59°): 0.00 ± 0.03 kJ/mol
        (59°, 58°): 2.57 ± 0.07 kJ/mol
        """
        bins = self.value.shape
        kt = units.GAS_CONSTANT * self.temperature
        depth = 0.5 * kt if depth is None else depth
        value, error = self.value.ravel(), self.error.ravel()
        top = np.minimum(error, kt)  # of a saddle, which may have been crossed once
        lake = np.full(value.size, -1)  # bottom of the lake of each flooded bin, by way of others
        barrier = {}  # of each bottom, its height over it

        def bottom_of(bin):
            while lake[bin] != bin:
                bin = lake[bin]
            return bin

        for bin in np.argsort(value, kind="stable"):
            if not np.isfinite(value[bin]):
                break
            i, j = divmod(int(bin), bins[1])
            around = [
                (i + di) % bins[0] * bins[1] + (j + dj) % bins[1] for di in (-1, 0, 1) for dj in (-1, 0, 1) if di or dj
            ]
            bottoms = sorted({bottom_of(k) for k in around if lake[k] >= 0}, key=lambda k: (value[k], k))
            lake[bin] = bottoms[0] if bottoms else bin
            for k in bottoms[1:]:
                if value[bin] - value[k] >= max(depth, 2 * np.hypot(error[k], top[bin])):
                    barrier[int(k)] = value[bin] - value[k]
                lake[k] = bottoms[0]
        # what never ran into another: the deepest, and those beyond bins that were not visited, if they are more than
        # noise
        flooded = np.flatnonzero(lake >= 0)
        bottoms = np.array([bottom_of(k) for k in flooded], int)
        for k in np.unique(bottoms):
            own = flooded[bottoms == k]
            highest = own[np.argmax(value[own])]
            if k == np.argmin(value) or value[highest] - value[k] >= max(depth, 2 * np.hypot(error[k], top[highest])):
                barrier[int(k)] = np.inf
        return sorted((self._minimum(k, height, kt) for k, height in barrier.items()), key=lambda m: m.value)

    def _minimum(self, bin, barrier, kt):
        i, j = divmod(bin, self.value.shape[1])
        # bins within kT of the bottom that hang together with it
        low = self.value <= self.value[i, j] + min(kt, barrier)
        reached = np.zeros_like(low)
        reached[i, j] = True
        while True:
            grown = reached.copy()
            for axis in (0, 1):
                grown |= np.roll(grown, 1, axis) | np.roll(grown, -1, axis)
            grown &= low
            if np.array_equal(grown, reached):
                break
            reached = grown
        p = np.where(reached, self.probability, 0)
        phi = np.angle(p.sum(1) @ np.exp(1j * self.phi))
        psi = np.angle(p.sum(0) @ np.exp(1j * self.psi))
        return LocalMinimum(float(phi), float(psi), float(self.value[i, j]), float(self.error[i, j]), float(barrier))


def free_energy(
    phi: Any, psi: Any, weights: Any = None, *, temperature: float, bins: int = 60, blocks: int | None = None
) -> FreeEnergy:
    """Free energy -kT ln p(phi, psi) on a periodic grid of two angles.

    Errors come from the scatter of blocks of consecutive samples, at least five times as long as the weighted angles
    stay correlated, if the run is long enough for ten of them.

    Parameters
    ----------
    phi, psi : (samples,) or (samples, series) array, radians
        Series are independent runs, such as walkers; time goes along the first axis.
    weights : array of that shape (or broadcast to it), optional
        Weights of the samples, such as those that reweight a biased run to `temperature`.
    temperature : float, K
        Temperature of the samples.
    bins : int
        Number of bins in each direction.
    blocks : int, optional
        Number of blocks over all series, in place of that choice.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import units
    >>> from triskele.sponge.analysis import free_energy
    >>> result = free_energy([0.1, 0.1, 2.0], [0.1, 0.1, 2.0], temperature=300.0, bins=4)
    >>> round(float(result.value[3, 3] / (units.GAS_CONSTANT * 300.0)), 3)  # ln 2
    0.693
    """
    where = "free_energy"
    check.shape(psi, np.shape(phi), f"{where}: psi", hint="the shape of phi")
    check_bins(where, temperature, bins, blocks)
    phi, w = as_weighted(where, phi, weights)
    psi = as_weighted(where, psi, None)[0]
    i, j = (np.floor((np.mod(x + np.pi, 2 * np.pi)) * (bins / (2 * np.pi))).astype(np.int64) % bins for x in (phi, psi))
    slow = angular(phi, 2 * np.pi) + angular(psi, 2 * np.pi)
    value, spread, p, count = free_energies(i * bins + j, w, bins * bins, slow, temperature, blocks)
    middle = (np.arange(bins) + 0.5) * (2 * np.pi / bins) - np.pi
    square = (bins, bins)
    return FreeEnergy(
        middle, middle, value.reshape(square), spread.reshape(square), p.reshape(square), float(temperature), count
    )
