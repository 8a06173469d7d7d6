"""The compiled-function cache: hits, misses after any edit, and disks and processes that fail."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import triskele.core.kernels.njit as njit
from triskele.core.disk import disk_cache
from triskele.core.kernels import native

SOURCES = Path(njit.__file__).resolve()


@pytest.fixture
def suite(tmp_path):
    """A copy of the suite small enough to edit: njit.py, a callee and a kernel in two files."""
    package = tmp_path / "triskele" / "core"
    for folder in (package.parent, package, *(package / name for name in ("disk", "kernels", "show"))):
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").write_text("")
    for name in ("ahead.py", "njit.py", "linked.py", "native.py", "notice.py", "resolution.py"):
        shutil.copy(SOURCES.parent / name, package / "kernels" / name)
    for name in ("disk/files.py", "disk/disk_cache.py", "show/progress.py"):
        shutil.copy(SOURCES.parents[1] / name, package / name)
    (package / "callee.py").write_text(
        "from triskele.core.kernels.njit import device\n@device\ndef scale(x):\n    return 2.0 * x\n"
    )
    (package / "caller.py").write_text(
        "from triskele.core.callee import scale\nfrom triskele.core.kernels.njit import kernel\n"
        "@kernel\ndef total(x):\n    s = 0.0\n    for i in range(x.size):\n        s += scale(x[i])\n    return s\n"
    )
    return tmp_path


def run(suite, code="", cache="cache", **environment):
    """Result, cache hits and misses of `total` in a new process."""
    code = textwrap.dedent(code) + (
        "\nimport numpy as np\nfrom triskele.core.caller import total\n"
        "print(total(np.arange(4.0)), sum(total.stats.cache_hits.values()), sum(total.stats.cache_misses.values()))\n"
    )
    variables = {**os.environ, "PYTHONPATH": str(suite), "TRISKELE_CACHE_DIR": str(suite / cache), **environment}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], env=variables, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    value, hits, misses = done.stdout.split()
    return float(value), int(hits), int(misses)


def test_second_process_hits_and_an_edited_callee_misses(suite):
    assert run(suite) == (12.0, 0, 1)
    assert run(suite) == (12.0, 1, 0)
    callee, caller = (suite / "triskele" / "core" / name for name in ("callee.py", "caller.py"))
    callee.write_text(callee.read_text().replace("2.0", "3.0"))
    caller.write_text(caller.read_text().replace("(x):\n", '(x):\n    """Sum."""\n'))
    assert run(suite) == (18.0, 0, 1)
    callee.write_text(callee.read_text().replace("@device", "# It scales\n# by a factor.\n@device"))
    caller.write_text(caller.read_text().replace("Sum.", "The sum of\n    all values."))
    assert run(suite) == (18.0, 1, 0)  # words compile nothing again


@pytest.fixture
def stamp(suite, monkeypatch):
    """The stamp of a file of the copy, as a new process computes it: it decides which kernels are compiled again."""
    monkeypatch.setattr(njit, "_SUITE", suite / "triskele")

    def forget():
        for function in (njit.source_stamp, njit._source, njit._face):
            function.cache_clear()

    def stamp(name="triskele/core/caller.py"):
        forget()
        return njit.source_stamp(str(suite / name))

    yield stamp
    forget()


def edit(path, old, new):
    """Replace text that is there in a file."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_an_edit_leaves_kernels_of_other_files_compiled(suite, stamp):
    core = suite / "triskele" / "core"
    (core / "other_callee.py").write_text((core / "callee.py").read_text())
    (core / "other_caller.py").write_text((core / "caller.py").read_text().replace("core.callee", "core.other_callee"))
    before, other = stamp(), stamp("triskele/core/other_caller.py")
    edit(core / "callee.py", "2.0", "3.0")
    assert stamp() != before and stamp("triskele/core/other_caller.py") == other
    edit(core / "other_callee.py", "2.0", "3.0")
    assert stamp("triskele/core/other_caller.py") != other


FACE = "'''A door.'''\nfrom .callee import scale as scale\nfrom .other import add\n__all__ = [\"add\", \"scale\"]\n"
LAZY = """import importlib
def __getattr__(name):
    return getattr(importlib.import_module('triskele.core.callee'), name)
"""


