"""Minimization of the potential energy: L-BFGS and FIRE, on the surface where all constraints hold.

Forces are projected on the directions that constraints allow, and after every move atoms go back to the surface along
the constraint forces. All atoms count the same here, whatever their masses; those without mass stay where they are, or
where virtual sites are placed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from triskele.core.extend import Reports, Work, check, said_without_bar

from ..constraints.solver import Solver
from ..engine.engine import Engine, Runner
from ..engine.flags import ENERGY, FORCES_STALE, REBUILD, STATUS, STEP
from ..errors import BrokenSimulationError, ConstraintError
from ..quantities import number_in

__all__ = ["Minimum", "minimize"]

_LARGEST_MOVE = 0.02  # nm, of any atom in one step
_FIRST_MOVE = 0.001  # nm, of the atom with the largest force, when nothing is known of curvatures
_MEMORY = 8  # pairs that L-BFGS keeps
_ARMIJO = 1e-4  # of the decrease that the slope promises, what a step must bring
_NOISE = {"mixed": 1e-6, "double": 1e-10}  # of energies, relative
_MOST_HALVINGS = 20
_JITTER, _MOST_JITTERS = 0.01, 10  # nm, for atoms on top of each other


@dataclass(frozen=True)
class Minimum:
    """Result of a minimization.

    Attributes
    ----------
    energy : float
        Potential energy in kJ/mol.
    rms_force : float
        Root of the mean square of the components of the forces that constraints leave, in kJ/mol/nm.
    steps : int
    converged : bool
        True if `rms_force` is at most the tolerance.
    message : str
        Reason for stopping.
    """

    energy: float
    rms_force: float
    steps: int
    converged: bool
    message: str


def minimize(
    engine: Engine,
    tolerance: float = 10.0,
    max_steps: int = 0,
    method: Literal["lbfgs", "fire"] = "lbfgs",
    report: Reports = None,
    progress: bool | None = None,
) -> Minimum:
    """Move ``engine.positions`` to a local minimum of the potential energy; see `Simulation.minimize`.

    "lbfgs" takes quasi-Newton steps with a line search: Liu, Nocedal, "On the limited memory BFGS method for large
    scale optimization", Math. Program. 45 (1989) 503, doi:10.1007/BF01589116. "fire" is damped dynamics: Bitzek,
    Koskinen, Gähler, Moseler, Gumbsch, "Structural relaxation made simple", Phys. Rev. Lett. 97 (2006) 170201,
    doi:10.1103/PhysRevLett.97.170201.

    Raise BrokenSimulationError if energies are not finite though atoms have been moved apart at random, and
    ConstraintError if the positions are too far from fulfilling the constraints.
    """
    check.choice(method, _METHODS, "minimize: method")
    tolerance = number_in("kJ/mol/nm", tolerance, "minimize: tolerance")
    check.positive(tolerance, "minimize: tolerance")
    surface = _Surface(engine)
    energy, force = surface.start()
    try:
        limit = f", or {max_steps:,} steps" if max_steps else ""
        line = f"minimize: {engine.n:,} atoms, until the forces are below {tolerance:g} kJ/mol/nm{limit}"
        with Work("minimize", report, progress, total=max_steps or None) as work, said_without_bar(line, progress):
            energy, force, steps = _METHODS[method](surface, energy, force, tolerance, max_steps or 10**9, work)
    finally:
        engine.flags[FORCES_STALE] = 1
    converged = surface.rms(force) <= tolerance
    message = work.stopped or (
        "the tolerance was reached"
        if converged
        else "the limit of steps was reached"
        if steps == max_steps > 0
        else "the energy cannot be lowered any further"
    )
    return Minimum(energy, surface.rms(force), steps, converged, message)


class _Surface:
    """Energies and forces on the surface that constraints leave, and moves along it. Vectors are [n, 3]."""

    def __init__(self, engine):
        self.engine = engine
        unit = (engine.masses > 0).astype(np.float64)
        self.moving = unit[:, None]
        self._solver = Solver(engine, unit)
        self._project = self._solver.velocities()
        self._restore = self._solver.positions(np.zeros(1), 1e-8)
        self._runner = Runner(engine, engine.force_phases)

    def start(self):
        """Energy and force, after atoms have been put on the surface and apart from each other."""
        self.engine.flags[REBUILD] = 1
        self._solver.old[:] = self.engine.positions
        self._fulfill()
        energy, force = self.evaluate()
        rng = np.random.default_rng(0)
        for _ in range(_MOST_JITTERS):
            if np.isfinite(energy) and np.isfinite(force).all():
                return energy, force
            stuck = ~np.isfinite(force).all(1, keepdims=True)
            stuck = stuck if stuck.any() else np.ones_like(stuck)
            here = self.engine.positions.copy()
            self.move(here, _JITTER * rng.normal(size=here.shape) * stuck * self.moving)
            energy, force = self.evaluate()
        bad = np.flatnonzero(~np.isfinite(force).all(1))
        names = ", ".join(map(self.engine.system.topology.describe, bad[:3])) or "no atom in particular"
        raise BrokenSimulationError(
            f"minimize: energy and forces must be finite, got {energy} with forces on {names} that are not"
        )

    def evaluate(self):
        """Energy and projected force at the engine's positions."""
        engine = self.engine
        step, before = engine.flags[STEP], engine.flags[ENERGY]
        engine.flags[ENERGY] = 1
        try:
            self._runner.run(1)
        finally:
            engine.flags[STEP], engine.flags[ENERGY] = step, before
        return float(sum(engine.energies().values())), self.project(engine.forces * self.moving)

    def project(self, vectors):
        """The part of `vectors` that constraints leave."""
        if not self._project or not np.isfinite(vectors).all():
            return vectors
        velocities = self.engine.velocities
        keep = velocities.copy()
        velocities[:] = vectors
        for task in self._project:
            task.run()
        out = velocities.copy()
        velocities[:] = keep
        return out

    def move(self, start, displacement):
        """Set the engine's positions to `start` plus `displacement`, back on the surface; whether that was possible."""
        self.engine.positions[:] = start + displacement
        self._solver.old[:] = start
        try:
            self._fulfill()
        except ConstraintError:
            self.engine.positions[:] = start
            return False
        return True

    def _fulfill(self):
        flags = self.engine.flags
        for task in self._restore:
            task.run()
            if flags[STATUS]:
                code, flags[STATUS] = int(flags[STATUS]), 0
                self.engine.handlers[code](self.engine)

    def rms(self, force):
        return float(np.sqrt(np.sum(force * force) / max(3 * self.moving.sum(), 1)))


