"""Environments that come with the package.

Each file is one, and is found by being here: `ENVS` in it says under which names.
"""

from typing import Any as _Any

from triskele.core.extend import discover as _discover

__getattr__, __dir__ = _discover.attach(__name__)


def registry() -> dict[str, _Any]:
    """Name -> function that makes the environment from options."""
    return {name: make for module in _discover.modules(__name__).values() for name, make in module.ENVS.items()}
