"""The notebooks of the tutorials run through Jupyter from an empty folder, and print what their pages say."""

import os
import runpy
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.docs.pages import assert_output

ROOT = Path(__file__).parents[2]
NOTEBOOKS = runpy.run_path(str(ROOT / "docs" / "notebooks.py"), run_name="notebooks")
TUTORIALS = [page for page, _ in NOTEBOOKS["all_notebooks"]()]


@pytest.fixture(autouse=True)
def jupyter(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(ROOT / ".src"), os.environ.get("PYTHONPATH")])))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("TRISKELE_QUIET", "1")


# the blocks of every page run in test_snippets.py, so one notebook shows that the conversion is right
@pytest.mark.parametrize(
    "page", [pytest.param(page, id=page.stem, marks=pytest.mark.slow if k else ()) for k, page in enumerate(TUTORIALS)]
)
def test_notebooks_run_and_print_what_the_page_says(page, tmp_path):
    made = nbformat.from_dict(NOTEBOOKS["notebook"](page.read_text()))
    nbformat.validate(made)
    done = nbformat.from_dict(made)
    (tmp_path / "empty").mkdir()
    NotebookClient(done, timeout=300, resources={"metadata": {"path": str(tmp_path / "empty")}}).execute()
    shown = [
        (cell, ran.outputs)
        for cell, ran in zip(made.cells, done.cells, strict=True)
        if cell.cell_type == "code" and cell.outputs
    ]
    assert shown
    for cell, outputs in shown:
        printed = "".join(o.text for o in outputs if o.output_type == "stream" and o.name == "stdout")
        assert_output(cell.outputs[0].text, printed, float("inf") if cell.metadata.get("tags") else 0.05)


def test_a_page_becomes_cells():
    page = (
        "# Title\n\nSee [there](../there.md).\n\n![A picture](../a.png)"
        "\n\n```python\nx = 1\nprint(x)\n```\n\n```text\n1\n```\n\nThe end.\n"
    )
    text, code, end = NOTEBOOKS["notebook"](page)["cells"]
    assert text["source"] == "# Title\n\nSee there." and end["source"] == "The end."
    assert code["source"] == "x = 1\nprint(x)" and code["outputs"][0]["text"] == "1\n"


def test_every_plot_shows_a_picture():
    """The first one as well as those after it, the user's own too."""
    setup = (
        "import numpy as np\nfrom triskele import sponge\n"
        "angles = np.random.default_rng(0).vonmises(0.0, 2.0, 2000)\n"
        "profile = sponge.analysis.profile(angles, temperature=300, period=(-np.pi, np.pi))"
    )
    own = "import matplotlib.pyplot as plt\nplt.plot([1, 2]);"
    cells = [nbformat.v4.new_code_cell(code) for code in (setup, "profile.plot()", "profile.plot()", own)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, timeout=300).execute()
    pictures = [sum("image/png" in output.get("data", {}) for output in cell.outputs) for cell in notebook.cells]
    assert pictures == [0, 1, 1, 1]
