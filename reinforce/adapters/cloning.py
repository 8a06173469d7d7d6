"""Copies of environments in the middle of an episode."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from ..errors import GameError

__all__ = ["clone"]

E = TypeVar("E")


def clone(env: E) -> E:
    """Return a deep copy of an environment and its wrappers, state included; raise GameError where that is impossible.

    Environments that derive from Gymnasium's or PettingZoo's EzPickle are copied by their attributes: `copy.deepcopy`
    would create them again from their arguments, at the beginning. All copies share windows and pictures of pygame.
    """
    memo: dict[int, Any] = {}
    layers: list[tuple[Any, Any]] = []
    layer: Any = env
    while layer is not None:
        if hasattr(layer, "_ezpickle_args"):
            shell = object.__new__(type(layer))
            memo[id(layer)] = shell
            layers.append((layer, shell))
        for value in vars(layer).values():
            if type(value).__module__.partition(".")[0] == "pygame":
                memo[id(value)] = value
        layer = vars(layer).get("env")
    try:
        for layer, shell in layers:
            vars(shell).update(copy.deepcopy(vars(layer), memo))
        return copy.deepcopy(env, memo)
    except (TypeError, AttributeError, NotImplementedError) as error:
        raise GameError(f"{env} cannot be copied ({error}); give clone=, a function that copies it") from error
