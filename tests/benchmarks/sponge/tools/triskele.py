"""Triskele itself, through what a user calls."""

import time


def load(bench, folder):
    """The System of a benchmark, through the file that OpenMM writes of it."""
    import openmm

    from triskele import sponge

    system, positions = bench.system()
    path = folder / "system.xml"
    path.write_text(openmm.XmlSerializer.serialize(system))
    loaded = sponge.load(path)
    loaded.positions = positions
    return loaded


def prepare(bench, threads, folder):
    from triskele import core, sponge

    core.set_threads(threads)
    system = load(bench, folder)
    if bench.melt:
        sim = sponge.Simulation(system, sponge.VelocityVerlet(timestep=bench.timestep), seed=1)
        sim.thermalize(1.44 * 119.8)
    else:
        sim = sponge.Simulation(
            system, sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=bench.timestep), seed=1
        )
        sim.minimize(max_steps=50)

    def run(steps):
        start = time.perf_counter()
        sim.run(steps)
        return time.perf_counter() - start

    return run
