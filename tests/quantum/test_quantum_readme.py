"""The README of quantum does not promise what is not there: every name in its tables exists."""

import re
from pathlib import Path

from triskele import quantum

README = (Path(__file__).parents[2] / "quantum" / "README.md").read_text()


def test_names_in_the_tables_exist():
    table = README.split("## Contents")[1].split("## Ground states")[0]
    modules = quantum.io, quantum.noise, quantum.optimizers, quantum.molecules
    known = {"core", "quantum", "optim", "chem", *(name for module in modules for name in dir(module))}
    quoted = [q for q in re.findall(r"`([^`]+)`", table) if '"' not in q and "..." not in q]
    words = {w for q in quoted for w in re.findall(r"[A-Za-z_]\w+", q.split("(")[0])}
    missing = sorted(
        w for w in words if w not in known and not hasattr(quantum, w) and not hasattr(quantum.Circuit(2), w)
    )
    assert not missing, f"README names what quantum does not have: {missing}"
