"""Optional packages, imported where a function needs them."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

__all__ = ["need"]


def need(module: str, where: str, extra: str) -> ModuleType:
    """Import a module of an optional package for the function `where`; the error names the `extra` that installs it.

    >>> need("absent", "draw", "plot")
    Traceback (most recent call last):
    ModuleNotFoundError: draw: needs absent (pip install "triskele[plot]", or in a checkout pip install -e ".[plot]")
    """
    try:
        return import_module(module)
    except ImportError as error:
        name = module.split(".")[0]
        raise ModuleNotFoundError(
            f'{where}: needs {name} (pip install "triskele[{extra}]", or in a checkout pip install -e ".[{extra}]")',
            name=name,
        ) from error
