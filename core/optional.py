"""Optional packages, imported where a function needs them."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

__all__ = ["need"]


def need(module: str, where: str, extra: str) -> ModuleType:
    """Import a module of an optional package.

    Parameters
    ----------
    module : str
        Its dotted name.
    where : str
        The function that needs it, as messages begin.
    extra : str
        The extra of triskele that installs it.

    Returns
    -------
    module

    Raises
    ------
    ImportError
        If the package is not installed; the message says how to install it.

    Examples
    --------
    >>> need("json.decoder", "load", "plot").__name__
    'json.decoder'
    >>> need("no_such_package", "draw", "plot")
    Traceback (most recent call last):
    ImportError: draw: needs no_such_package (pip install "triskele[plot]", or in a checkout pip install -e ".[plot]")
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"{where}: needs {module.split('.')[0]} (pip install \"triskele[{extra}]\", or in a checkout "
                          f"pip install -e \".[{extra}]\")") from error
