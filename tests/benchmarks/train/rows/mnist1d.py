"""MNIST-1D (Greydanus & Kobak, arXiv:2011.14439): 4,000 signals of 40 numbers in ten classes, a network 40-256-128-10.

The signals are made here as section 2 of the paper describes: templates of 12 numbers, padded, scaled, sheared, moved,
with correlated and uncorrelated noise.
"""

import numpy as np

from tests.benchmarks.train.loops import timed_fit, timed_torch

GOALS = {"accuracy %": "torch's within 0.3", "training s": "2x"}
BATCH, EPOCHS, RATE = 100, 40, 2e-3
TEMPLATES = (
    np.array(
        [
            [5, 6, 6.5, 6.75, 7, 7, 7, 7, 6.75, 6.5, 6, 5],
            [5, 3, 3, 3.4, 3.8, 4.2, 4.6, 5, 5.4, 5.8, 5, 5],
            [5, 6, 6.5, 6.5, 6, 5.25, 4.75, 4, 3.5, 3.5, 4, 5],
            [5, 6, 6.5, 6.5, 6, 5, 5, 6, 6.5, 6.5, 6, 5],
            [5, 4.4, 3.8, 3.2, 2.6, 2.6, 5, 5, 5, 5, 5, 5],
            [5, 3, 3, 3, 3, 5, 6, 6.5, 6.5, 6, 4.5, 5],
            [5, 4, 3.5, 3.25, 3, 3, 3, 3, 3.25, 3.5, 4, 5],
            [5, 7, 7, 6.6, 6.2, 5.8, 5.4, 5, 4.6, 4.2, 5, 5],
            [5, 4, 3.5, 3.5, 4, 5, 5, 4, 3.5, 3.5, 4, 5],
            [5, 4, 3.5, 3.5, 4, 5, 5, 5, 5, 4.7, 4.3, 5],
        ]
    )
    - 5
)


def split(seed):
    """Signals (5000, 40) and labels, to train and to test."""
    from scipy.ndimage import gaussian_filter1d

    rng = np.random.default_rng(seed)
    labels, signals = np.arange(5000) % 10, np.empty((5000, 40))
    for k, label in enumerate(labels):
        x = np.zeros(12 + rng.integers(36, 60))
        x[:12] = TEMPLATES[label] * (1 + 0.4 * (rng.random() - 0.5))
        x = np.roll(x, rng.integers(48))
        x += 0.25 * gaussian_filter1d(rng.normal(size=x.size), 2) * 2
        x += 0.75 * (rng.random() - 0.5) * np.linspace(-1, 1, x.size)
        x += 0.02 * rng.normal(size=x.size)
        signals[k] = np.interp(np.linspace(0, x.size - 1, 40), np.arange(x.size), x)
    order = rng.permutation(5000)
    signals, labels = ((signals - signals.mean()) / signals.std()).astype(np.float32)[order], labels[order]
    return signals[:4000], labels[:4000], signals[4000:], labels[4000:]


def triskele(seed, _options):
    """With epochs in memory."""
    from triskele.core import data, nn, optim, random, train

    x, y, x_test, y_test = split(seed)
    net = nn.MLP.init(random.key(seed), [40, 256, 128, 10], activation=nn.relu, dtype=np.float32)
    model = train.Model(net, nn.cross_entropy, optim.Adam(RATE), metrics=["accuracy"])
    source = data.arrays(x, y).shuffle(seed=seed).batch(BATCH)
    seconds = timed_fit(model, source, EPOCHS)
    return {"accuracy %": 100 * model.evaluate([(x_test, y_test)], progress=False)["accuracy"], "training s": seconds}


def torch(seed, _options):
    """Eager."""
    import torch
    from torch import nn

    torch.manual_seed(seed)
    x, y, x_test, y_test = (torch.from_numpy(a) for a in split(seed))
    net = nn.Sequential(nn.Linear(40, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))
    seconds = timed_torch(net, x, y, BATCH, EPOCHS, RATE)
    with torch.no_grad():
        return {"accuracy %": 100 * float((net(x_test).argmax(1) == y_test).float().mean()), "training s": seconds}
