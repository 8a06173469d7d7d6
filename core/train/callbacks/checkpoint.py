"""Write the whole state of a run, and resume from it."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import check, tree
from ...errors import CheckpointError
from ...files import locked
from ...storage import load, save
from .callback import Callback, Monitor

if TYPE_CHECKING:
    from ..loop import Run

__all__ = ["Checkpoint"]

_VERSION = 1


class Checkpoint(Callback):
    """Write the state of the run to a folder; resume from it if the folder has one.

    ``last.safetensors`` is the last state, from which `Model.fit` resumes bit for bit: parameters, optimizer, random
    key, position in the data, sums of metrics, history, and the state of every callback. It is replaced atomically.
    ``best.safetensors`` is the network of the best epoch, which `core.load` reads, and ``epoch-0007.safetensors`` are
    the networks of earlier epochs.

    Parameters
    ----------
    folder : path-like
        Made if it does not exist. One run at a time can use it.
    every : "epoch" or int, default "epoch"
        When to write the state: after each epoch, or also every that many steps.
    best : str, optional
        Number by which the best network is chosen, such as ``"validation/loss"``.
    mode : {"min", "max"}, optional
        Which way is better; see `EarlyStopping`.
    keep : int, default 0
        Number of epochs whose networks are kept.

    Raises
    ------
    CheckpointError
        At the beginning of the run, if another run uses the folder, or its state belongs to another network or other
        callbacks; the message names the first that differs.
    OSError
        If a file cannot be written, as on a full disk. The files from before stay whole.

    Examples
    --------
    >>> from triskele.core import train
    >>> train.Checkpoint("run", best="validation/accuracy", keep=3)
    Checkpoint('run')
    """

    def __init__(self, folder: str | os.PathLike, *, every: str | int = "epoch", best: str | None = None,
                 mode: str | None = None, keep: int = 0):
        if every != "epoch":
            check.integer(every, "Checkpoint: every", 1)
            self.step_end = self._step_end  # only then: step hooks cost time
        check.integer(keep, "Checkpoint: keep", 0)
        self.folder, self.every, self.keep = Path(folder), every, int(keep)
        self._best = None if best is None else Monitor(best, 0, 0.0, mode)

    def __repr__(self) -> str:
        return f"Checkpoint({os.fspath(self.folder)!r})"

    @property
    def path(self) -> Path:
        """The file of the last state."""
        return self.folder / "last.safetensors"

    def check(self, known: Collection[str]) -> None:
        """Raise ValueError if the number that chooses the best network will not be recorded."""
        if self._best is not None:
            self._best.check(known)

    @contextlib.contextmanager
    def opened(self, run: Run) -> Iterator[None]:
        """Lock the folder, and resume if it has a state."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise CheckpointError(f"Checkpoint {os.fspath(self.folder)!r}: it must be a folder, got a file (choose "
                                  f"another name)") from None
        with locked(self.folder / "lock", f"Checkpoint {os.fspath(self.folder)!r}", CheckpointError):
            if self._best is not None:
                self._best.best = None
            if self.path.exists():
                self._resume(run)
            yield

    def _step_end(self, run: Run) -> None:
        if run.step % self.every == 0:  # type: ignore[operator]
            self._write(run)

    def epoch_end(self, run: Run) -> None:
        """Choose the best network."""
        if self._best is not None and self._best.better(run, value := self._best.value(run), self._best.best):
            self._best.best = value
            save(self.folder / "best.safetensors", run.net)
        if self.keep:
            save(self.folder / f"epoch-{run.epoch:04d}.safetensors", run.net)
            for old in sorted(self.folder.glob("epoch-[0-9]*.safetensors"))[: -self.keep]:
                old.unlink()

    def epoch_saved(self, run: Run) -> None:
        """Write the state after an epoch."""
        self._write(run)

    def interrupted(self, run: Run) -> None:
        """Write the state before the process ends."""
        self._write(run)

    def _write(self, run):
        snapshot = run.snapshot()
        text = {"version": _VERSION, "leaves": _names(run), "records": run.history.records,
                "callbacks": list(snapshot["callbacks"]), "seed": run.seed}
        arrays = {name: tree.leaves(snapshot[name]) for name in ("state", "inside")}
        save(self.path, {"text": np.frombuffer(json.dumps(text).encode(), np.uint8), **snapshot, **arrays})

    def _resume(self, run):
        where = f"Checkpoint {os.fspath(self.path)!r}"
        found = load(self.path)
        try:
            text = json.loads(found["text"].tobytes())
            version, leaves, callbacks = text["version"], text["leaves"], text["callbacks"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(f"{where}: must be a training state, got another file ({error})") from error
        if version != _VERSION:
            raise CheckpointError(f"{where}: version must be {_VERSION}, got {version} (written by another release)")
        fresh = run.snapshot()
        for mine, theirs in zip(_names(run), leaves, strict=False):
            if mine != theirs:
                raise CheckpointError(f"{where}: it must belong to this network, optimizer and metrics, but has "
                                      f"{theirs} where this run has {mine} (choose another folder, or delete it)")
        if len(leaves) != len(_names(run)):
            raise CheckpointError(f"{where}: it must belong to this network, optimizer and metrics, but has "
                                  f"{len(leaves)} arrays where this run has {len(_names(run))}")
        for what, mine, theirs in (("callbacks", list(fresh["callbacks"]), callbacks),
                                   ("seed", run.seed, text["seed"])):
            if mine != theirs:
                raise CheckpointError(f"{where}: {what} must be those of the run that wrote it, {theirs}, got {mine}")
        for name in ("state", "inside"):
            found[name] = tree.unflatten(tree.structure(fresh[name]), [np.asarray(x) for x in found[name]])
        run.restore(found, text["records"])

    def state(self) -> Any:
        """The best value so far."""
        return {"best": None if self._best is None else self._best.best}

    def restore(self, state: Any) -> None:
        """Take back the best value."""
        if self._best is not None:
            self._best.best = state["best"]


def _names(run):
    """Path, dtype and shape of every array of the state, and of the sums of compiled metrics."""
    return [f"{path} {np.result_type(leaf)}{list(np.shape(leaf))}" for part in (run.state, run.inside)
            for path, leaf in tree.paths(part)]
