"""Packages that only some functions need."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

__all__ = ["load"]


def load(module: str, extra: str, where: str) -> ModuleType:
    """The imported module; `where` begins the error, which names the extra that installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"{where}: needs {module.split('.')[0]} (pip install 'triskele[{extra}]')") from error
