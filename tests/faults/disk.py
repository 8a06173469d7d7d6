"""Damaged caches and full disks."""

import os
import resource
import signal
import subprocess
import sys

import numpy as np

from tests.faults.fault import Fault
from tests.faults.killed import ROOT, springs
from triskele import sponge
from triskele.sponge.errors import ReporterError

__all__ = ["FAULTS"]

PROGRAM = """
import numpy as np
from triskele import core, quantum
x = np.linspace(0.0, 1.0, 7)
print(core.jit(lambda x: np.cumsum(np.sin(x) * 3)[::2])(x).tolist())
core.set_threads(1)
print(core.random.uniform(core.random.key(3), (3,)).tolist())
"""


def damage(path, rng):
    """Flip bytes of a file, cut it, or empty it."""
    data = bytearray(path.read_bytes())
    kind = rng.integers(3)
    if kind == 0 and data:
        for at in rng.integers(0, len(data), rng.integers(1, 9)):
            data[at] ^= int(rng.integers(1, 256))
    elif kind == 1:
        del data[int(rng.integers(0, len(data) + 1)) :]
    else:
        data.clear()
    path.write_bytes(data)


def damaged_cache(rng, folder):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / ".src"), "TRISKELE_CACHE_DIR": str(folder / "kernels")}
    run = lambda: subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=300
    )
    right = run()
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    for path in files:
        if rng.random() < 0.5:
            damage(path, rng)
    again = run()
    if right.returncode or again.returncode or again.stdout != right.stdout:
        return f"status {again.returncode}, printed {again.stdout[-200:]!r} {again.stderr[-300:]!r}"
    return None


def full_disk(rng, folder):
    sim, size = springs(), int(rng.integers(0, 60_000))
    sim.run(10)
    before, old = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    os.chdir(folder)
    failed = False
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        sim.run(1000, report=[sponge.DCD("a.dcd", 10), sponge.CSV("a.csv", 20), sponge.Checkpoint("a.chk", 100)])
    except (ReporterError, OSError) as error:
        failed = True
        if not any(name in str(error) for name in ("a.dcd", "a.csv", "a.chk")):
            return f"the error names no file: {error}"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, old)
        os.chdir(ROOT)
    resumed = springs()
    if (folder / "a.chk").exists():
        resumed.load(folder / "a.chk")
    whole = springs()
    whole.run(resumed.step)
    if resumed.step and not np.array_equal(whole.positions, resumed.positions):
        return "the checkpoint is not that of its step"
    return None if failed or size > 20_000 else "nothing was reported"


FAULTS = [
    Fault("files of the kernel cache damaged", "the same results, without a warning", damaged_cache, 50),
    Fault("full disk during a simulation", "an error names the file, and the last checkpoint is whole", full_disk, 100),
]
