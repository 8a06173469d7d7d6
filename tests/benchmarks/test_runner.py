"""The benchmark's own honesty: wrong numbers are never timed, absent tools leave a dash, means are means."""

from types import SimpleNamespace

import numpy as np
import pytest

from tests.benchmarks import run, table
from tests.benchmarks.case import Case
from tests.benchmarks.machine import WORKING_SETS
from tests.benchmarks.process import available
from tests.benchmarks.tools import Autograd, leaves

CASE = Case("a case of the runner's tests", data=lambda: (), tolerance=1e-6, flops=1e9)
PEAKS = {"float64": 1e10, "bandwidth": {str(size): 1e10 for size in WORKING_SETS}}


def finished(tmp_path, tool, *outputs):
    """A stand-in for a worker that has written its outputs."""
    np.savez(tmp_path / f"{tool}.npz", *outputs)
    return SimpleNamespace(outputs=tmp_path / f"{tool}.npz", process=SimpleNamespace(kill=lambda: None))


def test_a_tool_with_other_numbers_is_thrown_out(tmp_path):
    good, off = np.array([1.0, 2.0]), np.array([1.0, 2.1])
    workers = {"triskele": finished(tmp_path, "triskele", off), "jax": finished(tmp_path, "jax", good)}
    results = {tool: run.Result() for tool in workers}
    run.compare(CASE, results, workers)
    assert list(workers) == ["jax"] and "differs from jax by 5.0e-02" in results["triskele"].failure


@pytest.mark.parametrize("bad", [np.array([1.0, np.nan]), np.array([1.0])])
def test_nan_and_missing_outputs_are_differences(tmp_path, bad):
    outputs = [bad] if bad.size == 2 else []
    workers = {
        "jax": finished(tmp_path, "jax", np.array([1.0, 2.0])),
        "triskele": finished(tmp_path, "triskele", *outputs),
    }
    results = {tool: run.Result() for tool in workers}
    run.compare(CASE, results, workers)
    assert results["triskele"].failure and not results["jax"].failure


def test_absent_and_failed_tools_in_a_row():
    results = {
        "triskele": run.Result(times=[1e-3, 2e-3, 3e-3], warm=0.1),
        "jax": run.Result(times=[3e-3]),
        "torch": run.Result(),
    }
    row = dict(zip(table.HEADER, table.row(CASE.name, 1, CASE, results, PEAKS)))
    assert row["triskele (min)"] == "2 ms (1 ms)"
    assert (row["jax"], row["torch"], row["autograd"]) == ("1.50x", "failed", "-")
    assert row["limit"] == "50.00x"  # 1e9 flops at 1e10 a second are 100 ms


def test_summary_is_the_geometric_mean():
    lines = table.summary({("a", 1): 4.0, ("b", 1): 1.0, ("c", 1): None}, {}).splitlines()
    assert "2 cases: geometric mean of best(jax, torch) / triskele 2.00x, least 1.00x (b)" in lines[0]


def test_leaves_are_ordered_by_key():
    assert [float(a) for a in leaves(({"b": 2.0, "a": 1.0}, [3.0, (4.0, None)]))] == [1, 2, 3, 4]


def test_a_tool_that_is_not_installed_is_not_available(monkeypatch):
    monkeypatch.setattr(Autograd, "modules", ("no_such_module_anywhere",))
    assert not available("core", "autograd") and available("core", "numpy")
