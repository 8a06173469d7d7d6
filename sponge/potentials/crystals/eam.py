"""`EAM`: the embedded-atom method for metals and alloys, with tables from files of LAMMPS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from triskele import core
from triskele.core.extend import check

from ...box import check_cutoff, displacement
from ...errors import FileFormatError
from ...neighbors.pairs import find_pairs
from ...potential import Potential
from ...units import angstrom, eV
from ..at_values import Part, at_values
from .potential_files import assign, check_fit, lines_of, numbers_in, symbols, typed

if TYPE_CHECKING:
    from ...engine.engine import Engine
    from ...engine.plan import Plan
    from ...system import System

__all__ = ["EAM"]

# Hartree times Bohr radius in eV Angstrom, with the roundings that the format has (M. S. Daw, M. I. Baskes, DYNAMO;
# LAMMPS manual, pair_style eam): tables of effective charges were fitted with them.
_CHARGES = 27.2 * 0.529
_FEWEST = 5  # points that a table needs for its slopes


class EAM(Potential):
    r"""Energy of embedding each atom into the electron density of its neighbors, and a pair energy.

    .. math:: E = \sum_i F_i\Big(\sum_{j \ne i} \rho_{ji}(r_{ij})\Big) + \sum_{i<j} \phi_{ij}(r_{ij})

    (M. S. Daw and M. I. Baskes, Phys. Rev. B 29, 6443 (1984), eq. 7 and 8; with densities that depend on both elements,
    M. W. Finnis and J. E. Sinclair, Philos. Mag. A 50, 45 (1984)). Functions are tables at even spacings, between which
    they are cubic polynomials with the slopes that LAMMPS takes, and beyond the last point straight lines. The
    potential acts on all atoms; exclusions of the system do not apply to it.

    Parameters
    ----------
    elements : sequence of str
        Symbols of the elements that the tables are for.
    types : (n,) int
        Number of each atom's element.
    embedding : (e, k) array, kJ/mol
        Embedding energies at densities 0, `drho`, 2 `drho`, ...
    density : (e, m) or (e, e, m) array
        Densities that an atom of an element makes at distances 0, `dr`, 2 `dr`, ...; by its own element and that of the
        atom there with three axes (Finnis-Sinclair).
    pair : (e (e + 1) / 2, m) array, kJ/mol nm
        r times the pair energy for the pairs of elements 00, 10, 11, 20, ...
    drho : float
    dr : float, nm
    cutoff : float, nm

    Attributes
    ----------
    params : dict
        "embedding", "density" and "pair".

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import EAM
    >>> r = np.linspace(0, 0.5, 51)
    >>> metal = EAM(["Cu"], [0, 0], embedding=-np.sqrt(np.linspace(0, 5, 51))[None], density=(1 - 2 * r)[None] ** 2,
    ...             pair=10 * (1 - 2 * r)[None] ** 3, drho=0.1, dr=0.01, cutoff=0.5)
    >>> round(float(metal.energy(metal.params, np.array([[0, 0, 0], [0, 0, 0.25]]), None)), 3)
    4.002
    """

    conserves_momentum = True
    together = slice(None)

    def __init__(
        self,
        elements: Any,
        types: Any,
        *,
        embedding: Any,
        density: Any,
        pair: Any,
        drho: float,
        dr: float,
        cutoff: float,
    ):
        self.name = "eam"
        self.elements, self.types = typed(elements, types, "EAM")
        e = len(self.elements)
        self.drho = check.positive(drho, "EAM: drho")
        self.dr, self.cutoff = check.positive(dr, "EAM: dr", "nm"), check.positive(cutoff, "EAM: cutoff", "nm")
        self.params = {
            name: np.array(values, np.float64)
            for name, values in (("embedding", embedding), ("density", density), ("pair", pair))
        }
        points = self.params["pair"].shape[-1] if self.params["pair"].ndim else 0
        shapes = {
            "embedding": [(e, *self.params["embedding"].shape[-1:])],
            "pair": [(e * (e + 1) // 2, points)],
            "density": [(e, points), (e, e, points)],
        }
        for name, values in self.params.items():
            if values.shape not in shapes[name] or values.shape[-1] < _FEWEST:
                raise ValueError(
                    f"EAM: {name} must have shape {' or '.join(map(str, shapes[name]))} with at least "
                    f"{_FEWEST} points for {e} elements, got {values.shape}"
                )
            check.finite(values, f"EAM: {name}")
        if self.cutoff > points * self.dr * (1 + 1e-9):
            raise ValueError(
                f"EAM: the tables must reach to the cut-off {cutoff} nm, got {points} points {dr} nm apart"
            )

    @classmethod
    def read(cls, path: Any, elements: Any) -> EAM:
        """Read a file in the formats of LAMMPS: funcfl (one element), setfl (alloys) or Finnis-Sinclair.

        Parameters
        ----------
        path : str or path
            The file, in units "metal"; its format is recognized from what it holds.
        elements : (n,) str or int
            Symbol or atomic number of each atom, such as ``system.topology.elements``.

        Raises
        ------
        FileFormatError
            If the file is damaged or truncated, or in other units.
        ValueError
            If it has no tables for an element.
        """
        atoms, where = symbols(elements, "EAM.read"), f"EAM.read: {path}"
        tables = _read(lines_of(path, "EAM.read"), where)
        used, types = assign(atoms, tables.elements, where)
        kept = [tables.elements.index(e) for e in used]
        pairs = [
            a * (a + 1) // 2 + b if a >= b else b * (b + 1) // 2 + a for k, a in enumerate(kept) for b in kept[: k + 1]
        ]
        density = tables.density[kept] if tables.density.ndim == 2 else tables.density[np.ix_(kept, kept)]
        return cls(
            used,
            types,
            embedding=tables.embedding[kept] * eV,
            density=density,
            pair=tables.pair[pairs] * (eV * angstrom),
            drho=tables.drho,
            dr=tables.dr * angstrom,
            cutoff=tables.cutoff * angstrom,
        )

    def check(self, system: System) -> None:
        """Raise if the system has another number of atoms, or too small a box."""
        check_fit(self, system)

    def energy(self, params: dict[str, Any], positions: Any, box: Any) -> Any:
        leaves = [params["embedding"], params["density"], params["pair"], positions]
        return at_values(_Terms(self), *leaves, *([] if box is None else [box]))

    def splines(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Coefficients of the cubic polynomials, highest power first: of densities and pair energies
        [e, e, m - 1, 4] by the elements of source and site, of embedding energies [e, k - 1, 4].
        """
        density, e = _cubics(self.params["density"]), len(self.elements)
        if density.ndim == 3:
            density = np.repeat(density[:, None], e, axis=1)
        return density, _cubics(self.params["pair"])[_pair_numbers(e)], _cubics(self.params["embedding"])

    def plan(self, engine: Engine) -> Plan:
        """Kernels in three stages: densities and pair forces, embedding, forces through the densities."""
        from .eam_kernels import plan

        return plan(self, engine)


