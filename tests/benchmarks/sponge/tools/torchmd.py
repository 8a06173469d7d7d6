"""TorchMD on prmtop files: float32, 1 fs, and in a box reaction field, since it has no PME."""

import gzip
import time

from tests.sponge.reference import DATA

FILES = {
    "ala2_vacuum": "ala2_vacuum/alanine-dipeptide.prmtop",
    "ala2_water": "ala2_explicit_pme/alanine-dipeptide.prmtop.gz",
}


def prepare(bench, threads, folder):
    import numpy as np
    import torch
    from moleculekit.molecule import Molecule
    from torchmd.forcefields.forcefield import ForceField
    from torchmd.forces import Forces
    from torchmd.integrator import Integrator, maxwell_boltzmann
    from torchmd.parameters import Parameters
    from torchmd.systems import System

    torch.set_num_threads(threads)
    source, target = DATA / FILES[bench.name], folder / "system.prmtop"
    target.write_bytes(gzip.decompress(source.read_bytes()) if source.suffix == ".gz" else source.read_bytes())
    system, positions = bench.system()
    molecule = Molecule(str(target))
    molecule.coords = (positions[:, :, None] * 10).astype(np.float32)
    periodic = system.usesPeriodicBoundaryConditions()
    box = [10 * v[k]._value for k, v in enumerate(system.getDefaultPeriodicBoxVectors())] if periodic else [0.0] * 3
    molecule.box = np.array(box, np.float32)[:, None]
    parameters = Parameters(ForceField.create(molecule, str(target)), molecule, precision=torch.float)
    state = System(molecule.numAtoms, 1, torch.float, "cpu")
    state.set_positions(molecule.coords)
    state.set_box(molecule.box)
    state.set_velocities(maxwell_boltzmann(parameters.masses, 300, 1))
    terms = ["bonds", "angles", "dihedrals", "impropers", "1-4", "electrostatics", "lj"]
    forces = Forces(parameters, terms=terms, **({"cutoff": 9.0, "rfa": True} if periodic else {}))
    integrator = Integrator(state, forces, 1.0, "cpu", gamma=1.0, T=300)

    def run(steps):
        start = time.perf_counter()
        integrator.step(steps)
        # its steps are of 1 fs: seconds per picosecond are what counts against other timesteps
        return (time.perf_counter() - start) * (bench.timestep / 0.001 if bench.unit == "ns/day" else 1)

    return run
