"""Terms of two, three or four atoms from a scalar function: `bond_potential`, `angle_potential`, `torsion_potential`.

The function gives the energy of one term. Its sum over all terms is the potential's pure energy; its compiled form is
generated: the function and its derivative as vector code (`codegen.simd_source`) inside the loop for its kind
(`term_kernels`).
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np

from triskele.core.extend import Elementwise, Task, elementwise, load_module

from ...codegen.handle import Handle
from ...codegen.simd_source import Output, expressions
from ...engine.plan import ROW, Plan
from ...fingerprint import fingerprint_of
from ...geometry import angles, distances, torsions
from ...potential import Potential
from ...topology import as_indices
from .term_kernels import LANES, add_buffers

__all__ = ["TermPotential", "angle_potential", "bond_potential", "plan_terms", "torsion_potential"]


# -------------------------------------------------------------------------------------------------------- compiled form
class Kind(NamedTuple):
    """The properties in which bonds, angles and torsions differ."""

    atoms: int  # of a term
    coordinate: Callable  # (positions, box, atoms) -> [m]
    loop: str  # in term_kernels
    given: tuple[str, ...]  # vectors that the loop computes: the coordinate, and what comes for free
    known: dict[str, str]  # what those are, in terms of the coordinate
    power: int  # of the coordinate: the loop wants u' times this
    chunk: int  # terms in a chunk: some 20 us of work


BOND = Kind(2, distances, "bond_loop", ("x", "inverse", "square"), {"1/x": "inverse", "x**2": "square"}, -1, 4096)
_ANGLES = ("theta0", "phi0", "phase")  # parameters that are often given in degrees
ANGLE = Kind(3, angles, "angle_loop", ("x", "cosine", "sine"), {"cos(x)": "cosine", "sin(x)": "sine"}, 0, 2048)
TORSION = Kind(4, torsions, "torsion_loop", ("x", "cosine", "sine"), {"cos(x)": "cosine", "sin(x)": "sine"}, 0, 1024)

_SOURCE = """from triskele.core.extend import simd
from triskele.core.extend import device, kernel
from triskele.sponge.potentials.bonded.term_kernels import {loop}
import numpy as np


@device
def value({given}, params, at, n_params):
{body}
    return {results}


@kernel(nogil=True)
def terms(chunk, positions, box, flags, layout, atoms, params, buffer, rows):
    {loop}(value, {n_params}, chunk, positions, box, flags, layout, atoms, params, buffer, rows)