# ---------------------------------------------------------------------------------------------------------- pure energy
def _pair_numbers(elements):
    """Number of the pair table for two elements."""
    a, b = np.mgrid[:elements, :elements]
    a, b = np.maximum(a, b), np.minimum(a, b)
    return a * (a + 1) // 2 + b


def _cubics(values):
    """Coefficients [..., m - 1, 4] between points [..., m], from slopes of fourth order as LAMMPS takes them."""
    f = values
    inner = ((f[..., :-4] - f[..., 4:]) + 8 * (f[..., 3:-1] - f[..., 1:-3])) / 12
    slopes = np.concatenate(
        [
            f[..., 1:2] - f[..., :1],
            0.5 * (f[..., 2:3] - f[..., :1]),
            inner,
            0.5 * (f[..., -1:] - f[..., -3:-2]),
            f[..., -1:] - f[..., -2:-1],
        ],
        axis=-1,
    )
    rise, first, second = f[..., 1:] - f[..., :-1], slopes[..., :-1], slopes[..., 1:]
    return np.stack([first + second - 2 * rise, 3 * rise - 2 * first - second, first, f[..., :-1]], axis=-1)


def _value(cubic, p):
    """The polynomials at p; beyond 1, which is past the table's end, straight on."""
    a, b, c, d = (cubic[..., k] for k in range(4))
    q = np.minimum(p, 1.0)
    return ((a * q + b) * q + c) * q + d + (p - q) * (3 * a + 2 * b + c)


