"""`python -m tests.benchmarks reinforce [--case uct ...] [--threads 1,2] [--tools openspiel,mctx] [--slow]`: one table
of ratios.

Every tool runs a case in a process of its own; the processes take turns, so that a busy moment hits all. A tool that
does not give what it must, or what ours gives, is not timed.
"""

import argparse
import pickle
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np

from tests.benchmarks.process import Worker, available
from tests.benchmarks.reinforce.bench import CASES
from tests.benchmarks.reinforce.tools import triskele
from tests.benchmarks.table import duration, means

PEERS = ("openspiel", "mctx", "gymnasium", "gymnax", "envpool", "sb3")
ROUNDS, SECONDS, LEAST = 4, 0.4, 2
PATIENCE = 900  # seconds that a tool may take for an answer


def wrong(bench, mine, number):
    """Why a number that a tool gave is not right, or None."""
    expected = bench.expected()
    if expected is not None:
        return None if round(number) == expected else f"ran {number:g} simulations of {expected:g}"
    if bench.trains:
        return None if number >= bench.target else f"ended at a mean return of {number:.4g}"
    return (
        None
        if mine is None or abs(number - mine) <= 0.1 * abs(mine) + 0.01
        else f"gave a mean reward of {number:.3g}, ours {mine:.3g}"
    )


def measure(name, bench, tools, threads, folder):
    """Seconds of calls by tool, what our first calls took with nothing compiled and with all compiled, and why a tool
    has no times.

    Compiled code is kept in the folder: where it is there already, nothing is said about a cold start.
    """
    cache = folder / "cache"
    ours = ("warm",) if cache.exists() else ("cold", "warm")
    cache.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.pickle"
    path.write_bytes(pickle.dumps(bench))
    workers, times, starts, failures, mine = {}, {}, {}, {}, None
    for tool in tools:
        try:
            for start in ours if tool == "triskele" else ("first",):
                worker = Worker("reinforce", path, tool, threads, folder, PATIENCE, dtype="float32")
                starts[tool, start] = worker.first["built"] + worker.first["cold"]
                if start == "cold":
                    worker.finish()
        except RuntimeError as error:
            failures[tool] = str(error)
            continue
        number = float(np.load(worker.outputs)["arr_0"])
        if why := wrong(bench, mine, number):
            failures[tool] = why
            worker.finish()
            continue
        mine = number if tool == "triskele" else mine
        if tool in bench.slow:  # one call is all that there is time for
            times[tool] = [worker.first["cold"]]
            worker.finish()
        else:
            workers[tool] = worker
    for _ in range(1 if bench.trains else ROUNDS):
        for tool, worker in workers.items():
            times.setdefault(tool, []).extend(worker.round(SECONDS, 3 if bench.trains else LEAST))
    for worker in workers.values():
        worker.finish()
    return times, starts, failures


def shown(bench, seconds):
    """A call's seconds in the unit of the case."""
    if bench.unit == "us/simulation":
        return f"{1e6 * seconds / bench.count:.3g}"
    if bench.unit == "s":
        return f"{seconds:.3g}"
    rate = bench.count / seconds
    return f"{rate / 1e6:.3g} M" if rate >= 1e6 else f"{rate / 1e3:.3g} k"


HEADER = ("case", "unit", "threads", "triskele", "its best", "best peer", *PEERS, "first call: cold", "warm")


def row(name, threads, bench, times, starts):
    """Cells of one case, and how many times the best peer takes ours."""
    mine = times.get("triskele")
    if not mine:
        return [name, bench.unit, str(threads), "failed", *["-"] * (len(HEADER) - 4)], None
    rivals = {tool: median(times[tool]) / median(mine) for tool in PEERS if tool in times}
    best = min(rivals.values(), default=None)
    cells = (f"{shown(bench, median(times[tool]))} ({rivals[tool]:.2f}x)" if tool in rivals else "-" for tool in PEERS)
    return [
        name,
        bench.unit,
        str(threads),
        shown(bench, median(mine)),
        shown(bench, min(mine)),
        "-" if best is None else f"{best:.2f}x",
        *cells,
        *(duration(starts["triskele", start]) if ("triskele", start) in starts else "-" for start in ("cold", "warm")),
    ], best


