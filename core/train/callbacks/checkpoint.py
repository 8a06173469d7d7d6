"""Keep the state of a run and its best networks in a folder."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import check
from ...disk.files import locked
from ...disk.save import save
from ...errors import CheckpointError
from .monitor import Monitor
from .state_file import StateFile

if TYPE_CHECKING:
    from ..loop import Run

__all__ = ["Checkpoint"]


class Checkpoint(StateFile):
    """Write the state of the run to a folder; resume from it if the folder has one.

    ``last.safetensors`` is the last state, from which `Model.fit` resumes bit for bit; see `StateFile`.
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

    def __init__(
        self,
        folder: str | os.PathLike,
        *,
        every: str | int = "epoch",
        best: str | None = None,
        mode: str | None = None,
        keep: int = 0,
    ):
        if every != "epoch":
            check.integer(every, "Checkpoint: every", 1)
            self.step_end = self._step_end  # only then: step hooks cost time
        check.integer(keep, "Checkpoint: keep", 0)
        self.folder, self.every, self.keep = Path(folder), every, int(keep)
        super().__init__(self.folder / "last.safetensors")
        self._best = None if best is None else Monitor(best, 0, 0.0, mode)

    def __repr__(self) -> str:
        return f"Checkpoint({os.fspath(self.folder)!r})"

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
            raise CheckpointError(
                f"Checkpoint {os.fspath(self.folder)!r}: it must be a folder, got a file (choose another name)"
            ) from None
        with locked(self.folder / "lock", f"Checkpoint {os.fspath(self.folder)!r}", CheckpointError):
            if self._best is not None:
                self._best.best = None
            with super().opened(run):
                yield

    def _step_end(self, run: Run) -> None:
        if run.step % self.every == 0:  # type: ignore[operator]
            self.write(run)

    def epoch_end(self, run: Run) -> None:
        """Choose the best network."""
        if self._best is not None and self._best.better(run, value := self._best.value(run), self._best.best):
            self._best.best = value
            save(self.folder / "best.safetensors", run.net)
        if self.keep:
            save(self.folder / f"epoch-{run.epoch:04d}.safetensors", run.net)
            for old in sorted(self.folder.glob("epoch-[0-9]*.safetensors"))[: -self.keep]:
                old.unlink()

    def state(self) -> Any:
        """The best value so far."""
        return {"best": None if self._best is None else self._best.best}

    def restore(self, state: Any) -> None:
        """Take back the best value."""
        if self._best is not None:
            self._best.best = state["best"]
