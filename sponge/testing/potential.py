"""`check_potential`: whether a potential is what it claims to be.

The test suite runs it over all; users over their own.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np

from triskele import core
from triskele.core.extend import check, discover

from ..engine.engine import Engine
from ..potential import Potential
from ..system import System
from ..topology import Topology

__all__ = ["check_potential", "example_system", "examples"]


def example_system(
    *potentials: Potential, n: int = 12, box: Any = None, seed: int = 1, exclusions: Any = (), positions: Any = None
) -> System:
    """A crumpled chain of `n` atoms, 0.15 nm from one to the next, with the given potentials: for checks.

    Parameters
    ----------
    *potentials : Potential
    n : int
    box : array, optional
        Box, as for `System`.
    seed : int
        Seed of the random directions of the steps.
    exclusions : (m, 2) int
    positions : (n, 3) float64, nm, optional
        Positions in place of the chain's.

    Examples
    --------
    >>> from triskele.sponge.testing import example_system
    >>> example_system(n=5).positions.shape
    (5, 3)
    """
    steps = np.random.default_rng(seed).normal(size=(n, 3))
    steps /= np.linalg.norm(steps, axis=1, keepdims=True)
    system = System(
        Topology.of_particles(n),
        np.full(n, 12.0),
        box=box,
        exclusions=exclusions,
        positions=np.cumsum(0.15 * steps, axis=0) if positions is None else positions,
    )
    for potential in potentials:
        system.add(potential)
    return system


def examples() -> Iterator[tuple[str, System, str]]:
    """Every example that a file of `sponge/potentials` offers: an identifier, a system, and the name of a potential in
    it.

    A file offers examples by a function ``example()`` that returns pairs: a list of potentials, and the options of
    `example_system` for them.

    Examples
    --------
    >>> from triskele.sponge import testing
    >>> len({name for name, _, _ in testing.examples()}) > 10
    True
    """
    for file, module in discover.modules("triskele.sponge.potentials", deep=True).items():
        if not hasattr(module, "example"):
            continue
        for k, (potentials, options) in enumerate(module.example()):
            # two examples may share a potential, and a system names those that it takes
            system = example_system(*copy.deepcopy(potentials), **options)
            for potential in system.potentials:
                yield f"{file.rpartition('.')[2]}-{k}-{potential.name}", system, potential.name


class _Checker:
    def __init__(self, potential: Potential, system: System, rtol: float, seed: int):
        self.potential, self.rtol = potential, rtol
        self.rng = np.random.default_rng(seed)
        self.x, self.box = np.array(system.positions), None if system.box is None else np.array(system.box)
        self.system = System(
            system.topology,
            system.masses,
            box=system.box,
            positions=self.x,
            constraints=system.constraints,
            virtual_sites=system.virtual_sites,
            exclusions=system.exclusions,
        )
        self.system.potentials.append(potential)
        self.gradient = core.grad(self.energy)(self.x)

    def energy(self, x, strain=None, params=None):
        box = self.box
        if strain is not None:
            x, box = x @ (np.eye(3) + strain), None if box is None else box @ (np.eye(3) + strain)
        return self.potential.energy(self.potential.params if params is None else params, x, box)

    def near(self, found, expected, what, rtol=None, scale=None):
        found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
        check.shape(found, expected.shape, f"{self.potential.name}: {what}", error=AssertionError)
        scale = max(np.max(np.abs(expected), initial=0.0), 1e-3) if scale is None else scale
        worst = np.max(np.abs(found - expected), initial=0.0)
        if not worst <= (rtol or self.rtol) * scale:
            at = np.unravel_index(np.argmax(np.abs(found - expected)), found.shape) if found.shape else ()
            raise AssertionError(
                f"{self.potential.name}: {what}: off by {worst:.3g} (of {scale:.3g}) at "
                f"{tuple(map(int, at))}: got {found[at]!r}, expected {expected[at]!r}"
            )

    # Energies may be small differences of large terms: they are compared on the scale of what a displacement of 0.01 nm
    # does.
    @property
    def scale(self):
        return max(abs(float(self.energy(self.x))), 0.01 * float(np.abs(self.gradient).sum()), 1e-3)

    def compiled(self):
        engine = Engine(self.system, "double")
        engine.compute(self.x, self.box)
        self.near(
            sum(engine.energies().values()),
            self.energy(self.x),
            "energy of the plan against the pure energy",
            scale=self.scale,
        )
        self.near(-engine.forces, self.gradient, "forces of the plan against the pure energy's gradient")
        by_strain = core.grad(lambda s: self.energy(self.x, s))(np.zeros((3, 3)))
        size = max(np.abs(by_strain).max(), 1e-3 * np.abs(self.gradient).max() * np.ptp(self.x), self.scale)
        self.near(
            -engine.virial(), by_strain.T, "virial of the plan against the pure energy's strain derivative", scale=size
        )
        again = engine.forces.copy()
        engine.compute(self.x, self.box, energy=False)
        self.near(engine.forces, again, "forces computed without energies", rtol=1e-11)
        gradients = getattr(self.potential, "param_gradients", lambda engine: None)(engine) or {}
        params = self.potential.params
        expected = (
            core.grad(lambda p: self.energy(self.x, params={**params, **p}))({n: params[n] for n in gradients})
            if gradients
            else {}
        )
        for name, found in gradients.items():
            self.near(found, expected[name], f"compiled derivative by {name}")

    def mixed(self):
        engine = Engine(self.system, "mixed")
        engine.compute(self.x, self.box)
        scale = max(np.abs(self.gradient).max(), 1e-3)
        self.near(-engine.forces, self.gradient, "forces in mixed precision", rtol=2e-4, scale=scale)
        self.near(
            sum(engine.energies().values()),
            self.energy(self.x),
            "energy in mixed precision",
            rtol=2e-4,
            scale=self.scale,
        )

    def momentum(self):
        self.near(
            self.gradient.sum(0),
            np.zeros(3),
            "sum of forces of a potential that conserves momentum",
            rtol=1e-3,
            scale=max(np.abs(self.gradient).sum(), 1e-3),
        )  # a mesh does not add up exactly

    def differences(self, order):
        energy, params = self.energy, self.potential.params

        def along(direction):
            return lambda h: energy(self.x + h * direction)

        v = self.rng.normal(size=self.x.shape)
        self.near(
            np.sum(self.gradient * v),
            _slope(along(v)),
            "gradient against finite differences",
            rtol=1e-6,
            scale=max(np.abs(self.gradient).max(), self.scale),
        )
        names = [n for n in params if np.size(params[n])]
        if names:
            found = core.grad(lambda p: energy(self.x, params={**params, **p}))({n: params[n] for n in names})
        for n in names:
            w = self.rng.normal(size=np.shape(params[n])) * np.maximum(np.abs(params[n]), 1e-2)
            slope = _slope(lambda h, n=n, w=w: energy(self.x, params={**params, n: params[n] + h * w}))
            self.near(
                np.sum(found[n] * w),
                slope,
                f"derivative by {n} against finite differences",
                rtol=1e-6,
                scale=max(abs(slope), self.scale),
            )
        if order < 2:
            return
        u = self.rng.normal(size=self.x.shape)

        def product(direction):
            return core.hvp(energy, (self.x,), (direction,))

        hu, hv = np.asarray(product(u)), np.asarray(product(v))
        size = max(np.abs(hu).max(), np.abs(hv).max(), 1e-3)
        self.near(np.sum(u * hv), np.sum(v * hu), "symmetry of the Hessian", scale=10 * size)
        slope = _slope(lambda h: core.grad(energy)(self.x + h * v))
        self.near(hv, slope, "Hessian-vector product against finite differences", rtol=1e-5, scale=size)

    def invariance(self):
        forces = -self.gradient
        size = max(np.abs(forces).max(), 1e-3)
        self.near(forces.sum(0), np.zeros(3), "sum of forces (Newton's third law)", scale=size * len(forces))
        self.near(
            self.energy(self.x + [0.3, -0.2, 0.1]), self.energy(self.x), "energy after a translation", scale=self.scale
        )
        if self.box is not None:
            lattice = self.rng.integers(-2, 3, size=(len(self.x), 3)) @ self.box
            self.near(
                self.energy(self.x + lattice),
                self.energy(self.x),
                "energy with atoms in other images",
                rtol=1e-7,
                scale=self.scale,
            )
            return
        turn, _ = np.linalg.qr(self.rng.normal(size=(3, 3)))
        turn *= np.sign(np.linalg.det(turn))
        center = self.x.mean(0)
        self.near(
            np.cross(self.x - center, forces).sum(0), np.zeros(3), "torque", scale=size * len(forces) * np.ptp(self.x)
        )
        self.near(
            self.energy((self.x - center) @ turn), self.energy(self.x), "energy after a rotation", scale=self.scale
        )


def _slope(f, step=2e-5):
    """f'(0) by central differences of fourth order."""
    return (8 * (f(step) - f(-step)) - (f(2 * step) - f(-2 * step))) / (12 * step)


