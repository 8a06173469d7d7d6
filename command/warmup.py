"""Compile the kernels that most scripts need, so that they start at once.

Each package has a module `warmup` with a tuple `WORK` of functions, each of which calls part of the public interface
with inputs as small as its kernels allow. They run in processes of their own, and what they compile stays in the cache.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib import import_module
from pathlib import Path

from . import PACKAGES

__all__ = ["arguments", "run", "ship", "warmup"]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("packages", nargs="*", metavar="package", help=f"any of {', '.join(PACKAGES)}; all by default")
    parser.add_argument("--jobs", type=int, help="number of processes at the same time; by default one for each core")
    parser.add_argument("--ship", action="store_true", help="compile into the package itself, for `make wheel`")


def run(options: argparse.Namespace) -> None:
    """Compile, and print how much there was to do."""
    from .cache import size

    packages = options.packages or PACKAGES
    if options.ship:
        ship(packages, jobs=options.jobs)
        return
    began, (before, _) = time.perf_counter(), size()
    warmup(packages, jobs=options.jobs)
    files, bytes_ = size()
    print(
        f"{', '.join(packages)}: {files - before} new files in {time.perf_counter() - began:.0f} s; the cache holds "
        f"{files} files, {bytes_ / 1e6:.0f} MB"
    )


def warmup(packages: Iterable[str] = PACKAGES, *, jobs: int | None = None, environment: Mapping[str, str] = {}) -> None:
    """Compile the kernels of whole packages, unless they are compiled already.

    `jobs` processes, by default one for each core, run at the same time, with the variables of `environment`. Raise
    RuntimeError, with what it printed, if one fails.
    """
    from triskele.core.extend import check, progress_bar

    packages = list(packages)
    for name in packages:
        if name not in PACKAGES:
            raise ValueError(
                f"warmup: packages must be among {', '.join(PACKAGES)}, got {name!r}{check.near(name, PACKAGES)}"
            )
    if jobs is not None:
        check.integer(jobs, "warmup: jobs", 1)
    work = [(p, f.__name__) for p in packages for f in import_module(f"triskele.{p}.warmup").WORK]
    with (
        ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool,
        progress_bar("compiling", "part", len(work), show=None) as bar,
    ):
        futures = [pool.submit(_run, *item, environment) for item in work]
        try:
            for done in as_completed(futures):
                done.result()
                bar.update()
        finally:
            pool.shutdown(cancel_futures=True)


def _run(package: str, function: str, environment: Mapping[str, str]) -> None:
    code = f"from triskele.{package}.warmup import {function}; {function}()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "TRISKELE_QUIET": "1", "TRISKELE_COMPILE_JOBS": "1", **environment},
    )
    if done.returncode:
        raise RuntimeError(f"warmup: {function} of {package} must run to its end, got\n{done.stderr.strip()}")


def ship(packages: Iterable[str] = PACKAGES, *, jobs: int | None = None) -> None:
    """Compile the kernels of whole packages for the usual levels of processors into the package, for a wheel of it."""
    from triskele.core.extend import disk_cache, native

    shutil.rmtree(disk_cache.SHIPPED, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        for target in native.levels():
            print(f"for {target.cpu}", flush=True)
            warmup(
                packages,
                jobs=jobs,
                environment={
                    "TRISKELE_CACHE_DIR": folder,
                    "TRISKELE_CPU": target.cpu,
                    "NUMBA_CPU_NAME": target.cpu,
                    "NUMBA_CPU_FEATURES": target.features,
                },
            )
        # sources, which each user's processes write themselves
        shutil.rmtree(Path(folder, "generated"), ignore_errors=True)
        shutil.copytree(folder, disk_cache.SHIPPED)
