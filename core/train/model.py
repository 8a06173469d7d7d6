"""A network with its loss, optimizer and metrics: fit, evaluate, predict."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from .. import check, optim, random, tree
from ..compile.jit import Jitted, jit
from ..data.pipeline import InMemory, Source
from ..show.progress import progress_bar
from ..show.report import Reports
from ..transforms.vmap import vmap
from .callbacks.callback import Callback
from .epochs import Epochs
from .history import History
from .loop import Run, length_of
from .metrics import get as get_metric
from .train_step import State, step

__all__ = ["Model"]


class Model:
    """A network with what it is trained by.

    Parameters
    ----------
    net : tree
        Network, called with the inputs of a batch.
    loss : callable
        ``loss(prediction, target)`` returns a scalar: the mean over the samples, which are the first axis.
    optimizer : optimizer of `core.optim`, optional
        Defaults to ``optim.Adam()``.
    metrics : sequence of str or Metric, or dict of str to Metric
        Metrics of training and evaluation; see `train.metrics`.
    accumulate, clip, average, checkpoint, precision
        Options of the step; see `train.step`. With `average`, evaluation and prediction use the averaged parameters.

    Attributes
    ----------
    net : tree
        The network as trained so far.
    state : State
        Parameters, optimizer, averages, random key: what `fit` continues from.
    epochs : int
        Epochs of all calls of `fit`. The next call continues the order of the data there, so that ``fit(source, 3)``
        twice is ``fit(source, 6)``.

    Notes
    -----
    A batch is ``(inputs, targets)`` or ``(inputs, targets, weights)``. Inputs may be a tuple or dict of arrays, which
    the network gets as positional or keyword arguments. Weights have the shape (samples,), or that of the first axes
    of the targets (a mask of positions in a sequence); losses and metrics are then weighted means over the batch.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import data, nn, optim, random, train
    >>> x = np.random.default_rng(0).normal(size=(256, 2)).astype(np.float32)
    >>> y = (x[:, 0] * x[:, 1] > 0).astype(int)
    >>> net = nn.MLP.init(random.key(0), [2, 32, 2])
    >>> model = train.Model(net, nn.cross_entropy, optim.Adam(1e-2), metrics=["accuracy"])
    >>> history = model.fit(data.arrays(x, y).shuffle(seed=0).batch(32), epochs=30)
    >>> bool(history["accuracy"][-1] > 0.9)
    True
    """

    def __init__(
        self,
        net: Any,
        loss: Callable[[Any, Any], Any],
        optimizer: Any = None,
        *,
        metrics: Sequence[Any] | Mapping[str, Any] = (),
        accumulate: int = 1,
        clip: float | None = None,
        average: float | None = None,
        checkpoint: bool = False,
        precision: Any = None,
    ):
        check.kind(net, Callable, "train.Model: the network", "callable")
        self.loss = check.kind(loss, Callable, "train.Model: loss", "a function of prediction and target")
        self.metrics = _named(metrics)
        self._outside = any(not m.compiled for m in self.metrics.values())
        self.step = step(
            self._objective,
            optim.Adam() if optimizer is None else optimizer,
            accumulate=accumulate,
            clip=clip,
            average=average,
            checkpoint=checkpoint,
            precision=precision,
        )
        self.state: State = self.step.init(net)
        self.compiled, self.in_place = jit(self.advance), jit(self.advance, donate=0)
        self.epochs = 0
        self._epochs: Epochs | None = None
        self._judge = jit(self._measure)
        self._apply = jit(self._output)

    def __repr__(self) -> str:
        names = "".join(f", {name}" for name in self.metrics)
        return f"Model({type(self.net).__name__}, {getattr(self.loss, '__name__', self.loss)}{names})"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_epochs": None}  # compiled loops over a source

    @property
    def net(self) -> Any:
        """The network as trained so far, with averaged parameters if averages are kept."""
        return self.state.averaged

    # -- what is compiled ----------------------------------------------------------------------------------------------

    def _objective(self, net, batch):
        inputs, targets, weights = batch
        prediction = self.step.result(applied(net, inputs))
        return self._value(prediction, targets, weights), prediction

    def _output(self, net, inputs):
        """The prediction of a network with its stored parameters."""
        return self.step.result(applied(self.step.computed(net), inputs))

    def _value(self, prediction, targets, weights):
        """The loss; `weights` have the mean 1."""
        if weights is None:
            return self.loss(prediction, targets)
        one = _one_sample(self.loss)
        for _ in range(np.ndim(weights)):
            one = vmap(one)
        losses = one(prediction, targets)
        return np.mean(weights * losses)

    def advance(self, state: State, totals: Any, batch: Any) -> tuple[State, Any, Any]:
        """One step in plain NumPy; `compiled` is its compiled form, and `in_place` the one that overwrites `state`.

        Parameters
        ----------
        state : State
        totals : dict
            See `totals`.
        batch : (inputs, targets) or (inputs, targets, weights)

        Returns
        -------
        state, totals, (loss, prediction)
            The prediction is None unless a metric needs it outside of compiled code.
        """
        inputs, targets, weights = _parts(batch)
        state, (value, prediction) = self.step.apply(state, (inputs, targets, _normalized(weights)))
        n = len(tree.leaves(targets)[0])
        if self.step.accumulate > 1 and n % -(-n // self.step.accumulate) == 0:
            prediction = tree.map(lambda x: np.reshape(x, (-1, *np.shape(x)[2:])), prediction)
        totals = self._counted(totals, value, prediction, targets, weights)
        return state, totals, (value, prediction if self._outside else None)

    def gradient(self, state: State, batch: Any) -> tuple[Any, Any]:
        """Loss of a batch and its gradient, as a step computes them before clipping, in plain NumPy."""
        inputs, targets, weights = _parts(batch)
        value, _, _, grads = self.step.gradient(state, (inputs, targets, _normalized(weights)))
        return value, grads

    @cached_property
    def compiled_gradient(self) -> Jitted[[State, Any], tuple[Any, Any]]:
        """The compiled form of `gradient`."""
        return jit(self.gradient)

    def loss_of(self, net: Any, batch: Any) -> Any:
        """Loss of a batch in evaluation mode, in plain NumPy."""
        inputs, targets, weights = _parts(batch)
        return self._value(self._output(net, inputs), targets, _normalized(weights))

    def loops_over(self, source: Source, memory: InMemory) -> Epochs:
        """The compiled loops over a source in memory, those of the last call if it was about the same source."""
        if self._epochs is None or self._epochs.source() is not source:
            self._epochs = Epochs(self.advance, source, memory)
        return self._epochs

    def _measure(self, net, totals, batch):
        inputs, targets, weights = _parts(batch)
        prediction = self._output(net, inputs)
        value = self._value(prediction, targets, _normalized(weights))
        return self._counted(totals, value, prediction, targets, weights), prediction if self._outside else None

    def _counted(self, totals, value, prediction, targets, weights):
        weight = np.float64(len(tree.leaves(targets)[0])) if weights is None else np.sum(np.astype(weights, np.float64))
        total, count = totals["loss"]
        new = {"loss": (total + weight * value, count + weight)}
        for name, metric in self.metrics.items():
            if metric.compiled:
                new[name] = metric.update(totals[name], prediction, targets, weights)
        return new

    # -- totals --------------------------------------------------------------------------------------------------------

    def totals(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Sums of the loss and of the metrics before the first batch: those of compiled code, and the others."""
        fresh = {name: metric.init() for name, metric in self.metrics.items()}
        inside = {name: fresh[name] for name, metric in self.metrics.items() if metric.compiled}
        inside["loss"] = np.float64(0), np.float64(0)
        return (
            tree.map(lambda x: np.asarray(x)[()], inside),  # scalars as the step returns them, no (0-d) arrays
            {name: state for name, state in fresh.items() if name not in inside},
        )

    def count(self, outside: dict[str, Any], prediction: Any, batch: Any) -> dict[str, Any]:
        """Add a batch to the metrics that are not computed in compiled code."""
        _, targets, weights = _parts(batch)
        return {name: self.metrics[name].update(state, prediction, targets, weights) for name, state in outside.items()}

    def results(self, totals: dict[str, Any], outside: dict[str, Any]) -> dict[str, float]:
        """The numbers that the totals stand for; metrics of several numbers get one name each."""
        total, count = totals["loss"]
        found: dict[str, Any] = {"loss": float(total) / float(count) if count else float("nan")}
        for name, metric in self.metrics.items():
            value = metric.result(totals[name] if metric.compiled else outside[name])
            if isinstance(value, Mapping):
                found |= {f"{name}/{key}": float(x) for key, x in value.items()}
            elif np.ndim(value) == 0:
                found[name] = float(value)
            else:
                found |= {f"{name}/{k}": float(x) for k, x in enumerate(np.ravel(value))}
        return found

    # -- use -----------------------------------------------------------------------------------------------------------

    def fit(
        self,
        source: Iterable[Any],
        epochs: int,
        *,
        validation: Iterable[Any] | None = None,
        callbacks: Sequence[Callback] = (),
        seed: int = 0,
        checkpoint: str | os.PathLike | None = None,
        report: Reports = None,
        progress: bool | None = None,
    ) -> History:
        """Train the network.

        Parameters
        ----------
        source : iterable of batches
            A source of `core.data`, or anything that can be iterated over once an epoch, such as a list of batches or
            a DataLoader. Whole epochs of sources in memory run as one compiled loop.
        epochs : int
            Times to go through the source.
        validation : iterable of batches, optional
            Evaluated after each epoch; its numbers get the prefix ``validation/``.
        callbacks : sequence of Callback
            Called in their order; `Checkpoint` always comes last.
        seed : int, default 0
            Seed of random masks. (The order of the data belongs to the source.)
        checkpoint : path-like, optional
            Folder of a `Checkpoint` after each epoch. If it has one, training resumes from it, bit for bit.
        report : function or list of functions, optional
            Called after each epoch with a dictionary of numbers; see `core.report`.
        progress : bool, optional
            Show a progress bar. By default only on terminals and in notebooks.

        Returns
        -------
        History

        Raises
        ------
        ValueError
            If the source is empty, or a batch is not ``(inputs, targets)`` or ``(inputs, targets, weights)``.
        CheckpointError
            If the checkpoint belongs to another network or other options.

        Notes
        -----
        Ctrl-C and SIGTERM end the training after the present step; a `Checkpoint` is written first, from which the
        next call resumes.
        """
        check.integer(epochs, "Model.fit: epochs", 1)
        if isinstance(source, (tuple, np.ndarray)):
            raise TypeError(
                "Model.fit: the source must give batches, got arrays (use data.arrays(inputs, targets)"
                ".shuffle(seed=0).batch(32))"
            )
        if hasattr(source, "__next__"):
            raise TypeError(
                "Model.fit: the source must be one that each epoch can iterate over, got an iterator (pass "
                "a list of batches, or data.generator of the function that makes it)"
            )
        self.state = self.state._replace(key=np.asarray(random.key(seed)))
        return Run(self, source, epochs, validation, callbacks, checkpoint, seed).work(report, progress)

    def evaluate(self, source: Iterable[Any], *, progress: bool | None = None) -> dict[str, float]:
        """Return loss and metrics over a source of batches.

        Parameters
        ----------
        source : iterable of batches
        progress : bool, optional
            Show a progress bar. By default only on terminals and in notebooks.

        Returns
        -------
        dict of str to float
        """
        (inside, outside), net, seen = self.totals(), self.net, 0
        with progress_bar("Model.evaluate", "batch", length_of(source), show=progress) as bar:
            for batch in source:
                inside, prediction = self._judge(net, inside, batch)
                if outside:
                    outside = self.count(outside, prediction, batch)
                seen += 1
                bar.update()
        if not seen:
            raise ValueError("Model.evaluate: the source must have at least one batch, got none")
        return self.results(inside, outside)

    def predict(self, inputs: Any, *, batch: int = 256) -> Any:
        """Return the network's outputs for arrays of samples.

        Parameters
        ----------
        inputs : array, or tuple or dict of arrays
            Samples along the first axis.
        batch : int, default 256
            Samples computed at once.

        Returns
        -------
        tree of arrays
        """
        check.integer(batch, "Model.predict: batch", 1)
        sizes = {np.shape(x)[0] if np.ndim(x) else 0 for x in tree.leaves(inputs)}
        if len(sizes) != 1 or 0 in sizes:
            raise ValueError(
                f"Model.predict: inputs must be arrays with one number of samples of at least 1, got {sorted(sizes)}"
            )
        net, n = self.net, sizes.pop()
        parts = [self._apply(net, tree.map(lambda x, k=k: x[k : k + batch], inputs)) for k in range(0, n, batch)]
        return tree.map(lambda *xs: np.concatenate(xs), *parts)


