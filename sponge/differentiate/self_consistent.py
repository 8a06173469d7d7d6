"""Potential energies of polarizable systems at the positions of Drude particles that minimize them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from triskele import core
from triskele.core.extend import check

from ..protocols import SystemLike
from ..units import COULOMB
from .energy_function import EnergyFunction

__all__ = ["SelfConsistentEnergy", "self_consistent"]

_MOST, _MEMORY = 200, 6  # iterations, and those that the next one is made of


def self_consistent(
    system: SystemLike, names: Iterable[str] | None = None, *, tolerance: float = 1e-8
) -> SelfConsistentEnergy:
    """The potential energy of `system` as a function of its atoms alone: each Drude particle stands where no force acts
    on it.

    Derivatives of any order are exact, whatever the iterations were: the energy does not change to first order with the
    Drude particles, and further derivatives follow from the equations that hold where they stand (`core.root`). Second
    derivatives use the potentials' pure energies, which suits clusters better than boxes of water.

    Parameters
    ----------
    system : System
        Must have Drude particles; the function keeps a copy.
    names : iterable of str, optional
        The potentials. Defaults to all.
    tolerance : float
        Largest force on a Drude particle, in terms of that of its spring at 0.001 nm.

    Returns
    -------
    SelfConsistentEnergy
        ``energy(params, positions, box=None)`` in kJ/mol. Only the differences of the Drude particles' positions from
        those of their atoms count, and only as a first guess.

    Raises
    ------
    ValueError
        If there are no Drude particles, or one whose `drude_spring` is not among `names`.

    Notes
    -----
    The iteration is Anderson's, of steps force/(force constant).

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core, sponge
    >>> system = sponge.System(sponge.Topology.of_particles(2), [16.0, 0.4], positions=np.zeros((2, 3)))
    >>> _ = system.add(sponge.drude_spring([[1, 0]], charge=-1.7, polarizability=0.001))
    >>> field = lambda x, strength: -strength @ (1.7 * x[0] - 1.7 * x[1])
    >>> _ = system.add(sponge.FunctionPotential(field, {"strength": np.array([0.0, 0.0, 50.0])}, name="field"))
    >>> energy = sponge.differentiate.self_consistent(system)
    >>> moment = lambda strength: -core.grad(energy)({"field": {"strength": strength}}, system.positions)["field"]["strength"]
    >>> alpha = core.jacfwd(moment)(np.zeros(3)) * sponge.units.COULOMB
    >>> np.round(np.diag(alpha), 9)
    array([0.001, 0.001, 0.001])
    """  # noqa: E501
    return SelfConsistentEnergy(system, names, tolerance)


class SelfConsistentEnergy:
    """``energy(params, positions, box=None)``, made by `self_consistent`."""

    def __init__(self, system: SystemLike, names: Iterable[str] | None, tolerance: float):
        check.positive(tolerance, "self_consistent: tolerance")
        names = None if names is None else list(names)
        self.energy = EnergyFunction(system, names)
        self.tolerance = tolerance
        springs: list[Any] = [
            p for p in system.potentials if p.of_drude_particles and (names is None or p.name in names)
        ]
        if not springs or sum(len(p.atoms) for p in springs) < len(system.drude_pairs):
            raise ValueError(
                "self_consistent: all Drude particles must have their springs among the potentials, got "
                f"{sum(len(p.atoms) for p in springs)} of {len(system.drude_pairs)}"
            )
        self._drude, self._atom = np.concatenate([p.atoms for p in springs]).T
        self._places = np.arange(system.n)
        self._places[self._drude] = system.n + np.arange(len(self._drude))
        # a scale of the steps, no derivative goes through it
        self._stiffness = np.concatenate(
            [COULOMB * p.params["charge"] ** 2 / p.params["polarizability"] for p in springs]
        )[:, None]
        self._describe = system.topology.describe
        self._displacements = core.root(self._residual, self._solve, mode="python", linear_solve=self._linear_solve)

    def __call__(self, params: dict[str, dict[str, Any]], positions: Any, box: Any = None) -> Any:
        """Return the energy in kJ/mol with the Drude particles at rest.

        Raise RuntimeError, which names the Drude particle with the largest force, if the iteration does not converge.
        """
        return self.energy(params, self.relaxed(params, positions, box), box)

    def relaxed(self, params: dict[str, dict[str, Any]], positions: Any, box: Any = None) -> Any:
        """The positions, (n, 3), with each Drude particle where no force acts on it."""
        x = positions if isinstance(positions, core.Tensor) else np.asarray(positions, np.float64)
        rest = (params, x) if box is None else (params, x, box)
        return self._placed(self._displacements(x[self._drude] - x[self._atom], *rest), x)

    def _placed(self, displacements: Any, positions: Any) -> Any:
        return np.concatenate([positions, positions[self._atom] + displacements])[self._places]

    def _residual(self, displacements, params, positions, box=None):
        """Forces on the Drude particles, over those of their springs per nm."""
        slope = core.grad(self.energy, 1)(params, self._placed(displacements, positions), box)
        return slope[self._drude] / self._stiffness

    def _solve(self, residual, guess):
        weight = np.broadcast_to(self._stiffness, guess.shape).ravel()
        x, steps = guess, 0
        residuals: list[np.ndarray] = []
        places: list[np.ndarray] = []
        while steps < _MOST:
            steps += 1
            r = np.asarray(residual(x))
            residuals, places = [*residuals[-_MEMORY:], r.ravel()], [*places[-_MEMORY:], x.ravel()]
            changes, moves = (np.array([of[-1] - other for other in of[:-1]]).T for of in (residuals, places))
            if np.max(np.abs(r)) <= 1e-3 * self.tolerance:
                # a point without forces may also be a saddle, from which dipoles grow without end
                if len(residuals) == 1 or np.all(weight @ (moves * changes) >= -1e-3 * weight @ (moves * moves)):
                    return x
                break
            if len(residuals) == 1:
                x = x - r
                continue
            weights = np.linalg.lstsq(changes, residuals[-1], rcond=1e-12)[0]
            x = (places[-1] - residuals[-1] - (moves - changes) @ weights).reshape(x.shape)
        worst = int(np.argmax(np.abs(r).max(1)))
        raise RuntimeError(
            f"self_consistent: Drude particles must come to rest in a minimum of the energy, got a largest force of "
            f"{np.abs(r[worst]).max():.3g} of the spring's per nm on {self._describe(int(self._drude[worst]))} after "
            f"{steps} iterations (do dipoles come too near to each other?)"
        )

    def _linear_solve(self, matvec, right):
        """Conjugate gradients; the residual is the symmetric matrix of second derivatives over the stiffness."""
        (b,) = right

        def product(v):
            return self._stiffness * matvec([v])[0]

        def body(state):
            x, r, p, rz, k = state
            ap = product(p)
            curvature = np.sum(p * ap)
            alpha = np.where(curvature > 0, rz / np.where(curvature > 0, curvature, 1.0), 0.0)
            x, r = x + alpha * p, r - alpha * ap
            z = r / self._stiffness
            new = np.sum(r * z)
            return x, r, z + new / np.where(rz > 0, rz, 1.0) * p, new, k + 1

        r = self._stiffness * b
        start = np.sum(r * b)

        def going(state):
            return (state[3] > 1e-24 * start) & (state[4] < _MOST)

        return [core.while_loop(going, body, (0.0 * b, r, 1.0 * b, start, 0))[0]]
