"""Peak memory of the gradient of a long loop: all values kept, checkpoints, a loop of unknown length in fixed slots.

``python -m tests.benchmarks.core.memory_curve [--steps 100 1000 ...] [--out memory.png]`` prints the table, one process
per entry, and draws it where matplotlib is installed. The loop is 500 coupled logistic maps.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

WIDTH = 500
WAYS = ("scan", "scan, checkpoint=True", "while_loop, 64 slots")
STEPS = (100, 1_000, 10_000, 100_000)


def measure(way: str, steps: int, compiled: bool) -> tuple[float, float]:
    """(megabytes beyond those before the call, seconds) of one gradient."""
    import numpy as np

    from triskele.core.compile.jit import jit
    from triskele.core.transforms.control.operators import scan, while_loop
    from triskele.core.transforms.grad import grad

    def step(x, r):
        return r * x * (1 - 0.5 * (x + x[::-1]))

    def loss(r, x, n):
        if way == WAYS[2]:
            return np.sum(while_loop(lambda s: s[1] < n, lambda s: (step(s[0], r), s[1] + 1), (x, 0))[0])
        return np.sum(scan(lambda c, _: (step(c, r), None), x, length=n, checkpoint=way == WAYS[1])[0])

    slope = grad(loss)
    if compiled:
        slope = jit(slope, static_argnames=() if way == WAYS[2] else ("n",))
    r, x = np.linspace(0.5, 2.5, WIDTH), np.linspace(0.2, 0.8, WIDTH)
    if compiled:
        slope(r, x, 10)  # the compiler's own memory is there from now on
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    slope(r, x, steps)
    seconds = time.perf_counter() - start
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, nargs="+", default=STEPS)
    parser.add_argument("--eager", action="store_true", help="without jit")
    parser.add_argument("--out", help="picture to write")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(*measure(options.one[0], int(options.one[1]), not options.eager))
        return
    print(f"{'steps':>10}" + "".join(f"{w + ' [MB]':>30}{'[s]':>8}" for w in WAYS))
    table = []
    for n in options.steps:
        row = []
        for way in WAYS:
            command = [sys.executable, "-m", "tests.benchmarks.core.memory_curve", "--one", way, str(n)]
            done = subprocess.run(command + ["--eager"] * options.eager, capture_output=True, text=True, check=True)
            row.append([float(v) for v in done.stdout.split()])
        table.append(row)
        print(f"{n:>10}" + "".join(f"{mb:>30.1f}{s:>8.2f}" for mb, s in row), flush=True)
    if options.out:
        draw(options.steps, table, options.out)


def draw(steps, table, path):
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        print('matplotlib is not installed: no picture (pip install -e ".[plot]")')
        return
    figure, axes = plt.subplots()
    for k, way in enumerate(WAYS):
        axes.loglog(steps, [max(row[k][0], 0.1) for row in table], "o-", label=way)
    axes.set(xlabel="steps", ylabel="memory of the gradient [MB]", title=f"{WIDTH} coupled logistic maps")
    axes.legend()
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
