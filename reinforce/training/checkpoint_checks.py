"""Checks of what a checkpoint of an agent holds: the name of its environment, and the form of its state."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from triskele.core.extend import check

from ..errors import CheckpointError

__all__ = ["check_like", "registered"]


def registered(where: str, name: Any) -> str:
    """The name of an environment, if it is one: of ours, or of those that are registered with Gymnasium already."""
    from ..envs import registry

    check.kind(name, str, f"{where}: the environment", "given by its name", error=CheckpointError)
    if name not in registry() and ":" in name:  # Gymnasium would import what stands before the colon
        raise CheckpointError(
            f"{where}: the environment {name!r} would import a module (if you trust the file: load(path, env={name!r}))"
        )
    return name


def check_like(name: str, new: Any, old: Any) -> None:
    """Raise TypeError unless the state `new`, from a file, is built as `old` is: trees of arrays of the same shapes and
    types.

    A value that is still None or empty may become anything.
    """
    if old is None or isinstance(old, (dict, list, tuple)) and not old:
        return
    if isinstance(old, (np.ndarray, np.generic)):
        fits = (
            np.shape(new) == old.shape and np.result_type(new) == old.dtype
            if isinstance(new, (np.ndarray, np.generic))
            else False
        )
    elif isinstance(old, (bool, int, float)):
        fits = new is None or isinstance(new, (bool, int, float, np.generic))
    elif dataclasses.is_dataclass(old) or isinstance(old, (dict, list, tuple)):
        fits = type(new) is type(old)
        if fits:
            parts, theirs = _parts(old), _parts(new)
            fits = parts.keys() == theirs.keys()
            for key in parts if fits else ():
                check_like(f"{name}.{key}", theirs[key], parts[key])
    else:
        fits = type(new) is type(old)
    if not fits:
        raise TypeError(f"{name} must be {_kind(old)}, got {_kind(new)}")


def _parts(value):
    if isinstance(value, dict):
        return value
    if isinstance(value, (list, tuple)):
        return dict(enumerate(value))
    return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}


def _kind(value):
    return f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
