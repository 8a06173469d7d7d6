"""`UmbrellaSampling`: windows along collective variables, and the free energy from all of them."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from triskele.core.extend import Reports, Task, check

from .. import units
from ..analysis.mbar import Mbar, mbar
from ..analysis.wham import Wham, inefficiency_of, wham
from ..cv.compiled import Evaluation
from ..cv.variable import CollectiveVariable, as_variables
from ..engine.program import Phase
from ..integrators.integrator import Integrator
from ..potentials.bias import umbrella
from ..report.checkpoint import Checkpoint
from ..run.sampling_method import Sampling
from ..run.simulation import Simulation
from ..system import System
from .replicas import Replicas, replica_seed
from .umbrella_kernels import keep_values, move_center

__all__ = ["UmbrellaSampling"]


class UmbrellaSampling(Replicas):
    """Replicas that are held at different values of one or more collective variables by harmonic biases [1]_.

    Parameters
    ----------
    system : System
        Without the biases.
    cvs : CollectiveVariable or sequence of CollectiveVariable
    centers : (windows,) or (windows, cvs) array
        Where each window is held.
    k : float, (cvs,) or (windows, cvs) array
        Force constants in kJ/mol per square of the variable's unit; [windows] with one variable.
    integrator : Integrator
        One with a temperature.
    record : int
        Steps between records of the variables.
    every : int
        Steps after which the windows wait for each other.
    seed : int
    positions : (windows, n, 3) array, optional
        Initial positions of each window, in nm. Defaults to those of the system. `equilibrate` brings them to their
        centers.
    barostat : Barostat, optional
    precision : {"mixed", "double"}
    comm : mpi4py communicator, optional
        See `Replicas`.

    Attributes
    ----------
    centers, k : (windows, cvs) float arrays

    References
    ----------
    .. [1] Torrie, Valleau, "Nonphysical sampling distributions in Monte Carlo free-energy estimation: umbrella
       sampling", J. Comput. Phys. 23 (1977) 187. doi:10.1016/0021-9991(77)90121-8

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import sponge
    >>> system = sponge.System(sponge.Topology.of_particles(2), [12.0, 12.0], positions=[[0, 0, 0], [0.16, 0, 0]])
    >>> bond = system.add(sponge.harmonic_bond([[0, 1]], k=1000.0, r0=0.15))
    >>> integrator = sponge.LangevinMiddle(temperature=300, friction=10.0, timestep=0.001)
    >>> length, centers = sponge.cv.distance(0, 1), [0.1, 0.15, 0.2]
    >>> windows = sponge.UmbrellaSampling(system, length, centers, k=2000.0, integrator=integrator)
    >>> windows.equilibrate(100)
    >>> windows.run(2000)
    >>> len(windows.samples), windows.samples[0].shape
    (3, (40, 1))
    """

    def __init__(
        self,
        system: System,
        cvs: CollectiveVariable | Sequence[CollectiveVariable],
        centers: Any,
        k: Any,
        integrator: Integrator,
        *,
        record: int = 50,
        every: int = 1000,
        seed: int = 0,
        positions: Any = None,
        barostat: Any = None,
        precision: Literal["mixed", "double"] = "mixed",
        comm: Any = None,
    ):
        where = "UmbrellaSampling"
        check.kind(system, System, f"{where}: system")
        if getattr(integrator, "temperature", None) is None:
            raise TypeError(
                f"{where}: integrator must be one with a temperature, such as LangevinMiddle, got "
                f"{type(integrator).__name__}"
            )
        self.cvs = as_variables(where, cvs)
        centers = np.array(centers, np.float64)
        self.centers = centers[:, None] if centers.ndim == 1 and len(self.cvs) == 1 else centers
        check.finite(check.shape(self.centers, ("windows", len(self.cvs)), f"{where}: centers"), f"{where}: centers")
        for variable, values in zip(self.cvs, self.centers.T):
            variable.check_values(where, "centers", values)
        k = np.array(k, np.float64)
        k = k[:, None] if k.ndim == 1 and len(self.cvs) == 1 and len(k) == len(self.centers) else k
        if np.broadcast_shapes(k.shape, self.centers.shape) != self.centers.shape or not (
            np.isfinite(k).all() and np.all(k > 0)
        ):
            raise ValueError(
                f"{where}: k must be positive, a number or of shape {self.centers.shape[1:]} or "
                f"{self.centers.shape}, got {k}"
            )
        self.k = np.array(np.broadcast_to(k, self.centers.shape))
        self.centers.flags.writeable = self.k.flags.writeable = False  # windows have copies
        n = len(self.centers)
        if positions is not None and np.shape(positions) != (n, system.n, 3):
            raise ValueError(f"{where}: positions must have shape {(n, system.n, 3)}, got {np.shape(positions)}")
        check.integer(record, f"{where}: record", 1)
        check.integer(seed, f"{where}: seed", 0)
        self.temperature, self.seed, self.record = float(integrator.temperature), int(seed), int(record)
        self._windows: dict[int, _Window] = {}
        self._recording = False
        self._samples: list[list[np.ndarray]] = [[] for _ in range(n)]

        def make(w):
            self._windows[w] = _Window(self.cvs, self.centers[w], self.k[w], self.record, every // self.record + 2)
            return Simulation(
                system,
                integrator,
                seed=replica_seed(seed, w),
                barostat=barostat,
                precision=precision,
                sampling=self._windows[w],
                positions=None if positions is None else positions[w],
            )

        super().__init__(make, n, every=every, comm=comm)
        self._saved_every = self.every

    @property
    def samples(self) -> list[np.ndarray]:
        """The recorded values of each window, [m, cvs], in the order of time."""
        return [np.concatenate(rows) if rows else np.zeros((0, len(self.cvs))) for rows in self._samples]

    def equilibrate(
        self,
        steps: int | None = None,
        *,
        time: str | float | None = None,
        report: Reports = None,
        progress: bool | None = None,
    ) -> None:
        """Make steps that are not recorded: pull each window to its center, and let it come to rest there.

        During the first half of the steps the centers move evenly from the present values of the variables, the
        shortest way, to where they belong. Held there at once, a window far away would get the energy of the whole
        stretch, enough to turn a peptide bond to cis, from where it does not come back.

        What is slow at a given center still depends on where a window comes from, such as psi when only phi is held:
        such a variable needs windows too, or the free energy is wrong by more than its error.

        Parameters
        ----------
        steps : int
        time : str or float
            Length of the run, in place of steps: long enough for the path, some 10 ps for a torsion.
        report, progress
            As for `Replicas.run`.
        """
        half = self._steps(steps, time) // 2
        try:
            self._all(lambda w: self._windows[w].pull(self._simulations[w], half))
            super().run(steps, time=time, report=report, progress=progress)
        finally:
            for window in self._windows.values():
                window.hold()

    def run(
        self,
        steps: int | None = None,
        *,
        time: str | float | None = None,
        report: Reports = None,
        replica_report: Callable[[int], Any] | None = None,
        progress: bool | None = None,
        checkpoint: str | os.PathLike | Checkpoint | None = None,
    ) -> None:
        """Make steps, and record the variables after each step whose number is a multiple of `record`.

        Parameters
        ----------
        steps : int
        time : str or float
            Length of the run, in place of steps.
        report, replica_report, progress, checkpoint
            As for `Replicas.run`; the `every` of a `Checkpoint` must be a multiple of the windows' own.
        """
        if isinstance(checkpoint, Checkpoint) and checkpoint.every % self.every:
            raise ValueError(
                f"UmbrellaSampling: the checkpoint's every must be a multiple of {self.every} steps, got "
                f"{checkpoint.every}"
            )
        self._recording = True
        try:
            super().run(
                steps, time=time, report=report, replica_report=replica_report, progress=progress, checkpoint=checkpoint
            )
        finally:
            self._recording = False
        self._collect(self._all(lambda w: self._windows[w].take(self._simulations[w])))

    def _begin(self) -> None:
        if self._recording:
            for k, window in self._windows.items():
                window.skip(self._simulations[k])

    def wham(self, bins: int | Sequence[int] = 60, **options: Any) -> Wham:
        """The free energy along one or two variables, see `analysis.wham`.

        Parameters
        ----------
        bins : int or (int, int)
        **options
            Such as `limits` and `bootstrap`.
        """
        return wham(
            self.samples,
            self.centers,
            self.k,
            temperature=self.temperature,
            bins=bins,
            period=[v.period for v in self.cvs],
            **options,
        )

    def mbar(self) -> Mbar:
        """Return all samples (``np.concatenate(windows.samples)``) with their weights in the ensemble without biases,
        see `analysis.mbar`.

        State 0 is without bias, state 1 + w is window w. Samples of a window are used as often as they are independent.
        """
        s = np.concatenate(self.samples)
        apart = np.stack([v.difference(s[:, c], self.centers[:, c, None]) for c, v in enumerate(self.cvs)], axis=-1)
        bias = 0.5 * np.einsum("wc,wsc->ws", self.k, apart**2) / (units.GAS_CONSTANT * self.temperature)
        periods = [v.period for v in self.cvs]
        return mbar(
            np.concatenate([np.zeros((1, len(s))), bias]),
            np.array([0, *map(len, self.samples)]),
            inefficiency=[1.0, *(inefficiency_of(x, periods) if len(x) else 1.0 for x in self.samples)],
        )

    def save(self, path: str | os.PathLike) -> None:
        if self._recording:  # a run may end between two meetings
            self._collect(self._all(lambda w: self._windows[w].take(self._simulations[w])))
        super().save(path)

    save.__doc__ = Replicas.save.__doc__

    def _news(self, k, sim):
        return self._windows[k].take(sim) if self._recording else None

    def _meet(self, news):
        if self._recording:
            self._collect(news)

    def _collect(self, news):
        for rows, new in zip(self._samples, news, strict=True):
            if len(new):
                rows.append(new)

    def _options(self):
        return {
            **super()._options(),
            "seed": self.seed,
            "record": self.record,
            "centers": self.centers.tolist(),
            "k": self.k.tolist(),
        }

    def _arrays(self):
        return {f"samples/{w}": values for w, values in enumerate(self.samples)}

    def _take(self, arrays):
        self._samples = [[arrays[f"samples/{w}"]] for w in range(self.n)]


class _Window(Sampling):
    """The bias of a window; its variables, which the bias computes in each step anyway, are kept by number of the
    state.
    """

    conserves_momentum = None

    def __init__(self, cvs, center, k, record, slots):
        self.name, self.record, self.cvs = "umbrella", record, cvs
        self._bias = umbrella(cvs, center, k)
        self.center, self.k = self._bias.params["center"], self._bias.params["k"]
        self._held = self.center.copy()  # at; elsewhere than `center` while it is pulled
        self._offset, self._span = np.zeros(len(cvs)), np.zeros(2, np.int64)
        self._buffer = np.zeros((slots, len(cvs)))
        self._evaluations: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self._recorded = 0  # the last state that was

    def check(self, system, integrator):
        self._bias.check(system)
        if integrator.forces_at is None:
            raise ValueError(
                f"UmbrellaSampling: integrator must keep the forces of its steps, as LangevinMiddle does, "
                f"got {type(integrator).__name__}"
            )

    def plan(self, engine):
        def energy(*values):
            return self._bias.function(*values[:-2], center=values[-2], k=values[-1])

        self._evaluations[engine] = Evaluation(engine, self._bias.cvs, "UmbrellaSampling", energy, [self._held, self.k])
        return self._evaluations[engine].plan()

    def after_step(self, engine, integrator):
        values = self._evaluations[engine].values
        shift = int(integrator.forces_at == "new")
        keep = Task(keep_values, engine.flags, shift, self.record, values, self._buffer)
        return [
            Phase(
                [keep, Task(move_center, engine.flags, self._span, self._offset, self.center, self._held)],
                name="umbrella",
            )
        ]

    def pull(self, sim, steps):
        """Pull the variables from their present values to the center, in the next `steps` steps."""
        self._offset[:] = [
            v.difference(float(v(sim.positions, sim.box)), c) for v, c in zip(self._bias.cvs, self.center, strict=True)
        ]
        self._span[:] = sim.step, sim.step + steps
        self._held[:] = self.center + self._offset
        self._bias_changed()

    def hold(self):
        """Hold the variables at the center."""
        self._offset[:] = 0.0
        self._held[:] = self.center
        self._bias_changed()

    def skip(self, sim):
        """Take nothing of what was before the present state."""
        self._recorded = sim.step

    def take(self, sim):
        """The records after those that were taken before, up to the present state."""
        numbers = np.arange(self._recorded // self.record + 1, sim.step // self.record + 1)
        rows = self._buffer[numbers % len(self._buffer)]
        if len(numbers) and sim.step % self.record == 0:  # its forces may not have been computed yet
            rows[-1] = [float(v(sim.positions, sim.box)) for v in self._bias.cvs]
        self._recorded = sim.step
        return rows
