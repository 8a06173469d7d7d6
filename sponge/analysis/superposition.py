"""Best superposition of structures, and deviations after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core.extend import check, plots, short_repr

from ..geometry import superposed
from .trajectory import as_whole

__all__ = ["Fluctuations", "RmsDeviation", "rmsd", "rmsf", "superpose"]


@short_repr
@dataclass(frozen=True)
class RmsDeviation:
    """See `rmsd`.

    Attributes
    ----------
    value : (frames,) array, nm
    """

    value: np.ndarray

    def plot(self, ax: Any = None, *, interval: float | None = None, **line: Any) -> Any:
        """Draw the deviation against frames, or time when the `interval` between frames (ps) is given."""
        with plots.axes(ax, xlabel="frame" if interval is None else "t [ps]", ylabel="RMSD [nm]") as ax:
            ax.plot(np.arange(len(self.value)) * (interval or 1), self.value, **{"linewidth": 0.8, **line})
            ax.set_ylim(bottom=0)
        return ax


@short_repr
@dataclass(frozen=True)
class Fluctuations:
    """See `rmsf`.

    Attributes
    ----------
    value : (atoms,) array, nm
    atoms : (atoms,) int
    """

    value: np.ndarray
    atoms: np.ndarray

    def plot(self, ax: Any = None, **line: Any) -> Any:
        """Draw the fluctuation of each atom."""
        with plots.axes(ax, xlabel="atom", ylabel="RMSF [nm]") as ax:
            ax.plot(self.atoms, self.value, **line)
            plots.whole_ticks(ax.xaxis)
            ax.set_ylim(bottom=0)
        return ax


def superpose(positions: Any, reference: Any, atoms: Any = None, *, weights: Any = None) -> np.ndarray:
    """Rotate and move each frame onto `reference`, so that the (weighted) deviation of `atoms` is least.

    By the singular value decomposition of the covariance (Kabsch, Acta Cryst. A32, 922 (1976)), with the sign that
    keeps the rotation proper.

    Parameters
    ----------
    positions : (frames, n, 3) array, nm, or trajectory
        Molecules must be whole: a UserWarning names one that is broken in a trajectory whose topology has bonds. A
        trajectory is what `load_trajectory` gives or takes.
    reference : (n, 3) array
    atoms : array of int or bool, optional
        Atoms that are fitted; all atoms are moved.
    weights : (atoms,) array, optional
        Weights of the atoms, such as masses. Equal by default.

    Returns
    -------
    (frames, n, 3) array

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import analysis
    >>> x = np.random.default_rng(0).normal(size=(10, 3))
    >>> turned = x[None, :, [1, 2, 0]] + 5.0
    >>> bool(np.allclose(analysis.superpose(turned, x), x))
    True
    """
    where = "superpose"
    positions, atoms = as_whole(where, positions, atoms)
    reference = _reference(where, reference, positions)
    w = np.ones(len(atoms)) if weights is None else np.asarray(weights, np.float64)
    if w.shape != (len(atoms),) or np.any(w < 0) or not w.sum() > 0:
        raise ValueError(f"{where}: weights must be {len(atoms)} numbers >= 0 that are not all 0, got shape {w.shape}")
    return superposed(positions, reference, atoms, w)


def rmsd(positions: Any, reference: Any, atoms: Any = None, *, fit: bool = True, weights: Any = None) -> RmsDeviation:
    r"""Root mean square deviation of `atoms` from a reference structure.

    .. math:: \sqrt{\sum_i w_i |x_i - x_i^{ref}|^2 / \sum_i w_i}

    Parameters
    ----------
    positions : (frames, n, 3) array, nm, or trajectory
        Molecules must be whole: a UserWarning names one that is broken in a trajectory whose topology has bonds. A
        trajectory is what `load_trajectory` gives or takes.
    reference : (n, 3) array
    atoms : array of int or bool, optional
    fit : bool
        Superpose each frame first, see `superpose`.
    weights : (atoms,) array, optional

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge.analysis import rmsd
    >>> x = np.random.default_rng(0).normal(size=(10, 3))
    >>> turned = x[:, [1, 2, 0]] + 5.0  # a rotation and a translation
    >>> bool(rmsd(turned, x).value[0] < 1e-14)
    True
    """
    positions, atoms = as_whole("rmsd", positions, atoms)
    reference = _reference("rmsd", reference, positions)
    x, target = positions[:, atoms], reference[atoms]
    if fit:
        x = superpose(x, target, weights=weights)
    squares = ((x - target) ** 2).sum(2)
    return RmsDeviation(np.sqrt(np.average(squares, axis=1, weights=weights)))


def rmsf(positions: Any, atoms: Any = None, *, fit: bool = True) -> Fluctuations:
    """Root mean square fluctuation of each atom about its mean position.

    With `fit`, frames are superposed on the first and then on the mean structure until that stands still.

    Parameters
    ----------
    positions : (frames, n, 3) array, nm, or trajectory
        Molecules must be whole: a UserWarning names one that is broken in a trajectory whose topology has bonds. A
        trajectory is what `load_trajectory` gives or takes.
    atoms : array of int or bool, optional
    fit : bool

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import analysis
    >>> x = np.random.default_rng(0).normal(size=(1, 20, 3)) + np.random.default_rng(1).normal(0, 0.01, (500, 20, 3))
    >>> bool(abs(analysis.rmsf(x).value.mean() - 0.01 * np.sqrt(3)) < 0.002)
    True
    """
    positions, atoms = as_whole("rmsf", positions, atoms)
    x = positions[:, atoms]
    if fit:
        x = superpose(x, x[0])
        for _ in range(20):
            mean = x.mean(0)
            x = superpose(x, mean)
            if np.abs(x.mean(0) - mean).max() < 1e-9:
                break
    return Fluctuations(np.sqrt(((x - x.mean(0)) ** 2).sum(2).mean(0)), atoms)


def _reference(where, reference, positions):
    reference = np.asarray(reference, np.float64)
    return check.shape(reference, positions.shape[1:], f"{where}: reference")
