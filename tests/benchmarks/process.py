"""Processes in which tools run cases: `python -m tests.benchmarks.process FIELD CASE-FILE TOOL THREADS OUTPUTS`, and
who starts them.

A field is a package here with one module a tool in `tools`: `modules` that it needs, and `prepare(case, threads) ->
run, read`, where `run()` does the work once and returns anything, and `read` makes a list of NumPy arrays of that,
outside of the timing.

A process answers on its standard output, one JSON object a line: first how long the import, the making of what runs,
and the first call took; then for every line ``go SECONDS LEAST`` on its standard input the seconds of repeated calls,
at least `LEAST`.
"""

import importlib
import importlib.util
import json
import os
import pickle
import select
import sys
import time
from types import SimpleNamespace

import numpy as np

from tests.benchmarks.clock import samples
from tests.benchmarks.run import start


def available(field, tool):
    module = importlib.import_module(f"tests.benchmarks.{field}.tools.{tool}")
    return all(importlib.util.find_spec(name) is not None for name in module.modules)


class Worker:
    """A live process that has made its first call; `first` has the seconds of that, `outputs` the path of what it gave.

    Parameters
    ----------
    field, tool : str
    path : Path
        Of the pickled case.
    threads : int
    folder : Path
        For outputs and complaints, and in ``cache`` for compiled code.
    patience : float
        Seconds that an answer may take, compilation included.
    dtype : str
        What tools with one precision for a whole process compute in.
    """

    def __init__(self, field, path, tool, threads, folder, patience=300, dtype="float64"):
        self.outputs, self.errors, self.patience = folder / f"{tool}.npz", folder / f"{tool}-errors.txt", patience
        arguments = [field, str(path), tool, str(threads), str(self.outputs)]
        self.process = start("tests.benchmarks.process", arguments, SimpleNamespace(dtype=dtype), threads,
                             folder / "cache", self.errors)
        self.first = self.answer()

    def answer(self):
        if not select.select([self.process.stdout], [], [], self.patience)[0]:
            self.process.kill()
            raise RuntimeError(f"no answer in {self.patience} s")
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            lines = self.errors.read_text().strip().splitlines()
            raise RuntimeError(lines[-1] if lines else f"ended with status {self.process.returncode}")
        return json.loads(line)

    def round(self, seconds, least):
        print("go", seconds, least, file=self.process.stdin, flush=True)
        return self.answer()["times"]

    def finish(self):
        self.process.stdin.close()
        self.process.wait()


def main(field, path, tool, threads, outputs):
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a tool prints must not mix with the answers

    def say(**fields):
        print(json.dumps(fields), file=answer, flush=True)

    clock = time.perf_counter
    module = importlib.import_module(f"tests.benchmarks.{field}.tools.{tool}")
    begin = clock()
    for name in module.modules:
        importlib.import_module(name)
    imported = clock() - begin
    with open(path, "rb") as file:
        bench = pickle.load(file)
    begin = clock()
    run, read = module.prepare(bench, int(threads))
    built = clock() - begin
    begin = clock()
    result = run()
    cold = clock() - begin
    np.savez(outputs, *read(result))
    del result
    say(imported=imported, built=built, cold=cold)
    for line in sys.stdin:
        _, seconds, least = line.split()
        say(times=samples(run, float(seconds), int(least)))


if __name__ == "__main__":
    main(*sys.argv[1:])
