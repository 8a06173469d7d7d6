"""`decouple`: a system in which the interactions of marked atoms depend on lambdas."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import numpy as np

from triskele.core.extend import check

from .. import box as boxes
from ..engine.energy_split import solute_mask
from ..engine.engine import Engine
from ..engine.plausibility import check_energies
from ..potential import Potential
from ..potentials.bonded.gromacs import lennard_jones_pair
from ..potentials.bonded.pair14 import pair14
from ..potentials.expressions.compound import ExpressionCompound
from ..potentials.nonbonded.nonbonded import Nonbonded
from ..potentials.polarizable.drude import thole_screening
from ..system import System
from ..topology import as_vectors
from .finite_size import check_charges
from .kernels import STATES
from .nonbonded import AlchemicalNonbonded, with_sizes
from .scaled import Scaled
from .schedule import NAMES, Schedule, check_names, check_type
from .soft_core import Beutler, SoftCore

__all__ = ["Lambdas", "alchemical", "check_schedule", "decouple", "derivatives", "energies", "set_lambdas"]

_PAIRWISE = ("electrostatics", "sterics")
_CANCELS = 1e6  # kJ/mol; the difference of so large an energy to a small one has an error of some 1e-10
_PAIRS_OF_TERMS = {thole_screening: "electrostatics", lennard_jones_pair: "sterics"}  # what terms of pairs do


def decouple(
    system: System,
    atoms: Any,
    *,
    annihilate: Iterable[str] = ("electrostatics",),
    soft_core: SoftCore | None = None,
    bonded: Iterable[str] = (),
    restraints: Iterable[str] = (),
    charged: bool = False,
) -> System:
    """Return a copy of `system` in which the interactions of marked atoms depend on lambdas.

    At lambda 1 an interaction is complete, at 0 it is gone. "electrostatics" and "sterics" (Lennard-Jones) act on the
    pairs of marked atoms with all others, as `AlchemicalNonbonded` says in formulas; "bonded" and "restraints" multiply
    the energies of the potentials named here. All are 1 at first.

    Parameters
    ----------
    system : System
        It is left as it is. It must have a `Nonbonded`.
    atoms : iterable of int, or (n,) bool
        Marked atoms: whole molecules.
    annihilate : iterable of {"electrostatics", "sterics"}
        Interactions that vanish between marked atoms too. Those that are left out keep their strength inside of the
        molecule: they are decoupled. The default is that of openmmtools.
    soft_core : Beutler or Gapsys, optional
        Defaults to ``Beutler()``.
    bonded : iterable of str
        Names of potentials, such as "torsion", whose terms with a marked atom scale with the lambda "bonded".
    restraints : iterable of str
        Names of potentials that scale as a whole with the lambda "restraints".
    charged : bool
        Allow marked atoms with a net charge in a periodic box with PME, whose size then matters: `finite_size` says how
        much.

    Returns
    -------
    System

    Raises
    ------
    ValueError
        If marked atoms have a net charge, unless `charged`; if one is bonded, excluded from, constrained or tied as a
        virtual site or Drude particle to one that is not marked; if a potential of pairs other than `Nonbonded`, or
        one of many bodies, such as GB, EAM or a network, acts on them and others; if a term of an `ExpressionCompound`
        does that `restraints` does not name; if `thole_screening` or `lennard_jones_pair` acts between atoms whose
        interaction of that kind is annihilated; if `bonded` names 1-4 pairs that `annihilate` changes, or a name of
        `restraints`; if `bonded` or `restraints` names springs of Drude particles; if Nonbonded uses "ljpme" or
        "ewald", or has a table in which marked atoms do not mix by the rules of Lorentz and Berthelot.

    Warns
    -----
    UserWarning
        If the charges of marked atoms do not sum to an integer.

    Notes
    -----
    At lambdas of 1 the energy is that of the plain system up to rounding: Lennard-Jones of marked atoms is summed in
    float64, in another order. In mixed precision that is a change of some 1e-6 kJ/mol per pair.

    Biases, external fields and `FunctionPotential` act in full at all lambdas unless `restraints` names them. An
    `ExpressionCompound` between marked atoms and others must be named there: it could as well be an interaction, such
    as OpenMM's CustomHbondForce.

    References
    ----------
    Shirts, Mobley, "An introduction to best practices in free energy calculations", Methods Mol. Biol. 924 (2013) 271.
    doi:10.1007/978-1-62703-017-5_11

    Examples
    --------
    >>> from triskele import sponge
    >>> from triskele.sponge import alchemy
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide-water"), method="pme", cutoff=0.9)
    >>> soft = alchemy.decouple(system, range(22))
    >>> abs(soft.energy() / system.energy() - 1) < 1e-9
    True
    """
    where = "decouple"
    if not isinstance(system, System):
        raise TypeError(f"{where}: system must be a System, got {type(system).__name__}")
    system.check()
    marked = solute_mask(system, atoms, f"{where}: atoms")
    for option, names in (("annihilate", annihilate), ("bonded", bonded), ("restraints", restraints)):
        if isinstance(names, str):
            raise TypeError(f"{where}: {option} must be a list of names, got {names!r} (write [{names!r}])")
    annihilate, bonded, restraints = tuple(annihilate), tuple(bonded), tuple(restraints)
    for name in annihilate:
        if name not in _PAIRWISE:
            raise ValueError(f"{where}: annihilate must name some of {', '.join(_PAIRWISE)}, got {name!r}")
    if both := set(bonded) & set(restraints):
        raise ValueError(f"{where}: {min(both)!r} must be in bonded or restraints, got it in both")
    if not isinstance(soft_core, SoftCore | None):
        raise TypeError(f"{where}: soft_core must be a Beutler or Gapsys, got {soft_core!r}")
    _check_cut(system, marked)
    new = system.copy()
    new.potentials = []
    plain = [p for p in system.potentials if isinstance(p, Nonbonded)]
    if len(plain) != 1:
        raise ValueError(f"{where}: the system must have one Nonbonded, got {len(plain)}")
    for name in (*bonded, *restraints):
        if isinstance(system[name], Nonbonded):
            raise ValueError(
                f"{where}: {name!r} cannot be scaled as a whole (its lambdas are electrostatics and sterics)"
            )
    pairs: list[Any] = []
    for p in system.potentials:
        if isinstance(p, Nonbonded):
            new.potentials.append(p)  # its place; made below
        elif p.pair_scope is not None:
            raise ValueError(f"{where}: {type(p).__name__} {p.name!r} acts on all pairs of atoms, and has no lambdas")
        elif p.together is not None and _ties(p.together, marked):
            raise ValueError(
                f"{where}: {type(p).__name__} {p.name!r} acts on marked atoms and others together, and has no lambdas"
            )
        elif isinstance(p, ExpressionCompound) and p.name not in restraints and np.any(cut := _cut_terms(p, marked)):
            raise ValueError(
                f"{where}: {type(p).__name__} {p.name!r} acts on marked atoms and others together in "
                f"{np.count_nonzero(cut)} of {len(cut)} terms, and could be a restraint or an interaction "
                f"(as a restraint, name it in restraints=[{p.name!r}]; it is complete at the lambda 1)"
            )
        elif (kind := _PAIRS_OF_TERMS.get(type(p))) in annihilate and np.any(marked[p.atoms]):
            raise ValueError(
                f"{where}: {type(p).__name__} {p.name!r} would stay between marked atoms, where "
                f"annihilate removes {kind} (leave {kind!r} out of `annihilate`)"
            )
        else:
            new.potentials += _parts(copy.deepcopy(p), marked, bonded, restraints, pairs if annihilate else None)
    check_charges(where, 0.0, float(plain[0].params["charges"][marked].sum()), plain[0].method == "pme", charged)
    own = _nonbonded(plain[0], system, marked, soft_core or Beutler(), annihilate, pairs)
    new.potentials = [own if p is plain[0] else p for p in new.potentials]
    new.check()
    return new


def _ties(together, marked):
    """Return True if atoms whose energy is one are marked and not, or just all atoms."""
    return isinstance(together, slice) or len(np.unique(marked[together])) == 2


def _cut_terms(compound: ExpressionCompound, marked: np.ndarray) -> np.ndarray:
    """Which terms (m,) bool have points of marked atoms and of others."""
    own = [np.array([k]) for k in range(len(marked))] if compound.groups is None else [g for g, _ in compound.groups]
    some, every = (np.array([test(marked[atoms]) for atoms in own])[compound.atoms] for test in (np.any, np.all))
    return some.any(axis=1) & ~every.all(axis=1)


def _parts(potential: Potential, marked, bonded, restraints, pairs) -> list[Potential]:
    """Return the potentials that replace one; 1-4 pairs of marked atoms go to `pairs`."""
    if potential.name in restraints:
        return [Scaled(potential, "restraints")]
    if pairs is not None and isinstance(potential, pair14):
        inside = marked[potential.atoms].all(axis=1)
        if inside.any() and potential.name in bonded:
            raise ValueError(
                f"decouple: bonded: the 1-4 pairs {potential.name!r} of marked atoms scale with what "
                f"annihilate names (leave them out of `bonded`, or pass annihilate=())"
            )
        if inside.any():
            pairs.append(potential.subset(inside))
        return [potential.subset(~inside)] if inside.any() and not inside.all() else [] if inside.any() else [potential]
    if potential.name not in bonded:
        return [potential]
    if not hasattr(potential, "subset"):
        raise ValueError(f"decouple: bonded: {potential.name!r} has no terms that can be told apart")
    inside = marked[potential.atoms].any(axis=1)  # type: ignore[attr-defined]
    if not inside.any():
        return [potential]
    scaled, rest = potential.subset(inside), potential.subset(~inside)
    scaled.name = f"{potential.name} of marked atoms"
    return [Scaled(scaled, "bonded"), *([rest] if len(rest.atoms) else [])]


def _nonbonded(plain, system, marked, soft_core, annihilate, pairs):
    new = with_sizes(plain, marked, system.topology, "decouple")
    if system.box is not None:
        new.fix_mesh(system.box)  # all states have the same
    sigmas, depths = new.params["sigmas"], new.params["epsilons"]
    if np.any(bad := (sigmas <= 0) & (depths != 0)):
        raise ValueError(
            f"decouple: sigmas must be positive, got {sigmas[bad][0]:g} for "
            f"{system.topology.describe(int(np.argmax(bad)))}"
        )
    sigmas[sigmas <= 0] = 0.1  # of atoms without Lennard-Jones; a length is needed to soften their charges

    def join(values, shape):
        return np.concatenate([np.zeros(shape), *values])

    if len({p.images for p in pairs}) > 1:
        raise ValueError("decouple: all 1-4 pairs must use nearest images, or none")
    joined = {key: join([p.params[key] for p in pairs], 0) for key in ("charge_product", "sigma", "epsilon")}
    sigma = np.where(joined["sigma"] > 0, joined["sigma"], 0.1)
    return AlchemicalNonbonded(
        new,
        np.flatnonzero(marked),
        soft_core,
        annihilate,
        join([p.atoms for p in pairs], (0, 2)).astype(np.int64),
        joined["charge_product"],
        sigma,
        joined["epsilon"],
        pairs[0].images if pairs else True,
    )


def _check_cut(system, marked):
    """Raise if something ties a marked atom to one that is not."""
    ties = [
        ("bonded", system.topology.bonds),
        ("constrained", system.constraints.pairs),
        ("excluded from interacting", system.exclusions),
    ]
    ties += [
        ("tied as a virtual site", np.stack([site.sites, column], axis=1))
        for site in system.virtual_sites
        for column in np.asarray(site.parents).T
    ]
    ties.append(("tied as a Drude particle", system.drude_pairs))
    for how, pairs in ties:
        pairs = np.asarray(pairs, np.int64).reshape(-1, 2)
        cut = marked[pairs[:, 0]] != marked[pairs[:, 1]]
        if cut.any():
            a, b = (system.topology.describe(int(i)) for i in pairs[np.argmax(cut)])
            inside, outside = (a, b) if marked[pairs[np.argmax(cut), 0]] else (b, a)
            raise ValueError(
                f"decouple: atoms must be whole molecules, but the marked {inside} is {how} to {outside}, "
                f"which is not marked ({np.count_nonzero(cut)} such pairs)"
            )


# --------------------------------------------------------------------------------------------------------------- states
def alchemical(system: System, where: str) -> AlchemicalNonbonded:
    """Return the system's `AlchemicalNonbonded`; raise ValueError if it has none."""
    for p in system.potentials:
        if isinstance(p, AlchemicalNonbonded):
            return p
    raise ValueError(f"{where}: the system must have marked atoms (make it with decouple or hybrid)")


