"""K-FAC: natural gradient with Kronecker factors that are found in the graph of the loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .. import check, tree
from ..transforms.control.operators import cond
from .base import Optimizer, Rate
from .curvature import Curvature, Estimate
from .kronecker import add_scaled, blend, block_inverse, dot, precondition, scalar, scalar_dtype

__all__ = ["KFAC", "KFACState"]


class KFACState(NamedTuple):
    """Step count, damping, last update, factors and inverses of the blocks, see `KFAC`.

    Parameters
    ----------
    count : int64 scalar
    damping : scalar
    velocity : tree
        The last update of the parameters.
    factors, inverses : list of tuple of array
        One tuple for each block of `curvature_blocks`.
    """

    count: Any
    damping: Any
    velocity: Any
    factors: list[tuple[Any, ...]]
    inverses: list[tuple[Any, ...]]


@dataclass(frozen=True)
class KFAC(Optimizer):
    """Natural gradient with Kronecker-factored curvature (Martens & Grosse 2015, algorithm 2).

    The blocks of the Fisher matrix are found in the graph of the loss, so layers need no registration: see
    `curvature_blocks`. The loss must contain a marked likelihood (`likelihood`), which `nn.cross_entropy` and
    `nn.mean_squared_error` do. Unlike first-order optimizers, `init` and `step` take the loss and the batch: the
    optimizer computes gradient, curvature and, where needed, the loss after the step. Both are pure functions, to be
    compiled by `core.jit`.

    Parameters
    ----------
    learning_rate : float or schedule, optional
        By default, learning rate and momentum of each step minimize the quadratic model with the exact Fisher matrix of
        the batch (section 7).
    momentum : float, optional
        Must be given together with `learning_rate`.
    damping : float, default 1.0
        Tikhonov damping of the quadratic model, at the start. The factors of each block are damped by its square root
        (section 6.3).
    adaptive_damping : bool, default True
        Adapt the damping by the Levenberg-Marquardt rule (section 6.5): divide or multiply it by ``(19/20) **
        damping_every`` when the ratio of the loss's reduction to the model's is below 1/4 or above 3/4.
    damping_every : int, default 5
        Number of steps between adaptations.
    decay : float, default 0.95
        Largest weight of the past in the averages of the factors; at step k it is at most 1 - 1/k.
    inverse_every : int, default 5
        Number of steps between inversions of the factors. The first three steps always invert.
    exact : bool, default False
        Compute the factors of cotangents from a square root of each output's Hessian rather than from one sample of the
        targets (section 5): one backward pass for each entry of the last axis of the outputs. Rows of outputs get
        random signs, so the factors are exact where rows do not share inputs, and unbiased elsewhere.

    Raises
    ------
    ValueError
        If a number is out of range, or the learning rate or the momentum is missing.

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
    >>> opt = optim.KFAC(damping=0.01)
    >>> state = opt.init(loss, net, batch)
    >>> step = core.jit(functools.partial(opt.step, loss))
    >>> for key in random.split(random.key(1), 20):
    ...     net, state, info = step(net, batch, state, key)
    >>> bool(info["loss"] < 1e-3)
    True
    """

    learning_rate: Rate | None = None
    momentum: float | None = None
    damping: float = 1.0
    adaptive_damping: bool = True
    damping_every: int = 5
    decay: float = 0.95
    inverse_every: int = 5
    exact: bool = False

    def __post_init__(self) -> None:
        if (self.learning_rate is None) != (self.momentum is None):
            raise ValueError(
                f"KFAC: learning_rate and momentum must be given together, got {self.learning_rate} and "
                f"{self.momentum} (leave both out for the optimum of the quadratic model)"
            )
        super().__post_init__()
        check.positive(self.damping, "KFAC: damping")
        check.integer(self.inverse_every, "KFAC: inverse_every", 1)
        check.integer(self.damping_every, "KFAC: damping_every", 1)

    def init(self, loss: Callable[..., Any], params: Any, batch: Any) -> KFACState:
        """The state before the first step of ``loss(params, batch)``."""
        curvature = Curvature("KFAC", loss, params, batch)
        dtype = scalar_dtype(tree.leaves(params))
        velocity = tree.map(lambda p: np.zeros(np.shape(p), np.result_type(p)), params)
        return KFACState(
            np.zeros((), np.int64), np.asarray(self.damping, dtype), velocity, curvature.zeros(), curvature.zeros()
        )

    def step(
        self, loss: Callable[..., Any], params: Any, batch: Any, state: KFACState, key: Any
    ) -> tuple[Any, KFACState, dict[str, Any]]:
        """One update.

        Parameters
        ----------
        loss : callable
            ``loss(params, batch)``, the same function as in `init`.
        params, batch : tree of arrays
        state : KFACState
        key : key
            Source of the sampled targets; a new one for each step.

        Returns
        -------
        params : tree
        state : KFACState
        info : dict
            Scalars ``loss`` (before the step), ``damping``, ``learning_rate``, ``momentum`` and ``reduction_ratio``
            (of the last step at which the damping was adapted; NaN at others).
        """
        curvature = Curvature("KFAC", loss, params, batch)
        curvature.check([tuple(map(np.shape, f)) for f in state.factors])
        leaves, _ = curvature.inputs(params, batch)
        dtype = scalar_dtype(leaves)
        found = curvature.estimate(params, batch, key, self.exact)
        past = np.minimum(1 - 1 / np.astype(state.count + 1, dtype), np.asarray(self.decay, dtype))
        factors = [
            tuple(blend(a, b, past) for a, b in zip(old, new, strict=True))
            for old, new in zip(state.factors, found.factors, strict=True)
        ]
        inverses = cond(
            (state.count % self.inverse_every == 0) | (state.count < 3),
            lambda: [block_inverse(f, b.sizes, state.damping) for f, b in zip(factors, curvature.blocks, strict=True)],
            lambda: state.inverses,
        )
        direction = precondition(curvature, inverses, found.grads)
        velocity = tree.leaves(state.velocity)
        rate, momentum, change = self._size(curvature, params, batch, state, found, direction, velocity, dtype)
        update = [
            add_scaled(np.zeros(np.shape(d), np.result_type(d)), (-rate, d), (momentum, v))
            for d, v in zip(direction, velocity, strict=True)
        ]
        new = tree.unflatten(
            curvature.structure, [add_scaled(p, (np.ones((), dtype), u)) for p, u in zip(leaves, update, strict=True)]
        )
        damping, ratio = state.damping, np.asarray(np.nan, dtype)
        if self.adaptive_damping:
            damping, ratio = self._adapt(curvature, new, batch, state, found.loss, change)
        info = {
            "loss": found.loss,
            "damping": damping,
            "learning_rate": rate,
            "momentum": momentum,
            "reduction_ratio": ratio,
        }
        return (
            new,
            KFACState(state.count + 1, damping, tree.unflatten(curvature.structure, update), factors, inverses),
            info,
        )

    def _size(self, curvature, params, batch, state, found: Estimate, direction, velocity, dtype):
        """Learning rate, momentum, and the change of the quadratic model along that step."""
        if fixed := self.learning_rate is not None:
            rate, momentum = scalar(self.learning_rate, state.count, dtype), np.asarray(self.momentum, dtype)
            if not self.adaptive_damping:
                return rate, momentum, None
        vectors = [[-d for d in direction], velocity]
        table = curvature.products(params, batch, found.weights, vectors)
        table = [
            [np.astype(table[i][j], dtype) + state.damping * dot(vectors[i], vectors[j], dtype) for j in range(2)]
            for i in range(2)
        ]
        slope = [dot(v, found.grads, dtype) for v in vectors]
        if not fixed:
            rate, momentum = _minimum(table, slope)
        change = (
            rate * slope[0]
            + momentum * slope[1]
            + (rate * rate * table[0][0] + 2 * rate * momentum * table[0][1] + momentum * momentum * table[1][1]) / 2
        )
        return rate, momentum, change

    def _adapt(self, curvature, params, batch, state, before, change):
        """The damping for the next steps, and the ratio of the loss's change to that of the model."""
        dtype = np.result_type(state.damping)

        def adapt():
            ratio = np.astype(curvature.loss(params, batch) - before, dtype) / change
            factor = np.asarray(0.95**self.damping_every, dtype)
            grown = np.where(ratio >= 0.25, state.damping, state.damping / factor)
            return np.where(ratio > 0.75, state.damping * factor, grown), ratio

        return cond(
            (state.count + 1) % self.damping_every == 0, adapt, lambda: (state.damping, np.asarray(np.nan, dtype))
        )


def _minimum(table, slope):
    """Coefficients of two vectors that minimize the quadratic model; 0 for the second where it adds nothing."""
    (a, b), (_, c) = table
    zero, one = np.zeros_like(a), np.ones_like(a)
    determinant = a * c - b * b
    regular = determinant > 1e-6 * a * c
    safe = np.where(regular, determinant, one)
    first = np.where(regular, (b * slope[1] - c * slope[0]) / safe, -slope[0] / np.where(a > 0, a, one))
    return first, np.where(regular, (b * slope[0] - a * slope[1]) / safe, zero)
