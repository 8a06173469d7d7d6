"""`fit`: parameters of a force field from energies and forces, and from what simulations should give."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from triskele.core.extend import Reports, Work, check, plots, short_repr

from ..errors import CheckpointError
from .parameters import Parameters
from .problem import Problem
from .rounds import Differentiated, Reweighted
from .sampling import Reweighting, Trajectories
from .saved import Saved
from .targets import EnergiesForces, Target

if TYPE_CHECKING:
    from ..system import System

__all__ = ["Fit", "Round", "fit"]


@short_repr
@dataclass(frozen=True)
class Round:
    """Result of one round of a fit.

    Attributes
    ----------
    parameters : dict
        Parameters after the round.
    loss : float
        Half the sum of squared deviations, in units of the targets' errors.
    effective : float
        Effective number of frames at these parameters; NaN where nothing was reweighted.
    """

    parameters: dict[str, Any]
    loss: float
    effective: float


@short_repr
@dataclass(frozen=True, eq=False)
class Fit:
    """Result of `fit`.

    Attributes
    ----------
    system : System
        A copy with the parameters that were found.
    parameters, errors : dict of str to number or array
        By the names that were given; the errors are standard errors due to sampling or, where nothing was sampled, to
        what is left of the deviations.
    reached : dict of str to array
        Values reached for the targets, by name.
    history : list of Round
    converged : bool
        True if the last step was within `tolerance` or twice the errors.
    stopped : str or None
        Why a reporter ended the fit early.
    """

    system: System
    parameters: dict[str, Any]
    errors: dict[str, Any]
    reached: dict[str, np.ndarray]
    history: list[Round] = field(repr=False)
    converged: bool = True
    stopped: str | None = None

    def plot(self, ax: Any = None, **line: Any) -> Any:
        """Draw the loss after each round."""
        with plots.axes(ax, xlabel="round", ylabel="loss") as ax:
            plots.curves(ax, np.arange(1, len(self.history) + 1), {"loss": [r.loss for r in self.history]}, **line)
        return ax

    def __str__(self):
        lines = [
            f"{'converged' if self.converged else 'not converged'} after {len(self.history)} rounds, loss "
            f"{self.history[-1].loss:.4g}"
        ]
        for name, value in self.parameters.items():
            pairs = zip(np.ravel(value), np.ravel(self.errors[name]), strict=True)
            lines.append(f"  {name}: " + ", ".join(f"{v:.6g} ± {e:.1g}" for v, e in pairs))
        return "\n".join(lines)


def fit(
    system: System,
    targets: Sequence[Target | EnergiesForces],
    parameters: Any,
    *,
    by: Reweighting | Trajectories | None = None,
    rounds: int = 10,
    tolerance: float = 1e-3,
    checkpoint: str | os.PathLike | None = None,
    report: Reports = None,
    progress: bool | None = None,
) -> Fit:
    """Fit parameters of potentials to targets.

    With targets that are averages over simulations, rounds alternate between runs of the compiled engine and
    minimization of the squared deviations, with gradients by reweighting or through trajectories, as `by` says. Targets
    of given configurations alone need no simulation: they are fitted by least squares.

    Parameters
    ----------
    system : System
        Initial parameters and positions; not modified.
    targets : sequence
        Made by `sponge.targets`: ``targets.rdf(r, g)``, ``targets.pressure(1.0)``, ``targets.energies_forces(...)``,
        ...
    parameters : sequence of str, mapping, or (mapping, callable)
        Parameters to fit, see `fitting.Parameters`: ``["nonbonded/epsilons", "nonbonded/sigmas"]``.
    by : Reweighting or Trajectories
        Method of averages and gradients; not needed for energies and forces.
    rounds : int
        The most rounds.
    tolerance : float
        Relative change of parameters in a round below which the fit has converged; so it has within twice their errors.
    checkpoint : path-like, optional
        File of the rounds and samples so far, written after every round. If it exists, the fit resumes from it, bit
        for bit. A fit to given configurations alone, which needs no simulation, is computed again up to that step.
    report : function or list of functions, optional
        Called after every round with a dictionary of ``step``, ``loss``, and the parameters by name (those of arrays
        with a number behind it); see `core.report`. A reporter that raises StopIteration ends the fit with the
        parameters of that round; `Fit.stopped` keeps its reason.
    progress : bool, optional
        Show a progress bar. By default only on terminals and in notebooks.

    Returns
    -------
    Fit

    Raises
    ------
    KeyError, ValueError, TypeError
        If a parameter does not exist, has no effect, or a target does not depend on any.
    PoorOverlapError
        If frames cannot be reweighted.
    CheckpointError
        If the checkpoint belongs to another fit; the message names what differs.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import fit
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
        raise TypeError(
            f"fit: targets must be a list of targets, at least one, as sponge.targets makes them, got {targets!r:.80}"
        )
    check.integer(rounds, "fit: rounds", 1)
    problem = Problem(system, targets, Parameters(system, parameters), by)
    if not problem.sampled:
        return _least_squares(problem, Saved(checkpoint, problem), report, progress)
    if by is None:
        raise ValueError(
            "fit: by must say how averages are made: fitting.Reweighting(...) or fitting.Trajectories(...)"
        )
    make = {Reweighting: Reweighted, Trajectories: Differentiated}.get(type(by))
    if make is None:
        raise TypeError(f"fit: by must be Reweighting or Trajectories, got {type(by).__name__}")
    way, u, rows, converged = make(problem, by), np.zeros(problem.parameters.size), [], False
    saved = Saved(checkpoint, problem, by=repr(by), tolerance=tolerance)
    if saved.value is not None:
        try:
            rows = [(r["u"], r["loss"], r["effective"]) for r in saved.value["rounds"]]
            converged, u, errors = saved.value["converged"], np.array(rows[-1][0]), saved.arrays.pop("errors")
            way.restore(saved.arrays, len(rows) - 1)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise CheckpointError(f"checkpoint {os.fspath(checkpoint)!r}: does not hold a fit: {error}") from error
    history = [Round(problem.parameters.values(np.array(u)), loss, effective) for u, loss, effective in rows]
    with Work("fit", report, progress, unit="round", total=rounds, done=len(history)) as work:
        for number in range(len(history), 0 if converged else rounds):
            way.sample(u, number)
            new = way.minimize(u)
            rows.append((new.tolist(), way.loss(new), way.effective(new)))
            history.append(Round(problem.parameters.values(new), *rows[-1][1:]))
            errors = way.errors(new)
            step, u = np.abs(new - u), new
            converged = bool(not way.limited and np.all(step <= np.fmax(tolerance, 2 * errors)))
            work(_record(number + 1, history[-1]), f"loss {history[-1].loss:.4g}")
            work.sync()
            saved.write(
                {"rounds": [{"u": u, "loss": x, "effective": float(e)} for u, x, e in rows], "converged": converged},
                {"errors": errors, **way.state()},
            )
            if converged or work.stopped:
                break
    return _result(problem, u, errors, way.reached(u), history, converged, work.stopped)


