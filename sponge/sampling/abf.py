"""`ABF`: adaptive biasing force on collective variables through an extended system, and the CZAR estimator."""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from triskele.core import random
from triskele.core.extend import Task, check, device, kernel, simd
from triskele.core.random import Fold

from .. import units
from ..cv.compiled import Evaluation, status_code
from ..cv.variable import CollectiveVariable, VariableError, as_variables
from ..engine.flags import STATUS, STEP
from ..engine.program import Phase
from ..integrators.normals import normals
from .history import Records
from .variable_bias import VariableBias, per_variable

__all__ = ["ABF"]

_ROWS = 1024  # of the buffer that the kernel fills before Python takes them over
_MOST_BINS = 1_000_000


@device
def _difference(x, period):
    """The shortest way around."""
    return x - period * math.floor(x / period + 0.5) if period > 0.0 else x


@device
def _bin_of(x, grid):
    """Number of the bin of each variable, in one number; -1 outside."""
    (low, width, bins, period), place = grid, 0
    for c in range(x.size):
        k = math.floor((x[c] - low[c]) / width[c])
        if period[c] > 0.0:
            k -= bins[c] * math.floor(k / bins[c])
        if not 0 <= k < bins[c]:
            return -1
        place = place * bins[c] + int(k)
    return place


@kernel(nogil=True)
def couple(chunk, values, center, k, period, marks, slopes, bias):
    """Energy of the springs between variables and their extended ones, and its slopes by the former."""
    if marks[0] == 0:  # the extended variables begin where the variables are in the first step
        center[:] = values
    total = 0.0
    for c in range(values.size):
        away = _difference(values[c] - center[c], period[c])
        slopes[c] = k[c] * away
        total += 0.5 * k[c] * away * away
    bias[()] = total


Grid = namedtuple("Grid", "low width bins period")  # of each variable
# spring constants and masses of the extended variables, time step, decay of velocities over it, RT, places, velocities
Extended = namedtuple("Extended", "k mass time decay thermal center speed")
# counts, forces by bin of the extended variables; visits, ways by bin of the variables; `full` samples count in full
Sums = namedtuple("Sums", "full active counts forces visits ways")


@kernel(nogil=True)
def advance(chunk, flags, code, ahead, every, marks, values, grid, extended, key, numbers, sums, buffer, count):
    """Count the state, and move the extended variables over one step: kick, half a drift, thermostat, half a drift.

    The status is set to `code` when the variables begin outside of their range.
    """
    (low, width, bins, period), (k, mass, time, decay, thermal, center, speed) = grid, extended
    full, active, counts, forces, visits, ways = sums
    state = flags[STEP] + ahead
    if state == marks[1]:  # the phases of this step run again, since a later one had failed
        return
    m = values.size
    place, seen = _bin_of(center, grid), _bin_of(values, grid)
    if marks[0] == 0 and seen < 0:
        flags[STATUS] = code
        return
    marks[0], marks[1] = 1, state
    if seen >= 0:
        visits[seen] += 1
        for c in range(m):
            ways[seen, c] += _difference(center[c] - values[c], period[c])
    if place >= 0 and active[0]:
        counts[place] += 1
        for c in range(m):
            forces[place, c] += k[c] * _difference(values[c] - center[c], period[c])
    if state % every == 0:
        row = buffer[count[0]]
        row[0] = state
        for c in range(m):
            row[1 + c], row[1 + m + c] = values[c], center[c]
        count[0] += 1
    lower, _ = normals(0, key[0], key[1], np.uint64(state), 0)
    simd.store(numbers, 0, lower[0])
    for c in range(m):
        force = k[c] * _difference(values[c] - center[c], period[c])
        if place >= 0 and counts[place] > 0:
            force -= forces[place, c] / counts[place] * min(counts[place] / full, 1.0)
        v = speed[c] + time * force / mass[c]
        new = decay * v + math.sqrt((1.0 - decay * decay) * thermal / mass[c]) * numbers[c]
        x = center[c] + 0.5 * time * (v + new)
        high = low[c] + bins[c] * width[c]
        if period[c] > 0.0:
            x -= period[c] * math.floor((x - low[c]) / period[c])
        elif x < low[c] or x > high:
            x, new = min(max((2 * low[c] if x < low[c] else 2 * high) - x, low[c]), high), -new
        center[c], speed[c] = x, new


