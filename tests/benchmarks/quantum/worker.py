"""One process that runs one tool on one case: `python -m tests.benchmarks.quantum.worker CASE-FILE TOOL THREADS OUTPUTS`.

It answers on its standard output, one JSON object a line: first how long the import, the making of circuits and operators, and the
first call took; then for every line ``go SECONDS LEAST`` on its standard input the seconds of repeated calls, at least `LEAST`.
"""

import importlib
import json
import os
import pickle
import sys
import time

import numpy as np

from tests.benchmarks.clock import samples


def main(path, tool, threads, outputs):
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a tool prints must not mix with the answers

    def say(**fields):
        print(json.dumps(fields), file=answer, flush=True)

    clock = time.perf_counter
    module = importlib.import_module(f"tests.benchmarks.quantum.tools.{tool}")
    start = clock()
    for name in module.modules:
        importlib.import_module(name)
    imported = clock() - start
    with open(path, "rb") as file:
        bench = pickle.load(file)
    start = clock()
    run, read = module.prepare(bench, int(threads))
    built = clock() - start
    start = clock()
    result = run()
    cold = clock() - start
    np.savez(outputs, *read(result))
    del result
    say(imported=imported, built=built, cold=cold)
    for line in sys.stdin:
        _, seconds, least = line.split()
        say(times=samples(run, float(seconds), int(least)))


if __name__ == "__main__":
    main(*sys.argv[1:])
