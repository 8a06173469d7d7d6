"""What polarization costs: `python -m tests.benchmarks sponge polar [--threads 1]`.

Waters of SWM4-NDP, PME at 0.8 nm, rigid, 1 fs and two baths, next to the same number of TIP4P-Ew waters under
LangevinMiddle; and the same system under OpenMM's DrudeLangevinIntegrator, on the Reference platform and, where its
plugin is there, on the CPU platform. All take turns in one process, and each counts by its fastest slice.

Then charges from a network of radial functions (cut-off 0.5 nm, 8 functions an element, two layers of 16), next to the
same system with fixed charges, in seconds of the processor on one thread: 900 TIP3P waters, rigid, PME at 0.9 nm; and
256 pairs of 1,3-dimethylimidazolium chloride in CL&P at 0.5 g/cm^3, PME at 1.2 nm, with rigid bonds to hydrogen.

Then charges that minimize the energy (`ChargeEquilibration`, Gaussians of 0.09 nm, fixed sums in ions, converged to
1e-5 kJ/mol/e) next to fixed ones, in seconds of the processor on one thread: 48 and 256 of these ion pairs, PME at 0.9
nm, after 10 ps at 425 K and 1 bar.

Then waters with induced dipoles, PME at 0.7 nm: steps at 1 fs, converged to 2e-7 e nm on each atom, next to energies
and forces of OpenMM's AmoebaMultipoleForce on the Reference platform, whose kernels the CPU platform uses too,
converged to 1e-5 debye in the mean.
"""

import argparse
import dataclasses
import os
import time
from pathlib import Path

import numpy as np

ROUNDS, WATERS = 5, (216, 1000)
OPTIONS = {"cutoff": 0.8, "tolerance": 5e-4}


def ours(model, field, integrator, n):
    from triskele import sponge
    from triskele.sponge import build

    system = sponge.create_system(build.water_box(model, n=n), field, **OPTIONS)
    simulation = sponge.Simulation(system, integrator, seed=1)
    simulation.minimize(tolerance=100)
    simulation.run(1000)
    return simulation


def openmm(simulation, platform, threads):
    """A function that makes a number of steps, or None."""
    try:
        import openmm as mm
    except ImportError:
        return None
    integrator = mm.DrudeLangevinIntegrator(300, 5, 1, 20, 0.001)
    integrator.setMaxDrudeDistance(0.02)
    options = {"Threads": str(threads)} if platform == "CPU" else {}
    try:
        context = mm.Context(
            simulation.system.to_openmm(), integrator, mm.Platform.getPlatformByName(platform), options
        )
    except mm.OpenMMException:
        return None
    context.setPositions(simulation.positions)
    context.setVelocities(simulation.velocities)
    return lambda steps: context.getIntegrator().step(steps)


def water():
    from triskele import sponge
    from triskele.sponge import build

    return sponge.create_system(build.water_box("tip3p", n=900), "amber14/tip3p", cutoff=0.9)


def ionic_liquid(pairs=256, cutoff=1.2):
    from triskele import sponge

    cation = sponge.read_pdb(Path(__file__).parents[3] / "examples/sponge/data/dimethylimidazolium.pdb")
    chloride = sponge.Structure(sponge.Topology.of_particles(1, "CL", 17), np.zeros((1, 3)))
    box = sponge.build.pack([(cation, pairs), (chloride, pairs)], density=0.5)
    return sponge.create_system(box, "clp/il", constraints="h-bonds", cutoff=cutoff)


def induced_dipoles():
    """Steps with induced dipoles next to evaluations of OpenMM's Reference platform."""
    from triskele import sponge
    from triskele.sponge import build

    print("\n| waters | induced dipoles, ms a step | OpenMM Reference, ms | ratio |\n|---|---|---|---|")
    for n in WATERS:
        system = sponge.create_system(build.water_box("tip3p", n=n), "amber14/tip3p", method="cutoff", cutoff=0.7)
        system.nonbonded.params["charges"][:] = 0.0
        system.add(
            sponge.InducedDipoles(
                np.tile([-0.52, 0.26, 0.26], n),
                np.tile([8.37e-4, 4.96e-4, 4.96e-4], n),
                cutoff=0.7,
                tolerance=5e-4,
                convergence=2e-7,
            )
        )
        simulation = sponge.Simulation(system, sponge.VelocityVerlet(0.001), seed=1)
        simulation.minimize(max_steps=50)
        simulation.thermalize(300)
        simulation.run(20)
        context = peer(system)
        best = np.full(2, np.inf)
        for _ in range(ROUNDS):
            began = time.perf_counter()
            simulation.run(20)
            best[0] = min(best[0], (time.perf_counter() - began) / 20)
            if context is not None:
                context.setPositions(simulation.positions)
                began = time.perf_counter()
                context.getState(energy=True, forces=True)
                best[1] = min(best[1], time.perf_counter() - began)
        print(f"| {n} | {1e3 * best[0]:.1f} | {1e3 * best[1]:.0f} | {best[1] / best[0]:.1f}x |", flush=True)


def peer(system):
    """A context of OpenMM with nothing but the induced dipoles, or None."""
    try:
        import openmm as mm
    except ImportError:
        return None
    whole = system.to_openmm()
    for k in reversed(range(whole.getNumForces())):
        if not isinstance(whole.getForce(k), mm.AmoebaMultipoleForce):
            whole.removeForce(k)
    whole.getForce(0).setMutualInducedTargetEpsilon(1e-5)
    return mm.Context(whole, mm.VerletIntegrator(0.001), mm.Platform.getPlatformByName("Reference"))


