"""One training step as one compiled function of one state tree."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import check, nn, random, tree
from ..compile.jit import jit
from ..optim import clip_by_global_norm, scaled
from ..precision import Policy, policy_of
from ..tensor import Tensor
from ..transforms.checkpoint import checkpoint as rematerialized
from ..transforms.control.operators import scan
from ..transforms.grad import value_and_grad

__all__ = ["State", "Step", "step"]


class State(NamedTuple):
    """Everything that a training step changes: one tree, written to checkpoints as it is.

    Attributes
    ----------
    params : tree
        Trainable parameters; see `nn.split`.
    rest : tree
        Running statistics and other leaves of the network that are not trained.
    optimizer : tree
        State of the optimizer.
    average : tree or None
        Exponential moving average of the parameters.
    rate_scale : () float64
        Factor of all learning rates.
    key : key
        Source of random masks.
    count : () int64
        Steps done.
    loss_scale : ScaleState or None
        State of a `DynamicScale`.

    Examples
    --------
    >>> from triskele.core import nn, optim, random, train
    >>> step = train.step(lambda net, x: (net(x) ** 2).mean(), optim.SGD(0.1))
    >>> state = step.init(nn.Linear.init(random.key(0), 3, 1))
    >>> int(state.count), state.net
    (0, Linear(weight=float32[3, 1], bias=[0.]))
    """

    params: Any
    rest: Any
    optimizer: Any
    average: Any
    rate_scale: Any
    key: Any
    count: Any
    loss_scale: Any = None

    @property
    def net(self) -> Any:
        """The network with its parameters."""
        return nn.merge(self.params, self.rest)

    @property
    def averaged(self) -> Any:
        """The network with averaged parameters; the same as `net` if no average is kept."""
        return self.net if self.average is None else nn.merge(self.average, self.rest)


class Step:
    """A training step: ``state, value = step(state, batch)``. See `step` for what it does and its options.

    Parameters
    ----------
    loss : callable
    optimizer : optimizer of `core.optim`
    accumulate : int
    clip, average : float or None
    checkpoint, donate : bool
    precision : Policy or None

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn, optim, random, train
    >>> step = train.step(lambda net, x: (net(x) ** 2).mean(), optim.SGD(0.1))
    >>> state = step.init(nn.Linear.init(random.key(0), 3, 1))
    >>> state, value = step(state, np.ones((8, 3), np.float32))
    >>> int(state.count)
    1
    """

    def __init__(
        self,
        loss: Callable[..., Any],
        optimizer: Any,
        accumulate: int,
        clip: float | None,
        average: float | None,
        checkpoint: bool,
        donate: bool,
        precision: Policy | None,
    ):
        self.loss, self.optimizer, self.accumulate = loss, optimizer, accumulate
        self.clip, self.average, self.checkpoint, self.precision = clip, average, checkpoint, precision
        self._compiled = jit(self.apply, donate=0 if donate else ())

    def __repr__(self) -> str:
        return f"Step({getattr(self.loss, '__name__', self.loss)}, {self.optimizer!r})"

    def init(self, net: Any, seed: int = 0) -> State:
        """Return the state before the first step.

        Parameters
        ----------
        net : tree
            Network with its first parameters.
        seed : int, default 0
            Seed of random masks.
        """
        params, rest = nn.split(net)
        if not tree.leaves(params):
            raise ValueError("train.step: the network must have floating-point parameters, got none")
        if self.precision is not None:
            params = self.precision.stored(params)
        average = tree.map(np.array, params) if self.average is not None else None
        optimizer = self.optimizer.init(params)
        loss_scale = None if self._scale is None else self._scale.init()
        state = State(params, rest, optimizer, average, np.float64(1.0), random.key(seed), np.int64(0), loss_scale)
        return tree.map(lambda x: np.asarray(x)[()], state)  # numbers of the kind that the step returns

    @property
    def _scale(self):
        return None if self.precision is None else self.precision.scale

    def computed(self, net: Any) -> Any:
        """Return the network as the step computes it: parameters in the dtype of computation."""
        if self.precision is None:
            return net
        params, rest = nn.split(net)
        return nn.merge(self.precision.computed(params), rest)

    def result(self, values: Any) -> Any:
        """Return outputs of the network in the dtype of outputs."""
        return values if self.precision is None else self.precision.result(values)

    def __call__(self, state: State, batch: Any) -> tuple[State, Any]:
        """Return the state after the step, and the loss (with `aux` if the loss function returns one)."""
        return self._compiled(state, batch)

    def apply(self, state: State, batch: Any) -> tuple[State, Any]:
        """The step in plain NumPy, for use inside other compiled functions."""
        value, aux, rest, grads = self.gradient(state, batch)
        scale = state.loss_scale
        finite = scale is None or np.all(np.stack([np.all(np.isfinite(g)) for g in tree.leaves(grads)]))
        if self.clip is not None:
            grads = clip_by_global_norm(grads, self.clip)
        optimizer = scaled(self.optimizer, state.rate_scale)
        params, inner = optimizer.step(state.params, grads, state.optimizer)
        average, decay = state.average, self.average
        if decay is not None:
            average = tree.map(lambda a, p: a + (p - a) * np.asarray(1 - decay, np.result_type(p)), average, params)
        changed = params, rest, inner, average
        if scale is not None:
            changed = tree.map(lambda new, old: np.where(finite, new, old), changed, tuple(state[:4]))
            scale = self._scale.update(scale, finite)
        new = State(*changed, state.rate_scale, state.key, state.count + 1, scale)
        return new, (value if aux is None else (value, aux))

    def gradient(self, state: State, batch: Any) -> tuple[Any, Any, Any, Any]:
        """Loss, `aux`, the new statistics and the gradient before clipping, in plain NumPy."""
        key = random.fold_in(state.key, state.count)
        compute = self._gradient if self.accumulate == 1 else self._accumulated
        return compute(state.params, state.rest, key, batch, state.loss_scale)

    def _gradient(self, params, rest, key, batch, loss_scale):
        """(value, aux, statistics, gradient) of one (micro-)batch."""
        factor = None if self._scale is None else self._scale.factor_of(loss_scale)

        def loss(params, batch):
            net = nn.merge(params if self.precision is None else self.precision.computed(params), rest)
            twin = nn.training(net, key)
            out = self.loss(twin, batch)
            value, aux = out if isinstance(out, tuple) and len(out) == 2 else (out, None)
            check.shape(value, (), "train.step: the loss", hint="a scalar; take its mean")
            value = self.result(value)
            scaled_value = value if factor is None else value * np.astype(factor, np.result_type(value))
            return scaled_value, (value, aux, nn.split(nn.trained(net, twin))[1])

        f = rematerialized(loss) if self.checkpoint else loss
        (_, (value, aux, rest)), grads = value_and_grad(f, has_aux=True)(params, batch)
        if factor is not None:
            grads = tree.map(lambda g: g / np.astype(factor, np.result_type(g)), grads)
        if not any(isinstance(g, Tensor) for g in tree.leaves(grads)) and isinstance(value, Tensor):
            raise ValueError(
                "train.step: the loss must depend on the parameters of the network, got one that depends "
                "on none of them"
            )
        return value, aux, rest, grads

    def _accumulated(self, params, rest, key, batch, loss_scale):
        """The same as the mean over parts of the batch, one after the other; the last one may be smaller."""
        sizes = {len(leaf) if np.ndim(leaf) else 0 for leaf in tree.leaves(batch)}
        if len(sizes) != 1 or 0 in sizes:
            raise ValueError(
                "train.step: with accumulate, arrays of a batch must have one number of samples along the "
                f"first axis, got {sorted(sizes)}"
            )
        n = sizes.pop()
        size = -(-n // self.accumulate)
        k = n // size
        parts = tree.map(lambda x: np.reshape(x[: k * size], (k, size, *np.shape(x)[1:])), batch)

        def part(carry, xs, share=size / n):
            """Add the loss and gradient of a part, times its share of the batch."""
            total, sums, rest = carry
            index, batch = xs
            value, aux, rest, grads = self._gradient(params, rest, random.fold_in(key, index), batch, loss_scale)
            grads = tree.map(lambda s, g: s + g * np.asarray(share, np.result_type(g)), sums, grads)
            return (total + value * share, grads, rest), aux

        zeros = tree.map(lambda p: np.zeros(np.shape(p), np.result_type(p)), params)
        carry, aux = scan(part, (np.float64(0), zeros, rest), (np.arange(k), parts))
        if k * size < n:
            carry, last = part(carry, (k, tree.map(lambda x: x[k * size :], batch)), share=1 - k * size / n)
            aux = tree.map(_joined, aux, last)
        total, sums, rest = carry
        return total, aux, rest, sums


def _joined(parts, last):
    """The results of equal parts and of a smaller one: its own entry, or its samples behind those of the others."""
    if np.shape(parts)[1:] == np.shape(last):
        return np.concatenate([parts, last[None]])
    return np.concatenate([np.reshape(parts, (-1, *np.shape(parts)[2:])), last])


def step(
    loss: Callable[..., Any],
    optimizer: Any,
    *,
    accumulate: int = 1,
    clip: float | None = None,
    average: float | None = None,
    checkpoint: bool = False,
    donate: bool = False,
    precision: Any = None,
) -> Step:
    """Return a training step: forward pass, gradient, clipping, optimizer and averages in one compiled function.

    Parameters
    ----------
    loss : callable
        ``loss(net, batch)`` returns a scalar, the mean over the batch, or ``(scalar, aux)``. The network is in training
        mode: dropout draws masks and batch normalization updates its statistics.
    optimizer : optimizer of `core.optim`
    accumulate : int, default 1
        Parts into which the batch is cut along the first axis of its arrays; the last one may be smaller. They are
        computed one after the other, and their gradients are averaged: the step of the whole batch, to rounding, with
        the memory of a part. (Batch normalization uses the statistics of the parts.) `aux` gets a leading axis, over
        the parts; if the last one is smaller, arrays over samples are joined instead.
    clip : float, optional
        Largest norm of the whole gradient; see `optim.clip_by_global_norm`.
    average : float, optional
        Decay of an exponential moving average of the parameters, such as 0.999, kept in ``state.average``.
    checkpoint : bool, default False
        Compute activations again in the backward pass instead of storing them.
    donate : bool, default False
        Overwrite the arrays of the state that a call is given with those of the state that it returns, which saves
        their memory and the time to allocate it. Copy what must outlive the step, the network given to `Step.init`
        included: ``step.init(tree.map(np.array, net))``. See `jit`.
    precision : {"float32", "bfloat16", "float16"} or Policy, optional
        Dtype of forward and backward pass; parameters and optimizer stay float32. "float16" scales the loss with a
        `DynamicScale`. See `Policy`.

    Returns
    -------
    Step

    Raises
    ------
    ValueError
        If the loss is not a scalar or does not depend on the parameters (at the first step), or options make no sense.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn, optim, random, train
    >>> def loss(net, batch):
    ...     x, y = batch
    ...     return nn.mean_squared_error(net(x), y)
    >>> x = random.normal(random.key(1), (64, 3))
    >>> y = x @ np.array([[1.0], [-2.0], [0.5]])
    >>> step = train.step(loss, optim.SGD(0.2))
    >>> state = step.init(nn.Linear.init(random.key(0), 3, 1, dtype=np.float64))
    >>> for _ in range(100):
    ...     state, value = step(state, (x, y))
    >>> state.net.weight.ravel().round(3)
    array([ 1. , -2. ,  0.5])
    """
    check.kind(loss, Callable, "train.step: loss", "a function of a network and a batch")
    if isinstance(optimizer, type):
        raise TypeError(
            f"train.step: optimizer must be an instance, got the class {optimizer.__name__} (make one: "
            f"optim.{optimizer.__name__}(...))"
        )
    if not (hasattr(optimizer, "init") and hasattr(optimizer, "step")):
        raise TypeError(f"train.step: optimizer must be one of core.optim, got {type(optimizer).__name__}")
    if len(inspect.signature(optimizer.init).parameters) != 1:
        raise TypeError(
            f"train.step: optimizer must step by gradients, got {type(optimizer).__name__}, whose `init` "
            f"and `step` take the loss and the batch (call them in a loop of your own)"
        )
    check.integer(accumulate, "train.step: accumulate", 1)
    if clip is not None:
        check.positive(clip, "train.step: clip")
    if average is not None:
        check.number(average, "train.step: average", 0.0, 1.0)
    policy = policy_of(precision, "train.step: precision")
    return Step(loss, optimizer, int(accumulate), clip, average, checkpoint, bool(donate), policy)
