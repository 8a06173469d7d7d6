"""`fit`: parameters of a force field from energies and forces, and from what simulations should give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from triskele import core
from triskele.sponge.differentiate.energy import explicit_energy
from triskele.sponge.differentiate.observables import Observable
from triskele.sponge.differentiate.parameters import Parameters
from triskele.sponge.differentiate.reweight import Ensemble, OverFrames
from triskele.sponge.differentiate.sampling import Reweighting, Trajectories, sample
from triskele.sponge.differentiate.trajectory import trajectory
from triskele.sponge.potentials.nonbonded import Nonbonded
from triskele.sponge.targets import EnergiesForces, Target

if TYPE_CHECKING:
    from triskele.sponge.system import System

__all__ = ["Fit", "Round", "fit"]

_LONGEST = 0.2  # largest change of a parameter, relative to its size, in one step
_NOTHING = 1e-9  # derivative, in units of a target's error, that is rounding
_BLOCKS = 10  # of each run, for statistical errors
_BFGS_STEPS = 6  # of a round, after which new starts are sampled
_FEW = 20  # parameters for which a matrix of second derivatives is made from differences of gradients
_SMALL = 1000  # atoms up to which a list of all pairs is faster than the kernels, called from Python frame by frame


@dataclass(frozen=True)
class Round:
    """What one round of a fit did.

    Attributes
    ----------
    parameters : dict
        After the round.
    loss : float
        Half the sum of squared deviations, in units of the targets' errors.
    effective : float
        Effective number of frames at these parameters; NaN where nothing was reweighted.
    """

    parameters: dict[str, Any]
    loss: float
    effective: float


@dataclass(frozen=True, eq=False)
class Fit:
    """What `fit` found.

    Attributes
    ----------
    system : System
        A copy with the parameters that were found.
    parameters, errors : dict of str to number or array
        By the names that were given; the errors are standard errors due to sampling or, where nothing was sampled, to what is
        left of the deviations.
    reached : dict of str to array
        What the targets came to, by name.
    history : list of Round
    converged : bool
        Whether the last step was within `tolerance` or twice the errors.
    """

    system: System
    parameters: dict[str, Any]
    errors: dict[str, Any]
    reached: dict[str, np.ndarray]
    history: list[Round] = field(repr=False)
    converged: bool = True

    def __str__(self):
        lines = [f"{'converged' if self.converged else 'not converged'} after {len(self.history)} rounds, loss {self.history[-1].loss:.4g}"]
        for name, value in self.parameters.items():
            pairs = zip(np.ravel(value), np.ravel(self.errors[name]), strict=True)
            lines.append(f"  {name}: " + ", ".join(f"{v:.6g} ± {e:.1g}" for v, e in pairs))
        return "\n".join(lines)


def fit(system: System, targets: Sequence[Target | EnergiesForces], parameters: Any, *, by: Reweighting | Trajectories | None = None,
        rounds: int = 10, tolerance: float = 1e-3, progress: bool = False) -> Fit:
    """Bring a system to targets by changing parameters of its potentials.

    With targets that are averages over simulations, rounds alternate between runs of the compiled engine and minimisation
    of the squared deviations, with gradients by reweighting or through trajectories, as `by` says. Targets of given
    configurations alone need no simulation: they are fitted by least squares.

    Parameters
    ----------
    system : System
        With the parameters and positions to start from; stays as it is.
    targets : sequence
        Made by `sponge.targets`: ``targets.rdf(r, g)``, ``targets.pressure(1.0)``, ``targets.energies_forces(...)``, ...
    parameters : sequence of str, mapping, or (mapping, callable)
        What may change, see `differentiate.Parameters`: ``["nonbonded/epsilons", "nonbonded/sigmas"]``.
    by : Reweighting or Trajectories
        How averages are made; not needed for energies and forces.
    rounds : int
        The most rounds.
    tolerance : float
        Relative change of parameters in a round below which the fit has converged; so it has within twice their errors.
    progress : bool
        Print a line a round.

    Returns
    -------
    Fit

    Raises
    ------
    KeyError, ValueError, TypeError
        If a parameter does not exist, has no effect, or a target does not depend on any.
    PoorOverlapError
        If frames cannot be reweighted.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import sponge
    >>> system = sponge.System(sponge.Topology.of_particles(2), [12.0, 12.0], positions=[[0, 0, 0], [0.16, 0, 0]])
    >>> _ = system.add(sponge.harmonic_bond([[0, 1]], k=1000.0, r0=0.15))
    >>> frames = np.array([[[0, 0, 0], [r, 0, 0]] for r in (0.11, 0.12, 0.13)])
    >>> energies = [0.5 * 2000 * (r - 0.125) ** 2 for r in (0.11, 0.12, 0.13)]
    >>> found = fit(system, [sponge.targets.energies_forces(frames, energies)], ["bond/k", "bond/r0"])
    >>> {name: round(float(value), 3) for name, value in found.parameters.items()}
    {'bond/k': 2000.0, 'bond/r0': 0.125}
    """
    targets = [targets] if isinstance(targets, (Target, EnergiesForces)) else list(targets)
    if not targets or not all(isinstance(t, (Target, EnergiesForces)) for t in targets):
        raise TypeError("fit: targets must be a list of targets, as sponge.targets makes them")
    if isinstance(rounds, bool) or not hasattr(rounds, "__index__") or rounds < 1:
        raise ValueError(f"fit: rounds must be a whole number >= 1, got {rounds!r}")
    problem = _Problem(system, targets, Parameters(system, parameters), by)
    if not problem.sampled:
        return _least_squares(problem)
    if by is None:
        raise ValueError("fit: by must say how averages are made: differentiate.Reweighting(...) or differentiate.Trajectories(...)")
    make = {Reweighting: _Reweighted, Trajectories: _Differentiated}.get(type(by))
    if make is None:
        raise TypeError(f"fit: by must be Reweighting or Trajectories, got {type(by).__name__}")
    way, u, history, converged = make(problem, by), np.zeros(problem.parameters.size), [], False
    for number in range(rounds):
        way.sample(u, number)
        new = way.minimize(u)
        history.append(Round(problem.parameters.values(new), way.loss(new), way.effective(new)))
        errors = way.errors(new)
        if progress:
            shown = ", ".join(f"{name} {np.array2string(np.asarray(v), precision=5)}" for name, v in history[-1].parameters.items())
            print(f"round {number + 1}: loss {history[-1].loss:.4g}, {shown}")
        step, u = np.abs(new - u), new
        if np.all(step <= np.fmax(tolerance, 2 * errors)):
            converged = True
            break
    return problem.result(u, errors, way.reached(u), history, converged)


class _Problem:
    """System, targets and parameters; everything as functions of the vector u."""

    def __init__(self, system, targets, parameters, by):
        self.system, self.parameters = system, parameters
        self.sampled = [t for t in targets if isinstance(t, Target)]
        self.given = [_Given(t, self) for t in targets if isinstance(t, EnergiesForces)]
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
        """All targets' quantities in one vector, from the means of the observables."""
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
        """Raise where nothing depends on a parameter, or a target on none; `jacobian` in units of the targets' errors."""
        at = 0
        for t in self.sampled:
            if not np.any(np.abs(jacobian[at : at + t.value.size]) > _NOTHING):
                raise ValueError(f"fit: target {t.name!r} must depend on the parameters, but its gradient is zero (a density needs a barostat)")
            at += t.value.size
        rest = np.concatenate([jacobian, *[g.jacobian for g in self.given if g.jacobian is not None]])
        if np.any(idle := ~np.any(np.abs(rest) > _NOTHING, axis=0)):
            raise ValueError(f"fit: every parameter must have an effect on the targets, but number {int(np.argmax(idle))} of "
                             f"{', '.join(self.parameters.start)} has none")

    def result(self, u, errors, reached, history, converged):
        p = self.parameters
        plain = lambda tree: {k: np.asarray(v, np.float64) if np.ndim(v) else float(v) for k, v in tree.items()}  # noqa: E731
        return Fit(self.at(u), plain(p.values(u)), plain(p.errors(u, errors)), reached, history, converged)


