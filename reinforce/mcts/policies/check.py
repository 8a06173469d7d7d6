"""Checks of the parameters of policies."""

from __future__ import annotations

import math
from typing import Any

from ...errors import SearchError

__all__ = ["check_number"]


def check_number(where: str, name: str, value: Any, low: float, what: str) -> None:
    """Raise SearchError unless a parameter is a number of at least `low`."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= low or math.isinf(value):
        raise SearchError(f"{where}: {name} must be {what}, got {value!r}")
