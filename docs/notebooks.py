"""The tutorials as Jupyter notebooks, made from their pages, so that nothing is written twice."""

import json
import re
from pathlib import Path

TUTORIALS = Path(__file__).with_name("pages") / "tutorials"
BLOCK = re.compile(
    r"^```python *\n(?P<code>.*?)^```\n"
    r"(?:\n*^```text(?P<sampled> sampled)? *\n(?P<output>.*?)^```\n)?",
    re.M | re.S,
)
IMAGE = re.compile(r"!\[[^\]]*\]\([^)]+\)\n*")  # which the notebook draws itself
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]+\)")  # to other pages, which a notebook lies far from


def notebook(markdown):
    """Return the notebook of a page: a cell for each block of Python with the output that the page shows, and for the
    text between two blocks.
    """
    cells, at = [], 0
    for block in BLOCK.finditer(markdown):
        cells += [_text(markdown[at : block.start()]), _code(block["code"], block["output"], block["sampled"])]
        at = block.end()
    cells = [cell for cell in [*cells, _text(markdown[at:])] if cell["source"]]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _text(markdown):
    return {"cell_type": "markdown", "metadata": {}, "source": LINK.sub(r"\1", IMAGE.sub("", markdown)).strip()}


def _code(code, output, sampled):
    outputs = [] if output is None else [{"output_type": "stream", "name": "stdout", "text": output}]
    metadata = {"tags": ["sampled"]} if sampled else {}
    return {
        "cell_type": "code",
        "metadata": metadata,
        "execution_count": None,
        "source": code.rstrip(),
        "outputs": outputs,
    }


def all_notebooks():
    """Yield the page and the text of the notebook of every tutorial."""
    for page in sorted(TUTORIALS.glob("*.md")):
        if page.stem != "index":
            yield page, json.dumps(notebook(page.read_text()), indent=1)
