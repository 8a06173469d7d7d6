"""Potentials from any function of the positions, and from calculators of ASE."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from triskele import core
from triskele.core.extend import Task

from .. import units
from ..box import displacement, volume
from ..codegen.handle import Handle
from ..engine.plan import ROW, Plan, add_forces
from ..potential import Potential
from ..topology import check_indices

__all__ = ["ASEPotential", "FunctionPotential"]


class FunctionPotential(Potential):
    """A term of the energy from a function of all positions, compiled into the step loop by the core.

    Parameters
    ----------
    function : callable
        ``function(positions, **params)`` -> energy in kJ/mol: NumPy code that the core can trace. If it has an argument
        `box`, it receives the box [3, 3], or None.
    params : mapping of str to array, optional
        The function's further arguments: parameters for derivatives and fits.
    name : str, optional
        Defaults to the function's.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import FunctionPotential
    >>> def radius_of_gyration(positions, k, target):
    ...     d = positions - np.mean(positions, axis=0)
    ...     return 0.5 * k * (np.sqrt(np.mean(np.sum(d * d, axis=1))) - target) ** 2
    >>> FunctionPotential(radius_of_gyration, {"k": 1000.0, "target": 0.5})
    <FunctionPotential 'radius_of_gyration': k (), target ()>
    """

    def __init__(self, function: Callable, params: Mapping[str, Any] | None = None, name: str | None = None):
        self.function = function
        self.name = name or getattr(function, "__name__", "function").strip("<>")
        self.params = {key: np.array(value, np.float64) for key, value in (params or {}).items()}
        self._takes_box = False
        try:
            arguments = inspect.signature(function).parameters
        except (TypeError, ValueError):  # a builtin without signature
            return
        named = [p.name for p in arguments.values()][1:]
        self._takes_box = "box" in named
        anything = any(p.kind is p.VAR_KEYWORD for p in arguments.values())
        unknown = [key for key in self.params if key not in named]
        missing = [
            p.name
            for p in list(arguments.values())[1:]
            if p.name != "box"
            and p.name not in self.params
            and p.default is p.empty
            and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        ]
        if missing or (unknown and not anything):
            raise TypeError(
                f"{self.name}: params must be those of the function "
                f"({', '.join(n for n in named if n != 'box') or 'none'}), "
                f"got {', '.join(self.params) or 'none'}"
            )

    def energy(self, params: dict[str, Any], positions: Any, box: Any) -> Any:
        more = {"box": box} if self._takes_box else {}
        return self.function(positions, **more, **params)

    def __getstate__(self):
        return self.__dict__ | {"function": Handle(self.function)}

    def __setstate__(self, state):
        self.__dict__.update(state, function=state["function"].get())


class ASEPotential(Potential):
    """A term of the energy from a calculator of ASE. Runs as one call to Python per step.

    Parameters
    ----------
    calculator : ase.calculators.calculator.Calculator
        Its energies (eV) and forces (eV/Å) are converted.
    atoms : ase.Atoms
        Species, and whatever else the calculator reads, of the atoms it acts on; positions and cell come from the run.
    indices : int array, optional
        Indices of these atoms in the system. Defaults to all.
    name : str

    Notes
    -----
    `energy` can be differentiated once: by the positions, from the calculator's forces, and by the box, from its
    stress. The virial in a periodic box comes from the stress too. Both are NaN for a calculator without stress.

    Examples
    --------
    >>> from ase.build import molecule
    >>> from ase.calculators.lj import LennardJones
    >>> from triskele import sponge
    >>> atoms = molecule("N2")
    >>> potential = sponge.ASEPotential(LennardJones(), atoms)
    >>> potential.name
    'ase'
    """

    conserves_momentum = True

    def __init__(self, calculator: Any, atoms: Any, indices: Any = None, name: str = "ase"):
        self.name, self.params = name, {}
        self._atoms = atoms.copy()
        self._atoms.calc = calculator
        self.indices = np.arange(len(atoms)) if indices is None else np.asarray(indices, np.int64)
        if len(self.indices) != len(atoms):
            raise ValueError(f"ase potential: indices must name {len(atoms)} atoms, got {len(self.indices)}")
        if len(np.unique(self.indices)) < len(atoms):
            raise ValueError(f"ase potential: indices must name different atoms, got {self.indices.tolist()[:20]}")

    def check(self, system):
        check_indices(self.indices, system.n, f"ase potential {self.name!r}: indices")

    @property
    def together(self) -> np.ndarray:  # type: ignore[override]
        """The calculator's atoms."""
        return self.indices

    def evaluate(self, positions: np.ndarray, box: np.ndarray | None) -> tuple[float, np.ndarray]:
        """Energy (kJ/mol) and forces (kJ/mol/nm, [m, 3]) of the calculator's atoms."""
        self._atoms.set_positions(np.asarray(positions)[self.indices] / units.angstrom)
        if box is not None:
            self._atoms.set_cell(np.asarray(box) / units.angstrom)
            self._atoms.pbc = True
        return (
            float(self._atoms.get_potential_energy()) * units.eV,
            np.asarray(self._atoms.get_forces(), np.float64) * (units.eV / units.angstrom),
        )

    def energy(self, params: dict[str, Any], positions: Any, box: Any) -> Any:
        if box is None:
            return _energy_of(self)(positions)
        return _energy_of(self, periodic=True)(positions, box)

    def plan(self, engine):
        forces, rows = np.zeros((engine.n, 3)), np.zeros((1, ROW))

        def call():
            box = engine.box if engine.periodic else None
            rows[0, 0], own = self.evaluate(engine.positions, box)
            forces[self.indices] = own
            if box is None:
                rows[0, 1:] = (own.T @ engine.positions[self.indices]).ravel()
            else:
                rows[0, 1:] = self._virial()

        reduce = Task(add_forces, engine.atom_starts, forces, engine.forces, chunks=engine.atom_chunks)
        return Plan(call=call, rows=rows, reduce=[reduce])

    def _virial(self):
        from ase.calculators.calculator import PropertyNotImplementedError

        try:
            return -units.eV * self._atoms.get_volume() * self._atoms.get_stress(voigt=False).ravel()
        except (PropertyNotImplementedError, NotImplementedError):
            return np.full(9, np.nan)