def _with_params(f, parameters):
    def g(u, positions, box=None):
        return f(parameters.params(u), positions, box)

    g.kernels = not _is_pure(f)
    return g


def _is_pure(f):
    from triskele.sponge.derivatives import EnergyFunction

    return not isinstance(f, EnergyFunction)


# ------------------------------------------------------------------------------------------------------- given frames
class _Given:
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
            parts = ([np.reshape(value, (1,))] if want_e else []) + ([np.reshape(-slope, (-1,))] if want_f else [])
            return np.concatenate(parts)

        frame.kernels = energy.kernels
        self._frames = OverFrames(frame, None, target.positions, target.boxes)
        reference = ([target.energies[:, None]] if want_e else []) + ([target.forces.reshape(len(target.positions), -1)] if want_f else [])
        self._reference = np.concatenate(reference, axis=1)
        self._scales = np.full(self._reference.shape[1], target.force_error)
        if want_e:
            self._scales[0] = target.energy_error
        self._centred = want_e and target.offset
        self.jacobian: np.ndarray | None = None

    def _weighted(self, rows):
        """In units of the errors, energies relative to their mean; rows [frames, values, ...]."""
        rows = rows.copy()
        if self._centred:
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


def _least_squares(problem):
    from scipy.optimize import least_squares

    history = []

    def residuals(u):
        return np.concatenate([g.residuals(u) for g in problem.given])

    def jacobian(u):
        parts = [g.both(u) for g in problem.given]
        j = np.concatenate([p[1] for p in parts])
        problem.sampled or problem.check_slopes(np.empty((0, j.shape[1])))
        history.append(Round(problem.parameters.values(u), 0.5 * float(sum(np.sum(p[0] ** 2) for p in parts)), np.nan))
        return j

    u = np.zeros(problem.parameters.size)
    found = least_squares(residuals, u, jacobian, method="trf", x_scale="jac")
    left = 2 * found.cost / max(len(found.fun) - len(u), 1)
    errors = np.sqrt(np.diag(np.linalg.pinv(found.jac.T @ found.jac)) * left)
    history.append(Round(problem.parameters.values(found.x), float(found.cost), np.nan))
    return problem.result(found.x, errors, {}, history, bool(found.success))


