"""Pair forces and neighbor list by parts, on one thread: milliseconds per call of each kernel, and per step.

Run as ``python -m tests.benchmarks.sponge.pair_kernel [waters] [precision]``: water molecules of random orientation at
liquid density, Lennard-Jones and direct-space Ewald within 0.9 nm. The default, 23,556 atoms, has the size of the DHFR
benchmark; GROMACS 2022 (AVX-512) spends there 6.8 ms on pair and bonded forces and 0.49 ms on the list, per step, on
the machine of the project's tables. Processor time of this thread is measured, which other processes disturb least.
"""

import sys
import time

import numpy as np

from triskele.sponge.engine.engine import Engine
from triskele.sponge.engine.flags import ENERGY
from triskele.sponge.engine.program import Phase
from triskele.sponge.neighbors.state import END, EVERY, INNER, OUTER, PRUNE_EVERY, START
from triskele.sponge.potential import Potential
from triskele.sponge.potentials.nonbonded.forms import PairForm, pair_gradients, plan_pairs
from triskele.sponge.system import System
from triskele.sponge.topology import Topology

CUTOFF, TOLERANCE = 0.9, 5e-4
SCHEDULE = {OUTER: 1.14, INNER: 0.935, EVERY: 60, PRUNE_EVERY: 5}  # as chosen for water, 300 K, 2 fs


class Pairs(Potential):
    def __init__(self, form, **values):
        self.name, self.params, self.form, self.values = "pairs", {}, form, values

    def plan(self, engine):
        return plan_pairs(engine, self.form, **self.values)


def water(molecules, seed=0):
    """Positions [n, 3], edge of the cube, exclusions."""
    rng = np.random.default_rng(seed)
    edge = (molecules / 33.4) ** (1 / 3)
    m = int(np.ceil(molecules ** (1 / 3)))
    grid = np.stack(np.meshgrid(*[np.arange(m)] * 3, indexing="ij"), -1).reshape(-1, 3)[:molecules]
    oxygen = (grid + 0.5) * edge / m + rng.normal(0, 0.015, (molecules, 3))
    unit = lambda v: v / np.linalg.norm(v, axis=-1, keepdims=True)
    a = unit(rng.normal(size=(molecules, 3)))
    b = unit(np.cross(a, rng.normal(size=(molecules, 3))))
    angle = np.deg2rad(104.52)
    atoms = [oxygen, oxygen + 0.09572 * a, oxygen + 0.09572 * (np.cos(angle) * a + np.sin(angle) * b)]
    exclusions = (3 * np.arange(molecules)[:, None, None] + np.array([[0, 1], [0, 2], [1, 2]])).reshape(-1, 2)
    return np.stack(atoms, 1).reshape(-1, 3), edge, exclusions


def main(molecules=7852, precision="mixed"):
    positions, edge, exclusions = water(molecules)
    n = len(positions)
    form = PairForm(
        "lorentz_berthelot", "ewald", CUTOFF, precision == "double", alpha=np.sqrt(-np.log(2 * TOLERANCE)) / CUTOFF
    )
    values = {
        "charges": np.tile([-0.834, 0.417, 0.417], molecules),
        "sigmas": np.tile([0.315075, 0.1, 0.1], molecules),
        "epsilons": np.tile([0.635968, 0, 0], molecules),
    }
    system = System(Topology.of_particles(n), np.ones(n), box=edge, positions=positions, exclusions=exclusions)
    system.add(Pairs(form, **values))
    start = time.perf_counter()
    engine = Engine(system, precision)
    plan, neighbors = engine.plans["pairs"], engine.neighbor_lists[CUTOFF]
    for word, value in SCHEDULE.items():
        neighbors.geometry[word] = value
    engine.compute()
    print(f"{n} atoms, {precision}; first energies and forces after {time.perf_counter() - start:.1f} s")
    part = neighbors.lists[0]
    runs = [part.entries[c, : part.n_entries[c]] for c in range(neighbors.chunks)]
    pairs = sum(int(np.sum(e[:, END] - e[:, START])) for e in runs)
    print(f"{pairs} cluster pairs in {int(part.n_entries.sum())} entries, {neighbors.chunks} chunks")
    phases = [*plan.before, *map(Phase, plan.stages), Phase(plan.reduce)]
    best = {}
    need, pruning, flags = neighbors.word, neighbors.word + 1, engine.flags
    for turn in range(40):
        build, energy = turn % 4 == 0, turn % 2
        for phase in phases:
            for task in phase.tasks:
                name = task.kernel.__name__
                # the flags decide what a kernel does; builds, and energies or forces alone, take turns
                flags[need], flags[pruning], flags[ENERGY] = build and name != "refresh", 1, energy
                if name in ("clock", "finish") or name == ("pair_forces" if energy else "pair_energies"):
                    continue
                if phase.flag == need and not build:
                    continue
                begin = time.thread_time()
                task.run()
                best[name] = min(best.get(name, np.inf), 1e3 * (time.thread_time() - begin))
    for name, t in best.items():
        print(f"  {name:16s} {t:8.3f} ms")
    print(f"  {best['pair_forces'] / pairs * 1e6:.2f} ns per cluster pair")
    building = sum(best[k] for k in ("wrap", "columns", "count", "start", "place", "fill", "search", "sort_params"))
    per_step = building / SCHEDULE[EVERY] + best["prune"] / SCHEDULE[PRUNE_EVERY]
    print(
        f"list per step {per_step:.3f} ms; coordinates, sums and scatter "
        f"{best['refresh'] + best['sum_chunks'] + best['add_sorted']:.3f} ms"
    )
    flags[ENERGY] = 0
    pair_gradients(engine, form, plan, **values)
    times = []
    for _ in range(7):
        begin = time.perf_counter()
        pair_gradients(engine, form, plan, **values)
        times.append(1e3 * (time.perf_counter() - begin))
    print(f"all parameter gradients {min(times):.2f} ms (all threads)")


if __name__ == "__main__":
    main(*(int(a) if a.isdigit() else a for a in sys.argv[1:]))
