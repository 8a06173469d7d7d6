"""Progress bars say what they count, and nothing when they are switched off."""

from triskele.core.show.progress import progress_bar


def test_a_bar_that_continues(capsys):
    with progress_bar("training", "epoch", 10, done=4, show=True) as bar:
        bar.update(3)
        assert (bar.n, bar.total) == (7, 10)
    assert "training" in (shown := capsys.readouterr().err)
    assert "7.00/10.0" in shown or "7/10" in shown


def test_no_bar(capsys):
    for show in (False, None):  # None: only on a terminal
        with progress_bar("training", "epoch", 10, show=show) as bar:
            bar.update(10)
            bar.set_postfix_str("done")
    assert capsys.readouterr().err == ""
