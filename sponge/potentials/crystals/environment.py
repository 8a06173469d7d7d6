"""`EnvironmentPotential`: energies of atoms that depend on the vectors to a few neighbors; base of the potentials of
covalent crystals.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from triskele.core.extend import Task, kernel, simd, template

from ...box import check_cutoff, displacement
from ...engine.plan import ROW, Plan, add_forces
from ...errors import FileFormatError
from ...neighbors.pairs import find_pairs
from ...neighbors.rows import describe, eight, shared_rows
from ...potential import Potential
from ..at_values import Part, at_values
from .potential_files import assign, check_fit, lines_of, numbers_in, symbols, typed

if TYPE_CHECKING:
    from ...engine.engine import Engine
    from ...system import System

__all__ = [
    "DX",
    "DY",
    "DZ",
    "GX",
    "GY",
    "GZ",
    "KIND",
    "OWN",
    "RADIUS",
    "EnvironmentPotential",
    "Neighborhood",
    "examples",
    "finish_atom",
    "start_atom",
]

# Columns of the table of an atom's neighbors: vector to the neighbor, its length, derivatives of the energy by the
# vector, element; then those of the potential.
DX, DY, DZ, RADIUS, GX, GY, GZ, KIND, OWN = range(9)
_COLUMNS = 24

# pairs within the cut-offs: spans (n, 2) of each atom among them, their second atoms, derivatives by their vectors
Bonds = namedtuple("Bonds", "spans partners gradients")


class Neighborhood(NamedTuple):
    """Directed pairs i -> j within the cut-off, and pairs of them that share i: for pure energies."""

    i: np.ndarray  # (m,)
    j: np.ndarray  # (m,)
    first: np.ndarray  # (t,) pairs with one i and different j, in both orders
    second: np.ndarray
    a: np.ndarray  # (t,) elements of i, of j of the first and of j of the second pair
    b: np.ndarray
    c: np.ndarray
    ab: np.ndarray  # (m, 2) elements of i and j
    lengths: np.ndarray  # (m,) distances in nm, constants to derivatives
    inside: np.ndarray  # (m,) bool: within the cut-off of their elements


class EnvironmentPotential(Potential):
    """Base of potentials with parameters for each three elements, as LAMMPS keeps them in files.

    Subclasses define `name`, `columns`, `lengths`, `kernel`, `pure` and `reach`, and the constant columns `fixed`.

    Parameters
    ----------
    elements : sequence of str
        Symbols of the elements that the parameters are for.
    types : (n,) int
        Number of each atom's element.
    **params : float or (e, e, e) array
        Parameters by the elements of an atom and of two of its neighbors; those of pairs are where both are the same.
    """

    conserves_momentum = True
    together = slice(None)

    columns: ClassVar[tuple[str, ...]]  # in the order of the file
    units: ClassVar[dict[str, float]]  # of those that have one
    fixed: ClassVar[tuple[str, ...]] = ()  # not for derivatives
    kernel: ClassVar[Any]

    def __init__(self, elements: Any, types: Any, **params: Any):
        where = type(self).__name__
        self.elements, self.types = typed(elements, types, where)
        e = len(self.elements)
        if set(params) != set(self.columns):
            raise TypeError(f"{where}: parameters must be {', '.join(self.columns)}, got {', '.join(params)}")
        self.params: dict[str, np.ndarray] = {}
        self.constants: dict[str, np.ndarray] = {}
        for name in self.columns:
            values = np.array(params[name], np.float64)
            if values.shape not in ((), (e, e, e)) or not np.all(np.isfinite(values)):
                raise ValueError(
                    f"{where}: {name} must be a finite number or of shape {(e, e, e)}, got "
                    f"{values if values.size < 9 else values.shape}"
                )
            own = self.constants if name in self.fixed else self.params
            own[name] = np.array(np.broadcast_to(values, (e, e, e)))
        if not np.all(np.diagonal(np.atleast_3d(self.reach(self.all_params())), axis1=1, axis2=2) > 0):
            raise ValueError(
                f"{where}: cut-offs of pairs must be positive, got {np.min(self.reach(self.all_params()))} nm"
            )

    @classmethod
    def read(cls, path: Any, elements: Any) -> Any:
        """Read a parameter file of LAMMPS.

        Parameters
        ----------
        path : str or path
            The file, in units "metal".
        elements : (n,) str or int
            Symbol or atomic number of each atom, such as ``system.topology.elements``.

        Raises
        ------
        FileFormatError
            If the file is damaged or truncated, or in other units.
        ValueError
            If it has no parameters for an element, or not for every three of them.
        """
        where = f"{cls.__name__}.read: {path}"
        entries = _entries(lines_of(path, f"{cls.__name__}.read"), len(cls.columns), where)
        known = list(dict.fromkeys(names[0] for names in entries))
        used, types = assign(symbols(elements, f"{cls.__name__}.read"), known, where)
        table = np.zeros((len(cls.columns), *[len(used)] * 3))
        for at in np.ndindex(table.shape[1:]):
            names = tuple(used[k] for k in at)
            if names not in entries:
                raise ValueError(f"{where}: the file must have parameters for {' '.join(names)}")
            table[(slice(None), *at)] = entries[names]
        units = [cls.units.get(name, 1.0) for name in cls.columns]
        return cls(used, types, **{name: row * unit for name, row, unit in zip(cls.columns, table, units, strict=True)})

    def all_params(self) -> dict[str, np.ndarray]:
        """Parameters with the constants among them."""
        return {**self.params, **self.constants}

    def reach(self, params: dict[str, Any]) -> np.ndarray:
        """Cut-offs [e, e, e] in nm."""
        raise NotImplementedError

    def pure(self, params: dict[str, Any], near: Neighborhood, r: Any, cosines: Any) -> Any:
        """Energy from the lengths of pairs and the cosines between pairs: NumPy for the core."""
        raise NotImplementedError

    def check(self, system: System) -> None:
        """Raise if the system has another number of atoms, or too small a box."""
        check_fit(self, system)

    @property
    def cutoff(self) -> float:
        """The longest cut-off (nm)."""
        return float(np.max(self.reach(self.all_params())))

    def energy(self, params: dict[str, Any], positions: Any, box: Any) -> Any:
        names = list(params)

        def parts(leaves):
            given = {**self.constants, **dict(zip(names, leaves, strict=False))}
            return given, *(leaves[-2:] if box is not None else (leaves[-1], None))

        def choose(*leaves):
            return [Part(function, self.neighborhood(*parts(leaves)))]

        def function(near, *leaves):
            given, x, edges = parts(leaves)
            d = displacement(x[near.j] - x[near.i], edges)
            r = np.sqrt(np.sum(d * d, axis=-1))
            cosines = np.sum(d[near.first] * d[near.second], axis=-1) / (r[near.first] * r[near.second])
            return self.pure(given, near, r, cosines)

        return at_values(choose, *params.values(), positions, *([] if box is None else [box]))

    def neighborhood(self, params: dict[str, Any], positions: np.ndarray, box: np.ndarray | None) -> Neighborhood:
        """The pairs within the cut-offs of their elements, and the triples."""
        reach = self.reach(params)
        if box is not None:
            check_cutoff(self.name, float(np.max(reach)), box)
        pairs = find_pairs(positions, box, float(np.max(reach)), np.zeros((0, 2), int))
        i, j = np.concatenate([pairs, pairs[:, ::-1]]).T
        order = np.argsort(i, kind="stable")
        i, j = i[order], j[order]
        count = np.bincount(i, minlength=len(positions))[i]
        start = np.searchsorted(i, i)
        first = np.repeat(np.arange(len(i)), count)
        second = np.repeat(start, count) + np.arange(len(first)) - np.repeat(np.cumsum(count) - count, count)
        first, second = first[first != second], second[first != second]
        t, lengths = self.types, np.linalg.norm(displacement(positions[j] - positions[i], box), axis=1)
        return Neighborhood(
            i,
            j,
            first,
            second,
            t[i[first]],
            t[j[first]],
            t[j[second]],
            np.stack([t[i], t[j]], 1),
            lengths,
            lengths < reach[t[i], t[j], t[j]],
        )

    def plan(self, engine: Engine) -> Plan:
        """Kernels in two stages: energies of atoms with their derivatives by vectors to neighbors, forces."""
        rows, n = shared_rows(engine, self.cutoff), engine.n
        values = self.all_params()
        table = np.stack([*[values[name] for name in self.columns], self.reach(values)], axis=-1)
        kinds, home = np.zeros(len(rows.atoms) + 1, np.int32), np.zeros(n, np.int32)
        first, size = np.zeros(len(rows.atoms) + 1, np.int32), rows.rows.size
        bonds = Bonds(np.zeros((n, 2), np.int64), np.zeros(size + 8, np.int32), np.zeros((size, 3)))
        forces, chunks, sums = np.zeros((n, 3)), rows.chunks, np.zeros((rows.chunks, ROW))
        scratch = np.zeros((chunks, _COLUMNS, rows.rows.shape[1] + 8))
        rows.after_sorting(Task(describe, n, rows.sizes, self.types, rows.atoms, kinds, home, first))
        return Plan(
            stages=[
                [
                    Task(
                        type(self).kernel,
                        chunks,
                        n,
                        engine.flags,
                        self.cutoff,
                        rows.xs,
                        kinds,
                        first,
                        rows.counts,
                        rows.rows,
                        table,
                        bonds,
                        scratch,
                        sums,
                        chunks=chunks,
                    )
                ],
                [Task(collect, chunks, n, rows.atoms, bonds, forces, chunks=chunks)],
            ],
            reduce=[Task(add_forces, engine.atom_starts, forces, engine.forces, chunks=engine.atom_chunks)],
            rows=sums,
            before=rows.before,
        )


def examples(seed: int, make: Callable[[int, Callable[[], np.ndarray]], Potential]) -> list[Any]:
    """Potentials of one and of two elements for `testing`, with the options of `example_system` that each needs.

    `make` gets the number of elements, and a function that draws factors (e, e, e) near 1.
    """
    rng, boxes = np.random.default_rng(seed), (None, [[1.2, 0, 0], [0.2, 1.1, 0], [-0.1, 0.3, 1.3]])
    return [
        ([make(e, partial(rng.uniform, 0.9, 1.1, (e, e, e)))], {"n": 14, "box": box}) for e, box in enumerate(boxes, 1)
    ]


def _entries(lines, count, where):
    """Parameters by elements: entries of three symbols and `count` numbers, which may go over several lines."""
    words = [word for line in lines if not line.startswith("DATE:") for word in line.partition("#")[0].split()]
    found: dict[tuple[str, ...], list[float]] = {}
    for at in range(0, len(words), 3 + count):
        names = tuple(words[at : at + 3])
        if wrong := [name for name in names if not name[:1].isalpha()]:
            raise FileFormatError(
                f"{where}: an entry must begin with three elements, got {wrong[0]!r} (an entry has {count} numbers)"
            )
        numbers = words[at + 3 : at + 3 + count]
        if len(numbers) < count:
            raise FileFormatError(
                f"{where}: the entry {' '.join(names)} must have {count} numbers, got "
                f"{len(numbers)}: the file is truncated"
            )
        if names in found:
            raise FileFormatError(f"{where}: the file must have one entry for {' '.join(names)}, got two")
        found[names] = numbers_in(" ".join(numbers), f"{where}: {' '.join(names)}")
    if not found:
        raise FileFormatError(f"{where}: the file must have entries of three elements and {count} numbers, got none")
    return found


# -------------------------------------------------------------------------------------------------------------- kernels
@template
def start_atom(i, limit, xs, kinds, first, count, row, start, partners, own):
    """Fill the columns of the neighbors of entry i that are within the cut-off, and of what fills up to a multiple of
    eight: far away in the direction of x; returns their number.
    """
    x, y, z = simd.splat(xs[4 * i], 8), simd.splat(xs[4 * i + 1], 8), simd.splat(xs[4 * i + 2], 8)
    m, width = 0, own.shape[1]
    for k in range(0, count, 8):
        ex, ey, ez, _ = eight(xs, row, k)
        dx, dy, dz = ex - x, ey - y, ez - z
        square = dx * dx + dy * dy + dz * dz
        bits = np.int64(simd.bits(square < limit))
        while bits:
            bit = simd.popcount(np.uint64((bits & -bits) - 1))
            entry = np.int64(simd.load_scalar(row, k + np.int64(bit)))
            simd.store_scalar(partners, start + m, simd.load_scalar(first, entry))
            for a in range(3):
                simd.store_scalar(own, a * width + m, xs[4 * entry + a] - xs[4 * i + a])
            simd.store_scalar(own, KIND * width + m, np.float64(kinds[entry]))
            m += 1
            bits &= bits - 1
    for k in range(m, (m + 7) & -8):
        own[DX, k], own[DY, k], own[DZ, k], own[KIND, k] = 2 * np.sqrt(limit), 0.0, 0.0, 0.0
    zero = simd.splat(0.0, 8)
    for k in range(0, m, 8):
        dx = simd.load(own, DX * width + k, 8)
        dy = simd.load(own, DY * width + k, 8)
        dz = simd.load(own, DZ * width + k, 8)
        simd.store(own, RADIUS * width + k, simd.sqrt(dx * dx + dy * dy + dz * dz))
        simd.store(own, GX * width + k, zero)
        simd.store(own, GY * width + k, zero)
        simd.store(own, GZ * width + k, zero)
    return m


@template
def finish_atom(want, m, start, own, gradients, out):
    """Keep the derivatives by the vectors, and add up the virial."""
    for k in range(m):
        for a in range(3):
            gradients[start + k, a] = own[GX + a, k]
    if want:
        for k in range(m):
            for a in range(3):
                for b in range(3):
                    out[1 + 3 * a + b] -= own[GX + a, k] * own[DX + b, k]


@kernel(nogil=True)
def collect(chunk, chunks, n, atoms, bonds, forces):
    """Forces in the order of the atoms, from derivatives by vectors to neighbors: an atom's own, less those of its
    neighbors by the vectors to it.
    """
    spans, partners, gradients = bonds
    for i in range(chunk * n // chunks, (chunk + 1) * n // chunks):
        fx, fy, fz = 0.0, 0.0, 0.0
        for k in range(spans[i, 0], spans[i, 1]):
            j = partners[k]
            fx, fy, fz = fx + gradients[k, 0], fy + gradients[k, 1], fz + gradients[k, 2]
            for back in range(spans[j, 0], spans[j, 1]):
                if partners[back] == i:
                    fx, fy, fz = fx - gradients[back, 0], fy - gradients[back, 1], fz - gradients[back, 2]
                    break
        forces[atoms[i], 0], forces[atoms[i], 1], forces[atoms[i], 2] = fx, fy, fz
