"""`Metadynamics`: a bias on collective variables that grows where the run has been."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from triskele.core.extend import Task, check

from .. import units
from ..cv.compiled import Evaluation, status_code
from ..cv.variable import CollectiveVariable, VariableError, as_variables
from ..engine.flags import STEP
from ..engine.program import Phase
from . import metadynamics_kernels as kernels
from .free_energy_estimate import FreeEnergyEstimate
from .hills_file import as_paths, read_hills, read_table
from .history import find_states
from .metadynamics_grid import add_hills, intervals_of, scratch_of
from .variable_bias import VariableBias, per_variable

__all__ = ["Metadynamics"]

_ROWS = 1024  # of the table that kernels fill: when it is full, Python puts it away


class Metadynamics(VariableBias):
    r"""Metadynamics, plain [1]_ or well-tempered [2]_: Gaussian hills, put where the run has been.

    .. math:: V(s, t) = \sum_{t' < t} h\, e^{-V(s_{t'}, t') / R \Delta T}
              \exp\Big(-\sum_c \frac{(s_c - s_c(t'))^2}{2\sigma_c^2}\Big),
              \quad \Delta T = (\gamma - 1) T

    with the bias factor gamma; plain metadynamics has no damping of heights. The hills are kept on a grid, between
    whose nodes the bias is interpolated by cubic polynomials in each variable, and forces are the slopes of just these.
    Hills on periodic variables count with all their images. Everything happens inside the step loop.

    Parameters
    ----------
    cvs : CollectiveVariable or sequence of one to three
    sigma : float or sequence of float
        Widths of the hills, in the variables' units.
    height : float
        Height of the first hill in kJ/mol.
    every : int
        Steps between hills. The first is added at state `every`, after its forces have been computed.
    bias_factor : float, optional
        The gamma above, > 1; without it hills keep their height.
    temperature : float, K, optional
        Defaults to the integrator's temperature.
    grid : sequence, optional
        For each variable (lowest, highest), or (lowest, highest, intervals); a periodic one may have None, or the
        number of intervals alone. For one variable the outer sequence can be left out. A fifth of sigma is taken where
        the number is left out (a third with three variables), and more than half of it is refused.
    record : int, optional
        Steps between records of variables and bias, a divisor of `every`. Defaults to every hill.
    name : str
        Name under which the energy of the bias is reported.
    hills : path or sequence of paths, optional
        Files of the hills to begin with, as `Hills` or PLUMED's METAD write them; the fields have the names of the
        variables. Height, widths, bias factor and pace of this run may be others.

    Attributes
    ----------
    axes : list of array
        Values of each variable at the nodes of the grid.
    hills : (m, 2 d + 2) array or None
        The hills that the bias began with: centers, widths, the part of the height at which a hill ends (0 for whole
        ones), and heights in kJ/mol.

    Raises
    ------
    FileFormatError
        If a file holds no hills of these variables, or some outside of the grid; the message names file and line.
    VariableError
        From a run, when a variable leaves the grid, or it or its gradient is not defined.

    References
    ----------
    .. [1] Laio, Parrinello, "Escaping free-energy minima", PNAS 99 (2002) 12562. doi:10.1073/pnas.202427399
    .. [2] Barducci, Bussi, Parrinello, "Well-tempered metadynamics", Phys. Rev. Lett. 100 (2008) 020603, equations 2
       and 3. doi:10.1103/PhysRevLett.100.020603
    .. [3] Tiwary, Parrinello, "A time-independent free energy estimator for metadynamics", J. Phys. Chem. B 119 (2015)
       736, equations 5 and 12. doi:10.1021/jp504920s

    Examples
    --------
    >>> from triskele.sponge import Metadynamics
    >>> from triskele.sponge import cv
    >>> phi, psi = cv.torsion(4, 6, 8, 14), cv.torsion(6, 8, 14, 16)
    >>> bias = Metadynamics([phi, psi], sigma=0.35, height=1.2, every=500, bias_factor=8)
    >>> [len(axis) for axis in bias.axes]
    [90, 90]
    """

    hills: np.ndarray | None = None  # an attribute of the object only where given: older checkpoints have none

    def __init__(
        self,
        cvs: CollectiveVariable | Sequence[CollectiveVariable],
        sigma: Any,
        height: float,
        every: int,
        bias_factor: float | None = None,
        temperature: float | None = None,
        grid: Any = None,
        record: int | None = None,
        name: str = "metadynamics",
        hills: Any = None,
    ):
        where = type(self).__name__
        self.name = name
        self.cvs = as_variables(where, cvs)
        d = len(self.cvs)
        if d > 3:
            raise ValueError(f"{where}: at most 3 collective variables fit a grid, got {d}")
        self.sigma = per_variable(where, "sigma", sigma, d, positive=True)
        check.positive(height, f"{where}: height", "kJ/mol")
        record = every if record is None else record
        for key, value in (("every", every), ("record", record)):
            check.integer(value, f"{where}: {key}", 1)
        if every % record:
            raise ValueError(f"{where}: record must divide the {every} steps between hills, got {record}")
        if bias_factor is not None and not 1 < bias_factor < np.inf:
            raise ValueError(f"{where}: bias_factor must be > 1, got {bias_factor!r} (None keeps the height of hills)")
        if temperature is not None:
            check.positive(temperature, f"{where}: temperature", "K")
        self.height, self.every, self.record = float(height), int(every), int(record)
        self.bias_factor, self.temperature = bias_factor, temperature
        self.grid = intervals_of(where, self.cvs, self.sigma, grid)

        nodes = [n if v.period else n + 1 for v, (_, _, n) in zip(self.cvs, self.grid)]
        self._shape = np.array([[n, v.period is not None] for n, v in zip(nodes, self.cvs)], np.int64)
        self._range = np.array([[low, (high - low) / n, s] for (low, high, n), s in zip(self.grid, self.sigma)])
        self._grid = np.zeros((2**d, math.prod(nodes)))
        self._scratch = scratch_of(self._range)
        self._surface = kernels.Grid(self._shape, self._range, self._grid)
        self._active = np.ones(1, np.int64)
        self._now = np.zeros(1)
        self._options = np.array([self.height, 0.0, 1.0, 0.0])
        self._common: np.ndarray | None = None  # the grid that all walkers agreed on last
        self._past = [] if hills is None else as_paths(hills)
        if self._past:
            self.hills = np.concatenate([read_hills(path).on(self.cvs, self.grid) for path in self._past])
            add_hills(self.hills, self._surface)
            self._common = self._grid.copy()
        self._temperature: float | None = None
        self._set_temperature(temperature)
        self._table, self._counts = np.zeros((_ROWS, d + 4)), np.zeros(2, np.int64)
        self._full: list[np.ndarray] = []  # filled tables, which no longer change
        self._shared = 0  # rows whose hills are in it

    def _set_temperature(self, temperature):
        self._temperature = temperature
        if temperature is None:
            return
        beta = 1 / (units.GAS_CONSTANT * temperature)
        damping = 0.0 if self.bias_factor is None else 1 / (self.bias_factor - 1)
        self._options[1:] = beta * damping, beta * (1 + damping), beta * damping
        if self.hills is not None:
            self._now[0] = kernels.constant(self._grid[0], *self._options[2:])

    @classmethod
    def from_files(cls, hills: Any, states: Any, temperature: float, grid: Any = None, past: Any = ()) -> Metadynamics:
        """Return the bias of a run that is over, with its recorded states, for `weights` and `free_energy`.

        The hills are added again in the order of their times, so that each state gets the bias and the constant c(t) of
        the hills before it. The bias is frozen and takes no part in simulations, which need the variables themselves.

        Parameters
        ----------
        hills : path or sequence of paths
            The hills that the run has added, as `Hills` or PLUMED's METAD write them. Several files are those of
            walkers.
        states : path
            The variables along the run, under the names that they have in `hills`: a file of `Variables`, or PLUMED's
            COLVAR. States have the numbers of its column ``step``; without it, they are counted from 0.
        temperature : float, K
        grid : sequence, optional
            As of `Metadynamics`. By default, a variable without a period goes three widths beyond all hills and states.
        past : path or sequence of paths, optional
            Files of the hills that the run began with.

        Raises
        ------
        FileFormatError
            If the files are damaged or do not belong together; the message names file and line.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from triskele import sponge
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> hills, states = folder / "HILLS", folder / "COLVAR"
        >>> fields = "#! FIELDS time d sigma_d height biasf"
        >>> _ = hills.write_text("\\n".join([fields, "1 0.30 0.05 1.2 10", "2 0.40 0.05 1.1 10", ""]))
        >>> _ = states.write_text("\\n".join(["#! FIELDS time d", "1 0.30", "2 0.40", "3 0.35", ""]))
        >>> old = sponge.Metadynamics.from_files(hills, states, temperature=300)
        >>> old.weights().round(2).tolist()
        [0.32, 0.29, 0.4]
        """
        early, own = ([read_hills(path) for path in as_paths(given)] for given in (past, hills))
        names, files, table = own[0].names, [*early, *own], read_table(states)
        points, together = table.columns(names), np.concatenate([file.ordered(names) for file in files])
        d, gamma = len(names), own[0].factors[0]
        for file in own:
            file.table.refuse(file.factors != gamma, f"biasf must stay {gamma:g}", file.factors)
        cvs = [CollectiveVariable(n, np.zeros(1, np.int64), _unknown, p) for n, p in zip(names, own[0].periods)]
        if grid is None:
            found, margin = np.concatenate([points, together[:, :d]]), 3 * together[:, d : 2 * d].max(axis=0)
            ends = np.transpose([found.min(axis=0) - margin, found.max(axis=0) + margin]).tolist()
            grid = [None if v.period else end for v, end in zip(cvs, ends)]
        sigma, height = together[:, d : 2 * d].min(axis=0), together[:, -1].max() or 1.0
        factor = None if gamma == np.inf else gamma
        bias = cls(cvs, sigma, height, 1, factor, temperature, grid).freeze()
        together = np.concatenate([file.on(cvs, bias.grid) for file in files])
        for k, (variable, (low, high, _)) in enumerate(zip(cvs, bias.grid)):
            table.check_values(names[k], points[:, k], variable, low, high)
        times = [*(np.full(len(file.hills), -np.inf) for file in early), *(file.table.times() for file in own)]
        cls._replay(bias, together, np.concatenate(times), points, table)
        return bias

    def _replay(self, hills, times, points, table):
        """Add hills [m, 2 d + 2] in the order of `times`, and make records of the states at `points`."""
        order = np.argsort(times, kind="stable")
        hills = hills[order]
        numbers = table.columns(["step"])[:, 0] if "step" in table.fields else np.arange(len(points))
        # a hill counts from the state after it; times have 6 decimals
        counts, starts = np.unique(np.searchsorted(times[order], table.times() - 1e-5), return_index=True)
        done, parts = 0, []
        for count, some in zip(counts.tolist(), np.split(points, starts[1:])):
            add_hills(hills[done:count], self._surface)
            done, now = count, kernels.constant(self._grid[0], *self._options[2:])
            parts.append(np.column_stack([some, self.bias(*some.T), np.full(len(some), now)]))
        add_hills(hills[done:], self._surface)
        self._full = [np.column_stack([numbers, np.concatenate(parts), np.zeros(len(points))])]

    # -- in a simulation -----------------------------------------------------------------------------------------------

    def check(self, system, integrator):
        super().check(system, integrator)
        self._set_temperature(self._bath(self.temperature, self._temperature, integrator))
        if self.bias_factor is not None and self._temperature is None:
            raise ValueError(
                f"Metadynamics {self.name!r}: with a bias factor, temperature must be given, as "
                f"{type(integrator).__name__} has none"
            )

    def plan(self, engine):
        where = f"Metadynamics {self.name!r}"
        found = Evaluation(engine, self.cvs, where)
        code = status_code(f"{where}: outside")

        def outside(engine) -> bool:
            for variable, value, (low, high, _) in zip(self.cvs, found.values, self.grid):
                if variable.period is None and not low <= value <= high:
                    raise VariableError(
                        f"{where}: {variable.name} must stay on the grid from {low:g} to {high:g}, got "
                        f"{value:.6g} "
                        f"{found.at_step()} (widen `grid`, or add a wall with BiasPotential)"
                    )
            raise VariableError(f"{where}: a variable has left the grid {found.at_step()}")

        engine.on_status(code, outside)
        task = Task(
            kernels.bias_of, engine.flags, code, self._surface, found.values, *_scratch(), found.slopes, found.bias
        )
        plan = found.plan(task)
        plan.evaluation = found
        return plan

    def after_step(self, engine, integrator):
        found = engine.plans[self.name].evaluation
        code = status_code(f"Metadynamics {self.name!r}: full")
        engine.on_status(code, self._put_away)
        task = Task(
            kernels.deposit,
            engine.flags,
            code,
            int(integrator.forces_at == "new"),
            self.record,
            self.every,
            self._active,
            found.values,
            found.bias,
            self._options,
            self._surface,
            self._now,
            self._table,
            self._counts,
            self._scratch,
        )
        return [Phase([task], name=self.name, redo=True)]

    def _put_away(self, engine) -> bool:
        self._full.append(self._table.copy())
        self._counts[0] = 0
        return False

    @property
    def _movable(self):  # type: ignore[override]
        return not self._active[0]

    def claim(self, engine):
        if self._engine is not None:  # states are numbered from 0 again
            self._full, self._counts[:], self._shared, self._common = [], 0, 0, self._grid.copy()
        super().claim(engine)

    def freeze(self, frozen: bool = True) -> Metadynamics:
        """Stop adding hills (recording continues), or start again.

        A frozen bias may be given to another simulation of the same temperature. The records of that one then take the
        place of those before, and the first simulation cannot run on.
        """
        self._active[0] = not frozen
        return self

    # -- results -------------------------------------------------------------------------------------------------------

    @property
    def axes(self) -> list[np.ndarray]:
        """Values of each variable at the nodes of the grid."""
        return [low + h * np.arange(n) for (n, _), (low, h, _) in zip(self._shape.tolist(), self._range.tolist())]

    @property
    def heights(self) -> np.ndarray:
        """Heights of the hills added at the recorded states [m] in kJ/mol, 0 where none was."""
        return self._records()[:, -1]

    def _records(self, first=0):
        whole = min(first // _ROWS, len(self._full))
        return np.concatenate([*self._full[whole:], self._table[: self._counts[0]]])[first - whole * _ROWS :]

    def hills_from(self, first: int) -> tuple[int, np.ndarray]:
        """Return the number of records, and step, variables and height of hills from record `first` on [k, d + 2]."""
        rows = self._records(first)
        return first + len(rows), np.delete(rows[rows[:, -1] > 0], (-3, -2), axis=1)

    def began_with(self, path: str) -> bool:
        """Return True if a file is one of those that the hills before the run came from."""
        return os.path.realpath(path) in map(os.path.realpath, self._past)

    def bias(self, *values: Any) -> np.ndarray:
        """The bias in kJ/mol.

        Parameters
        ----------
        *values : array
            Values of each variable; their shapes broadcast.

        Raises
        ------
        ValueError
            If some lie outside of the grid.
        """
        d = len(self.cvs)
        if len(values) != d:
            raise ValueError(f"Metadynamics.bias: values of {d} variables are needed, got {len(values)}")
        points = np.stack(np.broadcast_arrays(*(np.asarray(v, np.float64) for v in values)), axis=-1)
        result = np.zeros(points.shape[:-1])
        kernels.bias_at(
            np.ascontiguousarray(points.reshape(-1, d)), self._surface, *_scratch(), np.zeros(d), result.reshape(-1)
        )
        if np.isnan(result).any():
            raise ValueError(
                f"Metadynamics.bias: values must lie on the grid, got {points[np.isnan(result)][0].tolist()}"
            )
        return result

    def weights(self, steps: Any = None) -> np.ndarray:
        """Weights of states, of sum 1, that take them to the unbiased ensemble: the exponentials of `log_weights`.

        Those of the first crossings, when the bias changes from one hill to the next, are the worst.

        Parameters
        ----------
        steps : (m,) int, optional
            Numbers of states, such as those of a reporter. Defaults to all that were recorded.

        Returns
        -------
        (m,) array
        """
        log = self.log_weights(steps)
        weights = np.exp(log - log.max())
        return weights / weights.sum()

    def log_weights(self, steps: Any = None) -> np.ndarray:
        """Logarithms of weights that take recorded states to the unbiased ensemble, (V(s, t) - c(t)) / RT.

        The constant c(t) of Tiwary and Parrinello makes weights of different times, and of walkers that share a bias,
        comparable: those of several walkers are put together first, and then brought to a sum of 1.

        Parameters
        ----------
        steps : (m,) int, optional
            Numbers of states, such as those of a reporter. Defaults to all that were recorded.

        Returns
        -------
        (m,) array
        """
        where = "Metadynamics.weights"
        rows = self._records()
        if steps is not None:
            here = -1 if self._engine is None else int(self._engine.flags[STEP])
            places = find_states(where, self.steps, steps, self.record, here)
            if np.any(places == len(rows)):
                rows = np.vstack([rows, self._present_row()])
            rows = rows[places]
        if not len(rows):
            raise ValueError(f"{where}: nothing was recorded yet")
        return (rows[:, -3] - rows[:, -2]) / (units.GAS_CONSTANT * self._known_temperature(where))

    def _present_row(self):
        """The record of the present state, which the next step adds to the table."""
        engine = self._engine
        assert engine is not None
        values = [float(v(engine.positions, engine.box if engine.periodic else None)) for v in self.cvs]
        return [engine.flags[STEP], *values, float(self.bias(*values)), self._now[0], 0.0]

    def free_energy(self, blocks: int = 10, skip: float = 0.2) -> FreeEnergyEstimate:
        """Free energy of the variables, with error bars.

        The first estimate is the logarithm of a density: that of the recorded states with their weights, under kernels
        half as wide as the spacing of the grid. What the kernels change is extrapolated to zero width from a second
        set, whose variance is twice as large, and the next order of this extrapolation is a part of the error. The
        other part is the spread between blocks of the run (jackknife). The second estimate is from the bias as it is
        now, which also has its fluctuations from hill to hill. Of several walkers, only this one's states count for the
        former.

        Parameters
        ----------
        blocks : int
            Number of blocks, at least 2. Each should be much longer than it takes to go to and fro.
        skip : float
            Part of the records at the beginning that is left out: there the bias grew fastest.

        Raises
        ------
        ValueError
            If there are too few records, or the integrator has no temperature.
        """
        where = "Metadynamics.free_energy"
        if blocks < 2 or not 0 <= skip < 1:
            raise ValueError(f"{where}: blocks must be >= 2 and skip from 0 to 1, got {blocks} and {skip}")
        thermal = units.GAS_CONSTANT * self._known_temperature(where)
        first = int(skip * len(self.steps))
        if len(self.steps) - first < 2 * blocks:
            raise ValueError(
                f"{where}: {blocks} blocks need at least {2 * blocks} records, got {len(self.steps) - first} (run on)"
            )
        densities, counts = self._densities(first, blocks)
        total, seen = densities.sum(axis=0), counts.sum(axis=0) >= 1
        value, shape = -thermal * _extrapolated(total, seen), self._shape[:, 0]
        parts = -thermal * np.array([_extrapolated(total - part, seen) for part in densities])
        spread = (blocks - 1) / blocks * np.sum((parts - parts.mean(axis=0)) ** 2, axis=0)
        # a block that has seen nothing here tells that the others cannot know
        error = np.where(counts.min(axis=0) >= 1, np.sqrt(spread + (thermal * _next_order(total)) ** 2), np.inf)
        factor = 1.0 if self.bias_factor is None else self.bias_factor / (self.bias_factor - 1)
        value = np.where(seen, value - value[seen].min(initial=np.inf), np.inf)
        return FreeEnergyEstimate(
            self.axes,
            value.reshape(shape),
            error.reshape(shape),
            (factor * (self._grid[0].max() - self._grid[0])).reshape(shape),
        )

    def _densities(self, first, blocks):
        """Return statistics of the records from `first` on, in blocks, for kernels of one, two and three times a
        variance [blocks, 3, nodes]; how many
        records a node has seen in each block [blocks, nodes].
        """
        points = np.ascontiguousarray(self.values[first:])
        weights = np.exp(self.log_weights()[first:])
        densities, counts = np.zeros((blocks, 3, self._grid.shape[1])), np.zeros((blocks, self._grid.shape[1]))
        for k, part in enumerate(np.array_split(np.arange(len(points)), blocks)):
            for times in (1, 2, 3):
                narrow = self._range.copy()
                narrow[:, 2] = 0.5 * np.sqrt(times) * narrow[:, 1]
                jobs = [(weights[part], densities[k, times - 1])] + [(np.ones(len(part)), counts[k])] * (times == 1)
                for heights, into in jobs:
                    hills = kernels.Grid(self._shape, narrow, np.zeros_like(self._grid))
                    kernels.add_hills(points[part], heights, hills, self._scratch)
                    into[:] = hills.values[0] / times ** (0.5 * len(self.cvs))
        return densities, counts

    def _known_temperature(self, where):
        if self._temperature is None:
            raise ValueError(
                f"{where}: needs a temperature (give it to Metadynamics, or use an integrator that has one)"
            )
        return self._temperature

    # -- restarts and walkers ------------------------------------------------------------------------------------------

    def state(self):
        """Grid, constant and records; full tables are returned without a copy, since they no longer change."""
        state = {
            "grid": self._grid.copy(),
            "now": self._now.copy(),
            "active": self._active.copy(),
            "counts": self._counts.copy(),
            "records": self._table[: self._counts[0]].copy(),
            "shared": np.array(self._shared),
        }
        state.update({f"records/{k}": table for k, table in enumerate(self._full)})
        if self._common is not None:
            state["common"] = self._common.copy()
        return state

    def restore(self, state):
        self._grid[:], self._now[:], self._active[:], self._counts[:] = (
            state[k] for k in ("grid", "now", "active", "counts")
        )
        self._table[: len(state["records"])] = state["records"]
        self._full = [state[f"records/{k}"] for k in range(sum(key.startswith("records/") for key in state))]
        self._shared = int(state["shared"])
        self._common = state["common"].copy() if "common" in state else None

    def news(self):
        """Centers and heights of the hills since the last `receive`."""
        return {"hills": self.hills_from(self._shared)[1][:, 1:]}

    def receive(self, news):
        """Put the hills of all walkers on the grid that they had in common before."""
        if self._common is None:
            self._common = np.zeros_like(self._grid)
        for own in news:
            hills = np.asarray(own["hills"], np.float64)
            kernels.add_hills(
                np.ascontiguousarray(hills[:, :-1]),
                np.ascontiguousarray(hills[:, -1]),
                self._surface._replace(values=self._common),
                self._scratch,
            )
        self._grid[:] = self._common
        self._now[0] = kernels.constant(self._grid[0], *self._options[2:])
        self._shared = len(self._full) * _ROWS + int(self._counts[0])


def _unknown(*_):
    raise TypeError("a variable of Metadynamics.from_files has recorded values alone (give it itself, with hills=...)")


def _log(density):
    return np.log(np.maximum(density, 1e-300))


def _extrapolated(densities, seen):
    """Logarithm of the density that kernels [3, nodes] of one and two times a variance would have at none, as a
    probability.
    """
    log = 2 * _log(densities[0]) - _log(densities[1])
    top = log[seen].max(initial=-np.inf)
    return log - top - np.log(np.exp(log[seen] - top).sum())


def _next_order(densities):
    one, two, three = _log(densities)
    return one - 2 * two + three


def _scratch():
    """Memory that `kernels.interpolate` works in."""
    return np.zeros((3, 4), np.int64), np.zeros((3, 8))
