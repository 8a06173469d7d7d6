"""Environments that come with the package.

Each file is one, and is found by being here: `ENVS` in it says under which names.
"""

from typing import Any as _Any

from ..discover import files as _files
from ..discover import public as _public


def registry() -> dict[str, _Any]:
    """Name -> function that makes the environment from options."""
    return {name: make for module in _files(__name__, __path__) for name, make in module.ENVS.items()}


def __getattr__(name: str) -> _Any:
    if not name.startswith("_") and name in (found := _public(__name__, __path__)):
        globals().update(found)
        return found[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(_public(__name__, __path__))
