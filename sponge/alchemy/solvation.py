"""`Solvation`: the free energy of hydration of a molecule, from its files to the number."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from triskele.core.extend import check

from ..build.immerse import immerse
from .decouple import decouple
from .difference import FreeEnergyDifference
from .finite_size import PERMITTIVITIES, WHOLE, finite_size
from .legs import Legs, solute
from .schedule import Schedule

__all__ = ["Solvation"]

# of the vanishing molecule in FreeSolv's protocol (Duarte Ramos Matos et al. 2017): closer where it is nearly gone
_STERICS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)


class Solvation(Legs[FreeEnergyDifference]):
    """Free energy of hydration of a molecule, from states in which its interactions with water appear one by one.

    The molecule is decoupled: its own interactions stay in all states, so that the first state is the molecule in
    vacuum, beside the water, and no second leg is needed. States run at constant pressure. The result is the free
    energy of transfer from gas to water at equal concentrations, as in FreeSolv.

    Parameters
    ----------
    *molecule : path-like or System
        Files for `load`, such as a prmtop and its inpcrd, or a `System` without a box.
    lambdas : int or Schedule
        Number of states, of which a third switches the charges, or the states themselves: from the decoupled one to
        the full one. A molecule without charges needs no "electrostatics".
    water : str
        Model of the water, see `build.immerse`.
    temperature : float, K
    pressure : float, bar
    padding : float, nm
        Least distance of the molecule to the faces of the box.
    cutoff : float, nm
        Cut-off radius of the direct interactions.
    timestep : float, ps
    seed : int
    ion_radius : float, nm, optional
        Effective radius of a molecule with a net charge, which needs it: the result then has the terms of `finite_size`
        for the mean box, which are not part of its value.

    Attributes
    ----------
    system : System
        The molecule in water, with lambdas.
    schedule : Schedule
    replicas : dict of str to LambdaExchange
        The simulations of the last run, under "water".

    Raises
    ------
    ValueError
        If the molecule has a box, its charges do not sum to an integer, or to another one than 0 and there is no
        `ion_radius`, or a schedule does not take both lambdas from 0 in the first state to 1 in the last.

    Notes
    -----
    The molecule turns about its bonds as slowly in all states as in vacuum, as its own interactions stay. Where a
    barrier of some 30 kJ/mol lies between conformers, each run finds the value of the conformer that it starts from.
    Acetic acid in GAFF has -42 kJ/mol with its hydrogen away from the other oxygen, and -18 kJ/mol with it there, the
    conformer in vacuum. In such a case, run `Solvation` from each conformer; the free energy of all of them is
    ``-RT log(sum(p * exp(-dG / RT)))`` with their populations p in vacuum, which `OPES` along the torsion finds in
    minutes.

    References
    ----------
    Mobley, Guthrie, "FreeSolv: a database of experimental and calculated hydration free energies, with input files",
    J. Comput. Aided Mol. Des. 28 (2014) 711. doi:10.1007/s10822-014-9747-x

    Examples
    --------
    >>> from triskele import sponge
    >>> from triskele.sponge import alchemy
    >>> peptide = alchemy.Solvation(*sponge.example_files("alanine-dipeptide"), lambdas=16)
    >>> len(peptide.schedule), peptide.schedule[0]
    (16, {'electrostatics': 0.0, 'sterics': 0.0})
    >>> result = peptide.run(time="1 ns", checkpoint="peptide.chk")  # doctest: +SKIP
    >>> print(result, result.overlap)  # doctest: +SKIP
    """

    def __init__(
        self,
        *molecule: Any,
        lambdas: int | Schedule = 16,
        water: str = "tip3p",
        temperature: float = 298.15,
        pressure: float = 1.01325,
        padding: float = 1.0,
        cutoff: float = 0.9,
        timestep: float = 0.002,
        seed: int = 0,
        ion_radius: float | None = None,
    ):
        where = "Solvation"
        alone = solute(molecule[0] if len(molecule) == 1 else molecule, where)
        charges = alone.nonbonded.params["charges"]
        charge = float(charges.sum())
        if abs(charge - round(charge)) > WHOLE:
            raise ValueError(f"{where}: the charges of the molecule must sum to an integer, got {charge:.5f} e")
        if round(charge) and ion_radius is None:
            raise ValueError(
                f"{where}: the molecule must be neutral, got {charge:+.0f} e (with ion_radius=..., the "
                f"result has terms for the size of the box, which a net charge needs)"
            )
        self._charge, self._water, self._radius = round(charge), water, ion_radius
        full = immerse(alone, water, padding=padding, seed=seed, cutoff=cutoff)
        self.system = decouple(full, range(alone.n), annihilate=(), charged=ion_radius is not None)
        super().__init__(
            {"water": self.system},
            lambdas if isinstance(lambdas, Schedule) else hydration_schedule(lambdas),
            ["sterics", "electrostatics"] if charges.any() else ["sterics"],
            [{}],
            temperature=temperature,
            pressure=pressure,
            timestep=timestep,
            seed=seed,
        )

    def estimate(self, discard: int = 0) -> FreeEnergyDifference:
        found = self._differences(discard)["water"]
        if not self._charge:
            return found
        terms = finite_size(
            self.system,
            0,
            self._charge,
            permittivity=PERMITTIVITIES[self._water],
            radius=self._radius,
            box=self._mean_box("water"),
        )
        return replace(found, finite_size=terms)


def vanishing(part: np.ndarray) -> np.ndarray:
    """Lambdas of sterics at parts, 0 to 1, of a path on which atoms appear: closer where they are nearly gone."""
    return np.interp(part * (len(_STERICS) - 1), np.arange(len(_STERICS)), _STERICS)


def hydration_schedule(states: int) -> Schedule:
    """Lambdas of so many states from the decoupled molecule to the full one: sterics first, then charges."""
    check.integer(states, "Solvation: lambdas", 4, 256)
    charged = round(states / 3) + 1  # the first of them is the last of the others
    sterics = vanishing(np.linspace(0, 1, states - charged + 1))
    return Schedule(
        electrostatics=np.concatenate([np.zeros(len(sterics) - 1), np.linspace(0, 1, charged)]),
        sterics=np.concatenate([sterics, np.ones(charged - 1)]),
    )
