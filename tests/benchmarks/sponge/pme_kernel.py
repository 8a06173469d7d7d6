"""Particle mesh Ewald by parts, on one thread: time per step of each stage, beside scipy's transforms.

Processor time, so that other processes disturb little. Run as ``python -m tests.benchmarks.sponge.pme_kernel [atoms]
[grid]``: random atoms at water's density, order 5, float32. The default has the size of the DHFR benchmark, on which
GROMACS 2022 (AVX-512, order 4) spends 2.35 ms: spread 0.69, transforms 0.85, solve 0.08, gather 0.73.
"""

import sys
import time
from types import SimpleNamespace

import numpy as np
import scipy.fft

from triskele.sponge.engine.flags import N_FLAGS
from triskele.sponge.pme.mesh import PME

GROMACS = {"spread": 0.69, "transforms and solve": 0.93, "gather": 0.73}  # ms, on the machine of the project's tables


def engine_of(n, edge, precision="mixed"):
    rng = np.random.default_rng(0)
    molecules = rng.uniform(0, edge, (n // 3 + 1, 3))
    positions = (molecules[:, None] + rng.normal(scale=0.06, size=(1, 3, 3))).reshape(-1, 3)[:n]
    return SimpleNamespace(
        n=n,
        positions=positions.copy(),
        forces=np.zeros((n, 3)),
        box=np.eye(3) * edge,
        precision=precision,
        flags=np.zeros(N_FLAGS, np.int64),
        atom_starts=np.linspace(0, n, max(1, n // 512) + 1).astype(np.int64),
        atom_chunks=max(1, n // 512),
    )


def best(f, repeats=30):
    times = []
    for _ in range(repeats):
        start = time.thread_time()
        f()
        times.append(time.thread_time() - start)
    return 1e3 * min(times)


def run(tasks):
    import ctypes

    entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
    calls = [(entry(t.entry), t.context.ctypes.data, t.chunks) for t in tasks]

    def go():
        for f, context, chunks in calls:
            for c in range(chunks):
                f(context, c)

    return go


def main(n=23558, points=56):
    edge = (n / 97.7) ** (1 / 3)
    engine = engine_of(n, edge)
    charges = np.random.default_rng(1).normal(scale=0.5, size=n)
    start = time.thread_time()
    pme = PME(engine, charges, 2.92, (points,) * 3, builds=np.zeros(1, np.int64))
    parts = {
        "sort": pme.before,
        "spread": pme.stages[0],
        "planes": pme.stages[1],
        "along x and solve": pme.stages[2],
        "planes back": pme.stages[3],
        "gather": pme.stages[4],
        "add forces": pme.reduce,
    }
    calls = {name: run(tasks) for name, tasks in parts.items()}
    for call in calls.values():
        call()
    print(f"{n} atoms, {points}^3 points; compiled in {time.thread_time() - start:.2f} s")
    spent = dict.fromkeys(calls, np.inf)
    for _ in range(40):  # in order: each stage needs what the one before has left
        for name, call in calls.items():
            started = time.thread_time()
            call()
            spent[name] = min(spent[name], 1e3 * (time.thread_time() - started))
    for name, t in spent.items():
        print(f"  {name:20s} {t:7.3f} ms  ({', '.join(str(task.chunks) for task in parts[name])} chunks)")
    spent.pop("sort")
    transforms = spent["planes"] + spent["along x and solve"] + spent["planes back"]
    ours = {
        "spread": spent["spread"],
        "transforms and solve": transforms,
        "gather": spent["gather"] + spent["add forces"],
    }
    for name, t in ours.items():
        print(f"  {name:20s} {t:7.3f} ms  GROMACS {GROMACS[name]:.2f}")
    print(f"  {'sum':20s} {sum(ours.values()):7.3f} ms  GROMACS {sum(GROMACS.values()):.2f}")
    values = np.random.default_rng(0).normal(size=(points,) * 3).astype(np.float32)
    spectrum = scipy.fft.rfftn(values, workers=1)
    there, back = (
        best(lambda: scipy.fft.rfftn(values, workers=1)),
        best(lambda: scipy.fft.irfftn(spectrum, values.shape, workers=1)),
    )
    print(
        f"  scipy.fft there and back {there + back:.3f} ms; ours is {(there + back) / transforms:.1f}x as fast, "
        f"solve included"
    )
    start = time.thread_time()
    pme.update_box()
    print(f"  update of the box {1e3 * (time.thread_time() - start):.3f} ms")


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:]))
