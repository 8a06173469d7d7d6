"""The benchmark's own arithmetic: what counts as the same numbers, and what stands in a row."""

import numpy as np
import pytest

from tests.benchmarks.quantum import __main__ as harness
from tests.benchmarks.quantum.bench import CASES, Bench, slopes, value
from tests.benchmarks.quantum.tools import triskele

PEAKS = {"float64": 1e10, "float32": 2e10, "bandwidth": {str(2**k): 1e10 for k in range(13, 29)}}


def test_angles():
    assert value([(0, 2.0), (2, -1.0)], [0.5, 9.0, 0.25]) == 0.75
    assert value(0.3, []) == 0.3
    assert slopes(0.3) == []


def test_a_global_phase_is_no_difference_and_a_wrong_amplitude_is(tmp_path):
    state = np.array([0.6, 0.8j])
    np.savez(tmp_path / "same.npz", np.exp(0.3j) * state)
    np.savez(tmp_path / "other.npz", state + [0.0, 1e-3])
    bench = Bench("state", 1, [], ())
    assert harness.difference(bench, [state], tmp_path / "same.npz") < 1e-15
    assert harness.difference(bench, [state], tmp_path / "other.npz") > 1e-4


def test_peers_that_were_not_timed_are_absent_from_a_row():
    bench = CASES["qcbm_4"]()
    firsts = {tool: {"imported": 0.1, "built": 0.2, "cold": 0.3} for tool in ("triskele", "qulacs")}
    cells, best = harness.row("qcbm_4", 1, bench, {"triskele": [2e-3, 1e-3], "qulacs": [4e-3]}, firsts, PEAKS, min)
    row = dict(zip(harness.HEADER, cells, strict=True))
    assert (row["qulacs"], row["mindquantum"], row["best peer"], best) == ("4.00x", "-", "4.00x", 4.0)
    assert harness.row("qcbm_4", 1, bench, {}, {}, PEAKS, min)[1] is None


@pytest.mark.parametrize("name", ["tfim_4", "uccsd_H4", "subspace_H4"])
def test_the_slope_of_the_first_angle_is_that_of_differences(name):
    bench, h = CASES[name](), 1e-4
    run, read = triskele.prepare(bench, 1)
    _, gradient = read(run())
    values = []
    for sign in (1, -1):
        bench.theta = bench.theta + sign * h * np.eye(len(bench.theta))[0] * (1 if sign == 1 else 2)
        run, read = triskele.prepare(bench, 1)
        values.append(float(read(run())[0]))
    assert (values[0] - values[1]) / (2 * h) == pytest.approx(gradient[0], abs=1e-6)
