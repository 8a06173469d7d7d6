"""Files that are found by being in a folder: each game and each environment is one."""

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

__all__ = ["files", "public"]


def files(package: str, path: list[str]) -> list[ModuleType]:
    """The modules in a package's folder."""
    return [import_module(f"{package}.{m.name}") for m in iter_modules(path)]


def public(package: str, path: list[str]) -> dict[str, object]:
    """What these modules list in ``__all__``, by name."""
    return {name: getattr(module, name) for module in files(package, path) for name in module.__all__}
