"""Run test files in this process, one request after another: what `python -m tests` starts on each processor.

A request is a line of JSON on standard input: a list of arguments for pytest. The answer is a line of JSON on standard
output: the outcomes, the seconds of each test, and the memory that this process holds and has held.
"""

import faulthandler
import gc
import json
import os
import resource
import sys
import time
from collections import Counter

import pytest

KIB = 1 if sys.platform == "darwin" else 1024  # unit of ru_maxrss in bytes


class Outcomes:
    """A plugin that counts the outcomes and measures each test."""

    def __init__(self):
        self.counts, self.seconds = Counter(), {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        """Measure a test with its fixtures.

        Processor time, children included, where it is less than wall time: a busy machine makes no test slower.
        """
        wall, before = time.perf_counter(), sum(os.times()[:4])
        result = yield
        self.seconds[item.nodeid] = min(time.perf_counter() - wall, sum(os.times()[:4]) - before)
        return result

    def pytest_runtest_logreport(self, report):
        """Count a test once, by its call, or by what failed or was skipped around it."""
        if report.when == "call" or report.outcome != "passed":
            self.counts[report.outcome] += 1

    def pytest_collectreport(self, report):
        """Count a file that cannot be imported as a failure, one that skips itself as skipped."""
        if report.outcome != "passed":
            self.counts["not imported" if report.outcome == "failed" else report.outcome] += 1


def memory():
    """Return the bytes that this process holds now, and the most that it has held."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"), peak
    except OSError:
        return peak, peak


def main():
    """Answer requests until standard input ends; all that tests print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        outcomes = Outcomes()
        status = pytest.main(json.loads(line), plugins=[outcomes])
        sys.stdout.flush()
        gc.collect()
        good = status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        held, peak = memory()
        json.dump(
            {"good": good, "counts": outcomes.counts, "seconds": outcomes.seconds, "held": held, "peak": peak}, answers
        )
        answers.write("\n")
        answers.flush()
    faulthandler.dump_traceback_later(60, exit=True)  # a thread or a child that a test left may never let go


if __name__ == "__main__":
    main()
