"""`HybridNonbonded`: Lennard-Jones and Coulomb of a molecule that turns into another one."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar

import numpy as np

from .. import box as boxes
from ..potentials.at_values import Part, at_values
from ..potentials.nonbonded.nonbonded import Nonbonded
from ..potentials.pairs.mixing import root
from ..units import COULOMB
from .kernels import DIRECT, EXCLUDED, IMAGES, PLAIN, QUADRATIC, SOFTENED, WITHIN
from .nonbonded import AlchemicalNonbonded, pairs_around, switched
from .soft_core import CONSTANT, FALLING, HARD_FALLING, HARD_RISING, RISING, SoftCore, coefficients

__all__ = ["HybridNonbonded"]

_NEW = (RISING, HARD_RISING)  # courses with the parameters of the new molecule


class HybridNonbonded(AlchemicalNonbonded):
    r"""Lennard-Jones and Coulomb interactions of an old molecule that turns into a new one, as `hybrid` makes them.

    Atoms of the molecule are its core, which both share, and those that only the old or only the new one has; these do
    not see each other. At lambdas of 0 the molecule is the old one, at 1 the new one.

    - Coulomb is the Ewald sum of the charges :math:`(1-\lambda) q_{old} + \lambda q_{new}`, with the lambda
      "electrostatics"; of a molecule in vacuum, it is the sum over pairs of these charges.
    - Lennard-Jones of new atoms with the core and with other molecules is that of the soft core at "insertion", of old
      ones at 1 - "deletion". Among themselves it is plain.
    - Lennard-Jones of the core with itself and with other molecules is (1 - "mixing") times the old energy plus
      "mixing" times the new one.
    - In the mean energy beyond the cut-off, pairs within the molecule go with "mixing".
    """

    names: ClassVar[tuple[str, ...]] = ("electrostatics", "insertion", "deletion", "mixing")
    steric: ClassVar[dict[str, tuple[int, ...]]] = {
        "insertion": (RISING,),
        "deletion": (FALLING,),
        "mixing": (HARD_FALLING, HARD_RISING),
    }

    def __init__(
        self,
        nonbonded: Nonbonded,  # with the old molecule; new atoms have a sigma, but charge and epsilon 0
        new: dict[str, np.ndarray],  # (n,) charges, sigmas, epsilons; old atoms have charge and epsilon 0
        atoms: np.ndarray,
        old: np.ndarray,
        new_atoms: np.ndarray,  # (m,) int: all, only old, only new
        soft_core: SoftCore,
    ):
        nothing = np.zeros(0)
        super().__init__(nonbonded, atoms, soft_core, ("electrostatics",), np.zeros((0, 2)), nothing, nothing, nothing)
        own = {key: values for key, values in self.params.items() if key in nonbonded.params}
        self.params = {
            **own,
            **{f"new_{key}": np.array(values) for key, values in new.items()},
            **{name: np.zeros(()) for name in self.names},
        }
        self.old, self.new = old, new_atoms
        core = np.setdiff1d(atoms, np.concatenate([old, new_atoms]))
        changes = np.zeros(nonbonded.n, bool)
        for key in ("sigmas", "epsilons"):
            changes[core] |= own[key][core] != new[key][core]
        self.changing, self.constant = core[changes[core]], core[~changes[core]]

    def check(self, system):
        if not self.ewald and (self.nonbonded.method != "none" or len(self.atoms) < system.n):
            raise ValueError(
                f"{self.name}: a hybrid needs method 'pme', or 'none' for a molecule alone, got "
                f"{self.nonbonded.method!r} with {system.n - len(self.atoms)} other atoms"
            )
        super().check(system)

    # -- parts ---------------------------------------------------------------------------------------------------------

    def charges(self, params: dict[str, Any], electrostatics: Any) -> Any:
        if not self.ewald:
            return 0 * params["charges"]  # all are pairs within the molecule
        return (1 - electrostatics) * params["charges"] + electrostatics * params["new_charges"]

    def charge_change(self, params: dict[str, Any]) -> np.ndarray:
        return params["new_charges"] - params["charges"]

    def coefficients(self, lambdas: dict[str, Any]) -> np.ndarray:
        return coefficients(self.soft_core, *(lambdas[name] for name in self.names))

    def bare(self, lambdas: dict[str, np.ndarray]) -> np.ndarray:
        old, new = (np.any(self.params[key][of]) for key, of in (("charges", self.old), ("new_charges", self.new)))
        charge = lambdas["electrostatics"]
        return (new & (charge != 0) & (lambdas["insertion"] == 0)) | (old & (charge != 1) & (lambdas["deletion"] == 1))

    def entries(self, params: dict[str, Any]) -> tuple[Any, ...]:
        change = self.charge_change(params)
        parts = [(self.old, FALLING, 1.0), (self.new, RISING, 1.0), (self.constant, CONSTANT, 1.0),
                 (self.changing, HARD_FALLING, 1.0), (self.changing, HARD_RISING, 0.0)]  # fmt: skip
        columns = [
            (
                atoms,
                np.full(len(atoms), course),
                charged * change[atoms],
                params[_key("sigmas", course)][atoms],
                params[_key("epsilons", course)][atoms],
            )
            for atoms, course, charged in parts
            if len(atoms)
        ]
        return tuple(np.concatenate(column) for column in zip(*columns))

    def of_course(self, function: Any, form: Any, n: int, course: int, lambdas: dict[str, Any], *pairs: Any) -> Any:
        sigma, epsilon, count = pairs
        lam, factor = _course(course, lambdas)
        return factor * function(self.soft_core, form.cutoff, form.switch, n, sigma, epsilon, lam, count)

    def inner_tail(self, params: dict[str, Any]) -> list[tuple[int, tuple[Any, ...]]]:
        found = []
        for course, gone in ((HARD_FALLING, self.new), (HARD_RISING, self.old)):
            own = np.setdiff1d(self.atoms, gone)
            s, e = params[_key("sigmas", course)][own], root(params[_key("epsilons", course)][own])
            i, j = np.triu_indices(len(own))
            found.append((course, (self.size(s[i], s[j]), e[i] * e[j], np.ones(len(i)))))
        return found

    def inner_pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        pairs = self.atoms[np.stack(np.triu_indices(len(self.atoms), 1), axis=1)]
        left_out = {tuple(sorted(pair)) for pair in np.asarray(self.exclusions).tolist()}
        old, new, changing = set(self.old.tolist()), set(self.new.tolist()), set(self.changing.tolist())
        coulomb, rows = DIRECT if self.ewald else QUADRATIC, []
        near = coulomb | (IMAGES | WITHIN) * self.ewald
        excluded = (EXCLUDED | IMAGES * self.images) if self.ewald else 0
        for i, j in pairs.tolist():
            both, count = {i, j}, sum(k in old or k in new for k in (i, j))
            if (min(i, j), max(i, j)) in left_out:
                rows.append((i, j, excluded, CONSTANT))
            elif count == 2:
                rows.append((i, j, near | SOFTENED, CONSTANT))
            elif count == 1:
                rows.append((i, j, near | SOFTENED, FALLING if both & old else RISING))
            elif both & changing:
                rows += [(i, j, near | SOFTENED, HARD_FALLING), (i, j, near ^ coulomb | SOFTENED, HARD_RISING)]
            else:
                rows.append((i, j, near | PLAIN, CONSTANT))
        found = np.array(rows, np.int64).reshape(-1, 4)
        return np.ascontiguousarray(found[:, :2]), found[:, 2].copy(), found[:, 3].copy()

    def inner_values(self, params: dict[str, Any]) -> tuple[Any, ...]:
        pairs, _, courses = self.inner_pairs()
        i, j = pairs.T
        # two new atoms interact with parameters of their own
        new = np.isin(courses, _NEW) | np.isin(i, self.new) & np.isin(j, self.new)
        s, e = (
            np.where(new[:, None], params[f"new_{key}"][pairs], params[key][pairs]) for key in ("sigmas", "epsilons")
        )
        q, change = params["charges"], self.charge_change(params)
        return (
            COULOMB * change[i] * change[j],
            self.size(s[:, 0], s[:, 1]),
            root(e[:, 0]) * root(e[:, 1]),
            COULOMB * (q[i] * change[j] + change[i] * q[j]),
            COULOMB * q[i] * q[j],
        )

    # -- energy --------------------------------------------------------------------------------------------------------

    def _around(self, form, params, positions, box):
        if not self.ewald:
            return 0.0  # the molecule is alone
        keys = ("sigmas", "epsilons", "new_sigmas", "new_epsilons", *self.names[1:])
        leaves = [params[key] for key in keys] + [positions]
        return at_values(_Around(self, form, box is not None), *leaves, *([] if box is None else [box]))

    def _inside(self, form, params, positions, box):
        pairs, kinds, courses = self.inner_pairs()
        square, sigma, epsilon, linear, constant = self.inner_values(params)
        total = 0.0 * params["mixing"]
        for course in np.unique(courses):
            which = np.flatnonzero((courses == course) & (kinds & (PLAIN | SOFTENED) != 0))
            i, j = pairs[which].T
            r2 = np.sum(boxes.displacement(positions[i] - positions[j], box) ** 2, axis=-1)
            lam, factor = _course(course, params)
            u = switched(form, np.sqrt(r2), self.soft_core.lennard_jones(r2, sigma[which], epsilon[which], lam))
            total = total + factor * np.sum(u if form.cutoff is None else np.where(r2 < form.cutoff**2, u, 0.0))
        which, lam = np.flatnonzero(kinds & QUADRATIC), params["electrostatics"]
        if len(which):
            i, j = pairs[which].T
            qq = constant[which] + lam * (linear[which] + lam * square[which])
            total = total + np.sum(qq / np.sqrt(np.sum((positions[i] - positions[j]) ** 2, axis=-1)))
        return total


def _key(name, course):
    return f"new_{name}" if course in _NEW else name


def _course(course, lambdas):
    """Lambda of the soft core, and factor, of a course."""
    if course == RISING:
        return lambdas["insertion"], 1.0
    if course == FALLING:
        return 1 - lambdas["deletion"], 1.0
    return 1.0, 1 - lambdas["mixing"] if course == HARD_FALLING else lambdas["mixing"] if course == HARD_RISING else 1.0


class _Around:
    """Lennard-Jones of the molecule with other atoms at given values."""

    def __init__(self, potential, form, periodic):
        self.potential, self.form, self.periodic = potential, form, periodic

    def __call__(self, *leaves):
        p = self.potential
        pairs = pairs_around(p, self.form, *leaves[-2:] if self.periodic else (leaves[-1], None))
        parts = []
        for course, own in (
            (FALLING, p.old),
            (RISING, p.new),
            (CONSTANT, p.constant),
            (HARD_FALLING, p.changing),
            (HARD_RISING, p.changing),
        ):
            function = _around_function(p.soft_core, self.form, course)
            parts.append(Part(function, tuple(np.ascontiguousarray(pairs[np.isin(pairs[:, 0], own)].T))))
        return parts


@cache
def _around_function(core, form, course):
    def energy(data, sigmas, epsilons, new_sigmas, new_epsilons, insertion, deletion, mixing, positions, *box):
        i, j = data
        d = boxes.displacement(positions[i] - positions[j], box[0])
        r2 = np.sum(d * d, axis=-1)
        own_s, own_e = (new_sigmas, new_epsilons) if course in _NEW else (sigmas, epsilons)
        arithmetic = form.mixing != "geometric"
        sigma = 0.5 * (own_s[i] + sigmas[j]) if arithmetic else np.sqrt(own_s[i] * sigmas[j])
        lam, factor = _course(course, {"insertion": insertion, "deletion": deletion, "mixing": mixing})
        u = core.lennard_jones(r2, sigma, root(own_e)[i] * root(epsilons)[j], lam)
        return factor * np.sum(switched(form, np.sqrt(r2), u))

    return energy
