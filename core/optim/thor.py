"""THOR: Kronecker-factored natural gradient whose layers are refreshed only while their curvature changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .. import check, random, tree
from ..transforms.control.operators import cond
from .base import Optimizer, Rate
from .curvature import Curvature
from .kronecker import add_scaled, blend, block_inverse, precondition, scalar, scalar_dtype, split, trace

__all__ = ["THOR", "THORState"]

_SMALLEST = 16  # rows of a block of a split factor


class THORState(NamedTuple):
    """Step count, last update, curvature of the blocks and what is known of its changes, see `THOR`.

    Parameters
    ----------
    count : int64 scalar
    velocity : tree
        Sum of past directions, weighted by the momentum.
    factors, inverses : list of tuple of array
        One tuple for each block of `curvature_blocks`. A factor that is split has shape (blocks, size, size).
    checks : int64 scalar
        Number of estimates of the factors.
    traces : (n_blocks,) array
        Traces of the blocks when they were last inverted.
    frozen : (n_blocks,) bool array
        True for blocks that are not refreshed any more.
    refreshes : (n_blocks,) int64 array
        Number of inversions of each block.
    """

    count: Any
    velocity: Any
    factors: list[tuple[Any, ...]]
    inverses: list[tuple[Any, ...]]
    checks: Any
    traces: Any
    frozen: Any
    refreshes: Any


@dataclass(frozen=True)
class THOR(Optimizer):
    """Trace-based, layer-wise natural gradient (Chen et al. 2021, sections 3.2 and 3.3).

    Works with the blocks of `KFAC`. Every `check_every` steps the factors are estimated, and the trace of each damped
    block is compared with the trace at its last inversion. A block whose trace has changed by more than `w1`, relative
    to it, is inverted again. A block whose trace has changed by less than `w2` is frozen: its inverse stays as it is to
    the end. Once all blocks are frozen a step costs a gradient and the products with the inverses.

    `init` replaces each factor by the smallest diagonal blocks that keep its largest eigenvalue up to `split_loss`.
    Like those of `KFAC`, `init` and `step` take the loss and the batch.

    Parameters
    ----------
    learning_rate : float or schedule
        A number, or a function of the number of steps.
    momentum : float, default 0.9
    damping : float or schedule, default 0.03
        Tikhonov damping of the blocks.
    w1 : float, default 0.01
        Smallest relative change of a trace for which a block is inverted again.
    w2 : float, default 0.001
        Relative change of a trace below which a block is frozen.
    check_every : int, default 10
        Number of steps between estimates of the factors.
    decay : float, default 0.9
        Largest weight of the past in the averages of the factors; at check k it is at most 1 - 1/k.
    split_loss : float, default 0.01
        Largest relative loss of the largest eigenvalue by splitting a factor; 0 splits only what is block-diagonal.

    Raises
    ------
    ValueError
        If a number is out of range, or `w2` is above `w1`.

    Examples
    --------
    >>> import functools
    >>> import numpy as np
    >>> from triskele import core
    >>> from triskele.core import nn, optim, random
    >>> def loss(net, batch):
    ...     return nn.mean_squared_error(net(batch[0]), batch[1])
    >>> x = np.linspace(-1, 1, 32, dtype=np.float32)[:, None]
    >>> net, batch = nn.MLP.init(random.key(0), [1, 16, 1]), (x, x**2)
    >>> opt = optim.THOR(0.1)
    >>> state = opt.init(loss, net, batch)
    >>> step = core.jit(functools.partial(opt.step, loss))
    >>> for key in random.split(random.key(1), 100):
    ...     net, state, info = step(net, batch, state, key)
    >>> bool(info["loss"] < 1e-2)
    True
    """

    learning_rate: Rate
    momentum: float = 0.9
    damping: Rate = 0.03
    w1: float = 0.01
    w2: float = 0.001
    check_every: int = 10
    decay: float = 0.9
    split_loss: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check.integer(self.check_every, "THOR: check_every", 1)
        check.number(self.split_loss, "THOR: split_loss", 0, 1)
        if not callable(self.damping):
            check.positive(self.damping, "THOR: damping")
        if self.w2 > self.w1:
            raise ValueError(f"THOR: w2 must not be above w1, got w1={self.w1} and w2={self.w2}")

    def init(self, loss: Callable[..., Any], params: Any, batch: Any) -> THORState:
        """The state before the first step of ``loss(params, batch)``; the batch decides how factors are split."""
        curvature = Curvature("THOR", loss, params, batch)
        found = curvature.estimate(params, batch, random.key(0)).factors
        factors = [tuple(np.zeros_like(_split_like(f, self._size(f))) for f in block) for block in found]
        velocity = tree.map(lambda p: np.zeros(np.shape(p), np.result_type(p)), params)
        n = len(factors)
        return THORState(
            np.zeros((), np.int64),
            velocity,
            factors,
            [tuple(map(np.copy, f)) for f in factors],
            np.zeros((), np.int64),
            np.zeros(n, scalar_dtype(tree.leaves(params))),
            np.array([b.kind == "constant" for b in curvature.blocks]),
            np.zeros(n, np.int64),
        )

    def _size(self, factor):
        """Rows of the smallest diagonal blocks that keep the largest eigenvalue; None to keep the factor whole."""
        if np.ndim(factor) != 2 or np.shape(factor)[0] != np.shape(factor)[1]:
            return None
        whole, size = float(np.linalg.norm(factor, 2)), _SMALLEST
        while size < len(factor):
            largest = float(np.max(np.linalg.norm(split(factor, size), 2, axis=(-2, -1))))
            if whole - largest <= self.split_loss * whole:
                return size
            size *= 2
        return None

    def step(
        self, loss: Callable[..., Any], params: Any, batch: Any, state: THORState, key: Any
    ) -> tuple[Any, THORState, dict[str, Any]]:
        """One update.

        Parameters
        ----------
        loss : callable
            ``loss(params, batch)``, the same function as in `init`.
        params, batch : tree of arrays
        state : THORState
        key : key
            Source of the sampled targets; a new one for each step.

        Returns
        -------
        params : tree
        state : THORState
        info : dict
            Scalars ``loss`` (before the step), ``learning_rate``, ``damping``, ``refreshed`` and ``frozen`` (numbers of
            blocks).
        """
        curvature = Curvature("THOR", loss, params, batch)
        leaves, _ = curvature.inputs(params, batch)
        dtype = scalar_dtype(leaves)
        curvature.check(
            [
                tuple(_whole_shape(f, n) for f, n in zip(block, b.sizes, strict=False))
                if b.kind == "kronecker"
                else tuple(map(np.shape, block))
                for block, b in zip(state.factors, curvature.blocks, strict=False)
            ]
        )
        checked = (state.count % self.check_every == 0) & np.logical_not(np.all(state.frozen))
        value, grads, factors = cond(
            checked,
            lambda: self._estimate(curvature, params, batch, state, key, dtype),
            lambda: self._gradient(curvature, params, batch, state),
        )
        damping = scalar(self.damping, state.count, dtype)
        rate = scalar(self.learning_rate, state.count, dtype)
        traces = np.stack(
            [_block_trace(f, b.sizes, damping, dtype) for f, b in zip(factors, curvature.blocks, strict=True)]
        )
        first = state.checks == 0
        known = np.where(state.traces > 0, state.traces, np.ones((), dtype))
        change = np.abs(traces - state.traces) / known
        live = checked & np.logical_not(state.frozen)
        refresh = live & (first | (change > np.asarray(self.w1, dtype)))
        frozen = state.frozen | (live & np.logical_not(first) & (change < np.asarray(self.w2, dtype)))
        inverses = [
            cond(refresh[k], lambda f=f, b=b: block_inverse(f, b.sizes, damping), lambda old=old: old) if f else ()
            for k, (f, b, old) in enumerate(zip(factors, curvature.blocks, state.inverses, strict=True))
        ]
        direction = precondition(curvature, inverses, grads)
        momentum = np.asarray(self.momentum, dtype)
        velocity = [add_scaled(d, (momentum, v)) for d, v in zip(direction, tree.leaves(state.velocity), strict=True)]
        new = [add_scaled(p, (-rate, v)) for p, v in zip(leaves, velocity, strict=True)]
        info = {
            "loss": value,
            "learning_rate": rate,
            "damping": damping,
            "refreshed": np.sum(refresh),
            "frozen": np.sum(frozen),
        }
        structure = curvature.structure
        return (
            tree.unflatten(structure, new),
            THORState(
                state.count + 1,
                tree.unflatten(structure, velocity),
                factors,
                inverses,
                state.checks + np.astype(checked, np.int64),
                np.where(refresh, traces, state.traces),
                frozen,
                state.refreshes + np.astype(refresh, np.int64),
            ),
            info,
        )

    def _estimate(self, curvature, params, batch, state, key, dtype):
        """Loss, gradient, and averages with newly estimated factors."""
        found = curvature.estimate(params, batch, key)
        past = np.minimum(1 - 1 / np.astype(state.checks + 1, dtype), np.asarray(self.decay, dtype))
        factors = [
            tuple(
                blend(a, _split_like(b, np.shape(a)[-1] if np.ndim(a) == 3 else None), past)
                for a, b in zip(old, new, strict=True)
            )
            for old, new in zip(state.factors, found.factors, strict=True)
        ]
        return found.loss, found.grads, factors

    def _gradient(self, curvature, params, batch, state):
        """Loss, gradient, and the factors as they are."""
        value, grads = curvature.gradient(params, batch)
        return value, grads, state.factors


def _split_like(factor, size):
    return factor if size is None else split(factor, size)


def _whole_shape(factor, n):
    """The shape of a factor of dimension `n` before it was split."""
    shape = np.shape(factor)
    fits = len(shape) == 3 and (shape[0] - 1) * shape[1] < n <= shape[0] * shape[1]
    return (n, n) if fits else shape


def _block_trace(factors, sizes, damping, dtype):
    """Trace of a damped block."""
    if not factors:
        return np.zeros((), dtype)
    product = 1.0
    for f in factors:
        product = np.astype(trace(f) if len(factors) == 2 else np.sum(f), dtype) * product
    return product + damping * np.asarray(np.prod(sizes), dtype)
