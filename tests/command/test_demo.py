"""The demo: its parts name what exists, and its page is one file that shows everything and loads nothing."""

import base64
import io
import re
from html.parser import HTMLParser

import pytest

from triskele.command import examples, main, page
from triskele.command.demo import PARTS, Part, Result, run_part

VOID = {"meta", "img"}


class Page(HTMLParser):
    """Collects what a page refers to, its pictures and its text, and checks that its elements are closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.references, self.pictures, self.data = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        """Keep what the element refers to."""
        if tag not in VOID:
            self.open.append(tag)
        given = dict(attrs)
        self.references += [value for name, value in attrs if name in ("src", "href", "srcset", "data", "poster")]
        if tag == "img":
            assert given["alt"]
            self.pictures.append(given["src"])

    def handle_endtag(self, tag):
        """Elements are closed in order."""
        assert self.open.pop() == tag

    def handle_data(self, data):
        """Keep the text."""
        self.data.append(data)


def pixel_sizes(pictures):
    from matplotlib.image import imread

    kind = "data:image/png;base64,"
    assert all(picture.startswith(kind) for picture in pictures)
    return [
        imread(io.BytesIO(base64.b64decode(picture.removeprefix(kind), validate=True))).shape[:2]
        for picture in pictures
    ]


@pytest.fixture
def results(tmp_path):
    from matplotlib.image import imsave

    found = []
    for k, part in enumerate(PARTS):
        imsave(picture := tmp_path / f"{part.script}.png", [[0.0, 1.0, 0.5][: 2 + k % 2]] * (2 + k))
        found.append(Result(part, 1.5, "alpha  0.5 <b> & 100 % http://nowhere\n", picture))
    return found


def test_the_page_holds_all_that_it_shows(tmp_path, results):
    path = page.write_page(tmp_path / "index.html", results)
    text = path.read_text(encoding="utf-8")
    seen = Page(text)
    assert not seen.open
    assert seen.references == seen.pictures and len(seen.pictures) == len(PARTS)
    assert not re.search(r"url\(|@import|<script|<link|<iframe", text)
    assert pixel_sizes(seen.pictures) == [(2 + k, 2 + k % 2) for k in range(len(PARTS))]
    written = "".join(seen.data)
    assert "alpha  0.5 <b> & 100 % http://nowhere" in written
    assert all(part.title in written and part.text in written for part in PARTS)
    assert {"numba", "processor", "threads"} <= set(re.findall(r"<th>(.*?)</th>", text))
    assert "prefers-color-scheme: dark" in text


def test_parts_are_examples_and_say_how_long_they_take():
    known = examples.scripts()
    assert all(known[part.script].parent.name == part.package and part.seconds > 0 for part in PARTS)
    assert sum(part.seconds + part.compiling for part in PARTS) < 300


@pytest.mark.slow
def test_the_demo_of_the_core(tmp_path, capsys):
    assert main(["demo", "core", "--output", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("1 part, about 5 s on two cores")
    assert out.splitlines()[-1] == str(tmp_path / "index.html")
    text = (tmp_path / "index.html").read_text()
    assert len(Page(text).pictures) == 1
    # the maximum of the likelihood, near the posterior means of Carpenter's case study
    assert 0.5 < float(re.search(r"growth of hares, alpha</dt><dd>([\d.]+)<", text)[1]) < 0.6


def test_numbers_are_found_in_what_the_examples_print():
    """The formats of their prints, with other numbers."""
    printed = {
        "fit_ode": "54 evaluations of value\nalpha          0.5400   0.0549\ndelta          0.0237   0.0030",
        "solvated_peptide": "temperature 299.5 K, density 0.985 g/cm^3 (TIP3P: 0.98)",
        "vqe_lih": "0.0092 millihartree above FCI after 12 energies with gradients in 1.9 s: within",
        "alphazero_connect_four": "player                      wins  draws losses   score             return\n"
        "AlphaZero, 200 simulations     64      1     35    64.5 % ± 4.8      0.290",
    }
    for part in PARTS:
        result = Result(part, 1.0, printed[part.script], None)
        assert len(result.numbers) == len(part.numbers) >= 2
    assert dict(result.numbers)["wins, draws, losses"] == "64, 1, 35"


def test_a_part_that_fails_ends_the_demo(tmp_path):
    part = Part("core", "fit_ode", "Fit", "Fits.", 1, 1, options=("--no-such-option",))
    with pytest.raises(RuntimeError, match="the part 'Fit' must end well, got exit status 2"):
        run_part(part, tmp_path)
