"""Functions shared by all readers: elements from masses, and adding terms to a system."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..constraints.choose import water_atoms
from ..elements import NUMBERS, SYMBOLS
from ..errors import FileFormatError
from ..system import System
from ..topology import Topology, check_indices

__all__ = ["WEIGHTS", "Terms", "check_masses", "guess_elements", "molecules_as_residues"]

# Standard atomic weights (CIAAW 2021, rounded) of the elements that force fields have parameters for.
WEIGHTS = {
    1: 1.008, 3: 6.94, 5: 10.81, 6: 12.011, 7: 14.007, 8: 15.999, 9: 18.998, 10: 20.180, 11: 22.990, 12: 24.305,
    13: 26.982, 14: 28.085, 15: 30.974, 16: 32.06, 17: 35.45, 18: 39.95, 19: 39.098, 20: 40.078, 25: 54.938, 26: 55.845,
    27: 58.933, 28: 58.693, 29: 63.546, 30: 65.38, 34: 78.971, 35: 79.904, 36: 83.798, 37: 85.468, 38: 87.62,
    47: 107.868, 48: 112.414, 53: 126.904, 54: 131.293, 55: 132.905, 56: 137.327, 78: 195.084, 79: 196.967, 80: 200.592,
    82: 207.2,
}  # fmt: skip


def guess_elements(masses: np.ndarray, names: np.ndarray | None = None) -> np.ndarray:
    """Atomic numbers from masses, and from names where masses have been repartitioned; 0 where nothing fits.

    Without names, particles of more than 1 and up to 4 dalton are hydrogens (deuterium, or hydrogen made heavier).
    """
    masses = np.asarray(masses, np.float64)
    numbers, weights = np.array(list(WEIGHTS)), np.array(list(WEIGHTS.values()))
    nearest = np.argmin(np.abs(masses[:, None] - weights), axis=1)
    close = np.abs(masses - weights[nearest]) < 0.05
    elements = np.where(close & (masses > 0), numbers[nearest], 0)
    unknown = (elements == 0) & (masses > 0)
    if names is None:
        elements[unknown & (masses > 1.0) & (masses <= 4.0)] = 1
        return elements.astype(np.int32)
    stems = [str(name).strip("0123456789+-'* ").upper() for name in names]
    for i in np.flatnonzero(unknown):
        best = min(
            (NUMBERS.get(stems[i][:k], 0) for k in (1, 2)), key=lambda z: abs(WEIGHTS.get(z, np.inf) - masses[i])
        )
        # a methyl group whose hydrogens weigh 4 dalton leaves its carbon 9 dalton short
        if abs(WEIGHTS.get(best, np.inf) - masses[i]) < 10:
            elements[i] = best
    _undo_repartitioning(elements, masses, stems)
    return elements.astype(np.int32)


# The most hydrogens that an element is bound to
_HYDROGENS = {6: 4, 7: 4, 8: 3, 15: 1, 16: 1}


def _undo_repartitioning(elements: np.ndarray, masses: np.ndarray, stems: list[str]) -> None:
    """Give atoms that handed mass on to hydrogens the element of their name: N of 11.99 dalton looks like C, O of 13.98
    like N.
    """
    gains = {
        round(masses[i] - WEIGHTS[1], 3) for i in range(len(stems)) if stems[i][:1] == "H" and 1.1 < masses[i] <= 4.2
    }
    for i in range(len(stems)) if gains else ():
        named = NUMBERS.get(stems[i][:1], 0)
        if elements[i] > 1 and named in _HYDROGENS and named != elements[i] != NUMBERS.get(stems[i][:2], 0):
            lost = WEIGHTS[named] - masses[i]
            if any(abs(lost - k * gain) < 0.05 for gain in gains for k in range(1, _HYDROGENS[named] + 1)):
                elements[i] = named


def check_masses(where: str, masses: np.ndarray, names: Any) -> None:
    """Raise FileFormatError, with the atom's name, if a mass of a file is negative or not finite."""
    good = (masses >= 0) & np.isfinite(masses)
    if not good.all():
        i = int(np.argmin(good))
        raise FileFormatError(f"{where}: masses must be finite and >= 0, got {masses[i]} for atom {i + 1} ({names[i]})")


