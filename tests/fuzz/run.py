"""Runs of the fuzzers: a process of its own reads damaged files under limits of time and memory, another watches it."""

import dataclasses
import functools
import json
import os
import re
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from pathlib import Path

import numpy as np

from tests.fuzz.mutate import mutate

ROOT = Path(__file__).parents[2]
SECONDS = 10  # of computing for one file
MEMORY = 2 << 30  # bytes beyond what the process has when it begins
SILENCE = 120  # seconds after which a process that says nothing hangs


@dataclasses.dataclass
class Found:
    """Something that should not be: the case, and what happened there."""

    target: str
    case: int
    what: str


class TooLong(BaseException):
    """More time than a file may take."""


def _too_long(*_):
    raise TooLong


@functools.cache
def _bombs(make):
    return make()


def damaged(target, seeds, case):
    """Bytes number `case` of a target: the bombs first, and then mutations. The same in every run."""
    bombs = _bombs(target.bombs)
    if case < len(bombs):
        return bombs[case]
    rng = np.random.default_rng([zlib.crc32(target.name.encode()), case])
    return target.seal(mutate(seeds[rng.integers(len(seeds))], seeds, rng))


def attempt(target, path, data):
    """None if reading ends as it may; else what happened."""
    path.write_bytes(data)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target.read(path)
    except target.errors as error:
        signal.setitimer(signal.ITIMER_PROF, 0)
        if target.names_file and path.stem not in str(error):
            return f"the error does not name the file: {type(error).__name__}: {error}"[:500]
    except TooLong:
        return "took too long at " + _place()
    except BaseException as error:
        signal.setitimer(signal.ITIMER_PROF, 0)
        if isinstance(error, KeyboardInterrupt):
            raise
        frame = traceback.extract_tb(error.__traceback__)
        ours = [f for f in frame if "triskele" in f.filename] or frame
        return (
            f"{type(error).__name__}: {str(error)[:200]} at "
            f"{'/'.join(Path(ours[-1].filename).parts[-3:])}:{ours[-1].lineno}"
        )
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return None


def _place():
    frames = traceback.extract_tb(sys.exc_info()[2])
    return " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in frames[:-6:-1])


def work(names, first, count):
    """In the process that reads: says every case before it, and what was wrong with it after."""
    from tests.fuzz.targets import TARGETS

    signal.signal(signal.SIGPROF, _too_long)
    os.chdir(tempfile.mkdtemp(prefix="fuzz-"))
    for name in names:
        target = TARGETS[name]
        print(json.dumps(["begin", name]), flush=True)
        seeds = target.seeds()
        path = Path.cwd() / f"damaged{target.suffix}"
        for seed in seeds:  # compiles what is needed, and shows that the seeds are whole
            path.write_bytes(target.seal(seed))
            target.read(path)
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
        for case in range(first, first + count):
            print(json.dumps(["case", name, case]), flush=True)
            if what := attempt(target, path, damaged(target, seeds, case)):
                print(json.dumps(["found", name, case, what]), flush=True)
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(json.dumps(["end"]), flush=True)


def watch(names, first, count, say=lambda text: None):
    """Run cases `first` to `first + count` of each target; returns (cases run, list of Found)."""
    found, cases, todo = [], 0, [(name, first, count) for name in names]
    while todo:
        batch = [n for n, f, c in todo if (f, c) == todo[0][1:]]
        now, todo = todo[: len(batch)], todo[len(batch) :]
        command = [
            sys.executable,
            "-m",
            "tests.fuzz",
            "--work",
            "--first",
            str(now[0][1]),
            "--count",
            str(now[0][2]),
            "--targets",
            *batch,
        ]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [ROOT / ".src", ROOT, *sys.path[1:]]))},
        )
        name, case, last = batch[0], now[0][1] - 1, time.monotonic()
        errors, listening, ended, rest = [], True, False, b""
        while True:
            ready, _, _ = select.select([process.stdout, *([process.stderr] if listening else [])], [], [], 5)
            if process.stderr in ready:
                errors = [*errors, os.read(process.stderr.fileno(), 65536)][-20:]
                listening = errors[-1] != b""
            if process.stdout in ready:
                part, last = os.read(process.stdout.fileno(), 65536), time.monotonic()
                if not part:
                    break
                *whole, rest = (rest + part).split(b"\n")
                for kind, *more in map(json.loads, whole):
                    if kind == "begin":
                        name, case = more[0], now[0][1] - 1
                        say(name)
                    elif kind == "case":
                        name, case = more
                        cases += 1
                    elif kind == "found":
                        found.append(Found(*more))
                        say(f"  {more[0]} {more[1]}: {more[2]}")
                    ended = kind == "end"
            elif time.monotonic() - last > SILENCE:
                process.kill()
        process.wait()
        errors.append(process.stderr.read())
        process.stdout.close()
        process.stderr.close()
        if not ended:  # killed, crashed or not begun: note it, and go on behind it
            text = re.sub(r"\s+", " ", b"".join(errors).decode(errors="replace"))[-600:]
            what = f"the process ended with {process.returncode}: {text}"
            found.append(Found(name, case, what))
            say(f"  {name} {case}: {what}")
            left = now[0][1] + now[0][2] - (case + 1)
            if left > 0 and case >= now[0][1]:
                todo.insert(0, (name, case + 1, left))
            k = batch.index(name)
            todo += now[k + 1 :]
    return cases, found
