"""The training loop: epochs of steps, validation, callbacks and checkpoints, resumable at every step."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import numpy as np

from .. import check, tree
from ..interrupt import interruption, patient_interrupts
from ..show.report import Work
from .callbacks.callback import Callback
from .callbacks.checkpoint import Checkpoint
from .callbacks.monitor import monitored_names
from .callbacks.state_file import StateFile
from .history import History

__all__ = ["Run", "length_of"]

_GLANCE = 0.2  # seconds between looks at signals and moves of the bar
_GLANCES = 50  # of callbacks: steps so far by steps until the next one
_GROWTH = 16  # at most, from one compiled loop of steps to the next


class Run:
    """A training run: what callbacks see and change.

    Attributes
    ----------
    model : Model
    epochs : int
        Epochs that were asked for.
    epoch : int
        Epochs that are complete.
    step : int
        Steps done, those of earlier runs of the model included.
    record : dict
        Numbers of the last complete epoch.
    loss : scalar
        Loss of the last step, for callbacks of steps.
    history : History
    state : State
        Parameters, optimizer state and so on; callbacks may replace it.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn, train
    >>> shown = train.Lambda(run_end=print)
    >>> model = train.Model(nn.Linear(np.ones((1, 1))), nn.mean_squared_error)
    >>> _ = model.fit([(np.ones((2, 1)), np.zeros((2, 1)))], epochs=3, callbacks=[shown])
    <Run: epoch 3 of 3, step 3>
    """

    def __repr__(self) -> str:
        return f"<Run: epoch {self.epoch} of {self.epochs}, step {self.step}>"

    def __init__(self, model, source, epochs, validation, callbacks, checkpoint, seed):
        given = [*callbacks, *([] if checkpoint is None else [Checkpoint(checkpoint)])]
        for c in given:
            check.kind(
                c,
                Callback,
                "Model.fit: callbacks",
                "instances of train.Callback",
                hint="functions of records go to report=",
            )
        self.callbacks = sorted(given, key=lambda c: isinstance(c, StateFile))  # they record the others
        self.model, self.source, self.epochs, self.validation, self.seed = model, source, epochs, validation, seed
        self.state, self.history = model.state, History()
        self.epoch, self.position, self.batches = 0, None, 0
        self.first = model.epochs  # epochs of earlier runs: the order of the data continues
        self.inside, self.outside = model.totals()
        self.record: dict[str, Any] = {}
        self.loss: Any = None
        self.previous: Any = None
        self.stopped: str | None = None
        self._hooks = {
            name: [
                (c, f)
                for c in self.callbacks
                if getattr(f := getattr(c, name), "__func__", f) is not getattr(Callback, name)
            ]
            for name in Callback.hooks
        }
        memory = getattr(source, "arrays_in_memory", lambda: None)()
        compiled = memory is not None and not (self._hooks["step_begin"] or self._hooks["step_end"] or self.outside)
        self._memory: Any = memory if compiled else None
        self._loops: Any = model.loops_over(source, memory) if compiled else None
        self._chunk = 1  # steps of a compiled loop, which takes a glance's time

    @property
    def step(self) -> int:
        """Steps done."""
        return int(self.state.count)

    @property
    def net(self) -> Any:
        """The network as it is now, with averaged parameters if averages are kept."""
        return self.state.averaged

    @property
    def rate_scale(self) -> float:
        """Factor of all learning rates."""
        return float(self.state.rate_scale)

    @rate_scale.setter
    def rate_scale(self, value: float) -> None:
        self.state = self.state._replace(rate_scale=np.float64(value))

    @property
    def _between(self) -> int:
        """Steps until the next glance of callbacks."""
        return max(1, self.step // _GLANCES)

    def stop(self, reason: str) -> None:
        """End the training in good order after the present step."""
        self.stopped = self.stopped or reason

    def _call(self, name: str) -> None:
        for callback, hook in self._hooks[name]:
            try:
                hook(self)
            except Exception as error:
                complete = name in ("evaluation_end", "epoch_end", "epoch_saved", "run_end")
                error.add_note(
                    f"Model.fit: raised by the callback {type(callback).__name__} in {name}, epoch "
                    f"{self.epoch + (not complete)}, step {self.step}"
                )
                raise

    # -- the run -------------------------------------------------------------------------------------------------------

    def work(self, report: Any, progress: bool | None) -> History:
        """Train until the last epoch, a stop or a signal. Return the history."""
        known = monitored_names(self)
        for c in self.callbacks:
            c.check(known)
        with contextlib.ExitStack() as stack:
            for c in self.callbacks:
                stack.enter_context(c.opened(self))
            length = length_of(self.source)
            if length == 0:
                raise ValueError("Model.fit: the source must have at least one batch, got none")
            total = None if length is None else self.step - self.batches + (self.epochs - self.epoch) * length
            work = stack.enter_context(Work("Model.fit", report, progress, total=total, done=self.step))
            interrupted = stack.enter_context(patient_interrupts(terminate=True))
            self._call("run_begin")
            try:
                while self.epoch < self.epochs and not self.stopped and not interrupted:
                    if not self._one_epoch(work, interrupted):
                        break
                    self.stopped = self.stopped or work.stopped
            except IndexError as error:
                error.add_note(
                    f"Model.fit: in epoch {self.epoch + 1}, after step {self.step} or later (labels must be "
                    f"at least 0 and below the number of classes)"
                )
                raise
            finally:
                if interrupted:
                    self._call("interrupted")
                self._call("run_end")
                self.model.state, self.model.epochs = self.state, self.first + self.epoch
                self.history.stopped = self.stopped
        if interrupted:
            raise interruption(interrupted[0], f"Model.fit: stopped in epoch {self.epoch + 1} after step {self.step}")
        return self.history

    def _one_epoch(self, work, interrupted):
        """Finish the present epoch. Return False if it was left in the middle."""
        if self.batches == 0:
            self.inside, self.outside = self.model.totals()
            self._call("epoch_begin")
        complete = (self._stream if self._memory is None else self._in_memory)(work, interrupted)
        if not complete:
            return False
        record = {"epoch": self.epoch + 1, "step": self.step, **self.model.results(self.inside, self.outside)}
        if self.validation is not None:
            self.model.state = self.state
            self._call("evaluation_begin")
            found = self.model.evaluate(self.validation, progress=False)
            record |= {f"validation/{name}": x for name, x in found.items()}
        self.record = record
        self.history.records.append(record)
        self.epoch, self.position, self.batches = self.epoch + 1, None, 0
        if self.validation is not None:
            self._call("evaluation_end")
        self._call("epoch_end")
        shown = record.get("validation/loss", record["loss"])
        work(record, f"epoch {self.epoch}, loss {shown:.4g}")
        if work.stopped:
            self.stop(work.stopped)
        work.sync()
        self._call("epoch_saved")
        return True

    def _stream(self, work, interrupted):
        """Steps over the batches of an iterator, whose workers end with the epoch."""
        if hasattr(self.source, "iterate"):
            with contextlib.closing(self.source.iterate(self.first + self.epoch, self.position)) as iterator:
                return self._each(iterator, work, interrupted)
        iterator = iter(self.source)
        for _ in range(self.batches):
            next(iterator, None)
        return self._each(iterator, work, interrupted)

    def _each(self, iterator, work, interrupted):
        begins, ends = self._hooks["step_begin"], self._hooks["step_end"]
        advance, outside, due = self.model.compiled, self.outside, time.monotonic() + _GLANCE
        if not (begins or ends):  # nobody sees the states between, and those that were seen must stay
            advance, self.state = self.model.in_place, tree.map(_own, self.state)
        taken, seen, glance = self.batches, False, self.batches + self._between
        for batch in iterator:
            seen = True
            if begins:
                self._call("step_begin")
            if ends:
                self.previous = self.state, batch
            self.state, self.inside, (self.loss, prediction) = advance(self.state, self.inside, batch)
            if outside:
                self.outside = outside = self.model.count(outside, prediction, batch)
            taken += 1
            if ends:
                self._pause(iterator, taken)
                self._call("step_end")
            if interrupted or self.stopped:
                self._pause(iterator, taken)
                return False
            if time.monotonic() > due:
                work.move(self.step)
                due = time.monotonic() + _GLANCE
            if self._hooks["glance"] and taken >= glance:
                self._call("glance")
                glance = taken + self._between
        if not seen and not taken:
            raise ValueError("Model.fit: the source must have at least one batch, got none")
        return True

    def _pause(self, iterator, taken):
        """Remember the place in the data."""
        self.batches = taken
        self.position = iterator.state() if hasattr(iterator, "state") else None

    # -- epochs in compiled code ---------------------------------------------------------------------------------------

    def _in_memory(self, work, interrupted):
        """Steps over arrays in memory: compiled loops of some steps each."""
        memory = self._memory
        order = np.asarray(memory.order(self.first + self.epoch), np.int64)
        whole, rest = divmod(len(order), memory.size)
        epoch = np.int64(self.first + self.epoch)
        while self.batches < whole:
            began = time.perf_counter()
            stop = min(self.batches + self._chunk, whole)
            if self._hooks["glance"]:
                stop = min(stop, self.batches + self._between)
            self.state, self.inside = self._loops.steps(
                self.state, self.inside, memory.arrays, order, epoch, np.int64(self.batches), np.int64(stop)
            )
            made, self.batches = stop - self.batches, stop
            seconds = max(time.perf_counter() - began, 1e-6)
            if made == self._chunk:  # the first one may compile
                self._chunk = max(1, min(_GROWTH * made, int(made / seconds * _GLANCE)))
            work.move(self.step)
            self._call("glance")
            if interrupted or self.stopped:
                return False
        if rest and not memory.drop_remainder and self.batches == whole:
            self.state, self.inside = self._loops.step(
                self.state, self.inside, memory.arrays, order[whole * memory.size :], epoch
            )
            self.batches += 1
        return True

    # -- checkpoints ---------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Everything that the run needs to resume, as a tree of arrays and numbers."""
        return {
            "state": self.state,
            "inside": self.inside,
            "outside": self.outside,
            "epoch": self.epoch,
            "first": self.first,
            "batches": self.batches,
            "position": self.position,
            "seed": self.seed,
            "callbacks": {f"{k}:{type(c).__name__}": c.state() for k, c in enumerate(self.callbacks)},
        }

    def restore(self, snapshot: dict[str, Any], records: list[dict[str, Any]]) -> None:
        """Continue from a snapshot."""
        self.state = snapshot["state"]
        self.inside, self.outside = snapshot["inside"], snapshot["outside"]
        self.epoch, self.batches, self.position = (snapshot[k] for k in ("epoch", "batches", "position"))
        self.first = snapshot.get("first", 0)
        self.history.records = records
        self.record = records[-1] if records else {}
        for k, c in enumerate(self.callbacks):
            c.restore(snapshot["callbacks"][f"{k}:{type(c).__name__}"])


def _own(x):
    return np.array(x) if np.ndim(x) else x


def length_of(source: Any) -> int | None:
    """Number of batches of a source; None if it is not known."""
    try:
        return len(source)
    except TypeError:
        return None
