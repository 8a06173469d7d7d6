"""`NeighborRows`: all neighbors of each atom within a cut-off and a skin, in rows, for many-body potentials.

Atoms are sorted by cells, and periodic images within reach of the box stand behind them as entries of their own, so
that kernels see coordinates without images. A row lists both directions of each pair. Rows are rebuilt before an atom
or an image has moved by half the skin.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from triskele.core.extend import Task, kernel, simd, template

from ..engine.flags import REBUILD, STATUS, STATUS_INFO, STEP
from ..engine.program import Phase
from .buffer import SKIN
from .moments import Moment
from .neighbor_list import FIRST_WORD, LAST_WORD, box_too_small, first_word
from .state import N_STATE, SMALL_BOX, aligned_zeros

if TYPE_CHECKING:
    from ..engine.engine import Engine

__all__ = [
    "EVERYWHERE",
    "NeighborRows",
    "add_virial",
    "check_extent",
    "describe",
    "eight",
    "even",
    "odd",
    "shared_rows",
    "zipped",
]

EVERYWHERE = 1e5  # nm: a cut-off of clusters whose pairs all count
FULL = 25  # status: entries or a row do not fit; the information is the number needed, minus that of entries
_LOST = 1.0e9  # nm, from where on an atom has no place
_FILLER = 1.0e6  # nm from the first atom
# a reduced box leans by up to half an edge per vector
_IMAGES = sorted(itertools.product(range(-3, 4), range(-2, 3), (-1, 0, 1)), key=lambda n: n != (0, 0, 0))


@template
def _two(xs, rows, at):
    """Entries `at` and at + 2 of a row."""
    return simd.concat(
        simd.load(xs, 4 * np.int64(simd.load_scalar(rows, at)), 4),
        simd.load(xs, 4 * np.int64(simd.load_scalar(rows, at + 2)), 4),
    )


@template
def eight(xs, rows, at):
    """Coordinates and the fourth word of eight entries, whose numbers stand in `rows` from `at` on."""
    return _transposed(_two(xs, rows, at), _two(xs, rows, at + 1), _two(xs, rows, at + 4), _two(xs, rows, at + 5))


@template
def even(v, w):
    """Even pairs of lanes of two vectors; the processor has an instruction for this order, as for `odd` pairs."""
    return simd.shuffle2(v, w, (0, 1, 4, 5, 8, 9, 12, 13))


@template
def odd(v, w):
    return simd.shuffle2(v, w, (2, 3, 6, 7, 10, 11, 14, 15))


@template
def zipped(v, w):
    """Even lanes of two vectors, zipped, and odd lanes."""
    return simd.shuffle2(v, w, (0, 8, 2, 10, 4, 12, 6, 14)), simd.shuffle2(v, w, (1, 9, 3, 11, 5, 13, 7, 15))


@template
def _transposed(a, b, c, d):
    """Columns of eight rows of four, of which a holds 0 and 2, b 1 and 3, c 4 and 6, d 5 and 7."""
    xz, yw = zipped(a, b)
    uz, vw = zipped(c, d)
    return even(xz, uz), even(yw, vw), odd(xz, uz), odd(yw, vw)


@template
def add_virial(out, f, dx, dy, dz):
    """Add to a row of energy and virial what pairs, each of which is met twice, with forces f (dx, dy, dz) add."""
    h = f * -0.5
    gx, gy, gz = h * dx, h * dy, h * dz
    xy, xz, yz = simd.sum(gx * dy), simd.sum(gx * dz), simd.sum(gy * dz)
    out[1] += simd.sum(gx * dx)
    out[5] += simd.sum(gy * dy)
    out[9] += simd.sum(gz * dz)
    out[2] += xy
    out[4] += xy
    out[3] += xz
    out[7] += xz
    out[6] += yz
    out[8] += yz


@kernel(nogil=True)
def clock(chunk, first, last, flags, box, periodic, cutoff):
    """Pass on the wish that all lists be rebuilt, and report a box in which an atom would be met twice."""
    if periodic and min(box[0, 0], min(box[1, 1], box[2, 2])) < 2.0 * cutoff:
        flags[STATUS] = SMALL_BOX
    if flags[REBUILD]:
        flags[REBUILD] = 0
        for word in range(first, last, 2):
            flags[word] = 1


@template
def _place(k, positions, box, atoms, turns, xs):
    """Set the coordinates of an entry."""
    i, a, b, c = atoms[k], turns[k, 0], turns[k, 1], turns[k, 2]
    xs[4 * k] = positions[i, 0] + (a * box[0, 0] + b * box[1, 0] + c * box[2, 0])
    xs[4 * k + 1] = positions[i, 1] + (b * box[1, 1] + c * box[2, 1])
    xs[4 * k + 2] = positions[i, 2] + c * box[2, 2]


@kernel(nogil=True)
def refresh(chunk, chunks, need, flags, positions, box, half_skin, sizes, atoms, turns, xs, built):
    """Coordinates of the entries from positions; asks for new rows when one has gone too far."""
    if flags[need]:
        return
    entries, far = sizes[0], False
    limit = half_skin * half_skin
    for k in range(chunk * entries // chunks, (chunk + 1) * entries // chunks):
        _place(k, positions, box, atoms, turns, xs)
        dx, dy, dz = xs[4 * k] - built[k, 0], xs[4 * k + 1] - built[k, 1], xs[4 * k + 2] - built[k, 2]
        far |= not dx * dx + dy * dy + dz * dz <= limit
    if far:
        flags[need] = 1


@template
def _cell(x, y, z, grid, sizes):
    cx = min(max(int((x - grid[0]) / grid[3]), 0), sizes[1] - 1)
    cy = min(max(int((y - grid[1]) / grid[4]), 0), sizes[2] - 1)
    return (cx * sizes[2] + cy) * sizes[3] + min(max(int((z - grid[2]) / grid[5]), 0), sizes[3] - 1)


@kernel(nogil=True)
def wrap(chunk, n, positions, box, periodic, radius, cells, sizes, grid, wrapped):
    """Positions in the brick that repeats, with the box vectors added to get there [n, 6], and the grid of cells.

    grid holds the low corner and the edges of a cell; sizes[1:4] gets the number of cells along each axis.
    """
    low, high = np.full(3, np.inf), np.full(3, -np.inf)
    for i in range(n):
        x, y, z = positions[i, 0], positions[i, 1], positions[i, 2]
        a, b, c = 0.0, 0.0, 0.0
        if periodic:
            c = np.floor(z / box[2, 2]) if abs(z) < _LOST else 0.0
            x, y, z = x - c * box[2, 0], y - c * box[2, 1], z - c * box[2, 2]
            b = np.floor(y / box[1, 1]) if abs(y) < _LOST else 0.0
            x, y = x - b * box[1, 0], y - b * box[1, 1]
            a = np.floor(x / box[0, 0]) if abs(x) < _LOST else 0.0
            x = x - a * box[0, 0]
        # a lost atom is sorted somewhere; its true coordinates are what forces see
        wrapped[i, 0] = x if abs(x) < _LOST else 0.0
        wrapped[i, 1] = y if abs(y) < _LOST else 0.0
        wrapped[i, 2] = z if abs(z) < _LOST else 0.0
        wrapped[i, 3], wrapped[i, 4], wrapped[i, 5] = -a, -b, -c
        for k in range(3):
            low[k], high[k] = min(low[k], wrapped[i, k]), max(high[k], wrapped[i, k])
    for k in range(3):
        if periodic:
            low[k], high[k] = -radius, box[k, k] + radius
        edge = max(0.5 * radius * (1 + 1e-9), (high[k] - low[k]) / cells)  # two cells reach as far as the radius
        sizes[1 + k] = int((high[k] - low[k]) / edge) + 1
        grid[k], grid[3 + k] = low[k], edge


@kernel(nogil=True)
def sort(
    chunk,
    n,
    flags,
    positions,
    box,
    periodic,
    images,
    radius,
    wrapped,
    grid,
    sizes,
    starts,
    keys,
    atoms,
    turns,
    xs,
    built,
):
    """Make the entries: atoms in the order of their cells, then the images within reach in the order of theirs.

    sizes[0] gets their number; starts [2, cells + 1] where the atoms and the images of a cell begin.
    """
    cells = sizes[1] * sizes[2] * sizes[3]
    starts[:, : cells + 1] = 0
    for place in range(2):  # first count, then place
        entries = 0
        for s in range(images.shape[0]):
            vx = images[s, 0] * box[0, 0] + images[s, 1] * box[1, 0] + images[s, 2] * box[2, 0]
            vy, vz = images[s, 1] * box[1, 1] + images[s, 2] * box[2, 1], images[s, 2] * box[2, 2]
            if s > 0 and (
                abs(vx) >= box[0, 0] + radius or abs(vy) >= box[1, 1] + radius or abs(vz) >= box[2, 2] + radius
            ):
                continue
            kind = min(s, 1)
            for i in range(n):
                x, y, z = wrapped[i, 0] + vx, wrapped[i, 1] + vy, wrapped[i, 2] + vz
                if s > 0 and not (
                    -radius <= x <= box[0, 0] + radius
                    and -radius <= y <= box[1, 1] + radius
                    and -radius <= z <= box[2, 2] + radius
                ):
                    continue
                if place:
                    k = starts[kind, keys[entries]]
                    starts[kind, keys[entries]] += 1
                    atoms[k] = i
                    for a in range(3):
                        turns[k, a] = wrapped[i, 3 + a] + images[s, a]
                elif entries < len(keys):
                    keys[entries] = _cell(x, y, z, grid, sizes)
                    starts[kind, keys[entries] + 1] += 1
                entries += 1
        if entries > len(keys):
            flags[STATUS], flags[STATUS_INFO] = FULL, -entries
            return
        if not place:
            starts[1, 0] = n
            for kind in range(2):
                for cell in range(cells):
                    starts[kind, cell + 1] += starts[kind, cell]
        sizes[0] = entries
    for kind in range(2):  # each start has moved on to the next one
        for cell in range(cells, 0, -1):
            starts[kind, cell] = starts[kind, cell - 1]
        starts[kind, 0] = n * kind
    for k in range(sizes[0]):
        _place(k, positions, box, atoms, turns, xs)
        for a in range(3):
            built[k, a] = xs[4 * k + a]
    for a in range(3):  # what rows are filled up with
        xs[4 * sizes[0] + a] = xs[a] + _FILLER


@kernel(nogil=True)
def search(chunk, chunks, n, flags, radius, sizes, grid, starts, xs, counts, rows):
    """Rows of the atoms of a chunk: entries within the radius, filled up to a multiple of eight."""
    ny, nz = sizes[2], sizes[3]
    limit, width, filler = radius * radius, rows.shape[1], np.int32(sizes[0])
    ranks = simd.iota(8)
    for i in range(chunk * n // chunks, (chunk + 1) * n // chunks):
        row, count = rows[i], 0
        px, py, pz = xs[4 * i], xs[4 * i + 1], xs[4 * i + 2]
        x, y, z = simd.splat(px, 8), simd.splat(py, 8), simd.splat(pz, 8)
        cell = _cell(px, py, pz, grid, sizes) if abs(px) + abs(py) + abs(pz) < _LOST else 0
        cx, cy, cz = cell // (ny * nz), cell // nz % ny, cell % nz
        for ix in range(max(cx - 2, 0), min(cx + 3, sizes[1])):
            gap_x = max(0.0, max(grid[0] + ix * grid[3] - px, px - grid[0] - (ix + 1) * grid[3]))
            for iy in range(max(cy - 2, 0), min(cy + 3, ny)):
                gap_y = max(0.0, max(grid[1] + iy * grid[4] - py, py - grid[1] - (iy + 1) * grid[4]))
                if gap_x * gap_x + gap_y * gap_y > limit:
                    continue
                column = (ix * ny + iy) * nz
                for kind in range(2):
                    last = starts[kind, column + min(cz + 3, nz)]
                    for k in range(starts[kind, column + max(cz - 2, 0)], last, 8):
                        e = 4 * k
                        ex, ey, ez, _ = _transposed(
                            simd.concat(simd.load(xs, e, 4), simd.load(xs, e + 8, 4)),
                            simd.concat(simd.load(xs, e + 4, 4), simd.load(xs, e + 12, 4)),
                            simd.concat(simd.load(xs, e + 16, 4), simd.load(xs, e + 24, 4)),
                            simd.concat(simd.load(xs, e + 20, 4), simd.load(xs, e + 28, 4)),
                        )
                        dx, dy, dz = ex - x, ey - y, ez - z
                        near = (dx * dx + dy * dy + dz * dz < limit) & (ranks < np.int32(last - k))
                        bits = np.int64(simd.bits(near & (ranks != np.int32(i - k))))
                        if count + 16 > width:  # go on counting
                            count += simd.popcount(np.uint64(bits))
                            continue
                        for m in range(8):
                            simd.store_scalar(row, count, np.int32(k + m))
                            count += bits >> m & 1
        counts[i] = count
        if count + 16 > width:
            flags[STATUS], flags[STATUS_INFO] = FULL, count
        else:
            for k in range(count, (count + 7) & -8):
                row[k] = filler


@kernel(nogil=True)
def describe(chunk, n, sizes, types, atoms, kinds, home, first):
    """Element of each entry, and the one among the first n that stands for the same atom."""
    for k in range(n):
        home[atoms[k]] = k
    for k in range(sizes[0]):
        kinds[k], first[k] = types[atoms[k]], home[atoms[k]]


@kernel(nogil=True)
def finish(chunk, need, flags):
    flags[need] = 0


class NeighborRows:
    """All neighbors of each atom within `cutoff` nm, in rows that reach `skin` nm farther: more is rebuilt less often.

    The phases `before` run before the kernels over rows.
    """

    def __init__(self, engine: Engine, cutoff: float, skin: float = SKIN):
        self.engine, self.cutoff, self.skin, n = engine, float(cutoff), float(skin), engine.n
        self.word = first_word(engine)
        self.chunks = int(np.clip(n // 500, 1, 64))  # of kernels over rows; must depend only on the number of atoms
        self.images = np.array(_IMAGES if engine.periodic else _IMAGES[:1], np.float64)
        self.sizes, self._grid = np.zeros(4, np.int64), np.zeros(6)  # sizes: of entries, and of cells along each axis
        self._wrapped, self._version = np.zeros((n, 6)), -1
        self.moments, self.state = {"built": Moment(engine)}, np.zeros(N_STATE, np.int64)
        # guesses, which grow when they are not enough: a metal of 100 atoms/nm^3
        self._places = n + 64 + (int(n * 0.8) if engine.periodic else 0)
        self._width = int(min(100 * 4.19 * (self.cutoff + skin) ** 3, (27 if engine.periodic else 1) * n)) // 8 * 8 + 32
        self._allocate()
        engine.on_status(FULL, _grow)
        engine.on_status(SMALL_BOX, box_too_small)

    def _allocate(self):
        e, n, places = self.engine, self.engine.n, self._places
        cells = max(4, int(np.cbrt(8 * n)))  # at most, along an axis
        starts = np.zeros((2, (cells + 2) ** 3 + 1), np.int64)
        # coordinates of entries in blocks x y z w, atoms first; w belongs to the potential; entry sizes[0] is far away
        self.xs, self._built = aligned_zeros(4 * places + 64, np.float64), np.zeros((places, 3))
        # atom of each entry, and the box vectors added to its position
        self.atoms, self.turns, keys = np.zeros(places, np.int32), np.zeros((places, 3)), np.zeros(places, np.int64)
        # number and entries of the neighbors of the first n entries, filled up to a multiple of eight with the far one
        self.counts, self.rows = np.zeros(n, np.int64), aligned_zeros((n, self._width), np.int32)
        radius, need, periodic = self.cutoff + self.skin, self.word, int(e.periodic)
        place = e.positions, e.box, periodic
        self._sorted = Phase([], "sequence", flag=need, name="rows parameters")
        self.before = [
            Phase([Task(clock, FIRST_WORD, LAST_WORD, e.flags, e.box, periodic, self.cutoff)], name="rows clock"),
            Phase(
                [
                    Task(
                        refresh,
                        self.chunks,
                        need,
                        e.flags,
                        e.positions,
                        e.box,
                        0.5 * self.skin,
                        self.sizes,
                        self.atoms,
                        self.turns,
                        self.xs,
                        self._built,
                        chunks=self.chunks,
                    )
                ],
                name="coordinates",
            ),
            Phase(
                [
                    Task(wrap, n, *place, radius, cells, self.sizes, self._grid, self._wrapped),
                    self.moments["built"].task,
                ],
                flag=need,
                redo=True,
                name="rows wrap",
            ),
            Phase(
                [
                    Task(
                        sort,
                        n,
                        e.flags,
                        *place,
                        self.images,
                        radius,
                        self._wrapped,
                        self._grid,
                        self.sizes,
                        starts,
                        keys,
                        self.atoms,
                        self.turns,
                        self.xs,
                        self._built,
                    )
                ],
                flag=need,
                name="rows sort",
            ),
            Phase(
                [
                    Task(
                        search,
                        self.chunks,
                        n,
                        e.flags,
                        radius,
                        self.sizes,
                        self._grid,
                        starts,
                        self.xs,
                        self.counts,
                        self.rows,
                        chunks=self.chunks,
                    )
                ],
                flag=need,
                name="rows search",
            ),
            self._sorted,
            Phase([Task(finish, need, e.flags)], flag=need, name="rows finish"),
        ]

    def grow(self, needed: int) -> None:
        """Make room for so many neighbors of an atom, or for minus so many entries; the plans must be rebuilt."""
        if needed < 0:
            self._places = max(self._places, int(-needed * 1.1) + 64)
        else:
            self._width = max(self._width, int(needed * 1.1) // 8 * 8 + 32)
        self._allocate()

    def after_sorting(self, task: Task) -> None:
        """Run `task`, of one chunk, whenever the entries have been made again; every plan of the engine must register
        it.
        """
        if self._version != self.engine.version:
            self._version, self._sorted.tasks = self.engine.version, []
        self._sorted.tasks = [*self._sorted.tasks, task]

    def mark(self) -> None:
        """Do nothing: rows are those of their last building, whatever has been evaluated since."""

    def resume(self, mark: None) -> None:
        """Do nothing."""

    def ask(self, moment: str) -> None:
        """Let the next evaluation build the rows ("built"), or not."""
        self.engine.flags[self.word] = moment == "built"

    def allow(self, moved: float) -> None:
        """Do nothing: rows are rebuilt when an atom has moved too far, for whatever reason."""

    def strict(self) -> None:
        """Do nothing: rows never miss a pair."""

    def schedule(self, temperature: float, timestep: float, tolerance: float = 0.0) -> None:
        """Do nothing: rows are rebuilt when an atom has moved too far, at any temperature."""


def _grow(engine: Engine) -> bool:
    for rows in engine.neighbor_lists.values():
        if isinstance(rows, NeighborRows):
            rows.grow(int(engine.flags[STATUS_INFO]))
    return True


def shared_rows(engine: Engine, cutoff: float, skin: float = SKIN) -> NeighborRows:
    """The rows that all potentials of this cut-off and skin share."""
    engine, key = engine.owner, ("rows", float(cutoff), float(skin))  # whose flags ask for new rows
    if key not in engine.neighbor_lists:
        engine.neighbor_lists[key] = NeighborRows(engine, cutoff, skin)
    return engine.neighbor_lists[key]


def check_extent(engine: Engine, where: str) -> None:
    """Raise RuntimeError if the atoms of a cluster may be farther apart than the cut-off `EVERYWHERE`."""
    if engine.periodic:
        return
    extent = float(np.linalg.norm(np.ptp(engine.positions, axis=0)))
    if extent > EVERYWHERE:
        far = int(np.argmax(np.linalg.norm(engine.positions - np.median(engine.positions, axis=0), axis=1)))
        raise RuntimeError(
            f"{where}: at step {engine.flags[STEP]}, atoms must be at most {EVERYWHERE:g} nm apart for "
            f"all pairs to count, got {extent:.3g} nm; {engine.system.topology.describe(far)} is far "
            "from the others (remove it, or put it in a periodic box)"
        )
