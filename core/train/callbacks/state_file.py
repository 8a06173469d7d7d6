"""Write the whole state of a run to a file, and resume from it."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import check, tree
from ...disk.save import load, save
from ...errors import CheckpointError
from .callback import Callback

if TYPE_CHECKING:
    from ..loop import Run

__all__ = ["StateFile"]

_VERSION = 2


class StateFile(Callback):
    """Write the state of the run to a file after each epoch; resume from the file if it exists.

    The file holds everything from which `Model.fit` resumes bit for bit: parameters, optimizer, random key, position
    in the data, sums of metrics, history, and the state of every callback. It is replaced atomically. `Checkpoint`
    keeps such a file in a folder, with the best network.

    Parameters
    ----------
    path : path-like
    identity : dict of str to JSON-like, optional
        What else a run must have in common with the one that wrote the file, such as sizes and sums of its data.

    Raises
    ------
    CheckpointError
        At the beginning of the run, if the file is another one, or belongs to another network, other callbacks or
        another identity; the message names what differs.
    OSError
        If the file cannot be written, as on a full disk. The file from before stays whole.

    Examples
    --------
    >>> from triskele.core import train
    >>> train.StateFile("run.safetensors", {"samples": 1000})
    StateFile('run.safetensors')
    """

    def __init__(self, path: str | os.PathLike, identity: Mapping[str, Any] | None = None):
        self.path, self.identity = Path(path), {} if identity is None else dict(identity)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({os.fspath(self.path)!r})"

    @contextlib.contextmanager
    def opened(self, run: Run) -> Iterator[None]:
        """Resume if the file exists."""
        if self.path.exists():
            self._resume(run)
        yield

    def epoch_saved(self, run: Run) -> None:
        """Write the state after an epoch."""
        self.write(run)

    def interrupted(self, run: Run) -> None:
        """Write the state before the process ends."""
        self.write(run)

    def write(self, run: Run) -> None:
        """Write the state."""
        snapshot = run.snapshot()
        text = {"version": _VERSION, "records": run.history.records, "run": self._identity(run)}
        arrays = {name: tree.leaves(snapshot[name]) for name in ("state", "inside")}
        save(self.path, {"text": np.frombuffer(json.dumps(text).encode(), np.uint8), **snapshot, **arrays})

    def _identity(self, run):
        """Return what two runs must have in common, converted by JSON as the file is."""
        callbacks = [f"{k}:{type(c).__name__}" for k, c in enumerate(run.callbacks)]
        return json.loads(json.dumps({"callbacks": callbacks, "seed": run.seed, **self.identity}))

    def _resume(self, run):
        where = f"checkpoint {os.fspath(self.path)!r}"
        try:
            found = load(self.path)
            text = json.loads(found["text"].tobytes())
            version, theirs, records = text["version"], dict(text["run"]), [dict(r) for r in text["records"]]
            if version == _VERSION:
                self._check_same(run, theirs, found)
                if int(found["epoch"]) != len(records):
                    raise ValueError(f"{found['epoch']} epochs with {len(records)} records")
                structures = {name: tree.structure(run.snapshot()[name]) for name in ("state", "inside")}
                found |= {name: tree.unflatten(s, found[name]) for name, s in structures.items()}
                run.restore(found, records)
        except CheckpointError as error:
            raise CheckpointError(f"{where}: {error} (choose another path, or delete it)") from None
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
            raise CheckpointError(
                f"{where}: must be a training state, got another or a damaged file ({type(error).__name__}: {error})"
            ) from error
        check.choice(version, [_VERSION], f"{where}: version", error=CheckpointError, hint="written by another release")

    def _check_same(self, run, theirs, found):
        """Raise CheckpointError unless the file is one of this training."""
        mine = self._identity(run)
        differ = [
            f"{name} ({theirs.get(name)!r:.60} in the file, {mine.get(name)!r:.60} here)"
            for name in {**mine, **theirs}
            if mine.get(name) != theirs.get(name)
        ]
        if differ:
            raise CheckpointError(f"must belong to this training, but these differ: {', '.join(differ)}")
        for name in ("state", "inside"):
            places = tree.paths(run.snapshot()[name])
            arrays = found[name] = [np.asarray(x) for x in found[name]]
            for (path, leaf), array in zip(places, arrays, strict=False):
                if (one := _kind(array)) != (other := _kind(leaf)):
                    raise CheckpointError(
                        f"must belong to this network, optimizer and metrics, but has {one} for "
                        f"{path}, which is {other} in this run"
                    )
            if len(places) != len(arrays):
                raise CheckpointError(
                    f"must belong to this network, optimizer and metrics, but has {len(arrays)} "
                    f"arrays where this run has {len(places)}"
                )


def _kind(x):
    return f"{np.result_type(x)}{list(np.shape(x))}"