class ABF(VariableBias):
    r"""Adaptive biasing force on one or two collective variables through an extended system (eABF) [1]_.

    Each variable is tied by a spring to a fictitious particle, which moves by Langevin dynamics of its own, against the
    running mean of the force that the spring has put on it where it is. What is left to it is free diffusion over its
    range. The free energy of the variables themselves comes from the corrected z-averaged restraint (CZAR) [2]_,

    .. math:: \frac{\partial A}{\partial z} = -RT \frac{\partial \ln \rho(z)}{\partial z} + k (\langle \lambda
              \rangle_z - z)

    with the biased density rho of the variables and the mean of the fictitious ones at each value, however soft the
    springs are.

    Parameters
    ----------
    cvs : CollectiveVariable or sequence of one or two
    grid : int, tuple or sequence of these
        Number of bins of a periodic variable, or (lowest, highest, bins); for each variable. Fictitious particles are
        reflected at the ends of the range, in which the variables must begin.
    sigma : float or sequence of float, optional
        Spread of the variable about its fictitious particle, in its unit: the force constant is RT/sigma^2. Defaults to
        the width of a bin.
    full_samples : int
        The mean force of a bin acts in full from this number of states on, and by their share of it before.
    period : float, ps
        Period of the fictitious particles on their springs, which gives them their mass.
    friction : float, 1/ps
        Friction coefficient of the fictitious particles.
    temperature : float, K, optional
        Defaults to the integrator's temperature.
    record : int
        Steps between records.
    name : str
        Name under which the energy of the springs is reported.

    Attributes
    ----------
    grid : list of tuple
        Lowest value, highest value and number of bins of each variable.

    Raises
    ------
    VariableError
        From a run, when a variable begins outside of the grid, or it or its gradient is not defined.

    References
    ----------
    .. [1] Fu, Shao, Chipot, Cai, "Extended adaptive biasing force algorithm. An on-the-fly implementation for accurate
       free-energy calculations", J. Chem. Theory Comput. 12 (2016) 3506. doi:10.1021/acs.jctc.6b00447
    .. [2] Lesage, Lelièvre, Stoltz, Hénin, "Smoothed biasing forces yield unbiased free energies with the
       extended-system adaptive biasing force method", J. Phys. Chem. B 121 (2017) 3676, equation 15.
       doi:10.1021/acs.jpcb.6b10055

    Examples
    --------
    >>> from triskele.sponge import ABF, cv
    >>> ABF([cv.torsion(4, 6, 8, 14), cv.torsion(6, 8, 14, 16)], grid=36).bins
    (36, 36)
    """

    def __init__(
        self,
        cvs: CollectiveVariable | Sequence[CollectiveVariable],
        grid: Any,
        sigma: Any = None,
        full_samples: int = 500,
        period: float = 0.2,
        friction: float = 1.0,
        temperature: float | None = None,
        record: int = 100,
        name: str = "abf",
    ):
        where = type(self).__name__
        self.name, self.cvs = name, as_variables(where, cvs)
        m = len(self.cvs)
        if m > 2:
            raise ValueError(f"{where}: there must be one or two collective variables, got {m}")
        self.grid = _grid(where, self.cvs, grid)
        low, high, bins = (tuple(ends) for ends in zip(*self.grid, strict=True))
        self._low, self._width, self.bins = np.array(low), np.subtract(high, low) / bins, bins
        self.sigma = tuple(per_variable(where, "sigma", self._width if sigma is None else sigma, m, positive=True))
        self.full_samples = check.integer(full_samples, f"{where}: full_samples", 1)
        self.record = check.integer(record, f"{where}: record", 1)
        for key, value, unit in (("period", period, "ps"), ("friction", friction, "1/ps")):
            check.positive(value, f"{where}: {key}", unit)
        self.period, self.friction = float(period), float(friction)
        if temperature is not None:
            check.positive(temperature, f"{where}: temperature", "K")
        self.temperature = temperature
        self._period = np.array([0.0 if v.period is None else v.period[1] - v.period[0] for v in self.cvs])
        self._k, self._marks, self._active = np.zeros(m), np.array([0, -1]), np.ones(1, np.int64)
        self._center, self._speed = np.zeros(m), np.zeros(m)
        total = math.prod(self.bins)
        self._counts, self._visits = np.zeros(total, np.int64), np.zeros(total, np.int64)
        self._forces, self._ways = np.zeros((total, m)), np.zeros((total, m))
        self._kept = Records(2 * m + 1, _ROWS)
        self._thermal = math.nan

    # -- in a simulation -----------------------------------------------------------------------------------------------

    def check(self, system, integrator):
        super().check(system, integrator)
        temperature = self.temperature or getattr(integrator, "temperature", None)
        if temperature is None:
            raise ValueError(f"ABF {self.name!r}: temperature must be given, as {type(integrator).__name__} has none")
        if not integrator.timestep < self.period / 10:
            raise ValueError(
                f"ABF {self.name!r}: period must be above ten time steps of {integrator.timestep:g} ps, "
                f"got {self.period:g} ps"
            )
        self._thermal = units.GAS_CONSTANT * temperature
        self._k[:] = self._thermal / np.square(self.sigma)

    def plan(self, engine):
        found = Evaluation(engine, self.cvs, f"ABF {self.name!r}")
        plan = found.plan(
            Task(couple, found.values, self._center, self._k, self._period, self._marks, found.slopes, found.bias)
        )
        plan.evaluation = found
        return plan

    def after_step(self, engine, integrator):
        values, time = engine.plans[self.name].evaluation.values, float(integrator.timestep)
        number = engine.sampling.index(self)
        key = np.asarray(random.fold_in(random.fold_in(random.key(engine.seed), Fold.EXTENDED), number))
        mass = self._k * (self.period / (2 * math.pi)) ** 2
        ahead, decay = int(integrator.forces_at == "new"), math.exp(-self.friction * time)
        code = status_code(f"ABF {self.name!r}: outside")
        engine.on_status(code, self._outside)
        grid = Grid(self._low, self._width, np.array(self.bins), self._period)
        extended = Extended(self._k, mass, time, decay, self._thermal, self._center, self._speed)
        sums = Sums(self.full_samples, self._active, self._counts, self._forces, self._visits, self._ways)
        task = Task(
            advance,
            engine.flags,
            code,
            ahead,
            self.record,
            self._marks,
            values,
            grid,
            extended,
            key,
            np.zeros(8),
            sums,
            self._kept.buffer,
            self._kept.count,
        )
        return [
            Phase([task], name=self.name, redo=True),
            Phase(call=self._kept.take_over, every=self.record * (_ROWS - 1), name=f"{self.name}: records"),
        ]

    def _outside(self, engine) -> bool:
        found = engine.plans[self.name].evaluation
        for variable, value, (low, high, _) in zip(self.cvs, found.values, self.grid, strict=True):
            if variable.period is None and not low <= value < high:
                raise VariableError(
                    f"ABF {self.name!r}: {variable.name} must begin on the grid from {low:g} to "
                    f"{high:g}, got {value:.6g} {found.at_step()} (move it there by SteeredMD, or "
                    "widen `grid`)"
                )
        raise VariableError(f"ABF {self.name!r}: a variable begins outside of the grid {found.at_step()}")

    def freeze(self, frozen: bool = True) -> ABF:
        """Keep the biasing force as it is, or adapt it again; counting for the free energy goes on."""
        self._active[0] = not frozen
        return self

    # -- results -------------------------------------------------------------------------------------------------------

    def _records(self):
        return self._kept.values

    @property
    def extended(self) -> np.ndarray:
        """The fictitious particles in the recorded states [m, d]."""
        return self._records()[:, 1 + len(self.cvs) :]

    @property
    def centers(self) -> tuple[np.ndarray, ...]:
        """Middles of the bins of each variable."""
        return tuple(
            low + width * (np.arange(n) + 0.5) for low, width, n in zip(self._low, self._width, self.bins, strict=True)
        )

    @property
    def counts(self) -> np.ndarray:
        """States of the variables in each bin."""
        return self._visits.reshape(self.bins).copy()

    def free_energy(self, least: int = 1) -> np.ndarray:
        """Free energy of the variables by CZAR, in kJ/mol above its lowest value; NaN in bins that were not visited.

        Differences between neighboring bins are those of -RT ln(counts) and of the mean force of the springs; the
        surface is the one that fits all of them best, with the weights of the counts, and is periodic where variables
        are.

        Parameters
        ----------
        least : int
            Bins with fewer states are left out.

        Returns
        -------
        array
            One value for each bin, in the shape `bins`. Parts that no visited bins connect are put to 0 each for
            itself.

        Raises
        ------
        ValueError
            If no bin has enough states.
        """
        from scipy.sparse import coo_matrix
        from scipy.sparse.csgraph import connected_components
        from scipy.sparse.linalg import lsqr

        check.integer(least, "ABF.free_energy: least", 1)
        n = self._visits.reshape(self.bins)
        seen = n >= least
        if not seen.any():
            raise ValueError(f"ABF.free_energy: a bin must have {least} states at least, got {n.max()} at most")
        filled = np.maximum(n, 1)
        log, slope = np.log(filled), self._k * self._ways / filled.reshape(-1, 1)
        numbers, pairs, steps, weights = np.arange(n.size).reshape(self.bins), [], [], []
        for c, variable in enumerate(self.cvs):
            mean = slope[:, c].reshape(self.bins)
            after = [np.roll(a, -1, axis=c) for a in (numbers, seen, log, mean, filled)]
            use = seen & after[1]
            if variable.period is None:
                use[(slice(None),) * c + (-1,)] = False
            step = -self._thermal * (after[2] - log) + 0.5 * self._width[c] * (mean + after[3])
            weight = np.sqrt(filled * after[4] / (filled + after[4]))
            pairs.append(np.stack([numbers[use], after[0][use]], 1))
            steps.append(step[use])
            weights.append(weight[use])
        (i, j), step, weight = np.concatenate(pairs).T, np.concatenate(steps), np.concatenate(weights)
        rows = np.arange(len(i))
        shape = (len(i), n.size)
        system = coo_matrix((np.r_[weight, -weight], (np.r_[rows, rows], np.r_[j, i])), shape).tocsr()
        surface = (
            lsqr(system, weight * step, atol=1e-14, btol=1e-14, iter_lim=20 * n.size)[0] if len(i) else np.zeros(n.size)
        )
        _, part = connected_components(coo_matrix((np.ones(len(i)), (i, j)), (n.size, n.size)), directed=False)
        lowest = np.full(part.max() + 1, np.inf)
        visited = seen.reshape(-1)
        np.minimum.at(lowest, part[visited], surface[visited])
        return np.where(visited, surface - lowest[part], np.nan).reshape(self.bins)

    # -- restarts ------------------------------------------------------------------------------------------------------

    def state(self):
        """Fictitious particles, sums and records."""
        return {key: getattr(self, f"_{key}").copy() for key in _STATE} | {"records": self._records()}

    def restore(self, state):
        for key in _STATE:
            getattr(self, f"_{key}")[:] = state[key]
        self._kept.become(state["records"])


