"""`Relative`: the free energy of turning one molecule into another, in one environment less that in another."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from triskele.core.extend import check

from ..build.immerse import immerse
from ..system import System
from .difference import Convergence, FreeEnergyDifference, rounded
from .finite_size import PERMITTIVITIES, finite_size
from .hybrid import hybrid
from .hybrid_nonbonded import HybridNonbonded
from .legs import Legs, solute
from .mapping import mapping as find_mapping
from .schedule import Schedule
from .solvation import vanishing

__all__ = ["Relative", "RelativeFreeEnergy"]

_SAME_LENGTH = 1e-3  # nm; bonds of carbon to hydrogen differ by less between types of a force field
_WATER = 78.4  # relative permittivity at 298 K


@dataclass(frozen=True, eq=False, repr=False)
class RelativeFreeEnergy:
    """See `Relative`.

    Attributes
    ----------
    value, error : float, kJ/mol
        Free energy of turning the old molecule into the new one in the second environment less that in the first, and
        its standard error.
    units : str
        "kJ/mol".
    legs : dict of str to FreeEnergyDifference
        The results of both environments, with their overlaps.
    convergence : dict of str to Convergence
        Free energies of both environments from parts of the samples; none where there are fewer than 40 of a state.
    """

    value: float
    error: float
    legs: dict[str, FreeEnergyDifference]
    convergence: dict[str, Convergence]

    units = "kJ/mol"

    @property
    def corrected(self) -> float:
        """The value with the terms for the size of the boxes, in kJ/mol."""
        first, last = (leg.corrected for leg in self.legs.values())
        return last - first

    @property
    def overlap(self) -> dict[str, np.ndarray]:
        """Overlap matrices of both environments."""
        return {name: leg.overlap for name, leg in self.legs.items()}

    def __str__(self):
        return rounded(self.value, self.error)

    def __repr__(self):
        legs = ", ".join(f"{name} {leg.value:.2f}" for name, leg in self.legs.items())
        return f"<RelativeFreeEnergy: {self}; {legs} kJ/mol>"


class Relative(Legs[RelativeFreeEnergy]):
    """Relative free energy of two molecules, from turning one into the other in two environments.

    From vacuum to water, this is the difference of their free energies of hydration; from water to a complex, that of
    their free energies of binding. In each environment, `hybrid` makes the system; contributions of atoms that only one
    of the molecules has cancel between the environments.

    Parameters
    ----------
    old, new : System or sequence of path-like
        A molecule without a box, or its files for `load`, such as a prmtop and its inpcrd, with constraints="h-bonds".
        Constraints of atoms that both molecules share keep the length that they have in the old one; these may differ
        by 0.001 nm.
    environments : (str or System, str or System)
        "vacuum", a model of water as for `build.immerse`, or a system with PME that has the old molecule among others,
        with the same constraints, such as a complex in water.
    mapping : dict of int to int, optional
        Atoms of the old molecule to atoms of the new one. Defaults to what `mapping` finds, which needs RDKit, without
        hydrogens whose constraints differ by more, such as one of a hydroxyl group that becomes a thiol, or are there
        in one of the molecules alone.
    lambdas : int or Schedule
        Number of states, or the states themselves: from the old molecule to the new one. They need "mixing",
        "electrostatics" if charges change, and "insertion" and "deletion" if there are new and old atoms that are not
        shared.
    temperature : float, K
    pressure : float, bar
    padding : float, nm
        Least distance of the old molecule to the faces of a box of water.
    cutoff : float, nm
        Cut-off radius of the direct interactions in a box of water.
    timestep : float, ps
    seed : int
    charged : bool
        Allow molecules of different net charges. The legs in a box then have the terms of `finite_size` without a
        radius, with the permittivity of the water model, or 78.4 in a complex. They are not part of the values.

    Attributes
    ----------
    systems : dict of str to System
        The hybrids, under the names of the environments; a system is called "complex".
    mapping : dict of int to int
    schedule : Schedule
    replicas : dict of str to LambdaExchange
        The simulations of the last run.

    Raises
    ------
    ValueError
        If a molecule has a box, an environment does not have the old molecule once, constraints of shared atoms
        differ, `hybrid` refuses the mapping, or a schedule does not take each lambda that it needs from 0 to 1.

    References
    ----------
    Gapsys, Michielssens, Seeliger, de Groot, "pmx: Automated protein structure and topology generation for alchemical
    perturbations", J. Comput. Chem. 36 (2015) 348. doi:10.1002/jcc.23804

    Examples
    --------
    >>> from triskele import sponge
    >>> from triskele.sponge import alchemy
    >>> peptide = sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds")
    >>> same = alchemy.Relative(peptide, peptide, mapping={k: k for k in range(22)}, lambdas=4)
    >>> same
    <Relative: vacuum (22 atoms), tip3p (2086 atoms), 4 states at 298.15 K>
    >>> files = ["methane.prmtop", "methane.inpcrd"], ["ethane.prmtop", "ethane.inpcrd"]
    >>> result = alchemy.Relative(*files).run(time="1 ns", checkpoint="pair.chk")     # doctest: +SKIP
    >>> bound = sponge.load("complex.prmtop", "complex.inpcrd", method="pme", cutoff=0.9,
    ...                     constraints="h-bonds")                                    # doctest: +SKIP
    >>> binding = alchemy.Relative(*files, environments=("tip3p", bound))             # doctest: +SKIP
    """

    def __init__(
        self,
        old: Any,
        new: Any,
        environments: tuple[Any, Any] = ("vacuum", "tip3p"),
        *,
        mapping: Mapping[int, int] | None = None,
        lambdas: int | Schedule = 16,
        temperature: float = 298.15,
        pressure: float = 1.01325,
        padding: float = 1.0,
        cutoff: float = 0.9,
        timestep: float = 0.002,
        seed: int = 0,
        charged: bool = False,
    ):
        old, new = solute(old, "Relative"), solute(new, "Relative")
        self.mapping = of_equal_lengths(old, new, find_mapping(old, new)) if mapping is None else dict(mapping)
        new = _with_lengths(old, new, self.mapping)
        systems: dict[str, System] = {}
        if len(environments) != 2:
            raise ValueError(f"Relative: environments must be two, got {len(environments)}")
        for environment in environments:
            name, whole, first = "complex" if isinstance(environment, System) else str(environment), old, 0
            if isinstance(environment, System):
                whole, first = environment, _place(environment, old)
            elif environment != "vacuum":
                whole = immerse(old, environment, padding=padding, seed=seed, cutoff=cutoff)
            if name in systems:
                raise ValueError(f"Relative: environments must differ, got {name!r} twice")
            systems[name] = hybrid(whole, new, {first + i: j for i, j in self.mapping.items()}, charged=charged)
        own = next(p for p in systems[name].potentials if isinstance(p, HybridNonbonded))
        needed = {
            "mixing": True,
            "electrostatics": bool(own.charge_change(own.params).any()),
            "insertion": bool(len(own.new)),
            "deletion": bool(len(own.old)),
        }
        if not isinstance(lambdas, Schedule):
            lambdas = relative_schedule(lambdas, needed["insertion"], needed["deletion"])
        # new atoms first push what is in their place aside
        super().__init__(
            systems,
            lambdas,
            [name for name in needed if needed[name]],
            [{"insertion": 0.5}, {"insertion": 1.0}],
            temperature=temperature,
            pressure=pressure,
            timestep=timestep,
            seed=seed,
        )

    def estimate(self, discard: int = 0) -> RelativeFreeEnergy:
        legs = self._differences(discard)
        for name, system in self.systems.items():
            p = system["nonbonded"].params
            before, after = p["charges"].sum(), p["new_charges"].sum()
            if system.box is not None and round(after - before):
                legs[name] = replace(
                    legs[name],
                    finite_size=finite_size(
                        system, before, after, permittivity=PERMITTIVITIES.get(name, _WATER), box=self._mean_box(name)
                    ),
                )
        first, last = legs.values()
        return RelativeFreeEnergy(
            last.value - first.value, math.hypot(last.error, first.error), legs, self._convergence(discard)
        )


def relative_schedule(states: int, appear: bool, vanish: bool) -> Schedule:
    """Return a schedule in which new atoms appear, then charges and shared atoms change, then old atoms vanish.

    >>> relative_schedule(5, True, False).lambdas.tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.375, 0.0], [0.0, 1.0, 0.0], [0.5, 1.0, 0.5], [1.0, 1.0, 1.0]]
    """
    parts = 1 + appear + vanish
    check.integer(states, "Relative: lambdas", 1 + parts, 256)
    ends = np.round(np.linspace(0, states - 1, parts + 1)).astype(int)
    at = [np.clip((np.arange(states) - a) / (b - a), 0, 1) for a, b in zip(ends, ends[1:])]
    given = {"insertion": vanishing(at[0])} if appear else {}
    given |= {"deletion": 1 - vanishing(1 - at[-1])} if vanish else {}
    return Schedule(electrostatics=at[appear], mixing=at[appear], **given)


def _lengths(system):
    return {
        frozenset(pair): length
        for pair, length in zip(system.constraints.pairs.tolist(), system.constraints.distances.tolist())
    }


def _different(old, new, mapping):
    """Shared pairs whose constraints differ: atoms of `old`, and lengths in both molecules, None if there is none."""
    lengths, found = (_lengths(old), _lengths(new)), []
    back = {j: i for i, j in mapping.items()}
    of_new = {frozenset(back.get(k, -1) for k in pair): length for pair, length in lengths[1].items()}
    for pair in sorted(map(sorted, lengths[0].keys() | of_new.keys())):
        length, other = (of.get(frozenset(pair)) for of in (lengths[0], of_new))
        if all(i in mapping for i in pair) and (length is None or other is None or abs(other - length) > _SAME_LENGTH):
            found.append((*pair, length, other))
    return found


def of_equal_lengths(old, new, mapping):
    """The mapping without hydrogens, of either molecule, whose constraints differ between the molecules."""
    hydrogens = {i for i, j in mapping.items() if 1 in (old.topology.elements[i], new.topology.elements[j])}
    apart = {i for first, second, *_ in _different(old, new, mapping) for i in (first, second)} & hydrogens
    return {i: j for i, j in mapping.items() if i not in apart}


def _with_lengths(old, new, mapping):
    """The new molecule with constraints of shared atoms exactly as long as in the old one."""
    for i, j, length, other in _different(old, new, mapping):
        first, second = (old.topology.describe(k) for k in (i, j))
        if length is None or other is None:
            how = (
                f"constrained in the {'old' if other is None else 'new'} molecule alone (leave a hydrogen out of "
                "the mapping, or make both systems without constraints)"
            )
        else:
            how = (
                f"held at {length:.4f} nm in the old molecule and {other:.4f} nm in the new one (leave a hydrogen "
                "out of the mapping, or constrain bonds to hydrogen only)"
            )
        raise ValueError(f"Relative: constraints of shared atoms must be the same, but {first} and {second} are {how}")
    lengths, back = _lengths(old), {j: i for i, j in mapping.items()}
    new = new.copy()
    new.constraints.distances = np.array(
        [
            lengths.get(frozenset(back.get(k, -1) for k in pair), length)
            for pair, length in zip(new.constraints.pairs.tolist(), new.constraints.distances)
        ]
    )
    return new


def _place(system, old):
    """Number of the first atom of the old molecule in a system."""
    charges, own = system.nonbonded.params["charges"], old.nonbonded.params["charges"]
    elements, n = system.topology.elements, old.n
    found = [
        k
        for k in range(system.n - n + 1)
        if np.array_equal(elements[k : k + n], old.topology.elements)
        and np.allclose(charges[k : k + n], own, atol=1e-5)
    ]
    if len(found) != 1:
        raise ValueError(
            f"Relative: a system must have the old molecule once, with its atoms in the same order and "
            f"with the same charges, found {len(found)}"
        )
    return found[0]
