"""Gradients through a trajectory by reverse mode with checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from triskele import core
from triskele.core import random
from triskele.core.extend import check

from .adjoint import reversible
from .steps import Path, Scheme, check_state, finite, noise

__all__ = ["trajectory"]


def trajectory(
    energy: Callable[..., Any],
    masses: Any,
    integrator: Any,
    steps: int,
    observe: Callable[..., Any] | None = None,
    every: int | None = None,
    method: Literal["checkpoint", "reversible"] = "checkpoint",
) -> Callable[..., Path]:
    """A simulation as a pure function that the core differentiates.

    The steps are those of `Simulation`, with the same random numbers for the same seed. By two ways of differentiating:

    "checkpoint"
        Reverse mode. The states of about sqrt(steps) steps are kept, and the steps between computed again: memory grows
        with the root of the length [1]_. All transforms apply, in all orders.
    "reversible"
        The trajectory is integrated backwards, bit for bit, while the adjoint equations, one Hessian-vector product a
        step, run along [2]_. Positions and velocities are whole multiples of 2^-46 nm and nm/ps [3]_; what friction
        rounds away is remembered in single bits [4]_. Memory does not grow with length (with friction by 8 bytes per
        coordinate and some 15 / friction of time). Reverse mode, first order.

    Derivatives of single trajectories grow like chaos does, exp(t / a few ps) in liquids: average observables over
    times that are long against their relaxation, and short against that.

    Parameters
    ----------
    energy : callable
        ``energy(params, positions, box)`` in kJ/mol: `explicit_energy` of a system, or any function of the core.
        `params` is a tree of arrays.
    masses : (n,) array, dalton
        Masses of the atoms.
    integrator : VelocityVerlet or LangevinMiddle
        Without constraints. The motion of the center of mass is left alone.
    steps : int
    observe : callable, optional
        ``observe(params, positions, box)`` returns a tree of arrays to be recorded.
    every : int, optional
        Steps between records, a divisor of `steps`. Defaults to one record, at the end.
    method : {"checkpoint", "reversible"}

    Returns
    -------
    callable
        ``run(params, positions, velocities, box=None, seed=0)`` returns a `Path`. BrokenSimulationError is raised where
        positions are no longer finite, and names the step.

    References
    ----------
    .. [1] Griewank, Walther, Evaluating Derivatives, 2nd ed., SIAM (2008), chapter 12.
    .. [2] Wang, Axelrod, Gómez-Bombarelli, "Differentiable molecular simulations for control and learning" (2020).
       arXiv:2003.00868
    .. [3] Levesque, Verlet, "Molecular dynamics and time reversibility", J. Stat. Phys. 72 (1993) 519.
       doi:10.1007/BF01048022
    .. [4] Maclaurin, Duvenaud, Adams, "Gradient-based hyperparameter optimization through reversible learning", ICML
       (2015), section 2.2. arXiv:1502.03492

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge.differentiate import trajectory
    >>> from triskele import core, sponge
    >>> energy = lambda k, x, box: 0.5 * k * np.sum(x * x)
    >>> run = trajectory(energy, [1.0], sponge.VelocityVerlet(timestep=0.001), 1000)
    >>> x0, v0 = np.array([[1.0, 0.0, 0.0]]), np.zeros((1, 3))
    >>> end = lambda k: run(k, x0, v0).positions[0, 0]  # cos(sqrt(k)) after 1 ps
    >>> core.grad(end)(4.0).round(4)
    np.float64(-0.2273)
    """
    check.choice(method, ("checkpoint", "reversible"), "trajectory: method")
    scheme = Scheme.of(integrator, masses, steps, every)
    make = _checkpointed if method == "checkpoint" else reversible
    inner = make(energy, scheme, observe)
    n = len(scheme.kick)

    def run(params, positions, velocities, box=None, seed=0):
        check_state(n, positions, velocities)
        key = random.key(seed) if scheme.noise is not None else np.zeros(2, np.uint32)
        return inner(params, positions, velocities, box, key)

    return run


def _checkpointed(energy, scheme, observe):
    like = np.zeros((len(scheme.kick), 3))

    def force(params, x, box):
        return -core.grad(energy, 1)(params, x, box)

    @core.jit
    def run(params, positions, velocities, box, key):
        def step(carry, number):
            x, v, good = carry
            v = v + scheme.kick * force(params, x, box)
            x = x + scheme.half * v
            if not scheme.verlet:
                v = scheme.decay * v + scheme.noise * noise(number, key, like)
            x = x + scheme.half * v
            return (x, v, good + np.all(np.isfinite(x)).astype(np.int64)), None

        def record(carry, first):
            carry, _ = core.scan(step, carry, first + np.arange(scheme.every), checkpoint=True)
            return carry, None if observe is None else observe(params, carry[0], box)

        x, v = positions + 0.0, velocities + 0.0
        if scheme.verlet:
            v = v - 0.5 * scheme.kick * force(params, x, box)
        (x, v, good), observed = core.scan(
            record, (x, v, np.int64(0)), scheme.every * np.arange(scheme.records), checkpoint=True
        )
        if scheme.verlet:
            v = v + 0.5 * scheme.kick * force(params, x, box)
        return finite(good, scheme.steps, Path(x, v, observed))

    return run
