"""The systems of the molecular-dynamics benchmark: each is an OpenMM System and positions, which every tool gets."""

import gzip
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.sponge.reference import DATA

SIGMA, EPSILON, MASS = 0.34, 0.99607, 39.948  # argon, nm and kJ/mol (Rahman 1964) and dalton
TAU = SIGMA * np.sqrt(MASS / EPSILON)  # ps


@dataclass
class Bench:
    """One row of the table.

    Parameters
    ----------
    load : callable
        Returns an OpenMM System and positions [n, 3] in nm.
    timestep : float, ps
        Length of a time step.
    unit : {"ns/day", "steps/s"}
    rivals : tuple of str
        Tools that can run it.
    melt : int
        Unit cells along an edge, of a Lennard-Jones melt made in the tools' own terms.
    """

    name: str
    load: Callable
    timestep: float
    unit: str = "ns/day"
    rivals: tuple = ("gromacs", "openmm")
    melt: int = 0
    heavy: bool = False

    def system(self):
        """The System and positions, relaxed once by OpenMM for all tools when the molecules were cut out of a larger
        box.
        """
        system, positions = self.load()
        if self.heavy:
            repartition(system)
        if self.name.startswith("water"):
            positions = relaxed(self.name, system, positions)
        return system, positions


def relaxed(name, system, positions):
    import openmm
    import openmm.unit as u

    kept = Path(os.environ.get("TRISKELE_CACHE_DIR", tempfile.gettempdir())) / f"{name}.npy"
    if not kept.exists():
        context = openmm.Context(
            system, openmm.LangevinMiddleIntegrator(300, 10.0, 0.001), openmm.Platform.getPlatformByName("CPU")
        )
        context.setPositions(positions)
        openmm.LocalEnergyMinimizer.minimize(context, maxIterations=200)
        context.getIntegrator().step(200)
        np.save(kept, context.getState(getPositions=True).getPositions(asNumpy=True).value_in_unit(u.nanometer))
    return np.load(kept)


def stored(name):
    def load():
        import openmm

        with np.load(DATA / name / "ref.npz") as file:
            positions = file["positions"]
        return openmm.XmlSerializer.deserialize(
            gzip.decompress((DATA / name / "system.xml.gz").read_bytes()).decode()
        ), positions

    return load


def repartition(system, mass=4.0):
    """Hydrogens of `mass` dalton outside water, found by their constraint to a heavy atom."""
    import openmm.unit as u

    mass_of = [system.getParticleMass(i).value_in_unit(u.dalton) for i in range(system.getNumParticles())]
    partners = {}
    for k in range(system.getNumConstraints()):
        i, j, _ = system.getConstraintParameters(k)
        partners.setdefault(i, []).append(j)
        partners.setdefault(j, []).append(i)
    for h, others in partners.items():
        if mass_of[h] < 1.5 and len(others) == 1:  # in water each hydrogen has two partners
            heavy = others[0]
            moved = mass - mass_of[h]
            system.setParticleMass(h, mass)
            system.setParticleMass(heavy, system.getParticleMass(heavy).value_in_unit(u.dalton) - moved)


def water(n):
    """TIP3P: `n` molecules, 33.37 in a nm^3, cut out of the stored box of 500, repeated."""

    def load():
        import openmm
        import openmm.unit as u

        source, positions = stored("water_tip3p")()
        molecules = len(positions) // 3
        edge = source.getDefaultPeriodicBoxVectors()[0][0].value_in_unit(u.nanometer)
        tiles = int(np.ceil((n / molecules) ** (1 / 3)))
        whole = positions.reshape(-1, 3, 3)
        whole = whole - np.floor(whole[:, :1] / edge) * edge
        cells = np.stack(np.meshgrid(*[np.arange(tiles)] * 3, indexing="ij"), -1).reshape(-1, 1, 1, 3)
        everything = (whole[None] + cells * edge).reshape(-1, 3, 3)
        # cut a cube that holds about n molecules and pack them at the same density
        size = (n / molecules) ** (1 / 3) * edge
        inside = everything[np.argsort(everything[:, 0].max(axis=1), kind="stable")[:n]]
        system = openmm.System()
        size += 0.02  # so that molecules cut apart at the new faces do not touch
        system.setDefaultPeriodicBoxVectors((size, 0, 0), (0, size, 0), (0, 0, size))
        force, original = openmm.NonbondedForce(), source_nonbonded(source)
        for name in ("NonbondedMethod", "CutoffDistance", "EwaldErrorTolerance", "UseDispersionCorrection"):
            getattr(force, f"set{name}")(getattr(original, f"get{name}")())
        for m in range(n):
            for a in range(3):
                system.addParticle(source.getParticleMass(a))
                force.addParticle(*original.getParticleParameters(a))
            for a, b in ((0, 1), (0, 2), (1, 2)):
                force.addException(3 * m + a, 3 * m + b, 0, 1, 0)
        for k in range(source.getNumConstraints()):
            i, j, d = source.getConstraintParameters(k)
            if max(i, j) < 3:
                for m in range(n):
                    system.addConstraint(3 * m + i, 3 * m + j, d)
        system.addForce(force)
        return system, inside.reshape(-1, 3)

    return load


def source_nonbonded(system):
    import openmm

    return next(f for f in system.getForces() if isinstance(f, openmm.NonbondedForce))


def melt_positions(cells):
    """FCC lattice at the reduced density 0.8442, in nm, and the edge of the box."""
    a = (4 / 0.8442) ** (1 / 3) * SIGMA
    basis = np.array([[0, 0, 0], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]])
    grid = np.stack(np.meshgrid(*[np.arange(cells)] * 3, indexing="ij"), -1).reshape(-1, 1, 3)
    return (grid + basis).reshape(-1, 3) * a, cells * a


def melt(cells):
    def load():
        import openmm

        positions, edge = melt_positions(cells)
        system, force = openmm.System(), openmm.NonbondedForce()
        system.setDefaultPeriodicBoxVectors((edge, 0, 0), (0, edge, 0), (0, 0, edge))
        force.setNonbondedMethod(openmm.NonbondedForce.CutoffPeriodic)
        force.setCutoffDistance(2.5 * SIGMA)
        force.setUseDispersionCorrection(False)
        for _ in positions:
            system.addParticle(MASS)
            force.addParticle(0.0, SIGMA, EPSILON)
        system.addForce(force)
        return system, positions

    return load


BENCHES = {
    b.name: b
    for b in (
        Bench("dhfr", stored("dhfr_pme"), 0.002),
        Bench("dhfr_4fs", stored("dhfr_pme"), 0.004, heavy=True),
        Bench("ala2_water", stored("ala2_explicit_pme"), 0.002, rivals=("gromacs", "openmm", "torchmd")),
        Bench("water_3000", water(1000), 0.002),
        Bench("water_24000", water(8000), 0.002),
        Bench(
            "ala2_vacuum",
            stored("ala2_vacuum_hbonds"),
            0.002,
            "steps/s",
            rivals=("openmm", "openmm_reference", "torchmd"),
        ),
        Bench("ala2_obc2", stored("ala2_obc2"), 0.001, "steps/s", rivals=("openmm", "openmm_reference")),
        Bench(
            "lj_32000",
            melt(20),
            0.005 * TAU,
            "steps/s",
            rivals=("gromacs", "gromacs_tight", "openmm", "lammps", "jax_md"),
            melt=20,
        ),
    )
}
