"""Spaces of Gymnasium as those of agents: observations become one array of numbers, actions keep their shape."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from .errors import EnvError
from .spaces import Box, Discrete, MultiDiscrete

__all__ = ["actions_of", "flattened", "leaves", "observations_of"]


def observations_of(name: str, space: Any) -> tuple[Box, Callable[[Any], np.ndarray]]:
    """Return the space of what agents see, and the function that makes it of a batch of Gymnasium's observations.

    A Box stays as it is, but for its dtype: uint8, or else float32. Other spaces become a Box with one axis, in the
    order of `gymnasium.spaces.utils.flatten`: discrete parts one-hot, parts of tuples and dictionaries in a row.
    """
    from gymnasium import spaces

    parts = list(leaves(name, space))
    if isinstance(space, spaces.Box) and space.shape:
        dtype = np.uint8 if space.dtype == np.uint8 else np.float32
        return Box(space.low, space.high, space.shape, dtype), functools.partial(np.asarray, dtype=dtype)
    flat: Any = spaces.utils.flatten_space(space)

    def joined(batch):
        """All parts of a batch of observations side by side."""
        return _joined(name, parts, [_at(batch, place) for place, _ in parts])

    return Box(flat.low, flat.high, flat.shape), joined


def flattened(name: str, space: Any, observation: Any) -> Any:
    """Return an observation of Gymnasium, or a batch of them, as agents see it, and flattened ones as they are.

    A batch has one axis more, in each part of tuples and dictionaries, as those of `gymnasium.make_vec`. Integers are
    the environment's observations where those are; one-hot observations are floats.
    """
    from gymnasium import spaces

    if not _is_raw(space, observation):
        return observation
    parts = list(leaves(name, space))
    try:
        values = [np.asarray(_at(observation, place)) for place, _ in parts]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise EnvError(f"{name}: an observation must have the parts of {space}, got {observation!r:.80}") from error
    several = values[0].ndim > len(parts[0][1].shape)
    for (place, part), x in zip(parts, values, strict=True):
        kinds = "iub" if isinstance(part, (spaces.Discrete, spaces.MultiDiscrete)) else "iubf"
        wanted = (*values[0].shape[:several], *part.shape)
        if x.dtype.kind not in kinds or x.shape != wanted:
            raise EnvError(
                f"{name}: an observation must have {'integers' if kinds == 'iub' else 'numbers'} of shape {wanted}"
                f"{f' at {list(place)}' if place else ''}, got {x.dtype} of shape {x.shape}"
            )
    flat = _joined(name, parts, values if several else [x[None] for x in values])
    return flat if several else flat[0]


def leaves(name: str, space: Any, error: type[Exception] = EnvError, place: tuple = ()) -> Iterator[tuple[tuple, Any]]:
    """The parts of an observation space that are no tuples or dictionaries, each with the keys that lead there; raise
    `error` if one is of no fixed size.
    """
    from gymnasium import spaces

    if isinstance(space, (spaces.Tuple, spaces.Dict)):
        for key, part in space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces):
            yield from leaves(name, part, error, (*place, key))
    elif isinstance(space, (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)):
        yield place, space
    else:
        at = f" at {list(place)}" if place else ""
        raise error(
            f"{name}: observations must be arrays of one size, got the space {space}{at} (make a Box of it by "
            f"gymnasium.wrappers.TransformObservation)"
        )


def actions_of(name: str, space: Any) -> Box | Discrete | MultiDiscrete:
    """Return the action space of agents."""
    from gymnasium import spaces

    if isinstance(space, spaces.Box) and space.dtype.kind == "f" and space.shape:
        return Box(space.low, space.high, space.shape)
    if isinstance(space, spaces.Discrete):
        return Discrete(int(space.n), int(space.start))
    if isinstance(space, spaces.MultiDiscrete):
        return MultiDiscrete(space.nvec, space.start)
    if isinstance(space, spaces.MultiBinary):
        return MultiDiscrete(np.full(space.shape, 2))
    raise EnvError(
        f"{name}: actions must be Discrete, MultiDiscrete, MultiBinary or a Box of floats, got {space} "
        f"(gymnasium.wrappers.TransformAction can make one of these of it)"
    )


def _is_raw(space, observation):
    """Whether an observation has the form of Gymnasium's, one or a batch, and not that which agents see."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        return isinstance(observation, Mapping)
    if isinstance(space, spaces.Tuple):
        return isinstance(observation, tuple) and len(observation) == len(space)
    if isinstance(space, spaces.Box) and space.shape:
        return False
    try:
        given = np.asarray(observation)
    except ValueError:  # rows of several lengths, which the policy refuses
        return False
    if isinstance(space, spaces.Box):  # one axis of length 1 is that of a flattened number
        return given.dtype.kind in "iubf" and given.ndim < 2 and given.shape != (1,)
    kinds = "iubf" if isinstance(space, spaces.MultiBinary) or not given.ndim else "iu"  # arrays of bool: one-hot
    return given.dtype.kind in kinds and space.shape in (given.shape, given.shape[1:])


def _at(batch, place):
    return functools.reduce(operator.getitem, place, batch)


def _joined(name, parts, values):
    """Batches of all parts side by side."""
    return np.concatenate([_numbers(name, part, x) for (_, part), x in zip(parts, values, strict=True)], axis=1)


def _numbers(name, space, batch):
    """Observations of a part, (N, k) float32."""
    from gymnasium import spaces

    batch = np.asarray(batch)
    if isinstance(space, (spaces.Box, spaces.MultiBinary)):
        return batch.reshape(len(batch), -1).astype(np.float32)
    number = space.n if isinstance(space, spaces.Discrete) else space.nvec
    counts = np.ravel(number)
    choices = batch.reshape(len(batch), -1).astype(np.int64) - np.ravel(space.start)
    wrong = ((choices < 0) | (choices >= counts)).any(axis=1)
    if wrong.any():
        raise EnvError(
            f"{name}: observations must lie in {space}, got {batch[wrong].tolist()!s:.80} "
            f"(possible: {space.start} to {space.start + number - 1})"
        )
    out = np.zeros((len(batch), counts.sum()), np.float32)
    out[np.arange(len(batch))[:, None], np.cumsum(counts) - counts + choices] = 1.0
    return out
