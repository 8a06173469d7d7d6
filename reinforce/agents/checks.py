"""Checks of hyper-parameters shared by several agents."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["check_layers"]


def check_layers(agent: str, hidden: Any, activation: Any) -> None:
    """Raise ValueError unless `hidden` holds widths of layers and `activation` is a function."""
    try:
        fits = not isinstance(hidden, str) and all(
            isinstance(n, (int, np.integer)) and not isinstance(n, bool) and n >= 1 for n in hidden
        )
    except TypeError:
        fits = False
    if not fits:
        raise ValueError(f"{agent}: hidden must be widths of layers, positive integers, got {hidden!r}")
    if not callable(activation):
        raise ValueError(f"{agent}: activation must be a function, got {activation!r}")