NOTES = """In brackets, and under "best peer": a peer's median time over ours; above 1x triskele is faster. The first call is the making of everything and
one call, imports left out: cold with nothing compiled, warm in a new process after that. Trainings end at the mean return that the
case asks for, each with another seed; a first call that is a training is one too.
"""  # noqa: E501


def show(rows):
    return "\n".join("| " + " | ".join(r) + " |" for r in (HEADER, ["---"] * len(HEADER), *rows))


def scaling(least):
    """Lines on how much faster two threads are, of `{(case, threads): seconds}`; the least of all calls, since a busy
    machine lends one processor.
    """
    names = [name for name, threads in least if threads == 2 and (name, 1) in least]
    return [
        f"{name}: two threads are {least[name, 1] / least[name, 2]:.2f}x as fast as one (at best)" for name in names
    ]


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks reinforce", description=__doc__)
    parser.add_argument("--case", nargs="*", default=[""], help="names or their beginnings; all when left out")
    parser.add_argument(
        "--threads",
        default="1,2",
        help="thread counts, separated by commas; each case knows for which it says something",
    )
    parser.add_argument("--tools", default=",".join(PEERS), help="peers, separated by commas")
    parser.add_argument("--slow", action="store_true", help="with peers that take minutes to train")
    options = parser.parse_args(arguments)
    peers = [tool for tool in options.tools.split(",") if tool]
    chosen = [name for name in CASES if name.startswith(tuple(options.case))]
    if not chosen or not set(peers) <= set(PEERS):
        sys.exit(f"no such case or tool; cases: {', '.join(CASES)}; tools: {', '.join(PEERS)}")
    for tool in peers:
        if not available("reinforce", tool):
            print(f"{tool}: not installed, left out", file=sys.stderr)
    peers = [tool for tool in peers if available("reinforce", tool)]
    with tempfile.TemporaryDirectory() as folder:
        report(*run(chosen, peers, list(map(int, options.threads.split(","))), options.slow, Path(folder)))


def run(chosen, peers, counts, slow, folder):
    """Everything that is reported of the cases with these names."""
    rows, ratios, least, failures = [], {}, {}, []
    for threads in counts:
        for name in chosen:
            bench = CASES[name]
            if threads not in bench.threads:
                continue
            print(f"{name}, {threads} thread(s)", file=sys.stderr, flush=True)
            tools = ["triskele", *(t for t in peers if t in bench.peers and (slow or t not in bench.slow))]
            times, starts, found = measure(name, bench, tools, threads, folder / name)
            cells, ratios[name, threads] = row(name, threads, bench, times, starts)
            rows.append(cells)
            if "triskele" in times:
                least[name, threads] = min(times["triskele"])
            failures += [f"{name}, {threads} thread(s), {tool}: {why}" for tool, why in found.items()]
            print(
                *failures[len(failures) - len(found) :],
                "| " + " | ".join(cells) + " |",
                sep="\n",
                file=sys.stderr,
                flush=True,
            )
    return rows, ratios, least, failures


def report(rows, ratios, least, failures):
    """Print the table and what follows from it."""
    print(NOTES)
    print(show(rows))
    print()
    for line in means(ratios):
        print(line)
    print(*scaling(least), sep="\n")
    print(
        "a node of a search tree takes {} bytes, and {} for each action; its position comes on top".format(
            *triskele.node_bytes()
        )
    )
    if failures:
        print("\nFailures:\n" + "\n".join(failures))
        sys.exit(1)


if __name__ == "__main__":
    main()