def networks(threads):
    """Steps with charges from a network next to those with fixed charges."""
    from triskele import core, sponge
    from triskele.sponge import learn

    clock = time.thread_time if threads == 1 else time.perf_counter
    print("\n| charges | fixed, ms a step | from a network | ratio |\n|---|---|---|---|")
    for name, make in (("900 waters", water), ("256 ion pairs", ionic_liquid)):
        runs, first = [], make()
        for moving in (False, True):
            system = first.copy()
            if moving:
                q, z = system.nonbonded.params["charges"], system.topology.elements
                net = learn.ChargeNetwork.init(
                    core.random.key(0),
                    sorted(set(z.tolist())),
                    cutoff=0.5,
                    features=16,
                    radial=8,
                    angular=0,
                    architecture=learn.BehlerParrinello,
                )
                means = tuple(q[z == e].mean() for e in net.network.elements)
                net = dataclasses.replace(net, network=dataclasses.replace(net.network, scale=0.02, reference=means))
                system.add(sponge.NetworkCharges(net))
            simulation = sponge.Simulation(system, sponge.LangevinMiddle(300, 1.0, 0.001), seed=1)
            simulation.minimize(tolerance=1000, max_steps=100)
            simulation.run(50)
            runs.append(simulation)
        best = np.full(2, np.inf)
        for _ in range(ROUNDS):
            for k, simulation in enumerate(runs):
                began = clock()
                simulation.run(50)
                best[k] = min(best[k], (clock() - began) / 50)
        print(f"| {name} | {1e3 * best[0]:.2f} | {1e3 * best[1]:.2f} | {best[1] / best[0]:.2f}x |", flush=True)


def equilibrated(system):
    """The system with charges that minimize the energy in place of its own."""
    from triskele import sponge

    volt, width = 96.485, 0.09  # kJ/mol/e; nm
    # Rappe and Goddard, J. Phys. Chem. 95 (1991) 3358, table I: electronegativity and idempotential in eV
    table = {1: (4.528, 13.890), 6: (5.343, 10.126), 7: (6.899, 11.760), 17: (8.564, 9.892)}
    chi, own = volt * np.array([table[int(z)] for z in system.topology.elements]).T
    groups, moving = system.topology.residue_index, system.copy()
    moving.nonbonded.params["charges"][:] = 0
    moving["pair14"].params["charge_product"][:] = 0
    hardness = np.maximum(own - sponge.units.COULOMB / (np.sqrt(np.pi) * width), 0)
    moving.add(
        sponge.ChargeEquilibration(
            chi,
            hardness,
            width,
            groups=groups,
            cutoff=system.nonbonded.cutoff,
            totals=np.where(np.bincount(groups) == 1, -1.0, 1.0),
            tolerance=5e-4,
        )
    )
    return moving


def equilibration(threads):
    """Steps with charges that minimize the energy next to those with fixed charges."""
    from triskele import sponge

    clock = time.thread_time if threads == 1 else time.perf_counter
    print("\n| charges | fixed, ms a step | equilibrated | iterations | ratio |\n|---|---|---|---|---|")
    for pairs in (48, 256):
        first = ionic_liquid(pairs, 0.9)
        dense = sponge.Simulation(
            first,
            sponge.LangevinMiddle(425, 5.0, 0.002),
            seed=1,
            barostat=sponge.StochasticCellRescaling(pressure=1.0, relaxation_time=1.0),
        )
        dense.minimize(tolerance=1000, max_steps=100)
        dense.run(5000)
        first.positions, first.box = dense.positions, dense.box
        runs = [
            sponge.Simulation(system, sponge.LangevinMiddle(425, 5.0, 0.001), seed=1)
            for system in (first, equilibrated(first))
        ]
        best = np.full(2, np.inf)
        for _ in range(ROUNDS + 1):
            for k, simulation in enumerate(runs):
                began = clock()
                simulation.run(50)
                best[k] = min(best[k], (clock() - began) / 50)
        count = runs[1]._engine.plans["charge_equilibration"].iterations
        print(
            f"| {pairs} ion pairs | {1e3 * best[0]:.2f} | {1e3 * best[1]:.2f} | {count} | {best[1] / best[0]:.2f}x |",
            flush=True,
        )


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks sponge polar", description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    threads = parser.parse_args(arguments).threads
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    from triskele import core, sponge

    core.set_threads(threads)
    print(f"| waters, {threads} thread(s) | ms a step | as many steps a second as polarizable |\n|---|---|---|")
    for n in WATERS:
        polar = ours("swm4ndp", "drude/swm4ndp", sponge.DrudeLangevin(300, 5.0, 0.001), n)
        fixed = ours("tip4pew", "amber14/tip4pew", sponge.LangevinMiddle(300, 5.0, 0.001), n)
        runs = {
            "SWM4-NDP": (polar.run, 300),
            "TIP4P-Ew": (fixed.run, 300),
            "OpenMM Reference, SWM4-NDP": (openmm(polar, "Reference", threads), 5),
            "OpenMM CPU, SWM4-NDP": (openmm(polar, "CPU", threads), 20),
        }
        best = {name: np.inf for name, (run, _) in runs.items() if run is not None}
        for _ in range(ROUNDS):
            for name in best:
                run, steps = runs[name]
                began = time.perf_counter()
                run(steps)
                best[name] = min(best[name], (time.perf_counter() - began) / steps)
        for name, seconds in best.items():
            print(f"| {n}, {name} | {1e3 * seconds:.2f} | {best['SWM4-NDP'] / seconds:.3f}x |", flush=True)
    networks(threads)
    equilibration(threads)
    induced_dipoles()


if __name__ == "__main__":
    main()
