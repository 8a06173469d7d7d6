"""Qubits on the Bloch sphere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import states
from .colors import COLORS
from .figure import new_figure

__all__ = ["bloch"]


def bloch(state: Any, qubits: int | Sequence[int] | None = None) -> Any:
    """Draw the state of each qubit as an arrow in the Bloch sphere; arrows of mixed and entangled qubits are shorter
    than 1.

    Parameters
    ----------
    state : Result, or (2**n,) or (2**n, 2**n) array
    qubits : int or sequence of int, optional
        Defaults to all.

    Returns
    -------
    matplotlib Figure
        With one sphere for each qubit, up to five in a row.

    Raises
    ------
    CircuitError
        If a qubit is out of range or repeated.

    Examples
    --------
    >>> from triskele.quantum.draw import bloch
    >>> from triskele import quantum
    >>> len(bloch(quantum.run(quantum.Circuit(2).h(0).cx(0, 1))).axes)
    2
    """
    state = states.as_state(state, "bloch") if isinstance(state, (np.ndarray, list, tuple)) else state
    n = state.shape[0].bit_length() - 1 if isinstance(state, np.ndarray) else state.num_qubits
    chosen = states.check_qubits(qubits, n, "bloch")
    across = max(min(len(chosen), 5), 1)
    down = max(-(-len(chosen) // across), 1)
    figure = new_figure(2.5 * across, 2.8 * down, "bloch")
    for k, q in enumerate(chosen):
        rho = states.partial_trace(state, q) if isinstance(state, np.ndarray) else state.partial_trace(q)
        axes = figure.add_subplot(down, across, k + 1, projection="3d")
        _sphere(axes)
        _arrow(axes, states.bloch_vector(rho))
        axes.set_title(f"qubit {q}", fontsize=10, color=COLORS["ink"], y=1.03)
    figure.subplots_adjust(0, 0, 1, 0.88, 0, 0.25)
    return figure


def _sphere(axes: Any) -> None:
    t = np.linspace(0, 2 * np.pi, 73)
    u, v = np.meshgrid(t, np.linspace(0, np.pi, 25))
    axes.plot_surface(
        np.cos(u) * np.sin(v), np.sin(u) * np.sin(v), np.cos(v), color="#c9d6ea", alpha=0.25, lw=0, shade=False
    )
    for x, y, z in ((np.cos(t), np.sin(t), 0 * t), (np.cos(t), 0 * t, np.sin(t)), (0 * t, np.cos(t), np.sin(t))):
        axes.plot(x, y, z, color="#aab4bf", lw=0.6)
    for a, text in (((1, 0, 0), "x"), ((0, 1, 0), "y"), ((0, 0, 1), "|0⟩"), ((0, 0, -1), "|1⟩")):
        axes.plot(*np.stack([np.zeros(3), a], 1), color="#aab4bf", lw=0.8)
        axes.text(*(1.22 * np.array(a)), text, fontsize=8, ha="center", va="center", color=COLORS["ink"])
    axes.set_box_aspect((1, 1, 1), zoom=1.2)
    axes.set(xlim=(-1, 1), ylim=(-1, 1), zlim=(-1, 1))
    axes.set_proj_type("ortho")
    axes.view_init(20, 30)
    axes.set_axis_off()
    axes.computed_zorder = False  # else the sphere may cover the arrow


def _arrow(axes: Any, v: np.ndarray) -> None:
    length = np.linalg.norm(v)
    if length < 1e-3:  # nothing is known of it: the center
        axes.scatter(0, 0, 0, s=18, color=COLORS["channel"], depthshade=False, zorder=5)
        return
    axes.quiver(0, 0, 0, *v, color=COLORS["channel"], lw=2.2, arrow_length_ratio=0.16, zorder=5)
