"""Molecular dynamics on triskele.core: real force fields, compiled step loop, every potential differentiable.

Everything a script needs is here under one name, and is imported when it is first used.
"""

if __name__ != "triskele.sponge":
    raise ImportError(f"import this package as triskele.sponge, not as {__name__!r}")

from importlib import import_module as _import_module
from typing import Any as _Any

# Public name: the module that holds it.
_HOME = {
    name: module
    for module, names in {
        "system": "Constraints System",
        "topology": "Topology",
        "potential": "Plan Potential",
        "engine.engine": "Engine",
        "potentials.terms": "angle_potential bond_potential torsion_potential",
        "potentials.pair_terms": "pair_potential",
        **{f"potentials.{name}": name for name in ("harmonic_angle", "harmonic_bond", "harmonic_improper", "pair14",
                                                   "periodic_torsion", "ryckaert_bellemans", "urey_bradley")},
        "potentials.cmap": "CMAP",
        "potentials.gb": "GB",
        "potentials.mixing": "LJTable",
        "potentials.nonbonded": "Nonbonded",
        "potentials.bias": "BiasPotential umbrella",
        "potentials.function": "ASEPotential FunctionPotential",
        "potentials.restraints": "PositionRestraint angle_restraint distance_restraint torsion_restraint",
        "simulation": "Simulation State",
        "sampling.metadynamics": "Metadynamics",
        "sampling.sits": "SITS",
        "calculator": "Calculator",
        "integrators.brownian": "Brownian",
        "integrators.bussi": "Bussi",
        "integrators.langevin_middle": "LangevinMiddle",
        "integrators.nose_hoover": "NoseHoover",
        "integrators.respa": "RESPA",
        "integrators.velocity_verlet": "VelocityVerlet",
        "barostats.cell_rescaling": "StochasticCellRescaling",
        "barostats.monte_carlo": "MonteCarloBarostat",
        "fitting": "fit",
        "forcefield": "ForceField create_system",
        "sampling.replicas": "Replicas",
        "sampling.replica_exchange": "ReplicaExchange",
        "sampling.rest2": "rest2",
        "sampling.umbrella": "UmbrellaSampling",
        "sampling.multiple_walkers": "MultipleWalkers",
        "learn.neural_potential": "NeuralPotential",
        "load.structure": "Structure",
        "load.pdb": "read_pdb write_pdb",
        "load.mmcif": "read_mmcif",
        "report": "CSV DCD H5MD PDB XTC Callback Checkpoint Log Reporter Variables",
    }.items()
    for name in names.split()
}
_MODULES = ("analysis", "box", "build", "cv", "differentiate", "errors", "forcefield", "learn", "load", "targets", "testing", "units")


def __getattr__(name: str) -> _Any:
    if name in _MODULES:
        return _import_module(f"{__name__}.{name}")
    if name in _HOME:
        value = globals()[name] = getattr(_import_module(f"{__name__}.{_HOME[name]}"), name)
        return value
    from difflib import get_close_matches

    near = get_close_matches(name, __all__, 3, 0.5)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}" + (f" (there is {', '.join(near)})" if near else ""))


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = sorted([*_HOME, *_MODULES])
