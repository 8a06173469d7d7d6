"""Train ResNet-8 on CIFAR-10, with augmentation, a one-cycle schedule, checkpoints and a report.

Give the folder of the images, ``train/CLASS/*`` and ``test/CLASS/*`` (60,000 files of 32 x 32 pixels): 30 epochs reach
82.7 % of the test images; MLPerf Tiny trains this network for 500 epochs to its target of 85 %. Without a folder, the
script draws ten kinds of pictures and trains for two minutes at most. A run that was stopped continues where it was
when it is started again with the same `--run`.

    python examples/core/train_cifar.py [--images FOLDER] [--epochs 30] [--run FOLDER] [--output train_cifar.png]
"""

import argparse
import time
from pathlib import Path

import numpy as np

from triskele.core import data, models, nn, optim, random, train

BATCH = 128
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616)


def read(folder):
    """Images (n, 32, 32, 3) uint8, labels, and names of the classes."""
    files = data.folders(folder)
    images, labels = zip(*files, strict=True)
    return np.stack(images), np.array(labels), files.classes


def draw(count, seed):
    """Ten kinds of pictures: stripes of five directions, and as many rings, in random colors and with noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:32, :32] - 16.0
    labels, images = np.arange(count) % 10, np.empty((count, 32, 32, 3), np.uint8)
    for image, label in zip(images, labels, strict=True):
        kind, phase = label % 5, rng.uniform(0, 6)
        across = x * np.cos(kind * np.pi / 5) + y * np.sin(kind * np.pi / 5)
        wave = np.sin(0.8 * across + phase) if label < 5 else np.sin(np.hypot(x, y) * (0.4 + 0.2 * kind) + phase)
        colors = rng.uniform(60, 200, (2, 3))
        field = colors[0] + (colors[1] - colors[0]) * (wave[..., None] > 0)
        image[...] = np.clip(field + 40 * rng.normal(size=field.shape), 0, 255)
    return images, labels, [f"{'stripes' if k < 5 else 'rings'} {k % 5 + 1}" for k in range(10)]


def main(folder, epochs, run, output):
    if folder is None:
        x, y, names = draw(2560, seed=0)
        x_test, y_test, _ = draw(500, seed=1)
    else:
        x, y, names = read(Path(folder) / "train")
        x_test, y_test, _ = read(Path(folder) / "test")
    print(f"{len(x)} images to train on, {len(x_test)} to test on: {', '.join(names)}")

    normalize = data.image.normalize(MEAN, STD)
    # the mirror image of a stripe belongs to another class
    augment = data.image.flip(0.5 if folder else 0.0) | data.image.crop(32, pad=4) | normalize
    source = data.arrays(x, y).shuffle(seed=0).map(augment).batch(BATCH, drop_remainder=True)
    test = data.arrays(x_test, y_test).map(normalize).batch(500)
    optimizer = optim.SGD(optim.one_cycle(0.4, epochs * len(source)), momentum=0.9, nesterov=True, l2=1e-4)
    model = train.Model(models.ResNet.init(random.key(0), 8), nn.cross_entropy, optimizer, metrics=["accuracy"])
    began = time.perf_counter()
    history = model.fit(source, epochs, validation=test, checkpoint=run)
    accuracy = history["validation/accuracy"][-1]
    print(f"{epochs} epochs in {time.perf_counter() - began:.0f} s: {accuracy:.1%} of the test images classified right")

    guess = np.concatenate([model.predict(images).argmax(1) for images, _ in test])
    confusion = np.zeros((10, 10))
    np.add.at(confusion, (y_test, guess), 1)
    confusion /= confusion.sum(1, keepdims=True)

    import matplotlib.pyplot

    matplotlib.use("Agg")
    from triskele.core.show import plots

    with plots.style():
        figure, (left, right) = matplotlib.pyplot.subplots(1, 2, figsize=(7.0, 3.2), layout="constrained")
        history.plot(left, names=["accuracy", "validation/accuracy"])
        left.set_title(f"ResNet-8: {accuracy:.1%}")
        picture = right.imshow(confusion, cmap="Blues", vmin=0, vmax=1)
        right.set(xticks=range(10), yticks=range(10), yticklabels=names, xlabel="classified as", ylabel="class")
        right.set_xticklabels(names, rotation=60, ha="right")
        right.tick_params(labelsize=7)
        figure.colorbar(picture, ax=right, label="share of the class")
        figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--images", help="folder with train/CLASS/* and test/CLASS/*")
    parser.add_argument("--epochs", type=int, help="default: 30 with images, 6 without")
    parser.add_argument("--run", help="folder of the checkpoint")
    parser.add_argument("--output", default="train_cifar.png", help="where the picture goes")
    options = parser.parse_args()
    main(options.images, options.epochs or (30 if options.images else 6), options.run, options.output)