@pytest.mark.parametrize(
    "home, stub",
    [
        (".callee", False),
        (".door", False),
        ("..core.callee", False),
        ("..core.door", True),
        ("triskele.core.door", True),
    ],
)
def test_edits_are_seen_through_relative_imports_and_doors(suite, stamp, home, stub):
    """A door, which only passes names on, is seen through: what else it passes on does not matter."""
    core = suite / "triskele" / "core"
    callee, caller, other = core / "callee.py", core / "caller.py", core / "other.py"
    edit(callee, "from triskele.core.kernels", "from .kernels")
    other.write_text("def add(x):\n    return x\n")
    (core / "door.py").write_text(FACE)
    if stub:  # a lazy face: only its stub says where the names come from
        (core / "door.pyi").write_text(FACE)
        (core / "door.py").write_text(LAZY)
    edit(caller, "from triskele.core.callee import scale", f"from {home} import scale as scale")
    edit(caller, "from triskele.core.k", "from .k")
    before = stamp()
    other.write_text("def add(x):\n    return -x\n")
    assert stamp() == before
    edit(callee, "2.0", "3.0")
    assert stamp() != before


def test_another_function_behind_the_same_name_of_a_door_is_seen(suite, stamp):
    core = suite / "triskele" / "core"
    callee = core / "callee.py"
    callee.write_text(callee.read_text() + "@device\ndef triple(x):\n    return 3.0 * x\n")
    (core / "door.py").write_text(FACE)
    (core / "other.py").write_text("add = None\n")
    edit(core / "caller.py", "core.callee", "core.door")
    before = stamp()
    edit(core / "door.py", "import scale", "import triple")
    assert stamp() != before


def test_edits_are_seen_in_a_package_of_the_users(suite, stamp):
    """Files outside of the suite are followed through relative imports, of names and of modules."""
    package = suite / "lab"
    package.mkdir()
    (package / "__init__.py").write_text("")
    shutil.copy(suite / "triskele/core/callee.py", package / "callee.py")
    for line in ("from .callee import scale", "from . import callee"):
        (package / "caller.py").write_text(
            (suite / "triskele/core/caller.py").read_text().replace("from triskele.core.callee import scale", line)
        )
        before = stamp("lab/caller.py")
        edit(package / "callee.py", "2.0", "2.00")
        assert stamp("lab/caller.py") != before


def test_kernels_behind_the_door_of_the_core_are_followed():
    """A kernel's stamp covers what it imports from `core.extend`, under whatever name, and nothing else of core."""
    found, waiting = set(), {SOURCES.parents[2] / "sponge/potentials/bonded/term_kernels.py"}
    while waiting:
        found |= waiting
        waiting = set().union(*(njit._source(p)[1] for p in waiting)) - found
    names = {"/".join(p.parts[-2:]) for p in found}
    assert {"simd/lanes.py", "simd/memory.py"} <= names and "compile/jit.py" not in names


@pytest.mark.slow
def test_damaged_cache_files_only_cost_time(suite):
    run(suite)
    for damage in (b"", b"not a pickle"):
        for file in (suite / "cache").rglob("*.bin"):
            file.write_bytes(damage)
        assert run(suite)[0] == 12.0


@pytest.mark.slow
def test_types_of_one_name_are_told_apart(tmp_path):
    """Two named tuples print alike to Numba, whatever their fields are called."""
    (tmp_path / "ratios.py").write_text(
        "from triskele.core.kernels.njit import kernel\n@kernel\ndef ratio(p):\n    return p.a / p.b\n"
    )
    code = """
        from collections import namedtuple
        from ratios import ratio
        print(ratio(namedtuple("Pair", "{}")({}, {})))
    """
    environment = {
        **os.environ,
        "TRISKELE_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(SOURCES.parents[3])]),
    }
    for fields, values in (("a b", (1.0, 2.0)), ("b a", (2.0, 1.0))):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code).format(fields, *values)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.stdout == "0.5\n", done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not native.levels(), reason="no code is shipped for this processor")
def test_code_shipped_for_a_level_of_processors_is_loaded(suite):
    level = native.levels()[-1]
    environment = {"TRISKELE_CPU": level.cpu, "NUMBA_CPU_NAME": level.cpu, "NUMBA_CPU_FEATURES": level.features}
    assert run(suite, cache="built", **environment) == (12.0, 0, 1)
    assert run(suite, cache="mine") == (12.0, 0, 1)
    (suite / "built").rename(suite / "triskele/core/shipped")
    assert run(suite, cache="empty") == (12.0, 1, 0)
    assert not (suite / "empty").exists()
    for entry in (suite / "triskele/core/shipped").rglob("*.bin"):
        entry.write_bytes(b"damaged")
    assert run(suite, cache="empty") == (12.0, 0, 1)


