"""One grammar for long work: the same keywords do the same in all packages."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import sys

import numpy as np
import pytest

from tests.grammar.works import WORKS
from tests.reporting import stop_at
from triskele import core
from triskele.core import errors
from triskele.core.show import progress, report

ALL = pytest.mark.parametrize("work", WORKS, ids=lambda work: work.name)
WITH_CHECKPOINT = pytest.mark.parametrize("work", [w for w in WORKS if w.checkpoint], ids=lambda work: work.name)


def assert_same(a, b):
    for x, y in zip(core.tree.leaves(a), core.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


class Terminal(io.StringIO):
    def isatty(self):
        return True


@ALL
def test_a_list_gets_flat_records_of_numbers(work):
    records, others = [], []
    work.run(report=[records.append, others.append])
    steps = [r["step"] for r in records]
    assert steps == sorted(set(steps)) and steps[0] >= 1 and records == others
    json.dumps(records)  # plain numbers, as wandb.log and json want them
    assert all(isinstance(x, (int, float, type(None))) for r in records for x in r.values())
    assert all(list(r) == list(records[0]) for r in records) and len(records[0]) > 1


@ALL
def test_a_reporter_may_end_the_work(work):
    records = []
    _, reason = work.run(report=[records.append, stop_at(work.stop)])
    assert records[-1]["step"] == min(r["step"] for r in records if r["step"] >= work.stop)
    assert reason in (f"step {records[-1]['step']}", None)


@ALL
def test_a_reporter_that_cannot_be_called_is_refused(work):
    with pytest.raises(TypeError, match="report must be a function of a dictionary of numbers"):
        work.run(report="curve.csv")


@ALL
def test_bars_go_to_terminals_and_not_into_pipes(work, monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 0)
    monkeypatch.delenv("TRISKELE_QUIET", raising=False)
    shown = {}
    for kind in (Terminal, io.StringIO):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", kind())
            with contextlib.redirect_stdout(io.StringIO()) as out:
                work.run()
            shown[kind] = sys.stderr.getvalue() + out.getvalue()
    assert "it/s" in shown[Terminal] or "/s]" in shown[Terminal] or "s/ " in shown[Terminal]
    assert shown[io.StringIO] == ""


@pytest.mark.parametrize("work", [w for w in WORKS if w.seeded], ids=lambda work: work.name)
def test_a_seed_repeats_and_another_does_not(work):
    first, again, other = (work.run(seed=seed)[0] for seed in (3, 3, 4))
    assert_same(first, again)
    with pytest.raises(AssertionError):
        assert_same(first, other)
    assert_same(work.run()[0], work.run(seed=0)[0])  # one default everywhere


@WITH_CHECKPOINT
def test_a_checkpoint_resumes_bit_for_bit(work, tmp_path):
    whole, table = work.run(checkpoint=tmp_path / "whole.chk")[0], tmp_path / "table.csv"
    begun = work.run(checkpoint=tmp_path / "a.chk", report=[stop_at(work.stop), report.CSV(table)])[0]
    with pytest.raises(AssertionError):
        assert_same(begun, whole)
    later = []
    assert_same(work.run(checkpoint=tmp_path / "a.chk", report=[later.append, report.CSV(table)])[0], whole)
    assert later[0]["step"] > work.stop, "what was done is not done again"
    steps = [int(row["step"]) for row in rows_of(table)]
    assert steps == sorted(set(steps)) and steps[-1] == later[-1]["step"]
    assert_same(work.run(checkpoint=tmp_path / "a.chk")[0], whole)


@WITH_CHECKPOINT
def test_a_checkpoint_of_other_work_is_refused_by_name(work, tmp_path):
    work.run(checkpoint=tmp_path / "a.chk", report=stop_at(work.stop))
    if work.seeded:
        with pytest.raises(errors.CheckpointError, match=r"a\..*chk.*seed"):
            work.run(seed=1, checkpoint=tmp_path / "a.chk")
    (tmp_path / "a.chk").write_bytes(b"something else")
    with pytest.raises(errors.CheckpointError, match=r"a\.chk"):
        work.run(checkpoint=tmp_path / "a.chk")


class TestReporters:
    def test_csv_keeps_every_nth_step_and_continues(self, tmp_path):
        for first, last in ((0, 7), (5, 12)):  # resumed at step 5, where the checkpoint was
            with report.Work("test", report.CSV(tmp_path / "a.csv", every=2), done=first) as work:
                for step in range(first + 1, last + 1):
                    work({"step": step, "loss": 1 / step})
        rows = rows_of(tmp_path / "a.csv")
        assert [int(r["step"]) for r in rows] == [2, 4, 6, 8, 10, 12]
        assert [float(r["loss"]) for r in rows] == [1 / n for n in (2, 4, 6, 8, 10, 12)]

    def test_work_in_leaps_reports_when_it_passes_a_multiple(self):
        found = []
        reporter = report.Log(every=100)
        with report.Work("test", found.append) as work:
            for step in (60, 120, 180, 240):
                work({"step": step})
        with contextlib.redirect_stdout(io.StringIO()) as out, report.Work("test", reporter) as work:
            for step in (60, 120, 180, 240):
                work({"step": step})
        assert [r["step"] for r in found] == [60, 120, 180, 240]
        assert out.getvalue().split() == ["step", "120", "240"]

    def test_csv_does_not_continue_another_table(self, tmp_path):
        (tmp_path / "a.csv").write_text("my notes\n")
        with pytest.raises(errors.ReporterError, match="must have a column named step"):
            report.Work("test", report.CSV(tmp_path / "a.csv"), done=5).__enter__()
        with report.Work("test", report.CSV(tmp_path / "b.csv")) as work:
            work({"step": 1, "a": 1.0})
            with pytest.raises(errors.ReporterError, match=r"columns must be step, a, got step, b"):
                work({"step": 2, "b": 1.0})

    @pytest.mark.peer
    def test_tensorboard_writes_curves(self, tmp_path):
        pytest.importorskip("tensorboardX")
        with report.Work("test", report.TensorBoard(tmp_path)) as work:
            work({"step": 1, "loss": 0.5, "none": None})
        assert any(b"loss" in path.read_bytes() for path in tmp_path.iterdir())

    def test_a_class_in_place_of_a_reporter(self):
        with pytest.raises(TypeError, match=r"got the class CSV \(make one: CSV\(\.\.\.\)\)"):
            report.Work("test", report.CSV)

    def test_all_are_closed_if_one_cannot_be_opened(self, tmp_path):
        first = report.CSV(tmp_path / "a.csv")
        with pytest.raises(errors.ReporterError):
            report.Work("test", [first, report.CSV(tmp_path / "no" / "b.csv")]).__enter__()
        assert first._file.closed


def test_errors_have_one_root_and_are_builtin_errors_too():
    import triskele.quantum.errors as q
    import triskele.reinforce.errors as r
    import triskele.sponge.errors as s

    found = [
        e
        for m in (errors, q, r, s)
        for e in vars(m).values()
        if isinstance(e, type) and issubclass(e, Exception) and not issubclass(e, Warning)
    ]
    assert len(found) > 30
    for e in found:
        assert issubclass(e, errors.TriskeleError), e
        if e not in (errors.TriskeleError, r.ReinforceError):
            assert any(b.__module__ == "builtins" and b is not Exception for b in e.__mro__[1:-3]), e
