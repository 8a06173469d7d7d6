"""The problem that a fit solves: system, targets and parameters, as functions of one vector."""

from __future__ import annotations

import numpy as np

from triskele import core

from ..differentiate.energy import explicit_energy
from ..differentiate.energy_function import EnergyFunction
from ..differentiate.observables import Observable
from ..differentiate.reweight import OverFrames
from ..potentials.nonbonded.nonbonded import Nonbonded
from .sampling import Trajectories
from .targets import EnergiesForces, Target

__all__ = ["Given", "Problem"]

_NOTHING = 1e-9  # derivative, in units of a target's error, that is rounding
_SMALL = 1000  # atoms up to which a list of all pairs is faster than the kernels, called from Python frame by frame


class Problem:
    """System, targets and parameters; everything as functions of the vector u."""

    def __init__(self, system, targets, parameters, by):
        self.system, self.parameters = system, parameters
        self.sampled = [t for t in targets if isinstance(t, Target)]
        self.given = [Given(t, self) for t in targets if isinstance(t, EnergiesForces)]
        if self.sampled:
            self.temperature = getattr(getattr(by, "integrator", None), "temperature", None)
            if by is not None and self.temperature is None:
                raise ValueError(f"fit: the integrator must have a temperature, got {type(by.integrator).__name__}")
            names = [t.name for t in self.sampled]
            if len(set(names)) < len(names):
                raise ValueError(f"fit: names of targets must differ, got {', '.join(names)}")
            full = self.full_energy(explicit=isinstance(by, Trajectories))
            self.observables = [self._of_u(t.make(system, self.temperature or 300.0, full)) for t in self.sampled]
            self.values = np.concatenate([t.value.ravel() for t in self.sampled])
            self.scales = np.concatenate([t.error.ravel() for t in self.sampled])

    def full_energy(self, explicit=False):
        mesh = any(isinstance(p, Nonbonded) and p.method in ("pme", "ljpme") for p in self.system.potentials)
        if explicit or self.system.n <= _SMALL and not mesh and not self.system.virtual_sites:
            return explicit_energy(self.system)
        return self.system.energy_function()

    def energy(self, explicit=False):
        """``energy(u, positions, box)``, and whether it can be compiled with what is around it."""
        full, parameters = self.full_energy(explicit), self.parameters
        return _with_params(full, parameters)

    def _of_u(self, observable):
        if not observable.of_params:
            return observable
        return Observable(_with_params(observable.frame, self.parameters), observable.of_mean, True, observable.name)

    def finals(self, means):
        """Return all targets' quantities in one vector, from the means of the observables."""
        return np.concatenate([np.reshape(o.final(m), (-1,)) for o, m in zip(self.observables, means, strict=True)])

    def at(self, u):
        """A copy of the system with these parameters."""
        system = self.system.copy()
        system.set_params(self.parameters.params(u))
        return system

    def named(self, values):
        found, at = {}, 0
        for t in self.sampled:
            found[t.name] = np.reshape(values[at : at + t.value.size], t.value.shape)
            at += t.value.size
        return found

    def check_slopes(self, jacobian):
        """Raise where nothing depends on a parameter, or a target on none; `jacobian` in units of the targets'
        errors.
        """
        at = 0
        for t in self.sampled:
            if not np.any(np.abs(jacobian[at : at + t.value.size]) > _NOTHING):
                raise ValueError(
                    f"fit: target {t.name!r} must depend on the parameters, but its gradient is zero (a "
                    f"density needs a barostat)"
                )
            at += t.value.size
        rest = np.concatenate([jacobian, *[g.jacobian for g in self.given if g.jacobian is not None]])
        if np.any(idle := ~np.any(np.abs(rest) > _NOTHING, axis=0)):
            raise ValueError(
                "fit: every parameter must have an effect on the targets, but number "
                f"{int(np.argmax(idle))} of {', '.join(self.parameters.start)} has none (one that the fit "
                'takes to zero may change its sign if it is "free", see fitting.Parameters)'
            )


def _with_params(f, parameters):
    def g(u, positions, box=None):
        return f(parameters.params(u), positions, box)

    g.kernels = isinstance(f, EnergyFunction)
    return g


class Given:
    """Residuals of energies and forces."""

    def __init__(self, target, problem):
        if target.positions.shape[1] != problem.system.n:
            raise ValueError(f"fit: configurations must have {problem.system.n} atoms, got {target.positions.shape[1]}")
        if (target.boxes is None) != (problem.system.box is None):
            raise ValueError("fit: configurations must have boxes if the system has one, and none if it has not")
        self.target, energy = target, problem.energy()
        want_e, want_f = target.energies is not None, target.forces is not None

        def frame(u, x, box):
            value, slope = core.value_and_grad(energy, 1)(u, x, box) if want_f else (energy(u, x, box), None)
            energies = [np.reshape(value, (1,))] if want_e else []
            return np.concatenate([*energies, np.reshape(np.negative(slope), (-1,))] if want_f else energies)

        frame.kernels = energy.kernels
        self._frames = OverFrames(frame, None, target.positions, target.boxes)
        reference = ([target.energies[:, None]] if want_e else []) + (
            [target.forces.reshape(len(target.positions), -1)] if want_f else []
        )
        self._reference = np.concatenate(reference, axis=1)
        self._scales = np.full(self._reference.shape[1], target.force_error)
        if want_e:
            self._scales[0] = target.energy_error
        self._centered = want_e and target.offset
        self.jacobian: np.ndarray | None = None

    @property
    def total(self):
        """Sum of energies and forces, by which data can be told apart."""
        return float(np.sum(self._reference))

    def _weighted(self, rows):
        """In units of the errors, energies relative to their mean; rows [frames, values, ...]."""
        rows = rows.copy()
        if self._centered:
            rows[:, 0] -= rows[:, 0].mean(axis=0)
        shape = (1, -1) + (1,) * (rows.ndim - 2)
        return (rows / self._scales.reshape(shape)).reshape(-1, *rows.shape[2:])

    def residuals(self, u):
        return self._weighted(self._frames.values([u]) - self._reference)

    def both(self, u):
        """Residuals and their Jacobian."""
        values, jacobian = self._frames.jacobians([u])
        self.jacobian = self._weighted(jacobian)
        return self._weighted(values - self._reference), self.jacobian
