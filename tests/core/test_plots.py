"""The style of pictures: sizes, colors, bands of error, and files whose text can be edited."""

import io
import pickle
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from triskele import core
from triskele.core.show import plots

matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture(autouse=True)
def no_figures_left():
    import matplotlib.pyplot as plt

    matplotlib.use("Agg")
    yield
    plt.close("all")


def saved(figure, kind):
    data = io.BytesIO()
    figure.savefig(data, format=kind)
    return data.getvalue()


def test_sizes_are_those_of_a_journal():
    assert plots.size() == pytest.approx((8.6 / 2.54, 0.62 * 8.6 / 2.54))
    assert plots.size("page", 10) == pytest.approx((17.8 / 2.54, 10 / 2.54))
    for wrong in ("wide", 0, np.inf):
        with pytest.raises(ValueError, match=r"plots\.size: width"):
            plots.size(wrong)
    figure, _ = core.plots.figure(height=4)
    tree = ET.fromstring(saved(figure, "svg"))
    assert float(tree.get("width").removesuffix("pt")) == pytest.approx(8.6 / 2.54 * 72, abs=0.01)


def test_text_stays_text_and_ticks_keep_their_style():
    figure, ax = plots.figure()
    ax.plot([0, 1], [0, 1])
    ax.set_xlabel("r [nm]")
    with matplotlib.rc_context({"xtick.labelsize": 20}):  # the figure has a style of its own
        tree = ET.fromstring(saved(figure, "svg"))
    texts = {node.text: node.get("style") for node in tree.iter("{http://www.w3.org/2000/svg}text")}
    assert "r [nm]" in texts
    assert "7px" in texts["0.2"]
    assert b"/Type3" not in saved(figure, "pdf")
    assert saved(figure, "svg") != b"" and pickle.loads(pickle.dumps(figure)).axes[0].get_xlabel() == "r [nm]"


def test_style_is_left_behind():
    before = dict(matplotlib.rcParams)
    with plots.style("page", font_size=11, lines_linewidth=3):
        assert matplotlib.rcParams["font.size"] == 11
        assert matplotlib.rcParams["figure.figsize"] == pytest.approx(list(plots.size("page")))
    assert dict(matplotlib.rcParams) == before
    with (
        pytest.raises(ValueError, match="must be those of Matplotlib, with underscores for dots, got 'fonts'"),
        plots.style(fonts=3),
    ):
        pass


def test_style_takes_back_its_own_options_only():
    """Backends of notebooks set "interactive" when the first figure loads them."""
    with plots.style():
        matplotlib.interactive(True)
    try:
        assert matplotlib.is_interactive()
    finally:
        matplotlib.interactive(False)


def test_colors_differ_for_color_blind_readers():
    """By lightness or by hue in the simulation of deuteranopia by Machado, Oliveira and Fernandes (2009)."""
    seen = np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]])
    colors = np.array([matplotlib.colors.to_rgb(c) for c in plots.COLORS]) @ seen.T
    distances = np.linalg.norm(colors[:, None] - colors, axis=2) + np.eye(len(colors))
    assert distances.min() > 0.15


def test_axes_of_the_user_keep_their_style():
    import matplotlib.pyplot as plt

    _, mine = plt.subplots()
    with plots.axes(mine, xlabel="t [ps]") as ax:
        assert ax is mine
        assert matplotlib.rcParams["font.size"] == matplotlib.rcParamsDefault["font.size"]
    assert mine.get_xlabel() == "t [ps]"
    with pytest.raises(TypeError, match="ax must be Axes of Matplotlib, got str"), plots.axes("figure.png"):
        pass


def test_axes_of_a_styled_figure_have_its_style():
    """Colorbars, legends and titles as well, which are made after the figure."""
    _, (left, right) = plots.figure(1, 2, width="page")
    with plots.axes(left, title="a") as ax:
        assert matplotlib.rcParams["font.size"] == 8
        plots.heatmap(ax, np.arange(2), np.arange(2), np.eye(2), "E [kJ/mol]")
    assert left.figure.axes[2].yaxis.label.get_size() == right.yaxis.label.get_size() == 8
    assert matplotlib.rcParams["font.size"] == 10
    whole = plots.figure()[0]
    with plots.axes(whole.subfigures(1, 2)[0].subplots()):
        assert matplotlib.rcParams["font.size"] == 8


def test_a_band_stops_where_errors_are_unknown():
    _, ax = plots.figure()
    line = plots.band(ax, np.arange(5.0), [1, 2, 3, np.inf, 5], [0.1, np.inf, 0.1, 0.1, 0.1], color="black")
    np.testing.assert_array_equal(np.isnan(line.get_ydata()), [False, False, False, True, False])
    (drawn,) = ax.collections
    corners = np.concatenate([path.vertices for path in drawn.get_paths()])
    assert set(np.unique(corners[:, 0])) <= {0.0, 2.0, 4.0}
    assert corners[:, 1].max() == pytest.approx(5.1)
