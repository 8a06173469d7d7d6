"""Virtual sites: particles without mass whose positions are functions of other atoms' positions.

One object holds any number of sites of a kind. `place` is the formula, in NumPy, and can be traced by the core; the
compiled forms live in `kernels`.

Forces on a site are handed on to its parents by the transpose of the formula's derivative. The virial is summed before
that, from forces at the sites; for the linear kinds this is the same number, for the others the difference is added
when forces are handed on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from triskele.core.extend import Task

from ..protocols import SystemLike
from ..topology import as_indices, check_indices

if TYPE_CHECKING:
    from ..engine.engine import Engine

__all__ = [
    "LocalCoordinates",
    "OutOfPlane",
    "ThreeParticleAverage",
    "TwoParticleAverage",
    "VirtualSite",
    "WeightedAverage",
    "place_all",
]


@dataclass(frozen=True, eq=False)
class VirtualSite:
    """Sites of one kind: `sites` int32 [m], `parents` int32 [m, k], and the kind's own parameters.

    Use one of the kinds: `TwoParticleAverage`, `ThreeParticleAverage`, `WeightedAverage`, `OutOfPlane`,
    `LocalCoordinates`.
    """

    sites: Any
    parents: Any

    def _shape(self, parents: int | None, **parameters: tuple[int, ...]) -> None:
        """Give all fields their shapes and check them; parameters' shapes are those of one site, broadcast over
        sites.
        """
        name = type(self).__name__
        sites = as_indices(self.sites, f"{name}: sites").reshape(-1)
        given = as_indices(self.parents, f"{name}: parents")
        given = given.reshape(len(sites), -1) if given.ndim < 2 else given
        if given.shape[0] != len(sites) or (parents is not None and given.shape[1] != parents):
            raise ValueError(f"{name}: parents must have shape ({len(sites)}, {parents or 'k'}), got {given.shape}")
        if np.any(given == sites[:, None]):
            raise ValueError(
                f"{name}: site {sites[np.argmax(np.any(given == sites[:, None], 1))]} must not be its own parent"
            )
        object.__setattr__(self, "sites", sites)
        object.__setattr__(self, "parents", given)
        for key, shape in parameters.items():
            value = np.asarray(getattr(self, key), np.float64)
            if value.shape != (len(sites), *shape):
                try:
                    value = np.broadcast_to(value, (len(sites), *shape)).copy()
                except ValueError:
                    raise ValueError(
                        f"{name}: {key} must have shape {(len(sites), *shape)}, got {value.shape}"
                    ) from None
            if not np.all(np.isfinite(value)):
                raise ValueError(f"{name}: {key} must be finite, got {value[~np.isfinite(value)][0]}")
            object.__setattr__(self, key, value)

    def positions_of(self, parents: Any) -> Any:
        """Positions [m, 3] from those of the parents [m, k, 3]; can be differentiated."""
        raise NotImplementedError

    def place(self, positions: Any) -> Any:
        """Return all positions, (n, 3) in nm, with those of the sites replaced; differentiable.

        Molecules must be whole; what stands at the sites is not read.
        """
        placed = self.positions_of(positions[self.parents])
        n = positions.shape[0]
        # one gather instead of an assignment, which traced arrays do not know
        where = np.arange(n)
        where[self.sites] = n + np.arange(len(self.sites))
        return np.concatenate([positions, placed])[where]


def _check_sum(name: str, what: str, weights: np.ndarray, total: float) -> None:
    off = np.abs(weights.sum(-1) - total)
    if np.any(off > 1e-5):
        raise ValueError(f"{name}: {what} must sum to {total:g}, got {weights[np.argmax(off)].tolist()}")


@dataclass(frozen=True, eq=False)
class WeightedAverage(VirtualSite):
    """An average of any number of atoms, such as a center of mass: r = sum w_i r_i.

    Parameters
    ----------
    sites : int or (m,) int
    parents : (m, k) int
    weights : (m, k) or (k,) float
        Weights of the parents; they sum to 1.
    """

    weights: Any
    _parents: ClassVar[int | None] = None  # any number

    def __post_init__(self):
        k = self._parents or np.shape(self.weights)[-1]
        self._shape(k, weights=(k,))
        _check_sum(type(self).__name__, "weights", self.weights, 1)

    def positions_of(self, parents: Any) -> Any:
        return (self.weights[:, :, None] * parents).sum(1)


class TwoParticleAverage(WeightedAverage):
    """A point on the line through two atoms: r = w1 r1 + w2 r2.

    Parameters
    ----------
    sites : int or (m,) int
    parents : (m, 2) int
    weights : (m, 2) or (2,) float
        Weights of the parents; they sum to 1.

    Examples
    --------
    >>> middle = TwoParticleAverage(sites=2, parents=(0, 1), weights=(0.5, 0.5))
    >>> middle.place(np.array([[0.0, 0, 0], [1, 0, 0], [9, 9, 9]]))[2]
    array([0.5, 0. , 0. ])
    """

    _parents = 2


class ThreeParticleAverage(WeightedAverage):
    """A point in the plane of three atoms, as in four-site water: r = w1 r1 + w2 r2 + w3 r3.

    Parameters
    ----------
    sites : int or (m,) int
    parents : (m, 3) int
    weights : (m, 3) or (3,) float
        Weights of the parents; they sum to 1.
    """

    _parents = 3


@dataclass(frozen=True, eq=False)
class OutOfPlane(VirtualSite):
    """A point off the plane of three atoms, as the lone pairs of five-site water.

    r = r1 + w12 r12 + w13 r13 + wc (r12 x r13), with r12 = r2 - r1 and r13 = r3 - r1.

    Parameters
    ----------
    sites : int or (m,) int
    parents : (m, 3) int
    weight12, weight13 : (m,) float
    weight_cross : (m,) float, 1/nm
    """

    weight12: Any
    weight13: Any
    weight_cross: Any

    def __post_init__(self):
        self._shape(3, weight12=(), weight13=(), weight_cross=())

    def positions_of(self, parents: Any) -> Any:
        r1 = parents[:, 0]
        r12, r13 = parents[:, 1] - r1, parents[:, 2] - r1
        a, b, c = self.weight12[:, None], self.weight13[:, None], self.weight_cross[:, None]
        return r1 + a * r12 + b * r13 + c * _cross(r12, r13)


@dataclass(frozen=True, eq=False)
class LocalCoordinates(VirtualSite):
    """A fixed point of a frame that is carried by two or more atoms.

    The frame's origin and two directions are weighted sums of the parents' positions, o = sum wo_i r_i,
    X = sum wx_i r_i, Y = sum wy_i r_i; z is the direction of X x Y, x that of X, y = z x x.

    Parameters
    ----------
    sites : int or (m,) int
    parents : (m, k) int
    origin_weights : (m, k) or (k,) float
        Weights of the parents; they sum to 1.
    x_weights, y_weights : (m, k) or (k,) float
        They sum to 0.
    local : (m, 3) or (3,) float, nm
        Coordinates of the site in the frame.
    """

    origin_weights: Any
    x_weights: Any
    y_weights: Any
    local: Any

    def __post_init__(self):
        k = np.shape(self.origin_weights)[-1]
        self._shape(k, origin_weights=(k,), x_weights=(k,), y_weights=(k,), local=(3,))
        _check_sum("LocalCoordinates", "origin_weights", self.origin_weights, 1)
        _check_sum("LocalCoordinates", "x_weights", self.x_weights, 0)
        _check_sum("LocalCoordinates", "y_weights", self.y_weights, 0)

    def positions_of(self, parents: Any) -> Any:
        o, x, y = ((w[:, :, None] * parents).sum(1) for w in (self.origin_weights, self.x_weights, self.y_weights))
        z = _unit(_cross(x, y))
        x = _unit(x)
        p = self.local
        return o + p[:, :1] * x + p[:, 1:2] * _cross(z, x) + p[:, 2:] * z


def _cross(u: Any, v: Any) -> Any:
    (a, b, c), (d, e, f) = (u[:, 0], u[:, 1], u[:, 2]), (v[:, 0], v[:, 1], v[:, 2])
    return np.stack([b * f - c * e, c * d - a * f, a * e - b * d], axis=1)


def _unit(u: Any) -> Any:
    return u / np.sqrt((u * u).sum(1))[:, None]


def place_all(virtual_sites: Sequence[VirtualSite], positions: Any) -> Any:
    """Positions [n, 3] with all sites placed; can be differentiated."""
    for kind in virtual_sites:
        positions = kind.place(positions)
    return positions


# ------------------------------------------------------------------------------------------------------- compiled form
def place_tasks(engine: Engine) -> list[Task]:
    """Tasks, with the engine's chunks of atoms, that place all sites; none without sites."""
    if not engine.system.virtual_sites:
        return []
    from .kernels import place_sites

    return [Task(place_sites, *_tables(engine), engine.positions, chunks=engine.atom_chunks)]


