"""OpenMM's Reference platform: plain double-precision code, the fastest of its CPU platforms for very small
molecules.
"""

from tests.benchmarks.sponge.tools import openmm


def prepare(bench, threads, folder):
    return openmm.prepare(bench, threads, folder, "Reference")
