"""Write `reference.json`: energies of alchemical systems by openmmtools' AbsoluteAlchemicalFactory, OpenMM Reference.

    PYTHONPATH=.src:. python tests/data/sponge/alchemy/make_reference.py     # with openmm 8.6 and openmmtools 0.27

Derivatives by lambda_sterics are OpenMM's. Those by lambda_electrostatics are half the difference of the energies at
lambda +- 1 with PME, where the energy is a quadratic, and by Richardson extrapolation in vacuum. The Gapsys soft core
is the factory's with another energy expression.
"""

import json

import numpy as np
import openmm
from openmmtools.alchemy import AbsoluteAlchemicalFactory, AlchemicalRegion

from tests.data.sponge.alchemy.systems import HERE, molecule, names, system

ELECTROSTATICS = [1.0, 0.7, 0.4, 0.1, 0, 0, 0, 0, 0, 0, 0]
STERICS = [1.0, 1, 1, 1, 1, 0.85, 0.65, 0.5, 0.3, 0.1, 0]
VACUUM = [1.0, 0.95, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.02]
CASES = {
    "pme": {},
    "pme, Gapsys": {"annihilate_sterics": True},
    "vacuum": {
        "annihilate_sterics": True,
        "softcore_alpha": 0.4,
        "softcore_a": 2,
        "softcore_b": 1.5,
        "softcore_c": 4,
        "softcore_beta": 0.3,
        "softcore_d": 2,
        "softcore_e": 1.5,
        "softcore_f": 2,
    },
    "reaction field": {"annihilate_electrostatics": False, "softcore_beta": 0.2, "softcore_d": 1.5},
    "tail": {},
}
OPTIONS = {"reaction field": {"method": "reaction_field", "dielectric": 78.3}, "tail": {"dispersion_correction": True}}
GAPSYS = (
    "U_sterics; U_sterics = {0}*4*epsilon*select(step(r - rs), x*(x - 1), y*(y - 1)"
    " - 6*y*(2*y - 1)*h + 0.5*y*(156*y - 42)*h^2);"
    "h = (r - rs)/max(rs, 1e-9); x = (sigma/max(r, 1e-9))^6; y = (sigma/max(rs, 1e-9))^6;"
    "rs = 0.85*sigma*(26/7*(1 - {0}))^(1/6);"
)


class GapsysFactory(AbsoluteAlchemicalFactory):
    """The factory with the soft core of Gapsys et al. (2012)."""

    def _get_sterics_energy_expressions(self, lambda_variable_suffixes):
        mixing, _ = super()._get_sterics_energy_expressions(lambda_variable_suffixes)
        return mixing, GAPSYS.format("lambda_sterics")


def energies(case, name):
    """Energies (kJ/mol) at all lambdas, and their derivatives."""
    plain = system(name, water=case != "vacuum", **OPTIONS.get(case, {}))
    factory = (GapsysFactory if "Gapsys" in case else AbsoluteAlchemicalFactory)(
        disable_alchemical_dispersion_correction=case != "tail", alchemical_rf_treatment="shifted"
    )
    region = AlchemicalRegion(alchemical_atoms=range(len(molecule(name)["charges"])), **CASES[case])
    soft = factory.create_alchemical_system(plain.to_openmm(), region)
    for force in soft.getForces():
        for k in range(force.getNumGlobalParameters() if hasattr(force, "getNumGlobalParameters") else 0):
            if force.getGlobalParameterName(k) == "lambda_sterics":
                force.addEnergyParameterDerivative("lambda_sterics")
    context = openmm.Context(soft, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference"))
    context.setPositions(plain.positions)

    def at(charge, steric):
        context.setParameter("lambda_electrostatics", charge)
        context.setParameter("lambda_sterics", steric)
        state = context.getState(getEnergy=True, getParameterDerivatives=True)
        slope = state.getEnergyParameterDerivatives()["lambda_sterics"]
        return state.getPotentialEnergy()._value, slope

    rows = []
    for q, s in zip(VACUUM if case == "vacuum" else ELECTROSTATICS, VACUUM if case == "vacuum" else STERICS):
        energy, by_steric = at(q, s)
        if case in ("vacuum", "reaction field"):
            h = 2e-3 if 0.01 < q < 0.99 else np.nan  # the exponents forbid others
            found = [(at(q + k * h, s)[0] - at(q - k * h, s)[0]) / (2 * k * h) if h > 0 else h for k in (1, 2, 3)]
            by_charge = 1.5 * found[0] - 0.6 * found[1] + 0.1 * found[2]
        else:
            by_charge = 0.5 * (at(q + 1, s)[0] - at(q - 1, s)[0])
        rows.append([energy, by_charge, by_steric])
    return [list(column) for column in zip(*rows)]


if __name__ == "__main__":
    found = {
        "origin": "openmmtools 0.27.0 (MIT), AbsoluteAlchemicalFactory, on OpenMM 8.6, platform Reference (double "
        "precision), by make_reference.py; rows: energies, derivatives by lambda_electrostatics and by "
        "lambda_sterics, kJ/mol. Molecules: FreeSolv (Mobley and Guthrie, "
        "https://github.com/MobleyLab/FreeSolv, amber.tar.gz), GAFF with AM1-BCC charges.",
        "electrostatics": ELECTROSTATICS,
        "sterics": STERICS,
        "vacuum lambdas": VACUUM,
    }
    for case in CASES:
        found[case] = {name: energies(case, name) for name in names()}
        print(case, flush=True)
    (HERE / "reference.json").write_text(
        json.dumps(found).replace("NaN", "null").replace("}, ", "},\n").replace("]], ", "]],\n") + "\n"
    )
