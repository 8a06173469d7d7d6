"""Checks of games and environments at their first use.

The checks play games and step environments, so they stand above both. The package's face registers the module that
holds them, and a game or environment asks for it here.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["Checks", "checks", "register"]


class Checks(Protocol):
    """The module that holds the checks."""

    def check_game_once(self, game: Any) -> None:
        """Raise GameError if the rules of a game do not keep their contract."""

    def check_env_once(self, env: Any) -> None:
        """Raise EnvError if the rules of an environment do not keep their contract."""


_load: Callable[[], Checks]


def register(load: Callable[[], Checks]) -> None:
    """Set the function that imports the checks."""
    global _load
    _load = load


def checks() -> Checks:
    """Return the module of checks, imported on first use."""
    from numba.core.errors import NumbaExperimentalFeatureWarning

    # of games whose records begin alike, Numba looks at the functions of both, and then takes the right ones
    warnings.filterwarnings("ignore", ".*has been considered a subtype", NumbaExperimentalFeatureWarning)
    return _load()
