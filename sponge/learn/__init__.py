"""Learning potentials: data, networks, training, and networks as potentials of simulations."""

from importlib import import_module as _import_module
from typing import Any as _Any

_HOME = {
    "Batches": "dataset", "Dataset": "dataset", "read_dataset": "dataset", "record": "dataset",
    "BehlerParrinello": "behler_parrinello", "PaiNN": "painn",
    "Network": "network", "load": "network", "save": "network",
    "Errors": "training", "History": "training", "Training": "training", "evaluate": "training", "fitted": "training",
    "train": "training",
}
__all__ = ["Batches", "BehlerParrinello", "Dataset", "Errors", "History", "Network", "PaiNN", "Training", "evaluate",
           "fitted",
           "load", "read_dataset", "record", "save", "train"]


def __getattr__(name: str) -> _Any:
    if name in _HOME:
        value = globals()[name] = getattr(_import_module(f"{__name__}.{_HOME[name]}"), name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
