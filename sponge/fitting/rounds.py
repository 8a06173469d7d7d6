"""The two kinds of rounds of a fit: by reweighting, and through trajectories."""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele import core
from triskele.core.extend import check

from ..differentiate.reweight import Ensemble
from ..differentiate.trajectory import trajectory
from .problem import Problem
from .sampling import Reweighting, Samples, Trajectories, sample

__all__ = ["Differentiated", "Reweighted"]

_LONGEST = 0.2  # largest change of a parameter, relative to its size, in one step
_BLOCKS = 10  # of each run, for statistical errors
_STEPS, _BFGS_STEPS = 20, 6  # at most in a round, before there are new samples
_FEW = 20  # parameters for which a Jacobian is made by differences


class Reweighted:
    """Gauss and Newton's steps on averages over an `Ensemble`, within its overlap."""

    def __init__(self, problem: Problem, by: Reweighting):
        # limited: the last minimization ended at the limit of the overlap
        self.problem, self.by, self.limited = problem, by, False
        self.energy, self.ensemble, self.last = problem.energy(), None, None
        self._added: list[tuple[np.ndarray, Samples]] = []  # to the ensemble

    def sample(self, u, number):
        by, system = self.by, self.problem.at(u)
        if self.last is not None:
            system.positions, system.velocities = self.last.positions[-1], self.last.velocities[-1]
            if self.last.boxes is not None:
                system.box = self.last.boxes[-1]
        found = sample(system, by.integrator, by.steps, by.every, by.equilibrate, by.barostat, by.seed + number)
        if self.ensemble is None or self.effective(u) < by.least * len(self.ensemble):
            self.ensemble, self._added = Ensemble(self.energy, self.problem.temperature, least=0.0), []
        self._add(u, found)

    def _add(self, u, samples):
        self.ensemble.add(u, samples.positions, samples.boxes)
        self._added.append((u, samples))
        self.last = samples

    def state(self):
        """Arrays from which `restore` continues: what the ensemble is made of."""
        return {
            f"{k}/{name}": x
            for k, (u, samples) in enumerate(self._added)
            for name, x in {"u": u, **samples._asdict()}.items()
            if x is not None
        }

    def restore(self, arrays, _number):
        self.ensemble = Ensemble(self.energy, self.problem.temperature, least=0.0)
        while (k := len(self._added)) < sum(name.endswith("/u") for name in arrays):
            self._add(arrays[f"{k}/u"], _samples(arrays, f"{k}/"))

    def effective(self, u):
        return self.ensemble.effective_samples(u)

    def _finals(self, u):
        means = [
            np.tensordot(self.ensemble.weights(u), self.ensemble.values(o, u), 1) for o in self.problem.observables
        ]
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
        return (
            np.concatenate([(values - p.values) / p.scales, *[r for r, _ in parts]]),
            np.concatenate([jacobian, *[j for _, j in parts]]),
        )

    def loss(self, u):
        return 0.5 * float(np.sum(self._residuals(u) ** 2))

    def minimize(self, u):
        least, self.limited = self.by.least * len(self.ensemble), False
        for _ in range(_STEPS):
            residuals, jacobian = self._both(u)
            step = -np.linalg.lstsq(jacobian, residuals, rcond=1e-8)[0]
            step *= min(1.0, _LONGEST / max(np.max(np.abs(step)), 1e-12))
            before, whole = 0.5 * np.sum(residuals**2), step
            while np.max(np.abs(step)) > 1e-6:
                if self.effective(u + step) < least:
                    self.limited = True
                elif self.loss(u + step) < before:
                    break
                step = 0.5 * step
            else:
                return u
            u = u + step
            if self.limited or np.max(np.abs(whole)) < 1e-4:
                return u
        return u

    def errors(self, u):
        """Estimate errors from the scatter of blocks of the runs, through the linearized fit."""
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


class Differentiated:
    """Quasi-Newton steps on averages along short trajectories, with one set of starts and noise for each round."""

    limited = False

    def __init__(self, problem: Problem, by: Trajectories):
        system = problem.system
        if len(system.constraints) or system.virtual_sites:
            raise ValueError(
                "fit: trajectories are differentiated without constraints and virtual sites, but the "
                "system has some (use Reweighting)"
            )
        if not 0 <= by.relax < by.steps or by.relax % by.every:
            raise ValueError(
                f"fit: relax must be a multiple of every and less than all steps, got {by.relax} of {by.steps}"
            )
        check.integer(by.replicas, "fit: replicas", 2)
        self.problem, self.by = problem, by
        self.last: Any = None
        run = trajectory(
            problem.energy(explicit=True),
            system.masses,
            by.integrator,
            by.steps,
            lambda u, x, box: [o.frame(u, x, box) for o in problem.observables],
            by.every,
            by.method,
        )

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
        self._begin(
            sample(system, by.integrator, by.replicas * by.equilibrate, by.equilibrate, seed=by.seed + number), number
        )

    def _begin(self, samples, number):
        by, self.last = self.by, samples
        self._seeds = by.seed + by.replicas * number + np.arange(by.replicas)
        self._known: dict[bytes, Any] = {}

    def state(self):
        """Arrays from which `restore` continues."""
        return {name: x for name, x in {"curvature": self._curvature, **self.last._asdict()}.items() if x is not None}

    def restore(self, arrays, number):
        self._curvature = arrays["curvature"]
        self._begin(_samples(arrays), number)

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
            step *= min(1.0, _LONGEST / max(np.max(np.abs(step)), 1e-12))
            before = self.loss(u)
            while self.loss(u + step) > before + 1e-4 * (slope @ step):
                step = 0.3 * step
                if np.max(np.abs(step)) < 1e-5:
                    return u
            u, old, slope = u + step, slope, self._evaluate(u + step)[1]
            change, reach = slope - old, self._curvature @ step
            if change @ step > 1e-3 * (step @ reach):  # keeps the curvature positive along the step
                self._curvature = (
                    self._curvature
                    + np.outer(change, change) / (change @ step)
                    - np.outer(reach, reach) / (step @ reach)
                )
            if before - self.loss(u) < 1e-3 * before or np.max(np.abs(step)) < 2e-4:
                break
        return u

    def _jacobian(self, u):
        """Return derivatives of all residuals by differences at equal starts and noise; None for many parameters."""
        if len(u) > _FEW:
            return None
        h, p = 1e-3, self.problem
        columns = [
            (self._evaluate(u + h * e)[2] - self._evaluate(u - h * e)[2]) / (2 * h) / p.scales for e in np.eye(len(u))
        ]
        return np.concatenate([np.stack(columns, axis=1), *[g.both(u)[1] for g in p.given]])

    def errors(self, u):
        """Errors from the scatter of the replicas, through the linearized fit; NaN where parameters are many."""
        jacobian, count = self._jacobian(u), self.by.replicas
        if jacobian is None:
            return np.full(len(u), np.nan)
        own = self._evaluate(u)[3] / self.problem.scales
        scatter = np.atleast_2d(np.cov(own.T)) / count
        solve = np.linalg.pinv(jacobian)[:, : len(scatter)]
        return np.sqrt(np.diag(solve @ scatter @ solve.T))

    def reached(self, u):
        return self.problem.named(np.asarray(self._evaluate(u)[2]))


def _samples(arrays, start=""):
    return Samples(arrays[f"{start}positions"], arrays[f"{start}velocities"], arrays.get(f"{start}boxes"))
