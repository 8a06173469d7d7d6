"""`hybrid`: a system in which one molecule turns into another, from two systems and a mapping of their atoms."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields, replace

import numpy as np

from ..analysis.superposition import superpose
from ..barostats.molecules import molecules
from ..constraints.choose import Constraints
from ..potential import Potential
from ..potentials.bonded.cmap import CMAP
from ..potentials.bonded.terms import TermPotential
from ..potentials.expressions.expression import ExpressionExternal
from ..potentials.nonbonded.nonbonded import Nonbonded
from ..potentials.polarizable.drude import thole_screening
from ..potentials.restraints import PositionRestraint
from ..system import System
from .decouple import set_lambdas
from .finite_size import check_charges
from .hybrid_nonbonded import HybridNonbonded
from .mapping import check_mapping
from .nonbonded import with_sizes
from .scaled import Scaled
from .soft_core import Beutler, SoftCore

__all__ = ["hybrid"]


def hybrid(
    old: System, new: System, mapping: Mapping[int, int], *, soft_core: SoftCore | None = None, charged: bool = False
) -> System:
    """Return a system in which the molecule of `old` turns into that of `new`.

    The molecules are those that mapped atoms belong to; all other atoms must be the same, in the same order. Atoms of
    the result are those of `old`, followed by those that only the new molecule has. With all lambdas 0, as they are at
    first, the molecule is the old one, with all 1 the new one. Atoms that only the other one has are then dummies,
    which keep their bonded terms, 1-4 pairs and interactions with each other. `HybridNonbonded` says what the lambdas
    "electrostatics", "insertion", "deletion" and "mixing" do to pairs. Terms of shared atoms that differ go from old to
    new with "mixing".

    A path that never leaves a charge without Lennard-Jones takes "insertion" to 1 first, then "electrostatics", and
    then "deletion".

    Parameters
    ----------
    old : System
        With Nonbonded of method "pme"; a molecule alone, in vacuum, with "none".
    new : System
        The new molecule among the same other atoms, or alone, as in vacuum. Its positions are laid on the old molecule
        by the mapped atoms; options of Nonbonded are those of `old`.
    mapping : mapping of int to int
        Atoms of `old` to atoms of `new`.
    soft_core : Beutler or Gapsys, optional
        Defaults to ``Beutler()``.
    charged : bool
        Allow a change of the net charge of a periodic box, whose size then matters: `finite_size` says how much.

    Returns
    -------
    System

    Raises
    ------
    ValueError
        If `check_mapping` refuses the mapping; if shared atoms are excluded, constrained or placed as virtual sites
        otherwise in the new molecule; if mixing rules or other atoms differ; if the net charge changes, unless
        `charged`; if springs of Drude particles differ, or `thole_screening` acts between shared atoms and others; or
        if a potential is not made of bonded terms. Maps (CMAP), position restraints and external fields
        may act on other atoms, such as those of a protein; so may exceptions from mixing rules (NBFIX).

    Warns
    -----
    UserWarning
        If the net charge changes by a fraction.

    References
    ----------
    Gapsys, Michielssens, Seeliger, de Groot, "pmx: Automated protein structure and topology generation for alchemical
    perturbations", J. Comput. Chem. 36 (2015) 348. doi:10.1002/jcc.23804

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import sponge
    >>> from triskele.sponge import alchemy
    >>> def argon(sigma):
    ...     x = 0.5 * np.stack(np.meshgrid(*[np.arange(4)] * 3), -1).reshape(-1, 3)
    ...     system = sponge.System(sponge.Topology.of_particles(64), np.full(64, 40.0), 2.0, x)
    ...     sigmas = np.where(np.arange(64) == 5, sigma, 0.34)
    ...     _ = system.add(sponge.Nonbonded(np.zeros(64), sigmas, np.full(64, 1.0), cutoff=0.9))
    ...     return system
    >>> both = alchemy.hybrid(argon(0.34), argon(0.36), {5: 5})
    >>> np.round(alchemy.energies(both, alchemy.Schedule(mixing=[0, 1])) / [argon(s).energy() for s in (0.34, 0.36)], 9)
    array([1., 1.])
    """
    parts = _Parts(old, new, mapping)
    result = System(
        parts.topology(),
        parts.joined("masses"),
        old.box,
        parts.positions(),
        constraints=parts.constraints(),
        virtual_sites=parts.virtual_sites(),
        exclusions=parts.exclusions(),
        remove_com_motion=old.remove_com_motion,
    )
    result.potentials = [parts.nonbonded(soft_core or Beutler()), *parts.terms()]
    result.check()
    set_lambdas(result, **dict.fromkeys(HybridNonbonded.names, 0.0))
    before, after = (float(p.params["charges"][inside].sum()) for p, inside in zip(parts.pair_potentials, parts.inside))
    check_charges("hybrid", before, after, old.box is not None, charged)
    return result


class _Parts:
    """Both systems, and where the atoms of the new one stand in the hybrid."""

    def __init__(self, old, new, mapping):
        self.old, self.new = old, new
        for name, system in (("old", old), ("new", new)):
            if not isinstance(system, System):
                raise TypeError(f"hybrid: {name} must be a System, got {type(system).__name__}")
            system.check()
            if system.positions is None:
                raise ValueError(f"hybrid: the {name} system must have positions")
        check_mapping(old, new, mapping)
        self.pairs = np.array(sorted((int(a), int(b)) for a, b in mapping.items()), np.int64).reshape(-1, 2)
        inside = [np.isin(of := molecules(system), of[self.pairs[:, k]]) for k, system in enumerate((old, new))]
        self.inside, rest = inside, [np.flatnonzero(~mask) for mask in inside]
        self.alone = not len(rest[1])  # then the other atoms are those of the old system
        if self.alone:
            rest[0] = rest[0][:0]
        if len(rest[0]) != len(rest[1]):
            raise ValueError(
                f"hybrid: both systems must have the same other atoms, got {len(rest[0])} and {len(rest[1])}"
            )
        self.place = np.full(new.n, -1)  # of the new system's atoms
        self.place[self.pairs[:, 1]] = self.pairs[:, 0]
        self.place[rest[1]] = rest[0]
        self.added = np.flatnonzero(self.place < 0)
        self.n = old.n + len(self.added)
        self.place[self.added] = np.arange(old.n, self.n)
        self.both = np.zeros(self.n, bool)  # atoms that stand in both systems
        self.both[self.place[self.place < old.n]] = True
        self.new_atoms = np.arange(old.n, self.n)
        self.old_atoms = np.setdiff1d(np.flatnonzero(inside[0]), self.pairs[:, 0])
        self.molecule = np.concatenate([np.flatnonzero(inside[0]), self.new_atoms])
        a, b = (
            self._pair_potential(system, name, mask) for system, name, mask in zip((old, new), ("old", "new"), inside)
        )
        if (a.mixing == "geometric") != (b.mixing == "geometric"):  # `with_sizes` lets tables mix arithmetically only
            raise ValueError(
                f"hybrid: both systems must have the same mixing rule, got {a.mixing!r} in the old one "
                f"and {b.mixing!r} in the new one (take both molecules from one force field)"
            )
        if not (self.alone or _same_table(a, b, rest)):
            raise ValueError("hybrid: both systems must have the same table of Lennard-Jones pairs, or none")
        for key in ("charges", "sigmas", "epsilons"):
            if not np.array_equal(a.params[key][rest[0]], b.params[key][rest[1]]):
                raise ValueError(f"hybrid: atoms outside of the molecules must have the same {key} in both systems")
        self.pair_potentials = a, b
        self.surroundings = self._kept()

    @staticmethod
    def _pair_potential(system, name, inside):
        found = [p for p in system.potentials if isinstance(p, Nonbonded)]
        if len(found) != 1:
            raise ValueError(f"hybrid: the {name} system must have one Nonbonded")
        return with_sizes(found[0], inside, system.topology, "hybrid")

    def _kept(self):
        """Maps, restraints and fields of the other atoms, which must be the same in both systems."""
        kept = [
            _surroundings(system, name, inside)
            for system, name, inside in zip((self.old, self.new), ("old", "new"), self.inside)
        ]
        for name in () if self.alone else dict.fromkeys((*kept[0], *kept[1])):
            a, b = (of.get(name) for of in kept)
            if a is None or b is None or type(a) is not type(b) or not _same(a, b, self.place):
                raise ValueError(f"hybrid: {name!r} must be the same in both systems, as are the atoms that it acts on")
        return list(kept[0].values())

    def joined(self, name):
        """An array of the old system's atoms, followed by that of the added ones."""
        return np.concatenate([getattr(self.old, name), getattr(self.new, name)[self.added]])

    def positions(self):
        core = self.pairs
        if len(core) > 2:
            reference = self.new.positions.copy()
            reference[core[:, 1]] = self.old.positions[core[:, 0]]
            moved = superpose(self.new.positions[None], reference, core[:, 1])[0]
        else:
            moved = self.new.positions + (self.old.positions[core[:, 0]] - self.new.positions[core[:, 1]]).mean(axis=0)
        return np.concatenate([self.old.positions, moved[self.added]])

    def topology(self):
        a, b = self.old.topology, self.new.topology
        residue = np.full(len(self.added), a.residue_index[self.pairs[0, 0]])
        bonds = np.sort(np.concatenate([a.bonds, self.place[b.bonds]]), axis=1)
        return replace(
            a,
            names=np.concatenate([a.names, b.names[self.added]]),
            elements=np.concatenate([a.elements, b.elements[self.added]]),
            residue_index=np.concatenate([a.residue_index, residue]),
            bonds=np.unique(bonds, axis=0),
        )

    def exclusions(self):
        shared = np.zeros(self.n, bool)
        shared[self.pairs[:, 0]] = True
        old, new = (
            {tuple(sorted(pair)) for pair in pairs.tolist() if shared[pair].all()}
            for pairs in (self.old.exclusions, self.place[np.asarray(self.new.exclusions, np.int64)].reshape(-1, 2))
        )
        if different := sorted(old ^ new):
            i, j = (self.old.topology.describe(k) for k in different[0])
            where = "old" if different[0] in old else "new"
            raise ValueError(
                f"hybrid: shared atoms must be alike in both molecules, but {i} and {j} are excluded in "
                f"the {where} one alone (leave atoms out of the mapping)"
            )
        apart = np.stack(np.meshgrid(self.old_atoms, self.new_atoms), axis=-1).reshape(-1, 2)
        return np.concatenate([self.old.exclusions, self.place[self.new.exclusions], apart]).astype(np.int64)

    def constraints(self):
        old, new = (
            {
                tuple(sorted(pair)): distance
                for pair, distance in zip(place[held.pairs].tolist(), held.distances.tolist())
            }
            for held, place in ((self.old.constraints, np.arange(self.old.n)), (self.new.constraints, self.place))
        )
        found = old | new
        for pair in filter(lambda pair: self.both[list(pair)].all(), found):
            if pair in old and pair in new and abs(old[pair] - new[pair]) <= 1e-9:
                continue
            i, j = (self.old.topology.describe(k) for k in pair)
            how = (
                f"held at {old[pair]:.5f} and {new[pair]:.5f} nm (make both systems without constraints)"
                if pair in old and pair in new
                else f"constrained in the {'old' if pair in old else 'new'} system alone (leave one of them out of the "
                "mapping, or make both systems with the same constraints)"
            )
            raise ValueError(f"hybrid: constraints of shared atoms must be the same, but {i} and {j} are {how}")
        return Constraints(np.array(list(found), np.int64).reshape(-1, 2), np.array(list(found.values())))

    def virtual_sites(self):
        """Sites of the old system, and those of the new one that it does not have."""
        old, new = _rules(self.old, np.arange(self.old.n)), _rules(self.new, self.place)
        for site in sorted(old.keys() | new.keys()):
            if self.both[site] and old.get(site) != new.get(site):
                how = (
                    "a virtual site in the old system alone"
                    if site not in new
                    else "a virtual site in the new system alone"
                    if site not in old
                    else "placed by another rule in the new system"
                )
                raise ValueError(
                    f"hybrid: virtual sites of shared atoms must be the same, but "
                    f"{self.old.topology.describe(site)} is {how} (leave it out of the mapping)"
                )
        added = []
        for of in self.new.virtual_sites:
            which = self.place[of.sites] >= self.old.n
            if which.any():
                own = {field.name: getattr(of, field.name)[which] for field in fields(of)}
                added.append(replace(of, **own | {key: self.place[own[key]] for key in ("sites", "parents")}))
        return [*self.old.virtual_sites, *added]

    def nonbonded(self, soft_core):
        old, new = self.pair_potentials
        whole = copy.deepcopy(old)
        if self.old.box is not None:
            whole.fix_mesh(self.old.box)
        before = {
            key: np.concatenate([old.params[key], new.params[key][self.added]])
            for key in ("charges", "sigmas", "epsilons")
        }
        after = {key: values.copy() for key, values in before.items()}
        for key in ("charges", "epsilons"):
            before[key][self.new_atoms] = after[key][self.old_atoms] = 0.0
        for key, values in after.items():
            values[self.place] = new.params[key]
        for values in (before["sigmas"], after["sigmas"]):
            values[values <= 0] = 0.1  # of atoms without Lennard-Jones
        whole.params = before
        if old.mixing == "table":
            whole.params |= {key: old.params[key] for key in ("a", "b")}
            whole.types = np.pad(old.types, (0, len(self.added)))  # any type: these are marked
        return HybridNonbonded(whole, after, self.molecule, self.old_atoms, self.new_atoms, soft_core)

    def terms(self) -> list[Potential]:
        """Terms of both systems: those that stay, and those of shared atoms that come and go."""
        names = dict.fromkeys(
            p.name for system in (self.old, self.new) for p in system.potentials if isinstance(p, TermPotential)
        )
        found: list[Potential] = copy.deepcopy(self.surroundings)
        for name in names:
            a, b = (copy.deepcopy(system[name]) if name in system else None for system in (self.old, self.new))
            if b is not None:
                b.atoms = np.ascontiguousarray(self.place[b.atoms], np.int32)
            rows = [Counter() if p is None else Counter(_rows(p)) for p in (a, b)]
            common = rows[0] & rows[1]
            for p, left, only, falling in (
                (a, common.copy(), self.old_atoms, True),
                (b, common.copy(), self.new_atoms, False),
            ):
                if p is None:
                    continue
                shared: np.ndarray = ~np.isin(p.atoms, self.molecule).any(axis=1)
                shared &= falling and self.alone
                for k, row in enumerate(_rows(p)):
                    if left[row] > 0:
                        left[row] -= 1
                        shared[k] = True
                own = np.isin(p.atoms, only).any(axis=1)
                if type(p) is thole_screening and np.any(own & ~np.isin(p.atoms, only).all(axis=1)):
                    raise ValueError(
                        f"hybrid: {name!r} screens dipoles of shared atoms and of atoms that only the "
                        f"{'old' if falling else 'new'} molecule has, which would polarize each other in "
                        "the other molecule too"
                    )
                found += self._named(
                    p, (shared if falling else np.zeros_like(shared)) | own, name if falling else f"{name} of new atoms"
                )
                found += [
                    Scaled(part, "mixing", falling)
                    for part in self._named(p, ~shared & ~own, f"{name} of the {'old' if falling else 'new'} molecule")
                ]
        return found

    @staticmethod
    def _named(potential, which, name):
        if not which.any():
            return []
        part = potential.subset(which)
        part.name = name
        return [part]


