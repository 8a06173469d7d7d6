"""Compiled code that checks its indices (`TRISKELE_CHECKED=1`, `make checked`) finds what it is to find."""

import os
import signal
import subprocess
import sys

import pytest

KERNELS = """
import numpy as np
from triskele.core.kernels import simd, threads
from triskele.core.kernels.njit import kernel
"""

KERNEL = """
@kernel(cache=False)
def run(x, at, lanes):
    {body}

x = np.zeros(16)
run(x, {inside}, np.arange(4) + {inside})
try:
    run(x, {outside}, np.arange(4) + {outside})
    print("{name}: not refused", flush=True)
except IndexError as error:
    print("{name}: refused", flush=True)
"""

BODIES = {
    "element": ("x[at] = 1.0", 15, 16),
    "load": ("simd.store(x, 0, simd.load(x, at, 4))", 12, 13),
    "store": ("simd.store(x, at, simd.load(x, 0, 4))", 12, 13),
    "store from a negative index": ("simd.store(x, at, simd.load(x, 0, 4))", 0, -1),
    "address": ("simd.store(simd.address(x, 8), at, simd.load(x, 0, 4))", 4, 5),
    "gather": ("simd.store(x, 0, simd.gather(x, simd.load(lanes, 0, 4)))", 12, 13),
    "scatter": ("simd.scatter(x, simd.load(lanes, 0, 4), simd.load(x, 0, 4))", 12, -1),
    "masked": ("simd.store_masked(x, at, simd.load(x, 0, 4), simd.iota(4) < 3)", 13, 14),
}

PROGRAM = """
import ctypes

import numpy as np
from triskele.core.compile.builder import Builder, number_loops
from triskele.core.kernels import native

b = Builder()
b.sizes["%p"] = 8 * {elements}
i = b.open(0, 4, 0, 3)
b.store("%p", i, b.const(1.0, np.float64))
b.close()
text = "\\n".join([*b.declares, "define void @main(ptr %p) {{", "entry:", *b.render(), "  ret void", "}}"])
text = number_loops(text)
loaded = native.load(text, {{}}, opt=1)
x = np.zeros(4)
ctypes.CFUNCTYPE(None, ctypes.c_void_p)(loaded.address("main"))(x.ctypes.data)
print("written", x.sum())
"""


def run_checked(source):
    environment = {**os.environ, "TRISKELE_CHECKED": "1"}
    return subprocess.run([sys.executable, "-c", source], env=environment, capture_output=True, text=True, timeout=300)


def test_kernels_raise_index_error():
    """One process compiles them all, for it takes longer to start than to compile one."""
    kernels = [
        KERNEL.format(name=name, body=body, inside=inside, outside=outside)
        for name, (body, inside, outside) in BODIES.items()
    ]
    done = run_checked(KERNELS + "".join(kernels))
    assert done.stdout.splitlines() == [f"{name}: refused" for name in BODIES], done.stdout + done.stderr


def test_programs_of_jit_stop_the_process():
    assert run_checked(PROGRAM.format(elements=4)).stdout == "written 4.0\n"
    stopped = run_checked(PROGRAM.format(elements=3))
    assert stopped.returncode in (-signal.SIGILL, -signal.SIGTRAP) and stopped.stdout == ""


@pytest.mark.slow
def test_programs_with_and_without_checks_do_not_share_the_store(tmp_path):
    """A program is kept under a key of its graph, which has no checks in it."""
    code = """
import numpy as np
from triskele import core
f = core.jit(lambda x, i: x[i] + 1.0)
arguments = np.arange(4.0), np.array([1, 2])
f(*arguments)
print(f._entry(arguments, {}).function.program.module.cached)
"""
    found = []
    for checks in ("0", "1", "1"):
        environment = {**os.environ, "TRISKELE_CHECKED": checks, "TRISKELE_CACHE_DIR": str(tmp_path)}
        found.append(
            subprocess.run(
                [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300
            ).stdout
        )
    assert found == ["False\n", "False\n", "True\n"]
