"""Segment cells in microscope-like images with a UNet: which pixels belong to a cell?

The images are drawn here: ellipses of several brightness on an uneven background, with noise. The network trains on 256
of them and is judged on 64 others by Dice's coefficient. A threshold on smoothed brightness, chosen
on the training images, is what it has to beat.

    python examples/core/segment_cells.py [--epochs 12] [--output segment_cells.png]
"""

import argparse
import time

import numpy as np
from scipy.ndimage import gaussian_filter

from triskele.core import data, models, nn, optim, random, train

SIZE = 64


def draw(count, seed):
    """Images (count, 64, 64, 1) and masks (count, 64, 64), 1 in cells."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:SIZE, :SIZE]
    images, masks = np.empty((count, SIZE, SIZE, 1), np.float32), np.zeros((count, SIZE, SIZE), np.int64)
    for image, mask in zip(images, masks, strict=True):
        field = 0.3 + 0.2 * np.sin(rows / SIZE * rng.uniform(1, 4) + rng.uniform(0, 6))
        for _ in range(rng.integers(3, 8)):
            y, x, a, b, angle = rng.uniform([0, 0, 4, 4, 0], [SIZE, SIZE, 11, 11, np.pi])
            u = (rows - y) * np.cos(angle) + (columns - x) * np.sin(angle)
            v = (columns - x) * np.cos(angle) - (rows - y) * np.sin(angle)
            inside = (u / a) ** 2 + (v / b) ** 2 < 1
            mask[inside] = 1
            field = np.where(inside, field + rng.uniform(0.15, 0.4), field)
        image[..., 0] = field + 0.15 * rng.normal(size=field.shape)
    return images, masks


def dice(guess, mask):
    """Twice the common pixels over the pixels of both."""
    return 2 * np.sum(guess & mask) / (np.sum(guess) + np.sum(mask))


def threshold(images, masks):
    """The level of smoothed brightness that separates the training images best."""
    levels = np.linspace(0.2, 1.0, 41)
    return max(levels, key=lambda level: dice(smooth(images) > level, masks == 1))


def smooth(images):
    """Images without most of their noise."""
    return gaussian_filter(images[..., 0], (0, 1.5, 1.5))


def main(epochs, output):
    images, masks = draw(320, seed=0)
    x, y, x_test, y_test = images[:256], masks[:256], images[256:], masks[256:]
    baseline = smooth(x_test) > threshold(x, y)
    print(f"threshold on smoothed brightness: Dice {dice(baseline, y_test == 1):.3f}")

    net = models.UNet.init(random.key(0), 1, 2, width=16, depth=2)
    source = data.arrays(x, y).shuffle(seed=0).batch(16)
    model = train.Model(net, nn.cross_entropy, optim.Adam(optim.one_cycle(5e-3, epochs * len(source))))
    began = time.perf_counter()
    model.fit(source, epochs, validation=data.arrays(x_test, y_test).batch(64))
    seconds = time.perf_counter() - began
    logits = model.predict(x_test)
    guess = logits.argmax(-1)
    print(f"UNet after {epochs} epochs, {seconds:.0f} s: Dice {dice(guess == 1, y_test == 1):.3f}")

    import matplotlib.pyplot

    matplotlib.use("Agg")
    from triskele.core.show import plots

    with plots.style():
        figure, axes = matplotlib.pyplot.subplots(3, 4, figsize=(6.0, 4.8), layout="constrained")
        titles = ("image", "truth", "threshold", "UNet")
        for row, k in zip(axes, range(3), strict=True):
            shown = (x_test[k, ..., 0], y_test[k], baseline[k], guess[k])
            for cell, title, picture in zip(row, titles, shown, strict=True):
                cell.imshow(picture, cmap="gray" if title == "image" else "cividis")
                cell.set(xticks=[], yticks=[], title=title if k == 0 else "")
                if title in titles[2:]:
                    cell.set_xlabel(f"Dice {dice(picture == 1, y_test[k] == 1):.2f}", fontsize=8)
        figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--output", default="segment_cells.png", help="where the picture goes")
    options = parser.parse_args()
    main(options.epochs, options.output)
