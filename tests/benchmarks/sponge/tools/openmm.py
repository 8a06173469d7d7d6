"""OpenMM's CPU platform; its Reference platform as `openmm_reference`."""

import time


def prepare(bench, threads, folder, platform="CPU"):
    import openmm

    system, positions = bench.system()
    if bench.melt:
        integrator = openmm.VerletIntegrator(bench.timestep)
    else:
        integrator = openmm.LangevinMiddleIntegrator(300, 1.0, bench.timestep)
    options = {"Threads": str(threads)} if platform == "CPU" else {}
    context = openmm.Context(system, integrator, openmm.Platform.getPlatformByName(platform), options)
    context.setPositions(positions)
    if not bench.melt:
        openmm.LocalEnergyMinimizer.minimize(context, maxIterations=50)
    context.setVelocitiesToTemperature(1.44 * 119.8 if bench.melt else 300, 1)

    def run(steps):
        start = time.perf_counter()
        integrator.step(steps)
        context.getState(getEnergy=True)
        return time.perf_counter() - start

    return run