"""


def generated_kernel(function: Elementwise, kind: Kind) -> Any:
    """The kernel for terms of one function."""
    x, *params = function.names
    names = [f"p{k}" for k in range(len(params))]
    lines, results = expressions(
        function,
        [Output(), Output((x,), ((x, kind.power),))],
        arguments=["x", *names],
        known=kind.known,
        where=function.__name__,
    )
    loads = [f"{name} = simd.load(params, at + {LANES * k}, {LANES})" for k, name in enumerate(names)]
    source = _SOURCE.format(
        loop=kind.loop,
        given=", ".join(kind.given),
        n_params=len(params),
        body="\n".join(f"    {line}" for line in [*loads, *lines]),
        results=", ".join(results),
    )
    return load_module(source, function.__name__).terms


def plan_terms(
    engine: Any,
    kernel: Any,  # takes (chunk, positions, box, flags, layout, atoms, params, buffer, rows, *tables)
    atoms: np.ndarray,
    params: np.ndarray,  # (m, k) and (m, p)
    chunk: int,  # terms in a chunk, roughly
    *tables: np.ndarray,
    images: bool = True,  # as for `Potential`
    updates: Mapping[str, Callable[[], np.ndarray]] = MappingProxyType({}),  # by parameter: `params` as they are then
) -> Plan:
    """Return the plan of a kernel of `term_kernels`."""
    m, k = atoms.shape
    if m == 0:
        return Plan()
    order = np.argsort(atoms.min(1), kind="stable")
    atoms = atoms[order]
    # terms may join atoms far apart in number; then fewer chunks, or the buffers would outgrow the system
    chunks = int(np.clip(m // chunk, 1, 64))
    while True:
        cuts = np.linspace(0, m, chunks + 1).astype(np.int64)
        low = np.minimum.reduceat(atoms.min(1), cuts[:-1])
        width = np.maximum.reduceat(atoms.max(1), cuts[:-1]) - low + 1
        if chunks == 1 or width.sum() <= 4 * engine.n:
            break
        chunks = chunks // 2
    blocks = -(-np.diff(cuts) // LANES)
    first = np.cumsum([0, *blocks])
    layout = np.stack([first[:-1], np.diff(cuts), low, width, np.cumsum([0, *width[:-1]])], axis=1).astype(np.int64)
    # a lane has successive terms; places that are left over take the last term, which the kernel then leaves out
    place = np.concatenate(
        [
            np.minimum(np.arange(LANES * b).reshape(LANES, b).T.ravel() + s, e - 1)
            for b, s, e in zip(blocks, cuts[:-1], cuts[1:], strict=True)
        ]
    )

    def blocked(values):
        return np.ascontiguousarray(values[place].reshape(-1, LANES, values.shape[1]).swapaxes(1, 2)).reshape(-1)

    held = blocked(params[order])

    def again(values):
        held[:] = blocked(values()[order])

    buffer, rows = np.zeros(4 * int(width.sum())), np.zeros((chunks, ROW))
    box = engine.box if images else np.zeros((3, 3))
    task = Task(
        kernel,
        engine.positions,
        box,
        engine.flags,
        layout,
        blocked(atoms.astype(np.int32)),
        held,
        buffer,
        rows,
        *tables,
        chunks=chunks,
    )
    reduce = Task(add_buffers, engine.atom_starts, layout, buffer, engine.forces, chunks=engine.atom_chunks)
    updated = {name: functools.partial(again, values) for name, values in updates.items()}
    return Plan(stages=[[task]], reduce=[reduce], rows=rows, updates=updated)


# -------------------------------------------------------------------------------------------------------- the potential
class TermPotential(Potential):
    """A sum of terms of the same form over given atoms.

    Made by `bond_potential`, `angle_potential`, `torsion_potential`.

    Parameters
    ----------
    atoms : (m, k) int
        The atoms of each term: pairs, triples with the middle atom second, or chains of four.
    name : str, optional
        Name under which the energy is reported.
    **params : float or (m,) array
        The function's other arguments, by name; numbers hold for all terms.
    """

    conserves_momentum = True
    function: ClassVar[Elementwise]
    kind: ClassVar[Kind]
    default_name: ClassVar[str]
    compiled: ClassVar[Callable | None] = None

    @property
    def enhanced(self) -> bool:  # type: ignore[override]
        """Return True for torsions."""
        return self.kind is TORSION

    def __init__(self, atoms: Any, name: str | None = None, **params: Any):
        where = type(self).__name__
        self.name = name or self.default_name
        self.atoms = indices(where, atoms, self.kind.atoms)
        self.params = _parameters(where, self.function, params, len(self.atoms))

    def energy(self, params: dict[str, Any], positions: Any, box: Any) -> Any:
        x = self.coordinates(positions, box)
        function = present_function(self)
        return np.sum(function(x, *[params[n] for n in function.names[1:]]))

    def coordinates(self, positions: Any, box: Any = None) -> Any:
        """The distances (nm) or angles (radians) that the energy depends on, [m]."""
        return self.kind.coordinate(positions, box if self.images else None, self.atoms)

    def subset(self, which: np.ndarray) -> TermPotential:
        """The same with the terms of a mask or of indices `which` only."""
        part = copy.copy(self)
        part._reshaped()
        part.atoms = np.ascontiguousarray(self.atoms[which])
        part.params = {name: values[which] if values.ndim else values for name, values in self.params.items()}
        return part

    def check(self, system):
        where = f"{type(self).__name__} {self.name!r}"
        if len(self.atoms) and self.atoms.max() >= system.n:
            k = int(np.argmax((self.atoms >= system.n).any(1)))
            raise ValueError(f"{where}: atoms must be below {system.n}, got {self.atoms[k].tolist()} in term {k}")
        for name, values in self.params.items():
            if not np.all(np.isfinite(values)):
                values = np.broadcast_to(values, len(self.atoms))
                k = int(np.argmin(np.isfinite(values)))
                atoms = ", ".join(system.topology.describe(a) for a in self.atoms[k])
                raise ValueError(f"{where}: parameter {name} must be finite, got {values[k]} in term {k} ({atoms})")
            if name in _ANGLES and self.kind in (ANGLE, TORSION) and np.any(np.abs(values) > 10 * np.pi):
                raise ValueError(
                    f"{where}: {name} must be in radians, five turns at most, got "
                    f"{np.ravel(values)[np.argmax(np.abs(values))]:g} (np.radians)"
                )

    def plan(self, engine):
        compiled = type(self).compiled
        if compiled is not None:
            return compiled(self, engine)
        function = present_function(self)
        m = len(self.atoms)

        def columns():
            return np.stack([np.broadcast_to(self.params[n], m) for n in function.names[1:]] or [np.zeros(m)], axis=1)

        return plan_terms(
            engine,
            generated_kernel(function, self.kind),
            self.atoms,
            columns(),
            self.kind.chunk,
            images=self.images,
            updates=dict.fromkeys(self.params, columns),
        )

    def __reduce__(self):
        return class_and_state(self)


def class_and_state(potential: Potential) -> tuple:
    """Reduce a potential whose class was made by a decorator, for pickle."""
    return _restore, (Handle(type(potential)), potential.__dict__)


def _restore(handle, state):
    potential = object.__new__(handle.get())
    potential.__dict__.update(state)
    return potential


def potential_class(base: type, function: Elementwise, /, **attributes: Any) -> type:
    """A subclass of `base` under the name of `function`."""
    attributes |= {
        "__module__": function.__module__,
        "__qualname__": function.__qualname__,
        "__doc__": function.__doc__,
        "function": function,
    }
    return type(function.__name__, (base,), attributes)


def present_function(potential: Any) -> Elementwise:
    """The function of a potential, with the values that it has captured and its globals as they are now."""
    if not type(potential).__module__.startswith("triskele."):  # ours read nothing
        fingerprint_of(potential.function)  # which makes it forget what it has read before
    return potential.function


def arguments(function: Elementwise) -> list[inspect.Parameter]:
    """The parameters of a potential's function, without the distance or angle that comes first."""
    assert function._signature is not None
    return list(function._signature.parameters.values())[1:]


