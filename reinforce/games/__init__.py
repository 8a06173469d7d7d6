"""Games that come with the package. Each file is one game, and is found by being here."""

from typing import Any as _Any

from ..discover import public as _public


def __getattr__(name: str) -> _Any:
    if not name.startswith("_") and name in (found := _public(__name__, __path__)):
        globals().update(found)
        return found[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(_public(__name__, __path__))
