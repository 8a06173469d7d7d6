"""Drawings of circuits, as text or as a figure."""

from __future__ import annotations

from typing import Any

from ..circuit import Circuit
from ..errors import CircuitError
from .svg import draw_svg
from .text import draw_text

__all__ = ["circuit"]


def circuit(circuit: Circuit, output: str = "text", **options: Any) -> Any:
    """Draw a circuit as "text", "svg" or "mpl"; options are those of `draw_text`, `draw_svg` and `draw_mpl`.

    Parameters
    ----------
    circuit : Circuit
    output : {"text", "svg", "mpl"}, default "text"
    **options
        Passed to that function.

    Raises
    ------
    CircuitError
        If `output` is something else.

    Examples
    --------
    >>> from triskele import quantum
    >>> from triskele.quantum import draw
    >>> print(draw.circuit(quantum.Circuit(2).h(0).cx(0, 1)))
         ┌───┐
    q0: ─┤ H ├─●─
         └───┘ │
    q1: ───────⊕─
    """
    if output == "text":
        return draw_text(circuit, **options)
    if output == "svg":
        return draw_svg(circuit, **options)
    if output != "mpl":
        raise CircuitError(f"draw: output must be 'text', 'svg' or 'mpl', got {output!r}")
    from .mpl import draw_mpl

    return draw_mpl(circuit, **options)
