"""A part of the suite again, with the code generators told of other processors; no kernel may carry an address.

A kernel whose machine code holds the address of an object cannot be cached: users then get a warning and a compilation
in every process. Warnings are errors here, in the runs that these tests start too.
"""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from triskele.core.disk import disk_cache

pytestmark = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="names x86 processors")

LEVELS = {"znver4": "x86-64-v4", "skylake-avx512": "x86-64-v4", "haswell": "x86-64-v3", "x86-64-v2": "x86-64-v2"}
ROOT = Path(__file__).parents[3]
FEW = [
    "tests/reinforce/mcts/test_mcts.py::TestResult::test_dirichlet_noise_is_in_the_priors_of_the_root_alone",
    "tests/core/compile/test_loops.py",
    "tests/sponge/virtual_sites/test_virtual_sites.py",
]
MANY = [
    *FEW,
    "tests/core/kernels",
    "tests/core/compile",
    "tests/sponge/potentials/test_nonbonded.py",
    "tests/sponge/pme/test_pme.py",
    "tests/sponge/integrators/test_integrators.py",
    "tests/quantum/simulators/test_simulators_agree.py",
    "tests/quantum/expectation/test_gradients_reference.py",
    "tests/reinforce/mcts/test_mcts.py",
    "tests/reinforce/mcts/test_gumbel.py",
    "tests/reinforce/envs/test_envs.py",
]
LOOK = """
import sys
import pytest
from numba.core.base import BaseContext

# Warnings are errors in these runs, so that an uncached kernel fails them. Where LLVM happens to remove the address on this
# processor, the address was still handed out: count that too.
kept, hand_out = [], BaseContext.add_dynamic_addr
def add_dynamic_addr(self, builder, address, info):
    kept.append(info)
    return hand_out(self, builder, address, info)
BaseContext.add_dynamic_addr = add_dynamic_addr
code = pytest.main(sys.argv[1:])
print("addresses:", sorted(set(kept)))
sys.exit(code)
"""  # noqa: E501


def check_for(cpu, tests, minutes, printed=""):
    """Run tests for the Numba CPU name `cpu`, and check that they pass and print `printed`.

    Addresses are handed out when a kernel is compiled, so that only the kernels of a run that passed are kept for later
    runs.
    """
    available = subprocess.run(
        [sys.executable, "-c", "import llvmlite.binding as l; print(l.get_host_cpu_features().flatten())"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    if (
        "+avx512f" not in available
        and LEVELS[cpu] == "x86-64-v4"
        or "+avx2" not in available
        and LEVELS[cpu] == "x86-64-v3"
    ):
        pytest.skip(f"this processor does not run code for {cpu}")
    folder = disk_cache.folder() / "processors" / cpu
    environment = {
        **os.environ,
        "NUMBA_CPU_NAME": cpu,
        "NUMBA_CPU_FEATURES": "",
        "TRISKELE_CPU": LEVELS[cpu],
        "TRISKELE_CACHE_DIR": str(folder),
    }
    arguments = [
        "-q",
        "-x",
        "-m",
        "not slow",
        "-p",
        "no:cacheprovider",
        "--deselect",
        "tests/core/kernels/test_processors.py",
        *tests,
    ]
    done = subprocess.run(
        [sys.executable, "-c", LOOK, *arguments],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60 * minutes,
    )
    passed = done.returncode == 0 and printed in done.stdout
    if not passed:
        shutil.rmtree(folder, ignore_errors=True)
    assert passed, done.stdout[-4000:] + done.stderr[-2000:]


# most machines that run this have AVX-512 themselves
@pytest.mark.slow
@pytest.mark.parametrize("cpu", ["haswell", "x86-64-v2"])
def test_a_few_tests_pass_for(cpu):
    check_for(cpu, FEW, 10, "addresses: []")


@pytest.mark.slow
@pytest.mark.parametrize("cpu", LEVELS)
def test_many_tests_pass_for(cpu):
    check_for(cpu, MANY, 90)
