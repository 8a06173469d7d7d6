"""Checkpoints of algorithms that ask for values one after the other: the values, in their order.

An optimizer that is begun again with the same start asks for the same values. It gets those of the file in place of
computing them, and so comes to the same state, bit for bit, whatever the optimizer is.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from triskele.core.extend import CheckpointError, Work, archive

__all__ = ["Journal", "describe"]

_KIND, _VERSION = "checkpoint of angles", 1
_INTERVAL = 1.0  # seconds between two writes; longer where writing takes more than a twentieth of it


def describe(function: Any) -> dict[str, Any]:
    """What identifies a function of angles: for an `Expectation` its circuit, operators and method."""
    circuit = getattr(function, "circuit", None)
    if circuit is None:
        return {"function": getattr(function, "__qualname__", type(function).__name__)}
    operators = [h for h in getattr(function, "hamiltonians", ())]
    return {
        "circuit": _digest(repr(list(circuit)).encode()),
        "operators": _digest(
            *(np.ascontiguousarray(a).tobytes() for h in operators for a in (h.x, h.z, h.coefficients))
        ),
        "method": function.method if hasattr(function, "method") else type(function).__name__,
    }


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


class Journal:
    """Values that were asked for, in their order, and the file that keeps them; without a path, there is none.

    Errors begin with `where`, the function that works. A file must agree with `identity`, values as in JSON; `step`
    counts the steps that it has.
    """

    def __init__(self, where: str, path: str | os.PathLike | None, identity: Mapping[str, Any]):
        self.where, self.path, self.identity = where, path, {"work": where, **identity}
        self.step, self._at, self._due = 0, 0, time.monotonic() + _INTERVAL
        self._entries: list[np.ndarray] = []
        self._asked: list[int] = []
        self._work: Work | None = None
        self._frozen = False
        if path is not None and os.path.exists(path):
            self._read(path)

    def _read(self, path: str | os.PathLike) -> None:
        where = f"checkpoint {os.fspath(path)!r}"
        value, arrays = archive.read(path, _KIND, (_VERSION,), CheckpointError)
        try:
            there, self.step, self._asked = dict(value["identity"]), int(value["step"]), list(value["asked"])
            self._entries = np.split(arrays["entries"], np.cumsum(value["sizes"])[:-1]) if value["sizes"] else []
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise CheckpointError(
                f"{where}: does not hold values of a function: {type(error).__name__} {error}"
            ) from error
        differ = [
            f"{name} ({there.get(name)!r:.60} in the file, {self.identity.get(name)!r:.60} here)"
            for name in sorted(there.keys() | self.identity.keys())
            if there.get(name) != self.identity.get(name)
        ]
        if differ:
            raise CheckpointError(
                f"{where}: must belong to this work, but these differ: {', '.join(differ)} (choose "
                f"another path, or delete the file)"
            )

    def attach(self, work: Work) -> None:
        """Take `work` as the one whose reporters are brought to the disk before the file is written."""
        self._work = work

    def __call__(self, theta: np.ndarray, compute: Callable[[], np.ndarray], stream: Any = None) -> np.ndarray:
        """Return the values at `theta` (P,): the next ones of the file, or the vector that `compute` returns.

        `stream.position` counts the random numbers that were drawn; it is set to that of the file.
        """
        if self.path is None or self._frozen:
            return compute()
        if self._at < len(self._entries):
            entry, position = self._entries[self._at], self._asked[self._at]
            self._at += 1
            if not np.array_equal(entry[: theta.size], theta):
                raise CheckpointError(
                    f"checkpoint {os.fspath(self.path)!r}: must have the angles that are asked for, "
                    f"got others at value {self._at} (another function, or release of SciPy?)"
                )
            if stream is not None:
                stream.position = position
            return entry[theta.size :].copy()
        values = compute()
        self._entries.append(np.concatenate([theta, values]))
        self._asked.append(0 if stream is None else stream.position)
        self._at += 1
        if time.monotonic() >= self._due:
            self.write()
        return values

    def freeze(self) -> None:
        """Keep no more values: those asked for at an early end are not the next ones of the work."""
        self._frozen = True

    def write(self) -> None:
        """Write the file, if there is one."""
        if self.path is None:
            return
        began = time.monotonic()
        if self._work is not None:
            self._work.sync()
            self.step = max(self.step, self._work.step)
        entries = np.concatenate(self._entries) if self._entries else np.zeros(0)
        archive.write(
            self.path,
            _KIND,
            _VERSION,
            {
                "identity": self.identity,
                "step": self.step,
                "asked": self._asked,
                "sizes": [e.size for e in self._entries],
            },
            {"entries": entries},
        )
        now = time.monotonic()
        self._due = now + max(_INTERVAL, 20 * (now - began))