def check_potential(
    potential: Potential,
    system: System,
    *,
    invariant: bool | None = None,
    order: int = 2,
    rtol: float = 1e-8,
    seed: int = 0,
) -> None:
    """Check a potential at the positions of a system.

    Energy, forces and virial of the compiled plan against the pure energy and its derivatives, in double and mixed
    precision; those derivatives against finite differences, by positions and by every parameter; the Hessian's
    symmetry; that forces add up to nothing if `conserves_momentum` says so; and, unless the potential acts from
    outside, that moving or turning everything, or taking atoms into other images of a periodic box, leaves the energy
    as it is.

    Parameters
    ----------
    potential : Potential
    system : System
        Gives positions, box, exclusions and virtual sites; its own potentials are left out.
    invariant : bool, optional
        True if the energy depends on relative positions only. Defaults to ``potential.invariant``, or True.
    order : int
        2 to check second derivatives too.
    rtol : float
        Tolerance of double precision, relative to the largest force (or energy).
    seed : int
        Seed of random directions.

    Raises
    ------
    AssertionError
        Naming the first property that fails, and where.

    Examples
    --------
    >>> from triskele.sponge.testing import check_potential, example_system
    >>> from triskele import sponge
    >>> check_potential(sponge.harmonic_bond([[0, 1], [1, 2]], k=1000.0, r0=0.14), example_system())
    """
    potential.check(system)
    checker = _Checker(potential, system, rtol, seed)
    checker.compiled()
    checker.mixed()
    checker.differences(order)
    if potential.conserves_momentum:
        checker.momentum()
    if getattr(potential, "invariant", True) if invariant is None else invariant:
        checker.invariance()
