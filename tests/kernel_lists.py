"""Write `kernels.txt` of each package: which kernels its usual runs compile, in which order, and how long each takes.

`python -m tests.kernel_lists [package…]` runs the functions of each package's `warmup.py`, each with an empty cache.
"""

import os
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("core", "sponge", "quantum", "reinforce")
HEAD = """\
# Kernels that the functions of warmup.py compile, in order: milliseconds, module, name, types of the arguments.
# Written by `python -m tests.kernel_lists`; used to compile in several processes (core/kernels/ahead.py).
"""


def record(package, name):
    """Run a function of `warmup.py`, and print a line for each kernel that Python calls and that was not cached."""
    from triskele.core.kernels import njit
    from triskele.core.kernels.ahead import text_of

    cache = njit._cache_class()
    load, save, began = cache.load_overload, cache.save_overload, []

    def timed_load(self, sig, context):
        found = load(self, sig, context)
        if found is None:
            began.append(time.perf_counter())
        return found

    def timed_save(self, sig, data):
        save(self, sig, data)
        seconds, module = time.perf_counter() - began.pop(), self.function.__module__.removeprefix("triskele.")
        types = text_of(sig)
        if not began and types and "_generated_" not in module:
            print("kernel:", max(1, round(1000 * seconds)), module, self.function.__qualname__, types)

    cache.load_overload, cache.save_overload = timed_load, timed_save
    getattr(import_module(f"triskele.{package}.warmup"), name)()


def run(package, name):
    """Return the lines of one run, in a process and a cache of its own."""
    code = f"from tests.kernel_lists import record; record({package!r}, {name!r})"
    with tempfile.TemporaryDirectory() as folder:
        variables = {"TRISKELE_CACHE_DIR": folder, "TRISKELE_COMPILE_JOBS": "1", "TRISKELE_QUIET": "1"}
        text = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | variables,
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    return [line.removeprefix("kernel: ") for line in text.splitlines() if line.startswith("kernel: ")]


if __name__ == "__main__":
    for package in sys.argv[1:] or PACKAGES:
        text = HEAD
        for function in import_module(f"triskele.{package}.warmup").WORK:
            lines = run(package, function.__name__)
            if lines:
                text += "\n".join(["", f"{function.__name__}:", *lines, ""])
        (ROOT / package / "kernels.txt").write_text(text, encoding="utf-8")