@pytest.mark.slow
def test_full_disk_only_costs_time(suite):
    """Every write fails."""
    fail = """
        import errno, os
        def full(*_):
            raise OSError(errno.ENOSPC, "No space left on device")
        os.replace = full
    """
    assert run(suite, fail)[0] == 12.0
    assert run(suite) == (12.0, 0, 1)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="POSIX permissions")
def test_code_that_others_can_have_planted_is_not_unpickled(suite):
    """A pickle with a valid checksum, which would run a command."""
    run(suite)
    (entry,) = (suite / "cache").rglob("*.bin")
    code, key = b"cos\nsystem\n(S'touch pwned'\ntR.", entry.parent.name + entry.stem
    entry.write_bytes(disk_cache._MAGIC + disk_cache._checksum(key, code) + code)
    move = f"import logging, os; logging.disable(); os.chdir({str(suite)!r})"
    run(suite, move)
    assert (suite / "pwned").exists()
    (suite / "pwned").unlink()
    entry.write_bytes(disk_cache._MAGIC + disk_cache._checksum(key, code) + code)
    entry.chmod(0o777)
    assert run(suite, move)[0] == 12.0
    assert not (suite / "pwned").exists()


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="POSIX permissions")
def test_nowhere_to_write_only_costs_time(suite):
    (suite / "file").write_text("")
    assert run(suite, cache="file/folder")[0] == 12.0


def test_decorating_does_not_import_numba(suite):
    code = "import sys, triskele.core.caller\nassert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(suite)}, check=True, timeout=60)


@njit.device
def _square(x):
    return x * x


@njit.template
def _apply(f, x):
    total = 0.0
    for i in range(x.size):
        total += f(x[i])
    return total


@njit.kernel(cache=False)
def _sum_of_squares(x):
    return _apply(_square, x)


def test_devices_pass_as_arguments_of_templates():
    assert _sum_of_squares(np.arange(4.0)) == 14.0
    assert _square(3) == 9
    assert _sum_of_squares.py_func.__name__ == "_sum_of_squares" and "compiled" in repr(_square)


def test_nan_stays_visible_and_division_by_zero_is_numpys():
    @njit.kernel(cache=False)
    def f(x, y):
        return x / y if x == x else -1.0

    assert np.isinf(f(1.0, 0.0)) and f(np.nan, 1.0) == -1.0


TWO_KERNELS = """
from triskele.core.kernels.njit import kernel
@kernel
def first(x):
    return x.sum()
@kernel
def second(x):
    return x.max()
"""
USE_BOTH = """
import os, numpy as np
os.getloadavg = lambda: (0.0, 0.0, 0.0)  # as on an idle machine
from triskele.core.kernels import ahead
from triskele.core.two import first, second
x = np.arange(4.0)
values = [first(x)]
{between}
print(*values, second(x), sum(second.stats.cache_hits.values()))
"""
HELPED = "[thread.join(60) for thread in ahead._team.threads]"


@pytest.mark.slow
@pytest.mark.parametrize(
    "listed, jobs, between, hits",
    [
        ("second f8[1]", "2", HELPED + "; os.fork() or os._exit(second(x) != 3)", 1),
        ("second f8[1]", "1", "assert ahead._team is None", 0),
        ("removed f8[1]", "2", HELPED, 0),
        ("second f8[1]", "2", "ahead._team.processes[0].kill(); " + HELPED, None),
    ],
    ids=["helped", "one process", "out of date", "killed"],
)
def test_a_helper_compiles_the_kernels_that_a_list_names(suite, listed, jobs, between, hits):
    core = suite / "triskele" / "core"
    (core / "two.py").write_text(TWO_KERNELS)
    (core / "kernels.txt").write_text(f"run:\n1 core.two first f8[1]\n9000 core.two {listed}\n")
    variables = {"PYTHONPATH": str(suite), "TRISKELE_CACHE_DIR": str(suite / "cache"), "TRISKELE_COMPILE_JOBS": jobs}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", USE_BOTH.format(between=between)],
        timeout=120,
        env=os.environ | variables,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    total, largest, loaded = done.stdout.split()
    assert (float(total), float(largest)) == (6.0, 3.0)
    assert hits is None or int(loaded) == hits
