"""The benchmark's own honesty: what tools must give, what stands in a row, and that our programs do what a case
says.
"""

from dataclasses import replace

import numpy as np
import pytest

from tests.benchmarks.reinforce import __main__ as harness
from tests.benchmarks.reinforce import curves
from tests.benchmarks.reinforce.bench import CASES, Bench
from tests.benchmarks.reinforce.tools import triskele
from triskele import core

SEARCH = Bench("rollouts", "tic_tac_toe", simulations=100, unit="simulations/s")
STEPS = Bench("steps", "CartPole-v1", batch=8, steps=5, unit="steps/s")
TRAINING = Bench("ppo", "CartPole-v1", steps=100, target=475.0)


@pytest.mark.parametrize(
    ("bench", "mine", "number", "why"),
    [
        (SEARCH, None, 100.0, None),
        (SEARCH, None, 99.0, "ran 99 simulations of 100"),
        (STEPS, None, -3.0, None),
        (STEPS, 1.0, 0.95, None),
        (STEPS, 1.0, 0.5, "gave a mean reward of 0.5, ours 1"),
        (STEPS, 1.0, np.nan, "gave a mean reward of nan, ours 1"),
        (TRAINING, None, 480.0, None),
        (TRAINING, None, 300.0, "ended at a mean return of 300"),
        (TRAINING, None, -np.inf, "ended at a mean return of -inf"),
    ],
)
def test_what_a_tool_must_give(bench, mine, number, why):
    assert harness.wrong(bench, mine, number) == why


def test_absent_and_failed_tools_in_a_row():
    starts = {("triskele", "cold"): 2.0, ("triskele", "warm"): 0.25}
    times = {"triskele": [2e-4, 1e-4, 3e-4], "openspiel": [1e-3]}
    cells, best = harness.row("a search", 1, SEARCH, times, starts)
    row = dict(zip(harness.HEADER, cells, strict=True))
    assert (row["triskele"], row["its best"], row["openspiel"], row["mctx"]) == ("500 k", "1 M", "100 k (5.00x)", "-")
    assert (row["best peer"], best, row["first call: cold"], row["warm"]) == ("5.00x", 5.0, "2 s", "250 ms")
    failed, best = harness.row("a search", 1, SEARCH, {"openspiel": [1e-3]}, {})
    assert (len(failed), failed[3], best) == (len(harness.HEADER), "failed", None)


def test_units():
    assert harness.shown(SEARCH, 1e-3) == "100 k"
    assert harness.shown(replace(SEARCH, unit="us/simulation"), 1e-3) == "10"
    assert harness.shown(TRAINING, 2.5) == "2.5"
    assert harness.scaling({("a", 1): 3.0, ("a", 2): 2.0, ("b", 2): 1.0}) == [
        "a: two threads are 1.50x as fast as one (at best)"
    ]


@pytest.fixture
def threads():
    before = core.get_threads()
    yield before
    core.set_threads(before)


@pytest.mark.parametrize(
    "bench",
    {(b.kind, b.name): b for b in CASES.values() if not b.trains}.values(),
    ids=lambda bench: f"{bench.kind} {bench.name}",
)
def test_our_programs_give_what_a_case_says(bench, threads):
    bench = replace(
        bench, batch=min(bench.batch, 32), simulations=min(bench.simulations, 50), steps=min(bench.steps, 5)
    )
    run, read = triskele.prepare(bench, threads)
    (number,) = read(run())
    assert harness.wrong(bench, None, float(number)) is None and np.isfinite(number)


def test_returns_of_the_last_episodes():
    from triskele.reinforce.training.episodes import Episodes

    episodes = Episodes.start(1)
    assert triskele.recent(episodes, 2) == -np.inf
    for k in range(1, 103):
        episodes.add(np.array([[k], [0.0]]), np.array([[True], [False]]), np.zeros((2, 1), bool))
    assert triskele.recent(episodes, 2) == 101.5 and triskele.recent(episodes, 100) == 52.5


def test_points_of_a_curve():
    found = curves.points([(25, 1.0), (60, 2.0), (100, 3.0)], 100)
    np.testing.assert_array_equal(found, [np.nan, np.nan, 1, 1, 1, 2, 2, 2, 2, 3])
