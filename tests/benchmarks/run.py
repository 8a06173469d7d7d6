"""Runs cases: one fresh process per tool, case and thread count, timed in turns so that a busy moment hits all."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np

from tests.benchmarks.tools import available

ROOT = Path(__file__).parents[2]
ROUNDS, SECONDS = 5, 0.15


@dataclass
class Result:
    """Times in seconds and memory in bytes of one tool on one case; `failure` says why there are none."""

    imported: float = 0.0
    cold: float = 0.0
    warm: float | None = None
    times: list = field(default_factory=list)
    memory: int = 0
    failure: str = ""

    @property
    def steady(self):
        return median(self.times)


def environment(case, threads, cache):
    """The variables by which all tools learn how many threads to use, and where to keep compiled code."""
    env = dict(os.environ)
    for name in ("OMP", "OPENBLAS", "MKL", "NUMBA", "VECLIB_MAXIMUM"):
        env[f"{name}_NUM_THREADS"] = str(threads)
    if threads == 1:
        env["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    env["JAX_ENABLE_X64"] = "1" if case is None or case.dtype == "float64" else "0"
    env["JAX_PLATFORMS"] = "cpu"
    env["TRISKELE_CACHE_DIR"] = env["NUMBA_CACHE_DIR"] = str(cache)
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return env


def start(module, arguments, case, threads, cache, errors):
    """A process on the first `threads` processors; what it complains about goes to the file `errors`."""

    def pin():
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])

    with open(errors, "w") as complaints:
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments], cwd=ROOT, env=environment(case, threads, cache), preexec_fn=pin,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, text=True)


class Worker:
    """A live process that has made its first call, ready for rounds of repeated calls."""

    def __init__(self, field_name, case, tool, threads, folder):
        self.outputs, self.errors = folder / f"{tool}.npz", folder / f"{tool}-errors.txt"
        cache = folder / f"{tool}-cache"
        cache.mkdir(exist_ok=True)
        arguments = [field_name, case.name, tool, str(self.outputs)]
        self.process = start("tests.benchmarks.worker", arguments, case, threads, cache, self.errors)
        self.first = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            lines = self.errors.read_text().strip().splitlines()
            raise RuntimeError(lines[-1] if lines else f"ended with status {self.process.returncode}")
        return json.loads(line)

    def round(self):
        print("go", SECONDS, file=self.process.stdin, flush=True)
        return self.answer()["times"]

    def finish(self):
        self.process.stdin.close()
        memory = self.answer()["memory"]
        self.process.wait()
        return memory


def run_case(field_name, case, tools, threads):
    """Results by tool name; tools that are not installed are absent."""
    results, workers = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for tool in tools:
            if tool not in case.builders or not available(tool):
                continue
            results[tool] = Result()
            try:
                worker = Worker(field_name, case, tool, threads, folder)
                results[tool].imported, results[tool].cold = worker.first["imported"], worker.first["cold"]
                if tool == "triskele":  # what the second process of a user sees: code compiled before, a filled cache
                    worker.finish()
                    worker = Worker(field_name, case, tool, threads, folder)
                    results[tool].warm = worker.first["cold"]
                workers[tool] = worker
            except RuntimeError as error:
                results[tool].failure = str(error)
        compare(case, results, workers)
        for _ in range(ROUNDS):
            for tool, worker in workers.items():
                results[tool].times += worker.round()
        for tool, worker in workers.items():
            results[tool].memory = worker.finish()
    return results


def compare(case, results, workers):
    """Mark every tool whose outputs differ from the first peer's: a wrong number is not worth a time."""
    arrays = {tool: list(np.load(worker.outputs).values()) for tool, worker in workers.items()}
    order = sorted(arrays, key=lambda tool: tool == "triskele")
    for tool in order[1:]:
        mine, reference = arrays[tool], arrays[order[0]]
        if len(mine) != len(reference):
            results[tool].failure = f"{len(mine)} outputs, {order[0]} has {len(reference)}"
            continue
        for k, (a, b) in enumerate(zip(mine, reference)):
            worst = np.max(np.abs(a.reshape(b.shape) - b) / max(1e-300, np.max(np.abs(b))), initial=0.0)
            if not worst <= case.tolerance:
                results[
                    tool
                ].failure = f"output {k} differs from {order[0]} by {worst:.1e} (allowed {case.tolerance:.0e})"
    for tool in list(workers):
        if results[tool].failure:
            workers.pop(tool).process.kill()


def machine_peaks(threads):
    """What `machine` measures with this number of threads."""
    with tempfile.TemporaryDirectory() as folder:
        errors = Path(folder) / "errors.txt"
        process = start("tests.benchmarks.machine", [], None, threads, folder, errors)
        output, _ = process.communicate()
        if process.returncode:
            raise RuntimeError(f"machine_peaks: the measurement must finish, got\n{errors.read_text()}")
    return json.loads(output)
