"""Train a convolutional network to read handwritten digits (1,797 images of 8 x 8 pixels).

One jitted function is the whole training step: forward, backward, gradient clipping and Adam. It prints the accuracy on
the 360 images held back; a k-nearest-neighbor classifier reaches about 98 % on such a split.

    python examples/core/train_network.py [--output train_network.png]
"""

import argparse
import time
from pathlib import Path

import numpy as np

from triskele import core
from triskele.core import nn, optim, random

BATCH, EPOCHS = 64, 30


def init(key):
    k1, k2, k3 = random.split(key, 3)
    return {
        "conv1": nn.Conv2d(k1, 1, 16, 3),
        "conv2": nn.Conv2d(k2, 16, 32, 3, stride=2),
        "head": nn.Linear.init(k3, 4 * 4 * 32, 10),
    }


def network(params, images):
    x = nn.relu(params["conv1"](images))
    x = nn.relu(params["conv2"](x))
    return params["head"](x.reshape(len(x), -1))


def loss(params, images, labels):
    return nn.cross_entropy(network(params, images), labels)


optimizer = optim.Adam(optim.warmup(50, optim.cosine_decay(3e-3, EPOCHS * 1437 // BATCH)))


@core.jit
def train_step(params, state, images, labels):
    value, grads = core.value_and_grad(loss)(params, images, labels)
    params, state = optimizer.step(params, optim.clip_by_global_norm(grads, 1.0), state)
    return params, state, value


def main(output):
    data = np.load(Path(__file__).parent / "data" / "digits.npz")
    images, labels = (data["images"] / 16).astype(np.float32)[..., None], data["labels"].astype(np.int64)
    order = np.random.default_rng(0).permutation(len(images))
    test, train = order[:360], order[360:]

    params = init(random.key(0))
    state = optimizer.init(params)
    predict = core.jit(network)
    losses, accuracies = [], []
    started = time.perf_counter()
    for epoch in range(EPOCHS):
        shuffled = np.random.default_rng(epoch).permutation(train)
        for i in range(0, len(shuffled) - BATCH + 1, BATCH):
            batch = shuffled[i : i + BATCH]
            params, state, value = train_step(params, state, images[batch], labels[batch])
            losses.append(float(value))
        accuracies.append(np.mean(np.argmax(predict(params, images[test]), axis=1) == labels[test]))
    seconds = time.perf_counter() - started
    print(f"{len(losses)} training steps of {BATCH} images in {seconds:.1f} s, compilation included")
    print(f"accuracy on 360 unseen images: {accuracies[-1]:.1%}")

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    guess = np.argmax(predict(params, images[test]), axis=1)
    wrong = test[guess != labels[test]][:12]
    figure = plt.figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1.4, 1])
    axes = left.subplots()
    axes.semilogy(losses, lw=0.6, color="tab:blue")
    axes.set(xlabel="training step", ylabel="cross entropy of the batch",
             title=f"{accuracies[-1]:.1%} of unseen digits read rightly")
    cells = right.subplots(3, 4).ravel()
    for cell in cells:
        cell.axis("off")
    for cell, k in zip(cells, wrong, strict=False):
        cell.imshow(images[k, ..., 0], cmap="gray_r")
        cell.set_title(f"{labels[k]}, read {guess[list(test).index(k)]}", fontsize=8)
    right.suptitle("the ones it got wrong", fontsize=10)
    figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", default="train_network.png", help="where the picture goes")
    main(parser.parse_args().output)
