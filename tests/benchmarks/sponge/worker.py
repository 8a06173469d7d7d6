"""One process that runs one tool on one system: `python -m tests.benchmarks.sponge.worker SYSTEM TOOL THREADS`.

It answers on its standard output, one JSON object a line: the cold start (until the first step is done, imports
included), then for every line ``go SECONDS`` on its standard input the seconds per step of a run of about that length.
"""

import importlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.sponge.systems import BENCHES


def main(name, tool, threads):
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a tool prints must not mix with the answers
    module = importlib.import_module(f"tests.benchmarks.sponge.tools.{tool}")
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        run = module.prepare(BENCHES[name], int(threads), Path(folder))
        run(1)
        print(json.dumps({"cold": time.perf_counter() - start}), file=answer, flush=True)
        steps = 10
        while (seconds := run(steps)) < 0.3 and steps < 1_000_000:
            steps *= 4 if seconds < 0.1 else 2
        per_step = seconds / steps
        for line in sys.stdin:
            steps = max(10, int(float(line.split()[1]) / per_step))
            per_step = run(steps) / steps
            print(json.dumps({"per_step": per_step}), file=answer, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