class _Terms:
    """The energy at given values: pairs and the pieces of the tables that they fall on are constants to derivatives."""

    def __init__(self, potential):
        self.potential = potential
        # a function of its own, on which `at_values` keeps what it derives
        self.function = lambda data, *leaves: self.sum(data, *leaves)

    def __call__(self, embedding, density, pair, positions, box=None):
        p = self.potential
        if box is not None:
            check_cutoff(p.name, p.cutoff, box)
        i, j = np.ascontiguousarray(find_pairs(positions, box, p.cutoff, np.zeros((0, 2), int)).T)
        d = displacement(positions[i] - positions[j], box)
        block = np.minimum((np.sqrt(np.sum(d * d, -1)) / p.dr).astype(int), pair.shape[-1] - 2)
        data = i, j, block, None
        densities = self.densities(data, density, positions, box)[0]
        piece = np.clip((densities / p.drho).astype(int), 0, embedding.shape[-1] - 2)
        return [Part(self.function, (i, j, block, piece))]

    def densities(self, data, density, positions, box):
        """Density at each atom, and pair distances in units of their spacing, past the piece's beginning."""
        (i, j, block, _), p = data, self.potential
        d = displacement(positions[i] - positions[j], box)
        at = np.sqrt(np.sum(d * d, -1)) / p.dr - block
        a, b, cubics = p.types[i], p.types[j], _cubics(density)
        one, other = (
            (cubics[a, block], cubics[b, block]) if density.ndim == 2 else (cubics[a, b, block], cubics[b, a, block])
        )
        found = core.index_add(
            np.zeros(len(p.types)), np.concatenate([j, i]), np.concatenate([_value(one, at), _value(other, at)])
        )
        return found, at

    def sum(self, data, embedding, density, pair, positions, box=None):
        (i, j, block, piece), p = data, self.potential
        found, at = self.densities(data, density, positions, box)
        embedded = _value(_cubics(embedding)[p.types, piece], found / p.drho - piece)
        d = displacement(positions[i] - positions[j], box)
        pairs = _value(_cubics(pair)[_pair_numbers(len(p.elements))[p.types[i], p.types[j]], block], at)
        return np.sum(embedded) + np.sum(pairs / np.sqrt(np.sum(d * d, -1)))


# ---------------------------------------------------------------------------------------------------------------- files
class _Tables(NamedTuple):
    elements: list[str]
    embedding: np.ndarray  # eV
    density: np.ndarray
    pair: np.ndarray  # eV Angstrom
    drho: float
    dr: float  # Angstrom
    cutoff: float


def _read(lines, where):
    if len(lines) > 5:
        words = lines[3].split()
        if words and words[0].isdigit() and len(words) == int(words[0]) + 1:
            return _setfl(lines, words[1:], where)
    if len(lines) > 3 and len(lines[1].split()) >= 2 and lines[1].split()[0].isdigit():
        return _funcfl(lines, where)
    raise FileFormatError(
        f"{where}: must be a funcfl, setfl or Finnis-Sinclair file (elements in line 2 or 4), got "
        f"{lines[3] if len(lines) > 3 else 'a file of ' + str(len(lines)) + ' lines'!r}"
    )


def _grid(line, where):
    values = numbers_in(line, where)
    if len(values) != 5:
        raise FileFormatError(f"{where}: must be 'nrho drho nr dr cutoff', got {line!r}")
    nrho, drho, nr, dr, cutoff = values
    if nrho != int(nrho) or nr != int(nr) or min(nrho, nr) < _FEWEST + 1:
        raise FileFormatError(f"{where}: nrho and nr must be integers above {_FEWEST}, got {nrho:g} and {nr:g}")
    if not (drho > 0 and dr > 0 and 0 < cutoff <= nr * dr * (1 + 1e-6)):
        raise FileFormatError(
            f"{where}: points must be evenly spaced, at positive distances, up to the cut-off, got "
            f"drho {drho}, dr {dr}, nr {int(nr)} and cut-off {cutoff}"
        )
    return int(nrho), drho, int(nr), dr, cutoff


