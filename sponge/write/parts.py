"""Parts of a system as files have them: terms by kind, types of atoms, molecules. Other potentials are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from triskele.core.extend import atomic, check

from ..box import as_box
from ..constraints.choose import water_atoms
from ..potentials.bonded.cmap import CMAP
from ..potentials.bonded.harmonic_angle import harmonic_angle
from ..potentials.bonded.urey_bradley import urey_bradley
from ..potentials.nonbonded.nonbonded import Nonbonded
from ..system import System
from ..topology import as_vectors

__all__ = ["FIXED_BOND", "Parts", "number"]

# Constrained bonds have no force constant left: that of rigid water in AMBER's parm99.dat, OW-HW, stands for it
FIXED_BOND = 553.0  # kcal/mol/A^2


def number(value: float) -> str:
    """The shortest text that reads back as the same double."""
    return repr(float(value)).removesuffix(".0")


class Parts:
    """A system taken apart for one format.

    Parameters
    ----------
    where : str
        The writer, for errors.
    system : System
    path : str or Path
        File with the parameters, and the suffixes that it may have.
    suffixes : tuple of str
    kinds : tuple of type
        Terms that the format has. CMAP, virtual sites and Nonbonded are for the writer to check.
    positions, velocities, box : array, optional
        In place of the system's.

    Attributes
    ----------
    terms : dict
        By kind: atoms (m, k) and parameters (m,) by name, those of all potentials of the kind together.
    bonds : (b, 2) int
        Bonds of the topology, without those between the hydrogens of water.
    cmap_atoms, cmap_types, maps : (m, 5) int, (m,) int, list of (k, k) float64
        Atoms and map of each cross term, and the maps.
    nonbonded : Nonbonded
        Without interactions if the system has none.
    """

    def __init__(
        self,
        where: str,
        system: System,
        path: str | Path,
        suffixes: tuple[str, ...],
        kinds: tuple[type, ...],
        positions: Any,
        velocities: Any,
        box: Any,
    ):
        system.check()
        self.where, self.system, self.path = where, system, Path(path)
        check.choice(self.path.suffix, suffixes, f"{where}: the suffix of {self.path}")
        positions = system.positions if positions is None else positions
        if positions is None:
            raise ValueError(f"{where}: positions must be given, got None (or set system.positions)")
        velocities = system.velocities if velocities is None else velocities
        self.positions = as_vectors(positions, system.topology, f"{where}: positions")
        self.velocities = (
            None if velocities is None else as_vectors(velocities, system.topology, f"{where}: velocities", "nm/ps")
        )
        self.box = system.box if box is None else as_box(box, f"{where}: box")
        if (self.box is None) != (system.box is None):
            raise ValueError(f"{where}: a box was given, but the system is not periodic (set system.box)")
        bonds = np.sort(system.topology.bonds, axis=1).astype(np.int64)
        hydrogens = water_atoms(system.topology, system.masses) & (system.topology.elements == 1)
        self.bonds = bonds[~hydrogens[bonds].all(1)]  # some files join the hydrogens of water, to hold the angle
        nothing = Nonbonded(np.zeros(system.n), np.full(system.n, 0.1), np.zeros(system.n), method="none")
        self.nonbonded: Any = nothing
        self.terms: dict[type, tuple[np.ndarray, dict[str, np.ndarray]]] = {}
        rows: list[tuple[np.ndarray, np.ndarray]] = []
        self.maps: list[np.ndarray] = []
        for p in system.potentials:
            if isinstance(p, Nonbonded) and self.nonbonded is nothing:
                self.nonbonded = p
            elif isinstance(p, CMAP):
                self._check_cmap(p)
                rows.append((np.concatenate([p.phi, p.psi[:, 3:]], axis=1), p.types + len(self.maps)))
                self.maps += list(p.params["maps"])
            elif type(p) in kinds:
                self._add(p)
            else:
                raise self.refusal(p, "this term")
        self.cmap_atoms = np.concatenate([np.empty((0, 5), np.int64), *(atoms for atoms, _ in rows)])
        self.cmap_types = np.concatenate([np.empty(0, np.int64), *(types for _, types in rows)])

    def write(self, parameters: str, beside: str, suffix: str) -> tuple[Path, Path]:
        """Write the file of the parameters, and one with another suffix beside it; return their paths."""
        paths = self.path, self.path.with_suffix(suffix)
        for path, text in zip(paths, (parameters, beside)):
            with atomic(path) as file:
                file.write(text.encode())
        return paths

    def refusal(self, potential: Any, what: str) -> ValueError:
        """The error for something about a potential that the format has no words for."""
        return ValueError(
            f"{self.where}: the format must have a form for every potential, and has none for {what} of "
            f"{type(potential).__name__} {potential.name!r} (take it out of a copy with "
            f"copy.remove({potential.name!r}), and give it to the other program in its own way)"
        )

    def _check_cmap(self, p: CMAP) -> None:
        if np.any(p.phi[:, 1:] != p.psi[:, :3]):
            raise self.refusal(p, "torsion angles that do not share three atoms")
        if p.params["maps"].shape[-1] % 2:
            raise self.refusal(p, f"maps with an odd number of points, {p.params['maps'].shape[-1]}")

    def _add(self, p: Any) -> None:
        atoms, params = self.terms.get(type(p), (np.empty((0, p.atoms.shape[1]), np.int32), {}))
        own = {name: np.broadcast_to(values, len(p.atoms)) for name, values in p.params.items()}
        merged = {name: np.concatenate([params.get(name, np.empty(0)), values]) for name, values in own.items()}
        self.terms[type(p)] = np.concatenate([atoms, p.atoms]), merged

    def take(self, kind: Any) -> tuple[np.ndarray, np.ndarray]:
        """Atoms (m, k) and parameters (m, p) of a kind, in the order of its arguments."""
        atoms, params = self.terms.get(kind, (np.empty((0, kind.kind.atoms), np.int32), {}))
        columns = [params.get(name, np.empty(0)) for name in kind.function.names[1:]]
        return atoms, np.stack(columns, axis=1)

    def springs_of_angles(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Angles (h,) that have a Urey-Bradley spring between their ends, each once; which springs (m,) these are, and
        their parameters (h, 2).
        """
        n = self.system.n
        angles, (springs, constants) = self.take(harmonic_angle)[0], self.take(urey_bradley)
        waiting: dict[int, list[int]] = {}
        for row, key in enumerate((np.sort(angles[:, [0, 2]], axis=1).astype(np.int64) @ [n, 1]).tolist()):
            waiting.setdefault(key, []).append(row)
        keys = (np.sort(springs, axis=1).astype(np.int64) @ [n, 1]).tolist()
        found = np.array([(waiting.get(key) or [-1]).pop() for key in keys], np.int64)
        held = found >= 0
        return found[held], held, constants[held]

    def torsions(self, kind: type) -> tuple[np.ndarray, np.ndarray]:
        """Periodic torsions with n > 0, or 0 without energy, as atoms and (k, n, phase); others are refused."""
        atoms, values = self.take(kind)
        k, n, phase = values.T
        acts = (n != 0) | (k * (1 + np.cos(phase)) != 0)
        atoms, k, n, phase = atoms[acts], k[acts], n[acts], phase[acts]
        if np.any((n == 0) | (n != np.rint(n))):
            bad = n[(n == 0) | (n != np.rint(n))][0]
            potential = next(p for p in self.system.potentials if type(p) is kind)
            raise self.refusal(potential, f"a periodicity of {bad:g}")
        return atoms, np.stack([k, np.abs(n), np.where(n < 0, -phase, phase)], axis=1)

    def types(self, *more: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Type of each atom (n,), alike in Lennard-Jones and in each of `more`, and the first atom of each type."""
        p = self.nonbonded.params
        own = [self.nonbonded.types] if self.nonbonded.mixing == "table" else [p["sigmas"], p["epsilons"]]
        _, first, types = np.unique(np.stack([*own, *more], axis=1), axis=0, return_index=True, return_inverse=True)
        order = np.argsort(first)  # types are numbered as they first occur
        return np.argsort(order)[types.ravel()], first[order]

    def pair_parameters(self, i: Any, j: Any) -> tuple[np.ndarray, np.ndarray]:
        """C12 and C6 (kJ/mol nm^12, nm^6) between atoms, as Nonbonded mixes them; arrays broadcast."""
        p, mixing = self.nonbonded.params, self.nonbonded.mixing
        if mixing == "table":
            types = np.asarray(self.nonbonded.types)
            return p["a"][types[i], types[j]], p["b"][types[i], types[j]]
        sigma, epsilon = p["sigmas"], p["epsilons"]
        mixed = np.sqrt(sigma[i] * sigma[j]) if mixing == "geometric" else (sigma[i] + sigma[j]) / 2
        depth = 4 * np.sqrt(epsilon[i] * epsilon[j])
        return depth * mixed**12, depth * mixed**6

    def bonded(self, pairs: np.ndarray) -> np.ndarray:
        """Mask of pairs (m, 2) that are bonds."""
        n = self.system.n
        return np.isin(np.sort(pairs, axis=1).astype(np.int64) @ [n, 1], self.bonds @ [n, 1])

    def blocks(self) -> np.ndarray:
        """First atoms of the molecules: stretches of atoms that no term, site, constraint or exclusion leaves."""
        system = self.system
        sites = [np.concatenate([s.sites[:, None], s.parents], axis=1) for s in system.virtual_sites]
        links = [
            self.bonds, system.constraints.pairs, system.exclusions, self.cmap_atoms, *sites,
            *(atoms for atoms, _ in self.terms.values()),
        ]  # fmt: skip
        ends = np.concatenate([np.empty((0, 2), int), *(np.stack([r.min(1), r.max(1)], 1) for r in links if len(r))])
        residue = np.flatnonzero(np.diff(system.topology.residue_index) == 0)  # a residue stays in one piece
        ends = np.concatenate([ends, np.stack([residue, residue + 1], axis=1)]).astype(np.int64)
        open_links = np.cumsum(
            np.bincount(ends[:, 0], minlength=system.n) - np.bincount(ends[:, 1], minlength=system.n)
        )
        return np.concatenate([[0], 1 + np.flatnonzero(open_links[:-1] == 0)])
