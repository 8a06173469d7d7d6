"""Analysis of trajectories: functions of arrays, whose results have a `plot` method.

Trajectories are ``positions`` [frames, n, 3] in nm with ``boxes`` [frames, 3, 3], one box [3, 3] (or lengths), or None;
or what `load_trajectory` gives or takes: a path of a file, or an object of MDTraj or MDAnalysis.
Results are frozen dataclasses of arrays; ``plot(ax=None)`` draws with matplotlib, into `ax` or a new figure, and
returns the axes.
"""

from .diffusion import Diffusion, MeanSquareDisplacement, diffusion_coefficient, msd, unwrap
from .drift import EnergyDrift, energy_drift
from .jarzynski import jarzynski
from .landscape import FreeEnergy, LocalMinimum, free_energy
from .mass_density import Density, density
from .mbar import Mbar, mbar
from .populations import Populations, Rectangle, populations
from .profile import Profile, profile
from .radial import RadialDistribution, rdf
from .statistics import (
    Blocking,
    Mean,
    block_average,
    effective_samples,
    mean,
    statistical_inefficiency,
)
from .superposition import Fluctuations, RmsDeviation, rmsd, rmsf, superpose
from .torsions import Ramachandran, dihedrals, phi_psi_atoms, ramachandran
from .wham import Wham, wham

__all__ = [
    "Blocking",
    "Density",
    "Diffusion",
    "EnergyDrift",
    "Fluctuations",
    "FreeEnergy",
    "LocalMinimum",
    "Mbar",
    "Mean",
    "MeanSquareDisplacement",
    "Populations",
    "Profile",
    "RadialDistribution",
    "Ramachandran",
    "Rectangle",
    "RmsDeviation",
    "Wham",
    "block_average",
    "density",
    "diffusion_coefficient",
    "dihedrals",
    "effective_samples",
    "energy_drift",
    "free_energy",
    "jarzynski",
    "mbar",
    "mean",
    "msd",
    "phi_psi_atoms",
    "populations",
    "profile",
    "ramachandran",
    "rdf",
    "rmsd",
    "rmsf",
    "statistical_inefficiency",
    "superpose",
    "unwrap",
    "wham",
]
