"""Learning potentials: data, networks, training, and networks as potentials of simulations."""

from importlib import import_module as _import_module
from typing import Any as _Any

_HOME = {
    "Network": "network", "load": "network", "save": "network",
    "PaiNN": "painn",
}  # fmt: skip
__all__ = ["Network", "PaiNN", "load", "save"]


def __getattr__(name: str) -> _Any:
    if name in _HOME:
        value = globals()[name] = getattr(_import_module(f"{__name__}.{_HOME[name]}"), name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