def _surroundings(system, name, inside):
    """Potentials other than pairs and bonded terms, by name: maps or restraints that act on no atom `inside`."""
    found = {}
    for p in system.potentials:
        if isinstance(p, (Nonbonded, TermPotential)):
            continue
        if not isinstance(p, (CMAP, PositionRestraint, ExpressionExternal)) or inside[p.atoms].any():
            raise ValueError(f"hybrid: {p.name!r} of the {name} system is not a sum of bonded terms")
        found[p.name] = p
    return found


def _same(old, new, place):
    """Return True if a potential of the new system, with its atoms numbered by `place`, is that of the old one."""
    return (
        np.array_equal(old.atoms, place[new.atoms])
        and old.params.keys() == new.params.keys()
        and all(np.array_equal(old.params[key], new.params[key]) for key in old.params)
        and all(
            np.array_equal(getattr(old, key, None), getattr(new, key, None))
            for key in ("types", "expression", "images")
        )
    )


def _same_table(old, new, rest):
    """Return True if pairs of the other atoms `rest`, of each system, have the same table or none."""
    if old.mixing != new.mixing or old.mixing != "table":
        return old.mixing == new.mixing
    kinds = np.unique(np.stack([p.types[atoms] for p, atoms in zip((old, new), rest)]), axis=1)
    tables = [[p.params[key][np.ix_(of, of)] for key in ("a", "b")] for p, of in zip((old, new), kinds)]
    return np.array_equal(*tables)


def _rules(system, place):
    """How each virtual site is placed, with atoms numbered by `place`: kind, parents and numbers, by the site."""
    found = {}
    for of in system.virtual_sites:
        numbers = [getattr(of, field.name) for field in fields(of) if field.name not in ("sites", "parents")]
        for k, site in enumerate(of.sites):
            found[int(place[site])] = type(of), place[of.parents[k]].tolist(), [x[k].tolist() for x in numbers]
    return found


def _rows(potential):
    """A key for each term: its function, atoms, in one of two directions, and parameters."""
    keys, m = sorted(potential.params), len(potential.atoms)
    function = type(potential), getattr(potential, "expression", None), potential.images, *keys
    values = np.array([np.broadcast_to(potential.params[key], m) for key in keys]).reshape(len(keys), m).T
    return [(function, *min(atoms, atoms[::-1]), *row) for atoms, row in zip(potential.atoms.tolist(), values.tolist())]
