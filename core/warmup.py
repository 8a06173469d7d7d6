"""Compile ahead of time: small runs of everything whose kernels every user needs, in processes of their own.

Each package has a module `warmup` with a tuple `WORK` of functions, each of which calls part of the public interface
with inputs as small as its kernels allow. What they compile stays in the store.

    python -m triskele.core.warmup [core sponge quantum reinforce] [--jobs 2]

With ``--ship`` the code goes into the package itself, for each level of processors that this one can run: `make wheel`
does that, so that these parts start without compilation for whoever installs the wheel.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib import import_module
from pathlib import Path

import numpy as np

from . import store
from .kernels import native
from .progress import progress_bar

__all__ = ["WORK", "ship", "warmup"]

PACKAGES = ("core", "sponge", "quantum", "reinforce")


def warmup(packages: Iterable[str] = PACKAGES, *, jobs: int | None = None, environment: Mapping[str, str] = {}) -> None:
    """Compile the kernels of whole packages, unless they are compiled already.

    Parameters
    ----------
    packages : iterable of str
        Names from "core", "sponge", "quantum" and "reinforce".
    jobs : int, optional
        Number of processes that compile at the same time. The default is the number of cores.
    environment : mapping of str to str
        Variables that are set for these processes.

    Raises
    ------
    ValueError
        If a package has another name.
    RuntimeError
        If a run fails; the message ends with what it printed.

    Examples
    --------
    >>> warmup([])
    """
    packages = list(packages)
    if unknown := set(packages) - set(PACKAGES):
        raise ValueError(f"warmup: packages must be among {', '.join(PACKAGES)}, got {', '.join(sorted(unknown))}")
    work = [(p, f.__name__) for p in packages for f in import_module(f"triskele.{p}.warmup").WORK]
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool, progress_bar(
            "compiling", "part", len(work), show=None) as bar:
        futures = [pool.submit(_run, *item, environment) for item in work]
        try:
            for done in as_completed(futures):
                done.result()
                bar.update()
        finally:
            pool.shutdown(cancel_futures=True)


def _run(package: str, function: str, environment: Mapping[str, str]) -> None:
    code = f"from triskele.{package}.warmup import {function}; {function}()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env={**os.environ, "TRISKELE_QUIET": "1", **environment})
    if done.returncode:
        raise RuntimeError(f"warmup: {function} of {package} must run to its end, got\n{done.stderr.strip()}")


def ship(packages: Iterable[str] = PACKAGES, *, jobs: int | None = None) -> None:
    """Compile the kernels of whole packages for the usual levels of processors into the package, for a wheel of it.

    Parameters
    ----------
    packages, jobs
        As for `warmup`.
    """
    shutil.rmtree(store.SHIPPED, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        for target in native.levels():
            print(f"for {target.cpu}", flush=True)
            warmup(packages, jobs=jobs, environment={
                "TRISKELE_CACHE_DIR": folder, "TRISKELE_CPU": target.cpu,
                "NUMBA_CPU_NAME": target.cpu, "NUMBA_CPU_FEATURES": target.features,
            })
        shutil.rmtree(Path(folder, "generated"))  # sources, which each user's processes write themselves
        shutil.copytree(folder, store.SHIPPED)


def training() -> None:
    """A network with a convolution, trained in both precisions: matrix products, reductions, random numbers."""
    from . import jit, nn, optim, random, value_and_grad

    optimizer = optim.Adam(1e-3)

    @jit
    def step(net, state, images, labels):
        loss = lambda net: nn.cross_entropy(net["mlp"](net["conv"](images).reshape(len(images), -1)), labels)
        value, grads = value_and_grad(loss)(net)
        return value, *optimizer.step(net, grads, state)

    for dtype in (np.float32, np.float64):
        net = {"conv": nn.Conv2d(random.key(0), 1, 2, 3, dtype=dtype),
               "mlp": nn.MLP.init(random.key(1), [128, 16, 3], dtype=dtype)}
        step(net, optimizer.init(net), np.ones((64, 8, 8, 1), dtype), np.zeros(64, np.int64))


def linear_algebra() -> None:
    """Factorisations, Fourier transforms, sorting: native kernels behind NumPy's functions."""
    from . import grad, jit

    for n in (6, 300):
        a = np.eye(n) * 3.0 + 0.1
        jit(lambda a: np.linalg.solve(a, np.fft.fft(a).real) @ np.linalg.inv(a))(a)
        jit(grad(lambda a: np.sum(np.linalg.cholesky(a @ a.T)) + np.sum(np.sort(a.ravel())) + np.cumsum(a)[-1]))(a)


WORK = (training, linear_algebra)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("packages", nargs="*", default=list(PACKAGES), metavar="package",
                        help=f"among {', '.join(PACKAGES)}; all by default")
    parser.add_argument("--jobs", type=int, help="processes at the same time; by default one for each core")
    parser.add_argument("--ship", action="store_true", help="compile into the package, for `make wheel`")
    options = vars(parser.parse_args())
    try:
        (ship if options.pop("ship") else warmup)(**options)
    except (ValueError, RuntimeError) as error:
        sys.exit(f"error: {error}")
