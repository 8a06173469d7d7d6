"""Each fault is tried once in every run of the suite, and a few times where that is slow to do."""

import pytest

from tests.faults.__main__ import faults
from tests.faults.fault import Fault, attempt

FAULTS = [fault for fault in faults() if isinstance(fault, Fault)]  # the fuzzers have tests of their own


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_one_trial_survives(fault):
    assert attempt(fault, 1, seed=7).failures == []


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_many_trials_survive(fault):
    assert attempt(fault, fault.trials, seed=0).failures == []


def test_a_broken_promise_is_counted():
    def trial(rng, folder):
        if rng.random() < 0.5:
            raise OSError("no space")
        return None if list(folder.iterdir()) == [] else "the folder is not empty"

    report = attempt(Fault("half of all trials", "an example", trial, 100), 100, seed=0)
    assert 20 < len(report.failures) < 80 and "OSError: no space" in report.failures[0]
    assert report.row == f"| half of all trials | an example | 100 | {100 - len(report.failures)} |"
