"""The README of quantum does not promise what is not there: its examples run, and every name in its tables exists."""

import re
from pathlib import Path

import numpy as np

from triskele import core, quantum

README = (Path(__file__).parents[2] / "quantum" / "README.md").read_text()


def test_examples_run(capsys):
    rng = np.random.default_rng(0)
    names = {
        "np": np, "core": core, "quantum": quantum, "x": rng.standard_normal((8, 2)), "y": np.arange(8) % 2,
        "model": quantum.noise.NoiseModel().add(quantum.noise.depolarizing(0.01)),
    }
    for block in re.findall(r"```python\n(.*?)```", README, re.S):
        exec(block, names)
    assert 0 <= names["result"].energy - names["lih"].fci_energy < 1e-3


def test_names_in_the_tables_exist():
    table = README.split("## Contents")[1].split("## Ground states")[0]
    # chem is an extra
    known = {*dir(quantum.noise), *dir(quantum.optimizers), *dir(quantum.molecules), "core", "quantum", "optim", "chem"}
    quoted = [q for q in re.findall(r"`([^`]+)`", table) if '"' not in q and "..." not in q]
    words = {w for q in quoted for w in re.findall(r"[A-Za-z_]\w+", q.split("(")[0])}
    missing = sorted(w for w in words if w not in known and not hasattr(quantum, w)
                     and not hasattr(quantum.Circuit(2), w))
    assert not missing, f"README names what quantum does not have: {missing}"
