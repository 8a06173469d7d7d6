"""The README of reinforce does not promise what is not there: its examples run, and every name in its table exists."""

import re
from pathlib import Path

from triskele import reinforce as rl

README = (Path(__file__).parents[2] / "reinforce" / "README.md").read_text()


def test_examples_run_and_print_what_they_say(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # one of them saves a policy
    names = {"__name__": "readme"}
    for block in re.findall(r"```python\n(.*?)```", README, re.S):
        exec(block, names)
    assert names["agent"].evaluate(episodes=5).mean > 200
    assert capsys.readouterr().out.splitlines()[-1] == "0"


def test_names_in_the_table_exist():
    table = README.split("## Contents")[1]
    words = {w for quoted in re.findall(r"`([^`]+)`", table) for w in re.findall(r"[A-Za-z_]\w+", quoted)} - {"rl"}
    missing = sorted(w for w in words if not hasattr(rl, w))
    assert not missing, f"README names what reinforce does not have: {missing}"
