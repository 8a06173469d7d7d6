"""What is said while a function is compiled for long."""

import pytest

from triskele import core
from triskele.core.compile import waiting


def copied(x):
    for _ in range(200):
        try:
            x = x * 0.99 + 0.1
        except ValueError:
            raise
    return x


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(waiting, "PATIENCE", 0.0)
    monkeypatch.delenv("TRISKELE_QUIET", raising=False)


def test_a_line_names_the_function_and_the_loop_that_is_copied(at_once, capsys):
    core.jit(core.grad(copied))(1.5)
    said = capsys.readouterr().err
    assert said.startswith("triskele: compiling grad(copied) at ") and f"{__file__}:9" in said
    assert f"the for at {__file__}:10 is copied, as its body has a `try`" in said


def test_nothing_is_said_of_quick_programs_or_if_asked_for_silence(at_once, monkeypatch, capsys):
    monkeypatch.setenv("TRISKELE_QUIET", "1")
    core.jit(lambda x: copied(x) + 1)(1.5)
    monkeypatch.delenv("TRISKELE_QUIET")
    monkeypatch.setattr(waiting, "PATIENCE", 1000.0)
    core.jit(lambda x: copied(x) + 2)(1.5)
    assert capsys.readouterr().err == ""
