"""`AlchemicalNonbonded`: Lennard-Jones and Coulomb with marked atoms whose interactions depend on lambdas."""

from __future__ import annotations

import copy
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .. import box as boxes
from ..engine.plan import Plan
from ..neighbors.pairs import find_pairs
from ..potential import Potential
from ..potentials.at_values import Part, at_values
from ..potentials.nonbonded.nonbonded import Nonbonded
from ..potentials.pairs.formulas import switch
from ..potentials.pairs.mixing import root, sigma_epsilon
from ..protocols import SystemLike
from ..units import COULOMB
from .kernels import DIRECT, EXCLUDED, IMAGES, KEPT, PLAIN, SCALED, SOFTENED, VACUUM, WITHIN
from .soft_core import CONSTANT, RISING, SoftCore, coefficients
from .tail import tail

if TYPE_CHECKING:
    from ..engine.engine import Engine

__all__ = ["AlchemicalNonbonded", "with_sizes"]

_METHODS = ("pme", "reaction_field", "cutoff", "none")


def with_sizes(nonbonded: Nonbonded, marked: np.ndarray, topology: Any, where: str) -> Nonbonded:
    """Return a copy with sigmas and epsilons of all atoms, also where a table has parameters of pairs.

    Raise ValueError if a marked atom and another do not mix by the rules of Lorentz and Berthelot.
    """
    new = copy.deepcopy(nonbonded)
    if new.mixing == "table":
        a, b, types = new.params["a"], new.params["b"], np.asarray(new.types)
        sigma, epsilon = sigma_epsilon(np.diag(a), np.diag(b))
        six, depth = (0.5 * (sigma[:, None] + sigma)) ** 6, 4 * np.sqrt(epsilon[:, None] * epsilon)
        ruled = np.isclose(a, depth * six**2, rtol=1e-6, atol=0) & np.isclose(b, depth * six, rtol=1e-6, atol=0)
        if np.any(bad := ~ruled[np.ix_(types[marked], types)]):
            row, j = np.argwhere(bad)[0]
            i, j = topology.describe(int(np.flatnonzero(marked)[row])), topology.describe(int(j))
            raise ValueError(
                f"{where}: marked atoms must mix with others by the rules of Lorentz and Berthelot, but "
                f"{i} and {j} have a pair of their own in the table (NBFIX)"
            )
        # the last type, without interactions, is that of marked atoms among the pairs of unmarked ones
        new.params |= {
            "a": np.pad(a, (0, 1)),
            "b": np.pad(b, (0, 1)),
            "sigmas": sigma[types],
            "epsilons": epsilon[types],
        }
    return new


