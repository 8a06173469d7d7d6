"""CIFAR's augmentation of arrays: flip, crop with a border of 4, normalize; batches of 128 images of 32 x 32."""

import time

import numpy as np

GOALS = {"10,000 images ms": "10x"}
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616)
COUNT, BATCH = 10_000, 128


def images(seed):
    """Random pixels."""
    return np.random.default_rng(seed).integers(0, 256, (COUNT, 32, 32, 3), np.uint8)


def best(run):
    """Milliseconds of the fastest of five runs."""
    times = []
    for _ in range(6):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return 1e3 * min(times)


def triskele(seed, _options):
    """One pipeline; its transforms are one kernel for each batch."""
    from triskele.core import data

    augment = data.image.flip(0.5) | data.image.crop(32, pad=4) | data.image.normalize(MEAN, STD)
    source = data.arrays(images(seed)).shuffle(seed=0).map(augment).batch(BATCH)
    return {"10,000 images ms": best(lambda: [None for _ in source.iterate(epoch=0)])}


def torchvision(seed, _options):
    """Transforms v2, image by image as its data loaders do, in this process; then batches."""
    import torch
    from torchvision.transforms import v2

    pixels = torch.from_numpy(images(seed)).permute(0, 3, 1, 2).contiguous()
    augment = v2.Compose(
        [
            v2.RandomHorizontalFlip(0.5),
            v2.RandomCrop(32, padding=4),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
        ]
    )

    def run():
        order = torch.randperm(COUNT)
        for k in range(0, COUNT, BATCH):
            torch.stack([augment(pixels[i]) for i in order[k : k + BATCH]])

    return {"10,000 images ms": best(run)}
