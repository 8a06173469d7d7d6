"""Faults of data and of disks: training refuses what it cannot use and keeps what it saved."""

import resource
import signal

import numpy as np
import pytest

from triskele import core
from triskele.core import data, nn, optim, random, train

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 3)).astype(np.float32)
Y = RNG.integers(0, 2, 20)


def model():
    return train.Model(nn.MLP.init(random.key(0), [3, 4, 2]), nn.cross_entropy, optim.Adam(0.01))


def states(*models):
    return [core.tree.leaves(m.state) for m in models]


def fit(inputs, epochs=2, **options):
    trained = model()
    trained.fit(data.arrays(inputs, Y).batch(5), epochs=epochs, **options)
    return trained


@pytest.mark.parametrize("dtype", [object, str])
def test_arrays_that_hold_no_numbers(dtype):
    rows = X.astype(dtype)
    for source in (data.arrays(rows, Y).batch(5), [(rows, Y)]):
        with pytest.raises(TypeError, match="expected arrays of numbers, got dtype "):
            model().fit(source, epochs=1)


@pytest.mark.parametrize(
    "layout",
    [
        np.asfortranarray,
        lambda x: np.repeat(x, 2, axis=1)[:, ::2],
        lambda x: x[::-1].copy()[::-1],
        lambda x: x.astype(">f4"),
    ],
)
def test_the_layout_of_arrays_does_not_matter(layout):
    np.testing.assert_array_equal(layout(X), X)
    for a, b in zip(*states(fit(layout(X)), fit(X)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_batches_of_changing_shape():
    rows = [(X[:5], Y[:5]), (X[5:8], Y[5:8]), (X[8:20, :2], Y[8:20])]
    stopped, expected = model(), model()
    with pytest.raises(ValueError, match=r"Linear: the input must have shape .*3\), got \(12, 2\)"):
        stopped.fit(rows, epochs=1)
    expected.fit(rows[:2], epochs=1)
    for a, b in zip(*states(stopped, expected), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_full_disk_keeps_the_last_checkpoint(tmp_path):
    fit(X, epochs=1, checkpoint=tmp_path)
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300, limits[1]))
        with pytest.raises(OSError, match=r"last\.safetensors"):
            fit(X, epochs=3, checkpoint=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    for a, b in zip(*states(fit(X, epochs=3, checkpoint=tmp_path), fit(X, epochs=3)), strict=True):
        np.testing.assert_array_equal(a, b)
