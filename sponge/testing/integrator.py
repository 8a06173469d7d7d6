"""`check_integrator`: whether an integrator is what it claims to be.

The test suite runs it over all; users over their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from triskele.core.extend import threads

from ..constraints.choose import Constraints
from ..engine.engine import Engine, Runner
from ..integrators.integrator import Integrator
from ..integrators.temperature import set_thermal_velocities
from ..potential import Potential
from ..system import System
from ..topology import Topology
from ..virtual_sites.sites import ThreeParticleAverage, place_all

__all__ = ["Springs", "Trial", "check_integrator", "spring_system"]

_TEMPERATURE = 300.0  # K, of the first velocities
_STEPS = 20


class Springs(Potential):
    """Wells of fourth order around `at` [n, 3], and springs of fourth order between neighbors in a row.

    Parameters
    ----------
    name : str
    at : (n, 3) array, nm
        Centers of the wells.
    wells, springs : float, default 0
        Force constants.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import sponge
    >>> from triskele.sponge.testing import Springs
    >>> system = sponge.System(sponge.Topology.of_particles(2), [12.0, 12.0], positions=np.zeros((2, 3)))
    >>> springs = system.add(Springs('wells', np.zeros((2, 3)), wells=1.0))
    >>> float(system.energy())
    0.0
    """

    def __init__(self, name: str, at: np.ndarray, wells: float = 0.0, springs: float = 0.0):
        self.name = name
        self.params = {"at": np.array(at), "wells": np.array(wells), "springs": np.array(springs)}

    def energy(self, params: dict[str, Any], positions: Any, box: Any) -> Any:
        d, r = positions - params["at"], positions[1:] - positions[:-1]
        return (params["wells"] * (d**2 + 30 * d**4)).sum() + (params["springs"] * ((r**2).sum(1) - 0.02) ** 2).sum()


# A unit of twelve atoms: water with a fourth site, XH2, four in a row, one alone; placed about a point.
_UNIT = np.array(
    [
        [0, 0, 0],
        [0.0957, 0, 0],
        [-0.024, 0.0926, 0],
        [0.01, 0.013, 0],
        [0.3, 0, 0.1],
        [0.36, 0.09, 0.1],
        [0.36, -0.09, 0.1],
        [0, 0.3, 0.2],
        [0.1, 0.4, 0.2],
        [0.22, 0.33, 0.25],
        [0.3, 0.4, 0.1],
        [0.5, 0.5, 0.5],
    ]
)  # fmt: skip
_MASSES = np.array([16.0, 1, 1, 0, 14, 1, 1, 12, 12, 16, 12, 40])
_PAIRS = np.array([(0, 1), (0, 2), (1, 2), (4, 5), (4, 6), (7, 8), (8, 9), (9, 10)])


def spring_system(units: int = 1, constraints: bool = True, seed: int = 1) -> System:
    """Atoms in anharmonic wells ("wells") and springs ("springs"): for checks.

    Parameters
    ----------
    units : int
        The number of copies of twelve atoms: two kinds of hydrides, a chain, a free atom and a virtual site.
    constraints : bool
        Include constraints (water, XH2, three in a row) and the virtual site.
    seed : int
        Seed of the random displacements of the atoms.

    Examples
    --------
    >>> from triskele.sponge import testing
    >>> testing.spring_system(units=2, seed=3).n
    24
    """
    rng = np.random.default_rng(seed)
    n = 12 * units
    positions = (
        _UNIT + 0.6 * np.arange(units)[:, None, None] * [1, 0, 0] + rng.normal(0, 0.002, (units, 12, 3))
    ).reshape(-1, 3)
    pairs = (_PAIRS + 12 * np.arange(units)[:, None, None]).reshape(-1, 2)
    first = 12 * np.arange(units)
    site = ThreeParticleAverage(first + 3, np.stack([first, first + 1, first + 2], 1), (0.7, 0.15, 0.15))
    waters = positions.reshape(units, 12, 3)
    waters[:, 1:3] = waters[:, :1] + _UNIT[1:3]  # symmetric ones
    waters[:, 2] = waters[:, 0] + np.linalg.norm(_UNIT[1]) * _UNIT[2] / np.linalg.norm(_UNIT[2])
    lengths = np.linalg.norm(positions[pairs[:, 0]] - positions[pairs[:, 1]], axis=1)
    masses = np.tile(_MASSES if constraints else np.where(_MASSES > 0, _MASSES, 1.0), units)
    system = System(
        Topology.of_particles(n, bonds=pairs),
        masses,
        positions=positions,
        remove_com_motion=False,
        constraints=Constraints(pairs, lengths) if constraints else None,
        virtual_sites=[site] if constraints else (),
    )
    system.add(Springs("wells", positions + rng.normal(0, 0.02, positions.shape), wells=500.0))
    system.add(Springs("springs", positions, springs=4000.0))
    return system


class Trial:
    """A system under an integrator, with the state in one's hands.

    Parameters
    ----------
    integrator : Integrator
    system : System
    seed : int

    Attributes
    ----------
    engine : Engine

    Examples
    --------
    >>> from triskele import sponge
    >>> from triskele.sponge import testing
    >>> trial = testing.Trial(sponge.VelocityVerlet(timestep=0.001), testing.spring_system())
    """

    def __init__(self, integrator: Integrator, system: System, seed: int = 0):
        self.integrator = integrator
        self.engine = Engine(system, "double")
        self.engine.seed = seed
        self._runner = Runner(self.engine, lambda: integrator.plan(self.engine, self.engine.force_phases()))
        self._runner.program.restart()
        if system.velocities is None:
            set_thermal_velocities(self.engine, _TEMPERATURE)
        integrator.prepare(self.engine)

    def __repr__(self) -> str:
        return f"<Trial of {self.integrator!r}>"

    def run(self, steps: int) -> Trial:
        """Make steps."""
        self._runner.run(steps)
        return self

    def state(self) -> dict[str, np.ndarray]:
        """Everything that a restart needs."""
        engine = self.engine
        return {
            "positions": engine.positions.copy(),
            "velocities": engine.velocities.copy(),
            "flags": engine.flags.copy(),
            **{f"store/{k}": v.copy() for k, v in engine.store.items()},
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go back to a state."""
        engine = self.engine
        for name, values in state.items():
            (engine.store[name[6:]] if name.startswith("store/") else getattr(engine, name))[...] = values
        self.integrator.prepare(engine)

    def energy(self) -> float:
        """Kinetic and potential energy, and what the integrator has taken, in kJ/mol."""
        engine = self.engine
        potential = engine.system.energy(engine.positions)
        return potential + 0.5 * float(engine.masses @ (engine.velocities**2).sum(1)) + self.integrator.heat(engine)