def check_schedule(system: System, names: Iterable[str], where: str) -> None:
    """Raise ValueError if a name is not that of a lambda of the system."""
    check_names(names, where)
    known = {*alchemical(system, where).names, *(p.key for p in system.potentials if isinstance(p, Scaled))}
    for name in names:
        if name not in known:
            raise ValueError(
                f"{where}: no potential of the system scales with the lambda {name!r} (there are "
                f"{', '.join(sorted(known))}; decouple(...) and hybrid(...) choose them)"
            )


def set_lambdas(system: System, **lambdas: float) -> None:
    """Set lambdas of a system with marked atoms.

    Parameters
    ----------
    system : System
        Made by `decouple` or `hybrid`.
    **lambdas : float
        By their names, see `Schedule`.

    Examples
    --------
    >>> from triskele import sponge
    >>> from triskele.sponge import alchemy
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"))
    >>> soft = alchemy.decouple(system, range(22), annihilate=["electrostatics", "sterics"])
    >>> alchemy.set_lambdas(soft, electrostatics=0.0, sterics=0.0)
    >>> soft["nonbonded"].params["sterics"]
    array(0.)
    """
    own = alchemical(system, "set_lambdas")
    check_schedule(system, lambdas, "set_lambdas")
    for name, value in lambdas.items():
        value = check.number(value, f"set_lambdas: {name}", 0, 1)
        for p in [own, *(p for p in system.potentials if isinstance(p, Scaled) and p.key == name)]:
            if name in p.params:
                p.params[name] = np.array(value)


