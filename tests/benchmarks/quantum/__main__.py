"""`python -m tests.benchmarks quantum [--case qcbm ...] [--threads 1,2] [--tools mindquantum,qulacs] [--quick]`: one
table of ratios.

Every tool runs a case in a process of its own; the processes take turns, so that a busy moment hits all. A tool whose
numbers are not ours is not timed.
"""

import argparse
import pickle
import sys
import tempfile
from pathlib import Path
from statistics import median
from types import SimpleNamespace

import numpy as np

from tests.benchmarks.machine import limit
from tests.benchmarks.process import Worker, available
from tests.benchmarks.quantum import cases  # noqa: F401 - they register themselves
from tests.benchmarks.quantum.bench import CASES
from tests.benchmarks.quantum.tools import triskele
from tests.benchmarks.run import machine_peaks
from tests.benchmarks.table import duration, means

PEERS = ("mindquantum", "qulacs", "lightning", "qsim", "aer", "tensorcircuit")


def difference(bench, mine, path):
    """Of outputs from ours, relative to the largest entry of each; a state's global phase does not count."""
    worst = 0.0
    for a, b in zip(mine, np.load(path).values(), strict=True):
        b = b.reshape(a.shape)
        if np.iscomplexobj(a):
            overlap = np.vdot(b, a)
            b = b * (overlap / abs(overlap))
        worst = max(worst, float(np.max(np.abs(a - b)) / max(1e-300, np.max(np.abs(a)))))
    return worst


def measure(name, bench, tools, threads, folder, rounds):
    """Seconds of all calls by tool, what the first calls took, and why a tool has none."""
    path = folder / f"{name}.pickle"
    path.write_bytes(pickle.dumps(bench))
    workers, times, firsts, failures = {}, {}, {}, {}
    for tool in tools:
        try:
            worker = Worker("quantum", path, tool, threads, folder)
        except RuntimeError as error:
            failures[tool] = str(error)
            continue
        firsts[tool] = worker.first
        if tool == "triskele":
            mine = list(np.load(worker.outputs).values())
        elif "triskele" in workers and not (worst := difference(bench, mine, worker.outputs)) <= bench.tolerance:
            failures[tool] = f"differs from ours by {worst:.1e} (allowed {bench.tolerance:.0e})"
            worker.finish()
            continue
        workers[tool] = worker
    for _ in range(rounds.count):
        for tool, worker in workers.items():
            times.setdefault(tool, []).extend(t / bench.share for t in worker.round(rounds.seconds, rounds.least))
    for worker in workers.values():
        worker.finish()
    return times, firsts, failures


def row(name, threads, bench, times, firsts, peaks, typical):
    """Cells of one case, and how many times the best peer takes ours; ratios are of `typical` times."""
    mine = times.get("triskele")
    if not mine:
        return [name, str(threads), "failed", *["-"] * (len(HEADER) - 3)], None
    rivals = {tool: typical(times[tool]) / typical(mine) for tool in PEERS if tool in times}
    best = min(rivals.values(), default=None)
    what, flops, moved = triskele.work(bench, threads)
    precision = "float32" if bench.dtype == "complex64" else "float64"
    least = limit(SimpleNamespace(dtype=precision, flops=flops, bytes=moved), peaks)
    first = firsts["triskele"]
    return [
        name,
        str(threads),
        f"{duration(median(mine))} ({duration(min(mine))})",
        "-" if best is None else f"{best:.2f}x",
        *(f"{rivals[tool]:.2f}x" if tool in rivals else "-" for tool in PEERS),
        what,
        f"{flops / 1e6:.3g}" if flops else "-",
        f"{moved / 2**20:.3g}" if moved else "-",
        "-" if least is None else f"{typical(mine) * bench.share / least:.1f}x",
        f"{duration(first['built'])} + {duration(first['cold'])}",
        " / ".join(f"{tool} {duration(firsts[tool]['built'])} + {duration(firsts[tool]['cold'])}" for tool in rivals)
        or "-",
    ], best


HEADER = (
    "case",
    "threads",
    "triskele (min)",
    "best peer",
    *PEERS,
    "passes x ops",
    "Mflop",
    "MiB",
    "over the limit",
    "built + first call",
    "peers' built + first call",
)

