"""ResNet-8 of MLPerf Tiny on CIFAR-10: a step of 128 images, and the accuracy after 30 epochs (one turn: an hour)."""

import time

import numpy as np

GOALS = {"test accuracy %": "85", "step ms": "1.5x"}
NEEDS = "cifar"
BATCH, EPOCHS = 128, 30
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616)


def read(folder):
    """Images (n, 32, 32, 3) uint8 and labels of a folder with a folder for each class."""
    from PIL import Image

    classes = sorted(p for p in folder.iterdir() if p.is_dir())
    found = [(np.asarray(Image.open(path)), k) for k, place in enumerate(classes) for path in sorted(place.iterdir())]
    return np.stack([pixels for pixels, _ in found]), np.array([k for _, k in found])


def triskele(seed, options):
    """Augmentation and steps in the same loop; the accuracy of the first seed only."""
    from triskele.core import data, models, nn, optim, random, train

    x, y = read(options.cifar / "train")
    net = models.ResNet.init(random.key(seed), 8)
    augment = data.image.flip(0.5) | data.image.crop(32, pad=4) | data.image.normalize(MEAN, STD)
    source = data.arrays(x, y).shuffle(seed=seed).map(augment).batch(BATCH, drop_remainder=True)
    rates = optim.one_cycle(0.4, EPOCHS * len(source))
    model = train.Model(
        net, nn.cross_entropy, optim.SGD(rates, momentum=0.9, nesterov=True, l2=1e-4), metrics=["accuracy"]
    )
    images, labels = next(iter(source.iterate(epoch=0)))
    step, state = model.step, model.state
    times = []
    for _ in range(30):
        began = time.perf_counter()
        state = step(state, (images, labels, None))[0]
        times.append(time.perf_counter() - began)
    found = {"step ms": 1e3 * min(times)}
    if seed == 0:
        began = time.perf_counter()
        model.fit(source, EPOCHS, progress=False)
        found["30 epochs s"] = time.perf_counter() - began
        x, y = read(options.cifar / "test")
        test = data.arrays(x, y).map(data.image.normalize(MEAN, STD)).batch(500)
        found["test accuracy %"] = 100 * model.evaluate(test, progress=False)["accuracy"]
    return found


def torch(seed, options):
    """The step, channels last."""
    import torch
    from torch import nn

    torch.manual_seed(seed)

    class Block(nn.Module):
        def __init__(self, a, b, stride):
            super().__init__()
            self.one, self.two = nn.Conv2d(a, b, 3, stride, 1), nn.Conv2d(b, b, 3, 1, 1)
            self.norm_one, self.norm_two = nn.BatchNorm2d(b), nn.BatchNorm2d(b)
            self.short = nn.Identity() if stride == 1 else nn.Conv2d(a, b, 1, stride)

        def forward(self, x):
            y = self.norm_two(self.two(self.norm_one(self.one(x)).relu()))
            return (y + self.short(x)).relu()

    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, 1, 1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        Block(16, 16, 1),
        Block(16, 32, 2),
        Block(32, 64, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )
    net = net.to(memory_format=torch.channels_last)
    x = torch.randn(BATCH, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    y, loss = torch.randint(0, 10, (BATCH,)), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, nesterov=True, weight_decay=1e-4, fused=True)
    times = []
    for _ in range(30):
        began = time.perf_counter()
        optimizer.zero_grad()
        loss(net(x), y).backward()
        optimizer.step()
        times.append(time.perf_counter() - began)
    return {"step ms": 1e3 * min(times)}