def indices(where: str, atoms: Any, k: int) -> np.ndarray:
    given = np.asarray(atoms)
    if given.size == 0:
        return np.empty((0, k), np.int32)
    if given.ndim != 2 or given.shape[1] != k or given.dtype.kind not in "iu":
        raise ValueError(f"{where}: atoms must be integers of shape [m, {k}], got {given.dtype} of shape {given.shape}")
    bad = (given < 0).any(1) | (np.diff(np.sort(given, axis=1), axis=1) == 0).any(1)
    if bad.any():
        i = int(np.argmax(bad))
        raise ValueError(
            f"{where}: the {k} atoms of a term must be different and >= 0, got {given[i].tolist()} in term {i}"
        )
    return as_indices(given, where)


def of_each(where: str, values: Any, count: int, of: str) -> np.ndarray:
    """A number for all, or one for each of `count`, as float64 [count]."""
    values = np.asarray(values, np.float64)
    if values.shape not in ((), (count,)):
        raise ValueError(f"{where} must be a number, or one for each of {count} {of}, got shape {values.shape}")
    return np.array(np.broadcast_to(values, count))


def checked_function(function: Any, coordinate: str, taken: Iterable[str]) -> Elementwise:
    """The function of a user as one of scalars; its first argument is the `coordinate`, none may be `taken`."""
    own = function if isinstance(function, Elementwise) else elementwise(function)
    if not own.names:
        raise TypeError(f"{own.__name__}: the function's first argument must be the {coordinate}, got none")
    if wrong := sorted(set(taken) & set(own.names)):
        raise TypeError(
            f"{own.__name__}: an argument must not be called {wrong[0]!r}, which the potential needs itself"
        )
    return own


def given_parameters(where: str, function: Elementwise, given: dict[str, Any]) -> dict[str, Any]:
    """Values of all parameters of a function, in its order: those that are given, and defaults."""
    names = function.names[1:]
    if unknown := [n for n in given if n not in names]:
        raise TypeError(f"{where}: parameters must be {', '.join(names) or 'none'}, got {', '.join(unknown)}")
    values = {p.name: p.default for p in arguments(function) if p.default is not p.empty} | given
    if missing := [n for n in names if n not in values]:
        raise TypeError(f"{where}: parameter {missing[0]} is missing (parameters: {', '.join(names)})")
    return {n: values[n] for n in names}


