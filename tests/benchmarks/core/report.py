"""What reports and watchpoints of a training cost, and how much of a step the times of its operations account for.

``python -m tests.benchmarks.core.report [--epochs 200] [--turns 3]`` prints two tables. Trainings with and without
callbacks run in turns; of each, the fastest counts. The network is the convolutional one of
``examples/core/train_network.py`` without dropout, with 20 steps of 64 images an epoch.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from triskele import core
from triskele.core import data, nn, optim, random, train

WAYS = {
    "no callback": lambda page: [],
    "Report, profile=False": lambda page: [train.Report(page, profile=False)],
    "Report": lambda page: [train.Report(page)],
    "Watch": lambda page: [train.Watch()],
    "Watch(every=10)": lambda page: [train.Watch(every=10)],
}


def network() -> nn.Sequential:
    k1, k2, k3 = random.split(random.key(0), 3)
    return nn.Sequential(
        [
            nn.Conv2d(k1, 1, 16, 3),
            nn.BatchNorm.init(16),
            nn.relu,
            nn.Conv2d(k2, 16, 32, 3, stride=2),
            nn.BatchNorm.init(32),
            nn.relu,
            lambda x: x.reshape(len(x), -1),
            nn.Linear.init(k3, 512, 10),
        ]
    )


def model(net: object) -> train.Model:
    return train.Model(net, nn.cross_entropy, optim.Adam(1e-3), metrics=["accuracy"])


def costs(epochs: int, turns: int) -> dict[str, tuple[float, float]]:
    """Seconds of one epoch and of `epochs`, compilation included, by the callbacks."""
    rng = np.random.default_rng(0)
    images, labels = rng.uniform(size=(1280, 8, 8, 1)).astype(np.float32), rng.integers(0, 10, 1280)
    source = data.arrays(images, labels).shuffle(seed=0).map(data.image.crop(8, pad=1)).batch(64)
    best: dict[str, tuple[float, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(turns):
            for way, callbacks in WAYS.items():
                seconds = []
                for n in (1, epochs):
                    start = time.perf_counter()
                    model(network()).fit(source, n, callbacks=callbacks(Path(folder, "run.html")))
                    seconds.append(time.perf_counter() - start)
                best[way] = tuple(map(min, best.get(way, (np.inf, np.inf)), seconds))
    return best


def steps() -> dict[str, core.OperationTimes]:
    """Times of the operations of some training steps."""
    rng = np.random.default_rng(0)

    def of(net, x, classes=10):
        made = model(net)
        return core.profile(made.compiled, made.state, made.totals()[0], (x, rng.integers(0, classes, len(x))))

    def recurrent(w, xs):
        last, _ = core.scan(lambda h, x: (np.tanh(h @ w + x), None), np.zeros((16, 64)), xs)
        return np.sum(last**2)

    normal = lambda *shape: rng.normal(size=shape).astype(np.float32)
    return {
        "convolutional, batch 64": of(network(), normal(64, 8, 8, 1)),
        "MLP 4 x 1024, batch 64": of(nn.MLP.init(random.key(0), [1024] * 4 + [10]), normal(64, 1024)),
        "MLP 2 x 64, batch 32": of(nn.MLP.init(random.key(0), [4, 64, 64, 2]), normal(32, 4), 2),
        "gradient of a scan of 50": core.profile(
            core.grad(recurrent), rng.normal(size=(64, 64)) / 20, rng.normal(size=(50, 16, 64))
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore", train.TrainingWarning)
    found = costs(options.epochs, options.turns)
    plain = found["no callback"]
    print(f"{'callbacks':24}{'1 epoch [s]':>12}{f'{options.epochs} epochs [s]':>18}{'further epochs':>16}")
    for way, (one, many) in found.items():
        print(f"{way:24}{one:12.3f}{many:18.3f}{(many - one) / (plain[1] - plain[0]):15.3f}x")
    print(f"\n{'step':28}{'[ms]':>9}{'operations':>12}{'sum / step':>12}{'with / without clocks':>23}")
    for name, p in steps().items():
        print(
            f"{name:28}{1e3 * p.seconds:9.3f}{len(p.operations):12}{1 - p.overhead / p.seconds:12.3f}"
            f"{p.seconds / p.undisturbed:23.3f}"
        )


if __name__ == "__main__":
    main()
