"""What a run is: its settings, data, code and machine, in a form that two runs can be compared by."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import os
import platform
import re
import sys
import sysconfig
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import tree
from ...kernels import native, threads

if TYPE_CHECKING:
    from ..loop import Run

__all__ = ["code_of", "data_hash", "described", "settings_of", "steps_of", "system"]

_HASHED = 1 << 26  # bytes of data that are hashed; of more, rows at equal distances
_ROOT = Path(__file__).resolve().parents[3]
_OURS = [_ROOT / name for name in ("core", "sponge", "quantum", "reinforce", "command", ".src")]


def settings_of(run: Run) -> dict[str, Any]:
    """Everything that the user chose, by name."""
    model, step = run.model, run.model.step
    given = {
        name: x
        for name in ("accumulate", "clip", "average", "checkpoint")
        if (x := getattr(step, name)) not in (None, False, 1)
    }
    leaves = tree.paths(run.state.params)
    return {
        "network": type(model.net).__name__,
        "parameters": sum(np.size(leaf) for _, leaf in leaves),
        "arrays": {path: f"{np.result_type(leaf)}{list(np.shape(leaf))}" for path, leaf in leaves},
        "loss": described(model.loss),
        "optimizer": described(step.optimizer),
        **given,
        "metrics": list(model.metrics),
        "epochs": run.epochs,
        "seed": run.seed,
        "data": ".".join(steps_of(run.source)),
        "validation": None if run.validation is None else ".".join(steps_of(run.validation)),
        "callbacks": [described(c) for c in run.callbacks],
    }


def steps_of(source: Any) -> list[str]:
    """The steps of a pipeline, from its source on."""
    if isinstance(source, (list, tuple)):
        return [f"list of {len(source)} batches"]
    if not hasattr(source, "iterate"):
        return [type(source).__name__]
    found = []
    while (parent := getattr(source, "parent", None)) is not None:
        found.append(repr(source).removeprefix(f"{parent!r}."))
        source = parent
    return [repr(source), *found[::-1]]


def described(value: Any) -> str:
    """Return a setting in words that are the same in every process; functions show the numbers that they close over.

    >>> from triskele.core import optim
    >>> described(optim.Lion(1e-3)) == described(optim.Lion(2e-3))
    False
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        inner = ", ".join(f"{f.name}={described(getattr(value, f.name))}" for f in dataclasses.fields(value))
        return f"{type(value).__name__}({inner})"
    if inspect.isfunction(value):
        held = inspect.getclosurevars(value).nonlocals
        inner = ", ".join(f"{name}={described(x)}" for name, x in sorted(held.items()))
        return value.__qualname__.split(".<locals>")[0] + (f"({inner})" if inner else "")
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(described, value))}]"
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))[:400]


def data_hash(source: Any, batch: Any) -> str:
    """Hash of the data: of the arrays in memory, else of a list of batches, else of the first batch."""
    memory = getattr(source, "arrays_in_memory", lambda: None)()
    arrays = memory.arrays if memory is not None else source if isinstance(source, (list, tuple)) else batch
    leaves = [np.asarray(x) for x in tree.leaves(arrays)]
    total = sum(x.nbytes for x in leaves)
    made = hashlib.blake2b(digest_size=8)
    for x in leaves:
        made.update(f"{x.dtype}{x.shape}".encode())
        every = max(1, -(-total // _HASHED))
        made.update(np.ascontiguousarray(x[::every] if x.ndim else x).tobytes())
    return made.hexdigest()


def code_of() -> dict[str, str]:
    """Hashes of the user's code: of every module of this process that was not installed, by its file."""
    installed = [Path(p).resolve() for p in {*sysconfig.get_paths().values(), sys.prefix, sys.base_prefix}]
    found = {}
    for module in list(sys.modules.values()):
        name = getattr(module, "__file__", None)
        if not isinstance(name, str) or not name.endswith(".py"):
            continue
        path = Path(name).resolve()
        if any(path.is_relative_to(folder) for folder in (*installed, *_OURS)) or not path.is_file():
            continue
        found[_short(path)] = hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()
    return dict(sorted(found.items()))


def _short(path):
    """The path from the working folder, if it lies there."""
    here = Path.cwd()
    return os.fspath(path.relative_to(here) if path.is_relative_to(here) else path)


def system() -> dict[str, Any]:
    """Versions, the processor and the number of threads."""
    target = native.host_target()
    return {
        "triskele": version("triskele"),
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "numba", "llvmlite")},
        "system": platform.platform(),
        "processor": target.cpu,
        "threads": threads.get_threads(),
    }
