"""Every case of the benchmark, compiled, gives the numbers of the same plain NumPy program run without a compiler."""

import numpy as np
import pytest

from tests.benchmarks import case as registry
from tests.benchmarks.tools import leaves
from triskele import core

CASES = registry.load("core")


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "triskele" in case.builders])
def test_compiled_equals_eager(name, monkeypatch):
    case = CASES[name]
    compiled = leaves(case.builders["triskele"](*case.data())())
    monkeypatch.setattr(core, "jit", lambda f: f)
    eager = leaves(case.builders["triskele"](*case.data())())
    assert [a.shape for a in compiled] == [a.shape for a in eager]
    assert [a.dtype for a in compiled] == [a.dtype for a in eager]
    for a, b in zip(compiled, eager):
        np.testing.assert_allclose(a, b, rtol=0, atol=case.tolerance * max(1e-300, np.max(np.abs(b), initial=0)))