# --------------------------------------------------------------------------------------------------------- reweighting
class _Reweighted:
    """Gauss and Newton's steps on averages over an `Ensemble`, within its overlap."""

    def __init__(self, problem, by):
        self.problem, self.by = problem, by
        self.energy, self.ensemble, self.last = problem.energy(), None, None

    def sample(self, u, number):
        by, system = self.by, self.problem.at(u)
        if self.last is not None:
            system.positions, system.velocities = self.last.positions[-1], self.last.velocities[-1]
            if self.last.boxes is not None:
                system.box = self.last.boxes[-1]
        self.last = sample(system, by.integrator, by.steps, by.every, by.equilibrate, by.barostat, by.seed + number)
        if self.ensemble is None or self.effective(u) < by.least * len(self.ensemble):
            self.ensemble = Ensemble(self.energy, self.problem.temperature, least=0.0)
        self.ensemble.add(u, self.last.positions, self.last.boxes)

    def effective(self, u):
        return self.ensemble.effective_samples(u)

    def _finals(self, u):
        means = [np.tensordot(self.ensemble.weights(u), self.ensemble.values(o, u), 1) for o in self.problem.observables]
        return self.problem.finals(means)

    def _residuals(self, u):
        p = self.problem
        return np.concatenate([(self._finals(u) - p.values) / p.scales, *[g.residuals(u) for g in p.given]])

    def _both(self, u):
        p = self.problem
        values, pull = core.vjp(self._finals, u)
        jacobian = np.array([pull(row)[0] for row in np.eye(len(values))])
        parts = [g.both(u) for g in p.given]
        jacobian = jacobian / p.scales[:, None]
        p.check_slopes(jacobian)
        return (np.concatenate([(values - p.values) / p.scales, *[r for r, _ in parts]]),
                np.concatenate([jacobian, *[j for _, j in parts]]))

    def loss(self, u):
        return 0.5 * float(np.sum(self._residuals(u) ** 2))

    def minimize(self, u):
        least = self.by.least * len(self.ensemble)
        for _ in range(20):
            residuals, jacobian = self._both(u)
            step = -np.linalg.lstsq(jacobian, residuals, rcond=1e-8)[0]
            step *= min(1.0, _LONGEST / np.max(np.abs(step)))
            before, whole, bounded = 0.5 * np.sum(residuals**2), step, False
            while np.max(np.abs(step)) > 1e-6:
                if self.effective(u + step) < least:
                    bounded = True
                elif self.loss(u + step) < before:
                    break
                step = 0.5 * step
            else:
                return u
            u = u + step
            if bounded or np.max(np.abs(whole)) < 1e-4:
                return u
        return u

    def errors(self, u):
        """From the scatter of blocks of the runs, through the linearised fit."""
        p, e = self.problem, self.ensemble
        _, full = self._both(u)
        w, scatter = e.weights(u), 0.0
        deviations = []
        for o in p.observables:
            values = e.values(o, u)
            mean = np.tensordot(w, values, 1)
            d = (values - mean).reshape(len(values), -1) * w[:, None]
            if o.of_mean is not None:
                slope = core.jacrev(o.of_mean)(mean)
                d = d @ np.reshape(slope, (-1, mean.size)).T
            deviations.append(d)
        deviations = np.concatenate(deviations, axis=1) / p.scales
        start = 0
        for count in e.counts:
            for block in np.array_split(deviations[start : start + count], min(_BLOCKS, count)):
                total = block.sum(axis=0)
                scatter = scatter + np.outer(total, total)
            start += count
        solve = np.linalg.pinv(full)[:, : len(p.values)]
        return np.sqrt(np.diag(solve @ scatter @ solve.T))

    def reached(self, u):
        return self.problem.named(np.asarray(self._finals(u)))


