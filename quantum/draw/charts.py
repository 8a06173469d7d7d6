"""Charts of measured counts, probabilities and density matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from triskele.core.extend import plots

from .. import states
from .colors import COLORS
from .figure import new_axes, new_figure

__all__ = ["city", "histogram", "probabilities"]

_MOST_LABELS = 40  # above which a bar has no number on it


def histogram(counts: Any, *, most: int = 32, axes: Any = None) -> Any:
    """Draw the counts of outcomes as bars.

    Parameters
    ----------
    counts : dict of str to number, Samples, or dict of str to these
        Bit strings with their counts or frequencies; several of them by name are drawn side by side with a legend.
    most : int
        Number of outcomes to show, the most frequent first; the others are summed in a last bar.
    axes : matplotlib Axes, optional
        Axes to draw on. Defaults to those of a new figure.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If `counts` has another type or is empty.

    Examples
    --------
    >>> from triskele.quantum.draw import histogram
    >>> axes = histogram({"00": 507, "11": 493})
    >>> axes.get_xticklabels()[1].get_text()
    '11'
    """
    series = {name: _counts(c) for name, c in counts.items()} if _is_named(counts) else {"": _counts(counts)}
    totals: dict[str, float] = {}
    for found in series.values():
        for bits, c in found.items():
            totals[bits] = totals.get(bits, 0) + c
    if not totals:
        raise ValueError("histogram: there must be at least one outcome, got none")
    shown = sorted(sorted(totals, key=lambda bits: -totals[bits])[:most])
    axes = new_axes(min(3.0 + 0.28 * len(shown) * len(series), 14.0), 3.4, "histogram") if axes is None else axes
    labels = [*shown, "rest"] if len(shown) < len(totals) else shown
    place, width = np.arange(len(labels)), 0.8 / len(series)
    for k, (name, found) in enumerate(series.items()):
        heights = [found.get(bits, 0) for bits in shown]
        heights += [sum(found.values()) - sum(heights)] if len(labels) > len(shown) else []
        bars = axes.bar(
            place + (k - (len(series) - 1) / 2) * width,
            heights,
            width * 0.94,
            color=plots.COLORS[k % len(plots.COLORS)],
            label=name,
        )
        if len(labels) * len(series) <= _MOST_LABELS:
            whole = all(isinstance(h, (int, np.integer)) for h in heights)
            numbers = [f"{h}" if whole else f"{h:.3g}" for h in heights]
            narrow = len(heights) * len(series) * max(map(len, numbers)) > 50
            axes.bar_label(bars, numbers, fontsize=7, padding=2, rotation=90 if narrow else 0)
    long = max(map(len, labels)) * len(labels) > 60
    axes.set_xticks(place, labels, rotation=90 if long else 0, family="monospace", fontsize=8)
    axes.set_ylabel("counts" if all(float(v).is_integer() for v in totals.values()) else "probability")
    axes.margins(x=0.02, y=0.16)
    if "" not in series:
        axes.legend(frameon=False)
    return axes


def _is_named(counts: Any) -> bool:
    return isinstance(counts, Mapping) and any(not isinstance(v, (int, float, np.number)) for v in counts.values())


def _counts(counts: Any) -> Mapping[str, float]:
    if isinstance(counts, Mapping):
        return counts
    if not hasattr(counts, "counts"):
        raise ValueError(
            f"histogram: counts must be a dict by bit string, Samples, or a dict of these by name, got "
            f"{type(counts).__name__}"
        )
    return counts.counts()


def probabilities(state: Any, qubits: Sequence[int] | None = None, *, most: int = 32, axes: Any = None) -> Any:
    """Draw the probabilities of outcomes as bars.

    Parameters
    ----------
    state : Result, or (2**n,) or (2**n, 2**n) array
    qubits : sequence of int, optional
        Measured qubits, the first one rightmost. Defaults to all.
    most, axes
        As for `histogram`.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use('Agg')
    >>> from triskele import quantum
    >>> axes = quantum.draw.probabilities(quantum.run(quantum.Circuit(2).h(0).cx(0, 1)))
    >>> len(axes.patches)
    2
    """
    p = state.probabilities(qubits) if hasattr(state, "probabilities") else states.probabilities(state, qubits)
    n = p.size.bit_length() - 1
    axes = histogram({format(k, f"0{n}b"): float(p[k]) for k in np.flatnonzero(p > 1e-12)}, most=most, axes=axes)
    axes.set_ylabel("probability")
    return axes


def city(state: Any) -> Any:
    """Draw the real and imaginary parts of a density matrix as bars in three dimensions.

    Parameters
    ----------
    state : Result, or (2**n,) or (2**n, 2**n) array
        A state of at most 5 qubits.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    ValueError
        If the state has more qubits.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use('Agg')
    >>> from triskele import quantum
    >>> figure = quantum.draw.city(quantum.run(quantum.Circuit(2).h(0).cx(0, 1)))
    >>> len(figure.axes)
    2
    """
    rho = states.density_matrix(states.as_state(state, "city"))
    n = len(rho).bit_length() - 1
    if n > 5:
        raise ValueError(f"city: at most 5 qubits can be drawn, got {n} (take partial_trace first)")
    figure = new_figure(9.0, 4.2, "city")
    labels = [format(k, f"0{n}b") for k in range(len(rho))]
    x, y = (grid.ravel() for grid in np.meshgrid(np.arange(len(rho)), np.arange(len(rho)), indexing="ij"))
    for k, (name, part) in enumerate((("Re", rho.real), ("Im", rho.imag))):
        axes = figure.add_subplot(1, 2, k + 1, projection="3d")
        height = part.ravel()
        axes.bar3d(
            x - 0.35,
            y - 0.35,
            np.minimum(height, 0),
            0.7,
            0.7,
            np.abs(height),
            shade=True,
            color=[COLORS["gate"] if h >= 0 else COLORS["channel"] for h in height],
        )
        axes.set_xticks(range(len(rho)), labels if n < 4 else [], fontsize=7)
        axes.set_yticks(range(len(rho)), labels if n < 4 else [], fontsize=7)
        axes.set_zlim(min(-0.05, rho.real.min(), rho.imag.min()), max(0.5, rho.real.max(), rho.imag.max()))
        axes.set_title(f"{name} ρ", fontsize=11)
    figure.tight_layout()
    return figure
