"""Mean square displacement and diffusion coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core.extend import plots, short_repr

from ..topology import as_atoms
from .trajectory import as_boxes, as_interval, as_positions, opened

__all__ = ["Diffusion", "MeanSquareDisplacement", "diffusion_coefficient", "msd", "unwrap"]

_CM2_PER_S = 1e-2  # in 1 nm^2/ps


@short_repr
@dataclass(frozen=True)
class MeanSquareDisplacement:
    """See `msd`.

    Attributes
    ----------
    time : (lags,) array, ps
        Time.
    value : (lags,) array, nm^2
    """

    time: np.ndarray
    value: np.ndarray

    def plot(self, ax: Any = None, **line: Any) -> Any:
        """Draw the mean square displacement against time."""
        with plots.axes(ax, xlabel="t [ps]", ylabel="MSD [nm²]") as ax:
            ax.plot(self.time, self.value, **line)
        return ax


@short_repr
@dataclass(frozen=True)
class Diffusion:
    """See `diffusion_coefficient`.

    Attributes
    ----------
    value, error : float
        Diffusion coefficient and its standard error, nm^2/ps.
    msd : MeanSquareDisplacement
        Over the whole trajectory.
    fit : tuple of float
        Times between which the line was fitted, ps.
    intercept : float
        Intercept of the line, nm^2.
    """

    value: float
    error: float
    msd: MeanSquareDisplacement
    fit: tuple[float, float]
    intercept: float

    @property
    def cm2_per_s(self) -> tuple[float, float]:
        """Value and standard error in cm^2/s."""
        return self.value * _CM2_PER_S, self.error * _CM2_PER_S

    def plot(self, ax: Any = None, **line: Any) -> Any:
        """Draw the mean square displacement and the fitted line; its legend is the coefficient."""
        t = np.array(self.fit)
        value, error = self.cm2_per_s
        with plots.axes(ax) as ax:
            self.msd.plot(ax, **line)
            ax.plot(
                t,
                self.intercept + 6 * self.value * t,
                "--",
                color="black",
                label=f"D = ({value * 1e5:.3g} ± {error * 1e5:.2g})·10⁻⁵ cm²/s",
            )
            ax.legend()
        return ax


def unwrap(positions: Any, boxes: Any = None) -> np.ndarray:
    """Undo jumps across periodic boundaries: no atom moves by more than half a box between frames.

    Shortest displacements are summed up, which keeps diffusion right in boxes that fluctuate; adding whole boxes to
    wrapped positions does not (von Bulow, Bullerjahn and Hummer, J. Chem. Phys. 153, 021101 (2020)).

    Parameters
    ----------
    positions : (frames, n, 3) array, nm, or trajectory
    boxes : (frames, 3, 3), (3, 3) or (3,) array, or float, nm
        Defaults to those of a trajectory.

    Returns
    -------
    (frames, n, 3) array
        The first frame is as given.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import analysis
    >>> x = np.arange(0.0, 3.0, 0.25)[:, None, None] * [1.0, 0.0, 0.0]  # through a box of edge 1 nm
    >>> bool(np.allclose(analysis.unwrap(x % 1.0, np.ones(3)), x))
    True
    """
    positions, boxes, _, _ = opened(positions, boxes)
    positions = as_positions("unwrap", positions)
    boxes = as_boxes("unwrap", boxes, len(positions))
    if boxes is None:
        return positions.copy()
    steps = np.diff(positions, axis=0)
    for axis in (2, 1, 0):  # the order in which a reduced box is taken apart
        steps -= np.rint(steps[..., axis] / boxes[1:, None, axis, axis])[..., None] * boxes[1:, None, axis]
    return np.concatenate([positions[:1], positions[:1] + np.cumsum(steps, axis=0)])


def msd(
    positions: Any, interval: float | None = None, atoms: Any = None, *, boxes: Any = None, max_lag: int | None = None
) -> MeanSquareDisplacement:
    r"""Mean square displacement, averaged over atoms and all time origins.

    .. math:: \mathrm{MSD}(\tau) = \langle |x_i(t + \tau) - x_i(t)|^2 \rangle_{i, t}

    By Fourier transforms, in frames x log(frames) operations: the sum of squares minus twice the autocorrelation
    (Calandrini et al., Collection SFN 12, 201 (2011), section 4.2).

    Parameters
    ----------
    positions : (frames, n, 3) array, nm, or trajectory
        Continuous (as runs write them), or wrapped with `boxes` given. For the diffusion of molecules give one
        atom, or the center of mass, of each. A trajectory is what `load_trajectory` gives or takes: a path, or an
        object of MDTraj or MDAnalysis.
    interval : float, ps, optional
        Time between frames. Defaults to that of a trajectory.
    atoms : array of int or bool, optional
    boxes : optional
        When given, positions are unwrapped first, see `unwrap`. Those of a trajectory are used.
    max_lag : int, optional
        Longest time in frames. Defaults to half the trajectory.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import analysis
    >>> steps = np.random.default_rng(0).normal(0.0, 0.1, (2000, 50, 3))  # D = 0.1^2 / 2 nm^2 per interval
    >>> x = np.cumsum(steps, axis=0)
    >>> result = analysis.msd(x, interval=1.0, max_lag=10)
    >>> bool(abs(result.value[10] - 0.3) < 0.02)
    True
    """
    where = "msd"
    positions, boxes, times, _ = opened(positions, boxes)
    positions = as_positions(where, positions)
    frames, n = positions.shape[:2]
    if frames < 2:
        raise ValueError(f"{where}: at least 2 frames are needed, got {frames}")
    interval = as_interval(where, interval, times)
    max_lag = frames // 2 if max_lag is None else int(max_lag)
    if not 1 <= max_lag < frames:
        raise ValueError(f"{where}: max_lag must be 1 to {frames - 1}, got {max_lag}")
    x = positions[:, as_atoms(where, atoms, n)]
    if boxes is not None:
        x = unwrap(x, boxes)
    return MeanSquareDisplacement(interval * np.arange(max_lag + 1), _msd_by_fft(x, max_lag))


def _msd_by_fft(x, max_lag):
    from scipy import fft

    frames, n = x.shape[:2]
    total = np.zeros(max_lag + 1)
    size = fft.next_fast_len(frames + max_lag + 1, real=True)
    together = max(1, 1_000_000 // (3 * size))  # atoms per transform: memory stays small
    for begin in range(0, n, together):
        part = np.ascontiguousarray(x[:, begin : begin + together].reshape(frames, -1).T)
        part -= part.mean(axis=1, keepdims=True)  # the squares cancel less
        spectrum = fft.rfft(part, size)
        correlation = fft.irfft(
            np.einsum("xk,xk->k", spectrum.real, spectrum.real) + np.einsum("xk,xk->k", spectrum.imag, spectrum.imag),
            size,
        )[: max_lag + 1]
        square = np.r_[0.0, np.cumsum(np.einsum("xt,xt->t", part, part))]
        lags = np.arange(max_lag + 1)
        # the sum of squares over the first and over the last frames - lag frames
        total += square[frames - lags] + square[-1] - square[lags] - 2 * correlation
    values = total / (n * (frames - np.arange(max_lag + 1)))
    values[0] = 0.0
    return np.maximum(values, 0.0)


def diffusion_coefficient(
    positions: Any,
    interval: float | None = None,
    atoms: Any = None,
    *,
    boxes: Any = None,
    fit: tuple[float, float] | None = None,
    blocks: int = 5,
) -> Diffusion:
    r"""Self-diffusion coefficient from Einstein's relation, MSD = 6 D t.

    A line is fitted to the mean square displacement between the times `fit`; the error is the standard error over
    consecutive blocks of the trajectory. Finite boxes make D too small, in a cubic box of edge L by 2.837 kT / (6 pi
    eta L) (Yeh and Hummer, J. Phys. Chem. B 108, 15873 (2004), eq. 12), which is not corrected for.

    Parameters
    ----------
    positions, interval, atoms, boxes
        As for `msd`.
    fit : tuple of float, ps, optional
        Defaults to from a tenth to half of the length of a block. Leave out the ballistic beginning.
    blocks : int
        Number of blocks, at least 2.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import analysis
    >>> steps = np.random.default_rng(0).normal(0.0, 0.1, (2000, 50, 3))  # D = 0.1^2 / 2 nm^2 per interval
    >>> x = np.cumsum(steps, axis=0)
    >>> result = analysis.diffusion_coefficient(x, interval=1.0, fit=(1.0, 20.0))
    >>> bool(abs(result.value - 0.005) < 0.0005)
    True
    """
    where = "diffusion_coefficient"
    positions, boxes, times, _ = opened(positions, boxes)
    interval = as_interval(where, interval, times)
    positions = as_positions(where, positions)
    frames, n = positions.shape[:2]
    if blocks < 2 or frames // blocks < 4:
        raise ValueError(f"{where}: at least 2 blocks of 4 frames are needed, got {blocks} blocks in {frames} frames")
    x = positions[:, as_atoms(where, atoms, n)]
    if boxes is not None:
        x = unwrap(x, boxes)
    length = frames // blocks
    fit = (0.1 * length * interval, 0.5 * length * interval) if fit is None else (float(fit[0]), float(fit[1]))
    last = int(np.floor(fit[1] / interval + 1e-9))
    lags = np.arange(max(1, int(np.ceil(fit[0] / interval - 1e-9))), last + 1)
    if last >= length or len(lags) < 2:
        raise ValueError(
            f"{where}: fit must hold at least two frames and end within a block of {length * interval:g} "
            f"ps, got {fit} ps"
        )

    def line(values):
        return np.polyfit(lags * interval, values[lags], 1)

    whole = msd(x, interval)
    value, intercept = line(whole.value)
    each = [line(_msd_by_fft(x[k * length : (k + 1) * length], last))[0] for k in range(blocks)]
    return Diffusion(
        value / 6,
        float(np.std(each, ddof=1)) / 6 / np.sqrt(blocks),
        whole,
        (lags[0] * interval, lags[-1] * interval),
        intercept,
    )
