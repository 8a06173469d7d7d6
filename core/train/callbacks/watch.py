"""Watch a network for what goes wrong in training: NaN, overflow, exploding and vanishing gradients, dead units."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ... import check, tree
from ...compile.jit import jit
from ...graph.graph import Const, Graph
from ...graph.trace import evaluate
from ...optim.groups import Frozen, Groups
from ..report.network import forward_graph
from ..report.probe import first_batch
from .callback import Callback
from .stop_on_nan import made_by

if TYPE_CHECKING:
    from ..loop import Run

__all__ = ["Finding", "TrainingWarning", "Watch"]

_NEAR = 0.1  # of the largest number of a dtype
_UNCHANGED = 2  # looks after which weights that have not changed are reported


class TrainingWarning(UserWarning):
    """Something that `Watch` found."""


class Finding(NamedTuple):
    """A finding of `Watch`.

    Attributes
    ----------
    kind : str
        One of ``Watch.kinds``.
    path : str
        The array in the tree of parameters. A value inside the network is named by the parameter that was read last:
        ``relu of layers[0].bias``.
    epoch, step : int
    value : float
    hint : str

    Examples
    --------
    >>> from triskele.core import train
    >>> print(train.Finding("vanishing", "layers[0].weight", 1, 20, 1e-9, "normalize the layers"))
    vanishing: layers[0].weight, 1e-09 in epoch 1, step 20 (normalize the layers)
    """

    kind: str
    path: str
    epoch: int
    step: int
    value: float
    hint: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.path}, {self.value:.4g} in epoch {self.epoch}, step {self.step} ({self.hint})"


class Watch(Callback):
    """Look at parameters, gradients and activations after an epoch, and warn of what is wrong, once for each array.

    The gradient and the activations are those of the first batch of the source. `Report` shows the findings.

    ==========  ======================================================================  ==========================
    kind        found if                                                                number
    ==========  ======================================================================  ==========================
    nan         a parameter or a gradient is not finite                                 elements
    overflow    a parameter, a gradient, a product or a convolution is above a tenth    largest absolute value
                of the largest number of its dtype
    exploding   the norm of the gradient is above `exploding` times that of the         norm of the array's
                parameters                                                              gradient
    vanishing   the gradient of a weight is not zero, but its rms is below              rms of the gradient
                `vanishing` times the largest rms of a weight's gradient
    frozen      no bit of an array has changed in two looks, and its optimizer is not   steps
                `optim.Frozen`
    dead        at least the share `dead` of the units of a ReLU layer is never         share of the units
                positive in the batch
    ==========  ======================================================================  ==========================

    Parameters
    ----------
    every : int, default 1
        Epochs between two looks. Each takes about the time of two training steps.
    stop : bool or sequence of str, default False
        Kinds that end the training in good order; True stands for all.
    exploding : float, default 1e3
    vanishing : float, default 1e-6
    dead : float, default 0.5

    Attributes
    ----------
    findings : list of Finding

    Warns
    -----
    TrainingWarning
        For each finding.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from triskele.core import nn, optim, random, train
    >>> net = nn.Sequential([nn.Linear(np.ones((2, 4)), np.full(4, -9.0)), nn.relu, nn.Linear(np.ones((4, 1)))])
    >>> watch = train.Watch(stop=["dead"])
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     history = train.Model(net, nn.mean_squared_error, optim.SGD(0.1)).fit(
    ...         [(np.ones((8, 2)), np.ones((8, 1)))], epochs=3, callbacks=[watch])
    >>> len(history), watch.findings[0].kind, watch.findings[0].value
    (1, 'dead', 1.0)
    """

    kinds = ("nan", "overflow", "exploding", "vanishing", "frozen", "dead")

    def __init__(
        self,
        *,
        every: int = 1,
        stop: bool | Iterable[str] = False,
        exploding: float = 1e3,
        vanishing: float = 1e-6,
        dead: float = 0.5,
    ):
        check.integer(every, "Watch: every", 1)
        check.positive(exploding, "Watch: exploding")
        check.number(vanishing, "Watch: vanishing", 0.0)
        check.number(dead, "Watch: dead", 0.0, 1.0)
        if isinstance(stop, str):
            raise TypeError(f"Watch: stop must be True, False or a list of kinds, got the string {stop!r}")
        self.stop = frozenset(self.kinds if stop is True else stop or ())
        for kind in self.stop - set(self.kinds):
            raise ValueError(
                f"Watch: stop must have kinds of {', '.join(self.kinds)}, got {kind!r}{check.near(kind, self.kinds)}"
            )
        self.every, self.exploding, self.vanishing, self.dead = int(every), exploding, vanishing, dead
        self.findings: list[Finding] = []
        self._before: dict[str, Any] = {}
        self._unchanged: dict[str, tuple[int, int]] = {}
        self._values: Any = None

    def __repr__(self) -> str:
        return f"Watch(every={self.every})"

    @contextlib.contextmanager
    def opened(self, run: Run) -> Iterator[None]:
        """Keep a batch and the compiled functions of a run for as long as it lasts."""
        self.findings, self._before, self._unchanged = [], {}, {}
        self._batch, self._values = first_batch(run.source), None
        try:
            yield
        finally:
            self._batch = self._values = None

    def epoch_end(self, run: Run) -> None:
        """Look, if it is time."""
        if run.epoch % self.every:
            return
        params = dict(tree.paths(run.state.params))
        _, gradient = run.model.compiled_gradient(run.state, self._batch)
        grads = {path: np.asarray(g) for path, g in tree.paths(gradient)}
        if not (
            self._not_finite(run, params, "look for its first step with train.StopOnNaN()")
            or self._not_finite(run, grads, None)
        ):
            self._large(run, params, "parameter")
            self._large(run, grads, "gradient")
            self._gradients(run, params, grads)
            self._inside(run)
        self._frozen(run, params)

    def _tell(self, run, kind, path, value, hint):
        if any((f.kind, f.path) == (kind, path) for f in self.findings):
            return
        finding = Finding(kind, path, run.epoch, run.step, float(value), hint)
        self.findings.append(finding)
        warnings.warn(f"Watch: {finding}", TrainingWarning, stacklevel=2)
        if kind in self.stop:
            run.stop(f"Watch: {finding}")

    def _not_finite(self, run, arrays, hint):
        bad = {path: n for path, x in arrays.items() if (n := np.size(x) - np.count_nonzero(np.isfinite(x)))}
        if bad and hint is None:
            culprit = made_by(run.model.gradient, run.state, self._batch)
            hint = "look for NaN in the data" if culprit is None else str(culprit)
        for path, n in bad.items():
            self._tell(run, "nan", path, n, hint)
        return bool(bad)

    def _large(self, run, arrays, what):
        for path, x in arrays.items():
            x = np.asarray(x)
            if x.size and (top := float(np.max(np.abs(x)))) > _NEAR * np.finfo(x.dtype).max:
                hint = f"the {what} is near the largest {x.dtype}: lower the rate, or scale the loss"
                self._tell(run, "overflow", path, top, hint)

    def _gradients(self, run, params, grads):
        norms = {
            path: float(np.linalg.norm(g.astype(np.complex128 if g.dtype.kind == "c" else np.float64)))
            for path, g in grads.items()
        }
        total = float(np.linalg.norm(list(norms.values())))
        size = float(np.sqrt(sum(float(np.sum(np.abs(np.asarray(p, np.complex128)) ** 2)) for p in params.values())))
        if total > self.exploding * size:
            path = max(norms, key=lambda p: norms[p])
            hint = (
                f"the whole gradient has the norm {total:.3g}, the parameters {size:.3g}: clip it (clip=1.0), "
                f"lower the rate, or normalize data and layers"
            )
            self._tell(run, "exploding", path, norms[path], hint)
        rms = {path: norms[path] / np.sqrt(g.size) for path, g in grads.items() if g.ndim > 1}
        for path, value in rms.items():
            if 0 < value < self.vanishing * max(rms.values()):
                hint = (
                    f"the largest rms of a weight's gradient is {max(rms.values()):.3g}: use residual connections, "
                    f"normalization or another activation"
                )
                self._tell(run, "vanishing", path, value, hint)

    def _frozen(self, run, params):
        optimizer = run.model.step.optimizer
        rules = optimizer.by_path(run.state.params) if isinstance(optimizer, Groups) else {}
        for path, p in params.items():
            if isinstance(rules.get(path), Frozen):
                continue
            before, self._before[path] = self._before.get(path), (p, run.step)
            if before is None or not np.array_equal(before[0], p):
                self._unchanged[path] = (0, run.step)
                continue
            looks, since = self._unchanged[path]
            self._unchanged[path] = looks + 1, since
            if looks + 1 >= _UNCHANGED and run.rate_scale > 0:
                self._tell(
                    run,
                    "frozen",
                    path,
                    run.step - since,
                    "the loss does not depend on it, its gradient is zero, or its rate is",
                )

    def _inside(self, run):
        inputs = self._batch[0]
        if self._values is None:
            self._values = _watched(run.net, inputs)
        places, compiled = self._values
        for (kind, source), value in zip(places, compiled(*tree.leaves((run.net, inputs))), strict=True):
            if kind == "relu":
                share = 1.0 - float(np.mean(value))
                if share >= self.dead:
                    self._tell(
                        run,
                        "dead",
                        source,
                        share,
                        f"{round(share * np.size(value))} of {np.size(value)} units "
                        f"are never positive: lower the rate, or use a leaky activation",
                    )
            elif value > _NEAR * np.finfo(value.dtype).max:
                hint = f"an activation is near the largest {value.dtype}: normalize the layers, or use a wider dtype"
                self._tell(run, "overflow", source, value, hint)


def _watched(net, inputs):
    """Return the kinds and places of watched values, and a compiled function that returns a number for each."""
    graph, paths = forward_graph(net, inputs)
    chosen = [(kind, e) for e in graph.equations if (kind := _kind(e))]
    outputs = Graph(graph.inputs, graph.equations, [e.outputs[0] for _, e in chosen], graph.name)

    def values(*flat):
        found = evaluate(outputs, *flat)
        return [
            np.any(x > 0, axis=tuple(range(np.ndim(x) - 1))) if kind == "relu" else np.max(np.abs(x))
            for (kind, _), x in zip(chosen, found, strict=True)
        ]

    return [(kind, f"{kind} of {_parameter(graph, paths, e)}") for kind, e in chosen], jit(values)


def _kind(e):
    if e.outputs[0].spec.dtype.kind != "f" or not e.outputs[0].spec.shape:
        return None
    if e.primitive.name == "maximum" and any(type(a) is Const and not np.any(a.value) for a in e.inputs):
        return "relu"
    return "product" if e.primitive.name in ("dot_general", "conv") else None


def _parameter(graph, paths, eqn):
    """The path of the parameter that was read last before an equation."""
    names = {
        v: path.removeprefix("[0]").removeprefix(".")
        for v, path in zip(graph.inputs, paths, strict=True)
        if path.startswith("[0]")
    }
    producer = {o: e for e in graph.equations for o in e.outputs}
    queue, seen = [eqn], {eqn}
    while queue:
        e = queue.pop(0)
        found = next((names[a] for a in e.inputs if a in names), None)
        if found is not None:
            return found
        before = dict.fromkeys(producer[a] for a in e.inputs if a in producer)
        queue += [p for p in before if p not in seen]
        seen.update(before)
    return str(eqn.source)
