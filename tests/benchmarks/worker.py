"""One process that runs one tool on one case: `python -m tests.benchmarks.worker FIELD CASE TOOL OUTPUTS`.

It answers on its standard output, one JSON object a line: first the cold call, then for every line `go SECONDS` on its
standard input the times of repeated calls, and at the end of the input its peak memory.
"""

import importlib
import json
import os
import sys
import time

import numpy as np

from tests.benchmarks import case as registry
from tests.benchmarks.clock import samples
from tests.benchmarks.tools import TOOLS, leaves


def peak_memory():
    """Most bytes resident since `reset_peak`, or, on other systems than Linux, since the process began."""
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def reset_peak():
    try:
        with open("/proc/self/clear_refs", "w") as control:
            control.write("5")
    except OSError:
        pass


def main(field, name, tool, outputs):
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a tool prints must not mix with the answers

    def say(**fields):
        print(json.dumps(fields), file=answer, flush=True)

    case = registry.load(field)[name]
    start = time.perf_counter()
    for module in TOOLS[tool].modules:
        importlib.import_module(module)
    imported = time.perf_counter() - start
    if tool == "torch":
        import torch

        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    if tool == "triskele":
        from triskele import core

        core.set_threads(int(os.environ["OMP_NUM_THREADS"]))

    run = case.builders[tool](*case.data())
    start = time.perf_counter()
    for module in getattr(TOOLS[tool], "lazy", ()):
        importlib.import_module(module)
    late = time.perf_counter() - start
    reset_peak()
    baseline = peak_memory()
    start = time.perf_counter()
    result = run()
    cold = late + time.perf_counter() - start
    np.savez(outputs, *leaves(result))
    del result
    say(cold=cold, imported=imported)
    for line in sys.stdin:
        say(times=samples(run, float(line.split()[1])))
    say(memory=peak_memory() - baseline)


if __name__ == "__main__":
    main(*sys.argv[1:])
