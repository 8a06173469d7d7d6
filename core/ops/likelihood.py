"""`likelihood`: the mark by which second-order methods find a loss and the outputs of the network in a graph.

The primitive ``likelihood`` takes ``(losses, outputs)`` and returns `losses`. Compiled programs do not contain it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..graph.graph import Spec
from ..graph.primitive import Primitive
from ..graph.trace import bind
from .define import as_value, batch_first

__all__ = ["DISTRIBUTIONS", "likelihood", "likelihood_p"]

DISTRIBUTIONS = ("categorical", "bernoulli", "normal")


def _spec(losses: Spec, outputs: Spec, *, distribution: str) -> Spec:
    shapes = [outputs.shape]
    if distribution == "categorical":
        shapes = [outputs.shape[:-1], (*outputs.shape[:-1], 1)] if outputs.shape else []
    if losses.shape not in shapes:
        of = "outputs without its last axis" if distribution == "categorical" else "outputs"
        raise ValueError(
            f"likelihood: losses must have the shape of {of} for {distribution!r}, got {losses.shape} for "
            f"outputs {outputs.shape}"
        )
    return losses


def _samples(rng):
    return [
        ((rng.normal(size=4), rng.normal(size=(4, 3))), {"distribution": "categorical"}),
        ((rng.normal(size=(4, 3)), rng.normal(size=(4, 3))), {"distribution": "normal"}),
    ]


likelihood_p = Primitive("likelihood", lambda losses, *_, **__: losses, _spec, flops=0, samples=_samples)
likelihood_p.defvjp(lambda ct, *_, **__: ct, None)
likelihood_p.defjvp(lambda t, *_, **__: t, None)


@likelihood_p.defbatch
def _(args, axes, size, *, distribution):
    return bind(likelihood_p, *batch_first(args, axes, size), distribution=distribution), 0


def likelihood(losses: Any, outputs: Any, distribution: str) -> Any:
    """Mark `losses` as negative log-likelihoods of a distribution with parameters `outputs`.

    Values, derivatives and compiled programs do not change. `KFAC` and `THOR` read from the mark the curvature of the
    loss with respect to the outputs. `nn.cross_entropy` and `nn.mean_squared_error` contain the mark.

    Parameters
    ----------
    losses : array
        Losses of single predictions, from which the loss is computed by sums, means and weights:

        - ``"categorical"``: -log softmax(outputs)[label], ``(...)`` or ``(..., 1)``,
        - ``"bernoulli"``: log(1 + exp(outputs)) - target * outputs, ``(...)``,
        - ``"normal"``: (outputs - target)², ``(...)``.
    outputs : (..., n_classes) or (...) array
        Outputs of the network: logits or means.
    distribution : {"categorical", "bernoulli", "normal"}

    Returns
    -------
    array
        `losses`.

    Raises
    ------
    ValueError
        If the distribution is unknown, or the shapes do not belong together.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn, optim
    >>> def loss(weight, batch):
    ...     x, target = batch
    ...     logits = x @ weight
    ...     return np.mean(optim.likelihood(nn.softplus(logits) - target * logits, logits, "bernoulli"))
    >>> float(loss(np.zeros(3), (np.ones((4, 3)), np.ones(4))).round(6))
    0.693147
    """
    if distribution not in DISTRIBUTIONS:
        raise ValueError(
            f"likelihood: distribution must be one of {', '.join(map(repr, DISTRIBUTIONS))}, got {distribution!r}"
        )
    losses, outputs = as_value(losses), as_value(outputs)
    _spec(
        Spec(np.shape(losses), np.result_type(losses)),
        Spec(np.shape(outputs), np.result_type(outputs)),
        distribution=distribution,
    )
    return bind(likelihood_p, losses, outputs, distribution=distribution)
