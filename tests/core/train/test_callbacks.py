"""Callbacks against sequences worked by hand."""

import numpy as np
import pytest

from triskele.core import nn, optim, train


class Fixed(train.Callback):
    """Puts a sequence of values in place of the watched number."""

    def __init__(self, values):
        self.values = values

    def epoch_end(self, run):
        run.record["loss"] = self.values[run.epoch - 1]


def run(values, *callbacks, epochs=None):
    net = nn.Linear(np.ones((1, 1)))
    model = train.Model(net, nn.mean_squared_error, optim.SGD(0.01))
    batch = np.ones((2, 1)), np.zeros((2, 1))
    weights = []
    note = train.Lambda(epoch_end=lambda run: weights.append(float(run.net.weight[0, 0])))
    history = model.fit([batch], epochs=epochs or len(values), callbacks=[note, Fixed(values), *callbacks])
    return model, history, weights


NAN = float("nan")


@pytest.mark.parametrize(
    ("values", "options", "epochs", "best"),
    [
        ([3, 2, 1, 0.5], {"patience": 0}, 4, 4),  # always better: patience 0 does not stop at an improvement
        ([3, 2, 2, 1], {"patience": 0}, 3, 2),  # the first epoch without improvement is the last
        ([3, 2, 2, 2, 1, 1], {"patience": 2}, 6, 5),  # two are tolerated
        ([3, 2, 2, 2, 2, 1], {"patience": 2}, 5, 2),
        ([1, 0.0, 0.5, -1], {"patience": 1}, 4, 4),  # 0.0 is a value like any other
        ([1, 0.0, 0.5, 0.0], {"patience": 1}, 4, 2),
        ([0.5, 0.4, -0.1, 0.1], {"patience": 1, "baseline": 0.0}, 2, None),  # never below 0 within two epochs
        ([0.5, -0.1, 0.2, 0.2], {"patience": 1, "baseline": 0.0}, 4, 2),
        ([3, 2.95, 2.9, 2.8], {"patience": 2, "min_delta": 0.15}, 4, 4),  # small steps add up from the last best value
        ([NAN, NAN, 1, 0.5], {"patience": 1}, 2, None),  # NaN is no improvement
        ([1, NAN, 0.5, NAN, NAN], {"patience": 1}, 5, 3),
        ([1, 2, 3, 3], {"patience": 0, "mode": "max"}, 4, 3),
    ],
)
def test_early_stopping(values, options, epochs, best):
    stopping = train.EarlyStopping("loss", **options)
    model, history, weights = run(values, stopping)
    assert len(history) == epochs and stopping.best_epoch == best
    if best is not None:  # the parameters of the best epoch come back, even if the training ran to its end
        assert float(model.net.weight[0, 0]) == weights[best - 1]
    assert (history.stopped is None) == (epochs == len(values) and stopping.waited <= stopping.patience)


@pytest.mark.parametrize(
    ("values", "options", "scales"),
    [
        ([2, 1, 1, 1, 1], {"patience": 0, "factor": 0.5}, [1, 1, 0.5, 0.25, 0.125]),
        ([2, 1, 1, 1, 1, 1], {"patience": 1, "factor": 0.5}, [1, 1, 1, 0.5, 0.5, 0.25]),
        ([2, 1, 1, 1, 1, 1], {"patience": 0, "factor": 0.5, "cooldown": 2}, [1, 1, 0.5, 0.5, 0.5, 0.25]),
        ([2, 2, 2, 2], {"patience": 0, "factor": 0.1, "min_scale": 0.05}, [1, 0.1, 0.05, 0.05]),
        ([1, 0.0, 0.0, -1], {"patience": 0, "factor": 0.5}, [1, 1, 0.5, 0.5]),
    ],
)
def test_reduced_rates(values, options, scales):
    seen = []
    last = train.Lambda(epoch_end=lambda run: seen.append(run.rate_scale))
    _, _, weights = run(values, train.ReduceLROnPlateau("loss", **options), last)
    np.testing.assert_allclose(seen, scales)
    factors = np.array(weights[1:]) / np.array(weights[:-1])  # each step multiplies the weight by 1 - 0.02 scale
    np.testing.assert_allclose(factors, 1 - 0.02 * np.array(scales[:-1]), rtol=1e-12)


def test_the_best_parameters_come_back_after_an_error():
    def fail(run):
        if run.epoch == 3:
            raise RuntimeError

    net = nn.Linear(np.ones((1, 1)))
    model = train.Model(net, nn.mean_squared_error, optim.SGD(0.01))
    weights = []
    note = train.Lambda(epoch_end=lambda run: weights.append(float(run.net.weight[0, 0])))
    with pytest.raises(RuntimeError):
        model.fit(
            [(np.ones((2, 1)), np.zeros((2, 1)))],
            5,
            callbacks=[note, Fixed([2, 1, 1.5, 1]), train.EarlyStopping("loss"), train.Lambda(epoch_end=fail)],
        )
    assert float(model.net.weight[0, 0]) == weights[1]


def test_a_schedule_of_epochs_and_hooks_in_their_order():
    seen = []
    hooks = {
        name: (lambda run, name=name: seen.append(name))
        for name in ("run_begin", "epoch_begin", "step_begin", "step_end", "epoch_end", "run_end")
    }
    _, _, weights = run([1, 1], train.Schedule(lambda epoch: 0.5**epoch), train.Lambda(**hooks))
    assert seen == ["run_begin", *["epoch_begin", "step_begin", "step_end", "epoch_end"] * 2, "run_end"]
    np.testing.assert_allclose([weights[0], weights[1] / weights[0]], [1 - 0.02, 1 - 0.01])


def test_checkpoints_keep_the_last_and_the_best(tmp_path):
    run([3, 1, 2, 2], train.Checkpoint(tmp_path, best="loss", keep=2))
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == ["best.safetensors", "epoch-0003.safetensors", "epoch-0004.safetensors", "last.safetensors", "lock"]


def test_a_run_that_stopped_early_does_not_train_on(tmp_path):
    values = [3, 1, 2, 2, 2, 2]
    first = run(values, train.EarlyStopping("loss", patience=1), train.Checkpoint(tmp_path))
    again = run(values, train.EarlyStopping("loss", patience=1), train.Checkpoint(tmp_path))
    assert len(first[1]) == len(again[1]) == 4 and first[1].stopped == again[1].stopped
    assert first[0].net.weight == again[0].net.weight == first[2][1]


def test_a_reporter_ends_the_training():
    def enough(record):
        if record["epoch"] == 2:
            raise StopIteration("two are enough")

    model = train.Model(nn.Linear(np.ones((1, 1))), nn.mean_squared_error, optim.SGD(0.01))
    history = model.fit([(np.ones((2, 1)), np.zeros((2, 1)))], 5, report=enough)
    assert len(history) == 2 and history.stopped == "two are enough"