def _lbfgs(surface, energy, force, tolerance, max_steps, work):
    engine = surface.engine
    noise = _NOISE[engine.precision]
    pairs: list[tuple[np.ndarray, np.ndarray, float]] = []
    step = 0
    while step < max_steps and surface.rms(force) > tolerance and not work.stopped:
        direction = surface.project(_two_loops(pairs, force)) if pairs else force * (_FIRST_MOVE / np.abs(force).max())
        slope = float(np.vdot(force, direction))
        if not slope > 0:  # curvatures are of no use here
            pairs.clear()
            continue
        largest = np.sqrt((direction**2).sum(1).max())
        length = min(1.0, _LARGEST_MOVE / largest)
        start = engine.positions.copy()
        for _ in range(_MOST_HALVINGS):
            if surface.move(start, length * direction):
                new_energy, new_force = surface.evaluate()
                if (
                    new_energy <= energy - _ARMIJO * length * slope + noise * abs(energy)
                    and np.isfinite(new_force).all()
                ):
                    break
            length *= 0.5 if length * largest < _LARGEST_MOVE / 4 else 0.25
        else:
            engine.positions[:] = start
            if not pairs:  # not even downhill: as low as energies can tell
                surface.evaluate()
                break
            pairs.clear()
            energy, force = surface.evaluate()
            continue
        moved, change = engine.positions - start, force - new_force
        curvature = float(np.vdot(moved, change))
        if curvature > 1e-10 * np.sqrt(np.vdot(moved, moved) * np.vdot(change, change)):
            pairs.append((moved, change, 1 / curvature))
            del pairs[:-_MEMORY]
        energy, force, step = new_energy, new_force, step + 1
        rms = surface.rms(force)
        work({"step": step, "energy": energy, "rms_force": rms}, f"{energy:.1f} kJ/mol, {rms:.3g} kJ/mol/nm")
    return energy, force, step


def _two_loops(pairs, force):
    """The inverse Hessian that the pairs (moves, changes of minus the force) tell of, times the force."""
    q, weights = force.copy(), []
    for moved, change, inverse in reversed(pairs):
        a = inverse * np.vdot(moved, q)
        q -= a * change
        weights.append(a)
    moved, change, inverse = pairs[-1]
    q *= 1 / (inverse * np.vdot(change, change))
    for (moved, change, inverse), a in zip(pairs, reversed(weights)):
        q += (a - inverse * np.vdot(change, q)) * moved
    return q


def _fire(surface, energy, force, tolerance, max_steps, work):
    engine = surface.engine
    # parameters of [2]; time in units in which all masses are 1
    alpha_start, slower, faster, patience = 0.1, 0.5, 1.1, 5
    velocity = np.zeros_like(force)
    time = first = np.sqrt(2 * _FIRST_MOVE / np.abs(force).max()) if np.abs(force).max() > 0 else 1.0
    largest_time, alpha, downhill, step = 1e3 * first, alpha_start, 0, 0
    while step < max_steps and surface.rms(force) > tolerance and not work.stopped:
        power = float(np.vdot(force, velocity))
        if power > 0:
            velocity = (1 - alpha) * velocity + alpha * np.sqrt(
                np.vdot(velocity, velocity) / np.vdot(force, force)
            ) * force
            downhill += 1
            if downhill > patience:
                time, alpha = min(time * faster, largest_time), alpha * 0.99
        else:
            velocity[:], downhill, alpha = 0.0, 0, alpha_start
            time *= slower if step else 1.0
        velocity += time * force
        displacement = time * velocity
        largest = np.sqrt((displacement**2).sum(1).max())
        if largest > _LARGEST_MOVE:
            displacement *= _LARGEST_MOVE / largest
            velocity *= _LARGEST_MOVE / largest
        start = engine.positions.copy()
        if not surface.move(start, displacement):
            velocity[:], time = 0.0, time * slower
            continue
        new_energy, new_force = surface.evaluate()
        if not (np.isfinite(new_energy) and np.isfinite(new_force).all()):
            engine.positions[:] = start
            velocity[:], time = 0.0, time * slower
            continue
        energy, force, step = new_energy, new_force, step + 1
        velocity = surface.project(velocity)
        rms = surface.rms(force)
        work({"step": step, "energy": energy, "rms_force": rms}, f"{energy:.1f} kJ/mol, {rms:.3g} kJ/mol/nm")
    return energy, force, step


_METHODS = {"lbfgs": _lbfgs, "fire": _fire}