def plan(engine: Engine) -> tuple[list[Task], list[Task], np.ndarray]:
    """Return tasks that place all sites, tasks that hand their forces on to the parents, and rows (chunks, 10).

    Rows are energies (0) and virials to be added to those of the potentials: what the virial gains when forces act on
    the parents of sites that are not fixed averages.
    """
    from .kernels import spread_forces

    rows = np.zeros((engine.atom_chunks, 10))
    spread = Task(spread_forces, *_tables(engine), engine.positions, engine.forces, rows, chunks=engine.atom_chunks)
    return place_tasks(engine), [spread], rows


def _tables(engine):
    """Arrays of the kernels: sites in the order of the engine's chunks."""
    from .kernels import AVERAGE, FRAME, OUT_OF_PLANE

    kinds, sites, counts, parents, weights, local = [], [], [], [], [], []
    for kind in engine.system.virtual_sites:
        m, k = kind.parents.shape
        w = np.zeros((m, k, 3))
        if isinstance(kind, OutOfPlane):
            code, p = OUT_OF_PLANE, np.column_stack([kind.weight12, kind.weight13, kind.weight_cross])
        elif isinstance(kind, LocalCoordinates):
            code, p = FRAME, kind.local
            w[:] = np.stack([kind.origin_weights, kind.x_weights, kind.y_weights], axis=2)
        else:
            code, p = AVERAGE, np.zeros((m, 3))
            w[:, :, 0] = kind.weights
        kinds.append(np.full(m, code, np.int8))
        sites.append(kind.sites)
        counts.append(np.full(m, k))
        parents.append(kind.parents.ravel())
        weights.append(w.reshape(-1, 3))
        local.append(p)
    kinds, sites, counts, local = (np.concatenate(a) for a in (kinds, sites, counts, local))
    parents, weights = np.concatenate(parents), np.concatenate(weights)
    first = np.cumsum(counts) - counts
    order = np.argsort(sites, kind="stable")
    where = np.concatenate([np.arange(first[s], first[s] + counts[s]) for s in order])
    starts = np.searchsorted(sites[order], engine.atom_starts).astype(np.int64)
    ranges = np.concatenate([[0], np.cumsum(counts[order])]).astype(np.int64)
    return (
        starts,
        kinds[order],
        sites[order],
        ranges,
        np.ascontiguousarray(parents[where], np.int32),
        weights[where],
        np.ascontiguousarray(local[order]),
    )


def check(system: SystemLike) -> None:
    """Raise ValueError if sites do not fit the system."""
    if not system.virtual_sites:
        return
    sites = np.concatenate([kind.sites for kind in system.virtual_sites])
    parents = np.concatenate([kind.parents.ravel() for kind in system.virtual_sites])
    describe = system.topology.describe
    check_indices(np.concatenate([sites, parents]), system.n, "virtual sites: atoms")
    for atom in sites[system.masses[sites] != 0][:1]:
        raise ValueError(f"virtual site {describe(atom)}: mass must be 0, got {system.masses[atom]:g}")
    values, count = np.unique(sites, return_counts=True)
    for atom in values[count > 1][:1]:
        raise ValueError(f"virtual site {describe(atom)}: must be placed by one rule, got {count[values == atom][0]}")
    for atom in parents[np.isin(parents, sites)][:1]:
        raise ValueError(f"virtual site {describe(atom)}: must not be the parent of another site, got one that is")