class Lambdas:
    """The lambdas of an engine, which moves between the states of a schedule and finds the energies in all of them."""

    def __init__(
        self,
        engine: Engine,  # of a system from `decouple` or `hybrid`
        schedule: Schedule,
    ):
        self.engine, self.schedule = engine, schedule
        self._key = alchemical(engine.system, "alchemy").name
        self._scaled = [(p.name, p.key) for p in engine.potentials if isinstance(p, Scaled)]
        self._plan: Any = engine.plans[self._key]
        self._plan.set_states({name: schedule.column(name) for name in self._plan.potential.names})

    def set(self, k: int) -> None:
        """Go to state `k`."""
        state = {name: float(self.schedule.column(name)[k]) for name in NAMES}
        self._plan.set_lambdas(state)
        for name, key in self._scaled:
            plan: Any = self.engine.plans[name]
            plan.set(state[key])

    def in_states(self) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return energies (k,) of all states relative to the present one, and derivatives (k,) by each lambda of the
        schedule, both in kJ/mol, from the last evaluation with the flag `STATES`.
        """
        energies, slopes = self._plan.in_states()
        for name, key in self._scaled:
            plan: Any = self.engine.plans[name]
            more, slope = plan.in_states(self.schedule.column(key))
            energies, slopes[key] = energies + more, slopes.get(key, 0.0) + slope
        return energies, {name: slopes[name] for name in self.schedule.names}


def _evaluate(system, schedule, positions, box, precision, where):
    check_type(schedule, where)
    alchemical(system, where)
    check_schedule(system, schedule.names, where)
    positions = system.positions if positions is None else positions
    if positions is None:
        raise ValueError(f"{where}: positions are needed; give them, or set system.positions")
    positions = as_vectors(positions, system.topology, f"{where}: positions")
    if box is not None and system.box is None:
        raise ValueError(f"{where}: a box was given, but the system is not periodic (set system.box)")
    box = system.box if box is None else boxes.as_box(box, f"{where}: box")
    engine = Engine(system, precision)
    lambdas = Lambdas(engine, schedule)
    engine.flags[STATES] = 1
    for _ in range(1 + len(schedule)):
        engine.compute(positions, box)
        terms = engine.energies()
        check_energies(engine, terms, where)
        here = sum(terms.values())
        difference, slopes = lambdas.in_states()
        sizes = np.abs(here + difference)
        if abs(here) - sizes.min() <= _CANCELS:
            break
        lambdas.set(int(np.argmin(sizes)))  # atoms overlap: the energies cancel here, but not in a softer state
    return here + difference, slopes


def energies(
    system: System, schedule: Schedule, positions: Any = None, box: Any = None, *, precision: str = "double"
) -> np.ndarray:
    """Potential energy in every state of a schedule, from one evaluation, or a few if marked atoms overlap others.

    Parameters
    ----------
    system : System
        Made by `decouple` or `hybrid`; lambdas that the schedule leaves out are 1.
    schedule : Schedule
    positions : (n, 3) array, nm, optional
        Defaults to the system's own.
    box : float, (3,) or (3, 3) array, nm, optional
        Defaults to the system's own.
    precision : {"double", "mixed"}

    Returns
    -------
    (k,) float64
        In kJ/mol.

    Raises
    ------
    BrokenSimulationError
        If an energy is not finite, as that of two atoms in one place; names the term and the atoms.

    Examples
    --------
    >>> from triskele import sponge
    >>> from triskele.sponge import alchemy
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide-water"), method="pme", cutoff=0.9)
    >>> soft = alchemy.decouple(system, range(22))
    >>> alchemy.energies(soft, alchemy.Schedule(electrostatics=[1, 0.5, 0])).shape
    (3,)
    """
    return _evaluate(system, schedule, positions, box, precision, "alchemy.energies")[0]


def derivatives(
    system: System, schedule: Schedule, positions: Any = None, box: Any = None, *, precision: str = "double"
) -> dict[str, np.ndarray]:
    """Derivatives of the potential energy by the lambdas in every state of a schedule.

    Parameters
    ----------
    system, schedule, positions, box, precision
        As of `energies`.

    Returns
    -------
    dict of str to (k,) float64
        dU/dlambda in kJ/mol, by the names that the schedule has.

    Examples
    --------
    >>> from triskele import sponge
    >>> from triskele.sponge import alchemy
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"))
    >>> soft = alchemy.decouple(system, range(22), annihilate=["sterics"])
    >>> list(alchemy.derivatives(soft, alchemy.Schedule(sterics=[1, 0.5, 0])))
    ['sterics']
    """
    return _evaluate(system, schedule, positions, box, precision, "alchemy.derivatives")[1]