class AlchemicalNonbonded(Potential):
    r"""Lennard-Jones and Coulomb interactions with marked atoms, as `decouple` makes them.

    Pairs of unmarked atoms are those of a `Nonbonded`, computed by its kernels. With the lambdas
    :math:`\lambda_q` of electrostatics and :math:`\lambda_s` of sterics:

    - Lennard-Jones of a marked atom with an unmarked one is that of the soft core at :math:`\lambda_s`; between marked
      atoms it is the same if sterics are annihilated, else the plain one. Cut-off and switch are those of all pairs.
      The mean energy beyond the cut-off is the integral of the same functions.
    - With "pme", Coulomb is the Ewald sum of all charges, those of marked atoms times :math:`\lambda_q`, with self
      energies, background and excluded pairs, so that it is a quadratic in :math:`\lambda_q`. If electrostatics are
      decoupled rather than annihilated, :math:`(1-\lambda_q^2) \sum k_e q_i q_j / r` is added, over the pairs of marked
      atoms that are not excluded, at all distances: at 0 the molecule has its Coulomb energy in vacuum.
    - Otherwise Coulomb is a sum over pairs: a marked atom with an unmarked one times :math:`\lambda_q` or as the soft
      core says; between marked atoms the same if annihilated, else plain.
    - 1-4 pairs of marked atoms stay as they are, unless annihilated: then Lennard-Jones is that of the soft core, and
      the Coulomb energy is multiplied by :math:`\lambda_q` once.

    `params` holds those of `Nonbonded` and `pair14`, and the lambdas, of shape ().
    """

    conserves_momentum = True
    names: ClassVar[tuple[str, ...]] = ("electrostatics", "sterics")
    steric: ClassVar[dict[str, tuple[int, ...]]] = {"sterics": (RISING,)}  # courses that a lambda changes

    def __init__(
        self,
        nonbonded: Nonbonded,  # sigmas and epsilons of all atoms; a table is for unmarked atoms only
        atoms: np.ndarray,
        soft_core: SoftCore,  # marked atoms (m,)
        annihilate: tuple[str, ...],  # some of "electrostatics", "sterics"
        pairs14: np.ndarray,  # (p, 2) 1-4 pairs of marked atoms that are part of this potential
        products14: Any,
        sigmas14: Any,
        epsilons14: Any,
        images14: bool = True,
    ):  # (p,), as of `pair14`
        self.name, self.atoms, self.soft_core, self.annihilate = nonbonded.name, atoms, soft_core, annihilate
        self.nonbonded = nonbonded
        self.images, self.images14 = nonbonded.images, bool(images14)
        self.pairs14 = np.asarray(pairs14, np.int64).reshape(-1, 2)
        self.params = {
            **{key: values.copy() for key, values in nonbonded.params.items()},
            "products14": products14,
            "sigmas14": sigmas14,
            "epsilons14": epsilons14,
            "electrostatics": np.ones(()),
            "sterics": np.ones(()),
        }
        self.exclusions = nonbonded.exclusions

    # -- what engines ask of a potential of pairs ----------------------------------------------------------------------

    @property
    def cutoff(self) -> float | None:
        """Cut-off radius in nm."""
        return None if self.nonbonded.method == "none" else self.nonbonded.cutoff

    @property
    def pair_scope(self):  # type: ignore[override]
        """Return "all" without a cut-off, "listed" with a neighbor list."""
        return self.nonbonded.pair_scope

    @property
    def invariant(self) -> bool:
        """True if translating all atoms leaves the energy exactly unchanged."""
        return self.nonbonded.invariant

    @property
    def ewald(self) -> bool:
        """True if Coulomb is an Ewald sum of scaled charges."""
        return self.nonbonded.method == "pme"

    def at_cutoff(self) -> Any:
        """As of `Nonbonded`, of the full interactions."""
        return self._with(self.params).at_cutoff()

    def check_box(self, box: np.ndarray | None) -> None:
        """Raise BoxError if the method cannot be used with such a box."""
        self.nonbonded.check_box(box)

    def check(self, system: SystemLike) -> None:
        """Take over the system's exclusions; raise if something does not fit."""
        if self.nonbonded.method not in _METHODS:
            raise ValueError(
                f"{self.name}: marked atoms need one of the methods {', '.join(map(repr, _METHODS))}, got "
                f"method {self.nonbonded.method!r}"
            )
        if self.nonbonded.excluded_field:
            raise ValueError(f"{self.name}: marked atoms need a reaction field without excluded_field")
        if self.nonbonded.modifier != "potential-switch":
            raise ValueError(
                f"{self.name}: marked atoms need the modifier 'potential-switch', got {self.nonbonded.modifier!r}"
            )
        if self.ewald and self.soft_core.softens_charges:
            raise ValueError(
                f"{self.name}: with 'pme' charges are scaled linearly; the soft core must have beta = 0 "
                f"and d = 1, got {self.soft_core}"
            )
        for key in self.names:
            if not 0 <= self.params[key] <= 1:
                raise ValueError(f"{self.name}: lambda {key} must lie between 0 and 1, got {self.params[key]:g}")
        whole = self._with(self.params)
        whole.check(system)
        self.nonbonded.exclusions = self.exclusions = whole.exclusions
        self.nonbonded.check_box(system.box)

    def _with(self, params):
        """A `Nonbonded` of other parameters."""
        new = copy.copy(self.nonbonded)
        new._reshaped()
        own = ("a", "b") if new.mixing == "table" else ("sigmas", "epsilons")
        new.params = {key: params[key] for key in ("charges", *own)}
        return new

    # -- parts ---------------------------------------------------------------------------------------------------------

    @property
    def marked(self) -> np.ndarray:
        """Mask of the marked atoms, (n,) bool."""
        mask = np.zeros(len(self.params["charges"]), bool)
        mask[self.atoms] = True
        return mask

    def charges(self, params: dict[str, Any], electrostatics: Any) -> Any:
        """Charges of the Ewald sum; 0 for marked atoms where pairs are scaled instead."""
        scale = electrostatics if self.ewald else 0.0
        return np.where(self.marked, scale * params["charges"], params["charges"])

    def charge_change(self, params: dict[str, Any]) -> np.ndarray:
        """Charges at lambda 1 less those at lambda 0, (n,)."""
        return np.where(self.marked, params["charges"], 0.0)

    def environment(self, params: dict[str, Any], electrostatics: Any) -> tuple[Nonbonded, dict[str, Any]]:
        """The pairs of unmarked atoms, and with Ewald sums all charges, as a `Nonbonded` and its parameters."""
        own = {"charges": self.charges(params, electrostatics)}
        if self.nonbonded.mixing != "table":
            own |= {"sigmas": params["sigmas"], "epsilons": np.where(self.marked, 0.0, params["epsilons"])}
            return self._with(own), own
        own |= {key: params[key] for key in ("a", "b")}
        new, types = self._with(own), np.asarray(self.nonbonded.types)
        new.types = np.where(self.marked, len(own["a"]) - 1, types).astype(types.dtype)
        return new, own

    def coefficients(self, lambdas: dict[str, Any]) -> np.ndarray:
        """Return `soft_core.coefficients` at the given lambdas."""
        return coefficients(self.soft_core, lambdas["electrostatics"], lambdas["sterics"])

    def bare(self, lambdas: dict[str, np.ndarray]) -> np.ndarray:
        """Return a mask of states, (k,) bool, in which marked atoms have charges but no Lennard-Jones."""
        charged = np.any(self.params["charges"][self.atoms])
        return (lambdas["sterics"] == 0) & (lambdas["electrostatics"] != 0) & charged

    def entries(self, params: dict[str, Any]) -> tuple[Any, ...]:
        """Lennard-Jones interactions of marked atoms with others: atom, course, change of charge, sigma, epsilon."""
        own = self.atoms
        return (own, np.full(len(own), RISING), params["charges"][own], params["sigmas"][own], params["epsilons"][own])

    def of_course(self, function: Any, form: Any, n: int, course: int, lambdas: dict[str, Any], *pairs: Any) -> Any:
        """`tail` or `jump` of pairs (sigma, epsilon, number) of a course at given lambdas."""
        sigma, epsilon, count = pairs
        options = self.soft_core, form.cutoff, form.switch, n, sigma, epsilon
        return function(*options, lambdas["sterics"] if course == RISING else 1.0, count)

    def inner_tail(self, params: dict[str, Any]) -> list[tuple[int, tuple[Any, ...]]]:
        """Courses and (sigma, epsilon, number) of the pairs of marked atoms with each other and themselves."""
        i, j = self.atoms[np.stack(np.triu_indices(len(self.atoms)))]
        s, e = params["sigmas"], root(params["epsilons"])
        course = RISING if "sterics" in self.annihilate else CONSTANT
        return [(course, (self.size(s[i], s[j]), e[i] * e[j], np.ones(len(i))))]

    def inner_pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pairs of marked atoms, (p, 2) int, their kinds as bits of `kernels` and courses; the 1-4 pairs come last."""
        m = len(self.atoms)
        pairs = self.atoms[np.stack(np.triu_indices(m, 1), axis=1)]
        n, left_out = self.nonbonded.n, np.sort(np.asarray(self.exclusions, np.int64).reshape(-1, 2), axis=1)
        out = np.isin(pairs.min(1) * n + pairs.max(1), left_out[:, 0] * n + left_out[:, 1])
        lennard_jones = SOFTENED if "sterics" in self.annihilate else PLAIN
        gone = "electrostatics" in self.annihilate
        coulomb = DIRECT | (0 if gone else VACUUM) if self.ewald else (SCALED if gone else KEPT)
        excluded = (EXCLUDED | IMAGES * self.images) if self.ewald else 0
        kinds = np.where(out, excluded, IMAGES * (self.cutoff is not None) | WITHIN | lennard_jones | coulomb)
        of_14 = np.full(len(self.pairs14), lennard_jones | (SCALED if gone else KEPT) | IMAGES * self.images14)
        pairs, kinds = np.concatenate([pairs, self.pairs14]), np.concatenate([kinds, of_14]).astype(np.int64)
        return pairs, kinds, np.full(len(kinds), RISING)

    def inner_values(self, params: dict[str, Any]) -> tuple[Any, ...]:
        """Return products of charges (kJ/mol nm), sigmas and epsilons of the pairs of `inner_pairs`, and the parts of
        the products that are linear in lambda and constant, if both charges change.
        """
        i, j = self.inner_pairs()[0].T[:, : -len(self.pairs14) or None]
        q, s, e = params["charges"], params["sigmas"], root(params["epsilons"])
        join = np.concatenate
        qq = COULOMB * join([q[i] * q[j], params["products14"]])
        return (
            qq,
            join([self.size(s[i], s[j]), params["sigmas14"]]),
            join([e[i] * e[j], params["epsilons14"]]),
            0.0 * qq,
            0.0 * qq,
        )

    def size(self, a: Any, b: Any) -> Any:
        """Sigma of pairs from those of the atoms."""
        return np.sqrt(a * b) if self.nonbonded.mixing == "geometric" else 0.5 * (a + b)

    # -- energy --------------------------------------------------------------------------------------------------------

    def energy(self, params: dict[str, Any], positions: Any, box: Any) -> Any:
        """Energy in kJ/mol, by float64 sums; every order of derivative exists, by the lambdas too."""
        environment, own = self.environment(params, params["electrostatics"])
        form = environment.form(_value(box))
        e = environment.energy(own, positions, box) + self._inside(form, params, positions, box)
        e = e + self._around(form, params, positions, box)
        if form.dispersion:
            e = e + self.tail(form, params) / boxes.volume(box)
        return e

    def tail(self, form: Any, params: dict[str, Any]) -> Any:
        """Mean energy beyond the cut-off, times the volume, of pairs with marked atoms."""
        rest, n = np.flatnonzero(~self.marked), len(params["sigmas"])
        s, e = params["sigmas"][rest], root(params["epsilons"])[rest]
        _, courses, _, sigmas, epsilons = self.entries(params)
        total = sum(self.of_course(tail, form, n, course, params, *pairs) for course, pairs in self.inner_tail(params))
        for course in np.unique(courses):
            own = np.flatnonzero(courses == course)
            pairs = self.size(sigmas[own][:, None], s), root(epsilons[own])[:, None] * e, 1.0
            total = total + self.of_course(tail, form, n, course, params, *pairs)
        return total

    def _around(self, form, params, positions, box):
        leaves = [params[k] for k in ("charges", "sigmas", "epsilons", "electrostatics", "sterics")] + [positions]
        return at_values(_Around(self, form, box is not None), *leaves, *([] if box is None else [box]))

    def _inside(self, form, params, positions, box):
        pairs, kinds, _ = self.inner_pairs()
        core, charge, steric = self.soft_core, params["electrostatics"], params["sterics"]
        qq, sigma, epsilon, *_ = self.inner_values(params)
        total = 0.0 * charge
        for kind in np.unique(kinds):
            which = np.flatnonzero(kinds == kind)
            i, j = pairs[which].T
            d = boxes.displacement(positions[i] - positions[j], box if kind & IMAGES else None)
            r2 = np.sum(d * d, axis=-1)
            u = 0.0
            if kind & (SOFTENED | PLAIN):
                u = core.lennard_jones(r2, sigma[which], epsilon[which], steric if kind & SOFTENED else 1.0)
                u = switched(form, np.sqrt(r2), u) if kind & WITHIN else u
            if kind & SCALED:
                u = u + qq[which] * core.coulomb_scale(charge) * _coulomb(
                    form if kind & WITHIN else None, core.distance(r2, sigma[which], charge)
                )
            if kind & KEPT:
                u = u + qq[which] * _coulomb(form if kind & WITHIN else None, np.sqrt(r2))
            if kind & WITHIN and form.cutoff is not None:
                u = np.where(r2 < form.cutoff**2, u, 0.0)
            if kind & VACUUM:
                u = u + (1 - charge * charge) * qq[which] / np.sqrt(r2)
            total = total + np.sum(u)
        return total

    def plan(self, engine: Engine) -> Plan:
        """The plan of the unmarked pairs, and kernels for the few pairs with marked atoms."""
        from .plan import AlchemicalPlan

        return AlchemicalPlan(self, engine)


def _value(box):
    return getattr(box, "value", box)


def switched(form: Any, r: Any, u: Any) -> Any:
    """Energies with the switch of a form."""
    return u if form.switch is None or form.cutoff is None else u * switch(r, form.switch, form.cutoff)


def _coulomb(form, r):
    return 1 / r if form is None else 1 / r + form.k_rf * r * r - form.c_rf


def pairs_around(
    potential: AlchemicalNonbonded, form: Any, positions: np.ndarray, box: np.ndarray | None
) -> np.ndarray:
    """Pairs of a marked and another atom within the cut-off, (p, 2) int, the marked one first."""
    pairs = find_pairs(positions, None if form.cutoff is None else box, form.cutoff, potential.exclusions)
    marked = potential.marked
    pairs = pairs[marked[pairs[:, 0]] != marked[pairs[:, 1]]]
    return np.where(marked[pairs[:, :1]], pairs, pairs[:, ::-1])


class _Around:
    """The energy of marked atoms with unmarked ones at given values."""

    def __init__(self, potential, form, periodic):
        self.potential, self.form, self.periodic = potential, form, periodic

    def __call__(self, *leaves):
        p, form = self.potential, self.form
        pairs = pairs_around(p, form, *leaves[-2:] if self.periodic else (leaves[-1], None))
        function = _around_function(p.soft_core, form, p.ewald, self.periodic)
        return [Part(function, tuple(np.ascontiguousarray(pairs.T)))]


@cache
def _around_function(core, form, ewald, periodic):
    def energy(data, charges, sigmas, epsilons, charge, steric, positions, *box):
        i, j = data
        d = boxes.displacement(positions[i] - positions[j], None if form.cutoff is None or not periodic else box[0])
        r2 = np.sum(d * d, axis=-1)
        arithmetic, e = form.mixing != "geometric", root(epsilons)
        sigma = 0.5 * (sigmas[i] + sigmas[j]) if arithmetic else np.sqrt(sigmas[i] * sigmas[j])
        u = switched(form, np.sqrt(r2), core.lennard_jones(r2, sigma, e[i] * e[j], steric))
        if not ewald:
            qq = COULOMB * charges[i] * charges[j] * core.coulomb_scale(charge)
            u = u + qq * _coulomb(form, core.distance(r2, sigma, charge))
        return np.sum(u)

    return energy
