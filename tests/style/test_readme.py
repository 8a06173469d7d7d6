"""The core's README does not promise what is not there: its examples run, and every name in its table exists."""

import re
from pathlib import Path

import numpy as np

from triskele import core

README = (Path(__file__).parents[2] / "core" / "README.md").read_text()
FIRST, *OTHERS = [
    block for block in re.findall(r"```python\n(.*?)```", README, re.S) if "import" in block or "core.jit" in block
]


def test_first_example_runs_and_learns():
    names = {}
    exec(FIRST, names)
    start = {"w1": np.zeros((3, 8)), "b1": np.zeros(8), "w2": np.zeros((8, 1))}
    assert names["value"] < names["loss"](start, names["x"], names["y"])


def test_other_examples_print_what_they_say(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # they write files, and would resume from those of an earlier run
    source = "\n".join(OTHERS)
    path = tmp_path / "examples.py"  # control flow is converted from source
    path.write_text(source)
    exec(compile(source, path, "exec"), {"__name__": "examples"})
    promised = re.findall(r"^print\(.*\) +# (.*)$", source, re.M)
    assert promised and capsys.readouterr().out.splitlines() == promised


def test_names_in_the_table_exist():
    table = README.split("## Contents")[1].split("### Operators of your own")[0]
    names = {
        n for quoted in re.findall(r"`([^`]+)`", table) for n in re.findall(r"(?<![.\w(])(?:core\.)?(\w+)", quoted)
    }
    names -= {"if", "while", "for", "assert", "raise", "f", "in_axes", "out_axes"}
    missing = sorted(n for n in names if not hasattr(core, n))
    assert not missing, f"README names what core does not have: {missing}"