def _parameters(where: str, function: Elementwise, given: dict[str, Any], m: int) -> dict[str, np.ndarray]:
    params = {}
    for n, value in given_parameters(where, function, given).items():
        values = np.asarray(value, np.float64)
        if values.shape not in ((), (1,), (m,)):
            raise ValueError(
                f"{where}: parameter {n} must be a number or one for each of {m} terms, got shape {values.shape}"
            )
        params[n] = np.array(np.broadcast_to(values, (m,)))
    return params


def _decorator(kind: Kind, function: Callable | None, name: str | None, compiled: Callable | None) -> Any:
    def decorate(function):
        own = checked_function(function, kind.coordinate.__name__[:-1], ("name", "atoms"))
        return potential_class(
            TermPotential,
            own,
            kind=kind,
            default_name=name or own.__name__,
            compiled=None if compiled is None else staticmethod(compiled),
            __signature__=inspect.Signature(
                [
                    inspect.Parameter("atoms", inspect.Parameter.POSITIONAL_OR_KEYWORD),
                    inspect.Parameter("name", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None),
                    *[p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in arguments(own)],
                ]
            ),
        )

    return decorate if function is None else decorate(function)


def bond_potential(
    function: Callable | None = None, *, name: str | None = None, compiled: Callable | None = None
) -> Any:
    """Make a potential of pairs of atoms from the energy of one pair as a function of the distance.

    Parameters
    ----------
    function : callable
        ``function(r, ...)`` -> energy in kJ/mol, of the distance in nm and of any further parameters: a function of
        scalars as for `core.elementwise`.
    name : str, optional
        Name under which energies are reported. Defaults to the function's.
    compiled : callable, optional
        ``compiled(potential, engine)`` -> Plan, in place of the generated one.

    Returns
    -------
    type
        A subclass of `TermPotential`: call it with pairs [m, 2] and the parameters.

    Examples
    --------
    >>> import math
    >>> from triskele.sponge import bond_potential
    >>> @bond_potential
    ... def morse(r, depth, width, r0):
    ...     return depth * (1 - math.exp(-width * (r - r0))) ** 2
    >>> morse([[0, 1], [1, 2]], depth=400.0, width=20.0, r0=[0.1, 0.11])
    <morse 'morse': depth (2,), width (2,), r0 (2,)>
    """
    return _decorator(BOND, function, name, compiled)


def angle_potential(
    function: Callable | None = None, *, name: str | None = None, compiled: Callable | None = None
) -> Any:
    """Make a potential of triples of atoms from the energy as a function of the angle at the second; as
    `bond_potential`.

    Parameters
    ----------
    function : callable
        Energy in kJ/mol of the angle in radians and of parameters.
    name : str, optional
        Defaults to the function's name.
    compiled : callable, optional
        A faster form of the function for kernels.

    Examples
    --------
    >>> import math
    >>> from triskele.sponge import angle_potential
    >>> @angle_potential
    ... def cosine_angle(theta, k, theta0):
    ...     return 0.5 * k * (math.cos(theta) - math.cos(theta0)) ** 2
    >>> cosine_angle([[0, 1, 2]], k=300.0, theta0=1.9)
    <cosine_angle 'cosine_angle': k (1,), theta0 (1,)>
    """
    return _decorator(ANGLE, function, name, compiled)


def torsion_potential(
    function: Callable | None = None, *, name: str | None = None, compiled: Callable | None = None
) -> Any:
    """Make a potential of chains of four atoms from the energy as a function of the torsion angle; as `bond_potential`.

    The angle lies in (-pi, pi], is 0 when the outer atoms are cis, and positive clockwise (IUPAC).

    Parameters
    ----------
    function : callable
        Energy in kJ/mol of the torsion angle in radians and of parameters.
    name : str, optional
        Defaults to the function's name.
    compiled : callable, optional
        A faster form of the function for kernels.

    Examples
    --------
    >>> import math
    >>> from triskele.sponge import torsion_potential
    >>> @torsion_potential
    ... def two_fold(phi, k):
    ...     return k * (1 - math.cos(2 * phi))
    >>> two_fold([[0, 1, 2, 3]], k=15.0)
    <two_fold 'two_fold': k (1,)>
    """
    return _decorator(TORSION, function, name, compiled)
