"""Definitions that are found by being in a folder: an operation, a game or a simulator is one file."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules, walk_packages
from types import ModuleType
from typing import Any

__all__ = ["attach", "modules", "names", "public"]


def names(package: str, *, deep: bool = False) -> list[str]:
    """Return the names of a package's modules, in alphabetical order, without importing them.

    With `deep`, modules of the packages inside it follow as ``folder.module``.
    """
    path = import_module(package).__path__
    if not deep:
        return sorted(m.name for m in iter_modules(path))
    return sorted(m.name.removeprefix(f"{package}.") for m in walk_packages(path, f"{package}."))


def modules(package: str, *, deep: bool = False) -> dict[str, ModuleType]:
    """Import the modules of a package, and return them by their `names`."""
    return {name: import_module(f"{package}.{name}") for name in names(package, deep=deep)}


def public(package: str) -> dict[str, Any]:
    """Return everything that the modules of a package list in ``__all__``, by name."""
    return {name: getattr(module, name) for module in modules(package).values() for name in module.__all__}


def attach(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package: public names of its modules, imported on first use."""

    def get(name: str) -> Any:
        if not name.startswith("_") and name in (found := public(package)):
            vars(import_module(package)).update(found)
            return found[name]
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get, lambda: sorted(public(package))
