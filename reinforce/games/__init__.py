"""Games that come with the package. Each file is one game, and is found by being here."""

from importlib import import_module as _import_module
from pkgutil import iter_modules as _iter_modules
from typing import Any as _Any


def _found() -> dict[str, _Any]:
    modules = [_import_module(f"{__name__}.{m.name}") for m in _iter_modules(__path__)]
    return {name: getattr(module, name) for module in modules for name in module.__all__}


def __getattr__(name: str) -> _Any:
    if not name.startswith("_"):
        found = _found()
        globals().update(found)
        if name in found:
            return found[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(_found())
