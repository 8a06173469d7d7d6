"""Radial distribution functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core.extend import Task, check, kernel, plots, short_repr

from .. import box as boxes_
from ..box import minimum_image
from ..engine.flags import N_FLAGS
from ..engine.program import Phase, Program
from ..topology import as_atoms
from .trajectory import as_boxes, as_positions, opened

__all__ = ["RadialDistribution", "rdf"]


@short_repr
@dataclass(frozen=True)
class RadialDistribution:
    """g(r), see `rdf`.

    Attributes
    ----------
    r : (bins,) array
        Middles of the bins, nm.
    g : (bins,) array
    coordination : (bins,) array
        Mean number of second atoms around a first one up to the outer edge of each bin.
    """

    r: np.ndarray
    g: np.ndarray
    coordination: np.ndarray

    def plot(self, ax: Any = None, **line: Any) -> Any:
        """Draw g(r)."""
        with plots.axes(ax, xlabel="r [nm]", ylabel="g(r)") as ax:
            ax.axhline(1.0, color="0.7", linewidth=0.8, zorder=0)
            ax.plot(self.r, self.g, **line)
            ax.set_xlim(0, self.r[-1] + self.r[0])
            ax.set_ylim(bottom=0)
        return ax


def rdf(
    positions: Any,
    boxes: Any = None,
    first: Any = None,
    second: Any = None,
    *,
    r_max: float | None = None,
    bins: int = 200,
    molecules: Any = None,
) -> RadialDistribution:
    r"""Radial distribution function of atoms `second` around atoms `first` in a periodic box.

    .. math:: g(r) = \frac{\langle n(r, r + dr) \rangle}{N_{pairs} / V \cdot 4\pi (r_+^3 - r_-^3) / 3}

    with the number of ordered pairs that are counted, so that an ideal gas has g = 1 whatever its size.

    Parameters
    ----------
    positions : (frames, n, 3) array, nm, or trajectory
        May be wrapped or unwrapped. A trajectory is what `load_trajectory` gives or takes.
    boxes : (frames, 3, 3), (3, 3) or (3,) array, or float, nm
        Box vectors, one in each row. Defaults to those of a trajectory.
    first, second : array of int or bool, optional
        Atoms; all when left out, and `second` the same as `first`. An atom is never paired with itself.
    r_max : float, nm, optional
        Largest distance. Defaults to half the smallest edge, which is the most it can be.
    bins : int
    molecules : (n,) int, optional
        Pairs within the same molecule (``system.topology.molecules``) are left out.

    Returns
    -------
    RadialDistribution

    Raises
    ------
    ValueError
        If `r_max` is too large for a box, or there are no pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge.analysis import rdf
    >>> ideal = np.random.default_rng(0).uniform(0, 3.0, (20, 300, 3))
    >>> round(float(rdf(ideal, 3.0, bins=30).g[10:].mean()), 2)
    1.0
    """
    where = "rdf"
    positions, boxes, _, _ = opened(positions, boxes)
    positions = as_positions(where, positions)
    frames, n = positions.shape[:2]
    boxes = as_boxes(where, boxes, frames)
    if boxes is None:
        raise ValueError(f"{where}: a box is needed, because g(r) is relative to the mean density")
    largest = min(boxes_.largest_cutoff(b) for b in boxes)
    r_max = largest if r_max is None else float(r_max)
    if not 0 < r_max <= largest * (1 + 1e-12):
        raise ValueError(
            f"{where}: r_max must be > 0 and at most half the smallest edge, {largest:.4g} nm, got {r_max}"
        )
    check.integer(bins, f"{where}: bins", 1)
    a = as_atoms(where, first, n)
    b = a if second is None else as_atoms(where, second, n)
    group = np.arange(n) if molecules is None else np.asarray(molecules, np.int64)
    if group.shape != (n,):
        raise ValueError(f"{where}: molecules must have shape ({n},), got {group.shape}")
    counted = len(a) * len(b) - _same_group(group, a, b)
    if counted == 0:
        raise ValueError(f"{where}: no pairs are left between {len(a)} and {len(b)} atoms")
    edges = np.linspace(0, r_max, bins + 1)
    shells = 4 / 3 * np.pi * np.diff(edges**3)
    volumes = boxes[:, 0, 0] * boxes[:, 1, 1] * boxes[:, 2, 2]
    histogram = _count_pairs(
        positions, boxes, a.astype(np.int64), b.astype(np.int64), group.astype(np.int64), r_max, bins
    )
    expected = counted * shells[None] / volumes[:, None]
    return RadialDistribution(
        0.5 * (edges[1:] + edges[:-1]),
        histogram.sum(0) / expected.sum(0),
        np.cumsum(histogram.sum(0)) / (frames * len(a)),
    )


def _same_group(group, a, b) -> int:
    _, index = np.unique(group, return_inverse=True)
    return int(np.bincount(index[a], minlength=index.max() + 1) @ np.bincount(index[b], minlength=index.max() + 1))


def _count_pairs(positions, boxes, a, b, group, r_max, bins):
    """Ordered pairs in each bin, [frames, bins]."""
    counts = np.zeros((len(positions), bins), np.int64)
    xyz = np.ascontiguousarray(positions[:, b].transpose(0, 2, 1))  # [frames, 3, second]
    task = Task(
        count_pairs,
        np.ascontiguousarray(positions),
        xyz,
        np.ascontiguousarray(boxes),
        a,
        b,
        group,
        float(r_max),
        counts,
        chunks=len(positions),
    )
    Program([Phase([task])], np.zeros(N_FLAGS, np.int64)).run(1)
    return counts


@kernel(nogil=True)
def count_pairs(frame, positions, xyz, boxes, a, b, group, r_max, counts):  # a chunk is a frame
    box = boxes[frame]
    n_b, bins = b.size, counts.shape[1]
    square = np.empty(n_b)
    per_bin = bins / r_max
    for i in a:
        x, y, z = positions[frame, i, 0], positions[frame, i, 1], positions[frame, i, 2]
        for j in range(n_b):  # no branches: this loop is vectorized
            dx, dy, dz = minimum_image(x - xyz[frame, 0, j], y - xyz[frame, 1, j], z - xyz[frame, 2, j], box)
            square[j] = dx * dx + dy * dy + dz * dz
        for j in range(n_b):
            if square[j] < r_max * r_max and group[b[j]] != group[i]:
                k = int(np.sqrt(square[j]) * per_bin)
                counts[frame, min(k, bins - 1)] += 1
