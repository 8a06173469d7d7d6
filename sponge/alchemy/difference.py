"""`FreeEnergyDifference`: what the samples of a row of states say about their free energies, by several methods."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core.extend import check, plots, short_repr

from .. import units
from ..analysis.mbar import Mbar, mbar
from ..analysis.statistics import mean
from .estimators import acceptance_ratio, integrated, is_determined
from .finite_size import FiniteSize
from .schedule import Schedule

__all__ = ["Convergence", "FreeEnergyDifference", "convergence", "free_energy_difference", "rounded"]

_OVERLAP = 0.03  # of neighbors; below it, estimates of their errors fail (Klimovich 2015, section "Overlap matrix")


@dataclass(frozen=True, eq=False, repr=False)
class FreeEnergyDifference:
    """See `free_energy_difference`.

    Attributes
    ----------
    value, error : float, kJ/mol
        Free energy of the last state less that of the first, by MBAR, and its standard error, which is infinite if
        no chain of overlapping states joins them.
    units : str
        "kJ/mol".
    temperature : float, K
    overlap : (k, k) array
        Chance that a sample of the row's state might as well be one of the column's.
    methods : dict of str to (float, float)
        Value and error by each method: "mbar", "bar", and with slopes "spline" and "trapezoid".
    profiles : dict of str to ((k,), (k,)) arrays
        Free energy of every state less that of the first and its error, by each method.
    counts : (k,) int
        Samples of each state.
    finite_size : FiniteSize or None
        Terms for a change of the net charge of a periodic box, which are not part of the value.
    """

    value: float
    error: float
    temperature: float
    overlap: np.ndarray
    methods: dict[str, tuple[float, float]]
    profiles: dict[str, tuple[np.ndarray, np.ndarray]]
    counts: np.ndarray
    finite_size: FiniteSize | None = None

    units = "kJ/mol"

    @property
    def corrected(self) -> float:
        """The value with the terms for the size of the box, in kJ/mol."""
        return self.value + (self.finite_size.value if self.finite_size else 0.0)

    def __str__(self):
        terms = f", {self.corrected:.1f} kJ/mol with finite-size terms" if self.finite_size else ""
        return rounded(self.value, self.error) + terms

    def __repr__(self):
        return f"<FreeEnergyDifference: {self}, {len(self.counts)} states, {self.counts.sum()} samples>"

    def plot(self, ax: Any = None, **line: Any) -> Any:
        """Draw the free energy along the states, one line with error bars for each method."""
        with plots.axes(ax, xlabel="state", ylabel="free energy [kJ/mol]") as ax:
            for name, (values, errors) in self.profiles.items():
                ax.errorbar(np.arange(len(values)), values, errors, **{"marker": ".", "label": name, **line})
            plots.whole_ticks(ax.xaxis)
            ax.legend()
        return ax

    def plot_overlap(self, ax: Any = None, **mesh: Any) -> Any:
        """Draw the overlap matrix in colors."""
        with plots.axes(ax, xlabel="state", ylabel="state", aspect="equal") as ax:
            states = np.arange(len(self.counts))
            plots.heatmap(ax, states, states, self.overlap, "overlap", **mesh)
            plots.whole_ticks(ax.xaxis)
            plots.whole_ticks(ax.yaxis)
        return ax


@short_repr
@dataclass(frozen=True, eq=False)
class Convergence:
    """See `convergence`.

    Attributes
    ----------
    fractions : (n,) array
        Parts of the data that were used.
    forward, backward : (n,) array, kJ/mol
        Free energies from the first and from the last part of each state's samples.
    forward_errors, backward_errors : (n,) array, kJ/mol
    """

    fractions: np.ndarray
    forward: np.ndarray
    forward_errors: np.ndarray
    backward: np.ndarray
    backward_errors: np.ndarray

    def plot(self, ax: Any = None, **line: Any) -> Any:
        """Draw both free energies against the part of the data, with bands of one standard error."""
        with plots.axes(ax, xlabel="part of the samples", ylabel="free energy [kJ/mol]") as ax:
            plots.band(ax, self.fractions, self.forward, self.forward_errors, **{"label": "forward", **line})
            plots.band(ax, self.fractions, self.backward, self.backward_errors, **{"label": "backward", **line})
            ax.legend()
        return ax


def free_energy_difference(
    samples: Any,
    temperature: float,
    *,
    schedule: Schedule | None = None,
    slopes: Sequence[Mapping[str, Any]] | None = None,
    visited: Any = None,
) -> FreeEnergyDifference:
    """Free energy between the first and the last of a row of states, from energies of samples in all states.

    MBAR gives the value; BAR of neighbors and thermodynamic integration, where slopes are given, are there to compare.

    Parameters
    ----------
    samples : sequence of k (m, k) arrays, kJ/mol
        Potential energies in all states (columns) at the samples of each state, in the order of time, up to an offset
        of each sample: as ``LambdaExchange.samples``, or ``States.energies`` of several runs. With `visited`, one
        array of records (n, k).
    temperature : float, K
    schedule : Schedule, optional
        Lambdas of the states; needed for `slopes`, and named in warnings.
    slopes : sequence of k dict of str to (m,) array, kJ/mol, optional
        dU/dlambda of the samples of each state by the names of the schedule, as ``LambdaExchange.derivatives``. With
        `visited`, one dict of str to (n,) array. They are not used if a state has no samples.
    visited : (n,) int, optional
        State of each record, for runs that walk through the states, such as those of `ExpandedEnsemble`.

    Returns
    -------
    FreeEnergyDifference

    Raises
    ------
    ValueError
        If shapes or names do not fit, an energy is not finite, `visited` is not a state, or a state has fewer than 10
        samples.
    TypeError
        If `slopes` are not dicts.

    Warns
    -----
    UserWarning
        If neighbors overlap by less than 0.03 [1]_; the message says between which lambdas a state is missing.

    References
    ----------
    .. [1] Klimovich, Shirts, Mobley, "Guidelines for the analysis of free energy calculations", J. Comput. Aided Mol.
       Des. 29 (2015) 397. doi:10.1007/s10822-015-9840-9

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import alchemy, units
    >>> rng, k = np.random.default_rng(0), np.array([500.0, 700.0, 1000.0])  # springs, kJ/mol/nm^2
    >>> x = [rng.normal(0, np.sqrt(units.GAS_CONSTANT * 300 / spring), 1000) for spring in k]
    >>> result = alchemy.free_energy_difference([0.5 * k * r[:, None] ** 2 for r in x], 300)
    >>> exact = 0.5 * units.GAS_CONSTANT * 300 * np.log(2)
    >>> bool(abs(result.value - exact) < 4 * result.error)
    True
    """
    thermal = units.GAS_CONSTANT * check.positive(temperature, "free_energy_difference: temperature", "K")
    samples, slopes = _samples(samples, slopes, visited, schedule)
    counts = np.array([len(s) for s in samples])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="mbar: states", category=UserWarning)  # said with lambdas below
        found = mbar(np.concatenate(samples).T / thermal, counts)
    _warn(found, schedule, counts)
    profiles = {"mbar": (found.free_energies * thermal, found.errors * thermal)}
    if np.all(counts > 0):
        profiles["bar"] = _pairwise(samples, temperature)
        if slopes is not None and schedule is not None:
            lambdas = dict(zip(schedule.names, schedule.lambdas.T))
            by_name = {name: [state[name] for state in slopes] for name in lambdas}
            for method in ("spline", "trapezoid"):
                values, variances = integrated(lambdas, by_name, method)
                profiles[method] = (values, np.sqrt(variances))
    methods = {name: (float(values[-1]), float(errors[-1])) for name, (values, errors) in profiles.items()}
    return FreeEnergyDifference(*methods["mbar"], float(temperature), found.overlap, methods, profiles, counts)


def convergence(samples: Any, temperature: float, *, fractions: int = 10) -> Convergence:
    """Free energies by MBAR from the first parts of the data and from the last parts.

    Where both stay within their errors of the value of all data from some half of the data on, the samples show no
    sign of a drift.

    Parameters
    ----------
    samples : sequence of k (m, k) arrays, kJ/mol
        As for `free_energy_difference`.
    temperature : float, K
    fractions : int
        Number of parts, of 1/fractions to all of the data.

    Returns
    -------
    Convergence

    Raises
    ------
    ValueError
        As `free_energy_difference`.

    References
    ----------
    Yang, Bitetti-Putzer, Karplus, "Free energy simulations: Use of reverse cumulative averaging to determine the
    equilibrated region and the time required for convergence", J. Chem. Phys. 120 (2004) 2618. doi:10.1063/1.1638996

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import alchemy
    >>> x = np.random.default_rng(0).normal(size=(2, 1000))
    >>> u = [0.5 * 2.494 * (r[:, None] - [0.0, 0.0]) ** 2 for r in x]
    >>> alchemy.convergence(u, 300, fractions=4).forward.round(12).tolist()
    [0.0, 0.0, 0.0, 0.0]
    """
    check.integer(fractions, "convergence: fractions", 2)
    thermal = units.GAS_CONSTANT * check.positive(temperature, "convergence: temperature", "K")
    samples, _ = _samples(samples, None, None, None)
    parts = np.arange(1, fractions + 1) / fractions
    ends: list[tuple[float, float]] = []
    for backward in (False, True):
        for part in parts:
            chosen = [s[len(s) - round(part * len(s)) :] if backward else s[: round(part * len(s))] for s in samples]
            found = mbar(np.concatenate(chosen).T / thermal, np.array([len(s) for s in chosen]))
            ends.append((found.free_energies[-1] * thermal, found.errors[-1] * thermal))
    columns = np.array(ends).reshape(2, fractions, 2)
    return Convergence(parts, columns[0, :, 0], columns[0, :, 1], columns[1, :, 0], columns[1, :, 1])


def _samples(samples, slopes, visited, schedule):
    where = "free_energy_difference"
    order = None
    if visited is not None:
        records, visited = np.asarray(samples, np.float64), np.asarray(visited)
        if records.ndim != 2 or visited.shape != (len(records),):
            raise ValueError(
                f"{where}: with visited, samples must have shape [records, states], got {records.shape} "
                f"and {visited.shape}"
            )
        if visited.dtype.kind not in "iu":
            raise ValueError(f"{where}: visited must be integers, the state of each record, got {visited.dtype}")
        if np.any(bad := (visited < 0) | (visited >= records.shape[1])):
            raise ValueError(
                f"{where}: visited must be states from 0 to {records.shape[1] - 1}, got "
                f"{visited[bad][0]} at record {np.argmax(bad)}"
            )
        order = [np.flatnonzero(visited == k) for k in range(records.shape[1])]
        samples = [records[own] for own in order]
    samples = [np.asarray(s, np.float64) for s in samples]
    k = len(samples)
    if k < 2 or schedule is not None and k != len(schedule):
        needed = "at least 2" if schedule is None else f"the {len(schedule)} of the schedule"
        raise ValueError(f"{where}: samples must be of {needed} states, got {k}")
    for state, s in enumerate(samples):
        if s.ndim != 2 or s.shape[1] != k:
            raise ValueError(f"{where}: samples of state {state} must have shape [samples, {k} states], got {s.shape}")
        if not np.isfinite(s).all():
            row, column = np.argwhere(~np.isfinite(s))[0]
            raise ValueError(
                f"{where}: energies must be finite, got {s[row, column]} in state {column} at sample "
                f"{row} of state {state}"
            )
    return samples, None if slopes is None else _slopes(slopes, [len(s) for s in samples], order, schedule)


def _slopes(slopes, counts, order, schedule):
    """Slopes of each state; with the `order` of records that belong to each, from those of all records."""
    where = "free_energy_difference"
    if schedule is None:
        raise ValueError(f"{where}: slopes need the schedule whose lambdas they belong to")
    if order is not None:
        given, sizes, places = [slopes], [sum(counts)], [""]
    elif isinstance(slopes, Mapping) or not isinstance(slopes, Sequence):
        raise TypeError(
            f"{where}: slopes must be a list of {len(counts)} dicts, one of each state, got {type(slopes).__name__}"
        )
    elif len(slopes) != len(counts):
        raise ValueError(f"{where}: slopes must be of {len(counts)} states, got {len(slopes)}")
    else:
        given, sizes, places = list(slopes), counts, [f" of state {k}" for k in range(len(counts))]
    for k, (own, size, place) in enumerate(zip(given, sizes, places)):
        if not isinstance(own, Mapping):
            raise TypeError(
                f"{where}: slopes{place} must be a dict of arrays by the names of the schedule, got "
                f"{type(own).__name__}"
            )
        if set(own) != set(schedule.names):
            raise ValueError(
                f"{where}: slopes{place} must have the names of the schedule, "
                f"{', '.join(schedule.names)}, got {', '.join(map(str, own)) or 'none'}"
            )
        given[k] = {name: np.asarray(values, np.float64) for name, values in own.items()}
        for name, values in given[k].items():
            if values.shape != (size,):
                raise ValueError(
                    f"{where}: slopes{place} must have one number for each of {size} samples, got "
                    f"{values.shape} of {name}"
                )
    return given if order is None else [{name: values[own] for name, values in given[0].items()} for own in order]


def _warn(found: Mbar, schedule, counts):
    """Warn of neighbors, among states that were sampled, that overlap too little."""
    sampled = np.flatnonzero(counts)
    for i, j in zip(sampled[:-1], sampled[1:]):
        shared = max(found.overlap[i, j], found.overlap[j, i])
        if shared < _OVERLAP:
            between = (
                ""
                if schedule is None
                else " at "
                + ", ".join(f"{name}={0.5 * (schedule[i][name] + schedule[j][name]):.4g}" for name in schedule.names)
            )
            warnings.warn(
                f"free_energy_difference: states {i} and {j} overlap by {shared:.2g}, less than "
                f"{_OVERLAP}: the error of their free energies is not to be trusted (add a state{between})",
                stacklevel=3,
            )


def _pairwise(samples, temperature):
    """Free energies of all states by BAR of neighbors, and their errors: those of neighboring differences are
    correlated, because they share the samples of a state.
    """
    thermal, k = units.GAS_CONSTANT * temperature, len(samples)
    steps, pulls = np.zeros(k), [np.zeros((2, len(s))) for s in samples]  # by the differences that begin and end there
    lost = np.zeros(k)  # infinite behind states that do not overlap
    for i, (a, b) in enumerate(zip(samples[:-1], samples[1:])):
        works = (a[:, i + 1] - a[:, i]) / thermal, (b[:, i] - b[:, i + 1]) / thermal
        steps[i + 1], (pulls[i][0], pulls[i + 1][1]), overlap = acceptance_ratio(*works)
        lost[i + 1 :] += 0.0 if is_determined(overlap, works) else math.inf
    variances = np.zeros(k)
    through = np.cumsum([0.0, *(_variance(pull.sum(0)) for pull in pulls[:-1])])
    for end in range(1, k):
        variances[end] = through[end] + _variance(pulls[end][1])
    return np.cumsum(steps) * thermal, np.sqrt(variances + lost) * thermal


def _variance(pulls):
    return (len(pulls) * mean(pulls).error) ** 2


def rounded(value: float, error: float) -> str:
    """Value and error in kJ/mol and kcal/mol, with two digits of the error."""
    kcal = units.kcal_per_mol
    return f"{_rounded(value, error)} kJ/mol ({_rounded(value / kcal, error / kcal)} kcal/mol)"


def _rounded(value, error):
    """Value and error with two digits of the error."""
    if not (math.isfinite(error) and error > 0):
        return f"{value:.6g} ± {error:.2g}"
    digits = max(0, 1 - math.floor(math.log10(error)))
    return f"{value:.{digits}f} ± {error:.{digits}f}"