_STATE = ("marks", "active", "center", "speed", "counts", "forces", "visits", "ways")


def _grid(where, cvs, given):
    """Lowest value, highest value and number of bins of each variable."""
    if not isinstance(given, (Integral, Iterable)):
        raise TypeError(f"{where}: grid must be a number of bins or have an entry for each variable, got {given!r}")
    entries: list[Any] = [given] * len(cvs) if isinstance(given, Integral) else list(given)
    if len(cvs) == 1 and len(entries) == 3 and all(np.isscalar(e) for e in entries):
        entries = [tuple(entries)]
    if len(entries) != len(cvs):
        raise ValueError(f"{where}: grid must have an entry for each of {len(cvs)} variables, got {given!r}")
    found = []
    for variable, entry in zip(cvs, entries, strict=True):
        if np.isscalar(entry):
            if variable.period is None:
                raise ValueError(f"{where}: grid must say from where to where {variable.name} goes, got {entry!r}")
            entry = (*variable.period, entry)
        if len(entry) != 3 or not -np.inf < entry[0] < entry[1] < np.inf:
            raise ValueError(f"{where}: grid of {variable.name} must be (lowest, highest, bins), got {entry!r}")
        if variable.period is not None and not np.allclose(entry[:2], variable.period, rtol=1e-12):
            raise ValueError(
                f"{where}: grid of {variable.name}, which is periodic, must be its period "
                f"{variable.period}, got {entry[:2]}"
            )
        bins = check.integer(entry[2], f"{where}: bins of {variable.name}", 2)
        found.append((float(entry[0]), float(entry[1]), bins))
    if math.prod(bins for *_, bins in found) > _MOST_BINS:
        raise ValueError(
            f"{where}: the grid must have at most {_MOST_BINS} bins, got {' x '.join(str(bins) for *_, bins in found)}"
        )
    return found
