"""Blocks: some samples that travel through a pipeline together, with the numbers that their random keys are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import tree
from ..errors import DataError

__all__ = ["Block", "concatenate", "map_in_order", "same_shapes", "stack"]


class Block(NamedTuple):
    """Samples of a pipeline."""

    values: Any  # a list; if `stacked`, a tree of arrays with one leading axis
    ids: np.ndarray  # (n,) int64, number of each sample in its source
    epochs: np.ndarray  # (n,) int64, epoch that each sample is read in
    stacked: bool

    def samples(self) -> list[Any]:
        """The samples one by one."""
        if not self.stacked:
            return self.values
        return [map_in_order(lambda a, k=k: a[k], self.values) for k in range(len(self.ids))]

    def named(self, k: int, describe) -> str:
        """Sample `k` as messages name it: its number and, if it has one, its file."""
        found = describe(int(self.ids[k]))
        return f"sample {int(self.ids[k])}" + (f" ({found})" if found else "")


def map_in_order(f: Callable[..., Any], first: Any, *rest: Any) -> Any:
    """`tree.map`, with the keys of a dictionary in the order of the first one in place of a sorted one."""
    found = tree.map(f, first, *rest)
    return {key: found[key] for key in first} if type(first) is dict else found


def same_shapes(samples: list[Any]) -> bool:
    """Return True if the samples have one structure and equal shapes."""
    first, structure = tree.flatten(samples[0])
    shapes = [np.shape(x) for x in first]
    for sample in samples[1:]:
        found, s = tree.flatten(sample)
        if s != structure or [np.shape(x) for x in found] != shapes:
            return False
    return True


def stack(block: Block, describe) -> Block:
    """The block with its samples stacked; raises DataError if their shapes differ."""
    if block.stacked:
        return block
    samples = block.values
    if not same_shapes(samples):
        k = next(k for k in range(1, len(samples)) if not same_shapes([samples[0], samples[k]]))
        raise DataError(
            f"batch: all samples must have one shape, got {_shape(samples[0])} at "
            f"{block.named(0, describe)} and {_shape(samples[k])} at {block.named(k, describe)} "
            "(resize, crop or pad them first)"
        )
    return block._replace(values=map_in_order(lambda *xs: np.stack(xs), samples[0], *samples[1:]), stacked=True)


def concatenate(blocks: list[Block]) -> Block:
    """One block of several."""
    if len(blocks) == 1:
        return blocks[0]
    ids, epochs = (np.concatenate([getattr(b, name) for b in blocks]) for name in ("ids", "epochs"))
    if all(b.stacked for b in blocks) and same_shapes([tree.map(lambda a: a[0], b.values) for b in blocks]):
        values = map_in_order(lambda *xs: np.concatenate(xs), blocks[0].values, *[b.values for b in blocks[1:]])
        return Block(values, ids, epochs, True)
    return Block([s for b in blocks for s in b.samples()], ids, epochs, False)


def _shape(sample):
    shapes = tree.map(np.shape, sample)
    return shapes if tree.structure(sample).size != 1 else str(tree.map(lambda x: _Shown(np.shape(x)), sample))


class _Shown(str):
    def __new__(cls, shape):
        return super().__new__(cls, shape)

    __repr__ = str.__str__
