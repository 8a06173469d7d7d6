"""Pictures of circuits, counts, states and training.

All give back text or matplotlib objects, and change nothing global.
"""

from __future__ import annotations

import importlib
from typing import Any

from ..circuit import Circuit
from ..errors import CircuitError
from .text import draw_text

_LAZY = {
    "bloch": "sphere", "city": "charts", "draw_mpl": "mpl", "histogram": "charts", "probabilities": "charts",
    "training_curve": "charts",
}

__all__ = ["circuit", "draw_text", *_LAZY]


def circuit(circuit: Circuit, output: str = "text", **options: Any) -> Any:
    """A circuit's picture: "text" or "mpl"; options are those of `draw_text` and `draw_mpl`.

    Raises
    ------
    CircuitError
        If `output` is neither.
    """
    if output == "text":
        return draw_text(circuit, **options)
    if output != "mpl":
        raise CircuitError(f"draw: output must be 'text' or 'mpl', got {output!r}")
    from .mpl import draw_mpl

    return draw_mpl(circuit, **options)


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
