"""A UNet (16 channels, 2 halvings) that segments drawn cells: 64 x 64 pixels, 256 images, 12 epochs; Dice of others."""

import numpy as np

from tests.benchmarks.train.loops import timed_fit, timed_torch

GOALS = {"Dice %": "torch's within 0.3", "training s": "2x"}
BATCH, EPOCHS, RATE, WIDTH, DEPTH = 16, 12, 2e-3, 16, 2


def draw(seed, count=320, size=64):
    """Noisy images (count, size, size, 1) of ellipses of several brightness, and their masks as labels."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:size, :size]
    images, labels = np.empty((count, size, size, 1), np.float32), np.zeros((count, size, size), np.int64)
    for image, label in zip(images, labels, strict=True):
        field = 0.2 + 0.1 * np.sin(rows / size * rng.uniform(1, 4) + rng.uniform(0, 6))
        for _ in range(rng.integers(3, 8)):
            y, x, a, b, angle = rng.uniform([0, 0, 4, 4, 0], [size, size, 11, 11, np.pi])
            u = (rows - y) * np.cos(angle) + (columns - x) * np.sin(angle)
            v = (columns - x) * np.cos(angle) - (rows - y) * np.sin(angle)
            inside = (u / a) ** 2 + (v / b) ** 2 < 1
            label[inside] = 1
            field = np.where(inside, rng.uniform(0.35, 0.7), field)
        image[..., 0] = field + 0.15 * rng.normal(size=field.shape)
    return images[:256], labels[:256], images[256:], labels[256:]


def dice(guess, label):
    """Dice coefficient of all images together, in percent."""
    return 200 * float(np.sum(guess & label) / (np.sum(guess) + np.sum(label)))


def triskele(seed, _options):
    """With epochs in memory."""
    from triskele.core import data, models, nn, optim, random, train

    x, y, x_test, y_test = draw(seed)
    net = models.UNet.init(random.key(seed), 1, 2, width=WIDTH, depth=DEPTH)
    model = train.Model(net, nn.cross_entropy, optim.Adam(RATE))
    source = data.arrays(x, y).shuffle(seed=seed).batch(BATCH)
    seconds = timed_fit(model, source, EPOCHS)
    return {"Dice %": dice(model.predict(x_test).argmax(-1) == 1, y_test == 1), "training s": seconds}


def torch(seed, _options):
    """Eager, channels last, the same network."""
    import torch
    from torch import nn

    torch.manual_seed(seed)
    x, y, x_test, y_test = (torch.from_numpy(a) for a in draw(seed))
    x, x_test = (a.permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last) for a in (x, x_test))

    def double(a, b):
        return nn.Sequential(
            *(
                part
                for n in (a, b)
                for part in (nn.Conv2d(n, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU())
            )
        )

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            widths = [WIDTH << k for k in range(DEPTH + 1)]
            steps = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
            self.encoder = nn.ModuleList(double(a, b) for a, b in zip([1, *widths], widths, strict=False))
            self.upward = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, stride=2) for a, b in steps)
            self.decoder = nn.ModuleList(double(a, b) for a, b in steps)
            self.head = nn.Conv2d(WIDTH, 2, 1)

        def forward(self, x):
            skipped = []
            for k, layer in enumerate(self.encoder):
                x = layer(x if k == 0 else nn.functional.max_pool2d(x, 2))
                skipped.append(x)
            for up, layer, finer in zip(self.upward, self.decoder, skipped[-2::-1], strict=True):
                x = layer(torch.cat([finer, up(x)], 1))
            return self.head(x)

    net = UNet().to(memory_format=torch.channels_last)
    seconds = timed_torch(net, x, y, BATCH, EPOCHS, RATE)
    with torch.no_grad():
        return {"Dice %": dice(net(x_test).argmax(1).numpy() == 1, y_test.numpy() == 1), "training s": seconds}
