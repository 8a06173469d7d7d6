"""The contract of a potential: parameters, a pure energy, and a plan of compiled tasks.

A potential needs no more than `params` and `energy`: NumPy code, from which the core derives forces, virial and all
other derivatives, compiled into the step loop. Hot ones override `plan` with kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from triskele import core
from triskele.core.extend import Task, check, kernel

from .engine.jit_task import JitTask
from .engine.plan import ROW, Plan
from .sealed import Sealed

if TYPE_CHECKING:
    from .engine.engine import Engine
    from .system import System

__all__ = ["Potential", "complete", "parameter", "read_in_place"]


@kernel(nogil=True)
def subtract_gradient(chunk, starts, gradient, forces):  # gradient, forces [n, 3]
    for i in range(starts[chunk], starts[chunk + 1]):
        for a in range(3):
            forces[i, a] -= gradient[i, a]


@kernel(nogil=True)
def _keep(chunk, energy, by_strain, rows):  # [], [3, 3], [1, 10]
    rows[0, 0] = energy[()]
    for a in range(3):
        for b in range(3):
            rows[0, 1 + 3 * a + b] = -by_strain[b, a]


def read_in_place() -> None:
    """For `Plan.updates` of parameters whose arrays compiled functions hold by address: nothing is to be done."""


class Potential(Sealed):
    """A term of the potential energy. Subclasses set `name` and `params` and define `energy`.

    Attributes
    ----------
    name : str
        Name under which the energy is reported.
    params : dict of str to float64 array
        Parameters for derivatives and fits.
    enhanced : bool
        Sampling methods enhance these terms of a solute by default: torsions, 1-4 pairs and CMAP.
    pair_scope : {"listed", "all"}, optional
        For potentials between all pairs of atoms: pairs come from a neighbor list, or all are computed.
    together : slice or (m,) int, optional
        Atoms whose energy belongs to all of them together, and cannot be told apart into terms of given atoms or pairs.
    images : bool
        In a periodic box, take nearest images of differences of positions. Terms of given atoms and the excluded pairs
        of `Nonbonded` can do without, for molecules that are whole, or restraints that are longer than half the box.
    of_drude_particles : bool
        The potential's atoms (m, 2) are Drude particles and their atoms; see `System.drude_pairs`.
    conserves_momentum : bool, optional
        True if the forces on all atoms sum to zero wherever the atoms are; False for potentials that act from outside.
        None, the default, leaves it to a test of the forces where the atoms are and after moving all of them.
    moving_charges : bool
        The potential finds charges of the atoms for itself at every configuration, beside those in `params`.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import sponge
    >>> class Wall(sponge.Potential):
    ...     name = "wall"
    ...     def __init__(self, k):
    ...         self.params = {"k": np.array([k])}
    ...     def energy(self, params, positions, box):
    ...         return params["k"][0] * np.sum(np.maximum(positions[:, 2] - 1.0, 0.0) ** 2)
    >>> system = sponge.System(sponge.Topology.of_particles(1), [12.0], positions=[[0.0, 0.0, 1.5]])
    >>> wall = system.add(Wall(100.0))
    >>> float(system.energy())
    25.0
    """

    name: str
    params: dict[str, np.ndarray]
    enhanced: bool = False
    pair_scope: Literal["listed", "all"] | None = None
    together: slice | np.ndarray | None = None
    images: bool = True
    of_drude_particles: bool = False
    conserves_momentum: bool | None = None
    moving_charges: bool = False

    def energy(self, params: dict[str, Any], positions: Any, box: Any) -> Any:
        """Energy in kJ/mol: pure NumPy code that the core can trace; kernels must agree with it.

        Parameters
        ----------
        params : dict
            As `self.params`.
        positions : (n, 3) array, nm
            Positions of the atoms.
        box : (3, 3) array or None
        """
        raise NotImplementedError

    def take_over(self, system: System) -> None:
        """Take the place of potentials of the system: called by `System.add` before anything else."""

    def check(self, system: System) -> None:
        """Raise ValueError or a subclass if the potential does not fit the system."""

    def check_params(self) -> None:
        """Bring `params` to float64 arrays; raise ValueError if their names or shapes differ from those of the first
        call.
        """
        for key, value in self.params.items():
            if not (isinstance(value, np.ndarray) and value.dtype == np.float64 and value.flags.c_contiguous):
                self.params[key] = np.array(value, np.float64)
        shapes = {key: value.shape for key, value in self.params.items()}
        known = self.__dict__.setdefault("_shapes", shapes)
        if shapes != known:
            key = next(k for k in [*shapes, *known] if shapes.get(k) != known.get(k))
            raise ValueError(
                f"{self.name}: params must keep their names and shapes, got {key!r} of shape "
                f"{shapes.get(key, 'nothing')} in place of "
                f"{known.get(key, 'nothing')} (make a new potential)"
            )

    def _reshaped(self) -> None:
        """Take the present shapes of `params` as right: they were changed together with what they belong to."""
        self.__dict__.pop("_shapes", None)

    def plan(self, engine: Engine) -> Plan:
        """The compiled form. This one is what the core makes of `energy` and its derivatives."""
        periodic = engine.periodic
        gradient, energy, virial = np.zeros((engine.n, 3)), np.zeros(()), np.zeros((3, 3))
        rows, unit = np.zeros((1, ROW)), np.eye(3)

        def strained(strain, positions, params, box):
            return self.energy(params, positions @ (unit + strain), box @ (unit + strain) if periodic else None)

        def evaluate(positions, box, *leaves):
            params = dict(zip(self.params, leaves, strict=True))
            value, (by_strain, by_position) = core.value_and_grad(strained, (0, 1))(
                np.zeros((3, 3)), positions, params, box
            )
            return value, by_position, by_strain

        evaluate.__name__ = self.name
        leaves = [np.asarray(v) for v in self.params.values()]
        task = JitTask(evaluate, engine, [engine.positions, engine.box, *leaves], [energy, gradient, virial])
        keep = Task(_keep, energy, virial, rows)
        return Plan(
            stages=[[task], [keep]],
            rows=rows,
            reduce=[Task(subtract_gradient, engine.atom_starts, gradient, engine.forces, chunks=engine.atom_chunks)],
            updates=dict.fromkeys(self.params, read_in_place),
        )

    def __repr__(self):
        sizes = ", ".join(f"{k} {np.shape(v)}" for k, v in self.params.items())
        return f"<{type(self).__name__} {self.name!r}: {sizes}>"


def _values(own, potential, where):
    if potential not in own:
        raise KeyError(f"{where}: there is no potential {potential!r}; there are {', '.join(own)}")
    return own[potential]


def parameter(own: dict[str, dict[str, Any]], potential: str, key: str, where: str) -> Any:
    """Return a parameter of `own`, such as ``system.params()``; an unknown name raises KeyError with near ones."""
    if key not in _values(own, potential, where):
        names = [f"{name}/{k}" for name, values in own.items() for k in values]
        name = f"{potential}/{key}"
        raise KeyError(f"{where}: there is no parameter {name!r}{check.near(name, names, listing=True)}")
    return own[potential][key]


def complete(
    own: dict[str, dict[str, Any]], params: dict[str, dict[str, Any]], where: str
) -> dict[str, dict[str, Any]]:
    """Return `params`, and the values of `own` for what is left out; unknown names and other shapes raise errors."""
    for potential, values in params.items():
        _values(own, potential, where)
        for key, value in values.items():
            shape = np.shape(parameter(own, potential, key, where))
            if np.shape(value) != shape:
                raise ValueError(f"{where}: {potential + '/' + key!r} must have shape {shape}, got {np.shape(value)}")
    return {potential: {**values, **params.get(potential, {})} for potential, values in own.items()}
