"""`python -m tests.benchmarks train [--row NAME ...]`: training against PyTorch and JAX, one table.

Each row is a module of `rows`: functions `triskele`, `torch`, `jax`, ... do the same work and return figures by name.
Each runs in a process of its own, in turns, so that a busy moment hits all; times are the least of the turns, other
figures the mean and standard deviation over the turns, each of which has another seed. Tools that are not installed
are left out, as are rows whose input (`--cifar`, `--mnist`) is not given.
"""

import argparse
import importlib
import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path
from statistics import fmean, stdev

from tests.benchmarks.train import rows as folder

ROOT = Path(__file__).parents[3]
TOOLS = ("triskele", "torch", "jax", "kfac_jax", "torchvision", "pillow")
INPUTS = ("cifar", "mnist")


def rows():
    """The modules of `rows` by name."""
    names = [m.name for m in pkgutil.iter_modules(folder.__path__)]
    return {name: importlib.import_module(f"{folder.__name__}.{name}") for name in names}


def measure(row, tool, seed, options):
    """Run one tool once in a new process; returns its figures, or None where the tool is not installed."""
    variables = {"OMP_NUM_THREADS": str(options.threads), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [
        sys.executable,
        "-m",
        "tests.benchmarks.train",
        "--worker",
        row,
        tool,
        str(seed),
        "--threads",
        str(options.threads),
        *[f"--{name}={path}" for name in INPUTS if (path := getattr(options, name))],
    ]
    done = subprocess.run(command, env=os.environ | variables, cwd=ROOT, capture_output=True, text=True)
    if done.returncode == 3:
        return None
    if done.returncode:
        raise RuntimeError(f"{row}, {tool}: the process must end well, got\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def work(row, tool, seed, options):
    """What the new process does."""
    try:
        importlib.import_module({"pillow": "PIL"}.get(tool, "triskele.core" if tool == "triskele" else tool))
    except ImportError:
        sys.exit(3)
    if tool == "triskele":
        from triskele import core

        core.set_threads(options.threads)
    elif tool in ("torch", "torchvision"):
        import torch

        torch.set_num_threads(options.threads)
    print(json.dumps(getattr(rows()[row], tool)(seed, options)))


def lines(row, module, found):
    """Table lines of a row: one for each figure."""
    for name in next(iter(found.values()))[0]:
        cells = {}
        for tool, turns in found.items():
            values = [turn[name] for turn in turns if name in turn]
            if not values:
                continue
            timed = name.endswith((" s", " ms", " us"))
            spread = f" ± {stdev(values):.2g}" if len(values) > 1 and not timed else ""
            cells[tool] = (min(values) if timed else fmean(values)), spread
        mine, peers = cells.get("triskele"), [v for t, (v, _) in cells.items() if t != "triskele"]
        ratio = f"{min(peers) / mine[0]:.2f}x" if mine and peers and name.endswith((" s", " ms", " us")) else ""
        shown = [f"{cells[t][0]:.4g}{cells[t][1]}" if t in cells else "" for t in TOOLS]
        yield f"| {row} | {name} | {' | '.join(shown)} | {ratio} | {module.GOALS.get(name, '')} |"


def main(arguments):
    """Parse the arguments, run, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks train", description=__doc__)
    parser.add_argument("--row", nargs="*", default=sorted(rows()), help="names; all when left out")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--cifar", type=Path, help="folder of CIFAR-10's images: train/CLASS/*.jpg, test/CLASS/*.jpg")
    parser.add_argument("--mnist", type=Path, help="10,000 images of MNIST: t10k-images-idx3-ubyte(.gz)")
    parser.add_argument("--worker", nargs=3, metavar=("ROW", "TOOL", "SEED"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        return work(options.worker[0], options.worker[1], int(options.worker[2]), options)
    print(f"{options.threads} threads, {options.turns} turns; ratios: time of the fastest peer over triskele's\n")
    print(f"| row | figure | {' | '.join(TOOLS)} | ratio | goal |\n|{' --- |' * (len(TOOLS) + 4)}", flush=True)
    for row in options.row:
        module, found = rows()[row], {}
        if getattr(options, getattr(module, "NEEDS", "row")) is None:
            continue
        for turn in range(options.turns):
            for tool in (t for t in options.tools.split(",") if hasattr(module, t)):
                figures = measure(row, tool, turn, options)
                if figures is not None:
                    found.setdefault(tool, []).append(figures)
        print("\n".join(lines(row, module, found)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
