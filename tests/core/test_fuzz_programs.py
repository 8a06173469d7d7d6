"""A sample of the random programs of `fuzz_programs`, and that it finds what is wrong."""

import numpy as np
import pytest

from tests.core import fuzz_programs as fuzz


def test_a_sample():
    done, findings, _ = fuzz.run(count=60, seed=20_000_000, show=False)
    assert done == 60
    assert not findings, findings


@pytest.mark.slow
def test_many():
    done, findings, _ = fuzz.run(count=20_000, seed=30_000_000, show=False)
    assert done == 20_000
    assert not findings, findings


def test_programs_are_reproducible_and_of_many_kinds():
    texts = [fuzz.make(seed).text() for seed in range(300)]
    assert texts == [fuzz.make(seed).text() for seed in range(300)]
    whole = "".join(texts)
    for part in (
        ".T[",
        ".reshape(-1)[",
        "np.split(",
        "for row in",
        "+= ",
        ".fill(",
        "np.add.at(",
        ".real",
        "astype",
        "if v",
        "out=",
    ):
        assert part in whole


def test_differences_are_found_and_shrunk(monkeypatch):
    """A cosine that is wrong in compiled programs only."""
    from triskele.core.ops.elementwise import square

    monkeypatch.setattr(square.primitive, "emit", lambda b, x: b.mul(x, b.const_like(2, x)))
    statements = ["v0 = x0 * 2.0", "v1 = v0.T", "v2 = np.square(v1)", "v3 = v0 + 1"]
    program = fuzz.Program(1, statements, [("x0", np.arange(3.0) + 5)], True)
    form, text = fuzz.check(program)
    assert form == "jit" and "instead of" in text
    small, _ = fuzz.shrink(program, (form, text))
    assert len(small.statements) < len(statements) and "np.square" in small.text()


def test_an_abort_is_a_finding(monkeypatch):
    monkeypatch.setenv("TRISKELE_FUZZ_ABORT", "40000002")
    done, findings, _ = fuzz.run(count=4, seed=40_000_000, show=False)
    assert done == 4 and [(f["seed"], f["form"]) for f in findings] == [(40_000_002, "abort")]
