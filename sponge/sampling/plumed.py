"""`Plumed`: biases and records of PLUMED, computed in the process by its Python package."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from triskele.core.extend import Task, TriskeleError, check, optional

from .. import units
from ..engine.engine import Engine
from ..engine.flags import FORCES_STALE, STEP
from ..engine.plan import ROW, Plan, add_forces
from ..errors import CheckpointError
from ..run.sampling_method import Sampling
from .plumed_input import action_of, logical_lines, message_of, with_memory

__all__ = ["Plumed", "PlumedError"]

_LEARN_IN_UPDATES = {"METAD", "PBMETAD", "OPES_METAD", "OPES_METAD_EXPLORE"}  # an evaluation leaves them as they are
_API = 8  # of the library: nested exceptions apart, what PLUMED 2.8 has


class PlumedError(TriskeleError, RuntimeError):
    """PLUMED has failed in a run, or asks to stop it; the message is PLUMED's own."""


class Plumed(Sampling):
    """Biases, collective variables and records of PLUMED [1]_: whatever its input says.

    PLUMED sees positions, masses, charges, the box and the number of the state; its forces, the energy of its bias and
    its virial come back, so that barostats and reported energies include them. It does not see charges that change, as
    those of `ChargeEquilibration` and `NetworkCharges`. States are numbered from 0, and state n
    is that after n steps. PLUMED computes the bias once for each, and then updates what it learns and prints.
    Quantities are in PLUMED's default units, which are those of this package: nm, ps, kJ/mol, dalton, e and radians.

    PLUMED itself has to be installed besides its Python package, such as by conda or from its source; the environment
    variable PLUMED_KERNEL holds the path of its library ``libplumedKernel.so``. The variables ENERGY and EXTRACV, and
    integrators that split the forces, are refused.

    Parameters
    ----------
    input : path-like or sequence of str
        PLUMED's input file, or its lines. Files that it names are relative to the working folder.
    temperature : float, K, optional
        Temperature that PLUMED takes where its input has none. Defaults to the integrator's temperature.
    restart : bool
        Let PLUMED continue from its own files, as its action RESTART does. They may hold more than an older checkpoint
        saw, and fewer digits than the memory of a run: the continuation is not bit for bit.
    log : path-like, optional
        File of PLUMED's log. Not written by default.
    kernel : path-like, optional
        PLUMED's library. Defaults to that of PLUMED_KERNEL.
    name : str
        Name under which the energy of the bias is reported.

    Raises
    ------
    ImportError
        If the Python package `plumed` or PLUMED's library is missing; says how to install it.
    ValueError
        From the first evaluation, when PLUMED refuses a line of the input; has the line and PLUMED's message.
    PlumedError
        From a run, when PLUMED fails or asks to stop.
    CheckpointError
        From `Simulation.load`, when an action of the input has a memory that checkpoints do not hold.

    Notes
    -----
    A run resumes bit for bit from a checkpoint if no action of the input has a memory: variables, functions of them,
    fixed restraints and walls, with PRINT. Files that PLUMED prints are then continued, and have lines of states after
    the checkpoint twice. What an action such as METAD or OPES_METAD has learned is in PLUMED's files
    alone: such checkpoints are loaded with `restart` only. Actions that learn whenever they are evaluated, such as ABMD
    or EXTENDED_LAGRANGIAN, cannot be used with a `MonteCarloBarostat` or in a minimization.

    References
    ----------
    .. [1] Tribello, Bonomi, Branduardi, Camilloni, Bussi, "PLUMED 2: New feathers for an old bird", Comput. Phys.
       Commun. 185 (2014) 604. doi:10.1016/j.cpc.2013.09.018

    Examples
    --------
    >>> from triskele import sponge
    >>> bias = sponge.Plumed(["phi: TORSION ATOMS=5,7,9,15", "RESTRAINT ARG=phi AT=-1.2 KAPPA=200"])
    >>> bias.lines
    ('phi: TORSION ATOMS=5,7,9,15', 'RESTRAINT ARG=phi AT=-1.2 KAPPA=200')
    """

    def __init__(
        self,
        input: str | os.PathLike | Sequence[str],
        *,
        temperature: float | None = None,
        restart: bool = False,
        log: str | os.PathLike | None = None,
        kernel: str | os.PathLike | None = None,
        name: str = "plumed",
    ):
        self.name = name
        self.lines = tuple(logical_lines("Plumed", input))
        if temperature is not None:
            check.positive(temperature, "Plumed: temperature", "K")
        self.temperature = temperature
        self._restart = bool(restart)
        self._log, self._kernel = os.fspath(log or os.devnull), None if kernel is None else os.fspath(kernel)
        self._api: Any = None  # the plumed.Plumed of the run
        self._system: Any = None
        self._memory = [line for line in self.lines if with_memory(line)]
        self._careless = [line for line in self._memory if action_of(line) not in _LEARN_IN_UPDATES]
        self._state, self._updated = -1, -1  # numbers of the states evaluated and updated last
        self._last: Any = None  # positions and box of the evaluation before
        self._evaluated: Any = None  # engine of that evaluation
        self._rewound = False  # to a state before what PLUMED has learned
        self._stop, self._bias = np.zeros(1, np.intc), np.zeros(1)
        self._number = np.zeros(1, np.int_)

    # -- in a simulation -----------------------------------------------------------------------------------------------

    def check(self, system, integrator):
        super().check(system, integrator)
        where = f"Plumed {self.name!r}"
        if integrator.forces_at is None:
            raise ValueError(
                f"{where}: the integrator must compute all forces once a step, which "
                f"{type(integrator).__name__} does not"
            )
        self._load().finalize()
        self._system, self._timestep = system, float(integrator.timestep)
        self._ahead = integrator.forces_at == "new"
        temperature = self.temperature if self.temperature is not None else getattr(integrator, "temperature", None)
        self._thermal = None if temperature is None else units.GAS_CONSTANT * temperature
        charges = [p.params["charges"] for p in system.potentials if "charges" in getattr(p, "params", {})]
        moving = any(getattr(p, "moving_charges", False) for p in system.potentials)  # whose values are not those
        self._charges = np.array(charges[0], np.float64) if len(charges) == 1 and not moving else None

    def plan(self, engine: Engine) -> Plan:
        forces, rows, virial = np.zeros((engine.n, 3)), np.zeros((1, ROW)), np.zeros((3, 3))
        given = [
            ("setPositions", engine.positions),
            ("setMasses", engine.masses),
            ("setBox", engine.box),
            ("setForces", forces),
            ("setVirial", virial),
        ]
        if self._charges is not None:
            given.append(("setCharges", self._charges))
        reduce = Task(add_forces, engine.atom_starts, forces, engine.forces, chunks=engine.atom_chunks)
        return Plan(call=lambda: self._evaluate(engine, given, forces, virial, rows[0]), reduce=[reduce], rows=rows)

    def _evaluate(self, engine, given, forces, virial, row):
        """Set forces and row; PLUMED learns and prints when it sees a state for the first time in a step."""
        if self._api is None:
            self._start()
        number = int(engine.flags[STEP])
        if not engine.aside and self._ahead and not engine.flags[FORCES_STALE]:
            number += 1
        update = not engine.aside and number > self._updated
        if self._careless or not update:
            seen = self._last is not None and all(map(np.array_equal, self._last, (engine.positions, engine.box)))
            if seen and not update and number == self._state and engine is self._evaluated:
                return  # a step that is made again after its cause of failure was mended
            if self._careless and not seen and (self._state > self._updated or number <= self._updated):
                raise PlumedError(
                    f"Plumed {self.name!r}: {action_of(self._careless[0])} learns whenever it is "
                    f"evaluated, and cannot be evaluated at trial positions, as of state {number} (no "
                    "MonteCarloBarostat, minimize in another simulation)"
                )
        if update and self._rewound:
            raise PlumedError(
                f"Plumed {self.name!r}: cannot go back with the simulation, as "
                f"{action_of(self._memory[0])} remembers states up to {self._updated} (make a new "
                "simulation with restart=True)"
            )
        forces.fill(0.0)
        virial.fill(0.0)
        try:
            self._compute(number, given, update)
        except Exception as error:
            raise PlumedError(f"Plumed {self.name!r}: {message_of(error)} (state {number})") from error
        if self._stop[0]:
            raise PlumedError(
                f"Plumed {self.name!r}: an action of the input, such as COMMITTOR, ends the run at state {number}"
            )
        row[0], row[1:] = self._bias[0], -virial.reshape(-1)  # PLUMED's virial has the other sign
        self._state, self._evaluated = number, engine
        self._last = engine.positions.copy(), engine.box.copy()
        if update:
            self._updated = number

    def _compute(self, number, given, update):
        cmd = self._api.cmd
        self._number[0] = number
        cmd("setStepLong", self._number)
        for key, array in given:
            cmd(key, array)
        cmd("prepareCalc")
        self._stop[0] = 0
        cmd("performCalc" if update else "performCalcNoUpdate")
        cmd("getBias", self._bias)

    @property
    def conserves_momentum(self) -> bool:  # type: ignore[override]
        """Return True unless the input has an action that knows places in space."""
        return not any(action_of(line) in ("FIXEDATOM", "POSITION") for line in self.lines)

    # -- PLUMED --------------------------------------------------------------------------------------------------------

    def _load(self) -> Any:
        """A new object of PLUMED's."""
        module = optional.need("plumed", "Plumed", "plumed")
        try:
            return module.Plumed(kernel=self._kernel)
        except Exception as error:
            where = self._kernel or os.environ.get("PLUMED_KERNEL") or "no path in PLUMED_KERNEL"
            raise ImportError(
                f"Plumed: needs PLUMED's library, got {where} (install it with conda install -c "
                "conda-forge plumed, or from its source, and set PLUMED_KERNEL to the path of "
                f"libplumedKernel.so): {message_of(error)}"
            ) from error

    def _start(self):
        """Make PLUMED read the input."""
        api = self._load()
        version = np.zeros(1, np.intc)
        api.cmd("getApiVersion", version)
        if version[0] < _API:
            raise ImportError(
                f"Plumed: PLUMED's library must be of version 2.8 or later, got one with interface {version[0]}"
            )
        for key, value in (
            ("setMDEngine", "triskele"),
            ("setTimestep", self._timestep),
            ("setNatoms", self._system.n),
            ("setKbT", self._thermal),
            ("setRestart", int(self._restart)),
            ("setLogFile", self._log),
        ):
            if value is not None:
                api.cmd(key, value)
        try:
            api.cmd("init")
            api.cmd("setStopFlag", self._stop)
        except Exception as error:
            raise PlumedError(f"Plumed {self.name!r}: {message_of(error)}") from error
        for line in self.lines:
            try:
                api.cmd("readInputLine", line)
            except Exception as error:
                raise ValueError(
                    f"Plumed {self.name!r}: PLUMED must understand its input, got {line!r}: {message_of(error)}"
                ) from error
        self._api = api

    def flush(self) -> None:
        """Write what PLUMED has printed so far to its files.

        Checkpoints and the end of the process do it, too.
        """
        ctypes.CDLL(None).fflush(None)  # all of C's streams: PLUMED has no command for its own

    # -- restarts ------------------------------------------------------------------------------------------------------

    def state(self):
        """The number of the last state that PLUMED has learned from, whose files are brought up to date."""
        self.flush()
        return {"updated": np.array([self._updated])}

    def restore(self, state):
        self._last = None
        if self._api is None and state["updated"][0] < 0:  # of a simulation that has not begun
            return
        if self._api is None:  # of a run before
            if self._memory and not self._restart:
                raise CheckpointError(
                    f"Plumed {self.name!r}: must be made with restart=True to load a checkpoint, as "
                    f"what {action_of(self._memory[0])} has learned is in PLUMED's files alone, from "
                    "which a run does not resume bit for bit"
                )
            self._restart = True
            self._state = self._updated = int(state["updated"][0])
        elif self._memory:
            self._rewound = self._rewound or int(state["updated"][0]) < self._updated
        else:
            self._state = self._updated = int(state["updated"][0])

    def __repr__(self):
        return f"Plumed({len(self.lines)} lines)"
