"""Run linters and tests side by side: `python -m tests [-m MARKERS] [--record] [PATH…]`, which `make test` calls.

Each worker process takes one small group of files after another, the longest first. A new process replaces one that
holds much memory, since Numba never frees what it has compiled. `durations.txt` says how long each file takes.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from tests.affected import affected
from triskele.command.cache import size
from triskele.command.warmup import warmup
from triskele.core.extend import disk_cache

ROOT = Path(__file__).parents[1]
DURATIONS = Path(__file__).with_name("durations.txt")
LINTERS = {
    "ruff": ["ruff", "check", "."],
    "format": ["ruff", "format", "--check", "."],
    "layers": ["lint-imports"],
    "mypy": ["mypy", "--cache-dir", str(disk_cache.folder() / "mypy")],
}  # for all clones
UNKNOWN = 5.0  # seconds of a file without a record
GROUP = 15.0  # seconds of files in one request: pytest takes half a second to begin
FULL = 1.5e9  # bytes at which a worker is replaced
HEAD = """\
# Seconds of each test file with compiled kernels, and of each test above two seconds.
# Written by `python -m tests --record`; `make test` takes the longest first, and test_tests.py has a budget.
"""


def durations():
    """Return the recorded seconds by file and by test."""
    lines = DURATIONS.read_text(encoding="utf-8").splitlines() if DURATIONS.exists() else []
    rows = (line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))
    return {name: float(seconds) for seconds, name in rows}


def record(seconds):
    """Write `durations.txt` from the seconds of each test."""
    files = Counter()
    for test, took in seconds.items():
        files[test.partition("::")[0]] += took
    rows = [*files.items(), *((test, took) for test, took in seconds.items() if took > 2)]
    DURATIONS.write_text(HEAD + "".join(f"{took:.1f} {name}\n" for name, took in sorted(rows)), encoding="utf-8")


def files(paths):
    """Return the test files below some paths, by their names from the root."""
    found = {file for path in paths for file in (path.rglob("test_*.py") if path.is_dir() else [path])}
    return sorted(str(file.relative_to(ROOT)) for file in found)


def groups(names):
    """Group test files, the longest first; short files of one folder share a group, and so their kernels."""
    known, found = durations(), []
    for name in names:
        took, folder = known.get(name, UNKNOWN), name.rpartition("/")[0]
        if found and found[-1][0] + took <= GROUP and found[-1][2] == folder:
            found[-1] = (found[-1][0] + took, [*found[-1][1], name], folder)
        else:
            found.append((took, [name], folder))
    return [group for _, group, _ in sorted(found, key=lambda entry: -entry[0])]


class Run:
    """The queue of linters and groups of tests, and what has come of them."""

    def __init__(self, work, arguments):
        self.work, self.arguments, self.lock = list(work), arguments, threading.Lock()
        self.counts, self.seconds, self.peak, self.failures, self.began = Counter(), {}, 0.0, [], time.perf_counter()

    def serve(self):
        """Work through the queue with one worker process after another."""
        worker, log = None, tempfile.TemporaryFile("a+")
        while self.work:
            with self.lock:
                names = self.work.pop(0) if self.work else None
            if names is None:
                break
            if names[0] in LINTERS:
                self.lint(names[0])
                continue
            if worker is None:
                worker = self.start(log)
            log.seek(0)  # for the worker, too: tests limit the size of files, and this is one
            log.truncate()
            answer = self.ask(worker, [*self.arguments, *names])
            if "not imported" in answer["counts"]:  # what an earlier file left may be the reason: in a new process
                self.end(worker)
                worker = self.start(log)
                answer = self.ask(worker, [*self.arguments, *names])
            log.seek(0)
            self.note(f"{names[0]} and {len(names) - 1} more" if names[1:] else names[0], text=log.read(), **answer)
            if not answer["held"] or answer["held"] > FULL:
                self.end(worker)
                worker = None
        if worker is not None:
            self.end(worker)

    @staticmethod
    def start(log):
        """Start a worker process."""
        return subprocess.Popen(
            [sys.executable, "-m", "tests.worker"],
            cwd=ROOT,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )

    @staticmethod
    def end(worker):
        """End a worker process, whose children may hold its standard output for longer."""
        with contextlib.suppress(BrokenPipeError):
            worker.stdin.close()
        worker.wait()
        worker.stdout.close()

    def ask(self, worker, arguments):
        """Send a request and wait for the answer; a process that dies has failed."""
        try:
            worker.stdin.write(json.dumps(arguments) + "\n")
            worker.stdin.flush()
            return json.loads(worker.stdout.readline())
        except (OSError, json.JSONDecodeError):
            print(f"a worker process ended with {worker.wait()}", flush=True)
            return {"good": False, "counts": {"failed": 1}, "seconds": {}, "held": 0, "peak": 0}

    def lint(self, name):
        """Run one linter."""
        program, *arguments = LINTERS[name]
        done = subprocess.run(
            [Path(sys.executable).with_name(program), *arguments], cwd=ROOT, capture_output=True, text=True
        )
        good = done.returncode == 0
        self.note(name, good, {} if good else {"failed": 1}, done.stdout + done.stderr)

    def note(self, name, good, counts, text, seconds=(), held=0, peak=0):
        """Print one line for a group, and keep what it printed if it failed."""
        with self.lock:
            self.counts.update(counts)
            self.seconds.update(seconds)
            self.peak = max(self.peak, peak)
            if not good:
                self.failures.append((name, text))
                lines = text.splitlines()
                found = [line for line in lines if line.startswith(("FAILED ", "ERROR "))]
                print("\n".join(found or lines[-20:]))  # the end is what a process says that dies
            facts = ", ".join(f"{number} {what}" for what, number in sorted(counts.items()))
            passed = time.perf_counter() - self.began
            print(f"{passed:6.0f} s  {'ok' if good else 'FAILED':7}{name}  {facts}", flush=True)

    def report(self):
        """Print what failed, the longest tests and the counts."""
        for name, text in self.failures:
            print(f"\n{'=' * 30} {name}\n{text}")
        print("\nlongest:")
        for test, took in sorted(self.seconds.items(), key=lambda item: -item[1])[:30]:
            print(f"{took:6.1f} s  {test}") if took > 1 else None
        print(
            f"\n{sum(self.seconds.values()):.0f} s of tests in {time.perf_counter() - self.began:.0f} s, "
            f"at most {self.peak / 1e9:.1f} GB in one worker\n\n"
            f"{self.counts['passed']} passed, {self.counts['failed']} failed, {self.counts['skipped']} skipped"
        )


def main():
    """Read the command line, run, and leave the durations if they are asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests", description=__doc__.partition("\n")[0])
    parser.add_argument("-m", dest="markers", default="not slow and not peer", help="an expression as for pytest -m")
    parser.add_argument("-n", dest="jobs", type=int, default=(os.cpu_count() or 1) + 1, help="worker processes")
    parser.add_argument("--affected", metavar="COMMIT", help="what changes since then reach, slow and peer too")
    parser.add_argument("--quick", action="store_true", help="only files that take less than a second")
    parser.add_argument("--record", action="store_true", help="write durations.txt")
    parser.add_argument("paths", nargs="*", type=Path, help="files and folders; all tests, and the linters, by default")
    options = parser.parse_args()
    names = (
        affected(options.affected)
        if options.affected
        else files([path.resolve() for path in options.paths] or [ROOT / "tests"])
    )
    if options.quick:
        known = durations()
        names = [name for name in names if known.get(name, UNKNOWN) < 1]
    if not options.paths and not size()[0]:
        print("compiling the kernels of usual runs", flush=True)
        warmup()
    markers = "" if options.affected else options.markers
    limit = [] if markers else ["-o", "faulthandler_timeout=7200"]
    run = Run(
        [*([] if options.paths else [[name] for name in LINTERS]), *groups(names)],
        ["-q", "-m", markers, *limit, "-p", "no:cacheprovider"],
    )
    threads = [threading.Thread(target=run.serve) for _ in range(options.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run.report()
    if options.record:
        record(run.seconds)
    sys.exit(1 if run.failures else 0)


if __name__ == "__main__":
    main()
