"""The README of reinforce does not promise what is not there: every name in its table exists."""

import re
from pathlib import Path

from triskele import reinforce as rl

README = (Path(__file__).parents[2] / "reinforce" / "README.md").read_text()


def test_names_in_the_table_exist():
    table = README.split("## Contents")[1]
    words = {w for quoted in re.findall(r"`([^`]+)`", table) for w in re.findall(r"[A-Za-z_]\w+", quoted)}
    missing = sorted(w for w in words - {"rl", "print"} if not hasattr(rl, w))
    assert not missing, f"README names what reinforce does not have: {missing}"
