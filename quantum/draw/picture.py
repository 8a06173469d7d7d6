"""Drawings of circuits, as text or as a figure."""

from __future__ import annotations

from typing import Any

from ..circuit import Circuit
from ..errors import CircuitError
from .text import draw_text

__all__ = ["circuit"]


def circuit(circuit: Circuit, output: str = "text", **options: Any) -> Any:
    """Draw a circuit as "text" or "mpl"; options are those of `draw_text` and `draw_mpl`.

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
