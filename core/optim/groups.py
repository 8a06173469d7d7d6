"""Different optimizers for parts of a network, and learning rates that are scaled while training runs."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .. import check, tree
from ..errors import TreeError
from .base import rate_of, update

__all__ = ["Frozen", "Groups", "scaled"]

Where = str | Callable[[str, Any], bool]


@dataclass(frozen=True)
class Frozen:
    """The optimizer of parameters that stay as they are, bit for bit. It has no state.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import optim
    >>> opt = optim.Groups([("encoder.*", optim.Frozen())], default=optim.SGD(0.1))
    >>> params = {"encoder": {"weight": np.ones(2)}, "head": np.ones(2)}
    >>> opt.step(params, params, opt.init(params))[0]
    {'encoder': {'weight': array([1., 1.])}, 'head': array([0.9, 0.9])}
    """

    def init(self, params: Any) -> Any:
        """Return a tree without leaves, since there is no state."""
        return tree.map(lambda _: None, params)

    def step(self, params: Any, grads: Any, state: Any) -> tuple[Any, Any]:
        """Return the parameters and the state unchanged."""
        (params,) = update("Frozen", lambda p, _: (p,), params, grads)
        return params, state


@dataclass(frozen=True)
class Groups:
    """Different optimizers for parts of the parameters, chosen by their paths in the tree.

    The state is a tuple of one state per rule and that of `default`. The trees in it are dictionaries by path.

    Parameters
    ----------
    rules : sequence of (where, optimizer)
        The first rule that matches a parameter decides. `where` is a pattern, in which ``*`` stands for any text and
        which must match the whole path, or a function ``where(path, leaf) -> bool``, which may look at the shape and
        dtype of the leaf, not at its values. Paths are those of `tree.paths`, such as ``layers[0].weight``.
    default : optimizer
        For parameters that no rule matches.

    Raises
    ------
    ValueError
        From `init` and `step`, if a rule is left without parameters.

    Examples
    --------
    No weight decay for biases and other vectors, a smaller rate for the output layer:

    >>> import numpy as np
    >>> from triskele.core import nn, optim, random
    >>> net = nn.MLP.init(random.key(0), [4, 8, 2])
    >>> opt = optim.Groups([(lambda path, leaf: leaf.ndim < 2, optim.Adam(1e-3)), ("layers[1].*", optim.AdamW(1e-4))],
    ...                    default=optim.AdamW(1e-3))
    >>> [sorted(state.first) for state in opt.init(net)]
    [['layers[0].bias', 'layers[1].bias'], ['layers[1].weight'], ['layers[0].weight']]
    """

    rules: Sequence[tuple[Where, Any]]
    default: Any

    def __post_init__(self) -> None:
        for rule in self.rules:
            if not (isinstance(rule, Sequence) and len(rule) == 2 and (isinstance(rule[0], str) or callable(rule[0]))):
                raise TypeError(
                    f"Groups: every rule must be a pair (pattern or function of path and leaf, optimizer), got {rule!r}"
                )
        for optimizer in self._optimizers():
            if isinstance(optimizer, type) or not (hasattr(optimizer, "init") and hasattr(optimizer, "step")):
                raise TypeError(f"Groups: an optimizer must be an object with methods init and step, got {optimizer!r}")
        object.__setattr__(self, "rules", tuple(tuple(rule) for rule in self.rules))

    def init(self, params: Any) -> tuple[Any, ...]:
        """The state before the first step."""
        parts = self._split(self._numbers(params), params)
        return tuple(o.init(part) for o, part in zip(self._optimizers(), parts, strict=True))

    def step(self, params: Any, grads: Any, state: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """One update. Returns ``(params, state)``."""
        structure = tree.structure(params)
        if tree.structure(grads) != structure:
            raise TreeError(
                f"Groups: parameters and gradients must have one structure, got {structure} and {tree.structure(grads)}"
            )
        if len(state) != len(self.rules) + 1:
            raise TreeError(
                f"Groups: the state must have an entry for each of {len(self.rules)} rules and the "
                f"default, got {len(state)}"
            )
        numbers = self._numbers(params)
        steps = [
            o.step(p, g, s)
            for o, p, g, s in zip(
                self._optimizers(), self._split(numbers, params), self._split(numbers, grads), state, strict=True
            )
        ]
        leaves = [steps[k][0][path] for k, (path, _) in zip(numbers, tree.paths(params), strict=True)]
        return tree.unflatten(structure, leaves), tuple(s for _, s in steps)

    def scaled(self, scale: Any) -> Groups:
        """The groups with all learning rates multiplied: see `optim.scaled`."""
        return Groups([(where, scaled(o, scale)) for where, o in self.rules], scaled(self.default, scale))

    def by_path(self, params: Any) -> dict[str, Any]:
        """The optimizer of each parameter, by its path."""
        optimizers = self._optimizers()
        return {path: optimizers[k] for k, (path, _) in zip(self._numbers(params), tree.paths(params), strict=True)}

    def _optimizers(self):
        return [*(o for _, o in self.rules), self.default]

    def _split(self, numbers, params):
        """A dictionary by path for each optimizer."""
        parts: list[dict[str, Any]] = [{} for _ in self._optimizers()]
        for k, (path, leaf) in zip(numbers, tree.paths(params), strict=True):
            parts[k][path] = leaf
        return parts

    def _numbers(self, params):
        """The number of the optimizer of each leaf."""
        leaves = tree.paths(params)
        if len(dict(leaves)) < len(leaves):
            raise ValueError(f"Groups: every parameter must have a path of its own, got {[path for path, _ in leaves]}")
        tests = [_test(where) for where, _ in self.rules]
        numbers = [next((k for k, test in enumerate(tests) if test(*leaf)), len(tests)) for leaf in leaves]
        for k, (where, _) in enumerate(self.rules):
            if k not in numbers:
                paths = [path for path, _ in leaves]
                name = repr(where) if isinstance(where, str) else getattr(where, "__name__", repr(where))
                taken = any(tests[k](*leaf) for leaf in leaves)
                raise ValueError(
                    f"Groups: rule {k}, {name}, must match a parameter, got "
                    + ("only parameters of earlier rules" if taken else "none")
                    + check.near(where, paths, listing=True)
                )
        return numbers


def _test(where):
    if callable(where):
        return where
    pattern = re.compile(".*".join(re.escape(text) for text in where.split("*")), re.DOTALL)
    return lambda path, leaf: pattern.fullmatch(path) is not None


def scaled(optimizer: Any, scale: Any) -> Any:
    """Return `optimizer` with its learning rate, a number or a schedule, multiplied by `scale`.

    The state of an optimizer does not depend on its rate, so a training loop can keep one state and scale the rate from
    step to step. Inside a compiled step `scale` may be a traced number: changing it compiles nothing. Weight decay is
    scaled too, since it is multiplied by the rate; for `Groups`, every group is scaled.

    Parameters
    ----------
    optimizer : optimizer
        Dataclass with a field `learning_rate`, or an object with a method ``scaled(scale)``.
    scale : float or traced number

    Returns
    -------
    optimizer

    Raises
    ------
    TypeError
        If the optimizer has neither.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core
    >>> from triskele.core import optim
    >>> optimizer = optim.SGD(optim.cosine_decay(0.1, 100), momentum=0.9)
    >>> step = core.jit(lambda params, grads, state, scale: optim.scaled(optimizer, scale).step(params, grads, state))
    >>> params = np.ones(2)
    >>> step(params, params, optimizer.init(params), 0.5)[0]
    array([0.95, 0.95])
    """
    if isinstance(optimizer, Frozen):
        return optimizer
    if hasattr(optimizer, "scaled"):
        return optimizer.scaled(scale)
    rate: Any = getattr(optimizer, "learning_rate", None)
    if rate is None or isinstance(optimizer, type) or not dataclasses.is_dataclass(optimizer):
        raise TypeError(
            f"scaled: the optimizer must be a dataclass with a learning_rate or have a method scaled, got {optimizer!r}"
        )
    scaled_rate = lambda count: rate_of(rate, count) * scale
    return dataclasses.replace(optimizer, learning_rate=scaled_rate)  # type: ignore[type-var]
