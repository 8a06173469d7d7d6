"""Reporters that tests give to long work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def stop_at(step: int) -> Callable[[dict[str, Any]], None]:
    """Return a reporter that ends the work once it has made so many steps."""

    def reporter(record):
        if record["step"] >= step:
            raise StopIteration(f"step {record['step']}")

    return reporter
