"""Settings that a run changes as functions of time: fields of integrator and barostat, parameters of potentials."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from triskele.core.extend import check

from .. import units
from ..engine.flags import FORCES_STALE
from ..potential import parameter

if TYPE_CHECKING:
    from ..engine.engine import Engine, Runner
    from .simulation import Simulation

__all__ = ["Changes", "Ramp", "Settings", "ramp"]

_OFTEN = 10  # steps between changes of what plans read in place
_SELDOM, _MOST = 100, 500  # least number of steps, and most changes, where the phases must be rebuilt
_NEVER = 2**62  # steps
_FIXED = ("timestep", "constraint_tolerance", "chain", "every")


@dataclass(frozen=True)
class Ramp:
    """See `ramp`."""

    start: Any
    end: Any
    over: float | None  # ps

    def at(self, time: float, length: float) -> Any:
        """Value at a time, in ps, of a run of `length` ps."""
        over = length if self.over is None else self.over
        if time >= over:
            return self.end
        return self.start + (self.end - self.start) * (time / over)


def ramp(start: Any, end: Any, over: str | float | None = None) -> Ramp:
    """A value that changes linearly in a run, for ``change`` of `Simulation.run`.

    Parameters
    ----------
    start, end : float or array
        Values at the beginning of the run, and from `over` on.
    over : str or float, optional
        Length of the ramp: "400 ps", or a number of ps. Defaults to the whole run.

    Returns
    -------
    Ramp

    Examples
    --------
    >>> from triskele import sponge
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds")
    >>> sim = sponge.Simulation(system, sponge.LangevinMiddle(50, friction=1.0, timestep=0.002), seed=1)
    >>> sim.run(time="1 ps", change={"temperature": sponge.ramp(50, 300)})
    >>> sim.integrator.temperature
    300.0
    """
    start, end = (
        np.asarray(check.finite(np.asarray(v, np.float64), f"ramp: {name}"))
        for name, v in (("start", start), ("end", end))
    )
    if over is not None:
        over = check.positive(units.parse_time(over), "ramp: over", "ps")
    return Ramp(start, end, over)


class Settings:
    """Settings of a simulation by name: "temperature" and other fields, or "potential/parameter"."""

    def __init__(self, sim: Simulation, engine: Engine, runner: Runner, changed: Callable[[], None]):
        self.sim, self.engine, self.runner, self.changed = sim, engine, runner, changed
        self._first: dict[str, np.ndarray] = {}  # values that were there before the first change
        self.present: dict[str, np.ndarray] = {}  # of what has been changed

    def get(self, name: str) -> np.ndarray:
        """Return the present value."""
        potential, slash, key = name.partition("/")
        if slash:
            return np.array(parameter(self.sim.system.params(), potential, key, "run: change"))
        return np.asarray(getattr(self._holders(name)[0][1], name), np.float64)

    def cheap(self, name: str) -> bool:
        """Return True if a change leaves the phases of a step as they are."""
        potential, slash, key = name.partition("/")
        return bool(slash) and key in self.engine.plans[potential].updates

    def check(self, name: str, value: Any) -> tuple[np.ndarray, dict[str, Any]]:
        """Return a value in the shape of the setting, and integrator and barostat with it; raise if it cannot be."""
        shape, given = self.get(name).shape, np.asarray(value)
        if given.dtype.kind not in "iuf":
            raise TypeError(f"run: {name!r} must be a number or an array of numbers, got {value!r:.80}")
        value = check.finite(given.astype(np.float64), f"run: {name!r}")
        if value.shape not in ((), shape):
            raise ValueError(f"run: {name!r} must be a number or have shape {shape}, got shape {value.shape}")
        value = np.array(np.broadcast_to(value, shape))
        plain = tuple(value.tolist()) if shape else float(value)
        return value, {} if "/" in name else {p: replace(thing, **{name: plain}) for p, thing in self._holders(name)}

    def test(self, name: str, value: Any) -> None:
        """Raise if a value cannot be, by what its potential says of it, too."""
        value, _ = self.check(name, value)
        if "/" in name:
            potential, _, key = name.partition("/")
            trial = copy.copy(self.sim.system[potential])
            trial.params = {**trial.params, key: value}
            trial.check(self.sim.system)

    def set(self, name: str, value: Any) -> None:
        """Change a setting."""
        sim, old = self.sim, self.get(name)
        value, parts = self.check(name, value)
        self._first.setdefault(name, old)
        self.present[name] = value
        if np.array_equal(value, old):
            return
        if parts:
            vars(sim).update(parts)
            self.runner.renew()
        else:
            potential, _, key = name.partition("/")
            sim.system[potential].params[key][...] = value
            self.engine.param_changed(potential, key)
        self.engine.flags[FORCES_STALE] = 1
        vars(sim).pop("_observer", None)
        self.changed()

    def _holders(self, name):
        """The integrator and the barostat, by these words, if they have the field `name`."""
        sim = self.sim
        parts = [(part, thing) for part in ("integrator", "barostat") if (thing := getattr(sim, part)) is not None]
        found = [(part, thing) for part, thing in parts if name in _numbers(thing)]
        if not found:
            params = [f"{p}/{key}" for p, values in sim.system.params().items() for key in values]
            known = [*dict.fromkeys(n for _, thing in parts for n in _numbers(thing)), *params]
            raise ValueError(f"run: there is nothing {name!r} to change{check.near(name, known, listing=True)}")
        if name == "temperature" and sim.sampling:
            raise ValueError(
                f"run: the temperature must stay as it is with {sim.sampling[0].name!r}, which was made for it"
            )
        return found

    def restore(self, values: Mapping[str, np.ndarray]) -> None:
        """Go to the settings of a checkpoint."""
        for name, value in {**self._first, **values}.items():
            self.set(name, value)
        self.present = dict(values)


class Changes:
    """The settings that a run changes. The default changes none."""

    def __init__(
        self,
        settings: Settings,
        change: Mapping[str, Any] = MappingProxyType({}),  # as for `Simulation.run`
        begin: int = 0,
        steps: int = 0,
        timestep: float = 0.0,
    ):
        self._settings, self._begin, self._end, self._timestep = settings, begin, begin + steps, timestep
        self._values: dict[str, Callable[[float], Any]] = {}
        self._every: dict[str, int] = {}
        self._numbers: list[str] = []
        self._untested: set[str] = set()  # names of user functions, whose values are known when they are due
        for name, value in check.kind(change, Mapping, "run: change", "a dictionary of names and values").items():
            self._values[name], times = _function(name, value, steps * timestep)
            if callable(value):
                self._untested.add(name)
            for time in times:
                settings.test(name, present := self._values[name](time))
            if np.ndim(present) == 0:
                self._numbers.append(name)
            self._every[name] = _OFTEN if settings.cheap(name) else max(_SELDOM, -(-steps // _MOST))

    @contextmanager
    def made(self) -> Iterator[None]:
        """Let the steps inside make these changes."""
        sim = self._settings.sim
        vars(sim)["_changes"] = self
        try:
            yield
        finally:
            vars(sim)["_changes"] = Changes(self._settings)

    def next(self, step: int) -> int:
        """Return the step, after `step`, at which something changes."""
        return min((step + every - (step - self._begin) % every for every in self._every.values()), default=_NEVER)

    def apply(self, step: int) -> None:
        """Set what changes at `step`; at the end of the run, everything."""
        for name, value in self._values.items():
            if step == self._end or (step - self._begin) % self._every[name] == 0:
                new = value((step - self._begin) * self._timestep)
                if name in self._untested:
                    self._settings.test(name, new)
                self._settings.set(name, new)

    def numbers(self) -> dict[str, float]:
        """Names and present values of the settings that are changed and are one number for all atoms."""
        return {name: float(self._settings.get(name).flat[0]) for name in self._numbers}

    def highest(self) -> float:
        """The highest temperature of the run in K, as a look at each change tells; 0 if it does not change."""
        if "temperature" not in self._values:
            return 0.0
        steps = range(0, self._end - self._begin + 1, self._every["temperature"])
        return max(float(self._values["temperature"](k * self._timestep)) for k in steps)


def _numbers(thing):
    """Names of the fields of an integrator or a barostat that are numbers which a run may change."""
    return [
        f.name
        for f in fields(thing)
        if isinstance(getattr(thing, f.name), (int, float, tuple)) and f.name not in _FIXED
    ]


def _function(name, value, length):
    """The value of a setting as a function of time in ps, and times of a run between whose values all others lie."""
    if isinstance(value, Ramp):
        return lambda time: value.at(time, length), (0.0, length)
    if callable(value):
        return value, (0.0, length)
    if isinstance(value, (list, tuple)) and value and all(isinstance(v, (list, tuple)) and len(v) == 2 for v in value):
        times = [units.parse_time(time) for time, _ in value]
        if times != sorted(times) or times[0] != 0:
            raise ValueError(
                f"run: the steps of {name!r} must be pairs of time and value, the first at 0 and each "
                f"later than the one before, got {value}"
            )
        return lambda time: value[np.searchsorted(times, time, side="right") - 1][1], times
    return lambda _: value, (0.0,)