def molecules_as_residues(elements: np.ndarray, masses: np.ndarray, bonds: np.ndarray) -> Topology:
    """A topology for files that name nothing: each molecule is a residue, water is HOH, atoms are called by their
    element.
    """
    n = len(elements)
    residue = Topology.of_particles(n, bonds=bonds).molecules
    molecules = int(residue.max(initial=-1)) + 1
    names = np.array([symbol or "X" for symbol in SYMBOLS])[elements]
    ids, chain = np.arange(1, molecules + 1).astype(str), np.zeros(molecules, int)
    topology = Topology(names, elements, residue, np.full(molecules, "MOL"), ids, chain, ["A"], bonds)
    water = np.bincount(residue, water_atoms(topology, masses), molecules) > 0
    return Topology(names, elements, residue, np.where(water, "HOH", "MOL"), ids, chain, ["A"], bonds)


class Terms:
    """Terms of the energy as a file lists them, to be turned into potentials; errors begin with `where`, the file.

    Readers call a method for each section; empty ones leave no trace. Indices may be floats, as text files have them.
    """

    def __init__(self, where: str, n: int):
        self.where, self.n = where, n
        self.exclusions = np.empty((0, 2), np.int64)
        self._add: list[Any] = []  # functions that make a potential
        self._pairs: list[np.ndarray] = []
        self._atoms: dict[str, Any] | None = None
        self._table: Any = None
        self._options: dict[str, Any] = {}

    def _term(self, make: Any, atoms: np.ndarray, **parameters: np.ndarray) -> None:
        atoms = np.asarray(atoms).astype(np.int64)
        if len(atoms):
            check_indices(atoms, self.n, f"{self.where}: atoms of {make.__name__}", FileFormatError)
            self._add.append(lambda: make(atoms, **parameters))

    def bonds(self, atoms: Any, k: Any, r0: Any) -> None:
        """Harmonic bonds [m, 2], k/2 (r - r0)^2."""
        from ..potentials.bonded.harmonic_bond import harmonic_bond

        self._pairs.append(np.asarray(atoms).astype(np.int64))
        self._term(harmonic_bond, atoms, k=k, r0=r0)

    def bonded_pairs(self) -> np.ndarray:
        """Return all pairs joined by bonds, (m, 2)."""
        return np.concatenate([np.empty((0, 2), np.int64), *self._pairs])

    def urey_bradley(self, atoms: Any, k: Any, r0: Any) -> None:
        """Springs between outer atoms of angles [m, 2], k/2 (r - r0)^2."""
        from ..potentials.bonded.urey_bradley import urey_bradley

        self._term(urey_bradley, atoms, k=k, r0=r0)

    def angles(self, atoms: Any, k: Any, theta0: Any) -> None:
        """Harmonic angles [m, 3], k/2 (theta - theta0)^2."""
        from ..potentials.bonded.harmonic_angle import harmonic_angle

        self._term(harmonic_angle, atoms, k=k, theta0=theta0)

    def torsions(self, atoms: Any, k: Any, periodicity: Any, phase: Any) -> None:
        """Periodic torsions [m, 4], k (1 + cos(n phi - phase))."""
        from ..potentials.bonded.periodic_torsion import periodic_torsion

        self._term(periodic_torsion, atoms, k=k, periodicity=periodicity, phase=phase)

    def impropers(self, atoms: Any, k: Any, phi0: Any) -> None:
        """Harmonic impropers [m, 4], k/2 (phi - phi0)^2."""
        from ..potentials.bonded.harmonic_improper import harmonic_improper

        self._term(harmonic_improper, atoms, k=k, phi0=phi0)

    def ryckaert_bellemans(self, atoms: Any, *c: np.ndarray) -> None:
        """Ryckaert-Bellemans torsions [m, 4] with six coefficients [m]."""
        from ..potentials.bonded.ryckaert_bellemans import ryckaert_bellemans

        self._term(ryckaert_bellemans, atoms, **{f"c{k}": values for k, values in enumerate(c)})

    def cmap(self, phi: np.ndarray, psi: np.ndarray, types: np.ndarray, maps: list[np.ndarray]) -> None:
        """Cross terms of torsions [m, 4] each; maps [n, n] in kJ/mol from 0 on, ``map[i, j]`` at phi i and psi j."""
        from ..potentials.bonded.cmap import CMAP

        sizes = np.array([len(m) for m in maps])
        for size in np.unique(sizes[types]) if len(types) else ():
            used = np.unique(types[sizes[types] == size])
            rows = np.isin(types, used)
            grids, kinds = np.stack([maps[t] for t in used]), np.searchsorted(used, types[rows])
            self._add.append(lambda g=grids, r=rows, k=kinds: CMAP(g, phi[r], psi[r], k))

    def nonbonded(self, charges: np.ndarray, sigmas: Any, epsilons: Any, options: dict[str, Any]) -> None:
        """Parameters of all atoms, and options of `Nonbonded`."""
        self._atoms, self._options = (
            {"charges": charges, "sigmas": sigmas, "epsilons": epsilons},
            options | self._options,
        )

    def lennard_jones_table(self, table: Any, options: dict[str, Any]) -> None:
        """Lennard-Jones by pair of types, in place of the atoms' own, which must have no depth; its options win."""
        self._table, self._options = table, self._options | options

    def exceptions(self, atoms: np.ndarray, charge_product: np.ndarray, sigma: np.ndarray, epsilon: np.ndarray) -> None:
        """Pairs left out of `Nonbonded`; those that have parameters of their own become 1-4 pairs."""
        atoms = np.asarray(atoms).astype(np.int64)
        self.exclusions = np.concatenate([self.exclusions, atoms])
        some = (charge_product != 0) | (epsilon != 0)
        self.pairs(atoms[some], charge_product[some], sigma[some], epsilon[some])

    def pairs(self, atoms: np.ndarray, charge_product: np.ndarray, sigma: np.ndarray, epsilon: np.ndarray) -> None:
        """Pairs with parameters of their own [m, 2]."""
        from ..potentials.bonded.pair14 import pair14

        self._term(pair14, atoms, charge_product=charge_product, sigma=sigma, epsilon=epsilon)

    def generalized_born(self, **parameters: Any) -> None:
        """Arguments of `GB`."""
        from ..potentials.gb.gb import GB

        self._add.append(lambda: GB(**parameters))

    def potential(self, make: Any) -> None:
        """Any other potential, made by a function without arguments."""
        self._add.append(make)

    def drude(
        self,
        where: str,
        particles: Any,
        charges: Any,
        polarizabilities: Any,
        anisotropies: Any,
        screened: Any,
        thole: Any,
    ) -> None:
        """Polarizable atoms; arguments of `drude_oscillators`, after the name of the section."""
        from ..potentials.polarizable.drude import drude_oscillators

        rows = np.asarray(particles).astype(np.int64)
        if not len(rows):
            return
        check_indices(rows[:, :2], self.n, f"{where}: Drude particles and their atoms", FileFormatError)
        check_indices(rows[:, 2:] + 1, self.n + 1, f"{where}: atoms that give directions, plus one", FileFormatError)
        check_indices(np.asarray(screened).astype(np.int64), len(rows), f"{where}: screened pairs", FileFormatError)
        self._pairs.append(rows[:, :2])
        made = drude_oscillators(rows, charges, polarizabilities, anisotropies, screened, thole)
        self._add += [lambda p=p: p for p in made]

    def check_count(self, positions: Any) -> None:
        """Raise FileFormatError if there are positions, but not of all atoms."""
        if positions is not None and len(positions) != self.n:
            raise FileFormatError(
                f"{self.where}: has {self.n} atoms, got coordinates of {len(positions)} (do the files belong together?)"
            )

    def system(
        self,
        topology: Topology,
        masses: np.ndarray,
        box: Any,
        positions: Any,
        velocities: Any,
        hydrogen_mass: float | None,
        **options: Any,
    ) -> System:
        """A system with all terms and exclusions; `options` are those of `System`."""
        system = System(topology, masses, box, positions, velocities, exclusions=self.exclusions, **options)
        self.add_to(system)
        if hydrogen_mass is not None:
            system.repartition_hydrogen_mass(hydrogen_mass)
        return system

    def add_to(self, system: System) -> None:
        """Make all potentials and add them to the system."""
        if self._atoms is not None or self._table is not None:
            system.add(self._nonbonded())
        for make in self._add:
            system.add(make())

    def _nonbonded(self) -> Any:
        from ..potentials.nonbonded.nonbonded import Nonbonded

        atoms, options = self._atoms or {"charges": np.zeros(self.n)}, dict(self._options)
        if self._table is not None:
            if atoms.get("epsilons") is not None and np.any(atoms["epsilons"] != 0):
                raise FileFormatError(
                    f"{self.where}: must have Lennard-Jones parameters once, got those of atoms and a table"
                )
            atoms = {"charges": atoms["charges"], "mixing": self._table}
        elif "mixing" in options:
            atoms["mixing"] = options.pop("mixing")
        return Nonbonded(**atoms, method="none").update(**options)
