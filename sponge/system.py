"""`System`: atoms, box, constraints and the potentials that act on them."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from triskele.core.extend import Task, check, html_facts, html_table

from . import box as boxes
from . import units
from .constraints.choose import Constraints, water_atoms
from .constraints.clusters import constraint_clusters
from .engine.engine import Engine
from .engine.plausibility import check_energies, check_forces, check_units
from .errors import ConstraintError
from .fingerprint import fingerprint_of
from .potential import Potential, complete
from .sealed import Sealed
from .topology import Topology, as_indices, as_vectors, check_indices
from .virtual_sites.sites import VirtualSite
from .virtual_sites.sites import check as check_sites
from .virtual_sites.sites import plan as plan_sites

if TYPE_CHECKING:
    from .differentiate.energy_function import EnergyFunction
    from .potentials.nonbonded.nonbonded import Nonbonded

__all__ = ["System"]


class System(Sealed):
    """A molecular system: atoms, positions, box, constraints and the potentials that act on them.

    Parameters
    ----------
    topology : Topology
    masses : (n,) array, dalton
        0 for virtual sites and for atoms that never move.
    box : float, (3,) or (3, 3) array, optional
        Periodic box in nm (see `box.as_box`); without one the system is not periodic.
    positions, velocities : (n, 3) array, nm and nm/ps, optional
        Positions and velocities of the atoms.
    constraints : Constraints, optional
    virtual_sites : sequence of VirtualSite
    exclusions : (m, 2) int
        Pairs of atoms that no pair potential acts between.
    remove_com_motion : bool, optional
        Remove the motion of the center of mass during runs. By default, runs do so where momentum is conserved: no
        atom is frozen by a mass of 0, and no potential or bias acts from outside, as position restraints do (see
        `Potential.conserves_momentum`).

    Attributes
    ----------
    potentials : list of Potential
        Potentials in the order in which they were added; ``system["torsion"]`` finds one by name.

    Notes
    -----
    Every part can be changed, and energies and forces are those of the system as it is. A `Simulation` is compiled from
    the system, and refuses to run when the system was changed after that.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import sponge
    >>> system = sponge.System(sponge.Topology.of_particles(2), [12.0, 12.0], positions=[[0, 0, 0], [0.16, 0, 0]])
    >>> system.add(sponge.harmonic_bond([[0, 1]], k=1000.0, r0=0.15))
    <harmonic_bond 'bond': k (1,), r0 (1,)>
    >>> round(system.energy(), 3)
    0.05
    """

    def __init__(
        self,
        topology: Topology,
        masses: Any,
        box: Any = None,
        positions: Any = None,
        velocities: Any = None,
        *,
        constraints: Constraints | None = None,
        virtual_sites: Any = (),
        exclusions: Any = (),
        remove_com_motion: bool | None = None,
    ):
        self.topology = topology
        self.masses: np.ndarray = masses
        self.box: np.ndarray | None = box
        self.positions: np.ndarray | None = positions
        self.velocities: np.ndarray | None = velocities
        self.constraints: Constraints = constraints if constraints is not None else Constraints()
        self.virtual_sites: list[Any] = virtual_sites
        self.exclusions: np.ndarray = exclusions
        self.remove_com_motion = remove_com_motion
        self.potentials: list[Potential] = []
        self._engines: dict[str, tuple[bytes, Any]] = {}

    # -- parts ---------------------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        convert = _PARTS.get(name)
        super().__setattr__(name, value if convert is None else convert(self, value))

    @property
    def n(self) -> int:
        """Number of atoms, virtual sites included."""
        return self.topology.n

    def add(self, potential: Potential) -> Potential:
        """Let `potential` act on the system; a name that is taken gets a number."""
        check.kind(potential, Potential, "system: what is added")
        if any(p is potential for p in self.potentials):
            raise ValueError(f"system: potential {potential.name!r} acts on the system already (add a copy)")
        potential.take_over(self)
        names = {p.name for p in self.potentials}
        if potential.name in names:
            potential.name = next(
                f"{potential.name} {k}" for k in range(2, len(names) + 3) if f"{potential.name} {k}" not in names
            )
        potential.check_params()
        potential.check(self)
        self.potentials.append(potential)
        return potential

    def remove(self, name: str) -> Potential:
        """Take a potential out, and return it."""
        potential = self[name]
        self.potentials.remove(potential)
        return potential

    def __getitem__(self, name: str) -> Potential:
        for p in self.potentials:
            if p.name == name:
                return p
        raise KeyError(f"system: no potential {name!r}; there are {', '.join(repr(p.name) for p in self.potentials)}")

    def __contains__(self, name: str) -> bool:
        return any(p.name == name for p in self.potentials)

    @property
    def nonbonded(self) -> Nonbonded:
        """The Nonbonded potential."""
        from .potentials.nonbonded.nonbonded import Nonbonded

        for p in self.potentials:
            if isinstance(p, Nonbonded):
                return p
        raise AttributeError("system: there is no Nonbonded potential")

    @property
    def drude_pairs(self) -> np.ndarray:
        """Drude particles and their atoms, (m, 2) int: those that a `drude_spring` joins."""
        found: list[Any] = [p for p in self.potentials if p.of_drude_particles]
        return np.concatenate([np.empty((0, 2), np.int32), *(p.atoms for p in found)])

    def params(self) -> dict[str, dict[str, np.ndarray]]:
        """Parameters of all potentials by name: what `energy_function` takes first."""
        return {p.name: dict(p.params) for p in self.potentials}

    def set_params(self, params: dict[str, dict[str, Any]]) -> None:
        """Replace parameters, of some potentials or all.

        Raises
        ------
        KeyError, ValueError
            If a name is not known or a shape differs.
        """
        complete(self.params(), params, "system")
        for name, values in params.items():
            self[name].params.update({key: np.array(value, np.float64) for key, value in values.items()})

    def repartition_hydrogen_mass(self, mass: float = 3.024) -> None:
        """Give hydrogens `mass` dalton, taken from the heavy atom they are bound to; water is left as it is.

        Raises
        ------
        ValueError
            If a heavy atom would lose all its mass.
        """
        check.positive(mass, "hydrogen mass", "dalton")
        t = self.topology
        i, j = np.concatenate([t.bonds, t.bonds[:, ::-1]]).T
        moves = (t.elements[i] == 1) & (t.elements[j] != 1) & (self.masses[j] > 0) & ~water_atoms(t, self.masses)[i]
        new = self.masses.copy()
        gain = mass - self.masses[i[moves]]
        np.add.at(new, i[moves], gain)
        np.subtract.at(new, j[moves], gain)
        heavy = np.unique(j[moves])
        if np.any(new[heavy] <= 0):
            bad = heavy[np.argmin(new[heavy])]
            raise ValueError(f"hydrogen mass: {mass} dalton leaves {t.describe(bad)} with {new[bad]:.3f} dalton")
        self.masses = new

    def select(self, text: str) -> np.ndarray:
        """Indices of the atoms that a text such as ``"protein or ligand"`` selects, by the system's own positions and
        box; see `Topology.select`.

        Examples
        --------
        >>> from triskele import sponge
        >>> system = sponge.load(*sponge.example_files("alanine-dipeptide-water"))
        >>> len(system.select("protein")), len(system.select("byres (water and within 0.3 of protein)"))
        (22, 18)
        """
        return self.topology.select(text, self.positions, self.box)

    # -- what an engine asks for -------------------------------------------------------------------------------------

    def clusters(self) -> np.ndarray:
        """Return the cluster of each atom, (n,) int: what constraints, virtual sites or Drude springs tie together."""
        return constraint_clusters(self)

    def site_tasks(self, engine: Engine) -> tuple[list[Task], list[Task], np.ndarray]:
        """Return the tasks that place virtual sites and spread their forces, and the virial rows that the latter
        fill.
        """
        return plan_sites(engine)

    # -- checks --------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise if the parts do not fit together."""
        _check_masses(self, self.masses)
        pairs = self.constraints.pairs
        if len(pairs):
            check_indices(pairs, self.n, "constraints: atoms")
            massless = self.masses[pairs] == 0
            if np.any(massless):
                k = int(np.argmax(massless.any(1)))
                raise ConstraintError(
                    "constraints: atoms must have mass, got 0 for "
                    f"{self.topology.describe(pairs[k][np.argmax(massless[k])])} in constraint {k}"
                )
        check_sites(self)
        for name in ("positions", "velocities"):
            if getattr(self, name) is not None:
                as_vectors(getattr(self, name), self.topology, f"system: {name}")
        names = [p.name for p in self.potentials]
        if len(set(names)) < len(names):
            raise ValueError(f"system: names of potentials must differ, got {max(names, key=names.count)!r} twice")
        for p in self.potentials:
            p.check_params()
            p.check(self)

    # -- energies ------------------------------------------------------------------------------------------------------

    def fingerprint(self) -> bytes:
        """A hash of everything that energies depend on, positions and box apart."""
        parts = [
            self.masses,
            self.constraints.pairs,
            self.constraints.distances,
            self.exclusions,
            self.virtual_sites,
            self.box is None,
        ]
        for p in self.potentials:
            cls = type(p)
            parts.append(
                cls.__qualname__
                if cls.__module__.startswith("triskele.")
                else [cls.__qualname__, getattr(cls, "function", None)]
            )
            parts.append({k: v for k, v in p.__dict__.items() if k[0] != "_"})
        return fingerprint_of(*parts)

    def _evaluate(self, positions, box, energy, precision):
        positions = self.positions if positions is None else positions
        if positions is None:
            raise ValueError("system: positions are needed; give them, or set system.positions")
        positions = as_vectors(positions, self.topology, "system: positions")
        if (box is not None) and self.box is None:
            raise ValueError("system: a box was given, but the system is not periodic (set system.box)")
        box = self.box if box is None else boxes.as_box(box)
        key = self.fingerprint()
        if self._engines.get(precision, (b"", None))[0] != key:
            self._engines[precision] = key, Engine(self, precision)
            check_units(self, positions, box, "system")
        engine = self._engines[precision][1]
        engine.fit_meshes(box)
        engine.compute(positions, box, energy)
        return engine

    def energy(self, positions: Any = None, box: Any = None, *, precision: str = "double") -> float:
        """Potential energy in kJ/mol.

        Parameters
        ----------
        positions : (n, 3) array, nm, optional
            Defaults to the system's own.
        box : array, optional
        precision : {"double", "mixed"}

        Raises
        ------
        BrokenSimulationError
            If an energy is not finite, as those of overlapping atoms are; names the term and the atoms. The functions
            that `energy_function` returns give infinities and NaN instead, as NumPy does.
        """
        return sum(self.energy_terms(positions, box, precision=precision).values())

    def energy_terms(self, positions: Any = None, box: Any = None, *, precision: str = "double") -> dict[str, float]:
        """Potential energy of each term in kJ/mol, by name."""
        engine = self._evaluate(positions, box, True, precision)
        terms = engine.energies()
        check_energies(engine, terms, "system")
        return terms

    def forces(self, positions: Any = None, box: Any = None, *, precision: str = "double") -> np.ndarray:
        """Forces in kJ/mol/nm, [n, 3]."""
        engine = self._evaluate(positions, box, False, precision)
        check_forces(engine, "system")
        return engine.forces.copy()

    def virial(self, positions: Any = None, box: Any = None, *, precision: str = "double") -> np.ndarray:
        """Virial W_ab = sum f_a r_b = -dE/d(strain_ab) in kJ/mol, [3, 3]; the pressure is (2 K + tr W) / (3 V)."""
        return self._evaluate(positions, box, True, precision).virial()

    def energy_function(self, names: Any = None) -> EnergyFunction:
        """A pure function ``energy(params, positions, box)`` for `core.grad`, `vmap`, `jit`; see
        `differentiate.energy_function`.
        """
        from .differentiate.energy_function import energy_function

        return energy_function(self, names)

    @property
    def density(self) -> float:
        """Density in g/cm^3."""
        if self.box is None:
            raise ValueError("system: density needs a box")
        return float(self.masses.sum() / boxes.volume(self.box) * units.DENSITY)

    # -- exchange ------------------------------------------------------------------------------------------------------

    def to_openmm(self) -> Any:
        """The same system for OpenMM, see `exchange`."""
        from .exchange import to_openmm

        return to_openmm(self)

    def to_ase(self) -> Any:
        """The atoms for ASE, see `exchange`."""
        from .exchange import to_ase

        return to_ase(self)

    def to_mdanalysis(self, positions: Any = None) -> Any:
        """The topology with positions as a ``Universe`` of MDAnalysis, see `exchange.to_mdanalysis`."""
        from .exchange import to_mdanalysis

        return to_mdanalysis(self, positions)

    def to_mdtraj(self, positions: Any = None) -> Any:
        """The topology and positions for MDTraj, see `exchange`."""
        from .exchange import to_mdtraj

        return to_mdtraj(self, positions)

    def __getstate__(self):
        return {k: v for k, v in vars(self).items() if k != "_engines"}

    def __setstate__(self, state):
        vars(self).update(state, _engines={})

    def copy(self) -> System:
        """An independent copy."""
        return copy.deepcopy(self)

    def _repr_html_(self) -> str:
        t = self.topology
        kinds = ", ".join(f"{count} {name}" for name, count in Counter(t.residue_names.tolist()).most_common(8))
        more = ", …" * (len(set(t.residue_names)) > 8)
        facts = {
            "atoms": self.n,
            "residues": f"{len(t.residue_names):,} ({kinds}{more})",
            "bonds": len(t.bonds),
            "constraints": len(self.constraints),
            "virtual sites": len(self.virtual_sites),
            "mass": f"{self.masses.sum():,.2f} dalton",
            "box": self._box_text(),
            "positions": "none" if self.positions is None else "set",
            "velocities": "none" if self.velocities is None else "set",
        }
        terms = {
            "name": [p.name for p in self.potentials],
            "kind": [type(p).__name__ for p in self.potentials],
            "terms": [len(p.atoms) if hasattr(p, "atoms") else "" for p in self.potentials],
            "parameters": [", ".join(f"{k} {np.shape(v)}" for k, v in p.params.items()) for p in self.potentials],
        }
        return html_facts("System", facts) + (html_table("Potentials", terms, most=20) if self.potentials else "")

    def _box_text(self):
        return "not periodic" if self.box is None else " x ".join(f"{x:.3f}" for x in np.diag(self.box)) + " nm"

    def __repr__(self):
        box = "box " * (self.box is not None) + self._box_text()
        return (
            f"<System: {self.n} atoms, {len(self.topology.residue_names)} residues, {len(self.constraints)} "
            f"constraints, {box}; {', '.join(p.name for p in self.potentials) or 'no potentials'}>"
        )


