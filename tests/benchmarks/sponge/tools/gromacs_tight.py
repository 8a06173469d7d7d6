"""GROMACS with neighbor lists of the tolerance that triskele's have, which is 1,700 times stricter than its default."""

from tests.benchmarks.sponge.tools import gromacs

available = gromacs.available


def prepare(bench, threads, folder):
    # of 5, 10 and 20 steps between builds, the fastest for the melt
    return gromacs.prepare(bench, threads, folder, {"verlet-buffer-tolerance": 3e-6, "nstlist": 10})
