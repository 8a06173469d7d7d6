"""The loss around the parameters, along two random directions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import nn, random, tree
from ...compile.jit import jit

__all__ = ["directions", "landscape"]


def directions(params: Any, seed: int) -> Any:
    """A random direction whose filters have the norms of the parameters' filters.

    A filter is what computes one output: a column of the last axis. Biases and scales, which have one axis, stay as
    they are, as in the paper.
    """
    leaves, structure = tree.flatten(params)
    keys = random.split(random.key(seed), len(leaves))
    return tree.unflatten(structure, [_direction(np.asarray(p), k) for p, k in zip(leaves, keys, strict=True)])


def _direction(p, key):
    if p.ndim < 2:
        return np.zeros_like(p)
    d = np.asarray(random.normal(key, p.shape), np.float64)
    axes = tuple(range(p.ndim - 1))
    norm = np.sqrt((d**2).sum(axes))
    return (d * (np.sqrt((np.abs(p) ** 2).sum(axes)) / np.where(norm > 0, norm, 1))).astype(p.dtype)


def landscape(
    loss: Callable[[Any, Any], Any],  # loss(net, batch)
    params: Any,
    rest: Any,  # the other part of the network, see `nn.split`
    batch: Any,
    *,
    points: int = 21,  # of the grid, along each direction
    reach: float = 1.0,  # the grid extends from -reach to reach; at 1 filters have moved by their own norm
    seed: int = 0,
) -> dict[str, Any]:
    """Return the loss of a batch around the parameters, along two filter-normalized random directions.

    ``grid`` holds the coordinates, ``loss`` a (points, points) array. See Li et al., Visualizing the Loss Landscape of
    Neural Nets, NeurIPS 2018, equation (1) and section 4.
    """
    first, second = directions(params, 2 * seed), directions(params, 2 * seed + 1)

    def at(a, b, params, rest, batch):
        moved = tree.map(lambda p, d, e: p + (a * d + b * e).astype(np.result_type(p)), params, first, second)
        return loss(nn.merge(moved, rest), batch)

    compiled, grid = jit(at), np.linspace(-reach, reach, points)
    found = [[float(compiled(np.float64(a), np.float64(b), params, rest, batch)) for b in grid] for a in grid]
    return {"grid": grid, "loss": np.array(found)}
