"""Logs and pages of runs: what they say of hand-made runs, after kills, and what two runs differ in."""

import importlib
import json
import os
import signal
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

from triskele.core import data, jit, nn, optim, random, train
from triskele.core.compile.profile import timed
from triskele.core.errors import ReporterError
from triskele.core.train.report.landscape import landscape
from triskele.core.train.report.layers import layer_names
from triskele.core.train.report.log import read_log
from triskele.core.train.report.probe import histograms, image_url
from triskele.core.train.report.svg import line_chart

BATCH = np.ones((4, 1)), np.zeros((4, 1))
VOID = {"meta", "br", "img"}


def fit(page, *, rate=0.1, epochs=3, scale=1.0, more=(), **options):
    """A network of one weight, which each step multiplies by 1 - 2 rate scale^2."""
    model = train.Model(nn.Linear(np.ones((1, 1))), nn.mean_squared_error, optim.SGD(rate))
    batch = scale * BATCH[0], BATCH[1]
    model.fit([batch], epochs, callbacks=[train.Report(page, **{"profile": False, **options}), *more])
    return model


def logged(page, kind):
    return [e[kind] for e in read_log(page.with_suffix(".jsonl")) if kind in e]


class Checked(HTMLParser):
    """Complains of tags that do not close each other, and keeps the text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.text, self.tags = [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        self.text.append(text)


def check_page(path):
    """Return the text of a page that is well-formed and loads nothing."""
    text = path.read_text()
    found = Checked(text)
    assert "http:" not in text and "https:" not in text and "@import" not in text and "<script" not in text
    for tag, attributes in found.tags:
        assert tag not in ("link", "iframe", "object")
        for name in ("src", "href"):
            assert attributes.get(name, "data:").startswith("data:")
    assert "nan" not in [v for _, attributes in found.tags for v in attributes.values()]
    return " ".join(found.text)


def test_the_numbers_are_those_of_the_run(tmp_path):
    page = tmp_path / "run.html"
    model = fit(page, epochs=4)
    numbers = logged(page, "numbers")
    weights = 0.8 ** np.arange(5)
    np.testing.assert_allclose([n["record"]["loss"] for n in numbers], weights[:4] ** 2, rtol=1e-12)
    np.testing.assert_allclose([n["rate"] for n in numbers], 0.1)
    assert model.net.weight[0, 0] == pytest.approx(weights[4])
    (run,), (end,) = logged(page, "run"), logged(page, "end")
    assert run["settings"]["optimizer"].startswith("SGD(learning_rate=0.1") and run["steps"] == ["list of 1 batches"]
    assert end["reason"] is None and (end["epochs"], end["step"]) == (4, 4)
    looks = logged(page, "histograms")
    assert looks[-1]["parameters"]["weight"]["low"] == pytest.approx(weights[4])
    assert looks[-1]["gradients"]["weight"]["high"] == pytest.approx(2 * weights[4])
    text = check_page(page)
    assert "4 of 4" in text and "complete" in text and "Parameters and gradients" in text


def test_every_part_of_the_page(tmp_path):
    page = tmp_path / "images.html"
    images = np.random.default_rng(0).uniform(size=(32, 8, 8, 1)).astype(np.float32)
    source = data.arrays(images, np.arange(32) % 3).shuffle(seed=0).map(data.image.flip(0.5)).batch(8)
    net = nn.Sequential(
        [
            nn.Conv2d(random.key(0), 1, 4, 3),
            nn.relu,
            lambda x: x.reshape(len(x), -1),
            nn.Linear.init(random.key(1), 256, 3),
        ]
    )
    model = train.Model(net, nn.cross_entropy, optim.Adam(optim.one_cycle(1e-2, 8)), metrics=["accuracy"])
    model.fit(source, 2, validation=source, callbacks=[train.Report(page, landscape=True)])
    text = check_page(page)
    for part in (
        "Curves",
        "Time and memory of a step",
        "Parameters and gradients",
        "Data",
        "Network",
        "Loss landscape",
        "Settings",
        "System",
        "conv_kernel",
        "nn/convolution.py",
        "layers[3].weight",
        "shuffle(0)",
        "learning rate",
        "overhead",
    ):
        assert part in text, part
    (operations,) = logged(page, "operations")
    spent = sum(o["seconds"] for o in operations["rows"])
    assert spent + operations["overhead"] == pytest.approx(operations["seconds"])
    assert max(o["memory"] for o in operations["rows"]) >= 8 * 8 * 8 * 4 * 4  # what the convolution leaves for later
    (samples,) = logged(page, "samples")
    assert len(samples["images"]) == len(samples["labels"]) == 8
    grid = np.array(logged(page, "landscape")[0]["loss"], float)
    assert grid.shape == (21, 21) and grid[10, 10] == grid.min() or np.isfinite(grid).all()


def test_the_loss_by_steps_and_the_run_is_the_same_as_without_a_report(tmp_path):
    x = np.random.default_rng(0).normal(size=(600, 2))
    source = data.arrays(x, x[:, :1] * x[:, 1:]).shuffle(seed=0).batch(2)
    nets = []
    for kind in (source, list(source)):  # a compiled loop, and a stream
        for callbacks in ([], [train.Report(tmp_path / "run.html", profile=False)]):
            model = train.Model(nn.MLP.init(random.key(0), [2, 8, 1]), nn.mean_squared_error, optim.Adam(0.01))
            history = model.fit(kind, 2, validation=[(x, x[:, :1])], callbacks=callbacks)
            nets.append(model.net)
        losses = [e for e in read_log(tmp_path / "run.jsonl") if "loss" in e]
        steps = np.array([e["loss"]["step"] for e in losses])
        means = np.array([e["loss"]["mean"] for e in losses])
        assert 100 < len(losses) < 250 and np.all(steps[:50] == np.arange(1, 51)) and steps[-1] == 600
        counts = np.diff(steps, prepend=0)
        for epoch in (1, 2):
            of = np.array([e["epoch"] == epoch for e in losses])
            assert counts[of].sum() == 300
            assert np.average(means[of], weights=counts[of]) == pytest.approx(history["loss"][epoch - 1])
        assert "loss by steps" in check_page(tmp_path / "run.html")
    for without, reported in (nets[:2], nets[2:]):
        np.testing.assert_array_equal(reported.layers[0].weight, without.layers[0].weight)
    fit(tmp_path / "long.html", epochs=21)
    assert not logged(tmp_path / "long.html", "loss")


def test_operations_have_the_names_of_their_layers(tmp_path):
    net = {
        "encoder": nn.Sequential([nn.Linear.init(random.key(0), 64, 64), nn.relu, nn.LayerNorm.init(64)]),
        "head": nn.Linear.init(random.key(1), 64, 3),
    }
    loss = lambda net, batch: nn.cross_entropy(net["head"](net["encoder"](batch[0])), batch[1])
    state = (step := train.step(loss, optim.Adam(0.01))).init(net)
    batch = np.ones((128, 64), np.float32), np.arange(128) % 3
    found, slots = timed(jit(step.apply), (state, batch), {}, 0.01)
    names = layer_names(slots, state)
    products = [(names[o.order], o.shape) for o in found.operations if o.name == "product"]
    assert sorted(products) == [  # forward, and backward by the parameters and by the hidden units
        ("encoder.layers[0].weight", "float32[128,64]"),
        ("encoder.layers[0].weight", "float32[64,64]"),
        ("head.weight", "float32[128,3]"),
        ("head.weight", "float32[128,64]"),
        ("head.weight", "float32[64,3]"),
    ]
    updates = {names[o.order].partition(" + ")[0] for o in found.operations if "sqrt" in o.name}
    assert {"encoder.layers[0].weight", "head.weight"} <= updates


def test_a_resumed_run_continues_its_log(tmp_path):
    page = tmp_path / "run.html"
    fit(page, epochs=2, more=[train.Checkpoint(tmp_path / "state")])
    with open(page.with_suffix(".jsonl"), "ab") as file:  # an epoch after the checkpoint, and half a line
        file.write(b'{"epoch": 3, "numbers": {"record": {"epoch": 3, "loss": 9.0}}}\n{"epoch": 3')
    fit(page, epochs=5, more=[train.Checkpoint(tmp_path / "state")])
    records = [n["record"] for n in logged(page, "numbers")]
    assert [r["epoch"] for r in records] == [x["step"] for x in logged(page, "loss")] == [1, 2, 3, 4, 5]
    np.testing.assert_allclose([r["loss"] for r in records], 0.64 ** np.arange(5), rtol=1e-12)
    assert len(logged(page, "run")) == len(logged(page, "end")) == 1
    page.with_suffix(".jsonl").unlink()  # a lost log gets the numbers of the checkpoint
    fit(page, epochs=6, more=[train.Checkpoint(tmp_path / "state")])
    assert [n["record"]["epoch"] for n in logged(page, "numbers")] == [1, 2, 3, 4, 5, 6]
    fit(page, epochs=1)  # a new run begins a new log
    assert len(logged(page, "numbers")) == 1


KILLED = """
import os, signal, sys
import numpy as np
from triskele.core import nn, optim, train
model = train.Model(nn.Linear(np.ones((1, 1))), nn.mean_squared_error, optim.SGD(0.1))
kill = train.Lambda(epoch_end=lambda run: run.epoch == 3 and len(sys.argv) > 2 and os.kill(os.getpid(), signal.SIGKILL))
model.fit([(np.ones((4, 1)), np.zeros((4, 1)))], 5, callbacks=[
    train.Report(sys.argv[1] + "/run.html", profile=False), kill, train.Checkpoint(sys.argv[1] + "/state")])