def _record(number, this):
    """The numbers of a round, flat."""
    record = {"step": number, "loss": float(this.loss)}
    for name, value in this.parameters.items():
        values = np.ravel(value)
        record |= {name if np.ndim(value) == 0 else f"{name}/{k}": float(v) for k, v in enumerate(values)}
    return record


def _least_squares(problem, saved, report, progress):
    from scipy.optimize import least_squares

    history, done = [], 0 if saved.value is None else int(saved.value["steps"])

    def residuals(u):
        return np.concatenate([g.residuals(u) for g in problem.given])

    def jacobian(u):
        parts = [g.both(u) for g in problem.given]
        j = np.concatenate([p[1] for p in parts])
        problem.check_slopes(np.empty((0, j.shape[1])))
        history.append(Round(problem.parameters.values(u), 0.5 * float(sum(np.sum(p[0] ** 2) for p in parts)), np.nan))
        if not work.stopped and len(history) > done:
            work(_record(len(history), history[-1]), f"loss {history[-1].loss:.4g}")
            work.sync()
            saved.write({"steps": len(history)})
        if work.stopped:
            raise _Stop(u, j)
        return j

    u = np.zeros(problem.parameters.size)
    with Work("fit", report, progress, unit="step", done=done) as work:
        try:
            found = least_squares(residuals, u, jacobian, method="trf", x_scale="jac")
            u, slopes, converged = found.x, found.jac, bool(found.success)
        except _Stop as stop:
            u, slopes, converged = *stop.args, False
    cost = 0.5 * float(np.sum((final := residuals(u)) ** 2))
    left = 2 * cost / max(len(final) - len(u), 1)
    errors = np.sqrt(np.diag(np.linalg.pinv(slopes.T @ slopes)) * left)
    history.append(Round(problem.parameters.values(u), cost, np.nan))
    return _result(problem, u, errors, {}, history, converged, work.stopped)


class _Stop(Exception):
    """A reporter asked for the end: with the parameters and slopes of then."""


def _result(problem, u, errors, reached, history, converged, stopped):
    p = problem.parameters
    plain = lambda tree: {k: np.asarray(v, np.float64) if np.ndim(v) else float(v) for k, v in tree.items()}
    return Fit(problem.at(u), plain(p.values(u)), plain(p.errors(u, errors)), reached, history, converged, stopped)
