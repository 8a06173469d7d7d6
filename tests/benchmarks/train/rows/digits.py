"""A convolutional network on scikit-learn's digits: 20 epochs, accuracy on 360 images held back."""

import numpy as np

from tests.benchmarks.train.loops import timed_fit, timed_torch

GOALS = {"accuracy %": "torch's within 0.3", "training s": "2x"}
BATCH, EPOCHS, RATE = 64, 20, 3e-3


def split(seed):
    """Images (n, 8, 8, 1) and labels, to train and to test."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images, labels = (digits.images / 16).astype(np.float32)[..., None], digits.target.astype(np.int64)
    order = np.random.default_rng(seed).permutation(len(images))
    return images[order[360:]], labels[order[360:]], images[order[:360]], labels[order[:360]]


def triskele(seed, _options):
    """With epochs in memory."""
    from triskele.core import data, nn, optim, random, train

    x, y, x_test, y_test = split(seed)
    keys = random.split(random.key(seed), 3)
    net = nn.Sequential(
        [
            nn.Conv2d(keys[0], 1, 16, 3),
            nn.BatchNorm.init(16),
            nn.relu,
            nn.Conv2d(keys[1], 16, 32, 3, stride=2),
            nn.BatchNorm.init(32),
            nn.relu,
            lambda x: x.reshape(len(x), -1),
            nn.Linear.init(keys[2], 4 * 4 * 32, 10),
        ]
    )
    model = train.Model(net, nn.cross_entropy, optim.Adam(RATE), metrics=["accuracy"])
    source = data.arrays(x, y).shuffle(seed=seed).batch(BATCH, drop_remainder=True)
    seconds = timed_fit(model, source, EPOCHS)
    return {"accuracy %": 100 * model.evaluate([(x_test, y_test)], progress=False)["accuracy"], "training s": seconds}


def torch(seed, _options):
    """Eager, with its own random numbers and initial weights drawn as ours are."""
    import torch
    from torch import nn

    torch.manual_seed(seed)
    x, y, x_test, y_test = (torch.from_numpy(np.ascontiguousarray(a)) for a in split(seed))
    x, x_test = (a.permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last) for a in (x, x_test))
    net = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(4 * 4 * 32, 10),
    ).to(memory_format=torch.channels_last)
    seconds = timed_torch(net, x, y, BATCH, EPOCHS, RATE)
    with torch.no_grad():
        return {"accuracy %": 100 * float((net(x_test).argmax(1) == y_test).float().mean()), "training s": seconds}