class _Numbers:
    """Tables one after the other, each of which begins with a new line."""

    def __init__(self, lines, at, where):
        self.lines, self.at, self.where = lines, at, where

    def line(self):
        self.at += 1
        if self.at > len(self.lines):
            raise FileFormatError(f"{self.where}: the file ends too early, after line {len(self.lines)}")
        return self.lines[self.at - 1]

    def table(self, count, name):
        found: list[float] = []
        while len(found) < count:
            line = self.line()
            found += numbers_in(line, f"{self.where}, line {self.at}: {name}")
        if len(found) > count:
            raise FileFormatError(
                f"{self.where}, line {self.at}: {name} must end with its {count} numbers, got {len(found)}"
            )
        return np.array(found)

    def end(self):
        if rest := [line for line in self.lines[self.at :] if line.strip() and not line.strip().startswith("#")]:
            raise FileFormatError(f"{self.where}: the file must end after its tables, got {rest[0][:40]!r}")


def _funcfl(lines, where):
    number = numbers_in(lines[1].split()[0], f"{where}, line 2: atomic number")[0]
    nrho, drho, nr, dr, cutoff = _grid(lines[2], f"{where}, line 3")
    numbers = _Numbers(lines, 3, where)
    embedding = numbers.table(nrho, "embedding energies")
    charges, density = numbers.table(nr, "effective charges"), numbers.table(nr, "densities")
    numbers.end()
    # LAMMPS takes one point less of each table (PairEAM::file2array)
    return _Tables(
        [symbols([int(number)], where)[0]],
        embedding[None, :-1],
        density[None, :-1],
        _CHARGES * charges[None, :-1] ** 2,
        drho,
        dr,
        cutoff,
    )


def _setfl(lines, elements, where):
    nrho, drho, nr, dr, cutoff = _grid(lines[4], f"{where}, line 5")
    e = len(elements)
    present = sum(len(line.split()) for line in lines[5:] if not line.startswith("#"))
    pairs = e * (e + 1) // 2 * nr
    alloy, both = e * (nrho + nr) + pairs, e * (nrho + e * nr) + pairs
    header = range(3 * e, 6 * e + 1)  # words that are no table's
    if present - alloy not in header and present - both not in header:
        raise FileFormatError(
            f"{where}: the tables must hold {alloy} (setfl) or {both} (Finnis-Sinclair) numbers, got "
            f"about {present - 4 * e}: the file is truncated or damaged"
        )
    sources = 1 if present - alloy in header else e
    numbers = _Numbers(lines, 5, where)
    embedding: list[np.ndarray] = []
    density: list[list[np.ndarray]] = []
    for element in elements:
        words = numbers.line().split()
        if len(words) < 3 or not words[0].isdigit():
            raise FileFormatError(
                f"{where}, line {numbers.at}: must be 'number mass constant lattice' of {element}, "
                f"got {' '.join(words)[:60]!r}"
            )
        embedding.append(numbers.table(nrho, f"embedding energies of {element}"))
        density.append([numbers.table(nr, f"densities of {element}") for _ in range(sources)])
    pair = [
        numbers.table(nr, f"pair energies of {elements[a]} and {elements[b]}") for a in range(e) for b in range(a + 1)
    ]
    numbers.end()
    densities = np.array(density)
    return _Tables(
        list(elements),
        np.array(embedding),
        densities[:, 0] if sources == 1 else densities,
        np.array(pair),
        drho,
        dr,
        cutoff,
    )


def example():
    """Potentials for `testing`, with the options of `example_system` that each needs."""
    x, rng = np.linspace(0, 1, 25), np.random.default_rng(3)
    lean = [[1.6, 0, 0], [0.3, 1.5, 0], [-0.2, 0.4, 1.7]]
    found = []
    for density, box in (((2, 25), None), ((2, 2, 25), lean), ((1, 25), lean)):
        e = density[0]
        scale = rng.uniform(0.5, 1.5, density[:-1])[..., None]
        found.append(
            (
                [
                    EAM(
                        ["Cu", "Ni"][:e],
                        np.arange(14) % e,
                        drho=0.6,
                        dr=0.02,
                        cutoff=0.48,
                        embedding=-30 * rng.uniform(0.5, 1.5, (e, 1)) * np.sqrt(x + 0.1),
                        density=scale * (1 - x) ** 3,
                        pair=rng.uniform(5, 9, (e * (e + 1) // 2, 1)) * (1 - x) ** 4,
                    )
                ],
                {"n": 14, "box": box},
            )
        )
    return found