def check_integrator(make: Callable[[float], Integrator], timestep: float = 0.001, order: int | None = 2) -> None:
    """Check that an integrator can be trusted.

    The same seed gives the same numbers on any number of threads; a run that is stopped and restored in another engine
    resumes bit for bit; constraints hold and virtual sites are in place after every step; positions converge with the
    given order in the time step, and so does the conserved quantity.

    Parameters
    ----------
    make : callable
        Returns the integrator for a time step in ps.
    timestep : float
        A reasonable one for motions of some 50 fs.
    order : int, optional
        Of the positions from given first positions and velocities; None for schemes where that is not defined, such as
        those with noise.

    Raises
    ------
    AssertionError
        Names what failed, and by how much.

    Examples
    --------
    >>> from triskele.sponge.testing import check_integrator
    >>> from triskele.sponge import VelocityVerlet
    >>> check_integrator(lambda dt: VelocityVerlet(timestep=dt))
    """
    name = type(make(timestep)).__name__
    _check_threads(name, make(timestep))
    _check_restart(name, make(timestep))
    _check_constraints(name, make(timestep))
    if order is not None:
        _check_order(name, make, timestep, order)
    _check_conserved(name, make, timestep)


def _check_threads(name, integrator):
    system, before, found = spring_system(units=100), threads.get_threads(), []
    try:
        for n in (1, 2):
            threads.set_threads(n)
            found.append(Trial(integrator, system, seed=7).run(_STEPS).state())
    finally:
        threads.set_threads(before)
    _same(f"{name} on one thread and on two", *found)


def _check_restart(name, integrator):
    system = spring_system(units=2)
    whole = Trial(integrator, system, seed=3).run(2 * _STEPS)
    half = Trial(integrator, system, seed=3).run(_STEPS)
    resumed = Trial(integrator, system, seed=3)
    resumed.restore(half.state())
    _same(f"{name} resumed and uninterrupted", whole.state(), resumed.run(_STEPS).state())


def _same(what, a, b):
    for key, values in a.items():
        if not np.array_equal(values, b[key]):
            raise AssertionError(
                f"{what}: {key} must be the same to the last bit, but differ by {np.abs(values - b[key]).max():.3g}"
            )


def _check_constraints(name, integrator):
    trial = Trial(integrator, spring_system(units=2))
    system, tolerance = trial.engine.system, integrator.constraint_tolerance  # type: ignore[attr-defined]
    for _ in range(_STEPS):
        x = trial.run(1).engine.positions
        i, j = system.constraints.pairs.T
        error = np.abs(np.linalg.norm(x[i] - x[j], axis=1) / system.constraints.distances - 1).max()
        if not error <= 1.001 * tolerance:
            raise AssertionError(f"{name}: lengths must be kept within {tolerance}, got {error:.3g}")
        off = np.abs(place_all(system.virtual_sites, x) - x).max()
        if not off < 1e-12:
            raise AssertionError(f"{name}: virtual sites must be in place after a step, got {off:.3g} nm off")


def _check_order(name, make, timestep, order):
    system = spring_system(constraints=False)
    found = [Trial(make(timestep / k), system, seed=5).run(_STEPS * k).engine.positions.copy() for k in (1, 2, 4)]
    coarse, fine = np.abs(found[0] - found[1]).max(), np.abs(found[1] - found[2]).max()
    measured = np.log2(coarse / fine)
    if not abs(measured - order) < 0.35:
        raise AssertionError(f"{name}: positions must converge with order {order}, got {measured:.2f}")


def _check_conserved(name, make, timestep):
    spreads = []
    for k in (1, 4):
        trial, energies = Trial(make(timestep / k), spring_system(), seed=5), []
        for _ in range(2 * _STEPS):
            energies.append(trial.run(k).energy())
        spreads.append(np.std(energies))
    if np.isfinite(spreads[0]) and not spreads[1] < 0.3 * spreads[0] + 1e-9 * abs(np.mean(energies)):
        raise AssertionError(
            f"{name}: the conserved quantity must spread less with a smaller step, got "
            f"{spreads[0]:.3g} kJ/mol at {timestep} ps and {spreads[1]:.3g} at a quarter of it"
        )
