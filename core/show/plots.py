"""Style of pictures: journal widths, fonts, colors that color-blind readers can tell apart, and editable text.

Every ``plot`` method of the suite draws in this style when it makes its own axes, and in yours when you give it some.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from ..imports.optional import need

__all__ = ["COLORS", "axes", "band", "curves", "figure", "heatmap", "size", "style", "whole_ticks"]

#: Okabe and Ito's colors, which color-blind readers can tell apart (https://jfly.uni-koeln.de/color/).
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")

_WIDTHS = {"column": 8.6, "page": 17.8}  # cm: one column and two columns of a journal's page
_CM = 1 / 2.54  # in inches
_OPTIONS = {
    "font.family": "DejaVu Sans",
    "font.size": 8.0,
    "mathtext.fontset": "dejavusans",  # the fonts that Matplotlib has
    "axes.titlesize": 8.0,
    "axes.labelsize": 8.0,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "legend.fontsize": 7.0,
    "legend.frameon": False,
    "legend.handlelength": 1.5,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.5,
    "ytick.minor.width": 0.5,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.minor.size": 1.5,
    "ytick.minor.size": 1.5,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "errorbar.capsize": 2.0,
    "patch.linewidth": 0.6,
    "hatch.linewidth": 0.5,
    "grid.color": "0.88",
    "grid.linewidth": 0.5,
    "image.cmap": "viridis",
    "figure.dpi": 150,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 300,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "ps.fonttype": 42,  # letters stay letters
    "svg.hashsalt": "triskele",  # the same picture is the same file
}


def size(width: str | float = "column", height: float | None = None) -> tuple[float, float]:
    """Size of a figure in inches, as Matplotlib takes it.

    Parameters
    ----------
    width : {"column", "page"} or float, cm
        One column of a journal's page (8.6 cm) or both (17.8 cm).
    height : float, cm, optional
        Defaults to 0.62 of the width of one column for each column: 5.3 cm, or 6.2 cm for a wider figure.

    Returns
    -------
    tuple of float
        Width and height.

    Raises
    ------
    ValueError
        If a width or a height is not positive, or a name is unknown.

    Examples
    --------
    >>> from triskele import core
    >>> [round(2.54 * x, 2) for x in core.plots.size("page", height=7.0)]
    [17.8, 7.0]
    """
    if isinstance(width, str) and width not in _WIDTHS:
        raise ValueError(
            f"plots.size: width must be a number of cm or one of {', '.join(map(repr, _WIDTHS))}, got {width!r}"
        )
    wide = _WIDTHS[width] if isinstance(width, str) else float(width)
    high = min(0.62 * wide, 6.2) if height is None else float(height)
    if not (0 < wide < np.inf and 0 < high < np.inf):
        raise ValueError(f"plots.size: width and height must be positive numbers of cm, got {wide} and {high}")
    return wide * _CM, high * _CM


@contextmanager
def style(width: str | float = "column", height: float | None = None, **options: Any) -> Iterator[None]:
    """Context in which Matplotlib draws and saves in the style of the suite; call ``savefig`` inside it, too.

    Parameters
    ----------
    width, height : optional
        Default size of new figures, see `size`.
    **options
        Other options of Matplotlib, with underscores for their dots: ``font_size=9``.

    Raises
    ------
    ImportError
        If Matplotlib is not installed.
    ValueError
        If an option is unknown.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import matplotlib.pyplot as plt
    >>> from triskele import core
    >>> with core.plots.style("page", height=6.0):
    ...     fig, axes = plt.subplots(1, 2)
    ...     line, = axes[0].plot([1, 2, 3])
    >>> line.get_color()
    '#0072b2'
    """
    mpl = need("matplotlib", "plots.style", "plot")
    known = {name.replace(".", "_"): name for name in mpl.rcParams}
    if unknown := [name for name in options if name not in known]:
        raise ValueError(
            f"plots.style: options must be those of Matplotlib, with underscores for dots, got {unknown[0]!r}"
        )
    cycle = need("cycler", "plots.style", "plot").cycler(color=COLORS)
    from .styled_figure import rc

    with rc(
        {
            **_OPTIONS,
            "axes.prop_cycle": cycle,
            "figure.figsize": size(width, height),
            **{known[name]: value for name, value in options.items()},
        }
    ):
        yield


def figure(
    rows: int = 1, columns: int = 1, *, width: str | float = "column", height: float | None = None, **options: Any
) -> tuple[Any, Any]:
    """Figure with axes in the style of the suite, which it keeps when it is shown and saved later.

    Parameters
    ----------
    rows, columns : int
        Number of axes.
    width, height : optional
        Size in cm, see `size`.
    **options
        Other options of `matplotlib.pyplot.subplots`, such as ``sharex=True``.

    Returns
    -------
    figure : matplotlib Figure
        ``figure.savefig("name.pdf")`` writes a picture of just this size, with text that can be edited.
    axes : matplotlib Axes, or array of Axes

    Raises
    ------
    ImportError
        If Matplotlib is not installed.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from triskele import core
    >>> figure, (left, right) = core.plots.figure(1, 2, width="page", sharey=True)
    >>> left.set(xlabel="t [ps]", ylabel="E [kJ/mol]")  # doctest: +SKIP
    >>> figure.savefig("energy.svg")  # doctest: +SKIP
    """
    plt = need("matplotlib.pyplot", "plots.figure", "plot")
    from .styled_figure import StyledFigure

    with style(width, height):
        return plt.subplots(rows, columns, FigureClass=StyledFigure, **options)


@contextmanager
def axes(ax: Any, **labels: Any) -> Iterator[Any]:
    """Context of a ``plot(ax=None)`` method: yields `ax`, in the style of its figure, or new axes.

    Parameters
    ----------
    ax : matplotlib Axes or None
    **labels
        Properties of the axes, such as ``xlabel="t [ps]"``.

    Raises
    ------
    ImportError
        If Matplotlib is not installed.
    TypeError
        If `ax` is neither None nor Axes.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from triskele import core
    >>> class Curve:
    ...     def plot(self, ax=None, **line):
    ...         with core.plots.axes(ax, xlabel="t [ps]", ylabel="x [nm]") as ax:
    ...             ax.plot([0.0, 1.0], [2.0, 3.0], **line)
    ...         return ax
    >>> Curve().plot(color="black").get_xlabel()
    't [ps]'
    """
    if ax is not None and not (hasattr(ax, "plot") and hasattr(ax, "set")):
        raise TypeError(f"plot: ax must be Axes of Matplotlib, got {type(ax).__name__}")
    ax = figure()[1] if ax is None else ax
    own = getattr(ax.figure, "figure", ax.figure)  # of a part of a figure, the whole one
    with own.style() if hasattr(own, "style") else nullcontext():
        ax.set(**labels)
        yield ax


def band(ax: Any, x: Any, y: Any, error: Any, **line: Any) -> Any:
    """Draw a line with a band of one standard error to both sides; there is no band where the error is not finite.

    Parameters
    ----------
    ax : matplotlib Axes
    x, y, error : (n,) array
        The line has gaps where y is not finite.
    **line
        Options of the line, such as its color and label.

    Returns
    -------
    matplotlib Line2D
        The line.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from triskele import core
    >>> figure, ax = core.plots.figure()
    >>> line = core.plots.band(ax, [0, 1, 2], [1.0, 2.0, 4.0], [0.1, 0.2, 0.5], label="x")
    >>> len(ax.collections), line.get_label()
    (1, 'x')
    """
    x, y, error = (np.asarray(values, np.float64) for values in (x, y, error))
    y = np.where(np.isfinite(y), y, np.nan)
    error = np.where(np.isfinite(error), error, np.nan)
    (drawn,) = ax.plot(x, y, **line)
    ax.fill_between(x, y - error, y + error, color=drawn.get_color(), alpha=0.25, linewidth=0)
    return drawn


def curves(ax: Any, x: Any, values: Mapping[str, Any], *, reference: float | None = None, **line: Any) -> None:
    """Draw curves over steps or epochs; the y axis is logarithmic if all numbers are positive and far apart.

    Parameters
    ----------
    ax : matplotlib Axes
    x : (n,) array, optional
        Numbers of the steps. Counted from 0 if None; then the curves may differ in length.
    values : dict of str to (n,) array
        Curves by the names that the legend shows. A single one has no legend.
    reference : float, optional
        A value to compare with, drawn as a dashed line.
    **line
        Options of the lines.

    Raises
    ------
    ValueError
        If a curve is empty or does not have one number a step.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from triskele import core
    >>> figure, ax = core.plots.figure()
    >>> core.plots.curves(ax, [1, 2, 3], {"training": [9.0, 3.0, 0.1], "validation": [9.1, 3.5, 1.0]})
    >>> ax.get_yscale(), len(ax.lines)
    ('log', 2)
    """
    drawn = {name: np.asarray(y, np.float64) for name, y in values.items()}
    for name, y in drawn.items():
        if y.ndim != 1 or not y.size or x is not None and len(x) != len(y):
            raise ValueError(f"plots.curves: a curve must have one number a step, got the shape {y.shape} of {name!r}")
        steps = np.arange(len(y)) if x is None else x
        ax.plot(steps, y, **{"marker": "." if len(y) < 40 else None, "label": name, **line})
    if reference is not None:
        ax.axhline(reference, color="black", linewidth=0.8, linestyle="--", label="reference")
    seen = np.concatenate([*drawn.values(), [] if reference is None else [reference]])
    seen = seen[np.isfinite(seen)]
    if len(seen) and seen.min() > 0 and seen.max() > 20 * seen.min():
        ax.set_yscale("log")
    if len(drawn) > 1 or reference is not None:
        ax.legend()
    whole_ticks(ax.xaxis)


def heatmap(ax: Any, x: Any, y: Any, values: Any, label: str, **mesh: Any) -> Any:
    """Draw a table of numbers in colors, with a bar that explains them; numbers that are not finite stay white.

    Parameters
    ----------
    ax : matplotlib Axes
    x, y : (n,), (m,) array
        Middles of the cells, or their n + 1 and m + 1 edges.
    values : (n, m) array
    label : str
        Label of the bar, with the unit.
    **mesh
        Options of Matplotlib's ``pcolormesh``.

    Returns
    -------
    matplotlib QuadMesh

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from triskele import core
    >>> figure, ax = core.plots.figure()
    >>> mesh = core.plots.heatmap(ax, np.arange(3), np.arange(4), np.eye(3, 4), "overlap")
    >>> len(figure.axes)
    2
    """
    values = np.asarray(values, np.float64)
    shown = np.ma.masked_invalid(values.T)
    drawn = ax.pcolormesh(x, y, shown, **{"cmap": "viridis", "rasterized": True, **mesh})
    ax.spines[:].set_visible(True)
    ax.figure.colorbar(drawn, ax=ax, label=label)
    return drawn


def whole_ticks(axis: Any) -> None:
    """Put the ticks of a linear axis at whole numbers only.

    Parameters
    ----------
    axis : matplotlib Axis
        ``ax.xaxis`` or ``ax.yaxis``.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from triskele import core
    >>> figure, ax = core.plots.figure()
    >>> ax.set_xlim(0, 2)
    (0.0, 2.0)
    >>> core.plots.whole_ticks(ax.xaxis)
    >>> ax.get_xticks().tolist()
    [0.0, 1.0, 2.0]
    """
    from matplotlib.ticker import MaxNLocator

    if isinstance(locator := axis.get_major_locator(), MaxNLocator):
        locator.set_params(integer=True)
