"""Runs cases: one fresh process per tool, case and thread count, timed in turns so that a busy moment hits all."""

import json
import pickle
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np

from tests.benchmarks.process import Worker, available, start

ROUNDS, SECONDS, LEAST, PATIENCE = 5, 0.15, 3, 1800


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


def run_case(field_name, case, tools, threads):
    """Results by tool name; tools that are not installed are absent."""
    results, workers = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "cache").mkdir()
        path = folder / "case.pickle"
        path.write_bytes(pickle.dumps(case.name))
        for tool in tools:
            if tool not in case.builders or not available(field_name, tool):
                continue
            results[tool] = Result()
            try:
                worker = Worker(field_name, path, tool, threads, folder, PATIENCE, case.dtype)
                results[tool].imported, results[tool].cold = worker.first["imported"], worker.first["cold"]
                if tool == "triskele":  # what the second process of a user sees: code compiled before, a filled cache
                    worker.finish()
                    worker = Worker(field_name, path, tool, threads, folder, PATIENCE, case.dtype)
                    results[tool].warm = worker.first["cold"]
                workers[tool] = worker
            except RuntimeError as error:
                results[tool].failure = str(error)
        compare(case, results, workers)
        for _ in range(ROUNDS):
            for tool, worker in workers.items():
                results[tool].times += worker.round(SECONDS, LEAST)
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
        process = start("tests.benchmarks.machine", [], "float64", threads, folder, errors)
        output, _ = process.communicate()
        if process.returncode:
            raise RuntimeError(f"machine_peaks: the measurement must finish, got\n{errors.read_text()}")
    return json.loads(output)
