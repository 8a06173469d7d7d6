"""A bond of a force field, fitted to energies that a variational quantum eigensolver finds along it.

The ground state of lithium hydride (12 qubits, UCCSD, STO-3G) at ten bond lengths gives ten energies. A Morse potential
is fitted to them, and moves the two atoms: the vibration is compared with the second derivative of the fitted curve,
and the fit with full configuration interaction of the same basis. Experiment, for the size of what the small basis
misses: 1405.65 cm^-1 (Huber and Herzberg, Constants of Diatomic Molecules, 1979).

    python examples/hybrid/bond_from_vqe.py [--output bond_from_vqe.png]
"""

import argparse
import math

import numpy as np

from triskele import core, quantum, sponge
from triskele.sponge import targets

HARTREE = 2625.4996395  # kJ/mol: CODATA 2022, hartree-joule relationship times the Avogadro constant
SPEED_OF_LIGHT = 299.792458e-7  # cm/ps times 1e6: wavenumber = frequency / c


@sponge.bond_potential
def morse(r, depth, width, r0):
    return depth * (1 - math.exp(-width * (r - r0))) ** 2


def energies():
    """Bond lengths in nm, and energies of VQE and of full configuration interaction in kJ/mol."""
    theta, found = None, []
    for length in quantum.molecules.lengths("LiH"):
        lih = quantum.molecules.load("LiH", length)
        ansatz = quantum.uccsd(lih.num_electrons, lih.num_qubits)
        result = quantum.VQE(lih.hamiltonian, ansatz, initial=theta, simulator="subspace").run(progress=False)
        theta = result.theta  # where the next length begins
        found.append((length / 10, result.energy, lih.fci_energy))
    r, vqe, fci = np.transpose(found)
    return r, HARTREE * vqe, HARTREE * fci


def fit(r, energy):
    """The molecule with the Morse potential that fits the energies best."""
    system = sponge.System(sponge.Topology.of_particles(2), [7.016, 1.008], positions=[[0, 0, 0], [0.16, 0, 0]])
    system.add(morse([[0, 1]], depth=250.0, width=11.0, r0=0.15))
    frames = np.zeros((len(r), 2, 3))
    frames[:, 1, 0] = r
    names = ["morse/depth", "morse/width", "morse/r0"]
    return sponge.fit(system, [targets.energies_forces(frames, energy)], names).system  # up to a constant


def wavenumber(system):
    """Of the harmonic vibration, from the second derivative of the potential, in cm^-1."""
    energy = system.energy_function()
    params = system.params()
    r0 = float(params["morse"]["r0"][0])

    def along(r):
        return energy(params, np.stack([np.zeros(3), r * np.array([1.0, 0.0, 0.0])]), system.box)

    reduced = 1 / np.sum(1 / system.masses)
    omega = math.sqrt(core.hessian(along)(r0) / reduced)  # 1/ps, as kJ/mol = dalton nm^2 / ps^2
    return omega / (2 * math.pi * SPEED_OF_LIGHT * 1e3)


def vibrate(system, steps=2**15, timestep=0.0001):
    """Bond lengths in nm along a trajectory at constant energy, and the wavenumber of their strongest vibration."""
    r0 = float(system.params()["morse"]["r0"][0])
    system.positions = np.array([[0, 0, 0], [r0 + 0.001, 0, 0]])  # a small vibration
    bond = sponge.Variables({"r": sponge.cv.distance(0, 1)}, every=1)
    simulation = sponge.Simulation(system, sponge.VelocityVerlet(timestep), velocities=np.zeros((2, 3)))
    simulation.run(steps, report=bond)
    r = np.asarray(bond["r"])
    padded = 16 * steps
    spectrum = np.abs(np.fft.rfft((r - r.mean()) * np.hanning(len(r)), padded))
    return r, np.argmax(spectrum) / (padded * timestep) / (SPEED_OF_LIGHT * 1e3)


def main(output):
    r, vqe, fci = energies()
    system = fit(r, vqe)
    params = {name: float(value[0]) for name, value in system.params()["morse"].items()}
    curve = params["depth"] * (1 - np.exp(-params["width"] * (r - params["r0"]))) ** 2
    offset = np.mean(vqe - curve)
    harmonic = wavenumber(system)
    lengths, measured = vibrate(system)
    exact = wavenumber(fit(r, fci))
    print(
        f"largest error of VQE {np.abs(vqe - fci).max():.3f} kJ/mol, of the Morse curve "
        f"{np.abs(curve + offset - vqe).max():.1f} kJ/mol"
    )
    print(f"bond length {10 * params['r0']:.3f} Å, depth {params['depth']:.0f} kJ/mol")
    print(
        f"vibration: {harmonic:.0f} cm^-1 from the second derivative, {measured:.0f} in a simulation, "
        f"{exact:.0f} from full configuration interaction, 1406 in experiments"
    )

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    fine = np.linspace(r[0], r[-1], 200)
    left.plot(10 * fine, params["depth"] * (1 - np.exp(-params["width"] * (fine - params["r0"]))) ** 2, label="Morse")
    left.plot(10 * r, vqe - offset, "o", color="tab:red", label="VQE")
    left.set(xlabel="bond length / Å", ylabel="energy / kJ mol$^{-1}$")
    left.legend(frameon=False)
    time = np.arange(1000) * 0.1
    right.plot(time, 10 * lengths[:1000])
    right.set(xlabel="time / fs", ylabel="bond length / Å", title=f"{measured:.0f} cm$^{{-1}}$")
    figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", default="bond_from_vqe.png", help="where the picture goes")
    main(parser.parse_args().output)
