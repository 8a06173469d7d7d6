"""Environments that come with the package. Each file is one, and is found by being here: `ENVS` in it says under which names."""

from importlib import import_module as _import_module
from pkgutil import iter_modules as _iter_modules
from typing import Any as _Any


def _modules() -> list[_Any]:
    return [_import_module(f"{__name__}.{m.name}") for m in _iter_modules(__path__)]


def registry() -> dict[str, _Any]:
    """Name -> function that makes the environment from options."""
    return {name: make for module in _modules() for name, make in module.ENVS.items()}


def __getattr__(name: str) -> _Any:
    if not name.startswith("_"):
        found = {n: getattr(module, n) for module in _modules() for n in module.__all__}
        globals().update(found)
        if name in found:
            return found[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(n for module in _modules() for n in module.__all__)