NOTES = """Ratios are a peer's median (with --quick: least) time over ours; above 1x triskele is faster. Passes over memory, flops and bytes are those of the plan; of
gradients those of all sweeps together. The limit is the slower of arithmetic and memory at what this machine was measured to do;
states of one block stay in the cache and move nothing. dense_24_layers is the time of one gate of 24 that share passes, not of a
gate on its own. In uccsd cases tools without excitation gates run the Pauli rotations that make up each excitation.
"""  # noqa: E501


def show(rows):
    lines = ["| " + " | ".join(r) + " |" for r in (HEADER, ["---"] * len(HEADER), *rows)]
    return "\n".join(lines)


def cold_start(threads, folder):
    """Seconds to import, build and run for the first time on a machine, and in the process after that."""
    found = []
    path = folder / "cold.pickle"
    path.write_bytes(pickle.dumps(CASES["tfim_4"]()))
    for _ in range(2):
        worker = Worker("quantum", path, "triskele", threads, folder)
        worker.finish()
        found.append(sum(worker.first.values()))
    return found


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks quantum", description=__doc__)
    parser.add_argument("--case", nargs="*", default=[""], help="names or their beginnings; all when left out")
    parser.add_argument("--threads", default="1,2", help="thread counts, separated by commas")
    parser.add_argument("--tools", default=",".join(PEERS), help="peers, separated by commas")
    parser.add_argument("--quick", action="store_true", help="few rounds and no cold start: ratios for a busy machine")
    options = parser.parse_args(arguments)
    peers = options.tools.split(",") if options.tools else []
    chosen = [name for name in CASES if name.startswith(tuple(options.case))]
    if not chosen or not set(peers) <= set(PEERS):
        sys.exit(f"no such case or tool; cases: {', '.join(CASES)}; tools: {', '.join(PEERS)}")
    for tool in peers:
        if not available("quantum", tool):
            print(f"{tool}: not installed, left out", file=sys.stderr)
    peers = [tool for tool in peers if available("quantum", tool)]
    rounds = (
        SimpleNamespace(count=2, seconds=0.1, least=1)
        if options.quick
        else SimpleNamespace(count=5, seconds=0.3, least=2)
    )
    rows, ratios, imports, failures = [], {}, {}, []
    cold = warm = None
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        if options.quick:  # code compiled before is used again
            kept = Path(tempfile.gettempdir()) / "triskele-benchmarks-cache"
            kept.mkdir(exist_ok=True)
            (folder / "cache").symlink_to(kept)
        else:
            (folder / "cache").mkdir()
        for threads in map(int, options.threads.split(",")):
            peaks = machine_peaks(threads)
            if cold is None and not options.quick:
                cold, warm = cold_start(threads, folder)
            for name in chosen:
                print(f"{name}, {threads} thread(s)", file=sys.stderr, flush=True)
                bench = CASES[name]()
                times, firsts, found = measure(
                    name, bench, ["triskele", *[t for t in peers if t in bench.peers]], threads, folder, rounds
                )
                cells, ratios[name, threads] = row(
                    name, threads, bench, times, firsts, peaks, min if options.quick else median
                )
                rows.append(cells)
                for tool, first in firsts.items():
                    imports.setdefault(tool, []).append(first["imported"])
                failures += [f"{name}, {threads} thread(s), {tool}: {why}" for tool, why in found.items()]
                print(
                    *failures[len(failures) - len(found) :],
                    "| " + " | ".join(cells) + " |",
                    sep="\n",
                    file=sys.stderr,
                    flush=True,
                )
    print(NOTES)
    print(show(rows))
    print()
    for line in means(ratios):
        print(line)
    if cold is not None:
        print(
            f"import, circuit, and first gradient: in the first process on a machine {duration(cold)}, in the next "
            f"{duration(warm)}"
        )
    print("import: " + ", ".join(f"{tool} {duration(median(t))}" for tool, t in imports.items()))
    if failures:
        print("\nFailures:\n" + "\n".join(failures))
        sys.exit(1)


if __name__ == "__main__":
    main()
