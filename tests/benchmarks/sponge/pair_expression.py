"""Pair potentials given as expressions, next to the built-in kernel on the same lists, on one thread.

Run as ``python -m tests.benchmarks.sponge.pair_expression [atoms] [precision]``: a liquid of the density of liquid
argon, cut-off 0.9 nm, with the parameters of argon, of three noble gases mixed, and of water. Every kernel of one
engine runs in turn with the others; the fastest of its turns counts, in processor time of this thread.
"""

import sys
import time

import numpy as np

from triskele import sponge
from triskele.sponge.engine.engine import Engine
from triskele.sponge.engine.flags import ENERGY
from triskele.sponge.testing import example_system

CUTOFF, DENSITY, TURNS = 0.9, 21.2, 30  # nm, atoms/nm^3
MIXED = "4*eps*((s/r)^12-(s/r)^6); s=0.5*(sigma1+sigma2); eps=sqrt(epsilon1*epsilon2)"
TABLE = "a(k1,k2)/r^12-b(k1,k2)/r^6"
SYSTEMS = {
    "argon": ([0.3405], [0.996]),
    "noble gases": ([0.278, 0.3405, 0.365], [0.29, 0.996, 1.36]),
    "water": ([0.315075, 0.1, 0.1], [0.635968, 0.0, 0.0]),
}


def potentials(sigma, epsilon):
    """The potentials by name; each expression follows the built-in kernel that it compares with."""
    n = len(sigma)
    kinds, types = np.unique(np.stack([sigma, epsilon], axis=1), axis=0, return_inverse=True)
    s, e = 0.5 * (kinds[:, None, 0] + kinds[:, 0]), np.sqrt(kinds[:, None, 1] * kinds[:, 1])
    a, b = 4 * e * s**12, 4 * e * s**6
    functions = {"a": sponge.Tabulated(a), "b": sponge.Tabulated(b)}
    cut = {"method": "cutoff", "cutoff": CUTOFF, "dispersion_correction": False}
    return {
        "built in": sponge.Nonbonded(np.zeros(n), sigma, epsilon, **cut),
        "expression": sponge.pair(MIXED, sigma=sigma, epsilon=epsilon, cutoff=CUTOFF, name="expression"),
        "built in, tables": sponge.Nonbonded(np.zeros(n), mixing=sponge.LJTable(types, a, b), **cut),
        "expression of tables": sponge.pair(TABLE, k=types, functions=functions, cutoff=CUTOFF, name="table"),
    }


def fastest(tasks, flags):
    """Milliseconds of each list of tasks, which take turns."""
    best = dict.fromkeys(tasks, np.inf)
    for _ in range(TURNS):
        for key, (some, energy) in tasks.items():
            flags[ENERGY] = energy
            begin = time.thread_time()
            for task in some:
                task.run()
            best[key] = min(best[key], 1e3 * (time.thread_time() - begin))
    return best


def main(n=20_000, precision="mixed"):
    rng = np.random.default_rng(0)
    m = int(np.ceil(n ** (1 / 3)))
    edge = (n / DENSITY) ** (1 / 3)
    grid = np.stack(np.meshgrid(*[np.arange(m)] * 3, indexing="ij"), -1).reshape(-1, 3)[:n]
    positions = (grid + 0.5) * edge / m + rng.normal(0, 0.01, (n, 3))
    print(f"| {n} atoms, {precision} | forces, ms | ratio | forces and energy, ms | ratio |\n|---|---|---|---|---|")
    for name, (sigma, epsilon) in SYSTEMS.items():
        kind = np.arange(n) % len(sigma)
        made = potentials(np.array(sigma)[kind], np.array(epsilon)[kind])
        engine = Engine(example_system(*made.values(), n=n, box=edge, positions=positions), precision)
        engine.compute()
        tasks = {}
        for key, potential in made.items():
            stage = engine.plans[potential.name].stages[0]
            tasks[key, 0], tasks[key, 1] = (stage[::2], 0), (stage[1::2], 1)
        found = fastest(tasks, engine.flags)
        for key in made:
            base = key if key.startswith("built in") else "built in, tables" if "tables" in key else "built in"
            shown = [f"{found[key, e]:.2f} | {found[key, e] / found[base, e]:.2f}x" for e in (0, 1)]
            print(f"| {name}, {key} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main(*(int(a) if a.isdigit() else a for a in sys.argv[1:]))