def _pairs(pairs, n):
    pairs = as_indices(pairs, "system: exclusions").reshape(-1, 2)
    check_indices(pairs, n, "system: atoms of exclusions")
    return np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)


def _masses(system, values):
    masses = check.shape(
        np.array(values, np.float64), (system.n,), "system: masses", hint=f"one for each of {system.n} atoms"
    )
    _check_masses(system, masses)
    return masses


def _check_masses(system, masses):
    good = (masses >= 0) & np.isfinite(masses)
    if not good.all():
        bad = int(np.argmin(good))
        raise ValueError(
            f"system: masses must be finite and >= 0, got {masses[bad]} for {system.topology.describe(bad)}"
        )


def _topology(system, value):
    check.kind(value, Topology, "system: topology")
    if system._made and value.n != system.n:
        raise ValueError(f"system: topology must have {system.n} atoms, got {value.n} (make a new System)")
    return value


def _instance(name, kind):
    def checked(system, value):
        return check.kind(value, kind, f"system: {name}")

    return checked


def _list_of(name, kind):
    def checked(system, values):
        values = list(values)
        for value in values:
            check.kind(value, kind, f"system: entries of {name}")
        return values

    return checked


# What is assigned to a system is brought into form, or refused.
_PARTS: dict[str, Callable[[Any, Any], Any]] = {
    "topology": _topology,
    "masses": _masses,
    "box": lambda system, value: None if value is None else boxes.as_box(value),
    "positions": lambda system, values: (
        None if values is None else as_vectors(values, system.topology, "system: positions")
    ),
    "velocities": lambda system, values: (
        None if values is None else as_vectors(values, system.topology, "system: velocities", "nm/ps")
    ),
    "constraints": _instance("constraints", Constraints),
    "virtual_sites": _list_of("virtual_sites", VirtualSite),
    "exclusions": lambda system, pairs: _pairs(pairs, system.n),
    "remove_com_motion": lambda system, value: None if value is None else bool(value),
    "potentials": _list_of("potentials", Potential),
}
