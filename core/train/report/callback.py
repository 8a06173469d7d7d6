"""The callback that keeps the log of a run and writes its page."""

from __future__ import annotations

import contextlib
import os
import sys
import time
import warnings
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...compile.profile import timed
from ...disk.files import atomic, locked
from ...errors import ReporterError
from ...optim.base import rate_of
from ..callbacks.callback import Callback
from .landscape import landscape
from .layers import layer_names
from .log import RunLog, log_path
from .network import network_graph
from .page import page_of
from .probe import first_batch, histograms, samples
from .settings import code_of, data_hash, settings_of, steps_of, system

if TYPE_CHECKING:
    from ..loop import Run

__all__ = ["Report"]

_SHARE = 0.02  # of the time of a run that looking at parameters and gradients, and writing the page, may take
_PAGE = 30.0  # seconds between two versions of the page
_FEW = 20  # epochs of a run whose loss is recorded by steps, too


class Report(Callback):
    """Write a log and a page of the run.

    ``run.jsonl`` gets a line for every epoch and is whole at any moment; ``run.html`` is one file without links that
    shows the curves, rates, histograms of parameters and gradients over time, samples as the network saw them, the
    steps of the network and of the data, the time and the memory of each operation of a training step with its layer
    and source line, findings of `Watch`, settings and versions.

    Parameters
    ----------
    path : path-like, default "run.html"
        The page. The log lies beside it.
    profile : bool, default True
        Time the operations of a step, once, after the first epoch: the step is compiled a second time for it.
    landscape : bool, default False
        At the end, compute the loss of the first batch along two random directions whose filters have the norms of the
        network's (441 evaluations).

    Raises
    ------
    ReporterError
        At the beginning of the run, if another run writes to the same page, or the files cannot be written.

    Notes
    -----
    The numbers of an epoch are written after each one, which takes about 0.1 ms. Of runs of at most 20 epochs, the loss
    is recorded by steps, too: as the mean since the last record, each after about 2 % more steps than before, which
    makes some hundred records. Histograms need the gradient of one batch, the first of the source, and the page has to
    be made again; both are done after the first and the last epoch, and in between as often as they take no more than
    2 % of the time. Epochs of arrays in memory stay compiled loops, which
    only pause for these records. A run that resumes
    from a checkpoint continues the log: lines of epochs after the checkpoint are dropped. A new run replaces it.

    References
    ----------
    H. Li, Z. Xu, G. Taylor, C. Studer and T. Goldstein, Visualizing the Loss Landscape of Neural Nets, NeurIPS 2018.

    Examples
    --------
    >>> from triskele.core import train
    >>> train.Report("run.html", landscape=True)
    Report('run.html')
    """

    def __init__(self, path: str | os.PathLike = "run.html", *, profile: bool = True, landscape: bool = False):
        self.path = Path(path)
        if self.path.suffix != ".html":
            raise ValueError(f"Report: path must end in .html, got {os.fspath(path)!r}")
        self.profile, self.landscape = bool(profile), bool(landscape)
        self._log: Any = None  # a RunLog during the run

    def __repr__(self) -> str:
        return f"Report({os.fspath(self.path)!r})"

    @contextlib.contextmanager
    def opened(self, _run: Run) -> Iterator[None]:
        """Hold the lock on the page; release the log at the end."""
        where = f"Report {os.fspath(self.path)!r}"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ReporterError(f"{where}: the folder cannot be made: {error.strerror or error}") from error
        try:
            with locked(self.path.with_name(f".{self.path.stem}.lock"), where, ReporterError):
                yield
        except OSError as error:
            if str(error.filename or "").endswith(".lock"):
                raise ReporterError(f"{where}: cannot be written: {error.strerror or error}") from error
            raise
        finally:
            if self._log is not None:
                self._log.close()
                self._log = None

    def run_begin(self, run: Run) -> None:
        """Begin the log or continue it, and record what the run is."""
        self._began = self._turn = time.perf_counter()
        self._spent, self._cost, self._written, self._looked, self._told = 0.0, 0.0, 0.0, -1, 0
        self._interrupted, self._step, self._seen = False, run.step, tuple(map(float, run.inside["loss"]))
        self._log = RunLog(log_path(self.path), run.epoch)
        self._timed = bool(self._log.found("operations"))
        self._batch = first_batch(run.source)
        with self._recording():
            if not self._log.found("run"):
                self._write(
                    "run",
                    {
                        "began": f"{datetime.now():%Y-%m-%d %H:%M}",
                        "name": self.path.stem,
                        "settings": settings_of(run),
                        "system": system(),
                        "code": code_of(),
                        "data": data_hash(run.source, self._batch),
                        "steps": steps_of(run.source),
                    },
                    0,
                )
                self._write("samples", samples(self._batch), 0)
                self._try("network", lambda run: network_graph(run.net, self._batch[0]), run)
            known = {e["epoch"] for e in self._log.entries if "numbers" in e}
            for record in run.history.records:
                if record["epoch"] not in known:
                    self._write("numbers", {"record": record}, record["epoch"])
        self._turn = time.perf_counter()

    def epoch_begin(self, _run: Run) -> None:
        """Begin new sums of the loss."""
        self._seen = 0.0, 0.0

    def glance(self, run: Run) -> None:
        """Record the loss; write the page if it is old."""
        self._loss(run, run.epoch + 1)
        if self._written and time.perf_counter() - self._written > _PAGE:
            self._page()

    def epoch_end(self, run: Run) -> None:
        """Record the numbers of the epoch; look at parameters and gradients, and write the page, if there is time."""
        seconds, steps = time.perf_counter() - self._turn, run.step - self._step
        self._loss(run, run.epoch)
        with self._recording():
            scale = run.rate_scale
            rate = getattr(run.model.step.optimizer, "learning_rate", None)
            self._write(
                "numbers",
                {
                    "record": run.record,
                    "seconds": seconds,
                    "steps per second": steps / seconds,
                    "rate scale": scale,
                    "rate": None if rate is None else scale * float(rate_of(rate, np.int64(run.step))),
                },
                run.epoch,
            )
        if self.profile and not self._timed:
            self._timed = True
            self._try("operations", self._operations, run)
        self._notice(run)
        if self._looked < 0 or self._cost + self._spent < _SHARE * (time.perf_counter() - self._began):
            self._look(run)
        if time.perf_counter() - self._written > _PAGE:
            self._page()
        self._turn, self._step = time.perf_counter(), run.step

    def interrupted(self, _run: Run) -> None:
        """Remember that the process is about to end."""
        self._interrupted = True

    def run_end(self, run: Run) -> None:
        """Record the end, and write the page."""
        if self._log is None:
            return
        error = sys.exc_info()[1]
        self._notice(run)
        if error is None and not self._interrupted:
            if self._looked != run.epoch:
                self._look(run)
            if self.landscape:
                self._try("landscape", self._landscape, run)
        reason = (
            f"{type(error).__name__}: {error}"
            if error is not None
            else "interrupted"
            if self._interrupted
            else run.stopped
        )
        self._write(
            "end",
            {
                "reason": reason,
                "epochs": run.epoch,
                "step": run.step,
                "seconds": time.perf_counter() - self._began,
                "recording": self._spent,
            },
            run.epoch,
        )
        self._page()

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _write(self, kind, content, epoch):
        self._log.write(kind, epoch, content)

    def _loss(self, run, epoch):
        """Record the mean loss since the last record."""
        total, count = map(float, run.inside["loss"])
        if run.epochs <= _FEW and count > self._seen[1]:
            with self._recording():
                mean = (total - self._seen[0]) / (count - self._seen[1])
                self._write("loss", {"step": run.step, "mean": mean}, epoch)
            self._seen = total, count

    def _try(self, kind, make, run):
        """Record what is not worth ending a training for."""
        try:
            content = make(run)
        except Exception as error:  # noqa: BLE001  whatever a network does when it is traced once more
            warnings.warn(
                f"Report {os.fspath(self.path)!r}: {kind} cannot be recorded, got {type(error).__name__}: {error}",
                RuntimeWarning,
                stacklevel=2,
            )
            return
        self._write(kind, content, run.epoch)

    def _landscape(self, run):
        return landscape(run.model.loss_of, run.state.params, run.state.rest, self._batch)

    @contextlib.contextmanager
    def _recording(self):
        began = time.perf_counter()
        yield
        self._spent += time.perf_counter() - began

    def _look(self, run):
        began = time.perf_counter()
        loss, gradient = run.model.compiled_gradient(run.state, self._batch)
        self._write(
            "histograms",
            {"loss": loss, "parameters": histograms(run.state.params), "gradients": histograms(gradient)},
            run.epoch,
        )
        if self._looked >= 0:  # the first time, the gradient is compiled
            self._cost = time.perf_counter() - began
            self._spent += self._cost
        self._looked = run.epoch

    def _operations(self, run):
        found, slots = timed(run.model.compiled, (run.state, run.model.totals()[0], self._batch), {}, 0.2)
        names = layer_names(slots, run.state)
        return {
            "seconds": found.seconds,
            "overhead": found.overhead,
            "undisturbed": found.undisturbed,
            "rows": [{**o._asdict(), "place": o.place, "layer": names[o.order]} for o in found.operations],
        }

    def _notice(self, run):
        """Findings of the callbacks that watch."""
        found = [f for c in run.callbacks for f in getattr(c, "findings", ())]
        for finding in found[self._told :]:
            self._write("finding", finding._asdict(), run.epoch)
        self._told = len(found)

    def _page(self):
        with self._recording(), atomic(self.path, durable=False) as file:
            file.write(page_of(self._log.entries).encode())
        self._written = time.perf_counter()
