"""What is shown while kernels are compiled, after a second: a bar in terminals and notebooks, a line in pipes."""

import logging
import time

import pytest

from triskele.core.kernels import notice
from triskele.core.show import progress


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.delenv("TRISKELE_QUIET", raising=False)
    monkeypatch.setattr(notice, "PATIENCE", 0.05)
    monkeypatch.setattr(notice, "_notice", notice._Notice())  # earlier tests may have just compiled


def compile_for(seconds):
    with notice.compiling("f"):
        time.sleep(seconds)


def settled(capsys):
    """The standard error stream after the bar has closed."""
    limit = time.monotonic() + 10
    while notice._notice._seconds and time.monotonic() < limit:
        time.sleep(0.02)
    return capsys.readouterr().err


@pytest.fixture
def notebook(monkeypatch):
    monkeypatch.setattr(progress, "_in_notebook", lambda: True)


def test_long_work_shows_one_bar_that_counts(notebook, capsys):
    compile_for(0.2)
    compile_for(0.01)
    shown = settled(capsys)
    assert "triskele: compiling, once on this machine: 2" in shown and shown.count("\n") == 1


def test_many_short_compilations_show_it_too(notebook, capsys):
    for _ in range(10):
        compile_for(0.02)
    assert "once on this machine" in settled(capsys)


def test_short_work_is_silent(notebook, capsys):
    compile_for(0.001)
    assert settled(capsys) == ""


def test_pipes_get_one_line_and_quiet_users_nothing_but_the_log(capsys, monkeypatch, caplog):
    with caplog.at_level(logging.INFO, logger=notice.__name__):
        compile_for(0.1)
    assert settled(capsys) == "triskele: compiling, once on this machine\n" and "compiled f in 0." in caplog.text
    compile_for(0.1)
    assert settled(capsys) == ""
    monkeypatch.setattr(progress, "_in_notebook", lambda: True)
    monkeypatch.setenv("TRISKELE_QUIET", "1")
    compile_for(0.1)
    assert settled(capsys) == ""


def test_a_program_that_only_imports_the_notebook_kernel_is_no_notebook():
    ipykernel = pytest.importorskip("ipykernel.kernelapp")
    assert not ipykernel.IPKernelApp.initialized() and not progress.is_watched()
