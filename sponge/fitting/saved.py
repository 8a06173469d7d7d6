"""Checkpoints of fits: the rounds so far, and the samples from which the next one continues."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from triskele.core.extend import archive

from ..errors import CheckpointError
from .problem import Problem

__all__ = ["Saved"]

_KIND, _VERSION = "checkpoint of a fit", 1


class Saved:
    """The file of a fit, if it has one.

    `options` are JSON-like: what else a fit must have in common with the one that wrote the file. A file that is
    damaged or belongs to another fit raises CheckpointError, which names what differs.
    """

    def __init__(self, path: str | os.PathLike | None, problem: Problem, **options: Any):
        self.path, self.value = path, None  # value: the description that the file holds; None without a file
        self.arrays: dict[str, np.ndarray] = {}
        self._identity = json.loads(
            json.dumps(
                {
                    "parameters": {name: np.ravel(x).tolist() for name, x in problem.parameters.start.items()},
                    "targets": [
                        *((t.name, float(np.sum(t.value))) for t in problem.sampled),
                        *(("configurations", g.total) for g in problem.given),
                    ],
                    "positions": float(np.sum(problem.system.positions)),
                    **options,
                }
            )
        )
        if path is not None and os.path.exists(path):
            found, self.arrays = archive.read(path, _KIND, (_VERSION,), CheckpointError)
            where = f"checkpoint {os.fspath(path)!r}"
            try:
                there, self.value = dict(found["identity"]), dict(found["value"])
            except (KeyError, TypeError, ValueError) as error:
                raise CheckpointError(f"{where}: does not hold a fit: {type(error).__name__} {error}") from error
            differ = [
                f"{name} ({there.get(name)!r:.60} in the file, {x!r:.60} here)"
                for name, x in self._identity.items()
                if there.get(name) != x
            ]
            if differ:
                raise CheckpointError(
                    f"{where}: must belong to this fit, but these differ: {', '.join(differ)} "
                    f"(choose another path, or delete the file)"
                )

    def write(self, value: dict[str, Any], arrays: dict[str, np.ndarray] | None = None) -> None:
        """Write the file, if there is one."""
        if self.path is not None:
            archive.write(self.path, _KIND, _VERSION, {"identity": self._identity, "value": value}, arrays or {})
