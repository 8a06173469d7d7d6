"""Packages whose public names are imported when they are first used.

The names of a package stand in its stub file (``__init__.pyi``), which type checkers and editors read too.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["attach"]


def attach(name: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` for the module `name`, which import each name on first use.

    The names are those of its stub file, which consists of ``from .module import name as name``. A class whose module
    needs a package that is not installed is listed too (``help``, ``inspect`` and ``import *`` read every name) and
    raises when it is instantiated.
    """
    module = sys.modules[name]
    package = module.__package__ or name
    homes: dict[str, tuple[str, str]] = {}
    for node in ast.parse(Path(str(module.__file__)).with_suffix(".pyi").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            home = ".".join(above + ([node.module] if node.module else []))
            homes.update({alias.asname or alias.name: (home, alias.name) for alias in node.names})

    def get(attribute: str) -> Any:
        if attribute not in homes:
            from ..check import near

            raise AttributeError(f"module {name!r} has no attribute {attribute!r}{near(attribute, homes)}")
        home, original = homes[attribute]
        if home == name:  # one of its own modules
            return importlib.import_module(f"{home}.{original}")
        try:
            value = getattr(__import__(home, fromlist=[original]), original)
        except ModuleNotFoundError as error:
            if not error.name or error.name.startswith("triskele"):
                raise
            return _absent(original, home, str(error))
        setattr(module, attribute, value)
        return value

    public = sorted(homes)
    return get, lambda: public, public


def _absent(name: str, home: str, reason: str) -> type:
    def raise_reason(*_: Any, **_options: Any) -> Any:
        """Raise what its module raised."""
        raise ModuleNotFoundError(reason)

    return type(name, (), {"__new__": raise_reason, "__doc__": f"{reason}.", "__module__": home})
