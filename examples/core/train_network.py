"""Train a convolutional network to read handwritten digits (1,797 images of 8 x 8 pixels).

The images are moved by up to a pixel at random, and the network trains until the accuracy on 200 images held back no
longer improves. It prints the accuracy on 360 other images; a k-nearest-neighbor classifier reaches about 98 % on such
a split.

    python examples/core/train_network.py [--output train_network.png]
"""

import argparse
import time
from pathlib import Path

import numpy as np

from triskele.core import data, nn, optim, random, train

BATCH, EPOCHS = 64, 40


def network(key):
    k1, k2, k3 = random.split(key, 3)
    return nn.Sequential(
        [
            nn.Conv2d(k1, 1, 16, 3),
            nn.BatchNorm.init(16),
            nn.relu,
            nn.Conv2d(k2, 16, 32, 3, stride=2),
            nn.BatchNorm.init(32),
            nn.relu,
            lambda x: x.reshape(len(x), -1),
            nn.Dropout(0.2),
            nn.Linear.init(k3, 4 * 4 * 32, 10),
        ]
    )


def main(output):
    digits = np.load(Path(__file__).parent / "data" / "digits.npz")
    images, labels = (digits["images"] / 16).astype(np.float32)[..., None], digits["labels"].astype(np.int64)
    order = np.random.default_rng(0).permutation(len(images))
    test, held_out, rest = order[:360], order[360:560], order[560:]

    source = data.arrays(images[rest], labels[rest]).shuffle(seed=0).map(data.image.crop(8, pad=1)).batch(BATCH)
    rates = optim.one_cycle(1e-2, EPOCHS * len(source))
    model = train.Model(network(random.key(0)), nn.cross_entropy, optim.Adam(rates), metrics=["accuracy"], clip=1.0)
    started = time.perf_counter()
    history = model.fit(
        source,
        EPOCHS,
        validation=data.arrays(images[held_out], labels[held_out]).batch(200),
        callbacks=[
            train.EarlyStopping("validation/accuracy", patience=15),
            train.Report(Path(output).with_suffix(".html")),
        ],
    )
    seconds = time.perf_counter() - started
    accuracy = model.evaluate([(images[test], labels[test])])["accuracy"]
    print(f"{int(model.state.count)} training steps of {BATCH} images in {seconds:.1f} s, compilation included")
    print(f"accuracy on 360 unseen images: {accuracy:.1%}")

    import matplotlib.pyplot

    matplotlib.use("Agg")
    from triskele.core.show import plots

    guess = model.predict(images[test]).argmax(1)
    wrong = np.flatnonzero(guess != labels[test])[:12]
    with plots.style():
        figure = matplotlib.pyplot.figure(figsize=(7.0, 2.9), layout="constrained")
        left, right = figure.subfigures(1, 2, width_ratios=[1.4, 1])
        ax = history.plot(left.subplots(), names=["loss"])
        ax.set_title(f"{accuracy:.1%} of unseen digits read rightly")
        cells = right.subplots(3, 4).ravel()
        for cell in cells:
            cell.axis("off")
        for cell, k in zip(cells, wrong, strict=False):
            cell.imshow(images[test[k], ..., 0], cmap="gray_r")
            cell.set_title(f"{labels[test[k]]}, read {guess[k]}", fontsize=7)
        right.suptitle("the ones it got wrong")
        figure.savefig(output, dpi=150)
    print(f"picture: {output}, report of the run: {Path(output).with_suffix('.html')}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", default="train_network.png", help="where the picture goes")
    main(parser.parse_args().output)