# -------------------------------------------------------------------------------------------------- through trajectories
class _Differentiated:
    """Quasi-Newton steps on averages along short trajectories, with one set of starts and noise for each round."""

    def __init__(self, problem, by):
        system = problem.system
        if len(system.constraints) or system.virtual_sites:
            raise ValueError("fit: trajectories are differentiated without constraints and virtual sites, but the system has some (use Reweighting)")
        if not 0 <= by.relax < by.steps or by.relax % by.every:
            raise ValueError(f"fit: relax must be a multiple of every and less than all steps, got {by.relax} of {by.steps}")
        if by.replicas < 2:
            raise ValueError(f"fit: replicas must be >= 2, for errors, got {by.replicas}")
        self.problem, self.by, self.last = problem, by, None
        run = trajectory(problem.energy(explicit=True), system.masses, by.integrator, by.steps,
                         lambda u, x, box: [o.frame(u, x, box) for o in problem.observables], by.every, by.method)

        def averages(u, x, v, box, seed):
            return [np.mean(values[by.relax // by.every :], axis=0) for values in run(u, x, v, box, seed).observed]

        periodic = system.box is not None

        def finals(us, x, v, boxes, seeds):
            means = core.vmap(averages, (0, 0, 0, 0 if periodic else None, 0))(us, x, v, boxes, seeds)
            return problem.finals([np.mean(m, axis=0) for m in means]), core.vmap(problem.finals)(means)

        def loss(us, *starts):
            values, own = finals(us, *starts)
            return 0.5 * np.sum(((values - problem.values) / problem.scales) ** 2), (values, own)

        self._curvature: np.ndarray | None = None
        self._slope = core.jit(core.value_and_grad(loss, has_aux=True))

    def sample(self, u, number):
        by, system = self.by, self.problem.at(u)
        if self.last is not None:
            system.positions, system.velocities = self.last.positions[-1], self.last.velocities[-1]
        self.last = sample(system, by.integrator, by.replicas * by.equilibrate, by.equilibrate, seed=by.seed + number)
        self._seeds = by.seed + by.replicas * number + np.arange(by.replicas)
        self._known: dict[bytes, Any] = {}

    def _evaluate(self, u):
        """Loss, gradient, and the targets' quantities, from all replicas together and from each."""
        key = np.asarray(u, np.float64).tobytes()
        if key not in self._known:
            (value, finals), slopes = self._slope(np.tile(u, (self.by.replicas, 1)), *self.last, self._seeds)
            parts = [g.both(u) for g in self.problem.given]
            value = float(value) + sum(0.5 * float(np.sum(r**2)) for r, _ in parts)
            self._known[key] = value, slopes.sum(axis=0) + sum((r @ j for r, j in parts), np.zeros(len(u))), *finals
        return self._known[key]

    def effective(self, u):
        return np.nan

    def loss(self, u):
        return self._evaluate(u)[0]

    def minimize(self, u):
        """BFGS with backtracking, from the curvature of Gauss and Newton where parameters are few."""
        slope = self._evaluate(u)[1]
        if not np.any(slope):
            raise ValueError("fit: the targets must depend on the parameters, but the gradient is zero")
        if self._curvature is None:
            jacobian = self._jacobian(u)
            scale = np.eye(len(u)) * np.max(np.abs(slope)) / _LONGEST
            self._curvature = scale if jacobian is None else jacobian.T @ jacobian
        for _ in range(_BFGS_STEPS):
            values, vectors = np.linalg.eigh(self._curvature)
            values = np.maximum(np.abs(values), 1e-6 * np.max(np.abs(values)))
            step = -vectors @ ((vectors.T @ slope) / values)
            step *= min(1.0, _LONGEST / np.max(np.abs(step)))
            before = self.loss(u)
            while self.loss(u + step) > before + 1e-4 * (slope @ step):
                step = 0.3 * step
                if np.max(np.abs(step)) < 1e-5:
                    return u
            u, old, slope = u + step, slope, self._evaluate(u + step)[1]
            change, reach = slope - old, self._curvature @ step
            if change @ step > 1e-3 * (step @ reach):  # keeps the curvature positive along the step
                self._curvature = (self._curvature + np.outer(change, change) / (change @ step) - np.outer(reach, reach) / (step @ reach))
            if before - self.loss(u) < 1e-3 * before or np.max(np.abs(step)) < 2e-4:
                break
        return u

    def _jacobian(self, u):
        """Of all residuals, by differences with the same starts and noise; None where parameters are many."""
        if len(u) > _FEW:
            return None
        h, p = 1e-3, self.problem
        columns = [(self._evaluate(u + h * e)[2] - self._evaluate(u - h * e)[2]) / (2 * h) / p.scales for e in np.eye(len(u))]
        return np.concatenate([np.stack(columns, axis=1), *[g.both(u)[1] for g in p.given]])

    def errors(self, u):
        """From the scatter of the replicas, through the linearised fit; NaN where parameters are many."""
        jacobian, count = self._jacobian(u), self.by.replicas
        if jacobian is None:
            return np.full(len(u), np.nan)
        own = self._evaluate(u)[3] / self.problem.scales
        scatter = np.atleast_2d(np.cov(own.T)) / count
        solve = np.linalg.pinv(jacobian)[:, : len(scatter)]
        return np.sqrt(np.diag(solve @ scatter @ solve.T))

    def reached(self, u):
        return self.problem.named(np.asarray(self._evaluate(u)[2]))
