"""Missing packages are reported with the extra that installs them."""

import math
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from triskele.core.imports import optional


def test_need():
    assert optional.need("math", "f", "plot") is math
    with pytest.raises(
        ImportError,
        match=r'^f: needs no_such_package \(pip install "triskele\[plot\]", '
        r'or in a checkout pip install -e "\.\[plot\]"\)$',
    ):
        optional.need("no_such_package.part", "f", "plot")


def test_names_can_be_read_without_optional_packages():
    """By ``help``, ``inspect``, ``import *`` and the reference of the site; what needs a package raises when called."""
    script = textwrap.dedent("""
        import importlib.abc, inspect, pydoc, runpy, sys

        REQUIRED = {*sys.stdlib_module_names, "triskele", "numpy", "scipy", "numba", "llvmlite", "tqdm"}

        class OnlyRequired(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path, target=None):
                if name.partition(".")[0] not in REQUIRED:
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        sys.meta_path.insert(0, OnlyRequired())
        reference = runpy.run_path(sys.argv[1], run_name="reference")
        modules = reference["public_modules"]()
        for name, names in modules.items():
            module = importlib.import_module(name)
            assert {n for n, _ in inspect.getmembers(module)} >= set(names)
            star = {}
            exec(f"from {name} import *", star)
            assert set(getattr(module, "__all__", ())) <= star.keys()
        assert len(reference["pages"]()) > len(modules)
        from triskele import core, quantum, reinforce, sponge
        for package in (core, quantum, reinforce, sponge, quantum.io):
            assert package.__name__ in pydoc.render_doc(package)
        for missing, make in (("ase", lambda: sponge.Calculator(None)), ("qiskit", quantum.io.Sampler)):
            try:
                make()
            except ImportError as error:
                assert f"needs {missing} (pip install" in str(error)
            else:
                raise AssertionError(missing)
        print(len(modules))
    """)
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root / ".src"), "TRISKELE_QUIET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script, root / "docs" / "reference.py"], env=environment, text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 30