"""


@pytest.mark.slow
def test_a_killed_run_leaves_a_log_that_the_next_one_continues(tmp_path):
    command = [sys.executable, "-c", KILLED, os.fspath(tmp_path)]
    assert subprocess.run([*command, "kill"], check=False, timeout=100).returncode == -signal.SIGKILL
    lines = (tmp_path / "run.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines if "numbers" in line] == [1, 2, 3]
    assert "without a word" in check_page(tmp_path / "run.html")
    subprocess.run(command, check=True, timeout=100)
    np.testing.assert_allclose(
        [n["record"]["loss"] for n in logged(tmp_path / "run.html", "numbers")], 0.64 ** np.arange(5), rtol=1e-12
    )


def test_runs_that_fail_say_so(tmp_path):
    def fail(_run):
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        fit(tmp_path / "run.html", more=[train.Lambda(epoch_end=fail)])
    assert "RuntimeError: no more" in check_page(tmp_path / "run.html")


def test_what_cannot_be_recorded_does_not_end_the_training(tmp_path):
    calls = []

    class Fragile(nn.Linear):
        def __call__(self, x):
            calls.append(1)
            if len(calls) == 1:  # the first who traces it is the report
                raise RuntimeError("not now")
            return super().__call__(x)

    model = train.Model(Fragile(np.ones((1, 1))), nn.mean_squared_error, optim.SGD(0.1))
    with pytest.warns(RuntimeWarning, match="network cannot be recorded, got RuntimeError: not now"):
        history = model.fit([BATCH], 2, callbacks=[train.Report(tmp_path / "run.html", profile=False)])
    assert len(history) == 2 and "2 of 2" in check_page(tmp_path / "run.html")


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200, 1e308])
def test_numbers_that_overflow_do_not_end_the_training(tmp_path, value):
    model = train.Model(nn.Linear(np.zeros((2, 1))), nn.mean_squared_error, optim.SGD(0.1))
    model.fit([(np.full((4, 2), value), np.ones((4, 1)))], 2, callbacks=[train.Report(tmp_path / "run.html")])
    check_page(tmp_path / "run.html")


MOST = float(np.finfo(np.float64).max)


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("y", [[1.0, 1e308], [-MOST, 0, MOST], [5e-324, MOST], [MOST, MOST], [5e-324, 5e-324]], ids=str)
def test_charts_show_every_float64(y, linear):
    drawn = line_chart({"y": (np.arange(len(y)), y)}, xlabel="x", label="y", linear=linear)
    heights = [float(p.split(",")[1]) for p in drawn.split('points="')[1].split('"')[0].split()]
    assert len(heights) == len(y) and all(12 <= h <= 180 for h in heights) and heights == sorted(heights)[::-1]
    assert (heights[0] > heights[-1]) == (y[0] < y[-1])
    assert drawn.count('class="grid"') > 1 and f"{y[-1]:.4g}" in drawn and "inf" not in drawn


def test_diverging_trainings_run_as_without_a_report(tmp_path):
    def diverge(**options):
        model = train.Model(
            nn.Linear(np.zeros((1, 1))), nn.mean_squared_error, optim.SGD(10**5.94 / 2)
        )  # 1e297 after 25 steps
        with np.errstate(all="ignore"):
            return model.fit([(np.ones((1, 1)), np.ones((1, 1)))], 40, progress=False, **options).records

    found = diverge(callbacks=[train.Report(tmp_path / "run.html", profile=False)])
    expected = diverge()
    assert 1e296 < expected[25]["loss"] < 1e298 and not np.isfinite(expected[26]["loss"])
    np.testing.assert_array_equal([r["loss"] for r in found], [r["loss"] for r in expected])
    check_page(tmp_path / "run.html")


def test_long_curves_keep_their_extremes():
    y = np.sin(np.arange(10_000) / 7.0)
    y[1234], y[9000] = 50.0, -50.0
    drawn = line_chart({"y": (np.arange(10_000), y)}, xlabel="x", label="y")
    heights = [float(p.split(",")[1]) for p in drawn.split('points="')[1].split('"')[0].split()]
    assert len(heights) <= 802
    assert min(heights) < 25 and max(heights) > 165  # of 12 to 180 pixels, with a margin of 5 %


def test_a_missing_folder_is_made_at_once_or_refused(tmp_path):
    report = train.Report(tmp_path / "new" / "deep" / "run.html")
    with report.opened(None):
        assert report.path.parent.is_dir()
    (tmp_path / "file").write_text("")
    with pytest.raises(ReporterError, match="run.html': the folder cannot be made: (Not a directory|File exists)"):
        train.Report(tmp_path / "file" / "run.html").opened(None).__enter__()


def test_two_runs_in_one_folder(tmp_path):
    fit(tmp_path / "a.html", more=[train.Report(tmp_path / "b.html", profile=False)])
    assert len(logged(tmp_path / "a.html", "numbers")) == len(logged(tmp_path / "b.html", "numbers")) == 3
    with pytest.raises(ReporterError, match="a.html': another run uses it"):
        fit(tmp_path / "a.html", more=[train.Report(tmp_path / "a.html", profile=False)])
    with pytest.raises(ValueError, match="Report: path must end in .html, got 'run.txt'"):
        train.Report("run.txt")
    (tmp_path / "c.jsonl").write_text("hello\nworld\n")
    with pytest.raises(ReporterError, match="c.jsonl': must be the log of a run, got line 1"):
        train.compare(tmp_path / "c", tmp_path / "a")
    with pytest.raises(FileNotFoundError, match="train.compare: the log of the run must exist"):
        train.compare(tmp_path / "a", tmp_path / "nowhere")


def test_compare_finds_exactly_what_differed(tmp_path):
    fit(tmp_path / "a.html")
    fit(tmp_path / "b.html", rate=0.2, epochs=5)
    fit(tmp_path / "c.html", scale=2.0)
    fit(tmp_path / "d.html")
    found = train.compare(tmp_path / "a.html", tmp_path / "b.jsonl")
    assert set(found.differences) == {"optimizer", "epochs"} and found.differences["epochs"] == (3, 5)
    assert found.final("loss") == pytest.approx((0.64**2, 0.36**4))
    assert found.lowest("loss") == found.final("loss") and found.highest("loss") == (1.0, 1.0)
    assert repr(found) == "<Comparison of a and b: optimizer, epochs differed; loss 0.4096 and 0.0168>"
    assert found.to_dataframe().loc["loss", "final a"] == pytest.approx(0.4096)
    assert "0.4096" in found._repr_html_()
    found.save(tmp_path / "both.html")
    assert "SGD(learning_rate=0.2" in check_page(tmp_path / "both.html")
    assert set(train.compare(tmp_path / "a", tmp_path / "c").differences) == {"hash of the data"}
    assert not train.compare(tmp_path / "a", tmp_path / "d").differences
    with pytest.raises(KeyError, match="must be .*loss.*, got .*los.*did you mean"):
        found.final("los")


def test_compare_takes_any_number_of_runs(tmp_path):
    for k in range(8):
        fit(tmp_path / f"run{k}.html", rate=0.05 * (k + 1))
    found = train.compare(*[tmp_path / f"run{k}" for k in range(8)])
    assert set(found.differences) == {"optimizer"} and len(found.differences["optimizer"]) == 8
    np.testing.assert_allclose(found.final("loss"), (1 - 0.1 * np.arange(1, 9)) ** 4, atol=1e-15)
    assert repr(found).startswith(
        "<Comparison of run0, run1, run2, run3, run4, run5, run6 and run7: optimizer differed;"
    )
    assert found.to_dataframe().loc["loss", "lowest run3"] == pytest.approx(0.6**4)
    found.save(tmp_path / "all.html")
    text = check_page(tmp_path / "all.html")
    np.testing.assert_allclose(found.losses[3][1], 0.6 ** np.arange(0, 6, 2))
    assert "loss by steps" in text and all(f"run{k}" in text for k in range(8))
    assert (tmp_path / "all.html").read_text().count('class="line c1 d1"') == len(found.curves) + 1  # the eighth run
    for folder in ("one", "two"):
        fit(tmp_path / folder / "run.html")
    names = train.compare(tmp_path / "run0", tmp_path / "one" / "run", tmp_path / "two" / "run").names
    assert names == ("run0", "one/run", "two/run")


def test_compared_runs_have_names_of_their_own(tmp_path):
    paths = [tmp_path / a / b / "run" for a, b in (("x", "one"), ("y", "one"), ("y", "two"))]
    for k, path in enumerate(paths):
        fit(path.with_suffix(".html"), rate=0.1 * (k + 1))
    found = train.compare(*paths, paths[0])
    assert found.names == ("x/one/run", "y/one/run", "two/run", "x/one/run (2)")
    table = found.to_dataframe()
    assert table.shape[1] == 3 * 4
    assert tuple(table.loc["loss", [f"final {name}" for name in found.names]]) == found.final("loss")
    found.save(tmp_path / "all.html")
    assert (tmp_path / "all.html").read_text().count("<polyline") == 4 * (len(found.curves) + 1)
    entries = [{"run": {}}]
    names = train.Comparison(entries, entries, ("a", "a", "a (2)", "a"), entries, entries).names
    assert names == ("a", "a (3)", "a (2)", "a (4)")


def test_compare_names_the_file_that_changed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_layers.py").write_text("WIDTH = 1\n")
    importlib.import_module("my_layers")
    fit(tmp_path / "a.html")
    (tmp_path / "my_layers.py").write_text("WIDTH = 2\n")
    fit(tmp_path / "b.html")
    del sys.modules["my_layers"]
    (what,) = train.compare(tmp_path / "a", tmp_path / "b").differences
    assert what == f"code of {(tmp_path / 'my_layers.py').resolve()}"


def test_an_interrupted_run_says_so(tmp_path):
    stop = train.Lambda(epoch_end=lambda run: run.epoch == 2 and os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path / "run.html", epochs=9, more=[stop])
    assert "stopped: interrupted" in check_page(tmp_path / "run.html")
    assert len(logged(tmp_path / "run.html", "numbers")) < 9


def test_histograms_and_images():
    found = histograms({"x": np.array([0.0, 1.0, 2.0, np.nan])})["x"]
    assert sum(found["counts"]) == 3 and (found["low"], found["high"], found["not finite"]) == (0.0, 2.0, 1)
    assert found["rms"] == pytest.approx(np.sqrt(5 / 3))
    image = pytest.importorskip("PIL.Image")
    import base64
    import io

    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    opened = image.open(io.BytesIO(base64.b64decode(image_url(pixels).split(",")[1])))
    np.testing.assert_array_equal(np.asarray(opened), pixels)


def test_landscape_of_a_quadratic():
    """With loss = |W - W0|^2 the surface is a paraboloid whose curvatures are those of the directions."""
    target = np.random.default_rng(0).normal(size=(3, 2))
    net = nn.Linear(target.copy(), np.ones(2))
    params, rest = nn.split(net)
    found = landscape(lambda net, _: np.sum((net.weight - target) ** 2), params, rest, np.ones(1), points=5)
    assert found["loss"][2, 2] == 0.0
    size = np.sum(target**2)  # a direction has the norms of the columns, so that a step of 1 has the norm of W
    np.testing.assert_allclose(found["loss"][[0, 4, 2, 2], [2, 2, 0, 4]], size, rtol=1e-12)
    np.testing.assert_allclose(found["loss"][1, 2], size / 4, rtol=1e-12)
