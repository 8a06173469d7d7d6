"""`SteeredMD`: a harmonic bias whose center moves, and the work that this takes."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import numpy as np

from triskele.core.extend import Task, check, kernel

from ..cv.compiled import Evaluation
from ..cv.variable import CollectiveVariable, as_variables
from ..engine.flags import STEP
from ..engine.program import Phase
from .history import Records
from .variable_bias import VariableBias, per_variable

__all__ = ["SteeredMD"]

_ROWS = 256  # of the buffer that the kernel fills before Python takes them over


@kernel(nogil=True)
def pull(chunk, values, center, k, period, slopes, bias):
    """Harmonic bias [] and its slopes [m]; periodic variables go the shortest way."""
    total = 0.0
    for c in range(values.size):
        away = values[c] - center[c]
        if period[c] > 0.0:
            away -= period[c] * np.floor(away / period[c] + 0.5)
        slopes[c] = k[c] * away
        total += 0.5 * k[c] * away * away
    bias[()] = total


Springs = namedtuple("Springs", "k period center before")  # before: where the center was in the last step


@kernel(nogil=True)
def advance(chunk, flags, ahead, every, marks, duration, start, way, values, springs, work, buffer, count):
    """Move the center, and add up what that does to the energy: at the state whose values are known.

    With `ahead` 0 these are of the beginning of the step, which the center had just been moved for; with 1 of its end,
    from which it moves on. marks [2] are the step it begins to move in, negative for the next one, and the last state
    that was seen: phases run again after a later one has failed and its cause has been mended.
    """
    if marks[0] < 0:
        marks[0] = flags[STEP]
    state = flags[STEP] + ahead
    if state == marks[1]:
        return
    marks[1] = state
    (k, period, center, before), m, done = springs, values.size, 0.0
    for c in range(m):
        old, new = before[c], center[c]
        after = start[c] + way[c] * min(max((flags[STEP] + 1 - marks[0]) / duration, 0.0), 1.0)
        if ahead:
            old, new = center[c], after
        a, b = values[c] - old, values[c] - new
        if period[c] > 0.0:
            a -= period[c] * np.floor(a / period[c] + 0.5)
            b -= period[c] * np.floor(b / period[c] + 0.5)
        done += 0.5 * k[c] * (b * b - a * a)
        before[c], center[c] = center[c], after
    work[0] += done
    if state % every == 0:
        row = buffer[count[0]]
        row[0], row[1 + 2 * m] = state, work[0]
        for c in range(m):
            row[1 + c], row[1 + m + c] = values[c], before[c] if ahead == 0 else center[c]
        count[0] += 1


class SteeredMD(VariableBias):
    r"""A harmonic bias whose center moves evenly from one value of the variables to another.

    .. math:: V(s, t) = \sum_c \frac{k_c}{2} (s_c - s_c^0(t))^2, \quad W = \int \frac{\partial V}{\partial t} dt

    After many runs from equilibrium at the start, `analysis.jarzynski` estimates the free energy from the works [1]_;
    with the works of runs in the other direction `alchemy.bar` does it better, by the theorem of Crooks [2]_. It is the
    free energy of the system with the bias at the end, less that with the bias at the start.

    Parameters
    ----------
    cvs : CollectiveVariable or sequence of CollectiveVariable
    start, end : float or sequence of float
        Where the center is before, and after it has moved; a periodic variable may take any way around.
    k : float or sequence of float
        Force constants in kJ/mol per square of the variable's unit.
    duration : int
        Steps over which the center moves. It stays at the end in steps after these.
    record : int, optional
        Steps between records. Defaults to a hundredth of `duration`.
    name : str
        Name under which the energy of the bias is reported.

    References
    ----------
    .. [1] Jarzynski, "Nonequilibrium equality for free energy differences", Phys. Rev. Lett. 78 (1997) 2690, equation
       2. doi:10.1103/PhysRevLett.78.2690
    .. [2] Crooks, "Entropy production fluctuation theorem and the nonequilibrium work relation for free energy
       differences", Phys. Rev. E 60 (1999) 2721. doi:10.1103/PhysRevE.60.2721

    Examples
    --------
    >>> from triskele import sponge
    >>> from triskele.sponge import cv
    >>> system = sponge.System(sponge.Topology.of_particles(2), [12.0, 12.0], positions=[[0, 0, 0], [0.15, 0, 0]])
    >>> bond = system.add(sponge.harmonic_bond([[0, 1]], k=1000.0, r0=0.15))
    >>> pull = sponge.SteeredMD(cv.distance(0, 1), start=0.15, end=0.2, k=2e4, duration=500)
    >>> sim = sponge.Simulation(system, sponge.LangevinMiddle(300, 5.0, 0.001), seed=1, sampling=[pull])
    >>> sim.run(500)
    >>> pull.work > 0
    True
    """

    def __init__(
        self,
        cvs: CollectiveVariable | Sequence[CollectiveVariable],
        start: Any,
        end: Any,
        k: Any,
        duration: int,
        record: int | None = None,
        name: str = "steered",
    ):
        where = type(self).__name__
        self.name, self.cvs = name, as_variables(where, cvs)
        m = len(self.cvs)
        self.start, self.end = (per_variable(where, key, given, m) for key, given in (("start", start), ("end", end)))
        self.k = per_variable(where, "k", k, m, positive=True)
        for variable, *ends in zip(self.cvs, self.start, self.end, strict=True):
            variable.check_values(where, "start and end", ends)
        self.duration = check.integer(duration, f"{where}: duration", 1)
        self.record = check.integer(max(self.duration // 100, 1) if record is None else record, f"{where}: record", 1)
        self._k, self._start = np.array(self.k), np.array(self.start)
        self._way = np.array(self.end) - self._start
        self._period = np.array([0.0 if v.period is None else v.period[1] - v.period[0] for v in self.cvs])
        self._marks, self._work = np.full(2, -1), np.zeros(1)
        self._center, self._before = self._start.copy(), self._start.copy()
        self._kept = Records(2 * m + 2, _ROWS)

    def plan(self, engine):
        found = Evaluation(engine, self.cvs, f"SteeredMD {self.name!r}")
        plan = found.plan(Task(pull, found.values, self._center, self._k, self._period, found.slopes, found.bias))
        plan.evaluation = found
        return plan

    def after_step(self, engine, integrator):
        values = engine.plans[self.name].evaluation.values
        task = Task(
            advance,
            engine.flags,
            int(integrator.forces_at == "new"),
            self.record,
            self._marks,
            self.duration,
            self._start,
            self._way,
            values,
            Springs(self._k, self._period, self._center, self._before),
            self._work,
            self._kept.buffer,
            self._kept.count,
        )
        return [
            Phase([task], name=self.name, redo=True),
            Phase(call=self._kept.take_over, every=self.record * (_ROWS - 1), name=f"{self.name}: records"),
        ]

    def restart(self) -> None:
        """Move the center back to the start, and forget the work and the records."""
        self._marks[:], self._work[0] = -1, 0.0
        self._center[:] = self._before[:] = self._start
        self._kept.become(np.zeros((0, self._kept.buffer.shape[1])))
        self._bias_changed()

    # -- results -------------------------------------------------------------------------------------------------------

    @property
    def work(self) -> float:
        """The work that moving the center has taken so far, in kJ/mol."""
        return float(self._work[0]) + self._last_move()

    def _last_move(self):
        """Work of the move to the present center, where the kernel adds it only when the next step finds forces."""
        engine = self._engine
        if engine is None or self._marks[1] == engine.flags[STEP] or np.array_equal(self._before, self._center):
            return 0.0
        box = engine.box if engine.periodic else None
        total = 0.0
        for variable, k, before, center in zip(self.cvs, self._k, self._before, self._center, strict=True):
            value = float(variable(engine.positions, box))
            total += 0.5 * k * (variable.difference(value, center) ** 2 - variable.difference(value, before) ** 2)
        return float(total)

    def _records(self):
        return self._kept.values

    @property
    def centers(self) -> np.ndarray:
        """Centers at the recorded states [m, d]."""
        return self._records()[:, 1 + len(self.cvs) : -1]

    @property
    def works(self) -> np.ndarray:
        """Works up to the recorded states [m], in kJ/mol."""
        return self._records()[:, -1]

    def state(self):
        """Centers, work and records."""
        return {
            "marks": self._marks.copy(),
            "center": self._center.copy(),
            "before": self._before.copy(),
            "work": self._work.copy(),
            "records": self._records(),
        }

    def restore(self, state):
        self._marks[:], self._center[:], self._before[:], self._work[:] = (
            state[key] for key in ("marks", "center", "before", "work")
        )
        self._kept.become(state["records"])
