"""The guard against broken simulations: finds the step, the term and the atom, and keeps the last good state."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from triskele.core.extend import Task, kernel

from ..engine.flags import STATUS, STATUS_INFO
from ..engine.plausibility import worst_force
from ..engine.program import Phase
from ..errors import BrokenSimulationError, TrainingRangeWarning
from ..protocols import SimulationLike
from ..report.checkpoint import Checkpoint
from ..report.reporter import Reporter

__all__ = ["Guard", "last_good_path", "save_last_good"]

_BROKEN = 60  # status: an atom is nowhere, or too fast
_EVERY = 100  # steps between looks at all atoms, inside the compiled loop
# No atom of a simulation that means anything gets there: a hydrogen of 300 K moves at 3 nm/ps.
_SELDOM = 10_000  # steps between looks at networks, once they have been looked at often enough
_FASTEST = 1e3  # nm/ps
_FARTHEST = 1e6  # nm
_LARGEST = 1e6  # kJ/mol/nm: a carbon atom gains 170 nm/ps in 2 fs


@kernel(nogil=True)
def look_at_atoms(chunk, starts, positions, velocities, flags):
    for i in range(starts[chunk], starts[chunk + 1]):
        for a in range(3):
            # a comparison with NaN is false
            if not (abs(positions[i, a]) < _FARTHEST and abs(velocities[i, a]) < _FASTEST):
                flags[STATUS], flags[STATUS_INFO] = _BROKEN, i
                return


class Guard:
    """Watches over the state of a simulation.

    Every 100 steps, and at the end of each block of steps, it checks all positions and velocities. When some are not
    finite, or an atom is impossibly fast, it repeats the steps since the last good state one by one to find where this
    began.

    After the first steps, and then at ever longer intervals, it looks whether networks are used outside the range of
    their training data, and warns once of each.
    """

    def __init__(self, sim: SimulationLike):
        self.sim, self.path = sim, "run.last_good.chk"  # for the last good state, written when the simulation breaks
        self._good: Any = None
        self._next_look, self._pause, self._outside = 0, _EVERY, set[str]()
        sim._engine.on_status(_BROKEN, _stop)

    def phases(self) -> list[Phase]:
        """Return the task that checks the atoms at the end of each step of the compiled loop."""
        engine = self.sim._engine
        task = Task(
            look_at_atoms,
            engine.atom_starts,
            engine.positions,
            engine.velocities,
            engine.flags,
            chunks=engine.atom_chunks,
        )
        return [Phase([task], every=_EVERY, name="guard")]

    def remember(self) -> None:
        """Take the present state as good."""
        self._good = None  # its memory is free for the new one
        self._good = self.sim._snapshot()

    def advance(self, steps: int) -> None:
        """Make `steps` steps, or put the simulation back into the last good state, write that, and raise.

        The error is a BrokenSimulationError if the state broke; whatever else a step raises comes through.
        """
        sim = self.sim
        try:
            sim._advance(steps)
            if self._bad_atom() >= 0:
                raise _Broken
        except Exception as error:
            # constraints that do not converge, atoms out of every cell: forces that broke may be behind it
            step, atom = sim.step, self._bad_atom()
            explained = self._find(step + 1, isinstance(error, _Broken))
            if explained is None and atom >= 0:
                explained = (
                    f"{sim.system.topology.describe(atom)}: position or velocity out of bounds at step "
                    f"{step}, "
                    "which does not happen again when the steps since the last good state are repeated"
                )
            self._restore()
            saved = f"{save_last_good(sim, self.path)}; time steps are {sim.timestep:g} ps"
            if explained is None:
                error.add_note(f"run: {saved}")
                raise
            raise BrokenSimulationError(f"{explained} ({saved})") from (None if isinstance(error, _Broken) else error)
        if sim.step - self._good[1]["step"] >= _EVERY:
            self.remember()
        if sim.step >= self._next_look:
            self._next_look, self._pause = sim.step + self._pause, min(2 * self._pause, _SELDOM)
            self._look_at_networks()

    def _look_at_networks(self) -> None:
        """Warn of networks outside the range of their training data."""
        sim = self.sim
        for potential in sim.system.potentials:
            look = getattr(potential, "outside_data", None)  # those of networks
            if look is None or potential.name in self._outside:
                continue
            if (found := look(sim.positions, sim.box)) is not None:
                self._outside.add(potential.name)
                atom, how = found
                warnings.warn(
                    TrainingRangeWarning(
                        f"step {sim.step}: {potential.name!r} is used outside the range of "
                        f"its training data: {sim.system.topology.describe(atom)} {how}"
                    ),
                    stacklevel=5,
                )

    def _find(self, last: int, broken: bool) -> str | None:
        """Repeat the steps from the last good state to `last` and return where the failure began, or None."""
        sim = self.sim
        self._restore()
        ahead = last - _EVERY - sim.step
        if ahead > 0:
            try:
                sim._advance(ahead)
            except Exception:  # noqa: BLE001  rounding may differ, since the neighbor list was rebuilt
                self._restore()
            if self._bad_atom() >= 0:
                self._restore()
            self.remember()
        while sim.step < last + _EVERY:
            step, before = sim.step + 1, sim.positions
            try:
                sim._advance(1)
            except Exception:  # noqa: BLE001  the replay failed too: explain with the last good state
                return self._explain(step, [before], broken)
            if self._bad_atom() >= 0:
                return self._explain(step, [before, sim.positions], True)
        return None

    def _explain(self, step, candidates, broken) -> str | None:
        """The worst force at the positions before (and after) the step, in words; None when it is not bad."""
        describe = self.sim.system.topology.describe
        worst = None
        for positions in candidates:
            found = self._worst_force(positions)
            if found is not None and (worst is None or not found[0] <= worst[0]):
                worst = found
            if worst is not None and not np.isfinite(worst[0]):
                break
        if worst is not None and not worst[0] <= _LARGEST:
            size, term, atom = worst
            text = (
                "NaN force"
                if np.isnan(size)
                else "infinite force"
                if np.isinf(size)
                else f"force of {size:.3g} kJ/mol/nm"
            )
            return f"{describe(atom)}: {text} from term {term!r} at step {step}"
        if not broken:
            return None
        atom = self._bad_atom()
        largest = (
            ""
            if worst is None
            else f", the largest force being {worst[0]:.3g} kJ/mol/nm from term {worst[1]!r} on {describe(worst[2])}"
        )
        return (
            f"{describe(max(atom, 0))}: position or velocity out of bounds at step {step}{largest} (is the time step "
            f"too large?)"
        )

    def _worst_force(self, positions) -> tuple[float, str, int] | None:
        """Size (NaN before infinite before large), term and atom of the worst force of a single term."""
        if not np.isfinite(positions).all():
            return None
        engine = self.sim._engine
        kept = engine.positions.copy(), engine.forces.copy()
        engine.positions[:] = positions
        try:
            engine.compute(energy=False)
            return worst_force(engine)
        except Exception:  # noqa: BLE001  no forces at such positions
            return None
        finally:
            engine.positions[:], engine.forces[:] = kept
            self.sim._touched()

    def _restore(self):
        self.sim._restore(*self._good)

    def _bad_atom(self) -> int:
        """An atom that is nowhere or too fast, or -1."""
        engine = self.sim._engine
        flags = np.zeros_like(engine.flags)
        for chunk in range(engine.atom_chunks):
            look_at_atoms(chunk, engine.atom_starts, engine.positions, engine.velocities, flags)
            if flags[STATUS]:
                return int(flags[STATUS_INFO])
        return -1


class _Broken(Exception):
    """The state is no longer finite."""


def _stop(engine) -> bool:
    raise _Broken


def last_good_path(reporters: Sequence[Reporter]) -> str:
    """Return the path of the state saved on a failure: next to the checkpoint, or in the working folder."""
    for r in reporters:
        if isinstance(r, Checkpoint):
            stem, ending = os.path.splitext(r.path)
            return f"{stem}.last_good{ending or '.chk'}"
    return "run.last_good.chk"


def save_last_good(sim: SimulationLike, path: str) -> str:
    """Save the present state, and say in words where; never raises."""
    try:
        sim.save(path)
        return f"the state at step {sim.step} was saved to {path!r}"
    except Exception as error:  # noqa: BLE001  reported next to the error that stopped the run
        return f"the state at step {sim.step} is in memory, but could not be saved to {path!r}: {error}"
