"""Processes in which tools run cases: `python -m tests.benchmarks.process FIELD CASE-FILE TOOL THREADS OUTPUTS`, and
who starts them.

A field is a package here with one module a tool in `tools`: `modules` that it needs, and `prepare(case, threads) ->
run, read`, where `run()` does the work once and returns anything, and `read` makes a list of NumPy arrays of that,
outside of the timing. Cases of the core bring their programs along (`case.Program`).

A process answers on its standard output, one JSON object a line: first how long the import, the making of what runs,
and the first call took; then for every line ``go SECONDS LEAST`` on its standard input the seconds of repeated calls,
at least `LEAST`; and at the end of its input the most memory that the calls took.
"""

import importlib
import importlib.util
import json
import os
import pickle
import select
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from tests.benchmarks.case import Program
from tests.benchmarks.clock import samples

ROOT = Path(__file__).parents[2]


def adapter(field, tool):
    return Program(tool) if field == "core" else importlib.import_module(f"tests.benchmarks.{field}.tools.{tool}")


def available(field, tool):
    try:
        return all(importlib.util.find_spec(name) is not None for name in adapter(field, tool).modules)
    except ModuleNotFoundError:  # the package that a module lies in
        return False


def environment(dtype, threads, cache):
    """The variables by which all tools learn how many threads to use, and where to keep compiled code."""
    env = dict(os.environ)
    for name in ("OMP", "OPENBLAS", "MKL", "NUMBA", "VECLIB_MAXIMUM"):
        env[f"{name}_NUM_THREADS"] = str(threads)
    if threads == 1:
        env["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    env["JAX_ENABLE_X64"] = "1" if dtype == "float64" else "0"
    env["JAX_PLATFORMS"] = "cpu"
    env["TRISKELE_CACHE_DIR"] = str(cache)
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return env


def start(module, arguments, dtype, threads, cache, errors):
    """A process on the first `threads` processors; what it complains about goes to the file `errors`."""

    def pin():
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])

    with open(errors, "w") as complaints:
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            env=environment(dtype, threads, cache),
            preexec_fn=pin,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
        )


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
        self.process = start("tests.benchmarks.process", arguments, dtype, threads, folder / "cache", self.errors)
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
        """End the process; the most bytes that its calls took."""
        self.process.stdin.close()
        memory = self.answer()["memory"]
        self.process.wait()
        return memory


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


def main(field, path, tool, threads, outputs):
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a tool prints must not mix with the answers

    def say(**fields):
        print(json.dumps(fields), file=answer, flush=True)

    clock = time.perf_counter
    module = adapter(field, tool)
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
    for name in getattr(module, "lazy", ()):
        importlib.import_module(name)
    late = clock() - begin
    reset_peak()
    baseline = peak_memory()
    begin = clock()
    result = run()
    cold = late + clock() - begin
    np.savez(outputs, *read(result))
    del result
    say(imported=imported, built=built, cold=cold)
    for line in sys.stdin:
        _, seconds, least = line.split()
        say(times=samples(run, float(seconds), int(least)))
    say(memory=peak_memory() - baseline)


if __name__ == "__main__":
    main(*sys.argv[1:])