def _energy_of(potential: ASEPotential, periodic: bool = False) -> Any:
    """The calculator as an operator of the core."""

    def value(positions, box=None):
        return np.float64(potential.evaluate(positions, box)[0])

    def slope(positions, box=None):
        gradient = np.zeros(np.shape(positions))
        gradient[potential.indices] = -potential.evaluate(positions, box)[1]
        return gradient

    def by_box(positions, box):
        forces = potential.evaluate(positions, box)[1]
        virial = potential._virial().reshape(3, 3)  # of positions and box strained together
        return np.linalg.solve(np.asarray(box).T, np.asarray(positions)[potential.indices].T @ forces - virial)

    def operator(function, out, name):
        return core.custom_op(function, out=out, mode="python", batch="sequential", name=name)

    name = f"ase_{id(potential)}_{periodic}"
    energy = operator(value, lambda x, *box: core.spec((), np.float64), name)
    gradient = operator(slope, lambda x, *box: x, f"{name}_gradient")
    if periodic:
        box_gradient = operator(by_box, lambda x, box: box, f"{name}_box_gradient")
        energy.vjp(lambda ct, out, x, box: (ct * gradient(x, box), ct * box_gradient(x, box)))
    else:
        energy.vjp(lambda ct, out, x: ct * gradient(x))
    return energy


def _gyration(positions, k, target):
    d = positions - np.mean(positions, axis=0)
    return 0.5 * k * (np.sqrt(np.mean(np.sum(d * d, axis=1))) - target) ** 2


def _per_volume(positions, box, k):
    d = displacement(positions[1:] - positions[:-1], box)
    return k * np.sum(d * d) / volume(box)


def example():
    """Potentials for `testing`, with the options of `example_system` that each needs."""
    return [
        ([FunctionPotential(_gyration, {"k": 1000.0, "target": 0.3}, name="gyration")], {}),
        ([FunctionPotential(_per_volume, {"k": 10.0})], {"box": [[0.9, 0, 0], [0.2, 0.8, 0], [-0.1, 0.3, 0.9]]}),
    ]
