"""Training mode: layers that behave differently in training, wherever they stand in a network.

Such a layer has a method ``training(key)`` that returns its twin for one forward pass, and may name fields that are
running statistics rather than parameters in ``statistics``; its twin then has a method ``trained()`` that returns the
layer with the statistics after that pass. The mode is part of the tree, so a compiled function never confuses the two.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from .. import random, tree
from ..dtypes import kind_of

__all__ = ["apply_training", "merge", "split", "trained", "training"]

T = TypeVar("T")


def _is_special(node):
    return hasattr(type(node), "training")


def training(net: T, key: Any) -> T:
    """Return the network in training mode, for one forward pass.

    Parameters
    ----------
    net : tree
        Network; layers with a method ``training(key)`` are found at any depth.
    key : key
        Source of random masks; see `random.key`.

    Returns
    -------
    tree
        Network whose special layers are replaced by their twins. After the pass, `trained` gives the network with new
        running statistics.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn, random
    >>> net = {"norm": nn.BatchNorm.init(3), "drop": nn.Dropout(0.5)}
    >>> twin = nn.training(net, random.key(0))
    >>> y = twin["drop"](twin["norm"](np.arange(6.0).reshape(2, 3)))
    >>> nn.trained(net, twin)["norm"].mean.round(3)
    array([0.15, 0.25, 0.35])
    """
    nodes, structure = tree.flatten(net, _is_special)
    twins = [node.training(random.fold_in(key, k)) if _is_special(node) else node for k, node in enumerate(nodes)]
    return tree.unflatten(structure, twins)


def trained(net: T, twin: T) -> T:
    """Return the network with the running statistics that its twin of `training` has seen.

    Parameters
    ----------
    net, twin : tree
        A network, and what `training` made of it.

    Raises
    ------
    ValueError
        If a layer with statistics ran inside `scan`, `vmap` or another compiled function, where they cannot leave.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn, random
    >>> net = nn.BatchNorm.init(1)
    >>> twin = nn.training(net, random.key(0))
    >>> y = twin(np.array([[1.0], [3.0]]))
    >>> nn.trained(net, twin).mean.round(3)
    array([0.2])
    """
    nodes, structure = tree.flatten(net, _is_special)
    twins, _ = tree.flatten(twin, _is_special)
    after = [new.trained() if hasattr(type(new), "trained") else node for node, new in zip(nodes, twins, strict=True)]
    for layer in after:
        if any(not getattr(getattr(x, "_trace", None), "alive", True) for x in tree.leaves(layer)):
            raise ValueError(
                f"{type(layer).__name__}: its statistics cannot leave the scan, vmap or compiled function "
                f"in which it ran (call the layer outside of it, or use a layer without statistics)"
            )
    return tree.unflatten(structure, after)


def apply_training(net: Any, key: Any, *inputs: Any) -> tuple[Any, Any]:
    """Apply a network in training mode.

    Parameters
    ----------
    net : tree
        A network that can be called.
    key : key
        Source of random masks; see `random.key`.
    *inputs
        Arguments of the network.

    Returns
    -------
    outputs
        Outputs of the network.
    net
        The network with new running statistics.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn, random
    >>> y, norm = nn.apply_training(nn.BatchNorm.init(1), random.key(0), np.array([[1.0], [3.0]]))
    >>> y.round(3).tolist(), norm.mean.round(3)
    ([[-1.0], [1.0]], array([0.2]))
    """
    twin = training(net, key)
    return twin(*inputs), trained(net, twin)


def split(net: T) -> tuple[T, T]:
    """Split a network into trainable parameters and everything else.

    Parameters
    ----------
    net : tree

    Returns
    -------
    params, rest : tree
        Trees of the network's shape with None for the leaves of the other. `rest` has running statistics (fields named
        in a layer's ``statistics``) and leaves that are not floating-point or complex numbers.

    Examples
    --------
    >>> from triskele.core import nn, tree
    >>> params, rest = nn.split(nn.BatchNorm.init(3))
    >>> [len(tree.leaves(part)) for part in (params, rest)]
    [2, 2]
    """
    leaves, structure = tree.flatten(net)
    trainable = [
        kind_of(np.result_type(x)) in "fc" and not fixed
        for x, fixed in zip(leaves, _are_statistics(net, False), strict=True)
    ]
    parts = [
        tree.unflatten(structure, [x if t is wanted else None for x, t in zip(leaves, trainable, strict=True)])
        for wanted in (True, False)
    ]
    return parts[0], parts[1]


def _are_statistics(node, inside):
    """For each leaf, in their order: True if it is a running statistic."""
    inner = None if node is None else tree.inner(node)
    if inner is None:
        return [] if node is None else [inside]
    kind, names, children = inner
    named = getattr(kind, "statistics", ())
    return [
        fixed
        for name, child in zip(names, children, strict=True)
        for fixed in _are_statistics(child, inside or name in named)
    ]


def merge(params: T, rest: T) -> T:
    """Undo `split`.

    Parameters
    ----------
    params, rest : tree

    Examples
    --------
    >>> from triskele.core import nn
    >>> nn.merge(*nn.split(nn.BatchNorm.init(3))).variance
    array([1., 1., 1.], dtype=float32)
    """

    def is_none(x):
        return x is None

    return tree.map(lambda p, r: r if p is None else p, params, rest, is_leaf=is_none)
