"""Packages that are imported only when something asks for them."""

import importlib
from types import ModuleType


def need(module: str, who: str, extra: str = "md") -> ModuleType:
    """Import `module`, or say which extra `who` wants."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{who}: needs {module.split('.')[0]} (pip install 'triskele[{extra}]')") from error