def applied(net: Any, inputs: Any) -> Any:
    """The network's output: tuples are positional arguments, dictionaries keyword arguments."""
    if isinstance(inputs, tuple):
        return net(*inputs)
    return net(**inputs) if isinstance(inputs, dict) else net(inputs)


def _one_sample(loss):
    return lambda prediction, target: loss(tree.map(lambda x: x[None], prediction), tree.map(lambda x: x[None], target))


def _parts(batch):
    if not isinstance(batch, (tuple, list)) or len(batch) not in (2, 3):
        kind = f"{len(batch)} parts" if isinstance(batch, (tuple, list)) else type(batch).__name__
        raise ValueError(f"Model: a batch must be (inputs, targets) or (inputs, targets, weights), got {kind}")
    if any(np.ndim(leaf) == 0 for leaf in tree.leaves(batch)):
        raise ValueError(
            "Model: arrays of a batch must have samples along their first axis, got a single sample "
            "(batch the source: source.batch(32))"
        )
    return (*batch, None) if len(batch) == 2 else tuple(batch)


def _normalized(weights):
    """Weights of mean 1; zeros if all are zero."""
    if weights is None:
        return None
    total = np.sum(weights)
    return weights * (np.size(weights) / np.where(total > 0, total, 1))


def _named(metrics):
    if isinstance(metrics, Mapping):
        return {name: get_metric(m) for name, m in metrics.items()}
    if isinstance(metrics, str):
        raise TypeError(f"train.Model: metrics must be a list of names or metrics, got the string {metrics!r}")
    found = [get_metric(m) for m in metrics]
    names = [m if isinstance(m, str) else m.name for m in metrics]
    if len(set(names)) != len(names) or "loss" in names:
        raise ValueError(
            f"train.Model: metrics must have different names, none of them loss, got {', '.join(names)} "
            f"(pass a dictionary of names)"
        )
    return dict(zip(names, found, strict=True))
